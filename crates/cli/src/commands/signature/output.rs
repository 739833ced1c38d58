//! Where signatures go, and in which form.

use std::path::{Path, PathBuf};

use iotide_report::{Ink, SignatureEntry, SignatureTable};

use crate::commands::Form;
use crate::ui::{OutStream, Ui};

/// One place for the answer.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// `None` is stdout.
    file: Option<PathBuf>,
    pub(super) kind: Kind,
}

/// A form of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Form given by `--format`.
    Plain(Form),
    Page,
    Picture,
    /// JSON Lines, one signature a line.
    Lines,
    /// Parquet, one signature a row.
    Table,
}

/// Returns where to write what: stdout if no file is named.
pub(super) fn targets(files: &[PathBuf], form: Form) -> Vec<Target> {
    if files.is_empty() {
        return vec![Target { file: None, kind: Kind::Plain(form) }];
    }
    let target = |file: &PathBuf| Target { file: Some(file.clone()), kind: kind_of(file, form) };
    files.iter().map(target).collect()
}

fn kind_of(file: &Path, form: Form) -> Kind {
    match file.extension().and_then(|ending| ending.to_str()) {
        Some("html") => Kind::Page,
        Some("svg") => Kind::Picture,
        Some("jsonl") => Kind::Lines,
        Some("parquet") => Kind::Table,
        Some("json") => Kind::Plain(Form::Json),
        _ => Kind::Plain(form),
    }
}

impl Target {
    /// Returns the name of the target in messages.
    pub(super) fn shown(&self) -> String {
        self.file.as_ref().map_or_else(|| "stdout".to_owned(), |file| file.display().to_string())
    }

    /// Colour for a terminal alone.
    pub(super) fn ink(&self, ui: &Ui) -> Ink {
        if self.file.is_none() { ui.ink() } else { Ink::Plain }
    }

    /// Writes all of it at once.
    pub(super) fn write(&self, ui: &mut Ui, text: &str) -> anyhow::Result<()> {
        match &self.file {
            Some(file) if file != Path::new("-") => ui.answer_file(file, text),
            _ => ui.out(text),
        }
    }

    /// Writes some signatures as a table.
    pub(super) fn write_table<'a>(
        &self,
        ui: &mut Ui,
        entries: impl IntoIterator<Item = &'a SignatureEntry>,
    ) -> anyhow::Result<()> {
        let mut table = Table::open(ui, self)?;
        for entry in entries {
            table.push(entry)?;
        }
        table.finish()
    }

    /// Opens it for what comes piece by piece.
    pub(super) fn open(&self, ui: &mut Ui) -> anyhow::Result<OutStream> {
        ui.out_stream(self.file.as_deref())
    }
}

/// A Parquet file that grows.
pub(super) struct Table {
    table: SignatureTable<OutStream>,
    shown: String,
}

impl Table {
    pub(super) fn open(ui: &mut Ui, target: &Target) -> anyhow::Result<Self> {
        let shown = target.shown();
        let table = SignatureTable::new(target.open(ui)?).map_err(|error| failed(&shown, error))?;
        Ok(Self { table, shown })
    }

    pub(super) fn push(&mut self, entry: &SignatureEntry) -> anyhow::Result<()> {
        self.table.push(entry).map_err(|error| failed(&self.shown, error))
    }

    pub(super) fn finish(self) -> anyhow::Result<()> {
        self.table.finish().map_err(|error| failed(&self.shown, error))?.finish()
    }
}

fn failed(shown: &str, error: std::io::Error) -> anyhow::Error {
    anyhow::Error::new(error).context(format!("cannot write {shown}"))
}
