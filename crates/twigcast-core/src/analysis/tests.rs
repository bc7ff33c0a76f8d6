//! Tables of queries; that the results hold on random messages is tested from Python, against libxml2 as well.

use crate::limits::Limits;
use crate::query::{Dialect, ParseOptions, Query, normal, parse};
use crate::vocabulary::Vocabulary;

fn truth(query: &str) -> Option<bool> {
    let limits = Limits::default();
    let mut vocabulary = Vocabulary::new();
    let options = ParseOptions::new(&[("p", "urn:p")], Dialect::XPath, &limits);
    match parse(query, &options, &mut vocabulary) {
        Ok(Query::XPath(expr)) => super::truth(&normal::normalise(expr)),
        other => panic!("{query}: {other:?}"),
    }
}

fn check(expected: Option<bool>, queries: &[&str]) {
    let other: Vec<_> = queries.iter().filter(|query| truth(query) != expected).collect();
    assert!(other.is_empty(), "not {expected:?}: {other:#?}");
}

#[test]
fn what_every_message_has() {
    check(
        Some(true),
        &[
            "/",
            "/*",
            "//*",
            "/node()",
            "//node()",
            "*",
            ".",
            "self::node()",
            "/descendant::*",
            "/descendant-or-self::*",
            "/*/..",
            "/*/parent::node()",
            "/*/ancestor::node()",
            "/*/ancestor-or-self::*",
            "//*[1]",
            "/*[1]",
            "/*[last()]",
            "(//*)[1]",
            "(//a | /*)[last()]",
            "//a | /",
            "/*[self::*]",
            "/*[..]",
            "/*[true()]",
            "/*[position() = 1]",
            "count(/*) = 1",
            "count(/*)",
            "count(//*) >= 1",
            "count(//a) >= 0",
            "string-length(//a) >= 0",
            "/*[count(*) > -1]",
            "/*[position() < 2]",
            "/*[last() = 1]",
            "//a/text()/b or /*",
            "/*[string-length() >= 0]",
        ],
    );
}

#[test]
fn constants() {
    check(
        Some(true),
        &[
            "true()",
            "1 = 1",
            "not(false())",
            "1",
            "'x'",
            "-1",
            "1 < 2",
            "'a' != 'b'",
            "contains('abc', 'b')",
            "2 * 3 = 6",
            "starts-with(//a, '')",
            "contains(//a, '')",
            "concat('a', 'b') = 'ab'",
            "string(1 div 0) = 'Infinity'",
            "substring('abc', 2) = 'bc'",
            "'1' = 1",
            "'1' < 2",
            "not(//a/text()/b)",
            "true() = 1",
            "true() > false()",
            "boolean(/*) = true()",
            "number('x') != 1",
            "floor(2.5) = 2",
            "not(not(/*))",
            "//a or not(//a)",
        ],
    );
    check(
        Some(false),
        &[
            "false()",
            "1 = 2",
            "not(true())",
            "0",
            "''",
            "0 div 0",
            "number('x')",
            "-0",
            "'x' < 1",
            "1 mod 1",
            "not(/*)",
            "string('')",
            "contains('a', 'b')",
            "boolean(0)",
            "true() = false()",
            "//a and not(//a)",
            "'a' = 'b'",
            "1 > 'x'",
            "round(0.4)",
            "translate('abc', 'abc', '')",
            "false() > true()",
            "boolean(//a/text()/b)",
        ],
    );
}

#[test]
fn what_no_node_can_be_or_have() {
    check(
        Some(false),
        &[
            "/..",
            "/text()",
            "/@x",
            "/a/text()/b",
            "//a/@x/b",
            "//a/@x/@y",
            "//text()/text()",
            "//comment()/*",
            "/following::a",
            "/ancestor::a",
            "//@x/following-sibling::*",
            "//a/@x/self::a",
            "//a/@text()",
            "/self::a",
            "//a[@b/c]",
            "//a[text()[b]]",
            "//@x[self::x]",
            "//a[b[c/text()/d]]",
            "//a[not(self::*)]",
            "//*/self::text()",
            "//a/text()/b | //c/@d/e",
            "//namespace::p/a",
            "/*/@x/text()",
            "//a[b/@c/d = 'x']",
        ],
    );
}

#[test]
fn predicates_that_never_hold() {
    check(
        Some(false),
        &[
            "//a[1 = 2]",
            "//a[false()]",
            "//a[0]",
            "//a[-1]",
            "//a[1.5]",
            "//a[position() = 0]",
            "//a[position() < 1]",
            "//a[position() > last()]",
            "//a[last() = 0]",
            "/*[2]",
            "/a[2]",
            "//a/parent::*[2]",
            "//a/@x[2]",
            "//a['']",
            "//a[b][1 > 2]/c",
            "(//a)[0]",
            "//a[count(b) < 0]",
            "//a[count(b) = 1.5]",
            "//a[string-length(b) = -1]",
            "//a[count(@x) > 1]",
            "//a[@x < 'abc']",
            "//a[b > 'x']",
            "//a[@x = 0 div 0]",
            "//a[not(true())]",
            "//a[b and 1 = 2]",
            "//a[position() = 2 and position() = 3]",
            "//a[1][2]",
            "//a[last()][2]",
            "//a[position() = 1 and position() = 0]",
        ],
    );
}

#[test]
fn predicates_that_exclude_each_other() {
    check(
        Some(false),
        &[
            "//a[@x = 'b'][@x = 'c']",
            "//a[@x = 'b' and @x = 'c']",
            "//a['b' = @x]['c' = @x]",
            "//a[. = 'x'][. = 'y']",
            "//a[@x = 1][@x = 2]",
            "//a[@x = 1][@x = 'b']",
            "//a[@x = '1'][@x = 2]",
            "//a[@x < 3][@x > 5]",
            "//a[@x < 3][@x >= 3]",
            "//a[@x > 3 and @x < 3]",
            "//a[@x = 5][@x < 5]",
            "//a[@x = 'b'][@x != 'b']",
            "//a[@x][not(@x)]",
            "//a[b][not(b)]",
            "//a[b = 'x'][not(b)]",
            "//a[@x = 'b'][c][@x = 'c']",
            "//a[string(b) = 'x'][string(b) = 'y']",
            "/a/@x = 1 and /a/@x = 2",
            "//a[count(b) = 1][count(b) = 2]",
            "//a[count(b) > 2][2 > count(b)]",
            "//a[string-length(@x) = 3][string-length(@x) > 5]",
            "//a[../@x = 'b'][../@x = 'c']",
            "//a[name() = 'b'][name() = 'c']",
            "//a[@p:x = 'b'][@p:x = 'c']",
            "//a[@x = 3][@x != 3]",
            "//a[not(b)][b > 3]",
        ],
    );
}

#[test]
fn what_depends_on_the_message() {
    check(
        None,
        &[
            "/a",
            "//a",
            "/*/*",
            "//text()",
            "//comment()",
            "/comment()",
            "//@x",
            "/*[a]",
            "//a[1]",
            "//a[2]",
            "/*/*[2]",
            "(//a)[2]",
            "count(//a) = 1",
            "//a[b = 'x'][b = 'y']",
            "//a[@* = 'x'][@* = 'y']",
            "//a[@*:x = 1][@*:x = 2]",
            "//a[text() = 'x'][text() = 'y']",
            "//a[position() = 2][position() = 1]",
            "//a[position() = 1][position() = 1]",
            "//a[@x != 'b'][@x != 'c']",
            "//a[@x = '1'][@x = 1]",
            "//a[@x = '1.0'][@x = 1]",
            "//a[@x > 3][@x < 5]",
            "//a[@x >= 3][@x <= 3]",
            "//a[@x = 'b'][@y = 'c']",
            "//a[. = 'x']/b[. = 'y']",
            "not(//a)",
            "//a or //b",
            "string(//a)",
            "//a != //a",
            "//a = //a",
            "lang('en')",
            "id('x')",
            "name() = 'a'",
            "//a[@x < '5']",
            "//a[b != 'x']",
            "//a[b != 0 div 0]",
            "//a[last()]",
            "//a[position() = last()][1]",
            "/*/comment() | /comment()",
            "/*[self::a]",
            "/*[@x or not(@y)]",
            "//a[@x and not(@y)]",
            "//a/following::b",
            "//@x/following::b",
            "/comment()/following::a",
            "/comment()/following-sibling::*",
            "/*/preceding-sibling::comment()",
            "//@x/parent::*[@y]",
            "//text()/..",
            "//a[string-length() > 2]",
            "sum(//a) = 0",
            "number(//a)",
            "//a[count(b) = 2]",
            "/p:a",
            "//*[local-name() = 'a']",
            "//a[@x < 3 or @x > 5]",
            "//a[boolean(b) != boolean(c)]",
            "//a[b > 1][b < 0]",
            "-(//a)",
            "//a[b][position() = 1 or position() = 2]",
            "/*/ancestor::*",
            "/*[not(../text())]",
            "/*/namespace::*",
            "/*[position() = count(a)]",
            "/*[../..]",
        ],
    );
}

#[test]
fn deep_and_long_queries_take_no_time() {
    let deep = format!("//a{}{}", "[b".repeat(90), "]".repeat(90));
    let long = format!("//a{}", (0..400).map(|n| format!("[@x != '{n}']")).collect::<String>());
    let wide = format!("//a[{}]", (0..400).map(|n| format!("b = {n}")).collect::<Vec<_>>().join(" or "));
    for query in [&deep, &long, &wide] {
        assert_eq!(truth(query), None, "{query}");
    }
}
