//! Whose page it is.

use super::{HEADER_SIZE, LANE_SIZE, MAGIC, MAX_FILE_SYSTEMS, MAX_LANES, MAX_USER_COUNTERS, VERSION};
use crate::facts::{u32_at, u64_at};

/// Where the words stand in the header that change while the process runs, in bytes. Each is a `u64`.
pub mod at {
    /// [`super::PageState`].
    pub const STATE: usize = 72;
    /// When the process said it ends, on the monotonic clock.
    pub const END_NS: usize = 80;
    /// The rank plus one in the lower half (0 if there is none), the number of ranks in the upper.
    pub const RANK: usize = 88;
    /// Lanes that were ever used, counted from the first.
    pub const LANES_USED: usize = 96;
    /// File systems that have a name.
    pub const FILE_SYSTEMS: usize = 104;
    /// Own counters that have a name.
    pub const USER_COUNTERS: usize = 112;
    /// Calls that could not be counted: made by signal handlers that interrupted the counting.
    pub const LOST: usize = 120;
    /// How MPI describes itself: a byte of length, then text.
    pub const MPI: usize = 128;
    /// The most bytes of that text.
    pub const MPI_MAX: usize = super::MPI_END - MPI - 1;
    /// The random part of the file's name, which its own process needs to find it again.
    pub const RANDOM: usize = 192;
}

/// Where the text of how MPI describes itself ends.
const MPI_END: usize = 192;
const FIXED: usize = 256;
const FS_SIZE: usize = 96;
const FS_KIND: usize = 16;
const FS_END: usize = FIXED + MAX_FILE_SYSTEMS * FS_SIZE;
const TEXTS_END: usize = 4096;
const USER_SIZE: usize = 64;
const USER_NAME: usize = 48;
const _: () = assert!(TEXTS_END + MAX_USER_COUNTERS * USER_SIZE == HEADER_SIZE);

/// State of a process, as it reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum PageState {
    /// It runs, or was killed.
    Running = 1,
    /// It has begun to exit; what it does on the way out still counts.
    Exiting = 2,
    /// It has become another program, which has a page of its own.
    Replaced = 3,
    /// It has given up by `abort`.
    Aborted = 4,
}

impl PageState {
    fn from_code(code: u64) -> Option<Self> {
        [Self::Running, Self::Exiting, Self::Replaced, Self::Aborted]
            .into_iter()
            .find(|state| *state as u64 == code)
    }
}

/// Whether a process is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It runs; its counters may grow.
    Running,
    /// It is gone, and its counters are final: it said so before ([`PageState::Exiting`], [`PageState::Aborted`]), or has become another
    /// program.
    Ended,
    /// It is gone and had no time to say so. Its counters are final.
    Killed,
}

/// The tag of a text. The codes are part of the format: add at the end, never renumber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PageText {
    /// The host's name.
    Host = 1,
    /// The job, as the environment claims.
    Job = 2,
    /// The variable that says so.
    JobSource = 3,
    /// The command line, a zero after each argument.
    Command = 4,
    /// The program's path.
    Exe = 5,
    /// The program's build id: bytes, not digits. Where it has none, eight bytes that stand for its file.
    BuildId = 6,
    /// The working directory.
    Directory = 7,
    /// The scheduler's partition or queue.
    Partition = 8,
    /// The scheduler's name for the machine.
    Cluster = 9,
    /// Name of the application, set by the user (`IOTIDE_APP`).
    App = 10,
    /// Its parameters (`IOTIDE_PARAMS`).
    Params = 11,
    /// Name of the run from `iotide record`.
    Run = 12,
    /// The part of the job that this is (`SLURM_STEP_ID`).
    Step = 13,
    /// Name of the job at the scheduler beside its id: `4711_3`, the third of an array.
    Alias = 14,
    /// Name of the job, set by the user at the scheduler.
    JobName = 15,
}

impl PageText {
    /// All texts, in the order of their tags.
    pub const ALL: [PageText; 15] = [
        Self::Host,
        Self::Job,
        Self::JobSource,
        Self::Command,
        Self::Exe,
        Self::BuildId,
        Self::Directory,
        Self::Partition,
        Self::Cluster,
        Self::App,
        Self::Params,
        Self::Run,
        Self::Step,
        Self::Alias,
        Self::JobName,
    ];

    /// The most bytes of it; more is cut.
    pub const fn max_len(self) -> usize {
        match self {
            Self::Command => 1024,
            Self::Exe | Self::Directory => 480,
            Self::Params => 256,
            Self::App => 128,
            Self::JobSource | Self::BuildId => 32,
            Self::Step => 16,
            _ => 64,
        }
    }
}

/// The texts of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Texts<'a>([&'a [u8]; PageText::ALL.len()]);

impl Default for Texts<'_> {
    fn default() -> Self {
        Self([&[]; PageText::ALL.len()])
    }
}

impl<'a> Texts<'a> {
    /// Returns a text; empty if it is not known.
    pub fn get(&self, text: PageText) -> &'a [u8] {
        self.0[text as usize - 1]
    }

    /// Sets a text, cut to what there is room for.
    pub fn set(&mut self, text: PageText, value: &'a [u8]) {
        self.0[text as usize - 1] = &value[..value.len().min(text.max_len())];
    }
}

/// Facts that a process states about itself when it makes its page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct About<'a> {
    /// How many lanes the page has, the shared one among them.
    pub n_lanes: u32,
    /// The process, in its own name space of processes.
    pub pid: u32,
    /// The process that started it.
    pub parent_pid: u32,
    /// Its user.
    pub uid: u32,
    /// When the process began, in ticks of the system since it booted (`/proc/PID/stat`, field 22): the same number is another process
    /// if it began at another time.
    pub start_ticks: u64,
    /// The number of its name space of processes (`/proc/self/ns/pid`); 0 if it is not known.
    pub pid_namespace: u64,
    /// When counting began, on the monotonic clock.
    pub start_ns: u64,
    /// The same moment in nanoseconds since the Unix epoch.
    pub start_unix_ns: u64,
    /// The texts.
    pub texts: Texts<'a>,
}

impl<'a> About<'a> {
    /// Returns the header of a page that is whole at once, as of a process that has used some lanes: for tests and attacks, which write files.
    pub fn whole_header(&self, n_lanes_used: usize) -> [u8; HEADER_SIZE] {
        let mut header = [0; HEADER_SIZE];
        self.encode(&mut header);
        header[..MAGIC.len()].copy_from_slice(&MAGIC);
        header[at::LANES_USED..at::LANES_USED + 8].copy_from_slice(&(n_lanes_used as u64).to_le_bytes());
        header
    }

    /// Writes the header of a page whose process is [`PageState::Running`], but for its magic: that is written when all is in place.
    pub fn encode(&self, out: &mut [u8; HEADER_SIZE]) {
        out.fill(0);
        for (at, value) in [
            (8, VERSION),
            (12, HEADER_SIZE as u32),
            (16, LANE_SIZE as u32),
            (20, self.n_lanes),
            (24, self.pid),
            (28, self.parent_pid),
            (48, self.uid),
        ] {
            out[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        for (at, value) in [
            (32, self.start_ticks),
            (40, self.pid_namespace),
            (56, self.start_ns),
            (64, self.start_unix_ns),
            (at::STATE, PageState::Running as u64),
        ] {
            out[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        let mut end = FS_END;
        for text in PageText::ALL {
            let value = self.texts.get(text);
            let room = &mut out[end..TEXTS_END];
            if value.is_empty() || room.len() < 4 + value.len() {
                continue;
            }
            room[0] = text as u8;
            room[2..4].copy_from_slice(&(value.len() as u16).to_le_bytes());
            room[4..4 + value.len()].copy_from_slice(value);
            end += 4 + value.len();
        }
        out[52..56].copy_from_slice(&((end - FS_END) as u32).to_le_bytes());
    }
}

/// A file system that the process has used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystem<'a> {
    /// Its place in lanes, from 1.
    pub place: usize,
    /// Its kind: `ext4`, `lustre`.
    pub kind: &'a [u8],
    /// Where it is mounted.
    pub mount: &'a [u8],
}

impl FileSystem<'_> {
    /// Bytes of an entry.
    pub const SIZE: usize = FS_SIZE;

    /// Where the entry of a place begins; `None` if there is no such place.
    pub const fn at(place: usize) -> Option<usize> {
        if place >= 1 && place <= MAX_FILE_SYSTEMS { Some(FIXED + (place - 1) * FS_SIZE) } else { None }
    }

    /// Returns the entry as it stands in a header. Texts are cut to what there is room for.
    pub fn to_bytes(&self) -> [u8; FS_SIZE] {
        let mut entry = [0; FS_SIZE];
        let kind = &self.kind[..self.kind.len().min(FS_KIND)];
        let mount = &self.mount[..self.mount.len().min(FS_SIZE - 2 - FS_KIND)];
        entry[0] = kind.len() as u8;
        entry[1] = mount.len() as u8;
        entry[2..2 + kind.len()].copy_from_slice(kind);
        entry[2 + FS_KIND..2 + FS_KIND + mount.len()].copy_from_slice(mount);
        entry
    }
}

/// One of the program's own counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserCounter<'a> {
    /// Its place in lanes, from 0.
    pub place: usize,
    /// Its name.
    pub name: &'a str,
    /// Unit it counts in; may be empty.
    pub unit: &'a str,
}

impl UserCounter<'_> {
    /// Bytes of an entry.
    pub const SIZE: usize = USER_SIZE;
    /// The longest name.
    pub const MAX_NAME: usize = USER_NAME;
    /// The longest unit.
    pub const MAX_UNIT: usize = USER_SIZE - 2 - USER_NAME;

    /// Where the entry of a place begins; `None` if there is no such place.
    pub const fn at(place: usize) -> Option<usize> {
        if place < MAX_USER_COUNTERS { Some(TEXTS_END + place * USER_SIZE) } else { None }
    }

    /// Returns the entry as it stands in a header, or `None` if a name is too long or has characters it must not have.
    pub fn to_bytes(&self) -> Option<[u8; USER_SIZE]> {
        if !is_counter_name(self.name.as_bytes()) || !is_unit(self.unit.as_bytes()) {
            return None;
        }
        let mut entry = [0; USER_SIZE];
        entry[0] = self.name.len() as u8;
        entry[1] = self.unit.len() as u8;
        entry[2..2 + self.name.len()].copy_from_slice(self.name.as_bytes());
        entry[2 + USER_NAME..2 + USER_NAME + self.unit.len()].copy_from_slice(self.unit.as_bytes());
        Some(entry)
    }
}

/// Whether a counter may have this name: a letter, then letters, digits and `_`; at most 48 of them.
pub fn is_counter_name(name: &[u8]) -> bool {
    name.len() <= USER_NAME
        && name.first().is_some_and(u8::is_ascii_alphabetic)
        && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

fn is_unit(unit: &[u8]) -> bool {
    unit.len() <= UserCounter::MAX_UNIT
        && unit.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_/%".contains(byte))
}

/// Why bytes are no page that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageFault {
    /// It is no page, or one that is not finished yet.
    NotAPage,
    /// It is of a version that this one cannot read.
    Version(u32),
    /// It is cut before its header ends.
    Short,
    /// It says of itself what cannot be.
    Senseless,
}

impl core::fmt::Display for PageFault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NotAPage => f.write_str("not a counter page"),
            Self::Version(version) => {
                write!(f, "a counter page of version {version}; this program reads version {VERSION}")
            }
            Self::Short => f.write_str("the header of the counter page is cut"),
            Self::Senseless => f.write_str("the header of the counter page is damaged"),
        }
    }
}

impl core::error::Error for PageFault {}

/// The header of a page, as far as it can be believed: lengths and counts are within their bounds, texts are what somebody wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageHeader<'a> {
    /// Facts that the process stated about itself.
    pub about: About<'a>,
    /// State of the process, as it reports it.
    pub state: PageState,
    /// When it said that it ends, on the monotonic clock; `None` while it runs.
    pub end_ns: Option<u64>,
    /// Its rank.
    pub rank: Option<u32>,
    /// How many ranks there are.
    pub n_ranks: Option<u32>,
    /// How many lanes to read, from the first; the rest was never used.
    pub lanes_used: usize,
    /// Calls that could not be counted.
    pub lost_calls: u64,
    /// How MPI describes itself; empty without.
    pub mpi: &'a [u8],
    file_systems: &'a [u8],
    user: &'a [u8],
}

impl<'a> PageHeader<'a> {
    /// Reads a header from the front of a page.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, PageFault> {
        if bytes.get(..8) != Some(&MAGIC[..]) {
            return Err(PageFault::NotAPage);
        }
        match u32_at(bytes, 8) {
            Some(VERSION) => {}
            Some(version) => return Err(PageFault::Version(version)),
            None => return Err(PageFault::Short),
        }
        let header = bytes.get(..HEADER_SIZE).ok_or(PageFault::Short)?;
        Self::of_whole(header).ok_or(PageFault::Senseless)
    }

    fn of_whole(header: &'a [u8]) -> Option<Self> {
        let n_lanes = u32_at(header, 20)?;
        let fits = u32_at(header, 12)? as usize == HEADER_SIZE
            && u32_at(header, 16)? as usize == LANE_SIZE
            && (1..=MAX_LANES as u32).contains(&n_lanes);
        if !fits {
            return None;
        }
        let texts = header.get(FS_END..TEXTS_END)?.get(..u32_at(header, 52)? as usize)?;
        let about = About {
            n_lanes,
            pid: u32_at(header, 24)?,
            parent_pid: u32_at(header, 28)?,
            uid: u32_at(header, 48)?,
            start_ticks: u64_at(header, 32)?,
            pid_namespace: u64_at(header, 40)?,
            start_ns: u64_at(header, 56)?,
            start_unix_ns: u64_at(header, 64)?,
            texts: Self::texts(texts)?,
        };
        let count = |at: usize, most: usize| {
            Some(usize::try_from(u64_at(header, at)?).unwrap_or(usize::MAX).min(most))
        };
        let state = PageState::from_code(u64_at(header, at::STATE)?)?;
        let rank = u64_at(header, at::RANK)?;
        let mpi = header.get(at::MPI..MPI_END)?;
        let n_file_systems = count(at::FILE_SYSTEMS, MAX_FILE_SYSTEMS)?;
        let n_user = count(at::USER_COUNTERS, MAX_USER_COUNTERS)?;
        Some(Self {
            about,
            state,
            end_ns: (state != PageState::Running).then_some(u64_at(header, at::END_NS)?),
            rank: (rank as u32).checked_sub(1),
            n_ranks: (rank >> 32 != 0).then_some((rank >> 32) as u32),
            lanes_used: count(at::LANES_USED, n_lanes as usize)?,
            lost_calls: u64_at(header, at::LOST)?,
            mpi: mpi.get(1..1 + usize::from(mpi[0]))?,
            file_systems: header.get(FIXED..FIXED + n_file_systems * FS_SIZE)?,
            user: header.get(TEXTS_END..TEXTS_END + n_user * USER_SIZE)?,
        })
    }

    fn texts(mut rest: &'a [u8]) -> Option<Texts<'a>> {
        let mut texts = Texts::default();
        while !rest.is_empty() {
            let (head, tail) = rest.split_at_checked(4)?;
            let (text, tail) = tail.split_at_checked(usize::from(u16::from_le_bytes([head[2], head[3]])))?;
            // A later version may have more of them.
            if let Some(known) = PageText::ALL.get(usize::from(head[0]).wrapping_sub(1)) {
                texts.set(*known, text);
            }
            rest = tail;
        }
        Some(texts)
    }

    /// Returns a text; empty if it is not known.
    pub fn text(&self, text: PageText) -> &'a [u8] {
        self.about.texts.get(text)
    }

    /// The arguments of the command line.
    pub fn arguments(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let command = self.text(PageText::Command);
        let command = command.strip_suffix(&[0]).unwrap_or(command);
        command.split(|&byte| byte == 0).filter(move |_| !command.is_empty())
    }

    /// The file systems that have a place of their own.
    pub fn file_systems(&self) -> impl Iterator<Item = FileSystem<'a>> + use<'a> {
        self.file_systems.chunks_exact(FS_SIZE).enumerate().filter_map(|(i, entry)| {
            let kind = entry.get(2..2 + FS_KIND)?.get(..usize::from(entry[0]))?;
            let mount = entry.get(2 + FS_KIND..)?.get(..usize::from(entry[1]))?;
            Some(FileSystem { place: i + 1, kind, mount })
        })
    }

    /// The program's own counters. One whose name is none is left out.
    pub fn user_counters(&self) -> impl Iterator<Item = UserCounter<'a>> + use<'a> {
        self.user.chunks_exact(USER_SIZE).enumerate().filter_map(|(place, entry)| {
            let name = entry.get(2..2 + USER_NAME)?.get(..usize::from(entry[0]))?;
            let unit = entry.get(2 + USER_NAME..)?.get(..usize::from(entry[1]))?;
            if !is_counter_name(name) || !is_unit(unit) {
                return None;
            }
            let text = |bytes| core::str::from_utf8(bytes).ok();
            Some(UserCounter { place, name: text(name)?, unit: text(unit)? })
        })
    }

    /// Whether the process is still there. `started` is when the process that has its number now began ([`About::start_ticks`]); `None`
    /// if no process has it, or one that has ended and is only waited for (a zombie).
    pub fn life(&self, started: Option<u64>) -> Life {
        let is_there = started == Some(self.about.start_ticks);
        match self.state {
            PageState::Replaced => Life::Ended,
            _ if is_there => Life::Running,
            PageState::Running => Life::Killed,
            PageState::Exiting | PageState::Aborted => Life::Ended,
        }
    }
}
