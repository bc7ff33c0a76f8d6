//! The queries that guides decide, filed when they are registered.
//!
//! A *pair* is a binding path with a path relative to it, a *class* a pair with a constant that it is compared with, a
//! *make* a binding path with what is made of its bindings. A query is a *member* of one class, may ask for others too,
//! and has one make.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::super::program::Program;
use super::super::program::family::{ConstantId, Family, Interned, NONE};
use super::super::program::template::Skeleton;
use super::linear_path::LinearPath;

pub(super) type BindingPathId = u32;
pub(super) type ComparedPathId = u32;
pub(super) type ConditionClassId = u32;
pub(super) type ResultPlanId = u32;

/// Binding paths and pairs at most: guides look at all of them whenever a message brings something new. Queries beyond
/// are decided as if there were no guides.
const PAIRS_MAX: usize = 4096;

/// Changes that are remembered at least.
const CHANGES_MIN: usize = 1024;

/// A binding path.
#[derive(Clone, Debug)]
pub(super) struct BindingPath {
    pub path: LinearPath,
    /// The number by which it is known.
    number: u32,
    /// The class of the queries without a condition.
    all: u32,
}

/// A binding path and a path from its bindings.
#[derive(Clone, Debug)]
pub(super) struct ComparedPath {
    pub source: BindingPathId,
    pub path: LinearPath,
    number: u32,
    /// How many classes compare it.
    pub compared: u32,
}

/// The queries that compare a pair with a constant.
#[derive(Clone, Debug)]
pub(super) struct ConditionClass {
    pub source: BindingPathId,
    /// [`NONE`]: all bindings do.
    pub pair: ComparedPathId,
    pub constant: ConstantId,
    pub members: Vec<ClassMember>,
}

/// A query in its class.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClassMember {
    pub query: u32,
    pub plan: ResultPlanId,
    /// Which other classes it asks for; [`NONE`]: none.
    pub also: u32,
}

/// What is made of bindings.
#[derive(Clone, Debug)]
pub(super) struct ResultPlan {
    pub source: BindingPathId,
    pub skeleton: Arc<Interned<Skeleton>>,
    /// The pairs of the returned paths.
    pub columns: Box<[ComparedPathId]>,
}

/// Where a query is filed.
#[derive(Clone, Copy, Debug)]
struct CatalogPosition {
    class: ConditionClassId,
    index: u32,
}

/// Objects with numbers and counts of their uses.
#[derive(Clone, Debug)]
pub(super) struct RefCounted<T> {
    entries: Vec<Option<(T, u32)>>,
    free: Vec<u32>,
}

impl<T> Default for RefCounted<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }
}

impl<T> RefCounted<T> {
    /// One past the largest number.
    pub fn bound(&self) -> usize {
        self.entries.len()
    }

    fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    #[inline]
    pub fn get(&self, id: u32) -> Option<&T> {
        self.entries.get(id as usize)?.as_ref().map(|(object, _)| object)
    }

    fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        self.entries.get_mut(id as usize)?.as_mut().map(|(object, _)| object)
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.entries.iter().enumerate().filter_map(|(id, entry)| Some((id as u32, &entry.as_ref()?.0)))
    }

    /// Adds an object that is used once.
    fn insert(&mut self, object: T) -> u32 {
        match self.free.pop() {
            Some(id) => {
                self.entries[id as usize] = Some((object, 1));
                id
            }
            None => {
                self.entries.push(Some((object, 1)));
                self.entries.len() as u32 - 1
            }
        }
    }

    fn use_again(&mut self, id: u32) {
        if let Some(Some((_, uses))) = self.entries.get_mut(id as usize) {
            *uses += 1;
        }
    }

    /// Takes a use back; the object, if it was the last.
    fn release(&mut self, id: u32) -> Option<T> {
        let entry = self.entries.get_mut(id as usize)?;
        if let Some((_, uses)) = entry {
            *uses -= 1;
            if *uses > 0 {
                return None;
            }
        }
        let (object, _) = entry.take()?;
        self.free.push(id);
        Some(object)
    }
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueryCatalog {
    pub(super) sources: RefCounted<BindingPath>,
    pub(super) pairs: RefCounted<ComparedPath>,
    pub(super) classes: RefCounted<ConditionClass>,
    pub(super) plans: RefCounted<ResultPlan>,
    pub(super) also: RefCounted<Box<[ConditionClassId]>>,
    /// By number of the path.
    source_ids: FxHashMap<u32, BindingPathId>,
    /// By source and number of the path.
    pair_ids: FxHashMap<u64, ComparedPathId>,
    /// By pair and constant.
    class_ids: FxHashMap<u64, ConditionClassId>,
    /// By source, number of the skeleton, and pairs.
    plan_ids: FxHashMap<Vec<u32>, ResultPlanId>,
    /// By query.
    positions: Vec<Option<CatalogPosition>>,
    members: usize,
    /// The queries that came or went, in order, and how many of them are not here any more.
    changes: Vec<u32>,
    forgotten: u64,
}

pub(super) fn key(a: u32, b: u32) -> u64 {
    u64::from(a) << 32 | u64::from(b)
}

impl QueryCatalog {
    /// Is there no query?
    pub(crate) fn is_empty(&self) -> bool {
        self.members == 0
    }

    /// Is the query here?
    #[inline]
    pub(crate) fn contains(&self, query: u32) -> bool {
        matches!(self.positions.get(query as usize), Some(Some(_)))
    }

    /// The queries here.
    pub(crate) fn queries(&self) -> impl Iterator<Item = u32> + '_ {
        self.positions.iter().enumerate().filter_map(|(query, position)| position.map(|_| query as u32))
    }

    /// How many queries are here.
    pub(super) fn len(&self) -> usize {
        self.members
    }

    /// How many binding paths and pairs there are.
    pub(super) fn path_count(&self) -> usize {
        self.sources.len() + self.pairs.len()
    }

    /// How often a query came or went.
    pub(super) fn edition(&self) -> u64 {
        self.forgotten + self.changes.len() as u64
    }

    /// The queries that came or went since an edition; `None`: so many that it is not known.
    pub(super) fn changes_since(&self, edition: u64) -> Option<&[u32]> {
        self.changes.get(usize::try_from(edition.checked_sub(self.forgotten)?).ok()?..)
    }

    fn note_change(&mut self, query: u32) {
        if self.changes.len() > CHANGES_MIN.max(self.members / 4) {
            self.forgotten += self.changes.len() as u64;
            self.changes.clear();
        }
        self.changes.push(query);
    }

    /// The class of all bindings of a source, if any query is interested.
    fn class_of_all(&self, source: BindingPathId) -> Option<ConditionClassId> {
        self.sources.get(source).map(|source| source.all).filter(|&class| class != NONE)
    }

    /// Files a query, if it is of the kind that guides decide; whether it is.
    pub(crate) fn add(&mut self, query: u32, program: &Program) -> bool {
        let Some(family) = &program.family else { return false };
        self.file(query, family).is_some()
    }

    fn file(&mut self, query: u32, family: &Family) -> Option<()> {
        let group = &*family.group;
        let template = group.template.as_ref()?;
        if !group.guards.is_empty() || !group.conditions.is_empty() || self.pairs.len() >= PAIRS_MAX {
            return None;
        }
        let source = LinearPath::from_message(&group.source.path)?;
        let path =
            |path: &super::super::program::family::SharedPath| Some((path.id, LinearPath::from_element(&path.path)?));
        let compared: Vec<_> = group.compared.iter().map(|shared| path(shared)).collect::<Option<_>>()?;
        let columns: Vec<_> = template.columns.iter().map(|shared| path(shared)).collect::<Option<_>>()?;
        if columns.iter().any(|(_, path)| path.attribute.is_some()) {
            return None;
        }
        let source = self.acquire_source(group.source.id, source);
        let mut classes = Vec::with_capacity(compared.len().max(1));
        for ((number, path), constant) in compared.into_iter().zip(&family.constants) {
            classes.push(self.acquire_class(source, number, path, constant.id));
        }
        if classes.is_empty() {
            classes.push(self.acquire_class_of_all(source));
        }
        let make = self.acquire_plan(source, &template.skeleton, columns);
        // The classes and the make hold on to it.
        self.release_source(source);
        let lead = classes.remove(0);
        let also = if classes.is_empty() { NONE } else { self.also.insert(classes.into()) };
        if self.positions.len() <= query as usize {
            self.positions.resize(query as usize + 1, None);
        }
        let class = self.classes.get_mut(lead)?;
        self.positions[query as usize] = Some(CatalogPosition { class: lead, index: class.members.len() as u32 });
        class.members.push(ClassMember { query, plan: make, also });
        self.members += 1;
        self.note_change(query);
        Some(())
    }

    /// Takes a query out, if it is here.
    pub(crate) fn remove(&mut self, query: u32) {
        let Some(position) = self.positions.get_mut(query as usize).and_then(Option::take) else { return };
        let Some(class) = self.classes.get_mut(position.class) else { return };
        let member = class.members.swap_remove(position.index as usize);
        if let Some(moved) = class.members.get(position.index as usize) {
            self.positions[moved.query as usize] = Some(position);
        }
        self.members -= 1;
        self.note_change(query);
        let others = self.also.release(member.also).unwrap_or_default();
        for &class in std::iter::once(&position.class).chain(&others) {
            self.release_class(class);
        }
        self.release_plan(member.plan);
    }

    fn acquire_source(&mut self, number: u32, path: LinearPath) -> BindingPathId {
        if let Some(&existing) = self.source_ids.get(&number) {
            self.sources.use_again(existing);
            return existing;
        }
        let id = self.sources.insert(BindingPath { path, number, all: NONE });
        self.source_ids.insert(number, id);
        id
    }

    fn release_source(&mut self, id: BindingPathId) {
        if let Some(source) = self.sources.release(id) {
            self.source_ids.remove(&source.number);
        }
    }

    fn acquire_pair(&mut self, source: BindingPathId, number: u32, path: LinearPath) -> ComparedPathId {
        if let Some(&existing) = self.pair_ids.get(&key(source, number)) {
            self.pairs.use_again(existing);
            return existing;
        }
        self.sources.use_again(source);
        let id = self.pairs.insert(ComparedPath { source, path, number, compared: 0 });
        self.pair_ids.insert(key(source, number), id);
        id
    }

    fn release_pair(&mut self, id: ComparedPathId) {
        if let Some(pair) = self.pairs.release(id) {
            self.pair_ids.remove(&key(pair.source, pair.number));
            self.release_source(pair.source);
        }
    }

    fn acquire_class(
        &mut self,
        source: BindingPathId,
        number: u32,
        path: LinearPath,
        constant: ConstantId,
    ) -> ConditionClassId {
        let pair = self.acquire_pair(source, number, path);
        if let Some(&existing) = self.class_ids.get(&key(pair, constant)) {
            self.classes.use_again(existing);
            self.release_pair(pair);
            return existing;
        }
        self.sources.use_again(source);
        if let Some(pair) = self.pairs.get_mut(pair) {
            pair.compared += 1;
        }
        let id = self.classes.insert(ConditionClass { source, pair, constant, members: Vec::new() });
        self.class_ids.insert(key(pair, constant), id);
        id
    }

    fn acquire_class_of_all(&mut self, source: BindingPathId) -> ConditionClassId {
        if let Some(existing) = self.class_of_all(source) {
            self.classes.use_again(existing);
            return existing;
        }
        self.sources.use_again(source);
        let id = self.classes.insert(ConditionClass { source, pair: NONE, constant: NONE, members: Vec::new() });
        if let Some(source) = self.sources.get_mut(source) {
            source.all = id;
        }
        id
    }

    fn release_class(&mut self, id: ConditionClassId) {
        let Some(class) = self.classes.release(id) else { return };
        if class.pair == NONE {
            if let Some(source) = self.sources.get_mut(class.source) {
                source.all = NONE;
            }
        } else {
            self.class_ids.remove(&key(class.pair, class.constant));
            if let Some(pair) = self.pairs.get_mut(class.pair) {
                pair.compared -= 1;
            }
            self.release_pair(class.pair);
        }
        self.release_source(class.source);
    }

    fn acquire_plan(
        &mut self,
        source: BindingPathId,
        skeleton: &Arc<Interned<Skeleton>>,
        columns: Vec<(u32, LinearPath)>,
    ) -> ResultPlanId {
        let columns: Vec<ComparedPathId> =
            columns.into_iter().map(|(number, path)| self.acquire_pair(source, number, path)).collect();
        let plan_key = self::plan_key(source, skeleton, &columns);
        if let Some(&existing) = self.plan_ids.get(&plan_key) {
            self.plans.use_again(existing);
            columns.into_iter().for_each(|pair| self.release_pair(pair));
            return existing;
        }
        self.sources.use_again(source);
        let id = self.plans.insert(ResultPlan { source, skeleton: Arc::clone(skeleton), columns: columns.into() });
        self.plan_ids.insert(plan_key, id);
        id
    }

    fn release_plan(&mut self, id: ResultPlanId) {
        if let Some(plan) = self.plans.release(id) {
            self.plan_ids.remove(&plan_key(plan.source, &plan.skeleton, &plan.columns));
            plan.columns.iter().for_each(|&pair| self.release_pair(pair));
            self.release_source(plan.source);
        }
    }
}

fn plan_key(source: BindingPathId, skeleton: &Interned<Skeleton>, columns: &[ComparedPathId]) -> Vec<u32> {
    [&[source, skeleton.id], columns].concat()
}
