//! What is answered about metrics over time.

use std::collections::BTreeMap;

use iotide_ledger::JobKey;
use iotide_ledger::series::{ColumnKind, Points, Rows, Sample, points};
use iotide_report::{JobRates, SeriesDocument, SeriesValue, answer_json, rates_of};

use super::answer::{Answer, Answers, Asked, Result, Viewer};
use crate::series::{Found, Owner};

/// Points in one answer.
const MOST_POINTS: usize = 10_000;
/// Points in one answer, if nobody says how many.
const USUAL_POINTS: usize = 1000;
/// Values in one answer that has all metrics.
const MOST_VALUES: usize = 200_000;
/// Points of the picture of a job.
const PICTURE: usize = 60;
/// What names of derivatives begin with, as the metric proxy has it.
const DERIVATIVE: &str = "deriv__";

/// What the metric proxy calls the sum of all machines.
pub(super) const MAIN: &str = "main";

/// Whose metrics are asked for.
pub(super) enum Asking {
    Job(JobKey),
    Node,
    /// This machine and all below.
    Tree,
}

impl Answers {
    /// Answers a question about metrics over time; `None` if it is about something else.
    pub(super) fn series(&self, viewer: Viewer, path: &str, asked: &Asked) -> Option<Result<Answer>> {
        let of_job = |rest: &str| path.strip_prefix("/api/1/jobs/")?.strip_suffix(rest).map(str::to_owned);
        let of_node = |rest: &str| path.strip_prefix("/api/1/nodes/")?.strip_suffix(rest).map(str::to_owned);
        if let Some(id) = of_job("/series") {
            return Some(self.asking(viewer, &id).and_then(|of| self.one(&of, asked)));
        }
        if let Some(id) = of_job("/metrics") {
            return Some(self.asking(viewer, &id).and_then(|of| self.list(&of)));
        }
        if let Some(node) = of_node("/series") {
            return Some(self.asking(viewer, &format!("Node: {node}")).and_then(|of| self.one(&of, asked)));
        }
        if let Some(node) = of_node("/metrics") {
            return Some(self.asking(viewer, &format!("Node: {node}")).and_then(|of| self.list(&of)));
        }
        let of = || {
            let job = asked.get("job").or(asked.get("jobid"));
            self.asking(viewer, job.ok_or_else(|| Answer::refused(400, "'job' is missing"))?)
        };
        match path {
            "/trace/list" => Some(self.proxy_jobs(viewer, &Asked::of("past", "1"))),
            "/trace/metrics" => Some(of().and_then(|of| self.proxy_metrics(&of))),
            "/trace/plot" => Some(of().and_then(|of| self.proxy_plot(&of, asked))),
            "/trace/read" => Some(of().and_then(|of| self.proxy_read(&of))),
            _ => None,
        }
    }

    /// The job of an id, or the machine under the names that the metric proxy has for it.
    pub(super) fn asking(&self, viewer: Viewer, id: &str) -> Result<Asking> {
        let view = self.shared.view();
        if id == MAIN && !view.elsewhere.is_empty() {
            return Ok(Asking::Tree);
        }
        if id == MAIN || id.strip_prefix("Node: ").is_some_and(|node| node == view.node.as_str()) {
            return Ok(Asking::Node);
        }
        Ok(Asking::Job(self.find_job(viewer, id, &view)?.job().0.clone()))
    }

    pub(super) fn found(
        &self,
        of: &Asking,
        span: (u64, u64),
        wants: impl Fn(&str) -> bool,
    ) -> Result<Vec<Found>> {
        let node = self.shared.view().node.to_string();
        let series = &self.shared.series;
        let until_now = (span.0, span.1.min(super::now_ns() / 1_000_000_000));
        let found = match of {
            Asking::Job(key) => series.find(&Owner::Job(key.clone()), wants).map(|it| vec![it]),
            Asking::Node => series.find_days(|day| Owner::Node { node: node.clone(), day }, until_now, wants),
            Asking::Tree => series.find_days(|day| Owner::Tree { day }, until_now, wants),
        };
        found.map_err(|error| Answer::refused(503, format!("the series cannot be read: {error}")))
    }

    /// One metric, `metric`, from `from` to `to` in at most `points` points.
    fn one(&self, of: &Asking, asked: &Asked) -> Result<Answer> {
        let metric = asked.get("metric").ok_or_else(|| Answer::refused(400, "'metric' is missing"))?;
        let second = |name: &str, default: u64| match asked.get(name) {
            None | Some("") => Ok(default),
            Some(said) => match said.parse::<f64>() {
                Ok(seconds) if (0.0..1e12).contains(&seconds) => Ok(seconds as u64),
                _ => Err(Answer::refused(400, format!("'{name}' is a number of seconds since 1970"))),
            },
        };
        let span = (second("from", 0)?, second("to", u64::MAX)?);
        let most = match asked.get("points") {
            None => USUAL_POINTS,
            Some(said) => {
                let points = said.parse::<usize>().ok().filter(|points| *points > 0);
                points.ok_or_else(|| Answer::refused(400, "'points' is a whole number"))?.min(MOST_POINTS)
            }
        };
        let found = self.found(of, span, |name| name == metric)?;
        let Some((kind, points)) = of_metric(&found, metric, span, most) else {
            return Err(Answer::refused(
                404,
                "it has no metric of this name; /metrics beside /series lists them",
            ));
        };
        let kind = if kind == ColumnKind::Counter { "counter" } else { "gauge" };
        let losses = found.into_iter().flat_map(|found| found.losses).collect();
        Ok(Answer::json(answer_json(&SeriesDocument::new(metric, kind, points.as_ref(), losses))))
    }

    /// The metrics there are.
    fn list(&self, of: &Asking) -> Result<Answer> {
        let metrics: Vec<BTreeMap<&str, String>> = self
            .names(of)?
            .into_iter()
            .map(|(name, kind)| {
                let kind = if kind == ColumnKind::Counter { "counter" } else { "gauge" };
                BTreeMap::from([("metric", name), ("kind", kind.to_owned())])
            })
            .collect();
        Ok(Answer::json(answer_json(&BTreeMap::from([("metrics", metrics)]))))
    }

    pub(super) fn names(&self, of: &Asking) -> Result<BTreeMap<String, ColumnKind>> {
        let day_ago = (super::now_ns() / 1_000_000_000).saturating_sub(86_400);
        let found = self.found(of, (day_ago, u64::MAX), |_| false)?;
        let columns = found.iter().flat_map(|found| found.columns.iter());
        Ok(columns.map(|(_, name, kind)| (name.to_string(), kind)).collect())
    }

    /// As the metric proxy lists them: names, and those of derivatives.
    fn proxy_metrics(&self, of: &Asking) -> Result<Answer> {
        let names = self.names(of)?;
        let counters = names.iter().filter(|(_, kind)| **kind == ColumnKind::Counter);
        let derived = counters.map(|(name, _)| format!("{DERIVATIVE}{name}"));
        let all: Vec<String> = names.keys().cloned().chain(derived).collect();
        Ok(Answer::json(answer_json(&all)))
    }

    /// As the metric proxy plots: pairs of seconds since the begin and value.
    fn proxy_plot(&self, of: &Asking, asked: &Asked) -> Result<Answer> {
        let filter = asked
            .get("filter")
            .or(asked.get("metric"))
            .ok_or_else(|| Answer::refused(400, "'filter' is missing: the name of a metric"))?;
        let metric = filter.strip_prefix(DERIVATIVE).unwrap_or(filter);
        let found = self.found(of, self.span(of), |name| name == metric)?;
        let Some((_, points)) = of_metric(&found, metric, self.span(of), MOST_POINTS) else {
            return Err(Answer::refused(404, "it has no metric of this name; /trace/metrics lists them"));
        };
        let start_s = self.start_s(of);
        let pairs = points.map_or(Vec::new(), |points| match metric == filter {
            true => pairs_of(&points, start_s),
            false => {
                let at = |n: usize| (points.start_s() + n as u64 * points.period_s()) as f64 - start_s;
                rates_of(&points)
                    .into_iter()
                    .enumerate()
                    .map(|(n, rate)| (at(n), SeriesValue::Gauge(rate)))
                    .collect()
            }
        });
        Ok(Answer::json(answer_json(&pairs)))
    }

    /// As the metric proxy exports a trace: all metrics; `iotide detect` reads it.
    fn proxy_read(&self, of: &Asking) -> Result<Answer> {
        let n_metrics = self.names(of)?.len().max(1);
        let found = self.found(of, self.span(of), |_| true)?;
        let names: BTreeMap<String, ColumnKind> = found
            .iter()
            .flat_map(|found| found.columns.iter())
            .map(|(_, name, kind)| (name.to_string(), kind))
            .collect();
        let most = (MOST_VALUES / n_metrics).clamp(1, MOST_POINTS);
        let start_s = self.start_s(of);
        let of_name = |name: &String| {
            let points = of_metric(&found, name, self.span(of), most).and_then(|(_, points)| points);
            let Some(points) = points else { return Vec::new() };
            let mut pairs = pairs_of(&points, start_s);
            // All that a job counts it counts from zero on; without this, what it did before the first sample would be missing.
            if let (Asking::Job(_), Some(&(first_s, SeriesValue::Counter(_)))) = (of, pairs.first()) {
                pairs.insert(0, (first_s - points.period_s() as f64, SeriesValue::Counter(0)));
            }
            pairs
        };
        let metrics: BTreeMap<&String, Vec<(f64, SeriesValue)>> =
            names.keys().map(|name| (name, of_name(name))).collect();
        Ok(Answer::json(answer_json(&BTreeMap::from([("metrics", metrics)]))))
    }

    /// The whole of a job; of the machine the last day.
    fn span(&self, of: &Asking) -> (u64, u64) {
        match of {
            Asking::Job(_) => (0, u64::MAX),
            Asking::Node | Asking::Tree => {
                ((super::now_ns() / 1_000_000_000).saturating_sub(86_400), u64::MAX)
            }
        }
    }

    /// Where the times of the metric proxy begin.
    fn start_s(&self, of: &Asking) -> f64 {
        match of {
            Asking::Job(key) => (key.start_ns / 1_000_000_000) as f64,
            Asking::Node | Asking::Tree => self.span(of).0 as f64,
        }
    }

    /// How fast a job read and wrote, for a picture. What cannot be read is left out: the job is told all the same.
    pub(super) fn rates(&self, key: &JobKey) -> Option<JobRates> {
        self.rates_in(key, PICTURE)
    }

    /// The same in so many points.
    pub(super) fn rates_in(&self, key: &JobKey, most: usize) -> Option<JobRates> {
        let names = ["read_bytes", "write_bytes"];
        let found =
            self.found(&Asking::Job(key.clone()), (0, u64::MAX), |name| names.contains(&name)).ok()?;
        let of = |name: &str| of_metric(&found, name, (0, u64::MAX), most)?.1;
        let (read, written) = (of(names[0])?, of(names[1])?);
        Some(JobRates {
            period_s: read.period_s() as f64,
            t0_unix_s: read.start_s() as f64,
            read_bps: rates_of(&read),
            write_bps: rates_of(&written),
        })
    }
}

/// A metric of what was found; `None` if there is none of its name, and no points if there are no values.
pub(super) fn of_metric(
    found: &[Found],
    metric: &str,
    span: (u64, u64),
    most: usize,
) -> Option<(ColumnKind, Option<Points>)> {
    let kind = found.iter().find_map(|found| Some(found.columns.find(metric)?.1))?;
    // Numbers of columns are those of a file: one that has another number there is brought to that of the first.
    let mut pieces = Vec::new();
    for found in found {
        let Some((id, _)) = found.columns.find(metric).filter(|(_, of)| *of == kind) else { continue };
        pieces.extend(found.pieces.iter().map(move |rows| (id, rows)));
    }
    let folds = pieces.iter().map(|(_, rows)| rows.folds()).max().unwrap_or(0);
    let mut column = Rows::new(folds);
    for (id, rows) in pieces {
        column.append_column(0, rows, id);
    }
    Some((kind, points([&column].into_iter(), 0, span, most)))
}

fn pairs_of(points: &Points, start_s: f64) -> Vec<(f64, SeriesValue)> {
    let at = |n: usize| (points.start_s() + n as u64 * points.period_s()) as f64 - start_s;
    let values = points.values.iter().enumerate();
    values
        .filter_map(|(n, value)| {
            let (sample, _): (Sample, u32) = (*value)?;
            Some((at(n), SeriesValue::of(sample)?))
        })
        .collect()
}
