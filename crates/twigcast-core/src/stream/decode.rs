//! An element stream to a document. Nothing in a stream is trusted: what comes out could have been scanned from a text.

use super::dictionary::Dictionary;
use super::element_walker::ElementWalker;
use super::fault::malformed;
use super::header::{StreamHeader, parts};
use super::reader::StreamReader;
use super::section::{ResolvedName, SectionReader, StringCursor};
use crate::document::{Document, NodeId};
use crate::error::MessageError;
use crate::limits::Limits;
use crate::scan::characters::{self, LegalText};
use crate::scan::fault::Fault;
use crate::scan::{ScanOptions, Scanner};
use crate::vocabulary::Vocabulary;

/// The parts of a stream that are checked. Its structure is checked always, as far as it is read. Its structure always
/// is as far as it is read, so that nothing can be read that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckLevel {
    /// All of it: what is taken is a well-formed message.
    All,
    /// Recorded parts only, for callers that read parts of a message that others check as a whole. Other parts may hold
    /// anything, and reading may stop anywhere.
    Recorded,
}

/// The settings with which a stream is read.
#[derive(Clone, Copy)]
pub struct DecodeOptions<'a> {
    /// Names by number.
    pub dictionary: &'a Dictionary,
    /// Names that queries mention.
    pub vocabulary: &'a Vocabulary,
    /// Tells the vocabulary from others.
    pub identity: u64,
    /// The same limits as for messages that come as text.
    pub limits: &'a Limits,
    /// The parts to record.
    pub record: ScanOptions,
    /// The parts to check.
    pub checks: CheckLevel,
}

/// A dictionary, a vocabulary and its state.
type DictionaryState = (u64, u64, usize);

/// Dictionaries whose names stay looked up, besides that in use.
const OTHER_NAMES_MAX: usize = 15;

/// Names by number, as streams refer to them: those of a dictionary, and behind them those that the last message has
/// spelled out to be remembered.
#[derive(Debug, Default)]
struct NumberedNames {
    of_elements: Vec<ResolvedName>,
    of_attributes: Vec<ResolvedName>,
}

impl NumberedNames {
    fn new(dictionary: &Dictionary, source: &[u8], vocabulary: &Vocabulary) -> Self {
        let names: Vec<ResolvedName> =
            dictionary.names().iter().map(|&name| ResolvedName::new(source, name, vocabulary)).collect();
        Self { of_elements: names.clone(), of_attributes: names }
    }

    fn truncate(&mut self, count: usize) {
        self.of_elements.truncate(count);
        self.of_attributes.truncate(count);
    }
}

/// Reads streams one after the other, reusing its memory.
#[derive(Debug, Default)]
pub struct Decoder {
    scanner: Scanner,
    /// The text that the spans of the last message index into: the names of `dictionary`, then the message's strings.
    source: String,
    /// The names of the dictionary that `source` begins with, as `state` says.
    names: NumberedNames,
    /// The dictionary whose names they are.
    state: Option<DictionaryState>,
    /// Names of other dictionaries, looked up before.
    other_names: Vec<(DictionaryState, NumberedNames)>,
    /// By name of the dictionary: the last element that has an attribute of this name.
    owners: Vec<NodeId>,
}

impl Decoder {
    /// Creates a decoder without memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the bytes that the spans of the document last decoded index into.
    pub fn source(&self) -> &[u8] {
        self.source.as_bytes()
    }

    /// Reads `stream` into `document`, whose spans index into [`Self::source`]. A stream that was written without a
    /// dictionary is read without one.
    ///
    /// # Errors
    /// The bytes are no stream of this version or name another dictionary; what they say is no well-formed message, or
    /// one over a limit. Then `document` holds nothing of use.
    pub fn decode(
        &mut self,
        stream: &[u8],
        reading: DecodeOptions<'_>,
        document: &mut Document,
    ) -> Result<(), MessageError> {
        self.open(stream, reading, document)?.read(usize::MAX).map(|_| ())
    }

    /// Begins to read `stream` into `document`, as [`Self::decode`] does at once.
    ///
    /// # Errors
    /// As for [`Self::decode`].
    pub fn open<'a>(
        &'a mut self,
        stream: &'a [u8],
        reading: DecodeOptions<'a>,
        document: &'a mut Document,
    ) -> Result<StreamReader<'a>, MessageError> {
        let parts = self.begin(stream, &reading)?;
        let DecodeOptions { vocabulary, limits, record: options, checks, .. } = reading;
        let checks_all = checks == CheckLevel::All;
        let [values_start, texts_start, markup_start] = parts.starts;
        let looked_at = if checks_all || options.text {
            parts.strings.len()
        } else if options.attributes {
            texts_start
        } else {
            values_start
        };
        let start = self.source.len();
        let strings = checked_strings(&parts, looked_at)?;
        self.source.push_str(strings.text);
        let checked = LegalText { text: &self.source, ..strings };
        let mut pass = self.scanner.pass(checked, vocabulary, limits, options, document);
        pass.document_node(start);
        let values = strings.text.as_bytes().get(values_start..texts_start);
        let texts = strings.text.as_bytes().get(texts_start..markup_start);
        let strings = |from: usize, to: usize, plain: bool| StringCursor { next: start + from, end: start + to, plain };
        Ok(StreamReader {
            pass,
            structure: SectionReader {
                numbers: parts.structure,
                at: 0,
                names: &mut self.names.of_elements,
                spelled_out: None,
                strings: strings(0, values_start, false),
                checks: checks_all,
            },
            attributes: SectionReader {
                numbers: parts.attributes,
                at: 0,
                names: &mut self.names.of_attributes,
                spelled_out: None,
                strings: strings(values_start, texts_start, values.is_some_and(is_plain_values)),
                checks: checks_all,
            },
            texts: strings(texts_start, markup_start, texts.is_some_and(is_plain_texts)),
            markup: strings(markup_start, parts.strings.len(), false),
            owners: &mut self.owners,
            checks_all,
            strings_start: start,
            seen_root: false,
            after_text: false,
        })
    }

    /// Begins to read `stream` for somebody who asks for its elements alone.
    ///
    /// # Errors
    /// As for [`Self::decode`].
    pub(crate) fn open_elements<'a>(
        &'a mut self,
        stream: &'a [u8],
        reading: DecodeOptions<'a>,
        document: &'a mut Document,
    ) -> Result<ElementWalker<'a>, MessageError> {
        let parts = self.begin(stream, &reading)?;
        let DecodeOptions { vocabulary, limits, record, .. } = reading;
        let [values_start, texts_start, markup_start] = parts.starts;
        let start = self.source.len();
        let names = checked_strings(&parts, values_start)?;
        self.source.push_str(names.text);
        let checked = LegalText { text: &self.source, ..names };
        Ok(ElementWalker {
            pass: self.scanner.pass(checked, vocabulary, limits, record, document),
            structure: SectionReader {
                numbers: parts.structure,
                at: 0,
                names: &mut self.names.of_elements,
                spelled_out: None,
                strings: StringCursor { next: start, end: start + values_start, plain: false },
                checks: false,
            },
            texts: StringCursor { next: texts_start, end: markup_start, plain: false },
            markup: StringCursor { next: markup_start, end: parts.strings.len(), plain: false },
            strings_start: start,
            depth: 0,
            scopes: Vec::new(),
            seen_root: false,
        })
    }

    /// Tells the parts of a stream from one another, and leaves the names of its dictionary alone in `source`.
    fn begin<'a>(&mut self, stream: &'a [u8], reading: &DecodeOptions<'_>) -> Result<StreamHeader<'a>, MessageError> {
        let parts = parts(stream, reading.dictionary)?;
        let dictionary = if parts.with_dictionary { reading.dictionary } else { Dictionary::none() };
        self.owners.clear();
        if reading.checks == CheckLevel::All {
            self.owners.resize(dictionary.len(), 0);
        }
        self.take_dictionary(dictionary, reading);
        // Offsets have to fit 32 bits, those behind the dictionary too; but the names that both ends know are no part of
        // the message, which others take as text.
        let bytes_max = reading.limits.message_bytes_max.min(u32::MAX as usize - 1 - self.source.len());
        if stream.len() > bytes_max {
            return Err(Fault::limit(0, "message_bytes_max", bytes_max, "more bytes").into_error_of_stream(0));
        }
        Ok(parts)
    }

    fn take_dictionary(&mut self, dictionary: &Dictionary, reading: &DecodeOptions<'_>) {
        let state = (dictionary.fingerprint(), reading.identity, reading.vocabulary.local_count());
        if self.state == Some(state) {
            self.source.truncate(dictionary.prelude().len());
        } else {
            self.source.clear();
            self.source.push_str(dictionary.prelude());
            self.take_names(state, dictionary, reading.vocabulary);
        }
        self.names.truncate(dictionary.len());
    }

    /// Makes the names of a dictionary those in use, and keeps the others for the next message that needs them: brokers
    /// get messages of many sources by turns.
    fn take_names(&mut self, state: DictionaryState, dictionary: &Dictionary, vocabulary: &Vocabulary) {
        if let Some(before) = self.state.replace(state) {
            if self.other_names.len() >= OTHER_NAMES_MAX {
                self.other_names.remove(0);
            }
            self.other_names.push((before, std::mem::take(&mut self.names)));
        }
        self.names = match self.other_names.iter().position(|(other, _)| *other == state) {
            Some(position) => self.other_names.remove(position).1,
            None => NumberedNames::new(dictionary, self.source.as_bytes(), vocabulary),
        };
    }
}

/// Returns the first strings of a stream, so many bytes of them: characters that may stand in a message, and whole
/// ones.
fn checked_strings<'a>(parts: &StreamHeader<'a>, bytes: usize) -> Result<LegalText<'a>, MessageError> {
    let strings = characters::check(&parts.strings[..bytes]).map_err(|fault| fault.into_error_of_stream(0))?;
    if !parts.starts.iter().all(|&start| start > bytes || strings.text.is_char_boundary(start)) {
        return Err(malformed("element stream: one of its parts ends within a character".into()));
    }
    Ok(strings)
}

/// Returns whether no value has to be checked: no `<`, no reference, no white space to normalise, not both kinds of
/// quotes.
fn is_plain_values(values: &[u8]) -> bool {
    let (mut special, mut double, mut single) = (0u8, 0u8, 0u8);
    for &b in values {
        special |= u8::from(b == b'<') | u8::from(b == b'&') | u8::from(b < 0x20);
        double |= u8::from(b == b'"');
        single |= u8::from(b == b'\'');
    }
    special | (double & single) == 0
}

/// Returns whether no text has to be checked: no `<`, no reference, no end of a CDATA section, no carriage return.
fn is_plain_texts(texts: &[u8]) -> bool {
    let special = |b: u8| u8::from(b == b'<') | u8::from(b == b'&') | u8::from(b == b']') | u8::from(b == b'\r');
    texts.iter().fold(0, |seen, &b| seen | special(b)) == 0
}
