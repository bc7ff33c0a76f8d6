//! A population that changes at random all the time: it holds what was left in it, answers like one that was made
//! afresh, and answers given before stay what they were.

mod testing;

use std::collections::BTreeMap;

use twigcast_core::engine::{Answer, Engine, Matcher, QueryContext};
use twigcast_core::limits::Limits;
use twigcast_core::query::Dialect;

use testing::{Paths, Random};

const MESSAGES: [&str; 4] = [
    "<a><b><c/></b><b/></a>",
    "<a xmlns='urn:x'><b xmlns=''><c/></b><c n='1'/></a>",
    "<p:a xmlns:p='urn:y'><b><p:c/><c>1</c></b></p:a>",
    "<b><a><a><b n='1'/></a></a></b>",
];

fn contexts() -> Vec<QueryContext> {
    let with = |pairs: &[(&str, &str)], dialect| {
        let namespaces = pairs.iter().map(|&(prefix, uri)| (prefix.to_owned(), uri.to_owned()));
        QueryContext::new(namespaces.collect(), dialect)
    };
    vec![
        with(&[], Dialect::XPath),
        with(&[("p", "urn:x"), ("q", "urn:y")], Dialect::XPath),
        with(&[("", "urn:x"), ("p", "urn:y"), ("q", "urn:y")], Dialect::XPath),
        with(&[], Dialect::Legacy),
    ]
}

/// A path in one of several spellings, sometimes with a condition.
fn query(random: &mut Random) -> String {
    let separators = ["/", "//", "/", " / ", "/child::"];
    let paths = Paths { starts: &separators, between: &separators, tests: &["a", "b", "c", "*"], steps_max: 3 };
    let text = paths.one(random);
    match random.below(8) {
        0 => text + "[@n]",
        1 => text + "[. = 1]",
        2 => text + " | //c",
        _ => text,
    }
}

fn keys(engine: &Engine, matcher: &mut Matcher, message: &str) -> (Vec<String>, Answer) {
    engine.run(matcher, message.as_bytes()).expect("a well-formed message");
    let answer = engine.answer(matcher);
    let mut slots = Vec::new();
    engine.slots(matcher, &mut slots);
    assert_eq!(answer.slots(), slots);
    assert_eq!((answer.len(), engine.match_count(matcher)), (slots.len(), slots.len()));
    (keys_of(&answer), answer)
}

fn keys_of(answer: &Answer) -> Vec<String> {
    let slots = answer.slots();
    assert!(slots.iter().all(|&slot| answer.has(slot)));
    let mut keys: Vec<_> = slots.iter().filter_map(|&slot| answer.key(slot)).map(str::to_owned).collect();
    assert_eq!(keys.len(), slots.len());
    keys.sort();
    keys
}

#[test]
fn a_population_that_changes_answers_like_one_made_afresh() {
    for seed in 1_u64..7 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let contexts = contexts();
        let (mut engine, mut matcher) = (Engine::new(Limits::default()), Matcher::new());
        let mut expected: BTreeMap<String, (String, QueryContext)> = BTreeMap::new();
        let mut before: Vec<(Vec<String>, Answer)> = Vec::new();
        for round in 0..1_500 {
            let key = format!("key {}", random.below(150));
            if random.below(3) == 0 {
                assert_eq!(engine.remove(&key), expected.remove(&key).is_some());
            } else {
                let (mut text, mut context) = (query(&mut random), &contexts[random.below(contexts.len())]);
                if random.below(3) == 0 {
                    // The same text in the first context, so that queries are shared.
                    (text, context) = ((random.one(&["/a/b", "//c", "/a//*"])).to_owned(), &contexts[0]);
                }
                engine.add(&key, &text, context, true).expect("a valid query");
                expected.insert(key, (text, context.clone()));
            }
            if random.below(150) == 0 {
                engine.compact();
            }
            if random.below(300) == 0 {
                engine.collect_vocabulary();
            }
            if round % 10 != 0 {
                continue;
            }
            let held: BTreeMap<_, _> = engine
                .subscriptions()
                .map(|one| (one.key.to_owned(), (one.text.into_owned(), one.context.clone())))
                .collect();
            assert_eq!(held, expected);
            let mut fresh = Engine::new(Limits::default());
            for (key, (text, context)) in &expected {
                fresh.add(key, text, context, false).expect("a valid query");
            }
            assert!(engine.statistics()["queries"] >= fresh.statistics()["queries"]);
            let message = MESSAGES[random.below(MESSAGES.len())];
            let (result, answer) = keys(&engine, &mut matcher, message);
            assert_eq!(result, keys(&fresh, &mut Matcher::new(), message).0, "{message}");
            before.push((result, answer));
            let (result, answer) = &before[random.below(before.len())];
            assert_eq!(&keys_of(answer), result, "an answer stays what it was");
        }
    }
}

/// Equal texts share one query, also after removals and merges; contexts that nobody uses go.
#[test]
fn what_is_gone_leaves_nothing_behind() {
    let (mut engine, mut matcher) = (Engine::new(Limits::default()), Matcher::new());
    for round in 0..3 {
        for number in 0..2_000 {
            let namespaces = BTreeMap::from([("p".to_owned(), format!("urn:{}", number % 50))]);
            let context = QueryContext::new(namespaces, Dialect::XPath);
            let text = format!("/p:a/b{}", number % 20);
            engine.add(&format!("{number}"), &text, &context, false).expect("a valid query");
        }
        assert_eq!(engine.statistics()["queries"], 100);
        engine.run(&mut matcher, b"<a/>").expect("a well-formed message");
        (0..2_000).for_each(|number| assert!(engine.remove(&format!("{number}"))));
        engine.compact();
        assert_eq!((engine.len(), engine.statistics()["queries"], engine.statistics()["nfa_states"]), (0, 0, 1));
        assert!(engine.statistics()["contexts"] <= 1, "round {round}");
    }
}

/// Queries with names that were never there before come and go, some of them refused, while others stay: what is kept of
/// names is bounded, and those that stay answer as ever.
#[test]
fn names_that_nobody_mentions_any_more_are_let_go() {
    let (mut engine, mut matcher) = (Engine::new(Limits::default()), Matcher::new());
    let context = QueryContext::default();
    let stay = [
        ("path", "/a/b"),
        ("spelled", " /a / b "),
        ("value", "//b[@n = 1]"),
        ("nested", "/a[b/c]"),
        ("text", "//c[. = 'x']"),
        ("never", "//b[@n = 2]"),
        ("rewritten", "for $x in /a/b return <r>{ $x/c }</r>"),
    ];
    for (key, text) in stay {
        engine.add(key, text, &context, false).expect("a valid query");
    }
    let message = "<a><b n='1'><c>x</c></b></a>";
    let expected = ["nested", "path", "rewritten", "spelled", "text", "value"];
    let mut names_max = 0;
    for number in 0..120_000 {
        let text = match number % 4 {
            0 => format!("/a{number}//b{number}"),
            1 => format!("//a{number}[@n{number} = 1]"),
            2 => format!("/a[b{number}/c{number}]"),
            _ => format!("//a{number}[b{number}"),
        };
        assert_eq!(engine.add("new", &text, &context, false).is_ok(), number % 4 != 3);
        engine.remove("new");
        names_max = names_max.max(engine.vocabulary().local_count());
        if number % 1_000 == 0 {
            let (mut result, answer) = keys(&engine, &mut matcher, message);
            result.sort_unstable();
            assert_eq!((result, answer.len()), (expected.map(str::to_owned).to_vec(), expected.len()), "{number}");
        }
    }
    assert!(names_max < 70_000, "{names_max}");
    let held: Vec<(String, String)> =
        engine.subscriptions().map(|one| (one.key.to_owned(), one.text.into_owned())).collect();
    assert_eq!(held, stay.map(|(key, text)| (key.to_owned(), text.to_owned())));
}

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// A message whose elements are nested at random, some in a namespace, some with an attribute.
fn message(random: &mut Random) -> String {
    let mut text = "<r xmlns:p='urn:x'>".to_owned();
    let mut open = Vec::new();
    for _ in 0..2 + random.below(60) {
        let name = random.one(&NAMES);
        let name = if random.below(6) == 0 { format!("p:{name}") } else { name.to_owned() };
        text += &if random.below(4) == 0 { format!("<{name} n='1'>") } else { format!("<{name}>") };
        open.push(name);
        for _ in 0..random.below(4) {
            if let Some(name) = open.pop() {
                text += &format!("</{name}>");
            }
        }
    }
    open.iter().rev().for_each(|name| text += &format!("</{name}>"));
    text + "</r>"
}

fn path_query(random: &mut Random) -> String {
    let paths = Paths {
        starts: &["/r/", "/r/", "/r//", "/*/", "/*//", "//"],
        between: &["/", "/", "//"],
        tests: &["a", "b", "c", "d", "e", "f", "*", "p:a", "p:*", "*:b"],
        steps_max: 4,
    };
    let text = paths.one(random);
    match random.below(12) {
        0 => text + "[@n]",
        1 => text + "[@n = 1]",
        2 => text + "[a]",
        3 => text + "[b/c or d]",
        _ => text,
    }
}

/// The names that queries are made of.
fn context() -> QueryContext {
    let namespaces = BTreeMap::from([("p".to_owned(), "urn:x".to_owned())]);
    QueryContext::new(namespaces, Dialect::XPath)
}

/// An engine with so many paths, and these by key.
fn with_paths(random: &mut Random, count: usize, cache_bytes_max: usize) -> (Engine, BTreeMap<String, String>) {
    let mut engine = Engine::new(Limits { cache_bytes_max, ..Limits::default() });
    let paths: BTreeMap<String, String> =
        (0..count).map(|number| (format!("first {number}"), path_query(random))).collect();
    for (key, text) in &paths {
        engine.add(key, text, &context(), false).expect("a valid query");
    }
    (engine, paths)
}

/// Many queries come and go at once while many messages are known: whether messages lead the automata along, or it is
/// found out for all label paths at once what the new queries say there, before the next message or right after the change,
/// answers are those of a population made afresh; and also with little memory, where all is forgotten now and then.
#[test]
fn after_many_changes_all_messages_are_answered_like_afresh() {
    let mut prefetches = 0;
    for seed in 1_u64..25 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let context = context();
        let cache_bytes_max = random.one(&[1 << 26, 1 << 26, 1 << 18, 1 << 15]);
        let count = random.one(&[0, 20, 300]);
        let (mut engine, mut expected) = with_paths(&mut random, count, cache_bytes_max);
        let mut matcher = Matcher::new();
        let mut messages: Vec<String> = (0..30).map(|_| message(&mut random)).collect();
        for round in 0..12 {
            let mut fresh = Engine::new(Limits::default());
            for (key, text) in &expected {
                fresh.add(key, text, &context, false).expect("a valid query");
            }
            let mut afresh = Matcher::new();
            let some = if round % 4 == 1 { 3 } else { messages.len() };
            for message in &messages[..some] {
                let (result, _) = keys(&engine, &mut matcher, message);
                assert_eq!(result, keys(&fresh, &mut afresh, message).0, "round {round}: {message}");
            }
            messages[random.below(30)] = message(&mut random);
            for _ in 0..random.one(&[1, 10, 120]) {
                let key = format!("key {}", random.below(400));
                if random.below(3) == 0 {
                    assert_eq!(engine.remove(&key), expected.remove(&key).is_some());
                } else {
                    let text = path_query(&mut random);
                    engine.add(&key, &text, &context, true).expect("a valid query");
                    expected.insert(key, text);
                }
            }
            if random.below(10) == 0 {
                engine.compact();
            }
            if random.below(2) == 0 {
                engine.follow(&mut matcher);
            }
        }
        prefetches += matcher.prefetches();
    }
    assert!(prefetches > 50, "{prefetches}");
}

/// What is found out ahead for all places stays within the memory allowed: new queries that ask something of every
/// element are kept once and not with each place, and where places differ it ends in time.
#[test]
fn what_every_element_is_asked_is_not_kept_with_each_place() {
    const NAMES: usize = 1_500;
    let context = QueryContext::new(BTreeMap::new(), Dialect::XPath);
    let parts: String = (0..NAMES).map(|n| format!("<n{n}><x a='{}' b='1'/></n{n}>", n % 7)).collect();
    let message = format!("<r>{parts}</r>");
    let everywhere = |n: usize| format!("//*[@a = '{n}']");
    let branches = |n: usize| format!("//*[b{n}/c]");
    let positions = |n: usize| format!("/r/n{n}[x/@b]");
    let (same, different) = (0..200, 0..NAMES / 2);
    let kinds: [(Vec<String>, usize); 3] = [
        (same.clone().map(everywhere).collect(), 1 << 20),
        (same.clone().map(branches).collect(), 1 << 20),
        (same.map(everywhere).chain(different.map(positions)).collect(), 6 << 20),
    ];
    for (queries, grown_max) in &kinds {
        let limits = Limits { cache_bytes_max: 8 << 20, ..Limits::default() };
        let (mut engine, mut matcher) = (Engine::new(limits), Matcher::new());
        for n in 0..NAMES {
            engine.add(&format!("first {n}"), &format!("/r/n{n}/x"), &context, false).expect("a valid query");
        }
        assert_eq!(keys(&engine, &mut matcher, &message).0.len(), NAMES);
        engine.compact();
        keys(&engine, &mut matcher, &message);
        let before = matcher.cache_bytes();
        for (number, text) in queries.iter().enumerate() {
            engine.add(&format!("then {number}"), text, &context, false).expect("a valid query");
        }
        let result = keys(&engine, &mut matcher, &message).0;
        assert_eq!((matcher.prefetches(), matcher.overflows), (1, 0), "{}", queries[0]);
        let grown = matcher.cache_bytes() - before;
        assert!(grown < *grown_max, "{grown} bytes more than {before}: {}", queries[0]);
        let mut afresh = Engine::new(Limits::default());
        for (number, text) in queries.iter().enumerate() {
            afresh.add(&format!("then {number}"), text, &context, false).expect("a valid query");
        }
        let expected = keys(&afresh, &mut Matcher::new(), &message).0;
        assert_eq!(result.len(), NAMES + expected.len());
        assert_eq!(result.into_iter().filter(|key| key.starts_with("then")).collect::<Vec<_>>(), expected);
    }
}

/// More changes than there are editions, between messages: the pairs are made anew in time.
#[test]
fn a_thousand_changes_with_a_message_after_each() {
    let (mut engine, mut matcher) = (Engine::new(Limits::default()), Matcher::new());
    let context = QueryContext::default();
    engine.add("first", "//b", &context, false).expect("a valid query");
    for number in 0..1_000 {
        let text = ["/a/b", "/a/b/c", "//c", "/b"][number % 4];
        engine.add("new", text, &context, true).expect("a valid query");
        let expected = if number % 4 == 3 { vec!["first"] } else { vec!["first", "new"] };
        assert_eq!(keys(&engine, &mut matcher, MESSAGES[0]).0, expected, "change {number}");
    }
}

/// Paths come, most of the time in small numbers, and go, while all messages are known: what was learnt of paths that came
/// before stays. Seldom, when it is worth it, all is found out anew.
#[test]
fn what_was_learnt_of_paths_that_came_lately_stays() {
    for seed in 1_u64..25 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let context = context();
        // With little memory, places cannot be told of all that is new at once.
        let cache_bytes_max = random.one(&[1 << 26, 1 << 26, 1 << 18, 1 << 16]);
        // Of few queries, many label paths lead to the same states.
        let count = random.one(&[4, 20, 500]);
        let (mut engine, mut expected) = with_paths(&mut random, count, cache_bytes_max);
        let mut matcher = Matcher::new();
        let mut messages: Vec<String> = (0..20).map(|_| message(&mut random)).collect();
        // Until all is known, and settled.
        let passes = 1 + random.below(40);
        (0..passes).for_each(|_| messages.iter().for_each(|message| drop(keys(&engine, &mut matcher, message))));
        let with_conditions = random.below(3) == 0;
        let brings_new = random.below(2) == 0;
        for round in 0..40 {
            if brings_new {
                messages[random.below(20)] = message(&mut random);
            }
            for _ in 0..random.one(&[1, 1, 3, 30, 200]) {
                let key = format!("key {}", random.below(300));
                if random.below(4) == 0 {
                    assert_eq!(engine.remove(&key), expected.remove(&key).is_some());
                    continue;
                }
                let mut text = path_query(&mut random);
                while !with_conditions && text.contains('[') {
                    text = path_query(&mut random);
                }
                engine.add(&key, &text, &context, true).expect("a valid query");
                expected.insert(key, text);
            }
            if random.below(2) == 0 {
                engine.follow(&mut matcher);
            }
            let mut fresh = Engine::new(Limits::default());
            for (key, text) in &expected {
                fresh.add(key, text, &context, false).expect("a valid query");
            }
            let mut afresh = Matcher::new();
            for _ in 0..random.one(&[1, 5, 20]) {
                let message = &messages[random.below(messages.len())];
                let (result, _) = keys(&engine, &mut matcher, message);
                assert_eq!(result, keys(&fresh, &mut afresh, message).0, "round {round}: {message}");
            }
        }
        if cache_bytes_max == 1 << 26 && count == 500 && !with_conditions && !brings_new {
            assert!(matcher.prefetches() < 10, "{}", matcher.prefetches());
        }
    }
}
