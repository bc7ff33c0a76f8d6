//! The batch rewriter of a thread: follows the batch queries, decides them on a message, and rewrites those that
//! match.

use std::sync::Arc;

use crate::document::Message;
use crate::limits::Limits;

use super::super::ExtractError;
use super::super::interpreter::Interpreter;
use super::super::program::family::Interner;
use super::bindings::MessageBindings;
use super::condition_index::ConditionIndex;
use super::data_guide::{DataGuide, PathResolution};
use super::prepared::PreparedResults;
use super::queries::BatchQueries;
use super::recent_queries::RecentQueries;
use super::result_ids::{QueryResults, RefusedResults, ResultIds, ResultSink};
use super::results::BatchResults;

/// Number of nodes of a message at most. The queries of larger messages run one by one, and their results are passed on
/// while they are written.
const NODES_MAX: usize = 1 << 16;

/// Number of branches tested, by query with several conditions, before the first new layout by how often conditions
/// have held: then testing has cost about as much as the layout. Each further layout takes this many times as many
/// tests.
const PATIENCE: u64 = 128;
const PATIENCE_GROWTH: u64 = 8;

/// The label paths that a thread has seen, the queries laid out for them, and the state of the current message.
#[derive(Debug, Default)]
pub(crate) struct BatchRewriter {
    /// The engine whose batch queries this follows, and their version.
    valid_for: (u64, u64),
    guide: DataGuide,
    resolution: PathResolution,
    /// Number of label paths that the resolution is of; 0 if it is of another engine or guide.
    resolved_count: usize,
    /// Shared with the results prepared from it.
    index: Arc<ConditionIndex>,
    /// See [`PATIENCE`].
    pub(crate) patience: u64,
    recent: RecentQueries,
    bindings: MessageBindings,
    results: BatchResults,
    is_ready: bool,
}

impl BatchRewriter {
    /// Returns `true` if the last [`Self::run`] decided its message. Otherwise its queries are decided one by one.
    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Decides the batch queries on a message, except those of [`Self::recent`]. Returns `false` if it cannot.
    pub(crate) fn run(
        &mut self,
        (engine, interner): (u64, &Interner),
        queries: &BatchQueries,
        message: Message<'_>,
    ) -> bool {
        self.is_ready = false;
        if queries.is_empty() || message.document.nodes.len() > NODES_MAX {
            return false;
        }
        self.follow(engine, queries);
        if !self.learn_paths(queries, message) {
            // Many label paths have come and gone; this message alone may have few.
            self.forget_paths();
            if !self.learn_paths(queries, message) {
                self.forget_paths();
                return false;
            }
        }
        self.is_ready = self.bindings.bind(&self.resolution, &self.index, message)
            && self.bindings.compare(&self.resolution, &self.index, interner, message);
        self.is_ready
    }

    /// Finds the label paths of a message. Resolves the queries' paths again if there are new label paths or many
    /// changes. Returns `false` if a limit is reached.
    fn learn_paths(&mut self, queries: &BatchQueries, message: Message<'_>) -> bool {
        if !self.bindings.find_labels(message, &mut self.guide) {
            return false;
        }
        if self.resolved_count != self.guide.len() || self.recent.add_message(queries) {
            return self.resolve(queries).is_some();
        }
        let visits_max = self.patience * self.index.multi_condition_count() as u64;
        // Recent queries have no counts yet and will cause a layout soon.
        if self.bindings.branches_visited() > visits_max && self.recent.is_empty() {
            self.set_index(self.index_of(queries, &self.resolution));
            self.patience *= PATIENCE_GROWTH;
        }
        true
    }

    /// Returns the queries laid out by how often their conditions have held so far.
    fn index_of(&self, queries: &BatchQueries, resolution: &PathResolution) -> ConditionIndex {
        ConditionIndex::of(queries, resolution, |class| {
            let condition = self.index.condition(&self.resolution, class);
            let count = condition.and_then(|condition| self.bindings.match_counts().get(condition.index()));
            count.copied().unwrap_or_default()
        })
    }

    fn set_index(&mut self, index: ConditionIndex) {
        self.bindings.reserve(&index);
        self.index = Arc::new(index);
    }

    fn forget_paths(&mut self) {
        self.guide = DataGuide::default();
        self.resolved_count = 0;
    }

    /// Takes over the changes of the batch queries since the last message.
    fn follow(&mut self, engine: u64, queries: &BatchQueries) {
        let (last_engine, version) = std::mem::replace(&mut self.valid_for, (engine, queries.version()));
        let changes = if engine == last_engine {
            queries.changes_since(version)
        } else {
            self.guide = DataGuide::default();
            None
        };
        match changes {
            Some([]) => {}
            Some(changes) => self.recent.add_changes(changes, queries),
            None => {
                self.resolved_count = 0;
                self.index = Arc::default();
            }
        }
    }

    /// Resolves the queries' paths, and lays the queries out again if ids changed. Returns `None` if a limit is
    /// reached.
    fn resolve(&mut self, queries: &BatchQueries) -> Option<()> {
        let resolution = PathResolution::of(queries, &self.guide)?;
        if self.resolved_count == 0 || !self.recent.is_empty() || !resolution.has_same_ids(&self.resolution) {
            self.set_index(self.index_of(queries, &resolution));
            self.patience = PATIENCE;
            self.recent.clear();
        }
        self.resolution = resolution;
        self.resolved_count = self.guide.len();
        Some(())
    }

    /// Returns the queries that have to be decided one by one although the message was decided.
    pub(crate) fn recent(&self) -> &[u32] {
        self.recent.queries()
    }

    /// Returns `true` if a batch query is decided here.
    pub(crate) fn decides(&self, query: u32) -> bool {
        self.is_ready && !self.recent.contains(query)
    }

    /// Calls back with the queries that match the message of the last run.
    pub(crate) fn for_each_match(&mut self, mut matched: impl FnMut(u32)) {
        let Self { bindings, index, recent, .. } = self;
        bindings.walk(index, |_, _, _, members| {
            let queries = index.members(members).iter().map(|member| member.query);
            if recent.is_empty() {
                queries.for_each(&mut matched);
            } else {
                queries.filter(|&query| !recent.contains(query)).for_each(&mut matched);
            }
        });
    }

    /// Finds what the results of the message of the last run consist of.
    pub(crate) fn find_results(&mut self, interpreter: &mut Interpreter<'_>) {
        let Self { bindings, resolution, index, results, .. } = self;
        let prepared = &mut results.prepared;
        prepared.reset(&resolution.constructors, index, resolution.columns.len());
        bindings.walk(index, |bindings, list, set, members| {
            prepared.add_group(list, members, bindings.bindings(list).len() as u32, set);
        });
        results.find_columns((bindings, index, resolution), interpreter);
    }

    /// Returns `true` if every matching query gets its result from here, and no result is over a limit.
    pub(crate) fn is_certain(&self, bytes_max: usize) -> bool {
        self.recent.is_empty() && self.results.prepared.is_certain(bytes_max)
    }

    /// Returns `true` if all results together are certain to have no more than so many bytes.
    pub(crate) fn fits_message_limit(&self, message_bytes_max: usize) -> bool {
        let prepared = &self.results.prepared;
        prepared.bytes_max().saturating_mul(prepared.query_count()) <= message_bytes_max
    }

    /// Assigns ids to the distinct results and passes each query's number to the sink, or
    /// [`UNASSEMBLED`](super::UNASSEMBLED) if the interpreter must produce the result. Returns the results that
    /// are over a limit.
    pub(crate) fn assign_ids(&mut self, limits: &Limits, sink: &mut QueryResults) -> RefusedResults {
        let BatchResults { prepared, ids, numbering, .. } = &mut self.results;
        numbering.run(prepared, ids, self.recent.changed(), sink);
        self.recent.add_numbered(sink.queries.len());
        ids.refused(prepared, limits)
    }

    /// Assigns ids to the distinct results where [`Self::is_certain`] holds.
    pub(crate) fn assign_certain_ids(&mut self, sink: &mut impl ResultSink) {
        let BatchResults { prepared, ids, numbering, .. } = &mut self.results;
        numbering.run(prepared, ids, &[], sink);
    }

    /// Takes the prepared results, to be assembled at any time.
    pub(crate) fn take_prepared(&mut self) -> PreparedResults {
        let next = self.results.prepared.with_same_capacity();
        std::mem::replace(&mut self.results.prepared, next)
    }

    /// Takes the result ids.
    pub(crate) fn take_ids(&mut self) -> ResultIds {
        std::mem::take(&mut self.results.ids)
    }

    /// Writes the numbered results. Those that are too large, ascending, are left empty.
    pub(crate) fn write_results(
        &mut self,
        interpreter: &mut Interpreter<'_>,
        too_large: &[u32],
    ) -> Result<(), ExtractError> {
        self.results.write(interpreter, too_large)
    }
}
