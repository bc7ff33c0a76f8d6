//! Keys as the buffers of an Arrow string array: no object per key.

use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use twigcast_core::engine as core;
use twigcast_core::engine::Slot;

/// The keys of some slots, one after the other.
pub struct Keys {
    offsets: Vec<u8>,
    text: Vec<u8>,
}

impl Keys {
    /// The keys of all slots; those in no use have an empty one.
    pub fn by_slot(engine: &core::Engine) -> Self {
        let mut keys = Self::with_room(engine.slot_bound());
        (0..engine.slot_bound() as Slot).for_each(|slot| keys.push(engine.key(slot)));
        keys
    }

    /// The keys of the slots that stand in some lists, each once; the slots become places in the array.
    pub fn of<'a>(engine: &core::Engine, lists: impl Iterator<Item = &'a mut Vec<Slot>>) -> Self {
        const UNSEEN: u32 = 0;
        let mut keys = Self::with_room(0);
        // Places, from 1, by slot. Zeros come from the system, which makes only those real that are touched.
        let mut places = vec![UNSEEN; engine.slot_bound()];
        let mut count = 0;
        for slot in lists.flatten() {
            let place = &mut places[*slot as usize];
            if *place == UNSEEN {
                keys.push(engine.key(*slot));
                count += 1;
                *place = count;
            }
            *slot = *place - 1;
        }
        keys
    }

    fn with_room(keys: usize) -> Self {
        let mut offsets = Vec::with_capacity((keys + 1) * size_of::<i32>());
        offsets.extend_from_slice(&0_i32.to_le_bytes());
        Self { offsets, text: Vec::new() }
    }

    fn push(&mut self, key: Option<&str>) {
        self.text.extend_from_slice(key.unwrap_or_default().as_bytes());
        // Offsets of texts that are too long are never shown: see `buffers`.
        self.offsets.extend_from_slice(&(self.text.len() as i32).to_le_bytes());
    }

    /// Offsets and text.
    pub fn buffers(&self, py: Python<'_>) -> PyResult<(Py<PyBytes>, Py<PyBytes>)> {
        if i32::try_from(self.text.len()).is_err() {
            return Err(PyOverflowError::new_err("the keys come to more than 2,147,483,647 bytes"));
        }
        Ok((PyBytes::new(py, &self.offsets).unbind(), PyBytes::new(py, &self.text).unbind()))
    }
}
