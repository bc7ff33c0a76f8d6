//! The form in which words are compared.

use std::borrow::Cow;
use std::fmt;

use unicode_normalization::UnicodeNormalization;

use super::language::StemLanguage;

/// The way in which words are compared: the match options of XQuery and XPath Full Text that concern a word of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct WordOptions {
    /// Capital and small letters differ.
    pub case_sensitive: bool,
    /// Letters differ from those without their accents.
    pub diacritics_sensitive: bool,
    /// Words are compared by their stems.
    pub stemming: bool,
}

const CASE: &str = "case";
const DIACRITICS: &str = "diacritics";
const STEMMING: &str = "stemming";

impl fmt::Display for WordOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = [(self.case_sensitive, CASE), (self.diacritics_sensitive, DIACRITICS), (self.stemming, STEMMING)];
        let named: Vec<_> = named.into_iter().filter(|(is_set, _)| *is_set).map(|(_, name)| name).collect();
        formatter.write_str(&named.join(" "))
    }
}

impl WordOptions {
    /// Returns the options that a text names; the error is the word that names none.
    pub fn parse(text: &str) -> Result<Self, &str> {
        let mut options = Self::default();
        for name in text.split_ascii_whitespace() {
            match name {
                CASE => options.case_sensitive = true,
                DIACRITICS => options.diacritics_sensitive = true,
                STEMMING => options.stemming = true,
                other => return Err(other),
            }
        }
        Ok(options)
    }

    /// Returns a word in the form in which it is compared. Without a language there is no stem.
    pub fn fold<'w>(self, word: &'w str, language: Option<StemLanguage>) -> Cow<'w, str> {
        let language = language.filter(|_| self.stemming);
        if word.is_ascii() {
            let lower = if self.case_sensitive || !word.bytes().any(|byte| byte.is_ascii_uppercase()) {
                Cow::Borrowed(word)
            } else {
                Cow::Owned(word.to_ascii_lowercase())
            };
            return match language {
                Some(language) => stem(lower, language),
                None => lower,
            };
        }
        let mut folded: String = word.nfc().filter(|&character| character != SOFT_HYPHEN).collect();
        if !self.case_sensitive {
            folded = folded.chars().flat_map(char::to_lowercase).collect();
        }
        if let Some(language) = language {
            folded = stem(Cow::Owned(folded), language).into_owned();
        }
        if !self.diacritics_sensitive {
            folded = folded.nfd().filter(|&character| !is_accent(character)).nfc().collect();
        }
        if !self.case_sensitive {
            // Letters that exist in one case only.
            folded = folded.replace('ß', "ss").replace('ς', "σ");
        }
        Cow::Owned(folded)
    }
}

/// A place where a word may be divided at the end of a line: it belongs to no word.
const SOFT_HYPHEN: char = '\u{ad}';

/// Returns whether a character is an accent that stands by itself. The vowel signs of Indian scripts are none.
fn is_accent(character: char) -> bool {
    matches!(character,
        '\u{300}'..='\u{36F}' | '\u{1AB0}'..='\u{1AFF}' | '\u{1DC0}'..='\u{1DFF}' | '\u{20D0}'..='\u{20FF}'
        | '\u{FE20}'..='\u{FE2F}')
}

fn stem(word: Cow<'_, str>, language: StemLanguage) -> Cow<'_, str> {
    match word {
        Cow::Borrowed(word) => language.stemmer().stem(word),
        Cow::Owned(word) => Cow::Owned(language.stemmer().stem(&word).into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(options: &str, word: &str, tag: &str) -> String {
        WordOptions::parse(options).expect("known options").fold(word, StemLanguage::of_tag(tag)).into_owned()
    }

    #[test]
    fn letter_case_and_accents_count_where_they_are_to() {
        assert_eq!(folded("", "Zürich", ""), "zurich");
        assert_eq!(folded("case", "Zürich", ""), "Zurich");
        assert_eq!(folded("diacritics", "ZÜRICH", ""), "zürich");
        assert_eq!(folded("case diacritics", "Zu\u{308}rich", ""), "Zürich");
        assert_eq!(folded("", "STRASSE", ""), folded("", "Straße", ""));
        assert_eq!(folded("", "ΟΔΟΣ", ""), folded("", "οδός", ""));
        assert_eq!(folded("", "Donau\u{ad}dampf", ""), "donaudampf");
        // Vowel signs are letters there.
        assert_eq!(folded("", "हिन्दी", ""), "हिन्दी");
    }

    #[test]
    fn stems_are_those_of_the_language() {
        assert_eq!(folded("stemming", "Floods", "en-GB"), folded("stemming", "flooding", "en"));
        assert_eq!(folded("stemming", "Häuser", "de"), folded("stemming", "Haus", "de-CH"));
        assert_ne!(folded("stemming", "Häuser", "en"), folded("stemming", "Haus", "en"));
        // Without a language words are as they are.
        assert_eq!(folded("stemming", "Floods", ""), "floods");
    }

    #[test]
    fn options_are_written_as_they_are_read() {
        for text in ["", "case", "diacritics", "stemming", "case diacritics stemming"] {
            assert_eq!(WordOptions::parse(text).map(|options| options.to_string()), Ok(text.to_owned()));
        }
        assert_eq!(WordOptions::parse("case sensitive"), Err("sensitive"));
    }
}
