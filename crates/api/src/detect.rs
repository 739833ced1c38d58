//! The period of a run's I/O phases.

use iotide_analysis::{IssueConfig, RunAnalysis, RunConfig, analyse_run, issues};
use iotide_formats::OpenOptions;
use iotide_report::Run;
use iotide_trace::Activity;

use crate::{Error, Input, Observed, observe};

/// How a run is read and looked at.
#[derive(Clone, Debug, Default)]
pub struct DetectOptions {
    /// How the input is opened.
    pub open: OpenOptions,
    /// How the run is looked at.
    pub run: RunConfig,
    /// How I/O issues are found; `None` does not look, which is cheaper.
    pub issues: Option<IssueConfig>,
}

/// Finds the period of a run's I/O phases, or that there is none.
///
/// Too little data is an answer; a setting that the run cannot meet is an error.
pub fn detect(input: &Input, options: &DetectOptions) -> Result<Run, Error> {
    let Some(config) = &options.issues else {
        let observed = observe::<()>(input, &options.open)?;
        return analyse(&observed, &options.run).map(|(run, _)| run);
    };
    let mut observed = observe::<Activity>(input, &options.open)?;
    let activity = std::mem::take(&mut observed.beside).finish(&observed.info);
    let (run, _) = analyse(&observed, &options.run)?;
    Ok(run.with_issues(&issues(&activity, &observed.info.job, &observed.losses, config)))
}

/// Looks at what was observed; the analysis is there unless there was too little data.
pub(crate) fn analyse<B>(
    observed: &Observed<B>,
    config: &RunConfig,
) -> Result<(Run, Option<RunAnalysis>), Error> {
    let Observed { source, reads, writes, demand, losses, stated, .. } = observed;
    let config = RunConfig { stated: *stated, ..config.clone() };
    let (run, analysis) = match analyse_run(reads, writes, &config) {
        Ok(analysis) => (Run::analysed(source.clone(), losses, &config, &analysis), Some(analysis)),
        Err(why) if why.is_lack_of_data() => (Run::not_analysed(source.clone(), losses, &config, &why), None),
        Err(why) => return Err(Error::Analysis { path: source.path.clone(), why }),
    };
    Ok((run.with_demand(demand.as_ref()), analysis))
}
