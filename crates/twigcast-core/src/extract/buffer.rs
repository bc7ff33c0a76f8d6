//! Bytes to which very many short runs are appended.
//!
//! A run is copied with a fixed length, which takes a few instructions and no call, and the next one overwrites what was
//! too much of it. For that there is always room behind the end, in memory that has been written to before: all of it is
//! handed on to the next user, so that it need not be made anew.

use std::ops::Range;

/// Bytes that are copied at once of what is short, and of what may be longer.
pub(super) const RUN: usize = 32;
pub(super) const STEP: usize = 128;

/// Steps of a piece that are copied one by one, at most.
const STEPS_MAX: usize = 4;

/// Memory that is made ready beyond what is asked for, so that this happens seldom.
const AHEAD: usize = 1 << 14;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    memory: Vec<u8>,
    end: usize,
}

impl Buffer {
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

    /// The bytes, and others behind them.
    #[inline]
    pub fn memory(&self) -> &[u8] {
        &self.memory
    }

    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.memory[..self.end]
    }

    /// Makes room for so many bytes, and a step too many.
    #[inline]
    fn make_room(&mut self, bytes: usize) {
        let needed = self.end + bytes + STEP;
        if self.memory.len() < needed {
            // The capacity grows by doubling, but no memory is touched long before it is needed.
            self.memory.resize(needed + AHEAD, 0);
        }
    }

    #[inline]
    pub fn push(&mut self, bytes: &[u8]) {
        self.make_room(bytes.len());
        self.memory[self.end..self.end + bytes.len()].copy_from_slice(bytes);
        self.end += bytes.len();
    }

    /// Appends bytes from before again.
    pub fn repeat(&mut self, bytes: Range<usize>) {
        let length = bytes.len();
        self.make_room(length);
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
    pub fn append(&mut self, most: usize, write: impl FnOnce(&mut Runs<'_>)) {
        self.make_room(most);
        let mut runs = Runs { memory: &mut self.memory, end: self.end };
        write(&mut runs);
        self.end = runs.end;
    }

    /// Appends up to so many bytes in up to so many pieces, of which what is longer than a step is noted.
    #[inline]
    pub fn append_steps(
        &mut self,
        (most, pieces): (usize, usize),
        rests: &mut Rests,
        write: impl for<'a> FnOnce(Steps<'a>) -> Steps<'a>,
    ) {
        self.make_room(most);
        // The last piece is noted even if it is short.
        rests.make_room(pieces + 1);
        let steps = Steps { memory: &mut self.memory, end: self.end, rests: &mut rests.list, count: rests.count };
        let steps = write(steps);
        (self.end, rests.count) = (steps.end, steps.count);
    }

    /// Copies what was noted, once there is enough of it: `from` is what the pieces are of.
    #[inline]
    pub fn settle(&mut self, rests: &mut Rests, from: &[u8], few: usize) {
        if rests.count > few {
            self.settle_all(rests, from);
        }
    }

    /// Copies another step of all pieces, then of those that are longer, and so on; and the rest of those that are long.
    #[inline(never)]
    fn settle_all(&mut self, rests: &mut Rests, from: &[u8]) {
        let Rests { list, count } = rests;
        let mut left = std::mem::take(count);
        let mut done = STEP;
        while left > 0 && done < STEPS_MAX * STEP {
            let mut longer = 0;
            for number in 0..left {
                let rest = list[number];
                // The last step of a piece is as long as others; some of it is there already.
                let bytes = rest.bytes as usize;
                let (to, start) = (rest.to + bytes.min(done + STEP), rest.from as usize + bytes.min(done + STEP));
                self.memory[to - STEP..to].copy_from_slice(&from[start - STEP..start]);
                list[longer] = rest;
                longer += usize::from(bytes > done + STEP);
            }
            left = longer;
            done += STEP;
        }
        for rest in &list[..left] {
            let (to, start, bytes) = (rest.to, rest.from as usize, rest.bytes as usize);
            self.memory[to + done..to + bytes].copy_from_slice(&from[start + done..start + bytes]);
        }
    }
}

/// What is left to be copied of pieces of which a step was copied: where to, and the whole piece.
#[derive(Debug, Default)]
pub(super) struct Rests {
    list: Vec<Rest>,
    count: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Rest {
    to: usize,
    from: u32,
    bytes: u32,
}

impl Rests {
    /// Forgets what was noted.
    pub fn clear(&mut self) {
        self.count = 0;
    }

    /// Makes room for so many more.
    #[inline]
    fn make_room(&mut self, more: usize) {
        if self.list.len() < self.count + more {
            self.list.resize(self.count + more, Rest::default());
        }
    }
}

/// Appends pieces of which nobody knows how long they are, without a jump that depends on it: a step of each is copied,
/// and what is longer is noted. To guess wrongly which way a jump goes takes as long as to copy hundreds of bytes.
pub(super) struct Steps<'a> {
    memory: &'a mut [u8],
    end: usize,
    rests: &'a mut [Rest],
    count: usize,
}

impl Steps<'_> {
    /// Where the next piece begins.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.end
    }

    /// Appends so many bytes of something, which has a step of bytes from there on.
    #[inline(always)]
    pub fn push(&mut self, from: &[u8], start: u32, bytes: u32) {
        let Self { memory, end, rests, count } = self;
        memory[*end..*end + STEP].copy_from_slice(&from[start as usize..start as usize + STEP]);
        rests[*count] = Rest { to: *end, from: start, bytes };
        *count += usize::from(bytes as usize > STEP);
        *end += bytes as usize;
    }

    /// Appends a constant, most of which are short; behind it there is a run of other bytes.
    #[inline(always)]
    pub fn push_constant(&mut self, from: &[u8], start: u32, bytes: u32) {
        let (start, length) = (start as usize, bytes as usize);
        let Self { memory, end: to, .. } = self;
        memory[*to..*to + RUN].copy_from_slice(&from[start..start + RUN]);
        if length > RUN {
            memory[*to..*to + length].copy_from_slice(&from[start..start + length]);
        }
        *to += length;
    }

    /// Appends all of something, which is nothing more often than not.
    #[inline(always)]
    pub fn push_all(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.memory[self.end..self.end + bytes.len()].copy_from_slice(bytes);
            self.end += bytes.len();
        }
    }
}

/// Appends runs.
pub(super) struct Runs<'a> {
    memory: &'a mut [u8],
    end: usize,
}

impl Runs<'_> {
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
            let (mut buffer, mut plain) = (Buffer::within(memory), Vec::new());
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

    /// Pieces of all lengths, in steps, are whole once what was noted is settled, however many are noted until then.
    #[test]
    fn pieces_are_appended_in_steps() {
        let random = &mut Random(11);
        let source: Vec<u8> = (0..6000).map(|number| (number % 253) as u8).collect();
        let constants: Vec<u8> = (0..200).map(|number| 255 - number as u8).collect();
        let mut memory = Vec::new();
        for _ in 0..60 {
            let (mut buffer, mut plain, mut rests) = (Buffer::within(memory), Vec::new(), Rests::default());
            let few = random.below(60);
            for _ in 0..random.below(120) {
                let pieces: Vec<(usize, usize, usize)> = (0..random.below(6))
                    .map(|_| {
                        let most = [20, STEP + 2, 3 * STEP, (STEPS_MAX + 3) * STEP][random.below(4)];
                        (random.below(4000), random.below(most), random.below(150))
                    })
                    .collect();
                let most = pieces.iter().map(|(_, bytes, constant)| bytes + constant).sum();
                buffer.append_steps((most, pieces.len()), &mut rests, |mut out| {
                    for &(start, bytes, constant) in &pieces {
                        out.push_constant(&constants, 7, constant as u32);
                        out.push(&source, start as u32, bytes as u32);
                    }
                    out
                });
                for &(start, bytes, constant) in &pieces {
                    plain.extend_from_slice(&constants[7..7 + constant]);
                    plain.extend_from_slice(&source[start..start + bytes]);
                }
                buffer.settle(&mut rests, &source, few);
                assert_eq!(buffer.len(), plain.len());
            }
            buffer.settle(&mut rests, &source, 0);
            assert!(buffer.bytes() == plain);
            memory = buffer.into_memory();
        }
    }
}
