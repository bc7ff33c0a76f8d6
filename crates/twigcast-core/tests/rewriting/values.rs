//! Tests of comparing values with constants, as texts and as numbers, and of results that several queries share.

use std::collections::BTreeMap;

use twigcast_core::engine::{Engine, Matcher};
use twigcast_core::limits::Limits;

use super::{Random, check, context};

/// Values as they stand in messages: of all lengths around that of cached values, some of them spelt with references.
const VALUES: [&str; 34] = [
    "",
    " ",
    "5",
    " 5",
    "5 ",
    "05",
    "005",
    "5.0",
    "5.",
    ".5",
    "+5",
    "-5",
    "-0",
    "0",
    "1e1",
    "10",
    "é",
    "e\u{301}",
    "&#53;",
    "&#32;5",
    "<![CDATA[5]]>",
    "5<!--c-->",
    "<?p i?>5",
    "1<!--c-->0",
    "12345678",
    "123456789",
    "12345678901234",
    "123456789012345",
    "1234567890123456",
    "000000000000005",
    "0000000000000005",
    "5              ",
    "5               ",
    "日本語日本",
];

/// Constants that queries compare with.
const CONSTANTS: [&str; 22] = [
    "''",
    "' '",
    "'5'",
    "' 5'",
    "'5 '",
    "'05'",
    "'5.0'",
    "'+5'",
    "'1e1'",
    "5",
    "0.5",
    "-5",
    "0",
    "10",
    "'é'",
    "'e\u{301}'",
    "'123456789012345'",
    "'1234567890123456'",
    "1234567890123456",
    "12345678",
    "'日本語日本'",
    "'5              '",
];

fn value(random: &mut Random) -> String {
    match random.below(8) {
        0 => (1000 + random.below(600)).to_string(),
        1 => "long ".repeat(random.below(9) * random.below(9)),
        _ => random.one(&VALUES).to_owned(),
    }
}

fn constant(random: &mut Random) -> String {
    match random.below(8) {
        0 => (1000 + random.below(600)).to_string(),
        1 => format!("'{}'", "long ".repeat(random.below(9))),
        _ => random.one(&CONSTANTS).to_owned(),
    }
}

/// Returns items, the last value of which ends shortly before the message does.
fn message(random: &mut Random, items: usize) -> String {
    let mut xml = "<m>".to_owned();
    for _ in 0..1 + random.below(items) {
        let attribute = value(random);
        let attribute = if attribute.contains('<') { "&#53;" } else { &attribute };
        xml.push_str(&format!("<i k='{attribute}'><a>{}</a><b>{}</b></i>", value(random), value(random)));
    }
    xml.push_str(&format!("<a>{}</a></m>", value(random)));
    xml
}

#[test]
fn values_of_all_spellings_are_compared_as_texts_and_as_numbers() {
    let mut result = 0;
    for seed in 1..13 {
        println!("seed {seed}");
        let random = &mut Random(seed);
        let (mut engine, mut matcher) = (Engine::new(Limits::default()), Matcher::new());
        let mut queries = BTreeMap::new();
        for number in 0..120 {
            let (source, path) =
                (random.one(&["/m", "/m/i", "//i", "/*"]), random.one(&["/a", "/b", "//a", "/*", "/@k", "//@*"]));
            let text = format!("for $v in {source} where $v{path} = {} return <r>{{ $v/a }}</r>", constant(random));
            engine.add(&number.to_string(), &text, &context(), true).expect(&text);
            queries.insert(number.to_string(), text);
        }
        for _ in 0..8 {
            // Sets of bindings take one word or several.
            let items = if random.below(4) == 0 { 150 } else { 6 };
            result += check(&engine, &mut matcher, &queries, &message(random, items), seed);
            // Constants are added and removed, and ids are reused.
            let key = random.below(120).to_string();
            let text = format!("for $v in /m/i where $v/a = {} return <s>{{ $v/b }}</s>", constant(random));
            engine.add(&key, &text, &context(), true).expect(&text);
            queries.insert(key, text);
        }
    }
    assert!(result > 1_000, "{result} deliveries are too few to mean anything");
}

/// Each path is compared with constants of its own, so a matrix of all columns and constants would be nearly empty.
/// Then conditions are looked up by hash.
#[test]
fn values_are_compared_where_there_are_many_paths_and_constants() {
    const PATHS: usize = 300;
    let mut result = 0;
    for seed in 1..4 {
        println!("seed {seed}");
        let random = &mut Random(seed);
        let (mut engine, mut matcher) = (Engine::new(Limits::default()), Matcher::new());
        let mut queries = BTreeMap::new();
        for number in 0..PATHS {
            let source = random.one(&["/m/i", "//i", "/m"]);
            let step = if source == "/m" { "//" } else { "/" };
            let value = if random.below(2) == 0 { format!("{number}") } else { format!("'{number}'") };
            let text =
                format!("for $v in {source} where $v{step}p{number} = {value} return <r>{{ $v//p{number} }}</r>");
            engine.add(&number.to_string(), &text, &context(), true).expect(&text);
            queries.insert(number.to_string(), text);
        }
        for items in [3, 80, 1] {
            let mut xml = "<m>".to_owned();
            for item in 0..items {
                xml.push_str("<i>");
                // The first message has all label paths.
                for number in 0..PATHS {
                    if item > 0 && random.below(60) > 0 {
                        continue;
                    }
                    let value = number + usize::from(random.below(3) == 0);
                    let zero = random.one(&["", "", "0"]);
                    xml.push_str(&format!("<p{number}>{zero}{value}</p{number}>"));
                }
                xml.push_str("</i>");
            }
            xml.push_str("</m>");
            result += check(&engine, &mut matcher, &queries, &xml, seed);
        }
    }
    assert!(result > 1_000, "{result} deliveries are too few to mean anything");
}

/// Groups have few or many queries, share their set of bindings or not, and share constructors or not.
#[test]
fn results_are_shared_by_groups_of_all_sizes() {
    let mut result = 0;
    for seed in 1..5 {
        println!("seed {seed}");
        let random = &mut Random(seed);
        let (mut engine, mut matcher) = (Engine::new(Limits::default()), Matcher::new());
        let mut queries = BTreeMap::new();
        for number in 0..260 {
            // Most queries ask for one value, so its groups are large. Equal paths are spelt differently.
            let asked = random.one(&["1", "1", "1", "2", "3", "4"]);
            let (source, path) = (random.one(&["/m/i", "//i"]), random.one(&["/a", "//a", "/*"]));
            let columns = [random.one(&["/a", "//a", "/b"]), random.one(&["/c", "//c", "/b"])];
            let name = random.one(&["r", "s", "t", "u"]);
            let text = format!(
                "for $v in {source} where $v{path} = {asked} return <{name}>{{ $v{} }}{{ $v{} }}</{name}>",
                columns[0], columns[1]
            );
            engine.add(&number.to_string(), &text, &context(), true).expect(&text);
            queries.insert(number.to_string(), text);
        }
        for _ in 0..6 {
            let value = |random: &mut Random| random.one(&["1", "2", "3", "4", "5"]).to_owned();
            let most = if random.below(3) == 0 { 90 } else { 4 };
            let items: String = (0..1 + random.below(most))
                .map(|_| format!("<i><a>{}</a><b>{}</b><c/></i>", value(random), value(random)))
                .collect();
            result += check(&engine, &mut matcher, &queries, &format!("<m>{items}</m>"), seed);
        }
    }
    assert!(result > 2_000, "{result} deliveries are too few to mean anything");
}
