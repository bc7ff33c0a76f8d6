//! Looks up what is declared in the message, in an external DTD and in the sets of entities.

use super::declarations::{AttributeDeclaration, Declarations, Entity, write_ids};
use super::markup_search::MarkupSearch;
use super::tag_ranges::name_end;
use crate::scan::bytes::{NAME_START, byte, is, name_at};
use crate::util::packed_name::PackedName;

/// The declarations that hold for a message: what the message says itself comes first.
#[derive(Clone, Copy)]
pub struct DeclarationChain<'d> {
    pub own: &'d Declarations,
    /// An external DTD that was read for the message.
    pub external: Option<&'d Declarations>,
    /// The entities of HTML and ISO, if they are to be used.
    pub sets: Option<&'d Declarations>,
}

impl<'d> DeclarationChain<'d> {
    pub fn entity(&self, name: &[u8]) -> Option<&'d Entity> {
        let chain = [Some(self.own), self.external, self.sets];
        chain.into_iter().flatten().find_map(|declarations| declarations.entities.get(name))
    }

    pub fn of_element(&self, name: &[u8]) -> ElementDeclarations<'d> {
        let external = self.external.map_or(&[][..], |external| external.of_element(name));
        ElementDeclarations { own: self.own.of_element(name), external }
    }

    pub fn changes_elements(&self) -> bool {
        self.own.changes_elements() || self.external.is_some_and(Declarations::changes_elements)
    }

    /// Returns the byte that the names of all elements begin with that may be changed; none if they begin with different
    /// ones.
    pub fn first_changing_byte(&self) -> Option<u8> {
        let chain = [Some(self.own), self.external].into_iter().flatten();
        let mut firsts =
            chain.filter(|declarations| declarations.changes_elements()).map(Declarations::first_changing_byte);
        let first = firsts.next().flatten()?;
        firsts.all(|other| other == Some(first)).then_some(first)
    }

    /// Returns whether a part of a document may be another one with what is declared in place.
    pub fn may_change_part(&self, part: &[u8]) -> bool {
        let has_entities = |declarations: &Declarations| declarations.has_entities();
        let declares = has_entities(self.own) || self.external.is_some() || self.sets.is_some();
        if !self.changes_elements() {
            return declares && memchr::memchr(b'&', part).is_some();
        }
        let mut search = MarkupSearch::new(part, 0, self.first_changing_byte());
        let mut at = 0;
        while let Some(found) = search.next(at) {
            at = found + 1;
            let may_change = match (part[found], byte(part, at)) {
                (b'&', _) => declares,
                (_, first) if is(first, NAME_START) => {
                    let (end, key) = name_at(part, at);
                    byte(part, end) >= 0x80 || self.may_change(key)
                }
                (_, first) => first >= 0x80,
            };
            if may_change {
                return true;
            }
        }
        false
    }

    /// Returns whether an element may be changed whose name, up to a colon, has this key.
    #[inline(always)]
    pub fn may_change(&self, key: PackedName) -> bool {
        self.own.may_change(key) || self.external.is_some_and(|external| external.may_change(key))
    }

    /// Writes a short DOCTYPE that declares the ID attributes that a part of the message may have; nothing if it has none.
    pub fn write_ids_of(&self, part: &[u8], out: &mut Vec<u8>) {
        if !self.own.declares_ids() && !self.external.is_some_and(Declarations::declares_ids) {
            return;
        }
        let mut ids: Vec<(&[u8], &[u8])> = Vec::new();
        let (mut search, mut at, mut last) = (MarkupSearch::new(part, 0, self.first_changing_byte()), 0, &part[..0]);
        while let Some(found) = search.next(at) {
            at = found + 1;
            let name = &part[at..name_end(part, at)];
            if part[found] == b'<' && name != last {
                last = name;
                let declared = self.of_element(name).iter().filter(|declared| declared.is_id);
                ids.extend(declared.map(|declared| (name, &*declared.name)));
            }
        }
        ids.sort_unstable();
        ids.dedup();
        // Most parts without the name of an attribute have no ID.
        let mut names: Vec<&[u8]> = ids.iter().map(|&(_, attribute)| attribute).collect();
        names.sort_unstable();
        names.dedup();
        names.retain(|name| memchr::memmem::find(part, name).is_some());
        ids.retain(|(_, attribute)| names.binary_search(attribute).is_ok());
        write_ids(&ids, out);
    }
}

/// The attributes that are declared for one element.
#[derive(Clone, Copy)]
pub struct ElementDeclarations<'d> {
    own: &'d [AttributeDeclaration],
    external: &'d [AttributeDeclaration],
}

impl<'d> ElementDeclarations<'d> {
    pub fn iter(self) -> impl Iterator<Item = &'d AttributeDeclaration> {
        let hides = move |added: &&AttributeDeclaration| self.own.iter().all(|own| own.name != added.name);
        self.own.iter().chain(self.external.iter().filter(hides))
    }
}
