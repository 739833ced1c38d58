//! Cost of the mount to the one job that uses it, beside other pass-through file systems.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{Bed, Goal, Line};
use crate::peer::on_path;

/// Writes in one go, in large pieces and in small ones: operands of `dd`, and bytes.
const LARGE: ([&str; 2], u64) = (["bs=1M", "count=512"], 512 << 20);
const SMALL: ([&str; 2], u64) = (["bs=4k", "count=20000"], 20_000 << 12);

/// Random reads, page by page: name and bytes of the file, and number of reads.
const READ: (&str, u64, u64) = ("read", 256 << 20, 20_000);

/// Wall time to write 512 times 1 MiB and 20,000 times 4 KiB, and to read 20,000 times 4 KiB at random, with one job, against bindfs and
/// libfuse's own examples.
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
    let mut best = vec![[f64::INFINITY; 3]; mounts.len()];
    fill(&backing.0.join(READ.0), READ.1).map_err(|error| format!("cannot write a file to read: {error}"))?;
    for _ in 0..5 {
        for ((_, mounted), best) in mounts.iter().zip(&mut best) {
            for (sizes, best) in [LARGE, SMALL].iter().zip(best.iter_mut()) {
                *best = best.min(dd(&mounted.at, &backing.0, sizes)?);
            }
            best[2] =
                best[2].min(read_at_random(&mounted.at.join(READ.0)).map_err(|error| error.to_string())?);
        }
    }
    let mut lines = Vec::new();
    for (which, what, per, unit) in [
        (0, "mount: 512 MiB in writes of 1 MiB", 1.0, "s"),
        (1, "mount: a write of 4 KiB", 20_000.0 / 1e6, "µs"),
        (2, "mount: a random read of 4 KiB", READ.2 as f64 / 1e6, "µs"),
    ] {
        for ((name, _), theirs) in mounts.iter().zip(&best).skip(1) {
            let goal = match which {
                0 => Goal::TimesLess(0.8),
                2 if *name == "bindfs" => Goal::TimesLess(1.0),
                _ => Goal::None,
            };
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

/// Writes a file of whose pages each begins with its number.
fn fill(path: &Path, n_bytes: u64) -> std::io::Result<()> {
    let mut file = std::io::BufWriter::with_capacity(1 << 20, fs::File::create(path)?);
    for page in 0..n_bytes >> 12 {
        let mut bytes = [0; 4096];
        bytes[..8].copy_from_slice(&page.to_le_bytes());
        file.write_all(&bytes)?;
    }
    file.flush()
}

/// Reads pages at random and returns the seconds that took. To open a file anew makes the kernel forget what it knew of it.
fn read_at_random(path: &Path) -> std::io::Result<f64> {
    let file = fs::File::open(path)?;
    let (mut random, mut bytes) = (1_u64, [0; 4096]);
    let began = Instant::now();
    for _ in 0..READ.2 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let page = (random >> 33) % (READ.1 >> 12);
        file.read_exact_at(&mut bytes, page << 12)?;
        if bytes[..8] != page.to_le_bytes() {
            return Err(std::io::Error::other(format!("page {page} of {} is wrong", path.display())));
        }
    }
    Ok(began.elapsed().as_secs_f64())
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
