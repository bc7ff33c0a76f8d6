//! Compares many For-Where-Return queries, decided and delivered together in all ways, with each query by itself.

mod checking;
mod making;
mod simd;
#[path = "../testing/mod.rs"]
mod testing;
mod values;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use twigcast_core::engine::{Engine, Matcher};
use twigcast_core::limits::Limits;
use twigcast_core::rewrite::{Payloads, Sink};

use checking::{All, alone, check, context, delivered, key, prepared};
use making::{MESSAGES, query_text};
use testing::Random;

/// Queries are added and removed between messages, and each message brings new label paths.
#[test]
fn populations_deliver_what_each_query_delivers_by_itself() {
    let mut result = 0;
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
            let xml = MESSAGES.one(random);
            result += check(&engine, &mut matcher, &queries, &xml, seed);
        }
    }
    assert!(result > 2_000, "{result} deliveries are too few to mean anything");
}

/// Writes an item with values, other items and text.
fn item(random: &mut Random, depth: usize, out: &mut String) {
    out.push_str("<i>");
    for _ in 0..2 + random.below(5) {
        if depth < 2 && random.below(6) == 0 {
            item(random, depth + 1, out);
        } else {
            out.push_str(&format!("<{0}>{1}</{0}>", random.one(&["a", "b", "c", "d"]), random.one(&["1", "2", "3"])));
        }
        out.push_str(random.one(&["", "", " and "]));
    }
    out.push_str("</i>");
}

/// Queries ask for up to seven values at once, of bindings whose sets take one word or several. The returned paths
/// select several nested ranges of bytes from each binding.
#[test]
fn conjunctions_hold_for_few_bindings_and_for_many() {
    let mut result = 0;
    for seed in 1..7 {
        println!("seed {seed}");
        let random = &mut Random(seed);
        let mut engine = Engine::new(Limits::default());
        let mut queries = BTreeMap::new();
        let mut before: Vec<String> = Vec::new();
        for number in 0..70 {
            // Many have conditions in common with another.
            before.truncate(if random.below(4) == 0 { 0 } else { 1 + random.below(6) });
            for _ in 0..random.below(3) + usize::from(before.is_empty()) {
                let (step, name, value) = (random.one(&["/", "//"]), random.below(4), 1 + random.below(3));
                before.push(format!("$v{step}{} = {value}", ["a", "b", "c", "d"][name]));
            }
            let text = if random.below(5) == 0 {
                let name = random.one(&["a", "b", "*"]);
                let value = 1 + random.below(3);
                format!("for $v in //{name} where $v = {value} return <r>{{ $v }}{{ $v//* }}</r>")
            } else {
                let source = random.one(&["/m/i", "//i", "/m/i/i"]);
                let columns = [random.one(&["$v/a", "$v//b", "$v/i", "$v"]), random.one(&["$v//c", "$v//*", "$v/i/i"])];
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
            result += check(&engine, &mut matcher, &queries, &xml, seed);
        }
    }
    assert!(result > 1_000, "{result} deliveries are too few to mean anything");
}

/// Queries are added and removed between messages without new label paths. Added ones are decided one by one until a
/// new layout pays, and ids of removed ones are reused.
#[test]
fn changes_are_decided_correctly_before_the_next_layout() {
    let mut result = 0;
    for seed in 1..5 {
        println!("seed {seed}");
        let random = &mut Random(seed);
        let mut messages = Vec::new();
        while messages.len() < 3 {
            let xml = MESSAGES.one(random);
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
            result += check(&engine, &mut matcher, &queries, &messages[number % 3], seed);
        }
    }
    assert!(result > 1_000, "{result} deliveries are too few to mean anything");
}

/// After the last of the queries that are decided together is removed, nothing of it is delivered, even if a query that
/// is decided by itself reuses its id on a message with fewer nodes.
#[test]
fn a_removed_last_query_delivers_nothing() {
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

/// Over the limits of bindings, nodes or label paths, queries are decided one by one, and afterwards together again.
#[test]
fn messages_over_the_limits_of_the_batch_rewriter_are_delivered() {
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
        // Each element has its own label path, by depth and by name.
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

/// A sink that keeps all bytes.
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

/// The results of many messages go to one buffer, which the sink empties in the middle of messages too. A fragment is
/// copied again only while the buffer holds it.
#[test]
fn results_of_many_messages_reach_the_sink_whole() {
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
            let (c, d) = (7 + random.below(3), random.one(&["x", "y"]));
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
    let position = |number: u32| {
        let start = if number == 0 { 0 } else { payloads.ends()[number as usize - 1] };
        start as usize..payloads.ends()[number as usize] as usize
    };
    for (xml, delivered) in messages.iter().zip(&all) {
        let result: BTreeMap<String, &[u8]> = (delivered.slots.iter().zip(&delivered.numbers))
            .map(|(&slot, &number)| (key(&engine, slot), &bytes[position(number)]))
            .collect();
        for (number, text) in texts.iter().enumerate() {
            let expected = alone(text, xml);
            assert!(result.get(&number.to_string()).copied() == expected.as_deref(), "{text}\non {xml:.200}");
        }
    }
}

/// Few constructors make many results from pieces of all lengths: of messages small enough to join the slices of
/// entries and of larger ones, with and without namespaces to be added, in memory that was used before.
#[test]
fn pieces_of_all_lengths_are_assembled() {
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
    let (mut matcher, mut memory, mut result) = (Matcher::new(), Vec::new(), 0);
    for seed in 1..13 {
        println!("seed {seed}");
        let random = &mut Random(seed);
        let mut payloads = Payloads::default().with_memory(memory);
        let mut all = Vec::new();
        let mut messages = Vec::new();
        for size in [1 + random.below(12), 1 + random.below(60), if seed % 6 == 0 { 1000 } else { 70 }] {
            let mut xml = format!("<a{}>", random.one(&["", " xmlns:p='urn:p'", " xmlns:q='urn:q'", ""]));
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
                result += usize::from(expected.is_some());
            }
            let later = prepared(&engine, &mut matcher, xml);
            assert!(
                later.iter().all(|(key, bytes)| keys.get(key) == Some(&bytes.as_slice())) && later.len() == keys.len()
            );
        }
        (memory, _) = payloads.into_parts();
    }
    assert!(result > 800, "{result} deliveries are too few to mean anything");
}

/// Few constructors make many results that are much larger than the message. Fragments over the limit are written anew
/// for each result, into a buffer and into a sink.
#[test]
fn fragments_over_the_limit_are_written_anew() {
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
    let (mut matcher, mut actual) = (Matcher::new(), 0);
    for seed in 1..6 {
        println!("seed {seed}");
        let random = &mut Random(seed);
        let mut xml = String::from("<a>");
        // Nested elements: each is copied once for each of its ancestors.
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
        let position = |number: usize| {
            let start = if number == 0 { 0 } else { handed.ends()[number - 1] as usize };
            start..handed.ends()[number] as usize
        };
        let handed_on: All = (result.slots.iter().zip(&result.numbers))
            .map(|(&slot, &number)| (key(&engine, slot), bytes[position(number as usize)].to_vec()))
            .collect();
        let kept = delivered(&engine, &mut matcher, &xml);
        for (number, text) in texts.iter().enumerate() {
            let expected = alone(text, &xml);
            for (how, all) in [("kept", &kept), ("handed on", &handed_on)] {
                assert!(all.get(&number.to_string()) == expected.as_ref(), "seed {seed}, {how}: {text}");
            }
            actual += usize::from(expected.is_some());
        }
    }
    assert!(actual > 150, "{actual} deliveries are too few to mean anything");
}
