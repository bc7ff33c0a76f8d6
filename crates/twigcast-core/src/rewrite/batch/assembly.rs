//! Putting results together where each entry of a column is in one piece: most of the time of a batch goes into this.
//!
//! Results of a message are many and short, and nobody knows how long each of their pieces is. So all is laid out for one
//! loop over results, bindings and pieces that finds what it needs at hand: where the entries of some results begin is
//! looked up before, constants are values that are stored, entries lie by binding, and there is room for the largest
//! result, so that nothing has to be asked in between. Pieces are copied in steps of one length, straight ahead: a line of
//! memory that was written is never come back to.

use std::array;

use crate::simd::Kernel;

use super::super::output::Output;
use super::super::run_buffer::{STEP, ShortConstant, SteppedMemory};
use super::binding_sets::for_each_member;
use super::constructors::{ConstructorForm, FIRSTS, ResultConstructorId, ShortConstants};
use super::prepared::{ColumnEntry, MatchedGroup, PreparedResults};

/// Results whose parts are looked up before the first of them is put together.
const AT_ONCE: usize = 64;

/// The SIMD kernel [`ResultAssembly::assemble`].
type AssembleFn = fn(&ResultAssembly<'_>, usize, (SteppedMemory<'_>, u64), &mut [u64]) -> (usize, u32);

static ASSEMBLE: Kernel<AssembleFn> = Kernel::new(|joined, first, out, ends| joined.assemble(first, out, ends));

/// Makes the kernel copy with AVX2, which moves twice as many bytes at once.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(crate) fn use_avx2() {
    ASSEMBLE.choose(|joined, first, out, ends| joined.assemble(first, out, ends));
}

/// The results of a message, to be put together.
pub(super) struct ResultAssembly<'a> {
    pub(super) prepared: &'a PreparedResults,
    /// Each as its recipe, and the group of queries whose bindings it is made of.
    pub(super) results: &'a [(ResultConstructorId, u32)],
    /// What entries are of; a step of other bytes is behind each.
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

    /// Appends results from the number `first` on while there is room for the largest, and tells where each ends; so many
    /// bytes are before. Returns how many they are, and their bytes.
    #[inline(always)]
    fn assemble(&self, first: usize, (mut out, before): (SteppedMemory<'_>, u64), ends: &mut [u64]) -> (usize, u32) {
        let mut parts = [ResultParts::default(); AT_ONCE];
        let (mut count, mut end) = (0, 0);
        for (results, mut ends) in self.results[first..].chunks(AT_ONCE).zip(ends.chunks_mut(AT_ONCE)) {
            let parts = &mut parts[..results.len()];
            self.resolve_parts(results, parts);
            for alike in parts.chunk_by(|a, b| a.form == b.form) {
                let form = self.prepared.recipes().form(alike[0].form);
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

    /// Looks up what results are made of.
    #[inline(always)]
    fn resolve_parts(&self, results: &[(ResultConstructorId, u32)], parts: &mut [ResultParts]) {
        let prepared = self.prepared;
        let (recipes, groups) = (prepared.recipes(), prepared.groups());
        for (&(recipe, group), parts) in results.iter().zip(parts) {
            let MatchedGroup { set, bindings, .. } = groups[group as usize];
            let columns = recipes.firsts(recipe).map(|column| prepared.start_of(column));
            *parts = ResultParts { recipe, form: recipes.form_of(recipe), set, bindings, columns };
        }
    }

    /// Appends results of one form with so many columns and short constants, while there is room. Returns how many, and
    /// where the last ends.
    #[inline(always)]
    fn append_alike<const COLUMNS: usize>(
        &self,
        (form, shorts): (&ConstructorForm, &ShortConstants),
        results: &[ResultParts],
        AppendPosition { out, mut end, before }: AppendPosition<'_, '_>,
        ends: &mut [u64],
    ) -> (usize, u32) {
        // All are values of this function: nothing has to be read again because bytes were written.
        let (entries, sets, source) = (self.prepared.all_entries(), self.prepared.all_sets(), self.source);
        let head = shorts.head;
        let (has_nothing, nothing) = (shorts.nothing.is_some(), shorts.nothing.unwrap_or_default());
        let behind: [ShortConstant; COLUMNS] = array::from_fn(|column| shorts.columns[column].1);
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
                    if has_nothing && visit.iter().fold(0, |bytes, entry| bytes | entry.bytes) == 0 {
                        end = out.push_short(end, &nothing);
                        continue;
                    }
                    end = out.push_short(end, &head);
                    for (entry, behind) in visit.iter().zip(&behind) {
                        end = out.push(end, source, entry.slice.start, entry.bytes);
                        if !behind.is_empty() {
                            end = out.push_short(end, behind);
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

    /// The same, whatever the form.
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
            let columns = prepared.recipes().columns(parts.recipe);
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

/// Where results are appended: in memory, behind its end; so many bytes are before the memory.
struct AppendPosition<'a, 'b> {
    out: &'a mut SteppedMemory<'b>,
    end: u32,
    before: u64,
}

/// What a result is made of.
#[derive(Clone, Copy, Debug, Default)]
struct ResultParts {
    recipe: ResultConstructorId,
    form: u32,
    /// Where the set of bindings begins, and how many bindings it is of.
    set: u32,
    bindings: u32,
    /// Where the entries of the first columns begin.
    columns: [u32; FIRSTS],
}

/// Appends what is made of one binding, given what columns lead to from it; returns the new end.
#[inline(always)]
fn append_fragment(
    form: &ConstructorForm,
    entry: impl Fn(u32) -> ColumnEntry,
    source: &[u8],
    (out, mut end): (&mut SteppedMemory<'_>, u32),
) -> u32 {
    let ConstructorForm { heads, columns, tails, constants, .. } = form;
    let is_nothing = usize::from(columns.iter().all(|&(column, _)| entry(column).bytes == 0));
    let (head, tails) = (heads[is_nothing], tails[is_nothing]);
    end = out.push(end, constants, head.0, head.1 - head.0);
    for &(column, behind) in columns {
        let ColumnEntry { slice, bytes } = entry(column);
        end = out.push(end, source, slice.start, bytes);
        end = out.push(end, constants, behind.0, tails * (behind.1 - behind.0));
    }
    end
}
