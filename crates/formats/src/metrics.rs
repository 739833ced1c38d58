//! Metrics that others sampled over time: which of them are bytes moved, and what lies between two samples.

use iotide_trace::{Event, EventSink, FileId, Grain, Layer, Op, Rank, Timestamp};

use crate::{Place, files::Files, losses::Losses};

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

/// One metric that was asked for by name, whatever it is about: `name`, `name{label="x"}`, or `start*`.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    name: String,
    series: Vec<ChosenSeries>,
    n_samples: usize,
    overflowed: bool,
    /// Names of others, for who has mistaken the name.
    others: Vec<String>,
}

#[derive(Clone, Debug)]
struct ChosenSeries {
    name: String,
    samples: Vec<(f64, f64)>,
}

impl Chosen {
    /// Samples that are kept until it is known whether they only grow.
    const MOST_SAMPLES: usize = 1 << 22;
    /// Names that the error for a wrong name lists.
    const MOST_OTHERS: usize = 12;

    pub(crate) fn new(name: impl Into<String>) -> Self {
        let (series, others) = (Vec::new(), Vec::new());
        Self { name: name.into(), series, n_samples: 0, overflowed: false, others }
    }

    /// Begins a series if it is one of those asked for; returns its place.
    pub(crate) fn begin(&mut self, full: &str) -> Option<usize> {
        let bare = full.split('{').next().unwrap_or(full);
        let names = [full, bare, bare.strip_prefix("deriv__").unwrap_or(bare)];
        let is_it = match self.name.strip_suffix('*') {
            Some(start) => names.iter().any(|name| name.starts_with(start)),
            None => names.contains(&self.name.as_str()),
        };
        if is_it {
            self.series.push(ChosenSeries { name: full.to_owned(), samples: Vec::new() });
            return Some(self.series.len() - 1);
        }
        if self.others.len() < Self::MOST_OTHERS && !self.others.iter().any(|other| other == bare) {
            self.others.push(bare.to_owned());
        }
        None
    }

    pub(crate) fn sample(&mut self, series: usize, at_s: f64, value: f64) {
        if self.n_samples >= Self::MOST_SAMPLES {
            self.overflowed = true;
        } else if let Some(series) = self.series.get_mut(series) {
            self.n_samples += 1;
            series.samples.push((at_s, value));
        }
    }

    /// Hands the events on. What never falls and grows counts something: its growth is what happens; anything else holds since the sample before.
    pub(crate) fn finish(self, files: &mut Files, losses: &mut Losses, sink: &mut dyn EventSink) {
        if self.series.is_empty() {
            let others = self.others.join(", ");
            losses.note_of_unknown_size("metric", Place::Whole, || {
                format!("no metric is called {}; there are {others}", self.name)
            });
        }
        if self.overflowed {
            losses.note_of_unknown_size("many", Place::Whole, || "more samples than can be kept".into());
        }
        let names: Vec<&str> = self.series.iter().map(|series| series.name.as_str()).collect();
        for ChosenSeries { name, samples } in &self.series {
            // A derivative says the same as its metric.
            if names.contains(&format!("deriv__{name}").as_str()) {
                continue;
            }
            let falls = samples.windows(2).any(|pair| pair[1].1 < pair[0].1);
            let grows = samples.first().zip(samples.last()).is_some_and(|(first, last)| last.1 > first.1);
            let is_rate = name.starts_with("deriv__");
            let reading = if grows && !falls && !is_rate { Reading::Total } else { reading_of(name) };
            let mut series = Series::new(direction_of(name).unwrap_or(Op::Write), reading);
            series.file = files.id_of_bytes(name.as_bytes());
            for (at_s, value) in samples {
                match series.push(*at_s, *value) {
                    Ok(Some(event)) if sink.event(event).is_break() => return,
                    Ok(_) => {}
                    Err(unusable) => losses.note("sample", Place::Whole, || unusable.to_string()),
                }
            }
        }
    }
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
