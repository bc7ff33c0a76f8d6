//! Access paths: from the values of a message to the queries that need them.
//!
//! The planner gives each query a *cover* (see [`crate::plan`]): tests of values of which one holds whenever the query
//! does. Here these are filed, for all queries together:
//! - [`conditions`]: every operand, test and other condition once, however many queries have it, so that what it says of an
//!   element is found once. An operand knows the texts that its values are tested for: equal ones by hash, prefixes in
//!   order, parts by one automaton over all of them ([`prefixes`], [`substrings`]).
//! - [`table`]: for each state of the automaton, the queries that wait there by the test that leads to them; those that wait
//!   for a range of numbers in an order that a value finds its ranges in ([`intervals`]).
//!
//! So what a message costs follows the values that it has and the queries that these lead to.

pub mod conditions;
pub mod entry;
mod expr_hash;
pub mod intervals;
mod prefixes;
mod substrings;
pub mod table;
