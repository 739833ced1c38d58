//! Counters of jobs.

use std::collections::BTreeMap;

use iotide_wire::Op;
use iotide_wire::page::{MpiClass, MpiFunction, PageHeader, PageLayer};

use crate::identity::Name;
use crate::limits::Limits;

/// Quantity that a cell counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// Calls that do I/O.
    Io {
        /// `read`, `write`, `open` and so on: see [`op_name`].
        op: Name,
        /// `posix`, `stdio`, `mpiio`, or `beneath`: see [`PageLayer`].
        layer: Name,
        /// The file system: where it is mounted, or its type.
        fs: Name,
    },
    /// Calls of an MPI function.
    Mpi {
        /// `MPI_Gather`.
        function: Name,
    },
    /// A counter of the program's own.
    Own {
        /// Name given by the program.
        name: Name,
        /// Unit of the counter.
        unit: Name,
    },
    /// Time that threads of ranks lived, of processes that use MPI: computing, I/O and MPI together.
    Threads,
    /// Time that threads of other processes lived: launchers and shells, which wait for the ranks. Where there are no ranks, it is the program's.
    OtherThreads,
    /// Counts of the system for all processes in the job's cgroup, with or without a page.
    Cgroup {
        /// `cpu_user`, `cpu_system` (time), `device_read`, `device_write` (requests and bytes).
        what: Name,
    },
    /// Calls that could not be counted.
    Lost,
    /// Processes that were killed or aborted, of ranks or of others: what they would have counted is not known.
    Killed {
        /// Whether they were ranks.
        is_rank: bool,
    },
}

impl Metric {
    fn is_own(&self) -> bool {
        matches!(self, Self::Own { .. })
    }
}

/// The name of an operation.
pub fn op_name(op: Op) -> &'static str {
    match op {
        Op::Read => "read",
        Op::Write => "write",
        Op::Open => "open",
        Op::Close => "close",
        Op::Seek => "seek",
        Op::Stat => "stat",
        Op::Sync => "sync",
        Op::Rename => "rename",
        Op::Unlink => "unlink",
        Op::Map => "map",
        Op::Resize => "resize",
        Op::Directory => "directory",
        Op::Flush => "flush",
        Op::View => "view",
        Op::Place => "place",
    }
}

/// How often, how much, how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// Calls that have ended.
    pub calls: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Nanoseconds that they took.
    pub ns: u64,
}

impl Cell {
    /// Adds another cell.
    pub fn add(&mut self, other: Cell) {
        self.calls = self.calls.saturating_add(other.calls);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.ns = self.ns.saturating_add(other.ns);
    }

    /// Takes over what is larger in a later reading of the same cell: a value that falls is ignored.
    pub fn raise(&mut self, other: Cell) {
        self.calls = self.calls.max(other.calls);
        self.bytes = self.bytes.max(other.bytes);
        self.ns = self.ns.max(other.ns);
    }

    /// Whether nothing was counted.
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

/// Cells by what they count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    cells: BTreeMap<Metric, Cell>,
}

/// Sums over the I/O of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoSums {
    /// All that read.
    pub read: Cell,
    /// All that wrote.
    pub write: Cell,
    /// All other calls.
    pub other: Cell,
}

impl IoSums {
    /// Adds calls of an operation.
    pub fn add(&mut self, op: &str, cell: Cell) {
        match op {
            "read" => self.read.add(cell),
            "write" => self.write.add(cell),
            _ => self.other.add(cell),
        }
    }

    /// Bytes read and written.
    pub fn bytes(&self) -> u64 {
        self.read.bytes.saturating_add(self.write.bytes)
    }

    /// All that read and wrote.
    pub fn moved(&self) -> Cell {
        let mut moved = self.read;
        moved.add(self.write);
        moved
    }
}

impl Counters {
    /// Adds to the cell of a metric.
    pub fn add(&mut self, metric: Metric, cell: Cell) {
        self.cells.entry(metric).or_default().add(cell);
    }

    /// Adds all cells of another set of counters.
    pub fn add_all(&mut self, other: &Counters) {
        for (metric, cell) in &other.cells {
            match self.cells.get_mut(metric) {
                Some(own) => own.add(*cell),
                None => drop(self.cells.insert(metric.clone(), *cell)),
            }
        }
    }

    /// Takes away what was counted before.
    pub fn subtract_all(&mut self, before: &Counters) {
        for (metric, cell) in &before.cells {
            if let Some(own) = self.cells.get_mut(metric) {
                own.calls = own.calls.saturating_sub(cell.calls);
                own.bytes = own.bytes.saturating_sub(cell.bytes);
                own.ns = own.ns.saturating_sub(cell.ns);
            }
        }
    }

    /// Takes over what is larger in a later reading of the same counters. Metrics beyond `limits` are left out; returns how many.
    pub fn raise_all(&mut self, other: &Counters, limits: &Limits) -> u64 {
        let mut n_own = self.cells.keys().filter(|metric| metric.is_own()).count();
        let mut n_refused = 0;
        for (metric, cell) in &other.cells {
            let n_metrics = self.cells.len();
            if let Some(own) = self.cells.get_mut(metric) {
                own.raise(*cell);
            } else if n_metrics >= limits.metrics || metric.is_own() && n_own >= limits.own_metrics {
                n_refused += 1;
            } else {
                n_own += usize::from(metric.is_own());
                self.cells.insert(metric.clone(), *cell);
            }
        }
        n_refused
    }

    /// The cell of a metric.
    pub fn get(&self, metric: &Metric) -> Cell {
        self.cells.get(metric).copied().unwrap_or_default()
    }

    /// All cells, in the order of their metrics.
    pub fn iter(&self) -> impl Iterator<Item = (&Metric, &Cell)> {
        self.cells.iter()
    }

    /// How many metrics there are.
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Returns the sums over the I/O.
    pub fn io(&self) -> IoSums {
        let mut sums = IoSums::default();
        for (metric, cell) in &self.cells {
            if let Metric::Io { op, layer, .. } = metric
                // The same bytes again, on behalf of a call of a layer above.
                && layer.as_str() != PageLayer::Beneath.name()
            {
                sums.add(op.as_str(), *cell);
            }
        }
        sums
    }

    /// Returns whether ranks of a parallel program are among the processes.
    pub fn has_ranks(&self) -> bool {
        !self.get(&Metric::Threads).is_zero()
    }

    /// How many processes of the program were killed or aborted: of its ranks, if it has any, and of all else, if it has none.
    pub fn n_killed(&self) -> u64 {
        self.get(&Metric::Killed { is_rank: self.has_ranks() }).calls
    }

    /// The time of the program's threads: those of its ranks, if it has any.
    pub fn threads(&self) -> Cell {
        let of_ranks = self.get(&Metric::Threads);
        if of_ranks.is_zero() { self.get(&Metric::OtherThreads) } else { of_ranks }
    }

    /// Returns the sum over the calls of MPI, without those that are I/O.
    pub fn mpi(&self) -> Cell {
        let mut sum = Cell::default();
        for (metric, cell) in &self.cells {
            if let Metric::Mpi { function } = metric
                && MpiFunction::of_name(function.as_str())
                    .is_none_or(|known| known.class() != MpiClass::MpiIo)
            {
                sum.add(*cell);
            }
        }
        sum
    }

    /// Returns what a process has counted. `now_ns` is on the monotonic clock, for the time of its threads.
    pub fn of_page(header: &PageHeader<'_>, page: &iotide_wire::page::Counters, now_ns: u64) -> Self {
        let mut file_systems = vec![Name::ours("other")];
        file_systems.extend(header.file_systems().map(|fs| Name::cut(fs.mount)));
        let mut counters = Self::default();
        for (layer, op, place, sum) in page.io_entries() {
            // A place whose name is not there yet is one of the others until it is.
            let fs = file_systems.get(place).unwrap_or(&file_systems[0]).clone();
            let (op, layer) = (Name::ours(op_name(op)), Name::ours(layer.name()));
            counters
                .add(Metric::Io { op, layer, fs }, Cell { calls: sum.calls, bytes: sum.bytes, ns: sum.ns });
        }
        for (function, sum) in page.mpi_entries() {
            let function = Name::ours(function.name());
            counters.add(Metric::Mpi { function }, Cell { calls: sum.calls, bytes: sum.bytes, ns: sum.ns });
        }
        for own in header.user_counters() {
            let metric =
                Metric::Own { name: Name::cut(own.name.as_bytes()), unit: Name::cut(own.unit.as_bytes()) };
            counters.add(metric, Cell { calls: page.user(own.place), ..Cell::default() });
        }
        let lived = Cell { calls: 0, bytes: 0, ns: page.thread_ns(now_ns) };
        let threads = if is_rank(header) { Metric::Threads } else { Metric::OtherThreads };
        counters.add(threads, lived);
        if header.lost_calls > 0 {
            counters.add(Metric::Lost, Cell { calls: header.lost_calls, ..Cell::default() });
        }
        counters
    }
}

/// Whether a process is a rank by what it does: a script that the launcher starts in its place has a rank, too, and only waits.
pub fn is_rank(header: &PageHeader<'_>) -> bool {
    header.rank.is_some() && !header.mpi.is_empty()
}

impl FromIterator<(Metric, Cell)> for Counters {
    fn from_iter<I: IntoIterator<Item = (Metric, Cell)>>(cells: I) -> Self {
        let mut counters = Self::default();
        cells.into_iter().for_each(|(metric, cell)| counters.add(metric, cell));
        counters
    }
}
