//! Value conditions in one word: which element is tested, and which atom it must satisfy.

use crate::ids::AtomId;
use crate::plan::Distance;

impl AtomId {
    /// In place of an atom: there is none.
    pub const NONE: Self = Self::from_u32(0);

    /// Returns whether the atom compares by order or inequality, or negates. Many of these hold at once, so they are looked
    /// up only where some condition is one. Their ids are odd.
    #[inline]
    pub fn is_comparison(self) -> bool {
        self.as_u32() & 1 == 1
    }
}

/// A distance and an atom in one word: 6 bits and 26. Never 0, since no atom has the number 0.
pub type PackedCondition = u32;

/// Returns whether the atom of a condition [is a comparison](AtomId::is_comparison).
#[inline]
pub fn is_comparison(condition: PackedCondition) -> bool {
    condition & 1 == 1
}

const ATOM_BITS: u32 = 26;
/// Atoms from this number on have no packed condition of their own; what waits for them is not looked up but tested.
pub const ATOMS_MAX: AtomId = AtomId::from_u32((1 << ATOM_BITS) - 1);
/// Queries from this number on are not looked up but tested: so many always have room in a table.
pub const QUERIES_MAX: u32 = 1 << 28;

/// Packs a distance and an atom.
#[inline]
pub fn pack(distance: Distance, atom: AtomId) -> PackedCondition {
    slot(distance) << ATOM_BITS | atom.min(ATOMS_MAX).as_u32()
}

/// Returns a condition with the distance of another, of which the atom is 0.
#[inline]
pub fn with_prefix(prefix: PackedCondition, atom: AtomId) -> PackedCondition {
    prefix | atom.min(ATOMS_MAX).as_u32()
}

/// Returns the distance and the atom of a condition; for one about the accepting element's text, distance 0.
#[inline]
pub fn unpack(condition: PackedCondition) -> (Distance, AtomId) {
    let distance = match condition >> ATOM_BITS {
        CONTENT_SLOT => Distance::Up(0),
        slot if slot > LEVEL_SLOTS => Distance::Level((slot - LEVEL_SLOTS) as u16),
        slot => Distance::Up(slot as u16),
    };
    (distance, AtomId::from_u32(condition & ATOMS_MAX.as_u32()))
}

/// Returns the number of the distance of a packed condition.
#[inline]
pub(super) fn slot_of(condition: PackedCondition) -> usize {
    (condition >> ATOM_BITS) as usize
}

/// Returns the number of a distance, which takes 6 bits.
fn slot(distance: Distance) -> u32 {
    match distance {
        Distance::Up(levels) => u32::from(levels),
        Distance::Level(level) => LEVEL_SLOTS + u32::from(level),
    }
}

/// The number of distances.
pub(super) const SLOTS: usize = 1 << (32 - ATOM_BITS);
/// Levels count from here; 0 is none.
pub(super) const LEVEL_SLOTS: u32 = Distance::UP_MAX as u32 + 1;
/// The number of the distance of atoms about the text of the accepting element, since these cost more to find than attributes.
pub(super) const CONTENT_SLOT: u32 = 62;

/// Returns an atom about the accepting element's text, packed.
pub fn pack_content(atom: AtomId) -> PackedCondition {
    CONTENT_SLOT << ATOM_BITS | atom.min(ATOMS_MAX).as_u32()
}

/// Returns whether the condition is about the accepting element's text.
#[inline]
pub fn is_content(condition: PackedCondition) -> bool {
    condition >> ATOM_BITS == CONTENT_SLOT
}

/// A set of distances, with the accepting element's text as one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Distances(u64);

impl Distances {
    /// Returns the distances that are in either set.
    #[inline]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn insert(&mut self, condition: PackedCondition) {
        self.0 |= 1 << (condition >> ATOM_BITS);
    }

    /// Returns the members, packed with atom 0, that lead to the element which is `up` levels up and on `level`.
    #[inline]
    pub fn prefixes(self, up: usize, level: usize) -> Prefixes {
        let mut prefixes = Prefixes::default();
        if up <= Distance::UP_MAX {
            prefixes.add(self, up as u32);
        }
        if level <= Distance::LEVEL_MAX {
            prefixes.add(self, LEVEL_SLOTS + level as u32);
        }
        prefixes
    }

    /// Returns the members that lead to ancestors of an element on `level` by a known distance: how many levels up it is,
    /// and the distance packed with atom 0.
    pub fn above(self, level: usize) -> impl Iterator<Item = (usize, PackedCondition)> {
        let mut rest = self.0 & !(1 | 1 << CONTENT_SLOT);
        std::iter::from_fn(move || {
            while rest != 0 {
                let slot = rest.trailing_zeros();
                rest &= rest - 1;
                let up = match slot.checked_sub(LEVEL_SLOTS) {
                    Some(expected) => level.saturating_sub(expected as usize),
                    None => slot as usize,
                };
                if (1..level).contains(&up) {
                    return Some((up, slot << ATOM_BITS));
                }
            }
            None
        })
    }

    /// Returns whether there is no member.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns whether every member leads to the accepting element itself.
    #[inline]
    pub fn is_own(self) -> bool {
        self.0 & !(1 | 1 << CONTENT_SLOT) == 0
    }

    /// Returns whether the accepting element's text is a member.
    #[inline]
    pub fn content(self) -> bool {
        self.0 >> CONTENT_SLOT & 1 == 1
    }
}

/// Up to two distances, packed with atom 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct Prefixes {
    conditions: [PackedCondition; 2],
    count: usize,
}

impl Prefixes {
    #[inline]
    fn add(&mut self, expected: Distances, slot: u32) {
        self.conditions[self.count] = slot << ATOM_BITS;
        self.count += (expected.0 >> slot & 1) as usize;
    }
}

impl std::ops::Deref for Prefixes {
    type Target = [PackedCondition];

    #[inline]
    fn deref(&self) -> &[PackedCondition] {
        &self.conditions[..self.count]
    }
}
