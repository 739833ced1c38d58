//! Metrics of a job over time, as a daemon answers.

use iotide_ledger::series::{Points, Sample};
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
    fn a_series_says_where_nothing_was_sampled_and_no_number_is_not_one() {
        let mut gaps = points(&[Some(u64::MAX), None]);
        gaps.values.push(Some((Sample::Gauge(f64::NAN), 1)));
        let said = SeriesDocument::new("read_bytes", "counter", Some(&gaps), Vec::new());
        insta::assert_snapshot!(crate::answer_json(&said), @r#"{"metric":"read_bytes","kind":"counter","period_s":4,"folds":1,"t0_unix_s":1000,"values":[18446744073709551615,null,null],"nodes_reporting":[1,0,0],"losses":[]}"#);
    }
}
