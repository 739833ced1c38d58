//! Questions about nodes below: waiting for answers, and answering those who are above.

use std::sync::Arc;
use std::time::Duration;

use iotide_ledger::tree::{Ask, AskError, Question};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use iotide_daemon::below::{Answered, OpenQuestion};
use iotide_daemon::gather::Tree;

/// A node that has not answered by then does not.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// Answers that are read from disk at once.
const MOST_READ: usize = 2;

/// Waits for an answer, but not for long.
pub(crate) async fn wait(mut question: OpenQuestion) -> Answered {
    timeout(ANSWER_WITHIN, question.answer()).await.unwrap_or(Err(AskError::Silent))
}

/// What this machine's metrics were over time, for those who ask from above.
pub(crate) struct Samples {
    read: Box<dyn Fn(&Question) -> Answered + Send + Sync>,
    turns: Arc<Semaphore>,
}

impl Samples {
    pub(crate) fn new(read: impl Fn(&Question) -> Answered + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { read: Box::new(read), turns: Arc::new(Semaphore::new(MOST_READ)) })
    }

    /// A disk that does not answer holds its turn, and a thread; nothing else waits for it.
    async fn of(self: Arc<Self>, question: Question) -> Answered {
        let Ok(turn) = Arc::clone(&self.turns).acquire_owned().await else { return Err(AskError::Silent) };
        let read = spawn_blocking(move || {
            let answered = (self.read)(&question);
            drop(turn);
            answered
        });
        read.await.unwrap_or(Err(AskError::Unreadable))
    }
}

/// Answers what is asked from above: of this machine, or of one below, which is asked in turn.
pub(super) async fn answer(tree: &Tree, samples: Arc<Samples>, ask: Ask) -> Answered {
    let question = ask.question.ok_or(AskError::NotKnown)?;
    let is_own = tree.hub().own.node == ask.node;
    if is_own {
        return timeout(ANSWER_WITHIN, samples.of(question)).await.unwrap_or(Err(AskError::Silent));
    }
    wait(tree.ask(&ask.node, ask.n_passed.saturating_add(1), &question)?).await
}
