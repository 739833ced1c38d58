//! The signatures of all applications in a long log.
//!
//! The log is in memory once, as even steps. Cores take applications one by one; what they find is written in the order
//! of the applications, as it comes.

use std::collections::BTreeMap;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;

use anyhow::{Context, bail};
use iotide_analysis::{
    CutConfig, CutSamples, Grouping, RunGroup, SignatureConfig, cut_samples, extract, group_runs,
};
use iotide_formats::JobLog;
use iotide_report::{GroupEntry, LogReport, LogSource, SignatureEntry};
use iotide_trace::{JobRun, Loss, Silence, ThroughputLog, ThroughputSink};

use super::output::{Kind, Table, Target};
use super::prometheus::{self, Question};
use super::{SignatureArgs, log_of};
use crate::ExitStatus;
use crate::commands::Form;
use crate::commands::advice::advised;
use crate::ui::{Hint, OutStream, Ui};

pub(super) fn run(
    ui: &mut Ui,
    args: &SignatureArgs,
    jobs: &Path,
    targets: Vec<Target>,
) -> anyhow::Result<ExitStatus> {
    if let Some(picture) = targets.iter().find(|target| target.kind == Kind::Picture) {
        bail!(
            "{} would hold one picture, and a log has many signatures; .html has them on a page",
            picture.shown()
        );
    }
    ui.progress(format_args!("reading {}", jobs.display()));
    let job_log = args.job_options().open(jobs).map_err(advised)?;
    if job_log.runs.is_empty() {
        bail!("{} lists no job that ran", jobs.display());
    }
    let (log, mut losses) = throughput(ui, args, &job_log)?;
    check_clocks(&log, &job_log.runs)?;
    losses.extend(job_log.losses.iter().map(|loss| {
        let what = format!("{}: {}", jobs.display(), loss.what);
        Loss { what, ..loss.clone() }
    }));
    let Grouping { groups, n_broken, n_rare } = group_runs(&job_log.runs, &args.groups());
    let source = LogSource {
        start_s: log.start_s,
        end_s: log.end_s(),
        interval_s: log.interval_s,
        n_values: log.values.len(),
        n_unknown: log.n_unknown(),
        n_runs: job_log.runs.len(),
        n_not_begun: job_log.n_not_begun,
        n_broken,
        n_rare,
    };
    let mut out = Writers::open(ui, targets, LogReport::new(source, &losses))?;
    let work = Work {
        log: &log,
        runs: &job_log.runs,
        groups: &groups,
        cut: args.cut(),
        config: args.config()?,
        draws: out.draws(),
    };
    let threads =
        args.threads.or_else(|| std::thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
    work.spread(threads, |i, found| {
        ui.progress(format_args!("{} {} of {}", bar(i + 1, groups.len()), i + 1, groups.len()));
        out.take(found)
    })?;
    let n_found = out.finish(ui)?;
    Ok(if n_found == 0 { ExitStatus::NothingFound } else { ExitStatus::Done })
}

/// `[######........]`
fn bar(done: usize, all: usize) -> String {
    const WIDTH: usize = 30;
    let full = done * WIDTH / all.max(1);
    format!("[{}{}]", "#".repeat(full), ".".repeat(WIDTH - full))
}

/// The throughput log, from files or from a server.
fn throughput(
    ui: &mut Ui,
    args: &SignatureArgs,
    jobs: &JobLog,
) -> anyhow::Result<(ThroughputLog, Vec<Loss>)> {
    let Some(server) = &args.prometheus else {
        if args.inputs.is_empty() {
            return Err(anyhow::anyhow!("no throughput log was given"))
                .hint("name its files, or a server with `--prometheus URL --query PROMQL`");
        }
        return log_of(ui, &args.inputs, args);
    };
    let ends = jobs.runs.iter().map(|run| run.end_s.unwrap_or(run.start_s));
    let from_s =
        args.from.unwrap_or_else(|| jobs.runs.iter().map(|run| run.start_s).fold(f64::INFINITY, f64::min));
    let until_s = args.until.unwrap_or_else(|| ends.fold(f64::NEG_INFINITY, f64::max));
    if from_s >= until_s {
        bail!("the time to ask for ends before it begins: from {from_s} until {until_s}");
    }
    // A value holds since the one before: the first of the range comes one step after its beginning.
    let question = Question {
        server: server.clone(),
        query: args.query.clone().context("`--prometheus` needs a `--query`")?,
        from_s: from_s + args.step,
        step_s: args.step,
        n_points: ((until_s - from_s) / args.step).ceil(),
    };
    // What the query asks for is what counts, whichever way the bytes went.
    let mut config = args.throughput(Silence::Unknown, None);
    config.direction = iotide_trace::Direction::Both;
    config.interval_s = config.interval_s.or(Some(args.step));
    let mut sink = ThroughputSink::new(config);
    prometheus::ask(ui, &question, &mut sink)?;
    let (log, losses) = sink.finish();
    Ok((log.context("the server has nothing of that time")?, losses))
}

/// Two clocks that never meet are a mistake, not a log without jobs.
fn check_clocks(log: &ThroughputLog, runs: &[JobRun]) -> anyhow::Result<()> {
    let meets = |run: &JobRun| run.start_s < log.end_s() && run.end_s.is_none_or(|end_s| end_s > log.start_s);
    if runs.iter().any(meets) {
        return Ok(());
    }
    let first_s = runs.iter().map(|run| run.start_s).fold(f64::INFINITY, f64::min);
    let last_s = runs.iter().map(|run| run.end_s.unwrap_or(run.start_s)).fold(f64::NEG_INFINITY, f64::max);
    Err(anyhow::anyhow!(
        "the throughput log lies between {} and {} s, and all jobs between {first_s} and {last_s} s",
        log.start_s,
        log.end_s()
    ))
    .hint("both must count from one zero; `--utc-offset` moves dates of the job log, and SLURM_TIME_FORMAT=%s makes sacct write seconds")
}

/// All there is to do, shared by the cores.
struct Work<'a> {
    log: &'a ThroughputLog,
    runs: &'a [JobRun],
    groups: &'a [RunGroup],
    cut: CutConfig,
    config: SignatureConfig,
    draws: bool,
}

/// What came of one application.
enum Found {
    Signature(Box<SignatureEntry>, Option<String>),
    Nothing(GroupEntry, String),
}

impl Work<'_> {
    /// Looks at all applications, on so many cores, and hands on what is found in their order.
    fn spread(
        &self,
        threads: NonZeroUsize,
        mut take: impl FnMut(usize, Found) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let (send, receive) = sync_channel(2 * threads.get());
            for _ in 0..threads.get().min(self.groups.len()) {
                let (send, next) = (send.clone(), &next);
                scope.spawn(move || {
                    loop {
                        let i = next.fetch_add(1, Ordering::Relaxed);
                        let Some(group) = self.groups.get(i) else { break };
                        // Nobody listens any more: writing has failed.
                        if send.send((i, self.look_at(group))).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(send);
            let mut waiting = BTreeMap::new();
            let mut n_taken = 0;
            for (i, found) in receive {
                waiting.insert(i, found);
                while let Some(found) = waiting.remove(&n_taken) {
                    take(n_taken, found)?;
                    n_taken += 1;
                }
            }
            Ok(())
        })
    }

    fn look_at(&self, group: &RunGroup) -> Found {
        let entry = GroupEntry {
            user: group.user.clone(),
            name: group.name.clone(),
            nodes: group.n_nodes,
            runs: group.runs.len(),
        };
        let CutSamples { samples, without, n_not_needed } =
            cut_samples(self.log, self.runs, group, &self.cut);
        match extract(&samples, &self.config) {
            Ok(signature) => {
                let mut found = SignatureEntry::new(Some(entry), &signature);
                for (i, why) in without {
                    found.without_sample(self.runs[i].job_id.clone(), why);
                }
                found.samples.not_needed = n_not_needed;
                let picture = self.draws.then(|| LogReport::picture(&signature, &samples));
                Found::Signature(Box::new(found), picture)
            }
            Err(error) => Found::Nothing(entry, error.to_string()),
        }
    }
}

/// The places where signatures are written as they come, and those written at the end.
struct Writers {
    report: LogReport,
    lines: Vec<OutStream>,
    tables: Vec<Table>,
    /// With whether something was written already.
    documents: Vec<(OutStream, bool)>,
    at_the_end: Vec<Target>,
}

impl Writers {
    fn open(ui: &mut Ui, targets: Vec<Target>, report: LogReport) -> anyhow::Result<Self> {
        let mut writers = Self {
            report,
            lines: Vec::new(),
            tables: Vec::new(),
            documents: Vec::new(),
            at_the_end: Vec::new(),
        };
        for target in targets {
            match target.kind {
                Kind::Lines => writers.lines.push(target.open(ui)?),
                Kind::Table => writers.tables.push(Table::open(ui, &target)?),
                Kind::Plain(Form::Json) => writers.documents.push((target.open(ui)?, false)),
                Kind::Plain(Form::Text) | Kind::Page | Kind::Picture => writers.at_the_end.push(target),
            }
        }
        for (document, _) in &mut writers.documents {
            put(document, &LogReport::json_head())?;
        }
        Ok(writers)
    }

    fn draws(&self) -> bool {
        self.at_the_end.iter().any(|target| target.kind == Kind::Page)
    }

    fn take(&mut self, found: Found) -> anyhow::Result<()> {
        let (entry, picture) = match found {
            Found::Signature(entry, picture) => (entry, picture),
            Found::Nothing(group, error) => {
                self.report.fail(group, error);
                return Ok(());
            }
        };
        if !self.lines.is_empty() || !self.documents.is_empty() {
            let line = entry.to_json_line();
            for out in &mut self.lines {
                put(out, &line)?;
                put(out, "\n")?;
            }
            for (out, begun) in &mut self.documents {
                put(out, if std::mem::replace(begun, true) { ",\n" } else { "" })?;
                put(out, &line)?;
            }
        }
        for table in &mut self.tables {
            table.push(&entry)?;
        }
        self.report.add(&entry, picture);
        Ok(())
    }

    /// Writes what comes at the end; returns how many signatures there are.
    fn finish(self, ui: &mut Ui) -> anyhow::Result<usize> {
        let Self { report, lines, tables, documents, at_the_end } = self;
        for (mut document, _) in documents {
            put(&mut document, &report.json_tail())?;
            document.finish()?;
        }
        for out in lines {
            out.finish()?;
        }
        for table in tables {
            table.finish()?;
        }
        for target in at_the_end {
            match target.kind {
                Kind::Page => target.write(ui, &report.to_page())?,
                _ => target.write(ui, &report.to_text(ui.width(), target.ink(ui)))?,
            }
        }
        Ok(report.n_found())
    }
}

fn put(out: &mut OutStream, text: &str) -> anyhow::Result<()> {
    out.write_all(text.as_bytes()).map_err(|error| out.failed(error))
}
