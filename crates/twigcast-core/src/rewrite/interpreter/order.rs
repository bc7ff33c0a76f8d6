//! The order of bindings by their keys.

use std::cmp::Ordering;

use super::super::program::Key;

/// What a binding is ordered by.
#[derive(Debug)]
pub(in crate::rewrite) enum KeyValue {
    Empty,
    Boolean(bool),
    Number(f64),
    Text(String),
}

/// Orders two bindings by their keys, most significant first.
pub(in crate::rewrite) fn compare_keys(order: &[Key], a: &[KeyValue], b: &[KeyValue]) -> Ordering {
    order
        .iter()
        .zip(a.iter().zip(b))
        .map(|(key, (a, b))| {
            let ordering = compare_key(a, b, key.empty_greatest);
            if key.descending { ordering.reverse() } else { ordering }
        })
        .find(|ordering| ordering.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// NaN counts as the smallest number, or as the greatest where the empty node-set does, but is not as extreme.
fn compare_key(a: &KeyValue, b: &KeyValue, empty_greatest: bool) -> Ordering {
    let extreme = if empty_greatest { Ordering::Greater } else { Ordering::Less };
    match (a, b) {
        (KeyValue::Empty, KeyValue::Empty) => Ordering::Equal,
        (KeyValue::Empty, _) => extreme,
        (_, KeyValue::Empty) => extreme.reverse(),
        (KeyValue::Boolean(a), KeyValue::Boolean(b)) => a.cmp(b),
        (KeyValue::Text(a), KeyValue::Text(b)) => a.cmp(b),
        (KeyValue::Number(a), KeyValue::Number(b)) => match (a.is_nan(), b.is_nan()) {
            (true, true) => Ordering::Equal,
            (true, false) => extreme,
            (false, true) => extreme.reverse(),
            (false, false) => a.partial_cmp(b).unwrap_or(Ordering::Equal),
        },
        // The type of a key is that of its expression, the same for all bindings.
        _ => Ordering::Equal,
    }
}
