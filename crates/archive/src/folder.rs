//! A folder of results: what is done already, and what came of it.
//!
//! ```text
//! made-with.toml    the method, every threshold, and which part of the archive; results are only added to in the same way
//! journal.jsonl     while work goes on: a line for each log, in the order they were done
//! runs.jsonl        in the end: a line for each run, in the order of their paths
//! rejected.jsonl    a line for each log without labels, with the reason
//! runs.parquet      the runs as a table
//! statistics.json   what they add up to
//! index.html        the same to look at
//! ```
//!
//! A line is written at once, so that a process that is killed leaves whole lines and at most one cut one, which is cut
//! off by the next. The journal goes when all that is in it stands elsewhere.

use std::fs::{self, File, TryLockError};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::slice;

use iotide_pages::archive_page;
use iotide_private::{OpenDir, Part};
use iotide_report::{ArchiveStatistics, Document, LineHead, LogIdentity, ResultLine, SlowRuns};

use crate::ArchiveError;
use crate::parquet::RunsTable;
use crate::sort::{Sorted, Sorter};
use crate::statistics::Sums;
use crate::suspects::{self, Suspects};

const JOURNAL: &str = "journal.jsonl";
/// The file of a folder of results that has a line for each run.
pub const RUNS: &str = "runs.jsonl";
const REJECTED: &str = "rejected.jsonl";
const MADE_WITH: &str = "made-with.toml";
const STATISTICS: &str = "statistics.json";

/// A folder of results that this process adds to.
#[derive(Debug)]
pub struct Folder {
    dir: OpenDir,
    /// Held open to keep others out.
    journal: File,
    /// Bytes of a line that someone was killed over.
    n_cut: u64,
    /// Logs that may have ended an earlier process.
    suspects: Suspects,
}

impl Folder {
    /// Opens a folder, made if there is none, for results made with `made_with`.
    ///
    /// Fails if another process is at it, or if what it holds was made in another way.
    pub fn open(path: &Path, made_with: &str) -> Result<Self, ArchiveError> {
        let failed = |source| ArchiveError::write(path, source);
        let dir = OpenDir::make(path).map_err(failed)?;
        match fs::read_to_string(path.join(MADE_WITH)) {
            Ok(text) if same_settings(&text, made_with) => {}
            Ok(_) => return Err(ArchiveError::OtherSettings { folder: path.to_owned() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                replace(&dir, MADE_WITH, made_with.as_bytes()).map_err(failed)?;
            }
            Err(error) => return Err(failed(error)),
        }
        let mut journal = dir.append(JOURNAL).map_err(failed)?;
        // Some network file systems have no locks; there, nobody is kept out.
        match journal.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(ArchiveError::Busy { folder: path.to_owned() }),
            Err(TryLockError::Error(_)) => {}
            Ok(()) => drop(dir.remove_parts()),
        }
        let n_cut = cut_torn_line(&mut journal).map_err(failed)?;
        let suspects = Suspects::of(&mut journal).map_err(failed)?;
        journal.write_all(suspects::started().as_bytes()).map_err(failed)?;
        Ok(Self { dir, journal, n_cut, suspects })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// How many bytes of a torn line were cut off when it was opened.
    pub fn n_cut(&self) -> u64 {
        self.n_cut
    }

    /// Logs that may have ended an earlier process.
    pub(crate) fn suspects(&self) -> &Suspects {
        &self.suspects
    }

    /// Returns the journal, for whoever adds lines beside this.
    pub(crate) fn journal(&self) -> io::Result<File> {
        self.journal.try_clone()
    }

    /// Adds a line, with its newline.
    pub(crate) fn append(&mut self, line: &str) -> io::Result<()> {
        self.journal.write_all(line.as_bytes())
    }

    /// Syncs what was added, so that it survives a loss of power, too.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.journal.sync_data()?;
        self.dir.sync()
    }

    /// Returns what is done already, in the order of paths.
    pub(crate) fn known(&self) -> Result<Known, ArchiveError> {
        let path = self.dir.path().to_owned();
        let lines = sorted_lines(slice::from_ref(&path), &path, |head, _, out| {
            if let Some(LogIdentity { bytes, mtime_ns }) = head.log {
                out.extend_from_slice(&bytes.to_le_bytes());
                out.extend_from_slice(&mtime_ns.to_le_bytes());
            }
        })?;
        Ok(Known { lines, head: None })
    }

    /// Writes the results of all that was ever added, and drops the journal.
    pub fn finish(self, outputs: Outputs) -> Result<ArchiveStatistics, ArchiveError> {
        self.finish_with(outputs, &mut |_| None)
    }

    /// The same, with the slow runs, which `slow` finds in the folder once its `runs.jsonl` is whole.
    pub fn finish_with(
        self,
        outputs: Outputs,
        slow: &mut dyn FnMut(&Path) -> Option<SlowRuns>,
    ) -> Result<ArchiveStatistics, ArchiveError> {
        let path = self.dir.path().to_owned();
        let statistics = write_results(slice::from_ref(&path), &self.dir, outputs, slow)?;
        self.dir.remove(JOURNAL).map_err(|source| ArchiveError::write(&path, source))?;
        Ok(statistics)
    }
}

/// Which files of results are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outputs {
    /// All of them.
    All,
    /// `runs.jsonl` and `rejected.jsonl`.
    LinesOnly,
}

/// Calls `take` with each line of a folder's `runs.jsonl`.
pub fn for_each_run<E: From<ArchiveError>>(
    folder: &Path,
    mut take: impl FnMut(&str) -> Result<(), E>,
) -> Result<(), E> {
    let path = folder.join(RUNS);
    let failed = |source| ArchiveError::Read { path: path.clone(), source };
    let mut lines = BufReader::new(File::open(&path).map_err(failed)?);
    let mut line = String::new();
    while lines.read_line(&mut line).map_err(failed)? > 0 {
        take(&line)?;
        line.clear();
    }
    Ok(())
}

/// Writes the results of several parts together into `out`: of folders of results, of folders that hold `shard-…` folders,
/// and of files of lines.
///
/// Fails if a part is not finished, if shards are missing, or if parts were made in different ways. The same runs give the
/// same bytes, whatever the parts they came in.
pub fn merge(parts: &[PathBuf], out: &Path, outputs: Outputs) -> Result<ArchiveStatistics, ArchiveError> {
    let mut sources = Vec::new();
    for part in parts {
        let shards = shards_in(part)?;
        if shards.is_empty() { sources.push(part.clone()) } else { sources.extend(shards) }
    }
    let mut made_with: Option<(PathBuf, String)> = None;
    let mut shards: Vec<(u64, u64)> = Vec::new();
    for folder in sources.iter().filter(|source| source.is_dir()) {
        let stated = folder.join(MADE_WITH);
        let text =
            fs::read_to_string(&stated).map_err(|_| ArchiveError::NoResults { path: folder.clone() })?;
        if folder.join(JOURNAL).exists() || !folder.join(RUNS).exists() {
            return Err(ArchiveError::Unfinished { folder: folder.clone() });
        }
        shards.extend(shard_of(&text));
        let text = without_shard(&text);
        match &made_with {
            None => made_with = Some((folder.clone(), text)),
            Some((_, other)) if same_settings(other, &text) => {}
            Some((other, _)) => {
                return Err(ArchiveError::Different { folder: folder.clone(), other: other.clone() });
            }
        }
    }
    // A part of several wholes may be among whole ones; but of each whole, every part must be there.
    for &(_, count) in &shards {
        let missing = (0..count).find(|index| !shards.contains(&(*index, count)));
        if let Some(index) = missing {
            return Err(ArchiveError::MissingShard { index, count });
        }
    }
    let failed = |source| ArchiveError::write(out, source);
    let dir = OpenDir::make(out).map_err(failed)?;
    if let Some((_, text)) = made_with {
        replace(&dir, MADE_WITH, text.as_bytes()).map_err(failed)?;
    }
    write_results(&sources, &dir, outputs, &mut |_| None)
}

/// Reads the lines of all `sources` in the order of paths and writes what they come to.
fn write_results(
    sources: &[PathBuf],
    dir: &OpenDir,
    outputs: Outputs,
    slow: &mut dyn FnMut(&Path) -> Option<SlowRuns>,
) -> Result<ArchiveStatistics, ArchiveError> {
    let failed = |source| ArchiveError::write(dir.path(), source);
    let begin = |name: &str| dir.replace(name).map(buffered).map_err(failed);
    let mut lines =
        Latest::of(sorted_lines(sources, dir.path(), |_, line, out| out.extend_from_slice(line))?);
    let (mut runs, mut rejected) = (begin(RUNS)?, begin(REJECTED)?);
    let mut table = match outputs {
        Outputs::All => Some(RunsTable::create(begin("runs.parquet")?).map_err(failed)?),
        Outputs::LinesOnly => None,
    };
    let mut sums = Sums::new();
    while let Some((path, line)) = lines.next().map_err(failed)? {
        let bad = |fault: String| ArchiveError::BadLine { path: path.clone(), fault };
        let read = ResultLine::parse(&line).map_err(bad)?;
        sums.add(&read).map_err(bad)?;
        if read.rejected.is_some() {
            rejected.write_all(&line).and_then(|()| rejected.write_all(b"\n")).map_err(failed)?;
        } else {
            runs.write_all(&line).and_then(|()| runs.write_all(b"\n")).map_err(failed)?;
            if let Some(table) = &mut table {
                table.push(&read).map_err(failed)?;
            }
        }
    }
    drop(lines);
    let (mut statistics, listed) = sums.finish();
    name(runs).and_then(|()| name(rejected)).map_err(failed)?;
    statistics.slow = slow(dir.path());
    if let Some(table) = table {
        table.finish().and_then(name).map_err(failed)?;
        replace(dir, "index.html", archive_page(&statistics, &listed).as_bytes()).map_err(failed)?;
    }
    if outputs == Outputs::All {
        // The last one: where it is, all is.
        replace(dir, STATISTICS, statistics.to_json().as_bytes()).map_err(failed)?;
    }
    Ok(statistics)
}

/// Sorts the lines of folders and files by the paths of their logs; what comes later in time comes later for one path.
///
/// A record is the path, a zero, nine bytes of age, and what `keep` puts behind.
fn sorted_lines(
    sources: &[PathBuf],
    scratch: &Path,
    mut keep: impl FnMut(&LineHead<'_>, &[u8], &mut Vec<u8>),
) -> Result<Sorted, ArchiveError> {
    let mut sorter = Sorter::new(scratch);
    let mut record = Vec::new();
    for source in sources {
        let files: Vec<(u8, PathBuf, bool)> = if source.is_dir() {
            vec![
                (0, source.join(RUNS), false),
                (0, source.join(REJECTED), false),
                (1, source.join(JOURNAL), false),
            ]
        } else {
            vec![(0, source.clone(), true)]
        };
        for (age, path, must_be_there) in files {
            let file = match File::open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound && !must_be_there => continue,
                Err(source) => return Err(ArchiveError::Read { path, source }),
            };
            let mut lines = BufReader::with_capacity(64 << 10, file);
            let (mut line, mut number) = (Vec::new(), 0_u64);
            loop {
                line.clear();
                let failed = |source| ArchiveError::Read { path: path.clone(), source };
                if lines.read_until(b'\n', &mut line).map_err(failed)? == 0 {
                    break;
                }
                number += 1;
                let text = line.trim_ascii_end();
                let head = match LineHead::parse(text) {
                    Ok(head) => head,
                    // In a journal: someone wrote it by halves. Its log is read again.
                    Err(_) if age == 1 => continue,
                    Err(fault) => {
                        let fault = format!("line {number}: {fault}");
                        return Err(ArchiveError::BadLine { path: path.display().to_string(), fault });
                    }
                };
                record.clear();
                record.extend_from_slice(head.source.path.as_bytes());
                record.push(0);
                record.push(age);
                record.extend_from_slice(&number.to_be_bytes());
                keep(&head, text, &mut record);
                sorter.push(&record).map_err(|source| ArchiveError::write(scratch, source))?;
            }
        }
    }
    sorter.finish().map_err(|source| ArchiveError::write(scratch, source))
}

/// Logs that are done, in the order of paths.
pub(crate) struct Known {
    lines: Sorted,
    head: Option<(String, Option<LogIdentity>)>,
}

impl Known {
    /// Returns the log as it was when it was read, if it was. Paths must be asked for in order.
    pub(crate) fn look_up(&mut self, path: &str) -> io::Result<Option<LogIdentity>> {
        let mut found = None;
        loop {
            if self.head.is_none() {
                self.head = self.lines.next_record()?.map(|record| {
                    let (path, rest) = split(&record);
                    let identity = rest.get(..16).map(|bytes| {
                        let word = |from: usize| std::array::from_fn(|i| bytes[from + i]);
                        LogIdentity {
                            bytes: u64::from_le_bytes(word(0)),
                            mtime_ns: i64::from_le_bytes(word(8)),
                        }
                    });
                    (path, identity)
                });
            }
            match &self.head {
                Some((known, identity)) if **known <= *path => {
                    if *known == path {
                        found = *identity;
                    }
                    self.head = None;
                }
                _ => return Ok(found),
            }
        }
    }
}

/// Of the lines of each path, the latest.
struct Latest {
    lines: Sorted,
    next: Option<(String, Vec<u8>)>,
}

impl Latest {
    fn of(lines: Sorted) -> Self {
        Self { lines, next: None }
    }

    fn next(&mut self) -> io::Result<Option<(String, Vec<u8>)>> {
        loop {
            let read = self.lines.next_record()?.map(|record| {
                let (path, line) = split(&record);
                (path, line.to_vec())
            });
            let Some(read) = read else { return Ok(self.next.take()) };
            match self.next.replace(read) {
                Some(last) if self.next.as_ref().is_some_and(|next| next.0 != last.0) => {
                    return Ok(Some(last));
                }
                _ => {}
            }
        }
    }
}

/// The path and what was kept of a record.
fn split(record: &[u8]) -> (String, &[u8]) {
    let end = record.iter().position(|byte| *byte == 0).unwrap_or(record.len());
    (String::from_utf8_lossy(&record[..end]).into_owned(), record.get(end + 10..).unwrap_or_default())
}

/// Cuts off what comes after the last newline; returns how much that was.
fn cut_torn_line(journal: &mut File) -> io::Result<u64> {
    let length = journal.metadata()?.len();
    let mut end = length;
    let mut block = vec![0; 64 << 10];
    while end > 0 {
        let start = end.saturating_sub(block.len() as u64);
        let part = &mut block[..(end - start) as usize];
        journal.seek(SeekFrom::Start(start))?;
        journal.read_exact(part)?;
        if let Some(at) = part.iter().rposition(|byte| *byte == b'\n') {
            end = start + at as u64 + 1;
            break;
        }
        end = start;
    }
    if end < length {
        journal.set_len(end)?;
    }
    journal.seek(SeekFrom::End(0))?;
    Ok(length - end)
}

fn buffered(part: Part) -> BufWriter<Part> {
    BufWriter::with_capacity(64 << 10, part)
}

/// Gives a file its name, now that it is whole.
fn name(part: BufWriter<Part>) -> io::Result<()> {
    part.into_inner().map_err(io::IntoInnerError::into_error)?.finish_durably()
}

fn replace(dir: &OpenDir, file: &str, contents: &[u8]) -> io::Result<()> {
    let mut part = buffered(dir.replace(file)?);
    part.write_all(contents)?;
    name(part)
}

/// The folders of shards in a folder, by name.
fn shards_in(folder: &Path) -> Result<Vec<PathBuf>, ArchiveError> {
    if !folder.is_dir() || folder.join(MADE_WITH).exists() {
        return Ok(Vec::new());
    }
    let failed = |source| ArchiveError::Read { path: folder.to_owned(), source };
    let mut shards = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_name().as_encoded_bytes().starts_with(b"shard-") && entry.path().is_dir() {
            shards.push(entry.path());
        }
    }
    shards.sort();
    Ok(shards)
}

/// Whether two texts of settings say the same; comments do not count.
fn same_settings(one: &str, other: &str) -> bool {
    let said = |text: &str| -> Vec<String> {
        let lines = text.lines().map(|line| line.trim().to_owned());
        lines.filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
    };
    said(one) == said(other)
}

const SHARD_KEY: &str = "shard = \"";

fn shard_of(made_with: &str) -> Option<(u64, u64)> {
    let line = made_with.lines().find_map(|line| line.strip_prefix(SHARD_KEY))?;
    let (index, count) = line.trim_end_matches('"').split_once('/')?;
    Some((index.parse().ok()?, count.parse().ok()?))
}

fn without_shard(made_with: &str) -> String {
    let lines = made_with.lines().filter(|line| !line.starts_with(SHARD_KEY));
    lines.map(|line| format!("{line}\n")).collect()
}

/// Returns what the settings say when only a part of the archive is looked at.
pub(crate) fn with_shard(settings: &str, shard: crate::Shard) -> String {
    if shard.is_whole() { settings.to_owned() } else { format!("{SHARD_KEY}{shard}\"\n{settings}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_testkit::FreshDir;

    fn rejected(path: &str, why: &str, mtime_ns: i64) -> String {
        let log = Some(LogIdentity { bytes: 1, mtime_ns });
        iotide_report::RejectedLog::new(path, log, why).to_line()
    }

    #[test]
    fn a_torn_line_is_cut_off_and_its_log_is_not_known() {
        let dir = FreshDir::new("torn");
        let mut folder = Folder::open(dir.path(), "method = \"auto\"\n").unwrap();
        folder.append(&rejected("a", "x", 1)).unwrap();
        let torn = rejected("b", "y", 2);
        for length in 1..torn.len() {
            folder.append(&torn[..length]).unwrap();
            drop(folder);
            folder = Folder::open(dir.path(), "# as before\nmethod = \"auto\"\n").unwrap();
            assert_eq!(folder.n_cut(), length as u64);
            let mut known = folder.known().unwrap();
            assert_eq!(known.look_up("a").unwrap(), Some(LogIdentity { bytes: 1, mtime_ns: 1 }));
            assert_eq!(known.look_up("b").unwrap(), None);
        }
        folder.append(&torn).unwrap();
        let mut known = folder.known().unwrap();
        assert_eq!(known.look_up("a-").unwrap(), None);
        assert_eq!(known.look_up("b").unwrap(), Some(LogIdentity { bytes: 1, mtime_ns: 2 }));
    }

    #[test]
    fn a_line_that_is_damaged_within_is_passed_over() {
        let dir = FreshDir::new("damaged");
        let mut folder = Folder::open(dir.path(), "").unwrap();
        folder.append("{\"source\": {\"pa\0\0\0\n").unwrap();
        folder.append(&rejected("b", "y", 2)).unwrap();
        assert!(folder.known().unwrap().look_up("b").unwrap().is_some());
        assert_eq!(folder.finish(Outputs::All).unwrap().n_logs, 1);
    }

    #[test]
    fn the_latest_word_on_a_log_counts_and_the_journal_goes() {
        let dir = FreshDir::new("latest");
        for round in 0..3 {
            let mut folder = Folder::open(dir.path(), "").unwrap();
            folder.append(&rejected("b", &format!("why {round}"), round)).unwrap();
            folder.append(&rejected("a", "for good", 0)).unwrap();
            assert_eq!(folder.finish(Outputs::All).unwrap().n_rejected, 2);
        }
        let lines = fs::read_to_string(dir.join(REJECTED)).unwrap();
        assert_eq!(lines, rejected("a", "for good", 0) + &rejected("b", "why 2", 2));
        assert_eq!(
            dir.names(),
            [
                "index.html",
                "made-with.toml",
                "rejected.jsonl",
                "runs.jsonl",
                "runs.parquet",
                "statistics.json"
            ]
        );
    }

    #[test]
    fn two_processes_do_not_write_to_one_folder() {
        let dir = FreshDir::new("busy");
        let _first = Folder::open(dir.path(), "").unwrap();
        assert!(matches!(Folder::open(dir.path(), ""), Err(ArchiveError::Busy { .. })));
    }

    #[test]
    fn results_made_otherwise_are_not_added_to() {
        let dir = FreshDir::new("otherwise");
        drop(Folder::open(dir.path(), "a = 1\n").unwrap());
        assert!(matches!(Folder::open(dir.path(), "a = 2\n"), Err(ArchiveError::OtherSettings { .. })));
    }

    fn shard(dir: &FreshDir, index: u64, settings: &str) -> PathBuf {
        let path = dir.join(format!("shard-{index}-of-3"));
        let made_with = with_shard(settings, crate::Shard::new(index, 3).unwrap());
        let mut folder = Folder::open(&path, &made_with).unwrap();
        folder.append(&rejected(&format!("log {index}"), "x", 0)).unwrap();
        folder.finish(Outputs::All).unwrap();
        path
    }

    #[test]
    fn shards_are_merged_if_all_are_there_finished_and_alike() {
        let dir = FreshDir::new("merge");
        let out = dir.join("all");
        let merged = || merge(&[dir.path().to_owned()], &out, Outputs::All);
        for index in [0, 2] {
            shard(&dir, index, "a = 1\n");
        }
        assert!(matches!(merged(), Err(ArchiveError::MissingShard { index: 1, count: 3 })));
        let last = shard(&dir, 1, "a = 1\n");
        assert_eq!(merged().unwrap().n_rejected, 3);
        assert_eq!(fs::read_to_string(out.join(MADE_WITH)).unwrap(), "a = 1\n");
        drop(Folder::open(&last, "shard = \"1/3\"\na = 1\n").unwrap());
        assert!(matches!(merged(), Err(ArchiveError::Unfinished { .. })));
        fs::remove_dir_all(&last).unwrap();
        shard(&dir, 1, "a = 2\n");
        assert!(matches!(merged(), Err(ArchiveError::Different { .. })));
    }

    #[test]
    fn a_file_that_holds_no_results_is_named_with_the_line() {
        let dir = FreshDir::new("merge-bad");
        let file = dir.write("some.jsonl", rejected("a", "x", 0) + "{\"a\": 1}\n");
        let error = merge(&[file], &dir.join("out"), Outputs::All).unwrap_err();
        assert!(error.to_string().contains("some.jsonl: line 2: "), "{error}");
    }
}
