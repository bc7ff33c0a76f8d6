//! Routing: which of several targets a message is for (Diao 2005, sections 7.3.1 and 7.3.2).
//!
//! A [`ConjunctionIndex`] holds conjunctions of linear paths, each with *labels*. A label stands for one target at a time:
//! with each message the caller says which labels count and which target each stands for. [`ConjunctionIndex::route`] and
//! [`ConjunctionIndex::route_stream`] return the targets for which some conjunction holds, and stop reading as soon as no
//! target is missing.

mod conjunctions;
mod target_run;

pub use conjunctions::ConjunctionIndex;
pub use target_run::{TARGETS_MAX, Targets};
