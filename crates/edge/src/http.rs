//! HTTP: connections, who is at their other end, and limits. One thread speaks with all; answers are worked out on others, in turns.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{
    ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION,
    REFERRER_POLICY, RETRY_AFTER, SET_COOKIE, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use iotide_ledger::Format;
use iotide_pages::web::POLICY;
use iotide_private::OwnSocket;
use iotide_private::Shares;
use iotide_wire::Fnv1a;
use tokio::sync::watch::Receiver;
use tokio_rustls::TlsAcceptor;

use crate::alarm_answers;
use crate::answer::{Answer, Answers, Asked, Viewer};
use crate::doors::{Asker, Peer, SESSION};
use crate::exporters::MOST_PUSHED;
use crate::model_answers::{Reply, Step};
use crate::owner::Owners;
use crate::refusal::Refusal;
use crate::routes::{self, Handler, Route, Speaks, Takes};
use crate::shared::{Shared, shares_of_connections};
use crate::silent::Silent;
use crate::turns::{self, in_turn};
use crate::web;

/// Connections at once, of all peers; one has a quarter: 256.
pub(crate) const MOST_CONNECTIONS: usize = 1024;
/// The head of a question is there after this.
const HEAD_WITHIN: Duration = Duration::from_secs(5);
/// A connection lasts this long at most, whether its peer reads or not; unless events are told on it.
const LIFE: Duration = Duration::from_secs(60);
/// What events are told as.
const EVENT_STREAM: &str = "text/event-stream";
/// The head of a question has at most so many bytes.
const MOST_HEAD: usize = 16 << 10;
/// When there are no descriptors left, others have this long to close some.
const BREATHER: Duration = Duration::from_millis(50);

/// Answers until it is told to stop.
pub(crate) fn run(
    shared: &Arc<Shared>,
    socket: OwnSocket,
    tcp: Option<(TcpListener, Option<TlsAcceptor>)>,
    mut stopped: Receiver<bool>,
) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let Ok(runtime) = runtime.enable_all().max_blocking_threads(turns::PLACES).build() else { return };
    let answers = Arc::new(Answers::new(Arc::clone(shared)));
    runtime.block_on(async {
        tokio::spawn(accept_unix(socket, Arc::clone(&answers)));
        if let Some((tcp, tls)) = tcp {
            tokio::spawn(accept_tcp(tcp, tls, answers));
        }
        let _ = stopped.changed().await;
    });
    // What is being answered is cut: whoever asked sees that it is not whole.
    runtime.shutdown_timeout(Duration::from_millis(100));
}

async fn accept_unix(socket: OwnSocket, answers: Arc<Answers>) {
    let shares = answers.shared.connections.clone();
    accept_users(socket, shares, |stream, user, viewer| {
        let peer = Peer { viewer, uid: Some(user), address: None, number: 0, is_secure: false };
        attend(TokioIo::new(stream), peer, Arc::default(), Arc::clone(&answers))
    })
    .await;
}

/// Takes connections to a unix socket, as many at once as there are shares; each is attended to with its user's number and what that user sees.
pub(crate) async fn accept_users<F>(
    socket: OwnSocket,
    shares: Shares,
    attend: impl Fn(tokio::net::UnixStream, u32, Viewer) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = socket.listener().try_clone().and_then(|listener| {
        listener.set_nonblocking(true)?;
        tokio::net::UnixListener::from_std(listener)
    });
    let Ok(listener) = listener else { return };
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(BREATHER).await;
            continue;
        };
        let Some(user) = iotide_private::peer_user(&stream) else { continue };
        // Who has all that is allowed is hung up on.
        let Some(place) = shares.take(user) else { continue };
        let viewer = if iotide_private::is_our_user(Some(user)) { Viewer::All } else { Viewer::User(user) };
        let attended = attend(stream, user, viewer);
        tokio::spawn(async move {
            attended.await;
            drop(place);
        });
    }
}

async fn accept_tcp(listener: TcpListener, tls: Option<TlsAcceptor>, answers: Arc<Answers>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let account = shares_of_connections(MOST_CONNECTIONS);
    let (mut silent, owners) = (Silent::default(), Owners::new());
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(BREATHER).await;
            continue;
        };
        // Users of this machine have one address: each is counted as such.
        let owner = stream.local_addr().ok().and_then(|here| owners.of(&peer, &here));
        let number = owner.unwrap_or_else(|| address_number(&peer));
        let Some(place) = silent.place(&account, number).await else { continue };
        let _ = stream.set_nodelay(true);
        let (answers, tls) = (Arc::clone(&answers), tls.clone());
        let is_secure = tls.is_some();
        let peer = Peer { viewer: Viewer::Sums, uid: None, address: Some(peer.ip()), number, is_secure };
        let has_asked = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&has_asked);
        let task = tokio::spawn(async move {
            match tls {
                None => attend(TokioIo::new(stream), peer, asked, answers).await,
                Some(tls) => {
                    if let Ok(Ok(stream)) = tokio::time::timeout(HEAD_WITHIN, tls.accept(stream)).await {
                        attend(TokioIo::new(stream), peer, asked, answers).await;
                    }
                }
            }
            drop(place);
        });
        silent.add(number, task.abort_handle(), has_asked, MOST_CONNECTIONS);
    }
}

/// What stands for whoever is at an address where users are counted. Of a long address that is its network: a host has as many addresses in there
/// as it likes.
pub(crate) fn address_number(peer: &SocketAddr) -> u32 {
    let number = match peer.ip() {
        IpAddr::V4(address) => address.to_bits(),
        IpAddr::V6(address) => Fnv1a::of(&address.octets()[..8]).value() as u32,
    };
    // 0 is root.
    number.max(1)
}

async fn attend<S>(stream: TokioIo<S>, peer: Peer, has_asked: Arc<AtomicBool>, answers: Arc<Answers>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + 'static,
{
    let tells_events = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&tells_events);
    let service = service_fn(move |request| {
        has_asked.store(true, Ordering::Relaxed);
        let (answers, told) = (Arc::clone(&answers), Arc::clone(&told));
        async move {
            let response = respond(&answers, &peer, request).await;
            told.store(matches!(response.body(), Piecewise::Events(_)), Ordering::Relaxed);
            Ok::<_, Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(MOST_HEAD)
        .max_headers(64)
        .serve_connection(stream, service);
    // Whatever is wrong with a connection ends it, and nothing else.
    let mut connection = pin!(connection);
    while tokio::time::timeout(LIFE, connection.as_mut()).await.is_err() {
        if !tells_events.load(Ordering::Relaxed) {
            return;
        }
    }
}

/// What is answered: at once, or one event after the other.
enum Piecewise {
    Whole(Full<Bytes>),
    Events(tokio::sync::mpsc::Receiver<Bytes>),
}

impl Body for Piecewise {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(body) => Pin::new(body).poll_frame(context),
            Self::Events(events) => {
                events.poll_recv(context).map(|event| event.map(|it| Ok(Frame::data(it))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_end_stream(),
            Self::Events(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::Events(_) => SizeHint::default(),
        }
    }
}

/// A program says how it is.
async fn push(answers: &Arc<Answers>, asker: &Asker, query: &str, body: Incoming) -> Answer {
    let body = Limited::new(body, MOST_PUSHED).collect();
    match tokio::time::timeout(HEAD_WITHIN, body).await {
        Ok(Ok(body)) => {
            let (viewer, query, text) = (asker.viewer, query.to_owned(), body.to_bytes());
            let work = move |answers: &Answers| {
                let pushed = Asked::parse(&query).and_then(|asked| answers.push(viewer, &asked, &text));
                Reply::Now(pushed.unwrap_or_else(Answer::from))
            };
            replied(answers, asker, work).await
        }
        Ok(Err(_)) => Refusal::new(413, "at most 256 KiB are taken at once").into(),
        Err(_) => Refusal::new(408, "what is pushed takes too long to come").into(),
    }
}

/// Works out an answer on another thread, when it is the asker's turn. What may have to be waited for in between then goes on.
async fn replied(
    answers: &Arc<Answers>,
    asker: &Asker,
    work: impl FnOnce(&Answers) -> Reply + Send + 'static,
) -> Answer {
    let (turns, own) = (&answers.shared.turns, Arc::clone(answers));
    let mut reply = in_turn(turns, asker.party, move || work(&own)).await;
    loop {
        let Some(known) = reply else { return Refusal::new(503, "the daemon ends; ask again later").into() };
        match known.next().await {
            Step::Answer(answer) => return answer,
            Step::Work(work) => reply = in_turn(turns, asker.party, work).await,
        }
    }
}

/// What is taken: pages where a person looks, as a browser says, else metrics in a format that a Prometheus accepts.
fn takes(headers: &HeaderMap) -> Takes {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accept.contains("text/html") { Takes::Pages } else { Takes::Data(Format::of_accept(accept)) }
}

/// Whether somebody logs in by a link that is right. That is not counted: others who ask from the same address must not keep anyone out.
fn is_right_link(answers: &Answers, path: &str, query: &str, now: Instant) -> bool {
    path == "/login" && web::link_in(query).is_some_and(|once| answers.shared.doors.is_link(&once, now))
}

async fn respond(answers: &Arc<Answers>, peer: &Peer, request: Request<Incoming>) -> Response<Piecewise> {
    let (head, body) = request.into_parts();
    let asker = answers.shared.doors.asker(peer, &head.headers, Instant::now());
    let (path, query) = (head.uri.path(), head.uri.query().unwrap_or(""));
    let takes = takes(&head.headers);
    let route = match admitted(answers, peer, &asker, &head) {
        Ok(route) => route,
        Err(refusal) => {
            let is_for_person = matches!(takes, Takes::Pages) && !path.starts_with("/api/1/");
            let answer = if is_for_person { answers.refused_page(&asker, refusal) } else { refusal.into() };
            return whole(answer);
        }
    };
    let Handler::Connection(speaks) = route.handler else {
        let (path, query) = (path.to_owned(), query.to_owned());
        let reply = move |answers: &Answers| answers.reply_by(route, asker, &path, &query, takes);
        return whole(replied(answers, &asker, reply).await);
    };
    match speaks {
        Speaks::Events if head.method == Method::HEAD => {
            headed(200, EVENT_STREAM, Piecewise::Whole(Full::default()))
        }
        Speaks::Events => {
            let wants_rates = query.split('&').any(|pair| pair == "rates=1");
            let events = answers.shared.events.listen(asker.viewer.hears(), wants_rates);
            headed(200, EVENT_STREAM, Piecewise::Events(events))
        }
        Speaks::Push => whole(push(answers, &asker, query, body).await),
        Speaks::Rules(change) => {
            let asked = (asker.viewer, route.endpoint.named(path), query);
            let body = (head.method == Method::POST).then_some(body);
            whole(alarm_answers::change(answers, change, asked, body).await)
        }
        Speaks::RuleForm => match alarm_answers::change_by_form(answers, asker.viewer, body).await {
            // Whoever loads the page anew asks for it, and does not add the rule once more.
            Ok(_) => {
                let mut response = whole(Answer { status: 303, ..Answer::json(String::new()) });
                response.headers_mut().insert(LOCATION, HeaderValue::from_static("/alarms"));
                response
            }
            Err(refusal) => whole(answers.refused_page(&asker, refusal)),
        },
        Speaks::LogIn => {
            let (answer, secret) = answers.log_in(query);
            let cookie = secret.map(|secret| set_cookie(answers, peer, &secret, SESSION));
            with_cookie(whole(answer), cookie)
        }
        Speaks::LogOut => {
            if let Some(session) = &asker.session {
                answers.shared.doors.log_out(session);
            }
            with_cookie(whole(answers.good_bye()), Some(set_cookie(answers, peer, "", Duration::ZERO)))
        }
    }
}

/// Finds what is asked, and refuses whoever may not ask it, or not now.
fn admitted(
    answers: &Answers,
    peer: &Peer,
    asker: &Asker,
    head: &Parts,
) -> std::result::Result<&'static Route, Refusal> {
    let (path, query, now) = (head.uri.path(), head.uri.query().unwrap_or(""), Instant::now());
    let found = routes::find(head.method.as_str(), path);
    let changes = found.as_ref().map_or(head.method != Method::GET, |route| route.changes());
    if changes && is_of_another_site(&head.headers) {
        return Err(Refusal::new(403, "another site asks for this in your name"));
    }
    if !is_right_link(answers, path, query, now) && !answers.shared.doors.may_ask(asker, now) {
        let rate = asker.rate().unwrap_or_default();
        return Err(Refusal::new(429, format!("too many questions: {rate} a second are answered")));
    }
    let route = found?;
    route.check(asker.viewer, peer.uid.is_some())?;
    Ok(route)
}

/// A whole answer.
fn whole(answer: Answer) -> Response<Piecewise> {
    headed(answer.status, answer.content_type, Piecewise::Whole(Full::from(answer.body)))
}

fn with_cookie(mut response: Response<Piecewise>, cookie: Option<String>) -> Response<Piecewise> {
    if let Some(cookie) = cookie.and_then(|cookie| HeaderValue::from_str(&cookie).ok()) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

/// Whether a page of another site has the browser ask. Cookies are not sent then, but what a proxy knows a person by may be.
fn is_of_another_site(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-site").is_some_and(|site| site != "same-origin" && site != "none")
}

/// What makes a browser keep a login. Scripts do not see it, and other sites cannot use it.
fn set_cookie(answers: &Answers, peer: &Peer, secret: &str, lasts: Duration) -> String {
    let secure = if peer.is_secure { "; Secure" } else { "" };
    let name = &answers.shared.doors.cookie;
    format!("{name}={secret}; Path=/; HttpOnly; SameSite=Strict; Max-Age={}{secure}", lasts.as_secs())
}

/// An answer with the headers that all have.
fn headed(status: u16, content_type: &'static str, body: Piecewise) -> Response<Piecewise> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    // Whatever it is, it runs nothing but what pages of this daemon run.
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    // The names of these change with what is in them.
    let is_kept =
        status == 200 && ["text/css", "text/javascript"].iter().any(|kept| content_type.starts_with(kept));
    let kept = if is_kept { "public, max-age=31536000, immutable" } else { "no-store" };
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(kept));
    match status {
        401 => drop(headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))),
        405 => drop(headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD, POST, DELETE"))),
        429 => drop(headers.insert(RETRY_AFTER, HeaderValue::from_static("1"))),
        _ => {}
    }
    response
}
