//! A socket by which others see the jobs of a mount, and say what they know of them.
//!
//! One line asks, one line answers, any number of times:
//!
//! ```text
//! jobs                 {"policy":"set10","rules":"iotide","jobs":[{"job":"7","period_s":0.96,…}]}
//! period 7 0.96        {"ok":true}            (the period of job 7 is 0.96 s; "period 7 none" takes it back)
//! period 7 0.96 for 10 {"ok":true}            (for ten seconds, unless it is sent again: who goes away leaves nothing behind)
//! anything else        {"error":"…"}
//! ```
//!
//! Only the user who mounted may connect, and root (mode 0600, and the kernel is asked who is there).

use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use iotide_private::{OwnSocket, is_our_user};
use iotide_sched::PeriodSource;

use crate::door::{Desk, Door, Entrance, Line};
use crate::schedule::{JobStatus, Scheduler};
use crate::turns::Turns;

/// A socket that is listened to; it is closed and its name goes when this does.
#[derive(Debug)]
pub(crate) struct Control {
    _door: Door,
}

impl Control {
    /// Listens at `path`; a socket that nobody listens to any more is replaced.
    pub(crate) fn listen(path: &Path, turns: &Turns, scheduler: Scheduler) -> io::Result<Self> {
        let socket = OwnSocket::bind(path, 0o600, None)?;
        let desk = Arc::new(Questions { heading: [turns.policy.name(), turns.rules.name()], scheduler });
        Ok(Self { _door: Door::open(Entrance::Unix(socket), desk, "iotide-control")? })
    }
}

struct Questions {
    /// The names of the policy and of its rules.
    heading: [&'static str; 2],
    scheduler: Scheduler,
}

impl Desk for Questions {
    type Caller = Arc<Line>;
    const MAX_CALLERS: usize = 64;
    /// A line that asks for something is short.
    const MAX_UNHEARD: usize = 4096;
    const MAX_UNREAD: usize = 8 << 20;

    fn greet(self: &Arc<Self>, line: &Arc<Line>) -> Arc<Line> {
        if !is_our_user(line.peer().map(|peer| peer.user)) {
            line.hang_up();
        }
        Arc::clone(line)
    }

    fn hear(self: &Arc<Self>, caller: &mut Arc<Line>, said: &[u8]) -> Option<usize> {
        let Some(end) = said.iter().position(|&byte| byte == b'\n') else { return Some(0) };
        let line = std::str::from_utf8(&said[..end]).ok()?;
        caller.say(answer(line.trim(), self.heading, &self.scheduler).as_bytes());
        Some(end + 1)
    }

    fn may_be_silent_for(&self, _: &Arc<Line>) -> Option<Duration> {
        Some(Duration::from_secs(600))
    }

    fn leave(self: &Arc<Self>, _: Arc<Line>) {}
}

fn answer(line: &str, heading: [&str; 2], scheduler: &Scheduler) -> String {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    match words[..] {
        ["jobs"] => jobs_line(heading, &scheduler.jobs()),
        ["period", job, "none"] => told(job, scheduler.set_period_of(job, None, PeriodSource::Given)),
        ["period", job, seconds] => match positive(seconds) {
            Ok(period_s) => told(job, scheduler.set_period_of(job, Some(period_s), PeriodSource::Given)),
            Err(refused) => refused,
        },
        ["period", job, seconds, "for", time] => match (positive(seconds), positive(time)) {
            (Ok(period_s), Ok(for_s)) => told(job, scheduler.lend_period_of(job, period_s, for_s)),
            (Err(refused), _) | (_, Err(refused)) => refused,
        },
        _ => refusal("expected 'jobs', 'period JOB SECONDS' or 'period JOB SECONDS for SECONDS'"),
    }
}

/// A number of seconds, or the error for one that is none.
fn positive(seconds: &str) -> Result<f64, String> {
    let parsed = seconds.parse::<f64>().ok().filter(|seconds| seconds.is_finite() && *seconds > 0.0);
    parsed.ok_or_else(|| refusal(&format!("'{seconds}' is no number of seconds above zero")))
}

fn told(job: &str, is_known: bool) -> String {
    if is_known { "{\"ok\":true}\n".to_owned() } else { refusal(&format!("no job '{job}' has been seen")) }
}

fn refusal(why: &str) -> String {
    format!("{{\"error\":{}}}\n", quoted(why))
}

/// The jobs as one line of JSON, in the words and units of iotide's other answers.
fn jobs_line([policy, rules]: [&str; 2], jobs: &[JobStatus]) -> String {
    let mut line = format!("{{\"policy\":{},\"rules\":{},\"jobs\":[", quoted(policy), quoted(rules));
    for (index, job) in jobs.iter().enumerate() {
        let _ = write!(
            line,
            "{}{{\"job\":{},\"period_s\":{},\"period_source\":{},\"set\":{},\"share\":{},\"bandwidth_bps\":{:.0},\
             \"bytes\":{},\"waiting\":{},\"waits_for\":{},\"phases\":{}}}",
            if index > 0 { "," } else { "" },
            quoted(&job.job),
            number(job.period_s),
            job.source.map_or("null".to_owned(), |source| quoted(source.name())),
            job.set.as_deref().map_or("null".to_owned(), quoted),
            number(job.share),
            job.bandwidth_bps,
            job.bytes,
            job.n_waiting,
            job.waits_for.as_deref().map_or("null".to_owned(), quoted),
            job.n_phases,
        );
    }
    line + "]}\n"
}

fn number(value: Option<f64>) -> String {
    value.filter(|value| value.is_finite()).map_or("null".to_owned(), |value| value.to_string())
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            control if control < ' ' => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(control));
            }
            other => quoted.push(other),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_told_in_one_line_with_null_for_what_is_not_known() {
        let job = JobStatus {
            job: "a \"name\"\n".to_owned(),
            period_s: Some(0.96),
            source: Some(PeriodSource::Predicted),
            set: Some("0".to_owned()),
            share: None,
            n_waiting: 3,
            waits_for: Some("8".to_owned()),
            n_phases: 4,
            bandwidth_bps: 1e8,
            bytes: 5,
        };
        assert_eq!(
            jobs_line(["set10", "iotide"], &[job]),
            "{\"policy\":\"set10\",\"rules\":\"iotide\",\"jobs\":[{\"job\":\"a \\\"name\\\"\\u000a\",\"period_s\":0.96,\"period_source\":\"predicted\",\
             \"set\":\"0\",\"share\":null,\"bandwidth_bps\":100000000,\"bytes\":5,\"waiting\":3,\"waits_for\":\"8\",\"phases\":4}]}\n"
        );
        assert_eq!(
            jobs_line(["none", "report"], &[]),
            "{\"policy\":\"none\",\"rules\":\"report\",\"jobs\":[]}\n"
        );
    }
}
