//! What C holds: memory of a size that the header states, in which there is a Rust value once it is initialised.

use crate::status::tidegate_status::{self, *};

/// A value, and the mark by which it is recognised: memory that is all zero, or another type's, has not got it.
#[repr(C)]
pub(crate) struct Object<T> {
    mark: u32,
    value: T,
}

/// What C may hold: the value's memory is an `Opaque`.
///
/// # Safety
///
/// `Opaque` is at least as large and as aligned as `Object<Self>`, and any bytes are a valid one.
pub(crate) unsafe trait Held: Sized {
    type Opaque;
    /// A number that memory does not hold by accident, another for each type.
    const MARK: u32;
}

/// Implements [`Held`], having checked what it asks.
macro_rules! held {
    ($held:ty, $opaque:ty, $mark:expr) => {
        const _: () = {
            use core::mem::{align_of, size_of};
            assert!(size_of::<$crate::object::Object<$held>>() <= size_of::<$opaque>());
            assert!(align_of::<$crate::object::Object<$held>>() <= align_of::<$opaque>());
        };

        // SAFETY: the size and the alignment are checked above; it is an array of integers.
        unsafe impl $crate::object::Held for $held {
            type Opaque = $opaque;
            const MARK: u32 = $mark;
        }
    };
}

pub(crate) use held;

/// Fails on a pointer that cannot be one to a `T`.
pub(crate) fn plausible<T>(at: *const T) -> Result<(), tidegate_status> {
    if at.is_null() {
        Err(TIDEGATE_ERROR_NULL)
    } else if !at.is_aligned() {
        Err(TIDEGATE_ERROR_MISALIGNED)
    } else {
        Ok(())
    }
}

/// Fails on what cannot be memory for a `T`.
pub(crate) fn room<T: Held>(at: *const T::Opaque, size: usize) -> Result<(), tidegate_status> {
    plausible(at)?;
    if size == size_of::<T::Opaque>() {
        Ok(())
    } else {
        Err(TIDEGATE_ERROR_SIZE)
    }
}

/// Puts a value where [`room`] found nothing wrong.
///
/// # Safety
///
/// `at` is aligned, valid for writing an `Opaque`, and nobody else uses what is there.
pub(crate) unsafe fn put<T: Held>(at: *mut T::Opaque, value: T) {
    let mark = T::MARK;
    // SAFETY: valid for an `Opaque`, which `Held` says has the size and alignment of the object, and aligned.
    unsafe { at.cast::<Object<T>>().write(Object { mark, value }) }
}

/// The value that was put at `at`.
///
/// # Safety
///
/// If `at` is not null and is aligned, it is valid for reading an `Opaque`: all zero, or one that was [`put`] there, on
/// which no `put` runs at the same time or will as long as `'a` lasts.
pub(crate) unsafe fn get<'a, T: Held>(at: *const T::Opaque) -> Result<&'a T, tidegate_status> {
    plausible(at)?;
    let object = at.cast::<Object<T>>();
    // SAFETY: readable, as promised, and an integer whatever the bytes are; only `put` writes it.
    if unsafe { (&raw const (*object).mark).read() } != T::MARK {
        return Err(TIDEGATE_ERROR_UNINITIALISED);
    }
    // SAFETY: the mark is `put`'s, which put the value of this type beside it. It is shared from then on, and changes
    // only in its atomics.
    Ok(unsafe { &(*object).value })
}
