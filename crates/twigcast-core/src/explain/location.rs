//! Nodes as people find them: path, line and column, and what they hold.

use crate::document::NodeKind;
use crate::eval::{EvalError, Evaluator, NodeRef};
use crate::scan::position;

use super::report::NodeLocation;

/// Characters of a value that are shown.
const VALUE_CHARACTERS_MAX: usize = 80;

/// Returns the position and the value of a node.
pub(super) fn location(evaluator: &Evaluator<'_>, node: NodeRef) -> Result<NodeLocation, EvalError> {
    let message = evaluator.message();
    let document = message.document;
    let (kind, start) = match node {
        NodeRef::Node(id) => {
            let entry = &document.nodes[id as usize];
            let kind = match entry.kind {
                NodeKind::Document => "document",
                NodeKind::Element => "element",
                NodeKind::Text => "text",
                NodeKind::Comment => "comment",
                NodeKind::ProcessingInstruction => "processing-instruction",
            };
            (kind, entry.span.start)
        }
        NodeRef::Attribute(attribute) => ("attribute", document.attributes[attribute.index()].qname.start),
        NodeRef::Namespace { owner, .. } => ("namespace", document.nodes[owner as usize].span.start),
        NodeRef::Value(_) => ("value", 0),
    };
    let (line, column) = position::locate(message.source, start as usize);
    Ok(NodeLocation {
        path: path_of(evaluator, node),
        kind,
        line,
        column,
        value: shortened(&evaluator.string_value(node)?),
    })
}

/// Returns a path to a node, names as written, with positions where there are several.
fn path_of(evaluator: &Evaluator<'_>, node: NodeRef) -> String {
    let document = evaluator.message().document;
    let mut parts = Vec::new();
    match node {
        NodeRef::Attribute(_) => parts.push(format!("@{}", evaluator.qualified_name(node))),
        NodeRef::Namespace { .. } => parts.push(format!("namespace::{}", evaluator.qualified_name(node))),
        NodeRef::Value(_) => return "a value".to_owned(),
        NodeRef::Node(_) => {}
    }
    let mut id = node.tree_node(document);
    while id != 0 {
        let this = label(evaluator, id);
        let parent = document.nodes[id as usize].parent;
        let mut alike = document.children(parent).filter(|&child| label(evaluator, child) == this);
        let position = alike.by_ref().position(|child| child == id).unwrap_or(0) + 1;
        let several = position > 1 || alike.next().is_some();
        parts.push(if several { format!("{this}[{position}]") } else { this });
        id = parent;
    }
    if parts.is_empty() {
        return "/".to_owned();
    }
    parts.iter().rev().fold(String::new(), |path, part| path + "/" + part)
}

/// Returns the step that leads to a node from its parent.
fn label(evaluator: &Evaluator<'_>, id: u32) -> String {
    let node = NodeRef::Node(id);
    match evaluator.message().document.nodes[id as usize].kind {
        NodeKind::Text => "text()".to_owned(),
        NodeKind::Comment => "comment()".to_owned(),
        NodeKind::ProcessingInstruction => format!("processing-instruction('{}')", evaluator.qualified_name(node)),
        NodeKind::Element | NodeKind::Document => evaluator.qualified_name(node).to_owned(),
    }
}

/// Returns the beginning of a long text.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(VALUE_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
