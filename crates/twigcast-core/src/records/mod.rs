//! Cuts one large document into records, each a message of its own, while the document is still arriving.
//!
//! The bytes of a record are those of the document. Its context is written into its start tag: namespaces, `xml:lang`,
//! `xml:space` and `xml:base`, and on request other attributes and elements around it. Entities
//! that the document declares are expanded, and its attribute defaults added, so that a record needs no DOCTYPE.
//!
//! Inside of records, only what is needed to find their ends is checked; the rest is checked when a record is matched.
//! Between records, everything is. Memory is bounded by one record.
//!
//! - [`names`]: which elements are records
//! - [`cutter`]: the bytes of a document, as they come, to records
//! - [`scope`]: what the elements around a record declare for it
//! - [`boundary`]: where a prolog ends, and where tags do
//! - [`record_id`]: the id that a record gives itself
//! - [`skim`]: split points, where the cutting of a document can begin in the middle

mod base_uri;
mod boundary;
pub mod cutter;
pub mod names;
pub mod record_id;
mod scope;
pub mod skim;
