//! Asking the daemon, for commands that do so among other things.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

#[cfg(feature = "system")]
use anyhow::Context as _;
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
    let stated = STATED.with_borrow(Clone::clone);
    send_to(&stated.unwrap_or_else(|| Config::held().daemon()), method, path, body)
}

thread_local! {
    /// The daemon to ask in this thread, where it is not that of the settings: a program that asks in its own process may know several.
    static STATED: RefCell<Option<PathBuf>> = const { RefCell::new(None) };
}

/// Asks this daemon from now on, in this thread; `None` asks that of the settings.
pub(crate) fn ask_daemon_at(socket: Option<PathBuf>) {
    STATED.set(socket);
}

#[cfg(feature = "system")]
fn send_to(socket: &Path, method: &str, path: &str, body: &[u8]) -> anyhow::Result<Vec<u8>> {
    let answer = iotide_edge::client::send(socket, method, path, body)
        .hint("`iotide serve` starts a daemon; IOTIDE_DAEMON names the socket of one that runs elsewhere")?;
    if answer.status == 200 {
        return Ok(answer.body);
    }
    let said = iotide_report::Refused::from_json(&answer.body);
    Err(anyhow!(
        "{}",
        said.map_or_else(
            || format!("the daemon refuses ({})", answer.status),
            |said| said.error.for_terminal()
        )
    ))
    .context("the daemon cannot answer")
}

/// The analysis side alone knows no daemon.
#[cfg(not(feature = "system"))]
fn send_to(_: &Path, _: &str, _: &str, _: &[u8]) -> anyhow::Result<Vec<u8>> {
    Err(anyhow!("this program was built without what asks a daemon (cargo's feature `system`)"))
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
