//! Tables that grow without moving their entries, and whose clones share all parts that have not changed since.
//!
//! A vector that doubles leaves holes in memory that only smaller objects can fill, and keeps up to half of its capacity
//! in reserve. With several tables of millions of entries, that is a third of all memory.

use std::ops::{Index, IndexMut};
use std::sync::Arc;

/// Entries of a chunk of most tables. Chunks stay below the size that allocators map one by one.
const ENTRIES: usize = 1 << 12;

/// A growing table in chunks of `CHUNK` entries. A clone increments a counter for each chunk; a change to a table that has
/// clones copies the one chunk that it touches.
#[derive(Clone, Debug)]
pub(crate) struct Chunked<T, const CHUNK: usize = ENTRIES> {
    chunks: Vec<Arc<Vec<T>>>,
    len: usize,
}

impl<T, const CHUNK: usize> Default for Chunked<T, CHUNK> {
    fn default() -> Self {
        Self { chunks: Vec::new(), len: 0 }
    }
}

impl<T, const CHUNK: usize> Chunked<T, CHUNK> {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        self.chunks.get(index / CHUNK)?.get(index % CHUNK)
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + Clone {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }

    pub(crate) fn bytes(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.capacity() * size_of::<T>()).sum()
    }
}

impl<T: Clone, const CHUNK: usize> Chunked<T, CHUNK> {
    #[inline]
    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        own(self.chunks.get_mut(index / CHUNK)?).get_mut(index % CHUNK)
    }

    #[inline]
    pub(crate) fn push(&mut self, entry: T) {
        match self.chunks.get_mut(self.len / CHUNK) {
            Some(chunk) => own(chunk).push(entry),
            None => {
                let mut chunk = Vec::with_capacity(if self.len == 0 { 4 } else { CHUNK });
                chunk.push(entry);
                self.chunks.push(Arc::new(chunk));
            }
        }
        self.len += 1;
    }

    /// Changes an entry that is there.
    pub(crate) fn set(&mut self, index: usize, entry: T) {
        if let Some(existing) = self.get_mut(index) {
            *existing = entry;
        }
    }

    /// Removes the last entry and returns it.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let last = self.chunks.last_mut()?;
        let entry = own(last).pop()?;
        if last.is_empty() {
            self.chunks.pop();
        }
        self.len -= 1;
        Some(entry)
    }
}

/// Returns a chunk of this table only, copied with the room that it had if clones share it.
#[inline]
fn own<T: Clone>(chunk: &mut Arc<Vec<T>>) -> &mut Vec<T> {
    if Arc::strong_count(chunk) > 1 {
        let mut copy = Vec::with_capacity(chunk.capacity());
        copy.extend_from_slice(chunk);
        *chunk = Arc::new(copy);
    }
    // Nobody else can get hold of it now, so nothing is copied here.
    Arc::make_mut(chunk)
}

impl<T: Clone, const CHUNK: usize> Extend<T> for Chunked<T, CHUNK> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, entries: I) {
        entries.into_iter().for_each(|entry| self.push(entry));
    }
}

impl<T, const CHUNK: usize> Index<usize> for Chunked<T, CHUNK> {
    type Output = T;

    #[inline]
    fn index(&self, index: usize) -> &T {
        &self.chunks[index / CHUNK][index % CHUNK]
    }
}

impl<T: Clone, const CHUNK: usize> IndexMut<usize> for Chunked<T, CHUNK> {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut T {
        &mut own(&mut self.chunks[index / CHUNK])[index % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: usize = ENTRIES;

    #[test]
    fn entries_stay_where_they_are() {
        let mut table: Chunked<usize> = Chunked::default();
        (0..3 * CHUNK + 5).for_each(|number| table.push(number));
        table[CHUNK] = 0;
        assert_eq!((table.len(), table.get(3 * CHUNK + 5)), (3 * CHUNK + 5, None));
        assert!(table.iter().enumerate().all(|(index, &entry)| entry == if index == CHUNK { 0 } else { index }));
        assert!((0..table.len()).all(|index| table.get(index) == Some(&table[index])));
    }

    #[test]
    fn a_clone_stays_as_it_was() {
        let mut table: Chunked<usize> = Chunked::default();
        table.extend(0..CHUNK + 2);
        let before = table.clone();
        table[CHUNK + 1] = 7;
        table.push(8);
        assert_eq!((before.len(), before.get(CHUNK + 1), before.get(CHUNK + 2)), (CHUNK + 2, Some(&(CHUNK + 1)), None));
        assert_eq!((table.len(), table.get(CHUNK + 1), table.get(CHUNK + 2)), (CHUNK + 3, Some(&7), Some(&8)));
        assert!(Arc::ptr_eq(&before.chunks[0], &table.chunks[0]), "what did not change is shared");
        assert!(!Arc::ptr_eq(&before.chunks[1], &table.chunks[1]));
    }

    #[test]
    fn entries_are_taken_from_the_end() {
        let mut table: Chunked<usize> = Chunked::default();
        (0..CHUNK + 1).for_each(|number| table.push(number));
        let clone = table.clone();
        assert_eq!((table.pop(), table.pop(), table.len()), (Some(CHUNK), Some(CHUNK - 1), CHUNK - 1));
        table.push(5);
        assert_eq!((table[CHUNK - 1], table.len(), clone[CHUNK - 1], clone.len()), (5, CHUNK, CHUNK - 1, CHUNK + 1));
        (0..CHUNK).for_each(|_| assert!(table.pop().is_some()));
        assert_eq!((table.pop(), table.is_empty()), (None, true));
    }
}
