//! The batch rewriter of a thread: follows the catalog, decides the queries on a message, and rewrites those that match.

use std::sync::Arc;

use crate::document::Message;

use super::super::ExtractError;
use super::super::interpreter::Interpreter;
use super::super::program::family::Interner;
use super::bindings::MessageBindings;
use super::catalog::QueryCatalog;
use super::condition_index::ConditionIndex;
use super::data_guide::{DataGuide, PathResolution};
use super::prepared::PreparedResults;
use super::recent_queries::RecentQueries;
use super::result_ids::{QueryResults, ResultIds, ResultSink};
use super::results::BatchResults;

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

    /// Finds what the results of the message last run are made of.
    pub(crate) fn find_results(&mut self, session: &mut Interpreter<'_>) {
        let Self { bindings, meaning, selector, results, .. } = self;
        let prepared = &mut results.prepared;
        prepared.reset(&meaning.recipes, selector, meaning.columns.len());
        bindings.walk(selector, |bindings, list, set, members| {
            prepared.add_group(list, members, bindings.bindings(list).len() as u32, set);
        });
        results.find_columns(bindings, meaning, session);
    }

    /// Is it certain that every query gets its result from here, none over a limit?
    pub(crate) fn is_certain(&self, bytes_max: usize) -> bool {
        !self.recent.is_any() && self.results.prepared.is_certain(bytes_max)
    }

    /// Tells the results that were found apart, and tells the queries with the number of each one's:
    /// [`super::UNASSEMBLED`] where it has to be asked for by itself. Returns the numbers of those that are larger than
    /// allowed, ascending.
    pub(crate) fn name_results(&mut self, bytes_max: usize, sink: &mut QueryResults) -> Vec<u32> {
        let BatchResults { prepared, named, namer, .. } = &mut self.results;
        namer.name(prepared, named, self.recent.changed(), sink);
        self.recent.note_named(sink.queries.len());
        if prepared.is_certain(bytes_max) { Vec::new() } else { named.too_large(prepared, bytes_max) }
    }

    /// The same where that is certain, and no result too large.
    pub(crate) fn name_certain_results(&mut self, sink: &mut impl ResultSink) {
        let BatchResults { prepared, named, namer, .. } = &mut self.results;
        namer.name(prepared, named, &[], sink);
    }

    /// Takes what was found, to be put together at any time.
    pub(crate) fn take_prepared(&mut self) -> PreparedResults {
        let next = self.results.prepared.as_large_as();
        std::mem::replace(&mut self.results.prepared, next)
    }

    /// Takes what was told apart.
    pub(crate) fn take_named(&mut self) -> ResultIds {
        std::mem::take(&mut self.results.named)
    }

    /// Puts the results that were found together. The numbers of those that are too large are known; where they would be
    /// is nothing.
    pub(crate) fn write_results(
        &mut self,
        session: &mut Interpreter<'_>,
        too_large: &[u32],
    ) -> Result<(), ExtractError> {
        self.results.write(session, too_large)
    }
}
