//! Names that a query asks for and a message does not have, and what comes nearest.

use std::collections::BTreeMap;

use crate::document::NodeKind;
use crate::eval::{Evaluator, NodeRef};
use crate::ids::AttributeId;
use crate::query::ast::{Axis, Expr, NameTest, NodeTest, Path, PathStart, Step};
use crate::vocabulary::{Name, Vocabulary};

use super::report::{AbsentName, HintKind};

/// Other namespaces or names that are listed.
const LISTED_MAX: usize = 5;

/// A name that occurs: namespace and local part.
pub(super) type ExpandedName = (String, String);

/// The names that occur among some nodes, and where first.
pub(super) type NameCensus = BTreeMap<ExpandedName, NodeRef>;

/// Counts a node's names.
pub(super) fn enter(census: &mut NameCensus, evaluator: &Evaluator<'_>, node: NodeRef) {
    let name = (evaluator.namespace_uri(node).into_owned(), evaluator.local_name(node).to_owned());
    census.entry(name).or_insert(node);
}

/// Returns all element names and all attribute names of a message.
pub(super) fn of_message(evaluator: &Evaluator<'_>) -> (NameCensus, NameCensus) {
    let document = evaluator.message().document;
    let (mut elements, mut attributes) = (NameCensus::new(), NameCensus::new());
    for (id, node) in document.nodes.iter().enumerate() {
        if node.kind == NodeKind::Element {
            enter(&mut elements, evaluator, NodeRef::Node(id as u32));
        }
    }
    for attribute in 0..document.attributes.len() {
        enter(&mut attributes, evaluator, NodeRef::Attribute(AttributeId::new(attribute)));
    }
    (elements, attributes)
}

/// Returns the nearest names to a wanted one: kind of difference, sentence, first node of that name.
pub(super) fn nearest(expected: &ExpandedName, census: &NameCensus) -> Vec<(HintKind, String, NodeRef)> {
    let (uri, local) = expected;
    let mut result = Vec::new();
    for ((other_uri, other_local), &node) in census {
        let same_namespace = uri == other_uri;
        let (kind, what) = if local == other_local && !same_namespace {
            (
                HintKind::Namespace,
                format!(
                    "`{local}` is there {}, the query asks for it {}: {}, or write *:{local}",
                    inside(other_uri),
                    inside(uri),
                    if other_uri.is_empty() { "write it without a prefix" } else { "bind a prefix to that" }
                ),
            )
        } else if local != other_local && local.to_lowercase() == other_local.to_lowercase() {
            (
                HintKind::Case,
                format!("`{other_local}`{} differs in letter case only", other_namespace(same_namespace, other_uri)),
            )
        } else if same_namespace && local != other_local && is_similar(local, other_local) {
            (HintKind::Spelling, format!("`{other_local}` is spelled similarly"))
        } else {
            continue;
        };
        result.push((kind, what, node));
    }
    result.sort_by_key(|(kind, _, _)| match kind {
        HintKind::Namespace => 0,
        HintKind::Case => 1,
        _ => 2,
    });
    result.truncate(LISTED_MAX);
    result
}

/// Returns a namespace in words.
fn inside(uri: &str) -> String {
    if uri.is_empty() { "in no namespace".to_owned() } else { format!("in namespace \"{uri}\"") }
}

fn other_namespace(same_namespace: bool, uri: &str) -> String {
    if same_namespace { String::new() } else { format!(" ({})", inside(uri)) }
}

/// Returns `true` if two names differ by a slip: by one edit for each four letters, two at most.
pub(super) fn is_similar(a: &str, b: &str) -> bool {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let allowed = (a.len().max(b.len()) / 4).min(2);
    allowed > 0 && a.len().abs_diff(b.len()) <= allowed && a.len() < 100 && distance(&a, &b) <= allowed
}

/// Edits from one text to the other: insertions, deletions, replacements, exchanges of neighbours (Damerau 1964).
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

/// Returns the names in an expression that do not occur in the message.
pub(super) fn absent(expr: &Expr, vocabulary: &Vocabulary, evaluator: &Evaluator<'_>) -> Vec<AbsentName> {
    let (elements, attributes) = of_message(evaluator);
    let mut asked = Vec::new();
    collect(expr, &mut asked);
    let mut absent: Vec<AbsentName> = Vec::new();
    for (name, is_attribute) in asked {
        let (own, other) = if is_attribute { (&attributes, &elements) } else { (&elements, &attributes) };
        let expected =
            (vocabulary.namespace_uri(name.namespace).to_owned(), vocabulary.local_name(name.local).to_owned());
        let shown = if is_attribute { format!("@{}", expected.1) } else { expected.1.clone() };
        if own.contains_key(&expected) || absent.iter().any(|a| a.name == shown && a.namespace == expected.0) {
            continue;
        }
        let mut near: Vec<_> = nearest(&expected, own).into_iter().map(|(kind, text, _)| (kind, text)).collect();
        if other.contains_key(&expected) {
            let (is, not) = if is_attribute { ("an element", "an attribute") } else { ("an attribute", "an element") };
            near.push((HintKind::AttributeOrElement, format!("`{}` is the name of {is}, not of {not}", expected.1)));
        }
        absent.push(AbsentName { name: shown, namespace: expected.0, nearest: near });
    }
    absent
}

fn collect(expr: &Expr, names: &mut Vec<(Name, bool)>) {
    match expr {
        Expr::Path(path) => collect_path(path, names),
        other => other.operands().for_each(|operand| collect(operand, names)),
    }
}

fn collect_path(path: &Path, names: &mut Vec<(Name, bool)>) {
    if let PathStart::Filter { primary, predicates } = &path.start {
        collect(primary, names);
        predicates.iter().for_each(|predicate| collect(predicate, names));
    }
    for Step { axis, test, predicates } in &path.steps {
        if let (NodeTest::Name(NameTest::Name(name)), false) = (test, *axis == Axis::Namespace) {
            names.push((*name, *axis == Axis::Attribute));
        }
        predicates.iter().for_each(|predicate| collect(predicate, names));
    }
}
