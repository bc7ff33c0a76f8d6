//! Tables that grow without moving what is in them.
//!
//! A vector that doubles leaves holes behind that only something smaller can fill, and keeps up to half of its room in
//! reserve. Where tables grow beside each other to millions of entries, that is a third of all memory.

use std::ops::{Index, IndexMut};

/// Entries of a chunk. Chunks stay below what allocators take from the system one by one.
const CHUNK: usize = 1 << 12;

/// A growing table in chunks.
#[derive(Clone, Debug)]
pub(crate) struct Chunked<T> {
    chunks: Vec<Vec<T>>,
    len: usize,
}

impl<T> Default for Chunked<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), len: 0 }
    }
}

impl<T> Chunked<T> {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        self.chunks.get(index / CHUNK)?.get(index % CHUNK)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.chunks.get_mut(index / CHUNK)?.get_mut(index % CHUNK)
    }

    #[inline]
    pub(crate) fn push(&mut self, entry: T) {
        match self.chunks.get_mut(self.len / CHUNK) {
            Some(chunk) => chunk.push(entry),
            None => {
                let mut chunk = Vec::with_capacity(if self.len == 0 { 4 } else { CHUNK });
                chunk.push(entry);
                self.chunks.push(chunk);
            }
        }
        self.len += 1;
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> + Clone {
        self.chunks.iter().flatten()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.capacity() * size_of::<T>()).sum()
    }
}

impl<T> Index<usize> for Chunked<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: usize) -> &T {
        &self.chunks[index / CHUNK][index % CHUNK]
    }
}

impl<T> IndexMut<usize> for Chunked<T> {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut T {
        &mut self.chunks[index / CHUNK][index % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_stay_where_they_are() {
        let mut table = Chunked::default();
        (0..3 * CHUNK + 5).for_each(|number| table.push(number));
        table[CHUNK] = 0;
        assert_eq!((table.len(), table.get(3 * CHUNK + 5)), (3 * CHUNK + 5, None));
        assert!(table.iter().enumerate().all(|(index, &entry)| entry == if index == CHUNK { 0 } else { index }));
        assert!((0..table.len()).all(|index| table.get(index) == Some(&table[index])));
    }
}
