//! The languages that have a stemmer of the Snowball family.

use rust_stemmers::{Algorithm, Stemmer};

/// A language whose words can be stemmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StemLanguage(usize);

/// The tags, each with its algorithm. Norwegian has three.
const LANGUAGES: [(&str, Algorithm); 20] = [
    ("ar", Algorithm::Arabic),
    ("da", Algorithm::Danish),
    ("de", Algorithm::German),
    ("el", Algorithm::Greek),
    ("en", Algorithm::English),
    ("es", Algorithm::Spanish),
    ("fi", Algorithm::Finnish),
    ("fr", Algorithm::French),
    ("hu", Algorithm::Hungarian),
    ("it", Algorithm::Italian),
    ("nb", Algorithm::Norwegian),
    ("nl", Algorithm::Dutch),
    ("nn", Algorithm::Norwegian),
    ("no", Algorithm::Norwegian),
    ("pt", Algorithm::Portuguese),
    ("ro", Algorithm::Romanian),
    ("ru", Algorithm::Russian),
    ("sv", Algorithm::Swedish),
    ("ta", Algorithm::Tamil),
    ("tr", Algorithm::Turkish),
];

impl StemLanguage {
    /// Returns the language of a tag as `xml:lang` has it, such as `de` or `de-CH`; `None` if it has no stemmer.
    pub fn of_tag(tag: &str) -> Option<Self> {
        let primary = tag.trim().split(['-', '_']).next().unwrap_or_default();
        LANGUAGES.iter().position(|(known, _)| known.eq_ignore_ascii_case(primary)).map(Self)
    }

    /// Returns all languages.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..LANGUAGES.len()).map(Self)
    }

    /// Returns the tag.
    pub fn tag(self) -> &'static str {
        LANGUAGES[self.0].0
    }

    /// Returns its number among all languages.
    pub fn number(self) -> u32 {
        self.0 as u32
    }

    /// Returns the stemmer, which is no more than a choice of functions.
    pub(super) fn stemmer(self) -> Stemmer {
        Stemmer::create(LANGUAGES[self.0].1)
    }
}

/// Returns the tags of all languages, for messages.
pub fn tags() -> String {
    LANGUAGES.map(|(tag, _)| tag).join(", ")
}
