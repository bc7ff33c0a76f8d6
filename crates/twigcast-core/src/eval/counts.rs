//! Counts of the nodes that one step selects, and the ancestors among them, derived from facts about the whole message.

use std::rc::Rc;

use crate::document::{NO_NODE, NodeId};
use crate::query::ast::{Axis, Path, PathStart};

use super::evaluator::Evaluator;
use super::node::NodeRef;
use super::predicates::is_last;
use super::steps::Hop;
use super::value::{Context, EvalError, Halt, Visit};

impl<'a> Evaluator<'a> {
    /// Returns how many nodes a path of one step selects; nothing if they have to be counted.
    pub(super) fn counted_without_nodes(&self, path: &'a Path, context: Context) -> Result<Option<usize>, EvalError> {
        if self.nesting.get() == 0 || !self.is_expensive() || path.start != PathStart::Context {
            return Ok(None);
        }
        let Some((hop, [])) = Hop::first(&path.steps) else { return Ok(None) };
        let NodeRef::Node(id) = context.node else { return Ok(None) };
        if !hop.is_set_wise() {
            return Ok(None);
        }
        let parent = self.parent(context.node);
        match hop.axis {
            Axis::Ancestor => self.count_up(&hop, parent),
            Axis::AncestorOrSelf => self.count_up(&hop, id),
            Axis::Preceding => {
                let (Some(before), Some(above)) = (self.count_indexed(&hop, context)?, self.count_up(&hop, parent)?)
                else {
                    return Ok(None);
                };
                Ok(Some(before - above))
            }
            _ => self.count_indexed(&hop, context),
        }
    }

    fn count_indexed(&self, hop: &Hop<'a>, context: Context) -> Result<Option<usize>, EvalError> {
        let indexed = self.indexed(hop, context.node)?;
        self.charge(1)?;
        Ok(indexed.map(|indexed| indexed.len()))
    }

    /// Returns how many of a node and its ancestors a step selects.
    fn count_up(&self, hop: &Hop<'a>, id: u32) -> Result<Option<usize>, EvalError> {
        if id == NO_NODE {
            return Ok(Some(0));
        }
        if !self.is_worth_tables() {
            return Ok(None);
        }
        self.charge(1)?;
        let cached = self.cache.borrow().counts_up(hop.step);
        if let Some(counts) = cached {
            return Ok(Some(counts[id as usize] as usize));
        }
        let nodes = &self.message.document.nodes;
        if !self.cache.borrow_mut().admit_bytes(nodes.len() * size_of::<u32>()) {
            return Ok(None);
        }
        let mut counts = vec![0_u32; nodes.len()];
        for &node in self.index_of(hop, NO_NODE)?.nodes() {
            counts[node as usize] = 1;
        }
        self.charge(nodes.len() as u64)?;
        for (id, node) in nodes.iter().enumerate().skip(1) {
            counts[id] += counts[node.parent as usize];
        }
        let counts: Rc<[u32]> = counts.into();
        self.cache.borrow_mut().keep_counts_up(hop.step, &counts);
        Ok(Some(counts[id as usize] as usize))
    }

    /// Visits the nodes at and above one that a step on a reverse axis selects, innermost first; only the outermost for
    /// a step with `[last()]`. Returns `false`, without visiting any, if an index does not have them.
    pub(super) fn visit_up(&self, hop: &Hop<'a>, from: NodeRef, visit: Visit<'_>) -> Result<bool, Halt> {
        let mut up = match (hop.axis, from) {
            (Axis::Ancestor, _) => self.parent(from),
            (Axis::AncestorOrSelf, NodeRef::Node(id)) => id,
            _ => return Ok(false),
        };
        if !self.is_worth_tables() {
            return Ok(false);
        }
        let Some(nearest) = self.nearest_of(hop)? else { return Ok(false) };
        let is_last = is_last(&hop.step.predicates);
        while up != NO_NODE {
            self.charge(1)?;
            let next = nearest[up as usize];
            if next == NO_NODE {
                break;
            }
            visit(NodeRef::Node(next))?;
            up = if is_last { NO_NODE } else { self.parent(NodeRef::Node(next)) };
        }
        Ok(true)
    }

    /// Returns, for each node, the nearest one at or above it that a step can choose; the outermost, if it chooses the last.
    fn nearest_of(&self, hop: &Hop<'a>) -> Result<Option<Rc<[NodeId]>>, EvalError> {
        let cached = self.cache.borrow().nearest(hop.step);
        if cached.is_some() {
            return Ok(cached);
        }
        let nodes = &self.message.document.nodes;
        if !self.cache.borrow_mut().admit_bytes(nodes.len() * size_of::<NodeId>()) {
            return Ok(None);
        }
        self.charge(nodes.len() as u64)?;
        let is_last = is_last(&hop.step.predicates);
        let mut nearest: Vec<NodeId> = Vec::with_capacity(nodes.len());
        for (id, node) in (0..).zip(nodes) {
            let above = if node.parent == NO_NODE { NO_NODE } else { nearest[node.parent as usize] };
            let keeps_above = is_last && above != NO_NODE || !self.node_passes(&hop.step.test, id);
            nearest.push(if keeps_above { above } else { id });
        }
        let nearest: Rc<[NodeId]> = nearest.into();
        self.cache.borrow_mut().keep_nearest(hop.step, &nearest);
        Ok(Some(nearest))
    }
}
