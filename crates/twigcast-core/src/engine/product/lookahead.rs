//! What came lately is found at all places at once, not where messages lead one by one.
//!
//! Only for places to which there is but one way, which on ordinary feeds are nearly all: of others it is not known which
//! of the ways a message comes.

use super::{DOCUMENT_STATE, NOWHERE, ProductDfa, ProductStateId, STATES_MAX, SegmentCaches, StateOrigin, UNLED};
use crate::automaton::nfa::label_paths::{AddedScratch, LabelPathStep, PathNode, PathTree};

/// Before all places are looked at, as many transitions are led along as take about half the time of that: each as much as
/// so many places, or half as many states, at once.
const PRODUCT_STATES_PER_STEP: usize = 256;
const NFA_STATES_PER_STEP: usize = 128;
/// Transitions to lead along before it is worth thinking of all.
const STEPS_MIN: usize = 16;
/// Steps of sets for each place and state, at most: more are not worth it.
const STEPS_EACH_MAX: usize = 32;
/// Places that no message asks for may have a part of the cache, one of so many.
pub(super) const BUDGET_PART: usize = 4;

/// In place of how many were led along: all places were looked at.
pub(super) const HAS_LOOKED: usize = usize::MAX;

/// In place of a node: the path to a place is not known, or there are several.
const NO_NODE: PathNode = PathNode::MAX;

/// The paths to places.
#[derive(Debug, Default)]
pub(super) struct ProductPaths {
    pub(super) tree: PathTree,
    /// By node, behind the first: its place, and where the transition to it is kept.
    nodes: Vec<(ProductStateId, usize)>,
    /// By place: its node, or [`NO_NODE`].
    node_of: Vec<PathNode>,
    /// Of which version of the walk they are.
    version: u64,
    pub(super) has_paths: bool,
    /// Another way to one of the places was found since.
    pub(super) is_broken: bool,
    pub(super) added: AddedScratch,
}

impl ProductPaths {
    pub(super) fn bytes(&self) -> usize {
        self.tree.bytes()
            + self.nodes.len() * size_of::<(ProductStateId, usize)>()
            + self.node_of.len() * size_of::<PathNode>()
            + self.added.bytes()
    }

    /// The place of a node behind the first.
    pub(super) fn state(&self, node: PathNode) -> ProductStateId {
        self.nodes[node as usize - 1].0
    }

    /// Is the path to a place one of them?
    pub(super) fn has(&self, state: ProductStateId) -> bool {
        self.node_of.get(state as usize).is_some_and(|&node| node != NO_NODE)
    }

    /// There is another way to a place.
    pub(super) fn mark_several_paths(&mut self, state: ProductStateId) {
        self.is_broken |= self.has(state);
    }
}

impl ProductDfa {
    /// Note that a transition of an earlier edition is about to be led along; whether so many were by now that looking at
    /// all places at once costs no more. It is tried once an edition.
    pub(super) fn is_led_again_enough(&mut self, layers: &SegmentCaches<'_>) -> bool {
        if self.led_again == HAS_LOOKED {
            return false;
        }
        self.led_again += 1;
        let states = layers.population.recent.nfa.state_count();
        self.led_again > STEPS_MIN + self.states.len() / PRODUCT_STATES_PER_STEP + states / NFA_STATES_PER_STEP
    }

    /// Let all places to which there is but one way be of this edition, or as many as there is room for.
    pub(super) fn prefetch(&mut self, layers: &mut SegmentCaches<'_>) {
        self.led_again = HAS_LOOKED;
        self.prefetches += 1;
        if !self.has_all_paths() {
            self.find_paths();
        }
        let mark = self.mark();
        let SegmentCaches { population, recent, budget, .. } = layers;
        let budget = recent.dfa.bytes() + *budget / BUDGET_PART;
        let nfa = &population.recent.nfa;
        let steps_max = (self.paths.nodes.len() + nfa.state_count()) * STEPS_EACH_MAX;
        let Some(reached) = self.paths.tree.reached(nfa, steps_max) else { return };
        for (node, &(id, kept_at)) in (1..).zip(&self.paths.nodes) {
            let state = &mut self.states[id as usize];
            if state.edition != self.edition {
                let Ok(acceptances) = recent.dfa.stateless_acceptance(nfa, *population, reached.of(node), budget)
                else {
                    return;
                };
                state.renew(self.edition, UNLED, acceptances);
                self.transitions.set_at(kept_at, mark | id);
            }
        }
        self.is_level = true;
    }

    /// Are the paths that are known those of all places, as they are now?
    pub(super) fn has_all_paths(&self) -> bool {
        self.paths.has_paths && self.paths.version == self.version
    }

    /// Find the paths to all places, as they are now.
    pub(super) fn find_paths(&mut self) {
        let is_only = |to: ProductStateId| to != NOWHERE && to != DOCUMENT_STATE && self.origins[to as usize].is_only;
        let transitions =
            self.transitions.iter().map(|(kept_at, from, name, to)| (kept_at, from, name, to & STATES_MAX));
        let mut kept = vec![0; self.states.len()];
        let mut steps = Vec::with_capacity(self.transitions.len());
        for (kept_at, from, name, to) in transitions.filter(|&(.., to)| is_only(to)) {
            kept[to as usize] = kept_at;
            steps.push(LabelPathStep { from, name, to });
        }
        let tree = PathTree::new(&mut steps, DOCUMENT_STATE, self.states.len());
        let states = tree.steps.iter().skip(1).map(|&step| steps[step as usize].to);
        let nodes: Vec<_> = states.map(|state| (state, kept[state as usize])).collect();
        let mut node_of = vec![NO_NODE; self.states.len()];
        (1..).zip(&nodes).for_each(|(node, &(state, _))| node_of[state as usize] = node);
        let before = std::mem::take(&mut self.paths);
        let mut added = before.added;
        added.clear();
        self.paths =
            ProductPaths { tree, nodes, node_of, version: self.version, has_paths: true, is_broken: false, added };
        for (state, _) in before.nodes.into_iter().filter(|&(state, _)| !self.paths.has(state)) {
            // On the path that was known until now.
            if let Some(StateOrigin { from, name, .. }) = self.origins.get(state as usize) {
                self.fresh.push((*from, *name));
            }
        }
    }
}
