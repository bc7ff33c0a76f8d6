//! Compares queries that are decided together with each query by itself.

use std::collections::BTreeMap;

use twigcast_core::document::{Document, Message};
use twigcast_core::engine::{Engine, Matcher, MessageDeliveries, QueryContext, Slot};
use twigcast_core::eval::{Context, Evaluator};
use twigcast_core::limits::Limits;
use twigcast_core::query::matching::matching_condition;
use twigcast_core::query::{self, Dialect, ParseOptions, Query};
use twigcast_core::rewrite::Payloads;
use twigcast_core::scan::{ScanOptions, Scanner};
use twigcast_core::vocabulary::Vocabulary;

pub(super) fn context() -> QueryContext {
    QueryContext { namespaces: BTreeMap::from([("p".to_owned(), "urn:p".to_owned())]), ..QueryContext::default() }
}

/// Returns what a query delivers by itself, without sharing, or `None` if it does not match according to the evaluator.
pub(super) fn alone(text: &str, xml: &str) -> Option<Vec<u8>> {
    let limits = Limits::default();
    let mut vocabulary = Vocabulary::new();
    let namespaces = [("p", "urn:p")];
    let options = ParseOptions::new(&namespaces, Dialect::XPath, &limits);
    let Ok(Query::Flwr(parsed)) = query::parse(text, &options, &mut vocabulary) else { panic!("{text}") };
    let condition = matching_condition(&parsed);
    assert!(condition.exact, "{text}");
    let mut document = Document::default();
    Scanner::new().scan(xml.as_bytes(), &vocabulary, &limits, ScanOptions::ALL, &mut document).expect(xml);
    let message = Message { source: xml.as_bytes(), document: &document };
    let matches = Evaluator::new(message, &vocabulary, &[]).boolean(&condition.expr, Context::DOCUMENT);
    if !matches.expect("no budget") {
        return None;
    }
    let mut engine = Engine::new(limits);
    engine.share_results(false);
    engine.add("q", text, &context(), false).expect(text);
    let mut matcher = Matcher::new();
    engine.run_delivering(&mut matcher, xml.as_bytes()).expect(xml);
    let mut payloads = Payloads::default();
    let delivered = engine.deliver(&mut matcher, xml.as_bytes(), &mut payloads);
    let [number] = delivered.numbers[..] else { panic!("{text}: {delivered:?}\non {xml}") };
    payloads.get(number as usize).map(<[u8]>::to_vec)
}

pub(super) type All = BTreeMap<String, Vec<u8>>;

pub(super) fn delivered(engine: &Engine, matcher: &mut Matcher, xml: &str) -> All {
    let source = xml.as_bytes();
    engine.run_delivering(matcher, source).expect(xml);
    let mut payloads = Payloads::default();
    let delivered = engine.deliver(matcher, source, &mut payloads);
    assert!(delivered.failures.is_empty());
    let bytes = |number: u32| payloads.get(number as usize).expect("finished").to_vec();
    let MessageDeliveries { slots, numbers, .. } = delivered;
    slots.into_iter().zip(numbers).map(|(slot, number)| (key(engine, slot), bytes(number))).collect()
}

pub(super) fn prepared(engine: &Engine, matcher: &mut Matcher, xml: &str) -> All {
    let source = xml.as_bytes();
    let mut described = Payloads::default();
    let actual = engine.prepare(matcher, source, &mut described).expect(xml);
    assert!(actual.failures().is_empty());
    // Either order of the two calls.
    let in_order = xml.len().is_multiple_of(2).then(|| actual.deliveries_in_order());
    let (slots, numbers) = actual.deliveries();
    assert_eq!(slots.len(), actual.len());
    let mut pairs: Vec<(Slot, u32)> = slots.iter().copied().zip(numbers.iter().copied()).collect();
    pairs.sort_unstable();
    let (slots, numbers) = in_order.unwrap_or_else(|| actual.deliveries_in_order());
    assert!(pairs.iter().copied().eq(slots.iter().copied().zip(numbers.iter().copied())));

    let single = |memory: &mut Vec<u8>| -> Vec<Vec<u8>> {
        let bytes = |number| match actual.size(number) {
            None => described.get(number).expect("it rewrites").to_vec(),
            Some(size) => {
                let bytes = actual.write(number, source, memory).to_vec();
                assert_eq!(bytes.len(), size);
                bytes
            }
        };
        (0..actual.result_count()).map(bytes).collect()
    };
    let mut memory = Vec::new();
    let results = single(&mut memory);
    for _ in 0..2 {
        let mut all = Payloads::default().with_memory(memory);
        let payloads = (0..described.len()).map_while(|number| described.get(number));
        actual.write_all(source, payloads, &mut all).expect("none is too large");
        assert_eq!(all.len(), results.len());
        assert!((0..).zip(&results).all(|(number, result)| all.get(number) == Some(result)), "on {xml}");
        memory = all.into_parts().0;
        assert!(single(&mut memory) == results, "on {xml}");
    }
    pairs.iter().map(|&(slot, number)| (key(engine, slot), results[number as usize].clone())).collect()
}

fn matched(engine: &Engine, matcher: &mut Matcher, xml: &str) -> Vec<String> {
    engine.run(matcher, xml.as_bytes()).expect(xml);
    let mut slots = Vec::new();
    engine.slots(matcher, &mut slots);
    let mut keys: Vec<String> = slots.into_iter().map(|slot| key(engine, slot)).collect();
    keys.sort_unstable();
    keys
}

pub(super) fn key(engine: &Engine, slot: Slot) -> String {
    engine.key(slot).expect("in use").to_owned()
}

pub(super) fn check(
    engine: &Engine,
    matcher: &mut Matcher,
    queries: &BTreeMap<String, String>,
    xml: &str,
    seed: u64,
) -> usize {
    let expected: All = queries.iter().filter_map(|(key, text)| Some((key.clone(), alone(text, xml)?))).collect();
    for (how, result) in [("at once", delivered(engine, matcher, xml)), ("later", prepared(engine, matcher, xml))] {
        for key in expected.keys().chain(result.keys()) {
            let text = |all: &All| all.get(key).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
            assert_eq!(text(&result), text(&expected), "seed {seed}, {how}: {}\non {xml}", queries[key]);
        }
    }
    let keys: Vec<String> = expected.keys().cloned().collect();
    assert_eq!(matched(engine, matcher, xml), keys, "seed {seed}, on {xml}");
    expected.len()
}
