//! The batch rewriter: decides and rewrites thousands of similar For-Where-Return queries in a few steps per message.
//!
//! # Idea
//!
//! YFilter's extension to transformations (Diao and Franklin 2003; Diao 2005, chapter 6) matches the paths of all
//! queries together and then post-processes the matches of each query, sharing selections, groupings and joins where it
//! can. The batch rewriter shares more for the most frequent form of query. That form binds a path of child and
//! descendant steps, compares such paths from the binding with constants, and returns constant markup around further
//! such paths:
//!
//! ```text
//! for $b in /catalog//book where $b/price/currency = "EUR" return <offer>{$b/title}{$b/price}</offer>
//! ```
//!
//! Such paths select elements by label path alone. So they are resolved once on the tree of label paths that messages
//! have shown, and a message only reads the label path of each element. Queries of this form are kept here instead
//! of the automaton; all others, and messages over a limit, go through the interpreter.
//!
//! # When a query is added
//!
//! 1. [`queries`] files it by binding path, compared path and constant, and by what it returns.
//!
//! # When a message brings new label paths, or after many changes
//!
//! 2. [`data_guide`] adds the label paths and resolves all paths ([`linear_path`]): binding paths to *lists*, relative
//!    paths to *columns*, and what is returned to *constructors* ([`constructors`]).
//! 3. [`condition_index`] lays the queries out by the conditions they ask for. [`recent_queries`] holds what has
//!    changed since.
//!
//! # From a message to bytes
//!
//! 4. [`bindings`] groups the elements by label path, which gives the bindings of each list, and compares each value
//!    once with the constants of all queries ([`value_index`]). Each condition gets the set of bindings that satisfy
//!    it, as bits.
//! 5. The condition index walks the satisfied conditions. A query matches if its conditions have a binding in common;
//!    the common bindings are the ones to return.
//! 6. [`columns`] finds the elements that the returned paths select from each binding, once for all queries. This is
//!    the shared grouping of the source, whose groups and lists (groupSequence-listSequence) the columns stand for.
//!    With the matching queries they are kept as [`prepared`] results.
//! 7. [`result_ids`] assigns an id to each distinct pair of a set of bindings ([`binding_sets`]) and a constructor: one
//!    result, however many queries get it.
//! 8. [`results`] and [`assembly`] write each result: constants and slices of the message in turn.
//!
//! [`rewriter`] runs these steps and holds the state of a thread.

mod assembly;
mod binding_sets;
mod bindings;
mod columns;
mod condition_index;
mod constructors;
mod data_guide;
mod linear_path;
mod prepared;
mod queries;
mod recent_queries;
mod result_ids;
mod results;
mod rewriter;
mod value_index;

#[cfg(target_arch = "x86_64")]
pub(crate) use assembly::use_avx2;
pub(crate) use condition_index::IndexedQuery;
pub use prepared::PreparedResults;
pub(crate) use queries::BatchQueries;
pub use result_ids::ResultIds;
#[cfg(test)]
pub(crate) use result_ids::start_last_round;
pub(crate) use result_ids::{QueryResults, RefusedResults, ResultSink, UNASSEMBLED};
pub(crate) use rewriter::BatchRewriter;
