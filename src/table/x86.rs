//! What only this processor has: prefetching, and four tags compared at once.
#![allow(
    unsafe_code,
    reason = "there is no safe prefetch, and no safe vector load of what other threads change"
)]

use core::arch::asm;
use core::arch::x86_64::{
    __m128i, _MM_HINT_T0, _mm_and_si128, _mm_castps_si128, _mm_castsi128_ps, _mm_cmpeq_epi32,
    _mm_movemask_epi8, _mm_packs_epi16, _mm_packs_epi32, _mm_prefetch, _mm_set1_epi32,
    _mm_shuffle_ps,
};

/// Asks for the cache line without waiting for it.
#[inline(always)]
pub(super) fn prefetch<T>(line: &T) {
    // SAFETY: a prefetch is a hint: it has no effect that a program can observe and faults on no address, and
    // this one is that of a live reference. SSE, which has the instruction, is part of x86-64.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(line).cast()) }
}

/// A bit for each slot of two lines of four whose tag is likely to be the key's: the 32 high bits agree.
#[inline(always)]
pub(super) fn likely_wide<T>(lines: [&[T]; 2], key: u64) -> u32 {
    // SAFETY: these need SSE2 and nothing else, and without it this module is not compiled.
    unsafe {
        let key = _mm_set1_epi32((key >> 32) as i32);
        let [first, second] = lines.map(|tags| {
            let [low, high] = load(tags).map(|pair| _mm_castsi128_ps(pair));
            let high_halves = _mm_castps_si128(_mm_shuffle_ps::<0b11_01_11_01>(low, high));
            _mm_cmpeq_epi32(high_halves, key)
        });
        let equal = _mm_packs_epi32(first, second);
        _mm_movemask_epi8(_mm_packs_epi16(equal, equal)) as u32
    }
}

/// A bit for each slot of two lines of eight whose tag is the key's, but for the bits that `mask` leaves out.
#[inline(always)]
pub(super) fn likely_narrow<T>(lines: [&[T]; 2], key: u32, mask: u32) -> u32 {
    // SAFETY: these need SSE2 and nothing else, and without it this module is not compiled.
    unsafe {
        let mask = _mm_set1_epi32(mask as i32);
        let key = _mm_set1_epi32(key as i32);
        let [first, second] = lines.map(|tags| {
            let [low, high] =
                load(tags).map(|four| _mm_cmpeq_epi32(_mm_and_si128(four, mask), key));
            _mm_packs_epi32(low, high)
        });
        _mm_movemask_epi8(_mm_packs_epi16(first, second)) as u32
    }
}

/// Half a cache line, as it is while others exchange words of it.
#[inline(always)]
fn load<T>(tags: &[T]) -> [__m128i; 2] {
    const { assert!(size_of::<T>() == 8 || size_of::<T>() == 4) };
    assert!(size_of_val(tags) == 32);
    let (low, high): (__m128i, __m128i);
    // SAFETY: reads the 32 bytes of a live slice, whose length was just checked, and nothing else; `movdqu` asks
    // for no alignment and is part of SSE2, which is part of x86-64. Other threads may change the words meanwhile,
    // by atomic operations only. That would be a data race for a vector load of the language's, but to the compiler
    // this is a sequence of instructions that reads memory shared with others, as a foreign function might by
    // relaxed loads; the processor knows no data race. Should a word be torn, it is the caller's to look again.
    unsafe {
        asm!(
            "movdqu {low}, [{at}]",
            "movdqu {high}, [{at} + 16]",
            at = in(reg) tags.as_ptr(),
            low = lateout(xmm_reg) low,
            high = lateout(xmm_reg) high,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    [low, high]
}
