//! Results of similar queries from one evaluation of what they share: the state of one message, the decisions and
//! what is kept between them.

mod delivering;
mod kept;
pub(super) mod shared;
