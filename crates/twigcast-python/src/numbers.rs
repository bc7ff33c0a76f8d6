//! Lists of numbers that Python looks at where they are, in memory that is used again and again: memory that comes anew
//! from the system is slow at first, and the lists of a batch are long.

use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::ffi;
use pyo3::prelude::*;

/// Lists that are kept, at most, and how much memory they may take together.
const LISTS_MAX: usize = 8;
const BYTES_MAX: usize = 64 << 20;

/// Memory of lists that are in no use any more.
#[derive(Clone, Default)]
pub struct Room(Arc<Mutex<Vec<Vec<u32>>>>);

impl Room {
    fn lists(&self) -> MutexGuard<'_, Vec<Vec<u32>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An empty list, with the most room that there is.
    pub fn take(&self) -> Vec<u32> {
        let mut lists = self.lists();
        let largest = (0..lists.len()).max_by_key(|&index| lists[index].capacity());
        largest.map(|index| lists.swap_remove(index)).unwrap_or_default()
    }

    /// Take a list back that is in no use any more.
    pub fn give_back(&self, mut list: Vec<u32>) {
        list.clear();
        let mut lists = self.lists();
        let bytes = |list: &Vec<u32>| list.capacity() * size_of::<u32>();
        let kept: usize = lists.iter().map(bytes).sum();
        if lists.len() < LISTS_MAX && kept + bytes(&list) <= BYTES_MAX {
            lists.push(list);
        }
    }
}

/// 32-bit numbers as a buffer of bytes. See the stub file.
#[pyclass(frozen, module = "twigcast._core")]
pub struct Numbers {
    list: Vec<u32>,
    room: Room,
}

impl Numbers {
    /// The numbers of a list, whose memory goes back to the room in the end.
    pub fn new(list: Vec<u32>, room: Room) -> Self {
        Self { list, room }
    }

    pub fn list(&self) -> &[u32] {
        &self.list
    }
}

impl Drop for Numbers {
    fn drop(&mut self) {
        self.room.give_back(std::mem::take(&mut self.list));
    }
}

#[pymethods]
impl Numbers {
    fn __len__(&self) -> usize {
        self.list.len()
    }

    /// The bytes, to be read only.
    ///
    /// # Safety
    /// As Python calls it: `view` points to a view to be filled.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let list = slf.get().list();
        // SAFETY: the list is written by nobody as long as the object lives (the class is frozen, and only `drop` takes it
        // out), and the view that is filled holds the object. It is handed out as one to be read only. There is no other
        // way to let pyarrow look at memory that Rust owns, and to copy it took a sixth of the time of matching.
        let filled = unsafe {
            let (start, bytes) = (list.as_ptr().cast_mut().cast(), size_of_val(list) as ffi::Py_ssize_t);
            ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, bytes, 1, flags)
        };
        if filled == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}
