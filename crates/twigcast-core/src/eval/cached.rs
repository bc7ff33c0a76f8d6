//! Facts about a message that are found out once, for all the nodes that a query asks them of: the values of a
//! node-set, the nodes that a step selects, the values along an axis, the nodes of a table.

use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use foldhash::fast::RandomState;

use super::node::NodeRef;
use crate::document::{NO_NODE, NodeId};
use crate::ids::AttributeId;
use crate::query::ast::Axis;

/// The distinct string-values of a node-set.
#[derive(Debug, Default)]
pub(super) struct StringValues {
    /// Keyed per process: what messages hold must not decide how far one has to look.
    pub(super) all: HashSet<Box<str>, RandomState>,
    bytes: usize,
    pub(super) longest: usize,
}

impl StringValues {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the size of all values in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a value.
    pub(super) fn insert(&mut self, text: &str) {
        if !self.all.contains(text) {
            self.bytes += text.len();
            self.longest = self.longest.max(text.len());
            self.all.insert(text.into());
        }
    }
}

/// The tree nodes that a step can select, in document order.
#[derive(Debug)]
pub(super) struct StepIndex {
    pub(super) nodes: Box<[NodeId]>,
    /// For `preceding`: which of them is the last before each one and not an ancestor of it, counted from 1; 0: none.
    pub(super) before: Box<[u32]>,
}

impl StepIndex {
    pub(super) fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.nodes) + size_of_val(&*self.before)
    }
}

/// The first element with each `xml:id`. Keyed per process, as [`StringValues`] are.
pub(super) type ElementsById = HashMap<Box<str>, NodeId, RandomState>;

/// The sums of what a path leads to from the first nodes of an index: those before each of them, and of all.
#[derive(Debug)]
pub(super) struct SumsBefore {
    sums: Vec<f64>,
    /// How many of the values are no numbers.
    others: Vec<u32>,
}

impl SumsBefore {
    pub(super) fn with_capacity(nodes: usize) -> Self {
        Self { sums: Vec::with_capacity(nodes + 1), others: Vec::with_capacity(nodes + 1) }
    }

    pub(super) fn push(&mut self, sum: f64, others: u32) {
        self.sums.push(sum);
        self.others.push(others);
    }

    /// Returns the sum of the numbers in a range of the nodes, and the number of other values.
    pub(super) fn between(&self, range: std::ops::Range<usize>) -> (f64, u32) {
        (self.sums[range.end] - self.sums[range.start], self.others[range.end] - self.others[range.start])
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.sums) + size_of_val(&*self.others)
    }
}

/// The values that a path leads to, and from where.
#[derive(Debug)]
pub(super) struct Join {
    pub(super) axis: Axis,
    pub(super) numbers: HashMap<Box<str>, u32, RandomState>,
    /// Bytes of the longest value.
    pub(super) longest: usize,
    /// Number of a value, parent (of siblings), and where a node starts from which the value is reached; ascending.
    pub(super) starts: Box<[(u32, NodeId, NodeId)]>,
    /// Number of a value, and where such a node ends; ascending.
    pub(super) ends: Box<[(u32, NodeId)]>,
}

/// The bytes that an entry takes of both lists, and those that a value takes.
pub(super) const JOIN_ENTRY_BYTES: usize = size_of::<(u32, NodeId, NodeId)>() + size_of::<(u32, NodeId)>();
pub(super) const JOIN_VALUE_BYTES: usize = size_of::<(Box<str>, u32)>() + 16;

impl Join {
    /// Returns about how many bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        let texts: usize = self.numbers.keys().map(|value| value.len() + JOIN_VALUE_BYTES).sum();
        texts + self.starts.len() * JOIN_ENTRY_BYTES
    }

    /// Returns the length of the longest value in bytes.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// Returns whether a value occurs along the axis of a tree node with this start, end and parent.
    pub(super) fn occurs(&self, value: &str, start: NodeId, end: NodeId, parent: NodeId) -> bool {
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

/// The nodes that the numbers of a table stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum TableDomain {
    /// Tree nodes.
    Tree,
    /// Attributes.
    Attributes,
}

/// The question about an expression that a table answers; the expression is identified by its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum TableQuestion {
    /// The existence of a node that it selects.
    Existence(*const ()),
    /// The existence of a node that it selects and that compares as the expression asks.
    Comparison(*const ()),
}

impl TableDomain {
    /// Returns the node that a number of a table stands for.
    pub(super) fn node(self, number: u32) -> NodeRef {
        match self {
            Self::Tree => NodeRef::Node(number),
            Self::Attributes => NodeRef::Attribute(AttributeId::from_u32(number)),
        }
    }
}

/// The kind of a summary, and the address of an expression that it depends on besides the path.
pub(super) type SummaryQuestion = (&'static str, *const ());

/// A table of any kind; nothing if there is not to be one.
pub(super) type KeptTable = Option<Rc<dyn Any>>;

/// The choice of what has to be equal in a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum JoinedBy {
    /// The values.
    Text,
    /// The numbers that they are, as texts.
    Number,
}
