//! A buffer for very many short runs of bytes.
//!
//! A run is copied with a fixed length, which takes a few instructions and no call; the next run overwrites the excess.
//! So there are always initialised bytes after the end. They are passed on with the buffer, so that the memory need not
//! be initialised again.

use std::collections::TryReserveError;
use std::ops::Range;

/// Lengths of one copy: of a short run, and of one that may be longer.
pub(super) const RUN: usize = 32;
pub(super) const STEP: usize = 128;

/// Bytes of one call of [`RunBuffer::append_in_steps`] at most, so that 32 bits count them and a step after them.
const STEPS_MAX: usize = 1 << 31;

/// Bytes that are initialised beyond the need, so that this is rare.
const RESERVE_BYTES: usize = 1 << 14;

/// A byte buffer with initialised memory after its end: see the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct RunBuffer {
    memory: Vec<u8>,
    end: usize,
}

impl RunBuffer {
    /// Creates an empty buffer in memory that was used before.
    pub fn within(memory: Vec<u8>) -> Self {
        Self { memory, end: 0 }
    }

    /// Returns the memory of the buffer. The bytes of the buffer come first; those behind them have no meaning.
    pub fn into_memory(self) -> Vec<u8> {
        self.memory
    }

    /// Returns the number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.end
    }

    /// Returns the bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.memory[..self.end]
    }

    /// Reserves memory for this many further bytes without initialising it.
    pub fn reserve(&mut self, bytes: usize) -> Result<(), TryReserveError> {
        let needed = self.end.saturating_add(bytes).saturating_add(STEP + RESERVE_BYTES);
        self.memory.try_reserve_exact(needed.saturating_sub(self.memory.len()))
    }

    /// Initialises memory for this many further bytes and a step.
    #[inline]
    fn grow(&mut self, bytes: usize) {
        let needed = self.end + bytes + STEP;
        if self.memory.len() < needed {
            // The capacity doubles, but memory is initialised only shortly before it is needed.
            self.memory.resize(needed + RESERVE_BYTES, 0);
        }
    }

    /// Appends bytes.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) {
        self.grow(bytes.len());
        self.memory[self.end..self.end + bytes.len()].copy_from_slice(bytes);
        self.end += bytes.len();
    }

    /// Appends a range of earlier bytes again.
    pub fn repeat(&mut self, bytes: Range<usize>) {
        let length = bytes.len();
        self.grow(length);
        self.memory.copy_within(bytes, self.end);
        self.end += length;
    }

    /// Removes all bytes after the first `length`.
    pub fn truncate(&mut self, length: usize) {
        self.end = self.end.min(length);
    }

    /// Removes the first `count` bytes.
    pub fn drop_front(&mut self, count: usize) {
        self.memory.copy_within(count..self.end, 0);
        self.end -= count;
    }

    /// Appends up to `bytes_max` bytes, run by run.
    #[inline]
    pub fn append(&mut self, bytes_max: usize, write: impl FnOnce(&mut RunAppender<'_>)) {
        self.grow(bytes_max);
        let mut runs = RunAppender { memory: &mut self.memory, end: self.end };
        write(&mut runs);
        self.end = runs.end;
    }

    /// Appends pieces. `write` receives memory for at least `bytes_max` bytes, and more while the buffer would stay
    /// below `enough` bytes. It also receives the position of that memory, which counts from `before` bytes before the
    /// buffer. It returns a result and the number of bytes appended.
    pub fn append_in_steps<T>(
        &mut self,
        (bytes_max, enough): (usize, usize),
        before: u64,
        write: impl FnOnce(SteppedMemory<'_>, u64) -> (T, u32),
    ) -> T {
        self.grow(bytes_max);
        let limit = self.memory.len().min(enough.max(self.end).saturating_add(bytes_max + STEP));
        let limit = limit.min(self.end + (bytes_max + STEP).max(STEPS_MAX));
        let memory = &mut self.memory[self.end..limit];
        let (result, bytes) = write(SteppedMemory { memory }, before + self.end as u64);
        self.end += bytes as usize;
        result
    }
}

/// Memory that pieces of varying length are appended to in steps, with space for a step after the last.
///
/// The caller keeps the end in a register; storing it with each piece would be slower. It has 32 bits, so that adding a
/// step to it cannot overflow an index.
pub(crate) struct SteppedMemory<'a> {
    memory: &'a mut [u8],
}

impl SteppedMemory<'_> {
    /// Returns the number of bytes after an end.
    #[inline(always)]
    pub fn bytes_after(&self, end: u32) -> usize {
        self.memory.len() - end as usize
    }

    /// Appends a constant and returns the new end.
    #[inline(always)]
    pub(super) fn push_short(&mut self, end: u32, constant: &ShortConstant) -> u32 {
        self.write::<RUN>(end, &constant.bytes, 0);
        end.wrapping_add(constant.length)
    }

    /// Appends `bytes` bytes of `from`, which must have a step of bytes after them. Returns the new end.
    #[inline(always)]
    pub fn push(&mut self, end: u32, from: &[u8], start: u32, bytes: u32) -> u32 {
        self.write::<STEP>(end, from, start);
        let mut done = STEP as u32;
        while done < bytes {
            self.write::<STEP>(end.wrapping_add(done), from, start.wrapping_add(done));
            done += STEP as u32;
        }
        end.wrapping_add(bytes)
    }

    /// Appends bytes, mostly none, and returns the new end.
    #[inline(always)]
    pub fn push_all(&mut self, end: u32, bytes: &[u8]) -> u32 {
        if !bytes.is_empty() {
            self.memory[end as usize..end as usize + bytes.len()].copy_from_slice(bytes);
        }
        end.wrapping_add(bytes.len() as u32)
    }

    /// Copies a fixed number of bytes to a position.
    #[inline(always)]
    fn write<const BYTES: usize>(&mut self, position: u32, from: &[u8], start: u32) {
        let (position, start) = (position as usize, start as usize);
        self.memory[position..position + BYTES].copy_from_slice(&from[start..start + BYTES]);
    }
}

/// A constant of at most [`RUN`] bytes, padded with zeros.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ShortConstant {
    bytes: [u8; RUN],
    length: u32,
}

impl ShortConstant {
    /// Returns `true` if the constant has no bytes.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Creates a constant. Returns `None` if it is longer.
    pub fn new(constant: &[u8]) -> Option<Self> {
        let mut bytes = [0; RUN];
        bytes.get_mut(..constant.len())?.copy_from_slice(constant);
        Some(Self { bytes, length: constant.len() as u32 })
    }
}

/// A writer of runs into a buffer.
pub(super) struct RunAppender<'a> {
    memory: &'a mut [u8],
    end: usize,
}

impl RunAppender<'_> {
    /// Returns the position of the next run.
    #[inline]
    pub fn len(&self) -> usize {
        self.end
    }

    /// Appends the bytes of a range, with one copy if they are at most `LENGTH` and as many can be read. A mispredicted
    /// jump would take as long as copying a hundred bytes too many.
    #[inline]
    pub fn push<const LENGTH: usize>(&mut self, from: &[u8], start: u32, end: u32) {
        const { assert!(LENGTH <= STEP) };
        let (start, end) = (start as usize, end as usize);
        let length = end - start;
        let Self { memory, end: to } = self;
        if length <= LENGTH && start + LENGTH <= from.len() {
            memory[*to..*to + LENGTH].copy_from_slice(&from[start..start + LENGTH]);
        } else {
            memory[*to..*to + length].copy_from_slice(&from[start..end]);
        }
        *to += length;
    }

    /// Appends bytes, mostly none.
    #[inline]
    pub fn push_all(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.memory[self.end..self.end + bytes.len()].copy_from_slice(bytes);
            self.end += bytes.len();
        }
    }

    /// Appends earlier bytes again.
    #[inline]
    pub fn repeat(&mut self, start: usize, length: usize) {
        if length <= STEP {
            self.memory.copy_within(start..start + STEP, self.end);
        } else {
            self.memory.copy_within(start..start + length, self.end);
        }
        self.end += length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    /// A buffer equals a plain list after any operations, whatever its memory held before.
    #[test]
    fn runs_of_all_lengths_are_appended_whole() {
        let random = &mut Random(7);
        let source: Vec<u8> = (0..2000).map(|number| (number % 251) as u8).collect();
        let mut memory = Vec::new();
        for _ in 0..40 {
            let (mut buffer, mut plain) = (RunBuffer::within(memory), Vec::new());
            for _ in 0..random.below(200) {
                let start = random.below(source.len());
                let most = if random.below(4) == 0 { 900 } else { 80 };
                let end = (start + random.below(most)).min(source.len());
                let run = &source[start..end];
                let first = random.below(plain.len() + 1);
                let count = random.below(plain.len() - first + 1);
                let before = plain[first..first + count].to_vec();
                match random.below(8) {
                    0 => {
                        buffer.push(run);
                        plain.extend_from_slice(run);
                    }
                    1 => {
                        buffer.repeat(first..first + count);
                        plain.extend_from_slice(&before);
                    }
                    2 => {
                        buffer.truncate(first);
                        plain.truncate(first);
                    }
                    3 if plain.len() > 10_000 => {
                        buffer.drop_front(first);
                        plain.drain(..first);
                    }
                    _ => {
                        buffer.append(2 * run.len() + count, |runs| {
                            runs.push::<RUN>(&source, start as u32, end as u32);
                            runs.repeat(first, count);
                            runs.push::<STEP>(run, 0, run.len() as u32);
                        });
                        plain.extend_from_slice(run);
                        plain.extend_from_slice(&before);
                        plain.extend_from_slice(run);
                    }
                }
                assert_eq!(buffer.len(), plain.len());
                assert!(buffer.bytes() == plain);
            }
            memory = buffer.into_memory();
        }
    }

    /// Pieces and constants of all lengths are appended whole, within the memory that was promised.
    #[test]
    fn pieces_are_appended_in_steps() {
        let random = &mut Random(11);
        let source: Vec<u8> = (0..6000).map(|number| (number % 253) as u8).collect();
        let mut memory = Vec::new();
        for _ in 0..60 {
            let (mut buffer, mut plain) = (RunBuffer::within(memory), Vec::new());
            for _ in 0..random.below(120) {
                let pieces: Vec<(usize, usize, usize)> = (0..random.below(6))
                    .map(|_| {
                        let most = [20, STEP + 2, 3 * STEP, 7 * STEP][random.below(4)];
                        (random.below(4000), random.below(most), random.below(RUN + 1))
                    })
                    .collect();
                let most: usize = pieces.iter().map(|(_, bytes, constant)| bytes + 2 * constant).sum();
                let enough = random.below(2 * plain.len() + 1);
                let position = buffer.append_in_steps((most, enough), 1_000, |mut out, first| {
                    let bytes_left = out.bytes_after(0);
                    assert!(
                        bytes_left >= most + STEP && bytes_left <= most + STEP + enough.saturating_sub(plain.len())
                    );
                    let mut end = 0;
                    for &(start, bytes, constant) in &pieces {
                        end = out.push_short(end, &ShortConstant::new(&source[..constant]).expect("it is short"));
                        end = out.push(end, &source, start as u32, bytes as u32);
                        end = out.push_all(end, &source[..constant]);
                    }
                    (first + u64::from(end), end)
                });
                for &(start, bytes, constant) in &pieces {
                    plain.extend_from_slice(&source[..constant]);
                    plain.extend_from_slice(&source[start..start + bytes]);
                    plain.extend_from_slice(&source[..constant]);
                }
                assert_eq!((buffer.len(), position), (plain.len(), 1_000 + plain.len() as u64));
                assert!(buffer.bytes() == plain);
            }
            memory = buffer.into_memory();
        }
        assert!(ShortConstant::new(&source[..RUN + 1]).is_none());
    }
}
