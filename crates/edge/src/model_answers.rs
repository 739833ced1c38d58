//! What is answered about models and the measurements they rest on.

use std::collections::BTreeMap;
use std::sync::Arc;

use iotide_ledger::{Name, Parameters};
use iotide_report::{
    ApplicationModels, BuildEntry, Evaluated, ModelFailure, ProxyJob, ProxyProfile, ScalingReport, Untrusted,
    answer_json, profile,
};
use iotide_scaling::{Model, Prediction, Series, to_json_lines};
use tokio::sync::oneshot;

use crate::answer::{Answer, Answers, Asked, Known, MOST_JOBS, Result, Viewer, proxy_job, seconds};
use crate::forecast::Awaited;
use crate::refusal::Refusal;
use crate::series::FromBelow;
use iotide_daemon::models::{Fitted, MOST_POINTS, Waited, Wanted};
use iotide_daemon::store::Query;

const JSON_LINES: &str = "application/jsonl";
/// The share of intervals that hold the truth, unless another is asked for.
const CONFIDENCE: f64 = 0.9;
/// Runs that can be asked for.
const MOST_LAST: usize = 1_000_000;

/// An answer that is there, or one that must be waited for.
pub(crate) enum Reply {
    Now(Answer),
    Later(oneshot::Receiver<Waited>, Box<dyn FnOnce(&Fitted) -> Answer + Send>),
    Forecast(Awaited),
    /// From a machine below.
    Below(Box<FromBelow>),
}

/// An answer, or what is to be worked out next for it.
pub(crate) enum Step {
    Answer(Answer),
    Work(Box<dyn FnOnce() -> Reply + Send>),
}

impl Reply {
    /// Waits for what must be waited for; works out nothing itself.
    pub(crate) async fn next(self) -> Step {
        match self {
            Self::Now(answer) => Step::Answer(answer),
            Self::Forecast(awaited) => Step::Answer(awaited.answer().await),
            Self::Later(models, answer) => match models.await {
                Ok(Ok(fitted)) => Step::Work(Box::new(move || Self::Now(answer(&fitted)))),
                Ok(Err(why)) => Step::Answer(Refusal::new(503, why).into()),
                Err(_) => Step::Answer(Refusal::new(503, "the models could not be fitted").into()),
            },
            Self::Below(awaited) => Step::Work(awaited.reply().await),
        }
    }

    /// The answer, once it is there, for whom nobody waits meanwhile.
    pub(crate) async fn wait(mut self) -> Answer {
        loop {
            self = match self.next().await {
                Step::Answer(answer) => return answer,
                Step::Work(work) => work(),
            };
        }
    }
}

/// The application that is asked about.
pub(crate) struct Application {
    pub(crate) wanted: Wanted,
    pub(crate) name: Untrusted,
    pub(crate) user: Untrusted,
}

/// What models say of a question.
pub(crate) type Tell = fn(&Application, &Asked, &Fitted) -> Result<Answer>;

impl Answers {
    /// Answers by the models of the application that is asked about, once they are there.
    pub(crate) fn reply_with(
        &self,
        viewer: Viewer,
        asked: Asked,
        tell: impl FnOnce(&Application, &Asked, &Fitted) -> Answer + Send + 'static,
    ) -> Result<Reply> {
        let application = self.application(viewer, &asked)?;
        if let Some(fitted) = self.shared.models.now(&application.wanted) {
            return Ok(Reply::Now(tell(&application, &asked, &fitted)));
        }
        let asker = viewer.for_models().only_uid().unwrap_or(0);
        let models = self.shared.models.ask(application.wanted.clone(), asker).ok_or_else(|| {
            Refusal::new(503, "too many questions about models wait already; ask again later")
        })?;
        Ok(Reply::Later(models, Box::new(move |fitted| tell(&application, &asked, fitted))))
    }

    /// The models that are asked for.
    pub(crate) fn wanted(&self, viewer: Viewer, asked: &Asked) -> Result<Wanted> {
        self.application(viewer, asked).map(|application| application.wanted)
    }

    /// The application of a job (`job`, `jobid`), or by its id or name (`app`): of several, that of the latest run.
    pub(crate) fn application(&self, viewer: Viewer, asked: &Asked) -> Result<Application> {
        let viewer = viewer.for_models();
        let (key, about) = match (asked.get("job").or(asked.get("jobid")), asked.get("app")) {
            (Some(id), _) => {
                let view = self.shared.view();
                let known = self.find_job(viewer, id, &view)?;
                let (key, about) = known.job();
                (key.clone(), about.clone())
            }
            (None, Some(app)) => {
                let user = asked.get("user").filter(|user| !user.is_empty()).map(str::to_owned);
                let query = Query {
                    only_uid: viewer.only_uid(),
                    app: Some(app.to_owned()),
                    user,
                    limit: 1,
                    ..Query::default()
                };
                let latest = self.ask(|reader| reader.jobs(&query))?.into_iter().next();
                let latest = latest
                    .ok_or_else(|| Refusal::new(404, "no run of such an application is known to you"))?;
                (latest.key, latest.about)
            }
            (None, None) => return Err(Refusal::new(400, "'job' or 'app' is missing")),
        };
        let bad = |name: &str, what: &str| Refusal::new(400, format!("'{name}' is {what}"));
        let build = match asked.get("build").filter(|build| !build.is_empty()) {
            None => None,
            Some("this") => Some(about.build.as_str().to_owned()).filter(|build| !build.is_empty()),
            Some(build)
                if build.bytes().all(|byte| byte.is_ascii_hexdigit()) && build.len() <= Name::MAX_BYTES =>
            {
                Some(build.to_ascii_lowercase())
            }
            Some(_) => return Err(bad("build", "the first hexadecimal digits of a build id, or 'this'")),
        };
        let last = match asked.get("last").filter(|last| !last.is_empty()) {
            None => None,
            Some(last) => {
                let last = last.parse().ok().filter(|last| (1..=MOST_LAST).contains(last));
                Some(last.ok_or_else(|| bad("last", "a number of runs, from 1 on"))?)
            }
        };
        let since_ns = match asked.get("since").filter(|since| !since.is_empty()) {
            None => None,
            Some(since) => {
                let seconds = since.parse::<f64>().ok().filter(|seconds| (0.0..1e10).contains(seconds));
                Some((seconds.ok_or_else(|| bad("since", "a number of seconds since 1970"))? * 1e9) as u64)
            }
        };
        let wanted = Wanted { build, last, since_ns, ..Wanted::all(key.uid, about.app.clone()) };
        Ok(Application { wanted, name: about.program().into(), user: about.user.as_str().into() })
    }

    /// Jobs that have ended, as the metric proxy lists profiles.
    fn ended(&self, viewer: Viewer) -> Result<Vec<ProxyJob>> {
        let view = self.shared.view();
        let query = Query { limit: MOST_JOBS, only_uid: viewer.only_uid(), ..Query::default() };
        let jobs = self.ask(|reader| reader.jobs(&query))?;
        Ok((jobs.iter())
            .filter_map(|job| Some(proxy_job(&job.key, &job.about, &view, job.end_ns?)))
            .collect())
    }

    pub(crate) fn profiles(&self, viewer: Viewer) -> Result<Answer> {
        Ok(Answer::json(answer_json(&self.ended(viewer)?)))
    }

    pub(crate) fn profiles_by_command(&self, viewer: Viewer) -> Result<Answer> {
        let mut by_command: BTreeMap<String, Vec<ProxyJob>> = BTreeMap::new();
        for job in self.ended(viewer)? {
            by_command.entry(job.command.as_said().to_owned()).or_default().push(job);
        }
        Ok(Answer::json(answer_json(&by_command)))
    }

    /// What one job counted, name by name.
    pub(crate) fn profile_of(&self, viewer: Viewer, asked: &Asked) -> Result<Answer> {
        let id = asked.get("jobid").or(asked.get("job"));
        let id = id.ok_or_else(|| Refusal::new(400, "'jobid' is missing"))?;
        let view = self.shared.view();
        let (desc, counters, run_time_s) = match self.find_job(viewer, id, &view)? {
            Known::Live(live, _) => {
                (proxy_job(&live.key, &live.about, &view, 0), Arc::clone(&live.counters), None)
            }
            Known::Stored(stored) => {
                let counters = self.ask(|reader| reader.counters(stored.number))?;
                let end_ns = (stored.end_ns)
                    .ok_or_else(|| Refusal::new(404, format!("no job {id} is known to you")))?;
                let run_time_s = seconds(end_ns.saturating_sub(stored.key.start_ns));
                (proxy_job(&stored.key, &stored.about, &view, end_ns), Arc::new(counters), Some(run_time_s))
            }
        };
        let counters: BTreeMap<String, f64> = (profile(&counters, run_time_s).into_iter())
            .filter(|value| value.value != 0.0)
            .map(|value| (format!("{} {}", value.callpath, value.metric), value.value))
            .collect();
        Ok(Answer::json(answer_json(&ProxyProfile { desc, counters })))
    }
}

/// Models as `iotide model` tells them.
pub(crate) fn models(application: &Application, asked: &Asked, fitted: &Fitted) -> Result<Answer> {
    let set = &fitted.set;
    let mut report = ScalingReport::new(application.wanted.app.as_str(), "daemon", "auto", set.parameters());
    report.notes.clone_from(&fitted.notes);
    report.keeps_points = asked.get("points").is_some();
    let confidence = confidence(asked)?;
    let at = match asked.get("at") {
        None => None,
        Some(_) => Some(point(asked, set.parameters(), None)?),
    };
    let tells_models = asked.get("models") != Some("0");
    for (series, model) in set.iter().filter(|(series, _)| tells_models && is_chosen(asked, series)) {
        match model {
            Ok(model) => {
                let predictions: Vec<Prediction> =
                    at.iter().map(|at| model.predict(at, confidence)).collect();
                report.add(series, model, &predictions, confidence);
            }
            Err(error) => report.failures.push(ModelFailure {
                callpath: series.callpath.clone(),
                metric: series.metric.clone(),
                error: error.to_string(),
            }),
        }
    }
    let builds = fitted.builds.iter().map(|of| BuildEntry {
        build: of.build.as_str().into(),
        runs: of.n_runs,
        first_unix_s: seconds(of.first_ns),
        last_unix_s: seconds(of.last_ns),
    });
    let answer = ApplicationModels {
        app: application.wanted.app.as_str().into(),
        name: application.name.clone(),
        user: application.user.clone(),
        runs: fitted.n_runs,
        builds: builds.collect(),
        report,
    };
    Ok(Answer::json(answer_json(&answer)))
}

/// Whether a series contains what is asked for, as with `iotide model --callpath --metric`.
fn is_chosen(asked: &Asked, series: &Series) -> bool {
    let contains = |name: &str, part: Option<&str>| part.is_none_or(|part| name.contains(part));
    contains(&series.callpath, asked.get("callpath")) && contains(&series.metric, asked.get("metric"))
}

pub(crate) fn evaluate(_: &Application, asked: &Asked, fitted: &Fitted) -> Result<Answer> {
    let (_, model) = model_of(asked, fitted)?;
    let at = point(asked, fitted.set.parameters(), None)?;
    let confidence = confidence(asked)?;
    let there = model.predict(&at, confidence);
    let finite = |value: f64| value.is_finite().then_some(value);
    Ok(Answer::json(answer_json(&Evaluated {
        value: finite(there.value),
        interval: there
            .interval
            .filter(|(low, high)| low.is_finite() && high.is_finite())
            .map(|(low, high)| [low, high]),
        confidence,
        cautions: there.cautions.iter().map(|caution| caution.with_names(fitted.set.parameters())).collect(),
    })))
}

pub(crate) fn points(_: &Application, _: &Asked, fitted: &Fitted) -> Result<Answer> {
    let lines = to_json_lines(fitted.set.parameters(), fitted.set.iter().map(|(series, _)| series));
    Ok(Answer { content_type: JSON_LINES, ..Answer::json(lines) })
}

/// Extra-P reads a file only if everything in it was measured at all points.
pub(crate) fn points_for_extra_p(_: &Application, _: &Asked, fitted: &Fitted) -> Result<Answer> {
    let all = || fitted.set.iter().map(|(series, _)| series);
    let n_points = all().map(|series| series.measurements.len()).max().unwrap_or(0);
    let whole = all().filter(|series| series.measurements.len() == n_points);
    let lines = to_json_lines(fitted.set.parameters(), whole);
    Ok(Answer { content_type: JSON_LINES, ..Answer::json(lines) })
}

/// `{"posix->write size": [[4, 1048576]]}`: where what was measured.
pub(crate) fn proxy_points(_: &Application, _: &Asked, fitted: &Fitted) -> Result<Answer> {
    let mut all: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for (series, _) in fitted.set.iter() {
        let mut points = Vec::new();
        for measurement in &series.measurements {
            let size = measurement.coordinate.first().copied().unwrap_or(f64::NAN);
            if let iotide_scaling::Values::Each(values) = &measurement.values {
                points.extend(values.iter().map(|value| (size, *value)));
            }
        }
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        all.insert(name_of(series), points);
    }
    Ok(Answer::json(answer_json(&all)))
}

/// `[[name, equation, rss]]`.
pub(crate) fn proxy_models(_: &Application, _: &Asked, fitted: &Fitted) -> Result<Answer> {
    let models: Vec<(Untrusted, String, Option<f64>)> = (fitted.set.iter())
        .filter_map(|(series, model)| {
            let model = model.as_ref().ok()?;
            let equation = model.function.to_text(fitted.set.parameters());
            Some((name_of(series).into(), equation, Some(model.costs.rss).filter(|rss| rss.is_finite())))
        })
        .collect();
    Ok(Answer::json(answer_json(&models)))
}

/// A number.
pub(crate) fn proxy_evaluate(_: &Application, asked: &Asked, fitted: &Fitted) -> Result<Answer> {
    let (_, model) = model_of(asked, fitted)?;
    let value = model.function.at(&point(asked, fitted.set.parameters(), None)?);
    if !value.is_finite() {
        return Err(Refusal::new(422, "the function has no value there"));
    }
    Ok(Answer::json(answer_json(&value)))
}

/// `[[x, y]]`.
pub(crate) fn proxy_plot(_: &Application, asked: &Asked, fitted: &Fitted) -> Result<Answer> {
    let (_, model) = model_of(asked, fitted)?;
    let parameters = fitted.set.parameters();
    let along = asked.get("x").unwrap_or(Parameters::SIZE);
    let along = (parameters.iter().position(|name| name == along))
        .ok_or_else(|| Refusal::new(400, format!("'x' is one of {}", parameters.join(", "))))?;
    let [start, end] = [number(asked, "start")?, number(asked, "end")?];
    let bad = |what: &str| Refusal::new(400, what.to_owned());
    let start = start.ok_or_else(|| bad("'start' is missing"))?;
    let end = end.ok_or_else(|| bad("'end' is missing"))?;
    let step = number(asked, "step")?.unwrap_or(1.0);
    if step <= 0.0 || end < start {
        return Err(bad("'step' is above zero, and 'end' not before 'start'"));
    }
    let n_steps = ((end - start) / step).floor();
    if n_steps >= MOST_POINTS as f64 {
        return Err(bad(&format!(
            "at most {MOST_POINTS} points are evaluated at once; take a larger 'step'"
        )));
    }
    let mut at = point(asked, parameters, Some(along))?;
    let points: Vec<(f64, Option<f64>)> = (0..=n_steps as usize)
        .map(|i| {
            at[along] = start + i as f64 * step;
            (at[along], Some(model.function.at(&at)).filter(|y| y.is_finite()))
        })
        .collect();
    Ok(Answer::json(answer_json(&points)))
}

/// What a metric is called where there is one name for it.
fn name_of(series: &Series) -> String {
    format!("{} {}", series.callpath, series.metric)
}

/// The model that `metric` and `callpath` name; or `metric` alone, if there is but one, or as `/model/get` names it.
fn model_of<'a>(asked: &Asked, fitted: &'a Fitted) -> Result<(&'a Series, &'a Model)> {
    let metric = asked.get("metric").ok_or_else(|| Refusal::new(400, "'metric' is missing"))?;
    let callpath = asked.get("callpath");
    let of_name = fitted.set.iter().find(|(series, _)| callpath.is_none() && name_of(series) == metric);
    let mut named = fitted.set.iter().filter(|(series, _)| {
        series.metric == metric && callpath.is_none_or(|callpath| series.callpath == callpath)
    });
    let found = of_name.or_else(|| named.next());
    let Some((series, model)) = found else {
        let what = match fitted.n_runs {
            0 => "no run of this application has been measured to its end yet",
            _ => "no run has measured that; /model/get lists what there is",
        };
        return Err(Refusal::new(404, what));
    };
    if of_name.is_none() && named.next().is_some() {
        return Err(Refusal::new(400, "several call paths have this metric: 'callpath' says which"));
    }
    match model {
        Ok(model) => Ok((series, model)),
        Err(error) => Err(Refusal::new(404, format!("there is no model: {error}"))),
    }
}

fn confidence(asked: &Asked) -> Result<f64> {
    let confidence = number(asked, "confidence")?.unwrap_or(CONFIDENCE);
    if confidence > 0.0 && confidence < 1.0 {
        Ok(confidence)
    } else {
        Err(Refusal::new(400, "'confidence' is between 0 and 1"))
    }
}

fn number(asked: &Asked, name: &str) -> Result<Option<f64>> {
    match asked.get(name) {
        None => Ok(None),
        Some(text) => match text.trim().parse::<f64>().ok().filter(|value| value.is_finite()) {
            Some(value) => Ok(Some(value)),
            None => Err(Refusal::new(400, format!("'{name}' is a number"))),
        },
    }
}

/// The point that is asked about: `at=p=4096,nx=3`, or each parameter by itself, as in `size=4096`. `p` stands for `size` where no parameter has that name.
/// The parameter `free` need not be there.
fn point(asked: &Asked, parameters: &[String], free: Option<usize>) -> Result<Vec<f64>> {
    let mut at = vec![f64::NAN; parameters.len()];
    let mut set = |name: &str, value: f64| {
        let name =
            if name == "p" && !parameters.iter().any(|known| known == "p") { Parameters::SIZE } else { name };
        let index = parameters.iter().position(|known| known == name);
        let index = index.ok_or_else(|| {
            let known = parameters.join(", ");
            Refusal::new(400, format!("there is no parameter of the name in 'at'; there are {known}"))
        })?;
        at[index] = value;
        Ok::<_, Refusal>(())
    };
    for pair in asked.get("at").unwrap_or("").split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let pair = pair.split_once('=').and_then(|(name, value)| {
            Some((name.trim(), value.trim().parse::<f64>().ok().filter(|value| value.is_finite())?))
        });
        let (name, value) =
            pair.ok_or_else(|| Refusal::new(400, "'at' is like size=4096,nx=512: names and numbers"))?;
        set(name, value)?;
    }
    for name in parameters.iter().map(String::as_str).chain(["p"]) {
        if let Some(value) = number(asked, name)? {
            set(name, value)?;
        }
    }
    match (0..at.len()).find(|&index| at[index].is_nan() && free != Some(index)) {
        Some(missing) => {
            Err(Refusal::new(400, format!("the parameter '{}' is missing", parameters[missing])))
        }
        None => Ok(at),
    }
}
