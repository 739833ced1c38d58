//! Everything about a run.

use iotide_analysis::{CategoryConfig, IssueConfig, Method, RunConfig, issues};
use iotide_formats::OpenOptions;
use iotide_report::{LabelledRun, LogModules, Plot, Run, pictures_of_both, pictures_of_dft};
use iotide_trace::{Activity, ActivitySums, Timeline};

use crate::detect::analyse;
use crate::label::label_observed;
use crate::modules::modules;
use crate::{Error, Input, darshan_log, observe};

/// How a run is read and looked at.
#[derive(Clone, Debug, Default)]
pub struct ReportOptions {
    /// How the input is opened.
    pub open: OpenOptions,
    /// How its period is found.
    pub run: RunConfig,
    /// How its labels are found.
    pub categories: CategoryConfig,
    /// How its I/O issues are found.
    pub issues: IssueConfig,
}

/// Everything about a run.
#[derive(Clone, Debug)]
pub struct RunReport {
    /// Results of the run.
    pub run: Run,
    /// Its labels with all they are based on, to be compared with those of other runs.
    pub labels: LabelledRun,
    /// Its pictures; none if there was too little data.
    pub plots: Vec<Plot>,
}

/// Says everything about a run: its period, who did what to which file, its labels and its I/O issues.
pub fn report(input: &Input, options: &ReportOptions) -> Result<RunReport, Error> {
    let mut observed = observe::<((Activity, Timeline), iotide_analysis::Observed)>(input, &options.open)?;
    let ((activity, timeline), seen) = std::mem::take(&mut observed.beside);
    let (run, analysis) = analyse(&observed, &options.run)?;
    let activity: ActivitySums = Activity::finish(activity, &observed.info);
    let job = &observed.info.job;
    let labels = label_observed(seen, observed.source, job, &observed.losses, &options.categories);
    let found = issues(&activity, job, &observed.losses, &options.issues);
    let plots = analysis.as_ref().map_or(Vec::new(), |analysis| {
        let mut plots = pictures_of_both(
            analysis,
            &observed.reads,
            &observed.writes,
            (options.run.from_s, options.run.until_s),
            run.source.zero(),
        );
        if options.run.period.method == Method::Dft {
            plots.extend(pictures_of_dft(analysis, options.run.period.dft.tolerance, run.source.zero()));
        }
        plots
    });
    let run = run
        .with_activity(&activity)
        .with_patterns(&activity, job)
        .with_timeline(timeline.finish().map(iotide_report::Timeline::from))
        .with_modules(modules_of(input, &options.open))
        .with_issues(&found)
        .with_labels(labels.clone())
        .with_charts(&plots)
        .with_card(&activity);
    Ok(RunReport { run, labels, plots })
}

/// Returns the counts of the modules of a Darshan log. The log is read a second time, which standard input does not allow.
fn modules_of(input: &Input, options: &OpenOptions) -> Option<LogModules> {
    if input.is_stdin() {
        return None;
    }
    // What it is, and what it lost, was said when it was read first.
    darshan_log(input, options).ok().map(|log| modules(&log))
}
