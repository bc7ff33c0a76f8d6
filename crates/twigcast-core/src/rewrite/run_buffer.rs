//! Bytes to which very many short runs are appended.
//!
//! A run is copied with a fixed length, which takes a few instructions and no call, and the next one overwrites what was
//! too much of it. For that there is always room behind the end, in memory that has been written to before: all of it is
//! handed on to the next user, so that it need not be made anew.

use std::collections::TryReserveError;
use std::ops::Range;

/// Bytes that are copied at once of what is short, and of what may be longer.
pub(super) const RUN: usize = 32;
pub(super) const STEP: usize = 128;

/// Bytes that are appended in steps at a time, at most: 32 bits count them, and those of a step behind them.
const STEPS_MAX: usize = 1 << 31;

/// Memory that is made ready beyond what is asked for, so that this happens seldom.
const RESERVE_BYTES: usize = 1 << 14;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct RunBuffer {
    memory: Vec<u8>,
    end: usize,
}

impl RunBuffer {
    /// Nothing yet, in memory that was used before.
    pub fn within(memory: Vec<u8>) -> Self {
        Self { memory, end: 0 }
    }

    /// The memory: the bytes, and others behind them.
    pub fn into_memory(self) -> Vec<u8> {
        self.memory
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.end
    }

    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.memory[..self.end]
    }

    /// Asks for memory for so many bytes more, of which none is touched yet.
    pub fn reserve(&mut self, bytes: usize) -> Result<(), TryReserveError> {
        let needed = self.end.saturating_add(bytes).saturating_add(STEP + RESERVE_BYTES);
        self.memory.try_reserve_exact(needed.saturating_sub(self.memory.len()))
    }

    /// Makes room for so many bytes, and a step too many.
    #[inline]
    fn grow(&mut self, bytes: usize) {
        let needed = self.end + bytes + STEP;
        if self.memory.len() < needed {
            // The capacity grows by doubling, but no memory is touched long before it is needed.
            self.memory.resize(needed + RESERVE_BYTES, 0);
        }
    }

    #[inline]
    pub fn push(&mut self, bytes: &[u8]) {
        self.grow(bytes.len());
        self.memory[self.end..self.end + bytes.len()].copy_from_slice(bytes);
        self.end += bytes.len();
    }

    /// Appends bytes from before again.
    pub fn repeat(&mut self, bytes: Range<usize>) {
        let length = bytes.len();
        self.grow(length);
        self.memory.copy_within(bytes, self.end);
        self.end += length;
    }

    /// Forgets all from a place on.
    pub fn truncate(&mut self, length: usize) {
        self.end = self.end.min(length);
    }

    /// Forgets so many bytes at the beginning.
    pub fn drop_front(&mut self, count: usize) {
        self.memory.copy_within(count..self.end, 0);
        self.end -= count;
    }

    /// Appends up to so many bytes, run by run.
    #[inline]
    pub fn append(&mut self, most: usize, write: impl FnOnce(&mut RunAppender<'_>)) {
        self.grow(most);
        let mut runs = RunAppender { memory: &mut self.memory, end: self.end };
        write(&mut runs);
        self.end = runs.end;
    }

    /// Appends pieces: there is room for `most` bytes, and for more where there is memory, until all have `enough`. `before`
    /// counts the bytes before all that are here. What is called is given memory and where the end is, counted as those
    /// before are, and returns how many bytes it has appended.
    pub fn append_in_steps<T>(
        &mut self,
        (most, enough): (usize, usize),
        before: u64,
        write: impl FnOnce(SteppedMemory<'_>, u64) -> (T, u32),
    ) -> T {
        self.grow(most);
        let limit = self.memory.len().min(enough.max(self.end).saturating_add(most + STEP));
        let limit = limit.min(self.end + (most + STEP).max(STEPS_MAX));
        let memory = &mut self.memory[self.end..limit];
        let (result, bytes) = write(SteppedMemory { memory }, before + self.end as u64);
        self.end += bytes as usize;
        result
    }
}

/// Memory to which pieces are appended of which nobody knows how long they are, in steps. There is always room for a step.
///
/// Whoever appends keeps the end: as a number at hand, not one that is written to memory with each piece. It has 32 bits,
/// so that it need not be asked whether a step beyond it is still a place.
pub(crate) struct SteppedMemory<'a> {
    memory: &'a mut [u8],
}

impl SteppedMemory<'_> {
    /// Bytes behind an end.
    #[inline(always)]
    pub fn bytes_after(&self, end: u32) -> usize {
        self.memory.len() - end as usize
    }

    /// Appends a constant; returns the new end.
    #[inline(always)]
    pub(super) fn push_short(&mut self, end: u32, constant: &ShortConstant) -> u32 {
        self.write::<RUN>(end, &constant.bytes, 0);
        end.wrapping_add(constant.length)
    }

    /// Appends so many bytes of something, which has a step of bytes behind the last of them; returns the new end.
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

    /// Appends all of something, which is nothing more often than not; returns the new end.
    #[inline(always)]
    pub fn push_all(&mut self, end: u32, bytes: &[u8]) -> u32 {
        if !bytes.is_empty() {
            self.memory[end as usize..end as usize + bytes.len()].copy_from_slice(bytes);
        }
        end.wrapping_add(bytes.len() as u32)
    }

    /// Writes so many bytes of something to a place.
    #[inline(always)]
    fn write<const BYTES: usize>(&mut self, position: u32, from: &[u8], start: u32) {
        let (position, start) = (position as usize, start as usize);
        self.memory[position..position + BYTES].copy_from_slice(&from[start..start + BYTES]);
    }
}

/// A constant that is no longer than a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ShortConstant {
    bytes: [u8; RUN],
    length: u32,
}

impl ShortConstant {
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// `None`: it is longer.
    pub fn new(constant: &[u8]) -> Option<Self> {
        let mut bytes = [0; RUN];
        bytes.get_mut(..constant.len())?.copy_from_slice(constant);
        Some(Self { bytes, length: constant.len() as u32 })
    }
}

/// Appends runs.
pub(super) struct RunAppender<'a> {
    memory: &'a mut [u8],
    end: usize,
}

impl RunAppender<'_> {
    /// Where the next run begins.
    #[inline]
    pub fn len(&self) -> usize {
        self.end
    }

    /// Appends what is between two places of something; quickly if it is no more than `LENGTH` bytes, and if as many can be
    /// read there. A jump that is not foreseen takes as long as copying a hundred bytes too many does.
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

    /// Appends all of something, which is nothing more often than not.
    #[inline]
    pub fn push_all(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.memory[self.end..self.end + bytes.len()].copy_from_slice(bytes);
            self.end += bytes.len();
        }
    }

    /// Appends bytes again that were appended before.
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

    /// Numbers in no order, from a seed.
    struct Random(u64);

    impl Random {
        fn below(&mut self, bound: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as usize % bound
        }
    }

    /// Whatever is appended in whatever way is what a plain list holds, whatever was in the memory before.
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
    /// Pieces and constants of all lengths, in steps, are whole; what is appended is never more than there is room for.
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
