//! A command that another program runs in its own process: what would be printed is kept, and handed over.

use std::cell::RefCell;
use std::ffi::OsString;
use std::io;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use clap::Parser as _;
use iotide_api::{Error, Input, OpenOptions};
use iotide_formats::Watch;
use iotide_report::text;

use crate::ExitStatus;
use crate::commands::{Daemon, InputArgs, advised, ask_daemon_at, get_from_daemon};
use crate::ui::Ui;

/// Hears how far the work is.
pub type Progress = Arc<dyn Fn(&str) + Send + Sync>;

/// Who asks: hears how far the work is, and can stop it.
#[derive(Clone, Default)]
pub struct Asker {
    /// Hears how far the work is.
    pub progress: Option<Progress>,
    /// Set to stop the work where it next says how far it is; what was done by then is not an answer.
    pub stop: Arc<AtomicBool>,
    /// The daemon to ask, if it is not that of the settings.
    pub daemon: Option<Daemon>,
    /// Existing folder for temporary results, if it is not the usual one.
    pub scratch: Option<PathBuf>,
}

impl Asker {
    pub(crate) fn wants_progress(&self) -> bool {
        self.progress.is_some()
    }

    /// Says how far the work is; unwinds if it is to stop.
    pub(crate) fn tell(&self, text: &str) {
        if let Some(progress) = &self.progress {
            progress(text);
        }
        if self.stop.load(Ordering::Relaxed) {
            // Not a panic, which would print. It unwinds the work, as far as `ask`.
            resume_unwind(Box::new(Stopped));
        }
    }

    /// Says how many events have been read, from whatever thread reads.
    fn watch(&self) -> Watch {
        let (asker, n_read) = (self.clone(), AtomicU64::new(0));
        Watch::new(move |n_more| {
            let n_read = n_read.fetch_add(n_more, Ordering::Relaxed) + n_more;
            asker.tell(&format!("{} read", text::counted(n_read, "event")));
        })
    }
}

/// Payload that unwinds when the work is to stop.
struct Stopped;

thread_local! {
    /// Who hears how many events have been read, in this thread.
    static WATCH: RefCell<Option<Watch>> = const { RefCell::new(None) };
}

/// Returns who hears how many events have been read.
pub(crate) fn watch() -> Option<Watch> {
    WATCH.with_borrow(Clone::clone)
}

/// A command's answer.
#[derive(Debug)]
pub struct Answered {
    /// How the command ended.
    pub status: ExitStatus,
    /// Bytes that the command line would write to stdout.
    pub out: Vec<u8>,
    /// The answer in words, of a command that gives a document.
    pub words: Option<String>,
    /// Remarks on the way.
    pub notes: Vec<String>,
    /// Errors, each of an input or of the whole.
    pub faults: Vec<Fault>,
}

/// An error, in the words of the command line.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Its kind.
    pub kind: FaultKind,
    /// Message.
    pub message: String,
    /// Advice on it.
    pub hint: Option<String>,
}

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// An argument or option that does not exist, or does not fit.
    Usage,
    /// An input that cannot be read or used.
    Input,
    /// Anything else.
    Other,
}

/// Keeps what would be printed.
pub(crate) struct Held {
    pub(crate) asker: Asker,
    out: Out,
    pub(crate) words: Option<String>,
    pub(crate) notes: Vec<String>,
    pub(crate) faults: Vec<Fault>,
}

impl Held {
    /// Where results are written.
    pub(crate) fn out(&self) -> Out {
        self.out.clone()
    }
}

/// Results, in memory.
#[derive(Clone, Default)]
pub(crate) struct Out(Arc<Mutex<Vec<u8>>>);

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs a command as the program would with these arguments, the first of which is its name.
///
/// No signal is handled and nothing is printed. Meant for questions: a command that acts for as long as it runs (`record`, `serve`, `mount`)
/// belongs into a process of its own.
pub fn ask(args: Vec<OsString>, asker: Asker) -> Answered {
    ask_daemon_at(asker.daemon.clone());
    WATCH.set(Some(asker.watch()));
    let held = Held { asker, out: Out::default(), words: None, notes: Vec::new(), faults: Vec::new() };
    let out = held.out();
    let mut ui = Ui::holding(held);
    let done = catch_unwind(AssertUnwindSafe(|| crate::run_args(&mut ui, args)));
    WATCH.set(None);
    let status = match done {
        Ok(status) => status,
        Err(cause) if cause.is::<Stopped>() => ExitStatus::Interrupted,
        Err(cause) => resume_unwind(cause),
    };
    let (words, notes, faults) =
        ui.into_held().map(|held| (held.words, held.notes, held.faults)).unwrap_or_default();
    let out = std::mem::take(&mut *out.0.lock().unwrap_or_else(PoisonError::into_inner));
    Answered { status, out, words, notes, faults }
}

/// Asks a daemon for a path of its HTTP API; `None` is the daemon of the settings.
pub fn ask_daemon(daemon: Option<Daemon>, path: &str) -> Result<Vec<u8>, Fault> {
    ask_daemon_at(daemon);
    get_from_daemon(path).map_err(|error| Fault::of(&error))
}

/// Reads arguments that name traces and say how they are read, as those of `iotide info`. Reading with these options tells `asker` how far it is, and
/// unwinds if it is to stop.
pub fn inputs(args: Vec<OsString>, asker: &Asker) -> Result<(Vec<Input>, OpenOptions), Fault> {
    #[derive(clap::Parser)]
    struct Inputs {
        #[command(flatten)]
        input: InputArgs,
    }
    let args = Inputs::try_parse_from(args).map_err(|error| Fault::of_usage(&error))?;
    let options = args.input.options().map_err(|error| Fault::of(&error))?;
    Ok((args.input.runs(), OpenOptions { watch: Some(asker.watch()), ..options }))
}

impl From<Error> for Fault {
    /// An error of a question, with the command line's hint.
    fn from(error: Error) -> Self {
        Fault::of(&advised(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(args: &[&str]) -> Answered {
        ask(std::iter::once("iotide").chain(args.iter().copied()).map(Into::into).collect(), Asker::default())
    }

    #[test]
    fn an_answer_is_kept_with_its_words_and_a_mistake_with_its_kind() {
        let dir = iotide_testkit::FreshDir::new("asked");
        let rows: String = (0..20).map(|i| format!("0,write,{},{}.5,1000000\n", 10 * i, 10 * i)).collect();
        let path = dir.write("run.csv", format!("rank,op,start,end,bytes\n{rows}")).display().to_string();
        let answered = asked(&["detect", "--format", "json", &path]);
        assert_eq!(answered.status, ExitStatus::Done);
        assert!(answered.out.starts_with(b"{\n  \"schema\": \"iotide/1\""));
        assert!(answered.words.is_some_and(|words| words.contains("10 s")));

        let missing = asked(&["detect", "/no/such/trace"]);
        assert_eq!((missing.status, missing.faults[0].kind), (ExitStatus::Failed, FaultKind::Input));
        let wrong = asked(&["detect", "--no-such-option", &path]);
        assert_eq!((wrong.status, wrong.faults[0].kind), (ExitStatus::Failed, FaultKind::Usage));
        assert!(wrong.faults[0].message.starts_with("unexpected argument '--no-such-option'"));
    }

    #[test]
    fn work_that_is_stopped_ends_without_an_answer() {
        let dir = iotide_testkit::FreshDir::new("asked-stopped");
        let rows = "0,write,1,2,3\n".repeat(3 << 16);
        let path = dir.write("run.csv", format!("rank,op,start,end,bytes\n{rows}"));
        let args = ["iotide", "info", &path.display().to_string()].map(Into::into).to_vec();
        let stop = Arc::new(AtomicBool::new(false));
        let heard = Arc::new(Mutex::new(Vec::new()));
        let (stopping, hearing) = (Arc::clone(&stop), Arc::clone(&heard));
        let progress: Progress = Arc::new(move |text| {
            hearing.lock().unwrap().push(text.to_owned());
            stopping.store(true, Ordering::Relaxed);
        });
        let answered = ask(args, Asker { progress: Some(progress), stop, ..Asker::default() });
        assert_eq!((answered.status, answered.out.len()), (ExitStatus::Interrupted, 0));
        assert_eq!(*heard.lock().unwrap(), ["65\u{202f}536 events read"]);
    }
}
