//! Jobs that run now, as a system: what is known of each is where the simulation begins.

use iotide_sched::LEAST_CONFIDENCE;

use super::description::{Jobs, System, Target, Template, TemplateErrors};
use super::mva::{busiest, round_alone_s};
use super::pilot;

/// Of jobs that run, nobody knows how regular they are to the last digit.
const CV_OF_RUNNING: f64 = 0.05;
/// Requests of a job that has not shown any.
const USUAL_REQUEST: f64 = (1u64 << 20) as f64;
/// A rate below this is none.
const LEAST_BPS: f64 = 1.0;

/// A job that runs, as whoever watches it knows it.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct RunningJob {
    /// Its name.
    pub name: String,
    /// How many requests it may have out at once.
    pub processes: u64,
    /// The mean size of its requests so far, if it made any.
    pub request_bytes: Option<f64>,
    /// Bytes it moves per second now.
    pub rate_bps: f64,
    /// Its I/O phases, if it has any.
    pub phases: Option<Phases>,
}

/// Counts that a monitor has of a job, and its forecast.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watched<'a> {
    /// Name of the job.
    pub name: &'a str,
    /// How many processes it has now. Those that it has had may be many more: each command of a script is one.
    pub n_running: u32,
    /// Bytes it has moved so far, and in how many calls.
    pub bytes: u64,
    /// See `bytes`.
    pub calls: u64,
    /// Bytes it moves per second now.
    pub rate_bps: f64,
    /// How far apart its phases are expected to begin.
    pub period_s: Option<f64>,
    /// With which confidence, where that is known.
    pub confidence: Option<f64>,
    /// Bytes that one phase moves.
    pub bytes_per_phase: Option<f64>,
    /// When the next one begins, in seconds since 1970.
    pub next_phase_unix_s: Option<f64>,
}

impl Watched<'_> {
    /// The job as it is now. A period that nobody would act on is none: the job then goes on as it does now.
    pub fn at(&self, now_unix_s: f64) -> RunningJob {
        let is_trusted = self.confidence.is_none_or(|confidence| confidence >= LEAST_CONFIDENCE);
        let phases = self.period_s.zip(self.bytes_per_phase).filter(|_| is_trusted);
        RunningJob {
            name: self.name.to_owned(),
            processes: u64::from(self.n_running),
            request_bytes: (self.calls > 0).then(|| self.bytes as f64 / self.calls as f64),
            rate_bps: self.rate_bps,
            phases: phases.map(|(period_s, bytes)| Phases {
                period_s,
                bytes,
                next_in_s: self.next_phase_unix_s.map(|at_s| at_s - now_unix_s),
            }),
        }
    }
}

/// I/O phases of a job that runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phases {
    /// How far apart they begin.
    pub period_s: f64,
    /// Bytes that one moves.
    pub bytes: f64,
    /// In how many seconds the next one begins; below 0 if it is late.
    pub next_in_s: Option<f64>,
}

/// How a job that runs is taken to continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Continues {
    /// One phase each period.
    InPhases,
    /// At the rate it has now, for it has no period.
    Steadily,
    /// Nobody knows: it has no period, and moves nothing now. It is not in the system.
    Unknown,
}

impl System {
    /// Jobs that run on storage with such targets; and, for each job, how it is taken to continue.
    ///
    /// Their observed rates and periods alike include the time that the storage takes for their requests while all of them are there.
    /// Between requests and between phases they spend the rest of it, so that jobs which go on as they are move what they move now.
    pub fn of_running(jobs: &[RunningJob], targets: Vec<Target>, horizon_s: f64) -> (Self, Vec<Continues>) {
        let mut system = Self {
            targets,
            templates: Vec::new(),
            jobs: Vec::new(),
            arrivals: Vec::new(),
            changes: Vec::new(),
            frame_s: [0.0, horizon_s],
        };
        let continues: Vec<Continues> = jobs.iter().map(|job| system.begin_with(job)).collect();
        let known: Vec<&RunningJob> = (jobs.iter().zip(&continues))
            .filter(|(_, continues)| **continues != Continues::Unknown)
            .map(|(job, _)| job)
            .collect();
        pilot::fit_thinking(&mut system, &known);
        pilot::fit_computing(&mut system, &known);
        (system, continues)
    }

    fn begin_with(&mut self, job: &RunningJob) -> Continues {
        let request_bytes = job.request_bytes.filter(is_amount).unwrap_or(USUAL_REQUEST);
        let phases = job.known_phases();
        let mut template = Template {
            name: job.name.clone(),
            compute_s: 0.0,
            mpi_s: 0.0,
            compute_cv: CV_OF_RUNNING,
            processes: job.processes.max(1),
            requests: None,
            request_bytes,
            think_s: 0.0,
            iterations: None,
            starts_with_io: false,
            errors: TemplateErrors::default(),
        };
        let continues = if let Some(Phases { period_s, bytes, .. }) = phases {
            let requests = (bytes / request_bytes).round().max(1.0);
            template.requests = Some(requests as u64);
            template.request_bytes = bytes / requests;
            template.compute_s = period_s;
            Continues::InPhases
        } else if job.moves_now() {
            Continues::Steadily
        } else {
            return Continues::Unknown;
        };
        let index = self.templates.len();
        if self.template(&template.name).is_some() {
            template.name = format!("{} {index}", template.name);
        }
        self.templates.push(template);
        // One that is late is taken to begin now.
        let next_in_s = phases.and_then(|phases| phases.next_in_s).filter(|next_in_s| next_in_s.is_finite());
        let next_phase_s = next_in_s.map(|next_in_s| next_in_s.max(0.0));
        self.jobs.push(Jobs { template: index, count: 1, start_s: 0.0, next_phase_s });
        continues
    }

    /// Grains with which a run of jobs that [`System::of_running`] made has about so many tokens at most, if its jobs have few processes each. Coarser ones leave means as they
    /// are, and let rates and lengths of bursts vary more.
    pub fn grains_within(&self, most_tokens: f64) -> Vec<u64> {
        let horizon_s = self.frame_s[1];
        let most = most_tokens / self.templates.len().max(1) as f64;
        let usual = super::compiled::usual_grains(self);
        let wanted: Vec<f64> = (self.templates.iter().enumerate())
            .map(|(index, template)| {
                match template.requests {
                    Some(requests) => (horizon_s / round_alone_s(self, index)).max(1.0) * requests as f64,
                    // A round is one request of each process.
                    None => horizon_s / round_alone_s(self, index) * template.processes as f64,
                }
            })
            .collect();
        // Where they want more than there is, each gets less than it would alone.
        let overload = busiest(self, &wanted).max(horizon_s) / horizon_s;
        (wanted.iter().zip(usual))
            .map(|(wanted, usual)| {
                let grain = (wanted / overload / most).clamp(1.0, 2f64.powi(40));
                usual.max((grain as u64).next_power_of_two())
            })
            .collect()
    }
}

fn is_amount(value: &f64) -> bool {
    value.is_finite() && *value > 0.0
}

impl RunningJob {
    /// Whether it does I/O now.
    pub(super) fn moves_now(&self) -> bool {
        self.rate_bps.is_finite() && self.rate_bps > LEAST_BPS
    }

    /// Its phases, if their figures mean anything.
    pub(super) fn known_phases(&self) -> Option<Phases> {
        self.phases.filter(|phases| is_amount(&phases.period_s) && is_amount(&phases.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::{Settings, SystemError, simulate_in_grains};

    fn target() -> Target {
        Target { servers: 1, bandwidth_bps: Some(1e9), ..Target::default() }
    }

    fn beats(next_in_s: f64) -> RunningJob {
        RunningJob {
            name: "beats".to_owned(),
            processes: 4,
            request_bytes: Some(4e6),
            rate_bps: 0.0,
            phases: Some(Phases { period_s: 60.0, bytes: 4e9, next_in_s: Some(next_in_s) }),
        }
    }

    #[test]
    fn a_job_that_is_watched_has_the_phases_that_somebody_would_act_on() {
        let watched = Watched {
            name: "beats",
            n_running: 4,
            bytes: 80_000_000,
            calls: 20,
            rate_bps: 5.0,
            period_s: Some(60.0),
            confidence: Some(0.8),
            bytes_per_phase: Some(4e9),
            next_phase_unix_s: Some(1010.0),
        };
        assert_eq!(watched.at(1000.0), RunningJob { rate_bps: 5.0, ..beats(10.0) });
        let phases = |confidence| Watched { confidence, ..watched }.at(1000.0).phases.is_some();
        assert_eq!([None, Some(0.5), Some(0.49)].map(phases), [true, true, false]);
        let silent = Watched { bytes: 0, calls: 0, bytes_per_phase: None, ..watched }.at(1000.0);
        assert_eq!((silent.request_bytes, silent.phases), (None, None));
    }

    #[test]
    fn a_phase_that_is_late_begins_now() {
        let first =
            |next_in_s| System::of_running(&[beats(next_in_s)], vec![target()], 600.0).0.jobs[0].next_phase_s;
        assert_eq!([10.0, 0.0, -5.0].map(first), [10.0, 0.0, 0.0].map(Some));
    }

    #[test]
    fn jobs_of_one_name_are_told_apart_and_one_that_rests_is_left_out() {
        let streams = RunningJob { rate_bps: 8e6, phases: None, ..beats(0.0) };
        let rests = RunningJob { phases: None, ..beats(0.0) };
        let broken = RunningJob {
            phases: Some(Phases { period_s: f64::NAN, bytes: -1.0, next_in_s: None }),
            rate_bps: f64::INFINITY,
            ..beats(0.0)
        };
        let jobs = [beats(5.0), streams, rests, broken];
        let (system, continues) = System::of_running(&jobs, vec![target()], 600.0);
        use Continues::{InPhases, Steadily, Unknown};
        assert_eq!(continues, [InPhases, Steadily, Unknown, Unknown]);
        let names: Vec<&str> = system.templates.iter().map(|template| template.name.as_str()).collect();
        assert_eq!(names, ["beats", "beats 1"]);
        let think_s = system.templates[1].think_s;
        assert!((1.98..2.0).contains(&think_s), "4 processes, 4 MB each, at 8 MB/s: {think_s}");
    }

    #[test]
    fn a_run_of_many_small_requests_is_bounded_and_moves_as_much() {
        // 4 KiB at 60 MB/s for 600 s: 9 million requests.
        let small = RunningJob { rate_bps: 6e7, phases: None, request_bytes: Some(4096.0), ..beats(0.0) };
        let (system, _) = System::of_running(&[small, beats(5.0)], vec![target()], 600.0);
        let grains = system.grains_within(50_000.0);
        let settings = Settings { grain: None, interval_s: Some(10.0), most_events: Some(1_000_000) };
        let run = simulate_in_grains(&system, &settings, &grains, 1).unwrap();
        assert!(run.n_events < 400_000, "{}", run.n_events);
        assert!((run.frame.bandwidth_bps[0] / 6e7 - 1.0).abs() < 0.1, "{:?}", run.frame.bandwidth_bps);
        let bounded = Settings { most_events: Some(10_000), ..settings };
        let ended = simulate_in_grains(&system, &bounded, &grains, 1);
        assert_eq!(ended.unwrap_err(), SystemError::TooLong { most_events: 10_000 });
    }
}
