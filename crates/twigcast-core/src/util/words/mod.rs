//! Words of texts, and what a selection of W3C XQuery and XPath Full Text 3.0 asks of them.
//!
//! - [`tokens`]: a text to its words (Unicode Standard Annex 29)
//! - [`folding`]: a word in the form in which it is compared: letter case, diacritics, stem
//! - [`language`]: the languages that have a stemmer
//! - [`table`]: the words of one text with their places
//! - [`selection`]: words, phrases, `ftand`, `ftor`, `ftnot`, and whether they hold
//! - [`nearness`]: `window`, `distance` and `ordered`

pub mod folding;
pub mod language;
pub mod nearness;
pub mod selection;
pub mod table;
pub mod tokens;

pub use folding::WordOptions;
pub use language::StemLanguage;
pub use selection::{Phrase, PhraseWord, Selection, TextSelection};
pub use table::WordTable;
