//! The subscribers of each query: they turn the queries that a message matched into slots and keys.
//!
//! The tables are copy-on-write, so that an answer can keep them as they were when it was given (see [`CowTable`]).

use std::sync::Arc;

use crate::ids::Slot;
use crate::util::cow_table::CowTable;
use crate::util::string_arena::{StringArena, StringId};

/// In place of a query or of its subscribers: none.
pub(super) const NONE: u32 = u32::MAX;
/// The bit that marks the slot of a query's only subscription.
pub(super) const SOLE: u32 = 1 << 31;

const PAGE: usize = 4096;
/// Smaller, since copying a page counts up its references.
const SHARED_PAGE: usize = 256;

/// The keys of all subscriptions by slot, and the slots by query.
#[derive(Clone, Debug, Default)]
pub(super) struct SubscribersByQuery {
    pub(super) texts: StringArena,
    /// For each slot, its key; for a free slot, the next free slot.
    pub(super) keys: CowTable<StringId, PAGE>,
    /// For each slot, its query; [`NONE`] for a free slot.
    pub(super) queries: CowTable<u32, PAGE>,
    /// For each slot, the number of the registration that took it last. Registering a key again changes it.
    pub(super) registrations: CowTable<u32, PAGE>,
    /// For each query, the slot of its only subscription with [`SOLE`], or an index into [`Self::sharing`], or [`NONE`].
    pub(super) subscribed: CowTable<u32, PAGE>,
    /// The slots of queries with several subscriptions.
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

    /// Returns the slots of a query's subscriptions, in no order.
    #[inline]
    pub(super) fn subscribers(&self, query: u32) -> Subscribers<'_> {
        match self.subscribed.get(query).copied().unwrap_or(NONE) {
            NONE => Subscribers::Several(&[]),
            sole if sole & SOLE != 0 => Subscribers::Sole(sole & !SOLE),
            number => Subscribers::Several(self.sharing.get(number).map_or(&[], |slots| slots.as_slice())),
        }
    }

    /// Appends the slots of a query's subscriptions, in no order.
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
