//! The file of thresholds: one line of TOML each, with what it means.

use std::fmt::Write;

use iotide_analysis::{CategoryConfig, CategoryMethod, CategoryThresholds};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Returns all settings as a file that [`read`] takes; with comments, if people are to change it.
pub(super) fn to_toml(config: &CategoryConfig, commented: bool) -> String {
    let mut toml = String::new();
    if commented {
        toml.push_str("# How `iotide categorize` finds labels: give this file with --settings. A line that is left out keeps its default.\n\n");
        toml.push_str("# `auto` is our own method, `mosaic` that of the paper; --method goes before.\n");
    }
    let _ = writeln!(toml, "method = \"{}\"\n\n[categories]", config.method.name());
    for setting in CategoryThresholds::SETTINGS {
        if commented {
            let _ = writeln!(toml, "# {}", setting.doc);
        }
        let value = config.thresholds.get(setting.key).unwrap_or(setting.default);
        let _ = writeln!(toml, "{} = {value:?}", setting.key);
    }
    toml
}

/// Sets what the file sets; the fault names the line and the key.
pub(super) fn read(text: &str, config: &mut CategoryConfig) -> Result<(), String> {
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
                config.method = method
                    .ok_or_else(|| format!("line {line}: method is \"auto\" or \"mosaic\", not {name:?}"))?;
            }
            ("method", _) => return Err(format!("line {line}: method is \"auto\" or \"mosaic\"")),
            ("categories", DeValue::Table(table)) => {
                for (key, value) in table {
                    let name = &**key.get_ref();
                    let set = number(value).ok_or_else(|| format!("{name} must be a number"));
                    set.and_then(|value| {
                        config.thresholds.set(name, value).map_err(|error| error.to_string())
                    })
                    .map_err(|fault| format!("line {}: {fault}", line_of(key.span().start)))?;
                }
            }
            ("categories", _) => {
                return Err(format!("line {line}: categories is a table: write [categories]"));
            }
            (other, _) => return Err(format!("line {line}: there is no setting {other:?}")),
        }
    }
    Ok(())
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
        read(text, &mut CategoryConfig::default()).unwrap_err()
    }

    #[test]
    fn what_is_printed_can_be_read() {
        let mut config = CategoryConfig { method: CategoryMethod::Mosaic, ..CategoryConfig::default() };
        config.thresholds.set("spike_requests", 12.5).unwrap();
        for commented in [true, false] {
            let mut read_back = CategoryConfig::default();
            read(&to_toml(&config, commented), &mut read_back).unwrap();
            assert_eq!(read_back, config);
        }
    }

    #[test]
    fn a_file_may_set_a_few_things_only() {
        let mut config = CategoryConfig::default();
        read(
            "[categories]\ninsignificant_bytes = 1_000_000\nlow_busy_share = 1e-1\nmultiple_spikes = 0x10\n",
            &mut config,
        )
        .unwrap();
        assert_eq!(config.thresholds.insignificant_bytes, 1e6);
        assert_eq!(config.thresholds.low_busy_share, 0.1);
        assert_eq!(config.thresholds.multiple_spikes, 16.0);
        assert_eq!(config.thresholds.spike_requests, CategoryThresholds::default().spike_requests);
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
        assert_eq!(fault("insights = 1\n"), "line 1: there is no setting \"insights\"");
        assert_eq!(fault("categories = 1\n"), "line 1: categories is a table: write [categories]");
        assert!(fault("method = \"auto\n").starts_with("line 1: "), "{}", fault("method = \"auto\n"));
    }
}
