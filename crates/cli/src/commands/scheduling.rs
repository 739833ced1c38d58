//! What a mount and an arbiter are told alike: who is served when.

use std::path::PathBuf;

use iotide_sched::{Policy, UnknownJobs};

use super::ioskel::parse_seconds;

/// Who is served when, and how that is known.
#[derive(clap::Args, Debug)]
pub(super) struct SchedulingArgs {
    /// Who is served when
    #[arg(long, value_enum, default_value_t = PolicyName::Set10, value_name = "POLICY")]
    policy: PolicyName,
    /// How many data requests may be with the storage at once
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    workers: u16,
    /// A job that was idle for this long has ended its I/O phase, and the next of its set has its turn
    #[arg(long, default_value = "250ms", value_name = "TIME", value_parser = parse_seconds)]
    pub(super) phase_gap: f64,
    /// How long the storage waits for the next request of the job whose turn it is, before another of its set is served in between
    #[arg(long, alias = "lull", default_value = "20ms", value_name = "TIME", value_parser = parse_seconds)]
    pub(super) grace_period: f64,
    /// A job without a known period has its turn for at most this long while others of its set wait; with one, for half of it
    #[arg(long, default_value = "2s", value_name = "TIME", value_parser = parse_seconds)]
    pub(super) turn: f64,
    /// Judge periods as if they were so many times as long, in an experiment whose times were divided by that
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR", value_parser = parse_factor)]
    pub(super) time_scale: f64,
    /// Take periods from FILE rather than from what jobs do: lines job,seconds or {"job": seconds}; read again on change
    #[arg(long, value_name = "FILE")]
    pub(super) periods: Option<PathBuf>,
    /// Make a socket at PATH to see jobs ("jobs", `iotide sets show`) and say their periods ("period JOB SECONDS"), a line each
    #[arg(long, value_name = "PATH")]
    pub(super) control: Option<PathBuf>,
}

impl SchedulingArgs {
    pub(super) fn policy(&self) -> Policy {
        match self.policy {
            PolicyName::None => Policy::Unscheduled,
            PolicyName::FairShare => Policy::FairShare,
            PolicyName::Exclusive => Policy::Exclusive,
            PolicyName::Set10 => Policy::Set10(UnknownJobs::Together),
            PolicyName::Set10Report => Policy::Set10(UnknownJobs::Apart),
        }
    }

    /// Whether requests are served by the report's rules.
    pub(super) fn as_in_the_report(&self) -> bool {
        self.policy == PolicyName::Set10Report
    }

    pub(super) fn n_workers(&self) -> usize {
        usize::from(self.workers)
    }

    /// Whether periods are found from what jobs do.
    pub(super) fn predicts(&self) -> bool {
        self.periods.is_none()
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
    /// The same by the rules of the IO-Sets report: order by id, shares in requests, unknown jobs in sets of their own
    Set10Report,
}

fn parse_factor(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|factor| (1e-6..=1e6).contains(factor));
    factor.ok_or_else(|| "a factor is a number between 1e-6 and 1e6".to_owned())
}
