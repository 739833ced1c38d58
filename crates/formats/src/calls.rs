//! Operations of traced functions, by name.
//!
//! Tracers name the function they stand in front of: `open64`, `__fxstat`, `MPI_File_write_at_all`, `H5Dread`. The
//! same name means the same in every one of them, so this table is shared.

use iotide_trace::{Layer, Op};

/// Operation of a call of that function, and the layer it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallKind {
    pub(crate) op: Op,
    pub(crate) layer: Layer,
}

/// Tells what the function `name` does to storage; `None` for one that does nothing to it (`umask`, `MPI_Bcast`).
///
/// Mapping a file (`mmap`) is left out: its bytes move later, unseen.
pub(crate) fn kind_of(name: &str) -> Option<CallKind> {
    let (op, layer) = if let Some(rest) = strip_mpi_file(name) {
        (mpi_file_op(rest)?, Layer::MpiIo)
    } else if name.starts_with("H5") {
        (hdf5_op(name)?, Layer::Library)
    } else if let Some(rest) = name.strip_prefix("ncmpi_").or_else(|| name.strip_prefix("nc_")) {
        (netcdf_op(rest)?, Layer::Library)
    } else {
        libc_op(plain_libc_name(name))?
    };
    Some(CallKind { op, layer })
}

fn strip_mpi_file(name: &str) -> Option<&str> {
    name.strip_prefix("MPI_File_").or_else(|| name.strip_prefix("PMPI_File_"))
}

/// `__fxstat64` → `fxstat`, `pread64` → `pread`: glibc's inner and large-file names.
fn plain_libc_name(name: &str) -> &str {
    let name = name.trim_start_matches('_');
    name.strip_suffix("64").unwrap_or(name)
}

fn libc_op(name: &str) -> Option<(Op, Layer)> {
    let posix = |op| Some((op, Layer::Posix));
    let stdio = |op| Some((op, Layer::Stdio));
    match name {
        "read" | "pread" | "readv" | "preadv" | "preadv2" => posix(Op::Read),
        "write" | "pwrite" | "writev" | "pwritev" | "pwritev2" => posix(Op::Write),
        "open" | "openat" | "openat2" | "creat" => posix(Op::Open),
        "close" => posix(Op::Close),
        "lseek" | "llseek" => posix(Op::Seek),
        "stat" | "lstat" | "fstat" | "xstat" | "lxstat" | "fxstat" | "fxstatat" | "fstatat"
        | "newfstatat" | "statx" | "statfs" | "fstatfs" | "statvfs" | "fstatvfs" | "access" | "faccessat"
        | "faccessat2" => posix(Op::Stat),
        "fsync" | "fdatasync" | "msync" | "sync" | "syncfs" | "sync_file_range" => posix(Op::Sync),
        "rename" | "renameat" | "renameat2" | "unlink" | "unlinkat" | "remove" | "mkdir" | "mkdirat"
        | "rmdir" | "link" | "linkat" | "symlink" | "symlinkat" | "readlink" | "readlinkat" | "chmod"
        | "fchmod" | "fchmodat" | "chown" | "fchown" | "lchown" | "fchownat" | "utime" | "utimes"
        | "utimensat" | "futimens" | "mknod" | "mknodat" | "xmknod" | "xmknodat" | "mkfifo" | "truncate"
        | "ftruncate" | "fallocate" | "posix_fallocate" | "opendir" | "fdopendir" | "readdir"
        | "closedir" | "rewinddir" | "getdents" | "setxattr" | "lsetxattr" | "fsetxattr" | "getxattr"
        | "lgetxattr" | "fgetxattr" | "listxattr" | "llistxattr" | "flistxattr" | "removexattr" | "flock" => {
            posix(Op::Other)
        }
        "fread" | "fread_unlocked" | "fgets" | "fgetc" | "getc" | "fscanf" | "vfscanf" | "getline"
        | "getdelim" => stdio(Op::Read),
        "fwrite" | "fwrite_unlocked" | "fputs" | "fputc" | "putc" | "puts" | "putchar" | "fprintf"
        | "vfprintf" | "printf" | "vprintf" => stdio(Op::Write),
        "fopen" | "freopen" | "fdopen" | "tmpfile" => stdio(Op::Open),
        "fclose" => stdio(Op::Close),
        "fseek" | "fseeko" | "fsetpos" | "rewind" => stdio(Op::Seek),
        "fflush" => stdio(Op::Sync),
        _ => None,
    }
}

fn mpi_file_op(rest: &str) -> Option<Op> {
    Some(match rest {
        "open" => Op::Open,
        "close" => Op::Close,
        "sync" => Op::Sync,
        "seek" | "seek_shared" => Op::Seek,
        "get_size" => Op::Stat,
        "set_size" | "preallocate" | "set_view" | "delete" => Op::Other,
        // The bytes of a split collective are named where it begins.
        _ if rest.ends_with("_end") => return None,
        _ if rest.starts_with("read") || rest.starts_with("iread") => Op::Read,
        _ if rest.starts_with("write") || rest.starts_with("iwrite") => Op::Write,
        _ => return None,
    })
}

fn hdf5_op(name: &str) -> Option<Op> {
    Some(match name {
        "H5Dread" | "H5Aread" | "H5Dread_async" => Op::Read,
        "H5Dwrite" | "H5Awrite" | "H5Dwrite_async" => Op::Write,
        "H5Fcreate" | "H5Fopen" => Op::Open,
        "H5Fclose" => Op::Close,
        "H5Fflush" => Op::Sync,
        // Groups, datasets, attributes, links and objects live in the file; spaces, types and lists in memory.
        _ if matches!(name.as_bytes().get(2), Some(b'G' | b'D' | b'A' | b'L' | b'O')) => Op::Other,
        _ => return None,
    })
}

fn netcdf_op(rest: &str) -> Option<Op> {
    let rest = rest.strip_prefix('i').or_else(|| rest.strip_prefix('b')).unwrap_or(rest);
    Some(match rest {
        "create" | "open" => Op::Open,
        "close" => Op::Close,
        "sync" => Op::Sync,
        _ if rest.starts_with("put_var") => Op::Write,
        _ if rest.starts_with("get_var") => Op::Read,
        _ => return None,
    })
}

/// The size of an MPI datatype by the name MPI itself gives it; `None` for a derived type.
pub(crate) fn mpi_type_bytes(name: &str) -> Option<u64> {
    Some(match name.strip_prefix("MPI_")? {
        "BYTE" | "CHAR" | "SIGNED_CHAR" | "UNSIGNED_CHAR" | "PACKED" | "CHARACTER" | "INT8_T" | "UINT8_T"
        | "C_BOOL" | "CXX_BOOL" | "INTEGER1" | "LOGICAL1" => 1,
        "SHORT" | "UNSIGNED_SHORT" | "INT16_T" | "UINT16_T" | "INTEGER2" | "REAL2" => 2,
        "INT" | "UNSIGNED" | "FLOAT" | "INT32_T" | "UINT32_T" | "INTEGER" | "REAL" | "LOGICAL"
        | "INTEGER4" | "REAL4" | "WCHAR" => 4,
        "LONG" | "UNSIGNED_LONG" | "LONG_LONG" | "LONG_LONG_INT" | "UNSIGNED_LONG_LONG" | "DOUBLE"
        | "INT64_T" | "UINT64_T" | "DOUBLE_PRECISION" | "INTEGER8" | "REAL8" | "AINT" | "OFFSET"
        | "COUNT" | "COMPLEX" | "C_COMPLEX" | "C_FLOAT_COMPLEX" | "COMPLEX8" | "2INT" | "2INTEGER"
        | "2REAL" | "FLOAT_INT" => 8,
        "LONG_DOUBLE" | "DOUBLE_COMPLEX" | "C_DOUBLE_COMPLEX" | "COMPLEX16" | "REAL16"
        | "2DOUBLE_PRECISION" => 16,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_many_names_of_one_function_mean_the_same() {
        for (names, op, layer) in [
            (&["read", "pread64", "readv", "preadv"][..], Op::Read, Layer::Posix),
            (&["__xstat", "__fxstat64", "__lxstat", "newfstatat", "access"], Op::Stat, Layer::Posix),
            (&["open64", "openat", "creat"], Op::Open, Layer::Posix),
            (&["fopen", "fopen64", "fdopen"], Op::Open, Layer::Stdio),
            (&["MPI_File_iwrite_at", "PMPI_File_write_all_begin"], Op::Write, Layer::MpiIo),
            (&["H5Dwrite"], Op::Write, Layer::Library),
            (&["ncmpi_put_vara_double_all", "ncmpi_iput_vara"], Op::Write, Layer::Library),
        ] {
            for name in names {
                assert_eq!(kind_of(name), Some(CallKind { op, layer }), "{name}");
            }
        }
        for name in ["umask", "mmap", "MPI_Bcast", "MPI_File_read_all_end", "H5Screate", "fork", "", "64"] {
            assert_eq!(kind_of(name), None, "{name}");
        }
    }
}
