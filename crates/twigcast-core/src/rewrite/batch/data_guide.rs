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

use super::super::program::family::{NONE, Numbered};
use super::super::program::template::Skeleton;
use super::catalog::Classes;
use super::linear_path::Linear;
use super::constructors::Recipes;

pub(super) type LabelId = u32;
/// Numbers of lists of bindings, columns and results, on this guide.
pub(super) type ListId = u32;
pub(super) type ColumnId = u32;

/// The label path of the document node.
pub(super) const ROOT: LabelId = 0;

/// Label paths that are remembered at most.
const LABELS_MAX: usize = 2048;

/// Steps from label paths to those below them that it may take to find out what all paths mean; and label paths of lists,
/// and targets of columns, that are kept, at most. Where elements nest deeply in themselves, each binding has nearly all
/// label paths below it, for each path anew.
const STEPS_MAX: usize = 1 << 24;
const KEPT_MAX: usize = 1 << 21;

/// What may still be done and kept to find a meaning.
struct Left {
    steps: usize,
    kept: usize,
}

#[derive(Debug)]
pub(super) struct Label {
    name: Name,
    depth: u32,
    children: Vec<LabelId>,
}

/// The tree of label paths.
#[derive(Debug)]
pub(super) struct Labels {
    pub list: Vec<Label>,
    by_name: FxHashMap<(LabelId, Name), LabelId>,
    /// What was looked up lately, by place; of children of the same place, the last.
    recent: Box<[Child]>,
}

/// A label path and a name, and the label path of both.
#[derive(Clone, Copy, Debug)]
struct Child {
    parent: LabelId,
    name: Name,
    label: LabelId,
}

/// Places for them, a power of two.
const RECENT: usize = 256;

impl Default for Labels {
    fn default() -> Self {
        let name = Name { namespace: NamespaceId::UNKNOWN, local: LocalId::UNKNOWN };
        let root = Label { name, depth: 0, children: Vec::new() };
        let nothing = Child { parent: NONE, name, label: NONE };
        Self { list: vec![root], by_name: FxHashMap::default(), recent: [nothing; RECENT].into() }
    }
}

impl Labels {
    /// The label path of a child; `None`: there are too many.
    #[inline]
    pub fn child(&mut self, parent: LabelId, name: Name) -> Option<LabelId> {
        let place = (parent.wrapping_mul(0x9e37_79b9) ^ name.local.0) as usize % RECENT;
        let recent = &mut self.recent[place];
        if (recent.parent, recent.name) == (parent, name) {
            return Some(recent.label);
        }
        if let Some(&label) = self.by_name.get(&(parent, name)) {
            *recent = Child { parent, name, label };
            return Some(label);
        }
        if self.list.len() >= LABELS_MAX {
            return None;
        }
        let id = self.list.len() as LabelId;
        let depth = self.list[parent as usize].depth + 1;
        self.list.push(Label { name, depth, children: Vec::new() });
        self.list[parent as usize].children.push(id);
        self.by_name.insert((parent, name), id);
        Some(id)
    }

    /// The label paths that a path leads to from one, ascending; `None`: that takes more steps than are left.
    fn follow(&self, path: &Linear, start: LabelId, left: &mut Left) -> Option<Vec<LabelId>> {
        let mut found = Vec::new();
        let mut open = vec![(start, Linear::START)];
        while let Some((label, progress)) = open.pop() {
            if path.accepts(progress) {
                found.push(label);
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
        found.sort_unstable();
        Some(found)
    }
}

/// Where a relative path leads: elements of a label path, with how many levels above them bindings are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Target {
    label: LabelId,
    up: u32,
}

/// A relative path from the bindings of a list; paths that lead to the same share it.
#[derive(Debug)]
pub(super) struct Column {
    targets: Box<[Target]>,
}

impl Column {
    fn add_to(&self, all: &mut Vec<Reach>, list: ListId, column: ColumnId) {
        all.extend(self.targets.iter().map(|target| (target.label, target.up, list, column)));
    }
}

/// Values that are read at a label path: those of the elements, or of their attributes.
#[derive(Debug)]
pub(super) struct Reading {
    pub attribute: Option<NameTest>,
    /// The columns that lead to them.
    pub strands: Range,
}

/// The columns that lead to elements of one label path from the bindings of a list that are so many levels up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strand {
    pub up: u32,
    pub list: ListId,
    columns: Range,
}

/// Start and end.
type Range = (u32, u32);

#[inline]
fn slice<T>(all: &[T], (start, end): Range) -> &[T] {
    &all[start as usize..end as usize]
}

/// A column that leads to elements of a label path: the label path, levels up, list, column.
type Reach = (LabelId, u32, ListId, ColumnId);

/// Strands of many label paths.
#[derive(Debug, Default)]
pub(super) struct Strands {
    list: Vec<Strand>,
    columns: Vec<ColumnId>,
}

impl Strands {
    /// Adds columns, ascending, and calls back with those of each label path.
    fn add(&mut self, all: &mut [Reach], mut added: impl FnMut(LabelId, Range)) {
        all.sort_unstable();
        for same in all.chunk_by(|a, b| a.0 == b.0) {
            let start = self.list.len() as u32;
            for strand in same.chunk_by(|a, b| (a.1, a.2) == (b.1, b.2)) {
                let first = self.columns.len() as u32;
                self.columns.extend(strand.iter().map(|&(.., column)| column));
                let columns = (first, self.columns.len() as u32);
                self.list.push(Strand { up: strand[0].1, list: strand[0].2, columns });
            }
            added(same[0].0, (start, self.list.len() as u32));
        }
    }

    /// Those of a label path, by how many levels up the bindings are.
    #[inline]
    pub fn get(&self, strands: Range) -> &[Strand] {
        slice(&self.list, strands)
    }

    /// How many columns there are in all strands of a label path.
    #[inline]
    pub fn column_count(&self, strands: Range) -> usize {
        match self.get(strands) {
            [first, .., last] => (last.columns.1 - first.columns.0) as usize,
            [only] => (only.columns.1 - only.columns.0) as usize,
            [] => 0,
        }
    }

    #[inline]
    pub fn columns(&self, strand: &Strand) -> &[ColumnId] {
        slice(&self.columns, strand.columns)
    }
}

/// What columns and makes are the same by.
type ColumnKey = (ListId, Option<NameTest>, Box<[Target]>);
type MakeKey = (ListId, u32, Box<[ColumnId]>);

/// A skeleton with its columns.
type Made<'a> = (&'a Numbered<Skeleton>, Box<[ColumnId]>);

/// Elements that a binding path selects; binding paths that select the same share it.
#[derive(Debug, Default)]
pub(super) struct List {
    pub labels: Box<[LabelId]>,
}

/// What the queries' paths mean on the label paths known.
#[derive(Debug, Default)]
pub(super) struct Meaning {
    pub lists: Vec<List>,
    pub lists_of_label: Vec<Vec<ListId>>,
    pub columns: Vec<Column>,
    /// By label path: what is read there.
    pub readings: Vec<Vec<Reading>>,
    /// By label path: the columns that are returned and lead there.
    pub returned: Vec<Range>,
    pub strands: Strands,
    /// By source: its list; [`NONE`] if it leads nowhere.
    pub list_of_source: Vec<ListId>,
    /// By pair: its column; [`NONE`] likewise.
    pub column_of_pair: Vec<ColumnId>,
    /// By make: the number of its recipe among those of the list; [`NONE`] likewise.
    pub make_of: Vec<u32>,
    pub recipes: Arc<Recipes>,
}

impl Meaning {
    /// `None`: to find it takes too much, or it is too much to be kept.
    pub fn of(classes: &Classes, labels: &Labels) -> Option<Self> {
        let mut left = Left { steps: STEPS_MAX, kept: KEPT_MAX };
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
            && self.make_of == other.make_of
    }

    fn find_lists(&mut self, classes: &Classes, labels: &Labels, left: &mut Left) -> Option<()> {
        self.list_of_source = vec![NONE; classes.sources.bound()];
        let mut known: FxHashMap<Vec<LabelId>, ListId> = FxHashMap::default();
        for (id, source) in classes.sources.iter() {
            let found = labels.follow(&source.path, ROOT, left)?;
            if found.is_empty() {
                continue;
            }
            self.list_of_source[id as usize] = match known.get(&found) {
                Some(&known) => known,
                None => {
                    left.kept = left.kept.checked_sub(found.len())?;
                    let list = self.lists.len() as ListId;
                    found.iter().for_each(|&label| self.lists_of_label[label as usize].push(list));
                    self.lists.push(List { labels: found.as_slice().into() });
                    known.insert(found, list);
                    list
                }
            };
        }
        Some(())
    }

    fn find_columns(&mut self, classes: &Classes, labels: &Labels, left: &mut Left) -> Option<()> {
        self.column_of_pair = vec![NONE; classes.pairs.bound()];
        let mut known: FxHashMap<ColumnKey, ColumnId> = FxHashMap::default();
        let mut is_read = Vec::new();
        let mut read: FxHashMap<Option<NameTest>, Vec<Reach>> = FxHashMap::default();
        for (id, pair) in classes.pairs.iter() {
            let list = self.list_of_source[pair.source as usize];
            let Some(bound) = self.lists.get(list as usize) else { continue };
            let mut targets = Vec::new();
            for &binding in &bound.labels {
                let depth = labels.list[binding as usize].depth;
                let found = labels.follow(&pair.path, binding, left)?;
                targets.extend(
                    found.into_iter().map(|label| Target { label, up: labels.list[label as usize].depth - depth }),
                );
            }
            targets.sort_unstable_by_key(|target| (target.label, target.up));
            let targets: Box<[Target]> = targets.into();
            let place = (list, pair.path.attribute, targets.clone());
            let column = match known.get(&place) {
                Some(&known) => known,
                None => {
                    left.kept = left.kept.checked_sub(targets.len())?;
                    self.columns.push(Column { targets });
                    is_read.push(false);
                    let column = self.columns.len() as ColumnId - 1;
                    known.insert(place, column);
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
                readings[label as usize].push(Reading { attribute, strands });
            });
        }
        Some(())
    }

    fn find_recipes(&mut self, classes: &Classes) {
        self.make_of = vec![NONE; classes.makes.bound()];
        let mut known: FxHashMap<MakeKey, u32> = FxHashMap::default();
        let mut of_list: Vec<Vec<Made<'_>>> = vec![Vec::new(); self.lists.len()];
        for (id, make) in classes.makes.iter() {
            let list = self.list_of_source[make.source as usize];
            let Some(mine) = of_list.get_mut(list as usize) else { continue };
            let columns: Box<[ColumnId]> =
                make.columns.iter().map(|&pair| self.column_of_pair[pair as usize]).collect();
            let place = (list, make.skeleton.id, columns.clone());
            self.make_of[id as usize] = *known.entry(place).or_insert_with(|| {
                mine.push((&make.skeleton, columns));
                mine.len() as u32 - 1
            });
        }
        let mut recipes = Recipes::default();
        for mine in &of_list {
            recipes.add_list(mine.iter().map(|(skeleton, columns)| (*skeleton, &columns[..])));
        }
        let mut returned = Vec::new();
        for list in 0..self.lists.len() as ListId {
            for &column in recipes.needed(list) {
                self.columns[column as usize].add_to(&mut returned, list, column);
            }
        }
        self.strands.add(&mut returned, |label, strands| self.returned[label as usize] = strands);
        self.recipes = Arc::new(recipes);
    }
}
