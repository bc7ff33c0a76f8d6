//! A query on the first line and a message after it: the shared structures answer as plain evaluation does.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use twigcast_core::document::{Document, Message};
use twigcast_core::engine::{Engine, Matcher, QueryContext};
use twigcast_core::eval::{Context, Evaluator};
use twigcast_core::limits::Limits;
use twigcast_core::query::{Dialect, ParseOptions, Query, parse};
use twigcast_core::scan::{Scanner, Want};
use twigcast_core::vocabulary::Vocabulary;

fuzz_target!(|input: &str| {
    let Some((text, source)) = input.split_once('\n') else { return };
    let limits = Limits::default();
    let namespaces = BTreeMap::from([("p".to_string(), "u".to_string())]);
    let mut vocabulary = Vocabulary::new();
    let options = ParseOptions { namespaces: &namespaces, dialect: Dialect::XPath, limits: &limits };
    let parsed = parse(text, &options, &mut vocabulary);
    let mut engine = Engine::new(limits.clone());
    let context = QueryContext { namespaces, dialect: Dialect::XPath };
    let added = engine.add("key", text, &context, false);
    let mut matcher = Matcher::new();
    let ran = engine.run(&mut matcher, source.as_bytes());
    let (Ok(Query::XPath(expression)), Ok(_), Ok(())) = (&parsed, added, ran) else { return };
    let mut document = Document::default();
    Scanner::new()
        .scan(source.as_bytes(), &vocabulary, &limits, Want::ALL, &mut document)
        .expect("the engine has accepted it");
    let message = Message { source: source.as_bytes(), document: &document };
    let evaluator = Evaluator::new(message, &vocabulary, &[]).with_budget(limits.query_visits_max as u64);
    let Ok(expected) = evaluator.boolean(expression, Context::DOCUMENT) else { return };
    if matcher.failures().is_empty() {
        assert_eq!(!matcher.matched().is_empty(), expected, "{text:?} on {source:?}");
    }
});
