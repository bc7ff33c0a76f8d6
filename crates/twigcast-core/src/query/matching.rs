//! The matching condition of a For-Where-Return query: its `for` and `where` clauses as one XPath condition.
//!
//! The shared structures filter by XPath, so a query registers there with its *matching path* (Diao 2005, section 7):
//! each binding path with the conjuncts of `where` that speak about its variable as predicates, and binding paths that
//! start at the variable as nested paths. That is exact as long as every conjunct speaks about one variable. A conjunct
//! that compares two variables, or uses one inside a predicate, has no XPath 1.0 counterpart: it is left out, and the
//! condition is then necessary but not sufficient.

use super::ast::{Axis, CompareOp, Expr, Function, NodeTest, Path, PathStart, Step, VariableId};
use super::flwr::{AttributeValuePart, BindingClause, ElementContent, FlwrExpr, FlwrQuery, ItemExpr};
use super::functions::ExprType;

/// Parts that an expression may have after `let` variables were replaced by their values.
const PARTS_MAX: usize = 10_000;

/// The condition under which a query matches.
#[derive(Clone, Debug, PartialEq)]
pub struct MatchingCondition {
    /// The condition, to be evaluated at the document node.
    pub expr: Expr,
    /// The query matches exactly when this is true; otherwise it may still not match.
    pub exact: bool,
}

/// Returns the condition under which at least one binding of a query passes.
pub fn matching_condition(query: &FlwrQuery) -> MatchingCondition {
    let mut exact = true;
    let expr = of_item(&query.body, &mut exact).unwrap_or_else(|| call(Function::False, Vec::new()));
    MatchingCondition { expr, exact }
}

/// Returns the condition of the outermost expressions in an item; `None`: there are none.
fn of_item(item: &ItemExpr, exact: &mut bool) -> Option<Expr> {
    match item {
        ItemExpr::Sequence(items) => any(items.iter().filter_map(|item| of_item(item, exact)).collect()),
        ItemExpr::Flwr(flwr) => Some(of_flwr(flwr, exact)),
        ItemExpr::If(choice) => {
            let negated = call(Function::Not, vec![choice.condition.clone()]);
            let then = of_item(&choice.then, exact).map(|expr| Expr::And(vec![choice.condition.clone(), expr]));
            let otherwise = of_item(&choice.otherwise, exact).map(|expr| Expr::And(vec![negated, expr]));
            any(then.into_iter().chain(otherwise).collect())
        }
        ItemExpr::Element(element) => {
            let values =
                element.attributes.iter().flat_map(|attribute| &attribute.value).filter_map(|part| match part {
                    AttributeValuePart::Enclosed(item) => Some(item),
                    AttributeValuePart::Text(_) => None,
                });
            let content = element.content.iter().filter_map(|part| match part {
                ElementContent::Constructor(item) | ElementContent::Enclosed(item) => Some(item),
                ElementContent::Text(_) => None,
            });
            any(values.chain(content).filter_map(|item| of_item(item, exact)).collect())
        }
        ItemExpr::ComputedElement(element) => {
            let content = element.content.iter().filter_map(|part| match part {
                ElementContent::Constructor(item) | ElementContent::Enclosed(item) => Some(item),
                ElementContent::Text(_) => None,
            });
            any(content.filter_map(|item| of_item(item, exact)).collect())
        }
        ItemExpr::Attribute(attribute) => attribute.value.as_ref().and_then(|item| of_item(item, exact)),
        ItemExpr::Text(item) => of_item(item, exact),
        ItemExpr::Comment(_) | ItemExpr::ProcessingInstruction { .. } | ItemExpr::Value(_) => None,
    }
}

fn any(mut conditions: Vec<Expr>) -> Option<Expr> {
    if conditions.len() > 1 { Some(Expr::Or(conditions)) } else { conditions.pop() }
}

/// A `for` variable on the way to the condition.
struct ForBinding {
    variable: VariableId,
    /// Its binding path: from the message, or relative to the parent's node.
    source: Expr,
    /// Index of the binding that the path starts at.
    parent: Option<usize>,
    /// Conditions on its node, relative to it.
    predicates: Vec<Expr>,
}

/// What is known while going through the clauses.
#[derive(Default)]
struct ClauseScope {
    bindings: Vec<ForBinding>,
    /// Values of `let` variables, without other `let` variables in them.
    values: Vec<(VariableId, Option<Expr>)>,
}

fn of_flwr(flwr: &FlwrExpr, exact: &mut bool) -> Expr {
    let mut clauses = ClauseScope::default();
    for clause in &flwr.clauses {
        match clause {
            BindingClause::Let { variable, value } => {
                let value = clauses.resolved(value);
                clauses.values.push((*variable, value));
            }
            // The document node is always there and always one, so binding it is naming it.
            BindingClause::For { variable, position: None, source }
                if clauses.resolved(source).is_some_and(|source| is_document(&source)) =>
            {
                clauses.values.push((*variable, clauses.resolved(source)));
            }
            BindingClause::For { variable, source, .. } => *exact &= clauses.bind(*variable, source),
        }
    }
    // What is asked of a group is no condition on a binding.
    *exact &= flwr.grouping.as_ref().is_none_or(|grouping| grouping.condition.is_none());
    let mut conjuncts = Vec::new();
    for conjunct in flwr.condition.iter().flat_map(conjuncts_of) {
        match clauses.binding_of(conjunct) {
            Some((None, condition)) => conjuncts.push(condition),
            Some((Some(binding), condition)) => clauses.bindings[binding].predicates.push(condition),
            None => *exact = false,
        }
    }
    // A later binding may start at an earlier one, never the other way round.
    while let Some(binding) = clauses.bindings.pop() {
        let exists = with_predicates(binding.source, binding.predicates);
        // A single value that is bound may be an empty text.
        let exists = if exists.gives_values() { existence_of(exists, &Expr::gives_values) } else { exists };
        match binding.parent {
            Some(parent) => clauses.bindings[parent].predicates.push(exists),
            None => conjuncts.push(exists),
        }
    }
    match conjuncts.len() {
        0 => call(Function::True, Vec::new()),
        1 => conjuncts.swap_remove(0),
        _ => Expr::And(conjuncts),
    }
}

impl ClauseScope {
    /// Adds a binding; `false` if its path cannot be expressed, so that it is left out.
    fn bind(&mut self, variable: VariableId, source: &Expr) -> bool {
        let Some((parent, source)) = self.binding_of(source) else { return false };
        self.bindings.push(ForBinding { variable, source, parent, predicates: Vec::new() });
        true
    }

    /// Returns the binding that an expression speaks about (`None`: the message) and the expression relative to it.
    fn binding_of(&self, expr: &Expr) -> Option<(Option<usize>, Expr)> {
        let expr = self.resolved(expr)?;
        let mut variables = Vec::new();
        if !free_variables(&expr, &mut variables) {
            return None;
        }
        match variables[..] {
            [] => Some((None, expr)),
            [variable] => {
                let binding = self.bindings.iter().position(|binding| binding.variable == variable)?;
                Some((Some(binding), relative(expr)))
            }
            _ => None,
        }
    }

    /// Returns the expression with `let` variables replaced; `None` if that is impossible or takes too much.
    fn resolved(&self, expr: &Expr) -> Option<Expr> {
        let mut parts = 0;
        self.substituted(expr, false, &mut parts)
    }

    fn substituted(&self, expr: &Expr, in_predicate: bool, parts: &mut usize) -> Option<Expr> {
        *parts += 1;
        if *parts > PARTS_MAX {
            return None;
        }
        let mut all = |operands: &[Expr]| -> Option<Vec<Expr>> {
            operands.iter().map(|operand| self.substituted(operand, in_predicate, parts)).collect()
        };
        Some(match expr {
            Expr::Or(operands) => Expr::Or(all(operands)?),
            Expr::And(operands) => Expr::And(all(operands)?),
            Expr::Union(operands) => Expr::Union(all(operands)?),
            Expr::Call { function, arguments } => call(*function, all(arguments)?),
            Expr::Compare { op, left, right } => Expr::Compare {
                op: *op,
                left: Box::new(self.substituted(left, in_predicate, parts)?),
                right: Box::new(self.substituted(right, in_predicate, parts)?),
            },
            Expr::Arithmetic { op, left, right } => Expr::Arithmetic {
                op: *op,
                left: Box::new(self.substituted(left, in_predicate, parts)?),
                right: Box::new(self.substituted(right, in_predicate, parts)?),
            },
            Expr::Negate(operand) => Expr::Negate(Box::new(self.substituted(operand, in_predicate, parts)?)),
            Expr::Map { nodes, value } => Expr::Map {
                nodes: Box::new(self.substituted(nodes, in_predicate, parts)?),
                value: Box::new(self.substituted(value, true, parts)?),
            },
            Expr::Number(_)
            | Expr::Literal(_)
            | Expr::Pattern(_)
            | Expr::Selection(_)
            | Expr::Region(_)
            | Expr::Typed(_) => expr.clone(),
            Expr::Path(path) => return self.substituted_path(path, in_predicate, parts),
        })
    }

    fn substituted_path(&self, path: &Path, in_predicate: bool, parts: &mut usize) -> Option<Expr> {
        let mut steps = Vec::with_capacity(path.steps.len());
        for step in &path.steps {
            *parts += 1;
            let predicates = step.predicates.iter().map(|predicate| self.substituted(predicate, true, parts));
            steps.push(Step {
                axis: step.axis,
                test: step.test.clone(),
                predicates: predicates.collect::<Option<_>>()?,
            });
        }
        let start = match &path.start {
            PathStart::Filter { primary, predicates } => {
                let primary = Box::new(self.substituted(primary, in_predicate, parts)?);
                let predicates = predicates.iter().map(|predicate| self.substituted(predicate, true, parts));
                PathStart::Filter { primary, predicates: predicates.collect::<Option<_>>()? }
            }
            PathStart::Variable(id) => match self.values.iter().rev().find(|(existing, _)| existing == id) {
                None => path.start.clone(),
                Some((_, value)) => {
                    let value = value.as_ref()?;
                    let mut variables = Vec::new();
                    // In a predicate the bound node cannot be addressed.
                    let addressable = free_variables(value, &mut variables) && (variables.is_empty() || !in_predicate);
                    *parts += size(value);
                    if !addressable || *parts > PARTS_MAX {
                        return None;
                    }
                    return Some(continued(value.clone(), steps));
                }
            },
            start => start.clone(),
        };
        Some(Expr::Path(Path { start, steps }))
    }
}

/// Returns whether it is `/`.
fn is_document(expr: &Expr) -> bool {
    matches!(expr, Expr::Path(Path { start: PathStart::Root, steps }) if steps.is_empty())
}

/// Returns `value/steps`.
fn continued(value: Expr, mut steps: Vec<Step>) -> Expr {
    match value {
        value if steps.is_empty() => value,
        Expr::Path(mut path) => {
            path.steps.append(&mut steps);
            Expr::Path(path)
        }
        value => {
            let start = PathStart::Filter { primary: Box::new(value), predicates: Vec::new() };
            Expr::Path(Path { start, steps })
        }
    }
}

fn conjuncts_of(condition: &Expr) -> &[Expr] {
    match condition {
        Expr::And(operands) => operands,
        other => std::slice::from_ref(other),
    }
}

/// Appends predicates to a path.
fn with_predicates(source: Expr, predicates: Vec<Expr>) -> Expr {
    if predicates.is_empty() {
        return source;
    }
    let predicates = predicates.into_iter().map(|predicate| match predicate.static_type(&[]) {
        ExprType::Number => call(Function::Boolean, vec![predicate]),
        _ => predicate,
    });
    let mut path = match source {
        Expr::Path(path) => path,
        source => {
            Path { start: PathStart::Filter { primary: Box::new(source), predicates: Vec::new() }, steps: Vec::new() }
        }
    };
    match (path.steps.last_mut(), &mut path.start) {
        (Some(last), _) => last.predicates.extend(predicates),
        (None, PathStart::Filter { predicates: own, .. }) => own.extend(predicates),
        (None, _) => path.steps.push(Step { predicates: predicates.collect(), ..itself() }),
    }
    Expr::Path(path)
}

/// Returns `self::node()`.
pub(super) fn itself() -> Step {
    Step { axis: Axis::SelfAxis, test: NodeTest::Node, predicates: Vec::new() }
}

/// Returns the condition that there are items; `gives_values` says of which expressions they are values.
pub(super) fn existence_of(items: Expr, gives_values: &impl Fn(&Expr) -> bool) -> Expr {
    match items {
        // There is one for each.
        Expr::Map { nodes, value } if matches!(value.static_type(&[]), ExprType::String | ExprType::Number) => {
            existence_of(*nodes, gives_values)
        }
        items if gives_values(&items) => {
            let count = Box::new(call(Function::Count, vec![items]));
            Expr::Compare { op: CompareOp::Greater, left: count, right: Box::new(Expr::Number(0.0)) }
        }
        nodes => call(Function::Boolean, vec![nodes]),
    }
}

fn call(function: Function, arguments: Vec<Expr>) -> Expr {
    Expr::Call { function, arguments }
}

/// Collects the variables outside predicates, each once. `false`: there is one inside a predicate.
pub(crate) fn free_variables(expr: &Expr, result: &mut Vec<VariableId>) -> bool {
    if let Expr::Path(Path { start: PathStart::Variable(id), .. }) = expr
        && !result.contains(id)
    {
        result.push(*id);
    }
    let is_free_of_variables = |predicate: &Expr| {
        let mut inside = Vec::new();
        free_variables(predicate, &mut inside) && inside.is_empty()
    };
    expr.operands().all(|operand| free_variables(operand, result)) && expr.predicates().all(is_free_of_variables)
}

/// Collects the variables of an expression, predicates included, each once.
pub(crate) fn all_variables(expr: &Expr, result: &mut Vec<VariableId>) {
    if let Expr::Path(Path { start: PathStart::Variable(id), .. }) = expr
        && !result.contains(id)
    {
        result.push(*id);
    }
    expr.operands().chain(expr.predicates()).for_each(|part| all_variables(part, result));
}

/// Returns the expression with the context node in place of its only variable.
pub(crate) fn relative(expr: Expr) -> Expr {
    let all = |operands: Vec<Expr>| operands.into_iter().map(relative).collect();
    match expr {
        Expr::Or(operands) => Expr::Or(all(operands)),
        Expr::And(operands) => Expr::And(all(operands)),
        Expr::Union(operands) => Expr::Union(all(operands)),
        Expr::Call { function, arguments } => call(function, all(arguments)),
        Expr::Compare { op, left, right } => {
            Expr::Compare { op, left: Box::new(relative(*left)), right: Box::new(relative(*right)) }
        }
        Expr::Arithmetic { op, left, right } => {
            Expr::Arithmetic { op, left: Box::new(relative(*left)), right: Box::new(relative(*right)) }
        }
        Expr::Negate(operand) => Expr::Negate(Box::new(relative(*operand))),
        Expr::Map { nodes, value } => Expr::Map { nodes: Box::new(relative(*nodes)), value },
        Expr::Path(Path { start: PathStart::Variable(_), mut steps }) => {
            if steps.is_empty() {
                steps.push(itself());
            }
            Expr::Path(Path { start: PathStart::Context, steps })
        }
        Expr::Path(Path { start: PathStart::Filter { primary, predicates }, steps }) => {
            let start = PathStart::Filter { primary: Box::new(relative(*primary)), predicates };
            Expr::Path(Path { start, steps })
        }
        other @ (Expr::Path(_)
        | Expr::Number(_)
        | Expr::Literal(_)
        | Expr::Pattern(_)
        | Expr::Selection(_)
        | Expr::Region(_)
        | Expr::Typed(_)) => other,
    }
}

/// Returns how many expressions and steps an expression has.
pub(super) fn size(expr: &Expr) -> usize {
    let steps = if let Expr::Path(path) = expr { path.steps.len() } else { 0 };
    1 + steps + expr.operands().chain(expr.predicates()).map(size).sum::<usize>()
}
