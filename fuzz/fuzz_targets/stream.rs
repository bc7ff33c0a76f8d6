//! Any bytes as an element stream: what the decoder takes is a message that the scanner takes as well, and writing it
//! again gives the same message. Whatever they are, routing tables may look into them.
#![no_main]

use std::cell::RefCell;
use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use twigcast_core::document::{Document, Message};
use twigcast_core::engine::routing::ConjunctionIndex;
use twigcast_core::engine::{Matcher, QueryContext};
use twigcast_core::ids::RouteLabel;
use twigcast_core::limits::Limits;
use twigcast_core::scan::{ScanOptions, Scanner};
use twigcast_core::stream::decode::{CheckLevel, DecodeOptions, Decoder};
use twigcast_core::stream::dictionary::Dictionary;
use twigcast_core::stream::encode::{NameEncoding, encode};
use twigcast_core::stream::text::text;
use twigcast_core::vocabulary::Vocabulary;

/// Names that a stream may spell out as well, so that both ways to a name are tried.
const NAMES: [&str; 5] = ["a", "b", "xmlns", "xmlns:p", "p:a"];
const TEXT_BYTES_MAX: usize = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    let dictionary = Dictionary::new(NAMES).expect("names");
    // The id is a hash, which would never be guessed: it is put where the flags announce it.
    let mut stream = bytes.to_vec();
    if let Some(place) = stream.get_mut(4..12) {
        if bytes[3] == 1 {
            place.copy_from_slice(&dictionary.id().to_le_bytes());
        }
    }
    look_into(&stream, &dictionary);
    let Some((source, document)) = read(&stream, &dictionary) else { return };
    let message = Message { source: &source, document: &document };
    let Ok(written) = text(message, TEXT_BYTES_MAX) else { return };
    let mut scanned = Document::default();
    let (vocabulary, limits) = (Vocabulary::new(), Limits::default());
    let verdict = Scanner::new().scan(&written, &vocabulary, &limits, ScanOptions::ALL, &mut scanned);
    verdict.unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&written)));
    assert_eq!(scanned.nodes.len(), document.nodes.len());
    for names in [NameEncoding::InFull, NameEncoding::Once, NameEncoding::By(&dictionary)] {
        let (source, document) = read(&encode(message, names), &dictionary).expect("was just written");
        assert_eq!(text(Message { source: &source, document: &document }, usize::MAX).as_ref(), Ok(&written));
    }
});

/// Those who only look into a stream read it in another way, and it may be anything.
fn look_into(stream: &[u8], dictionary: &Dictionary) {
    thread_local! {
        static TABLES: RefCell<[(ConjunctionIndex, Matcher); 2]> = RefCell::new(
            [["/a/b", "//p:a", "/never"], ["/a[@b = '1']/b", "//a[. = 'x']", "/never"]]
                .map(|paths| (table(&paths), Matcher::new())),
        );
    }
    TABLES.with_borrow_mut(|tables| {
        for (table, matcher) in tables {
            let routes = [0, 1, 2].map(|label| (RouteLabel::from_u32(label), label));
            let _ = table.route_stream(matcher, stream, dictionary, &routes);
        }
    });
}

fn table(paths: &[&str]) -> ConjunctionIndex {
    let mut table = ConjunctionIndex::new(Limits::default());
    let namespaces = BTreeMap::from([("p".into(), "u".into())]);
    for (label, path) in (0..).zip(paths) {
        let context = QueryContext { namespaces: namespaces.clone(), ..QueryContext::default() };
        table.add(&[(path, context)], vec![RouteLabel::from_u32(label)]).expect("a valid path");
    }
    table
}

fn read(stream: &[u8], dictionary: &Dictionary) -> Option<(Vec<u8>, Document)> {
    let (mut decoder, mut document) = (Decoder::new(), Document::default());
    let (vocabulary, limits) = (Vocabulary::new(), Limits::default());
    let reading = DecodeOptions {
        dictionary,
        vocabulary: &vocabulary,
        identity: 0,
        limits: &limits,
        record: ScanOptions::ALL,
        checks: CheckLevel::All,
    };
    decoder.decode(stream, reading, &mut document).ok()?;
    Some((decoder.source().to_vec(), document))
}
