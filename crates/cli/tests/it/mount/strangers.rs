//! Attacks of an ordinary user on a mount that root serves to all; each worked once.

use super::*;

const NOBODY: u32 = 65534;

/// A mount by root below which everyone may make files; `None`, said aloud, where this test cannot become another user.
fn mount(options: &[&str]) -> Option<Mount> {
    if !is_root() {
        return None;
    }
    let mount = Mount::new(options)?;
    fs::set_permissions(mount.backing(), fs::Permissions::from_mode(0o777)).unwrap();
    Some(mount)
}

/// A Python program to be run as a user in the folder that is shown.
fn python_as(uid: u32, mount: &Mount, script: &str) -> Option<Command> {
    // One that every user may run, whatever this user has on the path.
    let python = Path::new("/usr/bin/python3");
    if !python.exists() {
        skip(Missing::Program, "/usr/bin/python3");
        return None;
    }
    let setpriv = program("setpriv")?;
    let mut command = Command::new(setpriv);
    command.args([format!("--reuid={uid}"), format!("--regid={uid}"), "--clear-groups".to_owned()]);
    command.arg(python).args(["-c", script]).arg(mount.backing()).current_dir(mount.shown());
    Some(command)
}

/// A file system in memory without access control lists, until this is dropped.
struct Ramfs(FreshDir);

impl Ramfs {
    fn new() -> Option<Self> {
        if !is_root() {
            return None;
        }
        let dir = FreshDir::new("ramfs");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let at = dir.join("ram");
        fs::create_dir(&at).unwrap();
        if !Command::new("mount").args(["-t", "ramfs", "ramfs"]).arg(&at).status().unwrap().success() {
            skip(Missing::Data, "of ramfs: it cannot be mounted");
            return None;
        }
        fs::set_permissions(&at, fs::Permissions::from_mode(0o1777)).unwrap();
        Some(Self(dir))
    }
}

impl Drop for Ramfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.join("ram")).status();
    }
}

/// Runs a script of the shell as a user, with a group that is also the only one, or as in `groups`.
fn shell_as(uid: u32, gid: u32, groups: &str, at: &Path, script: &str) -> Output {
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={uid}"), format!("--regid={gid}"), groups.to_owned()]);
    command.args(["sh", "-c", script]).current_dir(at).output().unwrap()
}

#[test]
fn a_backing_without_access_lists_is_open_to_those_who_may() {
    let Some(ramfs) = Ramfs::new() else { return };
    let Some(mount) = Mount::over(&ramfs.0.join("ram")) else { return };
    let alone = "--clear-groups";
    let run = |uid, gid, groups, script: &str| {
        let output = shell_as(uid, gid, groups, &mount.shown(), script);
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    assert_eq!(
        run(
            NOBODY,
            NOBODY,
            alone,
            "umask 022; echo mine >open; (umask 077; echo mine >closed); cat open closed"
        ),
        "mine\nmine\n"
    );
    assert_eq!(run(0, 0, alone, "cat open closed"), "mine\nmine\n", "root may read what is another's");
    assert_eq!(run(NOBODY - 1, NOBODY - 1, alone, "cat open"), "mine\n", "everyone may");
    let refused = run(NOBODY - 1, NOBODY - 1, alone, "cat closed; echo no >>open");
    assert_eq!(refused.matches("Permission denied").count(), 2, "{refused}");
    // The group that a user has beside the first.
    assert_eq!(run(0, 0, alone, "mkdir team; chgrp 4999 team; chmod 2770 team"), "");
    assert_eq!(run(NOBODY, NOBODY, "--groups=4999", "echo ours >team/file; cat team/file"), "ours\n");
    assert!(run(NOBODY, NOBODY, alone, "ls team").contains("Permission denied"));
    let list = rustix::fs::getxattr(mount.shown().join("open"), "system.posix_acl_access", &mut [0_u8; 64]);
    assert_eq!(list, Err(rustix::io::Errno::NODATA));
}

#[test]
fn root_with_another_group_leaves_no_thread_without_rights() {
    let Some(mount) = mount(&[]) else { return };
    // One file after the other meets every thread that serves.
    let make =
        |owner: &str| format!("i=0; while [ $i -lt 200 ]; do : >{owner}$i || exit 1; i=$((i+1)); done");
    for (owner, uid, gid) in [("root", 0, 4999), ("nobody", NOBODY, NOBODY)] {
        let output = shell_as(uid, gid, "--clear-groups", &mount.shown(), &make(owner));
        assert!(output.status.success(), "{owner}: {}", String::from_utf8_lossy(&output.stderr));
        for i in 0..200 {
            let file = fs::metadata(mount.backing().join(format!("{owner}{i}"))).unwrap();
            assert_eq!((file.uid(), file.gid()), (uid, gid), "{owner}{i}");
        }
    }
}

#[test]
fn every_way_of_writing_takes_set_user_id_away() {
    let Some(mount) = mount(&[]) else { return };
    let ways = [
        ("write", "os.write(os.open(f, os.O_WRONLY), b'evil')"),
        ("append", "os.write(os.open(f, os.O_WRONLY | os.O_APPEND), b'evil')"),
        ("pwrite", "os.pwrite(os.open(f, os.O_RDWR), b'evil', 2)"),
        ("writev", "os.writev(os.open(f, os.O_RDWR), [b'e', b'vil'])"),
        ("truncate", "os.truncate(f, 3)"),
        ("ftruncate", "os.ftruncate(os.open(f, os.O_RDWR), 3)"),
        ("O_TRUNC", "os.open(f, os.O_WRONLY | os.O_TRUNC)"),
        ("fallocate", "os.posix_fallocate(os.open(f, os.O_RDWR), 0, 9000)"),
        ("copy_file_range", "os.copy_file_range(os.open('source', os.O_RDONLY), os.open(f, os.O_WRONLY), 4)"),
        ("sendfile", "os.sendfile(os.open(f, os.O_WRONLY), os.open('source', os.O_RDONLY), 0, 4)"),
        ("splice", "r, w = os.pipe(); os.write(w, b'evil'); os.splice(r, os.open(f, os.O_WRONLY), 4)"),
    ];
    fs::write(mount.backing().join("source"), "evil").unwrap();
    for (name, way) in ways {
        let file = mount.backing().join(name);
        fs::write(&file, "a program").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o6777)).unwrap();
        let Some(mut attack) = python_as(NOBODY, &mount, &format!("import os; f = '{name}'; {way}")) else {
            return;
        };
        let output = attack.output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o6000, 0, "{name}");
    }
}

#[test]
fn someone_who_does_not_give_a_lease_up_freezes_nobody_else() {
    let Some(mount) = mount(&[]) else { return };
    // Holds leases on files of the backing directory, and opens each through the mount, which has to wait for the lease.
    let script = "import fcntl, os, signal, sys, threading, time\n\
                  signal.signal(signal.SIGIO, signal.SIG_IGN)\n\
                  held = []\n\
                  for i in range(100):\n    \
                      f = os.open(sys.argv[1] + '/leased%d' % i, os.O_CREAT | os.O_RDWR, 0o600)\n    \
                      fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_WRLCK)\n    \
                      held.append(f)\n\
                  def wait(i):\n    \
                      (os.truncate('leased%d' % i, 1) if i % 2 else os.open('leased%d' % i, os.O_RDONLY))\n\
                  for i in range(100):\n    \
                      threading.Thread(target=wait, args=(i,), daemon=True).start()\n\
                  time.sleep(1)\n\
                  print('waiting', flush=True)\n\
                  time.sleep(600)\n";
    let Some(mut attack) = python_as(NOBODY, &mount, script) else { return };
    let mut attacker = attack.stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(attacker.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "waiting\n");
    // A lease that is not given up is broken after 45 s: less than that means that nobody waited for it.
    let mut victim = Command::new("timeout");
    victim.args([
        "30",
        "sh",
        "-c",
        "echo text >file && cat file && mkdir d && ls && : >>file && dd if=/dev/zero of=big bs=1M count=8",
    ]);
    let output = victim.current_dir(mount.shown()).output().unwrap();
    attacker.kill().unwrap();
    attacker.wait().unwrap();
    assert!(output.status.success(), "{:?} {}", output.status, String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_job_of_another_user_cannot_be_claimed() {
    let Some(mount) = mount(&["--control", "control"]) else { return };
    for (name, uid) in [("victim", 0), ("thief", NOBODY)] {
        assert!(write_as(&mount, name, Some(("SLURM_JOB_ID", "4711")), uid).wait().unwrap().success());
    }
    let expected = ["uid:0/4711", "uid:65534/4711"];
    let began = Instant::now();
    loop {
        let answer = mount.ask("jobs");
        let jobs = answer["jobs"].as_array().unwrap();
        let bytes = |name: &str| jobs.iter().find(|job| job["job"] == name).map(|job| job["bytes"].clone());
        if expected.iter().all(|name| bytes(name) == Some(Value::from(4 << 20))) {
            break;
        }
        // A request is counted just after it was answered.
        assert!(began.elapsed() < Duration::from_secs(10), "{jobs:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(mount.ask("period uid:65534/4711 3"), serde_json::json!({"ok": true}));
    let answer = mount.ask("jobs");
    let of = |name: &str| {
        let jobs = answer["jobs"].as_array().unwrap().iter();
        jobs.clone().find(|job| job["job"] == name).unwrap()["period_s"].as_f64()
    };
    assert_eq!(of(expected[1]), Some(3.0));
    assert_ne!(of(expected[0]), Some(3.0));
}

#[test]
fn names_of_jobs_cost_a_share_of_the_table_and_no_more() {
    let Some(mount) = mount(&["--control", "control"]) else { return };
    let mut attack = Command::new("sh");
    attack.args(["-c", "i=0; while [ $i -lt 600 ]; do IOSETS_JOB_ID=x$i dd if=/dev/zero of=f bs=1 count=1 status=none; i=$((i+1)); done"]);
    let status = attack.uid(NOBODY).gid(NOBODY).current_dir(mount.shown()).status().unwrap();
    assert!(status.success());
    let answer = mount.ask("jobs");
    let n_jobs = answer["jobs"].as_array().unwrap().len();
    assert!((100..=260).contains(&n_jobs), "{n_jobs}");
}

#[test]
fn open_files_of_one_user_leave_descriptors_to_others() {
    if !is_root() || !has_fuse() {
        return;
    }
    let dir = FreshDir::new("mount-descriptors");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for name in ["backing", "shown"] {
        fs::create_dir(dir.join(name)).unwrap();
    }
    fs::set_permissions(dir.join("backing"), fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 1024; exec \"$0\" mount backing shown", env!("CARGO_BIN_EXE_iotide")]);
    let (child, _) = started({
        command.current_dir(dir.path());
        command
    });
    let mount = Mount { dir, child };
    let script = "import os, sys, time\n\
                  held = []\n\
                  try:\n    \
                      while len(held) < 900: held.append(os.open('f%d' % len(held), os.O_CREAT | os.O_RDWR))\n\
                  except OSError as error: pass\n\
                  print(len(held), flush=True)\n\
                  time.sleep(600)\n";
    let Some(mut attack) = python_as(NOBODY, &mount, script) else { return };
    let mut attacker = attack.stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(attacker.stdout.take().unwrap()).read_line(&mut said).unwrap();
    let n_held: usize = said.trim().parse().unwrap();
    assert!((16..200).contains(&n_held), "{n_held}");
    let script = "import os\nheld = [os.open('g%d' % i, os.O_CREAT | os.O_RDWR) for i in range(30)]\nos.listdir('.')\n";
    for uid in [NOBODY - 1, 0] {
        let mut other = python_as(uid, &mount, script).unwrap();
        let output = other.output().unwrap();
        let _ = Command::new("sh").args(["-c", "rm -f g*"]).current_dir(mount.backing()).status();
        assert!(output.status.success(), "{uid}: {}", String::from_utf8_lossy(&output.stderr));
    }
    attacker.kill().unwrap();
    attacker.wait().unwrap();
}

#[test]
fn requests_too_small_to_be_held_up_do_not_take_the_storage_from_others() {
    let Some(mount) = mount(&["--bandwidth", "8MiB"]) else { return };
    let script = "import os\n\
                  file = os.open('tiny', os.O_CREAT | os.O_WRONLY)\n\
                  block = bytes(16384)\n\
                  for i in range(1000000):\n    \
                      os.pwrite(file, block, i * 16384)\n    \
                      if i == 1000: print('at it', flush=True)\n";
    let Some(mut attack) = python_as(NOBODY, &mount, script) else { return };
    let mut attacker = attack.stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(attacker.stdout.take().unwrap()).read_line(&mut said).unwrap();
    let moved = || fs::metadata(mount.backing().join("tiny")).unwrap().len() >> 20;
    let before = moved();
    let mut victim = Command::new("dd");
    victim.args(["if=/dev/zero", "of=file", "bs=1M", "count=8", "status=none"]);
    assert!(victim.current_dir(mount.shown()).status().unwrap().success());
    let meanwhile = moved() - before;
    attacker.kill().unwrap();
    attacker.wait().unwrap();
    assert!(meanwhile < 80, "{meanwhile} MiB of small requests beside 8 MiB");
}
