//! Why a question has no answer.

use std::io;
use std::path::PathBuf;

use iotide_analysis::{RunError, SignatureError};
use iotide_formats::ReadError;
use iotide_report::Untrusted;
use iotide_scaling::{ParametersDiffer, StoreError};
use iotide_sched::PeriodsError;
use iotide_sim::system::{CellError, SystemError};
use iotide_sim::{SimulationError, WorkloadError};

use crate::PrometheusError;

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An input could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A setting does not fit the run.
    #[error("{}: {why}", path.for_terminal())]
    Analysis {
        /// The run.
        path: Untrusted,
        /// Cause of the error.
        why: RunError,
    },
    /// There is nothing to compare with.
    #[error("a comparison takes two sides at least, each with a run")]
    OneSide,
    /// A method was to look for what it does not know.
    #[error("the method of the FTIO paper has no change points")]
    NoChangePoints,
    /// Records that only a Darshan log has were requested of another input.
    #[error("{name} is not one Darshan log, and has no records of Darshan")]
    NotOneDarshanLog {
        /// The input.
        name: String,
    },
    /// A file beside the traces could not be read.
    #[error("cannot read {name}")]
    File {
        /// Which.
        name: String,
        /// Error of the system.
        source: io::Error,
    },
    /// An input holds no measurements.
    #[error("cannot read {name}")]
    Measurements {
        /// Which.
        name: String,
        /// Cause of the error.
        source: iotide_scaling::ReadError,
    },
    /// Profiles of Score-P do not make a set.
    #[error("cannot read the profiles")]
    Profiles {
        /// Cause of the error.
        source: iotide_scaling::ReadError,
    },
    /// A folder was to hold profiles.
    #[error("{} holds no profiles", folder.display())]
    NoProfiles {
        /// Which.
        folder: PathBuf,
    },
    /// The folder of a profile says which point it belongs to, and there is none.
    #[error("{} lies in no folder that names its point", file.display())]
    ProfileWithoutPoint {
        /// Which.
        file: PathBuf,
    },
    /// A trace says nothing of the number of processes, which was to be the parameter.
    #[error("it does not say how many processes there were")]
    ProcessesUnknown,
    /// A trace holds nothing that can be modelled.
    #[error("nothing was measured in it")]
    NothingMeasured,
    /// Not one of the traces can be modelled.
    #[error("no trace could be used")]
    NoTraceUsable,
    /// Figures that were measured in traces do not fit together.
    #[error(transparent)]
    Figures(iotide_scaling::ReadError),
    /// The table of parameters is empty.
    #[error("{name} is empty")]
    EmptyTable {
        /// Which.
        name: String,
    },
    /// The table of parameters has no column of traces.
    #[error("{name}, line 1: the first column is not `trace`")]
    NoTraceColumn {
        /// Which.
        name: String,
    },
    /// A line of the table of parameters cannot be used.
    #[error("{name}, line {line}: {fault}")]
    ParameterTable {
        /// Which table.
        name: String,
        /// Which line, from 1.
        line: usize,
        /// Description of the fault.
        fault: String,
    },
    /// The table of parameters leaves a trace out.
    #[error("{name} does not name it")]
    NotInTable {
        /// Which table.
        name: String,
    },
    /// An option of Extra-P is not known, or cannot have this value.
    #[error("{key}={value}: {fault}")]
    ExtrapOption {
        /// Its name.
        key: String,
        /// Value that it was set to.
        value: String,
        /// Description of the fault.
        fault: String,
    },
    /// Stored models cannot be read.
    #[error("cannot read {name}")]
    Store {
        /// Which.
        name: String,
        /// Cause of the error.
        source: StoreError,
    },
    /// Measurements have other parameters than the models they were to join.
    #[error(transparent)]
    Parameters(ParametersDiffer),
    /// No prediction can be made at a point.
    #[error("{fault}")]
    Point {
        /// Which of the points asked for, from 0.
        nth: usize,
        /// Description of the fault.
        fault: String,
    },
    /// Somebody who knows the load of the storage did not answer.
    #[error("the load of the storage is not known: {why}")]
    LoadSource {
        /// Why.
        why: String,
    },
    /// An input counts once.
    #[error("{} is given twice", path.display())]
    GivenTwice {
        /// Which.
        path: PathBuf,
    },
    /// A log shows no load.
    #[error("{name}: nothing was read or written")]
    NothingMoved {
        /// Which.
        name: String,
    },
    /// A trace tells sums only.
    #[error("{name} has no requests with times of their own")]
    NoRequests {
        /// Which.
        name: String,
    },
    /// A run writes nothing at a period.
    #[error("{name} writes nothing at a period: it has no checkpoints")]
    NoCheckpoints {
        /// Which.
        name: String,
    },
    /// One trace does not say when it began, and others do.
    #[error("{name} does not say when it began: it cannot be put beside the others")]
    NoStartTime {
        /// Which.
        name: String,
    },
    /// Jobs that took no time at all.
    #[error("nothing to measure: the jobs took no time")]
    NoTime,
    /// A file that should be a log of servers is none.
    #[error("{name} is no log of servers: it has no bandwidth over time")]
    NoServerLog {
        /// Which.
        name: String,
    },
    /// The samples have no signature.
    #[error(transparent)]
    Signature(SignatureError),
    /// A job log lists nothing that ran.
    #[error("{name} lists no job that ran")]
    NoJobs {
        /// Which.
        name: String,
    },
    /// Every job of a log needs more nodes than the machine has.
    #[error("no job of {name} fits {}", iotide_report::text::counted(u64::from(*nodes), "node"))]
    NothingFits {
        /// Which log.
        name: String,
        /// How many nodes jobs can have.
        nodes: u32,
    },
    /// Every job of a log is cancelled or rejected before it runs.
    #[error("no job of {name} runs: all are cancelled before, or rejected")]
    NothingRan {
        /// Which log.
        name: String,
    },
    /// A job log states a machine that cannot be.
    #[error("{name} states {nodes} nodes; there can be 1 to {most}")]
    MachineTooLarge {
        /// Which log.
        name: String,
        /// Number of nodes that it states.
        nodes: u64,
        /// How many there can be.
        most: u64,
    },
    /// No job ran while the server was logged.
    #[error("the throughput log lies between {} and {} s, and all jobs between {} and {} s", log_s[0], log_s[1], jobs_s[0], jobs_s[1])]
    ClocksApart {
        /// When the throughput log begins and ends.
        log_s: [f64; 2],
        /// When the first job begins and the last one ends.
        jobs_s: [f64; 2],
    },
    /// A Prometheus server gave no log.
    #[error(transparent)]
    Prometheus(#[from] PrometheusError),
    /// Starts would be tried for hours.
    #[error("a start every {every_s} s is too many to try")]
    TooManyStarts {
        /// How often one was to be tried.
        every_s: f64,
        /// How often one may be.
        enough_s: f64,
    },
    /// An application without load fits anywhere.
    #[error("the signature moves nothing, so nothing can disturb it")]
    NothingToDisturb,
    /// A file of thresholds cannot be used.
    #[error("{name}, {fault}")]
    Settings {
        /// Which.
        name: String,
        /// In which line, and what is wrong with it.
        fault: String,
    },
    /// A file of settings of signatures cannot be used.
    #[error("{name}: {fault}")]
    SignatureSettings {
        /// Which.
        name: String,
        /// Description of the fault.
        fault: String,
    },
    /// A table of jobs and periods cannot be used.
    #[error("{name}: {why}")]
    Periods {
        /// Which.
        name: String,
        /// Cause of the error.
        why: PeriodsError,
    },
    /// A workload is not described as it should be.
    #[error("{name}: {why}")]
    Workload {
        /// Which.
        name: String,
        /// Cause of the error.
        why: WorkloadError,
    },
    /// A job names a model that is not there.
    #[error("{log}: job {job} names the model {model}, which is not known")]
    ModelUnknown {
        /// The log.
        log: String,
        /// The job.
        job: String,
        /// The model.
        model: String,
    },
    /// A storage names a model of its bandwidth that is not there.
    #[error("{log}: storage names the model {model}, which is not known at every number of I/O nodes")]
    StorageModelUnknown {
        /// The log.
        log: String,
        /// The model.
        model: String,
    },
    /// Models have no time that depends on one size.
    #[error("there is no model of a time with one parameter, the size")]
    NoTimeModel,
    /// A job log does not say how large the machine is.
    #[error("{name} does not say how many nodes the machine has")]
    MachineUnknown {
        /// Which.
        name: String,
    },
    /// A setting cannot have its value.
    #[error("{fault}")]
    Setting {
        /// The setting's name, and what is wrong.
        fault: String,
    },
    /// A workload cannot be simulated.
    #[error(transparent)]
    Simulation(SimulationError),
    /// A system cannot be simulated.
    #[error("{name}: {why}")]
    System {
        /// Which.
        name: String,
        /// Cause of the error.
        why: SystemError,
    },
    /// A ladder says too little.
    #[error("{name}: {why}")]
    Ladder {
        /// Which.
        name: String,
        /// Data that is missing.
        why: CellError,
    },
    /// A trace has no period.
    #[error("no period")]
    NoPeriod,
    /// A trace has a period at which next to nothing happens.
    #[error("a period, but nothing substantial is moved")]
    NothingSubstantial,
    /// An interval cannot be had with this confidence.
    #[error("a confidence of {confidence} is no share between 0 and 1")]
    Confidence {
        /// Which.
        confidence: f64,
    },
}

impl Error {
    /// The message with its causes, in one line.
    pub fn with_causes(&self) -> String {
        let mut line = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            line += &format!(": {error}");
            cause = error.source();
        }
        line
    }
}
