use std::os::unix::fs::PermissionsExt as _;

use iotide_formats::{NameHasher, NameKind, Target};
use iotide_trace::{JobInfo, TraceInfo};
use serde_json::Value;

use crate::util::Dir;

/// Names of a person, a project, a host, a program and so on, which stand in every input.
const NAMES: [&str; 8] = [
    "zugspitze",
    "matterhorn",
    "eigernordwand",
    "watzmannsolver",
    "loadmontblanc",
    "weisshorn",
    "73517351",
    "84268426",
];

const CSV: &str = "\
# measured by zugspitze on eigernordwand017
# user=zugspitze
# exe=/home/zugspitze/bin/watzmannsolver --project=matterhorn -u 73517351 in.weisshorn
# jobid=84268426
# start_time=1700000000
# nprocs=4
# runtime_s=60
# mounts=lustre /lustre/matterhorn; fuse.zugspitzefs /home; nfs4 /eigernordwand
# loss=3,,the node eigernordwand017 of zugspitze did not answer in job 84268426
rank,op,start,end,bytes,file
0,open,0,0.001,0,/lustre/matterhorn/zugspitze/out.0.weisshorn
0,write,1,2,1000000,/lustre/matterhorn/zugspitze/out.0.weisshorn
1,write,1,2,1100000,/lustre/matterhorn/zugspitze/out.1.weisshorn
2,write,1,2,1200000,/lustre/matterhorn/zugspitze/out.2.weisshorn
3,write,1,2,1300000,/lustre/matterhorn/zugspitze/out.3.weisshorn
0,write,21,22,1000000,/lustre/matterhorn/zugspitze/out.0.weisshorn
1,write,21,22,1100000,/lustre/matterhorn/zugspitze/out.1.weisshorn
2,write,21,22,1200000,/lustre/matterhorn/zugspitze/out.2.weisshorn
3,write,21,22,1300000,/lustre/matterhorn/zugspitze/out.3.weisshorn
0,write,41,42,1000000,/lustre/matterhorn/zugspitze/out.0.weisshorn
1,write,41,42,1100000,/lustre/matterhorn/zugspitze/out.1.weisshorn
2,write,41,42,1200000,/lustre/matterhorn/zugspitze/out.2.weisshorn
3,write,41,42,1300000,/lustre/matterhorn/zugspitze/out.3.weisshorn
0,read,0.1,0.2,5000,/home/zugspitze/lib/libmatterhorn.so.2
0,read,0.2,0.3,6000,/home/zugspitze/matterhorn.h5
1,read,0.2,0.3,700,/home/zugspitze/lib/python3.11/site-packages/loadmontblanc.py
1,read,2,1,700,/home/zugspitze/weisshorn
zugspitze,write,eigernordwand017,1,5,/home/zugspitze/x
";

const JSONL: &str = r#"{"user":"zugspitze","exe":"python3 /home/zugspitze/watzmannsolver.py","jobid":"84268426","host":"eigernordwand","hints":"cb_config_list=eigernordwand:2"}
{"rank":0,"op":"write","start":0,"end":1,"bytes":12000,"file":"/home/zugspitze/matterhorn","user.comment":"weisshorn","function":"loadmontblanc"}
{"rank":1,"op":"write","start":1,"end":3,"bytes":4000000,"file":"/home/zugspitze/weisshorn.73517351"}
{"rank":"zugspitze","op":"write","start":1,"end":3,"bytes":4000000,"file":"/home/zugspitze/b"}
"#;

const DARSHAN: &str = "# darshan log version: 3.41
# compression method: ZLIB
# exe: /home/zugspitze/watzmannsolver -a matterhorn
# uid: 73517351
# jobid: 84268426
# start_time: 1600000000
# start_time_asci: Sun Sep 13 14:26:40 2020
# end_time: 1600000009
# end_time_asci: Sun Sep 13 14:26:49 2020
# nprocs: 2
# run time: 9.2500
# metadata: lib_ver = 3.4.4
# metadata: h = romio_no_indep_rw=true;cb_config_list=eigernordwand:2
# metadata: account = matterhorn

# log file regions
# -------------------------------------------------------
# header: 1328 bytes (uncompressed)
# job data: 300 bytes (compressed)
# record table: 100 bytes (compressed)
# POSIX module: 200 bytes (compressed), ver=4

# mounted file systems (mount point and fs type)
# -------------------------------------------------------
# mount entry:\t/lustre/matterhorn\tlustre
# mount entry:\t/\text4

# *******************************************************
# POSIX module data
# *******************************************************

#<module>\t<rank>\t<record id>\t<counter>\t<value>\t<file name>\t<mount pt>\t<fs type>
POSIX\t-1\t18446744073709551615\tPOSIX_OPENS\t4\t/lustre/matterhorn/weisshorn a\t/lustre/matterhorn\tlustre
POSIX\t-1\t18446744073709551615\tPOSIX_WRITES\t8\t/lustre/matterhorn/weisshorn a\t/lustre/matterhorn\tlustre
POSIX\t-1\t18446744073709551615\tPOSIX_BYTES_WRITTEN\t4096\t/lustre/matterhorn/weisshorn a\t/lustre/matterhorn\tlustre
POSIX\t-1\t18446744073709551615\tPOSIX_F_WRITE_START_TIMESTAMP\t1.500000\t/lustre/matterhorn/weisshorn a\t/lustre/matterhorn\tlustre
POSIX\t-1\t18446744073709551615\tPOSIX_F_WRITE_END_TIMESTAMP\t2.500000\t/lustre/matterhorn/weisshorn a\t/lustre/matterhorn\tlustre
POSIX\t1\t7\tPOSIX_OPENS\t1\t/home/zugspitze/b\t/\text4
POSIX\t1\t7\tPOSIX_WRITES\t1\t/home/zugspitze/b\t/\text4
POSIX\t1\t7\tPOSIX_BYTES_WRITTEN\t10\t/home/zugspitze/b\t/\text4
POSIX\t1\t7\tPOSIX_F_WRITE_START_TIMESTAMP\t3.000000\t/home/zugspitze/b\t/\text4
POSIX\t1\t7\tPOSIX_F_WRITE_END_TIMESTAMP\t4.000000\t/home/zugspitze/b\t/\text4
";

const DFTRACER: &str = r#"[
{"id":0,"name":"HH","cat":"dftracer","pid":5,"tid":5,"ph":"M","args":{"name":"eigernordwand017","value":9509357668201227806}}
{"id":1,"name":"SH","cat":"dftracer","pid":5,"tid":5,"ph":"M","args":{"hhash":9509357668201227806,"name":"python;/home/zugspitze/watzmannsolver.py","value":17868160079272185648}}
{"id":2,"name":"start","cat":"dftracer","pid":5,"tid":5,"ts":1744611912976870,"dur":0,"ph":"X","args":{"hhash":9509357668201227806,"cmd_hash":17868160079272185648}}
{"id":3,"name":"FH","cat":"dftracer","pid":5,"tid":5,"ph":"M","args":{"hhash":9509357668201227806,"name":"/lustre/matterhorn/weisshorn","value":17868160079272185649}}
{"id":4,"name":"open64","cat":"POSIX","pid":5,"tid":5,"ts":1744611912976874,"dur":4,"ph":"X","args":{"hhash":9509357668201227806,"fhash":17868160079272185649,"ret":3}}
{"id":5,"name":"pread","cat":"POSIX","pid":5,"tid":5,"ts":1744611912976974,"dur":1,"ph":"X","args":{"hhash":9509357668201227806,"fhash":17868160079272185649,"ret":8,"count":8}}
{"id":6,"name":"loadmontblanc","cat":"matterhorn","pid":5,"tid":5,"ts":1744611912976980,"dur":9,"ph":"X","args":{"user":"zugspitze","epoch":"73517351"}}
{"id":7,"name":"fwrite","cat":"STDIO","pid":5,"tid":5,"ts":1744611912977000,"dur":1,"ph":"X","args":{"hostname":"eigernordwand017","ret":50,"size":4,"fname":"/home/zugspitze/84268426.out"}}
]
"#;

const INPUTS: [(&str, &str); 4] =
    [("events.csv", CSV), ("events.jsonl", JSONL), ("darshan.txt", DARSHAN), ("dftracer.pfw", DFTRACER)];

const KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n";

/// A directory with the inputs and a key that nobody else can read.
fn dir() -> Dir {
    let dir = Dir::new();
    for (name, text) in INPUTS {
        dir.write(name, text);
    }
    write_key(&dir, "key", KEY);
    dir
}

fn write_key(dir: &Dir, name: &str, text: &str) {
    dir.write(name, text);
    set_mode(dir, name, 0o600);
}

fn set_mode(dir: &Dir, name: &str, mode: u32) {
    std::fs::set_permissions(dir.path().join(name), std::fs::Permissions::from_mode(mode)).unwrap();
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let three = |chunk: &[u8]| chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
    let four = |bits: u32| [18, 12, 6, 0].map(|at| char::from(DIGITS[(bits >> at & 63) as usize]));
    bytes.chunks_exact(3).flat_map(|chunk| four(three(chunk))).collect()
}

/// Pieces of names that must not be in a shared log: each five letters of a name, and names in hexadecimal and base64.
fn pieces() -> Vec<(String, Vec<u8>)> {
    let mut pieces = Vec::new();
    for name in NAMES {
        let bytes = name.as_bytes();
        let length = if bytes[0].is_ascii_digit() { 7 } else { 5 };
        pieces.extend(bytes.windows(length).map(|piece| (name.to_owned(), piece.to_vec())));
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        pieces.push((format!("hex of {name}"), hex.into_bytes()));
        // From each of the three places at which a group of base64 can begin.
        for from in 0..3 {
            let text = base64(&bytes[from..]).to_ascii_lowercase();
            pieces.push((format!("base64 of {name}"), text.into_bytes()));
        }
    }
    pieces
}

/// The names of which something is in these bytes.
fn found(bytes: &[u8]) -> Vec<String> {
    let small = bytes.to_ascii_lowercase();
    let mut names: Vec<String> = (pieces().into_iter())
        .filter(|(_, piece)| small.windows(piece.len()).any(|part| part == piece))
        .map(|(name, _)| name)
        .collect();
    names.dedup();
    names
}

#[test]
fn no_piece_of_a_name_is_left_in_any_form() {
    let dir = dir();
    for (input, text) in INPUTS {
        assert!(found(text.as_bytes()).len() >= 5, "{input} has names to look for");
        for target in Target::ALL {
            let plain = dir.iotide(["convert", input, "--to", target.name(), "-o", "plain"]).exits_with(0);
            let hashed = dir
                .iotide([
                    "convert",
                    input,
                    "--to",
                    target.name(),
                    "-o",
                    "hashed",
                    "--hash-names",
                    "--key-file",
                    "key",
                ])
                .exits_with(0);
            let [plain_bytes, bytes] =
                ["plain", "hashed"].map(|name| std::fs::read(dir.path().join(name)).unwrap());
            let name = target.name();
            if !name.starts_with("tmio") {
                assert!(found(&plain_bytes).len() >= 3, "{input} as {name}: the test sees names");
            }
            assert_eq!(found(&bytes), Vec::<String>::new(), "{input} as {name}");
            assert_eq!(
                found(hashed.stderr.as_bytes()),
                Vec::<String>::new(),
                "{input} as {name}: {hashed:?}"
            );
            let last = |text: &str| text.lines().last().unwrap().replace("plain", "hashed");
            assert_eq!(last(&plain.stderr), last(&hashed.stderr));
        }
    }
}

/// The same but for names: numbers and all that is not a text agree, and texts that differ had a name in them.
#[track_caller]
fn same_but_names(before: &Value, after: &Value, at: &str) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>(), "{at}");
            for ((key, before), after) in before.iter().zip(after.values()) {
                same_but_names(before, after, &format!("{at}.{key}"));
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            assert_eq!(before.len(), after.len(), "{at}: {before:?} {after:?}");
            for (i, (before, after)) in before.iter().zip(after).enumerate() {
                same_but_names(before, after, &format!("{at}[{i}]"));
            }
        }
        (Value::String(before), Value::String(after)) if before != after => {
            let had_name =
                before.contains('/') || !found(before.as_bytes()).is_empty() || at.contains("losses");
            assert!(had_name, "{at}: {before:?} {after:?}");
            assert_eq!(found(after.as_bytes()), Vec::<String>::new(), "{at}: {after:?}");
        }
        _ => assert_eq!(before, after, "{at}"),
    }
}

#[test]
fn an_analysis_is_the_same_but_for_the_names() {
    let dir = dir();
    for (input, _) in INPUTS {
        for form in ["native", "csv", "jsonl"] {
            let of = |hash: &[&str]| {
                let place = Dir::new();
                let mut convert = dir.command(["convert", input, "--to", form]);
                convert.args(["-o", place.path().join("run").to_str().unwrap()]).args(hash);
                assert!(convert.output().unwrap().status.success());
                ["detect", "report", "categorize", "info"].map(|command| {
                    serde_json::from_str::<Value>(&place.iotide([command, "run", "--format", "json"]).stdout)
                        .unwrap()
                })
            };
            let (before, after) = (of(&[]), of(&["--hash-names", "--key-file", "key"]));
            for (before, after) in before.iter().zip(&after) {
                same_but_names(before, after, &format!("{input} as {form}"));
            }
        }
    }
}

/// The paths in a table.
fn files(table: &str) -> Vec<String> {
    let rows = table.lines().filter(|line| !line.starts_with('#')).skip(1);
    rows.filter_map(|row| row.split(',').nth(5).map(str::to_owned)).collect()
}

#[test]
fn a_name_has_one_hash_in_all_logs_of_a_key() {
    let dir = dir();
    write_key(&dir, "other", &KEY.replace("00", "01"));
    dir.write(
        "two.csv",
        "# user=zugspitze\nrank,op,start,end,bytes,file\n0,read,0,1,7,/home/zugspitze/matterhorn.h5\n",
    );
    let shared = |input: &str, key: &str| {
        dir.iotide(["convert", input, "--to", "csv", "--hash-names", "--key-file", key]).exits_with(0).stdout
    };
    let (one, two, other) =
        (shared("events.csv", "key"), shared("two.csv", "key"), shared("two.csv", "other"));
    let path = &files(&two)[0];
    assert!(files(&one).contains(path), "{path}: {one}");
    assert!(!files(&other).contains(path));
    let user = |table: &str| table.lines().find(|line| line.starts_with("# user=")).unwrap().to_owned();
    assert_eq!(user(&one), user(&two));
    assert_ne!(user(&one), user(&other));
    assert!(path.contains(user(&one).trim_start_matches("# user=")), "the user's folder has the user's hash");
    assert_eq!(shared("two.csv", "key"), two);
}

#[test]
fn what_is_kept_is_what_was_chosen() {
    let dir = dir();
    let hashed = |args: [&str; 2]| {
        let mut command = dir.command(["convert", "events.csv", "--to", "csv", "--key-file", "key"]);
        String::from_utf8(command.args(args.iter().filter(|arg| !arg.is_empty())).output().unwrap().stdout)
            .unwrap()
    };
    let users = hashed(["--hash-names=users,start", ""]);
    assert!(!users.contains("user=zugspitze") && !users.contains("start_time"), "{users}");
    assert!(
        users.contains("/lustre/matterhorn/zugspitze/out.0.weisshorn") && users.contains("jobid=84268426")
    );
    assert!(users.contains("# loss=3,,the … of …"), "losses never quote: {users}");
    let kept = hashed(["--hash-names", "--keep-names=mounts,suffixes"]);
    assert!(kept.contains("mounts=lustre /lustre/matterhorn; "), "{kept}");
    assert!(files(&kept).iter().any(|path| path.starts_with("/lustre/matterhorn/")), "{kept}");
    assert!(kept.contains("start_time=1700000000") && !kept.contains("zugspitze"), "{kept}");
}

#[test]
fn rules_that_go_by_names_say_the_same_of_their_hashes() {
    let paths = [
        "/proc/self/maps",
        "/devices/x",
        "/dev/null",
        "/sys/class/net",
        "/lib/libm.so.6",
        "a.so",
        "x.so.1.2",
        "x.sofa",
        "<STDIN>",
        "<unknown>",
        "socket:[1]",
        "pipe:[2]",
        "/tmp/ompi.n1/0/x",
        "/tmp/a_cid-3.sm",
        "/x/.locktest.7",
        "/dev/shm/a",
        "/a/site-packages/x/y.so",
        "/usr/lib/python3.12/os.py",
        "/lib/pythonic/x",
        "/x/lib/python",
        "pyvenv.cfg",
        "/pyvenv.cfg/x",
        "/x/pyvenv.cfg",
        "/a/__pycache__/b.pyc",
        "/x/a.dist-info",
        "data.h5",
        "/scratch/a/b.nc",
        "/home/kuhn/a",
        "",
        "/",
        "rel/ative",
        "/a//b/../c/.",
        "/x/.py",
        "s3://bucket/key.py",
        "/x/a.pth/b",
    ];
    let mut info =
        TraceInfo { job: JobInfo::default(), files: paths.iter().map(|path| (*path).to_owned()).collect() };
    NameHasher::new([3; 32], NameKind::NAMES, &[]).info(&mut info);
    for (before, after) in paths.iter().zip(&info.files) {
        assert_eq!(
            iotide_analysis::is_foreign(before),
            iotide_analysis::is_foreign(after),
            "{before}: {after}"
        );
        assert_eq!(before.matches('/').count(), after.matches('/').count(), "{before}: {after}");
    }
    let programs = [
        "/usr/bin/python3.11 -u /home/kuhn/train.py",
        "./lmp -in x",
        "/opt/perl5/bin/perl a.pl",
        "pythonic x",
    ];
    for program in programs {
        let job = JobInfo { exe: Some(program.to_owned()), ..JobInfo::default() };
        let mut info = TraceInfo { job, files: Vec::new() };
        NameHasher::new([3; 32], NameKind::NAMES, &[]).info(&mut info);
        let words = |exe: &str| iotide_api::application(exe).unwrap().split(' ').count();
        let hashed = info.job.exe.unwrap();
        assert_eq!(words(program), words(&hashed), "{program}: {hashed}");
    }
}

#[test]
fn a_key_is_made_once_and_is_for_its_owner_alone() {
    let dir = dir();
    let convert = |key: &str, new: &str| {
        let mut command = dir.command([
            "convert",
            "events.csv",
            "--to",
            "native",
            "-o",
            "out",
            "--hash-names",
            "--key-file",
            key,
        ]);
        let outcome =
            crate::util::Outcome::of(command.args((!new.is_empty()).then_some(new)).output().unwrap());
        let is_written = std::fs::remove_file(dir.path().join("out")).is_ok();
        assert_eq!(is_written, outcome.status == 0, "without a key nothing is written: {outcome:?}");
        outcome
    };
    insta::assert_snapshot!(convert("new", "").exits_with(2).complaint(), @"
    iotide: there is no key new
    hint: `--new-key` makes one
    ");
    convert("new", "--new-key").exits_with(0);
    assert_eq!(dir.path().join("new").metadata().unwrap().permissions().mode() & 0o777, 0o400);
    let key = dir.read("new");
    assert!(key.trim().len() == 64 && key != KEY);
    convert("new", "").exits_with(0);
    insta::assert_snapshot!(convert("new", "--new-key").exits_with(2).complaint(), @"
    iotide: new is there already
    hint: without `--new-key` it is used; a new key gives other hashes
    ");
    assert_eq!(dir.read("new"), key);
    for mode in [0o640, 0o604, 0o620] {
        set_mode(&dir, "key", mode);
        insta::allow_duplicates! {
            insta::assert_snapshot!(convert("key", "").exits_with(2).complaint(), @"
            iotide: the key key is not yours alone
            hint: others can read it, or own it: `chmod 600` closes it; whoever has read it can try names out
            ");
        }
    }
    write_key(&dir, "short", "0011\n");
    insta::assert_snapshot!(convert("short", "").exits_with(2).complaint(), @"
    iotide: short is not a key: 64 hexadecimal digits
    hint: `--new-key --key-file FILE` makes one in a new file
    ");
    let outcome = dir.iotide(["convert", "events.csv", "--to", "csv", "--hash-names"]).exits_with(2);
    assert!(outcome.stderr.contains("--key-file <FILE>"), "{outcome:?}");
}
