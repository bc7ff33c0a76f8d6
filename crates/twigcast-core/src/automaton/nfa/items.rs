//! The items of NFA states.
//!
//! Most states have one item, an acceptance. It is stored in the state itself; a second item moves both to a linked list.
//! The item that was alone keeps its id then: it is the first of the list and is known by its state.

use super::state::HAS_ATTACHMENT;
use super::{AcceptItem, Nfa};
use crate::ids::{ItemId, StateId};

/// The bit that marks the alternative to an index: a query in an [`ItemList`], a state in an [`ItemId`].
const SOLE: u32 = 1 << 31;
/// In place of an entry: the end of a list.
const NO_ENTRY: u32 = u32::MAX;
/// In place of the entry before the first: the first entry is known by its state.
const KNOWN_BY_STATE: u32 = u32::MAX - 1;

impl ItemId {
    /// Returns the id of an item that was its state's only one when it came.
    pub(crate) fn sole_of(state: StateId) -> Self {
        Self::from_u32(state.as_u32() | SOLE)
    }

    /// Returns the state of such an item; `None` for others.
    pub(crate) fn sole_state(self) -> Option<StateId> {
        (self.as_u32() & SOLE != 0).then_some(StateId::from_u32(self.as_u32() & !SOLE))
    }
}

/// The items of one state in four bytes: none, the query of the only item, or the first entry of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ItemList(u32);

impl ItemList {
    pub(super) const EMPTY: Self = Self(NO_ENTRY);

    /// Returns the list of a sole acceptance; `None` if the query's number is too large.
    fn sole(query: u32) -> Option<Self> {
        (query < NO_ENTRY & !SOLE).then_some(Self(query | SOLE))
    }

    #[inline]
    pub(super) fn is_empty(self) -> bool {
        self == Self::EMPTY
    }

    /// Returns the query of the only item, if it is stored in the state.
    #[inline]
    fn sole_query(self) -> Option<u32> {
        (self.0 & SOLE != 0 && !self.is_empty()).then_some(self.0 & !SOLE)
    }
}

/// An item in the linked list of its state.
#[derive(Clone, Copy, Debug)]
pub(super) struct AcceptEntry {
    item: AcceptItem,
    state: StateId,
    next: u32,
    /// The entry before this one; for the first, [`NO_ENTRY`] or [`KNOWN_BY_STATE`].
    previous: u32,
}

impl Nfa {
    /// Returns the query of a state's first acceptance, if no item came before it.
    #[inline]
    pub fn first_accepted(&self, state: StateId) -> Option<u32> {
        let list = self.states[state.index()].items;
        if list.is_empty() {
            return None;
        }
        list.sole_query().or_else(|| match self.items[list.0 as usize] {
            AcceptEntry { item: AcceptItem::Accept(query), previous: KNOWN_BY_STATE, .. } => Some(query),
            _ => None,
        })
    }

    /// Adds an item to a state. Returns its id, for [`Self::remove`].
    pub fn insert_item(&mut self, state: StateId, item: AcceptItem) -> ItemId {
        self.version += 1;
        self.record_added(state, item);
        let entry = &mut self.states[state.index()];
        entry.begin_use();
        if let (AcceptItem::Accept(query), ItemList::EMPTY) = (item, entry.items)
            && let Some(sole) = ItemList::sole(query)
        {
            entry.items = sole;
            return ItemId::sole_of(state);
        }
        ItemId::from_u32(self.link(state, item))
    }

    /// Adds an item to a state's list: as the first, or behind the first if that is known by the state.
    fn link(&mut self, state: StateId, item: AcceptItem) -> u32 {
        let list = self.states[state.index()].items;
        let mut first = list.0;
        if let Some(query) = list.sole_query() {
            let item = AcceptItem::Accept(query);
            first = self.new_entry(AcceptEntry { item, state, next: NO_ENTRY, previous: KNOWN_BY_STATE });
            self.states[state.index()].items = ItemList(first);
        }
        let is_behind = first != NO_ENTRY && self.items[first as usize].previous == KNOWN_BY_STATE;
        let (previous, next) = if is_behind { (first, self.items[first as usize].next) } else { (NO_ENTRY, first) };
        let index = self.new_entry(AcceptEntry { item, state, next, previous });
        if next != NO_ENTRY {
            self.items[next as usize].previous = index;
        }
        if is_behind {
            self.items[first as usize].next = index;
        } else {
            self.states[state.index()].items = ItemList(index);
        }
        index
    }

    fn new_entry(&mut self, entry: AcceptEntry) -> u32 {
        match self.free_items.pop() {
            Some(index) => {
                self.items[index as usize] = entry;
                index
            }
            None => {
                self.items.push(entry);
                self.items.len() as u32 - 1
            }
        }
    }

    /// Removes an item, and the states that only its path needed (Diao 2005, section 4.3.2).
    pub fn remove(&mut self, item: ItemId) {
        let state = self.state_of_item(item);
        let list = self.states[state.index()].items;
        if list.sole_query().is_some() {
            self.states[state.index()].items = ItemList::EMPTY;
        } else {
            self.unlink(if item.sole_state().is_some() { list.0 } else { item.as_u32() });
        }
        self.version += 1;
        self.forget_added();
        self.release(state);
    }

    fn unlink(&mut self, index: u32) {
        let AcceptEntry { state, next, previous, .. } = self.items[index as usize];
        match previous {
            NO_ENTRY | KNOWN_BY_STATE => self.states[state.index()].items = ItemList(next),
            _ => self.items[previous as usize].next = next,
        }
        if next != NO_ENTRY {
            let previous = if previous == KNOWN_BY_STATE { NO_ENTRY } else { previous };
            self.items[next as usize].previous = previous;
        }
        self.free_items.push(index);
    }

    /// Returns the state that an item belongs to.
    pub fn state_of_item(&self, item: ItemId) -> StateId {
        item.sole_state().unwrap_or_else(|| self.items[item.index()].state)
    }

    /// Returns the items of a state, in no order.
    #[inline]
    pub fn items(&self, state: StateId) -> impl Iterator<Item = AcceptItem> + '_ {
        let mut rest = self.states[state.index()].items;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            if let Some(query) = rest.sole_query() {
                rest = ItemList::EMPTY;
                return Some(AcceptItem::Accept(query));
            }
            let entry = self.items.get(rest.0 as usize)?;
            rest = ItemList(entry.next);
            Some(entry.item)
        })
    }

    /// Appends the acceptances of a state. Returns `true` if there is anything else to decide there.
    #[inline]
    pub(in crate::automaton) fn collect_accepts(&self, state: StateId, accepts: &mut Vec<u32>) -> bool {
        let entry = &self.states[state.index()];
        let mut has_more = entry.has(HAS_ATTACHMENT);
        if let Some(query) = entry.items.sole_query() {
            accepts.push(query);
            return has_more;
        }
        for item in self.items(state) {
            match item {
                AcceptItem::Accept(query) => accepts.push(query),
                AcceptItem::Twig(_) | AcceptItem::Trigger(_) | AcceptItem::Access(_) => has_more = true,
            }
        }
        has_more
    }
}
