//! Explanations: the reason why a query matches a message, or the first step that fails and what comes nearest.
//!
//! An explanation evaluates the query part by part and keeps what it sees: how many nodes each step leads to and each
//! predicate leaves, the values that a comparison compared, one node as an example, and for what fails the near misses
//! that people run into (another namespace, letter case, white space, text that is no number, ...).

mod comparison;
pub mod json;
mod location;
mod names;
mod paths;
mod report;
#[cfg(test)]
mod tests;
mod verdicts;

use std::collections::BTreeMap;

use crate::document::{Document, Message};
use crate::error::{MessageError, QueryError};
use crate::eval::{Context, EvalError, Evaluator, Value};
use crate::limits::Limits;
use crate::query::ast::Expr;
use crate::query::matching::matching_condition;
use crate::query::{Dialect, ParseOptions, Query, display, parse};
use crate::scan::{RecordOptions, Scanner};
use crate::util::number;
use crate::vocabulary::Vocabulary;

pub use report::{
    AbsentName, Detail, Example, Explanation, Hint, HintKind, NodeLocation, OperandReport, PathReport, StepReport,
    Verdict,
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
pub fn explain(
    xml: &[u8],
    query: &str,
    namespaces: &BTreeMap<String, String>,
    dialect: Dialect,
    limits: &Limits,
) -> Result<Explanation, ExplainError> {
    let mut vocabulary = Vocabulary::new();
    let options = ParseOptions { namespaces, dialect, limits };
    let parsed = parse(query, &options, &mut vocabulary).map_err(ExplainError::Query)?;
    let (expr, exact) = match parsed {
        Query::XPath(expr) => (expr, true),
        Query::Flwr(flwr) => {
            let condition = matching_condition(&flwr);
            (condition.expr, condition.exact)
        }
    };
    let mut document = Document::default();
    Scanner::new().scan(xml, &vocabulary, limits, RecordOptions::ALL, &mut document).map_err(ExplainError::Message)?;
    let message = Message { source: xml, document: &document };
    let evaluator = Evaluator::new(message, &vocabulary, &[]).with_budget(limits.query_visits_max as u64);
    Ok(Explainer { evaluator, vocabulary: &vocabulary, namespaces }.explanation(&expr, exact)?)
}

/// Explains the parts of one query on one message.
struct Explainer<'a> {
    evaluator: Evaluator<'a>,
    vocabulary: &'a Vocabulary,
    namespaces: &'a BTreeMap<String, String>,
}

impl<'a> Explainer<'a> {
    fn explanation(&self, expr: &'a Expr, exact: bool) -> Result<Explanation, EvalError> {
        let verdict = self.verdict(expr, Context::DOCUMENT, 0)?;
        let (node_count, nodes) = match self.evaluator.value(expr, Context::DOCUMENT)? {
            Value::Nodes(nodes) => {
                let locations = nodes.iter().take(NODES_MAX).map(|&node| location::location(&self.evaluator, node));
                (Some(nodes.len()), locations.collect::<Result<_, _>>()?)
            }
            Value::Boolean(_) | Value::Number(_) | Value::String(_) => (None, Vec::new()),
        };
        Ok(Explanation {
            matches: verdict.holds,
            condition: self.text(expr),
            exact,
            node_count,
            nodes,
            absent_names: names::absent(expr, self.vocabulary, &self.evaluator),
            verdict,
        })
    }

    /// An expression as text, in the query's own prefixes.
    fn text(&self, expr: &Expr) -> String {
        display::expression(expr, self.vocabulary, self.namespaces).text
    }
}

/// A value as `string()` gives it, and the name of its type.
fn shown(value: &Value<'_>) -> (&'static str, String) {
    match value {
        Value::Boolean(truth) => ("boolean", truth.to_string()),
        Value::Number(value) => ("number", number::format(*value).into_owned()),
        Value::String(text) => ("string", location::shortened(text)),
        Value::Nodes(nodes) => ("nodes", nodes.len().to_string()),
    }
}
