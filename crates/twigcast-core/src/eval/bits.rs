//! Sets of nodes of one message, a bit each.

use crate::document::NodeId;

/// A set of nodes (or of attributes), by number.
#[derive(Clone, Debug)]
pub(super) struct NodeBits(Box<[u64]>);

impl NodeBits {
    /// Returns the empty set, for numbers below `bound`.
    pub(super) fn new(bound: usize) -> Self {
        Self(vec![0; bound.div_ceil(64)].into())
    }

    #[inline]
    pub(super) fn contains(&self, number: u32) -> bool {
        self.0.get(number as usize / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    #[inline]
    pub(super) fn insert(&mut self, number: u32) {
        if let Some(word) = self.0.get_mut(number as usize / 64) {
            *word |= 1 << (number % 64);
        }
    }

    pub(super) fn insert_all(&mut self, others: &Self) {
        for (word, other) in self.0.iter_mut().zip(&others.0) {
            *word |= other;
        }
    }

    /// Returns the numbers in the set, smallest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.0.iter().enumerate().flat_map(|(index, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros())?;
                rest &= rest - 1;
                Some(index as u32 * 64 + bit)
            })
        })
    }
}
