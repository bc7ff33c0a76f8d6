//! Tables with holes.

use crate::util::chunked::Chunked;

/// A table with holes: entries keep their number while others come and go.
#[derive(Clone, Debug)]
pub struct Slab<T> {
    entries: Chunked<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { entries: Chunked::default(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Add an entry; its number.
    pub fn insert(&mut self, entry: T) -> u32 {
        match self.free.pop() {
            Some(id) => {
                self.entries[id as usize] = Some(entry);
                id
            }
            None => {
                self.entries.push(Some(entry));
                self.entries.len() as u32 - 1
            }
        }
    }

    /// Take an entry out.
    pub fn remove(&mut self, id: u32) -> Option<T> {
        let entry = self.entries.get_mut(id as usize)?.take();
        if entry.is_some() {
            self.free.push(id);
        }
        entry
    }

    /// Look at an entry.
    #[inline]
    pub fn get(&self, id: u32) -> Option<&T> {
        self.entries.get(id as usize)?.as_ref()
    }

    /// Change an entry.
    pub fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        self.entries.get_mut(id as usize)?.as_mut()
    }

    /// All places, in use or not, in the order of their numbers.
    pub fn slots(&self) -> impl Iterator<Item = Option<&T>> {
        self.entries.iter().map(Option::as_ref)
    }

    /// Bytes of the table itself.
    pub fn bytes(&self) -> usize {
        self.entries.bytes() + self.free.capacity() * size_of::<u32>()
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// No entry?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
