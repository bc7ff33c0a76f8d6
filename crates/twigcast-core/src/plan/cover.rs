//! Covers: what an index has to find of a query, so that the query is looked at only where something of it holds.
//!
//! A *cover* of a condition is a set of accesses of which at least one holds whenever the condition does: of `and` the
//! cheapest operand's, of `or` the union, of a path its own or that of a condition on one of its elements; of `not` there is
//! none. An access is a path that the automaton finds, a test of a value at the element where it accepts, and the residual:
//! what of the query remains to be verified there. Each access with its residual implies the query, and the query implies
//! that one of them holds, so that nothing else is ever evaluated.

use std::rc::Rc;

use super::condition::{is_double_slash, necessary_paths};
use super::cost::{ALWAYS, cost_of_test};
use super::formula::{Formula, PathPattern, PatternStep};
use super::operand::{Relation, ValueTest};
use super::path::on_some_element;
use super::residual::{ChainStep, Residuals, all, condition_of};
use super::residual_condition::Condition;
use super::route::{Access, Action, Frequencies, Route};
use crate::analysis;
use crate::query::ast::{Axis, Expr, Function, LinearStep, NameTest, NodeTest, Path, PathStart, Step};
use crate::query::functions::ExprType;
use crate::query::position::is_positional;

/// A range costs nothing where it does not lead to a match if at least this part of all queries has the same residual, which is
/// then decided once for all of them (see [`crate::access::table::GuardedRanges`]).
const GUARD_SHARE_MIN: f32 = 1.0 / 64.0;
/// Values are about as rare if one is expected no more than so many times as often as the other.
const ABOUT_AS_RARE: f32 = 2.0;

/// Which of the conditions on an element is looked up, and how.
enum Pick {
    /// A test of a value, itself.
    Here,
    /// A condition on an element of a path.
    Inside { element: usize, condition: Box<PickedCondition> },
    /// One in each alternative.
    Each(Vec<PickedCondition>),
}

/// A condition of a list, and how it is looked up.
struct PickedCondition {
    index: usize,
    pick: Pick,
}

/// Finds covers and makes routes of them.
pub(super) struct Covers<'f> {
    residuals: Residuals<'f>,
    /// Conditions on the document node that each access has to verify too.
    at_document: Vec<Rc<Condition>>,
    routes: Vec<Route>,
}

impl<'f> Covers<'f> {
    pub(super) fn new(frequencies: &'f dyn Frequencies) -> Self {
        Self { residuals: Residuals { frequencies }, at_document: Vec::new(), routes: Vec::new() }
    }

    /// Returns what is known of values.
    pub(super) fn frequencies(&self) -> &'f dyn Frequencies {
        self.residuals.frequencies
    }

    /// Returns the routes of all accesses.
    pub(super) fn into_routes(self) -> Vec<Route> {
        self.routes
    }

    /// Adds the accesses of a condition on the document node.
    pub(super) fn add(&mut self, expr: &Expr) {
        match expr {
            Expr::Or(operands) | Expr::Union(operands) => operands.iter().for_each(|operand| self.add(operand)),
            Expr::Call { function: Function::Boolean, arguments } => self.add(&arguments[0]),
            Expr::And(operands) => self.add_cheapest(operands),
            _ => match PathPattern::of(expr, true) {
                Some(pattern) if !pattern.elements.is_empty() => self.add_path(&pattern),
                _ => match on_elements(expr) {
                    Some(expr) => self.add(&expr),
                    None => self.add_other(expr),
                },
            },
        }
    }

    /// Adds the accesses of the operand of an `and` of which they are the rarest; the others remain to be verified.
    fn add_cheapest(&mut self, operands: &[Expr]) {
        let costs = operands.iter().map(|operand| self.cost_at_document(operand));
        let cheapest = costs.enumerate().min_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(0, |(index, _)| index);
        let before = self.at_document.len();
        let others = operands.iter().enumerate().filter(|(index, _)| *index != cheapest);
        let others = others.map(|(_, operand)| self.residuals.of_expr(operand));
        let others: Vec<_> = others.map(|condition| Rc::new(Condition::AtDocument(condition))).collect();
        self.at_document.extend(others);
        self.add(&operands[cheapest]);
        self.at_document.truncate(before);
    }

    fn cost_at_document(&self, expr: &Expr) -> f32 {
        match expr {
            Expr::Or(operands) | Expr::Union(operands) => {
                operands.iter().map(|operand| self.cost_at_document(operand)).sum()
            }
            Expr::And(operands) => {
                operands.iter().map(|operand| self.cost_at_document(operand)).fold(f32::INFINITY, f32::min)
            }
            Expr::Call { function: Function::Boolean, arguments } => self.cost_at_document(&arguments[0]),
            _ => match PathPattern::of(expr, true) {
                Some(pattern) if !pattern.elements.is_empty() => self.pick_in_path(&pattern, 0.0).0,
                _ => {
                    ValueTest::of(expr).and_then(|test| self.cost_of_test(&test, NameTest::Any)).unwrap_or(2.0 * ALWAYS)
                }
            },
        }
    }

    /// Adds the accesses of an expression that is no path: a value of the document, looked up at the root element, or else
    /// any path without which it is false.
    fn add_other(&mut self, expr: &Expr) {
        if analysis::truth_without_nodes(expr) == Some(false) && self.add_value(expr) {
            return;
        }
        let Some(paths) = necessary_paths(expr) else {
            self.routes.push(Route { path: Vec::new(), action: Action::Always });
            return;
        };
        let whole = Rc::new(Condition::AtDocument(Rc::new(Condition::Expr(expr.clone()))));
        self.at_document.push(whole);
        for path in paths {
            let expr = Expr::Path(path);
            match PathPattern::of(&expr, true) {
                Some(pattern) if !pattern.elements.is_empty() => self.add_path(&pattern),
                _ => self.add_anywhere(),
            }
        }
        self.at_document.pop();
    }

    /// Adds the access of a test of a value of the document, if the expression is one.
    fn add_value(&mut self, expr: &Expr) -> bool {
        let Some(rooted) = from_root(expr) else { return false };
        let implied = ValueTest::implied_by(&rooted);
        let is_implied = !implied.is_empty();
        let tests = if is_implied { implied } else { ValueTest::of(&rooted).into_iter().collect() };
        if tests.is_empty() || tests.iter().any(|test| self.cost_of_test(test, NameTest::Any).is_none()) {
            return false;
        }
        let root = LinearStep { descendant: false, test: root_test(expr) };
        let chain = [ChainStep { step: root, conditions: Vec::new(), is_closed: false }];
        if is_implied {
            let whole = Rc::new(Condition::Expr(expr.clone()));
            self.at_document.push(Rc::new(Condition::AtDocument(whole)));
        }
        tests.into_iter().for_each(|test| self.push(&chain, Some(test)));
        self.at_document.truncate(self.at_document.len() - usize::from(is_implied));
        true
    }

    /// Adds an access that each message has.
    fn add_anywhere(&mut self) {
        let root = LinearStep { descendant: false, test: NameTest::Any };
        let chain = [ChainStep { step: root, conditions: Vec::new(), is_closed: false }];
        self.push(&chain, None);
    }

    /// Adds the accesses of a path from the document node.
    pub(super) fn add_path(&mut self, pattern: &PathPattern<'_>) {
        let mut chain = Vec::new();
        let outside = if self.at_document.is_empty() { 1.0 } else { 0.0 };
        let (cost, picked) = self.pick_in_path(pattern, outside);
        if self.add_elsewhere(pattern, cost / ABOUT_AS_RARE) {
            return;
        }
        if let Some((element, condition)) = picked {
            self.add_inside(&mut chain, pattern, element, &condition);
            return;
        }
        // Where the last of its conditions can be decided, if there are any.
        let asks = |element: &PatternStep<'_>| !element.conditions.is_empty() || element.positional.is_some();
        let end = pattern.elements.iter().rposition(asks).unwrap_or(pattern.elements.len() - 1);
        self.append_chain(&mut chain, pattern, end, None);
        self.push(&chain, None);
    }

    /// Adds the accesses of a path from the document node that a condition compares with, as `//b[@k = 'v']/@id` in
    /// `//a[@ref = //b[@k = 'v']/@id]`, if they are looked up more seldom than `cost_max`. Returns whether they are.
    fn add_elsewhere(&mut self, pattern: &PathPattern<'_>, cost_max: f32) -> bool {
        let conditions = pattern.elements.iter().flat_map(|element| &element.conditions);
        let others = conditions.filter_map(compared_elsewhere).filter_map(|path| PathPattern::of(path, true));
        let priced = others.filter_map(|other| match self.pick_in_path(&other, 0.0) {
            (cost, Some(picked)) if cost < cost_max => Some((cost, other, picked)),
            _ => None,
        });
        let Some((_, other, (element, condition))) = priced.min_by(|(a, ..), (b, ..)| a.total_cmp(b)) else {
            return false;
        };
        let whole = Rc::new(Condition::Expr(pattern.whole()));
        self.at_document.push(Rc::new(Condition::AtDocument(whole)));
        self.add_inside(&mut Vec::new(), &other, element, &condition);
        self.at_document.pop();
        true
    }

    /// Returns the condition in a path that is looked up best, by its element, and how often that will be found. `outside` is the
    /// part of all queries that has the same conditions outside of the path.
    fn pick_in_path(&self, pattern: &PathPattern<'_>, outside: f32) -> (f32, Option<(usize, Box<PickedCondition>)>) {
        let mut picks = Vec::new();
        for (index, element) in pattern.elements.iter().enumerate() {
            let others = pattern.elements.iter().enumerate().filter(|(other, _)| *other != index);
            let is_asked = outside > 0.0 && element.conditions.iter().any(may_lead_by_range);
            let outside = match is_asked {
                true => others.fold(outside, |share, (_, other)| share * self.share_of_element(other)),
                false => 0.0,
            };
            if let Some((cost, picked)) = self.pick(&element.conditions, element.step.test, outside)
                && cost < ALWAYS
            {
                picks.push((cost, index, picked));
            }
        }
        // Of elements with values about as rare, the last one: it occurs only below all others.
        let least = picks.iter().map(|(cost, ..)| *cost).fold(ALWAYS, f32::min);
        let last = picks.into_iter().rev().find(|(cost, ..)| *cost <= ABOUT_AS_RARE * least);
        last.map_or((ALWAYS, None), |(cost, index, picked)| (cost, Some((index, Box::new(picked)))))
    }

    fn share_of_element(&self, element: &PatternStep<'_>) -> f32 {
        if element.positional.is_some() { 0.0 } else { self.share_of_all(element.conditions.iter()) }
    }

    /// Returns which part of all queries is expected to have the same conditions.
    fn share_of_all<'c, 'q: 'c>(&self, conditions: impl Iterator<Item = &'c Formula<'q>> + Clone) -> f32 {
        let may_be_shared = |condition: &Formula<'_>| match condition {
            Formula::Test(test) => matches!(test.relation, Relation::Equals(_)),
            Formula::Implied(_) => true,
            _ => false,
        };
        // Looking frequencies up takes longer than to see that there is no need to.
        if !conditions.clone().all(may_be_shared) {
            return 0.0;
        }
        let share = |condition: &Formula<'_>| match condition {
            Formula::Test(ValueTest { operand, relation: Relation::Equals(text) }) => {
                self.residuals.frequencies.equality(operand, text)
            }
            _ => 1.0,
        };
        conditions.map(share).product()
    }

    /// Returns the condition of a list, on an element of a name, that is looked up best, and how often it will be found.
    fn pick(&self, conditions: &[Formula<'_>], element: NameTest, outside: f32) -> Option<(f32, PickedCondition)> {
        let mut best: Option<(f32, PickedCondition)> = None;
        for (index, condition) in conditions.iter().enumerate() {
            let others = || conditions.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, other)| other);
            let is_asked = outside > 0.0 && may_lead_by_range(condition);
            let outside = || if is_asked { outside * self.share_of_all(others()) } else { 0.0 };
            let (cost, pick) = match condition {
                Formula::Test(test) => match self.cost_of_test(test, element) {
                    Some(cost) => {
                        let share = outside();
                        (if share >= GUARD_SHARE_MIN { cost * share } else { cost }, Pick::Here)
                    }
                    None => continue,
                },
                Formula::Path(pattern) | Formula::Implied(pattern) => match self.pick_in_path(pattern, outside()) {
                    (cost, Some((element, condition))) => (cost, Pick::Inside { element, condition }),
                    _ => continue,
                },
                Formula::Any(alternatives) => {
                    let picks: Option<Vec<_>> = alternatives.iter().map(|list| self.pick(list, element, 0.0)).collect();
                    let Some(picks) = picks else { continue };
                    let cost = picks.iter().map(|(cost, _)| cost).sum::<f32>().min(0.95 * ALWAYS);
                    (cost, Pick::Each(picks.into_iter().map(|(_, pick)| pick).collect()))
                }
                Formula::Not(_) | Formula::Opaque(_) => continue,
            };
            if best.as_ref().is_none_or(|best| cost < best.0) {
                best = Some((cost, PickedCondition { index, pick }));
            }
        }
        best
    }

    fn cost_of_test(&self, test: &ValueTest, element: NameTest) -> Option<f32> {
        cost_of_test(test, element, self.residuals.frequencies)
    }

    /// Adds accesses for a condition on an element of a path that hangs on the last element of a chain.
    fn add_inside(
        &mut self,
        chain: &mut Vec<ChainStep>,
        pattern: &PathPattern<'_>,
        element: usize,
        condition: &PickedCondition,
    ) {
        let before = chain.len();
        self.append_chain(chain, pattern, element, Some(condition.index));
        self.add_condition(chain, &pattern.elements[element].conditions[condition.index], &condition.pick);
        chain.truncate(before);
    }

    /// Appends the elements of a path up to one of them, with all conditions but one of that.
    fn append_chain(&self, chain: &mut Vec<ChainStep>, pattern: &PathPattern<'_>, end: usize, picked: Option<usize>) {
        for (index, element) in pattern.elements[..=end].iter().enumerate() {
            let left_out = picked.filter(|_| index == end);
            let mut conditions = self.residuals.of_all_but(&element.conditions, left_out);
            if let Some(step) = element.positional {
                conditions.push(Rc::new(Condition::Position(counting(step))));
            }
            if index == end
                && let Some(below) = pattern.below(end)
            {
                conditions.push(self.residuals.of_expr(&below));
            }
            chain.push(ChainStep { step: element.step, conditions, is_closed: false });
        }
    }

    /// Adds the accesses of a condition on the last element of a chain, of which all others are in the chain.
    fn add_condition(&mut self, chain: &mut Vec<ChainStep>, condition: &Formula<'_>, pick: &Pick) {
        match (condition, pick) {
            (Formula::Test(test), Pick::Here) => self.push(chain, Some(test.clone())),
            (Formula::Path(pattern) | Formula::Implied(pattern), Pick::Inside { element, condition }) => {
                self.add_inside(chain, pattern, *element, condition);
            }
            (Formula::Any(alternatives), Pick::Each(picks)) => self.add_each(chain, alternatives, picks),
            _ => {}
        }
    }

    fn add_each(&mut self, chain: &mut Vec<ChainStep>, alternatives: &[Vec<Formula<'_>>], picks: &[PickedCondition]) {
        // What all alternatives share is one condition, so that there is one however many they are.
        let shared = condition_of(chain);
        let Some(last) = chain.pop() else { return };
        for (alternative, picked) in alternatives.iter().zip(picks) {
            let mut conditions: Vec<_> = shared.iter().cloned().collect();
            conditions.extend(self.residuals.of_all_but(alternative, Some(picked.index)));
            chain.push(ChainStep { step: last.step, conditions, is_closed: true });
            self.add_condition(chain, &alternative[picked.index], &picked.pick);
            chain.pop();
        }
        chain.push(last);
    }

    /// Adds an access at the last element of a chain.
    fn push(&mut self, chain: &[ChainStep], test: Option<ValueTest>) {
        let mut residual = condition_of(chain);
        if !self.at_document.is_empty() {
            residual = all(residual.into_iter().chain(self.at_document.iter().cloned()).collect());
        }
        let access = Access { test, residual };
        let is_same_path = |route: &Route| {
            route.path.len() == chain.len() && route.path.iter().zip(chain).all(|(step, element)| *step == element.step)
        };
        if let Some(Route { action: Action::Access { entries, .. }, .. }) =
            self.routes.last_mut().filter(|route| is_same_path(route))
        {
            entries.push(access);
            return;
        }
        let path = chain.iter().map(|element| element.step).collect();
        self.routes.push(Route { path, action: Action::Access { entries: vec![access], whole: false } });
    }
}

/// Returns whether the part of queries that have the same conditions otherwise may matter to how a condition is looked up.
fn may_lead_by_range(condition: &Formula<'_>) -> bool {
    match condition {
        Formula::Test(test) => match test.relation {
            Relation::Within(range) => !range.is_point(),
            Relation::Overlaps(_) => true,
            _ => false,
        },
        Formula::Path(pattern) | Formula::Implied(pattern) => {
            pattern.elements.iter().flat_map(|element| &element.conditions).any(may_lead_by_range)
        }
        Formula::Any(_) | Formula::Not(_) | Formula::Opaque(_) => false,
    }
}

/// Returns the path from the document node without which a comparison is false.
fn compared_elsewhere<'c>(condition: &'c Formula<'_>) -> Option<&'c Expr> {
    let Formula::Opaque(expr) = condition else { return None };
    let Expr::Compare { left, right, .. } = &**expr else { return None };
    let is_elsewhere = |side: &Expr| matches!(side, Expr::Path(Path { start: PathStart::Root, .. }));
    // A truth value is compared with whether there is any.
    let is_value = |side: &Expr| side.static_type(&[]) != ExprType::Boolean;
    match (&**left, &**right) {
        (side, other) | (other, side) if is_elsewhere(side) && is_value(other) => Some(side),
        _ => None,
    }
}

/// Returns a step with its predicates up to the last one that depends on positions. Those after it are conditions by themselves,
/// so that queries share what counts.
fn counting(step: &Step) -> Step {
    let count = step.predicates.iter().rposition(is_positional).map_or(0, |last| last + 1);
    Step { axis: step.axis, test: step.test.clone(), predicates: step.predicates[..count].to_vec() }
}

/// Returns a path from the document node that begins with `//text()` or `//@a`, as one by way of the elements that have these.
fn on_elements(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::Path(Path { start: start @ (PathStart::Root | PathStart::Context), steps }) => {
            let (first, rest) = match steps.as_slice() {
                [double_slash, first, rest @ ..] if is_double_slash(double_slash) => (first, rest),
                [first, rest @ ..] => (first, rest),
                [] => return None,
            };
            let step = on_some_element(first, steps.len() > rest.len() + 1)?;
            let element = Step { axis: Axis::Descendant, test: NodeTest::Name(NameTest::Any), predicates: Vec::new() };
            let steps = [element, step].into_iter().chain(rest.iter().cloned()).collect();
            Some(Expr::Path(Path { start: start.clone(), steps }))
        }
        Expr::Compare { .. } => match expr.compared_with_constant()? {
            (path @ Expr::Path(_), op, constant) => {
                let (left, right) = (Box::new(on_elements(path)?), Box::new(constant.clone()));
                Some(Expr::Compare { op, left, right })
            }
            _ => None,
        },
        _ => None,
    }
}

/// Returns the name of the root element, if all paths of an expression begin with it.
fn root_test(expr: &Expr) -> NameTest {
    let mut root = None;
    for path in necessary_paths(expr).unwrap_or_default() {
        let test = match path.steps.first() {
            Some(step) if step.axis == Axis::Child => match step.test {
                NodeTest::Name(test) => test,
                _ => NameTest::Any,
            },
            _ => NameTest::Any,
        };
        if root.is_some_and(|root| root != test) {
            return NameTest::Any;
        }
        root = Some(test);
    }
    root.unwrap_or(NameTest::Any)
}

/// Returns an expression about the document node as one that has the same value at every node; `None` if there is none.
fn from_root(expr: &Expr) -> Option<Expr> {
    let list = |operands: &[Expr]| operands.iter().map(from_root).collect::<Option<Vec<_>>>();
    let boxed = |operand: &Expr| from_root(operand).map(Box::new);
    Some(match expr {
        Expr::Or(operands) => Expr::Or(list(operands)?),
        Expr::And(operands) => Expr::And(list(operands)?),
        Expr::Union(operands) => Expr::Union(list(operands)?),
        Expr::Compare { op, left, right } => Expr::Compare { op: *op, left: boxed(left)?, right: boxed(right)? },
        Expr::Arithmetic { op, left, right } => Expr::Arithmetic { op: *op, left: boxed(left)?, right: boxed(right)? },
        Expr::Negate(operand) => Expr::Negate(boxed(operand)?),
        Expr::Map { nodes, value } => Expr::Map { nodes: boxed(nodes)?, value: value.clone() },
        Expr::Path(path) => Expr::Path(match &path.start {
            PathStart::Root => path.clone(),
            PathStart::Context => Path { start: PathStart::Root, steps: path.steps.clone() },
            PathStart::Filter { primary, predicates } => {
                let start = PathStart::Filter { primary: boxed(primary)?, predicates: predicates.clone() };
                Path { start, steps: path.steps.clone() }
            }
            PathStart::Variable(_) => return None,
        }),
        Expr::Number(_)
        | Expr::Literal(_)
        | Expr::Pattern(_)
        | Expr::Selection(_)
        | Expr::Region(_)
        | Expr::Typed(_) => expr.clone(),
        Expr::Call { function: Function::Lang | Function::Id | Function::Position | Function::Last, .. } => {
            return None;
        }
        Expr::Call { function: Function::True | Function::False, .. } => expr.clone(),
        Expr::Call { arguments, .. } if arguments.is_empty() => return None,
        Expr::Call { function, arguments } => Expr::Call { function: *function, arguments: list(arguments)? },
    })
}
