//! Parts of DFA states: NFA states, and what they say of queries.

use super::list_pool::{ListPool, ListRange};
use crate::automaton::nfa::{EdgeFilter, Nfa};
use crate::ids::StateId;

/// The lists that DFA states are made of.
#[derive(Debug, Default)]
pub(super) struct StateLists {
    pub(super) members: ListPool<StateId>,
    /// Lists of queries.
    pub(super) accepts: ListPool<u32>,
}

impl StateLists {
    pub(super) fn is_full(&self) -> bool {
        self.members.is_full() || self.accepts.is_full()
    }

    pub(super) fn bytes(&self) -> usize {
        self.members.bytes() + self.accepts.bytes()
    }
}

/// Part of a DFA state: NFA states, and the queries that they accept.
#[derive(Clone, Copy, Debug)]
pub(super) struct StatePart {
    pub(super) members: ListRange<StateId>,
    pub(super) accepts: ListRange<u32>,
    /// Some member has items other than acceptances.
    pub(super) is_undecided: bool,
}

/// A [`StatePart`] that grows.
#[derive(Debug, Default)]
pub(super) struct StatePartBuilder {
    pub(super) members: Vec<StateId>,
    accepts: Vec<u32>,
    is_undecided: bool,
}

impl StatePartBuilder {
    pub(super) fn clear(&mut self) {
        self.members.clear();
        self.accepts.clear();
        self.is_undecided = false;
    }

    /// Adds an NFA state.
    #[inline]
    pub(super) fn push(&mut self, nfa: &Nfa, member: StateId) {
        self.members.push(member);
        self.is_undecided |= nfa.collect_accepts(member, &mut self.accepts);
    }

    /// Adds a finished part.
    pub(super) fn append(&mut self, lists: &StateLists, part: StatePart) {
        self.members.extend_from_slice(lists.members.get(part.members));
        self.accepts.extend_from_slice(lists.accepts.get(part.accepts));
        self.is_undecided |= part.is_undecided;
    }

    /// Stores what was added in the lists.
    pub(super) fn finish(&self, lists: &mut StateLists) -> StatePart {
        StatePart {
            members: lists.members.add(&self.members),
            accepts: lists.accepts.add(&self.accepts),
            is_undecided: self.is_undecided,
        }
    }
}

/// A filter of the NFA's edges, built once as many edges have been looked up as building it visits. So in the worst case
/// the look-ups cost twice as much as without it.
#[derive(Debug, Default)]
pub(super) struct LazyEdgeFilter {
    lookups: usize,
    built: Option<EdgeFilter>,
}

impl LazyEdgeFilter {
    /// Returns the filter, if it is worth having by now. `count` edges are about to be looked up.
    pub(super) fn for_lookups(&mut self, nfa: &Nfa, count: usize) -> Option<&EdgeFilter> {
        self.lookups += count;
        if self.built.is_none() && self.lookups > nfa.state_count() {
            self.built = Some(nfa.edge_filter());
        }
        self.built.as_ref()
    }

    pub(super) fn bytes(&self) -> usize {
        self.built.as_ref().map_or(0, EdgeFilter::bytes)
    }
}

/// Returns a number's share in the hash of a set. The hash is the sum of the shares, whatever the order of the members.
#[inline]
pub(super) fn mixed(member: u32) -> u64 {
    let mixed = (u64::from(member) + 0x51_7cc1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// Returns the hash of a set of NFA states, see [`mixed`].
pub(super) fn hash_of(members: &[StateId]) -> u64 {
    members.iter().fold(0, |sum, member| sum.wrapping_add(mixed(member.as_u32())))
}
