//! Messages as element streams: parsed once, sent on without being parsed again (Diao 2005, section 7.4.2).
//!
//! ```text
//! stream     = "TW" version flags [dictionary-id] lengths structure attributes names values texts markup
//! lengths    = bytes of the structure, the attributes, the names, the values, the texts
//! structure  = items; each a number `argument << 3 | item`, where item is
//!              0 end of the element               argument 0
//!              1 element without attributes       argument: name
//!              2 element with attributes          argument: name
//!              3 text                             argument: length
//!              4 comment, 5 processing instruction   argument: length, markup included
//!              6 element that declares namespaces   argument: name; then their count, then name and length of each
//! attributes = for each element of item 2 or 6: their count, then name and length of each
//! name       = 0: spelled out here    1: spelled out here and remembered    n + 2: name n
//! ```
//!
//! A name spelled out is followed by its length. Names of elements and of namespace declarations stand in `names` (each
//! with a `>` behind it), with what is declared; names of attributes likewise in `values`, with theirs; texts in `texts`,
//! comments and processing instructions in `markup`: each in the order of the items and as written in the message, so
//! that references stay. Kept apart, each kind is checked as a whole, and looked into one by one only where something in
//! it is special; and who asks for elements alone reads nothing but structure and names. Names are numbered from 0, first
//! those of the dictionary, then the remembered ones, those in the structure apart from those in the attributes. Numbers
//! are LEB128, at most five bytes long. CDATA sections become text with references; namespace declarations come before
//! the attributes of their element; the XML declaration and the DOCTYPE are left out, and so is white space inside tags.
//! All else comes back byte for byte ([`text`]).
//!
//! - [`encode`]: a scanned message to its stream
//! - [`decode`]: a stream to a [`crate::document::Document`], checked as strictly as a message is
//! - [`text`]: a document to the text of a message
//! - [`dictionary`]: names that both sides know beforehand
//!
//! ```
//! use twigcast_core::document::{Document, Message};
//! use twigcast_core::limits::Limits;
//! use twigcast_core::scan::{ScanOptions, Scanner};
//! use twigcast_core::stream::decode::{CheckLevel, DecodeOptions, Decoder};
//! use twigcast_core::stream::dictionary::Dictionary;
//! use twigcast_core::stream::encode::{NameEncoding, encode};
//! use twigcast_core::vocabulary::Vocabulary;
//!
//! let (source, limits, vocabulary) = (b"<a><b>text</b></a>", Limits::default(), Vocabulary::new());
//! let (mut sent, mut received) = (Document::default(), Document::default());
//! Scanner::new().scan(source, &vocabulary, &limits, ScanOptions::ALL, &mut sent)?;
//! let stream = encode(Message { source, document: &sent }, NameEncoding::Once);
//! let (dictionary, record, checks) = (Dictionary::default(), ScanOptions::ALL, CheckLevel::All);
//! let (vocabulary, limits) = (&vocabulary, &limits);
//! let options = DecodeOptions { dictionary: &dictionary, vocabulary, identity: 0, limits, record, checks };
//! let mut decoder = Decoder::new();
//! decoder.decode(&stream, options, &mut received)?;
//! let root = received.first_child(0);
//! assert_eq!(Message { source: decoder.source(), document: &received }.string_value(root), "text");
//! # Ok::<(), twigcast_core::error::MessageError>(())
//! ```

pub mod decode;
pub mod dictionary;
pub(crate) mod element_walker;
pub mod encode;
mod fault;
mod header;
mod number;
pub mod reader;
mod section;
#[cfg(test)]
mod tests;
pub mod text;

/// The first bytes of every stream: two letters and the version of the format.
const MAGIC: [u8; 3] = *b"TW\x02";
/// Flag: a dictionary's id follows.
const WITH_DICTIONARY: u8 = 1;

const END: u32 = 0;
const ELEMENT: u32 = 1;
const ELEMENT_WITH_ATTRIBUTES: u32 = 2;
const TEXT: u32 = 3;
const COMMENT: u32 = 4;
const PROCESSING_INSTRUCTION: u32 = 5;
const DECLARING_ELEMENT: u32 = 6;
/// Bits of the item in an item's number.
const ITEM_BITS: u32 = 3;

const SPELLED_OUT: u32 = 0;
const REMEMBERED: u32 = 1;
/// Number of the first name by number.
const FIRST_NAME: u32 = 2;
/// The byte behind a name that is spelled out, so that the end of the name is seen where only its start is known.
const NAME_END: u8 = b'>';
