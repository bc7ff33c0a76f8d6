//! Sets of queries as bits.

use crate::simd::Kernel;
use crate::util::bits::has_bit;

/// Words of a set that are processed together.
const SPAN: usize = 64;
/// Members that are collected before they are appended.
const COLLECTED: usize = 1 << 10;

/// Takes the first members of a word. Where it has no more, the rest of the group is arbitrary.
#[inline(always)]
fn take_group<const SIZE: usize>(base: u32, rest: &mut u64) -> [u32; SIZE] {
    std::array::from_fn(|_| {
        let member = base.wrapping_add(rest.trailing_zeros());
        *rest &= rest.wrapping_sub(1);
        member
    })
}

/// Returns the members that a word of a set stands for, ascending.
#[inline]
pub(super) fn word_members(index: usize, word: u64) -> impl Iterator<Item = u32> {
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

/// A set of small numbers, one bit each: queries, or slots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuerySet {
    words: Vec<u64>,
}

impl QuerySet {
    /// Removes all members, and makes space for numbers below `bound`.
    pub fn reset(&mut self, bound: usize) {
        self.words.clear();
        self.words.resize(bound.div_ceil(64), 0);
    }

    /// Removes all members. The set grows as needed afterwards, which suits sets that mostly stay empty.
    pub(super) fn clear(&mut self) {
        self.words.clear();
    }

    /// Adds a number of any size.
    pub(super) fn insert_growing(&mut self, number: u32) {
        let word = number as usize >> 6;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.insert(number);
    }

    /// Adds all members of another set.
    pub(super) fn insert_all(&mut self, other: &Self) {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        self.words.iter_mut().zip(&other.words).for_each(|(word, more)| *word |= more);
    }

    /// Replaces the set by its complement among the numbers below `bound`.
    pub(super) fn complement(&mut self, bound: usize) {
        self.words.resize(bound.div_ceil(64), 0);
        self.words.iter_mut().for_each(|word| *word = !*word);
    }

    /// Adds all members of another set. `new` becomes the set of those that are new. Returns `true` if there are any.
    pub(super) fn take_in(&mut self, other: &Self, new: &mut Self) -> bool {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        new.words.clear();
        new.words.extend(self.words.iter_mut().zip(&other.words).map(|(own, &word)| {
            let come = word & !*own;
            *own |= word;
            come
        }));
        new.words.iter().any(|&word| word != 0)
    }

    /// Returns the first member from `from` on that is not in another set.
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

    /// Adds a number of any size. Returns `true` if it is new.
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

    /// Adds a number below the bound.
    #[inline]
    pub fn insert(&mut self, number: u32) {
        self.words[number as usize >> 6] |= 1 << (number & 63);
    }

    /// Adds a number below the bound if `holds` is true. Has no branch, since `holds` may be unpredictable.
    #[inline]
    pub(super) fn insert_if(&mut self, number: u32, holds: bool) {
        self.words[number as usize >> 6] |= u64::from(holds) << (number & 63);
    }

    /// Returns `true` if a number is a member.
    #[inline]
    pub fn contains(&self, number: u32) -> bool {
        has_bit(&self.words, number as usize)
    }

    /// Returns the members, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.words().flat_map(|(index, word)| word_members(index, word))
    }

    /// Returns `true` if nothing was added since [`Self::clear`].
    pub(super) fn is_blank(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns the words of the set that are not empty: index, members as bits.
    #[inline]
    pub(super) fn words(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        // Eight words at once are tested quickly.
        let some =
            self.words.chunks(8).enumerate().filter(|(_, words)| words.iter().fold(0, |all, word| all | word) != 0);
        some.flat_map(|(number, words)| (number * 8..).zip(words.iter().copied())).filter(|&(_, word)| word != 0)
    }

    /// Adds the members of another set that a mask has, too. There is space for them.
    pub(super) fn insert_common(&mut self, other: &Self, mask: &[u64]) {
        let common = other.words.iter().zip(mask).map(|(word, mask)| word & mask);
        self.words.iter_mut().zip(common).for_each(|(word, more)| *word |= more);
    }

    /// Removes a number below the bound.
    pub(super) fn remove(&mut self, number: u32) {
        self.words[number as usize >> 6] &= !(1 << (number & 63));
    }

    /// Returns a number that no member reaches.
    pub(super) fn bound(&self) -> usize {
        self.words.len() * 64
    }

    /// Passes the members that a mask has, too, on to `work`, by word.
    pub(super) fn for_each_common(&self, mask: &[u64], mut work: impl FnMut(usize, u64)) {
        for (number, (words, masks)) in self.words.chunks(8).zip(mask.chunks(8)).enumerate() {
            // Eight words at once are tested quickly.
            if words.iter().zip(masks).fold(0, |all, (word, mask)| all | word & mask) == 0 {
                continue;
            }
            for (at, (word, mask)) in words.iter().zip(masks).enumerate().filter(|(_, (word, mask))| *word & *mask != 0)
            {
                work(number * 8 + at, word & mask);
            }
        }
    }

    /// Appends the members, ascending.
    pub(super) fn append_to(&self, members: &mut Vec<u32>) {
        (APPEND_MEMBERS.get())(&self.words, members);
    }

    /// Appends the members, ascending: of each word, those that `admitted` leaves.
    pub(super) fn append_admitted_to(&self, members: &mut Vec<u32>, admitted: impl FnMut(usize, u64) -> u64) {
        append_admitted(&self.words, members, admitted);
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns `true` if the set has no members.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }
}

/// The SIMD kernel [`append_members`].
type AppendMembersFn = fn(&[u64], &mut Vec<u32>);

static APPEND_MEMBERS: Kernel<AppendMembersFn> = Kernel::new(append_members);

/// Makes the kernel count bits and go from bit to bit in one instruction.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(crate) fn use_avx2() {
    // A closure is compiled with the features of the function around it; the function itself would not be.
    #[allow(clippy::redundant_closure)]
    APPEND_MEMBERS.choose(|words, members| append_members(words, members));
}

/// Appends the members of a set, ascending.
#[inline(always)]
fn append_members(words: &[u64], members: &mut Vec<u32>) {
    append_admitted(words, members, |_, word| word);
}

/// Appends the members of a set, ascending: of each word, those that `admitted` leaves.
#[inline(always)]
fn append_admitted(words: &[u64], members: &mut Vec<u32>, admitted: impl FnMut(usize, u64) -> u64) {
    // A sample shows how many members a word has that is not empty.
    let sample = words.iter().step_by((words.len() / SPAN).max(1)).filter(|&&word| word != 0);
    let (some, count) = sample.fold((0, 0), |(n, m), word| (n + 1, m + word.count_ones()));
    if count > 16 * some {
        append_bytewise(words, members, admitted);
    } else if count > 2 * some + some / 2 {
        append_groups::<8>(words, members, admitted);
    } else if 5 * count > 6 * some {
        append_groups::<4>(words, members, admitted);
    } else {
        append_groups::<2>(words, members, admitted);
    }
}

/// Appends members as [`append_admitted`] does, in groups: of each word, whole groups are written, and the excess is
/// overwritten by the next word. With groups as large as most words need, that costs less than an unpredictable branch
/// for each member.
#[inline(always)]
fn append_groups<const SIZE: usize>(
    words: &[u64],
    members: &mut Vec<u32>,
    mut admitted: impl FnMut(usize, u64) -> u64,
) {
    let mut collected = [0; COLLECTED];
    let mut len = 0;
    for (span, words) in words.chunks(SPAN).enumerate() {
        // Whether a word has members is unpredictable, too, so this has no branch.
        let mut non_empty = [0_u8; SPAN];
        let mut count = 0;
        for (at, &word) in words.iter().enumerate() {
            non_empty[count] = at as u8;
            count += usize::from(word != 0);
        }
        for &at in &non_empty[..count] {
            let index = span * SPAN + usize::from(at);
            let mut rest = admitted(index, words[usize::from(at)]);
            let mut to = len;
            len += rest.count_ones() as usize;
            while rest != 0 {
                collected[to..to + SIZE].copy_from_slice(&take_group::<SIZE>((index as u32) << 6, &mut rest));
                to += SIZE;
            }
            if len > COLLECTED - 64 - SIZE {
                members.extend_from_slice(&collected[..len]);
                len = 0;
            }
        }
    }
    members.extend_from_slice(&collected[..len]);
}

/// By byte, the numbers of its bits that are set, ascending.
static BITS_OF: [[u8; 8]; 256] = {
    let mut table = [[0; 8]; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut bit, mut count) = (0, 0);
        while bit < 8 {
            if byte >> bit & 1 == 1 {
                table[byte][count] = bit;
                count += 1;
            }
            bit += 1;
        }
        byte += 1;
    }
    table
};

/// Appends members as [`append_admitted`] does, byte by byte, where most bytes have several: what a byte stands for is
/// looked up, and the excess is overwritten by the next byte.
#[inline(always)]
fn append_bytewise(words: &[u64], members: &mut Vec<u32>, mut admitted: impl FnMut(usize, u64) -> u64) {
    let mut collected = [0; COLLECTED];
    let mut len = 0;
    for (index, &word) in words.iter().enumerate().filter(|(_, word)| **word != 0) {
        let bytes = admitted(index, word).to_le_bytes();
        for (base, byte) in ((index as u32) << 6..).step_by(8).zip(bytes) {
            let bits = BITS_OF[usize::from(byte)];
            let group: [u32; 8] = std::array::from_fn(|at| base.wrapping_add(u32::from(bits[at])));
            collected[len..len + 8].copy_from_slice(&group);
            len += byte.count_ones() as usize;
        }
        if len > COLLECTED - 64 - 8 {
            members.extend_from_slice(&collected[..len]);
            len = 0;
        }
    }
    members.extend_from_slice(&collected[..len]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    /// From sets of all densities, the members that are admitted are appended in order.
    #[test]
    fn members_are_appended_in_order() {
        for seed in 1..60_u64 {
            println!("seed {seed}");
            let mut random = Random(seed);
            let bound = 1 + random.below(9_000) as u32;
            let density = [1, 2, 7, 30, 80, 100][seed as usize % 6];
            let mut set = QuerySet::default();
            set.reset(bound as usize);
            (0..bound).for_each(|number| set.insert_if(number, random.below(100) < density));
            let expected: Vec<u32> = (0..bound).filter(|&number| set.contains(number)).collect();
            for kept in [u64::MAX, 0, 0x5555_5555_5555_5555, random.below(1 << 31) << 32 | random.below(1 << 31)] {
                let mut collected = vec![u32::MAX];
                set.append_admitted_to(&mut collected, |index, word| {
                    assert!(word != 0 && set.words[index] == word);
                    word & kept.rotate_left(index as u32)
                });
                let is_kept = |&number: &u32| kept.rotate_left(number >> 6) >> (number & 63) & 1 == 1;
                let expected: Vec<u32> = expected.iter().copied().filter(is_kept).collect();
                assert_eq!((collected[0], &collected[1..]), (u32::MAX, &expected[..]));
            }
        }
    }
}
