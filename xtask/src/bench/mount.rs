//! What the mount costs the one job that uses it, beside other pass-through file systems.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{Bed, Goal, Line};
use crate::peer::on_path;

/// What is written in one go, in large pieces and in small ones.
const LARGE: ([&str; 2], u64) = (["bs=1M", "count=512"], 512 << 20);
const SMALL: ([&str; 2], u64) = (["bs=4k", "count=20000"], 20_000 << 12);

/// Wall time to write 512 times 1 MiB and 20,000 times 4 KiB with one job, against bindfs and libfuse's own examples.
pub(super) fn writes_through_the_mount(bed: &Bed) -> Result<Vec<Line>, String> {
    if !Path::new("/dev/fuse").exists() {
        return Err("there is no /dev/fuse".to_owned());
    }
    let memory = Path::new("/dev/shm");
    let store = if memory.is_dir() { memory.to_owned() } else { bed.folder.clone() };
    let backing = Folder::make(store.join(format!("iotide-bench-mount-{}", std::process::id())))?;
    let mut ours = Command::new(&bed.iotide);
    ours.arg("mount").arg(&backing.0);
    let mut contestants = vec![("iotide", Some(ours))];
    for peer in ["bindfs", "passthrough", "passthrough_fh", "passthrough_ll"] {
        let program = on_path(peer).or_else(|| compiled_example(peer, &bed.folder));
        contestants.push((peer, program.map(|program| peer_command(peer, &program, &backing.0))));
    }
    let mut mounts = Vec::new();
    for (name, command) in contestants {
        let Some(command) = command else {
            eprintln!("no {name} on PATH or in {EXAMPLES}: measuring without");
            continue;
        };
        mounts.push((name, Mounted::begin(command, bed.folder.join(name))?));
    }
    // In turn, so that a change of the machine's mood meets all of them; the best of each.
    let mut best = vec![[f64::INFINITY; 2]; mounts.len()];
    for _ in 0..5 {
        for ((_, mounted), best) in mounts.iter().zip(&mut best) {
            for (sizes, best) in [LARGE, SMALL].iter().zip(best) {
                *best = best.min(dd(&mounted.at, &backing.0, sizes)?);
            }
        }
    }
    let mut lines = Vec::new();
    for (which, what, per, unit) in [
        (0, "mount: 512 MiB in writes of 1 MiB", 1.0, "s"),
        (1, "mount: a write of 4 KiB", 20_000.0 / 1e6, "µs"),
    ] {
        for ((name, _), theirs) in mounts.iter().zip(&best).skip(1) {
            let goal = if which == 0 { Goal::TimesLess(0.8) } else { Goal::None };
            let what = format!("{what}, against {name}");
            lines.push(Line {
                what,
                unit,
                iotide: best[0][which] / per,
                peer: Some(theirs[which] / per),
                goal,
            });
        }
        if mounts.len() == 1 {
            lines.push(Line {
                what: what.to_owned(),
                unit,
                iotide: best[0][which] / per,
                peer: None,
                goal: Goal::None,
            });
        }
    }
    Ok(lines)
}

/// Where Debian's libfuse3-dev keeps the source of libfuse's examples.
const EXAMPLES: &str = "/usr/share/doc/libfuse3-dev/examples";

/// Compiles one of libfuse's examples into `folder`, as it is; `None` without its source, a compiler or the library.
fn compiled_example(name: &str, folder: &Path) -> Option<PathBuf> {
    let source = Path::new(EXAMPLES).join(format!("{name}.c"));
    if !source.is_file() {
        return None;
    }
    let library = Command::new("pkg-config").args(["--cflags", "--libs", "fuse3"]).output().ok()?;
    let library = String::from_utf8(library.stdout).ok()?;
    let program = folder.join(format!("{name}.peer"));
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-w"]).arg(source).args(library.split_whitespace()).arg("-o").arg(&program);
    compiler.status().ok()?.success().then_some(program)
}

fn peer_command(name: &str, program: &Path, backing: &Path) -> Command {
    let backing = backing.display();
    let mut command = Command::new(program);
    match name {
        "bindfs" => command.arg("-f").arg(backing.to_string()),
        "passthrough_ll" => command.args(["-f", "-o"]).arg(format!("source={backing}")),
        _ => command.args(["-f", "-o"]).arg(format!("modules=subdir,subdir={backing}")),
    };
    command
}

fn dd(dir: &Path, backing: &Path, (sizes, n_bytes): &([&str; 2], u64)) -> Result<f64, String> {
    let file = dir.join("out");
    let mut command = Command::new("dd");
    command.args(["if=/dev/zero", "status=none"]).args(sizes).arg(format!("of={}", file.display()));
    let began = Instant::now();
    let status = command.status().map_err(|error| format!("cannot start dd: {error}"))?;
    let took_s = began.elapsed().as_secs_f64();
    if !status.success() {
        return Err(format!("dd into {} failed", dir.display()));
    }
    // What was not moved was not measured: the bytes lie behind the mount.
    let there = fs::metadata(backing.join("out")).map_or(0, |file| file.len());
    if there != *n_bytes {
        return Err(format!("{n_bytes} bytes were written to {}, {there} are behind it", dir.display()));
    }
    fs::remove_file(file).map_err(|error| error.to_string())?;
    Ok(took_s)
}

/// A directory that is gone when dropped.
struct Folder(PathBuf);

impl Folder {
    fn make(path: PathBuf) -> Result<Self, String> {
        fs::create_dir_all(&path).map_err(|error| format!("cannot make {}: {error}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A pass-through file system, until dropped.
struct Mounted {
    child: Child,
    at: PathBuf,
}

impl Mounted {
    /// Runs a command, whose last argument is the mount point, and waits until something is mounted there.
    fn begin(mut command: Command, at: PathBuf) -> Result<Self, String> {
        fs::create_dir_all(&at).map_err(|error| error.to_string())?;
        let child = command.arg(&at).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mounted = Self { child: child.map_err(|error| error.to_string())?, at };
        let began = Instant::now();
        while !mounted.is_there() {
            if began.elapsed() > Duration::from_secs(20) {
                return Err(format!("{command:?} does not mount"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(mounted)
    }

    fn is_there(&self) -> bool {
        let Ok(mounts) = fs::File::open("/proc/self/mounts") else { return false };
        let at = self.at.display().to_string();
        BufReader::new(mounts).lines().map_while(Result::ok).any(|line| line.split(' ').nth(1) == Some(&at))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.at).stderr(Stdio::null()).status();
        let _ = self.child.wait();
    }
}
