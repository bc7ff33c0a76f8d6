//! Putting results together where each entry of a column is in one piece: most of the time of a batch goes into this.
//!
//! Results of a message are many and short, and nobody knows how long each of their pieces is. So all is laid out for one
//! loop over results, bindings and pieces that finds what it needs at hand: constants as values that are stored, entries
//! by binding, and room for the largest result, so that nothing has to be asked in between. Pieces are copied in steps of
//! one length, straight ahead: a line of memory that was written is never come back to.

use std::sync::OnceLock;

use super::super::buffer::{STEP, Steps};
use super::super::output::Output;
use super::prepared::{Entry, Group, Prepared};
use super::recipes::{Form, RecipeId, Shorts};
use super::sets::for_each_member;

/// Puts results together; see [`Joined::put_together`].
type PutTogether = for<'a> fn(&Joined<'_>, usize, Steps<'a>, &mut [u64]) -> (usize, Steps<'a>);

/// Which instructions results are put together with: the same code, made for several kinds of processor.
#[derive(Clone, Copy, Debug)]
pub struct Instructions(PutTogether);

/// What [`Instructions::choose`] chose.
static CHOSEN: OnceLock<Instructions> = OnceLock::new();

impl Instructions {
    /// Those that each processor has.
    const PLAIN: Self = Self(|joined, first, out, ends| joined.put_together(first, out, ends));

    /// Those of processors with AVX2, which copy twice as much at once.
    ///
    /// # Safety
    /// None of its own: Rust lets this be called where it knows that the processor has AVX2, BMI1 and BMI2, and elsewhere the
    /// caller has to make sure of it.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    pub fn avx2() -> Self {
        Self(|joined, first, out, ends| joined.put_together(first, out, ends))
    }

    /// Results are put together with these from now on, in all of the process, unless others were chosen before.
    pub fn choose(self) {
        // Whoever chose before had the same processor.
        let _ = CHOSEN.set(self);
    }

    fn chosen() -> Self {
        CHOSEN.get().copied().unwrap_or(Self::PLAIN)
    }
}

/// The results of a message, to be put together.
pub(super) struct Joined<'a> {
    pub prepared: &'a Prepared,
    /// Each as its recipe, and the group of queries whose bindings it is made of.
    pub results: &'a [(RecipeId, u32)],
    /// What entries are of; a step of other bytes is behind each.
    pub source: &'a [u8],
    /// Bytes of any result, at most.
    pub bytes_max: usize,
}

impl Joined<'_> {
    /// Appends all results.
    pub fn append_to(&self, output: &mut Output<'_>) {
        let Instructions(put_together) = Instructions::chosen();
        output.append_all(self.results.len(), self.bytes_max, |first, out, ends| put_together(self, first, out, ends));
    }

    /// Appends results from the number `first` on while there is room for the largest, and tells where each ends. Returns
    /// how many they are, and where the last ends.
    #[inline(always)]
    fn put_together<'a>(&self, first: usize, mut out: Steps<'a>, ends: &mut [u64]) -> (usize, Steps<'a>) {
        let mut count = 0;
        for (&(recipe, group), end) in self.results[first..].iter().zip(ends) {
            if out.room() < self.bytes_max + STEP {
                break;
            }
            out = self.append(recipe, self.prepared.groups()[group as usize], out);
            *end = out.position();
            count += 1;
        }
        (count, out)
    }

    #[inline(always)]
    fn append<'a>(&self, recipe: RecipeId, group: Group, mut out: Steps<'a>) -> Steps<'a> {
        let Self { prepared, source, .. } = *self;
        let recipes = prepared.recipes();
        let (form, columns) = (recipes.form(recipes.form_of(recipe)), recipes.columns(recipe));
        let set = prepared.set(group.set, group.bindings);
        let entries = |column: u32| prepared.entries(columns[column as usize], group.bindings);
        out.push_all(&form.prefix);
        match &form.shorts {
            // Two columns are what most results are made of.
            Some(Shorts { head, nothing, columns }) if columns.len() == 2 => {
                let ((first, between), (second, behind)) = (&columns[0], &columns[1]);
                let (firsts, seconds) = (entries(*first), entries(*second));
                for_each_member(set, |binding| {
                    let (first, second) = (firsts[binding], seconds[binding]);
                    if first.bytes | second.bytes == 0
                        && let Some(nothing) = nothing
                    {
                        out.push_short(nothing);
                        return;
                    }
                    out.push_short(head);
                    out.push(source, first.slice.start, first.bytes);
                    if !between.is_empty() {
                        out.push_short(between);
                    }
                    out.push(source, second.slice.start, second.bytes);
                    out.push_short(behind);
                });
            }
            _ => for_each_member(set, |binding| {
                append_fragment(form, |column| entries(column)[binding], source, &mut out);
            }),
        }
        out.push_all(&form.suffix);
        out
    }
}

/// Appends what is made of one binding, given what columns lead to from it.
#[inline(always)]
fn append_fragment(form: &Form, entry: impl Fn(u32) -> Entry, source: &[u8], out: &mut Steps<'_>) {
    let Form { heads, columns, tails, constants, .. } = form;
    let is_nothing = usize::from(columns.iter().all(|&(column, _)| entry(column).bytes == 0));
    let (head, tails) = (heads[is_nothing], tails[is_nothing]);
    out.push(constants, head.0, head.1 - head.0);
    for &(column, behind) in columns {
        let Entry { slice, bytes } = entry(column);
        out.push(source, slice.start, bytes);
        out.push(constants, behind.0, tails * (behind.1 - behind.0));
    }
}
