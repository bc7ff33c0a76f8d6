//! Sums along axes, for all context nodes at once: `sum(preceding-sibling::a/b)` of one node is the difference of two sums
//! from the beginning.
//!
//! Differences of floating-point sums are the sums of what lies between only where nothing was rounded. So that holds
//! for whole numbers whose sum stays below 2^53; for others, each sum is made by itself.

use crate::document::NO_NODE;
use crate::query::ast::{Axis, Expr, PathStart, Step};

use super::cached::SumsBefore;
use super::evaluator::Evaluator;
use super::node::NodeRef;
use super::steps::Hop;
use super::value::{Context, EvalError};

/// Sums of whole numbers up to this are exact.
pub(super) const EXACT_MAX: f64 = (1_u64 << 53) as f64;

impl<'a> Evaluator<'a> {
    /// Returns the sum of what a path along an axis selects, as a difference; nothing if it has to be made by itself.
    pub(super) fn sum_along(&self, argument: &'a Expr, context: Context) -> Result<Option<f64>, EvalError> {
        let Expr::Path(path) = argument else { return Ok(None) };
        if !self.is_worth_tables() {
            return Ok(None);
        }
        if path.start != PathStart::Context {
            return self.exact_sum_along(path, context);
        }
        let Some((hop, rest)) = Hop::first(&path.steps) else { return Ok(None) };
        if !hop.is_set_wise() {
            return self.exact_sum_along(path, context);
        }
        if hop.from_descendants || !leads_apart(rest) {
            return Ok(None);
        }
        let Some(slice) = self.indexed(&hop, context.node)? else { return Ok(None) };
        self.charge(2)?;
        let siblings = matches!(hop.axis, Axis::FollowingSibling | Axis::PrecedingSibling);
        let below = if siblings { self.parent(context.node) } else { NO_NODE };
        let cached = self.cache.borrow().sums(path, below);
        let sums = match cached {
            Some(sums) => sums,
            None => {
                let sums = self.within_share(|| self.sums_before(slice.index().nodes(), rest))?.flatten();
                self.cache.borrow_mut().keep_sums((path, below), sums)
            }
        };
        let Some(sums) = sums else { return Ok(None) };
        let mut sum = sums.between(slice.range());
        if hop.axis == Axis::Preceding {
            // Ancestors begin before a node, too, but do not precede it.
            let mut up = self.parent(context.node);
            while up != NO_NODE {
                self.charge(1)?;
                if let Ok(position) = slice.index().nodes().binary_search(&up) {
                    let of_one = sums.between(position..position + 1);
                    sum = (sum.0 - of_one.0, sum.1 - of_one.1);
                }
                up = self.message.document.nodes[up as usize].parent;
            }
        }
        Ok(Some(if sum.1 > 0 { f64::NAN } else { sum.0 }))
    }

    /// Returns the sums of what steps lead to from the nodes before each of some nodes; nothing if they are not exact.
    fn sums_before(&self, nodes: &[u32], rest: &'a [Step]) -> Result<Option<SumsBefore>, EvalError> {
        let mut sums = SumsBefore::with_capacity(nodes.len());
        let (mut sum, mut size, mut others) = (0.0, 0.0, 0);
        sums.push(sum, others);
        for &from in nodes {
            let mut is_exact = true;
            self.steps_reach(rest, NodeRef::Node(from), &mut |node| {
                let number = self.number_value(node)?;
                if number.is_nan() {
                    others += 1;
                } else {
                    sum += number;
                    size += number.abs();
                    is_exact &= is_plain_integer(number);
                }
                Ok(())
            })?;
            if !is_exact || size > EXACT_MAX {
                return Ok(None);
            }
            sums.push(sum, others);
        }
        Ok(Some(sums))
    }
}

/// Returns whether sums of such numbers are the same however they are made, up to [`EXACT_MAX`]. Negative zeros have a sum of
/// their own.
pub(super) fn is_plain_integer(number: f64) -> bool {
    number.fract() == 0.0 && !(number == 0.0 && number.is_sign_negative())
}

/// Returns `true` if steps lead from different nodes to different nodes, each once.
pub(super) fn leads_apart(steps: &[Step]) -> bool {
    let mut rest = steps;
    while let Some((hop, after)) = Hop::first(rest) {
        let is_near = matches!(hop.axis, Axis::Child | Axis::Attribute | Axis::SelfAxis);
        if !is_near || hop.from_descendants {
            return false;
        }
        rest = after;
    }
    true
}
