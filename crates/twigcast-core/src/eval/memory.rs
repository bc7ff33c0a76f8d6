//! Caches values that many context nodes have in common: those that do not depend on the context node at all, and those that
//! depend only on its parent, such as `sum(../*)`.

use std::rc::Rc;

use crate::document::{NO_NODE, NodeId};
use crate::query::ast::{Axis, Expr, Path, PathStart};

use super::evaluator::Evaluator;
use super::node::NodeRef;
use super::value::{Context, EvalError};

/// The part of the context that the value of an expression depends on. Later variants include earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ContextDependence {
    /// Nothing.
    Nothing,
    /// The parent of the context node.
    Parent,
    /// The context.
    Context,
}

fn reach(expr: &Expr) -> ContextDependence {
    let own = match expr {
        Expr::Path(path) => return reach_of_path(path),
        Expr::Call { function, arguments } if function.facts().reads_context(arguments.len()) => {
            ContextDependence::Context
        }
        _ => ContextDependence::Nothing,
    };
    expr.operands().map(reach).fold(own, Ord::max)
}

fn reach_of_path(path: &Path) -> ContextDependence {
    match &path.start {
        PathStart::Root | PathStart::Variable(_) => ContextDependence::Nothing,
        PathStart::Context => match path.steps.first() {
            Some(step) if matches!(step.axis, Axis::Parent | Axis::Ancestor) => ContextDependence::Parent,
            _ => ContextDependence::Context,
        },
        // Predicates have contexts of their own.
        PathStart::Filter { primary, .. } => reach(primary),
    }
}

impl<'a> Evaluator<'a> {
    /// Returns the node by which the value of an expression is cached; nothing if caching does not pay.
    pub(super) fn anchor(&self, expr: &Expr, context: Context) -> Option<NodeId> {
        if self.nesting.get() == 0 || !self.is_expensive() || expr.is_constant() {
            return None;
        }
        self.anchored(reach(expr), context)
    }

    /// Returns the node by which the node-set of a path is cached. That of an absolute path always is.
    pub(super) fn path_anchor(&self, path: &Path, context: Context) -> Option<NodeId> {
        if self.is_invariant(path) {
            return Some(NO_NODE);
        }
        if self.nesting.get() == 0 || !self.is_expensive() || path.steps.len() < 2 {
            return None;
        }
        self.anchored(reach_of_path(path), context)
    }

    fn anchored(&self, reach: ContextDependence, context: Context) -> Option<NodeId> {
        match reach {
            ContextDependence::Nothing => Some(NO_NODE),
            ContextDependence::Parent => Some(self.parent(context.node)),
            ContextDependence::Context => None,
        }
    }

    /// Returns `number()` of a function call, cached by its anchor.
    pub(super) fn call_number(&self, expr: &'a Expr, context: Context) -> Result<Option<f64>, EvalError> {
        let Some(anchor) = self.anchor(expr, context) else { return Ok(None) };
        let cached = self.cache.borrow().number(expr, anchor);
        if cached.is_some() {
            return Ok(cached);
        }
        let number = self.number_of(self.value(expr, context)?)?;
        self.cache.borrow_mut().keep_number(expr, anchor, number);
        Ok(Some(number))
    }

    /// Returns `string()` of an expression, cached by its anchor; nothing if that does not pay.
    pub(super) fn common_text(&self, expr: &'a Expr, context: Context) -> Result<Option<Rc<str>>, EvalError> {
        let Some(anchor) = self.anchor(expr, context) else { return Ok(None) };
        let cached = self.cache.borrow().common_text(expr, anchor);
        if cached.is_some() {
            return Ok(cached);
        }
        let text: Rc<str> = self.string(expr, context)?.into();
        self.charge_text(text.len())?;
        self.cache.borrow_mut().keep_common_text(expr, anchor, &text);
        Ok(Some(text))
    }

    /// Returns the truth of an expression that many nodes have in common, cached by its anchor.
    pub(super) fn common_truth(&self, expr: &'a Expr, context: Context) -> Result<Option<bool>, EvalError> {
        let Some(anchor) = self.anchor(expr, context) else { return Ok(None) };
        self.remembered(expr, context, NodeRef::Node(anchor)).map(Some)
    }
}
