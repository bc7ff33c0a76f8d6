//! The names that queries mention, as small integers.
//!
//! A message may use any number of names; only those that some query mentions can influence a match. So the vocabulary
//! grows while queries are registered and is read-only while messages are scanned: a hostile message cannot make it grow.
//!
//! ```
//! use twigcast_core::vocabulary::{LocalId, Vocabulary};
//!
//! let mut vocabulary = Vocabulary::new();
//! let price = vocabulary.intern_local("price");
//! assert_eq!(vocabulary.local(b"price"), price);
//! assert_eq!(vocabulary.local(b"a name of some message"), LocalId::UNKNOWN);
//! ```

use std::sync::Arc;

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

/// Two-way table of the namespace URIs and local names that queries mention. Clones share it until one gets a new name.
#[derive(Clone, Debug)]
pub struct Vocabulary {
    names: Arc<NameTables>,
}

#[derive(Clone, Debug)]
struct NameTables {
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
        let names = NameTables {
            namespace_ids,
            // The third entry is the reserved "unknown": it has no URI to look up.
            namespaces: vec!["".into(), XML_NAMESPACE.into(), "?".into()],
            locals: LocalNames::new("?"),
        };
        Self { names: Arc::new(names) }
    }

    /// Returns the id of a namespace URI (empty: no namespace), added when it is new.
    pub fn intern_namespace(&mut self, uri: &str) -> NamespaceId {
        if let Some(&id) = self.names.namespace_ids.get(uri) {
            return id;
        }
        let names = Arc::make_mut(&mut self.names);
        let id = NamespaceId::new(names.namespaces.len());
        names.namespaces.push(uri.into());
        names.namespace_ids.insert(uri.into(), id);
        id
    }

    /// Returns the id of a local name, added when it is new.
    pub fn intern_local(&mut self, local: &str) -> LocalId {
        match self.local(local.as_bytes()) {
            LocalId::UNKNOWN => Arc::make_mut(&mut self.names).locals.intern(local),
            existing => existing,
        }
    }

    /// Returns the id of a namespace URI that a message mentions.
    pub fn namespace(&self, uri: &str) -> NamespaceId {
        self.names.namespace_ids.get(uri).copied().unwrap_or(NamespaceId::UNKNOWN)
    }

    /// Returns the id of a local name that a message mentions.
    #[inline]
    pub fn local(&self, local: &[u8]) -> LocalId {
        self.names.locals.find(PackedName::of(local), local)
    }

    /// Returns the id of a local name whose key has been computed: see [`Self::local`].
    #[inline(always)]
    pub(crate) fn local_of(&self, key: PackedName, local: &[u8]) -> LocalId {
        self.names.locals.find(key, local)
    }

    /// Returns the URI behind an id; `?` for [`NamespaceId::UNKNOWN`].
    pub fn namespace_uri(&self, id: NamespaceId) -> &str {
        &self.names.namespaces[id.index()]
    }

    /// Returns the text behind an id; `?` for [`LocalId::UNKNOWN`].
    pub fn local_name(&self, id: LocalId) -> &str {
        self.names.locals.name(id)
    }

    /// Returns the number of names: local names and namespaces.
    pub(crate) fn name_count(&self) -> usize {
        self.names.namespaces.len() + self.names.locals.len()
    }

    /// Returns how many local names are known.
    pub fn local_count(&self) -> usize {
        self.names.locals.len() - 1
    }
}
