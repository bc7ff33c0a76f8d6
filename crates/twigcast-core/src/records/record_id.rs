//! Finds the id that a record gives itself.

use super::names::{local_part, split};
use crate::document::{Attribute, Document, Message, Node, NodeId, NodeKind};
use crate::limits::Limits;
use crate::scan::{ScanOptions, Scanner};
use crate::vocabulary::{Name, Vocabulary};

/// The path from a record to its id: `guid`, `header/id`, `@id`, `{urn:x}guid` or `meta/@ref`. Names without prefix have
/// any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdPath {
    elements: Vec<IdStep>,
    attribute: Option<IdStep>,
}

/// The name of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
struct IdStep {
    namespace: Option<Box<str>>,
    name: Box<[u8]>,
}

impl IdStep {
    fn parse(text: &str) -> Option<Self> {
        let (namespace, name) = match text.strip_prefix('{') {
            Some(rest) => rest.split_once('}').map(|(namespace, name)| (Some(namespace.into()), name))?,
            None => (None, text),
        };
        let is_name = |c: char| !c.is_whitespace() && !"{}<>&\"'=[]()@*|!?,;#.".contains(c);
        let is_right = !name.is_empty() && name.chars().all(is_name);
        is_right.then(|| Self { namespace, name: name.as_bytes().into() })
    }

    /// Returns whether a written name, which has a namespace, is the one that was asked for: with any prefix if that has
    /// none.
    fn is_meant(&self, written: &[u8], namespace: impl Fn() -> String) -> bool {
        match &self.namespace {
            Some(wanted) => local_part(written) == &*self.name && *namespace() == **wanted,
            None => written == &*self.name || (!self.name.contains(&b':') && local_part(written) == &*self.name),
        }
    }
}

impl IdPath {
    /// Reads a path.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut elements = Vec::new();
        let mut attribute = None;
        for part in split(text, '/') {
            let step = IdStep::parse(part.strip_prefix('@').unwrap_or(part)).filter(|_| attribute.is_none());
            let Some(step) = step else {
                return Err(format!(
                    "{text:?} is no path to an id: write the names of child elements with / between, such as guid, \
                     header/id or {{namespace}}guid, and @name for an attribute at its end"
                ));
            };
            match part.starts_with('@') {
                true => attribute = Some(step),
                false => elements.push(step),
            }
        }
        Ok(Self { elements, attribute })
    }

    /// Returns the id of a record, without white space around it; none if it has none or is not well-formed.
    pub fn find(&self, record: &[u8], limits: &Limits) -> Option<String> {
        let (mut document, mut vocabulary) = (Document::default(), Vocabulary::new());
        // The scanner tells apart only what is known.
        for step in self.elements.iter().chain(&self.attribute) {
            if let Some(uri) = &step.namespace {
                vocabulary.intern_namespace(uri);
                vocabulary.intern_local(&String::from_utf8_lossy(&step.name));
            }
        }
        Scanner::new().scan(record, &vocabulary, limits, ScanOptions::ALL, &mut document).ok()?;
        let message = Message { source: record, document: &document };
        let root = document.children(0).find(|&node| document.nodes[node as usize].kind == NodeKind::Element)?;
        let element =
            self.elements.iter().try_fold(root, |element, step| child(message, &vocabulary, element, step))?;
        let value = match &self.attribute {
            None => message.string_value(element),
            Some(step) => {
                let mut attributes = document.attributes_of(element).iter();
                let namespace = |name: Name| vocabulary.namespace_uri(name.namespace).to_owned();
                let is_it =
                    |attribute: &&Attribute| step.is_meant(attribute.qname.of(record), || namespace(attribute.name));
                message.attribute_value(attributes.find(is_it)?)
            }
        };
        Some(value.trim().to_owned()).filter(|id| !id.is_empty())
    }
}

fn child(message: Message<'_>, vocabulary: &Vocabulary, element: NodeId, step: &IdStep) -> Option<NodeId> {
    let is_it = |&node: &NodeId| {
        let Node { kind, name, .. } = message.document.nodes[node as usize];
        let namespace = || vocabulary.namespace_uri(name.namespace).to_owned();
        kind == NodeKind::Element && step.is_meant(message.qname(node).as_bytes(), namespace)
    };
    message.document.children(element).find(is_it)
}
