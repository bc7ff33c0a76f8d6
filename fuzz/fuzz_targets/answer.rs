//! Queries, a line each, an empty line, and a message: the shared structures answer as plain evaluation does, with
//! plenty of memory for automata as with hardly any, and also when a query is removed and added again.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use twigcast_core::document::{Document, Message};
use twigcast_core::engine::{Engine, Matcher, QueryContext};
use twigcast_core::eval::{Context, Evaluator};
use twigcast_core::limits::Limits;
use twigcast_core::query::{Dialect, ParseOptions, Query, parse};
use twigcast_core::scan::{ScanOptions, Scanner};
use twigcast_core::vocabulary::Vocabulary;

const QUERIES_MAX: usize = 12;

fuzz_target!(|input: &str| {
    let Some((queries, source)) = input.split_once("\n\n") else { return };
    let queries: Vec<&str> = queries.lines().take(QUERIES_MAX).collect();
    let Some(expected) = expected(&queries, source) else { return };
    for cache_bytes_max in [Limits::default().cache_bytes_max, 4 << 10] {
        check(&queries, source, &expected, Limits { cache_bytes_max, ..Limits::default() });
    }
});

fn context() -> QueryContext {
    QueryContext::new(BTreeMap::from([("p".to_string(), "u".to_string())]), Dialect::XPath)
}

/// What plain evaluation says of each query: nothing where it is refused, has a result of its own, or costs too much.
/// Nothing at all where the message is rejected.
fn expected(queries: &[&str], source: &str) -> Option<Vec<Option<bool>>> {
    let (mut vocabulary, limits, context) = (Vocabulary::new(), Limits::default(), context());
    let options = ParseOptions::new(&context.namespaces, Dialect::XPath, &limits);
    let parsed: Vec<_> = queries.iter().map(|text| parse(text, &options, &mut vocabulary)).collect();
    let mut document = Document::default();
    Scanner::new().scan(source.as_bytes(), &vocabulary, &limits, ScanOptions::ALL, &mut document).ok()?;
    let message = Message { source: source.as_bytes(), document: &document };
    let answers = parsed.iter().map(|query| {
        let Ok(Query::XPath(expression)) = query else { return None };
        let evaluator = Evaluator::new(message, &vocabulary, &[]).with_budget(limits.query_visits(message.visits_of_size()));
        evaluator.boolean(expression, Context::DOCUMENT).ok()
    });
    Some(answers.collect())
}

fn check(queries: &[&str], source: &str, expected: &[Option<bool>], limits: Limits) {
    let (mut engine, mut matcher, context) = (Engine::new(limits), Matcher::new(), context());
    let mut known = Vec::new();
    for (number, text) in queries.iter().enumerate() {
        known.push(engine.add(&number.to_string(), text, &context, false).is_ok());
    }
    compare(&engine, &mut matcher, queries, source, expected, &known);
    // Again, on structures that are warm; then with the first query gone and back.
    compare(&engine, &mut matcher, queries, source, expected, &known);
    if engine.remove("0") {
        known[0] = false;
        compare(&engine, &mut matcher, queries, source, expected, &known);
        known[0] = engine.add("0", queries[0], &context, false).is_ok();
        compare(&engine, &mut matcher, queries, source, expected, &known);
    }
}

fn compare(
    engine: &Engine,
    matcher: &mut Matcher,
    queries: &[&str],
    source: &str,
    expected: &[Option<bool>],
    known: &[bool],
) {
    engine.run(matcher, source.as_bytes()).expect("the scanner has accepted it");
    if !matcher.failures().is_empty() {
        return;
    }
    let mut slots = Vec::new();
    engine.slots(matcher, &mut slots);
    let matched: Vec<&str> = slots.iter().filter_map(|&slot| engine.key(slot)).collect();
    for (number, (expected, known)) in expected.iter().zip(known).enumerate() {
        if let Some(expected) = expected {
            let found = matched.contains(&number.to_string().as_str());
            assert_eq!(found, *expected && *known, "{:?} of {queries:?} on {source:?}", queries[number]);
        }
    }
}
