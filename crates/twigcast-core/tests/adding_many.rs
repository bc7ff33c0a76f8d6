//! Adding many subscriptions at once is adding each.

mod testing;

use std::collections::BTreeMap;

use twigcast_core::engine::{BulkReport, Engine, Matcher, QueryContext};
use twigcast_core::limits::Limits;
use twigcast_core::query::Dialect;

use testing::{Paths, Random};

const MESSAGES: [&str; 3] = [
    "<a><b><c/></b><b/></a>",
    "<p:a xmlns:p='urn:x'><b n='1'><p:c/><c>1</c></b></p:a>",
    "<b><a><a><b n='1'/></a></a></b>",
];

const PATHS: Paths = Paths {
    starts: &["/", "//", "/", " / "],
    between: &["/", "//", "/", " / "],
    tests: &["a", "b", "c", "*", "p:a", "q:b"],
    steps_max: 4,
};

/// A path, often one that came before, sometimes with a condition or spelled in an odd way; sometimes none at all.
fn query(random: &mut Random) -> String {
    let text = PATHS.one(random);
    match random.below(10) {
        0 => text + "[@n = 1]",
        1 => text + "[b]",
        2 => text + "[",
        3 => "/unknown:a".to_owned(),
        _ => text,
    }
}

/// All that can be told of an engine.
fn told(engine: &Engine) -> (Vec<(String, String)>, BTreeMap<&'static str, usize>) {
    let held = engine.subscriptions().map(|one| (one.key.to_owned(), one.text.into_owned())).collect();
    let mut statistics = engine.statistics();
    // What is kept in reserve for more may differ.
    statistics.retain(|name, _| !name.ends_with("_bytes"));
    (held, statistics)
}

fn keys(engine: &Engine, matcher: &mut Matcher, message: &str) -> Vec<String> {
    engine.run(matcher, message.as_bytes()).expect("a well-formed message");
    let answer = engine.answer(matcher);
    answer.slots().iter().filter_map(|&slot| answer.key(slot)).map(str::to_owned).collect()
}

#[test]
fn adding_many_is_adding_each() {
    for seed in 1_u64..25 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let namespaces = [("p", "urn:x"), ("q", "urn:x")].map(|(prefix, uri)| (prefix.to_owned(), uri.to_owned()));
        let contexts = [
            QueryContext::new(namespaces.into(), Dialect::XPath),
            QueryContext::new([("p".to_owned(), "urn:y".to_owned())].into(), Dialect::Legacy),
        ];
        let (mut at_once, mut one_by_one) = (Engine::new(Limits::default()), Engine::new(Limits::default()));
        let (mut matcher, mut other) = (Matcher::new(), Matcher::new());
        let mut refusals = 0;
        for _ in 0..20 {
            let context = &contexts[random.below(2)];
            let replace = random.below(2) == 0;
            let pairs: Vec<(String, String)> =
                (0..random.below(200)).map(|_| (random.below(400).to_string(), query(&mut random))).collect();
            let report = at_once.add_many(&pairs, context, replace);
            let mut expected = BulkReport::default();
            for (index, (key, text)) in pairs.iter().enumerate() {
                match one_by_one.add(key, text, context, replace) {
                    Ok(warning) => expected.warnings.extend(warning.map(|warning| (index, warning))),
                    Err(error) => expected.refused.push((index, error)),
                }
            }
            assert_eq!(report, expected);
            refusals += report.refused.len();
            assert_eq!(told(&at_once), told(&one_by_one));
            match random.below(3) {
                0 => {
                    at_once.compact();
                    one_by_one.compact();
                }
                1 => {
                    let message = MESSAGES[random.below(MESSAGES.len())];
                    assert_eq!(keys(&at_once, &mut matcher, message), keys(&one_by_one, &mut other, message));
                }
                _ => {}
            }
        }
        assert!(refusals > 100, "{refusals} refusals");
    }
}

/// Between two subscriptions of those given at once, names are numbered anew, or what came is merged into the bulk: what
/// was read ahead is read again.
#[test]
fn names_may_be_let_go_and_queries_merged_in_between() {
    let (mut engine, mut matcher) = (Engine::new(Limits::default()), Matcher::new());
    let context = QueryContext::default();
    engine.add("stays", "/a/b", &context, false).expect("a valid query");
    assert_eq!(keys(&engine, &mut matcher, MESSAGES[0]), ["stays"]);
    let path = |number: usize| (0..20).map(|step| format!("/n{}", number * 20 + step)).collect::<String>();
    let pairs: Vec<(String, String)> = (0..7_000).map(|number| (format!("k{}", number % 50), path(number))).collect();
    for pairs in pairs.chunks(50) {
        assert_eq!(engine.add_many(pairs, &context, true), BulkReport::default());
        for (key, text) in pairs {
            let slot = engine.slot_of(key).expect("it was added");
            assert_eq!(&engine.query_of(slot).expect("it has a query").0, text);
        }
    }
    assert!(engine.vocabulary().local_count() < 80_000, "names are let go");
    assert_eq!(keys(&engine, &mut matcher, MESSAGES[0]), ["stays"]);
}

/// Queries of one form mean what their own namespaces say, also where the place of a context that is gone is taken by another.
#[test]
fn forms_are_those_of_their_context() {
    let (mut engine, mut matcher) = (Engine::new(Limits::default()), Matcher::new());
    for round in 0..12 {
        let uri = format!("urn:{round}");
        let namespaces = [("p".to_owned(), uri.clone())].into_iter().collect();
        let context = QueryContext::new(namespaces, Dialect::XPath);
        for number in 0..5 {
            let query = format!("//p:a[p:b = 'v{number}' or p:b = 'w{number}'][@k > {number}]");
            engine.add(&format!("q{number}"), &query, &context, false).expect("a valid query");
        }
        for (namespace, expected) in [(&*uri, 1), ("urn:other", 0)] {
            let message = format!("<a xmlns='{namespace}' k='4'><b>w3</b></a>");
            engine.run(&mut matcher, message.as_bytes()).expect("a well-formed message");
            assert_eq!(engine.match_count(&matcher), expected, "{message}");
        }
        (0..5).for_each(|number| assert!(engine.remove(&format!("q{number}"))));
    }
}
