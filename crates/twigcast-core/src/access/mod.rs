//! Access paths: from the values of a message to the queries that need them.
//!
//! The planner gives each query a *cover* (see [`crate::plan`]): tests of values of which one holds whenever the query
//! does. Here these are filed, for all queries together:
//! - [`conditions`]: every operand, test and other condition once, however many queries have it, so that what it says of an
//!   element is found once. An operand knows the texts that its values are tested for: equal ones by hash, prefixes in
//!   order, parts by one automaton over all of them ([`prefixes`], [`substrings`]).
//! - [`table`]: for each state of the automaton, the queries that wait there by the test that leads to them; those that wait
//!   for a range of numbers in an order that a value finds its ranges in ([`intervals`]), those that wait for places by trees
//!   of their regions ([`regions`]), and those that wait for other values than one by that one ([`unequal`]). What waits for
//!   words of a text is kept by those who match as what else the text has to have ([`word_rows`]).
//! - [`samples`]: the values that messages have had lately, by which covers are chosen; [`value_counts`]: how rare each is of
//!   those that expressions have.
//! - [`read_ahead`]: conditions that are about to be decided, read together.
//!
//! So what a message costs follows the values that it has and the queries that these lead to.
//!
//! ```
//! use twigcast_core::access::conditions::SharedConditions;
//! use twigcast_core::plan::{Operand, Relation, ValueTest};
//!
//! // Three queries test the text of an element for words that it contains; two of them for the same.
//! let mut conditions = SharedConditions::default();
//! let [flood, storm, same] = ["flood", "storm", "flood"].map(|word| {
//!     conditions.acquire_test(&ValueTest { operand: Operand::Own, relation: Relation::Contains(word.into()) })
//! });
//! assert!(flood == same && flood != storm);
//!
//! // One search in a value finds all of these words.
//! let Some(twigcast_core::access::conditions::SharedCondition::Test(operand, _)) = conditions.condition(flood) else {
//!     unreachable!()
//! };
//! let mut found = Vec::new();
//! conditions.append_substrings(*operand, "a flood, no snow", &mut found);
//! assert_eq!(found, [flood]);
//! ```

pub mod conditions;
pub mod entry;
mod expr_hash;
pub mod intervals;
mod prefixes;
mod read_ahead;
pub mod regions;
pub mod samples;
mod substrings;
pub mod table;
pub mod unequal;
mod value_counts;
pub mod word_rows;
