//! Messages as element streams: parsed once, sent on without being parsed again (Diao 2005, section 7.4.2).
//!
//! ```text
//! stream    = "TW" version flags [dictionary-id] length-of-structure length-of-values length-of-texts
//!             structure values texts markup
//! structure = items; each a number `argument << 3 | item`, where item is
//!             0 end of the element               argument 0
//!             1 element without attributes       argument: name
//!             2 element with attributes          argument: name; then their count, then name and length of each
//!             3 text                             argument: length
//!             4 comment, 5 processing instruction   argument: length, markup included
//! name      = 0: spelled out here    1: spelled out here and remembered    n + 2: name n
//! ```
//!
//! A name spelled out is followed by its length. Names (each with a `>` behind it) and attribute values stand in
//! `values`, texts in `texts`, comments and processing instructions in `markup`, each in the order of the items and as
//! written in the message: references stay. Kept apart, values and texts are checked as a whole, and looked into one by
//! one only where something in them is special. Names are numbered from 0, first those of the dictionary, then the
//! remembered ones. Numbers are LEB128, at most five bytes long. Namespace declarations are attributes. CDATA sections
//! become text with references; the XML declaration and the DOCTYPE are left out, and so is white space inside tags.
//! All else comes back byte for byte ([`text`]).
//!
//! - [`encode`]: a scanned message to its stream
//! - [`decode`]: a stream to a [`crate::document::Document`], checked as strictly as a message is
//! - [`text`]: a document to the text of a message
//! - [`dictionary`]: names that both sides know beforehand

pub mod decode;
pub mod dictionary;
pub mod encode;
mod number;
pub mod reader;
#[cfg(test)]
mod tests;
pub mod text;

/// The first bytes of every stream: two letters and the version of the format.
const MAGIC: [u8; 3] = *b"TW\x01";
/// Flag: a dictionary's id follows.
const WITH_DICTIONARY: u8 = 1;

const END: u32 = 0;
const ELEMENT: u32 = 1;
const ELEMENT_WITH_ATTRIBUTES: u32 = 2;
const TEXT: u32 = 3;
const COMMENT: u32 = 4;
const PROCESSING_INSTRUCTION: u32 = 5;
/// Bits of the item in an item's number.
const ITEM_BITS: u32 = 3;

const SPELLED_OUT: u32 = 0;
const REMEMBERED: u32 = 1;
/// Number of the first name by number.
const FIRST_NAME: u32 = 2;
/// What stands behind a name spelled out, so that the end of the name is seen where only its start is known.
const NAME_END: u8 = b'>';
