//! The job card: what one asks of a run first.

use iotide_analysis::Verdict;
use iotide_look::{Untrusted, text};
use iotide_trace::{ActivitySums, Layer, LayerSpeed, Rank};
use serde::Serialize;

use crate::Run;
use crate::activity::layer_name;
use crate::run::whole_bytes;

/// Main facts of a run. Facts that the source does not state are absent.
#[derive(Clone, Debug, Serialize)]
pub struct JobCard {
    /// The program, without its directory and its arguments.
    pub program: Option<Untrusted>,
    /// The command as the source has it.
    pub command: Option<Untrusted>,
    /// Who ran it.
    pub user: Option<Untrusted>,
    /// The scheduler's name for the job.
    pub job: Option<Untrusted>,
    /// When it began, in seconds since the Unix epoch.
    pub started_unix_s: Option<f64>,
    /// The number of processes.
    pub ranks: Option<u64>,
    /// The word for one of them.
    #[serde(skip)]
    pub noun: &'static str,
    /// The number of nodes it was seen on.
    pub nodes: Option<u64>,
    /// How long it ran: as the source states, else from the first event to the last.
    pub run_time_s: Option<f64>,
    /// Time in I/O calls as a share of ranks × run time.
    pub io_time_share: Option<f64>,
    /// All bytes read.
    #[serde(serialize_with = "whole_bytes")]
    pub bytes_read: f64,
    /// All bytes written.
    #[serde(serialize_with = "whole_bytes")]
    pub bytes_written: f64,
    /// Bytes moved over the wall time in which at least one process was reading or writing.
    pub bandwidth_bps: Option<f64>,
    /// Estimates by the slowest rank of each layer, that with most bytes first.
    pub bandwidths: Vec<Bandwidth>,
    /// Who took longest.
    pub slowest_rank: Option<SlowRank>,
    /// The issue with the largest gain, else why there is none.
    pub top_issue: Option<String>,
    /// Its labels.
    pub labels: Vec<&'static str>,
    /// Whether there is a rhythm; absent if nothing was analysed.
    pub verdict: Option<Verdict>,
    /// The period, if there is one.
    pub period_s: Option<f64>,
    /// The answer in one sentence.
    pub rhythm: String,
}

/// Bytes of a layer over the time of its slowest rank, as PyDarshan estimates the performance of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Bandwidth {
    /// The software layer, `None` if the source does not say.
    pub layer: Option<&'static str>,
    /// Bytes per second.
    pub bps: f64,
    /// Bytes read and written.
    #[serde(serialize_with = "whole_bytes")]
    pub bytes: f64,
    /// The time of the slowest rank: with files of its own, and with each file that ranks share that of its slowest.
    pub slowest_s: f64,
}

/// The rank that took longest.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SlowRank {
    /// The rank.
    pub rank: i64,
    /// Its time in I/O calls.
    pub seconds: f64,
    /// The median of the others, or the time of the fastest on the file they share.
    pub others_s: Option<f64>,
}

impl JobCard {
    /// How the bandwidth was made.
    pub const BANDWIDTH: &'static str = "Bytes read and written, divided by the wall time in which at least one process was reading or writing.";
    /// How the estimate by the slowest rank was made.
    pub const HOW: &'static str = "Bytes read and written, divided by the time that the slowest rank spent in I/O calls (reads, writes and metadata); \
                                   for a file that several ranks use, the time of its slowest rank. PyDarshan estimates performance the same way.";

    /// Returns the card of a run.
    pub fn new(run: &Run, sums: &ActivitySums) -> Self {
        let source = &run.source;
        let job = &source.job;
        let seen_s = || Some(source.end_s? - source.start_s?).filter(|seconds| *seconds > 0.0);
        Self {
            program: job.exe.as_ref().and_then(program_of),
            command: job.exe.clone(),
            user: job.user.clone(),
            job: job.jobid.clone(),
            started_unix_s: job.start_time.filter(|&start| start > 0.0),
            ranks: job.nprocs.or(source.n_ranks),
            noun: source.process_noun(),
            nodes: job.nodes,
            run_time_s: job.run_time_s.or_else(seen_s),
            io_time_share: run.activity.as_ref().and_then(|activity| activity.io_time_share()),
            bytes_read: source.bytes_read,
            bytes_written: source.bytes_written,
            bandwidth_bps: source.bandwidth_bps,
            bandwidths: bandwidths(&sums.speeds),
            slowest_rank: slowest(sums),
            top_issue: run.issues.as_ref().map(|issues| {
                issues.top().map_or_else(|| issues.issues_reason.clone(), |issue| issue.text.clone())
            }),
            labels: run.categories.clone().unwrap_or_default(),
            verdict: run.period.verdict,
            period_s: run.period.period_s,
            rhythm: run.headline(),
        }
    }

    /// Names and sentences for the terminal: what the rest of the report does not say.
    pub(crate) fn in_words(&self) -> Vec<(&'static str, String)> {
        let mut rows = Vec::new();
        if let Some(seconds) = self.run_time_s {
            let nodes = self.nodes.map_or(String::new(), |n| format!(" on {}", text::counted(n, "node")));
            let ranks = self.ranks.map_or(String::new(), |n| format!(", {}", text::counted(n, self.noun)));
            let share = self.io_time_share.map_or(String::new(), |share| {
                format!(", {} of the {} time in I/O", text::percent(share), self.noun)
            });
            rows.push(("run", format!("{}{ranks}{nodes}{share}", text::seconds(seconds))));
        }
        rows.extend(self.bandwidth_bps.map(|bps| {
            ("bandwidth", format!("{} while at least one process reads or writes", text::bandwidth(bps)))
        }));
        if !self.bandwidths.is_empty() {
            let each: Vec<String> = (self.bandwidths.iter())
                .map(|Bandwidth { layer, bps, .. }| {
                    let layer = layer.map_or(String::new(), |layer| format!(" ({layer})"));
                    format!("{}{layer}", text::bandwidth(*bps))
                })
                .collect();
            rows.push(("estimate", format!("{} by the slowest rank", each.join(", "))));
        }
        rows.extend(self.slowest_rank.map(|slowest| ("slowest rank", slowest.in_words())));
        rows
    }
}

impl SlowRank {
    /// Who took how long, in words.
    pub fn in_words(&self) -> String {
        let others = match self.others_s {
            Some(others_s) if others_s > 0.0 => {
                format!(", {} for the others in the middle", text::seconds(others_s))
            }
            _ => String::new(),
        };
        format!("{} with {} in I/O calls{others}", self.rank, text::seconds(self.seconds))
    }
}

/// The name of the program in a command line.
fn program_of(command: &Untrusted) -> Option<Untrusted> {
    let first = command.as_said().split_whitespace().next()?;
    let name = first.rsplit('/').next().filter(|name| !name.is_empty())?;
    Some(Untrusted::from(name))
}

fn bandwidths(speeds: &[LayerSpeed]) -> Vec<Bandwidth> {
    let mut bandwidths: Vec<Bandwidth> = (speeds.iter())
        .filter_map(|LayerSpeed { layer, slowest }| {
            Some(Bandwidth {
                layer: layer_name(*layer),
                bps: slowest.bps()?,
                bytes: slowest.bytes,
                slowest_s: slowest.own_s + slowest.shared_s,
            })
        })
        .collect();
    bandwidths.sort_by(|a, b| b.bytes.total_cmp(&a.bytes));
    bandwidths
}

/// The rank that took longest in calls of its own; else the slowest on a file that ranks share.
fn slowest(sums: &ActivitySums) -> Option<SlowRank> {
    let own = sums.rank_times.filter(|times| times.n_ranks > 1 && times.slowest != Rank::ALL).map(|times| {
        let others_s = (times.n_peers > 0).then_some(times.peers_s);
        SlowRank { rank: times.slowest.0.into(), seconds: times.slowest_s, others_s }
    });
    // A rank that has more to do takes longer, and one that leaves its bytes to an aggregator is no measure.
    let shared = (sums.records.iter()).filter(|record| record.layer != Layer::MpiIo).filter_map(|record| {
        let (slowest, fastest) = (record.slowest?, record.fastest?);
        let is_measure = fastest.bytes > 0.0 && 2.0 * fastest.bytes >= slowest.bytes;
        let others_s = Some(fastest.seconds);
        let slow = SlowRank { rank: slowest.rank.0.into(), seconds: slowest.seconds, others_s };
        (is_measure && slowest.rank != Rank::ALL).then_some((slow, slowest.seconds - fastest.seconds))
    });
    let shared = shared.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(slow, _)| slow);
    match (own, shared) {
        (Some(own), Some(shared)) if shared.seconds > own.seconds => Some(shared),
        (own, shared) => own.or(shared),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::busy;

    #[test]
    fn a_card_says_who_how_long_and_how_fast() {
        let mut run = busy();
        run.source.job.exe = Some("/opt/bin/solver -i in.nc".into());
        let (run, sums) = (run, crate::samples::busy_sums());
        let card = JobCard::new(&run, &sums);
        assert_eq!(card.program.as_ref().map(Untrusted::as_said), Some("solver"));
        // 64 MiB by POSIX; each rank was in its calls for 4.25 s.
        let posix = &card.bandwidths[0];
        assert_eq!((posix.layer, posix.bytes, posix.slowest_s), (Some("POSIX"), 67_108_864.0, 4.25));
        assert_eq!(posix.bps, 67_108_864.0 / 4.25);
        assert!((card.io_time_share.unwrap() - 19.0 / 80.0).abs() < 1e-12);
        assert_eq!(card.slowest_rank.map(|slowest| slowest.rank), Some(0));
    }
}
