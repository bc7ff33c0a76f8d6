//! What it takes to learn of many queries at once is bounded by what a matcher may keep, however many places each of them
//! selects. The only test of its program, since it looks at the memory of all of it.

use std::collections::BTreeMap;
use std::fmt::Write;

use twigcast_core::engine::{Engine, Matcher, QueryContext};
use twigcast_core::limits::Limits;
use twigcast_core::query::Dialect;

/// The most memory that the program ever had, in bytes; `None` where the system does not tell.
fn memory_max() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(kilobytes.trim().strip_suffix(" kB")?.parse::<usize>().ok()? << 10)
}

/// A message of `fan` to the power of three label paths.
fn wide_message(fan: usize) -> String {
    let mut message = "<r>".to_owned();
    for a in 0..fan {
        write!(message, "<a{a}>").expect("room");
        for b in 0..fan {
            write!(message, "<b{b}>").expect("room");
            (0..fan).for_each(|c| write!(message, "<c{c}/>").expect("room"));
            write!(message, "</b{b}>").expect("room");
        }
        write!(message, "</a{a}>").expect("room");
    }
    message + "</r>"
}

#[test]
fn many_new_queries_that_select_nearly_everything_take_bounded_memory() {
    let Some(_) = memory_max() else {
        println!("skipped: the system does not tell how much memory a program has");
        return;
    };
    let (mut engine, mut matcher) = (Engine::new(Limits::default()), Matcher::new());
    let context = |number: usize| QueryContext {
        // Queries of different contexts are different, so that each place is told of each of them.
        namespaces: BTreeMap::from([("p".to_owned(), format!("urn:{number}"))]),
        dialect: Dialect::XPath,
    };
    let bulk = (0..30 * 30 * 30).map(|number| format!("/r/a{}/b{}/c{}", number / 900, number / 30 % 30, number % 30));
    // So many that what comes is not merged with them.
    bulk.for_each(|text| _ = engine.add(&text, &text, &QueryContext::default(), false).expect("a query"));
    let message = wide_message(30);
    let mut count = |engine: &Engine| {
        engine.run(&mut matcher, message.as_bytes()).expect("a well-formed message");
        engine.match_count(&matcher)
    };
    let old = count(&engine);
    assert_eq!(old, 30 * 30 * 30);
    let mut expected = old;
    let before = memory_max();
    // After few at a time there is something that places were told, to go on from.
    for (round, new) in [1, 20, 2_000, 3, 2_000].into_iter().enumerate() {
        for number in 0..new {
            let text = ["//*", "//*//*", "/r//*", "//*/*"][number % 4];
            engine.add(&format!("{round} {number}"), text, &context(10_000 * round + number), false).expect("a query");
        }
        expected += new;
        assert_eq!(count(&engine), expected, "round {round}");
    }
    let grown = memory_max().zip(before).map_or(0, |(now, before)| now - before);
    assert!(grown < 3 * Limits::default().cache_bytes_max, "{} MB more at times", grown >> 20);
}
