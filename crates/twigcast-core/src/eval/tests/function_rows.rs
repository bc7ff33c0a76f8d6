//! The table of functions against the evaluator.

use super::answer;
use crate::query::functions::{ContextUse, FUNCTIONS, Function, FunctionFacts, ValueWithoutNodes};

/// The value on an empty node-set that a function's row states is what the evaluator returns, whatever the other
/// arguments are. Where the row states none, the other arguments or the message make a difference.
#[test]
fn rows_agree_with_the_evaluator_on_an_empty_node_set() {
    // Of nothing there are no values, and what is written between arguments is no call. Of names, one takes a literal, and the
    // other an element besides its text.
    // Selections, windows of time and regions are literals of their own kind.
    let of_names = [Function::XsQName, Function::ResolveQName, Function::TwigFullText, Function::TimeWithin];
    let is_asked = |row: &&FunctionFacts| {
        let is_call = !row.gives_values && !row.is_operator && !row.function.is_of_places();
        is_call && !of_names.contains(&row.function)
    };
    for row in FUNCTIONS.iter().filter(is_asked) {
        let count = if row.arguments_max == 0 { 0 } else { row.arguments_min.max(1) };
        let value = |other: &str| {
            let arguments: Vec<&str> = ["/r/none", other, other].into_iter().take(count).collect();
            answer("<r/>", &format!("{}({})", row.name, arguments.join(", ")))
        };
        // No part of a text is replaced where the pattern is empty.
        let others = if row.function == Function::Replace { ["'x'", "'r'", "2"] } else { ["''", "'r'", "2"] };
        let values = others.map(value);
        let expected = match row.without_nodes {
            Some(ValueWithoutNodes::Boolean(truth)) => truth.to_string(),
            Some(ValueWithoutNodes::Number(number)) => crate::util::number::format(number).into_owned(),
            Some(ValueWithoutNodes::EmptyString | ValueWithoutNodes::Nothing) => String::new(),
            None => {
                let depends = row.context == ContextUse::Always || row.looks_elsewhere;
                assert!(depends || values[0] != values[1], "{} is always {:?}", row.usage, values[0]);
                continue;
            }
        };
        assert!(values.iter().all(|value| *value == expected), "{}: {values:?}, not {expected:?}", row.usage);
    }
}
