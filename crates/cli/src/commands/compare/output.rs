//! The answer in words, for scripts, as Markdown, or as a page.

use std::path::PathBuf;

use iotide_api::{CompareDocument, HistoryDocument};

use crate::commands::Form;
use crate::commands::document::DocumentArgs;
use crate::ui::{Hint, Ui};

/// How the answer is given.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Output")]
pub(super) struct CompareOutputArgs {
    /// Form of the answer: for people, for scripts, or for the summary of a run on GitHub or GitLab
    #[arg(long, value_enum, default_value_t = CompareForm::Text, value_name = "FORM")]
    format: CompareForm,
    /// Write the answer to FILE rather than to stdout; a name that ends in .html gets a page with pictures
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write each picture as SVG into DIR, too
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum CompareForm {
    Text,
    Json,
    Markdown,
}

impl CompareOutputArgs {
    /// Gives a comparison.
    pub(super) fn deliver(&self, ui: &mut Ui, document: &CompareDocument) -> anyhow::Result<()> {
        match self.usual() {
            Some(usual) => usual.deliver(ui, document),
            None => self.in_form(Form::Text).deliver_text(ui, &document.to_markdown()),
        }
    }

    /// Gives a history.
    pub(super) fn deliver_history(&self, ui: &mut Ui, document: &HistoryDocument) -> anyhow::Result<()> {
        match self.usual() {
            Some(usual) => usual.deliver(ui, document),
            None => Err(anyhow::anyhow!("a history has no form in Markdown"))
                .hint("`-o page.html` writes a page, `--format json` its numbers"),
        }
    }

    /// As other commands give their answers; `None` for Markdown.
    fn usual(&self) -> Option<DocumentArgs> {
        match self.format {
            CompareForm::Text => Some(self.in_form(Form::Text)),
            CompareForm::Json => Some(self.in_form(Form::Json)),
            CompareForm::Markdown => None,
        }
    }

    fn in_form(&self, form: Form) -> DocumentArgs {
        DocumentArgs::new(form, self.output.clone(), self.svg.clone())
    }
}
