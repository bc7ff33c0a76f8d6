//! Adding new queries to the product states.
//!
//! When queries were only added to the recent segment, what product states accept is extended by what the new queries
//! accept there. The work depends on the new queries, however many there were before. It is done for the states with a
//! known path (see [`super::lookahead`]). Transitions to all others become stale, and messages bring them up to date.

use super::lookahead::{BUDGET_PART, PREFETCHED};
use super::{
    DEAD_STATE, DOCUMENT_STATE, EpochTarget, ProductDfa, ProductPaths, ProductState, STALE, SegmentCaches, UNKNOWN,
};
use crate::automaton::dfa::{DEAD, START};
use crate::automaton::nfa::AcceptItem;
use crate::automaton::nfa::label_paths::ROOT;
use crate::ids::{PathNodeId, ProductStateId, StateId};
use crate::vocabulary::Name;

/// Unused bytes that the recent segment's cache may hold beyond as many as are in use.
const SPARE_BYTES: usize = 1 << 20;
/// Added queries for which finding the paths to states pays.
const ADDED_MANY: usize = 128;

/// Paths are found when this many messages, and one for so many states, have added no transition.
const SETTLED_MIN: usize = 16;
const SETTLED_PART: usize = 8;

impl ProductDfa {
    /// Prepares for a message; `is_prefetch`: for one that may come, and may lead anywhere.
    pub(in super::super) fn catch_up(&mut self, caches: &mut SegmentCaches<'_>, is_prefetch: bool) {
        let query_index = caches.query_index;
        caches.main.prepare(query_index, &query_index.main);
        if !caches.recent.dfa.is_of(&query_index.recent.nfa) && !self.take_in(caches) {
            caches.recent.clear();
        }
        caches.recent.prepare(query_index, &query_index.recent);
        self.prepare(caches);
        if is_prefetch {
            if !self.is_level {
                self.prefetch(caches);
            }
            return;
        }
        self.settled_messages += 1;
        if self.settled_messages > SETTLED_MIN
            && self.settled_messages * SETTLED_PART > self.states.len()
            && !self.has_all_paths()
        {
            self.find_paths();
        }
    }

    /// Takes in what changed in the recent segment. Returns `false` if that is not possible, or not worth it.
    fn take_in(&mut self, caches: &mut SegmentCaches<'_>) -> bool {
        let nfa = &caches.query_index.recent.nfa;
        let Some(added) = caches.recent.dfa.added_since(nfa) else { return false };
        let generations = (caches.main.dfa.generation(), caches.recent.dfa.generation());
        if self.generations != generations || self.is_worn() {
            return false;
        }
        if self.paths.is_broken || added.len() >= ADDED_MANY && !self.has_all_paths() {
            self.find_paths();
        }
        if !self.paths.has_paths {
            return false;
        }
        caches.recent.dfa.clear_states();
        self.forget_recent(caches);
        let Some(is_complete) = self.add_to_states(caches, added) else { return false };
        self.is_level &= is_complete;
        // Where all states with a path are up to date, bringing all up to date at once is of no use.
        let is_of_use = !(self.is_level && self.has_all_paths());
        self.followed_again = if is_of_use { self.followed_again % PREFETCHED } else { PREFETCHED };
        let bytes = caches.recent.bytes();
        if self.acceptance_bytes == 0 {
            self.acceptance_bytes = bytes;
        }
        bytes < 2 * self.acceptance_bytes + SPARE_BYTES
    }

    /// Follows the removal of the recent segment's DFA states. Product states with a known path keep what they accept;
    /// transitions to others become stale.
    fn forget_recent(&mut self, caches: &mut SegmentCaches<'_>) {
        for state in self.with_recent.drain(..).filter(|&state| state > DOCUMENT_STATE) {
            self.states[state.index()].recent = UNKNOWN;
        }
        self.ids_by_pair.clear();
        self.ids_by_pair.insert((DEAD, DEAD), DEAD_STATE);
        self.ids_by_pair.insert((START, START), DOCUMENT_STATE);
        let fresh = std::mem::take(&mut self.fresh);
        for (from, name) in fresh {
            match self.transitions.get(from, name).map(EpochTarget::state) {
                Some(to) if !self.paths.has(to) => self.make_stale(from, name, to),
                _ => {}
            }
        }
        if caches.recent.dfa.is_worn() {
            let epoch = self.epoch;
            let is_current = |state: &&mut ProductState| state.epoch == epoch;
            let states = self.states.iter_mut().filter(is_current);
            caches.recent.dfa.compact_lists(states.map(|state| &mut state.acceptances.1));
        }
    }

    /// Makes a transition stale, and the state that it leads to.
    fn make_stale(&mut self, from: ProductStateId, name: Name, to: ProductStateId) {
        self.transitions.set(from, name, EpochTarget::new(to, STALE));
        if to > DOCUMENT_STATE {
            self.states[to.index()].epoch = STALE;
        }
    }

    /// Adds new items to the states whose paths are known. Returns whether that was possible for all of them; `None` if it
    /// takes too much memory, as where very many queries select nearly everything. Some states were extended then.
    fn add_to_states(&mut self, caches: &mut SegmentCaches<'_>, added: &[(StateId, AcceptItem)]) -> Option<bool> {
        let mut new_acceptances = std::mem::take(&mut self.new_acceptances);
        let mut paths = std::mem::take(&mut self.paths);
        let mut scratch = std::mem::take(&mut paths.added);
        let bytes_max = caches.budget / BUDGET_PART;
        let mut is_complete = true;
        let nfa = &caches.query_index.recent.nfa;
        let nodes_max = bytes_max / size_of::<PathNodeId>();
        let has_collected = scratch.each(&paths.tree, (nfa, added), nodes_max, |item, nodes| {
            match item {
                AcceptItem::Accept(query) => nodes.iter().for_each(|&node| new_acceptances.add(node, query)),
                AcceptItem::Twig(_) | AcceptItem::Trigger(_) | AcceptItem::Access(_) => {
                    // It would have to be merged with the other undecided items of the state.
                    is_complete = false;
                    for &node in nodes.iter().filter(|&&node| node != ROOT) {
                        let state = paths.state(node);
                        let origin = self.origins[state.index()];
                        self.make_stale(origin.from, origin.name, state);
                    }
                }
            }
            new_acceptances.bytes() <= bytes_max
        });
        paths.added = scratch;
        let is_updated = has_collected && self.extend_states(&mut new_acceptances, &paths, caches, bytes_max);
        new_acceptances.clear();
        (self.new_acceptances, self.paths) = (new_acceptances, paths);
        is_updated.then_some(is_complete)
    }

    /// Extends what states accept by new acceptances. Returns `false` if that takes more than `bytes_max` bytes.
    fn extend_states(
        &mut self,
        new_acceptances: &mut NewAcceptances,
        paths: &ProductPaths,
        caches: &mut SegmentCaches<'_>,
        bytes_max: usize,
    ) -> bool {
        let bytes_max = caches.recent.dfa.bytes() + bytes_max;
        for index in 0..new_acceptances.nodes.len() {
            let node = new_acceptances.nodes[index];
            let queries = new_acceptances.take(node);
            if node == ROOT {
                continue;
            }
            let state = &mut self.states[paths.state(node).index()];
            if state.epoch == self.epoch {
                state.acceptances.1 = caches.recent.dfa.extend_acceptance(state.acceptances.1, queries);
                state.notes.1 = <_>::default();
            }
            if caches.recent.dfa.bytes() > bytes_max {
                return false;
            }
        }
        true
    }
}

/// The new queries that are accepted at each node of the tree of paths, as linked lists.
#[derive(Debug, Default)]
pub(super) struct NewAcceptances {
    /// The nodes that have any.
    nodes: Vec<PathNodeId>,
    /// For each node, one more than the index of its last query; 0 if it has none.
    last: Vec<u32>,
    /// Queries, each with the one before it at the same node, in the same way.
    queries: Vec<(u32, u32)>,
}

impl NewAcceptances {
    fn add(&mut self, node: PathNodeId, query: u32) {
        if self.last.len() <= node.index() {
            self.last.resize(node.index() + 1, 0);
        }
        let last = &mut self.last[node.index()];
        if *last == 0 {
            self.nodes.push(node);
        }
        self.queries.push((query, *last));
        *last = self.queries.len() as u32;
    }

    /// Removes the queries of a node and returns them.
    fn take(&mut self, node: PathNodeId) -> impl Iterator<Item = u32> {
        let mut next = std::mem::take(&mut self.last[node.index()]);
        std::iter::from_fn(move || {
            let &(query, before) = self.queries.get((next as usize).checked_sub(1)?)?;
            next = before;
            Some(query)
        })
    }

    fn bytes(&self) -> usize {
        self.queries.len() * size_of::<(u32, u32)>()
    }

    fn clear(&mut self) {
        for node in self.nodes.drain(..) {
            self.last[node.index()] = 0;
        }
        self.queries.clear();
        self.queries.shrink_to(SPARE_BYTES / size_of::<(u32, u32)>());
    }
}
