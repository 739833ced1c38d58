use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::fs::{Mode, OFlags, mkdirat, openat};

use crate::util::{Dir, Outcome};

pub(crate) fn stage(dir: &Path, args: &[&str]) -> Outcome {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iotide"));
    let command = command.arg("stage").args(args).current_dir(dir).env_clear().stdin(Stdio::null());
    Outcome::of(command.output().unwrap())
}

/// A directory with an empty `src` and `dst`.
pub(crate) fn pair() -> Dir {
    let dir = Dir::new();
    fs::create_dir(dir.path().join("src")).unwrap();
    fs::create_dir(dir.path().join("dst")).unwrap();
    dir
}

pub(crate) const ONCE: [&str; 6] = ["out", "src", "dst", "--once", "--quiet", "30ms"];

#[test]
fn an_odd_tree_arrives_as_it_was() {
    let dir = pair();
    let (src, dst) = (dir.path().join("src"), dir.path().join("dst"));
    fs::create_dir_all(src.join("a/empty")).unwrap();
    // Deeper than any path that the kernel takes at once.
    let name = "d".repeat(100);
    let deep = |top: &Path| {
        let mut here: OwnedFd = File::open(top).unwrap().into();
        for _ in 0..60 {
            match mkdirat(&here, &name, Mode::RWXU) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(error) => panic!("{error}"),
            }
            here = openat(&here, &name, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
        }
        here
    };
    let file = openat(deep(&src), "deep", OFlags::WRONLY | OFlags::CREATE, Mode::RUSR).unwrap();
    File::from(file).write_all(b"x").unwrap();
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
    let mut text = String::new();
    let file = openat(deep(&dst), "deep", OFlags::RDONLY, Mode::empty()).unwrap();
    File::from(file).read_to_string(&mut text).unwrap();
    assert_eq!(text, "x");
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
fn who_waits_for_a_directory_waits_for_what_is_staged_of_it() {
    let dir = pair();
    fs::create_dir(dir.path().join("src/sub")).unwrap();
    for name in ["step.h5", "sub/core.tmp", "sub/step.h5"] {
        dir.write(&format!("src/{name}"), name);
    }
    stage(dir.path(), &[&ONCE[..], &["--exclude", "*.tmp"]].concat()).exits_with(0);
    assert!(!dir.path().join("dst/sub/core.tmp").exists());
    stage(dir.path(), &["wait", "src", "src/sub"]).exits_with(0);
    let told = stage(dir.path(), &["wait", "src/sub/core.tmp"]).exits_with(1).stderr;
    assert!(told.contains("src/sub/core.tmp is left out by the patterns"), "{told}");
    // What is staged and not yet safe is still waited for.
    dir.write("src/sub/late.h5", "late");
    stage(dir.path(), &["wait", "src/sub", "--timeout", "10ms"]).exits_with(1);
    // Who stages all from now on says so.
    stage(dir.path(), &ONCE).exits_with(0);
    stage(dir.path(), &["wait", "src", "src/sub/core.tmp"]).exits_with(0);
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
    // The buffer has no receipts, and neither has a directory that was never staged to.
    let told = stage(dir.path(), &["verify", "src"]).exits_with(2).stderr;
    assert!(told.contains("src has no receipts"), "{told}");
    let told = stage(dir.path(), &["verify", "."]).exits_with(2).stderr;
    assert!(told.contains("no receipts"), "{told}");

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
