//! Evaluates location paths and filter expressions: whether one selects anything, how many nodes, and which.
//!
//! Two ways through a path. *Streaming* goes depth first, from each node of a step straight on to the next step, and so
//! ends at the first node that satisfies the caller; descendant hops remember which ranges they have been through, so
//! that nested context nodes do not multiply. *Set-wise* finishes a step for all context nodes before the next; it is for
//! paths whose steps may reach one node from several others (parents, siblings, ...), and for node-sets.

use std::rc::Rc;

use crate::document::{NO_NODE, NodeId};
use crate::query::ast::{Axis, Expr, Path, PathStart, Step};
use crate::query::functions::Dependence;

use super::evaluator::Evaluator;
use super::node::NodeRef;
use super::predicates::{dependence_of_all, is_first, is_last};
use super::steps::Hop;
use super::value::{Context, EvalError, Halt, Value, Visit, was_stopped};

/// One of the ends of a list of nodes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    First,
    Last,
}

/// Longer paths go set-wise, so that the depth of recursion stays small.
const STREAMED_STEPS_MAX: usize = 48;

impl<'a> Evaluator<'a> {
    /// Returns `true` if a path selects a node.
    pub(super) fn path_exists(&self, path: &'a Path, context: Context) -> Result<bool, EvalError> {
        let anchor = self.path_anchor(path, context);
        if let Some(anchor) = anchor {
            let cached = self.cache.borrow().existence(path, anchor);
            if let Some(exists) = cached {
                return Ok(exists);
            }
        }
        let exists = match self.exists_in_table(path, context)? {
            Some(exists) => exists,
            None => match self.exists_along(path, context)? {
                Some(exists) => exists,
                None => self.any_of_path(path, context, &mut |_| Err(Halt::Stopped))?,
            },
        };
        if let Some(anchor) = anchor {
            self.cache.borrow_mut().keep_existence(path, anchor, exists);
        }
        Ok(exists)
    }

    /// Returns `true` if a path inside a predicate is absolute, so that it selects the same for each node.
    pub(super) fn is_invariant(&self, path: &Path) -> bool {
        self.nesting.get() > 0 && path.start == PathStart::Root && !path.steps.is_empty()
    }

    /// Returns the nodes of an absolute path inside a predicate, found once.
    pub(super) fn invariant_nodes(&self, path: &'a Path) -> Result<Option<Rc<[NodeRef]>>, EvalError> {
        if !self.is_invariant(path) {
            return Ok(None);
        }
        let cached = self.cache.borrow().nodes(path);
        if cached.is_some() {
            return Ok(cached);
        }
        let nodes: Rc<[NodeRef]> = self.find_nodes(path, Context::DOCUMENT)?.into();
        self.cache.borrow_mut().keep_nodes(path, &nodes);
        Ok(Some(nodes))
    }

    /// Visits the nodes of a path, in any order and perhaps repeatedly, until `visit` has what it wanted; returns
    /// whether it had.
    pub(super) fn any_of_path(&self, path: &'a Path, context: Context, visit: Visit<'_>) -> Result<bool, EvalError> {
        if self.exists_in_table(path, context)? == Some(false) {
            return Ok(false);
        }
        match &path.start {
            PathStart::Root => self.steps_reach(&path.steps, NodeRef::Node(0), visit),
            PathStart::Context => self.steps_reach(&path.steps, context.node, visit),
            PathStart::Variable(_) => self.steps_reach_from(&path.steps, &self.start(path, context)?, visit),
            PathStart::Filter { primary, predicates } => {
                if dependence_of_all(predicates) != Dependence::Node || !path.steps.is_empty() {
                    return self.steps_reach_from(&path.steps, &self.start(path, context)?, visit);
                }
                self.any_of(primary, context, &mut |node| {
                    if self.all_hold(predicates, node)? { visit(node) } else { Ok(()) }
                })
            }
        }
    }

    /// Visits the nodes of any expression that is a node-set, as [`Self::any_of_path`] does.
    pub(super) fn any_of(&self, expr: &'a Expr, context: Context, visit: Visit<'_>) -> Result<bool, EvalError> {
        match expr {
            Expr::Path(path) => match self.invariant_nodes(path)? {
                Some(nodes) => was_stopped(nodes.iter().try_for_each(|&node| visit(node))),
                None => self.any_of_path(path, context, visit),
            },
            Expr::Union(operands) => {
                for operand in operands {
                    if self.any_of(operand, context, visit)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            _ => was_stopped(self.nodes(expr, context)?.into_iter().try_for_each(visit)),
        }
    }

    /// Returns the nodes that a path selects, distinct and in document order.
    pub(super) fn path_nodes(&self, path: &'a Path, context: Context) -> Result<Vec<NodeRef>, EvalError> {
        match self.invariant_nodes(path)? {
            Some(nodes) => Ok(nodes.to_vec()),
            None => self.find_nodes(path, context),
        }
    }

    fn find_nodes(&self, path: &'a Path, context: Context) -> Result<Vec<NodeRef>, EvalError> {
        if self.exists_in_table(path, context)? == Some(false) {
            return Ok(Vec::new());
        }
        let start = self.start(path, context)?;
        if path.steps.is_empty() {
            return Ok(start);
        }
        self.collect(|visit| self.take_steps(&path.steps, start, visit))
    }

    /// Returns how many nodes a path selects, counting up to `enough`.
    pub(super) fn path_count(&self, path: &'a Path, context: Context, enough: usize) -> Result<usize, EvalError> {
        if let Some(nodes) = self.invariant_nodes(path)? {
            return Ok(nodes.len());
        }
        if let Some(count) = self.counted_without_nodes(path, context)? {
            return Ok(count);
        }
        if self.exists_in_table(path, context)? == Some(false) {
            return Ok(0);
        }
        if let Some(count) = self.count_along(path, context)? {
            return Ok(count);
        }
        let start = self.start(path, context)?;
        if path.steps.is_empty() {
            return Ok(start.len());
        }
        let mut count = 0;
        was_stopped(self.take_steps(&path.steps, start, &mut |_| {
            count += 1;
            if count >= enough { Err(Halt::Stopped) } else { Ok(()) }
        }))?;
        Ok(count)
    }

    /// Returns the first node of a path in document order.
    pub(super) fn path_first(&self, path: &'a Path, context: Context) -> Result<Option<NodeRef>, EvalError> {
        if let Some(ends) = self.ends_along(path, &[], context)? {
            return Ok(ends.first());
        }
        let from = match path.start {
            PathStart::Root => NodeRef::Node(0),
            PathStart::Context => context.node,
            PathStart::Variable(_) | PathStart::Filter { .. } => NodeRef::Node(NO_NODE),
        };
        if from == NodeRef::Node(NO_NODE) || !is_in_document_order(&path.steps) {
            return Ok(self.path_nodes(path, context)?.first().copied());
        }
        if self.exists_in_table(path, context)? == Some(false) {
            return Ok(None);
        }
        let mut first = None;
        self.steps_reach(&path.steps, from, &mut |node| {
            first = Some(node);
            Err(Halt::Stopped)
        })?;
        Ok(first)
    }

    /// Returns the nodes that a path starts from.
    fn start(&self, path: &'a Path, context: Context) -> Result<Vec<NodeRef>, EvalError> {
        match &path.start {
            PathStart::Root => Ok(vec![NodeRef::Node(0)]),
            PathStart::Context => Ok(vec![context.node]),
            PathStart::Variable(id) => match &self.variables[id.index()] {
                Value::Nodes(nodes) => Ok(nodes.clone()),
                Value::Boolean(_) | Value::Number(_) | Value::String(_) | Value::Temporal(_) => {
                    Err(EvalError::NotANodeSet)
                }
            },
            PathStart::Filter { primary, predicates } => {
                let takes_one = |predicate: &Expr| is_last(std::slice::from_ref(predicate)) || is_first(predicate);
                let one = predicates.iter().position(takes_one);
                let one = one.filter(|&one| dependence_of_all(&predicates[..one]) == Dependence::Node);
                let Some(one) = one else {
                    let mut nodes = self.nodes(primary, context)?;
                    self.filter(predicates, &mut nodes)?;
                    return Ok(nodes);
                };
                let end = if is_first(&predicates[one]) { End::First } else { End::Last };
                let mut nodes: Vec<_> = self.end_node(primary, &predicates[..one], end, context)?.into_iter().collect();
                self.filter(&predicates[one + 1..], &mut nodes)?;
                Ok(nodes)
            }
        }
    }

    /// Returns the first or the last node, in document order, that an expression selects, of those that satisfy some
    /// predicates, which do not depend on positions. That of one step is looked up in its index.
    fn end_node(
        &self,
        expr: &'a Expr,
        predicates: &'a [Expr],
        end: End,
        context: Context,
    ) -> Result<Option<NodeRef>, EvalError> {
        match expr {
            Expr::Union(operands) => {
                let mut found: Option<NodeRef> = None;
                let place = |node: &NodeRef| node.order(self.message.document);
                for operand in operands {
                    let both = found.into_iter().chain(self.end_node(operand, predicates, end, context)?);
                    found = if end == End::First { both.min_by_key(place) } else { both.max_by_key(place) };
                }
                Ok(found)
            }
            Expr::Path(path) if path.start == PathStart::Context => {
                if end == End::Last
                    && predicates.is_empty()
                    && let Some((hop, [])) = Hop::first(&path.steps)
                    && hop.is_set_wise()
                    && !hop.from_descendants
                    && let Some(indexed) = self.indexed(&hop, context.node)?
                {
                    return self.last_indexed(&indexed);
                }
                if let Some(ends) = self.ends_along(path, predicates, context)? {
                    return Ok(if end == End::First { ends.first() } else { ends.last() });
                }
                if end == End::First && predicates.is_empty() {
                    return self.path_first(path, context);
                }
                self.end_of(self.path_nodes(path, context)?, predicates, end)
            }
            _ => self.end_of(self.nodes(expr, context)?, predicates, end),
        }
    }

    /// Returns the first or the last of some nodes that satisfies predicates.
    fn end_of(&self, nodes: Vec<NodeRef>, predicates: &'a [Expr], end: End) -> Result<Option<NodeRef>, EvalError> {
        let count = nodes.len();
        for index in 0..count {
            let node = nodes[if end == End::First { index } else { count - 1 - index }];
            if self.all_hold(predicates, node)? {
                return Ok(Some(node));
            }
        }
        Ok(None)
    }

    /// Takes steps set-wise: visits once each what they select from nodes that are distinct and in document order.
    fn take_steps(&self, steps: &'a [Step], start: Vec<NodeRef>, visit: Visit<'_>) -> Result<(), Halt> {
        let mut contexts = start;
        let mut rest = steps;
        while let Some((hop, after)) = Hop::first(rest) {
            if after.is_empty() {
                return self.select_all(&hop, &contexts, visit);
            }
            contexts = self.collect(|visit| self.select_all(&hop, &contexts, visit))?;
            rest = after;
        }
        contexts.into_iter().try_for_each(visit)
    }

    /// Visits the nodes that steps select from one node, until `visit` stops; returns whether it did.
    pub(super) fn steps_reach(&self, steps: &'a [Step], from: NodeRef, visit: Visit<'_>) -> Result<bool, EvalError> {
        if is_streamable(steps) {
            was_stopped(self.stream(steps, from, false, &mut Coverage::default(), visit))
        } else {
            was_stopped(self.take_steps(steps, vec![from], visit))
        }
    }

    fn steps_reach_from(&self, steps: &'a [Step], start: &[NodeRef], visit: Visit<'_>) -> Result<bool, EvalError> {
        match start {
            [] => Ok(false),
            &[only] => self.steps_reach(steps, only, visit),
            several => was_stopped(self.take_steps(steps, several.to_vec(), visit)),
        }
    }

    /// Goes depth first along streamable steps. `nested`: the context nodes of this step may lie inside each other.
    fn stream(
        &self,
        steps: &'a [Step],
        from: NodeRef,
        nested: bool,
        coverage: &mut Coverage,
        visit: Visit<'_>,
    ) -> Result<(), Halt> {
        let Some((hop, rest)) = Hop::first(steps) else {
            return visit(from);
        };
        if rest.is_empty() && !nested {
            return self.select(&hop, from, visit);
        }
        if nested && let NodeRef::Node(id) = from {
            let end = self.message.document.nodes[id as usize].end;
            if let Some(range) = hop.range(id, end) {
                return coverage.uncovered(steps.len(), range).into_iter().try_for_each(|(start, end)| {
                    self.select_range(&hop, start, end, &mut |node| self.stream(rest, node, true, coverage, visit))
                });
            }
        }
        let nested = nested || hop.can_nest();
        self.select(&hop, from, &mut |node| self.stream(rest, node, nested, coverage, visit))
    }
}

/// Returns whether steps can be taken depth first without reaching nodes over and over.
fn is_streamable(steps: &[Step]) -> bool {
    let mut rest = steps;
    let mut first = true;
    while let Some((hop, after)) = Hop::first(rest) {
        if !first && !hop.keeps_distinct() {
            return false;
        }
        first = false;
        rest = after;
    }
    steps.len() <= STREAMED_STEPS_MAX
}

/// Does streaming give the nodes in document order? It does for forward axes, as long as no step is taken from nodes
/// that lie inside each other.
fn is_in_document_order(steps: &[Step]) -> bool {
    let mut rest = steps;
    let mut nested = false;
    while let Some((hop, after)) = Hop::first(rest) {
        let forward =
            !matches!(hop.axis, Axis::Ancestor | Axis::AncestorOrSelf | Axis::Preceding | Axis::PrecedingSibling);
        // All children of an element are visited before their own children.
        let interleaved = hop.from_descendants && hop.axis == Axis::Child;
        let stays = matches!(hop.axis, Axis::SelfAxis | Axis::Attribute | Axis::Namespace);
        if !forward || interleaved || (nested && !stays) {
            return false;
        }
        nested |= hop.can_nest();
        rest = after;
    }
    is_streamable(steps)
}

/// The ranges that each descendant hop of a path has been through without success. Subtrees are nested or disjoint, and
/// so are these.
#[derive(Default)]
struct Coverage {
    /// By number of remaining steps: disjoint ranges in document order.
    hops: Vec<(usize, Vec<(NodeId, NodeId)>)>,
}

impl Coverage {
    /// Returns the parts of a range that a hop has not been through, and counts them as visited.
    fn uncovered(&mut self, remaining: usize, (start, end): (NodeId, NodeId)) -> Vec<(NodeId, NodeId)> {
        let index = self.hops.iter().position(|(key, _)| *key == remaining).unwrap_or_else(|| {
            self.hops.push((remaining, Vec::new()));
            self.hops.len() - 1
        });
        let covered = &mut self.hops[index].1;
        let first = covered.partition_point(|&(_, covered_end)| covered_end <= start);
        let mut parts = Vec::new();
        let mut next = start;
        let mut after = first;
        while let Some(&(covered_start, covered_end)) = covered.get(after).filter(|(s, _)| *s < end) {
            if next < covered_start {
                parts.push((next, covered_start));
            }
            next = next.max(covered_end);
            after += 1;
        }
        if next < end {
            parts.push((next, end));
        }
        if !parts.is_empty() {
            let merged_start = covered.get(first).map_or(start, |c| c.0.min(start));
            let merged_end = if after > first { covered[after - 1].1.max(end) } else { end };
            let merged = (if after > first { merged_start } else { start }, merged_end);
            covered.splice(first..after, [merged]);
        }
        parts
    }
}
