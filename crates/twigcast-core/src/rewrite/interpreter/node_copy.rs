//! Results as markup, and copies of the message's nodes with the namespaces that they need.
//!
//! The bytes of an element are copied unchanged. If a prefix that they use is declared outside of them, the declaration
//! is added to the start tag of the copy, unless the constructors around bind the prefix to the same namespace. A
//! prefix counts as used if it stands before a colon anywhere in the element, so that qualified names in values and
//! text (`xsi:type="p:t"`) keep their meaning. An element without a prefix keeps its default namespace, which may be
//! none: `xmlns=""`.

use std::borrow::Cow;
use std::collections::HashSet;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::document::{Message, NodeId, NodeKind};
use crate::eval::{Evaluator, NodeRef};
use crate::ids::AttributeId;
use crate::limits::Limits;

use super::super::ExtractError;
use super::super::output::{Output, Payloads};

/// The namespace declarations in scope at an element: indices in [`crate::document::Document::declarations`].
#[derive(Debug, Default)]
struct InheritedNamespaces<'a> {
    by_prefix: FxHashMap<&'a [u8], u32>,
    default: Option<u32>,
}

/// The namespaces in scope, by the nearest element that declares any. Filled on demand.
#[derive(Default)]
struct NamespaceScopes<'a> {
    inherited_by_node: FxHashMap<NodeId, Rc<InheritedNamespaces<'a>>>,
}

impl<'a> NamespaceScopes<'a> {
    /// Returns the declarations in scope at an element, its own included.
    fn at(&mut self, message: Message<'a>, element: NodeId) -> Rc<InheritedNamespaces<'a>> {
        let document = message.document;
        let mut declaring = element;
        while declaring != 0 && declarations_on(message, declaring).is_empty() {
            declaring = document.nodes[declaring as usize].parent;
        }
        if let Some(bound) = self.inherited_by_node.get(&declaring) {
            return Rc::clone(bound);
        }
        let mut inherited = InheritedNamespaces::default();
        let mut ancestor = declaring;
        while ancestor != 0 {
            for index in declarations_on(message, ancestor) {
                let prefix = document.declarations[index].prefix.of(message.source);
                let index = index as u32;
                // The declaration of an inner element hides that of an outer one.
                if prefix.is_empty() {
                    inherited.default.get_or_insert(index);
                } else {
                    inherited.by_prefix.entry(prefix).or_insert(index);
                }
            }
            ancestor = document.nodes[ancestor as usize].parent;
        }
        let inherited = Rc::new(inherited);
        self.inherited_by_node.insert(declaring, Rc::clone(&inherited));
        inherited
    }
}

/// Returns the indexes of the declarations on one element.
fn declarations_on(message: Message<'_>, element: NodeId) -> std::ops::Range<usize> {
    let declarations = &message.document.declarations;
    let start = declarations.partition_point(|declaration| declaration.owner < element);
    let length = declarations[start..].iter().take_while(|declaration| declaration.owner == element).count();
    start..start + length
}

/// A start tag that is written except for its end, so that attributes can still be added.
struct OpenTag<'a> {
    /// Expanded names of the attributes that the query itself writes: namespace URI and local name.
    attributes: &'a [(Box<str>, Box<str>)],
    /// Expanded names of the attributes added so far. A message may have many, with names chosen to collide in a
    /// predictable hash; so this set keeps the randomly seeded one.
    added: HashSet<(Cow<'a, str>, Cow<'a, str>)>,
}

/// The markup of one result under construction: its bytes, the open start tag and the namespaces in scope.
pub(in crate::rewrite) struct MarkupWriter<'a> {
    message: Message<'a>,
    pub(in crate::rewrite) output: Output<'a>,
    open: Option<OpenTag<'a>>,
    /// Prefixes and URIs that the constructors around declare, innermost last.
    scope: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    scopes: NamespaceScopes<'a>,
    /// Number of open constructors.
    depth: usize,
    /// The previous item was a value, so that the next value needs a space before it.
    is_after_value: bool,
}

impl<'a> MarkupWriter<'a> {
    /// Creates a writer that adds results to the payloads, within the limits of one result and of all of them.
    pub fn new(message: Message<'a>, payloads: &'a mut Payloads, limits: &Limits) -> Self {
        Self {
            message,
            output: Output::new(payloads, limits.result_bytes_max, limits.message_result_bytes_max),
            open: None,
            scope: Vec::new(),
            scopes: NamespaceScopes::default(),
            depth: 0,
            is_after_value: false,
        }
    }

    /// Begins a result; drops an unfinished one.
    pub fn begin(&mut self) {
        self.output.begin();
        self.open = None;
        self.scope.clear();
        self.depth = 0;
        self.is_after_value = false;
    }

    /// Returns `true` if no constructor around declares a namespace.
    pub fn has_no_declarations(&self) -> bool {
        self.scope.is_empty()
    }

    fn end_tag(&mut self) -> Result<(), ExtractError> {
        if self.open.take().is_some() { self.output.push(b">") } else { Ok(()) }
    }

    /// Ends the open start tag, if there is one, before content that is not a value.
    pub fn begin_content(&mut self) -> Result<(), ExtractError> {
        self.is_after_value = false;
        self.end_tag()
    }

    /// Begins the items of another enclosed expression: no space separates them from those before.
    pub fn begin_items(&mut self) {
        self.is_after_value = false;
    }

    /// Opens an element whose start tag is written except for its `>`. Returns what [`Self::close_content`] needs.
    pub fn open_content(
        &mut self,
        declarations: &'a [(Box<str>, Box<str>)],
        attributes: &'a [(Box<str>, Box<str>)],
    ) -> usize {
        let scope_start = self.scope.len();
        let declared = declarations.iter().map(|(prefix, uri)| (Cow::from(&**prefix), Cow::from(&**uri)));
        self.scope.extend(declared);
        self.open = Some(OpenTag { attributes, added: HashSet::new() });
        self.depth += 1;
        scope_start
    }

    /// Closes the element that [`Self::open_content`] opened; `close` is its end tag.
    pub fn close_content(&mut self, close: &[u8], scope_start: usize) -> Result<(), ExtractError> {
        self.is_after_value = false;
        self.depth -= 1;
        self.scope.truncate(scope_start);
        if self.open.take().is_some() { self.output.push(b"/>") } else { self.output.push(close) }
    }

    /// Writes a value as text, with a space between it and a value before it.
    pub fn push_value(&mut self, text: &str) -> Result<(), ExtractError> {
        let is_spaced = std::mem::replace(&mut self.is_after_value, true);
        if text.is_empty() && !is_spaced {
            // No text is no content: attributes may still follow.
            return Ok(());
        }
        self.end_tag()?;
        if is_spaced {
            self.output.push(b" ")?;
        }
        self.output.push_text(text)
    }

    /// Writes a text of its own: no space separates it from values around.
    pub fn push_text_node(&mut self, text: &str) -> Result<(), ExtractError> {
        self.is_after_value = false;
        if text.is_empty() {
            return Ok(());
        }
        self.end_tag()?;
        self.output.push_text(text)
    }

    /// Copies a node of the message to the result.
    pub fn copy(&mut self, evaluator: &Evaluator<'a>, node: NodeRef) -> Result<(), ExtractError> {
        if let NodeRef::Value(_) = node {
            return self.push_value(&evaluator.string_value(node)?);
        }
        self.is_after_value = false;
        let id = match node {
            NodeRef::Node(id) => id,
            NodeRef::Attribute(attribute) => return self.copy_attribute(evaluator, attribute),
            NodeRef::Namespace { .. } | NodeRef::Value(_) => {
                return Err(ExtractError::LoneNode { name: evaluator.qualified_name(node).to_owned() });
            }
        };
        let document = self.message.document;
        let node = &document.nodes[id as usize];
        if node.kind == NodeKind::Document {
            return document.children(id).try_for_each(|child| self.copy(evaluator, NodeRef::Node(child)));
        }
        self.end_tag()?;
        let bytes = node.span.of(self.message.source);
        match node.kind {
            NodeKind::Element => self.copy_element(id, bytes),
            NodeKind::Text => self.output.push_raw_text(bytes),
            NodeKind::Document | NodeKind::Comment | NodeKind::ProcessingInstruction => self.output.push(bytes),
        }
    }

    fn copy_element(&mut self, id: NodeId, bytes: &'a [u8]) -> Result<(), ExtractError> {
        if self.message.document.declarations.is_empty() && self.scope.is_empty() {
            return self.output.push(bytes);
        }
        let needed = self.needed_declarations(id, bytes);
        if needed.is_empty() {
            return self.output.push(bytes);
        }
        let name_end = 1 + self.message.qname(id).len();
        self.output.push(&bytes[..name_end])?;
        for declaration in needed {
            match declaration {
                NeededDeclaration::NoDefault => self.output.push(b" xmlns=\"\"")?,
                NeededDeclaration::Declared(index) => {
                    let declaration = &self.message.document.declarations[index as usize];
                    let prefix = declaration.prefix.of(self.message.source);
                    self.output.push(if prefix.is_empty() { b" xmlns" } else { b" xmlns:" })?;
                    self.output.push(prefix)?;
                    let uri = declaration.uri.of(self.message.source);
                    let quote: &[u8] = if uri.contains(&b'"') { b"'" } else { b"\"" };
                    for part in [b"=", quote, uri, quote] {
                        self.output.push(part)?;
                    }
                }
            }
        }
        self.output.push(&bytes[name_end..])
    }

    /// Returns the declarations that an element needs from outside itself and that the copy's position does not have.
    fn needed_declarations(&mut self, id: NodeId, bytes: &'a [u8]) -> Vec<NeededDeclaration> {
        let message = self.message;
        let document = message.document;
        let inherited = self.scopes.at(message, document.nodes[id as usize].parent);
        let own: Vec<&[u8]> =
            declarations_on(message, id).map(|index| document.declarations[index].prefix.of(message.source)).collect();
        let mut needed = Vec::new();
        if !own.contains(&&b""[..]) && self.has_unprefixed_element(id) {
            let source = inherited.default.map_or(Cow::Borrowed(""), |index| self.uri(index));
            if self.bound_to("").unwrap_or("") != source {
                needed.push(match inherited.default {
                    Some(index) if !source.is_empty() => NeededDeclaration::Declared(index),
                    _ => NeededDeclaration::NoDefault,
                });
            }
        }
        if inherited.by_prefix.is_empty() {
            return needed;
        }
        let mut decided: Vec<&[u8]> = own;
        let default = needed.len();
        for colon in memchr::memchr_iter(b':', bytes) {
            let prefix = name_before(bytes, colon);
            let Some(&index) = inherited.by_prefix.get(prefix) else { continue };
            if decided.contains(&prefix) {
                continue;
            }
            decided.push(prefix);
            let bound = std::str::from_utf8(prefix).ok().and_then(|prefix| self.bound_to(prefix));
            if bound != Some(&*self.uri(index)) {
                needed.push(NeededDeclaration::Declared(index));
            }
        }
        needed[default..].sort_unstable();
        needed
    }

    /// Returns `true` if the subtree has an element without a prefix.
    fn has_unprefixed_element(&self, id: NodeId) -> bool {
        let nodes = &self.message.document.nodes;
        (id..nodes[id as usize].end)
            .any(|node| nodes[node as usize].kind == NodeKind::Element && !self.message.qname(node).contains(':'))
    }

    /// Returns the URI that a declaration of the message binds.
    fn uri(&self, declaration: u32) -> Cow<'a, str> {
        let raw = self.message.document.declarations[declaration as usize].uri.of(self.message.source);
        let raw = std::str::from_utf8(raw).unwrap_or_default();
        if raw.contains(['&', '\t', '\r', '\n']) {
            Cow::Owned(crate::scan::decode::attribute(raw))
        } else {
            Cow::Borrowed(raw)
        }
    }

    /// Returns the URI that the constructors around bind a prefix to.
    fn bound_to(&self, prefix: &str) -> Option<&str> {
        self.scope.iter().rev().find(|(bound, _)| bound == prefix).map(|(_, uri)| &**uri)
    }

    /// Returns the start tag that is open, to add an attribute to it.
    fn take_open(&mut self, qname: &str, uri: &Cow<'a, str>, local: Cow<'a, str>) -> Result<OpenTag<'a>, ExtractError> {
        let Some(mut tag) = self.open.take() else {
            let name = qname.to_owned();
            return Err(match self.depth {
                0 => ExtractError::LoneNode { name },
                _ => ExtractError::AttributeAfterContent { name },
            });
        };
        if tag.constructs(uri, &local) || !tag.added.insert((uri.clone(), local)) {
            return Err(ExtractError::DuplicateAttribute { name: qname.to_owned() });
        }
        Ok(tag)
    }

    /// Adds an attribute that the query constructs to the start tag that is open.
    pub fn construct_attribute(
        &mut self,
        qname: Cow<'a, str>,
        namespace: &'a str,
        value: &str,
    ) -> Result<(), ExtractError> {
        self.is_after_value = false;
        let (prefix, local): (Cow<'a, str>, Cow<'a, str>) = match qname {
            Cow::Borrowed(name) => match name.split_once(':') {
                Some((prefix, local)) => (prefix.into(), local.into()),
                None => ("".into(), name.into()),
            },
            // A name that is computed has no prefix.
            Cow::Owned(name) => ("".into(), name.into()),
        };
        let uri = Cow::Borrowed(namespace);
        let tag = self.take_open(&local, &uri, local.clone())?;
        let written = match prefix {
            Cow::Borrowed(prefix) if !prefix.is_empty() && prefix != "xml" => self.prefix_for(prefix, uri)?,
            other => other,
        };
        self.open = Some(tag);
        let colon: &[u8] = if written.is_empty() { b"" } else { b":" };
        for part in [b" ", written.as_bytes(), colon, local.as_bytes(), b"=\""] {
            self.output.push(part)?;
        }
        self.output.push_attribute_text(value)?;
        self.output.push(b"\"")
    }

    /// Adds an attribute to the start tag that is open.
    fn copy_attribute(&mut self, evaluator: &Evaluator<'a>, id: AttributeId) -> Result<(), ExtractError> {
        let node = NodeRef::Attribute(id);
        let qname = evaluator.qualified_name(node);
        let (prefix, local) = qname.split_once(':').unwrap_or(("", qname));
        let uri = evaluator.namespace_uri(node);
        let tag = self.take_open(qname, &uri, Cow::Borrowed(local))?;
        let written =
            if prefix.is_empty() || prefix == "xml" { Cow::Borrowed(prefix) } else { self.prefix_for(prefix, uri)? };
        self.open = Some(tag);
        let attribute = &self.message.document.attributes[id.index()];
        let source = self.message.source;
        let quote = &source[attribute.value.end as usize..=attribute.value.end as usize];
        let colon: &[u8] = if written.is_empty() { b"" } else { b":" };
        let value = attribute.value.of(source);
        for part in [b" ", written.as_bytes(), colon, local.as_bytes(), b"=", quote, value, quote] {
            self.output.push(part)?;
        }
        Ok(())
    }

    /// Returns a prefix that is bound to a namespace in the open tag. Declares one if there is none.
    fn prefix_for(&mut self, preferred: &'a str, uri: Cow<'a, str>) -> Result<Cow<'a, str>, ExtractError> {
        if self.bound_to(preferred) == Some(&*uri) {
            return Ok(Cow::Borrowed(preferred));
        }
        let existing = self
            .scope
            .iter()
            .rev()
            .find(|(prefix, bound)| !prefix.is_empty() && *bound == uri && self.bound_to(prefix) == Some(&*uri));
        if let Some((prefix, _)) = existing {
            return Ok(prefix.clone());
        }
        let mut prefix = Cow::Borrowed(preferred);
        let mut number = 0;
        // A prefix that a constructor around binds must not be bound again: the content relies on it.
        while self.bound_to(&prefix).is_some() {
            prefix = Cow::Owned(format!("ns{number}"));
            number += 1;
        }
        self.output.push(b" xmlns:")?;
        self.output.push(prefix.as_bytes())?;
        self.output.push(b"=\"")?;
        self.output.push_attribute_text(&uri)?;
        self.output.push(b"\"")?;
        self.scope.push((prefix.clone(), uri));
        Ok(prefix)
    }
}

impl OpenTag<'_> {
    /// Returns `true` if the query itself writes the attribute.
    fn constructs(&self, uri: &str, local: &str) -> bool {
        self.attributes.iter().any(|(other_uri, bound)| **other_uri == *uri && **bound == *local)
    }
}

/// A declaration to add to a copy, ordered: the default namespace first, then in document order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NeededDeclaration {
    /// `xmlns=""`.
    NoDefault,
    /// A declaration of the message.
    Declared(u32),
}

/// Returns the name that ends right before an offset.
fn name_before(bytes: &[u8], end: usize) -> &[u8] {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.') || *byte >= 0x80;
    let length = bytes[..end].iter().rev().take_while(|byte| is_name(byte)).count();
    &bytes[end - length..end]
}
