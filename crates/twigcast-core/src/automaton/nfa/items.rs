//! What waits at the states of the automaton: one acceptance in the state itself, or a list.

use super::state::HAS_ATTACHMENT;
use super::{AcceptItem, Nfa, StateId};

pub(super) const NO_ITEM: u32 = u32::MAX;
/// In place of a state's list: the query of the only item, an acceptance. In place of an item's number: its state, where
/// the item was the state's only one when it came.
const SOLE: u32 = 1 << 31;
/// In place of the item before: the first of its list, and known by its state.
const STATE_HELD: u32 = u32::MAX - 1;

/// The number of an item that was its state's only one when it came.
pub fn sole_item(state: StateId) -> u32 {
    state | SOLE
}

/// The state of such an item; `None` for others.
pub fn state_of_sole(item: u32) -> Option<StateId> {
    (item & SOLE != 0).then_some(item & !SOLE)
}

#[derive(Clone, Copy, Debug)]
pub(super) struct AcceptEntry {
    item: AcceptItem,
    state: StateId,
    next: u32,
    /// The item before this one in its list; [`NO_ITEM`] or [`STATE_HELD`] for the first.
    previous: u32,
}

impl Nfa {
    /// The query of a state's first acceptance, if no item came before it.
    #[inline]
    pub fn first_accepted(&self, state: StateId) -> Option<u32> {
        let head = self.states[state as usize].items;
        if head == NO_ITEM {
            return None;
        }
        if head & SOLE != 0 {
            return Some(head & !SOLE);
        }
        match self.items[head as usize] {
            AcceptEntry { item: AcceptItem::Accept(query), previous: STATE_HELD, .. } => Some(query),
            _ => None,
        }
    }

    /// Add an item to a state. Returns the item's number for [`Self::remove`].
    pub fn insert_item(&mut self, state: StateId, item: AcceptItem) -> u32 {
        self.states[state as usize].begin_use();
        self.version += 1;
        self.note_added(state, item);
        let head = self.states[state as usize].items;
        match item {
            AcceptItem::Accept(query) if head == NO_ITEM && query < NO_ITEM & !SOLE => {
                self.states[state as usize].items = query | SOLE;
                state | SOLE
            }
            _ => self.enlist(state, item),
        }
    }

    /// Put an item on a state's list, as the first, or behind the first where that is known by the state.
    fn enlist(&mut self, state: StateId, item: AcceptItem) -> u32 {
        let mut head = self.states[state as usize].items;
        if head != NO_ITEM && head & SOLE != 0 {
            let item = AcceptItem::Accept(head & !SOLE);
            head = self.new_item(AcceptEntry { item, state, next: NO_ITEM, previous: STATE_HELD });
            self.states[state as usize].items = head;
        }
        let behind = head != NO_ITEM && self.items[head as usize].previous == STATE_HELD;
        let (previous, next) = if behind { (head, self.items[head as usize].next) } else { (NO_ITEM, head) };
        let number = self.new_item(AcceptEntry { item, state, next, previous });
        if next != NO_ITEM {
            self.items[next as usize].previous = number;
        }
        if behind {
            self.items[head as usize].next = number;
        } else {
            self.states[state as usize].items = number;
        }
        number
    }

    fn new_item(&mut self, entry: AcceptEntry) -> u32 {
        match self.free_items.pop() {
            Some(number) => {
                self.items[number as usize] = entry;
                number
            }
            None => {
                self.items.push(entry);
                self.items.len() as u32 - 1
            }
        }
    }

    /// Remove an item, and the states that only its path needed (Diao 2005, section 4.3.2).
    pub fn remove(&mut self, item: u32) {
        let state = self.state_of_item(item);
        let head = self.states[state as usize].items;
        if head & SOLE != 0 {
            self.states[state as usize].items = NO_ITEM;
        } else {
            self.delist(if item & SOLE != 0 { head } else { item });
        }
        self.version += 1;
        self.disturb();
        self.release(state);
    }

    /// Take an entry off its list.
    fn delist(&mut self, number: u32) {
        let AcceptEntry { state, next, previous, .. } = self.items[number as usize];
        match previous {
            NO_ITEM | STATE_HELD => self.states[state as usize].items = next,
            _ => self.items[previous as usize].next = next,
        }
        if next != NO_ITEM {
            let previous = if previous == STATE_HELD { NO_ITEM } else { previous };
            self.items[next as usize].previous = previous;
        }
        self.free_items.push(number);
    }

    /// The state that an item belongs to.
    pub fn state_of_item(&self, item: u32) -> StateId {
        if item & SOLE != 0 { item & !SOLE } else { self.items[item as usize].state }
    }

    /// The items of a state, in no order.
    #[inline]
    pub fn items(&self, state: StateId) -> impl Iterator<Item = AcceptItem> + '_ {
        let mut next = self.states[state as usize].items;
        std::iter::from_fn(move || {
            if next == NO_ITEM {
                return None;
            }
            if next & SOLE != 0 {
                return Some(AcceptItem::Accept(std::mem::replace(&mut next, NO_ITEM) & !SOLE));
            }
            let entry = self.items.get(next as usize)?;
            next = entry.next;
            Some(entry.item)
        })
    }

    /// Append the acceptances of a state; whether the engine has anything else to do there.
    #[inline]
    pub(in crate::automaton) fn collect_accepts(&self, state: StateId, accepts: &mut Vec<u32>) -> bool {
        let entry = &self.states[state as usize];
        let mut more = entry.has(HAS_ATTACHMENT);
        if entry.items & SOLE != 0 && entry.items != NO_ITEM {
            accepts.push(entry.items & !SOLE);
            return more;
        }
        for item in self.items(state) {
            match item {
                AcceptItem::Accept(query) => accepts.push(query),
                AcceptItem::Twig(_) | AcceptItem::Trigger(_) | AcceptItem::Access(_) => more = true,
            }
        }
        more
    }
}
