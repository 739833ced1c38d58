//! The same thing done to many items by a few threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Calls `act` with each item and returns the answers in the order of the items.
pub(crate) fn each<T: Sync, R: Send>(n_threads: usize, items: &[T], act: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let n_threads = n_threads.clamp(1, items.len().max(1));
    if n_threads == 1 {
        return items.iter().map(act).collect();
    }
    let next = AtomicUsize::new(0);
    let answers: Mutex<Vec<(usize, R)>> = Mutex::new(Vec::with_capacity(items.len()));
    thread::scope(|scope| {
        for _ in 0..n_threads {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(at) else { break };
                    let answer = act(item);
                    answers.lock().unwrap_or_else(|broken| broken.into_inner()).push((at, answer));
                }
            });
        }
    });
    let mut answers = answers.into_inner().unwrap_or_else(|broken| broken.into_inner());
    answers.sort_unstable_by_key(|(at, _)| *at);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_in_the_order_of_the_items() {
        let items: Vec<u32> = (0..1000).collect();
        for n in [1, 2, 16] {
            assert_eq!(
                each(n, &items, |item| item * 2),
                items.iter().map(|item| item * 2).collect::<Vec<_>>()
            );
        }
        assert!(each(4, &[] as &[u32], |item| *item).is_empty());
    }
}
