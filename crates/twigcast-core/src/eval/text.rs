//! String-values and names of nodes (Recommendation, section 5).
//!
//! The vocabulary knows only what queries mention, so names come from the message as written.

use std::borrow::Cow;
use std::ops::Deref;
use std::rc::Rc;

use crate::document::{Attribute, ByteRange, NamespaceDeclaration, NodeId, NodeKind};
use crate::ids::AttributeId;
use crate::query::ast::{Expr, Function};
use crate::vocabulary::{NamespaceId, XML_NAMESPACE};

use super::evaluator::{EXPENSIVE_MIN, Evaluator};
use super::node::NodeRef;
use super::node::XML_DECLARATION;
use super::texts::{MessageText, TextRange};
use super::value::{BarePath, Context, EvalError, Value, bare};
use crate::util::number;

/// Bytes of text whose handling counts as one visit.
pub(super) const BYTES_PER_VISIT: usize = 64;
/// The same where each character is looked at by itself, as `translate()` does.
const CHARACTERS_PER_VISIT: usize = 2;
/// Visits that reading a number counts as.
const NUMBER_VISITS: u64 = 4;

/// So few declarations of namespaces are gone through rather than the ancestors of an element.
const DECLARATIONS_FEW: usize = 16;

/// Elements with so few descendants are read from the message itself, unless they are as long as this.
const DESCENDANTS_FEW: u32 = 4;
const TEXT_LONG: u32 = 1 << 12;

/// The characters of a text: its own, those of the message, or those that the evaluator keeps for many nodes.
pub(super) enum TextSource<'e> {
    Single(Cow<'e, str>),
    Common(Rc<str>),
}

impl Deref for TextSource<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Single(text) => text,
            Self::Common(text) => text,
        }
    }
}

/// A text that is only looked at.
pub(super) struct BorrowedText<'e> {
    /// The characters.
    pub(super) text: TextSource<'e>,
    /// The range in the text of the whole message, if it was read from there.
    pub(super) range: Option<TextRange>,
}

impl<'e> From<Cow<'e, str>> for BorrowedText<'e> {
    fn from(text: Cow<'e, str>) -> Self {
        Self { text: TextSource::Single(text), range: None }
    }
}

/// A computed text may be so much longer than the message before its bytes count more.
const LONG_TEXT_MIN: usize = 1 << 20;

/// Returns the visits that handling a text counts as.
pub(crate) fn visits_of(text: &str) -> u64 {
    (text.len() / BYTES_PER_VISIT) as u64
}

impl<'a> Evaluator<'a> {
    /// Returns the text that a span of the message covers.
    fn slice(&self, span: ByteRange) -> &'a str {
        // The scanner accepts only UTF-8, and spans end at markup.
        std::str::from_utf8(span.of(self.message.source)).unwrap_or_default()
    }

    /// Counts the handling of a text.
    #[inline]
    pub(super) fn charge_text(&self, bytes: usize) -> Result<(), EvalError> {
        self.charge((bytes / BYTES_PER_VISIT) as u64)
    }

    /// Counts the handling of a text of which so many bytes take as long as one visit.
    #[inline]
    pub(super) fn charge_bytes(&self, bytes: usize, per_visit: usize) -> Result<(), EvalError> {
        self.charge((bytes / per_visit) as u64)
    }

    /// Counts bytes that a text of a computed length grows by. Memory that is new takes longer than that of the message: a
    /// text that has grown beyond it, as texts made of texts made of texts do, counts byte by byte.
    pub(super) fn charge_new_text(&self, length: usize, added: usize) -> Result<(), EvalError> {
        let usual = self.message.source.len() + LONG_TEXT_MIN;
        let beyond = (length + added).saturating_sub(usual.max(length));
        self.charge((added / BYTES_PER_VISIT) as u64 + beyond as u64)
    }

    /// Counts the handling of a text, character by character.
    #[inline]
    pub(super) fn charge_characters(&self, bytes: usize) -> Result<(), EvalError> {
        self.charge((bytes / CHARACTERS_PER_VISIT) as u64)
    }

    /// Returns the string-value of a node.
    pub fn string_value(&self, node: NodeRef) -> Result<Cow<'a, str>, EvalError> {
        let value = match node {
            NodeRef::Node(id) => {
                let node = &self.message.document.nodes[id as usize];
                match node.kind {
                    NodeKind::Document | NodeKind::Element => match self.in_texts(id)? {
                        Some((texts, range)) => Cow::Owned(texts.slice(range).to_owned()),
                        None => {
                            self.charge(u64::from(node.end - id))?;
                            self.message.string_value(id)
                        }
                    },
                    NodeKind::Text => self.message.text(id),
                    NodeKind::Comment => {
                        let markup = self.slice(node.span);
                        unix_lines(markup.strip_prefix("<!--").and_then(|m| m.strip_suffix("-->")).unwrap_or(markup))
                    }
                    NodeKind::ProcessingInstruction => unix_lines(self.instruction(id).1),
                }
            }
            NodeRef::Attribute(attribute) => self.message.attribute_value(self.attribute(attribute)),
            NodeRef::Namespace { declaration, .. } => self.declared_uri(declaration),
            NodeRef::Value(index) => Cow::Owned(self.text_of_kept(index)),
        };
        self.charge_text(value.len())?;
        Ok(value)
    }

    /// Returns the text of the message in one piece, once the query at work has looked at as many nodes as there are.
    pub(super) fn texts(&self) -> Result<Option<&MessageText>, EvalError> {
        if let Some(texts) = self.texts.get() {
            return Ok(texts.as_ref());
        }
        let nodes = self.message.document.nodes.len() as u64;
        if self.visits.get() < nodes.max(EXPENSIVE_MIN) {
            return Ok(None);
        }
        self.charge(nodes)?;
        self.charge_text(self.message.source.len())?;
        Ok(self.texts_now())
    }

    /// Returns the text of the message in one piece, made at the first call.
    pub(super) fn texts_now(&self) -> Option<&MessageText> {
        let make = || {
            let fits = self.cache.borrow_mut().admit_bytes(MessageText::bytes_at_most(self.message));
            fits.then(|| MessageText::new(self.message))
        };
        self.texts.get_or_init(make).as_ref()
    }

    /// Returns where the string-value of an element or the document node is in the text of the message. Nothing if it
    /// is read as fast from the message itself.
    fn in_texts(&self, id: NodeId) -> Result<Option<(&MessageText, TextRange)>, EvalError> {
        let node = &self.message.document.nodes[id as usize];
        let is_long = node.span.end - node.span.start >= TEXT_LONG;
        if node.end - id <= DESCENDANTS_FEW && !(is_long && self.texts.get().is_some()) {
            return Ok(None);
        }
        let Some(texts) = self.texts()? else { return Ok(None) };
        self.charge(1)?;
        Ok(Some((texts, texts.range(self.message.document, id))))
    }

    /// Returns the string-value of a node without copying it. The caller counts the visits of reading it.
    pub(super) fn reading(&self, node: NodeRef) -> Result<BorrowedText<'_>, EvalError> {
        if let NodeRef::Node(id) = node
            && matches!(self.message.document.nodes[id as usize].kind, NodeKind::Document | NodeKind::Element)
            && let Some((texts, range)) = self.in_texts(id)?
        {
            return Ok(BorrowedText {
                text: TextSource::Single(Cow::Borrowed(texts.slice(range.clone()))),
                range: Some(range),
            });
        }
        Ok(self.string_value(node)?.into())
    }

    /// Returns the string-value of a node, all of which is looked at: to hash a long text takes its time.
    pub(super) fn whole_reading(&self, node: NodeRef) -> Result<TextSource<'_>, EvalError> {
        let BorrowedText { text, range } = self.reading(node)?;
        self.charge_text(range.map_or(0, |range| range.len()))?;
        Ok(text)
    }

    /// Returns the string-value of a node, unless it is longer than so many bytes.
    pub(super) fn short_reading(&self, node: NodeRef, longest: usize) -> Result<Option<TextSource<'_>>, EvalError> {
        let BorrowedText { text, range } = self.reading(node)?;
        if text.len() > longest {
            return Ok(None);
        }
        self.charge_text(range.map_or(0, |range| range.len()))?;
        Ok(Some(text))
    }

    /// Returns `string()` of an expression, to be looked at only.
    pub(super) fn text(&self, expr: &'a Expr, context: Context) -> Result<BorrowedText<'_>, EvalError> {
        let first = match expr {
            Expr::Call { function: Function::String, arguments } => match arguments.first() {
                Some(argument) => return self.text(argument, context),
                None => Some(context.node),
            },
            Expr::Path(path) => match bare(path) {
                None => self.path_first(path, context)?,
                Some(BarePath::Expression(primary)) => return self.text(primary, context),
                Some(BarePath::Variable(variable)) => match &self.variables[variable] {
                    Value::Nodes(nodes) => nodes.first().copied(),
                    _ => return Ok(self.string(expr, context)?.into()),
                },
            },
            _ => {
                return Ok(match self.common_text(expr, context)? {
                    Some(text) => BorrowedText { text: TextSource::Common(text), range: None },
                    None => self.string(expr, context)?.into(),
                });
            }
        };
        first.map_or(Ok(Cow::Borrowed("").into()), |node| self.reading(node))
    }

    /// Returns `number()` of a node's string-value.
    pub(super) fn number_value(&self, node: NodeRef) -> Result<f64, EvalError> {
        if let NodeRef::Value(index) = node
            && let Some(number) = self.number_of_kept(index)
        {
            self.charge(1)?;
            return Ok(number);
        }
        let BorrowedText { text, range } = self.reading(node)?;
        self.charge(NUMBER_VISITS)?;
        if range.is_none() {
            return Ok(number::parse(&text));
        }
        // Most texts are no numbers, which their beginnings tell.
        let start = text.trim_start_matches(number::SPACES);
        self.charge_text(text.len() - start.len())?;
        if !start.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '-' | '.')) {
            return Ok(f64::NAN);
        }
        self.charge_text(start.len())?;
        Ok(number::parse(start))
    }

    /// Does a node have this string-value? Compares piece by piece, so that a large subtree is left at the first
    /// difference.
    pub(super) fn has_value(&self, node: NodeRef, expected: &str) -> Result<bool, EvalError> {
        let NodeRef::Node(id) = node else {
            return Ok(self.string_value(node)? == expected);
        };
        let nodes = &self.message.document.nodes;
        if !matches!(nodes[id as usize].kind, NodeKind::Element | NodeKind::Document) {
            return Ok(self.string_value(node)? == expected);
        }
        if let Some((texts, range)) = self.in_texts(id)? {
            self.charge_text(expected.len().min(range.len()))?;
            return Ok(texts.slice(range) == expected);
        }
        let mut rest = expected.as_bytes();
        let mut visited = 0;
        let mut equal = true;
        for descendant in id + 1..nodes[id as usize].end {
            visited += 1;
            let this = &nodes[descendant as usize];
            if this.kind != NodeKind::Text {
                continue;
            }
            let remaining = if this.encoded {
                rest.strip_prefix(self.message.text(descendant).as_bytes())
            } else {
                rest.strip_prefix(this.span.of(self.message.source))
            };
            match remaining {
                Some(remaining) => rest = remaining,
                None => {
                    equal = false;
                    break;
                }
            }
        }
        self.charge(visited)?;
        self.charge_text(expected.len() - rest.len())?;
        Ok(equal && rest.is_empty())
    }

    pub(super) fn attribute(&self, attribute: AttributeId) -> &'a Attribute {
        &self.message.document.attributes[attribute.index()]
    }

    /// Returns the target and the content of a processing instruction.
    pub(super) fn instruction(&self, node: NodeId) -> (&'a str, &'a str) {
        let markup = self.slice(self.message.document.nodes[node as usize].span);
        let inside = markup.strip_prefix("<?").and_then(|m| m.strip_suffix("?>")).unwrap_or(markup);
        let (target, content) = inside.split_once(number::SPACES).unwrap_or((inside, ""));
        (target, content.trim_start_matches(number::SPACES))
    }

    /// Returns the prefix that a namespace node is called by.
    pub(super) fn declared_prefix(&self, declaration: u32) -> &'a str {
        if declaration == XML_DECLARATION {
            "xml"
        } else {
            self.slice(self.message.document.declarations[declaration as usize].prefix)
        }
    }

    /// Returns the namespace URI that a declaration binds.
    pub(super) fn declared_uri(&self, declaration: u32) -> Cow<'a, str> {
        if declaration == XML_DECLARATION {
            return Cow::Borrowed(XML_NAMESPACE);
        }
        let raw = self.slice(self.message.document.declarations[declaration as usize].uri);
        if raw.contains(['&', '\t', '\r', '\n']) {
            Cow::Owned(crate::scan::decode::attribute(raw))
        } else {
            Cow::Borrowed(raw)
        }
    }

    /// Returns the namespace that a prefix stands for at an element; the empty one is the default's. `None` if it is bound to
    /// nothing there.
    pub(super) fn namespace_in_scope(&self, element: NodeId, prefix: &str) -> Option<Cow<'a, str>> {
        if prefix == "xml" {
            return Some(Cow::Borrowed(XML_NAMESPACE));
        }
        match self.declaration_in_scope(element, prefix) {
            Some(declaration) => Some(self.declared_uri(declaration)),
            None if prefix.is_empty() => Some(Cow::Borrowed("")),
            None => None,
        }
    }

    /// Returns `name()` of a node: the name as written, prefix included; empty for nodes without a name.
    pub fn qualified_name(&self, node: NodeRef) -> &'a str {
        match node {
            NodeRef::Node(id) => match self.message.document.nodes[id as usize].kind {
                NodeKind::Element => self.message.qname(id),
                NodeKind::ProcessingInstruction => self.instruction(id).0,
                NodeKind::Document | NodeKind::Text | NodeKind::Comment => "",
            },
            NodeRef::Attribute(attribute) => self.slice(self.attribute(attribute).qname),
            NodeRef::Namespace { declaration, .. } => self.declared_prefix(declaration),
            NodeRef::Value(_) => "",
        }
    }

    /// Returns `local-name()` of a node.
    pub fn local_name(&self, node: NodeRef) -> &'a str {
        let name = self.qualified_name(node);
        match node {
            // The target of a processing instruction has no colon in a namespace-well-formed message.
            NodeRef::Node(_) | NodeRef::Attribute(_) => name.split_once(':').map_or(name, |(_, local)| local),
            NodeRef::Namespace { .. } | NodeRef::Value(_) => name,
        }
    }

    /// Returns `namespace-uri()` of a node; empty for nodes whose name has none.
    pub fn namespace_uri(&self, node: NodeRef) -> Cow<'a, str> {
        let document = self.message.document;
        let id = match node {
            NodeRef::Node(id) if document.nodes[id as usize].kind == NodeKind::Element => {
                document.nodes[id as usize].name.namespace
            }
            NodeRef::Attribute(attribute) => self.attribute(attribute).name.namespace,
            NodeRef::Node(_) | NodeRef::Namespace { .. } | NodeRef::Value(_) => NamespaceId::NONE,
        };
        if id != NamespaceId::UNKNOWN {
            return Cow::Borrowed(self.vocabulary.namespace_uri(id));
        }
        let prefix = self.qualified_name(node).split_once(':').map_or("", |(prefix, _)| prefix);
        self.declaration_in_scope(node.tree_node(document), prefix)
            .map_or(Cow::Borrowed(""), |declaration| self.declared_uri(declaration))
    }

    /// Returns the indices of the declarations on one element.
    pub(super) fn declarations_on(&self, element: NodeId) -> std::ops::Range<usize> {
        let declarations = &self.message.document.declarations;
        let start = declarations.partition_point(|d| d.owner < element);
        let length = declarations[start..].iter().take_while(|d| d.owner == element).count();
        start..start + length
    }

    /// Returns the declaration that binds a prefix at an element.
    fn declaration_in_scope(&self, element: NodeId, prefix: &str) -> Option<u32> {
        let document = self.message.document;
        if document.declarations.len() <= DECLARATIONS_FEW {
            // The last one that is in scope was made nearest to the element.
            let in_scope = |declaration: &&NamespaceDeclaration| {
                declaration.owner <= element
                    && document.nodes[declaration.owner as usize].end > element
                    && declaration.prefix.of(self.message.source) == prefix.as_bytes()
            };
            return document.declarations.iter().rposition(|declaration| in_scope(&declaration)).map(|at| at as u32);
        }
        let mut ancestor = element;
        while ancestor != 0 {
            for declaration in self.declarations_on(ancestor) {
                if document.declarations[declaration].prefix.of(self.message.source) == prefix.as_bytes() {
                    return Some(declaration as u32);
                }
            }
            ancestor = document.nodes[ancestor as usize].parent;
        }
        None
    }
}

/// Returns a text with line ends as XML passes them on: LF.
fn unix_lines(text: &str) -> Cow<'_, str> {
    if text.contains('\r') { Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n")) } else { Cow::Borrowed(text) }
}
