//! The grammar of XPath 1.0 as a table: a query, and what it means written without sugar.

use std::collections::BTreeMap;

use twigcast_core::query::{Dialect, Query, display, json};

use super::{parse_with, shown, try_xpath, xpath_of};
use twigcast_core::vocabulary::Vocabulary;

/// Queries and their printed form; an empty second column says that it prints as it stands.
const XPATH: &[(&str, &str)] = &[
    // Location paths.
    ("/", ""),
    ("/a", ""),
    ("a", "/a"),
    ("a/b", "/a/b"),
    ("/a/b/c", ""),
    ("//a", ""),
    ("/a//b", ""),
    (" / a / b ", "/a/b"),
    ("/child::a/descendant-or-self::node()/child::b", "/a//b"),
    ("/descendant-or-self::node()", ""),
    ("/a/descendant-or-self::node()", ""),
    ("/descendant::a", ""),
    ("/*", ""),
    ("//*//*", ""),
    ("/a/@b", ""),
    ("/a/attribute::b", "/a/@b"),
    ("/a/@*", ""),
    ("/a/@p:b", ""),
    ("/a/@p:*", ""),
    (".", "/."),
    ("..", "/.."),
    ("/a/./b/..", ""),
    (".//a", "/.//a"),
    ("//.", ""),
    ("/self::node()", "/."),
    ("/self::a", ""),
    ("/a/parent::b", ""),
    ("/a/ancestor::b", ""),
    ("/a/ancestor-or-self::*", ""),
    ("/a/following::b", ""),
    ("/a/following-sibling::b", ""),
    ("/a/preceding::b", ""),
    ("/a/preceding-sibling::b", ""),
    ("/a/namespace::p", ""),
    ("/a/namespace::*", ""),
    ("/a/text()", ""),
    ("/a/comment()", ""),
    ("/a/node()", ""),
    ("/a/processing-instruction()", ""),
    ("/a/processing-instruction('t')", ""),
    ("/a/processing-instruction( \"t\" )", "/a/processing-instruction('t')"),
    ("/a/text ( )", "/a/text()"),
    ("/a/@text()", ""),
    ("/child :: a", "/a"),
    // Names.
    ("/p:a", ""),
    ("/p:*", ""),
    ("/xml:a", ""),
    ("/a/@xml:lang", ""),
    ("/*:a", ""),
    ("/a/@*:b", ""),
    ("/descendant::*:b", ""),
    ("/body.head/tobject.subject-1", ""),
    ("/_a", ""),
    ("/été/日本", ""),
    ("/a-1", ""),
    ("/a - 1", ""),
    ("/a -1", "/a - 1"),
    ("/text", ""),
    ("/comment/node", ""),
    ("/or/and/div/mod", ""),
    ("/div div /mod", "/div div /mod"),
    ("or or or", "/or or /or"),
    ("and and and", "/and and /and"),
    ("/child/self/parent", ""),
    ("/child::child", "/child"),
    ("//not", ""),
    ("/count/last", ""),
    // Predicates.
    ("/a[b]", ""),
    ("/a[b][c]", ""),
    ("/a[1]", ""),
    ("/a[position() = 1]", "/a[1]"),
    ("/a[last()]", ""),
    ("/a[last() - 1]", ""),
    ("/a[count(b)]", ""),
    ("/a[-1]", ""),
    ("/a[position() < 3]", ""),
    ("/a[b = 'c']", ""),
    ("/a[b=\"c\"]", "/a[b = 'c']"),
    ("/a[b = \"it's\"]", ""),
    ("/a[b = 'say \"x\"']", ""),
    ("/a['']", ""),
    ("/a[@b]", ""),
    ("/a[@b=1]", "/a[@b = 1]"),
    ("/a[.='x']", "/a[. = 'x']"),
    ("/a[./b]", ""),
    ("/a[.//b]", ""),
    ("/a[../b]", ""),
    ("/a[/b]", ""),
    ("/a[//b]", ""),
    ("/a[/]", ""),
    ("/a[text()='x']", "/a[text() = 'x']"),
    ("/a[b[c[d]]]", ""),
    ("/a[b]/c[d]", ""),
    ("/a[@b][2]", ""),
    ("/a[*]", ""),
    ("/a[* = 1]", ""),
    ("//a[p:b='x']//p:c", "//a[p:b = 'x']//p:c"),
    // Operators.
    ("/a or /b and /c", ""),
    ("(/a or /b) and /c", ""),
    ("/a or (/b or /c)", "/a or /b or /c"),
    ("/a and /b and /c", ""),
    ("/a and (/b and /c)", "/a and /b and /c"),
    ("/a = /b", ""),
    ("/a != /b", ""),
    ("/a < /b", ""),
    ("/a <= /b", ""),
    ("/a > /b", ""),
    ("/a >= /b", ""),
    ("/a=/b=/c", "/a = /b = /c"),
    ("/a=(/b=/c)", "/a = (/b = /c)"),
    ("/a<1=true()", "/a < 1 = true()"),
    ("/a<(1=true())", "/a < (1 = true())"),
    ("1 + 2 * 3", ""),
    ("(1 + 2) * 3", ""),
    ("1 - 2 - 3", ""),
    ("1 - (2 - 3)", ""),
    ("6 div 2 mod 3", ""),
    ("6 div (2 mod 3)", ""),
    ("/a * /b", ""),
    ("/* * /*", ""),
    ("(/) * 2", ""),
    ("(/) and /a", ""),
    ("/a = (/)", ""),
    ("-1", ""),
    ("--1", "1"),
    ("---1", "-1"),
    ("-/a", ""),
    ("--/a", ""),
    ("---/a", "-/a"),
    ("- - - - /a", "--/a"),
    ("-(-(-/a))", "-(--/a)"),
    ("2 * -/a", ""),
    ("1 - -1", ""),
    ("-(1 + 2)", ""),
    ("-1 * 2", ""),
    ("-/a | /b", ""),
    ("-(/a | /b)", "-/a | /b"),
    ("/a | /b", ""),
    ("/a | /b | /c", ""),
    ("/a | (/b | /c)", ""),
    ("/a|/b = /c|/d", "/a | /b = /c | /d"),
    // Numbers and strings.
    ("1.5", ""),
    (".5", "0.5"),
    ("5.", "5"),
    ("007", "7"),
    ("12345678901234567890", "12345678901234567000"),
    ("'x'", ""),
    ("\"\"", "''"),
    // Filter expressions.
    ("(/a)", "/a"),
    ("(/a)[1]", ""),
    ("(//a)[2]/b", ""),
    ("(//a)//b", "//a//b"),
    ("(/a/b)/c", "/a/b/c"),
    ("(/a | /b)/c", ""),
    ("(/a | /b)//c", ""),
    ("(/a | /b)[1]", ""),
    ("((//a)[1])[2]", ""),
    ("id('x')", ""),
    ("id('x')/a", ""),
    ("id('x')[1]//a", ""),
    ("/a[(b)[1]]", ""),
    ("/a[(b | c)/d]", ""),
    // Functions.
    ("count(/a) > 1", ""),
    ("count(/)", ""),
    ("not(/a)", ""),
    ("not ( /a )", "not(/a)"),
    ("concat('a', 'b', /c)", ""),
    ("contains(/a, 'x')", ""),
    ("starts-with(/a, 'x')", ""),
    ("substring(/a, 1)", ""),
    ("substring(/a, 1, 2)", ""),
    ("substring-before(/a, 'x')", ""),
    ("substring-after(/a, 'x')", ""),
    ("string-length(/a) > 3", ""),
    ("string-length()", ""),
    ("normalize-space(/a) = 'x'", ""),
    ("normalize-space()", ""),
    ("translate(/a, 'ab', 'AB')", ""),
    ("boolean(/a)", ""),
    ("true()", ""),
    ("false()", ""),
    ("lang('en')", ""),
    ("number(/a)", ""),
    ("number()", ""),
    ("string()", ""),
    ("string(/a)", ""),
    ("sum(/a)", ""),
    ("floor(/a)", ""),
    ("ceiling(/a)", ""),
    ("round(/a)", ""),
    ("name()", ""),
    ("name(/a)", ""),
    ("local-name(/a)", ""),
    ("namespace-uri(/*) = 'urn:x'", ""),
    ("/*[local-name() = 'a']", ""),
    ("/a[lang('en')]", ""),
    ("/a[starts-with(@b, 'x') and not(c)]", ""),
    ("/a[not(not(b))]", ""),
];

#[test]
fn xpath_means_what_the_table_says_and_reads_back() {
    for &(text, expected) in XPATH {
        let mut vocabulary = Vocabulary::new();
        let expr = xpath_of(text, &mut vocabulary);
        let printed = shown(&expr, &vocabulary);
        assert_eq!(printed, if expected.is_empty() { text } else { expected }, "printed form of {text}");
        assert_eq!(xpath_of(&printed, &mut vocabulary), expr, "{text} read back from {printed}");
    }
}

/// Two spellings of each query in the legacy dialect: as published, and in XPath.
const LEGACY: &[(&str, &str)] = &[
    ("/a[b <> 1]", "/a[b != 1]"),
    ("/a/[b = 1]", "/a[b = 1]"),
    ("/dblp/phdthesis/[year = 2007]/[@key]/title", "/dblp/phdthesis[year = 2007][@key]/title"),
    ("/dblp/[year]//title", "/dblp[year]//title"),
    ("/a[/c/d]", "/a[c/d]"),
    ("/a[/c/d = 'x']", "/a[c/d = 'x']"),
    ("/a[not(/c)]/b", "/a[not(c)]/b"),
    ("/a[/c[/d]]", "/a[c[d]]"),
    ("/a[//p]", "/a[descendant-or-self::node()/p]"),
    ("/a[.//p]", "/a[.//p]"),
    ("a//b", "/a//b"),
    ("a//b[/c/d]/e[/g]/f", "/a//b[c/d]/e[g]/f"),
    ("/a", "/a"),
    ("//a", "//a"),
];

#[test]
fn legacy_spellings_mean_their_xpath_equivalents() {
    for &(text, expected) in LEGACY {
        let mut vocabulary = Vocabulary::new();
        let expr = try_xpath(text, Dialect::Legacy, &mut vocabulary).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(shown(&expr, &vocabulary), expected, "{text}");
        assert_eq!(xpath_of(expected, &mut vocabulary), expr, "{text}");
    }
}

#[test]
fn legacy_spellings_are_refused_or_mean_something_else_in_xpath() {
    let mut vocabulary = Vocabulary::new();
    for text in ["/a[b <> 1]", "/a/[b = 1]"] {
        let error = try_xpath(text, Dialect::XPath, &mut vocabulary).unwrap_err();
        assert!(error.message.contains("legacy"), "{text}: {error}");
    }
    let absolute = xpath_of("/a[/c/d]", &mut vocabulary);
    assert_ne!(absolute, try_xpath("/a[/c/d]", Dialect::Legacy, &mut vocabulary).unwrap());
}

#[test]
fn the_default_namespace_is_for_elements_only() {
    let namespaces: BTreeMap<String, String> =
        [("", "urn:default"), ("p", "urn:p")].map(|(k, v)| (k.into(), v.into())).into();
    let mut vocabulary = Vocabulary::new();
    for (text, expected) in [
        ("/a/p:b[@c = 1]", "/ns1:a/p:b[@c = 1]"),
        ("//*[attribute::d]", "//*[@d]"),
        ("/a/namespace::e", "/ns1:a/namespace::e"),
        ("/descendant::f", "/descendant::ns1:f"),
        ("/a/ancestor::g", "/ns1:a/ancestor::ns1:g"),
        ("/*:h", "/*:h"),
    ] {
        let Ok(Query::XPath(expr)) = parse_with(text, &namespaces, Dialect::XPath, &mut vocabulary) else {
            panic!("{text}")
        };
        let printed = display::expression(&expr, &vocabulary, &namespaces);
        assert_eq!(printed.text, expected, "{text}");
        let prefix = printed.text.contains("ns1:").then_some("urn:default");
        assert_eq!(printed.namespaces.get("ns1").map(String::as_str), prefix);
        let reread = parse_with(&printed.text, &printed.namespaces, Dialect::XPath, &mut vocabulary).unwrap();
        assert_eq!(reread, Query::XPath(expr), "{text}");
    }
}

#[test]
fn the_same_name_in_two_spellings_is_one_name() {
    let namespaces: BTreeMap<String, String> =
        [("x", "urn:same"), ("y", "urn:same"), ("z", "urn:other")].map(|(k, v)| (k.into(), v.into())).into();
    let mut vocabulary = Vocabulary::new();
    let mut read = |text| parse_with(text, &namespaces, Dialect::XPath, &mut vocabulary).unwrap();
    assert_eq!(read("/x:a[@y:b]"), read("/y:a[@x:b]"));
    assert_ne!(read("/x:a"), read("/z:a"));
    assert_ne!(read("/x:a"), read("/a"));
}

#[test]
fn json_tells_everything() {
    let mut vocabulary = Vocabulary::new();
    let query = parse_with(
        "//p:a[@b = \"x\\y\"][-c > 1.5]/*:d | (/e)[last()]/processing-instruction('t')",
        &super::prefixes(),
        Dialect::XPath,
        &mut vocabulary,
    )
    .unwrap();
    let expected = concat!(
        r#"{"kind":"union","operands":["#,
        r#"{"kind":"path","start":{"kind":"root"},"steps":["#,
        r#"{"axis":"descendant-or-self","test":{"kind":"node"},"predicates":[]},"#,
        r#"{"axis":"child","test":{"kind":"name","namespace":"urn:p","local":"a"},"predicates":["#,
        r#"{"kind":"compare","operator":"=","left":{"kind":"path","start":{"kind":"context"},"steps":["#,
        r#"{"axis":"attribute","test":{"kind":"name","namespace":"","local":"b"},"predicates":[]}]},"#,
        r#""right":{"kind":"literal","value":"x\\y"}},"#,
        r#"{"kind":"compare","operator":">","left":{"kind":"negate","operand":{"kind":"path","start":{"kind":"context"},"#,
        r#""steps":[{"axis":"child","test":{"kind":"name","namespace":"","local":"c"},"predicates":[]}]}},"#,
        r#""right":{"kind":"number","value":1.5}}]},"#,
        r#"{"axis":"child","test":{"kind":"name","namespace":null,"local":"d"},"predicates":[]}]},"#,
        r#"{"kind":"path","start":{"kind":"filter","primary":{"kind":"path","start":{"kind":"root"},"steps":["#,
        r#"{"axis":"child","test":{"kind":"name","namespace":"","local":"e"},"predicates":[]}]},"predicates":["#,
        r#"{"kind":"compare","operator":"=","left":{"kind":"call","function":"position","arguments":[]},"#,
        r#""right":{"kind":"call","function":"last","arguments":[]}}]},"steps":["#,
        r#"{"axis":"child","test":{"kind":"processing-instruction","target":"t"},"predicates":[]}]}]}"#,
    );
    assert_eq!(json::query(&query, &vocabulary), expected);
}
