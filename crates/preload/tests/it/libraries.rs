//! Libraries above MPI-IO: their bytes are seen at the layer they use, and seen once.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use iotide_wire::{Layer, Op};

use crate::mpi::OPEN_MPI;
use crate::support::{directory, run_well};

const H5PY: &str = "/usr/lib/python3/dist-packages/h5py/_debian_h5py_mpi/__init__.py";

#[test]
fn a_parallel_hdf5_file_is_written_through_mpi_io_and_counted_once() {
    // Debian's own interpreter: the module is built for no other.
    let python = Path::new("/usr/bin/python3");
    if iotide_testkit::program("mpirun.openmpi").is_none() {
        return;
    }
    if !Path::new(H5PY).exists() {
        iotide_testkit::skip(iotide_testkit::Missing::Program, H5PY);
        return;
    }
    let n_ranks = 4;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/parallel_hdf5.py");
    let directory = directory("hdf5");
    let arguments = ["-B", script.to_str().unwrap()];
    let (_, trace) = run_well(&directory, OPEN_MPI.launch(n_ranks, python, &arguments));
    let trace = trace.of_ranks();
    assert_eq!(trace.0.len(), n_ranks);
    trace.assert_whole();

    let trace = trace.within(&directory);
    let file_bytes = fs::metadata(directory.join("parallel.h5")).unwrap().len();
    let dataset_bytes = 8 * (n_ranks as u64) * (1 << 15) * 8;
    assert!(file_bytes >= dataset_bytes, "{file_bytes} bytes hold no dataset of {dataset_bytes}");
    let moved = trace.moved();
    let written = moved.0[&("mpi", "write")];
    // Every byte of the dataset once, and of the library's own headers some more than once.
    let headers = file_bytes - dataset_bytes;
    assert!(
        (dataset_bytes..=dataset_bytes + 8 * headers).contains(&written),
        "{written} bytes written of a dataset of {dataset_bytes} in a file of {file_bytes}"
    );
    assert_eq!(
        moved.0.get(&("posix", "write")),
        None,
        "what MPI-IO does below is not counted again: {moved:?}"
    );
    let writers: BTreeSet<_> = (trace.0.iter())
        .filter(|process| {
            process.records.iter().any(|record| {
                record.op() == Op::Write && record.flags.layer() == Some(Layer::MpiIo) && record.bytes > 0
            })
        })
        .map(|process| process.rank)
        .collect();
    assert_eq!(writers.len(), n_ranks, "every rank writes its rows");
}
