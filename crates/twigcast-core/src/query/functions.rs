//! The core function library (Recommendation, section 4): one row of facts for each function.
//!
//! The parser, the static types, the planner, the static analysis, the reference page and, through the bindings, the
//! overlays read the row of a function; `eval/functions.rs` has its code.

/// The core functions of XPath 1.0, in the order of their rows in [`FUNCTIONS`].
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
}

/// The type of an XPath 1.0 expression. All are known without evaluating, except that of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ExprType {
    NodeSet,
    Boolean,
    Number,
    String,
}

impl ExprType {
    /// Returns the name of the type as XPath 1.0 writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::NodeSet => "node-set",
            Self::Boolean => "boolean",
            Self::Number => "number",
            Self::String => "string",
        }
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

/// The facts of all core functions. A row says what differs from: one argument of any type, no use of the context, and
/// an unknown value on an empty node-set.
#[rustfmt::skip]
pub static FUNCTIONS: [FunctionFacts; Function::Round as usize + 1] = {
    use ContextUse::{Always, WithoutArgument};
    use ExprType as T;
    use Function as F;
    use ValueWithoutNodes::EmptyString;
    const fn row(function: F, name: &'static str, usage: &'static str, result_type: T) -> FunctionFacts {
        FunctionFacts::new(function, name, usage, result_type)
    }
    const ZERO: ValueWithoutNodes = ValueWithoutNodes::Number(0.0);
    const NAN: ValueWithoutNodes = ValueWithoutNodes::Number(f64::NAN);
    const TRUE: ValueWithoutNodes = ValueWithoutNodes::Boolean(true);
    const FALSE: ValueWithoutNodes = ValueWithoutNodes::Boolean(false);
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
    /// Returns the function with a name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        FUNCTIONS.iter().find(|row| row.name == name).map(|row| row.function)
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
}
