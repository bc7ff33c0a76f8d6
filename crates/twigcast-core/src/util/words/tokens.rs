//! A text to its words, as Unicode Standard Annex 29 divides it.
//!
//! White space always ends a word, so a text is read piece by piece. Pieces of ASCII are divided here, by the same rules; all
//! others by the crate `unicode-segmentation`.

use unicode_segmentation::UnicodeSegmentation;

/// Calls back with each word of a text, in order, and stops at the first error.
pub fn each_word<'t, E>(text: &'t str, mut each: impl FnMut(&'t str) -> Result<(), E>) -> Result<(), E> {
    for piece in text.split([' ', '\t', '\n', '\r']) {
        if piece.is_ascii() {
            each_ascii_word(piece, &mut each)?;
        } else {
            piece.unicode_words().try_for_each(&mut each)?;
        }
    }
    Ok(())
}

/// Returns the words of a text.
pub fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let collected: Result<(), std::convert::Infallible> = each_word(text, |word| {
        words.push(word);
        Ok(())
    });
    match collected {
        Ok(()) => words,
    }
}

/// Divides a piece without white space, of ASCII only.
fn each_ascii_word<'t, E>(piece: &'t str, each: &mut impl FnMut(&'t str) -> Result<(), E>) -> Result<(), E> {
    let bytes = piece.as_bytes();
    let joins = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let mut position = 0;
    while position < bytes.len() {
        if !joins(bytes[position]) {
            position += 1;
            continue;
        }
        let start = position;
        position += 1;
        while position < bytes.len() {
            if joins(bytes[position]) {
                position += 1;
                continue;
            }
            let Some(&next) = bytes.get(position + 1) else { break };
            let (previous, middle) = (bytes[position - 1], bytes[position]);
            let continues = match middle {
                b':' => previous.is_ascii_alphabetic() && next.is_ascii_alphabetic(),
                b',' | b';' => previous.is_ascii_digit() && next.is_ascii_digit(),
                b'.' | b'\'' => {
                    previous.is_ascii_alphabetic() && next.is_ascii_alphabetic()
                        || previous.is_ascii_digit() && next.is_ascii_digit()
                }
                _ => false,
            };
            if !continues {
                break;
            }
            position += 2;
        }
        let word = &piece[start..position];
        if word.bytes().any(|byte| byte.is_ascii_alphanumeric()) {
            each(word)?;
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
