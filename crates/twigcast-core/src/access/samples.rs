//! Samples of the values that messages have, so that covers are chosen by what messages show.
//!
//! Of one message in [`SAMPLED_EVERY`], and of each of the first ones, attributes and elements without children are noted by
//! name: how many a message has, and some of their values. A test that compares them is expected to hold as often as it
//! does of these values. What is older counts less. Beside that stand the tests that have led to queries in vain: of these it
//! is known how often they hold, for a while, whatever the samples say. Samples change what matching costs, and never an
//! answer.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

use rustc_hash::{FxHashMap, FxHashSet};

use super::conditions::{SharedConditions, hash_operand, hash_text_of, hash_value_test};
use super::value_counts::ValueCounts;
use crate::document::{Message, NodeId, NodeKind};
use crate::ids::{ConditionId, OperandId};
use crate::plan::{Operand, Relation, ValueTest};
use crate::query::ast::{Axis, Expr, NameTest, NodeTest, Path};
use crate::scan::ScanOptions;
use crate::vocabulary::Name;

/// One message in so many is sampled, and each of the first ones.
const SAMPLED_EVERY: u64 = 16;
const SAMPLED_FIRST: u64 = 64;
/// So many messages have to be sampled before anything is concluded.
const SAMPLED_MIN: f32 = 8.0;
/// After so many sampled messages, all before count half.
const HALVED_AFTER: f32 = 256.0;
/// Nodes of a message that are looked at.
const NODES_MAX: usize = 4_096;
/// Names of which values are kept, the values of each, and the longest one in bytes: four megabytes at most.
const NAMES_MAX: usize = 1_024;
const VALUES_MAX: usize = 32;
const VALUE_BYTES_MAX: usize = 128;
/// Values of expressions that are counted in one message.
const COUNTED_MAX: usize = 8_192;
/// Tests that are counted where they lead to queries in vain.
const TESTS_MAX: usize = 16_384;
/// Queries that may be verified in vain for each message before other covers are looked for. Another choice puts the main
/// segment together again and makes matchers learn its states again, tens of milliseconds; below some ten microseconds a
/// message it does not pay.
const VAIN_MAX: f32 = 256.0;
/// Sampled messages between two choices; four times as many each time that nothing better was found, and twice as many each
/// time that something was, so that covers that go back and forth do so ever more seldom.
const CHOICE_AFTER: f32 = 32.0;
const CHOICE_AFTER_MAX: f32 = 8_192.0;
/// Sampled messages after which it is looked at, once, whether triggers are found better by other values.
const REVIEWED_AFTER: u64 = 32;
/// Sampled messages for which it is believed how often a test held, before the samples are believed again.
const OBSERVED_FOR: u64 = 128;
/// Tests of which that is known.
const OBSERVED_MAX: usize = 16_384;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum SampledName {
    Attribute(Name),
    Element(Name),
}

/// What is known of the values that have a name.
#[derive(Debug, Default)]
struct NameSample {
    /// How many the sampled messages had, older ones counting less.
    occurrences: f32,
    /// Some of them, and the one to be replaced next.
    values: Vec<String>,
    next: usize,
}

/// A count of how often a test has led to queries.
#[derive(Clone, Copy, Debug, Default)]
pub struct TestVisits {
    /// Elements at which it held.
    pub elements: u32,
    /// Queries that were verified in vain there.
    pub in_vain: u32,
}

/// How often a test held that was looked up.
#[derive(Clone, Copy, Debug)]
struct ObservedTest {
    /// Times a message.
    times: f32,
    /// The sampled message when that was known.
    message: u64,
}

/// The words of a text: an operand, and hashes of its values ([`hash_text_of`]).
#[derive(Debug)]
pub struct SampledWords {
    /// The operand.
    pub operand: OperandId,
    /// The hashes, each as often as the word is there.
    pub hashes: Vec<u64>,
}

/// The values that the operands of a message have.
pub struct SampledValues<'s, O> {
    /// Operands with their values, those aside that are words.
    pub operands: O,
    /// The words of texts.
    pub words: &'s [SampledWords],
    /// The conditions that have these operands.
    pub conditions: &'s SharedConditions,
}

/// A count of what has led to queries in vain since covers were chosen last.
#[derive(Debug, Default)]
pub struct VainVisits {
    /// The tests, each with how often it held in a message.
    pub tests: FxHashMap<ConditionId, f32>,
    /// The queries that got their covers then, if more are verified in vain now than before.
    pub chosen_badly: FxHashSet<u32>,
    /// Triggers that may be found by another value are to be looked at too, for the first time.
    pub reviews_triggers: bool,
}

/// Queries for which covers are being chosen, some at a time.
#[derive(Debug, Default)]
pub struct CoverChoice {
    /// The queries to be looked at, each with how often its tests held in a message. Those that are led to most often come
    /// last.
    pub waiting: Vec<(u32, f32)>,
    /// See [`VainVisits::chosen_badly`].
    pub chosen_badly: FxHashSet<u32>,
    /// The queries that have got another cover so far.
    pub chosen: FxHashSet<u32>,
}

#[derive(Debug)]
struct SampleState {
    by_name: FxHashMap<SampledName, NameSample>,
    /// The values of operands that are expressions.
    counts: ValueCounts,
    /// Sampled messages, older ones counting less.
    messages: f32,
    visits: FxHashMap<ConditionId, TestVisits>,
    in_vain: f32,
    /// Sampled messages since covers were chosen last, and how many there are to be before they are chosen again.
    since_choice: f32,
    choice_after: f32,
    /// By the hash of a test, how often it held.
    observed: FxHashMap<u64, ObservedTest>,
    /// All sampled messages.
    message: u64,
    /// Triggers have been looked at.
    is_reviewed: bool,
    /// The queries of which covers were chosen last, and the queries that were verified in vain for a message before.
    chosen: FxHashSet<u32>,
    in_vain_before: f32,
    /// The choices so far that found something, one less for each time since that none was due.
    choices: u32,
    /// The choice that has begun, if there is more to choose.
    begun: Option<CoverChoice>,
    random: u64,
}

/// Values that messages have had lately. See the module's documentation.
#[derive(Debug)]
pub struct ValueSamples {
    state: Mutex<SampleState>,
    is_choice_due: AtomicBool,
}

impl Default for ValueSamples {
    fn default() -> Self {
        let state = SampleState {
            by_name: FxHashMap::default(),
            counts: ValueCounts::default(),
            messages: 0.0,
            visits: FxHashMap::default(),
            in_vain: 0.0,
            since_choice: 0.0,
            choice_after: CHOICE_AFTER,
            observed: FxHashMap::default(),
            message: 0,
            is_reviewed: false,
            chosen: FxHashSet::default(),
            in_vain_before: f32::INFINITY,
            choices: 0,
            begun: None,
            random: 1,
        };
        Self { state: Mutex::new(state), is_choice_due: AtomicBool::new(false) }
    }
}

/// Returns whether a thread samples the message of a number.
pub fn is_sampled(message_number: u64) -> bool {
    message_number <= SAMPLED_FIRST || message_number.is_multiple_of(SAMPLED_EVERY)
}

impl ValueSamples {
    /// Locks the samples, unless another thread has them. Nobody waits for that: a child process in which no thread lets
    /// the lock go goes on without samples.
    fn state(&self) -> Option<MutexGuard<'_, SampleState>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Notes the values of a message, of which so much was recorded, those that operands have there, and the tests that have
    /// led to queries. Where another thread is doing so, the message is passed over. `has_triggers`: there
    /// are triggers that may be found by another value.
    pub fn note<'o>(
        &self,
        message: Message<'_>,
        recorded: ScanOptions,
        values: SampledValues<'_, impl Iterator<Item = (&'o Operand, &'o [Cow<'o, str>])>>,
        visits: &[(ConditionId, TestVisits)],
        has_triggers: bool,
    ) {
        let Some(mut state) = self.state() else { return };
        state.message += 1;
        state.note_values(message, recorded);
        let mut left = COUNTED_MAX;
        for (operand, values) in values.operands.filter(|(operand, _)| is_counted(operand)) {
            let Some(rest) = left.checked_sub(values.len()) else { break };
            left = rest;
            let operand = hash_operand(operand);
            state.counts.note(operand, values.iter().map(|value| hash_text_of(operand, value)));
        }
        for SampledWords { operand, hashes } in values.words {
            let Some(shared) = values.conditions.operand(*operand).filter(|_| hashes.len() <= left) else { break };
            left -= hashes.len();
            state.counts.note(hash_operand(&shared.operand), hashes.iter().copied());
        }
        for &(test, seen) in visits {
            if state.visits.len() < TESTS_MAX || state.visits.contains_key(&test) {
                let all = state.visits.entry(test).or_default();
                all.elements += seen.elements;
                all.in_vain += seen.in_vain;
            }
            state.in_vain += seen.in_vain as f32;
        }
        state.since_choice += 1.0;
        if has_triggers && !state.is_reviewed && state.message >= REVIEWED_AFTER {
            self.is_choice_due.store(true, Ordering::Relaxed);
        } else if state.since_choice >= state.choice_after {
            if state.in_vain > VAIN_MAX * state.since_choice {
                self.is_choice_due.store(true, Ordering::Relaxed);
            } else {
                let after = state.choice_after;
                state.choices = state.choices.saturating_sub(1);
                state.begin_choice(after);
            }
        }
    }

    /// Returns how often a test of an element is expected to hold, from 0 (never) to 1. For a test that is expected to hold n
    /// times in a message, that is n / (1 + n), which comes close to 1 for several times in each message. `assumed` is the
    /// expectation without any messages; it is returned where too little is known of the values.
    pub fn expected(&self, element: NameTest, test: &ValueTest, assumed: f32) -> f32 {
        let Some(state) = self.state().filter(|state| state.messages >= SAMPLED_MIN) else { return assumed };
        if let Some(times) = state.observed(test) {
            return times / (1.0 + times);
        }
        if is_counted(&test.operand)
            && let Relation::Equals(text) = &test.relation
        {
            let times = state.counts.times(test, text, assumed, state.messages);
            return times.map_or(assumed, |times| times / (1.0 + times));
        }
        let Some(name) = sampled_name(&test.operand, element) else { return assumed };
        let holds_of_none = matches!(test.relation, Relation::NoneEquals(_) | Relation::NoneWithin(_));
        let rare = if holds_of_none { assumed } else { assumed.min(1.0 / state.messages) };
        let Some(sample) = state.by_name.get(&name) else {
            return if state.by_name.len() < NAMES_MAX { rare } else { assumed };
        };
        let count = sample.values.len();
        if count == 0 {
            return assumed;
        }
        let passing = sample.values.iter().filter(|value| test.holds_of(value)).count();
        let share = if passing == 0 { assumed.min(1.0 / (count + 1) as f32) } else { passing as f32 / count as f32 };
        let occurrences = sample.occurrences / state.messages;
        // Where there is no value, no value is one of those that are excluded.
        let absent = if holds_of_none { (1.0 - occurrences).max(0.0) } else { 0.0 };
        let times = share * occurrences + absent;
        times / (1.0 + times)
    }

    /// Returns whether so many queries are verified in vain that others of their values should be looked up.
    pub fn is_choice_due(&self) -> bool {
        self.is_choice_due.load(Ordering::Relaxed)
    }

    /// Returns the choice of covers that has begun, if there is more to choose.
    pub fn begun_choice(&self) -> Option<CoverChoice> {
        let choice = self.state()?.begun.take();
        if choice.is_some() {
            self.is_choice_due.store(false, Ordering::Relaxed);
        }
        choice
    }

    /// Keeps a choice of covers that is to go on with the next message.
    pub fn go_on_with(&self, choice: CoverChoice) {
        if let Some(mut state) = self.state() {
            state.begun = Some(choice);
            self.is_choice_due.store(true, Ordering::Relaxed);
        }
    }

    /// Returns what has led to queries in vain, and begins to count anew.
    pub fn take_visits(&self) -> VainVisits {
        self.is_choice_due.store(false, Ordering::Relaxed);
        let Some(mut state) = self.state() else { return VainVisits::default() };
        let messages = state.since_choice.max(1.0);
        let visits = state.visits.drain().filter(|(_, seen)| seen.in_vain > 0);
        // Of many tests that hold seldom, those that did are the ones that did so by chance: what is sure is less.
        let surely = |count: u32| count as f32 - (count as f32).sqrt();
        let tests = visits.map(|(test, seen)| (test, surely(seen.elements) / messages)).collect();
        let in_vain = state.in_vain / messages;
        let chosen = std::mem::take(&mut state.chosen);
        let chosen_badly = if in_vain > state.in_vain_before { chosen } else { FxHashSet::default() };
        state.in_vain_before = in_vain;
        let after = (state.choice_after * 4.0).min(CHOICE_AFTER_MAX);
        state.begin_choice(after);
        let reviews_triggers = !state.is_reviewed && state.message >= REVIEWED_AFTER;
        state.is_reviewed |= reviews_triggers;
        VainVisits { tests, chosen_badly, reviews_triggers }
    }

    /// Notes how often tests held in a message, so that this is expected of them for a while.
    pub fn observe<'t>(&self, tests: impl Iterator<Item = (&'t ValueTest, f32)>) {
        let Some(mut state) = self.state() else { return };
        let message = state.message;
        state.observed.retain(|_, seen| seen.message + OBSERVED_FOR > message);
        for (test, times) in tests {
            if state.observed.len() < OBSERVED_MAX {
                state.observed.insert(hash_value_test(test), ObservedTest { times, message });
            }
        }
    }

    /// Begins to count anew, after covers of some queries were chosen, so that more may be chosen soon.
    pub fn expect_more(&self, chosen: FxHashSet<u32>) {
        if let Some(mut state) = self.state() {
            state.chosen = chosen;
            let after = CHOICE_AFTER * (1_u32 << state.choices.min(8)) as f32;
            state.choices += 1;
            state.begin_choice(after);
        }
    }

    /// Returns the bytes on the heap, by estimate.
    pub fn bytes(&self) -> usize {
        let Some(state) = self.state() else { return 0 };
        let values = state.by_name.values().flat_map(|sample| sample.values.iter().map(String::capacity));
        values.sum::<usize>()
            + state.by_name.capacity() * size_of::<(SampledName, NameSample)>()
            + state.counts.bytes()
            + state.visits.capacity() * size_of::<(ConditionId, TestVisits)>()
    }
}

impl SampleState {
    /// Returns how often a test holds in a message, if that is known from looking it up.
    fn observed(&self, test: &ValueTest) -> Option<f32> {
        if self.observed.is_empty() {
            return None;
        }
        let seen = self.observed.get(&hash_value_test(test))?;
        (seen.message + OBSERVED_FOR > self.message).then_some(seen.times)
    }

    fn begin_choice(&mut self, after: f32) {
        self.visits.clear();
        (self.in_vain, self.since_choice, self.choice_after) = (0.0, 0.0, after);
    }

    fn note_values(&mut self, message: Message<'_>, recorded: ScanOptions) {
        self.messages += 1.0;
        if self.messages > HALVED_AFTER {
            self.messages /= 2.0;
            self.by_name.values_mut().for_each(|sample| sample.occurrences /= 2.0);
            self.counts.halve();
        }
        let nodes = &message.document.nodes;
        for node in
            (0..nodes.len().min(NODES_MAX) as NodeId).filter(|&node| nodes[node as usize].kind == NodeKind::Element)
        {
            if recorded.attributes {
                for attribute in message.document.attributes_of(node) {
                    self.note_value(SampledName::Attribute(attribute.name), || message.attribute_value(attribute));
                }
            }
            let has_elements =
                || message.document.children(node).any(|child| nodes[child as usize].kind == NodeKind::Element);
            if recorded.text && !has_elements() {
                self.note_value(SampledName::Element(nodes[node as usize].name), || message.string_value(node));
            }
        }
    }

    fn note_value<'a>(&mut self, name: SampledName, value: impl FnOnce() -> std::borrow::Cow<'a, str>) {
        if self.by_name.len() >= NAMES_MAX && !self.by_name.contains_key(&name) {
            return;
        }
        let sample = self.by_name.entry(name).or_default();
        sample.occurrences += 1.0;
        // About two values of each message are kept, so that they come from many messages.
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let per_message = (sample.occurrences / self.messages / 2.0).max(1.0) as u64;
        if !(self.random >> 33).is_multiple_of(per_message) {
            return;
        }
        let value = value();
        if value.len() > VALUE_BYTES_MAX {
            return;
        }
        if sample.values.len() < VALUES_MAX {
            sample.values.push(value.into_owned());
            return;
        }
        let kept = &mut sample.values[sample.next];
        kept.clear();
        kept.push_str(&value);
        sample.next = (sample.next + 1) % VALUES_MAX;
    }
}

/// Returns whether values of an operand are counted, since no name says where they come from.
fn is_counted(operand: &Operand) -> bool {
    match operand {
        Operand::Nodes(expr) | Operand::Text(expr) => !matches!(**expr, Expr::Path(_)),
        _ => false,
    }
}

/// Returns the name of the values that an operand of an element has, if that is known.
fn sampled_name(operand: &Operand, element: NameTest) -> Option<SampledName> {
    let of_path = |path: &Expr| {
        let Expr::Path(Path { steps, .. }) = path else { return None };
        let last = steps.last()?;
        match (last.axis, &last.test) {
            (Axis::Attribute, NodeTest::Name(NameTest::Name(name))) => Some(SampledName::Attribute(*name)),
            (Axis::SelfAxis, NodeTest::Node) => match element {
                NameTest::Name(name) => Some(SampledName::Element(name)),
                _ => None,
            },
            (_, NodeTest::Name(NameTest::Name(name))) => Some(SampledName::Element(*name)),
            _ => None,
        }
    };
    match operand {
        Operand::Attribute(name) => Some(SampledName::Attribute(*name)),
        Operand::Children(NameTest::Name(name)) => Some(SampledName::Element(*name)),
        Operand::Own | Operand::Texts => match element {
            NameTest::Name(name) => Some(SampledName::Element(name)),
            _ => None,
        },
        Operand::Nodes(path) => of_path(path),
        // A conversion of a node, or nodes themselves.
        Operand::Typed(_, expr) => match &**expr {
            Expr::Call { .. } if Operand::typed_source(expr).is_none() => None,
            Expr::Call { arguments, .. } => of_path(arguments.first()?),
            path => of_path(path),
        },
        Operand::Children(_) | Operand::Text(_) | Operand::Number(_) | Operand::Places(_) => None,
    }
}
