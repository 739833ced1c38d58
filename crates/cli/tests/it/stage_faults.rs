use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use iotide_testkit::{Missing, program, skip};

use crate::stage::{ONCE, pair, stage};
use crate::util::Dir;

/// Numbers that look random.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// The contents of a version: they say which it is.
pub(crate) fn version(name: &str, n: u64) -> Vec<u8> {
    let mut chance = Chance(n.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ name.len() as u64 | 1);
    let size = [10, 300, 5_000, 200_000][chance.below(4) as usize];
    // One in so many is long enough to be written past the cache.
    let n_times = if chance.below(30) == 0 { 9_000_000 / size } else { 1 };
    let mut bytes = format!("{name} {n} {size}\n").into_bytes();
    let part: Vec<u8> = (0..size).map(|_| chance.below(256) as u8).collect();
    bytes.extend(part.repeat(n_times));
    bytes
}

/// Which version of which file this is; `None` if it is torn.
pub(crate) fn version_of(bytes: &[u8]) -> Option<(String, u64)> {
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

/// Writes many small files: such are made while those before them are synced and read back.
fn write_small_ones(src: &Path, closed: &mut BTreeMap<String, u64>) {
    for i in 0..600 {
        let name = format!("small{i}");
        let (n, bytes) = (1..).map(|n| (n, version(&name, n))).find(|(_, bytes)| bytes.len() < 1000).unwrap();
        fs::write(src.join(&name), bytes).unwrap();
        closed.insert(name, n);
    }
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

/// Activity of stagers when they were killed.
#[derive(Debug, Default)]
struct Kills {
    /// Those that were killed, not those that had ended by then.
    killed: u64,
    /// Those that left a copy that had no final name yet.
    in_a_copy: u64,
    /// Those that left a file that was on its way out.
    in_a_purge: u64,
}

impl Kills {
    fn count(&mut self, src: &Path, dst: &Path) {
        let has = |dir: &Path, begin: &str| {
            let mut entries = fs::read_dir(dir).into_iter().flatten().flatten();
            entries.any(|entry| entry.file_name().to_string_lossy().starts_with(begin))
        };
        self.killed += 1;
        self.in_a_copy += u64::from(has(dst, ".iotide-stage-"));
        self.in_a_purge += u64::from(has(&src.join(".iotide-stage/trash"), ""));
    }
}

/// Kills a stager again and again beside a writer.
fn kill_beside_a_writer(src: &Path, dst: &Path, seed: u64, n_kills: u64, purge: &str, kills: &mut Kills) {
    let top = src.parent().unwrap();
    let before = kills.killed;
    let mut closed = BTreeMap::new();
    write_small_ones(src, &mut closed);
    let closed = Mutex::new(closed);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (src_of_writer, closed_by, is_over) = (src.to_owned(), &closed, &is_over);
        let writer = scope.spawn(move || {
            let mut chance = Chance(seed * 7919 + 1);
            while !is_over.load(Ordering::Relaxed) {
                write_on(&src_of_writer, &mut chance, closed_by);
                thread::sleep(Duration::from_millis(chance.below(25)));
            }
        });
        let mut chance = Chance(seed * 104_729 + 3);
        for round in 0.. {
            if kills.killed - before == n_kills {
                break;
            }
            let mut command = Command::new(env!("CARGO_BIN_EXE_iotide"));
            command.args(["stage", "out"]).args([src, dst]);
            command.args(["--quiet", "20ms", "--policy", "immediate", "--purge", purge]);
            if round % 2 == 0 {
                command.arg("--once");
            }
            let mut child = (command.current_dir(top).env_clear().stdin(Stdio::null()))
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            thread::sleep(Duration::from_millis(15 + chance.below(150)));
            child.kill().unwrap();
            match child.wait().unwrap().signal() {
                Some(9) => kills.count(src, dst),
                // With `--once` it may have been done.
                _ => assert_eq!(round % 2, 0, "a stager ended by itself"),
            }
            check(src, dst, &closed.lock().unwrap());
            assert!(!writer.is_finished(), "the writer failed");
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let (from, to) = (src.to_str().unwrap(), dst.to_str().unwrap());
    stage(top, &["out", from, to, "--once", "--quiet", "30ms", "--purge", purge]).exits_with(0);
    let closed = closed.into_inner().unwrap();
    check(src, dst, &closed);
    for (name, last) in &closed {
        assert_eq!(version_of(&fs::read(dst.join(name)).unwrap()), Some((name.clone(), *last)));
        assert_eq!(src.join(name).exists(), purge == "never", "{name}");
    }
    stage(top, &["verify", to]).exits_with(0);
    let left = fs::read_dir(dst)
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(".iotide-stage-"));
    assert_eq!(left.count(), 0);
}

/// `IOTIDE_STAGE_KILLS=20` is the long form: ten seeds, and 20 kills for each seed, each pair of file systems and each way to purge.
///
/// As root it is run a second time as an ordinary user.
#[test]
fn whatever_is_killed_nothing_is_lost_nothing_torn_and_the_writer_sees_no_error() {
    if let Ok(uid) = std::env::var(AS_USER) {
        assert_eq!(rustix::process::geteuid().as_raw().to_string(), uid);
    }
    let n_kills = std::env::var("IOTIDE_STAGE_KILLS").ok().and_then(|n| n.parse().ok());
    let n_seeds = if n_kills.is_some() { 10 } else { 1 };
    let mut kills = Kills::default();
    let is_in_memory = in_memory().is_some();
    if !is_in_memory {
        skip(Missing::Data, "of /dev/shm: on disk alone");
    }
    for (at, purge) in ["never", "staged"].into_iter().enumerate() {
        for seed in 1..=n_seeds {
            let (disk, memory) = (Dir::new(), in_memory());
            let memory = memory.as_ref().unwrap_or(&disk);
            // Within a file system, and from one to another.
            for (nth, (from, to)) in
                [(&disk, &disk), (memory, &disk), (memory, memory)].into_iter().enumerate()
            {
                // In the short form each pair once, purged or not by turns.
                if n_kills.is_none() && (at + nth) % 2 == 1 {
                    continue;
                }
                let (src, dst) = (from.path().join(format!("src{nth}")), to.path().join(format!("dst{nth}")));
                fs::create_dir(&src).unwrap();
                fs::create_dir(&dst).unwrap();
                let seed = seed + 100 * nth as u64;
                kill_beside_a_writer(&src, &dst, seed, n_kills.unwrap_or(6), purge, &mut kills);
            }
        }
    }
    if n_kills.is_some() {
        let uid = rustix::process::geteuid().as_raw();
        writeln!(std::io::stderr(), "as user {uid}, {n_seeds} seeds: {kills:?}").unwrap();
        assert!(kills.killed >= 200 && kills.in_a_copy > 0 && kills.in_a_purge > 0, "{kills:?}");
    }
    if rustix::process::geteuid().is_root() {
        as_nobody(
            "stage_faults::whatever_is_killed_nothing_is_lost_nothing_torn_and_the_writer_sees_no_error",
        );
    }
}

/// A directory in memory; `None` if there is no such file system.
pub(crate) fn in_memory() -> Option<Dir> {
    let memory = Path::new("/dev/shm");
    memory.is_dir().then(|| Dir::below(memory))
}

/// Runs a test of this binary once more, as a user without powers.
fn as_nobody(test: &str) {
    let Some(setpriv) = program("setpriv") else { return };
    let own = std::env::current_exe().unwrap();
    let may_run = |path: &Path| {
        let mut command = Command::new(&setpriv);
        command.args(NOBODY).args(["test", "-x"]).arg(path);
        command.status().unwrap().success()
    };
    if !may_run(&own) || !may_run(Path::new(env!("CARGO_BIN_EXE_iotide"))) {
        return skip(Missing::Data, "of a build that other users can run");
    }
    let mut command = Command::new(&setpriv);
    command.args(NOBODY).arg(own).args(["--exact", test, "--nocapture"]).env(AS_USER, "65534");
    let output = command.current_dir("/").output().unwrap();
    std::io::stderr().write_all(&output.stderr).unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("1 passed"), "{}", said(&output));
}

/// Who a test of this binary is to be run as; set by the test that does so.
const AS_USER: &str = "IOTIDE_TEST_AS_USER";
const NOBODY: [&str; 6] = ["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"];

pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A command under strace; `None`, said aloud, if there is none or nobody may be traced here.
pub(crate) fn strace(args: &[&str]) -> Option<Command> {
    let strace = program("strace")?;
    let is_allowed =
        Command::new(&strace).args(["-o", "/dev/null", "true"]).output().unwrap().status.success();
    if !is_allowed {
        skip(Missing::Data, "of a machine that lets processes be traced");
        return None;
    }
    let mut command = Command::new(strace);
    command.args(args).env_clear().stdin(Stdio::null());
    Some(command)
}

/// A system call: when it began and when it ended, in lines of the trace; its text, and whether it succeeded.
struct Call {
    began: usize,
    ended: usize,
    text: String,
}

/// Reads what `strace -f -y` wrote; calls of other threads may come between the two halves of one.
fn calls(trace: &str) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    let mut unfinished: HashMap<&str, usize> = HashMap::new();
    for (at, line) in trace.lines().enumerate() {
        let (thread, text) = line.split_once(' ').unwrap();
        let text = text.trim_start();
        if let Some(begin) = text.strip_suffix("<unfinished ...>") {
            unfinished.insert(thread, calls.len());
            calls.push(Call { began: at, ended: usize::MAX, text: begin.to_owned() });
        } else if text.starts_with("<... ") {
            let call = &mut calls[unfinished.remove(thread).unwrap()];
            call.ended = at;
            call.text += text.split_once("resumed>").unwrap().1;
        } else {
            calls.push(Call { began: at, ended: at, text: text.to_owned() });
        }
    }
    calls.retain(|call| call.text.rsplit_once("= ").is_some_and(|(_, answer)| !answer.starts_with('-')));
    calls
}

/// `renameat(5</a>, "x", 5</b>, "y") = 0` as `/a/x` and `/b/y`; for other calls what they have of it.
fn paths(text: &str) -> Vec<String> {
    let mut paths = Vec::new();
    let mut dir = String::new();
    for part in text.split(", ") {
        if let Some((_, rest)) = part.split_once('<') {
            dir = rest.split('>').next().unwrap().to_owned();
            paths.push(dir.clone());
        } else if let Some(name) = part.strip_prefix('"') {
            paths.pop();
            paths.push(format!("{dir}/{}", name.split('"').next().unwrap()));
        }
    }
    paths
}

#[test]
fn a_copy_is_named_after_it_is_synced_and_its_source_goes_after_its_name_is() {
    // Few are synced one by one, many together, and of very many some while others are written.
    for (n_files, refused) in [(20, None), (80, None), (700, None)] {
        order_of_calls(n_files, refused);
    }
}

#[test]
fn a_file_system_that_refuses_what_is_quicker_changes_nothing_about_the_order() {
    // A further name then is a file of its own, and files are synced one by one.
    for (n_files, refused) in [(20, "linkat:error=EMLINK"), (80, "syncfs:error=EIO")] {
        order_of_calls(n_files, Some(refused));
    }
}

/// Stages files under strace, some calls being refused, and looks at what happened before what.
fn order_of_calls(n_files: usize, refused: Option<&str>) {
    let dir = pair();
    let top = fs::canonicalize(dir.path()).unwrap();
    let top = top.to_str().unwrap();
    fs::create_dir(dir.path().join("src/sub")).unwrap();
    for n in 0..n_files {
        let folder = if n % 2 == 0 { "" } else { "sub/" };
        dir.write(&format!("src/{folder}f{n}"), format!("contents {n}"));
    }
    fs::hard_link(dir.path().join("src/f0"), dir.path().join("src/sub/g0")).unwrap();
    std::os::unix::fs::symlink("f0", dir.path().join("src/link")).unwrap();
    let seen = "trace=pwrite64,linkat,renameat,renameat2,rename,unlinkat,unlink,fsync,fdatasync,syncfs";
    let inject = refused.map(|fault| format!("inject={fault}"));
    let mut args = vec!["-f", "-y", "-qq", "-o", "trace", "-e", seen];
    args.extend(inject.iter().flat_map(|inject| ["-e", inject]));
    let Some(mut command) = strace(&args) else { return };
    command.arg(env!("CARGO_BIN_EXE_iotide")).arg("stage").args(ONCE).args(["--purge", "staged"]);
    let output = command.current_dir(dir.path()).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));

    let trace = dir.read("trace");
    let (writes, calls): (Vec<Call>, _) =
        calls(&trace).into_iter().partition(|call| call.text.starts_with("pwrite64"));
    let wholes = [format!("{top}/dst"), format!("{top}/src")];
    let synced_between = |what: &str, from: usize, to: usize| {
        calls.iter().any(|call| {
            let is_sync = call.text.starts_with("fsync") || call.text.starts_with("fdatasync");
            let is_whole = |whole: &String| {
                call.text.starts_with("syncfs") && paths(&call.text)[0] == *whole && what.starts_with(whole)
            };
            (wholes.iter().any(is_whole) || is_sync && paths(&call.text)[0] == what)
                && call.began > from
                && call.ended < to
        })
    };
    let written = |what: &str| {
        let writes = writes.iter().filter(|call| call.text.contains(&format!("<{what}>")));
        writes.map(|call| call.ended).max()
    };
    let renames = || calls.iter().filter(|call| call.text.starts_with("rename"));
    let mut named: HashMap<String, usize> = HashMap::new();
    let mut links = Vec::new();
    for call in renames() {
        let [from, to] = &paths(&call.text)[..] else { panic!("{}", call.text) };
        if !from.contains("/dst/.iotide-stage-") && !from.contains("/dst/sub/.iotide-stage-") {
            continue;
        }
        let below = to.strip_prefix(&format!("{top}/dst/")).unwrap().to_owned();
        match written(from) {
            Some(written) => {
                assert!(synced_between(from, written, call.began), "{to} was named before it was synced")
            }
            None => links.push(below.clone()),
        }
        named.insert(below, call.ended);
    }
    assert_eq!(named.len(), n_files + 2, "{trace}");
    // Of two names of one file, one is a link to the other.
    let has_links = !refused.is_some_and(|fault| fault.starts_with("linkat"));
    links.retain(|below| below != "link");
    assert_eq!(links.len(), usize::from(has_links), "{links:?}");
    assert!(links.iter().all(|below| below == "f0" || below == "sub/g0"), "{links:?}");
    // Where each file went to the trash from, and what was durable by then.
    let mut n_removed = 0;
    for call in calls.iter().filter(|call| call.text.starts_with("unlinkat")) {
        let trash = &paths(&call.text)[0];
        if !trash.starts_with(&format!("{top}/src/.iotide-stage/trash/")) {
            let is_own = !trash.starts_with(&format!("{top}/src/")) || trash.contains("/src/.iotide-stage/");
            assert!(is_own, "{trash} went without having been in the trash");
            continue;
        }
        let moved = renames().find(|call| paths(&call.text)[1] == *trash).unwrap();
        let from = paths(&moved.text)[0].clone();
        let below = from.strip_prefix(&format!("{top}/src/")).unwrap();
        let named = named[below];
        if below != "link" {
            assert!(synced_between(&from, 0, named), "{below} was named before its source was durable");
        }
        let home = Path::new(&from).parent().unwrap().to_str().unwrap();
        assert!(synced_between(home, 0, named), "{below} was named before its source's name was durable");
        assert!(synced_between(home, moved.ended, usize::MAX), "{below} may come back");
        let folder = Path::new(top).join("dst").join(below);
        let folder = folder.parent().unwrap().to_str().unwrap();
        assert!(synced_between(folder, named, moved.began), "{below} went before its name was durable");
        let journal = format!("{top}/src/.iotide-stage/journal");
        assert!(synced_between(&journal, named, moved.began), "{below} went before it was noted");
        assert!(moved.ended < call.began);
        n_removed += 1;
    }
    // Two further names: one of a file, and a link.
    assert_eq!(n_removed, n_files + 2, "{trace}");
    let last = calls.iter().filter(|call| call.text.starts_with("unlinkat")).map(|call| call.ended).max();
    let trash = format!("{top}/src/.iotide-stage/trash");
    assert!(synced_between(&trash, last.unwrap(), usize::MAX), "what was removed may come back: {trace}");
    // Two names of one file are that in the destination as well.
    let inode =
        |name: &str| std::os::unix::fs::MetadataExt::ino(&fs::metadata(dir.path().join(name)).unwrap());
    assert_eq!(inode("dst/f0") == inode("dst/sub/g0"), has_links);
}

/// A further name of a file, where the file system has no links: one more copy, and as suspect as any other.
#[test]
fn a_copy_instead_of_a_link_is_read_back_too() {
    let dir = pair();
    dir.write("src/a", vec![7; 3000]);
    fs::hard_link(dir.path().join("src/a"), dir.path().join("src/b")).unwrap();
    // The first is copied; of the second the destination says that it took 1,000 bytes, and took none.
    let faults = ["-e", "inject=linkat:error=EPERM", "-e", "inject=pwrite64:retval=1000:when=2"];
    let Some(mut command) = strace(&[&["-f", "-qq", "-o", "/dev/null"], &faults[..]].concat()) else {
        return;
    };
    command.arg(env!("CARGO_BIN_EXE_iotide")).arg("stage").args(ONCE).args(["--purge", "staged"]);
    let output = command.current_dir(dir.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("read back"), "{}", said(&output));
    let names = ["a", "b"].map(|name| dir.path().join("dst").join(name).exists());
    assert_eq!(names.into_iter().filter(|is_there| *is_there).count(), 1, "{names:?}");
    // Nothing goes as long as a name of it is not safe.
    assert_eq!((dir.read("src/a").len(), dir.read("src/b").len()), (3000, 3000));
}

/// Change to a file in a directory.
type Act = fn(&Path);

/// Each of these happens when a part of the file has been copied.
#[test]
fn files_that_change_vanish_or_are_replaced_while_they_are_copied_arrive_as_they_are_in_the_end() {
    let dir = pair();
    let src = dir.path().join("src");
    let large = vec![1; 3 << 20];
    let append = |src: &Path| {
        File::options().append(true).open(src.join("file")).unwrap().write_all(b"more").unwrap();
    };
    let change = |src: &Path| {
        // In its place, within what has been copied, and of the same time of contents.
        let file = File::options().write(true).open(src.join("file")).unwrap();
        let modified = file.metadata().unwrap().modified().unwrap();
        file.write_all_at(b"changed", 5).unwrap();
        file.set_modified(modified).unwrap();
    };
    let cut = |src: &Path| File::create(src.join("file")).map(drop).unwrap();
    let replace = |src: &Path| {
        fs::write(src.join("other"), vec![2; 2 << 20]).unwrap();
        fs::rename(src.join("other"), src.join("file")).unwrap();
    };
    let vanish = |src: &Path| fs::remove_file(src.join("file")).unwrap();
    let folder = |src: &Path| {
        fs::remove_file(src.join("file")).unwrap();
        fs::create_dir(src.join("file")).unwrap();
        fs::write(src.join("file/inner"), "inner").unwrap();
    };
    let link = |src: &Path| {
        fs::remove_file(src.join("file")).unwrap();
        std::os::unix::fs::symlink("elsewhere", src.join("file")).unwrap();
    };
    let acts: [(&str, Act); 7] = [
        ("append", append),
        ("change", change),
        ("cut", cut),
        ("replace", replace),
        ("vanish", vanish),
        ("folder", folder),
        ("link", link),
    ];
    for (name, act) in acts {
        for tree in ["src", "dst"] {
            fs::remove_dir_all(dir.path().join(tree)).unwrap();
            fs::create_dir(dir.path().join(tree)).unwrap();
        }
        fs::write(src.join("file"), &large).unwrap();
        let mut stager = dir
            .command(["stage", "out", "src", "dst", "--once", "--quiet", "20ms", "--bandwidth", "20M"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let half = || {
            let mut entries = fs::read_dir(dir.path().join("dst")).unwrap().flatten();
            entries.any(|entry| {
                let is_temp = entry.file_name().to_string_lossy().starts_with(".iotide-stage-");
                is_temp && entry.metadata().is_ok_and(|stat| stat.len() >= 1 << 20)
            })
        };
        while !half() {
            assert!(stager.try_wait().unwrap().is_none(), "{name}: it was over too early");
            thread::sleep(Duration::from_millis(1));
        }
        act(&src);
        assert_eq!(stager.wait().unwrap().code(), Some(0), "{name}");
        let mut diff = Command::new("diff");
        diff.args(["-r", "--no-dereference", "-x", ".iotide-stage", "src", "dst"]);
        let told = diff.current_dir(dir.path()).output().unwrap();
        assert!(told.status.success(), "{name}: {}", said(&told));
        // Of nothing, nothing is right.
        stage(dir.path(), &["verify", "dst"]).exits_with(i32::from(name == "vanish"));
    }
}

#[test]
fn a_file_that_is_not_quiet_in_time_is_left_with_its_reason() {
    let dir = pair();
    dir.write("src/busy", "busy");
    let told = stage(dir.path(), &["out", "src", "dst", "--once", "--quiet", "10h", "--deadline", "1ms"]);
    let told = told.exits_with(1).stdout;
    assert!(told.contains("left: busy: it was changed a moment ago"), "{told}");
    assert!(!dir.path().join("dst/busy").exists());
}

#[test]
fn what_the_destination_refuses_or_only_claims_to_have_is_kept_and_brought_later() {
    let dir = pair();
    stage(dir.path(), &ONCE).exits_with(0);
    dir.write("src/file", vec![7; 3 << 20]);
    for (at, (fault, word)) in [
        // No more room for this user, in the second of three writes.
        ("pwrite64:error=EDQUOT:when=2+", "quota"),
        ("fsync:error=EIO:when=1+", "Input/output error"),
        ("renameat:error=ESTALE:when=3+", "Stale"),
        // Says that it took 1,000 bytes, and took none.
        ("pwrite64:retval=1000:when=1", "read back"),
    ]
    .into_iter()
    .enumerate()
    {
        let inject = format!("inject={fault}");
        let Some(mut command) = strace(&["-f", "-qq", "-o", "/dev/null", "-e", &inject]) else { return };
        command.arg(env!("CARGO_BIN_EXE_iotide")).arg("stage").args(ONCE).args(["--purge", "staged"]);
        let output = command.current_dir(dir.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{at} {}", said(&output));
        assert!(said(&output).contains(word), "{fault}: {}", said(&output));
        let names: Vec<_> =
            fs::read_dir(dir.path().join("dst")).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(names, [".iotide-stage"], "{fault}");
        assert_eq!(fs::metadata(dir.path().join("src/file")).unwrap().len(), 3 << 20);
    }
    // Files may have at most 1.5 MiB here: the second write takes a part, and the next none.
    let mut command = Command::new("bash");
    let script = r#"ulimit -f 1536; exec "$0" stage "$@" --purge staged"#;
    command.args(["-c", script, env!("CARGO_BIN_EXE_iotide")]).args(ONCE).current_dir(dir.path());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("left: file: in the destination: File too large"), "{}", said(&output));
    // Interrupted calls are no fault.
    let inject = "inject=pwrite64:error=EINTR:when=1+2";
    let Some(mut command) = strace(&["-f", "-qq", "-o", "/dev/null", "-e", inject]) else { return };
    command.arg(env!("CARGO_BIN_EXE_iotide")).arg("stage").args(ONCE).args(["--purge", "staged"]);
    let output = command.current_dir(dir.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(fs::read(dir.path().join("dst/file")).unwrap() == vec![7; 3 << 20]);
    assert!(!dir.path().join("src/file").exists());
}

#[test]
fn a_long_file_is_brought_or_kept_whatever_writes_past_the_cache_meet() {
    let dir = pair();
    stage(dir.path(), &ONCE).exits_with(0);
    // The second is read back while it is written.
    let files = [vec![7; (9 << 20) + 77], vec![8; (130 << 20) + 4096]];
    // ext4 and XFS: elsewhere no room is allocated, and no write is refused for being direct.
    let is_direct = [0xef53, 0x5846_5342].contains(&rustix::fs::statfs(dir.path()).unwrap().f_type);
    for (fault, which, word) in [
        ("pwrite64:error=EINVAL:when=1", 0, None),
        // The second piece is at once longer than the first.
        ("pwrite64:error=EINVAL:when=2", 0, None),
        ("fallocate:error=EOPNOTSUPP", 0, None),
        ("fallocate:error=EINTR:when=1", 0, None),
        ("pwrite64:error=EINTR:when=1+2", 1, None),
        ("fallocate:error=ENOSPC", 0, Some("No space left")),
        ("pwrite64:error=EDQUOT:when=3+", 1, Some("quota")),
        // Says that it took a part of the piece, and took nothing.
        ("pwrite64:retval=4096:when=1", 0, Some("read back")),
        ("pwrite64:retval=4096:when=8", 1, Some("read back")),
    ] {
        if !is_direct && (fault.contains("ENOSPC") || fault.contains("EINVAL")) {
            continue;
        }
        fs::write(dir.path().join("src/file"), &files[which]).unwrap();
        let inject = format!("inject={fault}");
        let Some(mut command) = strace(&["-f", "-qq", "-o", "/dev/null", "-e", &inject]) else { return };
        command.arg(env!("CARGO_BIN_EXE_iotide")).arg("stage").args(ONCE).args(["--purge", "staged"]);
        let output = command.current_dir(dir.path()).output().unwrap();
        let said = said(&output);
        assert_eq!(output.status.code(), Some(if word.is_some() { 2 } else { 0 }), "{fault}: {said}");
        assert!(word.is_none_or(|word| said.contains(word)), "{fault}: {said}");
        let held = if word.is_some() { "src/file" } else { "dst/file" };
        assert!(fs::read(dir.path().join(held)).unwrap() == files[which], "{fault}");
        assert_eq!(dir.path().join("src/file").exists(), word.is_some(), "{fault}");
        let names = fs::read_dir(dir.path().join("dst")).unwrap().flatten().map(|entry| entry.file_name());
        assert!(names.into_iter().all(|name| name == ".iotide-stage" || name == "file"), "{fault}");
    }
}

/// Runs a script with mounts of its own; `None`, said aloud, if that is not allowed. `$0` is the program.
pub(crate) fn among_mounts(dir: &Path, script: &str) -> Option<Output> {
    program("unshare")?;
    let mut command = Command::new("unshare");
    command.args(["-m", "bash", "-c", script, env!("CARGO_BIN_EXE_iotide")]).current_dir(dir);
    let output = command.stdin(Stdio::null()).output().unwrap();
    if output.status.code() == Some(99) || said(&output).contains("unshare failed") {
        skip(Missing::Data, "of a tmpfs of its own: no right to mount one");
        return None;
    }
    Some(output)
}

#[test]
fn a_destination_that_is_full_or_read_only_costs_nothing_and_is_used_when_it_can_be() {
    let dir = pair();
    fs::write(dir.path().join("src/large"), vec![7; 3 << 20]).unwrap();
    // Of the first megabyte it takes a part; of inodes it has one too few.
    let script = r#"
        mount -t tmpfs -o size=1m none dst || exit 99
        try() { "$0" stage out src dst --once --quiet 30ms --purge staged >&2; echo "$1: $?"; }
        try full; ls -A dst; ls -A src
        mount -o remount,ro,size=1m dst; try read-only; ls -A src
        mount -o remount,rw,size=16m dst; mount -o remount,nr_inodes=4 dst; try inodes; ls -A dst; ls -A src
        mount -o remount,nr_inodes=0 dst; try room; ls -A src; "$0" stage verify dst >&2; echo "verify: $?""#;
    let Some(output) = among_mounts(dir.path(), script) else { return };
    let told = String::from_utf8_lossy(&output.stdout);
    // No temporary file is left, and the source stays until its copy is safe.
    let own = ".iotide-stage";
    let wanted = format!(
        "full: 2\n{own}\n{own}\nlarge\nread-only: 2\n{own}\nlarge\ninodes: 2\n{own}\n{own}\nlarge\nroom: 0\n{own}\nverify: 0\n"
    );
    assert_eq!(told, wanted, "{}", said(&output));
}

#[test]
fn a_destination_that_goes_away_in_the_middle_of_a_copy_takes_nothing_with_it() {
    let dir = pair();
    for n in 0..3 {
        fs::write(dir.path().join(format!("src/f{n}")), vec![n; 2 << 20]).unwrap();
    }
    // Unmounted, though files of it are open: what was there is lost. Then a directory that is moved, and comes back.
    let script = r#"
        begin() { "$0" stage out src dst --quiet 30ms --policy immediate --purge staged --jobs 1 --bandwidth 2M --deadline 1s >&2 & }
        half() { until compgen -G 'dst/.iotide-stage-*' >/dev/null; do sleep 0.01; done; }
        finish() { kill $!; wait $!; echo "$1: $?"; ls -A dst src; }
        mount -t tmpfs none dst || exit 99
        begin; half; umount -l dst; finish unmounted
        rm -r src/.iotide-stage
        begin; half; mv dst away; mkdir dst; finish moved
        rmdir dst; mv away dst; "$0" stage out src dst --once --quiet 30ms --purge staged >&2; echo "back: $?"; ls -A dst src
        "$0" stage verify dst >&2; echo "verify: $?""#;
    let Some(output) = among_mounts(dir.path(), script) else { return };
    let own = ".iotide-stage";
    let kept = format!("dst:\n\nsrc:\n{own}\nf0\nf1\nf2\n");
    let wanted = format!(
        "unmounted: 2\n{kept}moved: 2\n{kept}back: 0\ndst:\nf0\nf1\nf2\n{own}\n\nsrc:\n{own}\nverify: 0\n"
    );
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&String::from_utf8_lossy(&output.stdout)), sorted(&wanted), "{}", said(&output));
}

#[test]
fn a_destination_that_does_not_answer_is_reported_and_waited_for_no_longer_than_asked() {
    if !Path::new("/dev/fuse").exists() {
        return skip(Missing::Data, "of /dev/fuse");
    }
    let dir = pair();
    fs::create_dir(dir.path().join("back")).unwrap();
    fs::write(dir.path().join("src/file"), vec![7; 4 << 20]).unwrap();
    // A file system whose program is stopped, as one whose server is gone.
    let script = r#"
        "$0" mount back dst >&2 & mount=$!
        for i in {1..500}; do grep -q " $PWD/dst fuse" /proc/self/mounts && break; kill -0 $mount || exit 99; sleep 0.01; done
        "$0" stage out src dst --once --quiet 30ms --bandwidth 8M --answer-timeout 300ms --purge staged 2>log >&2 & stage=$!
        until compgen -G 'back/.iotide-stage-*' >/dev/null; do sleep 0.01; done
        kill -STOP $mount
        until grep -q 'has not answered for 0.3 s' log; do kill -0 $stage || break; sleep 0.01; done
        wait $stage; echo "hangs: $?"; kill -CONT $mount; ls src
        "$0" stage out src dst --once --quiet 30ms --purge staged >&2; echo "answers: $?"; ls src
        "$0" stage verify dst >&2; echo "verify: $?"
        kill $mount; wait $mount"#;
    let Some(output) = among_mounts(dir.path(), script) else { return };
    let told = String::from_utf8_lossy(&output.stdout);
    let log = fs::read_to_string(dir.path().join("log")).unwrap_or_default();
    assert_eq!(told, "hangs: 2\nfile\nanswers: 0\nverify: 0\n", "{log}{}", said(&output));
}

/// A program that goes on writing to files that are being removed finds them gone, or what it writes is kept.
#[test]
fn what_is_added_to_a_file_that_is_about_to_be_removed_is_not_lost() {
    let dir = pair();
    let (src, dst) = (dir.path().join("src"), dir.path().join("dst"));
    let mut stager = dir
        .command([
            "stage",
            "out",
            "src",
            "dst",
            "--quiet",
            "20ms",
            "--policy",
            "immediate",
            "--purge",
            "staged",
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut contents: BTreeMap<String, String> = BTreeMap::new();
    let mut chance = Chance(7);
    let (mut n_added, mut n_gone) = (0, 0);
    for n in 0.. {
        let name = format!("f{}", chance.below(40));
        let text = format!("{n}\n");
        match File::options().append(true).open(src.join(&name)) {
            Ok(mut file) => {
                file.write_all(text.as_bytes()).unwrap();
                *contents.get_mut(&name).unwrap() += &text;
                n_added += 1;
            }
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
                n_gone += usize::from(contents.contains_key(&name));
                fs::write(src.join(&name), &text).unwrap();
                contents.insert(name, text);
            }
        }
        thread::sleep(Duration::from_micros(chance.below(3000)));
        if n > 300 && n_added > 20 && n_gone > 20 {
            break;
        }
    }
    assert!(Command::new("kill").arg(stager.id().to_string()).status().unwrap().success());
    assert_eq!(stager.wait().unwrap().code(), Some(0));
    for (name, text) in &contents {
        assert_eq!(fs::read_to_string(dst.join(name)).unwrap(), *text, "{name}");
        assert!(!src.join(name).exists());
    }
}
