//! Explanations: the reason why a query matches a message, or the first step that fails and what comes nearest.
//!
//! An explanation evaluates the query part by part and keeps what it sees: how many nodes each step leads to and each
//! predicate leaves, the values that a comparison compared, one node as an example, and for what fails the near misses
//! that people run into (another namespace, letter case, white space, text that is no number, ...).
//!
//! ```
//! use twigcast_core::engine::QueryContext;
//! use twigcast_core::explain::explain;
//! use twigcast_core::limits::Limits;
//!
//! let xml = b"<alert><event>Flood</event></alert>";
//! let query = "/alert[event = 'flood']";
//! let explanation = explain(xml, query, &QueryContext::default(), &Limits::default()).expect("it can be explained");
//! assert!(!explanation.matches);
//! assert_eq!(explanation.condition, "/alert[event = 'flood']");
//! ```

mod comparison;
pub mod json;
mod location;
mod names;
mod nearness;
mod paths;
mod report;
#[cfg(test)]
mod tests;
mod verdicts;

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::document::{Document, Message};
use crate::engine::QueryContext;
use crate::error::{MessageError, QueryError};
use crate::eval::{Context, EvalError, Evaluator, Value};
use crate::limits::Limits;
use crate::query::ast::Expr;
use crate::query::matching::matching_condition;
use crate::query::{ParseOptions, Query, display, parse};
use crate::scan::{ScanOptions, Scanner};
use crate::util::number;
use crate::util::temporal::Temporal;
use crate::vocabulary::Vocabulary;

pub use report::{
    AbsentName, Detail, Example, Explanation, Hint, HintKind, NodeLocation, OperandReport, PathReport, RegionMap,
    StepReport, Verdict,
};

/// Selected nodes that are listed.
const NODES_MAX: usize = 20;

/// The reason why there is no explanation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExplainError {
    /// The query was refused.
    Query(QueryError),
    /// The message was rejected.
    Message(MessageError),
    /// The query could not be decided on the message.
    Evaluation(EvalError),
}

impl From<EvalError> for ExplainError {
    fn from(error: EvalError) -> Self {
        Self::Evaluation(error)
    }
}

/// Explains why a query matches a message, or not.
pub fn explain(xml: &[u8], query: &str, context: &QueryContext, limits: &Limits) -> Result<Explanation, ExplainError> {
    explain_published(xml, query, context, limits, Temporal::present())
}

/// Explains why a query matches a message that was published at a time, in the ticks of [`crate::util::temporal`].
pub fn explain_published(
    xml: &[u8],
    query: &str,
    context: &QueryContext,
    limits: &Limits,
    published: i64,
) -> Result<Explanation, ExplainError> {
    let mut vocabulary = Vocabulary::new();
    let options = context.parse_options(limits);
    let (expr, exact) = condition(query, &options, &mut vocabulary).map_err(ExplainError::Query)?;
    let mut document = Document::default();
    Scanner::new().scan(xml, &vocabulary, limits, ScanOptions::ALL, &mut document).map_err(ExplainError::Message)?;
    document.published = Some(published);
    let message = Message { source: xml, document: &document };
    let evaluator =
        Evaluator::new(message, &vocabulary, &[]).with_budget(limits.query_visits(message.visits_of_size()));
    let maps = RefCell::default();
    Ok(Explainer { evaluator, vocabulary: &vocabulary, namespaces: &context.namespaces, maps }
        .explanation(&expr, exact)?)
}

/// Returns how near a message comes to each of some queries, from 0 to 1: by [`Explanation::nearness`], but all of them
/// share one reading of the message.
///
/// # Errors
/// The message is rejected. What is wrong with a query is its own error.
pub fn nearness_of_each(
    xml: &[u8],
    queries: &[(&str, &QueryContext)],
    limits: &Limits,
) -> Result<Vec<Result<f64, ExplainError>>, MessageError> {
    let mut vocabulary = Vocabulary::new();
    // The scanner keeps the names that queries mention, so it comes after them.
    let conditions: Vec<Result<Expr, QueryError>> = queries
        .iter()
        .map(|&(query, context)| {
            condition(query, &context.parse_options(limits), &mut vocabulary).map(|(expr, _)| expr)
        })
        .collect();
    let mut document = Document::default();
    Scanner::new().scan(xml, &vocabulary, limits, ScanOptions::ALL, &mut document)?;
    document.published = Some(Temporal::present());
    let message = Message { source: xml, document: &document };
    let of = |(expr, query): (&Result<Expr, QueryError>, &(&str, &QueryContext))| {
        let expr = expr.as_ref().map_err(|error| ExplainError::Query(error.clone()))?;
        let evaluator = Evaluator::new(message, &vocabulary, &[]).with_budget(limits.query_visits_max as u64);
        let maps = RefCell::default();
        let explainer = Explainer { evaluator, vocabulary: &vocabulary, namespaces: &query.1.namespaces, maps };
        Ok(nearness::nearness(&explainer.verdict(expr, Context::DOCUMENT, 0)?))
    };
    Ok(conditions.iter().zip(queries).map(of).collect())
}

/// Returns the condition under which a query matches, and whether it decides that alone.
fn condition(query: &str, options: &ParseOptions<'_>, vocabulary: &mut Vocabulary) -> Result<(Expr, bool), QueryError> {
    Ok(match parse(query, options, vocabulary)? {
        Query::XPath(expr) => (expr, true),
        Query::Flwr(flwr) => {
            let condition = matching_condition(&flwr);
            (condition.expr, condition.exact)
        }
    })
}

/// Explains the parts of one query on one message.
struct Explainer<'a> {
    evaluator: Evaluator<'a>,
    vocabulary: &'a Vocabulary,
    namespaces: &'a BTreeMap<String, String>,
    /// The regions that were asked for.
    maps: RefCell<Vec<RegionMap>>,
}

impl<'a> Explainer<'a> {
    fn explanation(&self, expr: &'a Expr, exact: bool) -> Result<Explanation, EvalError> {
        let verdict = self.verdict(expr, Context::DOCUMENT, 0)?;
        let (node_count, nodes) = match self.evaluator.value(expr, Context::DOCUMENT)? {
            Value::Nodes(nodes) => {
                let locations = nodes.iter().take(NODES_MAX).map(|&node| location::location(&self.evaluator, node));
                (Some(nodes.len()), locations.collect::<Result<_, _>>()?)
            }
            Value::Boolean(_) | Value::Number(_) | Value::String(_) | Value::Temporal(_) => (None, Vec::new()),
        };
        Ok(Explanation {
            matches: verdict.holds,
            condition: self.text(expr),
            exact,
            node_count,
            nodes,
            absent_names: names::absent(expr, self.vocabulary, &self.evaluator),
            maps: self.maps.take(),
            verdict,
        })
    }

    /// Returns an expression as text, in the query's own prefixes.
    fn text(&self, expr: &Expr) -> String {
        display::expression(expr, self.vocabulary, self.namespaces).text
    }
}

/// Returns a value as `string()` gives it, and the name of its type.
fn shown(value: &Value<'_>) -> (&'static str, String) {
    match value {
        Value::Boolean(truth) => ("boolean", truth.to_string()),
        Value::Number(value) => ("number", number::format(*value).into_owned()),
        Value::String(text) => ("string", location::shortened(text)),
        Value::Nodes(nodes) => ("nodes", nodes.len().to_string()),
        Value::Temporal(temporal) => (temporal.kind().name(), temporal.to_string()),
    }
}
