//! A hash table that is emptied in constant time: its slots carry an epoch, and those of earlier epochs are free.

/// An open table of keys and numbers. At most half of the slots are in use, and their number is a power of two.
#[derive(Debug, Default)]
pub(crate) struct EpochTable {
    slots: Box<[EpochSlot]>,
    epoch: u32,
    len: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct EpochSlot {
    key: u64,
    /// 0: never in use.
    epoch: u32,
    value: u32,
}

const SLOTS_MIN: usize = 256;
/// A table with more slots than that is not kept when it is emptied.
const KEPT_SLOTS_MAX: usize = 1 << 20;

impl EpochTable {
    /// Forgets all entries.
    pub(crate) fn clear(&mut self) {
        if self.slots.len() > KEPT_SLOTS_MAX || self.epoch == u32::MAX {
            *self = Self::default();
        }
        self.epoch += 1;
        self.len = 0;
    }

    /// Returns the number of entries.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the slot of a key, or the free one where it would stand.
    #[inline]
    fn slot(&self, key: u64) -> usize {
        let last = self.slots.len() - 1;
        let mut at = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & last;
        while self.slots[at].epoch == self.epoch && self.slots[at].key != key {
            at = (at + 1) & last;
        }
        at
    }

    /// Returns the number of a key.
    #[inline]
    pub(crate) fn get(&self, key: u64) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let slot = &self.slots[self.slot(key)];
        (slot.epoch == self.epoch).then_some(slot.value)
    }

    /// Sets the number of a key.
    pub(crate) fn insert(&mut self, key: u64, value: u32) {
        if (self.len + 1) * 2 > self.slots.len() {
            self.grow();
        }
        let at = self.slot(key);
        self.len += usize::from(self.slots[at].epoch != self.epoch);
        self.slots[at] = EpochSlot { key, epoch: self.epoch, value };
    }

    fn grow(&mut self) {
        let before = std::mem::take(&mut self.slots);
        self.slots = vec![EpochSlot::default(); (before.len() * 2).max(SLOTS_MIN)].into();
        let epoch = self.epoch.max(1);
        for slot in before.iter().filter(|slot| slot.epoch == self.epoch && slot.epoch != 0) {
            let at = self.slot(slot.key);
            self.slots[at] = EpochSlot { epoch, ..*slot };
        }
        self.epoch = epoch;
    }

    /// Returns the bytes on the heap.
    pub(crate) fn bytes(&self) -> usize {
        self.slots.len() * size_of::<EpochSlot>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::testing::Random;

    #[test]
    fn entries_stay_until_the_table_is_cleared() {
        let mut table = EpochTable::default();
        let mut random = Random(7);
        for round in 0..40 {
            let mut existing = HashMap::new();
            for step in 0..round * 50 {
                let key = random.below(700_u64) << 32 | random.below(4);
                table.insert(key, step);
                existing.insert(key, step);
            }
            assert_eq!(table.len(), existing.len());
            for key in (0..700 << 32).step_by(1 << 32).flat_map(|high| [high, high | 1, high | 2, high | 3]) {
                assert_eq!(table.get(key), existing.get(&key).copied());
            }
            table.clear();
        }
    }
}
