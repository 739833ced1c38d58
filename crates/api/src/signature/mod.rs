//! One application's load, out of the noisy logs of storage servers.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use iotide_analysis::{
    CutConfig, GroupConfig, PartitionLoad, Sample, Signature, SignatureConfig, extract, rank_starts,
};
use iotide_formats::{Format, JobLog, JobLogOptions, OpenOptions};
use iotide_report::{FitReport, SignatureReport};
use iotide_trace::{Direction, Loss, Silence, ThroughputConfig, ThroughputLog, ThroughputSink};

use crate::{Error, Input, Progress};

pub use self::applications::{Applications, Found, applications};
pub(crate) use self::prometheus::ask as ask_prometheus;
pub use self::prometheus::{PrometheusError, PrometheusQuestion, prometheus_log};
pub use iotide_http::Url;

mod applications;
mod prometheus;

/// How logs are read, and how a signature is found in them.
#[derive(Clone, Debug)]
pub struct SignatureOptions {
    /// How inputs are opened.
    pub open: OpenOptions,
    /// Which way the bytes that count went.
    pub direction: Direction,
    /// How long a value of a log holds; `None` is as it was logged.
    pub interval_s: Option<f64>,
    /// How the signature is found.
    pub config: SignatureConfig,
    /// Which runs are of one application.
    pub groups: GroupConfig,
    /// How runs are cut out of a long log.
    pub cut: CutConfig,
    /// How many cores to use; `None` is all. The answer does not depend on it.
    pub threads: Option<NonZeroUsize>,
}

impl Default for SignatureOptions {
    fn default() -> Self {
        Self {
            open: OpenOptions::default(),
            direction: Direction::Both,
            interval_s: None,
            config: SignatureConfig::default(),
            groups: GroupConfig::default(),
            cut: CutConfig::default(),
            threads: None,
        }
    }
}

impl SignatureOptions {
    fn throughput(&self, silence: Silence, longest_hold: Option<f64>) -> ThroughputConfig {
        let (direction, interval_s) = (self.direction, self.interval_s);
        ThroughputConfig { direction, interval_s, silence, longest_hold }
    }
}

/// Signature that runs of one application have in common.
#[derive(Clone, Debug)]
pub struct FoundSignature {
    /// As found.
    pub signature: Signature,
    /// In the words of the report.
    pub report: SignatureReport,
}

/// Finds what several runs of one application have in common, each input the log of one run.
pub fn signature(
    inputs: &[Input],
    options: &SignatureOptions,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<FoundSignature, Error> {
    refuse_twice(inputs.iter().flat_map(Input::paths))?;
    let mut samples = Vec::new();
    let mut losses: Vec<CommonLoss> = Vec::new();
    for (i, input) in inputs.iter().enumerate() {
        progress(Progress::Reading { name: &input.name(), nth: i + 1, of: inputs.len() });
        let (sample, lost) = sample_of(input, options)?;
        lost.into_iter().for_each(|loss| tell_once(&mut losses, &sample.name, loss));
        samples.push(sample);
    }
    let losses: Vec<Loss> = losses.into_iter().map(CommonLoss::told).collect();
    let signature = extract(&samples, &options.config).map_err(Error::Signature)?;
    let report = SignatureReport::new(&signature, &samples, &losses);
    Ok(FoundSignature { signature, report })
}

/// Loss that several samples have in common: almost every table has a last row without an end.
struct CommonLoss {
    /// The loss, without its numbers.
    kind: String,
    first: Loss,
    n_more: usize,
}

fn tell_once(losses: &mut Vec<CommonLoss>, sample: &str, loss: Loss) {
    let kind: String = loss.what.chars().filter(|c| !c.is_ascii_digit() && *c != '.').collect();
    match losses.iter_mut().find(|known| known.kind == kind) {
        Some(known) => {
            known.n_more += 1;
            known.first.records = known.first.records.zip(loss.records).map(|(a, b)| a + b);
        }
        None => {
            let first = Loss { what: format!("{sample}: {}", loss.what), ..loss };
            losses.push(CommonLoss { kind, first, n_more: 0 });
        }
    }
}

impl CommonLoss {
    fn told(self) -> Loss {
        match self.n_more {
            0 => self.first,
            n => Loss { what: format!("{}; {n} more samples have the like", self.first.what), ..self.first },
        }
    }
}

/// Reads one run. Between the rows of a table a value holds; between the calls of a trace nothing is moved.
fn sample_of(input: &Input, options: &SignatureOptions) -> Result<(Sample, Vec<Loss>), Error> {
    let mut sink = ThroughputSink::new(options.throughput(Silence::Nothing, None));
    let info = input.open(&options.open)?.read(&mut sink)?;
    let (log, losses) = sink.finish();
    let log = log.ok_or_else(|| Error::NothingMoved { name: input.name() })?;
    let mut sample = Sample::whole(input.name(), log.interval_s, log.values);
    if options.groups.weak_scaling {
        sample.n_nodes = info.job.n_procs.map(|n| n.min(u64::from(u32::MAX)) as u32);
    }
    Ok((sample, losses))
}

/// A run counts once, and what a server moved was moved once.
pub(crate) fn refuse_twice<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Result<(), Error> {
    let mut seen = BTreeSet::new();
    let mut is_new = |path: &PathBuf| seen.insert(path.canonicalize().unwrap_or_else(|_| path.clone()));
    match paths.into_iter().find(|path| !is_new(path)) {
        Some(twice) => Err(Error::GivenTwice { path: twice.clone() }),
        None => Ok(()),
    }
}

/// A logger that was silent for more than so many steps was not there.
const LONGEST_HOLD: f64 = 4.0;

/// Reads a server's throughput log, of one file or of several that are added up.
pub fn throughput_log(
    input: &Input,
    options: &SignatureOptions,
) -> Result<(ThroughputLog, Vec<Loss>), Error> {
    refuse_twice(input.paths())?;
    let reader = input.open(&options.open)?;
    let silence = silence_of(reader.format());
    let mut sink = ThroughputSink::new(options.throughput(silence, Some(LONGEST_HOLD)));
    reader.read(&mut sink)?;
    let (log, losses) = sink.finish();
    Ok((log.ok_or_else(|| Error::NothingMoved { name: input.name() })?, losses))
}

/// Meaning of a time without samples in a log of that format.
pub(crate) fn silence_of(format: Format) -> Silence {
    if format.states_zeros() { Silence::Unknown } else { Silence::Nothing }
}

/// Reads who ran what, and when; `-` is standard input.
pub fn job_log(path: &Path, options: &JobLogOptions) -> Result<JobLog, Error> {
    let jobs = options.open(path)?;
    if jobs.runs.is_empty() {
        return Err(Error::NoJobs { name: path.display().to_string() });
    }
    Ok(jobs)
}

/// Where an application might run.
#[derive(Clone, Debug)]
pub struct Starts {
    /// A start is tried every so many seconds.
    pub every_s: f64,
    /// Capacity of a partition, in bytes per second; `None` is the highest bandwidth that was seen.
    pub capacity_bps: Option<f64>,
    /// How many starts are listed.
    pub n_listed: usize,
    /// Subject of the ranking, for its headline.
    pub about: String,
}

/// Points of signatures laid over logs: some seconds of work.
const MOST_POINTS: f64 = 2e9;

/// Ranks partitions by their logs, and starts on them, by the interference an application would meet.
pub fn rank_partitions(
    signature: &Signature,
    logs: Vec<(String, ThroughputLog)>,
    starts: &Starts,
) -> Result<FitReport, Error> {
    let partitions: Vec<PartitionLoad> = logs
        .into_iter()
        .map(|(name, log)| PartitionLoad {
            name,
            start_s: log.start_s,
            interval_s: log.interval_s,
            bandwidth_bps: log.values,
            capacity_bps: starts.capacity_bps,
        })
        .collect();
    let logged_s: f64 =
        partitions.iter().map(|partition| partition.bandwidth_bps.len() as f64 * partition.interval_s).sum();
    let points = logged_s / starts.every_s * signature.bandwidth_bps.len() as f64;
    if points > MOST_POINTS {
        let enough_s = (starts.every_s * points / MOST_POINTS).ceil();
        return Err(Error::TooManyStarts { every_s: starts.every_s, enough_s });
    }
    if !signature.bandwidth_bps.iter().any(|&own| own > 0.0) {
        return Err(Error::NothingToDisturb);
    }
    let ranking = rank_starts(signature, &partitions, starts.every_s);
    Ok(FitReport::new(&starts.about, &partitions, &ranking, starts.every_s, starts.n_listed))
}
