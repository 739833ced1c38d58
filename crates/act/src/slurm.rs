//! A Slurm by its own commands: what it lists, and how a job's size is changed.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use iotide_sched::jobs::ListedJob;

use crate::programs;
use crate::sizes::mark_of;

/// How Slurm is talked to.
#[derive(Clone, Debug, PartialEq)]
pub struct SlurmTalk {
    /// Only this partition.
    pub partition: Option<String>,
    /// A command of Slurm that takes longer is ended.
    pub timeout_s: f64,
}

/// Reads the name of a partition: what could be taken for an option, or for several words, is none.
pub fn plain_word(text: &str) -> Result<String, String> {
    let is_plain =
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.,".contains(&b));
    if is_plain && !text.starts_with('-') {
        Ok(text.to_owned())
    } else {
        Err("is not the name of a partition".to_owned())
    }
}

/// The machine as it is now.
#[derive(Debug, Default)]
pub struct Listing {
    /// Jobs that run or wait.
    pub jobs: Vec<ListedJob>,
    /// Idle nodes.
    pub free: u32,
    /// What was left out, and why.
    pub notes: Vec<String>,
}

/// A Slurm.
pub struct Slurm {
    talk: SlurmTalk,
    is_over: Box<dyn Fn() -> bool + Send>,
    /// Where Slurm's commands may leave files: a change of size writes scripts into the current folder.
    folder: PathBuf,
}

impl Slurm {
    /// Talks to the Slurm of this machine until `is_over`.
    pub fn new(talk: &SlurmTalk, is_over: impl Fn() -> bool + Send + 'static) -> Self {
        Self { talk: talk.clone(), is_over: Box::new(is_over), folder: PathBuf::from("/") }
    }

    /// The same Slurm, whose commands leave their files in a folder.
    pub fn with_folder(self, folder: PathBuf) -> Self {
        Self { folder, ..self }
    }

    /// Lists the jobs and counts the free nodes.
    pub fn list(&self) -> anyhow::Result<Listing> {
        let mut squeue = words(&["squeue", "--noheader", "--states=RUNNING,PENDING,CONFIGURING"]);
        let mut sinfo = words(&["sinfo", "--noheader", "--Node", "--format", "%N %t"]);
        if let Some(partition) = &self.talk.partition {
            squeue.extend([format!("--partition={partition}")]);
            sinfo.extend([format!("--partition={partition}")]);
        }
        // Comments are texts of users and may hold line breaks: they are asked for apart.
        let asked = |columns: &str| [&squeue[..], &words(&["--Format", columns])].concat();
        let mut listing = Listing::default();
        for line in self.run(&asked(COLUMNS))?.lines() {
            match listed(line) {
                Ok(Some(job)) => listing.jobs.push(job),
                Ok(None) => {}
                Err(note) => listing.notes.push(note),
            }
        }
        let marked = maybe_marked(&self.run(&asked(COMMENTS))?);
        for mut job in std::mem::take(&mut listing.jobs) {
            if marked.contains(&job.id) {
                match mark_of(&job.id, &self.comment_of(&job.id)) {
                    Ok(mark) => job.mark = mark,
                    Err(note) => {
                        listing.notes.push(note);
                        continue;
                    }
                }
            }
            listing.jobs.push(job);
        }
        // A node in several partitions is listed once for each.
        let nodes = self.run(&sinfo)?;
        let idle: BTreeSet<&str> = nodes
            .lines()
            .filter_map(|line| line.split_once(' '))
            .filter(|(_, state)| state.trim() == "idle")
            .map(|(name, _)| name)
            .collect();
        listing.free = idle.len() as u32;
        Ok(listing)
    }

    /// The comment of one job: all that is printed, line breaks included. A job that has ended has none.
    fn comment_of(&self, id: &str) -> String {
        let asked = words(&["squeue", "--noheader", &format!("--jobs={id}"), "--Format=Comment:.200"]);
        self.run(&asked).unwrap_or_default()
    }

    /// What a job holds; `None` if it does not run.
    pub fn size_of(&self, id: &str) -> anyhow::Result<Option<u32>> {
        // Of all: a job that is long gone is an error to squeue.
        let said = self.run(&words(&["squeue", "--noheader", "--states=RUNNING", "--format=%i %D"]))?;
        let mut rows = said.lines().filter_map(|line| line.trim().split_once(' '));
        Ok(rows.find(|(job, _)| *job == id).and_then(|(_, nodes)| nodes.trim().parse().ok()))
    }

    /// Ids of our own jobs of a name: others may use it, too.
    pub(crate) fn named(&self, name: &str) -> anyhow::Result<Vec<String>> {
        let mut squeue = words(&["squeue", "--noheader", "--format=%i"]);
        let own = rustix::process::geteuid().as_raw();
        squeue.extend([format!("--user={own}"), format!("--name={name}")]);
        let said = self.run(&squeue)?;
        Ok(said.lines().map(|line| line.trim().to_owned()).filter(|id| !id.is_empty()).collect())
    }

    /// Tells a job's processes that its size will change.
    pub(crate) fn signal(&self, id: &str, signal: &str) -> anyhow::Result<()> {
        self.run(&words(&["scancel", &format!("--signal={signal}"), "--full", id])).map(drop)
    }

    pub(crate) fn cancel(&self, id: &str) -> anyhow::Result<()> {
        self.run(&words(&["scancel", id])).map(drop)
    }

    pub(crate) fn set_size(&self, id: &str, nodes: &str) -> anyhow::Result<()> {
        self.run(&words(&["scontrol", "update", &format!("JobId={id}"), &format!("NumNodes={nodes}")]))
            .map(drop)
    }

    /// Asks for nodes that will be given to a job, under a name, and waits until they are there. Returns the id of the helper.
    pub(crate) fn ask_for(
        &self,
        id: &str,
        nodes: u32,
        name: &str,
        wait_s: u64,
    ) -> anyhow::Result<Option<String>> {
        let mut salloc = words(&["salloc", "--no-shell", "--exclusive", "--quiet"]);
        salloc.extend([
            format!("--nodes={nodes}"),
            format!("--dependency=expand:{id}"),
            format!("--job-name={name}"),
            format!("--immediate={}", wait_s.max(1)),
        ]);
        salloc.extend(self.talk.partition.iter().map(|partition| format!("--partition={partition}")));
        if self.run(&salloc).is_err() {
            return Ok(None);
        }
        Ok(self.named(name)?.into_iter().next())
    }

    fn run(&self, words: &[String]) -> anyhow::Result<String> {
        let within = Duration::from_secs_f64(self.talk.timeout_s);
        programs::run_in(words, &self.folder, within, &*self.is_over).with_context(|| words.join(" "))
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// Columns of `squeue`, of fixed width, none of them a text that a user has written.
const COLUMNS: &str =
    "JobID:.32,State:.16,NumNodes:.12,PriorityLong:.16,SubmitTime:.24,TimeUsed:.24,TimeLimit:.24,Reason:.40";
const COMMENTS: &str = "JobID:.32,Comment:.200";

/// Ids of jobs that may have a mark of ours. A comment with a line break can add ids of other jobs, and hide none.
fn maybe_marked(comments: &str) -> BTreeSet<String> {
    let row = |line: &str| {
        let (id, comment) = line.split_at_checked(32)?;
        comment.contains("iotide:").then(|| id.trim().to_owned())
    };
    comments.lines().filter_map(row).collect()
}

/// A line of `squeue`, without a mark. `None` is a job that waits for something else than nodes.
fn listed(line: &str) -> Result<Option<ListedJob>, String> {
    const WIDTHS: [usize; 8] = [32, 16, 12, 16, 24, 24, 24, 40];
    let mut chars = line.chars();
    let cells = WIDTHS.map(|width| chars.by_ref().take(width).collect::<String>().trim().to_owned());
    let [id, state, nodes, priority, submit, used, limit, reason] = cells;
    let is_plain = !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit());
    if !is_plain {
        // Parts of arrays and of heterogeneous jobs are resized by nobody.
        return Ok(None);
    }
    let wrong = |what: &str| format!("job {id} is left out: its {what} is not understood");
    // `4-8` while it waits.
    let nodes = nodes
        .split('-')
        .next()
        .and_then(|n| n.parse().ok())
        .filter(|&n| n > 0)
        .ok_or_else(|| wrong("size"))?;
    let is_running = state == "RUNNING";
    if !is_running && !matches!(reason.as_str(), "Resources" | "Priority" | "None" | "") {
        return Ok(None);
    }
    Ok(Some(ListedJob {
        nodes,
        elapsed_s: if is_running { Some(duration_s(&used).ok_or_else(|| wrong("time"))?) } else { None },
        // Who has no limit is taken to run for a year.
        limit_s: duration_s(&limit).unwrap_or(365.0 * 86_400.0),
        submit_s: iotide_formats::date_unix_s(submit.as_bytes(), 0.0).unwrap_or(0.0),
        priority: priority.parse().unwrap_or(0),
        mark: None,
        is_busy: false,
        times: Vec::new(),
        id,
    }))
}

/// `1-02:03:04`, `02:03:04`, `03:04`.
fn duration_s(text: &str) -> Option<f64> {
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (days.parse::<f64>().ok()?, clock),
        None => (0.0, text),
    };
    let parts: Option<Vec<f64>> = clock.split(':').map(|part| part.parse().ok()).collect();
    let seconds = parts?.iter().fold(0.0, |sum, part| sum * 60.0 + part);
    let total = days * 86_400.0 + seconds;
    (seconds >= 0.0 && days >= 0.0 && total.is_finite()).then_some(total)
}

/// Whether a signal is one that can be sent.
pub fn checked_signal(name: &str) -> Result<String, String> {
    let is_name = name.len() <= 12 && !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric());
    if is_name { Ok(name.to_owned()) } else { Err("is not the name of a signal, such as USR1".to_owned()) }
}

/// Fails where Slurm does not let jobs grow.
pub fn may_expand(slurm: &Slurm) -> anyhow::Result<()> {
    let said = slurm.run(&words(&["scontrol", "show", "config"]))?;
    let parameters = said.lines().find(|line| line.starts_with("SchedulerParameters")).unwrap_or_default();
    if !parameters.contains("permit_job_expansion") {
        bail!("this Slurm does not let jobs grow: SchedulerParameters lacks permit_job_expansion");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_squeue_is_cut_by_widths() {
        let row = |id: &str, state: &str, nodes: &str, reason: &str| {
            format!(
                "{id:>32}{state:>16}{nodes:>12}{:>16}{:>24}{:>24}{:>24}{reason:>40}",
                7, "1970-01-02T00:00:00", "1:05", "1-00:00:00"
            )
        };
        let job = listed(&row("12", "RUNNING", "4", "None")).unwrap().unwrap();
        assert_eq!((job.id.as_str(), job.nodes, job.elapsed_s, job.limit_s), ("12", 4, Some(65.0), 86_400.0));
        assert_eq!((job.submit_s, job.priority), (86_400.0, 7));
        let waiting = listed(&row("13", "PENDING", "2-4", "Resources")).unwrap().unwrap();
        assert_eq!((waiting.nodes, waiting.elapsed_s, waiting.mark), (2, None, None));
        assert_eq!(listed(&row("14", "PENDING", "2", "Dependency")).unwrap(), None);
        assert_eq!(listed(&row("15_3", "RUNNING", "2", "None")).unwrap(), None);
        assert!(mark_of("16", "iotide:min=9").unwrap_err().starts_with("job 16 is left alone: "));
    }

    #[test]
    fn a_comment_adds_jobs_to_ask_for_and_hides_none() {
        let row = |id: &str, comment: &str| format!("{id:>32}{comment:>200}\n");
        let forged = row("12", &format!("x\n{:>32} iotide:min=1,max=1", 13));
        let comments = [forged, row("13", "none"), row("14", "iotide:min=1,max=8"), "é".repeat(20)].concat();
        assert_eq!(maybe_marked(&comments), ["13", "14"].map(str::to_owned).into());
    }

    #[test]
    fn durations_are_those_of_slurm() {
        for (text, seconds) in [
            ("5:00", Some(300.0)),
            ("1:00:00", Some(3600.0)),
            ("2-00:00:01", Some(172_801.0)),
            ("UNLIMITED", None),
            ("inf-1:00", None),
            ("1-NaN", None),
            ("", None),
        ] {
            assert_eq!(duration_s(text), seconds, "{text}");
        }
    }
}
