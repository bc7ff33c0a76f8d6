//! Equality with what lies along an axis: `@k = preceding-sibling::a/@k`, asked of each of many nodes.
//!
//! The step after the axis is taken once from all nodes that the axis can lead to. Their values are numbered, and by number
//! it is kept where the nodes are from which they are reached: a value occurs along the axis of a node if one of these
//! lies there, which a look at the first, the last, or how many of them start and end before the node tells.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use crate::document::{NO_NODE, NodeId};
use crate::query::ast::{Axis, Path, PathStart, Step};

use super::steps::Hop;
use super::{Context, EvalError, Evaluator, NodeRef};

/// Bytes that one join may take.
const BYTES_MAX: usize = 8 << 20;

/// The values that a path leads to, and from where.
#[derive(Debug)]
pub(super) struct Join {
    axis: Axis,
    numbers: HashMap<Box<str>, u32, RandomState>,
    /// Bytes of the longest value.
    longest: usize,
    /// Number of a value, parent (of siblings), and where a node starts from which the value is reached; ascending.
    starts: Box<[(u32, NodeId, NodeId)]>,
    /// Number of a value, and where such a node ends; ascending.
    ends: Box<[(u32, NodeId)]>,
}

/// What an entry takes of each list, and what a value takes.
const ENTRY_BYTES: usize = size_of::<(u32, NodeId, NodeId)>() + size_of::<(u32, NodeId)>();
const VALUE_BYTES: usize = size_of::<(Box<str>, u32)>() + 16;

impl Join {
    /// Returns about how many bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        let texts: usize = self.numbers.keys().map(|value| value.len() + VALUE_BYTES).sum();
        texts + self.starts.len() * ENTRY_BYTES
    }

    /// Returns the length of the longest value in bytes.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// Does a value occur along the axis of a tree node, which starts and ends so and has this parent?
    fn occurs(&self, value: &str, start: NodeId, end: NodeId, parent: NodeId) -> bool {
        let Some(&number) = self.numbers.get(value) else { return false };
        let starting_before = |node: NodeId| self.starts.partition_point(|&entry| entry < (number, 0, node));
        // Siblings are by parent.
        let siblings = || {
            let first = self.starts.partition_point(|&entry| entry < (number, parent, 0));
            let after = self.starts.partition_point(|&entry| entry <= (number, parent, NO_NODE));
            &self.starts[first..after]
        };
        match self.axis {
            Axis::Descendant => starting_before(start + 1) < starting_before(end),
            Axis::DescendantOrSelf => starting_before(start) < starting_before(end),
            Axis::Following => starting_before(end) < starting_before(NO_NODE),
            Axis::Preceding => self.ended_by(number, start) > 0,
            Axis::FollowingSibling => siblings().last().is_some_and(|&(_, _, sibling)| sibling > start),
            Axis::PrecedingSibling => siblings().first().is_some_and(|&(_, _, sibling)| sibling < start),
            // Those around a node have started and have not ended.
            Axis::Ancestor => starting_before(start) - self.starts_of(number) > self.ended_by(number, start),
            _ => starting_before(start + 1) - self.starts_of(number) > self.ended_by(number, start),
        }
    }

    fn starts_of(&self, number: u32) -> usize {
        self.starts.partition_point(|&(other, ..)| other < number)
    }

    fn ended_by(&self, number: u32, node: NodeId) -> usize {
        self.ends.partition_point(|&entry| entry <= (number, node))
            - self.ends.partition_point(|&(other, _)| other < number)
    }
}

impl<'a> Evaluator<'a> {
    /// Returns `true` if the values that a path leads to can be computed for all context nodes at once.
    pub(super) fn is_joinable(&self, path: &Path) -> bool {
        if !self.is_worth_tables() || path.start != PathStart::Context {
            return false;
        }
        Hop::first(&path.steps).is_some_and(|(hop, _)| {
            let leads_along =
                !matches!(hop.axis, Axis::Child | Axis::Attribute | Axis::SelfAxis | Axis::Namespace | Axis::Parent);
            leads_along && hop.is_set_wise() && !hop.from_descendants
        })
    }

    /// Does one of some values occur where a path leads from the context node? Nothing if that is not known.
    pub(super) fn joined(
        &self,
        path: &'a Path,
        context: Context,
        values: impl FnOnce(&Join, &mut dyn FnMut(&str) -> bool) -> Result<bool, EvalError>,
    ) -> Result<Option<bool>, EvalError> {
        let NodeRef::Node(id) = context.node else { return Ok(None) };
        let Some((hop, rest)) = Hop::first(&path.steps) else { return Ok(None) };
        let cached = self.cache.borrow().join(path);
        let join = match cached {
            Some(join) => join,
            None => {
                let join = self.within_share(|| self.build_join(&hop, rest))?.flatten();
                self.cache.borrow_mut().keep_join(path, join)
            }
        };
        let Some(join) = join else { return Ok(None) };
        let node = &self.message.document.nodes[id as usize];
        values(&join, &mut |value| join.occurs(value, id, node.end, node.parent)).map(Some)
    }

    /// Takes the steps after a hop from all that it can lead to; nothing if that is too much.
    fn build_join(&self, hop: &Hop<'a>, rest: &'a [Step]) -> Result<Option<Join>, EvalError> {
        let nodes = &self.message.document.nodes;
        let of_siblings = matches!(hop.axis, Axis::FollowingSibling | Axis::PrecedingSibling);
        let mut numbers: HashMap<Box<str>, u32, RandomState> = HashMap::default();
        let mut starts = Vec::new();
        let mut bytes = 0;
        for &from in self.index_of(hop, NO_NODE)?.nodes() {
            let parent = if of_siblings { nodes[from as usize].parent } else { 0 };
            self.steps_reach(rest, NodeRef::Node(from), &mut |node| {
                let value = self.whole_reading(node)?;
                let number = match numbers.get(&*value) {
                    Some(&number) => number,
                    None => {
                        bytes += VALUE_BYTES + value.len();
                        let number = numbers.len() as u32;
                        numbers.insert(value.into(), number);
                        number
                    }
                };
                bytes += ENTRY_BYTES;
                starts.push((number, parent, from));
                if bytes > BYTES_MAX { Err(super::Halt::Found) } else { Ok(()) }
            })?;
            if bytes > BYTES_MAX {
                return Ok(None);
            }
        }
        starts.sort_unstable();
        starts.dedup();
        let mut ends: Vec<_> = starts.iter().map(|&(number, _, from)| (number, nodes[from as usize].end)).collect();
        ends.sort_unstable();
        let longest = numbers.keys().map(|value| value.len()).max().unwrap_or_default();
        Ok(Some(Join { axis: hop.axis, numbers, longest, starts: starts.into(), ends: ends.into() }))
    }
}
