//! The table of functions against the evaluator.

use super::answer;
use crate::query::functions::{ContextUse, FUNCTIONS, ValueWithoutNodes};

/// The value on an empty node-set that a function's row states is what the evaluator returns, whatever the other
/// arguments are. Where the row states none, the other arguments or the message make a difference.
#[test]
fn rows_agree_with_the_evaluator_on_an_empty_node_set() {
    for row in &FUNCTIONS {
        let count = if row.arguments_max == 0 { 0 } else { row.arguments_min.max(1) };
        let value = |other: &str| {
            let arguments: Vec<&str> = ["/r/none", other, other].into_iter().take(count).collect();
            answer("<r/>", &format!("{}({})", row.name, arguments.join(", ")))
        };
        let values = ["''", "'r'", "2"].map(value);
        let expected = match row.without_nodes {
            Some(ValueWithoutNodes::Boolean(truth)) => truth.to_string(),
            Some(ValueWithoutNodes::Number(number)) => crate::util::number::format(number).into_owned(),
            Some(ValueWithoutNodes::EmptyString) => String::new(),
            None => {
                let depends = row.context == ContextUse::Always || row.looks_elsewhere;
                assert!(depends || values[0] != values[1], "{} is always {:?}", row.usage, values[0]);
                continue;
            }
        };
        assert!(values.iter().all(|value| *value == expected), "{}: {values:?}, not {expected:?}", row.usage);
    }
}
