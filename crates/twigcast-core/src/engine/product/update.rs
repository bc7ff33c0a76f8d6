//! Where queries only came since, what is known of places stays, and it is found out what the new ones say there.
//!
//! That is as much work as there are new queries, however many came before. It is done for the places whose paths are
//! known (see [`super::lookahead`]). To all others the automaton of what came lately is led along anew, when a message leads
//! there.

use super::lookahead::{BUDGET_PART, HAS_LOOKED};
use super::{
    DOCUMENT_STATE, NOWHERE, ProductDfa, ProductPaths, ProductStateId, STALE, STATE_BITS, STATES_MAX, SegmentCaches,
    UNLED,
};
use crate::automaton::dfa::{DEAD, START};
use crate::automaton::nfa::label_paths::PathNode;
use crate::automaton::nfa::{AcceptItem, StateId};
use crate::vocabulary::Name;

/// Of a transition that is of no edition.
const STALE_MARK: u32 = (STALE as u32) << STATE_BITS;
/// What may be kept with places that is no use any more, beyond as much as is.
const SPARE_BYTES: usize = 1 << 20;
/// New queries that are worth finding the paths to places for.
const MANY: usize = 128;

/// The paths to places are found when so many messages, and as many as one in so many places, have brought no new one.
const SETTLED_MIN: usize = 16;
const SETTLED_PART: usize = 8;

impl ProductDfa {
    /// Make ready for a message; `is_ahead`: for one that may come, when it may lead anywhere.
    pub(in super::super) fn catch_up(&mut self, layers: &mut SegmentCaches<'_>, is_prefetch: bool) {
        let population = layers.population;
        layers.main.prepare(population, &population.main);
        if !layers.recent.dfa.is_of(&population.recent.nfa) && !self.take_in(layers) {
            layers.recent.clear();
        }
        layers.recent.prepare(population, &population.recent);
        self.prepare(layers);
        if is_prefetch {
            if !self.is_level {
                self.prefetch(layers);
            }
            return;
        }
        self.settled += 1;
        if self.settled > SETTLED_MIN && self.settled * SETTLED_PART > self.states.len() && !self.has_all_paths() {
            self.find_paths();
        }
    }

    /// Take in what came since; false: that cannot be.
    fn take_in(&mut self, layers: &mut SegmentCaches<'_>) -> bool {
        let nfa = &layers.population.recent.nfa;
        let Some(added) = layers.recent.dfa.added_since(nfa) else { return false };
        let generations = (layers.main.dfa.generation(), layers.recent.dfa.generation());
        if self.generations != generations || self.is_worn() {
            return false;
        }
        if self.paths.is_broken || added.len() >= MANY && !self.has_all_paths() {
            self.find_paths();
        }
        if !self.paths.has_paths {
            return false;
        }
        layers.recent.dfa.clear_states();
        self.forget_states(layers);
        let Some(is_complete) = self.update_states(layers, added) else { return false };
        self.is_level &= is_complete;
        // To look at all places at once is of no use where those with a path are known.
        let is_of_use = !(self.is_level && self.has_all_paths());
        self.led_again = if is_of_use { self.led_again % HAS_LOOKED } else { HAS_LOOKED };
        let bytes = layers.recent.bytes();
        if self.acceptance_bytes == 0 {
            self.acceptance_bytes = bytes;
        }
        bytes < 2 * self.acceptance_bytes + SPARE_BYTES
    }

    /// The states of what came lately are no more. Places stay, where it is known what they would be.
    fn forget_states(&mut self, layers: &mut SegmentCaches<'_>) {
        for state in self.led.drain(..).filter(|&state| state > DOCUMENT_STATE) {
            self.states[state as usize].recent = UNLED;
        }
        self.states_by_pair.clear();
        self.states_by_pair.insert((DEAD, DEAD), NOWHERE);
        self.states_by_pair.insert((START, START), DOCUMENT_STATE);
        let fresh = std::mem::take(&mut self.fresh);
        for (from, name) in fresh {
            match self.transitions.get(from, name).map(|to| to & STATES_MAX) {
                Some(to) if !self.paths.has(to) => self.let_go(from, name, to),
                _ => {}
            }
        }
        if layers.recent.dfa.is_worn() {
            let edition = self.edition;
            let is_current = |state: &&mut super::ProductState| state.edition == edition;
            layers.recent.dfa.tidy(self.states.iter_mut().filter(is_current).map(|state| &mut state.acceptances.1));
        }
    }

    /// What is at a place is to be found out when a message leads along a transition to it.
    fn let_go(&mut self, from: ProductStateId, name: Name, to: ProductStateId) {
        self.transitions.set(from, name, STALE_MARK | to);
        if to > DOCUMENT_STATE {
            self.states[to as usize].edition = STALE;
        }
    }

    /// Tell places of what was added; whether that could be done for all whose paths are known. `None`: it is too much, as
    /// where very many queries select nearly everything, and some places were told.
    fn update_states(&mut self, layers: &mut SegmentCaches<'_>, added: &[(StateId, AcceptItem)]) -> Option<bool> {
        let (mut new_acceptances, mut paths) =
            (std::mem::take(&mut self.new_acceptances), std::mem::take(&mut self.paths));
        let mut existing = std::mem::take(&mut paths.added);
        let bytes_max = layers.budget / BUDGET_PART;
        let mut is_complete = true;
        let nfa = &layers.population.recent.nfa;
        let has_paths = existing.each(&paths.tree, (nfa, added), bytes_max / size_of::<PathNode>(), |item, nodes| {
            match item {
                AcceptItem::Accept(query) => nodes.iter().for_each(|&node| new_acceptances.add(node, query)),
                AcceptItem::Twig(_) | AcceptItem::Trigger(_) | AcceptItem::Access(_) => {
                    // It would have to be merged with what else is to be decided there.
                    is_complete = false;
                    for &node in nodes.iter().filter(|&&node| node > 0) {
                        let state = paths.state(node);
                        let origin = self.origins[state as usize];
                        self.let_go(origin.from, origin.name, state);
                    }
                }
            }
            new_acceptances.bytes() <= bytes_max
        });
        paths.added = existing;
        let is_updated = has_paths && self.pass_on(&mut new_acceptances, &paths, layers, bytes_max);
        new_acceptances.clear();
        (self.new_acceptances, self.paths) = (new_acceptances, paths);
        is_updated.then_some(is_complete)
    }

    /// Tell places what is new there; false: that takes more than so many bytes.
    fn pass_on(
        &mut self,
        new_acceptances: &mut NewAcceptances,
        paths: &ProductPaths,
        layers: &mut SegmentCaches<'_>,
        bytes_max: usize,
    ) -> bool {
        let bytes_max = layers.recent.dfa.bytes() + bytes_max;
        for number in 0..new_acceptances.nodes.len() {
            let node = new_acceptances.nodes[number];
            let queries = new_acceptances.take(node);
            if node == 0 {
                continue;
            }
            let state = &mut self.states[paths.state(node) as usize];
            if state.edition == self.edition {
                state.acceptances.1 = layers.recent.dfa.extend_acceptance(state.acceptances.1, queries);
                state.notes.1 = <_>::default();
            }
            if layers.recent.dfa.bytes() > bytes_max {
                return false;
            }
        }
        true
    }
}

/// Which queries are new at which nodes.
#[derive(Debug, Default)]
pub(super) struct NewAcceptances {
    /// The nodes where any are.
    nodes: Vec<PathNode>,
    /// By node: the last of its queries in the list, and one; 0 where there is none.
    last: Vec<u32>,
    /// Queries, each with the one before it at the same node, in the same way.
    queries: Vec<(u32, u32)>,
}

impl NewAcceptances {
    fn add(&mut self, node: PathNode, query: u32) {
        if self.last.len() <= node as usize {
            self.last.resize(node as usize + 1, 0);
        }
        let last = &mut self.last[node as usize];
        if *last == 0 {
            self.nodes.push(node);
        }
        self.queries.push((query, *last));
        *last = self.queries.len() as u32;
    }

    /// The queries of a node, which has none then.
    fn take(&mut self, node: PathNode) -> impl Iterator<Item = u32> {
        let mut next = std::mem::take(&mut self.last[node as usize]);
        std::iter::from_fn(move || {
            let &(query, before) = self.queries.get((next as usize).checked_sub(1)?)?;
            next = before;
            Some(query)
        })
    }

    /// Bytes of what is to be told.
    fn bytes(&self) -> usize {
        self.queries.len() * size_of::<(u32, u32)>()
    }

    /// Forget all, also what was not taken.
    fn clear(&mut self) {
        for node in self.nodes.drain(..) {
            self.last[node as usize] = 0;
        }
        self.queries.clear();
        self.queries.shrink_to(SPARE_BYTES / size_of::<(u32, u32)>());
    }
}
