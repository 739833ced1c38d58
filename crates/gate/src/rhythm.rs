//! Where periods come from: the jobs' own requests, a file that someone keeps, and somebody else who sees the jobs.
//!
//! One thread, which looks now and then: an evaluation may take milliseconds, and no request shall wait for it.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, SystemTime};

use iotide_analysis::online::{Predictor, PredictorConfig};
use iotide_sched::{IoProfile, LEAST_CONFIDENCE, PeriodSource, Rules, parse_periods};
use iotide_trace::{Event, Op, Rank, Timestamp};

use crate::hints::HintedPeriods;
use crate::job::JobName;
use crate::process::Background;
use crate::schedule::{Direction, Heard, Scheduler, Served};
use crate::turns::Turns;

/// How often periods are looked at.
const EVERY: Duration = Duration::from_millis(250);

/// A job's period is not looked for more often than this: data must not wait for it.
const APART_S: f64 = 1.0;

/// No more than this part of a core goes into looking for periods, however many jobs there are: with more of them each is looked at less often.
const SHARE_OF_CORE: f64 = 0.05;

/// A job that did nothing for so long is hardly ever looked at.
const BUSY_WITHIN_S: f64 = 60.0;

/// Memory for the requests of all jobs that are remembered, at most, in bytes. Beyond it, the job with most of it is observed from the beginning.
const MOST_BYTES: usize = 64 << 20;

/// A job that has done nothing for this long is over.
const FORGET_AFTER_S: f64 = 24.0 * 3600.0;

/// Begins to keep the scheduler's periods up to date.
pub(crate) fn keep_periods(scheduler: Scheduler, turns: &Turns) -> std::io::Result<Background> {
    let watch = Watch {
        scheduler,
        listeners: turns.predict.then(Listeners::default),
        // The report's server knows no users.
        takes_shares: turns.rules != Rules::Report,
        file: turns.periods.clone().map(|path| PeriodFile { path, read: None, periods: Vec::new() }),
        told: turns.informant.clone().map(HintedPeriods::start).transpose()?,
    };
    Background::start("iotide-rhythm", move |until_dropped| watch.run(until_dropped))
}

struct Watch {
    scheduler: Scheduler,
    listeners: Option<Listeners>,
    file: Option<PeriodFile>,
    told: Option<HintedPeriods>,
    takes_shares: bool,
}

impl Watch {
    fn run(mut self, until_dropped: &Receiver<()>) {
        while until_dropped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
            if let Some(file) = &mut self.file {
                for (job, period_s) in file.current() {
                    self.scheduler.set_period_of(job, Some(*period_s), PeriodSource::Given);
                }
            }
            self.scheduler.take_back_lent();
            let heard = self.scheduler.take_served();
            let jobs: Vec<JobName> = match &self.told {
                Some(_) => heard.iter().map(|heard| heard.job.clone()).collect(),
                None => Vec::new(),
            };
            if let Some(listeners) = &mut self.listeners {
                listeners.look(heard, self.scheduler.lull_s(), |job, period_s| match &mut self.told {
                    Some(told) => told.observe(job, period_s),
                    None => drop(self.scheduler.set_period(job, Some(period_s), PeriodSource::Predicted)),
                });
            }
            if let Some(told) = &mut self.told {
                told.look(self.scheduler.now_s());
                for job in jobs {
                    if let Some((period_s, source)) = told.period_of(&job) {
                        self.scheduler.set_period(&job, period_s, source);
                    }
                }
            }
            if self.takes_shares {
                self.scheduler.heed_shares();
            }
            for gone in self.scheduler.forget_idle(FORGET_AFTER_S) {
                if let Some(listeners) = &mut self.listeners {
                    listeners.by_job.remove(&gone);
                }
                if let Some(told) = &mut self.told {
                    told.forget(&gone);
                }
            }
        }
    }
}

/// Who listens to jobs.
#[derive(Default)]
struct Listeners {
    by_job: HashMap<JobName, Listener>,
    /// Cost of an evaluation, in seconds of a core.
    evaluation_s: Option<f64>,
}

/// Who listens to one job.
#[derive(Default)]
struct Listener {
    /// There once the job has shown that it goes on: most never do.
    predictor: Option<Predictor>,
    /// Requests that the predictor will be shown first.
    early: Vec<Served>,
    phases: Phases,
}

impl Listener {
    /// So many requests are kept for a predictor.
    const MOST_EARLY: usize = 256;

    fn hear(&mut self, served: &Served, lull_s: f64) {
        self.phases.add(served, lull_s);
        match &mut self.predictor {
            // What this gives rise to is taken below, with all that came since.
            Some(predictor) => drop(event(served).and_then(|event| predictor.push_event(&event))),
            None => self.early.push(*served),
        }
        // Without a second phase there is no period; without many requests, little is lost by waiting for it.
        if self.predictor.is_none() && (self.phases.starts_s.len() > 1 || self.early.len() > Self::MOST_EARLY)
        {
            let mut predictor = Predictor::new(PredictorConfig {
                // What is a request and what a phase, the lulls of the queue tell: see `Phases`.
                fast_s: 0.0,
                apart_s: APART_S,
                ..PredictorConfig::default()
            });
            for event in std::mem::take(&mut self.early).iter().filter_map(event) {
                let _ = predictor.push_event(&event);
            }
            self.predictor = Some(predictor);
        }
    }

    fn memory_bytes(&self) -> usize {
        self.predictor.as_ref().map_or(0, Predictor::memory_bytes)
            + self.early.capacity() * size_of::<Served>()
    }

    fn n_evaluations(&self) -> u64 {
        self.predictor.as_ref().map_or(0, |predictor| predictor.work().evaluations)
    }
}

impl Listeners {
    /// Shows each job's requests to its predictor, and says which periods are new.
    fn look(&mut self, heard: Vec<Heard>, lull_s: f64, mut found: impl FnMut(&JobName, f64)) {
        let apart_s = self.apart_s(&heard);
        let (began_s, mut n_evaluations) = (thread_cpu_s(), 0);
        for Heard { job, now_s, served } in heard {
            let listener = match self.by_job.get_mut(&job) {
                Some(listener) => listener,
                None if served.is_empty() => continue,
                None => self.by_job.entry(job.clone()).or_default(),
            };
            let n_before = listener.n_evaluations();
            for served in &served {
                listener.hear(served, lull_s);
            }
            let Listener { predictor: Some(predictor), phases, .. } = listener else { continue };
            predictor.keep_apart(apart_s);
            let Some(now) = Timestamp::from_secs_since_start(now_s) else { continue };
            // Without a period the last one holds: a job that computes for longer than before has not changed its ways.
            if let Some(prediction) = predictor.advance_to(now)
                && let Some(period_s) =
                    prediction.period_s.filter(|_| prediction.confidence >= LEAST_CONFIDENCE)
                && period_s >= phases.shortest_period_s(lull_s)
            {
                found(&job, period_s);
            }
            n_evaluations += listener.n_evaluations() - n_before;
        }
        if n_evaluations > 0 {
            let cost_s = (thread_cpu_s() - began_s) / n_evaluations as f64;
            self.evaluation_s =
                Some(self.evaluation_s.map_or(cost_s, |before_s| 0.8 * before_s + 0.2 * cost_s));
        }
        self.keep_within(MOST_BYTES);
    }

    /// How far evaluations of one job are apart, so that those of all keep to their share.
    fn apart_s(&self, heard: &[Heard]) -> f64 {
        let is_busy = |heard: &&Heard| {
            self.by_job.get(&heard.job).is_some_and(|listener| {
                listener.predictor.is_some() && heard.now_s - listener.phases.busy_until_s < BUSY_WITHIN_S
            })
        };
        let n_busy = heard.iter().filter(is_busy).count();
        (n_busy as f64 * self.evaluation_s.unwrap_or(0.0) / SHARE_OF_CORE).max(APART_S)
    }

    /// Forgets what was heard of the job that takes most, of the user who has most, until the rest fits: nobody's jobs are forgotten for
    /// those of somebody else.
    fn keep_within(&mut self, most_bytes: usize) {
        let mut of_users: HashMap<Option<u32>, usize> = HashMap::new();
        for (job, listener) in &self.by_job {
            *of_users.entry(job.user()).or_default() += listener.memory_bytes();
        }
        while of_users.values().sum::<usize>() > most_bytes {
            let Some((user, bytes)) = of_users.iter_mut().max_by_key(|(_, bytes)| **bytes) else { return };
            let largest = (self.by_job.iter_mut())
                .filter(|(job, _)| job.user() == *user)
                .max_by_key(|(_, listener)| listener.memory_bytes());
            let Some((_, largest)) = largest else { return };
            *bytes -= largest.memory_bytes();
            *largest = Listener::default();
        }
    }
}

/// How much of a core this thread has used.
fn thread_cpu_s() -> f64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 * 1e-9
}

/// When the last phases began. What counts is a silence that lets others in: the queue's own phases end after a longer one, which a fast job
/// never keeps.
///
/// Requests within a phase have a rhythm of their own: that of the program's buffer, and of the turns the queue gives. It is seen long before
/// there is a second phase, and would put a job that writes for a minute every hour among those that write all the time.
#[derive(Debug, Default)]
struct Phases {
    starts_s: VecDeque<f64>,
    busy_until_s: f64,
}

/// Over so many phases their distance is averaged.
const MOST_PHASES: usize = 16;
/// Fewer phases than this are no rhythm.
const LEAST_PHASES: usize = 3;
/// A rhythm within what counts as one phase (a job that is never silent) is slower than the silence that ends one by this factor.
const WITHIN_A_PHASE: f64 = 20.0;

impl Phases {
    fn add(&mut self, served: &Served, lull_s: f64) {
        if self.starts_s.is_empty() || served.arrival_s > self.busy_until_s + lull_s {
            if self.starts_s.len() == MOST_PHASES {
                self.starts_s.pop_front();
            }
            self.starts_s.push_back(served.arrival_s);
        }
        self.busy_until_s = self.busy_until_s.max(served.end_s);
    }

    /// No rhythm of phases is faster than the phases come; half their distance leaves room for phases that fail to appear.
    fn shortest_period_s(&self, lull_s: f64) -> f64 {
        match (self.starts_s.front(), self.starts_s.back()) {
            (Some(first_s), Some(last_s)) if self.starts_s.len() >= LEAST_PHASES => {
                (last_s - first_s) / (self.starts_s.len() - 1) as f64 / 2.0
            }
            _ => WITHIN_A_PHASE * lull_s,
        }
    }
}

fn event(served: &Served) -> Option<Event> {
    let op = match served.direction {
        Direction::Read => Op::Read,
        Direction::Write => Op::Write,
    };
    let at = Timestamp::from_secs_since_start;
    Some(Event::data(op, Rank(0), at(served.arrival_s)?, at(served.end_s)?, served.bytes as f64))
}

/// A table of jobs and periods that may change.
struct PeriodFile {
    path: PathBuf,
    /// As of when it was read.
    read: Option<(SystemTime, u64)>,
    periods: Vec<(String, f64)>,
}

/// A table of periods is small.
const MAX_FILE: u64 = 16 << 20;

impl PeriodFile {
    /// Returns the table, read anew if the file has changed. A file that is missing or being written changes nothing.
    fn current(&mut self) -> &[(String, f64)] {
        let seen =
            std::fs::metadata(&self.path).ok().and_then(|file| Some((file.modified().ok()?, file.len())));
        if seen.is_some() && seen != self.read {
            let text = seen
                .filter(|(_, size)| *size <= MAX_FILE)
                .and_then(|_| std::fs::read_to_string(&self.path).ok());
            if let Some(Ok(periods)) = text.map(|text| parse_periods(&text)) {
                // A job without a period is one that is told from its requests.
                let known = |(job, profile): (String, Option<IoProfile>)| Some((job, profile?.w_iter_s()));
                self.periods = periods.into_iter().filter_map(known).collect();
            }
            self.read = seen;
        }
        &self.periods
    }
}

/// Checks that a table of periods can be read, before anything is mounted.
pub(crate) fn check_periods(path: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    parse_periods(&text).map(drop).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::JobClock;
    use iotide_testkit::FreshDir;

    #[test]
    fn a_file_is_read_again_when_it_changes_and_kept_when_it_is_broken() {
        let dir = FreshDir::new("periods");
        let path = dir.write("periods.csv", "7,1\n");
        let mut file = PeriodFile { path, read: None, periods: Vec::new() };
        assert_eq!(file.current(), [("7".to_owned(), 1.0)]);
        dir.write("periods.csv", "7,20\n");
        assert_eq!(file.current(), [("7".to_owned(), 20.0)]);
        dir.write("periods.csv", "7 is slow\n");
        assert_eq!(file.current(), [("7".to_owned(), 20.0)]);
        std::fs::remove_file(&file.path).unwrap();
        assert_eq!(file.current(), [("7".to_owned(), 20.0)]);
    }

    /// Shows 64 MiB in 64 requests of `request_s` at each of the moments `starts_s`, and returns the periods found.
    fn periods_of(starts_s: &[f64], request_s: f64) -> Vec<f64> {
        let (mut listeners, mut found) = (Listeners::default(), Vec::new());
        let requests: Vec<Served> = starts_s
            .iter()
            .flat_map(|start_s| (0..64_u32).map(move |index| start_s + f64::from(index) * request_s))
            .map(|arrival_s| Served {
                direction: Direction::Write,
                arrival_s,
                // Buffers are filled in between.
                end_s: arrival_s + 0.6 * request_s,
                bytes: 1 << 20,
            })
            .collect();
        for tick in 0..4 * (starts_s.last().unwrap() + 10.0) as u32 {
            let now_s = f64::from(tick) * 0.25;
            let ended = |served: &&Served| served.end_s > now_s - 0.25 && served.end_s <= now_s;
            let served = requests.iter().filter(ended).copied().collect();
            let heard = vec![Heard { job: JobName::new("7", None), now_s, served }];
            listeners.look(heard, 0.05, |_, period_s| found.push(period_s));
        }
        found
    }

    #[test]
    fn a_job_that_writes_every_second_is_found_to() {
        let starts_s: Vec<f64> = (0..40).map(f64::from).collect();
        let found = periods_of(&starts_s, 1e-3);
        assert!(!found.is_empty() && found.iter().all(|period_s| (period_s - 1.0).abs() < 0.05), "{found:?}");
    }

    #[test]
    fn the_rhythm_of_requests_within_a_phase_is_not_that_of_the_job() {
        let starts_s: Vec<f64> = (0..8).map(|index| 20.0 * f64::from(index)).collect();
        let found = periods_of(&starts_s, 0.04);
        assert!(!found.is_empty() && found.iter().all(|period_s| (period_s - 20.0).abs() < 1.0), "{found:?}");
    }

    /// The periods found of a job that computes for `compute_s` and has eight requests served, before each of which it waits for its turn.
    fn periods_beside_others(compute_s: f64, waits_s: f64) -> Vec<f64> {
        let (mut clock, mut wall_s) = (JobClock::default(), 0.0);
        // The clock from a moment on, and the request that was served by then.
        let mut steps: Vec<(f64, JobClock, Option<Served>)> = Vec::new();
        for _ in 0..30 {
            wall_s += compute_s;
            for _ in 0..8 {
                let arrival_s = clock.ask(wall_s);
                steps.push((wall_s, clock, None));
                wall_s += waits_s;
                clock.begin(wall_s);
                steps.push((wall_s, clock, None));
                wall_s += 0.03;
                let (direction, end_s) = (Direction::Write, clock.at(wall_s));
                clock.end(wall_s);
                steps.push((wall_s, clock, Some(Served { direction, arrival_s, end_s, bytes: 1 << 20 })));
                wall_s += 0.001;
            }
        }
        let (mut listeners, mut found, mut clock) = (Listeners::default(), Vec::new(), JobClock::default());
        let mut steps = steps.into_iter().peekable();
        for look in 1..(4.0 * wall_s) as u32 {
            let wall_s = f64::from(look) / 4.0;
            let mut served = Vec::new();
            while let Some((_, now, request)) = steps.next_if(|(at_s, ..)| *at_s <= wall_s) {
                clock = now;
                served.extend(request);
            }
            let heard = Heard { job: JobName::new("7", None), now_s: clock.at(wall_s), served };
            listeners.look(vec![heard], 0.02, |_, period_s| found.push(period_s));
        }
        found
    }

    #[test]
    fn a_job_that_is_held_up_keeps_its_period() {
        for waits_s in [0.0, 0.05, 4.0] {
            let found = periods_beside_others(1.0, waits_s);
            assert!(!found.is_empty(), "{waits_s}");
            assert!(found.iter().all(|period_s| (period_s - 1.25).abs() < 0.1), "{waits_s}: {found:?}");
        }
    }

    #[test]
    fn turns_that_come_round_are_no_period_of_a_job_that_never_stops() {
        assert_eq!(periods_beside_others(0.001, 4.0), []);
    }

    /// A job that has had so many requests, one each second.
    fn listened_to(n_requests: u32) -> Listener {
        let mut listener = Listener::default();
        for second in 0..n_requests {
            let arrival_s = f64::from(second);
            let end_s = arrival_s + 0.01;
            listener.hear(&Served { direction: Direction::Write, arrival_s, end_s, bytes: 1 << 20 }, 0.05);
        }
        listener
    }

    #[test]
    fn who_has_most_is_forgotten_first_and_nobody_else() {
        let mut listeners = Listeners::default();
        for job in 0..8 {
            listeners.by_job.insert(JobName::new(&job.to_string(), Some(1000)), listened_to(300));
        }
        listeners.by_job.insert(JobName::new("long", Some(1001)), listened_to(600));
        let bytes_of = |listeners: &Listeners, user| -> Vec<usize> {
            let of_user = listeners.by_job.iter().filter(|(job, _)| job.user() == Some(user));
            of_user.map(|(_, listener)| listener.memory_bytes()).filter(|bytes| *bytes > 0).collect()
        };
        let (many, long) = (bytes_of(&listeners, 1000), bytes_of(&listeners, 1001));
        assert!(long[0] > many[0] && many.len() == 8, "{many:?} {long:?}");
        let most_bytes = many.iter().sum::<usize>() * 2 / 3 + long[0];
        listeners.keep_within(most_bytes);
        let left = bytes_of(&listeners, 1000);
        assert_eq!((left.len(), bytes_of(&listeners, 1001)), (5, long));
        listeners.keep_within(most_bytes);
        assert_eq!(bytes_of(&listeners, 1000), left);
    }

    #[test]
    fn the_more_jobs_there_are_the_less_often_each_is_looked_at() {
        let mut listeners = Listeners { evaluation_s: Some(0.001), ..Listeners::default() };
        let heard = |now_s: f64| -> Vec<Heard> {
            let job = |n: u32| Heard { job: JobName::new(&n.to_string(), None), now_s, served: Vec::new() };
            (0..1000).map(job).collect()
        };
        for n in 0..1000_u32 {
            listeners.by_job.insert(JobName::new(&n.to_string(), None), listened_to(3));
        }
        assert!((listeners.apart_s(&heard(5.0)) - 20.0).abs() < 1e-9);
        assert_eq!(listeners.apart_s(&heard(5.0)[..10]), APART_S);
        // Those that do nothing cost nothing.
        assert_eq!(listeners.apart_s(&heard(3600.0)), APART_S);
    }

    #[test]
    fn a_job_that_is_never_silent_may_have_a_rhythm_all_the_same() {
        let mut phases = Phases::default();
        for index in 0..1000_u32 {
            let arrival_s = f64::from(index) * 0.01;
            phases.add(&Served { direction: Direction::Write, arrival_s, end_s: arrival_s, bytes: 1 }, 0.05);
        }
        assert_eq!(phases.starts_s.len(), 1);
        assert!(phases.shortest_period_s(0.05) <= 1.0);
    }
}
