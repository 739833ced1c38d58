//! `iotide compare`: what differs between runs, and by how much.

use std::path::PathBuf;

use iotide_api::{
    CompareDocument, CompareOptions, CompareSettings, ComparedRun, Error, HistoryDocument, Input,
    MeasuredRun, Quantity, WhyEntry, WhyOptions, by_application, compare_measured, measure, why_each,
};

use super::advice::advised;
use super::analysis::AnalysisArgs;
use super::input::InputArgs;
use super::settings::SettingsArgs;
use super::why::StorageArgs;
use crate::ExitStatus;
use crate::config::Config;
use crate::ui::{Hint, Ui};

use self::baseline::BaselineArgs;
use self::output::CompareOutputArgs;

mod baseline;
mod output;

/// Compare runs: what differs, and by how much
///
/// The first run, A, is what the others are compared with: their bytes, times, operations, request sizes, periods, issues, labels and
/// files. With --with, the runs before it are one side and the runs after it the other; a side is then its median, and a difference counts
/// only if it is larger than the noise of the runs. With --baseline, the first side is a file of figures that --save-baseline wrote.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    input: InputArgs,
    /// Runs of the other side: all runs named before are one side, these are the other
    #[arg(long, value_name = "TRACE", num_args = 1.., help_heading = "Sides")]
    with: Vec<PathBuf>,
    /// Sides to compare: each run, or all runs of an application
    #[arg(
        long,
        value_enum,
        value_name = "WHAT",
        default_value = "run",
        conflicts_with = "with",
        help_heading = "Sides"
    )]
    by: By,
    /// Tell of runs of the same program, too, whether its own requests, others or the storage made the difference
    #[arg(long, conflicts_with = "by", help_heading = "Evidence")]
    why: bool,
    #[command(flatten)]
    storage: StorageArgs,
    #[command(flatten)]
    baseline: BaselineArgs,
    /// Exit with status 1 if something got worse by more than PERCENT
    #[arg(long, value_name = "PERCENT", value_parser = percent, help_heading = "Checking")]
    worse_than: Option<f64>,
    /// Quantities that --worse-than checks, for example run_time_s,bytes_written [default: everything that has a good and a bad direction]
    #[arg(long, value_name = "QUANTITY", value_delimiter = ',', value_parser = quantity, requires = "worse_than", help_heading = "Checking")]
    watch: Vec<Quantity>,
    #[command(flatten)]
    analysis: AnalysisArgs,
    #[command(flatten)]
    settings: SettingsArgs,
    #[command(flatten)]
    output: CompareOutputArgs,
}

/// Grouping of runs into sides.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Run,
    Application,
}

const EXAMPLES: &str = "\
Examples:
  iotide compare before.darshan after.darshan
  iotide compare before.darshan after.darshan -o compare.html        as a page
  iotide compare base/*.darshan --with new/*.darshan --worse-than 10 in CI: status 1 if it got worse by more than 10 %
  iotide compare runs/*.darshan --save-baseline base.json            the figures alone, for later
  iotide compare --baseline base.json new/*.darshan --worse-than 10 --format markdown >> \"$GITHUB_STEP_SUMMARY\"
  iotide compare --history baselines -o history.html                 how the figures went from commit to commit
  iotide compare before.csv after.csv --storage servers.csv          and whether it was the program, others or the storage
  iotide compare --by application logs/*.darshan                     each application beside the others

Exit status: 0 compared, 1 worse than allowed (with --worse-than), 2 a run could not be read.";

pub(crate) fn run(ui: &mut Ui, args: &CompareArgs) -> anyhow::Result<ExitStatus> {
    let settings = args.settings.read()?;
    if let Some(unused) = args.analysis.unused() {
        ui.status(unused);
    }
    let mut how = CompareSettings { watched: args.watch.clone(), ..CompareSettings::default() };
    if let Some(threshold) = args.worse_than {
        how.threshold = threshold;
    }
    if args.baseline.history {
        return history(ui, args, &how);
    }
    let options = CompareOptions {
        open: args.input.options()?,
        run: args.analysis.config(),
        categories: settings.categories,
        issues: settings.issues,
        settings: how,
    };
    let Some(sides) = sides(ui, args, &options)? else { return Ok(ExitStatus::Done) };
    let mut document = compare_measured(sides, &options).map_err(advised)?;
    if args.why || args.storage.is_named() {
        let first = args.input.runs();
        let sides: Vec<Vec<Input>> = if args.with.is_empty() {
            first.into_iter().map(|run| vec![run]).collect()
        } else {
            vec![first, args.input.runs_of(&args.with)]
        };
        add_whys(args, &mut document, &sides, &options)?;
    }
    args.output.deliver(ui, &document)?;
    if args.worse_than.is_some() && document.is_worse() {
        for what in &document.worse {
            ui.status(format_args!("worse: {what}"));
        }
        return Ok(ExitStatus::Worse);
    }
    Ok(ExitStatus::Done)
}

/// Measures the runs of all sides, and saves the figures of the last one where that is asked for; `None` if nothing else is.
fn sides(
    ui: &mut Ui,
    args: &CompareArgs,
    options: &CompareOptions,
) -> anyhow::Result<Option<Vec<Vec<MeasuredRun>>>> {
    if args.storage.is_named() && args.baseline.is_used() {
        return Err(anyhow::anyhow!(
            "a baseline has figures, and no times: it cannot be compared with the storage's load"
        ))
        .hint("`--with` compares runs with runs");
    }
    // First: a baseline that cannot be read costs no reading of runs.
    let baseline = args.baseline.read()?;
    let with = if args.with.is_empty() { Vec::new() } else { args.input.runs_of(&args.with) };
    let n_runs = args.input.runs().len() + with.len();
    let mut measured = |runs: Vec<Input>, first: usize| -> anyhow::Result<Vec<MeasuredRun>> {
        let mut side = Vec::new();
        for (i, input) in runs.iter().enumerate() {
            ui.progress(format_args!("reading {} ({} of {n_runs})", input.name(), first + i + 1));
            // A comparison without one of its runs would be another one: the first that fails ends it.
            side.push(measure(input, options).map_err(advised)?);
        }
        Ok(side)
    };
    let named = measured(args.input.runs(), 0)?;
    let sides = match (args.by, args.with.is_empty()) {
        _ if baseline.is_some() => baseline.into_iter().chain([named]).collect(),
        (By::Application, _) => by_application(named),
        (By::Run, true) if args.baseline.saves() => vec![named],
        (By::Run, true) => named.into_iter().map(|run| vec![run]).collect(),
        (By::Run, false) => {
            let first = named.len();
            vec![named, measured(with, first)?]
        }
    };
    if let Some(last) = sides.last() {
        args.baseline.save(ui, last)?;
    }
    let is_all = args.baseline.saves() && sides.len() == 1;
    Ok((!is_all).then_some(sides))
}

/// Shows how figures went from baseline to baseline; the status tells of the last one.
fn history(ui: &mut Ui, args: &CompareArgs, how: &CompareSettings) -> anyhow::Result<ExitStatus> {
    let baselines = baseline::read_all(args.input.paths())?;
    let Some(document) = HistoryDocument::new(&baselines, how) else {
        return Err(anyhow::anyhow!("a history needs two baselines or more, not {}", baselines.len()))
            .hint("`iotide compare RUNS --save-baseline FILE` writes one");
    };
    args.output.deliver_history(ui, &document)?;
    let last = document.history.last();
    let is_worse = args.worse_than.is_some() && last.is_some_and(|point| !point.worse.is_empty());
    Ok(if is_worse { ExitStatus::Worse } else { ExitStatus::Done })
}

/// Says of each side of the same application why it took longer than the first: by its run in the middle.
fn add_whys(
    args: &CompareArgs,
    document: &mut CompareDocument,
    sides: &[Vec<Input>],
    options: &CompareOptions,
) -> anyhow::Result<()> {
    let evidence = WhyOptions {
        open: options.open.clone(),
        history: sides[0].iter().cloned().map(ComparedRun::from).collect(),
        storage: args.storage.named(&Config::held().daemon())?,
        ..WhyOptions::default()
    };
    let same: Vec<usize> = (1..sides.len()).filter(|side| document.is_same_application(*side)).collect();
    let runs: Vec<ComparedRun> =
        same.iter().flat_map(|side| &sides[*side]).cloned().map(ComparedRun::from).collect();
    if runs.is_empty() {
        return Ok(());
    }
    let mut answers = why_each(&runs, &evidence, &mut |_| {}).map_err(advised)?.into_iter();
    for i in same {
        let mut whys: Vec<WhyEntry> = Vec::new();
        for answer in answers.by_ref().take(sides[i].len()) {
            match answer {
                Ok(answer) => whys.push(answer.why),
                // A log of totals does not tell.
                Err(Error::NoRequests { .. }) => {}
                Err(error) => return Err(advised(error)),
            }
        }
        let factor = |why: &WhyEntry| why.slowdown.map_or(1.0, |slowdown| slowdown.factor);
        whys.sort_by(|a, b| factor(a).total_cmp(&factor(b)));
        if !whys.is_empty() {
            let middle = whys.swap_remove(whys.len() / 2);
            let name = document.sides[i].name.clone();
            document.add_why(name, middle);
        }
    }
    Ok(())
}

/// A change in per cent, as a ratio.
fn percent(text: &str) -> Result<f64, String> {
    let number: f64 =
        text.trim_end_matches('%').trim().parse().map_err(|_| "it must be a number".to_owned())?;
    if number.is_finite() && number >= 0.0 {
        Ok(number / 100.0)
    } else {
        Err("it must not be below 0".to_owned())
    }
}

fn quantity(key: &str) -> Result<Quantity, String> {
    Quantity::from_key(key).ok_or_else(|| {
        let keys: Vec<&str> = Quantity::ALL.iter().map(|quantity| quantity.key()).collect();
        format!("known quantities are {}", keys.join(", "))
    })
}
