//! What is found for many nodes at once is what is found for each alone: random expressions, asked of each node of random
//! documents by an evaluator for which everything has become expensive, and by one for each node.

use super::Case;
use crate::document::Document;
use crate::eval::{Evaluator, NodeRef};
use crate::ids::AttributeId;
use crate::query::ast::Axis;
use crate::query::ast::{Expr, Step};
use crate::testing::Random;

fn document(random: &mut Random, text: &mut String, depth: usize) {
    for _ in 0..random.below(if depth < 2 { 5 } else { 3 }) {
        match random.below(9) {
            0 => *text += random.one(&["1", "2", "17", "x", "1.5", " ", "ß€", "&amp;x"]),
            1 => *text += random.one(&["<!--1-->", "<?i 2?>", "<?q x?>"]),
            _ => {
                let name = random.one(&["a", "a", "b", "c"]);
                *text += &format!("<{name}");
                for attribute in ["x", "y", "xml:id", "xml:lang", "xmlns:p"] {
                    if random.below(4) == 0 {
                        *text += &format!(" {attribute}='{}'", random.one(&["1", "2", "3", "x", "en"]));
                    }
                }
                *text += ">";
                if depth < 7 {
                    document(random, text, depth + 1);
                }
                *text += &format!("</{name}>");
            }
        }
    }
}

fn test(random: &mut Random) -> &'static str {
    random.one(&["a", "b", "c", "*", "node()", "x", "text()", "q", "*", "comment()", "processing-instruction('i')"])
}

fn path(random: &mut Random, depth: usize) -> String {
    let mut path = random.one(&["", "", "", "", "", "/", "//", ".//", "../", "../"]).to_owned();
    if random.below(12) == 0 {
        path = format!("({} | {})", self::path(random, depth), self::path(random, depth)) + &predicates(random, depth);
        if random.below(2) == 0 {
            return path;
        }
        path += "/";
    }
    for number in 0..1 + random.below(3) {
        if number > 0 {
            path += random.one(&["/", "/", "/", "//"]);
        }
        path += &match random.below(8) {
            0 => "..".to_owned(),
            1 => format!("@{}", random.one(&["x", "y", "*"])),
            2 => format!("{}{}", test(random), predicates(random, depth)),
            _ => format!("{}::{}{}", random.one(&Axis::ALL).1, test(random), predicates(random, depth)),
        };
    }
    path
}

fn predicates(random: &mut Random, depth: usize) -> String {
    let mut all = String::new();
    while depth > 0 && random.below(3) == 0 {
        all += &match random.below(5) {
            0 => format!("[{}]", random.one(&["1", "2", "last()", "position() = last()", "position() < 3"])),
            _ => format!("[{}]", boolean(random, depth - 1)),
        };
    }
    all
}

fn text(random: &mut Random, depth: usize) -> String {
    match random.below(9) {
        0 => format!("'{}'", random.one(&["1", "2", "x", "", "en", "1x"])),
        1 => format!("string({})", path(random, depth)),
        2 => random.one(&["string()", "name()", "local-name(..)", "normalize-space()"]).to_owned(),
        3 => format!("concat({}, {})", path(random, depth), path(random, depth)),
        4 => format!("substring({}, 2, 3)", path(random, depth)),
        5 => format!("translate({}, '12', 'x')", path(random, depth)),
        6 => format!("substring-after({}, 'x')", path(random, depth)),
        _ => format!("string({})", path(random, depth)),
    }
}

fn number(random: &mut Random, depth: usize) -> String {
    match random.below(7) {
        0 => random.one(&["0", "1", "2", "3"]).to_owned(),
        1 | 2 => format!("count({})", path(random, depth)),
        3 => format!("sum({})", path(random, depth)),
        4 => format!("string-length({})", path(random, depth)),
        5 => format!("number({})", path(random, depth)),
        _ => format!("{} + {}", number(random, depth), number(random, depth)),
    }
}

fn boolean(random: &mut Random, depth: usize) -> String {
    let equality = random.one(&["=", "!=", "="]);
    let order = random.one(&["=", "<", ">", "<=", ">=", "!="]);
    match random.below(16) {
        0 => format!("not({})", boolean(random, depth)),
        1 => format!("{} and {}", boolean(random, depth), boolean(random, depth)),
        2 => format!("{} or {}", boolean(random, depth), boolean(random, depth)),
        3 | 4 => format!("{} {equality} '{}'", path(random, depth), random.one(&["1", "2", "x", ""])),
        5 | 6 => format!("{} {order} {}", path(random, depth), random.one(&["1", "2", "3"])),
        7 | 8 => format!("{} {order} {}", path(random, depth), path(random, depth)),
        9 => format!("contains({}, {})", path(random, depth), text(random, depth)),
        10 => format!("starts-with({}, '{}')", path(random, depth), random.one(&["1", "x", ""])),
        11 => format!("{} {equality} {}", text(random, depth), text(random, depth)),
        12 => format!("{} {order} {}", number(random, depth), number(random, depth)),
        13 => random.one(&["lang('en')", "id('1')/@x", "id(@x)", "@x = id('2')/@y"]).to_owned(),
        _ => path(random, depth),
    }
}

/// The last predicate of a path.
fn condition(expr: &Expr) -> &Expr {
    let Expr::Path(path) = expr else { panic!("no path: {expr:?}") };
    let step: &Step = path.steps.last().expect("a step");
    &step.predicates[0]
}

fn nodes(document: &Document) -> Vec<NodeRef> {
    let tree = (0..document.nodes.len() as u32).map(NodeRef::Node);
    tree.chain((0..document.attributes.len()).map(AttributeId::new).map(NodeRef::Attribute)).collect()
}

/// An evaluator for which everything has become expensive.
fn exhausted(case: &Case) -> Evaluator<'_> {
    let evaluator = case.evaluator();
    evaluator.charge(1_000_000).expect("no budget");
    evaluator.note_search(1 << 40);
    evaluator
}

#[test]
fn what_is_found_at_once_is_what_is_found_for_each() {
    let mut matching = 0;
    for seed in 0..6_000 {
        let mut random = Random(seed);
        let mut xml = "<a>".to_owned();
        document(&mut random, &mut xml, 0);
        xml += "</a>";
        let query = format!("//node()[{}]", boolean(&mut random, 3));
        let case = Case::new(&xml, &query);
        let condition = condition(&case.expr);
        let at_once = exhausted(&case);
        if at_once.is_number(condition) {
            continue;
        }
        let mut expected = Vec::new();
        for node in nodes(&case.document) {
            let alone = case.evaluator().condition(condition, node).expect("no budget");
            let result = at_once.condition(condition, node).expect("no budget");
            assert_eq!(result, alone, "seed {seed}: {query} of {node:?} in {xml}");
            if alone && matches!(node, NodeRef::Node(1..)) {
                expected.push(node);
            }
        }
        matching += usize::from(!expected.is_empty());
        let selected = exhausted(&case).nodes(&case.expr, crate::eval::Context::DOCUMENT).expect("no budget");
        assert_eq!(selected, expected, "seed {seed}: {query} in {xml}");
    }
    assert!((1_000..5_500).contains(&matching), "{matching} match");
}
