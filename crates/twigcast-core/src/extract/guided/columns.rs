//! What the returned paths lead to on one message.
//!
//! The elements of the message are gone through once, in document order. The label path of each tells which columns lead
//! there, by how many levels up the bindings are (`guide.rs`); the element is noted with each of them that is asked for, so
//! what a column leads to from a binding is in document order without being sorted. What no element lies at costs nothing.

use super::super::run::Session;
use super::found::Found;
use super::guide::{Meaning, Strand};
use super::prepared::{Entry, Prepared, SEVERAL, Slice};

/// Elements that are noted with columns, and places for bindings of columns, at most.
const NOTES_MAX: usize = 1 << 20;

/// Those columns of a strand that are asked for.
#[derive(Clone, Copy, Debug)]
struct Way {
    strand: Strand,
    /// Where it is noted where the entries of each begin.
    starts: (u32, u32),
    /// Bytes that each of them leads to this way.
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
    starts: Vec<u32>,
    /// By list: bytes that any of its columns leads to, at most.
    bytes_max: Vec<usize>,
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
        self.end(prepared, meaning);
    }

    /// Finds the ways of the label paths of the message.
    fn plan(&mut self, prepared: &mut Prepared, found: &Found, meaning: &Meaning) {
        let Self { ways_of, ways, starts, bytes_max, .. } = self;
        ways_of.resize(ways_of.len().max(meaning.returned.len()), (0, 0));
        bytes_max.resize(bytes_max.len().max(meaning.lists.len()), 0);
        ways.clear();
        starts.clear();
        let mut notes = 0;
        for &label in found.touched() {
            let first = ways.len() as u32;
            for strand in meaning.strands.get(meaning.returned[label as usize]) {
                let bindings = found.bindings(strand.list).len();
                let start = starts.len() as u32;
                for &column in meaning.strands.columns(strand) {
                    let Some(place) = prepared.begin_column(column, bindings, NOTES_MAX) else { continue };
                    notes += found.count(label);
                    if notes > NOTES_MAX {
                        prepared.add_too_much(column);
                        continue;
                    }
                    starts.push(place);
                }
                let starts = (start, starts.len() as u32);
                if starts.0 < starts.1 {
                    ways.push(Way { strand: *strand, starts, bytes: 0, is_too_much: false });
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
            while up < way.strand.up {
                at = nodes[at as usize].parent;
                up += 1;
            }
            way.bytes += bytes as usize;
            let number = found.numbers(way.strand.list)[at as usize];
            for &start in &starts[way.starts.0 as usize..way.starts.1 as usize] {
                let place = start + number;
                let entry = &mut entries[place as usize];
                if entry.bytes == 0 {
                    *entry = Entry { slice, bytes };
                } else if entry.bytes & SEVERAL == 0 && entry.slice.end == slice.start {
                    entry.slice.end = slice.end;
                    entry.bytes += bytes;
                } else {
                    way.is_too_much |= !add_link(entry, slice, (links, several), place);
                }
            }
        }
    }

    /// Puts the slices of entries that have several one behind the other.
    fn end(&mut self, prepared: &mut Prepared, meaning: &Meaning) {
        let Self { ways, links, several, bytes_max, .. } = self;
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
            bytes_max[way.strand.list as usize] += way.bytes;
            if way.is_too_much {
                meaning.strands.columns(&way.strand).iter().for_each(|&column| prepared.add_too_much(column));
            }
        }
        for way in &*ways {
            prepared.note_bytes(std::mem::take(&mut bytes_max[way.strand.list as usize]));
        }
    }
}

/// Adds a slice to an entry that has one or several, not ending where it begins; `false`: that makes too many bytes.
#[inline]
fn add_link(entry: &mut Entry, slice: Slice, (links, several): (&mut Vec<Link>, &mut Vec<u32>), place: u32) -> bool {
    if entry.bytes & SEVERAL == 0 {
        several.push(place);
        let first = links.len() as u32;
        links.push(Link { slice: entry.slice, next: 0 });
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
    links.push(Link { slice, next: 0 });
    entry.slice.end = next;
    true
}
