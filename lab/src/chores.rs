//! Names and help of the chores of the lab.
//!
//! `xtask` compiles this file, too: it lists the chores and knows which to hand over before the lab is built.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Each chore of the lab: its name, and what it is for. `main.rs` has their functions.
pub(crate) const CHORES: &[(&str, &str)] = &[
    ("bench", "measure iotide and ftio-hpc side by side; `bench NAME…` picks some"),
    ("inflate", "unpack regions of a Darshan log and throw them away: the floor `bench darshan` measures by"),
    ("iosets", "the experiment of the IO-Sets report on this machine: sixteen jobs through `iotide mount`"),
    (
        "staging",
        "what each policy of `iotide stage out` costs a job with a known rhythm, and how soon its results are safe",
    ),
    (
        "loop",
        "what a daemon that acts costs jobs when it, its periods, the storage, the arbiter or Slurm fails",
    ),
    ("coverage", "what the tracer sees of real programs, beside what strace does"),
    ("gekkofs", "a job, its staging and its tracing on a GekkoFS that is installed: `gekkofs PREFIX`"),
    (
        "hostile",
        "users who mean harm beside users who do not, at a mount and an arbiter that root serves (as root)",
    ),
    (
        "soak",
        "real daemons in a tree for an hour, jobs below them and kills among them: nothing grows, nothing is missing",
    ),
    ("leaves", "made leaves below a daemon that runs: `leaves HOST:PORT KEY-FILE NUMBER`"),
    ("accuracy", "how right the answers are, on traces whose truth is known"),
    ("large-log", "write a Darshan log of any number of records"),
    ("large-archive", "write an archive of any number of Darshan logs"),
    (
        "round-trip",
        "every trace in a folder: read, converted to a native trace, asked the same again, and reported",
    ),
    ("pictures", "make the pictures of the documents again, with the product and Chromium"),
    ("laws", "what must be true of every answer about rhythm, tried on traces of every kind"),
];

/// Whether a chore of this name is one of the lab.
pub(crate) fn is_listed(name: &str) -> bool {
    CHORES.iter().any(|(chore, _)| *chore == name)
}

/// Returns the root of the repository.
pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("both packages lie one folder below the root")
}

/// Returns the folder that cargo builds into, for both workspaces.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from)
}

/// Runs the program of a package in place of this one, with these arguments. Returns only if that fails, with the reason.
pub(crate) fn hand_over(package: &str, args: &[String]) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let error = Command::new(cargo)
        .args(["run", "--quiet", "--release", "--manifest-path"])
        .arg(repository().join(package).join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target())
        .arg("--")
        .args(args)
        .exec();
    format!("cannot start cargo: {error}")
}
