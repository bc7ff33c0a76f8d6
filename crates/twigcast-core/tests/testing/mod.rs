//! What the tests of the crate share: random input, and the evaluator alone as an oracle.

#![allow(dead_code, unused_imports, reason = "no test uses all of it")]

mod random;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use twigcast_core::document::{Document, Message};
use twigcast_core::engine::{Engine, Matcher, QueryContext};
use twigcast_core::eval::{Context, Evaluator};
use twigcast_core::limits::Limits;
use twigcast_core::query::ast::Expr;
use twigcast_core::query::{self, ParseOptions, Query};
use twigcast_core::scan::{ScanOptions, Scanner};
use twigcast_core::vocabulary::Vocabulary;

pub use random::{Messages, Paths, Random};

/// Evaluates XPath queries one by one, without any of the engine's structures. Each is parsed once.
#[derive(Default)]
pub struct Oracle {
    context: QueryContext,
    vocabulary: Vocabulary,
    exprs: HashMap<String, Expr>,
}

impl Oracle {
    /// Creates an oracle for queries with this context.
    pub fn new(context: QueryContext) -> Self {
        Self { context, ..Self::default() }
    }

    /// Returns which of some queries match a message.
    pub fn matching<'t>(&mut self, texts: impl IntoIterator<Item = &'t str>, source: &str) -> BTreeSet<&'t str> {
        let texts: BTreeSet<&str> = texts.into_iter().collect();
        texts.iter().for_each(|text| self.parse(text));
        let (limits, mut document) = (Limits::default(), Document::default());
        Scanner::new()
            .scan(source.as_bytes(), &self.vocabulary, &limits, ScanOptions::ALL, &mut document)
            .expect(source);
        let message = Message { source: source.as_bytes(), document: &document };
        let evaluator = Evaluator::new(message, &self.vocabulary, &[]);
        let holds = |text: &&str| evaluator.boolean(&self.exprs[*text], Context::DOCUMENT).expect(text);
        texts.into_iter().filter(holds).collect()
    }

    /// Returns the keys of the subscriptions, queries by key, that match a message.
    pub fn matching_keys(&mut self, subscriptions: &BTreeMap<String, String>, source: &str) -> BTreeSet<String> {
        let matching = self.matching(subscriptions.values().map(String::as_str), source);
        let holds = |&(_, text): &(&String, &String)| matching.contains(&**text);
        subscriptions.iter().filter(holds).map(|(key, _)| key.clone()).collect()
    }

    fn parse(&mut self, text: &str) {
        if self.exprs.contains_key(text) {
            return;
        }
        let limits = Limits::default();
        let options = self.context.parse_options(&limits);
        let parsed = query::parse(text, &options, &mut self.vocabulary);
        let Ok(Query::XPath(expr)) = parsed else { panic!("{text}: {parsed:?}") };
        self.exprs.insert(text.to_owned(), expr);
    }
}

/// Returns the keys of the subscriptions that match a message, none of which may be undecided.
pub fn matching_keys(engine: &Engine, matcher: &mut Matcher, source: &str) -> BTreeSet<String> {
    engine.run(matcher, source.as_bytes()).expect(source);
    assert_eq!(engine.failures(matcher), []);
    let mut slots = Vec::new();
    engine.slots(matcher, &mut slots);
    assert!(slots.is_sorted());
    slots.iter().map(|&slot| engine.key(slot).expect("a live slot").to_owned()).collect()
}
