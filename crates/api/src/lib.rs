//! Every question iotide answers, as one function with plain arguments.
//!
//! An [`Input`] names the files of one run, or holds its bytes. What else a question depends on stands in a struct with public
//! fields and a default, and the answer is a struct of the report, which can be looked at, or written as text, JSON or a page:
//!
//! ```
//! use iotide_api::{DetectOptions, Input, detect};
//!
//! let mut table = String::from("rank,op,start,end,bytes\n");
//! for phase in 0..20 {
//!     table += &format!("0,write,{},{}.5,100000000\n", 10 * phase, 10 * phase);
//! }
//! let run = detect(&Input::bytes("run.csv", table), &DetectOptions::default())?;
//! assert_eq!(run.period.period_s, Some(10.0));
//! # Ok::<(), iotide_api::Error>(())
//! ```
//!
//! # Design constraints
//! - No flag, no prompt, nothing printed: the command line, a daemon and a module of another language call the same functions.
//! - What takes long says how far it is through a callback, and leaves words and bars to who called.
//! - An [`Error`] says what is wrong. What to do about it depends on the front end, which tells errors apart by their variants.

// The words in which questions are asked and answered: whoever asks needs no other crate.
pub use iotide_analysis::online::{Adaptation, Prediction};
pub use iotide_analysis::{
    CategoryConfig, CategoryMethod, CutConfig, FigureGroups, GroupConfig, IssueConfig, Method, PeriodConfig,
    RunConfig, RunError, Sample, Signature, SignatureConfig, SignatureMethod,
};
pub use iotide_formats::{
    Conversion, ConvertError, Format, JobLog, JobLogOptions, KeptPart, NameHasher, NameKind, OpenOptions,
    ReadError, Reader, Target, convert, convert_hashed,
};
pub use iotide_live::{
    Address, End, Engine, Follower, Job, Jobs, Limits as LiveLimits, Live, LiveError,
    Settings as LiveSettings, Summary, Watched,
};
pub use iotide_report::{
    Baseline, BaselineError, CompareDocument, CompareSettings, Document, Failure, FitReport, HistoryDocument,
    Info, Ink, JobsReport, LabelledRun, LadderReport, MeasureDocument, MeasuredRun, PlanReport, Plot,
    Quantity, Report, Run, ScalingReport, SignatureEntry, SignatureReport, SimulationReport, Source,
    StagingReport, SystemReport, TemplatesReport, Untrusted, WhyArchive, WhyDocument, WhyEntry, WhyRun,
};
pub use iotide_scaling::{InputFormat, Measure, Scaling, Search};
pub use iotide_sched::jobs::{JobPolicy, PolicyKnobs};
pub use iotide_sched::staging::Policy as StagingPolicy;
pub use iotide_sched::{Action, Controller, Credit, IoProfile, Order, Policy, Rules, UnknownJobs};
pub use iotide_sim::jobs::{JobsMix, JobsWorkload};
pub use iotide_sim::system::{
    Cell, Change, Ladder, Limit as CarryLimit, Target as StorageTarget, USUAL_HORIZON_S, WhatChanges,
    fit_storage,
};
pub use iotide_sim::{
    Foreseen, IoSettings, JobSpec, MeasuredJob, Mix, Workload, foresee_periods, foresee_resize,
    foresee_staging,
};
pub use iotide_trace::{Direction, Loss, ThroughputLog};

pub use crate::{
    advise::{AdviseOptions, resize_advise},
    carry::{CarryOptions, carry},
    checkpoint::{CheckpointOptions, checkpoint_advise},
    compare::{CompareOptions, by_application, compare, compare_measured, measure},
    detect::{DetectOptions, detect},
    error::Error,
    file::{read_bytes, read_text},
    follow::engine,
    info::{InfoOptions, darshan_log, darshan_log_without_dxt_sums, for_each_record, for_each_segment, info},
    input::{Input, Observed, observe},
    jobs::{ClassErrors, JobsLog, JobsLogOptions, SimulateJobsOptions, simulate_jobs},
    label::{LabelOptions, Labelling, application, label, label_observed, label_while},
    measure::{MeasureOptions, measure_jobs},
    model::{
        Choice, FitMethod, FitOptions, MeasuredIn, Measurements, ModelQuestions, Models, RankBy, Store, fit,
        measurements,
    },
    plan::{Plan, Profiles, plan, profiles},
    progress::Progress,
    reads::{FirstRead, first_reads},
    report::{ReportOptions, RunReport, report},
    settings::{Settings, set_signature, signature_toml},
    signature::{
        Applications, Found, FoundSignature, PrometheusError, PrometheusQuestion, SignatureOptions, Starts,
        Url, applications, job_log, prometheus_log, rank_partitions, signature, throughput_log,
    },
    simulate::{IoWorkload, PolicyName, QueueRules, SimulateOptions, StorageModels, simulate_io},
    staging::{StagingJob, StagingOptions, simulate_staging},
    system::{NamedSystem, SystemMethod, SystemOptions, simulate_system},
    templates::{TemplateOptions, storage_of_file, storage_of_ladder, templates},
    why::{
        ArchiveRun, ComparedRun, CountedRun, LoadPiece, LoadSource, PrometheusLoad, StorageLoad, WhyOptions,
        program_of, why, why_archive, why_each,
    },
};

mod advise;
mod carry;
mod checkpoint;
mod compare;
mod detect;
mod error;
mod file;
mod follow;
mod info;
mod input;
mod job_io;
mod jobs;
mod label;
mod measure;
mod model;
mod modules;
mod plan;
mod progress;
mod reads;
mod report;
mod server_targets;
mod settings;
mod signature;
mod simulate;
mod staging;
mod system;
mod templates;
mod why;
