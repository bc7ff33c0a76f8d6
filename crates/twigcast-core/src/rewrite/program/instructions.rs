//! The instructions of a compiled For-Where-Return query.

use std::sync::Arc;

use crate::query::ast::{Expr, VariableId};

/// An instruction that produces items.
#[derive(Clone, Debug)]
pub(in crate::rewrite) enum Instruction {
    /// Produces the items of several instructions in order.
    Sequence(Vec<Instruction>),
    /// Produces items for each binding.
    Loop(Box<FlwrLoop>),
    /// Produces the items of one of two instructions.
    If { condition: BoundExpr, then: Box<Instruction>, otherwise: Box<Instruction> },
    /// Produces an element.
    Element(Box<ElementInstruction>),
    /// Produces an element whose name is computed.
    ComputedElement(Box<ComputedElementInstruction>),
    /// Adds an attribute to the element around.
    Attribute(Box<AttributeInstruction>),
    /// Produces the values of items as one text.
    Text(Box<Instruction>),
    /// Produces constant markup.
    Markup(Box<[u8]>),
    /// Produces the nodes or the value of an expression.
    Value(BoundExpr),
    /// Produces a result for each binding of a set that the interpreter holds: see [`super::family`].
    Bindings { variable: VariableId, result: Arc<Instruction> },
}

/// An expression with what it is evaluated relative to.
#[derive(Clone, Debug)]
pub(in crate::rewrite) enum BoundExpr {
    /// Relative to the message.
    Message(Arc<Expr>),
    /// Relative to the node of a `for` variable, the only variable of the expression.
    Node(VariableId, Arc<Expr>),
    /// Relative to the message, with variables in the expression.
    Variables(Vec<VariableId>, Arc<Expr>),
}

/// A For-Where-Return expression.
#[derive(Clone, Debug)]
pub(in crate::rewrite) struct FlwrLoop {
    /// Conditions that no clause of this expression can change.
    pub guards: Vec<BoundExpr>,
    pub clauses: Vec<ClauseInstruction>,
    pub grouping: Option<GroupingInstruction>,
    /// The variables that have a value where the result is made.
    pub variables: Vec<VariableId>,
    pub order: Vec<SortKey>,
    pub result: Arc<Instruction>,
    /// One `for` clause ranges over nodes of the message, and its node alone decides the conditions and the result.
    /// So other queries with the same clause, condition or result can share their evaluation.
    pub is_independent: bool,
}

/// A clause with the conditions that can be decided once its variable has its value.
#[derive(Clone, Debug)]
pub(in crate::rewrite) struct ClauseInstruction {
    pub variable: VariableId,
    /// The variable of `at`.
    pub position: Option<VariableId>,
    /// A `for` clause: the variable is bound to each node in turn, not to the value.
    pub is_for: bool,
    pub value: BoundExpr,
    pub conditions: Vec<ClauseCondition>,
    /// An equality with a variable that is bound before, by which the nodes are looked up.
    pub join: Option<ClauseJoin>,
}

/// An equality of two paths, one of them from the variable of a `for` clause that ranges over nodes of the message.
#[derive(Clone, Debug)]
pub(in crate::rewrite) struct ClauseJoin {
    /// The condition of the clause that it is.
    pub condition: usize,
    /// The path from the variable, relative to its node.
    pub own: Arc<Expr>,
    /// The path from the other variable.
    pub other: BoundExpr,
}

/// An instruction that makes one binding of those with equal keys.
#[derive(Clone, Debug)]
pub(in crate::rewrite) struct GroupingInstruction {
    pub keys: Vec<(VariableId, BoundExpr)>,
    /// The variables of the clauses, with those that hold their values in all bindings of a group.
    pub collected: Vec<(VariableId, VariableId)>,
    pub values: Vec<(VariableId, BoundExpr)>,
    pub conditions: Vec<BoundExpr>,
}

/// A condition on a binding.
#[derive(Clone, Debug)]
pub(in crate::rewrite) struct ClauseCondition {
    pub bound: BoundExpr,
    /// The path, relative to the node, and the constant of a condition of the form `path = constant`, where the
    /// constant is a text or a number.
    pub equals: Option<(Arc<Expr>, Expr)>,
}

/// A key of `order by`.
#[derive(Clone, Debug)]
pub(in crate::rewrite) struct SortKey {
    pub value: BoundExpr,
    pub descending: bool,
    pub empty_greatest: bool,
}

/// An element constructor whose name is computed.
#[derive(Clone, Debug)]
pub(in crate::rewrite) struct ComputedElementInstruction {
    pub name: BoundExpr,
    pub content: Vec<ContentPart>,
    /// Namespaces that the start tag declares: prefix and URI.
    pub declarations: Vec<(Box<str>, Box<str>)>,
}

/// The name of an attribute that is an item of its own.
#[derive(Clone, Debug)]
pub(in crate::rewrite) enum AttributeName {
    /// The name as written, prefix included.
    Fixed(Box<str>),
    Computed(BoundExpr),
}

/// An attribute that is an item of its own.
#[derive(Clone, Debug)]
pub(in crate::rewrite) struct AttributeInstruction {
    pub name: AttributeName,
    /// The URI of its namespace.
    pub namespace: Box<str>,
    pub value: Option<Instruction>,
}

/// An element constructor with enclosed expressions.
#[derive(Clone, Debug)]
pub(in crate::rewrite) struct ElementInstruction {
    /// The start tag without its `>`.
    pub head: Vec<ContentPart>,
    pub content: Vec<ContentPart>,
    /// The end tag.
    pub close: Box<[u8]>,
    /// Namespaces that the start tag declares: prefix and URI.
    pub declarations: Vec<(Box<str>, Box<str>)>,
    /// Expanded names of its attributes: namespace URI and local name.
    pub attributes: Vec<(Box<str>, Box<str>)>,
}

/// A part of a tag or of content.
#[derive(Clone, Debug)]
pub(in crate::rewrite) enum ContentPart {
    Constant(Vec<u8>),
    Enclosed(Instruction),
}

/// Returns `true` if the expression selects nodes.
pub(in crate::rewrite) fn is_path(expr: &Expr) -> bool {
    matches!(expr, Expr::Path(_) | Expr::Union(_)) && !expr.gives_values()
}
