//! What an evaluator remembers while it works on one message.
//!
//! Keys are addresses of query parts, which outlive the evaluator. The memory is bounded: past the limit nothing more
//! is remembered, and evaluation goes on without.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::document::NodeId;
use crate::query::ast::{Expr, Path, Step};

use super::NodeRef;
use super::compare::Strings;

/// Entries (nodes or answers) that may be remembered, of about 16 bytes each.
const ENTRIES_MAX: usize = 1 << 20;

/// Remembered answers.
#[derive(Default)]
pub(super) struct Cache {
    /// Node-sets of absolute paths inside predicates: the same for every context node.
    nodes: FxHashMap<*const Path, Rc<[NodeRef]>>,
    /// Whether absolute paths inside predicates select anything.
    existence: FxHashMap<*const Path, bool>,
    /// Distinct string-values, smallest and largest number of such node-sets.
    strings: FxHashMap<*const Path, Rc<Strings>>,
    extremes: FxHashMap<*const Path, Option<(f64, f64)>>,
    /// The children that a step with positions selects, by parent.
    children: FxHashMap<(*const Step, NodeId), Rc<[NodeRef]>>,
    /// All tree nodes that a step inside a predicate can select: in the message or, for siblings, below one parent.
    indices: FxHashMap<(*const Step, NodeId), Rc<[NodeId]>>,
    /// Truth of predicates that are evaluated inside other predicates and so may be asked again for the same node.
    predicates: FxHashMap<(*const Expr, NodeRef), bool>,
    entries: usize,
}

impl Cache {
    /// Take note of `count` more entries, if they fit.
    fn admit(&mut self, count: usize) -> bool {
        let fits = self.entries + count <= ENTRIES_MAX;
        if fits {
            self.entries += count;
        }
        fits
    }

    pub(super) fn nodes(&self, path: &Path) -> Option<Rc<[NodeRef]>> {
        self.nodes.get(&std::ptr::from_ref(path)).cloned()
    }

    pub(super) fn keep_nodes(&mut self, path: &Path, nodes: &Rc<[NodeRef]>) {
        if self.admit(nodes.len() + 1) {
            self.nodes.insert(path, Rc::clone(nodes));
        }
    }

    pub(super) fn existence(&self, path: &Path) -> Option<bool> {
        self.existence.get(&std::ptr::from_ref(path)).copied()
    }

    pub(super) fn keep_existence(&mut self, path: &Path, exists: bool) {
        if self.admit(1) {
            self.existence.insert(path, exists);
        }
    }

    pub(super) fn strings(&self, path: &Path) -> Option<Rc<Strings>> {
        self.strings.get(&std::ptr::from_ref(path)).cloned()
    }

    pub(super) fn keep_strings(&mut self, path: &Path, strings: &Rc<Strings>) {
        if self.admit(strings.len() + 1) {
            self.strings.insert(path, Rc::clone(strings));
        }
    }

    pub(super) fn extremes(&self, path: &Path) -> Option<Option<(f64, f64)>> {
        self.extremes.get(&std::ptr::from_ref(path)).copied()
    }

    pub(super) fn keep_extremes(&mut self, path: &Path, extremes: Option<(f64, f64)>) {
        if self.admit(1) {
            self.extremes.insert(path, extremes);
        }
    }

    pub(super) fn children(&self, step: &Step, parent: NodeId) -> Option<Rc<[NodeRef]>> {
        self.children.get(&(std::ptr::from_ref(step), parent)).cloned()
    }

    pub(super) fn keep_children(&mut self, step: &Step, parent: NodeId, children: &Rc<[NodeRef]>) {
        if self.admit(children.len() + 1) {
            self.children.insert((step, parent), Rc::clone(children));
        }
    }

    pub(super) fn index(&self, step: &Step, below: NodeId) -> Option<Rc<[NodeId]>> {
        self.indices.get(&(std::ptr::from_ref(step), below)).cloned()
    }

    pub(super) fn keep_index(&mut self, step: &Step, below: NodeId, index: &Rc<[NodeId]>) {
        if self.admit(index.len() + 1) {
            self.indices.insert((step, below), Rc::clone(index));
        }
    }

    pub(super) fn predicate(&self, predicate: &Expr, node: NodeRef) -> Option<bool> {
        self.predicates.get(&(std::ptr::from_ref(predicate), node)).copied()
    }

    pub(super) fn keep_predicate(&mut self, predicate: &Expr, node: NodeRef, holds: bool) {
        if self.admit(1) {
            self.predicates.insert((predicate, node), holds);
        }
    }
}
