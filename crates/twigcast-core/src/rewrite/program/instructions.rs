//! The instructions of a compiled For-Where-Return query.

use std::sync::Arc;

use crate::query::ast::{Expr, VariableId};

/// What is done to produce items.
#[derive(Clone, Debug)]
pub(in crate::rewrite) enum Instruction {
    /// One after the other.
    Sequence(Vec<Instruction>),
    /// For each binding.
    Loop(Box<FlwrLoop>),
    /// One or the other.
    If { condition: BoundExpr, then: Box<Instruction>, otherwise: Box<Instruction> },
    /// An element around content.
    Element(Box<ElementInstruction>),
    /// Ready-made markup.
    Markup(Box<[u8]>),
    /// The nodes or the value of an expression.
    Value(BoundExpr),
    /// A result for each binding found elsewhere: see [`super::family`].
    Bindings { variable: VariableId, result: Arc<Instruction> },
}

/// An expression, and what it is evaluated relative to.
#[derive(Clone, Debug)]
pub(in crate::rewrite) enum BoundExpr {
    /// The message.
    Message(Arc<Expr>),
    /// The node of a `for` variable, the only one the expression spoke about.
    Node(VariableId, Arc<Expr>),
    /// The message, with variables in the expression.
    Variables(Vec<VariableId>, Arc<Expr>),
}

/// A For-Where-Return expression.
#[derive(Clone, Debug)]
pub(in crate::rewrite) struct FlwrLoop {
    /// Conditions that no clause of this expression can change.
    pub guards: Vec<BoundExpr>,
    pub clauses: Vec<ClauseInstruction>,
    pub order: Vec<SortKey>,
    pub result: Arc<Instruction>,
    /// One `for` clause over nodes of the message, whose node alone decides about the conditions and the result: so
    /// other queries with the same clause, condition or result need the same.
    pub alone: bool,
}

/// A clause, and the conditions that can be decided once its variable has its value.
#[derive(Clone, Debug)]
pub(in crate::rewrite) struct ClauseInstruction {
    pub variable: VariableId,
    /// The variable is each node in turn rather than the value.
    pub each: bool,
    pub value: BoundExpr,
    pub conditions: Vec<ClauseCondition>,
}

/// A condition on a binding.
#[derive(Clone, Debug)]
pub(in crate::rewrite) struct ClauseCondition {
    pub bound: BoundExpr,
    /// Its form is `path = constant`: the path, relative to the node, and the constant, a text or a number.
    pub equals: Option<(Arc<Expr>, Expr)>,
}

/// A key of `order by`.
#[derive(Clone, Debug)]
pub(in crate::rewrite) struct SortKey {
    pub value: BoundExpr,
    pub descending: bool,
    pub empty_greatest: bool,
}

/// An element constructor that is not constant.
#[derive(Clone, Debug)]
pub(in crate::rewrite) struct ElementInstruction {
    /// The start tag without its end: constant bytes and templates in turn.
    pub head: Vec<ContentPart>,
    pub content: Vec<ContentPart>,
    /// The end tag.
    pub close: Box<[u8]>,
    /// Namespaces that the start tag declares: prefix and URI.
    pub declarations: Vec<(Box<str>, Box<str>)>,
    /// Expanded names of its attributes.
    pub attributes: Vec<(Box<str>, Box<str>)>,
}

/// A part of a tag or of content.
#[derive(Clone, Debug)]
pub(in crate::rewrite) enum ContentPart {
    Constant(Vec<u8>),
    Enclosed(Instruction),
}

/// Does the expression select nodes?
pub(in crate::rewrite) fn is_path(expr: &Expr) -> bool {
    matches!(expr, Expr::Path(_) | Expr::Union(_))
}
