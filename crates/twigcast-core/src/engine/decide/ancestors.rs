//! The element in hand and its ancestors, and what is known of them.
//!
//! Elements are decided in document order, so from one to the next most ancestors stay. What was found out of ancestors is
//! kept with the level up to which it is known, and is good as far as the lineage has stayed since: each element is looked
//! at once for each question, however deep messages are.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::document::{NO_NODE, Node, NodeId};
use crate::predicate::packed::{self, AtomId, PackedCondition};

/// A level: that of the root element is 1. 0 is none.
pub(super) type Level = u32;

/// When something was found out: good up to the lowest level that the lineage has been at since.
type StackVersion = u64;

/// Where a part of a path was looked for is kept for so many levels, those of all parts taken together.
const PLACED_MAX: usize = 1 << 21;
/// Not looked for yet.
pub(super) const UNKNOWN: Level = Level::MAX;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct AncestorStack {
    /// From the root element down.
    elements: Vec<NodeId>,
    now: StackVersion,
    /// Levels that the lineage went up to, and when: of those that it has been at since an earlier moment, the lowest is
    /// that of the first entry after it.
    turns: Vec<(StackVersion, Level)>,
    /// Distinct attribute atoms of the ancestors: those looked up, and comparisons.
    looked_up: GatheredAtoms,
    compared: GatheredAtoms,
    /// By atom, where one was found that satisfies it.
    satisfying: FxHashMap<AtomId, SatisfyingAncestor>,
    /// By trigger and part of its path, the lowest place of the part.
    upward_matches: FxHashMap<(u32, u32), UpwardMatches>,
    placed: usize,
    /// Looks at ancestors so far, of this message and all before.
    pub(super) ancestor_checks: u64,
}

/// The highest element of the lineage that satisfies an atom.
#[derive(Clone, Copy, Debug, Default)]
struct SatisfyingAncestor {
    level: Level,
    /// Up to which level was looked.
    checked_level: Level,
    when: StackVersion,
}

/// Where a part of a path was found to end, for each level from which on it was looked for upwards; 0: nowhere.
#[derive(Debug, Default)]
struct UpwardMatches {
    of_level: Vec<Level>,
    when: StackVersion,
}

/// The distinct atoms that elements of the lineage satisfy.
#[derive(Debug, Default)]
struct GatheredAtoms {
    atoms: Vec<AtomId>,
    members: FxHashSet<AtomId>,
    /// How many atoms there are up to a level, where they became more.
    counts: Vec<(Level, usize)>,
    checked_level: Level,
    when: StackVersion,
}

impl AncestorStack {
    pub(super) fn clear(&mut self) {
        self.elements.clear();
        self.turns.clear();
        self.now = 0;
        self.looked_up.clear();
        self.compared.clear();
        self.satisfying.clear();
        self.upward_matches.clear();
        self.placed = 0;
    }

    /// Let an element be the one in hand.
    pub(super) fn move_to(&mut self, nodes: &[Node], node: NodeId) {
        if self.elements.last() == Some(&node) {
            return;
        }
        let before = self.elements.len();
        while self.elements.pop_if(|top| *top > node || nodes[*top as usize].end <= node).is_some() {}
        let kept = self.elements.len();
        if kept < before {
            self.turn(kept as Level);
        }
        let lowest = self.elements.last().copied().unwrap_or(0);
        let mut element = node;
        while element != lowest && element != 0 && element != NO_NODE {
            self.elements.push(element);
            element = nodes[element as usize].parent;
        }
        self.elements[kept..].reverse();
        self.ancestor_checks += (before - kept + self.elements.len() - kept) as u64;
    }

    fn turn(&mut self, level: Level) {
        self.now += 1;
        while self.turns.pop_if(|turn| turn.1 >= level).is_some() {}
        self.turns.push((self.now, level));
    }

    /// The level of the element in hand.
    #[inline]
    pub(super) fn level(&self) -> Level {
        self.elements.len() as Level
    }

    /// The element in hand and its ancestors, from the root element down.
    #[inline]
    pub(super) fn elements(&self) -> &[NodeId] {
        &self.elements
    }

    /// The element of a level.
    #[inline]
    pub(super) fn at(&self, level: Level) -> Option<NodeId> {
        self.elements.get((level as usize).checked_sub(1)?).copied()
    }

    /// The element so many levels above the one in hand.
    #[inline]
    pub(super) fn above(&self, up: usize) -> Option<NodeId> {
        self.elements.get(self.elements.len().checked_sub(1 + up)?).copied()
    }

    /// Up to which level the lineage is what it was.
    fn same_since(&self, when: StackVersion) -> Level {
        let after = self.turns.partition_point(|&(turned, _)| turned <= when);
        self.turns.get(after).map_or(Level::MAX, |&(_, level)| level)
    }

    /// The highest level known to satisfy an atom (0: none), and up to which level was looked.
    pub(super) fn satisfying(&self, atom: AtomId) -> (Level, Level) {
        let Some(&SatisfyingAncestor { level, checked_level, when }) = self.satisfying.get(&atom) else {
            return (0, 0);
        };
        let same = self.same_since(when);
        (if level <= same { level } else { 0 }, checked_level.min(same))
    }

    /// Keep the highest level that satisfies an atom, as far as was looked.
    pub(super) fn keep_satisfying(&mut self, atom: AtomId, level: Level, shape_list: Level) {
        self.satisfying.insert(atom, SatisfyingAncestor { level, checked_level: shape_list, when: self.now });
    }

    /// Take out what is known of the places of a part of a path, with an entry for each level up to that of the element
    /// in hand, and how many of these are new.
    pub(super) fn take_matches(&mut self, part: (u32, u32)) -> (Vec<Level>, usize) {
        if self.placed > PLACED_MAX {
            self.upward_matches.clear();
            self.placed = 0;
        }
        let UpwardMatches { mut of_level, when } = self.upward_matches.remove(&part).unwrap_or_default();
        self.placed -= of_level.len();
        let same = self.same_since(when);
        of_level.truncate((same as usize).saturating_add(1));
        let before = of_level.len();
        of_level.resize(self.elements.len() + 1, UNKNOWN);
        let grown = of_level.len().saturating_sub(before);
        (of_level, grown)
    }

    /// Keep the places of a part of a path.
    pub(super) fn keep_matches(&mut self, part: (u32, u32), of_level: Vec<Level>) {
        self.placed += of_level.len();
        self.upward_matches.insert(part, UpwardMatches { of_level, when: self.now });
    }

    fn gathered(&mut self, comparisons: bool) -> &mut GatheredAtoms {
        if comparisons { &mut self.compared } else { &mut self.looked_up }
    }

    /// The levels of ancestors whose atoms have not been gathered yet.
    pub(super) fn not_gathered(&mut self, comparisons: bool) -> std::ops::Range<Level> {
        let when = self.gathered(comparisons).when;
        let same = self.same_since(when);
        let (now, level) = (self.now, self.level());
        let gathered = self.gathered(comparisons);
        gathered.cut(same);
        gathered.when = now;
        gathered.checked_level + 1..level.max(1)
    }

    /// Gather the atoms of the ancestor at the next level.
    pub(super) fn gather(&mut self, comparisons: bool, level: Level, atoms: &[AtomId]) {
        self.ancestor_checks += 1;
        self.gathered(comparisons).add(level, atoms);
    }

    /// Append the gathered atoms of all ancestors with a prefix.
    pub(super) fn append_gathered(&self, comparisons: bool, prefix: PackedCondition, keys: &mut Vec<PackedCondition>) {
        let gathered = if comparisons { &self.compared } else { &self.looked_up };
        let count = gathered.count_below(self.level());
        keys.extend(gathered.atoms[..count].iter().map(|&atom| packed::with_prefix(prefix, atom)));
    }
}

impl GatheredAtoms {
    fn clear(&mut self) {
        self.cut(0);
        self.when = 0;
    }

    /// Forget the atoms of levels below `level`.
    fn cut(&mut self, level: Level) {
        if level >= self.checked_level {
            return;
        }
        self.checked_level = level;
        while self.counts.pop_if(|entry| entry.0 > level).is_some() {}
        let count = self.counts.last().map_or(0, |&(_, count)| count);
        self.atoms.drain(count..).for_each(|atom| _ = self.members.remove(&atom));
    }

    fn add(&mut self, level: Level, atoms: &[AtomId]) {
        let before = self.atoms.len();
        self.atoms.extend(atoms.iter().filter(|&&atom| self.members.insert(atom)));
        self.checked_level = level;
        if self.atoms.len() > before {
            self.counts.push((level, self.atoms.len()));
        }
    }

    /// How many atoms elements above a level have.
    fn count_below(&self, level: Level) -> usize {
        let entries = self.counts.partition_point(|&(at, _)| at < level);
        entries.checked_sub(1).map_or(0, |last| self.counts[last].1)
    }
}
