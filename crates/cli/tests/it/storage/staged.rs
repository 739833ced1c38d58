//! `iotide stage` with a distributed file system at the other end, whose servers fail.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::{Ceph, Gluster, until, write};
use crate::stage::stage;

const N_FILES: usize = 24;

/// Fills a buffer with small and larger files, and returns what they hold.
fn fill(src: &Path, begin: &str) -> BTreeMap<String, Vec<u8>> {
    let names = (0..N_FILES).map(|n| format!("{begin}{n}"));
    names
        .enumerate()
        .map(|(n, name)| {
            write(&src.join(&name), if n % 6 == 0 { 6 << 20 } else { 200_000 });
            let bytes = fs::read(src.join(&name)).unwrap();
            (name, bytes)
        })
        .collect()
}

fn out<'a>(src: &'a Path, dst: &'a Path) -> Vec<&'a str> {
    let (src, dst) = (src.to_str().unwrap(), dst.to_str().unwrap());
    vec!["out", src, dst, "--once", "--quiet", "30ms", "--policy", "immediate", "--purge", "staged"]
}

/// Starts staging and returns when a part of it is done.
fn begun(src: &Path, dst: &Path) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iotide"));
    command.arg("stage").args(out(src, dst)).env_clear();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let is_under_way =
        |entry: fs::DirEntry| entry.file_name().to_string_lossy().starts_with(".iotide-stage-");
    until("something is being copied", || {
        child.try_wait().unwrap().is_some()
            || fs::read_dir(dst).is_ok_and(|mut list| list.any(|entry| entry.is_ok_and(is_under_way)))
    });
    child
}

/// Every file is in the buffer or, whole, at the destination, where it may take a while until servers that were gone are believed again.
#[track_caller]
fn nothing_is_lost(src: &Path, dst: &Path, files: &BTreeMap<String, Vec<u8>>) {
    for (name, bytes) in files {
        let is_in = |tree: &Path| fs::read(tree.join(name)).is_ok_and(|found| found == *bytes);
        until(&format!("{name} is here or there"), || is_in(src) || is_in(dst));
    }
}

/// Every file is at the destination, whole, and has left the buffer.
#[track_caller]
fn all_has_arrived(src: &Path, dst: &Path, files: &BTreeMap<String, Vec<u8>>) {
    for (name, bytes) in files {
        assert!(fs::read(dst.join(name)).unwrap() == *bytes, "{name}");
        assert!(!src.join(name).exists(), "{name} is still there");
    }
    let names = fs::read_dir(dst).unwrap().flatten().map(|entry| entry.file_name());
    let left: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with(".iotide-stage-")).collect();
    assert!(left.is_empty(), "temporary files: {left:?}");
    stage(src, &["verify", dst.to_str().unwrap()]).exits_with(0);
}

#[test]
fn a_file_that_another_node_writes_is_left_until_its_flag_is_there() {
    let Some(gluster) = Gluster::start() else { return };
    gluster.volume("buffer", &[], 2);
    let (src, elsewhere) = (gluster.mount("buffer", "here", ""), gluster.mount("buffer", "elsewhere", ""));
    let dst = gluster.folder("dst");
    let mut written = fs::File::create(elsewhere.join("checkpoint")).unwrap();
    written.write_all(b"half").unwrap();
    let refused = stage(&dst, &out(&src, &dst)).exits_with(2);
    assert!(refused.stderr.contains("fuse.glusterfs") && refused.stderr.contains("--flag"), "{refused:?}");
    let with_flag = [&out(&src, &dst)[..9], &["never", "--flag", "{}.done"]].concat();
    stage(&dst, &with_flag);
    assert!(!dst.join("checkpoint").exists(), "it is open elsewhere");
    written.write_all(b" and half").unwrap();
    drop(written);
    fs::write(elsewhere.join("checkpoint.done"), "").unwrap();
    until("the other client's file is seen", || {
        stage(&dst, &with_flag);
        fs::read(dst.join("checkpoint")).is_ok_and(|bytes| bytes == b"half and half")
    });
}

#[test]
fn nothing_is_lost_when_bricks_fail_and_when_a_client_does() {
    let Some(gluster) = Gluster::start() else { return };
    gluster.volume("rep", &["replica", "3"], 3);
    let dst = gluster.mount("rep", "rep", "");
    let src = gluster.folder("src");

    // One of three: nobody notices.
    let mut files = fill(&src, "one");
    let mut run = begun(&src, &dst);
    gluster.kill_brick("rep", 1);
    assert_eq!(run.wait().unwrap().code(), Some(0));
    all_has_arrived(&src, &dst, &files);

    // Two of three: there is no quorum, and nothing can be written.
    files.append(&mut fill(&src, "two"));
    let mut run = begun(&src, &dst);
    gluster.kill_brick("rep", 2);
    let status = run.wait().unwrap().code();
    assert!(matches!(status, Some(0..=2)), "{status:?}");
    let left =
        fs::read_dir(&src).unwrap().flatten().filter(|entry| entry.file_name() != ".iotide-stage").count();
    assert_eq!(left == 0, status == Some(0), "{left} files are left, and the status is {status:?}");
    let without_quorum = stage(&src, &out(&src, &dst));
    assert!(left == 0 || without_quorum.status != 0, "{without_quorum:?}");

    // And back.
    gluster.revive("rep", 3);
    until("the quorum is back", || fs::write(dst.join("probe"), "probe").is_ok());
    fs::remove_file(dst.join("probe")).unwrap();
    nothing_is_lost(&src, &dst, &files);
    // What was begun without a quorum answers with errors until the servers have agreed on it.
    // By themselves they look for that every ten minutes only. Between two tries they have longer and longer: what is written again and again
    // is never agreed on, and a busy machine takes its time.
    let mut outcome = None;
    for pause_s in [1, 1, 2, 2, 4, 4, 8, 8, 16, 16, 32, 32] {
        gluster.heal("rep");
        std::thread::sleep(Duration::from_secs(pause_s));
        let staged = stage(&src, &out(&src, &dst));
        let is_done = staged.status == 0;
        outcome = Some(staged);
        if is_done {
            break;
        }
    }
    outcome.unwrap().exits_with(0);
    all_has_arrived(&src, &dst, &files);

    // The client is killed in the middle, and mounted again in the same place.
    files.append(&mut fill(&src, "three"));
    let mut run = begun(&src, &dst);
    gluster.kill_client_and_mount_again("rep", &dst, "");
    let status = run.wait().unwrap().code();
    assert!(matches!(status, Some(0..=2)), "{status:?}");
    nothing_is_lost(&src, &dst, &files);
    stage(&src, &out(&src, &dst)).exits_with(0);
    all_has_arrived(&src, &dst, &files);

    // Another machine sees the same.
    let elsewhere = gluster.mount("rep", "elsewhere", "");
    all_has_arrived(&src, &elsewhere, &files);
}

#[test]
fn a_server_of_cephfs_that_stops_for_a_while_costs_time_and_nothing_else() {
    let Some(ceph) = Ceph::start() else { return };
    let (src, dst) = (ceph.folder("src"), ceph.mounted());
    let files = fill(&src, "file");
    let mut run = begun(&src, &dst);
    ceph.signal_osd("STOP");
    // Whatever is under way waits; what is noted as safe is safe.
    std::thread::sleep(Duration::from_secs(2));
    ceph.signal_osd("CONT");
    assert_eq!(run.wait().unwrap().code(), Some(0));
    all_has_arrived(&src, &dst, &files);
}
