//! `iotide sets apply`: tells BeeGFS or Lustre of jobs again and again, and takes it back in the end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use iotide_formats::requests_by_job;
use iotide_sched::{
    AcceptedHints, Action, ControlledJob, IoProfile, JobId, Load, LustreTbf, batch_id, former_policies,
    is_plain_id,
};
use iotide_source::{Source, SourceError};

use super::runner::{Hung, carry_out, run as run_program};
use super::system::{System, SystemArgs};
use crate::ExitStatus;
use crate::commands::ioskel::{parse_seconds, parse_size};
use crate::commands::source::parse_source;
use crate::ui::{Hint, Ui};

/// Keep telling BeeGFS or Lustre what jobs deserve, until Ctrl-C
///
/// SOURCE says which jobs there are and what their periods are: `daemon` or `daemon:SOCKET` (`iotide serve`), the address or socket of `iotide detect --listen`,
/// the control socket of a mount or an arbiter, or a table with lines `job,seconds`. It is asked again each time. Predictions with a confidence below 50 % are
/// ignored, and a job changes its set only when another period was found twice. Of several sources the first that knows the period of a job is used. A source that
/// is silent for 3.5 periods of a job (10 s at least) is not relied on until it answers again.
///
/// Rates of Lustre cap a job even if nobody else wants the storage, so they are set again from what jobs send: as a control socket says, else as the server counts
/// (`lctl get_param obdfilter.*.job_stats`; run it there, as root). Previous settings are restored at the end, and on SIGINT, SIGTERM and SIGHUP.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ApplyArgs {
    /// Who knows jobs and periods: a daemon, a detector, a control socket or a table; the first that knows a job is used
    #[arg(required = true, value_name = "SOURCE", value_parser = parse_source)]
    sources: Vec<Source>,
    /// Tell this system: priorities for BeeGFS with the IO-Sets change, or rates for Lustre's token bucket filter
    #[arg(long, value_enum, value_name = "SYSTEM")]
    controller: System,
    /// Time from one look at the jobs to the next
    #[arg(long, value_name = "TIME", default_value = "2", value_parser = parse_seconds)]
    interval: f64,
    /// Stop after N rounds
    #[arg(long, value_name = "N")]
    rounds: Option<u64>,
    /// Print what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    system: SystemArgs,
    /// `lustre-tbf` with a control socket: how large the requests of a client are
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = parse_size)]
    rpc_size: u64,
    /// Kill a command after TIME and retry it in the next round
    #[arg(long, value_name = "TIME", default_value = "10", value_parser = parse_seconds)]
    timeout: f64,
}

const EXAMPLES: &str = "\
Examples:
  iotide sets apply daemon --controller configfs                 as the daemon sees jobs
  iotide sets apply daemon jobs.csv --controller configfs        with a table to fall back on
  iotide sets apply /run/iotide.sock --controller configfs       as a mount or an arbiter does
  iotide sets apply jobs.csv --controller lustre-tbf --capacity 8000 --dry-run --rounds 1";

pub(crate) fn run(ui: &mut Ui, args: &ApplyArgs) -> anyhow::Result<ExitStatus> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("cannot wait for Ctrl-C")?;
    }
    let former = former(ui, args, &stop);
    let mut controller = args.system.controller(args.controller, former)?;
    let mut watch = Watch::new(args);
    let mut jobs = watch.look(ui, &stop)?;
    let mut last_trouble = None;
    for round in 1.. {
        if round > 1 {
            // A server that does not count for a moment changes nothing.
            match watch.look(ui, &stop) {
                Ok(seen) => (jobs, last_trouble) = (seen, None),
                Err(error) => {
                    let trouble = format!("{error:#}");
                    if last_trouble.as_ref() != Some(&trouble) {
                        ui.status(format_args!("{trouble}; going on with what was known"));
                    }
                    last_trouble = Some(trouble);
                }
            }
        }
        watch.name_odd_ones(ui, &jobs);
        let actions = controller.update(&jobs);
        if !actions.is_empty() || round == 1 {
            ui.status(format_args!("{} jobs, {} to do", jobs.len(), actions.len()));
        }
        for action in do_all(ui, args, &actions, &|| is_set(&stop))? {
            controller.failed(&action);
        }
        if args.rounds == Some(round) || !rest(args.interval, &stop) {
            break;
        }
    }
    // However often somebody says to stop: no step takes longer than it may, and after one that hangs no other is tried.
    let left = do_all(ui, args, &controller.withdraw(), &|| false)?;
    if left.is_empty() {
        return Ok(ExitStatus::Done);
    }
    ui.warning("this could not be taken back:");
    for action in left {
        ui.warning(format_args!("  {action}"));
    }
    Ok(ExitStatus::Failed)
}

/// What a server of Lustre does now, to be put back in the end.
fn former(ui: &mut Ui, args: &ApplyArgs, stop: &AtomicBool) -> Vec<String> {
    if args.controller != System::LustreTbf || args.dry_run {
        return Vec::new();
    }
    let words = LustreTbf::SEE_POLICIES.map(str::to_owned);
    let printed = run_program(&words, Duration::from_secs_f64(args.timeout), &|| is_set(stop));
    let former = printed.map(|printed| former_policies(&printed)).unwrap_or_default();
    if former.is_empty() {
        ui.status(format_args!("the server does not say which policy it uses; fifo will be set in the end"));
    }
    former
}

/// Does or prints each action, and returns those that failed. After a program that hangs the rest is not tried.
fn do_all(
    ui: &mut Ui,
    args: &ApplyArgs,
    actions: &[Action],
    is_over: &dyn Fn() -> bool,
) -> anyhow::Result<Vec<Action>> {
    let mut failed = Vec::new();
    for (i, action) in actions.iter().enumerate() {
        let shown = ui.out(&format!("{action}\n"));
        if args.dry_run {
            shown?;
            continue;
        }
        // Whether somebody reads along or not: what was begun must be ended.
        if let Err(error) = carry_out(action, Duration::from_secs_f64(args.timeout), is_over) {
            ui.warning(format_args!("{error:#}"));
            if error.downcast_ref::<Hung>().is_some() {
                failed.extend_from_slice(&actions[i..]);
                break;
            }
            failed.push(action.clone());
        }
    }
    Ok(failed)
}

/// Waits, and returns whether nobody said to stop meanwhile.
fn rest(seconds: f64, stop: &AtomicBool) -> bool {
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    while !is_set(stop) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        thread::sleep(left.min(Duration::from_millis(50)));
    }
    false
}

fn is_set(stop: &AtomicBool) -> bool {
    stop.load(Ordering::Relaxed)
}

/// Jobs as they are seen from time to time.
struct Watch<'a> {
    args: &'a ApplyArgs,
    began: Instant,
    told: Vec<Report<'a>>,
    has_asked: bool,
    /// When what is reported of a job was last compared with what is seen of it.
    compared_s: BTreeMap<String, f64>,
    /// Since when each has been doing I/O.
    active_since_s: BTreeMap<String, f64>,
    /// What the server had counted at the last look, and when that was.
    counted: Option<(Instant, BTreeMap<String, u64>)>,
    /// The numbers of jobs whose ids are none, and how many there have been.
    made_up: BTreeMap<String, JobId>,
    n_made_up: u64,
    /// Jobs with ids that could be misunderstood, once they were named.
    odd: BTreeSet<String>,
}

/// What one source has said.
struct Report<'a> {
    source: &'a Source,
    heeded: AcceptedHints,
    /// What jobs do at the storage, if it sees that.
    loads: BTreeMap<(String, Option<u32>), Load>,
    /// Why it said nothing the last time.
    trouble: Option<String>,
    /// What there is to say of it.
    news: Option<String>,
}

impl Report<'_> {
    fn ask(&mut self, now_s: f64) -> Result<(), SourceError> {
        match self.source.ask() {
            Ok(jobs) => {
                self.heeded.look(now_s, Some(&jobs));
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
                self.heeded.look(now_s, None);
                let trouble = error.to_string();
                if self.trouble.as_ref() != Some(&trouble) {
                    self.news = Some(format!("{trouble}; going on with what was known"));
                }
                self.trouble = Some(trouble);
                Err(error)
            }
        }
    }

    /// Jobs by id, each with the period to go by. Where several users have one id it is said whose it is.
    fn jobs(&self) -> impl Iterator<Item = (String, Option<f64>, Option<Load>)> {
        let mut n_called: BTreeMap<&str, usize> = BTreeMap::new();
        self.heeded.jobs().for_each(|(id, ..)| *n_called.entry(id).or_default() += 1);
        self.heeded.jobs().map(move |(id, uid, period_s)| {
            let shown = match uid {
                Some(uid) if n_called.get(id).is_some_and(|n| *n > 1) => format!("uid:{uid}/{id}"),
                _ => id.to_owned(),
            };
            (shown, period_s, self.loads.get(&(id.to_owned(), uid)).copied())
        })
    }
}

fn hint(fault: &SourceError) -> &'static str {
    match fault {
        SourceError::Silent { .. } | SourceError::Strange { .. } => {
            "a source is a daemon (`iotide serve`), a detector (`iotide detect --listen`), or a socket made by `--control PATH` of `iotide mount` or `iotide arbiter`, which must be running"
        }
        _ => "a table has a line for each job: its name, a comma, seconds",
    }
}

/// What is known of a job at one look.
#[derive(Default)]
struct Seen {
    period_s: Option<f64>,
    load: Option<Load>,
}

impl<'a> Watch<'a> {
    fn new(args: &'a ApplyArgs) -> Self {
        let told = |source| Report {
            source,
            heeded: AcceptedHints::default(),
            loads: BTreeMap::new(),
            trouble: None,
            news: None,
        };
        Self {
            args,
            began: Instant::now(),
            told: args.sources.iter().map(told).collect(),
            has_asked: false,
            compared_s: BTreeMap::new(),
            active_since_s: BTreeMap::new(),
            counted: None,
            made_up: BTreeMap::new(),
            n_made_up: 0,
            odd: BTreeSet::new(),
        }
    }

    fn look(&mut self, ui: &mut Ui, stop: &AtomicBool) -> anyhow::Result<Vec<ControlledJob>> {
        let seen = self.ask(ui)?;
        // What a control socket does not say the server counts.
        let is_counted = self.args.controller == System::LustreTbf
            && !self.args.dry_run
            && seen.values().any(|job| job.load.is_none());
        let counted = if is_counted { self.count(stop)? } else { None };
        let now_s = self.began.elapsed().as_secs_f64();
        self.active_since_s.retain(|id, _| seen.contains_key(id));
        self.made_up.retain(|id, _| seen.contains_key(id));
        let policy = self.args.system.rules().set10();
        let controlled = seen.into_iter().map(|(id, job)| {
            let number = self.number_of(&id);
            let demand_rps = match job.load {
                // One that waits sends what it is let; how much it would is not known.
                Some(Load { is_active: true, bandwidth_bps, .. }) => {
                    Some((bandwidth_bps / self.args.rpc_size as f64).max(f64::MIN_POSITIVE))
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
    fn ask(&mut self, ui: &mut Ui) -> anyhow::Result<BTreeMap<String, Seen>> {
        let now_s = self.began.elapsed().as_secs_f64();
        let mut faults = Vec::new();
        for told in &mut self.told {
            faults.extend(told.ask(now_s).err());
        }
        let is_first = !std::mem::replace(&mut self.has_asked, true);
        if is_first && faults.len() == self.told.len() {
            let fault = faults.swap_remove(0);
            let hint = hint(&fault);
            return Err(fault).hint(hint);
        }
        self.compare(ui, now_s);
        for told in &mut self.told {
            if let Some(news) = told.news.take() {
                ui.status(news);
            }
        }
        let mut seen: BTreeMap<String, Seen> = BTreeMap::new();
        for told in &self.told {
            for (id, period_s, load) in told.jobs() {
                let job = seen.entry(id).or_default();
                job.period_s = job.period_s.or(period_s);
                job.load = job.load.or(load);
            }
        }
        Ok(seen)
    }

    /// Compares what is reported of jobs with what a mount or an arbiter among the sources sees of them. One period of a job is one look at it.
    fn compare(&mut self, ui: &mut Ui, now_s: f64) {
        let loads = self.told.iter().flat_map(|told| &told.loads);
        let seen: Vec<(String, Option<u32>, f64)> =
            loads.filter_map(|((id, uid), load)| Some((id.clone(), *uid, load.seen_period_s?))).collect();
        self.compared_s.retain(|id, _| seen.iter().any(|(other, ..)| other == id));
        for (id, uid, period_s) in seen {
            if self.compared_s.get(&id).is_some_and(|last_s| now_s < last_s + period_s) {
                continue;
            }
            self.compared_s.insert(id.clone(), now_s);
            for told in &mut self.told {
                let said_s = told.heeded.period_s(&id, uid);
                match (told.heeded.observe(&id, uid, period_s), said_s) {
                    (Some(true), Some(said_s)) => ui.status(format_args!(
                        "job {id}: {} says that its I/O phases are {said_s:.3} s apart, but they are seen to be {period_s:.3} s apart; going by that",
                        told.source
                    )),
                    (Some(_), _) => {
                        ui.status(format_args!("job {id}: what {} says is right again", told.source));
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
        let within = Duration::from_secs_f64(self.args.timeout);
        let printed = run_program(&words, within, &|| is_set(stop)).context("cannot see what jobs send")?;
        let counted = (Instant::now(), requests_by_job(&printed));
        let rates = self.counted.as_ref().map(|(last, before)| {
            let seconds = counted.0.duration_since(*last).as_secs_f64().max(1e-3);
            let rate = |(id, &n): (&String, &u64)| {
                // Counters of a job that was forgotten meanwhile begin anew.
                let n_new = before.get(id).map_or(n, |before| n.checked_sub(*before).unwrap_or(n));
                (id.clone(), n_new as f64 / seconds)
            };
            counted.1.iter().map(rate).collect()
        });
        self.counted = Some(counted);
        Ok(rates)
    }

    fn name_odd_ones(&mut self, ui: &mut Ui, jobs: &[ControlledJob]) {
        let odd: BTreeSet<&String> = jobs.iter().map(|job| &job.id).filter(|id| !is_plain_id(id)).collect();
        for id in odd.iter().filter(|id| !self.odd.contains(**id)) {
            ui.status(format_args!("job {id:?} is left alone: its id could be misunderstood"));
        }
        self.odd = odd.into_iter().cloned().collect();
    }
}
