//! Deciding and delivering thousands of For-Where-Return queries in a few steps a message.
//!
//! Queries that compare child and descendant paths from their bindings with constants, and return markup around such
//! paths, differ in little. They are filed by what they have in common (`classes.rs`) and are not in the automaton. What
//! their paths mean on the label paths of messages is learnt once (`guide.rs`), and the queries are laid out by it
//! (`selector.rs`; what comes and goes meanwhile: `late.rs`). On a message, each value is looked at once and tells the
//! conditions that it satisfies (`values.rs`), each with a set of bindings, as bits (`found.rs`); queries match whose
//! conditions have any binding in common. What the returned paths lead to from the bindings of a list is found once for all
//! (`columns.rs`) and kept (`prepared.rs`). Each different pair of a set and something to make of it (`recipes.rs`) is one
//! result (`naming.rs`, `sets.rs`), from pieces of the message (`results.rs`, `joined.rs`).

mod assembly;
mod binding_sets;
mod bindings;
mod catalog;
mod columns;
mod condition_index;
mod constructors;
mod data_guide;
mod linear_path;
mod prepared;
mod recent_queries;
mod result_ids;
mod results;
mod value_index;

use std::sync::Arc;

use crate::document::Message;

use super::program::family::Interner;
#[cfg(target_arch = "x86_64")]
pub(crate) use assembly::use_avx2;
use bindings::MessageBindings;
pub(crate) use catalog::QueryCatalog;
use condition_index::ConditionIndex;
pub(crate) use condition_index::IndexedQuery;
use data_guide::{DataGuide, PathResolution};
pub use prepared::PreparedResults;
use recent_queries::RecentQueries;
pub use result_ids::ResultIds;
#[cfg(test)]
pub(crate) use result_ids::start_last_round;
pub(crate) use result_ids::{QueryResults, ResultSink, UNASSEMBLED};
use results::BatchResults;

/// Larger messages are looked at query by query: their results are written as they are found.
const NODES_MAX: usize = 1 << 16;

/// Branches of the selector that are looked at, by query with several conditions, until these are laid out anew by how often
/// the conditions held: then looking has cost about as much as laying out does. After that, so many times as many.
const PATIENCE: u64 = 128;
const PATIENCE_TIMES: u64 = 8;

/// What a thread knows of the label paths of messages, and of the message in hand.
#[derive(Debug, Default)]
pub(crate) struct BatchRewriter {
    /// The engine that this belongs to, and the edition of its classes.
    valid_for: (u64, u64),
    labels: DataGuide,
    meaning: PathResolution,
    /// Label paths when the meaning was found.
    meant: usize,
    /// Shared with what is prepared from it.
    selector: Arc<ConditionIndex>,
    /// See [`PATIENCE`].
    pub(crate) patience: u64,
    recent: RecentQueries,
    bindings: MessageBindings,
    results: BatchResults,
    is_ready: bool,
}

impl BatchRewriter {
    /// Did [`Self::run`] decide the message last run? If not, its queries are decided one by one.
    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Decides the queries of the classes on a message, but for those that [`Self::recent`] tells; whether it could.
    pub(crate) fn run(
        &mut self,
        (engine, interner): (u64, &Interner),
        classes: &QueryCatalog,
        message: Message<'_>,
    ) -> bool {
        self.is_ready = false;
        if classes.is_empty() || message.document.nodes.len() > NODES_MAX {
            return false;
        }
        self.follow(engine, classes);
        if !self.learn_paths(classes, message) {
            // Many label paths came and went; those of this message may be fewer.
            self.forget_labels();
            if !self.learn_paths(classes, message) {
                self.forget_labels();
                return false;
            }
        }
        self.is_ready = self.bindings.bind(&self.meaning, &self.selector, message)
            && self.bindings.compare(&self.meaning, &self.selector, interner, message);
        self.is_ready
    }

    /// Tells the label paths of a message, and learns what the queries' paths mean if there are new ones, or many changes;
    /// `false`: that is too much.
    fn learn_paths(&mut self, classes: &QueryCatalog, message: Message<'_>) -> bool {
        let has_labels = self.bindings.label(message, &mut self.labels);
        if has_labels && self.meant == self.labels.list.len() && !self.recent.is_due(classes) {
            let visits_max = self.patience * self.selector.several_count() as u64;
            // Of what is late, nothing is known yet; it will be laid out soon.
            if self.bindings.branches_visited() > visits_max && !self.recent.is_any() {
                self.lay_out(Arc::new(self.selector_of(classes, &self.meaning)));
                self.patience *= PATIENCE_TIMES;
            }
            return true;
        }
        has_labels && self.learn(classes).is_some()
    }

    /// The queries, laid out by how often their conditions held so far.
    fn selector_of(&self, classes: &QueryCatalog, meaning: &PathResolution) -> ConditionIndex {
        ConditionIndex::of(classes, meaning, |class| {
            let condition = self.selector.condition(&self.meaning, class);
            condition
                .and_then(|condition| self.bindings.how_often().get(condition as usize))
                .copied()
                .unwrap_or_default()
        })
    }

    fn lay_out(&mut self, selector: Arc<ConditionIndex>) {
        self.bindings.reserve(&selector);
        self.selector = selector;
    }

    fn forget_labels(&mut self) {
        self.labels = DataGuide::default();
        self.meant = 0;
    }

    /// Takes notice of the queries that came and went.
    fn follow(&mut self, engine: u64, classes: &QueryCatalog) {
        let edition = classes.edition();
        let existing = if engine == self.valid_for.0 { classes.changes_since(self.valid_for.1) } else { None };
        if engine != self.valid_for.0 {
            self.labels = DataGuide::default();
        }
        self.valid_for = (engine, edition);
        match existing {
            Some([]) => {}
            Some(changes) => self.recent.note(changes, classes),
            None => {
                self.meant = 0;
                self.selector = Arc::default();
            }
        }
    }

    /// Finds what the queries' paths mean, and lays them out if that is other than before; `None`: it is too much.
    fn learn(&mut self, classes: &QueryCatalog) -> Option<()> {
        let meaning = PathResolution::of(classes, &self.labels)?;
        if self.meant == 0 || self.recent.is_any() || !meaning.merges_as(&self.meaning) {
            self.lay_out(Arc::new(self.selector_of(classes, &meaning)));
            self.patience = PATIENCE;
            self.recent.clear();
        }
        self.meaning = meaning;
        self.meant = self.labels.list.len();
        Some(())
    }

    /// The queries that have to be decided one by one, although the message was decided.
    pub(crate) fn recent(&self) -> &[u32] {
        self.recent.queries()
    }

    /// Is the query, one of the classes, decided here?
    pub(crate) fn decides(&self, query: u32) -> bool {
        self.is_ready && !self.recent.contains(query)
    }

    /// Calls back with queries that match the message last run.
    pub(crate) fn for_each_match(&mut self, mut matched: impl FnMut(u32)) {
        let Self { bindings, selector, recent: undecided_queries, .. } = self;
        bindings.walk(selector, |_, _, _, members| {
            let queries = selector.members(members).iter().map(|member| member.query);
            if undecided_queries.is_any() {
                queries.filter(|&query| !undecided_queries.contains(query)).for_each(&mut matched);
            } else {
                queries.for_each(&mut matched);
            }
        });
    }
}
