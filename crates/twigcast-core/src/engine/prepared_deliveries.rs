//! What one message is delivered as, with results that are known but not put together.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock, RwLock, RwLockReadGuard};

use super::deliveries::MessageDeliveries;
use super::slot_order::{SPARSE, put_in_order, with_in_order};
use super::subscribers::{Subscribers, SubscribersByQuery};
use super::subscription_table::Slot;
use crate::rewrite::batch::QueryResults;
use crate::rewrite::{ExtractError, Payloads, PreparedResults, ResultIds};

/// Only laying out writes; if that ends in a panic, some entries are where they were and some are not, and nobody may put
/// results together from them.
const CUT_SHORT: &str = "laying out the results of this message was cut short by a panic";

/// What one message is delivered as. Until somebody asks for the single deliveries, it is known by groups of queries who
/// gets what; results are put together one by one, or all at once. The population may change meanwhile.
#[derive(Debug)]
pub struct PreparedDeliveries {
    /// What was told when the message was matched. Its payloads come first.
    immediate: MessageDeliveries,
    remaining: u32,
    /// Written to only to lay it out for putting all results together; what it tells stays.
    prepared: RwLock<PreparedResults>,
    /// Numbers of results that are larger than allowed, counted without the payloads, ascending.
    too_large: Vec<u32>,
    subscribed: SubscribersAtMatch,
    count: usize,
    named: OnceLock<ExpandedDeliveries>,
}

/// Who subscribed to which query when the message was matched.
#[derive(Debug)]
pub(super) struct SubscribersAtMatch {
    pub subscribers: Arc<SubscribersByQuery>,
    /// Each query has one subscription, of its own number.
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

/// The single deliveries.
#[derive(Debug)]
struct ExpandedDeliveries {
    delivered: MessageDeliveries,
    /// Are the slots known to ascend?
    is_in_order: bool,
    results: ResultIds,
}

impl PreparedDeliveries {
    /// `others`: how many payloads there are of what was told. What is named already is numbered from 0, and has the
    /// numbers of those that are too large with it.
    pub(super) fn new(
        immediate: MessageDeliveries,
        remaining: u32,
        (prepared, named): (PreparedResults, Option<(MessageDeliveries, ResultIds, Vec<u32>)>),
        subscribed: SubscribersAtMatch,
    ) -> Self {
        let count = immediate.slots.len() + if named.is_none() { subscribed.count(&prepared) } else { 0 };
        let (prepared, too_large) = (RwLock::new(prepared), Vec::new());
        let mut prepared_deliveries =
            Self { immediate, remaining, prepared, too_large, subscribed, count, named: OnceLock::new() };
        if let Some((delivered, results, too_large)) = named {
            let single = prepared_deliveries.after_immediate(delivered, results);
            prepared_deliveries.count = single.delivered.slots.len();
            (prepared_deliveries.named, prepared_deliveries.too_large) = (single.into(), too_large);
        }
        prepared_deliveries
    }

    fn prepared(&self) -> RwLockReadGuard<'_, PreparedResults> {
        self.prepared.read().expect(CUT_SHORT)
    }

    /// What was told, and then this.
    fn after_immediate(&self, mut delivered: MessageDeliveries, results: ResultIds) -> ExpandedDeliveries {
        if self.remaining > 0 {
            delivered.numbers.iter_mut().for_each(|number| *number += self.remaining);
        }
        delivered.slots.extend_from_slice(&self.immediate.slots);
        delivered.numbers.extend_from_slice(&self.immediate.numbers);
        ExpandedDeliveries { delivered, is_in_order: false, results }
    }

    /// The single deliveries, told now if they were not before; in order, if that is as good as for nothing.
    fn single(&self) -> &ExpandedDeliveries {
        let is_many = self.count >= self.slot_bound() / SPARSE;
        let deliver = || if self.subscribed.is_plain && is_many { self.deliver_in_order() } else { self.deliver() };
        self.named.get_or_init(deliver)
    }

    fn deliver(&self) -> ExpandedDeliveries {
        let mut immediate = QueryResults::default();
        let results = self.prepared().named(&mut immediate);
        self.after_immediate(self.subscribed.deliver(immediate), results)
    }

    /// [`Self::deliver`] where each query has one subscription, of its own number.
    fn deliver_in_order(&self) -> ExpandedDeliveries {
        let mut delivered = MessageDeliveries::default();
        let results = with_in_order(|in_order| {
            in_order.begin(self.slot_bound(), self.remaining);
            let results = self.prepared().named(in_order);
            in_order.put_all(&self.immediate.slots, &self.immediate.numbers);
            in_order.append_to(&mut delivered.slots, &mut delivered.numbers);
            results
        });
        ExpandedDeliveries { delivered, is_in_order: true, results }
    }

    fn slot_bound(&self) -> usize {
        self.subscribed.subscribers.keys.len()
    }

    /// How many deliveries there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// None?
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many results there are: first the payloads made when the message was matched, then those that are put
    /// together.
    pub fn result_count(&self) -> usize {
        self.remaining as usize + self.single().results.len()
    }

    /// Matching subscriptions, in no order, with the number of each one's result; [`MessageDeliveries::WHOLE`] where the message
    /// itself is delivered.
    pub fn deliveries(&self) -> (&[Slot], &[u32]) {
        let MessageDeliveries { slots, numbers, .. } = &self.named.get_or_init(|| self.deliver()).delivered;
        (slots, numbers)
    }

    /// The same, ascending.
    pub fn deliveries_in_order(&self) -> (Cow<'_, [Slot]>, Cow<'_, [u32]>) {
        let ExpandedDeliveries { delivered: MessageDeliveries { slots, numbers, .. }, is_in_order, .. } = self.single();
        if *is_in_order {
            return (Cow::Borrowed(slots), Cow::Borrowed(numbers));
        }
        let (mut slots, mut numbers) = (slots.clone(), numbers.clone());
        put_in_order(&mut slots, &mut numbers, self.slot_bound());
        (Cow::Owned(slots), Cow::Owned(numbers))
    }

    /// Matching subscriptions without a payload, with the reason.
    pub fn failures(&self) -> &[(Slot, ExtractError)] {
        &self.immediate.failures
    }

    /// The number of a result that is put together when it is asked for, without the payloads; `None`: it is one of these,
    /// or there is none of this number.
    fn later(&self, number: usize) -> Option<usize> {
        let number = number.checked_sub(self.remaining as usize)?;
        (number < self.single().results.len()).then_some(number)
    }

    fn is_too_large(&self, number: usize) -> bool {
        !self.too_large.is_empty() && self.too_large.binary_search(&(number as u32)).is_ok()
    }

    /// How many bytes a result has; `None`: it is one of the payloads, or there is none of this number. One that is larger
    /// than allowed is nobody's, and has none.
    pub fn size(&self, number: usize) -> Option<usize> {
        let number = self.later(number)?;
        Some(if self.is_too_large(number) { 0 } else { self.single().results.size(&self.prepared(), number) })
    }

    /// Puts a result together that is no payload; nothing if there is none of this number. `source` is the message,
    /// `memory` is for the bytes, and may be given again for others.
    pub fn write<'a>(&self, number: usize, source: &[u8], memory: &'a mut Vec<u8>) -> &'a [u8] {
        match self.later(number) {
            Some(number) if !self.is_too_large(number) => {
                self.single().results.write(&self.prepared(), number, source, memory)
            }
            _ => &[],
        }
    }

    /// Puts all results together, in the order of their numbers. `source` is the message, `told` has the payloads made when
    /// it was matched, which are copied.
    ///
    /// # Errors
    /// There is no memory for all of them. Those that are too large are known, and nothing else fails.
    ///
    /// # Panics
    /// Where an earlier call did.
    pub fn write_all<'a>(
        &self,
        source: &[u8],
        immediate: impl Iterator<Item = &'a [u8]> + Clone,
        payloads: &mut Payloads,
    ) -> Result<(), ExtractError> {
        let results = &self.single().results;
        // This pays also where results are too large, which are put together another way: by a sixth.
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

    /// Where elements nest deeply in themselves, each path leads from each binding to nearly all that is below: what that
    /// means is not found out beyond bounds, nor what is below looked at; and the next message is decided as ever.
    #[test]
    fn deep_nesting_is_no_work_for_a_guide() {
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
            if !matcher.guide.is_ready() {
                return (false, false);
            }
            let message = Message { source: xml.as_bytes(), document: &matcher.document };
            matcher.guide.find_results(&mut engine.session(message, &mut Payloads::default()));
            (true, matcher.guide.is_certain(usize::MAX))
        };
        // Of label paths and paths; of values and bindings; of nodes and bindings: each a product too large.
        for (depth, leaves, expected) in
            [(1_900, 1, (false, false)), (400, 4_000, (false, false)), (700, 1_500, (true, false))]
        {
            assert_eq!(decided(&nested(depth, leaves)), expected, "{leaves} leaves below {depth} elements");
            assert_eq!(decided(&nested(3, 5)), (true, true), "after {leaves} leaves below {depth} elements");
        }
    }

    /// Results are told apart by numbers that go on from message to message, and begin anew when there are no more.
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

    /// Queries with several conditions are laid out anew once it has cost as much to look for them, by how often their
    /// conditions held, and then they are found as before; also where label paths were learnt meanwhile.
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
            // Of the first values each is there nearly always, of the last hardly ever; the paths grow now and then.
            let (a, b, c) = (number % 3, number / 3 % 4, if number % 7 == 0 { number / 7 % 5 } else { 9 });
            let more = if number % 1_500 == 1_499 { format!("<x{number}/>") } else { String::new() };
            let item = |a, b, c| format!("<i><a>{a}</a><b>{b}</b><c>{c}</c></i>");
            let xml = format!("<m>{}{}{more}</m>", item(a, b, c), item((a + 1) % 3, (b + 1) % 4, 9));
            engine.run(&mut matcher, xml.as_bytes()).expect("a well-formed message");
            let mut slots = Vec::new();
            engine.slots(&matcher, &mut slots);
            let expected: Vec<u32> = if c < 5 { vec![a + 3 * b + 12 * c] } else { Vec::new() };
            assert_eq!(slots, expected, "message {number}");
            patience.push(matcher.guide.patience);
        }
        patience.dedup();
        assert_eq!(patience.len(), 2, "{patience:?}");
    }

    /// Where queries only went, all is laid out anew once it has cost as much to skip them; not for each that goes, and
    /// with the same results all the while.
    #[test]
    fn queries_that_only_went_are_not_skipped_for_ever() {
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
        assert!(matcher.guide.is_certain(usize::MAX));
        for gone in 1..4 {
            assert!(engine.remove(&(gone * 50).to_string()));
            let expected = immediate(&engine, &mut Matcher::new());
            assert_eq!(expected.len(), COUNT - gone);
            let mut skipping = 0;
            loop {
                assert_eq!(immediate(&engine, &mut matcher), expected);
                if matcher.guide.is_certain(usize::MAX) {
                    break;
                }
                skipping += 1;
                assert!(skipping < 100, "nothing is laid out anew");
            }
            assert!(skipping > 10, "laid out after {skipping} messages");
        }
    }

    /// A panic while the results are laid out leaves them half laid out: nobody gets any of them then.
    #[test]
    fn what_a_panic_left_half_laid_out_is_refused() {
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

    /// Where there is no memory for all results, that is an error, and not the end of the process.
    #[test]
    fn no_memory_for_all_results_is_an_error() {
        let mut engine = Engine::new(Limits::default());
        let text = "for $v in //i return <r>{ $v/a }</r>";
        engine.add("one", text, &QueryContext::default(), false).expect(text);
        let xml = b"<m><i><a/></i></m>";
        let prepared_deliveries =
            engine.prepare(&mut Matcher::new(), xml, &mut Payloads::default()).expect("well-formed");
        // So often that there are not as many addresses.
        let (immediate, count) = (vec![0; 1 << 26], 1 << 22);
        let mut payloads = Payloads::default();
        let written = prepared_deliveries.write_all(xml, std::iter::repeat_n(&immediate[..], count), &mut payloads);
        assert!(matches!(written, Err(ExtractError::NoMemory { bytes }) if bytes > count << 26), "{written:?}");
        assert_eq!(prepared_deliveries.write_all(xml, [].into_iter(), &mut payloads), Ok(()));
        assert_eq!(payloads.get(0), Some(&b"<r><a/></r>"[..]));
    }
}
