//! The shared structures against the evaluator alone, on random messages and queries, in every configuration.

mod testing;

use std::collections::{BTreeMap, BTreeSet};

use twigcast_core::engine::{AddError, Engine, Matcher, QueryContext};
use twigcast_core::limits::Limits;
use twigcast_core::snapshot;

use testing::{Messages, Oracle, Paths, Random, matching_keys};

const NAMES: [&str; 7] = ["a", "b", "c", "d", "p:a", "p:b", "unheard-of"];
const QUERY_NAMES: [&str; 9] = ["a", "b", "c", "d", "p:a", "p:b", "*", "p:*", "*:a"];
const ATTRIBUTES: [&str; 3] = ["x", "y", "p:x"];
const VALUES: [&str; 6] = ["1", "2", "02", "ab", "", " 2 "];

const MESSAGES: Messages = Messages {
    names: &NAMES,
    declarations: " xmlns:p='urn:p'",
    attributes: (&ATTRIBUTES, 30),
    values: &VALUES,
    contents: (&["1", "2", "02", "ab", " ", " 2 ", "<!--note-->", "<?go now?>", "<![CDATA[ab]]>", "&#50;"], 30),
    children: (4, 6),
    ..Messages::EMPTY
};

fn path(random: &mut Random, depth: usize, start: &str) -> String {
    let paths = Paths { starts: &[start], between: &["/", "/", "//"], tests: &QUERY_NAMES, steps_max: 3 };
    let mut out = paths.with_predicates(random, &mut |random| {
        let mut predicates = String::new();
        while random.chance(25) {
            predicates += &format!("[{}]", predicate(random, depth + 1));
        }
        predicates
    });
    if random.chance(10) {
        out.push_str(random.one(&[
            "/@x",
            "/text()",
            "//@p:x",
            "/..",
            "/following-sibling::b",
            "/descendant::a[2]",
            "//text()",
        ]));
    }
    out
}

fn predicate(random: &mut Random, depth: usize) -> String {
    let value = random.one(&VALUES);
    let operator = random.one(&["=", "!=", "<", "<=", ">", ">=", "=", "="]);
    let attribute = random.one(&ATTRIBUTES);
    let constant = match random.below(3) {
        0 => format!("{}", random.below(3)),
        _ => format!("'{value}'"),
    };
    match random.below(if depth > 2 { 8 } else { 15 }) {
        0 => format!("@{attribute}"),
        1..=2 => format!("@{attribute} {operator} {constant}"),
        3 => format!("text() {operator} {constant}"),
        4 => format!(". {operator} {constant}"),
        5 => format!("{}", 1 + random.below(3)),
        6 => format!("position() {operator} 2"),
        7 => format!("contains(@{attribute}, '{value}')"),
        8 => format!("{} and {}", predicate(random, depth + 1), predicate(random, depth + 1)),
        9 => format!("{} or {}", predicate(random, depth + 1), predicate(random, depth + 1)),
        10 => format!("not({})", predicate(random, depth + 1)),
        11 => format!("{} {operator} {constant}", path(random, depth + 1, "")),
        12 => format!("count({}) > 1", path(random, depth + 1, "")),
        13 => path(random, depth + 1, ".//"),
        _ => path(random, depth + 1, ""),
    }
}

fn query(random: &mut Random) -> String {
    let absolute = |random: &mut Random| {
        let start = random.one(&["/", "//", "//"]);
        path(random, 0, start)
    };
    match random.below(16) {
        14 => random
            .one(&["//text()", "//text()[. = '2']", "//@x[. = 1]", "//text()[2]", "/descendant::text()[2]"])
            .into(),
        15 => "//*[text()[1] = 'ab']".into(),
        0 => format!("{} | {}", absolute(random), absolute(random)),
        1 => format!("{} and {}", absolute(random), absolute(random)),
        2 => format!("not({})", absolute(random)),
        3 => format!("count({}) = {}", absolute(random), random.below(3)),
        4 => format!("{} = '{}'", absolute(random), random.one(&VALUES)),
        5 => format!("starts-with(string({}), 'a')", absolute(random)),
        _ => absolute(random),
    }
}

fn context() -> QueryContext {
    QueryContext { namespaces: [("p".to_owned(), "urn:p".to_owned())].into(), ..QueryContext::default() }
}

fn engine_of(queries: &[String], limits: Limits) -> Engine {
    let mut engine = Engine::new(limits);
    for (number, text) in queries.iter().enumerate() {
        engine.add(&number.to_string(), text, &context(), false).expect(text);
    }
    engine
}

#[test]
fn shared_structures_agree_with_the_evaluator_in_every_configuration() {
    for seed in 0..60 {
        let mut random = Random(seed);
        let queries: Vec<String> = (0..120).map(|_| query(&mut random)).collect();
        let messages: Vec<String> = (0..12).map(|_| MESSAGES.one(&mut random)).collect();
        let ample = engine_of(&queries, Limits::default());
        // Too small for a single state: the NFA runs. Small: the caches overflow again and again.
        let none = engine_of(&queries, Limits { cache_bytes_max: 1, ..Limits::default() });
        let little = engine_of(&queries, Limits { cache_bytes_max: 30_000, ..Limits::default() });
        let (mut first, mut second, mut third) = (Matcher::new(), Matcher::new(), Matcher::new());
        let live = (0..).zip(&queries).map(|(number, text): (u32, _)| (number.to_string(), text.clone())).collect();
        let mut oracle = Oracle::new(context());
        for source in messages.iter().chain(&messages) {
            let expected = oracle.matching_keys(&live, source);
            for (name, engine, matcher) in
                [("ample", &ample, &mut first), ("none", &none, &mut second), ("little", &little, &mut third)]
            {
                let result = matching_keys(engine, matcher, source);
                let wrong: Vec<&String> = expected.symmetric_difference(&result).map(|key| &live[key]).collect();
                assert!(wrong.is_empty(), "seed {seed}, cache {name}, message {source}: {wrong:?}");
            }
        }
    }
}

#[test]
fn coming_and_going_subscriptions_equal_a_fresh_build() {
    for seed in 100..130 {
        let mut random = Random(seed);
        let queries: Vec<String> = (0..80).map(|_| query(&mut random)).collect();
        let mut engine = Engine::new(Limits::default());
        let mut matcher = Matcher::new();
        let (mut live, mut oracle) = (BTreeMap::new(), Oracle::new(context()));
        for round in 0..60 {
            for _ in 0..random.below(12) {
                let key = random.below(60).to_string();
                let text = &queries[random.below(queries.len())];
                match random.below(3) {
                    0 => assert_eq!(engine.remove(&key), live.remove(&key).is_some()),
                    1 => {
                        engine.add(&key, text, &context(), true).expect(text);
                        live.insert(key, text.clone());
                    }
                    _ => match engine.add(&key, text, &context(), false) {
                        Ok(_) => assert!(live.insert(key, text.clone()).is_none()),
                        Err(error) => assert!(error == AddError::DuplicateKey && live.contains_key(&key)),
                    },
                }
            }
            assert_eq!(engine.len(), live.len());
            let source = MESSAGES.one(&mut random);
            let expected = oracle.matching_keys(&live, &source);
            let result = matching_keys(&engine, &mut matcher, &source);
            assert_eq!(result, expected, "seed {seed}, round {round}, message {source}, live {live:?}");
        }
    }
}

#[test]
fn a_matcher_handed_from_engine_to_engine_starts_afresh() {
    let first = engine_of(&["//a".to_owned(), "//b[c]".to_owned()], Limits::default());
    let second = engine_of(&["//c[@x='1']".to_owned()], Limits::default());
    let mut matcher = Matcher::new();
    for _ in 0..2 {
        assert_eq!(matching_keys(&first, &mut matcher, "<a><b><c x='1'/></b></a>").len(), 2);
        assert_eq!(matching_keys(&second, &mut matcher, "<a><b><c x='1'/></b></a>").len(), 1);
    }
}

#[test]
fn removals_shrink_the_automaton_and_keep_the_rest() {
    let mut engine = Engine::new(Limits::default());
    let mut matcher = Matcher::new();
    for number in 0..4_000 {
        engine.add(&number.to_string(), &format!("/a/n{number}/b[@x='{number}']"), &context(), false).expect("a path");
    }
    let source = "<a><n3999><b x='3999'/></n3999><n0><b x='0'/></n0></a>";
    assert_eq!(matching_keys(&engine, &mut matcher, source).len(), 2);
    let before = engine.statistics()["nfa_states"];
    for number in 0..3_900 {
        assert!(engine.remove(&number.to_string()));
    }
    assert!(engine.statistics()["nfa_states"] < before / 2);
    assert!(engine.remove("3998"));
    assert_eq!(matching_keys(&engine, &mut matcher, source), BTreeSet::from(["3999".to_owned()]));
}

#[test]
fn many_values_on_one_path_wait_in_one_table() {
    let mut random = Random(11);
    let mut engine = Engine::new(Limits::default());
    let mut matcher = Matcher::new();
    let (mut live, mut oracle) = (BTreeMap::new(), Oracle::new(context()));
    for round in 0..60 {
        for _ in 0..random.below(400) {
            let number = random.below(9000);
            let key = number.to_string();
            if random.chance(40) {
                assert_eq!(engine.remove(&key), live.remove(&key).is_some());
            } else {
                let text = match random.below(3) {
                    0 => format!("//b[c = '{}']", number % 5000),
                    1 => format!("//a//c[@x = '{}']", number % 5000),
                    _ => format!("/a/b[@x = {}]/c", number % 5000),
                };
                engine.add(&key, &text, &context(), true).expect("a query");
                live.insert(key, text);
            }
        }
        let value = random.below(5000);
        let source =
            format!("<a><b x='{value}'><c x='{value}'>{value}</c></b><b><c>{}</c></b></a>", random.below(5000));
        let expected = oracle.matching_keys(&live, &source);
        assert_eq!(matching_keys(&engine, &mut matcher, &source), expected, "round {round}, message {source}");
    }
    assert!(engine.statistics()["crowded_states"] > 0);
    for key in live.keys() {
        assert!(engine.remove(key));
    }
    engine.compact();
    let statistics = engine.statistics();
    assert_eq!((statistics["nfa_states"], statistics["triggers"], statistics["crowded_states"]), (1, 0, 0));
}

#[test]
fn snapshots_come_back_whole_or_not_at_all() {
    let mut random = Random(7);
    let queries: Vec<String> = (0..50).map(|_| query(&mut random)).collect();
    let engine = engine_of(&queries, Limits::default());
    let folder = std::env::temp_dir().join(format!("twigcast-snapshot-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    let path = folder.join("subscriptions");
    snapshot::save(&engine, &path).expect("a snapshot");
    let loaded = snapshot::load(&path, Limits::default()).expect("the same snapshot");
    let all = |engine: &Engine| {
        engine
            .subscriptions()
            .map(|one| (one.key.to_owned(), one.text.into_owned(), one.context.clone(), one.group.to_owned()))
            .collect::<Vec<_>>()
    };
    assert_eq!(all(&loaded), all(&engine));
    let whole = std::fs::read(&path).expect("the file");
    let damaged = folder.join("damaged");
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 0x20;
        std::fs::write(&damaged, &changed).expect("a damaged file");
        assert!(snapshot::load(&damaged, Limits::default()).is_err(), "byte {at} changed");
        std::fs::write(&damaged, &whole[..at]).expect("a cut file");
        assert!(snapshot::load(&damaged, Limits::default()).is_err(), "cut at {at}");
    }
    assert_eq!(std::fs::read_dir(&folder).expect("the folder").count(), 2, "no temporary file stays behind");
    std::fs::remove_dir_all(&folder).expect("the test's own folder");
}

/// A query whose kind the bulk, the recent layer and the crowded tables each treat in their own way.
fn varied_query(random: &mut Random) -> String {
    let number = random.below(3000);
    match random.below(8) {
        0 | 1 => format!("/a/b[@x = '{number}']"),
        2 => format!("//c[@x = '{number}' and @y = '{}']", random.below(3)),
        3 => format!("//b[c = '{number}']"),
        4 => format!("for $m in //b where $m/@x = '{number}' return $m"),
        5 => format!("//a[b[@y]]/c[@x = '{number}' or d]"),
        6 => format!("//n{}[a[b] and c]", random.below(40)),
        _ => query(random),
    }
}

/// A message in which some of the values of [`varied_query`] occur beside the rest.
fn varied_message(random: &mut Random) -> String {
    let mut out = String::from("<a xmlns:p='urn:p'>");
    for _ in 0..12 {
        let (value, other) = (random.below(3000), random.below(3000));
        out.push_str(&format!("<b x='{value}' y='{}'><c x='{other}' y='1'>{value}</c></b>", random.below(3)));
        out.push_str(&format!("<n{0}><a><b/></a><c x='{other}'/></n{0}>", random.below(40)));
    }
    MESSAGES.append(random, 1, &mut out);
    out + "</a>"
}

/// Long enough that the recent layer is merged into the bulk several times, with matchers that come by at different
/// times, in caches that hold everything, overflow, and hold nothing.
#[test]
fn merging_the_layers_again_and_again_equals_a_fresh_build() {
    for (seed, cache_bytes_max) in [(900, 64 << 20), (901, 60_000), (902, 1)] {
        let limits = Limits { cache_bytes_max, ..Limits::default() };
        let mut random = Random(seed);
        let mut engine = Engine::new(limits.clone());
        let mut matchers = [Matcher::new(), Matcher::new(), Matcher::new()];
        let mut live = std::collections::BTreeMap::new();
        let (mut merges, mut unmerged) = (0, 0);
        for round in 0..40 {
            for _ in 0..if round == 0 { 6000 } else { random.below(900) } {
                let key = random.below(9000).to_string();
                if round > 0 && random.chance(45) {
                    assert_eq!(engine.remove(&key), live.remove(&key).is_some());
                } else {
                    let text = varied_query(&mut random);
                    engine.add(&key, &text, &context(), true).expect(&text);
                    live.insert(key, text);
                }
            }
            let waiting = engine.statistics()["recent_queries"] + engine.statistics()["dead_queries"];
            merges += usize::from(waiting < unmerged);
            unmerged = waiting;
            let source = varied_message(&mut random);
            let mut fresh = Engine::new(Limits::default());
            for (key, text) in &live {
                fresh.add(key, text, &context(), false).expect(text);
            }
            let expected = matching_keys(&fresh, &mut Matcher::new(), &source);
            for (number, matcher) in matchers.iter_mut().enumerate().filter(|(number, _)| round % (1 + 4 * number) == 0)
            {
                let result = matching_keys(&engine, matcher, &source);
                let wrong: Vec<_> = expected.symmetric_difference(&result).map(|key| (key, live.get(key))).collect();
                assert!(wrong.is_empty(), "seed {seed}, round {round}, matcher {number}, {source}: {wrong:?}");
            }
        }
        assert!(merges > 2, "seed {seed}: merged {merges} times");
    }
}
