//! The query language: text to algebra.
//!
//! [`parse`] reads a query: an XPath 1.0 expression or a For-Where-Return query. [`normal::normalise`] simplifies an
//! expression without changing its meaning; [`display::expression`] and
//! [`flwr_text::query`] write them back as text; [`json`] as JSON.
//!
//! ```
//! use std::collections::BTreeMap;
//! use twigcast_core::limits::Limits;
//! use twigcast_core::query::{Dialect, ParseOptions, Query, display, normal, parse};
//! use twigcast_core::vocabulary::Vocabulary;
//!
//! let (declared, limits, mut vocabulary) = (BTreeMap::new(), Limits::default(), Vocabulary::new());
//! let options = ParseOptions { namespaces: &declared, dialect: Dialect::XPath, limits: &limits };
//! let Query::XPath(expr) = parse("//a[b and b]", &options, &mut vocabulary)? else { unreachable!() };
//! let normal_form = display::expression(&normal::normalise(expr), &vocabulary, &declared);
//! assert_eq!(normal_form.text, "/descendant::a[b]");
//! # Ok::<(), twigcast_core::error::QueryError>(())
//! ```

use crate::error::QueryError;
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
mod options;
mod parser;
pub(crate) mod plain;
pub mod position;
mod refusals;

pub use options::{Dialect, NamespaceLookup, ParseOptions};

use ast::Expr;

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
