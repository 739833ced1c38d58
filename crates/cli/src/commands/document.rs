//! One document for everything that was asked: in words, for scripts, or as a page with pictures.

use std::path::{Path, PathBuf};

use anyhow::Context;
use iotide_pages::Page;
use iotide_report::Ink;

use super::Form;
use super::report::write_pictures;
use crate::ui::Ui;

/// How a document is given.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Output")]
pub(super) struct DocumentArgs {
    /// Form of the answer
    #[arg(long, value_enum, default_value_t = Form::Text, value_name = "FORM")]
    format: Form,
    /// Write the answer to FILE rather than to stdout; a name that ends in .html gets a page with pictures
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write each picture as SVG into DIR, too
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
}

impl DocumentArgs {
    /// Returns the same as if these options had been given.
    pub(super) fn new(format: Form, output: Option<PathBuf>, svg: Option<PathBuf>) -> Self {
        Self { format, output, svg }
    }

    /// Whether anyone will look at pictures.
    pub(super) fn wants_pictures(&self) -> bool {
        self.svg.is_some() || self.page().is_some()
    }

    /// The file the answer goes to, if its name ends so.
    pub(super) fn file_ending_in(&self, end: &str) -> Option<&Path> {
        self.output.as_deref().filter(|path| path.to_string_lossy().ends_with(end))
    }

    /// Gives an answer that has its form already.
    pub(super) fn deliver_text(&self, ui: &mut Ui, answer: &str) -> anyhow::Result<()> {
        match &self.output {
            Some(path) if path != Path::new("-") => ui.answer_file(path, answer),
            _ => ui.out(answer),
        }
    }

    /// The file that a page goes to.
    fn page(&self) -> Option<&Path> {
        let path = self.output.as_deref().filter(|_| self.format == Form::Text)?;
        path.extension().is_some_and(|end| end == "html").then_some(path)
    }

    /// Gives the document.
    pub(super) fn deliver(&self, ui: &mut Ui, document: &impl Page) -> anyhow::Result<()> {
        if let Some(folder) = &self.svg {
            write_pictures(ui, folder, document)?;
        }
        if let Some(page) = self.page() {
            let answer = document.to_page().context("this answer has no page")?;
            return ui.answer_file(page, &answer);
        }
        ui.also_in_words(|width| document.to_text(width, Ink::Plain));
        let answer = match self.format {
            Form::Text => document.to_text(ui.width(), Ink::Plain),
            Form::Json => document.to_json(),
        };
        self.deliver_text(ui, &answer)
    }
}
