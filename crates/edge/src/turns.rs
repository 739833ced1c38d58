//! Turns at working out answers. The thread that speaks HTTP works out nothing: a few others do, and askers take turns at them, so that the questions of
//! one user hold up only that user.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use iotide_private::Limits;
use tokio::sync::oneshot;

/// Threads that work out answers. A user has one, and the last is for operators alone.
pub(crate) const PLACES: usize = 5;
const LIMITS: Limits = Limits { places: PLACES, per_user: 1, reserve: 1 };

/// Somebody who asks, where turns are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Party {
    /// Root, the daemon's user, holders of an operator's token.
    Operator,
    /// Somebody else, by a number that [`crate::doors::Doors`] gives.
    Other(u64),
}

/// Hands out turns, in rounds over those who wait.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns(Arc<Mutex<Books>>);

#[derive(Debug, Default)]
struct Books {
    working: HashMap<Party, usize>,
    total: usize,
    /// Each party that waits, once, with all its questions. They are as many as there are connections at most.
    waiting: VecDeque<(Party, VecDeque<oneshot::Sender<Turn>>)>,
}

/// A turn that lasts until this is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    turns: Turns,
    party: Party,
}

impl Turns {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a turn.
    pub(crate) async fn wait(&self, party: Party) -> Option<Turn> {
        let (give, given) = oneshot::channel();
        {
            let mut books = self.books();
            match books.waiting.iter_mut().find(|(known, _)| *known == party) {
                Some((_, questions)) => questions.push_back(give),
                None if party == Party::Operator => books.waiting.push_front((party, [give].into())),
                None => books.waiting.push_back((party, [give].into())),
            }
        }
        self.hand_out();
        given.await.ok()
    }

    /// Gives turns to those who wait, as long as there are places for them.
    fn hand_out(&self) {
        loop {
            // A peer that has hung up gives the turn back at once, so the books must not be held meanwhile.
            let Some((party, give)) = self.books().next() else { return };
            let _ = give.send(Turn { turns: self.clone(), party });
        }
    }
}

impl Books {
    /// Takes the next question that may be worked on out of the queue; its party goes to the end of it.
    fn next(&mut self) -> Option<(Party, oneshot::Sender<Turn>)> {
        for (_, questions) in &mut self.waiting {
            questions.retain(|give| !give.is_closed());
        }
        self.waiting.retain(|(_, questions)| !questions.is_empty());
        let may_work = |party: &Party| {
            let own = self.working.get(party).copied().unwrap_or(0);
            LIMITS.allows(u32::from(*party != Party::Operator), own, self.total)
        };
        let place = self.waiting.iter().position(|(party, _)| may_work(party))?;
        let (party, mut questions) = self.waiting.remove(place)?;
        let give = questions.pop_front()?;
        match party {
            _ if questions.is_empty() => {}
            Party::Operator => self.waiting.push_front((party, questions)),
            Party::Other(_) => self.waiting.push_back((party, questions)),
        }
        *self.working.entry(party).or_default() += 1;
        self.total += 1;
        Some((party, give))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        {
            let mut books = self.turns.books();
            books.total -= 1;
            if let Some(own) = books.working.get_mut(&self.party) {
                *own -= 1;
                if *own == 0 {
                    books.working.remove(&self.party);
                }
            }
        }
        self.turns.hand_out();
    }
}

/// Works something out on another thread, when it is the asker's turn; `None` if the daemon ends before.
pub(crate) async fn in_turn<T: Send + 'static>(
    turns: &Turns,
    party: Party,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let turn = turns.wait(party).await?;
    let work = tokio::task::spawn_blocking(move || {
        let done = work();
        drop(turn);
        done
    });
    work.await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().max_blocking_threads(PLACES).build().unwrap()
    }

    /// The costly question of one user ends only once the others were answered: on one thread, nobody would be.
    #[test]
    fn costly_questions_of_one_user_hold_up_neither_another_nor_the_operator() {
        runtime().block_on(async {
            let turns = Turns::default();
            let (answered, until_answered) = channel::<()>();
            let ask = |party, work: Box<dyn FnOnce() + Send>| {
                let turns = turns.clone();
                tokio::spawn(async move { in_turn(&turns, party, work).await })
            };
            let costly = ask(Party::Other(1), Box::new(move || until_answered.recv().unwrap()));
            let more: Vec<_> = (0..255).map(|_| ask(Party::Other(1), Box::new(|| {}))).collect();
            tokio::task::yield_now().await;
            for party in [Party::Other(2), Party::Operator, Party::Operator] {
                assert!(in_turn(&turns, party, || true).await.unwrap());
            }
            answered.send(()).unwrap();
            costly.await.unwrap().unwrap();
            for one in more {
                one.await.unwrap().unwrap();
            }
            assert!(turns.books().working.is_empty() && turns.books().waiting.is_empty());
        });
    }

    #[test]
    fn users_take_turns_and_operators_have_a_place_of_their_own() {
        let turns = Turns::default();
        let mut questions: Vec<(Party, oneshot::Receiver<Turn>)> = Vec::new();
        let mut ask = |party| {
            let (give, given) = oneshot::channel();
            let mut books = turns.books();
            match books.waiting.iter_mut().find(|(known, _)| *known == party) {
                Some((_, waiting)) => waiting.push_back(give),
                None => books.waiting.push_back((party, [give].into())),
            }
            questions.push((party, given));
        };
        for user in 1..=6 {
            ask(Party::Other(user));
            ask(Party::Other(user));
        }
        ask(Party::Operator);
        turns.hand_out();
        let mut held = Vec::new();
        let mut given = |questions: &mut Vec<(Party, oneshot::Receiver<Turn>)>| -> Vec<Party> {
            let mut new = Vec::new();
            questions.retain_mut(|(party, given)| match given.try_recv() {
                Ok(turn) => {
                    held.push(turn);
                    new.push(*party);
                    false
                }
                Err(_) => true,
            });
            let first = held.remove(0);
            drop(first);
            new
        };
        let others = |users: [u64; 4]| users.map(Party::Other).to_vec();
        let mut first = others([1, 2, 3, 4]);
        first.push(Party::Operator);
        assert_eq!(given(&mut questions), first);
        // While the operator's question is worked on, one of the last two places stays free. Then users who had no turn yet come first.
        assert_eq!(given(&mut questions), []);
        assert_eq!(given(&mut questions), [Party::Other(5)]);
        assert_eq!(given(&mut questions), [Party::Other(6)]);
        assert_eq!(given(&mut questions), [Party::Other(1)]);
    }

    #[test]
    fn whoever_hangs_up_keeps_no_turn() {
        runtime().block_on(async {
            let turns = Turns::default();
            let held = turns.wait(Party::Other(1)).await.unwrap();
            let gone = tokio::spawn({
                let turns = turns.clone();
                async move { turns.wait(Party::Other(1)).await }
            });
            tokio::task::yield_now().await;
            gone.abort();
            let _ = gone.await;
            drop(held);
            assert!(turns.wait(Party::Other(1)).await.is_some());
            assert_eq!(turns.books().total, 0);
        });
    }
}
