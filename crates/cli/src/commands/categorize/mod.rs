//! `iotide categorize`: labels of one run, of several, or of an archive.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context;
use iotide_analysis::CategoryMethod;
use iotide_api::{Input, LabelOptions, LabelledRun, Labelling, OpenOptions, Settings, label, why_archive};
use iotide_archive::{
    ArchiveError, Folder, Job, Limits, Logs, Outputs, Progress, Shard, ShardError, compare, for_each_run,
    merge, statistics_of,
};
use iotide_private::PrivateDir;
use iotide_report::{ArchiveStatistics, CategorizeDocument, Document, Ink, Report, SlowRuns, text};

use super::advice::advised;
use super::input::ReadingArgs;
use super::settings::SettingsArgs;
use super::why::{StorageArgs, archive_runs};
use super::{Form, OutputArgs};
use crate::ExitStatus;
use crate::config::Config;
use crate::ui::{Hint, Ui};

/// Label the I/O of a run, or of every run of an archive
///
/// Labels say when a run reads and writes, whether periodically, and what it asks of metadata servers. They are those of the
/// MOSAIC paper, each with its confidence and evidence. A folder, or a list of files,
/// is an archive: its logs are labelled in parallel, and their statistics are reported. With `--out` results are kept, an
/// interrupted run is resumed by the same command, and `index.html` shows it all.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CategorizeArgs {
    /// Traces, each of one run, or folders of many; with `--merge` folders or files of results
    #[arg(value_name = "TRACE|DIR", required_unless_present_any = ["files", "print_settings"])]
    traces: Vec<PathBuf>,
    /// Label the logs that LIST names, one a line; `-` is standard input
    #[arg(long, value_name = "LIST", conflicts_with = "traces")]
    files: Option<PathBuf>,
    /// How labels are found: by our own rules, or as the paper has it
    #[arg(long, value_enum, help_heading = "Labels", value_name = "METHOD")]
    method: Option<MethodArg>,
    #[command(flatten)]
    settings: SettingsArgs,
    /// Print all thresholds as such a file, and end
    #[arg(long, help_heading = "Labels")]
    print_settings: bool,
    /// Report the I/O issues of each run, too
    #[arg(long, alias = "insights", help_heading = "Labels", conflicts_with = "merge")]
    issues: bool,
    /// Compare each run with the earlier ones of its application in these results of an archive. Of an archive, mark runs that were slow beside others of
    /// their application, there and here, and say why, by week and by file system: DIR may be that of --out
    #[arg(long, value_name = "DIR", help_heading = "Labels")]
    history: Option<PathBuf>,
    #[command(flatten)]
    storage: StorageArgs,
    /// Keep results in DIR, and go on with what is there
    #[arg(long, value_name = "DIR", help_heading = "Archives")]
    out: Option<PathBuf>,
    /// Label part I of N only, into a folder of its own in DIR [default: as Slurm numbers the tasks of a job array or of srun]
    #[arg(long, value_name = "I/N", help_heading = "Archives", requires = "out", conflicts_with = "merge")]
    shard: Option<Shard>,
    /// Put results together: of all shards in a folder, of several folders, of files of lines
    #[arg(long, help_heading = "Archives", conflicts_with_all = ["files", "history"])]
    merge: bool,
    /// Process N logs in parallel [default: number of cores]
    #[arg(long, value_name = "N", help_heading = "Archives")]
    jobs: Option<std::num::NonZeroUsize>,
    /// Give a log up after SECONDS
    #[arg(long, value_name = "SECONDS", default_value_t = 300, help_heading = "Archives")]
    time_limit: u64,
    /// Do not open logs larger than MIB mebibytes
    #[arg(long, value_name = "MIB", default_value_t = 4096, help_heading = "Archives")]
    size_limit: u64,
    /// Draw N runs of the results by chance, for a person to confirm or correct their labels: sample.html in DIR tells the accuracy
    #[arg(long, value_name = "N", help_heading = "Archives", requires = "out")]
    sample: Option<std::num::NonZeroUsize>,
    /// With --sample: where chance begins; the same results and the same SEED give the same runs
    #[arg(long, value_name = "SEED", default_value_t = 1, help_heading = "Archives", requires = "sample")]
    seed: u64,
    #[command(flatten)]
    reading: ReadingArgs,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  iotide categorize job.darshan
  iotide categorize job.darshan --issues                        and its I/O issues
  iotide categorize job.darshan --history 2019-results          is that usual for this application?
  iotide categorize /logs/2019 --out 2019-results               a year; the same again goes on
  iotide categorize /logs/2019 --out 2019-results --history 2019-results --storage servers.csv   and slow runs
  find /logs -name '*.darshan' | iotide categorize --files - --out results
  sbatch --array=0-63 --wrap 'iotide categorize /logs --out results'
  iotide categorize --merge results --out results/all           after all tasks have ended
  iotide categorize /logs/2019 --out 2019-results --sample 512  how right are the labels?
  iotide categorize --print-settings > mine.toml                every threshold, to be changed";

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum MethodArg {
    /// Ours
    Auto,
    /// The paper's
    Mosaic,
}

pub(crate) fn run(ui: &mut Ui, args: &CategorizeArgs) -> anyhow::Result<ExitStatus> {
    let settings = args.settings()?;
    if args.print_settings {
        ui.out(&settings.to_commented_toml())?;
        return Ok(ExitStatus::Done);
    }
    if args.merge {
        return merge_results(ui, args);
    }
    let labelling =
        Labelling { categories: settings.categories, issues: args.issues.then_some(settings.issues) };
    match args.archive() {
        Some(logs) => label_archive(ui, args, logs, labelling),
        None => label_traces(ui, args, labelling),
    }
}

impl CategorizeArgs {
    /// Converts the flags to settings of labels; nothing below this line depends on clap.
    fn settings(&self) -> anyhow::Result<Settings> {
        let mut settings = self.settings.read()?;
        match self.method {
            Some(MethodArg::Auto) => settings.categories.method = CategoryMethod::Auto,
            Some(MethodArg::Mosaic) => settings.categories.method = CategoryMethod::Mosaic,
            None => {}
        }
        Ok(settings)
    }

    /// How many logs are read at a time.
    fn n_workers(&self) -> usize {
        let n_cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.map_or_else(n_cores, usize::from)
    }

    /// Where the logs are, if they are those of an archive rather than a few traces.
    fn archive(&self) -> Option<Logs> {
        if let Some(list) = &self.files {
            return Some(Logs::ListedIn(list.clone()));
        }
        let is_folder = |path: &PathBuf| path.is_dir() && !iotide_formats::is_one_trace(path);
        let archive = !self.reading.is_one_run() && (self.out.is_some() || self.traces.iter().any(is_folder));
        archive.then(|| Logs::Below(self.traces.clone()))
    }
}

/// Labels a few traces and tells each.
fn label_traces(ui: &mut Ui, args: &CategorizeArgs, labelling: Labelling) -> anyhow::Result<ExitStatus> {
    if args.storage.is_named() {
        return Err(anyhow::anyhow!("--storage is for archives here"))
            .hint("`iotide why RUN --history DIR --storage LOG` tells of one run");
    }
    let mut report = Report::new("categorize");
    let options = LabelOptions { open: args.reading.options()?, labelling };
    let mut labelled = label_all(&args.reading.runs(&args.traces), &options, args.n_workers()).into_iter();
    report.failures = args.reading.for_each(ui, &args.traces, |_| {
        let mut run = labelled.next().context("a run was not read")?.map_err(advised)?;
        if let Some(results) = &args.history {
            run.history = compare(&run, results)?;
        }
        report.runs.push(run);
        Ok(())
    })?;
    if report.runs.len() > 1 {
        report.statistics = Some(statistics_of(&report.runs));
    }
    if !report.runs.is_empty() {
        args.output.deliver(ui, &report)?;
    }
    Ok(if report.failures.is_empty() { ExitStatus::Done } else { ExitStatus::Failed })
}

/// Labels runs, some at a time; the answers are in the order of the runs.
fn label_all(
    runs: &[Input],
    options: &LabelOptions,
    n_workers: usize,
) -> Vec<Result<LabelledRun, iotide_api::Error>> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some((at, run)) = next_of(runs, &next) {
            done.push((at, label(run, options)));
        }
        done
    };
    let mut labelled: Vec<_> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..n_workers.min(runs.len())).map(|_| scope.spawn(work)).collect();
        let mut done = work();
        done.extend(
            others
                .into_iter()
                .flat_map(|other| other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))),
        );
        done
    });
    labelled.sort_by_key(|(at, _)| *at);
    labelled.into_iter().map(|(_, run)| run).collect()
}

/// Takes the next of several, with its place.
fn next_of<'a>(runs: &'a [Input], next: &AtomicUsize) -> Option<(usize, &'a Input)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    runs.get(at).map(|run| (at, run))
}

/// Labels an archive, or goes on with it.
fn label_archive(
    ui: &mut Ui,
    args: &CategorizeArgs,
    logs: Logs,
    labelling: Labelling,
) -> anyhow::Result<ExitStatus> {
    if args.storage.is_named() && args.history.is_none() {
        return Err(anyhow::anyhow!("--storage needs --history"))
            .hint("`--history DIR` may be the folder of --out");
    }
    if args.history.is_some() && args.out.is_none() {
        return Err(anyhow::anyhow!("--history needs the results of an archive"))
            .hint("keep them with `--out DIR`");
    }
    let shard = shard(ui, args)?;
    let settings = format!("{}\n{}", labelling.to_toml(), args.reading.in_toml());
    let job = Job {
        logs,
        shard,
        // It counts logs, and stops after those that are being read.
        options: OpenOptions { watch: None, ..args.reading.options()? },
        labelling,
        limits: Limits {
            bytes: args.size_limit.saturating_mul(1 << 20),
            time: Duration::from_secs(args.time_limit),
        },
        n_workers: args.n_workers(),
        count_ahead: ui.shows_progress(),
    };
    // Without a place to keep results they pass through one that goes away.
    let passing = args.out.is_none().then(|| passing_folder(ui)).transpose()?;
    let path = match (&args.out, &passing) {
        (Some(out), _) => shard.folder(out),
        (None, passing) => passing.as_ref().map(|passing| passing.path().to_owned()).unwrap_or_default(),
    };
    let mut folder = Folder::open(&path, &job.made_with(&settings)).or_else(with_advice)?;
    if folder.n_cut() > 0 {
        ui.status("a line that was cut when an earlier run was killed is left out; its log is read again");
    }
    let stop = super::stop_flag(ui)?;
    let done =
        iotide_archive::run(&job, &mut folder, &stop, |progress| show(ui, progress)).or_else(with_advice)?;
    if done.stopped {
        drop(folder);
        match &args.out {
            Some(_) => ui.status(format_args!(
                "stopped after {}; what is done is kept in {}: the same command goes on from there",
                text::counted(done.n_done(), "log"),
                path.display()
            )),
            None => ui.status("stopped; with `--out DIR` the work could be resumed"),
        }
        return Ok(ExitStatus::Interrupted);
    }
    ui.progress("writing results");
    let outputs = if passing.is_some() { Outputs::LinesOnly } else { Outputs::All };
    let mut fault = None;
    let statistics = folder
        .finish_with(outputs, &mut |results| match slow_runs(ui, args, results) {
            Ok(slow) => slow,
            Err(why) => {
                fault = Some(why);
                None
            }
        })
        .or_else(with_advice)?;
    if let Some(why) = fault {
        return Err(why.context("slow runs cannot be told"));
    }
    if statistics.n_logs == 0 {
        anyhow::bail!("no logs found: {} has no file that could be one", names_of(&args.traces));
    }
    if done.n_known > 0 {
        ui.status(format_args!("{} were done before", text::counted(done.n_known, "log")));
    }
    tell(ui, args, &path, &statistics)
}

/// Tells which runs of an archive were slow beside others of their applications, in it and in the results of an earlier one.
fn slow_runs(ui: &mut Ui, args: &CategorizeArgs, results: &Path) -> anyhow::Result<Option<SlowRuns>> {
    let Some(history) = &args.history else { return Ok(None) };
    let mut runs = archive_runs(results, true)?;
    let is_same = results.canonicalize().ok() == history.canonicalize().ok();
    if !is_same {
        // A log may be in both.
        let known: HashSet<String> = runs.iter().map(|run| run.input.name()).collect();
        let earlier = archive_runs(history, false)?;
        runs.extend(earlier.into_iter().filter(|run| !known.contains(&run.input.name())));
    }
    let storage = args.storage.named(&Config::held().daemon())?;
    let open = args.reading.options()?;
    let found = why_archive(&runs, storage.as_ref(), &open, &mut |progress| ui.progress_of(&progress));
    Ok(Some(found.map_err(advised)?.archive))
}

/// Paths in a message.
fn names_of(paths: &[PathBuf]) -> String {
    let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    if names.is_empty() { "the list".to_owned() } else { names.join(", ") }
}

/// Puts the results of several folders together.
fn merge_results(ui: &mut Ui, args: &CategorizeArgs) -> anyhow::Result<ExitStatus> {
    let passing = args.out.is_none().then(|| passing_folder(ui)).transpose()?;
    let path = match (&args.out, &passing) {
        (Some(out), _) => out.clone(),
        (None, passing) => passing.as_ref().map(|passing| passing.path().to_owned()).unwrap_or_default(),
    };
    ui.progress("reading results");
    let outputs = if passing.is_some() { Outputs::LinesOnly } else { Outputs::All };
    let statistics = merge(&args.traces, &path, outputs).or_else(with_advice)?;
    tell(ui, args, &path, &statistics)
}

/// Gives the answer: the statistics, and in JSON the runs unless they are kept elsewhere.
fn tell(
    ui: &mut Ui,
    args: &CategorizeArgs,
    folder: &Path,
    statistics: &ArchiveStatistics,
) -> anyhow::Result<ExitStatus> {
    match args.output.form() {
        Form::Json if args.out.is_some() => put(ui, args, &statistics.to_json())?,
        Form::Json => {
            ui.also_in_words(|width| statistics.to_text(width, Ink::Plain));
            let mut out = ui.out_stream(args.output.file())?;
            write_runs(folder, statistics, |text| {
                std::io::Write::write_all(&mut out, text.as_bytes()).map_err(|error| out.failed(error))
            })?;
            out.finish()?;
        }
        Form::Text => {
            let ink = if args.output.file().is_none() { ui.ink() } else { Ink::Plain };
            let text = statistics.to_text(ui.width(), ink);
            put(ui, args, &text)?;
        }
    }
    if let Some(n) = args.sample {
        let page = iotide_archive::sample(folder, n.get(), args.seed)?;
        let dir = iotide_private::OpenDir::make(folder).with_context(|| folder.display().to_string())?;
        ui.out_file_in(&dir, "sample.html", &page)?;
        ui.status(format_args!(
            "open {} in a browser to review the labels",
            folder.join("sample.html").display()
        ));
    }
    if args.out.is_some() {
        ui.status(format_args!("open {} in a browser", folder.join("index.html").display()));
    }
    Ok(if statistics.all.n > 0 { ExitStatus::Done } else { ExitStatus::NothingFound })
}

/// Writes all runs and their statistics as one document, piece by piece.
fn write_runs(
    folder: &Path,
    statistics: &ArchiveStatistics,
    mut write: impl FnMut(&str) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (mut document, head) = CategorizeDocument::begin();
    write(&head)?;
    for_each_run(folder, |line| write(&document.run(line)))?;
    write(&document.end(Some(statistics), &[]))
}

fn put(ui: &mut Ui, args: &CategorizeArgs, text: &str) -> anyhow::Result<()> {
    match args.output.file() {
        Some(file) => ui.answer_file(file, text),
        None => ui.out(text),
    }
}

/// The part of the archive to label: as given, else as Slurm numbers its tasks, as long as results are kept.
fn shard(ui: &mut Ui, args: &CategorizeArgs) -> anyhow::Result<Shard> {
    if let Some(shard) = args.shard {
        return Ok(shard);
    }
    if args.out.is_none() {
        return Ok(Shard::WHOLE);
    }
    let found = Shard::from_slurm(|name| std::env::var(name).ok());
    let found = found.or_else(|error: ShardError| {
        Err(error).hint("`--shard I/N` names the part; `--shard 1/1` is all of it")
    })?;
    if let Some(shard) = found {
        ui.status(format_args!("labelling shard {shard}, as Slurm numbers its tasks"));
    }
    Ok(found.unwrap_or(Shard::WHOLE))
}

fn show(ui: &mut Ui, progress: &Progress) {
    let done = text::counted(progress.n_done(), "log");
    let of = progress.n_total.map(|n_total| format!(" of {}", text::count(n_total))).unwrap_or_default();
    let left = progress
        .left_s()
        .map(|left_s| format!(", {} left", text::seconds(left_s.ceil())))
        .unwrap_or_default();
    let rejected = match progress.n_rejected {
        0 => String::new(),
        n => format!(", {} rejected", text::count(n)),
    };
    let rate = text::count(progress.per_s().round() as u64);
    ui.progress_bar(
        progress.n_done(),
        progress.n_total,
        format_args!("{done}{of}{rejected}, {rate}/s{left}"),
    );
}

/// The message says what is wrong; what is left to say is what to do.
fn with_advice<T>(error: ArchiveError) -> anyhow::Result<T> {
    let hint = match &error {
        ArchiveError::OtherSettings { .. } => {
            "choose another folder with `--out`, or remove this one to begin anew"
        }
        ArchiveError::Unfinished { .. } => "run `iotide categorize` for it again: it goes on where it ended",
        ArchiveError::MissingShard { .. } => {
            "run `iotide categorize --shard` for it, or name its folder, too"
        }
        ArchiveError::Busy { .. } => "wait for it, or choose another folder with `--out`",
        _ => return Err(error.into()),
    };
    Err(error).hint(hint)
}

/// A folder for results that nobody keeps.
fn passing_folder(ui: &Ui) -> anyhow::Result<PrivateDir> {
    let made = match ui.scratch() {
        Some(folder) => PrivateDir::new_in(folder, "categorize"),
        None => PrivateDir::new("categorize"),
    };
    made.context("cannot make a temporary folder").hint("choose a folder for results with `--out DIR`")
}
