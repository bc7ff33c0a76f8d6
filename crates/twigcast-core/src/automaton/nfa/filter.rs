//! Which states an edge with a certain label may leave: most do not have it, and to learn so from the table of all edges
//! is a look at a place in memory that is in no cache.

use super::state::{EdgeLabelId, STAR};
use super::{Nfa, StateId};

/// Bits for each edge; with that many, one state in eight without the edge passes.
const BITS: usize = 8;

/// Bits of a label: where they begin, and how many bits of a state's hash tell one apart.
#[derive(Clone, Copy, Debug, Default)]
struct LabelBits {
    first_word: u32,
    log2: u32,
}

/// A set of bits for each label, small enough to stay in the cache while many states are asked for one label.
#[derive(Debug)]
pub(in crate::automaton) struct EdgeFilter {
    labels: Vec<LabelBits>,
    words: Vec<u64>,
}

impl EdgeFilter {
    /// The filter of an automaton as it is now.
    pub(in crate::automaton) fn of(nfa: &Nfa) -> Self {
        let mut counts = vec![0_usize; nfa.labels.bound()];
        labelled(nfa).for_each(|(_, label)| counts[label as usize] += 1);
        let mut word_count = 0;
        let layout = |count: usize| {
            let bits = (count * BITS).next_power_of_two().max(64);
            let first_word = word_count as u32;
            word_count += bits / 64;
            LabelBits { first_word, log2: bits.trailing_zeros() }
        };
        let mut filter = Self { labels: counts.into_iter().map(layout).collect(), words: Vec::new() };
        filter.words.resize(word_count, 0);
        for (parent, label) in labelled(nfa) {
            let (word, bit) = filter.bit_position(parent, label);
            filter.words[word] |= 1 << bit;
        }
        filter
    }

    /// False if no edge with this label leaves the state.
    #[inline]
    pub(super) fn may_leave(&self, state: StateId, label: EdgeLabelId) -> bool {
        let (word, bit) = self.bit_position(state, label);
        self.words[word] >> bit & 1 == 1
    }

    #[inline]
    fn bit_position(&self, state: StateId, label: EdgeLabelId) -> (usize, u32) {
        let LabelBits { first_word, log2 } = self.labels[label as usize];
        let hash = u64::from(state).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - log2);
        (first_word as usize + (hash as usize >> 6), hash as u32 & 63)
    }

    pub(in crate::automaton) fn bytes(&self) -> usize {
        self.labels.len() * size_of::<LabelBits>() + self.words.len() * size_of::<u64>()
    }
}

/// Where labelled edges leave, and their labels.
fn labelled(nfa: &Nfa) -> impl Iterator<Item = (StateId, EdgeLabelId)> + '_ {
    let edges = nfa.states.iter().map(|state| (state.parent, state.incoming));
    edges.filter(|&(_, label)| label > STAR)
}
