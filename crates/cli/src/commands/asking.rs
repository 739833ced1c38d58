//! Asking the daemon, for commands that do so among other things.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, anyhow};
#[cfg(feature = "system")]
pub(super) use iotide_edge::client::in_query;

use iotide_http::{AnswerLimits, Request, Url};

use crate::config::Config;
use crate::ui::Hint as _;

pub(super) fn unreadable(why: String) -> anyhow::Error {
    anyhow!("the daemon's answer cannot be read: {why}")
}

/// Asks the daemon. Its refusals are errors, in its own words.
pub(crate) fn ask(path: &str) -> anyhow::Result<Vec<u8>> {
    send("GET", path, b"")
}

/// Asks the daemon of a socket.
pub(super) fn ask_at(socket: &Path, path: &str) -> anyhow::Result<Vec<u8>> {
    send_to(socket, "GET", path, b"")
}

/// Asks the daemon to do something.
pub(super) fn send(method: &str, path: &str, body: &[u8]) -> anyhow::Result<Vec<u8>> {
    match STATED.with_borrow(Clone::clone) {
        Some(Daemon::Socket(socket)) => send_to(&socket, method, path, body),
        Some(Daemon::Http { url, token }) => send_over_http(&url, token.as_deref(), method, path, body),
        None => send_to(&Config::held().daemon(), method, path, body),
    }
}

/// A daemon, by its address.
#[derive(Clone, Debug)]
pub enum Daemon {
    /// A unix socket.
    Socket(PathBuf),
    /// An address over HTTP or HTTPS.
    Http {
        /// Where.
        url: Url,
        /// The access token of who asks.
        token: Option<String>,
    },
}

thread_local! {
    /// The daemon to ask in this thread, where it is not that of the settings: a program that asks in its own process may know several.
    static STATED: RefCell<Option<Daemon>> = const { RefCell::new(None) };
}

/// Asks this daemon from now on, in this thread; `None` asks that of the settings.
pub(crate) fn ask_daemon_at(daemon: Option<Daemon>) {
    STATED.set(daemon);
}

/// A daemon that says nothing for so long has no answer.
const SILENCE: Duration = Duration::from_secs(30);
/// No answer is longer.
const MOST_BYTES: u64 = 256 << 20;

fn send_over_http(
    url: &Url,
    token: Option<&str>,
    method: &str,
    path: &str,
    body: &[u8],
) -> anyhow::Result<Vec<u8>> {
    let headers = match token {
        None => String::new(),
        Some(token) if token.bytes().all(|byte| byte.is_ascii_graphic()) => {
            format!("Authorization: Bearer {token}\r\n")
        }
        Some(_) => anyhow::bail!("an access token has letters, digits and signs only"),
    };
    let target = url.below(path);
    let request = Request { method, target: &target, headers: &headers, body };
    let limits = AnswerLimits { silence: SILENCE, whole: 20 * SILENCE, body: Some(MOST_BYTES) };
    let answer = iotide_http::ask(url, &request, limits)
        .map_err(|error| anyhow!("no daemon answers at {}: {error}", url.authority()))
        .hint("`iotide serve --http ADDR` answers over HTTP")?;
    body_of(answer.status, answer.body)
}

#[cfg(feature = "system")]
fn send_to(socket: &Path, method: &str, path: &str, body: &[u8]) -> anyhow::Result<Vec<u8>> {
    let (status, body) = answer_of(socket, method, path, body)?;
    body_of(status, body)
}

/// Asks the daemon of a socket for what it may not have: `None` if there is no such thing.
#[cfg(feature = "system")]
pub(super) fn find_at(socket: &Path, path: &str) -> anyhow::Result<Option<Vec<u8>>> {
    match answer_of(socket, "GET", path, b"")? {
        (404, _) => Ok(None),
        (status, body) => body_of(status, body).map(Some),
    }
}

#[cfg(feature = "system")]
fn answer_of(socket: &Path, method: &str, path: &str, body: &[u8]) -> anyhow::Result<(u16, Vec<u8>)> {
    let answer = iotide_edge::client::send(socket, method, path, body)
        .hint("`iotide serve` starts a daemon; IOTIDE_DAEMON names the socket of one that runs elsewhere")?;
    Ok((answer.status, answer.body))
}

/// The body of an answer; a refusal is an error, in the daemon's words.
fn body_of(status: u16, body: Vec<u8>) -> anyhow::Result<Vec<u8>> {
    if status == 200 {
        return Ok(body);
    }
    let said = iotide_report::Refused::from_json(&body);
    let said =
        said.map_or_else(|| format!("the daemon refuses ({status})"), |said| said.error.for_terminal());
    Err(anyhow!("{said}")).context("the daemon cannot answer")
}

/// The analysis side alone knows no daemon.
#[cfg(not(feature = "system"))]
fn send_to(_: &Path, _: &str, _: &str, _: &[u8]) -> anyhow::Result<Vec<u8>> {
    Err(anyhow!("this program was built without what asks a daemon (cargo's feature `system`)"))
}

#[cfg(not(feature = "system"))]
pub(super) fn find_at(socket: &Path, path: &str) -> anyhow::Result<Option<Vec<u8>>> {
    ask_at(socket, path).map(Some)
}

#[cfg(not(feature = "system"))]
pub(super) fn in_query(text: &str) -> &str {
    text
}

pub(super) fn now_unix_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
