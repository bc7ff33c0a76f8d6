//! Boolean analysis of expressions: which are paths in disguise, which paths they cannot be true without.

use crate::query::ast::{Axis, CompareOp, Expr, Function, NodeTest, Path, PathStart, Step};

/// A value known without looking at any message.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum StaticValue {
    Boolean(bool),
    Number(f64),
    Text(String),
    /// A node-set with no node in it.
    NoNodes,
}

impl StaticValue {
    pub(super) fn boolean(&self) -> bool {
        match self {
            Self::Boolean(value) => *value,
            Self::Number(value) => *value != 0.0 && !value.is_nan(),
            Self::Text(value) => !value.is_empty(),
            Self::NoNodes => false,
        }
    }
}

/// Returns the value of an expression on a message where no path selects any node, if that much is easily known.
///
/// When it is false, some path of the expression must select a node for the expression to be true: the paths are a
/// necessary condition. Unknown is always a correct answer.
pub(super) fn value_without_nodes(expr: &Expr) -> Option<StaticValue> {
    use StaticValue::{Boolean, NoNodes, Number, Text};
    Some(match expr {
        Expr::Path(path) => match &path.start {
            PathStart::Root | PathStart::Context if path.steps.is_empty() => return None,
            PathStart::Root | PathStart::Context => NoNodes,
            PathStart::Filter { primary, .. } => match value_without_nodes(primary)? {
                NoNodes => NoNodes,
                _ => return None,
            },
            PathStart::Variable(_) => return None,
        },
        Expr::Union(operands) => {
            for operand in operands {
                if value_without_nodes(operand)? != NoNodes {
                    return None;
                }
            }
            NoNodes
        }
        Expr::Number(value) => Number(*value),
        Expr::Literal(value) => Text(value.to_string()),
        Expr::And(operands) => {
            let values: Vec<_> = operands.iter().map(|e| value_without_nodes(e).map(|v| v.boolean())).collect();
            if values.contains(&Some(false)) {
                Boolean(false)
            } else if values.contains(&None) {
                return None;
            } else {
                Boolean(true)
            }
        }
        Expr::Or(operands) => {
            let values: Vec<_> = operands.iter().map(|e| value_without_nodes(e).map(|v| v.boolean())).collect();
            if values.contains(&Some(true)) {
                Boolean(true)
            } else if values.contains(&None) {
                return None;
            } else {
                Boolean(false)
            }
        }
        Expr::Compare { op, left, right } => {
            Boolean(compare(*op, &value_without_nodes(left)?, &value_without_nodes(right)?)?)
        }
        Expr::Call { function, arguments } => return call_without_nodes(*function, arguments),
        Expr::Arithmetic { .. } | Expr::Negate(_) => return None,
    })
}

fn compare(op: CompareOp, left: &StaticValue, right: &StaticValue) -> Option<bool> {
    use StaticValue::{Boolean, NoNodes, Number, Text};
    match (left, right) {
        // An empty node-set compares false with anything but a boolean.
        (NoNodes, Boolean(_)) | (Boolean(_), NoNodes) => None,
        (NoNodes, _) | (_, NoNodes) => Some(false),
        (Text(a), Text(b)) if op == CompareOp::Equal => Some(a == b),
        (Text(a), Text(b)) if op == CompareOp::NotEqual => Some(a != b),
        (Number(a), Number(b)) => Some(match op {
            CompareOp::Equal => a == b,
            CompareOp::NotEqual => a != b,
            CompareOp::Less => a < b,
            CompareOp::LessOrEqual => a <= b,
            CompareOp::Greater => a > b,
            CompareOp::GreaterOrEqual => a >= b,
        }),
        _ => None,
    }
}

fn call_without_nodes(function: Function, arguments: &[Expr]) -> Option<StaticValue> {
    use StaticValue::{Boolean, NoNodes, Number, Text};
    let text = |index: usize| match value_without_nodes(arguments.get(index)?)? {
        Text(value) => Some(value),
        NoNodes => Some(String::new()),
        _ => None,
    };
    Some(match function {
        Function::Boolean => Boolean(value_without_nodes(&arguments[0])?.boolean()),
        Function::Not => Boolean(!value_without_nodes(&arguments[0])?.boolean()),
        Function::True => Boolean(true),
        Function::False => Boolean(false),
        Function::Count | Function::Sum => match value_without_nodes(&arguments[0])? {
            NoNodes => Number(0.0),
            _ => return None,
        },
        Function::String | Function::NormalizeSpace | Function::LocalName | Function::Name | Function::NamespaceUri
            if arguments.len() == 1 && text(0)?.is_empty() =>
        {
            Text(String::new())
        }
        Function::StringLength if arguments.len() == 1 && text(0)?.is_empty() => Number(0.0),
        Function::Contains => Boolean(text(0)?.contains(&text(1)?)),
        Function::StartsWith => Boolean(text(0)?.starts_with(&text(1)?)),
        Function::SubstringBefore | Function::SubstringAfter | Function::Substring | Function::Translate
            if text(0)?.is_empty() =>
        {
            Text(String::new())
        }
        Function::Number if arguments.len() == 1 && text(0).is_some_and(|t| t.is_empty()) => Number(f64::NAN),
        _ => return None,
    })
}

/// Returns the expression as one location path whose existence is the expression's truth, where that is exact:
/// `P`, `boolean(P)`, `count(P) > 0`, `P = 'v'` (as `P[. = 'v']`) and the like.
pub(super) fn as_path(expr: &Expr) -> Option<Path> {
    match expr {
        Expr::Path(path) if matches!(path.start, PathStart::Root | PathStart::Context) => Some(path.clone()),
        Expr::Call { function: Function::Boolean, arguments } => as_path(&arguments[0]),
        Expr::Compare { op, left, right } => {
            if let (Expr::Call { function: Function::Count, arguments }, Expr::Number(bound)) = (&**left, &**right) {
                let at_least_one = matches!(
                    (*op, *bound),
                    (CompareOp::Greater | CompareOp::NotEqual, 0.0) | (CompareOp::GreaterOrEqual, 1.0)
                );
                return if at_least_one { as_path(&arguments[0]) } else { None };
            }
            let (path, constant, op) = match (&**left, &**right) {
                (Expr::Path(path), Expr::Number(_) | Expr::Literal(_)) => (path, right, *op),
                (Expr::Number(_) | Expr::Literal(_), Expr::Path(path)) => (path, left, mirrored(*op)),
                _ => return None,
            };
            compared(path, op, constant)
        }
        _ => None,
    }
}

/// `P op c` as `P[. op c]`.
fn compared(path: &Path, op: CompareOp, constant: &Expr) -> Option<Path> {
    if !matches!(path.start, PathStart::Root | PathStart::Context) || path.steps.is_empty() {
        return None;
    }
    let mut path = path.clone();
    let this = Path {
        start: PathStart::Context,
        steps: vec![Step { axis: Axis::SelfAxis, test: NodeTest::Node, predicates: vec![] }],
    };
    path.steps.last_mut()?.predicates.push(Expr::Compare {
        op,
        left: Box::new(Expr::Path(this)),
        right: Box::new(constant.clone()),
    });
    Some(path)
}

/// Returns the operator with its operands swapped.
pub(super) fn mirrored(op: CompareOp) -> CompareOp {
    match op {
        CompareOp::Less => CompareOp::Greater,
        CompareOp::LessOrEqual => CompareOp::GreaterOrEqual,
        CompareOp::Greater => CompareOp::Less,
        CompareOp::GreaterOrEqual => CompareOp::LessOrEqual,
        same => same,
    }
}

/// Returns absolute paths of which at least one selects a node whenever the expression is true; `None` if none are known.
pub(super) fn necessary_paths(expr: &Expr) -> Option<Vec<Path>> {
    if let Expr::And(operands) = expr {
        // Any conjunct will do; the one with the longest single path filters best.
        return operands
            .iter()
            .filter_map(necessary_paths)
            .min_by_key(|paths| (paths.len(), usize::MAX - paths.iter().map(|p| p.steps.len()).min().unwrap_or(0)));
    }
    if value_without_nodes(expr).is_none_or(|value| value.boolean()) {
        return None;
    }
    let mut paths = Vec::new();
    collect_paths(expr, &mut paths)?;
    (!paths.is_empty()).then_some(paths)
}

/// Returns all location paths of an expression that hang on the document node, predicates' own paths excepted.
fn collect_paths(expr: &Expr, paths: &mut Vec<Path>) -> Option<()> {
    match expr {
        Expr::Path(path) => match &path.start {
            PathStart::Root | PathStart::Context => paths.push(path.clone()),
            PathStart::Filter { primary, .. } => collect_paths(primary, paths)?,
            PathStart::Variable(_) => return None,
        },
        Expr::Or(operands) | Expr::And(operands) | Expr::Union(operands) => {
            for operand in operands {
                collect_paths(operand, paths)?;
            }
        }
        Expr::Compare { left, right, .. } | Expr::Arithmetic { left, right, .. } => {
            collect_paths(left, paths)?;
            collect_paths(right, paths)?;
        }
        Expr::Negate(operand) => collect_paths(operand, paths)?,
        Expr::Call { arguments, .. } => {
            for argument in arguments {
                collect_paths(argument, paths)?;
            }
        }
        Expr::Number(_) | Expr::Literal(_) => {}
    }
    Some(())
}

/// Returns whether the predicate's value may depend on the context position or size (or be a number, which is compared
/// with it).
pub(super) fn is_positional(predicate: &Expr) -> bool {
    may_be_number(predicate) || uses_position(predicate)
}

fn may_be_number(expr: &Expr) -> bool {
    match expr {
        Expr::Number(_) | Expr::Arithmetic { .. } | Expr::Negate(_) => true,
        Expr::Call { function, .. } => matches!(
            function,
            Function::Last
                | Function::Position
                | Function::Count
                | Function::StringLength
                | Function::Number
                | Function::Sum
                | Function::Floor
                | Function::Ceiling
                | Function::Round
        ),
        Expr::Path(Path { start: PathStart::Filter { primary, .. }, steps }) if steps.is_empty() => {
            may_be_number(primary)
        }
        _ => false,
    }
}

fn uses_position(expr: &Expr) -> bool {
    match expr {
        Expr::Call { function: Function::Position | Function::Last, .. } => true,
        Expr::Call { arguments, .. } => arguments.iter().any(uses_position),
        Expr::Or(operands) | Expr::And(operands) | Expr::Union(operands) => operands.iter().any(uses_position),
        Expr::Compare { left, right, .. } | Expr::Arithmetic { left, right, .. } => {
            uses_position(left) || uses_position(right)
        }
        Expr::Negate(operand) => uses_position(operand),
        // Predicates of steps have a context of their own; a filter's primary expression has not.
        Expr::Path(Path { start: PathStart::Filter { primary, .. }, .. }) => uses_position(primary),
        Expr::Path(_) | Expr::Number(_) | Expr::Literal(_) => false,
    }
}

/// Returns whether the expression asks for element structure only: forward paths over names, `and`, `or`, `not()`, no
/// positions and no values. Then its truth at an element depends only on the shape of the subtree, duplicates aside.
pub(super) fn is_structural(expr: &Expr) -> bool {
    match expr {
        Expr::Or(operands) | Expr::And(operands) => operands.iter().all(is_structural),
        Expr::Call { function: Function::Not | Function::Boolean, arguments } => is_structural(&arguments[0]),
        Expr::Call { function: Function::True | Function::False, .. } => true,
        Expr::Union(operands) => operands.iter().all(is_structural),
        Expr::Path(path) => {
            matches!(path.start, PathStart::Context)
                && path.steps.iter().enumerate().all(|(index, step)| match (step.axis, &step.test) {
                    // Only in front of a step to children does it not matter that it also leads to text.
                    (Axis::DescendantOrSelf, NodeTest::Node) => {
                        step.predicates.is_empty()
                            && path
                                .steps
                                .get(index + 1)
                                .is_some_and(|next| matches!(next.axis, Axis::Child | Axis::Descendant))
                    }
                    (Axis::Child | Axis::Descendant | Axis::DescendantOrSelf | Axis::SelfAxis, NodeTest::Name(_))
                    | (Axis::SelfAxis, NodeTest::Node) => {
                        step.predicates.iter().all(|p| !is_positional(p) && is_structural(p))
                    }
                    _ => false,
                })
        }
        _ => false,
    }
}

/// Returns whether this is the step `descendant-or-self::node()` of the abbreviation `//`.
pub(super) fn is_double_slash(step: &Step) -> bool {
    step.axis == Axis::DescendantOrSelf && step.test == NodeTest::Node && step.predicates.is_empty()
}
