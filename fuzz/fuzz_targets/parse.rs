//! Any text: it is a query or it is refused at a place inside it, and a query reads the same once it is printed.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use twigcast_core::limits::Limits;
use twigcast_core::query::{Dialect, ParseOptions, Query, display, flwr_text, parse};
use twigcast_core::vocabulary::Vocabulary;

fuzz_target!(|text: &str| {
    for dialect in [Dialect::XPath, Dialect::Legacy] {
        let mut vocabulary = Vocabulary::new();
        let limits = Limits::default();
        let namespaces = [("p", "u"), ("q", "v")];
        match parse(text, &ParseOptions::new(&namespaces, dialect, &limits), &mut vocabulary) {
            Ok(query) => check_print(&query, &mut vocabulary, &limits),
            Err(error) => {
                let characters = text.chars().count() as u32;
                assert!((1..=characters + 1).contains(&error.column), "{error:?}");
                assert!(!error.message.is_empty());
            }
        }
    }
});

fn check_print(query: &Query, vocabulary: &mut Vocabulary, limits: &Limits) {
    let declared = BTreeMap::from([("p".to_string(), "u".to_string()), ("q".to_string(), "v".to_string())]);
    let print = |query: &Query, vocabulary: &Vocabulary| match query {
        Query::XPath(expression) => display::expression(expression, vocabulary, &declared),
        Query::Flwr(query) => flwr_text::query(query, vocabulary, &declared),
    };
    let printed = print(query, vocabulary);
    if printed.text.len() > limits.query_bytes_max {
        return;
    }
    let options = ParseOptions::new(&printed.namespaces, Dialect::XPath, limits);
    match parse(&printed.text, &options, vocabulary) {
        Ok(again) => assert_eq!(print(&again, vocabulary).text, printed.text, "printing is not stable"),
        Err(error) => panic!("{:?} was printed, but: {error}", printed.text),
    }
}
