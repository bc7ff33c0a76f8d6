//! The deliveries of one message.

use super::subscribers::{Subscribers, SubscribersByQuery};
use crate::ids::Slot;
use crate::limits::Limits;
use crate::rewrite::ExtractError;
use crate::rewrite::batch::RefusedResults;

/// The deliveries of one message: which subscription gets which payload.
#[derive(Debug, Default)]
pub struct MessageDeliveries {
    /// Matching subscriptions; ascending if they come from [`Engine::deliver`](super::Engine::deliver).
    pub slots: Vec<Slot>,
    /// The number of each one's payload; [`Self::WHOLE`] where the message itself is delivered.
    pub numbers: Vec<u32>,
    /// Matching subscriptions without a payload, with the reason.
    pub failures: Vec<(Slot, ExtractError)>,
}

impl MessageDeliveries {
    /// In place of a payload's number: the message itself.
    pub const WHOLE: u32 = u32::MAX;

    /// Adds deliveries of one payload.
    pub(super) fn push(&mut self, slots: &[Slot], number: u32) {
        self.slots.extend_from_slice(slots);
        self.numbers.resize(self.slots.len(), number);
    }

    /// Adds deliveries of one payload to all subscriptions of a query.
    pub(super) fn push_subscribers(&mut self, subscribers: &SubscribersByQuery, query: u32, number: u32) {
        match subscribers.subscribers(query) {
            Subscribers::Sole(slot) => self.push(&[slot], number),
            Subscribers::Several(slots) => self.push(slots, number),
        }
    }

    /// Adds failures of matching subscriptions.
    pub(super) fn fail(&mut self, slots: &[Slot], error: &ExtractError) {
        self.failures.extend(slots.iter().map(|&slot| (slot, error.clone())));
    }

    /// Turns all deliveries into failures.
    pub(super) fn fail_all(&mut self, error: &ExtractError) {
        let slots = std::mem::take(&mut self.slots);
        self.numbers.clear();
        self.fail(&slots, error);
    }

    /// Turns the deliveries of results that are over a limit into failures.
    pub(super) fn refuse(&mut self, refused: &RefusedResults, limits: &Limits) {
        if refused.all.is_empty() {
            return;
        }
        let error = |number: u32| match refused.over_message_limit.binary_search(&number) {
            Ok(_) => ExtractError::OverMessageLimit { message_bytes_max: limits.message_result_bytes_max },
            Err(_) => ExtractError::TooLarge { bytes_max: limits.result_bytes_max },
        };
        let all = std::mem::take(&mut self.slots).into_iter().zip(std::mem::take(&mut self.numbers));
        for (slot, number) in all {
            if refused.all.binary_search(&number).is_ok() {
                self.failures.push((slot, error(number)));
            } else {
                self.slots.push(slot);
                self.numbers.push(number);
            }
        }
    }
}
