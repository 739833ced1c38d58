//! What a source counted of how bytes were accessed, where single calls with their offsets are not told.

use crate::{FileId, Layer, Rank};

/// Counters of one layer, summed over its records. What the source does not count is absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AccessFacts {
    /// The layer that counted.
    pub layer: Layer,
    /// Reads.
    pub reads: WayFacts,
    /// Writes.
    pub writes: WayFacts,
    /// Calls whose offset in the file is not a multiple of the file's alignment.
    pub misaligned_in_file: Option<u64>,
    /// The alignment that counter refers to, of the file with most such calls; of several parts of a run, the largest.
    pub file_alignment_bytes: Option<u64>,
    /// Bytes that were read although as many as the file's extent had been read already: at least so many twice.
    pub reread_bytes: Option<f64>,
    /// Bytes that were written although as many as the file's extent had been written already: at least so many twice.
    pub rewritten_bytes: Option<f64>,
    /// Where one rank took much longer than another with a file they share, for about as many bytes.
    pub straggler: Option<Straggler>,
    /// What depends on calls of certain kinds, each kind once.
    pub stakes: Vec<Stake>,
    /// How long storage targets took for the files on them, where the source says which file is on which.
    pub targets: Vec<TargetTime>,
    /// What each function of the layer did, by its own name, where the source has names; ascending by name.
    pub functions: Vec<FunctionSums>,
    /// What single ranks moved of files of which only the bytes of all ranks together come as events; ascending by rank. Others
    /// may have moved more.
    pub rank_parts: Vec<RankPart>,
    /// What was moved of each file, where the bytes come as events that name none; ascending by file.
    pub file_bytes: Vec<FileBytes>,
    /// Sizes and order of calls, as Darshan counts them.
    pub shape: crate::CallShape,
}

/// What was moved of one file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FileBytes {
    /// The file.
    pub file: FileId,
    /// Bytes read.
    pub read: f64,
    /// Bytes written.
    pub written: f64,
}

/// What one rank moved of files that ranks share, as far as the source tells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankPart {
    /// The rank.
    pub rank: Rank,
    /// Its bytes, read and written.
    pub bytes: f64,
}

/// What one function did: `pwrite64`, `MPI_File_write_at_all`.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionSums {
    /// Its name.
    pub name: String,
    /// How often it was called.
    pub calls: u64,
    /// What it moved.
    pub bytes: f64,
    /// Time in it, summed over the ranks; 0 if the source does not tell.
    pub seconds: f64,
}

/// Kinds of calls that storage serves badly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StakeKind {
    /// Reads of less than a megabyte.
    SmallReads,
    /// Writes of less than a megabyte.
    SmallWrites,
    /// Reads that go back in their file.
    RandomReads,
    /// Writes that go back in their file.
    RandomWrites,
    /// Calls at offsets that are not aligned.
    Misaligned,
    /// Reads of what had been read before.
    Rereads,
    /// Writes of what had been written before.
    Rewrites,
    /// Calls of less than a megabyte on a file that several ranks use.
    SmallShared,
    /// MPI-IO calls that a rank makes on its own.
    Independent,
    /// MPI-IO calls that wait until their bytes are moved.
    Blocking,
}

impl StakeKind {
    /// All kinds, in the order of their declaration.
    pub const ALL: [StakeKind; 10] = [
        StakeKind::SmallReads,
        StakeKind::SmallWrites,
        StakeKind::RandomReads,
        StakeKind::RandomWrites,
        StakeKind::Misaligned,
        StakeKind::Rereads,
        StakeKind::Rewrites,
        StakeKind::SmallShared,
        StakeKind::Independent,
        StakeKind::Blocking,
    ];

    /// Those about the size of calls and where in their file they go.
    pub const OF_PLACES: &'static [StakeKind] = Self::ALL.split_at(Self::Independent as usize).0;
    /// Those about how ranks call MPI-IO.
    pub const OF_MPI: &'static [StakeKind] = Self::ALL.split_at(Self::Independent as usize).1;
}

/// What calls of one kind moved and took. Where a source sums over a record, its bytes and its time are shared out among
/// its calls evenly.
#[derive(Clone, Debug, PartialEq)]
pub struct Stake {
    /// The kind.
    pub kind: StakeKind,
    /// How many calls.
    pub calls: u64,
    /// What they moved.
    pub bytes: f64,
    /// Their time, summed over the ranks; 0 if the source does not tell.
    pub seconds: f64,
    /// The files with most of it, at most [`Stake::MOST_WORST`], the worst first.
    pub worst: Vec<FileStake>,
}

/// The part of a [`Stake`] that one file has, or one rank's part of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FileStake {
    /// The file.
    pub file: FileId,
    /// Who made the calls; [`Rank::ALL`] if all ranks did.
    pub rank: Rank,
    /// How many.
    pub calls: u64,
    /// What they moved.
    pub bytes: f64,
    /// Their time.
    pub seconds: f64,
}

impl FileStake {
    /// Files with more time first, then with more bytes, then with more calls; a tie goes by number.
    fn order(&self, other: &Self) -> std::cmp::Ordering {
        (other.seconds.total_cmp(&self.seconds))
            .then(other.bytes.total_cmp(&self.bytes))
            .then(other.calls.cmp(&self.calls))
            .then((self.file, self.rank).cmp(&(other.file, other.rank)))
    }
}

impl Stake {
    /// How many files are named.
    pub const MOST_WORST: usize = 4;

    /// Nothing yet.
    pub fn of(kind: StakeKind) -> Self {
        Self { kind, calls: 0, bytes: 0.0, seconds: 0.0, worst: Vec::new() }
    }

    /// Adds calls on one file.
    pub fn add(&mut self, part: FileStake) {
        self.calls = self.calls.saturating_add(part.calls);
        self.bytes += part.bytes;
        self.seconds += part.seconds;
        self.add_worst(part);
    }

    fn add_worst(&mut self, part: FileStake) {
        if self.worst.len() == Self::MOST_WORST
            && self.worst.last().is_some_and(|last| last.order(&part).is_le())
        {
            return;
        }
        let at = self.worst.partition_point(|known| known.order(&part).is_le());
        self.worst.insert(at, part);
        self.worst.truncate(Self::MOST_WORST);
    }

    fn join(&mut self, other: &Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.bytes += other.bytes;
        self.seconds += other.seconds;
        other.worst.iter().for_each(|part| self.add_worst(*part));
    }
}

/// What the files on a storage target moved and took. Of a file on several targets, each has an even part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TargetTime {
    /// The target's number.
    pub target: i64,
    /// How many records of files.
    pub files: u64,
    /// What they moved.
    pub bytes: f64,
    /// Their time in reads and writes.
    pub seconds: f64,
}

/// Counters of reads, or of writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WayFacts {
    /// All calls.
    pub calls: u64,
    /// Calls of less than a megabyte.
    pub small: Option<u64>,
    /// Calls at a higher offset than the one before.
    pub sequential: Option<u64>,
    /// Calls that go back in their file. The first call of a rank after it opened the file goes back from nowhere, and is
    /// not among them.
    pub random: Option<u64>,
    /// Calls that all ranks make together.
    pub collective: Option<u64>,
    /// Calls that a rank makes on its own.
    pub independent: Option<u64>,
    /// Calls that return before their bytes are moved.
    pub nonblocking: Option<u64>,
}

/// The slowest and the fastest rank on a file that ranks share, as to time in calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Straggler {
    /// The file.
    pub file: FileId,
    /// The slowest rank.
    pub slowest_rank: i64,
    /// Its time in calls.
    pub slowest_s: f64,
    /// The time of the fastest.
    pub fastest_s: f64,
    /// What the slowest moved.
    pub slowest_bytes: f64,
    /// What the fastest moved.
    pub fastest_bytes: f64,
}

impl AccessFacts {
    /// Adds what another part of the run counted in the same layer.
    pub fn join(&mut self, other: &Self) {
        self.reads.join(other.reads);
        self.writes.join(other.writes);
        self.misaligned_in_file = sum(self.misaligned_in_file, other.misaligned_in_file);
        self.file_alignment_bytes = self.file_alignment_bytes.max(other.file_alignment_bytes);
        self.reread_bytes = sum_bytes(self.reread_bytes, other.reread_bytes);
        self.rewritten_bytes = sum_bytes(self.rewritten_bytes, other.rewritten_bytes);
        for stake in &other.stakes {
            match self.stakes.iter_mut().find(|known| known.kind == stake.kind) {
                Some(known) => known.join(stake),
                None => self.stakes.push(stake.clone()),
            }
        }
        self.stakes.sort_by_key(|stake| stake.kind);
        for target in &other.targets {
            match self.targets.iter_mut().find(|known| known.target == target.target) {
                Some(known) => {
                    known.files += target.files;
                    known.bytes += target.bytes;
                    known.seconds += target.seconds;
                }
                None => self.targets.push(*target),
            }
        }
        for function in &other.functions {
            match self.functions.binary_search_by(|known| known.name.cmp(&function.name)) {
                Ok(at) => {
                    let known = &mut self.functions[at];
                    known.calls = known.calls.saturating_add(function.calls);
                    known.bytes += function.bytes;
                    known.seconds += function.seconds;
                }
                Err(at) => self.functions.insert(at, function.clone()),
            }
        }
        for part in &other.rank_parts {
            match self.rank_parts.binary_search_by_key(&part.rank, |known| known.rank) {
                Ok(at) => self.rank_parts[at].bytes += part.bytes,
                Err(at) => self.rank_parts.insert(at, *part),
            }
        }
        for part in &other.file_bytes {
            match self.file_bytes.binary_search_by_key(&part.file, |known| known.file) {
                Ok(at) => {
                    self.file_bytes[at].read += part.read;
                    self.file_bytes[at].written += part.written;
                }
                Err(at) => self.file_bytes.insert(at, *part),
            }
        }
        self.shape.join(&other.shape);
        // The longest lag, whatever the order; a tie goes to the longer time and then to the lower rank.
        let key =
            |s: &Straggler| (s.slowest_s - s.fastest_s, s.slowest_s, -s.slowest_rank as f64, s.slowest_bytes);
        self.straggler = match (self.straggler, other.straggler) {
            (Some(one), Some(two)) if key(&two) > key(&one) => Some(two),
            (one, two) => one.or(two),
        };
    }

    /// What depends on calls of that kind, if there are any.
    pub fn stake(&self, kind: StakeKind) -> Option<&Stake> {
        self.stakes.iter().find(|stake| stake.kind == kind)
    }

    /// The number that every file has in a run of which this is a part: `base` is added to each.
    pub fn renumber_files(&mut self, base: u32) {
        let renumber = |file: &mut FileId| {
            if *file != FileId::NONE {
                *file = FileId(file.0.saturating_add(base));
            }
        };
        self.stakes.iter_mut().flat_map(|stake| &mut stake.worst).for_each(|part| renumber(&mut part.file));
        self.straggler.iter_mut().for_each(|straggler| renumber(&mut straggler.file));
        self.file_bytes.iter_mut().for_each(|part| renumber(&mut part.file));
    }
}

impl WayFacts {
    fn join(&mut self, other: Self) {
        self.calls += other.calls;
        self.small = sum(self.small, other.small);
        self.sequential = sum(self.sequential, other.sequential);
        self.random = sum(self.random, other.random);
        self.collective = sum(self.collective, other.collective);
        self.independent = sum(self.independent, other.independent);
        self.nonblocking = sum(self.nonblocking, other.nonblocking);
    }
}

/// The sum of what is known.
fn sum(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (known, None) | (None, known) => known,
    }
}

fn sum_bytes(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    match (one, other) {
        (Some(a), Some(b)) => Some(a + b),
        (known, None) | (None, known) => known,
    }
}
