//! All linear paths in one automaton.
//!
//! [`nfa`] is YFilter's shared NFA (Diao 2005, section 4.3): one path of states a query path, common prefixes stored
//! once, growing and shrinking a path at a time. [`dfa`] runs it as a lazy DFA: each set of active states that a message
//! leads to becomes one state of its own, made on first use and kept in a bounded cache.

pub mod dfa;
pub mod nfa;
