//! What the returned paths lead to on one message.
//!
//! The elements of the message are gone through once, in document order. The label path of each tells which columns lead
//! there, by how many levels up the bindings are (`guide.rs`); the element is noted with each of them that is asked for, so
//! what a column leads to from a binding is in document order without being sorted. What no element lies at costs nothing.

use super::super::run::Session;
use super::found::Found;
use super::guide::{ColumnId, ListId, Meaning};
use super::prepared::{Entry, Prepared, SEVERAL, Slice};

/// Elements that are noted with columns, and places for bindings of columns, at most.
const NOTES_MAX: usize = 1 << 20;

/// Columns that are asked for, of those that lead to elements of a label path from bindings of a list so many levels up.
#[derive(Clone, Copy, Debug)]
struct Way {
    up: u32,
    list: ListId,
    /// Which they are among those of all ways.
    columns: (u32, u32),
    /// Bytes that they lead to this way.
    bytes: usize,
    /// An element could not be noted.
    is_too_much: bool,
}

/// A slice of an entry that has several, and the next one; of the last, that means nothing.
#[derive(Clone, Copy, Debug)]
struct Link {
    slice: Slice,
    next: u32,
}

/// What is needed to find it; kept from message to message for its memory.
#[derive(Debug, Default)]
pub(super) struct Columns {
    /// By label path: its ways.
    ways_of: Vec<(u32, u32)>,
    ways: Vec<Way>,
    /// By way and column: which it is, and where its entries begin.
    columns: Vec<ColumnId>,
    starts: Vec<u32>,
    /// The slices of entries that have several; the entry tells where the first and the last are.
    links: Vec<Link>,
    /// The entries that have several.
    several: Vec<u32>,
}

impl Columns {
    /// Finds what the columns that are asked for lead to.
    pub fn find(&mut self, prepared: &mut Prepared, found: &Found, meaning: &Meaning, session: &mut Session<'_>) {
        self.plan(prepared, found, meaning);
        for (node, &label) in (0..).zip(found.labels()) {
            let (start, end) = self.ways_of[label as usize];
            if start < end {
                self.note(prepared, found, (start as usize, end as usize), node, session);
            }
        }
        for &label in found.touched() {
            self.ways_of[label as usize] = (0, 0);
        }
        self.end(prepared);
    }

    /// Finds the ways of the label paths of the message.
    fn plan(&mut self, prepared: &mut Prepared, found: &Found, meaning: &Meaning) {
        let Self { ways_of, ways, columns, starts, .. } = self;
        ways_of.resize(ways_of.len().max(meaning.returned.len()), (0, 0));
        ways.clear();
        columns.clear();
        starts.clear();
        let mut notes = 0;
        for &label in found.touched() {
            let first = ways.len() as u32;
            for strand in meaning.strands.get(meaning.returned[label as usize]) {
                let bindings = found.bindings(strand.list).len();
                let start = columns.len();
                for &column in meaning.strands.columns(strand) {
                    let Some(place) = prepared.begin_column(column, bindings, NOTES_MAX) else { continue };
                    notes += found.count(label);
                    if notes > NOTES_MAX {
                        prepared.add_too_much(column);
                        continue;
                    }
                    columns.push(column);
                    starts.push(place);
                }
                if start < columns.len() {
                    let columns = (start as u32, columns.len() as u32);
                    ways.push(Way { up: strand.up, list: strand.list, columns, bytes: 0, is_too_much: false });
                }
            }
            ways_of[label as usize] = (first, ways.len() as u32);
        }
    }

    /// Notes an element with all columns that lead to it.
    #[inline]
    fn note(
        &mut self,
        prepared: &mut Prepared,
        found: &Found,
        (start, end): (usize, usize),
        node: u32,
        session: &mut Session<'_>,
    ) {
        let Self { ways, starts, links, several, .. } = self;
        let Some(slice) = prepared.slice(session, node).filter(|slice| slice.end < SEVERAL) else {
            ways[start..end].iter_mut().for_each(|way| way.is_too_much = true);
            return;
        };
        let bytes = slice.end - slice.start;
        let (nodes, entries) = (&session.message.document.nodes, prepared.entries_mut());
        let (mut at, mut up) = (node, 0);
        for way in &mut ways[start..end] {
            while up < way.up {
                at = nodes[at as usize].parent;
                up += 1;
            }
            way.bytes += bytes as usize;
            let number = found.numbers(way.list)[at as usize];
            for &start in &starts[way.columns.0 as usize..way.columns.1 as usize] {
                let place = start + number;
                let entry = &mut entries[place as usize];
                if entry.bytes == 0 {
                    *entry = Entry { slice, bytes };
                } else if entry.bytes & SEVERAL == 0 && entry.slice.end == slice.start {
                    entry.slice.end = slice.end;
                    entry.bytes += bytes;
                } else {
                    add_link(entry, slice, (links, several), place);
                }
            }
        }
    }

    /// Puts the slices of entries that have several one behind the other, and counts bytes.
    fn end(&mut self, prepared: &mut Prepared) {
        let Self { ways, columns, links, several, .. } = self;
        for &place in &*several {
            let Entry { slice: Slice { start: first, end: last }, .. } = prepared.entries_mut()[place as usize];
            let mut next = Some(first);
            prepared.end_entry(
                place,
                std::iter::from_fn(|| {
                    let at = next?;
                    let Link { slice, next: after } = links[at as usize];
                    next = Some(after).filter(|_| at != last);
                    Some(slice)
                }),
            );
        }
        links.clear();
        several.clear();
        for way in &*ways {
            for &column in &columns[way.columns.0 as usize..way.columns.1 as usize] {
                prepared.add_bytes(column, way.bytes);
                if way.is_too_much {
                    prepared.add_too_much(column);
                }
            }
        }
    }
}

/// Adds a slice to an entry that has one or several, not ending where it begins.
#[inline]
fn add_link(entry: &mut Entry, slice: Slice, (links, several): (&mut Vec<Link>, &mut Vec<u32>), place: u32) {
    if entry.bytes & SEVERAL == 0 {
        several.push(place);
        let first = links.len() as u32;
        links.push(Link { slice: entry.slice, next: 0 });
        entry.slice = Slice { start: first, end: first };
        entry.bytes |= SEVERAL;
    }
    entry.bytes = entry.bytes.saturating_add(slice.end - slice.start);
    let last = &mut links[entry.slice.end as usize];
    if last.slice.end == slice.start {
        last.slice.end = slice.end;
        return;
    }
    let next = links.len() as u32;
    links[entry.slice.end as usize].next = next;
    links.push(Link { slice, next: 0 });
    entry.slice.end = next;
}
