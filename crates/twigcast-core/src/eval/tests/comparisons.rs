//! Comparisons: existential with node-sets, NaN, and which type decides.

use super::check;

#[test]
fn a_string_literal_compares_text_and_a_number_compares_numbers() {
    let xml = r#"<r><x n="011"/><x n="z"/><x/></r>"#;
    check(
        xml,
        &[
            ("//x[@n=11]/@n", "@n=011"),
            ("//x[@n='11']", ""),
            ("//x[@n='011']/@n", "@n=011"),
            ("count(//x[@n!=3])", "2"),
            ("count(//x[@n!='z'])", "1"),
            ("//x[@n<3]", ""),
            ("//x[@n>3]/@n", "@n=011"),
            ("//x[@n<=11]/@n", "@n=011"),
            ("//x[11>=@n]/@n", "@n=011"),
            ("//x[@n='z' or @n=11]/@n", "@n=011 @n=z"),
            ("//x/@n > '3'", "true"),
        ],
    );
}

#[test]
fn any_pair_is_enough_between_node_sets() {
    let xml = "<r><a>1</a><a>5</a><b>5</b><b>7</b><c>x</c><d/></r>";
    check(
        xml,
        &[
            ("//a = //b", "true"),
            ("//a != //b", "true"),
            ("//a != //a", "true"),
            ("//b[1] != //b[1]", "false"),
            ("//a[1] = //b", "false"),
            ("//a < //b", "true"),
            ("//a > //b", "false"),
            ("//a >= //b", "true"),
            ("//b <= //a", "true"),
            ("//a < //c", "false"),
            ("//c = //c", "true"),
            ("//a = //zzz", "false"),
            ("//a != //zzz", "false"),
            ("//zzz < //a", "false"),
            ("//a[. = //b]", "a"),
            ("//b[. != //b]", "b b"),
            ("//a[. > //a]", "a"),
            ("//a[//b = .]", "a"),
            ("//d != ''", "false"),
            ("//d = ''", "true"),
        ],
    );
}

#[test]
fn a_boolean_makes_the_other_side_one() {
    let xml = "<r><a>0</a></r>";
    check(
        xml,
        &[
            ("//a = true()", "true"),
            ("//b = true()", "false"),
            ("//b = false()", "true"),
            ("true() != //b", "true"),
            ("//b < true()", "true"),
            ("//a < true()", "false"),
            ("'false' = true()", "true"),
            ("0 = false()", "true"),
            ("2 = true()", "true"),
            ("true() > 0", "true"),
            ("true() < 'x'", "false"),
        ],
    );
}

#[test]
fn scalars_convert_by_the_rules() {
    check(
        "<r/>",
        &[
            ("'1.0' = 1", "true"),
            ("'1.0' = '1'", "false"),
            ("'a' < 'b'", "false"),
            ("'1' < '2'", "true"),
            ("0 div 0 = 0 div 0", "false"),
            ("0 div 0 != 0 div 0", "true"),
            ("-0 = 0", "true"),
            ("1 div -0 < 0", "true"),
            ("1 < 2 < 3", "true"),
            ("3 > 2 > 1", "false"),
            ("5 mod -2", "1"),
            ("-5 mod 2", "-1"),
            ("1.5 mod 0.5", "0"),
            ("7 div 2", "3.5"),
            ("2 + 3 * 4 - 1", "13"),
            ("--2", "2"),
        ],
    );
}

#[test]
fn text_nodes_and_string_values_differ() {
    let xml = "<r><p>a<i/>b</p><p>a<i>x</i>b</p><p>a<!-- c -->b</p><p>a<![CDATA[b]]></p></r>";
    check(
        xml,
        &[
            ("count(//p[text()='a'])", "3"),
            ("count(//p[text()='ab'])", "1"),
            ("count(//p[.='ab'])", "3"),
            ("count(//p[.='axb'])", "1"),
            ("count(//p[.='a'])", "0"),
            ("count(//p[.='abc'])", "0"),
            ("count(//p[.!='ab'])", "1"),
            ("count(//p[text()!='a'])", "4"),
        ],
    );
}

#[test]
fn values_are_decoded_before_they_are_compared() {
    let xml = "<r t=\"a\tb&#10;c\"><x>1&#x30;</x><y>&lt;\r\n&amp;</y><z>é</z></r>";
    check(
        xml,
        &[
            ("//x = 10", "true"),
            ("//x = '10'", "true"),
            ("//y = '<\n&'", "true"),
            ("/r/@t = 'a b\nc'", "true"),
            ("string-length(//z)", "1"),
            ("/r = '10<\n&é'", "true"),
        ],
    );
}

#[test]
fn a_count_is_compared_with_a_constant_without_counting_on() {
    let xml = "<r><a/><a/><a/></r>";
    check(
        xml,
        &[
            ("count(//a) > 2", "true"),
            ("count(//a) > 3", "false"),
            ("count(//a) = 3", "true"),
            ("count(//a) = 2", "false"),
            ("count(//a) != 3", "false"),
            ("count(//a) < 3.5", "true"),
            ("2.5 < count(//a)", "true"),
            ("count(//a) > -1", "true"),
            ("count(//zzz) = 0", "true"),
            ("count(//a) >= 99999999999999999999", "false"),
        ],
    );
}
