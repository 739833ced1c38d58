//! Settings of a user or a site: defaults, over them files, over these the environment.
//!
//! Options stand above all of them and are read where they are used. A mistake changes no other setting; what it means is for [`crate::main`] to say.

use std::env;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

#[cfg(feature = "system")]
use iotide_edge::places;
use iotide_private::open_ordinary;
use iotide_report::{ConfigReport, SettingEntry};
use toml::de::{DeTable, DeValue};

/// Settings of every user of the machine; those of the user go before them.
const OF_THE_SITE: &str = "/etc/iotide/config.toml";
/// Names the only file that is read, or none if it is empty.
const FILE: &str = "IOTIDE_CONFIG";
/// A file beyond this size is not one of settings.
const MOST_BYTES: u64 = 64 << 10;

/// A setting that people can make.
struct Setting {
    name: &'static str,
    doc: &'static str,
    variable: Option<&'static str>,
    /// Empty if nothing is set.
    default: &'static str,
    expected: &'static str,
    holds: fn(&str) -> bool,
}

const SETTINGS: [Setting; 6] = [
    Setting {
        name: "units",
        doc: "Units of sizes and rates: \"si\" (1 MB = 1000 kB) or \"iec\" (1 MiB = 1024 KiB)",
        variable: Some("IOTIDE_UNITS"),
        default: "si",
        expected: "\"si\" or \"iec\"",
        holds: |value| matches!(value, "si" | "iec"),
    },
    Setting {
        name: "colour",
        doc: "Colours: \"auto\" (on a terminal), \"always\" or \"never\"",
        variable: Some("NO_COLOR"),
        default: "auto",
        expected: "\"auto\", \"always\" or \"never\"",
        holds: |value| matches!(value, "auto" | "always" | "never"),
    },
    Setting {
        name: "quiet",
        doc: "Print results and errors only, as with --quiet",
        variable: None,
        default: "false",
        expected: "true or false",
        holds: |value| matches!(value, "true" | "false"),
    },
    Setting {
        name: "daemon",
        doc: "Unix socket of the daemon to ask",
        variable: Some("IOTIDE_DAEMON"),
        default: "",
        expected: "the path of a unix socket in quotes",
        holds: |value| !value.is_empty(),
    },
    Setting {
        name: "library_dir",
        doc: "Directory for the tracer's library, for instance one that all nodes share",
        variable: None,
        default: "",
        expected: "an absolute path in quotes",
        holds: |value| value.starts_with('/'),
    },
    Setting {
        name: "thresholds",
        doc: "File of thresholds, as --settings names one",
        variable: None,
        default: "",
        expected: "an absolute path in quotes",
        holds: |value| value.starts_with('/'),
    },
];

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Origin {
    Default,
    File(PathBuf),
    Environment(&'static str),
}

/// The settings that hold.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    values: [(String, Origin); SETTINGS.len()],
    fault: Option<String>,
}

impl Config {
    /// Returns the settings of this program, which are read once.
    pub(crate) fn held() -> &'static Self {
        static HELD: OnceLock<Config> = OnceLock::new();
        HELD.get_or_init(|| Self::read(&files(), |name| env::var(name).ok()))
    }

    fn read(files: &[(PathBuf, bool)], variable: impl Fn(&str) -> Option<String>) -> Self {
        let values = SETTINGS.each_ref().map(|setting| (setting.default.to_owned(), Origin::Default));
        let mut config = Self { values, fault: None };
        for (path, must_exist) in files {
            let text = match read_text(path) {
                Err(error) if !must_exist && is_absent(&error) => continue,
                Ok(text) => text,
                Err(error) => {
                    config.fault.get_or_insert(format!("cannot read {}: {error}", path.display()));
                    continue;
                }
            };
            if let Err(fault) = config.read_table(path, &text) {
                config.fault.get_or_insert(format!("{}, {fault}", path.display()));
            }
        }
        for (setting, held) in SETTINGS.iter().zip(&mut config.values) {
            let Some(name) = setting.variable else { continue };
            let Some(value) = variable(name).filter(|value| !value.is_empty()) else { continue };
            let value = if name == "NO_COLOR" { "never".to_owned() } else { value };
            if (setting.holds)(&value) {
                *held = (value, Origin::Environment(name));
            } else {
                config.fault.get_or_insert(format!("{name}={value}: expected {}", setting.expected));
            }
        }
        config
    }

    /// Sets what a file sets; the fault is the first, with its line.
    fn read_table(&mut self, path: &Path, text: &str) -> Result<(), String> {
        let line_of = |at: usize| text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1;
        let table = DeTable::parse(text).map_err(|error| {
            format!("line {}: {}", error.span().map_or(1, |span| line_of(span.start)), error.message())
        })?;
        let mut fault = None;
        for (key, value) in table.get_ref() {
            let (line, name) = (line_of(key.span().start), &**key.get_ref());
            let Some(place) = SETTINGS.iter().position(|setting| setting.name == name) else {
                let known = SETTINGS.each_ref().map(|setting| setting.name).join(", ");
                fault.get_or_insert(format!("line {line}: there is no setting {name:?} (known: {known})"));
                continue;
            };
            let value = match value.get_ref() {
                DeValue::String(text) => text.to_string(),
                DeValue::Boolean(flag) => flag.to_string(),
                _ => String::new(),
            };
            if (SETTINGS[place].holds)(&value) {
                self.values[place] = (value, Origin::File(path.to_owned()));
            } else {
                fault.get_or_insert(format!("line {line}: {name}: expected {}", SETTINGS[place].expected));
            }
        }
        fault.map_or(Ok(()), Err)
    }

    /// The first mistake in what was read.
    pub(crate) fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    fn value(&self, name: &str) -> Option<&str> {
        let place = SETTINGS.iter().position(|setting| setting.name == name)?;
        Some(self.values[place].0.as_str()).filter(|value| !value.is_empty())
    }

    /// Whether sizes are said in powers of 1024.
    pub(crate) fn has_binary_units(&self) -> bool {
        self.value("units") == Some("iec")
    }

    /// Whether there are colours, where that is settled whatever they are written to.
    pub(crate) fn has_colours(&self) -> Option<bool> {
        match self.value("colour") {
            Some("always") => Some(true),
            Some("never") => Some(false),
            _ => None,
        }
    }

    /// Whether results and errors alone are wanted.
    pub(crate) fn is_quiet(&self) -> bool {
        self.value("quiet") == Some("true")
    }

    /// The socket of the daemon to ask.
    #[cfg(feature = "system")]
    pub(crate) fn daemon(&self) -> PathBuf {
        self.value("daemon").map_or_else(places::socket_to_ask, places::socket_named)
    }

    #[cfg(not(feature = "system"))]
    pub(crate) fn daemon(&self) -> PathBuf {
        self.value("daemon").unwrap_or_default().into()
    }

    /// The directory of the tracer's library.
    pub(crate) fn library_dir(&self) -> Option<&Path> {
        self.value("library_dir").map(Path::new)
    }

    /// The file of thresholds.
    pub(crate) fn thresholds(&self) -> Option<&Path> {
        self.value("thresholds").map(Path::new)
    }

    /// Returns what holds and where it comes from; `--quiet` is the one setting that is an option of every command.
    pub(crate) fn report(&self, is_quiet_by_option: bool) -> ConfigReport {
        let mut report = ConfigReport::new();
        for (setting, (value, origin)) in SETTINGS.iter().zip(&self.values) {
            let (source, place) = match origin {
                _ if setting.name == "quiet" && is_quiet_by_option => ("option", Some("--quiet".to_owned())),
                Origin::Default => ("default", None),
                Origin::File(path) => ("file", Some(path.display().to_string())),
                Origin::Environment(name) => ("environment", Some((*name).to_owned())),
            };
            let value = match setting.name {
                "quiet" => (is_quiet_by_option || self.is_quiet()).to_string(),
                "daemon" => self.daemon().display().to_string(),
                _ => value.clone(),
            };
            let value = Some(value).filter(|value| !value.is_empty());
            report.settings.push(SettingEntry::new(setting.name, value, source, place));
        }
        report
    }
}

/// Returns a file that sets nothing and explains everything.
pub(crate) fn example() -> String {
    let mut text = String::from(
        "# Settings of iotide, in ~/.config/iotide/config.toml. `iotide config` shows what holds.\n",
    );
    for setting in &SETTINGS {
        let example = match setting.default {
            "" => "\"/…\"".to_owned(),
            word @ ("true" | "false") => word.to_owned(),
            word => format!("{word:?}"),
        };
        text += &format!("\n# {}\n# {} = {example}\n", setting.doc, setting.name);
    }
    text
}

/// The files to read, those that go before others last, and whether each must be there.
fn files() -> Vec<(PathBuf, bool)> {
    if let Some(only) = env::var_os(FILE) {
        return if only.is_empty() { Vec::new() } else { vec![(only.into(), true)] };
    }
    let named = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let own = named("XDG_CONFIG_HOME").or_else(|| Some(named("HOME")?.join(".config")));
    let own = own.map(|folder| (folder.join("iotide/config.toml"), false));
    std::iter::once((OF_THE_SITE.into(), false)).chain(own).collect()
}

/// Whether a file that nobody named is not there for this user: `su` and its like leave the home folder of somebody else in the environment.
fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::PermissionDenied)
}

fn read_text(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    open_ordinary(path)?.take(MOST_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_testkit::FreshDir;

    fn read(text: &str, variables: &[(&str, &str)]) -> Config {
        let dir = FreshDir::new("config");
        let file = dir.write("config.toml", text);
        Config::read(&[(file, true)], |name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn a_file_goes_before_defaults_and_the_environment_before_a_file() {
        let config = read("units = \"iec\"\nquiet = true\ncolour = \"always\"\n", &[("NO_COLOR", "1")]);
        assert_eq!(config.fault(), None);
        assert!(config.has_binary_units() && config.is_quiet());
        assert_eq!(config.has_colours(), Some(false));
        let sources: Vec<String> =
            config.report(false).settings.iter().map(|row| row.source.clone()).collect();
        assert_eq!(sources, ["file", "environment", "file", "default", "default", "default"]);
    }

    #[test]
    fn a_mistake_names_its_place_and_leaves_the_other_settings() {
        let fault = |text: &str| {
            let config = read(text, &[]);
            config.fault().unwrap().split_once("config.toml, ").unwrap().1.to_owned()
        };
        assert_eq!(fault("\nunits = \"SI\"\n"), "line 2: units: expected \"si\" or \"iec\"");
        assert_eq!(fault("quiet = 1\n"), "line 1: quiet: expected true or false");
        assert!(fault("unit = \"si\"\n").starts_with("line 1: there is no setting \"unit\" (known: units,"));
        assert!(fault("units = \"si\"\nquiet = tru\n").starts_with("line 2: "));
        let config = read("units = 7\nquiet = true\n", &[("IOTIDE_UNITS", "metric")]);
        assert!(config.is_quiet() && !config.has_binary_units());
        assert_eq!(
            read("", &[("IOTIDE_UNITS", "metric")]).fault(),
            Some("IOTIDE_UNITS=metric: expected \"si\" or \"iec\"")
        );
    }

    #[test]
    fn the_example_sets_nothing_and_is_read_when_its_lines_are_used() {
        assert_eq!(read(&example(), &[]).report(false), read("", &[]).report(false));
        let text = example();
        let used = text.lines().filter_map(|line| line.strip_prefix("# "));
        let used: Vec<&str> = used
            .filter(|line| SETTINGS.iter().any(|setting| line.starts_with(&format!("{} = ", setting.name))))
            .collect();
        assert_eq!((used.len(), read(&used.join("\n"), &[]).fault()), (SETTINGS.len(), None));
    }
}
