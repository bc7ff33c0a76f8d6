//! A text to its words, as Unicode Standard Annex 29 divides it.
//!
//! Texts of ASCII are divided here, by the same rules, and so are the pieces of ASCII of other texts: white space always ends a
//! word. All other pieces are divided by the crate `unicode-segmentation`.

use std::convert::Infallible;
use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

/// Calls back with each word of a text, in order, and stops at the first error.
pub fn each_word<'t, E>(text: &'t str, mut each: impl FnMut(&'t str) -> Result<(), E>) -> Result<(), E> {
    each_span(text, |span| each(&text[span]))
}

/// Calls back with where each word of a text is, in order, and stops at the first error.
#[inline]
pub fn each_span<E>(text: &str, mut each: impl FnMut(Range<usize>) -> Result<(), E>) -> Result<(), E> {
    if text.is_ascii() {
        return each_ascii_span(text.as_bytes(), 0..text.len(), &mut each);
    }
    let mut start = 0;
    for piece in text.as_bytes().split(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')) {
        let end = start + piece.len();
        if piece.is_ascii() {
            each_ascii_span(text.as_bytes(), start..end, &mut each)?;
        } else {
            let words = text[start..end].unicode_word_indices();
            words.map(|(at, word)| start + at..start + at + word.len()).try_for_each(&mut each)?;
        }
        start = end + 1;
    }
    Ok(())
}

/// Returns the words of a text.
pub fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let collected: Result<(), Infallible> = each_word(text, |word| {
        words.push(word);
        Ok(())
    });
    match collected {
        Ok(()) => words,
    }
}

/// The kinds of ASCII characters that words are divided by.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// It ends a word.
    Other,
    Letter,
    Digit,
    /// `_`, which joins letters and digits, and is no word by itself.
    Joining,
    /// It stands in a word between two letters, two digits, or either.
    BetweenLetters,
    BetweenDigits,
    Between,
}

const KINDS: [Kind; 128] = {
    let mut kinds = [Kind::Other; 128];
    let mut byte = 0;
    while byte < 128 {
        kinds[byte as usize] = match byte {
            b'a'..=b'z' | b'A'..=b'Z' => Kind::Letter,
            b'0'..=b'9' => Kind::Digit,
            b'_' => Kind::Joining,
            b':' => Kind::BetweenLetters,
            b',' | b';' => Kind::BetweenDigits,
            b'.' | b'\'' => Kind::Between,
            _ => Kind::Other,
        };
        byte += 1;
    }
    kinds
};

#[inline(always)]
fn kind_of(bytes: &[u8], position: usize) -> Kind {
    bytes.get(position).map_or(Kind::Other, |byte| KINDS[usize::from(byte & 127)])
}

/// Divides a part of a text, which is of ASCII only.
#[inline]
fn each_ascii_span<E>(
    bytes: &[u8],
    part: Range<usize>,
    each: &mut impl FnMut(Range<usize>) -> Result<(), E>,
) -> Result<(), E> {
    let (bytes, mut position) = (&bytes[..part.end], part.start);
    while position < bytes.len() {
        let mut previous = kind_of(bytes, position);
        if !matches!(previous, Kind::Letter | Kind::Digit | Kind::Joining) {
            position += 1;
            continue;
        }
        let start = position;
        let mut is_word = previous != Kind::Joining;
        loop {
            position += 1;
            let next = match kind_of(bytes, position) {
                Kind::Other => break,
                kind @ (Kind::Letter | Kind::Digit) => {
                    is_word = true;
                    kind
                }
                Kind::Joining => Kind::Joining,
                between => {
                    let after = kind_of(bytes, position + 1);
                    let is_inside = match previous {
                        Kind::Letter => after == Kind::Letter && between != Kind::BetweenDigits,
                        Kind::Digit => after == Kind::Digit && between != Kind::BetweenLetters,
                        _ => false,
                    };
                    if !is_inside {
                        break;
                    }
                    position += 1;
                    after
                }
            };
            previous = next;
        }
        if is_word {
            each(start..position)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_ascii_are_divided_as_unicode_says() {
        let alphabet = b"aB1_.':,;-\"@ ";
        let mut digits = vec![0_usize; 6];
        'texts: loop {
            let text: String = digits.iter().map(|&digit| char::from(alphabet[digit])).collect();
            assert_eq!(words(&text), text.unicode_words().collect::<Vec<_>>(), "{text:?}");
            for digit in &mut digits {
                *digit += 1;
                if *digit < alphabet.len() {
                    continue 'texts;
                }
                *digit = 0;
            }
            break;
        }
    }

    #[test]
    fn any_ascii_character_between_letters_divides_as_unicode_says() {
        for middle in 0..0x80_u8 {
            for (before, after) in [("ab", "cd"), ("1", "2"), ("a", "1"), ("", "x"), ("y", "")] {
                let text = format!("{before}{}{after}", char::from(middle));
                assert_eq!(words(&text), text.unicode_words().collect::<Vec<_>>(), "{text:?}");
            }
        }
    }

    #[test]
    fn white_space_divides_also_beside_other_characters() {
        for text in ["Zürich – Überschwemmung", "a \u{301}b", "東京 タワー", "«été»\n«l’été»", "x\u{ad}y z"]
        {
            assert_eq!(words(text), text.unicode_words().collect::<Vec<_>>(), "{text:?}");
        }
    }
}
