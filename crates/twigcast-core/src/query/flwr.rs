//! For-Where-Return queries: the part of XQuery 1.0 that rewrites one message.
//!
//! ```text
//! query    ::= item { "," item }
//! item     ::= flwr | if | constructor | "(" [ query ] ")" | path-language expression
//! flwr     ::= ( "for" $v "in" expr { "," $v "in" expr } | "let" $v ":=" expr { "," $v ":=" expr } )+
//!              [ "where" expr ] [ [ "stable" ] "order" "by" key { "," key } ] "return" item
//! key      ::= expr [ "ascending" | "descending" ] [ "empty" ( "least" | "greatest" ) ]
//! if       ::= "if" "(" expr ")" "then" item "else" item
//! ```
//!
//! Expressions of the path language are XPath 1.0 in which every path outside a predicate starts at a variable, at `/`,
//! or at `$doc` or `$msg` (both mean the message). Constructors are XQuery's direct constructors.

use super::ast::{Expr, VariableId};
use super::functions::Type;
use crate::vocabulary::Name;

/// A For-Where-Return query.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// What it returns.
    pub body: Item,
    /// All its variables, by number.
    pub variables: Vec<Variable>,
}

/// A variable of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name, without `$`. Several variables may share one: the inner hides the outer.
    pub name: Box<str>,
    /// The type of its value. A `for` variable is always one node.
    pub value_type: Type,
}

/// Something that evaluates to a sequence of nodes and values.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// `a, b`, `(a, b)`, `()`.
    Sequence(Vec<Item>),
    /// `for ... return ...`.
    Flwr(Box<Flwr>),
    /// `if (a) then b else c`.
    If(Box<If>),
    /// `<a>...</a>`.
    Element(Box<Element>),
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
pub struct Flwr {
    /// The `for` and `let` clauses, in order; at least one.
    pub clauses: Vec<Clause>,
    /// The `where` clause.
    pub condition: Option<Expr>,
    /// The `order by` clause, most significant key first.
    pub order: Vec<OrderKey>,
    /// The `return` clause.
    pub result: Item,
}

/// One variable of a `for` or `let` clause.
#[derive(Clone, Debug, PartialEq)]
pub enum Clause {
    /// `for $v in source`.
    For {
        /// The variable, bound to each node in turn.
        variable: VariableId,
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

/// A key of an `order by` clause.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderKey {
    /// What to order by: numbers by size, truth values false first, anything else as strings by code point.
    pub key: Expr,
    /// Largest first.
    pub descending: bool,
    /// Where an empty node-set goes: after everything instead of before.
    pub empty_greatest: bool,
}

/// A conditional expression.
#[derive(Clone, Debug, PartialEq)]
pub struct If {
    /// What decides.
    pub condition: Expr,
    /// The value if it is true.
    pub then: Item,
    /// The value if it is false.
    pub otherwise: Item,
}

/// A direct element constructor.
#[derive(Clone, Debug, PartialEq)]
pub struct Element {
    /// The name as written, prefix included.
    pub qname: Box<str>,
    /// The expanded name.
    pub name: Name,
    /// Namespaces to declare in the start tag, prefix and URI: those that the query declares there, and those of prefixes
    /// that the tag uses and no enclosing constructor declares.
    pub declarations: Vec<(Box<str>, Box<str>)>,
    /// The attributes, in order.
    pub attributes: Vec<Attribute>,
    /// What is between the tags.
    pub content: Vec<Content>,
}

/// An attribute of a constructor.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute {
    /// The name as written, prefix included.
    pub qname: Box<str>,
    /// The expanded name.
    pub name: Name,
    /// The value: constant text and templates in turn.
    pub value: Vec<ValuePart>,
}

/// A part of an attribute's value.
#[derive(Clone, Debug, PartialEq)]
pub enum ValuePart {
    /// Constant text, unescaped.
    Text(Box<str>),
    /// `{ query }`: the string values of its items, separated by spaces.
    Enclosed(Item),
}

/// A part of an element's content.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Constant text, unescaped; never white space that only sets the query out.
    Text(Box<str>),
    /// A constructor written directly in the content.
    Constructor(Item),
    /// `{ query }`: copies of its nodes; neighbouring values are separated by a space.
    Enclosed(Item),
}

impl Query {
    /// The outermost For-Where-Return expressions: a message matches when a binding of any of them passes.
    pub fn outermost(&self) -> Vec<&Flwr> {
        let mut found = Vec::new();
        collect(&self.body, &mut found);
        found
    }
}

fn collect<'q>(item: &'q Item, found: &mut Vec<&'q Flwr>) {
    match item {
        Item::Sequence(items) => items.iter().for_each(|item| collect(item, found)),
        Item::Flwr(flwr) => found.push(flwr),
        Item::If(choice) => {
            collect(&choice.then, found);
            collect(&choice.otherwise, found);
        }
        Item::Element(element) => {
            for part in element.attributes.iter().flat_map(|attribute| &attribute.value) {
                if let ValuePart::Enclosed(item) = part {
                    collect(item, found);
                }
            }
            for part in &element.content {
                if let Content::Constructor(item) | Content::Enclosed(item) = part {
                    collect(item, found);
                }
            }
        }
        Item::Comment(_) | Item::ProcessingInstruction { .. } | Item::Value(_) => {}
    }
}
