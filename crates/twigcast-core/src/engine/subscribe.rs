//! Adding and removing subscriptions.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::query_index::Segment;
use super::subscription_table::QueryContext;
use super::{AddError, Engine, QueryWarning};
use crate::automaton::nfa::{AcceptItem, Nfa};
use crate::error::QueryError;
use crate::ids::Slot;
use crate::ids::StateId;
use crate::plan::LinearStep;
use crate::query::{plain, plain::PathSpelling};
use crate::rewrite::program::family::FamilyRef;

/// Queries that are added or removed before the segments are merged, at the least.
const MERGE_MIN: usize = 1024;

/// A query that is a plain path, parsed.
pub(super) struct PlainPath<'a> {
    pub(super) steps: &'a [LinearStep],
    pub(super) spelling: PathSpelling,
    /// The state that it leads to in a version of the main segment's NFA, if it was searched there.
    pub(super) in_main: Option<(u64, Option<StateId>)>,
}

impl PlainPath<'_> {
    fn state_in(&self, main: &Nfa) -> Option<StateId> {
        match self.in_main {
            Some((version, state)) if version == main.version() => state,
            _ => main.find(self.steps),
        }
    }
}

impl Engine {
    /// Adds a subscription. Returns a warning if its query looks wrong.
    ///
    /// # Errors
    /// [`AddError::DuplicateKey`] unless `replace` is set; [`AddError::Query`] when the query is refused, in which case
    /// nothing changes (also not the subscription that was to be replaced).
    pub fn add(
        &mut self,
        key: &str,
        text: &str,
        context: &QueryContext,
        replace: bool,
    ) -> Result<Option<QueryWarning>, AddError> {
        let hash = self.subscription_table.key_hash(key);
        let existing = self.subscription_table.slot_at(key, hash);
        if existing.is_some() && !replace {
            return Err(AddError::DuplicateKey);
        }
        // A query that is refused may have added names, too.
        self.collect_vocabulary_if_due();
        let context = self.subscription_table.intern_context(context);
        let query = self.query_for(text, context).map_err(AddError::Query)?;
        let warning = self.warning(query);
        self.subscribe(key, hash, existing, query);
        Ok(warning)
    }

    /// Subscribes to a query under a key. An existing subscription of the key is removed.
    pub(super) fn subscribe(&mut self, key: &str, hash: u64, existing: Option<Slot>, query: u32) {
        // The query is held before the old subscription releases it: both may have the same.
        if let Some(slot) = existing {
            self.subscription_table.hold(query);
            self.remove_slot(slot);
            self.subscription_table.unhold(query);
        }
        self.subscription_table.subscribe(key, hash, query);
        self.changes += 1;
        self.compact_if_due();
    }

    /// Returns the query with a text in a context, compiled now if it is new.
    pub(super) fn query_for(&mut self, text: &str, context: u32) -> Result<u32, QueryError> {
        let mut steps = std::mem::take(&mut self.steps);
        let declared = Arc::clone(self.subscription_table.context(context));
        let options = declared.parse_options(&self.limits);
        let query = match plain::read(text, &options, &mut self.vocabulary, &mut steps) {
            Some(spelling) => Ok(self.path_query(text, context, &PlainPath { steps: &steps, spelling, in_main: None })),
            None => self.other_query(text, context),
        };
        self.steps = steps;
        query
    }

    /// Returns the query with a text that is no plain path.
    pub(super) fn other_query(&mut self, text: &str, context: u32) -> Result<u32, QueryError> {
        if let Some(query) = self.subscription_table.find_query(text, context) {
            return Ok(query);
        }
        let compiled = self.compile(text, context)?;
        let query = self.register(context, compiled);
        self.subscription_table.keep_text(query, text);
        Ok(query)
    }

    /// Returns the query of a plain path. Its text is kept only if the path does not give it: if the text is spelled
    /// otherwise than the path is printed, or if another query is accepted there already.
    pub(super) fn path_query(&mut self, text: &str, context: u32, path: &PlainPath<'_>) -> u32 {
        let steps = path.steps;
        let is_as_printed = path.spelling == PathSpelling::Sure || self.prints_as(steps, context, text);
        let segment = self.segment();
        let in_main = match segment {
            Segment::Main => Some(self.query_index.main.nfa.state_of(steps)),
            Segment::Recent => path.state_in(&self.query_index.main.nfa),
        };
        let existing = in_main.and_then(|state| self.query_at(Segment::Main, state, context)).filter(|_| is_as_printed);
        // An existing query is accepted where the path ends, so no new state is left without use.
        if let Some(query) = existing.or_else(|| self.subscription_table.find_query(text, context)) {
            return query;
        }
        let state = match in_main {
            Some(state) if segment == Segment::Main => state,
            _ => self.query_index.recent.nfa.state_of(steps),
        };
        if let Some(query) = self.query_at(segment, state, context).filter(|_| is_as_printed) {
            return query;
        }
        let query = self.subscription_table.add_query(context);
        let nfa = self.query_index.nfa_mut(segment);
        let item = nfa.insert_item(state, AcceptItem::Accept(query));
        let is_first = nfa.first_accepted(state) == Some(query);
        if segment == Segment::Recent {
            self.recent.push(query);
        }
        self.compiled.put_path(query, segment, item);
        if !is_as_printed || !is_first {
            self.subscription_table.keep_text(query, text);
        }
        query
    }

    /// Returns the segment that new queries go to.
    pub(super) fn segment(&self) -> Segment {
        if self.warm.load(Ordering::Relaxed) { Segment::Recent } else { Segment::Main }
    }

    /// Returns the query whose text is the path to a state, in a context.
    fn query_at(&self, segment: Segment, state: StateId, context: u32) -> Option<u32> {
        let query = self.query_index.paths(segment).nfa.first_accepted(state)?;
        self.subscription_table.is_path(query, context).then_some(query)
    }

    fn prints_as(&mut self, steps: &[LinearStep], context: u32, text: &str) -> bool {
        let mut printed = std::mem::take(&mut self.printed);
        printed.clear();
        let is_same = self.print(steps, context, &mut printed) && printed == text;
        self.printed = printed;
        is_same
    }

    fn print(&self, steps: &[LinearStep], context: u32, text: &mut String) -> bool {
        let namespaces = &self.subscription_table.context(context).namespaces;
        let declared = namespaces.iter().map(|(prefix, uri)| (prefix.as_str(), uri.as_str()));
        plain::print(steps, declared, &self.vocabulary, text)
    }

    /// Returns the text of a query.
    pub(super) fn text_of(&self, query: u32) -> Cow<'_, str> {
        let (kept, context) = self.subscription_table.query(query);
        match (kept, self.compiled.path(query)) {
            (Some(text), _) => Cow::Borrowed(text),
            (None, Some((segment, item))) => {
                let nfa = &self.query_index.paths(segment).nfa;
                let mut text = String::new();
                self.print(&nfa.path_of(nfa.state_of_item(item)), context, &mut text);
                Cow::Owned(text)
            }
            (None, None) => Cow::Borrowed(""),
        }
    }

    /// Removes a subscription. Returns `false` if there is none with this key.
    pub fn remove(&mut self, key: &str) -> bool {
        match self.subscription_table.slot_of(key) {
            Some(slot) => {
                self.remove_slot(slot);
                self.changes += 1;
                self.compact_if_due();
                true
            }
            None => false,
        }
    }

    pub(super) fn remove_slot(&mut self, slot: Slot) {
        if let Some(query) = self.subscription_table.unsubscribe(slot) {
            self.retire(query);
        }
    }

    /// Removes a query without subscribers from the index, or makes it a tombstone where removing it would invalidate the
    /// caches of matchers.
    pub(super) fn retire(&mut self, query: u32) {
        let Some(registrations) = self.compiled.registrations(query) else { return };
        let needs = self.compiled.needs(query);
        let is_cheap =
            registrations.as_slice().iter().all(|&registration| self.query_index.is_cheap_to_remove(registration));
        self.needs.subtract(needs);
        if self.warm.load(Ordering::Relaxed) && !is_cheap {
            self.tombstones.push(query);
        } else {
            self.take_out(query);
        }
    }

    /// Removes a query from the shared structures.
    pub(super) fn take_out(&mut self, query: u32) {
        let Some(registrations) = self.compiled.take(query) else { return };
        self.query_index.remove(query, registrations.as_slice());
        self.batch_queries.remove(query);
        self.throttle.forget(query);
        self.set_family(query, FamilyRef::NONE);
        self.subscription_table.free_number(query);
    }

    /// Merges the segments once the recent segment or the tombstones are an eighth of all queries: rarely enough that the
    /// caches that matchers lose cost little per change.
    pub(super) fn compact_if_due(&mut self) {
        self.collect_vocabulary_if_due();
        if self.is_merge_due(0) {
            self.compact();
        }
    }

    /// Returns `true` if the segments are merged after so many further queries.
    pub(super) fn is_merge_due(&self, further: usize) -> bool {
        self.recent.len().max(self.tombstones.len()) + further > MERGE_MIN + self.compiled.bound() / 8
    }

    /// Moves the recent segment into the main segment and removes the tombstones. The engine does so by itself when due.
    pub fn compact(&mut self) {
        for &query in std::mem::take(&mut self.tombstones).iter() {
            self.take_out(query);
        }
        let mut recent: Vec<u32> = std::mem::take(&mut self.recent).iter().copied().collect();
        recent.sort_unstable();
        recent.dedup();
        for query in recent {
            let query_index = &mut self.query_index;
            self.compiled.map_registrations(query, |registration| query_index.promote(registration));
            self.keep_text_if_needed(query);
        }
        self.interner.tidy();
        self.main_version += 1;
        self.warm.store(false, Ordering::Relaxed);
    }

    /// Keeps the text of a query that is no longer the first at the end of its path.
    fn keep_text_if_needed(&mut self, query: u32) {
        let Some((segment, item)) = self.compiled.path(query) else { return };
        let nfa = &self.query_index.paths(segment).nfa;
        if nfa.first_accepted(nfa.state_of_item(item)) != Some(query) {
            let text = self.text_of(query).into_owned();
            self.subscription_table.keep_text(query, &text);
        }
    }
}
