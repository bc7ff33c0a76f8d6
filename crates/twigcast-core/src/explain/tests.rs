//! Explanations: what held, what failed first, and the near misses people run into.

use std::collections::BTreeMap;

use super::report::{Detail, Explanation, Hint, HintKind, StepReport, Verdict};
use super::{explain, json};
use crate::engine::QueryContext;
use crate::limits::Limits;
use crate::query::Dialect;

fn explained(xml: &str, query: &str, namespaces: &[(&str, &str)]) -> Explanation {
    let namespaces = namespaces.iter().map(|&(prefix, uri)| (prefix.to_owned(), uri.to_owned())).collect();
    let context = QueryContext::new(namespaces, Dialect::XPath);
    let explanation = explain(xml.as_bytes(), query, &context, &Limits::default());
    explanation.unwrap_or_else(|error| panic!("{query}: {error:?}"))
}

/// All hints of a verdict and its parts, outermost first.
fn hints(verdict: &Verdict) -> Vec<&Hint> {
    let mut all: Vec<&Hint> = verdict.hints.iter().collect();
    let steps = |steps: &'_ [StepReport]| -> Vec<usize> { (0..steps.len()).collect() };
    match &verdict.detail {
        Detail::All(operands) | Detail::Any(operands) => all.extend(operands.iter().flat_map(hints)),
        Detail::Not(operand) => all.extend(hints(operand)),
        Detail::Path(path) => {
            for index in steps(&path.steps) {
                all.extend(step_hints(&path.steps[index]));
            }
        }
        Detail::Comparison { left, right, .. } => {
            for path in [&left.empty, &right.empty].into_iter().flatten() {
                all.extend(path.steps.iter().flat_map(step_hints));
            }
        }
        Detail::Value(_) | Detail::Omitted => {}
    }
    all
}

fn step_hints(step: &StepReport) -> Vec<&Hint> {
    let examples = step.example.iter().flat_map(|example| example.predicates.iter().flat_map(hints));
    step.hints.iter().chain(examples).collect()
}

fn steps(explanation: &Explanation) -> &[StepReport] {
    match &explanation.verdict.detail {
        Detail::Path(path) => &path.steps,
        other => panic!("no path: {other:?}"),
    }
}

#[test]
fn a_match_shows_its_nodes_and_the_predicates_that_held() {
    let xml = "<r>\n <a k=\"1\"><b>x</b></a>\n <a k=\"2\"><b>y</b><c/></a>\n</r>";
    let explanation = explained(xml, "//a[@k > 1][b = 'y']/c", &[]);
    assert!(explanation.matches);
    assert_eq!(explanation.node_count, Some(1));
    let node = &explanation.nodes[0];
    assert_eq!((node.path.as_str(), node.line, node.column), ("/r/a[2]/c", 3, 19));
    let step = &steps(&explanation)[0];
    assert_eq!((step.text.as_str(), step.candidates, step.selected), ("//a[@k > 1][b = 'y']", 2, 1));
    let example = step.example.as_ref().expect("a witness");
    assert_eq!(example.location.path, "/r/a[2]");
    assert!(example.predicates.iter().all(|predicate| predicate.holds));
    assert!(explanation.absent_names.is_empty());
}

#[test]
fn a_miss_names_the_first_step_that_fails() {
    let xml = "<feed><entry><title>Gale</title></entry><entry/></feed>";
    let explanation = explained(xml, "/feed/entry/author/name", &[]);
    assert!(!explanation.matches);
    let steps = steps(&explanation);
    assert_eq!(steps.iter().map(|step| step.selected).collect::<Vec<_>>(), [1, 2, 0]);
    assert_eq!(steps[2].text, "/author");
    assert_eq!(steps[2].hints[0].kind, HintKind::Instead);
    assert!(steps[2].hints[0].message.contains("`title`"));
    let absent: Vec<_> = explanation.absent_names.iter().map(|absent| absent.name.as_str()).collect();
    assert_eq!(absent, ["author", "name"]);
}

#[test]
fn near_misses() {
    let table = [
        // A name in another namespace, in other case, misspelt, of another kind, elsewhere.
        ("<Pack xmlns='urn:demo'><id/></Pack>", "/Pack/id", HintKind::Namespace),
        ("<r><Item/></r>", "/r/item", HintKind::Case),
        ("<r><headline/></r>", "/r/heedline", HintKind::Spelling),
        ("<r><a id='1'/></r>", "/r/a/id", HintKind::AttributeOrElement),
        ("<r><a><id/></a></r>", "/r/a/@id", HintKind::AttributeOrElement),
        ("<r><a><b/></a></r>", "/r/b", HintKind::Elsewhere),
        ("<r><a/></r>", "/r/b", HintKind::Instead),
        ("<r><a><b>t</b></a></r>", "/r/a/text()", HintKind::StringValue),
        // A value with other white space, in other case, the same number, no number, more than one piece of text.
        ("<r><a> x\n</a></r>", "/r[a = 'x']", HintKind::WhiteSpace),
        ("<r><a>Severe</a></r>", "/r[a = 'severe']", HintKind::Case),
        ("<r><a n='011'/></r>", "/r/a[@n = '11']", HintKind::AsNumber),
        ("<r><sum>25,000</sum></r>", "/r[sum > 1000]", HintKind::NotANumber),
        ("<r><sum>+5</sum></r>", "/r[sum > 1]", HintKind::NotANumber),
        ("<r><sum/></r>", "/r[sum = 0]", HintKind::NotANumber),
        ("<r><code>AB<!--c-->12</code></r>", "/r/code[text() = 'AB12']", HintKind::StringValue),
        ("<r><a>one two</a></r>", "/r[a = 'two']", HintKind::Contained),
        ("<r><a>Storm warning</a></r>", "/r[contains(a, 'storm')]", HintKind::Case),
        ("<r><a>no</a><a>storm</a></r>", "/r[contains(a, 'storm')]", HintKind::FirstNodeOnly),
        ("<r><a>x</a></r>", "/r[normalize-space(a) = 'X']", HintKind::Case),
        // Structure.
        ("<r><a/></r>", "/r[b != 'Past']", HintKind::Absent),
        ("<r><a/><a/></r>", "/r/a[3]", HintKind::Position),
        ("<r><a x='1' y='2'/><a x='3' y='4'/></r>", "/r/a[@x = 1][@y = 4]", HintKind::OnePredicate),
        ("<r><a x='1' y='2'/><a x='3' y='4'/></r>", "/r/a[@x = 1 and @y = 4]", HintKind::OnePredicate),
    ];
    for (xml, query, kind) in table {
        let explanation = explained(xml, query, &[]);
        assert!(!explanation.matches, "{query}");
        let result: Vec<_> = hints(&explanation.verdict).iter().map(|hint| hint.kind).collect();
        assert!(result.contains(&kind), "{query} on {xml}: {result:?}");
    }
}

#[test]
fn the_nearest_candidate_is_the_example() {
    let xml = r#"<r><a k="0"/><a k="5"><b>X</b></a><a k="7"><b>no</b></a></r>"#;
    let explanation = explained(xml, "/r/a[@k > 1][b = 'x']", &[]);
    let example = steps(&explanation)[1].example.as_ref().expect("an example");
    assert_eq!(example.location.path, "/r/a[2]");
    assert_eq!(example.predicates.iter().map(|p| p.holds).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn logic_is_taken_apart() {
    let explanation = explained("<r><a/></r>", "/r/a and (/r/b or not(/r/a))", &[]);
    let Detail::All(operands) = &explanation.verdict.detail else { panic!("no conjunction") };
    assert_eq!(operands.iter().map(|operand| operand.holds).collect::<Vec<_>>(), [true, false]);
    let Detail::Any(alternatives) = &operands[1].detail else { panic!("no disjunction") };
    assert!(matches!(&alternatives[1].detail, Detail::Not(operand) if operand.holds));
    assert_eq!(explanation.node_count, None);
}

#[test]
fn absent_names_say_where_they_are_instead() {
    let explanation = explained(
        "<c:alert xmlns:c='urn:cap:1.1'><c:info severity='x'/></c:alert>",
        "//cap:info[cap:severity]",
        &[("cap", "urn:cap:1.2")],
    );
    let kinds = |index: usize| -> Vec<HintKind> {
        explanation.absent_names[index].nearest.iter().map(|(kind, _)| *kind).collect()
    };
    assert_eq!(explanation.absent_names[0].name, "info");
    assert_eq!(kinds(0), [HintKind::Namespace]);
    assert!(explanation.absent_names[0].nearest[0].1.contains("urn:cap:1.1"));
}

#[test]
fn for_where_return_is_explained_by_its_condition() {
    let query = "for $i in /rss/item where $i/cat = 'tools' return <t>{ $i/title }</t>";
    let explanation = explained("<rss><item><cat>Tools</cat></item></rss>", query, &[]);
    assert!(!explanation.matches);
    assert!(explanation.exact);
    assert!(hints(&explanation.verdict).iter().any(|hint| hint.kind == HintKind::Case));
}

#[test]
fn every_form_of_query_has_an_explanation() {
    let xml = r#"<r xmlns:n="urn:n"><a x="1">t<!--c--><?p i?></a><n:b>2</n:b><a/></r>"#;
    let queries = [
        "/",
        "/r",
        "//@x",
        "//a/@*",
        "//text()",
        "//comment()",
        "//processing-instruction('q')",
        "//namespace::n",
        "(//a)[2]",
        "(//a | //b)[last()]/@y",
        "//a[1] | //c",
        "count(//a)",
        "count(//a) = 3",
        "string(//a)",
        "sum(//b) > 1",
        "'x'",
        "0",
        "not(//a)",
        "//a[last()]",
        "//a[position() = 2][@x]",
        "//a/..",
        "//a/following-sibling::*[1][self::b]",
        "//a/ancestor::q",
        "id('x')",
        "lang('en')",
        "//*[. = //a]",
        "//a = //b",
        "1 = 1",
        "//a[not(@x)][not(b = 'x')]",
        "//a[.//b[c[d]]]",
        "boolean(//a)",
        "starts-with(//a, 'u')",
        "//a[-1]",
        "//a[count(../*)]",
        "//@x/following::b",
    ];
    for query in queries {
        let explanation = explained(xml, query, &[]);
        let text = json::explanation(&explanation);
        assert!(text.starts_with("{\"matches\":") && text.ends_with('}'), "{text}");
    }
}

#[test]
fn json_escapes_what_it_must() {
    let explanation = explained("<r>\"\\\t\u{1F600}</r>", "/r", &[]);
    assert!(json::explanation(&explanation).contains(r#""value":"\"\\\u0009😀""#));
}

#[test]
fn explaining_is_bounded() {
    let xml = format!("<r>{}</r>", "<a><b/></a>".repeat(3_000));
    let limits = Limits { query_visits_max: 10_000, ..Limits::default() };
    let query = "//a[count(following::*[position() mod count(preceding::*) = 5]) mod 7 = 3]/z";
    let failed = explain(xml.as_bytes(), query, &QueryContext::new(BTreeMap::new(), Dialect::XPath), &limits);
    assert!(failed.is_err());
}
