//! The files of the release below a prefix, as packages and the tarball share them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Release, fresh, output, said};
use crate::chores::repository;

/// Folders with the files of both packages, each as below `/`.
pub(super) struct Tree {
    pub(super) iotide: PathBuf,
    pub(super) daemon: PathBuf,
}

/// Copies and makes all files.
pub(super) fn make(release: &Release, program: &Path, library: &Path) -> Result<Tree, String> {
    let top = release.folder.join("tree");
    fresh(&top)?;
    let tree = Tree { iotide: top.join("iotide"), daemon: top.join("daemon") };
    let usr = tree.iotide.join("usr");
    copy(program, &usr.join("bin/iotide"), 0o755)?;
    copy(library, &usr.join("lib/iotide/libiotide.so"), 0o644)?;
    // Settings of whoever packs change nothing.
    let iotide = || {
        let mut command = Command::new(program);
        command.env("IOTIDE_CONFIG", "");
        command
    };
    let manual = usr.join("share/man/man1");
    output(iotide().arg("man").arg(&manual))?;
    let pages = fs::read_dir(&manual).map_err(said)?.flatten().map(|page| page.path());
    output(Command::new("gzip").args(["-9n"]).args(pages))?;
    for (shell, place) in [
        ("bash", "share/bash-completion/completions/iotide"),
        ("zsh", "share/zsh/site-functions/_iotide"),
        ("fish", "share/fish/vendor_completions.d/iotide.fish"),
    ] {
        write(&usr.join(place), &output(iotide().args(["completions", shell]))?)?;
    }
    let documents = usr.join("share/doc/iotide");
    for name in ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"] {
        copy(&repository().join(name), &documents.join(name), 0o644)?;
    }
    copy_all(&repository().join("docs"), &documents.join("docs"))?;
    copy(&repository().join("LICENSE-MIT"), &documents.join("copyright"), 0o644)?;
    daemon(&tree.daemon)?;
    Ok(tree)
}

/// The files of the daemon's package.
fn daemon(top: &Path) -> Result<(), String> {
    let dist = repository().join("dist");
    copy_all(&dist.join("systemd"), &top.join("usr/lib/systemd/system"))?;
    copy_all(&dist.join("sysusers"), &top.join("usr/lib/sysusers.d"))?;
    copy(&dist.join("serve.toml"), &top.join("etc/iotide/serve.toml"), 0o644)?;
    for name in ["slurm", "epilog", "prometheus", "grafana"] {
        copy_all(&dist.join(name), &top.join("usr/share/iotide").join(name))?;
    }
    copy(&repository().join("LICENSE-MIT"), &top.join("usr/share/doc/iotide-daemon/copyright"), 0o644)
}

pub(super) fn write(path: &Path, text: &str) -> Result<(), String> {
    let made = fs::create_dir_all(path.parent().unwrap_or(path)).and_then(|()| fs::write(path, text));
    made.and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o644)))
        .map_err(|error| format!("cannot write {}: {error}", path.display()))
}

pub(super) fn copy(from: &Path, to: &Path, mode: u32) -> Result<(), String> {
    let made = fs::create_dir_all(to.parent().unwrap_or(to)).and_then(|()| fs::copy(from, to));
    made.and_then(|_| fs::set_permissions(to, fs::Permissions::from_mode(mode)))
        .map_err(|error| format!("cannot copy {} to {}: {error}", from.display(), to.display()))
}

/// Copies the files of a folder. Scripts stay executable.
fn copy_all(from: &Path, to: &Path) -> Result<(), String> {
    let entries = fs::read_dir(from).map_err(|error| format!("cannot read {}: {error}", from.display()))?;
    for entry in entries.flatten().filter(|entry| entry.path().is_file()) {
        let is_script = entry.path().extension().is_some_and(|extension| extension == "sh");
        copy(&entry.path(), &to.join(entry.file_name()), if is_script { 0o755 } else { 0o644 })?;
    }
    Ok(())
}
