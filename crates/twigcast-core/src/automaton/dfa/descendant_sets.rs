//! Sets of descendant-children. Once active, they stay active below, so all states reached from one state have the same
//! ones: most of what is active at an element. They are kept apart, as sets that grow by what each level of a message
//! adds, and what an element name leads to from the ones that one level added is computed once for all states below.

use hashbrown::HashTable;
use rustc_hash::FxHashMap;

use super::list_pool::{ListPool, ListRange};
use super::{LazyEdgeFilter, StatePart, StatePartBuilder, mixed};
use crate::automaton::nfa::{Nfa, StateId};
use crate::vocabulary::Name;

/// Number of a set.
pub(super) type DescendantSetId = u32;
/// The set of none.
pub(super) const NONE: DescendantSetId = 0;

#[derive(Debug)]
struct DescendantSet {
    /// All members, ascending.
    members: ListRange,
    /// The set that it grew from when it was first met.
    before: DescendantSetId,
    /// The members that came, as far as labelled edges leave them.
    labelled: ListRange,
    /// Where the `*` edges of those that came lead.
    stars: StatePart,
    hash: u64,
}

/// See the module's documentation. Lists are kept by the caller.
#[derive(Debug, Default)]
pub(super) struct DescendantSets {
    /// The first is [`NONE`], of which there is nothing to say; so it is not kept.
    sets: Vec<DescendantSet>,
    ids_by_content: HashTable<DescendantSetId>,
    /// Where names lead from the members that a set added to the one before it.
    steps: FxHashMap<(DescendantSetId, Name), StatePart>,
    /// Scratch.
    grown: Vec<StateId>,
}

impl DescendantSets {
    pub(super) fn clear(&mut self) {
        self.sets.clear();
        self.ids_by_content.clear();
        self.steps.clear();
    }

    pub(super) fn bytes(&self) -> usize {
        self.sets.len() * (size_of::<DescendantSet>() + 8)
            + self.steps.len() * (size_of::<((DescendantSetId, Name), StatePart)>() + 8)
    }

    fn set(&self, id: DescendantSetId) -> &DescendantSet {
        &self.sets[id as usize - 1]
    }

    fn members<'a>(&self, lists: &'a ListPool, id: DescendantSetId) -> &'a [StateId] {
        if id == NONE { &[] } else { lists.get(self.set(id).members) }
    }

    /// The set with further members, which may be there already.
    pub(super) fn grow(
        &mut self,
        nfa: &Nfa,
        lists: &mut ListPool,
        before: DescendantSetId,
        more: &mut Vec<StateId>,
        collected: &mut StatePartBuilder,
    ) -> DescendantSetId {
        more.sort_unstable();
        more.dedup();
        let had = self.members(lists, before);
        remove_sorted(more, had);
        if more.is_empty() {
            return before;
        }
        self.grown.clear();
        merge(had, more, &mut self.grown);
        let hash = self.grown.iter().fold(0_u64, |sum, &member| sum.wrapping_add(mixed(member)));
        let is_same = |&id: &DescendantSetId| {
            let set = &self.sets[id as usize - 1];
            set.hash == hash && lists.get(set.members) == self.grown
        };
        if let Some(&existing) = self.ids_by_content.find(hash, is_same) {
            return existing;
        }
        let members = lists.add(&self.grown);
        collected.clear();
        self.grown.clear();
        for &member in more.iter() {
            // No epsilon edge leaves a state that one leads to.
            let (is_labelled, star, _) = nfa.edges(member);
            if is_labelled {
                self.grown.push(member);
            }
            if let Some(star) = star {
                collected.push(nfa, star);
            }
        }
        let set =
            DescendantSet { members, before, labelled: lists.add(&self.grown), stars: collected.keep(lists), hash };
        self.sets.push(set);
        let id = self.sets.len() as DescendantSetId;
        let sets = &self.sets;
        self.ids_by_content.insert_unique(hash, id, |&id| sets[id as usize - 1].hash);
        id
    }

    /// Append where a name leads from all members of a set.
    pub(super) fn step(
        &mut self,
        nfa: &Nfa,
        lists: &mut ListPool,
        mut id: DescendantSetId,
        name: Name,
        filter: &mut LazyEdgeFilter,
        (all, some): (&mut StatePartBuilder, &mut StatePartBuilder),
    ) {
        let edges = nfa.edges_by_name(name);
        while id != NONE {
            let set = &self.sets[id as usize - 1];
            let segment = *self.steps.entry((id, name)).or_insert_with(|| {
                some.clear();
                some.append(lists, set.stars);
                let labelled = lists.get(set.labelled);
                let filter = filter.edges_requested(nfa, labelled.len());
                for &member in labelled {
                    nfa.follow_labelled(member, edges, filter, |target| some.push(nfa, target));
                }
                some.keep(lists)
            });
            all.append(lists, segment);
            id = set.before;
        }
    }
}

/// Take the members of `known`, which is sorted, out of `list`, which is sorted.
fn remove_sorted(list: &mut Vec<StateId>, existing: &[StateId]) {
    let mut rest = existing;
    list.retain(|&member| {
        let skipped = rest.iter().take_while(|&&other| other < member).count();
        rest = &rest[skipped..];
        rest.first() != Some(&member)
    });
}

/// Append all members of two sorted lists, sorted.
fn merge(one: &[StateId], other: &[StateId], all: &mut Vec<StateId>) {
    let mut rest = one;
    for &member in other {
        let before = rest.iter().take_while(|&&existing| existing < member).count();
        all.extend_from_slice(&rest[..before]);
        all.push(member);
        rest = &rest[before..];
    }
    all.extend_from_slice(rest);
}
