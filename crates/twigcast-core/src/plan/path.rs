//! From a location path to routes: the trunk, the choice of trigger and key, and what is left to verify.

use super::condition::{as_path, is_positional, is_structural};
use super::key::{self, Distance, Key, KeyValue};
use super::{Action, LinearStep, Route, StepCheck, Verify, is_double_slash};
use crate::query::ast::{Axis, Expr, NameTest, NodeTest, Path, PathStart, Step};

/// Alternatives of one `or` that become routes of their own.
const ALTERNATIVES_MAX: usize = 16;
/// Nested paths that are tried as the place of the trigger.
const SPINES_MAX: usize = 32;

/// The leading element steps of a path, with all that the path says of each of them. What comes after (an attribute, a
/// text node, another axis) has become a condition on the last step, which is the same for the question of existence.
type Trunk = Vec<StepCheck>;

/// Routes for "this path, from the document node, selects something".
pub(super) fn plan_path(path: &Path, routes: &mut Vec<Route>) {
    match trunk_of(&path.steps) {
        Some(trunk) => plan_trunk(trunk, 0, routes),
        None => routes.push(Route { path: Vec::new(), action: Action::Always }),
    }
}

/// A route that every message with a node on this path takes; the whole expression then decides.
pub(super) fn necessary_routes(path: &Path) -> Vec<Route> {
    let mut routes = Vec::new();
    plan_path(path, &mut routes);
    for route in &mut routes {
        route.action = match std::mem::replace(&mut route.action, Action::Always) {
            Action::Accept | Action::Twig(_) => Action::Trigger { key: None, verify: Verify::Whole },
            Action::Trigger { key, .. } => Action::Trigger { key, verify: Verify::Whole },
            Action::Always => Action::Always,
        };
    }
    routes
}

/// Split a path into its trunk; `None` when not even its first step is an element below the document node.
fn trunk_of(steps: &[Step]) -> Option<Trunk> {
    let mut trunk = Trunk::new();
    let mut descendant = false;
    for (index, step) in steps.iter().enumerate() {
        if is_double_slash(step) {
            descendant = true;
            continue;
        }
        match element_step(step, descendant, leads_on_from_elements(&steps[index + 1..])) {
            Some(check) => trunk.push(check),
            None => {
                let from = if descendant { index - 1 } else { index };
                return with_rest(trunk, steps, from, index, descendant);
            }
        }
        descendant = false;
    }
    // A path that ends in `//`'s own step cannot be written, but an explicit one can: `a/descendant-or-self::node()`.
    // It selects at least the node before it.
    (!trunk.is_empty()).then_some(trunk)
}

/// The check for a step that leads to elements and can be decided at the element; `None` for any other step.
fn element_step(step: &Step, after_double_slash: bool, leads_on: bool) -> Option<StepCheck> {
    let positional = step.predicates.iter().any(is_positional);
    let test = match &step.test {
        NodeTest::Name(test) => *test,
        // Only elements have something below: `node()` in front of such a step is `*`, but counts differently.
        NodeTest::Node if step.axis == Axis::Child && !positional && leads_on => NameTest::Any,
        _ => return None,
    };
    let descendant = match step.axis {
        Axis::Child => after_double_slash,
        Axis::Descendant if !positional => true,
        _ => return None,
    };
    let mut check = StepCheck { step: LinearStep { descendant, test }, conditions: Vec::new(), positional: None };
    if positional {
        check.positional = Some(Box::new(step.clone()));
    } else {
        check.conditions = conjuncts(&step.predicates);
    }
    Some(check)
}

/// Do steps lead on from elements only, and not from text and the like?
fn leads_on_from_elements(steps: &[Step]) -> bool {
    steps
        .iter()
        .find(|step| !is_double_slash(step))
        .is_some_and(|step| matches!(step.axis, Axis::Child | Axis::Descendant | Axis::Attribute))
}

/// Turn the steps from `from` on into a condition on the trunk's last step.
fn with_rest(mut trunk: Trunk, steps: &[Step], from: usize, index: usize, descendant: bool) -> Option<Trunk> {
    match trunk.last_mut() {
        Some(last) => last.conditions.push(relative(steps[from..].to_vec())),
        // `//@a`, `//text()`: the document node has neither, so some element has.
        None if descendant && only_on_elements(&steps[index]) => trunk.push(StepCheck {
            step: LinearStep { descendant: true, test: NameTest::Any },
            conditions: vec![relative(steps[index..].to_vec())],
            positional: None,
        }),
        None => return None,
    }
    Some(trunk)
}

fn only_on_elements(step: &Step) -> bool {
    step.axis == Axis::Attribute || (step.axis == Axis::Child && step.test == NodeTest::Text)
}

fn relative(steps: Vec<Step>) -> Expr {
    Expr::Path(Path { start: PathStart::Context, steps })
}

fn conjuncts(predicates: &[Expr]) -> Vec<Expr> {
    let mut list = Vec::new();
    for predicate in predicates {
        match predicate {
            Expr::And(operands) => list.extend(conjuncts(operands)),
            other => list.push(other.clone()),
        }
    }
    list
}

fn plan_trunk(trunk: Trunk, depth: usize, routes: &mut Vec<Route>) {
    let Some(first) = trunk.iter().position(|check| !check.is_trivial()) else {
        routes.push(Route { path: linear(&trunk), action: Action::Accept });
        return;
    };
    if trunk.iter().all(|check| check.positional.is_none() && check.conditions.iter().all(is_structural)) {
        let mut conditions = trunk[first].conditions.clone();
        if first + 1 < trunk.len() {
            conditions.push(relative(steps_of(&trunk[first + 1..])));
        }
        let condition = if conditions.len() == 1 { conditions.remove(0) } else { Expr::And(conditions) };
        routes.push(Route { path: linear(&trunk[..=first]), action: Action::Twig(condition) });
        return;
    }
    let best = best_trigger(&trunk);
    let selectivity = best.as_ref().map_or(0, |trigger| trigger.key.value.selectivity());
    if selectivity < 3 && depth < 2 {
        if let Some(alternatives) = split_alternatives(&trunk) {
            for alternative in alternatives {
                plan_trunk(alternative, depth + 1, routes);
            }
            return;
        }
    }
    routes.push(match best {
        Some(trigger) => trigger.into_route(),
        None => {
            let path = linear(&trunk);
            Route { path, action: Action::Trigger { key: None, verify: Verify::Upward(trunk) } }
        }
    });
}

fn linear(trunk: &[StepCheck]) -> Vec<LinearStep> {
    trunk.iter().map(|check| check.step).collect()
}

/// The trunk's steps as a path expression again.
fn steps_of(trunk: &[StepCheck]) -> Vec<Step> {
    let mut steps = Vec::with_capacity(trunk.len());
    for check in trunk {
        let predicates = check.conditions.clone();
        match &check.positional {
            Some(step) => {
                if check.step.descendant && step.axis == Axis::Child {
                    steps.push(Step { axis: Axis::DescendantOrSelf, test: NodeTest::Node, predicates: Vec::new() });
                }
                let mut step = (**step).clone();
                // Conditions beside a positional step come from the rest of the path: they filter after it.
                step.predicates.extend(predicates);
                steps.push(step);
            }
            None => {
                let axis = if check.step.descendant { Axis::Descendant } else { Axis::Child };
                steps.push(Step { axis, test: NodeTest::Name(check.step.test), predicates });
            }
        }
    }
    steps
}

/// A place for the trigger: the path to it, its key, and the conditions that the key does not cover.
struct Trigger {
    spine: Trunk,
    key: Key,
    exact: bool,
}

impl Trigger {
    fn score(&self) -> (u32, bool, bool, usize) {
        (self.key.value.selectivity(), self.exact, self.key.distance != Distance::Any, self.spine.len())
    }

    fn into_route(self) -> Route {
        let path = linear(&self.spine);
        let verify = if self.exact { Verify::Nothing } else { Verify::Upward(self.spine) };
        Route { path, action: Action::Trigger { key: Some(self.key), verify } }
    }
}

fn best_trigger(trunk: &Trunk) -> Option<Trigger> {
    // A spine and where its last nested part begins: only that part is searched for further nested paths, since those
    // further up were tried when the spine was made.
    let mut spines = vec![(trunk.clone(), 0)];
    let mut next = 0;
    while next < spines.len() && spines.len() < SPINES_MAX {
        let (spine, from) = spines[next].clone();
        extend_spines(&spine, from, &mut spines);
        next += 1;
    }
    spines.iter().filter_map(|(spine, _)| spine_trigger(spine)).max_by_key(Trigger::score)
}

/// All spines that leave this one, at step `from` or later, into a nested path.
fn extend_spines(spine: &Trunk, from: usize, spines: &mut Vec<(Trunk, usize)>) {
    for (at, check) in spine.iter().enumerate().skip(from) {
        if check.positional.is_some() {
            continue;
        }
        for (which, condition) in check.conditions.iter().enumerate() {
            let Some(nested) = nested_trunk(condition) else { continue };
            let mut turned = spine[..=at].to_vec();
            turned[at].conditions.remove(which);
            if at + 1 < spine.len() {
                turned[at].conditions.push(rest_marker(&spine[at + 1..]));
            }
            turned.extend(nested);
            if spines.len() < SPINES_MAX {
                spines.push((turned, at + 1));
            }
        }
    }
}

fn rest_marker(rest: &[StepCheck]) -> Expr {
    relative(steps_of(rest))
}

/// The nested path of a condition as a trunk of its own (`b/c = 'v'` as `b/c[. = 'v']`).
fn nested_trunk(condition: &Expr) -> Option<Trunk> {
    let path = as_path(condition)?;
    if path.start != PathStart::Context || !holds_value(&path.steps) {
        return None;
    }
    let first = path.steps.first()?;
    // Below an element, `.//text()` may be the element's own: only paths that begin with an element step qualify.
    let starts_at_element = matches!(first.axis, Axis::Child | Axis::Descendant) || is_double_slash(first);
    if !starts_at_element {
        return None;
    }
    let at = path.steps.iter().position(|step| !is_double_slash(step))?;
    element_step(&path.steps[at], is_double_slash(first), leads_on_from_elements(&path.steps[at + 1..]))?;
    trunk_of(&path.steps)
}

/// Does any step carry a condition or end in an attribute, so that a key may be found on it?
fn holds_value(steps: &[Step]) -> bool {
    steps.iter().any(|step| !step.predicates.is_empty() || step.axis == Axis::Attribute)
}

/// The best key on a spine.
fn spine_trigger(spine: &Trunk) -> Option<Trigger> {
    let mut best: Option<Trigger> = None;
    for (at, check) in spine.iter().enumerate() {
        for (which, condition) in check.conditions.iter().enumerate() {
            let Some((value, covers)) = key::of_condition(condition) else { continue };
            let trigger = keyed_spine(spine, at, which, value, covers);
            if best.as_ref().is_none_or(|known| known.score() < trigger.score()) {
                best = Some(trigger);
            }
        }
    }
    best
}

/// The spine with the given condition taken out as key.
fn keyed_spine(spine: &Trunk, at: usize, which: usize, value: KeyValue, covers: bool) -> Trigger {
    let mut spine = spine.clone();
    if covers {
        spine[at].conditions.remove(which);
    }
    if !value.is_attribute() && at + 1 < spine.len() {
        // Text is tested where it is complete and cheap to get at: on the trigger itself.
        let rest = rest_marker(&spine[at + 1..]);
        spine.truncate(at + 1);
        spine[at].conditions.push(rest);
    }
    let fixed = spine[at + 1..].iter().all(|check| !check.step.descendant);
    let up = spine.len() - 1 - at;
    let distance = if fixed && up < 60 { Distance::Up(up as u16) } else { Distance::Any };
    if distance == Distance::Any && covers {
        // "Some ancestor" is not "the ancestor on the path": keep the condition for the verification.
        let restored = condition_of(&value);
        spine[at].conditions.insert(0, restored);
    }
    let exact = covers && distance != Distance::Any && spine.iter().all(StepCheck::is_trivial);
    Trigger { spine, key: Key { distance, value }, exact }
}

/// An attribute key as the condition it came from.
fn condition_of(value: &KeyValue) -> Expr {
    use crate::query::ast::CompareOp::Equal;
    let attribute = |name| {
        relative(vec![Step { axis: Axis::Attribute, test: NodeTest::Name(NameTest::Name(name)), predicates: vec![] }])
    };
    let equal = |left, right| Expr::Compare { op: Equal, left: Box::new(left), right: Box::new(right) };
    let this = || relative(vec![Step { axis: Axis::SelfAxis, test: NodeTest::Node, predicates: vec![] }]);
    match value {
        KeyValue::AttributeExists(name) => attribute(*name),
        KeyValue::AttributeText(name, text) => equal(attribute(*name), Expr::Literal(text.clone())),
        KeyValue::AttributeNumber(name, bits) => equal(attribute(*name), Expr::Number(f64::from_bits(*bits))),
        KeyValue::Text(text) => {
            let step = Step { axis: Axis::Child, test: NodeTest::Text, predicates: vec![] };
            equal(relative(vec![step]), Expr::Literal(text.clone()))
        }
        KeyValue::Value(text) => equal(this(), Expr::Literal(text.clone())),
        KeyValue::ValueNumber(bits) => equal(this(), Expr::Number(f64::from_bits(*bits))),
    }
}

/// `P[a or b]` as `P[a]` and `P[b]`, for the first condition that is an `or`.
fn split_alternatives(trunk: &Trunk) -> Option<Vec<Trunk>> {
    for (at, check) in trunk.iter().enumerate() {
        for (which, condition) in check.conditions.iter().enumerate() {
            let Expr::Or(operands) = condition else { continue };
            if operands.len() > ALTERNATIVES_MAX {
                continue;
            }
            let alternatives = operands.iter().map(|operand| {
                let mut alternative = trunk.clone();
                alternative[at].conditions.remove(which);
                alternative[at].conditions.extend(conjuncts(std::slice::from_ref(operand)));
                alternative
            });
            return Some(alternatives.collect());
        }
    }
    None
}
