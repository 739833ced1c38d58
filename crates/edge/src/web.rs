//! Pages: what the daemon knows is gathered here, and shown by `pages::web`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use iotide_ledger::series::{ColumnKind, MetricAnswer, Points, Sample};
use iotide_ledger::tree::{Group, Question as TreeQuestion, Wanted};
use iotide_ledger::{Counters, JobKey, JobState, Name};
use iotide_pages::web::{
    ApiExample, Application, ComparedRun, Frame, ICON, JobLoad, JobPage, JobsPage, LoadPage, ModelPage,
    ModelsPage, NodeShare, Profile, ProfilesPage, Role, SearchPage, TracePage, alarms_page, api_page, assets,
    decisions_page, example_of, job_page, jobs_page, load_page, login_page, model_page, models_page,
    nodes_page, plain_page, profiles_page, search_page, traces_page, welcome_page,
};
use iotide_report::{JobRates, LoginLink, NodeEntry, Untrusted, answer_json, profile};

use crate::answer::{Answer, Answers, Asked, Known, Result, Viewer, seconds};
use crate::doors::{Asker, name_of};
use crate::model_answers::Reply;
use crate::refusal::Refusal;
use crate::route_table::ROUTES;
use crate::routes::{MakePage, Question};
use crate::series::{MAIN, NODE, names_of_last_day};
use iotide_daemon::store::{Query, StoredJob};

const HTML: &str = "text/html; charset=utf-8";
/// Running jobs with a picture in the list.
const MOST_PICTURES: usize = 40;
/// Jobs that are looked at to tell which applications there are.
const MOST_RUNS: usize = 1000;
/// Runs of which the profile of an application is the mean.
const MOST_MEAN: usize = 20;
/// The load is shown in steps of so many seconds, so many before now.
const STEP_S: u64 = 2;
const N_PAST: usize = 300;
/// Bars of a picture in the list; it is so many pixels wide.
const MOST_BARS: usize = 120;
/// Points of a chart.
const MOST_POINTS: usize = 600;
/// Machines below that can be chosen on the page of traces; others are found on that of nodes.
const MOST_CHOICES: usize = 1000;
/// Characters of an answer that are shown on the page of the API.
const MOST_SHOWN: usize = 1500;

fn html(page: String) -> Answer {
    Answer { status: 200, content_type: HTML, body: page.into() }
}

/// A page that is there.
fn made(page: String) -> Result<Reply> {
    Ok(Reply::Now(html(page)))
}

/// The sign of pages.
pub(crate) fn icon() -> Answer {
    Answer { status: 200, content_type: "image/svg+xml", body: ICON.into() }
}

/// The script or the style of pages.
pub(crate) fn asset(name: &str) -> Result<Answer> {
    let types = ["text/javascript; charset=utf-8", "text/css; charset=utf-8"];
    let found = assets().iter().zip(types).find(|(asset, _)| asset.path.strip_prefix("/page/") == Some(name));
    let (asset, content_type) = found.ok_or_else(|| Refusal::new(404, "pages have no such part"))?;
    Ok(Answer { status: 200, content_type, body: asset.text.as_str().into() })
}

/// Surroundings of a page, with all that it borrows.
pub(crate) struct Seat {
    role: Role,
    who: Untrusted,
    node: Untrusted,
    at: &'static str,
    has_session: bool,
    now_unix_s: f64,
}

impl Seat {
    fn frame(&self) -> Frame<'_> {
        let Self { role, who, node, at, has_session, now_unix_s } = self;
        Frame { role: *role, who, node, at, has_session: *has_session, now_unix_s: *now_unix_s }
    }
}

impl Answers {
    fn seat(&self, asker: &Asker, at: &'static str) -> Seat {
        let role = match asker.viewer {
            Viewer::All => Role::Operator,
            Viewer::User(_) => Role::User,
            Viewer::Controller => Role::Controller,
            Viewer::Sums => Role::Nobody,
        };
        Seat {
            role,
            who: name_of(asker.viewer).into(),
            node: self.shared.view().node.as_str().into(),
            at,
            has_session: asker.session.is_some(),
            now_unix_s: seconds(crate::shared::now_ns()),
        }
    }

    /// A refusal as a page; who is not known learns how to log in.
    pub(crate) fn refused_page(&self, asker: &Asker, refusal: Refusal) -> Answer {
        let seat = self.seat(asker, "");
        let Refusal { status, why } = refusal;
        let heading = match status {
            401 => return Answer { status, ..html(self.login_page(&seat)) },
            404 => "Not found",
            403 => "Not for you",
            429 => "Too many questions",
            _ => "That did not work",
        };
        let start = "<p><a href=\"/\">To the start</a></p>\n";
        Answer { status, ..html(plain_page(&seat.frame(), heading, &why.into(), start)) }
    }

    fn login_page(&self, seat: &Seat) -> String {
        let view = self.shared.view();
        let sum = |rate: fn(&iotide_daemon::leaf::JobView) -> f64| view.jobs.iter().map(rate).sum::<f64>();
        login_page(&seat.frame(), view.jobs.len(), sum(|job| job.read_bps), sum(|job| job.write_bps))
    }

    /// A link for whoever is at the unix socket.
    pub(crate) fn link(&self, viewer: Viewer) -> Result<Answer> {
        let secret = (self.shared.doors.link(viewer, Instant::now()))
            .map_err(|error| Refusal::new(503, format!("there are no random numbers: {error}")))?;
        let scheme = if self.shared.config.web.tls.is_some() { "https" } else { "http" };
        // Where it listens everywhere, the name of the machine leads there.
        let named = |address: SocketAddr| match address.ip().is_unspecified() {
            true => format!("{}:{}", self.shared.config.node, address.port()),
            false => address.to_string(),
        };
        let http = self.shared.http.map(|address| format!("{scheme}://{}", named(address)));
        Ok(Answer::json(answer_json(&LoginLink { path: format!("/login?once={secret}"), http, seconds: 60 })))
    }

    /// Logs in by a link; returns what the cookie is to hold.
    pub(crate) fn log_in(&self, query: &str) -> (Answer, Option<String>) {
        let nobody = Asker::nobody();
        let logged_in =
            link_in(query).and_then(|once| self.shared.doors.log_in(&once, Instant::now()).ok().flatten());
        match logged_in {
            Some((secret, _)) => (html(welcome_page(&self.seat(&nobody, "").frame())), Some(secret)),
            None => {
                let why =
                    "This link was used already, or is older than a minute. `iotide web` prints a new one.";
                let page = plain_page(&self.seat(&nobody, "").frame(), "Not logged in", &why.into(), "");
                (Answer { status: 403, ..html(page) }, None)
            }
        }
    }

    /// The page after a logout.
    pub(crate) fn good_bye(&self) -> Answer {
        html(self.login_page(&self.seat(&Asker::nobody(), "")))
    }

    /// Makes a page; whom nobody knows is asked to log in.
    pub(crate) fn page(
        &self,
        make: MakePage,
        at: &'static str,
        asker: Asker,
        asked: Result<Question>,
    ) -> Reply {
        let at = match at {
            "/" | "/jobs/{job}" if asker.viewer == Viewer::Controller => "/models",
            "/" | "/jobs/{job}" => "/jobs",
            other => other,
        };
        let seat = self.seat(&asker, at);
        if asker.viewer == Viewer::Sums {
            return Reply::Now(html(self.login_page(&seat)));
        }
        let reply = asked.and_then(|asked| make(self, asked, seat));
        reply.unwrap_or_else(|refusal| Reply::Now(self.refused_page(&asker, refusal)))
    }

    /// Returns the first page: the jobs, or the models for a viewer who sees no jobs.
    pub(crate) fn first_page(&self, asked: Question, seat: Seat) -> Result<Reply> {
        match asked.viewer() {
            Viewer::Controller => self.models_page(asked.viewer(), &seat),
            _ => self.jobs_page(asked, seat),
        }
    }

    pub(crate) fn models_or_one(&self, asked: Question, seat: Seat) -> Result<Reply> {
        match asked.query.get("app").or(asked.query.get("job")) {
            Some(_) => self.model_page(asked.viewer(), asked.query, seat),
            None => self.models_page(asked.viewer(), &seat),
        }
    }

    pub(crate) fn nodes_page(&self, _: Question, seat: Seat) -> Result<Reply> {
        made(nodes_page(&seat.frame(), &self.nodes()))
    }

    pub(crate) fn alarms_page(&self, asked: Question, seat: Seat) -> Result<Reply> {
        made(alarms_page(&seat.frame(), &self.shared.alarms.list(asked.viewer().only_uid())))
    }

    pub(crate) fn decisions_page(&self, _: Question, seat: Seat) -> Result<Reply> {
        made(decisions_page(&seat.frame(), &self.shared.steering.decisions()))
    }

    pub(crate) fn jobs_page(&self, asked: Question, seat: Seat) -> Result<Reply> {
        let (viewer, asked) = (asked.viewer(), asked.query);
        let said = |name: &str| Untrusted::from(asked.get(name).unwrap_or_default());
        let (text, user) = (said("q"), said("user"));
        let state = asked.get("state").unwrap_or_default().to_owned();
        // An empty field of a form asks for nothing.
        let asked = if state.is_empty() { asked.without("state") } else { asked };
        let list = self.job_list(viewer, &asked)?;
        let view = self.shared.view();
        let now_s = crate::shared::now_ns() / 1_000_000_000;
        let rates: Vec<Option<JobRates>> = list
            .jobs
            .iter()
            .enumerate()
            .map(|(i, job)| {
                let live = view
                    .jobs
                    .iter()
                    .find(|live| live.key.id.as_str() == job.job.as_said() && viewer.sees(&live.key));
                live.filter(|_| i < MOST_PICTURES)
                    .map(|live| coarse(self.recent(&live.key, now_s), live.key.start_ns / 1_000_000_000))
            })
            .collect();
        let page = JobsPage { list: &list, rates: &rates, text: &text, state: &state, user: &user };
        made(jobs_page(&seat.frame(), &page))
    }

    pub(crate) fn job_page(&self, asked: Question, seat: Seat) -> Result<Reply> {
        let (viewer, id) = (asked.viewer(), asked.named.as_str());
        let document = self.job_document(viewer, id)?;
        let view = self.shared.view();
        let known = self.find_job(viewer, id, &view)?;
        let key = known.job().0;
        let rates = self.rates_in(key, MOST_POINTS);
        let expected = self.shared.expectations.of(key);
        let nodes = match &known {
            Known::Live(live, _) => self.node_shares(&live.key, &live.counters, live.n_running),
            Known::Stored(stored) => {
                self.node_shares(&stored.key, &self.ask(|reader| reader.counters(stored.number))?, 0)
            }
        };
        let why = self.why(viewer, id).ok().flatten();
        let page = JobPage {
            job: &document,
            why: why.as_deref(),
            rates: rates.as_ref(),
            confidence: expected.map(|expected| expected.confidence),
            bytes_per_phase: expected.and_then(|expected| expected.bytes_per_phase),
            nodes: &nodes,
            prometheus: self.shared.config.web.prometheus.as_deref(),
        };
        made(job_page(&seat.frame(), &page))
    }

    /// Returns the share of each node in a job: of those that have sent rows, and of this one, which did the rest.
    fn node_shares(&self, key: &JobKey, all: &Counters, n_running: u32) -> Vec<NodeShare> {
        let Some(tree) = &self.shared.tree else { return Vec::new() };
        let group = Group { cluster: key.cluster.clone(), uid: key.uid, id: key.id.clone(), is_own: false };
        let by_node = tree.hub().by_node(&group);
        let share = |node: &Name, n_running: u32, counters: &Counters| {
            let io = counters.io();
            NodeShare {
                node: node.as_str().into(),
                n_running,
                bytes_read: io.read.bytes,
                bytes_written: io.write.bytes,
                io_s: seconds(io.read.ns + io.write.ns + io.other.ns),
                mpi_s: seconds(counters.mpi().ns),
                threads_s: seconds(counters.threads().ns),
            }
        };
        let mut rest = all.clone();
        let mut n_rest = n_running;
        let mut shares = Vec::new();
        for (node, (n_running, counters)) in &by_node {
            rest.subtract_all(counters);
            n_rest = n_rest.saturating_sub(*n_running);
            shares.push(share(node, *n_running, counters));
        }
        if !by_node.is_empty() && rest.io().bytes() > 0 {
            shares.push(share(&self.shared.view().node, n_rest, &rest));
        }
        shares
    }

    /// Returns the rates of a job in each step of the last minutes.
    pub(crate) fn recent(&self, key: &JobKey, now_s: u64) -> JobRates {
        let from_s = now_s.saturating_sub(N_PAST as u64 * STEP_S);
        // One point before the first, to know what has grown in it.
        let span = (from_s.saturating_sub(64), u64::MAX);
        let of = |points: Option<Points>| {
            points.map_or_else(
                || vec![0.0; N_PAST],
                |points| steps_of(&points, key.start_ns / 1_000_000_000, from_s),
            )
        };
        let [read, written] = self.points_of_job(key, ["read_bytes", "write_bytes"], span, 2 * MOST_POINTS);
        JobRates {
            period_s: STEP_S as f64,
            t0_unix_s: from_s as f64,
            read_bps: of(read),
            write_bps: of(written),
        }
    }

    pub(crate) fn load_page(&self, asked: Question, seat: Seat) -> Result<Reply> {
        let viewer = asked.viewer();
        let view = self.shared.view();
        let now_s = crate::shared::now_ns() / 1_000_000_000;
        let jobs = view.jobs.iter().filter(|job| viewer.sees(&job.key)).map(|job| {
            let expected = self.shared.expectations.of(&job.key);
            let rates = self.recent(&job.key, now_s);
            JobLoad {
                job: job.key.id.as_str().into(),
                name: job.about.name.as_str().into(),
                app: job.about.app.as_str().into(),
                user: job.about.user.as_str().into(),
                read_bps: job.read_bps,
                write_bps: job.write_bps,
                past_bps: rates
                    .read_bps
                    .iter()
                    .zip(&rates.write_bps)
                    .map(|(read, write)| read + write)
                    .collect(),
                period_s: expected.and_then(|expected| expected.period_s),
                next_phase_unix_s: expected.and_then(|expected| expected.next_phase_unix_s),
                bytes_per_phase: expected.and_then(|expected| expected.bytes_per_phase),
            }
        });
        let (jobs, forecast) = (jobs.collect(), self.forecast_now(viewer));
        let page = LoadPage { step_s: STEP_S as f64, n_past: N_PAST, jobs, forecast };
        made(load_page(&seat.frame(), page))
    }

    /// The latest jobs, running ones too.
    fn latest(&self, viewer: Viewer) -> Result<Vec<StoredJob>> {
        let query = Query { limit: MOST_RUNS, only_uid: viewer.only_uid(), ..Query::default() };
        self.ask(|reader| reader.jobs(&query))
    }

    fn applications(&self, viewer: Viewer) -> Result<Vec<Application>> {
        let mut all: Vec<(u32, Application)> = Vec::new();
        for job in self.latest(viewer.for_models())?.into_iter().filter(|job| job.end_ns.is_some()) {
            let size = job.about.size;
            match all
                .iter_mut()
                .find(|(uid, known)| *uid == job.key.uid && known.app == *job.about.app.as_str())
            {
                Some((_, known)) => {
                    known.n_runs += 1;
                    known.sizes = (known.sizes.0.min(size), known.sizes.1.max(size));
                }
                None => all.push((
                    job.key.uid,
                    Application {
                        app: job.about.app.as_str().into(),
                        name: job.about.program().into(),
                        user: job.about.user.as_str().into(),
                        n_runs: 1,
                        sizes: (size, size),
                        last_unix_s: seconds(job.key.start_ns),
                    },
                )),
            }
        }
        Ok(all.into_iter().map(|(_, application)| application).collect())
    }

    fn models_page(&self, viewer: Viewer, seat: &Seat) -> Result<Reply> {
        let applications = self.applications(viewer)?;
        made(models_page(&seat.frame(), &ModelsPage { applications: &applications }))
    }

    fn model_page(&self, viewer: Viewer, asked: Asked, seat: Seat) -> Result<Reply> {
        self.reply_with(viewer, asked, move |application, asked, fitted| {
            let models: Vec<_> = fitted
                .set
                .iter()
                .filter_map(|(series, model)| Some((series, model.as_ref().ok()?)))
                .collect();
            let number = |name: &str| {
                asked.get(name).and_then(|said| said.parse::<f64>().ok()).filter(|n| n.is_finite())
            };
            let doubling = iotide_pages::web::STEPS_A_DOUBLING;
            let at = number("step")
                .map(|step| (step.clamp(0.0, 64.0) / doubling).exp2().round())
                .or_else(|| number("at"));
            let app = Untrusted::from(application.wanted.app.as_str());
            html(model_page(
                &seat.frame(),
                &ModelPage {
                    app: &app,
                    name: &application.name,
                    user: &application.user,
                    n_runs: fitted.n_runs,
                    notes: &fitted.notes,
                    parameters: fitted.set.parameters(),
                    models: &models,
                    chosen: asked.get("callpath").zip(asked.get("metric")),
                    at,
                },
            ))
        })
    }

    pub(crate) fn traces_page(&self, asked: Question, seat: Seat) -> Result<Reply> {
        let (viewer, asked) = (asked.viewer(), asked.query);
        let view = self.shared.view();
        let node =
            |name: &str| (Untrusted::from(format!("{NODE}{name}")), Untrusted::from(format!("node {name}")));
        let mut others = vec![node(view.node.as_str())];
        if !view.elsewhere.is_empty() {
            others.insert(0, (MAIN.into(), "the whole machine".into()));
        }
        let asked_for = asked.get("job").filter(|job| !job.is_empty());
        let of = asked_for.map_or_else(|| others[0].0.clone(), Untrusted::from);
        others.extend(self.nodes_below().iter().take(MOST_CHOICES).map(|name| node(name.as_str())));
        let running = view.jobs.iter().filter(|job| viewer.sees(&job.key)).take(100);
        others.extend(running.map(|job| {
            (job.key.id.as_str().into(), format!("{} ({})", job.key.id, job.about.name.as_str()).into())
        }));
        let asking = self.asking(viewer, of.as_said())?;
        let tracing = Tracing { seat, asked, of, others, is_job: asking.is_job() };
        // First which metrics there are, then one of them.
        let shared = Arc::clone(&self.shared);
        Ok(self.shared.ask_series(viewer, &asking.clone(), &names_of_last_day(&asking), move |names| {
            let names = match names {
                Ok(found) => found.metrics,
                Err(refused) => return tracing.page(&[], "", Err(refused)),
            };
            let Some(metric) = tracing.metric(&names) else { return tracing.page(&names, "", Ok(None)) };
            let (from_s, to_s) = tracing.span();
            let wanted = Wanted::Metric(metric.clone());
            let question = TreeQuestion { wanted, from_s, to_s, points: MOST_POINTS as u32 };
            shared.ask_series(viewer, &asking, &question, move |found| {
                let points = found.map(|found| found.metrics.into_iter().next().and_then(|it| it.points));
                tracing.page(&names, metric.as_str(), points)
            })
        }))
    }

    pub(crate) fn profiles_page(&self, asked: Question, seat: Seat) -> Result<Reply> {
        let (viewer, asked) = (asked.viewer(), asked.query);
        let query = Asked::of("limit", "500");
        let mut runs = self.job_list(viewer, &query)?.jobs;
        runs.retain(|run| run.state != JobState::Running);
        let said = |name: &str| Untrusted::from(asked.get(name).unwrap_or_default());
        let (a, b) = (said("a"), said("b"));
        let mut fault = None;
        let compared = if a.is_empty() && b.is_empty() {
            None
        } else {
            match (self.compared(viewer, &a), self.compared(viewer, &b)) {
                (Ok(a), Ok(b)) => Some([a, b]),
                (Err(refused), _) | (_, Err(refused)) => {
                    fault = Some(Untrusted::from(refused.why));
                    None
                }
            }
        };
        let page = ProfilesPage {
            runs: &runs,
            chosen: [&a, &b],
            compared: compared.as_ref(),
            fault: fault.as_ref(),
        };
        made(profiles_page(&seat.frame(), &page))
    }

    /// Returns the measurements of a run, or the mean of the last runs of an application.
    fn compared(&self, viewer: Viewer, key: &Untrusted) -> Result<ComparedRun> {
        let said = key.as_said();
        if said.is_empty() {
            return Err(Refusal::new(400, "choose both A and B"));
        }
        let runs: Vec<StoredJob> = match said.strip_prefix("app:") {
            Some(app) => {
                let query = Query {
                    only_uid: viewer.only_uid(),
                    app: Some(app.to_owned()),
                    state: Some(JobState::Ended),
                    limit: MOST_MEAN,
                    ..Query::default()
                };
                self.ask(|reader| reader.jobs(&query))?
            }
            None => {
                let view = self.shared.view();
                match self.find_job(viewer, said, &view)? {
                    Known::Stored(stored) => vec![stored],
                    Known::Live(..) => {
                        return Err(Refusal::new(400, "a job that runs has no profile yet"));
                    }
                }
            }
        };
        let Some(latest) = runs.first() else {
            return Err(Refusal::new(404, "no run of this application that has ended is known to you"));
        };
        let (app, name) = (latest.about.app.as_str().into(), latest.about.name.as_str().into());
        let (name, n) = (iotide_report::called(&app, &name).clone(), runs.len() as f64);
        let mut mean = Profile::new();
        let mut size = 0.0;
        for run in &runs {
            let counters = self.ask(|reader| reader.counters(run.number))?;
            let run_time_s = run.end_ns.map(|end| seconds(end.saturating_sub(run.key.start_ns)));
            size += f64::from(run.about.size) / n;
            for value in profile(&counters, run_time_s) {
                *mean.entry((value.callpath, value.metric.to_owned())).or_default() += value.value / n;
            }
        }
        Ok(ComparedRun { key: key.clone(), n_runs: runs.len(), name, size, profile: mean })
    }

    pub(crate) fn search_page(&self, asked: Question, seat: Seat) -> Result<Reply> {
        let (viewer, asked) = (asked.viewer(), asked.query);
        let said = asked.get("q").unwrap_or_default().trim();
        let text = Untrusted::from(said);
        let (jobs, applications, nodes) = match said.is_empty() {
            true => Default::default(),
            false => {
                let jobs = self.job_list(viewer, &Asked::of("q", said))?;
                let mut applications = self.applications(viewer)?;
                applications
                    .retain(|app| [&app.app, &app.name, &app.user].iter().any(|name| name.mentions(said)));
                let mut nodes: Vec<NodeEntry> = self.nodes().nodes;
                nodes.retain(|node| node.node.mentions(said));
                nodes.truncate(100);
                (jobs, applications, nodes)
            }
        };
        let page = SearchPage { text: &text, jobs: &jobs, applications: &applications, nodes: &nodes };
        made(search_page(&seat.frame(), &page))
    }

    pub(crate) fn api_page(&self, asked: Question, seat: Seat) -> Result<Reply> {
        let viewer = asked.viewer();
        let latest = self.latest(viewer.for_models()).unwrap_or_default();
        let ended = latest.iter().find(|job| job.end_ns.is_some());
        let job = latest.first().filter(|_| viewer != Viewer::Controller).map(|job| job.key.id.as_str());
        let (app, node) = (ended.map(|job| job.about.app.as_str()), self.shared.view().node.to_string());
        let examples: Vec<ApiExample> = ROUTES
            .iter()
            .map(|route| {
                let endpoint = route.endpoint;
                let may = route.check(viewer, false).is_ok();
                let asked = example_of(&endpoint, job, app, &node).filter(|_| may).unwrap_or_default();
                let (path, query) = asked.split_once('?').unwrap_or((&asked, ""));
                let answered = match self.reply_if(viewer, path, query) {
                    Some(Reply::Now(answer)) => Some(answer),
                    // What must be waited for is not shown.
                    _ => None,
                };
                let answered = answered.map(|answer| {
                    let text = String::from_utf8_lossy(&answer.body);
                    (answer.status, Untrusted::from(text.chars().take(MOST_SHOWN).collect::<String>()))
                });
                ApiExample { endpoint, asked, answered }
            })
            .collect();
        made(api_page(&seat.frame(), &examples))
    }

    fn reply_if(&self, viewer: Viewer, path: &str, query: &str) -> Option<Reply> {
        (!path.is_empty()).then(|| self.reply(viewer, path, query))
    }
}

/// Question to the page of traces.
struct Tracing {
    seat: Seat,
    asked: Asked,
    of: Untrusted,
    others: Vec<(Untrusted, Untrusted)>,
    is_job: bool,
}

impl Tracing {
    /// The metric that is asked for, or one that most want to see.
    fn metric(&self, names: &[MetricAnswer]) -> Option<Name> {
        let known = |name: &str| names.iter().find(|metric| metric.name.as_str() == name);
        let asked = self.asked.get("metric").and_then(known);
        let usual = || ["write_bytes", "disk_write_bytes"].into_iter().find_map(known);
        asked.or_else(usual).or_else(|| names.first()).map(|metric| metric.name.clone())
    }

    fn whole(&self, name: &str, default: u64) -> u64 {
        let said = self.asked.get(name).and_then(|said| said.parse().ok());
        said.unwrap_or(default).min(10 * 366 * 86_400)
    }

    /// How long the window is, and how long before now it ends; 0 for all there is, and for now.
    fn window(&self) -> (u64, u64) {
        (self.whole("last", if self.is_job { 0 } else { 3600 }), self.whole("ago", 0))
    }

    /// From when until when, in seconds since 1970.
    fn span(&self) -> (u64, u64) {
        let (last_s, ago_s) = self.window();
        let end_s = (crate::shared::now_ns() / 1_000_000_000).saturating_sub(ago_s);
        let start_s = match last_s {
            0 if self.is_job => 0,
            0 => end_s.saturating_sub(30 * 86_400),
            last_s => end_s.saturating_sub(last_s),
        };
        (start_s, if ago_s == 0 { u64::MAX } else { end_s })
    }

    /// The page, with the values or with why there are none: another job or machine can be chosen all the same.
    fn page(&self, names: &[MetricAnswer], metric: &str, points: Result<Option<Points>>) -> Reply {
        let metrics: Vec<(Untrusted, bool)> = names
            .iter()
            .map(|metric| (metric.name.as_str().into(), metric.kind == ColumnKind::Counter))
            .collect();
        let is_counter =
            names.iter().any(|known| known.name.as_str() == metric && known.kind == ColumnKind::Counter);
        let as_rate = self.asked.get("as") != Some("total");
        let (status, fault, points) = match points {
            Ok(points) => (200, None, points),
            Err(refused) => (refused.status, Some(Untrusted::from(refused.why)), None),
        };
        let values = points.as_ref().map_or_else(Vec::new, |points| values_of(points, is_counter && as_rate));
        let (last_s, ago_s) = self.window();
        let page = traces_page(
            &self.seat.frame(),
            &TracePage {
                of: &self.of,
                others: &self.others,
                metrics: &metrics,
                metric: &metric.into(),
                is_counter,
                as_rate,
                last_s,
                ago_s,
                t0_unix_s: points.as_ref().map_or(0.0, |points| points.start_s() as f64),
                period_s: points.as_ref().map_or(1.0, |points| points.period_s() as f64),
                values: &values,
                fault: fault.as_ref(),
            },
        );
        Reply::Now(Answer { status, ..html(page) })
    }
}

/// Rates from the begin of a job on, in no more steps than a small picture can show.
fn coarse(rates: JobRates, begun_s: u64) -> JobRates {
    let before = begun_s.saturating_sub(rates.t0_unix_s as u64) / STEP_S;
    let n_before = (before as usize).min(N_PAST);
    let a_bar = (N_PAST - n_before).div_ceil(MOST_BARS).max(1);
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let of = |bps: &[f64]| bps[n_before.min(bps.len())..].chunks(a_bar).map(mean).collect();
    JobRates { read_bps: of(&rates.read_bps), write_bps: of(&rates.write_bps), ..rates }
}

/// Returns the growth of a counter per second, in steps from a moment on; before the begin of the job it was 0.
fn steps_of(points: &Points, begun_s: u64, from_s: u64) -> Vec<f64> {
    let mut steps = vec![0.0; N_PAST];
    let mut last: Option<(f64, u64)> =
        (points.start_s() <= begun_s + 2).then_some((points.start_s() as f64, 0));
    for (i, value) in points.values.iter().enumerate() {
        let Some((Sample::Counter(value), _)) = *value else { continue };
        let end = (points.start_s() + (i as u64 + 1) * points.period_s()) as f64;
        if let Some((start, before)) = last {
            let bps = value.saturating_sub(before) as f64 / (end - start).max(1.0);
            // The steps that it lies in, and no others.
            let step_of =
                |at: f64| ((at - from_s as f64) / STEP_S as f64).floor().clamp(0.0, N_PAST as f64) as usize;
            let (first, last) = (step_of(start), (step_of(end) + 1).min(N_PAST));
            for (n, step) in steps.iter_mut().enumerate().take(last).skip(first) {
                let low = (from_s + n as u64 * STEP_S) as f64;
                let overlap = (end.min(low + STEP_S as f64) - start.max(low)).max(0.0);
                *step += bps * overlap / STEP_S as f64;
            }
        }
        last = Some((end, value));
    }
    steps
}

/// Values as they are drawn; of a counter, if asked, how much it grew per second.
fn values_of(points: &Points, as_rate: bool) -> Vec<Option<f64>> {
    let number = |sample: Sample| match sample {
        Sample::Counter(value) => value as f64,
        Sample::Gauge(value) => value,
    };
    let values: Vec<Option<f64>> = points
        .values
        .iter()
        .map(|value| value.map(|(sample, _)| number(sample)).filter(|value| value.is_finite()))
        .collect();
    if !as_rate {
        return values;
    }
    let mut last: Option<(usize, f64)> = None;
    let mut rates = vec![None; values.len()];
    for (i, value) in values.iter().enumerate() {
        let Some(value) = *value else { continue };
        if let Some((before, was)) = last {
            let rate = (value - was).max(0.0) / ((i - before) as f64 * points.period_s() as f64);
            rates[before + 1..=i].fill(Some(rate));
        }
        last = Some((i, value));
    }
    rates
}

/// The secret of a link that logs in.
pub(crate) fn link_in(query: &str) -> Option<String> {
    Asked::parse(query).ok().and_then(|asked| asked.get("once").map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter(first_tick: u64, values: &[Option<u64>]) -> Points {
        let values = values.iter().map(|value| value.map(|value| (Sample::Counter(value), 1))).collect();
        Points { folds: 0, first_tick, ticks_a_point: 1, values }
    }

    #[test]
    fn steps_move_what_the_counter_grew() {
        let values: Vec<Option<u64>> = (1..=20).map(|second| Some(second * 100)).collect();
        // A job that began with the first point: its first bytes count.
        let steps = steps_of(&counter(1000, &values), 1000, 1000);
        assert_eq!((steps[..10].to_vec(), steps[10]), (vec![100.0; 10], 0.0));
        // Of one that began long before, what it had moved by then does not.
        let steps = steps_of(&counter(1000, &values), 5, 1000);
        assert_eq!(steps[..3], [50.0, 100.0, 100.0]);
        // As a picture: a bar for each step, none before the job.
        let rates = JobRates { period_s: 2.0, t0_unix_s: 1000.0, read_bps: steps.clone(), write_bps: steps };
        let bars = coarse(rates, 1590).read_bps;
        assert_eq!(bars, [0.0; 5]);
    }

    #[test]
    fn a_rate_is_what_came_since_the_last_value() {
        let points = counter(0, &[Some(5), Some(10), None, Some(30)]);
        assert_eq!(values_of(&points, true), [None, Some(5.0), Some(10.0), Some(10.0)]);
        assert_eq!(values_of(&points, false), [Some(5.0), Some(10.0), None, Some(30.0)]);
    }
}
