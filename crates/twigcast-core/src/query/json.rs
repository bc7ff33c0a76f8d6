//! Algebra to JSON, for programs that look at queries.
//!
//! Every node is an object with a `kind`:
//!
//! | kind | fields |
//! |---|---|
//! | `or`, `and`, `union` | `operands` |
//! | `compare`, `arithmetic` | `operator` (as a query writes it), `left`, `right` |
//! | `negate` | `operand` |
//! | `number` | `value`: a number, or `"NaN"`, `"Infinity"`, `"-Infinity"` |
//! | `literal` | `value` |
//! | `call` | `function` (as a query writes it), `arguments` |
//! | `path` | `start`, `steps` |
//! | starts: `root`, `context` | none |
//! | start: `variable` | `name`, `id` |
//! | start: `filter` | `primary`, `predicates` |
//!
//! For-Where-Return queries:
//!
//! | kind | fields |
//! |---|---|
//! | `flwr-query` | `body` |
//! | `sequence` | `items` |
//! | `flwr` | `clauses`, `where` (or null), `order` (objects with `key`, `descending`, `empty_greatest`), `return` |
//! | clause: `for` | `name`, `id`, `source` |
//! | clause: `let` | `name`, `id`, `value` |
//! | `if` | `condition`, `then`, `else` |
//! | `element` | `qname`, `namespace`, `local`, `declarations` (`prefix`, `uri`), `attributes`, `content` |
//! | `attribute` | `qname`, `namespace`, `local`, `value`: a list of `text` and `enclosed` |
//! | content: `text` | `value` |
//! | content: `enclosed` | `item` |
//! | `comment-constructor` | `value` |
//! | `processing-instruction-constructor` | `target`, `data` |
//!
//! A step has `axis`, `test` and `predicates`. A test is `{"kind": "name", "namespace": uri or null (any), "local": name or
//! "*"}`, or `{"kind": "node" | "text" | "comment"}`, or `{"kind": "processing-instruction", "target": text or null}`.

use std::fmt::Write;

use super::Query;
use super::ast::{Expr, NameTest, NodeTest, Path, PathStart, Step, VariableId};
use super::display::{arithmetic_symbol, compare_symbol};
use crate::vocabulary::Vocabulary;

/// A query as a JSON object.
pub fn query(query: &Query, vocabulary: &Vocabulary) -> String {
    let names: Vec<Box<str>> = match query {
        Query::XPath(_) => Vec::new(),
        Query::Flwr(flwr) => flwr.variables.iter().map(|variable| variable.name.clone()).collect(),
    };
    let mut writer = JsonWriter { out: String::new(), vocabulary, variables: &names };
    match query {
        Query::XPath(expr) => writer.expr(expr),
        Query::Flwr(flwr) => writer.flwr_query(flwr),
    }
    writer.out
}

/// Writes JSON into a string.
pub(super) struct JsonWriter<'a> {
    pub out: String,
    pub vocabulary: &'a Vocabulary,
    /// Names of variables by number.
    pub variables: &'a [Box<str>],
}

impl JsonWriter<'_> {
    /// Writes an expression.
    pub fn expr(&mut self, expr: &Expr) {
        match expr {
            Expr::Or(operands) => self.operands("or", operands),
            Expr::And(operands) => self.operands("and", operands),
            Expr::Union(operands) => self.operands("union", operands),
            Expr::Compare { op, left, right } => self.binary("compare", compare_symbol(*op), left, right),
            Expr::Arithmetic { op, left, right } => self.binary("arithmetic", arithmetic_symbol(*op), left, right),
            Expr::Negate(operand) => {
                self.open("negate");
                self.field("operand");
                self.expr(operand);
                self.out.push('}');
            }
            Expr::Number(value) => self.number(*value),
            Expr::Literal(value) => {
                self.open("literal");
                self.text_field("value", value);
                self.out.push('}');
            }
            Expr::Call { function, arguments } => {
                self.open("call");
                self.text_field("function", function.name());
                self.field("arguments");
                self.list(arguments, Self::expr);
                self.out.push('}');
            }
            Expr::Path(path) => self.path(path),
        }
    }

    fn operands(&mut self, kind: &str, operands: &[Expr]) {
        self.open(kind);
        self.field("operands");
        self.list(operands, Self::expr);
        self.out.push('}');
    }

    fn binary(&mut self, kind: &str, operator: &str, left: &Expr, right: &Expr) {
        self.open(kind);
        self.text_field("operator", operator);
        self.field("left");
        self.expr(left);
        self.field("right");
        self.expr(right);
        self.out.push('}');
    }

    fn number(&mut self, value: f64) {
        self.open("number");
        self.field("value");
        if value.is_finite() {
            let _ = write!(self.out, "{value}");
        } else if value.is_nan() {
            self.out.push_str("\"NaN\"");
        } else {
            self.out.push_str(if value > 0.0 { "\"Infinity\"" } else { "\"-Infinity\"" });
        }
        self.out.push('}');
    }

    fn path(&mut self, path: &Path) {
        self.open("path");
        self.field("start");
        match &path.start {
            PathStart::Root => self.out.push_str("{\"kind\":\"root\"}"),
            PathStart::Context => self.out.push_str("{\"kind\":\"context\"}"),
            PathStart::Variable(id) => {
                self.open("variable");
                self.variable(*id);
                self.out.push('}');
            }
            PathStart::Filter { primary, predicates } => {
                self.open("filter");
                self.field("primary");
                self.expr(primary);
                self.field("predicates");
                self.list(predicates, Self::expr);
                self.out.push('}');
            }
        }
        self.field("steps");
        self.list(&path.steps, Self::step);
        self.out.push('}');
    }

    fn step(&mut self, step: &Step) {
        let _ = write!(self.out, "{{\"axis\":\"{}\"", step.axis.name());
        self.field("test");
        match &step.test {
            NodeTest::Name(test) => self.name_test(*test),
            NodeTest::Node => self.out.push_str("{\"kind\":\"node\"}"),
            NodeTest::Text => self.out.push_str("{\"kind\":\"text\"}"),
            NodeTest::Comment => self.out.push_str("{\"kind\":\"comment\"}"),
            NodeTest::ProcessingInstruction(target) => {
                self.open("processing-instruction");
                match target {
                    Some(target) => self.text_field("target", target),
                    None => self.out.push_str(",\"target\":null"),
                }
                self.out.push('}');
            }
        }
        self.field("predicates");
        self.list(&step.predicates, Self::expr);
        self.out.push('}');
    }

    fn name_test(&mut self, test: NameTest) {
        let vocabulary = self.vocabulary;
        let (namespace, local) = match test {
            NameTest::Any => (None, "*"),
            NameTest::Name(name) => (Some(vocabulary.namespace_uri(name.namespace)), vocabulary.local_name(name.local)),
            NameTest::Namespace(namespace) => (Some(vocabulary.namespace_uri(namespace)), "*"),
            NameTest::Local(local) => (None, vocabulary.local_name(local)),
        };
        self.open("name");
        match namespace {
            Some(uri) => self.text_field("namespace", uri),
            None => self.out.push_str(",\"namespace\":null"),
        }
        self.text_field("local", local);
        self.out.push('}');
    }

    /// The fields `name` and `id`.
    pub fn variable(&mut self, id: VariableId) {
        let name = self.variables.get(id.index()).map_or("", |name| name);
        self.text_field("name", name);
        let _ = write!(self.out, ",\"id\":{}", id.as_u32());
    }

    /// `{"kind":"..."`, to be continued with fields.
    pub fn open(&mut self, kind: &str) {
        let _ = write!(self.out, "{{\"kind\":\"{kind}\"");
    }

    /// `,"name":`, to be followed by a value.
    pub fn field(&mut self, name: &str) {
        let _ = write!(self.out, ",\"{name}\":");
    }

    pub fn text_field(&mut self, name: &str, value: &str) {
        self.field(name);
        self.string(value);
    }

    pub fn list<T>(&mut self, items: &[T], mut write_item: impl FnMut(&mut Self, &T)) {
        self.out.push('[');
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.out.push(',');
            }
            write_item(self, item);
        }
        self.out.push(']');
    }

    /// A JSON string.
    pub fn string(&mut self, value: &str) {
        self.out.push('"');
        for character in value.chars() {
            match character {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                c if c < ' ' => {
                    let _ = write!(self.out, "\\u{:04x}", c as u32);
                }
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }
}
