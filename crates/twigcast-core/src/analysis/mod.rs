//! Static analysis: queries that are true of every message, or of none.
//!
//! An expression is evaluated on all messages at once, with *abstract values*: a node-set is known by the kinds of nodes
//! that may be in it, whether one certainly is, and whether more than one can be; a number by a range; truth and text
//! by themselves or not at all. Each rule holds on every well-formed document, so whatever the analysis finds is certain; much that is true is
//! not found (whether a path of the query's names exists, for instance, depends on the message alone).
//!
//! ```
//! use twigcast_core::analysis::truth;
//! use twigcast_core::limits::Limits;
//! use twigcast_core::query::{Dialect, ParseOptions, Query, normal, parse};
//! use twigcast_core::vocabulary::Vocabulary;
//!
//! let truth_of = |text| {
//!     let (limits, namespaces) = (Limits::default(), [("p", "urn:example")]);
//!     let options = ParseOptions::new(&namespaces, Dialect::XPath, &limits);
//!     let Ok(Query::XPath(expr)) = parse(text, &options, &mut Vocabulary::new()) else { unreachable!() };
//!     truth(&normal::normalise(expr))
//! };
//! assert_eq!(truth_of("count(//a) >= 0"), Some(true));
//! assert_eq!(truth_of("//a[@x = 1 and @x = 2]"), Some(false));
//! assert_eq!(truth_of("//a"), None);
//! ```

mod conditions;
mod kinds;
#[cfg(test)]
mod tests;
mod values;

use crate::document::{Document, Message};
use crate::eval::{self, Evaluator};
use crate::query::ast::{ArithmeticOp, Axis, CompareOp, Expr, Function, NodeTest, Path, PathStart, Step};
use crate::query::position::uses_position;
use crate::vocabulary::Vocabulary;

use kinds::NodeKinds;
use values::{AbstractNodes, AbstractNumber, AbstractValue};

/// Returns the truth of an expression in normal form on every message, if it is the same on all of them.
pub fn truth(expr: &Expr) -> Option<bool> {
    value(expr, StaticContext { kinds: NodeKinds::DOCUMENT, alone: true, has_no_nodes: false }).truth()
}

/// Returns the truth of an expression, at any context node, on messages where none of its paths selects a node, if that
/// is known. A path that only stays where it is (`.`, `/`) selects its node always; predicates count with their path.
///
/// Where the answer is false, one of the paths must select a node for the expression to be true.
pub fn truth_without_nodes(expr: &Expr) -> Option<bool> {
    value(expr, StaticContext { kinds: NodeKinds::ALL, alone: false, has_no_nodes: true }).truth()
}

/// The context in which an expression is evaluated.
#[derive(Clone, Copy)]
struct StaticContext {
    /// Kinds that the context node may be of.
    kinds: NodeKinds,
    /// The context size is 1.
    alone: bool,
    /// The assumption that no path from the context node or the document node selects anything else.
    has_no_nodes: bool,
}

fn value<'e>(expr: &'e Expr, context: StaticContext) -> AbstractValue<'e> {
    match expr {
        Expr::Or(operands) => AbstractValue::Boolean(conditions::any(operands, &|operand| value(operand, context))),
        Expr::And(operands) => AbstractValue::Boolean(conditions::all(operands, &|operand| value(operand, context))),
        Expr::Compare { op, left, right } => AbstractValue::Boolean(compare(*op, left, right, context)),
        Expr::Arithmetic { op, left, right } if op.is_of_temporals() => {
            temporal(expr, &value(left, context), &value(right, context))
        }
        Expr::Arithmetic { op, left, right } => arithmetic(*op, value(left, context), value(right, context)),
        Expr::Negate(operand) => match value(operand, context) {
            AbstractValue::Number(AbstractNumber::Is(number)) => AbstractValue::Number(AbstractNumber::Is(-number)),
            _ => AbstractValue::Number(AbstractNumber::ANY),
        },
        Expr::Union(members) => union(members, context),
        Expr::Map { nodes, .. } => values_of(&value(nodes, context)),
        Expr::Path(path) => self::path(path, context),
        Expr::Number(number) => AbstractValue::Number(AbstractNumber::Is(*number)),
        Expr::Literal(text) => AbstractValue::Text(Some((&**text).into())),
        Expr::Pattern(_) | Expr::Selection(_) | Expr::Region(_) => AbstractValue::Text(None),
        // What nodes compare with it is read in another way than for the same number.
        Expr::Typed(_) => AbstractValue::Typed,
        Expr::Call { function, arguments } => call(*function, arguments, context),
    }
}

/// Returns the values that are made of some items: none of nothing.
fn values_of<'e>(items: &AbstractValue<'_>) -> AbstractValue<'e> {
    AbstractValue::Nodes(if items.is_none() || items.is_empty_text() {
        AbstractNodes::NONE
    } else {
        AbstractNodes::ANY
    })
}

fn union<'e>(members: &[Expr], context: StaticContext) -> AbstractValue<'e> {
    let mut nodes = AbstractNodes::NONE;
    for member in members {
        match value(member, context) {
            AbstractValue::Nodes(more) => {
                nodes.single = (nodes.is_none() && more.single) || (more.is_none() && nodes.single);
                nodes.kinds = nodes.kinds | more.kinds;
                nodes.sure = if nodes.is_sure() { nodes.sure } else { more.sure };
            }
            _ => return AbstractValue::Nodes(AbstractNodes::ANY),
        }
    }
    AbstractValue::Nodes(nodes)
}

// Paths ---------------------------------------------------------------------------------------------------------------

fn path<'e>(path: &'e Path, context: StaticContext) -> AbstractValue<'e> {
    let mut nodes = match &path.start {
        PathStart::Root | PathStart::Context if context.has_no_nodes && !path.steps.iter().all(is_bare_self) => {
            AbstractNodes::NONE
        }
        PathStart::Root => AbstractNodes::one(NodeKinds::DOCUMENT),
        PathStart::Context => AbstractNodes::one(context.kinds),
        PathStart::Variable(_) if path.steps.is_empty() => return AbstractValue::Unknown,
        PathStart::Variable(_) => AbstractNodes::ANY,
        PathStart::Filter { primary, predicates } => match value(primary, context) {
            AbstractValue::Nodes(nodes) => filtered(nodes, predicates),
            other if path.steps.is_empty() && predicates.is_empty() => return other,
            _ => AbstractNodes::ANY,
        },
    };
    for step in &path.steps {
        if nodes.is_none() {
            break;
        }
        nodes = walk(nodes, step);
    }
    AbstractValue::Nodes(nodes)
}

/// Returns `true` if the step is `self::node()` without predicates.
fn is_bare_self(step: &Step) -> bool {
    step.axis == Axis::SelfAxis && step.test == NodeTest::Node && step.predicates.is_empty()
}

fn walk(from: AbstractNodes, step: &Step) -> AbstractNodes {
    let kinds = kinds::reached(from.kinds, step.axis, &step.test);
    let each = AbstractNodes {
        kinds,
        sure: kinds::certain(from.sure, step.axis, &step.test),
        single: kinds::is_single(from.kinds, step.axis, &step.test),
    };
    let kept = filtered(each, &step.predicates);
    AbstractNodes { single: from.single && kept.single, ..kept }
}

/// Returns the nodes that pass all predicates.
fn filtered(mut nodes: AbstractNodes, predicates: &[Expr]) -> AbstractNodes {
    let all_nodes = StaticContext { kinds: nodes.kinds, alone: nodes.single, has_no_nodes: false };
    for predicate in predicates {
        if nodes.is_none() {
            return AbstractNodes::NONE;
        }
        match value(predicate, StaticContext { kinds: nodes.kinds, alone: nodes.single, has_no_nodes: false }).truth() {
            Some(true) => {}
            Some(false) => return AbstractNodes::NONE,
            None => {
                if !keeps_one(predicate) {
                    nodes.sure = NodeKinds::NONE;
                }
                nodes.single |= is_position(predicate);
            }
        }
    }
    let non_positional = || predicates.iter().filter(|predicate| !uses_position(predicate));
    if predicates.len() > 1
        && conditions::exclude_each_other(non_positional(), &|condition| value(condition, all_nodes))
    {
        AbstractNodes::NONE
    } else {
        nodes
    }
}

/// Returns whether the predicate is true of one node of whatever there is: the first, or the last.
fn keeps_one(predicate: &Expr) -> bool {
    let Expr::Compare { op: CompareOp::Equal, left, right } = predicate else { return false };
    let is_one = |expr: &Expr| matches!(expr, Expr::Number(number) if *number == 1.0);
    let call = |expr: &Expr| match expr {
        Expr::Call { function: function @ (Function::Position | Function::Last), .. } => Some(*function),
        _ => None,
    };
    match (call(left), call(right)) {
        (Some(Function::Position), None) => is_one(right),
        (None, Some(Function::Position)) => is_one(left),
        (Some(one), Some(other)) => one != other,
        _ => false,
    }
}

/// Returns whether the predicate is true of one node at most: that at a fixed position, or the last.
fn is_position(predicate: &Expr) -> bool {
    let Expr::Compare { op: CompareOp::Equal, left, right } = predicate else { return false };
    let is_position = |expr: &Expr| matches!(expr, Expr::Call { function: Function::Position, .. });
    let is_fixed = |expr: &Expr| matches!(expr, Expr::Number(_) | Expr::Call { function: Function::Last, .. });
    (is_position(left) && is_fixed(right)) || (is_fixed(left) && is_position(right))
}

// Comparisons and arithmetic ------------------------------------------------------------------------------------------

fn compare(op: CompareOp, left: &Expr, right: &Expr, context: StaticContext) -> Option<bool> {
    if let (Expr::Call { function: one, .. }, Expr::Call { function: other, .. }) = (left, right) {
        match (one, other) {
            (Function::Position, Function::Last) => return within_size(op),
            (Function::Last, Function::Position) => return within_size(op.flipped()),
            _ => {}
        }
    }
    let (left, right) = (value(left, context), value(right, context));
    let is_boolean = |value: &AbstractValue<'_>| matches!(value, AbstractValue::Boolean(_));
    match (&left, &right) {
        (AbstractValue::Unknown, _) | (_, AbstractValue::Unknown) => None,
        _ if is_boolean(&left) || is_boolean(&right) => compare_truths(op, &left, &right),
        // With a node-set, a comparison asks for a node of which it is true.
        (AbstractValue::Nodes(nodes), other) | (other, AbstractValue::Nodes(nodes)) => {
            (nodes.is_none() || other.is_none() || never_holds(op, other)).then_some(false)
        }
        _ => match (left.constant(), right.constant()) {
            (Some(a), Some(b)) => folded(Expr::Compare { op, left: Box::new(a), right: Box::new(b) }).truth(),
            _ if never_holds(op, &left) || never_holds(op, &right) => Some(false),
            _ => match (left, right) {
                (AbstractValue::Number(a), AbstractValue::Number(b)) => a.compare(op, b),
                _ => None,
            },
        },
    }
}

/// Returns the value of a comparison of a position with the size.
fn within_size(op: CompareOp) -> Option<bool> {
    match op {
        CompareOp::LessOrEqual => Some(true),
        CompareOp::Greater => Some(false),
        _ => None,
    }
}

/// Returns the value of a comparison with a boolean: of truths, or of these as numbers.
fn compare_truths(op: CompareOp, left: &AbstractValue<'_>, right: &AbstractValue<'_>) -> Option<bool> {
    let ordered = !matches!(op, CompareOp::Equal | CompareOp::NotEqual);
    let is_scalar = |value: &AbstractValue<'_>| matches!(value, AbstractValue::Number(_) | AbstractValue::Text(_));
    if ordered && (is_scalar(left) || is_scalar(right)) {
        return (never_holds(op, left) || never_holds(op, right)).then_some(false);
    }
    Some(op.holds(left.truth()?.into(), right.truth()?.into()))
}

/// Is a comparison false whatever the other operand (no boolean, if it is for equality) is? Nothing is equal to NaN,
/// less or greater; and a text that is no number becomes that in a comparison by size.
fn never_holds(op: CompareOp, operand: &AbstractValue<'_>) -> bool {
    match (op, operand) {
        (CompareOp::NotEqual, _) => false,
        (_, AbstractValue::Number(AbstractNumber::Is(number))) => number.is_nan(),
        (CompareOp::Equal, _) => false,
        (_, AbstractValue::Text(Some(text))) => crate::util::number::parse(text).is_nan(),
        _ => false,
    }
}

/// Returns what is known of a sum of dates or durations: it is empty if one of them is.
fn temporal<'e>(expr: &Expr, left: &AbstractValue<'_>, right: &AbstractValue<'_>) -> AbstractValue<'e> {
    if left.is_none() || right.is_none() {
        return AbstractValue::Nodes(AbstractNodes::NONE);
    }
    AbstractValue::unknown(expr.static_type(&[]))
}

fn arithmetic<'e>(op: ArithmeticOp, left: AbstractValue<'e>, right: AbstractValue<'e>) -> AbstractValue<'e> {
    match (left.constant(), right.constant()) {
        (Some(a), Some(b)) => folded(Expr::Arithmetic { op, left: Box::new(a), right: Box::new(b) }),
        _ => AbstractValue::Number(AbstractNumber::ANY),
    }
}

// Functions -----------------------------------------------------------------------------------------------------------

fn call<'e>(function: Function, arguments: &'e [Expr], context: StaticContext) -> AbstractValue<'e> {
    let values: Vec<AbstractValue<'e>> = arguments.iter().map(|argument| value(argument, context)).collect();
    let size = AbstractNumber::counted(1.0, if context.alone { 1.0 } else { f64::INFINITY });
    match (function, &values[..]) {
        (Function::True, _) => return AbstractValue::Boolean(Some(true)),
        (Function::False, _) => return AbstractValue::Boolean(Some(false)),
        (Function::Boolean, [argument]) => return AbstractValue::Boolean(argument.truth()),
        (Function::Not, [argument]) => return AbstractValue::Boolean(argument.truth().map(|truth| !truth)),
        (Function::Position | Function::Last, _) => return AbstractValue::Number(size),
        (Function::Count, [AbstractValue::Nodes(nodes)]) => return AbstractValue::Number(nodes.count()),
        (Function::Matches, [text, ..]) => {
            let is_empty = text.is_none() || text.is_empty_text();
            return AbstractValue::Boolean(match &arguments[1] {
                Expr::Pattern(pattern) if is_empty => Some(pattern.is_match("")),
                _ => None,
            });
        }
        (Function::DistinctValues | Function::Tokenize | Function::TwigWords | Function::Except, [first, ..]) => {
            return values_of(first);
        }
        (Function::Intersect, [first, second]) => {
            return values_of(if first.is_none() { first } else { second });
        }
        // Both ask the message, whatever the argument.
        (Function::Lang, _) => return AbstractValue::Boolean(None),
        (Function::Id, _) => {
            return AbstractValue::Nodes(AbstractNodes { kinds: NodeKinds::ELEMENT, ..AbstractNodes::ANY });
        }
        (Function::Contains | Function::StartsWith | Function::EndsWith, [_, part]) if part.is_empty_text() => {
            return AbstractValue::Boolean(Some(true));
        }
        _ => {}
    }
    if let (Some(first), Some(value)) = (values.first(), function.facts().without_nodes)
        && (first.is_none() || first.is_empty_text())
    {
        return AbstractValue::of(value);
    }
    // What is left takes the string of a node-set.
    let constant = |value: &AbstractValue<'_>| {
        if value.is_none() { Some(Expr::Literal("".into())) } else { value.constant() }
    };
    let constants: Option<Vec<Expr>> = values.iter().map(constant).collect();
    match constants {
        Some(arguments) if !values.is_empty() => folded(Expr::Call { function, arguments }),
        _ if function == Function::StringLength => AbstractValue::Number(AbstractNumber::counted(0.0, f64::INFINITY)),
        _ => AbstractValue::unknown(function.result_type()),
    }
}

/// Returns the value of an expression of constants, as the evaluator finds it.
fn folded<'e>(expr: Expr) -> AbstractValue<'e> {
    // Constants look at no node.
    let (document, vocabulary) = (Document::default(), Vocabulary::new());
    let evaluator = Evaluator::new(Message { source: b"", document: &document }, &vocabulary, &[]);
    match evaluator.value(&expr, eval::Context::DOCUMENT) {
        Ok(eval::Value::Boolean(truth)) => AbstractValue::Boolean(Some(truth)),
        Ok(eval::Value::Number(number)) => AbstractValue::Number(AbstractNumber::Is(number)),
        Ok(eval::Value::String(text)) => AbstractValue::Text(Some(text.into_owned().into())),
        Ok(eval::Value::Nodes(_) | eval::Value::Temporal(_)) | Err(_) => AbstractValue::unknown(expr.static_type(&[])),
    }
}
