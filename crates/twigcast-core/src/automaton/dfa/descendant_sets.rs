//! Sets of NFA states with a self-loop (`//`).
//!
//! Once such a state is active, it stays active below, so all DFA states reached from one DFA state have the same ones:
//! most of what is active at an element. They are kept apart, as sets that grow by what each level of a message adds. What
//! a name leads to from the members that one level added is computed once for all DFA states below.

use hashbrown::HashTable;
use rustc_hash::FxHashMap;

use super::list_pool::ListRange;
use super::state_part::{LazyEdgeFilter, StateLists, StatePart, StatePartBuilder, hash_of};
use crate::automaton::nfa::Nfa;
use crate::ids::{DescendantSetId, StateId};
use crate::vocabulary::Name;

/// The empty set.
pub(super) const NONE: DescendantSetId = DescendantSetId::from_u32(0);

#[derive(Debug)]
struct DescendantSet {
    /// All members, ascending.
    members: ListRange<StateId>,
    /// The set that this one grew from when it was first needed.
    before: DescendantSetId,
    /// The added members that edges with a name test leave.
    labelled: ListRange<StateId>,
    /// The targets of the `*` edges of the added members.
    stars: StatePart,
    hash: u64,
}

/// All descendant sets of a DFA. The caller keeps the lists.
#[derive(Debug, Default)]
pub(super) struct DescendantSets {
    /// All sets but [`NONE`], in the order of their ids.
    sets: Vec<DescendantSet>,
    ids_by_members: HashTable<DescendantSetId>,
    /// The targets of names from the members that a set added to the one before it.
    steps: FxHashMap<(DescendantSetId, Name), StatePart>,
    /// Scratch.
    grown: Vec<StateId>,
}

impl DescendantSets {
    pub(super) fn clear(&mut self) {
        self.sets.clear();
        self.ids_by_members.clear();
        self.steps.clear();
    }

    pub(super) fn bytes(&self) -> usize {
        self.sets.len() * (size_of::<DescendantSet>() + 8)
            + self.steps.len() * (size_of::<((DescendantSetId, Name), StatePart)>() + 8)
    }

    /// Returns a set with further members, which may be members already. Uses `more` and `part` as working memory.
    pub(super) fn grow(
        &mut self,
        nfa: &Nfa,
        lists: &mut StateLists,
        before: DescendantSetId,
        more: &mut Vec<StateId>,
        part: &mut StatePartBuilder,
    ) -> DescendantSetId {
        more.sort_unstable();
        more.dedup();
        let members = if before == NONE { &[] } else { lists.members.get(self.sets[before.index() - 1].members) };
        remove_sorted(more, members);
        if more.is_empty() {
            return before;
        }
        self.grown.clear();
        merge(members, more, &mut self.grown);
        let hash = hash_of(&self.grown);
        let is_same = |&id: &DescendantSetId| {
            let set = &self.sets[id.index() - 1];
            set.hash == hash && lists.members.get(set.members) == self.grown
        };
        if let Some(&existing) = self.ids_by_members.find(hash, is_same) {
            return existing;
        }
        let members = lists.members.add(&self.grown);
        part.clear();
        self.grown.clear();
        for &member in more.iter() {
            // No epsilon edge leaves a state that one leads to.
            let (is_labelled, star, _) = nfa.edges(member);
            if is_labelled {
                self.grown.push(member);
            }
            if let Some(star) = star {
                part.push(nfa, star);
            }
        }
        let set = DescendantSet {
            members,
            before,
            labelled: lists.members.add(&self.grown),
            stars: part.finish(lists),
            hash,
        };
        self.sets.push(set);
        let id = DescendantSetId::new(self.sets.len());
        let sets = &self.sets;
        self.ids_by_members.insert_unique(hash, id, |&id| sets[id.index() - 1].hash);
        id
    }

    /// Appends where a name leads from all members of a set to `all`. Uses `part` as working memory.
    pub(super) fn step(
        &mut self,
        nfa: &Nfa,
        lists: &mut StateLists,
        mut id: DescendantSetId,
        name: Name,
        filter: &mut LazyEdgeFilter,
        (all, part): (&mut StatePartBuilder, &mut StatePartBuilder),
    ) {
        let edges = nfa.edges_by_name(name);
        while id != NONE {
            let set = &self.sets[id.index() - 1];
            let step = *self.steps.entry((id, name)).or_insert_with(|| {
                part.clear();
                part.append(lists, set.stars);
                let labelled = lists.members.get(set.labelled);
                let filter = filter.for_lookups(nfa, labelled.len());
                for &member in labelled {
                    nfa.follow_labelled(member, edges, filter, |target| part.push(nfa, target));
                }
                part.finish(lists)
            });
            all.append(lists, step);
            id = set.before;
        }
    }
}

/// Removes the members of `existing` from `list`. Both are sorted.
fn remove_sorted(list: &mut Vec<StateId>, existing: &[StateId]) {
    let mut rest = existing;
    list.retain(|&member| {
        let skipped = rest.iter().take_while(|&&other| other < member).count();
        rest = &rest[skipped..];
        rest.first() != Some(&member)
    });
}

/// Appends the members of two sorted lists without common members, sorted.
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
