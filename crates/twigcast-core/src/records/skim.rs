//! Finds split points in a document, where another cutter can begin, so that several readers share the document.
//!
//! A split point is the start of a record. The state of the cutter there depends only on the prolog, on the start tags of
//! the open elements, and on the elements before it that records inherit. So these bytes of the document bring another
//! cutter into the same state: see [`Cutter::resume`](super::cutter::Cutter::resume).

use super::boundary::{is_name_start, name_end, tag_end};

/// Bytes that are looked at one by one before a vectorised search, since tags and the texts between them are short.
const SHORT_BYTES: usize = 24;

/// A place where the cutting of a document can begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitPoint {
    /// Bytes of the document before it.
    pub offset: u64,
    /// Records before it.
    pub records: u64,
    /// Its line in the document.
    pub line: u32,
    /// Its column.
    pub column: u32,
    /// The bytes that another cutter has to read before.
    pub around: Vec<u8>,
}

/// Markup that later records depend on.
#[derive(Debug)]
struct SkimmedMarkup {
    /// The number of elements that have to be open for it to count.
    depth: usize,
    bytes: Vec<u8>,
    /// The local name of an element that records inherit.
    inherited: Option<Box<[u8]>>,
    /// A record has followed it.
    is_past: bool,
}

/// A search for such places, by a cutter that writes no records.
#[derive(Debug)]
pub struct Skim {
    /// Bytes between two places, at least.
    every: u64,
    next: u64,
    records: u64,
    prolog: Vec<u8>,
    /// Start tags of open elements, and elements that records inherit.
    around: Vec<SkimmedMarkup>,
    points: Vec<SplitPoint>,
}

impl Skim {
    /// Looks for places so many bytes from each other.
    pub fn new(every: u64) -> Self {
        let every = every.max(1);
        Self { every, next: every, records: 0, prolog: Vec::new(), around: Vec::new(), points: Vec::new() }
    }

    /// Notes the prolog of a document that begins. `roots`: the names of the roots of those before it.
    pub fn begin(&mut self, prolog: &[u8], roots: &[Box<[u8]>]) {
        self.prolog.clear();
        for root in roots {
            self.prolog.extend_from_slice(&[b"<", &**root, b"/>"].concat());
        }
        self.prolog.extend_from_slice(prolog);
        self.around.clear();
    }

    /// Notes a start tag, which counts as long as so many elements are open.
    pub fn enter(&mut self, depth: usize, bytes: &[u8]) {
        self.around.push(SkimmedMarkup { depth, bytes: bytes.to_vec(), inherited: None, is_past: false });
    }

    /// Notes an element that records inherit, as [`Scope::note_element`](super::scope::Scope::note_element) does.
    pub fn note_element(&mut self, depth: usize, local_name: &[u8], bytes: &[u8]) {
        let is_older = |markup: &SkimmedMarkup| {
            let is_alike = markup.depth == depth && markup.inherited.as_deref() == Some(local_name);
            is_alike && markup.is_past
        };
        self.around.retain(|markup| !is_older(markup));
        let inherited = Some(local_name.into());
        self.around.push(SkimmedMarkup { depth, bytes: bytes.to_vec(), inherited, is_past: false });
    }

    /// Forgets what stands in elements of which fewer are open now.
    pub fn leave(&mut self, depth: usize) {
        while self.around.pop_if(|markup| markup.depth > depth).is_some() {}
    }

    /// Counts a record that has ended, or a part between records that is rejected and takes the number of one.
    pub fn count(&mut self) {
        self.records += 1;
    }

    /// Marks all markup as standing before a record.
    pub fn pass_record(&mut self) {
        for markup in &mut self.around {
            markup.is_past = true;
        }
    }

    /// Returns whether the record that starts here is far enough from the last place.
    pub fn is_due(&self, offset: u64) -> bool {
        offset >= self.next
    }

    /// Notes the start of a record. `is_later_line`: its document begins on a line before.
    pub fn note(&mut self, offset: u64, (line, column): (u32, u32), is_later_line: bool) {
        let tags = self.around.iter().map(|markup| &*markup.bytes);
        let line_end: &[u8] = if is_later_line { b"\n" } else { b"" };
        let around = std::iter::once(&*self.prolog).chain(tags).chain([line_end]).collect::<Vec<_>>().concat();
        self.points.push(SplitPoint { offset, records: self.records, line, column, around });
        self.next = offset + self.every;
    }

    /// Returns the places since the last call.
    pub fn take(&mut self) -> Vec<SplitPoint> {
        std::mem::take(&mut self.points)
    }
}

/// A reader of the tags inside of a record that most of them are.
#[derive(Debug, Default)]
pub struct PassOver {
    /// Where the names of elements stand that have been opened and not closed: used inside of one call.
    open: Vec<(usize, usize)>,
}

impl PassOver {
    /// Passes over tags inside of a record: start tags, and end tags of elements that were opened here. Whatever else
    /// comes is for the cutter, and so is a fault. Answers with where it has come to; `opened` is handed the names of the
    /// elements that are open there, of which there may be so many as there is `room`.
    pub fn pass_over(&mut self, buffer: &[u8], mut at: usize, room: usize, mut opened: impl FnMut(&[u8])) -> usize {
        self.open.clear();
        while let Some(start) = tag_start(buffer, at) {
            match buffer.get(start + 1) {
                None | Some(b'!' | b'?') => break,
                Some(b'/') => {
                    let Some(&(name, name_end)) = self.open.last() else { break };
                    let end = start + 2 + name_end - name;
                    if buffer.get(end) != Some(&b'>') || buffer[start + 2..end] != buffer[name..name_end] {
                        break;
                    }
                    self.open.pop();
                    at = end + 1;
                }
                Some(_) => {
                    let end_of_name = name_end(buffer, start + 1);
                    let end = match buffer.get(end_of_name) {
                        Some(b'>') => Some(end_of_name + 1),
                        _ => tag_end(buffer, end_of_name),
                    };
                    let Some(end) = end else { break };
                    if !is_name_start(buffer[start + 1]) || end_of_name >= end || self.open.len() >= room {
                        break;
                    }
                    if buffer[end - 2] != b'/' {
                        self.open.push((start + 1, end_of_name));
                    }
                    at = end;
                }
            }
        }
        for &(name, name_end) in &self.open {
            opened(&buffer[name..name_end]);
        }
        at
    }
}

/// Returns where the next tag starts.
#[inline]
fn tag_start(buffer: &[u8], at: usize) -> Option<usize> {
    let rest = &buffer[at..];
    match rest.iter().take(SHORT_BYTES).position(|&b| b == b'<') {
        Some(length) => Some(at + length),
        None => {
            let skipped = rest.len().min(SHORT_BYTES);
            memchr::memchr(b'<', &rest[skipped..]).map(|length| at + skipped + length)
        }
    }
}
