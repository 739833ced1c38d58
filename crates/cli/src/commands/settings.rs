//! The file of thresholds.

use std::path::PathBuf;

use anyhow::Context;
use iotide_api::Settings;

use super::advice::advised;
use crate::config::Config;

/// Where thresholds come from.
#[derive(clap::Args, Debug)]
pub(super) struct SettingsArgs {
    /// Take thresholds from FILE; `iotide categorize --print-settings` prints them all [default: thresholds of `iotide config`]
    #[arg(long, value_name = "FILE", help_heading = "Thresholds")]
    settings: Option<PathBuf>,
}

impl SettingsArgs {
    /// The defaults, and over them what the file says.
    pub(super) fn read(&self) -> anyhow::Result<Settings> {
        let Some(path) = self.settings.as_deref().or(Config::held().thresholds()) else {
            return Ok(Settings::default());
        };
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).with_context(|| name.clone())?;
        Settings::from_toml(&name, &text).map_err(advised)
    }
}
