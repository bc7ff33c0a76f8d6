//! Data structures and conversions that know nothing of queries or messages.
//!
//! - [`bits`]: sets of small numbers as bits
//! - [`chunked`]: a growing table in chunks, which its clones share
//! - [`cow_map`]: hash tables that share with their clones what has not changed
//! - [`hash_index`]: an index by hash into rows that are kept elsewhere
//! - [`hours`]: windows of time that recur each week, in a time zone
//! - [`json`]: JSON values and their text
//! - [`packed_name`]: names of up to 16 bytes as two integers
//! - [`number`]: numbers as XPath reads, writes and rounds them
//! - [`places`]: places on the Earth, and how they lie to each other
//! - [`epoch_table`]: a hash table that is emptied in no time
//! - [`string_arena`]: an arena of short strings
//! - [`temporal`]: dates, times and durations
//! - [`words`]: words of texts, and what is asked of them

pub(crate) mod bits;
pub(crate) mod chunked;
pub(crate) mod cow_map;
pub(crate) mod epoch_table;
pub(crate) mod hash_index;
pub mod hours;
pub(crate) mod json;
pub mod number;
pub(crate) mod packed_name;
pub mod places;
pub(crate) mod string_arena;
pub mod temporal;
pub mod words;
