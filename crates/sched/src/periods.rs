//! Tables of jobs and their periods, as people write them.

use std::borrow::Cow;
use std::collections::HashSet;

use iotide_table::{Dialect, cells, lines};

use crate::IoProfile;

/// Where a period comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeriodSource {
    /// From a file or the control socket.
    Given,
    /// From somebody else who sees the job, such as a daemon.
    Reported,
    /// From the job's own requests.
    Predicted,
}

impl PeriodSource {
    /// Returns the name that people and scripts use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Given => "given",
            Self::Reported => "reported",
            Self::Predicted => "predicted",
        }
    }

    /// The reverse of [`Self::name`].
    pub fn of_name(name: &str) -> Option<Self> {
        [Self::Given, Self::Reported, Self::Predicted].into_iter().find(|source| source.name() == name)
    }
}

/// Reads jobs with what is known of each, in the order written: lines `job,seconds`, or a JSON object `{"job": seconds, …}`.
///
/// Of a table, empty lines and those that begin with `#` are passed over, and so is a first line `job,…` without a number. A job without
/// seconds (`null` in an object) is one of which nothing is known. An object has no commas inside a name, a table has them in quotes; jobs
/// are numbers, names or `uid:1000`.
pub fn parse_periods(text: &str) -> Result<Vec<(String, Option<IoProfile>)>, PeriodsError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let object = text.trim().strip_prefix('{');
    let is_object = object.is_some();
    let at = |number, fault| PeriodsError::Entry { number, is_line: !is_object, fault };
    let entries = match object {
        Some(rest) => members(rest.strip_suffix('}').ok_or(PeriodsError::NoEnd)?),
        None => rows(text),
    };
    let (mut periods, mut names) = (Vec::new(), HashSet::new());
    for (number, entry) in entries {
        let at = |fault| at(number, fault);
        let (job, period) = entry.map_err(at)?;
        let seconds = period.parse::<f64>();
        if periods.is_empty() && !is_object && job == "job" && seconds.is_err() && !period.is_empty() {
            continue;
        }
        if job.is_empty() {
            return Err(at(Fault::NoName));
        }
        let profile = match &*period {
            "" | "null" => None,
            _ => match seconds.ok().and_then(IoProfile::checked) {
                Some(profile) => Some(profile),
                None => return Err(at(Fault::NoTime(period.into_owned()))),
            },
        };
        if !names.insert(job.clone()) {
            return Err(at(Fault::Twice(job.into_owned())));
        }
        periods.push((job.into_owned(), profile));
    }
    Ok(periods)
}

/// The number of an entry, with its job and its seconds as they are written.
type Entry<'a> = (usize, Result<(Cow<'a, str>, Cow<'a, str>), Fault>);

/// The lines `job,seconds` of a table.
fn rows(text: &str) -> Vec<Entry<'_>> {
    let entry = |line| match cells(line, Dialect::CSV).map(<[_; 2]>::try_from) {
        Ok(Ok([job, period])) => Ok((job, period)),
        _ => Err(Fault::NoPeriod(line.trim().to_owned())),
    };
    lines(text).map(|(number, line)| (number, entry(line))).collect()
}

/// The members `"job": seconds` of an object.
fn members(body: &str) -> Vec<Entry<'_>> {
    let members = body.split(',').map(str::trim).enumerate().filter(|(_, member)| !member.is_empty());
    let entries = members.map(|(index, member)| match member.rsplit_once(':') {
        Some((job, period)) => (index + 1, Ok((job.trim().trim_matches('"').into(), period.trim().into()))),
        None => (index + 1, Err(Fault::NoPeriod(member.to_owned()))),
    });
    entries.collect()
}

/// Why a table of periods cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PeriodsError {
    /// A JSON object without its last brace.
    #[error("the object does not end")]
    NoEnd,
    /// One entry is wrong.
    #[error("{} {number}: {fault}", if *is_line { "line" } else { "entry" })]
    Entry {
        /// Which one, from 1.
        number: usize,
        /// Whether that is the number of a line.
        is_line: bool,
        /// Kind of the fault.
        fault: Fault,
    },
}

/// Fault in an entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// There is nothing after the job.
    #[error("{0:?} is no job and its period")]
    NoPeriod(String),
    /// There is nothing before the period.
    #[error("the job has no name")]
    NoName,
    /// The period is no number of seconds above zero.
    #[error("{0:?} is no positive time")]
    NoTime(String),
    /// The job was there before.
    #[error("job {0:?} is there twice")]
    Twice(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(String, Option<f64>)> {
        let periods = parse_periods(text).unwrap();
        periods.into_iter().map(|(job, profile)| (job, profile.map(|profile| profile.w_iter_s()))).collect()
    }

    #[test]
    fn a_table_with_or_without_a_head_and_an_object_say_the_same() {
        let expected =
            [("7".to_owned(), Some(19.2)), ("uid:1000".to_owned(), Some(384.0)), ("9".to_owned(), None)];
        for text in [
            "7,19.2\nuid:1000,384\n9,\n",
            "\u{feff}job,period_s\r\n7, 19.2\r\n uid:1000 , 384\r\n9,\r\n",
            "# mine\n\njob,seconds\n7,19.2\nuid:1000,384\n9,",
            "{\"7\": 19.2,\n \"uid:1000\": 384, \"9\": null}",
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
        assert_eq!(read(""), []);
        assert_eq!(read("{}"), []);
        // Not a head: a job of that name.
        assert_eq!(read("job,5\njob7,6\n"), [("job".to_owned(), Some(5.0)), ("job7".to_owned(), Some(6.0))]);
    }

    #[test]
    fn what_is_no_period_is_named() {
        for (text, said) in [
            ("7", "line 1: \"7\" is no job and its period"),
            ("1,1\n7,soon", "line 2: \"soon\" is no positive time"),
            ("job,period_s\n7,-1", "line 2: \"-1\" is no positive time"),
            ("7,1\n\n7,2", "line 3: job \"7\" is there twice"),
            (",2", "line 1: the job has no name"),
            ("{\"7\": 1, \"8\": x}", "entry 2: \"x\" is no positive time"),
            ("{\"7\": 1", "the object does not end"),
        ] {
            assert_eq!(parse_periods(text).unwrap_err().to_string(), said, "{text}");
        }
    }

    #[test]
    fn a_hundred_thousand_jobs_are_read_in_one_pass() {
        let text: String = (0..100_000).map(|job| format!("{job},10\n")).collect();
        assert_eq!(read(&text).len(), 100_000);
    }
}
