//! Plain paths (`/a/b//c`, with names and `*` only), which most queries of large populations are: read and printed
//! without a way through tokens and expressions.

use super::ast::{LinearStep, NameTest};
use super::options::{Dialect, NamespaceLookup, ParseOptions};
use crate::vocabulary::{Name, NamespaceId, Vocabulary};

/// The spelling of a plain path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathSpelling {
    /// Without prefixes: the path prints as the same text.
    Sure,
    /// With prefixes, of which each namespace may have several.
    Prefixed,
}

/// Reads a plain path; `None` if the text is none, or not spelled without anything superfluous. `steps` is what the
/// planner would make of it. Whatever is not clear at first sight is left to the parser: that is no error.
pub(crate) fn read(
    text: &str,
    options: &ParseOptions,
    vocabulary: &mut Vocabulary,
    steps: &mut Vec<LinearStep>,
) -> Option<PathSpelling> {
    steps.clear();
    // A plain path names no parameter, which the parser says of those that are given.
    let has_parameters = !options.parameters.is_empty();
    if has_parameters || options.dialect == Dialect::XQuery || text.len() > options.limits.query_bytes_max {
        return None;
    }
    let mut spelling = PathSpelling::Sure;
    let mut default = None;
    let mut rest = text;
    let mut count = 0;
    while let Some(after) = rest.strip_prefix('/') {
        let (descendant, after) = after.strip_prefix('/').map_or((false, after), |after| (true, after));
        let length = after.bytes().position(|byte| byte == b'/').unwrap_or(after.len());
        let (test, behind) = after.split_at(length);
        let test = name_test(test, options.namespaces, vocabulary, &mut default, &mut spelling)?;
        steps.push(LinearStep { descendant, test });
        // `//` counts as a step of its own.
        count += 1 + usize::from(descendant);
        rest = behind;
    }
    // Of `/*` and `//*` it is known beforehand that they match.
    let always = matches!(steps.as_slice(), [LinearStep { test: NameTest::Any, .. }]);
    let is_path = rest.is_empty() && !steps.is_empty() && !always && count <= options.limits.query_steps_max;
    is_path.then_some(spelling)
}

fn name_test(
    text: &str,
    namespaces: &dyn NamespaceLookup,
    vocabulary: &mut Vocabulary,
    default: &mut Option<NamespaceId>,
    spelling: &mut PathSpelling,
) -> Option<NameTest> {
    if text == "*" {
        return Some(NameTest::Any);
    }
    let (prefix, local) = text.split_once(':').map_or((None, text), |(prefix, local)| (Some(prefix), local));
    if !is_plain_name(local) || !prefix.is_none_or(is_plain_name) {
        return None;
    }
    if prefix.is_some() {
        *spelling = PathSpelling::Prefixed;
    }
    let namespace = match prefix {
        Some("xml") => NamespaceId::XML,
        Some(prefix) => vocabulary.intern_namespace(namespaces.uri(prefix)?),
        None => *default.get_or_insert_with(|| {
            namespaces.uri("").map_or(NamespaceId::NONE, |uri| vocabulary.intern_namespace(uri))
        }),
    };
    Some(NameTest::Name(Name { namespace, local: vocabulary.intern_local(local) }))
}

/// Returns whether a name has ASCII characters only.
fn is_plain_name(text: &str) -> bool {
    let starts = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let goes_on = |byte: u8| starts(byte) || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    text.bytes().next().is_some_and(starts) && text.bytes().all(goes_on)
}

/// Prints a path, without anything superfluous; `false` if a name has no spelling.
pub(crate) fn print<'n>(
    steps: &[LinearStep],
    namespaces: impl Iterator<Item = (&'n str, &'n str)> + Clone,
    vocabulary: &Vocabulary,
    text: &mut String,
) -> bool {
    for step in steps {
        text.push_str(if step.descendant { "//" } else { "/" });
        match step.test {
            NameTest::Any => text.push('*'),
            NameTest::Name(name) => {
                let Some(prefix) = prefix_of(name.namespace, namespaces.clone(), vocabulary) else { return false };
                if !prefix.is_empty() {
                    text.push_str(prefix);
                    text.push(':');
                }
                text.push_str(vocabulary.local_name(name.local));
            }
            NameTest::Namespace(_) | NameTest::Local(_) => return false,
        }
    }
    true
}

/// Returns the first prefix that stands for a namespace; the empty one for what names without a prefix are in.
fn prefix_of<'n>(
    namespace: NamespaceId,
    mut namespaces: impl Iterator<Item = (&'n str, &'n str)> + Clone,
    vocabulary: &Vocabulary,
) -> Option<&'n str> {
    if namespace == NamespaceId::XML {
        return Some("xml");
    }
    let uri = vocabulary.namespace_uri(namespace);
    let is_default_given = namespaces.clone().any(|(prefix, _)| prefix.is_empty());
    if namespace == NamespaceId::NONE && !is_default_given {
        return Some("");
    }
    namespaces.find(|&(_, existing)| existing == uri).map(|(prefix, _)| prefix)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::limits::Limits;
    use crate::plan::{self, Action};
    use crate::query::{self, Query, normal};
    use crate::testing::Random;

    /// Whatever is read here is read by the parser and planned as the same path, and printing what was read gives a text
    /// that means the same.
    #[test]
    fn plain_paths_are_what_the_parser_makes_of_them() {
        let limits = Limits { query_steps_max: 7, ..Limits::default() };
        let tests = [
            "a", "b.c", "div", "*", "p:a", "q:*", "*:a", "xml:lang", "text()", ".", "a[1]", " a", "é", "x:a", "",
            "r:b", "-a", "child::a", "a:b:c", "@a",
        ];
        let contexts: [BTreeMap<String, String>; 3] = [
            BTreeMap::new(),
            [("p", "urn:p"), ("r", "urn:p")].map(|(p, u)| (p.to_owned(), u.to_owned())).into(),
            [("", "urn:p"), ("p", "urn:q"), ("q", "")].map(|(p, u)| (p.to_owned(), u.to_owned())).into(),
        ];
        let mut random = Random(11);
        let (mut plain, mut as_spelled) = (0, 0);
        for _ in 0..40_000 {
            let length = 1 + random.below(4);
            let existing = if random.below(4) == 0 { tests.len() } else { 5 };
            let text: String = (0..length)
                .map(|_| format!("{}{}", ["/", "//"][random.below(2)], tests[random.below(existing)]))
                .collect();
            let namespaces = &contexts[random.below(3)];
            let dialect = [Dialect::XPath, Dialect::Legacy][random.below(2)];
            let options = ParseOptions::new(namespaces, dialect, &limits);
            let (mut vocabulary, mut steps) = (Vocabulary::new(), Vec::new());
            let Some(spelling) = read(&text, &options, &mut vocabulary, &mut steps) else { continue };
            plain += 1;
            let mut parsed_as = |text: &str| {
                let parsed = query::parse(text, &options, &mut vocabulary);
                let Ok(Query::XPath(expr)) = parsed else { panic!("{text} is not a query: {parsed:?}") };
                let expr = normal::normalise(expr);
                assert_eq!(crate::analysis::truth(&expr), None, "{text}");
                let mut routes = plan::plan(&expr);
                assert!(matches!(routes.as_slice(), [plan::Route { action: Action::Accept, .. }]), "{text}");
                routes.remove(0).path
            };
            assert_eq!(parsed_as(&text), steps, "{text}");
            let mut printed = String::new();
            let supplied = namespaces.iter().map(|(prefix, uri)| (prefix.as_str(), uri.as_str()));
            let mut again = parsed_as(&text);
            if print(&steps, supplied, &vocabulary, &mut printed) {
                again = parsed_as_again(&printed, &options, &mut vocabulary);
                as_spelled += usize::from(printed == text);
            }
            assert_eq!(again, steps, "{text} printed as {printed}");
            assert!(spelling == PathSpelling::Prefixed || printed == text, "{text} printed as {printed}");
        }
        assert!(plain > 5_000 && as_spelled > 5_000, "{plain} plain paths, {as_spelled} as spelled");
    }

    fn parsed_as_again(text: &str, options: &ParseOptions, vocabulary: &mut Vocabulary) -> Vec<LinearStep> {
        let Ok(Query::XPath(expr)) = query::parse(text, options, vocabulary) else { panic!("{text} is not a query") };
        plan::plan(&normal::normalise(expr)).remove(0).path
    }
}
