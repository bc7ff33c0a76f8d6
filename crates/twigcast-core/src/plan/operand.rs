//! Operands: what of an element a condition compares with a constant, and how.
//!
//! Whatever depends on the element alone can be an operand: its text, an attribute, child elements, the nodes of any path,
//! and any function of these. So a function of a node is computed once for each node, and indexed like a plain value.

use std::sync::Arc;

use super::value_condition::{ConditionValue, number_key};
use crate::query::ast::{Axis, CompareOp, Expr, Function, NameTest, NodeTest, Path, PathStart, Step};
use crate::query::functions::ExprType;
use crate::query::pattern::Pattern;
use crate::query::position::uses_position;
use crate::query::typed::{CastType, TypedConstant, TypedValue};
use crate::util::number;
use crate::util::places::{Region, RegionQuestion, RegionRelation};
use crate::util::temporal::Temporal;
use crate::util::words::{PhraseWord, Selection, TextSelection, WordOptions};
use crate::vocabulary::Name;

/// A part of an element that is compared. An operand has no value, one, or several; a test holds if some value passes.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// Its string-value.
    Own,
    /// The value of an attribute.
    Attribute(Name),
    /// The values of its text children.
    Texts,
    /// The string-values of its child elements of a name.
    Children(NameTest),
    /// The string-values of the nodes that an expression selects from it.
    Nodes(Box<Expr>),
    /// The string that an expression has there.
    Text(Box<Expr>),
    /// The number that an expression has there.
    Number(Box<Expr>),
    /// The values of a type, as numbers of their order, that an expression has there: each node of it, or its only value.
    Typed(CastType, Box<Expr>),
    /// The places of the nodes, or of the text, that an expression has there.
    Places(Box<Expr>),
}

/// A child element, or one further below, that has a value.
#[derive(Clone, Debug)]
pub struct NeededChild<'o> {
    /// The names of the elements that lead to it, and its own: each is a child of the one before.
    pub path: Vec<Name>,
    /// The part of it that has the value: itself, an attribute, its text or its own children.
    pub key: Operand,
    /// The value.
    pub text: &'o str,
}

/// A range of numbers, both ends included, in the integers of [`ordered`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NumberRange {
    /// The least.
    pub low: u64,
    /// The greatest; below `low` if no number is in the range.
    pub high: u64,
}

/// A comparison of the values of an operand with a constant.
#[derive(Clone, Debug, PartialEq)]
pub enum Relation {
    /// Some value is that text.
    Equals(Box<str>),
    /// For each of these texts, in order, some value is another one.
    Differs(Box<[Box<str>]>),
    /// No value is one of these texts, in order.
    NoneEquals(Box<[Box<str>]>),
    /// Some value starts with that text, which is not empty.
    StartsWith(Box<str>),
    /// Some value contains that text, which is not empty.
    Contains(Box<str>),
    /// Some value is as that pattern says, which nothing is that has no characters. No index serves it.
    Matches(Arc<Pattern>),
    /// Some value is a number of that range, of which one end is open, or both are the same number.
    Within(NumberRange),
    /// Some value is a number not below the range, and some value one not above it: two conditions in one.
    Overlaps(NumberRange),
    /// No value is a number of that range, which has one bound, or both are the same number.
    NoneWithin(NumberRange),
    /// Some value is another number than that one (given by its bits), or none.
    OtherNumber(u64),
    /// Some place is as that question asks.
    Region(Arc<RegionQuestion>),
}

impl Relation {
    /// Returns whether it holds of an operand that has this one value.
    fn holds_of(&self, value: &str) -> bool {
        let number = || number_key(number::parse(value));
        match self {
            Self::Equals(text) => *value == **text,
            Self::Differs(texts) | Self::NoneEquals(texts) => !has_text(texts, value),
            Self::StartsWith(text) => value.starts_with(&**text),
            Self::Contains(text) => value.contains(&**text),
            Self::Matches(pattern) => pattern.is_match(value),
            Self::Within(range) | Self::Overlaps(range) => {
                number().is_some_and(|bits| (range.low..=range.high).contains(&ordered(bits)))
            }
            Self::NoneWithin(range) => !number().is_some_and(|bits| (range.low..=range.high).contains(&ordered(bits))),
            Self::OtherNumber(bits) => number() != Some(*bits),
            // It is asked of places, not of texts.
            Self::Region(_) => false,
        }
    }

    /// Returns whether it holds of an operand that has a value of that order, or none.
    fn holds_of_number(&self, number: Option<u64>) -> bool {
        let is_in = |range: &NumberRange| number.is_some_and(|number| (range.low..=range.high).contains(&number));
        match self {
            Self::Within(range) | Self::Overlaps(range) => is_in(range),
            Self::NoneWithin(range) => !is_in(range),
            Self::OtherNumber(bits) => number.is_some_and(|number| number != ordered(*bits)),
            Self::Equals(_)
            | Self::Differs(_)
            | Self::NoneEquals(_)
            | Self::StartsWith(_)
            | Self::Contains(_)
            | Self::Matches(_)
            | Self::Region(_) => false,
        }
    }
}

/// Returns whether a text is one of some, which are in order.
#[inline]
pub fn has_text(texts: &[Box<str>], text: &str) -> bool {
    match texts {
        [only] => **only == *text,
        _ => texts.binary_search_by(|one| (**one).cmp(text)).is_ok(),
    }
}

/// Returns a value as an integer that is in the order of the values of its type; `None` for NaN, which has no place there.
/// Of versions, many have the same one.
pub fn order_of(value: &TypedValue) -> Option<u64> {
    match value {
        TypedValue::Number(number) => number_key(*number).map(ordered),
        // Far from both ends of the integers, so that ranges may be open.
        TypedValue::Temporal(temporal) => Some(temporal.number().cast_unsigned() ^ 1 << 63),
        TypedValue::Version(version) => Some(version.prefix()),
        TypedValue::Name(_) => None,
    }
}

/// Returns the value of a type that an integer of [`order_of`] stands for.
pub(super) fn constant_of(cast: CastType, order: u64) -> Option<Expr> {
    Some(Expr::Typed(match cast {
        CastType::Double => TypedConstant::Double(number(order)),
        CastType::Temporal(kind) => {
            TypedConstant::Temporal(Temporal::of_number(kind, (order ^ 1 << 63).cast_signed())?)
        }
        CastType::Version => return None,
    }))
}

/// A condition on an element that compares an operand with a constant.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueTest {
    /// The operand.
    pub operand: Operand,
    /// The comparison and its constant.
    pub relation: Relation,
}

/// Returns a number, given by its bits and not NaN, as an integer of the same order.
pub fn ordered(bits: u64) -> u64 {
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

/// Returns the bits of which [`ordered`] makes an integer.
pub(super) fn unordered(ordered: u64) -> u64 {
    if ordered >> 63 == 1 { ordered & !(1 << 63) } else { !ordered }
}

/// Returns the number that an integer of [`ordered`] stands for.
pub(super) fn number(ordered: u64) -> f64 {
    f64::from_bits(unordered(ordered))
}

impl NumberRange {
    /// Returns the numbers that compare so with a bound, which is not NaN.
    fn of(op: CompareOp, bits: u64) -> Option<Self> {
        let (least, greatest) = (ordered(f64::NEG_INFINITY.to_bits()), ordered(f64::INFINITY.to_bits()));
        let bound = ordered(bits);
        Some(match op {
            CompareOp::Equal => Self { low: bound, high: bound },
            CompareOp::Less => Self { low: least, high: bound - 1 },
            CompareOp::LessOrEqual => Self { low: least, high: bound },
            CompareOp::Greater => Self { low: bound + 1, high: greatest },
            CompareOp::GreaterOrEqual => Self { low: bound, high: greatest },
            CompareOp::NotEqual => return None,
        })
    }

    /// Returns whether it is a single number.
    pub fn is_point(self) -> bool {
        self.low == self.high
    }

    /// Returns whether it has no lower bound.
    pub fn is_open_below(self) -> bool {
        self.low == ordered(f64::NEG_INFINITY.to_bits())
    }

    /// Returns whether it has no upper bound.
    pub fn is_open_above(self) -> bool {
        self.high == ordered(f64::INFINITY.to_bits())
    }

    /// Returns the range between a lower and an upper bound, if these are one of each.
    pub(super) fn between(self, other: Self) -> Option<Self> {
        if self.is_point() || other.is_point() {
            None
        } else if self.is_open_above() && other.is_open_below() {
            Some(Self { low: self.low, high: other.high })
        } else if self.is_open_below() && other.is_open_above() {
            Some(Self { low: other.low, high: self.high })
        } else {
            None
        }
    }
}

impl Operand {
    /// Returns where a path leads, as an operand of the node that it starts from; `None` if it starts elsewhere.
    pub(super) fn of_steps(steps: &[Step]) -> Self {
        match steps {
            [] => Self::Own,
            [step] if step.predicates.is_empty() => match (step.axis, &step.test) {
                (Axis::SelfAxis, NodeTest::Node) => Self::Own,
                (Axis::Attribute, NodeTest::Name(NameTest::Name(name))) => Self::Attribute(*name),
                (Axis::Child, NodeTest::Text) => Self::Texts,
                (Axis::Child, NodeTest::Name(test)) => Self::Children(*test),
                _ => Self::nodes(steps),
            },
            _ => Self::nodes(steps),
        }
    }

    fn nodes(steps: &[Step]) -> Self {
        Self::Nodes(Box::new(Expr::Path(Path { start: PathStart::Context, steps: steps.to_vec() })))
    }

    /// Returns the step that leads from an element to the operand's nodes; `None` for the element itself.
    pub(super) fn as_step(&self) -> Option<Option<Step>> {
        let step = |axis, test| Some(Some(Step { axis, test, predicates: Vec::new() }));
        match self {
            Self::Own => Some(None),
            Self::Attribute(name) => step(Axis::Attribute, NodeTest::Name(NameTest::Name(*name))),
            Self::Texts => step(Axis::Child, NodeTest::Text),
            Self::Children(test) => step(Axis::Child, NodeTest::Name(*test)),
            Self::Nodes(_) | Self::Text(_) | Self::Number(_) | Self::Typed(..) | Self::Places(_) => None,
        }
    }

    /// Returns the texts that an operand of a type reads, if these are those of another one; and whether it reads no more
    /// than the first.
    pub fn typed_source(expr: &Expr) -> Option<(Self, bool)> {
        match expr {
            Expr::Path(Path { start: PathStart::Context, steps }) => match steps.as_slice() {
                [step] if step.predicates.is_empty() => match Self::of_steps(steps) {
                    Self::Nodes(_) => None,
                    source => Some((source, false)),
                },
                _ => None,
            },
            Expr::Call { function, arguments }
                if arguments.iter().all(|argument| matches!(argument, Expr::Path(_))) =>
            {
                // The others read texts in ways of their own, or return another value.
                let reads_texts =
                    matches!(function.cast(), Some(CastType::Temporal(_))) || *function == Function::XsDouble;
                if reads_texts { Some((Self::typed_source(arguments.first()?)?.0, true)) } else { None }
            }
            _ => None,
        }
    }

    /// Returns the arguments of `twig:words()`, if the operand is the words of a text.
    pub fn words_of(&self) -> Option<&[Expr]> {
        match self {
            Self::Nodes(expr) => match &**expr {
                Expr::Call { function: Function::TwigWords, arguments } => Some(arguments),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns whether it is a number, of which there is always one.
    pub fn is_number(&self) -> bool {
        matches!(self, Self::Number(_))
    }

    /// Returns what an element below needs so that the operand has a value, or a number: `fact[@concept = 'X'] div 1000` has
    /// none without a `fact` that has this attribute.
    pub fn needed_child(&self) -> Option<NeededChild<'_>> {
        let steps = match self {
            Self::Nodes(expr) | Self::Number(expr) => steps_without(expr)?,
            _ => return None,
        };
        let mut path = Vec::new();
        for step in steps {
            let (Axis::Child, NodeTest::Name(NameTest::Name(name))) = (step.axis, &step.test) else { return None };
            path.push(*name);
            if let Some((key, text)) = step.predicates.iter().find_map(equality_in) {
                return Some(NeededChild { path, key, text });
            }
        }
        None
    }

    /// Returns the operand of a function that takes a string.
    fn of_string(expr: &Expr) -> Option<Self> {
        if uses_position(expr) {
            return None;
        }
        if let Expr::Path(Path { start: PathStart::Context, steps }) = expr {
            // At most one node: the empty string of none contains no text that is asked for.
            let operand = Self::of_steps(steps);
            if matches!(operand, Self::Own | Self::Attribute(_)) {
                return Some(operand);
            }
        }
        Some(Self::Text(Box::new(expr.clone())))
    }

    /// Returns the operand of a comparison other than a path.
    fn of_value(expr: &Expr) -> Option<Self> {
        if uses_position(expr) || expr.is_constant() {
            return None;
        }
        match expr.static_type(&[]) {
            ExprType::String => Some(Self::Text(Box::new(expr.clone()))),
            ExprType::Number => Some(Self::Number(Box::new(expr.clone()))),
            ExprType::NodeSet => Some(Self::Nodes(Box::new(expr.clone()))),
            ExprType::Temporal(_) | ExprType::Version => None,
            // Names are texts, of which those that are none are empty.
            ExprType::QName => Some(Self::Text(Box::new(expr.clone()))),
            ExprType::Boolean => None,
        }
    }
}

/// Returns the steps of a path that an expression is, or without which it is no number.
fn steps_without(expr: &Expr) -> Option<&[Step]> {
    match expr {
        Expr::Path(Path { start: PathStart::Context, steps }) => Some(steps),
        Expr::Negate(operand) => steps_without(operand),
        Expr::Arithmetic { op, left, right } if !op.is_of_temporals() => {
            steps_without(left).or_else(|| steps_without(right))
        }
        Expr::Call {
            function: Function::Number | Function::Floor | Function::Ceiling | Function::Round,
            arguments,
        } => steps_without(arguments.first()?),
        _ => None,
    }
}

/// Returns an equality with a text that a predicate asks for, of what can be read at the element itself.
fn equality_in(predicate: &Expr) -> Option<(Operand, &str)> {
    match predicate {
        Expr::And(operands) => operands.iter().find_map(equality_in),
        Expr::Compare { .. } => match predicate.compared_with_constant()? {
            (Expr::Path(Path { start: PathStart::Context, steps }), CompareOp::Equal, Expr::Literal(text)) => {
                let key = Operand::of_steps(steps);
                key.as_step().is_some().then_some((key, text))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Returns how an operand is compared with a constant; `None` if no value could pass, or every one would.
pub(super) fn relation(operand: &Operand, op: CompareOp, constant: &Expr) -> Option<Relation> {
    let is_equality = op.is_equality();
    let bits = match constant {
        Expr::Literal(text) if is_equality && !operand.is_number() => {
            let text = text.clone();
            return Some(if op == CompareOp::Equal {
                Relation::Equals(text)
            } else {
                Relation::Differs([text].into())
            });
        }
        Expr::Literal(text) => number_key(number::parse(text))?,
        Expr::Number(number) => number_key(*number)?,
        // What has no name is unequal to none.
        Expr::Typed(TypedConstant::Name(_, name)) if op == CompareOp::Equal => {
            return Some(Relation::Equals(name.clone()));
        }
        _ => return None,
    };
    Some(NumberRange::of(op, bits).map_or(Relation::OtherNumber(bits), Relation::Within))
}

/// Returns the type that an operand and a constant are compared in, and the constant's value.
fn typed_comparison(value: &Expr, constant: &Expr) -> Option<(CastType, TypedValue)> {
    let of = value.static_type(&[]);
    match (of, constant) {
        (ExprType::NodeSet, Expr::Typed(constant)) => {
            Some((Expr::Typed(constant.clone()).cast_type(constant.static_type())?, constant.value()))
        }
        (_, Expr::Typed(constant)) => Some((value.cast_type(of)?, constant.value())),
        (ExprType::Number, Expr::Number(number)) => Some((value.cast_type(of)?, TypedValue::Number(*number))),
        _ => None,
    }
}

impl ValueTest {
    /// Returns the comparison of values of a type with a constant, as one of their order.
    pub(super) fn of_typed(cast: CastType, value: &Expr, op: CompareOp, constant: &Expr) -> Option<Self> {
        if uses_position(value) {
            return None;
        }
        let (_, constant) = typed_comparison(value, constant)?;
        let order = order_of(&constant)?;
        let op = match op {
            // Values before and after one may have the same number of order.
            CompareOp::Less if cast == CastType::Version => CompareOp::LessOrEqual,
            CompareOp::Greater if cast == CastType::Version => CompareOp::GreaterOrEqual,
            // NaN has no order, and is unequal to all.
            CompareOp::NotEqual if matches!(cast, CastType::Version | CastType::Double) => return None,
            op => op,
        };
        let bits = unordered(order);
        let relation = NumberRange::of(op, bits).map_or(Relation::OtherNumber(bits), Relation::Within);
        Some(Self { operand: Operand::Typed(cast, Box::new(value.clone())), relation })
    }

    /// Returns the comparison of the nodes that steps lead to with a constant.
    pub(super) fn of_nodes(steps: &[Step], op: CompareOp, constant: &Expr) -> Option<Self> {
        if let Expr::Typed(_) = constant {
            let itself = Step { axis: Axis::SelfAxis, test: NodeTest::Node, predicates: Vec::new() };
            let steps = if steps.is_empty() { vec![itself] } else { steps.to_vec() };
            let nodes = Expr::Path(Path { start: PathStart::Context, steps });
            return match typed_comparison(&nodes, constant)? {
                (CastType::Version, _) => None,
                (cast, _) => Self::of_typed(cast, &nodes, op, constant),
            };
        }
        let operand = Operand::of_steps(steps);
        let relation = relation(&operand, op, constant)?;
        Some(Self { operand, relation })
    }

    /// Returns whether it holds of an operand that has this one value.
    pub fn holds_of(&self, value: &str) -> bool {
        match &self.operand {
            Operand::Typed(cast, _) => self.relation.holds_of_number(cast.parse(value).as_ref().and_then(order_of)),
            _ => self.relation.holds_of(value),
        }
    }

    /// Returns an equality of an attribute or a text child as a value that triggers can wait for; `None` for any other test.
    pub fn as_key(&self) -> Option<ConditionValue> {
        let bits = |range: &NumberRange| range.is_point().then(|| number_key(number(range.low)))?;
        match (&self.operand, &self.relation) {
            (Operand::Attribute(name), Relation::Equals(text)) => {
                Some(ConditionValue::AttributeText(*name, text.clone()))
            }
            (Operand::Attribute(name), Relation::Within(range)) => {
                Some(ConditionValue::AttributeNumber(*name, bits(range)?))
            }
            (Operand::Texts, Relation::Equals(text)) => Some(ConditionValue::Text(text.clone())),
            (Operand::Texts, Relation::Within(range)) => Some(ConditionValue::TextNumber(bits(range)?)),
            _ => None,
        }
    }

    /// Returns the test of which [`Self::as_key`] is this value.
    pub fn of_key(value: &ConditionValue) -> Option<Self> {
        let is = |bits: u64| Relation::Within(NumberRange { low: ordered(bits), high: ordered(bits) });
        let (operand, relation) = match value {
            ConditionValue::AttributeText(name, text) => (Operand::Attribute(*name), Relation::Equals(text.clone())),
            ConditionValue::AttributeNumber(name, bits) => (Operand::Attribute(*name), is(*bits)),
            ConditionValue::Text(text) => (Operand::Texts, Relation::Equals(text.clone())),
            ConditionValue::TextNumber(bits) => (Operand::Texts, is(*bits)),
            _ => return None,
        };
        Some(Self { operand, relation })
    }

    /// Returns the test that holds where this one does not, if an index serves it.
    pub(super) fn negated(self) -> Option<Self> {
        match self.relation {
            Relation::Within(range) if range.is_point() || range.is_open_above() != range.is_open_below() => {
                Some(Self { relation: Relation::NoneWithin(range), ..self })
            }
            Relation::Equals(text) => Some(Self { relation: Relation::NoneEquals([text].into()), ..self }),
            _ => None,
        }
    }

    /// Returns the test that an expression is, paths compared with constants aside.
    pub(super) fn of(expr: &Expr) -> Option<Self> {
        match expr {
            Expr::Compare { .. } => {
                let (value, op, constant) = expr.compared_with_constant()?;
                if let Some(near) = Self::of_distance(value, op, constant) {
                    return Some(near);
                }
                if let Some((cast, _)) = typed_comparison(value, constant) {
                    return if cast == CastType::Version { None } else { Self::of_typed(cast, value, op, constant) };
                }
                let operand = Operand::of_value(value)?;
                let relation = relation(&operand, op, constant)?;
                Some(Self { operand, relation })
            }
            Expr::Call { function, arguments } if function.is_of_places() => {
                let [places, Expr::Region(region)] = arguments.as_slice() else { return None };
                let relation = match function {
                    Function::GeoIntersects => RegionRelation::Intersects,
                    Function::GeoWithin => RegionRelation::Within,
                    Function::GeoContains => RegionRelation::Contains,
                    _ => return None,
                };
                Self::of_places(places, relation, region)
            }
            Expr::Call { function: function @ (Function::Contains | Function::StartsWith), arguments } => {
                let [value, Expr::Literal(part)] = arguments.as_slice() else { return None };
                if part.is_empty() {
                    return None;
                }
                let operand = Operand::of_string(value)?;
                let part = part.clone();
                let relation = match function {
                    Function::Contains => Relation::Contains(part),
                    _ => Relation::StartsWith(part),
                };
                Some(Self { operand, relation })
            }
            _ => None,
        }
    }

    fn of_places(places: &Expr, relation: RegionRelation, region: &Arc<Region>) -> Option<Self> {
        if uses_position(places) {
            return None;
        }
        let question = RegionQuestion::new(relation, Arc::clone(region));
        let operand = Operand::Places(Box::new(places.clone()));
        Some(Self { operand, relation: Relation::Region(Arc::new(question)) })
    }

    /// Returns the test that some place is nearer a point than so many kilometres.
    fn of_distance(distance: &Expr, op: CompareOp, constant: &Expr) -> Option<Self> {
        let Expr::Call { function: Function::GeoDistance, arguments } = distance else { return None };
        let [places, Expr::Region(region)] = arguments.as_slice() else { return None };
        let kilometres = match constant {
            Expr::Number(number) | Expr::Typed(TypedConstant::Double(number)) => *number,
            _ => return None,
        };
        let inclusive = match op {
            CompareOp::Less => false,
            CompareOp::LessOrEqual => true,
            _ => return None,
        };
        Self::of_places(places, RegionRelation::Nearer { kilometres: kilometres.to_bits(), inclusive }, region)
    }

    /// Returns the test that a match with a pattern is. Its value is read once for all patterns that are verified on it.
    pub(super) fn of_match(expr: &Expr) -> Option<Self> {
        let Expr::Call { function: Function::Matches, arguments } = expr else { return None };
        let [value, Expr::Pattern(pattern), ..] = arguments.as_slice() else { return None };
        // Of an attribute that is not there the operand has no value, and the function has an empty one.
        if pattern.is_match("") {
            return None;
        }
        Some(Self { operand: Operand::of_string(value)?, relation: Relation::Matches(Arc::clone(pattern)) })
    }

    /// Returns tests that hold wherever a match with a pattern does, besides those that lead to it: all texts of a value are
    /// found at once.
    pub(super) fn needed_parts(&self) -> Vec<Self> {
        let Relation::Matches(pattern) = &self.relation else { return Vec::new() };
        let relations = pattern.others_required().map(|part| Relation::Contains(part.into()));
        relations.map(|relation| Self { operand: self.operand.clone(), relation }).collect()
    }

    /// Returns the test that a word begins with what stands before the wildcards of a selection that is such words alone. Of other
    /// words there are conditions beside the selection.
    fn of_wildcards(value: &Expr, selection: &TextSelection) -> Option<Self> {
        let Selection::Phrase(phrase) = &selection.root else { return None };
        let prefixes: Option<Vec<_>> = phrase.words.iter().map(PhraseWord::prefix).collect();
        let prefix = prefixes?.into_iter().max_by_key(|prefix| prefix.len()).filter(|prefix| !prefix.is_empty())?;
        let options = WordOptions { stemming: false, ..phrase.options }.to_string();
        let mut arguments = vec![value.clone()];
        if !options.is_empty() {
            arguments.push(Expr::Literal(options.into()));
        }
        let operand = Operand::of_value(&Expr::Call { function: Function::TwigWords, arguments })?;
        Some(Self { operand, relation: Relation::StartsWith(prefix.into()) })
    }

    /// Returns tests of which one holds wherever the expression does, if it is no test itself: a text that ends with another
    /// one contains it, and one that matches a pattern contains what the pattern asks for. Empty: there are none.
    pub(super) fn implied_by(expr: &Expr) -> Vec<Self> {
        if let Some((value, op, constant)) = expr.compared_with_constant()
            && let Some((CastType::Version, _)) = typed_comparison(value, constant)
        {
            return Self::of_typed(CastType::Version, value, op, constant).into_iter().collect();
        }
        let Expr::Call { function, arguments } = expr else { return Vec::new() };
        if let (Function::TwigFullText, [value, Expr::Selection(selection), ..]) = (function, arguments.as_slice()) {
            return Self::of_wildcards(value, selection).into_iter().collect();
        }
        let (value, parts) = match (function, arguments.as_slice()) {
            (Function::EndsWith, [value, Expr::Literal(part)]) => (value.clone(), std::slice::from_ref(part)),
            (Function::Matches, [value, Expr::Pattern(pattern), ..]) if pattern.ignores_case() => {
                let lower = Expr::Call { function: Function::LowerCase, arguments: vec![value.clone()] };
                (lower, pattern.required())
            }
            (Function::Matches, [value, Expr::Pattern(pattern), ..]) => (value.clone(), pattern.required()),
            _ => return Vec::new(),
        };
        if parts.iter().any(|part| part.is_empty()) {
            return Vec::new();
        }
        let Some(operand) = Operand::of_string(&value) else { return Vec::new() };
        parts.iter().map(|part| Self { operand: operand.clone(), relation: Relation::Contains(part.clone()) }).collect()
    }
}
