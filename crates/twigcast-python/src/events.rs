//! The scanner's view of a message, for tests against other parsers.

use std::collections::BTreeMap;

use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use twigcast_core::document::{Document, Message, NodeKind};
use twigcast_core::eval::{Evaluator, NodeRef};
use twigcast_core::scan::{RecordOptions, Scanner};
use twigcast_core::vocabulary::Vocabulary;

use crate::{errors, limits};

/// Returns the events of a message: `("start", uri, local, ((uri, local, value), ...))`, `("text", value)`, `("comment", value)`,
/// `("pi", target, value)`, `("end",)`.
#[pyfunction]
#[pyo3(signature = (xml, limits=BTreeMap::new()))]
pub fn scan_events<'py>(py: Python<'py>, xml: &[u8], limits: BTreeMap<String, usize>) -> PyResult<Bound<'py, PyList>> {
    let limits = limits::limits(&limits)?;
    let vocabulary = Vocabulary::new();
    let mut document = Document::default();
    Scanner::new()
        .scan(xml, &vocabulary, &limits, RecordOptions::ALL, &mut document)
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
                for number in node.attributes_start..node.attributes_end {
                    let attribute = NodeRef::Attribute(number);
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

fn close(py: Python<'_>, events: &Bound<'_, PyList>, open: &mut Vec<u32>, ended: impl Fn(u32) -> bool) -> PyResult<()> {
    while open.last().is_some_and(|&end| ended(end)) {
        open.pop();
        events.append(PyTuple::new(py, ["end"])?)?;
    }
    Ok(())
}
