//! `iotide serve install`: the daemon as a service, where no package brings it.

use std::fs::Permissions;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context;
use iotide_edge::write_key;
use iotide_private::OpenDir;

use super::KEY_FILE;
use crate::ExitStatus;
use crate::ui::{Hint, Ui};

#[derive(clap::Args, Debug)]
pub(super) struct InstallArgs {
    /// Print what would be written, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Make a key for a tree of daemons, too, on the first machine of the tree
    #[arg(long)]
    with_key: bool,
    /// Write below DIR, for instance into the image of a node
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
}

pub(super) const EXAMPLES: &str = "\
Examples:
  iotide serve install --dry-run
  iotide serve install                                     then what it prints last
  iotide serve install --root /images/compute";

/// A file of the service.
struct Part {
    path: &'static str,
    text: &'static str,
    /// Whether people change it: one that is there stays.
    is_theirs: bool,
}

const PARTS: [Part; 4] = [
    Part {
        path: "etc/systemd/system/iotide.service",
        text: include_str!("../../../../../dist/systemd/iotide.service"),
        is_theirs: false,
    },
    Part {
        path: "etc/systemd/system/run-iotide-pages.mount",
        text: include_str!("../../../../../dist/systemd/run-iotide-pages.mount"),
        is_theirs: false,
    },
    Part {
        path: "etc/sysusers.d/iotide.conf",
        text: include_str!("../../../../../dist/sysusers/iotide.conf"),
        is_theirs: false,
    },
    Part {
        path: "etc/iotide/serve.toml",
        text: include_str!("../../../../../dist/serve.toml"),
        is_theirs: true,
    },
];

/// The program as the unit of packages names it.
const PACKAGED: &str = "/usr/bin/iotide";

pub(super) fn run(ui: &mut Ui, args: &InstallArgs) -> anyhow::Result<ExitStatus> {
    let program = iotide_private::own_program().and_then(|program| program.canonicalize());
    let program = program.context("cannot find this program")?;
    let shown = program.to_str().filter(|path| !path.contains([' ', '%', '$', '"', '\\', '\n']));
    let shown = shown.with_context(|| format!("a unit cannot name {}", program.display()))?;
    if !args.dry_run && args.root == Path::new("/") {
        let owner = program.metadata().context("cannot find this program")?;
        if owner.uid() != 0 || owner.mode() & 0o022 != 0 {
            return Err(anyhow::anyhow!("root would run {shown}, which others can change"))
                .hint("install -m 755 iotide /usr/local/bin, and start it from there");
        }
    }
    for part in &PARTS {
        let path = args.root.join(part.path);
        let text = part.text.replace(PACKAGED, shown);
        if part.is_theirs && path.exists() {
            ui.status(format_args!("{}: stays as it is", path.display()));
        } else if args.dry_run {
            ui.out(&format!("## {}\n{text}\n", path.display()))?;
        } else {
            write(&path, &text).with_context(|| format!("cannot write {}", path.display()))?;
            ui.out(&format!("{}\n", path.display()))?;
        }
    }
    if args.with_key {
        install_key(ui, args)?;
    }
    if !args.dry_run {
        ui.status("next: systemd-sysusers && systemctl daemon-reload && systemctl enable --now iotide");
    }
    Ok(ExitStatus::Done)
}

/// Makes the key of a tree, unless there is one: another would lock out the daemons that have it.
fn install_key(ui: &mut Ui, args: &InstallArgs) -> anyhow::Result<()> {
    let path = args.root.join(KEY_FILE.trim_start_matches('/'));
    if path.exists() {
        ui.status(format_args!("{}: stays as it is", path.display()));
    } else if args.dry_run {
        ui.out(&format!("## {}\n(a new key, for root alone)\n", path.display()))?;
    } else {
        write_key(&path)?;
        ui.out(&format!("{}\n", path.display()))?;
        ui.status("copy the key to all daemons of the tree");
    }
    Ok(())
}

/// Writes a file that all may read and its owner may write.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let mut part = OpenDir::make(folder)?.replace(path.file_name().unwrap_or_default())?;
    part.write_all(text.as_bytes())?;
    part.file().set_permissions(Permissions::from_mode(0o644))?;
    part.finish_durably()
}
