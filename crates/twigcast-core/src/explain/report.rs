//! The parts of an explanation.

use crate::util::places::drawing::Drawing;

/// The reasons why a query matches a message, or not.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The query matches.
    pub matches: bool,
    /// The query as an XPath expression, in a form that parses.
    pub condition: String,
    /// The condition decides a match exactly. (That of a For-Where-Return query may only be necessary.)
    pub exact: bool,
    /// The number of nodes that the expression selects; nothing if its value is no node-set.
    pub node_count: Option<usize>,
    /// The first of them.
    pub nodes: Vec<NodeLocation>,
    /// The reasons.
    pub verdict: Verdict,
    /// Names in the query that do not occur in the message, with what comes nearest there.
    pub absent_names: Vec<AbsentName>,
    /// The regions that were asked for, and the places that were compared with them.
    pub maps: Vec<RegionMap>,
}

/// A region and places of the message, as lines of a map.
#[derive(Clone, Debug, PartialEq)]
pub struct RegionMap {
    /// The region as queries write it.
    pub text: String,
    /// The region.
    pub region: Drawing,
    /// The places, each part by itself; the first few.
    pub places: Vec<Drawing>,
}

/// A node, for people.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeLocation {
    /// The path from the root, such as `/feed/entry[2]/@id`, with names as the message writes them.
    pub path: String,
    /// `element`, `attribute`, `text`, ...
    pub kind: &'static str,
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
    /// The string-value, shortened.
    pub value: String,
}

/// The truth of a part of the query, and the reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The part.
    pub text: String,
    /// The part is true.
    pub holds: bool,
    /// The reason.
    pub detail: Detail,
    /// Near misses.
    pub hints: Vec<Hint>,
}

/// Reasons by form of the expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Detail {
    /// All operands have to hold.
    All(Vec<Verdict>),
    /// One operand has to hold.
    Any(Vec<Verdict>),
    /// The operand must not hold.
    Not(Box<Verdict>),
    /// The path has to lead somewhere.
    Path(PathReport),
    /// The operands have to compare.
    Comparison {
        /// `=`, `contains`, ...
        operator: &'static str,
        /// Left operand.
        left: OperandReport,
        /// Right operand.
        right: OperandReport,
    },
    /// Any other expression, with its value.
    Value(String),
    /// No reason, since the explanation is deep enough.
    Omitted,
}

/// An operand and its value here.
#[derive(Clone, Debug, PartialEq)]
pub struct OperandReport {
    /// The operand.
    pub text: String,
    /// `nodes`, `string`, `number`, `boolean`.
    pub kind: &'static str,
    /// The number of values: the number of nodes, else 1.
    pub count: usize,
    /// The first values, with their places if they are nodes.
    pub values: Vec<(String, Option<NodeLocation>)>,
    /// A path that selects nothing: where it ends.
    pub empty: Option<Box<PathReport>>,
}

/// The course of a path, step by step.
#[derive(Clone, Debug, PartialEq)]
pub struct PathReport {
    /// The number of nodes that it selects.
    pub selected: usize,
    /// Its steps, up to the first that selects nothing.
    pub steps: Vec<StepReport>,
}

/// The result of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct StepReport {
    /// The step, with the slashes before it.
    pub text: String,
    /// From how many nodes it is taken.
    pub contexts: usize,
    /// The number of nodes on its axis that pass its node test.
    pub candidates: usize,
    /// The text of each predicate, and the number of nodes that remain after it.
    pub predicates: Vec<(String, usize)>,
    /// The number of nodes that it selects.
    pub selected: usize,
    /// The step leads on: a node that it selects and that leads to the end, and why its predicates hold there.
    /// The step fails: the candidate that comes nearest, and which predicates hold there.
    pub example: Option<Example>,
    /// Near misses.
    pub hints: Vec<Hint>,
}

/// A node, and the predicates of a step there.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    /// The node.
    pub location: NodeLocation,
    /// The predicates.
    pub predicates: Vec<Verdict>,
}

/// A near miss.
#[derive(Clone, Debug, PartialEq)]
pub struct Hint {
    /// Stable identifier.
    pub kind: HintKind,
    /// One sentence.
    pub message: String,
    /// The node concerned.
    pub location: Option<NodeLocation>,
}

/// Kinds of near misses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HintKind {
    /// The name stands there in another namespace.
    Namespace,
    /// The names differ in letter case.
    Case,
    /// The names are spelled similarly.
    Spelling,
    /// The name is an attribute's rather than an element's, or the reverse.
    AttributeOrElement,
    /// The node exists elsewhere in the message.
    Elsewhere,
    /// Another node stands in the position.
    Instead,
    /// Equal but for white space.
    WhiteSpace,
    /// Equal as numbers, not as strings.
    AsNumber,
    /// Compared as a number, but it is none.
    NotANumber,
    /// The string-value of the element would do, but not a single text node of it.
    StringValue,
    /// Contained, not equal.
    Contained,
    /// One predicate short.
    OnePredicate,
    /// Only the first node of a node-set counts in a string function.
    FirstNodeOnly,
    /// `!=` is false where there is nothing to compare.
    Absent,
    /// Fewer nodes than the position asks for.
    Position,
    /// The place is elsewhere, or none can be read.
    Region,
}

impl HintKind {
    /// Returns the stable identifier.
    pub fn name(self) -> &'static str {
        match self {
            Self::Namespace => "namespace",
            Self::Case => "case",
            Self::Spelling => "spelling",
            Self::AttributeOrElement => "attribute-or-element",
            Self::Elsewhere => "elsewhere",
            Self::Instead => "instead",
            Self::WhiteSpace => "white-space",
            Self::AsNumber => "as-number",
            Self::NotANumber => "not-a-number",
            Self::Region => "region",
            Self::StringValue => "string-value",
            Self::Contained => "contained",
            Self::OnePredicate => "one-predicate",
            Self::FirstNodeOnly => "first-node-only",
            Self::Absent => "absent",
            Self::Position => "position",
        }
    }
}

/// A name of the query that the message does not use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbsentName {
    /// The name, as in the query.
    pub name: String,
    /// Its namespace; empty: none.
    pub namespace: String,
    /// The nearest names of the message, one sentence each.
    pub nearest: Vec<(HintKind, String)>,
}

impl Verdict {
    /// Returns how near it is to holding, from 0 to 1.
    pub(super) fn nearness(&self) -> f64 {
        if self.holds {
            return 1.0;
        }
        let hinted = if self.hints.is_empty() { 0.0 } else { 0.5 };
        let inner = match &self.detail {
            Detail::All(operands) => operands.iter().map(Self::nearness).sum::<f64>() / operands.len().max(1) as f64,
            Detail::Any(operands) => operands.iter().map(Self::nearness).fold(0.0, f64::max),
            Detail::Path(path) => path.nearness(),
            Detail::Comparison { left, right, .. } => {
                if left.count > 0 && right.count > 0 {
                    0.3
                } else {
                    0.0
                }
            }
            Detail::Not(_) | Detail::Value(_) | Detail::Omitted => 0.2,
        };
        (inner * 0.9).max(hinted)
    }
}

impl PathReport {
    fn nearness(&self) -> f64 {
        let Some(last) = self.steps.last() else { return 0.0 };
        let hinted = if last.hints.is_empty() { 0.0 } else { 0.4 };
        let by_example = last.example.as_ref().map_or(0.0, |example| {
            let sum: f64 = example.predicates.iter().map(Verdict::nearness).sum();
            0.8 * sum / example.predicates.len().max(1) as f64
        });
        by_example.max(hinted)
    }
}
