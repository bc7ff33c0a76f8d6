//! Routing tables against the plain meaning of their parts: paths matched one by one, all labels gathered.

mod testing;

use std::collections::BTreeMap;

use twigcast_core::document::{Document, Message};
use twigcast_core::engine::routing::{ConjunctionIndex, Targets};
use twigcast_core::engine::{Engine, Matcher, QueryContext};
use twigcast_core::ids::{ConjunctionId, RouteLabel};
use twigcast_core::limits::Limits;
use twigcast_core::scan::{ScanOptions, Scanner};
use twigcast_core::stream::dictionary::Dictionary;
use twigcast_core::stream::encode::{NameEncoding, encode};
use twigcast_core::vocabulary::Vocabulary;

use testing::{Messages, Paths, Random};

const MESSAGES: Messages = Messages {
    names: &["a", "b", "c"],

    attributes: (&["x", "y"], 40),
    values: &["1", "2"],
    contents: (&["v", "w"], 50),
    children: (4, 4),
    ..Messages::EMPTY
};
const PATHS: Paths =
    Paths { starts: &["/", "/", "//"], between: &["/", "/", "//"], tests: &["a", "b", "c", "*"], steps_max: 3 };
const TESTS: [&str; 8] = ["", "", "[@x]", "[@x = 1]", "[@x = 2]", "[@y > 1]", "[. = 'v']", "[contains(., 'v')]"];

/// A path that asks for values or, where it is not to, for structure alone.
fn path(random: &mut Random, asks_for_values: bool) -> String {
    let tests: &[&str] = if asks_for_values { &TESTS } else { &[""] };
    PATHS.with_predicates(random, &mut |random| random.one(tests).to_owned())
}

type Conjunctions = BTreeMap<ConjunctionId, (Vec<String>, Vec<RouteLabel>)>;

fn holds(path: &str, message: &str) -> bool {
    let mut engine = Engine::new(Limits::default());
    engine.add("only", path, &QueryContext::default(), false).expect("a valid path");
    let mut matcher = Matcher::new();
    engine.run(&mut matcher, message.as_bytes()).expect("a well-formed message");
    !matcher.matched().is_empty()
}

fn change(random: &mut Random, asks_for_values: bool, table: &mut ConjunctionIndex, expected: &mut Conjunctions) {
    let existing: Vec<ConjunctionId> = expected.keys().copied().collect();
    let some = |random: &mut Random| existing.get(random.below(existing.len().max(1))).copied();
    let labels: Vec<RouteLabel> = (0..random.below(4)).map(|_| label(random.below(8))).collect();
    match (random.below(4), some(random)) {
        (0, Some(id)) => {
            assert!(table.remove(id));
            expected.remove(&id);
        }
        (1, Some(id)) => {
            assert!(table.set_labels(id, labels.clone()));
            expected.get_mut(&id).expect("a known conjunction").1 = labels;
        }
        _ => {
            let always = random.below(40) == 0;
            let paths: Vec<String> =
                (0..if always { 0 } else { 1 + random.below(3) }).map(|_| path(random, asks_for_values)).collect();
            let texts: Vec<_> = paths.iter().map(|path| (path.as_str(), QueryContext::default())).collect();
            let id = table.add(&texts, labels.clone()).expect("valid paths");
            assert!(expected.insert(id, (paths, labels)).is_none());
        }
    }
}

fn streams(message: &str) -> [(Vec<u8>, Dictionary); 3] {
    let mut document = Document::default();
    let (vocabulary, limits) = (Vocabulary::new(), Limits::default());
    Scanner::new()
        .scan(message.as_bytes(), &vocabulary, &limits, ScanOptions::ALL, &mut document)
        .expect("well-formed");
    let message = Message { source: message.as_bytes(), document: &document };
    let dictionary = Dictionary::new(["a", "x", "c"]).expect("names");
    [
        (encode(message, NameEncoding::InFull), Dictionary::default()),
        (encode(message, NameEncoding::Once), dictionary.clone()),
        (encode(message, NameEncoding::By(&dictionary)), dictionary),
    ]
}

fn label(number: u32) -> RouteLabel {
    RouteLabel::from_u32(number)
}

fn wanted(random: &mut Random) -> Vec<(RouteLabel, u32)> {
    (0..random.below(8)).map(|_| (label(random.below(9)), random.below(5))).collect()
}

#[test]
fn short_cuts_change_no_answer() {
    for seed in 1..=24 {
        println!("seed {seed}");
        let mut random = Random(seed);
        // Of some, the automaton does not fit into the cache.
        let cache_bytes_max = if seed % 6 < 2 { 4 << 10 } else { Limits::default().cache_bytes_max };
        let mut table = ConjunctionIndex::new(Limits { cache_bytes_max, ..Limits::default() });
        let (mut matcher, mut of_streams) = (Matcher::new(), Matcher::new());
        let mut expected = Conjunctions::new();
        for _ in 0..60 {
            for _ in 0..10 {
                change(&mut random, seed % 2 == 1, &mut table, &mut expected);
            }
            let message = MESSAGES.one(&mut random);
            let mut truth: BTreeMap<&str, bool> = BTreeMap::new();
            let mut holding = Vec::new();
            for (id, (paths, _)) in &expected {
                if paths.iter().all(|path| *truth.entry(path).or_insert_with(|| holds(path, &message))) {
                    holding.push(*id);
                }
            }
            let source = message.as_bytes();
            assert_eq!(table.holding(&mut matcher, source).expect("a well-formed message"), holding, "{message}");
            // What is noted of one message is used for the next.
            for _ in 0..3 {
                let requested = wanted(&mut random);
                let reached: Targets = holding
                    .iter()
                    .flat_map(|id| &expected[id].1)
                    .flat_map(|label| requested.iter().filter(move |(requested, _)| requested == label))
                    .fold(0, |all, (_, target)| all | 1 << target);
                let routed = table.route(&mut matcher, source, &requested).expect("a well-formed message");
                assert_eq!(routed, reached, "wanted {requested:?}\n{message}");
                for (stream, dictionary) in streams(&message) {
                    let routed = table.route_stream(&mut of_streams, &stream, &dictionary, &requested);
                    assert_eq!(routed, Ok(reached), "wanted {requested:?}, as a stream\n{message}");
                }
            }
        }
        assert_eq!(table.len(), expected.len());
        for id in expected.into_keys() {
            assert!(table.remove(id));
            assert!(!table.remove(id));
        }
        assert!(table.is_empty());
        assert_eq!((table.label_set_count(), table.engine().statistics()["queries"]), (0, 0));
    }
}

#[test]
fn what_is_known_without_the_message_needs_no_message() {
    let mut table = ConjunctionIndex::new(Limits::default());
    let always = table.add(&[], vec![label(3)]).expect("no path to refuse");
    table.add(&[("/a", QueryContext::default())], vec![label(4)]).expect("a valid path");
    let mut matcher = Matcher::new();
    assert_eq!(table.route(&mut matcher, b"no message", &[(label(3), 1)]), Ok(2));
    assert_eq!(table.route(&mut matcher, b"no message", &[]), Ok(0));
    assert!(table.route(&mut matcher, b"no message", &[(label(3), 1), (label(4), 0)]).is_err());
    assert_eq!(table.route(&mut matcher, b"<a/>", &[(label(3), 1), (label(4), 0)]), Ok(3));
    assert!(table.set_labels(always, Vec::new()));
    assert_eq!(table.route(&mut matcher, b"<b/>", &[(label(3), 1), (label(4), 0)]), Ok(0));
}

#[test]
fn a_refused_path_leaves_nothing_behind() {
    let mut table = ConjunctionIndex::new(Limits::default());
    let paths = [("/a", QueryContext::default()), ("/a[", QueryContext::default())];
    let (index, _) = table.add(&paths, vec![label(1)]).expect_err("the second path is no path");
    assert_eq!(index, 1);
    assert!(table.is_empty());
    assert_eq!(table.engine().statistics()["queries"], 0);
}

/// Not even names, of which each refused path brings new ones.
#[test]
fn names_of_refused_paths_are_let_go() {
    let mut table = ConjunctionIndex::new(Limits::default());
    table.add(&[("/a/b", QueryContext::default())], vec![label(1)]).expect("a valid path");
    for number in 0..150_000 {
        let path = format!("/a/n{number}[");
        table.add(&[(&path, QueryContext::default())], vec![label(1)]).expect_err("no path");
    }
    let existing = table.engine().vocabulary().local_count();
    assert!(existing < 100_000, "{existing} names");
    let targets = table.route(&mut Matcher::new(), b"<a><b/></a>", &[(label(1), 0)]);
    assert_eq!(targets, Ok(1));
}

#[test]
fn what_cannot_be_decided_is_sent() {
    let mut table = ConjunctionIndex::new(Limits { query_visits_max: 3, ..Limits::default() });
    table
        .add(&[("//a[following::a[position() mod @x = 0]/@none]", QueryContext::default())], vec![label(0)])
        .expect("a valid path");
    let message = format!("<a>{}</a>", "<a x='2'>x</a>".repeat(2_000));
    let mut matcher = Matcher::new();
    assert_eq!(table.route(&mut matcher, message.as_bytes(), &[(label(0), 0)]), Ok(1));
    assert_eq!(table.holding(&mut matcher, message.as_bytes()).map(|holding| holding.len()), Ok(1));
}

#[test]
fn a_name_that_begins_within_a_character_is_refused() {
    let mut table = ConjunctionIndex::new(Limits::default());
    table.add(&[("/a/b", QueryContext::default())], vec![label(0)]).expect("a valid path");
    // What is declared is the first half of a letter, the name that follows the other; the second stream's are within an
    // element that is passed over.
    let declaring = [6, 1, 1, 0, 5, 1, 1, 3, 0, 0];
    for (structure, names) in
        [(declaring.to_vec(), "a>xmlns>\u{e9}:b>"), ([&[1, 1], &declaring[..], &[0]].concat(), "c>a>xmlns>\u{e9}:b>")]
    {
        let header = [b'T', b'W', 2, 0, structure.len() as u8, 1, names.len() as u8, 0, 0];
        let stream = [&header[..], &structure, &[0], names.as_bytes()].concat();
        let error = table.route_stream(&mut Matcher::new(), &stream, &Dictionary::default(), &[(label(0), 0)]);
        assert!(error.expect_err("damaged").reason.contains("within a character"));
    }
}

#[test]
fn a_damaged_stream_is_refused_or_routed_somewhere() {
    let mut random = Random(2);
    let mut table = ConjunctionIndex::new(Limits::default());
    for number in 0..40 {
        let path = path(&mut random, false);
        table.add(&[(&path, QueryContext::default())], vec![label(number % 5)]).expect("a valid path");
    }
    table.add(&[("/never", QueryContext::default())], vec![label(5)]).expect("a valid path");
    let expected: Vec<(RouteLabel, u32)> = (0..6).map(|number| (label(number), number)).collect();
    let mut matcher = Matcher::new();
    let mut refused = 0;
    for _ in 0..400 {
        let message = MESSAGES.one(&mut random);
        for (mut stream, dictionary) in streams(&message) {
            let at = random.below(stream.len());
            match random.below(3) {
                0 => stream.truncate(at),
                1 => stream[at] ^= 1 << random.below(8),
                _ => stream.insert(at, random.below(256) as u8),
            }
            match table.route_stream(&mut matcher, &stream, &dictionary, &expected) {
                Ok(targets) => assert_eq!(targets >> 6, 0),
                Err(error) => {
                    refused += 1;
                    assert!(!error.reason.is_empty());
                }
            }
        }
    }
    assert!(refused > 100, "{refused}");
}

#[test]
fn lengths_that_cut_characters_are_refused_or_passed_over() {
    let message =
        "<a xmlns:ä='ü' x='öß' ä:b='é'><b xmlns='ñ' y='ü'>ö</b><!--ß--><ä:c x='1'>é</ä:c><c:a xmlns:c='€'/></a>";
    let tables = [["/a/*", "//b"], ["/a[@x = 'ö']", "//b[. = 'ö']"]].map(|paths| {
        let mut table = ConjunctionIndex::new(Limits::default());
        for (number, path) in (0..).zip([&paths[..], &["/never"]].concat()) {
            table.add(&[(path, QueryContext::default())], vec![label(number)]).expect("a valid path");
        }
        table
    });
    let mut refused = 0;
    for (stream, dictionary) in streams(message) {
        for at in 0..stream.len() {
            for change in [1, 2, 3, 8, 255, 254, 248] {
                let mut damaged = stream.clone();
                damaged[at] = damaged[at].wrapping_add(change);
                for table in &tables {
                    let expected = [0, 1, 2].map(|number| (label(number), number));
                    refused +=
                        usize::from(table.route_stream(&mut Matcher::new(), &damaged, &dictionary, &expected).is_err());
                }
            }
        }
    }
    assert!(refused > 500, "{refused}");
}
