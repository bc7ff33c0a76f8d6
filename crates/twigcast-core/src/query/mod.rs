//! The query language: text to algebra.

pub mod ast;
