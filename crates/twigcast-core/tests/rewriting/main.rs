//! Many For-Where-Return queries at once, however they are decided and delivered, against each query by itself.

mod instructions;
mod values;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use twigcast_core::document::{Document, Message};
use twigcast_core::engine::{Delivered, Engine, Matcher, QueryContext, Slot};
use twigcast_core::eval::{Context, Evaluator};
use twigcast_core::extract::{Payloads, Sink};
use twigcast_core::limits::Limits;
use twigcast_core::query::matching::matching_condition;
use twigcast_core::query::{self, Dialect, ParseOptions, Query};
use twigcast_core::scan::{Scanner, Want};
use twigcast_core::vocabulary::Vocabulary;

/// SplitMix64, so that a seed means the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }

    fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }
}

/// Elements that nest in themselves, with values, attributes, references, comments and, now and then, namespaces.
fn element(random: &mut Random, depth: usize, out: &mut String) {
    let name = random.of(&["a", "b", "c", "d", "e", "p:a", "x"]);
    out.push('<');
    out.push_str(name);
    if depth == 0 || name == "p:a" {
        out.push_str(" xmlns:p='urn:p'");
    }
    if depth > 0 && random.below(30) == 0 {
        out.push_str(" xmlns='urn:d'");
    }
    for attribute in ["k", "l"] {
        if random.below(3) == 0 {
            out.push_str(&format!(" {attribute}='{}'", random.of(&["1", "2", "01", "&#49;", "v", ""])));
        }
    }
    out.push('>');
    for _ in 0..if depth > 4 { 0 } else { random.below(5) } {
        element(random, depth + 1, out);
    }
    if random.below(2) == 0 {
        out.push_str(random.of(&["1", "2", " 2 ", "2.0", "v", "w", "&lt;", "<![CDATA[v]]>", "<!--c-->v", "]]&gt;"]));
    }
    out.push_str(&format!("</{name}>"));
}

fn steps(random: &mut Random, first: &[&str], most: usize) -> String {
    let mut path = String::new();
    for step in 0..1 + random.below(most) {
        path.push_str(if step == 0 { random.of(first) } else { random.of(&["/", "/", "//"]) });
        path.push_str(random.of(&["a", "b", "c", "d", "a", "b", "*", "p:a", "*:a"]));
    }
    path
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
        0..5 => format!("{path} = {}", random.of(&["1", "2", "3"])),
        5..10 => format!("{path} = '{}'", random.of(&["1", "2", "v", "w", "<", ""])),
        10..14 => {
            let (name, constant) = (random.of(&["k", "l", "*"]), random.of(&["1", "'1'", "2", "'v'"]));
            format!("{path}{}@{name} = {constant}", random.of(&["/", "/", "//"]))
        }
        14 => format!("{path} > 1"),
        _ => format!("not({path} = 1)"),
    }
}

/// Mostly the kind that is decided by what many have in common, sometimes another.
fn query_text(random: &mut Random) -> String {
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
        _ => format!(" return <{0}>{1}</{0}>", random.of(&["r", "s"]), columns.join("")),
    });
    if random.below(6) == 0 { format!("<all>{{ {text} }}</all>") } else { text }
}

fn context() -> QueryContext {
    QueryContext { namespaces: BTreeMap::from([("p".to_owned(), "urn:p".to_owned())]), ..QueryContext::default() }
}

/// What a query by itself delivers, unshared; `None` if it does not match according to the evaluator.
fn alone(text: &str, xml: &str) -> Option<Vec<u8>> {
    let limits = Limits::default();
    let mut vocabulary = Vocabulary::new();
    let namespaces = [("p", "urn:p")];
    let options = ParseOptions { namespaces: &namespaces, dialect: Dialect::XPath, limits: &limits };
    let Ok(Query::Flwr(parsed)) = query::parse(text, &options, &mut vocabulary) else { panic!("{text}") };
    let condition = matching_condition(&parsed);
    assert!(condition.exact, "{text}");
    let mut document = Document::default();
    Scanner::new().scan(xml.as_bytes(), &vocabulary, &limits, Want::ALL, &mut document).expect(xml);
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

type All = BTreeMap<String, Vec<u8>>;

fn delivered(engine: &Engine, matcher: &mut Matcher, xml: &str) -> All {
    let source = xml.as_bytes();
    engine.run_delivering(matcher, source).expect(xml);
    let mut payloads = Payloads::default();
    let delivered = engine.deliver(matcher, source, &mut payloads);
    assert!(delivered.failures.is_empty());
    let bytes = |number: u32| payloads.get(number as usize).expect("finished").to_vec();
    let Delivered { slots, numbers, .. } = delivered;
    slots.into_iter().zip(numbers).map(|(slot, number)| (key(engine, slot), bytes(number))).collect()
}

fn prepared(engine: &Engine, matcher: &mut Matcher, xml: &str) -> All {
    let source = xml.as_bytes();
    let mut told = Payloads::default();
    let found = engine.prepare(matcher, source, &mut told).expect(xml);
    assert!(found.failures().is_empty());
    // Whichever is asked for first.
    let in_order = xml.len().is_multiple_of(2).then(|| found.deliveries_in_order());
    let (slots, numbers) = found.deliveries();
    assert_eq!(slots.len(), found.len());
    let mut pairs: Vec<(Slot, u32)> = slots.iter().copied().zip(numbers.iter().copied()).collect();
    pairs.sort_unstable();
    let (slots, numbers) = in_order.unwrap_or_else(|| found.deliveries_in_order());
    assert!(pairs.iter().copied().eq(slots.iter().copied().zip(numbers.iter().copied())));

    let single = |memory: &mut Vec<u8>| -> Vec<Vec<u8>> {
        let bytes = |number| match found.size(number) {
            None => told.get(number).expect("it rewrites").to_vec(),
            Some(size) => {
                let bytes = found.write(number, source, memory).to_vec();
                assert_eq!(bytes.len(), size);
                bytes
            }
        };
        (0..found.result_count()).map(bytes).collect()
    };
    let mut memory = Vec::new();
    let results = single(&mut memory);
    for _ in 0..2 {
        let mut all = Payloads::default().with_room(memory);
        let payloads = (0..told.len()).map_while(|number| told.get(number));
        found.write_all(source, payloads, &mut all).expect("none is too large");
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

fn key(engine: &Engine, slot: Slot) -> String {
    engine.key(slot).expect("in use").to_owned()
}

fn check(engine: &Engine, matcher: &mut Matcher, queries: &BTreeMap<String, String>, xml: &str, seed: u64) -> usize {
    let expected: All = queries.iter().filter_map(|(key, text)| Some((key.clone(), alone(text, xml)?))).collect();
    for (how, found) in [("at once", delivered(engine, matcher, xml)), ("later", prepared(engine, matcher, xml))] {
        for key in expected.keys().chain(found.keys()) {
            let text = |all: &All| all.get(key).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
            assert_eq!(text(&found), text(&expected), "seed {seed}, {how}: {}\non {xml}", queries[key]);
        }
    }
    let keys: Vec<String> = expected.keys().cloned().collect();
    assert_eq!(matched(engine, matcher, xml), keys, "seed {seed}, on {xml}");
    expected.len()
}

/// Queries come and go between messages, whose label paths grow by the message.
#[test]
fn populations_deliver_what_each_query_delivers_by_itself() {
    let mut found = 0;
    for seed in 1..41 {
        println!("seed {seed}");
        let random = &mut Random(seed);
        let mut engine = Engine::new(Limits::default());
        let mut matcher = Matcher::new();
        let mut queries = BTreeMap::new();
        for number in 0..14 {
            for _ in 0..if number == 0 { 60 } else { random.below(12) } {
                let key = format!("k{}", random.below(90));
                if random.below(3) == 0 {
                    assert_eq!(engine.remove(&key), queries.remove(&key).is_some());
                } else {
                    let text = query_text(random);
                    engine.add(&key, &text, &context(), true).unwrap_or_else(|error| panic!("{text}: {error:?}"));
                    queries.insert(key, text);
                }
            }
            if random.below(4) == 0 {
                engine.compact();
            }
            let mut xml = String::new();
            element(random, 0, &mut xml);
            found += check(&engine, &mut matcher, &queries, &xml, seed);
        }
    }
    assert!(found > 2_000, "{found} deliveries are too few to mean anything");
}

/// An item that may hold others, with values; between its children there may be text.
fn item(random: &mut Random, depth: usize, out: &mut String) {
    out.push_str("<i>");
    for _ in 0..2 + random.below(5) {
        if depth < 2 && random.below(6) == 0 {
            item(random, depth + 1, out);
        } else {
            out.push_str(&format!("<{0}>{1}</{0}>", random.of(&["a", "b", "c", "d"]), random.of(&["1", "2", "3"])));
        }
        out.push_str(random.of(&["", "", " and "]));
    }
    out.push_str("</i>");
}

/// Queries ask for up to seven values at once, of bindings whose sets take one word or several; the returned paths lead to
/// several runs of bytes from each, which nest. Those that ask for the same lie together, however many are asked for.
#[test]
fn conjunctions_hold_for_few_bindings_and_for_many() {
    let mut found = 0;
    for seed in 1..7 {
        println!("seed {seed}");
        let random = &mut Random(seed);
        let mut engine = Engine::new(Limits::default());
        let mut queries = BTreeMap::new();
        let mut before: Vec<String> = Vec::new();
        for number in 0..70 {
            // Many begin as another did.
            before.truncate(if random.below(4) == 0 { 0 } else { 1 + random.below(6) });
            for _ in 0..random.below(3) + usize::from(before.is_empty()) {
                let (step, name, value) = (random.of(&["/", "//"]), random.below(4), 1 + random.below(3));
                before.push(format!("$v{step}{} = {value}", ["a", "b", "c", "d"][name]));
            }
            let text = if random.below(5) == 0 {
                let name = random.of(&["a", "b", "*"]);
                let value = 1 + random.below(3);
                format!("for $v in //{name} where $v = {value} return <r>{{ $v }}{{ $v//* }}</r>")
            } else {
                let source = random.of(&["/m/i", "//i", "/m/i/i"]);
                let columns = [random.of(&["$v/a", "$v//b", "$v/i", "$v"]), random.of(&["$v//c", "$v//*", "$v/i/i"])];
                let condition = before.join(" and ");
                format!("for $v in {source} where {condition} return <r>{{ {} }}{{ {} }}</r>", columns[0], columns[1])
            };
            engine.add(&number.to_string(), &text, &context(), true).expect(&text);
            queries.insert(number.to_string(), text);
        }
        let mut matcher = Matcher::new();
        for items in [1, 40, 0, 70, 3, 140, 12] {
            let mut xml = "<m>".to_owned();
            (0..items).for_each(|_| item(random, 0, &mut xml));
            xml.push_str("</m>");
            found += check(&engine, &mut matcher, &queries, &xml, seed);
        }
    }
    assert!(found > 1_000, "{found} deliveries are too few to mean anything");
}

/// Queries come and go between messages of label paths that are all known: those that came are decided one by one until
/// it pays to lay all out anew, and numbers of those that went are given to others.
#[test]
fn what_comes_and_goes_is_decided_rightly_before_all_is_laid_out_anew() {
    let mut found = 0;
    for seed in 1..5 {
        println!("seed {seed}");
        let random = &mut Random(seed);
        let mut messages = Vec::new();
        while messages.len() < 3 {
            let mut xml = String::new();
            element(random, 0, &mut xml);
            if (200..3_000).contains(&xml.len()) {
                messages.push(xml);
            }
        }
        let mut engine = Engine::new(Limits::default());
        let mut matcher = Matcher::new();
        let mut queries = BTreeMap::new();
        for number in 0..90 {
            for _ in 0..if number == 0 { 80 } else { 1 + random.below(3) } {
                let key = format!("k{}", random.below(120));
                if random.below(2) == 0 {
                    assert_eq!(engine.remove(&key), queries.remove(&key).is_some());
                } else {
                    let text = query_text(random);
                    engine.add(&key, &text, &context(), true).unwrap_or_else(|error| panic!("{text}: {error:?}"));
                    queries.insert(key, text);
                }
            }
            found += check(&engine, &mut matcher, &queries, &messages[number % 3], seed);
        }
    }
    assert!(found > 1_000, "{found} deliveries are too few to mean anything");
}

/// The last of the queries that are decided together goes: nothing of what was found for it is delivered any more, also
/// where a query that is decided by itself has got its number, on a message with fewer nodes.
#[test]
fn nothing_is_left_of_the_last_query_that_was_decided_with_others() {
    let together = "for $v in //b where $v/c = 7 return <r>{ $v/d }</r>";
    let by_itself = "for $v in //e where contains($v/c, '7') return <r>{ $v/d }</r>";
    let large = "<a><x/><x/><b><c>7</c><d>x</d></b></a>";
    let mut engine = Engine::new(Limits::default());
    let mut matcher = Matcher::new();
    engine.add("by itself", by_itself, &context(), false).expect(by_itself);
    for number in ["first", "second"] {
        engine.add(number, together, &context(), false).expect(together);
        let expected = All::from([(number.to_owned(), b"<r><d>x</d></r>".to_vec())]);
        assert_eq!(delivered(&engine, &mut matcher, large), expected);
        assert!(engine.remove(number));
        engine.add("other", &by_itself.replace("//e", "//f"), &context(), true).expect(by_itself);
        for xml in ["<a/>", large, "<a><e><c>8</c></e></a>"] {
            assert_eq!(delivered(&engine, &mut matcher, xml), All::new(), "on {xml}");
            assert_eq!(prepared(&engine, &mut matcher, xml), All::new(), "on {xml}");
        }
    }
}

/// More bindings than are numbered, more nodes than are labelled, more label paths than are remembered: then queries are
/// decided one by one, and afterwards together again.
#[test]
fn what_is_too_much_for_a_guide_is_delivered_all_the_same() {
    let texts = [
        "for $v in //b where $v/c = 7 return <r>{ $v/c }{ $v//d }</r>",
        "for $v in /a/b where $v/c = 7 and $v/d = 'x' return <r>{ $v/d }</r>",
        "for $v in //b where $v/c = 8 return <r>{ $v/c }</r>",
        "for $v in //b return <r>{ $v/@k }</r>",
        "for $v in /a return <s>{ $v/b/d }</s>",
    ];
    let mut engine = Engine::new(Limits { depth_max: 5_000, ..Limits::default() });
    let mut queries = BTreeMap::new();
    for (number, text) in texts.iter().enumerate() {
        engine.add(&number.to_string(), text, &context(), false).expect(text);
        queries.insert(number.to_string(), (*text).to_owned());
    }
    let small = "<a><b k='1'><c>7</c><d>x</d></b></a>".to_owned();
    let part = "<b k='1'><c>7</c><d>x</d></b><b><c>9</c></b>";
    let deep = format!("<a>{}{}<b><c>8</c></b></a>", "<e>".repeat(1_900), "</e>".repeat(1_900));
    let mut many = String::from("<a>");
    for number in 0..2_300 {
        // Each a label path of its own, by depth and by name.
        many.push_str(&format!("{0}{1}", "<b>".repeat(number % 60), "</b>".repeat(number % 60)));
    }
    many.push_str("<b><c>7</c></b></a>");
    let messages = [
        small.clone(),
        format!("<a>{}</a>", part.repeat(700)),
        format!("<a>{}<b><c>8</c></b></a>", "<x/>".repeat(70_000)),
        deep.clone(),
        deep.replace('e', "c"),
        many,
        small,
    ];
    let mut matcher = Matcher::new();
    for (number, xml) in messages.iter().enumerate() {
        assert!(check(&engine, &mut matcher, &queries, xml, number as u64) > 0);
    }
}

/// Takes all bytes, as they come.
#[derive(Clone, Default)]
struct Collected(Arc<Mutex<Vec<u8>>>);

impl Sink for Collected {
    fn take(&mut self, bytes: &[u8], _: &[usize]) {
        self.0.lock().expect("no panic before").extend_from_slice(bytes);
    }

    fn drop_open(&mut self) {
        panic!("nothing fails here");
    }
}

/// The results of many messages go to one buffer that is handed on, also in the middle of a message: what was written of
/// a message before is copied again only as long as it is there.
#[test]
fn results_of_many_messages_are_handed_on_whole() {
    let texts = [
        "for $v in //b where $v/c = 7 return <r>{ $v/c }{ $v//d }</r>",
        "for $v in //b where $v/d = 'x' return <r>{ $v/c }{ $v//d }</r>",
        "<all>{ for $v in //b where $v/c = 8 return <r>{ $v/c }{ $v/e }</r> }</all>",
        "for $v in /a/b where $v/d = 'x' return <r>{ $v/e }{ $v/f }</r>",
        "for $v in /a where $v/b/c = 7 return <s>{ $v/b }</s>",
        "for $v in /a where $v/b/c = 8 return <s>{ $v/b }</s>",
    ];
    let mut engine = Engine::new(Limits::default());
    for (number, text) in texts.iter().enumerate() {
        engine.add(&number.to_string(), text, &context(), false).expect(text);
    }
    let random = &mut Random(5);
    let mut messages = Vec::new();
    for number in 0..24 {
        let mut xml = format!("<a n='{number}'>");
        for _ in 0..if number % 3 == 2 { 900 } else { 1 + random.below(40) } {
            let long = "long ".repeat(random.below(60));
            let (c, d) = (7 + random.below(3), random.of(&["x", "y"]));
            xml.push_str(&format!("<b><c>{c}</c><d>{d}</d><d>{long}</d><e>{long}</e></b>"));
        }
        xml.push_str("</a>");
        messages.push(xml);
    }
    let sink = Collected::default();
    let mut payloads = Payloads::into_sink(Box::new(sink.clone()));
    let mut matcher = Matcher::new();
    let mut all = Vec::new();
    for xml in &messages {
        engine.run_delivering(&mut matcher, xml.as_bytes()).expect(xml);
        let delivered = engine.deliver(&mut matcher, xml.as_bytes(), &mut payloads);
        assert!(delivered.failures.is_empty());
        all.push(delivered);
    }
    payloads.close();
    let bytes = sink.0.lock().expect("no panic before");
    assert!(bytes.len() > 4 << 20, "{} bytes are too few to be handed on in parts", bytes.len());
    let place = |number: u32| {
        let start = if number == 0 { 0 } else { payloads.ends()[number as usize - 1] };
        start as usize..payloads.ends()[number as usize] as usize
    };
    for (xml, delivered) in messages.iter().zip(&all) {
        let found: BTreeMap<String, &[u8]> = (delivered.slots.iter().zip(&delivered.numbers))
            .map(|(&slot, &number)| (key(&engine, slot), &bytes[place(number)]))
            .collect();
        for (number, text) in texts.iter().enumerate() {
            let expected = alone(text, xml);
            assert!(found.get(&number.to_string()).copied() == expected.as_deref(), "{text}\non {xml:.200}");
        }
    }
}

/// Many results by few recipes, from pieces of all lengths: in messages small enough for their pieces to be put together
/// first and in larger ones, with namespaces to be added and without, into memory that was used before.
#[test]
fn pieces_of_all_lengths_are_put_together() {
    let mut texts = vec!["for $v in //b where $v/e return <none>{ $v/f }</none>".to_owned()];
    for constant in 0..9 {
        for (makes, compared) in
            [("<r>{ $v/d }{ $v//e }</r>", "c"), ("<long-name>{ $v/f } and { $v/c }</long-name>", "d")]
        {
            texts.push(format!("for $v in //b where $v/{compared} = {constant} return {makes}"));
            texts.push(format!("for $v in /a/b where $v/@k = {constant} return {makes}"));
        }
        texts.push(format!("for $v in //b where $v/c = {constant} return <e>{{ $v/f }}</e>"));
    }
    let mut engine = Engine::new(Limits::default());
    for (number, text) in texts.iter().enumerate() {
        engine.add(&number.to_string(), text, &context(), false).expect(text);
    }
    let (mut matcher, mut memory, mut found) = (Matcher::new(), Vec::new(), 0);
    for seed in 1..13 {
        println!("seed {seed}");
        let random = &mut Random(seed);
        let mut payloads = Payloads::default().with_room(memory);
        let mut all = Vec::new();
        let mut messages = Vec::new();
        for size in [1 + random.below(12), 1 + random.below(60), if seed % 6 == 0 { 1000 } else { 70 }] {
            let mut xml = format!("<a{}>", random.of(&["", " xmlns:p='urn:p'", " xmlns:q='urn:q'", ""]));
            for _ in 0..size {
                xml.push_str(&format!("<b k='{}'><c>{}</c>", random.below(9), random.below(9)));
                for _ in 0..random.below(4) {
                    let most = if random.below(3) == 0 { 700 } else { 40 };
                    let text = "x".repeat(random.below(most));
                    xml.push_str(&match random.below(3) {
                        0 => format!("<d>{}</d>", random.below(9)),
                        1 => format!("<e>{text}</e><g/>"),
                        _ => format!("<d>{text}<e>{}</e></d>", random.below(9)),
                    });
                }
                xml.push_str("</b>");
            }
            xml.push_str("</a>");
            engine.run_delivering(&mut matcher, xml.as_bytes()).expect(&xml);
            all.push(engine.deliver(&mut matcher, xml.as_bytes(), &mut payloads));
            messages.push(xml);
        }
        for (xml, delivered) in messages.iter().zip(&all) {
            let mut keys = BTreeMap::new();
            for (&slot, &number) in delivered.slots.iter().zip(&delivered.numbers) {
                keys.insert(key(&engine, slot), payloads.get(number as usize).expect("no sink took it"));
            }
            for (number, text) in texts.iter().enumerate() {
                let expected = alone(text, xml);
                assert!(keys.get(&number.to_string()).copied() == expected.as_deref(), "{text}\non {xml:.300}");
                found += usize::from(expected.is_some());
            }
            let later = prepared(&engine, &mut matcher, xml);
            assert!(
                later.iter().all(|(key, bytes)| keys.get(key) == Some(&bytes.as_slice())) && later.len() == keys.len()
            );
        }
        (memory, _) = payloads.into_parts();
    }
    assert!(found > 800, "{found} deliveries are too few to mean anything");
}

/// Few recipes make many results, of which each is much larger than the message: what they have in common is put together
/// once as long as there is room for it, and the others are made all the same; into a buffer, and into a sink.
#[test]
fn what_many_results_have_in_common_may_be_too_large_to_be_kept() {
    let mut texts = Vec::new();
    for constant in 0..14 {
        for makes in ["<r>{ $v//b }</r>", "<s>{ $v//b } of { $v/c }</s>", "<t>{ $v/c }{ $v//c }{ $v/b }</t>", "<u/>"] {
            texts.push(format!("for $v in //b where $v/c = {constant} return {makes}"));
        }
    }
    let mut engine = Engine::new(Limits::default());
    for (number, text) in texts.iter().enumerate() {
        engine.add(&number.to_string(), text, &context(), false).expect(text);
    }
    let (mut matcher, mut found) = (Matcher::new(), 0);
    for seed in 1..6 {
        println!("seed {seed}");
        let random = &mut Random(seed);
        let mut xml = String::from("<a>");
        // A tower of elements: each is copied once for each above it.
        for _ in 0..[0, 12, 40][seed as usize % 3] {
            let text = "y".repeat(random.below(900));
            xml.push_str(&format!("<b><c>{}</c><c>{}</c>{text}", random.below(14), random.below(14)));
        }
        let open = xml.matches("<b>").count();
        xml.push_str(&"</b>".repeat(open));
        for _ in 0..random.below(30) {
            xml.push_str(&format!("<b><c>{}</c><b>{}</b></b>", random.below(14), "z".repeat(random.below(300))));
        }
        xml.push_str("</a>");
        let sink = Collected::default();
        let mut handed = Payloads::into_sink(Box::new(sink.clone()));
        engine.run_delivering(&mut matcher, xml.as_bytes()).expect("it is well-formed");
        let result = engine.deliver(&mut matcher, xml.as_bytes(), &mut handed);
        handed.close();
        let bytes = sink.0.lock().expect("no panic before");
        let place = |number: usize| {
            let start = if number == 0 { 0 } else { handed.ends()[number - 1] as usize };
            start..handed.ends()[number] as usize
        };
        let handed_on: All = (result.slots.iter().zip(&result.numbers))
            .map(|(&slot, &number)| (key(&engine, slot), bytes[place(number as usize)].to_vec()))
            .collect();
        let kept = delivered(&engine, &mut matcher, &xml);
        for (number, text) in texts.iter().enumerate() {
            let expected = alone(text, &xml);
            for (how, all) in [("kept", &kept), ("handed on", &handed_on)] {
                assert!(all.get(&number.to_string()) == expected.as_ref(), "seed {seed}, {how}: {text}");
            }
            found += usize::from(expected.is_some());
        }
    }
    assert!(found > 150, "{found} deliveries are too few to mean anything");
}
