//! The choice of trigger: which element of a match to wait for, and for which of its values.

use super::condition::{as_path, is_structural};
use super::key::{self, Constant, Distance, Key, KeyValue};
use super::path::{Trunk, element_step, leads_on_from_elements, linear, relative, steps_of, trunk_of};
use super::{Action, Route, StepCheck, Verify, is_double_slash};
use crate::query::ast::{Axis, CompareOp, Expr, Function, NameTest, NodeTest, PathStart, Step};

/// Nested paths that are tried as the place of the trigger.
const SPINES_MAX: usize = 32;

/// A place for the trigger: the path to it, its key, and how the rest is verified.
pub(super) struct Trigger {
    spine: Trunk,
    /// `None` where no value can be looked up, though values decide.
    key: Option<Key>,
    verify: Verify,
}

impl Trigger {
    fn score(&self) -> (u32, bool, bool, usize) {
        let exact = matches!(self.verify, Verify::Exact { .. });
        let known = self.key.as_ref().is_none_or(|key| key.distance != Distance::Any);
        (self.selectivity(), exact, known, self.spine.len())
    }

    /// How much the key narrows the candidates down; 0 without one.
    pub(super) fn selectivity(&self) -> u32 {
        self.key.as_ref().map_or(0, |key| key.value.selectivity())
    }

    pub(super) fn into_route(self) -> Route {
        Route { path: linear(&self.spine), action: Action::Trigger { key: self.key, verify: self.verify } }
    }
}

/// The best trigger of a trunk, looked for on the trunk itself and on every nested path that hangs on it.
pub(super) fn best(trunk: &Trunk) -> Option<Trigger> {
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
                turned[at].conditions.push(relative(steps_of(&spine[at + 1..])));
            }
            turned.extend(nested);
            if spines.len() < SPINES_MAX {
                spines.push((turned, at + 1));
            }
        }
    }
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

/// The best key on a spine: where possible one after which nothing is left but look-ups.
fn spine_trigger(spine: &Trunk) -> Option<Trigger> {
    if let Some(exact) = (0..spine.len()).rev().find_map(|end| exact_trigger(spine, end)) {
        return Some(exact);
    }
    let mut best: Option<Trigger> = None;
    for (at, check) in spine.iter().enumerate() {
        for (which, condition) in check.conditions.iter().enumerate() {
            let Some((value, covers)) = key::of_condition(condition) else { continue };
            if value.selectivity() == 0 {
                continue;
            }
            let trigger = verified_trigger(spine, at, which, value, covers);
            if best.as_ref().is_none_or(|known| known.score() < trigger.score()) {
                best = Some(trigger);
            }
        }
    }
    best
}

/// A trigger at step `end` whose conditions are all keys or structure, on elements at a known distance.
fn exact_trigger(spine: &Trunk, end: usize) -> Option<Trigger> {
    let mut keys = Vec::new();
    let mut shapes = Vec::new();
    for (at, check) in spine[..=end].iter().enumerate() {
        if check.positional.is_some() {
            return None;
        }
        for condition in &check.conditions {
            match key::of_condition(condition) {
                Some((value, true)) if value.is_attribute() || at == end => {
                    keys.push(Key { distance: known_distance(spine, at, end)?, value });
                }
                _ if is_structural(condition) => shapes.push((known_distance(spine, at, end)?, condition.clone())),
                _ => return None,
            }
        }
    }
    if end + 1 < spine.len() {
        if spine[end + 1..].iter().any(|check| check.positional.is_some()) {
            return None;
        }
        let rest = relative(steps_of(&spine[end + 1..]));
        if !is_structural(&rest) {
            return None;
        }
        shapes.push((Distance::Up(0), rest));
    }
    if keys.is_empty() {
        return None;
    }
    // The first is looked up; of the others, those come first that hold most seldom.
    keys.sort_by_key(|key| std::cmp::Reverse(key.value.selectivity()));
    let key = (keys[0].value.selectivity() > 0).then(|| keys.remove(0));
    Some(Trigger { spine: spine[..=end].to_vec(), key, verify: Verify::Exact { also: keys, shapes } })
}

/// Where the element of step `at` is, seen from that of step `end`, if the path alone tells.
fn known_distance(spine: &Trunk, at: usize, end: usize) -> Option<Distance> {
    let up = end - at;
    let level = at + 1;
    if up <= Distance::UP_MAX && spine[at + 1..=end].iter().all(|check| !check.step.descendant) {
        Some(Distance::Up(up as u16))
    } else if level <= Distance::LEVEL_MAX && spine[..=at].iter().all(|check| !check.step.descendant) {
        Some(Distance::Level(level as u16))
    } else {
        None
    }
}

/// A trigger with the given condition as key and all the rest verified upwards.
fn verified_trigger(spine: &Trunk, at: usize, which: usize, value: KeyValue, covers: bool) -> Trigger {
    let mut spine = spine.clone();
    if covers {
        spine[at].conditions.remove(which);
    }
    if !value.is_attribute() && at + 1 < spine.len() {
        // Text is tested where it is complete and cheap to get at: on the trigger itself.
        let rest = relative(steps_of(&spine[at + 1..]));
        spine.truncate(at + 1);
        spine[at].conditions.push(rest);
    }
    let distance = known_distance(&spine, at, spine.len() - 1).unwrap_or(Distance::Any);
    if distance == Distance::Any && covers {
        // "Some ancestor" is not "the ancestor on the path": keep the condition for the verification.
        let restored = condition_of(&value);
        spine[at].conditions.insert(0, restored);
    }
    let verify = if spine.iter().all(StepCheck::is_trivial) && distance != Distance::Any {
        Verify::Exact { also: Vec::new(), shapes: Vec::new() }
    } else {
        Verify::Upward(spine.clone())
    };
    Trigger { spine, key: Some(Key { distance, value }), verify }
}

/// An attribute key as the condition it came from.
fn condition_of(value: &KeyValue) -> Expr {
    let attribute = |name| {
        relative(vec![Step { axis: Axis::Attribute, test: NodeTest::Name(NameTest::Name(name)), predicates: vec![] }])
    };
    let compare = |op, left, right| Expr::Compare { op, left: Box::new(left), right: Box::new(right) };
    let equal = |left, right| compare(CompareOp::Equal, left, right);
    let this = || relative(vec![Step { axis: Axis::SelfAxis, test: NodeTest::Node, predicates: vec![] }]);
    let text_child = || relative(vec![Step { axis: Axis::Child, test: NodeTest::Text, predicates: vec![] }]);
    match value {
        KeyValue::AttributeExists(name) => attribute(*name),
        KeyValue::AttributeText(name, text) => equal(attribute(*name), Expr::Literal(text.clone())),
        KeyValue::AttributeNumber(name, bits) => equal(attribute(*name), Expr::Number(f64::from_bits(*bits))),
        KeyValue::AttributeCompared(name, op, constant) => compare(
            *op,
            attribute(*name),
            match constant {
                Constant::Text(text) => Expr::Literal(text.clone()),
                Constant::Number(bits) => Expr::Number(f64::from_bits(*bits)),
            },
        ),
        KeyValue::Not(value) => Expr::Call { function: Function::Not, arguments: vec![condition_of(value)] },
        KeyValue::Text(text) => equal(text_child(), Expr::Literal(text.clone())),
        KeyValue::TextNumber(bits) => equal(text_child(), Expr::Number(f64::from_bits(*bits))),
        KeyValue::Value(text) => equal(this(), Expr::Literal(text.clone())),
        KeyValue::ValueNumber(bits) => equal(this(), Expr::Number(f64::from_bits(*bits))),
    }
}
