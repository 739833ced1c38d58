//! Where words go: results to stdout (or a file), everything else to stderr.
//!
//! Colour and progress are for terminals only, unless the settings say otherwise (see [`crate::config`]).

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use iotide_api::Progress;
use iotide_private::{OpenDir, Part};
use iotide_report::text::{printable, printable_lines};
use iotide_report::{Ink, mark_untrusted};

use crate::asked::{Fault, FaultKind, Held};
use crate::config::Config;

/// Writes to stderr. Whoever read it may have gone away (`2>&1 | head`), and there is nobody to tell.
fn say(text: fmt::Arguments<'_>) {
    let _ = io::stderr().write_fmt(text);
}

/// Says why the program ends, where a thread must end it and whoever has the [`Ui`] is stuck.
pub(crate) fn last_words(why: &str) {
    say(format_args!("iotide: {}\n", printable(why)));
}

/// The user's end of the program.
pub(crate) struct Ui {
    colour_out: bool,
    colour_err: bool,
    progress: bool,
    /// Whether results and errors alone are printed.
    quiet: bool,
    /// Whether a progress line stands on the terminal and must be wiped before anything else is printed.
    progress_shown: bool,
    /// Where everything goes that would be printed, for a program that asks in this process.
    held: Option<Held>,
}

impl Ui {
    pub(crate) fn new() -> Self {
        let may_colour = std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let err_is_terminal = io::stderr().is_terminal();
        let config = Config::held();
        let coloured = |is_terminal| config.has_colours().unwrap_or(may_colour && is_terminal);
        Self {
            colour_out: coloured(io::stdout().is_terminal()),
            colour_err: coloured(err_is_terminal),
            progress: err_is_terminal && !config.is_quiet(),
            quiet: config.is_quiet(),
            progress_shown: false,
            held: None,
        }
    }

    /// Keeps what would be printed; see [`crate::ask`].
    pub(crate) fn holding(held: Held) -> Self {
        Self {
            colour_out: false,
            colour_err: false,
            progress: held.asker.wants_progress(),
            quiet: false,
            progress_shown: false,
            held: Some(held),
        }
    }

    /// Returns what was kept in the place of printing it.
    pub(crate) fn into_held(self) -> Option<Held> {
        self.held
    }

    /// The flag by which a program that asks in this process stops the work.
    pub(crate) fn stop_of_asker(&self) -> Option<Arc<AtomicBool>> {
        self.held.as_ref().map(|held| Arc::clone(&held.asker.stop))
    }

    /// Keeps the answer in words, in lines of the width it is called with, beside its JSON, for a program that asks in this process.
    pub(crate) fn also_in_words(&mut self, words: impl FnOnce(usize) -> String) {
        let width = self.width();
        if let Some(held) = &mut self.held {
            held.words = Some(words(width));
        }
    }

    /// Folder for temporary results; `None` is the usual one.
    pub(crate) fn scratch(&self) -> Option<&Path> {
        self.held.as_ref()?.asker.scratch.as_deref()
    }

    /// Prints results and errors alone from now on.
    pub(crate) fn be_quiet(&mut self) {
        self.quiet = true;
        self.progress = false;
    }

    /// Whether results and errors alone are printed.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// How many columns a line of results may have: the terminal's, or 100 where nobody looks; `COLUMNS` overrides.
    pub(crate) fn width(&self) -> usize {
        if self.held.is_some() {
            return 100;
        }
        let stated = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
        let seen = || terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0));
        stated.or_else(seen).unwrap_or(100).clamp(40, 200)
    }

    /// The colours of results on stdout.
    pub(crate) fn ink(&self) -> Ink {
        if self.colour_out { Ink::Ansi } else { Ink::Plain }
    }

    /// Writes a result to stdout.
    pub(crate) fn out(&mut self, text: &str) -> anyhow::Result<()> {
        if let Some(held) = &self.held {
            return held.out().write_all(text.as_bytes()).context("cannot keep the answer");
        }
        self.wipe_progress();
        let mut stdout = io::stdout().lock();
        match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(ReaderGone.into()),
            written => written.context("cannot write to stdout"),
        }
    }

    /// Writes a result to a file.
    pub(crate) fn out_file(&mut self, path: &Path, text: &str) -> anyhow::Result<()> {
        File::create(path)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Writes the answer to a file, and says so.
    pub(crate) fn answer_file(&mut self, path: &Path, text: &str) -> anyhow::Result<()> {
        self.out_file(path, text)?;
        if path.extension().is_some_and(|ending| ending == "html") {
            self.status(format_args!("open {} in a browser", path.display()));
        } else {
            self.status(format_args!("written to {}", path.display()));
        }
        Ok(())
    }

    /// Writes one of several results to a file in a folder for them.
    pub(crate) fn out_file_in(&mut self, folder: &OpenDir, name: &str, text: &str) -> anyhow::Result<()> {
        let written = folder.replace(name).and_then(|mut part| {
            part.write_all(text.as_bytes())?;
            part.finish()
        });
        written.with_context(|| format!("cannot write {}", folder.path().join(name).display()))
    }

    /// Opens where a long result goes as it is made: a file, or stdout.
    pub(crate) fn out_stream(&mut self, file: Option<&Path>) -> anyhow::Result<OutStream> {
        if let (Some(held), None) = (&self.held, file) {
            return Ok(OutStream::of(Sink::Open(Box::new(held.out())), "the answer".to_owned()));
        }
        self.wipe_progress();
        OutStream::open(file)
    }

    /// Whether results on stdout are looked at by a person.
    pub(crate) fn out_is_terminal(&self) -> bool {
        self.held.is_none() && io::stdout().is_terminal()
    }

    /// Says what is being done or was done.
    pub(crate) fn status(&mut self, text: impl fmt::Display) {
        if !self.quiet {
            self.warning(text);
        }
    }

    /// Says what went wrong without ending the work.
    pub(crate) fn warning(&mut self, text: impl fmt::Display) {
        if let Some(held) = &mut self.held {
            return held.notes.push(unmarked(&text));
        }
        self.wipe_progress();
        say(format_args!("{}\n", printable_lines(&text.to_string())));
    }

    /// Says what could not be done, with the hint that travels with the error, if any.
    pub(crate) fn error(&mut self, error: &anyhow::Error) {
        self.wipe_progress();
        let Fault { message, hint, .. } = match &mut self.held {
            Some(held) => return held.faults.push(Fault::of(error)),
            None => Fault::of(error),
        };
        say(format_args!("{} {message}\n", self.painted(RED, "iotide:")));
        if let Some(hint) = hint {
            say(format_args!("{} {hint}\n", self.painted(CYAN, "hint:")));
        }
    }

    /// Shows how far the work is, on a terminal; the next word replaces it.
    pub(crate) fn progress(&mut self, text: impl fmt::Display) {
        if let Some(held) = &self.held {
            return held.asker.tell(&text.to_string());
        }
        if self.progress {
            say(format_args!("\r\x1b[2K{}", printable(&text.to_string())));
            self.progress_shown = true;
        }
    }

    /// Shows how far a question is.
    pub(crate) fn progress_of(&mut self, question: &Progress<'_>) {
        match question {
            Progress::Reading { name, nth, of } => {
                self.progress(format_args!("reading {name} ({nth} of {of})"));
            }
            Progress::Asking { server, percent } => {
                self.progress(format_args!("asking {server} ({percent} %)"));
            }
            Progress::AskingAgain { why } => self.progress(format_args!("{why}; asking again")),
            _ => {}
        }
    }

    /// Whether a progress bar would be seen.
    pub(crate) fn shows_progress(&self) -> bool {
        self.progress
    }

    /// Shows how far the work is as a bar, once it is known how much there is; the next word replaces it.
    pub(crate) fn progress_bar(&mut self, n_done: u64, n_total: Option<u64>, text: impl fmt::Display) {
        let Some(n_total) = n_total.filter(|&n_total| n_total > 0 && self.held.is_none()) else {
            return self.progress(text);
        };
        self.progress(format_args!("{} {text}", bar(n_done, n_total)));
    }

    /// Says what is wrong with the command line.
    pub(crate) fn usage_error(&mut self, error: &clap::Error) {
        let rendered = error.render();
        if let Some(held) = &mut self.held {
            return held.faults.push(Fault::of_usage(error));
        }
        let text = if self.colour_err { rendered.ansi().to_string() } else { rendered.to_string() };
        say(format_args!("{}", text.replacen("error:", "iotide:", 1)));
    }

    /// Prints the help or version that the command line asked for.
    pub(crate) fn answer(&mut self, answer: &clap::Error) -> anyhow::Result<()> {
        let rendered = answer.render();
        let text = if self.colour_out { rendered.ansi().to_string() } else { rendered.to_string() };
        self.out(&text)
    }

    fn wipe_progress(&mut self) {
        if std::mem::take(&mut self.progress_shown) {
            say(format_args!("\r\x1b[2K"));
        }
    }

    fn painted(&self, colour: &str, word: &str) -> String {
        if self.colour_err { format!("{colour}{word}\x1b[0m") } else { word.to_owned() }
    }
}

/// A result that is written piece by piece.
///
/// A file appears under its name only when it is whole: what replaces a file may be made from it, and a part must not
/// pass for the whole.
pub(crate) struct OutStream {
    out: BufWriter<Sink>,
    /// Name of the output in messages.
    shown: String,
}

impl OutStream {
    fn open(file: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = file.filter(|path| *path != Path::new("-")) else {
            return Ok(Self::of(Sink::Open(Box::new(io::stdout())), "to stdout".to_owned()));
        };
        let shown = path.display().to_string();
        let failed = || format!("cannot write {shown}");
        // A pipe or a device is there to be written to, not to be replaced.
        if path.metadata().is_ok_and(|metadata| !metadata.is_file()) {
            let file = File::options().write(true).open(path).with_context(failed)?;
            return Ok(Self::of(Sink::Open(Box::new(file)), shown));
        }
        let name = path.file_name().with_context(failed)?;
        let folder = OpenDir::open(path.parent().unwrap_or(Path::new(""))).with_context(failed)?;
        let part = folder.replace(name).with_context(failed)?;
        Ok(Self::of(Sink::Part(part), shown))
    }

    fn of(out: Sink, shown: String) -> Self {
        Self { out: BufWriter::with_capacity(64 << 10, out), shown }
    }

    /// Reports that writing failed; a reader of stdout that went away has an error of its own.
    pub(crate) fn failed(&self, error: io::Error) -> anyhow::Error {
        if error.kind() == io::ErrorKind::BrokenPipe && matches!(self.out.get_ref(), Sink::Open(_)) {
            return ReaderGone.into();
        }
        anyhow::Error::new(error).context(format!("cannot write {}", self.shown))
    }

    /// Writes what is left, and gives a file its name.
    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
        self.out.flush().map_err(|error| self.failed(error))?;
        match self.out.into_parts().0 {
            Sink::Open(_) => Ok(()),
            Sink::Part(part) => part.finish().with_context(|| format!("cannot write {}", self.shown)),
        }
    }
}

impl Write for OutStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Where the bytes of a result go.
enum Sink {
    Open(Box<dyn Write + Send>),
    Part(Part),
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::Open(out) => out.write(bytes),
            Sink::Part(part) => part.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::Open(out) => out.flush(),
            Sink::Part(part) => part.flush(),
        }
    }
}

/// Returns a message without marks around the names it quotes: who asked marks it as a whole.
fn unmarked(message: &dyn fmt::Display) -> String {
    let is_marked = mark_untrusted(false);
    let message = message.to_string();
    mark_untrusted(is_marked);
    message
}

const RED: &str = "\x1b[1;31m";
const CYAN: &str = "\x1b[1;36m";

/// The reader of stdout has gone away, and so should we, quietly.
#[derive(Debug)]
pub(crate) struct ReaderGone;

impl fmt::Display for ReaderGone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nobody reads stdout any more")
    }
}

impl std::error::Error for ReaderGone {}

/// Adds advice to an error: the message says what is wrong, the hint what to do about it.
pub(crate) trait Hint<T> {
    fn hint(self, hint: impl Into<String>) -> anyhow::Result<T>;
}

impl<T, E: Into<anyhow::Error>> Hint<T> for Result<T, E> {
    fn hint(self, hint: impl Into<String>) -> anyhow::Result<T> {
        self.map_err(|error| Hinted { error: error.into(), hint: hint.into() }.into())
    }
}

/// An error that knows what could be done.
#[derive(Debug)]
struct Hinted {
    error: anyhow::Error,
    hint: String,
}

impl fmt::Display for Hinted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)
    }
}

impl std::error::Error for Hinted {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

impl Fault {
    /// An error in words. A file name may hold anything, also what would steer the terminal.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        let hint = error.chain().find_map(|cause| cause.downcast_ref::<Hinted>());
        Self {
            kind: kind_of(error),
            message: printable(&unmarked(&format_args!("{error:#}"))),
            hint: hint.map(|hinted| printable(&hinted.hint)),
        }
    }

    /// A mistake in a command line, in clap's words.
    pub(crate) fn of_usage(error: &clap::Error) -> Self {
        let message = error.render().to_string();
        let message = message.trim_start_matches("error: ").trim_end().to_owned();
        Self { kind: FaultKind::Usage, message, hint: None }
    }
}

/// Whose mistake an error is: that of an input which cannot be read or used, or something else.
fn kind_of(error: &anyhow::Error) -> FaultKind {
    type Cause<'a> = &'a (dyn std::error::Error + 'static);
    let is_of_input = |cause: Cause<'_>| cause.is::<iotide_api::Error>() || cause.is::<io::Error>();
    let is_found = error.chain().any(|cause| match cause.downcast_ref::<Hinted>() {
        Some(hinted) => hinted.error.chain().any(is_of_input),
        None => is_of_input(cause),
    });
    if is_found { FaultKind::Input } else { FaultKind::Other }
}

/// How far the work is, in 24 characters.
fn bar(n_done: u64, n_total: u64) -> String {
    const CELLS: u64 = 24;
    let filled = CELLS * n_done.min(n_total) / n_total.max(1);
    "█".repeat(filled as usize) + &"░".repeat((CELLS - filled) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_is_empty_at_first_and_full_at_last() {
        assert_eq!(bar(0, 15), "░".repeat(24));
        assert_eq!(bar(15, 15), "█".repeat(24));
        assert_eq!(bar(5, 15).chars().filter(|c| *c == '█').count(), 8);
    }
}
