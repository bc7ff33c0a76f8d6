//! Quantified conditions, `some $x in a satisfies ...` and `every`, as conditions of XPath 1.0 on the nodes of a path.
//!
//! `some $x in P satisfies $x/q` is `boolean(P[q])`, `every` is `not(P[not(q)])`. What a condition asks of other nodes than
//! `$x` stands outside of the predicate: beside it, or as the other side of a comparison, which one of the nodes has to meet.

use super::ast::{Expr, Function, Path, PathStart, VariableId};
use super::functions::ExprType;
use super::matching::itself;
use super::operators::{Operator, combine};

/// The number of the first variable of a quantified expression. The query's own variables have smaller numbers.
pub(super) const QUANTIFIED_FIRST: usize = 1 << 31;

/// A variable that goes through the nodes of a path.
pub(super) struct Quantifier<'q> {
    pub variable: VariableId,
    /// Types of the variables of the query.
    pub types: &'q [ExprType],
    /// Makes the condition that there are nodes.
    pub exist: &'q dyn Fn(Expr) -> Expr,
}

impl Quantifier<'_> {
    /// Returns the condition that another one holds for one node, or for each; `None` if XPath 1.0 has none.
    pub fn of(&self, is_every: bool, nodes: &Expr, condition: Expr) -> Option<Expr> {
        if let Some(found) = self.of_own(is_every, nodes, &condition) {
            return Some(found);
        }
        if !mentions(&condition, self.variable) {
            let exist = (self.exist)(nodes.clone());
            return Some(if is_every {
                combine(Operator::Or, call(Function::Not, exist), condition)
            } else {
                combine(Operator::And, exist, condition)
            });
        }
        match condition {
            Expr::And(operands) if is_every => self.each(Operator::And, is_every, nodes, operands),
            Expr::Or(operands) if !is_every => self.each(Operator::Or, is_every, nodes, operands),
            Expr::And(operands) | Expr::Or(operands) => self.apart(is_every, nodes, operands),
            Expr::Call { function: Function::Not, mut arguments } => {
                let held = self.of(!is_every, nodes, arguments.pop()?)?;
                Some(call(Function::Not, held))
            }
            Expr::Compare { op, left, right } if !is_every => {
                let (left, right) = match (self.selected(nodes, &left), self.selected(nodes, &right)) {
                    (Some(selected), None) if self.is_compared_by_each(&right) => (selected, *right),
                    (None, Some(selected)) if self.is_compared_by_each(&left) => (*left, selected),
                    _ => return None,
                };
                Some(combine(Operator::Compare(op), left, right))
            }
            _ => None,
        }
    }

    /// Returns the condition on the nodes that another one is, if that asks for nothing but the variable.
    pub fn of_own(&self, is_every: bool, nodes: &Expr, condition: &Expr) -> Option<Expr> {
        let own = self.own(condition)?;
        Some(if is_every {
            call(Function::Not, (self.exist)(filtered(nodes.clone(), call(Function::Not, own))))
        } else {
            (self.exist)(filtered(nodes.clone(), own))
        })
    }

    /// Returns a condition as one on the context node, if it asks for nothing but the variable.
    fn own(&self, condition: &Expr) -> Option<Expr> {
        if asks_for_others(condition, self.variable) { None } else { at_itself(condition.clone(), self.variable) }
    }

    /// Returns what each operand says of the nodes by itself.
    fn each(&self, operator: Operator, is_every: bool, nodes: &Expr, operands: Vec<Expr>) -> Option<Expr> {
        let conditions = operands.into_iter().map(|operand| self.of(is_every, nodes, operand));
        conditions.collect::<Option<Vec<_>>>()?.into_iter().reduce(|left, right| combine(operator, left, right))
    }

    /// Returns what some operands of `and` say of one node, or those of `or` of each: the nodes are first chosen by what is asked of
    /// them alone, one operand may be about others as well, and the rest stands beside.
    fn apart(&self, is_every: bool, nodes: &Expr, operands: Vec<Expr>) -> Option<Expr> {
        let (mut chosen, mut joined, mut beside) = (nodes.clone(), None, Vec::new());
        for operand in operands {
            if !mentions(&operand, self.variable) {
                beside.push(operand);
            } else if let Some(own) = self.own(&operand) {
                let function = if is_every { Function::Not } else { Function::Boolean };
                chosen = filtered(chosen, call(function, own));
            } else if joined.replace(operand).is_some() {
                return None;
            }
        }
        let held = match joined {
            Some(joined) => self.of(is_every, &chosen, joined)?,
            None if is_every => call(Function::Not, (self.exist)(chosen)),
            None => (self.exist)(chosen),
        };
        let operator = if is_every { Operator::Or } else { Operator::And };
        Some(beside.into_iter().fold(held, |all, other| combine(operator, all, other)))
    }

    /// Returns the nodes that a path from the variable leads to.
    fn selected(&self, nodes: &Expr, operand: &Expr) -> Option<Expr> {
        let Expr::Path(Path { start: PathStart::Variable(id), steps }) = operand else { return None };
        if *id != self.variable || steps.iter().flat_map(|step| &step.predicates).any(|part| mentions(part, *id)) {
            return None;
        }
        let mut path = match nodes {
            Expr::Path(path) => path.clone(),
            other => {
                let start = PathStart::Filter { primary: Box::new(other.clone()), predicates: Vec::new() };
                Path { start, steps: Vec::new() }
            }
        };
        path.steps.extend(steps.iter().cloned());
        Some(Expr::Path(path))
    }

    /// Returns whether each node by itself is compared with an operand, rather than whether there is one.
    fn is_compared_by_each(&self, operand: &Expr) -> bool {
        !mentions(operand, self.variable) && operand.static_type(self.types) != ExprType::Boolean
    }
}

/// Returns the call of a function of one argument.
pub(super) fn call(function: Function, argument: Expr) -> Expr {
    Expr::Call { function, arguments: vec![argument] }
}

/// Returns whether an expression names another quantified variable.
fn asks_for_others(expr: &Expr, variable: VariableId) -> bool {
    let is_other = matches!(expr, Expr::Path(Path { start: PathStart::Variable(id), .. })
        if *id != variable && id.index() >= QUANTIFIED_FIRST);
    is_other || expr.operands().chain(expr.predicates()).any(|part| asks_for_others(part, variable))
}

/// Returns a condition on a variable's node as one on the context node. `None` if it asks for another context node, or
/// for the variable where there is another one.
fn at_itself(expr: Expr, variable: VariableId) -> Option<Expr> {
    let each = |operand| at_itself(operand, variable);
    let all = |operands: Vec<Expr>| operands.into_iter().map(each).collect::<Option<Vec<_>>>();
    let boxed = |operand: Box<Expr>| at_itself(*operand, variable).map(Box::new);
    Some(match expr {
        Expr::Or(operands) => Expr::Or(all(operands)?),
        Expr::And(operands) => Expr::And(all(operands)?),
        Expr::Union(operands) => Expr::Union(all(operands)?),
        Expr::Call { function, arguments } if !function.facts().reads_context(arguments.len()) => {
            Expr::Call { function, arguments: all(arguments)? }
        }
        Expr::Call { .. } => return None,
        Expr::Compare { op, left, right } => Expr::Compare { op, left: boxed(left)?, right: boxed(right)? },
        Expr::Arithmetic { op, left, right } => Expr::Arithmetic { op, left: boxed(left)?, right: boxed(right)? },
        Expr::Negate(operand) => Expr::Negate(boxed(operand)?),
        Expr::Map { nodes, value } if !mentions(&value, variable) => Expr::Map { nodes: boxed(nodes)?, value },
        Expr::Map { .. } => return None,
        Expr::Number(_)
        | Expr::Literal(_)
        | Expr::Pattern(_)
        | Expr::Selection(_)
        | Expr::Region(_)
        | Expr::Typed(_) => expr,
        Expr::Path(Path { start, mut steps }) => {
            if steps.iter().flat_map(|step| &step.predicates).any(|predicate| mentions(predicate, variable)) {
                return None;
            }
            let start = match start {
                PathStart::Variable(id) if id == variable => {
                    if steps.is_empty() {
                        steps.push(itself());
                    }
                    PathStart::Context
                }
                PathStart::Context => return None,
                PathStart::Filter { primary, predicates } => {
                    if predicates.iter().any(|predicate| mentions(predicate, variable)) {
                        return None;
                    }
                    PathStart::Filter { primary: boxed(primary)?, predicates }
                }
                other => other,
            };
            Expr::Path(Path { start, steps })
        }
    })
}

/// Returns whether an expression names a variable.
fn mentions(expr: &Expr, variable: VariableId) -> bool {
    let is_start = matches!(expr, Expr::Path(Path { start: PathStart::Variable(id), .. }) if *id == variable);
    is_start || expr.operands().chain(expr.predicates()).any(|part| mentions(part, variable))
}

/// Returns the nodes for which a condition holds.
pub(super) fn filtered(nodes: Expr, condition: Expr) -> Expr {
    match nodes {
        Expr::Path(Path { start, mut steps }) if !steps.is_empty() => {
            if let Some(last) = steps.last_mut() {
                last.predicates.push(condition);
            }
            Expr::Path(Path { start, steps })
        }
        nodes => {
            let start = PathStart::Filter { primary: Box::new(nodes), predicates: vec![condition] };
            Expr::Path(Path { start, steps: Vec::new() })
        }
    }
}
