//! State of a buffer: safe data, data that is left, and why.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::document::Document;
use crate::{Ink, SCHEMA, Tell, text};
use iotide_look::Untrusted;

/// How staging from one directory to another stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Staging {
    /// From here.
    pub source: Untrusted,
    /// To there.
    pub destination: Untrusted,
    /// `scan` before the first look, `flush`, `stuck`, `idle`, `drain`, `hold` or `run`; `done` when it has ended, `killed` if somebody killed it.
    pub state: String,
    /// Why it is in that state.
    #[serde(default)]
    pub reason: Option<Untrusted>,
    /// Basis of decisions while the job runs: `predictions`, or `activity` and why there is no more.
    #[serde(default)]
    pub basis: Option<String>,
    /// Files by what became of them.
    pub files: StagedFiles,
    /// Bytes that are safe.
    pub bytes_safe: u64,
    /// Bytes that are not.
    pub backlog_bytes: u64,
    /// Bytes that were removed from the buffer.
    pub purged_bytes: u64,
    /// For how long data was moved while the job did I/O.
    pub interference_s: f64,
    /// Bytes that were moved by this run, and for how long they moved.
    #[serde(default)]
    pub moved_bytes: u64,
    /// See `moved_bytes`.
    #[serde(default)]
    pub moving_s: f64,
    /// When the buffer will be full, in seconds from now.
    pub full_at_s: Option<f64>,
    /// Files whose owner or attributes could not be kept.
    #[serde(default)]
    pub plain_copies: u64,
    /// Files that are not safe, and why.
    pub left: Vec<LeftFile>,
    /// Pipes, sockets and devices, which are not copied.
    #[serde(default)]
    pub special: Vec<Untrusted>,
    /// Notes, such as leases that the file system does not have.
    #[serde(default)]
    pub notes: Vec<Untrusted>,
}

/// Files by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagedFiles {
    /// Checked and durable.
    pub safe: u64,
    /// To be copied.
    pub waiting: u64,
    /// Open to write.
    pub open: u64,
    /// Cannot be copied.
    pub failed: u64,
}

/// A file that is not safe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeftFile {
    /// Which.
    pub path: Untrusted,
    /// Why.
    pub why: Untrusted,
}

/// Result of a check of a destination.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StagedCheck {
    /// The directory.
    pub destination: Untrusted,
    /// Where its files came from.
    pub sources: Vec<Untrusted>,
    /// Files that are as they were.
    pub files_good: u64,
    /// Their bytes.
    pub bytes_good: u64,
    /// Those that are not.
    pub faults: Vec<LeftFile>,
}

/// More than a person reads.
const MAX_LINES: usize = 20;

impl Staging {
    /// Reads what [`StageAnswer`] wrote as JSON.
    pub fn from_json(json: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Document {
            runs: Vec<Staging>,
        }
        serde_json::from_slice::<Document>(json).ok()?.runs.into_iter().next()
    }
}

/// The answer of a command of `iotide stage`: nearly always of one buffer, whose fields stand at the top too.
#[derive(Clone, Debug)]
pub struct StageAnswer<R> {
    /// The command that was asked.
    pub command: &'static str,
    /// How each buffer stands.
    pub runs: Vec<R>,
}

impl StageAnswer<Staging> {
    /// How one or several buffers stand.
    pub fn of_buffers(buffers: Vec<Staging>) -> Self {
        Self { command: "stage", runs: buffers }
    }
}

impl StageAnswer<StagedCheck> {
    /// Returns the answer of a check.
    pub fn of_check(check: StagedCheck) -> Self {
        Self { command: "stage verify", runs: vec![check] }
    }
}

impl<R: Tell + Serialize> Document for StageAnswer<R> {
    fn to_text(&self, width: usize, ink: Ink) -> String {
        self.runs.iter().map(|run| run.tell(width, ink)).collect()
    }

    fn to_json(&self) -> String {
        #[derive(Serialize)]
        struct Json<'a, R> {
            schema: &'static str,
            command: &'static str,
            #[serde(flatten)]
            first: Option<&'a R>,
            runs: &'a [R],
        }
        let Self { command, runs } = self;
        text::json_document(&Json { schema: SCHEMA, command, first: runs.first(), runs })
    }
}

impl Tell for Staging {
    fn tell(&self, _: usize, _: Ink) -> String {
        let (files, bytes) = (text::counted(self.files.safe, "file"), text::bytes(self.bytes_safe as f64));
        let mut out = format!("{} of {bytes} safe in {}", files, self.destination.for_terminal());
        let why = self.reason.as_ref().map(|why| format!(" ({})", why.for_terminal())).unwrap_or_default();
        let _ = writeln!(out, "; state {}{why}", self.state);
        let n_left = self.files.waiting + self.files.open + self.files.failed;
        if n_left > 0 {
            let StagedFiles { waiting, open, failed, .. } = self.files;
            let bytes = text::bytes(self.backlog_bytes as f64);
            let _ = writeln!(
                out,
                "  left      {n_left} ({waiting} waiting, {open} open, {failed} failed), {bytes}"
            );
        }
        if self.purged_bytes > 0 {
            let _ = writeln!(out, "  removed   {} from the buffer", text::bytes(self.purged_bytes as f64));
        }
        if self.interference_s > 0.0 {
            let _ = writeln!(out, "  beside    the job's own I/O for {}", text::seconds(self.interference_s));
        }
        if let Some(full_at_s) = self.full_at_s {
            let _ = writeln!(out, "  full      in {}", text::seconds(full_at_s));
        }
        if self.plain_copies > 0 {
            let _ =
                writeln!(out, "  attributes of {} were not kept", text::counted(self.plain_copies, "file"));
        }
        list(&mut out, "left", self.left.iter());
        for special in self.special.iter().take(MAX_LINES) {
            let _ = writeln!(out, "  not copied: {} (a pipe, a socket or a device)", special.for_terminal());
        }
        for note in &self.notes {
            let _ = writeln!(out, "  {}", note.for_terminal());
        }
        out
    }
}

impl Tell for StagedCheck {
    fn tell(&self, _: usize, _: Ink) -> String {
        let n_all = self.files_good + self.faults.len() as u64;
        let mut out = format!(
            "{}: {} of {} as {}, {}\n",
            self.destination.for_terminal(),
            text::count(self.files_good),
            text::counted(n_all, "file"),
            if n_all == 1 { "it was" } else { "they were" },
            text::bytes(self.bytes_good as f64)
        );
        list(&mut out, "wrong", self.faults.iter());
        out
    }
}

fn list<'a>(out: &mut String, word: &str, files: impl ExactSizeIterator<Item = &'a LeftFile>) {
    let n = files.len();
    for file in files.take(MAX_LINES) {
        let _ = writeln!(out, "  {word}: {}: {}", file.path.for_terminal(), file.why.for_terminal());
    }
    if n > MAX_LINES {
        let _ = writeln!(out, "  … and {} more", n - MAX_LINES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_named_and_json_is_read_as_it_was_written() {
        let left = LeftFile { path: "a\u{1b}[2J".into(), why: "a process has it open to write".into() };
        let staging = Staging {
            destination: "/pfs/run".into(),
            state: "done".into(),
            files: StagedFiles { safe: 3, open: 1, ..StagedFiles::default() },
            bytes_safe: 3_000_000,
            backlog_bytes: 10,
            left: vec![left],
            ..Staging::default()
        };
        let report = StageAnswer::of_buffers(vec![staging.clone()]);
        let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
        assert_eq!((&json["files"]["open"], &json["runs"][0]["files"]), (&1.into(), &json["files"]));
        assert_eq!(Staging::from_json(report.to_json().as_bytes()), Some(staging));
        let told = report.to_text(100, Ink::Plain);
        assert!(told.starts_with("3 files of 3 MB safe in /pfs/run; state done\n"), "{told}");
        assert!(told.contains("1 (0 waiting, 1 open, 0 failed)"), "{told}");
        assert!(told.contains("left: a\\u{1b}[2J: a process has it open to write"), "{told}");
    }
}
