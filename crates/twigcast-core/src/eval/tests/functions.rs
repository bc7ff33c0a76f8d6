//! The core function library, by the examples and rules of the Recommendation.

use super::{answer, check, matches};
use crate::query::functions::{ContextUse, FUNCTIONS, ValueWithoutNodes};

#[test]
fn string_functions() {
    check(
        "<r><a> x  y\n</a><b>zz</b></r>",
        &[
            ("concat('a', 1, true(), //b)", "a1truezz"),
            ("starts-with('abc', 'ab')", "true"),
            ("starts-with('abc', '')", "true"),
            ("starts-with('abc', 'b')", "false"),
            ("contains('abc', 'bc')", "true"),
            ("contains('abc', '')", "true"),
            ("contains('', 'a')", "false"),
            ("substring-before('1999/04/01', '/')", "1999"),
            ("substring-before('abc', 'x')", ""),
            ("substring-before('abc', '')", ""),
            ("substring-after('1999/04/01', '/')", "04/01"),
            ("substring-after('1999/04/01', '19')", "99/04/01"),
            ("substring-after('abc', 'x')", ""),
            ("substring-after('abc', '')", "abc"),
            ("string-length('häß')", "3"),
            ("string-length('𝄞')", "1"),
            ("normalize-space(//a)", "x y"),
            ("//a[normalize-space() = 'x y']", "a"),
            ("normalize-space('\u{a0}a\u{a0}')", "\u{a0}a\u{a0}"),
            ("translate('bar', 'abc', 'ABC')", "BAr"),
            ("translate('--aaa--', 'abc-', 'ABC')", "AAA"),
            ("translate('aba', 'aab', 'xyz')", "xzx"),
            ("translate('abc', '', 'x')", "abc"),
            ("string(1 div 0)", "Infinity"),
            ("string(-1 div 0)", "-Infinity"),
            ("string(0 div 0)", "NaN"),
            ("string(-0)", "0"),
            ("string(//zzz)", ""),
            ("string(//a | //b)", " x  y\n"),
        ],
    );
}

#[test]
fn substring_counts_positions_as_numbers() {
    check(
        "<r/>",
        &[
            ("substring('12345', 2, 3)", "234"),
            ("substring('12345', 2)", "2345"),
            ("substring('12345', 1.5, 2.6)", "234"),
            ("substring('12345', 0, 3)", "12"),
            ("substring('12345', 0 div 0, 3)", ""),
            ("substring('12345', 1, 0 div 0)", ""),
            ("substring('12345', -42, 1 div 0)", "12345"),
            ("substring('12345', -1 div 0, 1 div 0)", ""),
            ("substring('12345', -1 div 0)", "12345"),
            ("substring('12345', 6)", ""),
            ("substring('12345', 2, -1)", ""),
            ("substring('äöü', 2, 1)", "ö"),
        ],
    );
}

#[test]
fn number_functions() {
    check(
        "<r><n>1</n><n>2.5</n><m>x</m><e/></r>",
        &[
            ("sum(//n)", "3.5"),
            ("sum(//n | //m)", "NaN"),
            ("sum(//zzz)", "0"),
            ("floor(-1.5)", "-2"),
            ("ceiling(-1.5)", "-1"),
            ("round(2.5)", "3"),
            ("round(-2.5)", "-2"),
            ("1 div round(-0.4)", "-Infinity"),
            ("number(true())", "1"),
            ("number('  12 ')", "12"),
            ("number(//n)", "1"),
            ("number(//e)", "NaN"),
            ("number(//zzz)", "NaN"),
            ("count(//n[number() > 1])", "1"),
            ("count(//*)", "5"),
        ],
    );
}

#[test]
fn boolean_functions() {
    check(
        "<r/>",
        &[
            ("boolean(0)", "false"),
            ("boolean(0 div 0)", "false"),
            ("boolean(-0.5)", "true"),
            ("boolean('')", "false"),
            ("boolean('false')", "true"),
            ("boolean(/r)", "true"),
            ("boolean(/s)", "false"),
            ("not(/s)", "true"),
            ("true() and not(false())", "true"),
            ("false() or /r", "true"),
        ],
    );
    assert!(matches("<r/>", "string(/r) = ''"));
    assert!(!matches("<r/>", "string(/r)"));
    assert!(matches("<r/>", "count(/r)"));
    assert!(!matches("<r/>", "count(/s)"));
}

#[test]
fn names_come_from_the_message_where_no_query_mentions_them() {
    let xml = r#"<r xmlns="urn:d&amp;" xmlns:z="urn:z"><z:k z:at="1"/><?go now?><m xmlns=""/></r>"#;
    check(
        xml,
        &[
            ("name(/*)", "r"),
            ("namespace-uri(/*)", "urn:d&"),
            ("name(/*/*)", "z:k"),
            ("local-name(/*/*)", "k"),
            ("namespace-uri(/*/*)", "urn:z"),
            ("name(/*/*/@*)", "z:at"),
            ("local-name(/*/*/@*)", "at"),
            ("namespace-uri(/*/*/@*)", "urn:z"),
            ("name(//processing-instruction())", "go"),
            ("string(//processing-instruction())", "now"),
            ("namespace-uri(/*/*[2])", ""),
            ("name(/)", ""),
            ("name(//zzz)", ""),
            ("count(//*[local-name() = 'k'])", "1"),
            ("count(//*[namespace-uri() = 'urn:z'])", "1"),
            ("count(//*[name() = local-name()])", "2"),
        ],
    );
}

#[test]
fn lang_looks_at_the_nearest_declaration() {
    let xml =
        r#"<r><p xml:lang="en"><i/></p><p xml:lang="EN-us"><q xml:lang="de"/></p><p xml:lang="english"/><p/></r>"#;
    check(
        xml,
        &[
            ("count(//*[lang('en')])", "3"),
            ("count(//*[lang('EN-US')])", "1"),
            ("count(//i[lang('en')])", "1"),
            ("count(//q[lang('en')])", "0"),
            ("count(//@*[lang('de')])", "1"),
            ("lang('en')", "false"),
        ],
    );
}

#[test]
fn id_knows_the_identifiers_that_need_no_dtd() {
    let xml = r#"<r><a id="k" xml:id="k1"/><b xml:id=" k2 "/><c xml:id="k1"/><refs>k2 k1</refs></r>"#;
    check(
        xml,
        &[
            ("id('k1')", "a"),
            ("id('k2 k1 nope')", "a b"),
            ("id(//refs)", "a b"),
            ("id('k')", ""),
            ("id(//refs)/@id", "@id=k"),
            ("id('')", ""),
        ],
    );
}

/// The value on an empty node-set that a function's row states is what the evaluator returns, whatever the other
/// arguments are. Where the row states none, the other arguments or the message make a difference.
#[test]
fn rows_agree_with_the_evaluator_on_an_empty_node_set() {
    for row in &FUNCTIONS {
        let count = if row.arguments_max == 0 { 0 } else { row.arguments_min.max(1) };
        let value = |other: &str| {
            let arguments: Vec<&str> = ["/r/none", other, other].into_iter().take(count).collect();
            answer("<r/>", &format!("{}({})", row.name, arguments.join(", ")))
        };
        let values = ["''", "'r'", "2"].map(value);
        let expected = match row.without_nodes {
            Some(ValueWithoutNodes::Boolean(truth)) => truth.to_string(),
            Some(ValueWithoutNodes::Number(number)) => crate::util::number::format(number).into_owned(),
            Some(ValueWithoutNodes::EmptyString) => String::new(),
            None => {
                let depends = row.context == ContextUse::Always || row.looks_elsewhere;
                assert!(depends || values[0] != values[1], "{} is always {:?}", row.usage, values[0]);
                continue;
            }
        };
        assert!(values.iter().all(|value| *value == expected), "{}: {values:?}, not {expected:?}", row.usage);
    }
}
