//! Microseconds to scan each file of a folder, against an empty vocabulary and one that knows every name, beside what
//! quick-xml needs to cut the same files into events without checking anything.
//!
//! `cargo run --release --example scan_speed -- FOLDER`

use std::path::{Path, PathBuf};
use std::time::Instant;

use quick_xml::events::Event;
use twigcast_core::document::Document;
use twigcast_core::limits::Limits;
use twigcast_core::scan::{ScanOptions, Scanner};
use twigcast_core::vocabulary::Vocabulary;

const PASSES: usize = 40;

fn files(folder: &Path, files_found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { files(&path, files_found)? } else { files_found.push(path) }
    }
    Ok(())
}

/// Prints best and median time of `read` for one message, in microseconds.
fn time(label: &str, messages: &[Vec<u8>], mut read: impl FnMut(&[u8])) {
    let mut times: Vec<f64> = (0..PASSES)
        .map(|_| {
            let start = Instant::now();
            messages.iter().for_each(|message| read(message));
            start.elapsed().as_secs_f64() * 1e6 / messages.len() as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!("{label}: best {:.2}, median {:.2} us per message", times[0], times[PASSES / 2]);
}

/// Lets quick-xml cut a message into events, and attributes if asked; answers with how many there are.
fn quick_xml_events(message: &[u8], attributes: bool) -> usize {
    let mut reader = quick_xml::Reader::from_reader(message);
    reader.config_mut().check_end_names = false;
    let mut count = 0;
    loop {
        match reader.read_event() {
            Ok(Event::Eof) | Err(_) => return count,
            Ok(Event::Start(tag) | Event::Empty(tag)) if attributes => {
                count += 1 + tag.attributes().with_checks(false).count();
            }
            Ok(_) => count += 1,
        }
    }
}

fn main() -> std::io::Result<()> {
    let folder = std::env::args().nth(1).expect("usage: scan_speed FOLDER");
    let mut paths = Vec::new();
    files(Path::new(&folder), &mut paths)?;
    let mut messages = paths.iter().map(std::fs::read).collect::<Result<Vec<_>, _>>()?;
    let count = messages.len();
    let (mut scanner, mut document, limits) = (Scanner::new(), Document::default(), Limits::default());
    let mut names = Vocabulary::new();
    messages.retain(|message| {
        if scanner.scan(message, &Vocabulary::new(), &limits, ScanOptions::ALL, &mut document).is_err() {
            return false;
        }
        for attribute in &document.attributes {
            let name = String::from_utf8_lossy(attribute.qname.of(message));
            names.intern_local(name.rsplit(':').next().unwrap_or(&name));
        }
        let source = message.as_slice();
        for node in (0..document.nodes.len() as u32).filter(|&n| document.nodes[n as usize].content_start > 0) {
            if document.nodes[node as usize].kind == twigcast_core::document::NodeKind::Element {
                let name = twigcast_core::document::Message { source, document: &document }.qname(node);
                names.intern_local(name.rsplit(':').next().unwrap_or(name));
            }
        }
        true
    });
    let bytes: usize = messages.iter().map(Vec::len).sum();
    println!("{} of {count} messages, {} bytes each", messages.len(), bytes / messages.len().max(1));
    for (label, vocabulary) in [("no name known", &Vocabulary::new()), ("every name known", &names)] {
        for options in [
            ScanOptions { attributes: false, text: false },
            ScanOptions { attributes: true, text: false },
            ScanOptions::ALL,
        ] {
            time(&format!("{label}, {options:?}"), &messages, |message| {
                scanner.scan(message, vocabulary, &limits, options, &mut document).expect("checked before");
                std::hint::black_box(&document);
            });
        }
    }
    for attributes in [false, true] {
        time(&format!("quick-xml, attributes: {attributes}"), &messages, |message| {
            std::hint::black_box(quick_xml_events(message, attributes));
        });
    }
    Ok(())
}
