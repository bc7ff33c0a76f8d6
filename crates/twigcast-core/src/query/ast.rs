//! The query algebra: XPath 1.0 expressions over interned names.
//!
//! The parser resolves prefixes and interns names, so that evaluating a name test is comparing integers. Abbreviations
//! are gone: `//a` is `descendant-or-self::node()/child::a`, `@a` is `attribute::a`, `.` is `self::node()`, `[2]` is
//! `[position() = 2]`. The normaliser (`normal.rs`) may then fuse steps.

use super::functions::ExprType;
use crate::vocabulary::{LocalId, Name, NamespaceId};

pub use super::functions::Function;
pub use crate::ids::VariableId;

/// An XPath 1.0 expression (W3C Recommendation of 16 November 1999, section 3).
#[derive(Clone, Debug, PartialEq)]
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
    /// A location path or a filter expression.
    Path(Path),
    /// A number.
    Number(f64),
    /// A string.
    Literal(Box<str>),
    /// A call of a core function.
    Call {
        /// Which.
        function: Function,
        /// The arguments, as many as the function takes; the parser has checked that.
        arguments: Vec<Expr>,
    },
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
            Self::Negate(operand) => (std::slice::from_ref(operand), &[]),
            Self::Path(Path { start: PathStart::Filter { primary, .. }, .. }) => (std::slice::from_ref(primary), &[]),
            Self::Path(_) | Self::Number(_) | Self::Literal(_) => (&[], &[]),
        };
        first.iter().chain(second)
    }

    /// Returns the predicates of a path: first those of a filter, then those of the steps.
    pub fn predicates(&self) -> impl Iterator<Item = &Self> {
        let (filter, steps): (&[Self], &[Step]) = match self {
            Self::Path(Path { start: PathStart::Filter { predicates, .. }, steps }) => (predicates, steps),
            Self::Path(path) => (&[], &path.steps),
            _ => (&[], &[]),
        };
        filter.iter().chain(steps.iter().flat_map(|step| &step.predicates))
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
            Self::Arithmetic { .. } | Self::Negate(_) | Self::Number(_) => ExprType::Number,
            Self::Union(_) => ExprType::NodeSet,
            Self::Literal(_) => ExprType::String,
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

/// Arithmetic operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ArithmeticOp {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}
