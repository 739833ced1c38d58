//! Asking the daemon, for commands that do so among other things.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::anyhow;
#[cfg(feature = "system")]
pub(super) use iotide_edge::client::in_query;

use crate::config::Config;
#[cfg(feature = "system")]
use crate::ui::Hint as _;

pub(super) fn unreadable(why: String) -> anyhow::Error {
    anyhow!("the daemon's answer cannot be read: {why}")
}

/// Asks the daemon. Its refusals are errors, in its own words.
pub(super) fn ask(path: &str) -> anyhow::Result<Vec<u8>> {
    send("GET", path, b"")
}

/// Asks the daemon of a socket.
pub(super) fn ask_at(socket: &Path, path: &str) -> anyhow::Result<Vec<u8>> {
    send_to(socket, "GET", path, b"")
}

/// Asks the daemon to do something.
pub(super) fn send(method: &str, path: &str, body: &[u8]) -> anyhow::Result<Vec<u8>> {
    send_to(&Config::held().daemon(), method, path, body)
}

#[cfg(feature = "system")]
fn send_to(socket: &Path, method: &str, path: &str, body: &[u8]) -> anyhow::Result<Vec<u8>> {
    let (status, body) = answer_of(socket, method, path, body)?;
    if status == 200 { Ok(body) } else { Err(refused(status, &body)) }
}

/// Asks the daemon of a socket for what it may not have: `None` if there is no such thing.
#[cfg(feature = "system")]
pub(super) fn find_at(socket: &Path, path: &str) -> anyhow::Result<Option<Vec<u8>>> {
    match answer_of(socket, "GET", path, b"")? {
        (200, body) => Ok(Some(body)),
        (404, _) => Ok(None),
        (status, body) => Err(refused(status, &body)),
    }
}

#[cfg(feature = "system")]
fn answer_of(socket: &Path, method: &str, path: &str, body: &[u8]) -> anyhow::Result<(u16, Vec<u8>)> {
    let answer = iotide_edge::client::send(socket, method, path, body)
        .hint("`iotide serve` starts a daemon; IOTIDE_DAEMON names the socket of one that runs elsewhere")?;
    Ok((answer.status, answer.body))
}

#[cfg(feature = "system")]
fn refused(status: u16, body: &[u8]) -> anyhow::Error {
    let said = iotide_report::Refused::from_json(body);
    anyhow!(
        "{}",
        said.map_or_else(|| format!("the daemon refuses ({status})"), |said| said.error.for_terminal())
    )
    .context("the daemon cannot answer")
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

/// A time before now, in seconds.
pub(super) fn parse_ago(text: &str) -> Result<f64, String> {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len()));
    let factor = match unit {
        "s" | "" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        "w" => 604_800.0,
        _ => return Err("a number and a unit: s, m, h, d or w".to_owned()),
    };
    let number: f64 = number.parse().map_err(|_| "a number and a unit: s, m, h, d or w".to_owned())?;
    (number * factor)
        .is_finite()
        .then_some((number * factor).max(0.0))
        .ok_or_else(|| "a finite time".to_owned())
}
