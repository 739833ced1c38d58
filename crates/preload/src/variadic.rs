//! Hooks of functions with any number of arguments.
//!
//! Rust can call such functions but not yet define them. So each of these is a few instructions: the arguments that came in
//! registers are put beside each other, exactly as a C compiler does for `va_start`, and the twin that takes a `va_list` does the
//! rest. That keeps the library free of a C compiler. Only the calling convention of x86-64 is written down here; elsewhere these
//! functions are not hooked (their bytes are missed, `docs/tracing.md` says so).
#![cfg(target_arch = "x86_64")]

use core::arch::naked_asm;
use core::ffi::{c_char, c_int, c_void};

use libc::FILE;

use crate::next::Next;
use crate::{process, stdio};

/// Defines variadic functions by their twins. The number is how many arguments come before the `...`, and the register is the one in
/// which the twin expects its `va_list`: the first one that those leave free.
macro_rules! variadic {
    ($($(#[$meta:meta])* fn $name:ident($n_named:literal, ...) => $twin:path, $register:literal;)*) => {
        $(
            $(#[$meta])*
            #[doc = concat!("Stands in front of `", stringify!($name), "`.")]
            ///
            /// # Safety
            /// As of the function it stands in front of.
            #[cfg_attr(not(test), unsafe(no_mangle))]
            #[unsafe(naked)]
            pub unsafe extern "C-unwind" fn $name() {
                // The frame, from the stack pointer up: 48 bytes of general registers, 128 of vector registers (together the
                // "register save area"), 24 of va_list, 16 of padding; then the return address, then further arguments.
                naked_asm!(
                    ".cfi_startproc",
                    "sub rsp, 216",
                    ".cfi_adjust_cfa_offset 216",
                    "mov [rsp], rdi",
                    "mov [rsp + 8], rsi",
                    "mov [rsp + 16], rdx",
                    "mov [rsp + 24], rcx",
                    "mov [rsp + 32], r8",
                    "mov [rsp + 40], r9",
                    // al tells whether any vector register was used.
                    "test al, al",
                    "je 2f",
                    "movaps [rsp + 48], xmm0",
                    "movaps [rsp + 64], xmm1",
                    "movaps [rsp + 80], xmm2",
                    "movaps [rsp + 96], xmm3",
                    "movaps [rsp + 112], xmm4",
                    "movaps [rsp + 128], xmm5",
                    "movaps [rsp + 144], xmm6",
                    "movaps [rsp + 160], xmm7",
                    "2:",
                    "mov dword ptr [rsp + 176], {first}",
                    "mov dword ptr [rsp + 180], 48",
                    "lea rax, [rsp + 224]",
                    "mov [rsp + 184], rax",
                    "mov [rsp + 192], rsp",
                    concat!("lea ", $register, ", [rsp + 176]"),
                    "call {twin}",
                    "add rsp, 216",
                    ".cfi_adjust_cfa_offset -216",
                    "ret",
                    ".cfi_endproc",
                    first = const $n_named * 8,
                    twin = sym $twin,
                )
            }
        )*
    };
}

variadic! {
    fn fprintf(2, ...) => fprintf_twin, "rdx";
    fn printf(1, ...) => printf_twin, "rsi";
    fn dprintf(2, ...) => dprintf_twin, "rdx";
    fn __fprintf_chk(3, ...) => fprintf_chk_twin, "rcx";
    fn __printf_chk(2, ...) => printf_chk_twin, "rdx";
    fn __dprintf_chk(3, ...) => dprintf_chk_twin, "rcx";
    fn fscanf(2, ...) => fscanf_twin, "rdx";
    fn __isoc99_fscanf(2, ...) => isoc99_fscanf_twin, "rdx";
    fn __isoc23_fscanf(2, ...) => isoc23_fscanf_twin, "rdx";
}

// Unexported doubles of our own hooks: a direct call to an exported name could end up in another preloaded library's.
macro_rules! twins {
    ($(fn $name:ident($($arg:ident: $ty:ty),*) => $hook:path;)*) => {
        $(
            unsafe extern "C-unwind" fn $name($($arg: $ty),*) -> c_int {
                // SAFETY: the same signature, the same promises.
                unsafe { $hook($($arg),*) }
            }
        )*
    };
}

twins! {
    fn fprintf_twin(stream: *mut FILE, format: *const c_char, arguments: *mut c_void) => stdio::vfprintf;
    fn printf_twin(format: *const c_char, arguments: *mut c_void) => stdio::vprintf;
    fn dprintf_twin(fd: c_int, format: *const c_char, arguments: *mut c_void) => stdio::vdprintf;
    fn fprintf_chk_twin(stream: *mut FILE, flag: c_int, format: *const c_char, arguments: *mut c_void) => stdio::__vfprintf_chk;
    fn printf_chk_twin(flag: c_int, format: *const c_char, arguments: *mut c_void) => stdio::__vprintf_chk;
    fn dprintf_chk_twin(fd: c_int, flag: c_int, format: *const c_char, arguments: *mut c_void) => stdio::__vdprintf_chk;
    fn fscanf_twin(stream: *mut FILE, format: *const c_char, arguments: *mut c_void) => stdio::vfscanf;
    fn isoc99_fscanf_twin(stream: *mut FILE, format: *const c_char, arguments: *mut c_void) => stdio::__isoc99_vfscanf;
    fn isoc23_fscanf_twin(stream: *mut FILE, format: *const c_char, arguments: *mut c_void) => stdio::__isoc23_vfscanf;
}

/// Defines functions that first write everything out and then go on to the real one, with all arguments as they came.
macro_rules! leaving {
    ($(fn $name:ident => $find:ident;)*) => {
        $(
            #[doc = concat!("Stands in front of `", stringify!($name), "`.")]
            ///
            /// # Safety
            /// As of the function it stands in front of.
            #[cfg_attr(not(test), unsafe(no_mangle))]
            #[unsafe(naked)]
            pub unsafe extern "C-unwind" fn $name() {
                naked_asm!(
                    ".cfi_startproc",
                    "push rdi",
                    "push rsi",
                    "push rdx",
                    "push rcx",
                    "push r8",
                    "push r9",
                    "push rax",
                    ".cfi_adjust_cfa_offset 56",
                    "call {find}",
                    "mov r11, rax",
                    "pop rax",
                    "pop r9",
                    "pop r8",
                    "pop rcx",
                    "pop rdx",
                    "pop rsi",
                    "pop rdi",
                    ".cfi_adjust_cfa_offset -56",
                    "jmp r11",
                    ".cfi_endproc",
                    find = sym $find,
                )
            }

            extern "C" fn $find(path: *const c_char) -> *mut c_void {
                #[used]
                #[unsafe(link_section = "iotide_next")]
                static NEXT: Next = {
                    match core::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                        Ok(name) => Next::new(name),
                        Err(_) => unreachable!(),
                    }
                };
                process::before_exec(path, stringify!($name).ends_with('p'));
                NEXT.address()
            }
        )*
    };
}

leaving! {
    fn execl => find_execl;
    fn execlp => find_execlp;
    fn execle => find_execle;
}
