//! The label paths that messages have shown so far (a data guide), and what the paths of queries select on them.
//!
//! The label path of an element is the sequence of names from the root to it. A path of child and descendant steps
//! selects elements by label path alone. So it is resolved once on the tree of label paths, and from then on the label
//! path of an element, a number, tells which paths select it. Paths that select the same label paths are equal on all
//! messages seen so far, however they are spelt. Diao 2005 (section 6.6) obtains this by rewriting queries with the
//! DTD; the data guide learns it from the messages.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::ids::{
    BindingColumnId, BindingListId, BindingPathId, ComparedPathId, GuideNodeId, ResultPlanId, SkeletonId,
};
use crate::query::ast::NameTest;
use crate::vocabulary::{LocalId, Name, NamespaceId};

use super::super::program::family::SharedSkeleton;
use super::constructors::ResultConstructors;
use super::linear_path::LinearPath;
use super::queries::BatchQueries;

/// The label path of the document node.
pub(super) const ROOT: GuideNodeId = GuideNodeId::from_u32(0);

/// Number of label paths that are remembered at most.
const LABEL_PATHS_MAX: usize = 2048;

/// Steps from label paths to their children at most, to resolve all paths. Where elements nest deeply in themselves,
/// each binding has nearly all label paths below it, and each path visits them anew.
const RESOLUTION_STEPS_MAX: usize = 1 << 24;

/// Label paths of lists and targets of columns at most, for the same reason.
const RESOLUTION_SIZE_MAX: usize = 1 << 21;

/// The rest of the limits of one resolution.
struct ResolutionBudget {
    steps: usize,
    size: usize,
}

/// A label path.
#[derive(Debug)]
pub(super) struct GuideNode {
    name: Name,
    depth: u32,
    children: Vec<GuideNodeId>,
}

/// The tree of label paths.
#[derive(Debug)]
pub(super) struct DataGuide {
    nodes: Vec<GuideNode>,
    by_name: FxHashMap<(GuideNodeId, Name), GuideNodeId>,
    /// A direct-mapped cache of `by_name`.
    cached: Box<[GuideEdge]>,
}

/// A label path, the name of a child and the child's label path.
#[derive(Clone, Copy, Debug)]
struct GuideEdge {
    parent: GuideNodeId,
    name: Name,
    child: GuideNodeId,
}

/// Entries of the cache, a power of two.
const CACHE_SIZE: usize = 256;

impl Default for DataGuide {
    fn default() -> Self {
        let name = Name { namespace: NamespaceId::UNKNOWN, local: LocalId::UNKNOWN };
        let root = GuideNode { name, depth: 0, children: Vec::new() };
        let empty = GuideEdge { parent: GuideNodeId::ABSENT, name, child: GuideNodeId::ABSENT };
        Self { nodes: vec![root], by_name: FxHashMap::default(), cached: [empty; CACHE_SIZE].into() }
    }
}

impl DataGuide {
    /// Returns the number of label paths.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the label path of a child, a new one if need be. Returns `None` if there would be too many.
    #[inline]
    pub fn child(&mut self, parent: GuideNodeId, name: Name) -> Option<GuideNodeId> {
        let hash = parent.as_u32().wrapping_mul(0x9e37_79b9) ^ name.local.as_u32();
        let cached = &mut self.cached[hash as usize % CACHE_SIZE];
        if (cached.parent, cached.name) == (parent, name) {
            return Some(cached.child);
        }
        if let Some(&child) = self.by_name.get(&(parent, name)) {
            *cached = GuideEdge { parent, name, child };
            return Some(child);
        }
        if self.nodes.len() >= LABEL_PATHS_MAX {
            return None;
        }
        let child = GuideNodeId::new(self.nodes.len());
        let depth = self.depth(parent) + 1;
        self.nodes.push(GuideNode { name, depth, children: Vec::new() });
        self.nodes[parent.index()].children.push(child);
        self.by_name.insert((parent, name), child);
        Some(child)
    }

    fn depth(&self, node: GuideNodeId) -> u32 {
        self.nodes[node.index()].depth
    }

    /// Returns the label paths that a path selects from one, ascending, or `None` if that exceeds the budget.
    fn select(&self, path: &LinearPath, start: GuideNodeId, left: &mut ResolutionBudget) -> Option<Vec<GuideNodeId>> {
        let mut selected = Vec::new();
        let mut open = vec![(start, LinearPath::START)];
        while let Some((node, progress)) = open.pop() {
            if path.accepts(progress) {
                selected.push(node);
            }
            let children = &self.nodes[node.index()].children;
            left.steps = left.steps.checked_sub(1 + children.len())?;
            for &child in children {
                let next = path.advance(progress, self.nodes[child.index()].name);
                if next != 0 {
                    open.push((child, next));
                }
            }
        }
        selected.sort_unstable();
        Some(selected)
    }
}

/// A target of a relative path: elements of a label path whose binding is `up` levels above them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct RelativeTarget {
    label: GuideNodeId,
    up: u32,
}

/// The elements that a relative path selects from the bindings of a list. Paths that select the same share a column.
#[derive(Debug)]
pub(super) struct BindingColumn {
    targets: Box<[RelativeTarget]>,
}

impl BindingColumn {
    fn add_to(&self, all: &mut Vec<ColumnReach>, list: BindingListId, column: BindingColumnId) {
        all.extend(self.targets.iter().map(|target| (target.label, target.up, list, column)));
    }
}

/// Values to be compared at a label path: those of the elements, or of their attributes.
#[derive(Debug)]
pub(super) struct ValueColumn {
    pub attribute: Option<NameTest>,
    /// The columns that select them.
    pub strands: IdRange,
}

/// The columns that select elements of one label path from the bindings of a list that are `up` levels above.
#[derive(Clone, Copy, Debug)]
pub(super) struct ColumnStrand {
    pub up: u32,
    pub list: BindingListId,
    columns: IdRange,
}

/// Start and end.
type IdRange = (u32, u32);

#[inline]
fn slice<T>(all: &[T], (start, end): IdRange) -> &[T] {
    &all[start as usize..end as usize]
}

/// A label path that a column selects: label path, levels up to the binding, list and column.
type ColumnReach = (GuideNodeId, u32, BindingListId, BindingColumnId);

/// The strands of many label paths.
#[derive(Debug, Default)]
pub(super) struct ColumnStrands {
    list: Vec<ColumnStrand>,
    columns: Vec<BindingColumnId>,
}

impl ColumnStrands {
    /// Adds columns and calls back with the strands of each label path.
    fn add(&mut self, all: &mut [ColumnReach], mut added: impl FnMut(GuideNodeId, IdRange)) {
        all.sort_unstable();
        for same in all.chunk_by(|a, b| a.0 == b.0) {
            let start = self.list.len() as u32;
            for strand in same.chunk_by(|a, b| (a.1, a.2) == (b.1, b.2)) {
                let first = self.columns.len() as u32;
                self.columns.extend(strand.iter().map(|&(.., column)| column));
                let columns = (first, self.columns.len() as u32);
                self.list.push(ColumnStrand { up: strand[0].1, list: strand[0].2, columns });
            }
            added(same[0].0, (start, self.list.len() as u32));
        }
    }

    /// Returns the strands of a label path, those with the nearest bindings first.
    #[inline]
    pub fn get(&self, strands: IdRange) -> &[ColumnStrand] {
        slice(&self.list, strands)
    }

    /// Returns the number of columns in all strands of a label path.
    #[inline]
    pub fn column_count(&self, strands: IdRange) -> usize {
        match self.get(strands) {
            [first, .., last] => (last.columns.1 - first.columns.0) as usize,
            [only] => (only.columns.1 - only.columns.0) as usize,
            [] => 0,
        }
    }

    /// Returns the columns of a strand.
    #[inline]
    pub fn columns(&self, strand: &ColumnStrand) -> &[BindingColumnId] {
        slice(&self.columns, strand.columns)
    }
}

/// The key of a column: equal columns have equal keys.
type ColumnKey = (BindingListId, Option<NameTest>, Box<[RelativeTarget]>);

/// The key of a constructor: equal constructors have equal keys.
type ConstructorKey = (BindingListId, SkeletonId, Box<[BindingColumnId]>);

/// A skeleton with its columns.
type FilledSkeleton<'a> = (&'a SharedSkeleton, Box<[BindingColumnId]>);

/// The label paths that a binding path selects. Binding paths that select the same share a list.
#[derive(Debug, Default)]
pub(super) struct BindingList {
    pub labels: Box<[GuideNodeId]>,
}

/// The lists, columns and constructors that the batch queries have on the label paths of a data guide.
#[derive(Debug, Default)]
pub(super) struct PathResolution {
    pub lists: Vec<BindingList>,
    /// By label path: the lists that it belongs to.
    pub lists_of_label: Vec<Vec<BindingListId>>,
    pub columns: Vec<BindingColumn>,
    /// By label path: the values that are compared there.
    pub readings: Vec<Vec<ValueColumn>>,
    /// By label path: the strands of the columns that are returned and select it.
    pub returned: Vec<IdRange>,
    pub strands: ColumnStrands,
    /// By binding path; `ABSENT` if it selects nothing.
    list_of_source: Vec<BindingListId>,
    /// By compared path; `ABSENT` if its binding path selects nothing.
    column_of: Vec<BindingColumnId>,
    /// By result plan: the index of its constructor among those of the list; `u32::MAX` likewise.
    constructor_of: Vec<u32>,
    pub constructors: Arc<ResultConstructors>,
}

impl PathResolution {
    /// Resolves the paths of the batch queries. Returns `None` if that exceeds the limits.
    pub fn of(queries: &BatchQueries, guide: &DataGuide) -> Option<Self> {
        let mut left = ResolutionBudget { steps: RESOLUTION_STEPS_MAX, size: RESOLUTION_SIZE_MAX };
        let mut resolution = Self { lists_of_label: vec![Vec::new(); guide.len()], ..Self::default() };
        resolution.readings.resize_with(guide.len(), Vec::new);
        resolution.returned.resize(guide.len(), (0, 0));
        resolution.resolve_lists(queries, guide, &mut left)?;
        resolution.resolve_columns(queries, guide, &mut left)?;
        resolution.add_constructors(queries);
        Some(resolution)
    }

    /// Returns the list of a binding path, or `None` if it selects nothing.
    pub fn list_of(&self, source: BindingPathId) -> Option<BindingListId> {
        self.list_of_source.get(source.index()).copied().filter(|&list| list != BindingListId::ABSENT)
    }

    /// Returns the column of a compared path, or `None` if its binding path selects nothing.
    pub fn column_of(&self, compared: ComparedPathId) -> Option<BindingColumnId> {
        self.column_of.get(compared.index()).copied().filter(|&column| column != BindingColumnId::ABSENT)
    }

    /// Returns the index of a plan's constructor among those of its list.
    pub fn constructor_of(&self, plan: ResultPlanId) -> u32 {
        self.constructor_of[plan.index()]
    }

    /// Returns `true` if the parts of the batch queries have the same ids in another resolution.
    pub fn has_same_ids(&self, other: &Self) -> bool {
        self.list_of_source == other.list_of_source
            && self.column_of == other.column_of
            && self.constructor_of == other.constructor_of
    }

    fn resolve_lists(&mut self, queries: &BatchQueries, guide: &DataGuide, left: &mut ResolutionBudget) -> Option<()> {
        self.list_of_source = vec![BindingListId::ABSENT; queries.sources.bound()];
        let mut existing: FxHashMap<Vec<GuideNodeId>, BindingListId> = FxHashMap::default();
        for (id, source) in queries.sources.iter() {
            let labels = guide.select(&source.path, ROOT, left)?;
            if labels.is_empty() {
                continue;
            }
            self.list_of_source[id.index()] = match existing.get(&labels) {
                Some(&existing) => existing,
                None => {
                    left.size = left.size.checked_sub(labels.len())?;
                    let list = BindingListId::new(self.lists.len());
                    labels.iter().for_each(|&label| self.lists_of_label[label.index()].push(list));
                    self.lists.push(BindingList { labels: labels.as_slice().into() });
                    existing.insert(labels, list);
                    list
                }
            };
        }
        Some(())
    }

    fn resolve_columns(
        &mut self,
        queries: &BatchQueries,
        guide: &DataGuide,
        left: &mut ResolutionBudget,
    ) -> Option<()> {
        self.column_of = vec![BindingColumnId::ABSENT; queries.compared.bound()];
        let mut existing: FxHashMap<ColumnKey, BindingColumnId> = FxHashMap::default();
        let mut is_read = Vec::new();
        let mut read: FxHashMap<Option<NameTest>, Vec<ColumnReach>> = FxHashMap::default();
        for (id, compared) in queries.compared.iter() {
            let Some(list) = self.list_of(compared.source) else { continue };
            let attribute = compared.path.attribute;
            let mut targets = Vec::new();
            for &binding in &self.lists[list.index()].labels {
                let depth = guide.depth(binding);
                let selected = guide.select(&compared.path, binding, left)?.into_iter();
                targets.extend(selected.map(|label| RelativeTarget { label, up: guide.depth(label) - depth }));
            }
            targets.sort_unstable();
            let targets: Box<[RelativeTarget]> = targets.into();
            let column_key = (list, attribute, targets.clone());
            let column = match existing.get(&column_key) {
                Some(&existing) => existing,
                None => {
                    left.size = left.size.checked_sub(targets.len())?;
                    let column = BindingColumnId::new(self.columns.len());
                    self.columns.push(BindingColumn { targets });
                    is_read.push(false);
                    existing.insert(column_key, column);
                    column
                }
            };
            self.column_of[id.index()] = column;
            if compared.class_count > 0 && !std::mem::replace(&mut is_read[column.index()], true) {
                self.columns[column.index()].add_to(read.entry(attribute).or_default(), list, column);
            }
        }
        for (attribute, mut reached) in read {
            let readings = &mut self.readings;
            self.strands.add(&mut reached, |label, strands| {
                readings[label.index()].push(ValueColumn { attribute, strands });
            });
        }
        Some(())
    }

    fn add_constructors(&mut self, queries: &BatchQueries) {
        self.constructor_of = vec![u32::MAX; queries.plans.bound()];
        let mut existing: FxHashMap<ConstructorKey, u32> = FxHashMap::default();
        let mut of_lists: Vec<Vec<FilledSkeleton<'_>>> = vec![Vec::new(); self.lists.len()];
        for (id, plan) in queries.plans.iter() {
            let Some(list) = self.list_of(plan.source) else { continue };
            let of_list = &mut of_lists[list.index()];
            let columns: Box<[_]> = plan.columns.iter().map(|compared| self.column_of[compared.index()]).collect();
            let constructor_key = (list, plan.skeleton.id, columns.clone());
            self.constructor_of[id.index()] = *existing.entry(constructor_key).or_insert_with(|| {
                of_list.push((&plan.skeleton, columns));
                of_list.len() as u32 - 1
            });
        }
        let mut constructors = ResultConstructors::default();
        for of_list in &of_lists {
            constructors.add_list(of_list.iter().map(|(skeleton, columns)| (*skeleton, &columns[..])));
        }
        let mut returned = Vec::new();
        for list in (0..self.lists.len()).map(BindingListId::new) {
            for &column in constructors.columns_of_list(list) {
                self.columns[column.index()].add_to(&mut returned, list, column);
            }
        }
        self.strands.add(&mut returned, |label, strands| self.returned[label.index()] = strands);
        self.constructors = Arc::new(constructors);
    }
}
