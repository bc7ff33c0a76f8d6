//! A cache of where words of texts lead, by the words as they are written: to tests, and to rows of the queries that wait. What
//! messages say again and again is divided into words, but neither folded nor stemmed nor looked up anew.
//!
//! All of it is small and lies together, since a text has hundreds of words: what is spread over the memory of a population takes
//! longer to fetch than to use.

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::access::conditions::SharedConditions;
use crate::access::table::AccessTable;
use crate::access::word_rows::append_row;
use crate::ids::{ConditionId, OperandId};
use crate::util::words::{StemLanguage, WordOptions};

/// The longest word that is kept, in bytes.
const WORD_BYTES_MAX: usize = 16;
/// Pairs of words at first, and at most: two megabytes. Once as many words as a quarter of these had to go, the cache grows.
const PAIRS_MIN: usize = 1 << 9;
const PAIRS_MAX: usize = 1 << 15;
const PAIRS_PER_EVICTION: usize = 4;
/// The most numbers in rows: sixteen megabytes. What waits for further words is looked up anew.
const ROWS_MAX: usize = 1 << 22;
/// Readers that are known by number; those that are no more included.
const READERS_MAX: usize = 256;

/// No row: nothing waits for the word.
pub(super) const NO_ROW: u32 = u32::MAX;
/// No row: what waits for the word has to be looked up.
pub(super) const ROW_NOT_KEPT: u32 = u32::MAX - 1;

/// A reader of words: an operand whose words lead to tests, and a table where these lead to queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WordReader {
    /// The words that are asked for.
    pub words_edition: u64,
    /// The edition of the table where queries wait for them; 0: there is none.
    pub table_edition: u64,
    /// The operand.
    pub operand: OperandId,
    /// The language, if words are stemmed.
    pub language: Option<StemLanguage>,
}

/// A place where words lead: what is looked up of a word that is not known yet.
#[derive(Clone, Copy)]
pub(super) struct WordLookUp<'l> {
    pub conditions: &'l SharedConditions,
    pub table: Option<&'l AccessTable>,
    pub reader: WordReader,
    pub options: WordOptions,
}

/// The test and the row to which a word leads.
#[derive(Clone, Copy, Debug)]
pub(super) struct WordLead {
    /// The test for it; [`ConditionId::NONE`]: there is none.
    pub test: ConditionId,
    /// The position of the row of the queries that wait for it, [`NO_ROW`] or [`ROW_NOT_KEPT`].
    pub row: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct CachedWord {
    word: u128,
    /// The number of the reader; 0: nothing is kept here.
    reader: u32,
    test: u32,
    row: u32,
}

/// Two words in one cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct WordPair([CachedWord; 2]);

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct WordCache {
    pairs: Box<[WordPair]>,
    /// Rows, one after the other.
    pub(super) rows: Vec<u32>,
    readers: Vec<(WordReader, u32)>,
    next_reader: u32,
    /// By the edition of a table and the test for a word, the position of its row: a word that had to go finds it again.
    positions: FxHashMap<(u64, ConditionId), u32>,
    evictions: usize,
}

/// Returns a word of a text as a number, if it is short. No word has a zero byte, so two words have different numbers. Where
/// case does not matter, words of ASCII have the number of the one in small letters.
#[inline(always)]
pub(super) fn short_word(text: &[u8], word: Range<usize>, is_case_sensitive: bool) -> Option<u128> {
    let length = word.len();
    if length == 0 || length > WORD_BYTES_MAX {
        return None;
    }
    let bytes = match text.get(word.start..)?.first_chunk::<WORD_BYTES_MAX>() {
        Some(bytes) => u128::from_le_bytes(*bytes),
        None => {
            let mut bytes = [0; WORD_BYTES_MAX];
            bytes[..length].copy_from_slice(&text[word]);
            u128::from_le_bytes(bytes)
        }
    };
    let number = bytes & u128::MAX >> (u128::BITS - 8 * length as u32);
    const HIGH_BITS: u128 = u128::from_ne_bytes([0x80; 16]);
    if is_case_sensitive || number & HIGH_BITS != 0 {
        return Some(number);
    }
    // A byte reaches its high bit from `A` on in one sum, and beyond `Z` in the other.
    let from_a = number + u128::from_ne_bytes([0x80 - b'A'; 16]);
    let beyond_z = number + u128::from_ne_bytes([0x7F - b'Z'; 16]);
    Some(number | ((from_a ^ beyond_z) & HIGH_BITS) >> 2)
}

impl WordCache {
    /// Begins with a message: positions of rows stay as they are until the next one.
    pub(super) fn begin(&mut self) {
        if self.readers.len() > READERS_MAX || self.rows.len() > ROWS_MAX || self.next_reader > u32::MAX / 2 {
            *self = Self::default();
        }
        if self.evictions * PAIRS_PER_EVICTION > self.pairs.len() && self.pairs.len() < PAIRS_MAX {
            self.grow();
        }
    }

    /// Returns the number of a reader.
    pub(super) fn number_of(&mut self, reader: WordReader) -> u32 {
        if self.pairs.is_empty() {
            self.pairs = vec![WordPair::default(); PAIRS_MIN].into();
        }
        // The last one is mostly the one.
        match self.readers.iter().rev().find(|(known, _)| *known == reader) {
            Some((_, number)) => *number,
            None => {
                self.next_reader += 1;
                self.readers.push((reader, self.next_reader));
                self.next_reader
            }
        }
    }

    fn grow(&mut self) {
        let more = vec![WordPair::default(); (2 * self.pairs.len()).max(PAIRS_MIN)].into();
        let before: Box<[WordPair]> = std::mem::replace(&mut self.pairs, more);
        for kept in before.iter().flat_map(|pair| pair.0).filter(|kept| kept.reader != 0) {
            let pair = self.pair_of(kept.word, kept.reader);
            let [first, second] = &mut self.pairs[pair as usize].0;
            *second = std::mem::replace(first, kept);
        }
        self.evictions = 0;
    }

    /// Returns the pair in which a word is kept for a reader, if it is.
    #[inline(always)]
    pub(super) fn pair_of(&self, word: u128, reader: u32) -> u32 {
        const LOW: u64 = 0x9e37_79b9_7f4a_7c15;
        const HIGH: u64 = 0xd6e8_feb8_6659_fd93;
        let mixed = (word as u64 ^ u64::from(reader)).wrapping_mul(LOW) ^ ((word >> 64) as u64).wrapping_mul(HIGH);
        ((mixed ^ mixed >> 29).wrapping_mul(HIGH) >> 32) as u32 & (self.pairs.len() as u32 - 1)
    }

    /// Returns a number of a pair, so that it is fetched.
    #[inline(always)]
    pub(super) fn touch(&self, pair: u32) -> u32 {
        self.pairs[pair as usize].0[0].reader
    }

    /// Returns where a word leads that is kept.
    #[inline(always)]
    pub(super) fn kept(&self, pair: u32, word: u128, reader: u32) -> Option<WordLead> {
        let [first, second] = &self.pairs[pair as usize].0;
        let is_it = |kept: &&CachedWord| kept.word == word && kept.reader == reader;
        let kept = Some(first).filter(is_it).or_else(|| Some(second).filter(is_it))?;
        Some(WordLead { test: ConditionId::from_u32(kept.test), row: kept.row })
    }

    /// Finds where a word leads, and keeps that.
    #[cold]
    pub(super) fn find(&mut self, pair: u32, word: u128, text: &str, look_up: WordLookUp<'_>, reader: u32) -> WordLead {
        let lead = self.look_up(text, look_up);
        let [first, second] = &mut self.pairs[pair as usize].0;
        self.evictions += usize::from(second.reader != 0);
        *second = std::mem::replace(first, CachedWord { word, reader, test: lead.test.as_u32(), row: lead.row });
        lead
    }

    /// Finds where a word leads.
    pub(super) fn look_up(&mut self, text: &str, look_up: WordLookUp<'_>) -> WordLead {
        let WordLookUp { conditions, table, reader, options } = look_up;
        let WordReader { table_edition, operand, language, .. } = reader;
        let test = conditions.equality(operand, &options.fold(text, language)).unwrap_or(ConditionId::NONE);
        let entries = match table {
            Some(table) if test != ConditionId::NONE => table.list(test),
            _ => &[],
        };
        let is_full = self.rows.len() > ROWS_MAX;
        let row = match (entries, self.positions.get(&(table_edition, test))) {
            ([], _) => NO_ROW,
            (_, Some(&position)) => position,
            _ if is_full => ROW_NOT_KEPT,
            _ => {
                let position = self.rows.len() as u32;
                append_row(entries, operand, conditions, &mut self.rows);
                self.positions.insert((table_edition, test), position);
                position
            }
        };
        WordLead { test, row }
    }

    /// Returns the bytes on the heap.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.pairs)
            + self.rows.capacity() * size_of::<u32>()
            + self.positions.capacity() * size_of::<((u64, ConditionId), u32)>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::plan::{Operand, Relation, ValueTest};
    use crate::query::ast::{Expr, Function};
    use crate::testing::Random;

    #[test]
    fn short_words_have_numbers_of_their_own() {
        let text = "flood floods é É 0123456789abcdef 0123456789abcdefg x @[`{ az";
        let mut numbers = HashMap::new();
        let mut start = 0;
        for word in text.split(' ') {
            let number = short_word(text.as_bytes(), start..start + word.len(), false);
            assert_eq!(number.is_some(), word.len() <= WORD_BYTES_MAX, "{word}");
            assert!(number.is_none_or(|number| numbers.insert(number, word).is_none()), "{word}");
            assert_eq!(number, short_word(word.as_bytes(), 0..word.len(), false), "{word} at the end of a text");
            let large = word.to_ascii_uppercase();
            let of_large = |is_case_sensitive| short_word(large.as_bytes(), 0..large.len(), is_case_sensitive);
            assert_eq!(of_large(false) == number, word.is_ascii() || large == word, "{word}");
            assert_eq!(of_large(true) == number, large == *word || number.is_none(), "{word}");
            start += word.len() + 1;
        }
    }

    /// Words of several editions at random, more of them than the cache has space for: what it says is what a look-up says.
    #[test]
    fn kept_words_lead_where_others_do() {
        let words = Expr::Call { function: Function::TwigWords, arguments: Vec::new() };
        let test = |word: &str| ValueTest {
            operand: Operand::Nodes(Box::new(words.clone())),
            relation: Relation::Equals(word.into()),
        };
        let mut conditions = SharedConditions::default();
        let first = conditions.acquire_test(&test("word0"));
        let operand = OperandId::from_u32(0);
        assert_eq!(conditions.equality(operand, "word0"), Some(first));
        let mut cache = WordCache::default();
        let mut random = Random(3);
        let mut kept = 0;
        for round in 0..200 {
            if round % 20 == 10 {
                conditions.acquire_test(&test(&format!("word{}", random.below(20_000_u64))));
            }
            cache.begin();
            let reader =
                WordReader { words_edition: conditions.words_edition(), table_edition: 0, operand, language: None };
            let number = cache.number_of(reader);
            let look_up = WordLookUp { conditions: &conditions, table: None, reader, options: WordOptions::default() };
            for _ in 0..500 {
                let text = format!("Word{}", random.below(20_000_u64));
                let word = short_word(text.as_bytes(), 0..text.len(), false).expect("a short word");
                let pair = cache.pair_of(word, number);
                let lead = cache.kept(pair, word, number);
                kept += u32::from(lead.is_some());
                let lead = lead.unwrap_or_else(|| cache.find(pair, word, &text, look_up, number));
                let expected = conditions.equality(operand, &text.to_lowercase());
                assert_eq!((lead.test, lead.row), (expected.unwrap_or(ConditionId::NONE), NO_ROW), "{text}");
            }
        }
        assert!(kept > 5_000, "{kept}");
        assert!(cache.bytes() > PAIRS_MIN * size_of::<WordPair>());
    }
}
