//! What is made of the bindings by recipes that are used for many results, put together once.
//!
//! What is made of one binding is a *fragment*: constants around what the columns lead to from it. Results of one recipe
//! are made of the same fragments in other selections. Those that any of them needs are put together one after the other,
//! and are from then on like the entries of a column.

use super::super::buffer::{Buffer, Rests};
use super::super::family::NONE;
use super::super::output::{CHUNK_BYTES, RESTS_FEW};
use super::naming::{Named, Uses};
use super::prepared::{Prepared, Slice};
use super::sets::members;

/// There are strips if recipes are used for so many results on average: fewer need other fragments, mostly.
const RESULTS_MIN: usize = 6;

/// Fragments, and bytes of them and of what they are made of, at most.
const FRAGMENTS_MAX: usize = 1 << 20;
const BYTES_MAX: usize = 1 << 20;

/// The fragments of one message.
#[derive(Debug, Default)]
pub(super) struct Strips {
    /// By recipe used: where its fragments begin; [`NONE`] if it has none.
    starts: Vec<u32>,
    /// By recipe with a strip, then by binding: the fragment, where a result needs it.
    fragments: Vec<Slice>,
    /// Bindings that the results of each recipe with a strip need, as bits; where those of each begin.
    needed: Vec<u64>,
    needed_starts: Vec<u32>,
    /// What columns lead to, then the fragments.
    bytes: Buffer,
    rests: Rests,
}

impl Strips {
    /// Puts fragments together, as far as there is room. Columns are joined, and entries of `source`.
    pub fn make(&mut self, prepared: &Prepared, (named, uses): (&Named, &Uses), source: &[u8]) {
        self.plan(prepared, named, uses);
        let Self { starts, fragments, needed, needed_starts, bytes, rests } = self;
        bytes.truncate(0);
        rests.clear();
        if needed.is_empty() {
            return;
        }
        bytes.push(source);
        for (number, used) in uses.list().iter().enumerate() {
            if starts[number] == NONE {
                continue;
            }
            let make = uses.make(prepared, number as u32);
            let set = &needed[needed_starts[number] as usize..][..(used.bindings as usize).div_ceil(64)];
            let first = starts[number] as usize;
            let most = used.bytes_max;
            if bytes.len() + most > BYTES_MAX {
                starts[number] = NONE;
                continue;
            }
            let pieces = used.bindings as usize * make.starts.len();
            bytes.append_steps((most, pieces), rests, |out| {
                prepared.append_in_steps(make, (members(set), used.bindings), source, out, |binding, place| {
                    fragments[first + binding as usize] = place;
                })
            });
            bytes.settle(rests, source, RESTS_FEW);
        }
        bytes.settle(rests, source, 0);
    }

    /// The fragments of a recipe used, by binding, those that results need; `None`: it has no strip.
    #[inline]
    pub fn of(&self, used: u32, bindings: u32) -> Option<&[Slice]> {
        let start = self.starts[used as usize];
        (start != NONE).then(|| &self.fragments[start as usize..(start + bindings) as usize])
    }

    /// What entries and fragments are of; `source` is what entries are of.
    pub fn source<'a>(&'a self, source: &'a [u8]) -> &'a [u8] {
        if self.bytes.len() > 0 { self.bytes.memory() } else { source }
    }

    /// Makes room, and finds the bindings that results need.
    fn plan(&mut self, prepared: &Prepared, named: &Named, uses: &Uses) {
        let Self { starts, fragments, needed, needed_starts, .. } = self;
        starts.clear();
        needed_starts.clear();
        let has_strips = named.len() >= RESULTS_MIN * uses.list().len();
        let (mut count, mut words) = (0, 0);
        for used in uses.list() {
            let bindings = used.bindings as usize;
            let has_strip =
                has_strips && used.results > 1 && used.bytes_max <= CHUNK_BYTES && count + bindings <= FRAGMENTS_MAX;
            starts.push(if has_strip { count as u32 } else { NONE });
            needed_starts.push(words as u32);
            if has_strip {
                count += bindings;
                words += bindings.div_ceil(64);
            }
        }
        if fragments.len() < count {
            fragments.resize(count, Slice::default());
        }
        needed.clear();
        needed.resize(words, 0);
        if !has_strips {
            return;
        }
        for (used, set) in named.results(prepared, uses) {
            if starts[used as usize] != NONE {
                let needed = &mut needed[needed_starts[used as usize] as usize..];
                needed.iter_mut().zip(set).for_each(|(word, more)| *word |= more);
            }
        }
    }
}
