//! Work and stack are bounded: by the budget, and by algorithms that do not multiply.

use super::Case;
use crate::eval::{Context, EvalError, NodeRef};
use crate::query::ast::{Expr, Step};

/// Visits of a Boolean evaluation.
fn visits(xml: &str, query: &str) -> u64 {
    let case = Case::new(xml, query);
    let evaluator = case.evaluator();
    evaluator.boolean(&case.expr, Context::DOCUMENT).expect(query);
    evaluator.visits()
}

fn nest(name: &str, depth: usize) -> String {
    format!("{}{}", format!("<{name}>").repeat(depth), format!("</{name}>").repeat(depth))
}

#[test]
fn work_is_linear_however_context_nodes_nest() {
    let queries = [
        "//a//a//a//a//a//z",
        "//a//z",
        "//*//*//z | //*//*//y",
        "//a[.//z]//a[.//z]",
        "//z/ancestor::a//y",
        "//a/ancestor::a/ancestor::a/ancestor::z",
        "//a/..//z",
        "//a/following::a//z",
        "//a/preceding::a/preceding::z",
        "//a/descendant-or-self::node()/descendant-or-self::node()/z",
        "//a[z]/a[z]/a",
        "//*[/a/a/a/z]",
        "//*[count(//*) > 3][count(//*) > 99999]",
        "//a[@x = //b/@y]",
        "//a[@x < //b/@y]",
    ];
    for query in queries {
        let (small, large) = (visits(&nest("a", 200), query), visits(&nest("a", 800), query));
        // Four times the nodes; a quadratic step would cost sixteen times as much.
        assert!(large <= 6 * small, "{query}: {small} visits for 200 nodes, {large} for 800");
    }
}

#[test]
fn nested_brackets_do_not_multiply() {
    let query = "//a[.//a[.//a[.//a[.//z]]]]";
    let (small, large) = (visits(&nest("a", 50), query), visits(&nest("a", 200), query));
    // Each bracket is decided once per node, in time linear in the node's subtree: quadratic, not of the fifth degree.
    assert!(large <= 20 * small, "{small} visits for 50 nodes, {large} for 200");
}

#[test]
fn siblings_do_not_multiply() {
    let flat = |n: usize| format!("<r>{}</r>", "<a/>".repeat(n));
    let queries = [
        "//a/following-sibling::a/z",
        "//a/preceding-sibling::a/z",
        "//a/following::a/z",
        "//a/../a/../a/z",
        "//a[99999]",
        "//a[last()]/z",
        "//a[position() = last()]/z",
        "//a[position() mod 2 = 0]/z",
    ];
    for query in queries {
        let (small, large) = (visits(&flat(200), query), visits(&flat(800), query));
        assert!(large <= 6 * small, "{query}: {small} visits for 200 nodes, {large} for 800");
    }
}

#[test]
fn a_path_exists_at_the_first_hit() {
    let xml = format!("<r><a><b>1</b></a>{}</r>", "<a><b>2</b></a>".repeat(10_000));
    let queries =
        ["//b", "//a/b", "/r/a[b]", "//a[b = 1]", "//b = '1'", "//b != 2", "//a[1]", "/r/a[1]/b", "count(//b) > 0"];
    for query in queries {
        assert!(visits(&xml, query) < 40, "{query}: {} visits", visits(&xml, query));
    }
}

/// Visits of asking the predicate of `//a[...]` of each `a`, one after the other, as the engine does.
fn visits_of_condition(xml: &str, predicate: &str) -> u64 {
    let case = Case::new(xml, &format!("//a[{predicate}]"));
    let evaluator = case.evaluator();
    let step = last_step(&case.expr);
    for node in 1..case.document.nodes.len() as u32 {
        evaluator.resume(7);
        if case.document.nodes[node as usize].name == case.document.nodes[2].name {
            evaluator.condition(&step.predicates[0], NodeRef::Node(node)).expect(predicate);
        }
        // Others are asked in between.
        evaluator.resume(8);
    }
    evaluator.resume(7);
    evaluator.visits()
}

#[test]
fn conditions_asked_of_many_nodes_do_not_multiply() {
    let flat = |n: usize| format!("<r>{}{}</r>", "<a y='1'/>".repeat(n), "<x>v</x>".repeat(n));
    let predicates = [
        "@y = /r/x",
        "@y < /r/x",
        "count(/r/x) > 99999",
        "/r/x = @y",
        "following-sibling::q",
        "preceding-sibling::q",
        "following::q[@z]",
        "preceding::q",
        "not(following-sibling::x)",
    ];
    for predicate in predicates {
        let (small, large) =
            (visits_of_condition(&flat(1_000), predicate), visits_of_condition(&flat(4_000), predicate));
        assert!(large <= 6 * small.max(1_000), "{predicate}: {small} visits for 1000 nodes, {large} for 4000");
    }
    let deep = |n: usize| format!("<r>{}{}</r>", "<a>".repeat(n), "</a>".repeat(n));
    for predicate in [".//z", ".//a[.//z]", "descendant::a[@x]/z"] {
        let (small, large) = (visits_of_condition(&deep(500), predicate), visits_of_condition(&deep(2_000), predicate));
        assert!(large <= 20 * small, "{predicate}: {small} visits for depth 500, {large} for 2000");
    }
    // From each node to each ancestor, but not to each ancestor's ancestors again.
    let nested = "ancestor::a[ancestor::a[ancestor::a[@x]]]";
    let (small, large) = (visits_of_condition(&deep(250), nested), visits_of_condition(&deep(1_000), nested));
    assert!(large <= 20 * small, "{nested}: {small} visits for depth 250, {large} for 1000");
}

#[test]
fn a_query_has_one_budget_for_all_nodes_it_is_asked_of() {
    let xml = format!("<r>{}</r>", "<a><b/></a>".repeat(1_000));
    let case = Case::new(&xml, "//a[sum(following::*) = 8]");
    let evaluator = case.evaluator().with_budget(20_000);
    let step = last_step(&case.expr);
    let elements = (1..case.document.nodes.len() as u32).step_by(2);
    let failed = elements.into_iter().any(|node| {
        evaluator.resume(1);
        let answer = evaluator.condition(&step.predicates[0], NodeRef::Node(node));
        evaluator.resume(2);
        answer.is_err()
    });
    assert!(failed, "each node alone is within the budget");
    assert_eq!(evaluator.visits(), 0, "the other query has not been charged");
}

#[test]
fn an_early_position_ends_the_walk() {
    let xml = format!("<r>{}</r>", "<a/>".repeat(10_000));
    for query in [
        "/r/a[2]/z",
        "/r/a[position() < 3]/z",
        "/r/a[position() <= 2]/z",
        "/r/a[2 > position()]/z",
        "/r/a[. = ''][2]/z",
    ] {
        assert!(visits(&xml, query) < 40, "{query}: {} visits", visits(&xml, query));
    }
}

#[test]
fn depth_does_not_use_the_stack() {
    let xml = nest("a", 200_000);
    for query in [
        "count(//a/ancestor::a)",
        "count(//a//a)",
        "string(//z) = string(/)",
        "//a[not(*)][. = '']",
        "//a[not(a)]/ancestor::a[last()]",
    ] {
        let case = Case::new(&xml, query);
        let evaluator = case.evaluator();
        assert!(evaluator.boolean(&case.expr, Context::DOCUMENT).expect(query), "{query}");
    }
}

#[test]
fn long_paths_do_not_use_the_stack() {
    let case = Case::new(&nest("a", 900), &"/a".repeat(900));
    assert_eq!(case.evaluator().boolean(&case.expr, Context::DOCUMENT), Ok(true));
    let case = Case::new(&nest("a", 899), &"/a".repeat(900));
    assert_eq!(case.evaluator().boolean(&case.expr, Context::DOCUMENT), Ok(false));
}

#[test]
fn the_budget_ends_what_is_too_expensive() {
    let xml = format!("<r>{}</r>", "<a><b/></a>".repeat(2_000));
    let query = "//*[sum(following::*[sum(preceding::*) = 5]) = 3]/z";
    let case = Case::new(&xml, query);
    let evaluator = case.evaluator().with_budget(100_000);
    let answer = evaluator.boolean(&case.expr, Context::DOCUMENT);
    assert_eq!(answer, Err(EvalError::BudgetExceeded { visits_max: 100_000 }));
    evaluator.reset_visits();
    assert_eq!(evaluator.exists(&[], NodeRef::Node(0)), Ok(true));
    assert!(evaluator.boolean(&case.expr, Context::DOCUMENT).is_err());
}

#[test]
fn text_counts_as_work() {
    let xml = format!("<r><t>{}</t>{}</r>", "x".repeat(100_000), "<a/>".repeat(1_000));
    let case = Case::new(&xml, "//a[contains(concat(/r/t, @x), 'y')]");
    let evaluator = case.evaluator().with_budget(100_000);
    assert!(evaluator.boolean(&case.expr, Context::DOCUMENT).is_err());
}

/// The last step of a path query.
fn last_step(expr: &Expr) -> &Step {
    match expr {
        Expr::Path(path) => path.steps.last().expect("a step"),
        other => panic!("no path: {other:?}"),
    }
}

#[test]
fn predicates_hold_as_in_a_child_step() {
    let xml = r#"<r><n k="1"/><m/><n k="2"><n k="5"/></n>x<n k="3"/></r>"#;
    for query in [
        "//n[2]",
        "//n[last()]",
        "//n[@k > 1]",
        "//n[@k > 1][1]",
        "//*[2]",
        "//n[position() = last()][@k]",
        "//node()[4]",
        "//n[.. = 'x'][2]",
    ] {
        let case = Case::new(xml, query);
        let evaluator = case.evaluator();
        let selected = evaluator.nodes(&case.expr, Context::DOCUMENT).expect(query);
        for node in 0..case.document.nodes.len() as u32 {
            let holds = evaluator.predicates_hold(last_step(&case.expr), node).expect(query);
            assert_eq!(holds, selected.contains(&NodeRef::Node(node)), "{query}, node {node}");
        }
    }
}

#[test]
fn positions_of_many_siblings_are_found_once() {
    let xml = format!("<r>{}</r>", "<n/>".repeat(2_000));
    let case = Case::new(&xml, "//n[last()]");
    let evaluator = case.evaluator();
    for node in 2..2_002 {
        evaluator.predicates_hold(last_step(&case.expr), node).expect("no budget");
    }
    assert!(evaluator.visits() < 30_000, "{} visits", evaluator.visits());
}

#[test]
fn one_step_at_a_time() {
    let case = Case::new("<r><a><b/></a><a/><c><b/></c></r>", "/r/a/b");
    let Expr::Path(path) = &case.expr else { panic!("no path") };
    let evaluator = case.evaluator();
    let mut nodes = vec![NodeRef::Node(0)];
    let mut sizes = Vec::new();
    for step in &path.steps {
        nodes = evaluator.step(&nodes, step).expect("no budget");
        sizes.push(nodes.len());
    }
    assert_eq!(sizes, [1, 2, 1]);
}
