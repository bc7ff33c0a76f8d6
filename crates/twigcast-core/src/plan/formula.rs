//! A condition taken apart: tests of values, paths over elements with conditions of their own, and what no index serves.
//!
//! `P[A and Q op c]` and `P[A]/Q op c` come out alike. Formulas borrow from the query's expression; what is left to verify
//! becomes a [`Condition`](super::residual::Condition) of its own.

use std::borrow::Cow;
use std::cell::Cell;
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
    join_texts(&mut list);
    list
}

fn append_conjuncts<'q>(expr: &'q Expr, list: &mut Vec<Formula<'q>>) {
    match expr {
        Expr::And(operands) => operands.iter().for_each(|operand| append_conjuncts(operand, list)),
        Expr::Call { function: Function::Boolean, arguments } => append_conjuncts(&arguments[0], list),
        Expr::Call { function: Function::Not, arguments } => {
            append_negation(&arguments[0], list);
            list.extend(implied_path(expr).map(Formula::Implied));
        }
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
    if !matches!(expr, Expr::Compare { .. } | Expr::Call { .. }) {
        return None;
    }
    let mut only = None;
    only_path(expr, &mut only)?;
    let only = only.filter(|path| !is_plain_path(path))?;
    if analysis::truth_without_nodes(expr) != Some(false) {
        return None;
    }
    let pattern = PathPattern::of(only, false)?;
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

/// Appends the conditions under which an expression is false.
fn append_negation<'q>(expr: &'q Expr, list: &mut Vec<Formula<'q>>) {
    let mut negated = conjunction([expr]);
    let [Formula::Any(alternatives)] = negated.as_mut_slice() else {
        list.push(negated_tests(&negated).unwrap_or(Formula::Not(negated)));
        return;
    };
    // Those that no index serves stay together: a list of words is compared as one.
    let mut others = Vec::new();
    for alternative in std::mem::take(alternatives) {
        match negated_tests(&alternative) {
            Some(formula) => list.push(formula),
            None => others.push(alternative),
        }
    }
    match others.len() {
        0 => {}
        1 => list.push(Formula::Not(others.swap_remove(0))),
        _ => list.push(Formula::Not(vec![Formula::Any(others)])),
    }
}

/// Makes one test of all texts that values of the same operand must not be, and one of all that some value must differ from.
fn join_texts(list: &mut Vec<Formula<'_>>) {
    type Texts<'t> = (&'t Operand, bool, &'t mut Box<[Box<str>]>);
    fn texts_of<'t>(formula: &'t mut Formula<'_>) -> Option<Texts<'t>> {
        match formula {
            Formula::Test(ValueTest { operand, relation: Relation::Differs(texts) }) => Some((operand, false, texts)),
            Formula::Test(ValueTest { operand, relation: Relation::NoneEquals(texts) }) => Some((operand, true, texts)),
            _ => None,
        }
    }
    if list.iter_mut().filter_map(texts_of).nth(1).is_none() {
        return;
    }
    let mut joined: Vec<(usize, Vec<Box<str>>)> = Vec::new();
    let mut index = 0;
    while index < list.len() {
        let (before, from) = list.split_at_mut(index);
        if let Some((operand, is_none, texts)) = texts_of(&mut from[0]) {
            let same = joined.iter_mut().find(|(first, _)| {
                texts_of(&mut before[*first]).is_some_and(|(of, kind, _)| kind == is_none && of == operand)
            });
            let texts = std::mem::take(texts).into_vec();
            match same {
                Some((_, all)) => all.extend(texts),
                None => joined.push((index, texts)),
            }
        }
        index += 1;
    }
    for (first, mut texts) in joined {
        texts.sort_unstable();
        texts.dedup();
        if let Some((.., all)) = texts_of(&mut list[first]) {
            *all = texts.into();
        }
    }
    // What was taken from others leaves them without any.
    list.retain_mut(|formula| texts_of(formula).is_none_or(|(.., texts)| !texts.is_empty()));
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

/// Returns the condition that one of a list does not hold, if an index serves it.
fn negated_tests<'q>(list: &[Formula<'q>]) -> Option<Formula<'q>> {
    // What others imply says nothing of its own.
    let conditions = list.iter().filter(|formula| !matches!(formula, Formula::Implied(_)));
    let tests: Option<Vec<_>> = conditions.map(|formula| negated_test(formula).map(Formula::Test)).collect();
    match tests {
        Some(mut tests) if tests.len() == 1 => tests.pop(),
        Some(tests) if !tests.is_empty() => Some(Formula::Any(tests.into_iter().map(|test| vec![test]).collect())),
        _ => None,
    }
}

/// Returns the test that holds where a condition does not, if an index serves it.
fn negated_test(formula: &Formula<'_>) -> Option<ValueTest> {
    match formula {
        Formula::Test(test) => test.clone().negated(),
        Formula::Path(pattern) => {
            let equalities = Cell::new(0);
            let test = pattern.as_test(|_, _| {
                equalities.set(equalities.get() + 1);
                0.05
            })?;
            // Of several, it takes more to tell which is best turned into a test of the others' operand.
            let is_sure = equalities.get() < 2 || !matches!(test.relation, Relation::Equals(_));
            test.negated().filter(|_| is_sure)
        }
        _ => None,
    }
}

impl<'q> Formula<'q> {
    /// Returns the condition that an expression is at its context node. What [`append_conjuncts`] takes apart, as `and` and
    /// `not()`, is opaque here.
    fn of(expr: &'q Expr) -> Self {
        match expr {
            Expr::Or(operands) | Expr::Union(operands) => {
                Self::Any(operands.iter().map(|operand| conjunction([operand])).collect())
            }
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
                join_texts(&mut last.conditions);
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

    /// Returns whether the path leads to children and asks so much of the last that few queries ask for the same but for one
    /// constant. No operand would be shared then; what each child is asked for is.
    pub(super) fn asks_much_of_last(&self) -> bool {
        let is_walk = |element: &PatternStep<'_>| !element.step.descendant && element.positional.is_none();
        let Some(last) = self.elements.last() else { return false };
        if self.comparison.is_some() || last.source.end < self.steps.len() || !self.elements.iter().all(is_walk) {
            return false;
        }
        let is_test = |formula: &&Formula<'_>| match formula {
            Formula::Test(test) => !matches!(test.relation, Relation::Equals(_)),
            _ => false,
        };
        last.conditions.iter().any(|formula| matches!(formula, Formula::Any(_) | Formula::Not(_)))
            || last.conditions.iter().filter(is_test).count() > 1
    }

    /// Returns the path as a test of an operand that queries with other constants share, if it can be turned into one.
    /// `equality` says in what part of all messages an operand equals a text.
    pub(super) fn as_test(&self, equality: impl Fn(&Operand, &str) -> f32) -> Option<ValueTest> {
        if self.comparison.is_some() { self.compared_nodes() } else { turned_out(self.steps, equality) }
    }
}

/// Returns a step that leads to elements and can be decided at the element; `None` for any other step.
fn element_step(step: &Step, after_double_slash: bool, leads_on: bool) -> Option<PatternStep<'_>> {
    let is_positioned = step.predicates.iter().any(is_positional);
    let linear = linear_step(step, is_positioned, after_double_slash, leads_on)?;
    // Whatever the order of the predicates, those that do not count hold at each element that is selected.
    let conditions = match is_positioned {
        false => conjunction(&step.predicates),
        true => conjunction(step.predicates.iter().filter(|predicate| !is_positional(predicate))),
    };
    Some(PatternStep { step: linear, conditions, positional: is_positioned.then_some(step), source: 0..0 })
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
            | Relation::NoneEquals(_)
            | Relation::NoneWithin(_)
            | Relation::OtherNumber(_)
            | Relation::Matches(_)
            | Relation::Region(_) => continue,
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
