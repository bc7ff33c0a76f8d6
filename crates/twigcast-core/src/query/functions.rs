//! The function library: one row of facts for each function. First those of XPath 1.0 (Recommendation, section 4), then
//! those that XPath 3.1 adds.
//!
//! The parser, the static types, the planner, the static analysis, the reference page and, through the bindings, the
//! overlays read the row of a function; `eval/functions.rs` has its code.

use crate::util::temporal::TemporalType;

/// The functions, in the order of their rows in [`FUNCTIONS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Function {
    Last,
    Position,
    Count,
    Id,
    LocalName,
    NamespaceUri,
    Name,
    String,
    Concat,
    StartsWith,
    Contains,
    SubstringBefore,
    SubstringAfter,
    Substring,
    StringLength,
    NormalizeSpace,
    Translate,
    Boolean,
    Not,
    True,
    False,
    Lang,
    Number,
    Sum,
    Floor,
    Ceiling,
    Round,
    LowerCase,
    UpperCase,
    EndsWith,
    StringJoin,
    Abs,
    Matches,
    XsDouble,
    XsDecimal,
    XsInteger,
    XsDateTime,
    XsDate,
    XsTime,
    XsDayTimeDuration,
    XsYearMonthDuration,
    YearFromDateTime,
    MonthFromDateTime,
    DayFromDateTime,
    HoursFromDateTime,
    MinutesFromDateTime,
    SecondsFromDateTime,
    YearFromDate,
    MonthFromDate,
    DayFromDate,
    HoursFromTime,
    MinutesFromTime,
    SecondsFromTime,
    YearsFromDuration,
    MonthsFromDuration,
    DaysFromDuration,
    HoursFromDuration,
    MinutesFromDuration,
    SecondsFromDuration,
    XsQName,
    ResolveQName,
    TwigVersion,
    Min,
    Max,
    Avg,
    DistinctValues,
    Tokenize,
    Replace,
    Intersect,
    Except,
    TwigWords,
    TwigFullText,
    TwigNow,
    TimeWithin,
    XsString,
    GeoIntersects,
    GeoDisjoint,
    GeoWithin,
    GeoContains,
    GeoDistance,
    GeoPoint,
    GeoCircle,
    GeoBox,
    GeoPolygon,
}

/// The type of an expression: those of XPath 1.0, and some of XML Schema. All are known without evaluating, except that of
/// a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ExprType {
    NodeSet,
    Boolean,
    Number,
    String,
    Temporal(TemporalType),
    Version,
    QName,
}

impl ExprType {
    /// Returns the name of the type as XPath writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::NodeSet => "node-set",
            Self::Boolean => "boolean",
            Self::Number => "number",
            Self::String => "string",
            Self::Temporal(kind) => kind.name(),
            Self::Version => "twig:version",
            Self::QName => "xs:QName",
        }
    }

    /// Returns the name with an article.
    pub fn one(self) -> String {
        let article = if self.name().starts_with("xs:") { "an" } else { "a" };
        format!("{article} {}", self.name())
    }
}

/// The part of the context, besides the node, that a value depends on. Later variants include earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dependence {
    /// Nothing.
    Node,
    /// The context position.
    Position,
    /// The context size, so that all candidates must be known first.
    Size,
}

/// The calls of a function that read the context (node, position or size).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextUse {
    /// None: the function works on its arguments only.
    Never,
    /// Calls without an argument: the context node takes its place.
    WithoutArgument,
    /// All calls.
    Always,
}

/// The value of a function whose first argument is an empty node-set, whatever the other arguments are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueWithoutNodes {
    /// A boolean.
    Boolean(bool),
    /// A number.
    Number(f64),
    /// The empty string.
    EmptyString,
    /// No value, which compares with nothing.
    Nothing,
}

/// The facts about a function that hold without evaluating it: a row of [`FUNCTIONS`].
#[derive(Clone, Copy, Debug)]
pub struct FunctionFacts {
    /// The function.
    pub function: Function,
    /// The name that queries write.
    pub name: &'static str,
    /// The form of a call, for messages.
    pub usage: &'static str,
    /// The type of the result.
    pub result_type: ExprType,
    /// Fewest arguments.
    pub arguments_min: usize,
    /// Most arguments; `usize::MAX` for any number.
    pub arguments_max: usize,
    /// The first argument must be a node-set, since no other type converts to one.
    pub takes_node_set: bool,
    /// The calls that read the context.
    pub context: ContextUse,
    /// The part of the context, besides the node, that it depends on.
    pub depends_on: Dependence,
    /// The value on an empty node-set (or an empty string); `None` if it depends on the rest.
    pub without_nodes: Option<ValueWithoutNodes>,
    /// Of a node-set it uses no more than the first node.
    pub uses_first_node: bool,
    /// The function reads parts of the message other than its arguments and the context node.
    pub looks_elsewhere: bool,
    /// The function is one of XPath 1.0; the others have the names and the meaning of XPath 3.1.
    pub is_of_xpath_1: bool,
    /// The items of the result are values, not nodes of the message.
    pub gives_values: bool,
    /// The name is written between the arguments.
    pub is_operator: bool,
}

impl FunctionFacts {
    const fn new(function: Function, name: &'static str, usage: &'static str, result_type: ExprType) -> Self {
        Self {
            function,
            name,
            usage,
            result_type,
            arguments_min: 1,
            arguments_max: 1,
            takes_node_set: false,
            context: ContextUse::Never,
            depends_on: Dependence::Node,
            without_nodes: None,
            uses_first_node: false,
            looks_elsewhere: false,
            is_of_xpath_1: true,
            gives_values: false,
            is_operator: false,
        }
    }

    const fn arguments(mut self, min: usize, max: usize) -> Self {
        self.arguments_min = min;
        self.arguments_max = max;
        self
    }

    const fn node_set(mut self) -> Self {
        self.takes_node_set = true;
        self
    }

    const fn first_node(mut self) -> Self {
        self.uses_first_node = true;
        self
    }

    const fn context(mut self, context: ContextUse) -> Self {
        self.context = context;
        self
    }

    const fn depends_on(mut self, dependence: Dependence) -> Self {
        self.depends_on = dependence;
        self
    }

    const fn elsewhere(mut self) -> Self {
        self.looks_elsewhere = true;
        self
    }

    const fn of_xpath_3(mut self) -> Self {
        self.is_of_xpath_1 = false;
        self
    }

    const fn values(mut self) -> Self {
        self.gives_values = true;
        self
    }

    const fn operator(mut self) -> Self {
        self.is_operator = true;
        self
    }

    const fn without_nodes(mut self, value: ValueWithoutNodes) -> Self {
        self.without_nodes = Some(value);
        self
    }

    /// Returns `true` if a call with so many arguments reads the context.
    pub fn reads_context(&self, arguments: usize) -> bool {
        match self.context {
            ContextUse::Never => false,
            ContextUse::WithoutArgument => arguments == 0,
            ContextUse::Always => true,
        }
    }
}

/// The facts of all functions. A row says what differs from: one argument of any type, no use of the context, and
/// an unknown value on an empty node-set.
#[rustfmt::skip]
pub static FUNCTIONS: [FunctionFacts; Function::GeoPolygon as usize + 1] = {
    use ContextUse::{Always, WithoutArgument};
    use ExprType as T;
    use Function as F;
    use TemporalType::{Date, DateTime, DayTimeDuration, Time, YearMonthDuration};
    use ValueWithoutNodes::EmptyString;
    const fn row(function: F, name: &'static str, usage: &'static str, result_type: T) -> FunctionFacts {
        FunctionFacts::new(function, name, usage, result_type)
    }
    const ZERO: ValueWithoutNodes = ValueWithoutNodes::Number(0.0);
    const NAN: ValueWithoutNodes = ValueWithoutNodes::Number(f64::NAN);
    const TRUE: ValueWithoutNodes = ValueWithoutNodes::Boolean(true);
    const FALSE: ValueWithoutNodes = ValueWithoutNodes::Boolean(false);
    const NOTHING: ValueWithoutNodes = ValueWithoutNodes::Nothing;
    [
        row(F::Last, "last", "last()", T::Number).arguments(0, 0).context(Always).depends_on(Dependence::Size),
        row(F::Position, "position", "position()", T::Number)
            .arguments(0, 0).context(Always).depends_on(Dependence::Position),
        row(F::Count, "count", "count(nodes)", T::Number).node_set().without_nodes(ZERO),
        row(F::Id, "id", "id(object)", T::NodeSet).elsewhere(),
        row(F::LocalName, "local-name", "local-name(nodes?)", T::String)
            .arguments(0, 1).node_set().context(WithoutArgument).first_node().without_nodes(EmptyString),
        row(F::NamespaceUri, "namespace-uri", "namespace-uri(nodes?)", T::String)
            .arguments(0, 1).node_set().context(WithoutArgument).first_node().without_nodes(EmptyString),
        row(F::Name, "name", "name(nodes?)", T::String)
            .arguments(0, 1).node_set().context(WithoutArgument).first_node().without_nodes(EmptyString),
        row(F::String, "string", "string(object?)", T::String)
            .arguments(0, 1).context(WithoutArgument).first_node().without_nodes(EmptyString),
        row(F::Concat, "concat", "concat(string, string, ...)", T::String).arguments(2, usize::MAX).first_node(),
        row(F::StartsWith, "starts-with", "starts-with(string, prefix)", T::Boolean).arguments(2, 2).first_node(),
        row(F::Contains, "contains", "contains(string, part)", T::Boolean).arguments(2, 2).first_node(),
        row(F::SubstringBefore, "substring-before", "substring-before(string, part)", T::String)
            .arguments(2, 2).first_node().without_nodes(EmptyString),
        row(F::SubstringAfter, "substring-after", "substring-after(string, part)", T::String)
            .arguments(2, 2).first_node().without_nodes(EmptyString),
        row(F::Substring, "substring", "substring(string, start, length?)", T::String)
            .arguments(2, 3).first_node().without_nodes(EmptyString),
        row(F::StringLength, "string-length", "string-length(string?)", T::Number)
            .arguments(0, 1).context(WithoutArgument).first_node().without_nodes(ZERO),
        row(F::NormalizeSpace, "normalize-space", "normalize-space(string?)", T::String)
            .arguments(0, 1).context(WithoutArgument).first_node().without_nodes(EmptyString),
        row(F::Translate, "translate", "translate(string, from, to)", T::String)
            .arguments(3, 3).first_node().without_nodes(EmptyString),
        row(F::Boolean, "boolean", "boolean(object)", T::Boolean).without_nodes(FALSE),
        row(F::Not, "not", "not(condition)", T::Boolean).without_nodes(TRUE),
        row(F::True, "true", "true()", T::Boolean).arguments(0, 0).without_nodes(TRUE),
        row(F::False, "false", "false()", T::Boolean).arguments(0, 0).without_nodes(FALSE),
        row(F::Lang, "lang", "lang(string)", T::Boolean).context(Always).elsewhere(),
        row(F::Number, "number", "number(object?)", T::Number)
            .arguments(0, 1).context(WithoutArgument).first_node().without_nodes(NAN),
        row(F::Sum, "sum", "sum(nodes)", T::Number).node_set().without_nodes(ZERO),
        row(F::Floor, "floor", "floor(number)", T::Number).first_node().without_nodes(NAN),
        row(F::Ceiling, "ceiling", "ceiling(number)", T::Number).first_node().without_nodes(NAN),
        row(F::Round, "round", "round(number)", T::Number).first_node().without_nodes(NAN),
        row(F::LowerCase, "lower-case", "lower-case(string)", T::String)
            .first_node().without_nodes(EmptyString).of_xpath_3(),
        row(F::UpperCase, "upper-case", "upper-case(string)", T::String)
            .first_node().without_nodes(EmptyString).of_xpath_3(),
        row(F::EndsWith, "ends-with", "ends-with(string, suffix)", T::Boolean)
            .arguments(2, 2).first_node().of_xpath_3(),
        row(F::StringJoin, "string-join", "string-join(nodes, separator?)", T::String)
            .arguments(1, 2).node_set().without_nodes(EmptyString).of_xpath_3(),
        row(F::Abs, "abs", "abs(number)", T::Number).first_node().without_nodes(NAN).of_xpath_3(),
        row(F::Matches, "matches", "matches(string, pattern, flags?)", T::Boolean)
            .arguments(2, 3).first_node().of_xpath_3(),
        row(F::XsDouble, "xs:double", "xs:double(value)", T::Number)
            .first_node().without_nodes(NOTHING).of_xpath_3(),
        row(F::XsDecimal, "xs:decimal", "xs:decimal(value)", T::Number)
            .first_node().without_nodes(NOTHING).of_xpath_3(),
        row(F::XsInteger, "xs:integer", "xs:integer(value)", T::Number)
            .first_node().without_nodes(NOTHING).of_xpath_3(),
        row(F::XsDateTime, "xs:dateTime", "xs:dateTime(value)", T::Temporal(DateTime))
            .first_node().without_nodes(NOTHING).of_xpath_3(),
        row(F::XsDate, "xs:date", "xs:date(value)", T::Temporal(Date))
            .first_node().without_nodes(NOTHING).of_xpath_3(),
        row(F::XsTime, "xs:time", "xs:time(value)", T::Temporal(Time))
            .first_node().without_nodes(NOTHING).of_xpath_3(),
        row(F::XsDayTimeDuration, "xs:dayTimeDuration", "xs:dayTimeDuration(value)", T::Temporal(DayTimeDuration))
            .first_node().without_nodes(NOTHING).of_xpath_3(),
        row(F::XsYearMonthDuration, "xs:yearMonthDuration", "xs:yearMonthDuration(value)", T::Temporal(YearMonthDuration))
            .first_node().without_nodes(NOTHING).of_xpath_3(),
        row(F::YearFromDateTime, "year-from-dateTime", "year-from-dateTime(value)", T::Number)
            .first_node().without_nodes(NOTHING).of_xpath_3(),
        row(F::MonthFromDateTime, "month-from-dateTime", "month-from-dateTime(value)", T::Number)
            .first_node().without_nodes(NOTHING).of_xpath_3(),
        row(F::DayFromDateTime, "day-from-dateTime", "day-from-dateTime(value)", T::Number)
            .first_node().without_nodes(NOTHING).of_xpath_3(),
        row(F::HoursFromDateTime, "hours-from-dateTime", "hours-from-dateTime(value)", T::Number)
            .first_node().without_nodes(NOTHING).of_xpath_3(),
        row(F::MinutesFromDateTime, "minutes-from-dateTime", "minutes-from-dateTime(value)", T::Number)
            .first_node().without_nodes(NOTHING).of_xpath_3(),
        row(F::SecondsFromDateTime, "seconds-from-dateTime", "seconds-from-dateTime(value)", T::Number)
            .first_node().without_nodes(NOTHING).of_xpath_3(),
        row(F::YearFromDate, "year-from-date", "year-from-date(value)", T::Number)
            .first_node().without_nodes(NOTHING).of_xpath_3(),
        row(F::MonthFromDate, "month-from-date", "month-from-date(value)", T::Number)
            .first_node().without_nodes(NOTHING).of_xpath_3(),
        row(F::DayFromDate, "day-from-date", "day-from-date(value)", T::Number)
            .first_node().without_nodes(NOTHING).of_xpath_3(),
        row(F::HoursFromTime, "hours-from-time", "hours-from-time(value)", T::Number)
            .first_node().without_nodes(NOTHING).of_xpath_3(),
        row(F::MinutesFromTime, "minutes-from-time", "minutes-from-time(value)", T::Number)
            .first_node().without_nodes(NOTHING).of_xpath_3(),
        row(F::SecondsFromTime, "seconds-from-time", "seconds-from-time(value)", T::Number)
            .first_node().without_nodes(NOTHING).of_xpath_3(),
        row(F::YearsFromDuration, "years-from-duration", "years-from-duration(value)", T::Number)
            .first_node().without_nodes(NOTHING).of_xpath_3(),
        row(F::MonthsFromDuration, "months-from-duration", "months-from-duration(value)", T::Number)
            .first_node().without_nodes(NOTHING).of_xpath_3(),
        row(F::DaysFromDuration, "days-from-duration", "days-from-duration(value)", T::Number)
            .first_node().without_nodes(NOTHING).of_xpath_3(),
        row(F::HoursFromDuration, "hours-from-duration", "hours-from-duration(value)", T::Number)
            .first_node().without_nodes(NOTHING).of_xpath_3(),
        row(F::MinutesFromDuration, "minutes-from-duration", "minutes-from-duration(value)", T::Number)
            .first_node().without_nodes(NOTHING).of_xpath_3(),
        row(F::SecondsFromDuration, "seconds-from-duration", "seconds-from-duration(value)", T::Number)
            .first_node().without_nodes(NOTHING).of_xpath_3(),
        row(F::XsQName, "xs:QName", "xs:QName('prefix:name')", T::QName).of_xpath_3(),
        row(F::ResolveQName, "resolve-QName", "resolve-QName(string, element)", T::QName)
            .arguments(2, 2).first_node().without_nodes(NOTHING).of_xpath_3(),
        row(F::TwigVersion, "twig:version", "twig:version(string)", T::Version)
            .first_node().without_nodes(NOTHING).of_xpath_3(),
        row(F::Min, "min", "min(items)", T::Number).node_set().without_nodes(NAN).of_xpath_3(),
        row(F::Max, "max", "max(items)", T::Number).node_set().without_nodes(NAN).of_xpath_3(),
        row(F::Avg, "avg", "avg(items)", T::Number).node_set().without_nodes(NAN).of_xpath_3(),
        row(F::DistinctValues, "distinct-values", "distinct-values(items)", T::NodeSet).node_set().values().of_xpath_3(),
        row(F::Tokenize, "tokenize", "tokenize(string, pattern?, flags?)", T::NodeSet)
            .arguments(1, 3).first_node().values().of_xpath_3(),
        row(F::Replace, "replace", "replace(string, pattern, replacement, flags?)", T::String)
            .arguments(3, 4).first_node().without_nodes(EmptyString).of_xpath_3(),
        row(F::Intersect, "intersect", "a intersect b", T::NodeSet).arguments(2, 2).node_set().operator().of_xpath_3(),
        row(F::Except, "except", "a except b", T::NodeSet).arguments(2, 2).node_set().operator().of_xpath_3(),
        row(F::TwigWords, "twig:words", "twig:words(string, options?, language?)", T::NodeSet)
            .arguments(1, 3).first_node().values().of_xpath_3(),
        row(F::TwigFullText, "twig:full-text", "twig:full-text(string, selection, language?)", T::Boolean)
            .arguments(2, 3).first_node().without_nodes(FALSE).of_xpath_3(),
        row(F::TwigNow, "twig:now", "twig:now()", T::Temporal(DateTime)).arguments(0, 0).elsewhere().of_xpath_3(),
        row(F::TimeWithin, "time:within", "time:within(time, 'Mo-Fr 07:00-19:00', 'Europe/Zurich')", T::Boolean)
            .arguments(3, 3).first_node().without_nodes(FALSE).of_xpath_3(),
        row(F::XsString, "xs:string", "xs:string(value)", T::String).first_node().without_nodes(EmptyString).of_xpath_3(),
        row(F::GeoIntersects, "geo:intersects", "geo:intersects(places, region)", T::Boolean)
            .arguments(2, 2).elsewhere().without_nodes(FALSE).of_xpath_3(),
        row(F::GeoDisjoint, "geo:disjoint", "geo:disjoint(places, region)", T::Boolean)
            .arguments(2, 2).elsewhere().without_nodes(FALSE).of_xpath_3(),
        row(F::GeoWithin, "geo:within", "geo:within(places, region)", T::Boolean)
            .arguments(2, 2).elsewhere().without_nodes(FALSE).of_xpath_3(),
        row(F::GeoContains, "geo:contains", "geo:contains(places, region)", T::Boolean)
            .arguments(2, 2).elsewhere().without_nodes(FALSE).of_xpath_3(),
        row(F::GeoDistance, "geo:distance", "geo:distance(places, geo:point(47.4, 8.5))", T::Number)
            .arguments(2, 2).elsewhere().without_nodes(NAN).of_xpath_3(),
        row(F::GeoPoint, "geo:point", "geo:point(latitude, longitude)", T::String).arguments(2, 2).of_xpath_3(),
        row(F::GeoCircle, "geo:circle", "geo:circle(latitude, longitude, kilometres)", T::String)
            .arguments(3, 3).of_xpath_3(),
        row(F::GeoBox, "geo:box", "geo:box(south, west, north, east)", T::String).arguments(4, 4).of_xpath_3(),
        row(F::GeoPolygon, "geo:polygon", "geo:polygon('lat,lon lat,lon ...', hole?, ...)", T::String)
            .arguments(1, usize::MAX).of_xpath_3(),
    ]
};

// Each row stands at the index of its function.
const _: () = {
    let mut index = 0;
    while index < FUNCTIONS.len() {
        assert!(FUNCTIONS[index].function as usize == index);
        index += 1;
    }
};

impl Function {
    /// Returns the function that is called by a name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        FUNCTIONS.iter().find(|row| row.name == name && !row.is_operator).map(|row| row.function)
    }

    /// Returns the row of the function.
    #[inline]
    pub fn facts(self) -> &'static FunctionFacts {
        &FUNCTIONS[self as usize]
    }

    /// Returns the name that queries write.
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// Returns the type of the result.
    #[inline]
    pub fn result_type(self) -> ExprType {
        self.facts().result_type
    }

    /// Returns whether the function is about places: one of those that make regions, or that ask for them.
    pub(crate) fn is_of_places(self) -> bool {
        self as usize >= Self::GeoIntersects as usize
    }
}
