//! Normal forms: which rewritings happen, and which must not.

use twigcast_core::document::{Document, Message};
use twigcast_core::eval::{Context, Evaluator, NodeRef, Value};
use twigcast_core::limits::Limits;
use twigcast_core::query::ast::Expr;
use twigcast_core::query::normal::{normalise, normalise_condition};
use twigcast_core::query::position::uses_position;
use twigcast_core::scan::{ScanOptions, Scanner};
use twigcast_core::vocabulary::Vocabulary;

use super::testing::{Messages, Random};
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
        assert_eq!(uses_position(&xpath_of(text, &mut vocabulary)), expected, "{text}");
    }
}

/// A random expression that stands in a predicate or alone.
fn expression(random: &mut Random, depth: usize) -> String {
    let inner = |random: &mut Random| expression(random, depth + 1);
    if depth > 2 {
        return path(random, depth);
    }
    match random.below(18) {
        0 => format!("not({})", inner(random)),
        1 => format!("boolean({})", inner(random)),
        2 => format!("({} and {})", inner(random), inner(random)),
        3 => format!("({} or {})", inner(random), inner(random)),
        4 => format!("{} = {}", path(random, depth), random.one(&["1", "'x'", "2", "last()", "position()"])),
        5 => random.one(&["true()", "false()", "1", "2", "0", "''", "'x'", "last()", "position()"]).to_owned(),
        6 => format!("count({})", path(random, depth)),
        7 => format!("{} = {}", random.one(&["1", "'x'"]), random.one(&["1", "2", "'x'"])),
        8 => format!("not(not({}))", inner(random)),
        9 => format!("position() {} {}", random.one(&["<", "=", "!="]), random.one(&["1", "2", "last()"])),
        10 => format!("({} | {})", path(random, depth), path(random, depth)),
        11 => format!("- - count({})", path(random, depth)),
        _ => path(random, depth),
    }
}

fn path(random: &mut Random, depth: usize) -> String {
    let mut text = random.one(&["", "", "", ".//", "//", "/", "./", "../"]).to_owned();
    for step in 0..1 + random.below(3) {
        if step > 0 {
            text += random.one(&["/", "/", "//", "/.//", "/./"]);
        }
        text += random.one(&["a", "b", "*", "node()", "text()", "self::node()", "self::a", "descendant::b", "@*", "."]);
        while depth < 3 && !text.ends_with('.') && random.below(3) == 0 {
            text += &format!("[{}]", expression(random, depth + 1));
        }
    }
    if random.below(6) == 0 {
        text = format!("({text})");
        for _ in 0..random.below(3) {
            text += &format!("[{}]", expression(random, depth + 1));
        }
        text += random.one(&["", "/a", "//b"]);
    }
    text
}

const MESSAGES: Messages = Messages {
    names: &["a", "b", "c"],

    attributes: (&["x", "y"], 33),
    values: &["1", "x"],
    contents: (&["1", "x", "<!--x-->"], 40),
    children: (4, 5),
    ..Messages::EMPTY
};

#[test]
fn normal_forms_have_the_same_value_at_every_node() {
    let seed = 0x0011_A72B;
    println!("seed {seed}");
    let mut random = Random(seed);
    let (mut changed, mut selecting) = (0, 0);
    for _ in 0..300 {
        let xml = MESSAGES.one(&mut random);
        for _ in 0..20 {
            let text = expression(&mut random, 0);
            let mut vocabulary = Vocabulary::new();
            // Inside a predicate, so that relative paths stay relative.
            let Expr::Path(outer) = xpath_of(&format!("/*[boolean({text})]"), &mut vocabulary) else {
                panic!("{text}")
            };
            let Expr::Call { arguments, .. } = outer.steps[0].predicates[0].clone() else { panic!("{text}") };
            let expr = arguments[0].clone();
            let normal = normalise(expr.clone());
            let condition = normalise_condition(expr.clone());
            let mut document = Document::default();
            let limits = Limits::default();
            Scanner::new().scan(xml.as_bytes(), &vocabulary, &limits, ScanOptions::ALL, &mut document).unwrap();
            let message = Message { source: xml.as_bytes(), document: &document };
            let evaluator = Evaluator::new(message, &vocabulary, &[]);
            changed += usize::from(normal != expr);
            for node in 0..document.nodes.len() as u32 {
                let context = Context { node: NodeRef::Node(node), position: 1 + node % 2, size: 2 };
                let value = evaluator.value(&expr, context);
                let described = || format!("seed {seed}: {text} is {} on {xml} at {node}", shown(&normal, &vocabulary));
                assert_eq!(evaluator.value(&normal, context), value, "{}", described());
                assert_eq!(
                    evaluator.boolean(&condition, context),
                    evaluator.boolean(&expr, context),
                    "{}",
                    described()
                );
                selecting += usize::from(matches!(value, Ok(Value::Nodes(nodes)) if !nodes.is_empty()));
            }
        }
    }
    assert!(changed > 1_000, "{changed} expressions were simplified");
    assert!(selecting > 5_000, "{selecting} times nodes were selected");
}
