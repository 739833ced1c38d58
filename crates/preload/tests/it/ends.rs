//! How a process ends, and what is left of its trace.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use iotide_wire::EndReason;

use crate::support::{Moved, Trace, compile_c, directory, run};

/// Ends the program in the given way, after `n` writes; returns what it said, the trace, and the signal that ended it.
fn end(how: &str, n: u32) -> Option<(Moved, Trace, Option<i32>)> {
    let program = compile_c("ends.c")?;
    let directory = directory(&format!("ends_{how}_{n}"));
    let mut command = Command::new(program);
    command.args([how, &n.to_string()]);
    let output = run(&directory, command);
    let said = Moved::said(&String::from_utf8_lossy(&output.stdout));
    Some((said, Trace::read(&directory.join("trace")), output.status.signal()))
}

#[test]
fn a_process_that_ends_by_itself_leaves_everything_even_what_it_writes_late() {
    for how in ["return", "exit", "_exit", "quick_exit"] {
        let Some((said, trace, signal)) = end(how, 10) else { return };
        assert_eq!(signal, None, "{how}");
        assert_eq!(trace.moved(), said, "{how}");
        assert_eq!(trace.reasons(), [Some(EndReason::Exit)], "{how}");
        trace.assert_whole();
    }
}

#[test]
fn abort_leaves_everything_and_still_aborts() {
    let Some((said, trace, signal)) = end("abort", 10) else { return };
    assert_eq!(signal, Some(6));
    assert_eq!(trace.moved(), said);
    assert_eq!(trace.reasons(), [Some(EndReason::Abort)]);
}

#[test]
fn a_killed_process_loses_at_most_its_last_buffer_and_has_no_end() {
    let Some((_, trace, signal)) = end("kill", 10_000) else { return };
    assert_eq!(signal, Some(9));
    assert_eq!(trace.reasons(), [None]);
    let n = trace.records().count();
    assert!((10_002 - 1638..=10_002).contains(&n), "{n} records of 10002");
    assert_eq!(trace.0[0].n_damaged, 0);
}

#[test]
fn a_program_may_say_that_its_phase_is_over() {
    let Some(program) = compile_c("flush.c") else { return };
    let directory = directory("flush");
    // Without the tracer the header's functions do nothing.
    let bare = Command::new(&program).current_dir(&directory).output().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&bare.status), Some(15));
    let output = run(&directory, Command::new(program));
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&output.status), Some(9));
    let said = Moved::said(&String::from_utf8_lossy(&output.stdout));
    assert_eq!(Trace::read(&directory.join("trace")).moved(), said);
}
