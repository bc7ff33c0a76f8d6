//! Results that are not empty: what the dialect `xquery` asks of a For-Where-Return query.
//!
//! There a query matches where it has a result, and an empty sequence is none. The engine matches where a binding passes. So
//! bindings of which nothing is returned are kept from passing, by what is added to `where`; the result stays the same. Where
//! that cannot be said so, another processor has to evaluate the query.

use super::ast::{Expr, Path, PathStart, VariableId};
use super::flwr::{BindingClause, FlwrExpr, FlwrQuery, ItemExpr};
use super::functions::{ExprType, Function};
use super::matching::existence_of;

/// What is known of the variables of a query.
#[derive(Clone, Copy)]
struct Known<'q> {
    types: &'q [ExprType],
    /// Those that hold values rather than nodes.
    values: &'q [VariableId],
}

impl Known<'_> {
    fn gives_values(self, expr: &Expr) -> bool {
        match expr {
            Expr::Path(Path { start: PathStart::Variable(id), steps }) => steps.is_empty() && self.values.contains(id),
            Expr::Path(Path { start: PathStart::Filter { primary, .. }, steps }) => {
                steps.is_empty() && self.gives_values(primary)
            }
            other => other.gives_values(),
        }
    }

    fn exist(self, items: &Expr) -> Expr {
        existence_of(items.clone(), &|expr| self.gives_values(expr))
    }
}

/// When an item has a value that is not the empty sequence.
enum Presence {
    Always,
    Never,
    /// Where this is true.
    Where(Expr),
}

/// Returns a query of which only bindings pass that something is returned for; `None` if that cannot be said.
///
/// `value_variables` hold values rather than nodes.
pub(super) fn with_results(query: FlwrQuery, value_variables: &[VariableId]) -> Option<FlwrQuery> {
    let types: Vec<ExprType> = query.variables.iter().map(|variable| variable.value_type).collect();
    let known = Known { types: &types, values: value_variables };
    let body = match query.body {
        ItemExpr::Flwr(flwr) => ItemExpr::Flwr(Box::new(returning(*flwr, known)?)),
        ItemExpr::Sequence(items) => {
            let items = items.into_iter().map(|item| match item {
                ItemExpr::Flwr(flwr) => Some(ItemExpr::Flwr(Box::new(returning(*flwr, known)?))),
                // What stands beside it is a result on each message.
                _ => None,
            });
            ItemExpr::Sequence(items.collect::<Option<_>>()?)
        }
        _ => return None,
    };
    Some(FlwrQuery { body, ..query })
}

fn returning(mut flwr: FlwrExpr, known: Known<'_>) -> Option<FlwrExpr> {
    let bound: Vec<VariableId> = match flwr.grouping {
        Some(_) => Vec::new(),
        None => flwr.clauses.iter().filter_map(for_variable).collect(),
    };
    let added = match presence(&flwr.result, known, &bound)? {
        Presence::Always => return Some(flwr),
        Presence::Never => Expr::Call { function: Function::False, arguments: Vec::new() },
        Presence::Where(condition) => condition,
    };
    let condition = flwr.grouping.as_mut().map_or(&mut flwr.condition, |grouping| &mut grouping.condition);
    *condition = Some(match condition.take() {
        None => added,
        Some(Expr::And(mut operands)) => {
            operands.push(added);
            Expr::And(operands)
        }
        Some(own) => Expr::And(vec![own, added]),
    });
    Some(flwr)
}

fn for_variable(clause: &BindingClause) -> Option<VariableId> {
    match clause {
        BindingClause::For { variable, .. } => Some(*variable),
        BindingClause::Let { .. } => None,
    }
}

/// Returns when an item has a value; `None` if that cannot be said. `bound` are variables that always have one.
fn presence(item: &ItemExpr, known: Known<'_>, bound: &[VariableId]) -> Option<Presence> {
    Some(match item {
        ItemExpr::Element(_)
        | ItemExpr::ComputedElement(_)
        | ItemExpr::Comment(_)
        | ItemExpr::ProcessingInstruction { .. } => Presence::Always,
        // Of nothing, no text is made.
        ItemExpr::Text(item) => presence(item, known, bound)?,
        ItemExpr::Sequence(items) => {
            let items = items.iter().map(|item| presence(item, known, bound));
            any(items.collect::<Option<_>>()?)
        }
        ItemExpr::If(choice) => {
            let negated = Expr::Call { function: Function::Not, arguments: vec![choice.condition.clone()] };
            let then = only_where(choice.condition.clone(), presence(&choice.then, known, bound)?);
            any(vec![then, only_where(negated, presence(&choice.otherwise, known, bound)?)])
        }
        ItemExpr::Value(expr) => return presence_of_value(expr, known, bound),
        // An attribute alone cannot be written, and bindings may pass inside of another loop or not.
        ItemExpr::Attribute(_) | ItemExpr::Flwr(_) => return None,
    })
}

fn presence_of_value(expr: &Expr, known: Known<'_>, bound: &[VariableId]) -> Option<Presence> {
    if expr.static_type(known.types) != ExprType::NodeSet {
        return is_always_a_value(expr).then_some(Presence::Always);
    }
    match expr {
        Expr::Path(path) => Some(match path.start {
            PathStart::Variable(variable) if path.steps.is_empty() && bound.contains(&variable) => Presence::Always,
            _ if known.gives_values(expr) => Presence::Where(known.exist(expr)),
            _ => Presence::Where(expr.clone()),
        }),
        // Of an empty operand there is no value in XQuery, and here there may be one.
        Expr::Map { .. } => None,
        _ => Some(Presence::Where(known.exist(expr))),
    }
}

/// Returns whether an expression has a value even if all paths in it select nothing. A truth value is none that counts: one
/// alone decides, several are delivered.
fn is_always_a_value(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(_) | Expr::Number(_) => true,
        Expr::Negate(operand) => is_always_a_value(operand),
        Expr::Arithmetic { left, right, .. } => is_always_a_value(left) && is_always_a_value(right),
        Expr::Call { function, arguments } => match function {
            Function::Count
            | Function::Sum
            | Function::Number
            | Function::String
            | Function::StringLength
            | Function::StringJoin
            | Function::Concat
            | Function::NormalizeSpace
            | Function::Translate
            | Function::Substring
            | Function::SubstringBefore
            | Function::SubstringAfter
            | Function::LowerCase
            | Function::UpperCase
            | Function::Replace
            | Function::Name
            | Function::LocalName
            | Function::NamespaceUri => true,
            Function::Floor | Function::Ceiling | Function::Round | Function::Abs | Function::XsString => {
                arguments.iter().all(is_always_a_value)
            }
            _ => false,
        },
        _ => false,
    }
}

fn only_where(condition: Expr, presence: Presence) -> Presence {
    match presence {
        Presence::Always => Presence::Where(condition),
        Presence::Never => Presence::Never,
        Presence::Where(other) => Presence::Where(Expr::And(vec![condition, other])),
    }
}

fn any(items: Vec<Presence>) -> Presence {
    let mut conditions = Vec::new();
    for item in items {
        match item {
            Presence::Always => return Presence::Always,
            Presence::Never => {}
            Presence::Where(condition) => conditions.push(condition),
        }
    }
    match conditions.len() {
        0 => Presence::Never,
        1 => Presence::Where(conditions.swap_remove(0)),
        _ => Presence::Where(Expr::Or(conditions)),
    }
}
