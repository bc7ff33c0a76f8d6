//! What is known of queries that another processor evaluates.

use twigcast_core::limits::Limits;
use twigcast_core::query::{Dialect, ParseOptions, Query, display, parse};
use twigcast_core::vocabulary::Vocabulary;

fn condition(text: &str) -> String {
    let mut vocabulary = Vocabulary::new();
    let namespaces = [("p", "urn:p")];
    let limits = Limits::default();
    let options = ParseOptions::new(&namespaces, Dialect::XQuery, &limits);
    let Ok(Query::XPath(expr)) = parse(text, &options, &mut vocabulary) else { panic!("{text}") };
    display::expression(&expr, &vocabulary, &std::collections::BTreeMap::new()).text
}

#[test]
fn the_binding_path_is_a_necessary_condition() {
    let cases = [
        ("for $i in //item group by $k := $i/@k return <g>{ $k }</g>", "/descendant-or-self::node()/child::item"),
        (
            " for $a in /r/a[@k = 'return , ]']\nlet $n := 1 return $n",
            "/child::r/child::a[attribute::k = \"return , ]\"]",
        ),
        ("for $a in $doc/r/a, $b in $a/b return 1", "/child::r/child::a"),
        ("for $a in $msg//where return string-join($a, ' ')", "/descendant-or-self::node()/child::where"),
        ("for $a in /r/a[@k = 3]/b[1] return 1", "/r/a[@k]/b"),
        ("for $a in /r/a[1][@k < 'b'][2] return 1", "/r/a[@k]"),
        ("for $a in /r/a[not(b[@x = c] or d)][2] return 1", "/r/a[not(b[@x = c] or d)][2]"),
        ("for $a in /r/a[b = true()] return 1", "/r/a[b]"),
        ("for $a in/r/a return 1 to 3", "/child::r/child::a"),
    ];
    for (text, expected) in cases {
        assert_eq!(condition(text), condition_of_path(expected), "{text}");
    }
}

fn condition_of_path(path: &str) -> String {
    condition(&format!("for $x in {path} return 1"))
}

#[test]
fn a_predicate_of_positions_leaves_the_path() {
    assert_eq!(condition_of_path("//a[position() mod 2 eq 1]"), "//a");
    assert_eq!(condition_of_path("//a[position() idiv 2]"), "//a");
}

#[test]
fn conditions_without_for_say_which_paths_they_need() {
    let cases = [
        ("/alert[deep-equal(event, area)]/info", "/alert/info"),
        ("/alert[@kind = 'x' and deep-equal(event, area)]", "/alert[@kind = 'x']"),
        ("/alert[info/area[f(.)] and code = 'x']", "/alert[info/area][code = 'x']"),
        ("/alert[info[f(.)] or code = 'x']", "/alert"),
        ("/alert[code = 'x' or info[f(.)]]", "/alert"),
        ("/alert[code = f(.) and (b = 'x' or g(.))]", "/alert[code]"),
        ("/alert[f(.)][2]/b", "/alert/b"),
        ("/alert/b[. idiv 2 = 1] = 'x'", "/alert/b"),
        ("/a[f(.)]/string() = 'x' and /b[g(.)]", "/a and /b"),
        ("exists(/a[f(.)]) or //b[g(.)]/text()", "/a or //b/text()"),
        ("/a[f(.)] ! name()", "/a"),
        ("/a[f(.)] intersect /b", "/a"),
        ("alert[f(.)]", "/alert"),
        ("/a[matches(@k, 'x') and f(.)]", "/a[matches(@k, 'x')]"),
        ("/a[contains(b, 'x') and f(.)]", "/a"),
    ];
    for (text, expected) in cases {
        assert_eq!(condition(text), expected, "{text}");
    }
    for text in [
        "/a[f(.)] + 1 = 2",
        "/a[f(.)] | /b",
        "/a[f(.)] except /b | /c",
        "/a[f(.)] => count() = 0",
        "/a[f(.)] ! . || 'x'",
        "/a[f(.)], /b",
        "not(/a[f(.)])",
        "f(/a)",
        "some $x in /a satisfies f($x)",
    ] {
        assert_eq!(condition(text), "true()", "{text}");
    }
}

#[test]
fn of_other_queries_nothing_is_known() {
    for text in [
        "distinct-values(//a)",
        "for $i in 1 to 3 return $i",
        "for $i in (//a, //b) return $i",
        "for $i in //a | //b return $i",
        "for $i in //a(: where :) return $i",
        "for $i in distinct-values(//a) return $i",
        "for $i in //a",
        "for $i in //a]] return 1",
        "for $i index //a return 1",
        "<x>{ for $i in //a return $i }</x>",
        "",
        "for $é in //a['",
    ] {
        assert_eq!(condition(text), "true()", "{text}");
    }
}
