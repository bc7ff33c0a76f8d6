//! Summaries of what lies along an axis, made for all context nodes at once.
//!
//! A condition such as `@x > following-sibling::a/@x` asks each of many nodes for the least value of what follows it, and
//! `following::a[position() mod 3 = 1]/@q` for every third node from there on. The nodes that the step can select are listed
//! once, and what the rest of the path leads to from each is summarised. What the step selects from one node is a range of the
//! list, or with such positions a range of each class of positions that have the same remainder; a tree over the list has the
//! summaries of ranges (the "segment tree" of Bentley 1977). Along `ancestor`, each node takes over what its parent has.

use std::any::Any;
use std::ops::Range;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::document::{NO_NODE, NodeId};
use crate::query::ast::{Axis, Expr, Path, PathStart, Step};
use crate::query::functions::{Dependence, ExprType};
use crate::query::position::{dependence, predicate_dependence};

use super::cached::AlongQuestion;
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

/// From fewer context nodes a step is taken one by one.
const CONTEXTS_MIN: usize = if cfg!(test) { 2 } else { 16 };

/// Smaller surroundings are gone through faster than looked up.
const SIBLINGS_MIN: u32 = if cfg!(test) { 2 } else { 16 };

/// A summary of some nodes. That of two sets of nodes together follows from theirs, in any order.
pub(super) trait Summary: Copy + 'static {
    const NOTHING: Self;

    fn and(self, other: Self) -> Self;
}

/// The part of a path that leads along an axis, and what it does there.
pub(super) struct AlongPath<'a> {
    hop: Hop<'a>,
    /// Predicates before the one about positions.
    leading: &'a [Expr],
    /// The predicate about positions: the operands of a conjunction that depend on positions alone, and all others.
    positions: Vec<&'a Expr>,
    others: Vec<&'a Expr>,
    /// What is asked of the position is a number that it has to be.
    asks_number: bool,
    /// The end from which those about positions count, and how they repeat from there.
    from: CountedFrom,
    repetition: Repetition,
    /// Predicates after it.
    trailing: &'a [Expr],
    /// Positions count in document order, whatever the axis.
    from_first: bool,
    /// The steps that follow.
    pub(super) rest: &'a [Step],
}

/// Something that leads along an axis.
#[derive(Clone, Copy)]
pub(super) enum AlongSource<'a> {
    /// A path.
    Path(&'a Path),
    /// A step, with the first of its predicates.
    Step(&'a Step, &'a [Expr]),
}

impl<'a> AlongSource<'a> {
    /// Returns the address by which it is known.
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

    /// Returns how it leads along its axis; `None` if it does not, or if its predicates are of other kinds.
    fn along(self) -> Option<AlongPath<'a>> {
        match self {
            Self::Path(path) => AlongPath::of(path),
            Self::Step(step, predicates) => {
                let (hop, _) = Hop::first(std::slice::from_ref(step))?;
                AlongPath::with(hop, predicates, &[], false)
            }
        }
    }
}

impl<'a> AlongPath<'a> {
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

    /// Returns how a step with some predicates leads along its axis, and other steps from there.
    fn with(hop: Hop<'a>, own: &'a [Expr], rest: &'a [Step], from_first: bool) -> Option<Self> {
        let leads_along = matches!(
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
        if !leads_along || hop.from_descendants {
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
        // A number is compared with the position. Of those that are one position, other tables know.
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
    /// In document order; where all that precede a node are selected, by their ends.
    nodes: Box<[NodeId]>,
    /// What they are ordered by.
    keys: Box<[NodeId]>,
    /// Where positions count back: the last end of the nodes up to each.
    ends: Box<[NodeId]>,
    pattern: PositionPattern,
}

impl AxisList {
    /// Returns where in the list of leaves a node is: those of one remainder stand together.
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

/// What lies along an axis of each node.
enum AlongTable<S> {
    Ranges(AxisList, RangeTree<S>),
    /// Of those above each node, or of itself as well.
    Above {
        axis: Axis,
        summaries: Box<[S]>,
    },
}

impl<S: Summary> AlongTable<S> {
    fn bytes(&self) -> usize {
        match self {
            Self::Ranges(list, tree) => list.bytes() + size_of_val(&*tree.0),
            Self::Above { summaries, .. } => size_of_val(&**summaries),
        }
    }
}

impl<'a> Evaluator<'a> {
    /// Returns whether something leads along an axis, so that what it chooses from can be listed.
    pub(super) fn has_list(&self, source: AlongSource<'a>) -> bool {
        let is_above = |axis| matches!(axis, Axis::Ancestor | Axis::AncestorOrSelf);
        source.first_axis().is_some_and(|axis| !is_above(axis)) && source.along().is_some()
    }

    /// Returns what is made of the list of all that something chooses from along an axis of a tree node, made once; nothing if it
    /// cannot be had. `make` returns it with its size in bytes.
    pub(super) fn listed<T: 'static>(
        &self,
        source: AlongSource<'a>,
        id: NodeId,
        question: AlongQuestion,
        make: impl FnOnce(&AlongPath<'a>, AxisList) -> Result<Option<(T, usize)>, EvalError>,
    ) -> Result<Option<Rc<T>>, EvalError> {
        let Some(below) = source.first_axis().and_then(|axis| self.list_below(axis, id)) else { return Ok(None) };
        self.kept_along((source, below, question), || match source.along() {
            Some(along) => match self.axis_list(&along, below)? {
                Some(list) => make(&along, list),
                None => Ok(None),
            },
            None => Ok(None),
        })
    }

    /// Returns what is kept of something along an axis, made now if it was not asked for yet.
    fn kept_along<T: 'static>(
        &self,
        (source, below, question): (AlongSource<'a>, NodeId, AlongQuestion),
        make: impl FnOnce() -> Result<Option<(T, usize)>, EvalError>,
    ) -> Result<Option<Rc<T>>, EvalError> {
        let key = (source.address(), below, question);
        let cached = self.cache.borrow().along(&key);
        let kept = match cached {
            Some(kept) => kept,
            None if !self.cache.borrow_mut().admit_bytes(0) => None,
            None => {
                let made = self.within_share(make)?.flatten();
                let bytes = made.as_ref().map_or(0, |&(_, bytes)| bytes);
                let table = made.map(|(table, _)| Rc::new(table) as Rc<dyn Any>);
                self.cache.borrow_mut().keep_along(key, table, bytes)
            }
        };
        Ok(kept.and_then(|kept| kept.downcast::<T>().ok()))
    }

    /// Calls back with each node of a list that satisfies what is asked besides its position, and its leaf.
    pub(super) fn for_each_leaf(
        &self,
        along: &AlongPath<'a>,
        list: &AxisList,
        each: &mut dyn FnMut(NodeId, u32) -> Result<(), EvalError>,
    ) -> Result<(), EvalError> {
        for (index, &node) in list.nodes.iter().enumerate() {
            self.charge(1)?;
            if self.others_hold(along, node)? {
                each(node, list.leaf(index) as u32)?;
            }
        }
        Ok(())
    }

    /// Returns the summary of what is along an axis of the context node; nothing if there is none. `of` adds a
    /// node that it leads to.
    pub(super) fn summary_along<S: Summary>(
        &self,
        source: AlongSource<'a>,
        context: Context,
        question: AlongQuestion,
        of: &mut dyn FnMut(NodeRef, &mut S) -> Result<(), Halt>,
    ) -> Result<Option<S>, EvalError> {
        let NodeRef::Node(id) = context.node else { return Ok(None) };
        if !self.is_worth_tables() {
            return Ok(None);
        }
        let nodes = &self.message.document.nodes;
        let Some(below) = source.first_axis().and_then(|axis| self.list_below(axis, id)) else { return Ok(None) };
        let table = self.kept_along((source, below, question), || {
            let table: Option<AlongTable<S>> = self.along_table(source, below, of)?;
            Ok(table.map(|table| {
                let bytes = table.bytes();
                (table, bytes)
            }))
        })?;
        let Some(table) = table else { return Ok(None) };
        match &*table {
            AlongTable::Ranges(list, tree) => {
                let (mut summary, mut ranges) = (S::NOTHING, 0);
                let is_known = list.ranges(id, nodes[id as usize].end, |range| {
                    ranges += 1;
                    summary = summary.and(tree.range(range));
                });
                self.charge(RANGES_VISITS + ranges * u64::from(tree.0.len().max(1).ilog2()))?;
                Ok(is_known.then_some(summary))
            }
            AlongTable::Above { axis, summaries } => {
                self.charge(1)?;
                let from = if *axis == Axis::Ancestor { nodes[id as usize].parent } else { id };
                Ok(Some(summaries.get(from as usize).copied().unwrap_or(S::NOTHING)))
            }
        }
    }

    /// Adds what a step with positions selects from many context nodes to a list; returns `false` and adds nothing if what it
    /// selects from each is no ranges.
    pub(super) fn select_listed(
        &self,
        hop: &Hop<'a>,
        contexts: &[NodeRef],
        selected: &mut Vec<NodeRef>,
    ) -> Result<bool, EvalError> {
        let source = AlongSource::Step(hop.step, &hop.step.predicates);
        if contexts.len() < CONTEXTS_MIN || hop.from_descendants || !self.has_list(source) {
            return Ok(false);
        }
        let Some(along) = source.along() else { return Ok(false) };
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
            let Some(list) = self.axis_list(&along, below)? else {
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
            self.for_each_leaf(&along, &list, &mut |node, leaf| {
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

    fn along_table<S: Summary>(
        &self,
        source: AlongSource<'a>,
        below: NodeId,
        of: &mut dyn FnMut(NodeRef, &mut S) -> Result<(), Halt>,
    ) -> Result<Option<AlongTable<S>>, EvalError> {
        let Some(along) = source.along() else { return Ok(None) };
        if matches!(along.hop.axis, Axis::Ancestor | Axis::AncestorOrSelf) {
            return self.summaries_above(&along, of);
        }
        let Some(list) = self.axis_list(&along, below)? else { return Ok(None) };
        let mut leaves = vec![S::NOTHING; list.nodes.len()];
        self.for_each_leaf(&along, &list, &mut |node, leaf| {
            leaves[leaf as usize] = self.summary_from(&along, node, of)?;
            Ok(())
        })?;
        Ok(Some(AlongTable::Ranges(list, RangeTree::of(&leaves))))
    }

    /// Returns the summary of what the rest of a path leads to from a node that the step along the axis chooses from.
    fn summary_from<S: Summary>(
        &self,
        along: &AlongPath<'a>,
        node: NodeId,
        of: &mut dyn FnMut(NodeRef, &mut S) -> Result<(), Halt>,
    ) -> Result<S, EvalError> {
        let mut summary = S::NOTHING;
        self.steps_reach(along.rest, NodeRef::Node(node), &mut |reached| of(reached, &mut summary))?;
        Ok(summary)
    }

    /// Returns whether what is asked of a node besides its position holds.
    fn others_hold(&self, along: &AlongPath<'a>, node: NodeId) -> Result<bool, EvalError> {
        for other in &along.others {
            if !self.condition(other, NodeRef::Node(node))? {
                return Ok(false);
            }
        }
        self.all_hold(along.trailing, NodeRef::Node(node))
    }

    fn summaries_above<S: Summary>(
        &self,
        along: &AlongPath<'a>,
        of: &mut dyn FnMut(NodeRef, &mut S) -> Result<(), Halt>,
    ) -> Result<Option<AlongTable<S>>, EvalError> {
        if !along.positions.is_empty() {
            return Ok(None);
        }
        let nodes = &self.message.document.nodes;
        self.charge(nodes.len() as u64)?;
        let mut above: Vec<S> = Vec::with_capacity(nodes.len());
        for (id, node) in (0..).zip(nodes) {
            let mut summary = above.get(node.parent as usize).copied().unwrap_or(S::NOTHING);
            if self.node_passes(&along.hop.step.test, id)
                && self.all_hold(along.leading, NodeRef::Node(id))?
                && self.others_hold(along, id)?
            {
                summary = summary.and(self.summary_from(along, id, of)?);
            }
            above.push(summary);
        }
        Ok(Some(AlongTable::Above { axis: along.hop.axis, summaries: above.into() }))
    }

    /// Lists what the step along an axis chooses from; nothing if it chooses so many parts of it that a list is of no use.
    fn axis_list(&self, along: &AlongPath<'a>, below: NodeId) -> Result<Option<AxisList>, EvalError> {
        let all = &self.message.document.nodes;
        let (axis, from) = if below == NO_NODE { (Axis::DescendantOrSelf, 0) } else { (Axis::Child, below) };
        let mut nodes: Vec<NodeId> = Vec::new();
        // The predicates of a filter are not those of the step.
        let of_step = if along.from_first { along.hop.step.predicates.as_slice() } else { &[] };
        was_stopped(self.walk(NodeRef::Node(from), axis, &along.hop.step.test, &mut |node| {
            if self.all_hold(of_step, node)? && self.all_hold(along.leading, node)? {
                nodes.push(node.tree_node(self.message.document));
            }
            Ok(())
        }))?;
        let pattern = self.position_pattern(along, nodes.len())?;
        if pattern.first.len() + pattern.later.len() > RANGES_MAX {
            return Ok(None);
        }
        let end_of = |node: &NodeId| all[*node as usize].end;
        let (mut keys, mut ends) = (Vec::new(), Vec::new());
        if along.hop.axis == Axis::Preceding {
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
            axis: along.hop.axis,
            from_first: along.from_first,
            nodes: nodes.into(),
            keys: keys.into(),
            ends: ends.into(),
            pattern,
        }))
    }

    /// Returns which of so many positions all predicates about positions let through.
    fn position_pattern(&self, along: &AlongPath<'a>, count: usize) -> Result<PositionPattern, EvalError> {
        let Repetition { threshold, period } = along.repetition;
        // If no list is long enough for it to repeat, the positions there are may stand together.
        let (threshold, period) = if count < threshold + period { (count, 1) } else { (threshold, period) };
        let holds = |position: usize| {
            let context = along.from.context(NodeRef::Node(0), position, threshold + period);
            for predicate in &along.positions {
                self.charge(1)?;
                let holds = match along.asks_number {
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
        Ok(PositionPattern { from: along.from, period, first: first.into(), later: later.into() })
    }
}
