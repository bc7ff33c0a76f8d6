//! Any bytes: the scanner accepts or rejects them whatever is to be recorded, and what it accepts is a sound tree.
#![no_main]

use libfuzzer_sys::fuzz_target;
use twigcast_core::document::{Document, Message, NO_NODE, NodeKind};
use twigcast_core::limits::Limits;
use twigcast_core::scan::{ScanOptions, Scanner};
use twigcast_core::vocabulary::Vocabulary;

fuzz_target!(|source: &[u8]| {
    let (mut scanner, vocabulary, limits) = (Scanner::new(), Vocabulary::new(), Limits::default());
    let mut document = Document::default();
    let mut verdicts = Vec::new();
    for (attributes, text) in [(false, false), (true, false), (false, true), (true, true)] {
        verdicts.push(scanner.scan(source, &vocabulary, &limits, ScanOptions { attributes, text }, &mut document));
    }
    assert!(verdicts.iter().all(|verdict| *verdict == verdicts[3]), "what is recorded changes the answer");
    match &verdicts[3] {
        Ok(()) => check(Message { source, document: &document }),
        Err(error) => assert!(error.line >= 1 && error.column >= 1 && !error.reason.is_empty()),
    }
});

/// Children lie inside their parents, one after the other, in spans as in numbers; everything can be decoded.
fn check(message: Message<'_>) {
    let Document { nodes, attributes, .. } = message.document;
    assert_eq!((nodes[0].parent, nodes[0].end as usize), (NO_NODE, nodes.len()));
    let mut attribute = 0;
    for (id, node) in nodes.iter().enumerate().skip(1) {
        let (id, parent) = (id as u32, &nodes[node.parent as usize]);
        assert!(node.parent < id && id < node.end && node.end <= parent.end);
        assert!(node.span.start < node.span.end && node.span.end <= parent.span.end);
        assert!(node.parent == 0 || node.span.start >= parent.content_start);
        let next = message.document.next_sibling(id);
        assert!(next == NO_NODE || nodes[next as usize].span.start >= node.span.end);
        assert_eq!(node.attributes_start, attribute);
        attribute = node.attributes_end;
        match node.kind {
            NodeKind::Element => assert!(!message.qname(id).is_empty()),
            NodeKind::Text => assert!(!message.text(id).is_empty()),
            NodeKind::Document => unreachable!("there is one document node"),
            NodeKind::Comment | NodeKind::ProcessingInstruction => {}
        }
    }
    assert_eq!(attribute as usize, attributes.len());
    for attribute in attributes {
        message.attribute_value(attribute);
    }
}
