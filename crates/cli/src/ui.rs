//! Where words go: results to stdout (or a file), everything else to stderr.
//!
//! Colour and progress are for terminals only, and colour not even there if `NO_COLOR` is set.
#![allow(clippy::print_stderr)] // the one place that may

use std::fmt;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

use anyhow::Context;
use iotide_report::text::printable;

/// The user's end of the program.
pub(crate) struct Ui {
    colour_out: bool,
    colour_err: bool,
    progress: bool,
    /// Whether a progress line stands on the terminal and must be wiped before anything else is said.
    progress_shown: bool,
}

impl Ui {
    pub(crate) fn new() -> Self {
        let may_colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let err_is_terminal = io::stderr().is_terminal();
        Self {
            colour_out: may_colour && io::stdout().is_terminal(),
            colour_err: may_colour && err_is_terminal,
            progress: err_is_terminal,
            progress_shown: false,
        }
    }

    /// How many columns a line of results may have: the terminal's, or 100 where nobody looks; `COLUMNS` overrides.
    pub(crate) fn width(&self) -> usize {
        let stated = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
        let seen = || terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0));
        stated.or_else(seen).unwrap_or(100).clamp(40, 200)
    }

    /// Whether results on stdout may carry colour.
    pub(crate) fn colour(&self) -> bool {
        self.colour_out
    }

    /// Writes a result to stdout.
    pub(crate) fn out(&mut self, text: &str) -> anyhow::Result<()> {
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

    /// Says what is being done or was done.
    pub(crate) fn status(&mut self, text: impl fmt::Display) {
        self.wipe_progress();
        eprintln!("{text}");
    }

    /// Says what could not be done, with the hint that travels with the error, if any.
    pub(crate) fn error(&mut self, error: &anyhow::Error) {
        self.wipe_progress();
        // A file name may hold anything, also what would steer the terminal.
        let message = printable(&format!("{error:#}"));
        eprintln!("{} {message}", self.painted(RED, "iotide:"));
        if let Some(hint) = error.chain().find_map(|cause| cause.downcast_ref::<Hinted>()) {
            eprintln!("{} {}", self.painted(CYAN, "hint:"), hint.hint);
        }
    }

    /// Shows how far the work is, on a terminal; the next word replaces it.
    pub(crate) fn progress(&mut self, text: impl fmt::Display) {
        if self.progress {
            eprint!("\r\x1b[2K{text}");
            self.progress_shown = true;
        }
    }

    /// Says what is wrong with the command line.
    pub(crate) fn usage_error(&mut self, error: &clap::Error) {
        let rendered = error.render();
        let text = if self.colour_err { rendered.ansi().to_string() } else { rendered.to_string() };
        eprint!("{}", text.replacen("error:", "iotide:", 1));
    }

    /// Prints the help or version that the command line asked for.
    pub(crate) fn answer(&mut self, answer: &clap::Error) -> anyhow::Result<()> {
        let rendered = answer.render();
        let text = if self.colour_out { rendered.ansi().to_string() } else { rendered.to_string() };
        self.out(&text)
    }

    fn wipe_progress(&mut self) {
        if std::mem::take(&mut self.progress_shown) {
            eprint!("\r\x1b[2K");
        }
    }

    fn painted(&self, colour: &str, word: &str) -> String {
        if self.colour_err { format!("{colour}{word}\x1b[0m") } else { word.to_owned() }
    }
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
