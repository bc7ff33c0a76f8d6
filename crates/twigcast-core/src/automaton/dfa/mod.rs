//! The lazy DFA: sets of NFA states that messages really lead to, each made once and kept in a bounded cache (the lazy
//! DFA of Green et al., "Processing XML streams with deterministic automata and stream indexes", 2004; the cache
//! discipline is that of regex-automata's hybrid DFA).
//!
//! One element costs one look-up, however many queries there are. What the queries of a state's NFA states ask for is
//! merged when the state is made.
//!
//! A state is made of two parts. The NFA states that the last element led to are listed with the state; those that stay
//! active below an element whatever follows, the descendant-children, are a set shared by all states that have the same
//! ones ([`descendant_sets`]). What leads on from a state is prepared when something first does: most states are reached by
//! elements without children.

mod descendant_sets;
mod list_pool;
mod state_decisions;
mod transitions;

use std::num::NonZeroU32;

use hashbrown::HashTable;
use rustc_hash::FxHashMap;

use self::descendant_sets::{DescendantSetId, DescendantSets};
use self::list_pool::{ListPool, ListRange};
pub use self::state_decisions::StateDecisions;
pub(crate) use self::transitions::Transitions;
use super::nfa::{AcceptItem, EdgeFilter, INITIAL, Nfa, NfaVersion, StateId};
use crate::access::table::AccessTable;
use crate::predicate::waiters::IndexedTrigger;
use crate::vocabulary::Name;

/// Number of a DFA state.
pub type DfaId = u32;
/// The state of no active NFA state: nothing below can match.
pub const DEAD: DfaId = 0;
/// The state of the document node.
pub const START: DfaId = 1;

/// The cache has reached its budget; see [`LazyDfa::next`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheFull;

/// What a trigger's key is, asked when a state's table is made.
pub trait TriggerConditions {
    /// The packed key of a trigger and what waits for it; `None` if it has no key.
    fn keyed(&self, trigger: u32) -> Option<IndexedTrigger>;

    /// The rarest branch that a twig asks for and what waits for it; `None` if it is to be decided by itself.
    fn branching(&self, twig: u32) -> Option<IndexedTrigger>;

    /// Adds accesses to the table of a state.
    fn insert_access(&self, access: u32, table: &mut AccessTable);
}

/// Numbers that lists may have beyond twice those in use, before they are put together.
const SPARE_NUMBERS: usize = 1 << 15;

/// In place of an index: there is nothing.
const NOTHING: u32 = u32::MAX;

/// What reaching a state says of queries.
#[derive(Clone, Copy, Debug, Default)]
pub struct Acceptance {
    accepts: ListRange,
    /// Index of what else is to be decided, and one.
    undecided: Option<NonZeroU32>,
}

impl Acceptance {
    /// The index of what else is to be decided, if anything is.
    #[inline]
    pub fn undecided(self) -> Option<u32> {
        self.undecided.map(|number| number.get() - 1)
    }
}

#[derive(Debug)]
struct StateRecord {
    acceptance: Acceptance,
    /// The NFA states that are active here, descendant-children aside.
    members: ListRange,
    /// The descendant-children.
    descendant_set: DescendantSetId,
    /// Index of what leads on, or [`NOTHING`] as long as nothing has.
    exits: u32,
    hash: u64,
}

/// What reaching some NFA states says, where there is no state of them.
#[derive(Clone, Copy, Debug)]
struct StatelessAcceptance {
    members: ListRange,
    acceptance: Acceptance,
    hash: u64,
}

/// What leads on from a state.
#[derive(Clone, Copy, Debug)]
struct Exits {
    /// Members that labelled edges leave.
    labelled: ListRange,
    /// Where the `*` edges of members lead.
    stars: StatePart,
    /// The descendant-children below.
    descendant_set: DescendantSetId,
}

/// Part of a state: NFA states, and what they ask for.
#[derive(Clone, Copy, Debug)]
struct StatePart {
    members: ListRange,
    accepts: ListRange,
    /// Members ask for more than the acceptances.
    is_undecided: bool,
}

/// A [`StatePart`] that grows.
#[derive(Debug, Default)]
struct StatePartBuilder {
    members: Vec<StateId>,
    accepts: Vec<u32>,
    is_undecided: bool,
}

impl StatePartBuilder {
    fn clear(&mut self) {
        self.members.clear();
        self.accepts.clear();
        self.is_undecided = false;
    }

    #[inline]
    fn push(&mut self, nfa: &Nfa, member: StateId) {
        self.members.push(member);
        self.is_undecided |= nfa.collect_accepts(member, &mut self.accepts);
    }

    fn append(&mut self, lists: &ListPool, segment: StatePart) {
        self.members.extend_from_slice(lists.get(segment.members));
        self.accepts.extend_from_slice(lists.get(segment.accepts));
        self.is_undecided |= segment.is_undecided;
    }

    fn keep(&self, lists: &mut ListPool) -> StatePart {
        StatePart {
            members: lists.add(&self.members),
            accepts: lists.add(&self.accepts),
            is_undecided: self.is_undecided,
        }
    }
}

/// The filter of the NFA's edges, built once as many edges have been asked for as building it looks at, so that it never
/// costs more than twice what it spares.
#[derive(Debug, Default)]
struct LazyEdgeFilter {
    edges_requested: usize,
    built: Option<EdgeFilter>,
}

impl LazyEdgeFilter {
    /// The filter, if it is worth having by now. `count`: edges about to be asked for.
    fn edges_requested(&mut self, nfa: &Nfa, count: usize) -> Option<&EdgeFilter> {
        self.edges_requested += count;
        if self.built.is_none() && self.edges_requested > nfa.state_count() {
            self.built = Some(EdgeFilter::of(nfa));
        }
        self.built.as_ref()
    }
}

/// A number's share in the hash of a set; the sum over the members does not depend on their order.
#[inline]
fn mixed(member: u32) -> u64 {
    let mixed = (u64::from(member) + 0x51_7cc1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// The cache of DFA states. One per matching thread.
#[derive(Debug, Default)]
pub struct LazyDfa {
    states: Vec<StateRecord>,
    undecided: Vec<StateDecisions>,
    exits: Vec<Exits>,
    states_by_content: HashTable<DfaId>,
    /// What was told without a state, by the NFA states reached.
    stateless_acceptances: Vec<StatelessAcceptance>,
    stateless_index: HashTable<u32>,
    /// What was told more without a state, by what was told before and a hash of the queries that came.
    extended_acceptances: FxHashMap<(ListRange, u64), ListRange>,
    transitions: Transitions,
    descendant_set: DescendantSets,
    lists: ListPool,
    next_twigs_version: u32,
    undecided_bytes: usize,
    /// How the NFA was when all this was made.
    position: NfaVersion,
    /// Numbers in the lists that were in use when they were last put together.
    lists_kept: usize,
    filter: LazyEdgeFilter,
    generation: u64,
    scratch: Scratch,
}

#[derive(Debug, Default)]
struct Scratch {
    collected: StatePartBuilder,
    part: StatePartBuilder,
    list: Vec<StateId>,
    sorted: (Vec<StateId>, Vec<StateId>),
}

impl LazyDfa {
    /// An empty cache.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forget all states; version numbers go on, so that nothing filed under an old one is mistaken for new.
    pub fn clear(&mut self) {
        self.clear_states();
        self.undecided.clear();
        self.undecided_bytes = 0;
        self.lists.clear();
        self.lists_kept = 0;
        self.generation += 1;
    }

    /// Forget all states, but not what was told.
    pub fn clear_states(&mut self) {
        self.states.clear();
        self.exits.clear();
        self.states_by_content.clear();
        self.stateless_acceptances.clear();
        self.stateless_index.clear();
        self.extended_acceptances.clear();
        self.transitions.clear();
        self.descendant_set.clear();
        self.filter = LazyEdgeFilter::default();
    }

    /// What was told, and further queries that match. Where several are told the same and more, they share a list: those
    /// of queries that select nearly everything are long.
    pub fn extend_acceptance(&mut self, acceptance: Acceptance, queries: impl Iterator<Item = u32>) -> Acceptance {
        let Self { lists, extended_acceptances: told_more, scratch: Scratch { list: accepts, .. }, .. } = self;
        accepts.clear();
        accepts.extend_from_slice(lists.get(acceptance.accepts));
        let before = accepts.len();
        accepts.extend(queries);
        let new = accepts[before..].iter().fold(0, |sum: u64, &query| sum.wrapping_add(mixed(query)));
        let shared = told_more.entry((acceptance.accepts, new)).or_default();
        if lists.get(*shared) != accepts {
            *shared = lists.add(accepts);
        }
        Acceptance { accepts: *shared, ..acceptance }
    }

    /// Are the lists mostly of what nobody needs any more, where there are no states?
    pub fn is_worn(&self) -> bool {
        self.lists.len() > 2 * self.lists_kept + SPARE_NUMBERS
    }

    /// Where there are no states: keep only the lists of what is still told.
    pub fn tidy<'a>(&mut self, all: impl Iterator<Item = &'a mut Acceptance>) {
        let before = std::mem::take(&mut self.lists);
        let mut kept: FxHashMap<ListRange, ListRange> = FxHashMap::default();
        for acceptance in all {
            let list = acceptance.accepts;
            acceptance.accepts = *kept.entry(list).or_insert_with(|| self.lists.add(before.get(list)));
        }
        self.lists_kept = self.lists.len();
    }

    /// How many states there are.
    pub fn state_count(&self) -> usize {
        self.states.len()
    }

    /// Bytes in use, by estimate.
    pub fn bytes(&self) -> usize {
        // A hash entry comes on top of what a state is.
        self.states.len() * (size_of::<StateRecord>() + 8)
            + self.stateless_acceptances.len() * (size_of::<StatelessAcceptance>() + 8)
            + self.exits.len() * size_of::<Exits>()
            + self.transitions.len() * Transitions::BYTES
            + self.lists.bytes()
            + self.descendant_set.bytes()
            + self.undecided_bytes
            + self.filter.built.as_ref().map_or(0, EdgeFilter::bytes)
    }

    /// Was it made from the NFA as it is now? If not, [`Self::clear`] is due.
    pub fn is_of(&self, nfa: &Nfa) -> bool {
        self.states.is_empty() || nfa.is_at(self.position)
    }

    /// What was added to the NFA since this was made of it; `None` if there is nothing yet, or it changed in other ways.
    pub fn added_since<'a>(&self, nfa: &'a Nfa) -> Option<&'a [(StateId, AcceptItem)]> {
        if self.states.is_empty() { None } else { nfa.added_since(self.position) }
    }

    /// Make sure that [`DEAD`] and [`START`] exist.
    pub fn prepare(&mut self, nfa: &Nfa, keys: &impl TriggerConditions) {
        if self.states.is_empty() {
            self.position = nfa.position();
            self.scratch.collected.clear();
            self.add(nfa, keys, descendant_sets::NONE);
            self.scratch.collected.push(nfa, INITIAL);
            self.add(nfa, keys, descendant_sets::NONE);
        }
    }

    /// What reaching a state says of queries.
    #[inline]
    pub fn acceptance(&self, id: DfaId) -> Acceptance {
        self.states[id as usize].acceptance
    }

    /// The queries that match when a state is reached.
    #[inline]
    pub fn accepts(&self, acceptance: Acceptance) -> &[u32] {
        self.lists.get(acceptance.accepts)
    }

    /// What else is to be decided at a state, by the index that [`Acceptance::undecided`] tells.
    #[inline]
    pub fn undecided(&self, index: u32) -> &StateDecisions {
        &self.undecided[index as usize]
    }

    /// Changes whenever all states are forgotten.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The state after an element named `name` below an element of state `from`.
    ///
    /// # Errors
    /// [`CacheFull`] when a state would have to be made and the cache is full. The caller then clears the cache or
    /// runs the NFA itself.
    #[inline]
    pub fn next(
        &mut self,
        nfa: &Nfa,
        keys: &impl TriggerConditions,
        from: DfaId,
        name: Name,
        budget: usize,
    ) -> Result<DfaId, CacheFull> {
        match self.transitions.get(from, name) {
            Some(existing) => Ok(existing),
            None => self.build_state(nfa, keys, from, name, budget),
        }
    }

    #[cold]
    fn build_state(
        &mut self,
        nfa: &Nfa,
        keys: &impl TriggerConditions,
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
        let labelled = self.lists.get(exits.labelled);
        let filter = self.filter.edges_requested(nfa, labelled.len());
        for &member in labelled {
            nfa.follow_labelled(member, edges, filter, |target| collected.push(nfa, target));
        }
        self.descendant_set.step(nfa, &mut self.lists, exits.descendant_set, name, &mut self.filter, (collected, part));
        let id = self.add(nfa, keys, exits.descendant_set);
        self.transitions.insert(from, name, id);
        Ok(id)
    }

    /// What leads on from a state, prepared now if nothing did before.
    fn exits(&mut self, nfa: &Nfa, id: DfaId) -> Exits {
        let state = &mut self.states[id as usize];
        if state.exits != NOTHING {
            return self.exits[state.exits as usize];
        }
        state.exits = self.exits.len() as u32;
        let Scratch { collected, list, sorted: (labelled, _), .. } = &mut self.scratch;
        collected.clear();
        list.clear();
        labelled.clear();
        for &member in self.lists.get(state.members) {
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
            labelled: self.lists.add(labelled),
            stars: collected.keep(&mut self.lists),
            descendant_set: self.descendant_set.grow(nfa, &mut self.lists, state.descendant_set, list, collected),
        };
        self.exits.push(exits);
        exits
    }

    /// The state of the NFA states collected and of descendant-children.
    fn add(&mut self, nfa: &Nfa, keys: &impl TriggerConditions, descendants: DescendantSetId) -> DfaId {
        let Self { states, lists, states_by_content, scratch, .. } = self;
        let members = &scratch.collected.members;
        let hash = members.iter().fold(mixed(!descendants), |sum, &member| sum.wrapping_add(mixed(member)));
        let sorted = &mut scratch.sorted;
        let is_same = |&id: &DfaId| {
            let other: &StateRecord = &states[id as usize];
            other.hash == hash
                && other.descendant_set == descendants
                && are_same(lists.get(other.members), members, sorted)
        };
        if let Some(&id) = states_by_content.find(hash, is_same) {
            return id;
        }
        let id = states.len() as DfaId;
        let StatePart { members, accepts, is_undecided } = scratch.collected.keep(lists);
        let undecided = if is_undecided { self.add_undecided(nfa, keys) } else { None };
        let Self { states, states_by_content, .. } = self;
        states.push(StateRecord {
            acceptance: Acceptance { accepts, undecided },
            members,
            descendant_set: descendants,
            exits: NOTHING,
            hash,
        });
        states_by_content.insert_unique(hash, id, |&id| states[id as usize].hash);
        id
    }

    /// What the NFA states collected leave to be decided.
    fn add_undecided(&mut self, nfa: &Nfa, keys: &impl TriggerConditions) -> Option<NonZeroU32> {
        let state = StateDecisions::of(nfa, keys, &self.scratch.collected.members, self.next_twigs_version);
        self.next_twigs_version += 1;
        self.undecided_bytes += state.bytes();
        self.undecided.push(state);
        NonZeroU32::new(self.undecided.len() as u32)
    }

    /// What reaching some NFA states says of queries, where no state is wanted to go on from. It is found out once for
    /// equal lists: what very many elements have in common is kept no more often than there would be states.
    ///
    /// # Errors
    /// [`CacheFull`] when it would have to be found out and the cache is full.
    pub fn stateless_acceptance(
        &mut self,
        nfa: &Nfa,
        keys: &impl TriggerConditions,
        members: &[StateId],
        budget: usize,
    ) -> Result<Acceptance, CacheFull> {
        if members.is_empty() {
            return Ok(Acceptance::default());
        }
        let hash = members.iter().fold(0, |sum: u64, &member| sum.wrapping_add(mixed(member)));
        let Self { stateless_acceptances: told_of, stateless_index: told_known, lists, .. } = self;
        let is_same = |&index: &u32| lists.get(told_of[index as usize].members) == members;
        if let Some(&index) = told_known.find(hash, is_same) {
            return Ok(told_of[index as usize].acceptance);
        }
        if self.bytes() >= budget || self.lists.is_full() {
            return Err(CacheFull);
        }
        let collected = &mut self.scratch.collected;
        collected.clear();
        members.iter().for_each(|&member| collected.push(nfa, member));
        let StatePart { members, accepts, is_undecided } = collected.keep(&mut self.lists);
        let undecided = if is_undecided { self.add_undecided(nfa, keys) } else { None };
        let extended = Acceptance { accepts, undecided };
        let Self { stateless_acceptances: told_of, stateless_index: told_known, .. } = self;
        told_known.insert_unique(hash, told_of.len() as u32, |&index| told_of[index as usize].hash);
        told_of.push(StatelessAcceptance { members, acceptance: extended, hash });
        Ok(extended)
    }
}

/// Are these the same sets, whatever the order? The hash says so already.
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
