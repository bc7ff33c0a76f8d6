//! Bringing all product states up to date at once, instead of one by one where messages lead.
//!
//! This works for states to which exactly one path leads, which on ordinary feeds are nearly all. Where several paths lead
//! to a state, a message may come along any of them.

use super::{DEAD_STATE, DOCUMENT_STATE, EpochTarget, ProductDfa, SegmentCaches, StateOrigin, UNKNOWN};
use crate::automaton::nfa::label_paths::{AddedScratch, LabelPathStep, PathTree};
use crate::ids::{PathNodeId, ProductStateId};

/// Following one transition again takes about as long as bringing so many product states, or so many states of the NFA, up to
/// date together. All states are brought up to date once the transitions that were followed one by one have taken about half
/// the time of that.
const PRODUCT_STATES_PER_STEP: usize = 256;
const NFA_STATES_PER_STEP: usize = 128;
/// Transitions that are followed one by one in any case.
const STEPS_MIN: usize = 16;
/// Steps of sets for each product state and NFA state, at most: more are not worth it.
const STEPS_EACH_MAX: usize = 32;
/// Acceptances that no message has asked for may take one part in so many of the cache.
pub(super) const BUDGET_PART: usize = 4;

/// In place of a number of transitions: all states were brought up to date in this epoch.
pub(super) const PREFETCHED: usize = usize::MAX;

/// The paths to product states, as far as exactly one leads to each.
#[derive(Debug, Default)]
pub(super) struct ProductPaths {
    pub(super) tree: PathTree,
    /// For each node of the tree but the root, its product state and the index of the transition to it.
    nodes: Vec<(ProductStateId, usize)>,
    /// The node of each product state, or [`PathNodeId::ABSENT`].
    node_of: Vec<PathNodeId>,
    /// The version of the product DFA that the paths belong to.
    version: u64,
    pub(super) has_paths: bool,
    /// Another path to one of the states was found since.
    pub(super) is_broken: bool,
    pub(super) added: AddedScratch,
}

impl ProductPaths {
    pub(super) fn bytes(&self) -> usize {
        self.tree.bytes()
            + self.nodes.len() * size_of::<(ProductStateId, usize)>()
            + self.node_of.len() * size_of::<PathNodeId>()
            + self.added.bytes()
    }

    /// Returns the product state of a node, which is not the root.
    pub(super) fn state(&self, node: PathNodeId) -> ProductStateId {
        self.nodes[node.index() - 1].0
    }

    /// Returns `true` if the path to a product state is known.
    pub(super) fn has(&self, state: ProductStateId) -> bool {
        self.node_of.get(state.index()).is_some_and(|&node| node != PathNodeId::ABSENT)
    }

    /// Marks the paths as broken if a second path leads to one of their product states.
    pub(super) fn mark_several_paths(&mut self, state: ProductStateId) {
        self.is_broken |= self.has(state);
    }
}

impl ProductDfa {
    /// Counts a transition of an earlier epoch that is about to be followed. Returns `true` if by now it costs no more to
    /// bring all states up to date at once. That is tried once an epoch.
    pub(super) fn is_prefetch_due(&mut self, caches: &SegmentCaches<'_>) -> bool {
        if self.followed_again == PREFETCHED {
            return false;
        }
        self.followed_again += 1;
        let states = caches.query_index.recent.nfa.state_count();
        self.followed_again > STEPS_MIN + self.states.len() / PRODUCT_STATES_PER_STEP + states / NFA_STATES_PER_STEP
    }

    /// Brings all states with exactly one path up to date, or as many as the budget allows.
    pub(super) fn prefetch(&mut self, caches: &mut SegmentCaches<'_>) {
        self.followed_again = PREFETCHED;
        self.prefetches += 1;
        if !self.has_all_paths() {
            self.find_paths();
        }
        let epoch = self.epoch;
        let SegmentCaches { query_index, recent, budget, .. } = caches;
        let budget = recent.dfa.bytes() + *budget / BUDGET_PART;
        let nfa = &query_index.recent.nfa;
        let steps_max = (self.paths.nodes.len() + nfa.state_count()) * STEPS_EACH_MAX;
        let Some(reached) = self.paths.tree.reached(nfa, steps_max) else { return };
        for (node, &(id, transition)) in (1..).zip(&self.paths.nodes) {
            let state = &mut self.states[id.index()];
            if state.epoch != epoch {
                let members = reached.of(node);
                let Ok(acceptance) = recent.dfa.stateless_acceptance(nfa, *query_index, members, budget) else {
                    return;
                };
                state.set_recent(epoch, UNKNOWN, acceptance);
                self.transitions.set_at(transition, EpochTarget::new(id, epoch));
            }
        }
        self.is_level = true;
    }

    /// Returns `true` if the known paths are those of all states as they are now.
    pub(super) fn has_all_paths(&self) -> bool {
        self.paths.has_paths && self.paths.version == self.version
    }

    /// Finds the paths to all states as they are now.
    pub(super) fn find_paths(&mut self) {
        let is_only = |to: ProductStateId| to != DEAD_STATE && to != DOCUMENT_STATE && self.origins[to.index()].is_only;
        let mut transition_of = vec![0; self.states.len()];
        let mut steps = Vec::with_capacity(self.transitions.len());
        for (transition, from, name, target) in self.transitions.iter().filter(|(.., to)| is_only(to.state())) {
            let to = target.state();
            transition_of[to.index()] = transition;
            steps.push(LabelPathStep { from: from.as_u32(), name, to: to.as_u32() });
        }
        let tree = PathTree::new(&mut steps, DOCUMENT_STATE.as_u32(), self.states.len());
        let states = tree.steps.iter().skip(1).map(|&step| ProductStateId::from_u32(steps[step as usize].to));
        let nodes: Vec<_> = states.map(|state| (state, transition_of[state.index()])).collect();
        let mut node_of = vec![PathNodeId::ABSENT; self.states.len()];
        (1..).zip(&nodes).for_each(|(node, &(state, _))| node_of[state.index()] = PathNodeId::new(node));
        let before = std::mem::take(&mut self.paths);
        let mut added = before.added;
        added.clear();
        self.paths =
            ProductPaths { tree, nodes, node_of, version: self.version, has_paths: true, is_broken: false, added };
        // States whose only path was known until now are no longer on a known path.
        for (state, _) in before.nodes.into_iter().filter(|&(state, _)| !self.paths.has(state)) {
            if let Some(StateOrigin { from, name, .. }) = self.origins.get(state.index()) {
                self.fresh.push((*from, *name));
            }
        }
    }
}
