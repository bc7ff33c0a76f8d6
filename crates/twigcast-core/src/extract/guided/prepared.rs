//! Results that are known but not put together: of which constant bytes and which slices of the message each is.

use std::sync::Arc;

use crate::document::NodeId;

use super::super::family::Numbered;
use super::super::run::Session;
use super::super::template::{Piece, Skeleton};
use super::sets::{Frozen, SetId, members};

/// Slices that the columns of one message are of, at most.
const SLICES_MAX: usize = 1 << 20;

/// Bytes of the message, or of those kept beside it.
#[derive(Clone, Copy, Debug)]
struct Slice {
    start: u32,
    end: u32,
    is_kept: bool,
}

/// What a column leads to from one binding.
#[derive(Clone, Copy, Debug)]
struct Entry {
    first: u32,
    end: u32,
    bytes: u32,
}

/// What results are made of.
#[derive(Debug)]
pub(super) struct Used {
    pub skeleton: Arc<Numbered<Skeleton>>,
    /// Where the entries of each column begin.
    columns: Box<[u32]>,
    /// Where its fragments begin in a table of those written.
    pub fragments: u32,
    /// The bytes of the result of all bindings.
    pub bytes_max: usize,
}

/// A column that is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    /// Where its entries begin.
    pub start: u32,
    pub bytes: usize,
}

/// The results of one message, told apart by number. Whoever keeps the message can have their bytes at any time.
#[derive(Debug, Default)]
pub struct Prepared {
    pub(super) used: Vec<Used>,
    /// By result.
    pub(super) list: Vec<(u32, SetId)>,
    pub(super) sets: Frozen,
    entries: Vec<Entry>,
    slices: Vec<Slice>,
    kept: Vec<u8>,
}

impl Prepared {
    /// How many results there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// None?
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many bytes a result has; 0 if there is none of this number.
    pub fn size(&self, number: usize) -> usize {
        let Some((used, set)) = self.parts(number) else { return 0 };
        let skeleton = &used.skeleton.object;
        let fragments: usize = members(set).map(|binding| self.fragment_size(used, binding)).sum();
        skeleton.prefix.len() + fragments + skeleton.suffix.len()
    }

    /// Appends a result. `source` is the message that it is made of.
    pub fn write(&self, number: usize, source: &[u8], out: &mut Vec<u8>) {
        let Some((used, set)) = self.parts(number) else { return };
        out.extend_from_slice(&used.skeleton.object.prefix);
        for binding in members(set) {
            let written: Result<(), std::convert::Infallible> = self.fragment(used, binding, source, |bytes| {
                out.extend_from_slice(bytes);
                Ok(())
            });
            match written {
                Ok(()) => {}
            }
        }
        out.extend_from_slice(&used.skeleton.object.suffix);
    }

    fn parts(&self, number: usize) -> Option<(&Used, &[u64])> {
        let &(used, set) = self.list.get(number)?;
        Some((&self.used[used as usize], self.sets.bits(set)))
    }

    pub(super) fn clear(&mut self) {
        self.used.clear();
        self.list.clear();
        self.entries.clear();
        self.slices.clear();
        self.kept.clear();
    }

    /// The number of another result.
    pub(super) fn add(&mut self, used: u32, set: SetId) -> u32 {
        self.list.push((used, set));
        self.list.len() as u32 - 1
    }

    /// The number of something else to make of so many bindings.
    pub(super) fn add_use(
        &mut self,
        skeleton: Arc<Numbered<Skeleton>>,
        columns: &[Kept],
        bindings: usize,
        fragments: u32,
    ) -> u32 {
        let Skeleton { prefix, open, empty, pieces, close, suffix } = &skeleton.object;
        let pieces = pieces.iter().map(|piece| match piece {
            Piece::Constant(bytes) => bytes.len() * bindings,
            Piece::Column(column) => columns[*column].bytes,
        });
        let constants = (open.len() + empty.len() + close.len()) * bindings + prefix.len() + suffix.len();
        let bytes_max = pieces.sum::<usize>() + constants;
        let columns = columns.iter().map(|column| column.start).collect();
        self.used.push(Used { skeleton, columns, fragments, bytes_max });
        self.used.len() as u32 - 1
    }

    /// Keeps what a column leads to, given as (number of the binding, node), ascending. `None`: it is too much.
    pub(super) fn add_column(
        &mut self,
        nodes: &[(u32, NodeId)],
        bindings: usize,
        session: &mut Session<'_>,
    ) -> Option<Kept> {
        if self.slices.len() + nodes.len() > SLICES_MAX || self.entries.len() + bindings > SLICES_MAX {
            return None;
        }
        let start = self.entries.len();
        let mut rest = nodes;
        for number in 0..bindings as u32 {
            let (mine, others) = rest.split_at(rest.iter().take_while(|(of, _)| *of == number).count());
            rest = others;
            let first = self.slices.len();
            let mut bytes = 0_u32;
            for &(_, node) in mine {
                let slice = self.slice(session, node)?;
                bytes = bytes.checked_add(slice.end - slice.start)?;
                match self.slices[first..].last_mut() {
                    Some(last) if last.end == slice.start && last.is_kept == slice.is_kept => last.end = slice.end,
                    _ => self.slices.push(slice),
                }
            }
            self.entries.push(Entry { first: first as u32, end: self.slices.len() as u32, bytes });
        }
        let bytes = self.entries[start..].iter().map(|entry| entry.bytes as usize).sum();
        Some(Kept { start: start as u32, bytes })
    }

    /// An element as it is copied to a result; `None`: not here.
    fn slice(&mut self, session: &mut Session<'_>, node: NodeId) -> Option<Slice> {
        let message = session.message;
        if message.document.declarations.is_empty() {
            let span = message.document.nodes[node as usize].span;
            return Some(Slice { start: span.start, end: span.end, is_kept: false });
        }
        let start = self.kept.len();
        session.keep_copy(node, &mut self.kept).ok()?;
        let end = u32::try_from(self.kept.len()).ok()?;
        Some(Slice { start: start as u32, end, is_kept: true })
    }

    fn entry(&self, used: &Used, column: usize, binding: u32) -> Entry {
        self.entries[(used.columns[column] + binding) as usize]
    }

    /// Has the element of a binding any content?
    fn is_filled(&self, used: &Used, binding: u32) -> bool {
        used.skeleton.object.pieces.iter().any(|piece| match piece {
            Piece::Constant(_) => true,
            Piece::Column(column) => self.entry(used, *column, binding).bytes > 0,
        })
    }

    fn fragment_size(&self, used: &Used, binding: u32) -> usize {
        let skeleton = &used.skeleton.object;
        if !self.is_filled(used, binding) {
            return skeleton.empty.len();
        }
        let pieces = skeleton.pieces.iter().map(|piece| match piece {
            Piece::Constant(bytes) => bytes.len(),
            Piece::Column(column) => self.entry(used, *column, binding).bytes as usize,
        });
        skeleton.open.len() + pieces.sum::<usize>() + skeleton.close.len()
    }

    /// Hands over the bytes that are made of one binding, in pieces.
    pub(super) fn fragment<E>(
        &self,
        used: &Used,
        binding: u32,
        source: &[u8],
        mut push: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let skeleton = &used.skeleton.object;
        if !self.is_filled(used, binding) {
            return push(&skeleton.empty);
        }
        push(&skeleton.open)?;
        for piece in &skeleton.pieces {
            match piece {
                Piece::Constant(bytes) => push(bytes)?,
                Piece::Column(column) => {
                    let Entry { first, end, .. } = self.entry(used, *column, binding);
                    for slice in &self.slices[first as usize..end as usize] {
                        let from = if slice.is_kept { &self.kept[..] } else { source };
                        push(&from[slice.start as usize..slice.end as usize])?;
                    }
                }
            }
        }
        push(&skeleton.close)
    }
}
