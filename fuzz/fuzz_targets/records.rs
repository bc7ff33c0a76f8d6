//! Any bytes as a document that is cut into records: the pieces in which it arrives, and whether records are offered
//! before they are walked through, change nothing; a well-formed document gives the elements that its tree has.
#![no_main]

use libfuzzer_sys::fuzz_target;
use twigcast_core::document::{Document, Message, NodeKind};
use twigcast_core::error::MessageError;
use twigcast_core::limits::Limits;
use twigcast_core::records::cutter::{CutOptions, CutRecords, Cutter, RecordLocation, RecordSink};
use twigcast_core::records::names::{InheritedName, RecordNames};
use twigcast_core::scan::{ScanOptions, Scanner};
use twigcast_core::vocabulary::Vocabulary;

const RECORDS: [Option<&str>; 7] =
    [None, Some("a"), Some("/r/a"), Some("a|b"), Some("p:a"), Some("{u}a"), Some("b/a")];
/// Under the small ones, a tag that comes in pieces may be over the limit.
const BYTES_MAX: [usize; 3] = [256 << 20, 64, 7];

fuzz_target!(|bytes: &[u8]| {
    let [choice, piece, document @ ..] = bytes else { return };
    let at_once = cut(*choice, document, usize::MAX);
    let size = usize::from(*piece) + 1;
    let in_pieces = cut(*choice, document, size);
    // Who decodes reads on from there, with what the cutter gives back.
    let (Some(at_once), Some(in_pieces)) = (at_once, in_pieces) else { return };
    if options(*choice).limits.message_bytes_max == BYTES_MAX[0] {
        // But for what was read of those that cannot be used, and for what a reason shows of the bytes behind a fault.
        assert_eq!(placed(&at_once), placed(&in_pieces), "in pieces of {size}");
        assert_eq!(at_once.places, in_pieces.places, "in pieces of {size}");
    }
    for (size, cuts) in [(usize::MAX, &at_once), (size, &in_pieces)] {
        let mut reader = Reader::default();
        feed(*choice, document, size, &mut reader);
        assert_eq!(messages(cuts), reader.messages, "offered, in pieces of {size}");
    }
    if *choice == 1 {
        check(document, &messages(&at_once));
    }
});

fn options(choice: u8) -> CutOptions {
    let choice = usize::from(choice);
    let record = RECORDS[choice % RECORDS.len()];
    let rest = choice / RECORDS.len();
    CutOptions {
        records: record.map(|record| RecordNames::parse(record).expect("a record")),
        documents: rest % 2 == 1,
        inherit: if rest / 2 % 2 == 1 { ["b", "x"].iter().map(|name| InheritedName::parse(name).expect("a name")).collect() } else { Vec::new() },
        limits: Limits { message_bytes_max: BYTES_MAX[rest / 4 % BYTES_MAX.len()], ..Limits::default() },
        ..CutOptions::default()
    }
}

fn feed(choice: u8, document: &[u8], size: usize, sink: &mut dyn RecordSink) -> bool {
    let mut cutter = Cutter::new(options(choice));
    for piece in document.chunks(size) {
        cutter.feed_to(piece, false, sink);
    }
    cutter.feed_to(b"", true, sink);
    cutter.is_halted()
}

/// Returns the records; none where a document in another encoding is met.
fn cut(choice: u8, document: &[u8], size: usize) -> Option<CutRecords> {
    let mut cuts = CutRecords::default();
    let is_halted = feed(choice, document, size, &mut cuts);
    (!is_halted).then_some(cuts)
}

fn scan(xml: &[u8], document: &mut Document) -> Result<(), MessageError> {
    Scanner::new().scan(xml, &Vocabulary::new(), &Limits::default(), ScanOptions::ALL, document)
}

/// Reads records as messages, as those do that match them.
#[derive(Default)]
struct Reader {
    messages: Vec<Result<Vec<u8>, String>>,
}

impl RecordSink for Reader {
    fn offer(&mut self, xml: &[u8]) -> bool {
        let is_message = scan(xml, &mut Document::default()).is_ok();
        if is_message {
            self.messages.push(Ok(xml.to_vec()));
        }
        is_message
    }

    fn takes_offers(&self) -> bool {
        true
    }

    fn take(&mut self, xml: &[u8], _: Option<String>, place: RecordLocation) {
        self.messages.push(read(xml, place));
    }

    fn reject(&mut self, _: &[u8], error: MessageError, _: RecordLocation) {
        self.messages.push(Err(error.to_string()));
    }
}

fn read(xml: &[u8], place: RecordLocation) -> Result<Vec<u8>, String> {
    match scan(xml, &mut Document::default()) {
        Ok(()) => Ok(xml.to_vec()),
        Err(error) => Err(place.in_document(error).to_string()),
    }
}

/// Returns records as [`Reader`] has them.
fn messages(cuts: &CutRecords) -> Vec<Result<Vec<u8>, String>> {
    let mut start = 0;
    let of = |(index, &end): (usize, &usize)| {
        let xml = &cuts.data[start..end];
        start = end;
        match cuts.errors.iter().find(|(at, _)| *at == index) {
            Some((_, error)) => Err(error.to_string()),
            None => read(xml, cuts.places[index]),
        }
    };
    cuts.ends.iter().enumerate().map(of).collect()
}

/// Returns records with the places of errors in place of the errors.
fn placed(cuts: &CutRecords) -> Vec<Result<Vec<u8>, String>> {
    let place = |error: String| error.split(": ").next().unwrap_or_default().to_owned();
    messages(cuts).into_iter().map(|record| record.map_err(place)).collect()
}

/// The outermost elements of a well-formed document without a DOCTYPE that are named `a` are its records.
fn check(source: &[u8], records: &[Result<Vec<u8>, String>]) {
    let mut document = Document::default();
    if has_doctype(source) || scan(source, &mut document).is_err() {
        return;
    }
    let message = Message { source, document: &document };
    let mut outermost = Vec::new();
    let mut id = 1;
    while (id as usize) < document.nodes.len() {
        let node = &document.nodes[id as usize];
        let local = |name: &str| name.rsplit(':').next() == Some("a");
        if node.kind == NodeKind::Element && local(&message.qname(id)) {
            outermost.push(message.string_value(id).to_string());
            id = node.end;
        } else {
            id += 1;
        }
    }
    let read: Vec<String> = records.iter().map(|record| text(record.as_ref().expect("a record"))).collect();
    assert_eq!(outermost, read);
}

fn has_doctype(source: &[u8]) -> bool {
    source.windows(9).any(|window| window == b"<!DOCTYPE")
}

fn text(xml: &[u8]) -> String {
    let mut document = Document::default();
    scan(xml, &mut document).expect("was read before");
    Message { source: xml, document: &document }.string_value(0).to_string()
}
