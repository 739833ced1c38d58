//! The settings of signatures as a file: one line of TOML each.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, bail};
use iotide_analysis::SignatureConfig;

use crate::ui::Hint;

/// Sets what a file sets.
pub(super) fn read_file(config: &mut SignatureConfig, path: &Path) -> anyhow::Result<()> {
    let name = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    read(config, &text)
        .with_context(|| name.to_string())
        .hint("`iotide signature --print-settings` prints every setting with its default")
}

fn read(config: &mut SignatureConfig, text: &str) -> anyhow::Result<()> {
    let table: toml::Table =
        text.parse().map_err(|error: toml::de::Error| anyhow::anyhow!("{}", error.message()))?;
    for (key, value) in &table {
        let value = match value {
            toml::Value::Float(value) => *value,
            toml::Value::Integer(value) => *value as f64,
            toml::Value::Boolean(value) => f64::from(*value),
            _ => bail!("{key} must be a number"),
        };
        config.set(key, value)?;
    }
    Ok(())
}

/// All settings as a file that can be given with `--settings`, for people to change.
pub(super) fn commented(config: &SignatureConfig) -> String {
    let mut toml =
        String::from("# How `iotide signature` finds signatures: give this file with --settings.\n");
    for setting in SignatureConfig::settings() {
        let value = config.get(setting.key).unwrap_or(setting.default);
        let _ = writeln!(toml, "# {}\n{} = {value:?}", setting.doc, setting.key);
    }
    toml
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_can_be_read() {
        let mut config = SignatureConfig::default();
        read(&mut config, "wavelet_level = 3\ndensity = 0.7\nat_crest = true\n").unwrap();
        assert_eq!((config.iosi.wavelet_level, config.iosi.density, config.iosi.at_crest), (3, 0.7, true));
        let mut again = SignatureConfig::default();
        read(&mut again, &commented(&config)).unwrap();
        assert_eq!(again, config);
        assert!(read(&mut again, "gamma = 1\n").unwrap_err().to_string().contains("no setting \"gamma\""));
        assert!(read(&mut again, "density = \"high\"\n").is_err());
    }
}
