//! Many subscriptions at a time.
//!
//! What adding one to many others takes is waiting for memory, mostly: its key's place in the table of keys, and the
//! states that its path leads along, each of which is known only once the one before is there. So blocks of subscriptions
//! are read ahead, and of a block all keys are looked for at once, and of all paths one step after the other
//! ([`Nfa::find_many`](crate::automaton::nfa::Nfa::find_many)). What is found stays in the cache until each is added.

use std::sync::Arc;

use super::subscribe::PlainPath;
use super::subscription_table::QueryContext;
use super::{AddError, Engine, QueryWarning};
use crate::automaton::nfa::StateId;
use crate::plan::LinearStep;
use crate::query::{ParseOptions, plain, plain::PathSpelling};

/// Subscriptions that are read ahead.
const BLOCK: usize = 32;

/// A subscription that was read ahead.
#[derive(Default)]
struct ParsedSubscription {
    key_hash: u64,
    /// Whether the key was taken.
    is_duplicate: bool,
    /// `None`: the query is no plain path.
    spelling: Option<PathSpelling>,
    steps: Vec<LinearStep>,
}

/// What [`Engine::add_many`] has to say of subscriptions, each by its index among those that were passed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct BulkReport {
    /// Those that were not added.
    pub refused: Vec<(usize, AddError)>,
    /// Those that were added and look wrong.
    pub warnings: Vec<(usize, QueryWarning)>,
}

/// What of reading ahead is used again for the next block.
#[derive(Default)]
struct ParseBlock {
    parsed: Vec<ParsedSubscription>,
    /// Where the paths lead, in a version of the bulk's automaton.
    in_bulk: Vec<Option<StateId>>,
    version: u64,
}

impl Engine {
    /// Adds many subscriptions of one context, as [`Engine::add`] would one after the other: pairs of key and query.
    pub fn add_many<T: AsRef<str>>(
        &mut self,
        pairs_given: &[(T, T)],
        context: &QueryContext,
        replace: bool,
    ) -> BulkReport {
        let mut report = BulkReport::default();
        let mut block = ParseBlock {
            parsed: (0..BLOCK.min(pairs_given.len())).map(|_| ParsedSubscription::default()).collect(),
            ..ParseBlock::default()
        };
        for (number, pairs) in pairs_given.chunks(BLOCK).enumerate() {
            self.collect_vocabulary_if_due();
            let (identity, id) = (self.identity, self.registry.intern_context(context));
            self.parse_block(pairs, id, &mut block);
            for (index, (key, text)) in pairs.iter().enumerate() {
                let (key, text) = (key.as_ref(), text.as_ref());
                // Once the names are numbered anew, what was read ahead means something else.
                let added = match self.identity == identity {
                    true => self.add_read(key, text, id, replace, (&block, index)),
                    false => self.add(key, text, context, replace),
                };
                match added {
                    Ok(None) => {}
                    Ok(Some(warning)) => report.warnings.push((number * BLOCK + index, warning)),
                    Err(error) => report.refused.push((number * BLOCK + index, error)),
                }
            }
        }
        report
    }

    fn parse_block<T: AsRef<str>>(&mut self, pairs: &[(T, T)], context: u32, block: &mut ParseBlock) {
        let context = Arc::clone(self.registry.context(context));
        let options = ParseOptions { namespaces: &context.namespaces, dialect: context.dialect, limits: &self.limits };
        for ((key, text), parsed) in pairs.iter().zip(&mut block.parsed) {
            parsed.key_hash = self.registry.key_hash(key.as_ref());
            parsed.spelling = plain::read(text.as_ref(), &options, &mut self.vocabulary, &mut parsed.steps);
        }
        for ((key, _), parsed) in pairs.iter().zip(&mut block.parsed) {
            parsed.is_duplicate = self.registry.slot_at(key.as_ref(), parsed.key_hash).is_some();
        }
        let paths = block.parsed[..pairs.len()].iter().map(|parsed| match parsed.spelling {
            Some(_) => parsed.steps.as_slice(),
            None => &[],
        });
        let bulk = &self.population.main.nfa;
        bulk.find_many(paths, &mut block.in_bulk);
        block.version = bulk.version();
    }

    fn add_read(
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
        // One of the same key may have come or gone since.
        let existing = self.registry.slot_at(key, parsed.key_hash);
        if existing.is_some() && !replace {
            return Err(AddError::DuplicateKey);
        }
        let query = match parsed.spelling {
            Some(spelling) => {
                let in_bulk = Some((block.version, block.in_bulk[index]));
                self.path_query(text, context, &PlainPath { steps: &parsed.steps, spelling, in_bulk })
            }
            None => self.other_query(text, context).map_err(AddError::Query)?,
        };
        let warning = self.compiled.warning(query);
        self.subscribe(key, parsed.key_hash, existing, query);
        Ok(warning)
    }
}
