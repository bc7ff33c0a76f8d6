//! Assembly of results whose column entries are one slice each. A batch spends most of its time here.
//!
//! The results of a message are many and short, and the lengths of their pieces vary. So everything is prepared for one
//! loop over results, bindings and pieces without lookups or bounds to test: the positions of entries are looked up
//! before, short constants are stored as values, entries lie next to each other by binding, and memory for the largest
//! result is reserved. Pieces are copied in steps of a fixed length, strictly forwards.

use std::array;

use crate::ids::{ConstructorFormId, ResultConstructorId};
use crate::simd::Kernel;

use super::super::output::Output;
use super::super::run_buffer::{STEP, ShortConstant, SteppedMemory};
use super::binding_sets::for_each_member;
use super::constructors::{ConstructorForm, INLINE_COLUMNS, ShortConstants};
use super::prepared::{ColumnEntry, MatchedGroup, PreparedResults};

/// Number of results whose parts are looked up at once.
const CHUNK: usize = 64;

/// The SIMD kernel [`ResultAssembly::assemble`].
type AssembleFn = fn(&ResultAssembly<'_>, usize, (SteppedMemory<'_>, u64), &mut [u64]) -> (usize, u32);

static ASSEMBLE: Kernel<AssembleFn> = Kernel::new(|assembly, first, out, ends| assembly.assemble(first, out, ends));

/// Compiles the kernel for AVX2, which copies twice as many bytes at once, and uses that from now on.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(crate) fn use_avx2() {
    ASSEMBLE.choose(|assembly, first, out, ends| assembly.assemble(first, out, ends));
}

/// The results of a message, to be assembled.
pub(super) struct ResultAssembly<'a> {
    pub(super) prepared: &'a PreparedResults,
    /// By result: the constructor, and the group of queries whose bindings it is made of.
    pub(super) results: &'a [(ResultConstructorId, u32)],
    /// The bytes that entries are ranges of; a step of other bytes follows each entry.
    pub(super) source: &'a [u8],
    /// Bytes of any result, at most.
    pub(super) bytes_max: usize,
}

impl ResultAssembly<'_> {
    /// Appends all results.
    pub(super) fn append_to(&self, output: &mut Output<'_>) {
        let assemble = ASSEMBLE.get();
        output.append_all(self.results.len(), self.bytes_max, |first, out, ends| assemble(self, first, out, ends));
    }

    /// Appends results from number `first` on while the memory has space for the largest, and writes the end of each to
    /// `ends`, which counts from `before`. Returns the number of results and their bytes.
    #[inline(always)]
    fn assemble(&self, first: usize, (mut out, before): (SteppedMemory<'_>, u64), ends: &mut [u64]) -> (usize, u32) {
        let mut parts = [ResultParts::UNRESOLVED; CHUNK];
        let (mut count, mut end) = (0, 0);
        for (results, mut ends) in self.results[first..].chunks(CHUNK).zip(ends.chunks_mut(CHUNK)) {
            let parts = &mut parts[..results.len()];
            self.resolve_parts(results, parts);
            for alike in parts.chunk_by(|a, b| a.form == b.form) {
                let form = self.prepared.constructors.form(alike[0].form);
                let shorts = form.shorts.as_ref().map(|shorts| (shorts, shorts.columns.len()));
                let position = AppendPosition { out: &mut out, end, before };
                let done;
                (done, end) = match shorts {
                    Some((shorts, 1)) => self.append_alike::<1>((form, shorts), alike, position, ends),
                    Some((shorts, 2)) => self.append_alike::<2>((form, shorts), alike, position, ends),
                    Some((shorts, 3)) => self.append_alike::<3>((form, shorts), alike, position, ends),
                    _ => self.append_any(form, alike, position, ends),
                };
                count += done;
                if done < alike.len() {
                    return (count, end);
                }
                ends = &mut ends[done..];
            }
        }
        (count, end)
    }

    /// Looks up the parts of results.
    #[inline(always)]
    fn resolve_parts(&self, results: &[(ResultConstructorId, u32)], parts: &mut [ResultParts]) {
        let prepared = self.prepared;
        let (constructors, groups) = (&*prepared.constructors, &prepared.groups[..]);
        for (&(constructor, group), parts) in results.iter().zip(parts) {
            let MatchedGroup { set, bindings, .. } = groups[group as usize];
            let columns = constructors.inline_columns(constructor).map(|column| prepared.start_of(column));
            *parts = ResultParts { constructor, form: constructors.form_of(constructor), set, bindings, columns };
        }
    }

    /// Appends results of one form with `COLUMNS` columns and short constants, while there is space. Returns their
    /// number and the end of the last.
    #[inline(always)]
    fn append_alike<const COLUMNS: usize>(
        &self,
        (form, shorts): (&ConstructorForm, &ShortConstants),
        results: &[ResultParts],
        AppendPosition { out, mut end, before }: AppendPosition<'_, '_>,
        ends: &mut [u64],
    ) -> (usize, u32) {
        // Local values: the compiler need not read them again after bytes are written.
        let (entries, sets, source) = (&self.prepared.entries[..], &self.prepared.sets[..], self.source);
        let head = shorts.head;
        let (has_empty, empty) = (shorts.empty.is_some(), shorts.empty.unwrap_or_default());
        let after: [ShortConstant; COLUMNS] = array::from_fn(|column| shorts.columns[column].1);
        let most = self.bytes_max + STEP;
        let mut count = 0;
        for (parts, result_end) in results.iter().zip(ends) {
            if out.bytes_after(end) < most {
                break;
            }
            let bindings = parts.bindings as usize;
            let columns: [&[ColumnEntry]; COLUMNS] =
                array::from_fn(|column| &entries[parts.columns[column] as usize..][..bindings]);
            end = out.push_all(end, &form.prefix);
            for (word, &bits) in sets[parts.set as usize..][..bindings.div_ceil(64)].iter().enumerate() {
                let mut rest = bits;
                while rest != 0 {
                    let binding = word * 64 + rest.trailing_zeros() as usize;
                    rest &= rest - 1;
                    let visit: [ColumnEntry; COLUMNS] = array::from_fn(|column| columns[column][binding]);
                    if has_empty && visit.iter().fold(0, |bytes, entry| bytes | entry.bytes) == 0 {
                        end = out.push_short(end, &empty);
                        continue;
                    }
                    end = out.push_short(end, &head);
                    for (entry, after) in visit.iter().zip(&after) {
                        end = out.push(end, source, entry.slice.start, entry.bytes);
                        if !after.is_empty() {
                            end = out.push_short(end, after);
                        }
                    }
                }
            }
            end = out.push_all(end, &form.suffix);
            *result_end = before + u64::from(end);
            count += 1;
        }
        (count, end)
    }

    /// Appends results of any form, while there is space.
    fn append_any(
        &self,
        form: &ConstructorForm,
        results: &[ResultParts],
        AppendPosition { out, mut end, before }: AppendPosition<'_, '_>,
        ends: &mut [u64],
    ) -> (usize, u32) {
        let Self { prepared, source, .. } = *self;
        let mut count = 0;
        for (parts, result_end) in results.iter().zip(ends) {
            if out.bytes_after(end) < self.bytes_max + STEP {
                break;
            }
            let columns = prepared.constructors.columns(parts.constructor);
            let entries = |column: u32| prepared.entries(columns[column as usize], parts.bindings);
            end = out.push_all(end, &form.prefix);
            for_each_member(prepared.set(parts.set, parts.bindings), |binding| {
                end = append_fragment(form, |column| entries(column)[binding], source, (out, end));
            });
            end = out.push_all(end, &form.suffix);
            *result_end = before + u64::from(end);
            count += 1;
        }
        (count, end)
    }
}

/// The memory that results are appended to, with its end and the number of bytes before it.
struct AppendPosition<'a, 'b> {
    out: &'a mut SteppedMemory<'b>,
    end: u32,
    before: u64,
}

/// The parts that a result is made of.
#[derive(Clone, Copy, Debug)]
struct ResultParts {
    constructor: ResultConstructorId,
    form: ConstructorFormId,
    /// Position of the set of bindings, and number of bindings of its list.
    set: u32,
    bindings: u32,
    /// Positions of the first entries of the first columns.
    columns: [u32; INLINE_COLUMNS],
}

impl ResultParts {
    const UNRESOLVED: Self = Self {
        constructor: ResultConstructorId::ABSENT,
        form: ConstructorFormId::ABSENT,
        set: 0,
        bindings: 0,
        columns: [0; INLINE_COLUMNS],
    };
}

/// Appends the fragment of one binding, with its entry in each column. Returns the new end.
#[inline(always)]
fn append_fragment(
    form: &ConstructorForm,
    entry: impl Fn(u32) -> ColumnEntry,
    source: &[u8],
    (out, mut end): (&mut SteppedMemory<'_>, u32),
) -> u32 {
    let ConstructorForm { heads, columns, tails, constants, .. } = form;
    let is_empty = usize::from(columns.iter().all(|&(column, _)| entry(column).bytes == 0));
    let (head, tails) = (heads[is_empty], tails[is_empty]);
    end = out.push(end, constants, head.0, head.1 - head.0);
    for &(column, after) in columns {
        let ColumnEntry { slice, bytes } = entry(column);
        end = out.push(end, source, slice.start, bytes);
        end = out.push(end, constants, after.0, tails * (after.1 - after.0));
    }
    end
}
