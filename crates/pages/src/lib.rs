//! Every answer in a browser: pages that need nothing else, pages of the daemon, and pictures for papers.
//!
//! A result of [`iotide_report`] says what was found; here is how that looks. A page is a list of sections, a section is made of tables and
//! plots of [`iotide_look`]. [`Page`] is the form of a document in a browser; [`web`] has the pages of the daemon.
//!
//! **Invariant:** judges nothing: what a page says is in the result that it shows.

use std::fmt::Write;

use iotide_look::html::escape;
use iotide_report::{Document, FitReport, LadderReport, ResizeAdvice, TemplatesReport};

#[cfg(test)]
use iotide_report::{
    DecisionEntry, GroupEntry, Published, Run, ScalingReport, SimulationReport, Source, Timeline,
};

pub use crate::{
    archive::{ListedRun, archive_page, rests},
    loop_demo::loop_page,
    run::RunPage,
    sample::{SampledRun, sample_page},
    signature::{log_page, signature_svg},
};

mod archive;
mod compare;
mod compare_history;
mod forecast;
mod job_schedule;
mod loop_demo;
mod measure;
#[cfg(test)]
mod plain_pages;
mod run;
mod sample;
#[allow(dead_code)] // Two crates show what was made by hand: neither shows all of it.
#[cfg(test)]
#[path = "../../report/src/samples.rs"]
mod samples;
mod scaling;
mod schedule;
mod signature;
mod staging_simulation;
#[cfg(test)]
#[path = "../../report/src/steering.rs"]
mod steering;
mod system;
pub mod web;
mod why;

/// A document in a browser.
pub trait Page: Document {
    /// Returns it as one page that needs nothing else; `None` if it is not shown as one.
    fn to_page(&self) -> Option<String> {
        None
    }

    /// Returns the pictures as SVG, each with a name for its file.
    fn pictures(&self) -> Vec<(String, String)> {
        Vec::new()
    }
}

impl Page for FitReport {}
impl Page for LadderReport {}
impl Page for ResizeAdvice {}
impl Page for TemplatesReport {}

/// Writes a part of a page that is read from top to bottom, with its heading.
fn section(html: &mut String, id: &str, title: &str, body: &str) {
    let _ = writeln!(html, "<section id=\"{id}\">\n<h2>{}</h2>\n{body}</section>", escape(title));
}
