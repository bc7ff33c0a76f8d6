//! A condition taken apart: tests of values, paths over elements with conditions of their own, and what no index serves.
//!
//! `P[A and Q op c]` and `P[A]/Q op c` come out alike. Formulas borrow from the query's expression; what is left to verify
//! becomes a [`Condition`](super::residual::Condition) of its own.

use std::borrow::Cow;
use std::ops::Range;

use super::condition::is_double_slash;
use super::operand::{Operand, Relation, ValueTest, relation};
use super::path::{leads_on_from_elements, linear_step};
use crate::query::ast::{Axis, CompareOp, Expr, Function, LinearStep, NodeTest, Path, PathStart, Step};
use crate::query::position::is_positional;

/// A condition on an element.
#[derive(Clone, Debug)]
pub(super) enum Formula<'q> {
    /// One of several lists of conditions holds.
    Any(Vec<Vec<Formula<'q>>>),
    /// A list of conditions does not hold.
    Not(Vec<Formula<'q>>),
    /// A value is compared with a constant.
    Test(ValueTest),
    /// A path over elements leads somewhere.
    Path(PathPattern<'q>),
    /// Anything else.
    Opaque(Cow<'q, Expr>),
}

/// A path whose first steps lead to elements.
#[derive(Clone, Debug)]
pub(super) struct PathPattern<'q> {
    /// All steps of the path.
    steps: &'q [Step],
    /// What the nodes at its end are compared with.
    comparison: Option<(CompareOp, &'q Expr)>,
    /// The steps that lead to elements. What the path says beyond the last of them is a condition on that.
    pub elements: Vec<PatternStep<'q>>,
}

/// One step of a path that leads to elements.
#[derive(Clone, Debug)]
pub(super) struct PatternStep<'q> {
    /// The step without its predicates.
    pub step: LinearStep,
    /// Conditions that hold at each element that the step selects.
    pub conditions: Vec<Formula<'q>>,
    /// The step, if its predicates depend on the position among the parent's children.
    pub positional: Option<&'q Step>,
    /// Which of all steps it is made of.
    source: Range<usize>,
}

/// Returns the conditions that a list of predicates makes together.
pub(super) fn conjunction<'q>(predicates: impl IntoIterator<Item = &'q Expr>) -> Vec<Formula<'q>> {
    let mut list = Vec::new();
    for predicate in predicates {
        append_conjuncts(predicate, &mut list);
    }
    join_bounds(&mut list);
    list
}

fn append_conjuncts<'q>(expr: &'q Expr, list: &mut Vec<Formula<'q>>) {
    match expr {
        Expr::And(operands) => operands.iter().for_each(|operand| append_conjuncts(operand, list)),
        Expr::Call { function: Function::Boolean, arguments } => append_conjuncts(&arguments[0], list),
        _ => list.push(Formula::of(expr)),
    }
}

/// Makes one test of a lower and an upper bound of the same operand.
fn join_bounds(list: &mut Vec<Formula<'_>>) {
    let mut first = 0;
    while first < list.len() {
        let joined = (first + 1..list.len()).find_map(|second| match (&list[first], &list[second]) {
            (Formula::Test(a), Formula::Test(b)) if a.operand == b.operand => match (&a.relation, &b.relation) {
                (Relation::Within(a), Relation::Within(b)) => a.between(*b).map(|range| (second, range)),
                _ => None,
            },
            _ => None,
        });
        if let Some((second, range)) = joined {
            list.remove(second);
            if let Formula::Test(test) = &mut list[first] {
                test.relation = Relation::Overlaps(range);
            }
        }
        first += 1;
    }
}

impl<'q> Formula<'q> {
    /// Returns the condition that an expression is at its context node.
    pub(super) fn of(expr: &'q Expr) -> Self {
        match expr {
            Expr::Or(operands) | Expr::Union(operands) => {
                Self::Any(operands.iter().map(|operand| conjunction([operand])).collect())
            }
            Expr::Call { function: Function::Not, arguments } => Self::Not(conjunction([&arguments[0]])),
            _ => match PathPattern::of(expr, false) {
                Some(pattern) if !pattern.elements.is_empty() => Self::Path(pattern),
                Some(pattern) => pattern.end(0),
                None => ValueTest::of(expr).map_or(Self::Opaque(Cow::Borrowed(expr)), Self::Test),
            },
        }
    }
}

impl<'q> PathPattern<'q> {
    /// Returns the path that an expression asks for. `at_document`: its context node is the document node.
    pub(super) fn of(expr: &'q Expr, at_document: bool) -> Option<Self> {
        let (path, comparison) = match expr {
            Expr::Path(path) => (path, None),
            Expr::Call { function: Function::Boolean, arguments } => return Self::of(&arguments[0], at_document),
            Expr::Compare { op, left, right } => match (&**left, &**right) {
                (Expr::Path(path), constant @ (Expr::Literal(_) | Expr::Number(_))) => (path, Some((*op, constant))),
                (constant @ (Expr::Literal(_) | Expr::Number(_)), Expr::Path(path)) => {
                    (path, Some((op.flipped(), constant)))
                }
                (Expr::Call { function: Function::Count, arguments }, Expr::Number(bound)) => {
                    let at_least_one = matches!(
                        (*op, *bound),
                        (CompareOp::Greater | CompareOp::NotEqual, 0.0) | (CompareOp::GreaterOrEqual, 1.0)
                    );
                    return if at_least_one { Self::of(&arguments[0], at_document) } else { None };
                }
                _ => return None,
            },
            _ => return None,
        };
        let starts_here = match path.start {
            PathStart::Context => true,
            PathStart::Root => at_document,
            PathStart::Variable(_) | PathStart::Filter { .. } => false,
        };
        starts_here.then(|| Self::of_path(path, comparison, at_document))
    }

    fn of_path(path: &'q Path, comparison: Option<(CompareOp, &'q Expr)>, at_document: bool) -> Self {
        let mut pattern = Self { steps: &path.steps, comparison, elements: Vec::new() };
        let (mut from, mut descendant) = (0, false);
        for (index, step) in path.steps.iter().enumerate() {
            if is_double_slash(step) {
                descendant = true;
                continue;
            }
            let leads_on = leads_on_from_elements(&path.steps[index + 1..]);
            let Some(step) = element_step(step, descendant, leads_on) else { break };
            pattern.elements.push(PatternStep { source: from..index + 1, ..step });
            (from, descendant) = (index + 1, false);
        }
        if comparison.is_some() && from == path.steps.len() {
            pattern.compare_children(at_document);
        }
        let end = pattern.elements.last().map(|last| last.source.end);
        if let Some(end) = end
            && (end < path.steps.len() || comparison.is_some())
        {
            let condition = pattern.end(end);
            if let Some(last) = pattern.elements.last_mut() {
                last.conditions.push(condition);
                join_bounds(&mut last.conditions);
            }
        }
        pattern
    }

    /// Takes off a last step to children of which nothing but their value is asked: they are an operand of their parent.
    fn compare_children(&mut self, at_document: bool) {
        let [.., last] = self.elements.as_slice() else { return };
        let is_plain = !last.step.descendant
            && last.source.len() == 1
            && last.positional.is_none()
            && last.conditions.is_empty()
            && self.steps[last.source.start].predicates.is_empty()
            && matches!(self.steps[last.source.start].test, NodeTest::Name(_));
        if is_plain && !(at_document && self.elements.len() == 1) {
            self.elements.pop();
        }
    }

    /// Returns the condition that the steps from `from` on are at the node that they start from.
    fn end(&self, from: usize) -> Formula<'q> {
        if let Some((op, constant)) = self.comparison {
            let operand = Operand::of_steps(&self.steps[from..]);
            if let Some(relation) = relation(&operand, op, constant) {
                return Formula::Test(ValueTest { operand, relation });
            }
        } else if let [step] = &self.steps[from..]
            && let Some(test) = turned_out(step)
        {
            return Formula::Test(test);
        }
        Formula::Opaque(Cow::Owned(self.expr(from)))
    }

    /// Returns the path from its step `from` on, as an expression.
    fn expr(&self, from: usize) -> Expr {
        let mut steps = self.steps[from..].to_vec();
        if steps.is_empty() {
            steps.push(Step { axis: Axis::SelfAxis, test: NodeTest::Node, predicates: Vec::new() });
        }
        let path = Expr::Path(Path { start: PathStart::Context, steps });
        match self.comparison {
            Some((op, constant)) => Expr::Compare { op, left: Box::new(path), right: Box::new(constant.clone()) },
            None => path,
        }
    }

    /// Returns the whole path as an expression.
    pub(super) fn whole(&self) -> Expr {
        self.expr(0)
    }

    /// Returns what the path says below one of its elements.
    pub(super) fn below(&self, element: usize) -> Option<Expr> {
        (element + 1 < self.elements.len()).then(|| self.expr(self.elements[element].source.end))
    }

    /// Returns the nodes at the path's end as an operand, if they are compared.
    pub(super) fn compared_nodes(&self) -> Option<ValueTest> {
        let (op, constant) = self.comparison?;
        let operand = Operand::of_steps(self.steps);
        let relation = relation(&operand, op, constant)?;
        Some(ValueTest { operand, relation })
    }

    /// Returns the predicates of the last step, if the path ends with an element of which nothing else is asked.
    pub(super) fn last_predicates(&self) -> Option<&'q [Expr]> {
        let last = self.elements.last()?;
        let is_end = self.comparison.is_none() && last.source.end == self.steps.len() && last.positional.is_none();
        is_end.then(|| self.steps.last().map(|step| step.predicates.as_slice()))?
    }

    /// Returns the path with other predicates of its last step, and one step more.
    pub(super) fn extended(&self, predicates: Vec<Expr>, step: Option<Step>) -> Expr {
        let mut steps = self.steps.to_vec();
        if let Some(last) = steps.last_mut() {
            last.predicates = predicates;
        }
        steps.extend(step);
        Expr::Path(Path { start: PathStart::Context, steps })
    }
}

/// Returns a step that leads to elements and can be decided at the element; `None` for any other step.
fn element_step(step: &Step, after_double_slash: bool, leads_on: bool) -> Option<PatternStep<'_>> {
    let linear = linear_step(step, after_double_slash, leads_on)?;
    // Whatever the order of the predicates, those that do not count hold at each element that is selected.
    let conditions = conjunction(step.predicates.iter().filter(|predicate| !is_positional(predicate)));
    let positional = step.predicates.iter().any(is_positional).then_some(step);
    Some(PatternStep { step: linear, conditions, positional, source: 0..0 })
}

/// `@a[. = 'v']` as `@a = 'v'`, and likewise for `text()` and other tests of its value.
fn turned_out(step: &Step) -> Option<ValueTest> {
    let [predicate] = step.predicates.as_slice() else { return None };
    if is_positional(predicate) {
        return None;
    }
    let Formula::Test(ValueTest { operand: Operand::Own, relation }) = Formula::of(predicate) else { return None };
    let bare = Step { predicates: Vec::new(), ..step.clone() };
    let operand = Operand::of_steps(&[bare]);
    matches!(operand, Operand::Attribute(_) | Operand::Texts).then_some(ValueTest { operand, relation })
}
