//! What the programs of one session have in common, computed once a message.
//!
//! Thousands of queries on one feed differ in little: they bind the same paths, compare the same paths with different
//! constants, and return the same few things (Diao 2005, section 6.6). The interner makes what is equal one object, and
//! here its results are kept by that object's address:
//!
//! - the nodes of a binding path, and of a path that starts at a binding's node (the shared GroupBy);
//! - the bindings that satisfy `path = 'constant'`, by constant (the shared selection), and those that satisfy any
//!   other condition;
//! - the bytes of a result for a binding (the shared outer join), ready to be copied.

use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::eval::{Context, NodeRef};
use crate::query::ast::{Expr, VariableId};

use super::ExtractError;
use super::program::{Bound, Condition, Loop, Op};
use super::run::Session;

/// An expression or result by its address. It outlives the session.
type ExprAddress = *const Expr;
type OpAddress = *const Op;

/// Programs that must have something in common before it is kept; the interner holds one reference itself.
const USERS_MIN: usize = 2;

/// What an entry of a table takes, about.
const ENTRY_BYTES: usize = 64;

/// Bindings by the strings that a path from them leads to; indices into the nodes of the binding path.
type ByValue = FxHashMap<Box<str>, Vec<u32>>;

/// Start and end in the kept bytes.
type Place = (usize, usize);

/// Results kept for one message.
pub(super) struct Shared {
    sources: FxHashMap<ExprAddress, Rc<[NodeRef]>>,
    paths: FxHashMap<(ExprAddress, NodeRef), Rc<[NodeRef]>>,
    by_value: FxHashMap<(ExprAddress, ExprAddress), Rc<ByValue>>,
    passing: FxHashMap<(ExprAddress, ExprAddress), Rc<[u32]>>,
    /// Where in `bytes` the result for each binding is; by result and binding path.
    rendered: FxHashMap<(OpAddress, ExprAddress), Vec<Option<Place>>>,
    bytes: Vec<u8>,
    /// Bytes that may still be kept, in all.
    room: usize,
}

impl Shared {
    pub fn new(bytes_max: usize) -> Self {
        Self {
            sources: FxHashMap::default(),
            paths: FxHashMap::default(),
            by_value: FxHashMap::default(),
            passing: FxHashMap::default(),
            rendered: FxHashMap::default(),
            bytes: Vec::new(),
            room: bytes_max,
        }
    }
}

impl Shared {
    /// Takes room for something to keep; `false` if there is none.
    fn take_room(&mut self, bytes: usize) -> bool {
        let fits = bytes <= self.room;
        if fits {
            self.room -= bytes;
        }
        fits
    }

    /// Keeps the bytes of a result, if there is room.
    fn keep(&mut self, bytes: &[u8]) -> Option<Place> {
        if !self.take_room(bytes.len()) {
            return None;
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        Some((start, self.bytes.len()))
    }
}

fn is_shared<T>(object: &Arc<T>) -> bool {
    Arc::strong_count(object) > USERS_MIN
}

impl<'a> Session<'a> {
    /// Writes the results of a loop whose only variable decides everything.
    pub(super) fn repeat_alone(&mut self, each: &'a Loop) -> Result<(), ExtractError> {
        let [clause] = &each.clauses[..] else { return Ok(()) };
        let Bound::Message(source) = &clause.value else { return Ok(()) };
        if !self.all_hold(&each.guards)? {
            return Ok(());
        }
        let nodes = self.source(source)?;
        let mut left: Option<Rc<[u32]>> = None;
        for condition in &clause.conditions {
            let passing = self.passing(source, &nodes, clause.variable, condition, left.as_deref())?;
            if passing.is_empty() {
                return Ok(());
            }
            left = Some(match left {
                Some(left) => intersection(&left, &passing),
                None => passing,
            });
        }
        if nodes.is_empty() {
            return Ok(());
        }
        self.note_passed();
        let is_element = matches!(*each.result, Op::Element(_));
        if is_element && is_shared(&each.result) && self.has_places(&each.result, source, nodes.len()) {
            return self.write_kept(each, clause.variable, source, &nodes, left.as_deref());
        }
        indices(nodes.len(), left.as_deref()).try_for_each(|index| {
            self.bind(clause.variable, nodes[index]);
            self.op(&each.result)
        })
    }

    /// The nodes of a binding path.
    fn source(&mut self, source: &'a Arc<Expr>) -> Result<Rc<[NodeRef]>, ExtractError> {
        let address = Arc::as_ptr(source);
        if let Some(nodes) = self.shared.sources.get(&address) {
            return Ok(Rc::clone(nodes));
        }
        let nodes: Rc<[NodeRef]> = self.evaluator.nodes(source, Context::DOCUMENT)?.into();
        self.shared.sources.insert(address, Rc::clone(&nodes));
        Ok(nodes)
    }

    /// The nodes that a path leads to from a binding's node.
    pub(super) fn nodes_from(
        &mut self,
        variable: VariableId,
        path: &'a Arc<Expr>,
    ) -> Result<Rc<[NodeRef]>, ExtractError> {
        let node = self.node_of(variable);
        if !is_shared(path) {
            return Ok(self.evaluator.nodes(path, Context::at(node))?.into());
        }
        let key = (Arc::as_ptr(path), node);
        if let Some(known) = self.shared.paths.get(&key) {
            return Ok(Rc::clone(known));
        }
        let nodes: Rc<[NodeRef]> = self.evaluator.nodes(path, Context::at(node))?.into();
        if self.shared.take_room(ENTRY_BYTES + size_of_val(&*nodes)) {
            self.shared.paths.insert(key, Rc::clone(&nodes));
        }
        Ok(nodes)
    }

    /// The bindings that satisfy a condition, of those in `left` if given; indices into `nodes`, ascending.
    fn passing(
        &mut self,
        source: &'a Arc<Expr>,
        nodes: &[NodeRef],
        variable: VariableId,
        condition: &'a Condition,
        left: Option<&[u32]>,
    ) -> Result<Rc<[u32]>, ExtractError> {
        if let Some((path, constant)) = &condition.equals {
            let key = (Arc::as_ptr(source), Arc::as_ptr(path));
            if self.shared.by_value.contains_key(&key)
                || is_shared(path) && self.shared.take_room(nodes.len() * ENTRY_BYTES)
            {
                return self.equal(source, nodes, path, constant);
            }
        }
        let Bound::Node(_, expr) = &condition.bound else { return Ok(Rc::new([])) };
        let key = (Arc::as_ptr(source), Arc::as_ptr(expr));
        let mut keeps = is_shared(expr);
        if keeps {
            if let Some(known) = self.shared.passing.get(&key) {
                return Ok(Rc::clone(known));
            }
            keeps = self.shared.take_room(ENTRY_BYTES + size_of_val(nodes));
        }
        let all: Vec<u32>;
        let candidates = match left {
            Some(left) if !keeps => left,
            _ => {
                all = (0..nodes.len() as u32).collect();
                &all
            }
        };
        let mut passing = Vec::new();
        for &index in candidates {
            self.bind(variable, nodes[index as usize]);
            if self.boolean(&condition.bound)? {
                passing.push(index);
            }
        }
        let passing: Rc<[u32]> = passing.into();
        if keeps {
            self.shared.passing.insert(key, Rc::clone(&passing));
        }
        Ok(passing)
    }

    /// The bindings from which a path leads to a node with a given string.
    fn equal(
        &mut self,
        source: &'a Arc<Expr>,
        nodes: &[NodeRef],
        path: &'a Arc<Expr>,
        constant: &str,
    ) -> Result<Rc<[u32]>, ExtractError> {
        let key = (Arc::as_ptr(source), Arc::as_ptr(path));
        let index = match self.shared.by_value.get(&key) {
            Some(index) => Rc::clone(index),
            None => {
                let index = Rc::new(self.index_by_value(nodes, path)?);
                self.shared.by_value.insert(key, Rc::clone(&index));
                index
            }
        };
        Ok(index.get(constant).map_or_else(|| Rc::new([]) as Rc<[u32]>, |found| found.as_slice().into()))
    }

    fn index_by_value(&mut self, nodes: &[NodeRef], path: &'a Arc<Expr>) -> Result<ByValue, ExtractError> {
        let mut by_value = ByValue::default();
        for (index, &node) in nodes.iter().enumerate() {
            for found in self.evaluator.nodes(path, Context::at(node))? {
                let value = self.evaluator.string_value(found)?;
                let bindings = match by_value.get_mut(&*value) {
                    Some(bindings) => bindings,
                    None => by_value.entry(value.into()).or_default(),
                };
                if bindings.last() != Some(&(index as u32)) {
                    bindings.push(index as u32);
                }
            }
        }
        Ok(by_value)
    }

    /// Is there a table of kept results, or room for one?
    fn has_places(&mut self, result: &Arc<Op>, source: &Arc<Expr>, count: usize) -> bool {
        self.shared.rendered.contains_key(&(Arc::as_ptr(result), Arc::as_ptr(source)))
            || self.shared.take_room(ENTRY_BYTES + count * size_of::<Option<Place>>())
    }

    /// Writes the results for bindings, from what is kept as far as it is. The results are elements.
    fn write_kept(
        &mut self,
        each: &'a Loop,
        variable: VariableId,
        source: &'a Arc<Expr>,
        nodes: &[NodeRef],
        left: Option<&[u32]>,
    ) -> Result<(), ExtractError> {
        self.begin_content()?;
        let key = (Arc::as_ptr(&each.result), Arc::as_ptr(source));
        let mut places = self.shared.rendered.remove(&key).unwrap_or_else(|| vec![None; nodes.len()]);
        let written = indices(nodes.len(), left).try_for_each(|index| {
            if let Some((start, end)) = places[index] {
                return self.output.push(&self.shared.bytes[start..end]);
            }
            self.bind(variable, nodes[index]);
            let start = self.output.bytes.len();
            self.op(&each.result)?;
            places[index] = self.shared.keep(&self.output.bytes[start..]);
            Ok(())
        });
        self.after_value = false;
        self.shared.rendered.insert(key, places);
        written
    }
}

/// The indices in `left`, or all of `count`.
fn indices(count: usize, left: Option<&[u32]>) -> impl Iterator<Item = usize> + '_ {
    let chosen = left.map_or(count, <[u32]>::len);
    (0..chosen).map(move |at| left.map_or(at, |left| left[at] as usize))
}

/// What two ascending lists have in common.
fn intersection(a: &[u32], b: &[u32]) -> Rc<[u32]> {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    let mut both = Vec::new();
    while let (Some(&&x), Some(&&y)) = (a.peek(), b.peek()) {
        if x <= y {
            a.next();
        }
        if y <= x {
            b.next();
        }
        if x == y {
            both.push(x);
        }
    }
    both.into()
}
