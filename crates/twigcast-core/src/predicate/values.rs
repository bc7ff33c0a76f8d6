//! The texts and numbers that queries compare values with, and which of them a value equals.
//!
//! Most values of messages, and most constants of queries, are short: a text of a few bytes is one word, and its atom
//! one lookup away. A number that is an integer is also filed under the text that it is mostly written as, so that the
//! same lookup finds both, and values that are written so need not be parsed as numbers. Integers of few digits have a
//! list of their own.

use super::word_table::{NO_ATOMS, WordAtoms, WordTable, is_plain_integer, short, short_within, small_integer};
use crate::document::ByteRange;
use crate::ids::AtomId;
use crate::plan::number_key;
use crate::util::cow_map::CowMap;
use crate::util::number;

/// No atom has this number.
pub(super) const NONE: AtomId = AtomId::NONE;
/// Integers from 0 up to this one, written in decimal digits, are short texts.
const PLAIN_MAX: f64 = 9_999_999.0;

/// The texts and numbers that some kind of value is compared with, and their atoms.
#[derive(Clone, Debug, Default)]
pub(super) struct ComparedValues {
    /// The atoms of short texts: that of the text, and that of the number of which it is the plain spelling. By the number,
    /// as far as that is a small one (see [`small_integer`]).
    small: Vec<WordAtoms>,
    /// The others, packed (see [`short`]).
    short: WordTable,
    long: CowMap<Box<str>, AtomId>,
    /// By the bits of the number.
    numbers: WordTable,
}

/// Returns the plain spelling of a number, packed.
fn plain(bits: u64) -> Option<u64> {
    let number = f64::from_bits(bits);
    let is_plain = (0.0..=PLAIN_MAX).contains(&number) && number.fract() == 0.0;
    if is_plain { short((number as u32).to_string().as_bytes()) } else { None }
}

/// Returns a value without the white space of XML around it.
fn trimmed(value: &[u8]) -> &[u8] {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let Some(start) = value.iter().position(|byte| !is_space(byte)) else { return &[] };
    let end = value.iter().rposition(|byte| !is_space(byte)).map_or(start, |last| last + 1);
    &value[start..end]
}

impl ComparedValues {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.small.is_empty() && self.short.is_empty() && self.long.is_empty() && self.numbers.is_empty()
    }

    /// Returns the atoms of a packed text.
    #[inline]
    fn packed(&self, word: u64) -> WordAtoms {
        match small_integer(word) {
            Some(number) => self.small.get(number).copied().unwrap_or(NO_ATOMS),
            None => self.short.get(word),
        }
    }

    /// Sets the atom of a packed text, of one kind; [`NONE`] removes it.
    fn set_packed(&mut self, word: u64, kind: usize, atom: AtomId) {
        match small_integer(word) {
            Some(number) => {
                if self.small.len() <= number {
                    self.small.resize(number + 1, NO_ATOMS);
                }
                self.small[number][kind] = atom;
                while self.small.pop_if(|atoms| *atoms == NO_ATOMS).is_some() {}
            }
            None if atom == NONE => self.short.remove(word, kind),
            None => self.short.insert(word, kind, atom),
        }
    }

    /// Returns the atom of a text, [`NONE`] if it has none.
    pub(super) fn text(&self, text: &str) -> AtomId {
        match short(text.as_bytes()) {
            Some(word) => self.packed(word)[0],
            None => self.long.get(text).copied().unwrap_or(NONE),
        }
    }

    /// Returns the atom of a number, given by its bits, [`NONE`] if it has none.
    pub(super) fn number(&self, bits: u64) -> AtomId {
        self.numbers.get(bits)[0]
    }

    /// Sets the atom of a text.
    pub(super) fn set_text(&mut self, text: &str, atom: AtomId) {
        match short(text.as_bytes()) {
            Some(word) => self.set_packed(word, 0, atom),
            None => _ = self.long.insert(text.into(), atom),
        }
    }

    /// Sets the atom of a number.
    pub(super) fn set_number(&mut self, bits: u64, atom: AtomId) {
        self.numbers.insert(bits, 0, atom);
        if let Some(word) = plain(bits) {
            self.set_packed(word, 1, atom);
        }
    }

    /// Removes the atom of a text.
    pub(super) fn unset_text(&mut self, text: &str) {
        match short(text.as_bytes()) {
            Some(word) => self.set_packed(word, 0, NONE),
            None => _ = self.long.remove(text),
        }
    }

    /// Removes the atom of a number.
    pub(super) fn unset_number(&mut self, bits: u64) {
        self.numbers.remove(bits, 0);
        if let Some(word) = plain(bits) {
            self.set_packed(word, 1, NONE);
        }
    }

    /// Appends the atoms of the texts and numbers that a value equals.
    pub(super) fn of(&self, value: &[u8], atoms: &mut Vec<AtomId>) {
        self.of_packed(value, short(value), atoms);
    }

    /// Appends the same for a value that is a slice of a message.
    #[inline]
    pub(super) fn of_span(&self, source: &[u8], span: ByteRange, atoms: &mut Vec<AtomId>) {
        self.of_packed(span.of(source), short_within(source, span.start as usize, span.end as usize), atoms);
    }

    #[inline]
    fn of_packed(&self, value: &[u8], word: Option<u64>, atoms: &mut Vec<AtomId>) {
        let [text, mut number] = match word {
            Some(word) => self.packed(word),
            None => [self.of_long(value), NONE],
        };
        if number == NONE && !self.numbers.is_empty() && !word.is_some_and(is_plain_integer) {
            number = self.of_number(value);
        }
        if text != NONE {
            atoms.push(text);
        }
        if number != NONE {
            atoms.push(number);
        }
    }

    fn of_long(&self, value: &[u8]) -> AtomId {
        if self.long.is_empty() {
            return NONE;
        }
        // What is no text is no value of a message the scanner accepted.
        std::str::from_utf8(value).ok().and_then(|text| self.long.get(text)).copied().unwrap_or(NONE)
    }

    /// Returns the atom of the number that a value is, in whatever way it is written; [`NONE`] if it is none.
    fn of_number(&self, value: &[u8]) -> AtomId {
        let value = trimmed(value);
        if !value.first().is_some_and(|first| matches!(first, b'0'..=b'9' | b'-' | b'.')) {
            return NONE;
        }
        match short(value).filter(|&word| is_plain_integer(word)) {
            Some(word) => self.packed(word)[1],
            None => number_key(number::parse_bytes(value)).map_or(NONE, |bits| self.number(bits)),
        }
    }

    /// Returns the bytes on the heap, by estimate.
    pub(super) fn bytes(&self) -> usize {
        let long: usize = self.long.iter().map(|(text, _)| text.len() + 40).sum();
        self.small.capacity() * size_of::<WordAtoms>() + self.short.bytes() + self.numbers.bytes() + long
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;
    use crate::util::number::parse;

    const SPELLINGS: [&str; 38] = [
        "",
        "0",
        "00",
        "1",
        "01",
        "10",
        "7",
        "7.0",
        " 7",
        "7\n",
        "\t 7 \r",
        "7.",
        ".5",
        "0.5",
        "-0",
        "-7",
        "- 7",
        "+7",
        "7e1",
        "9999999",
        "09999999",
        "10000000",
        "10000001",
        "1234567",
        "12345678",
        "7x",
        "x7",
        "\n",
        "abc",
        "abcdefgh",
        "\u{b9}",
        "/7",
        ":",
        "999",
        "1000",
        "12:4567",
        "1.2.3",
        "9999999.5",
    ];

    /// Texts and numbers come and go; whatever is there then, values equal what they equal one by one.
    #[test]
    fn values_equal_what_they_equal_one_by_one() {
        for seed in 1..60_u64 {
            println!("seed {seed}");
            let mut random = Random(seed);
            let mut values = ComparedValues::default();
            let mut live: Vec<(bool, &str, AtomId)> = Vec::new();
            for atom in 1..200 {
                let spelling = SPELLINGS[random.below(SPELLINGS.len())];
                let is_text = random.below(2) == 0;
                let bits = number_key(parse(spelling));
                let existing = live.iter().position(|&(text, existing, _)| {
                    text == is_text && if text { existing == spelling } else { number_key(parse(existing)) == bits }
                });
                match (existing, bits) {
                    (Some(at), _) => {
                        live.swap_remove(at);
                        if is_text {
                            values.unset_text(spelling)
                        } else {
                            bits.iter().for_each(|&b| values.unset_number(b))
                        }
                    }
                    (None, _) if is_text => {
                        live.push((true, spelling, AtomId::from_u32(atom)));
                        values.set_text(spelling, AtomId::from_u32(atom));
                    }
                    (None, Some(bits)) => {
                        live.push((false, spelling, AtomId::from_u32(atom)));
                        values.set_number(bits, AtomId::from_u32(atom));
                    }
                    (None, None) => {}
                }
                assert_eq!(values.is_empty(), live.is_empty());
                for value in SPELLINGS {
                    let equals = |&&(is_text, constant, _): &&(bool, &str, AtomId)| {
                        if is_text { constant == value } else { parse(constant) == parse(value) }
                    };
                    let mut expected: Vec<_> = live.iter().filter(equals).map(|entry| entry.2).collect();
                    let within = format!("<a>{value}</a>");
                    let span = ByteRange { start: 3, end: 3 + value.len() as u32 };
                    let (mut alone, mut atoms) = (Vec::new(), Vec::new());
                    values.of(value.as_bytes(), &mut alone);
                    values.of_span(within.as_bytes(), span, &mut atoms);
                    assert_eq!(atoms, alone);
                    expected.sort_unstable();
                    atoms.sort_unstable();
                    assert_eq!(atoms, expected, "{value:?}");
                }
            }
        }
    }
}
