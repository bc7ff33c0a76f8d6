//! Telling results apart: one for each different pair of a set of bindings and what is made of it.

use std::cell::RefCell;
use std::sync::OnceLock;

use super::super::program::family::NONE;
use super::super::run_buffer::RunBuffer;
use super::binding_sets::{BindingSets, members};
use super::condition_index::{IndexedQuery, MemberRange};
use super::constructors::ResultConstructorId;
use super::prepared::{ConstructorUse, MatchedGroup, PreparedResults};

/// Queries of each group from which on it pays to name the results of its recipes first.
const MANY: usize = 32;

/// Queries and their results that there is room for from one message to the next, at most.
const KEPT_MAX: usize = 1 << 20;

/// The result cannot be made here, and has to be asked for by itself.
pub(crate) const UNASSEMBLED: u32 = NONE - 1;

thread_local! {
    /// For messages whose results are told apart by whoever looks at them: how large a table is needed, the queries tell.
    static NAMER: RefCell<ResultNumbering> = RefCell::default();
}

/// Is told which query gets which result.
pub(crate) trait ResultSink {
    /// Up to so many queries will be told.
    fn reserve(&mut self, count: usize);

    /// A query gets a result, or has to ask [`UNASSEMBLED`].
    fn push(&mut self, query: u32, number: u32);

    /// Queries get results.
    fn push_all(&mut self, members: &[IndexedQuery], number_of: impl FnMut(IndexedQuery) -> u32);

    /// That was all.
    fn finish(&mut self);
}

/// Queries with the number of each one's result.
#[derive(Debug, Default)]
pub(crate) struct QueryResults {
    pub queries: Vec<u32>,
    pub numbers: Vec<u32>,
    /// Is any [`UNASSEMBLED`]?
    pub has_unassembled: bool,
    /// How many there are so far; the lists are as long as they may get.
    count: usize,
}

impl ResultSink for QueryResults {
    fn reserve(&mut self, count: usize) {
        self.queries.resize(count, 0);
        self.numbers.resize(count, 0);
        self.count = 0;
    }

    fn push(&mut self, query: u32, number: u32) {
        self.queries[self.count] = query;
        self.numbers[self.count] = number;
        self.count += 1;
        self.has_unassembled |= number == UNASSEMBLED;
    }

    #[inline(always)]
    fn push_all(&mut self, members: &[IndexedQuery], mut number_of: impl FnMut(IndexedQuery) -> u32) {
        let range = self.count..self.count + members.len();
        let (queries, numbers) = (&mut self.queries[range.clone()], &mut self.numbers[range]);
        for ((&member, query), number) in members.iter().zip(queries).zip(numbers) {
            *query = member.query;
            *number = number_of(member);
        }
        self.count += members.len();
    }

    fn finish(&mut self) {
        self.queries.truncate(self.count);
        self.numbers.truncate(self.count);
    }
}

/// A recipe that results of a message are made by.
#[derive(Clone, Copy, Debug)]
pub(super) struct UsedConstructor {
    form: u32,
    /// Where it is noted where the entries of its columns begin.
    starts: (u32, u32),
    /// How many bindings its list has.
    pub bindings: u32,
    /// How many results are made by it.
    pub results: u32,
    /// The bytes of the result of all bindings, at most.
    pub bytes_max: usize,
}

/// How the results of a message are made: found when the first of them is.
#[derive(Debug, Default)]
pub(super) struct UsedConstructors {
    list: Vec<UsedConstructor>,
    starts: Vec<u32>,
    /// By result: the number of what it is made by.
    of_result: Vec<u32>,
}

/// The results of one message, told apart by number.
#[derive(Debug, Default)]
pub struct ResultIds {
    /// By result: the recipe, and the group of queries whose bindings it is made of.
    list: Vec<(ResultConstructorId, u32)>,
    uses: OnceLock<UsedConstructors>,
}

impl ResultIds {
    /// Numbers the results of a message, and tells the sink which of them each query gets.
    pub(crate) fn of(prepared: &PreparedResults, sink: &mut impl ResultSink) -> Self {
        let mut results = Self::default();
        NAMER.with_borrow_mut(|namer| namer.name(prepared, &mut results, &[], sink));
        results
    }

    /// How many results there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// None?
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// By result: the recipe, and the group of queries whose bindings it is made of.
    pub(super) fn list(&self) -> &[(ResultConstructorId, u32)] {
        &self.list
    }

    /// How many bytes a result has; 0 if there is none of this number.
    pub fn size(&self, prepared: &PreparedResults, number: usize) -> usize {
        let Some((constructor, set)) = self.result(prepared, number) else { return 0 };
        prepared.size_of(constructor, set)
    }

    /// Puts a result together; nothing if there is none of this number. `message` is the one that it is made of, `memory` is
    /// for the bytes.
    pub fn write<'a>(
        &self,
        prepared: &PreparedResults,
        number: usize,
        message: &[u8],
        memory: &'a mut Vec<u8>,
    ) -> &'a [u8] {
        let Some((constructor, set)) = self.result(prepared, number) else { return &[] };
        let source = prepared.source(message);
        let mut buffer = RunBuffer::within(std::mem::take(memory));
        buffer.append(prepared.size_of(constructor, set), |out| {
            out.push_all(&constructor.form.prefix);
            members(set).for_each(|binding| prepared.append_fragment(constructor, binding, source, out));
            out.push_all(&constructor.form.suffix);
        });
        let length = buffer.len();
        *memory = buffer.into_memory();
        &memory[..length]
    }

    /// How a result is made, and of which bindings.
    fn result<'a>(&'a self, prepared: &'a PreparedResults, number: usize) -> Option<(ConstructorUse<'a>, &'a [u64])> {
        let set = self.set(prepared, *self.list.get(number)?);
        let uses = self.uses(prepared);
        Some((uses.constructor_use(prepared, uses.of_result[number]), set))
    }

    /// How the results are made.
    pub(super) fn uses(&self, prepared: &PreparedResults) -> &UsedConstructors {
        self.uses.get_or_init(|| UsedConstructors::of(prepared, &self.list))
    }

    /// By result: the number of what it is made by, and its set of bindings.
    pub(super) fn results<'a>(
        &'a self,
        prepared: &'a PreparedResults,
        uses: &'a UsedConstructors,
    ) -> impl Iterator<Item = (u32, &'a [u64])> {
        uses.of_result.iter().zip(&self.list).map(|(&used, &result)| (used, self.set(prepared, result)))
    }

    #[inline]
    fn set<'a>(&self, prepared: &'a PreparedResults, (_, group): (ResultConstructorId, u32)) -> &'a [u64] {
        let MatchedGroup { set, bindings, .. } = prepared.groups()[group as usize];
        prepared.set(set, bindings)
    }

    /// The numbers of the results that are larger than allowed, ascending.
    pub(super) fn too_large(&self, prepared: &PreparedResults, bytes_max: usize) -> Vec<u32> {
        if self.uses(prepared).list.iter().all(|used| used.bytes_max <= bytes_max) {
            return Vec::new();
        }
        (0..self.len() as u32).filter(|&number| self.size(prepared, number as usize) > bytes_max).collect()
    }
}

impl UsedConstructors {
    fn of(prepared: &PreparedResults, results: &[(ResultConstructorId, u32)]) -> Self {
        let mut uses = Self { of_result: Vec::with_capacity(results.len()), ..Self::default() };
        let mut existing = vec![NONE; prepared.recipes().len()];
        let mut totals = vec![usize::MAX; prepared.column_count()];
        for &(recipe, group) in results {
            let used = &mut existing[recipe as usize];
            if *used == NONE {
                *used = uses.begin(prepared, recipe, prepared.groups()[group as usize].bindings, &mut totals);
            }
            uses.list[*used as usize].results += 1;
            uses.of_result.push(*used);
        }
        uses
    }

    /// The number of another recipe used. `totals`: by column, bytes that it leads to, if that is known.
    fn begin(
        &mut self,
        prepared: &PreparedResults,
        recipe: ResultConstructorId,
        bindings: u32,
        totals: &mut [usize],
    ) -> u32 {
        let recipes = prepared.recipes();
        let columns = recipes.columns(recipe);
        let form = recipes.form_of(recipe);
        let from_column = |&column: &u32| {
            let total = &mut totals[column as usize];
            if *total == usize::MAX {
                *total = prepared.total(column, bindings);
            }
            *total
        };
        let from_columns: usize = columns.iter().map(from_column).sum();
        let bytes_max = recipes.form(form).constant_bytes_max(bindings as usize) + from_columns;
        let start = self.starts.len() as u32;
        self.starts.extend(columns.iter().map(|&column| prepared.start_of(column)));
        let starts = (start, self.starts.len() as u32);
        self.list.push(UsedConstructor { form, starts, bindings, results: 0, bytes_max });
        self.list.len() as u32 - 1
    }

    /// The recipes used, by number.
    pub fn list(&self) -> &[UsedConstructor] {
        &self.list
    }

    #[inline]
    pub fn constructor_use<'a>(&'a self, prepared: &'a PreparedResults, used: u32) -> ConstructorUse<'a> {
        let UsedConstructor { form, starts: (start, end), .. } = self.list[used as usize];
        ConstructorUse { form: prepared.recipes().form(form), starts: &self.starts[start as usize..end as usize] }
    }
}

/// What is needed to name the results of a message.
#[derive(Debug, Default)]
pub(super) struct ResultNumbering {
    sets: BindingSets,
    /// By group of a list: the number of its set; and the groups by set, with where those of each begin.
    set_of: Vec<u32>,
    by_set: Vec<u32>,
    starts: Vec<u32>,
    /// By number of a make: its result for the set in hand, counted from 1 and from the first result that was ever named;
    /// a number from before the set in hand means that there is none.
    results_by_constructor: Vec<u32>,
    /// By recipe of the group in hand: its result.
    numbers: Vec<u32>,
    /// Results as they are named; longer than they need be.
    results: Vec<(ResultConstructorId, u32)>,
    /// How many results were ever named, but for those from before `made` was emptied.
    ever: u32,
}

impl ResultNumbering {
    /// Names the results, and tells the queries with the number of each one's: [`UNASSEMBLED`] where it has to be asked for
    /// by itself. The queries in `without`, bits, are left out.
    pub fn name(
        &mut self,
        prepared: &PreparedResults,
        named: &mut ResultIds,
        without: &[u64],
        sink: &mut impl ResultSink,
    ) {
        let count = prepared.query_count();
        let mut results = std::mem::take(&mut self.results);
        if results.len() < count {
            results.resize(count, (0, 0));
        }
        sink.reserve(count);
        let mut naming = NumberingRun { prepared, without, results: &mut results, result_count: 0, sink };
        let mut start = 0;
        for same in prepared.groups().chunk_by(|a, b| a.list == b.list) {
            self.name_list(same, start, &mut naming);
            start += same.len() as u32;
        }
        naming.sink.finish();
        named.uses.take();
        named.list.clear();
        named.list.shrink_to(KEPT_MAX);
        named.list.extend_from_slice(&naming.results[..naming.result_count]);
        if results.len().max(self.results_by_constructor.len()) <= KEPT_MAX {
            self.results = results;
        } else {
            // There is one for each thread, and the next such message may never come.
            *self = Self::default();
        }
    }

    /// Names the results of the groups of one list. The first of them has the number `start`.
    fn name_list(&mut self, groups: &[MatchedGroup], start: u32, naming: &mut NumberingRun<'_, impl ResultSink>) {
        let prepared = naming.prepared;
        let (first, recipes) = prepared.recipes().of_list(groups[0].list);
        if self.results_by_constructor.len() < recipes {
            self.results_by_constructor.resize(recipes, 0);
            self.numbers.resize(recipes, 0);
        }
        self.put_in_order(prepared, groups);
        let plain = !prepared.is_any_too_much() && naming.without.is_empty();
        let mut at = 0;
        for set in 0..self.sets.len() {
            let end = self.starts[set] as usize;
            let same = &self.by_set[at..end];
            let queries: u32 = same.iter().map(|&group| groups[group as usize].len()).sum();
            if self.ever.checked_add(queries).is_none() {
                self.results_by_constructor.fill(0);
                self.ever = 0;
            }
            // Results of this set are counted on from here.
            let before = self.ever;
            let base = naming.result_count as u32;
            let set = NewBindingSet { first, base, before };
            let same = same.iter().map(|&group| (start + group, groups[group as usize].members));
            if !plain {
                naming.name_some(set, same, &mut self.results_by_constructor);
            } else if same.len() == 1 {
                same.for_each(|group| naming.name_only(set, group));
            } else if queries as usize > MANY * same.len() {
                naming.name_recipes(set, same, (&mut self.results_by_constructor, &mut self.numbers));
            } else {
                naming.name_all(set, same, &mut self.results_by_constructor);
            }
            self.ever = before + naming.result_count as u32 - base;
            at = end;
        }
    }

    /// Puts groups of a list in the order of their sets.
    fn put_in_order(&mut self, prepared: &PreparedResults, groups: &[MatchedGroup]) {
        let Self { sets, set_of, by_set, starts, .. } = self;
        sets.reset();
        set_of.clear();
        set_of.extend(groups.iter().map(|group| sets.intern(prepared.set(group.set, group.bindings))));
        starts.clear();
        starts.resize(sets.len() + 1, 0);
        set_of.iter().for_each(|&set| starts[set as usize + 1] += 1);
        for set in 0..sets.len() {
            starts[set + 1] += starts[set];
        }
        by_set.clear();
        by_set.resize(groups.len(), 0);
        for (group, &set) in (0..).zip(&*set_of) {
            let range = &mut starts[set as usize];
            by_set[*range as usize] = group;
            *range += 1;
        }
        // Where each set began there is now where it ends.
    }
}

/// A set of bindings that results are to be named of.
#[derive(Clone, Copy)]
struct NewBindingSet {
    /// The first recipe of the list.
    first: ResultConstructorId,
    /// The first result of the set, in the message and ever.
    base: u32,
    before: u32,
}

impl NewBindingSet {
    /// What makes a number that was made for the set the one of a result of the message.
    fn shift(self) -> u32 {
        self.base.wrapping_sub(self.before + 1)
    }
}

/// The message whose results are named.
struct NumberingRun<'a, H> {
    prepared: &'a PreparedResults,
    without: &'a [u64],
    /// Longer than they need be.
    results: &'a mut [(ResultConstructorId, u32)],
    result_count: usize,
    sink: &'a mut H,
}

impl<H: ResultSink> NumberingRun<'_, H> {
    /// Names the results of all queries of groups with one set, none of which has to be asked for by itself. Nearly each
    /// query may or may not have the result of another, so there is no jump for that.
    fn name_all(
        &mut self,
        set: NewBindingSet,
        groups: impl Iterator<Item = (u32, MemberRange)>,
        results_by_constructor: &mut [u32],
    ) {
        let Self { prepared, results, sink, .. } = self;
        let selector = prepared.selector();
        let results = &mut results[set.base as usize..];
        let (shift, mut count) = (set.shift(), 0);
        for (group, members) in groups {
            sink.push_all(selector.members(members), |member| {
                let results_by_constructor = &mut results_by_constructor[member.row as usize];
                let is_new = *results_by_constructor <= set.before;
                results[count as usize] = (set.first + member.row, group);
                count += u32::from(is_new);
                *results_by_constructor = if is_new { set.before + count } else { *results_by_constructor };
                (*results_by_constructor).wrapping_add(shift)
            });
        }
        self.result_count = (set.base + count) as usize;
    }

    /// The same where groups are large: first those of each recipe, which is that of several queries.
    fn name_recipes(
        &mut self,
        set: NewBindingSet,
        groups: impl Iterator<Item = (u32, MemberRange)>,
        (results_of, numbers): (&mut [u32], &mut [u32]),
    ) {
        let Self { prepared, results, sink, .. } = self;
        let selector = prepared.selector();
        let results = &mut results[set.base as usize..];
        let (shift, mut count) = (set.shift(), 0);
        for (group, members) in groups {
            let members = selector.members(members);
            let (rows, first) = (selector.rows(members), members[0].row_index);
            let numbers = &mut numbers[..rows.len()];
            for (number, &row) in numbers.iter_mut().zip(rows) {
                let results_by_constructor = &mut results_of[row as usize];
                let is_new = *results_by_constructor <= set.before;
                results[count as usize] = (set.first + row, group);
                count += u32::from(is_new);
                *results_by_constructor = if is_new { set.before + count } else { *results_by_constructor };
                *number = (*results_by_constructor).wrapping_add(shift);
            }
            sink.push_all(members, |member| numbers[(member.row_index - first) as usize]);
        }
        self.result_count = (set.base + count) as usize;
    }

    /// The same where there is one group: each of its recipes makes a result, numbered in the order of the recipes.
    fn name_only(&mut self, set: NewBindingSet, (group, members): (u32, MemberRange)) {
        let Self { prepared, results, sink, .. } = self;
        let members = prepared.selector().members(members);
        let first = members[0].row_index;
        let results = &mut results[set.base as usize..];
        sink.push_all(members, |IndexedQuery { row, row_index, .. }| {
            results[(row_index - first) as usize] = (set.first + row, group);
            set.base + row_index - first
        });
        self.result_count += (members[members.len() - 1].row_index - first) as usize + 1;
    }

    /// Like [`Self::name_all`], where some queries are left out or have to be asked for by themselves.
    fn name_some(
        &mut self,
        set: NewBindingSet,
        groups: impl Iterator<Item = (u32, MemberRange)>,
        results_by_constructor: &mut [u32],
    ) {
        let Self { prepared, without, .. } = *self;
        let shift = set.shift();
        for (group, members) in groups {
            for member in prepared.selector().members(members) {
                let is_left_out = without.get(member.query as usize / 64);
                if is_left_out.is_some_and(|word| word >> (member.query % 64) & 1 == 1) {
                    continue;
                }
                let recipe = set.first + member.row;
                let mut number = UNASSEMBLED;
                if !prepared.recipes().columns(recipe).iter().any(|&column| prepared.is_too_much(column)) {
                    let results_by_constructor = &mut results_by_constructor[member.row as usize];
                    if *results_by_constructor <= set.before {
                        self.results[self.result_count] = (recipe, group);
                        self.result_count += 1;
                        *results_by_constructor = set.before + self.result_count as u32 - set.base;
                    }
                    number = (*results_by_constructor).wrapping_add(shift);
                }
                self.sink.push(member.query, number);
            }
        }
    }
}

/// Makes the next message of this thread the one at which there are no more numbers for what was made.
#[cfg(test)]
pub(crate) fn start_last_round() {
    NAMER.with_borrow_mut(|namer| namer.ever = u32::MAX - 5);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of what very many results took is not kept; one of fewer is.
    #[test]
    fn memory_for_very_many_results_is_given_back() {
        for (results, is_kept) in [(KEPT_MAX, true), (KEPT_MAX + 1, false)] {
            let mut namer = ResultNumbering { results: vec![(0, 0); results], ever: 7, ..ResultNumbering::default() };
            let mut named = ResultIds { list: vec![(0, 0); results], ..ResultIds::default() };
            namer.name(&PreparedResults::default(), &mut named, &[], &mut QueryResults::default());
            assert_eq!((namer.results.capacity() > 0, namer.ever > 0), (is_kept, is_kept), "{results}");
            assert!(named.list.capacity() <= KEPT_MAX && named.is_empty(), "{results}");
        }
    }
}
