//! Delivers similar queries with one evaluation of their common parts.
//!
//! [`shared`] is the state of one message; [`delivering`] evaluates and looks up what a query shares, and writes its
//! result. Decision 0035 has figures of the gain.

mod delivering;
pub(super) mod shared;
