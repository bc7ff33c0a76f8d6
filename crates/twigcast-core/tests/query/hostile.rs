//! No text, however hostile, makes the parser panic, overflow the stack or take long.

use std::time::Instant;

use twigcast_core::error::QueryErrorKind;
use twigcast_core::limits::Limits;
use twigcast_core::query::flwr::FlwrQuery;
use twigcast_core::query::{Dialect, ParseOptions, Query, parse};
use twigcast_core::vocabulary::Vocabulary;

use super::testing::Random;
use super::{parse_with, prefixes, printed, try_xpath};

fn limit_of(text: &str, limits: &Limits) -> &'static str {
    let namespaces = prefixes();
    let options = ParseOptions::new(&namespaces, Dialect::XPath, limits);
    match parse(text, &options, &mut Vocabulary::new()).unwrap_err().kind {
        QueryErrorKind::Limit { limit, .. } => limit,
        kind => panic!("{kind:?}"),
    }
}

#[test]
fn a_megabyte_of_brackets_is_over_a_limit() {
    let wide = Limits { query_bytes_max: 4 << 20, query_steps_max: 1 << 22, ..Limits::default() };
    let started = Instant::now();
    for part in [
        "(",
        "[",
        "/a[",
        "a[",
        "not(",
        "not(not(",
        "-(",
        "(a|",
        "count(",
        "1+(",
        "a/(",
        "@a[",
        "..|",
        "<a>",
        "<a b='{",
        "<a>{",
        "(<a>",
        "for $a in /a return ",
        "if (a) then ",
        "1-",
        "1=",
        "1<",
    ] {
        let text = part.repeat((1 << 20) / part.len());
        assert_eq!(limit_of(&text, &Limits::default()), "query_bytes_max");
        let namespaces = prefixes();
        let options = ParseOptions::new(&namespaces, Dialect::XPath, &wide);
        assert!(parse(&text, &options, &mut Vocabulary::new()).is_err(), "{part}");
    }
    assert_eq!(limit_of(&"a[".repeat(200), &wide), "query_nesting_max");
    assert_eq!(limit_of(&"(".repeat(1 << 20), &wide), "query_nesting_max");
    assert_eq!(limit_of(&("1".to_owned() + &"+1".repeat(1 << 18)), &wide), "query_nesting_max");
    assert_eq!(limit_of(&("1".to_owned() + &"=1".repeat(1 << 18)), &wide), "query_nesting_max");
    assert!(started.elapsed().as_secs() < 20);
}

#[test]
fn long_flat_queries_are_fine() {
    let limits = Limits { query_bytes_max: 4 << 20, query_steps_max: 1 << 22, ..Limits::default() };
    let namespaces = prefixes();
    let options = ParseOptions::new(&namespaces, Dialect::XPath, &limits);
    for text in [
        "-".repeat(1 << 20) + "1",
        "-".repeat(1 << 20) + "/a",
        "/a".repeat(1 << 18),
        "/a or ".repeat(1 << 17) + "/b",
        "/a | ".repeat(1 << 17) + "/b",
        "/a".to_owned() + &"[b]".repeat(1 << 17),
    ] {
        parse(&text, &options, &mut Vocabulary::new()).unwrap();
    }
    let steps = |count: usize| "/a".repeat(count);
    assert!(try_xpath(&steps(1000), Dialect::XPath, &mut Vocabulary::new()).is_ok());
    assert_eq!(limit_of(&steps(1001), &Limits::default()), "query_steps_max");
    let nested = |count: usize| "(".repeat(count) + "1" + &")".repeat(count);
    assert!(try_xpath(&nested(99), Dialect::XPath, &mut Vocabulary::new()).is_ok());
    assert_eq!(limit_of(&nested(100), &Limits::default()), "query_nesting_max");
}

const TOKENS: &[&str] = &[
    "/",
    "//",
    "a",
    "b",
    "*",
    "p:c",
    "p:*",
    "*:d",
    "x:e",
    "@",
    "@f",
    ".",
    "..",
    "[",
    "]",
    "(",
    ")",
    ",",
    "|",
    "+",
    "-",
    "=",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "<>",
    "and",
    "or",
    "div",
    "mod",
    "not(",
    "count(",
    "last()",
    "position()",
    "'s'",
    "\"t\"",
    "'",
    "\"",
    "1",
    "2.5",
    ".5",
    "$v",
    "$",
    "text()",
    "node()",
    "child::",
    "ancestor::",
    "foo::",
    "::",
    ":",
    ":=",
    "for",
    "let",
    "return",
    "in",
    "where",
    "if",
    "then",
    "else",
    "{",
    "}",
    "<x>",
    "</x>",
    "<y/>",
    "<!--",
    "-->",
    "&amp;",
    "&",
    ";",
    "é",
    "\u{10348}",
    "\0",
    "\u{FFFF}",
    " ",
    "\n",
    "(:",
    ":)",
    "for $v in /a return <x>{$v/b}</x>",
];

#[test]
fn token_soup_never_panics_and_what_is_accepted_reads_back() {
    let seed = 0x7716_CA57;
    println!("seed {seed}");
    let mut random = Random(seed);
    let mut accepted = 0;
    for _ in 0..60_000 {
        let length = 1 + random.below(14);
        let text: String = (0..length).map(|_| TOKENS[random.below(TOKENS.len())]).collect();
        accepted += usize::from(check(&text));
    }
    assert!(accepted > 300, "only {accepted} soups were queries");
}

#[test]
fn mutated_queries_never_panic_and_what_is_accepted_reads_back() {
    let seeds = [
        "//a[b='x'][@c>1]/p:d[position()<=last()]",
        "/a/b//c[@d=1] | //e[not(f) or g and h]/@*",
        "(//a)[2]/ancestor::b[count(.//c) mod 2 = 1]/text()",
        "sum(//a/@n) div -count(/b) > 3.5",
        "for $v in //a where $v/b = 'x' return <x y=\"{$v/@z}\">{ $v/c }</x>",
        "<p:r xmlns='urn:d'>{ for $v in /p:a, $w in $v/*:b order by $w return if ($w) then <p:s/> else ($v, $w) } t</p:r>",
        "for $v in $doc//a let $w := count($v/b) return (<x a='{{{$w}}}'><![CDATA[ ]]>&amp;<!--c--></x>, 'y')",
    ];
    let seed = 0x0051_EED5;
    println!("seed {seed}");
    let mut random = Random(seed);
    let mut accepted = 0;
    for round in 0..60_000 {
        let mut text: Vec<char> = seeds[round % seeds.len()].chars().collect();
        for _ in 0..1 + random.below(4) {
            let at = random.below(text.len());
            match random.below(3) {
                0 => drop(text.remove(at)),
                1 => text.swap(at, 0),
                _ => {
                    let token = TOKENS[random.below(TOKENS.len())];
                    text.splice(at..at, token.chars());
                }
            }
        }
        accepted += usize::from(check(&text.into_iter().collect::<String>()));
    }
    assert!(accepted > 300, "only {accepted} mutants were queries");
}

#[test]
fn a_slash_alone_reads_back_from_both_dialects() {
    for text in
        ["/", "/a[/]", "/a[@z + / last()]", "/a[count(/) = 1]", "/a[/ = 'x']", "//a[not(/)]", "/a[/(b * c + d) = 1]"]
    {
        check(text);
    }
}

/// Parses in both dialects; whether XPath accepted.
fn check(text: &str) -> bool {
    let mut vocabulary = Vocabulary::new();
    match parse_with(text, &prefixes(), Dialect::Legacy, &mut vocabulary) {
        Err(error) => assert!(error.column as usize <= text.chars().count() + 1, "{text}"),
        // It is printed as XPath, and means the same there.
        Ok(query) => {
            let printed = printed(&query, &vocabulary);
            let reread = parse_with(&printed.text, &printed.namespaces, Dialect::XPath, &mut vocabulary);
            let reread = reread.unwrap_or_else(|error| panic!("{text} printed as {}: {error}", printed.text));
            assert_eq!(super::printed(&reread, &vocabulary).text, printed.text, "{text}");
        }
    }
    let Ok(query) = parse_with(text, &prefixes(), Dialect::XPath, &mut vocabulary) else { return false };
    let printed = printed(&query, &vocabulary);
    let reread = parse_with(&printed.text, &printed.namespaces, Dialect::XPath, &mut vocabulary);
    assert_eq!(reread.map(meaning), Ok(meaning(query)), "{text} printed as {}", printed.text);
    true
}

/// Returns a query without the notes on its spelling: names that are printed have prefixes, and depend on no default.
fn meaning(query: Query) -> Query {
    match query {
        Query::Flwr(flwr) => Query::Flwr(FlwrQuery { loses_default: false, gains_default: false, ..flwr }),
        other => other,
    }
}
