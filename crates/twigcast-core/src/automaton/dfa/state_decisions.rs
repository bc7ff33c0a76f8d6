//! The decisions that a DFA state leaves to be made at its elements.

use crate::access::table::AccessTable;
use crate::automaton::nfa::{AcceptItem, Nfa};
use crate::ids::{AccessId, StateId, TriggerId, TwigId};
use crate::predicate::trigger_table::TriggerTable;
use crate::predicate::waiters::IndexedTrigger;

/// Tells what triggers and twigs are looked up by, when the tables of a state are built.
pub trait TriggerConditions {
    /// Returns the value condition of a trigger and its waiter; `None` if it has no value condition.
    fn keyed(&self, trigger: TriggerId) -> Option<IndexedTrigger>;

    /// Returns the rarest branch that a twig needs and its waiter; `None` if the twig is to be decided by itself.
    fn branching(&self, twig: TwigId) -> Option<IndexedTrigger>;

    /// Adds accesses to the table of a state.
    fn insert_access(&self, access: AccessId, table: &mut AccessTable);
}

/// The decisions to be made at the elements of one DFA state: the items of its NFA states, except acceptances.
///
/// There are many of these, visited in no order. Parts that most states do not have are kept apart, so that they are
/// small.
#[derive(Debug)]
pub struct StateDecisions {
    /// Triggers with a value condition.
    pub keyed: TriggerTable,
    /// Identifies the list of twigs in memoised decisions. Never used twice.
    pub twigs_version: u32,
    has_twigs: bool,
    asks_branches: bool,
    /// All else that remains to be decided.
    pub unindexed: Option<Box<UnindexedDecisions>>,
}

/// The decisions to be made besides those on triggers with a value condition.
#[derive(Debug, Default)]
pub struct UnindexedDecisions {
    /// Twigs to be decided one by one.
    pub twigs: Vec<TwigId>,
    /// Other twigs, by the rarest branch that they need.
    pub branching: TriggerTable,
    /// The twigs in [`Self::branching`].
    branching_twigs: Vec<TwigId>,
    /// Triggers without a value condition.
    pub candidates: Vec<TriggerId>,
    /// Queries that values lead to.
    pub accesses: AccessTable,
    /// NFA states that have a trigger table of their own.
    pub attached: Vec<StateId>,
}

impl StateDecisions {
    /// Collects what some NFA states leave to be decided.
    pub(super) fn new(nfa: &Nfa, keys: &impl TriggerConditions, members: &[StateId], twigs_version: u32) -> Self {
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

    /// Returns `true` if any twig waits here.
    #[inline]
    pub fn has_twigs(&self) -> bool {
        self.has_twigs
    }

    /// Returns `true` if any twig waits here for branches.
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

    /// Returns all twigs that wait here.
    pub fn all_twigs(&self) -> impl Iterator<Item = TwigId> + '_ {
        self.twigs.iter().chain(&self.branching_twigs).copied()
    }

    fn bytes(&self) -> usize {
        let capacities = [self.twigs.capacity(), self.branching_twigs.capacity(), self.candidates.capacity()];
        let entries = capacities.into_iter().sum::<usize>() + self.attached.capacity();
        entries * size_of::<u32>() + self.branching.bytes() + self.accesses.bytes() + size_of::<Self>()
    }
}
