//! Conformance examples of the filtering literature: paths, nested paths, value and position predicates.

use super::matches;

const BULLETIN: &str = r#"<bulletin lang="en" rev="3"><head><title>Storm</title><area code="N1" risk="2"/><area code="N2" risk="5"/></head><part kind="sea"><title>Gale</title><part kind="coast"><note>high</note><part kind="bay"><note>low</note></part></part></part><part kind="air"><note>low</note><fig no="1"/><fig no="2"/><fig no="10"/></part></bulletin>"#;

#[test]
fn bulletin() {
    let table = [
        ("/bulletin", true),
        ("/head", false),
        ("//head", true),
        ("/bulletin/part/part", true),
        ("/bulletin/part/part/part", true),
        ("/bulletin/part/part/part/part", false),
        ("//part/part/note", true),
        ("//part//part//note", true),
        ("/*/part/*/part", true),
        ("/*/*/*/*/note", true),
        ("//*/note", true),
        ("/bulletin//*/fig", true),
        ("//fig/*", false),
        (r#"//part[@kind="coast"]/note"#, true),
        ("//part[@kind]/fig", true),
        (r#"//part[@kind="air"][@kind="sea"]"#, false),
        ("//area[@risk>2]", true),
        (r#"//area[@risk>=5][@code="N2"]"#, true),
        ("//area[@risk>5]", false),
        (r#"//area[@code!="N1"]"#, true),
        ("//fig[@no<2]", true),
        (r#"//fig[@no="10"]"#, true),
        ("//fig[@no=10]", true),
        (r#"//note[text()="low"]"#, true),
        (r#"//part[note="low"]/fig"#, true),
        (r#"//part[note="high"]/part[note="low"]"#, true),
        (r#"//part[title="Gale"]//note[text()="low"]"#, true),
        ("/bulletin/part[position()=2]/fig", true),
        ("/bulletin/part[2]", true),
        ("/bulletin/part[3]", false),
        ("/bulletin/*[3]/fig", true),
        ("/bulletin/*[2]/fig", false),
        ("//fig[3][@no=10]", true),
        ("//fig[@no=10][1]", true),
        ("//fig[@no=10][3]", false),
        ("//part[2]/fig", true),
        ("//part[title][part/note]", true),
        ("//part[title][part[note][part/note]]", true),
        (r#"//part[title][part[note[text()="low"]]]"#, false),
        (r#"//part[title][.//note="low"]"#, true),
        (r#"//part[.//part[@kind="bay"]]/title"#, true),
        ("/bulletin[head/area[@risk=5]]/part[fig]", true),
        (r#"/bulletin[head/area[@risk=2][@code="N2"]]"#, false),
        (r#"/bulletin[head[area[@risk=2]][area[@code="N2"]]]"#, true),
        ("//part[part][fig]", false),
        ("/bulletin[part/part][part/fig]", true),
        ("//*[note][fig]", true),
        ("//*[*]/note", true),
    ];
    for (query, expected) in table {
        assert_eq!(matches(BULLETIN, query), expected, "{query}");
    }
}

#[test]
fn recursion_wildcards_and_branches() {
    let table = [
        ("/a/b//b/c", "<a><b><c/></b></a>", false),
        ("//*//*/a", "<r><a/></r>", false),
        ("/*//a", "<r><a/></r>", true),
        ("//*/a", "<r><a/></r>", true),
        ("/a//*", "<a><b/></a>", true),
        ("//a[@p=1][@q=1]", r#"<a p="1"><a q="1"/></a>"#, false),
        (r#"//a[@q="1"]//b"#, r#"<a q="1"><a q="2"><b/></a></a>"#, true),
        (r#"//a[@q="1"]/b"#, r#"<a q="1"><a q="2"><b/></a></a>"#, false),
        ("/m/sea[tide][wind]", "<m><sea><tide/></sea><sea><wind/></sea></m>", false),
        ("/m/sea[tide][wind]", "<m><sea><tide/><wind/></sea></m>", true),
        ("//A//B[D]//C", "<A><B><D/><B><D/><B/><C/><C/></B></B></A>", true),
        ("//b[c/d]/c/e", "<a><b><c><d/><e/></c></b></a>", true),
        ("//b[.//c]/d", "<a><b><d><c/></d></b></a>", true),
        ("//a[x]//b[c]/d", "<a><x/><a><b><c/><d/></b></a></a>", true),
        ("//*[c]/c", "<d><c/><c/></d>", true),
        ("//a[x]/b[c]/d", "<a><b><c/><d/></b><a><x/><y/></a></a>", false),
        ("//a[@x=1]/b", r#"<a x="1"><a x="2"><b/></a></a>"#, false),
        ("/*//b", "<b/>", false),
    ];
    for (query, xml, expected) in table {
        assert_eq!(matches(xml, query), expected, "{query} on {xml}");
    }
}
