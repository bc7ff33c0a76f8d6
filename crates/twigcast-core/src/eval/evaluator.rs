//! The evaluator: the message, the visits counted for each query, and what is remembered of the message.

use std::cell::{Cell, OnceCell, RefCell};

use rustc_hash::FxHashMap;

use super::cache::EvalCache;
use super::grams::Grams;
use super::node::NodeRef;
use super::texts::MessageText;
use super::value::{EvalError, KeptValues, PlacesOfNodes, Value, WordsOfTexts};
use crate::document::Message;
use crate::vocabulary::Vocabulary;

/// The payer while visits are counted for no query.
const NOBODY: u32 = u32::MAX;

/// Visits of one query that are worth remembering while others are at work.
const SPENT_MIN: u64 = 256;

/// Visits after which a query counts as expensive: from then on it pays to remember what it asks repeatedly.
pub(super) const EXPENSIVE_MIN: u64 = 1_000;

/// The limits on visits: of a query in all, of its present turn, and of all queries together.
pub(super) struct Allowance {
    /// The most that a query may ever visit; tables are built that take a share of it.
    pub(super) query: Cell<u64>,
    /// The most that each query may visit in its present turn.
    turn: Cell<u64>,
    /// The visits left for all queries when the present query had made `started` visits.
    left: Cell<u64>,
    started: Cell<u64>,
    /// The part of `left` that is reserved for queries with few visits.
    reserve: Cell<u64>,
}

/// A query may take the visits that are left divided by `TURN_PART`, but at least `TURN_MIN`, if need be of the reserve.
const TURN_PART: u64 = 16;
const TURN_MIN: u64 = 512;
/// From this number of users on, shared work may take all visits that are not reserved.
const USERS_MAX: u32 = 1 << 10;

impl Allowance {
    /// Returns the most visits of a piece of work that has made `taken` visits and serves `users` queries. It may take as
    /// much as these queries might, one after the other, if each did the work for itself.
    fn turn(&self, taken: u64, users: u32) -> u64 {
        let left = self.left.get().saturating_add(taken);
        let free = left.saturating_sub(self.reserve.get());
        if users <= 1 {
            return self.turn.get().min((free / TURN_PART).max(TURN_MIN));
        }
        // Each query takes its part of what the queries before it have left.
        let kept = (1.0 - 1.0 / TURN_PART as f64).powi(users.min(USERS_MAX) as i32);
        let part = (free as f64 * (1.0 - kept)) as u64;
        let least = (TURN_MIN * u64::from(users)).min(left / TURN_PART);
        self.turn.get().saturating_mul(users.into()).min(part.max(least).max(TURN_MIN))
    }
}

/// Visits that a comparison, a function call or an arithmetic operation counts as.
pub(super) const OPERATION_VISITS: u64 = 3;

/// Visits that sorting a node counts as.
const SORT_VISITS: u64 = 8;

/// Evaluates expressions on one message.
///
/// The queries must outlive it: values that are the same for many nodes are cached under the address of their expression.
pub struct Evaluator<'a> {
    pub(super) message: Message<'a>,
    pub(super) vocabulary: &'a Vocabulary,
    pub(super) variables: &'a [Value<'a>],
    pub(super) visits: Cell<u64>,
    /// The number of visits at which the query at work has to stop.
    pub(super) visits_max: Cell<u64>,
    pub(super) allowance: Allowance,
    /// The query whose visits are being counted.
    payer: Cell<u32>,
    /// The visits so far of other queries that were expensive.
    spent: RefCell<FxHashMap<u32, u64>>,
    /// The number of predicates that are being evaluated, one inside the other.
    pub(super) nesting: Cell<u32>,
    pub(super) cache: RefCell<EvalCache>,
    /// The values that sequences are made of.
    pub(super) kept_values: KeptValues,
    /// The words of texts that selections were verified on.
    pub(super) word_tables: WordsOfTexts,
    /// The places of nodes.
    pub(super) places: PlacesOfNodes,
    /// All text of the message, once it was asked for; nothing in it if it would take too much memory.
    pub(super) texts: OnceCell<Option<MessageText>>,
    /// Bytes that were searched for texts, and the pieces of the text of the message, once that was often.
    pub(super) searched: Cell<u64>,
    pub(super) grams: OnceCell<Option<Grams>>,
    /// The answer to whether there is an `xml:lang`, once that was asked often.
    pub(super) has_languages: OnceCell<bool>,
}

impl<'a> Evaluator<'a> {
    /// Creates an evaluator without a budget. `variables` holds the values of the For-Where-Return variables by number.
    pub fn new(message: Message<'a>, vocabulary: &'a Vocabulary, variables: &'a [Value<'a>]) -> Self {
        Self {
            message,
            vocabulary,
            variables,
            visits: Cell::new(0),
            visits_max: Cell::new(u64::MAX),
            allowance: Allowance {
                query: Cell::new(u64::MAX),
                turn: Cell::new(u64::MAX),
                left: Cell::new(u64::MAX),
                started: Cell::new(0),
                reserve: Cell::new(0),
            },
            payer: Cell::new(NOBODY),
            spent: RefCell::default(),
            nesting: Cell::new(0),
            cache: RefCell::new(EvalCache::new(message.document.nodes.len())),
            kept_values: KeptValues::default(),
            word_tables: WordsOfTexts::default(),
            places: PlacesOfNodes::default(),
            texts: OnceCell::new(),
            searched: Cell::new(0),
            grams: OnceCell::new(),
            has_languages: OnceCell::new(),
        }
    }

    /// Returns the evaluator with a budget: it ends with [`EvalError::BudgetExceeded`] after `visits_max` visits.
    #[must_use]
    pub fn with_budget(self, visits_max: u64) -> Self {
        self.visits_max.set(visits_max);
        self.allowance.query.set(visits_max);
        self.allowance.turn.set(visits_max);
        self
    }

    /// Returns the evaluator with less for now: each query ends after `turn` visits, and all of them after `left`, of which
    /// `reserve` is kept for those that need few.
    #[must_use]
    pub fn with_turns(self, turn: u64, left: u64, reserve: u64) -> Self {
        self.allowance.turn.set(turn.min(self.allowance.query.get()));
        self.allowance.left.set(left);
        self.allowance.reserve.set(reserve);
        self.visits_max.set(self.allowance.turn(0, 1).min(left));
        self
    }

    /// Sets how far the query at work may go, visits so far included.
    pub(crate) fn limit(&self, visits_max: u64) {
        self.allowance.turn.set(visits_max);
        self.visits_max.set(visits_max);
    }

    /// Begins a turn of a query, with no visits counted yet and at most `visits_max`.
    pub fn begin_turn(&self, query: u32, visits_max: u64) {
        self.payer.set(query);
        self.visits.set(0);
        self.nesting.set(0);
        self.limit(visits_max);
    }

    /// Returns what the query at work may still visit.
    pub fn remaining(&self) -> u64 {
        self.visits_max.get().saturating_sub(self.visits.get())
    }

    /// Returns what all queries may still visit after [`Self::with_turns`].
    pub fn left(&self) -> u64 {
        let Allowance { left, started, .. } = &self.allowance;
        left.get().saturating_sub(self.visits.get().saturating_sub(started.get()))
    }

    /// Returns the message.
    pub fn message(&self) -> Message<'a> {
        self.message
    }

    /// Returns how many nodes were looked at so far.
    pub fn visits(&self) -> u64 {
        self.visits.get()
    }

    /// Starts counting visits afresh, for the next query on the same message.
    pub fn reset_visits(&self) {
        self.allowance.left.set(self.left());
        self.allowance.started.set(0);
        self.visits.set(0);
    }

    /// Returns whether the query at work has become expensive.
    pub(super) fn is_expensive(&self) -> bool {
        self.visits.get() >= EXPENSIVE_MIN
    }

    /// Counts visits for one query from now on, on top of those that it has had on this message. So a query that is
    /// asked of many nodes has one budget for all of them.
    pub fn resume(&self, query: u32) {
        self.resume_shared(query, || 1);
    }

    /// Counts visits as [`Self::resume`] does, for something that is found once for so many queries, all of which pay.
    pub fn resume_shared(&self, query: u32, users: impl FnOnce() -> u32) {
        let payer = self.payer.replace(query);
        if payer == query {
            return;
        }
        let left = self.left();
        let mut spent = self.spent.borrow_mut();
        if self.visits.get() >= SPENT_MIN && payer != NOBODY {
            spent.insert(payer, self.visits.get());
        }
        let visits = if spent.is_empty() { 0 } else { spent.get(&query).copied().unwrap_or(0) };
        self.visits.set(visits);
        self.allowance.left.set(left);
        self.allowance.started.set(visits);
        self.visits_max.set(self.allowance.turn(visits, users()).min(visits.saturating_add(left)));
    }

    /// Counts `visits` more visits.
    #[inline]
    pub(crate) fn charge(&self, visits: u64) -> Result<(), EvalError> {
        let total = self.visits.get() + visits;
        self.visits.set(total);
        let visits_max = self.visits_max.get();
        if total > visits_max {
            return Err(EvalError::BudgetExceeded { visits_max });
        }
        Ok(())
    }

    /// Puts nodes in document order and drops duplicates. Values keep the order in which they were made.
    pub(crate) fn put_in_order(&self, nodes: &mut Vec<NodeRef>) -> Result<(), EvalError> {
        self.sort_unique(nodes)
    }

    /// Puts nodes in document order and drops duplicates.
    pub(super) fn sort_unique(&self, nodes: &mut Vec<NodeRef>) -> Result<(), EvalError> {
        let document = self.message.document;
        let count = nodes.len() as u64;
        self.charge(count)?;
        if nodes.is_sorted_by(|a, b| a.order(document) < b.order(document)) {
            return Ok(());
        }
        self.charge(SORT_VISITS * count)?;
        nodes.sort_unstable_by_key(|node| node.order(document));
        nodes.dedup();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowance(turn: u64, left: u64, reserve: u64) -> Allowance {
        Allowance {
            query: Cell::new(u64::MAX),
            turn: Cell::new(turn),
            left: Cell::new(left),
            started: Cell::new(0),
            reserve: Cell::new(reserve),
        }
    }

    #[test]
    fn what_queries_share_may_take_what_they_might_take_one_after_the_other() {
        for users in [1, 2, 10, 1_000] {
            let (mut left, mut taken) = (10_000_000, 0);
            for _ in 0..users {
                let turn = allowance(20_000, left, 5_000_000).turn(0, 1);
                left -= turn;
                taken += turn;
            }
            let shared = allowance(20_000, 10_000_000, 5_000_000).turn(0, users);
            assert!(shared.abs_diff(taken) <= taken / 8, "{users}: {shared} beside {taken}");
        }
    }

    #[test]
    fn what_was_taken_before_does_not_count_twice() {
        let all = allowance(1_000_000, 10_000_000, 5_000_000).turn(0, 1_000);
        assert_eq!(allowance(1_000_000, 6_000_000, 5_000_000).turn(4_000_000, 1_000), all);
    }

    #[test]
    fn many_users_leave_the_reserve_to_others() {
        for users in [1_000, 100_000, u32::MAX] {
            assert!(allowance(u64::MAX, 10_000_000, 5_000_000).turn(0, users) <= 5_000_000);
            assert!(allowance(u64::MAX, 1_000_000, 5_000_000).turn(0, users) <= 1_000_000 / TURN_PART);
        }
    }
}
