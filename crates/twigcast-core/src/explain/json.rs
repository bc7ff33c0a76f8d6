//! Explanations as JSON.
//!
//! | object | fields |
//! |---|---|
//! | explanation | `matches`, `condition`, `exact`, `node_count` (or null), `nodes`, `verdict`, `absent_names`, `maps`, `nearness` |
//! | map | `text`, `region`: a drawing, `places`: drawings |
//! | drawing | `is_area`, `lines`: lists of longitudes and latitudes |
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

use super::report::{
    AbsentName, Detail, Example, Explanation, Hint, HintKind, NodeLocation, OperandReport, PathReport, RegionMap,
    StepReport, Verdict,
};
use crate::util::json::Json;
use crate::util::places::bounds::Coordinate;
use crate::util::places::drawing::Drawing;

/// Returns an explanation as a JSON object.
pub fn explanation(explanation: &Explanation) -> String {
    Json::object([
        ("matches", explanation.matches.into()),
        ("condition", (&*explanation.condition).into()),
        ("exact", explanation.exact.into()),
        ("node_count", Json::optional(explanation.node_count, Json::from)),
        ("nodes", Json::list(&explanation.nodes, location)),
        ("verdict", verdict(&explanation.verdict)),
        ("absent_names", Json::list(&explanation.absent_names, absent_name)),
        ("maps", Json::list(&explanation.maps, map)),
        ("nearness", Json::Number(explanation.nearness())),
    ])
    .to_string()
}

fn map(map: &RegionMap) -> Json {
    Json::object([
        ("text", (&*map.text).into()),
        ("region", drawing(&map.region)),
        ("places", Json::list(&map.places, drawing)),
    ])
}

fn drawing(drawing: &Drawing) -> Json {
    // A metre is as much as a map shows.
    let number = |value: f64| Json::Number((value * 1e5).round() / 1e5);
    let line = |line: &Vec<Coordinate>| Json::list(line, |at| Json::List(vec![number(at.x), number(at.y)]));
    Json::object([("is_area", drawing.is_area.into()), ("lines", Json::list(&drawing.lines, line))])
}

fn location(node: &NodeLocation) -> Json {
    Json::object([
        ("path", (&*node.path).into()),
        ("kind", node.kind.into()),
        ("line", node.line.into()),
        ("column", node.column.into()),
        ("value", (&*node.value).into()),
    ])
}

fn verdict(verdict: &Verdict) -> Json {
    let mut fields = vec![
        ("text", (&*verdict.text).into()),
        ("holds", verdict.holds.into()),
        ("hints", Json::list(&verdict.hints, hint)),
    ];
    fields.extend(detail(&verdict.detail));
    Json::Object(fields)
}

/// Returns the fields of a verdict that depend on its kind.
fn detail(detail: &Detail) -> Vec<(&'static str, Json)> {
    match detail {
        Detail::All(operands) => vec![("kind", "all".into()), ("operands", Json::list(operands, verdict))],
        Detail::Any(operands) => vec![("kind", "any".into()), ("operands", Json::list(operands, verdict))],
        Detail::Not(operand) => vec![("kind", "not".into()), ("operand", verdict(operand))],
        Detail::Path(report) => std::iter::once(("kind", "path".into())).chain(path_fields(report)).collect(),
        Detail::Comparison { operator, left, right } => vec![
            ("kind", "comparison".into()),
            ("operator", (*operator).into()),
            ("left", operand(left)),
            ("right", operand(right)),
        ],
        Detail::Value(value) => vec![("kind", "value".into()), ("value", (&**value).into())],
        Detail::Omitted => vec![("kind", "omitted".into())],
    }
}

fn operand(operand: &OperandReport) -> Json {
    let values = Json::list(&operand.values, |(value, node)| {
        Json::object([("value", (&**value).into()), ("place", Json::optional(node.as_ref(), location))])
    });
    Json::object([
        ("text", (&*operand.text).into()),
        ("kind", operand.kind.into()),
        ("count", operand.count.into()),
        ("values", values),
        ("path", Json::optional(operand.empty.as_deref(), |report| Json::object(path_fields(report)))),
    ])
}

fn path_fields(report: &PathReport) -> [(&'static str, Json); 2] {
    [("selected", report.selected.into()), ("steps", Json::list(&report.steps, step))]
}

fn step(step: &StepReport) -> Json {
    let predicates = Json::list(&step.predicates, |(text, remaining)| {
        Json::object([("text", (&**text).into()), ("remaining", (*remaining).into())])
    });
    Json::object([
        ("text", (&*step.text).into()),
        ("contexts", step.contexts.into()),
        ("candidates", step.candidates.into()),
        ("predicates", predicates),
        ("selected", step.selected.into()),
        ("example", Json::optional(step.example.as_ref(), example)),
        ("hints", Json::list(&step.hints, hint)),
    ])
}

fn example(example: &Example) -> Json {
    Json::object([("place", location(&example.location)), ("predicates", Json::list(&example.predicates, verdict))])
}

fn hint(hint: &Hint) -> Json {
    let [kind, message] = message_of_kind(hint.kind, &hint.message);
    Json::object([kind, message, ("place", Json::optional(hint.location.as_ref(), location))])
}

fn message_of_kind(kind: HintKind, message: &str) -> [(&'static str, Json); 2] {
    [("kind", kind.name().into()), ("message", message.into())]
}

fn absent_name(absent: &AbsentName) -> Json {
    let nearest = Json::list(&absent.nearest, |(kind, message)| Json::object(message_of_kind(*kind, message)));
    Json::object([("name", (&*absent.name).into()), ("namespace", (&*absent.namespace).into()), ("nearest", nearest)])
}
