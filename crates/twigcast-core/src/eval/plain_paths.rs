//! Paths to children and attributes with plain conditions, such as `entry[name = 'x']/value`: most of what queries compare.
//!
//! They are walked without a list of nodes for each step.

use std::borrow::Cow;

use super::evaluator::Evaluator;
use super::node::NodeRef;
use super::value::EvalError;
use crate::document::NodeId;
use crate::query::ast::{Axis, CompareOp, Expr, NameTest, NodeTest, Path, PathStart, Step};

impl<'a> Evaluator<'a> {
    /// Appends the string-values of the nodes that steps select from an element, if they are plain. Returns whether they are.
    pub(super) fn append_plain(
        &self,
        path: &'a Path,
        element: NodeId,
        texts: &mut Vec<Cow<'a, str>>,
    ) -> Result<bool, EvalError> {
        let is_plain = path.start == PathStart::Context
            && path.steps.iter().enumerate().all(|(index, step)| {
                is_named(step, index + 1 == path.steps.len())
                    && step.predicates.iter().all(|p| plain_equality(p).is_some())
            });
        if is_plain {
            self.follow(&path.steps, element, texts)?;
        }
        Ok(is_plain)
    }

    fn follow(&self, steps: &'a [Step], element: NodeId, texts: &mut Vec<Cow<'a, str>>) -> Result<(), EvalError> {
        let Some((step, rest)) = steps.split_first() else {
            texts.push(self.string_value(NodeRef::Node(element))?);
            return Ok(());
        };
        let NodeTest::Name(test) = step.test else { return Ok(()) };
        let document = self.message.document;
        if step.axis == Axis::Attribute {
            self.charge(1)?;
            let named = document.attributes_of(element).iter().filter(|attribute| test.accepts(attribute.name));
            texts.extend(named.map(|attribute| self.message.attribute_value(attribute)));
            return Ok(());
        }
        for child in document.children(element) {
            self.charge(1)?;
            if self.node_passes(&step.test, child) && self.has_equalities(&step.predicates, child)? {
                self.follow(rest, child, texts)?;
            }
        }
        Ok(())
    }

    fn has_equalities(&self, predicates: &[Expr], element: NodeId) -> Result<bool, EvalError> {
        let document = self.message.document;
        for (step, text) in predicates.iter().filter_map(plain_equality) {
            let mut holds = false;
            if step.axis == Axis::Attribute {
                let NodeTest::Name(test) = step.test else { continue };
                let mut attributes = document.attributes_of(element).iter();
                holds = attributes
                    .any(|attribute| test.accepts(attribute.name) && self.message.attribute_value(attribute) == *text);
            } else {
                for child in document.children(element) {
                    self.charge(1)?;
                    if self.node_passes(&step.test, child) && self.string_value(NodeRef::Node(child))? == *text {
                        holds = true;
                        break;
                    }
                }
            }
            if !holds {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Returns whether a step leads to children, or at the end of a path to an attribute, of a name.
fn is_named(step: &Step, is_last: bool) -> bool {
    match (step.axis, &step.test) {
        (Axis::Child, NodeTest::Name(_)) => true,
        (Axis::Attribute, NodeTest::Name(NameTest::Name(_))) => is_last && step.predicates.is_empty(),
        _ => false,
    }
}

/// Returns the step and the text of a predicate that compares a child or an attribute with a text.
fn plain_equality(predicate: &Expr) -> Option<(&Step, &str)> {
    let (Expr::Path(Path { start: PathStart::Context, steps }), CompareOp::Equal, Expr::Literal(text)) =
        predicate.compared_with_constant()?
    else {
        return None;
    };
    match steps.as_slice() {
        [step] if is_named(step, true) && step.predicates.is_empty() => Some((step, text)),
        _ => None,
    }
}
