//! Lists of numbers or bytes that Python reads in place, in memory that is used again: memory fresh from the system is
//! slow at first, and the answer to a batch is long.

use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::arrow_export::Buffer;

/// The most lists that a pool keeps, and the most memory that they may take together.
const LISTS_MAX: usize = 8;
const BYTES_MAX: usize = 256 << 20;

/// A list is sparse if it has more than `SPARSE_BYTES` of memory and uses less than one part in `SPARSE` of it.
const SPARSE: usize = 8;
const SPARSE_BYTES: usize = 1 << 12;

/// The most sparse lists that Python may hold, and the most unused memory in them.
const SPARING_MAX: usize = 8;
const SPARE_MAX: usize = 32 << 20;

/// The first part of a list, which is what was found; the rest is memory for more.
#[derive(Default)]
pub struct ThreadMatches<T> {
    list: Vec<T>,
    count: usize,
}

impl<T> From<Vec<T>> for ThreadMatches<T> {
    /// Takes a whole list.
    fn from(list: Vec<T>) -> Self {
        Self { count: list.len(), list }
    }
}

impl<T> ThreadMatches<T> {
    /// Takes the first `count` items of a list.
    pub fn new(list: Vec<T>, count: usize) -> Self {
        Self { list, count }
    }

    /// Returns what was found.
    pub fn all(&self) -> &[T] {
        &self.list[..self.count]
    }

    /// Returns what was found, to be changed.
    pub fn all_mut(&mut self) -> &mut [T] {
        &mut self.list[..self.count]
    }

    /// Returns the list, and how many of its items were found.
    pub fn into_parts(self) -> (Vec<T>, usize) {
        (self.list, self.count)
    }
}

/// The memory of lists that are no longer in use.
pub struct BufferPool<T>(Arc<Mutex<PooledBuffer<T>>>);

/// The lists of a [`BufferPool`], behind its lock.
pub struct PooledBuffer<T> {
    lists: Vec<Vec<T>>,
    /// The number of sparse lists that Python holds, and the unused memory in them.
    sparing: usize,
    spare: usize,
}

impl<T> Default for BufferPool<T> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(PooledBuffer { lists: Vec::new(), sparing: 0, spare: 0 })))
    }
}

impl<T> Clone for BufferPool<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

fn memory_of<T>(list: &Vec<T>) -> usize {
    list.capacity() * size_of::<T>()
}

impl<T> PooledBuffer<T> {
    /// Counts a sparse list that Python is to hold; returns whether it may, beside the others.
    fn start_read(&mut self, spare: usize) -> bool {
        let fits = self.sparing < SPARING_MAX && self.spare + spare <= SPARE_MAX;
        if fits {
            self.sparing += 1;
            self.spare += spare;
        }
        fits
    }

    /// Counts a sparse list that Python no longer holds.
    fn end_lending(&mut self, spare: usize) {
        self.sparing -= 1;
        self.spare -= spare;
    }

    /// Keeps a list. Returns the smallest lists if there are too many, or if they have too much memory: small ones would
    /// otherwise keep out those that long answers need.
    fn keep(&mut self, list: Vec<T>) -> Vec<Vec<T>> {
        if memory_of(&list) > BYTES_MAX {
            return vec![list];
        }
        self.lists.push(list);
        let mut bytes: usize = self.lists.iter().map(memory_of).sum();
        let mut gone = Vec::new();
        while self.lists.len() > LISTS_MAX || bytes > BYTES_MAX {
            let smallest = (0..self.lists.len()).min_by_key(|&index| self.lists[index].capacity());
            let Some(smallest) = smallest.map(|index| self.lists.swap_remove(index)) else { break };
            bytes -= memory_of(&smallest);
            gone.push(smallest);
        }
        gone
    }
}

impl<T: Copy> BufferPool<T> {
    /// Locks the pool.
    pub fn lock(&self) -> MutexGuard<'_, PooledBuffer<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the list with the largest capacity; whatever was in it may still be there.
    pub fn take(&self) -> Vec<T> {
        let lists = &mut self.lock().lists;
        let largest = (0..lists.len()).max_by_key(|&index| lists[index].capacity());
        largest.map(|index| lists.swap_remove(index)).unwrap_or_default()
    }

    /// Takes a list back that is no longer in use.
    pub fn give_back(&self, list: Vec<T>) {
        // To give memory back to the system takes long: nobody should wait for that.
        let gone = self.lock().keep(list);
        drop(gone);
    }

    /// Returns a list for Python to hold. Python may hold many for long, which then should not have much more memory than
    /// they need, so sparse lists are copied, all but a few: answers differ in length, so that most have memory of a
    /// longer one, and copying each took a thirtieth of the time of matching and rewriting.
    pub fn prefix(&self, found: ThreadMatches<T>) -> PooledPrefix<T> {
        let (list, count) = found.into_parts();
        let is_sparse = memory_of(&list) > SPARSE_BYTES && count < list.capacity() / SPARSE;
        let spare = if is_sparse { memory_of(&list) - count * size_of::<T>() } else { 0 };
        let pool = Some(self.clone());
        if spare == 0 || self.lock().start_read(spare) {
            return PooledPrefix { list, count, spare, pool };
        }
        let few = list[..count].to_vec();
        self.give_back(list);
        PooledPrefix { list: few, count, spare: 0, pool }
    }
}

/// The first items of a list whose memory goes back to a pool in the end.
pub struct PooledPrefix<T: Copy> {
    list: Vec<T>,
    count: usize,
    /// The unused memory of a sparse list, else 0.
    spare: usize,
    /// The pool that gets the memory in the end; `None`: it goes back to the system.
    pool: Option<BufferPool<T>>,
}

impl<T: Copy> PooledPrefix<T> {
    fn list(&self) -> &[T] {
        &self.list[..self.count]
    }
}

impl<T: Copy> Drop for PooledPrefix<T> {
    fn drop(&mut self) {
        let Some(pool) = &self.pool else { return };
        if self.spare > 0 {
            pool.lock().end_lending(self.spare);
        }
        pool.give_back(std::mem::take(&mut self.list));
    }
}

/// Fills in Python's view of a list that an object owns.
///
/// # Safety
/// `view` points to a view to be filled. The list is neither written nor moved as long as the owner lives.
unsafe fn fill_view<T>(list: &[T], owner: &Bound<'_, PyAny>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
    // SAFETY: the view holds the owner, and is handed out as one to be read only. There is no other way to let pyarrow
    // look at memory that Rust owns, and to copy it took a sixth of the time of matching, more of that of rewriting.
    let filled = unsafe {
        let (start, bytes) = (list.as_ptr().cast_mut().cast(), size_of_val(list) as ffi::Py_ssize_t);
        ffi::PyBuffer_FillInfo(view, owner.as_ptr(), start, bytes, 1, flags)
    };
    if filled == 0 { Ok(()) } else { Err(PyErr::fetch(owner.py())) }
}

impl<T: Copy + Send> Buffer for PooledPrefix<T> {
    fn start(&self) -> *const c_void {
        self.list.as_ptr().cast()
    }
}

impl<T: Copy> From<Vec<T>> for PooledPrefix<T> {
    /// Wraps a list whose memory goes back to the system in the end.
    fn from(list: Vec<T>) -> Self {
        Self { count: list.len(), list, spare: 0, pool: None }
    }
}

/// The content of a [`NumberBuffer`].
enum Content {
    Int32(PooledPrefix<u32>),
    Int64(PooledPrefix<u64>),
    Bytes(PooledPrefix<u8>),
}

/// A list of numbers or bytes. See the stub file.
#[pyclass(frozen, module = "twigcast._core")]
pub struct NumberBuffer(Content);

impl From<PooledPrefix<u32>> for NumberBuffer {
    fn from(list: PooledPrefix<u32>) -> Self {
        Self(Content::Int32(list))
    }
}

impl From<PooledPrefix<u64>> for NumberBuffer {
    fn from(list: PooledPrefix<u64>) -> Self {
        Self(Content::Int64(list))
    }
}

impl From<PooledPrefix<u8>> for NumberBuffer {
    fn from(list: PooledPrefix<u8>) -> Self {
        Self(Content::Bytes(list))
    }
}

impl NumberBuffer {
    /// Hands a list to Python. All empty lists share one object: most lists of small batches are.
    pub fn lend<T: Copy>(py: Python<'_>, list: impl Into<PooledPrefix<T>>) -> PyResult<Py<Self>>
    where
        Self: From<PooledPrefix<T>>,
    {
        static EMPTY: PyOnceLock<Py<NumberBuffer>> = PyOnceLock::new();
        let list = list.into();
        if list.count == 0 {
            let empty = || Py::new(py, Self(Content::Bytes(Vec::new().into())));
            return Ok(EMPTY.get_or_try_init(py, empty)?.clone_ref(py));
        }
        Py::new(py, Self::from(list))
    }

    /// Returns the list, if it is one of 32-bit numbers.
    pub fn int32(&self) -> &[u32] {
        if let Content::Int32(list) = &self.0 { list.list() } else { &[] }
    }

    /// Returns the list, if it is one of 64-bit numbers.
    pub fn int64(&self) -> &[u64] {
        if let Content::Int64(list) = &self.0 { list.list() } else { &[] }
    }

    /// Returns the list, if it is one of bytes.
    pub fn bytes(&self) -> &[u8] {
        if let Content::Bytes(list) = &self.0 { list.list() } else { &[] }
    }
}

#[pymethods]
impl NumberBuffer {
    fn __len__(&self) -> usize {
        match &self.0 {
            Content::Int32(list) => list.list().len(),
            Content::Int64(list) => list.list().len(),
            Content::Bytes(list) => list.list().len(),
        }
    }

    /// Fills in a view of the bytes, to be read only.
    ///
    /// # Safety
    /// As Python calls it: `view` points to a view to be filled.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        // SAFETY: the class is frozen, and only `drop` takes the list out.
        unsafe {
            match &slf.get().0 {
                Content::Int32(list) => fill_view(list.list(), slf.as_any(), view, flags),
                Content::Int64(list) => fill_view(list.list(), slf.as_any(), view, flags),
                Content::Bytes(list) => fill_view(list.list(), slf.as_any(), view, flags),
            }
        }
    }
}
