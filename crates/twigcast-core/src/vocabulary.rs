//! The names that queries mention, as small integers.
//!
//! A message may use any number of names; only those that some query mentions can influence a match. So the vocabulary
//! grows while queries are registered and is read-only while messages are scanned: a hostile message cannot make it grow.

use rustc_hash::FxHashMap;

pub use crate::ids::{LocalId, NamespaceId};
use crate::util::packed_name::{LocalNames, PackedName};

impl NamespaceId {
    /// No namespace at all.
    pub const NONE: Self = Self::from_u32(0);
    /// `http://www.w3.org/XML/1998/namespace`, to which the prefix `xml` is always bound.
    pub const XML: Self = Self::from_u32(1);
    /// Some namespace that no query mentions.
    pub const UNKNOWN: Self = Self::from_u32(2);
}

impl LocalId {
    /// Some local name that no query mentions.
    pub const UNKNOWN: Self = Self::from_u32(0);
}

/// An expanded name as the engine sees it: two integers, comparable in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name {
    /// The namespace part.
    pub namespace: NamespaceId,
    /// The local part.
    pub local: LocalId,
}

impl Name {
    /// Some name that no query mentions.
    pub const UNKNOWN: Self = Self { namespace: NamespaceId::UNKNOWN, local: LocalId::UNKNOWN };
}

/// The namespace that the prefix `xml` is bound to.
pub const XML_NAMESPACE: &str = "http://www.w3.org/XML/1998/namespace";
/// The namespace of namespace declarations; no prefix but `xmlns` may be bound to it.
pub const XMLNS_NAMESPACE: &str = "http://www.w3.org/2000/xmlns/";

/// Two-way table of the namespace URIs and local names that queries mention.
#[derive(Clone, Debug)]
pub struct Vocabulary {
    namespace_ids: FxHashMap<Box<str>, NamespaceId>,
    namespaces: Vec<Box<str>>,
    locals: LocalNames,
}

impl Default for Vocabulary {
    fn default() -> Self {
        Self::new()
    }
}

impl Vocabulary {
    /// Creates a vocabulary of the reserved entries only.
    pub fn new() -> Self {
        let mut namespace_ids = FxHashMap::default();
        namespace_ids.insert("".into(), NamespaceId::NONE);
        namespace_ids.insert(XML_NAMESPACE.into(), NamespaceId::XML);
        Self {
            namespace_ids,
            // The third entry is the reserved "unknown": it has no URI to look up.
            namespaces: vec!["".into(), XML_NAMESPACE.into(), "?".into()],
            locals: LocalNames::new("?"),
        }
    }

    /// Returns the id of a namespace URI (empty: no namespace), added when it is new.
    pub fn intern_namespace(&mut self, uri: &str) -> NamespaceId {
        if let Some(&id) = self.namespace_ids.get(uri) {
            return id;
        }
        let id = NamespaceId::new(self.namespaces.len());
        self.namespaces.push(uri.into());
        self.namespace_ids.insert(uri.into(), id);
        id
    }

    /// Returns the id of a local name, added when it is new.
    pub fn intern_local(&mut self, local: &str) -> LocalId {
        self.locals.intern(local)
    }

    /// Returns the id of a namespace URI that a message mentions.
    pub fn namespace(&self, uri: &str) -> NamespaceId {
        self.namespace_ids.get(uri).copied().unwrap_or(NamespaceId::UNKNOWN)
    }

    /// Returns the id of a local name that a message mentions.
    #[inline]
    pub fn local(&self, local: &[u8]) -> LocalId {
        self.locals.find(PackedName::of(local), local)
    }

    /// Returns what [`Self::local`] does, of a name whose key is computed.
    #[inline(always)]
    pub(crate) fn local_of(&self, key: PackedName, local: &[u8]) -> LocalId {
        self.locals.find(key, local)
    }

    /// Returns the URI behind an id; `?` for [`NamespaceId::UNKNOWN`].
    pub fn namespace_uri(&self, id: NamespaceId) -> &str {
        &self.namespaces[id.index()]
    }

    /// Returns the text behind an id; `?` for [`LocalId::UNKNOWN`].
    pub fn local_name(&self, id: LocalId) -> &str {
        self.locals.name(id)
    }

    /// Returns how many names are known: local ones and those of namespaces.
    pub(crate) fn name_count(&self) -> usize {
        self.namespaces.len() + self.locals.len()
    }

    /// Returns how many local names are known.
    pub fn local_count(&self) -> usize {
        self.locals.len() - 1
    }
}
