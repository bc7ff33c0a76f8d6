//! Element values compared by order, few and many at a state, as they come and go, against the evaluator alone.

mod testing;

use std::collections::BTreeMap;

use twigcast_core::engine::{Engine, Matcher, QueryContext};
use twigcast_core::limits::Limits;

use testing::{Messages, Oracle, Random, matching_keys};

const NAMES: [&str; 4] = ["a", "b", "price", "stock"];
/// Numbers as XPath has them, and what looks like one and is none.
const VALUES: [&str; 16] =
    ["1", "2.50", " 3 ", "-4", "-0", "10", "999999999999", ".5", "7.", "", "x", "1e3", "+5", "1 2", "- 1", "NaN"];

const MESSAGES: Messages = Messages {
    names: &NAMES,

    attributes: (&["x"], 75),
    values: &["0", "1", "2"],
    contents: (&VALUES, 70),
    children: (3, 4),
    ..Messages::EMPTY
};

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

fn check(seed: u64, queries: usize, fine: usize, messages: usize, cache_bytes_max: usize) {
    println!("seed {seed}");
    let mut random = Random(seed);
    let mut engine = Engine::new(Limits { cache_bytes_max, ..Limits::default() });
    let (mut matcher, mut oracle) = (Matcher::new(), Oracle::default());
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
            let source = MESSAGES.one(&mut random);
            let (expected, result) =
                (oracle.matching_keys(&live, &source), matching_keys(&engine, &mut matcher, &source));
            let wrong: Vec<_> = expected.symmetric_difference(&result).map(|key| &live[key]).collect();
            assert!(wrong.is_empty(), "seed {seed}: {wrong:#?} on {source}");
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
