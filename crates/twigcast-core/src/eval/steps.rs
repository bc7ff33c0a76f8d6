//! One location step: from one context node with positions, or from many without visiting a node twice.

use std::rc::Rc;

use rustc_hash::FxHashSet;

use crate::document::{NO_NODE, NodeId};
use crate::query::ast::{Axis, Expr, NodeTest, Step};
use crate::query::functions::Dependence;
use crate::query::position::is_positional;

use super::evaluator::Evaluator;
use super::node::NodeRef;
use super::predicates::{dependence_of_all, is_last, position_limit};
use super::value::{Context, EvalError, Halt, Visit, was_stopped};

/// Predicates that count positions on the fly; longer lists are filtered one after the other.
const COUNTERS_MAX: usize = 8;

/// Nodes that several contexts may lead to before those that occur twice are dropped.
const LISTED_MIN: usize = 1 << 12;

/// A step as it is carried out. `//name` is two steps of XPath but one hop.
pub(super) struct Hop<'a> {
    /// The axis.
    pub(super) axis: Axis,
    /// Node test and predicates.
    pub(super) step: &'a Step,
    /// Take the step from each descendant of the context node, and from itself.
    pub(super) from_descendants: bool,
    /// The dependence of the predicates on positions.
    pub(super) dependence: Dependence,
}

impl<'a> Hop<'a> {
    /// Returns the first hop of a path, and the steps after it.
    pub(super) fn first(steps: &'a [Step]) -> Option<(Self, &'a [Step])> {
        let (step, rest) = steps.split_first()?;
        let dependence = dependence_of_all(&step.predicates);
        let plain = Self { axis: step.axis, step, from_descendants: false, dependence };
        let is_gap = step.axis == Axis::DescendantOrSelf && step.test == NodeTest::Node && step.predicates.is_empty();
        let Some((next, after)) = rest.split_first().filter(|_| is_gap) else {
            return Some((plain, rest));
        };
        let dependence = dependence_of_all(&next.predicates);
        let positional = dependence != Dependence::Node;
        let (axis, from_descendants) = match next.axis {
            Axis::Child | Axis::Descendant if !positional => (Axis::Descendant, false),
            Axis::DescendantOrSelf if !positional => (Axis::DescendantOrSelf, false),
            Axis::Child | Axis::Attribute | Axis::Namespace => (next.axis, true),
            _ => return Some((plain, rest)),
        };
        Some((Self { axis, step: next, from_descendants, dependence }, after))
    }

    /// Returns `true` if the hop has no positions, so that a set of context nodes can be handled at once.
    pub(super) fn is_set_wise(&self) -> bool {
        self.dependence == Dependence::Node
    }

    /// Returns the range of nodes that the hop looks at from a tree node, if it is a descendant hop.
    pub(super) fn range(&self, from: NodeId, end: NodeId) -> Option<(NodeId, NodeId)> {
        if self.from_descendants {
            return Some((from, end));
        }
        match self.axis {
            Axis::Descendant if self.is_set_wise() => Some((from + 1, end)),
            Axis::DescendantOrSelf if self.is_set_wise() => Some((from, end)),
            _ => None,
        }
    }

    /// Returns `true` if distinct context nodes give distinct results (given that descendant hops merge their ranges).
    pub(super) fn keeps_distinct(&self) -> bool {
        match self.axis {
            Axis::Child | Axis::Attribute | Axis::Namespace | Axis::SelfAxis => true,
            Axis::Descendant | Axis::DescendantOrSelf => self.is_set_wise(),
            _ => false,
        }
    }

    /// Returns `true` if results of this hop from one node may lie inside each other.
    pub(super) fn can_nest(&self) -> bool {
        self.from_descendants
            || matches!(
                self.axis,
                Axis::Descendant
                    | Axis::DescendantOrSelf
                    | Axis::Ancestor
                    | Axis::AncestorOrSelf
                    | Axis::Following
                    | Axis::Preceding
            )
    }
}

impl<'a> Evaluator<'a> {
    /// Visits what a hop selects from one context node, in axis order.
    pub(super) fn select(&self, hop: &Hop<'a>, from: NodeRef, visit: Visit<'_>) -> Result<(), Halt> {
        if hop.from_descendants {
            let NodeRef::Node(id) = from else { return Ok(()) };
            return self.select_range(hop, id, self.message.document.nodes[id as usize].end, visit);
        }
        let predicates = &hop.step.predicates;
        let indexed = self.indexed(hop, from)?;
        if let Some(indexed) = &indexed {
            if hop.is_set_wise() {
                return self.visit_indexed(indexed, visit);
            }
            if is_last(predicates) && hop.axis != Axis::Preceding {
                return self.visit_last(indexed, visit);
            }
        }
        if is_last(predicates) && self.visit_up(hop, from, visit)? {
            return Ok(());
        }
        if let Some(picked) = self.picked_along(hop, from)? {
            return picked.map_or(Ok(()), visit);
        }
        let walk = |visit: Visit<'_>| match &indexed {
            Some(indexed) => self.visit_indexed(indexed, visit),
            None if self.visit_up(hop, from, visit)? => Ok(()),
            None => self.walk(from, hop.axis, &hop.step.test, visit),
        };
        match hop.dependence {
            _ if predicates.is_empty() => walk(visit),
            Dependence::Node => walk(&mut |node| if self.all_hold(predicates, node)? { visit(node) } else { Ok(()) }),
            Dependence::Position if predicates.len() <= COUNTERS_MAX => self.select_counting(predicates, walk, visit),
            Dependence::Position | Dependence::Size => {
                let mut candidates = Vec::new();
                walk(&mut |node| {
                    candidates.push(node);
                    Ok(())
                })?;
                self.filter(predicates, &mut candidates)?;
                candidates.into_iter().try_for_each(visit)
            }
        }
    }

    /// Positions without sizes: one counter per predicate, and the walk ends when a position is used up.
    fn select_counting(
        &self,
        predicates: &'a [Expr],
        walk: impl FnOnce(Visit<'_>) -> Result<(), Halt>,
        visit: Visit<'_>,
    ) -> Result<(), Halt> {
        let mut counters = [0_u32; COUNTERS_MAX];
        let mut limits = [f64::INFINITY; COUNTERS_MAX];
        for (limit, predicate) in limits.iter_mut().zip(predicates) {
            *limit = position_limit(predicate).unwrap_or(f64::INFINITY);
        }
        let walked = walk(&mut |node| {
            let mut last = false;
            for (index, predicate) in predicates.iter().enumerate() {
                counters[index] += 1;
                let position = counters[index];
                last |= f64::from(position) >= limits[index];
                if !self.predicate(predicate, Context { node, position, size: 0 })? {
                    return if last { Err(Halt::StepDone) } else { Ok(()) };
                }
            }
            visit(node)?;
            if last { Err(Halt::StepDone) } else { Ok(()) }
        });
        match walked {
            Err(Halt::StepDone) => Ok(()),
            other => other,
        }
    }

    /// Keeps the nodes that pass predicates, one predicate after the other, positions counting in list order.
    pub(super) fn filter(&self, predicates: &'a [Expr], nodes: &mut Vec<NodeRef>) -> Result<(), EvalError> {
        for predicate in predicates {
            let size = nodes.len() as u32;
            self.charge(size.into())?;
            let mut position = 0;
            let mut failed = None;
            nodes.retain(|&node| {
                position += 1;
                failed.is_none()
                    && self.predicate(predicate, Context { node, position, size }).unwrap_or_else(|error| {
                        failed = Some(error);
                        false
                    })
            });
            if let Some(error) = failed {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Visits what a descendant hop selects in a range of nodes.
    pub(super) fn select_range(&self, hop: &Hop<'a>, start: NodeId, end: NodeId, visit: Visit<'_>) -> Result<(), Halt> {
        let nodes = &self.message.document.nodes;
        if hop.from_descendants {
            let plain = Hop { from_descendants: false, ..*hop };
            for id in start..end {
                self.charge(1)?;
                let node = &nodes[id as usize];
                let barren = match hop.axis {
                    Axis::Attribute => node.attributes_start == node.attributes_end,
                    Axis::Child => node.end == id + 1,
                    _ => false,
                };
                if !barren {
                    self.select(&plain, NodeRef::Node(id), visit)?;
                }
            }
            return Ok(());
        }
        let predicates = &hop.step.predicates;
        self.walk_range(start, end, &hop.step.test, &mut |node| {
            if self.all_hold(predicates, node)? { visit(node) } else { Ok(()) }
        })
    }

    /// Visits, once each, what a hop selects from context nodes that are distinct and in document order.
    pub(super) fn select_all(&self, hop: &Hop<'a>, contexts: &[NodeRef], visit: Visit<'_>) -> Result<(), Halt> {
        let nodes = &self.message.document.nodes;
        match contexts {
            [] => return Ok(()),
            &[only] => return self.select(hop, only, visit),
            _ => {}
        }
        if hop.from_descendants || (hop.keeps_distinct() && hop.can_nest()) {
            return self.select_merged(hop, contexts, visit);
        }
        if hop.keeps_distinct() {
            return contexts.iter().try_for_each(|&from| self.select(hop, from, visit));
        }
        if !hop.is_set_wise() {
            let mut selected = Vec::new();
            if !self.select_listed(hop, contexts, &mut selected)? {
                for &from in contexts {
                    self.select_into(hop, from, &mut selected)?;
                }
            }
            self.sort_unique(&mut selected)?;
            return selected.into_iter().try_for_each(visit);
        }
        match hop.axis {
            Axis::Parent => self.select_distinct_up(hop, contexts, false, visit),
            Axis::Ancestor | Axis::AncestorOrSelf => self.select_distinct_up(hop, contexts, true, visit),
            Axis::Following => {
                let start = contexts.iter().map(|&node| self.following_start(node)).min().unwrap_or(NO_NODE);
                self.select_range(hop, start, nodes.len() as u32, visit)
            }
            Axis::Preceding => {
                // Nothing comes before a value, or before the document node.
                let nodes = contexts.iter().filter(|node| !matches!(node, NodeRef::Value(_)));
                let from = nodes.map(|node| node.tree_node(self.message.document)).max().unwrap_or(0);
                self.select(hop, NodeRef::Node(from), visit)
            }
            // The first of several siblings sees all that follow it, the last all that precede it.
            Axis::FollowingSibling => self.select_siblings(hop, contexts.iter(), visit),
            _ => self.select_siblings(hop, contexts.iter().rev(), visit),
        }
    }

    /// Adds what a hop selects from one context node to a list, which may then have nodes twice.
    pub(super) fn select_into(
        &self,
        hop: &Hop<'a>,
        from: NodeRef,
        selected: &mut Vec<NodeRef>,
    ) -> Result<(), EvalError> {
        was_stopped(self.select(hop, from, &mut |node| {
            selected.push(node);
            Ok(())
        }))?;
        // So that the list does not grow with the square of the message.
        if selected.len() > LISTED_MIN + 2 * self.message.document.nodes.len() {
            self.sort_unique(selected)?;
        }
        Ok(())
    }

    /// Visits the descendants of nested context nodes as ranges, each looked at once.
    fn select_merged(&self, hop: &Hop<'a>, contexts: &[NodeRef], visit: Visit<'_>) -> Result<(), Halt> {
        let mut covered = 0;
        for &from in contexts {
            let NodeRef::Node(id) = from else {
                self.select(hop, from, visit)?;
                continue;
            };
            let end = self.message.document.nodes[id as usize].end;
            if let Some((start, end)) = hop.range(id, end)
                && end > covered
            {
                self.select_range(hop, start, end, visit)?;
                covered = end;
            }
        }
        Ok(())
    }

    /// Visits the parents or ancestors of several nodes: a walk stops where an earlier one has been.
    fn select_distinct_up(
        &self,
        hop: &Hop<'a>,
        contexts: &[NodeRef],
        to_root: bool,
        visit: Visit<'_>,
    ) -> Result<(), Halt> {
        let mut seen: FxHashSet<NodeId> = FxHashSet::default();
        for &from in contexts {
            let mut up = match (hop.axis, from) {
                (Axis::AncestorOrSelf, NodeRef::Node(id)) => id,
                (Axis::AncestorOrSelf, _) => {
                    if self.passes(&hop.step.test, from) && self.all_hold(&hop.step.predicates, from)? {
                        visit(from)?;
                    }
                    self.parent(from)
                }
                _ => self.parent(from),
            };
            while up != NO_NODE && seen.insert(up) {
                self.charge(1)?;
                let node = NodeRef::Node(up);
                if self.node_passes(&hop.step.test, up) && self.all_hold(&hop.step.predicates, node)? {
                    visit(node)?;
                }
                if !to_root {
                    break;
                }
                up = self.message.document.nodes[up as usize].parent;
            }
        }
        Ok(())
    }

    fn select_siblings<'c>(
        &self,
        hop: &Hop<'a>,
        contexts: impl Iterator<Item = &'c NodeRef>,
        visit: Visit<'_>,
    ) -> Result<(), Halt> {
        let mut seen: FxHashSet<NodeId> = FxHashSet::default();
        for &from in contexts {
            if let NodeRef::Node(id) = from
                && seen.insert(self.message.document.nodes[id as usize].parent)
            {
                self.select(hop, from, visit)?;
            }
        }
        Ok(())
    }

    /// Returns the nodes that one step selects from several context nodes.
    pub(super) fn step_nodes(&self, contexts: &[NodeRef], step: &'a Step) -> Result<Vec<NodeRef>, EvalError> {
        let dependence = dependence_of_all(&step.predicates);
        let hop = Hop { axis: step.axis, step, from_descendants: false, dependence };
        self.collect(|visit| self.select_all(&hop, contexts, visit))
    }

    /// Returns the nodes of a walk, in document order.
    pub(super) fn collect(&self, walk: impl FnOnce(Visit<'_>) -> Result<(), Halt>) -> Result<Vec<NodeRef>, EvalError> {
        let mut nodes = Vec::new();
        was_stopped(walk(&mut |node| {
            nodes.push(node);
            Ok(())
        }))?;
        self.sort_unique(&mut nodes)?;
        Ok(nodes)
    }

    /// Implements [`Evaluator::predicates_hold`].
    pub(super) fn selects_as_child(&self, step: &'a Step, node: NodeId) -> Result<bool, EvalError> {
        if !self.node_passes(&step.test, node) {
            return Ok(false);
        }
        let parent = self.message.document.nodes[node as usize].parent;
        if parent == NO_NODE {
            return Ok(false);
        }
        let independent = step.predicates.iter().take_while(|p| !is_positional(p)).count();
        if !self.all_hold(&step.predicates[..independent], NodeRef::Node(node))? {
            return Ok(false);
        }
        if independent == step.predicates.len() {
            return Ok(true);
        }
        let cached = self.cache.borrow().children(step, parent);
        let selected = match cached {
            Some(selected) => selected,
            None => {
                let dependence = dependence_of_all(&step.predicates);
                let hop = Hop { axis: Axis::Child, step, from_descendants: false, dependence };
                let selected: Rc<[NodeRef]> =
                    self.collect(|visit| self.select(&hop, NodeRef::Node(parent), visit))?.into();
                self.cache.borrow_mut().keep_children(step, parent, &selected);
                selected
            }
        };
        let document = self.message.document;
        let order = NodeRef::Node(node).order(document);
        Ok(selected.binary_search_by_key(&order, |selected| selected.order(document)).is_ok())
    }
}
