//! Delivery of similar queries through one evaluation of what they have in common.
//!
//! [`shared`] is the state of one message, [`delivering`] evaluates and looks up what a query shares, and [`kept`]
//! writes results with what is kept. See `docs/decisions` for what it gains.

mod delivering;
mod kept;
pub(super) mod shared;
