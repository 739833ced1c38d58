//! Jobs as several sources see them, again and again: which there are, what their periods are, and what they ask of the storage.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use iotide_formats::requests_by_job;
use iotide_sched::{AcceptedHints, ControlledJob, IoProfile, JobId, Load, Rules, batch_id, is_plain_id};
use iotide_source::{Source, SourceError};

use crate::programs::run;

/// Sources of a watch, and its settings.
#[derive(Clone, Debug)]
pub struct Watching {
    /// Those who know jobs; the first that knows the period of a job is used.
    pub sources: Vec<Source>,
    /// Whose rules put jobs into sets.
    pub rules: Rules,
    /// How large the requests of a client are.
    pub rpc_bytes: u64,
    /// Whether a server of Lustre is asked what jobs send, where no source says it.
    pub asks_lustre: bool,
    /// It is asked for so long at most.
    pub within: Duration,
}

/// Takes what an operator should know.
type Say<'a> = &'a mut dyn FnMut(String);

/// Jobs as they are seen from time to time.
pub struct Watch {
    watching: Watching,
    began: Instant,
    reports: Vec<Report>,
    has_asked: bool,
    /// When what is reported of a job was last compared with what is seen of it.
    compared_s: BTreeMap<String, f64>,
    /// Since when each has been doing I/O.
    active_since_s: BTreeMap<String, f64>,
    /// Counters of the server at the last look, and when that was.
    counted: Option<(Instant, BTreeMap<String, u64>)>,
    /// The numbers of jobs whose ids are none, and how many there have been.
    made_up: BTreeMap<String, JobId>,
    n_made_up: u64,
    /// Jobs with ids that could be misunderstood, once they were named.
    odd: BTreeSet<String>,
}

/// Last report of one source.
struct Report {
    source: Source,
    accepted: AcceptedHints,
    /// Loads of jobs at the storage, if the source sees them.
    loads: BTreeMap<(String, Option<u32>), Load>,
    /// Why it said nothing the last time.
    trouble: Option<String>,
    /// Message about the source, if there is one.
    news: Option<String>,
}

impl Report {
    fn ask(&mut self, now_s: f64) -> Result<(), SourceError> {
        match self.source.ask() {
            Ok(jobs) => {
                self.accepted.look(now_s, Some(&jobs));
                let loads =
                    jobs.iter().filter_map(|job| Some(((batch_id(&job.job).to_owned(), job.uid), job.load?)));
                self.loads = loads.collect();
                if self.trouble.take().is_some() {
                    self.news = Some(format!("{} answers again", self.source));
                }
                Ok(())
            }
            // One that is away for a moment, or a table that is just being written, changes nothing.
            Err(error) => {
                self.accepted.look(now_s, None);
                let trouble = error.to_string();
                if self.trouble.as_ref() != Some(&trouble) {
                    self.news = Some(format!("{trouble}; going on with what was known"));
                }
                self.trouble = Some(trouble);
                Err(error)
            }
        }
    }

    /// Jobs by id, each with the period to go by. Where several users have one id, the user is part of the name.
    fn jobs(&self) -> impl Iterator<Item = (String, Option<f64>, Option<Load>)> {
        let mut n_called: BTreeMap<&str, usize> = BTreeMap::new();
        self.accepted.jobs().for_each(|(id, ..)| *n_called.entry(id).or_default() += 1);
        self.accepted.jobs().map(move |(id, uid, period_s)| {
            let shown = match uid {
                Some(uid) if n_called.get(id).is_some_and(|n| *n > 1) => format!("uid:{uid}/{id}"),
                _ => id.to_owned(),
            };
            (shown, period_s, self.loads.get(&(id.to_owned(), uid)).copied())
        })
    }
}

/// State of a job at one look.
#[derive(Default)]
struct Seen {
    period_s: Option<f64>,
    load: Option<Load>,
}

impl Watch {
    /// Nothing has been seen yet.
    pub fn new(watching: Watching) -> Self {
        let report = |source: &Source| Report {
            source: source.clone(),
            accepted: AcceptedHints::default(),
            loads: BTreeMap::new(),
            trouble: None,
            news: None,
        };
        Self {
            began: Instant::now(),
            reports: watching.sources.iter().map(report).collect(),
            watching,
            has_asked: false,
            compared_s: BTreeMap::new(),
            active_since_s: BTreeMap::new(),
            counted: None,
            made_up: BTreeMap::new(),
            n_made_up: 0,
            odd: BTreeSet::new(),
        }
    }

    /// Looks at the jobs. What an operator should know is handed to `say`; at first one of the sources must answer.
    pub fn look(&mut self, say: Say<'_>, stop: &AtomicBool) -> anyhow::Result<Vec<ControlledJob>> {
        let seen = self.ask(say)?;
        // The server counts the requests of jobs whose source reports none.
        let is_counted = self.watching.asks_lustre && seen.values().any(|job| job.load.is_none());
        let counted = if is_counted { self.count(stop)? } else { None };
        let now_s = self.began.elapsed().as_secs_f64();
        self.active_since_s.retain(|id, _| seen.contains_key(id));
        self.made_up.retain(|id, _| seen.contains_key(id));
        let policy = self.watching.rules.set10();
        let controlled = seen.into_iter().map(|(id, job)| {
            let number = self.number_of(&id);
            let demand_rps = match job.load {
                // One that waits sends what it is let; how much it would is not known.
                Some(Load { is_active: true, bandwidth_bps, .. }) => {
                    Some((bandwidth_bps / self.watching.rpc_bytes as f64).max(f64::MIN_POSITIVE))
                }
                Some(_) => Some(0.0),
                None => counted.as_ref().map(|rates| rates.get(&id).copied().unwrap_or(0.0)),
            };
            if demand_rps.is_some_and(|demand_rps| demand_rps == 0.0) {
                self.active_since_s.remove(&id);
            } else {
                self.active_since_s.entry(id.clone()).or_insert(now_s);
            }
            let profile = job.period_s.and_then(IoProfile::checked);
            ControlledJob {
                placement: policy.place(number, profile.as_ref()),
                active_since_s: self.active_since_s.get(&id).copied(),
                demand_rps: demand_rps.unwrap_or(f64::INFINITY),
                id,
            }
        });
        Ok(controlled.collect())
    }

    /// Asks all sources, and puts together what they say. At first one of them must answer.
    fn ask(&mut self, say: Say<'_>) -> anyhow::Result<BTreeMap<String, Seen>> {
        let now_s = self.began.elapsed().as_secs_f64();
        let mut faults = Vec::new();
        for report in &mut self.reports {
            faults.extend(report.ask(now_s).err());
        }
        let is_first = !std::mem::replace(&mut self.has_asked, true);
        if is_first && faults.len() == self.reports.len() {
            return Err(faults.swap_remove(0).into());
        }
        self.compare(say, now_s);
        for report in &mut self.reports {
            if let Some(news) = report.news.take() {
                say(news);
            }
        }
        let mut seen: BTreeMap<String, Seen> = BTreeMap::new();
        for report in &self.reports {
            for (id, period_s, load) in report.jobs() {
                let job = seen.entry(id).or_default();
                job.period_s = job.period_s.or(period_s);
                job.load = job.load.or(load);
            }
        }
        Ok(seen)
    }

    /// Compares what is reported of jobs with what a mount or an arbiter among the sources sees of them. One period of a job is one look at it.
    fn compare(&mut self, say: Say<'_>, now_s: f64) {
        let loads = self.reports.iter().flat_map(|report| &report.loads);
        let seen: Vec<(String, Option<u32>, f64)> =
            loads.filter_map(|((id, uid), load)| Some((id.clone(), *uid, load.seen_period_s?))).collect();
        self.compared_s.retain(|id, _| seen.iter().any(|(other, ..)| other == id));
        for (id, uid, period_s) in seen {
            if self.compared_s.get(&id).is_some_and(|last_s| now_s < last_s + period_s) {
                continue;
            }
            self.compared_s.insert(id.clone(), now_s);
            for report in &mut self.reports {
                let said_s = report.accepted.period_s(&id, uid);
                match (report.accepted.observe(&id, uid, period_s), said_s) {
                    (Some(true), Some(said_s)) => say(format!(
                        "job {id}: {} says that its I/O phases are {said_s:.3} s apart, but they are seen to be {period_s:.3} s apart; going by that",
                        report.source
                    )),
                    (Some(_), _) => {
                        say(format!("job {id}: what {} says is right again", report.source));
                    }
                    (None, _) => {}
                }
            }
        }
    }

    fn number_of(&mut self, id: &str) -> JobId {
        if let Some(number) = JobId::of_name(id).or_else(|| self.made_up.get(id).copied()) {
            return number;
        }
        self.n_made_up += 1;
        let number = JobId::made_up(self.n_made_up);
        self.made_up.insert(id.to_owned(), number);
        number
    }

    /// Requests a second of each job since the last look; `None` at the first.
    fn count(&mut self, stop: &AtomicBool) -> anyhow::Result<Option<BTreeMap<String, f64>>> {
        let words = ["lctl", "get_param", "-n", "obdfilter.*.job_stats"].map(str::to_owned);
        let is_over = || stop.load(Ordering::Relaxed);
        let printed = run(&words, self.watching.within, &is_over).context("cannot see what jobs send")?;
        let counted = (Instant::now(), requests_by_job(&printed));
        let rates = self.counted.as_ref().map(|(last, before)| {
            let seconds = counted.0.duration_since(*last).as_secs_f64().max(1e-3);
            let rate = |(id, &n): (&String, &u64)| {
                // The server may have forgotten a job meanwhile: its counters start at zero again.
                let n_new = before.get(id).map_or(n, |before| n.checked_sub(*before).unwrap_or(n));
                (id.clone(), n_new as f64 / seconds)
            };
            counted.1.iter().map(rate).collect()
        });
        self.counted = Some(counted);
        Ok(rates)
    }

    /// Names jobs that are left alone.
    pub fn name_odd_ones(&mut self, say: Say<'_>, jobs: &[ControlledJob]) {
        let odd: BTreeSet<&String> = jobs.iter().map(|job| &job.id).filter(|id| !is_plain_id(id)).collect();
        for id in odd.iter().filter(|id| !self.odd.contains(**id)) {
            say(format!("job {id:?} is left alone: its id could be misunderstood"));
        }
        self.odd = odd.into_iter().cloned().collect();
    }
}
