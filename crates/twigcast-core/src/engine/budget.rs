//! The budget of one message: the work that all queries together may cost, shared so that cheap queries never wait for
//! expensive ones.
//!
//! Work is counted in visits, of about 5 ns each: nodes looked at, and bytes of texts in proportion to what it takes to
//! go through them. In a first pass over all queries, each query may visit [`MessageBudget::quick`] nodes, and uses
//! results that it shares with other queries. Most queries never need more. The rest are *postponed*, and evaluated one
//! by one at the end, by turns: each turn evaluates a query from the start with twice as many visits as its turn
//! before, so failed turns cost at most as much as the last one. Groups take turns by deficit round robin (Shreedhar
//! and Varghese 1995): each group gets as many visits as every other, however many queries it has. Queries that are
//! undecided when the budget of the message is used up remain undecided.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::document::Message;
use crate::eval::EvalError;
use crate::limits::Limits;

/// The visits of a query in the first pass, before it is postponed: for each node, and at least.
const QUICK_PER_NODE: u64 = 8;
const QUICK_MIN: u64 = 4_096;
/// The budget divided by this is reserved for turns, and for queries that need few visits in the first pass.
const RESERVED_PART: u64 = 2;
/// Work that queries share, such as the values of one operand or the bindings of For-Where-Return queries, may take what is
/// left of the budget divided by this, or as much as one query if that is more.
const SHARED_PART: u64 = 8;
/// The visits for each node that the values of an operand may always take: enough to read each element and its text once.
const OPERAND_PER_NODE: u64 = 4;
/// The visits of a postponed query in its first turn.
const FIRST_TURN: u64 = 2_048;
/// The visits that each group gets in a round.
const ROUND: u64 = 1 << 16;
/// The most postponed queries that are tried on one message, since each takes some work before its first visit.
const POSTPONED_MAX: usize = 1 << 12;

/// The number of a group of subscriptions within an engine. All without a group are in group 0.
pub(super) type GroupId = u32;

/// The visits that one message may cost, and those spent so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MessageBudget {
    /// The most that one query may visit.
    pub(super) query: u64,
    /// The most that all queries together may visit.
    message: u64,
    /// The most that all queries of one group may visit in their turns.
    group: u64,
    /// The most that one query may visit in the first pass.
    pub(super) quick: u64,
    first_turn: u64,
    /// The visits that the values of an operand may always take.
    operand_min: u64,
    spent: u64,
}

/// The result of a turn of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    /// The visits of the turn.
    pub(super) visits: u64,
    /// The query needs no further turn.
    pub(super) is_done: bool,
}

/// A query that was postponed and is not decided yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PostponedQuery {
    pub(super) query: u32,
    /// The visits allowed in its last turn, which were not enough; 0 if it had none.
    pub(super) visits: u64,
}

/// The postponed queries of one group.
#[derive(Debug)]
struct GroupTurns {
    /// Queries that wait for their turn, with the visits of the last one.
    waiting: VecDeque<PostponedQuery>,
    /// Queries that had their turn, and wait for one with twice as many visits.
    next: VecDeque<PostponedQuery>,
    /// The visits of each query in its turn.
    turn: u64,
    /// The visits that the group has left in this round; negative if it took more than its share in the last one.
    deficit: i64,
    /// The visits that the group has left in all its turns.
    left: u64,
}

impl MessageBudget {
    /// Returns the budget of a message.
    pub(super) fn of(limits: &Limits, message: Message<'_>) -> Self {
        let size = message.document.nodes.len() as u64 + message.source.len() as u64 / 64;
        let query = limits.query_visits(message.visits_of_size());
        let own = message.visits_of_size();
        let message = own.saturating_add(limits.message_visits_max as u64);
        Self {
            query,
            message,
            group: own.saturating_add(limits.group_visits_max as u64),
            quick: query.min(QUICK_PER_NODE * size + QUICK_MIN),
            first_turn: query.min(FIRST_TURN),
            operand_min: OPERAND_PER_NODE * size + QUICK_MIN,
            spent: 0,
        }
    }

    /// Counts visits of the first pass.
    pub(super) fn spend(&mut self, visits: u64) {
        self.spent = self.spent.saturating_add(visits);
    }

    /// Returns a budget for the results of the message, of the same size.
    pub(super) fn renewed(&self) -> Self {
        Self { spent: 0, ..*self }
    }

    /// Returns the visits so far.
    pub(super) fn spent(&self) -> u64 {
        self.spent
    }

    /// Returns the visits that are left for all queries.
    pub(super) fn left(&self) -> u64 {
        self.message.saturating_sub(self.spent)
    }

    /// Returns the visits that are reserved for turns, and for queries that need few.
    pub(super) fn reserve(&self) -> u64 {
        self.message / RESERVED_PART
    }

    /// Returns the visits that one piece of shared work may take after `taken` visits.
    pub(super) fn shared(&self, taken: u64) -> u64 {
        let part = (self.message - self.reserve()).saturating_sub(taken) / SHARED_PART;
        part.max(self.operand_min).min(self.message.saturating_sub(taken))
    }

    /// Returns the error of a query that is undecided after a turn of so many visits.
    pub(super) fn error_of(&self, visits: u64) -> EvalError {
        if visits >= self.query {
            EvalError::BudgetExceeded { visits_max: self.query }
        } else {
            EvalError::MessageBudgetExceeded { visits, message_visits_max: self.message }
        }
    }

    /// Splits queries into the [`POSTPONED_MAX`] that are tried, as many of each group as of every other, and the rest.
    pub(super) fn admit(queries: Vec<(u32, GroupId)>) -> (Vec<(u32, GroupId)>, Vec<u32>) {
        if queries.len() <= POSTPONED_MAX {
            return (queries, Vec::new());
        }
        let mut counts: FxHashMap<GroupId, usize> = FxHashMap::default();
        let mut ranked: Vec<(usize, (u32, GroupId))> = Vec::with_capacity(queries.len());
        for (query, group) in queries {
            let rank = counts.entry(group).or_default();
            ranked.push((*rank, (query, group)));
            *rank += 1;
        }
        ranked.sort_by_key(|&(rank, _)| rank);
        let rest = ranked.split_off(POSTPONED_MAX);
        let first = ranked.into_iter().map(|(_, query)| query).collect();
        (first, rest.into_iter().map(|(_, (query, _))| query).collect())
    }

    /// Gives queries their turns until each is done or the budget is used up. Returns those that are not done.
    ///
    /// `attempt` evaluates a query with at most so many visits.
    pub(super) fn take_turns(
        &mut self,
        queries: &[(u32, GroupId)],
        mut attempt: impl FnMut(u32, u64) -> Turn,
    ) -> Vec<PostponedQuery> {
        let mut groups = self.groups_of(queries);
        let mut unfinished = Vec::new();
        while self.spent < self.message && !groups.is_empty() {
            let is_sole = matches!(&groups[..], [only] if only.waiting.len() + only.next.len() == 1);
            for group in &mut groups {
                if is_sole {
                    // No other query waits, so nothing need be kept back.
                    group.turn = self.query;
                }
                group.deficit += ROUND as i64;
                self.run_round(group, &mut attempt, &mut unfinished);
            }
            groups.retain_mut(|group| {
                let goes_on = group.left > 0 && !(group.waiting.is_empty() && group.next.is_empty());
                if !goes_on {
                    unfinished.extend(group.waiting.drain(..).chain(group.next.drain(..)));
                }
                goes_on
            });
        }
        unfinished.extend(groups.into_iter().flat_map(|group| group.waiting.into_iter().chain(group.next)));
        unfinished
    }

    /// Gives the queries of a group their turns until it has used up its visits in this round.
    fn run_round(
        &mut self,
        group: &mut GroupTurns,
        attempt: &mut impl FnMut(u32, u64) -> Turn,
        unfinished: &mut Vec<PostponedQuery>,
    ) {
        while group.deficit > 0 && group.left > 0 && self.spent < self.message {
            let Some(PostponedQuery { query, visits }) = group.waiting.pop_front() else {
                if group.next.is_empty() {
                    return;
                }
                std::mem::swap(&mut group.waiting, &mut group.next);
                group.turn = self.query.min(group.turn.saturating_mul(2));
                continue;
            };
            let allowed = group.turn.min(group.left).min(self.message - self.spent);
            if allowed <= visits {
                // Its last turn had as many visits.
                unfinished.push(PostponedQuery { query, visits });
                continue;
            }
            let turn = attempt(query, allowed);
            // The work of a turn apart from its visits counts as one visit.
            let cost = turn.visits + 1;
            self.spent = self.spent.saturating_add(cost);
            group.left = group.left.saturating_sub(cost);
            group.deficit -= i64::try_from(cost).unwrap_or(i64::MAX);
            match (turn.is_done, allowed >= self.query) {
                (true, _) => {}
                (false, true) => unfinished.push(PostponedQuery { query, visits: allowed }),
                (false, false) => group.next.push_back(PostponedQuery { query, visits: allowed }),
            }
        }
    }

    fn groups_of(&self, queries: &[(u32, GroupId)]) -> Vec<GroupTurns> {
        let mut indices: FxHashMap<GroupId, usize> = FxHashMap::default();
        let mut groups: Vec<GroupTurns> = Vec::new();
        for &(query, group) in queries {
            let index = *indices.entry(group).or_insert_with(|| {
                groups.push(GroupTurns {
                    waiting: VecDeque::new(),
                    next: VecDeque::new(),
                    turn: self.first_turn,
                    deficit: 0,
                    left: self.group,
                });
                groups.len() - 1
            });
            groups[index].waiting.push_back(PostponedQuery { query, visits: 0 });
        }
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(message: u64, group: u64) -> MessageBudget {
        MessageBudget { query: 1 << 20, message, group, quick: 100, first_turn: 64, operand_min: 100, spent: 0 }
    }

    /// Gives turns to queries that need so many visits each.
    fn run(
        budget: &mut MessageBudget,
        queries: &[(u32, GroupId)],
        needs: impl Fn(u32) -> u64,
    ) -> (Vec<u32>, Vec<PostponedQuery>) {
        let mut done = Vec::new();
        let unfinished = budget.take_turns(queries, |query, allowed| {
            let is_done = needs(query) <= allowed;
            if is_done {
                done.push(query);
            }
            Turn { visits: needs(query).min(allowed), is_done }
        });
        (done, unfinished)
    }

    #[test]
    fn cheap_queries_come_first_whatever_the_others_cost() {
        let queries: Vec<_> = (0..20).map(|query| (query, 0)).collect();
        for expensive in [10_000, 1_000_000] {
            let mut budget = budget(30_000, u64::MAX);
            let (done, unfinished) = run(&mut budget, &queries, |query| if query < 10 { expensive } else { 100 });
            assert_eq!(done[..10], (10..20).collect::<Vec<_>>()[..]);
            assert_eq!(done.len() + unfinished.len(), 20);
            assert!(budget.spent <= 30_001 + 20);
        }
    }

    #[test]
    fn each_group_gets_as_much_as_every_other() {
        let many = (0..300).map(|query| (query, 1));
        let queries: Vec<_> = many.chain([(300, 2)]).collect();
        let mut budget = budget(1_000_000, u64::MAX);
        let (done, unfinished) = run(&mut budget, &queries, |query| if query < 300 { 1 << 19 } else { 150_000 });
        assert_eq!(done, [300], "it needs a seventh of the budget, and with all its turns a third");
        assert_eq!(unfinished.len(), 300);
    }

    #[test]
    fn a_group_has_a_limit_of_its_own() {
        let mut budget = budget(u64::MAX, 5_000);
        let (done, unfinished) = run(&mut budget, &[(0, 1), (1, 2)], |query| if query == 0 { 10_000 } else { 2_000 });
        assert_eq!(done, [1]);
        let [last] = unfinished[..] else { panic!("one is left") };
        assert!(last.query == 0 && last.visits >= 64);
        assert!(budget.spent < 10_100);
    }

    #[test]
    fn the_limit_of_a_query_holds_too() {
        let mut budget = budget(u64::MAX, u64::MAX);
        let (_, unfinished) = run(&mut budget, &[(7, 0)], |_| 2 << 20);
        assert_eq!(unfinished, [PostponedQuery { query: 7, visits: 1 << 20 }]);
        assert!(budget.spent <= (2 << 20) + 20, "all turns before the last take as much as that");
    }

    #[test]
    fn of_too_many_queries_each_group_has_as_many_tried() {
        let queries = (0..10_000).map(|query| (query, u32::from(query >= 9_990))).collect();
        let (admitted, rest) = MessageBudget::admit(queries);
        assert_eq!(admitted.len(), POSTPONED_MAX);
        assert_eq!(admitted.len() + rest.len(), 10_000);
        assert_eq!(admitted.iter().filter(|&&(_, group)| group == 1).count(), 10);
    }
}
