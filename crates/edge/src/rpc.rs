//! Questions of controllers, in frames: see `iotide_wire::RpcKind`, and `docs/rpc.md`.
//!
//! A thread and a socket of their own, so that nobody waits for a page that is made for someone else. The thread itself only evaluates functions: it waits for no disk and
//! for no fit. What needs the store is done by two threads beside it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use iotide_private::OwnSocket;
use iotide_report::answer_json;
use iotide_scaling::Model;
use iotide_wire::{RPC_MAGIC, RpcFields, RpcHeader, RpcKind, RpcQuestion, RpcRhythm, put_rpc_text};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, watch};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::answer::{Answers, Asked, Viewer};
use crate::http::accept_users;
use crate::refusal::Refusal;
use crate::shared::Shared;
use iotide_daemon::leaf::{JobView, View};
use iotide_daemon::models::{Fitted, Wanted};
use iotide_daemon::predict::Expected;

/// What is behind the name of the socket of HTTP.
pub(crate) const SUFFIX: &str = "rpc";
/// Connections at once, of all users; one has a quarter.
pub(crate) const MOST_CONNECTIONS: usize = 256;
/// Models that a connection has resolved.
const MOST_HANDLES: usize = 4096;
/// A frame that has begun is there after this, and an answer is taken.
const WITHIN: Duration = Duration::from_secs(5);
/// The share of intervals that hold the truth.
const CONFIDENCE: f64 = 0.9;
/// What is read at a time.
const PIECE: usize = 16 << 10;

/// Answers until it is told to stop.
pub(crate) fn run(shared: &Arc<Shared>, socket: OwnSocket, mut stopped: watch::Receiver<bool>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(2).build();
    let Ok(runtime) = runtime else { return };
    let answers = Arc::new(Answers::new(Arc::clone(shared)));
    runtime.block_on(async {
        tokio::spawn(accept(socket, answers));
        let _ = stopped.changed().await;
    });
    runtime.shutdown_timeout(Duration::from_millis(100));
}

async fn accept(socket: OwnSocket, answers: Arc<Answers>) {
    let shares = answers.shared.rpc_connections.clone();
    accept_users(socket, shares, |stream, _, viewer| {
        let answers = Arc::clone(&answers);
        async move {
            attend(stream, viewer, answers).await;
        }
    })
    .await;
}

/// Answers on a connection until something is wrong with it.
pub(crate) async fn attend(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    viewer: Viewer,
    answers: Arc<Answers>,
) -> Option<()> {
    let mut magic = [0; RPC_MAGIC.len()];
    timeout(WITHIN, stream.read_exact(&mut magic)).await.ok()?.ok()?;
    if magic != RPC_MAGIC {
        return None;
    }
    let mut session = Session { viewer, answers, handles: Vec::new(), events: None };
    let (mut inbox, mut out) = (Vec::with_capacity(PIECE), Vec::new());
    loop {
        let mut taken = 0;
        while let Some((header, payload)) = next(&inbox[taken..])? {
            session.answer(header, payload, &mut out).await;
            taken += RpcHeader::SIZE + header.payload;
            if out.len() >= PIECE {
                send(&mut stream, &mut out).await?;
            }
        }
        inbox.drain(..taken);
        send(&mut stream, &mut out).await?;
        let is_cut = !inbox.is_empty();
        inbox.reserve(PIECE);
        tokio::select! {
            read = stream.read_buf(&mut inbox) => {
                if read.ok()? == 0 {
                    return None;
                }
            }
            event = hear(&mut session.events) => session.tell(&event?, &mut out),
            () = tokio::time::sleep(WITHIN), if is_cut => return None,
        }
    }
}

/// The next whole frame; `None` inside if there is not one yet, `None` if it will never be one.
fn next(bytes: &[u8]) -> Option<Option<(RpcHeader, &[u8])>> {
    let Some((head, rest)) = bytes.split_first_chunk::<{ RpcHeader::SIZE }>() else { return Some(None) };
    let header = RpcHeader::decode(head, RpcHeader::MAX_QUESTION)?;
    Some(rest.get(..header.payload).map(|payload| (header, payload)))
}

async fn send(stream: &mut (impl AsyncWrite + Unpin), out: &mut Vec<u8>) -> Option<()> {
    if !out.is_empty() {
        let sent = async {
            stream.write_all(out).await?;
            stream.flush().await
        };
        timeout(WITHIN, sent).await.ok()?.ok()?;
        out.clear();
    }
    Some(())
}

type Subscription = (u32, mpsc::Receiver<Bytes>);

/// The next event; for ever without a subscription.
async fn hear(events: &mut Option<Subscription>) -> Option<Bytes> {
    match events {
        Some((_, events)) => events.recv().await,
        None => std::future::pending().await,
    }
}

/// A model that was resolved.
struct Handle {
    wanted: Wanted,
    callpath: String,
    metric: String,
    /// The parameters in the order of the client's points.
    order: Vec<String>,
    now: Resolved,
}

/// What a handle means until the models are fitted anew.
#[derive(Clone)]
struct Resolved {
    generation: u64,
    n_runs: usize,
    model: Arc<Model>,
    /// Where the client's coordinates stand among the parameters.
    places: Vec<usize>,
}

/// One connection.
struct Session {
    viewer: Viewer,
    answers: Arc<Answers>,
    handles: Vec<Handle>,
    events: Option<Subscription>,
}

impl Session {
    async fn answer(&mut self, header: RpcHeader, payload: &[u8], out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend([0; RpcHeader::SIZE]);
        let answered = match RpcQuestion::decode(header.kind, payload) {
            None => Err(Refusal::new(400, "this is no question, or not a whole one")),
            Some(RpcQuestion::Evaluate { handle, n_points, coordinates }) => {
                if header.flags & RpcHeader::INTERVALS == 0 {
                    self.values(handle, n_points, coordinates, out)
                } else {
                    self.intervals(handle, n_points, coordinates, out).await
                }
            }
            Some(question) => self.slow(header.id, question, out).await,
        };
        let (kind, flags) = match answered {
            Ok(kind) if out.len() - begin - RpcHeader::SIZE <= RpcHeader::MAX_FRAME - RpcHeader::SIZE => {
                (kind, header.flags)
            }
            refused => {
                let too_long = || Refusal::new(413, "the answer is too long; ask for less");
                let Refusal { status, why } = refused.err().unwrap_or_else(too_long);
                out.truncate(begin + RpcHeader::SIZE);
                out.extend(status.to_le_bytes());
                put_rpc_text(out, &why);
                (RpcKind::Refused, 0)
            }
        };
        let payload = out.len() - begin - RpcHeader::SIZE;
        let head = RpcHeader { payload, kind: kind as u8, flags, id: header.id };
        out[begin..begin + RpcHeader::SIZE].copy_from_slice(&head.encode());
    }

    fn tell(&self, event: &Bytes, out: &mut Vec<u8>) {
        // As `text/event-stream` has it: `event: kind`, `data: json`. Signs of life are for others.
        let text = String::from_utf8_lossy(event);
        let mut lines = text.lines();
        let kind = lines.next().and_then(|line| line.strip_prefix("event: "));
        let json = lines.next().and_then(|line| line.strip_prefix("data: "));
        if let (Some(kind), Some(json), Some((id, _))) = (kind, json, &self.events) {
            let mut payload = Vec::with_capacity(json.len() + 32);
            put_rpc_text(&mut payload, kind);
            payload.extend(json.as_bytes());
            payload.truncate(RpcHeader::MAX_FRAME - RpcHeader::SIZE);
            let head = RpcHeader { payload: payload.len(), kind: RpcKind::Event as u8, flags: 0, id: *id };
            out.extend(head.encode());
            out.extend(payload);
        }
    }

    /// What a handle means now.
    fn resolved(&mut self, handle: u32) -> Result<&Resolved, Refusal> {
        let unknown = || Refusal::new(404, "there is no such handle: resolve it on this connection");
        let handle = self.handles.get_mut(handle as usize).ok_or_else(unknown)?;
        // What is fitted anew is there whole, or what was before is: nobody waits. Models that made room for others are as they were.
        if let Some(fitted) = self.answers.shared.models.now(&handle.wanted)
            && fitted.generation != handle.now.generation
        {
            handle.now = resolve(&fitted, &handle.callpath, &handle.metric, &handle.order)?;
        }
        Ok(&handle.now)
    }

    fn values(&mut self, handle: u32, n: usize, bytes: &[u8], out: &mut Vec<u8>) -> Result<RpcKind, Refusal> {
        let resolved = self.resolved(handle)?;
        let n_parameters = resolved.places.len();
        check_size(n, n_parameters, bytes, RpcHeader::MAX_POINTS)?;
        out.extend(resolved.generation.to_le_bytes());
        out.extend((n as u32).to_le_bytes());
        let mut at = [0.0; RpcHeader::MAX_PARAMETERS];
        let mut fields = RpcFields(bytes);
        for _ in 0..n {
            for &place in &resolved.places {
                at[place] = fields.f64().unwrap_or(f64::NAN);
            }
            let value = resolved.model.function.at(&at[..n_parameters]);
            out.extend(finite(value).to_le_bytes());
        }
        Ok(RpcKind::Values)
    }

    async fn intervals(
        &mut self,
        handle: u32,
        n: usize,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<RpcKind, Refusal> {
        let resolved = self.resolved(handle)?.clone();
        check_size(n, resolved.places.len(), bytes, RpcHeader::MAX_POINTS_WITH_INTERVALS)?;
        let bytes = bytes.to_vec();
        let all = spawn_blocking(move || {
            let mut fields = RpcFields(&bytes);
            let mut all = resolved.generation.to_le_bytes().to_vec();
            all.extend((n as u32).to_le_bytes());
            let mut at = vec![0.0; resolved.places.len()];
            for _ in 0..n {
                for &place in &resolved.places {
                    at[place] = fields.f64().unwrap_or(f64::NAN);
                }
                let there = resolved.model.predict(&at, CONFIDENCE);
                let (low, high) = there.interval.unwrap_or((f64::NAN, f64::NAN));
                put_numbers(&mut all, &[there.value, low, high]);
            }
            all
        });
        out.extend(all.await.map_err(|_| Refusal::new(503, "the daemon ends"))?);
        Ok(RpcKind::Values)
    }

    /// What needs more than a model that is there.
    async fn slow(
        &mut self,
        id: u32,
        question: RpcQuestion<'_>,
        out: &mut Vec<u8>,
    ) -> Result<RpcKind, Refusal> {
        match question {
            RpcQuestion::Resolve { is_job, name, callpath, metric, mut parameters, n_parameters } => {
                let order = (0..n_parameters).filter_map(|_| parameters.text().map(str::to_owned)).collect();
                let asked = Asked::of(if is_job { "job" } else { "app" }, name);
                self.resolve(asked, callpath.to_owned(), metric.to_owned(), order, out).await
            }
            RpcQuestion::Jobs(query) => {
                let (answers, viewer, query) = (Arc::clone(&self.answers), self.viewer, query.to_owned());
                let list = spawn_blocking(move || answers.job_list(viewer, &Asked::parse(&query)?)).await;
                let list = list.map_err(|_| Refusal::new(503, "the daemon ends"))??;
                out.extend_from_slice(answer_json(&list).as_bytes());
                Ok(RpcKind::JobList)
            }
            RpcQuestion::Predictions(job) => {
                self.predictions(job, out);
                Ok(RpcKind::Expected)
            }
            RpcQuestion::Rhythms(job) => {
                self.rhythms(job, out);
                Ok(RpcKind::RhythmsNow)
            }
            RpcQuestion::Load => {
                self.load(out);
                Ok(RpcKind::LoadNow)
            }
            RpcQuestion::Subscribe => {
                self.events = Some((id, self.answers.shared.events.listen(self.viewer.hears(), false)));
                Ok(RpcKind::Subscribed)
            }
            RpcQuestion::Evaluate { .. } => Err(Refusal::new(400, "this is no question")),
        }
    }

    async fn resolve(
        &mut self,
        asked: Asked,
        callpath: String,
        metric: String,
        order: Vec<String>,
        out: &mut Vec<u8>,
    ) -> Result<RpcKind, Refusal> {
        if self.handles.len() >= MOST_HANDLES {
            return Err(Refusal::new(429, format!("a connection has at most {MOST_HANDLES} handles")));
        }
        let (answers, viewer) = (Arc::clone(&self.answers), self.viewer);
        let wanted = spawn_blocking(move || answers.wanted(viewer, &asked)).await;
        let wanted = wanted.map_err(|_| Refusal::new(503, "the daemon ends"))??;
        let models = &self.answers.shared.models;
        let fitted = match models.now(&wanted) {
            Some(fitted) => fitted,
            None => {
                let asker = viewer.only_uid().unwrap_or(0);
                let busy =
                    || Refusal::new(503, "too many questions about models wait already; ask again later");
                let waiting = models.ask(wanted.clone(), asker).ok_or_else(busy)?;
                let failed = |_| Refusal::new(503, "the models could not be fitted");
                waiting.await.map_err(failed)?.map_err(|why| Refusal::new(503, why))?
            }
        };
        let now = resolve(&fitted, &callpath, &metric, &order)?;
        let order = if order.is_empty() { fitted.set.parameters().to_vec() } else { order };
        out.extend((self.handles.len() as u32).to_le_bytes());
        out.extend(now.generation.to_le_bytes());
        out.extend((now.n_runs as u32).to_le_bytes());
        out.push(order.len() as u8);
        order.iter().for_each(|name| put_rpc_text(out, name));
        // By its full name from now on: another one's metric of the same name is not meant, if it comes later.
        let (callpath, metric) = named(&fitted, &callpath, &metric)?;
        self.handles.push(Handle { wanted, callpath, metric, order, now });
        Ok(RpcKind::Resolved)
    }

    fn predictions(&self, job: &str, out: &mut Vec<u8>) {
        self.put_jobs(job, out, |(live, expected, now_s), view, out| {
            let next_s = expected.and_then(|it| it.next_phase_unix_s);
            let values = [
                expected.and_then(|it| it.period_s),
                next_s,
                next_s.map(|next_s| (next_s - now_s).max(0.0)),
                expected.map(|it| it.confidence),
                expected.and_then(|it| it.bytes_per_phase),
                Some(self.answers.shared.expectations.load_bps(live, view.at_ns)),
            ];
            put_rpc_text(out, live.key.id.as_str());
            put_numbers(out, &values.map(|value| value.unwrap_or(f64::NAN)));
        });
    }

    fn rhythms(&self, job: &str, out: &mut Vec<u8>) {
        self.put_jobs(job, out, |(live, expected, now_s), _, out| {
            let next = expected.and_then(|it| it.next_phase);
            let figure = |value: Option<f64>| finite(value.unwrap_or(f64::NAN));
            let rhythm = RpcRhythm {
                job: live.key.id.as_str(),
                uid: live.key.uid,
                period_s: figure(expected.and_then(|it| it.period_s)),
                confidence: figure(expected.map(|it| it.confidence)),
                age_s: figure(expected.map(|it| (now_s - it.at_unix_s).max(0.0))),
                start_in_s: figure(next.map(|next| next.start_s - now_s)),
                earliest_in_s: figure(next.map(|next| next.start_interval_s.0 - now_s)),
                latest_in_s: figure(next.map(|next| next.start_interval_s.1 - now_s)),
                duration_s: figure(next.map(|next| next.duration_s)),
                bytes: figure(next.map(|next| next.bytes)),
                idle_probability: figure(expected.map(|it| it.idle_probability)),
            };
            rhythm.put(out);
        });
    }

    /// Puts how many jobs there are that the caller sees and asks for, and something of each, with what is expected of it and what time it is.
    fn put_jobs(
        &self,
        job: &str,
        out: &mut Vec<u8>,
        put: impl Fn((&JobView, Option<Expected>, f64), &View, &mut Vec<u8>),
    ) {
        let shared = &self.answers.shared;
        let view = shared.view();
        let now_s = crate::shared::now_ns() as f64 / 1e9;
        let begin = out.len();
        out.extend([0; 4]);
        let mut n: u32 = 0;
        let seen = view.jobs.iter().filter(|live| self.viewer.sees(&live.key));
        for live in seen.filter(|live| job.is_empty() || live.key.id.as_str() == job) {
            put((live, shared.expectations.of(&live.key), now_s), &view, out);
            n += 1;
        }
        out[begin..begin + 4].copy_from_slice(&n.to_le_bytes());
    }

    fn load(&self, out: &mut Vec<u8>) {
        let shared = &self.answers.shared;
        let view = shared.view();
        let (mut sums, mut n_jobs) = ([0.0; 3], 0u32);
        for live in view.jobs.iter().filter(|live| self.viewer.sees(&live.key)) {
            sums[0] += live.read_bps;
            sums[1] += live.write_bps;
            sums[2] += shared.expectations.load_bps(live, view.at_ns);
            n_jobs += 1;
        }
        put_numbers(out, &sums);
        out.extend(n_jobs.to_le_bytes());
    }
}

fn put_numbers(out: &mut Vec<u8>, values: &[f64]) {
    values.iter().for_each(|value| out.extend(finite(*value).to_le_bytes()));
}

/// A number that exists, else NaN.
fn finite(value: f64) -> f64 {
    if value.is_finite() { value } else { f64::NAN }
}

fn check_size(n: usize, n_parameters: usize, bytes: &[u8], most: usize) -> Result<(), Refusal> {
    if n > most {
        return Err(Refusal::new(413, format!("at most {most} points are evaluated at once")));
    }
    if bytes.len() != n * n_parameters * 8 {
        return Err(Refusal::new(400, format!("a point has {n_parameters} coordinates")));
    }
    Ok(())
}

/// The full name of a model.
fn named(fitted: &Fitted, callpath: &str, metric: &str) -> Result<(String, String), Refusal> {
    let mut found = (fitted.set.iter()).filter(|(series, _)| {
        series.metric == metric && (callpath.is_empty() || series.callpath == callpath)
    });
    let none = || Refusal::new(404, "no run has measured that; /model/get lists what there is");
    let (series, _) = found.next().ok_or_else(none)?;
    if found.next().is_some() {
        return Err(Refusal::new(400, "several call paths have this metric: say which"));
    }
    Ok((series.callpath.clone(), series.metric.clone()))
}

fn resolve(fitted: &Fitted, callpath: &str, metric: &str, order: &[String]) -> Result<Resolved, Refusal> {
    let (callpath, metric) = named(fitted, callpath, metric)?;
    let parameters = fitted.set.parameters();
    if parameters.len() > RpcHeader::MAX_PARAMETERS {
        return Err(Refusal::new(
            422,
            format!("a model has at most {} parameters here", RpcHeader::MAX_PARAMETERS),
        ));
    }
    let order = if order.is_empty() { parameters } else { order };
    let places: Option<Vec<usize>> =
        order.iter().map(|name| parameters.iter().position(|known| known == name)).collect();
    let is_each = |places: &Vec<usize>| (0..parameters.len()).all(|place| places.contains(&place));
    let places =
        places.filter(|places| places.len() == parameters.len() && is_each(places)).ok_or_else(|| {
            Refusal::new(409, format!("the parameters are {}, each once", parameters.join(", ")))
        })?;
    let of = fitted.set.iter().find(|(series, _)| series.callpath == callpath && series.metric == metric);
    let (_, model) = of.ok_or_else(|| Refusal::new(404, "no run has measured that"))?;
    let model = model.as_ref().map_err(|error| Refusal::new(404, format!("there is no model: {error}")))?;
    Ok(Resolved {
        generation: fitted.generation,
        n_runs: fitted.n_runs,
        model: Arc::new(model.clone()),
        places,
    })
}
