//! Tests of the evaluator: tables of document, query, answer.

mod axes;
mod bounds;
mod function_rows;
mod numbers;
mod repeated;

use crate::document::{Document, Message};
use crate::eval::{Context, Evaluator, NodeRef, Value};
use crate::limits::Limits;
use crate::query::ast::Expr;
use crate::query::{Dialect, ParseOptions, Query, parse};
use crate::scan::{ScanOptions, Scanner};
use crate::vocabulary::Vocabulary;

/// Prefixes of the queries in these tests.
const NAMESPACES: [(&str, &str); 2] = [("p", "urn:one"), ("q", "urn:two")];

/// The value of a query as text: `true`, a number, a string, or the names and values of nodes, in order.
fn answer(xml: &str, query: &str) -> String {
    let case = Case::new(xml, query);
    let (evaluator, expr) = (&case.evaluator(), &case.expr);
    match evaluator.value(expr, Context::DOCUMENT).expect(query) {
        Value::Boolean(truth) => truth.to_string(),
        Value::Number(number) => crate::util::number::format(number).into_owned(),
        Value::String(text) => text.into_owned(),
        Value::Temporal(temporal) => temporal.to_string(),
        Value::Nodes(nodes) => {
            let count = evaluator.count(expr, Context::DOCUMENT).expect(query);
            assert_eq!(count, nodes.len(), "{query}: count and nodes agree");
            let truth = evaluator.boolean(expr, Context::DOCUMENT).expect(query);
            assert_eq!(truth, count > 0, "{query}: boolean and nodes agree");
            nodes.iter().map(|&node| shown(evaluator, node)).collect::<Vec<_>>().join(" ")
        }
    }
}

fn shown(evaluator: &Evaluator<'_>, node: NodeRef) -> String {
    let value = evaluator.string_value(node).expect("no budget");
    match (node, evaluator.qualified_name(node)) {
        (NodeRef::Node(0), _) => "/".to_owned(),
        (NodeRef::Node(_) | NodeRef::Value(_), "") => format!("{:?}", &*value),
        (NodeRef::Node(_) | NodeRef::Value(_), name) => name.to_owned(),
        (NodeRef::Attribute(_), name) => format!("@{name}={value}"),
        (NodeRef::Namespace { .. }, prefix) => format!("{prefix}->{value}"),
    }
}

/// A parsed query, and a message scanned for it.
struct Case {
    vocabulary: Vocabulary,
    expr: Expr,
    document: Document,
    source: String,
}

impl Case {
    fn new(xml: &str, query: &str) -> Self {
        let limits = Limits { depth_max: usize::MAX, ..Limits::default() };
        let mut vocabulary = Vocabulary::new();
        let options = ParseOptions::new(&NAMESPACES, Dialect::XPath, &limits);
        let expr = match parse(query, &options, &mut vocabulary) {
            Ok(Query::XPath(expr)) => expr,
            other => panic!("{query}: {other:?}"),
        };
        let mut document = Document::default();
        Scanner::new()
            .scan(xml.as_bytes(), &vocabulary, &limits, ScanOptions::ALL, &mut document)
            .unwrap_or_else(|error| panic!("{xml}: {error}"));
        Self { vocabulary, expr, document, source: xml.to_owned() }
    }

    fn evaluator(&self) -> Evaluator<'_> {
        let message = Message { source: self.source.as_bytes(), document: &self.document };
        Evaluator::new(message, &self.vocabulary, &[])
    }
}

/// Check a table of queries and answers on one document.
fn check(xml: &str, table: &[(&str, &str)]) {
    for (query, expected) in table {
        assert_eq!(answer(xml, query), *expected, "{query} on {xml}");
    }
}
