//! Chooses the SIMD kernels of the core when the module is imported.

/// Makes the core use the CPU features that this processor has.
pub fn choose() {
    #[cfg(target_arch = "x86_64")]
    if twigcast_core::simd::has_avx2() {
        // SAFETY: the processor has the features. The core has no unsafe code and cannot make this call itself; it saves a
        // tenth of the time of assembling results.
        unsafe { twigcast_core::use_avx2() }
    }
}
