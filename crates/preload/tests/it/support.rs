//! Compiling a program, running it under the tracer, reading what came out.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use iotide_wire::{
    End, EndReason, Facts, Flags, Layer, LossKind, Note, NoteKind, Op, Payload, Record, Step, StreamHeader,
    Totals, next_block, skip_torn,
};

/// Where a test's own directory is.
pub fn directory_of(test: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("run").join(test)
}

/// A test's own empty directory.
pub fn directory(test: &str) -> PathBuf {
    let directory = directory_of(test);
    let _ = Command::new("umount").arg(directory.join("disk")).output(); // left by a test that failed
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    directory
}

/// The library under test, which cargo builds with the tests.
pub fn library() -> &'static Path {
    static LIBRARY: LazyLock<PathBuf> = LazyLock::new(|| {
        let library = std::env::current_exe().unwrap().with_file_name("libiotide.so");
        assert!(library.exists(), "{}", library.display());
        library
    });
    &LIBRARY
}

/// Compiles a program with `compiler`; `None`, said loudly, if there is no such compiler.
pub fn compile(compiler: &str, source: &str, flags: &[&str]) -> Option<PathBuf> {
    iotide_testkit::program(compiler)?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    let stem = source.file_stem().unwrap().to_str().unwrap();
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{stem}.{compiler}{}", flags.concat()));
    // Tests run side by side, as threads or as processes: each compiles to a name of its own and moves it into place.
    let own = format!("{stem}.{}.{:?}", std::process::id(), std::thread::current().id());
    let fresh = Path::new(env!("CARGO_TARGET_TMPDIR")).join(own);
    let compiled =
        Command::new(compiler).args(["-O1", "-g"]).args(flags).arg("-o").arg(&fresh).arg(&source).output();
    let compiled = compiled.unwrap();
    assert!(compiled.status.success(), "{compiler}: {}", String::from_utf8_lossy(&compiled.stderr));
    fs::rename(&fresh, &program).unwrap();
    Some(program)
}

/// Compiles a C program.
pub fn compile_c(source: &str) -> Option<PathBuf> {
    compile("gcc", source, &["-pthread"])
}

/// Runs `command` in `directory` with the tracer, whose trace goes to `directory/trace`.
pub fn run(directory: &Path, mut command: Command) -> Output {
    command
        .current_dir(directory)
        .env("LD_PRELOAD", library())
        .env("IOTIDE_DIR", directory.join("trace"))
        .env("IOTIDE_INCLUDE", directory)
        .env("IOTIDE_NESTED", "1")
        .env_remove("IOTIDE_EXCLUDE")
        .output()
        .unwrap()
}

/// Runs a program that is expected to end well, and returns what it says it moved beside what the trace says.
pub fn run_well(directory: &Path, command: Command) -> (Moved, Trace) {
    let output = run(directory, command);
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{stdout}\n{stderr}", output.status);
    (Moved::said(&stdout), Trace::read(&directory.join("trace")))
}

/// Bytes by layer and direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moved(pub BTreeMap<(&'static str, &'static str), u64>);

impl Moved {
    /// Adds up the lines "layer direction bytes" a program printed.
    pub fn said(stdout: &str) -> Self {
        let mut moved = Self::default();
        for line in stdout.lines() {
            let words: Vec<_> = line.split_whitespace().collect();
            let [layer, direction, bytes] = words[..] else { continue };
            let Some(layer) = ["posix", "stdio", "mpi"].into_iter().find(|name| *name == layer) else {
                continue;
            };
            let Some(direction) = ["read", "write"].into_iter().find(|name| *name == direction) else {
                continue;
            };
            moved.add(layer, direction, bytes.parse().unwrap());
        }
        moved
    }

    pub fn add(&mut self, layer: &'static str, direction: &'static str, bytes: u64) {
        if bytes > 0 {
            *self.0.entry((layer, direction)).or_default() += bytes;
        }
    }
}

/// Records of one process.
#[derive(Debug, Default)]
pub struct Process {
    pub path: PathBuf,
    pub pid: u32,
    pub rank: Option<u32>,
    pub mpi: String,
    pub records: Vec<Record>,
    pub names: BTreeMap<u32, String>,
    pub losses: Vec<(LossKind, u64)>,
    pub totals: Totals,
    pub notes: Vec<(NoteKind, String)>,
    pub end: Option<End>,
    pub n_damaged: usize,
}

/// Records of all processes.
#[derive(Debug, Default)]
pub struct Trace(pub Vec<Process>);

impl Trace {
    /// Reads a trace directory; one that does not exist holds nothing.
    pub fn read(directory: &Path) -> Self {
        let Ok(entries) = fs::read_dir(directory) else { return Self::default() };
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        Self(paths.into_iter().map(Process::read).collect())
    }

    /// Bytes of the calls the program made itself.
    pub fn moved(&self) -> Moved {
        let mut moved = Moved::default();
        for record in self.outer() {
            let layer = match record.flags.layer().unwrap() {
                Layer::Posix => "posix",
                Layer::Stdio => "stdio",
                Layer::MpiIo => "mpi",
            };
            match record.op() {
                Op::Read => moved.add(layer, "read", record.bytes),
                Op::Write => moved.add(layer, "write", record.bytes),
                _ => {}
            }
        }
        moved
    }

    /// Leaves out the calls on files that are not in `directory`: what an interpreter reads for itself.
    pub fn within(mut self, directory: &Path) -> Self {
        for process in &mut self.0 {
            let names = &process.names;
            process.records.retain(|record| {
                names.get(&record.file).is_some_and(|name| Path::new(name).starts_with(directory))
            });
        }
        self
    }

    /// Leaves out processes that are no rank: the launcher.
    pub fn of_ranks(mut self) -> Self {
        self.0.retain(|process| process.rank.is_some());
        self
    }

    /// The calls that succeeded and that the program made itself.
    pub fn outer(&self) -> impl Iterator<Item = &Record> {
        self.records().filter(|record| record.flags.0 & (Flags::NESTED | Flags::FAILED) == 0)
    }

    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.0.iter().flat_map(|process| &process.records)
    }

    /// Every process said good-bye, nothing is damaged or lost, and no record is missing.
    pub fn assert_whole(&self) {
        for process in &self.0 {
            assert_eq!(process.n_damaged, 0, "{}", process.path.display());
            let end = process.end.unwrap_or_else(|| panic!("{} has no end", process.path.display()));
            assert_eq!(end.n_records, process.records.len() as u64, "{}", process.path.display());
            let lost: Vec<_> = process.losses.iter().filter(|(_, n)| *n > 0).collect();
            assert!(lost.is_empty(), "{}: {lost:?}", process.path.display());
        }
    }

    /// Names of files the program wrote to or read from, without their directories.
    pub fn files_moved(&self) -> Vec<String> {
        let mut names: Vec<_> = self
            .0
            .iter()
            .flat_map(|process| {
                process.records.iter().filter(|record| matches!(record.op(), Op::Read | Op::Write)).map(
                    |record| {
                        let name = process.names.get(&record.file).map_or("?", String::as_str);
                        name.rsplit('/').next().unwrap().to_owned()
                    },
                )
            })
            .collect();
        names.sort();
        names.dedup();
        names
    }

    pub fn reasons(&self) -> Vec<Option<EndReason>> {
        self.0.iter().map(|process| process.end.map(|end| end.reason)).collect()
    }
}

impl Process {
    fn read(path: PathBuf) -> Self {
        let bytes = fs::read(&path).unwrap();
        Self { path, ..Self::from_bytes(&bytes) }
    }

    /// How many calls were lost so.
    pub fn lost(&self, kind: LossKind) -> u64 {
        self.losses.iter().filter(|(known, _)| *known == kind).map(|(_, n)| n).sum()
    }

    /// Takes a stream apart.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        StreamHeader::decode(bytes).unwrap();
        let mut process = Self::default();
        let mut rest = &bytes[StreamHeader::SIZE..];
        while !rest.is_empty() {
            let used = match next_block(rest) {
                Step::Block { header, payload, used } => {
                    process.take(Payload::of(&header, payload).unwrap());
                    used
                }
                Step::Need(_) => {
                    let skip = skip_torn(rest);
                    process.n_damaged += skip;
                    skip
                }
                Step::Damaged { skip, .. } => {
                    process.n_damaged += skip;
                    skip
                }
            };
            rest = &rest[used..];
        }
        process
    }

    fn take(&mut self, payload: Payload<'_>) {
        match payload {
            Payload::Facts(Facts { pid, rank, mpi, .. }) => {
                self.pid = pid;
                self.rank = rank;
                self.mpi = String::from_utf8_lossy(mpi).into_owned();
            }
            Payload::Paths(paths) => {
                self.names.extend(
                    paths.map(|entry| (entry.file, String::from_utf8_lossy(entry.path).into_owned())),
                );
            }
            Payload::Records(records) => self.records.extend(Payload::records(records).map(Option::unwrap)),
            Payload::Losses(losses) => {
                for (kind, n) in losses.iter() {
                    self.losses.retain(|(known, most)| Some(*known) != kind || *most > n);
                    if self.lost(kind.unwrap()) == 0 {
                        self.losses.push((kind.unwrap(), n));
                    }
                }
            }
            Payload::Totals(totals) => self.totals.raise(&totals),
            Payload::Note(note) => {
                let Note { kind, text } = note.unwrap();
                self.notes.push((kind, String::from_utf8_lossy(text).into_owned()));
            }
            Payload::Reserve => {}
            Payload::End(end) => self.end = Some(end),
            Payload::Unknown => panic!("a block of no known kind"),
        }
    }
}
