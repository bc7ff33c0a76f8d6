//! Words of texts, and what a selection of W3C XQuery and XPath Full Text 3.0 asks of them.
//!
//! - [`tokens`]: a text to its words (Unicode Standard Annex 29)
//! - [`folding`]: a word in the form in which it is compared: letter case, diacritics, stem
//! - [`language`]: the languages that have a stemmer
//! - [`table`]: the words of one text with their places
//! - [`phrase`]: words in a row, with wildcards or without
//! - [`selection`]: `ftand`, `ftor`, `ftnot`, `window`, `distance` and `ordered`, and whether they hold

pub mod folding;
pub mod language;
pub mod phrase;
pub mod selection;
pub mod table;
pub mod tokens;

pub use folding::WordOptions;
pub use language::StemLanguage;
pub use phrase::{Phrase, PhraseWord};
pub use selection::{Selection, TextSelection};
pub use table::PlacedWords;
