//! Indexes of the nodes that a step selects in the whole message, or below one parent. The nodes that it selects from one
//! context node are a slice of the index.

use std::rc::Rc;

use crate::document::{NO_NODE, NodeId};
use crate::query::ast::Axis;

use super::cached::StepIndex;
use super::evaluator::Evaluator;
use super::node::NodeRef;
use super::steps::Hop;
use super::value::{EvalError, Halt, Visit, was_stopped};

/// Smaller surroundings are gone through faster than looked up.
const INDEXED_RANGE_MIN: u32 = if cfg!(test) { 2 } else { 16 };

/// The part of an index that a hop selects from one node.
pub(super) struct IndexSlice {
    index: Rc<StepIndex>,
    range: std::ops::Range<usize>,
    from: NodeId,
    axis: Axis,
}

impl IndexSlice {
    /// Returns the index.
    pub(super) fn index(&self) -> &StepIndex {
        &self.index
    }

    /// Returns the part of the index.
    pub(super) fn range(&self) -> std::ops::Range<usize> {
        self.range.clone()
    }

    /// Returns how many nodes there are, ancestors included.
    pub(super) fn len(&self) -> usize {
        self.range.len()
    }
}

impl<'a> Evaluator<'a> {
    /// Returns the slice of an index that a hop inside a predicate selects; nothing if there is no index. The index is
    /// of the whole message or, for siblings, of the children of the same parent.
    ///
    /// Such a hop is taken from many nodes whose surroundings overlap: `//a[.//b]`, `//a[following-sibling::b]`. As soon
    /// as that has become expensive, the index is made.
    pub(super) fn indexed(&self, hop: &Hop<'a>, from: NodeRef) -> Result<Option<IndexSlice>, EvalError> {
        if self.nesting.get() == 0 || !self.is_expensive() {
            return Ok(None);
        }
        let NodeRef::Node(id) = from else { return Ok(None) };
        let nodes = &self.message.document.nodes;
        let end = nodes[id as usize].end;
        let siblings = matches!(hop.axis, Axis::FollowingSibling | Axis::PrecedingSibling);
        let (start, end) = match hop.axis {
            Axis::Descendant => (id + 1, end),
            Axis::DescendantOrSelf => (id, end),
            Axis::Following | Axis::FollowingSibling => (end, nodes.len() as u32),
            Axis::Preceding | Axis::PrecedingSibling => (0, id),
            _ => return Ok(None),
        };
        if end.saturating_sub(start) < INDEXED_RANGE_MIN || id == 0 {
            return Ok(None);
        }
        let below = if siblings { nodes[id as usize].parent } else { NO_NODE };
        let index = self.index_of(hop, below)?;
        let first = index.nodes.partition_point(|&node| node < start);
        let last = index.nodes.partition_point(|&node| node < end);
        Ok(Some(IndexSlice { index, range: first..last, from: id, axis: hop.axis }))
    }

    /// Returns the index of what a hop selects in the whole message or below one parent. With positions, it is of all that it
    /// chooses from.
    pub(super) fn index_of(&self, hop: &Hop<'a>, below: NodeId) -> Result<Rc<StepIndex>, EvalError> {
        let cached = self.cache.borrow().index(hop.step, below);
        if let Some(index) = cached {
            return Ok(index);
        }
        let nodes = match below {
            NO_NODE => self.selected_in(hop, Axis::DescendantOrSelf, 0),
            parent => self.selected_in(hop, Axis::Child, parent),
        }?;
        let before = if hop.axis == Axis::Preceding { self.last_before_each(&nodes) } else { Box::default() };
        let index = Rc::new(StepIndex { nodes, before });
        self.cache.borrow_mut().keep_index(hop.step, below, &index);
        Ok(index)
    }

    /// Returns the tree nodes that a hop selects on another axis, or with positions chooses from, in document order.
    fn selected_in(&self, hop: &Hop<'a>, axis: Axis, from: NodeId) -> Result<Box<[NodeId]>, EvalError> {
        let predicates = if hop.is_set_wise() { hop.step.predicates.as_slice() } else { &[] };
        let mut selected = Vec::new();
        was_stopped(self.walk(NodeRef::Node(from), axis, &hop.step.test, &mut |node| {
            if self.all_hold(predicates, node)? {
                selected.push(node.tree_node(self.message.document));
            }
            Ok(())
        }))?;
        Ok(selected.into())
    }

    /// Returns [`StepIndex::before`]. What lies before an ancestor and is not around it, is not around its descendant
    /// either.
    fn last_before_each(&self, nodes: &[NodeId]) -> Box<[u32]> {
        let mut before: Vec<u32> = Vec::with_capacity(nodes.len());
        for (index, &node) in nodes.iter().enumerate() {
            let last = match index.checked_sub(1) {
                None => 0,
                Some(last) if self.is_around(nodes[last], node) => before[last],
                Some(_) => index as u32,
            };
            before.push(last);
        }
        before.into()
    }

    /// Returns whether a node contains another one that comes later in the message.
    fn is_around(&self, node: NodeId, later: NodeId) -> bool {
        self.message.document.nodes[node as usize].end > later
    }

    /// Visits the nodes that a hop selects, from its index, in axis order.
    pub(super) fn visit_indexed(&self, indexed: &IndexSlice, visit: Visit<'_>) -> Result<(), Halt> {
        let nodes = &indexed.index.nodes;
        match indexed.axis {
            Axis::Preceding => {
                let mut next = indexed.range.end;
                while let Some(last) = next.checked_sub(1) {
                    self.charge(1)?;
                    if self.is_around(nodes[last], indexed.from) {
                        next = indexed.index.before[last] as usize;
                    } else {
                        visit(NodeRef::Node(nodes[last]))?;
                        next = last;
                    }
                }
            }
            Axis::PrecedingSibling => {
                for &node in nodes[indexed.range.clone()].iter().rev() {
                    self.charge(1)?;
                    visit(NodeRef::Node(node))?;
                }
            }
            _ => {
                for &node in &nodes[indexed.range.clone()] {
                    self.charge(1)?;
                    visit(NodeRef::Node(node))?;
                }
            }
        }
        Ok(())
    }

    /// Returns the last in document order of the nodes that a hop selects, from its index.
    pub(super) fn last_indexed(&self, indexed: &IndexSlice) -> Result<Option<NodeRef>, EvalError> {
        let mut next = indexed.range.end;
        while next > indexed.range.start {
            self.charge(1)?;
            let last = next - 1;
            if indexed.axis != Axis::Preceding || !self.is_around(indexed.index.nodes[last], indexed.from) {
                return Ok(Some(NodeRef::Node(indexed.index.nodes[last])));
            }
            next = indexed.index.before[last] as usize;
        }
        Ok(None)
    }

    /// Visits the last of the nodes that a hop selects, from its index, in axis order.
    pub(super) fn visit_last(&self, indexed: &IndexSlice, visit: Visit<'_>) -> Result<(), Halt> {
        self.charge(1)?;
        let part = &indexed.index.nodes[indexed.range.clone()];
        let last = if indexed.axis == Axis::PrecedingSibling { part.first() } else { part.last() };
        last.map_or(Ok(()), |&node| visit(NodeRef::Node(node)))
    }
}
