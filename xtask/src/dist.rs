//! The release: built against an old C library, packed as a tarball, .deb, .rpm and wheel, and tried in clean systems.
//!
//! `cargo xtask dist` needs nothing but the package registries (zig and cargo-zigbuild come from PyPI), and dpkg-deb and rpmbuild for packages. What
//! it packs depends on the commit alone: all times are the commit's, and no path of this machine is in the programs.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Outcome;
use crate::chores::{repository, target};

mod packages;
mod sbom;
mod symbols;
mod tree;
mod trial;
mod wheel;

/// The oldest C library that the release runs with, and the Rust target it is built for.
const GLIBC: (u32, u32) = (2, 17);
const TRIPLE: &str = "x86_64-unknown-linux-gnu";
/// The tarball must not be larger.
const MOST_BYTES: u64 = 15_000_000;
/// Nor the wheel.
const MOST_BYTES_OF_WHEEL: u64 = 20_000_000;
/// The unwinder of GCC, as Debian and its like have it for linking.
const UNWINDER: &str = "/usr/lib/x86_64-linux-gnu/libgcc_s.so.1";

const USAGE: &str = "\
usage: cargo xtask dist [--no-build]    build and pack into target/dist/out
       cargo xtask dist try [SUITE…]    try what is there in Debian's oldest and newest release, or in those named (as root)";

/// Packs, or tries what was packed.
pub(crate) fn run(args: &[String]) -> Result<Outcome, String> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        [] => pack(true),
        ["--no-build"] => pack(false),
        ["try", ref suites @ ..] => trial::run(&Release::of_this_commit()?, suites),
        _ => Err(USAGE.to_owned()),
    }
}

/// Version, time and folder of a release.
pub(crate) struct Release {
    version: String,
    /// The commit's, for all files.
    time: String,
    folder: PathBuf,
}

impl Release {
    fn of_this_commit() -> Result<Self, String> {
        let manifest = read(&repository().join("Cargo.toml"))?;
        let version = manifest.lines().find_map(|line| line.strip_prefix("version = \""));
        let version = version.and_then(|rest| rest.split('"').next()).ok_or("Cargo.toml has no version")?;
        let time = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(time) => time,
            Err(_) => {
                output(Command::new("git").current_dir(repository()).args(["log", "-1", "--format=%ct"]))?
            }
        };
        let folder = target().join("dist");
        Ok(Self { version: version.to_owned(), time: time.trim().to_owned(), folder })
    }

    fn out(&self) -> PathBuf {
        self.folder.join("out")
    }

    /// Returns an environment of Python with these packages.
    fn venv(&self, packages: &[&str]) -> Result<PathBuf, String> {
        let venv = self.folder.join("venv");
        let python = venv.join("bin/python3");
        if !python.exists() {
            run_in(repository(), Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
        }
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        run_in(repository(), Command::new(python).args(pip).args(packages))?;
        Ok(venv)
    }

    fn built(&self) -> PathBuf {
        target().join(TRIPLE).join("dist")
    }
}

fn pack(builds: bool) -> Result<Outcome, String> {
    let release = Release::of_this_commit()?;
    if builds {
        build(&release)?;
    }
    let program = release.built().join("iotide");
    let library = release.built().join("deps/libiotide.so");
    let module = release.built().join("lib_iotide.so");
    for file in [&program, &library, &module] {
        symbols::check(file, GLIBC)?;
    }
    let out = release.out();
    fresh(&out)?;
    let tree = tree::make(&release, &program, &library)?;
    let tarball = packages::tarball(&release, &tree, &out)?;
    fs::write(out.join(format!("iotide-{}.cdx.json", release.version)), sbom::make(&release)?)
        .map_err(said)?;
    packages::sources(&release, &out)?;
    packages::debs(&release, &tree, &out)?;
    packages::rpms(&release, &tree, &out)?;
    let wheel = wheel::pack(&release, &module, &out)?;
    packages::checksums(&out)?;
    let size = fs::metadata(&tarball).map_err(said)?.len();
    let size_of_wheel = fs::metadata(&wheel).map_err(said)?.len();
    print!("{}", output(Command::new("ls").arg("-l").arg(&out))?);
    println!(
        "newest symbols: GLIBC_{}.{} or older; tarball {size} bytes of at most {MOST_BYTES}, wheel {size_of_wheel} of at most \
         {MOST_BYTES_OF_WHEEL}",
        GLIBC.0, GLIBC.1
    );
    let too_large = size > MOST_BYTES || size_of_wheel > MOST_BYTES_OF_WHEEL;
    Ok(if too_large { Outcome::Wanting } else { Outcome::Good })
}

/// Builds the program, the library that it carries, and the module of Python, which is both.
fn build(release: &Release) -> Result<(), String> {
    // The analysis side alone is in no test: building it takes minutes.
    let analysis = ["check", "--locked", "--package", "iotide", "--no-default-features"];
    run_in(repository(), Command::new("cargo").args(analysis))?;
    let venv = release.venv(&["ziglang==0.17.0", "cargo-zigbuild==0.24.0"])?;
    let path = std::env::var("PATH").unwrap_or_default();
    let home = std::env::var("CARGO_HOME").or_else(|_| Ok(std::env::var("HOME")? + "/.cargo"));
    let home = home.map_err(|_: std::env::VarError| "neither CARGO_HOME nor HOME is set")?;
    let here = repository().display();
    let flags = format!("--remap-path-prefix={home}=/cargo --remap-path-prefix={here}=/iotide");
    let c_flags = format!("-ffile-prefix-map={home}=/cargo -ffile-prefix-map={here}=/iotide");
    // One after the other: a package has a program or a module.
    for what in [&["--bin", "iotide"][..], &["--package", "iotide-python", "--lib"]] {
        let mut cargo = Command::new("cargo");
        cargo
            .args(["zigbuild", "--locked", "--profile", "dist", "--target"])
            .arg(format!("{TRIPLE}.{}.{}", GLIBC.0, GLIBC.1))
            .arg("--target-dir")
            .arg(target())
            .args(what)
            .env("PATH", format!("{}:{path}", venv.join("bin").display()))
            .env("RUSTFLAGS", &flags)
            .env("CFLAGS", &c_flags)
            .env("IOTIDE_UNWINDER", UNWINDER)
            .env("SOURCE_DATE_EPOCH", &release.time);
        run_in(repository(), &mut cargo)?;
    }
    Ok(())
}

/// Runs a command in a folder; an error names it.
fn run_in(folder: &Path, command: &mut Command) -> Result<(), String> {
    let status = command.current_dir(folder).status();
    let name = command.get_program().display().to_string();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{name} {}: {status}", line_of(command))),
        Err(error) => Err(format!("cannot start {name}: {error}")),
    }
}

/// Returns what a command prints.
fn output(command: &mut Command) -> Result<String, String> {
    let output = command
        .output()
        .map_err(|error| format!("cannot start {}: {error}", command.get_program().display()))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("{} {}: {why}", command.get_program().display(), line_of(command)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn line_of(command: &Command) -> String {
    command.get_args().map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

/// Makes an empty folder.
fn fresh(folder: &Path) -> Result<(), String> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(said)?;
    }
    fs::create_dir_all(folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}
