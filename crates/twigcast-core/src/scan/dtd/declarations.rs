//! Keeps what a document type declares, as far as it can change a message.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::escaping::escape_value;
use super::tag_ranges::TagRanges;
use super::text_table::NameFilter;
use super::tokens::{is_normal, tokens};
use crate::document::Document;
use crate::scan::fault::shown;
use crate::util::packed_name::PackedName;

/// Public identifiers that begin so stand for DTDs whose entities are in the sets of HTML and ISO.
const KNOWN_PUBLIC_IDS: [&[u8]; 11] = [
    b"-//W3C//ENTITIES",
    b"-//W3C//DTD XHTML",
    b"-//W3C//DTD HTML",
    b"-//W3C//DTD MathML",
    b"-//WAPFORUM//DTD XHTML",
    b"-//Netscape Communications//DTD RSS 0.91",
    b"-//OASIS//DTD DocBook",
    b"-//OASIS//ENTITIES",
    b"-//NLM//DTD",
    b"ISO 8879:1986//ENTITIES",
    b"ISO 9573-13:1991//ENTITIES",
];

/// Returns whether the entities behind a public identifier are those of HTML and ISO.
pub(super) fn stands_for_html(public_id: &[u8]) -> bool {
    KNOWN_PUBLIC_IDS.iter().any(|start| public_id.starts_with(start))
}

/// The declarations of a document type, as far as they can change a message.
#[derive(Debug, Default)]
pub struct Declarations {
    pub(super) entities: HashMap<Box<[u8]>, Entity, RandomState>,
    /// By name of the element.
    pub(super) attributes: HashMap<Box<[u8]>, Vec<AttributeDeclaration>, RandomState>,
    has_ids: bool,
    /// The elements with an attribute that may not be as it is written.
    changing: NameFilter,
    /// The number of entities that refer to entities.
    pub(super) referring: usize,
    /// The DTD that is not read and may declare more, as the message names it.
    pub(crate) unread: Option<Box<str>>,
    /// The message refers to parameter entities: then an entity that is not declared is no error of form.
    pub(crate) refers_to_parameters: bool,
    /// A public identifier says that the entities of HTML and ISO are declared.
    pub(crate) declares_html: bool,
}

/// A general entity.
#[derive(Debug)]
pub(crate) enum Entity {
    /// Its replacement text: references to characters are resolved, those to entities are not.
    Text(Box<str>),
    /// Something outside of the message, by its system identifier.
    External(Box<str>),
    /// Something outside of the message that is no XML.
    Unparsed,
    /// Declared where the declaration does not count.
    Hidden,
}

/// The declaration of one attribute.
#[derive(Debug)]
pub(crate) struct AttributeDeclaration {
    pub(super) name: Box<[u8]>,
    /// White space at both ends is no part of the value, and a run of it counts as one space.
    pub(super) is_tokenised: bool,
    pub(super) is_id: bool,
    /// The default as start tags without the attribute get it: a space, the name, the value.
    pub(super) addition: Option<Box<str>>,
}

impl AttributeDeclaration {
    /// Creates the declaration of an attribute. `kind`: the type as the DTD writes it. `default`: the value of elements that
    /// have none, with references resolved.
    pub fn new(name: &str, kind: &str, default: Option<&str>) -> Self {
        let is_tokenised = kind != "CDATA";
        let addition = default.map(|value| {
            let mut addition = format!(" {name}=\"");
            escape_value(&if is_tokenised { tokens(value) } else { value.into() }, &mut addition);
            addition.push('"');
            addition.into()
        });
        Self { name: name.as_bytes().into(), is_tokenised, is_id: kind == "ID", addition }
    }

    /// Returns whether elements may have it otherwise than they are written.
    fn changes_elements(&self) -> bool {
        self.is_tokenised || self.addition.is_some()
    }
}

impl Declarations {
    /// Adds an entity unless there is one of this name: the first declaration counts.
    pub(crate) fn add_entity(&mut self, name: &[u8], entity: Entity) {
        let std::collections::hash_map::Entry::Vacant(free) = self.entities.entry(name.into()) else { return };
        self.referring += usize::from(matches!(&entity, Entity::Text(text) if text.contains('&')));
        free.insert(entity);
    }

    /// Notes an external DTD, which is not read.
    pub(crate) fn external_subset(&mut self, id: ExternalId<'_>, standalone: bool) {
        self.declares_html = id.public.is_some_and(|public| stands_for_html(public.as_bytes()));
        if !standalone {
            self.unread = Some(id.shown());
        }
    }

    /// Adds an entity by name and replacement text unless there is one of this name.
    pub fn add_text(&mut self, name: &str, text: &str) {
        self.add_entity(name.as_bytes(), Entity::Text(text.into()));
    }

    /// Adds an entity that stands for something outside of the DTD, by its system identifier.
    pub fn add_external(&mut self, name: &str, system_id: &str) {
        self.add_entity(name.as_bytes(), Entity::External(system_id.into()));
    }

    /// Adds an attribute of an element unless there is one of this name. `kind`: the type as the DTD writes it.
    /// `default`: the value, with references resolved.
    pub fn add_attribute(&mut self, element: &str, name: &str, kind: &str, default: Option<&str>) {
        self.declare_attribute(element.as_bytes(), AttributeDeclaration::new(name, kind, default));
    }

    pub(super) fn declare_attribute(&mut self, element: &[u8], declaration: AttributeDeclaration) {
        let declared = self.attributes.entry(element.into()).or_default();
        if declared.iter().any(|earlier| earlier.name == declaration.name) {
            return;
        }
        if declaration.changes_elements() && !declared.iter().any(AttributeDeclaration::changes_elements) {
            self.changing.add(element);
        }
        self.has_ids |= declaration.is_id;
        declared.push(declaration);
    }

    /// Returns whether a name of an entity may mean something.
    pub(crate) fn has_entities(&self) -> bool {
        !self.entities.is_empty() || self.unread.is_some() || self.declares_html || self.refers_to_parameters
    }

    /// Returns whether attributes are declared. They need not change anything.
    pub(crate) fn has_attributes(&self) -> bool {
        !self.attributes.is_empty()
    }

    /// Returns whether an element may have attributes that are not as they are written.
    pub(crate) fn changes_elements(&self) -> bool {
        !self.changing.is_empty()
    }

    /// Returns whether that may be so of an element whose name, up to a colon, has this key.
    #[inline(always)]
    pub(crate) fn may_change(&self, key: PackedName) -> bool {
        self.changing.may_have(key)
    }

    /// Returns the byte that the names of all such elements begin with; none if they begin with different ones.
    pub(super) fn first_changing_byte(&self) -> Option<u8> {
        self.changing.first_byte()
    }

    pub(super) fn of_element(&self, name: &[u8]) -> &[AttributeDeclaration] {
        self.attributes.get(name).map_or(&[], Vec::as_slice)
    }

    /// Returns whether the start tag at `start`, of the element `name`, would be written otherwise.
    pub(crate) fn changes(&self, source: &[u8], start: usize, name: &[u8], tag: &mut TagRanges) -> bool {
        let declared = self.of_element(name);
        if declared.is_empty() || tag.read(source, start).is_none() {
            return false;
        }
        declared.iter().any(|declared| match tag.value(source, &declared.name) {
            None => declared.addition.is_some(),
            Some(value) => declared.is_tokenised && !is_normal(value),
        })
    }

    /// Returns the ID attributes of elements, by name.
    fn ids(&self) -> Vec<(&[u8], &[u8])> {
        let mut declared: Vec<(&[u8], &[u8])> = Vec::new();
        for (element, attributes) in &self.attributes {
            declared.extend(attributes.iter().filter(|a| a.is_id).map(|a| (&**element, &*a.name)));
        }
        declared.sort_unstable();
        declared
    }

    /// Writes a short DOCTYPE that declares all ID attributes; nothing if there are none.
    pub(crate) fn write_ids(&self, out: &mut Vec<u8>) {
        write_ids(&self.ids(), out);
    }

    /// Notes in a document which attributes are IDs.
    pub(crate) fn note_ids(self, document: &mut Document) {
        for (element, attributes) in self.attributes {
            let ids = attributes.into_iter().filter(|attribute| attribute.is_id);
            document.id_attributes.extend(ids.map(|attribute| (element.clone(), attribute.name)));
        }
    }

    pub(crate) fn declares_ids(&self) -> bool {
        self.has_ids
    }
}

/// Writes a short DOCTYPE that declares ID attributes of elements; nothing if there are none.
pub(super) fn write_ids(ids: &[(&[u8], &[u8])], out: &mut Vec<u8>) {
    if ids.is_empty() {
        return;
    }
    out.extend_from_slice(b"<!DOCTYPE x [");
    for (element, attribute) in ids {
        for piece in [b"<!ATTLIST ", *element, b" ", *attribute, b" ID #IMPLIED>"] {
            out.extend_from_slice(piece);
        }
    }
    out.extend_from_slice(b"]>");
}

/// An external identifier.
#[derive(Clone, Copy, Default)]
pub struct ExternalId<'a> {
    pub public: Option<&'a str>,
    pub system: Option<&'a str>,
}

impl ExternalId<'_> {
    /// Returns the identifier as a message writes it.
    pub fn shown(&self) -> Box<str> {
        match (self.public, self.system) {
            (Some(public), _) => format!("PUBLIC {:?}", shown(public.as_bytes())).into(),
            (None, system) => format!("SYSTEM {:?}", shown(system.unwrap_or_default().as_bytes())).into(),
        }
    }
}
