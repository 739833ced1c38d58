//! `iotide sets map`: which arbiter to ask about which stripe, from the layout that the file system says.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use iotide_sched::Layout;
use iotide_wire::GateMap;

use super::super::ioskel::parse_size;
use crate::ExitStatus;
use crate::ui::{Hint, Ui};

/// Print the value of IOTIDE_GATE for files of Lustre or BeeGFS, from their layout
///
/// Asks `lfs getstripe` or `beegfs-ctl --getentryinfo` how large the stripes of each PATH are and at which targets, and puts the
/// arbiters of these targets in that order. A directory stands for the files that will be made in it. Elsewhere stripes are
/// taken to be round robin over all arbiters.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct MapArgs {
    /// Directories or files
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Arbiter of a storage target, by the number that the file system has for it: 0=tcp:10.0.0.5:7070; once for each
    #[arg(long = "target", required = true, value_name = "NUMBER=ADDRESS", value_parser = parse_target)]
    targets: Vec<(u32, String)>,
    /// Who knows the layout
    #[arg(long, value_enum, default_value_t, value_name = "SYSTEM")]
    layout: Source,
    /// Round robin: how much of a file lies at one target before the next
    #[arg(long, default_value = "1M", value_name = "SIZE", value_parser = parse_size)]
    stripe_size: u64,
    /// How long the file system's tool may take
    #[arg(long, default_value = "10s", value_name = "TIME", value_parser = super::super::ioskel::parse_seconds)]
    timeout: f64,
}

const EXAMPLES: &str = "\
Examples:
  iotide sets map /scratch/run --target 0=tcp:10.0.0.5:7070 --target 1=tcp:10.0.0.6:7070
  iotide sets map /beegfs/run/data.h5 --target 101=tcp:10.0.0.5:7070 --target 201=tcp:10.0.0.6:7070
  iotide sets map /data --stripe-size 4M --target 0=unix:/run/a --target 1=unix:/run/b
  export IOTIDE_GATE=$(iotide sets map /scratch/run --target 0=tcp:10.0.0.5:7070)";

/// Who knows the layout of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Source {
    /// Whatever file system it is on
    #[default]
    Auto,
    /// `lfs getstripe`
    Lustre,
    /// `beegfs-ctl --getentryinfo`
    Beegfs,
    /// Nobody: stripes of --stripe-size over all arbiters
    RoundRobin,
}

pub(crate) fn run(ui: &mut Ui, args: &MapArgs) -> anyhow::Result<ExitStatus> {
    let mut rules = Vec::new();
    for path in &args.paths {
        let path = path.canonicalize().with_context(|| format!("cannot read {}", path.display()))?;
        let layout = args.layout_of(&path)?;
        if !layout.is_known() && args.targets.len() > 1 && args.source_of(&path) != Source::RoundRobin {
            ui.status(format_args!(
                "warning: {}: at which target a file begins is chosen when it is made, so that its stripes may be others' than the map says; name the file itself once it is there, \
                 or choose for all (`lfs setstripe -i 0 DIR`)",
                path.display()
            ));
        }
        rules.push(rule(&path, &layout, &args.targets)?);
    }
    let map = rules.join(";");
    let mut read = GateMap::new();
    read.read(map.as_bytes());
    let n_addresses: usize = read.rules().iter().map(|rule| rule.n_targets).sum();
    if read.rules().len() != rules.len() || n_addresses != read.n_targets {
        return Err(anyhow::anyhow!("this is more than a map can have, or a path that it cannot: {map}"))
            .hint("a map has at most 16 arbiters in all, and paths without = and ;");
    }
    ui.out(&format!("{map}\n"))?;
    Ok(ExitStatus::Done)
}

impl MapArgs {
    fn source_of(&self, path: &Path) -> Source {
        /// As the kernel modules of the two say.
        const LUSTRE: u64 = 0x0bd0_0bd0;
        const BEEGFS: u64 = 0x1983_0326;
        match self.layout {
            Source::Auto => match rustix::fs::statfs(path).map(|found| found.f_type as u64 & 0xffff_ffff) {
                Ok(LUSTRE) => Source::Lustre,
                Ok(BEEGFS) => Source::Beegfs,
                _ => Source::RoundRobin,
            },
            said => said,
        }
    }

    fn layout_of(&self, path: &Path) -> anyhow::Result<Layout> {
        let place = path.to_str().with_context(|| format!("{} is no text", path.display()))?;
        let is_directory = path.is_dir();
        let (words, read): (Vec<&str>, fn(&str) -> _) = match self.source_of(path) {
            Source::Auto | Source::RoundRobin => {
                let stripe_bytes = self.stripe_size;
                return Ok(Layout { stripe_bytes, n_stripes: None, targets: Vec::new(), first: None });
            }
            Source::Lustre if is_directory => {
                (vec!["lfs", "getstripe", "-d", "-y", place], Layout::of_lustre)
            }
            Source::Lustre => (vec!["lfs", "getstripe", "-y", place], Layout::of_lustre),
            Source::Beegfs => (vec!["beegfs-ctl", "--getentryinfo", place], Layout::of_beegfs),
        };
        let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        let hint = "--layout round-robin with --stripe-size says it without the file system's tool";
        let said =
            iotide_act::programs::run(&words, Duration::from_secs_f64(self.timeout), &|| false).hint(hint)?;
        read(&said).with_context(|| format!("cannot use what `{}` says", words.join(" "))).hint(hint)
    }
}

/// The arbiters of a path in a map.
fn rule(path: &Path, layout: &Layout, targets: &[(u32, String)]) -> anyhow::Result<String> {
    let shown = path.display();
    let arbiters = match layout.among(targets) {
        Ok(arbiters) => arbiters,
        Err(target) => {
            return Err(anyhow::anyhow!("{shown} has stripes at target {target}, which has no arbiter"))
                .hint(format!("add --target {target}=ADDRESS"));
        }
    };
    let stripe = layout.stripe_bytes;
    if !(4096..=1 << 40).contains(&stripe) {
        bail!("{shown}: stripes of {stripe} bytes; a map has stripes of 4 KiB to 1 TiB");
    }
    let addresses: Vec<&str> = arbiters.into_iter().map(String::as_str).collect();
    let stripes = if addresses.len() > 1 { format!("@{stripe}") } else { String::new() };
    Ok(format!("{shown}={}{stripes}", addresses.join(",")))
}

fn parse_target(text: &str) -> Result<(u32, String), String> {
    let parsed = text.split_once('=').and_then(|(number, address)| {
        let is_address = address.starts_with("unix:/")
            || address.strip_prefix("tcp:")?.parse::<std::net::SocketAddr>().is_ok();
        let is_plain = !address.contains([',', ';', '@']);
        (is_address && is_plain).then(|| Some((number.parse().ok()?, address.to_owned())))?
    });
    parsed.ok_or_else(|| "a target is NUMBER=unix:/path or NUMBER=tcp:a.b.c.d:port".to_owned())
}
