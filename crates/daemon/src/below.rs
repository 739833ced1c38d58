//! A daemon below, for all who have something to say to it: the task that hears it, and those who ask it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use iotide_ledger::Name;
use iotide_ledger::tree::{AskError, Downlink, Hub, LinkError, Place, Question};
use tokio::sync::{Notify, oneshot};

use crate::gather::lock;

/// The bytes of an answer, or why there is none.
pub type Answered = Result<Vec<u8>, AskError>;

/// A daemon below.
#[derive(Debug)]
pub struct Below {
    child: Place,
    /// Sends it away.
    pub leave: Notify,
    /// Notified when there is something to send to it.
    pub has_answers: Notify,
    end: Mutex<End>,
}

/// Our end of the connection.
#[derive(Debug)]
struct End {
    down: Downlink,
    /// Who waits for answers; `None` once the connection is over.
    waiting: Option<HashMap<u64, oneshot::Sender<Answered>>>,
}

impl Below {
    /// A daemon that has just connected.
    pub fn new(down: Downlink) -> Arc<Self> {
        Arc::new(Self {
            child: down.child().clone(),
            leave: Notify::new(),
            has_answers: Notify::new(),
            end: Mutex::new(End { down, waiting: Some(HashMap::new()) }),
        })
    }

    /// Who it is.
    pub fn child(&self) -> &Place {
        &self.child
    }

    /// Takes in what it says; answers go to those who wait for them.
    pub fn heard(&self, take: impl FnOnce(&mut Downlink) -> Result<(), LinkError>) -> Result<(), LinkError> {
        let mut end = lock(&self.end);
        let End { down, waiting } = &mut *end;
        let taken = take(down);
        for (id, answered) in down.take_answered() {
            if let Some(waits) = waiting.as_mut().and_then(|waiting| waiting.remove(&id)) {
                // Who has given up meanwhile misses nothing.
                let _ = waits.send(answered);
            }
        }
        if down.has_answers() {
            self.has_answers.notify_one();
        }
        taken
    }

    /// Appends what is to be sent to it.
    pub fn fill(&self, hub: &Mutex<Hub>, out: &mut Vec<u8>) {
        // The end first, as whoever hears it does.
        let mut end = lock(&self.end);
        end.down.fill(&lock(hub), out);
    }

    /// Asks it, or a node below it.
    pub fn ask(
        self: &Arc<Self>,
        node: &Name,
        n_passed: u8,
        question: &Question,
    ) -> Result<OpenQuestion, AskError> {
        let mut end = lock(&self.end);
        let End { down, waiting } = &mut *end;
        let waiting = waiting.as_mut().ok_or(AskError::Silent)?;
        let id = down.ask(node, n_passed, question)?;
        let (waits, answer) = oneshot::channel();
        waiting.insert(id, waits);
        self.has_answers.notify_one();
        Ok(OpenQuestion { below: Arc::clone(self), id, answer })
    }

    /// The connection is over: who waits for an answer learns it at once.
    pub fn over(&self) {
        lock(&self.end).waiting = None;
    }

    fn forget(&self, id: u64) {
        let mut end = lock(&self.end);
        end.down.forget(id);
        if let Some(waiting) = &mut end.waiting {
            waiting.remove(&id);
        }
    }
}

/// A question that is under way. Who drops it no longer waits, and its place is free.
#[derive(Debug)]
pub struct OpenQuestion {
    below: Arc<Below>,
    id: u64,
    answer: oneshot::Receiver<Answered>,
}

impl OpenQuestion {
    /// The answer, whenever that comes; a daemon that goes away does not answer.
    pub async fn answer(&mut self) -> Answered {
        (&mut self.answer).await.unwrap_or(Err(AskError::Silent))
    }
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        self.below.forget(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_ledger::Limits;
    use iotide_ledger::tree::{AnswerPart, Frame, Hello, MOST_OPEN, PartKind, VERSIONS, Wanted};

    fn below(hub: &Hub) -> Arc<Below> {
        let place = Place { node: Name::ours("leaf"), instance: 2 };
        let hello = Hello { versions: VERSIONS, place, proof: Vec::new() };
        Below::new(Downlink::begin(hub, &hello).unwrap().0)
    }

    fn ask(below: &Arc<Below>) -> Result<OpenQuestion, AskError> {
        let question = Question { wanted: Wanted::Names, from_s: 0, to_s: 9, points: 1 };
        below.ask(&Name::ours("leaf"), 0, &question)
    }

    /// What has come by now, without waiting.
    fn now(question: &mut OpenQuestion) -> Option<Answered> {
        match question.answer.try_recv() {
            Ok(answered) => Some(answered),
            Err(oneshot::error::TryRecvError::Empty) => None,
            Err(oneshot::error::TryRecvError::Closed) => Some(Err(AskError::Silent)),
        }
    }

    #[test]
    fn a_child_that_goes_away_ends_its_questions_at_once() {
        let place = Place { node: Name::ours("root"), instance: 1 };
        let mut hub = Hub::new(place, true, Limits::default());
        let below = below(&hub);
        let mut questions = [ask(&below).unwrap(), ask(&below).unwrap()];
        let part = AnswerPart { id: questions[0].id, number: 0, kind: PartKind::Last, bytes: b"yes" };
        below.heard(|down| down.heard(1, &Frame::Answer(part), &mut hub)).unwrap();
        assert_eq!(questions.each_mut().map(now), [Some(Ok(b"yes".to_vec())), None]);
        below.over();
        assert_eq!(now(&mut questions[1]), Some(Err(AskError::Silent)));
        assert_eq!(ask(&below).map(drop), Err(AskError::Silent));
    }

    #[test]
    fn who_no_longer_waits_makes_room_for_others() {
        let place = Place { node: Name::ours("root"), instance: 1 };
        let below = below(&Hub::new(place, true, Limits::default()));
        let mut questions: Vec<OpenQuestion> = (0..MOST_OPEN).map(|_| ask(&below).unwrap()).collect();
        assert_eq!(ask(&below).map(drop), Err(AskError::Busy));
        drop(questions.pop());
        assert!(ask(&below).is_ok());
    }
}
