//! The conjunctions that routing looks up, and their labels.

use hashbrown::HashMap;

use crate::engine::query_index::Slab;
use crate::engine::query_set::QuerySet;
use crate::engine::{Engine, Matcher, QueryContext};
use crate::error::{MessageError, QueryError};
use crate::ids::{ConjunctionId, RouteLabel, RouteLabelSetId};
use crate::limits::Limits;

/// A conjunction of paths.
#[derive(Clone, Debug)]
pub(super) struct Conjunction {
    /// Its paths, as queries of the engine. It waits at the first.
    pub(super) paths: Box<[u32]>,
    pub(super) labels: RouteLabelSetId,
}

/// A set of labels that conjunctions have in common.
#[derive(Clone, Debug, Default)]
pub(super) struct RouteLabelSet {
    pub(super) labels: Box<[RouteLabel]>,
    /// The number of conjunctions that have the labels.
    count: usize,
    /// The paths of these conjunctions, and possibly of some that had the labels before.
    pub(super) paths: QuerySet,
}

/// All label sets in use.
///
/// There are few, however many conjunctions there are, so that what a message asks for is found once for each set.
#[derive(Debug, Default)]
pub(super) struct RouteLabelSets {
    pub(super) sets: Slab<RouteLabelSet, RouteLabelSetId>,
    ids_by_labels: HashMap<Box<[RouteLabel]>, RouteLabelSetId>,
    /// One past the largest label ever used.
    pub(super) label_bound: usize,
}

impl RouteLabelSets {
    /// Returns the set of some labels, counting one more conjunction with it.
    fn acquire(&mut self, mut labels: Vec<RouteLabel>, paths: &[u32]) -> RouteLabelSetId {
        labels.sort_unstable();
        labels.dedup();
        let labels = labels.into_boxed_slice();
        let bound = labels.last().map_or(0, |&label| label.index() + 1);
        self.label_bound = self.label_bound.max(bound);
        let id = match self.ids_by_labels.get(&labels) {
            Some(&id) => id,
            None => {
                let id = self.sets.insert(RouteLabelSet { labels: labels.clone(), ..RouteLabelSet::default() });
                self.ids_by_labels.insert(labels, id);
                id
            }
        };
        if let Some(set) = self.sets.get_mut(id) {
            set.count += 1;
            paths.iter().for_each(|&path| set.paths.insert_growing(path));
        }
        id
    }

    /// Counts one conjunction less; a set without any is removed.
    fn release(&mut self, id: RouteLabelSetId) {
        let Some(set) = self.sets.get_mut(id) else { return };
        set.count -= 1;
        if set.count == 0
            && let Some(set) = self.sets.remove(id)
        {
            self.ids_by_labels.remove(&set.labels);
        }
    }
}

/// An index of conjunctions of linear paths, by which messages are routed.
///
/// Each distinct path is one query of an [`Engine`], shared by all conjunctions that it is part of. A conjunction holds on
/// a message if all of its paths match, at any place. It waits at one of its paths, that with the fewest other users when
/// the conjunction was added, and is tested only if this path matches.
#[derive(Debug)]
pub struct ConjunctionIndex {
    pub(super) engine: Engine,
    pub(super) conjunctions: Slab<Conjunction, ConjunctionId>,
    pub(super) label_sets: RouteLabelSets,
    /// The conjunctions that wait at each path.
    pub(super) waiting: Vec<Vec<ConjunctionId>>,
    /// Conjunctions without paths, which always hold.
    pub(super) always: Vec<ConjunctionId>,
    /// The number of changes so far.
    pub(super) changes: u64,
}

impl ConjunctionIndex {
    /// Creates an index without conjunctions.
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

    /// Returns the number of conjunctions.
    pub fn len(&self) -> usize {
        self.conjunctions.len()
    }

    /// Returns `true` if there are no conjunctions.
    pub fn is_empty(&self) -> bool {
        self.conjunctions.is_empty()
    }

    /// Returns the engine that holds the paths.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the number of label sets in use.
    pub fn label_set_count(&self) -> usize {
        self.label_sets.sets.len()
    }

    /// Adds a conjunction of paths, each with the context of its text.
    ///
    /// # Errors
    /// A path is refused: its index in `paths`, and why. Nothing is added then.
    pub fn add(
        &mut self,
        paths: &[(&str, QueryContext)],
        labels: Vec<RouteLabel>,
    ) -> Result<ConjunctionId, (usize, QueryError)> {
        // Paths that were refused may have added names, too.
        self.engine.collect_vocabulary_if_due();
        let mut held = Vec::with_capacity(paths.len());
        for (index, (text, context)) in paths.iter().enumerate() {
            let context = self.engine.subscription_table.intern_context(context);
            match self.engine.query_for(text, context) {
                Ok(query) => {
                    self.engine.subscription_table.hold(query);
                    held.push(query);
                }
                Err(error) => {
                    held.into_iter().for_each(|query| self.release_path(query));
                    return Err((index, error));
                }
            }
        }
        self.count_change();
        if let Some(rarest) = (0..held.len()).min_by_key(|&index| self.engine.subscription_table.uses(held[index])) {
            held.swap(0, rarest);
        }
        let labels = self.label_sets.acquire(labels, &held);
        let first = held.first().copied();
        let id = self.conjunctions.insert(Conjunction { paths: held.into(), labels });
        match first {
            None => self.always.push(id),
            Some(path) => {
                let bound = self.engine.query_bound().max(self.waiting.len());
                self.waiting.resize_with(bound, Vec::new);
                self.waiting[path as usize].push(id);
            }
        }
        Ok(id)
    }

    /// Gives a conjunction other labels. Returns `false` if there is no such conjunction.
    pub fn set_labels(&mut self, id: ConjunctionId, labels: Vec<RouteLabel>) -> bool {
        let Some(conjunction) = self.conjunctions.get_mut(id) else { return false };
        let before = conjunction.labels;
        conjunction.labels = self.label_sets.acquire(labels, &conjunction.paths);
        self.label_sets.release(before);
        self.changes += 1;
        true
    }

    /// Removes a conjunction. Returns `false` if there is no such conjunction.
    pub fn remove(&mut self, id: ConjunctionId) -> bool {
        let Some(conjunction) = self.conjunctions.remove(id) else { return false };
        self.label_sets.release(conjunction.labels);
        match conjunction.paths.first() {
            None => self.always.retain(|&other| other != id),
            Some(&path) => self.waiting[path as usize].retain(|&other| other != id),
        }
        conjunction.paths.iter().for_each(|&path| self.release_path(path));
        self.count_change();
        true
    }

    fn count_change(&mut self) {
        self.changes += 1;
        self.engine.changes += 1;
        self.engine.compact_if_due();
    }

    fn release_path(&mut self, path: u32) {
        if self.engine.subscription_table.release(path) {
            self.engine.retire(path);
        }
    }

    /// Returns the conjunctions that hold on a message, in ascending order, whatever their labels.
    ///
    /// # Errors
    /// The message is malformed, over a limit, or needs conversion first.
    pub fn holding(&self, matcher: &mut Matcher, source: &[u8]) -> Result<Vec<ConjunctionId>, MessageError> {
        self.engine.run(matcher, source)?;
        let failed: Vec<u32> = matcher.failures().iter().map(|(query, _)| *query).collect();
        let matched = matcher.matched();
        let holds = |path: &u32| matched.contains(*path) || failed.contains(path);
        let paths = matched.iter().chain(failed.iter().copied());
        let waiting = paths.filter_map(|path| self.waiting.get(path as usize)).flatten();
        let holding = waiting
            .copied()
            .filter(|&id| self.conjunctions.get(id).is_some_and(|conjunction| conjunction.paths.iter().all(holds)));
        let mut ids: Vec<ConjunctionId> = holding.chain(self.always.iter().copied()).collect();
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }
}
