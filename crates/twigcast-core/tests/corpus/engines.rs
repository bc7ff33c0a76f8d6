//! The core as the runners ask it. Only this file names its functions.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use twigcast_core::document::{Document, Message, NodeKind};
use twigcast_core::engine::{self, AddError, Engine, Matcher, MessageDeliveries, QueryContext, Slot};
use twigcast_core::error::{MessageError, QueryError, QueryErrorKind};
use twigcast_core::eval::{Context, Evaluator};
use twigcast_core::limits::Limits;
use twigcast_core::query::{self, ParseOptions, Query};
use twigcast_core::rewrite::Payloads;
use twigcast_core::scan::{ScanOptions, Scanner};
use twigcast_core::snapshot;
use twigcast_core::stream::decode::{CheckLevel, DecodeOptions, Decoder};
use twigcast_core::stream::dictionary::Dictionary;
use twigcast_core::stream::encode::{NameEncoding, encode};
use twigcast_core::util::temporal::Temporal;
use twigcast_core::vocabulary::Vocabulary;

use super::cases::CaseQuery;
use super::checks::Answer;

/// Limits by name, others than the defaults.
pub fn limits(values: &BTreeMap<String, usize>) -> Limits {
    let mut limits = Limits::default();
    for (name, &value) in values {
        let field = match name.as_str() {
            "message_bytes_max" => &mut limits.message_bytes_max,
            "depth_max" => &mut limits.depth_max,
            "attributes_max" => &mut limits.attributes_max,
            "query_bytes_max" => &mut limits.query_bytes_max,
            "query_steps_max" => &mut limits.query_steps_max,
            "query_nesting_max" => &mut limits.query_nesting_max,
            "cache_bytes_max" => &mut limits.cache_bytes_max,
            "query_visits_max" => &mut limits.query_visits_max,
            "result_bytes_max" => &mut limits.result_bytes_max,
            _ => panic!("there is no limit {name}"),
        };
        *field = value;
    }
    limits
}

fn context(query: &CaseQuery) -> QueryContext {
    QueryContext::new(query.namespaces.clone(), engine::dialect(&query.dialect).expect("a dialect"))
}

/// Adds a subscription under a key; the error's code, limit, column and message if it is refused.
pub fn add(engine: &mut Engine, key: &str, query: &CaseQuery) -> Result<(), Refusal> {
    match engine.add(key, &query.text, &context(query), false) {
        Ok(_) => Ok(()),
        Err(AddError::DuplicateKey) => Err(Refusal { code: "subscription-duplicate-key", ..Refusal::default() }),
        Err(AddError::Query(error)) => Err(Refusal::of(&error)),
    }
}

/// Why a query was refused.
#[derive(Debug, Default)]
pub struct Refusal {
    pub code: &'static str,
    pub limit: Option<&'static str>,
    pub column: Option<u32>,
    pub message: String,
}

impl Refusal {
    fn of(error: &QueryError) -> Self {
        let (code, limit) = match error.kind {
            QueryErrorKind::Syntax => ("query-syntax", None),
            QueryErrorKind::Unsupported => ("query-unsupported", None),
            QueryErrorKind::UndeclaredPrefix => ("query-undeclared-prefix", None),
            QueryErrorKind::Limit { limit, .. } => ("query-limit", Some(limit)),
        };
        Self { code, limit, column: Some(error.column), message: error.message.clone() }
    }
}

/// An engine that gets its subscriptions at once, in its main segment.
pub fn at_once(subscriptions: &[(String, &CaseQuery)], limits: Limits) -> Engine {
    let mut engine = Engine::new(limits);
    let mut by_context: HashMap<QueryContext, Vec<(&str, &str)>> = HashMap::new();
    for (key, query) in subscriptions {
        by_context.entry(context(query)).or_default().push((key, &query.text));
    }
    for (context, pairs) in &by_context {
        let refused = engine.add_many(pairs, context, false);
        assert!(refused.refused.is_empty(), "{refused:?}");
    }
    engine.compact();
    engine
}

/// An engine that has already matched when its subscriptions come, one by one: they are in its recent segment.
pub fn recent(subscriptions: &[(String, &CaseQuery)], limits: Limits) -> Engine {
    let mut engine = Engine::new(limits);
    engine.run(&mut Matcher::new(), b"<earlier/>").expect("a message");
    for (key, query) in subscriptions {
        add(&mut engine, key, query).unwrap_or_else(|refusal| panic!("{}: {refusal:?}", query.text));
    }
    engine
}

/// How many queries are in the recent segment.
pub fn recent_count(engine: &Engine) -> usize {
    engine.statistics()["recent_queries"]
}

/// The same engine, saved and loaded.
pub fn from_snapshot(engine: &Engine, name: &str) -> Engine {
    let path = std::env::temp_dir().join(format!("twigcast-corpus-{}-{name}", std::process::id()));
    snapshot::save(engine, &path).expect("a snapshot");
    let loaded = snapshot::load(&path, engine.limits().clone()).expect("the same snapshot");
    std::fs::remove_file(&path).expect("the snapshot");
    loaded
}

fn keys(engine: &Engine, matcher: &Matcher) -> BTreeSet<String> {
    let mut slots = Vec::new();
    engine.slots(matcher, &mut slots);
    slots.into_iter().map(|slot| key(engine, slot)).collect()
}

fn key(engine: &Engine, slot: Slot) -> String {
    engine.key(slot).expect("a slot in use").to_owned()
}

/// Which subscriptions match.
pub fn match_keys(engine: &Engine, matcher: &mut Matcher, message: &[u8]) -> Answer {
    match engine.run(matcher, message) {
        Err(error) => Answer::refused(error),
        Ok(()) => Answer { keys: Some(keys(engine, matcher)), ..Answer::default() },
    }
}

/// Which subscriptions match, how many nodes they select, and which nodes those that are `asked` select.
pub fn count(engine: &Engine, matcher: &mut Matcher, message: &[u8], asked: &[String]) -> Answer {
    if let Err(error) = engine.run_counting(matcher, message) {
        return Answer::refused(error);
    }
    let mut answer = Answer { keys: Some(keys(engine, matcher)), ..Answer::default() };
    for key in answer.keys.iter().flatten() {
        let slot = engine.slot_of(key).expect("a key of the engine");
        let count = engine.node_count(matcher, message, slot).expect("no budget");
        answer.counts.insert(key.clone(), count);
    }
    let locations = (!asked.is_empty()).then(|| locations(message));
    for key in asked {
        let slot = engine.slot_of(key).expect("a key of the engine");
        // The nodes of a message that its DOCTYPE changes are those of the converted message.
        let found = match engine.selected(matcher, message, slot) {
            Err(error) => return Answer::refused(error),
            Ok(found) => found.expect("no budget"),
        };
        let all = locations.as_ref().expect("they were asked for");
        answer.nodes.insert(key.clone(), found.iter().map(|node| all[&(node.kind, node.start)].clone()).collect());
    }
    answer
}

/// Which subscriptions match a message that comes as an element stream.
pub fn match_stream(engine: &Engine, matcher: &mut Matcher, message: &[u8], names: NameEncoding<'_>) -> Answer {
    let vocabulary = Vocabulary::new();
    let mut document = Document::default();
    if let Err(error) = Scanner::new().scan(message, &vocabulary, engine.limits(), ScanOptions::ALL, &mut document) {
        return Answer::refused(error);
    }
    let stream = encode(Message { source: message, document: &document }, names);
    match engine.run_stream(matcher, &stream, Dictionary::none()) {
        Err(error) => Answer::refused(error),
        Ok(()) => Answer { keys: Some(keys(engine, matcher)), ..Answer::default() },
    }
}

/// Who gets what.
pub fn deliver(engine: &Engine, matcher: &mut Matcher, message: &[u8]) -> Answer {
    if let Err(error) = engine.run_delivering(matcher, message) {
        return Answer::refused(error);
    }
    let mut payloads = Payloads::default();
    let MessageDeliveries { slots, numbers, failures } = engine.deliver(matcher, message, &mut payloads);
    let payload = |number: u32| payloads.get(number as usize).map(<[u8]>::to_vec);
    let delivered = slots.into_iter().zip(numbers).map(|(slot, number)| (key(engine, slot), payload(number))).collect();
    delivered_answer(engine, delivered, failures.iter().map(|(slot, error)| (*slot, error.to_string())))
}

/// Who gets what, by results that are put together when they are asked for.
pub fn prepare(engine: &Engine, matcher: &mut Matcher, message: &[u8]) -> Answer {
    let mut ready = Payloads::default();
    let found = match engine.prepare(matcher, message, &mut ready) {
        Err(error) => return Answer::refused(error),
        Ok(found) => found,
    };
    let (slots, numbers) = found.deliveries();
    let mut memory = Vec::new();
    let mut payload = |number: usize| match found.size(number) {
        None => ready.get(number).map(<[u8]>::to_vec),
        Some(_) => Some(found.write(number, message, &mut memory).to_vec()),
    };
    let delivered =
        slots.iter().zip(numbers).map(|(&slot, &number)| (key(engine, slot), payload(number as usize))).collect();
    delivered_answer(engine, delivered, found.failures().iter().map(|(slot, error)| (*slot, error.to_string())))
}

fn delivered_answer(
    engine: &Engine,
    payloads: BTreeMap<String, Option<Vec<u8>>>,
    failures: impl Iterator<Item = (Slot, String)>,
) -> Answer {
    let undecided = failures.map(|(slot, reason)| (key(engine, slot), reason)).collect();
    let keys = Some(payloads.keys().cloned().collect());
    Answer { keys, payloads: Some(payloads), undecided, ..Answer::default() }
}

/// How the evaluator by itself reads a message: at once, or item by item from its element stream.
#[derive(Clone, Copy)]
pub enum Reads {
    AtOnce,
    ItemByItem,
}

/// Whether an XPath query is true of a message, by the evaluator alone; `None` for a query that rewrites.
pub fn evaluate(query: &CaseQuery, message: &[u8], reads: Reads) -> Result<Option<bool>, MessageError> {
    let limits = Limits { query_nesting_max: 250, ..Limits::default() };
    let context = context(query);
    let options = context.parse_options(&limits);
    let mut vocabulary = Vocabulary::new();
    let Query::XPath(expr) = query::parse(&query.text, &options, &mut vocabulary).expect("an accepted query") else {
        return Ok(None);
    };
    let mut document = Document::default();
    Scanner::new().scan(message, &vocabulary, &limits, ScanOptions::ALL, &mut document)?;
    let published = Some(Temporal::present());
    document.published = published;
    let truth = |source: &[u8], document: &Document| {
        let evaluator = Evaluator::new(Message { source, document }, &vocabulary, &[]);
        evaluator.boolean(&expr, Context::DOCUMENT).expect("no budget")
    };
    Ok(Some(match reads {
        Reads::AtOnce => truth(message, &document),
        Reads::ItemByItem => {
            let stream = encode(Message { source: message, document: &document }, NameEncoding::Once);
            let mut decoder = Decoder::new();
            let mut again = Document::default();
            let reading = DecodeOptions {
                vocabulary: &vocabulary,
                identity: 0,
                limits: &limits,
                record: ScanOptions::ALL,
                checks: CheckLevel::All,
                dictionary: Dictionary::none(),
            };
            let mut reader = decoder.open(&stream, reading, &mut again)?;
            while !reader.read(1)? {}
            again.published = published;
            truth(decoder.source(), &again)
        }
    }))
}

/// The nodes of a message in words, by kind and by where their markup starts.
fn locations(message: &[u8]) -> HashMap<(&'static str, u32), String> {
    let mut document = Document::default();
    let vocabulary = Vocabulary::new();
    Scanner::new().scan(message, &vocabulary, &Limits::default(), ScanOptions::ALL, &mut document).expect("a message");
    let read = Message { source: message, document: &document };
    let mut all = HashMap::from([(("document", 0), "/".to_owned())]);
    let mut of_node = vec![String::new()];
    let mut numbers: HashMap<(u32, String), usize> = HashMap::new();
    for (id, node) in document.nodes.iter().enumerate().skip(1) {
        let (kind, step) = match node.kind {
            NodeKind::Element => ("element", read.qname(id as u32).to_owned()),
            NodeKind::Text => ("text", "text()".to_owned()),
            NodeKind::Comment => ("comment", "comment()".to_owned()),
            NodeKind::ProcessingInstruction => ("processing-instruction", "processing-instruction()".to_owned()),
            NodeKind::Document => unreachable!("there is one document node"),
        };
        let number = numbers.entry((node.parent, step.clone())).or_default();
        *number += 1;
        let above = &of_node[node.parent as usize];
        let location = match (kind, node.parent) {
            ("element", 0) => format!("/{step}"),
            _ => format!("{above}/{step}[{number}]"),
        };
        all.insert((kind, node.span.start), location.clone());
        of_node.push(location);
    }
    for attribute in &document.attributes {
        let name = String::from_utf8_lossy(attribute.qname.of(message)).into_owned();
        let location = format!("{}/@{name}", of_node[attribute.owner as usize]);
        all.insert(("attribute", attribute.qname.start), location);
    }
    all
}

/// A payload with namespaces in place of prefixes, its attributes in order, and its values decoded.
pub fn expanded(payload: &[u8]) -> String {
    let source = [b"<sequence>", payload, b"</sequence>"].concat();
    let (mut vocabulary, limits) = (Vocabulary::new(), Limits { depth_max: usize::MAX, ..Limits::default() });
    let options = ParseOptions::new(&NO_NAMESPACES, query::Dialect::XPath, &limits);
    let [all, above, attributes] =
        ["//node()", "ancestor::node()", "@*"].map(|text| match query::parse(text, &options, &mut vocabulary) {
            Ok(Query::XPath(expr)) => expr,
            other => panic!("{text}: {other:?}"),
        });
    let mut document = Document::default();
    if let Err(error) = Scanner::new().scan(&source, &vocabulary, &limits, ScanOptions::ALL, &mut document) {
        return format!("{error} in {}", String::from_utf8_lossy(payload));
    }
    let evaluator = Evaluator::new(Message { source: &source, document: &document }, &vocabulary, &[]);
    let name = |node| format!("{{{}}}{}", evaluator.namespace_uri(node), evaluator.local_name(node));
    let mut out = String::new();
    for node in evaluator.nodes(&all, Context::DOCUMENT).expect("no budget") {
        let depth = evaluator.count(&above, Context::at(node)).expect("no budget");
        let kind = document.nodes[node.tree_node(&document) as usize].kind;
        out += &format!("{depth} {kind:?} {}", name(node));
        if kind != NodeKind::Element {
            out += &format!(" {:?}", evaluator.string_value(node).expect("no budget"));
        }
        let mut all: Vec<String> = Vec::new();
        for attribute in evaluator.nodes(&attributes, Context::at(node)).expect("no budget") {
            all.push(format!(" {}={:?}", name(attribute), evaluator.string_value(attribute).expect("no budget")));
        }
        all.sort();
        out += &all.concat();
        out.push('\n');
    }
    out
}

const NO_NAMESPACES: [(&str, &str); 0] = [];
