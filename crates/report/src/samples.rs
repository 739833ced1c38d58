//! Findings made by hand, so that what is said of them can be checked without finding anything.

use iotide_analysis::{
    AutocorrelationEstimate, Candidate, PeriodEstimate, Phase, Rhythm, RunAnalysis, RunConfig, RunError,
    Scores, Verdict, Wave,
};
use iotide_trace::{
    Activity, ActivitySums, Direction, Event, EventSink, FileId, Grain, JobInfo, Layer, Loss, Op, Rank,
    SampledSignal, Span, Tally, Timeline, Timestamp, TraceInfo,
};

use crate::{Run, Source};

/// Ten bursts of 1 s and 2 GB, every 5 s.
pub(crate) fn periodic() -> (RunAnalysis, Run) {
    let analysis = bursts_from(0.0);
    let run = told("run.csv", &analysis);
    (analysis, run)
}

/// The same on a clock that counts from 1970.
pub(crate) fn since_1970() -> RunAnalysis {
    bursts_from(1.7e9)
}

/// The same signal, not believed.
pub(crate) fn aperiodic() -> (RunAnalysis, Run) {
    let mut analysis = bursts_from(0.0);
    analysis.estimate = PeriodEstimate {
        verdict: Verdict::NotPeriodic,
        confidence: 0.88,
        candidates: vec![Candidate { period_s: 12.5, confidence: 0.04 }],
        ..PeriodEstimate::default()
    };
    analysis.scores = Scores { io_time_ratio: Some(0.2), io_bandwidth_bps: Some(2e9), ..Scores::default() };
    analysis.reconstruction_error = None;
    let run = told("noise.csv", &analysis);
    (analysis, run)
}

/// Two rhythms at once.
pub(crate) fn two_rhythms() -> (RunAnalysis, Run) {
    let mut analysis = bursts_from(0.0);
    analysis.estimate.rhythms.push(rhythm(0.75, 0.0, 60, 2e7, 0.9));
    let run = told("two.csv", &analysis);
    (analysis, run)
}

/// A trace that moves nothing and lost something.
pub(crate) fn silent() -> Run {
    let why = RunError::NothingMoved { direction: Direction::Both };
    let source = Source::new("silent.csv", "csv", &Tally::default(), &JobInfo::default());
    Run::not_analysed(
        source,
        &[Loss::of_records(3, "line 7: the file ends within a record")],
        &RunConfig::default(),
        &why,
    )
}

/// A day at 10 Hz.
pub(crate) fn long() -> RunAnalysis {
    let values: Vec<f64> = (0..864_000u32).map(|i| f64::from(i.wrapping_mul(2_654_435_761) >> 8)).collect();
    let mut analysis = bursts_from(0.0);
    analysis.estimate.phases = (0..17_280)
        .map(|i| Phase { start_s: f64::from(i) * 5.0, end_s: f64::from(i) * 5.0 + 1.0, bytes: 1e9 })
        .collect();
    analysis.estimate.rhythms = vec![rhythm(5.0, 0.0, 17_280, 1e9, 0.99)];
    analysis.window = span(0.0, 86_400.0);
    analysis.signal = SampledSignal { start_s: 0.0, rate_hz: 10.0, values, duration_s: 86_400.0 };
    analysis
}

/// Four ranks that open a file each, write it in calls of 1 MiB, and read one they share.
pub(crate) fn busy_sums() -> ActivitySums {
    let mut activity = Activity::new();
    let mut push = |op: Op, layer: Layer, file: u32, rank: i32, start_s: f64, length_s: f64, bytes: f64| {
        let Span { start, end } = span(start_s, start_s + length_s);
        let _ = activity.event(Event {
            layer,
            file: FileId(file),
            ..Event::data(op, Rank(rank), start, end, bytes)
        });
    };
    for rank in 0..4 {
        let (file, at_s) = (rank as u32 + 1, f64::from(rank) * 0.5);
        push(Op::Open, Layer::Posix, file, rank, at_s, 0.125, 0.0);
        for i in 0..16 {
            push(Op::Write, Layer::Posix, file, rank, at_s + 1.0 + f64::from(i) * 0.25, 0.25, 1_048_576.0);
        }
        push(Op::Close, Layer::Posix, file, rank, at_s + 6.0, 0.125, 0.0);
        push(Op::Read, Layer::Stdio, 0, rank, 8.0, 0.5, 100.0);
    }
    let _ = activity.event(Event {
        grain: Grain::Record,
        calls: 10,
        file: FileId(0),
        ..Event::data(Op::Read, Rank::ALL, span(8.0, 9.0).start, span(8.0, 9.0).end, 40_960.0)
    });
    let mut files = vec!["/scratch/input.nc".to_owned()];
    files.extend((0..4).map(|rank| format!("/scratch/out.{rank}")));
    activity.finish(&TraceInfo { files, ..TraceInfo::default() })
}

/// A run that did that.
pub(crate) fn busy() -> Run {
    let sums = busy_sums();
    let job = JobInfo { n_procs: Some(8), run_time_s: Some(10.0), ..JobInfo::default() };
    let source = Source::new("busy.csv", "csv", &Tally::default(), &job);
    let why = RunError::NothingMoved { direction: Direction::Both };
    Run::not_analysed(source, &[], &RunConfig::default(), &why)
        .with_activity(&sums)
        .with_patterns(&sums, &job)
}

/// A run of so many events by so many ranks on so many files, in an order and of sizes that repeat nowhere.
pub(crate) fn crowded(n_events: u32, n_ranks: u32, n_files: u32) -> Run {
    let mut seen = (Activity::new(), Timeline::default());
    for i in 0..n_events {
        let dice = u64::from(i).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let start = Timestamp::from_nanos_since_start((dice % 3_600_000_000_000) as i64);
        let op = if dice & (1 << 40) == 0 { Op::Read } else { Op::Write };
        let rank = Rank((dice >> 16) as i32 & i32::MAX).0 % n_ranks as i32;
        let bytes = 2f64.powi((dice >> 45) as i32 % 31) * 1.5;
        let event = Event::data(op, Rank(rank), start, start.plus_nanos(1_000_000), bytes);
        let _ = seen.event(Event { file: FileId(i % n_files), ..event });
    }
    let (activity, timeline) = seen;
    let files =
        (0..n_files).map(|i| format!("/scratch/project/run/\"output\"/step-{i:06}/data.bin")).collect();
    let sums = activity.finish(&TraceInfo { files, ..TraceInfo::default() });
    let source = Source::new("crowd.csv", "csv", &Tally::default(), &JobInfo::default());
    let why = RunError::NothingMoved { direction: Direction::Both };
    Run::not_analysed(source, &[], &RunConfig::default(), &why)
        .with_activity(&sums)
        .with_patterns(&sums, &JobInfo::default())
        .with_timeline(timeline.finish().map(crate::Timeline::from))
}

/// A rhythm of `n` phases, each a fifth of the beat long.
pub(crate) fn rhythm(period_s: f64, start_s: f64, n: usize, bytes: f64, confidence: f64) -> Rhythm {
    let phases: Vec<Phase> = (0..n)
        .map(|i| start_s + i as f64 * period_s)
        .map(|start_s| Phase { start_s, end_s: start_s + 0.2 * period_s, bytes })
        .collect();
    Rhythm {
        period_s,
        mean_distance_s: period_s,
        spread: 0.0,
        missed: 0,
        bytes: bytes * n as f64,
        start_s,
        end_s: phases[n - 1].end_s,
        confidence,
        phases,
    }
}

fn bursts_from(start_s: f64) -> RunAnalysis {
    let values = (0..460).map(|i| if i % 50 < 10 { 2e9 } else { 0.0 }).collect();
    RunAnalysis {
        direction: Direction::Write,
        window: span(start_s, start_s + 46.0),
        signal: SampledSignal { start_s, rate_hz: 10.0, values, duration_s: 46.0 },
        abstraction_error: Some(0.0),
        signal_error: Some(0.0),
        estimate: PeriodEstimate {
            verdict: Verdict::Periodic,
            reason: None,
            period_s: Some(5.0),
            confidence: 0.93,
            candidates: vec![
                Candidate { period_s: 5.0, confidence: 0.93 },
                Candidate { period_s: 2.5, confidence: 0.04 },
            ],
            rhythms: vec![rhythm(5.0, start_s, 10, 2e9, 0.93)],
            autocorrelation: Some(AutocorrelationEstimate {
                period_s: 5.0,
                confidence: 0.99,
                candidates_s: vec![5.0, 5.0],
            }),
            refined_confidence: Some(0.95),
            next_phase_s: Some(start_s + 50.0),
            phases: (0..10)
                .map(|i| start_s + f64::from(i) * 5.0)
                .map(|start_s| Phase { start_s, end_s: start_s + 1.0, bytes: 2e9 })
                .collect(),
            waves: vec![Wave { frequency_hz: 0.2, amplitude_bps: 7.5e8, phase_rad: -0.6, power_share: 0.4 }],
            ..PeriodEstimate::default()
        },
        scores: Scores {
            sigma_vol: Some(0.01),
            sigma_time: Some(0.02),
            periodicity: Some(0.97),
            io_time_ratio: Some(0.217),
            io_bandwidth_bps: Some(2e9),
            bytes_per_period: Some(2.17e9),
        },
        reconstruction_error: Some(0.77),
    }
}

fn told(path: &str, analysis: &RunAnalysis) -> Run {
    let job = JobInfo {
        n_procs: Some(32),
        exe: Some("./a.out".into()),
        job_id: Some("4711".into()),
        ..JobInfo::default()
    };
    let mut source = Source::new(path, "csv", &Tally::default(), &job);
    source.n_events = 12_800;
    source.bytes_written = 2e10;
    (source.start_s, source.end_s) = (Some(0.0), Some(46.0));
    let losses = [Loss::of_records(2, "line 12: the end is before the start")];
    Run::analysed(source, &losses, &RunConfig::default(), analysis)
}

fn span(start_s: f64, end_s: f64) -> Span {
    let at = |secs| Timestamp::from_secs_since_start(secs).unwrap();
    Span { start: at(start_s), end: at(end_s) }
}
