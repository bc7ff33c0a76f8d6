//! The choice of trigger: which element of a match to wait for, and for which of its values.

use super::condition::{as_path, is_double_slash, is_structural};
use super::cost::{ALWAYS, cost_of_test};
use super::operand::ValueTest;
use super::path::{StepCheck, Trunk, element_step, leads_on_from_elements, linear, relative, steps_of, trunk_of};
use super::route::{Action, Frequencies, Route, Verify};
use super::value_condition::{self, ConditionValue, Distance, ValueCondition};
use crate::query::ast::{Axis, Expr, LinearStep, NameTest, PathStart, Step};

/// Nested paths that are tried as the place of the trigger, besides the path itself.
const SPINES_MAX: usize = 31;
/// Bounds of one attribute that are looked up one by one where its value satisfies them.
const BOUNDS_FEW: usize = 256;
/// How many times more seldom what is excluded has to lead to a query than its key does, so that it has no key.
const RARER_MIN: f32 = 8.0;

/// A place for the trigger: the path to it, its key, and how the rest is verified.
struct TriggerChoice {
    path: Vec<LinearStep>,
    key: ValueCondition,
    verify: Verify,
}

impl TriggerChoice {
    fn score(&self) -> (u32, bool, usize) {
        // A value of the element itself is looked up once; one of an ancestor, at all that is below.
        (self.key.value.selectivity(), self.key.distance == Distance::Up(0), self.path.len())
    }

    /// Returns whether look-ups by hash serve it well: if no value is compared by order, or a single one, of which there
    /// are few bounds. Elsewhere an index of ranges does better.
    fn is_served_by_hash(&self, frequencies: &dyn Frequencies) -> bool {
        let also = &self.verify.also;
        let mut compared = [&self.key].into_iter().chain(also).filter(|key| key.value.is_comparison());
        match (compared.next(), compared.next()) {
            (None, _) => true,
            (Some(ValueCondition { value: ConditionValue::AttributeCompared(name, ..), .. }), None) => {
                also.is_empty() && frequencies.bounds(*name) <= BOUNDS_FEW
            }
            _ => false,
        }
    }

    /// Returns whether messages have shown that a value which the rest excludes is had by so many that an index of what is
    /// excluded leads here far more seldom than the key does.
    fn is_rarer_by_exclusion(&self, frequencies: &dyn Frequencies) -> bool {
        let how_often = |test: &ValueTest| cost_of_test(test, NameTest::Any, frequencies).unwrap_or(ALWAYS);
        let excluded = self.verify.also.iter().filter_map(|key| excluded_by(&key.value));
        let by_exclusion = excluded.map(|test| how_often(&test)).reduce(f32::min);
        by_exclusion.is_some_and(|by_exclusion| {
            let by_key = ValueTest::of_key(&self.key.value).map_or(ALWAYS, |test| how_often(&test));
            by_exclusion * RARER_MIN < by_key
        })
    }

    fn into_route(self) -> Route {
        Route { path: self.path, action: Action::Trigger { key: self.key, verify: self.verify } }
    }
}

/// Returns the test that no attribute of a name has a text, if a value condition is that. (`!=` is a comparison, beside which
/// no key is looked up by hash.)
fn excluded_by(value: &ConditionValue) -> Option<ValueTest> {
    match value {
        ConditionValue::Not(negated) if matches!(**negated, ConditionValue::AttributeText(..)) => {
            ValueTest::of_key(negated)?.negated()
        }
        _ => None,
    }
}

/// Returns the route of an expression that structure and look-ups of values decide, without anything to verify.
pub(super) fn exact_route(expr: &Expr, frequencies: &dyn Frequencies) -> Option<Route> {
    // Of values other than those of attributes one can be looked up, and nothing else be asked for.
    if value_condition::content_lookups(expr)? > 1 {
        return None;
    }
    trunk_route(&trunk_of(&as_path(expr)?.steps)?, frequencies)
}

/// Returns the route of a path of which only structure or look-ups by the values of attributes decide; `None` for any other.
fn trunk_route(trunk: &Trunk, frequencies: &dyn Frequencies) -> Option<Route> {
    let Some(first) = trunk.iter().position(|check| !check.is_trivial()) else {
        return Some(Route { path: linear(trunk), action: Action::Accept });
    };
    if trunk.iter().all(|check| check.positional.is_none() && check.conditions.iter().all(is_structural)) {
        let mut conditions = trunk[first].conditions.clone();
        if first + 1 < trunk.len() {
            conditions.push(relative(steps_of(&trunk[first + 1..])));
        }
        let condition = if conditions.len() == 1 { conditions.remove(0) } else { Expr::And(conditions) };
        return Some(Route { path: linear(&trunk[..=first]), action: Action::Twig(condition) });
    }
    best(trunk, frequencies).filter(|choice| !choice.is_rarer_by_exclusion(frequencies)).map(TriggerChoice::into_route)
}

/// Returns the best trigger of a trunk, looked for on the trunk itself and on every nested path that hangs on it.
fn best(trunk: &Trunk, frequencies: &dyn Frequencies) -> Option<TriggerChoice> {
    // A spine and where its last nested part begins: only that part is searched for further nested paths, since those
    // further up were tried when the spine was made.
    let mut spines = Vec::new();
    extend_spines(trunk, 0, &mut spines);
    let mut next = 0;
    while next < spines.len() && spines.len() < SPINES_MAX {
        let (spine, from) = std::mem::take(&mut spines[next]);
        extend_spines(&spine, from, &mut spines);
        spines[next].0 = spine;
        next += 1;
    }
    let all = std::iter::once(trunk).chain(spines.iter().map(|(spine, _)| spine));
    let triggers = all.filter_map(|spine| exact_trigger(spine, spine.iter().rposition(asks_values)?));
    triggers.filter(|trigger| trigger.is_served_by_hash(frequencies)).max_by_key(TriggerChoice::score)
}

/// Appends all spines that leave this one, at step `from` or later, into a nested path; at most [`SPINES_MAX`] in all.
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

/// Returns the nested path of a condition as a trunk of its own (`b/c = 'v'` as `b/c[. = 'v']`).
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

/// Returns whether any step carries a condition or ends in an attribute, so that a key may be on it.
fn holds_value(steps: &[Step]) -> bool {
    steps.iter().any(|step| !step.predicates.is_empty() || step.axis == Axis::Attribute)
}

/// Returns whether a step asks for more than structure.
fn asks_values(check: &StepCheck) -> bool {
    check.positional.is_some() || !check.conditions.iter().all(is_structural)
}

/// Returns a trigger at step `end` whose conditions are all keys or structure, on elements at a known distance.
fn exact_trigger(spine: &Trunk, end: usize) -> Option<TriggerChoice> {
    let mut keys = Vec::new();
    let mut structures = Vec::new();
    for (at, check) in spine[..=end].iter().enumerate() {
        if check.positional.is_some() {
            return None;
        }
        for condition in &check.conditions {
            match value_condition::of_condition(condition) {
                Some(value) if value.is_attribute() || at == end => {
                    keys.push(ValueCondition { distance: fixed_distance(spine, at, end)?, value });
                }
                _ if is_structural(condition) => structures.push((fixed_distance(spine, at, end)?, condition.clone())),
                _ => return None,
            }
        }
    }
    if end + 1 < spine.len() {
        structures.push((Distance::Up(0), relative(steps_of(&spine[end + 1..]))));
    }
    // The first is looked up, if possible a value of the element itself: an ancestor's is looked up at all that is below.
    // Of the others, those come first that hold most seldom.
    keys.sort_by_key(|key| std::cmp::Reverse((key.value.selectivity(), key.distance == Distance::Up(0))));
    let is_useful = keys.first().is_some_and(|key| key.value.selectivity() > 0);
    is_useful.then(|| TriggerChoice {
        key: keys.remove(0),
        path: linear(&spine[..=end]),
        verify: Verify { also: keys, structures, whole: false },
    })
}

/// Returns where the element of step `at` is, seen from that of step `end`, if the path alone tells.
fn fixed_distance(spine: &Trunk, at: usize, end: usize) -> Option<Distance> {
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
