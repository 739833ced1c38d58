//! Files that are no I/O of the program: streams, devices, FIFOs, locks and shared memory of MPI, libraries.

use iotide_trace::FileRecord;

/// Whether a file has no data of the program in it: it belongs to a library, to an interpreter or to the system.
pub fn is_foreign(path: &str) -> bool {
    is_no_file(path) || is_python_import(path)
}

/// Whether a name stands for something that is no data file of a program.
pub(super) fn is_no_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_stream = matches!(path, "<STDIN>" | "<STDOUT>" | "<STDERR>");
    let is_system = ["/dev", "/proc", "/sys"]
        .iter()
        .any(|root| path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
        && !path.starts_with("/dev/shm/");
    let is_socket = ["socket:", "pipe:", "anon_inode:"].iter().any(|kind| path.starts_with(kind));
    let is_of_mpi = path.split('/').any(|part| part.starts_with("ompi."))
        || (name.contains("_cid-") && name.ends_with(".sm"))
        || name.contains(".locktest.")
        || path.starts_with("/dev/shm/");
    is_stream || is_system || is_socket || is_of_mpi || is_library(name)
}

fn is_library(name: &str) -> bool {
    // "libm.so", "libm.so.6"
    name.ends_with(".so")
        || name
            .split_once(".so.")
            .is_some_and(|(_, version)| version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
}

/// Whether a file is read when Python imports modules.
pub(super) fn is_python_import(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    [".py", ".pyc", ".pyi", ".pth", ".dist-info", ".egg-info"].iter().any(|end| name.ends_with(end))
        || ["/site-packages", "/dist-packages", "/__pycache__", "/lib/python"]
            .iter()
            .any(|part| path.contains(part))
        || name == "pyvenv.cfg"
}

/// Whether a record is that of a FIFO that waits: it moves next to nothing and is opened rarely, for most of the run.
pub(super) fn waits_like_a_fifo(record: &FileRecord, run_s: f64) -> bool {
    const FEW_BYTES: f64 = 1e6;
    const FEW_OPENS: u64 = 10;
    record.metadata_s >= 0.5 * run_s && record.bytes() < FEW_BYTES && record.opens <= FEW_OPENS
}
