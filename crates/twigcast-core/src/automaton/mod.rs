//! All linear paths in one automaton.
//!
//! [`nfa`] is YFilter's shared NFA (Diao 2005, section 4.3): a state for each step of a path, common prefixes stored once,
//! growing and shrinking a path at a time. [`dfa`] runs it as a lazy DFA: each set of active states that a message leads
//! to becomes one state, built on first use and kept in a bounded cache.
//!
//! ```
//! use twigcast_core::automaton::nfa::{AcceptItem, INITIAL, Nfa};
//! use twigcast_core::plan::LinearStep;
//! use twigcast_core::query::ast::NameTest;
//! use twigcast_core::vocabulary::{Name, Vocabulary};
//!
//! let mut vocabulary = Vocabulary::new();
//! let mut name = |local: &str| Name {
//!     namespace: vocabulary.intern_namespace(""),
//!     local: vocabulary.intern_local(local),
//! };
//! let (feed, price) = (name("feed"), name("price"));
//!
//! // Query 7 is /feed//price.
//! let mut nfa = Nfa::new();
//! let state = nfa.state_of(&[
//!     LinearStep { descendant: false, test: NameTest::Name(feed) },
//!     LinearStep { descendant: true, test: NameTest::Name(price) },
//! ]);
//! nfa.insert_item(state, AcceptItem::Accept(7));
//!
//! // The start tags <feed><price> lead to the state that accepts it.
//! let (mut active, mut next) = (vec![INITIAL], Vec::new());
//! for name in [feed, price] {
//!     nfa.step(&active, name, &mut next);
//!     std::mem::swap(&mut active, &mut next);
//! }
//! let accepted: Vec<_> = active.iter().flat_map(|&state| nfa.items(state)).collect();
//! assert_eq!(accepted, [AcceptItem::Accept(7)]);
//! ```

pub mod dfa;
pub mod nfa;
