//! SIMD kernels: functions with one implementation for each level of CPU features.
//!
//! A kernel is written once and compiled for each level; it stands in the file that uses it, with its [`Kernel`]. This
//! file only detects the level and keeps the choice.

use std::sync::OnceLock;

/// The implementation of one SIMD kernel that this process uses.
#[derive(Debug)]
pub(crate) struct Kernel<F> {
    /// The implementation that every processor of the target can run.
    baseline: F,
    best: OnceLock<F>,
}

impl<F: Copy> Kernel<F> {
    /// Creates a kernel that uses its baseline implementation until a better one is chosen.
    pub(crate) const fn new(baseline: F) -> Self {
        Self { baseline, best: OnceLock::new() }
    }

    /// Uses an implementation from now on. A later choice changes nothing: it would be the same, by the same processor.
    pub(crate) fn choose(&self, best: F) {
        self.best.get_or_init(|| best);
    }

    /// Returns the implementation to call.
    pub(crate) fn get(&self) -> F {
        *self.best.get().unwrap_or(&self.baseline)
    }
}

/// Returns `true` if the processor has the features that [`use_avx2`](crate::use_avx2) needs.
#[cfg(target_arch = "x86_64")]
pub fn has_avx2() -> bool {
    use std::arch::is_x86_feature_detected as has;
    has!("avx2") && has!("bmi1") && has!("bmi2") && has!("popcnt")
}
