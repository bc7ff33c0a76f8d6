//! Delivery of similar queries through one evaluation of what they have in common.
//!
//! [`shared`] is the state of one message; [`delivering`] evaluates and looks up what a query shares, and writes its
//! result. Decision 0035 has the figures of what that gains.

mod delivering;
pub(super) mod shared;
