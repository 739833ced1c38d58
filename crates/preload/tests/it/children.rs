//! Programs that start others without leaving their own memory, and requests that go straight to the kernel.

use std::process::Command;

use iotide_wire::{Flags, LossKind, NoteKind, Total};

use crate::support::{Moved, Trace, compile, compile_c, directory, run, run_well};

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
    let trace = Trace::read(&directory.join("trace"));
    assert_eq!(trace.0[0].totals.get(Total::Rings), n_rings);
}

/// Writes ten blocks and ends well, as a child of `launcher`.
fn run_by(test: &str, launcher: &[&str], program: &std::path::Path) -> (Moved, Trace) {
    let directory = directory(test);
    let mut command = Command::new(launcher[0]);
    command.args(&launcher[1..]).arg(program).args(["return", "10"]);
    run_well(&directory, command)
}

#[test]
fn a_clean_environment_does_not_leave_the_tracer_behind() {
    let Some(program) = compile_c("ends.c") else { return };
    let clean_by_python = "import os, subprocess, sys
subprocess.run(sys.argv[1:], env={'HOME': '/'}, check=True)
os.environ.clear()
os.execv(sys.argv[1], sys.argv[1:])";
    for (test, launcher) in
        [("env_clean", vec!["env", "-i"]), ("python_clean", vec!["python3", "-c", clean_by_python])]
    {
        if iotide_testkit::program(launcher[0]).is_none() {
            continue;
        }
        let (said, trace) = run_by(test, &launcher, &program);
        trace.assert_whole();
        let trace = trace.within(&crate::support::directory_of(test));
        assert_eq!(trace.moved(), said, "{launcher:?}");
    }
}

#[test]
fn a_child_that_asks_to_be_left_alone_is() {
    let Some(program) = compile_c("ends.c") else { return };
    let (_, trace) = run_by("disabled", &["env", "IOTIDE_DISABLE=1"], &program);
    assert_eq!(trace.moved(), Moved::default());
}

#[test]
fn children_that_cannot_be_traced_are_named() {
    let Some(fixed) = compile("gcc", "ends.c", &["-static"]) else { return };
    let (_, trace) = run_by("static_child", &["env"], &fixed);
    let notes: Vec<_> = trace.0.iter().flat_map(|process| &process.notes).collect();
    assert_eq!(notes, [&(NoteKind::StaticChild, fixed.display().to_string())]);

    let is_root =
        std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    if !is_root {
        return iotide_testkit::skip(
            iotide_testkit::Missing::Data,
            "root, to give a program rights of its own",
        );
    }
    let directory = directory("setuid");
    let privileged = directory.join("true");
    std::fs::copy("/bin/true", &privileged).unwrap();
    std::os::unix::fs::chown(&privileged, Some(65534), None).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o4755);
    std::fs::set_permissions(&privileged, mode).unwrap();
    let mut command = Command::new("env");
    command.arg(&privileged);
    assert!(run(&directory, command).status.success());
    let notes: Vec<_> = Trace::read(&directory.join("trace")).0.remove(0).notes;
    assert_eq!(notes, [(NoteKind::PrivilegedChild, privileged.display().to_string())]);
}

#[test]
fn what_is_left_out_and_what_the_kernel_moved_is_added_up() {
    let Some(program) = compile_c("posix_calls.c") else { return };
    let directory = directory("totals");
    let mut command = Command::new("env");
    // One of the files is left out.
    command.args(["IOTIDE_INCLUDE=", "IOTIDE_EXCLUDE=*/copy"]).arg(program);
    let (said, trace) = run_well(&directory, command);
    let totals = trace.0[0].totals;
    let of = |moved: &Moved, direction| moved.0.get(&("posix", direction)).copied().unwrap_or(0);
    let all = of(&said, "read") + of(&said, "write");
    let recorded = of(&trace.moved(), "read") + of(&trace.moved(), "write");
    assert!(recorded < all);
    assert_eq!(recorded + totals.get(Total::ExcludedBytes), all);
    for (kernel, seen) in [(Total::KernelRead, Total::SeenRead), (Total::KernelWritten, Total::SeenWritten)] {
        let (kernel, seen) = (totals.get(kernel) as f64, totals.get(seen) as f64);
        // The counts themselves are read, and the last lines go to a pipe: a few hundred bytes.
        assert!((kernel - seen).abs() < 1000.0, "{kernel} {seen}");
    }
    assert!(totals.get(Total::FlushNanos) > 0);
}

#[test]
fn ranks_are_taken_from_any_launcher_and_from_what_the_user_names() {
    let Some(program) = compile_c("ends.c") else { return };
    for (variables, rank) in [
        (&["RANK=3", "WORLD_SIZE=4"][..], Some(3)),
        (&["RANK=3"], None),
        (&["PALS_RANKID=5"], Some(5)),
        (
            &["MY_PLACE=7", "MY_PLACES=8", "IOTIDE_RANK_FROM=MY_PLACE:MY_PLACES", "RANK=1", "WORLD_SIZE=2"],
            Some(7),
        ),
    ] {
        let (_, trace) = run_by("ranks", &[&["env"], variables].concat(), &program);
        assert_eq!(trace.0.last().unwrap().rank, rank, "{variables:?}");
    }
}

#[test]
fn files_in_shared_memory_are_files() {
    let Some(program) = compile_c("ends.c") else { return };
    let place = std::path::Path::new("/dev/shm").join(format!("iotide-test-{}", std::process::id()));
    if std::fs::create_dir_all(&place).is_err() {
        return iotide_testkit::skip(iotide_testkit::Missing::Data, "/dev/shm");
    }
    let directory = directory("shared_memory");
    let mut command = Command::new("env");
    command.arg("-C").arg(&place).arg("IOTIDE_INCLUDE=").arg(program).args(["return", "10"]);
    let (said, trace) = run_well(&directory, command);
    std::fs::remove_dir_all(&place).unwrap();
    assert_eq!(trace.moved(), said);
}
