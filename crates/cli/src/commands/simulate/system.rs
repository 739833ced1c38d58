//! `iotide simulate system`: which state shared storage will be in.

use std::path::{Path, PathBuf};

use anyhow::bail;
use iotide_api::{
    CarryLimit, CarryOptions, Change, Error, NamedSystem, StorageTarget, SystemMethod, SystemOptions,
    WhatChanges, carry, read_text, simulate_system,
};

use crate::ExitStatus;
use crate::commands::advice::advised;
use crate::commands::document::DocumentArgs;
use crate::ui::{Hint, Ui};

#[cfg(feature = "system")]
mod live;

/// Predict the state of shared storage
///
/// Simulates jobs whose requests queue at storage targets: operations that servers take one after the other, then bytes that streams share. Reports the requests
/// that wait, the bandwidth of each kind of application, how much longer bursts take than alone, the bottleneck, and how many jobs saturate it, each with a band
/// over the repetitions; also the effect of a change: more jobs, a lost target.
///
/// With --carry, reports how many jobs run at once before they slow each other down, with an interval, what limits them, and what one more and twice as many do.
///
/// WORKLOAD is a JSON file (`-` is stdin): a system as `iotide templates` writes it, or a workload of `iotide simulate io`. `live` is the jobs that a daemon
/// (`iotide serve`) sees now, with the phases it expects of them; `daemon:SOCKET` those of another daemon.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SystemArgs {
    /// Workload: a JSON file, `live` or `daemon:SOCKET`
    workload: String,
    /// `live`: what the storage can do, as `iotide ladder` measures it or `iotide templates` writes it
    #[arg(long, value_name = "LADDER")]
    storage: Option<PathBuf>,

    /// So many jobs of a template come at a time [default: 1, at once]
    #[arg(long, value_name = "TEMPLATE=N@S", value_parser = added, help_heading = "What if")]
    add: Vec<Added>,
    /// A target is lost at a time
    #[arg(long, value_name = "TARGET@S", value_parser = target_at, help_heading = "What if")]
    lose_target: Vec<(usize, f64)>,
    /// A target is back at a time
    #[arg(long, value_name = "TARGET@S", value_parser = target_at, help_heading = "What if")]
    restore_target: Vec<(usize, f64)>,
    /// A target has another figure from a time on: iops, servers, bandwidth_bps or stream_bps
    #[arg(long, value_name = "TARGET:NAME=VALUE@S", value_parser = figure_at, help_heading = "What if")]
    set_target: Vec<FigureAt>,

    /// How many jobs the storage carries: of TEMPLATE, beside those that are there; of all, mixed as they are there, without one
    #[arg(long, value_name = "TEMPLATE", num_args = 0..=1, require_equals = true, conflicts_with_all = ["horizon", "interval"], help_heading = "How many jobs")]
    carry: Option<Option<String>>,
    /// A burst may take so many times as long as alone [default: 1.1]
    #[arg(
        long,
        value_name = "FACTOR",
        requires = "carry",
        conflicts_with = "stretch",
        help_heading = "How many jobs"
    )]
    slowdown: Option<f64>,
    /// The same of computing and bursts together
    #[arg(long, value_name = "FACTOR", requires = "carry", help_heading = "How many jobs")]
    stretch: Option<f64>,

    /// Seconds to look ahead [default: as in the workload, or 600]
    #[arg(long, value_name = "SECONDS", help_heading = "What to run")]
    horizon: Option<f64>,
    /// Interval of the reported states, in seconds [default: a hundredth of the time]
    #[arg(long, value_name = "SECONDS", help_heading = "What to run")]
    interval: Option<f64>,
    /// Number of repetitions, each with another random seed
    #[arg(long, value_name = "N", default_value_t = 100, help_heading = "What to run")]
    repetitions: usize,
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "What to run")]
    seed: u64,
    /// Share of the repetitions that bands hold
    #[arg(long, value_name = "SHARE", default_value_t = 0.9, help_heading = "What to run")]
    confidence: f64,
    /// Event by event with chance, mean counts without, or the long run in closed form
    #[arg(long, value_enum, default_value_t = MethodArg::Ssa, help_heading = "What to run")]
    method: MethodArg,
    /// Number of requests simulated as one, or `auto`: as many as keep the length of bursts
    #[arg(long = "granularity", alias = "grain", value_name = "N", default_value = "auto", value_parser = grain, help_heading = "What to run")]
    grain: Grain,

    #[command(flatten)]
    output: DocumentArgs,
}

const EXAMPLES: &str = "\
Examples:
  iotide simulate system system.json --add checkpoint=3@0 -o state.html
                                                            three jobs of a template on storage that `iotide templates` described
  iotide simulate system system.json --add X=2@600 --lose-target 0@900 --horizon 1800
                                                            what if two more came, and then a target were lost?
  iotide simulate system system.json --carry=checkpoint --slowdown 1.2
                                                            how many such jobs at once, before bursts take 1.2 times as long?
  iotide simulate system live --storage ladder.json         the next ten minutes of the jobs that run now
  iotide simulate system jobs.json --method mva             the long run of a workload of `iotide simulate io`";

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum MethodArg {
    Ssa,
    MeanField,
    Mva,
}

/// `auto` is `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Grain(Option<u64>);

#[derive(Clone, Debug, PartialEq)]
struct Added {
    template: String,
    count: u64,
    at_s: f64,
}

#[derive(Clone, Debug, PartialEq)]
struct FigureAt {
    target: usize,
    name: String,
    value: f64,
    at_s: f64,
}

pub(crate) fn run(ui: &mut Ui, args: &SystemArgs) -> anyhow::Result<ExitStatus> {
    #[cfg(feature = "system")]
    let seen = live::seen(args)?;
    #[cfg(not(feature = "system"))]
    let seen = None;
    let mut named = seen.map_or_else(|| described(args), Ok)?;
    if let Some(horizon_s) = args.horizon {
        let from_s = if named.system.frame_s[0] < horizon_s { named.system.frame_s[0] } else { 0.0 };
        if !(horizon_s > from_s && horizon_s.is_finite()) {
            bail!("--horizon {horizon_s} is not a time ahead");
        }
        named.system.frame_s = [from_s, horizon_s];
    }
    for change in args.changes(&named)? {
        named = named.with_change(change).map_err(advised_on_system)?;
    }
    if args.repetitions > 1 && args.method == MethodArg::Ssa {
        ui.progress(format_args!("simulating: {} repetitions", args.repetitions));
    }
    let options = SystemOptions {
        method: match args.method {
            MethodArg::Ssa => SystemMethod::Ssa,
            MethodArg::MeanField => SystemMethod::MeanField,
            MethodArg::Mva => SystemMethod::Mva,
        },
        repetitions: args.repetitions,
        seed: args.seed,
        confidence: args.confidence,
        interval_s: args.interval,
        grain: args.grain.0,
        threads: None,
    };
    let failed = |error| match error {
        Error::Setting { fault } => anyhow::anyhow!("--{fault}"),
        error => advised_on_system(error),
    };
    match &args.carry {
        Some(template) => {
            let limit = args.stretch.map(CarryLimit::Stretch);
            let limit = limit.unwrap_or(CarryLimit::Slowdown(args.slowdown.unwrap_or(USUAL_SLOWDOWN)));
            let asked = CarryOptions { template: template.clone(), limit, run: options };
            args.output.deliver(ui, &carry(&named, &asked).map_err(failed)?)?;
        }
        None => args.output.deliver(ui, &simulate_system(&named, &options).map_err(failed)?)?,
    }
    Ok(ExitStatus::Done)
}

/// Bursts that take a tenth longer than alone are about what jobs differ by from run to run.
const USUAL_SLOWDOWN: f64 = 1.1;

fn described(args: &SystemArgs) -> anyhow::Result<NamedSystem> {
    if args.storage.is_some() {
        bail!("--storage is about `live`: a system says itself what its storage can do");
    }
    let hint = "a workload is a JSON file or `live`; docs/system.md says how it is written";
    let text = read_text(Path::new(&args.workload)).hint(hint)?;
    let name = if args.workload == "-" { "stdin" } else { &args.workload };
    NamedSystem::from_json(name, &text).map_err(advised_on_system)
}

/// Adds to an error what to do about it: workloads of systems have a page of their own.
fn advised_on_system(error: Error) -> anyhow::Error {
    match error {
        Error::Workload { .. } => {
            Err::<(), _>(error).hint("docs/system.md says how a system is written").unwrap_err()
        }
        error => advised(error),
    }
}

impl SystemArgs {
    fn changes(&self, named: &NamedSystem) -> anyhow::Result<Vec<Change>> {
        let system = &named.system;
        let known = |target: usize| {
            let n = system.targets.len();
            if target < n {
                Ok(target)
            } else {
                Err(anyhow::anyhow!("there is no target {target}: they are 0 to {}", n - 1))
            }
        };
        let mut changes = Vec::new();
        for Added { template, count, at_s } in &self.add {
            let index = named.template(template).map_err(|fault| anyhow::anyhow!("--add {fault}"))?;
            changes.push(Change { at_s: *at_s, what: WhatChanges::Add { template: index, count: *count } });
        }
        for (target, at_s) in &self.lose_target {
            changes.push(Change { at_s: *at_s, what: WhatChanges::Lose(known(*target)?) });
        }
        for (target, at_s) in &self.restore_target {
            changes.push(Change { at_s: *at_s, what: WhatChanges::Restore(known(*target)?) });
        }
        for FigureAt { target, name, value, at_s } in &self.set_target {
            let mut figures: StorageTarget = system.targets[known(*target)?].clone();
            match name.as_str() {
                "iops" => figures.iops = Some(*value),
                "servers" => figures.servers = *value as u32,
                "bandwidth_bps" => figures.bandwidth_bps = Some(*value),
                "stream_bps" => figures.stream_bps = Some(*value),
                _ => bail!("--set-target {name}: a target has iops, servers, bandwidth_bps and stream_bps"),
            }
            changes.push(Change { at_s: *at_s, what: WhatChanges::Set(*target, figures) });
        }
        Ok(changes)
    }
}

/// Splits a text into the part before the `@`, and the time behind it; the time is the beginning if there is none.
fn at(text: &str) -> Result<(&str, f64), String> {
    let (what, at_s) = text.rsplit_once('@').unwrap_or((text, "0"));
    match at_s.parse::<f64>() {
        Ok(at_s) if at_s.is_finite() && at_s >= 0.0 => Ok((what, at_s)),
        _ => Err(format!("{at_s:?} is not a time in seconds")),
    }
}

fn added(text: &str) -> Result<Added, String> {
    let (what, at_s) = at(text)?;
    let (template, count) = what.rsplit_once('=').unwrap_or((what, "1"));
    match count.parse() {
        Ok(count) if count > 0 => Ok(Added { template: template.to_owned(), count, at_s }),
        _ => Err(format!("{count:?} is not a number of jobs")),
    }
}

fn target_at(text: &str) -> Result<(usize, f64), String> {
    let (target, at_s) = at(text)?;
    target
        .parse()
        .map(|target| (target, at_s))
        .map_err(|_| format!("{target:?} is not the number of a target"))
}

fn figure_at(text: &str) -> Result<FigureAt, String> {
    let (what, at_s) = at(text)?;
    let parsed = what.split_once(':').and_then(|(target, rest)| {
        let (name, value) = rest.split_once('=')?;
        Some((
            target.parse().ok()?,
            name,
            value.parse::<f64>().ok().filter(|value| value.is_finite() && *value > 0.0)?,
        ))
    });
    match parsed {
        Some((target, name, value)) => Ok(FigureAt { target, name: name.to_owned(), value, at_s }),
        None => Err("it is TARGET:NAME=VALUE@S, for example 0:bandwidth_bps=2e9@600".to_owned()),
    }
}

fn grain(text: &str) -> Result<Grain, String> {
    match text {
        "auto" => Ok(Grain(None)),
        _ => match text.parse() {
            Ok(grain) if grain > 0 => Ok(Grain(Some(grain))),
            _ => Err("it is a number of requests, or auto".to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_is_read_or_refused() {
        assert_eq!(added("X=2@600"), Ok(Added { template: "X".to_owned(), count: 2, at_s: 600.0 }));
        assert_eq!(added("a=b"), Err("\"b\" is not a number of jobs".to_owned()));
        assert_eq!(added("X"), Ok(Added { template: "X".to_owned(), count: 1, at_s: 0.0 }));
        assert_eq!(target_at("0@900"), Ok((0, 900.0)));
        for wrong in ["a@1", "0@-1", "0@nan", "0@"] {
            assert!(target_at(wrong).is_err(), "{wrong}");
        }
        let figure = figure_at("1:bandwidth_bps=2e9@600").unwrap();
        assert_eq!((figure.target, figure.value, figure.at_s), (1, 2e9, 600.0));
        assert!(figure_at("1:bandwidth_bps=0").is_err());
        assert_eq!(grain("auto"), Ok(Grain(None)));
        assert!(grain("0").is_err());
    }
}
