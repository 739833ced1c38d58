//! Bytes that jobs read and write, by their names: from traces of earlier runs, stated, or by labels.

use std::collections::BTreeMap;

use serde_json::Value;

use super::workload::{FigureClass, MOST_PHASES};
use crate::fields::{Bound, Fields, WorkloadError, fault};

/// More names than this are a mistake rather than a table.
const MOST_NAMES: usize = 1_000_000;
/// More traces of one name than this say no more.
const MOST_TRACES: usize = 1000;

/// Known I/O of jobs of one name.
#[derive(Clone, Debug, PartialEq)]
pub enum IoKnown {
    /// Traces of earlier runs.
    Traces(Vec<String>),
    /// Bytes in all, and in how many phases, by who says so.
    Stated {
        /// In all.
        bytes: f64,
        /// In so many phases.
        phases: u32,
        /// Who says so.
        class: FigureClass,
    },
    /// Labels of `iotide categorize`.
    Labels(Vec<String>),
}

/// Known I/O of jobs, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IoTable {
    /// By the name of jobs, or their id.
    pub known: BTreeMap<String, IoKnown>,
}

impl IoTable {
    /// Reads `{"climate": ["a.darshan", "b.darshan"], "solver": {"bytes": 1e12, "phases": 20, "class": "runs"}, "small": {"labels": ["read_insignificant",
    /// "write_insignificant"]}}`.
    pub fn from_json(text: &str) -> Result<Self, WorkloadError> {
        let value: Value =
            serde_json::from_str(text).map_err(|error| fault("", format!("is not JSON: {error}")))?;
        let Value::Object(names) = &value else { return Err(fault("", "is not an object of names of jobs")) };
        if names.len() > MOST_NAMES {
            return Err(fault("", format!("has {} names, more than {MOST_NAMES}", names.len())));
        }
        let known = names.iter().map(|(name, value)| Ok((name.clone(), read_known(name, value)?)));
        Ok(Self { known: known.collect::<Result<_, _>>()? })
    }
}

fn read_known(name: &str, value: &Value) -> Result<IoKnown, WorkloadError> {
    let texts = |place: &str, list: &[Value]| -> Result<Vec<String>, WorkloadError> {
        if list.is_empty() || list.len() > MOST_TRACES {
            return Err(fault(place, format!("has {} entries, not 1 to {MOST_TRACES}", list.len())));
        }
        let text = |value: &Value| value.as_str().map(str::to_owned);
        list.iter().map(|value| text(value).ok_or_else(|| fault(place, "is not a list of texts"))).collect()
    };
    match value {
        Value::String(path) => return Ok(IoKnown::Traces(vec![path.clone()])),
        Value::Array(paths) => return Ok(IoKnown::Traces(texts(name, paths)?)),
        _ => {}
    }
    let fields = Fields::of(name, value, &["bytes", "phases", "class", "labels"])?;
    if let Some(Value::Array(labels)) = fields.get("labels") {
        return match ["bytes", "phases", "class"].into_iter().find(|other| fields.get(other).is_some()) {
            Some(other) => Err(fault(name, format!("has both labels and {other}"))),
            None => Ok(IoKnown::Labels(texts(&fields.at("labels"), labels)?)),
        };
    }
    let bytes = fields.number("bytes", Bound::NotNegative)?.ok_or_else(|| fields.missing("bytes"))?;
    let phases = fields.count("phases")?.unwrap_or(1);
    if phases > MOST_PHASES {
        return Err(fault(&fields.at("phases"), format!("is {phases}, but must be at most {MOST_PHASES}")));
    }
    let class = match fields.text("class")? {
        None | Some("user") => FigureClass::User,
        Some("runs") => FigureClass::Runs,
        Some(other) => {
            return Err(fault(&fields.at("class"), format!("{other:?} is neither runs nor user")));
        }
    };
    Ok(IoKnown::Stated { bytes, phases: phases as u32, class })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_or_refused_with_the_place() {
        let table = IoTable::from_json(
            r#"{"a": "x.csv", "b": ["y", "z"], "c": {"bytes": 5, "phases": 2, "class": "runs"}, "d": {"labels": ["read_insignificant"]}}"#,
        )
        .unwrap();
        assert_eq!(table.known["a"], IoKnown::Traces(vec!["x.csv".to_owned()]));
        assert_eq!(table.known["c"], IoKnown::Stated { bytes: 5.0, phases: 2, class: FigureClass::Runs });
        assert_eq!(table.known["d"], IoKnown::Labels(vec!["read_insignificant".to_owned()]));
        let says = |text: &str| IoTable::from_json(text).unwrap_err().to_string();
        assert!(says("[]").contains("is not an object of names"));
        assert_eq!(says(r#"{"a": {}}"#), "a.bytes is missing");
        assert_eq!(says(r#"{"a": {"bytes": -1}}"#), "a.bytes is -1, but must be 0 or more");
        assert_eq!(says(r#"{"a": []}"#), "a has 0 entries, not 1 to 1000");
        assert_eq!(says(r#"{"a": [1]}"#), "a is not a list of texts");
        assert_eq!(
            says(r#"{"a": {"bytes": 1, "class": "god"}}"#),
            r#"a.class "god" is neither runs nor user"#
        );
        assert_eq!(says(r#"{"a": {"bytes": 1, "labels": ["x"]}}"#), "a has both labels and bytes");
        assert!(says(r#"{"a": {"byte": 1}}"#).contains("unknown field \"byte\""));
        assert!(says(r#"{"a": {"bytes": 1, "phases": 9999999}}"#).contains("at most 1000000"));
    }
}
