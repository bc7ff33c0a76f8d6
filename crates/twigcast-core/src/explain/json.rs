//! Explanations as JSON.
//!
//! | object | fields |
//! |---|---|
//! | explanation | `matches`, `condition`, `exact`, `node_count` (or null), `nodes`, `verdict`, `absent_names` |
//! | place | `path`, `kind`, `line`, `column`, `value` |
//! | verdict | `text`, `holds`, `hints`, `kind` and more by kind: |
//! | - `all`, `any` | `operands`: verdicts |
//! | - `not` | `operand`: a verdict |
//! | - `path` | `selected`, `steps` |
//! | - `comparison` | `operator`, `left`, `right` |
//! | - `value` | `value` |
//! | - `omitted` | none |
//! | operand | `text`, `kind`, `count`, `values` (objects with `value` and `place` or null), `path` (or null) |
//! | step | `text`, `contexts`, `candidates`, `predicates` (`text`, `remaining`), `selected`, `example` (or null), `hints` |
//! | example | `place`, `predicates`: verdicts |
//! | hint | `kind`, `message`, `place` (or null) |
//! | absent name | `name`, `namespace`, `nearest`: objects with `kind` and `message` |

use std::fmt::Write;

use super::report::{
    AbsentName, Detail, Example, Explanation, Hint, NodeLocation, OperandReport, PathReport, StepReport, Verdict,
};

/// An explanation as a JSON object.
pub fn explanation(explanation: &Explanation) -> String {
    let mut out = ReportWriter::default();
    out.object(|o| {
        o.field("matches").boolean(explanation.matches);
        o.field("condition").text(&explanation.condition);
        o.field("exact").boolean(explanation.exact);
        match explanation.node_count {
            Some(count) => o.field("node_count").number(count),
            None => o.field("node_count").null(),
        }
        o.field("nodes").list(&explanation.nodes, location);
        verdict(o.field("verdict"), &explanation.verdict);
        o.field("absent_names").list(&explanation.absent_names, absent_name);
    });
    out.text
}

/// JSON being written.
#[derive(Default)]
struct ReportWriter {
    text: String,
}

impl ReportWriter {
    fn object(&mut self, fields: impl FnOnce(&mut Self)) {
        self.text.push('{');
        fields(self);
        self.text.push('}');
    }

    /// The name of the next field.
    fn field(&mut self, name: &str) -> &mut Self {
        if !self.text.ends_with('{') {
            self.text.push(',');
        }
        self.text.push('"');
        self.text.push_str(name);
        self.text.push_str("\":");
        self
    }

    fn list<T>(&mut self, items: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.text.push('[');
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.text.push(',');
            }
            write(self, item);
        }
        self.text.push(']');
    }

    fn text(&mut self, value: &str) {
        self.text.push('"');
        for character in value.chars() {
            match character {
                '"' => self.text.push_str("\\\""),
                '\\' => self.text.push_str("\\\\"),
                '\0'..='\u{1f}' => {
                    // Writing to a string cannot fail.
                    let _ = write!(self.text, "\\u{:04x}", u32::from(character));
                }
                other => self.text.push(other),
            }
        }
        self.text.push('"');
    }

    fn number(&mut self, value: usize) {
        let _ = write!(self.text, "{value}");
    }

    fn boolean(&mut self, value: bool) {
        self.text.push_str(if value { "true" } else { "false" });
    }

    fn null(&mut self) {
        self.text.push_str("null");
    }
}

fn optional<T>(out: &mut ReportWriter, value: Option<&T>, write: impl FnOnce(&mut ReportWriter, &T)) {
    match value {
        Some(value) => write(out, value),
        None => out.null(),
    }
}

fn location(out: &mut ReportWriter, node_location: &NodeLocation) {
    out.object(|o| {
        o.field("path").text(&node_location.path);
        o.field("kind").text(node_location.kind);
        o.field("line").number(node_location.line as usize);
        o.field("column").number(node_location.column as usize);
        o.field("value").text(&node_location.value);
    });
}

fn verdict(out: &mut ReportWriter, verdict: &Verdict) {
    out.object(|o| {
        o.field("text").text(&verdict.text);
        o.field("holds").boolean(verdict.holds);
        o.field("hints").list(&verdict.hints, hint);
        detail(o, &verdict.detail);
    });
}

fn detail(o: &mut ReportWriter, detail: &Detail) {
    match detail {
        Detail::All(operands) => {
            o.field("kind").text("all");
            o.field("operands").list(operands, verdict);
        }
        Detail::Any(operands) => {
            o.field("kind").text("any");
            o.field("operands").list(operands, verdict);
        }
        Detail::Not(operand) => {
            o.field("kind").text("not");
            verdict(o.field("operand"), operand);
        }
        Detail::Path(report) => {
            o.field("kind").text("path");
            o.field("selected").number(report.selected);
            o.field("steps").list(&report.steps, step);
        }
        Detail::Comparison { operator, left, right } => {
            o.field("kind").text("comparison");
            o.field("operator").text(operator);
            operand(o.field("left"), left);
            operand(o.field("right"), right);
        }
        Detail::Value(value) => {
            o.field("kind").text("value");
            o.field("value").text(value);
        }
        Detail::Omitted => o.field("kind").text("omitted"),
    }
}

fn operand(out: &mut ReportWriter, operand: &OperandReport) {
    out.object(|o| {
        o.field("text").text(&operand.text);
        o.field("kind").text(operand.kind);
        o.field("count").number(operand.count);
        o.field("values").list(&operand.values, |o, (value, at)| {
            o.object(|o| {
                o.field("value").text(value);
                optional(o.field("place"), at.as_ref(), location);
            });
        });
        optional(o.field("path"), operand.empty.as_deref(), path);
    });
}

fn path(out: &mut ReportWriter, report: &PathReport) {
    out.object(|o| {
        o.field("selected").number(report.selected);
        o.field("steps").list(&report.steps, step);
    });
}

fn step(out: &mut ReportWriter, step: &StepReport) {
    out.object(|o| {
        o.field("text").text(&step.text);
        o.field("contexts").number(step.contexts);
        o.field("candidates").number(step.candidates);
        o.field("predicates").list(&step.predicates, |o, (text, remaining)| {
            o.object(|o| {
                o.field("text").text(text);
                o.field("remaining").number(*remaining);
            });
        });
        o.field("selected").number(step.selected);
        optional(o.field("example"), step.example.as_ref(), example);
        o.field("hints").list(&step.hints, hint);
    });
}

fn example(out: &mut ReportWriter, example: &Example) {
    out.object(|o| {
        location(o.field("place"), &example.location);
        o.field("predicates").list(&example.predicates, verdict);
    });
}

fn hint(out: &mut ReportWriter, hint: &Hint) {
    out.object(|o| {
        o.field("kind").text(hint.kind.name());
        o.field("message").text(&hint.message);
        optional(o.field("place"), hint.location.as_ref(), location);
    });
}

fn absent_name(out: &mut ReportWriter, absent: &AbsentName) {
    out.object(|o| {
        o.field("name").text(&absent.name);
        o.field("namespace").text(&absent.namespace);
        o.field("nearest").list(&absent.nearest, |o, (kind, message)| {
            o.object(|o| {
                o.field("kind").text(kind.name());
                o.field("message").text(message);
            });
        });
    });
}
