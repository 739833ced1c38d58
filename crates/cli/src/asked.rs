//! A command that another program runs in its own process: what would be printed is kept, and handed over.

use std::ffi::OsString;
use std::io;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use clap::Parser as _;
use iotide_api::{Error, Input, OpenOptions};

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
    /// Set to stop work that can be stopped; what was done by then is not an answer.
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

    pub(crate) fn tell(&self, text: &str) {
        if let Some(progress) = &self.progress {
            progress(text);
        }
    }
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
    let held = Held { asker, out: Out::default(), words: None, notes: Vec::new(), faults: Vec::new() };
    let out = held.out();
    let mut ui = Ui::holding(held);
    let status = crate::run_args(&mut ui, args);
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

/// Reads arguments that name traces and say how they are read, as those of `iotide info`.
pub fn inputs(args: Vec<OsString>) -> Result<(Vec<Input>, OpenOptions), Fault> {
    #[derive(clap::Parser)]
    struct Inputs {
        #[command(flatten)]
        input: InputArgs,
    }
    let args = Inputs::try_parse_from(args).map_err(|error| Fault::of_usage(&error))?;
    let options = args.input.options().map_err(|error| Fault::of(&error))?;
    Ok((args.input.runs(), options))
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
}
