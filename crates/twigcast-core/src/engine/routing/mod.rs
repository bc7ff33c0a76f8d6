//! Routing: which of several targets a message is for (Diao 2005, sections 7.3.1 and 7.3.2).
//!
//! A [`ConjunctionIndex`] holds conjunctions of linear paths. Each distinct path is a query of one [`Engine`], shared by all
//! conjunctions that it is part of; a conjunction holds when all its paths match the message, wherever they do. It has
//! *labels*, each of which stands for one target at a time: the caller says with each message which labels count and
//! which target each stands for. Labels come in *label sets*, of which there are few, so that what a message asks for is
//! worked out once a set.
//!
//! A conjunction waits at one of its paths, that with the fewest other users at the time, and is looked at only when
//! this one matches.

mod target_run;

use hashbrown::HashMap;

use self::target_run::TargetRun;
use super::early_stop::MatchObserver;
use super::query_index::Slab;
use super::query_set::QuerySet;
use super::{Engine, Matcher, QueryContext};
use crate::error::{MessageError, QueryError};
use crate::limits::Limits;
use crate::scan::RecordOptions;
use crate::stream::dictionary::Dictionary;

/// Number of a conjunction: stable while it lives, used again afterwards.
pub type ConjunctionId = u32;
/// Number of a label, chosen by the caller, small.
pub type RouteLabel = u32;
/// Targets of one message, as bits.
pub type Targets = u64;

/// Targets that one call can tell apart.
pub const TARGETS_MAX: u32 = Targets::BITS;

/// A conjunction.
#[derive(Debug)]
struct Conjunction {
    /// Its paths, as queries of the engine, that at which it waits first.
    paths: Box<[u32]>,
    labels: RouteLabelSetId,
}

type RouteLabelSetId = u32;

/// Labels that conjunctions have in common.
#[derive(Debug, Default)]
struct RouteLabelSet {
    labels: Box<[RouteLabel]>,
    /// Conjunctions that have them.
    count: usize,
    /// The paths of these conjunctions, and maybe of some that had them before.
    paths: QuerySet,
}

/// All label sets in use.
#[derive(Debug, Default)]
struct RouteLabelSets {
    sets: Slab<RouteLabelSet>,
    by_labels: HashMap<Box<[RouteLabel]>, RouteLabelSetId>,
    /// One past the largest label ever used.
    label_bound: usize,
}

impl RouteLabelSets {
    fn acquire(&mut self, mut labels: Vec<RouteLabel>, paths: &[u32]) -> RouteLabelSetId {
        labels.sort_unstable();
        labels.dedup();
        let labels = labels.into_boxed_slice();
        let bound = labels.last().map_or(0, |&label| label as usize + 1);
        self.label_bound = self.label_bound.max(bound);
        let id = match self.by_labels.get(&labels) {
            Some(&id) => id,
            None => {
                let id = self.sets.insert(RouteLabelSet { labels: labels.clone(), ..RouteLabelSet::default() });
                self.by_labels.insert(labels, id);
                id
            }
        };
        if let Some(set) = self.sets.get_mut(id) {
            set.count += 1;
            paths.iter().for_each(|&path| set.paths.insert_growing(path));
        }
        id
    }

    fn release(&mut self, id: RouteLabelSetId) {
        let Some(set) = self.sets.get_mut(id) else { return };
        set.count -= 1;
        if set.count == 0
            && let Some(set) = self.sets.remove(id)
        {
            self.by_labels.remove(&set.labels);
        }
    }
}

/// The table. See the module's documentation.
#[derive(Debug)]
pub struct ConjunctionIndex {
    engine: Engine,
    conjunctions: Slab<Conjunction>,
    label_sets: RouteLabelSets,
    /// By path: the conjunctions that wait at it.
    waiting: Vec<Vec<ConjunctionId>>,
    /// Conjunctions without paths: they always hold.
    always: Vec<ConjunctionId>,
    /// Grows with every change.
    changes: u64,
}

impl ConjunctionIndex {
    /// A table without conjunctions.
    pub fn new(limits: Limits) -> Self {
        Self {
            engine: Engine::new(limits),
            conjunctions: Slab::default(),
            label_sets: RouteLabelSets::default(),
            waiting: Vec::new(),
            always: Vec::new(),
            changes: 0,
        }
    }

    /// How many conjunctions there are.
    pub fn len(&self) -> usize {
        self.conjunctions.len()
    }

    /// No conjunction?
    pub fn is_empty(&self) -> bool {
        self.conjunctions.is_empty()
    }

    /// The engine that holds the paths.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// How many label sets there are.
    pub fn label_set_count(&self) -> usize {
        self.label_sets.sets.len()
    }

    /// Add a conjunction of paths, each with the context of its text.
    ///
    /// # Errors
    /// A path is refused: its place, and why. Nothing is added then.
    pub fn add(
        &mut self,
        paths: &[(&str, QueryContext)],
        labels: Vec<RouteLabel>,
    ) -> Result<ConjunctionId, (usize, QueryError)> {
        // Also paths that are refused may have brought names.
        self.engine.renew_if_due();
        let mut held = Vec::with_capacity(paths.len());
        for (index, (text, context)) in paths.iter().enumerate() {
            let context = self.engine.registry.intern_context(context);
            match self.engine.query_for(text, context) {
                Ok(query) => {
                    self.engine.registry.hold(query);
                    held.push(query);
                }
                Err(error) => {
                    held.into_iter().for_each(|query| self.let_go(query));
                    return Err((index, error));
                }
            }
        }
        self.changes += 1;
        self.engine.changes += 1;
        self.engine.compact_if_due();
        if let Some(rarest) = (0..held.len()).min_by_key(|&index| self.engine.registry.uses(held[index])) {
            held.swap(0, rarest);
        }
        let labels = self.label_sets.acquire(labels, &held);
        let home = held.first().copied();
        let id = self.conjunctions.insert(Conjunction { paths: held.into(), labels });
        match home {
            None => self.always.push(id),
            Some(path) => {
                let bound = self.engine.query_bound().max(self.waiting.len());
                self.waiting.resize_with(bound, Vec::new);
                self.waiting[path as usize].push(id);
            }
        }
        Ok(id)
    }

    /// Give a conjunction other labels; whether it is there.
    pub fn set_labels(&mut self, id: ConjunctionId, labels: Vec<RouteLabel>) -> bool {
        let Some(conjunction) = self.conjunctions.get_mut(id) else { return false };
        let before = conjunction.labels;
        conjunction.labels = self.label_sets.acquire(labels, &conjunction.paths);
        self.label_sets.release(before);
        self.changes += 1;
        true
    }

    /// Remove a conjunction; whether it was there.
    pub fn remove(&mut self, id: ConjunctionId) -> bool {
        let Some(conjunction) = self.conjunctions.remove(id) else { return false };
        self.label_sets.release(conjunction.labels);
        match conjunction.paths.first() {
            None => self.always.retain(|&other| other != id),
            Some(&path) => self.waiting[path as usize].retain(|&other| other != id),
        }
        conjunction.paths.iter().for_each(|&path| self.let_go(path));
        self.changes += 1;
        self.engine.changes += 1;
        self.engine.compact_if_due();
        true
    }

    fn let_go(&mut self, path: u32) {
        if self.engine.registry.release(path) {
            self.engine.retire(path);
        }
    }

    /// The targets that a message is for, among those that the wanted labels stand for. A path that cannot be decided on
    /// the message counts as matching. Where no path has to be looked at, the message is not even scanned.
    ///
    /// # Errors
    /// The message is malformed, over a limit, or needs conversion first.
    pub fn route(
        &self,
        matcher: &mut Matcher,
        source: &[u8],
        labels: &[(RouteLabel, u32)],
    ) -> Result<Targets, MessageError> {
        let mut reaching = TargetRun::new(self, labels);
        if !reaching.is_satisfied() {
            let options = self.record_options();
            self.engine.catch_up(matcher);
            matcher.scan(&self.engine, source, options)?;
            self.finish(matcher, source, &mut reaching);
        }
        Ok(reaching.reached())
    }

    /// Like [`Self::route`], for a message that comes as an element stream (see [`crate::stream`]). It is read only until
    /// all targets are reached, and checked only where it is looked into: who takes such a message for himself checks
    /// all of it.
    ///
    /// # Errors
    /// As [`Engine::run_stream`].
    pub fn route_stream(
        &self,
        matcher: &mut Matcher,
        stream: &[u8],
        dictionary: &Dictionary,
        labels: &[(RouteLabel, u32)],
    ) -> Result<Targets, MessageError> {
        let mut reaching = TargetRun::new(self, labels);
        if !reaching.is_satisfied() {
            self.engine.catch_up(matcher);
            self.engine.warm.store(true, std::sync::atomic::Ordering::Relaxed);
            matcher.run_stream_watched(&self.engine, (stream, dictionary), self.record_options(), &mut reaching)?;
        }
        Ok(reaching.reached())
    }

    fn record_options(&self) -> RecordOptions {
        RecordOptions { attributes: self.engine.needing.0 > 0, text: self.engine.needing.1 > 0 }
    }

    fn finish(&self, matcher: &mut Matcher, source: &[u8], reaching: &mut TargetRun<'_>) {
        self.engine.warm.store(true, std::sync::atomic::Ordering::Relaxed);
        matcher.run_watched(&self.engine, source, reaching);
        reaching.update(matcher.decisions_mut());
    }

    /// The conjunctions that hold on a message, ascending: without labels, targets or short cuts.
    ///
    /// # Errors
    /// As [`Self::route`].
    pub fn holding(&self, matcher: &mut Matcher, source: &[u8]) -> Result<Vec<ConjunctionId>, MessageError> {
        self.engine.run(matcher, source)?;
        let failed: Vec<u32> = matcher.failures().iter().map(|(query, _)| *query).collect();
        let matched = matcher.matched();
        let holds = |path: &u32| matched.contains(*path) || failed.contains(path);
        let homes = matched.iter().chain(failed.iter().copied());
        let waiting = homes.filter_map(|path| self.waiting.get(path as usize)).flatten();
        let holding = waiting
            .copied()
            .filter(|&id| self.conjunctions.get(id).is_some_and(|conjunction| conjunction.paths.iter().all(holds)));
        let mut ids: Vec<ConjunctionId> = holding.chain(self.always.iter().copied()).collect();
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }
}
