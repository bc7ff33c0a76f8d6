//! Stores many short texts with little overhead: keys, and the texts of queries.
//!
//! Texts are stored one after the other in chunks, each after its length. The id of a text is its position in units, so
//! that 32 bits reach 16 GiB. The hole that a removed text leaves is used again for texts that fit into it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::chunked::Chunked;
use crate::ids::StringId;

const UNIT: usize = 4;
const CHUNK_BYTES: usize = 1 << 14;
const CHUNK_UNITS: u32 = (CHUNK_BYTES / UNIT) as u32;
/// In place of a length: the length follows in 32 bits.
const LONG: u8 = 255;

/// The texts. A clone shares all chunks; a chunk is copied before its first change after that.
#[derive(Clone, Debug, Default)]
pub(crate) struct StringArena {
    chunks: Vec<Arc<Vec<u8>>>,
}

/// The chunks in which texts can be stored.
#[derive(Clone, Debug, Default)]
pub(crate) struct ArenaSpace {
    /// Units left in the last chunk.
    left: u32,
    /// The holes that removed texts left, by size in units.
    holes: BTreeMap<u32, Chunked<StringId>>,
    /// Chunks of long texts that were removed.
    empty: Chunked<u32>,
}

fn units(text: &str) -> u32 {
    let header = if text.len() < usize::from(LONG) { 1 } else { 5 };
    u32::try_from((header + text.len()).div_ceil(UNIT)).unwrap_or(u32::MAX)
}

fn write(target: &mut [u8], text: &str) {
    let start = if text.len() < usize::from(LONG) {
        target[0] = text.len() as u8;
        1
    } else {
        target[0] = LONG;
        target[1..5].copy_from_slice(&(text.len() as u32).to_le_bytes());
        5
    };
    target[start..start + text.len()].copy_from_slice(text.as_bytes());
}

impl StringArena {
    /// Returns a text; empty if there is none with this id.
    #[inline]
    pub(crate) fn get(&self, id: StringId) -> &str {
        self.bytes_of(id).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default()
    }

    #[inline]
    fn bytes_of(&self, id: StringId) -> Option<&[u8]> {
        let chunk = self.chunks.get((id.as_u32() / CHUNK_UNITS) as usize)?;
        let from = chunk.get((id.as_u32() % CHUNK_UNITS) as usize * UNIT..)?;
        match *from.first()? {
            LONG => from.get(5..5 + u32::from_le_bytes(from.get(1..5)?.try_into().ok()?) as usize),
            length => from.get(1..1 + usize::from(length)),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.capacity() + 40).sum()
    }
}

impl ArenaSpace {
    /// Stores a text. Returns its number.
    pub(crate) fn put(&mut self, texts: &mut StringArena, text: &str) -> StringId {
        let needed = units(text);
        if needed > CHUNK_UNITS {
            return self.put_long(texts, text, needed);
        }
        let id = match self.take_hole(needed) {
            Some(id) => id,
            None => self.append(texts, needed),
        };
        let start = (id.as_u32() % CHUNK_UNITS) as usize * UNIT;
        let chunk = Arc::make_mut(&mut texts.chunks[(id.as_u32() / CHUNK_UNITS) as usize]);
        let end = start + needed as usize * UNIT;
        if chunk.len() < end {
            chunk.resize(end, 0);
        }
        write(&mut chunk[start..end], text);
        id
    }

    fn put_long(&mut self, texts: &mut StringArena, text: &str, needed: u32) -> StringId {
        let mut chunk = vec![0; needed as usize * UNIT];
        write(&mut chunk, text);
        match self.empty.pop() {
            Some(number) => {
                texts.chunks[number as usize] = Arc::new(chunk);
                StringId::from_u32(number * CHUNK_UNITS)
            }
            None => {
                self.close(texts);
                texts.chunks.push(Arc::new(chunk));
                StringId::from_u32((texts.chunks.len() as u32 - 1) * CHUNK_UNITS)
            }
        }
    }

    /// Takes the smallest hole that is large enough; what is too much of it stays a hole.
    fn take_hole(&mut self, needed: u32) -> Option<StringId> {
        let (&size, holes) = self.holes.range_mut(needed..).next()?;
        let id = holes.pop()?;
        if holes.is_empty() {
            self.holes.remove(&size);
        }
        if size > needed {
            self.holes.entry(size - needed).or_default().push(StringId::from_u32(id.as_u32() + needed));
        }
        Some(id)
    }

    fn append(&mut self, texts: &mut StringArena, needed: u32) -> StringId {
        if needed > self.left {
            self.close(texts);
            texts.chunks.push(Arc::default());
            self.left = CHUNK_UNITS;
        }
        let last = texts.chunks.len() as u32 - 1;
        let id = last * CHUNK_UNITS + (CHUNK_UNITS - self.left);
        self.left -= needed;
        StringId::from_u32(id)
    }

    /// Ends the last chunk: its free end becomes a hole.
    fn close(&mut self, texts: &StringArena) {
        if self.left > 0 {
            let end = texts.chunks.len() as u32 * CHUNK_UNITS;
            self.holes.entry(self.left).or_default().push(StringId::from_u32(end - self.left));
            self.left = 0;
        }
    }

    /// Removes a text.
    pub(crate) fn remove(&mut self, texts: &mut StringArena, id: StringId) {
        let size = units(texts.get(id));
        if size > CHUNK_UNITS {
            let number = id.as_u32() / CHUNK_UNITS;
            texts.chunks[number as usize] = Arc::default();
            self.empty.push(number);
        } else {
            self.holes.entry(size).or_default().push(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    /// Texts of all sizes come and go at random; all that are there can be read, also in a clone made on the way.
    #[test]
    fn what_was_put_can_be_read_until_it_is_removed() {
        for seed in 1_u64..4 {
            println!("seed {seed}");
            let mut random = Random(seed);
            let (mut texts, mut space) = (StringArena::default(), ArenaSpace::default());
            let mut there: Vec<(StringId, String)> = Vec::new();
            let mut clone = (texts.clone(), there.clone());
            for round in 0..3_000 {
                if random.below(5) < 2 && !there.is_empty() {
                    let (id, _) = there.swap_remove(random.below(there.len() as u64) as usize);
                    space.remove(&mut texts, id);
                } else {
                    let bound = [12, 12, 12, 300, 20_000][random.below(5) as usize];
                    let text = format!("{round}{}", "é".repeat(random.below(bound) as usize));
                    there.push((space.put(&mut texts, &text), text));
                }
                if round == 1_500 {
                    clone = (texts.clone(), there.clone());
                }
                if round % 100 == 0 {
                    there.iter().for_each(|(id, text)| assert_eq!(texts.get(*id), text));
                }
            }
            clone.1.iter().for_each(|(id, text)| assert_eq!(clone.0.get(*id), text));
        }
    }

    #[test]
    fn room_that_was_left_is_used_again() {
        let (mut texts, mut space) = (StringArena::default(), ArenaSpace::default());
        let mut put: Vec<_> = (0..10_000).map(|number| space.put(&mut texts, &format!("key-{number:05}"))).collect();
        let bytes = texts.bytes();
        for round in 0..5 {
            put.drain(..).for_each(|id| space.remove(&mut texts, id));
            put.extend((0..10_000).map(|number| space.put(&mut texts, &format!("{round}.{number:07}"))));
        }
        assert_eq!(texts.bytes(), bytes);
    }
}
