//! What waits for a key, and how lists of it are laid out in words.

use std::num::NonZeroU32;

use super::key::{PackedKey, QUERIES_MAX};

/// A trigger and its packed key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyedTrigger {
    /// See [`super::key::pack`].
    pub key: PackedKey,
    /// What waits for it.
    pub waiting: Waiting,
}

/// What waits for a key: enough to pass over a query that has matched already, to test one further key, and to accept a
/// query of which nothing else remains to be tested, all without looking the trigger up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Waiting {
    /// The query, below [`QUERIES_MAX`].
    pub query: u32,
    /// A further key that must hold.
    pub also: Option<NonZeroU32>,
    /// Number of the trigger, if more remains to be tested.
    pub trigger: Option<u32>,
}

const HAS_ALSO: u32 = 1 << 30;
const HAS_TRIGGER: u32 = 1 << 31;

impl Waiting {
    pub(super) fn is_lone(&self) -> bool {
        self.also.is_none() && self.trigger.is_none()
    }

    /// How many words it takes, one to three.
    pub(super) fn words(&self) -> usize {
        1 + usize::from(self.also.is_some()) + usize::from(self.trigger.is_some())
    }

    pub(super) fn write(self, words: &mut Vec<u32>) {
        let marks =
            if self.also.is_some() { HAS_ALSO } else { 0 } | if self.trigger.is_some() { HAS_TRIGGER } else { 0 };
        words.push(self.query | marks);
        words.extend(self.also.map(NonZeroU32::get));
        words.extend(self.trigger);
    }
}

/// What waits for one key.
#[derive(Clone, Copy, Debug)]
pub struct List<'a> {
    pub(super) satisfied: &'a [u32],
    /// The others.
    pub others: Others<'a>,
}

impl<'a> List<'a> {
    pub(super) const EMPTY: Self = Self { satisfied: &[], others: Others { words: &[] } };

    /// The queries of which nothing else is asked.
    #[inline]
    pub fn satisfied(&self) -> impl Iterator<Item = u32> + use<'a> {
        self.satisfied.iter().map(|word| word & (QUERIES_MAX - 1))
    }
}

/// Those that ask for more than one key.
#[derive(Clone, Copy, Debug)]
pub struct Others<'a> {
    pub(super) words: &'a [u32],
}

impl Iterator for Others<'_> {
    type Item = Waiting;

    #[inline]
    fn next(&mut self) -> Option<Waiting> {
        let (&head, mut rest) = self.words.split_first()?;
        let mut also = None;
        let mut trigger = None;
        if head & HAS_ALSO != 0 {
            let (&word, after) = rest.split_first()?;
            also = NonZeroU32::new(word);
            rest = after;
        }
        if head & HAS_TRIGGER != 0 {
            let (&word, after) = rest.split_first()?;
            trigger = Some(word);
            rest = after;
        }
        self.words = rest;
        Some(Waiting { query: head & (QUERIES_MAX - 1), also, trigger })
    }
}
