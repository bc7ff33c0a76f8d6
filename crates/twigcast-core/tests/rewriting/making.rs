//! Random messages and queries.

use super::testing::{Messages, Paths, Random};

/// Elements that nest in themselves, with values, attributes, references, comments and several namespaces.
pub(super) const MESSAGES: Messages = Messages {
    names: &["a", "b", "c", "d", "e", "p:a", "x"],
    declarations: " xmlns:p='urn:p'",
    redeclarations: (&[" xmlns:p='urn:p'", " xmlns='urn:d'", " xmlns:q='urn:p'"], 10),
    attributes: (&["k", "l"], 33),
    values: &["1", "2", "01", "&#49;", "v", ""],
    contents: (&["1", "2", " 2 ", "2.0", "v", "w", "&lt;", "<![CDATA[v]]>", "<!--c-->v", "]]&gt;"], 25),
    children: (5, 5),
};

fn steps(random: &mut Random, starts: &[&str], steps_max: usize) -> String {
    let tests = ["a", "b", "c", "d", "a", "b", "*", "p:a", "*:a"];
    Paths { starts, between: &["/", "/", "//"], tests: &tests, steps_max }.one(random)
}

fn relative(random: &mut Random) -> String {
    match random.below(12) {
        0 => "$v".to_owned(),
        _ => format!("$v{}", steps(random, &["/", "/", "//"], 2)),
    }
}

fn condition(random: &mut Random) -> String {
    let path = relative(random);
    match random.below(16) {
        0..5 => format!("{path} = {}", random.one(&["1", "2", "3"])),
        5..10 => format!("{path} = '{}'", random.one(&["1", "2", "v", "w", "<", ""])),
        10..14 => {
            let (name, constant) = (random.one(&["k", "l", "*"]), random.one(&["1", "'1'", "2", "'v'"]));
            format!("{path}{}@{name} = {constant}", random.one(&["/", "/", "//"]))
        }
        14 => format!("{path} > 1"),
        _ => format!("not({path} = 1)"),
    }
}

/// Returns a query, mostly of the form that the batch rewriter decides.
pub(super) fn query_text(random: &mut Random) -> String {
    let mut text = format!("for $v in {}", steps(random, &["/", "//", "//"], 3));
    let conditions: Vec<String> = (0..random.below(4)).map(|_| condition(random)).collect();
    if !conditions.is_empty() {
        text.push_str(&format!(" where {}", conditions.join(" and ")));
    }
    let columns: Vec<String> = (0..random.below(3))
        .map(|_| match random.below(12) {
            0 => format!("{{ {}/text() }}", relative(random)),
            1 => "constant".to_owned(),
            _ => format!("{{ {} }}", relative(random)),
        })
        .collect();
    text.push_str(&match random.below(12) {
        0 => " return $v".to_owned(),
        1 => format!(" return <r k='{{ $v/@k }}'>{}</r>", columns.join(" ")),
        _ => format!(" return <{0}>{1}</{0}>", random.one(&["r", "s"]), columns.join("")),
    });
    if random.below(6) == 0 { format!("<all>{{ {text} }}</all>") } else { text }
}
