//! The tarball, .deb and .rpm, each the same to the byte for the same files and time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::tree::{Tree, write};
use super::{GLIBC, Release, TRIPLE, fresh, output, read, run_in, said};
use crate::chores::repository;

const ABOUT: &str = "Finds the rhythm of an HPC job's I/O, and schedules by it";
const ABOUT_DAEMON: &str = "Watches the I/O of every job of a machine or a cluster, live";

/// Packs what a prefix holds, to be unpacked into any: `tar xf … -C ~/.local --strip-components 1`.
pub(super) fn tarball(release: &Release, tree: &Tree, out: &Path) -> Result<PathBuf, String> {
    let name = format!("iotide-{}-{TRIPLE}", release.version);
    let file = out.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args([
        "--sort=name",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        "--format=gnu",
        "--use-compress-program=gzip -9n",
    ])
    .arg(format!("--mtime=@{}", release.time))
    .arg(format!("--transform=s,^usr,{name},"))
    .arg("--create")
    .arg("--file")
    .arg(&file)
    .arg("-C")
    .arg(&tree.iotide)
    .arg("usr");
    run_in(out, &mut tar)?;
    Ok(file)
}

/// Packs the sources as they are committed, for recipes that build.
pub(super) fn sources(release: &Release, out: &Path) -> Result<(), String> {
    let file = out.join(format!("iotide-{}.tar.gz", release.version));
    let mut git = Command::new("git");
    git.args(["-c", "tar.tar.gz.command=gzip -9n", "archive"])
        .arg(format!("--prefix=iotide-{}/", release.version))
        .arg("--output")
        .arg(file)
        .arg("HEAD");
    run_in(repository(), &mut git)
}

/// Packs both packages for Debian and its like.
pub(super) fn debs(release: &Release, tree: &Tree, out: &Path) -> Result<(), String> {
    if !is_there("dpkg-deb") {
        return Ok(());
    }
    let libc = format!("libc6 (>= {}.{}), libgcc-s1 | libgcc1", GLIBC.0, GLIBC.1);
    let same = format!("iotide (= {})", release.version);
    for (name, files, depends, about) in
        [("iotide", &tree.iotide, libc, ABOUT), ("iotide-daemon", &tree.daemon, same, ABOUT_DAEMON)]
    {
        let stage = release.folder.join("deb").join(name);
        fresh(&stage)?;
        output(Command::new("cp").arg("-a").arg(files.join(".")).arg(&stage))?;
        let completion = stage.join("usr/share/zsh");
        if completion.exists() {
            // Debian's zsh looks there.
            fs::rename(completion.join("site-functions"), completion.join("vendor-completions"))
                .map_err(said)?;
        }
        let control = format!(
            "Package: {name}\nVersion: {}\nArchitecture: amd64\nMaintainer: the iotide developers <iotide@localhost>\nSection: science\n\
             Priority: optional\nDepends: {depends}\nDescription: {about}\n",
            release.version
        );
        write(&stage.join("DEBIAN/control"), &control)?;
        if name == "iotide-daemon" {
            write(&stage.join("DEBIAN/conffiles"), "/etc/iotide/serve.toml\n")?;
            for (script, when, body) in [
                ("postinst", "configure", "install"),
                ("prerm", "remove", "remove"),
                ("postrm", "purge", "removed"),
            ] {
                let text = format!("#!/bin/sh\n[ \"$1\" = {when} ] || exit 0\n{}", script_body(body)?);
                write(&stage.join("DEBIAN").join(script), &text)?;
                output(Command::new("chmod").arg("755").arg(stage.join("DEBIAN").join(script)))?;
            }
        }
        let mut dpkg = Command::new("dpkg-deb");
        dpkg.args(["--root-owner-group", "-Zxz", "--build"]).arg(&stage).arg(out);
        output(dpkg.env("SOURCE_DATE_EPOCH", &release.time))?;
    }
    Ok(())
}

/// Packs both packages for Fedora, RHEL, SUSE and their like.
pub(super) fn rpms(release: &Release, tree: &Tree, out: &Path) -> Result<(), String> {
    if !is_there("rpmbuild") {
        return Ok(());
    }
    let work = release.folder.join("rpm");
    fresh(&work)?;
    let spec = work.join("iotide.spec");
    write(&spec, &spec_of(release, tree)?)?;
    let mut rpmbuild = Command::new("rpmbuild");
    rpmbuild.args(["-bb", "--quiet", "--target", "x86_64-linux"]);
    for define in [
        format!("_topdir {}", work.display()),
        format!("_rpmdir {}", out.display()),
        "_build_name_fmt %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm".to_owned(),
        "_buildhost iotide".to_owned(),
        "use_source_date_epoch_as_buildtime 1".to_owned(),
        "clamp_mtime_to_source_date_epoch 1".to_owned(),
        "source_date_epoch_from_changelog 0".to_owned(),
        "_binary_payload w9.gzdio".to_owned(),
        "__os_install_post %{nil}".to_owned(),
        "_build_id_links none".to_owned(),
    ] {
        rpmbuild.arg("--define").arg(define);
    }
    output(rpmbuild.arg(&spec).env("SOURCE_DATE_EPOCH", &release.time)).map(drop)
}

fn spec_of(release: &Release, tree: &Tree) -> Result<String, String> {
    let copy = |folder: &Path| format!("cp -a {}/. %{{buildroot}}\n", folder.display());
    let found = |folder: &Path, what: &[&str]| -> Result<Vec<String>, String> {
        let listed = output(Command::new("find").current_dir(folder).arg(".").args(what))?;
        let mut paths: Vec<String> =
            listed.lines().map(|line| line.trim_start_matches('.').to_owned()).collect();
        paths.sort_unstable();
        Ok(paths)
    };
    let files = |folder: &Path| -> Result<String, String> {
        // Folders of our own go with the package; those that others have, too, are not its.
        let own = found(folder, &["-type", "d", "-path", "*/iotide*"])?
            .into_iter()
            .map(|path| format!("%dir {path}"));
        let files = found(folder, &["-type", "f"])?
            .into_iter()
            .map(|path| if path.starts_with("/etc/") { format!("%config(noreplace) {path}") } else { path });
        Ok(own.chain(files).collect::<Vec<_>>().join("\n"))
    };
    let last = "[ \"$1\" = 0 ] || exit 0\n";
    Ok(format!(
        "Name: iotide\nVersion: {version}\nRelease: 1\nSummary: {ABOUT}\nLicense: Apache-2.0 OR MIT\nAutoReqProv: no\n\
         Requires: libc.so.6(GLIBC_{major}.{minor})(64bit)\nRequires: libgcc_s.so.1()(64bit)\n\n%description\n{ABOUT}\n\n\
         %package -n iotide-daemon\nSummary: {ABOUT_DAEMON}\nRequires: iotide = {version}\n\n%description -n iotide-daemon\n{ABOUT_DAEMON}\n\n\
         %install\n{}{}\n%files\n%defattr(-,root,root)\n{}\n\n%files -n iotide-daemon\n%defattr(-,root,root)\n{}\n\n\
         %post -n iotide-daemon\n{}\n%preun -n iotide-daemon\n{last}{}\n%postun -n iotide-daemon\n{last}{}",
        copy(&tree.iotide),
        copy(&tree.daemon),
        files(&tree.iotide)?,
        files(&tree.daemon)?,
        script_body("install")?,
        script_body("remove")?,
        script_body("removed")?,
        version = release.version,
        major = GLIBC.0,
        minor = GLIBC.1,
    ))
}

fn script_body(name: &str) -> Result<String, String> {
    read(&repository().join("dist/package").join(format!("{name}.sh")))
}

/// Writes the checksums of all files.
pub(super) fn checksums(out: &Path) -> Result<(), String> {
    let mut names: Vec<_> =
        fs::read_dir(out).map_err(said)?.flatten().map(|entry| entry.file_name()).collect();
    names.sort_unstable();
    let sums = output(Command::new("sha256sum").current_dir(out).args(names))?;
    write(&out.join("SHA256SUMS"), &sums)
}

/// Whether a program is there; if not, its packages are left out.
fn is_there(program: &str) -> bool {
    let is_there = Command::new(program).arg("--version").output().is_ok();
    if !is_there {
        eprintln!("no {program} here: its packages are left out");
    }
    is_there
}
