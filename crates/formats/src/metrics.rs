//! Metrics that others sampled over time: which of them are bytes moved, and what lies between two samples.

use iotide_trace::{Event, FileId, Grain, Layer, Op, Rank, Timestamp};

/// How the values of a metric are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// A count that only grows: the difference of two values was moved between them.
    Total,
    /// A rate: each value holds since the sample before.
    Rate,
}

/// Tells what a metric says about bytes moved, by its name and labels; `None` if it is about something else.
pub(crate) fn meaning_of(name: &str) -> Option<(Op, Reading)> {
    let name = name.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    let is_bytes =
        has(&["bytes", "size", "throughput", "bandwidth"]) && !has(&["memory", "_mem_", "cache_size"]);
    is_bytes.then_some(())?;
    Some((direction_of(&name)?, reading_of(&name)))
}

/// Which way a metric counts, by a word in its name or labels.
pub(crate) fn direction_of(name: &str) -> Option<Op> {
    let name = name.to_ascii_lowercase();
    // The word that comes last is the closest to the value: `read_cache_written_bytes` were written.
    let last = |words: &[&str]| words.iter().filter_map(|word| name.rfind(word)).max();
    match (last(&["read", "receive", "_rx"]), last(&["writ", "transmit", "_tx", "sent"])) {
        (Some(read), Some(written)) => Some(if read > written { Op::Read } else { Op::Write }),
        (Some(_), None) => Some(Op::Read),
        (None, Some(_)) => Some(Op::Write),
        (None, None) => None,
    }
}

/// Whether a metric is a total, by the endings Prometheus asks for; a derivative of one is not.
pub(crate) fn reading_of(name: &str) -> Reading {
    let bare = name.split('{').next().unwrap_or(name);
    let is_rate = ["deriv", "rate", "per_second", "throughput", "bandwidth", "percent", "irate"];
    let is_total = bare.ends_with("_total") || bare.contains("bytes") || bare.contains("size");
    if is_total && !is_rate.iter().any(|word| bare.contains(word)) { Reading::Total } else { Reading::Rate }
}

/// One metric's samples, turned into bins as they come.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) op: Op,
    pub(crate) reading: Reading,
    pub(crate) rank: Rank,
    pub(crate) file: FileId,
    last: Option<(Timestamp, f64)>,
}

/// Why a sample makes no bin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    NotANumber,
    NotAfterTheLast,
}

impl std::fmt::Display for Unusable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Unusable::NotANumber => "a sample that is not an amount at a time",
            Unusable::NotAfterTheLast => "a sample that is not after the one before",
        })
    }
}

impl Series {
    pub(crate) fn new(op: Op, reading: Reading) -> Self {
        Self { op, reading, rank: Rank::ALL, file: FileId::NONE, last: None }
    }

    /// Takes the next sample; returns what lies between it and the one before, if anything does.
    pub(crate) fn push(&mut self, at_s: f64, value: f64) -> Result<Option<Event>, Unusable> {
        let at = Timestamp::from_secs_since_start(at_s).ok_or(Unusable::NotANumber)?;
        if !(0.0..=1e30).contains(&value) {
            return Err(Unusable::NotANumber);
        }
        let Some((start, before)) = self.last else {
            self.last = Some((at, value));
            return Ok(None);
        };
        if at <= start {
            return Err(Unusable::NotAfterTheLast);
        }
        self.last = Some((at, value));
        let bytes = match self.reading {
            // Less than before: the counter began anew.
            Reading::Total if value < before => value,
            Reading::Total => value - before,
            Reading::Rate => value * at.secs_since(start),
        };
        let Series { op, rank, file, .. } = *self;
        let (layer, grain) = (Layer::Server, Grain::Bin);
        Ok((bytes > 0.0).then_some(Event { op, layer, grain, rank, file, start, end: at, bytes, calls: 1 }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_bytes_direction_and_whether_they_add_up() {
        for (name, meaning) in [
            ("node_disk_written_bytes_total{device=\"sda\"}", Some((Op::Write, Reading::Total))),
            ("node_disk_read_bytes_total", Some((Op::Read, Reading::Total))),
            ("deriv__strace_size__write", Some((Op::Write, Reading::Rate))),
            ("lustre_write_throughput", Some((Op::Write, Reading::Rate))),
            ("proxy_cpu_usage_percent{name=\"cpu0\"}", None),
            ("node_memory_read_bytes", None),
            ("node_filesystem_size_bytes", None),
        ] {
            assert_eq!(meaning_of(name), meaning, "{name}");
        }
    }

    #[test]
    fn a_total_that_falls_began_anew() {
        let mut series = Series::new(Op::Write, Reading::Total);
        let bytes: Vec<f64> = [(0.0, 5.0), (1.0, 8.0), (2.0, 8.0), (3.0, 2.0)]
            .into_iter()
            .filter_map(|(at, value)| series.push(at, value).unwrap())
            .map(|event| event.bytes)
            .collect();
        assert_eq!(bytes, [3.0, 2.0]);
        assert_eq!(series.push(3.0, 9.0), Err(Unusable::NotAfterTheLast));
        assert_eq!(series.push(f64::NAN, 9.0), Err(Unusable::NotANumber));
    }

    #[test]
    fn a_rate_holds_since_the_sample_before() {
        let mut series = Series::new(Op::Read, Reading::Rate);
        assert_eq!(series.push(10.0, 99.0), Ok(None));
        assert_eq!(series.push(12.0, 4.0).unwrap().unwrap().bytes, 8.0);
    }
}
