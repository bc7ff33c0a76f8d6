//! The order of bindings by their keys.

use std::cmp::Ordering;

use super::super::program::instructions::SortKey;

/// The value of a sort key for one binding.
#[derive(Debug)]
pub(in crate::rewrite) enum OrderValue {
    Empty,
    Boolean(bool),
    Number(f64),
    Text(String),
    /// The number of a date, a time or a duration.
    Temporal(i64),
}

/// Orders two bindings by their keys, most significant first.
pub(in crate::rewrite) fn compare_keys(order: &[SortKey], a: &[OrderValue], b: &[OrderValue]) -> Ordering {
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

/// Compares sort keys. NaN counts as the smallest number, or as the greatest where the empty node-set does, but is not
/// as extreme.
fn compare_key(a: &OrderValue, b: &OrderValue, empty_greatest: bool) -> Ordering {
    let extreme = if empty_greatest { Ordering::Greater } else { Ordering::Less };
    match (a, b) {
        (OrderValue::Empty, OrderValue::Empty) => Ordering::Equal,
        (OrderValue::Empty, _) => extreme,
        (_, OrderValue::Empty) => extreme.reverse(),
        (OrderValue::Boolean(a), OrderValue::Boolean(b)) => a.cmp(b),
        (OrderValue::Text(a), OrderValue::Text(b)) => a.cmp(b),
        (OrderValue::Temporal(a), OrderValue::Temporal(b)) => a.cmp(b),
        (OrderValue::Number(a), OrderValue::Number(b)) => match (a.is_nan(), b.is_nan()) {
            (true, true) => Ordering::Equal,
            (true, false) => extreme,
            (false, true) => extreme.reverse(),
            (false, false) => a.partial_cmp(b).unwrap_or(Ordering::Equal),
        },
        // The type of a key is that of its expression, the same for all bindings.
        _ => Ordering::Equal,
    }
}
