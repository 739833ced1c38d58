//! `vfork`: a child that borrows its parent's memory until it execs or exits.
//!
//! Whatever such a child changes here, it changes in its parent: a buffer it writes out is gone for the parent, and a descriptor it closes is
//! still open there. So a child must be known cheaply, at every `open` and `close`. While a `vfork` is under way a counter is not zero, and
//! only then the system is asked who we are.
//!
//! A child that was made by the raw system call is noticed where buffers are written out, not where descriptors are forgotten.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// How many `vfork`s are under way. Where the function cannot be hooked, the answer is always "perhaps one".
static UNDER_WAY: AtomicU32 = AtomicU32::new(cfg!(not(target_arch = "x86_64")) as u32);

/// Whether this process borrows its parent's memory. Costs a load where no `vfork` is under way.
#[inline(always)]
pub fn is_child() -> bool {
    UNDER_WAY.load(Relaxed) != 0 && crate::lifecycle::is_in_vfork_child()
}

/// In a forked child: the threads that were at it are not here.
pub fn forget_parent() {
    UNDER_WAY.store(cfg!(not(target_arch = "x86_64")) as u32, Relaxed);
}

#[cfg(target_arch = "x86_64")]
mod hook {
    use core::arch::naked_asm;
    use core::ffi::{CStr, c_int, c_void};
    use core::ptr::null_mut;

    use super::UNDER_WAY;
    use crate::guard::set_errno;
    use crate::next::Next;
    use core::sync::atomic::{AtomicPtr, AtomicU8, Ordering::Relaxed};

    macro_rules! vfork {
        ($($name:ident)*) => {
            $(
                #[doc = concat!("Stands in front of `", stringify!($name), "`.")]
                ///
                /// # Safety
                /// As of the function it stands in front of.
                #[cfg_attr(not(test), unsafe(no_mangle))]
                #[unsafe(naked)]
                pub unsafe extern "C" fn $name() -> c_int {
                    // It returns twice, and what the child pushes overwrites the return address: as in the C library, that is kept in
                    // a register, which the kernel gives back to each of the two.
                    naked_asm!(
                        ".cfi_startproc",
                        "sub rsp, 8",
                        ".cfi_adjust_cfa_offset 8",
                        "call {begins}",
                        "add rsp, 8",
                        ".cfi_adjust_cfa_offset -8",
                        "test rax, rax",
                        "jnz 3f",
                        "pop rdi",
                        "mov eax, {number}",
                        "syscall",
                        "push rdi",
                        "test rax, rax",
                        "jz 2f",
                        "mov rdi, rax",
                        "sub rsp, 8",
                        ".cfi_adjust_cfa_offset 8",
                        "call {ended}",
                        "add rsp, 8",
                        ".cfi_adjust_cfa_offset -8",
                        "2:",
                        "ret",
                        "3:",
                        "jmp rax",
                        ".cfi_endproc",
                        begins = sym begins,
                        ended = sym ended,
                        number = const libc::SYS_vfork,
                    )
                }
            )*
        };
    }
    vfork! { vfork __vfork }

    /// Returns the function to call instead, if another library has its own (a sanitizer does), else null.
    extern "C" fn begins() -> *mut c_void {
        const UNKNOWN: u8 = 0;
        const SYSTEM: u8 = 1;
        const OTHER: u8 = 2;
        static NEXT: Next = Next::new(c"vfork");
        static WHOSE: AtomicU8 = AtomicU8::new(UNKNOWN);
        static ADDRESS: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
        if WHOSE.load(Relaxed) == UNKNOWN {
            let address = NEXT.address();
            ADDRESS.store(address, Relaxed);
            WHOSE.store(
                if address.is_null() || is_of_the_c_library(address) { SYSTEM } else { OTHER },
                Relaxed,
            );
        }
        if WHOSE.load(Relaxed) == OTHER {
            return ADDRESS.load(Relaxed);
        }
        UNDER_WAY.fetch_add(1, Relaxed);
        null_mut()
    }

    fn is_of_the_c_library(address: *mut c_void) -> bool {
        // SAFETY: all zeroes is a valid `Dl_info`.
        let mut info: libc::Dl_info = unsafe { core::mem::zeroed() };
        // SAFETY: any address may be asked for, and the answer is written to our own variable.
        let found = unsafe { libc::dladdr(address, &raw mut info) } != 0 && !info.dli_fname.is_null();
        // SAFETY: a C string of the loader's, which lives as long as the library is loaded.
        let name = if found { unsafe { CStr::from_ptr(info.dli_fname) }.to_bytes() } else { b"" };
        let name = name.rsplit(|&byte| byte == b'/').next().unwrap_or(b"");
        [&b"libc.so"[..], b"libc-", b"libpthread", b"ld-musl"].iter().any(|start| name.starts_with(start))
    }

    /// In the parent: the child has become another program, or is gone.
    extern "C" fn ended(result: isize) -> c_int {
        UNDER_WAY.fetch_sub(1, Relaxed);
        if result < 0 {
            set_errno(-result as c_int);
            return -1;
        }
        result as c_int
    }
}
