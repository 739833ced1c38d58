//! Traces as lists of requests, with what is true of them by construction.

use iotide_trace::{Event, EventSink, FileId, Op, Overlap, Rank, StepSignal, Timestamp};

/// One request of one rank. Times are whole nanoseconds, as the clock of a trace has them, so that shifts and scalings
/// by whole factors are exact.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    pub rank: i32,
    pub file: u32,
    pub op: Op,
    pub start: i64,
    pub end: i64,
    pub bytes: f64,
    /// Which phase it belongs to, or [`BESIDE`].
    pub phase: u32,
}

/// The phase of a request that belongs to none: a log, a stream, another program.
pub const BESIDE: u32 = u32::MAX;

/// A synthetic trace, or one that was read.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Which generator made it, or the file it comes from.
    pub family: String,
    pub requests: Vec<Request>,
    pub truth: Truth,
}

/// True rhythm of a trace, as far as it is known.
#[derive(Clone, Debug, PartialEq)]
pub enum Truth {
    /// Phases that follow one beat.
    Regular(Regular),
    /// These beats, in seconds; phases may be missing, in pairs, or in another order of size.
    Beats(Vec<f64>),
    /// There is no beat.
    None,
    /// Nothing is asserted.
    Unknown,
}

/// A run of phases that follow one beat.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Regular {
    /// The beat by which the phases were placed.
    pub beat: i64,
    /// How many phases there are.
    pub n: usize,
    /// Standard deviation of the distances over the beat, as it was asked for.
    pub spread: f64,
    /// The share of the beat that a phase lasts.
    pub duty: f64,
}

impl Regular {
    pub fn beat_s(&self) -> f64 {
        self.beat as f64 * 1e-9
    }

    /// How far a beat may be off: 3 %, and what the mean of `n` distances of this spread leaves open (two standard
    /// errors).
    pub fn tolerance(&self) -> f64 {
        0.03 + 2.0 * self.spread / (self.n as f64).sqrt()
    }
}

impl Trace {
    /// The true beats in seconds; none if there are none, or if nothing is asserted.
    pub fn beats_s(&self) -> &[f64] {
        match &self.truth {
            Truth::Beats(beats_s) => beats_s,
            _ => &[],
        }
    }

    pub fn regular(&self) -> Regular {
        match &self.truth {
            Truth::Regular(regular) => *regular,
            other => panic!("{} is not regular by construction: {other:?}", self.family),
        }
    }

    /// From the first start to the last end.
    pub fn span(&self) -> (i64, i64) {
        let first = self.requests.iter().map(|request| request.start).min().unwrap_or(0);
        let last = self.requests.iter().map(|request| request.end).max().unwrap_or(0);
        (first, last)
    }

    pub fn bytes(&self) -> f64 {
        self.requests.iter().map(|request| request.bytes).sum()
    }

    /// When each phase begins and ends, in the order of the phases' numbers; phases that were taken out are left out.
    pub fn phases(&self) -> Vec<(i64, i64)> {
        let mut phases = std::collections::BTreeMap::new();
        for request in self.requests.iter().filter(|request| request.phase != BESIDE) {
            let phase = phases.entry(request.phase).or_insert((request.start, request.end));
            *phase = (phase.0.min(request.start), phase.1.max(request.end));
        }
        phases.into_values().collect()
    }

    /// The mean distance from one phase's start to the next, in seconds.
    pub fn mean_distance_s(&self) -> f64 {
        let phases = self.phases();
        (phases[phases.len() - 1].0 - phases[0].0) as f64 * 1e-9 / (phases.len() - 1) as f64
    }

    /// Bandwidth of the reads and of the writes, added up in the order of the rows.
    pub fn signals(&self) -> (StepSignal, StepSignal) {
        let (mut reads, mut writes) = (Overlap::new(), Overlap::new());
        for request in &self.requests {
            let sum = if request.op == Op::Read { &mut reads } else { &mut writes };
            sum.add(nanos(request.start), nanos(request.end), request.bytes);
        }
        (reads.finish(), writes.finish())
    }

    /// Bandwidth of the writes.
    pub fn writes(&self) -> StepSignal {
        self.signals().1
    }

    /// Bandwidth of the reads and of the writes, exact whatever the number of requests: parts that are small enough are added up one by one.
    pub fn exact_signals(&self) -> (StepSignal, StepSignal) {
        let mut sums = (StepSignal::default(), StepSignal::default());
        for part in self.requests.chunks(Overlap::EXACT_REQUESTS / 2) {
            let part = Trace { requests: part.to_vec(), ..self.clone_without_requests() }.signals();
            sums = (sums.0.plus(&part.0), sums.1.plus(&part.1));
        }
        sums
    }

    fn clone_without_requests(&self) -> Self {
        Self { family: self.family.clone(), requests: Vec::new(), truth: self.truth.clone() }
    }

    /// The requests as the events that a reader would hand out.
    pub fn feed(&self, sink: &mut dyn EventSink) {
        for request in &self.requests {
            let event = Event::data(
                request.op,
                Rank(request.rank),
                nanos(request.start),
                nanos(request.end),
                request.bytes,
            );
            let _ = sink.event(Event { file: FileId(request.file), ..event });
        }
    }
}

fn nanos(nanos: i64) -> Timestamp {
    Timestamp::from_nanos_since_start(nanos)
}
