//! Effects that a program might notice: none.

use std::process::Command;

use iotide_wire::LossKind;

use crate::support::{Moved, Trace, compile_c, directory, run, run_well};

#[test]
fn signals_jumps_and_closed_descriptors_are_survived_and_losses_are_counted() {
    let Some(program) = compile_c("harm.c") else { return };
    let directory = directory("harm");
    let (said, trace) = run_well(&directory, Command::new(program));
    let process = &trace.0[0];
    let lost = |kind| process.losses.iter().filter(|(k, _)| *k == kind).map(|(_, n)| n).sum::<u64>();
    // Each call of a handler writes one byte: what was not seen was counted.
    let moved = trace.moved().0[&("posix", "write")];
    assert_eq!(moved + lost(LossKind::InSignal), said.0[&("posix", "write")]);
    assert_eq!(process.n_damaged, 0);
    assert!(process.end.is_some());
    assert_eq!(std::fs::metadata(directory.join("other")).unwrap().len(), 0);
}

#[test]
fn a_file_size_limit_stops_the_trace_and_not_the_program() {
    let Some(program) = compile_c("harm.c") else { return };
    let mut command = Command::new(program);
    command.arg("limit");
    let directory = directory("limit");
    let output = run(&directory, command);
    assert!(output.status.success(), "{}", output.status);
    let trace = Trace::read(&directory.join("trace"));
    assert!((1..20_000).contains(&trace.records().count()));
    // Two opens, and the writes.
    assert_all_are_accounted_for(&trace, 2 + 20_000);
}

/// Every call is in the trace or among the losses, and the end is marked.
#[track_caller]
fn assert_all_are_accounted_for(trace: &Trace, n_calls: u64) {
    let [process] = &trace.0[..] else { panic!("{} processes", trace.0.len()) };
    let n = process.records.len() as u64;
    assert_eq!(n + process.lost(LossKind::NotWritten), n_calls, "{n} are there");
    assert_eq!(process.end.unwrap().n_records, n);
}

#[test]
fn a_missing_directory_stops_the_trace_and_not_the_program() {
    let Some(program) = compile_c("posix_calls.c") else { return };
    let directory = directory("missing_directory");
    let mut command = Command::new("env");
    command.arg("IOTIDE_DIR=/no/such/directory").arg(program);
    let output = run(&directory, command);
    assert!(output.status.success());
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!Moved::said(&String::from_utf8_lossy(&output.stdout)).0.is_empty());
}

#[test]
fn a_full_disk_stops_the_trace_and_not_the_program() {
    let Some(program) = compile_c("ends.c") else { return };
    let directory = directory("full_disk");
    let disk = directory.join("disk");
    crate::support::library();
    std::fs::create_dir(&disk).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=128k", "tmpfs"]).arg(&disk).status();
    if !mounted.is_ok_and(|status| status.success()) {
        iotide_testkit::skip(iotide_testkit::Missing::Data, "the right to mount a small file system");
        return;
    }
    let mut command = Command::new("env");
    command.arg(format!("IOTIDE_DIR={}", disk.display())).arg(program).args(["return", "20000"]);
    let output = run(&directory, command);
    let trace = Trace::read(&disk);
    assert!(Command::new("umount").arg(&disk).status().unwrap().success());
    assert!(output.status.success());
    assert!((1..20_000).contains(&trace.records().count()));
    // An open, "early", the writes, "at exit" and "late".
    assert_all_are_accounted_for(&trace, 1 + 1 + 20_000 + 2);
}

#[test]
fn a_program_that_takes_every_descriptor_leaves_us_ours() {
    let Some(program) = compile_c("harm.c") else { return };
    let directory = directory("taken");
    let mut command = Command::new(program);
    command.arg("take");
    let (said, trace) = run_well(&directory, command);
    assert_eq!(trace.moved(), said);
    trace.assert_whole();
}

#[test]
fn closing_what_was_never_open_is_no_loss() {
    let Some(program) = compile_c("harm.c") else { return };
    let directory = directory("close_all");
    let mut command = Command::new(program);
    command.arg("close");
    let (said, trace) = run_well(&directory, command);
    assert_eq!(trace.moved(), said);
    trace.assert_whole();
}

#[test]
fn nothing_is_left_where_nothing_was_done() {
    let directory = directory("nothing");
    let output = run(&directory, Command::new("true"));
    assert!(output.status.success());
    assert!(!directory.join("trace").exists());
}
