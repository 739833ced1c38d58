//! How often to write checkpoints, in words and for scripts.

use iotide_look::{Ink, text};
use iotide_sim::{Checkpoints, SimulatedWaste};
use serde::Serialize;

use crate::run::Source;
use crate::{Document, SCHEMA};

/// The answer of `iotide checkpoint advise`.
#[derive(Clone, Debug, Serialize)]
pub struct CheckpointDocument {
    schema: &'static str,
    command: &'static str,
    /// Advice.
    pub checkpoint: CheckpointAdvice,
}

/// How often to write checkpoints, and what that is worth.
#[derive(Clone, Debug, Serialize)]
pub struct CheckpointAdvice {
    /// Time of a checkpoint.
    pub cost_s: f64,
    /// Time from a failure until work goes on.
    pub restart_s: f64,
    /// Mean time between failures.
    pub mtbf_s: f64,
    /// Work between the end of a checkpoint and the beginning of the next one that wastes least.
    pub work_s: f64,
    /// Time from the beginning of a checkpoint to that of the next one: `work_s + cost_s`.
    pub period_s: f64,
    /// Periods within which the waste grows by at most one hundredth of the time.
    pub good_enough_s: [f64; 2],
    /// Work between checkpoints by Young's formula.
    pub young_s: f64,
    /// The share of the time that checkpoints and failures take then.
    pub waste: f64,
    /// The same by a simulation.
    pub simulated: Option<SimulatedWaste>,
    /// Checkpoints of the run, if one was given.
    pub now: Option<CheckpointsNow>,
}

/// Checkpoints of a run, and their waste.
#[derive(Clone, Debug, Serialize)]
pub struct CheckpointsNow {
    /// The checkpoints of the run.
    #[serde(flatten)]
    pub seen: CheckpointsSeen,
    /// The share of the time that checkpoints and failures take so.
    pub waste: f64,
    /// The same by a simulation; `null` if hardly a stretch of work would end.
    pub simulated: Option<SimulatedWaste>,
}

/// The checkpoints of a run.
#[derive(Clone, Debug, Serialize)]
pub struct CheckpointsSeen {
    /// Source that was read.
    pub source: Source,
    /// Time from one to the next.
    pub period_s: f64,
    /// The confidence in that.
    pub confidence: f64,
    /// How many there were.
    pub n: usize,
    /// The median time of one.
    pub cost_s: f64,
    /// The shortest.
    pub shortest_s: f64,
    /// The longest.
    pub longest_s: f64,
    /// The median volume of one.
    pub bytes: f64,
}

/// More waste than the least by this much makes no difference.
const NO_DIFFERENCE: f64 = 0.01;

impl CheckpointDocument {
    /// Returns advice for a job whose checkpoints take so long; `seed` is that of the simulation.
    pub fn new(checkpoints: Checkpoints, seen: Option<CheckpointsSeen>, seed: u64) -> Self {
        let Checkpoints { cost_s, restart_s, mtbf_s } = checkpoints;
        let work_s = checkpoints.best_s();
        let simulated = |work_s: f64| checkpoints.simulate(work_s, seed);
        let now = seen.map(|seen| {
            let work_s = (seen.period_s - cost_s).max(0.0);
            CheckpointsNow { waste: checkpoints.waste(work_s), simulated: simulated(work_s), seen }
        });
        let checkpoint = CheckpointAdvice {
            cost_s,
            restart_s,
            mtbf_s,
            work_s,
            period_s: work_s + cost_s,
            good_enough_s: checkpoints.good_enough_s(NO_DIFFERENCE).map(|work_s| work_s + cost_s),
            young_s: checkpoints.young_s(),
            waste: checkpoints.waste(work_s),
            simulated: simulated(work_s),
            now,
        };
        Self { schema: SCHEMA, command: "checkpoint advise", checkpoint }
    }
}

impl CheckpointAdvice {
    fn headline(&self) -> String {
        let [least_s, most_s] = self.good_enough_s;
        let best = format!("one every {}", text::seconds(self.period_s));
        let Some(now) = &self.now else { return format!("Write {best}") };
        let period_s = now.seen.period_s;
        let change = match period_s {
            period_s if (least_s..=most_s).contains(&period_s) => {
                return format!(
                    "The checkpoints come often enough: one every {} is as good as {best}",
                    text::seconds(period_s)
                );
            }
            period_s if period_s < least_s => "fewer",
            _ => "more",
        };
        format!("Write {change} checkpoints: {best}, rather than every {}", text::seconds(period_s))
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let simulated = |simulated: Option<SimulatedWaste>| match simulated {
            Some(SimulatedWaste { waste, error }) => {
                format!(" (simulated: {:.1} ± {:.1} %)", 100.0 * waste, 100.0 * error)
            }
            None => " (simulated: hardly a stretch of work would end)".to_owned(),
        };
        let mut facts = Vec::new();
        if let Some(CheckpointsNow { seen, waste, simulated: tried }) = &self.now {
            facts.push((
                "now",
                format!(
                    "{} of {}, one every {} (confidence {}), each {} ({} to {})",
                    text::counted(seen.n as u64, "checkpoint"),
                    text::bytes(seen.bytes),
                    text::seconds(seen.period_s),
                    text::percent(seen.confidence),
                    text::seconds(seen.cost_s),
                    text::seconds(seen.shortest_s),
                    text::seconds(seen.longest_s)
                ),
            ));
            facts.push(("wastes", format!("{} of the time{}", text::percent(*waste), simulated(*tried))));
        }
        let [least_s, most_s] = self.good_enough_s;
        facts.push((
            "best",
            format!(
                "{} of work, then a checkpoint of {}",
                text::seconds(self.work_s),
                text::seconds(self.cost_s)
            ),
        ));
        facts.push((
            "wastes",
            format!("{} of the time{}", text::percent(self.waste), simulated(self.simulated)),
        ));
        facts.push((
            "as good",
            format!(
                "one every {} to {}: at most 1 % of the time more",
                text::seconds(least_s),
                text::seconds(most_s)
            ),
        ));
        facts.push((
            "taken",
            format!(
                "a failure every {}, restarts in {}",
                text::seconds(self.mtbf_s),
                text::seconds(self.restart_s)
            ),
        ));
        facts
    }
}

impl Document for CheckpointDocument {
    fn to_json(&self) -> String {
        text::json_document(self)
    }

    fn to_text(&self, width: usize, ink: Ink) -> String {
        let mut out = ink.bold(&text::wrap(&self.checkpoint.headline(), width).join("\n"));
        out.push_str("\n\n");
        let mut rows = text::Rows::default();
        for (name, value) in self.checkpoint.facts() {
            rows.row(name, value);
        }
        out + &rows.render(width, |name| ink.faint(name))
    }
}
