//! libiotide.so: runs inside other people's programs; cheap, silent, unable to harm.
//!
//! Preloaded (`LD_PRELOAD`), it stands in front of the functions listed in [`posix`], [`aio`], [`stdio`], [`unlocked`], [`variadic`], [`process`] and
//! [`mpi`], notes what each call did, and passes everything on untouched.
//!
//! **Promises**, in the order a reviewer should check them:
//! - A hook allocates nothing, takes no lock of the program's, prints nothing, and leaves `errno` as the call left it.
//! - Our own I/O goes by raw system calls ([`sys`]), to descriptors of our own that the program cannot close by accident.
//! - Whatever fails (disk full, directory gone, no memory) stops the tracing, never the program, and is counted where it can be.
//! - Calls before `main`, after `exit`, in signal handlers, in threads that are cancelled, in children of `fork` and `vfork`, and up to `exec`
//!   and `_exit` do what they would have done without us.
//!
//! With `IOTIDE_LIVE`, calls are also, or only, counted in a file that others read meanwhile: see [`page`].
//! With `IOTIDE_GATE`, and then alone, a call that moves data may be held until an arbiter lets it through: see [`gate`].
//!
//! Start reading at [`observe::data`]: one hook's life. Then [`buffer`] (where records wait), [`sink`] (where they go), [`lifecycle`].
#![cfg_attr(test, allow(dead_code))]
#![allow(non_snake_case)] // C names are what they are

#[cfg(not(all(target_os = "linux", target_endian = "little", target_pointer_width = "64")))]
compile_error!("the tracer knows 64-bit little-endian Linux only");

pub mod aio;
pub mod libaio;
pub mod mpi;
pub mod posix;
pub mod process;
pub mod stdio;
pub mod unlocked;
pub mod user;
pub mod variadic;

mod buffer;
mod clock;
mod config;
mod connection;
mod elf;
mod exec;
mod files;
mod gate;
mod guard;
mod lifecycle;
mod lock;
mod losses;
mod mine;
mod mounts;
mod mpi_abi;
mod next;
mod observe;
mod opening;
mod page;
mod requests;
mod sink;
mod stream;
mod sys;
mod totals;
mod vfork;
