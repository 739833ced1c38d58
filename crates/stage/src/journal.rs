//! Journal of the files that are safe, on disk beside those files.
//!
//! A file of records, each with its length and checksum, that is only ever added to. What a kill left of the last record is cut off when
//! it is opened again. Whoever has it open holds a lock, so that there is one stager per buffer.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, flock, fstat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;

use iotide_private::is_virtual;

use crate::boot::Boot;
use crate::checksum::Checksum;
use crate::closed::How;
use crate::dirs::{MAX_PATH, is_plain};
use crate::numbers::{Attributes, Numbers};
use crate::owners::open_own;

/// A file that is safe: its version in the buffer, and what was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Safe {
    /// The version.
    pub numbers: Numbers,
    /// The contents; of a symbolic link, where it leads.
    pub checksum: Checksum,
    /// How it was known that nobody could write to it: that says how it may be removed.
    pub how: How,
    /// Whether it is a symbolic link.
    pub is_link: bool,
}

/// Which way files go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the buffer.
    Out,
    /// Into the buffer.
    In,
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Whose journal it is: the first record.
    Head {
        /// A name for this pair of directories.
        id: u64,
        /// Which way files go.
        direction: Direction,
        /// The other directory.
        other: Vec<u8>,
    },
    /// A boot of the machine in which files were staged.
    Boot {
        /// Which.
        id: u128,
        /// Versions that changed before this time, in nanoseconds since 1970, may be what an earlier boot left of them.
        since_ns: i64,
    },
    /// A file is safe.
    Safe {
        /// Which.
        path: Vec<u8>,
        /// Safe version of it.
        safe: Safe,
    },
    /// A directory exists on the other side; files may be begun in it.
    Directory {
        /// Which.
        path: Vec<u8>,
        /// Its attributes on this side.
        attributes: Attributes,
    },
    /// A file is about to be moved to the trash.
    Purging {
        /// Its name there.
        n: u64,
        /// Where it was.
        path: Vec<u8>,
        /// The version.
        numbers: Numbers,
    },
    /// It has been removed.
    Purged {
        /// Its name in the trash.
        n: u64,
    },
    /// It is where it was.
    Back {
        /// Its name in the trash.
        n: u64,
    },
    /// Sums over records that were left out.
    Totals {
        /// The first number that was never used in the trash.
        next_trash: u64,
        /// Bytes that were removed.
        purged_bytes: u64,
    },
}

/// State that the records add up to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Whose journal it is.
    pub head: Option<(u64, Direction, Vec<u8>)>,
    /// The last boot in which files were staged, and since when versions are of it.
    pub boot: Option<(u128, i64)>,
    /// Files that are safe.
    pub safe: HashMap<Vec<u8>, Safe>,
    /// Directories that exist on the other side.
    pub directories: HashMap<Vec<u8>, Attributes>,
    /// Files that may be in the trash, by their names there.
    pub purging: BTreeMap<u64, (Vec<u8>, Numbers)>,
    /// Files that are on the other side alone.
    pub purged: HashSet<Vec<u8>>,
    /// Bytes that were removed.
    pub purged_bytes: u64,
    /// The first number that was never used in the trash.
    pub next_trash: u64,
}

impl Known {
    fn learn(&mut self, entry: Entry) {
        match entry {
            Entry::Head { id, direction, other } => self.head = Some((id, direction, other)),
            Entry::Boot { id, since_ns } => self.boot = Some((id, since_ns)),
            Entry::Safe { path, safe } => {
                self.purged.remove(&path);
                self.safe.insert(path, safe);
            }
            Entry::Directory { path, attributes } => {
                self.directories.insert(path, attributes);
            }
            Entry::Purging { n, path, numbers } => {
                self.next_trash = self.next_trash.max(n.saturating_add(1));
                self.purging.insert(n, (path, numbers));
            }
            Entry::Purged { n } => {
                if let Some((path, numbers)) = self.purging.remove(&n) {
                    self.purged_bytes = self.purged_bytes.saturating_add(numbers.size);
                    self.purged.insert(path);
                }
            }
            Entry::Back { n } => {
                self.purging.remove(&n);
            }
            Entry::Totals { next_trash, purged_bytes } => {
                (self.next_trash, self.purged_bytes) = (next_trash, purged_bytes);
            }
        }
    }

    /// Notes a boot of which nothing is known yet.
    ///
    /// Times in the journal from earlier boots count more than a clock that was set back since.
    fn entry_of(&self, boot: &Boot) -> Option<Entry> {
        let latest_ns = || self.safe.values().map(|safe| safe.numbers.ctime_ns.saturating_add(1)).max();
        let since_ns = match self.boot {
            Some((id, _)) if id == boot.id => return None,
            Some(_) => latest_ns().unwrap_or(i64::MIN).max(boot.began_ns),
            None if self.safe.is_empty() => i64::MIN,
            // Written by a version that noted no boots.
            None => boot.began_ns,
        };
        Some(Entry::Boot { id: boot.id, since_ns })
    }

    /// Whether a version is from before this boot: what was not synced of it is lost, and its size may be wrong.
    pub(crate) fn is_from_before(&self, numbers: &Numbers) -> bool {
        self.boot.is_some_and(|(_, since_ns)| numbers.ctime_ns < since_ns)
    }

    /// The fewest records that say the same.
    fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        let head = self.head.iter().map(|(id, direction, other)| Entry::Head {
            id: *id,
            direction: *direction,
            other: other.clone(),
        });
        let boot = self.boot.iter().map(|(id, since_ns)| Entry::Boot { id: *id, since_ns: *since_ns });
        let directories = (self.directories.iter())
            .map(|(path, attributes)| Entry::Directory { path: path.clone(), attributes: *attributes });
        let safe = self.safe.iter().map(|(path, safe)| Entry::Safe { path: path.clone(), safe: *safe });
        // A number that nothing in the trash has.
        let n = self.next_trash;
        let purged = self.purged.iter().flat_map(move |path| {
            let numbers = self.safe.get(path).map(|safe| safe.numbers).unwrap_or_default();
            [Entry::Purging { n, path: path.clone(), numbers }, Entry::Purged { n }]
        });
        let purging = (self.purging.iter()).map(|(n, (path, numbers))| Entry::Purging {
            n: *n,
            path: path.clone(),
            numbers: *numbers,
        });
        let totals = Entry::Totals { next_trash: self.next_trash, purged_bytes: self.purged_bytes };
        head.chain(boot).chain(directories).chain(safe).chain(purged).chain(purging).chain([totals])
    }

    /// About how many bytes those records take.
    fn n_bytes(&self) -> u64 {
        let paths = self.safe.keys().chain(self.directories.keys()).chain(&self.purged);
        paths.map(|path| path.len() as u64 + 100).sum()
    }
}

const MAGIC: &[u8; 8] = b"IOTSTG1\n";
const FRAME: usize = 12;
const MAX_RECORD: usize = MAX_PATH + 1024;
/// A journal of more is not believed: it would have hundreds of millions of files.
const MAX_JOURNAL: u64 = 64 << 30;

/// A journal of less is not worth writing anew.
const LEAST_COMPACTED: u64 = 1 << 20;

/// Reads a journal's bytes: what it says, and how many of the bytes are whole records. `None` if it is no journal.
pub fn replay(bytes: &[u8]) -> Option<(Known, usize)> {
    let mut known = Known::default();
    let head = &bytes[..bytes.len().min(MAGIC.len())];
    if !MAGIC.starts_with(head) {
        return None;
    }
    if head.len() < MAGIC.len() {
        return Some((known, 0));
    }
    let mut at = MAGIC.len();
    while let Some((entry, n)) = decode(&bytes[at..]) {
        known.learn(entry);
        at += n;
    }
    Some((known, at))
}

fn decode(bytes: &[u8]) -> Option<(Entry, usize)> {
    let n = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    let sum = u64::from_le_bytes(bytes.get(4..FRAME)?.try_into().ok()?);
    if n > MAX_RECORD {
        return None;
    }
    let payload = bytes.get(FRAME..FRAME + n)?;
    (Checksum::of(payload).0 as u64 == sum).then_some(())?;
    Some((Entry::decode(payload)?, FRAME + n))
}

impl Entry {
    fn encode(&self, out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend_from_slice(&[0; FRAME]);
        match self {
            Entry::Head { id, direction, other } => {
                out.push(1);
                put(out, &[*id, u64::from(*direction == Direction::In)]);
                out.extend_from_slice(other);
            }
            Entry::Safe { path, safe } => {
                out.push(2);
                put_numbers(out, &safe.numbers);
                out.extend_from_slice(&safe.checksum.0.to_le_bytes());
                let how = match safe.how {
                    How::Scan => 0,
                    How::Lease => 1,
                    How::Flag => 2,
                };
                put(out, &[how, u64::from(safe.is_link)]);
                out.extend_from_slice(path);
            }
            Entry::Directory { path, attributes: a } => {
                out.push(3);
                let words = [u64::from(a.mode), u64::from(a.uid), u64::from(a.gid)];
                put(out, &words);
                put(out, &[a.mtime_ns as u64, a.atime_ns as u64]);
                out.extend_from_slice(path);
            }
            Entry::Purging { n, path, numbers } => {
                out.push(4);
                put(out, &[*n]);
                put_numbers(out, numbers);
                out.extend_from_slice(path);
            }
            Entry::Purged { n } => {
                out.push(5);
                put(out, &[*n]);
            }
            Entry::Back { n } => {
                out.push(6);
                put(out, &[*n]);
            }
            Entry::Totals { next_trash, purged_bytes } => {
                out.push(7);
                put(out, &[*next_trash, *purged_bytes]);
            }
            Entry::Boot { id, since_ns } => {
                out.push(8);
                put(out, &[(*id >> 64) as u64, *id as u64, *since_ns as u64]);
            }
        }
        let n = (out.len() - begin - FRAME) as u32;
        let sum = Checksum::of(&out[begin + FRAME..]).0 as u64;
        out[begin..begin + 4].copy_from_slice(&n.to_le_bytes());
        out[begin + 4..begin + FRAME].copy_from_slice(&sum.to_le_bytes());
    }

    fn decode(payload: &[u8]) -> Option<Self> {
        let (&tag, rest) = payload.split_first()?;
        let mut from = Words(rest);
        Some(match tag {
            1 => {
                let id = from.word()?;
                let direction = if from.flag()? { Direction::In } else { Direction::Out };
                Entry::Head { id, direction, other: from.0.to_owned() }
            }
            2 => {
                let numbers = from.numbers()?;
                let checksum = Checksum(u128::from(from.word()?) | u128::from(from.word()?) << 64);
                let how = match from.word()? {
                    0 => How::Scan,
                    1 => How::Lease,
                    2 => How::Flag,
                    _ => return None,
                };
                let is_link = from.flag()?;
                Entry::Safe { safe: Safe { numbers, checksum, how, is_link }, path: from.path()? }
            }
            3 => {
                let [mode, uid, gid] = [from.word()?, from.word()?, from.word()?];
                let attributes = Attributes {
                    mode: u32::try_from(mode).ok()?,
                    uid: u32::try_from(uid).ok()?,
                    gid: u32::try_from(gid).ok()?,
                    mtime_ns: from.word()? as i64,
                    atime_ns: from.word()? as i64,
                };
                // The top itself has no name.
                let path = if from.0.is_empty() { Vec::new() } else { from.path()? };
                Entry::Directory { path, attributes }
            }
            4 => Entry::Purging { n: from.word()?, numbers: from.numbers()?, path: from.path()? },
            5 => Entry::Purged { n: from.last_word()? },
            6 => Entry::Back { n: from.last_word()? },
            7 => Entry::Totals { next_trash: from.word()?, purged_bytes: from.last_word()? },
            8 => {
                let id = u128::from(from.word()?) << 64 | u128::from(from.word()?);
                Entry::Boot { id, since_ns: from.last_word()? as i64 }
            }
            _ => return None,
        })
    }
}

fn put(out: &mut Vec<u8>, words: &[u64]) {
    out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}

fn put_numbers(out: &mut Vec<u8>, numbers: &Numbers) {
    put(out, &[numbers.ino, numbers.size, numbers.mtime_ns as u64, numbers.ctime_ns as u64]);
}

struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn word(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*word))
    }

    fn last_word(&mut self) -> Option<u64> {
        self.word().filter(|_| self.0.is_empty())
    }

    fn flag(&mut self) -> Option<bool> {
        match self.word()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn numbers(&mut self) -> Option<Numbers> {
        Some(Numbers {
            ino: self.word()?,
            size: self.word()?,
            mtime_ns: self.word()? as i64,
            ctime_ns: self.word()? as i64,
        })
    }

    fn path(&mut self) -> Option<Vec<u8>> {
        is_plain(self.0).then(|| self.0.to_owned())
    }
}

/// An open journal.
#[derive(Debug)]
pub struct Journal {
    file: File,
    /// State by its records.
    pub known: Known,
    pending: Vec<u8>,
}

impl Journal {
    /// The name of the file.
    pub(crate) const NAME: &str = "journal";

    /// Opens the journal in `folder`, made if there is none. `None` if another process has it.
    pub(crate) fn open(folder: &OwnedFd) -> io::Result<Option<Self>> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::APPEND;
        let open = || open_own(folder, Self::NAME, flags, Mode::RUSR | Mode::WUSR);
        let mut file = open()?;
        let mut n_tries = 0;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) if is_named(folder, &file)? => break,
                // Whoever had it has put another in its place.
                Ok(()) => file = open()?,
                // Whoever only looks has a lock for a moment, and one that was killed until it is gone.
                Err(Errno::WOULDBLOCK) if n_tries < 100 => std::thread::sleep(Duration::from_millis(5)),
                Err(Errno::WOULDBLOCK) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
            n_tries += 1;
        }
        let bytes = Self::bytes(&mut file)?;
        let (known, n_whole) = replay(&bytes).ok_or_else(Self::is_none)?;
        if n_whole < bytes.len() {
            file.set_len(n_whole as u64)?;
            file.sync_data()?;
        }
        let mut journal = Self { file, known, pending: Vec::new() };
        if n_whole == 0 {
            journal.file.write_all(MAGIC)?;
            journal.file.sync_all()?;
            rustix::fs::fsync(folder)?;
        }
        Ok(Some(journal))
    }

    /// Reads what the journal in `folder` says, whoever has it; and whether somebody has.
    pub(crate) fn look(folder: &OwnedFd) -> io::Result<(Known, bool)> {
        loop {
            let mut file = open_own(folder, Self::NAME, OFlags::RDONLY, Mode::empty())?;
            let bytes = Self::bytes(&mut file)?;
            let (known, _) = replay(&bytes).ok_or_else(Self::is_none)?;
            let is_taken = flock(&file, FlockOperation::NonBlockingLockShared).is_err();
            // Unless another has been put in its place meanwhile.
            if is_named(folder, &file)? {
                return Ok((known, is_taken));
            }
        }
    }

    /// Whether somebody has the journal in `folder`.
    pub(crate) fn is_taken(folder: &OwnedFd) -> io::Result<bool> {
        let file = open_own(folder, Self::NAME, OFlags::RDONLY, Mode::empty())?;
        Ok(flock(&file, FlockOperation::NonBlockingLockShared).is_err())
    }

    fn bytes(file: &mut File) -> io::Result<Vec<u8>> {
        if len(file)? > MAX_JOURNAL {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the journal is too long to be one"));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn is_none() -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, "it does not begin as a journal does")
    }

    /// Adds a record, to be written with others.
    pub(crate) fn note(&mut self, entry: Entry) {
        entry.encode(&mut self.pending);
        self.known.learn(entry);
    }

    /// Writes what was noted.
    pub(crate) fn write(&mut self) -> io::Result<()> {
        if !self.pending.is_empty() {
            let at = len(&self.file)?;
            if let Err(error) = self.file.write_all(&self.pending) {
                // What was half written must not come before what is written later.
                self.file.set_len(at)?;
                return Err(error);
            }
            self.pending.clear();
        }
        Ok(())
    }

    /// Notes which boot of the machine this is, durably.
    pub(crate) fn note_boot(&mut self, boot: &Boot) -> io::Result<()> {
        match self.known.entry_of(boot) {
            Some(entry) => self.note(entry),
            None => return Ok(()),
        }
        self.sync()
    }

    /// Writes what was noted, and makes it durable.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        self.write()?;
        self.file.sync_data()
    }

    /// Writes a new journal in the place of one that is mostly of things long past, and leaves out files that `is_needed` does not want.
    ///
    /// A kill leaves either of them whole. The new one is locked before it has the name.
    pub(crate) fn compact(&mut self, folder: &OwnedFd, is_needed: impl Fn(&[u8]) -> bool) -> io::Result<()> {
        self.write()?;
        let n_bytes = len(&self.file)?;
        // No name can be put in the place of another in a virtual tree: there it only grows.
        if is_virtual(folder) || n_bytes <= LEAST_COMPACTED || n_bytes <= 2 * self.known.n_bytes() {
            return Ok(());
        }
        let known = &mut self.known;
        let on_the_way: HashSet<&Vec<u8>> = known.purging.values().map(|(path, _)| path).collect();
        known
            .safe
            .retain(|path, _| known.purged.contains(path) || on_the_way.contains(path) || is_needed(path));
        const NEW: &str = "journal.new";
        let _ = unlinkat(folder, NEW, AtFlags::empty());
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::APPEND | OFlags::NOFOLLOW;
        let mut file = File::from(openat(folder, NEW, flags | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR)?);
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let mut bytes = MAGIC.to_vec();
        for entry in self.known.entries() {
            entry.encode(&mut bytes);
            if bytes.len() > 1 << 20 {
                file.write_all(&bytes)?;
                bytes.clear();
            }
        }
        file.write_all(&bytes)?;
        file.sync_all()?;
        renameat(folder, NEW, folder, Self::NAME)?;
        self.file = file;
        Ok(rustix::fs::fsync(folder)?)
    }
}

/// Bytes of an open file. (What `std` asks by, virtual files do not answer.)
fn len(file: &File) -> io::Result<u64> {
    Ok(u64::try_from(fstat(file)?.st_size).unwrap_or(0))
}

/// Whether an open journal is the one that has the name.
fn is_named(folder: &OwnedFd, file: &File) -> io::Result<bool> {
    let named = match statat(folder, Journal::NAME, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(named) => named,
        Err(Errno::NOENT) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    let open = fstat(file)?;
    Ok((open.st_dev, open.st_ino) == (named.st_dev, named.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_testkit::FreshDir;
    use proptest::prelude::*;

    fn entries() -> impl Strategy<Value = Entry> {
        let path = || proptest::collection::vec(1u8..=255, 1..40).prop_filter("plain", |path| is_plain(path));
        let numbers = || {
            any::<(u64, u64, i64, i64)>().prop_map(|(ino, size, mtime_ns, ctime_ns)| Numbers {
                ino,
                size,
                mtime_ns,
                ctime_ns,
            })
        };
        let how = prop_oneof![Just(How::Scan), Just(How::Lease), Just(How::Flag)];
        let safe =
            (numbers(), any::<u128>(), how, any::<bool>()).prop_map(|(numbers, checksum, how, is_link)| {
                Safe { numbers, checksum: Checksum(checksum), how, is_link }
            });
        prop_oneof![
            (any::<u64>(), any::<bool>(), path()).prop_map(|(id, is_in, other)| Entry::Head {
                id,
                direction: if is_in { Direction::In } else { Direction::Out },
                other
            }),
            (path(), safe).prop_map(|(path, safe)| Entry::Safe { path, safe }),
            (path(), any::<(u32, i64)>()).prop_map(|(path, (mode, mtime_ns))| Entry::Directory {
                path,
                attributes: Attributes { mode, uid: 1, gid: 2, mtime_ns, atime_ns: -1 }
            }),
            (any::<u64>(), path(), numbers()).prop_map(|(n, path, numbers)| Entry::Purging {
                n,
                path,
                numbers
            }),
            any::<u64>().prop_map(|n| Entry::Purged { n }),
            any::<u64>().prop_map(|n| Entry::Back { n }),
            any::<(u64, u64)>()
                .prop_map(|(next_trash, purged_bytes)| Entry::Totals { next_trash, purged_bytes }),
            any::<(u128, i64)>().prop_map(|(id, since_ns)| Entry::Boot { id, since_ns }),
        ]
    }

    proptest! {
        #[test]
        fn a_journal_cut_anywhere_has_all_whole_records_before_the_cut(
            entries in proptest::collection::vec(entries(), 0..8),
            cut in 0.0..=1.0f64,
        ) {
            let mut bytes = MAGIC.to_vec();
            let mut ends = vec![(bytes.len(), Known::default())];
            let mut known = Known::default();
            for entry in entries {
                entry.encode(&mut bytes);
                known.learn(entry);
                ends.push((bytes.len(), known.clone()));
            }
            let cut = (bytes.len() as f64 * cut) as usize;
            let (read, n) = replay(&bytes[..cut]).unwrap();
            match ends.iter().rev().find(|(end, _)| *end <= cut) {
                Some((end, known)) => prop_assert_eq!((&read, n), (known, *end)),
                None => prop_assert_eq!(n, 0),
            }
        }

        #[test]
        fn the_fewest_records_say_the_same(entries in proptest::collection::vec(entries(), 0..30)) {
            let mut known = Known::default();
            entries.into_iter().for_each(|entry| known.learn(entry));
            prop_assume!(known.next_trash < u64::MAX && !known.purging.contains_key(&known.next_trash));
            let mut again = Known::default();
            known.entries().for_each(|entry| again.learn(entry));
            prop_assert_eq!(again, known);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut journal = MAGIC.to_vec();
            journal.extend_from_slice(&bytes);
            let (_, n) = replay(&journal).unwrap();
            prop_assert!(n <= journal.len());
        }
    }

    #[test]
    fn a_journal_of_many_versions_is_written_anew_and_says_the_same() {
        let dir = FreshDir::new("stage-compact");
        let folder: OwnedFd = File::open(dir.path()).unwrap().into();
        let mut journal = Journal::open(&folder).unwrap().unwrap();
        journal.note(Entry::Head { id: 7, direction: Direction::Out, other: b"/pfs".to_vec() });
        let safe = |size| Safe {
            numbers: Numbers { size, ..Numbers::default() },
            checksum: Checksum(size.into()),
            how: How::Flag,
            is_link: false,
        };
        for size in 0..20_000 {
            let path = format!("f{}", size % 10).into_bytes();
            journal.note(Entry::Safe { path, safe: safe(size) });
        }
        for (n, path) in [(5, b"f1"), (6, b"f2"), (7, b"f3")] {
            journal.note(Entry::Purging { n, path: path.to_vec(), numbers: safe(30).numbers });
        }
        journal.note(Entry::Purged { n: 5 });
        journal.note(Entry::Back { n: 6 });
        let n_before = {
            journal.sync().unwrap();
            std::fs::metadata(dir.join("journal")).unwrap().len()
        };
        let known = journal.known.clone();
        journal.compact(&folder, |path| path != b"f1" && path != b"f9").unwrap();
        // What went is remembered; what was neither removed by us nor is there is not.
        let mut wanted = known.clone();
        wanted.safe.remove(&b"f9"[..]);
        assert_eq!(journal.known, wanted);
        assert!(std::fs::metadata(dir.join("journal")).unwrap().len() < n_before / 100);
        // It is still ours alone, and goes on.
        assert!(Journal::open(&folder).unwrap().is_none());
        journal.note(Entry::Purged { n: 7 });
        journal.sync().unwrap();
        let known = journal.known.clone();
        assert_eq!(Journal::look(&folder).unwrap(), (known.clone(), true));
        drop(journal);
        assert_eq!(Journal::open(&folder).unwrap().unwrap().known, known);
        assert_eq!(dir.names(), ["journal"]);
    }

    #[test]
    fn only_what_changed_before_another_boot_began_is_from_before() {
        let at = |ctime_ns| Numbers { ctime_ns, ..Numbers::default() };
        let safe =
            |ctime_ns| Safe { numbers: at(ctime_ns), checksum: Checksum(0), how: How::Lease, is_link: false };
        let since = |known: &mut Known, id, began_ns| {
            known.entry_of(&Boot { id, began_ns }).into_iter().for_each(|entry| known.learn(entry));
            known.boot.unwrap().1
        };
        let mut known = Known::default();
        assert!(!known.is_from_before(&at(i64::MIN)));
        // A buffer that is new has nothing that could be replaced, whenever its files were written.
        assert_eq!(since(&mut known, 1, 1000), i64::MIN);
        known.learn(Entry::Safe { path: b"a".to_vec(), safe: safe(1500) });
        assert_eq!(since(&mut known, 1, 1200), i64::MIN);
        assert_eq!(since(&mut known, 2, 2000), 2000);
        assert!(known.is_from_before(&at(1999)) && !known.is_from_before(&at(2000)));
        // The time at which the boot was first seen stays, whatever the clock does.
        assert_eq!(since(&mut known, 2, 1700), 2000);
        // Set back, a clock says less than what was noted.
        assert_eq!(since(&mut known, 3, 1400), 1501);
        // Of a journal that knows no boots, the files that changed since this one began are new.
        let mut old = Known { safe: [(b"a".to_vec(), safe(1500))].into(), ..Known::default() };
        assert_eq!(since(&mut old, 1, 1200), 1200);
    }

    #[test]
    fn a_torn_tail_is_cut_and_a_second_owner_refused() {
        let dir = FreshDir::new("stage-journal");
        let folder: OwnedFd = File::open(dir.path()).unwrap().into();
        let mut journal = Journal::open(&folder).unwrap().unwrap();
        assert!(Journal::open(&folder).unwrap().is_none());
        journal.note(Entry::Purging { n: 4, path: b"a".to_vec(), numbers: Numbers::default() });
        journal.sync().unwrap();
        let known = journal.known.clone();
        drop(journal);
        let whole = std::fs::read(dir.join("journal")).unwrap();
        std::fs::write(dir.join("journal"), [&whole[..], &[9, 0, 0, 0, 1]].concat()).unwrap();
        let mut journal = Journal::open(&folder).unwrap().unwrap();
        assert_eq!((&journal.known, journal.known.next_trash), (&known, 5));
        assert_eq!(std::fs::read(dir.join("journal")).unwrap(), whole);
        journal.note(Entry::Back { n: 4 });
        journal.sync().unwrap();
        drop(journal);
        assert!(Journal::look(&folder).unwrap().0.purging.is_empty());
        std::fs::write(dir.join("journal"), "something else").unwrap();
        assert!(Journal::open(&folder).is_err());
    }
}
