//! Metrics over time: a file for each job, of checksummed blocks that are only ever added.
//!
//! A block holds 64 ticks of all columns; once its file is folded, or its job has ended, 1,024. Blocks that say what columns are called stand at the front and now and then
//! again. A file that is over its budget is folded into a new one, which takes its place when it is whole. Whatever happens to a file, each block that is
//! whole is read, and no other: how much is missing is said.

use std::collections::{HashMap, HashSet};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use iotide_ledger::series::{Amendment, Columns, MAX_TICKS, Rows};
use iotide_ledger::{JobKey, hex};
use iotide_private::OpenDir;
use iotide_wire::{BlockHeader, BlockKind, Step, next_block, skip_torn};

/// Ticks of a block while its job runs.
pub(crate) const TICKS_A_BLOCK: usize = 64;
/// Names are written again after so many blocks: damage to one that holds names costs no more.
const NAMES_EVERY: u32 = 64;
/// No file is believed to be longer, whatever its budget was.
const MOST_BYTES: u64 = 64 << 20;
/// The directory of the files, in the store's.
pub(crate) const DIRECTORY: &str = "series";
pub(super) const ENDING: &str = ".series";

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeriesLimits {
    /// Of one job: then it is folded.
    pub file_bytes: u64,
    /// Of all jobs: then the oldest go.
    pub all_bytes: u64,
    /// Files of all jobs.
    pub files: usize,
    /// How long they are kept.
    pub age_s: u64,
}

/// Limits that no store can keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitsError {
    /// A file that is too small for two blocks, or larger than any file is read.
    #[error("metrics over time of a job have between {least} and {most} bytes, not {said}", least = LEAST_BUDGET, most = MOST_BUDGET)]
    Job {
        /// What was said.
        said: u64,
    },
    /// All together are less than one.
    #[error("metrics over time of all jobs have at least as much as those of one, {job} bytes, not {all}")]
    All {
        /// Of one.
        job: u64,
        /// Of all.
        all: u64,
    },
    /// Nothing would be kept.
    #[error("metrics over time are kept for at least an hour, not for {0} s")]
    Age(u64),
}

/// A block of many columns has some ten KiB; less would be folded all the time.
const LEAST_BUDGET: u64 = 64 << 10;
/// A file is folded when it is larger, and has one block more then.
const MOST_BUDGET: u64 = MOST_BYTES / 2;

impl SeriesLimits {
    /// Says what is wrong with them.
    pub fn check(&self) -> Result<(), LimitsError> {
        if !(LEAST_BUDGET..=MOST_BUDGET).contains(&self.file_bytes) {
            return Err(LimitsError::Job { said: self.file_bytes });
        }
        if self.all_bytes < self.file_bytes {
            return Err(LimitsError::All { job: self.file_bytes, all: self.all_bytes });
        }
        if self.age_s < 3600 {
            return Err(LimitsError::Age(self.age_s));
        }
        Ok(())
    }
}

impl Default for SeriesLimits {
    fn default() -> Self {
        Self { file_bytes: 8 << 20, all_bytes: 1 << 30, files: 100_000, age_s: 90 * 86_400 }
    }
}

/// The name of a job's file, and what its blocks say whose they are.
pub(crate) fn names_of(key: &JobKey) -> (String, String) {
    let owner = format!("{}\0{}\0{}\0{}", key.cluster, key.uid, key.id, key.start_ns);
    let digest = iotide_wire::sha256(owner.as_bytes());
    (format!("{}.{}.{}.{}{ENDING}", key.id, key.uid, key.start_ns, hex(&digest[..4])), owner)
}

/// The same of the machine, for a day: days since 1970.
pub(crate) fn names_of_node(node: &str, day: u64) -> (String, String) {
    (format!("node.{day}{ENDING}"), format!("node\0{node}\0{day}"))
}

/// The same of this machine and all below together.
pub(crate) fn names_of_tree(day: u64) -> (String, String) {
    (format!("tree.{day}{ENDING}"), format!("tree\0{day}"))
}

/// Whether a name is that of a file, and not one of a machine's, whatever jobs are called.
pub(crate) fn is_of_job(name: &str) -> bool {
    let Some(name) = name.strip_suffix(ENDING) else { return false };
    let day = name.strip_prefix("node.").or(name.strip_prefix("tree."));
    day.is_none_or(|day| day.bytes().any(|byte| !byte.is_ascii_digit()))
}

/// Opens the directory of the files; makes it if there is none.
pub fn open_directory(store: &Path) -> io::Result<OpenDir> {
    let folder = OpenDir::make_private(&store.join(DIRECTORY))?;
    folder.close_to_others(|_| true)?;
    Ok(folder)
}

/// What is in a file.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// What the columns are called.
    pub columns: Columns,
    /// Where the last whole block ends.
    good_end: u64,
    /// How long the file is.
    pub(crate) length: u64,
    /// Bytes before `good_end` that are no blocks.
    n_damaged: u64,
    n_blocks: u64,
    /// Blocks that should be there, by their numbers.
    n_missing: u64,
    next_sequence: u64,
    folds: u8,
    last_tick: Option<u64>,
    /// Whether a block says that it is another's.
    is_foreign: bool,
    /// Whether there is a file: what it holds may be gone.
    exists: bool,
}

impl Contents {
    /// What is missing, in words.
    pub fn loss(&self) -> Option<String> {
        let n_torn = self.length.saturating_sub(self.good_end);
        if self.exists && self.length == 0 {
            return Some(format!("{LOSS}the file was emptied: nothing of it is left"));
        }
        if n_torn + self.n_damaged == 0 && self.n_missing == 0 {
            return None;
        }
        let mut parts = Vec::new();
        if n_torn > 0 {
            parts.push(format!("{n_torn} bytes at the end"));
        }
        if self.n_damaged > 0 || self.n_missing > 0 {
            parts.push(format!("{} bytes ({} blocks) before it", self.n_damaged, self.n_missing));
        }
        Some(format!("{LOSS}the file was damaged: {} could not be read", parts.join(" and ")))
    }
}

/// How a loss of metrics over time begins: the job's own counts are not touched by it.
pub const LOSS: &str = "series: ";

/// Reads a file, at most its first `most` bytes: what its whole blocks hold of the columns that are wanted, in order.
pub(crate) fn read(
    folder: &OpenDir,
    (name, owner): (&str, &str),
    most: u64,
    wants: impl Fn(&Columns, u32) -> bool,
    mut visit: impl FnMut(&Columns, Rows),
) -> io::Result<Contents> {
    let file = match folder.read(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Contents { columns: Columns::new(owner), ..Contents::default() });
        }
        file => file?,
    };
    let length = file.metadata()?.len().min(most);
    let mut contents = Contents { columns: Columns::new(owner), length, exists: true, ..Contents::default() };
    let mut blocks = Blocks::new(file.take(length.min(MOST_BYTES)));
    let mut n_left_out = 0;
    while let Some((step, n_bytes)) = blocks.next()? {
        let Some((header, payload)) = step else {
            n_left_out += n_bytes;
            continue;
        };
        if contents.take_block(&header, payload, owner, &wants, &mut visit) {
            contents.n_damaged += n_left_out;
            n_left_out = 0;
            contents.good_end = blocks.at;
        } else {
            n_left_out += n_bytes;
        }
    }
    Ok(contents)
}

impl Contents {
    /// Takes in what a block holds; says whether that is what it should be.
    fn take_block(
        &mut self,
        header: &BlockHeader,
        payload: &[u8],
        owner: &str,
        wants: &impl Fn(&Columns, u32) -> bool,
        visit: &mut impl FnMut(&Columns, Rows),
    ) -> bool {
        match header.kind {
            BlockKind::Columns => match Columns::decode(payload) {
                Ok(columns) if columns.owner() == owner && !self.is_foreign => self.columns.learn(&columns),
                Ok(_) => {
                    // A file that was given another's name.
                    self.is_foreign = true;
                    return false;
                }
                Err(_) => return false,
            },
            BlockKind::Series if !self.is_foreign => {
                let Ok(all) = Rows::decode_columns(payload, |_| false) else { return false };
                let is_later = all.folds() == self.folds || self.n_blocks == 0 || self.last_tick.is_none();
                let is_in_order = match (self.last_tick, all.ticks().first()) {
                    (Some(last), Some(first)) => last <= *first,
                    _ => true,
                };
                if !is_later || !is_in_order {
                    return false;
                }
                let Ok(rows) = Rows::decode_columns(payload, |id| wants(&self.columns, id)) else {
                    return false;
                };
                (self.folds, self.last_tick) = (all.folds(), all.ticks().last().copied());
                visit(&self.columns, rows);
            }
            _ => return false,
        }
        self.n_missing += header.sequence.saturating_sub(self.next_sequence);
        self.next_sequence = header.sequence.saturating_add(1);
        self.n_blocks += 1;
        true
    }
}

/// The blocks of a file, of which never more than one is held.
struct Blocks<R> {
    input: R,
    buffer: Vec<u8>,
    /// Of the buffer, what was used already.
    used: usize,
    /// How much of the file was used.
    at: u64,
    is_end: bool,
}

type Block<'a> = Option<(BlockHeader, &'a [u8])>;

impl<R: Read> Blocks<R> {
    fn new(input: R) -> Self {
        Self { input, buffer: Vec::new(), used: 0, at: 0, is_end: false }
    }

    /// The next block or, as `None`, some bytes that are none; with its length.
    fn next(&mut self) -> io::Result<Option<(Block<'_>, u64)>> {
        loop {
            let rest = &self.buffer[self.used..];
            if rest.is_empty() && self.is_end {
                return Ok(None);
            }
            let (is_block, n) = match next_block(rest) {
                Step::Block { used, .. } => (true, used),
                Step::Need(n) if !self.is_end => {
                    self.fill(n)?;
                    continue;
                }
                Step::Need(_) => (false, skip_torn(rest)),
                Step::Damaged { skip, .. } => (false, skip),
            };
            let from = self.used;
            self.used += n;
            self.at += n as u64;
            let block = match next_block(&self.buffer[from..self.used]) {
                Step::Block { header, payload, .. } if is_block => Some((header, payload)),
                _ => None,
            };
            return Ok(Some((block, n as u64)));
        }
    }

    /// Reads until there are `n` bytes to look at.
    fn fill(&mut self, n: usize) -> io::Result<()> {
        self.buffer.drain(..self.used);
        self.used = 0;
        let n_more = n.max(64 << 10).saturating_sub(self.buffer.len()) as u64;
        let n_read = self.input.by_ref().take(n_more).read_to_end(&mut self.buffer)?;
        self.is_end = (n_read as u64) < n_more;
        Ok(())
    }
}

/// A file that is added to.
#[derive(Debug)]
pub(crate) struct SeriesFile {
    name: String,
    columns: Arc<Columns>,
    length: u64,
    sequence: u64,
    folds: u8,
    /// Columns whose names are in the file.
    n_named: usize,
    n_since_named: u32,
    /// Blocks that were added one by one.
    n_small: u64,
}

impl SeriesFile {
    /// Opens a file, or begins one. A tail that is not whole is cut off; returns what is missing.
    pub fn open(
        folder: &OpenDir,
        (name, owner): (&str, &str),
        now_ns: u64,
    ) -> io::Result<(Self, Option<String>)> {
        let mut highest = None;
        let mut contents = read(
            folder,
            (name, owner),
            u64::MAX,
            |_, _| true,
            |_, rows| {
                highest = rows.columns().map(|(id, _)| id).max().max(highest);
            },
        )?;
        if let Some(id) = highest {
            contents.columns.reserve(id);
        }
        if contents.is_foreign {
            return Err(io::Error::other(format!("{name} holds what is another's")));
        }
        let loss = contents.loss();
        if contents.length > contents.good_end {
            folder.append(name)?.set_len(contents.good_end)?;
        }
        let mut file = Self {
            name: name.to_owned(),
            // Said again at once: what was there may have been lost.
            n_named: 0,
            columns: Arc::new(contents.columns),
            length: contents.good_end,
            sequence: contents.next_sequence,
            folds: contents.folds,
            n_since_named: 0,
            n_small: contents.n_blocks,
        };
        if contents.n_damaged > 0 || contents.n_missing > 0 {
            // So that the same is not missing again the next time. Without room for it, it is.
            let _ = file.rewrite(folder, now_ns, false);
        }
        Ok((file, loss))
    }

    /// How often its rows were folded.
    pub fn folds(&self) -> u8 {
        self.folds
    }

    /// How long it is.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// What its columns are called.
    pub fn columns(&mut self) -> &mut Arc<Columns> {
        &mut self.columns
    }

    /// Adds rows. If that fails, the file is as before.
    pub fn append(&mut self, folder: &OpenDir, now_ns: u64, rows: &Rows) -> io::Result<()> {
        let mut bytes = Vec::new();
        let mut sequence = self.sequence;
        let names = self.columns.len() > self.n_named || self.n_since_named >= NAMES_EVERY;
        if names {
            put_block(&mut bytes, BlockKind::Columns, &mut sequence, now_ns, &self.columns.encode());
        }
        put_block(&mut bytes, BlockKind::Series, &mut sequence, now_ns, &rows.encode());
        let mut file = folder.append(&self.name)?;
        if file.metadata()?.len() != self.length {
            return Err(io::Error::other("someone else has changed the file"));
        }
        if let Err(error) = has_room(&file, bytes.len() as u64).and_then(|()| file.write_all(&bytes)) {
            let _ = file.set_len(self.length);
            return Err(error);
        }
        self.length += bytes.len() as u64;
        self.sequence = sequence;
        self.n_small += 1;
        self.n_since_named = if names { 0 } else { self.n_since_named + 1 };
        self.n_named = self.columns.len();
        Ok(())
    }

    /// Whether it would be much shorter in larger blocks.
    pub(crate) fn is_in_small_blocks(&self) -> bool {
        self.n_small > 2
    }

    /// Writes all rows anew in large blocks, folded once more if asked for; the new file takes the place of the old one when it is on disk.
    pub fn rewrite(&mut self, folder: &OpenDir, now_ns: u64, is_folded: bool) -> io::Result<()> {
        self.rewrite_as(folder, now_ns, is_folded, &Amendment::default())
    }

    /// Writes all rows anew with what was learnt later of some.
    pub fn amend(&mut self, folder: &OpenDir, now_ns: u64, amendment: &Amendment) -> io::Result<()> {
        self.rewrite_as(folder, now_ns, false, amendment)
    }

    fn rewrite_as(
        &mut self,
        folder: &OpenDir,
        now_ns: u64,
        is_folded: bool,
        amendment: &Amendment,
    ) -> io::Result<()> {
        let owner = self.columns.owner().to_owned();
        has_room(folder.fd(), if is_folded { self.length / 2 } else { self.length })?;
        let mut part = folder.replace(&self.name)?;
        let (mut sequence, mut length) = (0, 0);
        let mut failed = None;
        let folds = self.folds + u8::from(is_folded);
        let mut large = Rows::new(folds);
        let mut put = |kind: BlockKind, payload: &[u8]| {
            let mut bytes = Vec::new();
            put_block(&mut bytes, kind, &mut sequence, now_ns, payload);
            length += bytes.len() as u64;
            part.write_all(&bytes)
        };
        put(BlockKind::Columns, &self.columns.encode())?;
        let mut add = |rows: &Rows, index: usize| {
            // The last tick may have another half to come.
            let is_new = large.ticks().last() < rows.ticks().get(index) && !large.is_empty();
            let n_columns = large.columns().count().max(rows.columns().count());
            if is_new && (large.ticks().len() >= MAX_TICKS || !large.has_room(n_columns)) {
                failed = failed.take().or(put(BlockKind::Series, &large.encode()).err());
                large = Rows::new(folds);
            }
            large.append_tick(rows, index);
        };
        // What is amended is held back, with the tick before it.
        let amended_from = amendment.from_s().map_or(u64::MAX, |from_s| from_s >> folds);
        let mut held = Rows::new(folds);
        read(
            folder,
            (&self.name, &owner),
            self.length,
            |_, _| true,
            |_, rows| {
                let rows = if is_folded { rows.fold() } else { rows };
                for (index, tick) in rows.ticks().iter().enumerate() {
                    if *tick < amended_from && !held.is_empty() {
                        (0..held.ticks().len()).for_each(|index| add(&held, index));
                        held = Rows::new(folds);
                    }
                    held.append_tick(&rows, index);
                }
            },
        )?;
        let held = held.amended(amendment);
        (0..held.ticks().len()).for_each(|index| add(&held, index));
        if !large.is_empty() {
            put(BlockKind::Series, &large.encode())?;
        }
        if let Some(failed) = failed {
            return Err(failed);
        }
        part.finish_durably()?;
        (self.sequence, self.length, self.n_small, self.folds) = (sequence, length, 0, folds);
        (self.n_named, self.n_since_named) = (self.columns.len(), 0);
        Ok(())
    }
}

fn put_block(out: &mut Vec<u8>, kind: BlockKind, sequence: &mut u64, now_ns: u64, payload: &[u8]) {
    let payload_len = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    let header =
        BlockHeader { kind, payload_len, thread: 0, sequence: *sequence, ticks: now_ns, nanos: now_ns };
    out.extend_from_slice(&header.seal(payload));
    out.extend_from_slice(payload);
    *sequence += 1;
}

/// Room that is left to the rows of jobs, which are worth more: a quarter of a small file system, 64 MiB of a large one.
const MOST_LEFT_BYTES: u64 = 64 << 20;

/// Whether a file system has room for so many bytes, and for the rows of jobs after that.
fn has_room(file: impl AsFd, n_bytes: u64) -> io::Result<()> {
    let stat = rustix::fs::fstatvfs(file)?;
    let all = stat.f_blocks.saturating_mul(stat.f_frsize);
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    if free < n_bytes.saturating_add(MOST_LEFT_BYTES.min(all / 4)) {
        return Err(io::Error::new(io::ErrorKind::StorageFull, "the file system is nearly full"));
    }
    Ok(())
}

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Swept {
    /// Files that are left, and their bytes.
    pub n_files: u64,
    pub n_bytes: u64,
    /// Files that were removed.
    pub(crate) n_removed: u64,
}

/// Files of which one listing knows the names; the rest is listed another time.
const MOST_OLD: usize = 4096;
/// Listings in one sweep.
const MOST_LISTINGS: usize = 64;

/// The user whose job a file is of; `None` for the machine's.
fn owner_of(name: &str) -> Option<u32> {
    let name = name.strip_suffix(ENDING).filter(|_| is_of_job(name))?;
    name.rsplit('.').nth(2)?.parse().ok()
}

/// Bytes and files.
type Amount = (u64, u64);

/// Files that are there.
#[derive(Default)]
struct Listing {
    by_owner: HashMap<Option<u32>, Amount>,
    /// The oldest of some owners that are not added to, the newest of these on top: when it was changed, its name, its size.
    oldest: std::collections::BinaryHeap<(u64, String, u64)>,
}

impl Listing {
    fn read(
        folder: &OpenDir,
        now_s: u64,
        is_listed: impl Fn(Option<u32>) -> bool,
        is_open: impl Fn(&str) -> bool,
    ) -> io::Result<Self> {
        let mut listing = Self::default();
        for entry in rustix::fs::Dir::read_from(folder.fd())?.flatten() {
            let Ok(name) = entry.file_name().to_str() else { continue };
            let is_part = name.ends_with(".part");
            if !is_part && !name.ends_with(ENDING) {
                continue;
            }
            let Ok(stat) = rustix::fs::statat(folder.fd(), name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
            else {
                continue;
            };
            let (changed_s, size) =
                (u64::try_from(stat.st_mtime).unwrap_or(0), u64::try_from(stat.st_size).unwrap_or(0));
            // What a daemon left that was killed while it folded.
            if is_part && now_s.saturating_sub(changed_s) > 3600 {
                let _ = folder.remove(name);
            }
            if is_part {
                continue;
            }
            let owner = owner_of(name);
            let (n_bytes, n_files) = listing.by_owner.entry(owner).or_default();
            (*n_bytes, *n_files) = (*n_bytes + size, *n_files + 1);
            if is_listed(owner) && !is_open(name) {
                listing.oldest.push((changed_s, name.to_owned(), size));
                if listing.oldest.len() > MOST_OLD {
                    listing.oldest.pop();
                }
            }
        }
        Ok(listing)
    }

    fn total(&self) -> Amount {
        self.by_owner.values().fold((0, 0), |sum, own| (sum.0 + own.0, sum.1 + own.1))
    }
}

/// Removes files that are too old, and while there is too much, the oldest of the user who has most. Files that are added to stay.
pub(crate) fn sweep(
    folder: &OpenDir,
    now_s: u64,
    limits: &SeriesLimits,
    is_open: impl Fn(&str) -> bool,
) -> io::Result<Swept> {
    let mut swept = Swept::default();
    let mut listing = Listing::read(folder, now_s, |_| true, &is_open)?;
    for (changed_s, name, size) in std::mem::take(&mut listing.oldest).into_sorted_vec() {
        if now_s.saturating_sub(changed_s) > limits.age_s && folder.remove(&name).is_ok() {
            swept.n_removed += 1;
            let (n_bytes, n_files) = listing.by_owner.entry(owner_of(&name)).or_default();
            (*n_bytes, *n_files) = (n_bytes.saturating_sub(size), n_files.saturating_sub(1));
        }
    }
    // Owners of whom no more can go.
    let mut spared: HashSet<Option<u32>> = HashSet::new();
    for _ in 0..MOST_LISTINGS {
        let (n_bytes, n_files) = listing.total();
        let has_many = n_files > limits.files as u64;
        if n_bytes <= limits.all_bytes && !has_many {
            break;
        }
        let amount = |(n_bytes, n_files): Amount| if has_many { n_files } else { n_bytes };
        let mut owners: Vec<(u64, Option<u32>)> = (listing.by_owner.iter())
            .filter(|(owner, _)| !spared.contains(*owner))
            .map(|(owner, own)| (amount(*own), *owner))
            .collect();
        owners.sort_unstable_by(|a, b| b.cmp(a));
        let Some(&(mut own, most)) = owners.first() else { break };
        let mut excess = if has_many { n_files - limits.files as u64 } else { n_bytes - limits.all_bytes };
        // Down to what the next one has, and of the rest half: then it is the next one's turn.
        let least = owners.get(1).map_or(0, |(next, _)| next.saturating_sub(excess / 2));
        listing = Listing::read(folder, now_s, |owner| owner == most, &is_open)?;
        let mut n_removed = 0;
        for (_, name, size) in std::mem::take(&mut listing.oldest).into_sorted_vec() {
            if excess == 0 || own < least {
                break;
            }
            if folder.remove(&name).is_ok() {
                n_removed += 1;
                let step = amount((size, 1));
                (excess, own) = (excess.saturating_sub(step), own.saturating_sub(step));
                let (n_bytes, n_files) = listing.by_owner.entry(most).or_default();
                (*n_bytes, *n_files) = (n_bytes.saturating_sub(size), n_files.saturating_sub(1));
            }
        }
        swept.n_removed += n_removed;
        if n_removed == 0 {
            spared.insert(most);
        }
    }
    (swept.n_bytes, swept.n_files) = listing.total();
    Ok(swept)
}

#[cfg(test)]
mod tests;
