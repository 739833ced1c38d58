//! A buffer that is kept staged: once, or for as long as a job runs.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use iotide_sched::staging::{Controller, Decision, Forecast, Seen, State};

use crate::error::StageError;
use crate::fetch::{Fetch, Room, Wanted};
use crate::pace::Pace;
use crate::stager::{Fault, Stager};
use crate::tally::{Purge, Survey, Tally};
use crate::watch::Watch;

/// Information about the job from other programs.
#[derive(Clone, Debug)]
pub enum Hint {
    /// A prediction, with times in seconds since [`Plan::began`]; `None` if there is no rhythm, or predictions are lost.
    Forecast(Option<Forecast>),
    /// The job has just moved so many bytes (0 if unknown).
    Activity(f64),
    /// The job is over.
    JobOver,
}

/// How a run goes.
#[derive(Debug)]
pub struct Plan {
    /// Decides when data moves.
    pub controller: Controller,
    /// Time zero of the controller's clock.
    pub began: Instant,
    /// Information about the job from other programs.
    pub hints: Receiver<Hint>,
    /// Set when the job is over or everything has to go, for example by a signal.
    pub is_over: Arc<AtomicBool>,
    /// How long everything may take to go then.
    pub deadline: Option<Duration>,
    /// Set when nothing more is wanted: it ends in good order, and leaves the rest where it is.
    pub is_withdrawn: Arc<AtomicBool>,
    /// Says, from one moment to the next, whether data moves because room runs out.
    pub is_draining: Arc<AtomicBool>,
}

/// How a run stands.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Files and bytes.
    pub tally: Tally,
    /// Present action, and the reason for it.
    pub decision: Option<Decision>,
    /// For how long data was moved while the job did I/O.
    pub interference_s: f64,
    /// For how long data was moved at all.
    pub moving_s: f64,
    /// How much that was.
    pub moved_bytes: u64,
    /// Why the destination takes nothing.
    pub fault: Option<String>,
}

/// How long a destination is tried again when everything has to go, without a deadline.
const FLUSH_RETRY: Duration = Duration::from_secs(60);
const TICK: Duration = Duration::from_millis(100);
/// How often a file is copied that changes meanwhile, before it is left.
const MAX_TRIES: u32 = 3;
/// The tree is walked so often, whatever was seen of it.
const WALK: Duration = Duration::from_secs(30);

/// Copies all that is closed, waits for what was written just now, and ends.
pub fn run_once(
    stager: &mut Stager,
    pace: &Pace,
    high_water_bytes: Option<u64>,
    progress: &mut dyn FnMut(&Tally),
) -> Result<Option<Fault>, StageError> {
    // A file that changes again and again is not waited for without end.
    let patience = (stager.settings.quiet * 10).max(Duration::from_secs(2));
    let mut last_news = Instant::now();
    let mut n_tries: HashMap<Vec<u8>, u32> = HashMap::new();
    loop {
        let mut survey = stager.look();
        survey.due.retain(|task| {
            let n = n_tries.entry(task.path.clone()).or_insert(0);
            *n += 1;
            if *n > MAX_TRIES {
                stager.tally.leave(&task.path, "it changed whenever it was copied");
            }
            *n <= MAX_TRIES
        });
        let n_safe = stager.tally.safe;
        // Written and read back.
        pace.expect(survey.due.iter().map(|task| task.numbers.size.saturating_mul(2)).sum());
        make_room(stager, high_water_bytes)?;
        // Whoever asks is told what is left before it moves.
        progress(stager.tally());
        while !survey.due.is_empty() && !pace.is_stopped() {
            let fault = stager.stage(&mut survey, pace)?;
            make_room(stager, high_water_bytes)?;
            progress(stager.tally());
            if fault.is_some() {
                leave_rest(stager, &survey);
                stager.finish_directories(&mut survey, pace)?;
                stager.remove_leftovers(pace);
                return Ok(fault);
            }
        }
        if stager.tally.safe > n_safe {
            last_news = Instant::now();
        }
        let is_late = last_news.elapsed() > patience;
        // What was gone or another file when its turn came is looked at again: it may be nothing that is left.
        let is_done = survey.n_unquiet == 0 && stager.n_changed == 0;
        if is_done && !pace.is_stopped() && stager.read_timeless_again(pace) > 0 {
            last_news = Instant::now();
            continue;
        }
        if is_done || is_late || pace.is_stopped() {
            leave_rest(stager, &survey);
            let fault = stager.finish_directories(&mut survey, pace)?;
            empty_trash(stager, pace)?;
            stager.remove_leftovers(pace);
            return Ok(fault);
        }
        thread::sleep(
            survey.next_due.unwrap_or(TICK).clamp(Duration::from_millis(1), Duration::from_secs(1)),
        );
    }
}

/// Says why files are left that have not been tried.
fn leave_rest(stager: &mut Stager, survey: &Survey) {
    for path in &survey.unquiet {
        stager.tally.leave(path, "it was changed a moment ago");
    }
    for task in &survey.due {
        stager.tally.leave(&task.path, "stopped before its turn");
    }
}

/// Waits for what is in the trash for a while; what there is no time for goes back.
fn empty_trash(stager: &mut Stager, pace: &Pace) -> Result<(), StageError> {
    while let Some(left) = stager.rests_for().filter(|_| !pace.is_stopped()) {
        thread::sleep(left.min(TICK));
        stager.remove_rested()?;
    }
    stager.return_resting()
}

/// Removes what the user lets us.
fn make_room(stager: &mut Stager, high_water_bytes: Option<u64>) -> Result<(), StageError> {
    match (stager.settings.purge, high_water_bytes) {
        (Purge::Staged, _) => stager.purge(u64::MAX).map(|_| ()),
        (Purge::Space, Some(mark)) if stager.tally.used_bytes > mark => {
            let goal = (mark as f64 * 0.9) as u64;
            stager.purge(stager.tally.used_bytes - goal).map(|_| ())
        }
        _ => Ok(()),
    }
}

/// State that the two threads of a run share.
#[derive(Default)]
struct Shared {
    used_bytes: u64,
    due_bytes: u64,
    has_fault: bool,
    decision: Option<Decision>,
    interference_s: f64,
    moving_s: f64,
    moved_bytes: u64,
    has_news: bool,
}

/// Keeps a buffer staged until the job is over, then brings the rest away.
pub fn run(
    stager: &mut Stager,
    plan: Plan,
    pace: &Pace,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Option<Fault>, StageError> {
    let Plan { controller, began, hints, is_over, deadline, is_withdrawn, is_draining } = plan;
    let high_water_bytes = controller.settings().high_water_bytes().map(|bytes| bytes as u64);
    let shared = Mutex::new(Shared { has_news: true, ..Shared::default() });
    let watch = Watch::new();
    let is_done = AtomicBool::new(false);
    pace.set_rate(0.0);
    thread::scope(|scope| {
        let (is_over, is_done, is_draining) = (&*is_over, &is_done, &*is_draining);
        let pilot = Pilot {
            controller,
            began,
            hints,
            is_over,
            deadline,
            is_withdrawn: &is_withdrawn,
            is_done,
            is_draining,
        };
        scope.spawn(|| pilot.steer(&shared, Some(&watch), pace));
        let ended = keep(stager, &shared, &watch, is_over, high_water_bytes, pace, progress)
            .and_then(|()| flush(stager, &shared, deadline, high_water_bytes, pace, progress));
        is_done.store(true, Ordering::Relaxed);
        ended
    })
}

/// Brings inputs while the job does no I/O, until all are there or the job is over.
pub fn fetch_in_gaps(
    fetch: &mut Fetch,
    wanted: Option<&Wanted>,
    room: Room,
    plan: Plan,
    pace: &Pace,
) -> Result<(Tally, Option<Fault>), StageError> {
    let Plan { controller, began, hints, is_over, deadline, is_withdrawn, is_draining } = plan;
    // There is something to bring until it ends. The buffer is not watched: what happens there is our own doing.
    let shared = Mutex::new(Shared { due_bytes: 1, ..Shared::default() });
    let is_done = AtomicBool::new(false);
    pace.set_rate(0.0);
    thread::scope(|scope| {
        // Nobody reads inputs once the job is over.
        let deadline = Some(deadline.unwrap_or_default());
        let (is_over, is_done, is_draining) = (&*is_over, &is_done, &*is_draining);
        let is_withdrawn = &*is_withdrawn;
        let pilot = Pilot { controller, began, hints, is_over, deadline, is_withdrawn, is_done, is_draining };
        scope.spawn(|| pilot.steer(&shared, None, pace));
        let ended = fetch.run(wanted, room, pace);
        is_done.store(true, Ordering::Relaxed);
        ended
    })
}

/// Copies what the controller lets through, until the job is over.
fn keep(
    stager: &mut Stager,
    shared: &Mutex<Shared>,
    watch: &Watch,
    is_over: &AtomicBool,
    high_water_bytes: Option<u64>,
    pace: &Pace,
    progress: &mut dyn FnMut(&Progress),
) -> Result<(), StageError> {
    let mut retry = Duration::from_secs(1);
    let mut fault: Option<String> = None;
    let is_over = || is_over.load(Ordering::Relaxed);
    while !is_over() {
        let walked = Instant::now();
        lock(shared).has_news = false;
        let mut survey = stager.look();
        let took = walked.elapsed();
        watch.add(&stager.src, &[]);
        for (path, _) in &survey.directories {
            watch.add(&stager.src, path);
        }
        make_room(stager, high_water_bytes)?;
        show(stager, &survey, shared, &fault, progress);
        while !survey.due.is_empty() && !is_over() && walked.elapsed() < WALK {
            let may_move = lock(shared).decision.is_some_and(|decision| decision.state.is_moving());
            if !may_move {
                thread::sleep(TICK / 2);
                show(stager, &survey, shared, &fault, progress);
                continue;
            }
            let failed = stager.stage(&mut survey, pace)?;
            make_room(stager, high_water_bytes)?;
            fault = failed.map(|error| error.to_string());
            show(stager, &survey, shared, &fault, progress);
            if fault.is_some() {
                break;
            }
            retry = Duration::from_secs(1);
        }
        if fault.is_some() {
            let begun = Instant::now();
            while begun.elapsed() < retry && !is_over() {
                show(stager, &survey, shared, &fault, progress);
                thread::sleep(TICK.min(retry));
            }
            retry = (retry * 2).min(Duration::from_secs(60));
            fault = None;
            lock(shared).has_fault = false;
            continue;
        }
        if survey.due.is_empty()
            && let Some(error) = stager.finish_directories(&mut survey, pace)?
        {
            fault = Some(error.to_string());
        }
        show(stager, &survey, shared, &fault, progress);
        // A tree that takes long to walk is walked less often.
        let soon = Duration::from_secs(1).max(took * 20);
        let due = survey.next_due.unwrap_or(WALK).max(TICK);
        while !is_over() && walked.elapsed() < WALK {
            show(stager, &survey, shared, &fault, progress);
            let has_news = lock(shared).has_news && walked.elapsed() >= soon;
            if has_news || walked.elapsed() >= due {
                break;
            }
            thread::sleep(TICK);
        }
    }
    Ok(())
}

/// Brings everything away that is closed.
fn flush(
    stager: &mut Stager,
    shared: &Mutex<Shared>,
    deadline: Option<Duration>,
    high_water_bytes: Option<u64>,
    pace: &Pace,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Option<Fault>, StageError> {
    let began = Instant::now();
    let limit = deadline.unwrap_or(FLUSH_RETRY);
    let mut retry = Duration::from_secs(1);
    loop {
        let fault = run_once(stager, pace, high_water_bytes, &mut |tally| {
            progress(&at_present(tally.clone(), shared, &None));
        })?;
        progress(&at_present(stager.tally().clone(), shared, &fault.as_ref().map(ToString::to_string)));
        if fault.is_none() || began.elapsed() + retry > limit {
            return Ok(fault);
        }
        thread::sleep(retry);
        retry = (retry * 2).min(Duration::from_secs(60));
    }
}

fn show(
    stager: &Stager,
    survey: &Survey,
    shared: &Mutex<Shared>,
    fault: &Option<String>,
    progress: &mut dyn FnMut(&Progress),
) {
    let mut state = lock(shared);
    state.used_bytes = stager.tally.used_bytes;
    // An empty file is something to move, too.
    state.due_bytes = survey.due_bytes.max(survey.due.len() as u64);
    state.has_fault = fault.is_some();
    drop(state);
    progress(&at_present(stager.tally().clone(), shared, fault));
}

fn at_present(tally: Tally, shared: &Mutex<Shared>, fault: &Option<String>) -> Progress {
    let shared = lock(shared);
    Progress {
        tally,
        decision: shared.decision,
        interference_s: shared.interference_s,
        moving_s: shared.moving_s,
        moved_bytes: shared.moved_bytes,
        fault: fault.clone(),
    }
}

/// Tells the controller what happens, and the pace what the controller says.
struct Pilot<'a> {
    controller: Controller,
    began: Instant,
    hints: Receiver<Hint>,
    is_over: &'a AtomicBool,
    deadline: Option<Duration>,
    is_withdrawn: &'a AtomicBool,
    is_done: &'a AtomicBool,
    is_draining: &'a AtomicBool,
}

impl Pilot<'_> {
    fn steer(mut self, shared: &Mutex<Shared>, watch: Option<&Watch>, pace: &Pace) {
        let mut moved = (Instant::now(), pace.moved_bytes());
        let mut over_since: Option<Instant> = None;
        while !self.is_done.load(Ordering::Relaxed) {
            let now_s = self.began.elapsed().as_secs_f64();
            for hint in self.hints.try_iter() {
                match hint {
                    Hint::Forecast(forecast) => self.controller.forecast(now_s, forecast),
                    Hint::Activity(bytes) => self.controller.activity(now_s, bytes),
                    Hint::JobOver => self.is_over.store(true, Ordering::Relaxed),
                }
            }
            let has_news = watch.is_some_and(Watch::has_news);
            if has_news {
                self.controller.activity(now_s, 0.0);
            }
            let n_bytes = pace.moved_bytes();
            let passed_s = moved.0.elapsed().as_secs_f64();
            let has_moved = n_bytes > moved.1;
            if has_moved {
                self.controller.moved((n_bytes - moved.1) as f64, passed_s);
            }
            moved = (Instant::now(), n_bytes);
            if self.is_withdrawn.load(Ordering::Relaxed) {
                self.is_over.store(true, Ordering::Relaxed);
                pace.stop();
            }
            let is_over = self.is_over.load(Ordering::Relaxed);
            let mut state = lock(shared);
            state.moving_s += if has_moved { passed_s } else { 0.0 };
            state.moved_bytes = n_bytes;
            let seen = Seen {
                now_s,
                used_bytes: state.used_bytes as f64,
                eligible_bytes: state.due_bytes as f64,
                is_over,
                has_fault: state.has_fault,
            };
            let decision = self.controller.decide(&seen);
            self.is_draining.store(decision.state == State::Drain, Ordering::Relaxed);
            state.decision = Some(decision);
            state.interference_s = self.controller.interference_s();
            state.has_news |= has_news;
            drop(state);
            // What was begun may go on when there is nothing more to begin; the job decides about that alone.
            let rate_bps = match decision.state {
                State::Hold | State::Stuck => 0.0,
                _ => decision.limit_bps.unwrap_or(f64::INFINITY),
            };
            pace.set_rate(rate_bps);
            if is_over {
                let since = *over_since.get_or_insert_with(Instant::now);
                if self.deadline.is_some_and(|deadline| since.elapsed() >= deadline) {
                    pace.stop();
                }
            }
            thread::sleep(TICK);
        }
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(|broken| broken.into_inner())
}
