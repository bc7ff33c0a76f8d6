//! Matching one message against all queries.

use rustc_hash::FxHashMap;

use super::Engine;
use super::budget::{MessageBudget, PostponedQuery, Turn};
use super::decide::{ConditionMemo, Decisions, MessageRun, OperandValues};
use super::early_stop::{MatchObserver, NoObserver};
use super::parsed_queries::ParsedQueries;
use super::path_cache::PathCache;
use super::product::{ProductDfa, SegmentCaches};
use super::query_index::QueryIndex;
use super::query_set::QuerySet;
use super::slot_order::SlotOrder;
use super::stream_matcher::{StreamMatcher, StreamProgress};
use super::throttle::{Stage, ThrottledQuery};
use crate::access::samples::{self, SampledValues};
use crate::document::{Document, Message};
use crate::error::MessageError;
use crate::eval::{Context, EvalError};
use crate::ids::{ProductStateId, ShapeId};
use crate::predicate::shape_lists::ShapeWaitLists;
use crate::rewrite::Payloads;
use crate::rewrite::batch::BatchRewriter;
use crate::scan::{ScanOptions, ScannedMessage, Scanner};
use crate::stream::decode::{CheckLevel, DecodeOptions, Decoder};
use crate::stream::dictionary::Dictionary;
use crate::twig::conditions::ConditionDecisions;
use crate::twig::satisfied::SatisfiedBranches;
use crate::twig::shapes::Shapes;
use crate::util::number;
use crate::util::temporal::Temporal;

/// Messages that run on the NFA after the caches overflowed within one message.
const NFA_MESSAGES: u32 = 16;

/// Items of a stream that are read before the observer is asked whether that is enough. It is asked again whenever twice
/// as many more were read.
const FIRST_ITEMS: usize = 32;

/// Everything that one thread changes while it matches: working memory, lazy DFAs, memo tables.
///
/// Its size is bounded by [`crate::limits::Limits::cache_bytes_max`] and the size of the message. It works with any engine;
/// its caches belong to the engine that it was last used with.
#[derive(Debug, Default)]
pub struct Matcher {
    scanner: Scanner,
    /// The last message.
    pub(super) document: Document,
    /// The last message as it was scanned.
    pub(super) scanned: ScannedMessage,
    /// `None` while it is borrowed.
    decoder: Option<Box<Decoder>>,
    /// Working memory of [`StreamMatcher`].
    ancestors: Vec<ProductStateId>,
    main: PathCache,
    recent: PathCache,
    product: ProductDfa,
    shapes: Shapes,
    satisfied: SatisfiedBranches,
    narrowed: ShapeWaitLists,
    decided: ConditionDecisions,
    memo: ConditionMemo,
    /// Identity and main version of the engine that the caches belong to.
    pub(super) valid_for: (u64, u64),
    /// The edition of that engine when the matcher was last used with it.
    pub(super) edition: u64,
    message_number: u64,
    /// The number of messages when the caches were last brought up to date with the population.
    followed_at: u64,
    /// Messages that will still run on the NFA.
    nfa_messages: u32,
    /// The shape of each node of the message.
    shape_of: Vec<ShapeId>,
    pub(super) decisions: Decisions,
    /// The time at which the next message was published, if it is not published now: for that message only.
    pub published: Option<i64>,
    pub(super) rewriter: BatchRewriter,
    pub(super) parsed: ParsedQueries,
    pub(super) in_order: SlotOrder,
    /// The number of times that the caches were cleared because they were full.
    pub overflows: u64,
}

impl Matcher {
    /// Creates a matcher with empty caches.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the queries that the last message matched.
    pub fn matched(&self) -> &QuerySet {
        &self.decisions.matched
    }

    pub(super) fn decisions_mut(&mut self) -> &mut Decisions {
        &mut self.decisions
    }

    /// Returns the queries that could not be decided on the last message, and why.
    pub fn failures(&self) -> &[(u32, EvalError)] {
        &self.decisions.failures
    }

    /// Returns what it cost to evaluate queries on the last message, in visits.
    pub fn visits(&self) -> u64 {
        self.decisions.budget.spent()
    }

    /// Returns the number of states of the lazy DFAs.
    pub fn dfa_state_count(&self) -> usize {
        self.main.dfa.state_count() + self.recent.dfa.state_count()
    }

    /// Returns how often ancestors of elements were tested for the last message.
    pub fn ancestor_checks(&self) -> u64 {
        self.decisions.ancestor_checks() + self.memo.ancestor_checks
    }

    /// Returns how often all product states were brought up to date at once.
    pub fn prefetches(&self) -> u64 {
        self.product.prefetches
    }

    /// Returns the size in bytes of the caches that outlive a message, by estimate.
    pub fn cache_bytes(&self) -> usize {
        self.main.bytes()
            + self.recent.bytes()
            + self.product.bytes()
            + self.shapes.bytes()
            + self.satisfied.bytes()
            + self.narrowed.bytes()
            + self.decided.bytes()
            + self.memo.bytes()
    }

    /// Brings the caches up to date with the population, if there was a message since the last time.
    pub(super) fn follow(&mut self, engine: &Engine) {
        let has_space = self.cache_bytes() < engine.limits.cache_bytes_max;
        if self.followed_at == self.message_number || self.nfa_messages > 0 || !has_space {
            return;
        }
        self.followed_at = self.message_number;
        self.product.catch_up(&mut SegmentCaches::new(engine, &mut self.main, &mut self.recent), true);
    }

    /// Clears all caches.
    pub(super) fn forget(&mut self) {
        self.main.clear();
        self.recent.clear();
        self.shapes.clear();
        self.satisfied.clear();
        self.narrowed.clear();
        self.decided.clear();
        self.memo.forget();
    }

    /// Scans a message into the document.
    pub(super) fn scan(&mut self, engine: &Engine, source: &[u8], options: ScanOptions) -> Result<(), MessageError> {
        let published = self.published.take();
        self.release_message();
        self.scanner.scan(source, &engine.vocabulary, &engine.limits, options, &mut self.document)?;
        self.document.published = Some(published.unwrap_or_else(Temporal::present));
        Ok(())
    }

    /// Scans a message into the document, also one that its DOCTYPE changes, unless another processor is to read it too.
    pub(super) fn scan_expanding(
        &mut self,
        engine: &Engine,
        source: &[u8],
        options: ScanOptions,
    ) -> Result<(), MessageError> {
        let published = self.published.take();
        self.release_message();
        let (Engine { vocabulary, limits, .. }, expands) = (engine, !engine.has_external());
        self.scanned = self.scanner.scan_message(source, vocabulary, limits, options, &mut self.document, expands)?;
        self.document.published = Some(published.unwrap_or_else(Temporal::present));
        Ok(())
    }

    /// Forgets what the DOCTYPE of the last message has made of it; a large one should not be kept until the next.
    pub fn release_message(&mut self) {
        if let Some(expanded) = std::mem::take(&mut self.scanned).take_expanded() {
            self.keep_memory(expanded);
        }
    }

    /// Takes the memory of an expanded message, for the next one. Returns memory that is not needed.
    pub fn keep_memory(&mut self, expanded: String) -> String {
        self.scanner.keep_memory(expanded)
    }

    /// Decodes a stream into the document, and calls `work` with the bytes that the document's spans index into.
    pub(super) fn with_stream<T>(
        &mut self,
        engine: &Engine,
        (stream, dictionary): (&[u8], &Dictionary),
        record: ScanOptions,
        work: impl FnOnce(&mut Self, &[u8]) -> T,
    ) -> Result<T, MessageError> {
        let options = decode_options(engine, dictionary, record, CheckLevel::All);
        let mut decoder = self.decoder.take().unwrap_or_default();
        let published = self.published.take();
        let answer = decoder.decode(stream, options, &mut self.document).map(|()| {
            self.document.published = Some(published.unwrap_or_else(Temporal::present));
            work(self, decoder.source())
        });
        self.decoder = Some(decoder);
        answer
    }

    /// Matches the scanned message. If not `marks`, queries that the batch rewriter decides are left to it.
    pub(super) fn run(&mut self, engine: &Engine, source: &[u8], marks: bool) {
        self.walk(engine, source, &mut NoObserver);
        self.run_rewriter(engine, source, marks);
        self.decide_postponed(engine, source);
        engine.unread_numbers.note(Message { source, document: &self.document });
    }

    /// Matches the scanned message until the observer has enough, without the queries that the batch rewriter decides.
    pub(super) fn run_watched(&mut self, engine: &Engine, source: &[u8], observer: &mut impl MatchObserver) {
        self.walk(engine, source, observer);
        if !observer.is_satisfied_by_decisions(&mut self.decisions) {
            self.decide_postponed(engine, source);
        }
    }

    /// Matches the scanned message until the observer has enough, but for postponed queries.
    fn walk(&mut self, engine: &Engine, source: &[u8], observer: &mut impl MatchObserver) {
        self.begin(engine);
        let (query_index, budget) = (&engine.query_index, engine.limits.cache_bytes_max);
        if !query_index.twigs.is_empty()
            || !query_index.shared.structures.is_empty()
            || !query_index.branches.is_empty()
        {
            self.shapes.assign(&self.document, &mut self.shape_of, budget / 2);
        }
        if !query_index.branches.is_empty() {
            self.satisfied.extend(&self.shapes, &query_index.branches, budget / 2);
        }
        let is_paused = self.nfa_messages > 0;
        let uses_dfa = !is_paused && self.advance(engine);
        if is_paused {
            self.nfa_messages -= 1;
        } else if !uses_dfa {
            self.pause_dfas(engine);
        }
        observer.begin(&mut self.decisions);
        if !observer.is_satisfied_by_decisions(&mut self.decisions) {
            self.decide(engine, source, uses_dfa, observer);
        }
    }

    /// Matches a message that comes as an element stream until the observer has enough, without the queries that the batch
    /// rewriter decides. The stream is read no further, and checked only where it is read. The observer has seen all
    /// results in the end.
    pub(super) fn run_stream_watched(
        &mut self,
        engine: &Engine,
        (stream, dictionary): (&[u8], &Dictionary),
        record: ScanOptions,
        observer: &mut impl MatchObserver,
    ) -> Result<(), MessageError> {
        let options = decode_options(engine, dictionary, record, CheckLevel::Recorded);
        let mut decoder = self.decoder.take().unwrap_or_default();
        let answer = self.run_reading(engine, &mut decoder, (stream, options), observer);
        self.decoder = Some(decoder);
        answer
    }

    fn run_reading(
        &mut self,
        engine: &Engine,
        decoder: &mut Decoder,
        (stream, options): (&[u8], DecodeOptions<'_>),
        observer: &mut impl MatchObserver,
    ) -> Result<(), MessageError> {
        let QueryIndex { twigs, shared, branches, always, .. } = &engine.query_index;
        let needs_all =
            !twigs.is_empty() || !shared.structures.is_empty() || !branches.is_empty() || self.nfa_messages > 0;
        let is_structure = !options.record.attributes && !options.record.text && always.is_empty();
        if !needs_all && is_structure {
            match self.match_stream(engine, decoder, (stream, options), observer)? {
                StreamProgress::ToTheEnd | StreamProgress::Enough => {
                    observer.is_satisfied_by_matches();
                    return Ok(());
                }
                StreamProgress::NeedsDocument | StreamProgress::CacheIsFull => {}
            }
        }
        if needs_all {
            decoder.decode(stream, options, &mut self.document)?;
            self.run_watched(engine, decoder.source(), observer);
        } else {
            self.run_in_steps(engine, decoder, (stream, options), observer)?;
        }
        observer.is_satisfied_by_decisions(&mut self.decisions);
        Ok(())
    }

    /// Matches a stream without a document.
    fn match_stream(
        &mut self,
        engine: &Engine,
        decoder: &mut Decoder,
        (stream, options): (&[u8], DecodeOptions<'_>),
        observer: &mut impl MatchObserver,
    ) -> Result<StreamProgress, MessageError> {
        self.begin(engine);
        observer.begin(&mut self.decisions);
        let caches = SegmentCaches::new(engine, &mut self.main, &mut self.recent);
        let mut visitor =
            StreamMatcher::new(&mut self.product, caches, &mut self.ancestors, self.message_number, observer);
        decoder.open_elements(stream, options, &mut self.document)?.lead(&mut visitor)?;
        Ok(visitor.progress)
    }

    /// Matches the document that a stream is decoded into, while it is decoded.
    fn run_in_steps(
        &mut self,
        engine: &Engine,
        decoder: &mut Decoder,
        (stream, options): (&[u8], DecodeOptions<'_>),
        observer: &mut impl MatchObserver,
    ) -> Result<(), MessageError> {
        self.begin(engine);
        observer.begin(&mut self.decisions);
        let mut fits = true;
        let mut reader = decoder.open(stream, options, &mut self.document)?;
        for doublings in 0.. {
            let is_last = reader.read(FIRST_ITEMS << doublings)?;
            let caches = SegmentCaches::new(engine, &mut self.main, &mut self.recent);
            let matched = &mut self.decisions.matched;
            fits = fits && self.product.advance(reader.document(), caches, self.message_number, matched).is_ok();
            if fits && observer.is_satisfied_by_decisions(&mut self.decisions) {
                return Ok(());
            }
            if is_last {
                break;
            }
        }
        if !fits {
            self.pause_dfas(engine);
            observer.begin(&mut self.decisions);
        }
        self.decide(engine, decoder.source(), fits, observer);
        if !observer.is_satisfied_by_decisions(&mut self.decisions) {
            self.decide_postponed(engine, decoder.source());
        }
        Ok(())
    }

    /// Begins with a message.
    fn begin(&mut self, engine: &Engine) {
        if self.cache_bytes() >= engine.limits.cache_bytes_max {
            self.forget();
            self.overflows += 1;
        }
        if self.narrowed.bytes() >= engine.limits.cache_bytes_max / 4 {
            self.narrowed.clear();
        }
        self.message_number += 1;
        // What was met since the last message, as where a query was registered or explained, is not of this one.
        number::take_unread();
        self.decisions.reset(engine.query_bound());
        let Decisions { set_aside, without_results, .. } = &mut self.decisions;
        engine.throttle.begin_message(|ThrottledQuery { query, stage, overruns, messages }| {
            let queries = match stage {
                Stage::Matching => &mut *set_aside,
                Stage::Delivering => &mut *without_results,
            };
            queries.insert(query, EvalError::Throttled { overruns, messages });
        });
        self.product.begin(SegmentCaches::new(engine, &mut self.main, &mut self.recent));
    }

    /// Stops using the DFAs for some messages: one message needed more states than the caches hold, and building them costs
    /// more than it saves.
    fn pause_dfas(&mut self, engine: &Engine) {
        self.nfa_messages = NFA_MESSAGES;
        self.overflows += 1;
        self.main.clear();
        self.recent.clear();
        self.decisions.reset(engine.query_bound());
    }

    /// Decides what the DFAs have left open, until the observer has enough.
    fn decide(&mut self, engine: &Engine, source: &[u8], uses_dfa: bool, observer: &mut impl MatchObserver) {
        self.memo.clear();
        let query_index = &engine.query_index;
        let message = Message { source, document: &self.document };
        let is_sampled = query_index.learns_from_values() && samples::is_sampled(self.message_number);
        let budget = MessageBudget::of(&engine.limits, message);
        self.decisions.budget = budget;
        let mut run = MessageRun {
            engine,
            query_index,
            evaluator: engine.evaluator(message).with_turns(budget.quick, budget.left(), budget.reserve()),
            message,
            budget: engine.limits.cache_bytes_max,
            is_sampled,
            values_max: budget.left() - budget.reserve(),
            costs: budget,
            shape_of: &self.shape_of,
            shapes: &self.shapes,
            satisfied: &mut self.satisfied,
            narrowed: &mut self.narrowed,
            decided: &mut self.decided,
            memo: &mut self.memo,
            values: OperandValues::default(),
        };
        for (cache, paths) in [(&mut self.main, &query_index.main), (&mut self.recent, &query_index.recent)] {
            if uses_dfa {
                cache.decide(&mut run, &mut self.decisions, paths, observer);
            } else {
                run.simulate(&mut self.decisions, paths);
            }
            if observer.is_satisfied_by_decisions(&mut self.decisions) {
                return;
            }
        }
        for &query in &query_index.always {
            run.evaluate_whole(&mut self.decisions, query);
        }
        if is_sampled {
            let operands = run.values.by_operand(&query_index.shared);
            let values = SampledValues { operands, words: &run.values.words, conditions: &query_index.shared };
            let (recorded, visits) = (engine.needs.scan_options(), &self.decisions.visits);
            query_index.samples.note(message, recorded, values, visits, query_index.has_learning_triggers());
        }
        let visits = budget.left() - run.evaluator.left();
        self.decisions.budget.spend(visits + self.memo.values_read + self.decisions.values_read());
    }

    /// Decides the queries that needed more than they may take beside all others, by turns. Those that do not fit into the
    /// message's budget stay undecided.
    fn decide_postponed(&mut self, engine: &Engine, source: &[u8]) {
        if self.decisions.postponed.is_empty() {
            return;
        }
        let message = Message { source, document: &self.document };
        let queries = std::mem::take(&mut self.decisions.postponed);
        let queries = queries.into_iter().filter(|&query| !self.decisions.matched.contains(query));
        let queries = queries.map(|query| (query, engine.subscription_table.group_of_query(query))).collect();
        let (queries, rest) = MessageBudget::admit(queries);
        let expressions: FxHashMap<u32, _> = queries
            .iter()
            .filter(|&&(query, _)| engine.program(query).is_none())
            .filter_map(|&(query, _)| Some((query, engine.parsed_expression(&mut self.parsed, query)?)))
            .collect();
        let evaluator = engine.evaluator(message);
        let Decisions { budget, matched, failures, .. } = &mut self.decisions;
        let mut decided = Vec::new();
        let mut failed = Vec::new();
        let unfinished = budget.take_turns(&queries, |query, visits_max| {
            let (holds, visits) = match (engine.program(query), expressions.get(&query)) {
                (Some(program), _) => {
                    let mut payloads = Payloads::default();
                    let mut interpreter = engine.interpreter(message, &mut payloads);
                    interpreter.allow(visits_max);
                    let holds = interpreter.matches(program);
                    (holds, interpreter.visits())
                }
                (None, Some(expression)) => {
                    evaluator.begin_turn(query, visits_max);
                    let holds = evaluator.boolean(expression, Context::DOCUMENT);
                    (holds, evaluator.visits())
                }
                // It was compiled once, so it can be parsed.
                (None, None) => (Err(EvalError::NotANodeSet), 0),
            };
            match &holds {
                Ok(holds) => {
                    decided.push(query);
                    matched.insert_if(query, *holds);
                }
                Err(error) if error.is_overrun() => return Turn { visits, is_done: false },
                Err(error) => failed.push((query, error.clone())),
            }
            Turn { visits, is_done: true }
        });
        failures.append(&mut failed);
        let overrun = unfinished.iter().filter(|last| last.visits > 0).map(|last| last.query);
        engine.throttle.record(Stage::Matching, overrun, decided.into_iter(), engine.limits.overruns_max);
        let without_turn = rest.into_iter().map(|query| PostponedQuery { query, visits: 0 });
        for PostponedQuery { query, visits } in unfinished.into_iter().chain(without_turn) {
            failures.push((query, budget.error_of(visits)));
        }
    }

    /// Decides the queries of the batch rewriter. If not `marks`, those that it decides itself are left to it.
    fn run_rewriter(&mut self, engine: &Engine, source: &[u8], marks: bool) {
        let message = Message { source, document: &self.document };
        // It runs even without such queries, so that results of an earlier message are not delivered.
        if !self.rewriter.run((engine.identity, &engine.interner), &engine.batch_queries, message) {
            if engine.batch_queries.is_empty() {
                return;
            }
            let queries: Vec<u32> = engine.batch_queries.queries().collect();
            return self.run_alone(engine, source, &queries);
        }
        if marks {
            let matched = &mut self.decisions.matched;
            self.rewriter.for_each_match(|query| matched.insert(query));
        }
        if !self.rewriter.recent().is_empty() {
            let recent = self.rewriter.recent().to_vec();
            self.run_alone(engine, source, &recent);
        }
    }

    /// Decides For-Where-Return queries one by one.
    fn run_alone(&mut self, engine: &Engine, source: &[u8], queries: &[u32]) {
        let message = Message { source, document: &self.document };
        let mut payloads = Payloads::default();
        let mut interpreter = engine.interpreter(message, &mut payloads);
        let mut taken = 0;
        for &query in queries {
            if self.decisions.is_set_aside(query) {
                continue;
            }
            let Some(program) = engine.program(query) else { continue };
            interpreter.allow(self.decisions.budget.shared(taken).min(self.decisions.budget.left()));
            let holds = interpreter.matches_member(program);
            taken += interpreter.visits();
            self.decisions.budget.spend(interpreter.visits());
            match holds {
                Ok(true) => self.decisions.matched.insert(query),
                Ok(false) => {}
                Err(error) => self.decisions.fail(query, error),
            }
        }
    }

    /// Advances the DFAs over the document. Returns `false` if a cache is full.
    fn advance(&mut self, engine: &Engine) -> bool {
        let caches = SegmentCaches::new(engine, &mut self.main, &mut self.recent);
        self.product.advance(&self.document, caches, self.message_number, &mut self.decisions.matched).is_ok()
    }
}

/// Returns how streams are decoded for an engine.
fn decode_options<'a>(
    engine: &'a Engine,
    dictionary: &'a Dictionary,
    record: ScanOptions,
    checks: CheckLevel,
) -> DecodeOptions<'a> {
    let Engine { vocabulary, limits, identity, .. } = engine;
    DecodeOptions { dictionary, vocabulary, identity: *identity, limits, record, checks }
}
