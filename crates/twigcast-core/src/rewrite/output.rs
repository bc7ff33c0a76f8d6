//! The bytes of results.
//!
//! All results of a message, and of the messages after it, go to one buffer, one after the other. Where there is a
//! [`Sink`] the buffer is emptied into it whenever it is full, also in the middle of a result, so that a large result is
//! never in memory twice.

use super::ExtractError;
use super::run_buffer::{RunAppender, RunBuffer, SteppedMemory};

/// Bytes that wait for a sink before they are handed over.
pub(super) const CHUNK_BYTES: usize = 1 << 20;

/// Results that are put together before others are asked for, at most: where each ends is written over zeros.
const RESULTS_AT_ONCE: usize = 1 << 12;

/// The text between two runs that may not arise from them is no longer than this and one more.
const LOOKBACK_BYTES: usize = 2;

/// Where finished bytes go.
pub trait Sink: Send {
    /// Takes the next bytes. `ends` are the places in them at which results end, ascending.
    fn take(&mut self, bytes: &[u8], ends: &[usize]);

    /// Forgets what was taken of the result that has not ended.
    fn drop_open(&mut self);
}

/// Results, numbered in the order in which they are finished.
#[derive(Default)]
pub struct Payloads {
    bytes: RunBuffer,
    /// Bytes that the sink has taken, all before `bytes`.
    taken: u64,
    /// Where the result under construction starts, counted from the first byte of all.
    start: u64,
    /// Where each result ends.
    ends: Vec<u64>,
    /// Results whose ends the sink knows.
    ended: usize,
    sink: Option<Box<dyn Sink>>,
    /// Bytes that the result under construction may still grow by, and that one may have.
    bytes_left: usize,
    bytes_max: usize,
}

impl Payloads {
    /// None yet; they go to a sink.
    pub fn into_sink(sink: Box<dyn Sink>) -> Self {
        Self { sink: Some(sink), ..Self::default() }
    }

    /// None yet; `room` is memory for their bytes that was used before.
    pub fn with_memory(mut self, memory: Vec<u8>) -> Self {
        self.bytes = RunBuffer::within(memory);
        self
    }

    /// The bytes of all results, where no sink took any, and where each ends. Behind the last end there may be bytes of
    /// no meaning; memory given to [`Self::with_memory`] with those is ready the sooner.
    pub fn into_parts(mut self) -> (Vec<u8>, Vec<u64>) {
        self.drop_open();
        (self.bytes.into_memory(), self.ends)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// None?
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Where each ends, counted from the first byte of all.
    pub fn ends(&self) -> &[u64] {
        &self.ends
    }

    /// The bytes that no sink has taken.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.bytes()
    }

    /// A result that no sink has taken.
    pub fn get(&self, number: usize) -> Option<&[u8]> {
        let start = if number == 0 { 0 } else { *self.ends.get(number - 1)? };
        let position = |at: u64| Some(at.checked_sub(self.taken)? as usize);
        self.bytes().get(position(start)?..position(*self.ends.get(number)?)?)
    }

    /// Makes sure that there is memory for so many bytes more.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn reserve(&mut self, bytes: usize) -> Result<(), ExtractError> {
        self.bytes.reserve(bytes).map_err(|_| ExtractError::NoMemory { bytes })
    }

    /// Hands all that is left to the sink, and lets go of it.
    pub fn close(&mut self) {
        self.drop_open();
        self.hand_over(self.bytes.len());
        self.sink = None;
    }

    /// Forgets the result under construction.
    #[inline]
    fn drop_open(&mut self) {
        if self.position() > self.start {
            self.bytes.truncate(self.open_from());
            if self.taken > self.start {
                self.taken = self.start;
                if let Some(sink) = &mut self.sink {
                    sink.drop_open();
                }
            }
        }
    }

    /// Where the result under construction starts in `bytes`, as far as it is there.
    fn open_from(&self) -> usize {
        self.start.saturating_sub(self.taken) as usize
    }

    fn position(&self) -> u64 {
        self.taken + self.bytes.len() as u64
    }

    fn hand_over(&mut self, count: usize) {
        let Some(sink) = &mut self.sink else { return };
        let ends: Vec<usize> = self.ends[self.ended..].iter().map(|&end| (end - self.taken) as usize).collect();
        self.ended = self.ends.len();
        sink.take(&self.bytes.bytes()[..count], &ends);
        self.bytes.drop_front(count);
        self.taken += count as u64;
    }
}

/// The result under construction.
pub(super) struct Output<'a> {
    payloads: &'a mut Payloads,
}

impl<'a> Output<'a> {
    pub fn new(payloads: &'a mut Payloads, bytes_max: usize) -> Self {
        payloads.bytes_max = bytes_max;
        Self { payloads }
    }

    /// Begins a result, without anything of an unfinished one.
    pub fn begin(&mut self) {
        self.payloads.drop_open();
        self.payloads.bytes_left = self.payloads.bytes_max;
    }

    /// Ends the result; its number.
    #[inline]
    pub fn finish(&mut self) -> u32 {
        let payloads = &mut *self.payloads;
        payloads.start = payloads.position();
        payloads.ends.push(payloads.start);
        if payloads.bytes.len() >= CHUNK_BYTES {
            payloads.hand_over(payloads.bytes.len());
        }
        payloads.ends.len() as u32 - 1
    }

    /// A place in the result.
    pub fn position(&self) -> u64 {
        self.payloads.position()
    }

    /// The bytes since a place, unless they are gone to the sink.
    pub fn since(&self, position: u64) -> Option<&[u8]> {
        self.payloads.bytes().get(position.checked_sub(self.payloads.taken)? as usize..)
    }

    /// Appends again what was written at a place, if it has not gone to the sink.
    pub fn repeat(&mut self, position: u64, bytes: u32) -> Result<bool, ExtractError> {
        let payloads = &mut *self.payloads;
        let Some(start) = position.checked_sub(payloads.taken) else { return Ok(false) };
        let (start, length) = (start as usize, bytes as usize);
        if length > payloads.bytes_left {
            return Err(ExtractError::TooLarge { bytes_max: payloads.bytes_max });
        }
        payloads.bytes_left -= length;
        payloads.bytes.repeat(start..start + length);
        self.relieve();
        Ok(true)
    }

    /// Begins and ends a result that is known to be within the limits and to have no more than `most` bytes, no more than
    /// a chunk. `write` is told how many bytes the sink has taken.
    #[inline]
    pub fn append(&mut self, most: usize, write: impl FnOnce(u64, &mut RunAppender<'_>)) {
        self.payloads.drop_open();
        let taken = self.payloads.taken;
        self.payloads.bytes.append(most, |runs| write(taken, runs));
        self.finish();
    }

    /// Appends so many results, each known to be within the limits and to have no more than `most` bytes, no more than a
    /// chunk. `write` is asked for those from a number on while there is room in the memory that it is given, with how many
    /// bytes are before it; it is to tell where each ends, and returns how many they were and how many bytes.
    pub fn append_all(
        &mut self,
        count: usize,
        most: usize,
        write: impl Fn(usize, (SteppedMemory<'_>, u64), &mut [u64]) -> (usize, u32),
    ) {
        let payloads = &mut *self.payloads;
        payloads.drop_open();
        let enough = if payloads.sink.is_some() { CHUNK_BYTES } else { usize::MAX };
        let (first, mut done) = (payloads.ends.len(), 0);
        while done < count {
            payloads.ends.resize(first + count.min(done + RESULTS_AT_ONCE), 0);
            let ends = &mut payloads.ends[first + done..];
            done += payloads
                .bytes
                .append_in_steps((most, enough), payloads.taken, |out, before| write(done, (out, before), ends));
            payloads.ends.truncate(first + done);
            if payloads.bytes.len() >= enough {
                payloads.hand_over(payloads.bytes.len());
            }
        }
        payloads.start = payloads.position();
    }

    /// Appends bytes that are fit to stand here.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), ExtractError> {
        let payloads = &mut *self.payloads;
        if bytes.len() > payloads.bytes_left {
            return Err(ExtractError::TooLarge { bytes_max: payloads.bytes_max });
        }
        payloads.bytes_left -= bytes.len();
        payloads.bytes.push(bytes);
        self.relieve();
        Ok(())
    }

    /// Hands a full buffer to the sink.
    #[inline]
    fn relieve(&mut self) {
        let payloads = &mut *self.payloads;
        if payloads.bytes.len() >= CHUNK_BYTES && payloads.sink.is_some() {
            let open = payloads.bytes.len() - payloads.open_from();
            payloads.hand_over(payloads.bytes.len() - open.min(LOOKBACK_BYTES));
        }
    }

    fn ends_with(&self, end: &[u8]) -> bool {
        self.payloads.bytes()[self.payloads.open_from()..].ends_with(end)
    }

    /// Appends a text run as it stands in the message. `]]>` may not arise where two runs meet.
    pub fn push_raw_text(&mut self, text: &[u8]) -> Result<(), ExtractError> {
        let brackets = text.iter().take(2).take_while(|&&byte| byte == b']').count();
        let meets = text.get(brackets) == Some(&b'>') && self.ends_with(&b"]]"[brackets..]);
        if !meets || brackets == 2 {
            return self.push(text);
        }
        self.push(&text[..brackets])?;
        self.push(b"&gt;")?;
        self.push(&text[brackets + 1..])
    }

    /// Appends text, escaped for element content.
    pub fn push_text(&mut self, text: &str) -> Result<(), ExtractError> {
        escape(text, false, |bytes| self.push(bytes))
    }

    /// Appends text, escaped for an attribute in double quotes.
    pub fn push_attribute_text(&mut self, text: &str) -> Result<(), ExtractError> {
        escape(text, true, |bytes| self.push(bytes))
    }
}

/// Text as markup, in pieces. White space that a parser would change becomes references.
fn escape<E>(text: &str, in_attribute: bool, mut push: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
    let bytes = text.as_bytes();
    let mut plain = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        let reference: &[u8] = match byte {
            b'&' => b"&amp;",
            b'<' => b"&lt;",
            b'>' => b"&gt;",
            b'\r' => b"&#13;",
            b'"' if in_attribute => b"&quot;",
            b'\t' if in_attribute => b"&#9;",
            b'\n' if in_attribute => b"&#10;",
            _ => continue,
        };
        push(&bytes[plain..at])?;
        push(reference)?;
        plain = at + 1;
    }
    push(&bytes[plain..])
}

/// Text escaped for element content.
pub(super) fn escaped(text: &str, in_attribute: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let done: Result<(), std::convert::Infallible> = escape(text, in_attribute, |bytes| {
        out.extend_from_slice(bytes);
        Ok(())
    });
    match done {
        Ok(()) => out,
    }
}
