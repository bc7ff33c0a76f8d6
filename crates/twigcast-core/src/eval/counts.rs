//! How many nodes one step selects, from what is known of the whole message: `count(preceding-sibling::*)` of each of many
//! siblings, `count(ancestor::a)` of each of many nested elements.

use std::rc::Rc;

use crate::document::NO_NODE;
use crate::query::ast::{Axis, Path, PathStart};

use super::steps::Hop;
use super::{Context, EvalError, Evaluator, NodeRef};

impl<'a> Evaluator<'a> {
    /// How many nodes a path of one step selects; nothing if they have to be counted.
    pub(super) fn known_count(&self, path: &'a Path, context: Context) -> Result<Option<usize>, EvalError> {
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

    /// How many of a node and its ancestors a step selects.
    fn count_up(&self, hop: &Hop<'a>, id: u32) -> Result<Option<usize>, EvalError> {
        if id == NO_NODE {
            return Ok(Some(0));
        }
        if !self.is_worth_tables() {
            return Ok(None);
        }
        self.charge(1)?;
        let known = self.cache.borrow().counts_up(hop.step);
        if let Some(counts) = known {
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
}
