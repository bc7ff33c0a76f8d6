//! Matching core of Twigcast.
//!
//! Where things live, in the order a message passes them:
//! - [`vocabulary`]: names as integers; grows at registration, read-only while scanning
//! - [`scan`]: bytes to [`document`], rejecting what is not well-formed
//! - [`records`]: large documents to messages, while they arrive
//! - [`query`]: text to algebra
//! - [`analysis`]: what is known of a query without a message
//! - [`automaton`], [`predicate`], [`twig`]: the shared structures that find the queries a message matches
//! - [`eval`]: the full language on one document, for what the shared structures leave open and for node counts
//! - [`explain`]: why a query matches a message, or not
//! - [`rewrite`]: For-Where-Return results
//! - [`stream`]: messages that travel parsed
//! - [`engine`]: all of it behind one type
//!
//! [`ids`]: the types of all ids. [`util`]: structures that know nothing of queries. [`simd`]: detection of CPU features.
#![forbid(unsafe_code)]

pub mod access;
pub mod analysis;
pub mod automaton;
pub mod document;
pub mod engine;
pub mod error;
pub mod eval;
pub mod explain;
pub mod ids;
pub mod limits;
pub mod plan;
pub mod predicate;
pub mod query;
pub mod records;
pub mod rewrite;
pub mod scan;
pub mod simd;
pub mod snapshot;
pub mod stream;
#[cfg(test)]
#[path = "../tests/testing/random.rs"]
mod testing;
pub mod twig;
pub mod util;
pub mod vocabulary;

/// Makes the SIMD kernels use AVX2 and bit manipulation (BMI) instructions from now on, in the whole process.
///
/// The core has no unsafe code, so it cannot call this by itself.
///
/// # Safety
///
/// The processor has these features: the caller checks [`simd::has_avx2`] first.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub fn use_avx2() {
    engine::use_avx2();
    rewrite::use_avx2();
}
