//! The same in words: numbers with their intervals, and who loses.

use serde::{Serialize, Serializer};

use super::{JobPolicyEntry, JobsReport, mean_and_interval};
use crate::text;

/// A number of one run, or of several the mean with a 95 % interval of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The mean.
    pub mean: f64,
    /// Its interval; `None` where chance has no say.
    pub interval: Option<[f64; 2]>,
    /// Over how many runs.
    pub n_runs: usize,
}

impl Figure {
    pub(crate) fn of(values: &[f64]) -> Self {
        let (mean, interval) = mean_and_interval(values);
        Self { mean, interval, n_runs: values.len() }
    }

    pub(super) fn map(self, of: impl Fn(f64) -> f64) -> Self {
        Self { mean: of(self.mean), interval: self.interval.map(|ends| ends.map(&of)), ..self }
    }

    /// Whether it is certainly above 1, below it, or neither.
    pub fn against_one(&self) -> std::cmp::Ordering {
        // Where chance has no say, half a percent is no difference.
        let [low, high] = self.interval.unwrap_or([self.mean / 1.005, self.mean * 1.005]);
        match () {
            () if low > 1.0 => std::cmp::Ordering::Greater,
            () if high < 1.0 => std::cmp::Ordering::Less,
            () => std::cmp::Ordering::Equal,
        }
    }

    /// `0.76 [0.72, 0.80]`.
    pub fn ratio_in_words(&self) -> String {
        match self.interval {
            None => format!("{:.2}", self.mean),
            Some([low, high]) => format!("{:.2} [{low:.2}, {high:.2}]", self.mean),
        }
    }
}

impl Serialize for Figure {
    /// One run is a number; several are a mean and an interval.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.n_runs <= 1 {
            return serializer.serialize_f64(self.mean);
        }
        #[derive(Serialize)]
        struct Several {
            mean: f64,
            interval: Option<[f64; 2]>,
        }
        Several { mean: self.mean, interval: self.interval }.serialize(serializer)
    }
}

impl JobsReport {
    /// Returns what was run, in a sentence without a full stop.
    pub fn in_words(&self) -> String {
        let workload = &self.workload;
        let cost = match (workload.alpha_s, workload.alpha_per_node_s) {
            (0.0, 0.0) => "resizing is free".to_owned(),
            (each_s, 0.0) => format!("a resize pauses a job for {}", text::seconds(each_s)),
            (each_s, node_s) => {
                format!(
                    "a resize pauses a job for {} and {} a node",
                    text::seconds(each_s),
                    text::seconds(node_s)
                )
            }
        };
        let runs = match (self.seeds, workload.window) {
            (1, None) => "one run".to_owned(),
            (n, None) => format!("{n} seeds from {}", self.seed),
            (n, Some(window)) => {
                format!(
                    "{n} seeds from {}, each with {} in a row",
                    self.seed,
                    text::counted(window as u64, "job")
                )
            }
        };
        format!(
            "{}: {} on {}, {cost}; {runs}",
            workload.source.for_terminal(),
            text::counted(workload.n_jobs as u64, "job"),
            text::counted(u64::from(workload.nodes), "node"),
        )
    }

    /// Returns the shares of malleable jobs, in the order in which they were run.
    pub fn shares(&self) -> Vec<Option<f64>> {
        let mut shares: Vec<Option<f64>> = Vec::new();
        for entry in &self.policies {
            if !shares.contains(&entry.malleable) {
                shares.push(entry.malleable);
            }
        }
        shares
    }

    /// Returns the policies at a share of malleable jobs.
    pub fn entries(&self, malleable: Option<f64>) -> impl Iterator<Item = &JobPolicyEntry> {
        self.policies.iter().filter(move |entry| entry.malleable == malleable)
    }

    /// The table of a share, its head first.
    pub(super) fn rows(&self, malleable: Option<f64>) -> Vec<[String; 8]> {
        let head =
            ["policy", "mean wait", "against", "makespan", "against", "slowdown", "utilisation", "resizes"];
        let mut rows = vec![head.map(str::to_owned)];
        for entry in self.entries(malleable) {
            let ratio = |of: fn(&super::Ratios) -> Option<Figure>| {
                entry.ratio.as_ref().and_then(of).map_or("–".to_owned(), |figure| figure.ratio_in_words())
            };
            rows.push([
                entry.policy.to_owned(),
                text::seconds(entry.mean_wait_s.mean),
                ratio(|ratios| ratios.mean_wait),
                text::seconds(entry.makespan_s.mean),
                ratio(|ratios| ratios.makespan),
                format!("{:.2}", entry.mean_bounded_slowdown.mean),
                text::percent(entry.utilization.mean),
                format!("{:.0}", entry.n_resizes.mean),
            ]);
        }
        rows
    }

    /// Who wins and who loses throughout, in one sentence without a full stop.
    pub fn headline(&self) -> String {
        use std::cmp::Ordering::{Greater, Less};
        let shares: Vec<Option<f64>> =
            self.shares().into_iter().filter(|&share| share != Some(0.0)).collect();
        let first = shares.iter().flatten().copied().reduce(f64::min);
        let from =
            first.map_or(String::new(), |share| format!(" from {} malleable jobs on", text::percent(share)));
        let mut names: Vec<&'static str> = Vec::new();
        for entry in self.policies.iter().filter(|entry| entry.ratio.is_some()) {
            if !names.contains(&entry.policy) {
                names.push(entry.policy);
            }
        }
        let always = |name: &str, is: &dyn Fn(std::cmp::Ordering, std::cmp::Ordering) -> bool| {
            shares.iter().all(|&share| {
                let mut entries = self.entries(share).filter(|entry| entry.policy == name);
                entries.next().and_then(|entry| entry.ratio).is_some_and(|ratios| {
                    let (Some(wait), Some(span)) = (ratios.mean_wait, ratios.makespan) else { return false };
                    is(wait.against_one(), span.against_one())
                })
            })
        };
        let those = |is: &dyn Fn(std::cmp::Ordering, std::cmp::Ordering) -> bool| -> Vec<&str> {
            names.iter().copied().filter(|name| !shares.is_empty() && always(name, is)).collect()
        };
        let winners = those(&|wait, span| wait == Less && span == Less);
        let losers = those(&|wait, span| wait == Greater || span == Greater);
        let is_are = |names: &[&str]| if names.len() == 1 { "is" } else { "are" };
        let baseline = self.baseline;
        let mut told = match winners.is_empty() {
            true => format!("no policy is better than {baseline} in both wait and makespan{from}"),
            false => format!(
                "{} {} better than {baseline} in wait and makespan{from}",
                winners.join(" and "),
                is_are(&winners)
            ),
        };
        if !losers.is_empty() {
            told += &format!("; {} {} worse in one of them", losers.join(" and "), is_are(&losers));
        }
        told
    }

    /// Who gains and who loses against the first policy, in sentences without a full stop.
    pub fn verdicts(&self) -> Vec<String> {
        use std::cmp::Ordering::{Equal, Greater, Less};
        let mut verdicts = Vec::new();
        for malleable in self.shares() {
            let at = malleable
                .map_or(String::new(), |share| format!(" at {} malleable jobs", text::percent(share)));
            let (mut wins, mut losses, mut prices) = (Vec::new(), Vec::new(), Vec::new());
            for entry in self.entries(malleable) {
                let Some(ratios) = &entry.ratio else { continue };
                let (Some(wait), Some(span)) = (ratios.mean_wait, ratios.makespan) else { continue };
                let told = format!(
                    "{} (wait ×{}, makespan ×{})",
                    entry.policy,
                    wait.ratio_in_words(),
                    span.ratio_in_words()
                );
                match (wait.against_one(), span.against_one()) {
                    (Greater, _) | (_, Greater) => {
                        losses.push(told);
                        continue;
                    }
                    (Less, Less) => wins.push(told),
                    (Less | Equal, Equal) | (Equal, Less) => {}
                }
                // A mean can fall while some wait longer than ever.
                let others = [("longest wait", ratios.max_wait), ("slowdown", ratios.mean_bounded_slowdown)];
                let worse: Vec<String> = (others.into_iter())
                    .filter_map(|(name, ratio)| Some((name, ratio?)))
                    .filter(|(_, ratio)| ratio.against_one() == Greater)
                    .map(|(name, ratio)| format!("{name} ×{}", ratio.ratio_in_words()))
                    .collect();
                if !worse.is_empty() {
                    prices.push(format!("{} ({})", entry.policy, worse.join(", ")));
                }
            }
            let baseline = self.baseline;
            if !wins.is_empty() {
                verdicts
                    .push(format!("better than {baseline}{at} in wait and makespan: {}", wins.join(", ")));
            }
            if !losses.is_empty() {
                verdicts
                    .push(format!("worse than {baseline}{at} in wait or makespan: {}", losses.join(", ")));
            }
            if !prices.is_empty() {
                verdicts.push(format!(
                    "worse than {baseline}{at} in longest wait or slowdown: {}",
                    prices.join(", ")
                ));
            }
            let has_others = self.entries(malleable).any(|entry| entry.ratio.is_some());
            if wins.is_empty() && losses.is_empty() && prices.is_empty() && has_others {
                verdicts.push(format!("no policy is better or worse than {baseline}{at} beyond chance"));
            }
        }
        verdicts
    }
}

#[cfg(test)]
mod tests {
    use iotide_sim::jobs::{JobsMetrics, JobsWorkload};

    use crate::job_schedule::{JobsReport, JobsRun};

    #[test]
    fn a_policy_that_wins_is_named_where_it_loses_too() {
        let json = r#"{"nodes": 4, "jobs": [{"submit_s": 0, "nodes": 1, "runtime_s": 5}]}"#;
        let workload = JobsWorkload::from_json(json).unwrap();
        let run = |wait: f64, longest: f64, makespan: f64, slowdown: f64| {
            [JobsRun {
                metrics: JobsMetrics {
                    makespan_s: makespan,
                    mean_wait_s: wait,
                    max_wait_s: longest,
                    mean_bounded_slowdown: slowdown,
                    mean_turnaround_s: 1.0,
                    utilization: 0.5,
                    node_hours: 1.0,
                    n_resizes: 0,
                },
                io_slowdown: None,
                energy_kwh: None,
            }]
        };
        let easy = run(100.0, 200.0, 1000.0, 2.0);
        let mut report = JobsReport::new("log", &workload, 1, 0, None);
        report.add_policy("easy", None, &easy, None);
        report.add_policy("common-pool", None, &run(50.0, 300.0, 900.0, 1.0), Some(&easy));
        report.add_policy("tide", None, &run(80.0, 180.0, 900.0, 3.0), Some(&easy));
        report.add_policy("average", None, &run(50.0, 150.0, 900.0, 1.0), Some(&easy));
        report.add_policy("fcfs", None, &run(300.0, 900.0, 1000.0, 9.0), Some(&easy));
        assert_eq!(
            report.verdicts(),
            [
                "better than easy in wait and makespan: common-pool (wait ×0.50, makespan ×0.90), tide (wait ×0.80, makespan ×0.90), average (wait ×0.50, makespan ×0.90)",
                "worse than easy in wait or makespan: fcfs (wait ×3.00, makespan ×1.00)",
                "worse than easy in longest wait or slowdown: common-pool (longest wait ×1.50), tide (slowdown ×1.50)",
            ]
        );
    }
}
