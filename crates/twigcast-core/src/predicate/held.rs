//! The levels above an element at which atoms hold: one bit says then whether a condition holds, of an ancestor as of the
//! element itself, without a set of conditions for each element.
//!
//! An atom has a word, with a bit for each level. A distance is a mask of such words: one bit, that of the element so many
//! levels up or on that level. So what changes from one element to the next are the words of the
//! few atoms of those that are left and entered.

use super::packed::{CONTENT_SLOT, LEVEL_SLOTS, PackedCondition, SLOTS, slot_of};
use crate::document::NodeId;
use crate::ids::AtomId;

/// Elements on this level and all below it share a bit.
const DEEP: usize = 31;
/// The bit of atoms that the text of the current element satisfies. No element is on level 0.
const CONTENT: u32 = 1;
/// From this level on, all elements that distances lead up to are deep as well.
const LEVELS: usize = DEEP + LEVEL_SLOTS as usize;
/// The most words. If there are more atoms, several share a word.
const WORDS_MAX: usize = 1 << 16;

/// Bits of the elements that each distance leads to, from an element on each level.
static MASKS: [[u32; SLOTS]; LEVELS] = masks();

const fn bit(level: usize) -> u32 {
    1 << if level < DEEP { level } else { DEEP }
}

const fn masks() -> [[u32; SLOTS]; LEVELS] {
    let mut masks = [[0; SLOTS]; LEVELS];
    let mut level = 0;
    while level < LEVELS {
        let mut slot = 0;
        while slot < SLOTS {
            masks[level][slot] = match slot as u32 {
                CONTENT_SLOT => CONTENT,
                // Levels are those of ancestors: that of the element itself is at distance 0.
                slot if slot >= LEVEL_SLOTS => {
                    let expected = (slot - LEVEL_SLOTS) as usize;
                    if expected > 0 && expected < level { bit(expected) } else { 0 }
                }
                up if level > up as usize => bit(level - up as usize),
                _ => 0,
            };
            slot += 1;
        }
        level += 1;
    }
    masks
}

/// A current element or ancestor, and the range of its atoms.
type OpenLevel = (NodeId, (u32, u32));

/// The levels at which each atom holds, for one element at a time.
#[derive(Debug, Default)]
pub struct AtomLevels {
    /// By half the number of the atom, from the beginning again where there are more. A power of two of words.
    words: Box<[u32]>,
    /// No two atoms share a word.
    has_all: bool,
    /// The current element and its ancestors, from the root element down.
    open: Vec<OpenLevel>,
    /// Words in which the bit of deep levels is set.
    deep: Vec<u32>,
    /// The range of the atoms of the text of the current element, once they have been pushed.
    content: (u32, u32),
}

#[inline]
fn slice(atoms: &[AtomId], (start, end): (u32, u32)) -> &[AtomId] {
    &atoms[start as usize..end as usize]
}

impl AtomLevels {
    /// Begins with a message, in which no atom holds yet. `attributes` and `content` are the lists that ranges refer
    /// to.
    pub fn reset(&mut self, attributes: &[AtomId], content: &[AtomId]) {
        self.leave(&[], attributes, content);
    }

    /// Makes the table large enough for atoms below an id. No atom may have been pushed yet.
    fn reserve(&mut self, bound: AtomId) {
        let words = (bound.index() / 2 + 1).next_power_of_two().clamp(64, WORDS_MAX);
        if words > self.words.len() {
            self.words = vec![0; words].into();
        }
        self.has_all = bound.index() / 2 < self.words.len();
    }

    #[inline]
    fn word(&mut self, atom: AtomId) -> &mut u32 {
        let last = self.words.len() - 1;
        &mut self.words[atom.index() >> 1 & last]
    }

    /// Goes on to an element, which is the last of `ancestors`: elements that do not lead to it are left. `attributes`
    /// and `content` are all atoms found so far, `bound` is above them.
    ///
    /// Returns how many of the ancestors have had their atoms pushed already.
    pub fn enter(&mut self, ancestors: &[NodeId], bound: AtomId, attributes: &[AtomId], content: &[AtomId]) -> usize {
        let is_there =
            self.open.len() == ancestors.len() && self.open.last().map(|open| open.0) == ancestors.last().copied();
        if !is_there {
            self.leave(ancestors, attributes, content);
        }
        if self.open.is_empty() {
            self.reserve(bound);
        }
        self.open.len()
    }

    fn leave(&mut self, ancestors: &[NodeId], attributes: &[AtomId], content: &[AtomId]) {
        for &atom in slice(content, std::mem::take(&mut self.content)) {
            *self.word(atom) &= !CONTENT;
        }
        while let Some(&(element, range)) = self.open.last() {
            let level = self.open.len();
            // If an ancestor is the same, all above it are.
            if ancestors.get(level - 1) == Some(&element) {
                break;
            }
            if level < DEEP {
                slice(attributes, range).iter().for_each(|&atom| *self.word(atom) &= !bit(level));
            }
            self.open.pop();
        }
        if self.open.len() < DEEP {
            while let Some(word) = self.deep.pop() {
                self.words[word as usize] &= !bit(DEEP);
            }
        }
    }

    /// Adds the atoms that hold at the next of the ancestors, a range of all.
    pub fn push(&mut self, element: NodeId, range: (u32, u32), attributes: &[AtomId]) {
        self.open.push((element, range));
        let level = self.open.len();
        for &atom in slice(attributes, range) {
            let word = self.word(atom);
            let is_new = *word & bit(level) == 0;
            *word |= bit(level);
            if level >= DEEP && is_new {
                let last = self.words.len() as u32 - 1;
                self.deep.push(atom.as_u32() >> 1 & last);
            }
        }
    }

    /// Adds the atoms that the text of the current element satisfies, a range of all.
    pub fn push_content(&mut self, range: (u32, u32), content: &[AtomId]) {
        self.content = range;
        slice(content, range).iter().for_each(|&atom| *self.word(atom) |= CONTENT);
    }

    /// Returns whether [`HeldConditions::hold`] is exact. If not, conditions that do not hold may seem to.
    #[inline]
    pub fn is_exact(&self) -> bool {
        self.has_all && self.open.len() < DEEP
    }

    /// Returns what holds at the current element and its ancestors.
    #[inline]
    pub fn held(&self) -> HeldConditions<'_> {
        HeldConditions { words: &self.words, masks: &MASKS[self.open.len().min(LEVELS - 1)] }
    }
}

/// The conditions that hold for an element. Comparisons and negations are not among them.
#[derive(Clone, Copy, Debug)]
pub struct HeldConditions<'a> {
    words: &'a [u32],
    masks: &'a [u32; SLOTS],
}

impl HeldConditions<'_> {
    /// Returns whether a condition holds. See [`AtomLevels::is_exact`].
    #[inline]
    pub fn hold(self, condition: PackedCondition) -> bool {
        let word = self.words[(condition >> 1) as usize & (self.words.len() - 1)];
        word & self.masks[slot_of(condition)] != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Distance;
    use crate::predicate::packed::{pack, pack_content};
    use crate::testing::Random;

    /// Walks through trees: what the bits tell of conditions is what a look at each element tells.
    #[test]
    fn keys_hold_where_an_element_of_the_lineage_has_the_atom() {
        for seed in 1..40_u32 {
            println!("seed {seed}");
            let mut random = Random(u64::from(seed));
            // Some have more atoms than there are words, some go deeper than there are bits.
            let bound = if seed % 3 == 0 { 2 * WORDS_MAX as u32 + 40 } else { 40 };
            let depth_max = if seed % 4 == 0 { 80 } else { 12 };
            let atoms: Vec<AtomId> =
                (1..20).chain(bound / 2 - 20..bound / 2).map(|half| AtomId::from_u32(half * 2)).collect();
            let mut levels = AtomLevels::default();
            let (mut attributes, mut content) = (Vec::new(), Vec::new());
            let mut exact = 0;
            for _ in 0..3 {
                levels.reset(&attributes, &content);
                (attributes, content) = (Vec::new(), Vec::new());
                let mut ancestors: Vec<(NodeId, (u32, u32))> = Vec::new();
                for element in 1..400 {
                    ancestors.truncate(ancestors.len().saturating_sub(random.below(4)).min(depth_max));
                    for step in 0..=random.below(3) as u32 {
                        let start = attributes.len() as u32;
                        (0..random.below(4)).for_each(|_| attributes.push(atoms[random.below(atoms.len())]));
                        ancestors.push((element * 4 + step, (start, attributes.len() as u32)));
                    }
                    let elements: Vec<NodeId> = ancestors.iter().map(|open| open.0).collect();
                    let pushed = levels.enter(&elements, AtomId::from_u32(bound), &attributes, &content);
                    for &(element, range) in &ancestors[pushed..] {
                        levels.push(element, range, &attributes);
                    }
                    let own = content.len() as u32;
                    if random.below(2) == 0 {
                        (0..random.below(3)).for_each(|_| content.push(atoms[random.below(atoms.len())]));
                        levels.push_content((own, content.len() as u32), &content);
                    }
                    let (is_exact, held) = (levels.is_exact(), levels.held());
                    exact += usize::from(is_exact);
                    for &atom in &atoms {
                        let has = |at: usize| slice(&attributes, ancestors[at].1).contains(&atom);
                        let depth = ancestors.len();
                        let check = |condition, holds: bool| {
                            let pushed = held.hold(condition);
                            assert!(if is_exact { pushed == holds } else { pushed || !holds }, "{condition:x} {depth}");
                        };
                        for up in 0..=Distance::UP_MAX {
                            check(pack(Distance::Up(up as u16), atom), up < depth && has(depth - 1 - up));
                        }
                        for level in 1..=Distance::LEVEL_MAX {
                            check(pack(Distance::Level(level as u16), atom), level < depth && has(level - 1));
                        }
                        check(pack_content(atom), content[own as usize..].contains(&atom));
                    }
                }
            }
            assert_eq!(exact == 0, seed % 3 == 0, "{exact}");
            levels.reset(&attributes, &content);
            assert!(levels.words.iter().all(|&word| word == 0));
        }
    }
}
