//! Conditions on elements, as queries share them.

use std::rc::Rc;

use super::operand::ValueTest;
use crate::query::ast::{Expr, NameTest, Step};

/// A condition on an element of a message. What it says of the element's ancestors is said by conditions on these.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// All of several conditions hold; none: always.
    All(Vec<Rc<Condition>>),
    /// One of several conditions holds.
    Any(Vec<Rc<Condition>>),
    /// A condition does not hold.
    Not(Rc<Condition>),
    /// A value is compared with a constant.
    Test(ValueTest),
    /// An expression is true there.
    Expr(Expr),
    /// The same for an expression that asks for structure only, so that elements of one shape have one answer.
    Structure(Expr),
    /// The predicates of a step hold at the element's position among the children of its parent.
    Position(Step),
    /// The element so many levels up satisfies a condition.
    Above(u16, Rc<Condition>),
    /// Some ancestor satisfies a condition.
    Ancestor(Rc<Condition>),
    /// Some child element of a name satisfies a condition.
    Child(NameTest, Rc<Condition>),
    /// The document node satisfies a condition.
    AtDocument(Rc<Condition>),
    /// The element has a name.
    Named(NameTest),
    /// The element is the root element.
    IsRoot,
}
