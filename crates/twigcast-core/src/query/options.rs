//! The settings that the meaning of a query's text depends on: its dialect, its namespaces, the limits.

use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;

use super::parameters::{NO_PARAMETERS, Parameters};
use crate::limits::Limits;

/// Which spellings a query may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Dialect {
    /// XPath 1.0 as recommended.
    #[default]
    XPath,
    /// The spellings of the publish/subscribe papers as well: `<>` for `!=`, `/a/[b=1]` for `/a[b=1]`, and inside a
    /// predicate `[/c/d]` for `[c/d]`, `[//p]` for `[.//p]`.
    Legacy,
    /// XPath whose numbers are those of XPath 3.1: texts may have exponents and plus signs.
    Doubles,
    /// XPath and For-Where-Return queries with the meaning of XQuery: an empty result is no match. Other queries are
    /// refused.
    Native,
    /// XQuery that another processor evaluates. Reading it gives a condition that holds wherever it has a result.
    XQuery,
}

/// The namespaces of prefixes. The empty prefix is the default namespace of unprefixed element names.
pub trait NamespaceLookup {
    /// Returns the URI that a prefix is bound to. The prefix `xml` is never asked for.
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

/// The settings that the meaning of a query's text depends on.
#[derive(Clone, Copy)]
pub struct ParseOptions<'a> {
    /// Prefixes and their namespaces.
    pub namespaces: &'a dyn NamespaceLookup,
    /// Which spellings are accepted.
    pub dialect: Dialect,
    /// The values of `$name` that the query does not bind itself.
    pub parameters: &'a Parameters,
    /// `query_bytes_max`, `query_steps_max` and `query_nesting_max` are kept.
    pub limits: &'a Limits,
}

impl<'a> ParseOptions<'a> {
    /// Returns settings without parameters.
    pub fn new(namespaces: &'a dyn NamespaceLookup, dialect: Dialect, limits: &'a Limits) -> Self {
        Self { namespaces, dialect, parameters: &NO_PARAMETERS, limits }
    }

    /// Returns the settings with other parameters.
    #[must_use]
    pub fn with_parameters(self, parameters: &'a Parameters) -> Self {
        Self { parameters, ..self }
    }
}
