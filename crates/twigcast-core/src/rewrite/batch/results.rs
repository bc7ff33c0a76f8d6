//! The results of one message, assembled from prepared results and result ids.
//!
//! The part of a result that one binding contributes is a *fragment*. Where a constructor makes several results, each
//! of its fragments is written once and then copied as a whole.

use crate::ids::ResultConstructorId;

use super::super::ExtractError;
use super::super::interpreter::Interpreter;
use super::super::output::{CHUNK_BYTES, Output, Payloads};
use super::super::run_buffer::RunAppender;
use super::assembly::ResultAssembly;
use super::binding_sets::members;
use super::bindings::MessageBindings;
use super::columns::ColumnScratch;
use super::condition_index::ConditionIndex;
use super::data_guide::PathResolution;
use super::prepared::{ConstructorUse, PreparedResults};
use super::result_ids::{ResultIds, ResultNumbering, UsedConstructors};

/// Number of fragments whose positions are stored, at most.
const FRAGMENTS_MAX: usize = 1 << 20;

/// Upper bound of the bytes of all results up to which memory is not reserved exactly. The bound is a hundred times and
/// more what many results have; adding up their sizes takes a sixth of the time of assembling them.
const UNRESERVED_BYTES_MAX: usize = 1 << 30;

/// The results of one message. Its memory is reused for the next message.
#[derive(Debug, Default)]
pub(super) struct BatchResults {
    pub prepared: PreparedResults,
    pub ids: ResultIds,
    pub numbering: ResultNumbering,
    fragments: Fragments,
    columns: ColumnScratch,
}

impl BatchResults {
    /// Fills the columns that the constructors of the matching queries need.
    pub fn find_columns(
        &mut self,
        (bindings, index, resolution): (&MessageBindings, &ConditionIndex, &PathResolution),
        interpreter: &mut Interpreter<'_>,
    ) {
        let Self { prepared, columns, .. } = self;
        let mut first = 0;
        while let Some(&group) = prepared.groups.get(first) {
            let same = prepared.groups[first..].iter().take_while(|other| other.list == group.list);
            let (groups, queries) =
                same.fold((0, 0), |(groups, queries), group| (groups + 1, queries + group.len() as usize));
            let needed = resolution.constructors.columns_of_list(group.list);
            if needed.len() <= queries {
                needed.iter().for_each(|&column| prepared.request(column, group.bindings));
            } else {
                // Few queries of many match: do not fill the columns of the others.
                let (start, _) = resolution.constructors.of_list(group.list);
                for number in first..first + groups {
                    for member in index.members(prepared.groups[number].members) {
                        let constructor = ResultConstructorId::from_u32(start.as_u32() + member.constructor);
                        let columns = resolution.constructors.columns(constructor);
                        columns.iter().for_each(|&column| prepared.request(column, group.bindings));
                    }
                }
            }
            first += groups;
        }
        prepared.begin_columns();
        columns.fill(prepared, bindings, resolution, interpreter);
    }

    /// Writes all results; those that are too large are left empty.
    pub fn write(&mut self, interpreter: &mut Interpreter<'_>, too_large: &[u32]) -> Result<(), ExtractError> {
        let Self { prepared, ids, fragments, .. } = self;
        let message = interpreter.message.source;
        prepared.join(message);
        assemble((prepared, ids, too_large), message, fragments, &mut interpreter.markup.output)
    }
}

impl PreparedResults {
    /// Writes all results of `message` after `others`; those that are too large are left empty. It is faster after
    /// [`Self::join`].
    ///
    /// # Errors
    /// There is no memory for all of them.
    pub(crate) fn assemble<'a>(
        &self,
        (ids, too_large): (&ResultIds, &[u32]),
        message: &[u8],
        others: impl Iterator<Item = &'a [u8]> + Clone,
        payloads: &mut Payloads,
    ) -> Result<(), ExtractError> {
        let bytes = others.clone().map(<[u8]>::len).sum::<usize>() + self.large_bytes(ids, too_large);
        if bytes > 0 {
            // The last result reserves an upper bound of its size.
            payloads.reserve(bytes + CHUNK_BYTES)?;
        }
        let output = &mut Output::new(payloads, usize::MAX, usize::MAX);
        for other in others {
            output.begin();
            output.push(other)?;
            output.finish();
        }
        assemble((self, ids, too_large), message, &mut Fragments::default(), output)
    }

    /// Returns the bytes of all results except those that are too large, or 0 if an upper bound says that they are few.
    fn large_bytes(&self, ids: &ResultIds, too_large: &[u32]) -> usize {
        if ids.len().saturating_mul(self.bytes_max()) <= UNRESERVED_BYTES_MAX {
            return 0;
        }
        let fits = |number: &usize| too_large.binary_search(&(*number as u32)).is_err();
        (0..ids.len()).filter(fits).map(|number| ids.size(self, number)).sum()
    }
}

/// Writes results; those that are too large, ascending, are left empty.
fn assemble(
    (prepared, ids, too_large): (&PreparedResults, &ResultIds, &[u32]),
    message: &[u8],
    fragments: &mut Fragments,
    output: &mut Output<'_>,
) -> Result<(), ExtractError> {
    let source = prepared.source(message);
    let bytes_max = prepared.bytes_max();
    if prepared.is_joined && bytes_max <= CHUNK_BYTES && too_large.is_empty() {
        ResultAssembly { prepared, results: ids.list(), source, bytes_max }.append_to(output);
        return Ok(());
    }
    // Entries may have several slices, or results may be large.
    let uses = ids.uses(prepared);
    output.begin();
    fragments.plan(uses);
    let base = output.position();
    let mut too_large = too_large.iter().peekable();
    for (number, (used, set)) in (0..).zip(ids.results(prepared, uses)) {
        if too_large.next_if_eq(&&number).is_some() {
            output.begin();
            output.finish();
            continue;
        }
        let kept = fragments.of(used);
        let writer = ResultWriter { prepared, constructor: uses.constructor_use(prepared, used), source, base };
        let bytes_max = uses.list()[used as usize].bytes_max;
        if bytes_max <= CHUNK_BYTES {
            output.append(bytes_max, |taken, out| writer.append(set, kept, taken, out));
        } else {
            output.begin();
            writer.write_large(set, kept, output)?;
            output.finish();
        }
    }
    Ok(())
}

/// The positions of the fragments of constructors that make several results.
#[derive(Debug, Default)]
struct Fragments {
    /// By used constructor and binding.
    list: Vec<Fragment>,
    /// By used constructor: the start of its fragments; `u32::MAX` if they are not stored.
    starts: Vec<u32>,
}

impl Fragments {
    /// Prepares for the results of a message.
    fn plan(&mut self, uses: &UsedConstructors) {
        let mut count = 0;
        self.starts.clear();
        self.starts.extend(uses.list().iter().map(|used| {
            let keeps = used.results > 1 && count + used.bindings as usize <= FRAGMENTS_MAX;
            let start = if keeps { count as u32 } else { u32::MAX };
            count += if keeps { used.bindings as usize } else { 0 };
            start
        }));
        self.list.clear();
        self.list.resize(count, Fragment::default());
    }

    /// Returns the fragments of a used constructor by binding, followed by others. Empty if they are not stored.
    fn of(&mut self, used: u32) -> &mut [Fragment] {
        self.list.get_mut(self.starts[used as usize] as usize..).unwrap_or_default()
    }
}

/// The position of a fragment, relative to the first result of the message. No bytes if it has not been written.
#[derive(Clone, Copy, Debug, Default)]
struct Fragment {
    start: u32,
    bytes: u32,
}

impl Fragment {
    /// Returns a fragment without bytes if the position is out of range.
    fn of(start: u64, end: u64) -> Self {
        match (u32::try_from(start), u32::try_from(end)) {
            (Ok(start), Ok(end)) => Self { start, bytes: end - start },
            _ => Self::default(),
        }
    }
}

/// A writer of one result.
struct ResultWriter<'a> {
    prepared: &'a PreparedResults,
    constructor: ConstructorUse<'a>,
    /// The bytes that slices are ranges of.
    source: &'a [u8],
    /// Position of the first result of the message.
    base: u64,
}

impl ResultWriter<'_> {
    /// Appends the result. `kept` are the fragments by binding, if stored. The sink has taken `taken` bytes.
    #[inline]
    fn append(&self, set: &[u64], kept: &mut [Fragment], taken: u64, out: &mut RunAppender<'_>) {
        let Self { prepared, constructor, source, .. } = *self;
        if kept.is_empty() {
            out.push_all(&constructor.form.prefix);
            members(set).for_each(|binding| prepared.append_fragment(constructor, binding, source, out));
            out.push_all(&constructor.form.suffix);
            return;
        }
        // Position of the first result in the buffer; negative if the sink has taken its start.
        let first = self.base as i64 - taken as i64;
        out.push_all(&constructor.form.prefix);
        for binding in members(set) {
            let Some(fragment) = kept.get_mut(binding as usize) else {
                prepared.append_fragment(constructor, binding, source, out);
                continue;
            };
            let start = first + i64::from(fragment.start);
            if fragment.bytes > 0 && start >= 0 {
                out.repeat(start as usize, fragment.bytes as usize);
                continue;
            }
            let start = out.len() as i64 - first;
            prepared.append_fragment(constructor, binding, source, out);
            *fragment = Fragment::of(start as u64, (out.len() as i64 - first) as u64);
        }
        out.push_all(&constructor.form.suffix);
    }

    /// Writes a result that may be larger than the buffer.
    fn write_large(&self, set: &[u64], kept: &mut [Fragment], output: &mut Output<'_>) -> Result<(), ExtractError> {
        let Self { prepared, constructor, source, base } = *self;
        output.push(&constructor.form.prefix)?;
        for binding in members(set) {
            let fragment = kept.get_mut(binding as usize);
            if let Some(&mut Fragment { start, bytes }) = fragment
                && bytes > 0
                && output.repeat(base + u64::from(start), bytes)?
            {
                continue;
            }
            let start = output.position();
            prepared.push_fragment(constructor, binding, source, |bytes| output.push(bytes))?;
            if let Some(fragment) = fragment {
                *fragment = Fragment::of(start - base, output.position() - base);
            }
        }
        output.push(&constructor.form.suffix)
    }
}
