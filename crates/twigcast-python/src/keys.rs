//! Keys as Arrow arrays: no object per key.
//!
//! Answers are slots, or queries; a [`KeyTable`] maps them to keys. An engine keeps the newest table, whose array all
//! answers share until a slot gets another key. After that, each answer has a table of its own keys only, until as many
//! matches have been named in this way as a new table of the engine would have keys.

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyCapsule;
use twigcast_core::engine as core;
use twigcast_core::engine::{KeySnapshot, Slot};

use crate::arrow_export::{Buffer, ExportedArray};

/// Bytes of a key for which memory is allocated beforehand.
const KEY_BYTES: usize = 16;

/// Keys and bytes that a table can grow by before it is copied, besides an eighth of what it has.
const SPARE: usize = 1_024;

/// A table of so many keys is made at once: it costs less than the rest of a batch.
const SMALL_TABLE: usize = 1_000;

/// Strings that are being collected, laid out as Arrow does: 32-bit offsets and text.
struct StringBuilder {
    offsets: Vec<i32>,
    text: Vec<u8>,
}

impl StringBuilder {
    fn with_capacity(count: usize, bytes: usize) -> Self {
        let mut offsets = Vec::with_capacity(count + 1);
        offsets.push(0);
        Self { offsets, text: Vec::with_capacity(bytes) }
    }

    fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    fn push(&mut self, key: &str) {
        self.text.extend_from_slice(key.as_bytes());
        // Where the text is too long for offsets, it is not exported: see `StringTable::exported`.
        self.offsets.push(self.text.len() as i32);
    }

    fn finish(self) -> StringTable {
        let (count, bytes) = (self.len(), self.text.len());
        let (offsets, text) = (ManuallyDrop::new(self.offsets), ManuallyDrop::new(self.text));
        let memory = StringMemory {
            offsets: offsets.as_ptr().cast_mut(),
            offsets_capacity: offsets.capacity(),
            text: text.as_ptr().cast_mut(),
            text_capacity: text.capacity(),
            used: AtomicUsize::new(count),
        };
        StringTable { memory: Arc::new(memory), count, bytes }
    }
}

/// Memory that tables of strings share, each a prefix of the next.
///
/// What a table covers is never written again. `used` is how many strings the longest table has; only who raises it may
/// write the strings behind.
struct StringMemory {
    offsets: *mut i32,
    offsets_capacity: usize,
    text: *mut u8,
    text_capacity: usize,
    used: AtomicUsize,
}

// SAFETY: see the type: no byte is read and written at the same time.
unsafe impl Send for StringMemory {}
// SAFETY: as above.
unsafe impl Sync for StringMemory {}

impl Drop for StringMemory {
    fn drop(&mut self) {
        // SAFETY: `StringBuilder::finish` took them from vectors of these capacities; elements need no dropping.
        unsafe {
            drop(Vec::from_raw_parts(self.offsets, 0, self.offsets_capacity));
            drop(Vec::from_raw_parts(self.text, 0, self.text_capacity));
        }
    }
}

/// An immutable list of strings that can grow without being copied.
#[derive(Clone)]
struct StringTable {
    memory: Arc<StringMemory>,
    count: usize,
    bytes: usize,
}

impl StringTable {
    /// Returns a table of these strings and some more.
    fn grown(&self, more: &StringBuilder) -> Self {
        let (count, bytes) = (self.count + more.len(), self.bytes + more.text.len());
        let memory = &self.memory;
        let fits = count < memory.offsets_capacity && bytes <= memory.text_capacity;
        let claim = || memory.used.compare_exchange(self.count, count, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if !fits || !claim() {
            return self.copied_with(more);
        }
        // SAFETY: both fit; by raising `used` from where this table ends, this call alone writes what lies behind it.
        unsafe {
            for (index, &end) in (self.count + 1..).zip(&more.offsets[1..]) {
                memory.offsets.add(index).write((self.bytes + end as usize) as i32);
            }
            memory.text.add(self.bytes).copy_from_nonoverlapping(more.text.as_ptr(), more.text.len());
        }
        Self { memory: Arc::clone(memory), count, bytes }
    }

    fn copied_with(&self, more: &StringBuilder) -> Self {
        let (count, bytes) = (self.count + more.len(), self.bytes + more.text.len());
        let mut copy = StringBuilder::with_capacity(count + count / 8 + SPARE, bytes + bytes / 8 + SPARE);
        // SAFETY: a table covers so many offsets and bytes, which nobody writes.
        unsafe {
            copy.offsets.extend_from_slice(std::slice::from_raw_parts(self.memory.offsets.add(1), self.count));
            copy.text.extend_from_slice(std::slice::from_raw_parts(self.memory.text, self.bytes));
        }
        copy.offsets.extend(more.offsets[1..].iter().map(|&end| (self.bytes + end as usize) as i32));
        copy.text.extend_from_slice(&more.text);
        copy.finish()
    }

    fn exported(&self) -> PyResult<ExportedArray> {
        if i32::try_from(self.bytes).is_err() {
            return Err(PyOverflowError::new_err("the keys come to more than 2,147,483,647 bytes"));
        }
        let parts = [self.memory.offsets.cast_const().cast(), self.memory.text.cast_const().cast()];
        let buffers = parts.map(|start| Box::new(TableBuffer { start, _memory: Arc::clone(&self.memory) }) as Box<_>);
        Ok(ExportedArray::new(c"u", self.count, buffers.into()))
    }
}

/// Offsets or text of a table.
struct TableBuffer {
    start: *const c_void,
    _memory: Arc<StringMemory>,
}

// SAFETY: the memory is, and the pointer leads into it.
unsafe impl Send for TableBuffer {}

impl Buffer for TableBuffer {
    fn start(&self) -> *const c_void {
        self.start
    }
}

/// The keys by slot, or by query, as they were at one moment.
pub struct Keys {
    /// The version of the engine's keys (of the whole engine, for keys by query) that the table is right for.
    version: u64,
    /// For keys by slot: the version of the whole engine that the table was made or last extended for. It is right for later
    /// versions with the same keys, but slots in use before may have none in it.
    made_for: u64,
    strings: StringTable,
    /// For keys by query: where each query's keys begin, and where the last ones end.
    groups: Option<Vec<i32>>,
    /// The table as an array of pyarrow, once asked for.
    arrow: PyOnceLock<Py<PyAny>>,
}

impl Keys {
    fn new((version, made_for): (u64, u64), strings: StringTable, groups: Option<Vec<i32>>) -> Arc<Self> {
        Arc::new(Self { version, made_for, strings, groups, arrow: PyOnceLock::new() })
    }

    /// Returns the keys of all slots; those in no use have an empty one.
    fn by_slot(engine: &core::Engine) -> Arc<Self> {
        let bound = engine.slot_bound();
        let mut keys = StringBuilder::with_capacity(bound, bound * KEY_BYTES);
        (0..bound as Slot).for_each(|slot| keys.push(engine.key(slot).unwrap_or_default()));
        Self::new((engine.keys_version(), engine.version()), keys.finish(), None)
    }

    /// Returns the table with the keys of slots that came into use since.
    fn with_new_slots(&self, engine: &core::Engine) -> Arc<Self> {
        let mut more = StringBuilder::with_capacity(0, 0);
        (self.strings.count as Slot..engine.slot_bound() as Slot)
            .for_each(|slot| more.push(engine.key(slot).unwrap_or_default()));
        Self::new((self.version, engine.version()), self.strings.grown(&more), None)
    }

    /// Returns the keys of the slots in a list, each once, and makes the slots positions in the table.
    fn of_slots<'a>(slots: &mut [Slot], bound: usize, key: impl Fn(Slot) -> Option<&'a str>) -> Arc<Self> {
        let mut keys = StringBuilder::with_capacity(0, 0);
        to_positions(slots, bound, |slot| keys.push(key(slot).unwrap_or_default()));
        Self::new((0, 0), keys.finish(), None)
    }

    /// Returns the keys of all queries, by their number.
    fn by_query(engine: &core::Engine) -> Arc<Self> {
        let mut groups = GroupBuilder::default();
        (0..engine.query_bound() as u32).for_each(|query| groups.push(engine, query));
        groups.finish(engine.version())
    }

    /// Returns the keys of the queries in a list, each query once, and makes the queries positions in the table.
    fn of_queries(engine: &core::Engine, queries: &mut [u32]) -> Arc<Self> {
        let mut groups = GroupBuilder::default();
        to_positions(queries, engine.query_bound(), |query| groups.push(engine, query));
        groups.finish(0)
    }

    /// Returns the table as an Arrow array of strings, or of lists of strings.
    pub fn exported(&self) -> PyResult<ExportedArray> {
        let keys = self.strings.exported()?;
        Ok(match &self.groups {
            None => keys,
            Some(ends) => ExportedArray::new(c"+l", ends.len() - 1, vec![Box::new(ends.clone())])
                .with_children(vec![keys.named(c"item")]),
        })
    }
}

/// Replaces numbers below `bound` by their positions among the distinct ones, in the order in which these come first;
/// `add` is called for each distinct one.
fn to_positions(numbers: &mut [u32], bound: usize, mut add: impl FnMut(u32)) {
    const UNSEEN: u32 = 0;
    // Positions, from 1, by number. Zeros come from the system, which makes only those real that are touched.
    let mut positions = vec![UNSEEN; bound];
    let mut count = 0;
    for number in numbers {
        let position = &mut positions[*number as usize];
        if *position == UNSEEN {
            add(*number);
            count += 1;
            *position = count;
        }
        *number = *position - 1;
    }
}

/// Keys that are being grouped by query.
struct GroupBuilder {
    ends: Vec<i32>,
    keys: StringBuilder,
    slots: Vec<Slot>,
}

impl Default for GroupBuilder {
    fn default() -> Self {
        Self { ends: vec![0], keys: StringBuilder::with_capacity(0, 0), slots: Vec::new() }
    }
}

impl GroupBuilder {
    fn push(&mut self, engine: &core::Engine, query: u32) {
        self.slots.clear();
        engine.subscribers(query, &mut self.slots);
        self.slots.iter().for_each(|&slot| self.keys.push(engine.key(slot).unwrap_or_default()));
        // There are no more subscriptions than slots, of which there are fewer than 2^31.
        self.ends.push(self.keys.len() as i32);
    }

    fn finish(self, version: u64) -> Arc<Keys> {
        Keys::new((version, version), self.keys.finish(), Some(self.ends))
    }
}

/// The newest table of an engine, and how many keys were named without one.
#[derive(Default)]
pub struct NewestTable(Mutex<TableState>);

/// The state of a [`NewestTable`], behind its lock.
#[derive(Default)]
pub struct TableState {
    table: Option<Arc<Keys>>,
    /// The version at which keys were named without a table, and how many.
    named_at: u64,
    named: usize,
}

impl TableState {
    /// Counts keys that are named at a version, and returns whether making a table of `size` keys pays by now.
    fn pays(&mut self, version: u64, named: usize, size: usize) -> bool {
        if version < self.named_at {
            return false;
        }
        if version > self.named_at {
            (self.named_at, self.named) = (version, 0);
        }
        self.named += named;
        self.named + SMALL_TABLE >= size
    }

    fn keep(&mut self, table: Arc<Keys>) -> Arc<Keys> {
        self.table = Some(Arc::clone(&table));
        table
    }

    /// Returns the keys by slot, if there is a table that is right, or making one pays when so many more are named.
    fn by_slot(&mut self, engine: &core::Engine, named: usize) -> Option<Arc<Keys>> {
        let (version, bound) = (engine.keys_version(), engine.slot_bound());
        match &self.table {
            // A batch that began earlier makes no table in place of a newer one.
            Some(table) if table.made_for > engine.version() => None,
            Some(table) if table.version == version && table.strings.count == bound => Some(Arc::clone(table)),
            Some(table) if table.version == version => {
                let grown = table.with_new_slots(engine);
                Some(self.keep(grown))
            }
            _ => self.pays(version, named, bound).then(|| self.keep(Keys::by_slot(engine))),
        }
    }
}

impl NewestTable {
    /// Locks the table.
    pub fn lock(&self) -> MutexGuard<'_, TableState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a table in which slots of an answer are positions: the engine's, or one of their own.
    pub fn of_slots(&self, engine: &core::Engine, slots: &mut [Slot]) -> Arc<Keys> {
        let table = self.lock().by_slot(engine, slots.len());
        table.unwrap_or_else(|| Keys::of_slots(slots, engine.slot_bound(), |slot| engine.key(slot)))
    }

    /// Returns a table in which queries of an answer are positions; `keys` is how many keys the answer has.
    pub fn of_queries(&self, engine: &core::Engine, queries: &mut [u32], keys: usize) -> Arc<Keys> {
        let version = engine.version();
        let mut state = self.lock();
        if let Some(table) = state.table.as_ref().filter(|table| table.version == version) {
            return Arc::clone(table);
        }
        if state.pays(version, keys, engine.len()) {
            return state.keep(Keys::by_query(engine));
        }
        drop(state);
        Keys::of_queries(engine, queries)
    }

    /// Returns the keys of all slots as they are now, in a new table if need be.
    pub fn all(&self, engine: &core::Engine) -> Arc<Keys> {
        let table = self.lock().by_slot(engine, engine.slot_bound());
        table.unwrap_or_else(|| Keys::by_slot(engine))
    }

    /// Returns the keys of all slots, if there is a table or making one pays.
    pub fn ready(&self, engine: &core::Engine) -> Option<Arc<Keys>> {
        self.lock().by_slot(engine, 0)
    }

    /// Returns a table of their own for slots of an earlier moment, and counts them.
    pub fn of_earlier_slots(&self, then: &KeySnapshot, slots: &mut [Slot]) -> Arc<Keys> {
        let bound = slots.iter().max().map_or(0, |&slot| slot as usize + 1);
        self.lock().pays(then.version(), slots.len(), bound);
        Keys::of_slots(slots, bound, |slot| then.key(slot))
    }
}

/// See the stub file.
#[pyclass(frozen, module = "twigcast._core")]
pub struct KeyTable(pub Arc<Keys>);

#[pymethods]
impl KeyTable {
    fn __len__(&self) -> usize {
        self.0.groups.as_ref().map_or(self.0.strings.count, |ends| ends.len() - 1)
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        // The interface leaves it to the producer whether it can meet the request; the importer casts if it does not.
        let _ = requested_schema;
        self.0.exported()?.capsules(py)
    }

    fn arrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let import = || py.import("pyarrow")?.call_method1("array", (slf,)).map(Bound::unbind);
        Ok(slf.get().0.arrow.get_or_try_init(py, import)?.bind(py).clone())
    }
}
