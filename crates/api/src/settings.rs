//! The file of thresholds: one line of TOML each, with what it means.

use std::fmt::Write;

use iotide_analysis::{
    CategoryConfig, CategoryMethod, CategoryThresholds, IssueConfig, IssueId, IssueThresholds, Setting,
    SignatureConfig,
};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::Error;

/// Everything that people may want to decide differently.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// How labels are found.
    pub categories: CategoryConfig,
    /// How I/O issues are found.
    pub issues: IssueConfig,
}

impl Settings {
    /// Returns the defaults, and over them what a file called `name` sets.
    pub fn from_toml(name: &str, text: &str) -> Result<Self, Error> {
        let mut settings = Self::default();
        settings.read(text).map_err(|fault| Error::Settings { name: name.to_owned(), fault })?;
        Ok(settings)
    }

    /// Returns all settings as a file that can be given with `--settings`, for people to change.
    pub fn to_commented_toml(&self) -> String {
        let mut toml = String::from(
            "# How `iotide categorize` finds labels and `iotide report` issues: give this file with --settings. A line that is left out \
             keeps its default.\n\n# `auto` is our own method, `mosaic` that of the paper; --method goes before.\n",
        );
        toml.push_str(&categories_toml(&self.categories, true));
        toml.push_str(&issues_toml(&self.issues, true));
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
                (name @ ("categories" | "issues" | "insights"), DeValue::Table(table)) => {
                    for (key, value) in table {
                        let fault = |fault: String| format!("line {}: {fault}", line_of(key.span().start));
                        let key = &**key.get_ref();
                        let value = number(value).ok_or_else(|| fault(format!("{key} must be a number")))?;
                        let set = match name {
                            "categories" => self.categories.thresholds.set(key, value),
                            _ => self.issues.set(key, value),
                        };
                        set.map_err(|error| fault(error.to_string()))?;
                    }
                }
                (name @ ("categories" | "issues" | "insights"), _) => {
                    return Err(format!("line {line}: {name} is a table: write [{name}]"));
                }
                (other, _) => return Err(format!("line {line}: there is no setting {other:?}")),
            }
        }
        Ok(())
    }
}

/// Returns what decides on labels, with comments or without.
pub fn categories_toml(config: &CategoryConfig, commented: bool) -> String {
    let mut toml = format!("method = \"{}\"\n\n[categories]\n", config.method.name());
    put(&mut toml, CategoryThresholds::SETTINGS, commented, |key| config.thresholds.get(key));
    toml
}

/// Returns what decides on issues, with comments or without.
pub fn issues_toml(config: &IssueConfig, commented: bool) -> String {
    let mut toml = String::from("\n[issues]\n");
    put(&mut toml, IssueThresholds::SETTINGS, commented, |key| config.thresholds.get(key));
    if commented {
        toml.push_str("# Checks, each with 0 for off:\n");
    }
    for id in IssueId::ALL {
        let _ = writeln!(toml, "{} = {}", id.name(), u8::from(!config.off.contains(id)));
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

/// Sets what a file called `name` sets of how signatures are found.
pub fn set_signature(config: &mut SignatureConfig, name: &str, text: &str) -> Result<(), Error> {
    read_signature(config, text).map_err(|fault| Error::SignatureSettings { name: name.to_owned(), fault })
}

fn read_signature(config: &mut SignatureConfig, text: &str) -> Result<(), String> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| error.message().to_owned())?;
    for (key, value) in &table {
        let value = match value {
            toml::Value::Float(value) => *value,
            toml::Value::Integer(value) => *value as f64,
            toml::Value::Boolean(value) => f64::from(*value),
            _ => return Err(format!("{key} must be a number")),
        };
        config.set(key, value).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Returns all of that as such a file, for people to change.
pub fn signature_toml(config: &SignatureConfig) -> String {
    let mut toml =
        String::from("# How `iotide signature` finds signatures: give this file with --settings.\n");
    put(&mut toml, &SignatureConfig::settings(), true, |key| config.get(key));
    toml
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
        settings.issues.set("small_share", 0.25).unwrap();
        settings.issues.set("stdio_bulk", 0.0).unwrap();
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
        assert_eq!(settings.issues, IssueConfig::default());
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

    #[test]
    fn the_settings_of_signatures_can_be_read_back() {
        let mut config = SignatureConfig::default();
        read_signature(&mut config, "wavelet_level = 3\ndensity = 0.7\nat_crest = true\n").unwrap();
        assert_eq!((config.iosi.wavelet_level, config.iosi.density, config.iosi.at_crest), (3, 0.7, true));
        let mut again = SignatureConfig::default();
        read_signature(&mut again, &signature_toml(&config)).unwrap();
        assert_eq!(again, config);
        assert!(read_signature(&mut again, "gamma = 1\n").unwrap_err().contains("no setting \"gamma\""));
        assert!(read_signature(&mut again, "density = \"high\"\n").is_err());
    }
}
