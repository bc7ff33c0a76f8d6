//! Equality with what lies along an axis: `@k = preceding-sibling::a/@k`, asked of each of many nodes.
//!
//! The step after the axis is taken once from all nodes that the axis can lead to. Their values are numbered, and by number
//! it is kept where the nodes are from which they are reached: a value occurs along the axis of a node if one of these
//! lies there, which a look at the first, the last, or how many of them start and end before the node tells.

use std::collections::HashMap;
use std::rc::Rc;

use foldhash::fast::RandomState;

use crate::document::{NO_NODE, NodeId};
use crate::query::ast::{Axis, Path, PathStart, Step};
use crate::util::number;

use super::axis_summaries::{AxisList, SummarySource};
use super::cached::{JOIN_ENTRY_BYTES, JOIN_VALUE_BYTES, Join, JoinedBy};
use super::evaluator::Evaluator;
use super::node::NodeRef;
use super::steps::Hop;
use super::value::{Context, EvalError, Halt};

/// Bytes that one join may take.
const BYTES_MAX: usize = 8 << 20;

/// Values by number, and where each is reached from.
#[derive(Default)]
struct JoinedValues {
    numbers: HashMap<Box<str>, u32, RandomState>,
    longest: usize,
    bytes: usize,
}

impl JoinedValues {
    /// Returns the number of a value, or nothing if there are too many.
    fn number_of(&mut self, value: &str) -> Option<u32> {
        self.bytes += JOIN_ENTRY_BYTES;
        let number = match self.numbers.get(value) {
            Some(&number) => number,
            None => {
                self.bytes += JOIN_VALUE_BYTES + value.len();
                self.longest = self.longest.max(value.len());
                let number = self.numbers.len() as u32;
                self.numbers.insert(value.into(), number);
                number
            }
        };
        (self.bytes <= BYTES_MAX).then_some(number)
    }
}

impl<'a> Evaluator<'a> {
    /// Returns `true` if the values that a path leads to can be computed for all context nodes at once.
    pub(super) fn is_joinable(&self, path: &'a Path) -> bool {
        if !self.is_worth_tables() {
            return false;
        }
        let is_plain = path.start == PathStart::Context
            && Hop::first(&path.steps).is_some_and(|(hop, _)| {
                let stays =
                    matches!(hop.axis, Axis::Child | Axis::Attribute | Axis::SelfAxis | Axis::Namespace | Axis::Parent);
                !stays && hop.is_set_wise() && !hop.from_descendants
            });
        is_plain || self.has_list(SummarySource::Path(path))
    }

    /// Does one of some values occur where a path leads from the context node? Nothing if that is not known. `values` is given
    /// the length of the longest value that may, and a function that says whether one does.
    pub(super) fn joined(
        &self,
        (path, by): (&'a Path, JoinedBy),
        context: Context,
        values: impl FnOnce(usize, &mut dyn FnMut(&str) -> bool) -> Result<bool, EvalError>,
    ) -> Result<Option<bool>, EvalError> {
        let NodeRef::Node(id) = context.node else { return Ok(None) };
        let node = &self.message.document.nodes[id as usize];
        let hop = Hop::first(&path.steps).filter(|(hop, _)| hop.is_set_wise() && path.start == PathStart::Context);
        let Some((hop, rest)) = hop else {
            let Some(join) = self.listed_join(path, by, id)? else { return Ok(None) };
            if !join.list.has_ranges(id, node.end) {
                return Ok(None);
            }
            return values(join.longest, &mut |value| join.occurs(value, id, node.end)).map(Some);
        };
        let cached = self.cache.borrow().join(path, by);
        let join = match cached {
            Some(join) => join,
            None => {
                let join = self.within_share(|| self.build_join(&hop, rest, by))?.flatten();
                self.cache.borrow_mut().keep_join(path, by, join)
            }
        };
        let Some(join) = join else { return Ok(None) };
        values(join.longest(), &mut |value| join.occurs(value, id, node.end, node.parent)).map(Some)
    }

    /// Visits the values that steps lead to from a node, numbered. Returns `false` if there are too many.
    fn number_values(
        &self,
        (rest, from): (&'a [Step], NodeId),
        by: JoinedBy,
        all: &mut JoinedValues,
        visit: &mut dyn FnMut(u32),
    ) -> Result<bool, EvalError> {
        let mut fits = true;
        self.steps_reach(rest, NodeRef::Node(from), &mut |node| {
            let number = match by {
                JoinedBy::Text => all.number_of(&self.whole_reading(node)?),
                JoinedBy::Number => {
                    let number = self.number_value(node)?;
                    if number.is_nan() {
                        return Ok(());
                    }
                    all.number_of(&number::format(number))
                }
            };
            fits = number.is_some();
            number.map_or(Err(Halt::Stopped), |number| {
                visit(number);
                Ok(())
            })
        })?;
        Ok(fits)
    }

    /// Takes the steps after a hop from all that it can lead to; nothing if that is too much.
    fn build_join(&self, hop: &Hop<'a>, rest: &'a [Step], by: JoinedBy) -> Result<Option<Join>, EvalError> {
        let nodes = &self.message.document.nodes;
        let of_siblings = matches!(hop.axis, Axis::FollowingSibling | Axis::PrecedingSibling);
        let (mut values, mut starts) = (JoinedValues::default(), Vec::new());
        for &from in self.index_of(hop, NO_NODE)?.nodes() {
            let parent = if of_siblings { nodes[from as usize].parent } else { 0 };
            if !self.number_values((rest, from), by, &mut values, &mut |number| starts.push((number, parent, from)))? {
                return Ok(None);
            }
        }
        starts.sort_unstable();
        starts.dedup();
        let mut ends: Vec<_> = starts.iter().map(|&(number, _, from)| (number, nodes[from as usize].end)).collect();
        ends.sort_unstable();
        let JoinedValues { numbers, longest, .. } = values;
        Ok(Some(Join { axis: hop.axis, numbers, longest, starts: starts.into(), ends: ends.into() }))
    }

    /// Returns the join of a path whose step along the axis has positions; nothing if it cannot be had.
    fn listed_join(&self, path: &'a Path, by: JoinedBy, id: NodeId) -> Result<Option<Rc<ListedJoin>>, EvalError> {
        let source = SummarySource::Path(path);
        let question = match by {
            JoinedBy::Text => "join by text",
            JoinedBy::Number => "join by number",
        };
        self.listed(source, id, (question, std::ptr::null()), |along, list| {
            let (mut values, mut entries) = (JoinedValues::default(), Vec::new());
            let mut fits = true;
            self.for_each_leaf(along, &list, &mut |from, leaf| {
                fits = fits
                    && self.number_values((along.rest, from), by, &mut values, &mut |number| {
                        entries.push((number, leaf));
                    })?;
                Ok(())
            })?;
            entries.sort_unstable();
            let JoinedValues { numbers, longest, bytes } = values;
            let bytes = bytes + list.bytes();
            Ok(fits.then(|| (ListedJoin { list, numbers, longest, entries: entries.into() }, bytes)))
        })
    }
}

/// The values that a path leads to whose step along an axis has positions.
struct ListedJoin {
    list: AxisList,
    numbers: HashMap<Box<str>, u32, RandomState>,
    /// Bytes of the longest value.
    longest: usize,
    /// Number of a value, and a leaf from which it is reached; ascending.
    entries: Box<[(u32, u32)]>,
}

impl ListedJoin {
    /// Returns whether a value occurs along the axis of a tree node.
    fn occurs(&self, value: &str, node: NodeId, end: NodeId) -> bool {
        let Some(&number) = self.numbers.get(value) else { return false };
        self.list.selects_any(node, end, |leaves| {
            let first = self.entries.partition_point(|&entry| entry < (number, leaves.start as u32));
            self.entries.get(first).is_some_and(|&(other, leaf)| other == number && (leaf as usize) < leaves.end)
        })
    }
}
