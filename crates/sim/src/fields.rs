//! Reading a description in JSON: what is wrong is said with its place.

use serde_json::{Map, Value};

/// Fault in a description of a workload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{fault}", if place.is_empty() { String::new() } else { format!("{place} ") })]
pub struct WorkloadError {
    /// Where, as `jobs[3].compute_s`; empty is the whole.
    pub place: String,
    /// The fault.
    pub fault: String,
}

pub(crate) fn fault(place: &str, fault: impl Into<String>) -> WorkloadError {
    WorkloadError { place: place.to_owned(), fault: fault.into() }
}

/// The fields of one object of a description.
pub(crate) struct Fields<'a> {
    pub(crate) place: &'a str,
    pub(crate) map: &'a Map<String, Value>,
}

#[derive(Clone, Copy)]
pub(crate) enum Bound {
    Positive,
    NotNegative,
}

impl<'a> Fields<'a> {
    pub(crate) fn of(place: &'a str, value: &'a Value, known: &[&str]) -> Result<Self, WorkloadError> {
        let Value::Object(map) = value else { return Err(fault(place, "is not an object")) };
        // A misspelt setting that is silently ignored would be a wrong answer.
        if let Some(unknown) = map.keys().find(|key| !known.contains(&key.as_str())) {
            return Err(fault(
                place,
                format!("has an unknown field {unknown:?}; there are {}", known.join(", ")),
            ));
        }
        Ok(Self { place, map })
    }

    pub(crate) fn at(&self, name: &str) -> String {
        if self.place.is_empty() { name.to_owned() } else { format!("{}.{name}", self.place) }
    }

    /// Returns an optional field; `None` if it is absent or null.
    pub(crate) fn get(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<&'a str>, WorkloadError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| fault(&self.at(name), "is not a text"))
    }

    /// A list of at most so many; empty, if it is left out.
    pub(crate) fn list(&self, name: &str, most: usize) -> Result<&'a [Value], WorkloadError> {
        match self.get(name) {
            None => Ok(&[]),
            Some(Value::Array(list)) if list.len() <= most => Ok(list),
            Some(Value::Array(list)) => {
                Err(fault(&self.at(name), format!("has {} entries, more than {most}", list.len())))
            }
            Some(_) => Err(fault(&self.at(name), "is not a list")),
        }
    }

    pub(crate) fn missing(&self, name: &str) -> WorkloadError {
        fault(&self.at(name), "is missing")
    }

    pub(crate) fn number(&self, name: &str, bound: Bound) -> Result<Option<f64>, WorkloadError> {
        let value = match self.map.get(name) {
            None | Some(Value::Null) => return Ok(None),
            Some(value) => value.as_f64().ok_or_else(|| fault(&self.at(name), "is not a number"))?,
        };
        let (is_within, what) = match bound {
            Bound::Positive => (value > 0.0, "positive"),
            Bound::NotNegative => (value >= 0.0, "0 or more"),
        };
        if is_within && value.is_finite() {
            Ok(Some(value))
        } else {
            Err(fault(&self.at(name), format!("is {value}, but must be {what}")))
        }
    }

    pub(crate) fn count(&self, name: &str) -> Result<Option<u64>, WorkloadError> {
        match self.map.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_u64() {
                Some(count) if count > 0 => Ok(Some(count)),
                _ => Err(fault(&self.at(name), "is not a whole number above 0")),
            },
        }
    }
}

pub(crate) fn read_frame(value: &Value) -> Result<[f64; 2], WorkloadError> {
    let ends: Option<Vec<f64>> = value.as_array().map(|ends| ends.iter().filter_map(Value::as_f64).collect());
    match ends.as_deref() {
        Some(&[from_s, to_s]) if value.as_array().is_some_and(|ends| ends.len() == 2) => {
            if 0.0 <= from_s && from_s < to_s && to_s.is_finite() {
                Ok([from_s, to_s])
            } else {
                Err(fault("frame_s", format!("[{from_s}, {to_s}] does not begin before it ends")))
            }
        }
        _ => Err(fault("frame_s", "is not a list of two times")),
    }
}
