//! What the programs of one session have in common, computed once a message.
//!
//! The interner makes what is equal one object (`family.rs`); here its results are kept by that object's address or
//! number:
//!
//! - the *list* of nodes that a binding path selects; paths that select the same nodes share it;
//! - by compared path and list, the *set* of bindings from which the path leads to a value, for each value that is some
//!   query's constant (the shared selection); and the set of those that satisfy any other condition;
//! - the bytes of the nodes that a path leads to from a binding's node (the shared GroupBy);
//! - the bytes of a result for a binding (the shared outer join);
//! - the payload that a shape makes of a set: one, however many queries get it.
//!
//! Sets are indices into the list, ascending; equal sets have one number. The memory is bounded: past
//! [`crate::limits::Limits::cache_bytes_max`] nothing more is kept, and queries are run one by one.

use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::eval::{Context, NodeRef, number};
use crate::query::ast::{Expr, VariableId};

use super::ExtractError;
use super::family::{ConstantId, Family, FamilyRef, Group, GroupId};
use super::program::{Op, Program};
use super::run::Session;

/// An expression or result by its address. It outlives the session.
type ExprAddress = *const Expr;
type OpAddress = *const Op;

/// Numbers of node lists and of sets of bindings.
type ListId = u32;
type SetId = u32;

/// The set without bindings.
const EMPTY: SetId = 0;

/// Programs that must have something in common before it is kept; the interner holds one reference itself.
const USERS_MIN: usize = 2;

/// What an entry of a table takes, about.
const ENTRY_BYTES: usize = 64;

/// Start and end in the kept bytes.
type Place = (usize, usize);

/// Sets of bindings by the constant that a path from them leads to.
type ByConstant = FxHashMap<ConstantId, SetId>;

/// A payload's number; `None`: no binding passes.
pub(super) type Delivered = Result<Option<u32>, ExtractError>;

/// A group on this message.
enum GroupState {
    /// A condition that no binding can change does not hold.
    Never,
    /// It cannot be evaluated.
    Failed(ExtractError),
    Ready {
        list: ListId,
        /// By path that is compared with a constant.
        tables: Vec<Rc<ByConstant>>,
        /// The bindings that satisfy all other conditions; `None`: there are none.
        others: Option<SetId>,
        /// Index of its table of payloads.
        payloads: u32,
    },
}

/// The bindings to make a result of.
pub(super) struct Bindings {
    list: ListId,
    set: SetId,
    /// Others will ask for results of the same bindings.
    keeps: bool,
}

/// Results kept for one message.
pub(super) struct Shared {
    groups: FxHashMap<GroupId, GroupState>,
    sources: FxHashMap<ExprAddress, ListId>,
    lists: Vec<Rc<[NodeRef]>>,
    list_ids: FxHashMap<Rc<[NodeRef]>, ListId>,
    sets: Vec<Rc<[u32]>>,
    set_ids: FxHashMap<Rc<[u32]>, SetId>,
    by_constant: FxHashMap<(ListId, ExprAddress), Rc<ByConstant>>,
    passing: FxHashMap<(ListId, ExprAddress), SetId>,
    payload_tables: FxHashMap<(OpAddress, ListId), u32>,
    payloads: Vec<FxHashMap<SetId, Result<u32, ExtractError>>>,
    path_bytes: FxHashMap<(ExprAddress, NodeRef), Place>,
    /// Where in `bytes` the result for each binding is.
    rendered: FxHashMap<(OpAddress, ListId), Vec<Option<Place>>>,
    bytes: Vec<u8>,
    /// Bytes that may still be kept, in all.
    room: usize,
}

impl Shared {
    pub fn new(bytes_max: usize) -> Self {
        let empty: Rc<[u32]> = Rc::new([]);
        Self {
            groups: FxHashMap::default(),
            sources: FxHashMap::default(),
            lists: Vec::new(),
            list_ids: FxHashMap::default(),
            sets: vec![Rc::clone(&empty)],
            set_ids: FxHashMap::from_iter([(empty, EMPTY)]),
            by_constant: FxHashMap::default(),
            passing: FxHashMap::default(),
            payload_tables: FxHashMap::default(),
            payloads: Vec::new(),
            path_bytes: FxHashMap::default(),
            rendered: FxHashMap::default(),
            bytes: Vec::new(),
            room: bytes_max,
        }
    }

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

    /// The number of a set; `None`: there is no room for it.
    fn set_id(&mut self, set: Vec<u32>) -> Option<SetId> {
        if let Some(&known) = self.set_ids.get(&set[..]) {
            return Some(known);
        }
        if !self.take_room(ENTRY_BYTES + size_of_val(&set[..])) {
            return None;
        }
        let id = self.sets.len() as SetId;
        let set: Rc<[u32]> = set.into();
        self.sets.push(Rc::clone(&set));
        self.set_ids.insert(set, id);
        Some(id)
    }

    /// What two sets have in common.
    fn both(&mut self, a: SetId, b: SetId) -> Option<SetId> {
        if a == b || a == EMPTY {
            return Some(a);
        }
        let both = intersection(&self.sets[a as usize], &self.sets[b as usize]);
        self.set_id(both)
    }

    /// The table of the payloads that a shape makes of bindings in a list.
    fn payload_table(&mut self, shape: &Arc<Op>, list: ListId) -> u32 {
        *self.payload_tables.entry((Arc::as_ptr(shape), list)).or_insert_with(|| {
            self.payloads.push(FxHashMap::default());
            self.payloads.len() as u32 - 1
        })
    }
}

fn is_shared<T>(object: &Arc<T>) -> bool {
    Arc::strong_count(object) > USERS_MIN
}

/// `?` for what is `None` when there is no room.
macro_rules! room {
    ($kept:expr) => {
        match $kept {
            Some(kept) => kept,
            None => return Ok(None),
        }
    };
}

impl<'a> Session<'a> {
    /// The payload of a query: its number, or `None` if no binding passes or the query rewrites nothing. Where the answer
    /// is known already, the program is not asked for.
    ///
    /// # Errors
    /// There are bindings, but no payload.
    #[inline]
    pub(crate) fn deliver_member(
        &mut self,
        member: FamilyRef,
        program: impl FnOnce() -> Option<&'a Program>,
    ) -> Delivered {
        if let Some(known) = self.shared.known(member) {
            return known;
        }
        program().map_or(Ok(None), |program| self.deliver(program))
    }

    /// The payload of a program: its number, or `None` if no binding passes.
    ///
    /// # Errors
    /// There are bindings, but no payload.
    pub fn deliver(&mut self, program: &'a Program) -> Delivered {
        if let Some(family) = &program.family {
            if let Some(answer) = self.deliver_family(program, family)? {
                return Ok(answer);
            }
        }
        self.deliver_alone(program)
    }

    /// The payload of a program by what it has in common with others; outer `None`: there is no room to.
    fn deliver_family(
        &mut self,
        program: &'a Program,
        family: &'a Family,
    ) -> Result<Option<Option<u32>>, ExtractError> {
        if !self.shared.groups.contains_key(&family.id) {
            self.begin(program);
            let state = match self.group_state(&family.group) {
                Ok(state) => room!(state),
                Err(error) => GroupState::Failed(error),
            };
            self.shared.groups.insert(family.id, state);
        }
        let (list, payloads) = match self.shared.groups.get(&family.id) {
            Some(GroupState::Ready { list, payloads, .. }) => (*list, *payloads as usize),
            Some(GroupState::Failed(error)) => return Err(error.clone()),
            Some(GroupState::Never) | None => return Ok(Some(None)),
        };
        let set = room!(self.shared.bindings_of(family));
        if set == EMPTY {
            return Ok(Some(None));
        }
        if let Some(known) = self.shared.payloads[payloads].get(&set) {
            return known.clone().map(|number| Some(Some(number)));
        }
        self.begin(program);
        self.bindings = Some(Bindings { list, set, keeps: family.is_one_of_several() });
        let payload = self.op(&family.group.shape).map(|()| self.output.finish());
        if self.shared.take_room(ENTRY_BYTES) {
            self.shared.payloads[payloads].insert(set, payload.clone());
        }
        payload.map(|number| Some(Some(number)))
    }

    /// Evaluates what the families of a group have in common; `None`: there is no room to keep it.
    fn group_state(&mut self, group: &'a Group) -> Result<Option<GroupState>, ExtractError> {
        for guard in &group.guards {
            if !self.evaluator.boolean(guard, Context::DOCUMENT)? {
                return Ok(Some(GroupState::Never));
            }
        }
        let list = room!(self.list(&group.source)?);
        let mut tables = Vec::with_capacity(group.compared.len());
        for path in &group.compared {
            tables.push(room!(self.by_constant(list, path)?));
        }
        let mut others = None;
        for condition in &group.conditions {
            let passing = room!(self.passing(list, condition, others)?);
            others = Some(match others {
                Some(others) => room!(self.shared.both(others, passing)),
                None => passing,
            });
        }
        if others.is_none() && tables.is_empty() {
            let count = self.shared.lists[list as usize].len() as u32;
            others = Some(room!(self.shared.set_id((0..count).collect())));
        }
        if !self.shared.take_room(ENTRY_BYTES) {
            return Ok(None);
        }
        let payloads = self.shared.payload_table(&group.shape, list);
        Ok(Some(GroupState::Ready { list, tables, others, payloads }))
    }

    /// The nodes of a binding path.
    fn list(&mut self, source: &'a Arc<Expr>) -> Result<Option<ListId>, ExtractError> {
        let address = Arc::as_ptr(source);
        if let Some(&list) = self.shared.sources.get(&address) {
            return Ok(Some(list));
        }
        let nodes: Rc<[NodeRef]> = self.evaluator.nodes(source, Context::DOCUMENT)?.into();
        let shared = &mut self.shared;
        let list = match shared.list_ids.get(&nodes) {
            Some(&list) => list,
            None => {
                if !shared.take_room(ENTRY_BYTES + size_of_val(&*nodes)) {
                    return Ok(None);
                }
                shared.lists.push(Rc::clone(&nodes));
                let list = shared.lists.len() as ListId - 1;
                shared.list_ids.insert(nodes, list);
                list
            }
        };
        shared.sources.insert(address, list);
        Ok(Some(list))
    }

    /// The bindings from which a path leads to each of the constants.
    fn by_constant(&mut self, list: ListId, path: &'a Arc<Expr>) -> Result<Option<Rc<ByConstant>>, ExtractError> {
        let key = (list, Arc::as_ptr(path));
        if let Some(known) = self.shared.by_constant.get(&key) {
            return Ok(Some(Rc::clone(known)));
        }
        let nodes = Rc::clone(&self.shared.lists[list as usize]);
        let has_numbers = self.interner.has_numbers();
        let mut indices: FxHashMap<ConstantId, Vec<u32>> = FxHashMap::default();
        for (index, &node) in nodes.iter().enumerate() {
            for found in self.evaluator.nodes(path, Context::at(node))? {
                let value = self.evaluator.string_value(found)?;
                let number = if has_numbers { self.interner.number(number::parse(&value)) } else { None };
                for constant in self.interner.text(&value).into_iter().chain(number) {
                    let bindings = indices.entry(constant).or_default();
                    if bindings.last() != Some(&(index as u32)) {
                        bindings.push(index as u32);
                    }
                }
            }
        }
        if !self.shared.take_room(ENTRY_BYTES * (1 + indices.len())) {
            return Ok(None);
        }
        let mut by_constant = ByConstant::default();
        for (constant, bindings) in indices {
            by_constant.insert(constant, room!(self.shared.set_id(bindings)));
        }
        let by_constant = Rc::new(by_constant);
        self.shared.by_constant.insert(key, Rc::clone(&by_constant));
        Ok(Some(by_constant))
    }

    /// The bindings that satisfy a condition; where no other query has the condition, of those in `left`.
    fn passing(
        &mut self,
        list: ListId,
        condition: &'a Arc<Expr>,
        left: Option<SetId>,
    ) -> Result<Option<SetId>, ExtractError> {
        let key = (list, Arc::as_ptr(condition));
        if let Some(&known) = self.shared.passing.get(&key) {
            return Ok(Some(known));
        }
        let nodes = Rc::clone(&self.shared.lists[list as usize]);
        let keeps = is_shared(condition);
        let left = left.filter(|_| !keeps).map(|left| Rc::clone(&self.shared.sets[left as usize]));
        let mut passing = Vec::new();
        for index in indices(nodes.len(), left.as_deref()) {
            if self.evaluator.boolean(condition, Context::at(nodes[index]))? {
                passing.push(index as u32);
            }
        }
        let passing = room!(self.shared.set_id(passing));
        if keeps && self.shared.take_room(ENTRY_BYTES) {
            self.shared.passing.insert(key, passing);
        }
        Ok(Some(passing))
    }

    /// Writes the results of the bindings that were found.
    pub(super) fn write_bindings(&mut self, variable: VariableId, result: &'a Arc<Op>) -> Result<(), ExtractError> {
        let Some(Bindings { list, set, keeps }) = self.bindings.take() else { return Ok(()) };
        let nodes = Rc::clone(&self.shared.lists[list as usize]);
        let chosen = Rc::clone(&self.shared.sets[set as usize]);
        let keeps = (keeps || is_shared(result)) && matches!(**result, Op::Element(_)) && self.scope.is_empty();
        if keeps && self.has_places(result, list, nodes.len()) {
            return self.write_kept(variable, result, list, &nodes, &chosen);
        }
        chosen.iter().try_for_each(|&index| {
            self.bind(variable, nodes[index as usize]);
            self.op(result)
        })
    }

    /// Is there a table of kept results, or room for one?
    fn has_places(&mut self, result: &Arc<Op>, list: ListId, count: usize) -> bool {
        self.shared.rendered.contains_key(&(Arc::as_ptr(result), list))
            || self.shared.take_room(ENTRY_BYTES + count * size_of::<Option<Place>>())
    }

    /// Writes the results for bindings, from what is kept as far as it is. The results are elements.
    fn write_kept(
        &mut self,
        variable: VariableId,
        result: &'a Arc<Op>,
        list: ListId,
        nodes: &[NodeRef],
        chosen: &[u32],
    ) -> Result<(), ExtractError> {
        self.begin_content()?;
        let key = (Arc::as_ptr(result), list);
        let mut places = self.shared.rendered.remove(&key).unwrap_or_else(|| vec![None; nodes.len()]);
        let written = chosen.iter().try_for_each(|&index| {
            let place = &mut places[index as usize];
            if let Some((start, end)) = *place {
                return self.output.push(&self.shared.bytes[start..end]);
            }
            self.bind(variable, nodes[index as usize]);
            let start = self.output.position();
            self.op(result)?;
            *place = self.output.since(start).and_then(|bytes| self.shared.keep(bytes));
            Ok(())
        });
        self.after_value = false;
        self.shared.rendered.insert(key, places);
        written
    }

    /// Writes the nodes that a path leads to from a binding's node.
    pub(super) fn write_path(&mut self, variable: VariableId, path: &'a Arc<Expr>) -> Result<(), ExtractError> {
        let node = self.node_of(variable);
        let key = (Arc::as_ptr(path), node);
        let keeps = is_shared(path) && self.scope.is_empty();
        if keeps {
            if let Some(&(start, end)) = self.shared.path_bytes.get(&key) {
                if start == end {
                    return Ok(());
                }
                self.begin_content()?;
                self.after_value = false;
                return self.output.push_raw_text(&self.shared.bytes[start..end]);
            }
        }
        let nodes = self.evaluator.nodes(path, Context::at(node))?;
        let keeps = keeps && nodes.iter().all(|node| matches!(node, NodeRef::Node(_)));
        if !nodes.is_empty() {
            if keeps {
                self.begin_content()?;
            }
            self.after_value = false;
        }
        let start = self.output.position();
        nodes.iter().try_for_each(|&node| self.copy(node))?;
        if keeps && self.shared.take_room(ENTRY_BYTES) {
            let place = self.output.since(start).and_then(|bytes| self.shared.keep(bytes));
            if let Some(place) = place {
                self.shared.path_bytes.insert(key, place);
            }
        }
        Ok(())
    }
}

impl Shared {
    /// The payload of a query that is no different from one delivered already.
    #[inline]
    fn known(&self, member: FamilyRef) -> Option<Delivered> {
        match self.groups.get(&member.group)? {
            GroupState::Ready { tables, others: None, payloads, .. } => {
                let [table] = &tables[..] else { return None };
                match table.get(&member.constant) {
                    Some(set) => Some(self.payloads[*payloads as usize].get(set)?.clone().map(Some)),
                    None => Some(Ok(None)),
                }
            }
            GroupState::Ready { .. } => None,
            GroupState::Never => Some(Ok(None)),
            GroupState::Failed(error) => Some(Err(error.clone())),
        }
    }

    /// The bindings of a family in a group that is ready; `None`: there is no room for another set.
    fn bindings_of(&mut self, family: &Family) -> Option<SetId> {
        let GroupState::Ready { tables, others, .. } = self.groups.get(&family.id)? else { return None };
        let found = tables.iter().zip(&family.constants);
        let sets = found.map(|(table, constant)| table.get(&constant.id).copied().unwrap_or(EMPTY));
        let sets: Vec<SetId> = others.iter().copied().chain(sets).collect();
        let (&first, more) = sets.split_first()?;
        more.iter().try_fold(first, |left, &set| self.both(left, set))
    }
}

/// The indices in `left`, or all of `count`.
fn indices(count: usize, left: Option<&[u32]>) -> impl Iterator<Item = usize> + '_ {
    let chosen = left.map_or(count, <[u32]>::len);
    (0..chosen).map(move |at| left.map_or(at, |left| left[at] as usize))
}

/// What two ascending lists have in common.
fn intersection(a: &[u32], b: &[u32]) -> Vec<u32> {
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
    both
}
