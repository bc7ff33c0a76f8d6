//! Arrow arrays handed to Python by the Arrow C data interface, without copying:
//! <https://arrow.apache.org/docs/format/CDataInterface.html>.
//!
//! An exported array owns its buffers. The consumer calls `release` once it no longer reads them; if nobody imports a
//! capsule, dropping the capsule does.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use pyo3::prelude::*;
use pyo3::types::PyCapsule;

const NULLABLE: i64 = 2;

/// Memory of an exported array. It neither moves nor changes as long as the buffer lives.
pub trait Buffer: Send {
    /// Returns where the memory begins.
    fn start(&self) -> *const c_void;
}

impl<T: Send> Buffer for Vec<T> {
    fn start(&self) -> *const c_void {
        self.as_ptr().cast()
    }
}

/// An array to be exported.
pub struct ExportedArray {
    /// The type, in the notation of the interface.
    format: &'static CStr,
    name: &'static CStr,
    length: usize,
    null_count: usize,
    /// As the type lays them out; `None` for a validity bitmap that is left out.
    buffers: Vec<Option<Box<dyn Buffer>>>,
    children: Vec<ExportedArray>,
    dictionary: Option<Box<ExportedArray>>,
}

impl ExportedArray {
    /// Returns an array without nulls. `buffers` are those behind the validity bitmap.
    pub fn new(format: &'static CStr, length: usize, buffers: Vec<Box<dyn Buffer>>) -> Self {
        let buffers = std::iter::once(None).chain(buffers.into_iter().map(Some)).collect();
        Self { format, name: c"", length, null_count: 0, buffers, children: Vec::new(), dictionary: None }
    }

    /// Gives the array a name, as a column or as the items of a list.
    pub fn named(mut self, name: &'static CStr) -> Self {
        self.name = name;
        self
    }

    /// Sets the validity bitmap; an empty one says that there are no nulls.
    pub fn with_validity(mut self, bits: Vec<u8>, null_count: usize) -> Self {
        if !bits.is_empty() {
            self.buffers[0] = Some(Box::new(bits));
            self.null_count = null_count;
        }
        self
    }

    /// Adds children: the columns of a struct, the items of a list.
    pub fn with_children(mut self, children: Vec<ExportedArray>) -> Self {
        self.children = children;
        self
    }

    /// Makes the values indices of a dictionary.
    pub fn with_dictionary(mut self, dictionary: ExportedArray) -> Self {
        self.dictionary = Some(Box::new(dictionary));
        self
    }

    /// Returns the capsules of `__arrow_c_array__`: type and array.
    pub fn capsules(self, py: Python<'_>) -> PyResult<(Bound<'_, PyCapsule>, Bound<'_, PyCapsule>)> {
        let schema = PyCapsule::new_with_value(py, ArrowSchema::of(&self), c"arrow_schema")?;
        Ok((schema, PyCapsule::new_with_value(py, ArrowArray::of(self), c"arrow_array")?))
    }
}

#[repr(C)]
struct ArrowSchema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut ArrowSchema,
    dictionary: *mut ArrowSchema,
    release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    private_data: *mut c_void,
}

#[repr(C)]
struct ArrowArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut ArrowArray,
    dictionary: *mut ArrowArray,
    release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    private_data: *mut c_void,
}

// SAFETY: all that the pointers lead to is static, or owned by the private data, which is `Send`.
unsafe impl Send for ArrowSchema {}
// SAFETY: as above.
unsafe impl Send for ArrowArray {}

/// What the private data of a structure owns. A consumer may take a child over, whose `release` is null then; dropping
/// it is harmless.
struct Owned<T> {
    children: Vec<*mut T>,
    dictionary: *mut T,
    pointers: Vec<*const c_void>,
    _buffers: Vec<Option<Box<dyn Buffer>>>,
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        let dictionary = (!self.dictionary.is_null()).then_some(self.dictionary);
        for child in self.children.drain(..).chain(dictionary) {
            // SAFETY: they come from `Box::into_raw`, and nothing else frees them.
            drop(unsafe { Box::from_raw(child) });
        }
    }
}

fn boxed<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

impl ArrowSchema {
    fn of(array: &ExportedArray) -> Self {
        let mut owned = Box::new(Owned {
            children: array.children.iter().map(|child| boxed(Self::of(child))).collect(),
            dictionary: array.dictionary.as_ref().map_or(ptr::null_mut(), |dictionary| boxed(Self::of(dictionary))),
            pointers: Vec::new(),
            _buffers: Vec::new(),
        });
        Self {
            format: array.format.as_ptr(),
            name: array.name.as_ptr(),
            metadata: ptr::null(),
            flags: NULLABLE,
            n_children: owned.children.len() as i64,
            children: owned.children.as_mut_ptr(),
            dictionary: owned.dictionary,
            release: Some(release_schema),
            private_data: Box::into_raw(owned).cast(),
        }
    }
}

impl ArrowArray {
    fn of(array: ExportedArray) -> Self {
        let mut owned = Box::new(Owned {
            children: array.children.into_iter().map(|child| boxed(Self::of(child))).collect(),
            dictionary: array.dictionary.map_or(ptr::null_mut(), |dictionary| boxed(Self::of(*dictionary))),
            pointers: array.buffers.iter().map(|b| b.as_ref().map_or(ptr::null(), |buffer| buffer.start())).collect(),
            _buffers: array.buffers,
        });
        Self {
            length: array.length as i64,
            null_count: array.null_count as i64,
            offset: 0,
            n_buffers: owned.pointers.len() as i64,
            n_children: owned.children.len() as i64,
            buffers: owned.pointers.as_mut_ptr(),
            children: owned.children.as_mut_ptr(),
            dictionary: owned.dictionary,
            release: Some(release_array),
            private_data: Box::into_raw(owned).cast(),
        }
    }
}

/// # Safety
/// As the interface says: `schema` was made here and is not released yet.
unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    // SAFETY: `of` has put a box there, which is taken out once, since `release` is null then.
    unsafe {
        drop(Box::from_raw((*schema).private_data.cast::<Owned<ArrowSchema>>()));
        (*schema).release = None;
    }
}

/// # Safety
/// As the interface says: `array` was made here and is not released yet.
unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    // SAFETY: `of` has put a box there, which is taken out once, since `release` is null then.
    unsafe {
        drop(Box::from_raw((*array).private_data.cast::<Owned<ArrowArray>>()));
        (*array).release = None;
    }
}

impl Drop for ArrowSchema {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: it is not released yet.
            unsafe { release(self) }
        }
    }
}

impl Drop for ArrowArray {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: it is not released yet.
            unsafe { release(self) }
        }
    }
}
