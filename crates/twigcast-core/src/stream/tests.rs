use super::decode::{CheckLevel, DecodeOptions, Decoder};
use super::dictionary::{Dictionary, DictionaryError};
use super::encode::{NameEncoding, encode};
use super::text::{TextTooLong, text};
use crate::document::{Document, Message};
use crate::error::MessageError;
use crate::limits::Limits;
use crate::scan::{ScanOptions, Scanner};
use crate::vocabulary::Vocabulary;

const MESSAGES: [&str; 9] = [
    "<a/>",
    "<?xml version='1.0'?><!--c--><?p i?><a b='1'>x<b/>y</a><!-- d -->",
    "<a xmlns='urn:x' p:q='1' xmlns:p='urn:y' r='\"'><p:a>t</p:a>\n<b xmlns=''/></a>",
    "<a>x &amp; y<![CDATA[<z>&]]>w &#x41;</a>",
    "<a b='&lt;\t&#10;' c=\"it's\">\r\n ]] ></a>",
    "<\u{e4}\u{f6} \u{fc}='\u{df}'>\u{20ac}\u{10348}</\u{e4}\u{f6}>",
    "<a><a><a><b/><b/></a></a><c/></a>",
    "<a xml:lang='de'><?pi?>mixed<!---->content<b>in</b>the<c/>middle</a>",
    "<a><![CDATA[]]><b><![CDATA[x]]></b></a>",
];

fn scanned(source: &str) -> Document {
    let mut document = Document::default();
    Scanner::new()
        .scan(source.as_bytes(), &Vocabulary::new(), &Limits::default(), ScanOptions::ALL, &mut document)
        .expect("well-formed");
    document
}

fn decoded(stream: &[u8], dictionary: &Dictionary) -> Result<(Vec<u8>, Document), MessageError> {
    let mut decoder = Decoder::new();
    // One message before, so that nothing of it may show.
    let before =
        encode(Message { source: b"<b p='1'>x</b>", document: &scanned("<b p='1'>x</b>") }, NameEncoding::Once);
    let mut document = Document::default();
    let (vocabulary, limits) = (Vocabulary::new(), Limits::default());
    let reading = DecodeOptions {
        dictionary,
        vocabulary: &vocabulary,
        identity: 0,
        limits: &limits,
        record: ScanOptions::ALL,
        checks: CheckLevel::All,
    };
    decoder.decode(&before, reading, &mut document).expect("a message");
    decoder.decode(stream, reading, &mut document)?;
    Ok((decoder.source().to_vec(), document))
}

fn dictionary() -> Dictionary {
    Dictionary::new(["a", "b", "xmlns:p", "p:q"]).expect("names")
}

fn streams(source: &str) -> [(Vec<u8>, Dictionary); 3] {
    let document = scanned(source);
    let message = Message { source: source.as_bytes(), document: &document };
    [
        (encode(message, NameEncoding::InFull), Dictionary::default()),
        (encode(message, NameEncoding::Once), Dictionary::default()),
        (encode(message, NameEncoding::By(&dictionary())), dictionary()),
    ]
}

#[test]
fn what_comes_back_is_the_message() {
    for source in MESSAGES {
        let document = scanned(source);
        // CDATA sections are the one thing that a stream writes in another way.
        let expected = text(Message { source: source.as_bytes(), document: &document }, usize::MAX).expect("fits");
        let expected = String::from_utf8(expected).expect("UTF-8");
        let expected = expected.replace("<![CDATA[<z>&]]>", "&lt;z&gt;&amp;").replace("<![CDATA[x]]>", "x");
        for (stream, dictionary) in streams(source) {
            let (strings, decoded) = decoded(&stream, &dictionary).unwrap_or_else(|e| panic!("{source}: {e}"));
            let message = Message { source: &strings, document: &decoded };
            let back = text(message, usize::MAX).expect("fits");
            assert_eq!(String::from_utf8_lossy(&back), expected);
            assert_eq!(encode(message, NameEncoding::Once), streams(&expected)[1].0, "{source}");
            assert_eq!(decoded.nodes.len(), document.nodes.len(), "{source}");
        }
    }
}

#[test]
fn names_are_shorter_by_number() {
    let source = "<a><b/><b/><b/><longer/><longer/></a>";
    let [in_full, once, by] = streams(source).map(|(stream, _)| stream.len());
    assert!(once < in_full && by < once + 8 + 1, "{in_full} {once} {by}");
}

#[test]
fn any_cut_and_any_changed_byte_is_refused_or_still_a_message() {
    for source in MESSAGES {
        for (stream, dictionary) in streams(source) {
            for end in 0..stream.len() {
                assert!(decoded(&stream[..end], &dictionary).is_err(), "{source} cut at {end}");
            }
            for at in 0..stream.len() {
                for bit in 0..8 {
                    let mut changed = stream.clone();
                    changed[at] ^= 1 << bit;
                    if let Ok((strings, document)) = decoded(&changed, &dictionary) {
                        let message = Message { source: &strings, document: &document };
                        let text = text(message, usize::MAX).expect("fits");
                        let text = String::from_utf8(text).expect("UTF-8");
                        // What was taken has to be a message: the scanner is the judge.
                        assert_eq!(scanned(&text).nodes.len(), document.nodes.len(), "{source}: {text}");
                    }
                }
            }
        }
    }
}

#[test]
fn another_dictionary_or_version_is_named() {
    let [_, (once, _), (by, own)] = streams("<a/>");
    let other = Dictionary::new(["b", "a"]).expect("names");
    let reason = decoded(&by, &other).expect_err("another dictionary").reason;
    assert!(reason.contains(&format!("{:016x}", own.id())), "{reason}");
    let (strings, document) = decoded(&once, &other).expect("was written without a dictionary");
    assert_eq!(text(Message { source: &strings, document: &document }, 99).expect("fits"), b"<a/>");
    let mut newer = by.clone();
    newer[2] = 9;
    assert!(decoded(&newer, &own).expect_err("version").reason.contains("version 9"));
}

/// Names whose dictionaries have one id.
const OF_ONE_ID: [&str; 2] = ["aXyHrkNg0DlZ7GwcvB3yUXACj", "aQSFDMmYB6kNvjphnJ61r1Xfd"];

#[test]
fn dictionaries_made_to_have_one_id_are_not_mixed_up() {
    let dictionaries = OF_ONE_ID.map(|name| Dictionary::new([name, "b"]).expect("names"));
    assert_eq!(dictionaries[0].id(), dictionaries[1].id());
    let (vocabulary, limits) = (Vocabulary::new(), Limits::default());
    let mut decoder = Decoder::new();
    let mut document = Document::default();
    for turn in [0, 1, 0, 1, 1] {
        let (dictionary, source) = (&dictionaries[turn], format!("<{}/>", OF_ONE_ID[turn]));
        let message = Message { source: source.as_bytes(), document: &scanned(&source) };
        let stream = encode(message, NameEncoding::By(dictionary));
        let reading = DecodeOptions {
            dictionary,
            vocabulary: &vocabulary,
            identity: 0,
            limits: &limits,
            record: ScanOptions::ALL,
            checks: CheckLevel::All,
        };
        decoder.decode(&stream, reading, &mut document).expect("a message");
        let back = text(Message { source: decoder.source(), document: &document }, usize::MAX).expect("fits");
        assert_eq!(String::from_utf8_lossy(&back), source);
    }
}

#[test]
fn what_both_ends_know_is_no_part_of_the_message() {
    let names: Vec<String> = (0..1_000).map(|number| format!("name{number}")).collect();
    let large = Dictionary::new(names.iter().map(String::as_str)).expect("names");
    let source = format!("<name7>{}</name7>", "x".repeat(80));
    let document = scanned(&source);
    let stream = encode(Message { source: source.as_bytes(), document: &document }, NameEncoding::By(&large));
    let vocabulary = Vocabulary::new();
    for (more, is_taken) in [(0, true), (-1, false)] {
        let message_bytes_max = stream.len().checked_add_signed(more).expect("a few bytes");
        let limits = Limits { message_bytes_max, ..Limits::default() };
        let (dictionary, identity, options, checks) = (&large, 0, ScanOptions::ALL, CheckLevel::All);
        let reading =
            DecodeOptions { dictionary, vocabulary: &vocabulary, identity, limits: &limits, record: options, checks };
        let verdict = Decoder::new().decode(&stream, reading, &mut Document::default());
        assert_eq!(verdict.is_ok(), is_taken, "{verdict:?}");
    }
}

#[test]
fn a_text_may_not_outgrow_its_limit() {
    let name = "n".repeat(1000);
    let source = format!("<a>{}</a>", format!("<{name}/>").repeat(1000));
    let [_, (stream, dictionary), _] = streams(&source);
    assert!(stream.len() < 4000);
    let (strings, document) = decoded(&stream, &dictionary).expect("a message");
    let message = Message { source: &strings, document: &document };
    assert!(matches!(text(message, 10_000), Err(TextTooLong(bytes)) if bytes < 20_000));
}

#[test]
fn dictionaries_refuse_what_is_no_name() {
    assert!(matches!(Dictionary::new(["a", "1"]), Err(DictionaryError::NotAName(name)) if name == "1"));
    assert!(matches!(Dictionary::new(["a", "b c"]), Err(DictionaryError::NotAName(_))));
    assert!(matches!(Dictionary::new(["a", "a"]), Err(DictionaryError::Twice(_))));
    assert!(matches!(Dictionary::new([""]), Err(DictionaryError::NotAName(_))));
    assert_eq!(Dictionary::new(["a"]).expect("names").id(), Dictionary::new(["a"]).expect("names").id());
}
