//! HTTP: connections, who is at their other end, and limits. One thread for all.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{
    ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use iotide_gate::Account;
use iotide_private::OwnSocket;
use iotide_wire::Fnv1a;
use tokio::sync::watch::Receiver;

use super::Shared;
use super::alarm_answers;
use super::answer::{Answer, Answers, Viewer};
use super::exporters::MOST_PUSHED;

/// Connections at once, of all peers; one has a quarter: 256.
const MOST_CONNECTIONS: usize = 1024;
/// The head of a question is there after this.
const HEAD_WITHIN: Duration = Duration::from_secs(5);
/// A connection lasts this long at most, whether its peer reads or not; unless events are told on it.
const LIFE: Duration = Duration::from_secs(60);
/// Where events are told.
const EVENTS: &str = "/api/1/events";
/// Where metrics are pushed to.
const PUSH: &str = "/api/1/push";
/// The head of a question has at most so many bytes.
const MOST_HEAD: usize = 16 << 10;
/// When there are no descriptors left, others have this long to close some.
const BREATHER: Duration = Duration::from_millis(50);

/// Answers until it is told to stop.
pub(super) fn run(
    shared: &Arc<Shared>,
    socket: OwnSocket,
    tcp: Option<TcpListener>,
    mut stopped: Receiver<bool>,
) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    let answers = Arc::new(Answers::new(Arc::clone(shared)));
    runtime.block_on(async {
        tokio::spawn(accept_unix(socket, Arc::clone(&answers)));
        if let Some(tcp) = tcp {
            tokio::spawn(accept_tcp(tcp, answers));
        }
        let _ = stopped.changed().await;
    });
    // What is being answered is cut: whoever asked sees that it is not whole.
    runtime.shutdown_timeout(Duration::from_millis(100));
}

async fn accept_unix(socket: OwnSocket, answers: Arc<Answers>) {
    let listener = socket.listener().try_clone().and_then(|listener| {
        listener.set_nonblocking(true)?;
        tokio::net::UnixListener::from_std(listener)
    });
    let Ok(listener) = listener else { return };
    let account = Account::among_users(MOST_CONNECTIONS);
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(BREATHER).await;
            continue;
        };
        let Some(user) = iotide_private::peer_user(&stream) else { continue };
        // Who has all that is allowed is hung up on.
        let Some(place) = account.take(user) else { continue };
        let viewer = if iotide_private::is_our_user(Some(user)) { Viewer::All } else { Viewer::User(user) };
        let answers = Arc::clone(&answers);
        tokio::spawn(async move {
            attend(TokioIo::new(stream), viewer, answers).await;
            drop(place);
        });
    }
}

async fn accept_tcp(listener: TcpListener, answers: Arc<Answers>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let account = Account::among_users(MOST_CONNECTIONS);
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(BREATHER).await;
            continue;
        };
        let Some(place) = account.take(address_number(&peer)) else { continue };
        let _ = stream.set_nodelay(true);
        let answers = Arc::clone(&answers);
        tokio::spawn(async move {
            attend(TokioIo::new(stream), Viewer::Sums, answers).await;
            drop(place);
        });
    }
}

/// What stands for whoever is at an address where users are counted. Of a long address that is its network: a host has as many addresses in there
/// as it likes.
pub(super) fn address_number(peer: &SocketAddr) -> u32 {
    let number = match peer.ip() {
        IpAddr::V4(address) => address.to_bits(),
        IpAddr::V6(address) => Fnv1a::of(&address.octets()[..8]).value() as u32,
    };
    // 0 is root.
    number.max(1)
}

async fn attend<S>(stream: TokioIo<S>, viewer: Viewer, answers: Arc<Answers>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + 'static,
{
    let tells_events = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&tells_events);
    let service = service_fn(move |request| {
        let (answers, told) = (Arc::clone(&answers), Arc::clone(&told));
        async move {
            let response = respond(&answers, viewer, request).await;
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
async fn push(answers: &Answers, viewer: Viewer, query: &str, body: Incoming) -> Answer {
    if viewer == Viewer::Sums {
        return Answer::refused(
            401,
            "over TCP, only who has the token pushes metrics; push at the unix socket",
        );
    }
    let body = Limited::new(body, MOST_PUSHED).collect();
    match tokio::time::timeout(HEAD_WITHIN, body).await {
        Ok(Ok(body)) => answers.push(viewer, query, &body.to_bytes()),
        Ok(Err(_)) => Answer::refused(413, "at most 256 KiB are taken at once"),
        Err(_) => Answer::refused(408, "what is pushed takes too long to come"),
    }
}

async fn respond(answers: &Answers, viewer: Viewer, request: Request<Incoming>) -> Response<Piecewise> {
    let token = request.headers().get(AUTHORIZATION).map(|value| value.as_bytes());
    let viewer = match token.and_then(|value| value.strip_prefix(b"Bearer ")) {
        Some(token) if answers.is_token(token) => Viewer::All,
        _ => viewer,
    };
    let (head, body) = request.into_parts();
    let (path, query) = (head.uri.path(), head.uri.query().unwrap_or(""));
    let (status, content_type, body) = if head.method == Method::GET
        && path == EVENTS
        && viewer != Viewer::Sums
    {
        let events = answers.shared.events.listen(viewer.only_uid());
        (200, "text/event-stream", Piecewise::Events(events))
    } else {
        let answer = match head.method {
            ref method if alarm_answers::is_change(method, path) => {
                alarm_answers::change(answers, viewer, (method, path, query), body).await
            }
            Method::GET | Method::HEAD => answers.reply(viewer, path, query).wait().await,
            Method::POST if path == PUSH => push(answers, viewer, query, body).await,
            _ => Answer::refused(
                405,
                "only GET and HEAD are answered, POST to /api/1/push and /api/1/alarms, and DELETE of alarms",
            ),
        };
        (answer.status, answer.content_type, Piecewise::Whole(Full::from(answer.body)))
    };
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    match status {
        401 => drop(headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))),
        405 => drop(headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD, POST, DELETE"))),
        _ => {}
    }
    response
}
