//! Each test carries out an attack that once worked. The victim runs iotide; the attacker may write where the victim works.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use flate2::{Compression, write::GzEncoder};
use iotide_testkit::{FreshDir, is_root, program};

use crate::util::bursts;

const IOTIDE: &str = env!("CARGO_BIN_EXE_iotide");

/// Runs a line of shell in `dir`, which finds iotide as `$iotide`; `$$` is the process id that iotide will have after `exec`,
/// which an attacker can guess.
fn shell(dir: &FreshDir, line: &str) -> Output {
    let temp = dir.join("temp");
    fs::create_dir_all(&temp).unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", line]).env("iotide", IOTIDE).env("TMPDIR", &temp).current_dir(dir.path());
    command.output().unwrap()
}

#[track_caller]
fn is_untouched(victim: &Path) {
    assert_eq!(fs::read_to_string(victim).unwrap(), "precious\n");
}

fn archive(dir: &FreshDir) {
    fs::create_dir_all(dir.join("logs")).unwrap();
    dir.write("logs/a.csv", bursts("write"));
    dir.write("logs/b.csv", "what is that?");
}

#[test]
fn links_in_a_work_folder_with_a_guessed_name_are_not_followed() {
    let dir = FreshDir::new("strangers-categorize");
    archive(&dir);
    let victim = dir.write("bashrc", "precious\n");
    let output = shell(
        &dir,
        "work=$TMPDIR/iotide-categorize-$$; mkdir -m 777 $work; \
         for name in journal.jsonl runs.jsonl.part rejected.jsonl.part made-with.toml.part; do \
             ln -s $PWD/bashrc $work/$name; done; \
         exec $iotide categorize logs",
    );
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    is_untouched(&victim);
}

#[test]
fn a_folder_for_results_that_someone_prepared_redirects_nothing() {
    let dir = FreshDir::new("strangers-out");
    archive(&dir);
    let victim = dir.write("bashrc", "precious\n");
    let out = dir.join("out");
    fs::create_dir(&out).unwrap();
    for name in ["runs.jsonl.part", "rejected.jsonl.part", "made-with.toml.part", "statistics.json.part"] {
        symlink(&victim, out.join(name)).unwrap();
    }
    let output = shell(&dir, "exec $iotide categorize logs --out out");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    is_untouched(&victim);
    // A journal cannot be replaced, so a planted one is refused.
    fs::remove_dir_all(&out).unwrap();
    fs::create_dir(&out).unwrap();
    symlink(&victim, out.join("journal.jsonl")).unwrap();
    let output = shell(&dir, "exec $iotide categorize logs --out out");
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    is_untouched(&victim);
}

#[test]
fn demo_neither_uses_nor_removes_a_folder_with_a_guessed_name() {
    let dir = FreshDir::new("strangers-demo");
    let output = shell(
        &dir,
        "work=$TMPDIR/iotide-demo-$$; mkdir -m 777 $work; echo mine >$work/marker; ln -s $work found; \
         exec $iotide demo --period 50ms --bursts 4 -o page.html",
    );
    assert_ne!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    let found = fs::read_dir(dir.join("found")).unwrap().count();
    assert_eq!(found, 1, "the folder of someone else holds what it held");
}

#[test]
fn a_file_that_is_not_yet_whole_is_written_past_no_link() {
    let dir = FreshDir::new("strangers-part");
    let victim = dir.write("bashrc", "precious\n");
    dir.write("trace.csv", bursts("write"));
    let output = shell(
        &dir,
        "ln -s bashrc events.jsonl.$$.part; exec $iotide convert trace.csv --to jsonl -o events.jsonl",
    );
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    is_untouched(&victim);
    assert!(fs::read_to_string(dir.join("events.jsonl")).unwrap().contains("\"write\""));
}

#[test]
fn pictures_go_past_no_link() {
    let dir = FreshDir::new("strangers-svg");
    let victim = dir.write("bashrc", "precious\n");
    dir.write("trace.csv", bursts("write"));
    fs::create_dir(dir.join("pictures")).unwrap();
    symlink(&victim, dir.join("pictures/bandwidth.svg")).unwrap();
    let output = shell(&dir, "exec $iotide report trace.csv -o page.html --svg pictures");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    is_untouched(&victim);
    assert!(fs::read_to_string(dir.join("pictures/bandwidth.svg")).unwrap().contains("<svg"));
}

#[test]
fn long_names_that_pack_well_do_not_fill_the_memory() {
    let dir = FreshDir::new("strangers-names");
    let packed = |text: &[u8]| {
        let mut member = GzEncoder::new(Vec::new(), Compression::best());
        member.write_all(text).unwrap();
        member.finish().unwrap()
    };
    // A gzip file of many parts, so that the long part is packed once: 1.2 GB in 1.3 MB.
    let pad = packed(&[b'x'; 1_000_000]);
    let mut bomb = packed(b"rank,op,start,end,bytes,file\n");
    for i in 0..1200 {
        bomb.extend(packed(format!("0,write,{i},{i}.5,1000,/name-{i}-").as_bytes()));
        bomb.extend(&pad);
        bomb.extend(packed(b"\n"));
    }
    dir.write("bomb.csv.gz", bomb);
    let output = shell(&dir, "ulimit -v 1500000; exec $iotide info bomb.csv.gz");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{err}");
    assert!(out.contains("more than 268435456 bytes, 1200 events"), "{out}");
}

#[test]
fn ends_of_lines_that_pack_well_end_early() {
    let dir = FreshDir::new("strangers-newlines");
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(&vec![b'\n'; 8 << 20]).unwrap();
    let newlines = packed.finish().unwrap();
    let mut head = GzEncoder::new(Vec::new(), Compression::best());
    head.write_all(b"rank,op,start,end,bytes\n0,write,0,1,1\n").unwrap();
    let mut bomb = head.finish().unwrap();
    // 8 GiB in 8 MB: read to its end that takes minutes, and nothing is in it.
    for _ in 0..1024 {
        bomb.extend(&newlines);
    }
    dir.write("bomb.csv.gz", bomb);
    let output = shell(&dir, "exec $iotide info bomb.csv.gz");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(format!("{out}{err}").contains("empty lines in a row"), "{out}{err}");
}

#[test]
fn pipes_that_nobody_writes_to_are_not_waited_for() {
    let Some(_) = program("mkfifo") else { return };
    let dir = FreshDir::new("strangers-pipe");
    let output = shell(&dir, "mkfifo pipe; exec timeout 60 $iotide info pipe");
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && err.contains("nobody writes to it"), "{err}");
    // Nor in a folder that looks like a trace.
    let output = shell(
        &dir,
        "mkdir trace; mkfifo trace/node.1.1.iot trace/other.csv; exec timeout 60 $iotide info trace",
    );
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_path_that_steers_the_terminal_is_shown_by_numbers() {
    let dir = FreshDir::new("strangers-terminal");
    dir.write("trace.csv", bursts("write"));
    let output =
        shell(&dir, "exec $iotide convert trace.csv --to csv -o $(printf 'a\\033[31m\\342\\200\\256b.csv')");
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{err}");
    assert!(err.contains("a\\u{1b}[31m\\u{202e}b.csv"), "{err}");
}

/// The tracer's library as cargo built it.
fn library() -> PathBuf {
    let here = Path::new(IOTIDE).parent().unwrap();
    ["deps/libiotide.so", "libiotide.so"]
        .iter()
        .map(|name| here.join(name))
        .find(|path| path.exists())
        .unwrap()
}

#[test]
fn a_blank_or_colon_in_the_path_of_the_library_preloads_nothing_from_the_working_directory() {
    let Some(cc) = program("cc") else { return };
    let dir = FreshDir::new("strangers-preload");
    dir.write("evil.c", "#include <stdio.h>\n__attribute__((constructor)) static void f(void) { fclose(fopen(\"owned\", \"w\")); }\n");
    for (folder, left) in [("my tools", "tools/libiotide.so"), ("my:tools", "tools/libiotide.so")] {
        // What the loader would look for: the part behind the separator, in the working directory.
        fs::create_dir_all(dir.join(folder)).unwrap();
        fs::create_dir_all(dir.join("tools")).unwrap();
        fs::copy(library(), dir.join(folder).join("libiotide.so")).unwrap();
        let mut compile = Command::new(&cc);
        compile.args(["-shared", "-fPIC", "evil.c", "-o", left]).current_dir(dir.path());
        assert!(compile.status().unwrap().success());
        let line = format!("IOTIDE_LIBRARY='{folder}/libiotide.so' exec $iotide record -- true");
        let output = shell(&dir, &line);
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(!dir.join("owned").exists(), "{err}");
        assert_eq!(output.status.code(), Some(2), "{err}");
        assert!(err.contains("several libraries") && err.contains("hint: `--library-dir DIR`"), "{err}");
    }
}

#[test]
fn the_program_alone_is_enough_for_another_user_and_a_planted_library_is_not_used() {
    let Some(setpriv) = program("setpriv") else { return };
    if !is_root() {
        return;
    }
    let dir = FreshDir::new("strangers-one-file");
    for open in [dir.path(), &dir.join("home"), &dir.join("planted/iotide")] {
        fs::create_dir_all(open).unwrap();
        fs::set_permissions(open, fs::Permissions::from_mode(0o755)).unwrap();
    }
    std::os::unix::fs::chown(dir.join("home"), Some(65534), Some(65534)).unwrap();
    fs::copy(IOTIDE, dir.join("iotide")).unwrap();
    let record = |cache: Option<PathBuf>| {
        let mut command = Command::new(&setpriv);
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(dir.join("iotide"));
        command.args(["record", "--", "sh", "-c", "echo hello > out"]).current_dir(dir.join("home"));
        command.env("HOME", dir.join("home")).env_remove("XDG_CACHE_HOME").env_remove("LD_PRELOAD");
        command.envs(cache.map(|cache| ("XDG_CACHE_HOME", cache)));
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for _ in 0..2 {
        let (status, said) = record(None);
        assert!(status == Some(0) && said.contains("6 B"), "{said}");
    }
    let kept = fs::read_dir(dir.join("home/.cache/iotide")).unwrap().count();
    assert_eq!(kept, 1, "it is written once");
    // A cache that others can write to is not used.
    fs::set_permissions(dir.join("planted/iotide"), fs::Permissions::from_mode(0o777)).unwrap();
    let (status, said) = record(Some(dir.join("planted")));
    assert!(status == Some(2) && said.contains("other users may replace files in it"), "{said}");
}

#[test]
fn a_program_with_rights_of_its_own_writes_no_trace_where_the_environment_says() {
    let Some(cc) = program("cc") else { return };
    let Some(setpriv) = program("setpriv") else { return };
    if !is_root() {
        return;
    }
    let dir = FreshDir::new("strangers-setuid");
    fs::copy(library(), dir.join("libiotide.so")).unwrap();
    let source = r#"#include <stdio.h>
        int main(void) { FILE *f = fopen("output", "w"); if (f) { fputs("x", f); fclose(f); } return 0; }"#;
    dir.write("copy.c", source);
    // As a library that the administrator has every program load (/etc/ld.so.preload).
    let link = format!("-Wl,-rpath,{}", dir.path().display());
    let mut compile = Command::new(cc);
    compile.args(["copy.c", "-o", "copy", "-Wl,--no-as-needed", "-L.", "-l:libiotide.so", &link]);
    assert!(compile.current_dir(dir.path()).status().unwrap().success());
    let traces = |name: &str, mode: u32| {
        fs::set_permissions(dir.join("copy"), fs::Permissions::from_mode(mode)).unwrap();
        let folder = dir.join(name);
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        let mut command = Command::new(&setpriv);
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(dir.join("copy"));
        command.env("IOTIDE_DIR", &folder).current_dir(&folder);
        assert!(command.status().unwrap().success());
        let names = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        names.filter(|path| path.extension().is_some_and(|end| end == "iot")).count()
    };
    assert_eq!(traces("plain", 0o755), 1, "an ordinary program is traced");
    assert_eq!(traces("setuid", 0o4755), 0);
    // Switched off it must not be in the way either: closing a stream once crashed.
    let mut command = Command::new(dir.join("copy"));
    let ended = command.env("IOTIDE_DISABLE", "1").current_dir(dir.path()).status().unwrap();
    assert!(ended.success(), "{ended}");
}

#[test]
fn a_file_at_the_path_of_a_socket_stays() {
    let dir = FreshDir::new("strangers-socket");
    let victim = dir.write("report.txt", "precious\n");
    for line in [
        "detect --listen unix:report.txt",
        "arbiter unix:report.txt",
        "arbiter unix:gate --control report.txt",
    ] {
        // A socket that stood in its place would be listened at for ever.
        let output = shell(&dir, &format!("exec timeout 20 $iotide {line}"));
        let err = String::from_utf8_lossy(&output.stderr);
        is_untouched(&victim);
        assert_eq!(output.status.code(), Some(2), "{line}: {err}");
        assert!(err.contains("no socket"), "{line}: {err}");
    }
}
