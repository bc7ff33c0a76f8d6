//! The results of queries beyond whether they match: selected nodes, their number, payloads.

use std::sync::Arc;

use super::budget::{MessageBudget, PostponedQuery, Turn};
use super::decide::Decisions;
use super::parsed_queries::ParsedQueries;
use super::prepared_deliveries::{PreparedDeliveries, SubscribersAtMatch};
use super::subscribers::Subscribers;
use super::throttle::Stage;
use super::{Engine, EvaluationSource, Matcher, MessageDeliveries};
use crate::document::{Message, NodeKind};
use crate::error::MessageError;
use crate::eval::{Context, EvalError, Evaluator, NodeRef, Value};
use crate::ids::Slot;
use crate::query::ast::Expr;
use crate::query::{self, Query, normal};
use crate::rewrite::batch::{BatchRewriter, QueryResults, UNASSEMBLED};
use crate::rewrite::program::family::FamilyRef;
use crate::rewrite::{ExtractError, Interpreter, Payloads};
use crate::scan::ScanOptions;
use crate::scan::position::Locator;

/// A node that a query selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectedNode {
    /// `element`, `attribute`, `text`, `comment`, `processing-instruction`, `document` or `namespace`.
    pub kind: &'static str,
    /// The name as written, empty for kinds without one.
    pub name: String,
    /// First byte in the message.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
    /// Line of the first byte, from 1.
    pub line: u32,
    /// Column of the first byte, in characters from 1.
    pub column: u32,
}

impl Engine {
    /// Returns the subscriptions that could not be decided on the last message, with the reason, by slot.
    pub fn failures(&self, matcher: &Matcher) -> Vec<(Slot, String)> {
        let mut list = Vec::new();
        let mut slots = Vec::new();
        for (query, error) in matcher.failures() {
            slots.clear();
            self.subscription_table.subscribers().append_subscribers(*query, &mut slots);
            list.extend(slots.iter().map(|&slot| (slot, error.to_string())));
        }
        list.sort_unstable();
        list
    }

    /// Matches a message, recording what [`Self::node_count`] needs.
    ///
    /// # Errors
    /// The errors of [`Self::run`].
    pub fn run_counting(&self, matcher: &mut Matcher, source: &[u8]) -> Result<(), MessageError> {
        self.run_recording(matcher, source, ScanOptions::ALL, true)
    }

    /// Returns how many nodes a subscription selects in the message last matched by [`Self::run_counting`]; 1 for a true
    /// expression that is no node-set, and for a query that rewrites.
    ///
    /// # Errors
    /// The query is too expensive on this message.
    pub fn node_count(&self, matcher: &mut Matcher, source: &[u8], slot: Slot) -> Result<usize, EvalError> {
        let Some(expr) = self.expression(matcher, slot) else { return Ok(1) };
        let Matcher { document, scanned, .. } = matcher;
        let evaluator = self.evaluator(Message { source: scanned.bytes(source), document });
        Ok(match evaluator.value(&expr, Context::DOCUMENT)? {
            Value::Nodes(nodes) => nodes.len(),
            other => usize::from(truth(&other)),
        })
    }

    /// Returns the nodes that a subscription selects in a message, in document order; none if its value is no node-set.
    ///
    /// # Errors
    /// The message is rejected; or (inner error) the query is too expensive on it.
    pub fn selected(
        &self,
        matcher: &mut Matcher,
        source: &[u8],
        slot: Slot,
    ) -> Result<Result<Vec<SelectedNode>, EvalError>, MessageError> {
        self.catch_up(matcher);
        matcher.scan(self, source, ScanOptions::ALL)?;
        let Some(expr) = self.expression(matcher, slot) else { return Ok(Ok(Vec::new())) };
        let message = Message { source, document: &matcher.document };
        let evaluator = self.evaluator(message);
        Ok(evaluator.value(&expr, Context::DOCUMENT).map(|value| match value {
            Value::Nodes(nodes) => {
                let mut locator = Locator::new(source);
                nodes.into_iter().map(|node| describe(&evaluator, &mut locator, node)).collect()
            }
            _ => Vec::new(),
        }))
    }

    /// Returns `true` if some query rewrites. If none does, every match delivers the message itself.
    pub fn has_rewriting(&self) -> bool {
        self.needs.has_rewriting()
    }

    /// Matches a message, recording what [`Self::deliver`] needs.
    ///
    /// # Errors
    /// The errors of [`Self::run`].
    pub fn run_delivering(&self, matcher: &mut Matcher, source: &[u8]) -> Result<(), MessageError> {
        if self.has_rewriting() {
            self.run_recording(matcher, source, ScanOptions::ALL, self.unshared_results)
        } else {
            self.run_expanding(matcher, source)
        }
    }

    /// Returns the deliveries of the message last matched by [`Self::run_delivering`]. Payloads are added to `payloads`;
    /// subscriptions with equal results share one.
    pub fn deliver(&self, matcher: &mut Matcher, source: &[u8], payloads: &mut Payloads) -> MessageDeliveries {
        let mut delivered = MessageDeliveries::default();
        let MessageDeliveries { slots, numbers, .. } = &mut delivered;
        delivered.failures = self.deliver_to(matcher, source, payloads, (slots, numbers));
        delivered
    }

    /// Appends the deliveries to lists, as [`Self::deliver`] does. Returns the failures.
    pub fn deliver_to(
        &self,
        matcher: &mut Matcher,
        source: &[u8],
        payloads: &mut Payloads,
        (slots, numbers): (&mut Vec<Slot>, &mut Vec<u32>),
    ) -> Vec<(Slot, ExtractError)> {
        let before = payloads.len() as u32;
        let mut delivered = MessageDeliveries::default();
        let Matcher { document, scanned, rewriter, decisions, in_order, .. } = matcher;
        let (decisions, source) = (&*decisions, scanned.bytes(source));
        let mut interpreter = self.interpreter(Message { source, document }, payloads);
        let (mut unassembled, mut is_in_order) = (Vec::new(), false);
        if self.unshared_results {
            interpreter.share_nothing();
        } else if rewriter.is_ready() {
            rewriter.find_results(&mut interpreter);
            if self.subscription_table.is_all_plain() && self.is_certain(rewriter) {
                // Nearly always, each query has one subscription, and all results are certain: slots are query numbers.
                in_order.begin(self.slot_bound(), before);
                is_in_order = true;
                rewriter.assign_certain_ids(in_order);
                if let Err(error) = rewriter.write_results(&mut interpreter, &[]) {
                    in_order.append_to(&mut delivered.slots, &mut delivered.numbers);
                    delivered.fail_all(&error);
                    is_in_order = false;
                }
            } else {
                let refused = self.deliver_batch_results(rewriter, &mut delivered, &mut unassembled);
                match rewriter.write_results(&mut interpreter, &refused) {
                    Ok(()) => delivered.numbers.iter_mut().for_each(|number| *number += before),
                    Err(error) => delivered.fail_all(&error),
                }
            }
        }
        self.deliver_remaining((rewriter, decisions), &unassembled, &mut interpreter, &mut delivered);
        if !is_in_order && delivered.slots.is_sorted() {
            slots.append(&mut delivered.slots);
            numbers.append(&mut delivered.numbers);
            return delivered.failures;
        }
        if !is_in_order {
            in_order.begin(self.slot_bound(), before);
        }
        in_order.put_all(&delivered.slots, &delivered.numbers);
        in_order.append_to(slots, numbers);
        delivered.failures
    }

    /// Matches a message and returns its deliveries, as [`Self::run_delivering`] and [`Self::deliver`] do, but without
    /// assembling results that need no evaluation.
    ///
    /// # Errors
    /// The errors of [`Self::run`].
    pub fn prepare(
        &self,
        matcher: &mut Matcher,
        source: &[u8],
        payloads: &mut Payloads,
    ) -> Result<PreparedDeliveries, MessageError> {
        self.run_delivering(matcher, source)?;
        let scanned = std::mem::take(&mut matcher.scanned);
        let Matcher { document, rewriter, decisions, .. } = matcher;
        let decisions = &*decisions;
        let mut interpreter = self.interpreter(Message { source: scanned.bytes(source), document }, payloads);
        let (mut deliveries, mut unassembled) = (MessageDeliveries::default(), Vec::new());
        let (mut prepared, mut named) = (None, None);
        if self.unshared_results {
            interpreter.share_nothing();
        } else if rewriter.is_ready() {
            rewriter.find_results(&mut interpreter);
            if !self.is_certain(rewriter) {
                let mut delivered = MessageDeliveries::default();
                let refused = self.deliver_batch_results(rewriter, &mut delivered, &mut unassembled);
                deliveries.failures.append(&mut delivered.failures);
                named = Some((delivered, rewriter.take_ids(), refused));
            }
            prepared = Some(rewriter.take_prepared());
        }
        self.deliver_remaining((rewriter, decisions), &unassembled, &mut interpreter, &mut deliveries);
        let others = payloads.len() as u32;
        let subscribed = SubscribersAtMatch {
            subscribers: Arc::clone(self.subscription_table.subscribers()),
            is_plain: self.subscription_table.is_all_plain(),
        };
        let prepared = prepared.unwrap_or_default();
        Ok(PreparedDeliveries::new(scanned, deliveries, others, (prepared, named), subscribed))
    }

    /// Adds the deliveries of the queries that the batch rewriter has decided, by result id. Queries whose results the
    /// interpreter must produce are added to `unassembled`. Returns the ids of results that are over a limit, ascending.
    fn deliver_batch_results(
        &self,
        rewriter: &mut BatchRewriter,
        delivered: &mut MessageDeliveries,
        unassembled: &mut Vec<u32>,
    ) -> Vec<u32> {
        let (subscribers, is_plain) = (self.subscription_table.subscribers(), self.subscription_table.is_all_plain());
        let mut deliveries = QueryResults::default();
        let refused = rewriter.assign_ids(&self.limits, &mut deliveries);
        if is_plain && !deliveries.has_unassembled {
            (delivered.slots, delivered.numbers) = (deliveries.queries, deliveries.numbers);
        } else {
            for (&query, &number) in deliveries.queries.iter().zip(&deliveries.numbers) {
                if number == UNASSEMBLED {
                    unassembled.push(query);
                } else {
                    delivered.push_subscribers(subscribers, query, number);
                }
            }
        }
        delivered.refuse(&refused, &self.limits);
        refused.all
    }

    /// Returns `true` if the results of the batch rewriter are within all limits, whatever their sizes are in the end.
    fn is_certain(&self, rewriter: &BatchRewriter) -> bool {
        rewriter.is_certain(self.limits.result_bytes_max)
            && rewriter.fits_message_limit(self.limits.message_result_bytes_max)
    }

    /// Adds the deliveries of all other queries that match. Their cost is bounded as for matching: queries that need
    /// more than in the first pass are evaluated by turns at the end.
    fn deliver_remaining<'a>(
        &'a self,
        (rewriter, decisions): (&BatchRewriter, &Decisions),
        unassembled: &[u32],
        interpreter: &mut Interpreter<'a>,
        delivered: &mut MessageDeliveries,
    ) {
        let is_delivered =
            |query: &u32| !self.unshared_results && self.batch_queries.contains(*query) && rewriter.decides(*query);
        let others = decisions.matched.iter().filter(|query| !is_delivered(query));
        let mut budget = decisions.budget.renewed();
        let (mut taken, mut postponed) = (0, Vec::new());
        for query in others.chain(unassembled.iter().copied()) {
            let set_aside = decisions.set_aside.get(&query).or_else(|| decisions.without_results.get(&query));
            let payload = match set_aside {
                Some(reason) if self.rewrites_query(query) => Err(reason.clone().into()),
                _ => {
                    interpreter.allow(budget.shared(taken).min(budget.left()));
                    let payload = interpreter.deliver_member(self.family(query), || self.program(query));
                    let visits = interpreter.take_visits();
                    taken += visits;
                    budget.spend(visits);
                    payload
                }
            };
            match payload {
                Err(ExtractError::Evaluation(error)) if error.is_overrun() => postponed.push(query),
                payload => self.add_payload(query, payload, delivered),
            }
        }
        self.deliver_by_turns(postponed, &mut budget, interpreter, delivered);
        delivered.failures.sort_by_key(|&(slot, _)| slot);
    }

    fn deliver_by_turns<'a>(
        &'a self,
        postponed: Vec<u32>,
        budget: &mut MessageBudget,
        interpreter: &mut Interpreter<'a>,
        delivered: &mut MessageDeliveries,
    ) {
        if postponed.is_empty() {
            return;
        }
        let queries =
            postponed.into_iter().map(|query| (query, self.subscription_table.group_of_query(query))).collect();
        let (queries, rest) = MessageBudget::admit(queries);
        let mut done = Vec::new();
        let unfinished = budget.take_turns(&queries, |query, visits_max| {
            let Some(program) = self.program(query) else { return Turn { visits: 0, is_done: true } };
            interpreter.allow(visits_max);
            let payload = interpreter.deliver_alone(program);
            let visits = interpreter.take_visits();
            match payload {
                Err(ExtractError::Evaluation(error)) if error.is_overrun() => Turn { visits, is_done: false },
                payload => {
                    done.push(query);
                    self.add_payload(query, payload, delivered);
                    Turn { visits, is_done: true }
                }
            }
        });
        let overrun = unfinished.iter().filter(|last| last.visits > 0).map(|last| last.query);
        self.throttle.record(Stage::Delivering, overrun, done.into_iter(), self.limits.overruns_max);
        let without_turn = rest.into_iter().map(|query| PostponedQuery { query, visits: 0 });
        for PostponedQuery { query, visits } in unfinished.into_iter().chain(without_turn) {
            self.add_payload(query, Err(budget.error_of(visits).into()), delivered);
        }
    }

    /// Adds the deliveries of a query's payload to its subscriptions; without a payload, they get the message itself.
    fn add_payload(&self, query: u32, payload: Result<Option<u32>, ExtractError>, delivered: &mut MessageDeliveries) {
        let sole;
        let slots: &[Slot] = match self.subscription_table.subscribers().subscribers(query) {
            Subscribers::Sole(slot) => {
                sole = [slot];
                &sole
            }
            Subscribers::Several(slots) => slots,
        };
        match payload {
            Ok(Some(number)) => delivered.push(slots, number),
            Ok(None) => delivered.push(slots, MessageDeliveries::WHOLE),
            Err(error) => delivered.fail(slots, &error),
        }
    }

    fn family(&self, query: u32) -> FamilyRef {
        self.families.get(query as usize).copied().unwrap_or(FamilyRef::NONE)
    }

    /// Returns an interpreter that adds the results of queries to `payloads`.
    pub(super) fn interpreter<'a>(&'a self, message: Message<'a>, payloads: &'a mut Payloads) -> Interpreter<'a> {
        Interpreter::new(message, &self.vocabulary, &self.interner, &self.limits, payloads)
    }

    pub(super) fn rewrites_query(&self, query: u32) -> bool {
        self.program(query).is_some()
    }

    /// Returns the expression whose nodes a subscription selects; `None` if the query rewrites or is external.
    fn expression(&self, matcher: &mut Matcher, slot: Slot) -> Option<Arc<Expr>> {
        let query = self.subscription_table.query_of(slot)?;
        if self.rewrites_query(query) || self.is_external(slot) {
            return None;
        }
        self.parsed_expression(&mut matcher.parsed, query)
    }

    /// Returns the expression of a query, parsed again if it was not kept; `None` if the query rewrites.
    pub(super) fn parsed_expression(&self, parsed: &mut ParsedQueries, query: u32) -> Option<Arc<Expr>> {
        if let EvaluationSource::Expr(expr) = self.evaluated(query) {
            return Some(expr.clone());
        }
        parsed.expression((self.identity, self.version()), &self.vocabulary, query, |vocabulary| {
            let options = self.context_of(query).parse_options(&self.limits);
            match query::parse(&self.text_of(query), &options, vocabulary) {
                Ok(Query::XPath(expr)) => Some(normal::normalise(expr)),
                _ => None,
            }
        })
    }
}

/// Returns the boolean value of a value.
fn truth(value: &Value<'_>) -> bool {
    match value {
        Value::Boolean(value) => *value,
        Value::Number(value) => *value != 0.0 && !value.is_nan(),
        Value::String(value) => !value.is_empty(),
        Value::Nodes(nodes) => !nodes.is_empty(),
        Value::Temporal(_) => true,
    }
}

/// Describes a node for the caller.
fn describe(evaluator: &Evaluator<'_>, locator: &mut Locator<'_>, node: NodeRef) -> SelectedNode {
    let message = evaluator.message();
    let document = message.document;
    let (kind, span) = match node {
        NodeRef::Attribute(number) => {
            let attribute = &document.attributes[number.index()];
            // The value ends before its closing quote, which belongs to the attribute.
            ("attribute", (attribute.qname.start, attribute.value.end + 1))
        }
        NodeRef::Namespace { owner, .. } => {
            let owner = &document.nodes[owner as usize];
            ("namespace", (owner.span.start, owner.content_start))
        }
        // Queries that give values are conditions, which select no node.
        NodeRef::Value(_) => return whole_message(message),
        NodeRef::Node(number) => {
            let entry = &document.nodes[number as usize];
            let kind = match entry.kind {
                NodeKind::Document => return whole_message(message),
                NodeKind::Element => "element",
                NodeKind::Text => "text",
                NodeKind::Comment => "comment",
                NodeKind::ProcessingInstruction => "processing-instruction",
            };
            (kind, (entry.span.start, entry.span.end))
        }
    };
    let (line, column) = locator.locate(span.0 as usize);
    let name = evaluator.qualified_name(node).to_owned();
    SelectedNode { kind, name, start: span.0, end: span.1, line, column }
}

fn whole_message(message: Message<'_>) -> SelectedNode {
    let end = message.source.len() as u32;
    SelectedNode { kind: "document", name: String::new(), start: 0, end, line: 1, column: 1 }
}
