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
//! let options = ParseOptions::new(&declared, Dialect::XPath, &limits);
//! let Query::XPath(expr) = parse("//a[b and b]", &options, &mut vocabulary)? else { unreachable!() };
//! let normal_form = display::expression(&normal::normalise(expr), &vocabulary, &declared);
//! assert_eq!(normal_form.text, "/descendant::a[b]");
//! # Ok::<(), twigcast_core::error::QueryError>(())
//! ```

use crate::error::QueryError;
use crate::vocabulary::Vocabulary;

pub mod ast;
mod bound_names;
mod computed;
mod constructor;
pub mod display;
mod external;
pub mod flwr;
mod flwr_parser;
pub mod flwr_text;
pub(crate) mod forms;
pub mod functions;
mod hints;
pub mod json;
mod lexer;
mod location;
mod markup;
pub mod matching;
pub mod normal;
pub mod notes;
mod noting;
mod number_texts;
mod operators;
mod options;
pub mod parameters;
mod parser;
pub mod pattern;
mod pattern_shape;
mod places;
pub(crate) mod plain;
pub mod position;
mod quantified;
mod refusals;
mod results;
mod sequences;
pub mod typed;
pub(crate) mod typing;
pub mod values;
pub mod version;
mod words;
mod xpath31;

pub use flwr_parser::{is_condition, is_flwr};
pub use options::{Dialect, NamespaceLookup, ParseOptions};
pub use parameters::{ParameterValue, Parameters};

use ast::{Expr, Function};
use notes::QueryNote;

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
    parse_noting(text, options, vocabulary).map(|(query, _)| query)
}

/// Parses a query as [`parse`] does, and returns what in it may not be meant as it is written.
pub fn parse_noting(
    text: &str,
    options: &ParseOptions,
    vocabulary: &mut Vocabulary,
) -> Result<(Query, Option<QueryNote>), QueryError> {
    if options.dialect == Dialect::XQuery {
        return Ok((Query::XPath(external::necessary_condition(text, options, vocabulary)), None));
    }
    if let Some((condition, note)) = worded_condition(text, options, vocabulary) {
        return Ok((Query::XPath(condition), note));
    }
    let mut parser = parser::Parser::new(text, options, vocabulary).map_err(|error| *error)?;
    let parsed = if flwr_parser::is_flwr(text) {
        parser.whole_flwr().and_then(|query| parser.as_asked(query)).map(Query::Flwr)
    } else {
        parser.whole_expression().map(Query::XPath)
    };
    parsed.map(|query| (query, parser.note.get())).map_err(|error| *error)
}

/// Returns the condition that `let $a := b return condition`, or `if (a) then condition else condition`, is: XPath, although most
/// queries that begin so rewrite.
fn worded_condition(
    text: &str,
    options: &ParseOptions,
    vocabulary: &mut Vocabulary,
) -> Option<(Expr, Option<QueryNote>)> {
    let text_after = text.trim_start_matches(['(', ' ', '\t', '\r', '\n']);
    let begins = |word, next| text_after.strip_prefix(word).is_some_and(|rest| rest.trim_start().starts_with(next));
    if !begins("let", '$') && !begins("if", '(') {
        return None;
    }
    let mut parser = parser::Parser::new(text, options, vocabulary).ok()?;
    let expr = parser.whole_expression().ok()?;
    // In XQuery such a query returns its values.
    let returns_values = options.dialect == Dialect::Native
        && matches!(&expr, Expr::Call { function: Function::Boolean, arguments } if arguments[0].gives_values());
    (expr.static_type(&[]) == functions::ExprType::Boolean && !returns_values).then(|| (expr, parser.note.get()))
}
