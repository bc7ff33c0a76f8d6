//! Finds markup, and says whether a place is in it.

use crate::scan::lanes::{self, LANES};

/// Bytes of which the marks are kept.
const BLOCK: usize = 4 * LANES;

/// Finds each `&`, and each `<` that begins a start tag, comment or the like.
pub struct MarkupSearch<'a> {
    source: &'a [u8],
    /// The byte that the names of all start tags that are looked for begin with.
    first: Option<u8>,
    /// Where the bytes begin of which the marks are kept.
    block: usize,
    marks: u64,
}

impl<'a> MarkupSearch<'a> {
    /// Creates a search that begins at an offset. `first`: of start tags, it finds those with names that begin with this
    /// byte.
    pub fn new(source: &'a [u8], at: usize, first: Option<u8>) -> Self {
        let mut this = Self { source, first, block: at, marks: 0 };
        this.read(at);
        this
    }

    #[inline(always)]
    fn read(&mut self, at: usize) {
        self.block = at;
        match self.source.get(at..).unwrap_or_default().first_chunk() {
            Some(bytes) => self.marks = self.marks_of(bytes),
            None => self.read_end(at),
        }
    }

    /// Reads what is shorter than a block. Behind the source are zeros.
    #[inline(never)]
    fn read_end(&mut self, at: usize) {
        let rest = self.source.get(at..).unwrap_or_default();
        let mut bytes = [0; BLOCK + 1];
        bytes[..rest.len()].copy_from_slice(rest);
        self.marks = self.marks_of(&bytes);
    }

    /// Returns the marks of a block: each byte is looked at with the one behind it.
    #[inline(always)]
    fn marks_of(&self, bytes: &[u8; BLOCK + 1]) -> u64 {
        let pairs = bytes.as_chunks::<LANES>().0.iter().zip(bytes[1..].as_chunks::<LANES>().0);
        let mut marks = 0;
        for (index, (lanes, next)) in pairs.enumerate() {
            let found = match self.first {
                Some(first) => lanes::markup_of(lanes, next, first),
                None => lanes::markup(lanes, next),
            };
            marks |= u64::from(found) << (index * LANES);
        }
        marks
    }

    /// Returns the first one from an offset on, which is never before that of the last call.
    #[inline(always)]
    pub fn next(&mut self, at: usize) -> Option<usize> {
        let skipped = at - self.block;
        if skipped < BLOCK {
            self.marks &= u64::MAX << skipped;
        } else {
            self.read(at);
        }
        while self.marks == 0 {
            let next = self.block + BLOCK;
            if next >= self.source.len() {
                return None;
            }
            self.read(next);
        }
        Some(self.block + self.marks.trailing_zeros() as usize)
    }
}

/// Bytes up to which they are looked at together: calling a search takes longer.
const SHORT: usize = 4 * LANES;

/// The part of a message that an offset is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkupContext {
    Content,
    /// A tag, outside of its values.
    Tag,
    /// The value of an attribute, between such quotes.
    Value(u8),
}

/// Follows contexts from one on, forward.
pub struct ContextTracker {
    /// What the place `at` is in.
    context: MarkupContext,
    at: usize,
}

impl ContextTracker {
    pub fn new(at: usize) -> Self {
        Self { context: MarkupContext::Content, at }
    }

    /// Starts again at an offset, which is in content.
    pub fn content(&mut self, at: usize) {
        *self = Self::new(at);
    }

    /// Notes a tag, which begins at an offset.
    pub fn tag(&mut self, at: usize) {
        (self.context, self.at) = (MarkupContext::Tag, at + 1);
    }

    /// Notes the last tag that begins before an offset, if one does since the last place.
    pub fn last_tag(&mut self, source: &[u8], at: usize) {
        if let Some(tag) = memchr::memrchr(b'<', &source[self.at..at]) {
            self.tag(self.at + tag);
        }
    }

    /// Returns what an offset is in, before which no tag begins that was not noted.
    #[inline(always)]
    pub fn context(&mut self, source: &[u8], at: usize) -> MarkupContext {
        if self.context != MarkupContext::Content {
            match self.short_context(source, at) {
                Some(context) => self.context = context,
                None => self.long_context(source, at),
            }
        }
        self.at = at;
        self.context
    }

    /// Returns what an offset is in if it is not far, and quotes of one kind only stand before it.
    #[inline(always)]
    fn short_context(&self, source: &[u8], at: usize) -> Option<MarkupContext> {
        let bytes = source.get(self.at..self.at + SHORT).filter(|_| at - self.at < SHORT)?.as_chunks::<LANES>().0;
        let before = (1u64 << (at - self.at)) - 1;
        let each = |byte: u8| {
            let lanes =
                bytes.iter().enumerate().map(|(index, lanes)| u64::from(lanes::each(lanes, byte)) << (index * LANES));
            lanes.fold(0, |marks, found| marks | found) & before
        };
        let (double, single) = (each(b'"'), each(b'\''));
        let (quote, quotes, others) = if single == 0 { (b'"', double, single) } else { (b'\'', single, double) };
        let is_open = match self.context {
            MarkupContext::Value(open) if open != quote => return None,
            context => context != MarkupContext::Tag,
        };
        if others != 0 {
            return None;
        }
        let is_in_value = |marks: u64| (marks.count_ones() % 2 == 1) != is_open;
        let mut ends = each(b'>');
        while ends != 0 {
            let end = ends & ends.wrapping_neg();
            if !is_in_value(quotes & (end - 1)) {
                return Some(MarkupContext::Content);
            }
            ends ^= end;
        }
        Some(if is_in_value(quotes) { MarkupContext::Value(quote) } else { MarkupContext::Tag })
    }

    #[inline(never)]
    fn long_context(&mut self, source: &[u8], at: usize) {
        while self.context != MarkupContext::Content {
            let rest = &source[self.at..at];
            let found = match self.context {
                MarkupContext::Value(quote) => memchr::memchr(quote, rest),
                _ => memchr::memchr3(b'>', b'"', b'\'', rest),
            };
            let Some(length) = found else { break };
            self.at += length + 1;
            self.context = match (self.context, rest[length]) {
                (MarkupContext::Value(_), _) => MarkupContext::Tag,
                (_, b'>') => MarkupContext::Content,
                (_, quote) => MarkupContext::Value(quote),
            };
        }
    }
}
