//! Summaries of the nodes along an axis, made for all context nodes at once.
//!
//! A condition such as `@x > following-sibling::a/@x` needs, for each of many nodes, the least value among the
//! following siblings, and `following::a[position() mod 3 = 1]/@q` the values of every third node. The nodes that the
//! step can select are listed once, and for each of them the nodes that the rest of the path selects are summarised.
//! The nodes that the step selects from one context node are a range of the list, or, with such positions, a range for
//! each remainder. A tree over the list has the summaries of ranges (the "segment tree" of Bentley 1977). Along
//! `ancestor`, each node extends the summary of its parent.

use std::any::Any;
use std::ops::Range;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::document::{NO_NODE, NodeId};
use crate::query::ast::{Axis, Expr, Path, PathStart, Step};
use crate::query::functions::{Dependence, ExprType};
use crate::query::position::{dependence, predicate_dependence};

use super::cached::SummaryQuestion;
use super::evaluator::Evaluator;
use super::node::NodeRef;
use super::position_pattern::{CountedFrom, Repetition};
use super::predicates::dependence_of_all;
use super::steps::Hop;
use super::value::{Context, EvalError, Halt, was_stopped};

/// Visits that finding the ranges of one context node counts as.
const RANGES_VISITS: u64 = 8;

/// The most ranges of a list that are looked up for one context node.
const RANGES_MAX: usize = 128;

/// With fewer context nodes, a step is evaluated for each of them.
const CONTEXTS_MIN: usize = if cfg!(test) { 2 } else { 16 };

/// With fewer siblings, visiting them is faster than a look-up.
const SIBLINGS_MIN: u32 = if cfg!(test) { 2 } else { 16 };

/// A summary of some nodes. The summary of a union of two sets follows from theirs, in any order.
pub(super) trait Summary: Copy + 'static {
    const NOTHING: Self;

    fn and(self, other: Self) -> Self;
}

/// The part of a path that leads along an axis, and the predicates of its step.
pub(super) struct AxisPath<'a> {
    hop: Hop<'a>,
    /// Predicates before the one about positions.
    leading: &'a [Expr],
    /// The predicate about positions: the operands of a conjunction that depend on positions alone, and all others.
    positions: Vec<&'a Expr>,
    others: Vec<&'a Expr>,
    /// The predicate is a number that the position has to equal.
    asks_number: bool,
    /// The end from which positions are counted, and how the selected ones repeat from there.
    from: CountedFrom,
    repetition: Repetition,
    /// Predicates after it.
    trailing: &'a [Expr],
    /// Positions count in document order, whatever the axis.
    from_first: bool,
    /// The steps that follow.
    pub(super) rest: &'a [Step],
}

/// A path or step whose nodes along an axis are summarised.
#[derive(Clone, Copy)]
pub(super) enum SummarySource<'a> {
    /// A path.
    Path(&'a Path),
    /// A step, with the first of its predicates.
    Step(&'a Step, &'a [Expr]),
}

impl<'a> SummarySource<'a> {
    /// Returns its address, for the key in the cache.
    fn address(self) -> *const () {
        match self {
            Self::Path(path) => std::ptr::from_ref(path).cast(),
            Self::Step(step, _) => std::ptr::from_ref(step).cast(),
        }
    }

    /// Returns the axis of the first step from the context node.
    fn first_axis(self) -> Option<Axis> {
        let of_path = |path: &Path| path.steps.first().map(|step| step.axis);
        match self {
            Self::Step(step, _) => Some(step.axis),
            Self::Path(path) => match &path.start {
                PathStart::Context => of_path(path),
                PathStart::Filter { primary, .. } => match &**primary {
                    Expr::Path(path) if path.start == PathStart::Context => of_path(path),
                    _ => None,
                },
                PathStart::Root | PathStart::Variable(_) => None,
            },
        }
    }

    /// Returns the source as a path along an axis; `None` if it is none, or if it has predicates of other kinds.
    fn axis_path(self) -> Option<AxisPath<'a>> {
        match self {
            Self::Path(path) => AxisPath::of(path),
            Self::Step(step, predicates) => {
                let (hop, _) = Hop::first(std::slice::from_ref(step))?;
                AxisPath::with(hop, predicates, &[], false)
            }
        }
    }
}

impl<'a> AxisPath<'a> {
    fn of(path: &'a Path) -> Option<Self> {
        let (steps, filtered) = match &path.start {
            PathStart::Context => (path.steps.as_slice(), None),
            PathStart::Filter { primary, predicates } => match &**primary {
                Expr::Path(Path { start: PathStart::Context, steps }) => {
                    (steps.as_slice(), Some(predicates.as_slice()))
                }
                _ => return None,
            },
            PathStart::Root | PathStart::Variable(_) => return None,
        };
        let (hop, after) = Hop::first(steps)?;
        match filtered {
            None => {
                let own = hop.step.predicates.as_slice();
                Self::with(hop, own, after, false)
            }
            // Of a filter, the predicates count in document order.
            Some(predicates) if after.is_empty() && hop.is_set_wise() => {
                Self::with(hop, predicates, path.steps.as_slice(), true)
            }
            Some(_) => None,
        }
    }

    /// Returns a step with some of its predicates as a path along an axis, with the steps after it.
    fn with(hop: Hop<'a>, own: &'a [Expr], rest: &'a [Step], from_first: bool) -> Option<Self> {
        let has_axis = matches!(
            hop.axis,
            Axis::Descendant
                | Axis::DescendantOrSelf
                | Axis::Following
                | Axis::FollowingSibling
                | Axis::Preceding
                | Axis::PrecedingSibling
                | Axis::Ancestor
                | Axis::AncestorOrSelf
        );
        if !has_axis || hop.from_descendants {
            return None;
        }
        let first = own.iter().position(|one| predicate_dependence(one) != Dependence::Node).unwrap_or(own.len());
        let (leading, more) = own.split_at(first);
        let mut from = CountedFrom::First;
        let (positions, others, trailing) = match more.split_first() {
            None => (Vec::new(), Vec::new(), more),
            Some((about_positions, trailing)) => {
                if dependence(about_positions) == Dependence::Size {
                    from = CountedFrom::Last;
                }
                let (positions, others) = split(about_positions, from)?;
                (positions, others, trailing)
            }
        };
        let asks_number = more.first().is_some_and(is_number);
        let repetition = if asks_number {
            Repetition::of_position(positions[0], from)?
        } else {
            Repetition::of_all(&positions, from)?
        };
        (dependence_of_all(trailing) == Dependence::Node).then_some(Self {
            hop,
            leading,
            positions,
            others,
            asks_number,
            from,
            repetition,
            trailing,
            from_first,
            rest,
        })
    }
}

/// Splits a predicate into what depends on positions alone and what depends on the node alone.
fn split(predicate: &Expr, from: CountedFrom) -> Option<(Vec<&Expr>, Vec<&Expr>)> {
    let operands = match predicate {
        Expr::And(operands) => operands.as_slice(),
        // A number is compared with the position. Other tables serve predicates that select a single position.
        Expr::Arithmetic { .. } if is_number(predicate) && from == CountedFrom::Last => {
            return Repetition::of_position(predicate, from).map(|_| (vec![predicate], Vec::new()));
        }
        other if is_number(other) => return None,
        other => std::slice::from_ref(other),
    };
    let (mut positions, mut others) = (Vec::new(), Vec::new());
    for operand in operands {
        if Repetition::of_truth(operand, from).is_some() {
            positions.push(operand);
        } else if dependence(operand) == Dependence::Node {
            others.push(operand);
        } else {
            return None;
        }
    }
    Some((positions, others))
}

fn is_number(expr: &Expr) -> bool {
    expr.static_type(&[]) == ExprType::Number
}

/// The positions that predicates let through.
#[derive(Debug)]
struct PositionPattern {
    from: CountedFrom,
    period: usize,
    /// Of the positions before it begins to repeat, the first and the last of each run.
    first: Box<[(usize, usize)]>,
    /// Of the later ones, the first with each remainder.
    later: Box<[usize]>,
}

impl PositionPattern {
    fn is_everything(&self) -> bool {
        self.first.is_empty() && self.period == 1 && *self.later == [1]
    }
}

/// The tree nodes that a step chooses from, so ordered that what it selects from one node is a few ranges.
#[derive(Debug)]
pub(super) struct AxisList {
    axis: Axis,
    from_first: bool,
    /// In document order; along `preceding`, by the ends of the nodes.
    nodes: Box<[NodeId]>,
    /// The keys by which they are ordered.
    keys: Box<[NodeId]>,
    /// Where positions count back: the last end of the nodes up to each.
    ends: Box<[NodeId]>,
    pattern: PositionPattern,
}

impl AxisList {
    /// Returns the position of a node among the leaves, which are grouped by remainder.
    fn leaf(&self, index: usize) -> usize {
        self.class_start(index % self.pattern.period) + index / self.pattern.period
    }

    fn class_start(&self, class: usize) -> usize {
        let (count, period) = (self.nodes.len(), self.pattern.period);
        class * (count / period) + class.min(count % period)
    }

    /// Returns the leaves of one remainder from one index on, up to another.
    fn leaves(&self, from: usize, to: usize, class: usize) -> Range<usize> {
        let period = self.pattern.period;
        let member = |index: usize| index.saturating_sub(class).div_ceil(period);
        let start = self.class_start(class);
        start + member(from)..start + member(to)
    }

    /// Calls back with the ranges of leaves that the step selects from a tree node. Returns `false` if they are no ranges.
    fn ranges(&self, node: NodeId, end: NodeId, mut each: impl FnMut(Range<usize>)) -> bool {
        let before = |bound: NodeId| self.keys.partition_point(|&key| key < bound);
        let (low, high) = match self.axis {
            Axis::Descendant => (before(node + 1), before(end)),
            Axis::DescendantOrSelf => (before(node), before(end)),
            Axis::Following | Axis::FollowingSibling => (before(end), self.keys.len()),
            // By their ends.
            Axis::Preceding if self.ends.is_empty() => (0, before(node + 1)),
            _ => (0, before(node)),
        };
        let is_around = high.checked_sub(1).and_then(|last| self.ends.get(last)).is_some_and(|&end| end > node);
        if is_around {
            return false;
        }
        let is_reverse = !self.from_first && matches!(self.axis, Axis::Preceding | Axis::PrecedingSibling);
        let counts_back = is_reverse != (self.pattern.from == CountedFrom::Last);
        let (pattern, period) = (&self.pattern, self.pattern.period);
        for &(from, to) in &pattern.first {
            if from > high.saturating_sub(low) {
                break;
            }
            let (start, end) = match counts_back {
                true => (high.saturating_sub(to).max(low), high + 1 - from),
                false => (low + from - 1, high.min(low + to)),
            };
            // Only where all leaves stand together, a run is of more than one.
            let leaf = self.leaf(start);
            each(leaf..leaf + (end - start));
        }
        let index_at = |position: usize| match counts_back {
            true => high.checked_sub(position).filter(|&index| index >= low),
            false => Some(low + position - 1).filter(|&index| index < high),
        };
        for index in pattern.later.iter().map_while(|&position| index_at(position)) {
            let class = index % period;
            let leaves = if counts_back { self.leaves(low, index + 1, class) } else { self.leaves(index, high, class) };
            if !leaves.is_empty() {
                each(leaves);
            }
        }
        true
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.nodes) + size_of_val(&*self.keys) + size_of_val(&*self.ends)
    }

    /// Calls back with the ranges of leaves that the step selects from a tree node, for values that stand at leaves.
    pub(super) fn selects_any(&self, node: NodeId, end: NodeId, mut holds: impl FnMut(Range<usize>) -> bool) -> bool {
        let mut any = false;
        self.ranges(node, end, |range| any = any || holds(range));
        any
    }

    /// Returns whether what the step selects from a tree node is ranges.
    pub(super) fn has_ranges(&self, node: NodeId, end: NodeId) -> bool {
        self.ranges(node, end, |_| {})
    }
}

/// The summaries of ranges of leaves.
struct RangeTree<S>(Box<[S]>);

impl<S: Summary> RangeTree<S> {
    fn of(leaves: &[S]) -> Self {
        let count = leaves.len();
        let mut tree = vec![S::NOTHING; count];
        tree.extend_from_slice(leaves);
        for index in (1..count).rev() {
            tree[index] = tree[2 * index].and(tree[2 * index + 1]);
        }
        Self(tree.into())
    }

    fn range(&self, range: Range<usize>) -> S {
        let count = self.0.len() / 2;
        let (mut from, mut to) = (range.start + count, range.end + count);
        let mut summary = S::NOTHING;
        while from < to {
            if from % 2 == 1 {
                summary = summary.and(self.0[from]);
                from += 1;
            }
            if to % 2 == 1 {
                to -= 1;
                summary = summary.and(self.0[to]);
            }
            from /= 2;
            to /= 2;
        }
        summary
    }
}

/// The summaries of the nodes along an axis, for each context node.
enum SummaryTable<S> {
    Ranges(AxisList, RangeTree<S>),
    /// For each node: the summary of those above it, with itself on `ancestor-or-self`.
    Above {
        axis: Axis,
        summaries: Box<[S]>,
    },
}

impl<S: Summary> SummaryTable<S> {
    fn bytes(&self) -> usize {
        match self {
            Self::Ranges(list, tree) => list.bytes() + size_of_val(&*tree.0),
            Self::Above { summaries, .. } => size_of_val(&**summaries),
        }
    }
}

impl<'a> Evaluator<'a> {
    /// Returns whether the nodes that a source selects from can be listed.
    pub(super) fn has_list(&self, source: SummarySource<'a>) -> bool {
        let is_above = |axis| matches!(axis, Axis::Ancestor | Axis::AncestorOrSelf);
        source.first_axis().is_some_and(|axis| !is_above(axis)) && source.axis_path().is_some()
    }

    /// Returns a value that `make` computes from the list of nodes of a source, cached; `None` without such a list. `make`
    /// returns it with its size in bytes.
    pub(super) fn listed<T: 'static>(
        &self,
        source: SummarySource<'a>,
        id: NodeId,
        question: SummaryQuestion,
        make: impl FnOnce(&AxisPath<'a>, AxisList) -> Result<Option<(T, usize)>, EvalError>,
    ) -> Result<Option<Rc<T>>, EvalError> {
        let Some(below) = source.first_axis().and_then(|axis| self.list_below(axis, id)) else { return Ok(None) };
        self.cached_summary((source, below, question), || match source.axis_path() {
            Some(path) => match self.axis_list(&path, below)? {
                Some(list) => make(&path, list),
                None => Ok(None),
            },
            None => Ok(None),
        })
    }

    /// Returns the cached table of a source, which is made on the first call.
    fn cached_summary<T: 'static>(
        &self,
        (source, below, question): (SummarySource<'a>, NodeId, SummaryQuestion),
        make: impl FnOnce() -> Result<Option<(T, usize)>, EvalError>,
    ) -> Result<Option<Rc<T>>, EvalError> {
        let key = (source.address(), below, question);
        let cached = self.cache.borrow().summary(&key);
        let kept = match cached {
            Some(kept) => kept,
            None if !self.cache.borrow_mut().admit_bytes(0) => None,
            None => {
                let made = self.within_share(make)?.flatten();
                let bytes = made.as_ref().map_or(0, |&(_, bytes)| bytes);
                let table = made.map(|(table, _)| Rc::new(table) as Rc<dyn Any>);
                self.cache.borrow_mut().keep_summary(key, table, bytes)
            }
        };
        Ok(kept.and_then(|kept| kept.downcast::<T>().ok()))
    }

    /// Calls back with each node of a list that satisfies what is asked besides its position, and its leaf.
    pub(super) fn for_each_leaf(
        &self,
        path: &AxisPath<'a>,
        list: &AxisList,
        each: &mut dyn FnMut(NodeId, u32) -> Result<(), EvalError>,
    ) -> Result<(), EvalError> {
        for (index, &node) in list.nodes.iter().enumerate() {
            self.charge(1)?;
            if self.others_hold(path, node)? {
                each(node, list.leaf(index) as u32)?;
            }
        }
        Ok(())
    }

    /// Returns the summary of the nodes of a source, seen from the context node; `None` if no table serves it. `of`
    /// adds a node to a summary.
    pub(super) fn summary_along<S: Summary>(
        &self,
        source: SummarySource<'a>,
        context: Context,
        question: SummaryQuestion,
        of: &mut dyn FnMut(NodeRef, &mut S) -> Result<(), Halt>,
    ) -> Result<Option<S>, EvalError> {
        let NodeRef::Node(id) = context.node else { return Ok(None) };
        if !self.is_worth_tables() {
            return Ok(None);
        }
        let nodes = &self.message.document.nodes;
        let Some(below) = source.first_axis().and_then(|axis| self.list_below(axis, id)) else { return Ok(None) };
        let table = self.cached_summary((source, below, question), || {
            let table: Option<SummaryTable<S>> = self.summary_table(source, below, of)?;
            Ok(table.map(|table| {
                let bytes = table.bytes();
                (table, bytes)
            }))
        })?;
        let Some(table) = table else { return Ok(None) };
        match &*table {
            SummaryTable::Ranges(list, tree) => {
                let (mut summary, mut ranges) = (S::NOTHING, 0);
                let is_known = list.ranges(id, nodes[id as usize].end, |range| {
                    ranges += 1;
                    summary = summary.and(tree.range(range));
                });
                self.charge(RANGES_VISITS + ranges * u64::from(tree.0.len().max(1).ilog2()))?;
                Ok(is_known.then_some(summary))
            }
            SummaryTable::Above { axis, summaries } => {
                self.charge(1)?;
                let from = if *axis == Axis::Ancestor { nodes[id as usize].parent } else { id };
                Ok(Some(summaries.get(from as usize).copied().unwrap_or(S::NOTHING)))
            }
        }
    }

    /// Adds the nodes that a step with positions selects from many context nodes to a list. Returns `false`, without adding
    /// any, if they are not ranges of the list of nodes.
    pub(super) fn select_listed(
        &self,
        hop: &Hop<'a>,
        contexts: &[NodeRef],
        selected: &mut Vec<NodeRef>,
    ) -> Result<bool, EvalError> {
        let source = SummarySource::Step(hop.step, &hop.step.predicates);
        if contexts.len() < CONTEXTS_MIN || hop.from_descendants || !self.has_list(source) {
            return Ok(false);
        }
        let Some(path) = source.axis_path() else { return Ok(false) };
        let mut groups: FxHashMap<NodeId, Vec<NodeId>> = FxHashMap::default();
        for &context in contexts {
            match context {
                NodeRef::Node(id) => match self.list_below(hop.axis, id) {
                    Some(below) => groups.entry(below).or_default().push(id),
                    None => self.select_into(hop, context, selected)?,
                },
                NodeRef::Attribute(_) | NodeRef::Namespace { .. } | NodeRef::Value(_) => {
                    self.select_into(hop, context, selected)?;
                }
            }
        }
        let nodes = &self.message.document.nodes;
        for (below, contexts) in groups {
            let Some(list) = self.axis_list(&path, below)? else {
                for id in contexts {
                    self.select_into(hop, NodeRef::Node(id), selected)?;
                }
                continue;
            };
            let count = list.nodes.len();
            // How many more ranges begin than end at each leaf.
            let mut begun = vec![0_i64; count + 1];
            for id in contexts {
                self.charge(RANGES_VISITS)?;
                let is_known = list.ranges(id, nodes[id as usize].end, |range| {
                    begun[range.start] += 1;
                    begun[range.end] -= 1;
                });
                if !is_known {
                    self.select_into(hop, NodeRef::Node(id), selected)?;
                }
            }
            for leaf in 1..count {
                begun[leaf] += begun[leaf - 1];
            }
            self.for_each_leaf(&path, &list, &mut |node, leaf| {
                if begun[leaf as usize] > 0 {
                    selected.push(NodeRef::Node(node));
                }
                Ok(())
            })?;
        }
        Ok(true)
    }

    /// Returns the node below which siblings are listed, and no node for all other axes; nothing if listing does not pay.
    fn list_below(&self, axis: Axis, id: NodeId) -> Option<NodeId> {
        if !matches!(axis, Axis::FollowingSibling | Axis::PrecedingSibling) {
            return Some(NO_NODE);
        }
        let nodes = &self.message.document.nodes;
        let parent = nodes[id as usize].parent;
        (parent != NO_NODE && nodes[parent as usize].end - parent >= SIBLINGS_MIN).then_some(parent)
    }

    fn summary_table<S: Summary>(
        &self,
        source: SummarySource<'a>,
        below: NodeId,
        of: &mut dyn FnMut(NodeRef, &mut S) -> Result<(), Halt>,
    ) -> Result<Option<SummaryTable<S>>, EvalError> {
        let Some(path) = source.axis_path() else { return Ok(None) };
        if matches!(path.hop.axis, Axis::Ancestor | Axis::AncestorOrSelf) {
            return self.summaries_above(&path, of);
        }
        let Some(list) = self.axis_list(&path, below)? else { return Ok(None) };
        let mut leaves = vec![S::NOTHING; list.nodes.len()];
        self.for_each_leaf(&path, &list, &mut |node, leaf| {
            leaves[leaf as usize] = self.summary_from(&path, node, of)?;
            Ok(())
        })?;
        Ok(Some(SummaryTable::Ranges(list, RangeTree::of(&leaves))))
    }

    /// Returns the summary of the nodes that the rest of a path selects from one node of the list.
    fn summary_from<S: Summary>(
        &self,
        path: &AxisPath<'a>,
        node: NodeId,
        of: &mut dyn FnMut(NodeRef, &mut S) -> Result<(), Halt>,
    ) -> Result<S, EvalError> {
        let mut summary = S::NOTHING;
        self.steps_reach(path.rest, NodeRef::Node(node), &mut |reached| of(reached, &mut summary))?;
        Ok(summary)
    }

    /// Returns whether a node passes the predicates that do not depend on its position.
    fn others_hold(&self, path: &AxisPath<'a>, node: NodeId) -> Result<bool, EvalError> {
        for other in &path.others {
            if !self.condition(other, NodeRef::Node(node))? {
                return Ok(false);
            }
        }
        self.all_hold(path.trailing, NodeRef::Node(node))
    }

    fn summaries_above<S: Summary>(
        &self,
        path: &AxisPath<'a>,
        of: &mut dyn FnMut(NodeRef, &mut S) -> Result<(), Halt>,
    ) -> Result<Option<SummaryTable<S>>, EvalError> {
        if !path.positions.is_empty() {
            return Ok(None);
        }
        let nodes = &self.message.document.nodes;
        self.charge(nodes.len() as u64)?;
        let mut above: Vec<S> = Vec::with_capacity(nodes.len());
        for (id, node) in (0..).zip(nodes) {
            let mut summary = above.get(node.parent as usize).copied().unwrap_or(S::NOTHING);
            if self.node_passes(&path.hop.step.test, id)
                && self.all_hold(path.leading, NodeRef::Node(id))?
                && self.others_hold(path, id)?
            {
                summary = summary.and(self.summary_from(path, id, of)?);
            }
            above.push(summary);
        }
        Ok(Some(SummaryTable::Above { axis: path.hop.axis, summaries: above.into() }))
    }

    /// Lists the nodes that the step along an axis selects from; `None` if it selects too many ranges for a list to be
    /// useful.
    fn axis_list(&self, path: &AxisPath<'a>, below: NodeId) -> Result<Option<AxisList>, EvalError> {
        let all = &self.message.document.nodes;
        let (axis, from) = if below == NO_NODE { (Axis::DescendantOrSelf, 0) } else { (Axis::Child, below) };
        let mut nodes: Vec<NodeId> = Vec::new();
        // The predicates of a filter are not those of the step.
        let of_step = if path.from_first { path.hop.step.predicates.as_slice() } else { &[] };
        was_stopped(self.walk(NodeRef::Node(from), axis, &path.hop.step.test, &mut |node| {
            if self.all_hold(of_step, node)? && self.all_hold(path.leading, node)? {
                nodes.push(node.tree_node(self.message.document));
            }
            Ok(())
        }))?;
        let pattern = self.position_pattern(path, nodes.len())?;
        if pattern.first.len() + pattern.later.len() > RANGES_MAX {
            return Ok(None);
        }
        let end_of = |node: &NodeId| all[*node as usize].end;
        let (mut keys, mut ends) = (Vec::new(), Vec::new());
        if path.hop.axis == Axis::Preceding {
            if pattern.is_everything() {
                self.charge(nodes.len() as u64)?;
                nodes.sort_by_key(end_of);
                keys = nodes.iter().map(end_of).collect();
            } else {
                ends = nodes.iter().map(end_of).collect();
                for index in 1..ends.len() {
                    ends[index] = ends[index].max(ends[index - 1]);
                }
            }
        }
        if keys.is_empty() {
            keys.clone_from(&nodes);
        }
        Ok(Some(AxisList {
            axis: path.hop.axis,
            from_first: path.from_first,
            nodes: nodes.into(),
            keys: keys.into(),
            ends: ends.into(),
            pattern,
        }))
    }

    /// Returns which of so many positions all predicates about positions let through.
    fn position_pattern(&self, path: &AxisPath<'a>, count: usize) -> Result<PositionPattern, EvalError> {
        let Repetition { threshold, period } = path.repetition;
        // If no list is long enough for it to repeat, the positions there are may stand together.
        let (threshold, period) = if count < threshold + period { (count, 1) } else { (threshold, period) };
        let holds = |position: usize| {
            let context = path.from.context(NodeRef::Node(0), position, threshold + period);
            for predicate in &path.positions {
                self.charge(1)?;
                let holds = match path.asks_number {
                    true => self.number(predicate, context)? == f64::from(context.position),
                    false => self.boolean(predicate, context)?,
                };
                if !holds {
                    return Ok::<_, EvalError>(false);
                }
            }
            Ok(true)
        };
        let mut first: Vec<(usize, usize)> = Vec::new();
        for position in 1..=threshold {
            match first.last_mut() {
                _ if !holds(position)? => {}
                Some((_, last)) if period == 1 && *last + 1 == position => *last = position,
                _ => first.push((position, position)),
            }
        }
        let mut later = Vec::new();
        for position in threshold + 1..=threshold + period {
            if holds(position)? {
                later.push(position);
            }
        }
        Ok(PositionPattern { from: path.from, period, first: first.into(), later: later.into() })
    }
}
