//! The queries by what they ask of bindings, laid out to be walked.
//!
//! On the label paths known, a *condition* is a column that is compared with a constant, however the paths to it are
//! spelt. Queries with the same conditions lie next to each other. Those with several are in a tree: a node below another
//! asks for one condition more. A message walks the trees of the conditions that it satisfies, with the set of bindings
//! that satisfy all conditions so far, and leaves a branch as soon as that set is empty: which decides conjunctions for
//! all queries that begin with the same conditions at once.

use rustc_hash::FxHashMap;

use super::super::family::{ConstantId, NONE};
use super::classes::{Class, ClassId, Classes, key};
use super::found::Conditions;
use super::guide::{ColumnId, ListId, Meaning};

pub(super) type ConditionId = u32;

/// Places of a table of conditions, at most: so many, and so many for each condition.
const TABLE_FREE: usize = 1 << 16;
const TABLE_PER_CONDITION: usize = 8;

/// Start and end of members.
pub(super) type Members = (u32, u32);

#[derive(Clone, Copy, Debug)]
struct Node {
    condition: ConditionId,
    depth: u32,
    /// The node after all that are below this one.
    end: u32,
    members: Members,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Selector {
    /// By column and constant.
    condition_of: FxHashMap<u64, ConditionId>,
    table: Table,
    /// By condition: the node of the queries that begin with it, if there are any.
    tops: Vec<u32>,
    /// By list: the queries that ask for nothing.
    unconditional: Vec<Members>,
    /// Each before those below it.
    nodes: Vec<Node>,
    /// By member: the query, and the number of its make among those of the list.
    queries: Vec<u32>,
    rows: Vec<u32>,
}

/// The conditions by constant and column, as a table; empty where it would be nearly so.
#[derive(Debug, Default)]
struct Table {
    /// Which row is that of a constant.
    rows: FxHashMap<ConstantId, u32>,
    /// How many columns there are, which is how long a row is.
    columns: usize,
    conditions: Vec<ConditionId>,
}

impl Table {
    fn of(condition_of: &FxHashMap<u64, ConditionId>, columns: usize) -> Self {
        let mut table = Self { columns, ..Self::default() };
        for &place in condition_of.keys() {
            let next = table.rows.len() as u32;
            table.rows.entry(place as u32).or_insert(next);
        }
        let size = table.rows.len() * columns;
        if size <= TABLE_FREE + TABLE_PER_CONDITION * condition_of.len() {
            table.conditions.resize(size, NONE);
            for (&place, &condition) in condition_of {
                let row = table.rows[&(place as u32)] as usize;
                table.conditions[row * columns + (place >> 32) as usize] = condition;
            }
        }
        table
    }
}

/// A constant that is compared with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    constant: ConstantId,
    /// Where its conditions begin.
    start: usize,
}

/// A query with several conditions, ascending.
type Several = (Box<[ConditionId]>, u32, u32);

/// Queries on their way into a selector.
#[derive(Default)]
struct Sorted {
    /// List, make and query.
    unconditional: Vec<(ListId, u32, u32)>,
    /// Condition, make and query.
    single: Vec<(ConditionId, u32, u32)>,
    several: Vec<Several>,
}

impl Selector {
    pub fn of(classes: &Classes, meaning: &Meaning) -> Self {
        let mut selector = Self::default();
        let mut sorted = Sorted::default();
        for (_, class) in classes.classes.iter() {
            selector.sort(classes, meaning, class, &mut sorted);
        }
        sorted.unconditional.sort_unstable();
        sorted.single.sort_unstable();
        sorted.several.sort_unstable();
        selector.unconditional = vec![(0, 0); meaning.lists.len()];
        for &(list, row, query) in &sorted.unconditional {
            let members = &mut selector.unconditional[list as usize];
            push(&mut selector.queries, &mut selector.rows, members, (query, row));
        }
        selector.lay_out(&sorted);
        selector.table = Table::of(&selector.condition_of, meaning.columns.len());
        selector
    }

    fn condition(&mut self, meaning: &Meaning, class: &Class) -> ConditionId {
        let column = meaning.column_of_pair[class.pair as usize];
        let next = self.condition_of.len() as ConditionId;
        *self.condition_of.entry(key(column, class.constant)).or_insert(next)
    }

    fn sort(&mut self, classes: &Classes, meaning: &Meaning, class: &Class, sorted: &mut Sorted) {
        let list = meaning.list_of_source[class.source as usize];
        if list == NONE {
            return;
        }
        let row = |make: u32| meaning.make_of[make as usize];
        if class.pair == NONE {
            sorted.unconditional.extend(class.members.iter().map(|member| (list, row(member.make), member.query)));
            return;
        }
        let first = self.condition(meaning, class);
        for member in &class.members {
            let others: &[ClassId] = classes.also.get(member.also).map_or(&[], |others| others);
            let mut conditions = vec![first];
            conditions.extend(others.iter().filter_map(|&class| {
                let class = classes.classes.get(class)?;
                Some(self.condition(meaning, class))
            }));
            conditions.sort_unstable();
            conditions.dedup();
            match conditions[..] {
                [only] => sorted.single.push((only, row(member.make), member.query)),
                _ => sorted.several.push((conditions.into(), row(member.make), member.query)),
            }
        }
    }

    fn lay_out(&mut self, sorted: &Sorted) {
        self.tops = vec![NONE; self.condition_of.len()];
        let (mut single, mut several) = (&sorted.single[..], &sorted.several[..]);
        for condition in 0..self.tops.len() as ConditionId {
            let mine;
            (mine, single) = single.split_at(single.partition_point(|&(of, ..)| of == condition));
            let below;
            (below, several) = several.split_at(several.partition_point(|(of, ..)| of[0] == condition));
            if mine.is_empty() && below.is_empty() {
                continue;
            }
            self.tops[condition as usize] = self.nodes.len() as u32;
            let top = self.open(condition, 0);
            for &(_, row, query) in mine {
                self.add_member(top, query, row);
            }
            self.lay_out_below(top, below);
        }
    }

    /// Lays out the queries that begin with a condition and have others.
    fn lay_out_below(&mut self, top: u32, several: &[Several]) {
        let mut open = vec![top];
        let mut before: &[ConditionId] = &[self.nodes[top as usize].condition];
        for (conditions, row, query) in several {
            let common = before.iter().zip(conditions).take_while(|(a, b)| a == b).count();
            self.close(&mut open, common);
            for (depth, &condition) in conditions.iter().enumerate().skip(common) {
                open.push(self.open(condition, depth as u32));
            }
            if let Some(&last) = open.last() {
                self.add_member(last, *query, *row);
            }
            before = conditions;
        }
        self.close(&mut open, 0);
    }

    fn open(&mut self, condition: ConditionId, depth: u32) -> u32 {
        let start = self.queries.len() as u32;
        self.nodes.push(Node { condition, depth, end: NONE, members: (start, start) });
        self.nodes.len() as u32 - 1
    }

    fn close(&mut self, open: &mut Vec<u32>, from: usize) {
        let end = self.nodes.len() as u32;
        for node in open.drain(from..) {
            self.nodes[node as usize].end = end;
        }
    }

    fn add_member(&mut self, node: u32, query: u32, row: u32) {
        push(&mut self.queries, &mut self.rows, &mut self.nodes[node as usize].members, (query, row));
    }

    /// How many conditions there are.
    pub fn condition_count(&self) -> usize {
        self.tops.len()
    }

    /// The conditions that ask for a constant, if there are any.
    #[inline]
    pub fn row(&self, constant: ConstantId) -> Option<Row> {
        let row = *self.table.rows.get(&constant)?;
        Some(Row { constant, start: row as usize * self.table.columns })
    }

    /// The condition that a column is equal to a constant, if any query asks for it.
    #[inline]
    pub fn condition_of(&self, row: Row, column: ColumnId) -> Option<ConditionId> {
        if self.table.conditions.is_empty() {
            return self.condition_of.get(&key(column, row.constant)).copied();
        }
        self.table.conditions.get(row.start + column as usize).copied().filter(|&condition| condition != NONE)
    }

    /// The queries that ask nothing of the bindings of a list.
    pub fn unconditional(&self, list: ListId) -> Members {
        self.unconditional[list as usize]
    }

    /// Queries, and the numbers of their makes among those of the list.
    #[inline]
    pub fn members(&self, (start, end): Members) -> (&[u32], &[u32]) {
        let place = start as usize..end as usize;
        (&self.queries[place.clone()], &self.rows[place])
    }

    /// Calls back with the queries that a satisfied condition leads to, and the bindings that satisfy all that they ask
    /// for. `stack` is scratch.
    pub fn walk(
        &self,
        condition: ConditionId,
        conditions: Conditions<'_>,
        stack: &mut Vec<u64>,
        mut found: impl FnMut(&[u64], Members),
    ) {
        let top = self.tops[condition as usize];
        let Some(&Node { end, members, .. }) = self.nodes.get(top as usize) else { return };
        let Some(set) = conditions.set(condition) else { return };
        if members.0 < members.1 {
            found(set, members);
        }
        if end == top + 1 {
            return;
        }
        let words = conditions.words;
        stack.clear();
        stack.extend_from_slice(set);
        let mut at = top + 1;
        while at < end {
            let node = self.nodes[at as usize];
            let parent = (node.depth as usize - 1) * words;
            stack.truncate(parent + words);
            if !conditions.set(node.condition).is_some_and(|other| intersect(stack, parent, other)) {
                at = node.end;
                continue;
            }
            at += 1;
            if node.members.0 < node.members.1 {
                found(&stack[parent + words..], node.members);
            }
        }
    }
}

fn push(queries: &mut Vec<u32>, rows: &mut Vec<u32>, members: &mut Members, (query, row): (u32, u32)) {
    if members.0 == members.1 {
        members.0 = queries.len() as u32;
    }
    queries.push(query);
    rows.push(row);
    members.1 = queries.len() as u32;
}

/// Puts what a set has in common with the one from `parent` on the stack; whether that is anything.
#[inline]
fn intersect(stack: &mut Vec<u64>, parent: usize, other: &[u64]) -> bool {
    let mut any = 0;
    for (index, word) in other.iter().enumerate() {
        let common = stack[parent + index] & word;
        any |= common;
        stack.push(common);
    }
    any != 0
}
