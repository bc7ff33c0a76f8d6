//! The query language: text to algebra.
//!
//! [`parse`] reads a query: an XPath 1.0 expression or a For-Where-Return query. [`normal::normalise`] simplifies an
//! expression without changing its meaning; [`display::expression`] and
//! [`flwr_text::query`] write them back as text; [`json`] as JSON.

use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;

use crate::error::QueryError;
use crate::limits::Limits;
use crate::vocabulary::Vocabulary;

pub mod ast;
mod constructor;
pub mod display;
mod external;
pub mod flwr;
mod flwr_parser;
pub mod flwr_text;
pub mod functions;
mod hints;
pub mod json;
mod lexer;
mod location;
mod markup;
pub mod matching;
pub mod normal;
mod operators;
mod parser;
pub(crate) mod plain;
pub mod position;
mod refusals;

use ast::Expr;

/// Which spellings a query may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Dialect {
    /// XPath 1.0 as recommended.
    #[default]
    XPath,
    /// The spellings of the publish/subscribe papers as well: `<>` for `!=`, `/a/[b=1]` for `/a[b=1]`, and inside a
    /// predicate `[/c/d]` for `[c/d]`, `[//p]` for `[.//p]`.
    Legacy,
    /// XQuery that another processor evaluates. Reading it gives a condition that holds wherever it has a result.
    XQuery,
}

/// Where the namespaces of prefixes come from. The empty prefix is the default namespace of unprefixed element names.
pub trait NamespaceLookup {
    /// The URI that a prefix is bound to. The prefix `xml` is never asked for.
    fn uri(&self, prefix: &str) -> Option<&str>;
}

impl NamespaceLookup for BTreeMap<String, String> {
    fn uri(&self, prefix: &str) -> Option<&str> {
        self.get(prefix).map(String::as_str)
    }
}

impl<S: BuildHasher> NamespaceLookup for HashMap<String, String, S> {
    fn uri(&self, prefix: &str) -> Option<&str> {
        self.get(prefix).map(String::as_str)
    }
}

impl NamespaceLookup for [(&str, &str)] {
    fn uri(&self, prefix: &str) -> Option<&str> {
        self.iter().find(|(existing, _)| *existing == prefix).map(|&(_, uri)| uri)
    }
}

impl<const N: usize> NamespaceLookup for [(&str, &str); N] {
    fn uri(&self, prefix: &str) -> Option<&str> {
        self.as_slice().uri(prefix)
    }
}

/// What a query's text means depends on these.
#[derive(Clone, Copy)]
pub struct ParseOptions<'a> {
    /// Prefixes and their namespaces.
    pub namespaces: &'a dyn NamespaceLookup,
    /// Which spellings are accepted.
    pub dialect: Dialect,
    /// `query_bytes_max`, `query_steps_max` and `query_nesting_max` are kept.
    pub limits: &'a Limits,
}

/// A parsed query.
#[derive(Clone, Debug, PartialEq)]
pub enum Query {
    /// An XPath expression, to be evaluated with the document node as context node: it matches when its `boolean()` is
    /// true.
    XPath(Expr),
    /// A For-Where-Return query: it matches when a binding passes, and delivers what it returns.
    Flwr(flwr::FlwrQuery),
}

/// Parses a query. Names that it mentions are added to the vocabulary (also when it is refused in the end).
pub fn parse(text: &str, options: &ParseOptions, vocabulary: &mut Vocabulary) -> Result<Query, QueryError> {
    if options.dialect == Dialect::XQuery {
        return Ok(Query::XPath(external::necessary_condition(text, options, vocabulary)));
    }
    let mut parser = parser::Parser::new(text, options, vocabulary).map_err(|error| *error)?;
    let parsed = if flwr_parser::is_flwr(text) {
        parser.whole_flwr().map(Query::Flwr)
    } else {
        parser.whole_expression().map(Query::XPath)
    };
    parsed.map_err(|error| *error)
}
