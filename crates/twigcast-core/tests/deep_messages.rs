//! However deep a message is, what is asked of the ancestors of its elements takes work in proportion to the message.

use twigcast_core::engine::{Engine, Matcher, QueryContext};
use twigcast_core::limits::Limits;

/// An element at each level, with what stands before and after the one below it.
fn nested(depth: usize, before: &str, after: &str, innermost: &str) -> String {
    let names = ["a", "b", "c"];
    let mut text = String::new();
    for level in 0..depth {
        text += &format!("<{} n='{}' k='v{}'>{before}", names[level % 3], level % 10, level % 7);
    }
    text += innermost;
    for level in (0..depth).rev() {
        text += &format!("{after}</{}>", names[level % 3]);
    }
    text
}

/// Messages of about as many elements as `depth` says: all on the way down, some on the way up, and many below a chain.
fn messages(depth: usize) -> Vec<String> {
    vec![
        nested(depth, "", "", ""),
        nested(depth / 2, "", "<y n='1'>1</y>", ""),
        nested(depth / 2, "<y n='1'>1</y>", "", ""),
        nested(depth / 2, "", "", &"<y n='1'>1</y>".repeat(depth / 2)),
        nested(depth / 4, "", "<b n='2'><y n='1'>1</y></b>", "<c/>"),
    ]
}

/// Queries that ask for values of ancestors, or verify a path upwards; the last condition of each holds nowhere, so that
/// none is decided before the end.
const QUERIES: [&str; 16] = [
    "//a[@n = 99]//b[@n = 2]",
    "//a[@n = 3]//b[@n = 99]",
    "/a[@n = 0]//b[@n = 99]",
    "/a[@n = 7]//y[. = 1]",
    "/a[@n = 7]//y[@n = 1]",
    "//a[@k = 'v1']//b[@k = 'v99']//y",
    "//a[@n > 20]//b[@n > 1]",
    "//a[not(@k)]//b[@n = 2]",
    "//a[@n = 3][b]/b[@n = 2]//y[@n = 99]",
    "//q[@n = 3]//y[@n = 1]",
    "//a[@n = 3]/q//b[@n = 2]//y[. = 1]",
    "//a[@n = 99][1]//y",
    "//a[contains(@k, 'w')]//b[@n = 2]",
    "/a[contains(@k, 'w')]/b//c//y[@n = 1]",
    "//a[starts-with(@k, 'w')]/b//*[@n = 1]",
    "//c[@n = 1][string-length(@k) = 9]/a/b//y",
];

/// Looks at ancestors for all queries together on each message.
fn looks(depth: usize, queries: &[&str]) -> Vec<u64> {
    let mut engine = Engine::new(Limits { depth_max: 1 << 20, ..Limits::default() });
    for query in queries {
        engine.add(query, query, &QueryContext::default(), false).expect("a valid query");
    }
    let mut matcher = Matcher::new();
    let of = |message: &String| {
        let before = matcher.ancestor_checks();
        engine.run(&mut matcher, message.as_bytes()).expect("a well-formed message");
        assert!(matcher.failures().is_empty(), "{:?}", matcher.failures());
        assert_eq!(engine.match_count(&matcher), 0);
        matcher.ancestor_checks() - before
    };
    messages(depth).iter().map(of).collect()
}

#[test]
fn work_grows_with_the_message_and_not_with_its_depth() {
    let (shallow, deep) = (looks(2_000, &QUERIES), looks(16_000, &QUERIES));
    for (number, (shallow, deep)) in shallow.iter().zip(&deep).enumerate() {
        assert!(*shallow > 0, "message {number}: no ancestor was looked at");
        assert!(*deep < 10 * shallow, "message {number}: {shallow} looks, and {deep} at eight times the size");
    }
    for query in QUERIES {
        let most = looks(16_000, &[query]).into_iter().max().unwrap_or(0);
        assert!(most < 16_000 * 12, "{query}: {most} looks");
    }
}
