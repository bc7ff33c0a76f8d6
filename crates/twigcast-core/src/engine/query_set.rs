//! Sets of query numbers.

/// A set of small integers as one bit each.
#[derive(Clone, Debug, Default)]
pub struct QuerySet {
    words: Vec<u64>,
}

impl QuerySet {
    /// Make it empty, with room for numbers below `bound`.
    pub fn reset(&mut self, bound: usize) {
        self.words.clear();
        self.words.resize(bound.div_ceil(64), 0);
    }

    /// Add a number below the bound.
    #[inline]
    pub fn insert(&mut self, number: u32) {
        self.words[number as usize >> 6] |= 1 << (number & 63);
    }

    /// Is it a member?
    #[inline]
    pub fn contains(&self, number: u32) -> bool {
        self.words.get(number as usize >> 6).is_some_and(|word| word >> (number & 63) & 1 == 1)
    }

    /// The members, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.words.iter().enumerate().flat_map(|(index, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                if rest == 0 {
                    return None;
                }
                let bit = rest.trailing_zeros();
                rest &= rest - 1;
                Some((index as u32) << 6 | bit)
            })
        })
    }

    /// How many members.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// No member?
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }
}
