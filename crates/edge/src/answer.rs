//! Answers to questions.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use iotide_ledger::tree::KnownNode;
use iotide_ledger::{About, Cell, Counters, JobId, JobKey, JobState, Metric, Name, SystemCounter};
use iotide_report::{
    EarlierRun, JobDocument, JobIo, JobList, JobMpi, JobTime, NodeEntry, NodeList, ProxyJob, Untrusted,
    WatchedJob, answer_json,
};

use crate::groups::MEMORY;
use crate::refusal::Refusal;
use crate::series::{MAIN, NODE};
use crate::shared::Shared;
use crate::stagers::Stagers;
use iotide_daemon::collect::{GroupJob, user_name};
use iotide_daemon::events::Hears;
use iotide_daemon::gauges::Gauges;
use iotide_daemon::leaf::{JobView, View};
use iotide_daemon::store::{JobSums, Query, Reader, StoreError, StoredJob};

/// Who asks, and so what they see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Viewer {
    /// Everything: root, the daemon's own user, who has the token.
    All,
    /// The jobs of one user.
    User(u32),
    /// Models of all applications, and no jobs.
    Controller,
    /// Sums of the machine: nobody knows who it is.
    Sums,
}

/// No user has this number.
const NO_UID: u32 = u32::MAX;

impl Viewer {
    /// Whose jobs are shown; `None` for everyone's.
    pub(crate) fn only_uid(self) -> Option<u32> {
        match self {
            Self::All => None,
            Self::User(uid) => Some(uid),
            Self::Controller | Self::Sums => Some(NO_UID),
        }
    }

    /// The same where models are asked for: a controller sees those of all.
    pub(crate) fn for_models(self) -> Self {
        if self == Self::Controller { Self::All } else { self }
    }

    /// The events they get.
    pub(crate) fn hears(self) -> Hears {
        match self {
            Self::All => Hears::All,
            Self::User(uid) => Hears::User(uid),
            Self::Controller | Self::Sums => Hears::Models,
        }
    }

    /// Whether metrics of machines are seen.
    pub(crate) fn sees_machines(self) -> bool {
        matches!(self, Self::All | Self::User(_))
    }

    pub(crate) fn sees(self, key: &JobKey) -> bool {
        self.sees_user(key.uid)
    }

    /// Whether the jobs of a user are seen.
    pub(crate) fn sees_user(self, owner: u32) -> bool {
        match self {
            Self::All => true,
            Self::User(uid) => uid == owner,
            Self::Controller | Self::Sums => false,
        }
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_type: &'static str,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn json(json: String) -> Self {
        Self { status: 200, content_type: "application/json", body: json.into() }
    }

    pub(crate) fn text(text: String) -> Self {
        Self { status: 200, content_type: "text/plain; charset=utf-8", body: text.into() }
    }
}

/// Jobs in one answer, unless fewer are asked for.
pub(crate) const MOST_JOBS: usize = 1000;
/// Jobs in one answer, if nobody says how many.
const USUAL_JOBS: usize = 100;
/// Readers of the store that stay open: each has a cache of its own.
const MOST_RESTING: usize = 2;
/// Earlier runs that are reported of a job.
const MOST_EARLIER: usize = 5;

/// A job that someone asks about.
pub(crate) enum Known<'v> {
    /// It runs. The store may have it, too, or an earlier one of the same id.
    Live(&'v JobView, Option<StoredJob>),
    /// It does not run.
    Stored(StoredJob),
}

impl Known<'_> {
    /// Which it is, and what is known of it.
    pub(crate) fn job(&self) -> (&JobKey, &About) {
        match self {
            Self::Stored(stored) => (&stored.key, &stored.about),
            Self::Live(live, Some(stored)) if stored.key.start_ns > live.key.start_ns => {
                (&stored.key, &stored.about)
            }
            Self::Live(live, _) => (&live.key, &live.about),
        }
    }
}

/// Access to the shared state and the store, for answers.
#[derive(Debug)]
pub(crate) struct Answers {
    pub(crate) shared: Arc<Shared>,
    readers: Readers,
}

/// Readers of the store that rest. Each who asks has one alone: nobody waits for another's question.
#[derive(Debug, Default)]
struct Readers(Mutex<Vec<Reader>>);

impl Readers {
    /// Asks the store. A reader that failed is not used again: a damaged database is replaced by another.
    fn ask<T>(
        &self,
        store: &Path,
        ask: impl FnOnce(&Reader) -> std::result::Result<T, StoreError>,
    ) -> std::result::Result<T, StoreError> {
        let resting = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let rested = resting().pop();
        let reader = rested.map_or_else(|| Reader::open(store), Ok)?;
        let answer = ask(&reader)?;
        let mut resting = resting();
        if resting.len() < MOST_RESTING {
            resting.push(reader);
        }
        Ok(answer)
    }
}

pub(crate) type Result<T> = std::result::Result<T, Refusal>;

impl Answers {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, readers: Readers::default() }
    }

    /// Takes in metrics of a program.
    pub(crate) fn push(&self, viewer: Viewer, asked: &Asked, text: &[u8]) -> Result<Answer> {
        let uid = viewer.only_uid().unwrap_or_else(|| rustix::process::geteuid().as_raw());
        let source = asked.get("source").unwrap_or_default();
        self.shared.exporters.push(uid, user_name(uid), source, text).map(Answer::text)
    }

    /// Asks the store.
    pub(crate) fn ask<T>(
        &self,
        ask: impl FnOnce(&Reader) -> std::result::Result<T, StoreError>,
    ) -> Result<T> {
        Ok(self.readers.ask(&self.shared.config.store, ask)?)
    }

    /// The jobs that are asked for.
    pub(crate) fn job_list(&self, viewer: Viewer, asked: &Asked) -> Result<JobList> {
        let view = self.shared.view();
        let query = self.query(viewer, asked)?;
        let mut stored =
            self.ask(|reader| reader.jobs(&Query { limit: query.limit + 1, ..query.clone() }))?;
        let has_more = stored.len() > query.limit;
        stored.truncate(query.limit);
        let next =
            stored.last().filter(|_| has_more).map(|job| format!("{}.{}", job.key.start_ns, job.number));
        let live: HashMap<&JobKey, &JobView> = view.jobs.iter().map(|job| (&job.key, job)).collect();
        let mut jobs = Vec::new();
        if query.before.is_none() {
            // The store may not have heard of them yet.
            let known: std::collections::HashSet<&JobKey> = stored.iter().map(|job| &job.key).collect();
            let shows = |job: &JobView| {
                viewer.sees(&job.key) && !known.contains(&job.key) && is_asked_for(job, &query)
            };
            let others: Vec<&JobView> = view.jobs.iter().filter(|job| shows(job)).collect();
            let is_stored = match others.is_empty() {
                true => std::collections::HashSet::new(),
                false => self.ask(|reader| reader.known(others.iter().map(|job| &job.key)))?,
            };
            let others = others.into_iter().filter(|job| !is_stored.contains(&job.key));
            jobs.extend(others.map(|job| (&job.key, self.live_entry(job, &view))));
        }
        let numbers: Vec<i64> = stored.iter().map(|job| job.number).collect();
        let mut of_jobs = self.ask(|reader| reader.sums(&numbers, MEMORY))?;
        for job in &stored {
            let entry = match live.get(&job.key).filter(|_| job.state == JobState::Running) {
                Some(live) => self.live_entry(live, &view),
                None => stored_entry(job, of_jobs.remove(&job.number).unwrap_or_default()),
            };
            jobs.push((&job.key, entry));
        }
        let mut stagers = Stagers::read(&self.shared.config.pages);
        let with_staging = |(key, entry): (&JobKey, WatchedJob)| WatchedJob {
            staging: stagers.take(&key.id, key.uid),
            ..entry
        };
        Ok(JobList { jobs: jobs.into_iter().map(with_staging).collect(), next })
    }

    fn live_entry(&self, job: &JobView, view: &View) -> WatchedJob {
        let expected = self.shared.expectations.of(&job.key);
        let memory_bytes =
            GroupJob::of(&self.shared.groups(), &job.key).and_then(|group| group.reading.memory_bytes);
        WatchedJob {
            cpu_s: cpu_s(&job.counters),
            memory_bytes,
            read_bps: Some(job.read_bps),
            write_bps: Some(job.write_bps),
            period_s: expected.and_then(|expected| expected.period_s),
            next_phase_unix_s: expected.and_then(|expected| expected.next_phase_unix_s),
            bytes_per_phase: expected.and_then(|expected| expected.bytes_per_phase),
            confidence: expected
                .filter(|expected| expected.period_s.is_some())
                .map(|expected| expected.confidence),
            nodes: job.nodes.iter().map(|node| node.as_str().into()).collect(),
            ..entry(&job.key, &job.about, view.node.as_str(), JobState::Running)
        }
    }

    fn query(&self, viewer: Viewer, asked: &Asked) -> Result<Query> {
        let text = |name: &str| asked.get(name).filter(|value| !value.is_empty()).map(str::to_owned);
        let bad = |name: &str, what: &str| Refusal::new(400, format!("'{name}' is {what}"));
        let limit = match asked.get("limit") {
            None => USUAL_JOBS,
            Some(limit) => {
                limit.parse::<usize>().map_err(|_| bad("limit", "a whole number"))?.clamp(1, MOST_JOBS)
            }
        };
        let since_ns = match asked.get("since") {
            None => None,
            Some(since) => {
                let seconds = since.parse::<f64>().ok().filter(|seconds| (0.0..1e10).contains(seconds));
                Some((seconds.ok_or_else(|| bad("since", "a number of seconds since 1970"))? * 1e9) as u64)
            }
        };
        let state = match asked.get("state") {
            None => None,
            Some(state) => {
                Some(JobState::of(state).ok_or_else(|| bad("state", "one of running, ended and partial"))?)
            }
        };
        let before = match asked.get("cursor") {
            None => None,
            Some(cursor) => {
                let parsed = cursor
                    .split_once('.')
                    .and_then(|(start, number)| Some((start.parse().ok()?, number.parse().ok()?)));
                Some(parsed.ok_or_else(|| bad("cursor", "what 'next' of an answer was"))?)
            }
        };
        Ok(Query {
            only_uid: viewer.only_uid(),
            user: text("user"),
            app: text("app"),
            state,
            since_ns,
            text: text("q"),
            before,
            limit,
        })
    }

    pub(crate) fn job_document(&self, viewer: Viewer, id: &str) -> Result<JobDocument> {
        let view = self.shared.view();
        let mut stagers = Stagers::read(&self.shared.config.pages);
        let mut document = match self.find_job(viewer, id, &view)? {
            Known::Live(live, stored) => {
                let losses = match stored.filter(|stored| stored.key == live.key) {
                    Some(stored) => self.ask(|reader| reader.losses(Some(stored.number)))?,
                    None => Vec::new(),
                };
                let mut entry = self.live_entry(live, &view);
                entry.losses = losses.into_iter().map(Untrusted::from).collect();
                entry.staging = stagers.take(&live.key.id, live.key.uid);
                let mut document = document(entry, &live.key, &live.about);
                document.n_running = live.n_running;
                document.count(&live.counters);
                let memory = GroupJob::of(&self.shared.groups(), &live.key).cloned();
                if let (Some(cgroup), Some(group)) = (&mut document.cgroup, memory) {
                    cgroup.memory_bytes = group.reading.memory_bytes;
                    cgroup.memory_peak_bytes = group.reading.memory_peak_bytes;
                }
                document.earlier = self.earlier(viewer, &live.key, &document)?;
                document.rates = self.rates(&live.key);
                document
            }
            Known::Stored(stored) => {
                let counters = self.ask(|reader| reader.counters(stored.number))?;
                let losses = self.ask(|reader| reader.losses(Some(stored.number)))?;
                let sums = JobSums { io: counters.io(), losses, ..JobSums::default() };
                let mut document = document(stored_entry(&stored, sums), &stored.key, &stored.about);
                document.entry.staging = stagers.take(&stored.key.id, stored.key.uid);
                document.count(&counters);
                let figures = self.ask(|reader| reader.figures(stored.number))?;
                (document.entry.period_s, document.entry.bytes_per_phase) =
                    iotide_daemon::predict::Expected::measured(&figures);
                document.entry.cpu_s = cpu_s(&counters);
                document.entry.memory_bytes = Gauges::most(&figures, MEMORY).map(|bytes| bytes as u64);
                if let Some(cgroup) = &mut document.cgroup {
                    cgroup.memory_peak_bytes = document.entry.memory_bytes;
                }
                document.earlier = self.earlier(viewer, &stored.key, &document)?;
                document.rates = self.rates(&stored.key);
                document
            }
        };
        let until_s = document.entry.end_unix_s.unwrap_or(seconds(view.at_ns));
        document.run_time_s = Some(until_s - document.entry.start_unix_s).filter(|run_s| *run_s > 0.0);
        document.issues = document.judged();
        Ok(document)
    }

    /// The latest job of an id that someone may see.
    pub(crate) fn find_job<'v>(&self, viewer: Viewer, id: &str, view: &'v View) -> Result<Known<'v>> {
        let id = JobId::of_scheduler(id)?;
        let stored = self.ask(|reader| {
            let of_id = reader.job(&id, viewer.only_uid())?.into_iter().next();
            of_id.map_or_else(|| reader.job_of_alias(id.as_str(), viewer.only_uid()), |job| Ok(Some(job)))
        })?;
        let id = stored.as_ref().map_or(id, |stored| stored.key.id.clone());
        let live = (view.jobs.iter())
            .filter(|job| job.key.id == id && viewer.sees(&job.key))
            .max_by_key(|job| job.key.start_ns)
            // One that the store knows to have ended is no longer live.
            .filter(|live| {
                stored
                    .as_ref()
                    .is_none_or(|stored| stored.key != live.key || stored.state == JobState::Running)
            });
        match (live, stored) {
            (Some(live), stored) => Ok(Known::Live(live, stored)),
            (None, Some(stored)) => Ok(Known::Stored(stored)),
            (None, None) => Err(Refusal::new(404, format!("no job {id} is known to you"))),
        }
    }

    fn earlier(&self, viewer: Viewer, key: &JobKey, document: &JobDocument) -> Result<Vec<EarlierRun>> {
        let query = Query {
            only_uid: viewer.only_uid(),
            app: Some(document.entry.app.as_said().to_owned()),
            before: Some((key.start_ns, 0)),
            limit: MOST_EARLIER,
            ..Query::default()
        };
        let mut runs = Vec::new();
        for job in self.ask(|reader| reader.jobs(&query))? {
            let io = self.ask(|reader| reader.counters(job.number))?.io();
            runs.push(EarlierRun {
                job: job.key.id.as_str().into(),
                start_unix_s: seconds(job.key.start_ns),
                size: job.about.size,
                run_time_s: job.end_ns.map(|end| seconds(end.saturating_sub(job.key.start_ns))),
                bytes_read: io.read.bytes,
                bytes_written: io.write.bytes,
                build: job.about.build.as_str().into(),
            });
        }
        Ok(runs)
    }

    pub(crate) fn nodes(&self) -> NodeList {
        let Some(tree) = &self.shared.tree else {
            let view = self.shared.view();
            let io = view.total.io();
            return NodeList {
                nodes: vec![NodeEntry {
                    node: view.node.as_str().into(),
                    version: env!("CARGO_PKG_VERSION").into(),
                    jobs: view.n_jobs_here() as u64,
                    processes: view.n_pages as u64,
                    bytes_read: io.read.bytes,
                    bytes_written: io.write.bytes,
                    losses: view.not_counted().map(|(_, n)| n).sum(),
                    ..NodeEntry::default()
                }],
            };
        };
        let now = crate::shared::now_ns();
        let hub = tree.hub();
        let entry = |known: &KnownNode| {
            let news = &known.news;
            let is_measured = news.round_trip_ns > 0;
            NodeEntry {
                node: news.node.as_str().into(),
                parent: (!news.parent.is_empty()).then(|| news.parent.as_str().into()),
                version: news.version.as_str().into(),
                jobs: news.jobs,
                processes: news.processes,
                bytes_read: news.bytes_read,
                bytes_written: news.bytes_written,
                skew_s: is_measured.then_some(news.skew_ns as f64 / 1e9),
                round_trip_s: is_measured.then(|| seconds(news.round_trip_ns)),
                silent_s: seconds(known.silent_ns(now)),
                losses: news.losses,
            }
        };
        NodeList { nodes: hub.nodes().map(entry).collect() }
    }

    pub(crate) fn losses(&self) -> Result<Answer> {
        let mut losses = self.ask(|reader| reader.losses(None))?;
        let view = self.shared.view();
        losses.extend(view.not_counted().map(|(what, n)| what.in_words(n)));
        losses.extend(self.shared.store_fault.read().unwrap_or_else(PoisonError::into_inner).clone());
        losses.extend(self.shared.series.fault());
        losses.extend(self.shared.alarms.fault());
        let losses: Vec<Untrusted> =
            losses.into_iter().chain(self.shared.exporters.faults()).map(Untrusted::from).collect();
        Ok(Answer::json(answer_json(&BTreeMap::from([("losses", losses)]))))
    }

    /// As the metric proxy answers: running jobs, the node's sum, the sum of all.
    pub(crate) fn proxy_jobs(&self, viewer: Viewer, asked: &Asked) -> Result<Answer> {
        self.proxy_list(viewer, asked.get("past").is_some()).map(|jobs| Answer::json(answer_json(&jobs)))
    }

    /// All that has metrics over time: the same with jobs that have ended and machines below.
    pub(crate) fn proxy_traces(&self, viewer: Viewer) -> Result<Answer> {
        let mut jobs = self.proxy_list(viewer, true)?;
        jobs.extend(self.nodes_below().iter().map(|node| sum_of_node(node.as_str())));
        Ok(Answer::json(answer_json(&jobs)))
    }

    /// The machines below, in the order of their names.
    pub(crate) fn nodes_below(&self) -> Vec<Name> {
        let Some(tree) = &self.shared.tree else { return Vec::new() };
        let hub = tree.hub();
        let names = hub.nodes().map(|known| &known.news.node);
        names.filter(|node| **node != hub.own.node).cloned().collect()
    }

    fn proxy_list(&self, viewer: Viewer, has_past: bool) -> Result<Vec<ProxyJob>> {
        let view = self.shared.view();
        let mut jobs: Vec<ProxyJob> = view
            .jobs
            .iter()
            .filter(|job| viewer.sees(&job.key))
            .map(|job| proxy_job(&job.key, &job.about, &view, 0))
            .collect();
        if has_past {
            let query = Query { limit: MOST_JOBS, only_uid: viewer.only_uid(), ..Query::default() };
            for job in self.ask(|reader| reader.jobs(&query))? {
                if let Some(end) = job.end_ns {
                    jobs.push(proxy_job(&job.key, &job.about, &view, end));
                }
            }
        }
        jobs.push(sum_of_node(view.node.as_str()));
        jobs.push(proxy_sum(MAIN.to_owned(), "Sum of all Jobs".to_owned(), ""));
        Ok(jobs)
    }

    pub(crate) fn proxy_job(&self, viewer: Viewer, asked: &Asked) -> Result<Answer> {
        let id =
            asked.get("job").or(asked.get("jobid")).ok_or_else(|| Refusal::new(400, "'job' is missing"))?;
        self.job_document(viewer, id).map(|job| Answer::json(answer_json(&job)))
    }
}

pub(crate) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn is_asked_for(job: &JobView, query: &Query) -> bool {
    let about = &job.about;
    query.user.as_deref().is_none_or(|user| about.user.as_str() == user)
        && query.app.as_deref().is_none_or(|app| about.app.as_str() == app || about.name.as_str() == app)
        && query.state.is_none_or(|state| state == JobState::Running)
        && query.since_ns.is_none_or(|since| job.key.start_ns >= since)
        && query.text.as_deref().is_none_or(|text| {
            [job.key.id.as_str(), about.name.as_str(), &about.command].iter().any(|part| part.contains(text))
        })
}

/// Returns the entry of a job, whether it runs or not.
fn entry(key: &JobKey, about: &About, node: &str, state: JobState) -> WatchedJob {
    WatchedJob {
        job: key.id.as_str().into(),
        user: about.user.as_str().into(),
        app: about.app.as_str().into(),
        name: about.name.as_str().into(),
        program: about.program().into(),
        partition: about.partition.as_str().into(),
        size: about.size,
        nodes: vec![node.into()],
        state,
        trust: about.trust,
        start_unix_s: seconds(key.start_ns),
        end_unix_s: None,
        read_bps: None,
        write_bps: None,
        cpu_s: None,
        memory_bytes: None,
        period_s: None,
        next_phase_unix_s: None,
        bytes_per_phase: None,
        confidence: None,
        losses: Vec::new(),
        staging: Vec::new(),
    }
}

/// Processor time of a job, where the system counts it.
fn cpu_s(counters: &Counters) -> Option<f64> {
    let of_job = |(metric, cell): (&Metric, &Cell)| match metric {
        Metric::System(counter) if SystemCounter::CPU.into_iter().any(|cpu| *counter == cpu) => {
            Some(seconds(cell.ns))
        }
        _ => None,
    };
    let mut known = counters.iter().filter_map(of_job).peekable();
    known.peek().is_some().then(|| known.sum())
}

fn stored_entry(job: &StoredJob, sums: JobSums) -> WatchedJob {
    let run_time_s = job.end_ns.map(|end| seconds(end.saturating_sub(job.key.start_ns)));
    let rate = |bytes: u64| run_time_s.filter(|time| *time > 0.0).map(|time| bytes as f64 / time);
    WatchedJob {
        end_unix_s: job.end_ns.map(seconds),
        read_bps: rate(sums.io.read.bytes),
        write_bps: rate(sums.io.write.bytes),
        cpu_s: sums.cpu_ns.map(seconds),
        memory_bytes: sums.memory_bytes,
        losses: sums.losses.into_iter().map(Untrusted::from).collect(),
        nodes: job.node.split(',').map(Untrusted::from).collect(),
        ..entry(&job.key, &job.about, "", job.state)
    }
}

fn document(entry: WatchedJob, key: &JobKey, about: &About) -> JobDocument {
    JobDocument {
        entry,
        uid: key.uid,
        command: about.command.as_str().into(),
        run_dir: about.run_dir.as_str().into(),
        account: about.account.as_str().into(),
        alias: about.alias.as_str().into(),
        cluster: key.cluster.as_str().into(),
        n_running: 0,
        n_killed: 0,
        io: JobIo::default(),
        mpi: JobMpi::default(),
        time: JobTime::default(),
        own: Vec::new(),
        build: about.build.as_str().into(),
        parameters: about.parameters.as_str().into(),
        cgroup: None,
        earlier: Vec::new(),
        rates: None,
        run_time_s: None,
        why: None,
        issues: None,
    }
}

pub(crate) fn proxy_job(key: &JobKey, about: &About, view: &View, end_ns: u64) -> ProxyJob {
    ProxyJob {
        jobid: key.id.as_str().into(),
        command: about.command.as_str().into(),
        size: about.size,
        nodelist: view.node.as_str().into(),
        partition: about.partition.as_str().into(),
        cluster: key.cluster.as_str().into(),
        run_dir: about.run_dir.as_str().into(),
        start_time: key.start_ns / 1_000_000_000,
        end_time: end_ns / 1_000_000_000,
    }
}

/// Returns the entry in the metric proxy's list for all jobs of a machine.
fn sum_of_node(node: &str) -> ProxyJob {
    proxy_sum(format!("{NODE}{node}"), format!("Sum of all Jobs running on {node}"), node)
}

fn proxy_sum(jobid: String, command: String, nodelist: &str) -> ProxyJob {
    ProxyJob {
        jobid: jobid.into(),
        command: command.into(),
        size: 0,
        nodelist: nodelist.into(),
        partition: "".into(),
        cluster: "".into(),
        run_dir: "".into(),
        start_time: 0,
        end_time: 0,
    }
}

/// Parameters behind the question mark. The head of a question is bounded, and so are they.
#[derive(Default)]
pub(crate) struct Asked(Vec<(String, String)>);

impl Asked {
    pub(crate) fn parse(query: &str) -> Result<Self> {
        let decode = |text: &str| decode(text).ok_or_else(not_encoded);
        let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decode(name)?, decode(value)?))
        });
        pairs.collect::<Result<_>>().map(Self)
    }

    /// Decodes a part of a path, where a plus is one.
    pub(crate) fn in_path(part: &str) -> Result<String> {
        decode(&part.replace('+', "%2B")).ok_or_else(not_encoded)
    }

    /// The same without a name.
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.0.retain(|(known, _)| known != name);
        self
    }

    /// A question that has one part.
    pub(crate) fn of(name: &str, value: &str) -> Self {
        Self(vec![(name.to_owned(), value.to_owned())])
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

fn not_encoded() -> Refusal {
    Refusal::new(400, "the query is not valid percent-encoded text")
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, tail @ ..] = rest {
        rest = tail;
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let (digits, tail) = rest.split_at_checked(2)?;
                rest = tail;
                let value = |digit: u8| char::from(digit).to_digit(16);
                u8::try_from(value(digits[0])? * 16 + value(digits[1])?).ok()?
            }
            other => *other,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One question goes on until another is answered, which with a single reader never happens.
    #[test]
    fn a_question_to_the_store_waits_for_no_other() {
        let dir = iotide_testkit::FreshDir::new("answer-readers");
        drop(iotide_daemon::store::Store::open(dir.path(), "n1", 1).unwrap());
        let readers = Readers::default();
        let asked = readers.ask(dir.path(), |_| readers.ask(dir.path(), |reader| reader.losses(None)));
        assert!(asked.unwrap().is_empty());
        (0..10).for_each(|_| readers.ask(dir.path(), |_| Ok(())).unwrap());
        assert!((1..=MOST_RESTING).contains(&readers.0.lock().unwrap().len()));
    }

    #[test]
    fn a_query_is_decoded_or_refused() {
        let asked = Asked::parse("job=a%2Fb&user=x+y&flag").unwrap_or_else(|_| panic!("it is valid"));
        assert_eq!(
            (asked.get("job"), asked.get("user"), asked.get("flag"), asked.get("none")),
            (Some("a/b"), Some("x y"), Some(""), None)
        );
        for bad in ["a=%", "a=%2", "a=%zz", "a=%ff"] {
            assert!(Asked::parse(bad).is_err_and(|refused| refused.status == 400), "{bad}");
        }
    }
}
