//! Results that are not empty: what the dialect `xquery` asks of a For-Where-Return query.
//!
//! There a query matches where it has a result, and an empty sequence is none. The engine matches where a binding passes. So
//! bindings of which nothing is returned are kept from passing, by what is added to `where`; the result stays the same. Where
//! that cannot be said so, another processor has to evaluate the query.

use super::ast::{Expr, PathStart, VariableId};
use super::flwr::{BindingClause, FlwrExpr, FlwrQuery, ItemExpr};
use super::functions::{ExprType, Function};

/// When an item has a value that is not the empty sequence.
enum Presence {
    Always,
    Never,
    /// Where this is true.
    Where(Expr),
}

/// Returns a query of which only bindings pass that something is returned for; `None` if that cannot be said.
pub(super) fn with_results(query: FlwrQuery) -> Option<FlwrQuery> {
    let types: Vec<ExprType> = query.variables.iter().map(|variable| variable.value_type).collect();
    let body = match query.body {
        ItemExpr::Flwr(flwr) => ItemExpr::Flwr(Box::new(returning(*flwr, &types)?)),
        ItemExpr::Sequence(items) => {
            let items = items.into_iter().map(|item| match item {
                ItemExpr::Flwr(flwr) => Some(ItemExpr::Flwr(Box::new(returning(*flwr, &types)?))),
                // What stands beside it is a result on each message.
                _ => None,
            });
            ItemExpr::Sequence(items.collect::<Option<_>>()?)
        }
        _ => return None,
    };
    Some(FlwrQuery { body, ..query })
}

fn returning(mut flwr: FlwrExpr, types: &[ExprType]) -> Option<FlwrExpr> {
    let bound: Vec<VariableId> = match flwr.grouping {
        Some(_) => Vec::new(),
        None => flwr.clauses.iter().filter_map(for_variable).collect(),
    };
    let added = match presence(&flwr.result, types, &bound)? {
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
fn presence(item: &ItemExpr, types: &[ExprType], bound: &[VariableId]) -> Option<Presence> {
    Some(match item {
        ItemExpr::Element(_)
        | ItemExpr::ComputedElement(_)
        | ItemExpr::Comment(_)
        | ItemExpr::ProcessingInstruction { .. } => Presence::Always,
        // Of nothing, no text is made.
        ItemExpr::Text(item) => presence(item, types, bound)?,
        ItemExpr::Sequence(items) => {
            let items = items.iter().map(|item| presence(item, types, bound));
            any(items.collect::<Option<_>>()?)
        }
        ItemExpr::If(choice) => {
            let negated = Expr::Call { function: Function::Not, arguments: vec![choice.condition.clone()] };
            let then = only_where(choice.condition.clone(), presence(&choice.then, types, bound)?);
            any(vec![then, only_where(negated, presence(&choice.otherwise, types, bound)?)])
        }
        ItemExpr::Value(expr) => return presence_of_value(expr, types, bound),
        // An attribute alone cannot be written, and bindings may pass inside of another loop or not.
        ItemExpr::Attribute(_) | ItemExpr::Flwr(_) => return None,
    })
}

fn presence_of_value(expr: &Expr, types: &[ExprType], bound: &[VariableId]) -> Option<Presence> {
    if expr.static_type(types) != ExprType::NodeSet {
        return is_always_a_value(expr).then_some(Presence::Always);
    }
    match expr {
        Expr::Path(path) => Some(match path.start {
            PathStart::Variable(variable) if path.steps.is_empty() && bound.contains(&variable) => Presence::Always,
            _ => Presence::Where(expr.clone()),
        }),
        // Of an empty operand there is no value in XQuery, and here there may be one.
        Expr::Map { .. } => None,
        _ => Some(Presence::Where(Expr::Call { function: Function::Boolean, arguments: vec![expr.clone()] })),
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
            Function::Floor | Function::Ceiling | Function::Round | Function::Abs => {
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
