//! State that a hook must leave as it found it.

/// Puts `errno` back when it goes: the program must see what its own call left there.
pub struct KeepErrno(i32);

impl KeepErrno {
    /// Remembers `errno` as it is now.
    pub fn now() -> Self {
        Self(errno())
    }
}

impl Drop for KeepErrno {
    fn drop(&mut self) {
        set_errno(self.0);
    }
}

/// Returns this thread's `errno`.
pub fn errno() -> i32 {
    // SAFETY: the C library always has a valid `errno` for the calling thread.
    unsafe { *libc::__errno_location() }
}

/// Sets this thread's `errno`.
pub fn set_errno(value: i32) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = value };
}

/// Returns about where the stack stands. It grows downward: a call made from here has a lower address.
#[inline(always)]
pub fn stack_position() -> usize {
    let here = 0u8;
    &raw const here as usize
}
