//! Growing tables whose clones share what has not changed since.

use std::sync::Arc;

/// A table in pages of `PAGE` entries. A clone costs a counter a page; a change to a table that has clones copies the one
/// page that it touches. Growing never moves what is there, so no memory is kept in reserve for it.
#[derive(Clone, Debug)]
pub(crate) struct CowTable<T, const PAGE: usize> {
    pages: Vec<Arc<Vec<T>>>,
    len: usize,
}

impl<T, const PAGE: usize> Default for CowTable<T, PAGE> {
    fn default() -> Self {
        Self { pages: Vec::new(), len: 0 }
    }
}

impl<T: Clone, const PAGE: usize> CowTable<T, PAGE> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        self.pages.get(index as usize / PAGE)?.get(index as usize % PAGE)
    }

    /// Returns an entry for changing it.
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        Arc::make_mut(self.pages.get_mut(index as usize / PAGE)?).get_mut(index as usize % PAGE)
    }

    /// Changes an entry that is there.
    pub(crate) fn set(&mut self, index: u32, value: T) {
        if let Some(entry) = self.get_mut(index) {
            *entry = value;
        }
    }

    /// Appends an entry; its index.
    pub(crate) fn push(&mut self, value: T) -> u32 {
        let index = self.len;
        match self.pages.get_mut(index / PAGE) {
            Some(page) => Arc::make_mut(page).push(value),
            None => self.pages.push(Arc::new(vec![value])),
        }
        self.len += 1;
        index as u32
    }

    pub(crate) fn bytes(&self) -> usize {
        self.pages.iter().map(|page| page.capacity() * size_of::<T>() + 40).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_stays_as_it_was() {
        let mut table: CowTable<u32, 4> = CowTable::default();
        (0..10).for_each(|number| assert_eq!(table.push(number * number), number));
        let before = table.clone();
        table.set(5, 1_000);
        table.set(10, 1_000);
        table.push(100);
        assert_eq!((before.len(), before.get(5), before.get(10)), (10, Some(&25), None));
        assert_eq!((table.len(), table.get(5), table.get(10)), (11, Some(&1_000), Some(&100)));
        assert!(Arc::ptr_eq(&before.pages[0], &table.pages[0]), "what did not change is shared");
    }
}
