//! Data structures and conversions that know nothing of queries or messages.
//!
//! - [`chunked`]: a growing sequence in chunks
//! - [`hash_index`]: an index by hash into rows that are kept elsewhere
//! - [`json`]: JSON values and their text
//! - [`packed_name`]: names of up to 16 bytes as two integers
//! - [`number`]: numbers as XPath reads, writes and rounds them
//! - [`cow_table`]: a copy-on-write table
//! - [`stamped_table`]: a hash table that is emptied in no time
//! - [`string_arena`]: an arena of short strings

pub(crate) mod chunked;
pub(crate) mod cow_table;
pub(crate) mod hash_index;
pub(crate) mod json;
pub mod number;
pub(crate) mod packed_name;
pub(crate) mod stamped_table;
pub(crate) mod string_arena;
