//! For-Where-Return queries: the part of XQuery 1.0 that rewrites one message.
//!
//! ```text
//! query    ::= item { "," item }
//! item     ::= flwr | if | constructor | "(" [ query ] ")" | path-language expression
//! flwr     ::= ( for | let | where )+ [ "group" "by" group { "," group } { let | where } ]
//!              [ [ "stable" ] "order" "by" key { "," key } ] "return" item
//! for      ::= "for" $v [ "at" $n ] "in" expr { "," $v [ "at" $n ] "in" expr }
//! let      ::= "let" $v ":=" expr { "," $v ":=" expr }
//! where    ::= "where" expr
//! group    ::= $k [ ":=" expr ]
//! key      ::= expr [ "ascending" | "descending" ] [ "empty" ( "least" | "greatest" ) ]
//! if       ::= "if" "(" expr ")" "then" item "else" item
//! ```
//!
//! Expressions of the path language are XPath 1.0 in which every path outside a predicate starts at a variable, at `/`,
//! or at `$doc` or `$msg` (both mean the message). Constructors are XQuery's direct constructors, and the computed ones of
//! elements, attributes and texts.

use super::ast::{Expr, VariableId};
use super::functions::ExprType;
use crate::vocabulary::Name;

/// A For-Where-Return query.
#[derive(Clone, Debug, PartialEq)]
pub struct FlwrQuery {
    /// The item that it returns.
    pub body: ItemExpr,
    /// All its variables, by number.
    pub variables: Vec<Variable>,
    /// `true` if a path in a constructor has another default namespace than the query, which mostly was not meant.
    pub loses_default: bool,
    /// `true` if a path in a constructor is read in the default namespace of that, where the query has none and no path
    /// outside of constructors leads to that namespace.
    pub gains_default: bool,
}

/// A variable of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name, without `$`. Several variables may share one: the inner hides the outer.
    pub name: Box<str>,
    /// The type of its value. A `for` variable is always one node.
    pub value_type: ExprType,
}

/// Something that evaluates to a sequence of nodes and values.
#[derive(Clone, Debug, PartialEq)]
pub enum ItemExpr {
    /// `a, b`, `(a, b)`, `()`.
    Sequence(Vec<ItemExpr>),
    /// `for ... return ...`.
    Flwr(Box<FlwrExpr>),
    /// `if (a) then b else c`.
    If(Box<IfExpr>),
    /// `<a>...</a>`, `element a { ... }`.
    Element(Box<ElementConstructor>),
    /// `element { name } { ... }`.
    ComputedElement(Box<ComputedElement>),
    /// `attribute a { ... }`.
    Attribute(Box<ComputedAttribute>),
    /// `text { ... }`.
    Text(Box<ItemExpr>),
    /// `<!--...-->`; the text between.
    Comment(Box<str>),
    /// `<?target data?>`.
    ProcessingInstruction {
        /// The target.
        target: Box<str>,
        /// The rest.
        data: Box<str>,
    },
    /// An expression of the path language: copies of its nodes, or its value.
    Value(Expr),
}

/// A For-Where-Return expression.
#[derive(Clone, Debug, PartialEq)]
pub struct FlwrExpr {
    /// The `for` and `let` clauses, in order; at least one.
    pub clauses: Vec<BindingClause>,
    /// The `where` clauses before `group by`.
    pub condition: Option<Expr>,
    /// The `group by` clause.
    pub grouping: Option<Grouping>,
    /// The `order by` clause, most significant key first.
    pub order: Vec<OrderKey>,
    /// The `return` clause.
    pub result: ItemExpr,
}

/// One variable of a `for` or `let` clause.
#[derive(Clone, Debug, PartialEq)]
pub enum BindingClause {
    /// `for $v in source`.
    For {
        /// The variable, bound to each node in turn.
        variable: VariableId,
        /// The variable of `at`: which node it is, from 1.
        position: Option<VariableId>,
        /// A node-set.
        source: Expr,
    },
    /// `let $v := value`.
    Let {
        /// The variable.
        variable: VariableId,
        /// Its value.
        value: Expr,
    },
}

/// A `group by` clause, and what follows it: bindings with equal keys become one.
#[derive(Clone, Debug, PartialEq)]
pub struct Grouping {
    /// The variables of the keys, and the keys: the string of a node-set's first node, or a value.
    pub keys: Vec<(VariableId, Expr)>,
    /// The variables of the clauses before, with those that hold their values in all bindings of a group.
    pub collected: Vec<(VariableId, VariableId)>,
    /// `let` clauses.
    pub values: Vec<(VariableId, Expr)>,
    /// The `where` clauses.
    pub condition: Option<Expr>,
}

/// A key of an `order by` clause.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderKey {
    /// The expression to order by: numbers by size, truth values false first, anything else as strings by code point.
    pub key: Expr,
    /// Largest first.
    pub descending: bool,
    /// An empty node-set comes after everything instead of before.
    pub empty_greatest: bool,
}

/// A conditional expression.
#[derive(Clone, Debug, PartialEq)]
pub struct IfExpr {
    /// The condition.
    pub condition: Expr,
    /// The value if it is true.
    pub then: ItemExpr,
    /// The value if it is false.
    pub otherwise: ItemExpr,
}

/// A direct element constructor.
#[derive(Clone, Debug, PartialEq)]
pub struct ElementConstructor {
    /// The name as written, prefix included.
    pub qname: Box<str>,
    /// The expanded name.
    pub name: Name,
    /// Namespaces to declare in the start tag, prefix and URI: those that the query declares there, and those of prefixes
    /// that the tag uses and no enclosing constructor declares.
    pub declarations: Vec<(Box<str>, Box<str>)>,
    /// The attributes, in order.
    pub attributes: Vec<AttributeConstructor>,
    /// The content between the tags.
    pub content: Vec<ElementContent>,
}

/// An element whose name is computed.
#[derive(Clone, Debug, PartialEq)]
pub struct ComputedElement {
    /// The name, without a prefix.
    pub name: Expr,
    /// Namespaces to declare in the start tag.
    pub declarations: Vec<(Box<str>, Box<str>)>,
    /// The content.
    pub content: Vec<ElementContent>,
}

/// The name of a computed attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum ComputedName {
    /// The name as written, prefix included.
    Fixed(Box<str>),
    /// A value, without a prefix.
    Value(Expr),
}

/// An attribute that is an item of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct ComputedAttribute {
    /// The name.
    pub name: ComputedName,
    /// The URI of its namespace.
    pub namespace: Box<str>,
    /// The value; `None` for an empty one.
    pub value: Option<ItemExpr>,
}

/// An attribute of a constructor.
#[derive(Clone, Debug, PartialEq)]
pub struct AttributeConstructor {
    /// The name as written, prefix included.
    pub qname: Box<str>,
    /// The expanded name.
    pub name: Name,
    /// The value: constant text and templates in turn.
    pub value: Vec<AttributeValuePart>,
}

/// A part of an attribute's value.
#[derive(Clone, Debug, PartialEq)]
pub enum AttributeValuePart {
    /// Constant text, unescaped.
    Text(Box<str>),
    /// `{ query }`: the string values of its items, separated by spaces.
    Enclosed(ItemExpr),
}

/// A part of an element's content.
#[derive(Clone, Debug, PartialEq)]
pub enum ElementContent {
    /// Constant text, unescaped; never white space that only sets the query out.
    Text(Box<str>),
    /// A constructor written directly in the content.
    Constructor(ItemExpr),
    /// `{ query }`: copies of its nodes; neighbouring values are separated by a space.
    Enclosed(ItemExpr),
}

impl FlwrQuery {
    /// Returns the outermost For-Where-Return expressions: a message matches when a binding of any of them passes.
    pub fn outermost(&self) -> Vec<&FlwrExpr> {
        let mut result = Vec::new();
        collect(&self.body, &mut result);
        result
    }
}

fn collect<'q>(item: &'q ItemExpr, result: &mut Vec<&'q FlwrExpr>) {
    match item {
        ItemExpr::Sequence(items) => items.iter().for_each(|item| collect(item, result)),
        ItemExpr::Flwr(flwr) => result.push(flwr),
        ItemExpr::If(choice) => {
            collect(&choice.then, result);
            collect(&choice.otherwise, result);
        }
        ItemExpr::Element(element) => {
            for part in element.attributes.iter().flat_map(|attribute| &attribute.value) {
                if let AttributeValuePart::Enclosed(item) = part {
                    collect(item, result);
                }
            }
            for part in &element.content {
                if let ElementContent::Constructor(item) | ElementContent::Enclosed(item) = part {
                    collect(item, result);
                }
            }
        }
        ItemExpr::ComputedElement(element) => {
            for part in &element.content {
                if let ElementContent::Constructor(item) | ElementContent::Enclosed(item) = part {
                    collect(item, result);
                }
            }
        }
        ItemExpr::Attribute(attribute) => attribute.value.iter().for_each(|item| collect(item, result)),
        ItemExpr::Text(item) => collect(item, result),
        ItemExpr::Comment(_) | ItemExpr::ProcessingInstruction { .. } | ItemExpr::Value(_) => {}
    }
}
