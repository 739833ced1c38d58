//! Job of a log, and the names of its records.

use std::borrow::Cow;
use std::collections::{HashMap, hash_map::Entry};

use super::bytes::{Cursor, Endian, lossy, text};

/// The job record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Job {
    /// The user's number.
    pub uid: i64,
    /// The scheduler's number of the job, or the process id where there is no scheduler.
    pub job_id: i64,
    /// How many processes took part.
    pub n_procs: i64,
    /// When the job began, in seconds since the Unix epoch.
    pub start_s: i64,
    /// The fraction of a second to add to `start_s`; 0 before log version 3.41.
    pub start_ns: i64,
    /// When the job ended; 0 if the process did not live to say so.
    pub end_s: i64,
    /// The fraction of a second to add to `end_s`; 0 before log version 3.41.
    pub end_ns: i64,
    /// The command line, cut by Darshan if it was long.
    pub exe: String,
    /// Other entries, such as `lib_ver`, in the order they were noted.
    pub metadata: Vec<(String, String)>,
    /// The file systems that were mounted.
    pub mounts: Vec<Mount>,
    /// The times count whole seconds: both the first and the last belong to the job.
    pub(super) whole_seconds: bool,
}

pub use iotide_trace::Mount;

impl Job {
    /// How long the job ran, or `None` if nobody noted its end.
    ///
    /// Before log version 3.41 only whole seconds were stored, and a job that began and ended in the same one is said to
    /// have run for one second.
    pub fn run_time_s(&self) -> Option<f64> {
        if self.end_s == 0 {
            return None;
        }
        let whole = (self.end_s as i128 - self.start_s as i128 + i128::from(self.whole_seconds)) as f64;
        Some(whole + (self.end_ns as f64 - self.start_ns as f64) * 1e-9)
    }

    /// When the job began, in seconds since the Unix epoch.
    pub fn start_time_unix_s(&self) -> f64 {
        self.start_s as f64 + self.start_ns as f64 * 1e-9
    }

    /// Reads a job record of log format 3.`minor`; `None` if it is cut within its numbers.
    pub(super) fn parse(bytes: &[u8], endian: Endian, minor: u32) -> Option<Self> {
        /// Of the "k=v" lines, with their terminator.
        const METADATA_LEN: usize = 1024;
        let mut cursor = Cursor::new(bytes, endian);
        let mut job = Job { whole_seconds: minor < 41, ..Job::default() };
        job.uid = cursor.i64()?;
        job.start_s = cursor.i64()?;
        if minor >= 41 {
            job.start_ns = cursor.i64()?;
        }
        job.end_s = cursor.i64()?;
        if minor >= 41 {
            job.end_ns = cursor.i64()?;
        }
        job.n_procs = cursor.i64()?;
        job.job_id = cursor.i64()?;
        let metadata = cursor.take(METADATA_LEN).unwrap_or(cursor.rest());
        job.metadata = parse_metadata(&text(metadata));
        (job.exe, job.mounts) = parse_exe_and_mounts(&text(cursor.rest()));
        Some(job)
    }
}

/// Splits "k=v" lines; a line without a value is left out.
pub(super) fn parse_metadata(lines: &str) -> Vec<(String, String)> {
    let pairs = lines.lines().filter_map(|line| line.split_once('='));
    pairs.map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

/// Splits the command line from the mount table that follows it, a line "kind\tpath" for each.
///
/// Both share what room the job record has left, so either may be missing and the last line cut.
pub(super) fn parse_exe_and_mounts(text: &str) -> (String, Vec<Mount>) {
    let mut lines = text.split('\n');
    let exe = lines.next().unwrap_or_default().to_string();
    let mounts = lines.filter_map(|line| {
        let (kind, path) = line.split_once('\t')?;
        Some(Mount { kind: kind.to_string(), path: path.to_string() })
    });
    (exe, mounts.collect())
}

/// The names of records (paths, mostly) by record id, one behind the other in one text.
#[derive(Clone, Debug, Default)]
pub struct Names {
    text: String,
    /// Where each name begins and ends.
    by_id: HashMap<u64, (u32, u32)>,
    n_dropped: u64,
}

impl Names {
    /// How much text is kept.
    pub(super) const MOST_TEXT: usize = 512 << 20;
    /// How many names are kept.
    pub(super) const MOST: usize = 1 << 23;

    /// How many records have a name.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether no record has a name.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// The name of a record.
    pub fn get(&self, id: u64) -> Option<&str> {
        self.by_id.get(&id).map(|span| self.at(*span))
    }

    /// All ids and names, by id.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &str)> {
        let mut all: Vec<_> = self.by_id.iter().map(|(id, span)| (*id, self.at(*span))).collect();
        all.sort_unstable();
        all.into_iter()
    }

    fn at(&self, (start, end): (u32, u32)) -> &str {
        self.text.get(start as usize..end as usize).unwrap_or_default()
    }

    /// Keeps a name; the first one that is not empty wins.
    pub(super) fn insert(&mut self, id: u64, name: &str) {
        let (has_room, n_names) = (self.text.len() + name.len() <= Self::MOST_TEXT, self.by_id.len());
        let known = match self.by_id.entry(id) {
            Entry::Occupied(known) if known.get().0 < known.get().1 => return,
            Entry::Occupied(known) if has_room => known.into_mut(),
            Entry::Vacant(place) if has_room && n_names < Self::MOST => place.insert((0, 0)),
            _ => {
                self.n_dropped += 1;
                return;
            }
        };
        let start = self.text.len() as u32;
        self.text.push_str(name);
        *known = (start, self.text.len() as u32);
    }

    /// How many names there was no room for.
    pub(super) fn n_dropped(&self) -> u64 {
        self.n_dropped
    }

    /// Takes one name of log format 3.`minor`, or nothing if it is not whole.
    pub(super) fn take(&mut self, cursor: &mut Cursor, minor: u32) -> Option<()> {
        let mut ahead = *cursor;
        let (id, name) = if minor == 0 { counted_name(&mut ahead) } else { terminated_name(&mut ahead) }?;
        self.insert(id, &name);
        *cursor = ahead;
        Some(())
    }

    /// Reads name records; returns how many bytes at the end were no whole record.
    pub(super) fn parse(&mut self, bytes: &[u8], endian: Endian, minor: u32) -> u64 {
        let mut cursor = Cursor::new(bytes, endian);
        while self.take(&mut cursor, minor).is_some() {}
        cursor.rest().len() as u64
    }
}

/// Log format 3.00: id, length, path.
fn counted_name<'a>(cursor: &mut Cursor<'a>) -> Option<(u64, Cow<'a, str>)> {
    let id = cursor.u64()?;
    let len = cursor.u32()?;
    Some((id, lossy(cursor.take(usize::try_from(len).ok()?)?)))
}

/// Later formats: id, path, NUL.
fn terminated_name<'a>(cursor: &mut Cursor<'a>) -> Option<(u64, Cow<'a, str>)> {
    let id = cursor.u64()?;
    let len = memchr::memchr(0, cursor.rest())?;
    Some((id, lossy(cursor.take(len + 1)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_name_that_is_not_empty_wins() {
        let mut bytes = Vec::new();
        for (id, name) in [(7u64, &b"\0"[..]), (7, b"/a\0"), (7, b"/b\0"), (8, b"/c\0")] {
            bytes.extend(id.to_le_bytes());
            bytes.extend(name);
        }
        bytes.extend([1, 2, 3]);
        let mut names = Names::default();
        assert_eq!(names.parse(&bytes, Endian::Little, 10), 3);
        assert_eq!(names.iter().collect::<Vec<_>>(), [(7, "/a"), (8, "/c")]);
    }

    #[test]
    fn an_exe_without_mounts_is_kept() {
        assert_eq!(parse_exe_and_mounts("./a.out -x"), ("./a.out -x".to_string(), vec![]));
        let (exe, mounts) = parse_exe_and_mounts("./a.out\next4\t/\nlustre\t/scra");
        assert_eq!((exe.as_str(), mounts.len()), ("./a.out", 2));
        assert_eq!(mounts[0], Mount { kind: "ext4".into(), path: "/".into() });
    }

    #[test]
    fn a_job_that_did_not_end_has_no_run_time() {
        let job = Job { start_s: 1_700_000_000, ..Job::default() };
        assert_eq!(job.run_time_s(), None);
        let second = Job { start_s: 5, end_s: 5, whole_seconds: true, ..Job::default() };
        assert_eq!(second.run_time_s(), Some(1.0));
    }
}
