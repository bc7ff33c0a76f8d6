//! What the returned paths lead to on one message.
//!
//! The elements of the message are gone through once, in document order. The label path of each tells which columns lead
//! there, by how many levels up the bindings are (`guide.rs`); the element is noted with each of them that is asked for, so
//! what a column leads to from a binding is in document order without being sorted. Elements that follow each other and
//! that no column tells apart are noted as one.

use crate::document::{Node, NodeId};

use super::super::interpreter::Interpreter;
use super::bindings::MessageBindings;
use super::data_guide::{GuideNodeId, PathResolution, ROOT};
use super::prepared::{ColumnEntry, ColumnParts, PreparedResults, SEVERAL, Slice};

/// Elements that are noted with columns, at most.
const NOTES_MAX: usize = 1 << 20;

/// A slice of an entry that has several, and the next one; of the last, that means nothing.
#[derive(Clone, Copy, Debug)]
struct SliceLink {
    slice: Slice,
    next: u32,
}

/// What is needed to find it; kept from message to message for its memory.
#[derive(Debug, Default)]
pub(super) struct ColumnScratch {
    /// The slices of entries that have several; the entry tells where the first and the last are.
    links: Vec<SliceLink>,
    /// The entries that have several.
    several: Vec<u32>,
    /// By list: bytes that any of its columns leads to, at most.
    bytes_max: Vec<usize>,
    /// Label paths of elements that could not be noted.
    too_much: Vec<GuideNodeId>,
}

impl ColumnScratch {
    /// Finds what the columns that are asked for lead to.
    pub fn find(
        &mut self,
        prepared: &mut PreparedResults,
        bindings: &MessageBindings,
        meaning: &PathResolution,
        session: &mut Interpreter<'_>,
    ) {
        self.bytes_max.clear();
        self.bytes_max.resize(meaning.lists.len(), 0);
        self.limit(prepared, bindings, meaning);
        self.give_up(prepared, meaning);
        let (nodes, labels) = (&session.message.document.nodes[..], bindings.labels());
        let mut node = 1;
        while node < nodes.len() {
            let label = labels[node];
            let strands = meaning.strands.get(meaning.returned[label as usize]);
            if strands.is_empty() {
                node += 1;
            } else if prepared.is_copied(session) {
                match prepared.keep_slice(session, node as u32).filter(|slice| slice.end < SEVERAL) {
                    Some(slice) => self.note(prepared, (bindings, meaning), (node, label, slice), nodes),
                    None => self.too_much.push(label),
                }
                node += 1;
            } else {
                // Where they are bindings themselves, each is one of its own.
                let (next, slice) = run(nodes, labels, node, strands[0].up > 0);
                if slice.end < SEVERAL {
                    self.note(prepared, (bindings, meaning), (node, label, slice), nodes);
                } else {
                    self.too_much.push(label);
                }
                node = next;
            }
        }
        self.end(prepared);
        self.give_up(prepared, meaning);
        prepared.note_bytes(self.bytes_max.iter().copied().max().unwrap_or_default());
    }

    /// Takes note of the label paths of which the elements would be noted too often.
    fn limit(&mut self, prepared: &PreparedResults, bindings: &MessageBindings, meaning: &PathResolution) {
        let strands = |label: GuideNodeId| meaning.returned[label as usize];
        let count = |&label: &GuideNodeId| bindings.count(label) * meaning.strands.column_count(strands(label));
        if bindings.touched().iter().map(count).sum::<usize>() <= NOTES_MAX {
            return;
        }
        let mut notes = 0;
        for &label in bindings.touched() {
            let columns = meaning.strands.get(strands(label)).iter().flat_map(|strand| meaning.strands.columns(strand));
            notes += bindings.count(label) * columns.filter(|&&column| prepared.is_requested(column)).count();
            if notes > NOTES_MAX {
                self.too_much.push(label);
            }
        }
    }

    /// Notes that columns lead to too much.
    fn give_up(&mut self, prepared: &mut PreparedResults, meaning: &PathResolution) {
        for label in self.too_much.drain(..) {
            let strands = meaning.strands.get(meaning.returned[label as usize]);
            let columns = strands.iter().flat_map(|strand| meaning.strands.columns(strand));
            columns.for_each(|&column| prepared.add_too_much(column));
        }
    }

    /// Notes an element with all columns that lead to it.
    #[inline]
    fn note(
        &mut self,
        prepared: &mut PreparedResults,
        (bindings, meaning): (&MessageBindings, &PathResolution),
        (node, label, slice): (usize, GuideNodeId, Slice),
        nodes: &[Node],
    ) {
        let Self { links, several, bytes_max, too_much } = self;
        let ColumnParts { starts, entries, .. } = prepared.parts();
        let bytes = slice.end - slice.start;
        let (mut at, mut up) = (node, 0);
        let strands = meaning.strands.get(meaning.returned[label as usize]);
        for strand in strands {
            while up < strand.up {
                at = nodes[at].parent as usize;
                up += 1;
            }
            bytes_max[strand.list as usize] += bytes as usize;
            let number = bindings.number(strand.list, at as NodeId);
            for &column in meaning.strands.columns(strand) {
                let position = starts[column as usize].saturating_add(number);
                // There is none if nobody asks for the column.
                let Some(entry) = entries.get_mut(position as usize) else { continue };
                if entry.bytes == 0 {
                    *entry = ColumnEntry { slice, bytes };
                } else if entry.bytes & SEVERAL == 0 && entry.slice.end == slice.start {
                    entry.slice.end = slice.end;
                    entry.bytes += bytes;
                } else if !add_link(entry, slice, (links, several), position) {
                    too_much.push(label);
                }
            }
        }
    }

    /// Puts the slices of entries that have several one behind the other.
    fn end(&mut self, prepared: &mut PreparedResults) {
        let Self { links, several, .. } = self;
        let ColumnParts { entries, slices, several_bytes, .. } = prepared.parts();
        for &position in &*several {
            let entry = &mut entries[position as usize];
            let Slice { start: mut at, end: last } = entry.slice;
            let start = slices.len() as u32;
            loop {
                let SliceLink { slice, next } = links[at as usize];
                slices.push(slice);
                if at == last {
                    break;
                }
                at = next;
            }
            entry.slice = Slice { start, end: slices.len() as u32 };
            *several_bytes += entry.bytes();
        }
        links.clear();
        several.clear();
    }
}

/// The bytes of an element and of those behind it that all columns lead to that lead to it, and what comes then: they have
/// its label path and parent, and no elements in them or between them.
#[inline]
fn run(nodes: &[Node], labels: &[GuideNodeId], first: usize, is_shared: bool) -> (usize, Slice) {
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

/// Adds a slice to an entry that has one or several, not ending where it begins; `false`: that makes too many bytes.
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
