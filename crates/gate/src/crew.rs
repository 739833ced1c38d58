//! Threads for what may take long, so that those which read the kernel's requests never wait.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use iotide_private::{Share, Shares};

/// Something to do.
pub type Task = Box<dyn FnOnce() + Send>;

/// Threads that come when there is work and go when there has been none for a while, or when nobody has the crew any more.
#[derive(Clone)]
pub struct Crew {
    owned: Arc<Owned>,
}

/// Handle of those who give work; the threads that do it hold none.
struct Owned {
    shared: Arc<Shared>,
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.work.notify_all();
    }
}

impl std::fmt::Debug for Crew {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Crew").field("max_threads", &self.owned.shared.max_threads).finish_non_exhaustive()
    }
}

struct Shared {
    state: Mutex<State>,
    work: Condvar,
    max_threads: usize,
    /// Places for tasks that may wait for something a user does, and those that wait for one of the places.
    places: Shares,
    queued: Mutex<HashMap<u32, VecDeque<Task>>>,
}

#[derive(Default)]
struct State {
    tasks: VecDeque<Task>,
    n_threads: usize,
    n_idle: usize,
    is_over: bool,
}

/// How long a thread waits for work before it goes.
const PATIENCE: Duration = Duration::from_secs(10);

impl Crew {
    /// A crew of at most that many.
    pub fn new(max_threads: usize) -> Self {
        Self::with_places(max_threads, Shares::for_one(max_threads))
    }

    /// A crew of at most that many and one for each of the places: whatever users do, the others are free for [`Crew::run`].
    pub fn with_places(max_threads: usize, places: Shares) -> Self {
        let shared = Shared {
            state: Mutex::default(),
            work: Condvar::new(),
            max_threads: max_threads.max(1),
            places,
            queued: Mutex::default(),
        };
        Self { owned: Arc::new(Owned { shared: Arc::new(shared) }) }
    }

    /// Has a task done that may wait for long, as for a file that someone has leased: only so many of a user at once, so that nobody
    /// can have all threads wait.
    pub fn run_for(&self, user: u32, task: Task) {
        let mut queued = self.owned.shared.queued.lock().unwrap_or_else(PoisonError::into_inner);
        match self.owned.shared.places.take(user) {
            Some(place) => {
                drop(queued);
                self.run_in(place, user, task);
            }
            None => queued.entry(user).or_default().push_back(task),
        }
    }

    fn run_in(&self, place: Share, user: u32, task: Task) {
        let crew = self.clone();
        self.run(Box::new(move || {
            task();
            drop(place);
            crew.go_on(user);
        }));
    }

    /// A place is free: whoever of the same user waits has it, else someone else.
    fn go_on(&self, user: u32) {
        let mut queued = self.owned.shared.queued.lock().unwrap_or_else(PoisonError::into_inner);
        let others: Vec<u32> = queued.keys().copied().filter(|other| *other != user).collect();
        for user in others.into_iter().chain([user]) {
            let Some(tasks) = queued.get_mut(&user) else { continue };
            let Some(place) = self.owned.shared.places.take(user) else { continue };
            let task = tasks.pop_front();
            if tasks.is_empty() {
                queued.remove(&user);
            }
            if let Some(task) = task {
                drop(queued);
                return self.run_in(place, user, task);
            }
        }
    }

    /// Has `task` done, at once if a thread is free or may be hired.
    pub fn run(&self, task: Task) {
        let mut state = self.owned.shared.lock();
        state.tasks.push_back(task);
        if state.tasks.len() > state.n_idle && state.n_threads < self.owned.shared.max_threads {
            let shared = Arc::clone(&self.owned.shared);
            let hired = thread::Builder::new().name("iotide-crew".to_owned()).spawn(move || shared.work());
            match hired {
                Ok(_) => state.n_threads += 1,
                // Those that are there will come to it; without any, do it here.
                Err(_) if state.n_threads > 0 => {}
                Err(_) => {
                    let task = state.tasks.pop_back();
                    drop(state);
                    if let Some(task) = task {
                        task();
                    }
                    return;
                }
            }
        }
        drop(state);
        self.owned.shared.work.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut state = self.lock();
        loop {
            if let Some(task) = state.tasks.pop_front() {
                drop(state);
                task();
                state = self.lock();
                continue;
            }
            if state.is_over {
                state.n_threads -= 1;
                return;
            }
            state.n_idle += 1;
            let (woken, waited) =
                self.work.wait_timeout(state, PATIENCE).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.n_idle -= 1;
            if waited.timed_out() && state.tasks.is_empty() {
                state.n_threads -= 1;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::mpsc::channel;

    #[test]
    fn tasks_that_wait_for_each_other_all_run() {
        let crew = Crew::new(8);
        let barrier = Arc::new(Barrier::new(8));
        let (done, all_done) = channel();
        for index in 0..8 {
            let (barrier, done) = (Arc::clone(&barrier), done.clone());
            crew.run(Box::new(move || {
                barrier.wait();
                done.send(index).unwrap();
            }));
        }
        let mut seen: Vec<i32> = all_done.iter().take(8).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..8).collect::<Vec<_>>());
    }

    #[test]
    fn tasks_of_one_user_that_wait_for_ever_keep_nobody_else_waiting() {
        let crew = Crew::with_places(2 + 8, Shares::among_users(8));
        let (release, held) = channel::<()>();
        let held = Arc::new(Mutex::new(held));
        let (done, is_done) = channel();
        for _ in 0..100 {
            let (held, done) = (Arc::clone(&held), done.clone());
            crew.run_for(
                1000,
                Box::new(move || {
                    let _ = held.lock().unwrap().recv();
                    done.send(1000).unwrap();
                }),
            );
        }
        for user in [1001, 0] {
            let done = done.clone();
            crew.run_for(user, Box::new(move || done.send(user).unwrap()));
            assert_eq!(is_done.recv().unwrap(), user);
        }
        let also_done = done.clone();
        crew.run(Box::new(move || also_done.send(1).unwrap()));
        assert_eq!(is_done.recv().unwrap(), 1);
        drop(release);
        assert!(is_done.iter().take(100).all(|user| user == 1000));
    }

    #[test]
    fn threads_end_with_the_crew_and_what_was_to_be_done_is_done() {
        let crew = Crew::new(4);
        let shared = Arc::downgrade(&crew.owned.shared);
        let (done, all_done) = channel();
        for index in 0..100 {
            let done = done.clone();
            crew.run(Box::new(move || done.send(index).unwrap()));
        }
        drop(crew);
        assert_eq!(all_done.iter().take(100).count(), 100);
        while shared.strong_count() > 0 {
            thread::yield_now();
        }
    }

    #[test]
    fn more_tasks_than_threads_are_done_in_the_end() {
        let crew = Crew::new(2);
        let (done, all_done) = channel();
        for index in 0..1000 {
            let done = done.clone();
            crew.run(Box::new(move || done.send(index).unwrap()));
        }
        assert_eq!(all_done.iter().take(1000).sum::<i32>(), 999 * 500);
    }
}
