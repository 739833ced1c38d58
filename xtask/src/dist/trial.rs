//! Tries packages in clean Debians, made with debootstrap: under the C libraries, shells and MPIs there.

use std::process::Command;

use super::{Release, fresh, output, run_in, said};
use crate::Outcome;
use crate::chores::repository;

const MIRROR: &str = "http://deb.debian.org/debian";
/// Releases from the oldest; the registry has some of them.
const SUITES: [&str; 4] = ["buster", "bullseye", "bookworm", "trixie"];
const PACKAGES: [&str; 5] = ["gcc", "libc6-dev", "python3-minimal", "openmpi-bin", "libopenmpi-dev"];

pub(super) fn run(release: &Release, suites: &[&str]) -> Result<Outcome, String> {
    let suites = if suites.is_empty() { oldest_and_newest() } else { suites.to_vec() };
    for suite in suites {
        println!("== {suite}");
        let root = release.folder.join("roots").join(suite);
        if !root.join("etc/debian_version").exists() {
            fresh(&root)?;
            let mut debootstrap = Command::new("debootstrap");
            output(debootstrap.args(["--variant=minbase", suite]).arg(&root).arg(MIRROR))?;
            // debootstrap itself does not see which of several packages fulfils a dependency.
            let mut apt = Command::new("chroot");
            apt.arg(&root)
                .args(["apt-get", "install", "-qq", "-y", "--no-install-recommends"])
                .args(PACKAGES);
            output(apt.env("DEBIAN_FRONTEND", "noninteractive"))?;
        }
        fresh(&root.join("dist"))?;
        output(Command::new("cp").arg("-a").arg(release.out().join(".")).arg(root.join("dist")))?;
        let script = root.join("dist/trial.sh");
        std::fs::write(script, include_str!("trial.sh")).map_err(said)?;
        // Mounts and processes of its own, which end with it.
        let inside = "mount -t proc proc \"$1/proc\" && mount --rbind /dev \"$1/dev\" && exec chroot \"$1\" /bin/sh /dist/trial.sh";
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c", inside, "sh"]);
        run_in(repository(), unshare.arg(&root).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"))?;
    }
    old_processor(release)?;
    Ok(Outcome::Good)
}

/// Releases of which the registry has packages now.
fn oldest_and_newest() -> Vec<&'static str> {
    let is_there = |suite: &&str| {
        let file = format!("{MIRROR}/dists/{suite}/main/binary-amd64/Release");
        let asked = Command::new("curl").args(["-fsSL", "-m", "20", "-o", "/dev/null", &file]).status();
        asked.is_ok_and(|status| status.success())
    };
    let there: Vec<&str> = SUITES.into_iter().filter(is_there).collect();
    there.first().into_iter().chain(there.last()).copied().collect()
}

/// Runs program and library on a processor of the first 64-bit generation, where there is an emulator of one.
fn old_processor(release: &Release) -> Result<(), String> {
    let emulator = "qemu-x86_64-static";
    if Command::new(emulator).arg("--version").output().is_err() {
        println!("== no {emulator} here: not tried on a processor without extensions");
        return Ok(());
    }
    println!("== {emulator} -cpu qemu64");
    let folder = release.folder.join("qemu64");
    fresh(&folder)?;
    let program = release.built().join("iotide");
    let table: String = (0..12).map(|i| format!("0,write,{i},{i}.2,1000000\n")).collect();
    std::fs::write(folder.join("run.csv"), format!("rank,op,start,end,bytes\n{table}")).map_err(said)?;
    let emulated = || {
        let mut command = Command::new(emulator);
        command.args(["-cpu", "qemu64"]);
        command
    };
    for args in [["detect", "run.csv", "-q"], ["report", "run.csv", "-q"], ["categorize", "run.csv", "-q"]] {
        run_in(&folder, emulated().arg(&program).args(args))?;
    }
    let library = format!("LD_PRELOAD={}", release.built().join("deps/libiotide.so").display());
    let traced = format!("IOTIDE_DIR={}", folder.join("trace").display());
    std::fs::create_dir(folder.join("trace")).map_err(said)?;
    let dd = ["dd", "if=/dev/zero", "of=out", "bs=1M", "count=8", "status=none"];
    run_in(&folder, emulated().args(["-E", &library, "-E", &traced]).arg("/usr/bin/dd").args(&dd[1..]))?;
    run_in(&folder, Command::new(&program).args(["info", "trace"]))
}
