//! The words of one text, each with its places.

use foldhash::fast::RandomState;
use hashbrown::HashMap;

/// The words of a text in the form in which they are compared, by the places at which they stand, counted from 0.
#[derive(Debug, Default)]
pub struct PlacedWords {
    // Keyed per process: what messages hold must not decide how far one has to look.
    places: HashMap<Box<str>, Vec<u32>, RandomState>,
    count: u32,
}

impl PlacedWords {
    /// Appends a word.
    pub fn push(&mut self, word: &str) {
        match self.places.get_mut(word) {
            Some(places) => places.push(self.count),
            None => {
                self.places.insert(word.into(), vec![self.count]);
            }
        }
        self.count += 1;
    }

    /// Returns the places of a word, in order.
    pub fn places(&self, word: &str) -> &[u32] {
        self.places.get(word).map_or(&[], Vec::as_slice)
    }

    /// Returns the different words, each with its places.
    pub fn all(&self) -> impl Iterator<Item = (&str, &[u32])> {
        self.places.iter().map(|(word, places)| (&**word, places.as_slice()))
    }

    /// Returns how many different words there are.
    pub fn distinct(&self) -> usize {
        self.places.len()
    }
}
