//! What a mount and an arbiter are told alike: who is served when.

use std::path::PathBuf;
use std::sync::Arc;

use iotide_gate::Turns;
use iotide_sched::{HintSource, Policy, Rules};
use iotide_source::Source;

use super::ioskel::parse_seconds;
use super::source::Speaking;
use iotide_act::parse_source;

/// Who is served when, and how that is known.
#[derive(clap::Args, Debug)]
pub(super) struct SchedulingArgs {
    /// Who is served when
    #[arg(long, value_enum, default_value_t = PolicyName::Set10, value_name = "POLICY")]
    policy: PolicyName,
    /// Whose rules the queue follows
    #[arg(long, value_enum, default_value_t, value_name = "RULES")]
    rules: RulesName,
    /// How many data requests may be with the storage at once; the policy has no say over those [default: 8, or 2 for each target of a stated
    /// --bandwidth]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    workers: Option<u16>,
    /// A job that was idle for this long has ended its I/O phase, and the next of its set has its turn
    #[arg(long, default_value = "250ms", value_name = "TIME", value_parser = parse_seconds)]
    phase_gap: f64,
    /// How long the storage waits for the next request of the job whose turn it is, before another of its set is served in between
    #[arg(long, alias = "lull", default_value = "20ms", value_name = "TIME", value_parser = parse_seconds)]
    grace_period: f64,
    /// A job without a known period has its turn for at most this long while others of its set wait; with one, for half of it
    #[arg(long, default_value = "2s", value_name = "TIME", value_parser = parse_seconds)]
    turn: f64,
    /// Multiply periods by FACTOR (for time-compressed experiments)
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR", value_parser = parse_factor)]
    time_scale: f64,
    /// Take periods from a table rather than from what jobs do (lines job,seconds or {"job": seconds}; read again on change), or from
    /// whoever sees the jobs: `daemon` or `daemon:SOCKET` (`iotide serve`), or where `iotide detect --listen` listens; while that is silent or wrong, from what
    /// jobs do
    #[arg(long, value_name = "SOURCE", value_parser = parse_source)]
    periods: Option<Source>,
    /// Make a socket at PATH to see jobs ("jobs", `iotide sets show`) and say their periods ("period JOB SECONDS"), a line each
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
}

/// Requests that a storage of unknown speed has at once, so that it is busy.
const WORKERS: u16 = 8;
/// One that is slowed down is busy with two: each of a megabyte takes it long enough to be felt by whoever has precedence and comes after them.
const PACED_WORKERS: u16 = 2;

impl SchedulingArgs {
    /// The same, where others decide: nobody is held here.
    pub(super) fn turns_of_others(&self, n_paced: Option<u16>) -> Turns {
        Turns { policy: Policy::Unscheduled, rules: Rules::Iotide, ..self.turns(n_paced) }
    }

    /// How requests are scheduled at a storage, or at so many targets that are no faster than was said.
    pub(super) fn turns(&self, n_paced: Option<u16>) -> Turns {
        let (mut table, mut informant): (_, Option<Arc<dyn HintSource>>) = (None, None);
        match &self.periods {
            Some(Source::Path(path)) if self.periods.as_ref().is_some_and(Source::is_table) => {
                table = Some(path.clone());
            }
            Some(source) => informant = Some(Arc::new(Speaking(source.clone()))),
            None => {}
        }
        Turns {
            n_workers: usize::from(self.workers.unwrap_or(n_paced.map_or(WORKERS, |n| n * PACED_WORKERS))),
            phase_gap_s: self.phase_gap,
            lull_s: self.grace_period,
            turn_s: self.turn,
            rules: self.rules(),
            time_scale: self.time_scale,
            // Told from what jobs do, unless somebody has written them down.
            predict: table.is_none(),
            periods: table,
            informant,
            control: self.control.clone(),
            ..Turns::new(self.rules().of(self.policy()))
        }
    }

    fn rules(&self) -> Rules {
        if self.policy == PolicyName::Set10Report { Rules::Report } else { self.rules.into() }
    }

    fn policy(&self) -> Policy {
        match self.policy {
            PolicyName::None => Policy::Unscheduled,
            PolicyName::FairShare => Policy::FairShare,
            PolicyName::Exclusive => Policy::Exclusive,
            PolicyName::Set10 | PolicyName::Set10Report => Rules::Iotide.set10(),
        }
    }
}

/// A policy as people type it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum PolicyName {
    /// Requests as they come
    None,
    /// Each job has the same share
    FairShare,
    /// One job at a time, first come, first served
    Exclusive,
    /// Jobs with periods of the same order of magnitude take turns; those with short periods have the larger share
    Set10,
    /// Former name of set10 with --rules report
    #[value(hide = true)]
    Set10Report,
}

/// Rules as people type them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum RulesName {
    /// Shares in bytes; in a set first come, first served; jobs without a known period share one set
    #[default]
    Iotide,
    /// Those of the IO-Sets report: shares in requests, order by id, each job without a known period in a set of its own
    Report,
}

impl From<RulesName> for Rules {
    fn from(name: RulesName) -> Self {
        match name {
            RulesName::Iotide => Self::Iotide,
            RulesName::Report => Self::Report,
        }
    }
}

fn parse_factor(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|factor| (1e-6..=1e6).contains(factor));
    factor.ok_or_else(|| "a factor is a number between 1e-6 and 1e6".to_owned())
}
