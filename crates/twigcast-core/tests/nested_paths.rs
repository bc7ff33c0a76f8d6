//! Nested paths, decided from what holds at the shapes below, against the evaluator alone.

mod testing;

use std::collections::BTreeMap;

use twigcast_core::engine::{Engine, Matcher, QueryContext};
use twigcast_core::limits::Limits;

use testing::{Messages, Oracle, Random, matching_keys};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const MESSAGES: Messages = Messages { names: &NAMES, children: (4, 7), ..Messages::EMPTY };

/// Steps with nested paths; one in eight predicates is more than a conjunction.
fn path(random: &mut Random, depth: usize, out: &mut String) {
    for step in 0..1 + random.below(3) {
        if step > 0 {
            out.push_str(["/", "/", "//"][random.below(3)]);
        }
        out.push_str(if random.below(5) == 0 { "*" } else { random.one(&NAMES) });
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

/// Subscriptions come and go and are merged into the bulk, with room to remember all, some and nothing.
#[test]
fn nested_paths_agree_with_the_evaluator_whatever_may_be_remembered() {
    for (seed, cache_bytes_max) in (0..24).zip([64 << 20, 1, 20_000, 60_000].into_iter().cycle()) {
        println!("seed {seed}, cache of {cache_bytes_max} bytes");
        let mut random = Random(seed);
        let mut engine = Engine::new(Limits { cache_bytes_max, ..Limits::default() });
        let (mut matcher, mut oracle) = (Matcher::new(), Oracle::default());
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
            let source = MESSAGES.one(&mut random);
            for _ in 0..2 {
                let expected = oracle.matching_keys(&live, &source);
                let result = matching_keys(&engine, &mut matcher, &source);
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
