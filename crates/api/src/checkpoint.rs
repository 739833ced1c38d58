//! How often a program should write checkpoints.

use iotide_analysis::{Phase, RunConfig};
use iotide_formats::OpenOptions;
use iotide_num::median;
use iotide_report::{CheckpointDocument, CheckpointsSeen};
use iotide_sim::Checkpoints;
use iotide_trace::Direction;

use crate::detect::analyse;
use crate::{Error, Input, observe};

/// Times that decide how often to write checkpoints. What is not stated is taken from the run.
#[derive(Clone, Debug, Default)]
pub struct CheckpointOptions {
    /// How the input is opened.
    pub open: OpenOptions,
    /// How its period is found; writes are looked at.
    pub run: RunConfig,
    /// Mean time between failures of the job.
    pub mtbf_s: f64,
    /// Time of a checkpoint.
    pub cost_s: Option<f64>,
    /// Time from a failure until work goes on; a checkpoint's if it is not known.
    pub restart_s: Option<f64>,
    /// Seed of the simulation.
    pub seed: u64,
}

/// Tells how often to write checkpoints: by the cost of those that a run wrote, and how often its job fails.
///
/// A run without a rhythm of writes is an error, unless the cost is stated.
pub fn checkpoint_advise(
    run: Option<&Input>,
    options: &CheckpointOptions,
) -> Result<CheckpointDocument, Error> {
    let seen = run.map(|run| seen(run, options)).transpose()?.flatten();
    let of_run = seen.as_ref().map(|seen| seen.cost_s);
    let Some(cost_s) = options.cost_s.or(of_run) else {
        let name = run.map_or_else(String::new, Input::name);
        return Err(Error::NoCheckpoints { name });
    };
    let restart_s = options.restart_s.unwrap_or(cost_s);
    let checkpoints = Checkpoints { cost_s, restart_s, mtbf_s: options.mtbf_s };
    Ok(CheckpointDocument::new(checkpoints, seen, options.seed))
}

/// Returns the checkpoints of a run: the phases of its writes that come at a period.
fn seen(run: &Input, options: &CheckpointOptions) -> Result<Option<CheckpointsSeen>, Error> {
    let observed = observe::<()>(run, &options.open)?;
    let config = RunConfig { direction: Some(Direction::Write), ..options.run.clone() };
    let (report, analysis) = analyse(&observed, &config)?;
    let Some(rhythm) = analysis.and_then(|analysis| analysis.estimate.rhythms.into_iter().next()) else {
        return Ok(None);
    };
    let length_s = |phase: &Phase| phase.end_s - phase.start_s;
    let lengths_s: Vec<f64> = rhythm.phases.iter().map(length_s).collect();
    let volumes: Vec<f64> = rhythm.phases.iter().map(|phase| phase.bytes).collect();
    let (Some(cost_s), Some(bytes)) = (median(&lengths_s), median(&volumes)) else { return Ok(None) };
    Ok((cost_s > 0.0).then(|| CheckpointsSeen {
        source: report.source,
        period_s: rhythm.period_s,
        confidence: rhythm.confidence,
        n: rhythm.phases.len(),
        cost_s,
        shortest_s: lengths_s.iter().copied().fold(f64::INFINITY, f64::min),
        longest_s: lengths_s.iter().copied().fold(0.0, f64::max),
        bytes,
    }))
}
