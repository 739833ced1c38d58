//! Answers about metrics over time: of jobs and this machine from its own samples, of machines below by asking them.

use std::collections::BTreeMap;
use std::io;

use iotide_ledger::series::{ColumnKind, MAX_POINTS, MAX_VALUES, MetricAnswer, Points, Sample, SeriesAnswer};
use iotide_ledger::tree::{AskError, MOST_ANSWER, Question, Wanted};
use iotide_ledger::{JobKey, Name};
use iotide_private::Share;
use iotide_report::{JobRates, MetricList, SeriesDocument, SeriesValue, answer_json, rates_of};

use crate::answer::{Answer, Answers, Asked, Result, Viewer};
use crate::model_answers::Reply;
use crate::refusal::Refusal;
use crate::shared::Shared;
use iotide_daemon::below::{Answered, OpenQuestion};
use iotide_daemon::series::{Found, Owner, of_metric};
use iotide_daemon::store::series::LOSS;

/// Points in one answer, if nobody says how many.
const USUAL_POINTS: usize = 1000;
/// Points of the picture of a job.
const PICTURE: usize = 60;
/// Prefix of the names of derivatives, as the metric proxy has it.
const DERIVATIVE: &str = "deriv__";
/// Of a machine, the metrics of the last day are listed.
const DAY_S: u64 = 86_400;

/// Name of the sum of all machines in the metric proxy.
pub(crate) const MAIN: &str = "main";
/// Prefix of the name of a machine there.
pub(crate) const NODE: &str = "Node: ";

/// Whose metrics are asked for.
#[derive(Clone, Debug)]
pub(crate) enum Asking {
    /// Metrics that are sampled here.
    Here(Here),
    /// A machine below, which is asked.
    Below(Name),
}

/// Whose metrics are sampled here.
#[derive(Clone, Debug)]
pub(crate) enum Here {
    Job(JobKey),
    Node,
    /// This machine and all below.
    Tree,
}

impl Asking {
    pub(crate) fn is_job(&self) -> bool {
        matches!(self, Self::Here(Here::Job(_)))
    }

    /// The whole of a job; of a machine the last day.
    fn span(&self) -> (u64, u64) {
        let day_ago = (crate::shared::now_ns() / 1_000_000_000).saturating_sub(DAY_S);
        (if self.is_job() { 0 } else { day_ago }, u64::MAX)
    }

    /// Where the times of the metric proxy begin; `None`: with the first sample of the machine.
    fn start_s(&self) -> Option<f64> {
        match self {
            Self::Here(Here::Job(key)) => Some((key.start_ns / 1_000_000_000) as f64),
            _ => None,
        }
    }

    /// Asks for some of its metrics, in at most so many points each.
    fn question(&self, wanted: Wanted, points: usize) -> Question {
        let (from_s, to_s) = self.span();
        Question { wanted, from_s, to_s, points: points as u32 }
    }
}

/// Asks for the metrics that a machine had in the last day, or that a job has.
pub(crate) fn names_of_last_day(of: &Asking) -> Question {
    of.question(Wanted::Names, 1)
}

/// A question to a machine below, and what becomes of its answer.
pub(crate) struct FromBelow {
    question: OpenQuestion,
    /// Freed when there is an answer, or nobody waits any more.
    place: Share,
    tell: Box<dyn FnOnce(Answered) -> Reply + Send>,
}

impl FromBelow {
    /// Waits for the answer; returns what makes a reply of it.
    pub(crate) async fn reply(self) -> Box<dyn FnOnce() -> Reply + Send> {
        let Self { question, place, tell } = self;
        let answered = crate::tree::asking::wait(question).await;
        drop(place);
        Box::new(move || tell(answered))
    }
}

impl Shared {
    /// Finds metrics, here or below, and tells what was found or why nothing was.
    pub(crate) fn ask_series(
        &self,
        viewer: Viewer,
        of: &Asking,
        question: &Question,
        tell: impl FnOnce(Result<SeriesAnswer>) -> Reply + Send + 'static,
    ) -> Reply {
        match of {
            Asking::Here(of) => tell(
                self.series_of(of, question)
                    .map_err(|error| Refusal::new(503, format!("the series cannot be read: {error}"))),
            ),
            Asking::Below(node) => match self.ask_below(viewer, node, question) {
                Err(refused) => tell(Err(refused)),
                Ok((question, place)) => {
                    let node = node.clone();
                    let tell = Box::new(move |answered| tell(read_answer(&node, answered)));
                    Reply::Below(Box::new(FromBelow { question, place, tell }))
                }
            },
        }
    }

    /// Asks a machine below. It is asked in this daemon's name, so who may not see it is turned away here.
    fn ask_below(&self, viewer: Viewer, node: &Name, question: &Question) -> Result<(OpenQuestion, Share)> {
        if !viewer.sees_machines() {
            return Err(Refusal::new(403, "this role may not ask that"));
        }
        let tree = self.tree.as_ref().ok_or_else(|| no_answer(node, AskError::NoNode))?;
        let place = tree.askers.take(viewer.only_uid().unwrap_or(0));
        let place = place.ok_or_else(|| no_answer(node, AskError::Busy))?;
        let question = tree.ask(node, 0, question).map_err(|why| no_answer(node, why))?;
        Ok((question, place))
    }

    /// Answers a question of daemons above about this machine, as bytes.
    pub(crate) fn answer_above(&self, question: &Question) -> Answered {
        let mut question = question.clone();
        loop {
            let answer = self.series_of(&Here::Node, &question).map_err(|_| AskError::Unreadable)?;
            let bytes = answer.encode();
            if bytes.len() <= MOST_ANSWER {
                return Ok(bytes);
            }
            // Values that hardly repeat: fewer points say the same, more coarsely.
            let most = answer.metrics.iter().filter_map(|it| Some(it.points.as_ref()?.values.len())).max();
            match most {
                Some(most @ 2..) => question.points = most as u32 / 2,
                _ => return Err(AskError::TooLong),
            }
        }
    }

    /// Returns metrics that are sampled here.
    fn series_of(&self, of: &Here, question: &Question) -> io::Result<SeriesAnswer> {
        let Question { wanted, from_s, to_s, points } = question;
        let (span, most) = ((*from_s, *to_s), (*points as usize).clamp(1, MAX_POINTS));
        let found = self.found(of, span, |name| match wanted {
            Wanted::Names => false,
            Wanted::All => true,
            Wanted::Metric(metric) => name == metric.as_str(),
        })?;
        let columns = found.iter().flat_map(|found| found.columns.iter());
        let names: BTreeMap<&Name, ColumnKind> = columns.map(|(_, name, kind)| (name, kind)).collect();
        let has_none = names.is_empty();
        let metrics = match wanted {
            Wanted::Names => {
                let of_name = |(name, kind): (&Name, ColumnKind)| MetricAnswer {
                    name: name.clone(),
                    kind,
                    points: None,
                };
                names.into_iter().map(of_name).collect()
            }
            Wanted::All => {
                let most = most.min(MAX_VALUES / names.len().max(1)).max(1);
                names.into_keys().filter_map(|name| of_metric(&found, name, span, most)).collect()
            }
            Wanted::Metric(metric) => of_metric(&found, metric, span, most).into_iter().collect(),
        };
        let mut losses: Vec<String> = found.into_iter().flat_map(|found| found.losses).collect();
        // Each job is sampled at its end, however short it was.
        if let Here::Job(key) = of
            && has_none
            && losses.is_empty()
            && !self.view().jobs.iter().any(|job| job.key == *key)
        {
            losses.push(format!("{LOSS}the file of this job is missing, or was removed to make room"));
        }
        Ok(SeriesAnswer { metrics, losses })
    }

    /// The rows of metrics between two seconds since 1970.
    fn found(&self, of: &Here, span: (u64, u64), wants: impl Fn(&str) -> bool) -> io::Result<Vec<Found>> {
        let node = self.view().node.to_string();
        let until_now = (span.0, span.1.min(crate::shared::now_ns() / 1_000_000_000));
        match of {
            Here::Job(key) => self.series.find(&Owner::Job(key.clone()), wants).map(|it| vec![it]),
            Here::Node => {
                self.series.find_days(|day| Owner::Node { node: node.clone(), day }, until_now, wants)
            }
            Here::Tree => self.series.find_days(|day| Owner::Tree { day }, until_now, wants),
        }
    }
}

/// Reads what a machine below has answered.
fn read_answer(node: &Name, answered: Answered) -> Result<SeriesAnswer> {
    let bytes = answered.map_err(|why| no_answer(node, why))?;
    SeriesAnswer::decode(&bytes)
        .map_err(|fault| Refusal::new(502, format!("the answer of node {node} cannot be read: {fault}")))
}

/// Why a machine below has not answered.
fn no_answer(node: &Name, why: AskError) -> Refusal {
    match why {
        AskError::NoNode => Refusal::new(404, format!("there is no node {node} below this one")),
        AskError::Busy => {
            Refusal::new(503, format!("too many questions to node {node} are open; ask again later"))
        }
        AskError::TooLong => {
            Refusal::new(413, format!("the answer of node {node} is too long; ask for less"))
        }
        AskError::Unreadable => Refusal::new(503, format!("node {node} cannot read its samples")),
        AskError::NotKnown => Refusal::new(501, format!("node {node} does not know this question")),
        _ => Refusal::new(504, format!("node {node} did not answer")),
    }
}

/// Says what was lost, where that is why something is not found.
fn or_lost(losses: &[String], unknown: Refusal) -> Refusal {
    if losses.is_empty() { unknown } else { Refusal::new(404, losses.join("; ")) }
}

fn kind_name(kind: ColumnKind) -> &'static str {
    if kind == ColumnKind::Counter { "counter" } else { "gauge" }
}

impl Answers {
    /// The job of an id, or the machine under the names that the metric proxy has for it.
    pub(crate) fn asking(&self, viewer: Viewer, id: &str) -> Result<Asking> {
        let view = self.shared.view();
        let here = match id.strip_prefix(NODE) {
            None if id == MAIN && !view.elsewhere.is_empty() => Here::Tree,
            None if id == MAIN => Here::Node,
            None => Here::Job(self.find_job(viewer, id, &view)?.job().0.clone()),
            Some(node) if node == view.node.as_str() => Here::Node,
            Some(node) => {
                let known = self.shared.tree.as_ref().is_some_and(|tree| tree.hub().node(node).is_some());
                let below = Name::new(node).filter(|_| known);
                return below.map(Asking::Below).ok_or_else(|| {
                    Refusal::new(
                        404,
                        format!("there is no node {} below this one", Name::cut(node.as_bytes())),
                    )
                });
            }
        };
        Ok(Asking::Here(here))
    }

    /// Answers with what `tell` makes of the series that are found.
    fn reply_series(
        &self,
        viewer: Viewer,
        of: &Asking,
        question: &Question,
        tell: impl FnOnce(SeriesAnswer) -> Result<Answer> + Send + 'static,
    ) -> Reply {
        self.shared.ask_series(viewer, of, question, move |found| {
            Reply::Now(found.and_then(tell).unwrap_or_else(Answer::from))
        })
    }

    /// One metric, `metric`, from `from` to `to` in at most `points` points.
    pub(crate) fn series_of(&self, viewer: Viewer, id: &str, asked: &Asked) -> Result<Reply> {
        let of = self.asking(viewer, id)?;
        let metric = asked.get("metric").ok_or_else(|| Refusal::new(400, "'metric' is missing"))?;
        let second = |name: &str, default: u64| match asked.get(name) {
            None | Some("") => Ok(default),
            Some(said) => match said.parse::<f64>() {
                Ok(seconds) if (0.0..1e12).contains(&seconds) => Ok(seconds as u64),
                _ => Err(Refusal::new(400, format!("'{name}' is a number of seconds since 1970"))),
            },
        };
        let (from_s, to_s) = (second("from", 0)?, second("to", u64::MAX)?);
        let points = match asked.get("points") {
            None => USUAL_POINTS,
            Some(said) => {
                let points = said.parse::<usize>().ok().filter(|points| *points > 0);
                points.ok_or_else(|| Refusal::new(400, "'points' is a whole number"))?.min(MAX_POINTS)
            }
        };
        let unknown =
            || Refusal::new(404, "it has no metric of this name; /metrics beside /series lists them");
        let wanted = Wanted::Metric(Name::new(metric).ok_or_else(unknown)?);
        let question = Question { wanted, from_s, to_s, points: points as u32 };
        Ok(self.reply_series(viewer, &of, &question, move |SeriesAnswer { metrics, losses }| {
            let found = metrics.into_iter().next().ok_or_else(|| or_lost(&losses, unknown()));
            let MetricAnswer { name, kind, points } = found?;
            let document = SeriesDocument::new(name.as_str(), kind_name(kind), points.as_ref(), losses);
            Ok(Answer::json(answer_json(&document)))
        }))
    }

    /// The metrics there are.
    pub(crate) fn metrics_of(&self, viewer: Viewer, id: &str) -> Result<Reply> {
        let of = self.asking(viewer, id)?;
        Ok(self.reply_series(viewer, &of, &names_of_last_day(&of), |found| {
            let metrics = found.metrics.iter().map(|metric| (metric.name.as_str(), kind_name(metric.kind)));
            Ok(Answer::json(answer_json(&MetricList::new(metrics, found.losses))))
        }))
    }

    /// Returns the subject of a question under an alias of the metric proxy's.
    fn proxy_asking(&self, viewer: Viewer, asked: &Asked) -> Result<Asking> {
        let job = asked.get("job").or(asked.get("jobid"));
        self.asking(viewer, job.ok_or_else(|| Refusal::new(400, "'job' is missing"))?)
    }

    /// As the metric proxy lists them: names, and those of derivatives.
    pub(crate) fn proxy_metrics(&self, viewer: Viewer, asked: &Asked) -> Result<Reply> {
        let of = self.proxy_asking(viewer, asked)?;
        Ok(self.reply_series(viewer, &of, &names_of_last_day(&of), |found| {
            let names = found.metrics.iter().map(|metric| metric.name.to_string());
            let counters = found.metrics.iter().filter(|metric| metric.kind == ColumnKind::Counter);
            let derived = counters.map(|metric| format!("{DERIVATIVE}{}", metric.name));
            let all: Vec<String> = names.chain(derived).collect();
            Ok(Answer::json(answer_json(&all)))
        }))
    }

    /// As the metric proxy plots: pairs of seconds since the begin and value.
    pub(crate) fn proxy_plot(&self, viewer: Viewer, asked: &Asked) -> Result<Reply> {
        let of = self.proxy_asking(viewer, asked)?;
        let filter = asked
            .get("filter")
            .or(asked.get("metric"))
            .ok_or_else(|| Refusal::new(400, "'filter' is missing: the name of a metric"))?;
        let metric = filter.strip_prefix(DERIVATIVE).unwrap_or(filter);
        let unknown = || Refusal::new(404, "it has no metric of this name; /trace/metrics lists them");
        let wanted = Wanted::Metric(Name::new(metric).ok_or_else(unknown)?);
        let (start_s, is_derived) = (of.start_s(), metric != filter);
        Ok(self.reply_series(viewer, &of, &of.question(wanted, MAX_POINTS), move |found| {
            let metric = found.metrics.into_iter().next();
            let metric = metric.ok_or_else(|| or_lost(&found.losses, unknown()))?;
            let start_s = start_s.unwrap_or_else(|| first_s(metric.points.iter()));
            let pairs = metric.points.as_ref().map_or(Vec::new(), |points| match is_derived {
                false => pairs_of(points, start_s),
                true => {
                    let at = |n: usize| (points.start_s() + n as u64 * points.period_s()) as f64 - start_s;
                    rates_of(points)
                        .into_iter()
                        .enumerate()
                        .map(|(n, rate)| (at(n), SeriesValue::Gauge(rate)))
                        .collect()
                }
            });
            Ok(Answer::json(answer_json(&pairs)))
        }))
    }

    /// As the metric proxy exports a trace: all metrics; `iotide detect` reads it.
    pub(crate) fn proxy_read(&self, viewer: Viewer, asked: &Asked) -> Result<Reply> {
        let of = self.proxy_asking(viewer, asked)?;
        let (start_s, is_job) = (of.start_s(), of.is_job());
        Ok(self.reply_series(viewer, &of, &of.question(Wanted::All, MAX_POINTS), move |found| {
            let all = found.metrics.iter().filter_map(|metric| metric.points.as_ref());
            let start_s = start_s.unwrap_or_else(|| first_s(all));
            let pairs = |points: &Points| {
                let mut pairs = pairs_of(points, start_s);
                // All that a job counts it counts from zero on; without this, what it did before the first sample would be missing.
                if let (true, Some(&(first_s, SeriesValue::Counter(_)))) = (is_job, pairs.first()) {
                    pairs.insert(0, (first_s - points.period_s() as f64, SeriesValue::Counter(0)));
                }
                pairs
            };
            let metrics: BTreeMap<&str, Vec<(f64, SeriesValue)>> = found
                .metrics
                .iter()
                .map(|metric| (metric.name.as_str(), metric.points.as_ref().map_or(Vec::new(), pairs)))
                .collect();
            Ok(Answer::json(answer_json(&BTreeMap::from([("metrics", metrics)]))))
        }))
    }

    /// How fast a job read and wrote, for a picture. What cannot be read is left out: the job is shown all the same.
    pub(crate) fn rates(&self, key: &JobKey) -> Option<JobRates> {
        self.rates_in(key, PICTURE)
    }

    /// The same in so many points.
    pub(crate) fn rates_in(&self, key: &JobKey, most: usize) -> Option<JobRates> {
        let [read, written] = self.points_of_job(key, ["read_bytes", "write_bytes"], (0, u64::MAX), most);
        let (read, written) = (read?, written?);
        Some(JobRates {
            period_s: read.period_s() as f64,
            t0_unix_s: read.start_s() as f64,
            read_bps: rates_of(&read),
            write_bps: rates_of(&written),
        })
    }

    /// Some metrics of a job between two seconds since 1970, as far as they can be read.
    pub(crate) fn points_of_job<const N: usize>(
        &self,
        key: &JobKey,
        names: [&'static str; N],
        span: (u64, u64),
        most: usize,
    ) -> [Option<Points>; N] {
        let found = self.shared.found(&Here::Job(key.clone()), span, |name| names.contains(&name));
        let found = found.unwrap_or_default();
        names.map(|name| of_metric(&found, &Name::ours(name), span, most)?.points)
    }
}

/// When the first of some values was sampled.
fn first_s<'p>(all: impl Iterator<Item = &'p Points>) -> f64 {
    let of_one = |points: &Points| {
        let first = points.values.iter().position(Option::is_some)?;
        Some((points.start_s() + first as u64 * points.period_s()) as f64)
    };
    all.filter_map(of_one).reduce(f64::min).unwrap_or(0.0)
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
