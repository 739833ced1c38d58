//! Destinations and buffers that keep less than a local disk does, go away and come back, or are shared with other machines.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use iotide_testkit::{Missing, program, skip};
use rustix::fs::{XattrFlags, getxattr, setxattr};

use crate::mount::has_fuse;
use crate::stage::{ONCE, pair, stage};
use crate::stage_faults::{among_mounts, in_memory, said, strace};

/// Whether a temporary file of a stager is in a directory.
fn has_temps(dir: &Path) -> bool {
    let mut entries = fs::read_dir(dir).unwrap().flatten();
    entries.any(|entry| entry.file_name().to_string_lossy().starts_with(".iotide-stage-"))
}

#[test]
fn nothing_is_safe_before_somebody_has_looked_and_after_a_kill() {
    let dir = pair();
    fs::write(dir.path().join("src/file"), vec![7; 8 << 20]).unwrap();
    let mut stager = dir
        .command(["stage", "out", "src", "dst", "--once", "--quiet", "30ms", "--bandwidth", "1M"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // From the moment on at which there is a status, whatever it says is no leave to remove anything.
    let status = dir.path().join("dst/.iotide-stage");
    let is_there = || fs::read_dir(&status).is_ok_and(|names| names.count() > 1);
    while !is_there() {
        assert!(stager.try_wait().unwrap().is_none(), "it was over too early");
        thread::sleep(Duration::from_millis(1));
    }
    while !has_temps(&dir.path().join("dst")) {
        stage(dir.path(), &["status", "dst"]).exits_with(1);
    }
    let told = stage(dir.path(), &["status", "dst"]).exits_with(1).stdout;
    assert!(told.contains("state run") && told.contains("1 (1 waiting, 0 open, 0 failed)"), "{told}");
    stage(dir.path(), &["verify", "dst"]).exits_with(1);
    stager.kill().unwrap();
    stager.wait().unwrap();
    let told = loop {
        let told = stage(dir.path(), &["status", "dst"]).exits_with(1).stdout;
        if !told.contains("state run") {
            break told;
        }
    };
    assert!(told.contains("state killed (run `iotide stage out` again to see what is left)"), "{told}");
    stage(dir.path(), &["status", "src"]).exits_with(1);
    let told = stage(dir.path(), &["verify", "dst"]).exits_with(1).stdout;
    assert!(told.contains("0 of 0 files"), "{told}");
    stage(dir.path(), &ONCE).exits_with(0);
    stage(dir.path(), &["status", "dst"]).exits_with(0);
    stage(dir.path(), &["verify", "dst"]).exits_with(0);
}

#[test]
fn a_buffer_of_which_all_was_safe_is_not_known_to_be_after_its_stager_was_killed() {
    let dir = pair();
    dir.write("src/file", "x");
    let mut stager = (dir.command(["stage", "out", "src", "dst", "--quiet", "30ms"]))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while stage(dir.path(), &["status", "dst"]).status != 0 {
        assert!(stager.try_wait().unwrap().is_none(), "it was over too early");
    }
    stager.kill().unwrap();
    stager.wait().unwrap();
    while stage(dir.path(), &["status", "dst"]).status == 0 {}
    let told = stage(dir.path(), &["status", "dst", "--format", "json"]).exits_with(1).json();
    assert_eq!((&told["state"], &told["files"]["safe"]), (&"killed".into(), &1.into()), "{told:#}");
}

/// An access control list as the kernel stores it: version 2, then tag, permissions and id. The owning group may read, and one user has these rights.
fn access_list(id: u32, rights: u16) -> Vec<u8> {
    let entries: [(u16, u16, u32); 5] =
        [(1, 6, u32::MAX), (2, rights, id), (4, 4, u32::MAX), (0x10, rights, u32::MAX), (0x20, 0, u32::MAX)];
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

#[test]
fn extended_attributes_and_access_lists_arrive_and_what_cannot_be_kept_is_counted() {
    let Some(memory) = in_memory() else { return skip(Missing::Data, "of /dev/shm") };
    let dir = pair();
    let (src, dst) = (memory.path().join("src"), dir.path().join("dst"));
    fs::create_dir_all(src.join("sub")).unwrap();
    for name in ["plain", "listed", "large"] {
        fs::write(src.join(name), name).unwrap();
    }
    let set = |path: &Path, name: &str, value: &[u8]| setxattr(path, name, value, XattrFlags::empty());
    if set(&src.join("listed"), "user.run", b"seven\0and more").is_err() {
        return skip(Missing::Data, "of a tmpfs with extended attributes");
    }
    set(&src.join("listed"), "system.posix_acl_access", &access_list(4711, 4)).unwrap();
    set(&src.join("sub"), "system.posix_acl_default", &access_list(4712, 4)).unwrap();
    set(&src.join("sub"), "user.of", b"a directory").unwrap();
    // More than a disk's file system takes.
    set(&src.join("large"), "user.large", &[b'x'; 60_000]).unwrap();
    let (from, to) = (src.to_str().unwrap(), dst.to_str().unwrap());
    let once = ["out", from, to, "--once", "--quiet", "30ms", "--format", "json"];
    let told = stage(dir.path(), &once).exits_with(0).json();
    let get = |name: &str, attribute: &str| {
        let mut value = vec![0; 65_536];
        let n = getxattr(dst.join(name), attribute, &mut value[..]).unwrap_or(0);
        value.truncate(n);
        value
    };
    assert_eq!(get("listed", "user.run"), b"seven\0and more");
    assert_eq!(get("listed", "system.posix_acl_access"), access_list(4711, 4));
    assert_eq!(get("sub", "system.posix_acl_default"), access_list(4712, 4));
    assert_eq!(get("sub", "user.of"), b"a directory");
    if get("large", "user.large").is_empty() {
        assert_eq!(told["plain_copies"], 1, "{told:#}");
        assert_eq!(told["notes"][0], "large: attribute user.large could not be kept");
    }
}

#[test]
fn what_a_plainer_file_system_cannot_keep_is_counted_over_all_looks_and_widens_no_rights() {
    let dir = pair();
    let src = dir.path().join("src");
    fs::create_dir(src.join("sub")).unwrap();
    for name in ["listed", "plain"] {
        fs::write(src.join(name), name).unwrap();
    }
    for name in ["listed", "sub"] {
        let set =
            setxattr(src.join(name), "system.posix_acl_access", &access_list(4711, 6), XattrFlags::empty());
        if set.is_err() {
            return skip(Missing::Data, "of a file system with access control lists");
        }
    }
    // Its further name is looked at a second time.
    fs::hard_link(src.join("plain"), src.join("plain too")).unwrap();
    assert_eq!(fs::metadata(src.join("listed")).unwrap().mode() & 0o777, 0o660);
    let script = r#"
        mount -t ramfs none dst || exit 99
        "$0" stage out src dst --once --quiet 30ms --format json >told; echo $?
        stat -c '%a %n' dst/listed dst/sub dst/plain"#;
    let Some(output) = among_mounts(dir.path(), script) else { return };
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "0\n640 dst/listed\n640 dst/sub\n644 dst/plain\n",
        "{}",
        said(&output)
    );
    let told: serde_json::Value = serde_json::from_str(&dir.read("told")).unwrap();
    assert_eq!(told["plain_copies"], 2, "{told:#}");
    assert_eq!(told["notes"][0], "listed: attribute system.posix_acl_access could not be kept");
}

#[test]
fn a_hard_link_that_becomes_a_copy_is_counted() {
    let dir = pair();
    dir.write("src/a", "one file");
    fs::hard_link(dir.path().join("src/a"), dir.path().join("src/b")).unwrap();
    let Some(mut command) = strace(&["-f", "-qq", "-o", "/dev/null", "-e", "inject=linkat:error=EPERM"])
    else {
        return;
    };
    command.arg(env!("CARGO_BIN_EXE_iotide")).arg("stage").args(ONCE).args(["--format", "json"]);
    let output = command.current_dir(dir.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&told["files"]["safe"], &told["plain_copies"]), (&2.into(), &1.into()), "{told:#}");
    let note = told["notes"][0].as_str().unwrap();
    let wanted = ["a: hard link to b could not be kept", "b: hard link to a could not be kept"];
    assert!(wanted.contains(&note), "{note}");
}

#[test]
fn a_full_destination_takes_what_fits_and_its_folders_have_their_modes() {
    let dir = pair();
    let src = dir.path().join("src");
    fs::create_dir(src.join("sub")).unwrap();
    for n in 0..5 {
        fs::write(src.join(format!("sub/small{n}")), [n; 5_000]).unwrap();
        fs::write(src.join(format!("large{n}")), vec![n; 3 << 20]).unwrap();
    }
    // A batch by itself, and tried before all others.
    let first = File::create(src.join("large0")).unwrap();
    rustix::fs::fallocate(&first, rustix::fs::FallocateFlags::empty(), 0, 260 << 20).unwrap();
    drop(first);
    fs::set_permissions(src.join("sub"), fs::Permissions::from_mode(0o751)).unwrap();
    let script = r#"
        mount -t tmpfs -o size=1m none dst || exit 99
        sleep 0.1 # all files have been quiet, so that they are due at once
        "$0" stage out src dst --once --quiet 30ms --purge staged --first 'large*' >told 2>&1; echo "full: $?"; cat told >&2
        ls dst dst/sub src src/sub; stat -c %a dst/sub
        "$0" stage status dst --format json >status; echo "status: $?"
        rm src/large0; mount -o remount,size=32m dst; "$0" stage out src dst --once --quiet 30ms --purge staged >&2; echo "room: $?"
        ls dst; find dst -name '.iotide-stage-*'"#;
    let Some(output) = among_mounts(dir.path(), script) else { return };
    let large = "large0\nlarge1\nlarge2\nlarge3\nlarge4\n";
    let small = "small0\nsmall1\nsmall2\nsmall3\nsmall4\n";
    let wanted = format!(
        "full: 2\ndst:\nsub\n\ndst/sub:\n{small}\nsrc:\n{large}sub\n\nsrc/sub:\n751\nstatus: 1\nroom: 0\n{}sub\n",
        &large[7..]
    );
    assert_eq!(String::from_utf8_lossy(&output.stdout), wanted, "{}", said(&output));
    let told = dir.read("told");
    assert!(told.contains("5 files of ") && told.contains("left: large3: No space left on device"), "{told}");
    let status: serde_json::Value = serde_json::from_str(&dir.read("status")).unwrap();
    assert_eq!(status["state"], "stuck");
    assert!(status["reason"].as_str().unwrap().contains("No space left"), "{status:#}");
}

#[test]
fn whoever_is_stuck_says_why_from_the_beginning() {
    let dir = pair();
    fs::write(dir.path().join("src/large"), vec![7; 3 << 20]).unwrap();
    let script = r#"
        mount -t tmpfs -o size=1m none dst || exit 99
        "$0" stage out src dst --quiet 30ms --policy immediate --deadline 1ms >&2 & stager=$!
        for i in {1..1500}; do
            "$0" stage status src --format json >status 2>/dev/null
            grep -q '"state": *"stuck"' status && break
            kill -0 $stager || exit 98
        done
        grep -m 1 '"reason"' status; kill $stager; wait $stager; echo $?"#;
    let Some(output) = among_mounts(dir.path(), script) else { return };
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains("No space left on device") && told.ends_with("2\n"), "{}", said(&output));
}

/// Server and client of a file system without links' owners, attributes or nanoseconds; `serve` and `connect` are functions of the script.
pub(crate) const SSHFS: &str = r#"
    serve() { socat "TCP-LISTEN:$1,bind=127.0.0.1,fork,reuseaddr" EXEC:/usr/lib/openssh/sftp-server 2>/dev/null & server=$!; }
    connect() {
        for i in {1..200}; do
            sshfs -f -o "directport=$1,allow_other,default_permissions" "127.0.0.1:$PWD/back" dst 2>/dev/null & client=$!
            for j in {1..200}; do mountpoint -q dst && return; kill -0 $client 2>/dev/null || break; sleep 0.02; done
            kill -9 $client 2>/dev/null; umount -l dst 2>/dev/null
        done; exit 98
    }
    trap 'kill -9 $client $server 2>/dev/null; umount -l dst 2>/dev/null' EXIT
"#;

pub(crate) fn has_sshfs() -> bool {
    has_fuse()
        && program("sshfs").is_some()
        && program("socat").is_some()
        && match Path::new("/usr/lib/openssh/sftp-server").exists() {
            true => true,
            false => {
                skip(Missing::Program, "sftp-server");
                false
            }
        }
}

#[test]
fn to_sshfs_files_and_links_go_and_what_it_cannot_keep_is_said() {
    if !has_sshfs() {
        return;
    }
    let dir = pair();
    fs::create_dir(dir.path().join("back")).unwrap();
    dir.write("src/file", "contents");
    symlink("file", dir.path().join("src/link")).unwrap();
    fs::hard_link(dir.path().join("src/file"), dir.path().join("src/other")).unwrap();
    let port = iotide_testkit::port();
    let script = format!(
        r#"{SSHFS}
        serve {port}; connect {port}
        "$0" stage out src dst --once --quiet 30ms --purge staged >&2; echo "stage: $?"
        "$0" stage verify dst >&2; echo "verify: $?"
        readlink back/link; cat back/file; ls src; find back -name '.iotide-stage-*'"#
    );
    let Some(output) = among_mounts(dir.path(), &script) else { return };
    let told = String::from_utf8_lossy(&output.stdout);
    assert_eq!(told, "stage: 0\nverify: 0\nfile\ncontents", "{}", said(&output));
}

#[test]
fn a_client_that_died_and_was_mounted_again_is_found_and_left_nothing_behind() {
    if !has_sshfs() {
        return;
    }
    let dir = pair();
    fs::create_dir(dir.path().join("back")).unwrap();
    fs::write(dir.path().join("src/file"), vec![7; 6 << 20]).unwrap();
    let port = iotide_testkit::port();
    let script = format!(
        r#"{SSHFS}
        serve {port}; connect {port}
        within() {{ for i in {{1..1500}}; do "${{@:2}}" && return; kill -0 $stager || break; sleep 0.04; done; "$0" stage status src >&2; exit $1; }}
        is_stuck() {{ "$0" stage status src | grep -q 'state stuck'; }}
        # Three seconds, of which the client sees a part.
        "$0" stage out src dst --quiet 30ms --policy immediate --bandwidth 2M >&2 & stager=$!
        within 97 compgen -G 'back/.iotide-stage-*' >/dev/null
        kill -9 $client; wait $client 2>/dev/null
        within 96 is_stuck
        umount -l dst; connect {port}
        within 95 [ -e back/file ]
        kill $stager; wait $stager; echo "stage: $?"
        "$0" stage verify dst >&2; echo "verify: $?"; find back -name '.iotide-stage-*'"#
    );
    let Some(output) = among_mounts(dir.path(), &script) else { return };
    assert_eq!(String::from_utf8_lossy(&output.stdout), "stage: 0\nverify: 0\n", "{}", said(&output));
}

#[test]
fn of_a_buffer_that_others_may_write_to_somebody_must_say_when_files_are_closed() {
    if !has_sshfs() {
        return;
    }
    let dir = pair();
    fs::create_dir(dir.path().join("back")).unwrap();
    dir.write("back/file", "contents");
    let port = iotide_testkit::port();
    // The other way round: `dst` is on sshfs, and is the buffer.
    let script = format!(
        r#"{SSHFS}
        serve {port}; connect {port}
        try() {{ what=$1; shift; "$0" stage out dst src --once --quiet 30ms "$@" >&2; echo "$what: $?"; ls -A src; }}
        again() {{ rm -r src dst/.iotide-stage; mkdir src; }}
        try silent; try flag --flag '{{}}.done'; touch dst/file.done; try done --flag '{{}}.done'
        again; try over --policy end
        again; export SLURM_JOB_NUM_NODES=1; try one-node
        again; export SLURM_JOB_NUM_NODES=2; try nodes"#
    );
    let Some(output) = among_mounts(dir.path(), &script) else { return };
    let there = ".iotide-stage\nfile\nfile.done\n";
    let wanted = format!(
        "silent: 2\nflag: 1\n.iotide-stage\ndone: 0\n{there}over: 0\n{there}one-node: 0\n{there}nodes: 2\n"
    );
    assert_eq!(String::from_utf8_lossy(&output.stdout), wanted, "{}", said(&output));
    let said = said(&output);
    assert!(
        said.contains("/dst is on fuse.sshfs") && said.contains("to which other nodes may write"),
        "{said}"
    );
}

#[test]
fn inputs_come_with_directories_that_are_empty() {
    let dir = pair();
    let (src, dst) = (dir.path().join("src"), dir.path().join("dst"));
    fs::create_dir_all(src.join("a/empty/deeper")).unwrap();
    fs::create_dir_all(src.join("b/empty")).unwrap();
    fs::set_permissions(src.join("a/empty"), fs::Permissions::from_mode(0o750)).unwrap();
    dir.write("list", "a\n");
    stage(dir.path(), &["in", "src", "dst", "--list", "list"]).exits_with(0);
    assert!(dst.join("a/empty/deeper").is_dir() && !dst.join("b").exists());
    assert_eq!(fs::metadata(dst.join("a/empty")).unwrap().mode() & 0o777, 0o750);
    stage(dir.path(), &["in", "src", "dst"]).exits_with(0);
    assert!(dst.join("b/empty").is_dir());
}

#[test]
fn links_are_removed_with_the_rest_and_directories_keep_their_times() {
    let dir = pair();
    let (src, dst) = (dir.path().join("src"), dir.path().join("dst"));
    fs::create_dir(src.join("sub")).unwrap();
    fs::write(src.join("sub/file"), "x").unwrap();
    symlink("file", src.join("sub/link")).unwrap();
    symlink("sub", src.join("to a directory")).unwrap();
    let old = std::time::SystemTime::UNIX_EPOCH + Duration::new(1_000_000, 5);
    File::open(src.join("sub")).unwrap().set_modified(old).unwrap();
    stage(dir.path(), &[&ONCE[..], &["--purge", "staged"]].concat()).exits_with(0);
    let left = |path: &Path| {
        fs::read_dir(path).unwrap().flatten().map(|entry| entry.file_name()).collect::<Vec<_>>()
    };
    assert_eq!(left(&src.join("sub")).len(), 0);
    assert!(left(&src).iter().all(|name| name == ".iotide-stage" || name == "sub"), "{:?}", left(&src));
    assert_eq!(fs::read_link(dst.join("sub/link")).unwrap(), Path::new("file"));
    assert_eq!(fs::read_link(dst.join("to a directory")).unwrap(), Path::new("sub"));
    // Once more: what is seen of the buffer now is what is given to the destination.
    stage(dir.path(), &[&ONCE[..], &["--purge", "staged"]].concat()).exits_with(0);
    for tree in [&src, &dst] {
        assert_eq!(fs::metadata(tree.join("sub")).unwrap().modified().unwrap(), old, "{}", tree.display());
    }
    stage(dir.path(), &["verify", "dst"]).exits_with(0);
}

/// A buffer whose disk fails: what was read of a file may not be what was written to it.
#[test]
fn what_the_buffer_could_not_store_is_left_with_its_reason() {
    let dir = pair();
    dir.write("src/bad", "bad");
    dir.write("src/good", "good");
    let bad = fs::canonicalize(dir.path().join("src/bad")).unwrap();
    let fault = ["-P", bad.to_str().unwrap(), "-e", "inject=fsync:error=EIO"];
    let Some(mut command) = strace(&[&["-f", "-qq", "-o", "/dev/null"], &fault[..]].concat()) else { return };
    command.arg(env!("CARGO_BIN_EXE_iotide")).arg("stage").args(ONCE).args(["--purge", "staged"]);
    let output = command.current_dir(dir.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let reason = "left: bad: the buffer could not store it: Input/output error";
    assert!(said(&output).contains(reason), "{}", said(&output));
    assert!(dir.path().join("src/bad").exists() && !dir.path().join("dst/bad").exists());
    assert_eq!(dir.read("dst/good"), "good");
    // A file system that has nothing to sync is no fault.
    let fault = ["-P", bad.to_str().unwrap(), "-e", "inject=fsync:error=EINVAL"];
    let Some(mut command) = strace(&[&["-f", "-qq", "-o", "/dev/null"], &fault[..]].concat()) else { return };
    command.arg(env!("CARGO_BIN_EXE_iotide")).arg("stage").args(ONCE);
    let output = command.current_dir(dir.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}
