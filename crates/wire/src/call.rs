//! Which function was called.

use crate::record::Op;

/// The function that was called; or only what it did, where the function is not known. The codes are part of the format: add at the end
/// of the table, never renumber.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Call(u8);

/// Where the codes of named functions begin. Those below are the codes of [`Op`].
const FIRST_NAMED: usize = 32;

macro_rules! calls {
    ($($name:literal $op:ident,)*) => {
        const N_NAMED: usize = [$($name),*].len();
        // Two tables: the tracer needs the second one only.
        const NAMES: [&str; N_NAMED] = [$($name),*];
        const OPS: [Op; N_NAMED] = [$(Op::$op),*];
    };
}

// A function that both reads and writes stands here twice. `stdio_read` and `stdio_write` are what the C library does beneath its streams.
calls! {
    "read" Read, "pread" Read, "pread64" Read, "readv" Read, "preadv" Read, "preadv64" Read, "preadv2" Read,
    "write" Write, "pwrite" Write, "pwrite64" Write, "writev" Write, "pwritev" Write, "pwritev64" Write,
    "pwritev2" Write, "dprintf" Write, "stdio_read" Read, "stdio_write" Write, "sendfile" Read, "sendfile" Write,
    "sendfile64" Read, "sendfile64" Write, "copy_file_range" Read, "copy_file_range" Write, "splice" Read,
    "splice" Write, "aio_read" Read, "aio_read64" Read, "aio_write" Write, "aio_write64" Write, "lio_listio" Read,
    "lio_listio" Write, "lio_listio64" Read, "lio_listio64" Write, "io_submit" Read, "io_submit" Write, "open" Open,
    "open64" Open, "openat" Open, "openat64" Open, "creat" Open, "creat64" Open, "mkstemp" Open, "mkstemp64" Open,
    "mkostemp" Open, "mkostemp64" Open, "mkstemps" Open, "mkostemps" Open, "close" Close, "lseek" Seek,
    "lseek64" Seek, "fsync" Sync, "fdatasync" Sync, "sync_file_range" Sync, "ftruncate" Resize, "ftruncate64" Resize,
    "fallocate" Resize, "fallocate64" Resize, "truncate" Resize, "truncate64" Resize, "rename" Rename,
    "renameat" Rename, "renameat2" Rename, "unlink" Unlink, "unlinkat" Unlink, "remove" Unlink, "mkdir" Directory,
    "mkdirat" Directory, "rmdir" Directory, "stat" Stat, "stat64" Stat, "lstat" Stat, "lstat64" Stat, "fstat" Stat,
    "fstat64" Stat, "fstatat" Stat, "fstatat64" Stat, "statx" Stat, "mmap" Map, "mmap64" Map,
    "fopen" Open, "fopen64" Open, "tmpfile" Open, "tmpfile64" Open, "freopen" Open, "freopen64" Open, "fclose" Close,
    "fread" Read, "fread_unlocked" Read, "fgets" Read, "fgets_unlocked" Read, "getline" Read, "getdelim" Read,
    "fgetc" Read, "getc" Read, "fgetc_unlocked" Read, "getc_unlocked" Read, "getchar" Read, "getw" Read,
    "fscanf" Read, "fwrite" Write, "fwrite_unlocked" Write, "fputs" Write, "fputs_unlocked" Write, "puts" Write,
    "fputc" Write, "putc" Write, "fputc_unlocked" Write, "putc_unlocked" Write, "putchar" Write, "putw" Write,
    "fprintf" Write, "printf" Write, "fflush" Flush, "fflush_unlocked" Flush, "fseek" Seek, "fseeko" Seek,
    "fseeko64" Seek, "fsetpos" Seek, "fsetpos64" Seek, "rewind" Seek,
    "MPI_File_open" Open, "MPI_File_close" Close, "MPI_File_sync" Sync, "MPI_File_set_view" View,
    "MPI_File_seek" Seek, "MPI_File_seek_shared" Seek, "MPI_File_set_size" Resize, "MPI_File_preallocate" Resize,
    "MPI_File_delete" Unlink, "MPI_File_read" Read, "MPI_File_read_all" Read, "MPI_File_read_shared" Read,
    "MPI_File_read_ordered" Read, "MPI_File_read_at" Read, "MPI_File_read_at_all" Read, "MPI_File_iread" Read,
    "MPI_File_iread_all" Read, "MPI_File_iread_shared" Read, "MPI_File_iread_at" Read, "MPI_File_iread_at_all" Read,
    "MPI_File_read_all_begin" Read, "MPI_File_read_ordered_begin" Read, "MPI_File_read_at_all_begin" Read,
    "MPI_File_write" Write, "MPI_File_write_all" Write, "MPI_File_write_shared" Write, "MPI_File_write_ordered" Write,
    "MPI_File_write_at" Write, "MPI_File_write_at_all" Write, "MPI_File_iwrite" Write, "MPI_File_iwrite_all" Write,
    "MPI_File_iwrite_shared" Write, "MPI_File_iwrite_at" Write, "MPI_File_iwrite_at_all" Write,
    "MPI_File_write_all_begin" Write, "MPI_File_write_ordered_begin" Write, "MPI_File_write_at_all_begin" Write,
    "MPI_File_read_c" Read, "MPI_File_read_all_c" Read, "MPI_File_read_shared_c" Read, "MPI_File_read_ordered_c" Read,
    "MPI_File_read_at_c" Read, "MPI_File_read_at_all_c" Read, "MPI_File_iread_c" Read, "MPI_File_iread_all_c" Read,
    "MPI_File_iread_shared_c" Read, "MPI_File_iread_at_c" Read, "MPI_File_iread_at_all_c" Read,
    "MPI_File_read_all_begin_c" Read, "MPI_File_read_ordered_begin_c" Read, "MPI_File_read_at_all_begin_c" Read,
    "MPI_File_write_c" Write, "MPI_File_write_all_c" Write, "MPI_File_write_shared_c" Write,
    "MPI_File_write_ordered_c" Write, "MPI_File_write_at_c" Write, "MPI_File_write_at_all_c" Write,
    "MPI_File_iwrite_c" Write, "MPI_File_iwrite_all_c" Write, "MPI_File_iwrite_shared_c" Write,
    "MPI_File_iwrite_at_c" Write, "MPI_File_iwrite_at_all_c" Write, "MPI_File_write_all_begin_c" Write,
    "MPI_File_write_ordered_begin_c" Write, "MPI_File_write_at_all_begin_c" Write,
}

const _: () = assert!(FIRST_NAMED + N_NAMED <= 256);

/// Other symbols of the same function: for programs of older compilers, for a list of arguments in place of arguments.
const ALIASES: [(&str, &str); 14] = [
    ("xstat", "stat"),
    ("xstat64", "stat64"),
    ("lxstat", "lstat"),
    ("lxstat64", "lstat64"),
    ("fxstat", "fstat"),
    ("fxstat64", "fstat64"),
    ("fxstatat", "fstatat"),
    ("fxstatat64", "fstatat64"),
    ("preadv64v2", "preadv2"),
    ("pwritev64v2", "pwritev2"),
    ("vfprintf", "fprintf"),
    ("vprintf", "printf"),
    ("vdprintf", "dprintf"),
    ("vfscanf", "fscanf"),
];

impl Call {
    /// Read of the C library for a stream.
    pub const STREAM_READ: Call = Call::of_symbol("stdio_read", Op::Read);
    /// Write of the C library for a stream.
    pub const STREAM_WRITE: Call = Call::of_symbol("stdio_write", Op::Write);

    /// Any function that does this.
    pub const fn of(op: Op) -> Self {
        Self(op as u8)
    }

    /// The function behind a symbol: `__pread64_chk` is `pread64`, `PMPI_File_read` is `MPI_File_read`.
    ///
    /// # Panics
    /// If the table does not have it; meant to be asked while the tracer is compiled.
    pub const fn of_symbol(symbol: &str, op: Op) -> Self {
        let name = plain(symbol.as_bytes());
        let mut i = 0;
        while i < N_NAMED {
            if OPS[i] as u8 == op as u8 && is_same(NAMES[i].as_bytes(), name) {
                return Self((FIRST_NAMED + i) as u8);
            }
            i += 1;
        }
        panic!("the function is not in the table of calls")
    }

    /// The call of that code.
    pub fn from_code(code: u8) -> Option<Self> {
        let is_named = (FIRST_NAMED..FIRST_NAMED + N_NAMED).contains(&usize::from(code));
        (is_named || Op::from_code(code).is_some()).then_some(Self(code))
    }

    /// Its code.
    pub const fn code(self) -> u8 {
        self.0
    }

    /// Returns its operation.
    #[inline(always)]
    pub const fn op(self) -> Op {
        let code = self.0 as usize;
        if code >= FIRST_NAMED && code - FIRST_NAMED < N_NAMED {
            OPS[code - FIRST_NAMED]
        } else if code >= 1 && code <= Op::ALL.len() {
            Op::ALL[code - 1]
        } else {
            Op::Stat // never made
        }
    }

    /// The function's name, if it is known.
    pub fn name(self) -> Option<&'static str> {
        NAMES.get(usize::from(self.0).checked_sub(FIRST_NAMED)?).copied()
    }
}

/// The name without what the C library and MPI put around it for their own purposes.
const fn plain(mut name: &[u8]) -> &[u8] {
    while let [b'_', rest @ ..] = name {
        name = rest;
    }
    name = match name {
        [b'I', b'O', b'_', rest @ ..] => rest,
        [b'i', b's', b'o', b'c', b'0'..=b'9', b'0'..=b'9', b'_', rest @ ..] => rest,
        [b'P', rest @ ..] if matches!(rest, [b'M', b'P', b'I', ..]) => rest,
        _ => name,
    };
    name = match name {
        [rest @ .., b'_', b'c', b'h', b'k'] | [rest @ .., b'_', b'2'] => rest,
        _ => name,
    };
    let mut i = 0;
    while i < ALIASES.len() {
        if is_same(ALIASES[i].0.as_bytes(), name) {
            return ALIASES[i].1.as_bytes();
        }
        i += 1;
    }
    name
}

/// Whether two names are the same; `==` is not `const`.
pub(crate) const fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut i = 0;
    while i < one.len() {
        if one[i] != other[i] {
            return false;
        }
        i += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_symbol_leads_to_the_function_a_program_calls() {
        for (symbol, op, name) in [
            ("pwrite64", Op::Write, "pwrite64"),
            ("__pread64_chk", Op::Read, "pread64"),
            ("__open64_2", Op::Open, "open64"),
            ("_IO_putc", Op::Write, "putc"),
            ("__isoc99_vfscanf", Op::Read, "fscanf"),
            ("__vfprintf_chk", Op::Write, "fprintf"),
            ("__fxstatat64", Op::Stat, "fstatat64"),
            ("PMPI_File_write_at_all_c", Op::Write, "MPI_File_write_at_all_c"),
            ("splice", Op::Read, "splice"),
            ("splice", Op::Write, "splice"),
        ] {
            let call = Call::of_symbol(symbol, op);
            assert_eq!((call.name(), call.op()), (Some(name), op), "{symbol}");
            assert_eq!(Call::from_code(call.code()), Some(call));
        }
    }

    #[test]
    fn codes_are_a_promise() {
        for (code, name) in [
            (32, "read"),
            (41, "pwrite64"),
            (67, "open"),
            (111, "fopen"),
            (152, "MPI_File_open"),
            (216, "MPI_File_write_at_all_begin_c"),
        ] {
            assert_eq!(Call::from_code(code).and_then(Call::name), Some(name));
        }
        for code in [0, 16, 31, 217, 255] {
            assert_eq!(Call::from_code(code), None);
        }
        for op in Op::ALL {
            assert_eq!((Call::of(op).op(), Call::of(op).name()), (op, None));
        }
    }
}
