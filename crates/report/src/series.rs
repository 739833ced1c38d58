//! Metrics of a job over time, as a daemon answers.

use std::collections::BTreeMap;

use iotide_analysis::{CountedCalls, RunCounts};
use iotide_ledger::series::{Points, Sample};
use iotide_trace::Op;
use serde::{Deserialize, Serialize};

use iotide_look::{Untrusted, text};

/// One metric over time. Points are equally far apart.
#[derive(Clone, Debug, Serialize)]
pub struct SeriesDocument {
    /// Its name.
    pub metric: Untrusted,
    /// `counter` or `gauge`.
    pub kind: &'static str,
    /// How far apart points are.
    pub period_s: u64,
    /// How often the ticks were folded.
    pub folds: u8,
    /// When the first point begins.
    pub t0_unix_s: u64,
    /// Values: of a counter so far, of a gauge its mean; none where nothing was sampled.
    pub values: Vec<Option<SeriesValue>>,
    /// How many nodes each value is of.
    pub nodes_reporting: Vec<u32>,
    /// Data that is missing.
    pub losses: Vec<Untrusted>,
}

/// The metrics that a job or a machine has over time.
#[derive(Clone, Debug, Serialize)]
pub struct MetricList {
    /// Each with its kind.
    pub metrics: Vec<ListedMetric>,
    /// Samples that are missing.
    pub losses: Vec<Untrusted>,
}

/// A metric in a list.
#[derive(Clone, Debug, Serialize)]
pub struct ListedMetric {
    /// `counter` or `gauge`.
    pub kind: &'static str,
    /// Its name.
    pub metric: Untrusted,
}

impl MetricList {
    /// Lists metrics with their kinds.
    pub fn new<'a>(metrics: impl Iterator<Item = (&'a str, &'static str)>, losses: Vec<String>) -> Self {
        let metrics = metrics.map(|(metric, kind)| ListedMetric { kind, metric: metric.into() }).collect();
        Self { metrics, losses: losses.into_iter().map(Untrusted::from).collect() }
    }
}

/// A value over time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum SeriesValue {
    /// Of a counter: exact.
    Counter(u64),
    /// Of a gauge.
    Gauge(f64),
}

impl SeriesValue {
    /// Returns a sample as JSON can hold it; `None` if it is not finite.
    pub fn of(sample: Sample) -> Option<Self> {
        match sample {
            Sample::Counter(value) => Some(Self::Counter(value)),
            Sample::Gauge(value) => value.is_finite().then_some(Self::Gauge(value)),
        }
    }
}

impl SeriesDocument {
    /// Says what points hold.
    pub fn new(metric: &str, kind: &'static str, points: Option<&Points>, losses: Vec<String>) -> Self {
        let values: Vec<Option<SeriesValue>> = points.map_or(Vec::new(), |points| {
            points.values.iter().map(|value| value.and_then(|(sample, _)| SeriesValue::of(sample))).collect()
        });
        Self {
            metric: metric.into(),
            kind,
            period_s: points.map_or(1, Points::period_s),
            folds: points.map_or(0, |points| points.folds),
            t0_unix_s: points.map_or(0, Points::start_s),
            nodes_reporting: values.iter().map(|value| u32::from(value.is_some())).collect(),
            values,
            losses: losses.into_iter().map(Untrusted::from).collect(),
        }
    }
}

/// How fast a job read and wrote, from its begin to its end or until now. All of it times the period is all it moved.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobRates {
    /// How far apart the values are.
    pub period_s: f64,
    /// When the first begins.
    pub t0_unix_s: f64,
    /// Bytes read per second.
    pub read_bps: Vec<f64>,
    /// Bytes written per second.
    pub write_bps: Vec<f64>,
}

impl JobRates {
    /// Draws one of the rates, in a line.
    pub fn picture(rates: &[f64]) -> Option<String> {
        let most = rates.iter().copied().fold(0.0, f64::max);
        (rates.len() > 1 && most > 0.0)
            .then(|| format!("{}  up to {}", text::bars(rates), text::bandwidth(most)))
    }
}

/// How much a counter grew in each of its points, per second. It was 0 before the first; where nothing was sampled, what came is spread evenly.
pub fn rates_of(points: &Points) -> Vec<f64> {
    let period_s = points.period_s() as f64;
    let mut rates = Vec::with_capacity(points.values.len());
    let (mut last, mut n_missing) = (0, 0);
    for value in &points.values {
        match value {
            Some((Sample::Counter(value), _)) => {
                let n = n_missing + 1;
                let rate = value.saturating_sub(last) as f64 / (period_s * n as f64);
                rates.extend(std::iter::repeat_n(rate, n));
                (last, n_missing) = ((*value).max(last), 0);
            }
            _ => n_missing += 1,
        }
    }
    rates
}

/// All metrics of a job over time, as a daemon answers: pairs of seconds since the job began and value.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct JobMetrics {
    metrics: BTreeMap<String, Vec<(f64, f64)>>,
}

impl JobMetrics {
    /// Reads what a daemon answered.
    pub fn from_json(json: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(json).map_err(|error| error.to_string())
    }

    /// The metrics that runs are compared by, of a job.
    pub fn is_compared_by(metric: &str) -> bool {
        metric.rsplit_once('_').is_some_and(|(op, what)| {
            ["bytes", "calls", "ns"].contains(&what) && COUNTED.iter().any(|(known, _)| *known == op)
        })
    }

    /// Adds a counter of a job that began at a second since 1970.
    ///
    /// All that a job counts it counts from zero on: without a zero before the first sample, what it did before that would be missing.
    pub fn add(&mut self, metric: &str, points: &Points, start_s: u64) {
        let at = |n: usize| (points.start_s() + n as u64 * points.period_s()) as f64 - start_s as f64;
        let mut pairs = Vec::with_capacity(points.values.len() + 1);
        for (n, value) in points.values.iter().enumerate() {
            if let Some((Sample::Counter(value), _)) = value {
                if pairs.is_empty() {
                    pairs.push((at(n) - points.period_s() as f64, 0.0));
                }
                pairs.push((at(n), *value as f64));
            }
        }
        self.metrics.insert(metric.to_owned(), pairs);
    }

    /// Returns the calls that were counted; `zero_unix_s` is when the job began.
    pub fn counts(&self, zero_unix_s: f64, run_s: Option<f64>) -> RunCounts {
        let mut calls = Vec::new();
        let mut period_s = f64::INFINITY;
        for (name, op) in COUNTED {
            let bytes = self.growth(&format!("{name}_bytes"));
            let ns = self.growth(&format!("{name}_ns"));
            for (until, (from_s, n)) in self.growth(&format!("{name}_calls")) {
                let until_s = f64::from_bits(until);
                period_s = period_s.min(until_s - from_s);
                let grown = |of: &Growth| of.get(&until).map_or(0.0, |(_, growth)| *growth);
                let (bytes, seconds) = (grown(&bytes), grown(&ns) / 1e9);
                if n > 0.0 {
                    calls.push(CountedCalls { op, from_s, until_s, calls: n, bytes, seconds });
                }
            }
        }
        calls.sort_by(|a, b| a.until_s.total_cmp(&b.until_s).then(a.op.cmp(&b.op)));
        let period_s = if period_s.is_finite() { period_s } else { 1.0 };
        RunCounts { zero_unix_s: Some(zero_unix_s), run_s, period_s, goes_on: false, calls }
    }

    /// How much a counter grew until each of its samples, since the one before.
    fn growth(&self, metric: &str) -> Growth {
        let samples = self.metrics.get(metric).map_or(&[][..], Vec::as_slice);
        let grown = samples.windows(2).filter(|pair| pair[0].0 < pair[1].0);
        grown.map(|pair| (pair[1].0.to_bits(), (pair[0].0, (pair[1].1 - pair[0].1).max(0.0)))).collect()
    }
}

/// By the time of a sample, in bits: the sample before, and the growth since then.
type Growth = BTreeMap<u64, (f64, f64)>;

/// Calls that a daemon counts, by the beginning of their metrics' names.
const COUNTED: [(&str, Op); 8] = [
    ("read", Op::Read),
    ("write", Op::Write),
    ("open", Op::Open),
    ("close", Op::Close),
    ("seek", Op::Seek),
    ("stat", Op::Stat),
    ("sync", Op::Sync),
    ("other", Op::Other),
];

/// A counter over time, as a daemon answers.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct CounterOverTime {
    t0_unix_s: f64,
    period_s: f64,
    values: Vec<Option<f64>>,
    /// Data that is missing.
    #[serde(default)]
    pub losses: Vec<Untrusted>,
}

impl CounterOverTime {
    /// Reads what a daemon answered.
    pub fn from_json(json: &[u8]) -> Result<Self, String> {
        let read: Self = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        if read.period_s > 0.0 { Ok(read) } else { Err("a period that is none".to_owned()) }
    }

    /// Calls `take` with each time between two samples and the growth in it. Nothing is known where one of them is missing, nor where the
    /// counter began again.
    pub fn for_each_growth(&self, mut take: impl FnMut(f64, f64, f64)) {
        for (i, pair) in self.values.windows(2).enumerate() {
            let until_s = self.t0_unix_s + (i + 1) as f64 * self.period_s;
            if let [Some(before), Some(now)] = *pair
                && now >= before
            {
                take(until_s - self.period_s, until_s, now - before);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(values: &[Option<u64>]) -> Points {
        let values = values.iter().map(|value| value.map(|value| (Sample::Counter(value), 1))).collect();
        Points { folds: 1, first_tick: 500, ticks_a_point: 2, values }
    }

    #[test]
    fn rates_times_the_period_are_all_that_was_moved() {
        let rates = rates_of(&points(&[Some(400), Some(400), None, Some(1200), Some(1600)]));
        assert_eq!(rates, [100.0, 0.0, 100.0, 100.0, 100.0]);
        assert_eq!(rates.iter().sum::<f64>() * 4.0, 1600.0);
        assert_eq!(JobRates::picture(&rates).unwrap(), "█ ███  up to 100 B/s");
        assert_eq!(JobRates::picture(&[0.0, 0.0]), None);
    }

    #[test]
    fn counters_of_a_job_become_calls_of_each_second() {
        let metrics = br#"{"metrics": {"write_calls": [[-1, 0], [0, 4], [1, 4], [3, 10]], "write_bytes": [[-1, 0], [0, 400], [1, 400], [3, 1000]],
            "write_ns": [[-1, 0], [0, 2e8], [1, 2e8], [3, 1e9]], "open_calls": [[1, 0], [3, 1]], "load1": [[0, 0.5]]}}"#;
        let counts = JobMetrics::from_json(metrics).unwrap().counts(500.0, Some(9.0));
        let call = |op, from_s, until_s, calls, bytes, seconds| CountedCalls {
            op,
            from_s,
            until_s,
            calls,
            bytes,
            seconds,
        };
        assert_eq!((counts.zero_unix_s, counts.run_s, counts.period_s), (Some(500.0), Some(9.0), 1.0));
        assert_eq!(
            counts.calls,
            [
                call(Op::Write, -1.0, 0.0, 4.0, 400.0, 0.2),
                call(Op::Write, 1.0, 3.0, 6.0, 600.0, 0.8),
                call(Op::Open, 1.0, 3.0, 1.0, 0.0, 0.0),
            ]
        );
        assert!(JobMetrics::from_json(b"{}").is_err());
    }

    #[test]
    fn a_counter_grows_between_samples_and_nowhere_else() {
        let counter = CounterOverTime::from_json(
            br#"{"metric": "write_bytes", "kind": "counter", "period_s": 2, "t0_unix_s": 10, "values": [5, 9, null, 20, 3, 4], "losses": ["x"]}"#,
        )
        .unwrap();
        let mut grown = Vec::new();
        counter.for_each_growth(|from_s, until_s, growth| grown.push((from_s, until_s, growth)));
        assert_eq!(grown, [(10.0, 12.0, 4.0), (18.0, 20.0, 1.0)]);
        assert_eq!(counter.losses.len(), 1);
        assert!(CounterOverTime::from_json(br#"{"period_s": 0, "t0_unix_s": 0, "values": []}"#).is_err());
    }

    #[test]
    fn a_series_says_where_nothing_was_sampled_and_no_number_is_not_one() {
        let mut gaps = points(&[Some(u64::MAX), None]);
        gaps.values.push(Some((Sample::Gauge(f64::NAN), 1)));
        let said = SeriesDocument::new("read_bytes", "counter", Some(&gaps), Vec::new());
        insta::assert_snapshot!(crate::answer_json(&said), @r#"{"metric":"read_bytes","kind":"counter","period_s":4,"folds":1,"t0_unix_s":1000,"values":[18446744073709551615,null,null],"nodes_reporting":[1,0,0],"losses":[]}"#);
    }
}
