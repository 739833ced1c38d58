//! A workload with a known rhythm, for trying things out.
//!
//! After the I/O skeleton of ADMIRE deliverable 5.5, section 3.4.2. A bulk-synchronous program is a heartbeat: all processes write (or read) a burst, compute, and come
//! back a period later. [`perform`] starts the processes, which are this program again ([`work`]) and talk to it over pipes, and listens to them.
//!
//! **Invariant:** the period counts from start to start and does not drift; the files go on every way out, unless they are to be kept.

use std::ffi::OsStr;
use std::io::{BufWriter, Write};
use std::path::Path;

pub use protocol::Operation;
pub use skeleton::{Burst, Performed, Skeleton, make_folder, perform};
pub use worker::run as work;

mod protocol;
mod skeleton;
mod worker;

/// Whether the program was called by the skeleton's own name, with or without settings in it.
pub fn is_ioskel(program: &OsStr) -> bool {
    let name = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
    name == "ioskel" || name.starts_with("ioskel.")
}

/// Writes the operations as an event table, in order of time.
pub fn write_events(file: &mut impl Write, performed: &Performed) -> std::io::Result<()> {
    let mut file = BufWriter::new(file);
    writeln!(file, "# runtime_s={:.9}", performed.runtime_s)?;
    writeln!(file, "# nprocs={}", performed.n_processes)?;
    writeln!(file, "# exe={}", performed.exe)?;
    writeln!(file, "# start_time={}", performed.start_time_s)?;
    writeln!(file, "rank,op,start,end,bytes,file")?;
    for operation in &performed.operations {
        writeln!(
            file,
            "{},{},{:.9},{:.9},{},rank-{}.dat",
            operation.rank,
            operation.op.name(),
            operation.start_ns as f64 * 1e-9,
            operation.end_ns as f64 * 1e-9,
            operation.bytes,
            operation.rank,
        )?;
    }
    file.flush()
}
