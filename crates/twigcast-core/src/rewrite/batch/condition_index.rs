//! The batch queries, laid out for lookup by the conditions that bindings satisfy.
//!
//! A *condition* is a column that is compared with a constant, however the paths to the column are spelt. Queries with
//! the same conditions lie next to each other. Queries with several conditions form trees: the root is the first
//! condition, and each branch below asks for one more, or for two if no query branches off between them. A message
//! walks the trees of the conditions that it satisfies, with the set of bindings that satisfy all conditions so far,
//! and leaves a branch when that set is empty. So a conjunction is decided once for all queries that begin with it.
//! Sibling branches lie next to each other and are tested without a jump, because the processor cannot predict which of
//! them have bindings. The first condition of a query is the one that has held least often so far, so that most trees
//! are not walked.

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::ids::{BindingColumnId, BindingConditionId, BindingListId, ComparedPathId, ConstantId};

use super::data_guide::PathResolution;
use super::queries::{BatchQueries, ConditionClass};

/// Entries of a [`ConditionMatrix`] at most: this many, and this many for each condition.
const MATRIX_FREE: usize = 1 << 16;
const MATRIX_PER_CONDITION: usize = 8;

/// Start and end of members.
pub(super) type MemberRange = (u32, u32);

/// Start and end of sibling branches.
type BranchRange = (u32, u32);

/// A query and its constructor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexedQuery {
    pub query: u32,
    /// Index of its constructor among those of the binding list.
    pub constructor: u32,
    /// Position of the constructor in the [distinct constructors](ConditionIndex::constructors) of neighbours.
    pub distinct_index: u32,
}

/// The queries that ask for the conditions up to here, and the branches of those that ask for more.
#[derive(Clone, Copy, Debug, Default)]
struct ConditionBranch {
    members: MemberRange,
    below: BranchRange,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct ConditionIndex {
    /// By [`condition_key`].
    condition_ids: FxHashMap<u64, BindingConditionId>,
    matrix: ConditionMatrix,
    /// By condition: the queries that begin with it.
    roots: Vec<ConditionBranch>,
    /// By binding list: the queries without conditions.
    unconditional: Vec<MemberRange>,
    /// By branch below a root: its two conditions; a branch with one condition has it twice.
    asks: Vec<[BindingConditionId; 2]>,
    branches: Vec<ConditionBranch>,
    members: Vec<IndexedQuery>,
    /// The constructors of members with the same conditions, ascending, each once.
    constructors: Vec<u32>,
    multi_condition_count: usize,
    /// By binding list: the start of a range for all its conditions and one more. The end of the last range follows.
    list_starts: Vec<u32>,
}

/// Returns the key of a condition in the table of all.
fn condition_key(column: BindingColumnId, constant: ConstantId) -> u64 {
    u64::from(column.as_u32()) << u32::BITS | u64::from(constant.as_u32())
}

/// Returns the index of the column and the constant of a [`condition_key`].
fn split_key(key: u64) -> (usize, ConstantId) {
    ((key >> u32::BITS) as usize, ConstantId::from_u32(key as u32))
}

/// The conditions by constant and column as a matrix. It has no entries if most would be empty.
#[derive(Debug, Default)]
struct ConditionMatrix {
    /// Index of the row of a constant.
    rows: FxHashMap<ConstantId, u32>,
    /// Number of columns of a row.
    column_count: usize,
    conditions: Vec<BindingConditionId>,
}

impl ConditionMatrix {
    fn of(condition_ids: &FxHashMap<u64, BindingConditionId>, column_count: usize) -> Self {
        let mut matrix = Self { column_count, ..Self::default() };
        for &key in condition_ids.keys() {
            let next = matrix.rows.len() as u32;
            matrix.rows.entry(split_key(key).1).or_insert(next);
        }
        let size = matrix.rows.len() * column_count;
        if size <= MATRIX_FREE + MATRIX_PER_CONDITION * condition_ids.len() {
            matrix.conditions.resize(size, BindingConditionId::new(condition_ids.len()));
            for (&key, &condition) in condition_ids {
                let (column, constant) = split_key(key);
                matrix.conditions[matrix.rows[&constant] as usize * column_count + column] = condition;
            }
        }
        matrix
    }
}

/// The conditions that ask for one constant.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConditionRow {
    constant: ConstantId,
    /// Position of its first condition in the matrix.
    start: u32,
}

impl ConditionRow {
    /// Returns the position of the condition of a column in [`ConditionIndex::matrix`].
    #[inline]
    pub fn position(self, column: BindingColumnId) -> usize {
        self.start as usize + column.index()
    }
}

/// A query with its constructor.
type ConstructedQuery = (u32, u32);

/// A query with several conditions, ascending: the conditions, the constructor and the query.
type MultiConditionQuery = (Box<[BindingConditionId]>, u32, u32);

/// The batch queries, sorted by their conditions and constructors.
#[derive(Default)]
struct SortedQueries {
    /// Binding list, constructor and query.
    unconditional: Vec<(BindingListId, u32, u32)>,
    /// Condition, constructor and query.
    single: Vec<(BindingConditionId, u32, u32)>,
    several: Vec<MultiConditionQuery>,
}

impl ConditionIndex {
    /// Lays out the batch queries. `match_count` returns on how many messages the condition of a class has
    /// held.
    pub fn of(
        queries: &BatchQueries,
        resolution: &PathResolution,
        match_count: impl Fn(&ConditionClass) -> u32,
    ) -> Self {
        let mut index = Self::default();
        index.number_conditions(queries, resolution, match_count);
        let mut sorted = SortedQueries::default();
        for (_, class) in queries.classes.iter() {
            index.sort_members(queries, resolution, class, &mut sorted);
        }
        sorted.unconditional.sort_unstable();
        sorted.single.sort_unstable();
        sorted.several.sort_unstable();
        index.multi_condition_count = sorted.several.len();
        index.unconditional = vec![(0, 0); resolution.lists.len()];
        for same in sorted.unconditional.chunk_by(|a, b| a.0 == b.0) {
            let members = index.add_members(same.iter().map(|&(_, constructor, query)| (constructor, query)));
            index.unconditional[same[0].0.index()] = members;
        }
        index.add_roots(&sorted);
        index.matrix = ConditionMatrix::of(&index.condition_ids, resolution.columns.len());
        index
    }

    /// Gives numbers to the conditions, those that have held least often first.
    fn number_conditions(
        &mut self,
        queries: &BatchQueries,
        resolution: &PathResolution,
        match_count: impl Fn(&ConditionClass) -> u32,
    ) {
        let mut conditions: Vec<(u32, u64, BindingListId)> = Vec::new();
        for (_, class) in queries.classes.iter() {
            if let (Some(list), Some(column)) = (resolution.list_of(class.source), resolution.column_of(class.compared))
            {
                conditions.push((match_count(class), condition_key(column, class.constant), list));
            }
        }
        conditions.sort_unstable();
        self.list_starts = vec![0; resolution.lists.len() + 1];
        for (_, key, list) in conditions {
            let next = BindingConditionId::new(self.condition_ids.len());
            self.condition_ids.entry(key).or_insert_with(|| {
                self.list_starts[list.index() + 1] += 1;
                next
            });
        }
        for list in 0..resolution.lists.len() {
            self.list_starts[list + 1] += self.list_starts[list] + 1;
        }
    }

    /// Returns the condition of a class, or `None` if its paths select nothing.
    pub fn condition(&self, resolution: &PathResolution, class: &ConditionClass) -> Option<BindingConditionId> {
        let column = resolution.column_of(class.compared)?;
        self.condition_ids.get(&condition_key(column, class.constant)).copied()
    }

    /// Returns the number of queries with several conditions.
    pub fn multi_condition_count(&self) -> usize {
        self.multi_condition_count
    }

    fn sort_members(
        &self,
        queries: &BatchQueries,
        resolution: &PathResolution,
        class: &ConditionClass,
        sorted: &mut SortedQueries,
    ) {
        let Some(list) = resolution.list_of(class.source) else { return };
        if class.compared == ComparedPathId::ABSENT {
            let members = class.members.iter();
            sorted.unconditional.extend(members.map(|m| (list, resolution.constructor_of(m.plan), m.query)));
            return;
        }
        let Some(first) = self.condition(resolution, class) else { return };
        for member in &class.members {
            let constructor = resolution.constructor_of(member.plan);
            let further = queries.further.get(&member.query).into_iter().flatten();
            let mut conditions = vec![first];
            conditions.extend(further.filter_map(|&class| self.condition(resolution, queries.classes.get(class)?)));
            conditions.sort_unstable();
            conditions.dedup();
            match conditions[..] {
                [only] => sorted.single.push((only, constructor, member.query)),
                _ => sorted.several.push((conditions.into(), constructor, member.query)),
            }
        }
    }

    fn add_roots(&mut self, sorted: &SortedQueries) {
        let (mut single, mut several) = (&sorted.single[..], &sorted.several[..]);
        for condition in (0..self.condition_ids.len()).map(BindingConditionId::new) {
            let (own_single, own_several);
            (own_single, single) = single.split_at(single.partition_point(|&(of, ..)| of == condition));
            (own_several, several) = several.split_at(several.partition_point(|(of, ..)| of[0] == condition));
            let members = self.add_members(own_single.iter().map(|&(_, constructor, query)| (constructor, query)));
            let below = self.add_tree(own_several);
            self.roots.push(ConditionBranch { members, below });
        }
    }

    /// Lays out queries with the same first condition and further ones. Returns the branches below the root.
    fn add_tree(&mut self, several: &[MultiConditionQuery]) -> BranchRange {
        let mut open = Vec::new();
        let below = self.add_branches(several, 1, &mut open);
        while let Some((branch, queries, depth)) = open.pop() {
            let queries: &[MultiConditionQuery] = queries;
            let (here, deeper) = queries.split_at(queries.partition_point(|(of, ..)| of.len() == depth));
            let members = self.add_members(here.iter().map(|&(_, constructor, query)| (constructor, query)));
            let below = self.add_branches(deeper, depth, &mut open);
            self.branches[branch] = ConditionBranch { members, below };
        }
        below
    }

    /// Adds the branches of queries that have their first `depth` conditions in common and ask for more. Pushes the
    /// queries of each branch to `open`, with the number of conditions that they then have in common.
    fn add_branches<'a>(
        &mut self,
        several: &'a [MultiConditionQuery],
        depth: usize,
        open: &mut Vec<(usize, &'a [MultiConditionQuery], usize)>,
    ) -> BranchRange {
        let first = self.branches.len() as u32;
        for same in several.chunk_by(|(a, ..), (b, ..)| a[depth] == b[depth]) {
            let (least, greatest) = (&same[0].0, &same[same.len() - 1].0);
            let ask = least[depth];
            let asks_for_two = least.len() > depth + 1 && least[depth + 1] == greatest[depth + 1];
            let next = if asks_for_two { least[depth + 1] } else { ask };
            open.push((self.branches.len(), same, depth + 1 + usize::from(asks_for_two)));
            self.asks.push([ask, next]);
            self.branches.push(ConditionBranch::default());
        }
        (first, self.branches.len() as u32)
    }

    /// Adds queries with the same conditions, in the order of their constructors.
    fn add_members(&mut self, members: impl Iterator<Item = ConstructedQuery>) -> MemberRange {
        let (start, mut last) = (self.members.len() as u32, None);
        for (constructor, query) in members {
            if last != Some(constructor) {
                self.constructors.push(constructor);
                last = Some(constructor);
            }
            let distinct_index = self.constructors.len() as u32 - 1;
            self.members.push(IndexedQuery { query, constructor, distinct_index });
        }
        (start, self.members.len() as u32)
    }

    /// Returns the number of conditions. As an id, it stands for a condition that no query asks for.
    pub fn condition_count(&self) -> usize {
        self.roots.len()
    }

    /// Returns the number of binding lists.
    pub fn list_count(&self) -> usize {
        self.unconditional.len()
    }

    /// Returns a range that is as long as the conditions of a binding list and one more, apart from those of other
    /// lists.
    #[inline]
    pub fn range_of_list(&self, list: BindingListId) -> Range<usize> {
        self.list_starts[list.index()] as usize..self.list_starts[list.index() + 1] as usize
    }

    /// Returns the end of the ranges of all lists.
    pub fn range_end(&self) -> usize {
        self.list_starts.last().map_or(0, |&end| end as usize)
    }

    /// Returns the conditions that ask for a constant, if there are any.
    #[inline]
    pub fn row(&self, constant: ConstantId) -> Option<ConditionRow> {
        let row = *self.matrix.rows.get(&constant)?;
        // Without entries in the matrix, the start is not used.
        Some(ConditionRow { constant, start: (row as usize * self.matrix.column_count) as u32 })
    }

    /// Returns the conditions by [`ConditionRow::position`], or `None` if most would be empty. An entry is
    /// [`Self::condition_count`] if no query asks for it.
    #[inline]
    pub fn matrix(&self) -> Option<&[BindingConditionId]> {
        Some(&self.matrix.conditions[..]).filter(|conditions| !conditions.is_empty())
    }

    /// Returns the condition that a column is equal to the constant of a row, or [`Self::condition_count`] if no query
    /// asks for it.
    #[inline]
    pub fn condition_at(&self, row: ConditionRow, column: BindingColumnId) -> BindingConditionId {
        if let Some(&condition) = self.matrix.conditions.get(row.position(column)) {
            return condition;
        }
        let existing = self.condition_ids.get(&condition_key(column, row.constant)).copied();
        existing.unwrap_or(BindingConditionId::new(self.condition_count()))
    }

    /// Returns the queries of a binding list without conditions.
    pub fn unconditional(&self, list: BindingListId) -> MemberRange {
        self.unconditional[list.index()]
    }

    /// Returns the queries of a range.
    #[inline]
    pub fn members(&self, (start, end): MemberRange) -> &[IndexedQuery] {
        &self.members[start as usize..end as usize]
    }

    /// Returns the distinct constructors of members, ascending, by index among those of the binding list.
    #[inline]
    pub fn constructors(&self, members: &[IndexedQuery]) -> &[u32] {
        match members {
            [first, .., last] => &self.constructors[first.distinct_index as usize..=last.distinct_index as usize],
            [only] => &self.constructors[only.distinct_index as usize..=only.distinct_index as usize],
            [] => &[],
        }
    }

    /// Calls back with the queries whose conditions are satisfied, and the bindings that satisfy all of them.
    /// `satisfied` are conditions of one list; `stack` is scratch memory.
    pub fn walk(
        &self,
        satisfied: &[BindingConditionId],
        held: ConditionBindings<'_>,
        stack: &mut BranchStack,
        mut matched: impl FnMut(&[u64], MemberRange),
    ) {
        if held.words > 1 {
            return satisfied.iter().for_each(|&condition| self.walk_wide(condition, held, stack, &mut matched));
        }
        for &condition in satisfied {
            let ConditionBranch { members, below } = self.roots[condition.index()];
            let set = held.narrow[condition.index()];
            if members.0 < members.1 {
                matched(&[set], members);
            }
            if below.0 < below.1 {
                self.walk_below(below, set, held.narrow, stack, &mut matched);
            }
        }
    }

    fn walk_below(
        &self,
        below: BranchRange,
        set: u64,
        held: &[u64],
        stack: &mut BranchStack,
        matched: &mut impl FnMut(&[u64], MemberRange),
    ) {
        self.push_branches(below, set, held, stack);
        while let Some((branch, set)) = stack.pop() {
            let ConditionBranch { members, below } = self.branches[branch as usize];
            if members.0 < members.1 {
                matched(&[set], members);
            }
            if below.0 < below.1 {
                self.push_branches(below, set, held, stack);
            }
        }
    }

    /// Pushes the branches whose conditions are satisfied by bindings of a set.
    #[inline]
    fn push_branches(&self, (start, end): BranchRange, set: u64, held: &[u64], stack: &mut BranchStack) {
        stack.branches_visited += u64::from(end - start);
        let asks = &self.asks[start as usize..end as usize];
        let free = stack.reserve(asks.len());
        let mut count = 0;
        for (branch, &[first, second]) in (start..).zip(asks) {
            let common = set & held[first.index()] & held[second.index()];
            free[count] = (branch, common);
            count += usize::from(common != 0);
        }
        stack.length += count;
    }

    /// Walks the tree of a condition where sets take several words.
    fn walk_wide(
        &self,
        condition: BindingConditionId,
        held: ConditionBindings<'_>,
        stack: &mut BranchStack,
        matched: &mut impl FnMut(&[u64], MemberRange),
    ) {
        let Some(set) = held.wide(condition) else { return };
        let ConditionBranch { members, below } = self.roots[condition.index()];
        if members.0 < members.1 {
            matched(set, members);
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
                matched(&set, members);
            }
            self.push_branches_wide(below, &set, held, stack);
        }
    }

    fn push_branches_wide(
        &self,
        (start, end): BranchRange,
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
    /// Number of words of a set.
    pub words: usize,
    /// By condition: the set if it takes one word, otherwise its position in `bits` plus 1. 0 if no binding satisfies
    /// it.
    pub narrow: &'a [u64],
    pub bits: &'a [u64],
}

impl<'a> ConditionBindings<'a> {
    /// Returns the bindings that satisfy a condition, where sets take several words. Returns `None` if no binding does.
    #[inline]
    pub fn wide(self, condition: BindingConditionId) -> Option<&'a [u64]> {
        let position = (self.narrow[condition.index()] as usize).checked_sub(1)?;
        Some(&self.bits[position..position + self.words])
    }
}

/// Branches to be visited, with the bindings that satisfy all their conditions.
#[derive(Debug, Default)]
pub(super) struct BranchStack {
    /// Branches with their sets, if these take one word.
    narrow: Vec<(u32, u64)>,
    length: usize,
    /// The sets of several words, one after the other.
    wide: Vec<u64>,
    /// Number of branches that were tested.
    pub branches_visited: u64,
}

impl BranchStack {
    /// Returns at least `count` entries above the top of the stack.
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
