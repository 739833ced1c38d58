//! Bytes by layer, against the program's own count.

use std::process::Command;

use iotide_wire::{Flags, Layer, Op, Record, Total};

use crate::support::{compile, compile_c, directory, run_well};

fn check(test: &str, source: &str) -> Option<crate::support::Trace> {
    let program = compile_c(source)?;
    let (said, trace) = run_well(&directory(test), Command::new(program));
    assert_eq!(trace.moved(), said);
    trace.assert_whole();
    Some(trace)
}

#[test]
fn every_posix_call_counts_what_it_moved() {
    let Some(trace) = check("posix_calls", "posix_calls.c") else { return };
    assert_eq!(trace.files_moved(), ["copy", "data"]);
    let count = |op| trace.outer().filter(|record| record.op() == op).count();
    for (op, n) in [
        (Op::Seek, 1),
        (Op::Sync, 2),
        (Op::Map, 1),
        (Op::Rename, 1),
        (Op::Directory, 2),
        (Op::Unlink, 1),
        (Op::Open, 2),
        (Op::Stat, 3),
    ] {
        assert_eq!(count(op), n, "{op:?}");
    }
    let failed: Vec<_> =
        trace.records().filter(|record| record.flags.has(Flags::FAILED)).map(|r| r.bytes).collect();
    assert_eq!(failed, [14], "EFAULT, by its number");
}

#[test]
fn every_stream_call_counts_what_it_moved_and_small_ones_are_joined() {
    let Some(trace) = check("stdio_calls", "stdio_calls.c") else { return };
    assert_eq!(trace.files_moved(), ["other", "stream", "words"]);
    let n_calls: u64 = trace.outer().map(|record| u64::from(record.calls)).sum();
    assert!(n_calls > 106_000, "{n_calls} calls");
    assert!(trace.outer().count() < 20_000, "{} records", trace.outer().count());
    // All that was handed to the streams has reached the system when they were closed.
    let is_beneath = |record: &&Record| {
        record.flags.has(Flags::NESTED)
            && record.flags.layer() == Some(Layer::Posix)
            && record.op() == Op::Write
    };
    let beneath: Vec<_> = trace.records().filter(is_beneath).collect();
    let bytes = beneath.iter().map(|record| record.bytes).sum::<u64>();
    assert_eq!(bytes, trace.moved().0[&("stdio", "write")]);
    // A character that fills the buffer takes as long as the system: no machine writes 4 KiB within a hundred ticks.
    assert!(beneath.iter().filter(|record| record.bytes >= 4096).all(|record| record.duration > 100));
}

#[test]
fn what_moves_beneath_streams_is_seen_to_the_byte() {
    // Without optimisation `getc_unlocked` is a function like any other.
    for flags in [&["-O2"][..], &["-O0"]] {
        let Some(program) = compile("gcc", "beneath_streams.c", flags) else { return };
        let (said, trace) =
            run_well(&directory(&format!("beneath_streams{}", flags[0])), Command::new(program));
        assert_eq!(trace.moved(), said, "{flags:?}");
        trace.assert_whole();
        let of = |name: &str, op| {
            let process = &trace.0[0];
            let is_meant = |record: &&Record| {
                let path = process.names.get(&record.file);
                record.op() == op
                    && record.flags.layer() == Some(Layer::Posix)
                    && path.is_some_and(|path| path.ends_with(name))
            };
            process.records.iter().filter(is_meant).map(|record| record.bytes).sum::<u64>()
        };
        // What is still in the stream when the program ends counts, too.
        assert_eq!(of("left", Op::Write), 10, "{flags:?}");
        assert_eq!(of("characters", Op::Write), 10_000 + 11 + 100 + 3, "{flags:?}");
        // To ask the kernel for its count is a read, too.
        let [seen, kernel] = [Total::SeenRead, Total::KernelRead].map(|total| trace.0[0].totals.get(total));
        assert!((kernel - 200..=kernel).contains(&seen), "{seen} of {kernel} bytes read {flags:?}");
    }
}

#[test]
fn fortified_calls_are_the_same_calls() {
    for source in ["posix_calls.c", "stdio_calls.c"] {
        let Some(program) = compile("gcc", source, &["-O2", "-D_FORTIFY_SOURCE=2"]) else { return };
        let (said, trace) = run_well(&directory(&format!("fortified_{source}")), Command::new(program));
        assert_eq!(trace.moved(), said, "{source}");
        trace.assert_whole();
    }
}

#[test]
fn threads_are_all_heard_those_that_ended_and_those_that_never_do() {
    let Some(trace) = check("threads", "threads.c") else { return };
    assert_eq!(trace.0.len(), 1, "one process, one file");
}

#[test]
fn children_by_fork_clone_vfork_spawn_and_exec_each_have_their_own_stream() {
    let Some(trace) = check("children", "children.c") else { return };
    // The parent, its child and grandchild, the cloned one, what vfork and spawn became, dd, and what the parent became at last.
    let n_writers = trace
        .0
        .iter()
        .filter(|process| process.records.iter().any(|record| record.op() == Op::Write))
        .count();
    assert_eq!(
        n_writers,
        8,
        "{:?}",
        trace.0.iter().map(|process| (&process.path, process.pid)).collect::<Vec<_>>()
    );
}

#[test]
fn a_script_is_a_program_like_any_other() {
    let directory = directory("python");
    if iotide_testkit::program("python3").is_none() {
        return;
    }
    let mut command = Command::new("python3");
    command.arg("-B").arg("-c").arg(
        "with open('a.txt', 'w') as f:\n for i in range(10000): f.write('%09d\\n' % i)\n\
         with open('a.txt') as f: n = len(f.read())\n\
         import subprocess; subprocess.run(['cp', 'a.txt', 'b.txt'], check=True)\n\
         print('posix write', 100000 + n); print('posix read', n + n)",
    );
    let (said, trace) = run_well(&directory, command);
    trace.assert_whole();
    assert_eq!(trace.within(&directory).moved(), said);
}
