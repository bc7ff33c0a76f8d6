//! A condition taken apart: tests of values, paths over elements with conditions of their own, and what no index serves.
//!
//! `P[A and Q op c]` and `P[A]/Q op c` come out alike. Formulas borrow from the query's expression; what is left to verify
//! becomes a [`Condition`](super::residual::Condition) of its own.

use std::borrow::Cow;
use std::ops::Range;

use super::condition::is_double_slash;
use super::operand::{Operand, Relation, ValueTest};
use super::path::{leads_on_from_elements, linear_step};
use crate::analysis;
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
    /// The same where another condition of the list says so already: it may be looked up, and is not verified.
    Implied(PathPattern<'q>),
    /// Anything else.
    Opaque(Cow<'q, Expr>),
}

/// A path whose first steps lead to elements.
#[derive(Clone, Debug)]
pub(super) struct PathPattern<'q> {
    /// All steps of the path.
    steps: &'q [Step],
    /// The operator and constant that the nodes at its end are compared with.
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
        _ => {
            let mut implied: Vec<_> = ValueTest::implied_by(expr).into_iter().map(Formula::Test).collect();
            match implied.len() {
                0 => {}
                1 => list.append(&mut implied),
                _ => list.push(Formula::Any(implied.into_iter().map(|test| vec![test]).collect())),
            }
            list.push(Formula::of(expr));
            list.extend(implied_path(expr).map(Formula::Implied));
        }
    }
}

/// Returns the path without which an expression is false, if it is part of a function or an operator and asks for something:
/// `count(P) > 2` implies `P`.
fn implied_path(expr: &Expr) -> Option<PathPattern<'_>> {
    if !matches!(expr, Expr::Compare { .. } | Expr::Call { .. }) || analysis::truth_without_nodes(expr) != Some(false) {
        return None;
    }
    let mut only = None;
    only_path(expr, &mut only)?;
    let only = only.filter(|path| !is_plain_path(path));
    let pattern = PathPattern::of(only?, false)?;
    pattern.elements.iter().any(|element| !element.conditions.is_empty()).then_some(pattern)
}

/// Returns whether a path leads to elements by their names only, and asks for nothing else.
fn is_plain_path(expr: &Expr) -> bool {
    let is_plain = |step: &Step| {
        matches!(step.axis, Axis::Child | Axis::Descendant)
            && matches!(step.test, NodeTest::Name(_))
            && step.predicates.is_empty()
    };
    matches!(expr, Expr::Path(path) if path.steps.iter().all(is_plain))
}

/// Finds the only path of an expression, those in predicates aside; `None` if there are several, or one that starts elsewhere.
fn only_path<'q>(expr: &'q Expr, only: &mut Option<&'q Expr>) -> Option<()> {
    match expr {
        Expr::Path(Path { start: PathStart::Context, .. }) if only.is_none() => {
            *only = Some(expr);
            Some(())
        }
        Expr::Path(_) => None,
        other => other.operands().try_for_each(|operand| only_path(operand, only)),
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

fn negation(list: Vec<Formula<'_>>) -> Formula<'_> {
    let test = match list.as_slice() {
        [Formula::Test(test)] => Some(test.clone()),
        [Formula::Path(pattern)] => pattern.as_test(|_, _| 0.05),
        _ => None,
    };
    test.and_then(ValueTest::negated).map_or(Formula::Not(list), Formula::Test)
}

impl<'q> Formula<'q> {
    /// Returns the condition that an expression is at its context node.
    pub(super) fn of(expr: &'q Expr) -> Self {
        match expr {
            Expr::Or(operands) | Expr::Union(operands) => {
                Self::Any(operands.iter().map(|operand| conjunction([operand])).collect())
            }
            Expr::Call { function: Function::Not, arguments } => negation(conjunction([&arguments[0]])),
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
        let (path, comparison) = expr.asked_path()?;
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
            if let Some(test) = ValueTest::of_nodes(&self.steps[from..], op, constant) {
                return Formula::Test(test);
            }
        } else if let Some(test) = turned_out(&self.steps[from..], |_, _| 0.05) {
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
    fn compared_nodes(&self) -> Option<ValueTest> {
        let (op, constant) = self.comparison?;
        ValueTest::of_nodes(self.steps, op, constant)
    }

    /// Returns the path as a test of an operand that queries with other constants share, if it can be turned into one.
    /// `equality` says in what part of all messages an operand equals a text.
    pub(super) fn as_test(&self, equality: impl Fn(&Operand, &str) -> f32) -> Option<ValueTest> {
        if self.comparison.is_some() { self.compared_nodes() } else { turned_out(self.steps, equality) }
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

/// Returns `P[A and Q op c]` as a test of the operand `P[A]/Q`, for the comparison of which the constants differ most.
fn turned_out(steps: &[Step], equality: impl Fn(&Operand, &str) -> f32) -> Option<ValueTest> {
    let (last, before) = steps.split_last()?;
    if last.predicates.iter().any(is_positional) {
        return None;
    }
    let conjuncts = conjuncts(&last.predicates);
    let mut best: Option<(f32, usize, ValueTest)> = None;
    let mut ranges = 0;
    for (index, &conjunct) in conjuncts.iter().enumerate() {
        let Formula::Test(test) = Formula::of(conjunct) else { continue };
        if test.operand.as_step().is_none() {
            continue;
        }
        let rank = match &test.relation {
            Relation::Within(range) if !range.is_point() => {
                ranges += 1;
                0.0
            }
            Relation::Within(_) => 0.1,
            Relation::Equals(text) => 0.2 + equality(&test.operand, text),
            Relation::StartsWith(_) | Relation::Contains(_) => 0.05,
            Relation::Overlaps(_)
            | Relation::Differs(_)
            | Relation::NoneWithin(_)
            | Relation::OtherNumber(_)
            | Relation::Matches(_) => continue,
        };
        if best.as_ref().is_none_or(|best| rank < best.0) {
            best = Some((rank, index, test));
        }
    }
    let (_, chosen, ValueTest { operand, relation }) = best.filter(|_| ranges < 2)?;
    let others = conjuncts.iter().enumerate().filter(|(index, _)| *index != chosen);
    let kept = Step { predicates: others.map(|(_, &conjunct)| conjunct.clone()).collect(), ..last.clone() };
    let steps: Vec<_> = before.iter().cloned().chain([kept]).chain(operand.as_step()?).collect();
    Some(ValueTest { operand: Operand::of_steps(&steps), relation })
}

fn conjuncts(predicates: &[Expr]) -> Vec<&Expr> {
    let mut list = Vec::new();
    for predicate in predicates {
        match predicate {
            Expr::And(operands) => list.extend(conjuncts(operands)),
            other => list.push(other),
        }
    }
    list
}
