//! Element values compared by order, few and many at a state, as they come and go, against the evaluator alone.

use std::collections::BTreeMap;

use twigcast_core::document::{Document, Message};
use twigcast_core::engine::{Engine, Matcher, QueryContext};
use twigcast_core::eval::{Context, Evaluator};
use twigcast_core::limits::Limits;
use twigcast_core::query::{self, Dialect, ParseOptions, Query};
use twigcast_core::scan::{RecordOptions, Scanner};
use twigcast_core::vocabulary::Vocabulary;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

const NAMES: [&str; 4] = ["a", "b", "price", "stock"];
/// Numbers as XPath has them, and what looks like one and is none.
const VALUES: [&str; 16] =
    ["1", "2.50", " 3 ", "-4", "-0", "10", "999999999999", ".5", "7.", "", "x", "1e3", "+5", "1 2", "- 1", "NaN"];

fn element(random: &mut Random, depth: usize, out: &mut String) {
    let name = random.one(&NAMES);
    out.push_str(&format!("<{name} x='{}'>{}", random.below(3), random.one(&VALUES)));
    for _ in 0..if depth > 3 { 0 } else { random.below(3) } {
        element(random, depth + 1, out);
        out.push_str(random.one(&["", "", " ", "5"]));
    }
    out.push_str(&format!("</{name}>"));
}

fn bound(random: &mut Random, fine: usize) -> String {
    match random.below(8) {
        0 => format!("'{}'", random.one(&VALUES)),
        1 => format!("-{}", random.below(5)),
        _ => format!("{}", random.below(12 * fine) as f64 / fine as f64),
    }
}

fn query(random: &mut Random, fine: usize) -> String {
    let (name, other, operator) = (random.one(&NAMES), random.one(&NAMES), random.one(&["<", "<=", ">", ">=", "!="]));
    let bound = bound(random, fine);
    match random.below(8) {
        0 => format!("//{name}[. {operator} {bound}]"),
        1 => format!("//{name}[{other} {operator} {bound}]"),
        2 => format!("//{name}[{bound} {operator} {other}]/a"),
        3 => format!("/*/{name}[@x=1][. {operator} {bound}]"),
        4 => format!("//{name}[@x > 0]/{other}[. {operator} {bound}]"),
        5 => format!("//{name}[. {operator} {bound}]//{other}[@x=2]"),
        6 => format!("//{name}[not(. {operator} {bound})]"),
        _ => format!("//{name}[. > 0 and . {operator} {bound}]"),
    }
}

fn oracle(text: &str, source: &str) -> bool {
    let limits = Limits::default();
    let mut vocabulary = Vocabulary::new();
    let namespaces = BTreeMap::new();
    let options = ParseOptions { namespaces: &namespaces, dialect: Dialect::XPath, limits: &limits };
    let Ok(Query::XPath(expr)) = query::parse(text, &options, &mut vocabulary) else { panic!("{text}") };
    let mut document = Document::default();
    Scanner::default()
        .scan(source.as_bytes(), &vocabulary, &limits, RecordOptions::ALL, &mut document)
        .expect("well-formed");
    let message = Message { source: source.as_bytes(), document: &document };
    Evaluator::new(message, &vocabulary, &[]).boolean(&expr, Context::DOCUMENT).expect("within the limits")
}

fn check(seed: u64, queries: usize, fine: usize, messages: usize, cache_bytes_max: usize) {
    println!("seed {seed}");
    let mut random = Random(seed);
    let mut engine = Engine::new(Limits { cache_bytes_max, ..Limits::default() });
    let mut matcher = Matcher::new();
    let mut live: BTreeMap<String, String> = BTreeMap::new();
    for round in 0..3 {
        for key in (0..queries).map(|key| key.to_string()) {
            match random.below(3) {
                0 if round > 0 => assert_eq!(engine.remove(&key), live.remove(&key).is_some()),
                1 if round > 0 => {}
                _ => {
                    let text = query(&mut random, fine);
                    engine.add(&key, &text, &QueryContext::default(), true).expect("a valid query");
                    live.insert(key, text);
                }
            }
        }
        for _ in 0..messages {
            let mut source = String::new();
            element(&mut random, 0, &mut source);
            engine.run(&mut matcher, source.as_bytes()).expect("a well-formed message");
            let mut slots = Vec::new();
            engine.slots(&matcher, &mut slots);
            let mut matched: Vec<&str> = slots.iter().filter_map(|&slot| engine.key(slot)).collect();
            matched.sort_unstable();
            for (key, text) in &live {
                let result = matched.binary_search(&key.as_str()).is_ok();
                assert_eq!(result, oracle(text, &source), "seed {seed}: {text} on {source}");
            }
        }
    }
}

#[test]
fn few_bounds() {
    for seed in 1..25 {
        check(seed, 40, 1, 20, [1 << 26, 1, 20_000][seed as usize % 3]);
    }
}

/// More bounds than most tables have keys.
#[test]
fn many_bounds() {
    (100..102).for_each(|seed| check(seed, 4_000, 100, 2, 1 << 26));
}

/// What nested elements hold is read for each of them; so that is bounded, and queries that would have more of it read
/// fail, while others are decided.
#[test]
fn numbers_in_many_nested_elements_are_not_read_for_each() {
    let queries = [
        ("//a[. < 5]", "failed"),
        ("//a[. = -5]", "failed"),
        ("//a[@x = 1][. < 5]", "failed"),
        ("//a[@x = 1][. = -5]", "failed"),
        ("//a[. > 5]", "matched"),
        ("//a[@x = 1]", "matched"),
        ("//b[. = 7]", "matched"),
        ("//c[. = 7]", ""),
    ];
    let mut engine = Engine::new(Limits { query_visits_max: 1_000, ..Limits::default() });
    for (query, _) in queries {
        engine.add(query, query, &QueryContext::default(), false).expect(query);
    }
    let (open, digits, close) = ("<a x='1'>1".repeat(1_500), "0".repeat(200_000), "</a>".repeat(1_500));
    let deep = format!("<r><b>7</b>{open}{digits}{close}</r>");
    let flat = format!("<r><b>7</b>{}{}</r>", "<a x='1'>6</a>".repeat(20_000), " ".repeat(200_000));
    let mut matcher = Matcher::new();
    for (xml, is_deep) in [(&flat, false), (&deep, true), (&flat, false), (&deep, true)] {
        engine.run(&mut matcher, xml.as_bytes()).expect("well-formed");
        let failed: Vec<_> = engine.failures(&matcher).into_iter().map(|(slot, _)| engine.key(slot)).collect();
        let mut slots = Vec::new();
        engine.slots(&matcher, &mut slots);
        let matched: Vec<_> = slots.into_iter().map(|slot| engine.key(slot)).collect();
        for (query, expected) in queries {
            assert_eq!(matched.contains(&Some(query)), expected == "matched", "{query}");
            assert_eq!(failed.contains(&Some(query)), is_deep && expected == "failed", "{query}");
        }
    }
}
