//! HTTP: connections, who is at their other end, and limits. One thread for all.

use std::convert::Infallible;
use std::net::{IpAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{
    ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use iotide_gate::Account;
use iotide_private::OwnSocket;
use tokio::sync::watch::Receiver;

use super::Shared;
use super::answer::{Answer, Answers, Viewer};

/// Connections at once, of all peers; one has a quarter: 256.
const MOST_CONNECTIONS: usize = 1024;
/// The head of a question is there after this.
const HEAD_WITHIN: Duration = Duration::from_secs(5);
/// A connection lasts this long at most, whether its peer reads or not.
const LIFE: Duration = Duration::from_secs(60);
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
        let address = match peer.ip() {
            IpAddr::V4(address) => address.to_bits(),
            IpAddr::V6(address) => address.to_bits() as u32,
        };
        let Some(place) = account.take(address.max(1)) else { continue };
        let _ = stream.set_nodelay(true);
        let answers = Arc::clone(&answers);
        tokio::spawn(async move {
            attend(TokioIo::new(stream), Viewer::Sums, answers).await;
            drop(place);
        });
    }
}

async fn attend<S>(stream: TokioIo<S>, viewer: Viewer, answers: Arc<Answers>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + 'static,
{
    let service = service_fn(move |request| {
        let answers = Arc::clone(&answers);
        async move { Ok::<_, Infallible>(respond(&answers, viewer, &request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(MOST_HEAD)
        .max_headers(64)
        .serve_connection(stream, service);
    // Whatever is wrong with a connection ends it, and nothing else.
    let _ = tokio::time::timeout(LIFE, connection).await;
}

async fn respond(answers: &Answers, viewer: Viewer, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let token = request.headers().get(AUTHORIZATION).map(|value| value.as_bytes());
    let viewer = match token.and_then(|value| value.strip_prefix(b"Bearer ")) {
        Some(token) if answers.is_token(token) => Viewer::All,
        _ => viewer,
    };
    let answer = match *request.method() {
        Method::GET | Method::HEAD => {
            answers.reply(viewer, request.uri().path(), request.uri().query().unwrap_or("")).wait().await
        }
        _ => Answer::refused(405, "only GET and HEAD are answered"),
    };
    let mut response = Response::new(Full::from(answer.body));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(answer.content_type));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    match answer.status {
        401 => drop(headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))),
        405 => drop(headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"))),
        _ => {}
    }
    response
}
