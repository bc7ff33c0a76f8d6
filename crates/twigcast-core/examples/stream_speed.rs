//! How long it takes to read messages that come as text, and as element streams.
//!
//! `cargo run --release --example stream_speed FILE...`
use std::hint::black_box;
use std::time::Instant;

use twigcast_core::document::{Document, Message};
use twigcast_core::limits::Limits;
use twigcast_core::scan::{ScanOptions, Scanner};
use twigcast_core::stream::decode::{CheckLevel, DecodeOptions, Decoder};
use twigcast_core::stream::dictionary::Dictionary;
use twigcast_core::stream::encode::{NameEncoding, encode};
use twigcast_core::vocabulary::Vocabulary;

fn best(mut work: impl FnMut()) -> f64 {
    let once = |work: &mut dyn FnMut()| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    };
    (0..200).map(|_| once(&mut work)).fold(f64::INFINITY, f64::min)
}

fn main() {
    let messages: Vec<Vec<u8>> = std::env::args().skip(1).map(|path| std::fs::read(path).expect("readable")).collect();
    let (vocabulary, limits) = (Vocabulary::new(), Limits::default());
    let (mut scanner, mut document) = (Scanner::new(), Document::default());
    let mut names: Vec<String> = Vec::new();
    let mut scan = |source: &[u8], options: ScanOptions, document: &mut Document| {
        scanner.scan(source, &vocabulary, &limits, options, document).expect("well-formed");
    };
    for source in &messages {
        scan(source, ScanOptions::ALL, &mut document);
        let message = Message { source, document: &document };
        let elements = (1..document.nodes.len()).filter(|&id| document.nodes[id].name.local.as_u32() == 0);
        let elements = elements.filter(|&id| source[document.nodes[id].span.start as usize..].starts_with(b"<"));
        names.extend(
            elements.map(|id| message.qname(id as u32).to_owned()).filter(|name| !name.starts_with(['!', '?'])),
        );
        names.extend(document.attributes.iter().map(|a| String::from_utf8_lossy(a.qname.of(source)).into_owned()));
    }
    names.sort();
    names.dedup();
    let dictionary = Dictionary::new(names.iter().map(String::as_str)).expect("names");
    println!("{} messages, {} names", messages.len(), names.len());
    let per_message = |seconds: f64| seconds * 1e6 / messages.len() as f64;
    for options in [ScanOptions::ALL, ScanOptions { attributes: false, text: false }] {
        let text = best(|| messages.iter().for_each(|source| scan(source, options, black_box(&mut document))));
        println!("{options:?}: text {:.2} us", per_message(text));
        for (what, names) in [
            ("in full", NameEncoding::InFull),
            ("once", NameEncoding::Once),
            ("by number", NameEncoding::By(&dictionary)),
        ] {
            let streams: Vec<Vec<u8>> = messages
                .iter()
                .map(|source| {
                    scan(source, ScanOptions::ALL, &mut document);
                    encode(Message { source, document: &document }, names)
                })
                .collect();
            let mut decoder = Decoder::new();
            let reading = DecodeOptions {
                dictionary: &dictionary,
                vocabulary: &vocabulary,
                identity: 0,
                limits: &limits,
                record: options,
                checks: CheckLevel::All,
            };
            let decode = best(|| {
                for stream in &streams {
                    decoder.decode(stream, reading, black_box(&mut document)).expect("a stream");
                }
            });
            println!("    {what}: {:.2} us", per_message(decode));
        }
    }
}
