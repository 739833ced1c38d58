//! Places of connections whose peers have proved nothing yet: where places are short, the oldest of these goes first.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use iotide_private::{Share, Shares};
use tokio::task::AbortHandle;

/// Connections from which nothing has come that counts, the oldest first.
#[derive(Default)]
pub(crate) struct Silent(VecDeque<Connection>);

struct Connection {
    number: u32,
    task: AbortHandle,
    has_spoken: Arc<AtomicBool>,
}

impl Connection {
    fn is_silent(&self) -> bool {
        !self.task.is_finished() && !self.has_spoken.load(Ordering::Relaxed)
    }
}

impl Silent {
    /// Takes a place for the peer with this number, and ends silent connections for it. A peer that has its whole share loses only its own.
    pub(crate) async fn place(&mut self, shares: &Shares, number: u32) -> Option<Share> {
        loop {
            if let Some(place) = shares.take(number) {
                return Some(place);
            }
            let has_share = !shares.is_short_of_others(number);
            if !self.end_oldest(|known| !has_share || known == number) {
                return None;
            }
            // It gives its place back when it is next its turn.
            tokio::task::yield_now().await;
        }
    }

    pub(crate) fn add(&mut self, number: u32, task: AbortHandle, has_spoken: Arc<AtomicBool>, most: usize) {
        if self.0.len() >= 2 * most {
            self.0.retain(Connection::is_silent);
        }
        self.0.push_back(Connection { number, task, has_spoken });
    }

    /// Ends the oldest of some; says whether there was one.
    fn end_oldest(&mut self, is_one: impl Fn(u32) -> bool) -> bool {
        self.0.retain(Connection::is_silent);
        let Some(place) = self.0.iter().position(|known| is_one(known.number)) else { return false };
        if let Some(oldest) = self.0.remove(place) {
            oldest.task.abort();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A door with eight places, and what became of those who came.
    struct Door {
        shares: Shares,
        silent: Silent,
        tasks: Vec<(u32, tokio::task::JoinHandle<()>)>,
    }

    impl Door {
        async fn connect(&mut self, number: u32, has_spoken: bool) {
            let place = self.silent.place(&self.shares, number).await.unwrap();
            let task = tokio::spawn(async move {
                std::future::pending::<()>().await;
                drop(place);
            });
            let has_spoken = Arc::new(AtomicBool::new(has_spoken));
            self.silent.add(number, task.abort_handle(), has_spoken, 8);
            self.tasks.push((number, task));
        }

        fn n_open(&self, of: u32) -> usize {
            self.tasks.iter().filter(|(number, task)| *number == of && !task.is_finished()).count()
        }
    }

    #[test]
    fn the_oldest_silent_one_goes_and_who_floods_ends_only_their_own() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut door =
                Door { shares: Shares::among_users(8), silent: Silent::default(), tasks: Vec::new() };
            door.connect(2, false).await;
            door.connect(3, false).await;
            for _ in 0..100 {
                door.connect(1, false).await;
            }
            assert_eq!([1, 2, 3].map(|number| door.n_open(number)), [2, 1, 1]);
            // Where all places are taken, the oldest silent ones go, whoever they are of; those who have spoken stay.
            for number in [4, 5, 6, 7, 8, 7] {
                door.connect(number, true).await;
            }
            assert_eq!([1, 2, 3].map(|number| door.n_open(number)), [2, 0, 0]);
            assert_eq!([4, 5, 6, 7, 8].map(|number| door.n_open(number)), [1, 1, 1, 2, 1]);
        });
    }
}
