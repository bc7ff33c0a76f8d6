//! Routing: which of several targets a message is for (Diao 2005, sections 7.3.1 and 7.3.2).
//!
//! A [`RoutingTable`] holds conjunctions of linear paths. Each distinct path is a query of one [`Engine`], shared by all
//! conjunctions that it is part of; a conjunction holds when all its paths match the message, wherever they do. It has
//! *labels*, each of which stands for one target at a time: the caller says with each message which labels count and
//! which target each stands for. Labels come in *label sets*, of which there are few, so that what a message asks for is
//! worked out once a set.
//!
//! Targets that are reached already are not looked for again: conjunctions that lead only to them are skipped, paths
//! that lead only to such conjunctions count as decided, and where all targets are reached, matching ends.
//!
//! A conjunction waits at one of its paths, that with the fewest other users at the time, and is looked at only when
//! this one matches.

use hashbrown::HashMap;

use super::deciding::Decisions;
use super::population::Slab;
use super::query_set::QuerySet;
use super::watch::{Noted, Watch};
use super::{Engine, Matcher, QueryContext};
use crate::error::{MessageError, QueryError};
use crate::limits::Limits;
use crate::scan::Want;
use crate::stream::dictionary::Dictionary;

/// Number of a conjunction: stable while it lives, used again afterwards.
pub type ConjunctionId = u32;
/// Number of a label, chosen by the caller, small.
pub type Label = u32;
/// Targets of one message, as bits.
pub type Targets = u64;

/// Targets that one call can tell apart.
pub const TARGETS_MAX: u32 = Targets::BITS;

/// With more label sets than this, paths that lead nowhere any more are not told apart from others: that would cost more
/// than it saves.
const PRUNED_SETS_MAX: usize = 64;
/// Elements after each of which it is asked whether all targets are reached; from then on, it is asked now and then.
const LOOKED_AT_MAX: usize = 4;
/// How often, as a mask.
const LOOKED_AT_MASK: usize = 31;

/// Paths looked at in vain after which it is asked again which are of use.
const IN_VAIN_MAX: usize = 32;

/// A conjunction.
#[derive(Debug)]
struct Conjunction {
    /// Its paths, as queries of the engine, that at which it waits first.
    paths: Box<[u32]>,
    labels: SetId,
}

type SetId = u32;

/// Labels that conjunctions have in common.
#[derive(Debug, Default)]
struct LabelSet {
    labels: Box<[Label]>,
    /// Conjunctions that have them.
    count: usize,
    /// The paths of these conjunctions, and maybe of some that had them before.
    paths: QuerySet,
}

/// All label sets in use.
#[derive(Debug, Default)]
struct LabelSets {
    sets: Slab<LabelSet>,
    by_labels: HashMap<Box<[Label]>, SetId>,
    /// One past the largest label ever used.
    label_bound: usize,
}

impl LabelSets {
    fn acquire(&mut self, mut labels: Vec<Label>, paths: &[u32]) -> SetId {
        labels.sort_unstable();
        labels.dedup();
        let labels = labels.into_boxed_slice();
        let bound = labels.last().map_or(0, |&label| label as usize + 1);
        self.label_bound = self.label_bound.max(bound);
        let id = match self.by_labels.get(&labels) {
            Some(&id) => id,
            None => {
                let id = self.sets.insert(LabelSet { labels: labels.clone(), ..LabelSet::default() });
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

    fn release(&mut self, id: SetId) {
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
pub struct RoutingTable {
    engine: Engine,
    conjunctions: Slab<Conjunction>,
    label_sets: LabelSets,
    /// By path: the conjunctions that wait at it.
    waiting: Vec<Vec<ConjunctionId>>,
    /// Conjunctions without paths: they always hold.
    always: Vec<ConjunctionId>,
    /// Grows with every change.
    changes: u64,
}

impl RoutingTable {
    /// A table without conjunctions.
    pub fn new(limits: Limits) -> Self {
        Self {
            engine: Engine::new(limits),
            conjunctions: Slab::default(),
            label_sets: LabelSets::default(),
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
        labels: Vec<Label>,
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
    pub fn set_labels(&mut self, id: ConjunctionId, labels: Vec<Label>) -> bool {
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
        wanted: &[(Label, u32)],
    ) -> Result<Targets, MessageError> {
        let mut reaching = self.reaching(wanted);
        if reaching.missing != 0 {
            let want = self.want();
            self.engine.catch_up(matcher);
            matcher.scan(&self.engine, source, want)?;
            self.finish(matcher, source, &mut reaching);
        }
        Ok(reaching.reached)
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
        wanted: &[(Label, u32)],
    ) -> Result<Targets, MessageError> {
        let mut reaching = self.reaching(wanted);
        if reaching.missing != 0 {
            self.engine.catch_up(matcher);
            self.engine.warm.store(true, std::sync::atomic::Ordering::Relaxed);
            matcher.run_stream_watched(&self.engine, (stream, dictionary), self.want(), &mut reaching)?;
        }
        Ok(reaching.reached)
    }

    fn want(&self) -> Want {
        Want { attributes: self.engine.needing.0 > 0, text: self.engine.needing.1 > 0 }
    }

    fn finish(&self, matcher: &mut Matcher, source: &[u8], reaching: &mut Reaching<'_>) {
        self.engine.warm.store(true, std::sync::atomic::Ordering::Relaxed);
        matcher.run_watched(&self.engine, source, reaching);
        reaching.look(matcher.decisions_mut());
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

    /// What a message's labels ask for, with what holds always already reached.
    fn reaching(&self, wanted: &[(Label, u32)]) -> Reaching<'_> {
        let mut by_label = vec![0; self.label_sets.label_bound];
        for &(label, target) in wanted {
            if let Some(targets) = by_label.get_mut(label as usize) {
                *targets |= if target < TARGETS_MAX { 1 << target } else { 0 };
            }
        }
        let targets_of = |set: &LabelSet| set.labels.iter().fold(0, |all, &label| all | by_label[label as usize]);
        let of_set: Vec<Targets> = self.label_sets.sets.slots().map(|set| set.map_or(0, targets_of)).collect();
        let mut reaching = Reaching {
            table: self,
            missing: of_set.iter().fold(0, |all, targets| all | targets),
            of_set,
            useful_sets: 0,
            reached: 0,
            seen: QuerySet::default(),
            useless: QuerySet::default(),
            in_vain: 0,
            has_news: false,
            come: QuerySet::default(),
            incomplete: Vec::new(),
        };
        reaching.note_useful_sets();
        for &id in &self.always {
            if let Some(conjunction) = self.conjunctions.get(id) {
                reaching.reach(conjunction.labels);
            }
        }
        reaching
    }
}

/// The bit of a label set. With very many of them, several share one.
fn set_bit(set: usize) -> u64 {
    1 << (set & 63)
}

/// One message on its way to its targets.
struct Reaching<'a> {
    table: &'a RoutingTable,
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
    has_news: bool,
    /// Paths that came to hold since the last look.
    come: QuerySet,
    /// Conjunctions whose home holds, but not yet all of their paths.
    incomplete: Vec<ConjunctionId>,
}

impl Reaching<'_> {
    fn reach(&mut self, labels: SetId) {
        let targets = self.of_set[labels as usize] & self.missing;
        if targets != 0 {
            self.reached |= targets;
            self.missing &= !targets;
            self.note_useful_sets();
        }
    }

    /// Look at what has come to hold.
    fn look(&mut self, decisions: &mut Decisions) {
        // What cannot be decided has to be taken for true.
        for index in 0..decisions.failures.len() {
            decisions.matched.insert(decisions.failures[index].0);
        }
        if std::mem::take(&mut self.has_news) {
            self.test_incomplete();
        }
        let mut come = std::mem::take(&mut self.come);
        if self.seen.take_in(&decisions.matched, &mut come) {
            self.look_at(&come, decisions);
        }
        self.come = come;
    }

    /// Look at what waits for paths that hold.
    fn look_at(&mut self, come: &QuerySet, decisions: &mut Decisions) {
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
            let has_some = |set: &LabelSet| paths.iter().any(|&path| set.paths.contains(path));
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

impl Watch for Reaching<'_> {
    fn begin(&mut self, decisions: &mut Decisions) {
        self.seen.reset(self.table.engine.query_bound());
        self.incomplete.clear();
        self.useless.clear();
        self.in_vain = 0;
        self.has_news = false;
        self.find_useless();
        // They count as decided.
        decisions.rule_out(&self.useless);
    }

    fn looks_at(&self, element_count: usize) -> bool {
        element_count < LOOKED_AT_MAX || element_count & LOOKED_AT_MASK == 0
    }

    fn matched(&mut self, queries: &[u32], noted: &mut Noted) {
        if self.missing == 0 {
            return;
        }
        match *noted {
            Noted::Groups(sets) if sets & self.useful_sets == 0 => return,
            Noted::Groups(_) => {}
            Noted::Nothing => *noted = Noted::Once,
            Noted::Once => *noted = Noted::Groups(self.sets_of(queries)),
        }
        for &path in queries {
            if self.seen.insert_new(path) && !self.useless.contains(path) && self.missing != 0 {
                self.has_news = true;
                self.test_waiting(path);
            }
        }
    }

    #[inline(always)]
    fn is_satisfied(&self) -> bool {
        self.missing == 0
    }

    fn is_told_enough(&mut self) -> bool {
        if std::mem::take(&mut self.has_news) {
            self.test_incomplete();
        }
        self.missing == 0
    }

    fn notes_of(&self) -> (u64, u64) {
        (self.table.engine.identity, self.table.changes)
    }

    fn has_enough(&mut self, decisions: &mut Decisions) -> bool {
        self.look(decisions);
        self.missing == 0
    }
}
