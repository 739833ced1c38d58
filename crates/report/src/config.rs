//! Settings that hold, and where each comes from.

use iotide_look::{Ink, text};
use serde::Serialize;

use crate::Document;
use crate::jobs::table;

/// The settings of a user or a site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConfigReport {
    schema: &'static str,
    command: &'static str,
    /// Each setting.
    pub settings: Vec<SettingEntry>,
}

/// A setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SettingEntry {
    /// Its name in a file.
    pub name: String,
    /// Its value, if it is set.
    pub value: Option<String>,
    /// `default`, `file`, `environment` or `option`.
    pub source: String,
    /// The file, variable or option that sets it.
    pub place: Option<String>,
}

impl SettingEntry {
    /// Returns the entry of a setting.
    pub fn new(name: &str, value: Option<String>, source: &str, place: Option<String>) -> Self {
        Self { name: name.to_owned(), value, source: source.to_owned(), place }
    }
}

impl ConfigReport {
    /// Returns a report without settings.
    #[expect(clippy::new_without_default, reason = "one without settings is no default of anything")]
    pub fn new() -> Self {
        Self { schema: crate::SCHEMA, command: "config", settings: Vec::new() }
    }
}

impl Document for ConfigReport {
    fn to_text(&self, _: usize, _: Ink) -> String {
        let rows: Vec<[String; 3]> = (self.settings.iter())
            .map(|row| {
                let value = row.value.as_deref().unwrap_or("–");
                let from = row.place.as_deref().unwrap_or(&row.source);
                [&row.name, value, from].map(text::printable)
            })
            .collect();
        table(&["setting", "value", "from"], &rows)
    }

    fn to_json(&self) -> String {
        text::json_document(self)
    }
}
