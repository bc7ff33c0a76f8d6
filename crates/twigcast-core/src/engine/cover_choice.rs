//! Choosing covers anew, where messages show that other values of queries are rarer than those that are looked up.

use rustc_hash::FxHashSet;

use super::Engine;
use super::query_index::Segment;
use crate::access::samples::VainVisits;
use crate::plan;

/// Queries whose covers are looked at in one go, which takes a few hundredths of a second.
const QUERIES_MAX: usize = 4_096;
/// Another cover is taken if it leads to the query so many times more seldom; any is that does so at all, of a query for which
/// the last choice was a bad one.
const GAIN_MIN: f32 = 4.0;

impl Engine {
    /// Returns whether many queries are verified in vain, so that [`Self::choose_covers`] may gain something.
    pub fn is_cover_choice_due(&self) -> bool {
        self.query_index.samples.is_choice_due()
    }

    /// Chooses covers anew for queries that have been verified in vain for many messages, if that is due. No answer changes by
    /// it. Returns the number of queries that have another cover now.
    pub fn choose_covers(&mut self) -> usize {
        if !self.is_cover_choice_due() {
            return 0;
        }
        let VainVisits { tests, chosen_badly } = self.query_index.samples.take_visits();
        self.query_index.observe(&tests);
        let mut chosen = Vec::new();
        for (query, elements) in self.query_index.waiting_for(&tests, QUERIES_MAX) {
            let context = self.subscription_table.query(query).1;
            let is_alive = self.subscription_table.uses(query) > 0 && self.compiled.registrations(query).is_some();
            if !is_alive {
                continue;
            }
            let text = self.text_of(query).into_owned();
            // What was accepted once is accepted again.
            let Ok(new) = self.compile(&text, context) else { continue };
            let now = elements / (1.0 + elements);
            let gain = if chosen_badly.contains(&query) { 1.0 } else { GAIN_MIN };
            if plan::cost(new.routes(), &self.query_index) * gain < now {
                chosen.push((query, context, new));
            }
        }
        if chosen.is_empty() {
            return 0;
        }
        let queries: FxHashSet<u32> = chosen.iter().map(|(query, ..)| *query).collect();
        self.compact();
        for (query, context, new) in chosen {
            let needs = self.compiled.needs(query);
            let Some(registrations) = self.compiled.take(query) else { continue };
            self.needs.subtract(needs);
            self.query_index.remove(query, registrations.as_slice());
            debug_assert_eq!(self.segment(), Segment::Main);
            self.register_as(query, context, new);
        }
        let count = queries.len();
        self.query_index.samples.expect_more(queries);
        count
    }
}
