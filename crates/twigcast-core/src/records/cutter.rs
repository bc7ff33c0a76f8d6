//! Cuts the bytes of a document, as they come, into records.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use memchr::memmem;

use super::boundary::{end_of, is_name_start, is_xml_declaration, name_end, prolog_end, start_tag_end};
use super::names::{InheritedName, RecordNames, local_part};
use super::record_id::IdPath;
use super::scope::{Scope, TagParts, is_declaration};
use super::skim::{PassOver, Skim, SplitPoint};
use crate::document::Document;
use crate::error::MessageError;
use crate::limits::Limits;
use crate::scan::bytes::skip_spaces;
use crate::scan::characters::LegalText;
use crate::scan::dtd::Declarations;
use crate::scan::dtd::elements::ElementExpander;
use crate::scan::dtd::expand::{OtherDeclarations, read_prolog};
use crate::scan::fault::{Fault, ScanResult, describe_input, shown};
use crate::scan::position::Locator;
use crate::scan::{ScanOptions, Scanner, characters, references};
use crate::vocabulary::Vocabulary;

/// Bytes that are kept of a record that cannot be used.
const HEAD_BYTES: usize = 64 << 10;
/// Bytes of a record that are waited for before it is walked through, if it may be offered.
const OFFERED_BYTES_MAX: usize = 1 << 20;
/// Offers that may be declined, on the whole: each accepted one counts against that.
const OFFERS_MAX: u32 = 16;
/// Bytes that a start tag and its end tag take together, at least: in fewer for each level, elements are not too deep.
const ELEMENT_BYTES_MIN: usize = 7;
/// Bytes that a reference may have to be waited for.
const REFERENCE_BYTES_MAX: usize = 1 << 10;

/// Names of root elements that are remembered, of several documents.
const ROOTS_MAX: usize = 64;
/// Entities that are remembered to be in order, or not.
const ENTITIES_MAX: usize = 1 << 10;
/// Attributes that are looked at of a start tag that is not well-formed.
const READABLE_ATTRIBUTES_MAX: usize = 64;
const UTF8_MARK: &[u8] = b"\xEF\xBB\xBF";

/// The settings by which documents are cut.
#[derive(Debug, Default)]
pub struct CutOptions {
    /// The elements that are records; none: each document is one.
    pub records: Option<RecordNames>,
    /// Several documents follow each other, and a broken one does not end the cutting.
    pub documents: bool,
    /// Names of attributes and elements around or before records that these inherit.
    pub inherit: Vec<InheritedName>,
    /// The path to the id of a record.
    pub id: Option<IdPath>,
    /// The declarations of an external DTD.
    pub external: Option<Arc<Declarations>>,
    /// The entities of HTML and ISO.
    pub sets: Option<Arc<Declarations>>,
    /// All documents may use these sets.
    pub uses_sets: bool,
    /// `message_bytes_max` applies to each record, and to the bytes between two.
    pub limits: Limits,
}

impl CutOptions {
    /// Returns the declarations that do not stand in the documents.
    fn other(&self) -> OtherDeclarations<'_> {
        let Self { external, sets, uses_sets, .. } = self;
        OtherDeclarations { external: external.as_deref(), sets: sets.as_deref(), uses_sets: *uses_sets }
    }
}

/// Records, one after the other.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CutRecords {
    /// The records as messages; a record that cannot be used is cut off after its beginning.
    pub data: Vec<u8>,
    /// The end of each record in the data.
    pub ends: Vec<usize>,
    /// The errors of records that cannot be used, by index, with the place in the document.
    pub errors: Vec<(usize, MessageError)>,
    /// The ids that records give themselves, by index; records beyond the end of the list have none.
    pub ids: Vec<Option<String>>,
    /// The place in the document where each begins.
    pub places: Vec<RecordLocation>,
}

impl CutRecords {
    fn add(&mut self, xml: &[u8], place: RecordLocation) {
        self.data.extend_from_slice(xml);
        self.ends.push(self.data.len());
        self.places.push(place);
    }
}

/// The place of a record in its document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordLocation {
    /// The line where it begins, from 1.
    pub line: u32,
    /// The column where it begins, in characters from 1.
    pub column: u32,
    /// The characters that the cutter has put into the first line of the record, before all but its name.
    pub added: u32,
    /// The bytes of the document before it.
    pub offset: u64,
    /// The bytes that it has in the document; 0 where its end was not found.
    pub length: u64,
}

impl RecordLocation {
    fn at((line, column): (u32, u32), offset: u64) -> Self {
        Self { line, column, added: 0, offset, length: 0 }
    }

    /// Returns an error of the record, as far as its place goes, as one of the document.
    pub fn in_document(self, error: MessageError) -> MessageError {
        let in_line = (self.column + error.column).saturating_sub(1 + self.added).max(self.column);
        let column = if error.line == 1 { in_line } else { error.column };
        MessageError { line: (self.line + error.line).saturating_sub(1), column, ..error }
    }
}

/// A taker of the records that a cutter finds, in order.
pub trait RecordSink {
    /// Takes bytes that are a record if they are a well-formed message, and answers whether they are.
    ///
    /// Who reads records anyway finds out more cheaply where one ends than the cutter does: it offers what ends in the first
    /// end tag of the record's name. Others decline without a look.
    fn offer(&mut self, xml: &[u8]) -> bool;

    /// Returns whether it is of use to offer records.
    fn takes_offers(&self) -> bool;

    /// Takes a record.
    fn take(&mut self, xml: &[u8], id: Option<String>, place: RecordLocation);

    /// Takes the beginning of a record that cannot be used, with the reason and its place in the document.
    fn reject(&mut self, head: &[u8], error: MessageError, place: RecordLocation);
}

impl RecordSink for CutRecords {
    fn offer(&mut self, _: &[u8]) -> bool {
        false
    }

    fn takes_offers(&self) -> bool {
        false
    }

    fn take(&mut self, xml: &[u8], id: Option<String>, place: RecordLocation) {
        if id.is_some() {
            self.ids.resize(self.ends.len(), None);
            self.ids.push(id);
        }
        self.add(xml, place);
    }

    fn reject(&mut self, head: &[u8], error: MessageError, place: RecordLocation) {
        self.errors.push((self.ends.len(), error));
        self.add(head, place);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CutterState {
    Prolog,
    Content,
    /// Behind the root element.
    Epilog,
    /// Behind a fault, on the way to the next document.
    Lost,
    Finished,
}

/// The search for the first end tag of a name, and for what makes it doubtful that it ends the element.
#[derive(Debug)]
struct EndTagSearch {
    name: Vec<u8>,
    end_tag: memmem::Finder<'static>,
    start_tag: memmem::Finder<'static>,
    declaration: memmem::Finder<'static>,
    instruction: memmem::Finder<'static>,
}

impl EndTagSearch {
    fn new(name: &[u8]) -> Self {
        let finder = |start: &[u8], name: &[u8]| memmem::Finder::new(&[start, name].concat()).into_owned();
        Self {
            name: name.to_vec(),
            end_tag: finder(b"</", name),
            start_tag: finder(b"<", name),
            declaration: finder(b"<!", b""),
            instruction: finder(b"<?", b""),
        }
    }

    /// Returns the end of the first end tag with a name behind `at`; none if it has not arrived.
    fn search(&mut self, source: &[u8], name: &[u8], mut at: usize) -> Option<usize> {
        if self.name != name {
            *self = Self::new(name);
        }
        loop {
            at += self.end_tag.find(source.get(at..)?)? + 2 + name.len();
            let end = skip_spaces(source, at);
            if *source.get(end)? == b'>' {
                return Some(end + 1);
            }
        }
    }

    /// Returns whether what stands before that end tag is sure to be the content of the element: no tag can be hidden
    /// in a comment or the like there, and no element of the same name begins.
    fn is_sure(&self, content: &[u8]) -> bool {
        let is_name_end = |b: &u8| matches!(b, b'>' | b'/') || b.is_ascii_whitespace();
        self.declaration.find(content).is_none()
            && self.instruction.find(content).is_none()
            && !self
                .start_tag
                .find_iter(content)
                .any(|at| content.get(at + 1 + self.name.len()).is_none_or(is_name_end))
    }
}

/// What became of an offer.
enum Offer {
    /// The record was taken, and ends here.
    Taken(usize),
    /// It has not arrived as a whole.
    Waits,
    /// It has to be walked through.
    Declined,
}

/// Where the message stands that an element is as a record.
#[derive(Clone, Copy, Debug)]
enum RecordForm {
    /// In the document.
    Unchanged,
    /// In the expander.
    Expanded,
    /// In the memory of the cutter; so many characters were added before its attributes.
    Written(u32),
}

#[derive(Debug)]
struct OpenRecord {
    start: usize,
    /// Bytes of the document before it.
    offset: u64,
    depth: usize,
    place: (u32, u32),
    /// The beginning of a record over the size limit, whose bytes are not kept.
    head: Option<Vec<u8>>,
    /// The names of its children that it would inherit otherwise.
    children: Vec<Box<[u8]>>,
}

/// The names of the open elements, as written.
#[derive(Debug, Default)]
struct OpenNames {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl OpenNames {
    fn push(&mut self, name: &[u8]) {
        self.bytes.extend_from_slice(name);
        self.ends.push(self.bytes.len());
    }

    fn pop(&mut self) {
        self.ends.pop();
        self.bytes.truncate(self.ends.last().copied().unwrap_or(0));
    }

    /// Returns the name of the element so many steps outside of the innermost one.
    fn get(&self, outwards: usize) -> Option<&[u8]> {
        let index = self.ends.len().checked_sub(outwards + 1)?;
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        Some(&self.bytes[start..self.ends[index]])
    }

    fn depth(&self) -> usize {
        self.ends.len()
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

/// Cuts documents into records: takes their bytes, in UTF-8, in pieces of any size.
#[derive(Debug)]
pub struct Cutter {
    options: CutOptions,
    buffer: Vec<u8>,
    /// Bytes of the document before the buffer.
    passed: u64,
    /// How far the buffer has been read.
    at: usize,
    /// An offset in the buffer with its line and column: nothing before it is asked for any more.
    placed: usize,
    line: u32,
    column: u32,
    state: CutterState,
    open: OpenNames,
    scope: Scope,
    record: Option<OpenRecord>,
    /// Depth and start of open elements that may have to be copied into records.
    copied: Vec<(usize, usize)>,
    declared: ElementExpander,
    /// The name of the root of the last document.
    root: Vec<u8>,
    /// The names of the roots of several documents.
    roots: Vec<Box<[u8]>>,
    has_documents: bool,
    /// The line on which the document begins, once that is there.
    document_line: Option<u32>,
    /// Behind a fault: the document has ended, so that the next line of any element begins another.
    is_over: bool,
    /// Some text between two pieces of markup has been rejected.
    is_text_rejected: bool,
    /// Whether entities that text between records refers to are in order.
    entities: HashMap<Box<[u8]>, Result<(), MessageError>>,
    /// Only the next document is in the encoding of what is fed.
    is_alone: bool,
    /// That document has begun.
    is_begun: bool,
    is_halted: bool,
    /// Why the document cannot be read on.
    abandoned: Option<String>,
    /// Instead of records, places to begin at are looked for.
    skim: Option<Skim>,
    /// How many offers more may be declined before no more are made.
    offers: u32,
    ending: EndTagSearch,
    /// Passes over the tags inside of a record.
    tags: PassOver,
    /// A record as it is written.
    written: Vec<u8>,
    scanner: Scanner,
    document: Document,
    vocabulary: Vocabulary,
}

impl Cutter {
    /// Creates a cutter.
    pub fn new(options: CutOptions) -> Self {
        Self {
            scope: Scope::new(&options.inherit),
            options,
            buffer: Vec::new(),
            passed: 0,
            at: 0,
            placed: 0,
            line: 1,
            column: 1,
            state: CutterState::Prolog,
            open: OpenNames::default(),
            record: None,
            copied: Vec::new(),
            declared: ElementExpander::default(),
            root: Vec::new(),
            roots: Vec::new(),
            has_documents: false,
            document_line: None,
            is_over: false,
            is_text_rejected: false,
            entities: HashMap::new(),
            is_alone: false,
            is_begun: false,
            is_halted: false,
            abandoned: None,
            skim: None,
            offers: OFFERS_MAX,
            ending: EndTagSearch::new(b""),
            tags: PassOver::default(),
            written: Vec::new(),
            scanner: Scanner::new(),
            document: Document::default(),
            vocabulary: Vocabulary::new(),
        }
    }

    /// Returns how many bytes have been taken that mean nothing without more.
    pub fn pending(&self) -> usize {
        self.buffer.len() - self.at
    }

    /// Returns the line and the column of what will be taken next.
    pub fn end(&self) -> (u32, u32) {
        self.place(self.buffer.len())
    }

    /// Returns whether it waits before a document that has to be decoded first, or that follows the only document to be
    /// read. The caller has to take back the bytes of that document.
    pub fn is_halted(&self) -> bool {
        self.is_halted
    }

    /// Takes back the beginning of the document before which it is halted, as it was fed. `is_alone`: of what is fed next,
    /// only the first document is to be read.
    pub fn take_back(&mut self, is_alone: bool) -> Vec<u8> {
        (self.is_halted, self.is_begun, self.is_alone) = (false, false, is_alone);
        self.buffer.split_off(self.at)
    }

    /// Gives the document up, for a reason that the next step says.
    pub fn abandon(&mut self, reason: String) {
        self.abandoned = Some(reason);
    }

    /// Returns the names, by index, of which records have inherited something.
    pub fn inherited(&self) -> impl Iterator<Item = usize> {
        self.scope.with_heirs()
    }

    /// Takes the next bytes, and returns the records that end in them: see [`Self::feed_to`].
    pub fn feed(&mut self, chunk: &[u8], last: bool) -> CutRecords {
        let mut cuts = CutRecords::default();
        if self.skim.is_none() {
            cuts.data.reserve(self.pending() + chunk.len());
        }
        self.feed_to(chunk, last, &mut cuts);
        cuts
    }

    /// Takes the next bytes; `last`: no more will come. The sink gets the records that end in them, in order. What is not
    /// well-formed between records is rejected as if it was one. Where the end of an element is not known, the reading ends
    /// with one last record, or with several documents the reading of that one.
    pub fn feed_to(&mut self, chunk: &[u8], last: bool, sink: &mut dyn RecordSink) {
        if let Some(reason) = self.abandoned.take()
            && !matches!(self.state, CutterState::Lost | CutterState::Finished)
        {
            self.fail(Fault::malformed(self.buffer.len(), reason), sink);
        }
        self.buffer.extend_from_slice(chunk);
        self.steps(last, sink);
        self.forget(sink);
    }

    /// Reads as much as there is.
    fn steps(&mut self, last: bool, sink: &mut dyn RecordSink) {
        loop {
            match self.step(last, sink) {
                Ok(true) => {}
                Ok(false) => break,
                Err(fault) => self.fail(fault, sink),
            }
        }
    }

    /// Takes the next bytes as [`Cutter::feed`] does, but returns places in the document, at least `every` bytes from each
    /// other, where another cutter can begin. A cutter does either this or that.
    ///
    /// All that the cutter checks, it checks here too. So behind a fault there is no place, and whoever begins at the last
    /// one finds the fault.
    pub fn skim(&mut self, chunk: &[u8], every: u64, last: bool) -> Vec<SplitPoint> {
        self.skim.get_or_insert_with(|| Skim::new(every));
        self.feed(chunk, last);
        self.skim.as_mut().map(Skim::take).unwrap_or_default()
    }

    /// Begins inside of a document, at a place that [`Cutter::skim`] has found: before any byte of it is fed.
    pub fn resume(&mut self, point: &SplitPoint) {
        self.buffer.extend_from_slice(&point.around);
        self.steps(false, &mut CutRecords::default());
        let is_later_line = self.document_line.is_some_and(|line| self.place(self.buffer.len()).0 != line);
        self.document_line = self.document_line.map(|_| if is_later_line { 0 } else { point.line });
        // What is left of a prolog stands before the place, and is in order.
        self.passed = point.offset - self.buffer.len() as u64;
        self.placed = self.buffer.len();
        (self.line, self.column) = (point.line, point.column);
    }

    /// Gives up on the document, with an error in it.
    fn fail(&mut self, fault: Fault, sink: &mut dyn RecordSink) {
        let offset = self.passed + fault.at() as u64;
        let error = self.error_of(fault);
        let place = (error.line, error.column);
        self.is_over = match self.state {
            CutterState::Prolog => self.buffer.get(self.at) != Some(&b'<'),
            CutterState::Content => self.document_line == Some(error.line),
            _ => true,
        };
        match self.record.take() {
            None => sink.reject(b"", error, RecordLocation::at(place, offset)),
            Some(OpenRecord { head: Some(head), place, offset, .. }) => {
                sink.reject(&head, error, RecordLocation::at(place, offset));
            }
            Some(record) => {
                let place = RecordLocation::at(record.place, record.offset);
                sink.reject(head_of(&self.buffer[record.start..]), error, place);
            }
        }
        if let Some(skim) = &mut self.skim {
            skim.count();
            skim.leave(0);
        }
        self.copied.clear();
        self.scope.clear();
        self.open.clear();
        self.has_documents = true;
        self.is_begun = true;
        self.is_text_rejected = false;
        self.state = if self.options.documents { CutterState::Lost } else { CutterState::Finished };
    }

    /// Rejects something between records, with an error in it; the reading goes on behind it.
    fn reject_between(&mut self, fault: Fault, sink: &mut dyn RecordSink) {
        let offset = self.passed + fault.at() as u64;
        let error = self.error_of(fault);
        let place = RecordLocation::at((error.line, error.column), offset);
        sink.reject(b"", error, place);
        if let Some(skim) = &mut self.skim {
            skim.count();
        }
        // The elements around it are not copied into records, which would have the fault, too.
        self.copied.clear();
    }

    /// Returns a fault in the buffer as an error of the document.
    fn error_of(&self, fault: Fault) -> MessageError {
        let fault = fault.within(self.placed);
        let (line, column) = self.locator().locate(fault.at());
        let error = fault.into_error_at(line, column);
        self.placed(error, (self.line, self.column))
    }

    /// Returns an error of a part of the document with its place in the document; `start`: that of the part.
    fn placed(&self, error: MessageError, start: (u32, u32)) -> MessageError {
        let column = if error.line == 1 { start.1 + error.column - 1 } else { error.column };
        MessageError { line: start.0 + error.line - 1, column, ..error }
    }

    /// Returns a locator in what stands behind the last place that was counted to.
    fn locator(&self) -> Locator<'_> {
        let rest = &self.buffer[self.placed..];
        if self.passed + self.placed as u64 == 0 { Locator::new(rest) } else { Locator::of_part(rest) }
    }

    /// Returns the line and the column of an offset in the buffer.
    fn place(&self, at: usize) -> (u32, u32) {
        let (line, column) = self.locator().locate(at - self.placed);
        (self.line + line - 1, if line == 1 { self.column + column - 1 } else { column })
    }

    /// Returns the line and the column of an offset in the buffer. No later call may ask for an offset before it.
    fn advance(&mut self, at: usize) -> (u32, u32) {
        (self.line, self.column) = self.place(at);
        self.placed = at;
        (self.line, self.column)
    }

    /// Drops what has been read and nothing needs any more.
    fn forget(&mut self, sink: &mut dyn RecordSink) {
        let bytes_max = self.options.limits.message_bytes_max;
        if let Some(record) = &mut self.record
            && record.head.is_none()
            && self.at - record.start > bytes_max
        {
            record.head = Some(self.buffer[record.start..record.start + HEAD_BYTES.min(bytes_max)].to_vec());
        }
        self.copied.retain(|&(_, start)| self.at - start <= bytes_max);
        let mut keep_from = self.at;
        if let Some(record) = self.record.as_ref().filter(|record| record.head.is_none()) {
            keep_from = record.start;
        }
        keep_from = self.copied.iter().map(|&(_, start)| start).fold(keep_from, usize::min);
        // Between a carriage return and its line feed no line ends.
        if keep_from > 0 && self.buffer[keep_from - 1] == b'\r' && keep_from == self.buffer.len() {
            keep_from -= 1;
        }
        if keep_from > self.placed {
            self.advance(keep_from);
        }
        self.placed -= keep_from;
        self.buffer.drain(..keep_from);
        self.passed += keep_from as u64;
        self.at -= keep_from;
        for (_, start) in &mut self.copied {
            *start -= keep_from;
        }
        if let Some(record) = &mut self.record {
            record.start = record.start.saturating_sub(keep_from);
        }
        if self.pending() > bytes_max && self.state != CutterState::Finished {
            let what = format!("a tag, comment or the like is larger than {bytes_max} bytes");
            self.fail(Fault::fixed_limit(self.at, "message_bytes_max", bytes_max, &what), sink);
        }
    }

    /// Reads one piece of markup, with the text before it. Returns whether there was one.
    fn step(&mut self, last: bool, sink: &mut dyn RecordSink) -> ScanResult<bool> {
        if self.is_halted {
            return Ok(false);
        }
        match self.state {
            CutterState::Prolog => self.prolog(last),
            CutterState::Content => self.content(last, sink),
            CutterState::Epilog => self.epilog(last, sink),
            CutterState::Lost => Ok(self.find_document(last)),
            CutterState::Finished => {
                self.at = self.buffer.len();
                Ok(false)
            }
        }
    }

    fn prolog(&mut self, last: bool) -> ScanResult<bool> {
        if self.options.documents {
            self.at = skip_spaces(&self.buffer, self.at);
            if self.at == self.buffer.len() && (self.has_documents || !last) {
                return Ok(false);
            }
            if self.is_alone && self.is_begun {
                self.is_halted = true;
                return Ok(false);
            }
            if self.document_line.is_none() {
                self.document_line = Some(self.advance(self.at).0);
            }
        }
        let rest = &self.buffer[self.at..];
        if !last && rest.len() < UTF8_MARK.len() && UTF8_MARK.starts_with(rest) {
            return Ok(false);
        }
        if self.options.documents && self.has_documents && !self.is_alone {
            match rest {
                // One byte does not tell whether characters have two.
                [_] if !last => return Ok(false),
                [0, _, ..] | [_, 0, ..] | [0xFE, 0xFF, ..] | [0xFF, 0xFE, ..] => {
                    self.is_halted = true;
                    return Ok(false);
                }
                _ => {}
            }
        }
        let mark = if rest.starts_with(b"\xEF\xBB\xBF") { 3 } else { 0 };
        let end = match prolog_end(rest, mark) {
            Some(end) => end + 1,
            None if last && self.has_documents && rest.len() == mark => return Ok(false),
            None if last => rest.len(),
            None => return Ok(false),
        };
        if self.options.documents && !self.is_alone && declares_other_encoding(&rest[..end]) {
            self.is_halted = true;
            return Ok(false);
        }
        let (own, _, root) = match read_prolog(&rest[..end], &self.options.limits) {
            Err(fault) if fault.is_conversion() && self.options.documents && !self.is_alone => {
                self.is_halted = true;
                return Ok(false);
            }
            answer => answer.map_err(|fault| fault.behind(self.at))?,
        };
        self.declared = ElementExpander::new(own);
        self.entities.clear();
        self.is_begun = true;
        self.is_text_rejected = false;
        if let Some(skim) = &mut self.skim {
            skim.begin(&rest[..root], &self.roots);
        }
        self.at += root;
        self.state = CutterState::Content;
        self.has_documents = true;
        Ok(true)
    }

    /// Waits for more; if there is none, the document is cut short.
    fn wait(&self, last: bool) -> ScanResult<bool> {
        if !last {
            return Ok(false);
        }
        let inside = match self.open.get(0) {
            Some(name) => format!("inside the element {:?}", shown(name)),
            None => "before its root element is complete".into(),
        };
        Err(Fault::malformed(self.buffer.len(), format!("the document ends {inside}: it has been cut short")))
    }

    fn content(&mut self, last: bool, sink: &mut dyn RecordSink) -> ScanResult<bool> {
        let is_outside = self.record.is_none();
        let inner = self.open.depth() - self.outside();
        if !is_outside && (self.options.inherit.is_empty() || self.skim.is_some()) {
            let room = self.options.limits.depth_max.saturating_sub(inner);
            self.at = self.tags.pass_over(&self.buffer, self.at, room, |name| self.open.push(name));
        }
        let Some(length) = memchr::memchr(b'<', &self.buffer[self.at..]) else {
            let end = if is_outside { text_end(&self.buffer, self.at) } else { self.buffer.len() };
            self.pass_text(end, sink);
            return self.wait(last);
        };
        let start = self.at + length;
        if !is_outside && self.plain_tag(start) {
            return Ok(true);
        }
        self.pass_text(start, sink);
        if self.buffer.get(start + 1).is_some_and(|&next| !is_name_start(next) && !matches!(next, b'/' | b'?' | b'!')) {
            self.pass_stray(start, sink);
            return Ok(true);
        }
        if self.is_cut_short(start) {
            let inside = shown(self.open.get(0).unwrap_or_default());
            let reason = format!("another document begins inside the element {inside:?}, which has been cut short");
            self.fail(Fault::malformed(start, reason), sink);
            self.begin_document(start);
            return Ok(true);
        }
        let end = self.markup_end(start, last);
        let Some(end) = end else {
            self.at = start;
            return self.wait(last);
        };
        match self.buffer[start + 1] {
            b'/' => self.end_tag(start, end, sink)?,
            b'!' | b'?' if !is_outside => {}
            b'!' | b'?' => {
                if let Err(fault) = self.check_markup(start, end) {
                    self.reject_between(fault, sink);
                }
            }
            _ => match self.whole_record(start, end, last, sink) {
                Offer::Declined => self.start_tag(start, end, sink)?,
                Offer::Taken(end) => {
                    self.is_text_rejected = false;
                    self.at = end;
                    return Ok(true);
                }
                Offer::Waits => {
                    self.at = start;
                    return Ok(false);
                }
            },
        }
        self.is_text_rejected = false;
        self.at = end;
        Ok(true)
    }

    /// Returns the end of the markup at `start`; none if it has not arrived.
    fn markup_end(&self, start: usize, last: bool) -> Option<usize> {
        let buffer = &self.buffer;
        let rest = &buffer[start..];
        let is_short = !last && rest.len() < b"<![CDATA[".len();
        match rest.get(1) {
            None => None,
            Some(b'/') => memchr::memchr(b'>', rest).map(|length| start + length + 1),
            Some(b'?') => end_of(buffer, start, b"?>"),
            Some(b'!') if is_short => None,
            Some(b'!') if rest.starts_with(b"<!--") => end_of(buffer, start + 4, b"-->"),
            Some(b'!') if rest.starts_with(b"<![CDATA[") => end_of(buffer, start, b"]]>"),
            // It is wrong wherever it stands, and nothing says where it ends.
            Some(b'!') => memchr::memchr(b'>', rest).map(|length| start + length + 1),
            Some(_) => start_tag_end(buffer, start),
        }
    }

    /// Passes over text, which is checked between records. A fault in it is reported once.
    fn pass_text(&mut self, end: usize, sink: &mut dyn RecordSink) {
        if self.record.is_none()
            && !self.is_text_rejected
            && end > self.at
            && let Err(fault) = self.check_text(self.at, end)
        {
            self.is_text_rejected = true;
            self.reject_between(fault, sink);
        }
        self.at = end;
    }

    /// Passes over a `<` that begins no markup.
    fn pass_stray(&mut self, start: usize, sink: &mut dyn RecordSink) {
        if self.record.is_none() && !self.is_text_rejected {
            self.is_text_rejected = true;
            let reason = format!("a name must follow \"<\", not {}", describe_input(&self.buffer, start + 1));
            self.reject_between(Fault::malformed(start, reason), sink);
        }
        self.at = start + 1;
    }

    /// Returns whether a line of the content begins another document, by a declaration that is never well-formed in content.
    fn is_cut_short(&self, start: usize) -> bool {
        let rest = &self.buffer[start..];
        let begins = is_xml_declaration(rest) || rest.starts_with(b"<!DOCTYPE");
        self.options.documents && begins && self.place(start).1 == 1
    }

    /// Reads a document from an offset on.
    fn begin_document(&mut self, at: usize) {
        self.at = at;
        self.document_line = None;
        self.is_over = false;
        self.state = CutterState::Prolog;
    }

    /// Takes the element whose start tag is given as a record, if it is one and stands there as a whole, without walking
    /// through it.
    ///
    /// What ends in an end tag of its name and is well-formed as a document is all of the element, and nothing else: so it
    /// is offered. Without that, the first end tag is its end if no other can be meant; then who reads the record finds out
    /// whether it is well-formed.
    fn whole_record(&mut self, start: usize, tag_end: usize, last: bool, sink: &mut dyn RecordSink) -> Offer {
        let Some((name, depth)) = self.plain_record(start, tag_end) else { return Offer::Declined };
        let limits = &self.options.limits;
        let offers = self.offers > 0 && sink.takes_offers() && self.options.id.is_none();
        // A document as a whole is walked through: it is one only if it is well-formed.
        let bytes_sure = if depth > 1 { limits.depth_max.saturating_mul(ELEMENT_BYTES_MIN) } else { 0 };
        let bytes_max = bytes_sure.max(if offers { OFFERED_BYTES_MAX } else { 0 });
        let bytes_max = bytes_max.min(OFFERED_BYTES_MAX).min(limits.message_bytes_max);
        let arrived = &self.buffer[..self.buffer.len().min(start.saturating_add(bytes_max))];
        let end = if self.buffer[tag_end - 2] == b'/' {
            Some(tag_end)
        } else {
            self.ending.search(arrived, &self.buffer[name.clone()], tag_end)
        };
        let Some(end) = end else {
            return if !last && self.buffer.len() - start <= bytes_max { Offer::Waits } else { Offer::Declined };
        };
        if end - start > bytes_max {
            return Offer::Declined;
        }
        let element = start..end;
        let is_sure = |this: &Self| {
            let content = &this.buffer[tag_end..end.max(tag_end)];
            let content = &content[..memchr::memrchr(b'<', content).unwrap_or(0)];
            end - start <= bytes_sure && this.ending.is_sure(content)
        };
        if !offers && !is_sure(self) {
            return Offer::Declined;
        }
        let form = if self.skim.is_some() { Ok(RecordForm::Unchanged) } else { self.message_of(element.clone(), &[]) };
        let is_accepted = offers
            && form.as_ref().is_ok_and(|&form| {
                let xml = self.message(form, element.clone());
                xml.len() <= self.options.limits.message_bytes_max && sink.offer(xml)
            });
        if is_accepted {
            self.offers = (self.offers + 1).min(OFFERS_MAX);
        } else {
            self.offers -= u32::from(offers);
            if (offers && !is_sure(self)) || !self.take_whole(element, form, sink) {
                return Offer::Declined;
            }
        }
        self.copied.clear();
        self.pass_record();
        if depth == 1 {
            let name = self.buffer[name].to_vec();
            self.note_root(&name);
            self.state = CutterState::Epilog;
        }
        Offer::Taken(end)
    }

    /// Returns where the name in a start tag stands, and the depth of the element, if that is a record into which nothing
    /// is put but what holds for all.
    fn plain_record(&mut self, start: usize, tag_end: usize) -> Option<(Range<usize>, usize)> {
        let uses_namespaces = self.options.records.as_ref().is_some_and(RecordNames::use_namespaces);
        let inherits = !self.scope.is_empty() && !self.options.inherit.is_empty();
        if self.record.is_some() || uses_namespaces || inherits {
            return None;
        }
        let name = start + 1..name_end(&self.buffer, start + 1).min(tag_end - 1);
        self.open.push(&self.buffer[name.clone()]);
        let depth = self.open.depth();
        let is_record = self.is_record(depth);
        self.open.pop();
        (is_record && depth <= self.options.limits.depth_max).then_some((name, depth))
    }

    /// Gives an element to the sink as a record; or not, if it is too large with what holds for it.
    fn take_whole(
        &mut self,
        element: Range<usize>,
        form: Result<RecordForm, MessageError>,
        sink: &mut dyn RecordSink,
    ) -> bool {
        let is_too_large =
            |&form: &RecordForm| self.message(form, element.clone()).len() > self.options.limits.message_bytes_max;
        if form.as_ref().is_ok_and(is_too_large) {
            return false;
        }
        let offset = self.passed + element.start as u64;
        let place = self.advance(element.start);
        if let Some(skim) = &mut self.skim {
            if skim.is_due(offset) {
                skim.note(offset, place, self.document_line.is_some_and(|line| line != place.0));
            }
            skim.count();
            return true;
        }
        let place = RecordLocation { length: element.len() as u64, ..RecordLocation::at(place, offset) };
        self.hand_over(element, form, place, sink);
        true
    }

    /// Gives a record to the sink, or its beginning and the reason why it cannot be used.
    fn hand_over(
        &self,
        element: Range<usize>,
        form: Result<RecordForm, MessageError>,
        place: RecordLocation,
        sink: &mut dyn RecordSink,
    ) {
        match form {
            Ok(form) => {
                let xml = self.message(form, element);
                let id = self.options.id.as_ref().and_then(|path| path.find(xml, &self.options.limits));
                let added = if let RecordForm::Written(added) = form { added } else { 0 };
                sink.take(xml, id, RecordLocation { added, ..place });
            }
            Err(error) => sink.reject(head_of(&self.buffer[element]), place.in_document(error), place),
        }
    }

    /// Reads the tag at `start`, inside of a record, if it is what most of them are: a start tag without attributes, or the
    /// end tag of an element that is not the record.
    #[inline]
    fn plain_tag(&mut self, start: usize) -> bool {
        let Some(record) = &self.record else { return false };
        let depth = self.open.depth();
        if self.buffer.get(start + 1) == Some(&b'/') {
            let open = self.open.get(0).unwrap_or_default();
            let end = start + 2 + open.len();
            if depth == record.depth || self.buffer.get(end) != Some(&b'>') || self.buffer[start + 2..end] != *open {
                return false;
            }
            self.open.pop();
            self.at = end + 1;
            return true;
        }
        let is_inherited = depth == record.depth && !self.options.inherit.is_empty();
        if is_inherited || depth - (record.depth - 1) >= self.options.limits.depth_max {
            return false;
        }
        let end = name_end(&self.buffer, start + 1);
        let name = &self.buffer[start + 1..end];
        if self.buffer.get(end) != Some(&b'>') || !name.first().is_some_and(|&first| is_name_start(first)) {
            return false;
        }
        self.open.push(name);
        self.at = end + 1;
        true
    }

    fn start_tag(&mut self, start: usize, end: usize, sink: &mut dyn RecordSink) -> ScanResult<()> {
        let name_end = name_end(&self.buffer, start + 1).min(end - 1);
        let is_empty = self.buffer[end - 2] == b'/';
        let depth = self.open.depth() + 1;
        if depth - self.outside() > self.options.limits.depth_max {
            return Err(Fault::limit(start, "depth_max", self.options.limits.depth_max, "more open elements"));
        }
        if let Some(record) = &mut self.record {
            let name = &self.buffer[start + 1..name_end];
            if depth == record.depth + 1 && self.scope.may_inherit(name) {
                record.children.push(local_part(name).into());
            }
            if is_empty {
                return Ok(());
            }
            self.open.push(name);
            return Ok(());
        }
        let name = self.buffer[start + 1..name_end].to_vec();
        self.open.push(&name);
        if depth == 1 {
            self.note_root(&name);
        }
        let tag = self.buffer[start..end].to_vec();
        let (tag, error) = match self.checked(&tag) {
            Ok(tag) => (tag, None),
            Err(error) => (self.readable_tag(&tag), Some(error)),
        };
        self.scope.enter(&tag, depth);
        let is_record = self.is_record(depth);
        // What is wrong with the start tag of a record is left to whoever reads it.
        let is_broken = error.is_some();
        if let Some(error) = error.filter(|_| !is_record) {
            self.reject_between(Fault::of_error(start, error), sink);
        }
        if let Some(skim) = &mut self.skim
            && !is_record
        {
            skim.enter(depth, &self.buffer[start..end]);
        }
        if is_record {
            self.scope.leave(depth - 1);
            self.copied.clear();
            let place = self.advance(start);
            let offset = self.passed + start as u64;
            if let Some(skim) = &mut self.skim
                && skim.is_due(offset)
            {
                skim.note(offset, place, self.document_line.is_some_and(|line| line != place.0));
            }
            self.record = Some(OpenRecord { start, offset, depth, place, head: None, children: Vec::new() });
        } else if depth > 1 && !is_broken && self.scope.inherited_by(&name, depth).is_some() {
            self.copied.push((depth, start));
        }
        if is_empty { self.close(end, sink) } else { Ok(()) }
    }

    /// Returns how many elements are open around the record, which do not count for its depth.
    fn outside(&self) -> usize {
        self.record.as_ref().map_or(0, |record| record.depth - 1)
    }

    fn is_record(&self, depth: usize) -> bool {
        let Some(records) = &self.options.records else { return depth == 1 };
        let namespace = |outwards: usize| {
            let name = self.open.get(outwards).unwrap_or_default();
            let prefix = memchr::memrchr(b':', name).map_or(&b""[..], |colon| &name[..colon]);
            self.scope.namespace(prefix, depth - outwards)
        };
        records.matches(&|outwards| self.open.get(outwards), namespace)
    }

    fn end_tag(&mut self, start: usize, end: usize, sink: &mut dyn RecordSink) -> ScanResult<()> {
        let open = self.open.get(0).unwrap_or_default();
        let written = self.buffer[start + 2..end - 1].trim_ascii_end();
        // Outside of all elements even an end tag without a name closes none.
        if written != open || open.is_empty() {
            let (written, open) = (shown(written), shown(open));
            return Err(Fault::malformed(
                start,
                format!("the end tag {written:?} does not match the start tag {open:?}"),
            ));
        }
        self.close(end, sink)
    }

    /// Closes the innermost element, whose last byte stands before `end`.
    fn close(&mut self, end: usize, sink: &mut dyn RecordSink) -> ScanResult<()> {
        let depth = self.open.depth();
        if self.record.as_ref().is_some_and(|record| record.depth == depth)
            && let Some(record) = self.record.take()
        {
            self.cut(record, end, sink);
            self.pass_record();
        }
        if self.record.is_none() {
            let name = self.open.get(0).unwrap_or_default();
            let inherited = self.copied.last().and_then(|_| self.scope.inherited_by(name, depth));
            self.scope.leave(depth - 1);
            if let Some(skim) = &mut self.skim {
                skim.leave(depth - 1);
            }
            if let Some((_, start)) = self.copied.pop_if(|copied| copied.0 == depth)
                && let Some(inherited) = inherited
            {
                self.scope.note_element(&self.buffer[start..end], name, depth - 1, inherited);
                if let Some(skim) = &mut self.skim {
                    skim.note_element(depth - 1, local_part(name), &self.buffer[start..end]);
                }
            }
        }
        self.open.pop();
        if depth == 1 {
            self.state = CutterState::Epilog;
        }
        Ok(())
    }

    /// Marks elements before a record as inherited by it, so that later ones replace them for the next record.
    fn pass_record(&mut self) {
        if !self.options.inherit.is_empty() {
            self.scope.pass_record();
            if let Some(skim) = &mut self.skim {
                skim.pass_record();
            }
        }
    }

    /// Notes the name of the root of a document.
    fn note_root(&mut self, name: &[u8]) {
        if self.root == name {
            return;
        }
        self.root.clear();
        self.root.extend_from_slice(name);
        let is_plain = !name.iter().any(|b| matches!(b, b'"' | b'\'' | b'<' | b'&' | b'='));
        if self.options.documents
            && is_plain
            && self.roots.len() < ROOTS_MAX
            && self.roots.iter().all(|root| **root != *name)
        {
            self.roots.push(name.into());
        }
    }

    /// Makes a record of the element from the record's start to `end`.
    fn cut(&mut self, record: OpenRecord, end: usize, sink: &mut dyn RecordSink) {
        if let Some(skim) = &mut self.skim {
            skim.count();
            return;
        }
        let length = self.passed + end as u64 - record.offset;
        let place = RecordLocation { length, ..RecordLocation::at(record.place, record.offset) };
        let limit = self.options.limits.message_bytes_max;
        let too_large = || {
            let reason = format!("the record is larger than {limit} bytes");
            let error = Fault::fixed_limit(0, "message_bytes_max", limit, &reason).into_error(b"");
            MessageError { line: place.line, column: place.column, ..error }
        };
        if let Some(head) = record.head {
            sink.reject(&head, too_large(), place);
            return;
        }
        let element = record.start..end;
        let form = self.message_of(element.clone(), &record.children);
        match form {
            Ok(form) if self.message(form, element.clone()).len() > limit => {
                sink.reject(head_of(self.message(form, element)), too_large(), place);
            }
            form => self.hand_over(element, form, place, sink),
        }
    }

    /// Finds out what an element of the buffer is as a message: expanded, and with what it inherits from its context, but for
    /// the elements that `children` names.
    fn message_of(&mut self, element: Range<usize>, children: &[Box<[u8]>]) -> Result<RecordForm, MessageError> {
        let mut element = &self.buffer[element];
        let other = self.options.other();
        let is_expanded = self.declared.may_change(element, other);
        self.written.clear();
        if is_expanded {
            self.declared.expand(element, other, &self.options.limits)?;
            element = self.declared.expanded();
            self.declared.write_ids(other, &mut self.written);
        }
        if self.scope.is_empty() && self.written.is_empty() {
            return Ok(if is_expanded { RecordForm::Expanded } else { RecordForm::Unchanged });
        }
        Ok(RecordForm::Written(in_scope(&mut self.scope, element, children, &mut self.written)))
    }

    /// Returns the message that an element is, of which this is the last one that was found out about.
    fn message(&self, form: RecordForm, element: Range<usize>) -> &[u8] {
        match form {
            RecordForm::Unchanged => &self.buffer[element],
            RecordForm::Expanded => self.declared.expanded(),
            RecordForm::Written(_) => &self.written,
        }
    }

    /// Checks a start tag between records, and returns it with what is declared for it.
    fn checked(&mut self, tag: &[u8]) -> Result<Vec<u8>, MessageError> {
        let mut tag = tag.to_vec();
        let other = self.options.other();
        if self.declared.may_change(&tag, other) {
            self.declared.expand(&tag, other, &self.options.limits)?;
            tag = self.declared.expanded().to_vec();
        }
        let Some(TagParts { name_end, added, .. }) = self.scope.parts(&tag) else {
            // The scanner says what is wrong with it.
            self.check(&tag)?;
            return Err(Fault::malformed(0, "the start tag is not well-formed").into_error(b""));
        };
        let mut alone = [&tag[..name_end], &added, &tag[name_end..]].concat();
        if alone[alone.len() - 2] != b'/' {
            alone.insert(alone.len() - 1, b'/');
        }
        self.check(&alone)?;
        Ok(tag)
    }

    /// Returns what can be read of a start tag that is not well-formed, as one that is: namespaces first, since others may
    /// use them. What it says goes on to hold for the records in it.
    fn readable_tag(&mut self, tag: &[u8]) -> Vec<u8> {
        let mut readable = b"<_/>".to_vec();
        let mut names: Vec<&[u8]> = Vec::new();
        let (declarations, others): (Vec<_>, Vec<_>) =
            attributes_in(tag).into_iter().partition(|(name, _)| is_declaration(name));
        for (name, value) in declarations.into_iter().chain(others).take(READABLE_ATTRIBUTES_MAX) {
            let more = [&readable[..readable.len() - 2], b" ", name, b"=", value, b"/>"].concat();
            if !names.contains(&name)
                && let Ok(more) = self.checked(&more)
            {
                names.push(name);
                readable = more;
            }
        }
        let name = &tag[1..name_end(tag, 1).min(tag.len() - 1)];
        let with_name = [b"<", name, &readable[2..]].concat();
        let mut readable = self.checked(&with_name).unwrap_or(readable);
        if tag[tag.len() - 2] != b'/' {
            readable.truncate(readable.len() - 2);
            readable.push(b'>');
        }
        readable
    }

    /// Checks a document of one element.
    fn check(&mut self, element: &[u8]) -> Result<(), MessageError> {
        let nothing = ScanOptions { attributes: false, text: false };
        self.scanner.scan(element, &self.vocabulary, &self.options.limits, nothing, &mut self.document)
    }

    /// Checks character data between records. The fault is the first one, however much of the text has arrived.
    fn check_text(&mut self, start: usize, end: usize) -> ScanResult<()> {
        let text = self.buffer[start..end].to_vec();
        let mut fault = None;
        let mut length = text.len();
        let checked = loop {
            match characters::check(&text[..length]) {
                Ok(checked) => break checked,
                Err(earlier) => {
                    length = earlier.at();
                    fault = Some(earlier);
                }
            }
        };
        if let Some(at) = memchr::memmem::find(&text[..length], b"]]>") {
            length = at;
            fault = Some(Fault::malformed(at, "\"]]>\" may not stand in text"));
        }
        let mut at = 0;
        while let Some(skipped) = memchr::memchr(b'&', text.get(at..length).unwrap_or_default()) {
            let end = self.check_reference(checked, at + skipped);
            at = end.map_err(|fault| fault.behind(start))?;
        }
        fault.map_or(Ok(()), |fault| Err(fault.behind(start)))
    }

    /// Checks a reference in text between records, and returns where it ends.
    fn check_reference(&mut self, checked: LegalText<'_>, at: usize) -> ScanResult<usize> {
        let declares = self.declared.may_change(b"&", self.options.other());
        let undeclared = |at, reason| if declares { None } else { Some(Fault::malformed(at, reason)) };
        let end = references::check(checked, at, undeclared)?;
        let reference = &checked.text.as_bytes()[at..end];
        if !declares || reference[1] == b'#' {
            return Ok(end);
        }
        if !self.entities.contains_key(reference) {
            let expanded = self.declared.expand(reference, self.options.other(), &self.options.limits);
            if self.entities.len() >= ENTITIES_MAX {
                self.entities.clear();
            }
            self.entities.insert(reference.into(), expanded);
        }
        match &self.entities[reference] {
            Ok(()) => Ok(end),
            Err(error) => Err(Fault::of_error(at, error.clone())),
        }
    }

    /// Checks a comment, processing instruction or CDATA section between records.
    fn check_markup(&mut self, start: usize, end: usize) -> ScanResult<()> {
        let alone = [b"<x>", &self.buffer[start..end], b"</x>"].concat();
        self.check(&alone).map_err(|error| Fault::of_error(start, error))
    }

    fn epilog(&mut self, last: bool, sink: &mut dyn RecordSink) -> ScanResult<bool> {
        self.at = skip_spaces(&self.buffer, self.at);
        let rest = &self.buffer[self.at..];
        if rest.is_empty() {
            return Ok(false);
        }
        let first = std::str::from_utf8(&rest[..rest.len().min(4)]);
        let cuts_character = first.is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none());
        let is_short = rest.len() < 6 && !last && (cuts_character || matches!(rest, [b'<'] | [b'<', b'?' | b'!', ..]));
        let is_markup = (rest.starts_with(b"<?") && !is_xml_declaration(rest)) || rest.starts_with(b"<!--");
        if is_short {
            return Ok(false);
        }
        if is_markup {
            let end = match rest[1] {
                b'?' => end_of(&self.buffer, self.at, b"?>"),
                _ => end_of(&self.buffer, self.at + 4, b"-->"),
            };
            let Some(end) = end else { return self.wait(last) };
            if let Err(fault) = self.check_markup(self.at, end) {
                self.reject_between(fault, sink);
            }
            self.at = end;
            return Ok(true);
        }
        if self.options.documents {
            self.begin_document(self.at);
            return Ok(true);
        }
        let found = match rest[0] {
            b'<' => "a second root element or end tag".into(),
            _ => describe_input(&self.buffer, self.at),
        };
        let reason = format!(
            "only comments may follow the root element, found {found}; if several documents follow each other, read them \
             with --documents"
        );
        Err(Fault::malformed(self.at, reason))
    }

    /// Goes on to the next line that a document begins on.
    fn find_document(&mut self, last: bool) -> bool {
        let mut at = self.at;
        while let Some(length) = memchr::memchr2(b'\n', b'\r', &self.buffer[at..]) {
            self.note_end_tag(at, at + length + 1);
            at += length + 1;
            match self.begins_document(at, last) {
                Some(true) => {
                    self.begin_document(at);
                    return true;
                }
                Some(false) => {}
                None => {
                    // The line end is looked at again.
                    self.at = at - 1;
                    return false;
                }
            }
        }
        let end = self.buffer.len();
        self.note_end_tag(at, end);
        // An end tag may have come in part.
        self.at = if last { end } else { at.max(end.saturating_sub(self.root.len() + b"</>".len())) };
        false
    }

    /// Notes that the broken document has ended, if its end tag stands there.
    fn note_end_tag(&mut self, start: usize, end: usize) {
        let is_end = |b: &u8| *b == b'>' || b.is_ascii_whitespace();
        let end_tag = [b"</", &*self.root].concat();
        let passed = &self.buffer[start..end];
        let mut places = memchr::memmem::find_iter(passed, &end_tag);
        self.is_over = self.is_over
            || (!self.root.is_empty() && places.any(|at| passed.get(at + end_tag.len()).is_some_and(is_end)));
    }

    /// Returns whether a line begins a document, as far as that can be said behind a fault: with a declaration, with the
    /// root element of an earlier document or, once the broken one has ended, with any element. None if too little of it
    /// has arrived.
    fn begins_document(&self, at: usize, last: bool) -> Option<bool> {
        let whole = &self.buffer[at..];
        let line = whole.strip_prefix(UTF8_MARK).unwrap_or(whole);
        let may_become = |start: &[u8]| !last && start.starts_with(line);
        if may_become(UTF8_MARK) || may_become(b"<?xml") || may_become(b"<!DOCTYPE") {
            return None;
        }
        if !(line.first() == Some(&b'<') && line.get(1).is_some_and(|&next| is_name_start(next))) {
            return Some(line.starts_with(b"<?xml") || line.starts_with(b"<!DOCTYPE"));
        }
        if self.is_over {
            return Some(true);
        }
        let end = name_end(line, 1);
        let longest = self.roots.iter().map(|root| root.len()).max().unwrap_or(0);
        if end < line.len() || end > longest + 1 {
            return Some(self.roots.iter().any(|root| **root == line[1..end]));
        }
        if last { Some(false) } else { None }
    }
}

/// Returns the beginning of a record that cannot be used.
fn head_of(record: &[u8]) -> &[u8] {
    &record[..record.len().min(HEAD_BYTES)]
}

/// Returns whether a prolog declares another encoding than UTF-8: in that of the whole document, not of the prolog alone,
/// which may be ASCII.
fn declares_other_encoding(prolog: &[u8]) -> bool {
    let prolog = prolog.strip_prefix(UTF8_MARK).unwrap_or(prolog);
    let declaration = &prolog[..end_of(prolog, 0, b"?>").unwrap_or(0)];
    let Some(at) = memchr::memmem::find(declaration, b"encoding").filter(|_| is_xml_declaration(prolog)) else {
        return false;
    };
    let behind = &declaration[at + b"encoding".len()..];
    let mut parts = behind.splitn(3, |b| matches!(b, b'"' | b'\''));
    let (Some(_), Some(name), Some(_)) = (parts.next(), parts.next(), parts.next()) else { return false };
    !["UTF-8", "US-ASCII", "ASCII"].iter().any(|same| name.eq_ignore_ascii_case(same.as_bytes()))
}

/// Returns the names and the values, with quotes, of whatever looks like an attribute in a start tag.
fn attributes_in(tag: &[u8]) -> Vec<(&[u8], &[u8])> {
    let mut attributes = Vec::new();
    let mut at = name_end(tag, 1);
    while attributes.len() < READABLE_ATTRIBUTES_MAX
        && let Some(skipped) = memchr::memchr(b'=', tag.get(at..).unwrap_or_default())
    {
        let before = tag[at..at + skipped].trim_ascii_end();
        let name = before.iter().rposition(|b| b.is_ascii_whitespace()).map(|space| &before[space + 1..]);
        let quote = skip_spaces(tag, at + skipped + 1);
        at = quote;
        if let Some(&mark @ (b'"' | b'\'')) = tag.get(quote)
            && let Some(length) = memchr::memchr(mark, &tag[quote + 1..])
        {
            at = quote + length + 2;
            attributes.extend(name.filter(|name| !name.is_empty()).map(|name| (name, &tag[quote..at])));
        }
    }
    attributes
}

/// Returns the end of the text from `at` on that does not depend on what follows: it cuts no character, reference or
/// `]]>`.
fn text_end(buffer: &[u8], at: usize) -> usize {
    let text = &buffer[at..];
    let mut end = text.len();
    let tail = end.saturating_sub(REFERENCE_BYTES_MAX);
    // If several references have no end, the first one is waited for, since the bytes after it are its fault.
    let behind = memchr::memrchr(b';', &text[tail..]).map_or(tail, |end| tail + end + 1);
    if let Some(reference) = memchr::memchr(b'&', &text[behind..]) {
        end = behind + reference;
    }
    while end > 0 && !text[end - 1].is_ascii() {
        end -= 1;
    }
    while end > 0 && text[end - 1] == b']' {
        end -= 1;
    }
    at + end
}

/// Writes a record with the declarations of its context, behind a DOCTYPE that may have been written. Returns how many
/// characters were added before its own attributes.
fn in_scope(scope: &mut Scope, element: &[u8], children: &[Box<[u8]>], xml: &mut Vec<u8>) -> u32 {
    let based;
    let element = match scope.own_base(element) {
        Some((range, base)) => {
            based = [&element[..range.start], &base, &element[range.end..]].concat();
            &based
        }
        None => element,
    };
    let Some(TagParts { name_end, attributes_end, added }) = scope.parts(element) else {
        xml.extend_from_slice(element);
        return 0;
    };
    let copies = scope.elements(|name| children.iter().any(|child| **child == *name));
    let (before, behind) = scope.around();
    xml.extend_from_slice(&before);
    let characters = |bytes: &[u8]| bytes.iter().filter(|&&b| b & 0xC0 != 0x80).count() as u32;
    let count = characters(xml) + characters(&added);
    xml.extend_from_slice(&element[..name_end]);
    xml.extend_from_slice(&added);
    if copies.is_empty() {
        xml.extend_from_slice(&element[name_end..]);
    } else {
        let tag_end = start_tag_end(element, 0).unwrap_or(element.len());
        xml.extend_from_slice(&element[name_end..attributes_end]);
        xml.push(b'>');
        xml.extend_from_slice(&copies);
        xml.extend_from_slice(&element[tag_end..]);
        if tag_end == element.len() {
            xml.extend_from_slice(&[b"</", &element[1..name_end], b">"].concat());
        }
    }
    xml.extend_from_slice(&behind);
    count
}
