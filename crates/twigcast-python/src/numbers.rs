//! Lists of numbers or bytes that Python looks at where they are, in memory that is used again and again: memory that
//! comes anew from the system is slow at first, and what a batch finds is long.

use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::ffi;
use pyo3::prelude::*;

use crate::gather::Found;

/// Lists that are kept, at most, and how much memory they may take together.
const LISTS_MAX: usize = 8;
const BYTES_MAX: usize = 128 << 20;

/// A list that takes no more than one part of so many of its memory is given memory of its own, if that is worth it.
const SPARSE: usize = 8;
const SPARSE_BYTES: usize = 1 << 12;

/// Memory of lists that are in no use any more.
pub struct Room<T>(Arc<Mutex<Vec<Vec<T>>>>);

impl<T> Default for Room<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Clone for Room<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

fn memory_of<T>(list: &Vec<T>) -> usize {
    list.capacity() * size_of::<T>()
}

impl<T: Copy> Room<T> {
    fn lists(&self) -> MutexGuard<'_, Vec<Vec<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The list with the most room that there is; whatever was in it may still be there.
    pub fn take(&self) -> Vec<T> {
        let mut lists = self.lists();
        let largest = (0..lists.len()).max_by_key(|&index| lists[index].capacity());
        largest.map(|index| lists.swap_remove(index)).unwrap_or_default()
    }

    /// Take a list back that is in no use any more. Of too many, the smallest goes: those that short answers had would
    /// otherwise keep out the ones that long answers need.
    pub fn give_back(&self, list: Vec<T>) {
        let mut lists = self.lists();
        let kept: usize = lists.iter().map(memory_of).sum();
        if kept + memory_of(&list) > BYTES_MAX {
            return;
        }
        lists.push(list);
        if lists.len() > LISTS_MAX {
            let smallest = (0..lists.len()).min_by_key(|&index| lists[index].capacity());
            smallest.map(|index| lists.swap_remove(index));
        }
    }

    /// The first so many of a list. They may be looked at for long: then they should not hold much more memory than they
    /// need. Memory that is more than they need, but not so much more, stays: answers differ in length, and to give it
    /// back after each, for it to come anew from the system, takes longer than finding them.
    fn hold(&self, list: Vec<T>, count: usize) -> Held<T> {
        let list = if memory_of(&list) > SPARSE_BYTES && count < list.capacity() / SPARSE {
            let few = list[..count].to_vec();
            self.give_back(list);
            few
        } else {
            list
        };
        Held { list, count, room: self.clone() }
    }
}

/// The first so many of a list whose memory goes back to the room in the end.
struct Held<T: Copy> {
    list: Vec<T>,
    count: usize,
    room: Room<T>,
}

impl<T: Copy> Held<T> {
    fn list(&self) -> &[T] {
        &self.list[..self.count]
    }
}

impl<T: Copy> Drop for Held<T> {
    fn drop(&mut self) {
        self.room.give_back(std::mem::take(&mut self.list));
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

/// 32-bit numbers as a buffer of bytes. See the stub file.
#[pyclass(frozen, module = "twigcast._core")]
pub struct Numbers(Held<u32>);

impl Numbers {
    /// What a batch found. The memory goes back to the room in the end.
    pub fn new(found: Found<u32>, room: &Room<u32>) -> Self {
        let (list, count) = found.into_parts();
        Self(room.hold(list, count))
    }

    pub fn list(&self) -> &[u32] {
        self.0.list()
    }
}

#[pymethods]
impl Numbers {
    fn __len__(&self) -> usize {
        self.0.list().len()
    }

    /// The bytes, to be read only.
    ///
    /// # Safety
    /// As Python calls it: `view` points to a view to be filled.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        // SAFETY: the class is frozen, and only `drop` takes the list out.
        unsafe { fill_view(slf.get().0.list(), slf.as_any(), view, flags) }
    }
}

/// Bytes as a buffer. See the stub file.
#[pyclass(frozen, module = "twigcast._core")]
pub struct Bytes(Held<u8>);

impl Bytes {
    /// Payloads that a batch made. The memory goes back to the room in the end.
    pub fn new(made: Found<u8>, room: &Room<u8>) -> Self {
        let (list, count) = made.into_parts();
        Self(room.hold(list, count))
    }
}

#[pymethods]
impl Bytes {
    fn __len__(&self) -> usize {
        self.0.list().len()
    }

    /// The bytes, to be read only.
    ///
    /// # Safety
    /// As Python calls it: `view` points to a view to be filled.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        // SAFETY: the class is frozen, and only `drop` takes the list out.
        unsafe { fill_view(slf.get().0.list(), slf.as_any(), view, flags) }
    }
}
