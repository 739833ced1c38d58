//! Facts that a source states of its run beside the events, and the parts of an answer they take back.

use iotide_trace::{JobInfo, Span, Tally, Timestamp};

use super::{Candidate, MOST_CANDIDATES, PeriodEstimate, Reason, Rhythm, Verdict};

/// Facts that a source states of its run beside the events.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StatedRun {
    /// How wide its bins are, if it tells volumes by bins of one width (heatmaps, samples of a monitor).
    pub bin_s: Option<f64>,
    /// How long the run took. Its clock counts from the start of the run.
    pub run_time_s: Option<f64>,
    /// The share of the bytes that it tells by file only, spread between a file's first and last access.
    pub by_file: f64,
    /// No rank moved data more than once: whatever their times, nobody repeated anything.
    pub one_call_per_rank: bool,
    /// How many requests moved data, if it tells requests.
    pub n_requests: u64,
    /// From the first to the last thing it tells, whatever that is.
    pub told_s: f64,
}

impl StatedRun {
    /// Returns the facts that a reader of events counted.
    pub fn of(tally: &Tally, job: &JobInfo) -> Self {
        Self {
            bin_s: tally.bin_width_s(),
            run_time_s: job.run_time_s,
            by_file: tally.share_by_file(),
            one_call_per_rank: tally.is_one_call_per_rank(),
            n_requests: tally.n_data(),
            told_s: tally.start.zip(tally.end).map_or(0.0, |(start, end)| end.secs_since(start)),
        }
    }

    /// Takes back what the source cannot bear out: a beat finer than its bins, one that a faster beat would show in its bins as well
    /// (`faster_s`), or that there is none where it tells of files alone.
    pub(crate) fn temper(&self, estimate: &mut PeriodEstimate, faster_s: &[f64]) {
        let too_fine = |bin_s: f64| {
            // Bins show a finer beat as one against theirs.
            estimate.candidates.iter().any(|candidate| candidate.period_s < LEAST_BINS * bin_s)
        };
        let single = self.n_requests > 0 && self.n_requests as f64 <= 1.5 * estimate.phases.len() as f64;
        let full_s = estimate.phases.iter().map(|phase| phase.end_s - phase.start_s).sum::<f64>();
        // Bins that are hardly ever empty show no phases, only how many of them fall into each: one, or none or two. (A level that swings by less is
        // none of that.)
        let is_full = estimate.rhythms.first().is_some_and(|rhythm| {
            rhythm.depth >= ONE_OR_TWO && full_s > 0.75 * rhythm.period_s * rhythm.phases.len() as f64
        });
        let is_loop = self.n_requests > 0
            && estimate.period_s.is_some_and(|period_s| {
                let fills = full_s > LOOP * period_s * estimate.phases.len() as f64;
                period_s < SHORTEST_BEAT_S || (single && fills)
            })
            || estimate.rhythms.first().is_some_and(|rhythm| self.is_momentary(rhythm));
        estimate.rhythms.retain(|rhythm| !self.is_momentary(rhythm));
        let reason = match estimate.verdict {
            Verdict::Periodic if is_loop && !self.one_call_per_rank => Some(Reason::Loop),
            Verdict::Periodic
                if self.bin_s.is_some_and(too_fine)
                    || (self.bin_s.is_some() && is_full)
                    || !faster_s.is_empty() =>
            {
                Some(Reason::TooCoarse)
            }
            Verdict::NotPeriodic | Verdict::Unclear if self.by_file > 0.5 => Some(Reason::TooCoarse),
            Verdict::NotPeriodic
                if self.bin_s.is_some_and(|bin_s| estimate.candidates.is_empty() || too_fine(bin_s)) =>
            {
                Some(Reason::TooCoarse)
            }
            _ if self.one_call_per_rank => Some(Reason::TooFewPhases),
            _ => return,
        };
        // No candidate is more probable than the answer leaves room for.
        let most = if reason == Some(Reason::Loop) {
            estimate.verdict = Verdict::NotPeriodic;
            1.0 - estimate.confidence
        } else {
            estimate.verdict = Verdict::Unclear;
            estimate.confidence = estimate.confidence.min(0.5);
            estimate.confidence
        };
        estimate.reason = reason;
        (estimate.period_s, estimate.refined_confidence, estimate.next_phase_s) = (None, None, None);
        estimate.rhythms.clear();
        estimate.phases.clear();
        for candidate in &mut estimate.candidates {
            candidate.confidence = candidate.confidence.min(most);
        }
        if reason == Some(Reason::TooCoarse) && !faster_s.is_empty() {
            add_possible(&mut estimate.candidates, faster_s, most);
        }
    }

    /// Whether a beat is that of requests which follow each other for a moment of the run: one phase, seen closely.
    fn is_momentary(&self, rhythm: &Rhythm) -> bool {
        let run_s = self.run_time_s.unwrap_or(0.0).max(self.told_s);
        rhythm.period_s < FAST_BEAT_S && rhythm.end_s - rhythm.start_s < MOMENT * run_s
    }

    /// From when to when the run went on, if it states its time and its data lie within.
    ///
    /// Data may reach beyond the end by a bin, for a bin is not cut where the run ends, or by a hundredth (and a second) because
    /// clocks differ: then the span holds them.
    pub(super) fn span(&self, data: Span) -> Option<Span> {
        let run_time_s = self.run_time_s?;
        let slack_s = (0.01 * run_time_s + 1.0).max(self.bin_s.unwrap_or(0.0));
        let (start, end) =
            (Timestamp::from_secs_since_start(0.0)?, Timestamp::from_secs_since_start(run_time_s)?);
        let fits = data.start.as_secs() >= -slack_s && data.end.as_secs() <= run_time_s + slack_s;
        fits.then(|| Span { start: start.min(data.start), end: end.max(data.end) })
    }
}

/// Adds faster periods to the best candidate, each as probable as that: they share what the answer leaves room for.
fn add_possible(candidates: &mut Vec<Candidate>, faster_s: &[f64], most: f64) {
    let confidence = most / (faster_s.len() + 1) as f64;
    candidates.retain(|known| faster_s.iter().all(|period_s| (known.period_s / period_s - 1.0).abs() > 0.05));
    for candidate in candidates.iter_mut() {
        candidate.confidence = candidate.confidence.min(confidence);
    }
    let faster = faster_s.iter().map(|&period_s| Candidate { period_s, confidence });
    let at = candidates.len().min(1);
    candidates.splice(at..at, faster);
    candidates.truncate(MOST_CANDIDATES);
}

/// Single requests that follow each other faster than this are a loop that writes, and no phases: a program cannot compute
/// between them. This and [`FAST_BEAT_S`] are the times in the engine's surroundings that are no ratios; it needs a source that
/// tells requests.
const SHORTEST_BEAT_S: f64 = 1e-5;

/// … and so are single requests that leave less than this of the time between them.
const LOOP: f64 = 0.7;

/// Beats that are slower than [`SHORTEST_BEAT_S`] but faster than this are a loop, too, where they hold for less than [`MOMENT`]
/// of the run: the gaps between their requests are of no use to anybody. (A whole run with so fast a beat has a period.)
const FAST_BEAT_S: f64 = 1e-3;
const MOMENT: f64 = 0.03;

/// How far the bandwidth of bins falls at least between those of two phases and those of one.
const ONE_OR_TWO: f64 = 0.4;

/// A beat of fewer bins than this cannot be distinguished from the beat of the bins against it.
pub(super) const LEAST_BINS: f64 = 3.0;
