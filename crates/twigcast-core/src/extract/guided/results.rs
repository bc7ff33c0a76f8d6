//! Results of the queries that a guide has decided.
//!
//! First it is found which queries match with which bindings, and what their paths lead to from those (`prepared.rs`);
//! then, who gets which result (`naming.rs`); then the bytes of each are put together. What is made of one binding, a
//! *fragment*, is put together once; where it is needed again it is copied as a whole.

use super::super::ExtractError;
use super::super::output::{CHUNK_BYTES, Output, Payloads};
use super::super::run::Session;
use super::found::STEPS_MAX;
use super::guide::{ColumnId, ListId, Meaning};
use super::naming::{Named, Namer};
use super::prepared::{Make, Prepared};
use super::sets::members;
use super::{Found, Guide};

/// The results of one message.
#[derive(Debug, Default)]
pub(super) struct Results {
    prepared: Prepared,
    named: Named,
    namer: Namer,
    /// By recipe used and binding.
    fragments: Vec<Fragment>,
    /// What a column leads to.
    nodes: Vec<u64>,
    /// Steps from nodes up to bindings that may still be taken for the message.
    steps_left: usize,
}

impl Guide {
    /// How many queries get a result.
    pub(crate) fn result_count(&self) -> usize {
        self.results.prepared.query_count()
    }

    /// Finds what the results of the message last run are made of.
    pub(crate) fn find_results(&mut self, session: &mut Session<'_>) {
        let Self { found, meaning, selector, results, .. } = self;
        let prepared = &mut results.prepared;
        prepared.reset(&meaning.recipes, selector, meaning.columns.len());
        found.walk(selector, |found, list, set, members| {
            prepared.add_group(list, members, found.bindings(list).len() as u32, set);
        });
        results.steps_left = STEPS_MAX;
        results.find_columns(found, meaning, session);
    }

    /// Is it certain that every query gets its result from here, none over a limit?
    pub(crate) fn is_certain(&self, bytes_max: usize) -> bool {
        !self.late.is_any() && self.results.prepared.is_certain(bytes_max)
    }

    /// Tells the results that were found apart, and tells the queries with the number of each one's:
    /// [`super::ELSEWHERE`] where it has to be asked for by itself. Returns the numbers of those that are larger than
    /// allowed, ascending.
    pub(crate) fn name_results(&mut self, bytes_max: usize, tell: impl FnMut(&[u32], &[u32])) -> Vec<u32> {
        let Results { prepared, named, namer, .. } = &mut self.results;
        namer.name(prepared, named, self.late.changed(), tell);
        named.too_large(prepared, bytes_max)
    }

    /// Takes what was found, to be put together at any time.
    pub(crate) fn take_prepared(&mut self) -> Prepared {
        let next = self.results.prepared.as_large_as();
        std::mem::replace(&mut self.results.prepared, next)
    }

    /// Takes what was told apart.
    pub(crate) fn take_named(&mut self) -> Named {
        std::mem::take(&mut self.results.named)
    }

    /// Puts the results that were found together. The numbers of those that are too large are known; where they would be
    /// is nothing.
    pub(crate) fn write_results(&mut self, session: &mut Session<'_>, too_large: &[u32]) -> Result<(), ExtractError> {
        self.results.write(session, too_large)
    }
}

impl Results {
    /// Finds what the columns lead to that the recipes of the queries found need.
    fn find_columns(&mut self, found: &Found, meaning: &Meaning, session: &mut Session<'_>) {
        let mut at = 0;
        while let Some(&group) = self.prepared.groups().get(at) {
            let same = self.prepared.groups()[at..].iter().take_while(|other| other.list == group.list);
            let (groups, queries) = same.fold((0, 0), |(groups, queries), group| {
                (groups + 1, queries + (group.members.1 - group.members.0) as usize)
            });
            let needed = meaning.recipes.needed(group.list);
            if needed.len() <= queries {
                needed.iter().for_each(|&column| self.find_column(found, meaning, (group.list, column), session));
            } else {
                // Few queries of many: what the others need is not looked for.
                let (first, _) = meaning.recipes.of_list(group.list);
                for number in at..at + groups {
                    let (start, end) = self.prepared.groups()[number].members;
                    for member in start..end {
                        let row = self.prepared.selector().members((member, member + 1)).1[0];
                        for &column in meaning.recipes.columns(first + row) {
                            self.find_column(found, meaning, (group.list, column), session);
                        }
                    }
                }
            }
            at += groups;
        }
    }

    fn find_column(
        &mut self,
        found: &Found,
        meaning: &Meaning,
        (list, column): (ListId, ColumnId),
        session: &mut Session<'_>,
    ) {
        if self.prepared.is_known(column) {
            return;
        }
        let asked = (&meaning.columns[column as usize], list);
        if found.entries(asked, session.message, &mut self.steps_left, &mut self.nodes).is_none() {
            self.prepared.add_too_much(column);
        } else if !self.nodes.is_empty() {
            self.prepared.add_column(column, &self.nodes, found.bindings(list).len(), session);
        }
    }

    /// Puts all results together; those that are too large are left empty.
    fn write(&mut self, session: &mut Session<'_>, too_large: &[u32]) -> Result<(), ExtractError> {
        let Self { prepared, named, fragments, .. } = self;
        let source = prepared.source(session.message.source);
        fragments.clear();
        fragments.resize(named.fragments, Fragment::default());
        session.output.begin();
        let base = session.output.position();
        let mut too_large = too_large.iter().peekable();
        for number in 0..named.len() {
            session.output.begin();
            let is_left_out = too_large.next_if_eq(&&(number as u32)).is_some();
            if let Some((used, set)) = named.result(prepared, number).filter(|_| !is_left_out) {
                let kept = fragments.get_mut(used.fragments as usize..).unwrap_or_default();
                let writer = Writer { prepared, make: named.make(prepared, used), source, base };
                if used.bytes_max <= CHUNK_BYTES {
                    session.output.append(|payloads| writer.append(set, kept, payloads));
                } else {
                    writer.write_large(set, kept, &mut session.output)?;
                }
            }
            session.output.finish();
        }
        Ok(())
    }
}

/// Where a fragment was written, counted from the first result of the message; no bytes: it was not.
#[derive(Clone, Copy, Debug, Default)]
struct Fragment {
    start: u32,
    bytes: u32,
}

impl Fragment {
    /// Nothing if it is too far off.
    fn of(start: u64, end: u64) -> Self {
        match (u32::try_from(start), u32::try_from(end)) {
            (Ok(start), Ok(end)) => Self { start, bytes: end - start },
            _ => Self::default(),
        }
    }
}

/// Puts one result together.
struct Writer<'a> {
    prepared: &'a Prepared,
    make: Make<'a>,
    /// What slices are of.
    source: &'a [u8],
    /// Where the first result of the message begins.
    base: u64,
}

impl Writer<'_> {
    /// Appends the result. `kept` has the fragments by binding, or nothing.
    fn append(&self, set: &[u64], kept: &mut [Fragment], payloads: &mut Payloads) {
        let Self { prepared, make, source, .. } = *self;
        // Of the message's bytes, those before this are gone to the sink.
        let taken = payloads.taken().saturating_sub(self.base);
        let first = self.base.saturating_sub(payloads.taken()) as usize;
        let out = payloads.bytes_mut();
        out.extend_from_slice(&make.form.prefix);
        for binding in members(set) {
            let fragment = kept.get_mut(binding as usize);
            if let Some(&mut Fragment { start, bytes }) = fragment
                && bytes > 0
                && u64::from(start) >= taken
            {
                let start = first + (u64::from(start) - taken) as usize;
                out.extend_from_within(start..start + bytes as usize);
                continue;
            }
            let start = out.len();
            prepared.append_fragment(make, binding, source, out);
            if let Some(fragment) = fragment {
                let place = |at: usize| taken + (at - first) as u64;
                *fragment = Fragment::of(place(start), place(out.len()));
            }
        }
        out.extend_from_slice(&make.form.suffix);
    }

    /// Appends the result, which may be larger than what is kept before it is handed over.
    fn write_large(&self, set: &[u64], kept: &mut [Fragment], output: &mut Output<'_>) -> Result<(), ExtractError> {
        let Self { prepared, make, source, base } = *self;
        output.push(&make.form.prefix)?;
        for binding in members(set) {
            let fragment = kept.get_mut(binding as usize);
            if let Some(&mut Fragment { start, bytes }) = fragment
                && bytes > 0
                && output.repeat(base + u64::from(start), bytes)?
            {
                continue;
            }
            let start = output.position();
            prepared.push_fragment(make, binding, source, |bytes| output.push(bytes))?;
            if let Some(fragment) = fragment {
                *fragment = Fragment::of(start - base, output.position() - base);
            }
        }
        output.push(&make.form.suffix)
    }
}
