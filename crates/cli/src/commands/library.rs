//! `iotide library`: the tracer's library, which this program carries, as a file that programs can load.
//!
//! A file that has the very bytes this program was built with is used where it is (installed, or where cargo put it). Otherwise the library is
//! written once into a folder that no other user can write to. It is compared byte by byte before every use.

use std::env;
use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use iotide_private::{FileSystem, OpenDir, open_ordinary};
use iotide_wire::Fnv1a;
use rustix::fs::{StatVfsMountFlags, fstatvfs};

use crate::ExitStatus;
use crate::config::Config;
use crate::ui::{Hint, Ui};

/// Print the path of the tracer's library
///
/// The library is in this program. If it is not installed, it is written to --library-dir, or for root to /var/cache/iotide and for others to
/// ~/.cache/iotide, unless it is there already. The path is for LD_PRELOAD in the prolog of a batch system.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LibraryArgs {
    #[command(flatten)]
    place: LibraryPlace,
}

const EXAMPLES: &str = "\
Examples:
  iotide library
  LD_PRELOAD=$(iotide library) IOTIDE_DIR=run7 ./simulation    what `iotide record` does
  iotide library --library-dir /shared/iotide                  a copy that all nodes can load";

/// Where programs can load the library from.
#[derive(clap::Args, Debug, Default)]
pub(super) struct LibraryPlace {
    /// Directory for the tracer's library, for instance one that all nodes share [default: library_dir of `iotide config`, else where it is installed, else a cache]
    #[arg(long, value_name = "DIR")]
    library_dir: Option<PathBuf>,
}

pub(crate) fn run(ui: &mut Ui, args: &LibraryArgs) -> anyhow::Result<ExitStatus> {
    let library = find(&args.place)?;
    ui.out(&format!("{}\n", library.display()))?;
    Ok(ExitStatus::Done)
}

/// The library, as it was built with this program.
const CARRIED: &[u8] = include_bytes!(env!("IOTIDE_TRACER"));
/// Where packages install it.
const INSTALLED: &str = "/usr/lib/iotide/libiotide.so";
/// Where root keeps it if it is not installed.
const OF_ROOT: &str = "/var/cache/iotide";

/// Finds the library: where `IOTIDE_LIBRARY` says, in the directory named, installed, or in a cache, into which it is written if it is not there.
///
/// The loader of programs splits `LD_PRELOAD` at blanks and colons, and replaces what follows a dollar: it would look for what
/// comes behind them elsewhere, in the working directory among others, where anybody may have put something.
pub(super) fn find(place: &LibraryPlace) -> anyhow::Result<PathBuf> {
    let library = find_file(place)?;
    if library.as_os_str().as_encoded_bytes().iter().any(|byte| b" \t\n:;$".contains(byte)) {
        return Err(anyhow::anyhow!("the loader would take {} for several libraries", library.display()))
            .hint("`--library-dir DIR` names a directory without blanks, colons and dollars in its path");
    }
    Ok(library)
}

fn find_file(place: &LibraryPlace) -> anyhow::Result<PathBuf> {
    if let Some(stated) = env::var_os("IOTIDE_LIBRARY") {
        let stated = PathBuf::from(stated);
        if !stated.is_file() {
            bail!("IOTIDE_LIBRARY={}: no such file", stated.display());
        }
        return stated.canonicalize().context("cannot find the tracer's library");
    }
    if CARRIED.is_empty() {
        bail!("this program was built without the tracer's library; `cargo build` makes both");
    }
    if let Some(folder) = place.library_dir.as_deref().or(Config::held().library_dir()) {
        return unpack(folder, &name_of(CARRIED), CARRIED);
    }
    let program = iotide_private::own_program()
        .and_then(|program| program.canonicalize())
        .context("cannot find this program")?;
    let here = program.parent().unwrap_or(Path::new("/"));
    let beside = ["libiotide.so", "deps/libiotide.so", "../lib/libiotide.so", "../lib/iotide/libiotide.so"];
    let mut installed = beside.into_iter().map(|place| here.join(place)).chain([INSTALLED.into()]);
    if let Some(known) = installed.find(|path| holds(path, CARRIED)) {
        return known.canonicalize().context("cannot find the tracer's library");
    }
    let folder = cache()
        .context("there is no directory for the tracer's library")
        .hint("`--library-dir DIR` names one")?;
    unpack(&folder, &name_of(CARRIED), CARRIED)
}

/// Programs that start others on other nodes.
const LAUNCHERS: [&str; 8] =
    ["mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prun", "srun", "jsrun", "flux"];

/// Says that ranks on other nodes may find no library, if a program is about to start some there.
pub(super) fn warn_of_other_nodes(ui: &mut Ui, library: &Path, program: &[OsString]) {
    let names = |arg: &OsString, known: &[&str]| known.iter().any(|name| arg == name);
    let name = program.first().and_then(|program| Path::new(program).file_name()).unwrap_or_default();
    let n_nodes =
        ["SLURM_JOB_NUM_NODES", "SLURM_NNODES"].iter().find_map(|name| env::var(name).ok()?.parse().ok());
    let hosts =
        ["-H", "-host", "--host", "-hosts", "-hostfile", "--hostfile", "-machinefile", "--machinefile"];
    let is_far = n_nodes.is_some_and(|n: u32| n > 1) || program.iter().any(|arg| names(arg, &hosts));
    if !is_far || !LAUNCHERS.iter().any(|launcher| name == *launcher) {
        return;
    }
    if let Ok(FileSystem { kind, is_shared: false, .. }) = FileSystem::of(library) {
        ui.warning(format_args!(
            "iotide: {} is on a file system of this node ({kind}); ranks on nodes without that file are not traced\n\
             hint: `--library-dir DIR` names a directory that all nodes share; `library_dir` of `iotide config` does so for good",
            library.display()
        ));
    }
}

/// The name of a file with these bytes, so that versions do not meet.
fn name_of(bytes: &[u8]) -> String {
    format!("libiotide-{}-{:016x}.so", env!("CARGO_PKG_VERSION"), Fnv1a::of(bytes).value())
}

/// The folder for what can be made again; `None` for a user without a home.
fn cache() -> Option<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Some(OF_ROOT.into());
    }
    let named = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = named("XDG_CACHE_HOME").or_else(|| Some(named("HOME")?.join(".cache")))?;
    Some(cache.join("iotide"))
}

/// Whether a file has exactly these bytes, and nobody but its owner, root or this user, can change them.
fn holds(path: &Path, bytes: &[u8]) -> bool {
    open_ordinary(path).is_ok_and(|file| holds_in(file, bytes))
}

fn holds_in(mut file: File, bytes: &[u8]) -> bool {
    let Ok(metadata) = file.metadata() else { return false };
    let us = rustix::process::geteuid().as_raw();
    let is_ours = [0, us].contains(&metadata.uid()) && metadata.mode() & 0o022 == 0;
    if !is_ours || metadata.len() != bytes.len() as u64 {
        return false;
    }
    let mut piece = vec![0; 64 << 10];
    bytes.chunks(piece.len()).all(|expected| {
        let piece = &mut piece[..expected.len()];
        file.read_exact(piece).is_ok() && piece == expected
    })
}

/// Writes the library into a folder, unless it is there. Many nodes may do so at once: the file has its name once it is whole.
fn unpack(folder: &Path, name: &str, bytes: &[u8]) -> anyhow::Result<PathBuf> {
    let written = || -> io::Result<PathBuf> {
        let dir = OpenDir::make(folder)?;
        if dir.is_strangers()? {
            let what = "other users may replace files in it";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
        }
        if fstatvfs(dir.fd())?.f_flag.contains(StatVfsMountFlags::NOEXEC) {
            let what = "it is mounted noexec: programs can load nothing from it";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
        }
        if !dir.read(name).is_ok_and(|file| holds_in(file, bytes)) {
            let mut part = dir.replace(name)?;
            part.write_all(bytes)?;
            // Another user may be traced, and umask may be stricter.
            part.file().set_permissions(Permissions::from_mode(0o644))?;
            part.finish_durably()?;
        }
        folder.canonicalize().map(|folder| folder.join(name))
    };
    written()
        .with_context(|| format!("cannot keep the tracer's library in {}", folder.display()))
        .hint("`--library-dir DIR` names another directory")
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_testkit::FreshDir;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn the_program_carries_a_library() {
        assert!(CARRIED.starts_with(b"\x7fELF"), "{} bytes", CARRIED.len());
    }

    #[test]
    fn the_library_is_written_once_and_a_planted_one_is_replaced_or_refused() {
        let dir = FreshDir::new("library");
        let folder = dir.join("cache/iotide");
        let path = unpack(&folder, "l.so", b"library").unwrap();
        let inode = fs::metadata(&path).unwrap().ino();
        assert_eq!(unpack(&folder, "l.so", b"library").unwrap(), path);
        assert_eq!(fs::metadata(&path).unwrap().ino(), inode, "the same file is used again");
        // Other bytes of the same length, a link, and rights of others: each is replaced by a file of our own.
        let elsewhere = dir.write("elsewhere", "library");
        for plant in [
            &|| fs::write(&path, "planted").unwrap() as (),
            &|| fs::remove_file(&path).and_then(|()| symlink(&elsewhere, &path)).unwrap(),
            &|| fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap(),
        ] as [&dyn Fn(); 3]
        {
            plant();
            assert_eq!(unpack(&folder, "l.so", b"library").unwrap(), path);
            let metadata = fs::symlink_metadata(&path).unwrap();
            assert!(metadata.is_file() && metadata.mode() & 0o777 == 0o644);
            assert_eq!(fs::read(&path).unwrap(), b"library");
        }
        fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
        let refused = unpack(&folder, "l.so", b"library").unwrap_err();
        assert!(format!("{refused:#}").contains("other users may replace files in it"), "{refused:#}");
    }

    #[test]
    fn hundreds_that_write_it_at_once_all_find_it_whole() {
        let dir = FreshDir::new("library-crowd");
        let bytes: Vec<u8> = (0..1 << 18).map(|n| (n % 251) as u8).collect();
        std::thread::scope(|scope| {
            for _ in 0..200 {
                scope.spawn(|| {
                    let path = unpack(dir.path(), "l.so", &bytes).unwrap();
                    assert_eq!(fs::read(path).unwrap(), bytes);
                });
            }
        });
        assert_eq!(dir.names(), ["l.so"]);
    }
}
