//! One message against all queries.

use super::Engine;
use super::decide::{ConditionMemo, Decisions, MessageRun, OperandValues};
use super::early_stop::{MatchObserver, NoObserver};
use super::parsed_queries::ParsedQueries;
use super::path_cache::PathCache;
use super::product::{ProductDfa, ProductStateId, SegmentCaches};
use super::query_index::QueryIndex;
use super::query_set::QuerySet;
use super::slot_order::SlotOrder;
use super::stream_matcher::{StreamMatcher, StreamProgress};
use crate::document::{Document, Message};
use crate::error::MessageError;
use crate::eval::EvalError;
use crate::predicate::shape_lists::ShapeWaitLists;
use crate::rewrite::Payloads;
use crate::rewrite::batch::BatchRewriter;
use crate::scan::{RecordOptions, Scanner};
use crate::stream::decode::{CheckLevel, DecodeOptions, Decoder};
use crate::stream::dictionary::Dictionary;
use crate::twig::conditions::ConditionDecisions;
use crate::twig::satisfied::SatisfiedBranches;
use crate::twig::shapes::{ShapeId, Shapes};

/// Messages that run on the NFA after the DFA cache overflowed within one message.
const REST_MESSAGES: u32 = 16;

/// How many times the whole of a message may be read for values of elements that are nested in one another.
const VALUES_TIMES: u64 = 16;

/// Items of a stream after which it is asked for the first time whether that is enough; then after twice as many more.
const ITEMS_AT_FIRST: usize = 32;

/// All that one thread changes while it matches: scratch, the lazily built automaton, memo tables. Everything in it is
/// bounded by [`crate::limits::Limits::cache_bytes_max`] and the size of the message.
#[derive(Debug, Default)]
pub struct Matcher {
    scanner: Scanner,
    /// The message last scanned.
    pub(super) document: Document,
    /// Not there while it is lent out.
    decoder: Option<Box<Decoder>>,
    /// Scratch for following a stream.
    around: Vec<ProductStateId>,
    main: PathCache,
    recent: PathCache,
    walk: ProductDfa,
    shapes: Shapes,
    satisfied: SatisfiedBranches,
    narrowed: ShapeWaitLists,
    decided: ConditionDecisions,
    memo: ConditionMemo,
    /// Identity and bulk version of the engine that the tables belong to.
    pub(super) valid_for: (u64, u64),
    message_number: u64,
    /// The last message before which it was brought up to the population.
    followed_at: u64,
    rest_messages: u32,
    shape_of: Vec<ShapeId>,
    pub(super) decisions: Decisions,
    pub(super) guide: BatchRewriter,
    pub(super) parsed: ParsedQueries,
    pub(super) in_order: SlotOrder,
    /// How often the caches were emptied because they were full.
    pub overflows: u64,
}

impl Matcher {
    /// A matcher with empty tables.
    pub fn new() -> Self {
        Self::default()
    }

    /// The queries that the last message matched.
    pub fn matched(&self) -> &QuerySet {
        &self.decisions.matched
    }

    pub(super) fn decisions_mut(&mut self) -> &mut Decisions {
        &mut self.decisions
    }

    /// The queries that could not be decided on the last message, and why.
    pub fn failures(&self) -> &[(u32, EvalError)] {
        &self.decisions.failures
    }

    /// States of the lazily built automaton.
    pub fn dfa_state_count(&self) -> usize {
        self.main.dfa.state_count() + self.recent.dfa.state_count()
    }

    /// How often ancestors of elements were looked at for what queries ask of them.
    pub fn ancestor_checks(&self) -> u64 {
        self.decisions.ancestor_checks()
    }

    /// How often it was found out for all places at once what the queries say there that came lately.
    pub fn prefetches(&self) -> u64 {
        self.walk.prefetches
    }

    /// Bytes of the tables that outlive a message, by estimate.
    pub fn cache_bytes(&self) -> usize {
        self.main.bytes()
            + self.recent.bytes()
            + self.walk.bytes()
            + self.shapes.bytes()
            + self.satisfied.bytes()
            + self.narrowed.bytes()
            + self.decided.bytes()
            + self.memo.bytes()
    }

    /// Learn what the next message would have to be told, if there was any message since the last time.
    pub(super) fn follow(&mut self, engine: &Engine) {
        let has_space = self.cache_bytes() < engine.limits.cache_bytes_max;
        if self.followed_at == self.message_number || self.rest_messages > 0 || !has_space {
            return;
        }
        self.followed_at = self.message_number;
        self.walk.catch_up(&mut SegmentCaches::new(engine, &mut self.main, &mut self.recent), true);
    }

    pub(super) fn forget(&mut self) {
        self.main.clear();
        self.recent.clear();
        self.shapes.clear();
        self.satisfied.clear();
        self.narrowed.clear();
        self.decided.clear();
        self.memo = ConditionMemo::default();
    }

    pub(super) fn scan(&mut self, engine: &Engine, source: &[u8], options: RecordOptions) -> Result<(), MessageError> {
        self.scanner.scan(source, &engine.vocabulary, &engine.limits, options, &mut self.document)
    }

    /// Decode a stream and hand `work` the bytes that the document's spans index into.
    pub(super) fn with_stream<T>(
        &mut self,
        engine: &Engine,
        (stream, dictionary): (&[u8], &Dictionary),
        options: RecordOptions,
        work: impl FnOnce(&mut Self, &[u8]) -> T,
    ) -> Result<T, MessageError> {
        let reading = reading(engine, dictionary, options, CheckLevel::All);
        let mut decoder = self.decoder.take().unwrap_or_default();
        let answer = decoder.decode(stream, reading, &mut self.document).map(|()| work(self, decoder.source()));
        self.decoder = Some(decoder);
        answer
    }

    /// Match the scanned message. If not `marks`, the queries that the guide decides are left to it.
    pub(super) fn run(&mut self, engine: &Engine, source: &[u8], marks: bool) {
        self.run_watched(engine, source, &mut NoObserver);
        self.run_guided(engine, source, marks);
    }

    /// Match the scanned message, as far as `watch` wants to know and without what rewrites.
    pub(super) fn run_watched(&mut self, engine: &Engine, source: &[u8], watch: &mut impl MatchObserver) {
        self.begin(engine);
        let (population, budget) = (&engine.population, engine.limits.cache_bytes_max);
        if !population.twigs.is_empty() || !population.shared.structures.is_empty() || !population.branches.is_empty() {
            self.shapes.number(&self.document, &mut self.shape_of, budget / 2);
        }
        if !population.branches.is_empty() {
            self.satisfied.follow(&self.shapes, &population.branches, budget / 2);
        }
        let rests = self.rest_messages > 0;
        let uses_dfa = !rests && self.lead_all(engine);
        if rests {
            self.rest_messages -= 1;
        } else if !uses_dfa {
            self.rest(engine);
        }
        watch.begin(&mut self.decisions);
        if !watch.has_enough(&mut self.decisions) {
            self.decide(engine, source, uses_dfa, watch);
        }
    }

    /// Match a message that comes as an element stream, as far as `watch` wants to know and without what rewrites. It is
    /// read no further than that, and checked only where it is looked into; `watch` has looked at what was found.
    pub(super) fn run_stream_watched(
        &mut self,
        engine: &Engine,
        (stream, dictionary): (&[u8], &Dictionary),
        options: RecordOptions,
        watch: &mut impl MatchObserver,
    ) -> Result<(), MessageError> {
        let reading = reading(engine, dictionary, options, CheckLevel::Recorded);
        let mut decoder = self.decoder.take().unwrap_or_default();
        let answer = self.run_reading(engine, &mut decoder, (stream, reading), watch);
        self.decoder = Some(decoder);
        answer
    }

    fn run_reading(
        &mut self,
        engine: &Engine,
        decoder: &mut Decoder,
        (stream, reading): (&[u8], DecodeOptions<'_>),
        watch: &mut impl MatchObserver,
    ) -> Result<(), MessageError> {
        let QueryIndex { twigs, shared, branches, always, .. } = &engine.population;
        let needs_all =
            !twigs.is_empty() || !shared.structures.is_empty() || !branches.is_empty() || self.rest_messages > 0;
        let is_structure = !reading.record.attributes && !reading.record.text && always.is_empty();
        if !needs_all && is_structure {
            match self.follow_stream(engine, decoder, (stream, reading), watch)? {
                StreamProgress::ToTheEnd | StreamProgress::Enough => {
                    watch.has_enough_results();
                    return Ok(());
                }
                StreamProgress::NeedsDocument | StreamProgress::CacheIsFull => {}
            }
        }
        if needs_all {
            decoder.decode(stream, reading, &mut self.document)?;
            self.run_watched(engine, decoder.source(), watch);
        } else {
            self.run_in_steps(engine, decoder, (stream, reading), watch)?;
        }
        watch.has_enough(&mut self.decisions);
        Ok(())
    }

    /// Lead the automata along a stream of which no document is made.
    fn follow_stream(
        &mut self,
        engine: &Engine,
        decoder: &mut Decoder,
        (stream, reading): (&[u8], DecodeOptions<'_>),
        watch: &mut impl MatchObserver,
    ) -> Result<StreamProgress, MessageError> {
        self.begin(engine);
        watch.begin(&mut self.decisions);
        let layers = SegmentCaches::new(engine, &mut self.main, &mut self.recent);
        let route = (&mut self.walk, layers, &mut self.around);
        let mut follower = StreamMatcher::new(route, self.message_number, watch);
        decoder.open_elements(stream, reading, &mut self.document)?.lead(&mut follower)?;
        Ok(follower.followed)
    }

    /// Lead the automata over the document that is made of a stream, while it is read.
    fn run_in_steps(
        &mut self,
        engine: &Engine,
        decoder: &mut Decoder,
        (stream, reading): (&[u8], DecodeOptions<'_>),
        watch: &mut impl MatchObserver,
    ) -> Result<(), MessageError> {
        self.begin(engine);
        watch.begin(&mut self.decisions);
        let mut fits = true;
        let mut reader = decoder.open(stream, reading, &mut self.document)?;
        for doublings in 0.. {
            let is_last = reader.read(ITEMS_AT_FIRST << doublings)?;
            let layers = SegmentCaches::new(engine, &mut self.main, &mut self.recent);
            let matched = &mut self.decisions.matched;
            fits = fits && self.walk.lead(reader.document(), layers, self.message_number, matched).is_ok();
            if fits && watch.has_enough(&mut self.decisions) {
                return Ok(());
            }
            if is_last {
                break;
            }
        }
        if !fits {
            self.rest(engine);
            watch.begin(&mut self.decisions);
        }
        self.decide(engine, decoder.source(), fits, watch);
        Ok(())
    }

    /// Begin with a message.
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
        self.walk.begin(SegmentCaches::new(engine, &mut self.main, &mut self.recent));
    }

    /// The automaton needs more states than the cache holds, within one message: making them costs more than it saves.
    fn rest(&mut self, engine: &Engine) {
        self.rest_messages = REST_MESSAGES;
        self.overflows += 1;
        self.main.clear();
        self.recent.clear();
        self.decisions.reset(engine.query_bound());
    }

    /// Decide what the automata have left open, until `watch` has enough.
    fn decide(&mut self, engine: &Engine, source: &[u8], uses_dfa: bool, watch: &mut impl MatchObserver) {
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
        for (learnt, paths) in [(&mut self.main, &population.main), (&mut self.recent, &population.recent)] {
            if uses_dfa {
                learnt.decide(&mut run, &mut self.decisions, paths, watch);
            } else {
                run.simulate(&mut self.decisions, paths);
            }
            if watch.has_enough(&mut self.decisions) {
                return;
            }
        }
        for &query in &population.always {
            run.evaluate_whole(&mut self.decisions, query);
        }
    }

    /// Decide the queries that are not in the automata. If not `marks`, those that the guide decides are left to it.
    fn run_guided(&mut self, engine: &Engine, source: &[u8], marks: bool) {
        let message = Message { source, document: &self.document };
        // Also where there are no such queries any more: what was found on another message is not to be delivered.
        if !self.guide.run((engine.identity, &engine.interner), &engine.classes, message) {
            if engine.classes.is_empty() {
                return;
            }
            let queries: Vec<u32> = engine.classes.queries().collect();
            return self.run_alone(engine, source, &queries);
        }
        if marks {
            let matched = &mut self.decisions.matched;
            self.guide.for_each_match(|query| matched.insert(query));
        }
        if !self.guide.recent().is_empty() {
            let recent = self.guide.recent().to_vec();
            self.run_alone(engine, source, &recent);
        }
    }

    /// Decide queries that rewrite one by one.
    fn run_alone(&mut self, engine: &Engine, source: &[u8], queries: &[u32]) {
        let message = Message { source, document: &self.document };
        let mut payloads = Payloads::default();
        let mut session = engine.session(message, &mut payloads);
        for &query in queries {
            match engine.program(query).map_or(Ok(false), |program| session.matches_member(program)) {
                Ok(true) => self.decisions.matched.insert(query),
                Ok(false) => {}
                Err(error) => self.decisions.failures.push((query, error)),
            }
        }
    }

    /// Lead both automata over the document; false if a cache is full.
    fn lead_all(&mut self, engine: &Engine) -> bool {
        let layers = SegmentCaches::new(engine, &mut self.main, &mut self.recent);
        self.walk.lead(&self.document, layers, self.message_number, &mut self.decisions.matched).is_ok()
    }
}

/// What may be read of a message for values of its elements: as much as one query may look at, and all that is there a few
/// times.
fn values_max(engine: &Engine, message: Message<'_>) -> u64 {
    let all = message.document.nodes.len() as u64 + message.source.len() as u64 / 64;
    engine.limits.query_visits_max as u64 + VALUES_TIMES * all
}

fn reading<'a>(
    engine: &'a Engine,
    dictionary: &'a Dictionary,
    options: RecordOptions,
    checks: CheckLevel,
) -> DecodeOptions<'a> {
    let Engine { vocabulary, limits, identity, .. } = engine;
    DecodeOptions { dictionary, vocabulary, identity: *identity, limits, record: options, checks }
}
