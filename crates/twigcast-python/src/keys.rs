//! Keys as the buffers of an Arrow string array: no object per key.

use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use twigcast_core::engine as core;
use twigcast_core::engine::Slot;

/// Bytes of a key for which room is made beforehand.
const KEY_BYTES: usize = 16;

/// A table of keys by slot that somebody has: the engine's [`core::Engine::keys_version`] when it was made, how many keys are
/// in it, and how long their text is.
pub type KeyTableVersion = (i64, usize, usize);

/// The keys of some slots, one after the other.
pub struct KeyBuffers {
    offsets: Vec<u8>,
    text: Vec<u8>,
    /// Bytes of text that stand elsewhere, before these.
    before: usize,
}

impl KeyBuffers {
    /// The keys of all slots; those in no use have an empty one.
    pub fn by_slot(engine: &core::Engine) -> Self {
        let mut keys = Self::with_capacity(engine.slot_bound());
        (0..engine.slot_bound() as Slot).for_each(|slot| keys.push(engine.key(slot)));
        keys
    }

    /// Whether the keys in a table are right, so far as there are any.
    pub fn are_at_hand(engine: &core::Engine, (version, ..): KeyTableVersion) -> bool {
        u64::try_from(version) == Ok(engine.keys_version())
    }

    /// The keys of all slots that a table has not yet.
    pub fn beyond(engine: &core::Engine, (_, count, bytes): KeyTableVersion) -> Self {
        let mut keys = Self::with_capacity(engine.slot_bound().saturating_sub(count));
        keys.before = bytes;
        keys.offsets.clear();
        keys.offsets.extend_from_slice(&(bytes as i32).to_le_bytes());
        (count as Slot..engine.slot_bound() as Slot).for_each(|slot| keys.push(engine.key(slot)));
        keys
    }

    /// The keys of the slots that stand in a list, each once; the slots become places in the array.
    pub fn of(engine: &core::Engine, slots: &mut [Slot]) -> Self {
        const UNSEEN: u32 = 0;
        let mut keys = Self::with_capacity(0);
        // Places, from 1, by slot. Zeros come from the system, which makes only those real that are touched.
        let mut positions = vec![UNSEEN; engine.slot_bound()];
        let mut count = 0;
        for slot in slots {
            let target = &mut positions[*slot as usize];
            if *target == UNSEEN {
                keys.push(engine.key(*slot));
                count += 1;
                *target = count;
            }
            *slot = *target - 1;
        }
        keys
    }

    fn with_capacity(keys: usize) -> Self {
        let mut offsets = Vec::with_capacity((keys + 1) * size_of::<i32>());
        offsets.extend_from_slice(&0_i32.to_le_bytes());
        // Untouched memory costs nothing; growing to the size of many keys means copying them again and again.
        Self { offsets, text: Vec::with_capacity(keys * KEY_BYTES), before: 0 }
    }

    fn push(&mut self, key: Option<&str>) {
        self.text.extend_from_slice(key.unwrap_or_default().as_bytes());
        // Offsets of texts that are too long are never shown: see `buffers`.
        self.offsets.extend_from_slice(&((self.before + self.text.len()) as i32).to_le_bytes());
    }

    /// Offsets and text.
    pub fn buffers(&self, py: Python<'_>) -> PyResult<(Py<PyBytes>, Py<PyBytes>)> {
        if i32::try_from(self.before + self.text.len()).is_err() {
            return Err(PyOverflowError::new_err("the keys come to more than 2,147,483,647 bytes"));
        }
        Ok((PyBytes::new(py, &self.offsets).unbind(), PyBytes::new(py, &self.text).unbind()))
    }
}

/// Keys grouped by the query that they share, as the buffers of an Arrow array of lists of strings.
pub struct GroupBuffers {
    /// Where each group begins among the keys, and where the last one ends.
    ends: Vec<u8>,
    count: u32,
    keys: KeyBuffers,
}

impl GroupBuffers {
    fn empty() -> Self {
        Self { ends: 0_i32.to_le_bytes().to_vec(), count: 0, keys: KeyBuffers::with_capacity(0) }
    }

    /// The subscriptions of each query, by its number.
    pub fn by_query(engine: &core::Engine) -> Self {
        let mut groups = Self::empty();
        let mut slots = Vec::new();
        (0..engine.query_bound() as u32).for_each(|query| groups.push(engine, query, &mut slots));
        groups
    }

    /// The subscriptions of the queries that stand in a list, each once; the queries become places in the array.
    pub fn of(engine: &core::Engine, queries: &mut [u32]) -> Self {
        const UNSEEN: u32 = 0;
        let mut groups = Self::empty();
        let mut slots = Vec::new();
        let mut positions = vec![UNSEEN; engine.query_bound()];
        let mut count = 0;
        for query in queries {
            let target = &mut positions[*query as usize];
            if *target == UNSEEN {
                groups.push(engine, *query, &mut slots);
                count += 1;
                *target = count;
            }
            *query = *target - 1;
        }
        groups
    }

    fn push(&mut self, engine: &core::Engine, query: u32, slots: &mut Vec<Slot>) {
        slots.clear();
        engine.subscribers(query, slots);
        slots.iter().for_each(|&slot| self.keys.push(engine.key(slot)));
        // There are no more subscriptions than slots, of which there are fewer than 2^31.
        self.count += slots.len() as u32;
        self.ends.extend_from_slice(&self.count.to_le_bytes());
    }

    /// Where groups begin, and offsets and text of the keys.
    pub fn buffers(&self, py: Python<'_>) -> PyResult<(Py<PyBytes>, Py<PyBytes>, Py<PyBytes>)> {
        let (offsets, text) = self.keys.buffers(py)?;
        Ok((PyBytes::new(py, &self.ends).unbind(), offsets, text))
    }
}
