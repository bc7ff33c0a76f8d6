//! Subscriptions come and go.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::query_index::Segment;
use super::subscription_table::{QueryContext, Slot};
use super::{AddError, Engine, QueryWarning};
use crate::automaton::nfa::{AcceptItem, Nfa, StateId};
use crate::error::QueryError;
use crate::plan::LinearStep;
use crate::query::{ParseOptions, plain, plain::PathSpelling};
use crate::rewrite::program::family::FamilyRef;

/// Queries that come or go before they are merged into the bulk, at the least.
const COMPACTED_MIN: usize = 1024;

/// A plain path that was read.
pub(super) struct PlainPath<'a> {
    pub(super) steps: &'a [LinearStep],
    pub(super) spelling: PathSpelling,
    /// Where it was found to lead in a version of the bulk's automaton, if it was looked for.
    pub(super) in_bulk: Option<(u64, Option<StateId>)>,
}

impl PlainPath<'_> {
    fn state_in(&self, bulk: &Nfa) -> Option<StateId> {
        match self.in_bulk {
            Some((version, state)) if version == bulk.version() => state,
            _ => bulk.find(self.steps),
        }
    }
}

impl Engine {
    /// Add a subscription.
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
        let hash = self.registry.key_hash(key);
        let existing = self.registry.slot_at(key, hash);
        if existing.is_some() && !replace {
            return Err(AddError::DuplicateKey);
        }
        // Also a query that is refused may have brought names.
        self.collect_vocabulary_if_due();
        let context = self.registry.intern_context(context);
        let query = self.query_for(text, context).map_err(AddError::Query)?;
        let warning = self.compiled.warning(query);
        self.subscribe(key, hash, existing, query);
        Ok(warning)
    }

    /// Subscribe to a query under a key, which may be `known`: its subscription goes.
    pub(super) fn subscribe(&mut self, key: &str, hash: u64, existing: Option<Slot>, query: u32) {
        // Hold on to the new query before the old subscription lets go: they may be the same.
        if let Some(slot) = existing {
            self.registry.hold(query);
            self.remove_slot(slot);
            self.registry.unhold(query);
        }
        self.registry.subscribe(key, hash, query);
        self.changes += 1;
        self.compact_if_due();
    }

    /// The query with this text, compiled now if it is new.
    pub(super) fn query_for(&mut self, text: &str, context: u32) -> Result<u32, QueryError> {
        let mut steps = std::mem::take(&mut self.steps);
        let declared = Arc::clone(self.registry.context(context));
        let options =
            ParseOptions { namespaces: &declared.namespaces, dialect: declared.dialect, limits: &self.limits };
        let query = match plain::read(text, &options, &mut self.vocabulary, &mut steps) {
            Some(spelling) => Ok(self.path_query(text, context, &PlainPath { steps: &steps, spelling, in_bulk: None })),
            None => self.other_query(text, context),
        };
        self.steps = steps;
        query
    }

    pub(super) fn other_query(&mut self, text: &str, context: u32) -> Result<u32, QueryError> {
        if let Some(query) = self.registry.find_query(text, context) {
            return Ok(query);
        }
        let compiled = self.compile(text, context)?;
        let query = self.register(context, compiled);
        self.registry.keep_text(query, text);
        Ok(query)
    }

    /// The query of a plain path. Its text is kept only where the path does not tell it: where it is spelled in another
    /// way than the path would be printed, or where another query stands at the path's end already.
    pub(super) fn path_query(&mut self, text: &str, context: u32, path: &PlainPath<'_>) -> u32 {
        let steps = path.steps;
        let is_as_printed = path.spelling == PathSpelling::Sure || self.prints_as(steps, context, text);
        let layer = self.layer();
        let in_bulk = match layer {
            Segment::Main => Some(self.population.main.nfa.state_of(steps)),
            Segment::Recent => path.state_in(&self.population.main.nfa),
        };
        let existing = in_bulk.and_then(|state| self.query_at(Segment::Main, state, context)).filter(|_| is_as_printed);
        // A query that is found in any way stands at the path's end, so no state is left over.
        if let Some(query) = existing.or_else(|| self.registry.find_query(text, context)) {
            return query;
        }
        let state = match in_bulk {
            Some(state) if layer == Segment::Main => state,
            _ => self.population.recent.nfa.state_of(steps),
        };
        if let Some(query) = self.query_at(layer, state, context).filter(|_| is_as_printed) {
            return query;
        }
        let query = self.registry.add_query(context);
        let nfa = self.population.nfa_mut(layer);
        let item = nfa.insert_item(state, AcceptItem::Accept(query));
        let is_first = nfa.first_accepted(state) == Some(query);
        if layer == Segment::Recent {
            self.recent.push(query);
        }
        self.compiled.put_path(query, layer, item);
        if !is_as_printed || !is_first {
            self.registry.keep_text(query, text);
        }
        query
    }

    /// Where a query goes that comes now.
    pub(super) fn layer(&self) -> Segment {
        if self.warm.load(Ordering::Relaxed) { Segment::Recent } else { Segment::Main }
    }

    /// The query whose text is the path to a state, in a context.
    fn query_at(&self, layer: Segment, state: StateId, context: u32) -> Option<u32> {
        let query = self.population.paths(layer).nfa.first_accepted(state)?;
        self.registry.is_path(query, context).then_some(query)
    }

    fn prints_as(&mut self, steps: &[LinearStep], context: u32, text: &str) -> bool {
        let mut printed = std::mem::take(&mut self.printed);
        printed.clear();
        let is_same = self.print(steps, context, &mut printed) && printed == text;
        self.printed = printed;
        is_same
    }

    fn print(&self, steps: &[LinearStep], context: u32, text: &mut String) -> bool {
        let namespaces = &self.registry.context(context).namespaces;
        let declared = namespaces.iter().map(|(prefix, uri)| (prefix.as_str(), uri.as_str()));
        plain::print(steps, declared, &self.vocabulary, text)
    }

    /// The text of a query.
    pub(super) fn text_of(&self, query: u32) -> Cow<'_, str> {
        let (kept, context) = self.registry.query(query);
        match (kept, self.compiled.path(query)) {
            (Some(text), _) => Cow::Borrowed(text),
            (None, Some((layer, item))) => {
                let nfa = &self.population.paths(layer).nfa;
                let mut text = String::new();
                self.print(&nfa.path_of(nfa.state_of_item(item)), context, &mut text);
                Cow::Owned(text)
            }
            (None, None) => Cow::Borrowed(""),
        }
    }

    /// Remove a subscription; whether it was there.
    pub fn remove(&mut self, key: &str) -> bool {
        match self.registry.slot_of(key) {
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
        if let Some(query) = self.registry.unsubscribe(slot) {
            self.retire(query);
        }
    }

    /// A query is gone from the registry: let it take no part in matching any more.
    pub(super) fn retire(&mut self, query: u32) {
        let Some(registrations) = self.compiled.registrations(query) else { return };
        let needs = self.compiled.needs(query);
        let is_loose = registrations.as_slice().iter().all(|&registration| self.population.is_loose(registration));
        self.needs.subtract(needs);
        if self.warm.load(Ordering::Relaxed) && !is_loose {
            // Without subscribers it can do no harm; taking it out now would cost what matchers have learnt.
            self.dead.push(query);
        } else {
            self.take_out(query);
        }
    }

    /// Take a query out of the shared structures.
    pub(super) fn take_out(&mut self, query: u32) {
        let Some(registrations) = self.compiled.take(query) else { return };
        self.population.remove(query, registrations.as_slice());
        self.classes.remove(query);
        if let Some(family) = self.families.get_mut(query as usize) {
            *family = FamilyRef::NONE;
        }
        self.registry.free_number(query);
    }

    /// Merge what came and went into the bulk once it is an eighth of it: rarely enough that what matchers lose by it
    /// costs little a change.
    pub(super) fn compact_if_due(&mut self) {
        self.collect_vocabulary_if_due();
        let due = COMPACTED_MIN + self.compiled.bound() / 8;
        if self.recent.len() > due || self.dead.len() > due {
            self.compact();
        }
    }

    /// Merge the queries that came since the last time into the bulk and take out those that went. Happens by itself.
    pub fn compact(&mut self) {
        for query in std::mem::take(&mut self.dead) {
            self.take_out(query);
        }
        let mut recent = std::mem::take(&mut self.recent);
        recent.sort_unstable();
        recent.dedup();
        for query in recent {
            let population = &mut self.population;
            self.compiled.map_registrations(query, |registration| population.promote(registration));
            self.keep_untold_text(query);
        }
        self.interner.tidy();
        self.bulk_version += 1;
        self.warm.store(false, Ordering::Relaxed);
    }

    /// Keep the text of a query that is at the end of its path with others now, where it would not be found.
    fn keep_untold_text(&mut self, query: u32) {
        let Some((layer, item)) = self.compiled.path(query) else { return };
        let nfa = &self.population.paths(layer).nfa;
        if nfa.first_accepted(nfa.state_of_item(item)) != Some(query) {
            let text = self.text_of(query).into_owned();
            self.registry.keep_text(query, &text);
        }
    }
}
