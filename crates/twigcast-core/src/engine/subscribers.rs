//! Who subscribes to which query: what turns the queries that a message matched into keys.
//!
//! Kept so that an answer can hold on to it as it was when it was given: see [`CowTable`].

use std::sync::Arc;

use super::subscription_table::Slot;
use crate::util::cow_table::CowTable;
use crate::util::string_arena::{StringArena, StringId};

pub(super) const NONE: u32 = u32::MAX;
/// Marks a query's subscription as its only one.
pub(super) const SOLE: u32 = 1 << 31;

const PAGE: usize = 4096;
/// Smaller, since what a page holds are counted references.
const SHARED_PAGE: usize = 256;

/// See the module's documentation.
#[derive(Clone, Debug, Default)]
pub(super) struct SubscribersByQuery {
    pub(super) texts: StringArena,
    /// By slot: the key; for a free slot, the next free one.
    pub(super) keys: CowTable<StringId, PAGE>,
    /// By slot: the query; [`NONE`] for a free slot.
    pub(super) queries: CowTable<u32, PAGE>,
    /// By slot: the number of the registration that took the slot last. Registering a key again changes it.
    pub(super) registrations: CowTable<u32, PAGE>,
    /// By query: its only subscription, marked [`SOLE`], or an index into `sharing`, or [`NONE`].
    pub(super) subscribed: CowTable<u32, PAGE>,
    /// The subscriptions of queries that several share.
    pub(super) sharing: CowTable<Arc<Vec<Slot>>, SHARED_PAGE>,
}

/// The subscriptions of one query.
pub(super) enum Subscribers<'a> {
    Sole(Slot),
    Several(&'a [Slot]),
}

impl SubscribersByQuery {
    #[inline]
    pub(super) fn query_of(&self, slot: Slot) -> Option<u32> {
        self.queries.get(slot).copied().filter(|&query| query != NONE)
    }

    #[inline]
    pub(super) fn key(&self, slot: Slot) -> Option<&str> {
        self.query_of(slot)?;
        Some(self.texts.get(*self.keys.get(slot)?))
    }

    /// The slots of a query's subscriptions, in no order.
    #[inline]
    pub(super) fn subscribers(&self, query: u32) -> Subscribers<'_> {
        match self.subscribed.get(query).copied().unwrap_or(NONE) {
            NONE => Subscribers::Several(&[]),
            sole if sole & SOLE != 0 => Subscribers::Sole(sole & !SOLE),
            number => Subscribers::Several(self.sharing.get(number).map_or(&[], |slots| slots.as_slice())),
        }
    }

    /// Append the slots of a query's subscriptions.
    #[inline]
    pub(super) fn append_subscribers(&self, query: u32, slots: &mut Vec<Slot>) {
        match self.subscribers(query) {
            Subscribers::Sole(slot) => slots.push(slot),
            Subscribers::Several(several) => slots.extend_from_slice(several),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let shared = (0..self.sharing.len() as u32).filter_map(|number| self.sharing.get(number));
        self.texts.bytes()
            + self.keys.bytes()
            + self.queries.bytes()
            + self.registrations.bytes()
            + self.subscribed.bytes()
            + self.sharing.bytes()
            + shared.map(|slots| slots.capacity() * size_of::<Slot>() + 56).sum::<usize>()
    }
}
