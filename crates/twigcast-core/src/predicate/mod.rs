//! Values, tested after structure (Diao 2005, section 5.1: selection postponed), but for all queries at once.
//!
//! What a value condition asks of a value is an *atom*, stored once however many queries use it ([`atoms`]). The atoms
//! that an element of a message satisfies are found by hashing its few values ([`attributes`]). Each state of the
//! automaton maps value conditions, packed as a distance and an atom ([`packed`]), to the triggers that wait for them
//! ([`waiters`], [`trigger_table`]). A trigger may ask for one further condition; one bit says whether that holds
//! ([`held`]). So the cost follows the values that occur and the conditions that hold, not the number of queries.
//!
//! ```
//! use twigcast_core::document::{Document, Message};
//! use twigcast_core::limits::Limits;
//! use twigcast_core::plan::ConditionValue;
//! use twigcast_core::predicate::atoms::Atoms;
//! use twigcast_core::scan::{ScanOptions, Scanner};
//! use twigcast_core::vocabulary::{Name, NamespaceId, Vocabulary};
//!
//! // Two queries ask for @kind = 'new', one for @kind = 'old'.
//! let mut vocabulary = Vocabulary::new();
//! let kind = Name { namespace: NamespaceId::NONE, local: vocabulary.intern_local("kind") };
//! let mut atoms = Atoms::default();
//! let [new, same, old] = ["new", "new", "old"].map(|text| atoms.acquire(&ConditionValue::AttributeText(kind, text.into())));
//! assert!(new == same && new != old);
//!
//! // An element satisfies the first, found by its value.
//! let (source, mut document) = (b"<item kind='new'/>", Document::default());
//! Scanner::new().scan(source, &vocabulary, &Limits::default(), ScanOptions::ALL, &mut document).expect("well-formed");
//! let (message, mut satisfied) = (Message { source, document: &document }, Vec::new());
//! atoms.of_attribute(message, &document.attributes[0], &mut satisfied);
//! assert_eq!(satisfied, [new]);
//! ```

pub mod atoms;
mod attributes;
mod comparisons;
pub mod held;
pub mod packed;
pub mod shape_lists;
#[cfg(test)]
mod tests;
pub mod trigger_table;
mod values;
pub mod waiters;
mod word_table;
