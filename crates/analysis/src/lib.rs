//! Analysis of one run's signal.
//!
//! - Does the I/O have a rhythm, which, and with what confidence? [`detect_period`]
//! - The same of a whole run, reads and writes, in one call: [`analyse_run`]
//! - What do its strongest waves look like in time? [`reconstruct`]
//! - How evenly do the periods resemble each other? [`score`]
//! - What load does an application put on the storage, derived from noisy server logs of several runs? [`extract`]
//! - Which runs of a job log are of one application, and what does a server's log show of them? [`group_runs`],
//!   [`cut_samples`]
//! - How fast would the storage have to be to hide asynchronous I/O? [`demand`]
//! - How many requests were in flight at once, and how many were done meanwhile? [`InFlight`]
//! - Which of its figures are worth comparing with those of other sizes? [`figures`]
//! - What kind of run is it: when does it read and write, what does its metadata server see? [`categorize`]
//! - Which I/O issues does it have, and what would a fix save? [`issues`]
//! - Why did it take longer than earlier runs: its own requests, the load of others, or the storage? [`why`]
//! - While the job runs: when does the next phase begin? [`online::Predictor`]
//!
//! **Invariant:** no file, clock, thread or terminal in here. A test needs a `Vec<f64>` and nothing else.

pub use crate::bursts::{Bursts, Described, Known, busy_phases, describe_bursts, usual_length_s};
pub use crate::category::{
    Access, BusyTime, Categories, Category, CategoryConfig, CategoryMethod, CategoryThresholds,
    DirectionFindings, Evidence, FoundPeriod, Label, Magnitude, MetadataFindings, MetadataLoad, Observed,
    Operation, Rejection, Temporality, categorize,
};
pub use crate::demand::{Demand, Need, demand, lost_s, required_bps, throughput_bps};
pub use crate::figures::{Figure, FigureGroups, KnownRun, figures};
pub use crate::in_flight::{InFlight, Overlap, Overlaps};
pub use crate::issue::{
    Cause, Gain, Issue, IssueConfig, IssueId, IssueThresholds, Issues, IssuesVerdict, NotJudged, Severity,
    is_foreign, issues,
};
pub use crate::period::{
    AutocorrelationEstimate, Candidate, DftConfig, EVIDENCE_NAMES, EVIDENCE_WEIGHTS, Harmonic, Harmonics,
    Method, OutlierDetector, PeriodConfig, PeriodError, PeriodEstimate, Phase, Reason, Rhythm, StatedRun,
    Verdict, Wave, WeighedRhythm, detect_period, reconstruct, weigh_exact_rhythms, weigh_rhythms,
};
pub use crate::run::{RunAnalysis, RunConfig, RunError, analyse_run, reconstruction_error};
pub use crate::runs::{
    CutConfig, CutSamples, GroupConfig, Grouping, NoSample, RunGroup, cut_samples, group_runs,
};
pub use crate::scores::{Scores, score, score_above};
pub use crate::settings::{Setting, SettingError};
pub use crate::signature::{
    Burst, ConsensusConfig, DtwConfig, Extent, Interference, IosiConfig, PartitionLoad, RejectedSample,
    Sample, SampleOutlierConfig, SampleRejection, Signature, SignatureConfig, SignatureError,
    SignatureMethod, Spread, UsedSample, expected_interference, extract, rank_starts,
};

pub use crate::why::{
    ArchivedRun, Caused, Change, Clue, CountedCalls, CountedComparison, EarlierPoint, JudgedRun, LoadGrid,
    LoadPlan, MOST_EARLIER, OthersSeries, Parts, PhaseCause, PhaseFacts, Request, RunCounts, RunFacts,
    RunRequests, ServerLoad, Slowdown, StepGrowth, Verdict as WhyVerdict, Why, caused, comparable,
    counts_from_1970, judge, why,
};

pub mod online;

mod bursts;
mod category;
mod demand;
mod figures;
mod in_flight;
mod issue;
mod period;
mod rhythm;
mod run;
mod runs;
mod scores;
mod settings;
mod signature;
mod substantial;
mod why;
