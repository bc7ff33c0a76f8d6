//! Values, tested after structure (Diao 2005, section 5.1: selection postponed), but for all queries at once.
//!
//! A key's value is an *atom*, stored once however many queries use it ([`atoms`]). What a message's element satisfies is
//! found by hashing its few values ([`attributes`]), and each state of the automaton maps (distance, atom) to the triggers that wait for
//! it ([`packed`], [`waiters`], [`trigger_table`]); a further key that it asks for is told by a bit ([`held`]). So the cost follows the values that occur and the keys that hold, not the number of queries.

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
