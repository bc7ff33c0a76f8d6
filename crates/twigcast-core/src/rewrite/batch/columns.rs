//! The elements that returned paths select on one message.
//!
//! The elements of the message are visited once, in document order. The label path of each tells the columns that
//! select it and how many levels up their bindings are ([`super::data_guide`]). The element is added to each requested
//! column, so that the entries of a column are in document order without sorting. Adjacent elements that no column
//! distinguishes are added as one slice.

use crate::document::{Node, NodeId};
use crate::ids::GuideNodeId;

use super::super::interpreter::Interpreter;
use super::bindings::MessageBindings;
use super::data_guide::{PathResolution, ROOT};
use super::prepared::{ColumnEntry, ColumnParts, PreparedResults, SEVERAL, Slice};

/// Number of elements in columns at most.
const ADDED_MAX: usize = 1 << 20;

/// A slice of an entry with several, and the index of the next one. That of the last slice is not used.
#[derive(Clone, Copy, Debug)]
struct SliceLink {
    slice: Slice,
    next: u32,
}

/// Scratch memory to fill columns.
#[derive(Debug, Default)]
pub(super) struct ColumnScratch {
    /// The slices of entries with several. While columns are filled, such an entry holds its first and last link.
    links: Vec<SliceLink>,
    /// Positions of the entries with several slices.
    several: Vec<u32>,
    /// By list: bytes of any of its columns, at most.
    bytes_max: Vec<usize>,
    /// Label paths of elements that could not be added.
    overflowed: Vec<GuideNodeId>,
}

impl ColumnScratch {
    /// Fills the requested columns.
    pub fn fill(
        &mut self,
        prepared: &mut PreparedResults,
        bindings: &MessageBindings,
        resolution: &PathResolution,
        interpreter: &mut Interpreter<'_>,
    ) {
        self.bytes_max.clear();
        self.bytes_max.resize(resolution.lists.len(), 0);
        self.check_limit(prepared, bindings, resolution);
        self.mark_overflowed(prepared, resolution);
        let (nodes, labels) = (&interpreter.message.document.nodes[..], bindings.labels());
        let mut node = 1;
        while node < nodes.len() {
            let label = labels[node];
            let strands = resolution.strands.get(resolution.returned[label.index()]);
            if strands.is_empty() {
                node += 1;
            } else if prepared.is_copied(interpreter) {
                match prepared.keep_slice(interpreter, node as u32).filter(|slice| slice.end < SEVERAL) {
                    Some(slice) => self.add(prepared, (bindings, resolution), (node, label, slice), nodes),
                    None => self.overflowed.push(label),
                }
                node += 1;
            } else {
                // Elements that are bindings themselves stay apart.
                let (next, slice) = adjacent(nodes, labels, node, strands[0].up > 0);
                if slice.end < SEVERAL {
                    self.add(prepared, (bindings, resolution), (node, label, slice), nodes);
                } else {
                    self.overflowed.push(label);
                }
                node = next;
            }
        }
        self.store_slices(prepared);
        self.mark_overflowed(prepared, resolution);
        prepared.raise_bytes_max(self.bytes_max.iter().copied().max().unwrap_or_default());
    }

    /// Finds the label paths whose elements would be added too often.
    fn check_limit(&mut self, prepared: &PreparedResults, bindings: &MessageBindings, resolution: &PathResolution) {
        let strands = |label: GuideNodeId| resolution.returned[label.index()];
        let count = |&label: &GuideNodeId| bindings.count(label) * resolution.strands.column_count(strands(label));
        if bindings.touched().iter().map(count).sum::<usize>() <= ADDED_MAX {
            return;
        }
        let mut added = 0;
        for &label in bindings.touched() {
            let columns =
                resolution.strands.get(strands(label)).iter().flat_map(|strand| resolution.strands.columns(strand));
            added += bindings.count(label) * columns.filter(|&&column| prepared.is_requested(column)).count();
            if added > ADDED_MAX {
                self.overflowed.push(label);
            }
        }
    }

    /// Marks the columns that select elements which could not be added.
    fn mark_overflowed(&mut self, prepared: &mut PreparedResults, resolution: &PathResolution) {
        for label in self.overflowed.drain(..) {
            let strands = resolution.strands.get(resolution.returned[label.index()]);
            let columns = strands.iter().flat_map(|strand| resolution.strands.columns(strand));
            columns.for_each(|&column| prepared.set_overflowed(column));
        }
    }

    /// Adds an element, or adjacent ones, to the requested columns that select it.
    #[inline]
    fn add(
        &mut self,
        prepared: &mut PreparedResults,
        (bindings, resolution): (&MessageBindings, &PathResolution),
        (node, label, slice): (usize, GuideNodeId, Slice),
        nodes: &[Node],
    ) {
        let Self { links, several, bytes_max, overflowed } = self;
        let ColumnParts { starts, entries, .. } = prepared.parts();
        let bytes = slice.end - slice.start;
        let (mut binding, mut up) = (node, 0);
        let strands = resolution.strands.get(resolution.returned[label.index()]);
        for strand in strands {
            while up < strand.up {
                binding = nodes[binding].parent as usize;
                up += 1;
            }
            bytes_max[strand.list.index()] += bytes as usize;
            let number = bindings.number(strand.list, binding as NodeId);
            for &column in resolution.strands.columns(strand) {
                let position = starts[column.index()].saturating_add(number);
                // A column that is not requested has no entries.
                let Some(entry) = entries.get_mut(position as usize) else { continue };
                if entry.bytes == 0 {
                    *entry = ColumnEntry { slice, bytes };
                } else if entry.bytes & SEVERAL == 0 && entry.slice.end == slice.start {
                    entry.slice.end = slice.end;
                    entry.bytes += bytes;
                } else if !add_link(entry, slice, (links, several), position) {
                    overflowed.push(label);
                }
            }
        }
    }

    /// Stores the slices of entries with several next to each other.
    fn store_slices(&mut self, prepared: &mut PreparedResults) {
        let Self { links, several, .. } = self;
        let ColumnParts { entries, slices, several_bytes, .. } = prepared.parts();
        for &position in &*several {
            let entry = &mut entries[position as usize];
            let Slice { start: mut link, end: last } = entry.slice;
            let start = slices.len() as u32;
            loop {
                let SliceLink { slice, next } = links[link as usize];
                slices.push(slice);
                if link == last {
                    break;
                }
                link = next;
            }
            entry.slice = Slice { start, end: slices.len() as u32 };
            *several_bytes += entry.bytes();
        }
        links.clear();
        several.clear();
    }
}

/// Returns the index of the next element to visit, and the slice of an element with the elements right after it that
/// the same columns select: elements of its label path and parent, without elements in them or anything between them.
#[inline]
fn adjacent(nodes: &[Node], labels: &[GuideNodeId], first: usize, is_shared: bool) -> (usize, Slice) {
    let Node { span, parent, end, .. } = nodes[first];
    let mut slice = Slice { start: span.start, end: span.end };
    let is_leaf =
        |node: usize, end: u32| end as usize - node <= 2 && (node + 1 == end as usize || labels[node + 1] == ROOT);
    if !is_shared || !is_leaf(first, end) {
        return (first + 1, slice);
    }
    let mut next = end as usize;
    while let Some(node) = nodes.get(next) {
        let is_alike = node.parent == parent && node.span.start == slice.end && labels[next] == labels[first];
        if !is_alike || !is_leaf(next, node.end) {
            break;
        }
        slice.end = node.span.end;
        next = node.end as usize;
    }
    (next, slice)
}

/// Adds a slice to an entry that ends elsewhere. Returns `false` if the entry would have too many bytes.
#[inline]
fn add_link(
    entry: &mut ColumnEntry,
    slice: Slice,
    (links, several): (&mut Vec<SliceLink>, &mut Vec<u32>),
    position: u32,
) -> bool {
    if entry.bytes & SEVERAL == 0 {
        several.push(position);
        let first = links.len() as u32;
        links.push(SliceLink { slice: entry.slice, next: 0 });
        entry.slice = Slice { start: first, end: first };
        entry.bytes |= SEVERAL;
    }
    let Some(bytes) = entry.bytes.checked_add(slice.end - slice.start) else { return false };
    entry.bytes = bytes;
    let last = &mut links[entry.slice.end as usize];
    if last.slice.end == slice.start {
        last.slice.end = slice.end;
        return true;
    }
    let next = links.len() as u32;
    links[entry.slice.end as usize].next = next;
    links.push(SliceLink { slice, next: 0 });
    entry.slice.end = next;
    true
}
