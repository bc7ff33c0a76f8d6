//! Phrases: words in a row, of which some may have wildcards, and the places where they stand in a text.

use std::borrow::Cow;
use std::fmt::{self, Write};
use std::rc::Rc;

use regex::{Regex, RegexBuilder};

use super::folding::WordOptions;
use super::language::StemLanguage;
use super::table::PlacedWords;

/// Visits that looking up a word counts as.
const LOOKUP_VISITS: u64 = 2;
/// Places whose comparison counts as one visit.
const PLACES_PER_VISIT: usize = 8;
/// The most bytes of a word with wildcards, compiled.
const WILD_BYTES_MAX: usize = 1 << 18;
/// Words that a wildcard tries for one visit.
const TRIED_PER_VISIT: usize = 2;

/// Words in a row.
#[derive(Clone, Debug)]
pub struct Phrase {
    /// The words: at least one.
    pub words: Vec<PhraseWord>,
    /// The options by which they are compared.
    pub options: WordOptions,
    /// The language for stemming, if the query names one; else that of the text applies.
    pub language: Option<StemLanguage>,
}

/// A word of a phrase.
#[derive(Clone, Debug)]
pub enum PhraseWord {
    /// A word as it is written in the query.
    Plain(Box<str>),
    /// A word with wildcards.
    Wild(WildWord),
}

/// A word with wildcards, compiled.
#[derive(Clone, Debug)]
pub struct WildWord {
    /// The word as it is written in the query.
    source: Box<str>,
    /// What each match begins with.
    prefix: Box<str>,
    regex: Regex,
}

/// The source of what evaluating a selection needs: the words of the text, its language, and how to count work.
pub trait WordSource {
    /// The error of a budget that is used up.
    type Error;

    /// Returns the words of the text in the form of such options.
    fn table(&mut self, options: WordOptions, language: Option<StemLanguage>) -> Result<Rc<PlacedWords>, Self::Error>;

    /// Returns the language of the text.
    fn language(&self) -> Option<StemLanguage>;

    /// Counts visits.
    fn charge(&self, visits: u64) -> Result<(), Self::Error>;
}

impl Phrase {
    /// Returns the options by which a word of the phrase is looked up. Words with wildcards are not stemmed.
    fn options_of(&self, word: &PhraseWord) -> WordOptions {
        match word {
            PhraseWord::Plain(_) => self.options,
            PhraseWord::Wild(_) => WordOptions { stemming: false, ..self.options },
        }
    }

    /// Returns the places at which the phrase begins, in order.
    pub fn starts<S: WordSource>(&self, source: &mut S) -> Result<Vec<u32>, S::Error> {
        let language = self.language.or_else(|| source.language());
        let mut starts: Option<Vec<u32>> = None;
        for (offset, word) in (0_u32..).zip(&self.words) {
            let table = source.table(self.options_of(word), language)?;
            let places = match word {
                PhraseWord::Plain(word) => {
                    source.charge(LOOKUP_VISITS)?;
                    let places = table.places(&self.options.fold(word, language));
                    source.charge((places.len() / PLACES_PER_VISIT) as u64)?;
                    Cow::Borrowed(places)
                }
                PhraseWord::Wild(wild) => {
                    source.charge((table.distinct() / TRIED_PER_VISIT) as u64)?;
                    let tried = table.all().filter(|(word, _)| wild.regex.is_match(word));
                    let mut places: Vec<_> = tried.flat_map(|(_, places)| places.iter().copied()).collect();
                    source.charge(places.len() as u64)?;
                    places.sort_unstable();
                    Cow::Owned(places)
                }
            };
            starts = Some(match starts {
                None => places.into_owned(),
                Some(mut starts) => {
                    source.charge((starts.len() / PLACES_PER_VISIT) as u64)?;
                    starts.retain(|start| places.binary_search(&(start + offset)).is_ok());
                    starts
                }
            });
            if starts.as_ref().is_some_and(Vec::is_empty) {
                break;
            }
        }
        Ok(starts.unwrap_or_default())
    }
}

impl PhraseWord {
    /// Returns the common beginning of all words that match the wildcards; `None` for a word without wildcards.
    pub fn prefix(&self) -> Option<&str> {
        match self {
            Self::Plain(_) => None,
            Self::Wild(wild) => Some(&wild.prefix),
        }
    }
}

impl WildWord {
    /// Returns a word with wildcards. The error is a sentence about the fault.
    pub fn new(source: &str, options: WordOptions) -> Result<Self, String> {
        let (mut regex, mut prefix, mut is_prefix) = (String::from("^(?s:"), String::new(), true);
        let mut literal = String::new();
        let options = WordOptions { stemming: false, ..options };
        let mut flush = |literal: &mut String, regex: &mut String, is_prefix: bool| {
            let folded = options.fold(literal, None);
            if is_prefix {
                prefix.push_str(&folded);
            }
            regex.push_str(&regex::escape(&folded));
            literal.clear();
        };
        let mut characters = source.chars().peekable();
        while let Some(character) = characters.next() {
            match character {
                '\\' => match characters.next() {
                    Some(escaped) => literal.push(escaped),
                    None => return Err("a backslash stands before the character that it means".into()),
                },
                '.' => {
                    flush(&mut literal, &mut regex, is_prefix);
                    is_prefix = false;
                    regex.push('.');
                    match characters.peek() {
                        Some(&sign @ ('?' | '*' | '+')) => {
                            regex.push(sign);
                            characters.next();
                        }
                        Some('{') => {
                            let quantifier: String = characters.by_ref().take_while(|&c| c != '}').collect();
                            regex.push_str(&Self::times(&quantifier[1..])?);
                        }
                        _ => {}
                    }
                }
                other => literal.push(other),
            }
        }
        flush(&mut literal, &mut regex, is_prefix);
        regex.push_str(")$");
        let built = RegexBuilder::new(&regex).size_limit(WILD_BYTES_MAX).dfa_size_limit(WILD_BYTES_MAX).build();
        let regex = built.map_err(|_| "it has too many wildcards".to_owned())?;
        Ok(Self { source: source.into(), prefix: prefix.into(), regex })
    }

    /// Returns `{n,m}` of a regular expression.
    fn times(text: &str) -> Result<String, String> {
        let numbers =
            text.split_once(',').and_then(|(from, to)| Some((from.parse::<u8>().ok()?, to.parse::<u8>().ok()?)));
        match numbers {
            Some((from, to)) if from <= to => Ok(format!("{{{from},{to}}}")),
            _ => Err("a wildcard with numbers is `.{n,m}`, with n at most m and m at most 255".into()),
        }
    }
}

impl fmt::Display for Phrase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_char('"')?;
        let mut has_wildcards = false;
        for (index, word) in self.words.iter().enumerate() {
            if index > 0 {
                formatter.write_char(' ')?;
            }
            let source = match word {
                PhraseWord::Plain(word) => word,
                PhraseWord::Wild(wild) => {
                    has_wildcards = true;
                    &wild.source
                }
            };
            formatter.write_str(&source.replace('"', "\"\""))?;
        }
        formatter.write_char('"')?;
        let WordOptions { case_sensitive, diacritics_sensitive, stemming } = self.options;
        let named = [
            (case_sensitive, "case sensitive"),
            (diacritics_sensitive, "diacritics sensitive"),
            (stemming, "stemming"),
            (has_wildcards, "wildcards"),
        ];
        named.into_iter().filter(|(is_set, _)| *is_set).try_for_each(|(_, name)| write!(formatter, " using {name}"))?;
        match self.language {
            Some(language) => write!(formatter, " using language \"{}\"", language.tag()),
            None => Ok(()),
        }
    }
}
