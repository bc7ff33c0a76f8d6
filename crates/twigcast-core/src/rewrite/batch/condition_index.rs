//! The queries by what they ask of bindings, laid out to be walked.
//!
//! On the label paths known, a *condition* is a column that is compared with a constant, however the paths to it are
//! spelt. Queries with the same conditions lie next to each other. Those with several are in a tree, as branches below the
//! first condition: a branch asks for one condition more, or for two if nothing branches off between them. A message walks
//! the trees of the conditions that it satisfies, with the set of bindings that satisfy all conditions so far, and leaves
//! a branch as soon as that set is empty: which decides conjunctions for all queries that begin with the same conditions
//! at once. Branches of one place lie next to each other, and are looked at without a jump: which of them have a binding
//! is hard to foretell. The first condition of a query is the one that held least often so far: so most queries are on
//! trees that are not walked.

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::super::program::family::{ConstantId, NONE};
use super::catalog::{ConditionClass, ConditionClassId, QueryCatalog, key};
use super::data_guide::{BindingColumnId, BindingListId, PathResolution};

pub(super) type BindingConditionId = u32;

/// Places of a table of conditions, at most: so many, and so many for each condition.
const TABLE_FREE: usize = 1 << 16;
const TABLE_PER_CONDITION: usize = 8;

/// Start and end of members.
pub(super) type MemberRange = (u32, u32);

/// A query, and the number of its recipe among those of the list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexedQuery {
    pub query: u32,
    pub row: u32,
    /// Which of [`ConditionIndex::rows`] it is.
    pub row_index: u32,
}

/// Queries that ask for certain conditions, and the branches of those that ask for more.
#[derive(Clone, Copy, Debug, Default)]
struct ConditionBranch {
    members: MemberRange,
    below: (u32, u32),
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct ConditionIndex {
    /// By column and constant.
    condition_of: FxHashMap<u64, BindingConditionId>,
    table: ConditionTable,
    /// By condition: the queries that begin with it.
    tops: Vec<ConditionBranch>,
    /// By list: the queries that ask for nothing.
    unconditional: Vec<MemberRange>,
    /// By branch below others: the conditions that it asks for, twice the same if it is one.
    asks: Vec<[BindingConditionId; 2]>,
    branches: Vec<ConditionBranch>,
    members: Vec<IndexedQuery>,
    /// The recipes of members that are next to each other, ascending, each once.
    rows: Vec<u32>,
    several_count: usize,
    /// By list: where there is room for all conditions of it, and for one more; and where there is none any more.
    list_ranges: Vec<u32>,
}

/// The conditions by constant and column, as a table; empty where it would be nearly so.
#[derive(Debug, Default)]
struct ConditionTable {
    /// Which row is that of a constant.
    rows: FxHashMap<ConstantId, u32>,
    /// How many columns there are, which is how long a row is.
    columns: usize,
    conditions: Vec<BindingConditionId>,
}

impl ConditionTable {
    fn of(condition_of: &FxHashMap<u64, BindingConditionId>, columns: usize) -> Self {
        let mut table = Self { columns, ..Self::default() };
        for &column_and_constant in condition_of.keys() {
            let next = table.rows.len() as u32;
            table.rows.entry(column_and_constant as u32).or_insert(next);
        }
        let size = table.rows.len() * columns;
        if size <= TABLE_FREE + TABLE_PER_CONDITION * condition_of.len() {
            table.conditions.resize(size, condition_of.len() as BindingConditionId);
            for (&column_and_constant, &condition) in condition_of {
                let row = table.rows[&(column_and_constant as u32)] as usize;
                table.conditions[row * columns + (column_and_constant >> 32) as usize] = condition;
            }
        }
        table
    }
}

/// A constant that is compared with.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConditionRow {
    constant: ConstantId,
    /// Where its conditions begin.
    start: u32,
}

impl ConditionRow {
    /// Where the condition of a column is in [`ConditionIndex::table`].
    #[inline]
    pub fn position(self, column: BindingColumnId) -> usize {
        self.start as usize + column as usize
    }
}

/// A query with several conditions, ascending.
type MultiConditionQuery = (Box<[BindingConditionId]>, u32, u32);

/// Queries on their way into a selector.
#[derive(Default)]
struct SortedQueries {
    /// List, make and query.
    unconditional: Vec<(BindingListId, u32, u32)>,
    /// Condition, make and query.
    single: Vec<(BindingConditionId, u32, u32)>,
    several: Vec<MultiConditionQuery>,
}

impl ConditionIndex {
    /// `how_often`: on how many of the messages so far a value was as a class asks for, if that is known.
    pub fn of(classes: &QueryCatalog, meaning: &PathResolution, how_often: impl Fn(&ConditionClass) -> u32) -> Self {
        let mut selector = Self::default();
        selector.number_conditions(classes, meaning, how_often);
        let mut sorted = SortedQueries::default();
        for (_, class) in classes.classes.iter() {
            selector.sort(classes, meaning, class, &mut sorted);
        }
        sorted.unconditional.sort_unstable();
        sorted.single.sort_unstable();
        sorted.several.sort_unstable();
        selector.several_count = sorted.several.len();
        selector.unconditional = vec![(0, 0); meaning.lists.len()];
        for same in sorted.unconditional.chunk_by(|a, b| a.0 == b.0) {
            let members = selector.add_members(same.iter().map(|&(_, row, query)| (query, row)));
            selector.unconditional[same[0].0 as usize] = members;
        }
        selector.lay_out(&sorted);
        selector.table = ConditionTable::of(&selector.condition_of, meaning.columns.len());
        selector
    }

    /// Numbers the conditions, those that hold least often first.
    fn number_conditions(
        &mut self,
        classes: &QueryCatalog,
        meaning: &PathResolution,
        how_often: impl Fn(&ConditionClass) -> u32,
    ) {
        let mut conditions: Vec<(u32, u64, BindingListId)> = Vec::new();
        for (_, class) in classes.classes.iter().filter(|(_, class)| class.pair != NONE) {
            let column = meaning.column_of_pair[class.pair as usize];
            if column != NONE {
                let list = meaning.list_of_source[class.source as usize];
                conditions.push((how_often(class), key(column, class.constant), list));
            }
        }
        conditions.sort_unstable();
        self.list_ranges = vec![0; meaning.lists.len() + 1];
        for (_, column_and_constant, list) in conditions {
            let next = self.condition_of.len() as BindingConditionId;
            self.condition_of.entry(column_and_constant).or_insert_with(|| {
                self.list_ranges[list as usize + 1] += 1;
                next
            });
        }
        for list in 0..meaning.lists.len() {
            self.list_ranges[list + 1] += self.list_ranges[list] + 1;
        }
    }

    /// The condition of a class; `None`: there is none.
    pub fn condition(&self, meaning: &PathResolution, class: &ConditionClass) -> Option<BindingConditionId> {
        let column = *meaning.column_of_pair.get(class.pair as usize)?;
        self.condition_of.get(&key(column, class.constant)).copied()
    }

    /// How many queries have several conditions.
    pub fn several_count(&self) -> usize {
        self.several_count
    }

    fn sort(
        &mut self,
        classes: &QueryCatalog,
        meaning: &PathResolution,
        class: &ConditionClass,
        sorted: &mut SortedQueries,
    ) {
        let list = meaning.list_of_source[class.source as usize];
        if list == NONE {
            return;
        }
        let row = |plan: u32| meaning.constructor_of[plan as usize];
        if class.pair == NONE {
            sorted.unconditional.extend(class.members.iter().map(|member| (list, row(member.plan), member.query)));
            return;
        }
        let Some(first) = self.condition(meaning, class) else { return };
        for member in &class.members {
            let others: &[ConditionClassId] = classes.also.get(member.also).map_or(&[], |others| others);
            let mut conditions = vec![first];
            conditions.extend(others.iter().filter_map(|&class| self.condition(meaning, classes.classes.get(class)?)));
            conditions.sort_unstable();
            conditions.dedup();
            match conditions[..] {
                [only] => sorted.single.push((only, row(member.plan), member.query)),
                _ => sorted.several.push((conditions.into(), row(member.plan), member.query)),
            }
        }
    }

    fn lay_out(&mut self, sorted: &SortedQueries) {
        let (mut single, mut several) = (&sorted.single[..], &sorted.several[..]);
        for condition in 0..self.condition_of.len() as BindingConditionId {
            let mine;
            (mine, single) = single.split_at(single.partition_point(|&(of, ..)| of == condition));
            let more;
            (more, several) = several.split_at(several.partition_point(|(of, ..)| of[0] == condition));
            let members = self.add_members(mine.iter().map(|&(_, row, query)| (query, row)));
            let below = self.lay_out_below(more);
            self.tops.push(ConditionBranch { members, below });
        }
    }

    /// Lays out queries that begin with the same condition and have others; returns their first branches.
    fn lay_out_below(&mut self, several: &[MultiConditionQuery]) -> (u32, u32) {
        let first = self.branches.len() as u32;
        let mut open = Vec::new();
        self.add_branches(several, 1, &mut open);
        let below = (first, self.branches.len() as u32);
        while let Some((branch, queries, depth)) = open.pop() {
            let queries: &[MultiConditionQuery] = queries;
            let (here, more) = queries.split_at(queries.partition_point(|(of, ..)| of.len() == depth));
            let members = self.add_members(here.iter().map(|&(_, row, query)| (query, row)));
            let first = self.branches.len() as u32;
            self.add_branches(more, depth, &mut open);
            self.branches[branch] = ConditionBranch { members, below: (first, self.branches.len() as u32) };
        }
        below
    }

    /// Adds the branches of queries that have so many conditions in common and others; what each is to lead to is `open`.
    fn add_branches<'a>(
        &mut self,
        several: &'a [MultiConditionQuery],
        depth: usize,
        open: &mut Vec<(usize, &'a [MultiConditionQuery], usize)>,
    ) {
        for same in several.chunk_by(|(a, ..), (b, ..)| a[depth] == b[depth]) {
            let (least, greatest) = (&same[0].0, &same[same.len() - 1].0);
            let ask = least[depth];
            let is_alone = least.len() > depth + 1 && least[depth + 1] == greatest[depth + 1];
            let next = if is_alone { least[depth + 1] } else { ask };
            open.push((self.branches.len(), same, depth + 1 + usize::from(is_alone)));
            self.asks.push([ask, next]);
            self.branches.push(ConditionBranch::default());
        }
    }

    /// Adds queries that ask for the same, each with its recipe, in the order of these.
    fn add_members(&mut self, members: impl Iterator<Item = (u32, u32)>) -> MemberRange {
        let (start, mut last) = (self.members.len() as u32, None);
        for (query, row) in members {
            if last != Some(row) {
                self.rows.push(row);
                last = Some(row);
            }
            self.members.push(IndexedQuery { query, row, row_index: self.rows.len() as u32 - 1 });
        }
        (start, self.members.len() as u32)
    }

    /// How many conditions there are.
    pub fn condition_count(&self) -> usize {
        self.tops.len()
    }

    /// How many lists there are.
    pub fn list_count(&self) -> usize {
        self.unconditional.len()
    }

    /// Where there is room for all conditions of a list, and for one more.
    #[inline]
    pub fn words_of_list(&self, list: BindingListId) -> Range<usize> {
        self.list_ranges[list as usize] as usize..self.list_ranges[list as usize + 1] as usize
    }

    /// How much room that is for all lists.
    pub fn set_words(&self) -> usize {
        self.list_ranges.last().map_or(0, |&end| end as usize)
    }

    /// The conditions that ask for a constant, if there are any.
    #[inline]
    pub fn row(&self, constant: ConstantId) -> Option<ConditionRow> {
        let row = *self.table.rows.get(&constant)?;
        // Where there is no table, that means nothing.
        Some(ConditionRow { constant, start: (row as usize * self.table.columns) as u32 })
    }

    /// By [`ConditionRow::position`], the condition that a column is equal to the constant of a row; [`Self::condition_count`] where no
    /// query asks for it. `None`: there would be hardly any.
    #[inline]
    pub fn table(&self) -> Option<&[BindingConditionId]> {
        Some(&self.table.conditions[..]).filter(|conditions| !conditions.is_empty())
    }

    /// The condition that a column is equal to the constant of a row; [`Self::condition_count`]: no query asks for it.
    #[inline]
    pub fn condition_at(&self, row: ConditionRow, column: BindingColumnId) -> BindingConditionId {
        if let Some(&condition) = self.table.conditions.get(row.position(column)) {
            return condition;
        }
        let existing = self.condition_of.get(&key(column, row.constant)).copied();
        existing.unwrap_or(self.condition_count() as BindingConditionId)
    }

    /// The queries that ask nothing of the bindings of a list.
    pub fn unconditional(&self, list: BindingListId) -> MemberRange {
        self.unconditional[list as usize]
    }

    #[inline]
    pub fn members(&self, (start, end): MemberRange) -> &[IndexedQuery] {
        &self.members[start as usize..end as usize]
    }

    /// The different recipes of members, ascending, by number among those of the list.
    #[inline]
    pub fn rows(&self, members: &[IndexedQuery]) -> &[u32] {
        match members {
            [first, .., last] => &self.rows[first.row_index as usize..=last.row_index as usize],
            [only] => &self.rows[only.row_index as usize..=only.row_index as usize],
            [] => &[],
        }
    }

    /// Calls back with the queries that satisfied conditions of one list lead to, and the bindings that satisfy all that
    /// they ask for. `stack` is scratch.
    pub fn walk(
        &self,
        satisfied: &[BindingConditionId],
        held: ConditionBindings<'_>,
        stack: &mut BranchStack,
        mut bindings: impl FnMut(&[u64], MemberRange),
    ) {
        if held.words > 1 {
            return satisfied.iter().for_each(|&condition| self.walk_wide(condition, held, stack, &mut bindings));
        }
        for &condition in satisfied {
            let (ConditionBranch { members, below }, set) =
                (self.tops[condition as usize], held.narrow[condition as usize]);
            if members.0 < members.1 {
                bindings(&[set], members);
            }
            if below.0 < below.1 {
                self.walk_below(below, set, held.narrow, stack, &mut bindings);
            }
        }
    }

    fn walk_below(
        &self,
        below: (u32, u32),
        set: u64,
        held: &[u64],
        stack: &mut BranchStack,
        bindings: &mut impl FnMut(&[u64], MemberRange),
    ) {
        self.push_branches(below, set, held, stack);
        while let Some((branch, set)) = stack.pop() {
            let ConditionBranch { members, below } = self.branches[branch as usize];
            if members.0 < members.1 {
                bindings(&[set], members);
            }
            if below.0 < below.1 {
                self.push_branches(below, set, held, stack);
            }
        }
    }

    /// Puts branches on the stack that ask for what is satisfied by bindings of a set.
    #[inline]
    fn push_branches(&self, (start, end): (u32, u32), set: u64, held: &[u64], stack: &mut BranchStack) {
        stack.branches_visited += u64::from(end - start);
        let asks = &self.asks[start as usize..end as usize];
        let words = stack.reserve(asks.len());
        let mut count = 0;
        for (branch, &[first, second]) in (start..).zip(asks) {
            let common = set & held[first as usize] & held[second as usize];
            words[count] = (branch, common);
            count += usize::from(common != 0);
        }
        stack.length += count;
    }

    /// Like [`Self::walk`], where sets take several words.
    fn walk_wide(
        &self,
        condition: BindingConditionId,
        held: ConditionBindings<'_>,
        stack: &mut BranchStack,
        bindings: &mut impl FnMut(&[u64], MemberRange),
    ) {
        let Some(set) = held.wide(condition) else { return };
        let ConditionBranch { members, below } = self.tops[condition as usize];
        if members.0 < members.1 {
            bindings(set, members);
        }
        stack.wide.clear();
        self.push_branches_wide(below, set, held, stack);
        let mut set = Vec::with_capacity(held.words);
        while let Some((branch, _)) = stack.pop() {
            let rest = stack.wide.len() - held.words;
            set.clear();
            set.extend(stack.wide.drain(rest..));
            let ConditionBranch { members, below } = self.branches[branch as usize];
            if members.0 < members.1 {
                bindings(&set, members);
            }
            self.push_branches_wide(below, &set, held, stack);
        }
    }

    fn push_branches_wide(
        &self,
        (start, end): (u32, u32),
        set: &[u64],
        held: ConditionBindings<'_>,
        stack: &mut BranchStack,
    ) {
        stack.branches_visited += u64::from(end - start);
        for branch in start..end {
            let [first, second] = self.asks[branch as usize];
            let (Some(first), Some(second)) = (held.wide(first), held.wide(second)) else { continue };
            let before = stack.wide.len();
            stack.wide.extend(set.iter().zip(first).zip(second).map(|((set, first), second)| set & first & second));
            if stack.wide[before..].iter().all(|&word| word == 0) {
                stack.wide.truncate(before);
            } else {
                stack.reserve(1)[0] = (branch, 0);
                stack.length += 1;
            }
        }
    }
}

/// The sets of bindings that satisfy the conditions of a list.
#[derive(Clone, Copy)]
pub(super) struct ConditionBindings<'a> {
    /// How many words a set takes.
    pub words: usize,
    /// By condition, where it is one.
    pub narrow: &'a [u64],
    pub bits: &'a [u64],
}

impl<'a> ConditionBindings<'a> {
    /// The bindings that satisfy a condition, where sets take several words; `None`: no binding does.
    #[inline]
    pub fn wide(self, condition: BindingConditionId) -> Option<&'a [u64]> {
        let position = (self.narrow[condition as usize] as usize).checked_sub(1)?;
        Some(&self.bits[position..position + self.words])
    }
}

/// Branches that are still to be looked below, with the bindings that satisfy all that they ask for.
#[derive(Debug, Default)]
pub(super) struct BranchStack {
    narrow: Vec<(u32, u64)>,
    length: usize,
    /// Where sets take several words.
    wide: Vec<u64>,
    /// How many branches were looked at.
    pub branches_visited: u64,
}

impl BranchStack {
    /// So many places behind those in use, at least.
    #[inline]
    fn reserve(&mut self, count: usize) -> &mut [(u32, u64)] {
        let end = self.length + count;
        if self.narrow.len() < end {
            self.narrow.resize(end, (0, 0));
        }
        &mut self.narrow[self.length..end]
    }

    #[inline]
    fn pop(&mut self) -> Option<(u32, u64)> {
        self.length = self.length.checked_sub(1)?;
        Some(self.narrow[self.length])
    }
}
