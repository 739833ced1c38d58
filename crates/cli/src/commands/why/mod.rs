//! `iotide why`: was it the program, the others, or the storage?

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use iotide_api::{
    ArchiveRun, ComparedRun, Input, JobLogOptions, OpenOptions, Progress, WhyOptions, job_log, program_of,
    why, why_archive,
};
use iotide_archive::RUNS;
use iotide_formats::is_one_trace;
use iotide_report::ResultLine;

pub(crate) use self::storage::StorageArgs;
use super::advice::advised;
use super::document::DocumentArgs;
use super::input::ReadingArgs;
use crate::ExitStatus;
use crate::config::Config;
use crate::ui::{Hint, Ui};

mod daemon;
mod storage;

/// Tell why a run's I/O was slow: its own requests, the load of others, or the storage
///
/// The run is compared with earlier runs of the same program, and both with the load of the storage servers meanwhile. A verdict is
/// given where the evidence agrees; otherwise the answer says what is excluded, and what would tell the rest. With --job, run, earlier runs and
/// load are those that the daemon counted.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct WhyArgs {
    /// The trace of the run in question
    #[arg(value_name = "RUN", required_unless_present_any = ["job", "archive"])]
    run: Option<PathBuf>,
    /// A job that the daemon watched, in the place of a trace
    #[arg(long, value_name = "ID", conflicts_with = "run")]
    job: Option<String>,
    /// Tell of each run in these results of `iotide categorize` whether it was slow beside the others of its application, and why: which hours, which
    /// applications cause it and which lose time
    #[arg(long, value_name = "RESULTS", conflicts_with_all = ["run", "job", "history", "jobs"])]
    archive: Option<PathBuf>,
    /// Socket of the daemon [default: as for `iotide jobs`]
    #[arg(long, value_name = "SOCKET", help_heading = "Evidence")]
    daemon: Option<PathBuf>,
    /// Earlier runs: traces, folders of traces, or a folder of results of `iotide categorize`. Of folders, runs of the same program count
    #[arg(
        long,
        value_name = "TRACE|DIR|RESULTS",
        num_args = 1..,
        help_heading = "Evidence",
        conflicts_with = "job"
    )]
    history: Vec<PathBuf>,
    #[command(flatten)]
    storage: StorageArgs,
    /// Who ran what, and when (`sacct -P`, or a table `user,name,nodes,start,end`): names who ran in the slow phases only
    #[arg(long, value_name = "JOBLOG", help_heading = "Evidence")]
    jobs: Option<PathBuf>,
    #[command(flatten)]
    reading: ReadingArgs,
    #[command(flatten)]
    output: DocumentArgs,
}

const EXAMPLES: &str = "\
Examples:
  iotide why run.csv --history earlier/ --storage servers.csv
  iotide why run.csv --history earlier/ --storage servers.csv -o why.html      as a page with pictures
  iotide why run.csv --history results --storage servers.csv --jobs jobs.txt   and who ran meanwhile
  iotide why run.csv --history earlier/ --storage prometheus:http://mon:9090   the load as Prometheus has it
  iotide why --job 4711                                                        all of it from the daemon
  iotide why --archive results --storage servers.csv -o slow.html              all runs of an archive

Exit status: 0 a verdict, 1 the evidence does not tell, 2 an input could not be read.";

pub(crate) fn run(ui: &mut Ui, args: &WhyArgs) -> anyhow::Result<ExitStatus> {
    if args.reading.is_one_run() {
        return Err(anyhow::anyhow!("--one-run cannot be told from earlier runs here"))
            .hint("name the folder that holds the parts of the run");
    }
    let open = args.reading.options()?;
    let socket = args.daemon.clone().unwrap_or_else(|| Config::held().daemon());
    if let Some(results) = &args.archive {
        return archive(ui, args, results, &open, &socket);
    }
    let mut options = WhyOptions {
        jobs: match &args.jobs {
            Some(path) => Some(job_log(path, &JobLogOptions { utc_offset_s: 0.0 }).map_err(advised)?),
            None => None,
        },
        open: open.clone(),
        ..WhyOptions::default()
    };
    let run = match (&args.job, &args.run) {
        (Some(id), _) => {
            let watched = daemon::watched(ui, &socket, id)?;
            options.storage = Some(watched.load(&socket));
            (options.history, options.losses) = (watched.earlier, watched.losses);
            watched.run
        }
        (None, Some(path)) => {
            let input = Input::file(path);
            let mut earlier = earlier_runs(&args.history, &input, &open)?;
            if earlier.len() > MOST_EARLIER {
                let n = earlier.len();
                ui.status(format_args!("the first {MOST_EARLIER} of {n} earlier runs are used"));
                earlier.truncate(MOST_EARLIER);
            }
            options.history = earlier.into_iter().map(ComparedRun::from).collect();
            input.into()
        }
        (None, None) => bail!("neither a trace nor --job nor --archive was given"),
    };
    if let Some(storage) = args.storage.named(&socket)? {
        options.storage = Some(storage);
    }
    let document = why(&run, &options, &mut |progress| match progress {
        Progress::LeftOut { name, why } => {
            ui.status(format_args!("{name} is left out of the history: {}", why.with_causes()));
        }
        progress => ui.progress_of(&progress),
    })
    .map_err(advised)?;
    args.output.deliver(ui, &document)?;
    Ok(if document.is_known() { ExitStatus::Done } else { ExitStatus::NothingFound })
}

/// Tells of all runs of an archive whether they were slow, and why.
fn archive(
    ui: &mut Ui,
    args: &WhyArgs,
    results: &Path,
    open: &OpenOptions,
    socket: &Path,
) -> anyhow::Result<ExitStatus> {
    let runs = archive_runs(results, true)?;
    let storage = args.storage.named(socket)?;
    let document = why_archive(&runs, storage.as_ref(), open, &mut |progress| ui.progress_of(&progress))
        .map_err(advised)?;
    args.output.deliver(ui, &document)?;
    Ok(if document.archive.n_runs == 0 { ExitStatus::NothingFound } else { ExitStatus::Done })
}

/// The runs of results that were not rejected.
pub(super) fn archive_runs(results: &Path, is_asked: bool) -> anyhow::Result<Vec<ArchiveRun>> {
    let mut runs = Vec::new();
    for_each_usable(results, |line| {
        let path: &str = line.source.path.as_ref();
        let application = line.application.as_deref().unwrap_or("unknown").to_owned();
        runs.push(ArchiveRun { input: Input::file(path), application, is_asked });
    })?;
    Ok(runs)
}

/// A folder holds no more traces than are worth comparing with.
pub(super) const MOST_EARLIER: usize = 1000;

/// Finds the earlier runs that were named. A trace that was named itself is taken as it is; of a folder, runs of the same program are.
pub(super) fn earlier_runs(named: &[PathBuf], run: &Input, open: &OpenOptions) -> anyhow::Result<Vec<Input>> {
    let mut earlier = Vec::new();
    let mut program: Option<Option<String>> = None;
    for path in named {
        if !path.is_dir() || is_one_trace(path) {
            if !path.exists() {
                bail!("{} does not exist", path.display());
            }
            earlier.push(Input::file(path));
            continue;
        }
        let program = program.get_or_insert_with(|| program_of(run, open).ok().flatten());
        let is_same =
            |its: Option<&str>| its.zip(program.as_deref()).is_none_or(|(its, program)| its == program);
        let (mut traces, mut n_found) = (Vec::new(), 0);
        if path.join(RUNS).is_file() {
            // Results name the program: of a year of runs, few traces need to be opened.
            for_each_usable(path, |line| {
                n_found += 1;
                if is_same(line.application.as_deref()) {
                    traces.push(PathBuf::from(line.source.path.as_ref()));
                }
            })?;
        } else {
            traces = traces_below(path)?;
            n_found = traces.len();
        }
        let n_before = earlier.len();
        // A folder may hold anything: files that are not traces are passed over, and so are runs of other programs.
        let is_usable = |trace: &Input| program_of(trace, open).is_ok_and(|its| is_same(its.as_deref()));
        earlier.extend(traces.into_iter().map(Input::file).filter(is_usable));
        if earlier.len() == n_before {
            return Err(anyhow::anyhow!("{} holds no earlier run ({n_found} files)", path.display()))
                .hint("name traces of the same program, or a folder of them");
        }
    }
    Ok(earlier)
}

pub(super) fn traces_in_results(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut traces = Vec::new();
    for_each_usable(folder, |line| traces.push(PathBuf::from(line.source.path.as_ref())))?;
    Ok(traces)
}

/// Hands on each line of results that was not rejected.
fn for_each_usable(folder: &Path, mut take: impl FnMut(&ResultLine<'_>)) -> anyhow::Result<()> {
    iotide_archive::for_each_run(folder, |line| -> anyhow::Result<()> {
        let line = ResultLine::parse(line.trim_end().as_bytes())
            .map_err(|fault| anyhow::anyhow!("{}: {fault}", folder.join(RUNS).display()))?;
        if line.rejected.is_none() {
            take(&line);
        }
        Ok(())
    })
}

/// Every file below a folder, and every folder that is itself one trace, but for hidden ones.
fn traces_below(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut traces = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries =
            std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("cannot read {}", folder.display()))?;
            let path = entry.path();
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            // Links to folders may lead anywhere, in circles, too.
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && !is_one_trace(&path) => folders.push(path),
                _ => traces.push(path),
            }
        }
    }
    traces.sort();
    Ok(traces)
}
