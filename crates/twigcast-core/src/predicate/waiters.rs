//! Waiters: the queries that wait for a condition, and how lists of them are laid out in words.

use std::num::NonZeroU32;

use super::packed::{self, PackedCondition, QUERIES_MAX};
use crate::ids::BranchId;

/// A trigger and its packed condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct IndexedTrigger {
    /// See [`super::packed::pack`].
    pub condition: PackedCondition,
    /// The waiter under that condition.
    pub waiting: Waiter,
}

/// A query that waits for a condition.
///
/// That is enough to pass over a query that has matched already, to test one further condition, and to accept a query of
/// which nothing else remains to be tested, all without looking the trigger up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Waiter {
    /// The query, below [`QUERIES_MAX`].
    pub query: u32,
    /// A further condition that must hold.
    pub also: Option<NonZeroU32>,
    /// A branch that must hold at the element, or none (see [`crate::twig::branches`]).
    pub below: BranchId,
    /// The number of the trigger, if more remains to be tested; in a table of twigs, that of the twig.
    pub trigger: Option<u32>,
}

/// The further conditions of a waiter.
///
/// Lists begin with the waiters that have none; then come those with a single condition, which is decided without
/// looking at anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WaiterKind {
    /// Nothing.
    Lone,
    /// A branch.
    Below,
    /// A further condition that is no comparison.
    Also,
    /// Anything else, or several of these.
    Other,
}

const HAS_BELOW: u32 = 1 << 29;
const HAS_ALSO: u32 = 1 << 30;
const HAS_TRIGGER: u32 = 1 << 31;
const MARKS: u32 = HAS_BELOW | HAS_ALSO | HAS_TRIGGER;

impl Waiter {
    /// Returns the kind of the conditions that it has besides the one that it waits for.
    #[inline]
    pub(super) fn kind(&self) -> WaiterKind {
        match *self {
            Self { also: None, below: BranchId::NONE, trigger: None, .. } => WaiterKind::Lone,
            Self { also: None, below: _, trigger: None, .. } => WaiterKind::Below,
            Self { also: Some(also), below: BranchId::NONE, trigger: None, .. }
                if !packed::is_comparison(also.get()) =>
            {
                WaiterKind::Also
            }
            _ => WaiterKind::Other,
        }
    }

    #[inline]
    pub(super) fn is_lone(&self) -> bool {
        self.kind() == WaiterKind::Lone
    }

    /// Returns how many words it takes, one to four.
    pub(super) fn words(&self) -> usize {
        let Self { query: _, also, below, trigger } = self;
        1 + usize::from(also.is_some()) + usize::from(*below != BranchId::NONE) + usize::from(trigger.is_some())
    }

    pub(super) fn write(self, words: &mut Vec<u32>) {
        let mark = |is_there, mark| if is_there { mark } else { 0 };
        let Self { query, also, below, trigger } = self;
        let marks = mark(also.is_some(), HAS_ALSO) | mark(below != BranchId::NONE, HAS_BELOW);
        words.push(query | marks | mark(trigger.is_some(), HAS_TRIGGER));
        words.extend(also.map(NonZeroU32::get));
        words.extend((below != BranchId::NONE).then_some(below.as_u32()));
        words.extend(trigger);
    }
}

/// All waiters of one condition.
#[derive(Clone, Copy, Debug)]
pub struct WaitList<'a> {
    pub(super) satisfied: &'a [u32],
    /// The others.
    pub multi_condition: MultiConditionWaiters<'a>,
}

impl<'a> WaitList<'a> {
    /// Returns the queries of which nothing else is asked.
    #[inline]
    pub fn satisfied(&self) -> impl Iterator<Item = u32> + use<'a> {
        self.satisfied.iter().map(|word| word & (QUERIES_MAX - 1))
    }
}

/// The waiters of a condition that have further conditions.
#[derive(Clone, Copy, Debug)]
pub struct MultiConditionWaiters<'a> {
    pub(super) words: &'a [u32],
}

impl MultiConditionWaiters<'_> {
    /// Returns whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns whether as much is left of these as of others of the same list.
    #[inline]
    pub fn is_as_long_as(&self, others: &Self) -> bool {
        self.words.len() == others.words.len()
    }

    /// Takes the first, if it asks for a further condition that is no comparison, and for nothing else: its query and the
    /// condition. Those that ask for a single thing come first.
    #[inline]
    pub fn next_also(&mut self) -> Option<(u32, PackedCondition)> {
        match self.words {
            [head, also, rest @ ..] if head & MARKS == HAS_ALSO && !packed::is_comparison(*also) => {
                self.words = rest;
                Some((head & (QUERIES_MAX - 1), *also))
            }
            _ => None,
        }
    }

    /// Returns the same for a branch.
    #[inline]
    pub fn next_below(&mut self) -> Option<(u32, BranchId)> {
        match self.words {
            [head, branch, rest @ ..] if head & MARKS == HAS_BELOW => {
                self.words = rest;
                Some((head & (QUERIES_MAX - 1), BranchId::from_u32(*branch)))
            }
            _ => None,
        }
    }
}

impl Iterator for MultiConditionWaiters<'_> {
    type Item = Waiter;

    #[inline]
    fn next(&mut self) -> Option<Waiter> {
        let (&head, mut rest) = self.words.split_first()?;
        let mut also = None;
        let mut below = BranchId::NONE;
        let mut trigger = None;
        if head & HAS_ALSO != 0 {
            let (&word, after) = rest.split_first()?;
            also = NonZeroU32::new(word);
            rest = after;
        }
        if head & HAS_BELOW != 0 {
            let (&word, after) = rest.split_first()?;
            below = BranchId::from_u32(word);
            rest = after;
        }
        if head & HAS_TRIGGER != 0 {
            let (&word, after) = rest.split_first()?;
            trigger = Some(word);
            rest = after;
        }
        self.words = rest;
        Some(Waiter { query: head & (QUERIES_MAX - 1), also, below, trigger })
    }
}
