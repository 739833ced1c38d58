//! Which stretch of a run the FTIO paper's method looks at, how finely, and whether the samples can be trusted.

use iotide_trace::{Span, StepSignal, Timestamp, shortest_step_s};

use super::stated::StatedRun;
use super::{DftConfig, PeriodEstimate, Reason, Verdict};

/// The paper's `Δt`: what was asked for, silence at its ends included. A side that was left open is that of the run, if it states
/// its time, or else that of the data.
///
/// With [`DftConfig::as_ftio`]: from the first change of bandwidth in there to the last, as FTIO 0.0.9 cuts.
pub(crate) fn window(
    signal: &StepSignal,
    (from_s, until_s): (Option<f64>, Option<f64>),
    stated: &StatedRun,
    config: &DftConfig,
) -> Option<Span> {
    let data = signal.span()?;
    let at = |secs: Option<f64>| secs.and_then(Timestamp::from_secs_since_start);
    if config.as_ftio {
        let start = at(from_s).map_or(data.start, |from| from.max(data.start));
        let end = at(until_s).map_or(data.end, |until| until.min(data.end));
        let times = signal.times();
        let first = times.partition_point(|&time| time < start);
        let last = times.partition_point(|&time| time <= end).checked_sub(1)?;
        let (start, end) = (*times.get(first)?, times[last]);
        return (start < end).then_some(Span { start, end });
    }
    let run = stated.span(data).unwrap_or(data);
    let (start, mut end) = (at(from_s).unwrap_or(run.start), at(until_s).unwrap_or(run.end));
    if let (Some(bin_s), None) = (stated.bin_s, until_s) {
        // The last bin is a whole sample, though the run ended within it.
        let n_bins = (end.secs_since(start) / bin_s - 1e-6).ceil();
        end = end.max(start.plus_nanos((n_bins * bin_s * 1e9).round() as i64));
    }
    (start < end).then_some(Span { start, end })
}

/// Sampling rate of FTIO if none is given.
const FTIO_RATE_HZ: f64 = 10.0;

/// Samples of an automatic rate: 32 MiB of them.
const MOST_SAMPLES: f64 = (1u64 << 22) as f64;

/// Below so many samples there is no spectrum to speak of: a window of less than two seconds is sampled more finely than at 10 Hz.
const LEAST_SAMPLES: f64 = 20.0;

/// The sampling rate where none was given: one sample a bin for a source of bins, in which nothing changes; else 10 Hz, as FTIO, or
/// with [`DftConfig::automatic_rate`] two samples for the shortest step, as far as memory goes.
pub(crate) fn rate_hz(signal: &StepSignal, window: Span, stated: &StatedRun, config: &DftConfig) -> f64 {
    let duration_s = window.duration_s();
    let finest = || {
        let shortest_s = shortest_step_s(signal, window).unwrap_or(duration_s);
        (2.0 / shortest_s).clamp(LEAST_SAMPLES / duration_s, MOST_SAMPLES / duration_s)
    };
    match stated.bin_s {
        Some(bin_s) if duration_s >= 2.0 * bin_s => 1.0 / bin_s,
        _ if config.automatic_rate => finest(),
        _ if duration_s * FTIO_RATE_HZ >= LEAST_SAMPLES => FTIO_RATE_HZ,
        _ => finest().max(FTIO_RATE_HZ),
    }
}

/// From here on the samples show another signal than the one that was measured.
const POOR: f64 = 0.5;

/// Withdraws an answer that rests on samples too far from the signal (`∫|x − xₙ|/V` above 0.5); the candidates stay.
///
/// The paper: "even if the approach had found a single period, the result cannot be trusted, as the abstraction error is just too large".
pub(crate) fn distrust_poor_samples(
    estimate: &mut PeriodEstimate,
    signal_error: Option<f64>,
    config: &DftConfig,
) {
    if config.as_ftio || signal_error.is_none_or(|error| error <= POOR) {
        return;
    }
    let PeriodEstimate { candidates, harmonics, autocorrelation, waves, .. } = std::mem::take(estimate);
    *estimate = PeriodEstimate {
        verdict: Verdict::Unclear,
        reason: Some(Reason::PoorSamples),
        candidates,
        harmonics,
        autocorrelation,
        waves,
        ..PeriodEstimate::default()
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: f64) -> Timestamp {
        Timestamp::from_secs_since_start(secs).unwrap()
    }

    /// Bursts of a second every five, from 2 s to 48 s.
    fn bursts() -> StepSignal {
        let (times, rates) = (0..10)
            .flat_map(|i| [(at(2.0 + 5.0 * f64::from(i)), 10.0), (at(3.0 + 5.0 * f64::from(i)), 0.0)])
            .unzip();
        StepSignal::new(times, rates)
    }

    fn sides(given: (Option<f64>, Option<f64>), stated: StatedRun, as_ftio: bool) -> (f64, f64) {
        let config = DftConfig { as_ftio, ..DftConfig::default() };
        let window = window(&bursts(), given, &stated, &config).unwrap();
        (window.start.as_secs(), window.end.as_secs())
    }

    #[test]
    fn a_window_is_what_was_given_with_the_silence_at_its_ends() {
        let given = (Some(0.5), Some(21.39));
        assert_eq!(sides(given, StatedRun::default(), false), (0.5, 21.39));
        assert_eq!(sides((Some(0.5), None), StatedRun::default(), false), (0.5, 48.0));
        assert_eq!(sides((None, Some(90.0)), StatedRun::default(), false), (2.0, 90.0));
        assert_eq!(sides((Some(4.0), Some(20.0)), StatedRun::default(), true), (7.0, 18.0)); // FTIO's cut
    }

    #[test]
    fn without_a_window_it_is_the_run_if_its_time_is_stated() {
        let stated = |run_time_s| StatedRun { run_time_s: Some(run_time_s), ..StatedRun::default() };
        assert_eq!(sides((None, None), stated(60.0), false), (0.0, 60.0));
        assert_eq!(sides((None, None), stated(47.5), false), (0.0, 48.0)); // clocks differ a little
        assert_eq!(sides((None, None), stated(10.0), false), (2.0, 48.0)); // the clock is another one
        assert_eq!(sides((None, None), StatedRun::default(), false), (2.0, 48.0));
        assert_eq!(sides((None, None), stated(60.0), true), (2.0, 48.0));
    }

    #[test]
    fn bins_set_the_rate_and_an_automatic_one_shows_the_shortest_step() {
        let (signal, window) = (bursts(), bursts().span().unwrap());
        let rate = |stated, config| rate_hz(&signal, window, &stated, &config);
        let bins = StatedRun { bin_s: Some(0.5), ..StatedRun::default() };
        let automatic = DftConfig { automatic_rate: true, ..DftConfig::default() };
        assert_eq!(rate(StatedRun::default(), DftConfig::default()), 10.0);
        assert_eq!(rate(bins, DftConfig::default()), 2.0);
        assert_eq!(rate(bins, automatic.clone()), 2.0);
        assert_eq!(rate(StatedRun::default(), automatic), 2.0);
    }

    #[test]
    fn a_step_of_a_nanosecond_is_bounded_by_memory() {
        let nanos = Timestamp::from_nanos_since_start;
        let signal = StepSignal::new(vec![nanos(0), nanos(1), nanos(60_000_000_000)], vec![1e9, 5.0, 0.0]);
        let automatic = DftConfig { automatic_rate: true, ..DftConfig::default() };
        let rate = rate_hz(&signal, signal.span().unwrap(), &StatedRun::default(), &automatic);
        assert!((rate * 60.0 / MOST_SAMPLES - 1.0).abs() < 1e-9, "{rate}");
    }

    #[test]
    fn samples_far_from_the_signal_leave_the_verdict_unclear() {
        let found = || PeriodEstimate {
            verdict: Verdict::Periodic,
            period_s: Some(5.0),
            confidence: 0.9,
            candidates: vec![super::super::Candidate { period_s: 5.0, confidence: 0.9 }],
            ..PeriodEstimate::default()
        };
        let judged = |error, as_ftio| {
            let mut estimate = found();
            distrust_poor_samples(&mut estimate, error, &DftConfig { as_ftio, ..DftConfig::default() });
            estimate
        };
        assert_eq!(judged(Some(0.5), false), found());
        assert_eq!(judged(None, false), found());
        assert_eq!(judged(Some(0.9), true), found());
        let unclear = judged(Some(0.51), false);
        assert_eq!((unclear.verdict, unclear.reason), (Verdict::Unclear, Some(Reason::PoorSamples)));
        assert_eq!((unclear.period_s, unclear.candidates.len()), (None, 1));
    }
}
