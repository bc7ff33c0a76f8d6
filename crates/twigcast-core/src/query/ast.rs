//! The query algebra: XPath 1.0 expressions over interned names.
//!
//! The parser resolves prefixes and interns names, so that evaluating a name test is comparing integers. Abbreviations
//! are gone: `//a` is `descendant-or-self::node()/child::a`, `@a` is `attribute::a`, `.` is `self::node()`, `[2]` is
//! `[position() = 2]`. The normaliser (`normal.rs`) may then fuse steps.

pub use crate::ids::VariableId;
use crate::vocabulary::{LocalId, Name, NamespaceId};

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
        /// As many as the function takes; the parser checked that.
        arguments: Vec<Expr>,
    },
}

/// A location path: where it starts, and its steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// Where it starts.
    pub start: PathStart,
    /// The steps, outermost first; may be empty (`/`, `$v`, a bare filter expression).
    pub steps: Vec<Step>,
}

/// Where a location path starts.
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

/// What a step's node must be.
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
    /// Does an expanded name pass?
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

/// The core function library of XPath 1.0 (section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Function {
    Last,
    Position,
    Count,
    Id,
    LocalName,
    NamespaceUri,
    Name,
    String,
    Concat,
    StartsWith,
    Contains,
    SubstringBefore,
    SubstringAfter,
    Substring,
    StringLength,
    NormalizeSpace,
    Translate,
    Boolean,
    Not,
    True,
    False,
    Lang,
    Number,
    Sum,
    Floor,
    Ceiling,
    Round,
}
