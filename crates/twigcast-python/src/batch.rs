//! Matches many messages in one call, without an object per message.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use twigcast_core::engine as core;
use twigcast_core::engine::{Matcher, MessageDeliveries};
use twigcast_core::error::MessageError;
use twigcast_core::rewrite::Payloads;
use twigcast_core::util::temporal::Temporal;

use crate::buffers::ThreadMatches;
use crate::engine_handle::{Engine, key_of};
use crate::external::{ExternalMatch, external_matches};
use crate::keys::Keys;
use crate::locks::lock;
use crate::ordered_output::{self, Matches, OrderedOutput, OrderedPayloads, ThreadPayloads};

/// The number of messages that a thread takes at a time.
const SHARE: usize = 4;

/// The most threads that share a batch, however many are asked for: each has caches of its own.
const THREADS_MAX: usize = 256;

/// Messages laid out as an Arrow large-binary array, or a slice of one.
pub struct MessageRows<'a> {
    offsets: &'a [u8],
    /// The first offset, which is where the data begin.
    base: usize,
    data: &'a [u8],
    count: usize,
    /// When each was published, in microseconds since 1970, if that is not now.
    published: Option<Vec<i64>>,
}

impl<'a> MessageRows<'a> {
    /// Creates the messages of a batch; `None` if the offsets do not describe slices of the data.
    pub fn new(offsets: &'a [u8], data: &'a [u8], count: usize) -> Option<Self> {
        let mut rows = Self { offsets, base: 0, data, count, published: None };
        if offsets.len() / 8 <= count {
            return None;
        }
        rows.base = rows.offset(0)?;
        let mut previous = 0;
        for index in 1..=count {
            let next = rows.offset(index)?;
            if next < previous || next > data.len() {
                return None;
            }
            previous = next;
        }
        Some(rows)
    }

    /// Returns the messages with the times at which they were published.
    pub fn published(self, published: Option<Vec<i64>>) -> Self {
        Self { published, ..self }
    }

    fn offset(&self, index: usize) -> Option<usize> {
        let bytes = self.offsets.get(index * 8..index * 8 + 8)?;
        usize::try_from(i64::from_le_bytes(bytes.try_into().ok()?)).ok()?.checked_sub(self.base)
    }

    /// Returns a message.
    fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.data.get(self.offset(index)?..self.offset(index + 1)?)
    }
}

/// The meaning of the matches in the answer to a batch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// Slots, without keys.
    Slots,
    /// Positions in a table of keys.
    Keys,
    /// Positions in a table of lists of keys, one for each query.
    Groups,
}

/// The content of the answer to a batch.
#[derive(Clone, Copy)]
pub struct BatchOptions {
    /// `true` for payloads.
    pub deliver: bool,
    /// `true` for numbers of selected nodes.
    pub nodes: bool,
    pub naming: Naming,
}

impl BatchOptions {
    fn is_grouped(self) -> bool {
        self.naming == Naming::Groups
    }
}

/// The answers to some messages in a row.
#[derive(Default)]
pub struct BatchChunk {
    /// The position of the share among all, in the order of the messages.
    pub number: usize,
    /// The number of slots, or queries, up to the end of each message.
    pub ends: Vec<usize>,
    /// The number of subscriptions that each message matched, if the matches are queries.
    pub match_counts: Vec<u32>,
    pub node_counts: Vec<u32>,
    /// Rows and errors of rejected messages.
    pub errors: Vec<(usize, MessageError)>,
    /// Row, key and reason of subscriptions that could not be decided.
    pub failures: Vec<(usize, String, String)>,
}

/// The answers in the order of the messages, and all payloads.
pub struct BatchOutput {
    pub shares: Vec<BatchChunk>,
    /// The slots that the messages matched, one message after the other, or the queries.
    pub matches: ThreadMatches<u32>,
    /// The index of each match's payload, if asked for; [`MessageDeliveries::WHOLE`] is the message itself.
    pub numbers: ThreadMatches<u32>,
    /// The table that the matches are positions in, unless they are slots.
    pub keys: Option<Arc<Keys>>,
    /// The matches that another processor decides.
    pub external: Vec<ExternalMatch>,
    /// The different payloads, in the order of their indices.
    pub payloads: ThreadPayloads,
}

/// Matches all rows, on several threads, against the population as it is at one moment.
pub fn run(engine: &Engine, rows: &MessageRows<'_>, options: BatchOptions, threads: usize) -> BatchOutput {
    let threads = threads.clamp(1, THREADS_MAX);
    // Before the version: see `Engine::take_matcher`.
    let matchers = (0..threads.min(rows.count)).map(|_| engine.take_matcher()).collect();
    let core = engine.read();
    let mut output = match_all(engine, &core, rows, options, (threads, matchers));
    if core.has_external() && !options.is_grouped() {
        output.external = output.external_matches(&core);
    }
    let matches = output.matches.all_mut();
    output.keys = match options.naming {
        Naming::Slots => None,
        Naming::Keys => Some(engine.newest_key_table().of_slots(&core, matches)),
        Naming::Groups => {
            let keys = output.shares.iter().flat_map(|share| &share.match_counts).map(|&count| count as usize).sum();
            Some(engine.newest_group_table().of_queries(&core, matches, keys))
        }
    };
    let is_due = core.is_cover_choice_due();
    drop(core);
    engine.choose_covers(is_due);
    output
}

impl BatchOutput {
    fn external_matches(&self, core: &core::Engine) -> Vec<ExternalMatch> {
        let mut rest = self.matches.all();
        let mut all = Vec::new();
        let (mut row, mut first) = (0, 0);
        for share in &self.shares {
            let mut start = 0;
            for &end in &share.ends {
                let (slots, further) = rest.split_at(end - start);
                all.extend(external_matches(core, row, first, slots));
                (rest, start, row, first) = (further, end, row + 1, first + slots.len());
            }
        }
        all
    }
}

fn match_all(
    engine: &Engine,
    core: &core::Engine,
    rows: &MessageRows<'_>,
    options: BatchOptions,
    (threads, matchers): (usize, Vec<Matcher>),
) -> BatchOutput {
    let rewrites = options.deliver && core.has_rewriting();
    let (share, next) = (if rewrites { 1 } else { SHARE }, AtomicUsize::new(0));
    let work = BatchWork { engine, core, rows, options, share, next, matchers: Mutex::new(matchers) };
    let threads = threads.min(rows.count.div_ceil(work.share)).max(1);
    let buffers = engine.buffers();
    let bytes = if rewrites { buffers.payloads.take() } else { Vec::new() };
    let (shares, matches_found, numbers, payloads) = if threads == 1 {
        let (mut matches, mut payloads) = (Matches::within(&buffers.matches), Payloads::default().with_memory(bytes));
        let shares = work.take_shares(&mut matches, &mut payloads, |_, _, _| ());
        (shares, matches.slots.into(), matches.payloads.into(), ThreadPayloads::of(payloads))
    } else {
        let lists = (buffers.matches.take(), buffers.matches.take());
        let ((parts, payloads), matches_found, numbers) =
            ordered_output::in_order(lists, &buffers.scratch, |in_order| {
                ordered_output::in_one_buffer(bytes, |together| {
                    on_threads(threads, &|| work.take_gathered(in_order, together))
                })
            });
        let mut shares: Vec<BatchChunk> = parts.into_iter().flatten().collect();
        shares.sort_unstable_by_key(|share| share.number);
        (shares, matches_found, numbers, payloads)
    };
    BatchOutput { shares, matches: matches_found, numbers, keys: None, external: Vec::new(), payloads }
}

/// Runs `work` on several threads, this one among them. If the system gives no more threads, the others do all of it.
fn on_threads<T: Send>(threads: usize, work: &(impl Fn() -> T + Sync)) -> Vec<T> {
    std::thread::scope(|scope| {
        let others: Vec<_> =
            (1..threads).map_while(|_| std::thread::Builder::new().spawn_scoped(scope, work).ok()).collect();
        let mut all = vec![work()];
        for other in others {
            match other.join() {
                Ok(part) => all.push(part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    })
}

/// A batch that threads share.
struct BatchWork<'a> {
    engine: &'a Engine,
    core: &'a core::Engine,
    rows: &'a MessageRows<'a>,
    options: BatchOptions,
    /// The number of messages that a thread takes at a time.
    share: usize,
    /// The first share that no thread has taken.
    next: AtomicUsize,
    /// For threads that have not begun.
    matchers: Mutex<Vec<Matcher>>,
}

impl BatchWork<'_> {
    /// Answers shares until none is left, and adds the answers to those of other threads.
    fn take_gathered(&self, in_order: &OrderedOutput<'_>, together: &OrderedPayloads<'_>) -> Vec<BatchChunk> {
        let scratch = &self.engine.buffers().scratch_payloads;
        let (mut matches, mut payloads) = (in_order.no_matches(), Payloads::default().with_memory(scratch.take()));
        let shares = self.take_shares(&mut matches, &mut payloads, |share, matches, payloads| {
            together.put(payloads, &mut matches.payloads);
            in_order.put(share, std::mem::replace(matches, in_order.no_matches()));
        });
        in_order.give_back(matches);
        scratch.give_back(payloads.into_parts().0);
        shares
    }

    /// Answers shares until none is left, and calls `done` with each.
    fn take_shares(
        &self,
        matches: &mut Matches,
        payloads: &mut Payloads,
        mut done: impl FnMut(usize, &mut Matches, &mut Payloads),
    ) -> Vec<BatchChunk> {
        let mut shares = Vec::new();
        let mut matcher = lock(&self.matchers).pop().unwrap_or_default();
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let start = number * self.share;
            if start >= self.rows.count {
                break;
            }
            let before = matches.slots.len();
            let mut share = BatchChunk { number, ..BatchChunk::default() };
            for row in start..(start + self.share).min(self.rows.count) {
                if let Some(source) = self.rows.get(row) {
                    let published = self.rows.published.as_ref().and_then(|times| times.get(row));
                    matcher.published = published.map(|&time| Temporal::number_of_microseconds(time));
                    share.answer(self.core, &mut matcher, (row, source), self.options, (matches, payloads));
                }
                share.ends.push(matches.slots.len() - before);
                share.match_counts.resize(if self.options.is_grouped() { share.ends.len() } else { 0 }, 0);
            }
            done(number, matches, payloads);
            shares.push(share);
        }
        self.engine.give_back(matcher);
        shares
    }
}

impl BatchChunk {
    /// Returns the number of slots, or queries, that its messages matched.
    pub fn match_count(&self) -> usize {
        self.ends.last().copied().unwrap_or_default()
    }

    fn answer(
        &mut self,
        engine: &core::Engine,
        matcher: &mut Matcher,
        (row, source): (usize, &[u8]),
        options: BatchOptions,
        (matches, payloads): (&mut Matches, &mut Payloads),
    ) {
        let rewrites = options.deliver && engine.has_rewriting();
        let run = match (options.nodes, rewrites) {
            (true, _) => engine.run_counting(matcher, source),
            (false, true) => engine.run_delivering(matcher, source),
            (false, false) => engine.run_expanding(matcher, source),
        };
        if let Err(error) = run {
            self.errors.push((row, error));
            return;
        }
        for (slot, reason) in engine.failures(matcher) {
            self.failures.push((row, key_of(engine, slot), reason));
        }
        let Matches { slots, payloads: numbers } = matches;
        let first = slots.len();
        if options.is_grouped() {
            engine.matched_queries(matcher, slots);
            self.match_counts.push(engine.match_count(matcher) as u32);
        } else if rewrites {
            let failed = engine.deliver_to(matcher, source, payloads, (slots, numbers));
            self.failures
                .extend(failed.into_iter().map(|(slot, reason)| (row, key_of(engine, slot), reason.to_string())));
        } else {
            engine.slots(matcher, slots);
            let whole = if options.deliver { slots.len() - first } else { 0 };
            numbers.resize(numbers.len() + whole, MessageDeliveries::WHOLE);
        }
        if options.nodes {
            for &slot in &slots[first..] {
                let count = engine.node_count(matcher, source, slot).unwrap_or_else(|reason| {
                    self.failures.push((row, key_of(engine, slot), reason.to_string()));
                    0
                });
                self.node_counts.push(count as u32);
            }
        }
    }
}
