//! Counters of a running process, in a file that it maps and others read.
//!
//! Each process has a file of its own, `PID-STARTTICKS-RANDOM.page`: a header, then *lanes*. A thread adds to the words of its own
//! lane, and to no other's, by plain loads and stores: no lock, no system call. Whoever wants to know reads the file (`pread`, not
//! `mmap`: a file that is cut while it is mapped kills its reader) and adds the lanes up. What a killed process has counted stays
//! in its file.
//!
//! ```text
//! page   = header (8 KiB) lane*
//! header = fixed (256 bytes) file system (96 bytes) × 8, texts up to 4 KiB, own counter (64 bytes) × 64
//! lane   = head (16 words) io (4 layers × 14 operations × 9 file systems × 3 words) mpi (256 functions × 3 words) own (64 words)
//! ```
//!
//! All words are little-endian `u64`s. Three words that belong together are calls, bytes, nanoseconds ([`Sum`]). A call counts when
//! it ends, so every word only grows; one that fell was damaged. Nanoseconds are those for which the call held its thread: a request
//! that goes on beside the program adds its bytes when it is seen complete, and no time.
//!
//! **Sums:** calls of the layers POSIX, stdio and MPI-IO are the program's own, and no byte is in two of them. What a layer
//! moves on behalf of a call of another one stands apart ([`PageLayer::Beneath`]). Likewise no time of an MPI function is in two functions.
//! So the time of a process's threads is I/O (layers of its own) + MPI (all classes but [`MpiClass::MpiIo`]) + the rest.
//!
//! Lane 0 is shared by threads that found no other, which add to it atomically. A lane whose thread has ended is taken over by another and
//! goes on from where it stands. Of threads that share a lane, only what they counted is known, not how long they lived.
//!
//! The reader believes nothing: a page is written by whoever runs the program.

pub use counters::{Counters, Sum};
pub use function::{MpiClass, MpiFunction};
pub use header::{
    About, FileSystem, Life, PageFault, PageHeader, PageState, PageText, Texts, UserCounter, at,
    is_counter_name,
};

mod counters;
mod function;
mod header;

use crate::record::{Flags, Layer, Op};

/// First bytes of a page.
pub const MAGIC: [u8; 8] = *b"\x89IOTPAGE";
/// The version this crate writes and reads.
pub const VERSION: u32 = 1;
/// Bytes of the header.
pub const HEADER_SIZE: usize = 8192;
/// Bytes of a lane.
pub const LANE_SIZE: usize = 20 * 1024;
/// No page has more lanes.
pub const MAX_LANES: usize = 1024;
/// The lane that threads share which found no other.
pub const SHARED_LANE: usize = 0;
/// Lanes that have room from the start: the shared one and the first thread's.
pub const LANES_AT_START: usize = 2;
/// Bytes that a page takes at least.
pub const LEAST_ROOM: usize = lane_at(LANES_AT_START);
/// How the name of a page ends.
pub const EXTENSION: &str = "page";

/// File systems that are counted one by one; the place before them is for all others.
pub const MAX_FILE_SYSTEMS: usize = 8;
/// The program's own counters.
pub const MAX_USER_COUNTERS: usize = 64;

/// Places for file systems in a lane.
pub(crate) const N_FS: usize = MAX_FILE_SYSTEMS + 1;
/// Places for operations in a lane.
pub(crate) const N_OPS: usize = 14;
/// Places for layers in a lane.
pub(crate) const N_LAYERS: usize = 4;

/// Where the bytes of lane `i` begin.
pub const fn lane_at(i: usize) -> usize {
    HEADER_SIZE + i * LANE_SIZE
}

/// Which layer a call belongs to, as far as adding up is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PageLayer {
    /// System calls of the program's own.
    Posix = 0,
    /// C streams.
    Stdio = 1,
    /// MPI-IO.
    MpiIo = 2,
    /// Operations on behalf of a call of a layer above: the same bytes, and the same time, again.
    Beneath = 3,
}

impl PageLayer {
    /// All layers, in the order of their codes.
    pub const ALL: [PageLayer; N_LAYERS] = [Self::Posix, Self::Stdio, Self::MpiIo, Self::Beneath];
    /// Those whose calls are the program's own, and may be added up.
    pub const OWN: [PageLayer; 3] = [Self::Posix, Self::Stdio, Self::MpiIo];

    /// The layer of a record.
    #[inline(always)]
    pub const fn of(flags: Flags) -> Self {
        if flags.has(Flags::NESTED) {
            return Self::Beneath;
        }
        match flags.layer() {
            Some(Layer::Stdio) => Self::Stdio,
            Some(Layer::MpiIo) => Self::MpiIo,
            _ => Self::Posix,
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Posix => "posix",
            Self::Stdio => "stdio",
            Self::MpiIo => "mpiio",
            Self::Beneath => "beneath",
        }
    }
}

/// Where words stand in a lane, counted in words.
pub mod word {
    use super::{LANE_SIZE, MAX_USER_COUNTERS, MpiFunction, N_FS, N_LAYERS, N_OPS, Op, PageLayer};

    /// When the lane's thread began, on the monotonic clock in nanoseconds; 0 if it has none.
    pub const SINCE: usize = 0;
    /// Nanoseconds that threads lived which had this lane before.
    pub const LIVED: usize = 1;
    /// The thread.
    pub const THREAD: usize = 2;
    pub(crate) const IO: usize = 16;
    pub(crate) const MPI: usize = IO + N_LAYERS * N_OPS * N_FS * 3;
    pub(crate) const USER: usize = MPI + MpiFunction::SLOTS * 3;
    const END: usize = USER + MAX_USER_COUNTERS;
    const _: () = assert!(END * 8 <= LANE_SIZE);

    /// The first of three words of an operation. A place that does not exist is that of the other file systems; `None` for what is no
    /// operation of its own ([`Op::Place`]).
    #[inline(always)]
    pub const fn io(layer: PageLayer, op: Op, fs: usize) -> Option<usize> {
        let op = op as usize - 1;
        if op >= N_OPS {
            return None;
        }
        let fs = if fs < N_FS { fs } else { 0 };
        Some(IO + ((layer as usize * N_OPS + op) * N_FS + fs) * 3)
    }

    /// The first of three words of a function.
    #[inline(always)]
    pub const fn mpi(function: MpiFunction) -> usize {
        MPI + function.code() as usize * 3
    }

    /// The word of one of the program's own counters.
    #[inline(always)]
    pub const fn user(i: usize) -> Option<usize> {
        if i < MAX_USER_COUNTERS { Some(USER + i) } else { None }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::boxed::Box;
    use std::vec::Vec;
    use std::{format, vec};

    use proptest::prelude::*;

    use super::*;

    fn about<'a>(command: &'a [u8], job: &'a [u8]) -> About<'a> {
        let mut texts = Texts::default();
        texts.set(PageText::Command, command);
        texts.set(PageText::Job, job);
        texts.set(PageText::BuildId, &[0xab; 20]);
        About {
            n_lanes: 3,
            pid: 7,
            parent_pid: 1,
            uid: 1000,
            start_ticks: 55,
            pid_namespace: 9,
            start_ns: 3,
            start_unix_ns: 4,
            texts,
        }
    }

    fn page(about: &About<'_>) -> Vec<u8> {
        let header = about.whole_header(0);
        let mut page = header.to_vec();
        page.resize(lane_at(about.n_lanes as usize), 0);
        page
    }

    fn put(page: &mut [u8], at: usize, value: u64) {
        page[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }

    proptest! {
        #[test]
        fn a_header_survives_a_round_trip(command in prop::collection::vec(any::<u8>(), 0..1500), job in prop::collection::vec(any::<u8>(), 0..100)) {
            let about = about(&command, &job);
            let page = page(&about);
            let header = PageHeader::decode(&page).unwrap();
            prop_assert_eq!(header.about, about);
            prop_assert_eq!((header.state, header.rank, header.lanes_used), (PageState::Running, None, 0));
        }

        #[test]
        fn a_damaged_page_is_refused_or_within_its_bounds(flips in prop::collection::vec((0usize..HEADER_SIZE, any::<u8>()), 1..40), cut in 0usize..HEADER_SIZE * 2) {
            let mut page = page(&about(b"a\0b\0", b"12"));
            for (at, byte) in flips {
                page[at] = byte;
            }
            page.truncate(cut.max(600));
            read_all(&page);
        }

        #[test]
        fn any_bytes_are_a_page_or_a_fault(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut bytes = bytes;
            read_all(&bytes);
            let n = bytes.len().min(8);
            bytes[..n].copy_from_slice(&MAGIC[..n]);
            read_all(&bytes);
        }

        #[test]
        fn lanes_add_up_whatever_thread_counted(adds in prop::collection::vec((0usize..3, 0usize..4, 0usize..14, 0usize..9, 0u64..1 << 40), 0..60)) {
            let mut page = page(&about(b"a", b"1"));
            let mut sums = vec![0u64; 4 * 14 * 9];
            for &(lane, layer, op, fs, bytes) in &adds {
                let at = lane_at(lane) + 8 * (word::io(PageLayer::ALL[layer], Op::ALL[op], fs).unwrap() + 1);
                let before = u64::from_le_bytes(page[at..at + 8].try_into().unwrap());
                put(&mut page, at, before + bytes);
                sums[(layer * 14 + op) * 9 + fs] += bytes;
            }
            put(&mut page, at::LANES_USED, 3);
            let counters = read_all(&page).unwrap();
            for (i, sum) in sums.iter().enumerate() {
                let (layer, op, fs) = (PageLayer::ALL[i / 126], Op::ALL[i / 9 % 14], i % 9);
                prop_assert_eq!(counters.io(layer, op, fs).bytes, *sum);
            }
            let own: u64 = PageLayer::OWN.iter().flat_map(|layer| (0..9).map(|fs| counters.io(*layer, Op::Write, fs).bytes)).sum();
            prop_assert_eq!(counters.own(Op::Write).bytes, own);
        }
    }

    /// Reads a page as the daemon does.
    fn read_all(page: &[u8]) -> Option<Box<Counters>> {
        let header = PageHeader::decode(page).ok()?;
        assert!(
            header.lanes_used <= header.about.n_lanes as usize && header.about.n_lanes as usize <= MAX_LANES
        );
        assert!(
            header.file_systems().count() <= MAX_FILE_SYSTEMS
                && header.user_counters().count() <= MAX_USER_COUNTERS
        );
        assert!(header.user_counters().all(|counter| is_counter_name(counter.name.as_bytes())));
        for text in PageText::ALL {
            assert!(header.text(text).len() <= text.max_len());
        }
        let _ = (header.arguments().count(), header.life(Some(55)), header.life(None));
        let mut counters = Box::new(Counters::ZERO);
        for lane in 0..header.lanes_used {
            let start = lane_at(lane).min(page.len());
            counters.add_lane(&page[start..lane_at(lane + 1).min(page.len())]);
        }
        let _ = (counters.io_ns(), counters.mpi_ns(), counters.thread_ns(u64::MAX));
        Some(counters)
    }

    #[test]
    fn life_is_told_from_state_and_process() {
        let about = about(b"x", b"");
        let mut page = page(&about);
        for (state, there, life) in [
            (1, Some(55), Life::Running),
            (1, None, Life::Killed),
            (1, Some(56), Life::Killed),
            (2, Some(55), Life::Running),
            (2, None, Life::Ended),
            (3, Some(55), Life::Ended),
            (4, None, Life::Ended),
        ] {
            put(&mut page, at::STATE, state);
            assert_eq!(PageHeader::decode(&page).unwrap().life(there), life, "{state} {there:?}");
        }
        put(&mut page, at::STATE, 0);
        assert_eq!(PageHeader::decode(&page), Err(PageFault::Senseless));
    }

    #[test]
    fn names_that_could_break_a_line_are_left_out() {
        let mut page = page(&about(b"x", b""));
        let at = UserCounter::at(0).unwrap();
        let entry = UserCounter { place: 0, name: "steps", unit: "1" }.to_bytes().unwrap();
        page[at..at + 64].copy_from_slice(&entry);
        put(&mut page, at::USER_COUNTERS, 1);
        assert_eq!(PageHeader::decode(&page).unwrap().user_counters().next().unwrap().name, "steps");
        page[at + 3] = b'\n';
        assert_eq!(PageHeader::decode(&page).unwrap().user_counters().count(), 0);
        assert_eq!(UserCounter { place: 0, name: "a b", unit: "" }.to_bytes(), None);
        let long = format!("a{}", "b".repeat(48));
        assert_eq!(UserCounter { place: 0, name: &long, unit: "" }.to_bytes(), None);
    }

    #[test]
    fn a_counter_that_falls_is_not_believed_and_time_adds_up() {
        let mut lane = vec![0; LANE_SIZE];
        let write = word::io(PageLayer::Posix, Op::Write, 1).unwrap() * 8;
        put(&mut lane, write + 8, 100);
        put(&mut lane, write + 16, 30);
        put(&mut lane, 8 * (word::mpi(MpiFunction::of_symbol("MPI_Bcast")) + 2), 20);
        put(&mut lane, 8 * (word::mpi(MpiFunction::of_symbol("MPI_File_read")) + 2), 5);
        put(&mut lane, 8 * word::SINCE, 1000);
        put(&mut lane, 8 * word::LIVED, 7);
        let mut seen = Counters::ZERO;
        seen.add_lane(&lane);
        assert_eq!((seen.io_ns(), seen.mpi_ns(), seen.thread_ns(1100)), (30, 20, 107));
        assert_eq!(seen.mpi_class(MpiClass::MpiIo).ns, 5);
        put(&mut lane, write + 8, 60);
        let mut later = Counters::ZERO;
        later.add_lane(&lane);
        seen.raise(&later);
        assert_eq!(seen.own(Op::Write).bytes, 100);
    }

    #[test]
    fn file_systems_are_named_in_the_order_they_were_met() {
        let mut page = page(&about(b"x", b""));
        for (place, kind, mount) in [(1, "ext4", "/"), (2, "lustre", "/scratch")] {
            let entry = FileSystem { place, kind: kind.as_bytes(), mount: mount.as_bytes() };
            let at = FileSystem::at(place).unwrap();
            page[at..at + FileSystem::SIZE].copy_from_slice(&entry.to_bytes());
        }
        put(&mut page, at::FILE_SYSTEMS, 2);
        let header = PageHeader::decode(&page).unwrap();
        let named: Vec<_> = header.file_systems().map(|fs| (fs.place, fs.mount)).collect();
        assert_eq!(named, [(1, &b"/"[..]), (2, b"/scratch")]);
        assert_eq!(FileSystem::at(0), None);
        assert_eq!(FileSystem::at(9), None);
    }
}
