//! Results of the queries that a guide has decided: one for each different pair of a set of bindings and what is made
//! of it.
//!
//! First it is found which results there are and who gets which; then their bytes are put together. What is made of one
//! binding, a *fragment*, is put together once; where it is needed again it is copied as a whole.

use rustc_hash::FxHashMap;

use super::super::ExtractError;
use super::super::family::NONE;
use super::super::output::{CHUNK_BYTES, Output, Payloads};
use super::super::run::Session;
use super::guide::{ListId, Meaning};
use super::prepared::{Kept, Prepared, RecipeId, Used};
use super::sets::{SetId, Sets, members};
use super::{Found, Guide};
use crate::document::NodeId;

/// Entries of a table that is not hashed, at most.
const DENSE_MAX: usize = 1 << 20;

/// The result cannot be made here, and has to be asked for by itself.
pub(crate) const ELSEWHERE: u32 = NONE - 1;

/// The results of one message.
#[derive(Debug, Default)]
pub(super) struct Results {
    /// By recipe: its number among those used; [`NONE`] where it is not, [`ELSEWHERE`] where it cannot be.
    used: Vec<u32>,
    /// By column, if it is kept.
    columns: Vec<Option<Kept>>,
    sets: Sets,
    prepared: Prepared,
    /// By recipe used and binding: start and bytes of its fragment; no bytes where it is not written yet.
    fragments: Vec<(u64, u32)>,
    fragment_count: usize,
    made: Table,
    /// Of the queries at hand, the results.
    numbers: Vec<u32>,
    /// What a column leads to.
    nodes: Vec<(u32, NodeId)>,
    /// How many queries were told.
    told: usize,
}

/// Results of one list by set and recipe; where these are too many, hashed.
#[derive(Debug, Default)]
struct Table {
    dense: Vec<u32>,
    sparse: FxHashMap<u64, u32>,
    recipes: usize,
}

impl Table {
    fn reset(&mut self, recipes: usize) {
        self.recipes = recipes;
        self.dense.clear();
        self.sparse.clear();
    }

    /// The results of a set by recipe, [`NONE`] where there is none yet; `None`: they are hashed.
    #[inline]
    fn of_set(&mut self, set: u32) -> Option<&mut [u32]> {
        let start = set as usize * self.recipes;
        let end = start + self.recipes;
        if end > DENSE_MAX {
            return None;
        }
        if self.dense.len() < end {
            self.dense.resize(end, NONE);
        }
        Some(&mut self.dense[start..end])
    }

    fn hashed(&mut self, set: u32, recipe: u32) -> &mut u32 {
        self.sparse.entry(u64::from(set) << 32 | u64::from(recipe)).or_insert(NONE)
    }
}

impl Guide {
    /// How many queries are likely to get a result: as many as of the message before.
    pub(crate) fn expected(&self) -> usize {
        self.results.told
    }

    /// Finds the results of the message last run without putting them together, and tells the queries that get any with
    /// the number of each one's: [`ELSEWHERE`] where it has to be asked for by itself. Returns the numbers of those that
    /// are larger than allowed, ascending.
    pub(crate) fn find_results(
        &mut self,
        session: &mut Session<'_>,
        bytes_max: usize,
        mut tell: impl FnMut(&[u32], &[u32]),
    ) -> Vec<u32> {
        let Self { found, meaning, selector, results, late, .. } = self;
        results.reset(meaning);
        let mut walked = (NONE, std::mem::take(&mut results.numbers));
        found.walk(selector, |found, list, bits, queries, rows| {
            let (in_hand, numbers) = &mut walked;
            if list != *in_hand {
                *in_hand = list;
                results.made.reset(meaning.lists[list as usize].recipes.len());
            }
            numbers.clear();
            results.number((found, meaning), session, (list, bits), rows, numbers);
            results.told += queries.len();
            late.tell_others(queries, numbers, &mut tell);
        });
        results.numbers = walked.1;
        let Results { prepared, sets, .. } = results;
        let mut too_large = Vec::new();
        if prepared.used.iter().any(|used| used.bytes_max > bytes_max) {
            let results = (0_u32..).zip(&prepared.list);
            let large = results.filter(|&(_, &(used, set))| prepared.size_of(used, sets.bits(set)) > bytes_max);
            too_large.extend(large.map(|(number, _)| number));
        }
        too_large
    }

    /// Takes the results that were found, to be put together at any time.
    pub(crate) fn take_results(&mut self) -> Prepared {
        let next = self.results.prepared.as_large_as();
        let mut prepared = std::mem::replace(&mut self.results.prepared, next);
        prepared.sets = self.results.sets.frozen();
        prepared
    }

    /// Puts the results that were found together. The numbers of those that are too large are known; where they would be
    /// is nothing.
    pub(crate) fn write_results(&mut self, session: &mut Session<'_>, too_large: &[u32]) -> Result<(), ExtractError> {
        self.results.write(session, too_large)
    }
}

impl Results {
    fn reset(&mut self, meaning: &Meaning) {
        self.prepared.reset(&meaning.recipes);
        self.sets.reset(meaning.lists.len());
        self.used.clear();
        self.used.resize(meaning.recipes.len(), NONE);
        self.fragment_count = 0;
        self.told = 0;
        self.columns.clear();
        self.columns.resize(meaning.columns.len(), None);
    }

    /// Numbers what the recipes in these rows make of a set.
    #[inline]
    fn number(
        &mut self,
        known: (&Found, &Meaning),
        session: &mut Session<'_>,
        (list, bits): (ListId, &[u64]),
        rows: &[u32],
        numbers: &mut Vec<u32>,
    ) {
        let set = self.sets.intern(list, bits);
        let local = self.sets.local(set);
        let recipes = &known.1.lists[list as usize].recipes;
        if let Some(made) = self.made.of_set(local) {
            numbers.extend(rows.iter().map(|&row| made[row as usize]));
        } else {
            numbers.extend(rows.iter().map(|&row| *self.made.hashed(local, row)));
        }
        for (number, &row) in numbers.iter_mut().zip(rows) {
            if *number != NONE {
                continue;
            }
            // It may have been made for the query before.
            let made = self.made_at(local, row);
            *number = if made == NONE { self.add(known, session, recipes[row as usize], set) } else { made };
            if made == NONE {
                self.note_made(local, row, *number);
            }
        }
    }

    fn made_at(&mut self, local: u32, row: u32) -> u32 {
        match self.made.of_set(local) {
            Some(made) => made[row as usize],
            None => *self.made.hashed(local, row),
        }
    }

    fn note_made(&mut self, local: u32, row: u32, number: u32) {
        match self.made.of_set(local) {
            Some(made) => made[row as usize] = number,
            None => *self.made.hashed(local, row) = number,
        }
    }

    /// The number of a result not asked for before. The bindings of its list are numbered.
    fn add(&mut self, known: (&Found, &Meaning), session: &mut Session<'_>, recipe: RecipeId, set: SetId) -> u32 {
        let mut used = self.used[recipe as usize];
        if used == NONE {
            used = self.begin_use(known, session, recipe).unwrap_or(ELSEWHERE);
            self.used[recipe as usize] = used;
        }
        if used == ELSEWHERE { ELSEWHERE } else { self.prepared.add(used, set) }
    }

    /// Finds what a recipe needs; `None`: it is too much.
    fn begin_use(
        &mut self,
        (found, meaning): (&Found, &Meaning),
        session: &mut Session<'_>,
        id: RecipeId,
    ) -> Option<u32> {
        let (list, columns) = meaning.recipes.needs(id);
        let bindings = found.bindings(list).len();
        for &column in columns {
            if self.columns[column as usize].is_none() {
                found.entries(&meaning.columns[column as usize], list, session.message, &mut self.nodes);
                let kept = self.prepared.add_column(&self.nodes, bindings, session)?;
                self.columns[column as usize] = Some(kept);
            }
        }
        if self.fragment_count + bindings > DENSE_MAX {
            return None;
        }
        let fragments = self.fragment_count as u32;
        self.fragment_count += bindings;
        let columns = columns.iter().filter_map(|&column| self.columns[column as usize]);
        Some(self.prepared.add_use(id, columns, bindings, fragments))
    }

    /// Puts all results together; those that are too large are left empty.
    fn write(&mut self, session: &mut Session<'_>, too_large: &[u32]) -> Result<(), ExtractError> {
        let source = session.message.source;
        let Self { prepared, fragments, sets, .. } = self;
        fragments.clear();
        fragments.resize(self.fragment_count, (0, 0));
        let mut too_large = too_large.iter().peekable();
        for (number, &(used, set)) in (0_u32..).zip(&prepared.list) {
            session.output.begin();
            let used = prepared.used[used as usize];
            if too_large.next_if_eq(&&number).is_some() {
                // Nobody gets it.
            } else if used.bytes_max <= CHUNK_BYTES {
                session.output.append(|payloads| append(prepared, fragments, used, sets.bits(set), source, payloads));
            } else {
                write_large(prepared, fragments, used, sets.bits(set), source, &mut session.output)?;
            }
            session.output.finish();
        }
        Ok(())
    }
}

/// Appends a result.
fn append(
    prepared: &Prepared,
    fragments: &mut [(u64, u32)],
    used: Used,
    set: &[u64],
    source: &[u8],
    payloads: &mut Payloads,
) {
    let (prefix, suffix) = prepared.around(used);
    let taken = payloads.taken();
    let out = payloads.bytes_mut();
    out.reserve(used.bytes_max);
    out.extend_from_slice(prefix);
    for binding in members(set) {
        let fragment = &mut fragments[(used.fragments + binding) as usize];
        if fragment.1 > 0 && fragment.0 >= taken {
            let start = (fragment.0 - taken) as usize;
            out.extend_from_within(start..start + fragment.1 as usize);
            continue;
        }
        let start = out.len();
        prepared.append_fragment(used, binding, source, out);
        *fragment = (taken + start as u64, (out.len() - start) as u32);
    }
    out.extend_from_slice(suffix);
}

/// Appends a result that may be larger than what is kept before it is handed over.
fn write_large(
    prepared: &Prepared,
    fragments: &mut [(u64, u32)],
    used: Used,
    set: &[u64],
    source: &[u8],
    output: &mut Output<'_>,
) -> Result<(), ExtractError> {
    let (prefix, suffix) = prepared.around(used);
    output.push(prefix)?;
    for binding in members(set) {
        let fragment = &mut fragments[(used.fragments + binding) as usize];
        if fragment.1 > 0 && output.repeat(fragment.0, fragment.1)? {
            continue;
        }
        let start = output.position();
        prepared.fragment(used, binding, source, |from, start, end| output.push(&from[start..end]))?;
        *fragment = (start, (output.position() - start) as u32);
    }
    output.push(suffix)
}
