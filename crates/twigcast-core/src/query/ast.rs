//! The query algebra: XPath 1.0 expressions over interned names.
//!
//! The parser resolves prefixes and interns names, so that evaluating a name test is comparing integers. Abbreviations
//! are gone: `//a` is `descendant-or-self::node()/child::a`, `@a` is `attribute::a`, `.` is `self::node()`, `[2]` is
//! `[position() = 2]`. The normaliser (`normal.rs`) may then fuse steps.

use std::sync::Arc;

use super::functions::ExprType;
use super::pattern::Pattern;
use super::values::TypedConstant;
use crate::util::number::constant_bits;
use crate::util::places::Region;
use crate::util::temporal::TemporalType;
use crate::util::words::TextSelection;
use crate::vocabulary::{LocalId, Name, NamespaceId};

pub use super::functions::Function;
pub use crate::ids::VariableId;

/// An XPath 1.0 expression (W3C Recommendation of 16 November 1999, section 3).
#[derive(Clone, Debug)]
pub enum Expr {
    /// `a or b or ...` (two or more).
    Or(Vec<Expr>),
    /// `a and b and ...` (two or more).
    And(Vec<Expr>),
    /// `a = b` and the like.
    Compare {
        /// The operator.
        op: CompareOp,
        /// Left operand.
        left: Box<Expr>,
        /// Right operand.
        right: Box<Expr>,
    },
    /// `a + b` and the like.
    Arithmetic {
        /// The operator.
        op: ArithmeticOp,
        /// Left operand.
        left: Box<Expr>,
        /// Right operand.
        right: Box<Expr>,
    },
    /// `-a`.
    Negate(Box<Expr>),
    /// `a | b | ...` (two or more, each a node-set).
    Union(Vec<Expr>),
    /// `a ! b` (XPath 3.1): a value for each node, evaluated there.
    Map {
        /// The nodes, or other items.
        nodes: Box<Expr>,
        /// The number or string that is evaluated at each.
        value: Box<Expr>,
    },
    /// A location path or a filter expression.
    Path(Path),
    /// A number.
    Number(f64),
    /// A string.
    Literal(Box<str>),
    /// The pattern of `matches()`.
    Pattern(Arc<Pattern>),
    /// The selection of `twig:full-text()`.
    Selection(Arc<TextSelection>),
    /// The region of `geo:intersects()` and its like.
    Region(Arc<Region>),
    /// A constant of a type of XML Schema.
    Typed(TypedConstant),
    /// A call of a core function.
    Call {
        /// Which.
        function: Function,
        /// The arguments, as many as the function takes; the parser has checked that.
        arguments: Vec<Expr>,
    },
}

/// Expressions are equal if they mean the same by what they are made of; 0 and -0 are different numbers.
impl PartialEq for Expr {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Or(ours), Self::Or(theirs))
            | (Self::And(ours), Self::And(theirs))
            | (Self::Union(ours), Self::Union(theirs)) => ours == theirs,
            (
                Self::Compare { op, left, right },
                Self::Compare { op: their_op, left: their_left, right: their_right },
            ) => (op, left, right) == (their_op, their_left, their_right),
            (
                Self::Arithmetic { op, left, right },
                Self::Arithmetic { op: their_op, left: their_left, right: their_right },
            ) => (op, left, right) == (their_op, their_left, their_right),
            (Self::Negate(ours), Self::Negate(theirs)) => ours == theirs,
            (Self::Map { nodes, value }, Self::Map { nodes: their_nodes, value: their_value }) => {
                (nodes, value) == (their_nodes, their_value)
            }
            (Self::Path(ours), Self::Path(theirs)) => ours == theirs,
            (Self::Number(ours), Self::Number(theirs)) => constant_bits(*ours) == constant_bits(*theirs),
            (Self::Literal(ours), Self::Literal(theirs)) => ours == theirs,
            (Self::Pattern(ours), Self::Pattern(theirs)) => ours == theirs,
            (Self::Selection(ours), Self::Selection(theirs)) => ours == theirs,
            (Self::Typed(ours), Self::Typed(theirs)) => ours == theirs,
            (
                Self::Call { function, arguments },
                Self::Call { function: their_function, arguments: their_arguments },
            ) => (function, arguments) == (their_function, their_arguments),
            _ => false,
        }
    }
}

impl Expr {
    /// Returns the expressions that this one is made of and that are evaluated in the same context: operands, arguments,
    /// the primary expression of a filter. Predicates are not among them, since each has a context of its own.
    pub fn operands(&self) -> impl Iterator<Item = &Self> {
        let (first, second): (&[Self], &[Self]) = match self {
            Self::Or(operands) | Self::And(operands) | Self::Union(operands) => (operands, &[]),
            Self::Call { arguments, .. } => (arguments, &[]),
            Self::Compare { left, right, .. } | Self::Arithmetic { left, right, .. } => {
                (std::slice::from_ref(left), std::slice::from_ref(right))
            }
            Self::Negate(operand) | Self::Map { nodes: operand, .. } => (std::slice::from_ref(operand), &[]),
            Self::Path(Path { start: PathStart::Filter { primary, .. }, .. }) => (std::slice::from_ref(primary), &[]),
            Self::Path(_)
            | Self::Number(_)
            | Self::Literal(_)
            | Self::Pattern(_)
            | Self::Selection(_)
            | Self::Region(_)
            | Self::Typed(_) => (&[], &[]),
        };
        first.iter().chain(second)
    }

    /// Returns `true` for a literal, a number or another constant.
    pub fn is_constant(&self) -> bool {
        matches!(self, Self::Literal(_) | Self::Number(_) | Self::Typed(_))
    }

    /// Returns what a comparison with a constant compares, the operator, and the constant, which may stand on either side:
    /// for `5 < @a` these are `@a`, `>` and `5`. `None` for any other expression.
    pub fn compared_with_constant(&self) -> Option<(&Self, CompareOp, &Self)> {
        let Self::Compare { op, left, right } = self else { return None };
        if right.is_constant() {
            Some((left, *op, right))
        } else {
            left.is_constant().then(|| (&**right, op.flipped(), &**left))
        }
    }

    /// Returns the path of which an expression asks whether it leads to a node, and what such a node must compare with: `P`,
    /// `boolean(P)`, `count(P) > 0`, `P op c`. `None` for any other expression.
    pub fn asked_path(&self) -> Option<(&Path, Option<(CompareOp, &Self)>)> {
        match self {
            Self::Path(path) => Some((path, None)),
            Self::Call { function: Function::Boolean, arguments } => arguments[0].asked_path(),
            Self::Compare { .. } => match self.compared_with_constant()? {
                (Self::Path(path), op, constant) => Some((path, Some((op, constant)))),
                (Self::Call { function: Function::Count, arguments }, op, Self::Number(bound)) => {
                    let at_least_one = matches!(
                        (op, *bound),
                        (CompareOp::Greater | CompareOp::NotEqual, 0.0) | (CompareOp::GreaterOrEqual, 1.0)
                    );
                    if at_least_one { arguments[0].asked_path() } else { None }
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the predicates of a path: first those of a filter, then those of the steps. What a map evaluates at each node has
    /// a context of its own too, and counts as one.
    pub fn predicates(&self) -> impl Iterator<Item = &Self> {
        let (filter, steps): (&[Self], &[Step]) = match self {
            Self::Path(Path { start: PathStart::Filter { predicates, .. }, steps }) => (predicates, steps),
            Self::Path(path) => (&[], &path.steps),
            Self::Map { value, .. } => (std::slice::from_ref(value), &[]),
            _ => (&[], &[]),
        };
        filter.iter().chain(steps.iter().flat_map(|step| &step.predicates))
    }

    /// Returns whether the items are values rather than nodes: those of `tokenize()`, `distinct-values()` and `!`. Of a
    /// variable that is not known.
    pub fn gives_values(&self) -> bool {
        match self {
            Self::Map { value, .. } => value.static_type(&[]) != ExprType::NodeSet || value.gives_values(),
            Self::Call { function, .. } => function.facts().gives_values,
            Self::Path(Path { start: PathStart::Filter { primary, .. }, steps }) if steps.is_empty() => {
                primary.gives_values()
            }
            _ => false,
        }
    }

    /// Returns the static type. `variable_types` gives the types of the variables by number; one that it does not list
    /// is a node-set.
    pub fn static_type(&self, variable_types: &[ExprType]) -> ExprType {
        self.type_by(&|variable| variable_types.get(variable.index()).copied().unwrap_or(ExprType::NodeSet))
    }

    /// Returns the type, if `variable_type` gives those of variables.
    pub fn type_by(&self, variable_type: &impl Fn(VariableId) -> ExprType) -> ExprType {
        match self {
            Self::Or(_) | Self::And(_) | Self::Compare { .. } => ExprType::Boolean,
            Self::Arithmetic { op, left, .. } => match op {
                ArithmeticOp::AddDuration
                | ArithmeticOp::SubtractDuration
                | ArithmeticOp::MultiplyDuration
                | ArithmeticOp::DivideDuration => left.type_by(variable_type),
                ArithmeticOp::Between => ExprType::Temporal(TemporalType::DayTimeDuration),
                _ => ExprType::Number,
            },
            Self::Negate(_) | Self::Number(_) => ExprType::Number,
            Self::Typed(constant) => constant.static_type(),
            Self::Union(_) | Self::Map { .. } => ExprType::NodeSet,
            Self::Literal(_) | Self::Pattern(_) | Self::Selection(_) | Self::Region(_) => ExprType::String,
            Self::Call { function, .. } => function.result_type(),
            Self::Path(path) => match &path.start {
                PathStart::Variable(id) if path.steps.is_empty() => variable_type(*id),
                // Without steps or predicates the parentheses mean nothing.
                PathStart::Filter { primary, predicates } if path.steps.is_empty() && predicates.is_empty() => {
                    primary.type_by(variable_type)
                }
                _ => ExprType::NodeSet,
            },
        }
    }
}

/// A location path: where it starts, and its steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// The start of the path.
    pub start: PathStart,
    /// The steps, outermost first; may be empty (`/`, `$v`, a bare filter expression).
    pub steps: Vec<Step>,
}

/// The start of a location path.
#[derive(Clone, Debug, PartialEq)]
pub enum PathStart {
    /// `/...`: the document node.
    Root,
    /// The context node.
    Context,
    /// A For-Where-Return variable.
    Variable(VariableId),
    /// `(expr)[predicate]...`: a filter expression.
    Filter {
        /// The primary expression.
        primary: Box<Expr>,
        /// Its predicates; positions count in document order.
        predicates: Vec<Expr>,
    },
}

/// One step of a location path.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The axis.
    pub axis: Axis,
    /// The node test.
    pub test: NodeTest,
    /// The predicates, in order.
    pub predicates: Vec<Expr>,
}

/// One step of a linear path, which the automaton runs: a child or descendant step with a name test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinearStep {
    /// `//` in front of the test rather than `/`.
    pub descendant: bool,
    /// The name test.
    pub test: NameTest,
}

/// The axes of XPath 1.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Axis {
    Child,
    Descendant,
    DescendantOrSelf,
    SelfAxis,
    Attribute,
    Parent,
    Ancestor,
    AncestorOrSelf,
    Following,
    FollowingSibling,
    Preceding,
    PrecedingSibling,
    Namespace,
}

impl Axis {
    /// All axes in order, each with the name that queries write before `::`.
    pub const ALL: [(Self, &'static str); 13] = [
        (Self::Child, "child"),
        (Self::Descendant, "descendant"),
        (Self::DescendantOrSelf, "descendant-or-self"),
        (Self::SelfAxis, "self"),
        (Self::Attribute, "attribute"),
        (Self::Parent, "parent"),
        (Self::Ancestor, "ancestor"),
        (Self::AncestorOrSelf, "ancestor-or-self"),
        (Self::Following, "following"),
        (Self::FollowingSibling, "following-sibling"),
        (Self::Preceding, "preceding"),
        (Self::PrecedingSibling, "preceding-sibling"),
        (Self::Namespace, "namespace"),
    ];

    /// Returns the name that queries write before `::`.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// Returns the axis of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, other)| *other == name).map(|(axis, _)| *axis)
    }
}

/// The node test of a step.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NodeTest {
    /// A node of the axis' principal type with a matching name.
    Name(NameTest),
    /// `node()`.
    Node,
    /// `text()`.
    Text,
    /// `comment()`.
    Comment,
    /// `processing-instruction()`, with a target or without.
    ProcessingInstruction(Option<Box<str>>),
}

/// A name test, resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NameTest {
    /// `*`.
    Any,
    /// `name`, `prefix:name`.
    Name(Name),
    /// `prefix:*`.
    Namespace(NamespaceId),
    /// `*:name` (Twigcast's convenience).
    Local(LocalId),
}

impl NameTest {
    /// Returns `true` if an expanded name passes.
    #[inline]
    pub fn accepts(self, name: Name) -> bool {
        match self {
            Self::Any => true,
            Self::Name(expected) => expected == name,
            Self::Namespace(namespace) => namespace == name.namespace,
            Self::Local(local) => local == name.local,
        }
    }
}

/// Comparison operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum CompareOp {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl CompareOp {
    /// Returns the operator with its operands exchanged.
    pub fn flipped(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
            Self::Equal | Self::NotEqual => self,
        }
    }

    /// Returns `true` for `=` and `!=`.
    pub(crate) fn is_equality(self) -> bool {
        matches!(self, Self::Equal | Self::NotEqual)
    }

    /// Returns the operator as queries write it.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }

    /// Returns `true` if the comparison holds between two numbers.
    pub fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Self::Equal => left == right,
            Self::NotEqual => left != right,
            Self::Less => left < right,
            Self::LessOrEqual => left <= right,
            Self::Greater => left > right,
            Self::GreaterOrEqual => left >= right,
        }
    }
}

/// Arithmetic operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ArithmeticOp {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    /// A date, a time or a duration and a duration.
    AddDuration,
    SubtractDuration,
    /// The time between two dates or times.
    Between,
    /// A duration so many times.
    MultiplyDuration,
    DivideDuration,
    /// The number of times that one duration is in another.
    DivideDurations,
}

impl ArithmeticOp {
    /// Returns the operator as queries write it.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Add | Self::AddDuration => "+",
            Self::Subtract | Self::SubtractDuration | Self::Between => "-",
            Self::Multiply | Self::MultiplyDuration => "*",
            Self::Divide | Self::DivideDuration | Self::DivideDurations => "div",
            Self::Modulo => "mod",
        }
    }
}
