//! The signatures of all applications in a long log, written as they come.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, bail};
use iotide_api::{Found, JobLog, Loss, PrometheusQuestion, ThroughputLog, job_log, prometheus_log};
use iotide_pages::log_page;
use iotide_report::LogReport;

use super::output::{Kind, Table, Target};
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
    let job_log = job_log(jobs, &args.job_options()).map_err(advised)?;
    let log = throughput(ui, args, &job_log)?;
    let name = jobs.display().to_string();
    let applications = iotide_api::applications(log, &name, job_log, &args.options()?).map_err(advised)?;
    let mut out = Writers::open(ui, targets, applications.report())?;
    applications.for_each(out.draws(), |i, found| {
        let (nth, of) = (i + 1, applications.len());
        ui.progress_bar(nth as u64, Some(of as u64), format_args!("{nth} of {of}"));
        out.take(found)
    })?;
    let n_found = out.finish(ui)?;
    Ok(if n_found == 0 { ExitStatus::NothingFound } else { ExitStatus::Done })
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
    let question = PrometheusQuestion {
        server: server.clone(),
        query: args.query.clone().context("`--prometheus` needs a `--query`")?,
        from_s,
        until_s,
        step_s: args.step,
    };
    prometheus_log(&question, &args.options()?, &mut |progress| ui.progress_of(&progress)).map_err(advised)
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
        let (entry, chart) = match found {
            Found::Signature(entry, chart) => (entry, chart),
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
        self.report.add(&entry, chart);
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
                Kind::Page => target.write(ui, &log_page(&report))?,
                _ => target.write(ui, &report.to_text(ui.width(), target.ink(ui)))?,
            }
        }
        Ok(report.n_found())
    }
}

fn put(out: &mut OutStream, text: &str) -> anyhow::Result<()> {
    out.write_all(text.as_bytes()).map_err(|error| out.failed(error))
}
