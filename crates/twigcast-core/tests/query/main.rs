//! Tests of the query language through its public face.

mod errors;
mod external;
mod flwr;
mod grammar;
mod hostile;
mod matching;
mod normal;
#[path = "../testing/mod.rs"]
mod testing;

use std::collections::BTreeMap;

use twigcast_core::error::QueryError;
use twigcast_core::limits::Limits;
use twigcast_core::query::ast::Expr;
use twigcast_core::query::{Dialect, ParseOptions, Query, display, flwr_text, parse};
use twigcast_core::vocabulary::Vocabulary;

/// The prefixes that every test may use.
fn prefixes() -> BTreeMap<String, String> {
    [("p", "urn:p"), ("q", "urn:q"), ("cap", "urn:cap")].map(|(k, v)| (k.into(), v.into())).into()
}

fn parse_with(
    text: &str,
    namespaces: &BTreeMap<String, String>,
    dialect: Dialect,
    vocabulary: &mut Vocabulary,
) -> Result<Query, QueryError> {
    let limits = Limits::default();
    parse(text, &ParseOptions::new(namespaces, dialect, &limits), vocabulary)
}

fn try_xpath(text: &str, dialect: Dialect, vocabulary: &mut Vocabulary) -> Result<Expr, QueryError> {
    match parse_with(text, &prefixes(), dialect, vocabulary)? {
        Query::XPath(expr) => Ok(expr),
        Query::Flwr(query) => panic!("{text} was read as {query:?}"),
    }
}

fn xpath_of(text: &str, vocabulary: &mut Vocabulary) -> Expr {
    try_xpath(text, Dialect::XPath, vocabulary).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// A query's text again.
fn printed(query: &Query, vocabulary: &Vocabulary) -> display::Printed {
    match query {
        Query::XPath(expr) => display::expression(expr, vocabulary, &prefixes()),
        Query::Flwr(query) => flwr_text::query(query, vocabulary, &prefixes()),
    }
}

/// The text of an expression in normal form.
fn shown(expr: &Expr, vocabulary: &Vocabulary) -> String {
    display::expression(expr, vocabulary, &prefixes()).text
}
