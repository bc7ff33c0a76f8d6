//! Tables with holes.

use std::marker::PhantomData;

use crate::ids::TableId;
use crate::util::chunked::Chunked;

/// Entries in a chunk: fewer than in other tables, since what entries hold is copied with a chunk one by one.
const CHUNK: usize = 1 << 9;

/// A table with holes: entries keep their id while others come and go. The id of a removed entry is used again.
#[derive(Clone, Debug)]
pub struct Slab<T, Id = u32> {
    entries: Chunked<Option<T>, CHUNK>,
    free: Chunked<u32>,
    id: PhantomData<Id>,
}

impl<T, Id> Default for Slab<T, Id> {
    fn default() -> Self {
        Self { entries: Chunked::default(), free: Chunked::default(), id: PhantomData }
    }
}

impl<T: Clone, Id: TableId> Slab<T, Id> {
    /// Adds an entry and returns its id.
    pub fn insert(&mut self, entry: T) -> Id {
        match self.free.pop() {
            Some(index) => {
                self.entries[index as usize] = Some(entry);
                Id::new(index as usize)
            }
            None => {
                self.entries.push(Some(entry));
                Id::new(self.entries.len() - 1)
            }
        }
    }

    /// Removes an entry and returns it, if there is one with this id.
    pub fn remove(&mut self, id: Id) -> Option<T> {
        let entry = self.entries.get_mut(id.index())?.take();
        if entry.is_some() {
            self.free.push(id.index() as u32);
        }
        entry
    }

    /// Returns the entry with an id, if there is one.
    #[inline]
    pub fn get(&self, id: Id) -> Option<&T> {
        self.entries.get(id.index())?.as_ref()
    }

    /// Returns the entry with an id, to be changed.
    pub fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        self.entries.get_mut(id.index())?.as_mut()
    }

    /// Returns all entries, and `None` for each hole, in the order of their ids.
    pub fn slots(&self) -> impl Iterator<Item = Option<&T>> {
        self.entries.iter().map(Option::as_ref)
    }

    /// Returns the size of the table itself in bytes.
    pub fn bytes(&self) -> usize {
        self.entries.bytes() + self.free.bytes()
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Returns `true` if the table has no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
