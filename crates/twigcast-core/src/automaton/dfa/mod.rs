//! The lazy DFA: sets of NFA states that messages lead to, each built once and kept in a bounded cache (Green et al.,
//! "Processing XML streams with deterministic automata and stream indexes", 2004; the cache follows regex-automata's
//! hybrid DFA).
//!
//! One element costs one lookup, however many queries there are. The items of a state's NFA states are merged when the
//! state is built.
//!
//! A state has two parts. The NFA states that the last element led to are listed with the state. Those that stay active
//! below an element whatever follows are a set that is shared by all states with the same ones ([`descendant_sets`]). What
//! leaves a state is prepared when the first transition is built: most states are reached by elements without children.

mod descendant_sets;
mod list_pool;
mod state_decisions;
mod state_part;
mod transitions;

use std::num::NonZeroU32;

use hashbrown::HashTable;
use rustc_hash::FxHashMap;

use self::descendant_sets::DescendantSets;
use self::list_pool::{ListPool, ListRange};
pub use self::state_decisions::{StateDecisions, TriggerConditions};
use self::state_part::{LazyEdgeFilter, StateLists, StatePart, StatePartBuilder, hash_of, mixed};
pub(crate) use self::transitions::Transitions;
use super::nfa::{AcceptItem, INITIAL, Nfa, NfaVersion};
use crate::ids::{DescendantSetId, DfaId, StateId};
use crate::vocabulary::Name;

/// The state without active NFA states: nothing below can match.
pub const DEAD: DfaId = DfaId::from_u32(0);
/// The state of the document node.
pub const START: DfaId = DfaId::from_u32(1);

/// The cache has reached its budget; see [`LazyDfa::next`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheFull;

/// Entries that acceptance lists may have beyond twice those in use, before [`LazyDfa::is_worn`].
const SPARE_ENTRIES: usize = 1 << 15;

/// In place of an index into [`LazyDfa::exits`]: not prepared yet.
const NO_EXITS: u32 = u32::MAX;

/// The acceptance of a state: the queries that match when it is reached, and what remains to be decided.
#[derive(Clone, Copy, Debug, Default)]
pub struct Acceptance {
    accepts: ListRange<u32>,
    /// One more than the index of the undecided items.
    undecided: Option<NonZeroU32>,
}

impl Acceptance {
    /// Returns the index of the undecided items, if there are any.
    #[inline]
    pub fn undecided(self) -> Option<u32> {
        self.undecided.map(|number| number.get() - 1)
    }
}

#[derive(Debug)]
struct StateRecord {
    acceptance: Acceptance,
    /// The active NFA states, except those of the descendant set.
    members: ListRange<StateId>,
    descendant_set: DescendantSetId,
    /// The index of the state's [`Exits`], or [`NO_EXITS`].
    exits: u32,
    hash: u64,
}

/// The acceptance of some NFA states for which no DFA state is built.
#[derive(Clone, Copy, Debug)]
struct StatelessAcceptance {
    members: ListRange<StateId>,
    acceptance: Acceptance,
    hash: u64,
}

/// The edges that leave a state.
#[derive(Clone, Copy, Debug)]
struct Exits {
    /// Members that edges with a name test leave.
    labelled: ListRange<StateId>,
    /// The targets of the `*` edges of members.
    stars: StatePart,
    /// The descendant set of the states that transitions lead to.
    descendant_set: DescendantSetId,
}

/// The cache of DFA states. One per matching thread.
///
/// All states belong to one version of the NFA ([`Self::is_of`]). Two states never have the same NFA states.
#[derive(Debug, Default)]
pub struct LazyDfa {
    states: Vec<StateRecord>,
    undecided: Vec<StateDecisions>,
    exits: Vec<Exits>,
    ids_by_members: HashTable<DfaId>,
    /// Acceptances of NFA states for which there is no DFA state, and their indexes by NFA states.
    stateless_acceptances: Vec<StatelessAcceptance>,
    stateless_index: HashTable<u32>,
    /// Acceptance lists that were extended while no DFA state existed. Keyed by the previous list and a hash of the added
    /// queries.
    extended_acceptances: FxHashMap<(ListRange<u32>, u64), ListRange<u32>>,
    transitions: Transitions<DfaId, DfaId>,
    descendant_sets: DescendantSets,
    lists: StateLists,
    next_twigs_version: u32,
    undecided_bytes: usize,
    /// The version of the NFA that all this belongs to.
    position: NfaVersion,
    /// Entries of acceptance lists that were in use after the last [`Self::compact_lists`].
    entries_in_use: usize,
    filter: LazyEdgeFilter,
    generation: u64,
    scratch: Scratch,
}

#[derive(Debug, Default)]
struct Scratch {
    collected: StatePartBuilder,
    part: StatePartBuilder,
    list: Vec<StateId>,
    queries: Vec<u32>,
    sorted: (Vec<StateId>, Vec<StateId>),
}

impl LazyDfa {
    /// Creates an empty cache.
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes all states. Versions of twig lists go on, so that decisions memoised for an old one are never mistaken for
    /// those of a new one.
    pub fn clear(&mut self) {
        self.clear_states();
        self.undecided.clear();
        self.undecided_bytes = 0;
        self.lists.accepts.clear();
        self.entries_in_use = 0;
        self.generation += 1;
    }

    /// Removes all states. Acceptances that were handed out stay valid.
    pub fn clear_states(&mut self) {
        self.states.clear();
        self.exits.clear();
        self.ids_by_members.clear();
        self.stateless_acceptances.clear();
        self.stateless_index.clear();
        self.extended_acceptances.clear();
        self.transitions.clear();
        self.descendant_sets.clear();
        self.lists.members.clear();
        self.filter = LazyEdgeFilter::default();
    }

    /// Returns an acceptance with further queries. Acceptances that are extended alike share a list: lists of queries that
    /// select nearly everything are long.
    pub fn extend_acceptance(&mut self, acceptance: Acceptance, added: impl Iterator<Item = u32>) -> Acceptance {
        let Self { lists: StateLists { accepts, .. }, extended_acceptances, scratch: Scratch { queries, .. }, .. } =
            self;
        queries.clear();
        queries.extend_from_slice(accepts.get(acceptance.accepts));
        let before = queries.len();
        queries.extend(added);
        let hash = queries[before..].iter().fold(0, |sum: u64, &query| sum.wrapping_add(mixed(query)));
        let shared = extended_acceptances.entry((acceptance.accepts, hash)).or_default();
        if accepts.get(*shared) != queries {
            *shared = accepts.add(queries);
        }
        Acceptance { accepts: *shared, ..acceptance }
    }

    /// Returns `true` if most entries of acceptance lists are no longer used. To be called while there are no states.
    pub fn is_worn(&self) -> bool {
        self.lists.accepts.len() > 2 * self.entries_in_use + SPARE_ENTRIES
    }

    /// Keeps only the lists of the given acceptances. To be called while there are no states.
    pub fn compact_lists<'a>(&mut self, all: impl Iterator<Item = &'a mut Acceptance>) {
        let before: ListPool<u32> = std::mem::take(&mut self.lists.accepts);
        let mut kept: FxHashMap<ListRange<u32>, ListRange<u32>> = FxHashMap::default();
        for acceptance in all {
            let list = acceptance.accepts;
            acceptance.accepts = *kept.entry(list).or_insert_with(|| self.lists.accepts.add(before.get(list)));
        }
        self.entries_in_use = self.lists.accepts.len();
    }

    /// Returns the number of states.
    pub fn state_count(&self) -> usize {
        self.states.len()
    }

    /// Returns the bytes in use, by estimate.
    pub fn bytes(&self) -> usize {
        // A hash table entry comes on top of each record.
        self.states.len() * (size_of::<StateRecord>() + 8)
            + self.stateless_acceptances.len() * (size_of::<StatelessAcceptance>() + 8)
            + self.exits.len() * size_of::<Exits>()
            + self.transitions.len() * Transitions::<DfaId, DfaId>::BYTES
            + self.lists.bytes()
            + self.descendant_sets.bytes()
            + self.undecided_bytes
            + self.filter.bytes()
    }

    /// Returns `true` if the cache belongs to the NFA as it is now. If not, [`Self::clear`] is due.
    pub fn is_of(&self, nfa: &Nfa) -> bool {
        self.states.is_empty() || nfa.is_at(self.position)
    }

    /// Returns the items that were added to the NFA since the cache was built; `None` if the cache is empty or the NFA
    /// changed in other ways.
    pub fn added_since<'a>(&self, nfa: &'a Nfa) -> Option<&'a [(StateId, AcceptItem)]> {
        if self.states.is_empty() { None } else { nfa.added_since(self.position) }
    }

    /// Builds [`DEAD`] and [`START`] in an empty cache.
    pub fn prepare(&mut self, nfa: &Nfa, conditions: &impl TriggerConditions) {
        if self.states.is_empty() {
            self.position = nfa.position();
            self.scratch.collected.clear();
            self.add(nfa, conditions, descendant_sets::NONE);
            self.scratch.collected.push(nfa, INITIAL);
            self.add(nfa, conditions, descendant_sets::NONE);
        }
    }

    /// Returns what reaching a state says of queries.
    #[inline]
    pub fn acceptance(&self, id: DfaId) -> Acceptance {
        self.states[id.index()].acceptance
    }

    /// Returns the queries that an acceptance says match.
    #[inline]
    pub fn accepts(&self, acceptance: Acceptance) -> &[u32] {
        self.lists.accepts.get(acceptance.accepts)
    }

    /// Returns what else is to be decided at a state, by its index from [`Acceptance::undecided`].
    #[inline]
    pub fn undecided(&self, index: u32) -> &StateDecisions {
        &self.undecided[index as usize]
    }

    /// Returns the generation of the states, which grows with each [`Self::clear`]: ids of states are those of one generation.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the state after the start tag of an element named `name`, below an element of state `from`.
    ///
    /// # Errors
    /// [`CacheFull`] if a state would have to be built and the cache is full. The caller then clears the cache or runs the
    /// NFA itself.
    #[inline]
    pub fn next(
        &mut self,
        nfa: &Nfa,
        conditions: &impl TriggerConditions,
        from: DfaId,
        name: Name,
        budget: usize,
    ) -> Result<DfaId, CacheFull> {
        match self.transitions.get(from, name) {
            Some(existing) => Ok(existing),
            None => self.build_state(nfa, conditions, from, name, budget),
        }
    }

    #[cold]
    fn build_state(
        &mut self,
        nfa: &Nfa,
        conditions: &impl TriggerConditions,
        from: DfaId,
        name: Name,
        budget: usize,
    ) -> Result<DfaId, CacheFull> {
        if self.bytes() >= budget || self.lists.is_full() {
            return Err(CacheFull);
        }
        let exits = self.exits(nfa, from);
        let Scratch { collected, part, .. } = &mut self.scratch;
        collected.clear();
        collected.append(&self.lists, exits.stars);
        let edges = nfa.edges_by_name(name);
        let labelled = self.lists.members.get(exits.labelled);
        let filter = self.filter.for_lookups(nfa, labelled.len());
        for &member in labelled {
            nfa.follow_labelled(member, edges, filter, |target| collected.push(nfa, target));
        }
        let builders = (collected, part);
        self.descendant_sets.step(nfa, &mut self.lists, exits.descendant_set, name, &mut self.filter, builders);
        let id = self.add(nfa, conditions, exits.descendant_set);
        self.transitions.insert(from, name, id);
        Ok(id)
    }

    /// Returns what leaves a state, prepared now if this is the first time.
    fn exits(&mut self, nfa: &Nfa, id: DfaId) -> Exits {
        let state = &mut self.states[id.index()];
        if state.exits != NO_EXITS {
            return self.exits[state.exits as usize];
        }
        state.exits = self.exits.len() as u32;
        let Scratch { collected, list, sorted: (labelled, _), .. } = &mut self.scratch;
        collected.clear();
        list.clear();
        labelled.clear();
        for &member in self.lists.members.get(state.members) {
            let (is_labelled, star, descendant) = nfa.edges(member);
            if is_labelled {
                labelled.push(member);
            }
            if let Some(star) = star {
                collected.push(nfa, star);
            }
            list.extend(descendant);
        }
        let exits = Exits {
            labelled: self.lists.members.add(labelled),
            stars: collected.finish(&mut self.lists),
            descendant_set: self.descendant_sets.grow(nfa, &mut self.lists, state.descendant_set, list, collected),
        };
        self.exits.push(exits);
        exits
    }

    /// Returns the state of the NFA states collected and of a descendant set, which is added if it is new.
    fn add(&mut self, nfa: &Nfa, conditions: &impl TriggerConditions, descendant_set: DescendantSetId) -> DfaId {
        let Self { states, lists, ids_by_members, scratch, .. } = self;
        let members = &scratch.collected.members;
        let hash = mixed(!descendant_set.as_u32()).wrapping_add(hash_of(members));
        let sorted = &mut scratch.sorted;
        let is_same = |&id: &DfaId| {
            let other: &StateRecord = &states[id.index()];
            other.hash == hash
                && other.descendant_set == descendant_set
                && are_same(lists.members.get(other.members), members, sorted)
        };
        if let Some(&id) = ids_by_members.find(hash, is_same) {
            return id;
        }
        let id = DfaId::new(states.len());
        let (acceptance, members) = self.finish_collected(nfa, conditions);
        let Self { states, ids_by_members, .. } = self;
        states.push(StateRecord { acceptance, members, descendant_set, exits: NO_EXITS, hash });
        ids_by_members.insert_unique(hash, id, |&id| states[id.index()].hash);
        id
    }

    /// Stores the NFA states collected. Returns what they say of queries, and their list.
    fn finish_collected(&mut self, nfa: &Nfa, conditions: &impl TriggerConditions) -> (Acceptance, ListRange<StateId>) {
        let collected = &self.scratch.collected;
        let StatePart { members, accepts, is_undecided } = collected.finish(&mut self.lists);
        if !is_undecided {
            return (Acceptance { accepts, undecided: None }, members);
        }
        let decisions = StateDecisions::new(nfa, conditions, &collected.members, self.next_twigs_version);
        self.next_twigs_version += 1;
        self.undecided_bytes += decisions.bytes();
        self.undecided.push(decisions);
        (Acceptance { accepts, undecided: NonZeroU32::new(self.undecided.len() as u32) }, members)
    }

    /// Returns what reaching some NFA states says of queries, without building a state to go on from. It is computed once
    /// for equal lists of NFA states, so that it takes no more memory than states would.
    ///
    /// # Errors
    /// [`CacheFull`] if it would have to be computed and the cache is full.
    pub fn stateless_acceptance(
        &mut self,
        nfa: &Nfa,
        conditions: &impl TriggerConditions,
        members: &[StateId],
        budget: usize,
    ) -> Result<Acceptance, CacheFull> {
        if members.is_empty() {
            return Ok(Acceptance::default());
        }
        let hash = hash_of(members);
        let Self { stateless_acceptances, stateless_index, lists, .. } = self;
        let is_same = |&index: &u32| lists.members.get(stateless_acceptances[index as usize].members) == members;
        if let Some(&index) = stateless_index.find(hash, is_same) {
            return Ok(stateless_acceptances[index as usize].acceptance);
        }
        if self.bytes() >= budget || self.lists.is_full() {
            return Err(CacheFull);
        }
        let collected = &mut self.scratch.collected;
        collected.clear();
        members.iter().for_each(|&member| collected.push(nfa, member));
        let (acceptance, members) = self.finish_collected(nfa, conditions);
        let Self { stateless_acceptances, stateless_index, .. } = self;
        let index = stateless_acceptances.len() as u32;
        stateless_index.insert_unique(hash, index, |&index| stateless_acceptances[index as usize].hash);
        stateless_acceptances.push(StatelessAcceptance { members, acceptance, hash });
        Ok(acceptance)
    }
}

/// Returns `true` if two lists of the same hash are the same sets, whatever their order.
fn are_same(one: &[StateId], other: &[StateId], sorted: &mut (Vec<StateId>, Vec<StateId>)) -> bool {
    if one == other {
        return true;
    }
    let sort = |list: &mut Vec<StateId>, members: &[StateId]| {
        list.clear();
        list.extend_from_slice(members);
        list.sort_unstable();
    };
    sort(&mut sorted.0, one);
    sort(&mut sorted.1, other);
    sorted.0 == sorted.1
}

#[cfg(test)]
mod tests;
