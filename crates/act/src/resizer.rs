//! Sizes of marked jobs of a Slurm. Slurm may take its time, so it is asked from a thread of its own.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use iotide_api::foresee_resize;
use iotide_report::text;
use iotide_sched::act::{Change, Decision, Effect, JobFacts, Measure, Proposal, Quantity, Verdict, id_of};
use iotide_sched::jobs::{ListedJob, ResizeCost, WantedResize};

use crate::actuators::Actuators;
use crate::closed_loop::{Executor, Look, News, Seat, in_words};
use crate::parse_source;
use crate::settings::ResizePlace;
use crate::sizes::{Deciding, Models};
use crate::slurm::{Listing, Slurm, SlurmTalk, may_expand};

/// Gives the jobs of a rule other sizes.
pub(crate) struct Resizer {
    cost: ResizeCost,
    rest: Duration,
    view: Arc<Mutex<View>>,
    orders: Option<Sender<Order>>,
    thread: Option<JoinHandle<()>>,
    is_over: Arc<AtomicBool>,
    /// Decisions that are being carried out.
    under_way: Vec<u64>,
    /// Jobs that were given another size, and when.
    resized: Vec<(String, Instant)>,
    awaited: Vec<Awaited>,
}

/// Jobs that are to start on what another has given.
struct Awaited {
    decision: u64,
    starts: Vec<String>,
    since: Instant,
    without_s: f64,
    /// The listing that was there when it was decided says nothing of what came of it.
    version: u64,
}

/// The machine as it was seen last.
#[derive(Default)]
struct View {
    /// Counts listings.
    version: u64,
    listing: Listing,
    wanted: Vec<WantedResize>,
    trouble: Option<String>,
    /// What could not be taken back: jobs, and why.
    left: BTreeMap<String, String>,
    done: Vec<(u64, Result<(), String>)>,
}

enum Order {
    /// Carry a decision out.
    Do(u64, WantedResize),
    /// Give a job the size it had.
    Back(String, u32),
}

impl Resizer {
    /// By so many periods before and after one can tell how fast a job goes on.
    const PERIODS_TO_TELL: f64 = 6.0;
    const WINDOW_S: [f64; 2] = [10.0, 1800.0];
    /// A job whose rhythm is not known yet is grown only so long after it came: without it nobody can tell whether it goes on faster.
    const PATIENCE_S: f64 = 60.0;
    /// Slurm is not asked more often than this.
    const LEAST_INTERVAL: Duration = Duration::from_secs(1);
    /// What is taken back at the end takes at most so long.
    const PATIENCE: Duration = Duration::from_secs(60);

    pub(crate) fn new(
        place: &ResizePlace,
        partition: Option<String>,
        every_s: f64,
        seat: &Seat,
        rule: usize,
    ) -> Self {
        let view = Arc::new(Mutex::new(View::default()));
        let is_over = Arc::new(AtomicBool::new(false));
        let (orders, ordered) = mpsc::channel();
        let models = parse_source(&format!("daemon:{}", seat.socket.display())).ok();
        let worker = Worker {
            deciding: Deciding { policy: place.policy, cost: place.cost, models },
            slurm: SlurmTalk { partition, timeout_s: place.timeout_s },
            place: place.clone(),
            state: seat.store.join(format!("resize-{}", rule + 1)),
            view: Arc::clone(&view),
            is_over: Arc::clone(&is_over),
            interval: Duration::from_secs_f64(every_s).max(Self::LEAST_INTERVAL),
        };
        let thread =
            thread::Builder::new().name("iotide-resize".to_owned()).spawn(move || worker.work(&ordered));
        Self {
            cost: place.cost,
            rest: Duration::from_secs_f64(place.rest_s),
            view,
            orders: Some(orders),
            thread: thread.ok(),
            is_over,
            under_way: Vec::new(),
            resized: Vec::new(),
            awaited: Vec::new(),
        }
    }

    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn order(&self, order: Order) -> anyhow::Result<()> {
        let sent = self.orders.as_ref().is_some_and(|orders| orders.send(order).is_ok());
        if sent { Ok(()) } else { bail!("nobody speaks with Slurm any more") }
    }

    fn proposal(&self, look: &Look<'_>, view: &View, wanted: &WantedResize, job: &JobFacts) -> Proposal {
        let is_growth = wanted.to > wanted.from;
        // Jobs that give for the same others do so together.
        let together: Vec<WantedResize> = match is_growth {
            true => vec![wanted.clone()],
            false => view.wanted.iter().filter(|other| other.starts == wanted.starts).cloned().collect(),
        };
        let mut evidence = vec![in_words(job)];
        if let Some(listed) = view.listing.jobs.iter().find(|listed| listed.id == wanted.id) {
            evidence.push(scaling(listed, wanted));
        }
        if !wanted.starts.is_empty() {
            evidence.push(format!("{} can start on what it gives", wanted.starts.join(", ")));
        }
        let period_s = look.period_s(job).unwrap_or(Self::WINDOW_S[0]);
        Proposal {
            rule: look.rule,
            change: Change::Resize { job: job.key(), from: wanted.from, to: wanted.to },
            evidence,
            expected: foresee_resize(&view.listing.jobs, view.listing.free, &together, self.cost),
            expected_losses: Vec::new(),
            measure: Measure::Progress,
            concerned: if is_growth { vec![job.key()] } else { Vec::new() },
            window_s: (Self::PERIODS_TO_TELL * period_s).clamp(Self::WINDOW_S[0], Self::WINDOW_S[1]),
        }
    }
}

/// How a job is known to scale.
fn scaling(job: &ListedJob, wanted: &WantedResize) -> String {
    let at = |nodes: u32| job.times.iter().find(|(at, _)| *at == nodes).map(|(_, time)| text::seconds(*time));
    let ratio = job.time_ratio(wanted.from, wanted.to);
    let stated = job.mark.and_then(|mark| mark.serial_fraction);
    match (stated, at(wanted.from), at(wanted.to)) {
        (None, Some(from), Some(to)) => {
            format!("by earlier runs it takes {from} at {} nodes and {to} at {}", wanted.from, wanted.to)
        }
        _ => {
            let source =
                if stated.is_some() { "as its user says" } else { "as is usual, for nothing is known of it" };
            let ratio = ratio.map_or("?".to_owned(), |ratio| format!("{ratio:.2}"));
            format!("it takes {ratio} times as long at {} nodes as at {}, {source}", wanted.to, wanted.from)
        }
    }
}

impl Executor for Resizer {
    fn propose(&mut self, look: &Look<'_>) -> anyhow::Result<Vec<Proposal>> {
        let rest = self.rest;
        self.resized.retain(|(_, at)| at.elapsed() < rest);
        let view = self.view();
        view.trouble()?;
        if !self.under_way.is_empty() {
            return Ok(Vec::new());
        }
        let scope = &look.controller.rules()[look.rule].scope;
        let mut proposals = Vec::new();
        for wanted in &view.wanted {
            let is_it = |job: &&JobFacts| job.id == wanted.id && scope.holds(job);
            let is_resting = self.resized.iter().any(|(id, _)| *id == wanted.id);
            // What runs under an id that two users have is not known.
            let mut found = look.jobs.iter().filter(is_it);
            let (Some(job), None, false) = (found.next(), found.next(), is_resting) else { continue };
            let key = job.key();
            let is_young = look
                .controller
                .history()
                .since_s(&key)
                .is_none_or(|since_s| look.now_s - since_s < Self::PATIENCE_S);
            let is_open = is_young && look.period_s(job).is_none();
            if wanted.to < wanted.from || !is_open {
                proposals.push(self.proposal(look, &view, wanted, job));
            }
        }
        Ok(proposals)
    }

    fn carry_out(&mut self, decision: &Decision, _lent_s: f64) -> anyhow::Result<()> {
        let Change::Resize { job, from, to } = &decision.change else { return Ok(()) };
        let id = id_of(job).to_owned();
        let (starts, version) = {
            let mut view = self.view();
            let wanted = view.wanted.iter().find(|wanted| wanted.id == id);
            let starts = wanted.map(|wanted| wanted.starts.clone()).unwrap_or_default();
            // What else was wanted was wanted of the machine as it was.
            view.wanted.retain(|wanted| wanted.starts == starts && wanted.id != id);
            (starts, view.version)
        };
        self.order(Order::Do(
            decision.id,
            WantedResize { id: id.clone(), from: *from, to: *to, starts: starts.clone() },
        ))?;
        self.under_way.push(decision.id);
        self.resized.push((id, Instant::now()));
        let without_s = decision.expected.filter(|effect| effect.quantity == Quantity::Wait);
        if let Some(effect) = without_s {
            let (since, without_s) = (Instant::now(), effect.without);
            self.awaited.push(Awaited { decision: decision.id, starts, since, without_s, version });
        }
        Ok(())
    }

    fn take_back(&mut self, decision: &Decision) -> anyhow::Result<()> {
        let Change::Resize { job, from, .. } = &decision.change else { return Ok(()) };
        self.awaited.retain(|awaited| awaited.decision != decision.id);
        self.resized.push((id_of(job).to_owned(), Instant::now()));
        self.order(Order::Back(id_of(job).to_owned(), *from))
    }

    fn news(&mut self, _jobs: &[JobFacts]) -> Vec<News> {
        let mut news = Vec::new();
        let done = std::mem::take(&mut self.view().done);
        for (id, done) in done {
            self.under_way.retain(|other| *other != id);
            match done {
                Ok(()) => news.push(News::Begun(id)),
                Err(why) => {
                    self.awaited.retain(|awaited| awaited.decision != id);
                    news.push(News::Failed(id, why));
                }
            }
        }
        let view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        self.awaited.retain(|awaited| {
            let waits =
                |id: &String| view.listing.jobs.iter().any(|job| job.id == *id && job.elapsed_s.is_none());
            let is_open = view.version <= awaited.version || awaited.starts.iter().any(waits);
            if !is_open {
                let with = awaited.since.elapsed().as_secs_f64();
                let effect = Effect { quantity: Quantity::Wait, without: awaited.without_s, with };
                news.push(News::Ended {
                    id: awaited.decision,
                    verdict: Verdict::Measured(effect),
                    is_over: false,
                });
            }
            is_open
        });
        news
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        drop(self.orders.take());
        let until = Instant::now() + Self::PATIENCE;
        let Some(thread) = self.thread.take() else { return Ok(()) };
        while !thread.is_finished() && Instant::now() < until {
            thread::sleep(Duration::from_millis(20));
        }
        self.is_over.store(true, Ordering::Relaxed);
        let _ = thread.join();
        self.view().trouble()
    }
}

impl View {
    /// Fails with what keeps sizes from being as they should.
    fn trouble(&self) -> anyhow::Result<()> {
        match self.left.values().chain(&self.trouble).next() {
            Some(trouble) => bail!("{trouble}"),
            None => Ok(()),
        }
    }
}

/// Speaks with Slurm.
struct Worker {
    deciding: Deciding,
    slurm: SlurmTalk,
    place: ResizePlace,
    state: PathBuf,
    view: Arc<Mutex<View>>,
    is_over: Arc<AtomicBool>,
    interval: Duration,
}

impl Worker {
    fn work(self, ordered: &Receiver<Order>) {
        let (mut actuators, mut models) = (None, Models::default());
        // Jobs that shall have the size again that they had.
        let mut back = BTreeMap::new();
        loop {
            let done = self.begin(&mut actuators).and_then(|(slurm, _)| self.look(slurm, &mut models));
            self.view().trouble = done.err().map(|error| format!("{error:#}"));
            self.give_back(&mut actuators, &mut back);
            let until = Instant::now() + self.interval;
            loop {
                match ordered.recv_timeout(until.saturating_duration_since(Instant::now())) {
                    Ok(first) => {
                        for order in std::iter::once(first).chain(ordered.try_iter()) {
                            match order {
                                Order::Do(id, wanted) => self.carry_out(&mut actuators, id, &wanted),
                                // The latest first: the size that a job had at first is said last.
                                Order::Back(job, nodes) => _ = back.insert(job, nodes),
                            }
                        }
                        self.give_back(&mut actuators, &mut back);
                    }
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => {
                        self.give_back(&mut actuators, &mut back);
                        if let Some((slurm, mut actuators)) = actuators {
                            let _ = actuators.withdraw(&slurm);
                        }
                        return;
                    }
                }
            }
        }
    }

    fn carry_out(&self, actuators: &mut Option<(Slurm, Actuators)>, id: u64, wanted: &WantedResize) {
        let done = self.begin(actuators);
        let done = done.and_then(|(slurm, actuators)| actuators.carry_out(slurm, wanted, &self.is_over));
        self.view().done.push((id, done.map_err(|error| format!("{error:#}"))));
    }

    /// Gives jobs the sizes again that they had. What cannot be done now is tried again.
    fn give_back(&self, actuators: &mut Option<(Slurm, Actuators)>, back: &mut BTreeMap<String, u32>) {
        back.retain(|job, nodes| {
            let done = self
                .begin(actuators)
                .and_then(|(slurm, actuators)| go_back(slurm, actuators, job, *nodes, &self.is_over));
            let mut view = self.view();
            view.left.remove(job);
            if let Err(error) = &done {
                let why = format!("job {job} does not have its {nodes} nodes again: {error:#}");
                view.left.insert(job.clone(), why);
            }
            done.is_err()
        });
    }

    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is needed to change sizes. What an earlier controller left when it was killed is taken back first.
    fn begin<'a>(
        &self,
        actuators: &'a mut Option<(Slurm, Actuators)>,
    ) -> anyhow::Result<&'a mut (Slurm, Actuators)> {
        if actuators.is_none() {
            let mut opened = Actuators::open(&self.state, self.place.manner.clone())?;
            let is_over = Arc::clone(&self.is_over);
            let slurm = Slurm::new(&self.slurm, move || is_over.load(Ordering::Relaxed))
                .with_folder(opened.scratch().to_owned());
            opened.withdraw(&slurm)?;
            may_expand(&slurm)?;
            *actuators = Some((slurm, opened));
        }
        actuators.as_mut().context("Slurm cannot be asked")
    }

    fn look(&self, slurm: &Slurm, models: &mut Models) -> anyhow::Result<()> {
        let mut listing = slurm.list()?;
        // A daemon that does not answer itself is about to end.
        let wanted = self.deciding.wanted(&mut drop, &mut listing, models);
        let mut view = self.view();
        (view.listing, view.wanted) = (listing, wanted);
        view.version += 1;
        Ok(())
    }
}

/// Gives a job that still runs a size.
fn go_back(
    slurm: &Slurm,
    actuators: &mut Actuators,
    job: &str,
    nodes: u32,
    is_over: &AtomicBool,
) -> anyhow::Result<()> {
    let Some(from) = slurm.size_of(job)? else { return Ok(()) };
    if from == nodes {
        return Ok(());
    }
    let wanted = WantedResize { id: job.to_owned(), from, to: nodes, starts: Vec::new() };
    actuators.carry_out(slurm, &wanted, is_over)
}
