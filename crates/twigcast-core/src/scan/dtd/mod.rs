//! Document type declarations: what a message declares about itself, and what that changes in it.
//!
//! A scanner that meets nothing to which a declaration applies goes on as if there were none. The first reference to an
//! entity, missing attribute with a default or value to normalise stops it; [`expand`] then writes what follows again, or
//! all of the message, with these in their place, and what it writes needs no declarations. Nothing outside of the message
//! is ever read: what an external DTD declares can be handed over as [`Declarations`].
//!
//! - [`declarations`]: what is declared
//! - [`chain`]: what is declared in the message or elsewhere
//! - [`subset`]: reads an internal subset
//! - [`expand`]: writes a message again
//! - [`elements`]: writes the elements of a document one by one
//! - [`tag_plans`]: what is declared for an element, ready for start tags as most are written
//! - [`tag_ranges`]: where the attributes of a start tag stand
//! - [`content`]: the texts of entities, checked and escaped, for the places where they are referred to
//! - [`escaping`]: texts where markup would be read
//! - [`markup_search`]: where markup is, and what is in a tag
//! - [`text_table`]: texts and names, found fast
//! - [`tokens`]: values of attributes that are lists of tokens

mod chain;
mod content;
mod declarations;
pub mod elements;
mod escaping;
pub mod expand;
mod markup_search;
pub(super) mod subset;
mod tag_plans;
mod tag_ranges;
#[cfg(test)]
mod tests;
mod text_table;
mod tokens;

pub use declarations::Declarations;
pub(crate) use tag_ranges::TagRanges;
