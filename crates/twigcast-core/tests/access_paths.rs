//! Queries are looked at only where a value leads to them; they match where the evaluator says so all the same.

use std::collections::{BTreeMap, BTreeSet};

use twigcast_core::document::{Document, Message};
use twigcast_core::engine::{Engine, Matcher, QueryContext};
use twigcast_core::eval::{Context, Evaluator};
use twigcast_core::limits::Limits;
use twigcast_core::query::ast::Expr;
use twigcast_core::query::{self, ParseOptions, Query};
use twigcast_core::scan::{RecordOptions, Scanner};
use twigcast_core::vocabulary::Vocabulary;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    fn one(&mut self, of: &[&'static str]) -> &'static str {
        of[self.below(of.len())]
    }
}

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const TEXTS: [&str; 14] =
    ["", "1", "2", "3.5", "-1", " 2 ", "02", "abc", "abd", "ab", "b", "x abc y", "ABC", "caf\u{e9}"];
const PARTS: [&str; 9] = ["a", "ab", "abc", "b", "c", "x ", "1", "\u{e9}", "zz"];

fn element(random: &mut Random, depth: usize, out: &mut String) {
    let name = random.one(&NAMES);
    *out += &format!("<{name}");
    for attribute in ["x", "y"] {
        if random.below(3) == 0 {
            *out += &format!(" {attribute}='{}'", random.one(&TEXTS));
        }
    }
    *out += ">";
    if random.below(3) > 0 {
        *out += random.one(&TEXTS);
    }
    for _ in 0..if depth > 4 { 0 } else { random.below(4) } {
        element(random, depth + 1, out);
        if random.below(5) == 0 {
            *out += random.one(&TEXTS);
        }
    }
    *out += &format!("</{name}>");
}

fn message(random: &mut Random) -> String {
    let mut out = String::new();
    element(random, 0, &mut out);
    out
}

fn constant(random: &mut Random) -> String {
    match random.below(3) {
        0 => random.one(&["1", "2", "3.5", "0", "-1", "2.0"]).into(),
        _ => format!("'{}'", random.one(&TEXTS)),
    }
}

/// A path that values are compared at.
fn operand(random: &mut Random, depth: usize) -> String {
    match random.below(12) {
        0 => ".".into(),
        1 | 2 => format!("@{}", random.one(&["x", "y"])),
        3 => "text()".into(),
        4..=7 => random.one(&NAMES).into(),
        8 => format!("{}/{}", random.one(&NAMES), random.one(&["a", "b", "@x", "text()", "*"])),
        9 => format!(".//{}", random.one(&NAMES)),
        10 => format!("{}[{}]/{}", random.one(&NAMES), condition(random, depth + 2), random.one(&["b", "@x", "."])),
        _ => random
            .one(&["..", "../@x", "ancestor::*/@y", "following-sibling::b", "*[1]", "b[last()]", "/a/@x", "@*"])
            .into(),
    }
}

fn function(random: &mut Random, depth: usize) -> String {
    let of = operand(random, depth);
    match random.below(10) {
        0 => format!("normalize-space({of})"),
        1 => format!("translate({of}, 'ABC', 'abc')"),
        2 => format!("substring({of}, 1, 2)"),
        3 => format!("substring({of}, string-length({of}) - 1)"),
        4 => format!("string-length({of})"),
        5 => format!("count({of})"),
        6 => format!("number({of})"),
        7 => format!("sum({of})"),
        8 => format!("concat({of}, 'c')"),
        _ => random
            .one(&["local-name()", "name(..)", "string()", "count(ancestor::*)", "number(translate(@x, 'ab', '12'))"])
            .into(),
    }
}

fn condition(random: &mut Random, depth: usize) -> String {
    let simple = depth > 3;
    let op = random.one(&["=", "=", "=", "!=", "<", "<=", ">", ">="]);
    match random.below(if simple { 8 } else { 16 }) {
        0..=2 => format!("{} {op} {}", operand(random, depth), constant(random)),
        3 => format!("{} {op} {}", constant(random), operand(random, depth)),
        4 => format!("{} {op} {}", function(random, depth), constant(random)),
        5 => format!("starts-with({}, '{}')", operand(random, depth), random.one(&PARTS)),
        6 => format!("contains({}, '{}')", operand(random, depth), random.one(&PARTS)),
        7 => {
            let of = operand(random, depth);
            format!("{of} >= {} and {of} < {}", random.below(3), random.below(5))
        }
        8 | 9 => {
            let of = operand(random, depth);
            let list: Vec<_> = (0..2 + random.below(20)).map(|_| format!("{of} = {}", constant(random))).collect();
            format!("({})", list.join(" or "))
        }
        10 => format!("not({})", condition(random, depth + 1)),
        11 => format!("({} or {})", condition(random, depth + 1), condition(random, depth + 1)),
        12 => format!("{} and {}", condition(random, depth + 1), condition(random, depth + 1)),
        13 => format!("contains({}, '{}')", function(random, depth), random.one(&PARTS)),
        14 => random.one(&["1", "last()", "position() > 1", "position() = last()", "*[local-name() = 'b']"]).into(),
        _ => steps(random, depth + 1),
    }
}

fn steps(random: &mut Random, depth: usize) -> String {
    let mut out = String::new();
    for step in 0..=random.below(3) {
        if step > 0 {
            out += random.one(&["/", "/", "//"]);
        }
        out += random.one(&["a", "b", "c", "d", "*", "node()"]);
        while random.below(3) == 0 {
            out += &format!("[{}]", condition(random, depth + 1));
        }
    }
    out
}

fn query(random: &mut Random) -> String {
    let path = |random: &mut Random| format!("{}{}", random.one(&["/", "//", "//"]), steps(random, 0));
    match random.below(20) {
        0 => format!("{} and {}", path(random), path(random)),
        1 => format!("{} or {}", path(random), path(random)),
        2 => format!("{} = {}", path(random), constant(random)),
        3 => format!("contains({}, '{}')", path(random), random.one(&PARTS)),
        4 => format!("count({}) > {}", path(random), random.below(3)),
        5 => format!("{} and not({})", path(random), path(random)),
        6 => format!("normalize-space({}) = {}", path(random), constant(random)),
        7 => random
            .one(&["//@x = 'abc'", "//text() = '2'", "//text()[contains(., 'ab')]", "//@x[. > 1]", "/a = /a/b"])
            .into(),
        _ => path(random),
    }
}

/// Queries by text, parsed for the evaluator once.
struct Oracle {
    vocabulary: Vocabulary,
    exprs: BTreeMap<String, Expr>,
}

impl Oracle {
    fn parse(&mut self, text: &str) {
        let (limits, context) = (Limits::default(), QueryContext::default());
        let options = ParseOptions { namespaces: &context.namespaces, dialect: context.dialect, limits: &limits };
        let parsed = query::parse(text, &options, &mut self.vocabulary);
        let Ok(Query::XPath(expr)) = parsed else { panic!("{text}: {parsed:?}") };
        self.exprs.insert(text.to_owned(), expr);
    }

    fn matching(&self, texts: impl Iterator<Item = String>, source: &str) -> BTreeSet<String> {
        let mut document = Document::default();
        let limits = Limits::default();
        Scanner::new()
            .scan(source.as_bytes(), &self.vocabulary, &limits, RecordOptions::ALL, &mut document)
            .expect(source);
        let message = Message { source: source.as_bytes(), document: &document };
        let evaluator = Evaluator::new(message, &self.vocabulary, &[]);
        texts.filter(|text| evaluator.boolean(&self.exprs[text], Context::DOCUMENT).expect(text)).collect()
    }
}

fn matching(engine: &Engine, matcher: &mut Matcher, source: &str) -> BTreeSet<String> {
    engine.run(matcher, source.as_bytes()).expect(source);
    assert_eq!(engine.failures(matcher), []);
    let mut slots = Vec::new();
    engine.slots(matcher, &mut slots);
    slots.iter().map(|&slot| engine.key(slot).expect("a live slot").to_owned()).collect()
}

fn check(seed: u64, queries: usize, rounds: usize, cache_bytes_max: usize) {
    println!("seed {seed}, {queries} queries");
    let mut random = Random(seed);
    let mut oracle = Oracle { vocabulary: Vocabulary::new(), exprs: BTreeMap::new() };
    let mut engine = Engine::new(Limits { cache_bytes_max, ..Limits::default() });
    let (mut matcher, mut live) = (Matcher::new(), Vec::new());
    for round in 0..rounds {
        for _ in 0..if round == 0 { queries } else { 1 + queries / 20 } {
            let text = query(&mut random);
            oracle.parse(&text);
            engine.add(&text, &text, &QueryContext::default(), true).expect(&text);
            live.push(text);
        }
        for _ in 0..live.len().saturating_sub(queries) {
            let text = live.swap_remove(random.below(live.len()));
            if !live.contains(&text) {
                assert!(engine.remove(&text), "{text}");
            }
        }
        if round % 4 == 3 {
            engine.compact();
        }
        let source = message(&mut random);
        let expected = oracle.matching(live.iter().cloned(), &source);
        let result = matching(&engine, &mut matcher, &source);
        let wrong: Vec<_> = expected.symmetric_difference(&result).collect();
        assert!(wrong.is_empty(), "seed {seed}, round {round}, message {source}: {wrong:#?}");
    }
    live.iter().for_each(|text| _ = engine.remove(text));
    engine.compact();
    let statistics = engine.statistics();
    assert_eq!((statistics["accesses"], statistics["conditions"], statistics["nfa_states"]), (0, 0, 1), "seed {seed}");
}

#[test]
fn a_query_alone() {
    (0..300).for_each(|seed| check(seed, 1, 12, 1 << 26));
}

#[test]
fn a_hundred_queries_that_come_and_go() {
    (1_000..1_012).for_each(|seed| check(seed, 100, 20, 1 << 26));
}

#[test]
fn queries_without_room_for_an_automaton() {
    (2_000..2_004).for_each(|seed| check(seed, 100, 12, 1));
}

#[test]
fn thousands_of_queries_that_come_and_go() {
    (3_000..3_002).for_each(|seed| check(seed, 4_000, 6, 1 << 26));
}
