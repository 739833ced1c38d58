//! How anything looks, whatever it is: units, numbers, one table, one plot, one shell, escaping.
//!
//! [`text`] says numbers as people do, [`chart`] draws them, [`html`] is the shell that every page has. Text that came from outside is
//! [`Untrusted`], and leaves by the way that makes it harmless where it goes; [`policy`] lets a page run and wear only what it was made with.
//!
//! ```
//! use iotide_look::{Untrusted, html, text};
//!
//! assert_eq!(text::bandwidth(1.3e9), "1.3 GB/s");
//! let name = Untrusted::from("<b>\u{1b}[31m.csv");
//! assert_eq!(name.for_html(), "&lt;b&gt;\\u{1b}[31m.csv");
//! assert!(html::head("a page", &html::own_style(""), "").starts_with("<!DOCTYPE html>"));
//! ```
//!
//! **Invariant:** knows nothing of jobs, traces or storage; no file, clock or thread.

pub use crate::{
    chart::Plot,
    figure::Numbers,
    untrusted::{MARKS, Untrusted, mark_untrusted},
};

pub mod chart;
pub mod figure;
pub mod html;
pub mod palette;
pub mod policy;
pub mod quantity;
pub mod text;
mod untrusted;

/// Whether a text carries colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    /// It does not.
    Plain,
    /// It does, for a terminal.
    Ansi,
}

impl Ink {
    /// For headings.
    pub fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// For what matters less.
    pub fn faint(self, text: &str) -> String {
        self.paint("2", text)
    }

    /// For what matters most.
    pub fn accent(self, text: &str) -> String {
        self.paint("36", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        match self {
            Ink::Plain => text.to_owned(),
            Ink::Ansi => format!("\x1b[{code}m{text}\x1b[0m"),
        }
    }
}
