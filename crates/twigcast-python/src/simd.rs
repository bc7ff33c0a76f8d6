//! What this processor can do beyond what all of its kind can.

/// The core's innermost loops are run with what there is.
pub fn choose() {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as has;

        if has!("avx2") && has!("bmi1") && has!("bmi2") && has!("popcnt") {
            // SAFETY: the processor has what this is made for. It is all that the core, which is without unsafe code, cannot
            // find out by itself; and it spares a tenth of the time of putting results together.
            unsafe { twigcast_core::simd::SimdKernels::avx2() }.choose();
        }
    }
}
