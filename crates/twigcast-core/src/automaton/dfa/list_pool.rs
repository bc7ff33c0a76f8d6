//! Many short lists of numbers, one after the other.

/// A list: where it starts, and how long it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct ListRange {
    start: u32,
    len: u32,
}

/// The lists. Forgetting them all costs nothing, however many there are.
#[derive(Debug, Default)]
pub(super) struct ListPool {
    numbers: Vec<u32>,
}

impl ListPool {
    #[inline]
    pub(super) fn get(&self, list: ListRange) -> &[u32] {
        &self.numbers[list.start as usize..][..list.len as usize]
    }

    pub(super) fn add(&mut self, list: &[u32]) -> ListRange {
        let missing = list.len().saturating_sub(self.numbers.capacity() - self.numbers.len());
        if missing > 0 {
            // An eighth at a time: twice the room would be twice the memory.
            self.numbers.reserve_exact(list.len().max(self.numbers.len() / 8).max(1 << 10));
        }
        let start = self.numbers.len() as u32;
        self.numbers.extend_from_slice(list);
        ListRange { start, len: list.len() as u32 }
    }

    /// How many numbers there are.
    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// No list can be added: their places could not be told any more.
    pub(super) fn is_full(&self) -> bool {
        self.numbers.len() > (u32::MAX / 2) as usize
    }

    pub(super) fn clear(&mut self) {
        self.numbers.clear();
    }

    pub(super) fn bytes(&self) -> usize {
        self.numbers.len() * size_of::<u32>()
    }
}
