//! What of a state the automaton alone does not decide.

use super::TriggerConditions;
use crate::access::table::AccessTable;
use crate::automaton::nfa::{AcceptItem, Nfa, StateId};
use crate::predicate::trigger_table::TriggerTable;

/// What remains to be decided at the elements of one state: the merged items of its NFA states, acceptances aside.
///
/// There are many, and they are looked at in no order: what most of them do not have is kept elsewhere.
#[derive(Debug)]
pub struct StateDecisions {
    /// Triggers with a key.
    pub keyed: TriggerTable,
    /// Never used twice: what memoised decisions are filed under.
    pub twigs_version: u32,
    has_twigs: bool,
    asks_branches: bool,
    /// What else there is.
    pub unindexed: Option<Box<UnindexedDecisions>>,
}

/// What may remain besides triggers with a key.
#[derive(Debug, Default)]
pub struct UnindexedDecisions {
    /// Twigs to decide at elements of this state one by one.
    pub twigs: Vec<u32>,
    /// Other twigs by the rarest branch that they ask for.
    pub branching: TriggerTable,
    /// The twigs in `branching`.
    branching_twigs: Vec<u32>,
    /// Triggers without a key.
    pub candidates: Vec<u32>,
    /// What waits for values.
    pub accesses: AccessTable,
    /// NFA states of the set for which the engine keeps a table of its own.
    pub attached: Vec<StateId>,
}

impl StateDecisions {
    pub(super) fn of(nfa: &Nfa, keys: &impl TriggerConditions, members: &[StateId], twigs_version: u32) -> Self {
        let attached = members.iter().copied().filter(|&member| nfa.has_attachment(member)).collect();
        let mut others = UnindexedDecisions { attached, ..UnindexedDecisions::default() };
        let (mut branching, mut keyed) = (Vec::new(), Vec::new());
        for item in members.iter().flat_map(|&member| nfa.items(member)) {
            match item {
                AcceptItem::Accept(_) => {}
                AcceptItem::Twig(twig) => match keys.branching(twig) {
                    Some(entry) => {
                        branching.push(entry);
                        others.branching_twigs.push(twig);
                    }
                    None => others.twigs.push(twig),
                },
                AcceptItem::Trigger(trigger) => match keys.keyed(trigger) {
                    Some(entry) => keyed.push(entry),
                    None => others.candidates.push(trigger),
                },
                AcceptItem::Access(access) => keys.insert_access(access, &mut others.accesses),
            }
        }
        let asks_branches = !branching.is_empty();
        if asks_branches {
            others.branching = TriggerTable::new(branching);
        }
        let has_twigs = asks_branches || !others.twigs.is_empty();
        Self {
            keyed: if keyed.is_empty() { TriggerTable::default() } else { TriggerTable::new(keyed) },
            twigs_version,
            has_twigs,
            asks_branches,
            unindexed: (has_twigs || others.has_more()).then(|| Box::new(others)),
        }
    }

    /// Does any twig wait here?
    #[inline]
    pub fn has_twigs(&self) -> bool {
        self.has_twigs
    }

    /// Does any twig wait here for what holds below?
    #[inline]
    pub fn asks_branches(&self) -> bool {
        self.asks_branches
    }

    pub(super) fn bytes(&self) -> usize {
        let others = self.unindexed.as_ref().map_or(0, |others| others.bytes());
        self.keyed.bytes() + others + size_of::<Self>()
    }
}

impl UnindexedDecisions {
    fn has_more(&self) -> bool {
        !self.candidates.is_empty() || !self.attached.is_empty() || !self.accesses.is_empty()
    }

    /// All twigs that wait here.
    pub fn all_twigs(&self) -> impl Iterator<Item = u32> + '_ {
        self.twigs.iter().chain(&self.branching_twigs).copied()
    }

    fn bytes(&self) -> usize {
        let lists = [&self.twigs, &self.branching_twigs, &self.candidates, &self.attached];
        lists.into_iter().map(|list| list.capacity() * size_of::<u32>()).sum::<usize>()
            + self.branching.bytes()
            + self.accesses.bytes()
            + size_of::<Self>()
    }
}
