//! Comparisons that fail by little.

use crate::document::NodeKind;
use crate::eval::{EvalError, Evaluator, NodeRef, Value};
use crate::query::ast::CompareOp;
use crate::util::number;
use crate::util::temporal::{Temporal, TemporalType};

use super::location::{location, shortened};
use super::report::{Hint, HintKind};

/// Values that are looked at for near misses.
const VALUES_MAX: usize = 200;

/// Returns the near misses of a node-set (`text`, as the query writes it) that does not compare with a constant.
pub(super) fn hints(
    evaluator: &Evaluator<'_>,
    text: &str,
    nodes: &[NodeRef],
    op: CompareOp,
    constant: &Value<'_>,
) -> Result<Vec<Hint>, EvalError> {
    let mut hints: Vec<Hint> = Vec::new();
    for &node in nodes.iter().take(VALUES_MAX) {
        let value = evaluator.string_value(node)?;
        let miss = match (op, constant) {
            (_, Value::Temporal(temporal)) if Temporal::parse(temporal.kind(), &value).is_none() => {
                Some(not_of_type(&value, temporal.kind()))
            }
            (CompareOp::Equal, Value::String(expected)) => match whole_value(evaluator, node, expected)? {
                Some(message) => Some((HintKind::StringValue, message)),
                None => near_text(text, &value, expected),
            },
            (CompareOp::NotEqual, _) => None,
            (_, Value::Number(_) | Value::String(_)) => near_number(text, &value),
            _ => None,
        };
        if let Some((kind, message)) = miss
            && !hints.iter().any(|hint| hint.kind == kind)
        {
            hints.push(Hint { kind, message, location: Some(location(evaluator, node)?) });
        }
    }
    Ok(hints)
}

/// Returns the near misses of a string or number that does not compare with another.
pub(super) fn scalar_hints(text: &str, value: &Value<'_>, op: CompareOp, other: &Value<'_>) -> Vec<Hint> {
    let miss = match (op, value, other) {
        (CompareOp::Equal, Value::String(value), Value::String(expected)) => near_text(text, value, expected),
        (CompareOp::NotEqual, _, _) => None,
        (_, Value::String(value), Value::Number(_)) => near_number(text, value),
        (_, Value::Number(value), _) if value.is_nan() => {
            Some((HintKind::NotANumber, format!("`{text}` is not a number here")))
        }
        _ => None,
    };
    miss.into_iter().map(|(kind, message)| Hint { kind, message, location: None }).collect()
}

fn near_text(text: &str, value: &str, expected: &str) -> Option<(HintKind, String)> {
    let (shown, normal) = (shortened(value), normalized(value));
    let same_number = number::parse(value) == number::parse(expected);
    Some(if value == expected {
        return None;
    } else if normal == normalized(expected) {
        let message = format!("equal except for white space; normalize-space({text}) would compare equal");
        (HintKind::WhiteSpace, message)
    } else if normal.to_lowercase() == normalized(expected).to_lowercase() {
        (HintKind::Case, format!("\"{shown}\" differs from \"{expected}\" in letter case only"))
    } else if same_number {
        let number = expected.trim();
        let message = format!(
            "\"{shown}\" and \"{expected}\" are the same number, but not the same text; {text} = {number} compares numbers"
        );
        (HintKind::AsNumber, message)
    } else if !expected.is_empty() && value.contains(expected) {
        let message =
            format!("\"{shown}\" contains \"{expected}\" but is not equal to it; contains({text}, ...) asks for that");
        (HintKind::Contained, message)
    } else if super::names::is_similar(value, expected) {
        (HintKind::Spelling, format!("\"{shown}\" is spelled similarly"))
    } else {
        return None;
    })
}

/// Returns the hint that a text node is only a piece of what its element holds.
fn whole_value(evaluator: &Evaluator<'_>, node: NodeRef, expected: &str) -> Result<Option<String>, EvalError> {
    let document = evaluator.message().document;
    let NodeRef::Node(id) = node else { return Ok(None) };
    let entry = &document.nodes[id as usize];
    if entry.kind != NodeKind::Text || entry.parent == 0 {
        return Ok(None);
    }
    let parent = NodeRef::Node(entry.parent);
    if evaluator.string_value(node)? == expected || evaluator.string_value(parent)? != expected {
        return Ok(None);
    }
    let name = evaluator.qualified_name(parent);
    Ok(Some(format!(
        "text() is one piece of text between markup; the whole value of `{name}` is \"{}\", which [. = \"{}\"] compares",
        shortened(expected),
        shortened(expected)
    )))
}

fn not_of_type(value: &str, kind: TemporalType) -> (HintKind, String) {
    let message = format!("\"{}\" is no value of {}, as {} is", shortened(value), kind.name(), kind.example());
    (HintKind::NotANumber, message)
}

fn near_number(text: &str, value: &str) -> Option<(HintKind, String)> {
    if !number::parse(value).is_nan() {
        return None;
    }
    let shown = shortened(value);
    let without_commas = value.replace(',', "");
    let advice = if value.trim().is_empty() {
        "an empty value is not a number".to_owned()
    } else if number::parse_double(value).is_some_and(|number| !number.is_nan()) && value.contains(['e', 'E']) {
        format!(
            "\"{shown}\" has an exponent, which XPath 1.0 does not read; xs:double({text}) does, or dialect=\"doubles\""
        )
    } else if without_commas != value && !number::parse(&without_commas).is_nan() {
        format!("\"{shown}\" is not a number; translate({text}, ',', '') would be one")
    } else if value.trim().strip_prefix('+').is_some_and(|rest| !number::parse(rest).is_nan()) {
        format!(
            "\"{shown}\" is not a number in XPath, which knows no plus sign; translate({text}, '+', '') would be one"
        )
    } else {
        format!("\"{shown}\" is not a number")
    };
    Some((HintKind::NotANumber, advice))
}

/// Returns a text with the white space that normalize-space() leaves.
pub(super) fn normalized(text: &str) -> String {
    text.split([' ', '\t', '\r', '\n']).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}
