//! Covers: what an index has to find of a query, so that the query is looked at only where something of it holds.
//!
//! A *cover* of a condition is a set of accesses of which at least one holds whenever the condition does: of `and` the
//! cheapest operand's, of `or` the union, of a path its own or that of a condition on one of its elements; of `not` there is
//! none. An access is a path that the automaton finds, a test of a value at the element where it accepts, and the residual:
//! what of the query remains to be verified there. Each access with its residual implies the query, and the query implies
//! that one of them holds, so that nothing else is ever evaluated.

use std::rc::Rc;

use super::condition::{is_double_slash, necessary_paths};
use super::formula::{Formula, PathPattern, PatternStep};
use super::operand::{Relation, ValueTest};
use super::path::on_some_element;
use super::residual::{ChainStep, Residuals, all, condition_of};
use super::residual_condition::Condition;
use super::route::{Access, Action, Frequencies, Route};
use crate::analysis;
use crate::query::ast::{Axis, Expr, Function, LinearStep, NameTest, NodeTest, Path, PathStart, Step};

/// What a condition costs that no index narrows down, against one that each message satisfies.
const ALWAYS: f32 = 1.0;

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
                Some(pattern) if !pattern.elements.is_empty() => self.pick_in_path(&pattern).0,
                _ => ValueTest::of(expr).and_then(|test| self.cost_of_test(&test)).unwrap_or(2.0 * ALWAYS),
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
        let Some(test) = ValueTest::of(&rooted).filter(|test| self.cost_of_test(test).is_some()) else { return false };
        let root = LinearStep { descendant: false, test: root_test(expr) };
        let chain = [ChainStep { step: root, conditions: Vec::new(), is_closed: false }];
        self.push(&chain, Some(test));
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
        if let (_, Some((element, condition))) = self.pick_in_path(pattern) {
            self.add_inside(&mut chain, pattern, element, &condition);
            return;
        }
        // Where the last of its conditions can be decided, if there are any.
        let asks = |element: &PatternStep<'_>| !element.conditions.is_empty() || element.positional.is_some();
        let end = pattern.elements.iter().rposition(asks).unwrap_or(pattern.elements.len() - 1);
        self.append_chain(&mut chain, pattern, end, None);
        self.push(&chain, None);
    }

    /// Returns the condition in a path that is looked up best, by its element, and how often that will be found.
    fn pick_in_path(&self, pattern: &PathPattern<'_>) -> (f32, Option<(usize, Box<PickedCondition>)>) {
        let mut best = (ALWAYS, None);
        for (index, element) in pattern.elements.iter().enumerate() {
            if let Some((cost, picked)) = self.pick(&element.conditions)
                && cost < best.0
            {
                best = (cost, Some((index, Box::new(picked))));
            }
        }
        best
    }

    /// Returns the condition of a list that is looked up best, and how often it will be found.
    fn pick(&self, conditions: &[Formula<'_>]) -> Option<(f32, PickedCondition)> {
        let mut best: Option<(f32, PickedCondition)> = None;
        for (index, condition) in conditions.iter().enumerate() {
            let (cost, pick) = match condition {
                Formula::Test(test) => match self.cost_of_test(test) {
                    Some(cost) => (cost, Pick::Here),
                    None => continue,
                },
                Formula::Path(pattern) => match self.pick_in_path(pattern) {
                    (cost, Some((element, condition))) => (cost, Pick::Inside { element, condition }),
                    _ => continue,
                },
                Formula::Any(alternatives) => {
                    let picks: Option<Vec<_>> = alternatives.iter().map(|list| self.pick(list)).collect();
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

    /// Returns in what part of all messages a test is expected to hold; `None` if no index serves it.
    fn cost_of_test(&self, test: &ValueTest) -> Option<f32> {
        Some(match &test.relation {
            Relation::Equals(text) => self.residuals.frequencies.equality(&test.operand, text),
            Relation::Within(range) if range.is_point() => 0.05,
            Relation::Within(_) => 0.4,
            Relation::Overlaps(_) => 0.06,
            Relation::StartsWith(part) => [0.2, 0.1, 0.04][part.len().clamp(1, 3) - 1],
            Relation::Contains(part) => [0.4, 0.2, 0.1, 0.05][part.len().clamp(1, 4) - 1],
            Relation::Differs(_) | Relation::OtherNumber(_) => return None,
        })
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
            let mut conditions = self.all_but(&element.conditions, left_out);
            if let Some(step) = element.positional {
                conditions.push(Rc::new(Condition::Position(step.clone())));
            }
            if index == end
                && let Some(below) = pattern.below(end)
            {
                conditions.push(self.residuals.of_expr(&below));
            }
            chain.push(ChainStep { step: element.step, conditions, is_closed: false });
        }
    }

    fn all_but(&self, conditions: &[Formula<'_>], left_out: Option<usize>) -> Vec<Rc<Condition>> {
        let kept = conditions.iter().enumerate().filter(|(index, _)| Some(*index) != left_out);
        kept.map(|(_, condition)| self.residuals.of(condition)).collect()
    }

    /// Adds the accesses of a condition on the last element of a chain, of which all others are in the chain.
    fn add_condition(&mut self, chain: &mut Vec<ChainStep>, condition: &Formula<'_>, pick: &Pick) {
        match (condition, pick) {
            (Formula::Test(test), Pick::Here) => self.push(chain, Some(test.clone())),
            (Formula::Path(pattern), Pick::Inside { element, condition }) => {
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
            conditions.extend(self.all_but(alternative, Some(picked.index)));
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
        Expr::Compare { op, left, right } => Some(match (&**left, &**right) {
            (path @ Expr::Path(_), Expr::Literal(_) | Expr::Number(_)) => {
                Expr::Compare { op: *op, left: Box::new(on_elements(path)?), right: right.clone() }
            }
            (Expr::Literal(_) | Expr::Number(_), path @ Expr::Path(_)) => {
                Expr::Compare { op: *op, left: left.clone(), right: Box::new(on_elements(path)?) }
            }
            _ => return None,
        }),
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
        Expr::Path(path) => Expr::Path(match &path.start {
            PathStart::Root => path.clone(),
            PathStart::Context => Path { start: PathStart::Root, steps: path.steps.clone() },
            PathStart::Filter { primary, predicates } => {
                let start = PathStart::Filter { primary: boxed(primary)?, predicates: predicates.clone() };
                Path { start, steps: path.steps.clone() }
            }
            PathStart::Variable(_) => return None,
        }),
        Expr::Number(_) | Expr::Literal(_) => expr.clone(),
        Expr::Call { function: Function::Lang | Function::Id | Function::Position | Function::Last, .. } => {
            return None;
        }
        Expr::Call { function: Function::True | Function::False, .. } => expr.clone(),
        Expr::Call { arguments, .. } if arguments.is_empty() => return None,
        Expr::Call { function, arguments } => Expr::Call { function: *function, arguments: list(arguments)? },
    })
}
