//! Results of the queries that a guide has decided: one for each different pair of a set of bindings and what is made
//! of it.
//!
//! First it is found which results there are and who gets which; then their bytes are put together. What is made of one
//! binding, a *fragment*, is put together once; where it is needed again it is copied as a whole.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::limits::Limits;

use super::super::ExtractError;
use super::super::family::NONE;
use super::super::output::Output;
use super::super::run::Session;
use super::classes::Classes;
use super::guide::Meaning;
use super::prepared::{Kept, Prepared};
use super::sets::{SetId, Sets, members};
use super::{Found, Guide};

/// Entries of a table that is not hashed, at most.
const DENSE_MAX: usize = 1 << 20;

/// The result cannot be made here, and has to be asked for by itself.
pub(crate) const ELSEWHERE: u32 = NONE - 1;

/// Marks the number of an error.
const FAILED: u32 = 1 << 31;

/// The results of one message.
#[derive(Debug, Default)]
pub(super) struct Results {
    /// By query: the number of its result.
    number_of: Vec<u32>,
    /// By make: its number among those used; [`NONE`] where it is not, [`ELSEWHERE`] where it cannot be.
    used: Vec<u32>,
    /// By column, if it is kept.
    columns: Vec<Option<Kept>>,
    prepared: Prepared,
    /// By make used and binding: start and bytes of its fragment; no bytes where it is not written yet.
    fragments: Vec<(u64, u32)>,
    made: Table,
    /// By result: the number of its payload, or of its error with [`FAILED`].
    payloads: Vec<u32>,
    errors: Vec<ExtractError>,
}

/// Numbers by row and column; columns beyond those foreseen (intersections that nobody asked for before) are hashed.
#[derive(Debug, Default)]
struct Table {
    dense: Vec<u32>,
    sparse: FxHashMap<u64, u32>,
    columns: usize,
    is_dense: bool,
}

impl Table {
    fn reset(&mut self, rows: usize, columns: usize) {
        self.columns = columns;
        self.is_dense = rows.saturating_mul(columns) <= DENSE_MAX;
        self.dense.clear();
        self.sparse.clear();
        if self.is_dense {
            self.dense.resize(rows * columns, NONE);
        }
    }

    #[inline]
    fn at(&mut self, row: u32, column: u32) -> &mut u32 {
        if self.is_dense && (column as usize) < self.columns {
            return &mut self.dense[row as usize * self.columns + column as usize];
        }
        self.sparse.entry(u64::from(row) << 32 | u64::from(column)).or_insert(NONE)
    }
}

impl Guide {
    /// Makes the results of the message last run, and notes who gets which.
    pub(crate) fn deliver(&mut self, classes: &Classes, bound: usize, session: &mut Session<'_>) {
        let mut number_of = std::mem::take(&mut self.results.number_of);
        number_of.resize(bound.max(number_of.len()), NONE);
        self.find_results(classes, session, |query, number| number_of[query as usize] = number);
        self.results.number_of = number_of;
        self.results.write(&self.found.sets, session);
    }

    /// Finds the results of the message last run without putting them together, and tells who gets which:
    /// [`ELSEWHERE`] where it has to be asked for by itself. Those of these numbers are too large.
    pub(crate) fn prepare(
        &mut self,
        classes: &Classes,
        session: &mut Session<'_>,
        limits: &Limits,
        tell: impl FnMut(u32, u32),
    ) -> (Prepared, Vec<u32>) {
        self.find_results(classes, session, tell);
        let prepared = &mut self.results.prepared;
        prepared.sets = self.found.sets.frozen();
        let bytes_max = limits.result_bytes_max;
        let mut too_large = Vec::new();
        if prepared.used.iter().any(|used| used.bytes_max > bytes_max) {
            too_large.extend((0..prepared.len() as u32).filter(|&number| prepared.size(number as usize) > bytes_max));
        }
        (std::mem::take(prepared), too_large)
    }

    fn find_results(&mut self, classes: &Classes, session: &mut Session<'_>, mut tell: impl FnMut(u32, u32)) {
        let Self { found, meaning, results, .. } = self;
        results.reset(meaning);
        let mut in_hand = NONE;
        for at in 0..found.satisfied.len() {
            let (list, class, set) = found.satisfied[at];
            if list != in_hand {
                in_hand = list;
                found.number(list);
                results.made.reset(meaning.lists[list as usize].makes as usize, found.sets.count(list) as usize);
            }
            let Some(class) = classes.classes.get(class) else { continue };
            for member in &class.members {
                let Some(set) = found.bindings_of(classes, member, list, set) else { continue };
                let (make, row) = meaning.make_of[member.make as usize];
                let column = found.sets.local(set);
                let mut number = *results.made.at(row, column);
                if number == NONE {
                    number = results.add((found, meaning, classes), session, make, set);
                    *results.made.at(row, column) = number;
                }
                tell(member.query, number);
            }
        }
    }

    /// What a matching query gets; `None`: it has to be asked for by itself.
    #[inline]
    pub(crate) fn delivered(&self, query: u32) -> Option<Result<u32, ExtractError>> {
        let Results { number_of, payloads, errors, .. } = &self.results;
        let number = number_of.get(query as usize).copied().filter(|&number| number < ELSEWHERE)?;
        let payload = payloads[number as usize];
        if payload & FAILED == 0 {
            return Some(Ok(payload));
        }
        Some(Err(errors[(payload & !FAILED) as usize].clone()))
    }
}

impl Results {
    fn reset(&mut self, meaning: &Meaning) {
        self.prepared.clear();
        self.payloads.clear();
        self.errors.clear();
        self.used.clear();
        self.used.resize(meaning.makes.len(), NONE);
        self.fragments.clear();
        self.columns.clear();
        self.columns.resize(meaning.columns.len(), None);
    }

    /// The number of a result not asked for before. The bindings of its list are numbered.
    fn add(
        &mut self,
        (found, meaning, classes): (&Found, &Meaning, &Classes),
        session: &mut Session<'_>,
        make: u32,
        set: SetId,
    ) -> u32 {
        let mut used = self.used[make as usize];
        if used == NONE {
            used = self.begin_use(found, meaning, classes, session, make).unwrap_or(ELSEWHERE);
            self.used[make as usize] = used;
        }
        if used == ELSEWHERE { ELSEWHERE } else { self.prepared.add(used, set) }
    }

    /// Finds what a make needs; `None`: it is too much.
    fn begin_use(
        &mut self,
        found: &Found,
        meaning: &Meaning,
        classes: &Classes,
        session: &mut Session<'_>,
        make: u32,
    ) -> Option<u32> {
        let canonical = &meaning.makes[make as usize];
        let bindings = found.bindings[canonical.list as usize].len();
        let mut columns = Vec::with_capacity(canonical.columns.len());
        for &column in &canonical.columns {
            let kept = match self.columns[column as usize] {
                Some(known) => known,
                None => {
                    let nodes = found.entries(&meaning.columns[column as usize], session.message);
                    self.prepared.add_column(&nodes, bindings, session)?
                }
            };
            self.columns[column as usize] = Some(kept);
            columns.push(kept);
        }
        if self.fragments.len() + bindings > DENSE_MAX {
            return None;
        }
        let fragments = self.fragments.len() as u32;
        self.fragments.resize(self.fragments.len() + bindings, (0, 0));
        let skeleton = Arc::clone(&classes.makes.get(canonical.make)?.skeleton);
        Some(self.prepared.add_use(skeleton, &columns, bindings, fragments))
    }

    /// Puts all results together.
    fn write(&mut self, sets: &Sets, session: &mut Session<'_>) {
        let source = session.message.source;
        let Self { prepared, fragments, payloads, errors, .. } = self;
        for &(used, set) in &prepared.list {
            session.output.begin();
            let written = write_one(prepared, fragments, used, sets.bits(set), source, &mut session.output);
            payloads.push(match written {
                Ok(()) => session.output.finish(),
                Err(error) => {
                    errors.push(error);
                    FAILED | (errors.len() as u32 - 1)
                }
            });
        }
    }
}

fn write_one(
    prepared: &Prepared,
    fragments: &mut [(u64, u32)],
    used: u32,
    set: &[u64],
    source: &[u8],
    output: &mut Output<'_>,
) -> Result<(), ExtractError> {
    let used = &prepared.used[used as usize];
    let skeleton = &used.skeleton.object;
    output.push(&skeleton.prefix)?;
    for binding in members(set) {
        let fragment = &mut fragments[(used.fragments + binding) as usize];
        if fragment.1 > 0 && output.repeat(fragment.0, fragment.1)? {
            continue;
        }
        let start = output.position();
        prepared.fragment(used, binding, source, |bytes| output.push(bytes))?;
        *fragment = (start, (output.position() - start) as u32);
    }
    output.push(&skeleton.suffix)
}
