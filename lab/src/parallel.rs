//! Many independent questions on all cores, with answers in the order of the questions.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Returns `answer(0)` … `answer(n − 1)`.
pub fn map<T: Send>(n: usize, answer: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let n_threads = std::thread::available_parallelism().map_or(1, usize::from).min(n.max(1));
    let next = AtomicUsize::new(0);
    let answers = Mutex::new(Vec::with_capacity(n));
    std::thread::scope(|scope| {
        for _ in 0..n_threads {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= n {
                        return;
                    }
                    let one = answer(i);
                    answers.lock().expect("no thread panicked").push((i, one));
                }
            });
        }
    });
    let mut answers = answers.into_inner().expect("no thread panicked");
    answers.sort_by_key(|(i, _)| *i);
    answers.into_iter().map(|(_, one)| one).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn answers_come_in_the_order_of_the_questions() {
        assert_eq!(super::map(100, |i| i * i), (0..100).map(|i| i * i).collect::<Vec<_>>());
        assert_eq!(super::map(0, |i| i), Vec::<usize>::new());
    }
}
