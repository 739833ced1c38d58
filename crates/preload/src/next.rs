//! The function each hook stands in front of.

use core::ffi::{CStr, c_char, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use crate::guard::{KeepErrno, set_errno};

/// The next definition of a name after ours: another preloaded library's, or the real one.
#[repr(C)]
pub struct Next {
    name: *const c_char,
    found: AtomicPtr<c_void>,
}

// SAFETY: `name` points to a literal.
unsafe impl Sync for Next {}

impl Next {
    /// Returns the next definition of `name`, not yet looked for.
    pub const fn new(name: &'static CStr) -> Self {
        Self { name: name.as_ptr(), found: AtomicPtr::new(null_mut()) }
    }

    /// Returns a variable of that name: not the next one but the one everybody uses. A program may hold a copy of a library's
    /// variable (by "copy relocation"), and the library's own is then dead.
    pub fn variable(&self) -> *mut c_void {
        let found = self.found.load(Relaxed);
        if !found.is_null() {
            return found;
        }
        let _errno = KeepErrno::now();
        // SAFETY: `name` is a C string.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, self.name) };
        self.found.store(found, Relaxed);
        if found.is_null() { self.find() } else { found }
    }

    /// Returns the function's address, or null if there is none.
    #[inline(always)]
    pub fn address(&self) -> *mut c_void {
        let found = self.found.load(Relaxed);
        if found.is_null() { self.find() } else { found }
    }

    #[cold]
    fn find(&self) -> *mut c_void {
        let _errno = KeepErrno::now();
        // SAFETY: `name` is a C string.
        let mut found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name) };
        if found.is_null() {
            found = find_in_mpi(self.name);
        }
        self.found.store(found, Relaxed);
        found
    }
}

/// Looks in MPI libraries that came in by `dlopen` with local scope (Python loads extensions that way), where `RTLD_NEXT` does not.
#[cold]
fn find_in_mpi(name: *const c_char) -> *mut c_void {
    // SAFETY: `name` is a C string.
    let is_mpi = unsafe { CStr::from_ptr(name) }.to_bytes();
    let is_mpi = [&b"MPI_"[..], b"PMPI_", b"ompi_"].iter().any(|prefix| is_mpi.starts_with(prefix));
    if !is_mpi {
        return null_mut();
    }
    for library in
        [c"libmpi.so.40", c"libmpi.so.80", c"libmpi.so.12", c"libmpich.so.12", c"libmpi.so.20", c"libmpi.so"]
    {
        // SAFETY: both are C strings; NOLOAD only finds what is loaded already, and the handle is kept for good.
        let found = unsafe {
            let handle = libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            if handle.is_null() { null_mut() } else { libc::dlsym(handle, name) }
        };
        // A handle's search reaches its dependencies but never us: we depend on no MPI.
        if !found.is_null() {
            return found;
        }
    }
    null_mut()
}

/// Finds all functions of the C library at once, so that no hook has to take the loader's lock later.
pub fn find_all() {
    unsafe extern "C" {
        static __start_iotide_next: Next;
        static __stop_iotide_next: Next;
    }
    // SAFETY: the linker puts these symbols at both ends of the section `iotide_next`, which holds nothing but `Next`s.
    let hooks = unsafe {
        let (start, stop) = (&raw const __start_iotide_next, &raw const __stop_iotide_next);
        core::slice::from_raw_parts(start, stop.offset_from(start) as usize)
    };
    for next in hooks {
        next.address();
    }
}

/// Return value of a function that does not exist here.
pub trait Missing {
    /// The value its caller understands as a failure.
    const MISSING: Self;
}
impl Missing for i32 {
    const MISSING: Self = -1;
}
impl Missing for i64 {
    const MISSING: Self = -1;
}
impl Missing for isize {
    const MISSING: Self = -1;
}
impl Missing for usize {
    const MISSING: Self = 0;
}
impl<T> Missing for *mut T {
    const MISSING: Self = null_mut();
}

/// Says that a function does not exist here.
#[cold]
pub fn missing<T: Missing>() -> T {
    set_errno(libc::ENOSYS);
    T::MISSING
}

/// Replaces C functions. `|next|` names the function that would have been called; the body says what to do around it. `call(Op)` is the
/// function as records know it.
///
/// Unexported under `cargo test`, so our own tests are not hooked.
macro_rules! hooks {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty |$next:ident| $body:block)*) => {
        $(
            $(#[$meta])*
            #[doc = concat!("Stands in front of `", stringify!($name), "`.")]
            ///
            /// # Safety
            /// As of the function it stands in front of.
            #[cfg_attr(not(test), unsafe(no_mangle))]
            pub unsafe extern "C-unwind" fn $name($($arg: $ty),*) -> $ret {
                /// Returns the recorded call of this function; evaluated at compile time.
                #[allow(dead_code)]
                const fn call(op: iotide_wire::Op) -> iotide_wire::Call {
                    iotide_wire::Call::of_symbol(stringify!($name), op)
                }
                #[used]
                #[unsafe(link_section = "iotide_next")]
                static NEXT: $crate::next::Next = {
                    const NAME: &str = concat!(stringify!($name), "\0");
                    match core::ffi::CStr::from_bytes_with_nul(NAME.as_bytes()) {
                        Ok(name) => $crate::next::Next::new(name),
                        Err(_) => unreachable!(),
                    }
                };
                let address = NEXT.address();
                if address.is_null() {
                    return $crate::next::missing();
                }
                // SAFETY: the address is that of the C library's function of this name, which has this signature.
                let $next: unsafe extern "C-unwind" fn($($ty),*) -> $ret = unsafe { core::mem::transmute(address) };
                // SAFETY: the caller keeps the promises of the function it meant to call; arguments pass through untouched.
                #[allow(unused_unsafe)]
                unsafe { $body }
            }
        )*
    };
}
pub(crate) use hooks;
