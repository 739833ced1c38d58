//! Findings of a reader in a thread of its own, on their way to whoever takes its turn.

use std::io::Write;
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use iotide_formats::ReadError;
use iotide_trace::{Event, EventSink, Loss, Timestamp};

/// One thing a reader says.
#[derive(Debug)]
pub(crate) enum Word {
    /// Events; with each, when the program began to wait for it, if it went on beside the program.
    Events(Vec<(Event, Option<Timestamp>)>),
    /// Something is missing.
    Loss(Loss),
    /// Another file has taken the place of the one before; said in words.
    Replaced(String),
    /// The file is of this format.
    Format(iotide_formats::Format),
    /// It cannot be read.
    Failed(ReadError),
}

/// The reader's end. Waits if nobody takes what was said before: the file keeps the rest meanwhile.
pub(crate) struct Outbox {
    words: SyncSender<Word>,
    events: Vec<(Event, Option<Timestamp>)>,
    wake: UnixStream,
}

impl Outbox {
    /// Events that travel together.
    const BATCH: usize = 1024;
    /// Words under way.
    const MOST: usize = 64;

    pub(crate) fn new(wake: UnixStream) -> (Self, Receiver<Word>) {
        let (words, receiver) = sync_channel(Self::MOST);
        (Self { words, events: Vec::new(), wake }, receiver)
    }

    /// Says it; `Break` if nobody listens any more.
    pub(crate) fn say(&mut self, word: Word) -> ControlFlow<()> {
        self.flush()?;
        self.send(word)
    }

    /// Hands over the events that wait.
    pub(crate) fn flush(&mut self) -> ControlFlow<()> {
        if self.events.is_empty() {
            return ControlFlow::Continue(());
        }
        let events = std::mem::take(&mut self.events);
        self.send(Word::Events(events))
    }

    fn send(&mut self, word: Word) -> ControlFlow<()> {
        if self.words.send(word).is_err() {
            return ControlFlow::Break(());
        }
        // If the pipe is full, someone is about to look.
        let _ = self.wake.write(&[0]);
        ControlFlow::Continue(())
    }

    pub(crate) fn push(&mut self, event: Event, waited: Option<Timestamp>) -> ControlFlow<()> {
        self.events.push((event, waited));
        if self.events.len() < Self::BATCH { ControlFlow::Continue(()) } else { self.flush() }
    }
}

/// An outbox shared with the source that the reader waits at: it hands over what waits before it waits itself.
pub(crate) struct Shared(pub(crate) std::sync::Arc<std::sync::Mutex<Outbox>>);

impl Shared {
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Outbox) -> T) -> T {
        // A reader that panicked has left nothing half done in here.
        work(&mut self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }
}

impl EventSink for Shared {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        self.with(|outbox| outbox.push(event, None))
    }
    fn async_event(&mut self, event: Event, waited: Timestamp) -> ControlFlow<()> {
        self.with(|outbox| outbox.push(event, Some(waited)))
    }
    fn loss(&mut self, loss: Loss) {
        let _ = self.with(|outbox| outbox.say(Word::Loss(loss)));
    }

    fn time_spent(&mut self, _: iotide_trace::TimeSpent) {}

    fn access_facts(&mut self, _: &iotide_trace::AccessFacts) {}
}
