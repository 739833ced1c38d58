//! Speaking with the control socket of a mount or an arbiter.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use iotide_report::StorageJobs;

/// No table of jobs is longer.
const MAX_ANSWER: u64 = 64 << 20;

/// How long a control socket is waited for.
const WITHIN: Duration = Duration::from_secs(10);

/// Asks a control socket for its jobs.
pub fn ask(socket: &Path) -> anyhow::Result<StorageJobs> {
    ask_within(socket, WITHIN)
}

/// The same within a time.
pub(crate) fn ask_within(socket: &Path, within: Duration) -> anyhow::Result<StorageJobs> {
    let shown = socket.display();
    let answer = say(socket, "jobs", within)?;
    StorageJobs::from_answer(&shown.to_string(), &answer)
        .with_context(|| format!("{shown} gives no list of jobs"))
}

/// Says what the period of a job is, or with `None` that it is not known.
pub fn set_period(socket: &Path, job: &str, period_s: Option<f64>) -> anyhow::Result<()> {
    let period = period_s.map_or_else(|| "none".to_owned(), |period_s| period_s.to_string());
    let answer = say(socket, &format!("period {job} {period}"), WITHIN)?;
    if !answer.starts_with("{\"ok\":true}") {
        bail!("{} refuses: {}", socket.display(), answer.trim_end());
    }
    Ok(())
}

/// One line there, one back.
fn say(socket: &Path, question: &str, within: Duration) -> anyhow::Result<String> {
    Ok(say_all(socket, [question.to_owned()], within)?.swap_remove(0))
}

/// Lines there, and an answer to each back.
pub(crate) fn say_all(
    socket: &Path,
    questions: impl IntoIterator<Item = String>,
    within: Duration,
) -> anyhow::Result<Vec<String>> {
    let shown = socket.display();
    let mut line = iotide_private::connect_within(socket, within)
        .with_context(|| format!("cannot connect to {shown}"))?;
    let mut replies = BufReader::new(line.try_clone()?.take(MAX_ANSWER));
    let one = |question: String| {
        line.write_all(format!("{question}\n").as_bytes())
            .with_context(|| format!("{shown} does not listen"))?;
        let mut answer = String::new();
        replies.read_line(&mut answer).with_context(|| format!("{shown} does not answer"))?;
        Ok(answer)
    };
    questions.into_iter().map(one).collect()
}
