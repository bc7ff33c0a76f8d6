//! Results of the queries that a guide has decided.
//!
//! First it is found which queries match with which bindings, and what their paths lead to from those (`prepared.rs`);
//! then, who gets which result (`naming.rs`); then the bytes of each are put together. What is made of one binding is a
//! *fragment*; where many results are made alike it is put together once, and copied as a whole where it is needed again.

use super::super::ExtractError;
use super::super::interpreter::Interpreter;
use super::super::output::{CHUNK_BYTES, Output, Payloads};
use super::super::program::family::NONE;
use super::super::run_buffer::RunAppender;
use super::assembly::ResultAssembly;
use super::binding_sets::members;
use super::bindings::MessageBindings;
use super::columns::ColumnScratch;
use super::data_guide::PathResolution;
use super::prepared::{ConstructorUse, PreparedResults};
use super::result_ids::{ResultIds, ResultNumbering, UsedConstructors};

/// Fragments of which it is noted where they are, at most.
const FRAGMENTS_MAX: usize = 1 << 20;

/// Bytes of all results, if each were as large as the largest may be, up to which memory is not asked for beforehand. That
/// is a hundred times what they have and more, where they are many; to add up what they have takes a sixth of the time of
/// putting them together.
const SURELY: usize = 1 << 30;

/// The results of one message.
#[derive(Debug, Default)]
pub(super) struct BatchResults {
    pub prepared: PreparedResults,
    pub named: ResultIds,
    pub namer: ResultNumbering,
    fragments: Fragments,
    columns: ColumnScratch,
}

impl BatchResults {
    /// Finds what the columns lead to that the recipes of the queries found need.
    pub fn find_columns(
        &mut self,
        bindings: &MessageBindings,
        meaning: &PathResolution,
        session: &mut Interpreter<'_>,
    ) {
        let Self { prepared, columns, .. } = self;
        let mut at = 0;
        while let Some(&group) = prepared.groups().get(at) {
            let same = prepared.groups()[at..].iter().take_while(|other| other.list == group.list);
            let (groups, queries) = same.fold((0, 0), |(groups, queries), group| {
                (groups + 1, queries + (group.members.1 - group.members.0) as usize)
            });
            let needed = meaning.recipes.needed(group.list);
            if needed.len() <= queries {
                needed.iter().for_each(|&column| prepared.request(column, group.bindings));
            } else {
                // Few queries of many: what the others need is not looked for.
                let (first, _) = meaning.recipes.of_list(group.list);
                for number in at..at + groups {
                    let (start, end) = prepared.groups()[number].members;
                    for member in start..end {
                        let row = prepared.selector().members((member, member + 1))[0].row;
                        let columns = meaning.recipes.columns(first + row);
                        columns.iter().for_each(|&column| prepared.request(column, group.bindings));
                    }
                }
            }
            at += groups;
        }
        prepared.begin_columns();
        columns.find(prepared, bindings, meaning, session);
    }

    /// Puts all results together; those that are too large are left empty.
    pub fn write(&mut self, session: &mut Interpreter<'_>, too_large: &[u32]) -> Result<(), ExtractError> {
        let Self { prepared, named, fragments, .. } = self;
        let message = session.message.source;
        prepared.join(message);
        assemble((prepared, named, too_large), message, fragments, &mut session.markup.output)
    }
}

impl PreparedResults {
    /// Puts all results together that were told apart, behind `others`; those that are too large are left empty. `message`
    /// is the one that they are made of. It goes faster once they were joined ([`Self::join`]).
    ///
    /// # Errors
    /// There is no memory for all of them. Those that are too large are known.
    pub(crate) fn assemble<'a>(
        &self,
        (named, too_large): (&ResultIds, &[u32]),
        message: &[u8],
        others: impl Iterator<Item = &'a [u8]> + Clone,
        payloads: &mut Payloads,
    ) -> Result<(), ExtractError> {
        let bytes = others.clone().map(<[u8]>::len).sum::<usize>() + self.large_bytes(named, too_large);
        if bytes > 0 {
            // While one is appended there is room for more than it turns out to take.
            payloads.reserve(bytes + CHUNK_BYTES)?;
        }
        let output = &mut Output::new(payloads, usize::MAX);
        for other in others {
            output.begin();
            output.push(other)?;
            output.finish();
        }
        assemble((self, named, too_large), message, &mut Fragments::default(), output)
    }

    /// The bytes of all results but those that are too large; 0 if it is certain that they are not many.
    fn large_bytes(&self, named: &ResultIds, too_large: &[u32]) -> usize {
        if named.len().saturating_mul(self.bytes_max()) <= SURELY {
            return 0;
        }
        let fits = |number: &usize| too_large.binary_search(&(*number as u32)).is_err();
        (0..named.len()).filter(fits).map(|number| named.size(self, number)).sum()
    }
}

/// Puts results together; those that are too large, by number and ascending, are left empty.
fn assemble(
    (prepared, named, too_large): (&PreparedResults, &ResultIds, &[u32]),
    message: &[u8],
    fragments: &mut Fragments,
    output: &mut Output<'_>,
) -> Result<(), ExtractError> {
    let source = prepared.source(message);
    let bytes_max = prepared.bytes_max();
    if prepared.is_joined() && bytes_max <= CHUNK_BYTES && too_large.is_empty() {
        ResultAssembly { prepared, results: named.list(), source, bytes_max }.append_to(output);
        return Ok(());
    }
    // Entries may be in several pieces, or results large.
    let uses = named.uses(prepared);
    output.begin();
    fragments.plan(uses);
    let base = output.position();
    let mut too_large = too_large.iter().peekable();
    for (number, (used, set)) in (0..).zip(named.results(prepared, uses)) {
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

/// Where the fragments of the recipes are that are used for several results.
#[derive(Debug, Default)]
struct Fragments {
    /// By recipe used and binding.
    list: Vec<Fragment>,
    /// By recipe used: where its own begin; [`NONE`] if it is not noted where they are.
    starts: Vec<u32>,
}

impl Fragments {
    /// Makes room to note where they are.
    fn plan(&mut self, uses: &UsedConstructors) {
        let mut count = 0;
        self.starts.clear();
        self.starts.extend(uses.list().iter().map(|used| {
            let keeps = used.results > 1 && count + used.bindings as usize <= FRAGMENTS_MAX;
            let start = if keeps { count as u32 } else { NONE };
            count += if keeps { used.bindings as usize } else { 0 };
            start
        }));
        self.list.clear();
        self.list.resize(count, Fragment::default());
    }

    /// Those of a recipe by binding, and others behind them; nothing if it is not noted where they are.
    fn of(&mut self, used: u32) -> &mut [Fragment] {
        self.list.get_mut(self.starts[used as usize] as usize..).unwrap_or_default()
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
struct ResultWriter<'a> {
    prepared: &'a PreparedResults,
    constructor: ConstructorUse<'a>,
    /// What slices are of.
    source: &'a [u8],
    /// Where the first result of the message begins.
    base: u64,
}

impl ResultWriter<'_> {
    /// Appends the result. `kept` has the fragments by binding, or nothing; `taken` bytes are gone to the sink.
    #[inline]
    fn append(&self, set: &[u64], kept: &mut [Fragment], taken: u64, out: &mut RunAppender<'_>) {
        let Self { prepared, constructor, source, .. } = *self;
        if kept.is_empty() {
            out.push_all(&constructor.form.prefix);
            members(set).for_each(|binding| prepared.append_fragment(constructor, binding, source, out));
            out.push_all(&constructor.form.suffix);
            return;
        }
        // Where the first result of the message begins: before all that is there, if some of it is gone.
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

    /// Appends the result, which may be larger than what is kept before it is handed over.
    fn write_large(&self, set: &[u64], kept: &mut [Fragment], output: &mut Output<'_>) -> Result<(), ExtractError> {
        let Self { prepared, constructor: make, source, base } = *self;
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
