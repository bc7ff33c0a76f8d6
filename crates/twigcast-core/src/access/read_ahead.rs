//! Reading conditions before they are decided: of thousands that are verified one after the other, none is in the
//! processor's cache, and each is found by way of the one before.

use super::conditions::{SharedCondition, SharedConditions};
use crate::ids::ConditionId;

/// Parts are read down to that depth, and so many of each condition: those that decide it first.
const DEPTH: usize = 3;
const PARTS: usize = 2;
/// Up to so many conditions, the processor's cache holds most of them.
const CACHED_MAX: usize = 1 << 15;

impl SharedConditions {
    /// The number of conditions that are best read at the same time.
    pub const READ_AT_ONCE: usize = 16;

    /// Returns whether it pays to read conditions like this one ahead: if it is made of others, for which the processor would
    /// wait, and there are more in all than its cache holds.
    pub fn is_read_ahead(&self, condition: ConditionId) -> bool {
        let is_made_of_others = |condition: &SharedCondition| {
            condition.is_composite() || matches!(condition, SharedCondition::Above(..) | SharedCondition::Not(_))
        };
        self.len() > CACHED_MAX && self.condition(condition).is_some_and(is_made_of_others)
    }

    /// Brings some conditions, and what they ask for first, into the processor's cache, all at the same time. `reached` is
    /// scratch.
    pub fn read_ahead(&self, conditions: impl Iterator<Item = ConditionId>, reached: &mut Vec<ConditionId>) {
        reached.clear();
        reached.extend(conditions);
        let mut start = 0;
        for depth in 0..DEPTH {
            let end = reached.len();
            // No look waits for another one; what they find is of no interest.
            let seen = reached[start..end].iter().fold(0, |seen, &id| seen ^ self.uses(id));
            std::hint::black_box(seen);
            if depth + 1 == DEPTH {
                return;
            }
            for index in start..end {
                let parts = self.condition(reached[index]).map_or(&[][..], |condition| condition.operands());
                reached.extend(parts.iter().take(PARTS));
            }
            start = end;
        }
    }
}
