use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use iotide_testkit::{Missing, program, skip};

use crate::util::{Dir, Outcome};

fn stage(dir: &Path, args: &[&str]) -> Outcome {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iotide"));
    let command = command.arg("stage").args(args).current_dir(dir).env_clear().stdin(Stdio::null());
    Outcome::of(command.output().unwrap())
}

/// A directory with an empty `src` and `dst`.
fn pair() -> Dir {
    let dir = Dir::new();
    fs::create_dir(dir.path().join("src")).unwrap();
    fs::create_dir(dir.path().join("dst")).unwrap();
    dir
}

const ONCE: [&str; 6] = ["out", "src", "dst", "--once", "--quiet", "30ms"];

#[test]
fn an_odd_tree_arrives_as_it_was() {
    let dir = pair();
    let (src, dst) = (dir.path().join("src"), dir.path().join("dst"));
    fs::create_dir_all(src.join("a/empty")).unwrap();
    let deep = (0..60).fold(src.clone(), |path, _| path.join("d".repeat(100)));
    let mut here = src.clone();
    for _ in 0..30 {
        here = here.join("d".repeat(100));
        fs::create_dir(&here).unwrap();
    }
    assert!(deep.as_os_str().len() > 4096);
    fs::write(here.join("deep"), "x").unwrap();
    let long = "n".repeat(255);
    fs::write(src.join(&long), "long").unwrap();
    let invalid = OsStr::from_bytes(b"invalid \xff\xfe\n");
    fs::write(src.join(invalid), "bytes").unwrap();
    fs::write(src.join("a/one"), [7; 100_000]).unwrap();
    fs::hard_link(src.join("a/one"), src.join("a/two")).unwrap();
    symlink("../nowhere", src.join("a/link")).unwrap();
    let sparse = File::create(src.join("sparse")).unwrap();
    sparse.write_all_at(b"end", 20 << 20).unwrap();
    drop(sparse);
    fs::write(src.join("old"), "old").unwrap();
    let old = std::time::SystemTime::UNIX_EPOCH + Duration::new(1_000_000, 5);
    File::options().write(true).open(src.join("old")).unwrap().set_modified(old).unwrap();
    fs::set_permissions(src.join("old"), fs::Permissions::from_mode(0o4640)).unwrap();
    fs::set_permissions(src.join("a"), fs::Permissions::from_mode(0o550)).unwrap();
    assert!(Command::new("mkfifo").arg(src.join("pipe")).status().unwrap().success());

    let told = stage(dir.path(), &ONCE).exits_with(0);
    assert!(
        told.stdout.starts_with("8 files of ") && told.stdout.contains("not copied: pipe"),
        "{}",
        told.stdout
    );
    assert_eq!(fs::read(dst.join(&long)).unwrap(), b"long");
    assert_eq!(fs::read(dst.join(invalid)).unwrap(), b"bytes");
    assert!(dst.join(here.strip_prefix(&src).unwrap()).join("deep").is_file());
    assert_eq!(fs::read_link(dst.join("a/link")).unwrap(), Path::new("../nowhere"));
    let stat = |name: &str| fs::metadata(dst.join(name)).unwrap();
    assert_eq!(stat("a/one").ino(), stat("a/two").ino());
    assert_eq!((stat("sparse").len(), stat("sparse").blocks() < 1000), ((20 << 20) + 3, true));
    assert_eq!((stat("old").modified().unwrap(), stat("old").mode() & 0o7777), (old, 0o4640));
    assert_eq!(stat("a").mode() & 0o7777, 0o550);
    assert!(dst.join("a/empty").is_dir() && !dst.join("pipe").exists());

    // Twice is once; and one flipped byte is found.
    let inode = stat("old").ino();
    stage(dir.path(), &ONCE).exits_with(0);
    assert_eq!(stat("old").ino(), inode);
    assert_eq!(
        stage(dir.path(), &["verify", "dst", "--format", "json"]).exits_with(0).json()["runs"][0]["files_good"],
        8
    );
    File::options().write(true).open(dst.join("a/one")).unwrap().write_all_at(&[8], 99_999).unwrap();
    let told = stage(dir.path(), &["verify", "dst"]).exits_with(1).stdout;
    assert!(told.contains("wrong: a/one: its contents differ"), "{told}");
    // Whatever was changed there is not removed here.
    stage(dir.path(), &[&ONCE[..], &["--purge", "staged"]].concat()).exits_with(0);
    assert!(src.join("a/one").exists() && src.join("a/two").exists() && !src.join("old").exists());
    fs::set_permissions(dst.join("a"), fs::Permissions::from_mode(0o750)).unwrap();
    fs::set_permissions(src.join("a"), fs::Permissions::from_mode(0o750)).unwrap();
}

#[test]
fn an_open_file_is_left_and_what_was_refused_is_untouched() {
    let dir = pair();
    let src = dir.path().join("src");
    let mut open = File::create(src.join("open")).unwrap();
    open.write_all(b"half").unwrap();
    fs::write(src.join("closed"), "whole").unwrap();
    let told = stage(dir.path(), &ONCE).exits_with(1).stdout;
    assert!(told.contains("left: open: a process has it open to write"), "{told}");
    assert!(!dir.path().join("dst/open").exists());
    assert_eq!(stage(dir.path(), &["wait", "src/closed"]).status, 0);
    assert_eq!(stage(dir.path(), &["wait", "src/open", "--timeout", "10ms"]).status, 1);
    drop(open);
    stage(dir.path(), &ONCE).exits_with(0);
    assert_eq!(dir.read("dst/open"), "half");
    assert_eq!(stage(dir.path(), &["status", "dst"]).status, 0);

    fs::create_dir(src.join("sub")).unwrap();
    for (from, to) in [("src", "src/sub"), ("src/sub", "src"), ("src", "src")] {
        let told = stage(dir.path(), &["out", from, to, "--once"]).exits_with(2);
        assert!(told.stderr.contains("neither inside the other"), "{}", told.stderr);
    }
    // A mount point with nothing mounted: the directory is there, its mark is not.
    fs::rename(dir.path().join("dst"), dir.path().join("away")).unwrap();
    fs::create_dir(dir.path().join("dst")).unwrap();
    let told = stage(dir.path(), &[&ONCE[..], &["--purge", "staged"]].concat()).exits_with(2);
    assert!(told.stderr.contains("nothing is written or removed"), "{}", told.stderr);
    assert_eq!(fs::read_dir(dir.path().join("dst")).unwrap().count(), 0);
    assert!(src.join("closed").exists());
}

#[test]
fn inputs_come_in_the_order_of_a_list_as_far_as_there_is_room() {
    let dir = pair();
    fs::create_dir(dir.path().join("src/sub")).unwrap();
    for (name, size) in [("a", 1000), ("sub/b", 2000), ("c", 3000)] {
        fs::write(dir.path().join("src").join(name), vec![1; size]).unwrap();
    }
    dir.write("list", "sub/b\n./a\nc\n");
    let told = stage(dir.path(), &["in", "src", "dst", "--list", "list", "--capacity", "3000"]).exits_with(1);
    assert!(told.stdout.contains("left: c: there is no room for it"), "{}", told.stdout);
    assert!(dir.path().join("dst/sub/b").exists() && !dir.path().join("dst/c").exists());
    assert_eq!(stage(dir.path(), &["wait", "dst/sub/b", "dst/a"]).status, 0);
    assert_eq!(stage(dir.path(), &["wait", "dst/c"]).status, 1);
    stage(dir.path(), &["in", "src", "dst"]).exits_with(0);
    assert_eq!(fs::read(dir.path().join("dst/c")).unwrap(), [1; 3000]);
    dir.write("list", "../etc\n");
    assert!(
        stage(dir.path(), &["in", "src", "dst", "--list", "list"]).exits_with(2).stderr.contains("line 1")
    );
}

/// Numbers that look random.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// The contents of a version: they say which it is.
fn version(name: &str, n: u64) -> Vec<u8> {
    let mut chance = Chance(n.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ name.len() as u64 | 1);
    let size = [10, 300, 5_000, 200_000][chance.below(4) as usize];
    let mut bytes = format!("{name} {n} {size}\n").into_bytes();
    bytes.extend((0..size).map(|_| chance.below(256) as u8));
    bytes
}

/// Which version of which file this is; `None` if it is torn.
fn version_of(bytes: &[u8]) -> Option<(String, u64)> {
    let head = std::str::from_utf8(bytes.split(|byte| *byte == b'\n').next()?).ok()?;
    let mut words = head.split(' ');
    let (name, n) = (words.next()?.to_owned(), words.next()?.parse().ok()?);
    (version(&name, n) == bytes).then_some((name, n))
}

/// Writes versions of files in every way programs do, and knows which were closed last.
fn write_on(src: &Path, chance: &mut Chance, closed: &Mutex<BTreeMap<String, u64>>) {
    let name = format!("f{}", chance.below(12));
    // Held while a file is open: whoever holds it sees closed files alone.
    let mut closed = closed.lock().unwrap();
    let n = closed.get(&name).map_or(1, |n| n + 1);
    let bytes = version(&name, n);
    let path = src.join(if chance.below(2) == 0 { "" } else { "." }).join(&name);
    if chance.below(3) == 0 {
        let temp = src.join("part");
        fs::write(&temp, &bytes).expect("a writer sees no error");
        fs::rename(&temp, &path).expect("a writer sees no error");
    } else {
        let mut file = File::create(&path).expect("a writer sees no error");
        for part in bytes.chunks(50_000) {
            file.write_all(part).expect("a writer sees no error");
        }
    }
    closed.insert(name, n);
}

/// Every last closed version is here or there, and every final name there holds a closed version.
fn check(src: &Path, dst: &Path, closed: &BTreeMap<String, u64>) {
    let trash = fs::read_dir(src.join(".iotide-stage/trash")).into_iter().flatten().flatten();
    let in_trash: Vec<_> = trash.filter_map(|entry| version_of(&fs::read(entry.path()).unwrap())).collect();
    for (name, last) in closed {
        let read = |tree: &Path| fs::read(tree.join(name)).ok();
        let there = read(dst);
        if let Some(bytes) = &there {
            let (of, n) = version_of(bytes).unwrap_or_else(|| panic!("{name} in the destination is torn"));
            assert!(of == *name && n <= *last, "{name}: {of} {n}, last {last}");
        }
        let wanted = Some((name.clone(), *last));
        let is_here = read(src).is_some_and(|bytes| version_of(&bytes) == wanted);
        let is_there = there.is_some_and(|bytes| version_of(&bytes) == wanted);
        assert!(is_here || is_there || in_trash.contains(wanted.as_ref().unwrap()), "{name} {last} is lost");
    }
}

/// Kills a stager again and again beside a writer.
fn kill_beside_a_writer(top: &Path, seed: u64, n_kills: u64, purge: &str) {
    let (src, dst) = (top.join("src"), top.join("dst"));
    fs::create_dir(&src).unwrap();
    fs::create_dir(&dst).unwrap();
    let closed = Mutex::new(BTreeMap::new());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (src_of_writer, closed_by, is_over) = (src.clone(), &closed, &is_over);
        let writer = scope.spawn(move || {
            let mut chance = Chance(seed * 7919 + 1);
            while !is_over.load(Ordering::Relaxed) {
                write_on(&src_of_writer, &mut chance, closed_by);
                std::thread::sleep(Duration::from_millis(chance.below(25)));
            }
        });
        let mut chance = Chance(seed * 104_729 + 3);
        for kill in 0..n_kills {
            let mut command = Command::new(env!("CARGO_BIN_EXE_iotide"));
            command.args([
                "stage",
                "out",
                "src",
                "dst",
                "--quiet",
                "20ms",
                "--policy",
                "immediate",
                "--purge",
                purge,
            ]);
            if kill % 2 == 0 {
                command.arg("--once");
            }
            let mut child = (command.current_dir(top).env_clear().stdin(Stdio::null()))
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(Duration::from_millis(15 + chance.below(150)));
            child.kill().unwrap();
            child.wait().unwrap();
            check(&src, &dst, &closed.lock().unwrap());
            assert!(!writer.is_finished(), "the writer failed");
        }
        is_over.store(true, Ordering::Relaxed);
    });
    stage(top, &[&ONCE[..], &["--purge", purge]].concat()).exits_with(0);
    let closed = closed.into_inner().unwrap();
    check(&src, &dst, &closed);
    for (name, last) in &closed {
        assert_eq!(version_of(&fs::read(dst.join(name)).unwrap()), Some((name.clone(), *last)));
        assert_eq!(src.join(name).exists(), purge == "never", "{name}");
    }
    stage(top, &["verify", "dst"]).exits_with(0);
    let left = fs::read_dir(&dst)
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(".iotide-stage-"));
    assert_eq!(left.count(), 0);
}

#[test]
fn inputs_come_as_an_earlier_run_read_them() {
    let dir = pair();
    let src = dir.path().join("src");
    for name in ["late", "early", "unread", "result"] {
        fs::write(src.join(name), name.repeat(1000)).unwrap();
    }
    let top = fs::canonicalize(&src).unwrap();
    let top = top.display();
    let rows = format!(
        "rank,op,start,end,bytes,file\n0,read,5,6,4000,{top}/late\n0,read,1,2,5000,src/early\n0,write,3,4,9,{top}/result\n\
         0,read,4,5,9,{top}/result\n0,read,0,1,9,/etc/hosts\n0,read,0,1,9,{top}/gone\n"
    );
    dir.write("run.csv", &rows);
    let like = ["in", "src", "dst", "--like", "run.csv", "--format", "json"];
    // There is room for the one that is read first.
    let told = stage(dir.path(), &[&like[..], &["--capacity", "5000"]].concat()).exits_with(1).json();
    assert_eq!(told["left"][0]["path"], "late", "{told:#}");
    assert_eq!(told["notes"][0], "2 files that the trace read are not in src");
    let told = stage(dir.path(), &like).exits_with(0).json();
    assert_eq!((&told["files"]["safe"], &told["bytes_safe"]), (&2.into(), &9000.into()), "{told:#}");
    assert!(!dir.path().join("dst/unread").exists() && !dir.path().join("dst/result").exists());
    let rows = "rank,op,start,end,bytes,file\n0,read,0,1,9,/etc/hosts\n";
    dir.write("other.csv", rows);
    let told = stage(dir.path(), &["in", "src", "dst", "--like", "other.csv"]).exits_with(2).stderr;
    assert!(
        told.contains("none of the 1 files that other.csv read is in src (the first is /etc/hosts)"),
        "{told}"
    );
}

#[test]
fn a_second_stager_is_refused_and_the_first_ends_with_all_safe_when_asked() {
    let dir = pair();
    let src = dir.path().join("src");
    fs::write(src.join("early"), "early").unwrap();
    let mut first = Command::new(env!("CARGO_BIN_EXE_iotide"))
        .args(["stage", "out", "src", "dst", "--quiet", "30ms"])
        .current_dir(dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while !dir.path().join("dst/early").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let told = stage(dir.path(), &ONCE).exits_with(2);
    assert!(told.stderr.contains("another process"), "{}", told.stderr);
    // From anywhere, the destination says how its buffer stands.
    let to = dir.path().join("dst");
    let status = stage(Path::new("/"), &["status", to.to_str().unwrap(), "--format", "json"]).json();
    assert_eq!(status["source"], fs::canonicalize(&src).unwrap().to_str().unwrap(), "{status:#}");
    assert_ne!(status["state"], "done");
    fs::write(src.join("late"), "late").unwrap();
    assert!(Command::new("kill").arg(first.id().to_string()).status().unwrap().success());
    assert_eq!(first.wait().unwrap().code(), Some(0));
    assert_eq!((dir.read("dst/early"), dir.read("dst/late")), ("early".to_owned(), "late".to_owned()));
}

#[test]
fn a_destination_that_is_full_or_read_only_costs_nothing_and_is_used_when_it_can_be() {
    if program("unshare").is_none() {
        return;
    }
    let dir = pair();
    fs::write(dir.path().join("src/large"), vec![7; 3 << 20]).unwrap();
    let script = r#"
        mount -t tmpfs -o size=1m none dst || exit 99
        try() { "$0" stage out src dst --once --quiet 30ms --purge staged >&2; echo "$1: $?"; }
        try full; ls -A dst; ls -A src
        mount -o remount,ro,size=1m dst; try read-only; ls -A src
        mount -o remount,rw,size=16m dst; try room; ls -A src; "$0" stage verify dst >&2; echo "verify: $?""#;
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, env!("CARGO_BIN_EXE_iotide")]).current_dir(dir.path());
    let output = command.output().unwrap();
    if output.status.code() == Some(99) {
        return skip(Missing::Data, "of a tmpfs of its own: no right to mount one");
    }
    let (said, why) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // No temporary file is left, and the source stays until its copy is safe.
    let own = ".iotide-stage";
    let wanted =
        format!("full: 2\n{own}\n{own}\nlarge\nread-only: 2\n{own}\nlarge\nroom: 0\n{own}\nverify: 0\n");
    assert_eq!(said, wanted, "{why}");
}

/// `IOTIDE_STAGE_KILLS=20` on ten seeds is the long form: 20 kills for each seed, each file system and each way to purge.
#[test]
fn whatever_is_killed_nothing_is_lost_nothing_torn_and_the_writer_sees_no_error() {
    let n_kills = std::env::var("IOTIDE_STAGE_KILLS").ok().and_then(|n| n.parse().ok());
    let n_seeds = if n_kills.is_some() { 10 } else { 1 };
    let memory = Path::new("/dev/shm");
    for (at, purge) in ["never", "staged"].into_iter().enumerate() {
        for seed in 1..=n_seeds {
            let dir = Dir::new();
            kill_beside_a_writer(dir.path(), seed, n_kills.unwrap_or(6), purge);
            if memory.is_dir() {
                let top: PathBuf = memory.join(format!("iotide-it-stage-{}-{at}-{seed}", std::process::id()));
                fs::create_dir(&top).unwrap();
                kill_beside_a_writer(&top, seed + 100, n_kills.unwrap_or(6), purge);
                fs::remove_dir_all(&top).unwrap();
            }
        }
    }
}
