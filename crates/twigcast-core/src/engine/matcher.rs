//! Matching one message against all queries.

use super::Engine;
use super::decide::{ConditionMemo, Decisions, MessageRun, OperandValues};
use super::early_stop::{MatchObserver, NoObserver};
use super::parsed_queries::ParsedQueries;
use super::path_cache::PathCache;
use super::product::{ProductDfa, SegmentCaches};
use super::query_index::QueryIndex;
use super::query_set::QuerySet;
use super::slot_order::SlotOrder;
use super::stream_matcher::{StreamMatcher, StreamProgress};
use crate::document::{Document, Message};
use crate::error::MessageError;
use crate::eval::{Context, EvalError};
use crate::ids::{ProductStateId, ShapeId};
use crate::predicate::shape_lists::ShapeWaitLists;
use crate::rewrite::Payloads;
use crate::rewrite::batch::BatchRewriter;
use crate::scan::{RecordOptions, Scanner};
use crate::stream::decode::{CheckLevel, DecodeOptions, Decoder};
use crate::stream::dictionary::Dictionary;
use crate::twig::conditions::ConditionDecisions;
use crate::twig::satisfied::SatisfiedBranches;
use crate::twig::shapes::Shapes;

/// Messages that run on the NFA after the caches overflowed within one message.
const NFA_MESSAGES: u32 = 16;

/// How often a whole message may be read for the values of nested elements.
const VALUE_READS_MAX: u64 = 16;

/// So many queries of a message are decided by themselves where what they share is too expensive.
const ALONE_MAX: usize = 256;

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
    message_number: u64,
    /// The number of messages when the caches were last brought up to date with the population.
    followed_at: u64,
    /// Messages that will still run on the NFA.
    nfa_messages: u32,
    /// The shape of each node of the message.
    shape_of: Vec<ShapeId>,
    pub(super) decisions: Decisions,
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
    pub(super) fn scan(&mut self, engine: &Engine, source: &[u8], options: RecordOptions) -> Result<(), MessageError> {
        self.scanner.scan(source, &engine.vocabulary, &engine.limits, options, &mut self.document)
    }

    /// Decodes a stream into the document, and calls `work` with the bytes that the document's spans index into.
    pub(super) fn with_stream<T>(
        &mut self,
        engine: &Engine,
        (stream, dictionary): (&[u8], &Dictionary),
        record: RecordOptions,
        work: impl FnOnce(&mut Self, &[u8]) -> T,
    ) -> Result<T, MessageError> {
        let options = decode_options(engine, dictionary, record, CheckLevel::All);
        let mut decoder = self.decoder.take().unwrap_or_default();
        let answer = decoder.decode(stream, options, &mut self.document).map(|()| work(self, decoder.source()));
        self.decoder = Some(decoder);
        answer
    }

    /// Matches the scanned message. If not `marks`, queries that the batch rewriter decides are left to it.
    pub(super) fn run(&mut self, engine: &Engine, source: &[u8], marks: bool) {
        self.run_watched(engine, source, &mut NoObserver);
        self.run_rewriter(engine, source, marks);
    }

    /// Matches the scanned message until the observer has enough, without the queries that the batch rewriter decides.
    pub(super) fn run_watched(&mut self, engine: &Engine, source: &[u8], observer: &mut impl MatchObserver) {
        self.begin(engine);
        let (population, budget) = (&engine.population, engine.limits.cache_bytes_max);
        if !population.twigs.is_empty() || !population.shared.structures.is_empty() || !population.branches.is_empty() {
            self.shapes.assign(&self.document, &mut self.shape_of, budget / 2);
        }
        if !population.branches.is_empty() {
            self.satisfied.extend(&self.shapes, &population.branches, budget / 2);
        }
        let is_paused = self.nfa_messages > 0;
        let uses_dfa = !is_paused && self.advance(engine);
        if is_paused {
            self.nfa_messages -= 1;
        } else if !uses_dfa {
            self.pause_dfas(engine);
        }
        observer.begin(&mut self.decisions);
        if !observer.has_enough(&mut self.decisions) {
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
        record: RecordOptions,
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
        let QueryIndex { twigs, shared, branches, always, .. } = &engine.population;
        let needs_all =
            !twigs.is_empty() || !shared.structures.is_empty() || !branches.is_empty() || self.nfa_messages > 0;
        let is_structure = !options.record.attributes && !options.record.text && always.is_empty();
        if !needs_all && is_structure {
            match self.match_stream(engine, decoder, (stream, options), observer)? {
                StreamProgress::ToTheEnd | StreamProgress::Enough => {
                    observer.has_enough_results();
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
        observer.has_enough(&mut self.decisions);
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
            if fits && observer.has_enough(&mut self.decisions) {
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
        self.decisions.reset(engine.query_bound());
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
        let population = &engine.population;
        let message = Message { source, document: &self.document };
        let mut run = MessageRun {
            engine,
            population,
            evaluator: engine.evaluator(message),
            message,
            budget: engine.limits.cache_bytes_max,
            values_max: values_max(engine, message),
            shape_of: &self.shape_of,
            shapes: &self.shapes,
            satisfied: &mut self.satisfied,
            narrowed: &mut self.narrowed,
            decided: &mut self.decided,
            memo: &mut self.memo,
            values: OperandValues::default(),
        };
        for (cache, paths) in [(&mut self.main, &population.main), (&mut self.recent, &population.recent)] {
            if uses_dfa {
                cache.decide(&mut run, &mut self.decisions, paths, observer);
            } else {
                run.simulate(&mut self.decisions, paths);
            }
            if observer.has_enough(&mut self.decisions) {
                return;
            }
        }
        for &query in &population.always {
            run.evaluate_whole(&mut self.decisions, query);
        }
        if !self.decisions.alone.is_empty() {
            self.decide_alone(engine, source);
        }
    }

    /// Decides queries that share values which are too expensive to read at each element: the evaluator finds what one query
    /// asks along an axis for all nodes at once. The first [`ALONE_MAX`] are decided so; the others stay undecided.
    fn decide_alone(&mut self, engine: &Engine, source: &[u8]) {
        let message = Message { source, document: &self.document };
        let mut queries = std::mem::take(&mut self.decisions.alone);
        queries.truncate(ALONE_MAX);
        let expressions: Vec<_> =
            queries.iter().map(|&query| engine.parsed_expression(&mut self.parsed, query)).collect();
        let evaluator = engine.evaluator(message);
        let mut decided = QuerySet::default();
        for (&query, expression) in queries.iter().zip(&expressions) {
            let holds = match (engine.program(query), expression) {
                (Some(program), _) => engine.interpreter(message, &mut Payloads::default()).matches(program),
                (None, Some(expression)) => {
                    evaluator.resume(query);
                    evaluator.boolean(expression, Context::DOCUMENT)
                }
                (None, None) => continue,
            };
            if let Ok(holds) = holds {
                decided.insert_growing(query);
                if holds {
                    self.decisions.matched.insert(query);
                }
            }
        }
        self.decisions.failures.retain(|&(query, _)| !decided.contains(query));
    }

    /// Decides the queries of the batch rewriter. If not `marks`, those that it decides itself are left to it.
    fn run_rewriter(&mut self, engine: &Engine, source: &[u8], marks: bool) {
        let message = Message { source, document: &self.document };
        // It runs even without such queries, so that results of an earlier message are not delivered.
        if !self.rewriter.run((engine.identity, &engine.interner), &engine.classes, message) {
            if engine.classes.is_empty() {
                return;
            }
            let queries: Vec<u32> = engine.classes.queries().collect();
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
        for &query in queries {
            match engine.program(query).map_or(Ok(false), |program| interpreter.matches_member(program)) {
                Ok(true) => self.decisions.matched.insert(query),
                Ok(false) => {}
                Err(error) => self.decisions.failures.push((query, error)),
            }
        }
    }

    /// Advances the DFAs over the document. Returns `false` if a cache is full.
    fn advance(&mut self, engine: &Engine) -> bool {
        let caches = SegmentCaches::new(engine, &mut self.main, &mut self.recent);
        self.product.advance(&self.document, caches, self.message_number, &mut self.decisions.matched).is_ok()
    }
}

/// Returns how much may be read of a message for the values of its elements, in visits: as much as one query may visit, and
/// a few times the whole message.
fn values_max(engine: &Engine, message: Message<'_>) -> u64 {
    let all = message.document.nodes.len() as u64 + message.source.len() as u64 / 64;
    engine.limits.query_visits_max as u64 + VALUE_READS_MAX * all
}

/// Returns how streams are decoded for an engine.
fn decode_options<'a>(
    engine: &'a Engine,
    dictionary: &'a Dictionary,
    record: RecordOptions,
    checks: CheckLevel,
) -> DecodeOptions<'a> {
    let Engine { vocabulary, limits, identity, .. } = engine;
    DecodeOptions { dictionary, vocabulary, identity: *identity, limits, record, checks }
}
