//! Matching one message: bytes or an element stream into a matcher.

use std::sync::atomic::Ordering;

use super::{Engine, Matcher};
use crate::error::MessageError;
use crate::scan::ScanOptions;
use crate::stream::dictionary::Dictionary;

impl Engine {
    /// Matches one message. The matcher holds the answer afterwards ([`Matcher::matched`], [`Self::slots`]).
    ///
    /// # Errors
    /// The message is malformed, over a limit, or needs conversion first.
    pub fn run(&self, matcher: &mut Matcher, source: &[u8]) -> Result<(), MessageError> {
        self.catch_up(matcher);
        matcher.scan(self, source, self.needs.scan_options())?;
        self.run_scanned(matcher, source, true);
        Ok(())
    }

    /// Matches one message, as [`Self::run`] does, after expanding it if its DOCTYPE changes it, unless another processor is
    /// to read it too.
    ///
    /// # Errors
    /// The message is malformed, over a limit, or needs conversion first, for another reason.
    pub fn run_expanding(&self, matcher: &mut Matcher, source: &[u8]) -> Result<(), MessageError> {
        self.run_recording(matcher, source, self.needs.scan_options(), true)
    }

    /// Matches one message, as [`Self::run`] does, that comes as an element stream (see [`crate::stream`]).
    ///
    /// # Errors
    /// The stream is damaged, of another version or dictionary, or what it says is no message or over a limit.
    pub fn run_stream(
        &self,
        matcher: &mut Matcher,
        stream: &[u8],
        dictionary: &Dictionary,
    ) -> Result<(), MessageError> {
        self.catch_up(matcher);
        self.warm.store(true, Ordering::Relaxed);
        matcher.with_stream(self, (stream, dictionary), self.needs.scan_options(), |matcher, source| {
            matcher.run(self, source, true)
        })
    }

    /// Scans a message, recording what the caller needs, and matches it, as [`Self::run_expanding`] does. If not `marks`,
    /// queries that the batch rewriter decides are left to it.
    pub(super) fn run_recording(
        &self,
        matcher: &mut Matcher,
        source: &[u8],
        options: ScanOptions,
        marks: bool,
    ) -> Result<(), MessageError> {
        self.catch_up(matcher);
        matcher.scan_expanding(self, source, options)?;
        let scanned = std::mem::take(&mut matcher.scanned);
        self.run_scanned(matcher, scanned.bytes(source), marks);
        matcher.scanned = scanned;
        Ok(())
    }

    fn run_scanned(&self, matcher: &mut Matcher, source: &[u8], marks: bool) {
        if !self.warm.load(Ordering::Relaxed) {
            self.warm.store(true, Ordering::Relaxed);
        }
        matcher.run(self, source, marks);
    }

    /// Brings a matcher up to date with the population, so that its next message need not. This is of use after many
    /// changes, for a matcher that will be used again. Does nothing if the matcher has seen no message since the last call,
    /// or if it was used with a later version.
    pub fn follow(&self, matcher: &mut Matcher) {
        // If the main segment has changed too, only messages show which of its states are needed.
        if matcher.valid_for == (self.identity, self.main_version) && matcher.edition <= self.edition {
            matcher.edition = self.edition;
            matcher.follow(self);
        }
    }

    /// Empties the caches of a matcher if they belong to another engine, to an earlier main segment, or to a later version.
    pub(super) fn catch_up(&self, matcher: &mut Matcher) {
        if matcher.valid_for != (self.identity, self.main_version) {
            matcher.forget();
            matcher.valid_for = (self.identity, self.main_version);
        } else if matcher.edition > self.edition {
            matcher.forget();
        }
        matcher.edition = self.edition;
    }
}
