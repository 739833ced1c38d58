//! One pointer that each thread has of its own, read by two instructions.
//!
//! A shared library's `thread_local!` asks the dynamic linker where a thread's variables are (`__tls_get_addr`), at each call that a hook
//! sees: that is half of what it costs to add to a counter. The library is there before the program starts, so its pointer can have a fixed
//! place beside the program's own variables of threads, as those of libc do (the "initial executable" model). Whoever opens the library
//! later takes it from the room that the C library keeps for such cases; it is eight bytes.

use core::ffi::c_void;

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod place {
    use core::arch::{asm, global_asm};
    use core::ffi::c_void;

    global_asm!(
        ".pushsection .tbss.iotide_mine,\"awT\",@nobits",
        ".balign 8",
        ".globl iotide_mine",
        ".hidden iotide_mine",
        ".type iotide_mine, @object",
        ".size iotide_mine, 8",
        "iotide_mine:",
        ".zero 8",
        ".popsection",
    );

    #[inline(always)]
    pub fn get() -> *mut c_void {
        let value;
        // SAFETY: reads eight bytes that every thread has, and that only it writes.
        unsafe {
            asm!(
                "mov {value}, qword ptr [rip + iotide_mine@GOTTPOFF]",
                "mov {value}, qword ptr fs:[{value}]",
                value = out(reg) value,
                options(nostack, preserves_flags, readonly),
            );
        }
        value
    }

    pub fn set(value: *mut c_void) {
        // SAFETY: as above.
        unsafe {
            asm!(
                "mov {place}, qword ptr [rip + iotide_mine@GOTTPOFF]",
                "mov qword ptr fs:[{place}], {value}",
                place = out(reg) _,
                value = in(reg) value,
                options(nostack, preserves_flags),
            );
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod place {
    use core::cell::Cell;
    use core::ffi::c_void;

    std::thread_local! {
        // No destructor: registering one allocates.
        static MINE: Cell<*mut c_void> = const { Cell::new(core::ptr::null_mut()) };
    }

    #[inline(always)]
    pub fn get() -> *mut c_void {
        MINE.with(Cell::get)
    }

    pub fn set(value: *mut c_void) {
        MINE.with(|mine| mine.set(value));
    }
}

/// The calling thread's pointer: null until it is set.
#[inline(always)]
pub fn get<T>() -> *mut T {
    place::get().cast()
}

/// Sets the calling thread's pointer. Nothing happens to it when the thread ends.
pub fn set<T>(value: *mut T) {
    place::set(value.cast::<c_void>());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_its_own() {
        assert!(get::<u8>().is_null());
        let mut here = 1_u8;
        set(&raw mut here);
        let others: Vec<_> = (0..8)
            .map(|n| {
                std::thread::spawn(move || {
                    assert!(get::<u8>().is_null());
                    let mut there = n;
                    set(&raw mut there);
                    std::thread::yield_now();
                    get::<u8>() == &raw mut there
                })
            })
            .collect();
        assert!(others.into_iter().all(|thread| thread.join().unwrap()));
        assert_eq!(get::<u8>(), &raw mut here);
        set::<u8>(core::ptr::null_mut());
    }
}
