//! Which state shared storage will be in.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use iotide_num::SplitMix64;
use iotide_report::{JobDocument, SystemReport, SystemRuns};
use iotide_sim::system::{
    Change, Continues, Run, RunningJob, Settings, Storage, System, SystemError, Watched, alone, grains,
    long_run, mean_field, saturation, simulate_in_grains,
};

use crate::Error;

/// A system with a name for reports.
#[derive(Clone, Debug)]
pub struct NamedSystem {
    /// Name for reports.
    pub name: String,
    /// Storage, and who uses it.
    pub system: System,
    /// Figures of the storage of which no more than a lower bound is known: `iops`, `bandwidth_bps`, `stream_bps`.
    pub at_least: Vec<String>,
    /// Facts that could not be taken into account.
    pub losses: Vec<String>,
}

impl NamedSystem {
    /// One that is described in JSON; see docs/system.md.
    pub fn from_json(name: &str, text: &str) -> Result<Self, Error> {
        let system = System::from_json(text).map_err(|why| Error::Workload { name: name.to_owned(), why })?;
        // A workload of periodic jobs knows its bandwidth, and has no storage of this kind.
        let at_least = Storage::from_json(text).map_or_else(|_| Vec::new(), |storage| storage.at_least);
        Ok(Self { name: name.to_owned(), system, at_least, losses: Vec::new() })
    }

    /// Jobs that run now, as a daemon tells of them, on storage that a file describes: the next burst of each begins when it is expected.
    pub fn of_running(jobs: &[JobDocument], storage: &Storage, now_unix_s: f64, horizon_s: f64) -> Self {
        let running: Vec<RunningJob> = jobs.iter().map(|job| running_job(job, now_unix_s)).collect();
        let (system, continues) = System::of_running(&running, storage.targets.clone(), horizon_s);
        let unknown = running.iter().zip(continues).filter(|(_, continues)| *continues == Continues::Unknown);
        let losses = unknown.map(|(job, _)| {
            format!("job {} does no I/O now and has no rhythm: nobody knows what it will do", job.name)
        });
        let at_least = storage.at_least.clone();
        Self { name: "live".to_owned(), losses: losses.collect(), at_least, system }
    }

    /// The template of a name, or what is wrong with the name.
    pub fn template(&self, name: &str) -> Result<usize, String> {
        self.system.template(name).ok_or_else(|| {
            let names: Vec<&str> = self.system.templates.iter().map(|known| known.name.as_str()).collect();
            format!("{name}: there is no such template; there are {}", names.join(", "))
        })
    }

    /// The same, in which something changes.
    pub fn with_change(self, change: Change) -> Result<Self, Error> {
        match self.system.with_change(change) {
            Ok(system) => Ok(Self { system, ..self }),
            Err(why) => Err(Error::Workload { name: self.name, why }),
        }
    }
}

fn running_job(document: &JobDocument, now_unix_s: f64) -> RunningJob {
    let (job, io) = (&document.entry, &document.io);
    let watched = Watched {
        name: job.job.as_said(),
        n_running: document.n_running,
        bytes: io.bytes_read + io.bytes_written,
        calls: io.calls_read + io.calls_written,
        rate_bps: job.read_bps.unwrap_or(0.0) + job.write_bps.unwrap_or(0.0),
        period_s: job.period_s,
        confidence: job.confidence,
        bytes_per_phase: job.bytes_per_phase,
        next_phase_unix_s: job.next_phase_unix_s,
    };
    watched.at(now_unix_s)
}

/// How the state is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SystemMethod {
    /// Event by event, with chance.
    #[default]
    Ssa,
    /// Mean counts over time, without chance.
    MeanField,
    /// The long run in closed form.
    Mva,
}

/// Settings of a system simulation.
#[derive(Clone, Copy, Debug)]
pub struct SystemOptions {
    /// How.
    pub method: SystemMethod,
    /// How often, with other chances and, where figures have errors, other figures.
    pub repetitions: usize,
    /// Where chances begin.
    pub seed: u64,
    /// Share of the repetitions that the bands hold.
    pub confidence: f64,
    /// The distance between reported states; `None` is a hundredth of the time.
    pub interval_s: Option<f64>,
    /// How many requests a token stands for; `None` is as many as leave bursts their length.
    pub grain: Option<u64>,
    /// `None` is one for each core.
    pub threads: Option<NonZeroUsize>,
}

impl Default for SystemOptions {
    fn default() -> Self {
        Self {
            method: SystemMethod::Ssa,
            repetitions: 100,
            seed: 0,
            confidence: 0.9,
            interval_s: None,
            grain: None,
            threads: None,
        }
    }
}

/// Runs a system and says in which state its storage will be.
pub fn simulate_system(named: &NamedSystem, options: &SystemOptions) -> Result<SystemReport, Error> {
    checked(options)?;
    let system = &named.system;
    let failed = |why: SystemError| Error::System { name: named.name.clone(), why };
    let interval_s = options.interval_s.unwrap_or(system.frame_s[1] / 100.0);
    let settings = Settings { grain: options.grain, interval_s: Some(interval_s), most_events: None };
    let grains = grains(system, &settings).map_err(failed)?;
    let (method, is_exact, runs) = match options.method {
        SystemMethod::Ssa => ("ssa", true, repeated(system, &settings, &grains, options).map_err(failed)?),
        SystemMethod::MeanField => {
            ("mean-field", false, vec![mean_field(system, &settings).map_err(failed)?])
        }
        SystemMethod::Mva => {
            let long = long_run(system).map_err(failed)?;
            ("mva", long.is_exact, vec![Run::of_means(long.means)])
        }
    };
    Ok(SystemReport::new(&SystemRuns {
        source: &named.name,
        system,
        runs: &runs,
        method,
        is_exact,
        grains: &grains,
        seed: options.seed,
        confidence: options.confidence,
        saturation: saturation(system),
        losses: &named.losses,
        alone: (0..system.templates.len()).map(|template| alone(system, template)).collect(),
    }))
}

/// Refuses settings that no run could have.
pub(crate) fn checked(options: &SystemOptions) -> Result<(), Error> {
    if options.repetitions == 0 {
        return Err(Error::Setting { fault: "repetitions 0 leaves nothing to tell".to_owned() });
    }
    if !(options.confidence > 0.0 && options.confidence < 1.0) {
        let fault = format!("confidence {} is not between 0 and 1", options.confidence);
        return Err(Error::Setting { fault });
    }
    Ok(())
}

/// The chances of a repetition.
pub(crate) fn random_of(seed: u64, repetition: usize) -> SplitMix64 {
    SplitMix64::new(seed ^ (repetition as u64).rotate_left(32))
}

/// All repetitions, each with chances of its own.
fn repeated(
    system: &System,
    settings: &Settings,
    grains: &[u64],
    options: &SystemOptions,
) -> Result<Vec<Run>, SystemError> {
    in_parallel(options, |repetition| {
        let mut random = random_of(options.seed, repetition);
        let seed = random.next();
        if system.is_uncertain() {
            simulate_in_grains(&system.drawn(&mut random), settings, grains, seed)
        } else {
            simulate_in_grains(system, settings, grains, seed)
        }
    })
}

/// Results of all repetitions, in order; the same on any number of threads.
pub(crate) fn in_parallel<T: Clone + Send>(
    options: &SystemOptions,
    run: impl Fn(usize) -> Result<T, SystemError> + Sync,
) -> Result<Vec<T>, SystemError> {
    let threads = options.threads.or_else(|| std::thread::available_parallelism().ok());
    let n_threads = threads.map_or(1, NonZeroUsize::get).min(options.repetitions);
    let next = AtomicUsize::new(0);
    let runs = Mutex::new(vec![None; options.repetitions]);
    std::thread::scope(|scope| {
        for _ in 0..n_threads {
            scope.spawn(|| {
                loop {
                    let repetition = next.fetch_add(1, Ordering::Relaxed);
                    if repetition >= options.repetitions {
                        break;
                    }
                    let found = run(repetition);
                    runs.lock().unwrap_or_else(PoisonError::into_inner)[repetition] = Some(found);
                }
            });
        }
    });
    let runs = runs.into_inner().unwrap_or_else(PoisonError::into_inner);
    runs.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_that_run_are_bursts_where_they_have_a_rhythm_and_streams_where_they_have_none() {
        let document = |job: &str, write_bps: f64, rhythm: &str| {
            let json = format!(
                r#"{{"job": "{job}", "user": "ada", "app": "a", "name": "a", "size": 4, "nodes": [], "state": "running", "trust": "claimed",
                    "start_unix_s": 0, "end_unix_s": null, "read_bps": 0, "write_bps": {write_bps}, {rhythm}, "losses": [],
                    "uid": 1, "command": "", "run_dir": "", "partition": "", "cluster": "", "n_running": 4,
                    "io": {{"bytes_read": 0, "bytes_written": 80000000, "calls_read": 0, "calls_written": 20, "seconds_read": 0, "seconds_written": 1,
                           "seconds_other": 0, "by": []}},
                    "mpi": {{"seconds": 0, "by_function": []}}, "time": {{"threads_s": 0, "compute_s": 0, "mpi_s": 0, "io_s": 0}}, "own": [], "earlier": []}}"#
            );
            JobDocument::from_json(json.as_bytes()).unwrap_or_else(|why| panic!("{why}"))
        };
        let none = r#""period_s": null, "next_phase_unix_s": null"#;
        let beat = r#""period_s": 60, "next_phase_unix_s": 1010, "bytes_per_phase": 4e9"#;
        // Below what anybody would act on.
        let unsure =
            r#""period_s": 60, "next_phase_unix_s": 1010, "bytes_per_phase": 4e9, "confidence": 0.3"#;
        let jobs =
            [document("beats", 0.0, beat), document("streams", 8e6, unsure), document("rests", 0.0, none)];
        let target = iotide_sim::system::Target {
            servers: 1,
            bandwidth_bps: Some(1e9),
            ..iotide_sim::system::Target::default()
        };
        let storage = Storage { targets: vec![target], at_least: Vec::new() };
        let named = NamedSystem::of_running(&jobs, &storage, 1000.0, 600.0);
        let [beats, streams] = named.system.templates.as_slice() else { panic!("{named:?}") };
        assert_eq!((beats.requests, beats.request_bytes, beats.processes), (Some(1000), 4e6, 4));
        assert!((beats.compute_s - 56.0).abs() < 0.1, "4 GB take 4 s of the 60: {}", beats.compute_s);
        assert_eq!(named.system.jobs[0].next_phase_s, Some(10.0));
        assert_eq!(streams.requests, None);
        assert!(
            (1.9..2.0).contains(&streams.think_s),
            "2 s, less what its requests take: {}",
            streams.think_s
        );
        assert_eq!(named.losses.len(), 1, "{:?}", named.losses);
        let report = simulate_system(&named, &SystemOptions { repetitions: 3, ..SystemOptions::default() });
        let report = report.unwrap_or_else(|why| panic!("{why}"));
        let bps = &report.system.frame.bandwidth_bps;
        assert!((bps[0] / (4e9 / 60.0) - 1.0).abs() < 0.15, "{bps:?}");
        assert!((bps[1] / 8e6 - 1.0).abs() < 0.1, "{bps:?}");
        assert_eq!(report.losses.len(), 1);
    }
}
