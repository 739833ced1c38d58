//! From the bandwidths of a run to its rhythm: which direction, which window, which sampling rate.

use iotide_trace::{
    Direction, SampledSignal, Sampling, SamplingError, SamplingKind, Span, StepSignal, Timestamp,
    abstraction_error, automatic_rate_hz, sample, signal_error,
};

use crate::period::{add_waves, dft_run, rhythms_of};
use crate::{
    Method, PeriodConfig, PeriodError, PeriodEstimate, Scores, StatedRun, Wave, detect_period, reconstruct,
    score_above,
};

/// Returns the rhythm of a run's reads or writes.
///
/// Without a stated direction the one that moves more bytes in the window is looked at (writes on a tie). If that is
/// not periodic and the other one is, the answer is the other one.
pub fn analyse_run(
    reads: &StepSignal,
    writes: &StepSignal,
    config: &RunConfig,
) -> Result<RunAnalysis, RunError> {
    if let Some(direction) = config.direction {
        let both;
        let signal = match direction {
            Direction::Read => reads,
            Direction::Write => writes,
            Direction::Both => {
                both = reads.plus(writes);
                &both
            }
        };
        return analyse_signal(signal, direction, config);
    }
    let volume =
        |signal: &StepSignal| window_of(signal, config).map_or(0.0, |window| signal.volume_in(window));
    let (volume_read, volume_written) = (volume(reads), volume(writes));
    let read = (reads, Direction::Read, volume_read);
    let written = (writes, Direction::Write, volume_written);
    // Rounding does not decide.
    let (more, less) =
        if volume_read > volume_written * (1.0 + 1e-9) { (read, written) } else { (written, read) };
    let first = analyse_signal(more.0, more.1, config);
    if less.2 > 0.0
        && !first.as_ref().is_ok_and(RunAnalysis::is_periodic)
        && let Ok(second) = analyse_signal(less.0, less.1, config)
        && second.is_periodic()
    {
        return Ok(second);
    }
    match first {
        // Neither direction moves a byte: that says more than that one of them does not.
        Err(RunError::NothingMoved { .. }) => Err(RunError::NothingMoved { direction: Direction::Both }),
        first => first,
    }
}

/// How to look at a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunConfig {
    /// How to look for a period.
    pub period: PeriodConfig,
    /// Which bytes count; `None` chooses.
    pub direction: Option<Direction>,
    /// Samples per second; `None` chooses (for [`Method::Dft`]: one a bin, or FTIO's 10 Hz).
    pub rate_hz: Option<f64>,
    /// Meaning of a sample.
    pub sampling: SamplingKind,
    /// Look at nothing before this moment on the trace's clock.
    pub from_s: Option<f64>,
    /// Look at nothing after this moment.
    pub until_s: Option<f64>,
    /// Begin at the second phase: many programs read their input or write a first state in another rhythm.
    pub skip_first_phase: bool,
    /// Facts that the source states of the run.
    pub stated: StatedRun,
}

/// Results of the analysis of a run's signal.
#[derive(Clone, Debug, PartialEq)]
pub struct RunAnalysis {
    /// Which bytes were looked at.
    pub direction: Direction,
    /// The stretch that was looked at.
    pub window: Span,
    /// The signal that was looked at.
    pub signal: SampledSignal,
    /// How much of the window's volume the samples misstate.
    pub abstraction_error: Option<f64>,
    /// How far the samples lie from the signal: `∫|x − xₙ|/V`.
    pub signal_error: Option<f64>,
    /// The period, or that there is none.
    pub estimate: PeriodEstimate,
    /// How evenly the periods resemble each other.
    pub scores: Scores,
    /// How badly the estimate's waves alone draw the signal; see [`reconstruction_error`].
    pub reconstruction_error: Option<f64>,
}

impl RunAnalysis {
    /// Whether a period was found.
    pub fn is_periodic(&self) -> bool {
        self.estimate.period_s.is_some()
    }
}

/// Why a run has no answer.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// There are no bytes to look at.
    #[error("no bytes were {}", match direction {
        Direction::Read => "read",
        Direction::Write => "written",
        Direction::Both => "read or written",
    })]
    NothingMoved {
        /// Which bytes were looked for.
        direction: Direction,
    },
    /// There are bytes, but not in the window.
    #[error("nothing happens between {from_s} s and {until_s} s")]
    EmptyWindow {
        /// Where the window begins.
        from_s: f64,
        /// Where it ends.
        until_s: f64,
    },
    /// There is no second phase to begin at.
    #[error("there is nothing after the first phase")]
    OnePhase,
    /// The window cannot be sampled.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// The samples have no period to speak of.
    #[error(transparent)]
    Period(#[from] PeriodError),
}

impl RunError {
    /// Whether there is too little to say anything, rather than something wrong.
    pub fn is_lack_of_data(self) -> bool {
        matches!(
            self,
            Self::NothingMoved { .. }
                | Self::EmptyWindow { .. }
                | Self::OnePhase
                | Self::Sampling(SamplingError::TooShort { .. })
        )
    }
}

/// Returns `√(Σ (x − x̂)² / Σ (x − x̄)²)`, where `x̂` is the mean plus the waves: 0 if they draw the signal exactly, 1 if
/// they are no better than its mean.
///
/// `None` without waves beside the mean, or if the signal is constant.
pub fn reconstruction_error(signal: &SampledSignal, waves: &[Wave]) -> Option<f64> {
    let x = &signal.values[..signal.n_whole()];
    let swings: Vec<Wave> = waves.iter().copied().filter(|wave| wave.frequency_hz > 0.0).collect();
    if swings.is_empty() || x.is_empty() {
        return None;
    }
    let mean = iotide_num::mean(x);
    let drawn = reconstruct(&swings, signal);
    let spread: f64 = x.iter().map(|value| (value - mean).powi(2)).sum();
    let missed: f64 = x.iter().zip(&drawn).map(|(value, drawn)| (value - mean - drawn).powi(2)).sum();
    (spread > 0.0).then(|| (missed / spread).sqrt())
}

fn analyse_signal(
    signal: &StepSignal,
    direction: Direction,
    config: &RunConfig,
) -> Result<RunAnalysis, RunError> {
    let span = signal.span().ok_or(RunError::NothingMoved { direction })?;
    let window = window_of(signal, config).filter(|&window| signal.volume_in(window) > 0.0);
    let window = window.ok_or(RunError::EmptyWindow {
        from_s: config.from_s.unwrap_or(span.start.as_secs()),
        until_s: config.until_s.unwrap_or(span.end.as_secs()),
    })?;
    let whole = analyse_window(signal, direction, window, config)?;
    if !config.skip_first_phase {
        return Ok(whole);
    }
    let start = second_phase(&whole).ok_or(RunError::OnePhase)?;
    analyse_window(signal, direction, Span { start, ..window }, config)
}

fn analyse_window(
    signal: &StepSignal,
    direction: Direction,
    window: Span,
    config: &RunConfig,
) -> Result<RunAnalysis, RunError> {
    let dft = &config.period.dft;
    let rate_hz = config.rate_hz.unwrap_or_else(|| match config.period.method {
        Method::Dft => dft_run::rate_hz(signal, window, &config.stated, dft),
        Method::Auto => automatic_rate_hz(signal, window),
    });
    let sampled = sample(signal, window, Sampling { rate_hz, kind: config.sampling })?;
    let mut estimate = match config.period.method {
        // The engine looks at the steps themselves: no grid, no grid's artefacts.
        Method::Auto => {
            let mut estimate = rhythms_of(signal, window, &config.stated);
            add_waves(&mut estimate, &sampled, dft);
            estimate
        }
        Method::Dft => detect_period(&sampled, &config.period)?,
    };
    let signal_error = signal_error(signal, window, &sampled);
    if config.period.method == Method::Dft {
        dft_run::distrust_poor_samples(&mut estimate, signal_error, dft);
    }
    let scores = score_above(&sampled, estimate.period_s, dft.substantial_bps);
    Ok(RunAnalysis {
        direction,
        window,
        abstraction_error: abstraction_error(signal, window, &sampled),
        signal_error,
        scores: match config.period.method {
            Method::Auto => scores.of_phases(&estimate.phases),
            // The paper's method comes with the paper's scores.
            Method::Dft => scores,
        },
        reconstruction_error: reconstruction_error(&sampled, &estimate.waves),
        estimate,
        signal: sampled,
    })
}

/// The stretch to look at: what was asked for, as far as there is a signal; for [`Method::Dft`] see [`dft_run::window`].
fn window_of(signal: &StepSignal, config: &RunConfig) -> Option<Span> {
    if config.period.method == Method::Dft {
        return dft_run::window(signal, (config.from_s, config.until_s), &config.stated, &config.period.dft);
    }
    let span = signal.span()?;
    let at = |secs: Option<f64>| secs.and_then(Timestamp::from_secs_since_start);
    let start = at(config.from_s).map_or(span.start, |from| from.max(span.start));
    let end = at(config.until_s).map_or(span.end, |until| until.min(span.end));
    (start < end).then_some(Span { start, end })
}

/// When the second phase begins: as the method told them apart, or else where the bandwidth rises above its mean for
/// the second time.
fn second_phase(run: &RunAnalysis) -> Option<Timestamp> {
    if let [_, second, ..] = run.estimate.phases.as_slice() {
        return Timestamp::from_secs_since_start(second.start_s);
    }
    let values = &run.signal.values;
    let mean = iotide_num::mean(values);
    let rises =
        (0..values.len()).filter(|&i| values[i] > mean && (i == 0 || values[i - 1] <= mean)).nth(1)?;
    Timestamp::from_secs_since_start(run.signal.time_s(rises))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bursts of 1 s at 10 B/s, every `period_s` from `start_s` on.
    fn bursts(n: usize, start_s: f64, period_s: f64) -> StepSignal {
        let at = |secs| Timestamp::from_secs_since_start(secs).unwrap();
        let (times, rates) = (0..n)
            .map(|i| start_s + i as f64 * period_s)
            .flat_map(|burst_s| [(at(burst_s), 10.0), (at(burst_s + 1.0), 0.0)])
            .unzip();
        StepSignal::new(times, rates)
    }

    fn analyse(reads: &StepSignal, writes: &StepSignal, config: RunConfig) -> Result<RunAnalysis, RunError> {
        analyse_run(reads, writes, &config)
    }

    #[test]
    fn the_direction_that_moves_more_bytes_is_looked_at_and_writes_on_a_tie() {
        let (few, many) = (bursts(2, 0.0, 5.0), bursts(3, 0.0, 5.0));
        let none = StepSignal::default();
        let looked_at = |reads, writes| analyse(reads, writes, RunConfig::default()).unwrap().direction;
        assert_eq!(looked_at(&few, &few), Direction::Write);
        assert_eq!(looked_at(&few, &none), Direction::Read);
        assert_eq!(looked_at(&none, &many), Direction::Write);
    }

    #[test]
    fn a_window_is_cut_to_where_there_is_a_signal() {
        let writes = bursts(10, 2.0, 5.0);
        let config = RunConfig { from_s: Some(0.0), until_s: Some(20.0), ..RunConfig::default() };
        let run = analyse(&StepSignal::default(), &writes, config).unwrap();
        assert_eq!((run.window.start.as_secs(), run.window.end.as_secs()), (2.0, 20.0));
    }

    #[test]
    fn the_method_of_the_paper_looks_at_the_window_as_given_and_samples_as_ftio_does() {
        let period = PeriodConfig { method: Method::Dft, ..PeriodConfig::default() };
        let config = RunConfig { from_s: Some(4.0), until_s: Some(20.0), period, ..RunConfig::default() };
        let run = analyse(&StepSignal::default(), &bursts(10, 2.0, 5.0), config).unwrap();
        assert_eq!((run.window.start.as_secs(), run.window.end.as_secs()), (4.0, 20.0));
        assert_eq!(run.signal.rate_hz, 10.0);
        assert!(run.signal_error.unwrap() < 1e-9);
    }

    #[test]
    fn what_has_no_answer_says_why() {
        let (none, writes) = (StepSignal::default(), bursts(10, 2.0, 5.0));
        let says = |reads: &StepSignal, writes: &StepSignal, config: RunConfig| {
            let error = analyse(reads, writes, config).unwrap_err();
            (error.to_string(), error.is_lack_of_data())
        };
        let window = RunConfig { from_s: Some(90.0), until_s: Some(99.0), ..RunConfig::default() };
        let reads = RunConfig { direction: Some(Direction::Read), ..RunConfig::default() };
        let fast = RunConfig { rate_hz: Some(1e9), ..RunConfig::default() };
        let skip = RunConfig { skip_first_phase: true, ..RunConfig::default() };
        assert_eq!(says(&none, &none, RunConfig::default()), ("no bytes were read or written".into(), true));
        assert_eq!(says(&none, &writes, reads), ("no bytes were read".into(), true));
        assert_eq!(says(&none, &writes, window), ("nothing happens between 90 s and 99 s".into(), true));
        assert_eq!(
            says(&none, &bursts(1, 0.0, 1.0), skip),
            ("there is nothing after the first phase".into(), true)
        );
        assert!(!says(&none, &writes, fast).1);
    }

    #[test]
    fn the_first_phase_can_be_left_out() {
        let config = RunConfig { skip_first_phase: true, rate_hz: Some(10.0), ..RunConfig::default() };
        let run = analyse(&StepSignal::default(), &bursts(10, 2.0, 5.0), config).unwrap();
        assert!((run.window.start.as_secs() - 7.0).abs() < 0.2, "{:?}", run.window);
    }

    #[test]
    fn waves_that_draw_the_signal_leave_nothing_to_explain() {
        let values: Vec<f64> =
            (0..100).map(|i| 5.0 + 2.0 * (std::f64::consts::TAU * f64::from(i) / 20.0 + 0.3).cos()).collect();
        let signal = SampledSignal { start_s: 7.0, rate_hz: 1.0, values, duration_s: 100.0 };
        let wave = Wave { frequency_hz: 0.05, amplitude_bps: 2.0, phase_rad: 0.3, power_share: 1.0 };
        assert!(reconstruction_error(&signal, &[wave]).unwrap() < 1e-9);
        assert_eq!(reconstruction_error(&signal, &[]), None);
        let silent = Wave { amplitude_bps: 0.0, ..wave };
        assert!((reconstruction_error(&signal, &[silent]).unwrap() - 1.0).abs() < 1e-9);
    }
}
