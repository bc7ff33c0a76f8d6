//! An element stream to a document. Nothing in a stream is trusted: what comes out could have been scanned from a text.

use super::dictionary::Dictionary;
use super::reader::{Reader, Strings, Written};
use super::{MAGIC, WITH_DICTIONARY, number};
use crate::document::{Document, NodeId};
use crate::error::{MessageError, MessageErrorKind};
use crate::limits::Limits;
use crate::scan::characters::{self, Checked};
use crate::scan::fault::Fault;
use crate::scan::{Scanner, Want};
use crate::vocabulary::Vocabulary;

/// A stream's parts.
struct Parts<'a> {
    with_dictionary: bool,
    structure: &'a [u8],
    /// Values, then texts, then markup.
    strings: &'a [u8],
    /// Where texts and markup begin in `strings`.
    starts: [usize; 2],
}

/// What of a stream is checked. Its structure always is as far as it is read, so that nothing can be read that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checks {
    /// All of it: what is taken is a well-formed message.
    All,
    /// What is recorded. For those who only look into a message that others will check: what they do not look at may be
    /// anything, and they may stop reading at any place.
    Recorded,
}

/// What a stream is read with.
#[derive(Clone, Copy)]
pub struct Reading<'a> {
    /// Names by number.
    pub dictionary: &'a Dictionary,
    /// Names that queries mention.
    pub vocabulary: &'a Vocabulary,
    /// Tells the vocabulary from others.
    pub identity: u64,
    /// As for messages that come as text.
    pub limits: &'a Limits,
    /// What to record.
    pub want: Want,
    /// What to check.
    pub checks: Checks,
}

/// A dictionary, a vocabulary and its state.
type State = (u64, u64, usize);

/// Dictionaries whose names stay looked up, besides that in use.
const OTHERS_MAX: usize = 15;

/// Reads streams one after the other, reusing its memory.
#[derive(Debug, Default)]
pub struct Decoder {
    scanner: Scanner,
    /// What the spans of the last message index into: the names of `dictionary`, then the message's strings.
    source: String,
    /// The names of the dictionary that `source` begins with, as `known` says; then those remembered.
    names: Vec<Written>,
    /// Whose names they are.
    known: Option<State>,
    /// Names of other dictionaries, looked up before, maybe with some that were remembered behind them.
    others: Vec<(State, Vec<Written>)>,
    /// By name of the dictionary: the last element that has an attribute of this name.
    owners: Vec<NodeId>,
}

impl Decoder {
    /// A decoder without memory yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The bytes that the spans of the document last decoded index into.
    pub fn source(&self) -> &[u8] {
        self.source.as_bytes()
    }

    /// Reads `stream` into `document`, whose spans index into [`Self::source`]. A stream that was written without a
    /// dictionary is read without one.
    ///
    /// # Errors
    /// The bytes are no stream of this version or name another dictionary; what they say is no well-formed message, or
    /// one over a limit. Then `document` holds nothing of use.
    pub fn decode(&mut self, stream: &[u8], reading: Reading<'_>, document: &mut Document) -> Result<(), MessageError> {
        self.open(stream, reading, document)?.read(usize::MAX).map(|_| ())
    }

    /// Begins to read `stream` into `document`, as [`Self::decode`] does at once.
    ///
    /// # Errors
    /// As for [`Self::decode`].
    pub fn open<'a>(
        &'a mut self,
        stream: &'a [u8],
        reading: Reading<'a>,
        document: &'a mut Document,
    ) -> Result<Reader<'a>, MessageError> {
        let parts = parts(stream, reading.dictionary)?;
        let none = Dictionary::default();
        self.begin(Reading { dictionary: if parts.with_dictionary { reading.dictionary } else { &none }, ..reading });
        let skipped = self.source.len();
        let bytes_max = reading.limits.message_bytes_max.min(u32::MAX as usize - 1);
        if stream.len().max(skipped + parts.strings.len()) > bytes_max {
            return Err(Fault::limit(0, "message_bytes_max", bytes_max, "more bytes").into_error_of_stream(0));
        }
        let Reading { vocabulary, limits, want, checks, .. } = reading;
        let checks_all = checks == Checks::All;
        let [texts_start, markup_start] = parts.starts;
        // Without text, only names and values may be looked into.
        let looked_at = if checks_all || want.text { parts.strings } else { &parts.strings[..texts_start] };
        let strings = characters::check(looked_at).map_err(|fault| fault.into_error_of_stream(0))?;
        if !parts.starts.iter().all(|&start| start > looked_at.len() || strings.text.is_char_boundary(start)) {
            return Err(malformed("element stream: one of its parts ends within a character".into()));
        }
        self.source.push_str(strings.text);
        let checked = Checked { text: &self.source, ..strings };
        let (values, texts) = (&parts.strings[..texts_start], &parts.strings[texts_start..markup_start]);
        let [texts_start, markup_start] = [skipped + texts_start, skipped + markup_start];
        let end = skipped + parts.strings.len();
        let mut pass = self.scanner.pass(checked, vocabulary, limits, want, document);
        pass.document_node(skipped);
        Ok(Reader {
            pass,
            names: &mut self.names,
            spelled_out: None,
            structure: parts.structure,
            at: 0,
            values: Strings { next: skipped, end: texts_start, plain: is_plain_values(values) },
            texts: Strings {
                next: texts_start,
                end: markup_start,
                plain: looked_at.len() > values.len() && is_plain_texts(texts),
            },
            markup: Strings { next: markup_start, end, plain: false },
            owners: &mut self.owners,
            checks_all,
            strings_start: skipped,
            seen_root: false,
            after_text: false,
        })
    }

    /// Leaves the names of the dictionary alone in `source`.
    fn begin(&mut self, reading: Reading<'_>) {
        let Reading { dictionary, vocabulary, identity, checks, .. } = reading;
        self.owners.clear();
        if checks == Checks::All {
            self.owners.resize(dictionary.len(), 0);
        }
        let state = (dictionary.fingerprint(), identity, vocabulary.local_count());
        if self.known == Some(state) {
            self.source.truncate(dictionary.prelude().len());
            self.names.truncate(dictionary.len());
            return;
        }
        self.source.clear();
        self.source.push_str(dictionary.prelude());
        self.take_names(state, dictionary, vocabulary);
    }

    /// Makes the names of a dictionary those in use, and keeps the others for the next message that needs them: brokers
    /// get messages of many sources by turns.
    fn take_names(&mut self, state: State, dictionary: &Dictionary, vocabulary: &Vocabulary) {
        if let Some(before) = self.known.replace(state) {
            if self.others.len() >= OTHERS_MAX {
                self.others.remove(0);
            }
            self.others.push((before, std::mem::take(&mut self.names)));
        }
        self.names = match self.others.iter().position(|(other, _)| *other == state) {
            Some(place) => self.others.remove(place).1,
            None => {
                let source = self.source.as_bytes();
                dictionary.names().iter().map(|&name| Written::new(source, name, vocabulary)).collect()
            }
        };
        self.names.truncate(dictionary.len());
    }
}

pub(super) fn malformed(reason: String) -> MessageError {
    MessageError { kind: MessageErrorKind::Malformed, reason, line: 1, column: 1 }
}

fn parts<'a>(stream: &'a [u8], dictionary: &Dictionary) -> Result<Parts<'a>, MessageError> {
    let refused = |reason: String| Err(malformed(format!("element stream: {reason}")));
    let Some(([m0, m1, version], rest)) = stream.split_first_chunk::<3>() else {
        return refused("it ends before its header does".into());
    };
    if [*m0, *m1] != MAGIC[..2] {
        return refused("these bytes are no element stream".into());
    }
    if *version != MAGIC[2] {
        return refused(format!("it is of version {version}, this is version {}", MAGIC[2]));
    }
    let Some((&flags, mut rest)) = rest.split_first() else {
        return refused("it ends before its header does".into());
    };
    if flags & !WITH_DICTIONARY != 0 {
        return refused(format!("its flags 0x{flags:02X} are unknown"));
    }
    let with_dictionary = flags == WITH_DICTIONARY;
    if with_dictionary {
        let Some((bytes, behind)) = rest.split_first_chunk::<8>() else {
            return refused("it ends before its header does".into());
        };
        let id = u64::from_le_bytes(*bytes);
        if id != dictionary.id() {
            return refused(format!("it was written with the dictionary {id:016x}, not with {:016x}", dictionary.id()));
        }
        rest = behind;
    }
    let mut at = 0;
    let mut length = || number::read(rest, &mut at).and_then(|length| usize::try_from(length).ok());
    let (Some(structure), Some(values), Some(texts)) = (length(), length(), length()) else {
        return refused("it ends before its header does".into());
    };
    // Each length has at most 35 bits, so this cannot overflow.
    let starts = [values, values + texts];
    match rest[at..].split_at_checked(structure) {
        Some((structure, strings)) if starts[1] <= strings.len() => {
            Ok(Parts { with_dictionary, structure, strings, starts })
        }
        _ => refused("it ends before its parts do".into()),
    }
}

/// Whether no value needs a look: no `<`, no reference, no white space to normalise, not both kinds of quotes.
fn is_plain_values(values: &[u8]) -> bool {
    let (mut special, mut double, mut single) = (0u8, 0u8, 0u8);
    for &b in values {
        special |= u8::from(b == b'<') | u8::from(b == b'&') | u8::from(b < 0x20);
        double |= u8::from(b == b'"');
        single |= u8::from(b == b'\'');
    }
    special | (double & single) == 0
}

/// Whether no text needs a look: no `<`, no reference, no end of a CDATA section, no carriage return.
fn is_plain_texts(texts: &[u8]) -> bool {
    let special = |b: u8| u8::from(b == b'<') | u8::from(b == b'&') | u8::from(b == b']') | u8::from(b == b'\r');
    texts.iter().fold(0, |seen, &b| seen | special(b)) == 0
}
