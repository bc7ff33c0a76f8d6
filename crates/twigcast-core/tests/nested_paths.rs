//! Nested paths, decided from what holds at the shapes below, against the evaluator alone.

use std::collections::BTreeMap;

use twigcast_core::document::{Document, Message};
use twigcast_core::engine::{Engine, Matcher, QueryContext};
use twigcast_core::eval::{Context, Evaluator};
use twigcast_core::limits::Limits;
use twigcast_core::query::{self, Dialect, ParseOptions, Query};
use twigcast_core::scan::{RecordOptions, Scanner};
use twigcast_core::vocabulary::Vocabulary;

/// SplitMix64, so that a seed means the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }

    fn name<'a>(&mut self) -> &'a str {
        ["a", "b", "c", "d", "e"][self.below(5)]
    }
}

fn element(random: &mut Random, depth: usize, out: &mut String) {
    let name = random.name();
    out.push_str(&format!("<{name}>"));
    for _ in 0..if depth > 6 { 0 } else { random.below(4) } {
        element(random, depth + 1, out);
    }
    out.push_str(&format!("</{name}>"));
}

/// Steps with nested paths; one in eight predicates is more than a conjunction.
fn path(random: &mut Random, depth: usize, out: &mut String) {
    for step in 0..1 + random.below(3) {
        if step > 0 {
            out.push_str(["/", "/", "//"][random.below(3)]);
        }
        out.push_str(if random.below(5) == 0 { "*" } else { random.name() });
        for _ in 0..if depth > 2 { 0 } else { random.below(2) } {
            let mut nested = [".//", "", "", "./"][random.below(4)].to_owned();
            path(random, depth + 1, &mut nested);
            out.push_str(&match random.below(24) {
                0 => format!("[not({nested})]"),
                1 => format!("[{nested} or a]"),
                2 => format!("[b | {nested}]"),
                3 => format!("[a and {nested}]"),
                4 => format!("[boolean({nested})][true()]"),
                _ => format!("[{nested}]"),
            });
        }
    }
}

fn query(random: &mut Random) -> String {
    let mut out = ["/", "//"][random.below(2)].to_owned();
    path(random, 0, &mut out);
    out
}

fn oracle(text: &str, source: &str) -> bool {
    let limits = Limits::default();
    let mut vocabulary = Vocabulary::new();
    let namespaces = BTreeMap::new();
    let options = ParseOptions { namespaces: &namespaces, dialect: Dialect::XPath, limits: &limits };
    let Query::XPath(expr) = query::parse(text, &options, &mut vocabulary).expect(text) else { panic!("{text}") };
    let mut document = Document::default();
    Scanner::new().scan(source.as_bytes(), &vocabulary, &limits, RecordOptions::ALL, &mut document).expect(source);
    let message = Message { source: source.as_bytes(), document: &document };
    Evaluator::new(message, &vocabulary, &[]).boolean(&expr, Context::DOCUMENT).expect(text)
}

/// Subscriptions come and go and are merged into the bulk, with room to remember all, some and nothing.
#[test]
fn nested_paths_agree_with_the_evaluator_whatever_may_be_remembered() {
    for (seed, cache_bytes_max) in (0..24).zip([64 << 20, 1, 20_000, 60_000].into_iter().cycle()) {
        println!("seed {seed}, cache of {cache_bytes_max} bytes");
        let mut random = Random(seed);
        let mut engine = Engine::new(Limits { cache_bytes_max, ..Limits::default() });
        let mut matcher = Matcher::new();
        let mut live: BTreeMap<String, String> = BTreeMap::new();
        for round in 0..24 {
            for _ in 0..if round == 0 { 200 } else { random.below(20) } {
                let key = random.below(250).to_string();
                if random.below(4) == 0 {
                    assert_eq!(engine.remove(&key), live.remove(&key).is_some());
                } else {
                    let text = query(&mut random);
                    engine.add(&key, &text, &QueryContext::default(), true).expect("a valid query");
                    live.insert(key, text);
                }
            }
            if random.below(5) == 0 {
                engine.compact();
            }
            let mut source = String::new();
            element(&mut random, 0, &mut source);
            for _ in 0..2 {
                engine.run(&mut matcher, source.as_bytes()).expect("a well-formed message");
                assert_eq!(engine.failures(&matcher), []);
                let mut slots = Vec::new();
                engine.slots(&matcher, &mut slots);
                let mut result: Vec<&str> = slots.iter().filter_map(|&slot| engine.key(slot)).collect();
                result.sort_unstable();
                let expected: Vec<&str> =
                    live.iter().filter(|(_, text)| oracle(text, &source)).map(|(key, _)| &**key).collect();
                assert_eq!(result, expected, "seed {seed}, round {round}, message {source}, queries {live:?}");
            }
        }
        for key in live.keys() {
            assert!(engine.remove(key));
        }
        engine.compact();
        assert_eq!(engine.statistics()["branches"], 0, "branches go with the queries that they are part of");
    }
}
