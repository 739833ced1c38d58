//! Any events, whatever reader they came from: the bandwidth they add up to, who did what to which file, and the labels of the run.
//!
//! Each 24 bytes are an event. Readers let only some combinations through, and only after much text, so they are made here at once.
#![no_main]

use std::ops::ControlFlow;

use iotide_analysis::{CategoryConfig, IssueConfig, Observed, issues};
use iotide_api::label_observed;
use iotide_report::{LabelledRun, Source};
use iotide_trace::{
    Activity, Event, EventSink, FileId, Grain, JobInfo, Layer, Loss, Op, Overlap, Rank, TimeKind, TimeSpent,
    Timestamp, TraceInfo,
};
use libfuzzer_sys::fuzz_target;

const SIZE: usize = 24;

/// Enough for the exact sum of requests to become a grid.
const MOST_EVENTS: usize = 600_000;

struct Sinks {
    overlap: Overlap,
    activity: Activity,
    observed: Observed,
    n_events: usize,
    /// As far as the events show: a request of nothing adds nothing.
    bytes: f64,
}

impl Sinks {
    fn take(&mut self, bytes: &[u8; SIZE]) {
        let kinds = usize::from(bytes[0]);
        let op = Op::ALL[kinds % Op::ALL.len()];
        let layer = Layer::ALL[kinds / 8 % Layer::ALL.len()];
        let grain = Grain::ALL[kinds / 64 % Grain::ALL.len()];
        let rank = Rank(i32::from(bytes[1] as i8));
        let file = if bytes[2] == u8::MAX { FileId::NONE } else { FileId(u32::from(bytes[2])) };
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        // From nanoseconds to the end of time.
        let scale = bytes[3] % 33;
        let start = i64::from(word(4)).saturating_mul(1 << scale);
        let end = start.saturating_add(i64::from(word(8)).saturating_mul(1 << scale));
        let amount = f64::from(f32::from_bits(word(12)));
        let many = if bytes[20] >= 0xf0 { 1 << 16 } else { 1 + usize::from(bytes[20] % 4) };
        let step = i64::from(word(16));
        for i in 0..many {
            if self.n_events >= MOST_EVENTS {
                return;
            }
            self.n_events += 1;
            let at = |time: i64| {
                Timestamp::from_nanos_since_start(time.saturating_add(step.saturating_mul(i as i64)))
            };
            let event = Event {
                op,
                layer,
                grain,
                rank,
                file,
                start: at(start),
                end: at(end),
                bytes: amount,
                calls: u32::from(bytes[21]),
            };
            if amount > 0.0 && amount.is_finite() {
                self.bytes += amount;
            }
            self.overlap.add(event.start, event.end, event.bytes);
            let _: ControlFlow<()> = match bytes[22] {
                0..128 => {
                    let _ = self.activity.event(event);
                    self.observed.event(event)
                }
                part => {
                    // Somewhere between the beginning and the end.
                    let (start, end) = (event.start.as_nanos(), event.end.as_nanos());
                    let waited = start.saturating_add(end.saturating_sub(start) / i64::from(part));
                    let waited = Timestamp::from_nanos_since_start(waited);
                    let _ = self.activity.async_event(event, waited);
                    self.observed.async_event(event, waited)
                }
            };
        }
        if bytes[23] & 1 == 1 {
            let spent = TimeSpent { layer, kind: TimeKind::of(op), file, rank, seconds: amount };
            self.activity.time_spent(spent);
            self.observed.time_spent(spent);
        }
        if bytes[23] & 2 == 2 {
            self.observed.loss(Loss::of_records(u64::from(word(16)), "records"));
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((head, events)) = bytes.split_first_chunk::<8>() else { return };
    let mut sinks = Sinks {
        overlap: Overlap::new(),
        activity: Activity::new(),
        observed: Observed::new(),
        n_events: 0,
        bytes: 0.0,
    };
    events.as_chunks::<SIZE>().0.iter().for_each(|event| sinks.take(event));
    let job = JobInfo {
        run_time_s: (head[0] & 1 == 1)
            .then(|| f64::from(f32::from_le_bytes([head[1], head[2], head[3], head[4]]))),
        n_procs: (head[0] & 2 == 2).then(|| u64::from(head[5]) << (head[6] % 64)),
        exe: (head[0] & 4 == 4).then(|| String::from_utf8_lossy(events).into_owned()),
        ..JobInfo::default()
    };
    let files = (0..head[7]).map(|file| format!("/file-{file}")).collect();
    let info = TraceInfo { job: job.clone(), files };

    let Sinks { overlap, activity, observed, bytes, .. } = sinks;
    let signal = overlap.finish();
    let volume = signal.volume_bytes();
    assert!((volume - bytes).abs() <= 1e-6 * bytes, "{bytes} bytes became {volume}");
    assert!(signal.rates_bps().iter().all(|rate| *rate >= 0.0 && rate.is_finite()));
    assert!(signal.times().is_sorted());

    // As an archive labels a log: categories, issues, and the line that is kept of it.
    let source = Source::new("input", "csv", observed.tally(), &job);
    let run = label_observed(observed, source, &job, &[], &CategoryConfig::default());
    let run: LabelledRun =
        run.with_issues(&issues(&activity.finish(&info), &job, &[], &IssueConfig::default()));
    let line = run.to_line();
    assert!(!line.trim_end().contains('\n'), "a run is one line: {line}");
});
