//! Observations: events, losses, and the bandwidth they add up to.
//!
//! Every source iotide reads narrows to one record, the [`Event`]: *so many bytes moved (or calls made) between
//! two times*. Readers push events into an [`EventSink`]; a [`Trace`] keeps them, an [`Overlap`] adds them up, an
//! [`Activity`] tells who did what to which file.
//!
//! ```
//! use iotide_trace::{Event, EventSink, Op, Overlap, Rank, Sampling, SamplingKind, Timestamp, sample};
//!
//! let mut overlap = Overlap::new();
//! for rank in 0..2 {
//!     let start = Timestamp::from_secs_since_start(f64::from(rank)).unwrap();
//!     let end = Timestamp::from_secs_since_start(f64::from(rank) + 2.0).unwrap();
//!     let _ = overlap.event(Event::data(Op::Write, Rank(rank), start, end, 2e6));
//! }
//! let signal = overlap.finish();
//! let sampling = Sampling { rate_hz: 1.0, kind: SamplingKind::Mean };
//! let sampled = sample(&signal, signal.span().unwrap(), sampling).unwrap();
//! assert_eq!(sampled.values, [1e6, 2e6, 1e6]); // bytes per second
//! ```
//!
//! **Invariant:** no file, clock, environment variable, thread or terminal in here.

pub use crate::{
    access::{AccessFacts, FileBytes, FunctionSums, RankPart, WayFacts},
    activity::{
        AccessSizes, Activity, ActivitySums, FileActivity, FileSums, HeatMap, HeatRow, LayerSpeed,
        LayerTimes, OpActivity, OpSums, RankBytes, RankTimes, SizeBin, TimeKind,
    },
    async_phases::{AsyncPhase, AsyncPhases},
    event::{Event, FileId, Grain, Layer, Op, Rank},
    file_record::{FileLayout, FileRecord, FileRecords, RankShare, SMALL_BELOW_BYTES, SmallCalls, WayRecord},
    job::{JobOutcome, JobRun},
    loss::Loss,
    overlap::{Direction, Overlap, ReadWrite},
    sampling::{
        Sampling, SamplingError, SamplingKind, abstraction_error, automatic_rate_hz, sample, shortest_step_s,
        signal_error,
    },
    shape::{CallShape, CommonSize, SIZE_RANGES, SlowestRank, WayShape, size_range},
    signal::{SampledSignal, Span, StepSignal},
    throughput::{Silence, ThroughputConfig, ThroughputLog, ThroughputSink},
    timeline::{Stretch, Timeline, TimelineRow, TimelineRows},
    trace::{EventSink, JobInfo, Mount, Tally, TimeSpent, Trace, TraceInfo},
    units::Timestamp,
};

mod access;
mod activity;
mod async_phases;
mod bins;
mod event;
mod file_record;
mod job;
mod loss;
mod overlap;
mod sampling;
mod shape;
mod signal;
mod throughput;
mod timeline;
mod trace;
mod units;
