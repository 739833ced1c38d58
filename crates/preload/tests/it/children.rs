//! Programs that start others without leaving their own memory, and requests that go straight to the kernel.

use std::process::Command;

use iotide_wire::{Flags, LossKind, Total};

use crate::support::{compile_c, directory, run, run_well};

#[test]
fn a_child_of_vfork_leaves_its_parents_records_alone() {
    let Some(program) = compile_c("vfork.c") else { return };
    for n_children in ["1", "8"] {
        let directory = directory("vfork");
        let mut command = Command::new("env");
        // Every call finds the buffer old enough to be written out.
        command.args(["IOTIDE_FLUSH=0.1"]).arg(&program).arg(n_children);
        let (said, trace) = run_well(&directory, command);
        assert_eq!(trace.moved(), said);
        trace.assert_whole();
    }
}

#[test]
fn requests_to_the_kernel_are_seen_and_what_cannot_be_is_counted() {
    let Some(program) = compile_c("libaio.c") else { return };
    let directory = directory("libaio");
    let (said, trace) = run_well(&directory, Command::new(program));
    assert_eq!(trace.moved(), said);
    trace.assert_whole();
    let asynchronous = trace.outer().filter(|record| record.flags.has(Flags::ASYNC)).count();
    assert!(asynchronous >= 3, "{asynchronous}");
    let totals = trace.0[0].totals;
    assert_eq!((totals.get(Total::Mappings), totals.get(Total::MappedBytes)), (1, 8192));
    assert!(totals.get(Total::Rings) <= 1);
    assert_eq!(trace.0[0].lost(LossKind::TooManyRequests), 0);
}

#[test]
fn a_ring_is_told() {
    let Some(program) = compile_c("libaio.c") else { return };
    let directory = directory("ring");
    let output = run(&directory, Command::new(program));
    let n_rings = u64::from(String::from_utf8_lossy(&output.stdout).contains("rings 1"));
    let trace = crate::support::Trace::read(&directory.join("trace"));
    assert_eq!(trace.0[0].totals.get(Total::Rings), n_rings);
}
