//! Axes, node tests, positions and node-sets.

use super::check;

const TREE: &str = "<r><a><b>t</b><c/></a><a><b/><!--n--><d><b/></d></a><e/></r>";

#[test]
fn forward_and_reverse_axes() {
    check(
        TREE,
        &[
            ("/", "/"),
            ("/*", "r"),
            ("/r/child::node()", "a a e"),
            ("//b/..", "a a d"),
            ("//d/ancestor::*", "r a"),
            ("//d/ancestor::node()", "/ r a"),
            ("//d/ancestor-or-self::*", "r a d"),
            ("//c/following::*", "a b d b e"),
            ("//d/preceding::*", "a b c b"),
            ("//d/preceding::node()", "a b \"t\" c b \"n\""),
            ("//c/preceding-sibling::*", "b"),
            ("//b/following-sibling::*", "c d"),
            ("//e/preceding-sibling::a[1]/*", "b d"),
            ("//e/preceding-sibling::a[2]/*", "b c"),
            ("//d/preceding::*[1]/..", "a"),
            ("//d/ancestor::*[1]", "a"),
            ("(//d/ancestor::*)[1]", "r"),
            ("/r/descendant::b[2]/..", "a"),
            ("/r/descendant-or-self::*[1]", "r"),
            ("//b/self::b", "b b b"),
            ("//b/self::c", ""),
            ("/..", ""),
            ("/following::*", ""),
            ("/preceding-sibling::*", ""),
        ],
    );
}

#[test]
fn node_tests() {
    let xml = "<r>one<!-- two --><?three x?><?four?><a>5</a></r>";
    check(
        xml,
        &[
            ("/r/text()", "\"one\""),
            ("//text()", "\"one\" \"5\""),
            ("/r/comment()", "\" two \""),
            ("/r/processing-instruction()", "three four"),
            ("/r/processing-instruction('four')", "four"),
            ("/r/processing-instruction('five')", ""),
            ("/r/*", "a"),
            ("count(/r/node())", "5"),
            ("string(/r)", "one5"),
            ("string(/r/comment())", " two "),
        ],
    );
}

#[test]
fn positions_count_along_the_axis_within_each_parent() {
    let xml = r#"<r><g><n k="1"/><m/><n k="2"/><n k="3"/></g><g><n k="4"/></g></r>"#;
    check(
        xml,
        &[
            ("//n[1]/@k", "@k=1 @k=4"),
            ("(//n)[1]/@k", "@k=1"),
            ("(//n)[last()]/@k", "@k=4"),
            ("//n[last()]/@k", "@k=3 @k=4"),
            ("//n[last() - 1]/@k", "@k=2"),
            ("//*[3]/@k", "@k=2"),
            ("//n[position() > 1]/@k", "@k=2 @k=3"),
            ("//n[position() > 1][1]/@k", "@k=2"),
            ("//n[@k > 1][1]/@k", "@k=2 @k=4"),
            ("//n[1][@k > 1]/@k", "@k=4"),
            ("//n[1.5]", ""),
            ("//n[0]", ""),
            ("//n[count(../m)]/@k", "@k=1"),
            ("//n[position() = count(../n)]/@k", "@k=3 @k=4"),
            ("//n['1']/@k", "@k=1 @k=2 @k=3 @k=4"),
            ("//n[@k = 3]/preceding-sibling::*[1]/@k", "@k=2"),
            ("//n[@k = 3]/preceding-sibling::*[last()]/@k", "@k=1"),
            ("//n[position() = last() and @k > 3]/@k", "@k=4"),
            ("//n[position() < 3][last()]/@k", "@k=2 @k=4"),
            ("//@k[1]", "@k=1 @k=2 @k=3 @k=4"),
            ("//g[2]/n[1]/@k", "@k=4"),
        ],
    );
}

#[test]
fn unions_and_filters_are_sets_in_document_order() {
    check(
        TREE,
        &[
            ("//d | //b | //d", "b b d b"),
            ("(//d | //c)[1]", "c"),
            ("(//d | //c)[last()]", "d"),
            ("(//b)[2]/..", "a"),
            ("(//a)[1]/b | (//a)[2]/d", "b d"),
            ("//a//b | //b", "b b b"),
            ("(//a/b)[. = 't']", "b"),
            ("((//b)[position() > 1])[1]/following-sibling::d", "d"),
            ("//*[self::c or self::e]", "c e"),
        ],
    );
}

#[test]
fn nested_context_nodes_give_each_node_once() {
    let xml = "<s><s><t/><s><t/><u><t/></u></s></s><t/></s>";
    check(
        xml,
        &[
            ("count(//s//t)", "4"),
            ("count(//s//s//t)", "3"),
            ("count(//s/descendant-or-self::s)", "3"),
            ("count(//t/ancestor::s)", "3"),
            ("count(//t/ancestor::*[1])", "4"),
            ("count(//s/following::t)", "1"),
            ("count(//t/preceding::t)", "3"),
            ("count(//s/descendant::t[1])", "2"),
            ("//s//u//t", "t"),
            ("//s//t//u", ""),
            ("count(//s[.//u])", "3"),
            ("count(//s//t[1])", "4"),
        ],
    );
}

#[test]
fn attributes_as_context_nodes() {
    let xml = r#"<r><a x="1" y="2"><b/></a><c z="3"/></r>"#;
    check(
        xml,
        &[
            ("//@*", "@x=1 @y=2 @z=3"),
            ("//@x/..", "a"),
            ("//@x/ancestor::*", "r a"),
            ("//@x/ancestor-or-self::node()", "/ r a @x=1"),
            ("//@x/self::node()", "@x=1"),
            ("//@x/self::x", ""),
            ("//@x/descendant-or-self::node()", "@x=1"),
            ("//@x/child::node()", ""),
            ("//@y/preceding-sibling::node()", ""),
            // The Recommendation: what comes after the attribute in document order and is no descendant of it.
            ("//@x/following::*", "b c"),
            ("//@z/preceding::*", "a b"),
            ("//a/@*[2]", "@y=2"),
            ("//@*[. > 1]", "@y=2 @z=3"),
            ("//@*[../b]", "@x=1 @y=2"),
            ("/r/@*", ""),
            ("//a/attribute::node()", "@x=1 @y=2"),
            ("//a/attribute::text()", ""),
            ("//b | //@y | //a", "a @y=2 b"),
        ],
    );
}

#[test]
fn namespaces_decide_names() {
    let xml = r#"<r xmlns:one="urn:one"><one:a one:x="1" x="2"/><a xmlns="urn:one"/><a xmlns="urn:two"/><a/></r>"#;
    check(
        xml,
        &[
            ("count(//p:a)", "2"),
            ("count(//q:a)", "1"),
            ("count(//a)", "1"),
            ("count(//p:*)", "2"),
            ("count(//*:a)", "4"),
            ("//@p:x", "@one:x=1"),
            ("//@x", "@x=2"),
            ("//@*:x", "@one:x=1 @x=2"),
            ("//@p:*", "@one:x=1"),
        ],
    );
}

#[test]
fn namespace_nodes() {
    let xml = r#"<r xmlns="urn:d" xmlns:o="urn:one"><a xmlns=""/><b xmlns:o="urn:two"/></r>"#;
    check(
        xml,
        &[
            ("/*/namespace::*", "->urn:d o->urn:one xml->http://www.w3.org/XML/1998/namespace"),
            ("count(//a/namespace::*)", "2"),
            ("string(//*[2]/namespace::o)", "urn:two"),
            ("count(//namespace::o)", "3"),
            ("name(/*/namespace::*[2])", "o"),
            ("namespace-uri(/*/namespace::*[2])", ""),
            ("count(//namespace::*[. = 'urn:one'])", "2"),
            ("//namespace::o/..", "r a b"),
        ],
    );
}

#[test]
fn siblings_of_the_root_element() {
    let xml = "<?go 1?><!--before--><r><a/></r><!--after-->";
    check(
        xml,
        &[
            ("/node()", "go \"before\" r \"after\""),
            ("/r/preceding-sibling::node()", "go \"before\""),
            ("/r/following::node()", "\"after\""),
            ("/comment()[2]/preceding::*", "r a"),
            ("string(/)", ""),
        ],
    );
}
