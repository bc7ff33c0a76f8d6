//! The subscribers of each query: they turn the queries that a message matched into slots and keys.
//!
//! The tables are copy-on-write, so that an answer can keep them as they were when it was given (see [`Chunked`]).

use std::sync::Arc;

use super::query_set::QuerySet;
use crate::ids::{Slot, StringId};
use crate::util::chunked::Chunked;
use crate::util::string_arena::StringArena;

/// In place of a query or of its subscribers: none.
pub(super) const NONE: u32 = u32::MAX;
/// The bit that marks the slot of a query's only subscription.
pub(super) const SOLE: u32 = 1 << 31;

/// Slot lists in a chunk: fewer, since copying a chunk counts up its references.
const SHARED_CHUNK: usize = 256;
/// A query whose subscriptions are at least one in so many of all slots has them as bits, too: no more than four bytes each.
const DENSE: usize = 32;

/// The slots of a query with several subscriptions.
#[derive(Clone, Debug, Default)]
pub(super) struct SharingSlots {
    /// In no order.
    slots: Vec<Slot>,
    /// The same as bits, where they are dense.
    bits: Option<QuerySet>,
}

impl SharingSlots {
    pub(super) fn new(slots: Vec<Slot>) -> Self {
        Self { slots, bits: None }
    }

    /// Adds a slot. Returns its position.
    pub(super) fn push(&mut self, slot: Slot) -> u32 {
        self.slots.push(slot);
        if self.slots.len() * DENSE > slot as usize {
            match &mut self.bits {
                Some(bits) => bits.insert_growing(slot),
                None if self.slots.len() > DENSE => {
                    let mut bits = QuerySet::default();
                    self.slots.iter().for_each(|&slot| bits.insert_growing(slot));
                    self.bits = Some(bits);
                }
                None => {}
            }
        } else {
            self.bits = None;
        }
        self.slots.len() as u32 - 1
    }

    /// Removes the slot at a position. Returns the slot that has moved there.
    pub(super) fn swap_remove(&mut self, position: u32) -> Option<Slot> {
        let slot = self.slots.swap_remove(position as usize);
        if let Some(bits) = &mut self.bits {
            bits.remove(slot);
            // Half as dense as they have to be to come: they do not come and go with each change.
            if self.slots.len() * 2 * DENSE < bits.bound() {
                self.bits = None;
            }
        }
        self.slots.get(position as usize).copied()
    }

    #[inline]
    pub(super) fn as_slice(&self) -> &[Slot] {
        &self.slots
    }

    /// Returns the same as bits, where they are dense.
    #[inline]
    pub(super) fn bits(&self) -> Option<&QuerySet> {
        self.bits.as_ref()
    }

    fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>() + self.bits.as_ref().map_or(0, |bits| bits.bound() / 8)
    }
}

/// The keys of all subscriptions by slot, and the slots by query.
#[derive(Clone, Debug, Default)]
pub(super) struct SubscribersByQuery {
    pub(super) texts: StringArena,
    /// For each slot, its key; for a free slot, the next free slot.
    pub(super) keys: Chunked<StringId>,
    /// For each slot, its query; [`NONE`] for a free slot.
    pub(super) queries: Chunked<u32>,
    /// For each slot, the number of the registration that took it last. Registering a key again changes it.
    pub(super) registrations: Chunked<u32>,
    /// For each query, the slot of its only subscription with [`SOLE`], or an index into [`Self::sharing`], or [`NONE`].
    pub(super) subscribed: Chunked<u32>,
    /// The slots of queries with several subscriptions.
    pub(super) sharing: Chunked<Arc<SharingSlots>, SHARED_CHUNK>,
}

/// The subscriptions of one query.
pub(super) enum Subscribers<'a> {
    Sole(Slot),
    Several(&'a [Slot]),
}

impl SubscribersByQuery {
    #[inline]
    pub(super) fn query_of(&self, slot: Slot) -> Option<u32> {
        self.queries.get(slot as usize).copied().filter(|&query| query != NONE)
    }

    #[inline]
    pub(super) fn key(&self, slot: Slot) -> Option<&str> {
        self.query_of(slot)?;
        Some(self.texts.get(*self.keys.get(slot as usize)?))
    }

    /// Returns the slots of a query's subscriptions, in no order.
    #[inline]
    pub(super) fn subscribers(&self, query: u32) -> Subscribers<'_> {
        match self.subscribed.get(query as usize).copied().unwrap_or(NONE) {
            NONE => Subscribers::Several(&[]),
            sole if sole & SOLE != 0 => Subscribers::Sole(sole & !SOLE),
            number => Subscribers::Several(self.sharing.get(number as usize).map_or(&[], |slots| slots.as_slice())),
        }
    }

    /// Returns the slots of a query with several subscriptions; `None` for any other.
    #[inline]
    pub(super) fn sharing(&self, query: u32) -> Option<&SharingSlots> {
        let number = self.subscribed.get(query as usize).copied().filter(|&number| number & SOLE == 0)?;
        self.sharing.get(number as usize).map(|slots| &**slots)
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
        let shared = self.sharing.iter();
        self.texts.bytes()
            + self.keys.bytes()
            + self.queries.bytes()
            + self.registrations.bytes()
            + self.subscribed.bytes()
            + self.sharing.bytes()
            + shared.map(|slots| slots.bytes() + 88).sum::<usize>()
    }
}
