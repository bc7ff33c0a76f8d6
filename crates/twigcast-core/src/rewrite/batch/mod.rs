//! Deciding and delivering thousands of For-Where-Return queries in a few steps a message.
//!
//! Queries that compare child and descendant paths from their bindings with constants, and return markup around such
//! paths, differ in little. They are filed by what they have in common (`classes.rs`) and are not in the automaton. What
//! their paths mean on the label paths of messages is learnt once (`guide.rs`), and the queries are laid out by it
//! (`selector.rs`; what comes and goes meanwhile: `late.rs`). On a message, each value is looked at once and tells the
//! conditions that it satisfies (`values.rs`), each with a set of bindings, as bits (`found.rs`); queries match whose
//! conditions have any binding in common. What the returned paths lead to from the bindings of a list is found once for all
//! (`columns.rs`) and kept (`prepared.rs`). Each different pair of a set and something to make of it (`recipes.rs`) is one
//! result (`naming.rs`, `sets.rs`), from pieces of the message (`results.rs`, `joined.rs`).

mod assembly;
mod binding_sets;
mod bindings;
mod catalog;
mod columns;
mod condition_index;
mod constructors;
mod data_guide;
mod linear_path;
mod prepared;
mod recent_queries;
mod result_ids;
mod results;
mod rewriter;
mod value_index;

#[cfg(target_arch = "x86_64")]
pub(crate) use assembly::use_avx2;
pub(crate) use catalog::QueryCatalog;
pub(crate) use condition_index::IndexedQuery;
pub use prepared::PreparedResults;
pub use result_ids::ResultIds;
#[cfg(test)]
pub(crate) use result_ids::start_last_round;
pub(crate) use result_ids::{QueryResults, ResultSink, UNASSEMBLED};
pub(crate) use rewriter::BatchRewriter;
