//! What refused queries are told: column, kind, message.

use twigcast_core::error::QueryErrorKind;
use twigcast_core::query::Dialect;
use twigcast_core::vocabulary::Vocabulary;

use super::{parse_with, prefixes, try_xpath};

/// Every refusal as one line, `query --> column kind: message`.
fn refusal(text: &str) -> String {
    let error = match parse_with(text, &prefixes(), Dialect::XPath, &mut Vocabulary::new()) {
        Ok(query) => return format!("{text} --> accepted as {query:?}"),
        Err(error) => error,
    };
    let kind = match error.kind {
        QueryErrorKind::Syntax => "syntax",
        QueryErrorKind::Unsupported => "unsupported",
        QueryErrorKind::UndeclaredPrefix => "prefix",
        QueryErrorKind::Limit { limit, .. } => limit,
    };
    format!("{text} --> {} {kind}: {}", error.column, error.message)
}

/// Compares with a snapshot, one refusal a line. `UPDATE_SNAPSHOTS=1` rewrites it.
fn compare(name: &str) {
    let path = format!("{}/tests/query/{name}", env!("CARGO_MANIFEST_DIR"));
    let snapshot = std::fs::read_to_string(&path).unwrap();
    let result: String = snapshot.lines().map(|line| refusal(line.split(" --> ").next().unwrap()) + "\n").collect();
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, &result).unwrap();
    }
    for (expected, result) in snapshot.lines().zip(result.lines()) {
        assert_eq!(result, expected);
        assert!(!result.contains("--> accepted"), "{result}");
    }
}

#[test]
fn refusals_of_xpath_are_those_of_the_snapshot() {
    compare("refusals.txt");
}

#[test]
fn refusals_of_for_where_return_are_those_of_the_snapshot() {
    compare("refusals_flwr.txt");
}

#[test]
fn columns_count_characters() {
    let error = try_xpath("/été/日本[", Dialect::XPath, &mut Vocabulary::new()).unwrap_err();
    assert_eq!(error.column, 9);
    let error = try_xpath("/é\u{10348}[x:y]", Dialect::XPath, &mut Vocabulary::new()).unwrap_err();
    assert_eq!((error.column, error.kind), (5, QueryErrorKind::UndeclaredPrefix));
}

#[test]
fn what_was_expected_is_listed() {
    let error = try_xpath("/a[b", Dialect::XPath, &mut Vocabulary::new()).unwrap_err();
    assert_eq!(error.expected, ["]"]);
    let error = try_xpath("/a/", Dialect::XPath, &mut Vocabulary::new()).unwrap_err();
    assert!(error.expected.contains(&"a name".to_owned()));
}
