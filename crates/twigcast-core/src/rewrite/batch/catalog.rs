//! The catalog of the queries that the batch rewriter decides, filed when they are registered.
//!
//! A *compared path* is a binding path with a path relative to its bindings. A *condition class* is a compared path with
//! a constant that it must be equal to. A *result plan* is a binding path with what is made of its bindings. A query is a
//! *member* of one class, may ask for further classes too, and has one plan. All parts are shared and counted, so that
//! adding or removing a query takes time in proportion to its own size.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::ids::{
    BindingPathId, ComparedPathId, ConditionClassId, ConstantId, FurtherClassesId, ResultPlanId, SharedPathId,
    SkeletonId, TableId,
};

use super::super::program::Program;
use super::super::program::family::{Family, SharedPath, SharedSkeleton};
use super::linear_path::LinearPath;

/// Number of compared paths at most, because each new label path is compared with all of them. Queries beyond are
/// decided one by one.
const PATHS_MAX: usize = 4096;

/// Number of changes that are remembered at least.
const CHANGES_MIN: usize = 1024;

/// A path from the document to the bindings of queries.
#[derive(Clone, Debug)]
pub(super) struct BindingPath {
    pub path: LinearPath,
    shared_id: SharedPathId,
    /// The class of the queries without a condition; `ABSENT` if there is none.
    unconditional: ConditionClassId,
}

/// A binding path and a path from its bindings.
#[derive(Clone, Debug)]
pub(super) struct ComparedPath {
    pub source: BindingPathId,
    pub path: LinearPath,
    shared_id: SharedPathId,
    /// Number of classes that compare it. Other uses return it.
    pub class_count: u32,
}

/// The queries that compare a path with a constant.
#[derive(Clone, Debug)]
pub(super) struct ConditionClass {
    pub source: BindingPathId,
    /// The path; `ABSENT` for queries without a condition.
    pub compared: ComparedPathId,
    pub constant: ConstantId,
    pub members: Vec<ClassMember>,
}

/// A query in its class.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClassMember {
    pub query: u32,
    pub plan: ResultPlanId,
    /// The further classes that it asks for; `ABSENT` for none.
    pub further: FurtherClassesId,
}

/// The result that queries make of the bindings of one path.
#[derive(Clone, Debug)]
pub(super) struct ResultPlan {
    pub source: BindingPathId,
    pub skeleton: Arc<SharedSkeleton>,
    /// The returned paths, by column of the skeleton.
    pub columns: Box<[ComparedPathId]>,
}

/// The position of a query among the members of its class.
#[derive(Clone, Copy, Debug)]
struct CatalogPosition {
    class: ConditionClassId,
    index: u32,
}

/// Objects by id with a count of their uses. Ids of released objects are reused.
#[derive(Clone, Debug)]
pub(super) struct RefCounted<I, T> {
    entries: Vec<Option<(T, u32)>>,
    free: Vec<I>,
}

impl<I, T> Default for RefCounted<I, T> {
    fn default() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }
}

impl<I: TableId, T> RefCounted<I, T> {
    /// Returns a number above the indexes of all ids.
    pub fn bound(&self) -> usize {
        self.entries.len()
    }

    fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Returns the object of an id.
    #[inline]
    pub fn get(&self, id: I) -> Option<&T> {
        self.entries.get(id.index())?.as_ref().map(|(object, _)| object)
    }

    fn get_mut(&mut self, id: I) -> Option<&mut T> {
        self.entries.get_mut(id.index())?.as_mut().map(|(object, _)| object)
    }

    /// Iterates over the objects with their ids, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (I, &T)> {
        self.entries.iter().enumerate().filter_map(|(id, entry)| Some((I::new(id), &entry.as_ref()?.0)))
    }

    /// Adds an object with one use.
    fn insert(&mut self, object: T) -> I {
        let id = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            I::new(self.entries.len() - 1)
        });
        self.entries[id.index()] = Some((object, 1));
        id
    }

    fn add_use(&mut self, id: I) {
        if let Some(Some((_, uses))) = self.entries.get_mut(id.index()) {
            *uses += 1;
        }
    }

    /// Takes back a use. Returns the object if it was the last.
    fn release(&mut self, id: I) -> Option<T> {
        let entry = self.entries.get_mut(id.index())?;
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

/// The queries that the batch rewriter decides.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueryCatalog {
    pub(super) sources: RefCounted<BindingPathId, BindingPath>,
    pub(super) compared: RefCounted<ComparedPathId, ComparedPath>,
    pub(super) classes: RefCounted<ConditionClassId, ConditionClass>,
    pub(super) plans: RefCounted<ResultPlanId, ResultPlan>,
    pub(super) further: RefCounted<FurtherClassesId, Box<[ConditionClassId]>>,
    source_ids: FxHashMap<SharedPathId, BindingPathId>,
    compared_ids: FxHashMap<(BindingPathId, SharedPathId), ComparedPathId>,
    class_ids: FxHashMap<(ComparedPathId, ConstantId), ConditionClassId>,
    plan_ids: FxHashMap<(BindingPathId, SkeletonId, Box<[ComparedPathId]>), ResultPlanId>,
    /// By query.
    positions: Vec<Option<CatalogPosition>>,
    query_count: usize,
    /// The queries that were added or removed, in order, without the first `changes_dropped` changes.
    changes: Vec<u32>,
    changes_dropped: u64,
}

impl QueryCatalog {
    /// Returns `true` if the catalog holds no query.
    pub(crate) fn is_empty(&self) -> bool {
        self.query_count == 0
    }

    /// Returns `true` if the catalog holds the query.
    #[inline]
    pub(crate) fn contains(&self, query: u32) -> bool {
        matches!(self.positions.get(query as usize), Some(Some(_)))
    }

    /// Iterates over the queries, ascending.
    pub(crate) fn queries(&self) -> impl Iterator<Item = u32> + '_ {
        self.positions.iter().enumerate().filter_map(|(query, position)| position.map(|_| query as u32))
    }

    /// Returns the number of queries.
    pub(super) fn len(&self) -> usize {
        self.query_count
    }

    /// Returns the number of binding paths and compared paths.
    pub(super) fn path_count(&self) -> usize {
        self.sources.len() + self.compared.len()
    }

    /// Returns how many changes there were.
    pub(super) fn version(&self) -> u64 {
        self.changes_dropped + self.changes.len() as u64
    }

    /// Returns the queries that were added or removed since a version, or `None` if too many were to remember.
    pub(super) fn changes_since(&self, version: u64) -> Option<&[u32]> {
        self.changes.get(usize::try_from(version.checked_sub(self.changes_dropped)?).ok()?..)
    }

    fn add_change(&mut self, query: u32) {
        if self.changes.len() > CHANGES_MIN.max(self.query_count / 4) {
            self.changes_dropped += self.changes.len() as u64;
            self.changes.clear();
        }
        self.changes.push(query);
    }

    /// Adds a query if the batch rewriter can decide it. Returns `true` if it was added.
    pub(crate) fn add(&mut self, query: u32, program: &Program) -> bool {
        program.family.as_ref().is_some_and(|family| self.add_family(query, family).is_some())
    }

    fn add_family(&mut self, query: u32, family: &Family) -> Option<()> {
        let group = &*family.group;
        let template = group.template.as_ref()?;
        if !group.guards.is_empty() || !group.conditions.is_empty() || self.compared.len() >= PATHS_MAX {
            return None;
        }
        let source = LinearPath::from_message(&group.source.path)?;
        let path = |shared: &Arc<SharedPath>| Some((shared.id, LinearPath::from_element(&shared.path)?));
        let compared: Vec<_> = group.compared.iter().map(path).collect::<Option<_>>()?;
        let columns: Vec<_> = template.columns.iter().map(path).collect::<Option<_>>()?;
        if columns.iter().any(|(_, path)| path.attribute.is_some()) {
            return None;
        }
        let source = self.acquire_source(group.source.id, source);
        let mut classes = Vec::with_capacity(compared.len().max(1));
        for ((id, path), constant) in compared.into_iter().zip(&family.constants) {
            classes.push(self.acquire_class(source, (id, path), constant.id));
        }
        if classes.is_empty() {
            classes.push(self.acquire_unconditional(source));
        }
        let plan = self.acquire_plan(source, &template.skeleton, columns);
        // The classes and the plan use it from here on.
        self.release_source(source);
        let first = classes.remove(0);
        let further = if classes.is_empty() { FurtherClassesId::ABSENT } else { self.further.insert(classes.into()) };
        if self.positions.len() <= query as usize {
            self.positions.resize(query as usize + 1, None);
        }
        let class = self.classes.get_mut(first)?;
        self.positions[query as usize] = Some(CatalogPosition { class: first, index: class.members.len() as u32 });
        class.members.push(ClassMember { query, plan, further });
        self.query_count += 1;
        self.add_change(query);
        Some(())
    }

    /// Removes a query, if the catalog holds it.
    pub(crate) fn remove(&mut self, query: u32) {
        let Some(position) = self.positions.get_mut(query as usize).and_then(Option::take) else { return };
        let Some(class) = self.classes.get_mut(position.class) else { return };
        let member = class.members.swap_remove(position.index as usize);
        if let Some(moved) = class.members.get(position.index as usize) {
            self.positions[moved.query as usize] = Some(position);
        }
        self.query_count -= 1;
        self.add_change(query);
        let further = self.further.release(member.further).unwrap_or_default();
        for &class in std::iter::once(&position.class).chain(&further) {
            self.release_class(class);
        }
        self.release_plan(member.plan);
    }

    fn acquire_source(&mut self, shared_id: SharedPathId, path: LinearPath) -> BindingPathId {
        if let Some(&existing) = self.source_ids.get(&shared_id) {
            self.sources.add_use(existing);
            return existing;
        }
        let id = self.sources.insert(BindingPath { path, shared_id, unconditional: ConditionClassId::ABSENT });
        self.source_ids.insert(shared_id, id);
        id
    }

    fn release_source(&mut self, id: BindingPathId) {
        if let Some(source) = self.sources.release(id) {
            self.source_ids.remove(&source.shared_id);
        }
    }

    fn acquire_compared(
        &mut self,
        source: BindingPathId,
        (shared_id, path): (SharedPathId, LinearPath),
    ) -> ComparedPathId {
        if let Some(&existing) = self.compared_ids.get(&(source, shared_id)) {
            self.compared.add_use(existing);
            return existing;
        }
        self.sources.add_use(source);
        let id = self.compared.insert(ComparedPath { source, path, shared_id, class_count: 0 });
        self.compared_ids.insert((source, shared_id), id);
        id
    }

    fn release_compared(&mut self, id: ComparedPathId) {
        if let Some(compared) = self.compared.release(id) {
            self.compared_ids.remove(&(compared.source, compared.shared_id));
            self.release_source(compared.source);
        }
    }

    fn acquire_class(
        &mut self,
        source: BindingPathId,
        path: (SharedPathId, LinearPath),
        constant: ConstantId,
    ) -> ConditionClassId {
        let compared = self.acquire_compared(source, path);
        if let Some(&existing) = self.class_ids.get(&(compared, constant)) {
            self.classes.add_use(existing);
            self.release_compared(compared);
            return existing;
        }
        self.sources.add_use(source);
        if let Some(compared) = self.compared.get_mut(compared) {
            compared.class_count += 1;
        }
        let id = self.classes.insert(ConditionClass { source, compared, constant, members: Vec::new() });
        self.class_ids.insert((compared, constant), id);
        id
    }

    /// Acquires the class of the queries without a condition.
    fn acquire_unconditional(&mut self, source: BindingPathId) -> ConditionClassId {
        let existing = self.sources.get(source).map_or(ConditionClassId::ABSENT, |source| source.unconditional);
        if existing != ConditionClassId::ABSENT {
            self.classes.add_use(existing);
            return existing;
        }
        self.sources.add_use(source);
        let (compared, constant) = (ComparedPathId::ABSENT, ConstantId::ABSENT);
        let id = self.classes.insert(ConditionClass { source, compared, constant, members: Vec::new() });
        if let Some(source) = self.sources.get_mut(source) {
            source.unconditional = id;
        }
        id
    }

    fn release_class(&mut self, id: ConditionClassId) {
        let Some(class) = self.classes.release(id) else { return };
        if class.compared == ComparedPathId::ABSENT {
            if let Some(source) = self.sources.get_mut(class.source) {
                source.unconditional = ConditionClassId::ABSENT;
            }
        } else {
            self.class_ids.remove(&(class.compared, class.constant));
            if let Some(compared) = self.compared.get_mut(class.compared) {
                compared.class_count -= 1;
            }
            self.release_compared(class.compared);
        }
        self.release_source(class.source);
    }

    fn acquire_plan(
        &mut self,
        source: BindingPathId,
        skeleton: &Arc<SharedSkeleton>,
        columns: Vec<(SharedPathId, LinearPath)>,
    ) -> ResultPlanId {
        let columns: Box<[_]> = columns.into_iter().map(|path| self.acquire_compared(source, path)).collect();
        let plan_key = (source, skeleton.id, columns.clone());
        if let Some(&existing) = self.plan_ids.get(&plan_key) {
            self.plans.add_use(existing);
            columns.into_iter().for_each(|compared| self.release_compared(compared));
            return existing;
        }
        self.sources.add_use(source);
        let id = self.plans.insert(ResultPlan { source, skeleton: Arc::clone(skeleton), columns });
        self.plan_ids.insert(plan_key, id);
        id
    }

    fn release_plan(&mut self, id: ResultPlanId) {
        if let Some(plan) = self.plans.release(id) {
            plan.columns.iter().for_each(|&compared| self.release_compared(compared));
            self.plan_ids.remove(&(plan.source, plan.skeleton.id, plan.columns));
            self.release_source(plan.source);
        }
    }
}
