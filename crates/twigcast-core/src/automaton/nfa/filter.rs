//! A filter in front of the table of edges.

use crate::ids::{EdgeLabelId, StateId};

/// Bits for each edge. With 8, one state in eight that has no edge with the label passes.
const BITS: usize = 8;

/// The bits of one label: the word where they begin, and how many bits of a hash choose one of them.
#[derive(Clone, Copy, Debug, Default)]
struct LabelBits {
    first_word: u32,
    log2: u32,
}

/// A Bloom filter of the states that edges with a label leave, with one hash function.
///
/// Most states have no edge with a given label. The table of all edges says so, too, but a lookup there usually misses the
/// processor's cache. The bits of one label stay in the cache while many states are asked for it.
#[derive(Debug)]
pub(in crate::automaton) struct EdgeFilter {
    labels: Vec<LabelBits>,
    words: Vec<u64>,
}

impl EdgeFilter {
    /// Creates the filter of some edges: where each leaves, and its label, whose index is below `label_bound`.
    pub(super) fn new(label_bound: usize, edges: impl Iterator<Item = (StateId, EdgeLabelId)> + Clone) -> Self {
        let mut counts = vec![0_usize; label_bound];
        edges.clone().for_each(|(_, label)| counts[label.index()] += 1);
        let mut word_count = 0;
        let layout = |count: usize| {
            let bits = (count * BITS).next_power_of_two().max(64);
            let first_word = word_count as u32;
            word_count += bits / 64;
            LabelBits { first_word, log2: bits.trailing_zeros() }
        };
        let mut filter = Self { labels: counts.into_iter().map(layout).collect(), words: Vec::new() };
        filter.words.resize(word_count, 0);
        for (parent, label) in edges {
            let (word, bit) = filter.bit_position(parent, label);
            filter.words[word] |= 1 << bit;
        }
        filter
    }

    /// Returns `false` if no edge with this label leaves the state.
    #[inline]
    pub(super) fn may_leave(&self, state: StateId, label: EdgeLabelId) -> bool {
        let (word, bit) = self.bit_position(state, label);
        self.words[word] >> bit & 1 == 1
    }

    #[inline]
    fn bit_position(&self, state: StateId, label: EdgeLabelId) -> (usize, u32) {
        let LabelBits { first_word, log2 } = self.labels[label.index()];
        let hash = u64::from(state.as_u32()).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - log2);
        (first_word as usize + (hash as usize >> 6), hash as u32 & 63)
    }

    pub(in crate::automaton) fn bytes(&self) -> usize {
        self.labels.len() * size_of::<LabelBits>() + self.words.len() * size_of::<u64>()
    }
}
