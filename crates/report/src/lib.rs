//! What a reader is told: one schema, one text form, one picture book.
//!
//! A [`Report`] is filled from what the analyses found and says it three times: [`Report::to_json`] to scripts,
//! [`Report::to_text`] to a terminal, [`page`] to a browser. This crate alone knows the names, units and rounding
//! people see; the names of its [`SCHEMA`] are only ever added to.
//!
//! ```
//! use iotide_report::Report;
//!
//! let report = Report::new("detect");
//! assert!(report.to_json().starts_with("{\n  \"schema\": \"iotide/1\",\n  \"command\": \"detect\""));
//! ```

use serde::Serialize;

pub use crate::{
    chart::{Plot, pictures},
    html::page,
    run::{Run, Source},
};

mod chart;
mod html;
mod run;
pub mod text;

/// The schema of the JSON form. The number grows only when a name changes its meaning or goes.
pub const SCHEMA: &str = "iotide/1";

/// One answer of one command.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    schema: &'static str,
    /// The command that was asked.
    pub command: &'static str,
    /// What was found, run by run.
    pub runs: Vec<Run>,
    /// Inputs of which there is no answer, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failure>,
}

/// An input of which there is no answer.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// The input.
    pub path: String,
    /// What is wrong with it.
    pub error: String,
}

impl Report {
    /// Returns a report with nothing in it yet.
    pub fn new(command: &'static str) -> Self {
        Self { schema: SCHEMA, command, runs: Vec::new(), failures: Vec::new() }
    }

    /// Returns the report as JSON, in a stable order, with a final newline.
    ///
    /// What does not exist is `null`; NaN and infinity do not exist.
    pub fn to_json(&self) -> String {
        let mut json = serde_json::to_string_pretty(self).expect("a report is made of names and numbers");
        json.push('\n');
        json
    }

    /// Returns the report for people, in lines of at most `width` columns where words allow.
    pub fn to_text(&self, width: usize) -> String {
        self.render(width, Ink::Plain)
    }

    /// The same with colours, for a terminal.
    pub fn to_coloured_text(&self, width: usize) -> String {
        self.render(width, Ink::Ansi)
    }

    fn render(&self, width: usize, ink: Ink) -> String {
        let mut out = String::new();
        for (i, run) in self.runs.iter().enumerate() {
            if i > 0 {
                out.push('\n');
            }
            out.push_str(&run.to_text(width, ink));
        }
        if !self.failures.is_empty() {
            if !self.runs.is_empty() {
                out.push('\n');
            }
            out.push_str(&format!(
                "{} could not be analysed:\n",
                text::counted(self.failures.len() as u64, "input")
            ));
            for failure in &self.failures {
                let line = format!("{}: {}", failure.path, failure.error);
                out.push_str(&format!("  {}\n", text::printable(&line)));
            }
        }
        out
    }
}

/// Whether a text carries colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ink {
    Plain,
    Ansi,
}

impl Ink {
    fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    fn faint(self, text: &str) -> String {
        self.paint("2", text)
    }

    fn accent(self, text: &str) -> String {
        self.paint("36", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        match self {
            Ink::Plain => text.to_owned(),
            Ink::Ansi => format!("\x1b[{code}m{text}\x1b[0m"),
        }
    }
}
