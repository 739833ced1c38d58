//! Where and when an application would be disturbed least.

use std::fmt::Write;

use iotide_analysis::{Interference, PartitionLoad};
use serde::Serialize;

use iotide_look::Untrusted;

use crate::document::Document;
use crate::{Ink, SCHEMA, text};

/// Partitions and starts, ranked by the interference an application would meet.
#[derive(Clone, Debug, Serialize)]
pub struct FitReport {
    #[serde(skip)]
    about: Untrusted,
    /// How far apart the starts are that were tried.
    pub step_s: f64,
    /// The partitions, the one that disturbs least first.
    pub partitions: Vec<FitPartition>,
    /// The best starts of all, the best first.
    pub starts: Vec<FitStart>,
}

/// A partition, over all starts that were tried.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FitPartition {
    /// Its log.
    pub partition: Untrusted,
    /// How many starts were tried.
    pub n_starts: usize,
    /// How much longer the application's I/O takes there, on average.
    pub mean_delay_s: Option<f64>,
    /// The share of the traffic that is not its own while it does I/O, on average.
    pub mean_contention: Option<f64>,
    /// The load it meets, on average.
    pub mean_met_bps: Option<f64>,
}

/// One start on one partition.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FitStart {
    /// The partition's log.
    pub partition: Untrusted,
    /// When the application would start, on the clock of the log.
    pub start_s: f64,
    /// How much longer its I/O takes.
    pub delay_s: f64,
    /// The share of the traffic that is not its own while it does I/O.
    pub contention: f64,
    /// The load it meets.
    pub met_bps: f64,
    /// The correlation of its signature with the load.
    pub correlation: Option<f64>,
    /// The share of its bytes for which the load is known.
    pub coverage: f64,
}

impl FitReport {
    /// Returns the ranking in the words of the report; `ranking` is that of `rank_starts` and begins with the best.
    pub fn new(
        about: &str,
        partitions: &[PartitionLoad],
        ranking: &[(usize, Interference)],
        step_s: f64,
        n_starts: usize,
    ) -> Self {
        let mut by_partition: Vec<FitPartition> = partitions
            .iter()
            .enumerate()
            .map(|(index, partition)| {
                let here = || ranking.iter().filter(|(i, _)| *i == index).map(|(_, met)| met);
                let n = here().count();
                let mean =
                    |of: fn(&Interference) -> f64| (n > 0).then(|| here().map(of).sum::<f64>() / n as f64);
                FitPartition {
                    partition: (&partition.name).into(),
                    n_starts: n,
                    mean_delay_s: mean(|met| met.delay_s),
                    mean_contention: mean(|met| met.contention),
                    mean_met_bps: mean(|met| met.met_bps),
                }
            })
            .collect();
        let or_last = |value: Option<f64>| value.unwrap_or(f64::INFINITY);
        by_partition.sort_by(|a, b| {
            or_last(a.mean_delay_s)
                .total_cmp(&or_last(b.mean_delay_s))
                .then(or_last(a.mean_contention).total_cmp(&or_last(b.mean_contention)))
        });
        let start = |(index, met): &(usize, Interference)| FitStart {
            partition: (&partitions[*index].name).into(),
            start_s: met.start_s,
            delay_s: met.delay_s,
            contention: met.contention,
            met_bps: met.met_bps,
            correlation: met.correlation,
            coverage: met.coverage,
        };
        let starts = ranking.iter().take(n_starts).map(start).collect();
        Self { about: about.into(), step_s, partitions: by_partition, starts }
    }
}

impl Document for FitReport {
    fn to_json(&self) -> String {
        #[derive(Serialize)]
        struct Fit<'a> {
            schema: &'static str,
            command: &'static str,
            fit: &'a FitReport,
        }
        let document = Fit { schema: SCHEMA, command: "signature", fit: self };
        iotide_look::text::json_document(&document)
    }

    fn to_text(&self, _: usize, _: Ink) -> String {
        let mut out = String::new();
        if !self.about.is_empty() {
            let _ = writeln!(out, "{}", self.about.for_terminal());
        }
        out.push_str("partitions, the one that disturbs least first\n");
        for entry in &self.partitions {
            let name = entry.partition.for_terminal();
            let _ = match (entry.mean_delay_s, entry.mean_contention, entry.mean_met_bps) {
                (Some(delay_s), Some(contention), Some(met_bps)) => writeln!(
                    out,
                    "  {name}: I/O takes {} longer, {} of the traffic is others', {} on average over {}",
                    text::seconds(delay_s),
                    text::percent(contention),
                    text::bandwidth(met_bps),
                    text::counted(entry.n_starts as u64, "start")
                ),
                _ => writeln!(out, "  {name}: its log is shorter than the application"),
            };
        }
        if !self.starts.is_empty() {
            out.push_str("starts, the best first\n");
        }
        for start in &self.starts {
            let at =
                if start.start_s > 1e8 { text::date(start.start_s) } else { text::moment(start.start_s) };
            let _ = writeln!(
                out,
                "  {at} on {}: {} longer, {} others', {}",
                start.partition.for_terminal(),
                text::seconds(start.delay_s),
                text::percent(start.contention),
                text::bandwidth(start.met_bps)
            );
        }
        out
    }
}
