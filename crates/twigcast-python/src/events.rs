//! The scanner's view of a message: for paths to nodes and their texts, and for tests against other parsers.

use std::collections::BTreeMap;

use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use twigcast_core::document::{Document, Message, NodeKind};
use twigcast_core::eval::{Evaluator, NodeRef};
use twigcast_core::limits::Limits;
use twigcast_core::scan::{ScanOptions, Scanner};
use twigcast_core::vocabulary::Vocabulary;

use crate::{errors, limits};

/// Returns the events of a message: `("start", uri, local, ((uri, local, value), ...))`, `("text", value)`, `("comment",
/// value)`, `("pi", target, value)`, `("end",)`.
#[pyfunction]
#[pyo3(signature = (xml, limits=BTreeMap::new()))]
pub fn scan_events<'py>(py: Python<'py>, xml: &[u8], limits: BTreeMap<String, usize>) -> PyResult<Bound<'py, PyList>> {
    let limits = limits::limits(&limits)?;
    let vocabulary = Vocabulary::new();
    let mut document = Document::default();
    Scanner::new()
        .scan(xml, &vocabulary, &limits, ScanOptions::ALL, &mut document)
        .map_err(|error| errors::message(py, &error))?;
    let message = Message { source: xml, document: &document };
    let evaluator = Evaluator::new(message, &vocabulary, &[]);
    let events = PyList::empty(py);
    let mut open: Vec<u32> = Vec::new();
    for (index, node) in document.nodes.iter().enumerate().skip(1) {
        let index = index as u32;
        close(py, &events, &mut open, |end| end <= index)?;
        let this = NodeRef::Node(index);
        let value = |node| evaluator.string_value(node).map_err(|error| errors::undecided(py, "", &error.to_string()));
        match node.kind {
            NodeKind::Document => {}
            NodeKind::Element => {
                let mut attributes = Vec::new();
                for attribute in document.attribute_ids(index).map(NodeRef::Attribute) {
                    let name = (evaluator.namespace_uri(attribute), evaluator.local_name(attribute));
                    attributes.push((name.0, name.1, value(attribute)?));
                }
                let attributes = PyTuple::new(py, attributes)?;
                events.append(("start", evaluator.namespace_uri(this), evaluator.local_name(this), attributes))?;
                open.push(node.end);
            }
            NodeKind::Text => events.append(("text", value(this)?))?,
            NodeKind::Comment => events.append(("comment", value(this)?))?,
            NodeKind::ProcessingInstruction => {
                events.append(("pi", evaluator.local_name(this), value(this)?))?;
            }
        }
    }
    close(py, &events, &mut open, |_| true)?;
    Ok(events)
}

/// Returns the nodes of a message below the document, in document order: `(kind, start, end, name, value, attributes,
/// namespaces)`.
///
/// `start` is the first byte of its markup, `end` the position in this list behind its last descendant. The name is `(uri,
/// local)`; the value is that of what is no element. Attributes are `(start, uri, local, value)`, namespaces that an element
/// declares `(prefix, uri)`. No limit holds: the message has been matched.
#[pyfunction]
pub fn scan_nodes<'py>(py: Python<'py>, xml: &[u8]) -> PyResult<Bound<'py, PyList>> {
    let most = u32::MAX as usize - 1;
    let limits = Limits { message_bytes_max: most, depth_max: most, attributes_max: most, ..Limits::default() };
    let vocabulary = Vocabulary::new();
    let mut document = Document::default();
    py.detach(|| Scanner::new().scan(xml, &vocabulary, &limits, ScanOptions::ALL, &mut document))
        .map_err(|error| errors::message(py, &error))?;
    let evaluator = Evaluator::new(Message { source: xml, document: &document }, &vocabulary, &[]);
    let value = |node| evaluator.string_value(node).map_err(|error| errors::undecided(py, "", &error.to_string()));
    let nodes = PyList::empty(py);
    let mut declarations = document.declarations.iter().enumerate().peekable();
    for (index, node) in document.nodes.iter().enumerate().skip(1) {
        let index = index as u32;
        let this = NodeRef::Node(index);
        let kind = match node.kind {
            NodeKind::Document | NodeKind::Element => "element",
            NodeKind::Text => "text",
            NodeKind::Comment => "comment",
            NodeKind::ProcessingInstruction => "processing-instruction",
        };
        let mut attributes = Vec::new();
        let mut namespaces = Vec::new();
        if node.kind == NodeKind::Element {
            for attribute in document.attribute_ids(index) {
                let start = document.attributes[attribute.index()].qname.start;
                let attribute = NodeRef::Attribute(attribute);
                let name = (evaluator.namespace_uri(attribute), evaluator.local_name(attribute));
                attributes.push((start, name.0, name.1, value(attribute)?));
            }
            while let Some((number, _)) = declarations.next_if(|(_, declared)| declared.owner == index) {
                let declared = NodeRef::Namespace { owner: index, declaration: number as u32 };
                namespaces.push((evaluator.local_name(declared), value(declared)?));
            }
        }
        let text = if node.kind == NodeKind::Element { None } else { Some(value(this)?) };
        let name = (evaluator.namespace_uri(this), evaluator.local_name(this));
        nodes.append((kind, node.span.start, node.end - 1, name, text, attributes, namespaces))?;
    }
    Ok(nodes)
}

fn close(py: Python<'_>, events: &Bound<'_, PyList>, open: &mut Vec<u32>, ended: impl Fn(u32) -> bool) -> PyResult<()> {
    while open.last().is_some_and(|&end| ended(end)) {
        open.pop();
        events.append(PyTuple::new(py, ["end"])?)?;
    }
    Ok(())
}
