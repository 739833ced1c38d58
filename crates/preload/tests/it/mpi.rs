//! MPI-IO in C and Fortran, under Open MPI and MPICH.

use std::path::Path;
use std::process::Command;

use iotide_wire::{Flags, Layer, NO_POSITION, Op};

use crate::support::{Trace, compile, directory, run_well};

pub const N_RANKS: usize = 4;

/// An MPI library's compilers and launcher, and what it calls itself.
pub struct Mpi {
    pub name: &'static str,
    pub calls_itself: &'static str,
}

pub const OPEN_MPI: Mpi = Mpi { name: "openmpi", calls_itself: "Open MPI" };
const MPICH: Mpi = Mpi { name: "mpich", calls_itself: "MPICH" };
pub const BOTH: [Mpi; 2] = [OPEN_MPI, MPICH];

impl Mpi {
    pub fn launch(&self, n: usize, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(format!("mpirun.{}", self.name));
        if self.name == "openmpi" {
            command
                .args(["--oversubscribe", "--quiet"])
                .envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")])
                .env("OMPI_MCA_mpi_yield_when_idle", "1")
                .env("OMPI_MCA_rmaps_base_oversubscribe", "1");
        }
        command.args(["-n", &n.to_string()]).arg(program).args(arguments);
        command
    }
}

/// Runs a program under both libraries and compares. Returns the traces of those that are there.
fn check(test: &str, compiler: &str, source: &str, n: usize, arguments: &[&str]) -> Vec<Trace> {
    let mut traces = Vec::new();
    for mpi in BOTH {
        let Some(program) = compile(&format!("{compiler}.{}", mpi.name), source, &["-w"]) else { continue };
        let directory = directory(&format!("{test}_{}", mpi.name));
        let (said, trace) = run_well(&directory, mpi.launch(n, &program, arguments));
        let trace = trace.of_ranks();
        assert_eq!(
            trace.0.len(),
            n,
            "{}: {:?}",
            mpi.name,
            trace.0.iter().map(|p| (&p.path, p.rank)).collect::<Vec<_>>()
        );
        trace.assert_whole();
        let mut ranks: Vec<_> = trace.0.iter().map(|process| process.rank.unwrap() as usize).collect();
        ranks.sort_unstable();
        assert_eq!(ranks, (0..n).collect::<Vec<_>>(), "{}", mpi.name);
        assert!(trace.0.iter().all(|process| process.mpi.starts_with(mpi.calls_itself)));
        assert_eq!(trace.moved(), said, "{}", mpi.name);
        traces.push(trace);
    }
    traces
}

#[test]
fn every_call_family_counts_what_its_status_says() {
    for trace in check("mpi_calls", "mpicc", "mpi_calls.c", N_RANKS, &[]) {
        let mpi = |op| {
            trace
                .outer()
                .filter(move |record| record.op() == op && record.flags.layer() == Some(Layer::MpiIo))
        };
        assert_eq!(mpi(Op::Open).count(), N_RANKS);
        assert_eq!(mpi(Op::Close).count(), N_RANKS);
        assert_eq!(mpi(Op::Sync).count(), N_RANKS);
        assert!(
            trace
                .outer()
                .filter(|record| record.flags.has(Flags::ASYNC))
                .all(|record| record.position <= record.duration)
        );
        assert!(
            trace.records().any(|record| record.flags.has(Flags::NESTED)),
            "the layer below is seen, and marked"
        );
        assert!(trace.records().all(|record| !record.flags.has(Flags::ASKED)), "every status was understood");
        assert!(trace.files_moved().contains(&"shared.mpi".to_owned()));
        // Every call by its own name, which says what the flags say.
        let names: std::collections::BTreeSet<_> = trace
            .outer()
            .filter(|record| record.flags.layer() == Some(Layer::MpiIo) && record.op() != Op::Place)
            .map(|record| record.call.name().unwrap())
            .collect();
        for name in [
            "write_at_all",
            "read_at_all",
            "write_at",
            "write_all",
            "iwrite_at",
            "write_ordered",
            "write_shared",
        ] {
            assert!(names.contains(format!("MPI_File_{name}").as_str()), "{name}: {names:?}");
        }
        for record in trace.outer().filter(|record| matches!(record.op(), Op::Read | Op::Write)) {
            let Some(name) = record.call.name().and_then(|name| name.strip_prefix("MPI_File_")) else {
                continue;
            };
            let is_together = name.contains("_all") || name.contains("_ordered");
            assert_eq!(record.flags.has(Flags::COLLECTIVE), is_together, "{name}");
            let states_place = name.contains("_at");
            let is_placed = match record.flags.has(Flags::ASYNC) {
                true => record.flags.has(Flags::PLACED),
                false => record.position != NO_POSITION,
            };
            assert_eq!(is_placed, states_place, "{name}");
        }
    }
}

#[test]
fn fortran_by_use_mpi_is_seen_like_c() {
    check("mpi_use", "mpifort", "mpi_use.f90", N_RANKS, &[]);
}

#[test]
fn fortran_by_use_mpi_f08_is_seen_like_c() {
    check("mpi_f08", "mpifort", "mpi_f08.f90", N_RANKS, &[]);
}

#[test]
fn fortran_by_mpif_h_is_seen_like_c() {
    check("mpif_h", "mpifort", "mpif_h.f90", N_RANKS, &[]);
}

#[test]
fn a_request_of_three_gigabytes_is_three_gigabytes() {
    if std::env::var_os("IOTIDE_TEST_LARGE").is_none() {
        iotide_testkit::skip(iotide_testkit::Missing::Data, "IOTIDE_TEST_LARGE=1, which lets it write 3 GB");
        return;
    }
    check("mpi_large", "mpicc", "mpi_calls.c", 1, &["large"]);
}
