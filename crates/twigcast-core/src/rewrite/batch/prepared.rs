//! Results that are known but not put together: for which bindings, and what the columns lead to from each.

use std::sync::Arc;

use crate::document::NodeId;

use super::super::interpreter::Interpreter;
use super::super::program::family::NONE;
use super::super::run_buffer::{RUN, RunAppender, STEP};
use super::binding_sets::members;
use super::condition_index::{ConditionIndex, MemberRange};
use super::constructors::{ConstructorForm, ResultConstructors};
use super::data_guide::{BindingColumnId, BindingListId};

/// Bytes that are put together for columns that lead to several slices, and of the message with them, at most.
const JOINED_MAX: usize = 1 << 18;

/// Places for bindings of columns, at most.
const ENTRIES_MAX: usize = 1 << 20;

/// In place of where a column begins: it leads to too much.
const TOO_MUCH: u32 = NONE - 1;

/// In the bytes of an entry: it is of several slices.
pub(super) const SEVERAL: u32 = 1 << 31;

/// Bytes of the message, or of those kept in its place.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slice {
    pub start: u32,
    pub end: u32,
}

/// What a column leads to from one binding: a slice; or several, and then from which on, and up to which.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ColumnEntry {
    pub slice: Slice,
    pub bytes: u32,
}

impl ColumnEntry {
    #[inline]
    pub fn bytes(self) -> usize {
        (self.bytes & !SEVERAL) as usize
    }
}

/// Queries that match with the same bindings of a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct MatchedGroup {
    pub list: BindingListId,
    pub members: MemberRange,
    /// How many bindings the list has.
    pub bindings: u32,
    /// Where the set of bindings begins.
    pub set: u32,
}

/// What is filled in when it is found what columns lead to.
pub(super) struct ColumnParts<'a> {
    /// By column: where its entries begin; somewhere far off if nobody asks for it.
    pub starts: &'a [u32],
    pub entries: &'a mut [ColumnEntry],
    pub slices: &'a mut Vec<Slice>,
    pub several_bytes: &'a mut usize,
}

impl MatchedGroup {
    /// How many queries there are.
    pub fn len(&self) -> u32 {
        self.members.1 - self.members.0
    }
}

/// The queries that one message matches, with the bindings of each and what their paths lead to from there: all that is
/// needed to put results together. Whoever keeps the message can have them at any time.
#[derive(Debug, Default)]
pub struct PreparedResults {
    recipes: Arc<ResultConstructors>,
    selector: Arc<ConditionIndex>,
    groups: Vec<MatchedGroup>,
    sets: Vec<u64>,
    /// By column: where its entries begin; [`TOO_MUCH`]; [`NONE`] if nobody asks for it.
    columns: Vec<u32>,
    entries: Vec<ColumnEntry>,
    /// How many entries there are to be.
    entry_count: u32,
    slices: Vec<Slice>,
    /// Where the slices are not of the message: what they are of.
    kept: Vec<u8>,
    is_kept: bool,
    /// Bytes that columns lead to in several slices.
    several_bytes: usize,
    is_joined: bool,
    is_too_much: bool,
    /// Bindings that a list has, at most, and no less than the bytes that a column leads to.
    bindings_max: usize,
    column_bytes_max: usize,
}

impl PreparedResults {
    /// None yet, with as much room as these take.
    pub(super) fn as_large_as(&self) -> Self {
        Self {
            recipes: Arc::clone(&self.recipes),
            selector: Arc::clone(&self.selector),
            groups: Vec::with_capacity(self.groups.len()),
            sets: Vec::with_capacity(self.sets.len()),
            columns: Vec::with_capacity(self.columns.len()),
            entries: Vec::with_capacity(self.entries.len()),
            slices: Vec::with_capacity(self.slices.len()),
            ..Self::default()
        }
    }

    /// Forgets what another message had.
    pub(super) fn reset(&mut self, recipes: &Arc<ResultConstructors>, selector: &Arc<ConditionIndex>, columns: usize) {
        if !Arc::ptr_eq(&self.recipes, recipes) {
            self.recipes = Arc::clone(recipes);
        }
        if !Arc::ptr_eq(&self.selector, selector) {
            self.selector = Arc::clone(selector);
        }
        self.groups.clear();
        self.sets.clear();
        self.columns.clear();
        self.columns.resize(columns, NONE);
        self.entries.clear();
        self.entry_count = 0;
        self.slices.clear();
        self.kept.clear();
        self.kept.shrink_to(2 * JOINED_MAX);
        self.is_kept = false;
        self.several_bytes = 0;
        self.is_joined = false;
        self.is_too_much = false;
        self.bindings_max = 0;
        self.column_bytes_max = 0;
    }

    /// How many queries are in it.
    pub(crate) fn query_count(&self) -> usize {
        self.groups.iter().map(|group| group.len() as usize).sum()
    }

    /// The queries.
    pub(crate) fn queries(&self) -> impl Iterator<Item = u32> + '_ {
        self.groups.iter().flat_map(|group| self.selector.members(group.members)).map(|member| member.query)
    }

    #[inline]
    pub(super) fn add_group(&mut self, list: BindingListId, members: MemberRange, bindings: u32, set: &[u64]) {
        self.groups.push(MatchedGroup { list, members, bindings, set: self.sets.len() as u32 });
        match *set {
            [word] => self.sets.push(word),
            _ => self.sets.extend_from_slice(set),
        }
        self.bindings_max = self.bindings_max.max(bindings as usize);
    }

    pub(super) fn groups(&self) -> &[MatchedGroup] {
        &self.groups
    }

    pub(super) fn selector(&self) -> &ConditionIndex {
        &self.selector
    }

    pub(super) fn recipes(&self) -> &ResultConstructors {
        &self.recipes
    }

    /// The set of this many bindings that begins somewhere.
    #[inline]
    pub(super) fn set(&self, start: u32, bindings: u32) -> &[u64] {
        &self.sets[start as usize..start as usize + (bindings as usize).div_ceil(64)]
    }

    /// Is it not known what a column leads to, because that is too much?
    pub(super) fn is_too_much(&self, column: BindingColumnId) -> bool {
        self.columns[column as usize] == TOO_MUCH
    }

    /// Is it of any column?
    pub(super) fn is_any_too_much(&self) -> bool {
        self.is_too_much
    }

    /// Is everything known, and is no result larger than so many bytes?
    pub(super) fn is_certain(&self, bytes_max: usize) -> bool {
        !self.is_too_much && self.bytes_max() <= bytes_max
    }

    /// The bytes of any result, at most.
    pub(super) fn bytes_max(&self) -> usize {
        self.recipes.bytes_max(self.bindings_max, self.column_bytes_max)
    }

    /// How many columns there are.
    pub(super) fn column_count(&self) -> usize {
        self.columns.len()
    }

    /// Bytes that a column leads to from so many bindings.
    pub(super) fn total(&self, column: BindingColumnId, bindings: u32) -> usize {
        self.entries(column, bindings).iter().map(|entry| entry.bytes()).sum()
    }

    /// Notes that it is asked what a column leads to from each of so many bindings.
    #[inline]
    pub(super) fn request(&mut self, column: BindingColumnId, bindings: u32) {
        let start = &mut self.columns[column as usize];
        if *start == NONE {
            *start = self.entry_count;
            self.entry_count += bindings;
            if self.entry_count as usize > ENTRIES_MAX {
                self.entry_count -= bindings;
                self.add_too_much(column);
            }
        }
    }

    pub(super) fn is_requested(&self, column: BindingColumnId) -> bool {
        self.columns[column as usize] != NONE
    }

    /// Notes that a column leads to too much.
    pub(super) fn add_too_much(&mut self, column: BindingColumnId) {
        self.columns[column as usize] = TOO_MUCH;
        self.is_too_much = true;
    }

    /// Notes how many bytes columns lead to, at most.
    pub(super) fn note_bytes(&mut self, bytes_max: usize) {
        self.column_bytes_max = self.column_bytes_max.max(bytes_max);
    }

    /// What is to be filled in.
    #[inline]
    pub(super) fn parts(&mut self) -> ColumnParts<'_> {
        let Self { columns, entries, slices, several_bytes, .. } = self;
        ColumnParts { starts: columns, entries, slices, several_bytes }
    }

    /// Are elements copied to results other than they are in the message?
    #[inline]
    pub(super) fn is_copied(&self, session: &Interpreter<'_>) -> bool {
        !session.message.document.declarations.is_empty()
    }

    /// An element as it is copied to a result; `None`: not here.
    pub(super) fn keep_slice(&mut self, session: &mut Interpreter<'_>, node: NodeId) -> Option<Slice> {
        self.is_kept = true;
        let start = self.kept.len();
        session.keep_copy(node, &mut self.kept).ok()?;
        let end = u32::try_from(self.kept.len()).ok()?;
        Some(Slice { start: start as u32, end })
    }

    /// Puts what columns lead to in several slices together, with the message, if all that is little: then each entry is one
    /// slice with a step of other bytes behind it.
    pub(crate) fn join(&mut self, message: &[u8]) {
        if self.is_joined || self.source(message).len() + self.several_bytes > JOINED_MAX {
            return;
        }
        self.is_joined = true;
        // All the room that is needed at once, so that nothing moves.
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

    /// Is each entry one slice with a step of other bytes behind it?
    pub(super) fn is_joined(&self) -> bool {
        self.is_joined
    }

    /// What slices are of.
    #[inline]
    pub(super) fn source<'a>(&'a self, message: &'a [u8]) -> &'a [u8] {
        if self.is_kept { &self.kept } else { message }
    }

    /// What a column leads to from a binding, given where its entries begin.
    #[inline]
    fn entry(&self, start: u32, binding: u32) -> ColumnEntry {
        self.entries[(start + binding) as usize]
    }

    /// What a column leads to from each of so many bindings.
    #[inline]
    pub(super) fn entries(&self, column: BindingColumnId, bindings: u32) -> &[ColumnEntry] {
        let start = self.start_of(column) as usize;
        &self.entries[start..start + bindings as usize]
    }

    /// All sets, and what all columns lead to.
    #[inline]
    pub(super) fn all_sets(&self) -> &[u64] {
        &self.sets
    }

    #[inline]
    pub(super) fn all_entries(&self) -> &[ColumnEntry] {
        &self.entries
    }

    /// To be called when all columns were asked for.
    pub(super) fn begin_columns(&mut self) {
        self.entries.resize(self.entry_count as usize, ColumnEntry::default());
    }

    /// Where the entries of a column begin.
    #[inline]
    pub(super) fn start_of(&self, column: BindingColumnId) -> u32 {
        let start = self.columns[column as usize];
        if start >= TOO_MUCH { 0 } else { start }
    }

    /// Bytes that columns lead to from a binding, given where their entries begin.
    #[inline]
    fn column_bytes(&self, starts: &[u32], binding: u32) -> usize {
        starts.iter().map(|&start| self.entry(start, binding).bytes()).sum()
    }

    pub(super) fn size_of(&self, constructor: ConstructorUse<'_>, set: &[u64]) -> usize {
        let ConstructorUse { form, starts } = constructor;
        let fragment = |binding| {
            let bytes = self.column_bytes(starts, binding);
            form.constant_bytes[usize::from(bytes == 0)] + bytes
        };
        form.prefix.len() + members(set).map(fragment).sum::<usize>() + form.suffix.len()
    }

    /// Appends what is made of one binding. `source` is what slices are of.
    #[inline]
    pub(super) fn append_fragment(
        &self,
        constructor: ConstructorUse<'_>,
        binding: u32,
        source: &[u8],
        out: &mut RunAppender<'_>,
    ) {
        let ConstructorUse { form, starts } = constructor;
        let is_nothing = usize::from(self.column_bytes(starts, binding) == 0);
        let (head, tails) = (form.heads[is_nothing], form.tails[is_nothing]);
        out.push::<RUN>(&form.constants, head.0, head.1);
        for &(column, behind) in &form.columns {
            let ColumnEntry { slice, bytes } = self.entry(starts[column as usize], binding);
            if bytes & SEVERAL == 0 {
                out.push::<STEP>(source, slice.start, slice.end);
            } else {
                for slice in &self.slices[slice.start as usize..slice.end as usize] {
                    out.push::<RUN>(source, slice.start, slice.end);
                }
            }
            out.push::<RUN>(&form.constants, behind.0, behind.0 + tails * (behind.1 - behind.0));
        }
    }

    /// Hands over the bytes that are made of one binding, in runs.
    pub(super) fn push_fragment<E>(
        &self,
        constructor: ConstructorUse<'_>,
        binding: u32,
        source: &[u8],
        mut push: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let ConstructorUse { form, starts } = constructor;
        let is_nothing = usize::from(self.column_bytes(starts, binding) == 0);
        let (head, tails) = (form.heads[is_nothing], form.tails[is_nothing]);
        push(&form.constants[head.0 as usize..head.1 as usize])?;
        for &(column, behind) in &form.columns {
            let ColumnEntry { slice, bytes } = self.entry(starts[column as usize], binding);
            let slices = match bytes & SEVERAL {
                0 => &[slice],
                _ => &self.slices[slice.start as usize..slice.end as usize],
            };
            slices.iter().try_for_each(|slice| push(&source[slice.start as usize..slice.end as usize]))?;
            push(&form.constants[behind.0 as usize..(behind.0 + tails * (behind.1 - behind.0)) as usize])?;
        }
        Ok(())
    }
}

/// How results are made on one message: by which form, and where the entries of each of its columns begin.
#[derive(Clone, Copy)]
pub(super) struct ConstructorUse<'a> {
    pub form: &'a ConstructorForm,
    pub starts: &'a [u32],
}
