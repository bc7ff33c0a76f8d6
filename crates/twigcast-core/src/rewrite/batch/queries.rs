//! The queries that the batch rewriter decides, filed when they are registered.
//!
//! A *compared path* is a binding path with a path relative to its bindings. A *condition class* is a compared path
//! with a constant that it must be equal to. A *result plan* is a binding path with what is made of its bindings. A
//! query is a *member* of one class, may ask for further classes too, and has one plan. All parts are shared and
//! counted, so that adding or removing a query takes time in proportion to its own size.

use std::hash::Hash;
use std::sync::Arc;

use crate::ids::{
    BindingPathId, ComparedPathId, ConditionClassId, ConstantId, ResultPlanId, SharedPathId, SkeletonId, TableId,
};

use super::super::program::Program;
use super::super::program::family::{Family, SharedPath, SharedSkeleton};
use super::linear_path::LinearPath;
use crate::util::chunked::Chunked;
use crate::util::cow_map::CowMap;

/// Number of compared paths at most, because each new label path is compared with all of them. Queries beyond are
/// decided one by one.
const PATHS_MAX: usize = 4096;

/// Number of changes that are remembered at least.
const CHANGES_MIN: usize = 1024;

/// A path from the document to the bindings of queries.
#[derive(Clone, Debug)]
pub(super) struct BindingPath {
    pub path: LinearPath,
}

/// A binding path and a path from its bindings.
#[derive(Clone, Debug)]
pub(super) struct ComparedPath {
    pub source: BindingPathId,
    pub path: LinearPath,
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
struct MemberPosition {
    class: ConditionClassId,
    index: u32,
}

/// Objects by key and by id with a count of their uses. Ids of released objects are reused.
#[derive(Clone, Debug)]
pub(super) struct RefCounted<K, I, T> {
    ids: CowMap<K, I>,
    entries: Chunked<Option<(K, T, u32)>, 512>,
    free: Chunked<I>,
}

impl<K, I, T> Default for RefCounted<K, I, T> {
    fn default() -> Self {
        Self { ids: CowMap::default(), entries: Chunked::default(), free: Chunked::default() }
    }
}

impl<K: Clone + Eq + Hash, I: TableId, T: Clone> RefCounted<K, I, T> {
    /// Returns a number above the indexes of all ids.
    pub fn bound(&self) -> usize {
        self.entries.len()
    }

    fn len(&self) -> usize {
        self.ids.len()
    }

    /// Returns the object of an id.
    pub fn get(&self, id: I) -> Option<&T> {
        self.entries.get(id.index())?.as_ref().map(|(_, object, _)| object)
    }

    fn get_mut(&mut self, id: I) -> Option<&mut T> {
        self.entries.get_mut(id.index())?.as_mut().map(|(_, object, _)| object)
    }

    /// Iterates over the objects with their ids, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (I, &T)> {
        self.entries.iter().enumerate().filter_map(|(id, entry)| Some((I::new(id), &entry.as_ref()?.1)))
    }

    /// Adds a use of the object of a key. Returns its id, and `true` if the object is new.
    fn acquire(&mut self, key: K, make: impl FnOnce() -> T) -> (I, bool) {
        if let Some(&existing) = self.ids.get(&key) {
            self.add_use(existing);
            return (existing, false);
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            I::new(self.entries.len() - 1)
        });
        self.ids.insert(key.clone(), id);
        self.entries[id.index()] = Some((key, make(), 1));
        (id, true)
    }

    fn add_use(&mut self, id: I) {
        if let Some(Some((.., uses))) = self.entries.get_mut(id.index()) {
            *uses += 1;
        }
    }

    /// Takes back a use. Returns the object if it was the last.
    fn release(&mut self, id: I) -> Option<T> {
        let entry = self.entries.get_mut(id.index())?;
        if let Some((.., uses)) = entry {
            *uses -= 1;
            if *uses > 0 {
                return None;
            }
        }
        let (key, object, _) = entry.take()?;
        self.ids.remove(&key);
        self.free.push(id);
        Some(object)
    }
}

/// The key of a plan: equal plans have equal keys.
type PlanKey = (BindingPathId, SkeletonId, Box<[ComparedPathId]>);

/// The queries that the batch rewriter decides.
#[derive(Clone, Debug, Default)]
pub(crate) struct BatchQueries {
    pub(super) sources: RefCounted<SharedPathId, BindingPathId, BindingPath>,
    pub(super) compared: RefCounted<(BindingPathId, SharedPathId), ComparedPathId, ComparedPath>,
    pub(super) classes: RefCounted<(BindingPathId, ComparedPathId, ConstantId), ConditionClassId, ConditionClass>,
    pub(super) plans: RefCounted<PlanKey, ResultPlanId, ResultPlan>,
    /// By query with several conditions: the classes that it asks for besides its own.
    pub(super) further: CowMap<u32, Box<[ConditionClassId]>>,
    /// By query.
    positions: Chunked<Option<MemberPosition>>,
    query_count: usize,
    /// The queries that were added or removed, in order, without the first `changes_dropped` changes.
    changes: Vec<u32>,
    changes_dropped: u64,
}

impl BatchQueries {
    /// Returns `true` if there is no query.
    pub(crate) fn is_empty(&self) -> bool {
        self.query_count == 0
    }

    /// Returns `true` if a query is one of these.
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
        let (source, _) = self.sources.acquire(group.source.id, || BindingPath { path: source });
        let mut classes = Vec::with_capacity(compared.len().max(1));
        for (path, constant) in compared.into_iter().zip(&family.constants) {
            let compared = self.acquire_compared(source, path);
            classes.push(self.acquire_class(source, compared, constant.id));
        }
        if classes.is_empty() {
            classes.push(self.acquire_class(source, ComparedPathId::ABSENT, ConstantId::ABSENT));
        }
        let plan = self.acquire_plan(source, &template.skeleton, columns);
        // The classes and the plan use it from here on.
        self.sources.release(source);
        let first = classes.remove(0);
        if !classes.is_empty() {
            self.further.insert(query, classes.into());
        }
        while self.positions.len() <= query as usize {
            self.positions.push(None);
        }
        let class = self.classes.get_mut(first)?;
        self.positions[query as usize] = Some(MemberPosition { class: first, index: class.members.len() as u32 });
        class.members.push(ClassMember { query, plan });
        self.query_count += 1;
        self.add_change(query);
        Some(())
    }

    /// Removes a query, if it is one of these.
    pub(crate) fn remove(&mut self, query: u32) {
        let Some(position) = self.positions.get_mut(query as usize).and_then(Option::take) else { return };
        let Some(class) = self.classes.get_mut(position.class) else { return };
        let member = class.members.swap_remove(position.index as usize);
        if let Some(moved) = class.members.get(position.index as usize) {
            self.positions[moved.query as usize] = Some(position);
        }
        self.query_count -= 1;
        self.add_change(query);
        let further = self.further.remove(&query).unwrap_or_default();
        for &class in std::iter::once(&position.class).chain(&further) {
            self.release_class(class);
        }
        self.release_plan(member.plan);
    }

    fn acquire_compared(
        &mut self,
        source: BindingPathId,
        (shared_id, path): (SharedPathId, LinearPath),
    ) -> ComparedPathId {
        let make = || ComparedPath { source, path, class_count: 0 };
        let (id, is_new) = self.compared.acquire((source, shared_id), make);
        if is_new {
            self.sources.add_use(source);
        }
        id
    }

    fn release_compared(&mut self, id: ComparedPathId) {
        if let Some(compared) = self.compared.release(id) {
            self.sources.release(compared.source);
        }
    }

    /// Acquires a class, which takes over the use of the compared path. Both ids are `ABSENT` without a condition.
    fn acquire_class(
        &mut self,
        source: BindingPathId,
        compared: ComparedPathId,
        constant: ConstantId,
    ) -> ConditionClassId {
        let make = || ConditionClass { source, compared, constant, members: Vec::new() };
        let (id, is_new) = self.classes.acquire((source, compared, constant), make);
        if is_new {
            self.sources.add_use(source);
            if let Some(compared) = self.compared.get_mut(compared) {
                compared.class_count += 1;
            }
        } else {
            self.release_compared(compared);
        }
        id
    }

    fn release_class(&mut self, id: ConditionClassId) {
        let Some(class) = self.classes.release(id) else { return };
        if let Some(compared) = self.compared.get_mut(class.compared) {
            compared.class_count -= 1;
        }
        self.release_compared(class.compared);
        self.sources.release(class.source);
    }

    fn acquire_plan(
        &mut self,
        source: BindingPathId,
        skeleton: &Arc<SharedSkeleton>,
        columns: Vec<(SharedPathId, LinearPath)>,
    ) -> ResultPlanId {
        let columns: Box<[_]> = columns.into_iter().map(|path| self.acquire_compared(source, path)).collect();
        let make = || ResultPlan { source, skeleton: Arc::clone(skeleton), columns: columns.clone() };
        let (id, is_new) = self.plans.acquire((source, skeleton.id, columns.clone()), make);
        if is_new {
            self.sources.add_use(source);
        } else {
            columns.into_iter().for_each(|compared| self.release_compared(compared));
        }
        id
    }

    fn release_plan(&mut self, id: ResultPlanId) {
        if let Some(plan) = self.plans.release(id) {
            plan.columns.into_iter().for_each(|compared| self.release_compared(compared));
            self.sources.release(plan.source);
        }
    }
}
