//! Collects what the elements around a record declare for it.

use super::base_uri::resolve;
use super::names::{InheritedName, local_part};
use crate::scan::decode;
use crate::scan::dtd::TagRanges;

/// Attributes, besides `xml:base`, that apply to everything in an element.
const CARRIED: [&[u8]; 2] = [b"xml:lang", b"xml:space"];

/// A declaration of an open element for everything in it.
#[derive(Debug)]
struct Statement {
    /// How many elements are open, including the one that declares it.
    depth: usize,
    /// The attribute's name as written; of an element, its local name.
    name: Box<[u8]>,
    /// The attribute's value with its quotes, as written; of an element, all of it.
    value: Box<[u8]>,
    kind: StatementKind,
    /// Which of the names that records inherit it has.
    inherited: Option<usize>,
    /// A record has followed it.
    is_past: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StatementKind {
    /// `xmlns` or `xmlns:p`.
    Namespace,
    /// An attribute that records inherit.
    Attribute,
    /// `xml:base`, resolved.
    Base,
    /// An element before the record whose copy goes into it.
    Element,
    /// An element around the record, of which an empty copy goes around it: its start tag.
    Around,
}

/// The statements of all open elements.
#[derive(Debug, Default)]
pub struct Scope {
    statements: Vec<Statement>,
    /// Names of attributes and elements that records inherit.
    inherit: Vec<InheritedName>,
    /// Whether any record has inherited what has a name.
    has_heirs: Vec<bool>,
    tag: TagRanges,
}

/// A start tag, with what the scope adds to it.
pub struct TagParts {
    /// The end of the name, and where the attributes end.
    pub name_end: usize,
    pub attributes_end: usize,
    /// The attributes to add, with a space before each.
    pub added: Vec<u8>,
}

impl Scope {
    /// Creates a scope in which records inherit also what has these names.
    pub fn new(inherit: &[InheritedName]) -> Self {
        Self { inherit: inherit.to_vec(), has_heirs: vec![false; inherit.len()], ..Self::default() }
    }

    /// Returns whether elements named so may be copied into a record that follows, whatever their namespace.
    pub fn may_inherit(&self, name: &[u8]) -> bool {
        self.inherit.iter().any(|inherited| inherited.may_be_element(name))
    }

    /// Returns by which of the names the element that is the `depth`th of those that are open is inherited, if it is.
    pub fn inherited_by(&self, name: &[u8], depth: usize) -> Option<usize> {
        let namespace = || self.namespace(prefix(name), depth);
        self.inherit.iter().position(|inherited| inherited.is_element(name, namespace))
    }

    /// Returns the names, by index, of which records have inherited something.
    pub fn with_heirs(&self) -> impl Iterator<Item = usize> {
        self.has_heirs.iter().enumerate().filter(|&(_, &has_heirs)| has_heirs).map(|(index, _)| index)
    }

    /// Marks all statements as standing before a record.
    pub fn pass_record(&mut self) {
        for statement in &mut self.statements {
            statement.is_past = true;
            if let Some(index) = statement.inherited {
                self.has_heirs[index] = true;
            }
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.statements.clear();
    }

    /// Forgets what elements say of which fewer are open now.
    pub fn leave(&mut self, depth: usize) {
        while self.statements.last().is_some_and(|statement| statement.depth > depth) {
            self.statements.pop();
        }
    }

    /// Notes the declarations in the start tag of an element, the `depth`th open one.
    pub fn enter(&mut self, tag: &[u8], depth: usize) {
        let mut ranges = std::mem::take(&mut self.tag);
        let name_end = ranges.read(tag, 0).map(|(name_end, _, _)| name_end);
        let mut based = None;
        // Declarations of prefixes come first, since other attributes may use them.
        let (declarations, others): (Vec<_>, Vec<_>) = ranges.iter(tag).partition(|(name, _)| is_declaration(name));
        for (name, value) in declarations {
            self.note(depth, name, value.into(), StatementKind::Namespace, None);
        }
        for (name, value) in others {
            let namespace = || self.namespace(prefix(name), depth);
            let inherited = self.inherit.iter().position(|inherited| inherited.is_attribute(name, namespace));
            if name == b"xml:base" {
                let base = self.resolved(value);
                based = ranges.range(tag, name).map(|range| (range, base.clone()));
                self.note(depth, name, base, StatementKind::Base, inherited);
            } else if CARRIED.contains(&name) || inherited.is_some() {
                self.note(depth, name, value.into(), StatementKind::Attribute, inherited);
            }
        }
        self.tag = ranges;
        if let Some(name_end) = name_end
            && let name = &tag[1..name_end]
            && let Some(inherited) = self.inherited_by(name, depth)
        {
            let whole = match based {
                Some((range, base)) => [&tag[..range.start - 1], &base, &tag[range.end + 1..]].concat(),
                None => tag.to_vec(),
            };
            let whole = self.with_additions(&whole);
            self.note(depth, name, whole.into(), StatementKind::Around, Some(inherited));
        }
    }

    fn note(&mut self, depth: usize, name: &[u8], value: Box<[u8]>, kind: StatementKind, inherited: Option<usize>) {
        self.statements.push(Statement { depth, name: name.into(), value, kind, inherited, is_past: false });
    }

    /// Notes an element before a record, a child of the `depth`th open element. The record gets copies of those since the
    /// last record; they replace copies that earlier records got. `inherited` is the index of the name that asks for it.
    pub fn note_element(&mut self, element: &[u8], name: &[u8], depth: usize, inherited: usize) {
        let based = match self.own_base(element) {
            Some((range, base)) => [&element[..range.start], &base, &element[range.end..]].concat(),
            None => element.to_vec(),
        };
        let (value, name) = (self.with_additions(&based).into(), local_part(name));
        let is_older = |statement: &Statement| {
            let is_alike = statement.kind == StatementKind::Element && statement.depth == depth;
            is_alike && statement.is_past && *statement.name == *name
        };
        self.statements.retain(|statement| !is_older(statement));
        self.note(depth, name, value, StatementKind::Element, Some(inherited));
    }

    /// Returns the namespace of a prefix, empty for the default namespace.
    pub fn namespace(&self, prefix: &[u8], depth: usize) -> String {
        let is_it = |statement: &&Statement| {
            statement.kind == StatementKind::Namespace
                && statement.depth <= depth
                && prefix_of(&statement.name) == prefix
        };
        let declared = self.statements.iter().rev().find(is_it);
        declared.map_or_else(String::new, |statement| text(&statement.value))
    }

    fn resolved(&self, value: &[u8]) -> Box<[u8]> {
        let outer = self.statements.iter().rev().find(|statement| statement.kind == StatementKind::Base);
        match outer {
            None => value.into(),
            Some(outer) => quoted(&resolve(&text(&outer.value), &text(value))).into_bytes().into(),
        }
    }

    /// Returns the names of namespace declarations and of inherited attributes with their values, as they hold in the
    /// innermost open element.
    fn in_force(&self) -> Vec<&Statement> {
        let mut holding: Vec<&Statement> = Vec::new();
        for statement in &self.statements {
            if matches!(statement.kind, StatementKind::Element | StatementKind::Around) {
                continue;
            }
            match holding.iter_mut().find(|earlier| earlier.name == statement.name) {
                Some(earlier) => *earlier = statement,
                None => holding.push(statement),
            }
        }
        holding.retain(|statement| statement.value.len() > 2);
        holding
    }

    /// Returns the start tag at the beginning of an element, with what is to be added to it; none if it is no tag.
    pub fn parts(&mut self, element: &[u8]) -> Option<TagParts> {
        let mut ranges = std::mem::take(&mut self.tag);
        let read = ranges.read(element, 0);
        let mut added = Vec::new();
        for statement in self.in_force() {
            if ranges.value(element, &statement.name).is_none() {
                added.push(b' ');
                added.extend_from_slice(&statement.name);
                added.push(b'=');
                added.extend_from_slice(&statement.value);
            }
        }
        self.tag = ranges;
        read.map(|(name_end, attributes_end, _)| TagParts { name_end, attributes_end, added })
    }

    /// Returns an element with what the scope says of it, but for the elements.
    fn with_additions(&mut self, element: &[u8]) -> Vec<u8> {
        match self.parts(element) {
            None => element.to_vec(),
            Some(TagParts { name_end, added, .. }) => [&element[..name_end], &added, &element[name_end..]].concat(),
        }
    }

    /// Returns the base URI that a record's own one means here, with quotes, if that is another than it says.
    pub fn own_base(&mut self, record: &[u8]) -> Option<(std::ops::Range<usize>, Vec<u8>)> {
        let has_base = self.statements.iter().any(|statement| statement.kind == StatementKind::Base);
        if !has_base {
            return None;
        }
        let mut ranges = std::mem::take(&mut self.tag);
        let own = ranges.read(record, 0).and_then(|_| ranges.range(record, b"xml:base"));
        self.tag = ranges;
        own.map(|range| {
            let quoted_range = range.start - 1..range.end + 1;
            (quoted_range.clone(), self.resolved(&record[quoted_range]).into())
        })
    }

    /// Returns the copies of elements that go into a record, those of the innermost parent that has any of a name.
    /// `has`: the record has a child of this name.
    pub fn elements(&self, has: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        let mut copies = Vec::new();
        let elements = || self.statements.iter().filter(|statement| statement.kind == StatementKind::Element);
        for statement in elements() {
            let innermost = elements().filter(|other| other.name == statement.name).map(|other| other.depth).max();
            if innermost == Some(statement.depth) && !has(&statement.name) {
                copies.extend_from_slice(&statement.value);
            }
        }
        copies
    }

    /// Returns the start tags and end tags of the elements that go around a record.
    pub fn around(&self) -> (Vec<u8>, Vec<u8>) {
        let (mut before, mut behind) = (Vec::new(), Vec::new());
        for statement in self.statements.iter().filter(|statement| statement.kind == StatementKind::Around) {
            before.extend_from_slice(&statement.value);
            behind.splice(0..0, [b"</", &*statement.name, b">"].concat());
        }
        (before, behind)
    }

    /// Returns whether a record is copied as it stands, whatever its start tag holds.
    pub fn is_empty(&self) -> bool {
        self.statements.is_empty()
    }
}

/// Returns whether an attribute declares a namespace.
pub(super) fn is_declaration(name: &[u8]) -> bool {
    name == b"xmlns" || name.starts_with(b"xmlns:")
}

/// Returns the prefix of a written name; empty if it has none.
fn prefix(name: &[u8]) -> &[u8] {
    memchr::memrchr(b':', name).map_or(b"", |colon| &name[..colon])
}

fn prefix_of(declaration: &[u8]) -> &[u8] {
    declaration.strip_prefix(b"xmlns:").unwrap_or_default()
}

/// Returns a value, as written with quotes, as text.
fn text(quoted: &[u8]) -> String {
    decode::attribute(&String::from_utf8_lossy(&quoted[1..quoted.len() - 1]))
}

fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;"))
}
