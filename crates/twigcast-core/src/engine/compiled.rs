//! What is kept of a query beside its text and its places in the shared structures: little for most.

use std::sync::Arc;

use super::population::Registration;
use super::{Needs, Warning};
use crate::extract::Program;
use crate::query::ast::Expr;

/// What of a query is kept for evaluating it by itself.
#[derive(Clone, Debug)]
pub enum Evaluated {
    /// Nothing: the automaton decides it, and the text is parsed again on the rare occasions that need more.
    Nothing,
    /// The normalised expression.
    Expr(Arc<Expr>),
    /// A For-Where-Return query whose condition is only necessary: a binding has to pass.
    Bindings(Arc<Program>),
}

/// A registered, compiled query; equal texts in equal contexts share one.
#[derive(Debug)]
pub(super) struct CompiledQuery {
    pub(super) places: Places,
    /// Nothing for most: the shared structures alone decide them.
    pub(super) evaluation: Option<Box<Evaluation>>,
    pub(super) needs: Needs,
    pub(super) warning: Option<Warning>,
}

/// What of a query is evaluated by itself.
#[derive(Debug)]
pub(super) struct Evaluation {
    evaluated: Evaluated,
    /// What a For-Where-Return query delivers.
    program: Option<Arc<Program>>,
}

impl Evaluation {
    /// `None` if nothing is.
    pub(super) fn of(evaluated: Evaluated, program: Option<Arc<Program>>) -> Option<Box<Self>> {
        let is_needed = program.is_some() || !matches!(evaluated, Evaluated::Nothing);
        is_needed.then(|| Box::new(Self { evaluated, program }))
    }
}

impl CompiledQuery {
    pub(super) fn evaluated(&self) -> &Evaluated {
        self.evaluation.as_ref().map_or(&Evaluated::Nothing, |evaluation| &evaluation.evaluated)
    }

    pub(super) fn program(&self) -> Option<&Program> {
        self.evaluation.as_ref()?.program.as_deref()
    }

    /// Bytes on the heap, programs aside.
    pub(super) fn heap_bytes(&self) -> usize {
        let places = match &self.places {
            Places::One(_) => 0,
            Places::Several(places) => places.len() * size_of::<Registration>(),
        };
        places + self.evaluation.as_ref().map_or(0, |_| size_of::<Evaluation>())
    }
}

/// Where a query is registered: in one place, nearly always.
#[derive(Debug)]
pub(super) enum Places {
    One(Registration),
    Several(Box<[Registration]>),
}

impl From<Vec<Registration>> for Places {
    fn from(places: Vec<Registration>) -> Self {
        match places.as_slice() {
            &[only] => Self::One(only),
            _ => Self::Several(places.into()),
        }
    }
}

impl Places {
    pub(super) fn as_slice(&self) -> &[Registration] {
        match self {
            Self::One(place) => std::slice::from_ref(place),
            Self::Several(places) => places,
        }
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [Registration] {
        match self {
            Self::One(place) => std::slice::from_mut(place),
            Self::Several(places) => places,
        }
    }
}
