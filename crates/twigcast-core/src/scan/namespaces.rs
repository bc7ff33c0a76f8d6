//! Which prefix means which namespace, at the place where the scanner stands.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use crate::document::ByteRange;
use crate::scan::decode;
use crate::scan::fault::{Fault, ScanResult, shown};
use crate::vocabulary::{NamespaceId, Vocabulary, XML_NAMESPACE, XMLNS_NAMESPACE};

/// Up to this many bindings a search from the newest on is faster than a table.
const SEARCHED_MAX: usize = 24;
/// "No binding": the prefix was not bound before.
const NO_BINDING: u32 = u32::MAX;

/// The namespace that a prefix is bound to.
#[derive(Clone, Copy, Debug)]
pub struct Namespace {
    /// The id; equal ids other than unknown mean equal URIs.
    pub id: NamespaceId,
    /// Keyed hash of the URI where the id is unknown, so that comparing two of them does not read long URIs.
    fingerprint: u64,
    /// The URI as written.
    uri: ByteRange,
}

impl Namespace {
    const XML: Self = Self { id: NamespaceId::XML, fingerprint: 0, uri: ByteRange { start: 0, end: 0 } };

    /// Returns whether two namespaces have the same URI.
    pub fn same(&self, other: &Self, text: &str) -> bool {
        self.order_key() == other.order_key()
            && (self.id != NamespaceId::UNKNOWN || uri(text, self.uri) == uri(text, other.uri))
    }

    /// Returns a key by which sorting brings equal namespaces together.
    pub fn order_key(&self) -> (NamespaceId, u64) {
        (self.id, self.fingerprint)
    }
}

#[derive(Debug)]
struct PrefixBinding {
    prefix: ByteRange,
    namespace: Namespace,
    /// The binding of the same prefix that this one hides; kept only while there is a table.
    hidden: u32,
}

/// The bindings in scope, innermost last.
#[derive(Debug)]
pub struct PrefixBindings {
    stack: Vec<PrefixBinding>,
    /// Prefix to newest binding, once there are too many to search.
    table: Option<HashMap<Box<[u8]>, u32>>,
    hash: RandomState,
    /// The default namespace.
    pub default: NamespaceId,
}

impl Default for PrefixBindings {
    fn default() -> Self {
        Self { stack: Vec::new(), table: None, hash: RandomState::new(), default: NamespaceId::NONE }
    }
}

impl PrefixBindings {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.stack.clear();
        self.table = None;
        self.default = NamespaceId::NONE;
    }

    /// Returns how many bindings there are: what [`PrefixBindings::truncate`] takes.
    #[inline(always)]
    pub fn count(&self) -> u32 {
        self.stack.len() as u32
    }

    /// Adds the declaration of `prefix` (empty: the default namespace). `uri_encoded` says that the URI holds
    /// references or white space to normalise.
    pub fn declare(
        &mut self,
        text: &str,
        vocabulary: &Vocabulary,
        prefix: ByteRange,
        uri: ByteRange,
        uri_encoded: bool,
    ) -> ScanResult<NamespaceId> {
        let raw = slice(text, uri);
        let value = if uri_encoded { Cow::Owned(decode::attribute(raw)) } else { Cow::Borrowed(raw) };
        let prefix_bytes = slice(text, prefix).as_bytes();
        check_reserved(prefix_bytes, &value, prefix.start as usize)?;
        let id = vocabulary.namespace(&value);
        if prefix_bytes.is_empty() {
            self.default = id;
        } else {
            let fingerprint = if id == NamespaceId::UNKNOWN { self.hash.hash_one(value.as_bytes()) } else { 0 };
            self.push(
                text,
                PrefixBinding { prefix, namespace: Namespace { id, fingerprint, uri }, hidden: NO_BINDING },
            );
        }
        Ok(id)
    }

    /// Returns the namespace of a prefix in use.
    #[inline]
    pub fn resolve(&self, text: &str, prefix: ByteRange) -> ScanResult<Namespace> {
        let bytes = slice(text, prefix).as_bytes();
        if let Some(index) = self.find(text, bytes) {
            return Ok(self.stack[index as usize].namespace);
        }
        if bytes == b"xml" {
            return Ok(Namespace::XML);
        }
        let at = prefix.start as usize;
        Err(Fault::malformed(at, format!("the prefix {:?} is not bound to a namespace", shown(bytes))))
    }

    /// Drops the newest bindings until `count` are left.
    #[inline(always)]
    pub fn truncate(&mut self, text: &str, count: u32) {
        if self.count() > count {
            self.drop_down_to(text, count);
        }
    }

    fn find(&self, text: &str, prefix: &[u8]) -> Option<u32> {
        match &self.table {
            Some(table) => table.get(prefix).copied(),
            None => {
                let binding_index =
                    self.stack.iter().rposition(|binding| slice(text, binding.prefix).as_bytes() == prefix);
                binding_index.map(|index| index as u32)
            }
        }
    }

    fn push(&mut self, text: &str, mut binding: PrefixBinding) {
        let index = self.count();
        if let Some(table) = &mut self.table {
            let prefix = slice(text, binding.prefix).as_bytes();
            binding.hidden = table.insert(prefix.into(), index).unwrap_or(NO_BINDING);
        }
        self.stack.push(binding);
        if self.table.is_none() && self.stack.len() > SEARCHED_MAX {
            self.build_table(text);
        }
    }

    fn build_table(&mut self, text: &str) {
        let mut table = HashMap::new();
        for (index, binding) in self.stack.iter_mut().enumerate() {
            let prefix = slice(text, binding.prefix).as_bytes();
            binding.hidden = table.insert(Box::from(prefix), index as u32).unwrap_or(NO_BINDING);
        }
        self.table = Some(table);
    }

    fn drop_down_to(&mut self, text: &str, count: u32) {
        for binding in self.stack.drain(count as usize..).rev() {
            if let Some(table) = &mut self.table {
                let prefix = slice(text, binding.prefix).as_bytes();
                if binding.hidden == NO_BINDING {
                    table.remove(prefix);
                } else {
                    table.insert(prefix.into(), binding.hidden);
                }
            }
        }
    }
}

/// Refuses to bind reserved prefixes and names (Namespaces in XML 1.0, section 3).
fn check_reserved(prefix: &[u8], uri: &str, at: usize) -> ScanResult<()> {
    let reason = if prefix == b"xmlns" {
        "the prefix \"xmlns\" must not be declared".into()
    } else if prefix == b"xml" {
        if uri == XML_NAMESPACE {
            return Ok(());
        }
        format!("the prefix \"xml\" must not be bound to anything but {XML_NAMESPACE}")
    } else if uri == XML_NAMESPACE || uri == XMLNS_NAMESPACE {
        match prefix {
            b"" => format!("the reserved namespace {uri} must not be the default namespace"),
            _ => format!("the prefix {:?} must not be bound to the reserved namespace {uri}", shown(prefix)),
        }
    } else if uri.is_empty() && !prefix.is_empty() {
        format!("the prefix {:?} must not be bound to the empty namespace name", shown(prefix))
    } else {
        return Ok(());
    };
    Err(Fault::malformed(at, reason))
}

fn uri(text: &str, raw: ByteRange) -> Cow<'_, str> {
    let raw = slice(text, raw);
    let plain = !raw.bytes().any(|b| matches!(b, b'&' | b'\t' | b'\n' | b'\r'));
    if plain { Cow::Borrowed(raw) } else { Cow::Owned(decode::attribute(raw)) }
}

#[inline(always)]
fn slice(text: &str, span: ByteRange) -> &str {
    &text[span.start as usize..span.end as usize]
}
