//! Many logs at once, and none that holds up the rest.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How often the pool looks around while nothing comes in.
const TICK: Duration = Duration::from_millis(100);

/// Work of the workers on a task.
pub(crate) trait Work: Send + Sync + 'static {
    type Task: Send + 'static;
    type Outcome: Send + 'static;
    /// Does it.
    fn work(&self, task: &Self::Task) -> Self::Outcome;
    /// Returns what stands for the outcome of a task that did not end in time, or that brought its worker down.
    fn failed(&self, task: &Self::Task, why: String) -> Self::Outcome;
}

/// Hands the tasks that `feed` sends to `n_workers` threads, one task each, and every outcome to `take`.
///
/// `feed` runs on a thread of its own and waits while the workers are busy, so that few tasks wait in memory; it ends when
/// its sender fails, which is when `stop` was set. A worker that takes longer than `time_limit` over a task is left to
/// itself: its task has failed, another thread takes its place, and what it may still find is dropped. `take` is called on
/// this thread, every now and then with `None`.
pub(crate) fn run<W: Work>(
    work: Arc<W>,
    n_workers: usize,
    time_limit: Duration,
    stop: Arc<AtomicBool>,
    feed: impl FnOnce(SyncSender<W::Task>) + Send + 'static,
    mut take: impl FnMut(Option<W::Outcome>),
) where
    W::Task: Clone,
{
    let n_workers = n_workers.max(1);
    let (task_in, task_out) = sync_channel(2 * n_workers);
    let (report_in, reports) = sync_channel(4 * n_workers);
    let shared = Shared { work, tasks: Arc::new(Mutex::new(Some(task_out))), reports: report_in, stop };
    let mut workers: HashMap<u64, Arc<Mutex<Desk<W::Task>>>> = HashMap::new();
    let mut next_id = 0;
    let mut hire = |workers: &mut HashMap<_, _>| {
        let desk = Arc::new(Mutex::new(Desk { task: None, since: Instant::now(), dismissed: false }));
        let (id, shared, at) = (next_id, shared.clone(), desk.clone());
        next_id += 1;
        workers.insert(id, desk);
        thread::spawn(move || worker(id, &shared, &at));
    };
    for _ in 0..n_workers {
        hire(&mut workers);
    }
    let feeder = thread::spawn(move || feed(task_in));
    while !workers.is_empty() {
        match reports.recv_timeout(TICK) {
            Ok(Report::Outcome(outcome)) => take(Some(outcome)),
            Ok(Report::Gone(id)) => {
                workers.remove(&id);
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => take(None),
        }
        let mut late = Vec::new();
        for (&id, desk) in &workers {
            let mut desk = locked(desk);
            if desk.task.is_some() && desk.since.elapsed() > time_limit {
                desk.dismissed = true;
                late.extend(desk.task.take().map(|task| (id, task)));
            }
        }
        for (id, task) in late {
            workers.remove(&id);
            hire(&mut workers);
            let why = format!("it took longer than the limit of {} s", time_limit.as_secs());
            take(Some(shared.work.failed(&task, why)));
        }
    }
    // The feeder may wait for someone to take its next task; now that fails.
    drop(locked(&shared.tasks).take());
    let _ = feeder.join();
}

/// State of a worker.
struct Desk<T> {
    task: Option<T>,
    since: Instant,
    /// Nobody waits for it any more.
    dismissed: bool,
}

enum Report<O> {
    Outcome(O),
    Gone(u64),
}

struct Shared<W: Work> {
    work: Arc<W>,
    /// `None` once nobody takes tasks any more.
    tasks: Arc<Mutex<Option<Receiver<W::Task>>>>,
    reports: SyncSender<Report<W::Outcome>>,
    stop: Arc<AtomicBool>,
}

impl<W: Work> Clone for Shared<W> {
    fn clone(&self) -> Self {
        let Self { work, tasks, reports, stop } = self;
        Self { work: work.clone(), tasks: tasks.clone(), reports: reports.clone(), stop: stop.clone() }
    }
}

fn worker<W: Work>(id: u64, shared: &Shared<W>, desk: &Mutex<Desk<W::Task>>)
where
    W::Task: Clone,
{
    while !shared.stop.load(Ordering::Relaxed) {
        // Waiting happens under the lock; one thread waits for the channel, the others for the lock.
        let task = locked(&shared.tasks).as_ref().and_then(|tasks| tasks.recv().ok());
        let Some(task) = task else { break };
        {
            let mut desk = locked(desk);
            desk.task = Some(task.clone());
            desk.since = Instant::now();
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| shared.work.work(&task))).unwrap_or_else(|panic| {
            let said = panic.downcast_ref::<String>().map(String::as_str);
            let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it did not say why");
            shared.work.failed(&task, format!("a fault of iotide itself: {said}"))
        });
        {
            let mut desk = locked(desk);
            if desk.dismissed {
                return;
            }
            desk.task = None;
        }
        if shared.reports.send(Report::Outcome(outcome)).is_err() {
            return;
        }
    }
    let _ = shared.reports.send(Report::Gone(id));
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits as many milliseconds as the task says; 13 is a bug.
    struct Sleeper;

    impl Work for Sleeper {
        type Task = u64;
        type Outcome = String;
        fn work(&self, task: &u64) -> String {
            assert_ne!(*task, 13, "thirteen");
            thread::sleep(Duration::from_millis(*task));
            format!("{task} done")
        }
        fn failed(&self, task: &u64, why: String) -> String {
            format!("{task}: {}", why.lines().next().unwrap_or_default())
        }
    }

    fn outcomes(tasks: Vec<u64>, time_limit: Duration) -> Vec<String> {
        let mut seen = Vec::new();
        let feed = move |out: SyncSender<u64>| {
            for task in tasks {
                if out.send(task).is_err() {
                    return;
                }
            }
        };
        run(Arc::new(Sleeper), 3, time_limit, Arc::default(), feed, |outcome| seen.extend(outcome));
        seen.sort();
        seen
    }

    #[test]
    fn every_task_has_one_outcome() {
        let mut expected: Vec<String> = (0..200).map(|i| format!("{} done", i % 3)).collect();
        expected.sort();
        assert_eq!(outcomes((0..200).map(|i| i % 3).collect(), Duration::from_secs(60)), expected);
    }

    #[test]
    fn tasks_that_never_end_hold_up_nobody() {
        let mut tasks = vec![100_000; 4];
        tasks.extend([0; 20]);
        let seen = outcomes(tasks, Duration::from_secs(1));
        assert_eq!(seen.iter().filter(|outcome| *outcome == "0 done").count(), 20);
        let late = "100000: it took longer than the limit of 1 s";
        assert_eq!(seen.iter().filter(|outcome| *outcome == late).count(), 4, "{seen:?}");
    }

    #[test]
    fn a_task_that_brings_its_worker_down_is_told() {
        let seen = outcomes(vec![13, 1, 13], Duration::from_secs(60));
        assert_eq!(seen[0], "1 done");
        assert!(seen[1].starts_with("13: a fault of iotide itself: "), "{seen:?}");
    }

    #[test]
    fn a_pool_that_is_stopped_takes_no_more_tasks() {
        let stop = Arc::new(AtomicBool::new(false));
        let (mut n_seen, flag) = (0, stop.clone());
        let feed = |out: SyncSender<u64>| while out.send(1).is_ok() {};
        run(Arc::new(Sleeper), 2, Duration::from_secs(60), stop, feed, |outcome| {
            n_seen += usize::from(outcome.is_some());
            if n_seen == 5 {
                flag.store(true, Ordering::Relaxed);
            }
        });
        assert!((5..20).contains(&n_seen), "{n_seen}");
    }
}
