//! For-Where-Return queries as XPath conditions.

use twigcast_core::query::matching::matching_condition;
use twigcast_core::query::{Dialect, Query};
use twigcast_core::vocabulary::Vocabulary;

use super::{parse_with, prefixes, shown};

/// Queries, their condition, and whether it is exact.
const CONDITIONS: &[(&str, &str, bool)] = &[
    ("for $a in /b return $a", "/b", true),
    ("for $a in /b where $a/c = 'x' return $a", "/b[c = 'x']", true),
    ("for $a in //b[c]//d where $a/@e and not($a/f > 3) return $a", "//b[c]//d[@e][not(f > 3)]", true),
    ("for $a in //b where $a = 'x' return $a", "//b[. = 'x']", true),
    ("for $a in //b where $a return $a", "//b[.]", true),
    ("for $a in //b[2] where $a/c return $a", "//b[2][c]", true),
    ("for $a in //b where count($a/c) return $a", "//b[boolean(count(c))]", true),
    ("for $a in //b where $a/c or $a/d = /e return $a", "//b[c or d = /e]", true),
    ("for $a in //b where $a/c = $a/d return $a", "//b[c = d]", true),
    ("for $a in //b where /c = 1 and $a/d return $a", "/c = 1 and //b[d]", true),
    ("for $a in /b | /c where $a/d return $a", "(/b | /c)[d]", true),
    ("for $a in (//b)[1] where $a/d return $a", "(//b)[1][d]", true),
    ("for $a in $doc where $a/d return $a/e", "/d", true),
    ("for $a in $doc, $b in $a/c where $a/d = $b/e return $b", "/c[/d = e]", true),
    ("for $a in $doc return $a/e", "true()", true),
    ("for $a in //b where ($a/c)[2] = 1 return $a", "//b[(c)[2] = 1]", true),
    ("for $a in //b where ($a/c | $a/d)/e return $a", "//b[(c | d)/e]", true),
    // Several variables.
    ("for $a in //b, $c in $a/d return $c", "//b[d]", true),
    ("for $a in //b, $c in $a/d where $a/e and $c/f = 1 return $c", "//b[e][d[f = 1]]", true),
    ("for $a in //b, $c in $a/d, $e in $c/f where $e = 2 return $c", "//b[d[f[. = 2]]]", true),
    ("for $a in //b, $c in $a/d, $e in $a/f where $e = 2 return $c", "//b[f[. = 2]][d]", true),
    ("for $a in //b, $c in //d where $c/@e = 1 return $a", "//d[@e = 1] and //b", true),
    ("for $a in //b, $c in $a/d where $a/e = $c/e return $c", "//b[d]", false),
    ("for $a in //b, $c in //d where $a/e = $c/e and $a/f return $c", "//d and //b[f]", false),
    ("for $a in //b, $c in $a/d | /e where $c return $c", "//b[(d | /e)[.]]", true),
    ("for $a in //b, $c in //d, $e in $a/f | $c/g where $e return $c", "//d and //b", false),
    // Variables in predicates.
    ("for $a in //b where $a/c[@d = $a/@d] return $a", "//b", false),
    ("for $a in //b where //c[@d = $a/@d] and $a/e return $a", "//b[e]", false),
    ("for $a in //b, $c in //d[@e = $a/@e] return $a", "//b", false),
    // let.
    ("let $a := /b for $c in $a/d return $c", "/b/d", true),
    ("let $a := /b return $a", "true()", true),
    ("let $a := /b where $a/c return $a", "/b/c", true),
    ("for $a in //b let $c := $a/d where $c/e = 1 return $c", "//b[d/e = 1]", true),
    ("for $a in //b let $c := count($a/d) where $c > 2 return $c", "//b[count(d) > 2]", true),
    ("for $a in //b let $c := count($a/d) where $c return $c", "//b[boolean(count(d))]", true),
    ("for $a in //b let $c := $a/d let $e := $c/f where $e = $c/g return $c", "//b[d/f = d/g]", true),
    ("let $a := /b/@c for $d in //e[@f = $a] return $d", "//e[@f = /b/@c]", true),
    ("for $a in //b let $c := $a/@d where $a/e[@f = $c] return $a", "//b", false),
    ("for $a in //b let $c := $a/d | $a/e where $c/f return $a", "//b[(d | e)/f]", true),
    // Around and inside.
    ("<x>{ for $a in /b return $a }</x>", "/b", true),
    ("<x y=\"{ for $a in /b return string($a) }\">{ for $a in /c return $a }</x>", "/b or /c", true),
    ("for $a in /b return $a, for $a in /c return $a", "/b or /c", true),
    ("if (/a) then for $b in /c return $b else ()", "/a and /c", true),
    ("if (/a) then 1 else for $b in /c return $b", "not(/a) and /c", true),
    ("if (/a) then for $b in /c return $b else for $b in /d return $b", "/a and /c or not(/a) and /d", true),
    ("for $a in /b return <x>{ for $c in $a/d where $c/e return $c }</x>", "/b", true),
];

#[test]
fn conditions_are_those_of_the_table() {
    for &(text, expected, exact) in CONDITIONS {
        let mut vocabulary = Vocabulary::new();
        let Ok(Query::Flwr(query)) = parse_with(text, &prefixes(), Dialect::XPath, &mut vocabulary) else {
            panic!("{text}")
        };
        let condition = matching_condition(&query);
        assert_eq!((shown(&condition.expr, &vocabulary).as_str(), condition.exact), (expected, exact), "{text}");
    }
}

#[test]
fn values_that_double_each_time_do_not_explode() {
    let mut text = "let $v0 := /a/b ".to_owned();
    for i in 1..60 {
        text += &format!("let $v{i} := $v{} | $v{} ", i - 1, i - 1);
    }
    text += "for $a in //c where $a/d and $v59 return $a";
    let mut vocabulary = Vocabulary::new();
    let Ok(Query::Flwr(query)) = parse_with(&text, &prefixes(), Dialect::XPath, &mut vocabulary) else { panic!() };
    let condition = matching_condition(&query);
    assert_eq!(shown(&condition.expr, &vocabulary), "//c[d]");
    assert!(!condition.exact);
}
