//! Which state shared storage will be in.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use iotide_num::SplitMix64;
use iotide_report::{SystemReport, SystemRuns};
use iotide_sim::system::{
    Change, Run, Settings, System, SystemError, alone, grain, long_run, mean_field, saturation, simulate,
};

use crate::Error;

/// A system with a name for reports.
#[derive(Clone, Debug)]
pub struct NamedSystem {
    /// What to call it.
    pub name: String,
    /// Storage, and who uses it.
    pub system: System,
}

impl NamedSystem {
    /// One that is described in JSON; see docs/system.md.
    pub fn from_json(name: &str, text: &str) -> Result<Self, Error> {
        let system = System::from_json(text).map_err(|why| Error::Workload { name: name.to_owned(), why })?;
        Ok(Self { name: name.to_owned(), system })
    }

    /// The same, in which something changes.
    pub fn with_change(self, change: Change) -> Result<Self, Error> {
        let Self { name, system } = self;
        match system.with_change(change) {
            Ok(system) => Ok(Self { name, system }),
            Err(why) => Err(Error::Workload { name, why }),
        }
    }
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

/// What is simulated, and how.
#[derive(Clone, Copy, Debug)]
pub struct SystemOptions {
    /// How.
    pub method: SystemMethod,
    /// How often, with other chances and, where figures have errors, other figures.
    pub repetitions: usize,
    /// Where chances begin.
    pub seed: u64,
    /// What share of repetitions bands hold.
    pub confidence: f64,
    /// How far apart the state is told; `None` is a hundredth of the time.
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
    if options.repetitions == 0 {
        return Err(Error::Setting { fault: "repetitions 0 leaves nothing to tell".to_owned() });
    }
    if !(options.confidence > 0.0 && options.confidence < 1.0) {
        let fault = format!("confidence {} is not between 0 and 1", options.confidence);
        return Err(Error::Setting { fault });
    }
    let system = &named.system;
    let failed = |why: SystemError| Error::System { name: named.name.clone(), why };
    let interval_s = options.interval_s.unwrap_or(system.frame_s[1] / 100.0);
    let settings = Settings { grain: options.grain, interval_s: Some(interval_s) };
    let grain = grain(system, &settings).map_err(failed)?;
    let settings = Settings { grain: Some(grain), ..settings };
    let (method, is_exact, runs) = match options.method {
        SystemMethod::Ssa => ("ssa", true, repeated(system, &settings, options).map_err(failed)?),
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
        grain,
        seed: options.seed,
        confidence: options.confidence,
        saturation: saturation(system),
        alone: (0..system.templates.len()).map(|template| alone(system, template)).collect(),
    }))
}

/// All repetitions, each with chances of its own; the same on any number of threads.
fn repeated(system: &System, settings: &Settings, options: &SystemOptions) -> Result<Vec<Run>, SystemError> {
    let run = |repetition: usize| {
        let mut random = SplitMix64::new(options.seed ^ (repetition as u64).rotate_left(32));
        let seed = random.next();
        if system.is_uncertain() {
            simulate(&system.drawn(&mut random), settings, seed)
        } else {
            simulate(system, settings, seed)
        }
    };
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
