//! Hooks of MPI-IO, for C and Fortran, for whatever MPI the program was built with. Those of the rest of MPI are in [`time`].
//!
//! Every function is replaced under both of its names. Open MPI's Fortran functions call `PMPI_X`, MPICH's call `MPI_X`; another tool
//! that stands between the program and us calls `PMPI_X` as well. Whichever comes first is recorded, and what it calls in turn is not.
//!
//! Bytes are what the status says was moved, in 64 bits. A program that wants no status gets none, but we do.

use core::ffi::{CStr, c_char, c_int};
use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use iotide_wire::page::MpiFunction;
use iotide_wire::{Call, Flags, Layer, LossKind, NO_FILE, NO_POSITION, Op, Record};

use crate::buffer::{self, InMpi, SCRATCH};
use crate::guard::KeepErrno;
use crate::mpi_abi::{self, Abi};
use crate::requests::{self, Key, Request};
use crate::{clock, files, lifecycle, losses, page, sink};

/// `MPI_ERR_OTHER` of MPICH, and an error of some kind everywhere: a function that no MPI library here defines.
const MISSING: c_int = 15;

/// Replaces MPI functions under both names. All arguments are machine words that pass through as they came.
macro_rules! mpi {
    ($($name:ident $pname:ident ($($arg:ident),*) |$next:ident| $body:expr;)*) => {
        $(
            mpi!(@one $name ($($arg),*) |$next| $body);
            mpi!(@one $pname ($($arg),*) |$next| $body);
        )*
    };
    (@one $name:ident ($($arg:ident),*) |$next:ident| $body:expr) => {
        #[doc = concat!("Stands in front of `", stringify!($name), "`.")]
        ///
        /// # Safety
        /// As of the function it stands in front of.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C-unwind" fn $name($($arg: usize),*) -> c_int {
            /// Returns the recorded call of this function, and where it is counted; evaluated at compile time.
            #[allow(dead_code)]
            const fn call(op: Op) -> Named {
                Named { call: Call::of_symbol(stringify!($name), op), function: function() }
            }
            #[allow(dead_code)]
            const fn function() -> MpiFunction {
                MpiFunction::of_symbol(stringify!($name))
            }
            // Not among those found at the start: MPI may be loaded later, or never.
            static NEXT: crate::next::Next = {
                match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => crate::next::Next::new(name),
                    Err(_) => unreachable!(),
                }
            };
            let address = NEXT.address();
            if address.is_null() {
                return MISSING;
            }
            // SAFETY: MPI's function of this name takes that many words, or narrower numbers in their place, and returns an int.
            let $next: unsafe extern "C-unwind" fn($(mpi!(@word $arg)),*) -> c_int = unsafe { core::mem::transmute(address) };
            // SAFETY: the caller keeps the promises of the function it meant to call.
            #[allow(unused_unsafe)]
            unsafe { $body }
        }
    };
    (@word $arg:ident) => { usize };
}

mpi! {
    MPI_File_read PMPI_File_read (file, memory, count, datatype, status) |next| blocking(const { call(Op::Read) }, INDEPENDENT, file, None, status, |status| next(file, memory, count, datatype, status));
    MPI_File_read_all PMPI_File_read_all (file, memory, count, datatype, status) |next| blocking(const { call(Op::Read) }, COLLECTIVE, file, None, status, |status| next(file, memory, count, datatype, status));
    MPI_File_read_shared PMPI_File_read_shared (file, memory, count, datatype, status) |next| blocking(const { call(Op::Read) }, INDEPENDENT, file, None, status, |status| next(file, memory, count, datatype, status));
    MPI_File_read_ordered PMPI_File_read_ordered (file, memory, count, datatype, status) |next| blocking(const { call(Op::Read) }, COLLECTIVE, file, None, status, |status| next(file, memory, count, datatype, status));
    MPI_File_read_at PMPI_File_read_at (file, at, memory, count, datatype, status) |next| blocking(const { call(Op::Read) }, INDEPENDENT, file, Some(at), status, |status| next(file, at, memory, count, datatype, status));
    MPI_File_read_at_all PMPI_File_read_at_all (file, at, memory, count, datatype, status) |next| blocking(const { call(Op::Read) }, COLLECTIVE, file, Some(at), status, |status| next(file, at, memory, count, datatype, status));
    MPI_File_iread PMPI_File_iread (file, memory, count, datatype, request) |next| beginning(const { call(Op::Read) }, INDEPENDENT, file, None, Count::Int(count), datatype, request, || next(file, memory, count, datatype, request));
    MPI_File_iread_all PMPI_File_iread_all (file, memory, count, datatype, request) |next| beginning(const { call(Op::Read) }, COLLECTIVE, file, None, Count::Int(count), datatype, request, || next(file, memory, count, datatype, request));
    MPI_File_iread_shared PMPI_File_iread_shared (file, memory, count, datatype, request) |next| beginning(const { call(Op::Read) }, INDEPENDENT, file, None, Count::Int(count), datatype, request, || next(file, memory, count, datatype, request));
    MPI_File_iread_at PMPI_File_iread_at (file, at, memory, count, datatype, request) |next| beginning(const { call(Op::Read) }, INDEPENDENT, file, Some(at), Count::Int(count), datatype, request, || next(file, at, memory, count, datatype, request));
    MPI_File_iread_at_all PMPI_File_iread_at_all (file, at, memory, count, datatype, request) |next| beginning(const { call(Op::Read) }, COLLECTIVE, file, Some(at), Count::Int(count), datatype, request, || next(file, at, memory, count, datatype, request));
    MPI_File_read_all_begin PMPI_File_read_all_begin (file, memory, count, datatype) |next| splitting(const { call(Op::Read) }, file, None, Count::Int(count), datatype, || next(file, memory, count, datatype));
    MPI_File_read_all_end PMPI_File_read_all_end (file, memory, status) |next| joining(const { function() }, file, status, |status| next(file, memory, status));
    MPI_File_read_ordered_begin PMPI_File_read_ordered_begin (file, memory, count, datatype) |next| splitting(const { call(Op::Read) }, file, None, Count::Int(count), datatype, || next(file, memory, count, datatype));
    MPI_File_read_ordered_end PMPI_File_read_ordered_end (file, memory, status) |next| joining(const { function() }, file, status, |status| next(file, memory, status));
    MPI_File_read_at_all_begin PMPI_File_read_at_all_begin (file, at, memory, count, datatype) |next| splitting(const { call(Op::Read) }, file, Some(at), Count::Int(count), datatype, || next(file, at, memory, count, datatype));
    MPI_File_read_at_all_end PMPI_File_read_at_all_end (file, memory, status) |next| joining(const { function() }, file, status, |status| next(file, memory, status));
    MPI_File_write PMPI_File_write (file, memory, count, datatype, status) |next| blocking(const { call(Op::Write) }, INDEPENDENT, file, None, status, |status| next(file, memory, count, datatype, status));
    MPI_File_write_all PMPI_File_write_all (file, memory, count, datatype, status) |next| blocking(const { call(Op::Write) }, COLLECTIVE, file, None, status, |status| next(file, memory, count, datatype, status));
    MPI_File_write_shared PMPI_File_write_shared (file, memory, count, datatype, status) |next| blocking(const { call(Op::Write) }, INDEPENDENT, file, None, status, |status| next(file, memory, count, datatype, status));
    MPI_File_write_ordered PMPI_File_write_ordered (file, memory, count, datatype, status) |next| blocking(const { call(Op::Write) }, COLLECTIVE, file, None, status, |status| next(file, memory, count, datatype, status));
    MPI_File_write_at PMPI_File_write_at (file, at, memory, count, datatype, status) |next| blocking(const { call(Op::Write) }, INDEPENDENT, file, Some(at), status, |status| next(file, at, memory, count, datatype, status));
    MPI_File_write_at_all PMPI_File_write_at_all (file, at, memory, count, datatype, status) |next| blocking(const { call(Op::Write) }, COLLECTIVE, file, Some(at), status, |status| next(file, at, memory, count, datatype, status));
    MPI_File_iwrite PMPI_File_iwrite (file, memory, count, datatype, request) |next| beginning(const { call(Op::Write) }, INDEPENDENT, file, None, Count::Int(count), datatype, request, || next(file, memory, count, datatype, request));
    MPI_File_iwrite_all PMPI_File_iwrite_all (file, memory, count, datatype, request) |next| beginning(const { call(Op::Write) }, COLLECTIVE, file, None, Count::Int(count), datatype, request, || next(file, memory, count, datatype, request));
    MPI_File_iwrite_shared PMPI_File_iwrite_shared (file, memory, count, datatype, request) |next| beginning(const { call(Op::Write) }, INDEPENDENT, file, None, Count::Int(count), datatype, request, || next(file, memory, count, datatype, request));
    MPI_File_iwrite_at PMPI_File_iwrite_at (file, at, memory, count, datatype, request) |next| beginning(const { call(Op::Write) }, INDEPENDENT, file, Some(at), Count::Int(count), datatype, request, || next(file, at, memory, count, datatype, request));
    MPI_File_iwrite_at_all PMPI_File_iwrite_at_all (file, at, memory, count, datatype, request) |next| beginning(const { call(Op::Write) }, COLLECTIVE, file, Some(at), Count::Int(count), datatype, request, || next(file, at, memory, count, datatype, request));
    MPI_File_write_all_begin PMPI_File_write_all_begin (file, memory, count, datatype) |next| splitting(const { call(Op::Write) }, file, None, Count::Int(count), datatype, || next(file, memory, count, datatype));
    MPI_File_write_all_end PMPI_File_write_all_end (file, memory, status) |next| joining(const { function() }, file, status, |status| next(file, memory, status));
    MPI_File_write_ordered_begin PMPI_File_write_ordered_begin (file, memory, count, datatype) |next| splitting(const { call(Op::Write) }, file, None, Count::Int(count), datatype, || next(file, memory, count, datatype));
    MPI_File_write_ordered_end PMPI_File_write_ordered_end (file, memory, status) |next| joining(const { function() }, file, status, |status| next(file, memory, status));
    MPI_File_write_at_all_begin PMPI_File_write_at_all_begin (file, at, memory, count, datatype) |next| splitting(const { call(Op::Write) }, file, Some(at), Count::Int(count), datatype, || next(file, at, memory, count, datatype));
    MPI_File_write_at_all_end PMPI_File_write_at_all_end (file, memory, status) |next| joining(const { function() }, file, status, |status| next(file, memory, status));
    MPI_File_read_c PMPI_File_read_c (file, memory, count, datatype, status) |next| blocking(const { call(Op::Read) }, INDEPENDENT, file, None, status, |status| next(file, memory, count, datatype, status));
    MPI_File_read_all_c PMPI_File_read_all_c (file, memory, count, datatype, status) |next| blocking(const { call(Op::Read) }, COLLECTIVE, file, None, status, |status| next(file, memory, count, datatype, status));
    MPI_File_read_shared_c PMPI_File_read_shared_c (file, memory, count, datatype, status) |next| blocking(const { call(Op::Read) }, INDEPENDENT, file, None, status, |status| next(file, memory, count, datatype, status));
    MPI_File_read_ordered_c PMPI_File_read_ordered_c (file, memory, count, datatype, status) |next| blocking(const { call(Op::Read) }, COLLECTIVE, file, None, status, |status| next(file, memory, count, datatype, status));
    MPI_File_read_at_c PMPI_File_read_at_c (file, at, memory, count, datatype, status) |next| blocking(const { call(Op::Read) }, INDEPENDENT, file, Some(at), status, |status| next(file, at, memory, count, datatype, status));
    MPI_File_read_at_all_c PMPI_File_read_at_all_c (file, at, memory, count, datatype, status) |next| blocking(const { call(Op::Read) }, COLLECTIVE, file, Some(at), status, |status| next(file, at, memory, count, datatype, status));
    MPI_File_iread_c PMPI_File_iread_c (file, memory, count, datatype, request) |next| beginning(const { call(Op::Read) }, INDEPENDENT, file, None, Count::Wide(count), datatype, request, || next(file, memory, count, datatype, request));
    MPI_File_iread_all_c PMPI_File_iread_all_c (file, memory, count, datatype, request) |next| beginning(const { call(Op::Read) }, COLLECTIVE, file, None, Count::Wide(count), datatype, request, || next(file, memory, count, datatype, request));
    MPI_File_iread_shared_c PMPI_File_iread_shared_c (file, memory, count, datatype, request) |next| beginning(const { call(Op::Read) }, INDEPENDENT, file, None, Count::Wide(count), datatype, request, || next(file, memory, count, datatype, request));
    MPI_File_iread_at_c PMPI_File_iread_at_c (file, at, memory, count, datatype, request) |next| beginning(const { call(Op::Read) }, INDEPENDENT, file, Some(at), Count::Wide(count), datatype, request, || next(file, at, memory, count, datatype, request));
    MPI_File_iread_at_all_c PMPI_File_iread_at_all_c (file, at, memory, count, datatype, request) |next| beginning(const { call(Op::Read) }, COLLECTIVE, file, Some(at), Count::Wide(count), datatype, request, || next(file, at, memory, count, datatype, request));
    MPI_File_read_all_begin_c PMPI_File_read_all_begin_c (file, memory, count, datatype) |next| splitting(const { call(Op::Read) }, file, None, Count::Wide(count), datatype, || next(file, memory, count, datatype));
    MPI_File_read_ordered_begin_c PMPI_File_read_ordered_begin_c (file, memory, count, datatype) |next| splitting(const { call(Op::Read) }, file, None, Count::Wide(count), datatype, || next(file, memory, count, datatype));
    MPI_File_read_at_all_begin_c PMPI_File_read_at_all_begin_c (file, at, memory, count, datatype) |next| splitting(const { call(Op::Read) }, file, Some(at), Count::Wide(count), datatype, || next(file, at, memory, count, datatype));
    MPI_File_write_c PMPI_File_write_c (file, memory, count, datatype, status) |next| blocking(const { call(Op::Write) }, INDEPENDENT, file, None, status, |status| next(file, memory, count, datatype, status));
    MPI_File_write_all_c PMPI_File_write_all_c (file, memory, count, datatype, status) |next| blocking(const { call(Op::Write) }, COLLECTIVE, file, None, status, |status| next(file, memory, count, datatype, status));
    MPI_File_write_shared_c PMPI_File_write_shared_c (file, memory, count, datatype, status) |next| blocking(const { call(Op::Write) }, INDEPENDENT, file, None, status, |status| next(file, memory, count, datatype, status));
    MPI_File_write_ordered_c PMPI_File_write_ordered_c (file, memory, count, datatype, status) |next| blocking(const { call(Op::Write) }, COLLECTIVE, file, None, status, |status| next(file, memory, count, datatype, status));
    MPI_File_write_at_c PMPI_File_write_at_c (file, at, memory, count, datatype, status) |next| blocking(const { call(Op::Write) }, INDEPENDENT, file, Some(at), status, |status| next(file, at, memory, count, datatype, status));
    MPI_File_write_at_all_c PMPI_File_write_at_all_c (file, at, memory, count, datatype, status) |next| blocking(const { call(Op::Write) }, COLLECTIVE, file, Some(at), status, |status| next(file, at, memory, count, datatype, status));
    MPI_File_iwrite_c PMPI_File_iwrite_c (file, memory, count, datatype, request) |next| beginning(const { call(Op::Write) }, INDEPENDENT, file, None, Count::Wide(count), datatype, request, || next(file, memory, count, datatype, request));
    MPI_File_iwrite_all_c PMPI_File_iwrite_all_c (file, memory, count, datatype, request) |next| beginning(const { call(Op::Write) }, COLLECTIVE, file, None, Count::Wide(count), datatype, request, || next(file, memory, count, datatype, request));
    MPI_File_iwrite_shared_c PMPI_File_iwrite_shared_c (file, memory, count, datatype, request) |next| beginning(const { call(Op::Write) }, INDEPENDENT, file, None, Count::Wide(count), datatype, request, || next(file, memory, count, datatype, request));
    MPI_File_iwrite_at_c PMPI_File_iwrite_at_c (file, at, memory, count, datatype, request) |next| beginning(const { call(Op::Write) }, INDEPENDENT, file, Some(at), Count::Wide(count), datatype, request, || next(file, at, memory, count, datatype, request));
    MPI_File_iwrite_at_all_c PMPI_File_iwrite_at_all_c (file, at, memory, count, datatype, request) |next| beginning(const { call(Op::Write) }, COLLECTIVE, file, Some(at), Count::Wide(count), datatype, request, || next(file, at, memory, count, datatype, request));
    MPI_File_write_all_begin_c PMPI_File_write_all_begin_c (file, memory, count, datatype) |next| splitting(const { call(Op::Write) }, file, None, Count::Wide(count), datatype, || next(file, memory, count, datatype));
    MPI_File_write_ordered_begin_c PMPI_File_write_ordered_begin_c (file, memory, count, datatype) |next| splitting(const { call(Op::Write) }, file, None, Count::Wide(count), datatype, || next(file, memory, count, datatype));
    MPI_File_write_at_all_begin_c PMPI_File_write_at_all_begin_c (file, at, memory, count, datatype) |next| splitting(const { call(Op::Write) }, file, Some(at), Count::Wide(count), datatype, || next(file, at, memory, count, datatype));

    MPI_File_open PMPI_File_open (comm, path, mode, info, file) |next| opening(const { call(Op::Open) }, path, file, || next(comm, path, mode, info, file));
    MPI_File_close PMPI_File_close (file) |next| closing(const { call(Op::Close) }, file, || next(file));
    MPI_File_sync PMPI_File_sync (file) |next| control(const { call(Op::Sync) }, COLLECTIVE, file, None, || next(file));
    MPI_File_set_view PMPI_File_set_view (file, at, element, filetype, representation, info) |next| {
        control(const { call(Op::View) }, COLLECTIVE, file, Some(at), || next(file, at, element, filetype, representation, info))
    };
    MPI_File_seek PMPI_File_seek (file, offset, whence) |next| control(const { call(Op::Seek) }, INDEPENDENT, file, (whence as c_int == SEEK_SET).then_some(offset), || next(file, offset, whence));
    MPI_File_seek_shared PMPI_File_seek_shared (file, offset, whence) |next| control(const { call(Op::Seek) }, COLLECTIVE, file, None, || next(file, offset, whence));
    MPI_File_set_size PMPI_File_set_size (file, size) |next| control(const { call(Op::Resize) }, COLLECTIVE, file, None, || next(file, size));
    MPI_File_preallocate PMPI_File_preallocate (file, size) |next| control(const { call(Op::Resize) }, COLLECTIVE, file, None, || next(file, size));
    MPI_File_delete PMPI_File_delete (path, info) |next| deleting(const { call(Op::Unlink) }, path, || next(path, info));

    MPI_Wait PMPI_Wait (request, status) |next| completing(const { function() }, 1, request, status, WAITS, |status| next(request, status), || Done::All);
    MPI_Waitall PMPI_Waitall (n, requests, statuses) |next| completing(const { function() }, n, requests, statuses, WAITS, |statuses| next(n, requests, statuses), || Done::All);
    MPI_Waitany PMPI_Waitany (n, requests, index, status) |next| completing(const { function() }, n, requests, status, WAITS, |status| next(n, requests, index, status), || Done::One(int(index)));
    MPI_Waitsome PMPI_Waitsome (n, requests, n_done, indices, statuses) |next| {
        completing(const { function() }, n, requests, statuses, WAITS, |statuses| next(n, requests, n_done, indices, statuses), || Done::Some(int(n_done), indices))
    };
    MPI_Test PMPI_Test (request, flag, status) |next| completing(const { function() }, 1, request, status, LOOKS, |status| next(request, flag, status), || Done::all_if(int(flag)));
    MPI_Testall PMPI_Testall (n, requests, flag, statuses) |next| completing(const { function() }, n, requests, statuses, LOOKS, |statuses| next(n, requests, flag, statuses), || Done::all_if(int(flag)));
    MPI_Testany PMPI_Testany (n, requests, index, flag, status) |next| {
        completing(const { function() }, n, requests, status, LOOKS, |status| next(n, requests, index, flag, status), || if int(flag) != 0 { Done::One(int(index)) } else { Done::Nothing })
    };
    MPI_Testsome PMPI_Testsome (n, requests, n_done, indices, statuses) |next| {
        completing(const { function() }, n, requests, statuses, LOOKS, |statuses| next(n, requests, n_done, indices, statuses), || Done::Some(int(n_done), indices))
    };
    MPI_Request_free PMPI_Request_free (request) |next| freeing(const { function() }, request, || next(request));

    MPI_Init PMPI_Init (n_arguments, arguments) |next| starting(const { function() }, || next(n_arguments, arguments));
    MPI_Init_thread PMPI_Init_thread (n_arguments, arguments, required, provided) |next| starting(const { function() }, || next(n_arguments, arguments, required, provided));
    MPI_Finalize PMPI_Finalize () |next| hushed(const { function() }, || next());
}

mod time; // after the macro, which it uses

/// Recorded call of a function, and where it is counted.
#[derive(Clone, Copy)]
struct Named {
    call: Call,
    function: MpiFunction,
}

/// `MPI_SEEK_SET` of Open MPI and of MPICH.
const SEEK_SET: c_int = 600;

const INDEPENDENT: u8 = 0;
const COLLECTIVE: u8 = Flags::COLLECTIVE;

/// How many elements a call moves: an int, whose register may hold anything in its upper half, or a whole word (`_c`).
enum Count {
    Int(usize),
    Wide(usize),
}

impl Count {
    fn bytes(self, abi: Abi, datatype: usize) -> u64 {
        let count = match self {
            Count::Int(count) => u64::try_from(count as i32).unwrap_or(0),
            Count::Wide(count) => u64::try_from(count as i64).unwrap_or(0),
        };
        // A datatype that goes with nothing may be none, and MPI would not let us ask.
        if count == 0 { 0 } else { count.saturating_mul(abi.type_size(datatype).unwrap_or(0)) }
    }
}

/// Enters a call from the program, unless it comes from within MPI or nothing is traced.
#[inline(always)]
fn enter() -> Option<(InMpi, Abi)> {
    if !lifecycle::is_tracing() {
        return None;
    }
    let abi = Abi::of_this_process()?;
    Some((InMpi::enter(false)?, abi))
}

fn record(
    call: Call,
    how: u8,
    file: usize,
    at: Option<usize>,
    start: u64,
    end: u64,
    outcome: Result<Option<u64>, c_int>,
) -> Record {
    let mut flags = Flags::of(Layer::MpiIo).with(how);
    let bytes = match outcome {
        Ok(Some(bytes)) => bytes,
        Ok(None) => {
            flags = flags.with(Flags::ASKED);
            0
        }
        Err(error) => {
            flags = flags.with(Flags::FAILED);
            error as u64
        }
    };
    let position = at.map_or(NO_POSITION, |at| at as u64);
    Record {
        start,
        duration: end.wrapping_sub(start),
        bytes,
        position,
        file: handles::file(file as u64),
        calls: 1,
        call,
        flags,
    }
}

/// Memory for a status of ours.
type Status = [u64; 8];

fn blocking(
    name: Named,
    how: u8,
    file: usize,
    at: Option<usize>,
    status: usize,
    call: impl FnOnce(usize) -> c_int,
) -> c_int {
    let Some((inside, abi)) = enter() else { return call(status) };
    let mut own: Status = [0; 8];
    let status = if abi.ignores_status(status) { &raw mut own as usize } else { status };
    let start = clock::now();
    let result = call(status);
    let end = clock::now();
    inside.leave();
    let outcome = if result == 0 { Ok(abi.bytes(status)) } else { Err(result) };
    inside.count(name.function, outcome.unwrap_or(None).unwrap_or(0), end.wrapping_sub(start));
    buffer::push(record(name.call, how, file, at, start, end, outcome));
    result
}

fn control(name: Named, how: u8, file: usize, at: Option<usize>, call: impl FnOnce() -> c_int) -> c_int {
    let Some((inside, _)) = enter() else { return call() };
    let start = clock::now();
    let result = call();
    let end = clock::now();
    inside.leave();
    let outcome = if result == 0 { Ok(Some(0)) } else { Err(result) };
    inside.count(name.function, 0, end.wrapping_sub(start));
    buffer::push(record(name.call, how, file, at, start, end, outcome));
    result
}

#[allow(clippy::too_many_arguments)] // as many as the call has that matter
fn beginning(
    name: Named,
    how: u8,
    file: usize,
    at: Option<usize>,
    count: Count,
    datatype: usize,
    request: usize,
    call: impl FnOnce() -> c_int,
) -> c_int {
    let Some((inside, abi)) = enter() else { return call() };
    let start = clock::now();
    let result = call();
    let ticks = clock::now().wrapping_sub(start);
    inside.leave();
    let mut asked = 0;
    if result == 0 {
        asked = count.bytes(abi, datatype);
        // SAFETY: the call has put a request there.
        let key = Key::Mpi(unsafe { abi.request(request, 0) });
        requests::begin(key, request_of(name.call, how, file, at, start, asked));
    }
    inside.count(name.function, asked, ticks);
    inside.count_begun(name.call.op(), handles::file(file as u64), ticks);
    result
}

fn request_of(call: Call, how: u8, file: usize, at: Option<usize>, start: u64, asked: u64) -> Request {
    Request {
        call,
        flags: Flags::of(Layer::MpiIo).with(how),
        file: handles::file(file as u64),
        start,
        asked,
        position: at.map_or(NO_POSITION, |at| at as u64),
    }
}

fn splitting(
    name: Named,
    file: usize,
    at: Option<usize>,
    count: Count,
    datatype: usize,
    call: impl FnOnce() -> c_int,
) -> c_int {
    let Some((inside, abi)) = enter() else { return call() };
    let start = clock::now();
    let result = call();
    let ticks = clock::now().wrapping_sub(start);
    inside.leave();
    let mut asked = 0;
    if result == 0 {
        asked = count.bytes(abi, datatype);
        let request = request_of(name.call, COLLECTIVE, file, at, start, asked);
        requests::begin(Key::Split(file as u64), request);
    }
    inside.count(name.function, asked, ticks);
    inside.count_begun(name.call.op(), handles::file(file as u64), ticks);
    result
}

fn joining(function: MpiFunction, file: usize, status: usize, call: impl FnOnce(usize) -> c_int) -> c_int {
    let Some((inside, abi)) = enter() else { return call(status) };
    let key = Key::Split(file as u64);
    let mut own: Status = [0; 8];
    let status = if abi.ignores_status(status) { &raw mut own as usize } else { status };
    let start = clock::now();
    requests::wait_begins(key, start);
    let result = call(status);
    let ticks = clock::now().wrapping_sub(start);
    inside.leave();
    inside.count(function, 0, ticks);
    let op = if function.name().starts_with("MPI_File_read") { Op::Read } else { Op::Write };
    inside.count_begun(op, handles::file(file as u64), ticks);
    if result != 0 {
        requests::take(key);
    } else if let Some(ended) = requests::complete(key, abi.bytes(status)) {
        ended.push();
    }
    result
}

/// Requests that a completion call has completed.
enum Done {
    Nothing,
    All,
    /// The request of this index, with the one status.
    One(c_int),
    /// So many requests; their indices stand in an array at this address, in the order of their statuses.
    Some(c_int, usize),
}

impl Done {
    fn all_if(flag: c_int) -> Self {
        if flag != 0 { Done::All } else { Done::Nothing }
    }
}

/// A call that waits, so that time may be lost in it, or one that only looks.
const WAITS: bool = true;
const LOOKS: bool = false;

/// Reads an int of the program's.
fn int(at: usize) -> c_int {
    // SAFETY: used after a call that has just written an int there.
    unsafe { *(at as *const c_int) }
}

#[allow(clippy::too_many_arguments)] // as many as the call has that matter
fn completing(
    function: MpiFunction,
    n: usize,
    requests: usize,
    statuses: usize,
    waits: bool,
    call: impl FnOnce(usize) -> c_int,
    done: impl FnOnce() -> Done,
) -> c_int {
    // Most programs wait for messages, not for I/O.
    if !requests::are_under_way() {
        return time::timed(function, |_| 0, || call(statuses));
    }
    let Some((inside, abi)) = enter() else { return call(statuses) };
    let n = usize::try_from(n as c_int).unwrap_or(0);
    // The call overwrites the requests it completes, so remember which of them are ours.
    let ours = inside.request_memory();
    let mut n_ours = 0;
    let now = clock::now();
    for i in 0..n {
        // SAFETY: the program passes `n` requests.
        let request = unsafe { abi.request(requests, i) };
        let key = Key::Mpi(request);
        if !(if waits { requests::wait_begins(key, now) } else { requests::is_known(key) }) {
            continue;
        }
        if n_ours < SCRATCH {
            ours[n_ours] = (request, i as u32);
            n_ours += 1;
        } else {
            requests::take(key);
            losses::count(LossKind::TooManyRequests, 1);
        }
    }
    let own_statuses = n_ours > 0 && n <= SCRATCH && abi.ignores_status(statuses);
    let statuses = if own_statuses { inside.status_memory() as usize } else { statuses };
    let result = call(statuses);
    inside.leave();
    inside.count(function, 0, clock::now().wrapping_sub(now));
    let status = |i: usize| (!abi.ignores_status(statuses)).then(|| statuses + i * abi.status_size());
    let complete = |request: u64, status: Option<usize>| {
        let moved = status.and_then(|status| abi.bytes(status));
        if let Some(ended) = requests::complete(Key::Mpi(request), moved) {
            ended.push();
        }
    };
    let ours = &ours[..n_ours];
    match done() {
        Done::Nothing => {}
        Done::All => ours.iter().for_each(|&(request, i)| complete(request, status(i as usize))),
        Done::One(index) => {
            if let Some(&(request, _)) = ours.iter().find(|(_, i)| i64::from(*i) == i64::from(index)) {
                complete(request, status(0));
            }
        }
        Done::Some(n_done, indices) => {
            for k in 0..usize::try_from(n_done).unwrap_or(0).min(n) {
                // SAFETY: the call has written that many indices.
                let index = unsafe { *(indices as *const c_int).add(k) };
                if let Some(&(request, _)) = ours.iter().find(|(_, i)| i64::from(*i) == i64::from(index)) {
                    complete(request, status(k));
                }
            }
        }
    }
    result
}

fn freeing(function: MpiFunction, request: usize, call: impl FnOnce() -> c_int) -> c_int {
    if requests::are_under_way()
        && let Some(abi) = Abi::of_this_process()
        && request != 0
    {
        // SAFETY: the program passes a request.
        let key = Key::Mpi(unsafe { abi.request(request, 0) });
        // Whatever becomes of it, nobody will see it complete. What it asked for is all that is known.
        if let Some(ended) = requests::complete(key, None) {
            ended.push();
        }
    }
    time::timed(function, |_| 0, call)
}

fn opening(name: Named, path: usize, file: usize, call: impl FnOnce() -> c_int) -> c_int {
    let Some((inside, abi)) = enter() else { return call() };
    let start = clock::now();
    let result = call();
    let end = clock::now();
    inside.leave();
    inside.count(name.function, 0, end.wrapping_sub(start));
    if result == 0 {
        // SAFETY: the call has put a handle there; a file is a pointer in every family.
        let handle = unsafe { *(file as *const u64) };
        let id = path_of(path).and_then(|path| files::of_path(libc::AT_FDCWD, path));
        // A file that is left out otherwise is kept here: whoever reaches it by MPI-IO means it.
        handles::remember(handle, id.map_or(NO_FILE, |file| file.id));
        buffer::push(record(name.call, COLLECTIVE, handle as usize, None, start, end, Ok(Some(0))));
    }
    let _ = abi;
    result
}

fn closing(name: Named, file: usize, call: impl FnOnce() -> c_int) -> c_int {
    let Some((inside, _)) = enter() else { return call() };
    // SAFETY: the program passes a handle, which the call will overwrite.
    let handle = unsafe { *(file as *const u64) };
    let start = clock::now();
    let result = call();
    let end = clock::now();
    inside.leave();
    let outcome = if result == 0 { Ok(Some(0)) } else { Err(result) };
    inside.count(name.function, 0, end.wrapping_sub(start));
    buffer::push(record(name.call, COLLECTIVE, handle as usize, None, start, end, outcome));
    handles::forget(handle);
    result
}

fn deleting(name: Named, path: usize, call: impl FnOnce() -> c_int) -> c_int {
    let Some((inside, _)) = enter() else { return call() };
    let start = clock::now();
    let result = call();
    let end = clock::now();
    inside.leave();
    inside.count(name.function, 0, end.wrapping_sub(start));
    if result == 0 {
        let id = path_of(path).and_then(|path| files::of_path(libc::AT_FDCWD, path));
        let mut record = record(name.call, INDEPENDENT, 0, None, start, end, Ok(Some(0)));
        record.file = id.map_or(NO_FILE, |file| file.id);
        buffer::push(record);
    }
    result
}

/// The path of a file without the prefix that names its file system to ROMIO.
fn path_of(path: usize) -> Option<&'static CStr> {
    if path == 0 {
        return None;
    }
    // SAFETY: a C string that lives as long as the call we are in.
    let path = unsafe { CStr::from_ptr(path as *const c_char) };
    let bytes = path.to_bytes_with_nul();
    let colon = bytes.iter().position(|&byte| byte == b':').unwrap_or(0);
    let is_prefix =
        (2..=8).contains(&colon) && bytes[..colon].iter().all(|byte| byte.is_ascii_alphanumeric());
    if is_prefix { CStr::from_bytes_with_nul(&bytes[colon + 1..]).ok() } else { Some(path) }
}

fn hushed(function: MpiFunction, call: impl FnOnce() -> c_int) -> c_int {
    if !lifecycle::is_tracing() {
        return call();
    }
    let Some(inside) = InMpi::enter(true) else { return call() };
    let start = clock::now();
    let result = call();
    let ticks = clock::now().wrapping_sub(start);
    inside.leave();
    inside.count(function, 0, ticks);
    result
}

fn starting(function: MpiFunction, call: impl FnOnce() -> c_int) -> c_int {
    let result = hushed(function, call);
    let _errno = KeepErrno::now();
    if result == 0
        && lifecycle::is_tracing()
        && let Some(abi) = Abi::of_this_process()
        && let Some((rank, n_ranks)) = abi.rank_and_size()
    {
        let mut text = [0; mpi_abi::VERSION_MAX];
        let version = mpi_abi::library_version(&mut text).unwrap_or(b"");
        let line = version.split(|&byte| byte == b'\n' || byte == 0).next().unwrap_or(b"");
        sink::set_mpi(rank, n_ranks, line);
        page::set_mpi(rank, n_ranks, line);
    }
    result
}

/// Which file a handle stands for.
mod handles {
    use super::*;

    /// Files open at a time that keep their names; further ones are traced without.
    const N: usize = 1024;
    static HANDLES: [AtomicU64; N] = [const { AtomicU64::new(0) }; N];
    static FILES: [AtomicU32; N] = [const { AtomicU32::new(0) }; N];

    fn slots(handle: u64) -> impl Iterator<Item = usize> {
        let home = (handle.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize;
        (0..32).map(move |probe| (home + probe) % N)
    }

    pub fn remember(handle: u64, file: u32) {
        for slot in slots(handle) {
            if HANDLES[slot].compare_exchange(0, u64::MAX, Acquire, Relaxed).is_ok() {
                FILES[slot].store(file, Relaxed);
                HANDLES[slot].store(handle, Release);
                return;
            }
        }
        losses::count(LossKind::TooManyFiles, 1);
    }

    pub fn file(handle: u64) -> u32 {
        let slot = slots(handle).find(|&slot| HANDLES[slot].load(Acquire) == handle);
        slot.map_or(NO_FILE, |slot| FILES[slot].load(Relaxed))
    }

    pub fn forget(handle: u64) {
        for slot in slots(handle) {
            if HANDLES[slot].compare_exchange(handle, 0, Relaxed, Relaxed).is_ok() {
                return;
            }
        }
    }
}
