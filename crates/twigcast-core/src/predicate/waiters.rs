//! What waits for a key, and how lists of it are laid out in words.

use std::num::NonZeroU32;

use super::packed::{self, PackedCondition, QUERIES_MAX};

/// A trigger and its packed key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct IndexedTrigger {
    /// See [`super::packed::pack`].
    pub key: PackedCondition,
    /// What waits for it.
    pub waiting: Waiter,
}

/// What waits for a key: enough to pass over a query that has matched already, to test one further key, and to accept a
/// query of which nothing else remains to be tested, all without looking the trigger up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Waiter {
    /// The query, below [`QUERIES_MAX`].
    pub query: u32,
    /// A further key that must hold.
    pub also: Option<NonZeroU32>,
    /// A branch that must hold at the element (see [`crate::twig::branches`]).
    pub below: Option<NonZeroU32>,
    /// Number of the trigger, if more remains to be tested.
    pub trigger: Option<u32>,
}

/// What something asks for besides the key that it waits for. Lists begin with those that ask for nothing; then come those
/// that ask for a single thing, which is decided without looking at anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WaiterKind {
    /// Nothing.
    Lone,
    /// A branch.
    Below,
    /// A further key that is no comparison.
    Also,
    /// Anything else, or several of these.
    Other,
}

const HAS_BELOW: u32 = 1 << 29;
const HAS_ALSO: u32 = 1 << 30;
const HAS_TRIGGER: u32 = 1 << 31;
const MARKS: u32 = HAS_BELOW | HAS_ALSO | HAS_TRIGGER;

impl Waiter {
    /// Returns what it asks for besides its key.
    #[inline]
    pub(super) fn kind(&self) -> WaiterKind {
        match *self {
            Self { also: None, below: None, trigger: None, .. } => WaiterKind::Lone,
            Self { also: None, below: Some(_), trigger: None, .. } => WaiterKind::Below,
            Self { also: Some(also), below: None, trigger: None, .. } if !packed::is_comparison(also.get()) => {
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
        1 + usize::from(also.is_some()) + usize::from(below.is_some()) + usize::from(trigger.is_some())
    }

    pub(super) fn write(self, words: &mut Vec<u32>) {
        let mark = |is_there, mark| if is_there { mark } else { 0 };
        let Self { query, also, below, trigger } = self;
        let marks = mark(also.is_some(), HAS_ALSO) | mark(below.is_some(), HAS_BELOW);
        words.push(query | marks | mark(trigger.is_some(), HAS_TRIGGER));
        words.extend([also, below].into_iter().flatten().map(NonZeroU32::get));
        words.extend(trigger);
    }
}

/// What waits for one key.
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

/// Those that ask for more than one key.
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

    /// Takes the first, if it asks for a further key that is no comparison, and for nothing else: its query and the key. Those
    /// that ask for a single thing come first.
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
    pub fn next_below(&mut self) -> Option<(u32, u32)> {
        match self.words {
            [head, branch, rest @ ..] if head & MARKS == HAS_BELOW => {
                self.words = rest;
                Some((head & (QUERIES_MAX - 1), *branch))
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
        let mut below = None;
        let mut trigger = None;
        if head & HAS_ALSO != 0 {
            let (&word, after) = rest.split_first()?;
            also = NonZeroU32::new(word);
            rest = after;
        }
        if head & HAS_BELOW != 0 {
            let (&word, after) = rest.split_first()?;
            below = NonZeroU32::new(word);
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
