//! Bytes to [`crate::document::Document`], rejecting what is not well-formed.

pub mod decode;
