//! Sets of query numbers.

/// Members that [`append_members`] writes at a time.
pub(super) const GROUP: usize = 8;

/// Append the members that one word of a set stands for, ascending. Writes in whole groups and takes back what was too
/// much: with groups as large as most words need, that costs less than a branch that goes either way at each member.
#[inline]
pub(super) fn append_members(index: usize, word: u64, members: &mut Vec<u32>) {
    let base = (index as u32) << 6;
    let end = members.len() + word.count_ones() as usize;
    let mut rest = word;
    while rest != 0 {
        let mut group = [0; GROUP];
        for place in &mut group {
            *place = base | (rest.trailing_zeros() & 63);
            rest &= rest.wrapping_sub(1);
        }
        members.extend_from_slice(&group);
    }
    members.truncate(end);
}

/// Do the words of a set that have members have several, so that [`append_members`] pays? By a sample.
pub(super) fn is_dense(set: &QuerySet) -> bool {
    let sample = set.words().take(64);
    let (words, members) = sample.fold((0, 0), |(n, m), (_, word)| (n + 1, m + word.count_ones()));
    members > 3 * words
}

/// The members that one word of a set stands for, ascending.
#[inline]
pub(super) fn members(index: usize, word: u64) -> impl Iterator<Item = u32> {
    let mut rest = word;
    std::iter::from_fn(move || {
        if rest == 0 {
            return None;
        }
        let bit = rest.trailing_zeros();
        rest &= rest - 1;
        Some((index as u32) << 6 | bit)
    })
}

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

    /// Make it empty, to grow as needed: for sets that mostly stay empty.
    pub(super) fn clear(&mut self) {
        self.words.clear();
    }

    /// Add a number, making room for it.
    pub(super) fn insert_growing(&mut self, number: u32) {
        let word = number as usize >> 6;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.insert(number);
    }

    /// Add all members of another set, making room for them.
    pub(super) fn insert_all(&mut self, other: &Self) {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        self.words.iter_mut().zip(&other.words).for_each(|(word, more)| *word |= more);
    }

    /// Make it the set of the numbers below `bound` that it does not have.
    pub(super) fn complement(&mut self, bound: usize) {
        self.words.resize(bound.div_ceil(64), 0);
        self.words.iter_mut().for_each(|word| *word = !*word);
    }

    /// Take in another set; `new` becomes the set of the members that were not there yet. Whether there are any.
    pub(super) fn take_in(&mut self, other: &Self, new: &mut Self) -> bool {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        new.words.clear();
        new.words.extend(self.words.iter_mut().zip(&other.words).map(|(known, &word)| {
            let come = word & !*known;
            *known |= word;
            come
        }));
        new.words.iter().any(|&word| word != 0)
    }

    /// The first member that is not below `from` and not in another set.
    pub(super) fn next_without(&self, from: u32, other: &Self) -> Option<u32> {
        let first = from as usize >> 6;
        let mut below = u64::MAX << (from & 63);
        for (index, &word) in self.words.iter().enumerate().skip(first) {
            let left = word & below & !other.words.get(index).copied().unwrap_or(0);
            if left != 0 {
                return Some((index as u32) << 6 | left.trailing_zeros());
            }
            below = u64::MAX;
        }
        None
    }

    /// Add a number, making room for it; whether it was not there.
    #[inline]
    pub(super) fn insert_new(&mut self, number: u32) -> bool {
        let (word, bit) = (number as usize >> 6, 1 << (number & 63));
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let is_new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        is_new
    }

    /// Add a number below the bound.
    #[inline]
    pub fn insert(&mut self, number: u32) {
        self.words[number as usize >> 6] |= 1 << (number & 63);
    }

    /// Add a number below the bound where `holds` says so, which may be as good as random: without a branch.
    #[inline]
    pub(super) fn insert_if(&mut self, number: u32, holds: bool) {
        self.words[number as usize >> 6] |= u64::from(holds) << (number & 63);
    }

    /// Add the members that one word stands for.
    #[inline]
    pub(super) fn insert_word(&mut self, index: usize, word: u64) {
        self.words[index] |= word;
    }

    /// Is it a member?
    #[inline]
    pub fn contains(&self, number: u32) -> bool {
        self.words.get(number as usize >> 6).is_some_and(|word| word >> (number & 63) & 1 == 1)
    }

    /// The members, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.words().flat_map(|(index, word)| members(index, word))
    }

    /// Was nothing added since [`Self::clear`]?
    pub(super) fn is_blank(&self) -> bool {
        self.words.is_empty()
    }

    /// The words of the set: number, members as bits.
    #[inline]
    pub(super) fn words(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.words.iter().copied().enumerate().filter(|&(_, word)| word != 0)
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
