//! The cost of a query: how often it is expected to be looked at.

use super::operand::{Relation, ValueTest};
use super::route::{Access, Action, Frequencies, Route};
use crate::query::ast::NameTest;

/// The cost of a condition that no index narrows down, against one that each message satisfies.
pub(super) const ALWAYS: f32 = 1.0;

/// Returns how often a test of an element of a name is expected to hold, from 0 to 1; `None` if no index serves it.
pub(super) fn cost_of_test(test: &ValueTest, element: NameTest, frequencies: &dyn Frequencies) -> Option<f32> {
    let assumed = match &test.relation {
        Relation::Equals(text) => frequencies.equality(&test.operand, text),
        Relation::Within(range) if range.is_point() => 0.05,
        Relation::Within(_) => 0.4,
        Relation::Overlaps(_) => 0.06,
        Relation::NoneWithin(_) | Relation::Differs(_) | Relation::NoneEquals(_) | Relation::OtherNumber(_) => 0.6,
        Relation::StartsWith(part) => [0.2, 0.1, 0.04][part.len().clamp(1, 3) - 1],
        Relation::Contains(part) => [0.4, 0.2, 0.1, 0.05][part.len().clamp(1, 4) - 1],
        Relation::Region(_) => 0.02,
        Relation::Matches(_) => return None,
    };
    Some(frequencies.expected(element, test, assumed))
}

/// Returns how often the values that lead to a query are expected in a message, as a sum over all of its accesses.
pub fn cost(routes: &[Route], frequencies: &dyn Frequencies) -> f32 {
    let of_access = |access: &Access, element: NameTest| {
        access.test.as_ref().and_then(|test| cost_of_test(test, element, frequencies)).unwrap_or(ALWAYS)
    };
    let of_route = |route: &Route| {
        let element = route.path.last().map_or(NameTest::Any, |step| step.test);
        match &route.action {
            Action::Access { entries, .. } => entries.iter().map(|access| of_access(access, element)).sum(),
            Action::Trigger { .. } | Action::Accept | Action::Twig(_) => 0.0,
            Action::Always => ALWAYS,
        }
    };
    routes.iter().map(of_route).sum()
}

/// Returns a [`cost`] in words: how many messages lead to the query.
pub fn how_often(cost: f32) -> &'static str {
    match cost {
        ..0.01 => "expected in fewer than 1 message of 100",
        ..0.1 => "expected in fewer than 1 message of 10",
        ..0.5 => "expected in fewer than half of all messages",
        _ => "expected in most messages",
    }
}
