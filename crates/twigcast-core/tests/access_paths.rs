//! Queries are looked at only where a value leads to them; they match where the evaluator says so all the same.

mod testing;

use twigcast_core::engine::{Engine, Matcher, QueryContext};
use twigcast_core::limits::Limits;

use testing::{Messages, Oracle, Paths, Random, matching_keys};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const TEXTS: [&str; 14] =
    ["", "1", "2", "3.5", "-1", " 2 ", "02", "abc", "abd", "ab", "b", "x abc y", "ABC", "caf\u{e9}"];
const MESSAGES: Messages = Messages {
    names: &NAMES,

    attributes: (&["x", "y"], 33),
    values: &TEXTS,
    contents: (&TEXTS, 40),
    children: (4, 5),
    ..Messages::EMPTY
};
const PARTS: [&str; 9] = ["a", "ab", "abc", "b", "c", "x ", "1", "\u{e9}", "zz"];

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
    let tests = ["a", "b", "c", "d", "*", "node()"];
    let paths = Paths { starts: &[""], between: &["/", "/", "//"], tests: &tests, steps_max: 3 };
    paths.with_predicates(random, &mut |random| {
        let mut predicates = String::new();
        while random.below(3) == 0 {
            predicates += &format!("[{}]", condition(random, depth + 1));
        }
        predicates
    })
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

/// A query about the root element that compares what children with a certain value have.
fn query_of_chosen_children(random: &mut Random) -> String {
    let key = random.one(&["@x", "@y", "b", ".", "text()"]);
    let above = random.one(&["", "", "a/", "b/"]);
    let child = format!("{above}{}[{key} = '{}']", random.one(&NAMES), random.one(&TEXTS));
    let operand = match random.below(9) {
        0 => format!("{child} div {}", random.one(&["2", "-4", "0"])),
        1 => format!("-{child}"),
        2 => format!("number({child}) * 2 + 1"),
        3 => format!("3 - {child}/@x"),
        4 => format!("floor({child}/*)"),
        5 => format!("sum({child})"),
        6 => format!("{child}[2]"),
        7 => format!("{child}/{}", random.one(&["@x", "c", "..", "following-sibling::b"])),
        _ => child,
    };
    let op = random.one(&["=", "=", "!=", "<", ">", ">="]);
    match random.below(4) {
        0 => format!("/*[not({operand} {op} {})]", constant(random)),
        1 => format!("/*[{operand} >= {} and {operand} < {}]", random.below(3), random.below(5)),
        _ => format!("/*[{operand} {op} {}]", constant(random)),
    }
}

fn check(seed: u64, queries: usize, rounds: usize, cache_bytes_max: usize) {
    check_with(query, seed, queries, rounds, cache_bytes_max);
}

fn check_with(query: fn(&mut Random) -> String, seed: u64, queries: usize, rounds: usize, cache_bytes_max: usize) {
    println!("seed {seed}, {queries} queries");
    let mut random = Random(seed);
    let mut oracle = Oracle::default();
    let mut engine = Engine::new(Limits { cache_bytes_max, ..Limits::default() });
    let (mut matcher, mut live) = (Matcher::new(), Vec::new());
    for round in 0..rounds {
        for _ in 0..if round == 0 { queries } else { 1 + queries / 20 } {
            let text = query(&mut random);
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
        let source = MESSAGES.one(&mut random);
        let expected = oracle.matching(live.iter().map(String::as_str), &source);
        let result = matching_keys(&engine, &mut matcher, &source);
        let result = result.iter().map(String::as_str).collect();
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
fn queries_over_message_limit_for_an_automaton() {
    (2_000..2_004).for_each(|seed| check(seed, 100, 12, 1));
}

#[test]
fn thousands_of_queries_that_come_and_go() {
    (3_000..3_002).for_each(|seed| check(seed, 4_000, 6, 1 << 26));
}

#[test]
fn thousands_of_queries_about_children_that_have_a_value() {
    (4_000..4_003).for_each(|seed| check_with(query_of_chosen_children, seed, 3_000, 12, 1 << 26));
}
