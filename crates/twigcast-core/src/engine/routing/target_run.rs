//! Routing one message: which targets it reaches.
//!
//! Targets that are reached are not looked for again: conjunctions that lead only to them are skipped, paths that lead
//! only to such conjunctions count as decided, and matching ends when all targets are reached.

use std::sync::atomic::Ordering;

use super::conjunctions::{ConjunctionIndex, RouteLabelSet};
use crate::engine::Matcher;
use crate::engine::decide::Decisions;
use crate::engine::early_stop::{MatchObserver, ObserverNote};
use crate::engine::query_set::QuerySet;
use crate::error::MessageError;
use crate::ids::{ConjunctionId, RouteLabel, RouteLabelSetId};
use crate::stream::dictionary::Dictionary;

/// Targets of one message, as bits.
pub type Targets = u64;

/// The number of targets that one call can tell apart.
pub const TARGETS_MAX: u32 = Targets::BITS;

/// With more label sets than this, paths that lead to no missing target are not skipped: finding them would cost more than
/// it saves.
const PRUNED_SETS_MAX: usize = 64;
/// Up to this many elements, [`MatchObserver::is_satisfied_by_decisions`] is asked after each; from then on after some.
const POLLED_EACH_MAX: usize = 4;
/// After that, it is asked after elements whose number has none of these bits.
const POLL_MASK: usize = 31;

/// After this many tested paths that reached no missing target, the paths that lead to none are found again.
const FUTILE_PATHS_MAX: usize = 32;

/// Returns the bit of a label set. With more than 64 sets, several share a bit.
fn set_bit(set: usize) -> u64 {
    1 << (set & 63)
}

/// The routing of one message: the targets that it has reached, and the label sets that may still reach others.
struct TargetRun<'a> {
    index: &'a ConjunctionIndex,
    /// The targets that the labels of each label set stand for.
    targets_of_set: Vec<Targets>,
    /// The label sets that stand for some missing target, as bits.
    useful_sets: u64,
    reached: Targets,
    /// Targets that some conjunction may still reach.
    missing: Targets,
    /// Paths that match, as far as they were observed.
    matched: QuerySet,
    /// Paths that lead to no missing target.
    useless: QuerySet,
    /// The number of paths tested since the last that reached a missing target.
    futile_paths: usize,
    /// A path matched since the incomplete conjunctions were last tested.
    has_new_matches: bool,
    /// Paths that came to match since the last update.
    new_paths: QuerySet,
    /// Conjunctions whose first path matches, but not yet all others.
    incomplete: Vec<ConjunctionId>,
}

impl<'a> TargetRun<'a> {
    /// Starts with the targets that the labels stand for. Conjunctions that always hold have reached theirs.
    fn new(index: &'a ConjunctionIndex, labels: &[(RouteLabel, u32)]) -> Self {
        let mut by_label = vec![0; index.label_sets.label_bound];
        for &(label, target) in labels {
            if let Some(targets) = by_label.get_mut(label.index()) {
                *targets |= if target < TARGETS_MAX { 1 << target } else { 0 };
            }
        }
        let targets_of = |set: &RouteLabelSet| set.labels.iter().fold(0, |all, &label| all | by_label[label.index()]);
        let targets_of_set: Vec<Targets> = index.label_sets.sets.slots().map(|set| set.map_or(0, targets_of)).collect();
        let mut run = Self {
            index,
            missing: targets_of_set.iter().fold(0, |all, targets| all | targets),
            targets_of_set,
            useful_sets: 0,
            reached: 0,
            matched: QuerySet::default(),
            useless: QuerySet::default(),
            futile_paths: 0,
            has_new_matches: false,
            new_paths: QuerySet::default(),
            incomplete: Vec::new(),
        };
        run.find_useful_sets();
        for &id in &index.always {
            if let Some(conjunction) = index.conjunctions.get(id) {
                run.reach(conjunction.labels);
            }
        }
        run
    }

    /// Adds the targets of a conjunction that holds and has these labels.
    fn reach(&mut self, labels: RouteLabelSetId) {
        let targets = self.targets_of_set[labels.index()] & self.missing;
        if targets != 0 {
            self.reached |= targets;
            self.missing &= !targets;
            self.find_useful_sets();
        }
    }

    /// Tests the conjunctions of the paths that came to match. Paths that could not be decided count as matching.
    fn update(&mut self, decisions: &mut Decisions) {
        for index in 0..decisions.failures.len() {
            decisions.matched.insert(decisions.failures[index].0);
        }
        if std::mem::take(&mut self.has_new_matches) {
            self.test_incomplete();
        }
        let mut new_paths = std::mem::take(&mut self.new_paths);
        if self.matched.take_in(&decisions.matched, &mut new_paths) {
            self.test_new_paths(&new_paths, decisions);
        }
        self.new_paths = new_paths;
    }

    fn test_new_paths(&mut self, new_paths: &QuerySet, decisions: &mut Decisions) {
        let before = self.missing;
        self.test_incomplete();
        let mut from = 0;
        while self.missing != 0
            && let Some(path) = new_paths.next_without(from, &self.useless)
        {
            self.test_waiting(path);
            from = path + 1;
        }
        if self.missing != before && self.missing != 0 {
            self.find_useless();
            decisions.rule_out(&self.useless);
        }
    }

    fn test_incomplete(&mut self) {
        std::mem::take(&mut self.incomplete).into_iter().for_each(|id| self.test(id));
    }

    /// Tests the conjunctions that wait at a path, which matches. Finding the useless paths again pays only after many
    /// paths that reached nothing.
    fn test_waiting(&mut self, path: u32) {
        let (before, index) = (self.missing, self.index);
        index.waiting.get(path as usize).into_iter().flatten().for_each(|&id| self.test(id));
        self.futile_paths = if self.missing == before { self.futile_paths + 1 } else { 0 };
        if self.futile_paths == FUTILE_PATHS_MAX {
            self.find_useless();
        }
    }

    /// Tests a conjunction whose first path matches.
    fn test(&mut self, id: ConjunctionId) {
        let Some(conjunction) = self.index.conjunctions.get(id) else { return };
        if self.targets_of_set[conjunction.labels.index()] & self.missing == 0 {
            return;
        }
        if conjunction.paths.iter().skip(1).all(|&path| self.matched.contains(path)) {
            self.reach(conjunction.labels);
        } else {
            self.incomplete.push(id);
        }
    }

    fn find_useful_sets(&mut self) {
        let is_useful = |&(_, targets): &(usize, &Targets)| targets & self.missing != 0;
        self.useful_sets =
            self.targets_of_set.iter().enumerate().filter(is_useful).fold(0, |sets, (set, _)| sets | set_bit(set));
    }

    /// Returns the label sets whose conjunctions have some of these paths, as bits.
    fn sets_of(&self, paths: &[u32]) -> u64 {
        let sets = self.index.label_sets.sets.slots().enumerate();
        sets.fold(0, |all, (number, set)| {
            let has_some = |set: &RouteLabelSet| paths.iter().any(|&path| set.paths.contains(path));
            if set.is_some_and(has_some) { all | set_bit(number) } else { all }
        })
    }

    /// Finds the paths that lead to no missing target, unless that costs more than it saves.
    fn find_useless(&mut self) {
        let sets = &self.index.label_sets.sets;
        let is_useful = |targets: &Targets| targets & self.missing != 0;
        if sets.len() > PRUNED_SETS_MAX || self.targets_of_set.iter().all(is_useful) {
            return;
        }
        let mut paths = std::mem::take(&mut self.useless);
        paths.clear();
        for (set, _) in sets.slots().zip(&self.targets_of_set).filter(|(_, targets)| is_useful(targets)) {
            set.into_iter().for_each(|set| paths.insert_all(&set.paths));
        }
        paths.complement(self.index.engine.query_bound());
        self.useless = paths;
    }
}

impl MatchObserver for TargetRun<'_> {
    fn begin(&mut self, decisions: &mut Decisions) {
        self.matched.reset(self.index.engine.query_bound());
        self.incomplete.clear();
        self.useless.clear();
        self.futile_paths = 0;
        self.has_new_matches = false;
        self.find_useless();
        decisions.rule_out(&self.useless);
    }

    fn should_poll(&self, element_count: usize) -> bool {
        element_count < POLLED_EACH_MAX || element_count & POLL_MASK == 0
    }

    fn matched(&mut self, queries: &[u32], note: &mut ObserverNote) {
        if self.missing == 0 {
            return;
        }
        match *note {
            ObserverNote::Groups(sets) if sets & self.useful_sets == 0 => return,
            ObserverNote::Groups(_) => {}
            ObserverNote::Nothing => *note = ObserverNote::Once,
            ObserverNote::Once => *note = ObserverNote::Groups(self.sets_of(queries)),
        }
        for &path in queries {
            if self.matched.insert_new(path) && !self.useless.contains(path) && self.missing != 0 {
                self.has_new_matches = true;
                self.test_waiting(path);
            }
        }
    }

    #[inline(always)]
    fn is_satisfied(&self) -> bool {
        self.missing == 0
    }

    fn is_satisfied_by_matches(&mut self) -> bool {
        if std::mem::take(&mut self.has_new_matches) {
            self.test_incomplete();
        }
        self.missing == 0
    }

    fn notes_of(&self) -> (u64, u64) {
        (self.index.engine.identity, self.index.changes)
    }

    fn is_satisfied_by_decisions(&mut self, decisions: &mut Decisions) -> bool {
        self.update(decisions);
        self.missing == 0
    }
}

impl ConjunctionIndex {
    /// Returns the targets that a message is for, among those that `labels` stand for. A path that cannot be decided on
    /// the message counts as matching. The message is not scanned if no path needs to be tested.
    ///
    /// # Errors
    /// The message is malformed, over a limit, or needs conversion first.
    pub fn route(
        &self,
        matcher: &mut Matcher,
        source: &[u8],
        labels: &[(RouteLabel, u32)],
    ) -> Result<Targets, MessageError> {
        let mut run = TargetRun::new(self, labels);
        if !run.is_satisfied() {
            self.engine.catch_up(matcher);
            matcher.scan(&self.engine, source, self.engine.needs.scan_options())?;
            self.engine.warm.store(true, Ordering::Relaxed);
            matcher.run_watched(&self.engine, source, &mut run);
            run.update(matcher.decisions_mut());
        }
        Ok(run.reached)
    }

    /// Routes a message, as [`Self::route`] does, that comes as an element stream (see [`crate::stream`]). The stream is
    /// read only until all targets are reached, and checked only where it is read: a broker that also delivers the
    /// message itself checks all of it.
    ///
    /// # Errors
    /// The errors of [`Engine::run_stream`](crate::engine::Engine::run_stream).
    pub fn route_stream(
        &self,
        matcher: &mut Matcher,
        stream: &[u8],
        dictionary: &Dictionary,
        labels: &[(RouteLabel, u32)],
    ) -> Result<Targets, MessageError> {
        let mut run = TargetRun::new(self, labels);
        if !run.is_satisfied() {
            self.engine.catch_up(matcher);
            self.engine.warm.store(true, Ordering::Relaxed);
            let options = self.engine.needs.scan_options();
            matcher.run_stream_watched(&self.engine, (stream, dictionary), options, &mut run)?;
        }
        Ok(run.reached)
    }
}
