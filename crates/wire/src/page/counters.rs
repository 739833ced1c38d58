//! Sums over lanes.

use super::{MAX_USER_COUNTERS, MpiClass, MpiFunction, N_FS, N_LAYERS, N_OPS, PageLayer, word};
use crate::facts::u64_at;
use crate::record::Op;

/// Calls, bytes and nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Calls that have ended.
    pub calls: u64,
    /// Bytes they moved. Of [`Op::Map`]: of the mappings.
    pub bytes: u64,
    /// Nanoseconds that they held their threads.
    pub ns: u64,
}

impl Sum {
    /// Whether nothing was counted.
    pub const fn is_zero(&self) -> bool {
        self.calls == 0 && self.bytes == 0 && self.ns == 0
    }

    /// Adds another sum.
    pub fn add(&mut self, other: Sum) {
        self.calls = self.calls.saturating_add(other.calls);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.ns = self.ns.saturating_add(other.ns);
    }

    fn raise(&mut self, other: &Sum) {
        self.calls = self.calls.max(other.calls);
        self.bytes = self.bytes.max(other.bytes);
        self.ns = self.ns.max(other.ns);
    }

    fn of(three: &[[u8; 8]; 3]) -> Self {
        let [calls, bytes, ns] = three.map(u64::from_le_bytes);
        Self { calls, bytes, ns }
    }
}

/// The counters of a process: all its lanes added up. About 19 KiB; keep it in a box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters {
    io: [[[Sum; N_FS]; N_OPS]; N_LAYERS],
    mpi: [Sum; MpiFunction::SLOTS],
    user: [u64; MAX_USER_COUNTERS],
    /// Nanoseconds that threads lived which have ended.
    lived_ns: u64,
    /// The sum over running threads of when they began.
    since_ns: u128,
    n_threads: u32,
}

impl Default for Counters {
    fn default() -> Self {
        Self::ZERO
    }
}

impl Counters {
    /// Nothing counted.
    pub const ZERO: Self = {
        let zero = Sum { calls: 0, bytes: 0, ns: 0 };
        Self {
            io: [[[zero; N_FS]; N_OPS]; N_LAYERS],
            mpi: [zero; MpiFunction::SLOTS],
            user: [0; MAX_USER_COUNTERS],
            lived_ns: 0,
            since_ns: 0,
            n_threads: 0,
        }
    };

    /// Adds a lane's words. Of a lane that is cut, those that are there.
    pub fn add_lane(&mut self, lane: &[u8]) {
        // The words stand in the order of the arrays, so this is a loop without a thought: a daemon does it for thousands of lanes a second.
        let words = lane.as_chunks::<8>().0;
        let from = |at: usize| words.get(at..).unwrap_or(&[]);
        let io = self.io.as_flattened_mut().as_flattened_mut();
        for (sum, three) in io.iter_mut().zip(from(word::IO).as_chunks::<3>().0) {
            sum.add(Sum::of(three));
        }
        for (sum, three) in self.mpi.iter_mut().zip(from(word::MPI).as_chunks::<3>().0) {
            sum.add(Sum::of(three));
        }
        for (value, word) in self.user.iter_mut().zip(from(word::USER)) {
            *value = value.saturating_add(u64::from_le_bytes(*word));
        }
        self.lived_ns = self.lived_ns.saturating_add(u64_at(lane, word::LIVED * 8).unwrap_or(0));
        match u64_at(lane, word::SINCE * 8) {
            None | Some(0) => {}
            Some(since) => {
                self.since_ns += u128::from(since);
                self.n_threads = self.n_threads.saturating_add(1);
            }
        }
    }

    /// Takes over what is larger in a later reading of the same page: a counter that fell was damaged, and is not believed.
    pub fn raise(&mut self, later: &Counters) {
        for (mine, theirs) in self
            .io
            .as_flattened_mut()
            .as_flattened_mut()
            .iter_mut()
            .zip(later.io.as_flattened().as_flattened())
        {
            mine.raise(theirs);
        }
        for (mine, theirs) in self.mpi.iter_mut().zip(&later.mpi) {
            mine.raise(theirs);
        }
        for (mine, theirs) in self.user.iter_mut().zip(later.user) {
            *mine = theirs.max(*mine);
        }
        self.lived_ns = self.lived_ns.max(later.lived_ns);
        (self.since_ns, self.n_threads) = (later.since_ns, later.n_threads);
    }

    /// Calls of a layer that did this, on the file system of that place (0: on any that has no place of its own).
    pub fn io(&self, layer: PageLayer, op: Op, fs: usize) -> Sum {
        let of_op = self.io[layer as usize].get(op as usize - 1);
        of_op.and_then(|of_op| of_op.get(fs)).copied().unwrap_or_default()
    }

    /// Everything that was counted of I/O: layer, operation, place of the file system, sum. Zeros are left out.
    pub fn io_entries(&self) -> impl Iterator<Item = (PageLayer, Op, usize, Sum)> + '_ {
        PageLayer::ALL.into_iter().zip(&self.io).flat_map(|(layer, of_layer)| {
            Op::ALL.into_iter().zip(of_layer).flat_map(move |(op, of_op)| {
                let entries = of_op.iter().enumerate().filter(|(_, sum)| !sum.is_zero());
                entries.map(move |(fs, sum)| (layer, op, fs, *sum))
            })
        })
    }

    /// Returns the sums of the program itself, over its own layers and all file systems.
    pub fn own(&self, op: Op) -> Sum {
        let mut all = Sum::default();
        for (layer, _, _, sum) in self.io_entries().filter(|entry| entry.1 == op) {
            if layer != PageLayer::Beneath {
                all.add(sum);
            }
        }
        all
    }

    /// Nanoseconds that the program's own I/O held its threads.
    pub fn io_ns(&self) -> u64 {
        Op::ALL.into_iter().fold(0, |ns: u64, op| ns.saturating_add(self.own(op).ns))
    }

    /// Calls of a function. Of MPI-IO: bytes that were asked for where the function only begins a request.
    pub fn mpi(&self, function: MpiFunction) -> Sum {
        self.mpi.get(usize::from(function.code())).copied().unwrap_or_default()
    }

    /// Every function that was called.
    pub fn mpi_entries(&self) -> impl Iterator<Item = (MpiFunction, Sum)> + '_ {
        MpiFunction::all().map(|function| (function, self.mpi(function))).filter(|(_, sum)| !sum.is_zero())
    }

    /// Calls of all functions of a class.
    pub fn mpi_class(&self, class: MpiClass) -> Sum {
        let mut all = Sum::default();
        self.mpi_entries()
            .filter(|(function, _)| function.class() == class)
            .for_each(|(_, sum)| all.add(sum));
        all
    }

    /// Nanoseconds in MPI that are not I/O.
    pub fn mpi_ns(&self) -> u64 {
        let functions = self.mpi_entries().filter(|(function, _)| function.class() != MpiClass::MpiIo);
        functions.fold(0, |ns: u64, (_, sum)| ns.saturating_add(sum.ns))
    }

    /// The program's own counter of that number.
    pub fn user(&self, i: usize) -> u64 {
        self.user.get(i).copied().unwrap_or(0)
    }

    /// How many threads with a lane are running.
    pub fn n_threads(&self) -> u32 {
        self.n_threads
    }

    /// Nanoseconds that the threads have lived which have or had a lane, at that time of the monotonic clock (for a process that has
    /// ended: [`super::PageHeader::end_ns`], or when it was last seen). Less I/O and MPI, it is the time they computed.
    pub fn thread_ns(&self, now_ns: u64) -> u64 {
        let running = (u128::from(now_ns) * u128::from(self.n_threads)).saturating_sub(self.since_ns);
        self.lived_ns.saturating_add(u64::try_from(running).unwrap_or(u64::MAX))
    }
}
