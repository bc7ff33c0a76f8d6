//! One message on its way to the targets of a routing table.
//!
//! Targets that are reached already are not looked for again: conjunctions that lead only to them are skipped, paths
//! that lead only to such conjunctions count as decided, and where all targets are reached, matching ends.

use super::{ConjunctionId, ConjunctionIndex, RouteLabel, RouteLabelSet, RouteLabelSetId, TARGETS_MAX, Targets};
use crate::engine::decide::Decisions;
use crate::engine::early_stop::{MatchObserver, ObserverNote};
use crate::engine::query_set::QuerySet;

/// With more label sets than this, paths that lead nowhere any more are not told apart from others: that would cost more
/// than it saves.
const PRUNED_SETS_MAX: usize = 64;
/// Elements after each of which it is asked whether all targets are reached; from then on, it is asked now and then.
const LOOKED_AT_MAX: usize = 4;
/// How often, as a mask.
const LOOKED_AT_MASK: usize = 31;

/// Paths looked at in vain after which it is asked again which are of use.
const IN_VAIN_MAX: usize = 32;

/// The bit of a label set. With very many of them, several share one.
fn set_bit(set: usize) -> u64 {
    1 << (set & 63)
}

/// One message on its way to its targets.
pub(super) struct TargetRun<'a> {
    table: &'a ConjunctionIndex,
    /// By label set: the targets that its labels stand for.
    of_set: Vec<Targets>,
    /// The label sets that stand for some missing target, as bits.
    useful_sets: u64,
    reached: Targets,
    /// Targets that some conjunction may still reach.
    missing: Targets,
    /// Paths that hold, as far as looked at.
    seen: QuerySet,
    /// Paths that lead to no missing target.
    useless: QuerySet,
    /// Paths looked at since the last that led to a missing target.
    in_vain: usize,
    /// Some path was told of since the last look at what is incomplete.
    has_new_matches: bool,
    /// Paths that came to hold since the last look.
    come: QuerySet,
    /// Conjunctions whose home holds, but not yet all of their paths.
    incomplete: Vec<ConjunctionId>,
}

impl<'a> TargetRun<'a> {
    /// What a message's labels ask for, with what holds always already reached.
    pub(super) fn new(table: &'a ConjunctionIndex, labels: &[(RouteLabel, u32)]) -> Self {
        let mut by_label = vec![0; table.label_sets.label_bound];
        for &(label, target) in labels {
            if let Some(targets) = by_label.get_mut(label as usize) {
                *targets |= if target < TARGETS_MAX { 1 << target } else { 0 };
            }
        }
        let targets_of = |set: &RouteLabelSet| set.labels.iter().fold(0, |all, &label| all | by_label[label as usize]);
        let of_set: Vec<Targets> = table.label_sets.sets.slots().map(|set| set.map_or(0, targets_of)).collect();
        let mut reaching = Self {
            table,
            missing: of_set.iter().fold(0, |all, targets| all | targets),
            of_set,
            useful_sets: 0,
            reached: 0,
            seen: QuerySet::default(),
            useless: QuerySet::default(),
            in_vain: 0,
            has_new_matches: false,
            come: QuerySet::default(),
            incomplete: Vec::new(),
        };
        reaching.note_useful_sets();
        for &id in &table.always {
            if let Some(conjunction) = table.conjunctions.get(id) {
                reaching.reach(conjunction.labels);
            }
        }
        reaching
    }

    /// The targets that the message is for, as far as it was looked at.
    pub(super) fn reached(&self) -> Targets {
        self.reached
    }

    fn reach(&mut self, labels: RouteLabelSetId) {
        let targets = self.of_set[labels as usize] & self.missing;
        if targets != 0 {
            self.reached |= targets;
            self.missing &= !targets;
            self.note_useful_sets();
        }
    }

    /// Look at what has come to hold.
    pub(super) fn update(&mut self, decisions: &mut Decisions) {
        // What cannot be decided has to be taken for true.
        for index in 0..decisions.failures.len() {
            decisions.matched.insert(decisions.failures[index].0);
        }
        if std::mem::take(&mut self.has_new_matches) {
            self.test_incomplete();
        }
        let mut come = std::mem::take(&mut self.come);
        if self.seen.take_in(&decisions.matched, &mut come) {
            self.update_waiters(&come, decisions);
        }
        self.come = come;
    }

    /// Look at what waits for paths that hold.
    fn update_waiters(&mut self, come: &QuerySet, decisions: &mut Decisions) {
        let before = self.missing;
        self.test_incomplete();
        let mut from = 0;
        while self.missing != 0
            && let Some(path) = come.next_without(from, &self.useless)
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

    /// Look at what waits for a path that holds. Where fewer targets are missing than before, fewer paths are of use;
    /// which, is only asked when it pays.
    fn test_waiting(&mut self, path: u32) {
        let (before, table) = (self.missing, self.table);
        table.waiting.get(path as usize).into_iter().flatten().for_each(|&id| self.test(id));
        self.in_vain = if self.missing == before { self.in_vain + 1 } else { 0 };
        if self.in_vain == IN_VAIN_MAX {
            self.find_useless();
        }
    }

    fn test(&mut self, id: ConjunctionId) {
        let Some(conjunction) = self.table.conjunctions.get(id) else { return };
        if self.of_set[conjunction.labels as usize] & self.missing == 0 {
            return;
        }
        if conjunction.paths.iter().skip(1).all(|&path| self.seen.contains(path)) {
            self.reach(conjunction.labels);
        } else {
            self.incomplete.push(id);
        }
    }

    fn note_useful_sets(&mut self) {
        let is_useful = |&(_, targets): &(usize, &Targets)| targets & self.missing != 0;
        self.useful_sets =
            self.of_set.iter().enumerate().filter(is_useful).fold(0, |sets, (set, _)| sets | set_bit(set));
    }

    /// The label sets whose conjunctions have some of these paths, as bits.
    fn sets_of(&self, paths: &[u32]) -> u64 {
        let sets = self.table.label_sets.sets.slots().enumerate();
        sets.fold(0, |all, (number, set)| {
            let has_some = |set: &RouteLabelSet| paths.iter().any(|&path| set.paths.contains(path));
            if set.is_some_and(has_some) { all | set_bit(number) } else { all }
        })
    }

    /// Which paths lead to no missing target?
    fn find_useless(&mut self) {
        let sets = &self.table.label_sets.sets;
        let is_useful = |targets: &Targets| targets & self.missing != 0;
        if sets.len() > PRUNED_SETS_MAX || self.of_set.iter().all(is_useful) {
            return;
        }
        let mut paths = std::mem::take(&mut self.useless);
        paths.clear();
        for (set, _) in sets.slots().zip(&self.of_set).filter(|(_, targets)| is_useful(targets)) {
            set.into_iter().for_each(|set| paths.insert_all(&set.paths));
        }
        paths.complement(self.table.engine.query_bound());
        self.useless = paths;
    }
}

impl MatchObserver for TargetRun<'_> {
    fn begin(&mut self, decisions: &mut Decisions) {
        self.seen.reset(self.table.engine.query_bound());
        self.incomplete.clear();
        self.useless.clear();
        self.in_vain = 0;
        self.has_new_matches = false;
        self.find_useless();
        // They count as decided.
        decisions.rule_out(&self.useless);
    }

    fn should_poll(&self, element_count: usize) -> bool {
        element_count < LOOKED_AT_MAX || element_count & LOOKED_AT_MASK == 0
    }

    fn matched(&mut self, queries: &[u32], noted: &mut ObserverNote) {
        if self.missing == 0 {
            return;
        }
        match *noted {
            ObserverNote::Groups(sets) if sets & self.useful_sets == 0 => return,
            ObserverNote::Groups(_) => {}
            ObserverNote::Nothing => *noted = ObserverNote::Once,
            ObserverNote::Once => *noted = ObserverNote::Groups(self.sets_of(queries)),
        }
        for &path in queries {
            if self.seen.insert_new(path) && !self.useless.contains(path) && self.missing != 0 {
                self.has_new_matches = true;
                self.test_waiting(path);
            }
        }
    }

    #[inline(always)]
    fn is_satisfied(&self) -> bool {
        self.missing == 0
    }

    fn has_enough_results(&mut self) -> bool {
        if std::mem::take(&mut self.has_new_matches) {
            self.test_incomplete();
        }
        self.missing == 0
    }

    fn notes_of(&self) -> (u64, u64) {
        (self.table.engine.identity, self.table.changes)
    }

    fn has_enough(&mut self, decisions: &mut Decisions) -> bool {
        self.update(decisions);
        self.missing == 0
    }
}
