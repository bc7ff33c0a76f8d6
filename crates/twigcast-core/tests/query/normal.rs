//! Normal forms: which rewritings happen, and which must not.

use twigcast_core::query::normal::{is_positional, normalise};
use twigcast_core::vocabulary::Vocabulary;

use super::{shown, xpath_of};

/// Queries and the printed text of their normal form; an empty second column says that nothing changes.
const FORMS: &[(&str, &str)] = &[
    ("//a", "/descendant::a"),
    ("/a//b", "/a/descendant::b"),
    ("//a[b]", "/descendant::a[b]"),
    ("//a[1]", ""),
    ("//a[b][2]", ""),
    ("//a[position() > 1]", ""),
    ("//a[b[1]]", "/descendant::a[b[1]]"),
    ("//a[(b)[last()]]", "/descendant::a[(b)[last()]]"),
    ("//a[count(b) = 2]", "/descendant::a[count(b) = 2]"),
    ("//a[count(b)]", ""),
    ("//a[b = last()]", ""),
    ("//a[not(position() = 1)]", ""),
    ("//a[(b | c)[position() = 1]]", "/descendant::a[(b | c)[1]]"),
    ("//@a", ""),
    ("//text()", "/descendant::text()"),
    ("//.", "/descendant-or-self::node()"),
    ("//self::a", "/descendant-or-self::a"),
    ("//self::a[1]", ""),
    ("//descendant::a", "/descendant::a"),
    ("//descendant::a[1]", ""),
    ("//descendant-or-self::a", "/descendant-or-self::a"),
    ("//parent::a", ""),
    ("//*//*", "/descendant::*/descendant::*"),
    ("/a/descendant-or-self::node()[b]/c", ""),
    (".", "/"),
    ("/./a/.", "/a"),
    ("/a[.//b]", "/a[descendant::b]"),
    ("/a[.]", ""),
    ("/a[./.]", "/a[.]"),
    ("/a[. = 1]", ""),
    ("//./a", "/descendant::a"),
    ("/a[b and c]", "/a[b][c]"),
    ("/a[b and (c and d)]", "/a[b][c][d]"),
    ("/a[b][b]", "/a[b]"),
    ("/a[b and b]", "/a[b]"),
    ("/a[b][2][b]", "/a[b][2]"),
    ("/a[2][2]", ""),
    ("/a[b and position() = 2]", ""),
    ("/a[b and 1]", "/a[b]"),
    ("/a[1 and count(b)]", "/a[boolean(count(b))]"),
    ("/a[boolean(count(b))]", ""),
    ("/a[b or c or b]", "/a[b or c]"),
    ("/a[b or (c or d)]", "/a[b or c or d]"),
    ("/a[b or true()]", "/a"),
    ("/a[b or false()]", "/a[b]"),
    ("/a[b and false()]", "/a[false()]"),
    ("/a[true()][b]", "/a[b]"),
    ("/a['x']", "/a"),
    ("/a['']", "/a[false()]"),
    ("/a[1 = 1]", "/a"),
    ("/a[1 > 2]", "/a[false()]"),
    ("/a['x' = 'y']", "/a[false()]"),
    ("/a[not(not(b))]", "/a[b]"),
    ("/a[not(not(not(b)))]", "/a[not(b)]"),
    ("/a[boolean(b)]", "/a[b]"),
    ("/a[not(boolean(b))]", "/a[not(b)]"),
    ("/a[not(true())]", "/a[false()]"),
    ("/a[not(false())]", "/a"),
    ("boolean(/a)", ""),
    ("boolean(/a) = true()", ""),
    ("not(not(/a))", "boolean(/a)"),
    ("/a and true()", "boolean(/a)"),
    ("/a or /a", "boolean(/a)"),
    ("count(//a) + 1", "count(/descendant::a) + 1"),
    ("string(//a) = 'x'", "string(/descendant::a) = 'x'"),
    ("(//a)[b]", "/descendant::a[b]"),
    ("(//a)[1]", "(/descendant::a)[1]"),
    ("(//a)[b]/c", "/descendant::a[b]/c"),
    ("(//a[1])[b]", "//a[1][b]"),
    ("(/a | /b)[c]", ""),
    ("/a | /b | /a", "/a | /b"),
    ("/a | (/b | /c)", "/a | /b | /c"),
    ("/a | /a", "/a"),
    ("//a | /descendant::a", "/descendant::a"),
    ("-(-/a)", "--/a"),
];

#[test]
fn normal_forms_are_those_of_the_table() {
    for &(text, expected) in FORMS {
        let mut vocabulary = Vocabulary::new();
        let expr = xpath_of(text, &mut vocabulary);
        let normal = normalise(expr);
        assert_eq!(shown(&normal, &vocabulary), if expected.is_empty() { text } else { expected }, "{text}");
        assert_eq!(normalise(normal.clone()), normal, "{text}: normalising twice is normalising once");
    }
}

#[test]
fn a_position_counts_only_in_its_own_context() {
    let mut vocabulary = Vocabulary::new();
    for (text, expected) in [
        ("position() = 1", true),
        ("not(last() > 2)", true),
        ("/a[1]", false),
        ("(/a)[last()]", false),
        ("concat('a', position()) = 'a1'", true),
        ("-position()", true),
        ("/a = last()", true),
        ("count(/a) = 1", false),
    ] {
        assert_eq!(is_positional(&xpath_of(text, &mut vocabulary)), expected, "{text}");
    }
}
