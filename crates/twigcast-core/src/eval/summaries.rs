//! Summaries of the nodes along an axis, as conditions need them: whether there is a node, how many, the first and the last,
//! the least and the greatest number, whether all values are alike, the sum.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use crate::document::Document;
use crate::query::ast::{Axis, CompareOp, Expr, Path, PathStart};

use super::axis_summaries::{Summary, SummarySource};
use super::evaluator::Evaluator;
use super::node::NodeRef;
use super::predicates::{is_first, is_last};
use super::steps::Hop;
use super::sums::{EXACT_MAX, is_plain_integer, leads_apart};
use super::value::{Context, EvalError, Halt};

/// The most bytes of different values that are compared.
const VALUE_BYTES_MAX: usize = 8 << 20;

impl Summary for bool {
    const NOTHING: Self = false;

    fn and(self, other: Self) -> Self {
        self || other
    }
}

/// A number of nodes.
impl Summary for usize {
    const NOTHING: Self = 0;

    fn and(self, other: Self) -> Self {
        self + other
    }
}

/// The first and the last of some nodes in document order, each with its place in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeEnds {
    first: Option<(u64, NodeRef)>,
    last: Option<(u64, NodeRef)>,
}

impl NodeEnds {
    /// Returns the ends of one node.
    fn of(node: NodeRef, document: &Document) -> Self {
        let place = Some((node.order(document), node));
        Self { first: place, last: place }
    }

    pub(super) fn first(self) -> Option<NodeRef> {
        self.first.map(|(_, node)| node)
    }

    pub(super) fn last(self) -> Option<NodeRef> {
        self.last.map(|(_, node)| node)
    }
}

impl Summary for NodeEnds {
    const NOTHING: Self = Self { first: None, last: None };

    fn and(self, other: Self) -> Self {
        let place = |end: &(u64, NodeRef)| end.0;
        Self {
            first: self.first.into_iter().chain(other.first).min_by_key(place),
            last: self.last.into_iter().chain(other.last).max_by_key(place),
        }
    }
}

/// The least and the greatest number, and whether there is a value that is none.
#[derive(Clone, Copy, Debug)]
pub(super) struct NumberEnds {
    pub(super) ends: Option<(f64, f64)>,
    pub(super) has_other: bool,
}

impl Summary for NumberEnds {
    const NOTHING: Self = Self { ends: None, has_other: false };

    fn and(self, other: Self) -> Self {
        let ends = match (self.ends, other.ends) {
            (Some((min, max)), Some((least, greatest))) => Some((min.min(least), max.max(greatest))),
            (ends, other) => ends.or(other),
        };
        Self { ends, has_other: self.has_other || other.has_other }
    }
}

impl NumberEnds {
    /// Returns the ends of one number, which may be NaN.
    pub(super) fn of(number: f64) -> Self {
        let is_number = !number.is_nan();
        Self { ends: is_number.then_some((number, number)), has_other: !is_number }
    }

    /// Returns whether one of the numbers compares so with another one, other than equally.
    pub(super) fn any_compares(self, op: CompareOp, number: f64) -> bool {
        let Some((min, max)) = self.ends else { return self.has_other && op == CompareOp::NotEqual };
        match op {
            CompareOp::Less | CompareOp::LessOrEqual => op.holds(min, number),
            CompareOp::NotEqual => self.has_other || op.holds(min, number) || op.holds(max, number),
            _ => op.holds(max, number),
        }
    }
}

/// The values of some nodes, as far as it matters whether they are alike.
#[derive(Clone, Copy, Debug)]
pub(super) enum Likeness {
    /// No node.
    Nothing,
    /// Nodes with the same value: its number, and one of the nodes.
    Alike(u32, NodeRef),
    /// Nodes of different values.
    Different,
}

impl Summary for Likeness {
    const NOTHING: Self = Self::Nothing;

    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Nothing, only) | (only, Self::Nothing) => only,
            (Self::Alike(one, _), Self::Alike(another, _)) if one == another => self,
            _ => Self::Different,
        }
    }
}

/// The sum of the numbers among some values, the sum without signs, the count of other values, and of numbers whose sums may
/// have been rounded.
#[derive(Clone, Copy, Debug)]
struct ExactSum {
    sum: f64,
    size: f64,
    others: u32,
    inexact: u32,
}

impl Summary for ExactSum {
    const NOTHING: Self = Self { sum: 0.0, size: 0.0, others: 0, inexact: 0 };

    fn and(self, other: Self) -> Self {
        Self {
            sum: self.sum + other.sum,
            size: self.size + other.size,
            others: self.others + other.others,
            inexact: self.inexact + other.inexact,
        }
    }
}

impl<'a> Evaluator<'a> {
    /// Returns whether a path along an axis leads anywhere; nothing if that is not found for all context nodes at once.
    pub(super) fn exists_along(&self, path: &'a Path, context: Context) -> Result<Option<bool>, EvalError> {
        self.summary_along(SummarySource::Path(path), context, ("exists", std::ptr::null()), &mut |_, exists| {
            *exists = true;
            Ok(())
        })
    }

    /// Returns whether a path along an axis leads to a node that satisfies `target`, which is the same each time.
    pub(super) fn any_along(
        &self,
        set: &'a Expr,
        context: Context,
        target: &mut dyn FnMut(NodeRef) -> Result<bool, EvalError>,
    ) -> Result<Option<bool>, EvalError> {
        let Expr::Path(path) = set else { return Ok(None) };
        self.summary_along(
            SummarySource::Path(path),
            context,
            ("any", std::ptr::null()),
            &mut |node, any: &mut bool| {
                *any = *any || target(node)?;
                Ok(())
            },
        )
    }

    /// Returns how many nodes a path along an axis selects.
    pub(super) fn count_along(&self, path: &'a Path, context: Context) -> Result<Option<usize>, EvalError> {
        if !leads_apart_from_axis(path) {
            return Ok(None);
        }
        self.summary_along(SummarySource::Path(path), context, ("count", std::ptr::null()), &mut |_, count| {
            *count += 1;
            Ok(())
        })
    }

    /// Returns the first and the last node that a path along an axis selects, of those that satisfy some predicates.
    pub(super) fn ends_along(
        &self,
        path: &'a Path,
        predicates: &'a [Expr],
        context: Context,
    ) -> Result<Option<NodeEnds>, EvalError> {
        let document = self.message.document;
        let of_predicates = predicates.first().map_or(std::ptr::null(), |first| std::ptr::from_ref(first).cast());
        self.summary_along(
            SummarySource::Path(path),
            context,
            ("ends", of_predicates),
            &mut |node, ends: &mut NodeEnds| {
                if self.all_hold(predicates, node)? {
                    *ends = ends.and(NodeEnds::of(node, document));
                }
                Ok(())
            },
        )
    }

    /// Returns the node that a step takes whose last predicate takes the first or the last of those that the others choose;
    /// nothing if the step is no such one.
    pub(super) fn picked_along(&self, hop: &Hop<'a>, from: NodeRef) -> Result<Option<Option<NodeRef>>, EvalError> {
        let Some((last, before)) = hop.step.predicates.split_last().filter(|(_, before)| !before.is_empty()) else {
            return Ok(None);
        };
        let takes_last = is_last(std::slice::from_ref(last));
        if !takes_last && !is_first(last) {
            return Ok(None);
        }
        let (source, document) = (SummarySource::Step(hop.step, before), self.message.document);
        let question = ("picked", std::ptr::null());
        let ends = self.summary_along(source, Context::at(from), question, &mut |node, ends: &mut NodeEnds| {
            *ends = ends.and(NodeEnds::of(node, document));
            Ok(())
        })?;
        let counts_back =
            matches!(hop.axis, Axis::Ancestor | Axis::AncestorOrSelf | Axis::Preceding | Axis::PrecedingSibling);
        Ok(ends.map(|ends| if takes_last == counts_back { ends.first() } else { ends.last() }))
    }

    /// Returns the least and the greatest number that a path along an axis leads to.
    pub(super) fn numbers_along(&self, set: &'a Expr, context: Context) -> Result<Option<NumberEnds>, EvalError> {
        let Expr::Path(path) = set else { return Ok(None) };
        self.summary_along(
            SummarySource::Path(path),
            context,
            ("numbers", std::ptr::null()),
            &mut |node, numbers: &mut NumberEnds| {
                *numbers = numbers.and(NumberEnds::of(self.number_value(node)?));
                Ok(())
            },
        )
    }

    /// Returns whether the values that a path along an axis leads to are alike.
    pub(super) fn likeness_along(&self, set: &'a Expr, context: Context) -> Result<Option<Likeness>, EvalError> {
        let Expr::Path(path) = set else { return Ok(None) };
        let (mut values, mut bytes): (HashMap<Box<str>, u32, RandomState>, _) = (HashMap::default(), 0);
        self.summary_along(
            SummarySource::Path(path),
            context,
            ("likeness", std::ptr::null()),
            &mut |node, likeness: &mut Likeness| {
                let value = self.whole_reading(node)?;
                let value: &str = &value;
                let next = values.len() as u32;
                let number = match values.get(value) {
                    Some(&number) => number,
                    None => {
                        bytes += value.len() + size_of::<(Box<str>, u32)>();
                        if bytes > VALUE_BYTES_MAX {
                            // As if it took too many visits: it is not done for all nodes.
                            return Err(Halt::Failed(EvalError::BudgetExceeded { visits_max: self.visits_max.get() }));
                        }
                        values.insert(value.into(), next);
                        next
                    }
                };
                *likeness = likeness.and(Likeness::Alike(number, node));
                Ok(())
            },
        )
    }

    /// Returns the sum of what a path along an axis selects, where it is exact however it is made.
    pub(super) fn exact_sum_along(&self, path: &'a Path, context: Context) -> Result<Option<f64>, EvalError> {
        if !leads_apart_from_axis(path) {
            return Ok(None);
        }
        let sum = self.summary_along(
            SummarySource::Path(path),
            context,
            ("sum", std::ptr::null()),
            &mut |node, sum: &mut ExactSum| {
                let number = self.number_value(node)?;
                let one = match number.is_nan() {
                    true => ExactSum { others: 1, ..ExactSum::NOTHING },
                    false => ExactSum {
                        sum: number,
                        size: number.abs(),
                        others: 0,
                        inexact: u32::from(!is_plain_integer(number)),
                    },
                };
                *sum = sum.and(one);
                Ok(())
            },
        )?;
        Ok(sum.and_then(|sum| match sum {
            ExactSum { others: 1.., .. } => Some(f64::NAN),
            ExactSum { inexact: 0, size, sum, .. } if size <= EXACT_MAX => Some(sum),
            _ => None,
        }))
    }
}

/// Returns whether what a path leads to from different nodes along its axis is different, so that it may be counted.
fn leads_apart_from_axis(path: &Path) -> bool {
    match &path.start {
        PathStart::Context => path.steps.split_first().is_some_and(|(_, rest)| leads_apart(rest)),
        PathStart::Filter { .. } => leads_apart(&path.steps),
        PathStart::Root | PathStart::Variable(_) => false,
    }
}
