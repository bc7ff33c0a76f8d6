//! What a matcher keeps and needs at times is bounded, however many places queries select. The tests look at the memory of
//! their whole program, so one waits for the other.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

use twigcast_core::engine::{Engine, Matcher, QueryContext};
use twigcast_core::limits::Limits;
use twigcast_core::query::Dialect;
use twigcast_core::rewrite::Payloads;

static ALONE: Mutex<()> = Mutex::new(());

/// The most memory that the program had since `work` began, beyond what it had then, in MiB; 0 where the system does not
/// tell.
fn grown(work: impl FnOnce()) -> usize {
    let most = || {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        kilobytes.trim().strip_suffix(" kB")?.parse::<usize>().ok()
    };
    // What it had before is no concern. Where the system does not forget it, less is found.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let before = most();
    work();
    before.zip(most()).map_or(0, |(before, now)| now.saturating_sub(before) >> 10)
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
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut engine, mut matcher) = (Engine::new(Limits::default()), Matcher::new());
    // Queries of different contexts are different, so that each place is told of each of them.
    let context =
        |number: usize| QueryContext::new(BTreeMap::from([("p".to_owned(), format!("urn:{number}"))]), Dialect::XPath);
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
    let grown = grown(|| {
        // After few at a time there is something that places were told, to go on from.
        for (round, new) in [1, 20, 2_000, 3, 2_000].into_iter().enumerate() {
            for number in 0..new {
                let text = ["//*", "//*//*", "/r//*", "//*/*"][number % 4];
                engine
                    .add(&format!("{round} {number}"), text, &context(10_000 * round + number), false)
                    .expect("a query");
            }
            expected += new;
            assert_eq!(count(&engine), expected, "round {round}");
        }
    });
    assert!(grown < 3 * 64, "{grown} MiB more at times");
}

/// Hundreds of binding paths, each with few bindings on a large message, of one label path and of two: what is kept of them
/// is bounded, and results are what they should be also where there is no room to keep it by node.
#[test]
fn many_binding_paths_on_a_large_message_take_bounded_memory() {
    const NAMES: usize = 300;
    const EACH: usize = 35;
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut engine, mut matcher) = (Engine::new(Limits::default()), Matcher::new());
    let context = QueryContext::default();
    let mut expected = BTreeMap::new();
    for name in 0..NAMES {
        let value = name * 7 % (2 * EACH);
        for (path, holds) in [("/m/s/", value < EACH), ("/m/t/", value >= EACH), ("//", true)] {
            let text = format!("for $v in {path}x{name} where $v/y = {value} return <r>{{ $v/y }}</r>");
            engine.add(&text, &text, &context, false).expect("a query");
            if holds {
                expected.insert(text, format!("<r><y>{value}</y></r>"));
            }
        }
    }
    let mut message = String::from("<m>");
    for (number, part) in ["s", "t"].into_iter().enumerate() {
        write!(message, "<{part}>").expect("room");
        for value in number * EACH..(number + 1) * EACH {
            (0..NAMES).for_each(|name| write!(message, "<x{name}><y>{value}</y></x{name}>").expect("room"));
        }
        write!(message, "</{part}>").expect("room");
    }
    message += "</m>";
    let grown = grown(|| {
        for message in [message.as_str(), "<m><s><x0><y>0</y></x0></s></m>", &message] {
            let mut payloads = Payloads::default();
            engine.run_delivering(&mut matcher, message.as_bytes()).expect("a well-formed message");
            let delivered = engine.deliver(&mut matcher, message.as_bytes(), &mut payloads);
            let actual = delivered.slots.iter().zip(&delivered.numbers).map(|(&slot, &number)| {
                let result = payloads.get(number as usize).expect("no sink took it");
                (engine.key(slot).expect("in use").to_owned(), String::from_utf8(result.to_vec()).expect("UTF-8"))
            });
            let actual: BTreeMap<String, String> = actual.collect();
            if message.len() > 1_000 {
                assert_eq!(actual, expected);
            } else {
                assert_eq!(actual.len(), 2);
            }
        }
    });
    assert!(grown < 2 * 64, "{grown} MiB more at times");
}
