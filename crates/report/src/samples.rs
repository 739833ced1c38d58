//! Findings made by hand, so that reports on them can be checked without finding anything. Tests of pages read this file, too.

use iotide_analysis::{
    AutocorrelationEstimate, Burst, Candidate, PeriodEstimate, Phase, RejectedSample, Rhythm, RunAnalysis,
    RunConfig, RunError, Sample, SampleRejection, Scores, Signature, SignatureMethod, Spread, UsedSample,
    Verdict, Wave,
};
use iotide_scaling::{FitConfig, Measurement, Series, fit};
use iotide_sched::act::{
    Actor, Change, Decision, Effect, JobLoss, Limits, Quantity, Rule, Scope, State, Verdict as ActVerdict,
};
use iotide_sched::{Policy, UnknownJobs};
use iotide_sim::{Contender, IoSettings, JobSpec, Knowledge, Workload, compare};
use iotide_trace::{
    Activity, ActivitySums, Direction, Event, EventSink, FileId, Grain, JobInfo, Layer, Loss, Op, Rank,
    SampledSignal, Span, Tally, Timeline, Timestamp, TraceInfo,
};

use crate::{DecisionEntry, GroupEntry, Published, Run, ScalingReport, SimulationReport, Source};

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
        byte_share: 1.0,
        time_share: 1.0,
        depth: 1.0,
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

/// Two bursts of 10 s, one every 30 s, on a step of 1 s.
pub(crate) fn signature() -> (Signature, Vec<Sample>) {
    let values: Vec<f64> = (0..60).map(|i| if i % 30 < 10 { 2e9 } else { 0.0 }).collect();
    let sample = |name: &str, foreign: f64| {
        Sample::whole(name, 1.0, values.iter().map(|value| value + foreign).collect())
    };
    let used = |index: usize, name: &str| UsedSample {
        index,
        name: name.into(),
        similarity: 0.97,
        delay_s: 1.5,
        times_s: (0..60).map(|i| f64::from(i) + 0.5).collect(),
    };
    let burst =
        |start_s: f64| Burst { start_s, end_s: start_s + 10.0, peak_bps: 2e9, bytes: 2e10, support: 1.0 };
    let signature = Signature {
        method: SignatureMethod::Consensus,
        offset_s: 0.0,
        interval_s: 1.0,
        spread: values
            .iter()
            .map(|value| Spread { low_bps: *value, median_bps: value + 1e8, high_bps: value + 2e8 })
            .collect(),
        bandwidth_bps: values.clone(),
        bursts: vec![burst(0.0), burst(30.0)],
        period: PeriodEstimate { period_s: Some(30.0), confidence: 0.9, ..PeriodEstimate::default() },
        confidence: 0.93,
        background_bps: 1e8,
        used: vec![used(0, "s0.csv"), used(2, "s2.csv")],
        rejected: vec![RejectedSample {
            index: 1,
            name: "s1.csv".into(),
            reason: SampleRejection::Outlier { factor: 2.0, duration_ratio: 2.1, volume_ratio: 3.0 },
        }],
    };
    (signature, vec![sample("s0.csv", 1e8), sample("s1.csv", 0.0), sample("s2.csv", 2e8)])
}

/// Whose it is.
pub(crate) fn group(user: &str, runs: usize) -> GroupEntry {
    GroupEntry { user: user.into(), name: "climate".into(), nodes: Some(128), runs }
}

/// Models of one parameter or two.
pub(crate) fn scaling(n_parameters: usize) -> ScalingReport {
    let names = ["p".to_owned(), "size<b>".to_owned()];
    let mut report = ScalingReport::new("m.csv", "csv", "auto", &names[..n_parameters]);
    report.draws = true;
    let values = [2.0, 4.0, 8.0, 16.0, 32.0];
    let measurements = if n_parameters == 1 {
        values.map(|p| Measurement::new([p], [3.0 + 2.0 * p])).to_vec()
    } else {
        values.iter().flat_map(|p| values.map(|s| Measurement::new([*p, s], [3.0 + p * s]))).collect()
    };
    let series =
        Series { callpath: "main->io".into(), metric: "time".into(), measurements, ..Series::default() };
    let model = fit(&series.measurements, &FitConfig::default()).unwrap();
    let predictions = [model.predict(&[64.0, 64.0][..n_parameters], 0.9)];
    report.add(&series, &model, &predictions, 0.9);
    report
}

fn job_spec(name: &str, compute_s: f64, io_bytes: f64) -> JobSpec {
    JobSpec { name: name.into(), compute_s, io_bytes, iterations: None, start_s: 0.0, jitter: 0.05 }
}

/// Three jobs under two policies.
pub(crate) fn simulation(name: &str) -> SimulationReport {
    let jobs = vec![job_spec(name, 9.0, 1e8), job_spec("b", 90.0, 2e9), job_spec("c", 90.0, 2e9)];
    let workload = Workload { bandwidth_bps: 1e8, frame_s: [100.0, 1000.0], jobs };
    let settings = IoSettings { n_timeline_bins: 100, ..IoSettings::ideal() };
    let mut report = SimulationReport::new(name, &workload, 3, 1);
    report.add_scenario("ideal", &settings, UnknownJobs::Together);
    for policy in [Policy::Unscheduled, Policy::Set10(UnknownJobs::Together)] {
        let contender = Contender { policy, knowledge: Knowledge::Given };
        let outcomes = compare(&workload, &[contender], &settings, 3, 1, |_| {}).unwrap();
        report.add_policy(policy.name(), &outcomes[0], Published::of(policy.name()));
    }
    report
}

/// A decision that was undone, for it harmed a job.
pub(crate) fn undone() -> DecisionEntry {
    let rule = Rule {
        name: "scratch".to_owned(),
        actor: Actor::Sets,
        scope: Scope::default(),
        limits: Limits::default(),
    };
    let change = Change::Stage { job: "uid:7/a".into(), from: "/a".into(), to: "/b".into() };
    let loss = JobLoss { job: "uid:7/<long>".into(), time: 0.05, error: 0.002, io_change: 0.1 };
    let effect = Effect { quantity: Quantity::IoTime, without: 1.0, with: 0.6 };
    let decision = Decision {
        id: 3,
        rule: 0,
        at_s: 1.0,
        change,
        evidence: Vec::new(),
        expected: None,
        verdict: ActVerdict::Measured(effect),
        harmed: vec![loss],
        state: State::Undone("it cost job <long> 5.0 % of its time".to_owned()),
    };
    DecisionEntry::of(&decision, &rule, 0.0)
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
