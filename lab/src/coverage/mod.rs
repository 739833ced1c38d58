//! Does the tracer see what the kernel sees? `cargo xtask coverage [NAME…]`
//!
//! Each program is run twice in a folder of the same name: under `iotide record`, and under `strace -f`. Both sides count calls that
//! moved data of regular files, as the system saw them: for ours that is the POSIX layer and what the C library read and wrote beneath its
//! streams. Files that the tracer leaves out are left out of both.
//!
//! To add a program: an entry in [`CASES`].

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::peer::on_path;
use crate::{Outcome, product};

mod ours;
mod strace;

const HELP: &str = "\
usage: cargo xtask coverage [OPTIONS] [NAME…]

  --files          also list the files of which the two say different things
  --program FILE   the iotide to run (built in release mode unless given)
";

/// A program to run twice.
struct Case {
    name: &'static str,
    /// Programs that it needs.
    needs: &'static [&'static str],
    /// Script for the shell, in an empty folder.
    script: &'static str,
    expected: Expected,
}

/// How the two should stand to each other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// The same bytes read and written.
    Same,
    /// The tracer cannot see it, and says so in words that contain this.
    Named(&'static str),
}

macro_rules! fio {
    ($options:literal) => {
        concat!(
            "fio --name=job --filename=data --size=8m --bs=64k --rw=readwrite --end_fsync=1 --output=/dev/null ",
            $options
        )
    };
}

const CASES: &[Case] = &[
    Case { name: "fio psync", needs: &["fio"], script: fio!("--ioengine=psync"), expected: Expected::Same },
    Case {
        name: "fio pvsync2",
        needs: &["fio"],
        script: fio!("--ioengine=pvsync2"),
        expected: Expected::Same,
    },
    Case {
        name: "fio libaio",
        needs: &["fio"],
        script: fio!("--ioengine=libaio --iodepth=8"),
        expected: Expected::Same,
    },
    Case {
        name: "fio posixaio",
        needs: &["fio"],
        script: fio!("--ioengine=posixaio --iodepth=8"),
        expected: Expected::Same,
    },
    Case {
        name: "fio io_uring",
        needs: &["fio"],
        script: fio!("--ioengine=io_uring --iodepth=8"),
        expected: Expected::Named("io_uring"),
    },
    Case {
        name: "fio mmap",
        needs: &["fio"],
        script: fio!("--ioengine=mmap"),
        expected: Expected::Named("mapped"),
    },
    Case {
        name: "git",
        needs: &["git"],
        script: "git init -q one && cd one && seq 20000 >numbers && mkdir sub && seq 3000 >sub/more && git add . \
                 && git -c user.name=a -c user.email=a@b commit -qm first && seq 20001 >numbers && git diff >../diff \
                 && git -c user.name=a -c user.email=a@b commit -qam second && git gc -q && cd .. \
                 && git clone -q one two && git -C two log -p >log && git -C two fsck >/dev/null 2>&1",
        expected: Expected::Same,
    },
    Case {
        name: "sqlite",
        needs: &["sqlite3"],
        script: "sqlite3 data.db 'create table t(a,b); with recursive n(i) as (select 1 union all select i+1 from n \
                 where i<20000) insert into t select i, hex(i*i) from n; create index x on t(b); vacuum; \
                 select count(*) from t where b>3;' >counted && sqlite3 data.db .dump >dump.sql \
                 && sqlite3 again.db <dump.sql",
        expected: Expected::Same,
    },
    Case {
        name: "python",
        needs: &["python3"],
        script: "cat >work.py <<'END'\nimport csv, json, shutil, tempfile, mod\n\
                 with open('t.csv', 'w') as f:\n    w = csv.writer(f)\n    [w.writerow([i, i * i]) for i in range(20000)]\n\
                 rows = list(csv.reader(open('t.csv')))\njson.dump(rows, open('t.json', 'w'))\n\
                 assert json.load(open('t.json')) == rows\nshutil.copy('t.json', 'copy.json')\n\
                 with tempfile.TemporaryFile(dir='.') as f:\n    f.write(b'x' * 300000); f.seek(0); f.read(1000)\n\
                 print(mod.x, file=open('said', 'w'))\nEND\necho 'x = 1' >mod.py; python3 work.py && python3 work.py",
        expected: Expected::Same,
    },
    Case {
        name: "node",
        needs: &["node"],
        script: "cat >work.js <<'END'\nconst fs = require('fs');\n\
                 fs.writeFileSync('a', 'x'.repeat(1000000)); fs.copyFileSync('a', 'b');\n\
                 const out = fs.createWriteStream('c');\nfs.createReadStream('a').pipe(out);\n\
                 out.on('close', () => fs.promises.readFile('c').then(d => fs.appendFileSync('d', d)));\nEND\nnode work.js",
        expected: Expected::Same,
    },
    Case {
        name: "make -j4",
        needs: &["make", "cc"],
        script: "for i in 1 2 3 4 5 6; do echo \"#include <stdio.h>\nint f$i(void) { return printf(\\\"$i\\\"); }\" >f$i.c; done; \
                 echo 'int main(void) { return 0; }' >main.c; \
                 printf 'all: prog\\nprog: f1.o f2.o f3.o f4.o f5.o f6.o main.o\\n\\tcc -o $@ $^\\n' >Makefile; make -s -j4",
        expected: Expected::Same,
    },
];

/// Runs the programs whose name contains one of the words (all, if none is given), and prints the table.
pub(crate) fn run(args: &[String]) -> Result<Outcome, String> {
    let (mut wanted, mut lists_files, mut program) = (Vec::new(), false, None);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--files" => lists_files = true,
            "--program" => program = Some(PathBuf::from(args.next().ok_or("--program needs a value")?)),
            "--help" | "-h" => {
                print!("{HELP}");
                return Ok(Outcome::Good);
            }
            option if option.starts_with('-') => return Err(format!("no option {option}\n{HELP}")),
            name => wanted.push(name),
        }
    }
    let program = program.map_or_else(product::build, Ok)?;
    if on_path("strace").is_none() {
        return Err("no strace on PATH".to_owned());
    }
    let chosen: Vec<&Case> = (CASES.iter())
        .filter(|case| wanted.is_empty() || wanted.iter().any(|name| case.name.contains(name)))
        .collect();
    if chosen.is_empty() {
        return Err("no program of that name".to_owned());
    }
    let bed = Bed(std::env::temp_dir().join(format!("iotide-coverage-{}", std::process::id())));
    let (mut rows, mut is_all_good) = (Vec::new(), true);
    for case in chosen {
        if let Some(missing) = case.needs.iter().find(|name| on_path(name).is_none()) {
            eprintln!("no {missing} on PATH: {} is left out", case.name);
            continue;
        }
        eprintln!("running {}", case.name);
        let compared = compare(case, &bed.0, &program).map_err(|error| format!("{}: {error}", case.name))?;
        if lists_files {
            print!("{}", compared.by_file());
        }
        is_all_good &= compared.is_as_expected(case.expected);
        rows.push(compared.row(case));
    }
    if rows.is_empty() {
        return Err("nothing was compared".to_owned());
    }
    println!(
        "| program | calls: strace | iotide | read, B: strace | iotide | written, B: strace | iotide | |\n|---|---|---|---|---|---|---|---|"
    );
    rows.iter().for_each(|row| println!("{row}"));
    Ok(if is_all_good { Outcome::Good } else { Outcome::Wanting })
}

/// Sums over the I/O on a file, or on all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Moved {
    calls: u64,
    read: u64,
    written: u64,
}

impl Moved {
    fn add(&mut self, is_read: bool, bytes: u64) {
        self.calls += 1;
        *(if is_read { &mut self.read } else { &mut self.written }) += bytes;
    }
}

/// I/O that one side has recorded, by path.
type Seen = BTreeMap<String, Moved>;

/// I/O that both sides have recorded.
struct Compared {
    strace: Seen,
    ours: Seen,
    /// Losses that our trace reports.
    losses: Vec<String>,
}

impl Compared {
    fn sum(seen: &Seen) -> Moved {
        seen.values().fold(Moved::default(), |sum, file| Moved {
            calls: sum.calls + file.calls,
            read: sum.read + file.read,
            written: sum.written + file.written,
        })
    }

    fn is_as_expected(&self, expected: Expected) -> bool {
        let (theirs, ours) = (Self::sum(&self.strace), Self::sum(&self.ours));
        match expected {
            // Something must have been seen.
            Expected::Same => ours.written > 0 && (theirs.read, theirs.written) == (ours.read, ours.written),
            Expected::Named(words) => self.losses.iter().any(|loss| loss.contains(words)),
        }
    }

    fn row(&self, case: &Case) -> String {
        let (theirs, ours) = (Self::sum(&self.strace), Self::sum(&self.ours));
        let verdict = match case.expected {
            expected if !self.is_as_expected(expected) => "DIFFERENT",
            Expected::Same => "same bytes",
            Expected::Named(_) => "named",
        };
        let losses: String = self.losses.iter().map(|loss| format!(": {loss}")).collect();
        format!(
            "| {} | {} | {} | {} | {} | {} | {} | {verdict}{losses} |",
            case.name,
            thousands(theirs.calls),
            thousands(ours.calls),
            thousands(theirs.read),
            thousands(ours.read),
            thousands(theirs.written),
            thousands(ours.written),
        )
    }

    fn by_file(&self) -> String {
        let mut text = String::new();
        let paths: std::collections::BTreeSet<&String> = self.strace.keys().chain(self.ours.keys()).collect();
        for path in paths {
            let of = |seen: &Seen| seen.get(path).copied().unwrap_or_default();
            let (theirs, ours) = (of(&self.strace), of(&self.ours));
            if (theirs.read, theirs.written) != (ours.read, ours.written) {
                let _ = writeln!(text, "  {path}: strace {theirs:?}, iotide {ours:?}");
            }
        }
        text
    }
}

fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A folder that is gone when dropped.
struct Bed(PathBuf);

impl Drop for Bed {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn compare(case: &Case, bed: &Path, program: &Path) -> Result<Compared, String> {
    let (trace, text) = (bed.join("trace"), bed.join("strace.txt"));
    let _ = fs::remove_dir_all(&trace);
    let mut strace = Command::new("strace");
    strace.args(["-f", "-ttt", "-T", "-yy", "-s", "64", "-o"]).arg(&text);
    shell(strace, case, bed)?;
    let mut record = Command::new(program);
    record.arg("record").arg("-o").arg(&trace).arg("--");
    shell(record, case, bed)?;
    Ok(Compared { strace: strace::seen(&text)?, ours: ours::seen(&trace)?, losses: ours::losses(&trace)? })
}

/// Runs the script of a case below another program, in an empty folder that has the same name each time.
fn shell(mut above: Command, case: &Case, bed: &Path) -> Result<(), String> {
    let folder = bed.join("here");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    above.arg("sh").args(["-c", case.script]).current_dir(&folder).stdin(Stdio::null());
    // No settings of whoever runs this, and the same moment each time.
    above.env("HOME", &folder).envs([
        ("GIT_AUTHOR_DATE", "1700000000 +0000"),
        ("GIT_COMMITTER_DATE", "1700000000 +0000"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
    ]);
    let output = above.output().map_err(|error| format!("cannot start {above:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{above:?} failed: {}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(())
}

/// Whether the tracer leaves a file out, by `docs/tracing.md`.
fn is_left_out(path: &str) -> bool {
    const FOLDERS: [&str; 10] =
        ["/proc", "/sys", "/dev", "/run", "/var/run", "/etc", "/usr", "/lib", "/lib64", "/bin"];
    let is_in = |folder: &&str| path.strip_prefix(*folder).is_some_and(|rest| rest.starts_with('/'));
    let is_shared_memory = path.starts_with("/dev/shm/");
    (FOLDERS.iter().any(is_in) && !is_shared_memory)
        || path.ends_with(".so")
        || path.contains(".so.")
        || path.ends_with(".pyc")
        || !path.starts_with('/')
        || path.starts_with("/memfd:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_sides_that_saw_nothing_do_not_agree() {
        let nothing = Compared { strace: Seen::new(), ours: Seen::new(), losses: Vec::new() };
        assert!(!nothing.is_as_expected(Expected::Same));
        assert!(!nothing.is_as_expected(Expected::Named("mapped")));
    }

    #[test]
    fn what_the_tracer_leaves_out_is_left_out_of_both() {
        for left_out in ["/usr/lib/x", "/dev/null", "/a/b.so", "/a/libc.so.6", "/a/m.pyc", "pipe:[1]"] {
            assert!(is_left_out(left_out), "{left_out}");
        }
        for kept in ["/dev/shm/x", "/home/a/data", "/usrlocal/x", "/a/m.pyc.140"] {
            assert!(!is_left_out(kept), "{kept}");
        }
    }
}
