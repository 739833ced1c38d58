//! Events that the ring holds, and those it has no room for.

use std::process::Command;
use std::time::Duration;

use iotide_kernel::{Events, Lost, Missing, Tracer};
use iotide_testkit::{FreshDir, skip};

/// A tracer with a ring of that size; `None`, said loudly, where this machine does not let us.
fn attached(size: usize) -> Option<(Tracer, Events)> {
    match Tracer::attach_with_ring(size) {
        Ok(attached) => Some(attached),
        Err(Missing::Rights(_) | Missing::Processor | Missing::Description(_)) => {
            skip(iotide_testkit::Missing::Data, "rights to trace by the kernel");
            None
        }
        Err(missing) => panic!("{missing}"),
    }
}

/// Runs a program that writes `n` times. Returns how many events there were, and what was lost.
fn run(dir: &FreshDir, size: usize, n: u32, drains: bool) -> Option<(u64, Lost)> {
    let (tracer, mut events) = attached(size)?;
    let mut command = Command::new("dd");
    command.args(["if=/dev/zero", "of=file", "bs=1", "status=none"]).arg(format!("count={n}"));
    let mut child = tracer.spawn(command.current_dir(dir.path())).unwrap();
    let mut n_events = 0;
    let status = loop {
        if drains {
            n_events += events.drain(|_| {}) as u64;
        }
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    assert!(status.success());
    n_events += events.drain(|_| {}) as u64;
    Some((n_events, tracer.lost()))
}

#[test]
fn what_does_not_fit_is_counted_to_the_event() {
    let dir = FreshDir::new("kernel-ring");
    let Some((all, nothing)) = run(&dir, 8 << 20, 20_000, true) else { return };
    assert_eq!(nothing, Lost::default());
    assert!(all > 20_000, "{all}");
    let Some((some, lost)) = run(&dir, 64 << 10, 20_000, false) else { return };
    assert!(lost.ring_full > 10_000, "{lost:?}");
    assert_eq!(some + lost.ring_full, all);
}

#[test]
fn a_program_that_cannot_be_started_is_an_error_and_nobody_waits() {
    let Some((tracer, _)) = attached(1 << 20) else { return };
    let error = tracer.spawn(&mut Command::new("/no/such/program")).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn nobody_else_is_seen() {
    let dir = FreshDir::new("kernel-others");
    let Some((tracer, mut events)) = attached(1 << 20) else { return };
    let write = |name: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("printf 123 > {name}")]).current_dir(dir.path());
        command
    };
    assert!(write("unseen").status().unwrap().success());
    assert_eq!(events.drain(|_| {}), 0);
    assert!(tracer.spawn(&mut write("seen")).unwrap().wait().unwrap().success());
    assert!(events.drain(|_| {}) > 0);
}
