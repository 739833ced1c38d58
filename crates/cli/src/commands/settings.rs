//! The file of thresholds: one line of TOML each, with what it means.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use iotide_analysis::{
    CategoryConfig, CategoryMethod, CategoryThresholds, InsightConfig, InsightThresholds, Rule, Setting,
};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::ui::Hint;

/// Where thresholds come from.
#[derive(clap::Args, Debug)]
pub(super) struct SettingsArgs {
    /// Take thresholds from FILE; `iotide categorize --print-settings` prints them all
    #[arg(long, value_name = "FILE", help_heading = "Thresholds")]
    settings: Option<PathBuf>,
}

impl SettingsArgs {
    /// The defaults, and over them what the file says.
    pub(super) fn read(&self) -> anyhow::Result<Settings> {
        let mut settings = Settings::default();
        if let Some(path) = &self.settings {
            settings.read_file(path)?;
        }
        Ok(settings)
    }
}

/// Everything that people may want to decide differently.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Settings {
    pub(super) categories: CategoryConfig,
    pub(super) insights: InsightConfig,
}

impl Settings {
    fn read_file(&mut self, path: &Path) -> anyhow::Result<()> {
        let name = path.display();
        let text = std::fs::read_to_string(path).with_context(|| name.to_string())?;
        (self.read(&text).map_err(|fault| anyhow::anyhow!("{name}, {fault}")))
            .hint("`iotide categorize --print-settings` prints every setting with its default")
    }

    /// Returns all settings as a file that can be given with `--settings`, for people to change.
    pub(super) fn to_commented_toml(&self) -> String {
        let mut toml = String::from(
            "# How `iotide categorize` finds labels and `iotide report` insights: give this file with --settings. A line that is left out \
             keeps its default.\n\n# `auto` is our own method, `mosaic` that of the paper; --method goes before.\n",
        );
        toml.push_str(&categories_toml(&self.categories, true));
        toml.push_str(&insights_toml(&self.insights, true));
        toml
    }

    /// Sets what a file sets; the fault names the line and the key.
    fn read(&mut self, text: &str) -> Result<(), String> {
        let line_of = |at: usize| text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1;
        let document = DeTable::parse(text).map_err(|error| {
            let line = error.span().map_or(1, |span| line_of(span.start));
            format!("line {line}: {}", error.message())
        })?;
        for (key, value) in document.get_ref() {
            let line = line_of(key.span().start);
            match (&**key.get_ref(), value.get_ref()) {
                ("method", DeValue::String(name)) => {
                    let methods = [CategoryMethod::Auto, CategoryMethod::Mosaic];
                    let method = methods.into_iter().find(|method| method.name() == &**name);
                    self.categories.method = method.ok_or_else(|| {
                        format!("line {line}: method is \"auto\" or \"mosaic\", not {name:?}")
                    })?;
                }
                ("method", _) => return Err(format!("line {line}: method is \"auto\" or \"mosaic\"")),
                (name @ ("categories" | "insights"), DeValue::Table(table)) => {
                    for (key, value) in table {
                        let fault = |fault: String| format!("line {}: {fault}", line_of(key.span().start));
                        let key = &**key.get_ref();
                        let value = number(value).ok_or_else(|| fault(format!("{key} must be a number")))?;
                        let set = match name {
                            "categories" => self.categories.thresholds.set(key, value),
                            _ => self.insights.set(key, value),
                        };
                        set.map_err(|error| fault(error.to_string()))?;
                    }
                }
                (name @ ("categories" | "insights"), _) => {
                    return Err(format!("line {line}: {name} is a table: write [{name}]"));
                }
                (other, _) => return Err(format!("line {line}: there is no setting {other:?}")),
            }
        }
        Ok(())
    }
}

/// Returns what decides on labels, with comments or without.
pub(super) fn categories_toml(config: &CategoryConfig, commented: bool) -> String {
    let mut toml = format!("method = \"{}\"\n\n[categories]\n", config.method.name());
    put(&mut toml, CategoryThresholds::SETTINGS, commented, |key| config.thresholds.get(key));
    toml
}

/// Returns what decides on insights, with comments or without.
pub(super) fn insights_toml(config: &InsightConfig, commented: bool) -> String {
    let mut toml = String::from("\n[insights]\n");
    put(&mut toml, InsightThresholds::SETTINGS, commented, |key| config.thresholds.get(key));
    if commented {
        toml.push_str("# Rules, each with 0 for off:\n");
    }
    for rule in Rule::ALL {
        let _ = writeln!(toml, "{} = {}", rule.name(), u8::from(!config.off.contains(&rule)));
    }
    toml
}

fn put(toml: &mut String, settings: &[Setting], commented: bool, value: impl Fn(&str) -> Option<f64>) {
    for setting in settings {
        if commented {
            let _ = writeln!(toml, "# {}", setting.doc);
        }
        let _ = writeln!(toml, "{} = {:?}", setting.key, value(setting.key).unwrap_or(setting.default));
    }
}

fn number(value: &Spanned<DeValue<'_>>) -> Option<f64> {
    match value.get_ref() {
        DeValue::Float(float) => float.as_str().parse().ok(),
        DeValue::Integer(integer) => {
            i64::from_str_radix(integer.as_str(), integer.radix()).ok().map(|n| n as f64)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> String {
        Settings::default().read(text).unwrap_err()
    }

    #[test]
    fn what_is_printed_can_be_read() {
        let mut settings = Settings::default();
        settings.categories.method = CategoryMethod::Mosaic;
        settings.categories.thresholds.set("spike_requests", 12.5).unwrap();
        settings.insights.set("small_share", 0.25).unwrap();
        settings.insights.set("stdio_bulk", 0.0).unwrap();
        let mut read_back = Settings::default();
        read_back.read(&settings.to_commented_toml()).unwrap();
        assert_eq!(read_back, settings);
        let mut labels_alone = Settings::default();
        labels_alone.read(&categories_toml(&settings.categories, false)).unwrap();
        assert_eq!(labels_alone.categories, settings.categories);
    }

    #[test]
    fn a_file_may_set_a_few_things_only() {
        let mut settings = Settings::default();
        settings
            .read("[categories]\ninsignificant_bytes = 1_000_000\nlow_busy_share = 1e-1\nmultiple_spikes = 0x10\n")
            .unwrap();
        let thresholds = &settings.categories.thresholds;
        assert_eq!(thresholds.insignificant_bytes, 1e6);
        assert_eq!(thresholds.low_busy_share, 0.1);
        assert_eq!(thresholds.multiple_spikes, 16.0);
        assert_eq!(thresholds.spike_requests, CategoryThresholds::default().spike_requests);
        assert_eq!(settings.insights, InsightConfig::default());
    }

    #[test]
    fn a_mistake_is_named_with_its_line_and_key() {
        assert_eq!(
            fault("\n[categories]\nspike_request = 3\n"),
            "line 3: there is no setting \"spike_request\""
        );
        assert_eq!(
            fault("[categories]\nspike_requests = \"3\"\n"),
            "line 2: spike_requests must be a number"
        );
        assert_eq!(
            fault("[categories]\nspike_requests = -3\n"),
            "line 2: -3 is no value for spike_requests: it must be a number not below 0"
        );
        assert_eq!(fault("method = \"best\"\n"), "line 1: method is \"auto\" or \"mosaic\", not \"best\"");
        assert_eq!(fault("insights = 1\n"), "line 1: insights is a table: write [insights]");
        assert_eq!(fault("[insights]\nsmall = 1\n"), "line 2: there is no setting \"small\"");
        assert_eq!(fault("labels = 1\n"), "line 1: there is no setting \"labels\"");
        assert_eq!(fault("categories = 1\n"), "line 1: categories is a table: write [categories]");
        assert_eq!(
            fault("[categories]\nspike_requests = 3\nmost_samples = 512\n"),
            "line 3: the setting \"most_samples\" was removed: the periods are found without samples"
        );
        assert!(fault("method = \"auto\n").starts_with("line 1: "), "{}", fault("method = \"auto\n"));
    }
}
