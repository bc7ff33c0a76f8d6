//! Names that the sender and the receiver of a stream know beforehand, mostly those of a DTD.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use super::NAME_END;
use crate::scan::characters;
use crate::scan::names::{QName, qname};

/// Most names of a dictionary.
pub const NAMES_MAX: usize = 1 << 16;

/// The key of the fingerprints of this process.
static SECRET: LazyLock<RandomState> = LazyLock::new(RandomState::new);

static NONE: LazyLock<Dictionary> = LazyLock::new(Dictionary::default);

/// Names as written (prefix included), numbered from 0. Dictionaries with the same id have the same names, unless
/// somebody has forged one.
#[derive(Clone, Debug)]
pub struct Dictionary {
    id: u64,
    /// Like the id, but keyed, so that nobody can forge a second dictionary with the same fingerprint.
    fingerprint: u64,
    /// The text that every decoded message starts with: a byte, then each name with a `>` behind it.
    prelude: String,
    names: Vec<(usize, QName)>,
    numbers: FxHashMap<Box<[u8]>, u32>,
}

/// A dictionary was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DictionaryError {
    /// A string that is no name.
    NotAName(String),
    /// A name that occurs twice.
    Twice(String),
    /// More than [`NAMES_MAX`] names.
    TooMany,
}

impl fmt::Display for DictionaryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAName(name) => write!(f, "{name:?} is no name of an element or attribute"),
            Self::Twice(name) => write!(f, "the name {name:?} stands twice"),
            Self::TooMany => write!(f, "a dictionary holds at most {NAMES_MAX} names"),
        }
    }
}

impl std::error::Error for DictionaryError {}

impl Default for Dictionary {
    fn default() -> Self {
        Self {
            id: fnv(&[]),
            fingerprint: 0,
            prelude: String::from('\n'),
            names: Vec::new(),
            numbers: FxHashMap::default(),
        }
    }
}

impl Dictionary {
    /// Returns a dictionary of these names, in this order.
    ///
    /// # Errors
    /// There are too many, one is no name, or one stands twice.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, DictionaryError> {
        let mut dictionary = Self::default();
        for name in names {
            dictionary.push(name)?;
        }
        dictionary.id = fnv(&dictionary.prelude.as_bytes()[1..]);
        dictionary.fingerprint = SECRET.hash_one(&dictionary.prelude);
        Ok(dictionary)
    }

    /// Returns a dictionary without names, for streams that are written without one.
    pub fn none() -> &'static Self {
        &NONE
    }

    fn push(&mut self, name: &str) -> Result<(), DictionaryError> {
        let number = self.names.len();
        if number == NAMES_MAX {
            return Err(DictionaryError::TooMany);
        }
        let whole = characters::check(name.as_bytes()).and_then(|checked| qname(checked, 0, "dictionary"));
        let Some(read) = whole.ok().filter(|read| read.end == name.len()) else {
            return Err(DictionaryError::NotAName(name.into()));
        };
        if self.numbers.insert(name.as_bytes().into(), number as u32).is_some() {
            return Err(DictionaryError::Twice(name.into()));
        }
        let start = self.prelude.len();
        self.prelude.push_str(name);
        let colon = if read.colon == 0 { 0 } else { start + read.colon };
        self.names.push((start, QName { end: self.prelude.len(), colon }));
        self.prelude.push(char::from(NAME_END));
        Ok(())
    }

    /// Returns a hash of its names, the same on every machine.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns a number that identifies it within this process.
    pub(super) fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Returns how many names it has.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns `true` if it has no names.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Returns the text that every decoded message starts with.
    pub(super) fn prelude(&self) -> &str {
        &self.prelude
    }

    /// Returns where the names stand in [`Self::prelude`], by their starts.
    pub(super) fn names(&self) -> &[(usize, QName)] {
        &self.names
    }

    /// Returns the number of a name.
    pub(super) fn number(&self, name: &[u8]) -> Option<u32> {
        self.numbers.get(name).copied()
    }
}

/// Returns the hash FNV-1a, 64 bits.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
