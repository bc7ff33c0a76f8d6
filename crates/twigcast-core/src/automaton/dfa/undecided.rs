//! What of a state the automaton alone does not decide.

use super::TriggerKeys;
use crate::automaton::nfa::{Item, Nfa, StateId};
use crate::predicate::table::KeyTable;

/// What remains to be decided at the elements of one state: the merged items of its NFA states, acceptances aside.
#[derive(Debug)]
pub struct DfaState {
    /// Twigs to decide at elements of this state one by one.
    pub twigs: Vec<u32>,
    /// Other twigs by the rarest branch that they ask for.
    pub branching: KeyTable,
    /// The twigs in `branching`.
    branching_twigs: Vec<u32>,
    /// Never used twice: what memoised decisions are filed under.
    pub twigs_version: u32,
    /// Triggers with a key.
    pub keyed: KeyTable,
    /// Triggers without one.
    pub candidates: Vec<u32>,
    /// NFA states of the set for which the engine keeps a table of its own.
    pub attached: Vec<StateId>,
}

impl DfaState {
    pub(super) fn of(nfa: &Nfa, keys: &impl TriggerKeys, members: &[StateId], twigs_version: u32) -> Self {
        let mut state = Self {
            twigs: Vec::new(),
            branching: KeyTable::default(),
            branching_twigs: Vec::new(),
            twigs_version,
            keyed: KeyTable::default(),
            candidates: Vec::new(),
            attached: members.iter().copied().filter(|&member| nfa.has_attachment(member)).collect(),
        };
        let (mut branching, mut keyed) = (Vec::new(), Vec::new());
        for item in members.iter().flat_map(|&member| nfa.items(member)) {
            match item {
                Item::Accept(_) => {}
                Item::Twig(twig) => match keys.branching(twig) {
                    Some(entry) => {
                        branching.push(entry);
                        state.branching_twigs.push(twig);
                    }
                    None => state.twigs.push(twig),
                },
                Item::Trigger(trigger) => match keys.keyed(trigger) {
                    Some(entry) => keyed.push(entry),
                    None => state.candidates.push(trigger),
                },
            }
        }
        if !branching.is_empty() {
            state.branching = KeyTable::new(branching);
        }
        if !keyed.is_empty() {
            state.keyed = KeyTable::new(keyed);
        }
        state
    }

    /// Does any twig wait here?
    #[inline]
    pub fn has_twigs(&self) -> bool {
        !self.twigs.is_empty() || !self.branching.is_empty()
    }

    /// All twigs that wait here.
    pub fn all_twigs(&self) -> impl Iterator<Item = u32> + '_ {
        self.twigs.iter().chain(&self.branching_twigs).copied()
    }

    pub(super) fn bytes(&self) -> usize {
        let lists = [&self.twigs, &self.branching_twigs, &self.candidates, &self.attached];
        lists.into_iter().map(|list| list.capacity() * size_of::<u32>()).sum::<usize>()
            + self.keyed.bytes()
            + self.branching.bytes()
            + size_of::<Self>()
    }
}
