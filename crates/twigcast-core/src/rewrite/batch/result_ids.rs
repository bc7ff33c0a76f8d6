//! Result ids: the distinct results of a message, one for each pair of a set of bindings and a constructor.
//!
//! A result id is a plain number, like a slot: lists of them leave the core as buffers of integers.

use std::cell::RefCell;
use std::sync::OnceLock;

use crate::ids::{BindingColumnId, ConstructorFormId, ResultConstructorId};
use crate::limits::Limits;

use super::super::run_buffer::RunBuffer;
use super::binding_sets::{BindingSets, members};
use super::condition_index::{IndexedQuery, MemberRange};
use super::prepared::{ConstructorUse, MatchedGroup, PreparedResults};

/// Mean number of queries of groups from which on it pays to number the results of their constructors first.
const LARGE_GROUP: usize = 32;

/// Entries of tables that are kept from one message to the next, at most.
const KEPT_MAX: usize = 1 << 20;

/// In place of a result id: the interpreter must produce the result.
pub(crate) const UNASSEMBLED: u32 = u32::MAX - 1;

/// In place of the number of a used constructor: it has not been used.
const UNUSED: u32 = u32::MAX;

thread_local! {
    /// The scratch memory of [`ResultIds::of`]. The size of its tables depends on the queries, not on the message.
    static NUMBERING: RefCell<ResultNumbering> = RefCell::default();
}

/// Receives the result of each matching query of one message.
pub(crate) trait ResultSink {
    /// Prepares for up to `count` queries.
    fn reserve(&mut self, count: usize);

    /// Stores result `number` for `query`, or [`UNASSEMBLED`] if the interpreter must produce it.
    fn push(&mut self, query: u32, number: u32);

    /// Stores the results of several queries, none of them [`UNASSEMBLED`].
    fn push_all(&mut self, members: &[IndexedQuery], number_of: impl FnMut(IndexedQuery) -> u32);

    /// Ends the results of the message.
    fn finish(&mut self);
}

/// Queries with the result id of each.
#[derive(Debug, Default)]
pub(crate) struct QueryResults {
    pub queries: Vec<u32>,
    pub numbers: Vec<u32>,
    /// Some number is [`UNASSEMBLED`].
    pub has_unassembled: bool,
    /// Number of queries so far; the lists have their final capacity as length.
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

/// A constructor that makes results of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct UsedConstructor {
    form: ConstructorFormId,
    /// Range of the positions of its columns' first entries.
    starts: (u32, u32),
    /// Number of bindings of its list.
    pub bindings: u32,
    /// Number of results that it makes.
    pub results: u32,
    /// Bytes of one result, at most.
    pub bytes_max: usize,
}

/// The constructors that the results of a message use. Computed when the first result is assembled.
#[derive(Debug, Default)]
pub(super) struct UsedConstructors {
    list: Vec<UsedConstructor>,
    /// Positions of the first entries of columns.
    starts: Vec<u32>,
    /// By result: the index of its constructor in `list`.
    of_result: Vec<u32>,
}

/// The distinct results of one message by result id.
#[derive(Debug, Default)]
pub struct ResultIds {
    /// By result: the constructor, and the group of queries whose bindings it is made of.
    list: Vec<(ResultConstructorId, u32)>,
    uses: OnceLock<UsedConstructors>,
}

impl ResultIds {
    /// Assigns ids to the distinct results of a message and passes each query's number to the sink.
    pub(crate) fn of(prepared: &PreparedResults, sink: &mut impl ResultSink) -> Self {
        let mut results = Self::default();
        NUMBERING.with_borrow_mut(|numbering| numbering.run(prepared, &mut results, &[], sink));
        results
    }

    /// Returns the number of results.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns `true` if there are no results.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns, for each result, its constructor and the group of queries whose bindings it is made of.
    pub(super) fn list(&self) -> &[(ResultConstructorId, u32)] {
        &self.list
    }

    /// Returns the bytes of a result, or 0 if there is no such result.
    pub fn size(&self, prepared: &PreparedResults, number: usize) -> usize {
        let Some((constructor, set)) = self.result(prepared, number) else { return 0 };
        prepared.size_of(constructor, set)
    }

    /// Writes a result of `message` to `memory`. Returns nothing if there is no such result.
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

    /// Returns the constructor of a result and its set of bindings.
    fn result<'a>(&'a self, prepared: &'a PreparedResults, number: usize) -> Option<(ConstructorUse<'a>, &'a [u64])> {
        let set = self.set(prepared, *self.list.get(number)?);
        let uses = self.uses(prepared);
        Some((uses.constructor_use(prepared, uses.of_result[number]), set))
    }

    /// Returns the constructors that the results use.
    pub(super) fn uses(&self, prepared: &PreparedResults) -> &UsedConstructors {
        self.uses.get_or_init(|| UsedConstructors::of(prepared, &self.list))
    }

    /// Iterates over the results: the index of its used constructor and its set of bindings.
    pub(super) fn results<'a>(
        &'a self,
        prepared: &'a PreparedResults,
        uses: &'a UsedConstructors,
    ) -> impl Iterator<Item = (u32, &'a [u64])> {
        uses.of_result.iter().zip(&self.list).map(|(&used, &result)| (used, self.set(prepared, result)))
    }

    #[inline]
    fn set<'a>(&self, prepared: &'a PreparedResults, (_, group): (ResultConstructorId, u32)) -> &'a [u64] {
        let MatchedGroup { set, bindings, .. } = prepared.groups[group as usize];
        prepared.set(set, bindings)
    }

    /// Returns the results that are over a limit: those that are too large by themselves, and those that come after the
    /// limit on all results of the message is used up.
    pub(super) fn refused(&self, prepared: &PreparedResults, limits: &Limits) -> RefusedResults {
        let (bytes_max, message_bytes_max) = (limits.result_bytes_max, limits.message_result_bytes_max);
        let used = &self.uses(prepared).list;
        let all: usize =
            used.iter().map(|used| used.bytes_max.saturating_mul(used.results as usize)).fold(0, usize::saturating_add);
        let mut refused = RefusedResults::default();
        if all <= message_bytes_max && used.iter().all(|used| used.bytes_max <= bytes_max) {
            return refused;
        }
        let mut left = message_bytes_max;
        for number in 0..self.len() as u32 {
            let size = self.size(prepared, number as usize);
            if size > bytes_max {
                refused.all.push(number);
            } else if size > left {
                refused.all.push(number);
                refused.over_message_limit.push(number);
            } else {
                left -= size;
            }
        }
        refused
    }
}

/// The results of a message that are over a limit and delivered to nobody, by number.
#[derive(Debug, Default)]
pub(crate) struct RefusedResults {
    /// All of them, ascending.
    pub(crate) all: Vec<u32>,
    /// The results that would take the message over its limit, ascending.
    pub(crate) over_message_limit: Vec<u32>,
}

impl UsedConstructors {
    fn of(prepared: &PreparedResults, results: &[(ResultConstructorId, u32)]) -> Self {
        let mut uses = Self { of_result: Vec::with_capacity(results.len()), ..Self::default() };
        let mut existing = vec![UNUSED; prepared.constructors.len()];
        let mut totals = vec![usize::MAX; prepared.column_count()];
        for &(constructor, group) in results {
            let used = &mut existing[constructor.index()];
            if *used == UNUSED {
                *used = uses.add(prepared, constructor, prepared.groups[group as usize].bindings, &mut totals);
            }
            uses.list[*used as usize].results += 1;
            uses.of_result.push(*used);
        }
        uses
    }

    /// Adds a constructor and returns its index. `totals` caches the bytes of each column; `usize::MAX` stands for
    /// none.
    fn add(
        &mut self,
        prepared: &PreparedResults,
        constructor: ResultConstructorId,
        bindings: u32,
        totals: &mut [usize],
    ) -> u32 {
        let constructors = &prepared.constructors;
        let columns = constructors.columns(constructor);
        let form = constructors.form_of(constructor);
        let from_column = |&column: &BindingColumnId| {
            let total = &mut totals[column.index()];
            if *total == usize::MAX {
                *total = prepared.total(column, bindings);
            }
            *total
        };
        let from_columns: usize = columns.iter().map(from_column).sum();
        let bytes_max = constructors.form(form).constant_bytes_max(bindings as usize) + from_columns;
        let start = self.starts.len() as u32;
        self.starts.extend(columns.iter().map(|&column| prepared.start_of(column)));
        let starts = (start, self.starts.len() as u32);
        self.list.push(UsedConstructor { form, starts, bindings, results: 0, bytes_max });
        self.list.len() as u32 - 1
    }

    /// Returns the used constructors.
    pub fn list(&self) -> &[UsedConstructor] {
        &self.list
    }

    /// Returns a used constructor, to make results with.
    #[inline]
    pub fn constructor_use<'a>(&'a self, prepared: &'a PreparedResults, used: u32) -> ConstructorUse<'a> {
        let UsedConstructor { form, starts: (start, end), .. } = self.list[used as usize];
        ConstructorUse { form: prepared.constructors.form(form), starts: &self.starts[start as usize..end as usize] }
    }
}

/// An entry of a list of results that is longer than needed.
const UNNUMBERED: (ResultConstructorId, u32) = (ResultConstructorId::ABSENT, 0);

/// Scratch memory to number the results of a message.
#[derive(Debug, Default)]
pub(super) struct ResultNumbering {
    sets: BindingSets,
    /// By group of a list: the number of its set. Then the groups sorted by set, and the start of each set's groups.
    set_of: Vec<u32>,
    by_set: Vec<u32>,
    starts: Vec<u32>,
    /// By constructor of the list: its result for the current set. Results are counted from 1 over all messages, so
    /// that the table need not be cleared: a number from before the current set means none.
    results_by_constructor: Vec<u32>,
    /// By distinct constructor of the current group: its result.
    numbers: Vec<u32>,
    /// The results so far; longer than needed.
    results: Vec<(ResultConstructorId, u32)>,
    /// Number of results since `results_by_constructor` was cleared.
    counted: u32,
}

impl ResultNumbering {
    /// Assigns ids to the distinct results and passes each query's number to the sink. Skips the queries in `without`,
    /// bits.
    pub fn run(
        &mut self,
        prepared: &PreparedResults,
        ids: &mut ResultIds,
        without: &[u64],
        sink: &mut impl ResultSink,
    ) {
        let count = prepared.query_count();
        let mut results = std::mem::take(&mut self.results);
        if results.len() < count {
            results.resize(count, UNNUMBERED);
        }
        sink.reserve(count);
        let mut run = NumberingRun { prepared, without, results: &mut results, result_count: 0, sink };
        let mut start = 0;
        for same in prepared.groups.chunk_by(|a, b| a.list == b.list) {
            self.number_list(same, start, &mut run);
            start += same.len() as u32;
        }
        run.sink.finish();
        ids.uses.take();
        ids.list.clear();
        ids.list.shrink_to(KEPT_MAX);
        ids.list.extend_from_slice(&run.results[..run.result_count]);
        if results.len().max(self.results_by_constructor.len()) <= KEPT_MAX {
            self.results = results;
        } else {
            // Each thread has one, and there may be no further message of this size.
            *self = Self::default();
        }
    }

    /// Assigns ids to the results of the groups of one list, of which `start` is the first.
    fn number_list(&mut self, groups: &[MatchedGroup], start: u32, run: &mut NumberingRun<'_, impl ResultSink>) {
        let prepared = run.prepared;
        let (first, constructors) = prepared.constructors.of_list(groups[0].list);
        if self.results_by_constructor.len() < constructors {
            self.results_by_constructor.resize(constructors, 0);
            self.numbers.resize(constructors, 0);
        }
        self.sort_by_set(prepared, groups);
        let has_all = !prepared.has_overflowed && run.without.is_empty();
        let mut start_of_set = 0;
        for set in 0..self.sets.len() {
            let end = self.starts[set] as usize;
            let same = &self.by_set[start_of_set..end];
            let queries: u32 = same.iter().map(|&group| groups[group as usize].len()).sum();
            if self.counted.checked_add(queries).is_none() {
                self.results_by_constructor.fill(0);
                self.counted = 0;
            }
            let before = self.counted;
            let base = run.result_count as u32;
            let set = NewBindingSet { first, base, before };
            let same = same.iter().map(|&group| (start + group, groups[group as usize].members));
            if !has_all {
                run.number_some(set, same, &mut self.results_by_constructor);
            } else if same.len() == 1 {
                same.for_each(|group| run.number_one_group(set, group));
            } else if queries as usize > LARGE_GROUP * same.len() {
                run.number_by_constructor(set, same, (&mut self.results_by_constructor, &mut self.numbers));
            } else {
                run.number_all(set, same, &mut self.results_by_constructor);
            }
            self.counted = before + run.result_count as u32 - base;
            start_of_set = end;
        }
    }

    /// Sorts the groups of a list by their sets.
    fn sort_by_set(&mut self, prepared: &PreparedResults, groups: &[MatchedGroup]) {
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
        // `starts` now holds where the groups of each set end.
    }
}

/// A set of bindings whose results are numbered.
#[derive(Clone, Copy)]
struct NewBindingSet {
    /// The first constructor of the list.
    first: ResultConstructorId,
    /// Number of results of the message before the set.
    base: u32,
    /// Number of results over all messages before the set.
    before: u32,
}

impl NewBindingSet {
    /// Returns a constructor of the list by its index.
    #[inline]
    fn constructor(self, index: u32) -> ResultConstructorId {
        ResultConstructorId::from_u32(self.first.as_u32() + index)
    }

    /// Returns what to add to a number over all messages to get the result id, wrapping around.
    fn shift(self) -> u32 {
        self.base.wrapping_sub(self.before + 1)
    }
}

/// The state of numbering the results of one message.
struct NumberingRun<'a, H> {
    prepared: &'a PreparedResults,
    without: &'a [u64],
    /// The results so far; longer than needed.
    results: &'a mut [(ResultConstructorId, u32)],
    result_count: usize,
    sink: &'a mut H,
}

impl<H: ResultSink> NumberingRun<'_, H> {
    /// Assigns ids to the results of groups with the same set, where each can be assembled. Whether a query shares the
    /// result of another cannot be predicted, so the loop has no jump for it.
    fn number_all(
        &mut self,
        set: NewBindingSet,
        groups: impl Iterator<Item = (u32, MemberRange)>,
        results_by_constructor: &mut [u32],
    ) {
        let Self { prepared, results, sink, .. } = self;
        let index = &*prepared.index;
        let results = &mut results[set.base as usize..];
        let (shift, mut count) = (set.shift(), 0);
        for (group, members) in groups {
            sink.push_all(index.members(members), |member| {
                let results_by_constructor = &mut results_by_constructor[member.constructor as usize];
                let is_new = *results_by_constructor <= set.before;
                results[count as usize] = (set.constructor(member.constructor), group);
                count += u32::from(is_new);
                *results_by_constructor = if is_new { set.before + count } else { *results_by_constructor };
                (*results_by_constructor).wrapping_add(shift)
            });
        }
        self.result_count = (set.base + count) as usize;
    }

    /// Assigns ids where groups are large: first the results of the distinct constructors, then those of the queries.
    fn number_by_constructor(
        &mut self,
        set: NewBindingSet,
        groups: impl Iterator<Item = (u32, MemberRange)>,
        (results_of, numbers): (&mut [u32], &mut [u32]),
    ) {
        let Self { prepared, results, sink, .. } = self;
        let index = &*prepared.index;
        let results = &mut results[set.base as usize..];
        let (shift, mut count) = (set.shift(), 0);
        for (group, members) in groups {
            let members = index.members(members);
            let (constructors, first) = (index.constructors(members), members[0].distinct_index);
            let numbers = &mut numbers[..constructors.len()];
            for (number, &constructor) in numbers.iter_mut().zip(constructors) {
                let results_by_constructor = &mut results_of[constructor as usize];
                let is_new = *results_by_constructor <= set.before;
                results[count as usize] = (set.constructor(constructor), group);
                count += u32::from(is_new);
                *results_by_constructor = if is_new { set.before + count } else { *results_by_constructor };
                *number = (*results_by_constructor).wrapping_add(shift);
            }
            sink.push_all(members, |member| numbers[(member.distinct_index - first) as usize]);
        }
        self.result_count = (set.base + count) as usize;
    }

    /// Numbers the results of a set that is a single group: each of its constructors makes one result, in the order of the
    /// constructors.
    fn number_one_group(&mut self, set: NewBindingSet, (group, members): (u32, MemberRange)) {
        let Self { prepared, results, sink, .. } = self;
        let members = prepared.index.members(members);
        let first = members[0].distinct_index;
        let results = &mut results[set.base as usize..];
        sink.push_all(members, |IndexedQuery { constructor, distinct_index, .. }| {
            results[(distinct_index - first) as usize] = (set.constructor(constructor), group);
            set.base + distinct_index - first
        });
        self.result_count += (members[members.len() - 1].distinct_index - first) as usize + 1;
    }

    /// Assigns ids where some queries are skipped or some results cannot be assembled.
    fn number_some(
        &mut self,
        set: NewBindingSet,
        groups: impl Iterator<Item = (u32, MemberRange)>,
        results_by_constructor: &mut [u32],
    ) {
        let Self { prepared, without, .. } = *self;
        let shift = set.shift();
        for (group, members) in groups {
            for member in prepared.index.members(members) {
                let word = without.get(member.query as usize / 64);
                if word.is_some_and(|word| word >> (member.query % 64) & 1 == 1) {
                    continue;
                }
                let constructor = set.constructor(member.constructor);
                let mut number = UNASSEMBLED;
                let columns = prepared.constructors.columns(constructor);
                if !columns.iter().any(|&column| prepared.has_column_overflowed(column)) {
                    let results_by_constructor = &mut results_by_constructor[member.constructor as usize];
                    if *results_by_constructor <= set.before {
                        self.results[self.result_count] = (constructor, group);
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

/// Lets the count of results overflow at the next message of this thread.
#[cfg(test)]
pub(crate) fn start_last_round() {
    NUMBERING.with_borrow_mut(|numbering| numbering.counted = u32::MAX - 5);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table for very many results is not kept; a smaller one is.
    #[test]
    fn memory_for_very_many_results_is_given_back() {
        for (results, is_kept) in [(KEPT_MAX, true), (KEPT_MAX + 1, false)] {
            let mut numbering =
                ResultNumbering { results: vec![UNNUMBERED; results], counted: 7, ..ResultNumbering::default() };
            let mut ids = ResultIds { list: vec![UNNUMBERED; results], ..ResultIds::default() };
            numbering.run(&PreparedResults::default(), &mut ids, &[], &mut QueryResults::default());
            assert_eq!((numbering.results.capacity() > 0, numbering.counted > 0), (is_kept, is_kept), "{results}");
            assert!(ids.list.capacity() <= KEPT_MAX && ids.is_empty(), "{results}");
        }
    }
}
