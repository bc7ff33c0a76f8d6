//! The label paths that messages have shown so far (a data guide), and what the queries' paths mean on them.
//!
//! The label path of an element is the sequence of names from the root to it. A path of child and descendant steps
//! selects elements by label path alone; so it is followed once on the tree of label paths, and from then on tells the
//! elements of a message by a number. Paths that lead to the same label paths are the same to all messages seen so far,
//! however they are spelt: what Diao 2005 (section 6.6) obtains by rewriting queries with the DTD, the guide learns.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::query::ast::NameTest;
use crate::vocabulary::{LocalId, Name, NamespaceId};

use super::super::program::family::{Interned, NONE};
use super::super::program::template::Skeleton;
use super::catalog::QueryCatalog;
use super::constructors::ResultConstructors;
use super::linear_path::LinearPath;

pub(super) type GuideNodeId = u32;
/// Numbers of lists of bindings, columns and results, on this guide.
pub(super) type BindingListId = u32;
pub(super) type BindingColumnId = u32;

/// The label path of the document node.
pub(super) const ROOT: GuideNodeId = 0;

/// Label paths that are remembered at most.
const LABELS_MAX: usize = 2048;

/// Steps from label paths to those below them that it may take to find out what all paths mean; and label paths of lists,
/// and targets of columns, that are kept, at most. Where elements nest deeply in themselves, each binding has nearly all
/// label paths below it, for each path anew.
const STEPS_MAX: usize = 1 << 24;
const KEPT_MAX: usize = 1 << 21;

/// What may still be done and kept to find a meaning.
struct ResolutionBudget {
    steps: usize,
    kept: usize,
}

#[derive(Debug)]
pub(super) struct GuideNode {
    name: Name,
    depth: u32,
    children: Vec<GuideNodeId>,
}

/// The tree of label paths.
#[derive(Debug)]
pub(super) struct DataGuide {
    pub list: Vec<GuideNode>,
    by_name: FxHashMap<(GuideNodeId, Name), GuideNodeId>,
    /// What was looked up lately, by place; of children of the same place, the last.
    recent: Box<[GuideEdge]>,
}

/// A label path and a name, and the label path of both.
#[derive(Clone, Copy, Debug)]
struct GuideEdge {
    parent: GuideNodeId,
    name: Name,
    label: GuideNodeId,
}

/// Places for them, a power of two.
const RECENT: usize = 256;

impl Default for DataGuide {
    fn default() -> Self {
        let name = Name { namespace: NamespaceId::UNKNOWN, local: LocalId::UNKNOWN };
        let root = GuideNode { name, depth: 0, children: Vec::new() };
        let nothing = GuideEdge { parent: NONE, name, label: NONE };
        Self { list: vec![root], by_name: FxHashMap::default(), recent: [nothing; RECENT].into() }
    }
}

impl DataGuide {
    /// The label path of a child; `None`: there are too many.
    #[inline]
    pub fn child(&mut self, parent: GuideNodeId, name: Name) -> Option<GuideNodeId> {
        let position = (parent.wrapping_mul(0x9e37_79b9) ^ name.local.as_u32()) as usize % RECENT;
        let recent = &mut self.recent[position];
        if (recent.parent, recent.name) == (parent, name) {
            return Some(recent.label);
        }
        if let Some(&label) = self.by_name.get(&(parent, name)) {
            *recent = GuideEdge { parent, name, label };
            return Some(label);
        }
        if self.list.len() >= LABELS_MAX {
            return None;
        }
        let id = self.list.len() as GuideNodeId;
        let depth = self.list[parent as usize].depth + 1;
        self.list.push(GuideNode { name, depth, children: Vec::new() });
        self.list[parent as usize].children.push(id);
        self.by_name.insert((parent, name), id);
        Some(id)
    }

    /// The label paths that a path leads to from one, ascending; `None`: that takes more steps than are left.
    fn follow(&self, path: &LinearPath, start: GuideNodeId, left: &mut ResolutionBudget) -> Option<Vec<GuideNodeId>> {
        let mut labels_reached = Vec::new();
        let mut open = vec![(start, LinearPath::START)];
        while let Some((label, progress)) = open.pop() {
            if path.accepts(progress) {
                labels_reached.push(label);
            }
            let children = &self.list[label as usize].children;
            left.steps = left.steps.checked_sub(1 + children.len())?;
            for &child in children {
                let next = path.advance(progress, self.list[child as usize].name);
                if next != 0 {
                    open.push((child, next));
                }
            }
        }
        labels_reached.sort_unstable();
        Some(labels_reached)
    }
}

/// Where a relative path leads: elements of a label path, with how many levels above them bindings are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RelativeTarget {
    label: GuideNodeId,
    up: u32,
}

/// A relative path from the bindings of a list; paths that lead to the same share it.
#[derive(Debug)]
pub(super) struct BindingColumn {
    targets: Box<[RelativeTarget]>,
}

impl BindingColumn {
    fn add_to(&self, all: &mut Vec<ColumnReach>, list: BindingListId, column: BindingColumnId) {
        all.extend(self.targets.iter().map(|target| (target.label, target.up, list, column)));
    }
}

/// Values that are read at a label path: those of the elements, or of their attributes.
#[derive(Debug)]
pub(super) struct ValueColumn {
    pub attribute: Option<NameTest>,
    /// The columns that lead to them.
    pub strands: IdRange,
}

/// The columns that lead to elements of one label path from the bindings of a list that are so many levels up.
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

/// A column that leads to elements of a label path: the label path, levels up, list, column.
type ColumnReach = (GuideNodeId, u32, BindingListId, BindingColumnId);

/// Strands of many label paths.
#[derive(Debug, Default)]
pub(super) struct ColumnStrands {
    list: Vec<ColumnStrand>,
    columns: Vec<BindingColumnId>,
}

impl ColumnStrands {
    /// Adds columns, ascending, and calls back with those of each label path.
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

    /// Those of a label path, by how many levels up the bindings are.
    #[inline]
    pub fn get(&self, strands: IdRange) -> &[ColumnStrand] {
        slice(&self.list, strands)
    }

    /// How many columns there are in all strands of a label path.
    #[inline]
    pub fn column_count(&self, strands: IdRange) -> usize {
        match self.get(strands) {
            [first, .., last] => (last.columns.1 - first.columns.0) as usize,
            [only] => (only.columns.1 - only.columns.0) as usize,
            [] => 0,
        }
    }

    #[inline]
    pub fn columns(&self, strand: &ColumnStrand) -> &[BindingColumnId] {
        slice(&self.columns, strand.columns)
    }
}

/// What columns and makes are the same by.
type ColumnKey = (BindingListId, Option<NameTest>, Box<[RelativeTarget]>);
type ConstructorKey = (BindingListId, u32, Box<[BindingColumnId]>);

/// A skeleton with its columns.
type FilledSkeleton<'a> = (&'a Interned<Skeleton>, Box<[BindingColumnId]>);

/// Elements that a binding path selects; binding paths that select the same share it.
#[derive(Debug, Default)]
pub(super) struct BindingList {
    pub labels: Box<[GuideNodeId]>,
}

/// What the queries' paths mean on the label paths known.
#[derive(Debug, Default)]
pub(super) struct PathResolution {
    pub lists: Vec<BindingList>,
    pub lists_of_label: Vec<Vec<BindingListId>>,
    pub columns: Vec<BindingColumn>,
    /// By label path: what is read there.
    pub readings: Vec<Vec<ValueColumn>>,
    /// By label path: the columns that are returned and lead there.
    pub returned: Vec<IdRange>,
    pub strands: ColumnStrands,
    /// By source: its list; [`NONE`] if it leads nowhere.
    pub list_of_source: Vec<BindingListId>,
    /// By pair: its column; [`NONE`] likewise.
    pub column_of_pair: Vec<BindingColumnId>,
    /// By make: the number of its recipe among those of the list; [`NONE`] likewise.
    pub constructor_of: Vec<u32>,
    pub recipes: Arc<ResultConstructors>,
}

impl PathResolution {
    /// `None`: to find it takes too much, or it is too much to be kept.
    pub fn of(classes: &QueryCatalog, labels: &DataGuide) -> Option<Self> {
        let mut left = ResolutionBudget { steps: STEPS_MAX, kept: KEPT_MAX };
        let mut meaning = Self { lists_of_label: vec![Vec::new(); labels.list.len()], ..Self::default() };
        meaning.readings.resize_with(labels.list.len(), Vec::new);
        meaning.returned.resize(labels.list.len(), (0, 0));
        meaning.find_lists(classes, labels, &mut left)?;
        meaning.find_columns(classes, labels, &mut left)?;
        meaning.find_recipes(classes);
        Some(meaning)
    }

    /// Are the same sources, pairs and makes the same, under the same numbers?
    pub fn merges_as(&self, other: &Self) -> bool {
        self.list_of_source == other.list_of_source
            && self.column_of_pair == other.column_of_pair
            && self.constructor_of == other.constructor_of
    }

    fn find_lists(&mut self, classes: &QueryCatalog, labels: &DataGuide, left: &mut ResolutionBudget) -> Option<()> {
        self.list_of_source = vec![NONE; classes.sources.bound()];
        let mut existing: FxHashMap<Vec<GuideNodeId>, BindingListId> = FxHashMap::default();
        for (id, source) in classes.sources.iter() {
            let binding_labels = labels.follow(&source.path, ROOT, left)?;
            if binding_labels.is_empty() {
                continue;
            }
            self.list_of_source[id as usize] = match existing.get(&binding_labels) {
                Some(&existing) => existing,
                None => {
                    left.kept = left.kept.checked_sub(binding_labels.len())?;
                    let list = self.lists.len() as BindingListId;
                    binding_labels.iter().for_each(|&label| self.lists_of_label[label as usize].push(list));
                    self.lists.push(BindingList { labels: binding_labels.as_slice().into() });
                    existing.insert(binding_labels, list);
                    list
                }
            };
        }
        Some(())
    }

    fn find_columns(&mut self, classes: &QueryCatalog, labels: &DataGuide, left: &mut ResolutionBudget) -> Option<()> {
        self.column_of_pair = vec![NONE; classes.pairs.bound()];
        let mut existing: FxHashMap<ColumnKey, BindingColumnId> = FxHashMap::default();
        let mut is_read = Vec::new();
        let mut read: FxHashMap<Option<NameTest>, Vec<ColumnReach>> = FxHashMap::default();
        for (id, pair) in classes.pairs.iter() {
            let list = self.list_of_source[pair.source as usize];
            let Some(bound) = self.lists.get(list as usize) else { continue };
            let mut targets = Vec::new();
            for &binding in &bound.labels {
                let depth = labels.list[binding as usize].depth;
                let labels_reached = labels.follow(&pair.path, binding, left)?;
                targets.extend(
                    labels_reached
                        .into_iter()
                        .map(|label| RelativeTarget { label, up: labels.list[label as usize].depth - depth }),
                );
            }
            targets.sort_unstable_by_key(|target| (target.label, target.up));
            let targets: Box<[RelativeTarget]> = targets.into();
            let column_key = (list, pair.path.attribute, targets.clone());
            let column = match existing.get(&column_key) {
                Some(&existing) => existing,
                None => {
                    left.kept = left.kept.checked_sub(targets.len())?;
                    self.columns.push(BindingColumn { targets });
                    is_read.push(false);
                    let column = self.columns.len() as BindingColumnId - 1;
                    existing.insert(column_key, column);
                    column
                }
            };
            self.column_of_pair[id as usize] = column;
            if pair.compared > 0 && !std::mem::replace(&mut is_read[column as usize], true) {
                self.columns[column as usize].add_to(read.entry(pair.path.attribute).or_default(), list, column);
            }
        }
        for (attribute, mut reached) in read {
            let readings = &mut self.readings;
            self.strands.add(&mut reached, |label, strands| {
                readings[label as usize].push(ValueColumn { attribute, strands });
            });
        }
        Some(())
    }

    fn find_recipes(&mut self, classes: &QueryCatalog) {
        self.constructor_of = vec![NONE; classes.plans.bound()];
        let mut existing: FxHashMap<ConstructorKey, u32> = FxHashMap::default();
        let mut of_list: Vec<Vec<FilledSkeleton<'_>>> = vec![Vec::new(); self.lists.len()];
        for (id, plan) in classes.plans.iter() {
            let list = self.list_of_source[plan.source as usize];
            let Some(mine) = of_list.get_mut(list as usize) else { continue };
            let columns: Box<[BindingColumnId]> =
                plan.columns.iter().map(|&pair| self.column_of_pair[pair as usize]).collect();
            let constructor_key = (list, plan.skeleton.id, columns.clone());
            self.constructor_of[id as usize] = *existing.entry(constructor_key).or_insert_with(|| {
                mine.push((&plan.skeleton, columns));
                mine.len() as u32 - 1
            });
        }
        let mut recipes = ResultConstructors::default();
        for mine in &of_list {
            recipes.add_list(mine.iter().map(|(skeleton, columns)| (*skeleton, &columns[..])));
        }
        let mut returned = Vec::new();
        for list in 0..self.lists.len() as BindingListId {
            for &column in recipes.needed(list) {
                self.columns[column as usize].add_to(&mut returned, list, column);
            }
        }
        self.strands.add(&mut returned, |label, strands| self.returned[label as usize] = strands);
        self.recipes = Arc::new(recipes);
    }
}
