//! Choosing covers anew, where messages show that other values of queries are rarer than those that are looked up.

use rustc_hash::FxHashSet;

use super::Engine;
use super::compile::UnregisteredQuery;
use super::query_index::{Registration, Segment};
use crate::access::samples::{CoverChoice, VainVisits};
use crate::plan::{self, Action};

/// Queries whose covers are looked at in one go, which takes a few hundredths of a second.
const QUERIES_MAX: usize = 4_096;
/// So many of those that are led to most often are tried first, and as many of all. If not one in [`GAINING_SHARE_MIN`] gains,
/// as is usual where nothing is rarer than what is looked up already, that was all.
const TRIED_MAX: usize = 64;
const GAINING_SHARE_MIN: usize = 32;
/// Other covers are taken only if they save so many verifications of queries in a message. Taking them makes matchers learn
/// anew, which takes longer than all that fewer would save in thousands of messages.
const SAVED_MIN: f32 = 32.0;
/// Another cover is taken if it leads to the query so many times more seldom; any is that does so at all, of a query for which
/// the last choice was a bad one.
const GAIN_MIN: f32 = 4.0;
/// A choice goes on with the queries that are led to less often if at least one in so many of the last ones got another cover.
const CHANGED_SHARE_MIN: usize = 64;

/// A query compiled anew, with a cover that leads to it more seldom.
struct BetterCover {
    query: u32,
    context: u32,
    new: UnregisteredQuery,
    /// How many times less in a message.
    saved: f32,
}

impl Engine {
    /// Returns whether many queries are verified in vain, so that [`Self::choose_covers`] may gain something.
    pub fn is_cover_choice_due(&self) -> bool {
        self.query_index.samples.is_choice_due()
    }

    /// Chooses covers anew for queries that have been verified in vain for many messages, if that is due: for some of them, and
    /// for the others with the next messages. No answer changes by it. Returns the number of queries that have another cover
    /// now.
    pub fn choose_covers(&mut self) -> usize {
        if !self.is_cover_choice_due() {
            return 0;
        }
        let mut choice = match self.query_index.samples.begun_choice() {
            Some(choice) => choice,
            None => self.begin_choice(),
        };
        let (count, better) = self.try_covers(&mut choice);
        let changed = better.len();
        if changed > 0 {
            choice.chosen.extend(better.iter().map(|cover| cover.query));
            self.change_covers(better);
        }
        if !choice.waiting.is_empty() && changed * CHANGED_SHARE_MIN >= count {
            self.query_index.samples.go_on_with(choice);
        } else if !choice.chosen.is_empty() {
            self.query_index.samples.expect_more(choice.chosen);
        }
        changed
    }

    /// Returns the queries that were verified in vain, and once those of triggers that may be found by another value. Those last
    /// that were led to most often.
    fn begin_choice(&self) -> CoverChoice {
        let VainVisits { tests, chosen_badly, reviews_triggers } = self.query_index.samples.take_visits();
        self.query_index.observe(&tests);
        let mut waiting = self.query_index.waiting_for(&tests);
        if reviews_triggers {
            waiting.extend(self.query_index.learning_triggers());
        }
        waiting.sort_by(|(_, a), (_, b)| a.total_cmp(b));
        CoverChoice { waiting, chosen_badly, chosen: FxHashSet::default() }
    }

    /// Looks at some of the queries that wait. Returns how many these were, and those with better covers, if taking them
    /// pays.
    fn try_covers(&mut self, choice: &mut CoverChoice) -> (usize, Vec<BetterCover>) {
        let tried = sample_of(&choice.waiting);
        let gaining = self.better_covers(&tried, &choice.chosen_badly).len();
        if gaining * GAINING_SHARE_MIN < tried.len() {
            return (tried.len(), Vec::new());
        }
        let looked_at = choice.waiting.split_off(choice.waiting.len().saturating_sub(QUERIES_MAX));
        let mut better = self.better_covers(&looked_at, &choice.chosen_badly);
        if better.iter().map(|cover| cover.saved).sum::<f32>() < SAVED_MIN {
            better.clear();
        }
        (looked_at.len(), better)
    }

    /// Returns those of some queries for which there is a better cover.
    fn better_covers(&mut self, queries: &[(u32, f32)], chosen_badly: &FxHashSet<u32>) -> Vec<BetterCover> {
        let mut better = Vec::new();
        for &(query, elements) in queries {
            let registrations = self.compiled.registrations(query).filter(|_| self.subscription_table.uses(query) > 0);
            let Some(registrations) = registrations else { continue };
            let is_trigger = registrations.as_slice().iter().any(|one| matches!(one, Registration::Trigger(_)));
            let context = self.subscription_table.query(query).1;
            let text = self.text_of(query).into_owned();
            // It was accepted before, so it is accepted again.
            let Ok(new) = self.compile(&text, context) else { continue };
            // Still the best that there is for it.
            if is_trigger && new.routes().iter().any(|route| matches!(route.action, Action::Trigger { .. })) {
                continue;
            }
            let now = elements / (1.0 + elements);
            let gain = if chosen_badly.contains(&query) { 1.0 } else { GAIN_MIN };
            let cost = plan::cost(new.routes(), &self.query_index);
            if cost * gain < now {
                better.push(BetterCover { query, context, new, saved: elements - cost });
            }
        }
        better
    }

    fn change_covers(&mut self, better: Vec<BetterCover>) {
        self.compact();
        for BetterCover { query, context, new, .. } in better {
            let needs = self.compiled.needs(query);
            let Some(registrations) = self.compiled.take(query) else { continue };
            self.needs.subtract(needs);
            self.query_index.remove(query, registrations.as_slice());
            debug_assert_eq!(self.segment(), Segment::Main);
            self.register_as(query, context, new);
        }
    }
}

/// Returns the last of some queries, and some of all of them.
fn sample_of(queries: &[(u32, f32)]) -> Vec<(u32, f32)> {
    let (others, last) = queries.split_at(queries.len().saturating_sub(TRIED_MAX));
    let some = others.iter().step_by(others.len().div_ceil(TRIED_MAX).max(1));
    last.iter().chain(some).copied().collect()
}
