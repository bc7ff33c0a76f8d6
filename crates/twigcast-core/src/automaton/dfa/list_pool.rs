//! Many short lists, one after the other in one vector.

use std::marker::PhantomData;

/// A list in a pool: where it starts, and its length.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct ListRange<T> {
    start: u32,
    len: u32,
    entries: PhantomData<fn() -> T>,
}

impl<T> Clone for ListRange<T> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for ListRange<T> {}

impl<T> Default for ListRange<T> {
    /// Returns the empty list.
    fn default() -> Self {
        Self { start: 0, len: 0, entries: PhantomData }
    }
}

/// A pool of lists. Forgetting all of them costs nothing, however many there are.
#[derive(Debug)]
pub(super) struct ListPool<T> {
    entries: Vec<T>,
}

impl<T> Default for ListPool<T> {
    fn default() -> Self {
        Self { entries: Vec::new() }
    }
}

impl<T: Copy> ListPool<T> {
    #[inline]
    pub(super) fn get(&self, list: ListRange<T>) -> &[T] {
        &self.entries[list.start as usize..][..list.len as usize]
    }

    /// Adds a list. The caller has checked [`Self::is_full`].
    pub(super) fn add(&mut self, list: &[T]) -> ListRange<T> {
        let missing = list.len().saturating_sub(self.entries.capacity() - self.entries.len());
        if missing > 0 {
            // The pool grows by an eighth: doubling would keep up to half of the memory unused.
            self.entries.reserve_exact(list.len().max(self.entries.len() / 8).max(1 << 10));
        }
        let start = self.entries.len() as u32;
        self.entries.extend_from_slice(list);
        ListRange { start, len: list.len() as u32, entries: PhantomData }
    }

    /// Returns the number of entries of all lists.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns `true` if no list can be added: its start would not fit into a [`ListRange`].
    pub(super) fn is_full(&self) -> bool {
        self.entries.len() > (u32::MAX / 2) as usize
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
    }

    pub(super) fn bytes(&self) -> usize {
        self.entries.len() * size_of::<T>()
    }
}
