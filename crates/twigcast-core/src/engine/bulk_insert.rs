//! Adding many subscriptions at a time.
//!
//! Adding one subscription to many others mostly waits for memory: for its key's entry in the table of keys, and for the
//! states along its path, each of which is found only after the one before. So subscriptions are parsed in blocks. The
//! keys of a block are looked up together, and its paths one step of all paths after the other
//! ([`Nfa::find_many`](crate::automaton::nfa::Nfa::find_many)). What was looked up stays in the processor's cache until
//! each subscription is added.

use std::sync::Arc;

use super::parse_block::{BLOCK, ParseBlock, ParsedSubscription};
use super::subscribe::PlainPath;
use super::subscription_table::QueryContext;
use super::{AddError, Engine, QueryWarning};
use crate::query::plain;

/// The report of [`Engine::add_many`]: subscriptions by their index among those that were passed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct BulkReport {
    /// Subscriptions that were refused.
    pub refused: Vec<(usize, AddError)>,
    /// Subscriptions that were added and look wrong.
    pub warnings: Vec<(usize, QueryWarning)>,
}

impl Engine {
    /// Adds many subscriptions of one context, pairs of key and query, as [`Engine::add`] would one after the other.
    pub fn add_many<T: AsRef<str>>(&mut self, pairs: &[(T, T)], context: &QueryContext, replace: bool) -> BulkReport {
        let mut report = BulkReport::default();
        let mut block = std::mem::take(&mut self.block);
        block.parsed.resize_with(BLOCK.min(pairs.len()).max(block.parsed.len()), ParsedSubscription::default);
        for (number, block_pairs) in pairs.chunks(BLOCK).enumerate() {
            self.collect_vocabulary_if_due();
            let (identity, id) = (self.identity, self.subscription_table.intern_context(context));
            self.parse_block(block_pairs, id, &mut block);
            for (index, (key, text)) in block_pairs.iter().enumerate() {
                let (key, text) = (key.as_ref(), text.as_ref());
                // After a vocabulary GC, the parsed names are no longer valid.
                let added = match self.identity == identity {
                    true => self.add_parsed(key, text, id, replace, (&block, index)),
                    false => self.add(key, text, context, replace),
                };
                match added {
                    Ok(None) => {}
                    Ok(Some(warning)) => report.warnings.push((number * BLOCK + index, warning)),
                    Err(error) => report.refused.push((number * BLOCK + index, error)),
                }
            }
        }
        self.block = block;
        report
    }

    fn parse_block<T: AsRef<str>>(&mut self, pairs: &[(T, T)], context: u32, block: &mut ParseBlock) {
        let context = Arc::clone(self.subscription_table.context(context));
        let options = context.parse_options(&self.limits);
        for ((key, text), parsed) in pairs.iter().zip(&mut block.parsed) {
            parsed.key_hash = self.subscription_table.key_hash(key.as_ref());
            parsed.spelling = plain::read(text.as_ref(), &options, &mut self.vocabulary, &mut parsed.steps);
        }
        for ((key, _), parsed) in pairs.iter().zip(&mut block.parsed) {
            parsed.is_duplicate = self.subscription_table.slot_at(key.as_ref(), parsed.key_hash).is_some();
        }
        let paths = block.parsed[..pairs.len()].iter().map(|parsed| match parsed.spelling {
            Some(_) => parsed.steps.as_slice(),
            None => &[],
        });
        let main = &self.query_index.main.nfa;
        main.find_many(paths, &mut block.in_main);
        block.version = main.version();
    }

    fn add_parsed(
        &mut self,
        key: &str,
        text: &str,
        context: u32,
        replace: bool,
        (block, index): (&ParseBlock, usize),
    ) -> Result<Option<QueryWarning>, AddError> {
        let parsed = &block.parsed[index];
        if parsed.is_duplicate && !replace {
            return Err(AddError::DuplicateKey);
        }
        // A subscription of the same key may have been added or removed since.
        let existing = self.subscription_table.slot_at(key, parsed.key_hash);
        if existing.is_some() && !replace {
            return Err(AddError::DuplicateKey);
        }
        let query = match parsed.spelling {
            Some(spelling) => {
                let in_main = Some((block.version, block.in_main[index]));
                self.path_query(text, context, &PlainPath { steps: &parsed.steps, spelling, in_main })
            }
            None => self.other_query(text, context).map_err(AddError::Query)?,
        };
        let warning = self.warning(query);
        self.subscribe(key, parsed.key_hash, existing, query);
        Ok(warning)
    }
}
