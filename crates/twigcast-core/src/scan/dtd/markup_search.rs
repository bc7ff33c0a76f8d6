//! Finds markup, and says whether a place is in it.

use crate::scan::lanes::{self, LANES};

/// Bytes of which the marks are kept.
const BLOCK: usize = 4 * LANES;

/// Finds each `<` and `&`.
pub struct MarkupSearch<'a> {
    source: &'a [u8],
    /// Where the bytes begin of which the marks are kept.
    block: usize,
    marks: u64,
}

impl<'a> MarkupSearch<'a> {
    /// Creates a search that begins at an offset.
    pub fn new(source: &'a [u8], at: usize) -> Self {
        let mut this = Self { source, block: at, marks: 0 };
        this.read(at);
        this
    }

    #[inline(always)]
    fn read(&mut self, at: usize) {
        self.block = at;
        let mut marks = 0;
        match self.source.get(at..at + BLOCK) {
            Some(bytes) => {
                for (index, lanes) in bytes.as_chunks::<LANES>().0.iter().enumerate() {
                    marks |= u64::from(lanes::markup(lanes)) << (index * LANES);
                }
            }
            None => {
                for (index, b) in self.source.get(at..).unwrap_or_default().iter().enumerate() {
                    marks |= u64::from(matches!(b, b'<' | b'&')) << index;
                }
            }
        }
        self.marks = marks;
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

/// Bytes up to which they are looked at one by one: calling a search takes longer.
const SHORT: usize = 48;

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
        let short = if self.context == MarkupContext::Content { &[] } else { &source[self.at..at] };
        for &b in short.iter().take(SHORT) {
            self.at += 1;
            self.context = match (self.context, b) {
                (MarkupContext::Tag, b'>') => MarkupContext::Content,
                (MarkupContext::Tag, b'"' | b'\'') => MarkupContext::Value(b),
                (MarkupContext::Value(quote), _) if b == quote => MarkupContext::Tag,
                (context, _) => context,
            };
            if self.context == MarkupContext::Content {
                break;
            }
        }
        if self.context != MarkupContext::Content && self.at < at {
            self.long_context(source, at);
        }
        self.at = at;
        self.context
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
