//! Counts of the values that expressions have had in sampled messages: how rare each word of a text is.
//!
//! A few samples tell how many values pass a test that many pass. Of the words of a text, a test asks for one of thousands.

use rustc_hash::FxHashMap;

use super::conditions::{hash_operand, hash_text_of};
use crate::plan::ValueTest;

/// Values that are counted, those of all operands together: two megabytes at most. Beyond it, all count half, and those that
/// were seen once are forgotten.
const VALUES_MAX: usize = 1 << 16;
/// Elements at which an operand has to be read before anything is concluded.
const READ_MIN: f32 = 8.0;

/// Counts of values by operand. See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct ValueCounts {
    /// By the hash of an operand, the elements at which it was read, older ones counting less.
    read: FxHashMap<u64, f32>,
    /// By the hash of an operand and a value, how many of them had it.
    values: FxHashMap<u64, f32>,
}

impl ValueCounts {
    /// Notes the values that an operand has at an element, each as often as it is given, by hashes of both.
    pub(super) fn note(&mut self, operand: u64, values: impl Iterator<Item = u64>) {
        *self.read.entry(operand).or_default() += 1.0;
        for value in values {
            *self.values.entry(value).or_default() += 1.0;
        }
        if self.values.len() > VALUES_MAX {
            self.halve();
        }
    }

    /// Lets what was noted so far count half.
    pub(super) fn halve(&mut self) {
        for counts in [&mut self.read, &mut self.values] {
            counts.retain(|_, count| {
                *count /= 2.0;
                *count > 0.5
            });
        }
    }

    /// Returns how often an operand is expected to equal a text in one of `messages`; `None` if that is not known. `assumed`
    /// is the expectation without any messages.
    pub(super) fn times(&self, test: &ValueTest, text: &str, assumed: f32, messages: f32) -> Option<f32> {
        let operand = hash_operand(&test.operand);
        let read = *self.read.get(&operand).filter(|read| **read >= READ_MIN)?;
        let share = match self.values.get(&hash_text_of(operand, text)) {
            Some(count) => count / read,
            None => assumed.min(1.0 / (read + 1.0)),
        };
        // Where it is read only for queries that something else has led to, it has a value as often as it was read for one.
        Some(share * (read / messages).max(1.0))
    }

    /// Returns the bytes on the heap, by estimate.
    pub(super) fn bytes(&self) -> usize {
        (self.read.capacity() + self.values.capacity()) * (size_of::<(u64, f32)>() + 1)
    }
}
