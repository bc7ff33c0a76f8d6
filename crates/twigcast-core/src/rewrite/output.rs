//! The bytes of results.
//!
//! All results of one or more messages go to one buffer, one after the other. If there is a [`Sink`], it takes the
//! bytes whenever the buffer is full, also in the middle of a result, so that a large result is never in memory twice.

use super::ExtractError;
use super::run_buffer::{RunAppender, RunBuffer, SteppedMemory};

/// Bytes in the buffer from which on the sink takes them.
pub(super) const CHUNK_BYTES: usize = 1 << 20;

/// Number of results in one call of the `write` function of [`Output::append_all`], at most.
const RESULTS_AT_ONCE: usize = 1 << 12;

/// Bytes of an open result that stay in the buffer, because [`Output::push_raw_text`] looks back at them.
const LOOKBACK_BYTES: usize = 2;

/// A receiver of the bytes of results.
pub trait Sink: Send {
    /// Takes the next bytes. `ends` are the offsets in them at which results end, ascending.
    fn take(&mut self, bytes: &[u8], ends: &[usize]);

    /// Drops the bytes of the result that has not ended.
    fn drop_open(&mut self);
}

/// Results, numbered in the order in which they end.
#[derive(Default)]
pub struct Payloads {
    bytes: RunBuffer,
    /// Number of bytes that the sink has taken; all are before `bytes`.
    taken: u64,
    /// Position of the result under construction, counted from the first byte of all.
    start: u64,
    /// End of each result, counted likewise.
    ends: Vec<u64>,
    /// Number of results whose ends the sink has received.
    ends_taken: usize,
    sink: Option<Box<dyn Sink>>,
    /// Bytes left for the result under construction, and the limit of each result.
    bytes_left: usize,
    bytes_max: usize,
    /// Bytes left for all results of the message, and their limit.
    message_bytes_left: usize,
    message_bytes_max: usize,
}

impl Payloads {
    /// Creates an empty list of results that go to a sink.
    pub fn into_sink(sink: Box<dyn Sink>) -> Self {
        Self { sink: Some(sink), ..Self::default() }
    }

    /// Uses memory of earlier results for the bytes.
    pub fn with_memory(mut self, memory: Vec<u8>) -> Self {
        self.bytes = RunBuffer::within(memory);
        self
    }

    /// Returns the bytes of all results, provided that there is no sink, and the end of each. Bytes after the last end
    /// have no meaning; passed on to [`Self::with_memory`], the memory need not be initialised again.
    pub fn into_parts(mut self) -> (Vec<u8>, Vec<u64>) {
        self.drop_open();
        (self.bytes.into_memory(), self.ends)
    }

    /// Returns the number of results.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns `true` if there are no results.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the end of each result, counted from the first byte of all.
    pub fn ends(&self) -> &[u64] {
        &self.ends
    }

    /// Returns the bytes that the sink has not taken.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.bytes()
    }

    /// Returns a result that the sink has not taken.
    pub fn get(&self, number: usize) -> Option<&[u8]> {
        let start = if number == 0 { 0 } else { *self.ends.get(number - 1)? };
        let position = |at: u64| Some(at.checked_sub(self.taken)? as usize);
        self.bytes().get(position(start)?..position(*self.ends.get(number)?)?)
    }

    /// Reserves memory for this many further bytes.
    ///
    /// # Errors
    /// The memory is not available.
    pub(super) fn reserve(&mut self, bytes: usize) -> Result<(), ExtractError> {
        self.bytes.reserve(bytes).map_err(|_| ExtractError::NoMemory { bytes })
    }

    /// Passes the remaining bytes to the sink and drops it.
    pub fn close(&mut self) {
        self.drop_open();
        self.pass_to_sink(self.bytes.len());
        self.sink = None;
    }

    /// Drops the result under construction.
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

    /// Returns where the result under construction starts in `bytes`, or 0 if the sink has taken its start.
    fn open_from(&self) -> usize {
        self.start.saturating_sub(self.taken) as usize
    }

    /// Counts the results that were written since the last one that ended, and lets the next one begin here.
    fn end_results(&mut self) {
        let end = self.position();
        self.message_bytes_left = self.message_bytes_left.saturating_sub((end - self.start) as usize);
        self.start = end;
    }

    fn position(&self) -> u64 {
        self.taken + self.bytes.len() as u64
    }

    fn pass_to_sink(&mut self, count: usize) {
        let Some(sink) = &mut self.sink else { return };
        let ends: Vec<usize> = self.ends[self.ends_taken..].iter().map(|&end| (end - self.taken) as usize).collect();
        self.ends_taken = self.ends.len();
        sink.take(&self.bytes.bytes()[..count], &ends);
        self.bytes.drop_front(count);
        self.taken += count as u64;
    }
}

/// A writer of the result under construction.
pub(super) struct Output<'a> {
    payloads: &'a mut Payloads,
}

impl<'a> Output<'a> {
    /// Creates a writer that adds results of up to `bytes_max` bytes, and of up to `message_bytes_max` together.
    pub fn new(payloads: &'a mut Payloads, bytes_max: usize, message_bytes_max: usize) -> Self {
        payloads.bytes_max = bytes_max;
        payloads.message_bytes_left = message_bytes_max;
        payloads.message_bytes_max = message_bytes_max;
        Self { payloads }
    }

    /// Returns the error of a result for which no bytes are left.
    #[cold]
    fn no_bytes_left(&self) -> ExtractError {
        let Payloads { bytes_max, message_bytes_left, message_bytes_max, .. } = *self.payloads;
        if message_bytes_left < bytes_max {
            ExtractError::OverMessageLimit { message_bytes_max }
        } else {
            ExtractError::TooLarge { bytes_max }
        }
    }

    /// Begins a result; drops an unfinished one.
    pub fn begin(&mut self) {
        self.payloads.drop_open();
        self.payloads.bytes_left = self.payloads.bytes_max.min(self.payloads.message_bytes_left);
    }

    /// Ends the result and returns its number.
    #[inline]
    pub fn finish(&mut self) -> u32 {
        let payloads = &mut *self.payloads;
        payloads.end_results();
        payloads.ends.push(payloads.start);
        if payloads.bytes.len() >= CHUNK_BYTES {
            payloads.pass_to_sink(payloads.bytes.len());
        }
        payloads.ends.len() as u32 - 1
    }

    /// Returns the position of the next byte, counted from the first byte of all.
    pub fn position(&self) -> u64 {
        self.payloads.position()
    }

    /// Returns the bytes since a position, or `None` if the sink has taken some of them.
    pub fn since(&self, position: u64) -> Option<&[u8]> {
        self.payloads.bytes().get(position.checked_sub(self.payloads.taken)? as usize..)
    }

    /// Appends bytes from a position again. Returns `false` if the sink has taken them.
    pub fn repeat(&mut self, position: u64, bytes: u32) -> Result<bool, ExtractError> {
        let Some(start) = position.checked_sub(self.payloads.taken) else { return Ok(false) };
        let (start, length) = (start as usize, bytes as usize);
        if length > self.payloads.bytes_left {
            return Err(self.no_bytes_left());
        }
        let payloads = &mut *self.payloads;
        payloads.bytes_left -= length;
        payloads.bytes.repeat(start..start + length);
        self.pass_on();
        Ok(true)
    }

    /// Appends a whole result of at most `bytes_max` bytes, which must be within the limits and at most
    /// [`CHUNK_BYTES`]. `write` receives the number of bytes that the sink has taken.
    #[inline]
    pub fn append(&mut self, bytes_max: usize, write: impl FnOnce(u64, &mut RunAppender<'_>)) {
        self.payloads.drop_open();
        let taken = self.payloads.taken;
        self.payloads.bytes.append(bytes_max, |runs| write(taken, runs));
        self.finish();
    }

    /// Appends `count` results, each as for [`Self::append`]. `write` is called with the number of the next result, the
    /// memory and the number of bytes before it, and the ends to fill. It appends results while the memory has space
    /// for another, and returns the number of these results and of their bytes.
    pub fn append_all(
        &mut self,
        count: usize,
        bytes_max: usize,
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
                .append_in_steps((bytes_max, enough), payloads.taken, |out, before| write(done, (out, before), ends));
            payloads.ends.truncate(first + done);
            if payloads.bytes.len() >= enough {
                payloads.pass_to_sink(payloads.bytes.len());
            }
        }
        payloads.end_results();
    }

    /// Appends bytes that need no escaping.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), ExtractError> {
        if bytes.len() > self.payloads.bytes_left {
            return Err(self.no_bytes_left());
        }
        let payloads = &mut *self.payloads;
        payloads.bytes_left -= bytes.len();
        payloads.bytes.push(bytes);
        self.pass_on();
        Ok(())
    }

    /// Passes a full buffer on to the sink.
    #[inline]
    fn pass_on(&mut self) {
        let payloads = &mut *self.payloads;
        if payloads.bytes.len() >= CHUNK_BYTES && payloads.sink.is_some() {
            let open = payloads.bytes.len() - payloads.open_from();
            payloads.pass_to_sink(payloads.bytes.len() - open.min(LOOKBACK_BYTES));
        }
    }

    fn ends_with(&self, end: &[u8]) -> bool {
        self.payloads.bytes()[self.payloads.open_from()..].ends_with(end)
    }

    /// Appends text as it stands in the message. Escapes the `>` of a `]]>` that arises where two texts meet.
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

/// Escapes text and passes it on in pieces. White space that a parser would change becomes references.
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

/// Returns a text escaped for element content or for an attribute in double quotes.
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
