//! Prepared results: who gets what is decided, but no result is written.
//!
//! They hold the matching queries in groups, the set of bindings of each group, and the entries of the requested
//! columns.

use std::sync::Arc;

use crate::document::NodeId;
use crate::ids::{BindingColumnId, BindingListId};

use super::super::interpreter::Interpreter;
use super::super::run_buffer::{RUN, RunAppender, STEP};
use super::binding_sets::members;
use super::condition_index::{ConditionIndex, MemberRange};
use super::constructors::{ConstructorForm, ResultConstructors};

/// Bytes of the message and of entries with several slices at most, to join the slices of each entry.
const JOINED_MAX: usize = 1 << 18;

/// Number of entries of all columns at most.
const ENTRIES_MAX: usize = 1 << 20;

/// In place of the start of a column: nobody requested it.
const UNREQUESTED: u32 = u32::MAX;

/// In place of the start of a column: it exceeds a limit.
const OVERFLOWED: u32 = UNREQUESTED - 1;

/// Bit in [`ColumnEntry::bytes`]: the entry has several slices.
pub(super) const SEVERAL: u32 = 1 << 31;

/// A range of the message, or of the bytes kept in its place.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slice {
    pub start: u32,
    pub end: u32,
}

/// The elements that a column selects from one binding: a slice, or a range of the list of slices if [`SEVERAL`] is
/// set.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ColumnEntry {
    pub slice: Slice,
    pub bytes: u32,
}

impl ColumnEntry {
    /// Returns the number of bytes.
    #[inline]
    pub fn bytes(self) -> usize {
        (self.bytes & !SEVERAL) as usize
    }
}

/// Queries that match with the same set of bindings.
#[derive(Clone, Copy, Debug)]
pub(super) struct MatchedGroup {
    pub list: BindingListId,
    pub members: MemberRange,
    /// Number of bindings of the list.
    pub bindings: u32,
    /// Position of the set in the words of all sets.
    pub set: u32,
}

/// The parts of prepared results that [`super::columns`] fills.
pub(super) struct ColumnParts<'a> {
    /// By column: the position of its first entry, beyond all entries if it is not requested.
    pub starts: &'a [u32],
    pub entries: &'a mut [ColumnEntry],
    pub slices: &'a mut Vec<Slice>,
    pub several_bytes: &'a mut usize,
}

impl MatchedGroup {
    /// Returns the number of queries.
    pub fn len(&self) -> u32 {
        self.members.1 - self.members.0
    }
}

/// The queries that match one message, their bindings and what their paths select: everything that results consist of,
/// except the message. They can be assembled at any time while the message is kept.
#[derive(Debug, Default)]
pub struct PreparedResults {
    /// The constructors of all results.
    pub(super) constructors: Arc<ResultConstructors>,
    /// The index that the members of groups are of.
    pub(super) index: Arc<ConditionIndex>,
    /// The queries, in groups with the same set of bindings.
    pub(super) groups: Vec<MatchedGroup>,
    /// The words of all sets.
    pub(super) sets: Vec<u64>,
    /// By column: the position of its first entry, [`OVERFLOWED`] or [`UNREQUESTED`].
    columns: Vec<u32>,
    /// The entries of all columns.
    pub(super) entries: Vec<ColumnEntry>,
    /// Number of entries of all requested columns.
    entry_count: u32,
    slices: Vec<Slice>,
    /// The bytes that slices are ranges of, if these are not the message itself.
    kept: Vec<u8>,
    is_kept: bool,
    /// Bytes of the entries with several slices.
    several_bytes: usize,
    /// Each entry is one slice with a step of other bytes after it.
    pub(super) is_joined: bool,
    /// Some column exceeded a limit.
    pub(super) has_overflowed: bool,
    /// Upper bounds of the bindings of a list and of the bytes of a column.
    bindings_max: usize,
    column_bytes_max: usize,
}

impl PreparedResults {
    /// Creates empty results with the same capacity.
    pub(super) fn with_same_capacity(&self) -> Self {
        Self {
            constructors: Arc::clone(&self.constructors),
            index: Arc::clone(&self.index),
            groups: Vec::with_capacity(self.groups.len()),
            sets: Vec::with_capacity(self.sets.len()),
            columns: Vec::with_capacity(self.columns.len()),
            entries: Vec::with_capacity(self.entries.len()),
            slices: Vec::with_capacity(self.slices.len()),
            ..Self::default()
        }
    }

    /// Begins the results of another message.
    pub(super) fn reset(
        &mut self,
        constructors: &Arc<ResultConstructors>,
        index: &Arc<ConditionIndex>,
        columns: usize,
    ) {
        if !Arc::ptr_eq(&self.constructors, constructors) {
            self.constructors = Arc::clone(constructors);
        }
        if !Arc::ptr_eq(&self.index, index) {
            self.index = Arc::clone(index);
        }
        self.groups.clear();
        self.sets.clear();
        self.columns.clear();
        self.columns.resize(columns, UNREQUESTED);
        self.entries.clear();
        self.entry_count = 0;
        self.slices.clear();
        self.kept.clear();
        self.kept.shrink_to(2 * JOINED_MAX);
        self.is_kept = false;
        self.several_bytes = 0;
        self.is_joined = false;
        self.has_overflowed = false;
        self.bindings_max = 0;
        self.column_bytes_max = 0;
    }

    /// Returns the number of queries.
    pub(crate) fn query_count(&self) -> usize {
        self.groups.iter().map(|group| group.len() as usize).sum()
    }

    /// Iterates over the queries.
    pub(crate) fn queries(&self) -> impl Iterator<Item = u32> + '_ {
        self.groups.iter().flat_map(|group| self.index.members(group.members)).map(|member| member.query)
    }

    /// Adds queries that match with the same set of bindings.
    #[inline]
    pub(super) fn add_group(&mut self, list: BindingListId, members: MemberRange, bindings: u32, set: &[u64]) {
        self.groups.push(MatchedGroup { list, members, bindings, set: self.sets.len() as u32 });
        match *set {
            [word] => self.sets.push(word),
            _ => self.sets.extend_from_slice(set),
        }
        self.bindings_max = self.bindings_max.max(bindings as usize);
    }

    /// Returns the set of bindings at a position.
    #[inline]
    pub(super) fn set(&self, start: u32, bindings: u32) -> &[u64] {
        &self.sets[start as usize..start as usize + (bindings as usize).div_ceil(64)]
    }

    /// Returns `true` if a column exceeded a limit.
    pub(super) fn has_column_overflowed(&self, column: BindingColumnId) -> bool {
        self.columns[column.index()] == OVERFLOWED
    }

    /// Returns `true` if all results can be assembled and none has more than `bytes_max` bytes.
    pub(super) fn is_certain(&self, bytes_max: usize) -> bool {
        !self.has_overflowed && self.bytes_max() <= bytes_max
    }

    /// Returns the bytes of any result, at most.
    pub(super) fn bytes_max(&self) -> usize {
        self.constructors.bytes_max(self.bindings_max, self.column_bytes_max)
    }

    /// Returns the number of columns, requested or not.
    pub(super) fn column_count(&self) -> usize {
        self.columns.len()
    }

    /// Returns the bytes of a column of this many bindings.
    pub(super) fn total(&self, column: BindingColumnId, bindings: u32) -> usize {
        self.entries(column, bindings).iter().map(|entry| entry.bytes()).sum()
    }

    /// Marks a column of this many bindings as needed.
    #[inline]
    pub(super) fn request(&mut self, column: BindingColumnId, bindings: u32) {
        let start = &mut self.columns[column.index()];
        if *start == UNREQUESTED {
            *start = self.entry_count;
            self.entry_count += bindings;
            if self.entry_count as usize > ENTRIES_MAX {
                self.entry_count -= bindings;
                self.set_overflowed(column);
            }
        }
    }

    /// Returns `true` if a column is requested.
    pub(super) fn is_requested(&self, column: BindingColumnId) -> bool {
        self.columns[column.index()] != UNREQUESTED
    }

    /// Marks a column that exceeds a limit.
    pub(super) fn set_overflowed(&mut self, column: BindingColumnId) {
        self.columns[column.index()] = OVERFLOWED;
        self.has_overflowed = true;
    }

    /// Raises the upper bound of the bytes of a column.
    pub(super) fn raise_bytes_max(&mut self, bytes_max: usize) {
        self.column_bytes_max = self.column_bytes_max.max(bytes_max);
    }

    /// Returns the parts that are filled with the columns.
    #[inline]
    pub(super) fn parts(&mut self) -> ColumnParts<'_> {
        let Self { columns, entries, slices, several_bytes, .. } = self;
        ColumnParts { starts: columns, entries, slices, several_bytes }
    }

    /// Returns `true` if copies of elements may differ from the message, by namespace declarations.
    #[inline]
    pub(super) fn is_copied(&self, interpreter: &Interpreter<'_>) -> bool {
        !interpreter.message.document.declarations.is_empty()
    }

    /// Keeps the copy of an element and returns its slice, or `None` if it does not fit.
    pub(super) fn keep_slice(&mut self, interpreter: &mut Interpreter<'_>, node: NodeId) -> Option<Slice> {
        self.is_kept = true;
        let start = self.kept.len();
        interpreter.keep_copy(node, &mut self.kept).ok()?;
        let end = u32::try_from(self.kept.len()).ok()?;
        Some(Slice { start: start as u32, end })
    }

    /// Joins the slices of each entry after a copy of the message, unless that takes too much memory. Then each entry
    /// is one slice with a step of other bytes after it.
    pub(crate) fn join(&mut self, message: &[u8]) {
        if self.is_joined || self.source(message).len() + self.several_bytes > JOINED_MAX {
            return;
        }
        self.is_joined = true;
        // Reserved at once, so that the copy is not moved.
        let bytes = self.source(message).len() + self.several_bytes + STEP;
        self.kept.reserve_exact(bytes.saturating_sub(self.kept.len()));
        if !self.is_kept {
            self.is_kept = true;
            self.kept.extend_from_slice(message);
        }
        let Self { kept, slices, .. } = self;
        for entry in self.entries.iter_mut().filter(|entry| entry.bytes & SEVERAL != 0) {
            let start = kept.len() as u32;
            for slice in &slices[entry.slice.start as usize..entry.slice.end as usize] {
                kept.extend_from_within(slice.start as usize..slice.end as usize);
            }
            *entry = ColumnEntry { slice: Slice { start, end: kept.len() as u32 }, bytes: entry.bytes & !SEVERAL };
        }
        kept.resize(kept.len() + STEP, 0);
    }

    /// Returns the bytes that slices are ranges of.
    #[inline]
    pub(super) fn source<'a>(&'a self, message: &'a [u8]) -> &'a [u8] {
        if self.is_kept { &self.kept } else { message }
    }

    /// Returns the entry of a binding in the column that starts at a position.
    #[inline]
    fn entry(&self, start: u32, binding: u32) -> ColumnEntry {
        self.entries[(start + binding) as usize]
    }

    /// Returns the entries of a column of this many bindings.
    #[inline]
    pub(super) fn entries(&self, column: BindingColumnId, bindings: u32) -> &[ColumnEntry] {
        let start = self.start_of(column) as usize;
        &self.entries[start..start + bindings as usize]
    }

    /// Creates the entries, after all columns have been requested.
    pub(super) fn begin_columns(&mut self) {
        self.entries.resize(self.entry_count as usize, ColumnEntry::default());
    }

    /// Returns the position of the first entry of a column, or 0 if it has none.
    #[inline]
    pub(super) fn start_of(&self, column: BindingColumnId) -> u32 {
        let start = self.columns[column.index()];
        if start >= OVERFLOWED { 0 } else { start }
    }

    /// Returns the bytes of a binding in the columns that start at these positions.
    #[inline]
    fn column_bytes(&self, starts: &[u32], binding: u32) -> usize {
        starts.iter().map(|&start| self.entry(start, binding).bytes()).sum()
    }

    /// Returns the bytes of a result.
    pub(super) fn size_of(&self, constructor: ConstructorUse<'_>, set: &[u64]) -> usize {
        let ConstructorUse { form, starts } = constructor;
        let fragment = |binding| {
            let bytes = self.column_bytes(starts, binding);
            form.constant_bytes[usize::from(bytes == 0)] + bytes
        };
        form.prefix.len() + members(set).map(fragment).sum::<usize>() + form.suffix.len()
    }

    /// Appends the fragment of one binding. `source` are the bytes that slices are ranges of.
    #[inline]
    pub(super) fn append_fragment(
        &self,
        constructor: ConstructorUse<'_>,
        binding: u32,
        source: &[u8],
        out: &mut RunAppender<'_>,
    ) {
        let ConstructorUse { form, starts } = constructor;
        let is_empty = usize::from(self.column_bytes(starts, binding) == 0);
        let (head, tails) = (form.heads[is_empty], form.tails[is_empty]);
        out.push::<RUN>(&form.constants, head.0, head.1);
        for &(column, after) in &form.columns {
            let ColumnEntry { slice, bytes } = self.entry(starts[column as usize], binding);
            if bytes & SEVERAL == 0 {
                out.push::<STEP>(source, slice.start, slice.end);
            } else {
                for slice in &self.slices[slice.start as usize..slice.end as usize] {
                    out.push::<RUN>(source, slice.start, slice.end);
                }
            }
            out.push::<RUN>(&form.constants, after.0, after.0 + tails * (after.1 - after.0));
        }
    }

    /// Passes the fragment of one binding on in pieces.
    pub(super) fn push_fragment<E>(
        &self,
        constructor: ConstructorUse<'_>,
        binding: u32,
        source: &[u8],
        mut push: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let ConstructorUse { form, starts } = constructor;
        let is_empty = usize::from(self.column_bytes(starts, binding) == 0);
        let (head, tails) = (form.heads[is_empty], form.tails[is_empty]);
        push(&form.constants[head.0 as usize..head.1 as usize])?;
        for &(column, after) in &form.columns {
            let ColumnEntry { slice, bytes } = self.entry(starts[column as usize], binding);
            let slices = match bytes & SEVERAL {
                0 => &[slice],
                _ => &self.slices[slice.start as usize..slice.end as usize],
            };
            slices.iter().try_for_each(|slice| push(&source[slice.start as usize..slice.end as usize]))?;
            push(&form.constants[after.0 as usize..(after.0 + tails * (after.1 - after.0)) as usize])?;
        }
        Ok(())
    }
}

/// A constructor on one message: its form, and the position of the first entry of each of its columns.
#[derive(Clone, Copy)]
pub(super) struct ConstructorUse<'a> {
    pub form: &'a ConstructorForm,
    pub starts: &'a [u32],
}
