//! Parts of the chain from a program to a page, each tried out.

use std::env;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use iotide_api::{InfoOptions, Input, info};
use iotide_private::{FileSystem, PrivateDir, temporary_files};
use iotide_report::{CheckEntry, CheckState, text};
use rustix::fs::statvfs;

use crate::asked::Fault;
use crate::commands::asking::ask;
use crate::commands::library::{self, LibraryPlace};
use crate::commands::record::{environment, pages_directory};
use crate::config::Config;
use crate::ui::Ui;

/// Programs of other parties answer within this time, or are taken as broken.
const PATIENCE: Duration = Duration::from_secs(10);
/// Clocks of a file system and of this machine differ by less.
const CLOCKS_APART_S: f64 = 1.0;
/// A trace of a long run needs more than this.
const LITTLE_SPACE: u64 = 1 << 30;

/// A part that works, with what was found; or is absent, with what would bring it.
enum Found {
    Works(String),
    Absent { found: String, mend: &'static str },
}

/// Tries all parts.
pub(super) fn all(ui: &mut Ui) -> Vec<CheckEntry> {
    type Check = fn() -> anyhow::Result<Found>;
    let checks: [(&'static str, Check); 10] = [
        ("tracer", tracer),
        ("counters", counters),
        ("kernel", kernel),
        ("daemon", daemon),
        ("mount", mount),
        ("mpi", mpi),
        ("slurm", slurm),
        ("prometheus", prometheus),
        ("clock", clock),
        ("space", space),
    ];
    let mut entries = Vec::new();
    for (id, check) in checks {
        ui.progress(format_args!("checking {id}"));
        entries.push(entry(id, check()));
    }
    entries
}

fn entry(id: &'static str, found: anyhow::Result<Found>) -> CheckEntry {
    match found {
        Ok(Found::Works(text)) => CheckEntry { id, state: CheckState::Works, text: text.into(), mend: None },
        Ok(Found::Absent { found, mend }) => CheckEntry {
            id,
            state: CheckState::Absent,
            text: found.into(),
            mend: Some(mend.to_owned().into()),
        },
        Err(error) => {
            let mend = Fault::of(&error).hint.map(Into::into);
            CheckEntry { id, state: CheckState::Broken, text: format!("{error:#}").into(), mend }
        }
    }
}

/// Bytes that a small program writes, and reads again.
const WORD: &str = "0123456789";

/// Records a small program, and looks for its bytes in the trace.
fn tracer() -> anyhow::Result<Found> {
    let library = library::find(&LibraryPlace::default())?;
    let folder = PrivateDir::new("doctor").context("cannot make a folder for temporary files")?;
    let trace = folder.path().join("trace");
    std::fs::create_dir(&trace).context("cannot make a folder for a trace")?;
    let script = format!("printf {WORD} > word; read word < word; test \"$word\" = {WORD}");
    let status = Command::new("/bin/sh")
        .args(["-c", &script])
        .current_dir(folder.path())
        .envs(environment(&library, &trace))
        .stdin(Stdio::null())
        .status()
        .context("cannot run /bin/sh")?;
    if !status.success() {
        bail!("a shell under the tracer failed: {status}");
    }
    let found = info(&Input::file(&trace), &InfoOptions::default())
        .context("a shell was traced, and its trace cannot be read")?;
    let (read, written) = (found.source.bytes_read.unwrap_or(0.0), found.source.bytes_written.unwrap_or(0.0));
    if written != WORD.len() as f64 || read < WORD.len() as f64 {
        bail!(
            "a shell wrote and read {} bytes under the tracer, which saw {written:.0} and {read:.0}: is /bin/sh statically linked?",
            WORD.len()
        );
    }
    Ok(Found::Works(format!("every byte of a small program was seen; the library is {}", library.display())))
}

/// Looks for room for the counters of running programs.
fn counters() -> anyhow::Result<Found> {
    let directory = pages_directory()?;
    let FileSystem { kind, is_shared, .. } =
        FileSystem::of(&directory).with_context(|| format!("cannot look at {}", directory.display()))?;
    if is_shared {
        bail!(
            "{} is on a network file system ({kind}), where counters cost a call each",
            directory.display()
        );
    }
    Ok(Found::Works(format!("`record --live` keeps counters in {} ({kind})", directory.display())))
}

/// Tries to attach the kernel's tracer: some uses need it, and few have the rights.
fn kernel() -> anyhow::Result<Found> {
    let abilities = iotide_kernel::check();
    let lacking = |is_needed: bool| {
        let lacking = abilities.iter().filter(move |ability| ability.is_needed == is_needed);
        lacking.filter_map(|ability| Some((ability.what, ability.works.as_ref().err()?))).next()
    };
    if let Some((_, why)) = lacking(true) {
        return Ok(Found::Absent {
            found: why.clone(),
            mend: "only `record --kernel` needs it: docs/kernel-tracing.md says how to get it",
        });
    }
    let but = lacking(false).map(|(what, why)| format!(", but for {what} ({why})")).unwrap_or_default();
    Ok(Found::Works(format!("`record --kernel` can trace static programs, Go and io_uring{but}")))
}

fn daemon() -> anyhow::Result<Found> {
    let socket = Config::held().daemon();
    if !socket.exists() {
        return Ok(Found::Absent {
            found: format!("no daemon runs here ({} is not there)", socket.display()),
            mend: "`iotide serve` starts one; `iotide serve install` for good",
        });
    }
    let answer = ask("/api/1/nodes")?;
    Ok(Found::Works(format!(
        "the daemon at {} answers ({})",
        socket.display(),
        text::bytes(answer.len() as f64)
    )))
}

fn mount() -> anyhow::Result<Found> {
    let device = Path::new("/dev/fuse");
    if !device.exists() {
        return Ok(Found::Absent {
            found: "there is no /dev/fuse: `iotide mount` cannot serve files here".to_owned(),
            mend: "`modprobe fuse`, or give the container /dev/fuse",
        });
    }
    let opened = OpenOptions::new().read(true).write(true).open(device);
    if let Err(error) = opened {
        return Ok(Found::Absent {
            found: format!("/dev/fuse cannot be opened ({error})"),
            mend: "ask for the right to use it; commands other than `mount` do not need it",
        });
    }
    let helper = program("fusermount3");
    if helper.is_none() && !rustix::process::geteuid().is_root() {
        return Ok(Found::Absent {
            found: "fusermount3 is not installed, and only root can mount without it".to_owned(),
            mend: "install fuse3",
        });
    }
    Ok(Found::Works("/dev/fuse can be opened: `iotide mount` can serve files".to_owned()))
}

fn mpi() -> anyhow::Result<Found> {
    let known = ["mpirun", "mpirun.openmpi", "mpirun.mpich", "mpiexec.hydra", "srun", "jsrun"];
    let launchers: Vec<&str> = known.into_iter().filter(|name| program(name).is_some()).collect();
    if launchers.is_empty() {
        return Ok(Found::Absent {
            found: "no launcher of MPI is on the path".to_owned(),
            mend: "load the module of your MPI; programs without MPI need none",
        });
    }
    Ok(Found::Works(format!(
        "{}: `iotide record -- {} -n 4 PROGRAM` traces all ranks",
        launchers.join(", "),
        launchers[0]
    )))
}

fn slurm() -> anyhow::Result<Found> {
    if program("scontrol").is_none() {
        return Ok(Found::Absent {
            found: "Slurm is not on the path".to_owned(),
            mend: "nothing, unless this machine has a batch system; docs/slurm.md has scripts",
        });
    }
    // Its complaints are those of every command of Slurm, and stand in the answer in a word.
    let words = ["/bin/sh", "-c", "exec scontrol show config 2>/dev/null"].map(str::to_owned);
    let Ok(config) = iotide_act::programs::run(&words, PATIENCE, &|| false) else {
        return Ok(Found::Absent {
            found: "Slurm is installed, and its controller does not answer".to_owned(),
            mend: "`scontrol ping` says more; docs/slurm.md has scripts that count every job",
        });
    };
    let of_ours = |line: &&str| {
        let line = line.to_lowercase();
        line.contains("iotide")
            && (line.contains("prolog") || line.contains("epilog") || line.contains("plugin"))
    };
    match config.lines().find(of_ours) {
        Some(line) => Ok(Found::Works(format!("every job is counted ({})", line.trim()))),
        None => Ok(Found::Absent {
            found: "Slurm answers, and no script of iotide stands in its configuration".to_owned(),
            mend: "docs/slurm.md: a prolog that counts every job",
        }),
    }
}

fn prometheus() -> anyhow::Result<Found> {
    match program("prometheus") {
        Some(path) => {
            Ok(Found::Works(format!("{} is installed; docs/serve.md has its settings", path.display())))
        }
        None => Ok(Found::Absent {
            found: "Prometheus is not on the path".to_owned(),
            mend: "nothing, if it runs elsewhere: it asks the daemon's /metrics",
        }),
    }
}

/// Compares the clock of the file system here with that of the machine: traces of several nodes are put side by side by their clocks.
fn clock() -> anyhow::Result<Found> {
    let here = env::current_dir().context("there is no working directory")?;
    let before = SystemTime::now();
    let Ok(file) = iotide_private::nameless_in(&here) else {
        return Ok(Found::Works(
            "the working directory cannot be written: its clock was not compared".to_owned(),
        ));
    };
    let made = file.metadata().and_then(|metadata| metadata.modified()).context("a file has no time")?;
    let apart_s = match made.duration_since(before) {
        Ok(ahead) => ahead.as_secs_f64(),
        Err(behind) => -behind.duration().as_secs_f64(),
    };
    if apart_s.abs() > CLOCKS_APART_S {
        bail!(
            "the clock of the file system here is {} {} that of this machine",
            text::seconds(apart_s.abs()),
            if apart_s > 0.0 { "ahead of" } else { "behind" }
        );
    }
    Ok(Found::Works("the clocks of this machine and of the file system here agree".to_owned()))
}

fn space() -> anyhow::Result<Found> {
    let here = env::current_dir().context("there is no working directory")?;
    let mut words = Vec::new();
    for folder in [here, temporary_files()] {
        let free = statvfs(&folder).with_context(|| format!("cannot look at {}", folder.display()))?;
        let free_bytes = free.f_bavail.saturating_mul(free.f_frsize);
        if free_bytes < LITTLE_SPACE {
            bail!("{} is left in {}", text::bytes(free_bytes as f64), folder.display());
        }
        words.push(format!("{} in {}", text::bytes(free_bytes as f64), folder.display()));
    }
    words.dedup();
    Ok(Found::Works(format!("free: {}", words.join(", "))))
}

/// Finds a program on the path.
fn program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|program| program.is_file())
}
