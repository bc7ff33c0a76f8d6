//! The deliveries of one message, with results that are decided but not assembled.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock, RwLock, RwLockReadGuard};

use super::deliveries::MessageDeliveries;
use super::slot_order::{SPARSE, put_in_order, with_slot_order};
use super::subscribers::{Subscribers, SubscribersByQuery};
use crate::ids::Slot;
use crate::rewrite::batch::QueryResults;
use crate::rewrite::{ExtractError, Payloads, PreparedResults, ResultIds};
use crate::scan::ScannedMessage;

/// The panic message where laying out the results was interrupted. Only laying out writes; if it ends in a panic, the
/// entries are inconsistent, and no result may be assembled from them.
const CUT_SHORT: &str = "laying out the results of this message was cut short by a panic";

/// The deliveries of one message, before results are assembled.
///
/// Until the deliveries are read, they are kept by groups of queries, and expanded then. Results are assembled one by one
/// or all at once. The population may change in the meantime: the subscribers are those at the time of the match.
#[derive(Debug)]
pub struct PreparedDeliveries {
    /// What its DOCTYPE has made of the message.
    scanned: ScannedMessage,
    /// Deliveries whose payloads were made when the message was matched. These payloads come first.
    immediate: MessageDeliveries,
    /// The number of these payloads.
    immediate_count: u32,
    /// Written to only to lay it out for assembling all results, which changes no result.
    prepared: RwLock<PreparedResults>,
    /// Ids of results that are larger than allowed, ascending.
    too_large: Vec<u32>,
    subscribed: SubscribersAtMatch,
    count: usize,
    expanded: OnceLock<ExpandedDeliveries>,
}

/// The subscribers of each query when the message was matched.
#[derive(Debug)]
pub(super) struct SubscribersAtMatch {
    pub subscribers: Arc<SubscribersByQuery>,
    /// Each query has one subscription whose slot is the query's number.
    pub is_plain: bool,
}

impl SubscribersAtMatch {
    fn count(&self, prepared: &PreparedResults) -> usize {
        if self.is_plain {
            return prepared.query_count();
        }
        let subscribers = |query| match self.subscribers.subscribers(query) {
            Subscribers::Sole(_) => 1,
            Subscribers::Several(slots) => slots.len(),
        };
        prepared.queries().map(subscribers).sum()
    }

    fn deliver(&self, immediate: QueryResults) -> MessageDeliveries {
        let mut delivered = MessageDeliveries::default();
        if self.is_plain {
            (delivered.slots, delivered.numbers) = (immediate.queries, immediate.numbers);
        } else {
            for (&query, &number) in immediate.queries.iter().zip(&immediate.numbers) {
                delivered.push_subscribers(&self.subscribers, query, number);
            }
        }
        delivered
    }
}

/// The deliveries, one by one.
#[derive(Debug)]
struct ExpandedDeliveries {
    delivered: MessageDeliveries,
    /// The slots are in ascending order.
    is_in_order: bool,
    results: ResultIds,
}

impl PreparedDeliveries {
    /// Creates the deliveries of a message. `immediate_count` payloads have been made. If the results have ids already,
    /// `named` has their deliveries, the results, and the ids of those that are too large.
    pub(super) fn new(
        scanned: ScannedMessage,
        immediate: MessageDeliveries,
        immediate_count: u32,
        (prepared, named): (PreparedResults, Option<(MessageDeliveries, ResultIds, Vec<u32>)>),
        subscribed: SubscribersAtMatch,
    ) -> Self {
        let count = immediate.slots.len() + if named.is_none() { subscribed.count(&prepared) } else { 0 };
        let (prepared, too_large) = (RwLock::new(prepared), Vec::new());
        let mut prepared_deliveries = Self {
            scanned,
            immediate,
            immediate_count,
            prepared,
            too_large,
            subscribed,
            count,
            expanded: OnceLock::new(),
        };
        if let Some((delivered, results, too_large)) = named {
            let expanded = prepared_deliveries.with_immediate(delivered, results);
            prepared_deliveries.count = expanded.delivered.slots.len();
            (prepared_deliveries.expanded, prepared_deliveries.too_large) = (expanded.into(), too_large);
        }
        prepared_deliveries
    }

    fn prepared(&self) -> RwLockReadGuard<'_, PreparedResults> {
        self.prepared.read().expect(CUT_SHORT)
    }

    /// Returns the immediate deliveries and those of results.
    fn with_immediate(&self, mut delivered: MessageDeliveries, results: ResultIds) -> ExpandedDeliveries {
        if self.immediate_count > 0 {
            delivered.numbers.iter_mut().for_each(|number| *number += self.immediate_count);
        }
        delivered.slots.extend_from_slice(&self.immediate.slots);
        delivered.numbers.extend_from_slice(&self.immediate.numbers);
        ExpandedDeliveries { delivered, is_in_order: false, results }
    }

    /// Returns the expanded deliveries. If they are expanded now, they are in order if that costs nothing.
    fn expanded(&self) -> &ExpandedDeliveries {
        let is_many = self.count >= self.slot_bound() / SPARSE;
        let deliver = || if self.subscribed.is_plain && is_many { self.deliver_in_order() } else { self.deliver() };
        self.expanded.get_or_init(deliver)
    }

    fn deliver(&self) -> ExpandedDeliveries {
        let mut immediate = QueryResults::default();
        let results = ResultIds::of(&self.prepared(), &mut immediate);
        self.with_immediate(self.subscribed.deliver(immediate), results)
    }

    /// Expands the deliveries in order, where each query has one subscription whose slot is the query's number.
    fn deliver_in_order(&self) -> ExpandedDeliveries {
        let mut delivered = MessageDeliveries::default();
        let results = with_slot_order(|in_order| {
            in_order.begin(self.slot_bound(), self.immediate_count);
            let results = ResultIds::of(&self.prepared(), in_order);
            in_order.put_all(&self.immediate.slots, &self.immediate.numbers);
            in_order.append_to(&mut delivered.slots, &mut delivered.numbers);
            results
        });
        ExpandedDeliveries { delivered, is_in_order: true, results }
    }

    fn slot_bound(&self) -> usize {
        self.subscribed.subscribers.keys.len()
    }

    /// Returns the document that is delivered to those whose queries rewrite nothing, in parts; `None`: the message as it came,
    /// which is `source`.
    pub fn document<'m>(&'m self, source: &'m [u8]) -> Option<[Cow<'m, [u8]>; 4]> {
        self.scanned.document(source)
    }

    /// Takes out the memory of the message, if it was expanded. After that, nothing more can be assembled.
    pub fn take_memory(&mut self) -> Option<String> {
        self.scanned.take_expanded()
    }

    /// Returns the number of deliveries.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns `true` if there are no deliveries.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the number of payloads: first those made when the message was matched, then the results to be assembled.
    pub fn result_count(&self) -> usize {
        self.immediate_count as usize + self.expanded().results.len()
    }

    /// Returns the slots of matching subscriptions, in no order, and the index of each payload;
    /// [`MessageDeliveries::WHOLE`] where the message itself is delivered.
    pub fn deliveries(&self) -> (&[Slot], &[u32]) {
        let MessageDeliveries { slots, numbers, .. } = &self.expanded.get_or_init(|| self.deliver()).delivered;
        (slots, numbers)
    }

    /// Returns the same by ascending slots.
    pub fn deliveries_in_order(&self) -> (Cow<'_, [Slot]>, Cow<'_, [u32]>) {
        let ExpandedDeliveries { delivered: MessageDeliveries { slots, numbers, .. }, is_in_order, .. } =
            self.expanded();
        if *is_in_order {
            return (Cow::Borrowed(slots), Cow::Borrowed(numbers));
        }
        let (mut slots, mut numbers) = (slots.clone(), numbers.clone());
        put_in_order(&mut slots, &mut numbers, self.slot_bound());
        (Cow::Owned(slots), Cow::Owned(numbers))
    }

    /// Returns the slots of matching subscriptions without a payload, with the reason.
    pub fn failures(&self) -> &[(Slot, ExtractError)] {
        &self.immediate.failures
    }

    /// Returns the id of the result with an index; `None` for a payload that exists already, and for an unknown index.
    fn result_id(&self, number: usize) -> Option<usize> {
        let number = number.checked_sub(self.immediate_count as usize)?;
        (number < self.expanded().results.len()).then_some(number)
    }

    fn is_too_large(&self, number: usize) -> bool {
        !self.too_large.is_empty() && self.too_large.binary_search(&(number as u32)).is_ok()
    }

    /// Returns the size in bytes of the result with an index; `None` for a payload that exists already, and for an unknown
    /// index. A result that is larger than allowed is not delivered, and has size 0.
    pub fn size(&self, number: usize) -> Option<usize> {
        let number = self.result_id(number)?;
        Some(if self.is_too_large(number) { 0 } else { self.expanded().results.size(&self.prepared(), number) })
    }

    /// Assembles the result with an index; empty if there is none. `source` is the message; `memory` takes the bytes, and can
    /// be used again.
    pub fn write<'a>(&self, number: usize, source: &[u8], memory: &'a mut Vec<u8>) -> &'a [u8] {
        match self.result_id(number) {
            Some(number) if !self.is_too_large(number) => {
                let source = self.scanned.bytes(source);
                self.expanded().results.write(&self.prepared(), number, source, memory)
            }
            _ => &[],
        }
    }

    /// Assembles all results, in the order of their indexes. `source` is the message; `immediate` are the payloads that were
    /// made when it was matched, which are copied.
    ///
    /// # Errors
    /// There is not enough memory.
    ///
    /// # Panics
    /// An earlier call panicked.
    pub fn write_all<'a>(
        &self,
        source: &[u8],
        immediate: impl Iterator<Item = &'a [u8]> + Clone,
        payloads: &mut Payloads,
    ) -> Result<(), ExtractError> {
        let (results, source) = (&self.expanded().results, self.scanned.bytes(source));
        // Laying out saves a sixth of the time even if some results are too large.
        if !results.is_empty() {
            self.prepared.write().expect(CUT_SHORT).join(source);
        }
        self.prepared().assemble((results, &self.too_large), source, immediate, payloads)
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::super::{Engine, Matcher, QueryContext};
    use crate::document::Message;
    use crate::limits::Limits;
    use crate::rewrite::{ExtractError, Payloads};

    /// Where elements of one name are deeply nested, each path leads from each binding to nearly all nodes below. The batch
    /// rewriter gives up within bounds there, and decides the next message as usual.
    #[test]
    fn deep_nesting_is_not_left_to_the_batch_rewriter() {
        let mut engine = Engine::new(Limits::default());
        let context = QueryContext::default();
        for steps in 0..12 {
            let text = format!("for $v in //b where $v{}//d = 7 return <r>{{ $v/c }}</r>", "/b".repeat(steps));
            engine.add(&format!("compares {steps}"), &text, &context, false).expect(&text);
        }
        engine.add("returns", "for $v in //b return <r>{ $v//d }</r>", &context, false).expect("a query");
        let nested =
            |depth, leaves| format!("{}{}{}", "<b>".repeat(depth), "<d>7</d>".repeat(leaves), "</b>".repeat(depth));
        let mut matcher = Matcher::new();
        let mut decided = |xml: &str| {
            engine.run_delivering(&mut matcher, xml.as_bytes()).expect("a well-formed message");
            if !matcher.rewriter.is_ready() {
                return (false, false);
            }
            let message = Message { source: xml.as_bytes(), document: &matcher.document };
            matcher.rewriter.find_results(&mut engine.interpreter(message, &mut Payloads::default()));
            (true, matcher.rewriter.is_certain(usize::MAX))
        };
        // Each product is too large: label paths times paths, values times bindings, nodes times bindings.
        for (depth, leaves, expected) in
            [(1_900, 1, (false, false)), (400, 4_000, (false, false)), (700, 1_500, (true, false))]
        {
            assert_eq!(decided(&nested(depth, leaves)), expected, "{leaves} leaves below {depth} elements");
            assert_eq!(decided(&nested(3, 5)), (true, true), "after {leaves} leaves below {depth} elements");
        }
    }

    /// Marks that distinguish results go on from message to message, and begin anew when there are no more.
    #[test]
    fn numbers_of_results_begin_anew() {
        let mut engine = Engine::new(Limits::default());
        let context = QueryContext::default();
        for number in 0..24 {
            let (path, name) = (["a", "b", "i"][number % 3], ["r", "s"][number / 12]);
            let value = number % 4;
            let text = format!("for $v in //i where $v/a = {value} return <{name}>{{ $v/{path} }}</{name}>");
            engine.add(&number.to_string(), &text, &context, false).expect(&text);
        }
        let mut matcher = Matcher::new();
        let mut immediate = |xml: &str| {
            let prepared_deliveries =
                engine.prepare(&mut matcher, xml.as_bytes(), &mut Payloads::default()).expect("well-formed");
            let (slots, numbers) = prepared_deliveries.deliveries();
            (slots.to_vec(), numbers.to_vec(), prepared_deliveries.result_count())
        };
        let items =
            |values: &[u32]| -> String { values.iter().map(|value| format!("<i><a>{value}</a></i>")).collect() };
        for values in [&[0, 1, 2, 3, 0][..], &[1], &[2, 2, 0], &[3, 1, 3, 1, 2, 2, 0]] {
            let xml = format!("<m>{}</m>", items(values));
            let expected = immediate(&xml);
            assert!(expected.2 > 1 && expected.2 <= expected.0.len(), "{expected:?}");
            crate::rewrite::batch::start_last_round();
            for _ in 0..3 {
                assert_eq!(immediate(&xml), expected, "{values:?}");
            }
        }
    }

    /// Queries with several conditions are laid out again, by how often their conditions held, once looking them up has cost
    /// as much. They are found as before then, also if label paths were added in the meantime.
    #[test]
    fn queries_are_put_in_order_by_how_often_their_conditions_hold() {
        let mut engine = Engine::new(Limits::default());
        let context = QueryContext::default();
        for number in 0..60 {
            let (a, b, c) = (number % 3, number / 3 % 4, number / 12);
            let text =
                format!("for $v in /m/i where $v/a = {a} and $v/b = {b} and $v/c = {c} return <r>{{ $v/a }}</r>");
            engine.add(&number.to_string(), &text, &context, false).expect(&text);
        }
        let mut matcher = Matcher::new();
        let mut patience = Vec::new();
        for number in 0_u32..4_000 {
            // The first values nearly always occur, the last hardly ever; new paths occur now and then.
            let (a, b, c) = (number % 3, number / 3 % 4, if number % 7 == 0 { number / 7 % 5 } else { 9 });
            let more = if number % 1_500 == 1_499 { format!("<x{number}/>") } else { String::new() };
            let item = |a, b, c| format!("<i><a>{a}</a><b>{b}</b><c>{c}</c></i>");
            let xml = format!("<m>{}{}{more}</m>", item(a, b, c), item((a + 1) % 3, (b + 1) % 4, 9));
            engine.run(&mut matcher, xml.as_bytes()).expect("a well-formed message");
            let mut slots = Vec::new();
            engine.slots(&matcher, &mut slots);
            let expected: Vec<u32> = if c < 5 { vec![a + 3 * b + 12 * c] } else { Vec::new() };
            assert_eq!(slots, expected, "message {number}");
            patience.push(matcher.rewriter.patience);
        }
        patience.dedup();
        assert_eq!(patience.len(), 2, "{patience:?}");
    }

    /// Where queries were only removed, the rest is laid out again once skipping them has cost as much, with the same results
    /// all the time.
    #[test]
    fn removed_queries_are_not_skipped_for_ever() {
        const COUNT: usize = 240;
        let mut engine = Engine::new(Limits::default());
        let context = QueryContext::default();
        for number in 0..COUNT {
            let text = format!("for $v in //i where $v/a = {} return <r n='{number}'>{{ $v/b }}</r>", number % 4);
            engine.add(&number.to_string(), &text, &context, false).expect(&text);
        }
        let xml = b"<m><i><a>0</a><b/></i><i><a>1</a></i><i><a>2</a></i><i><a>3</a><b>x</b></i></m>";
        let immediate = |engine: &Engine, matcher: &mut Matcher| {
            let prepared_deliveries = engine.prepare(matcher, xml, &mut Payloads::default()).expect("well-formed");
            let (slots, numbers) = prepared_deliveries.deliveries_in_order();
            let result = |&number: &u32| prepared_deliveries.write(number as usize, xml, &mut Vec::new()).to_vec();
            slots.iter().copied().zip(numbers.iter().map(result)).collect::<Vec<_>>()
        };
        let mut matcher = Matcher::new();
        assert_eq!(immediate(&engine, &mut matcher).len(), COUNT);
        assert!(matcher.rewriter.is_certain(usize::MAX));
        for gone in 1..4 {
            assert!(engine.remove(&(gone * 50).to_string()));
            let expected = immediate(&engine, &mut Matcher::new());
            assert_eq!(expected.len(), COUNT - gone);
            let mut skipping = 0;
            loop {
                assert_eq!(immediate(&engine, &mut matcher), expected);
                if matcher.rewriter.is_certain(usize::MAX) {
                    break;
                }
                skipping += 1;
                assert!(skipping < 100, "nothing is laid out again");
            }
            assert!(skipping > 10, "laid out after {skipping} messages");
        }
    }

    /// After a panic while the results were laid out, no result can be read.
    #[test]
    fn results_cannot_be_read_after_a_panic_in_laying_out() {
        let mut engine = Engine::new(Limits::default());
        let text = "for $v in //i return <r>{ $v/a }</r>";
        engine.add("one", text, &QueryContext::default(), false).expect(text);
        let xml = b"<m><i><a/><a/></i></m>";
        let prepared_deliveries =
            engine.prepare(&mut Matcher::new(), xml, &mut Payloads::default()).expect("well-formed");
        assert_eq!(prepared_deliveries.write(0, xml, &mut Vec::new()), b"<r><a/><a/></r>");
        let panics = |work: &dyn Fn()| catch_unwind(AssertUnwindSafe(work)).is_err();
        let write_all =
            || prepared_deliveries.write_all(xml, [].into_iter(), &mut Payloads::default()).expect("there is memory");
        assert!(!panics(&write_all));
        assert!(panics(&|| {
            let _laying_out = prepared_deliveries.prepared.write();
            panic!("as if there were a mistake");
        }));
        assert!(panics(&write_all));
        assert!(panics(&|| drop(prepared_deliveries.write(0, xml, &mut Vec::new()).to_vec())));
    }

    /// A lack of memory for all results is an error, and does not end the process.
    #[test]
    fn no_memory_for_all_results_is_an_error() {
        let mut engine = Engine::new(Limits::default());
        let text = "for $v in //i return <r>{ $v/a }</r>";
        engine.add("one", text, &QueryContext::default(), false).expect(text);
        let xml = b"<m><i><a/></i></m>";
        let prepared_deliveries =
            engine.prepare(&mut Matcher::new(), xml, &mut Payloads::default()).expect("well-formed");
        // The copies are larger than the address space.
        let (immediate, count) = (vec![0; 1 << 26], 1 << 22);
        let mut payloads = Payloads::default();
        let written = prepared_deliveries.write_all(xml, std::iter::repeat_n(&immediate[..], count), &mut payloads);
        assert!(matches!(written, Err(ExtractError::NoMemory { bytes }) if bytes > count << 26), "{written:?}");
        assert_eq!(prepared_deliveries.write_all(xml, [].into_iter(), &mut payloads), Ok(()));
        assert_eq!(payloads.get(0), Some(&b"<r><a/></r>"[..]));
    }
}
