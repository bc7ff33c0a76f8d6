//! Vocabulary GC: removing the names that no query mentions any longer.
//!
//! Names are ids everywhere, so a single one cannot be removed. When far more names have been added than queries mentioned
//! after the last GC, all queries are compiled anew with a vocabulary of their own names. Subscriptions and the numbers of
//! queries stay. Ordinary feeds have a few hundred names and never need this.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::compiled::CompiledQueries;
use super::needs::NeedCounts;
use super::query_index::{QueryIndex, Segment};
use super::{Engine, NEXT_IDENTITY};
use crate::automaton::nfa::AcceptItem;
use crate::error::QueryError;
use crate::query::forms::QueryForms;
use crate::query::plain;
use crate::rewrite::Interner;
use crate::rewrite::batch::BatchQueries;
use crate::rewrite::program::family::FamilyRef;
use crate::vocabulary::Vocabulary;

/// Names beyond four times those in use before a GC is worth the work.
const SPARE_NAMES: usize = 1 << 16;

/// Everything that is compiled from the texts of queries.
struct RebuiltQueries {
    vocabulary: Vocabulary,
    query_index: QueryIndex,
    interner: Interner,
    compiled: CompiledQueries,
    families: Arc<Vec<FamilyRef>>,
    batch_queries: BatchQueries,
    needs: NeedCounts,
}

impl RebuiltQueries {
    /// Returns what is compiled from no query.
    fn empty() -> Self {
        Self {
            vocabulary: Vocabulary::new(),
            query_index: QueryIndex::default(),
            interner: Interner::default(),
            compiled: CompiledQueries::default(),
            families: Arc::default(),
            batch_queries: BatchQueries::default(),
            needs: NeedCounts::default(),
        }
    }
}

impl Engine {
    /// Collects the vocabulary if there are many names that no query mentions.
    pub(super) fn collect_vocabulary_if_due(&mut self) {
        if self.is_vocabulary_gc_due(0) {
            self.collect_vocabulary();
        }
    }

    /// Returns `true` if the vocabulary is collected after so many further names.
    pub(super) fn is_vocabulary_gc_due(&self, further: usize) -> bool {
        self.vocabulary.name_count() + further > self.names_in_use * 4 + SPARE_NAMES
    }

    /// Compiles all queries anew, with a vocabulary of the names that they mention. The engine does so by itself when due.
    pub fn collect_vocabulary(&mut self) {
        self.compact();
        // Where several queries are accepted at the end of one path, one whose text is not kept has to come first.
        let bound = self.query_bound() as u32;
        let mut queries: Vec<u32> = (0..bound).filter(|&query| self.compiled.registrations(query).is_some()).collect();
        queries.sort_by_key(|&query| self.subscription_table.query(query).0.is_some());
        let described =
            |&query: &u32| (query, self.text_of(query).into_owned(), self.subscription_table.query(query).1);
        let described: Vec<(u32, String, u32)> = queries.iter().map(described).collect();
        let before = self.exchange(RebuiltQueries::empty());
        if described.iter().try_for_each(|(query, text, context)| self.compile_as(*query, text, *context)).is_err() {
            // A query that was accepted once is accepted again; if not, everything stays as it was.
            self.exchange(before);
        }
        self.names_in_use = self.vocabulary.name_count();
        self.identity = NEXT_IDENTITY.fetch_add(1, Ordering::Relaxed);
    }

    /// Replaces everything compiled. Returns what it was before.
    fn exchange(&mut self, rebuilt: RebuiltQueries) -> RebuiltQueries {
        let RebuiltQueries { vocabulary, query_index, interner, compiled, families, batch_queries, needs } = rebuilt;
        // Its names are those of the vocabulary that goes.
        self.forms = QueryForms::default();
        RebuiltQueries {
            vocabulary: std::mem::replace(&mut self.vocabulary, vocabulary),
            query_index: std::mem::replace(&mut self.query_index, query_index),
            interner: std::mem::replace(&mut self.interner, interner),
            compiled: std::mem::replace(&mut self.compiled, compiled),
            families: std::mem::replace(&mut self.families, families),
            batch_queries: std::mem::replace(&mut self.batch_queries, batch_queries),
            needs: std::mem::replace(&mut self.needs, needs),
        }
    }

    /// Compiles a query under its number.
    fn compile_as(&mut self, query: u32, text: &str, context: u32) -> Result<(), QueryError> {
        let mut steps = Vec::new();
        let declared = Arc::clone(self.subscription_table.context(context));
        let options = declared.parse_options(&self.limits);
        if plain::read(text, &options, &mut self.vocabulary, &mut steps).is_none() {
            let compiled = self.compile(text, context)?;
            self.register_as(query, context, compiled);
            return Ok(());
        }
        let nfa = self.query_index.nfa_mut(Segment::Main);
        let state = nfa.state_of(&steps);
        let item = nfa.insert_item(state, AcceptItem::Accept(query));
        self.compiled.put_path(query, Segment::Main, item);
        Ok(())
    }
}
