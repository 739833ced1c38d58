//! What was decided, written down: a line for each time that something changed.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use iotide_private::OpenDir;
use iotide_report::DecisionEntry;

/// The file in the store.
const NAME: &str = "decisions.jsonl";
/// When it is longer, it becomes `decisions.jsonl.1`, and a new one is begun.
const MOST_BYTES: u64 = 16 << 20;
/// Decisions of earlier controllers that are still shown.
const MOST_BEFORE: usize = 200;
/// No line of ours is longer.
const LONGEST_LINE: usize = 1 << 20;

pub(crate) struct Log {
    path: PathBuf,
    /// What was decided before this controller began, the latest first.
    before: Vec<DecisionEntry>,
    next_id: u64,
    /// What the file says last of each decision.
    written: HashMap<u64, String>,
}

impl Log {
    /// Reads what is there. A line that was torn off when the machine stopped is skipped.
    pub(crate) fn open(store: &Path) -> io::Result<Self> {
        let path = store.join(NAME);
        let mut known: HashMap<u64, DecisionEntry> = HashMap::new();
        match File::open(&path) {
            Ok(file) => {
                let mut reader = BufReader::new(file.take(2 * MOST_BYTES));
                let mut line = String::new();
                loop {
                    line.clear();
                    match reader.by_ref().take(LONGEST_LINE as u64).read_line(&mut line) {
                        Ok(0) => break,
                        Ok(_) => known.extend(DecisionEntry::from_json_line(&line).map(|it| (it.id, it))),
                        // What is no text is no line of ours.
                        Err(error) if error.kind() == io::ErrorKind::InvalidData => break,
                        Err(error) => return Err(error),
                    }
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let next_id = known.keys().max().map_or(1, |id| id.saturating_add(1));
        let mut before: Vec<DecisionEntry> = known.into_values().collect();
        before.sort_by_key(|it| std::cmp::Reverse(it.id));
        before.truncate(MOST_BEFORE);
        let written = before.iter().map(|it| (it.id, it.to_json_line())).collect();
        before.iter_mut().for_each(DecisionEntry::end_with_its_controller);
        Ok(Self { path, before, next_id, written })
    }

    pub(crate) fn next_id(&self) -> u64 {
        self.next_id
    }

    pub(crate) fn before(&self) -> &[DecisionEntry] {
        &self.before
    }

    /// Writes down what has changed. A disk that is full loses lines, and no decision.
    pub(crate) fn write(&mut self, decisions: &[DecisionEntry]) {
        let mut lines = String::new();
        for decision in decisions.iter().rev() {
            let line = decision.to_json_line();
            if self.written.get(&decision.id) != Some(&line) {
                lines += &line;
                self.written.insert(decision.id, line);
            }
        }
        let ids: HashSet<u64> = decisions.iter().map(|it| it.id).collect();
        self.written.retain(|id, _| ids.contains(id));
        if !lines.is_empty() {
            let _ = self.append(&lines);
        }
    }

    fn append(&self, lines: &str) -> io::Result<()> {
        let length = fs::metadata(&self.path).map(|about| about.len()).ok();
        let is_full = length.is_some_and(|length| length > MOST_BYTES);
        if is_full {
            fs::rename(&self.path, self.path.with_extension("jsonl.1"))?;
        }
        // The store is a folder of the daemon's own.
        let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path)?;
        file.write_all(lines.as_bytes())?;
        file.sync_data()?;
        if is_full || length.is_none() {
            OpenDir::open(self.path.parent().unwrap_or(Path::new("/")))?.sync()?;
        }
        Ok(())
    }
}
