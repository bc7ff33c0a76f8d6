//! Which instructions the innermost loops are made of: the same code, made for several kinds of processor.

use std::sync::OnceLock;

use crate::engine::{AppendMembersFn, append_members};
use crate::rewrite::AssembleFn;

/// What depends on the kind of processor.
#[derive(Clone, Copy, Debug)]
pub struct SimdKernels {
    /// Puts results together.
    pub(crate) put_together: AssembleFn,
    /// Lists the members of a set.
    pub(crate) append_members: AppendMembersFn,
}

/// What [`SimdKernels::choose`] chose.
static CHOSEN: OnceLock<SimdKernels> = OnceLock::new();

impl SimdKernels {
    /// Those that each processor has.
    const PLAIN: Self = Self {
        put_together: |joined, first, out, ends| joined.assemble(first, out, ends),
        append_members: |words, members| append_members(words, members),
    };

    /// Those of processors with AVX2, which copy twice as much at once, and count bits and go from bit to bit in one step.
    ///
    /// # Safety
    /// None of its own: Rust lets this be called where it knows that the processor has AVX2, BMI1, BMI2 and POPCNT, and
    /// elsewhere the caller has to make sure of it.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    pub fn avx2() -> Self {
        Self {
            put_together: |joined, first, out, ends| joined.assemble(first, out, ends),
            append_members: |words, members| append_members(words, members),
        }
    }

    /// These are used from now on, in all of the process, unless others were chosen before.
    pub fn choose(self) {
        // Whoever chose before had the same processor.
        let _ = CHOSEN.set(self);
    }

    pub(crate) fn chosen() -> Self {
        CHOSEN.get().copied().unwrap_or(Self::PLAIN)
    }
}
