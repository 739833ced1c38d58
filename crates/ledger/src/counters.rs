//! Counters of jobs.

use std::collections::BTreeMap;

use iotide_wire::Op;
use iotide_wire::page::{MpiClass, PageHeader};

use crate::identity::Name;
use crate::limits::Limits;
use crate::metric::{CounterValue, Metric, Word};

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

/// Calls of one operation, on one file system.
#[derive(Clone, Copy, Debug)]
pub struct IoCalls<'a> {
    /// The operation.
    pub op: &'a Word<Op>,
    /// The file system.
    pub fs: &'a Name,
    /// The calls.
    pub cell: Cell,
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
    pub fn add(&mut self, op: &Word<Op>, cell: Cell) {
        match op {
            Word::Ours(Op::Read) => self.read.add(cell),
            Word::Ours(Op::Write) => self.write.add(cell),
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

    /// Returns the calls that do I/O by operation, layer and file system, without those beneath another layer.
    pub fn io_calls(&self) -> impl Iterator<Item = IoCalls<'_>> {
        self.cells.iter().filter(|(metric, _)| !metric.is_beneath()).filter_map(|(metric, cell)| match metric
        {
            Metric::Io { op, fs, .. } => Some(IoCalls { op, fs, cell: *cell }),
            _ => None,
        })
    }

    /// Returns what the system counted, number by number.
    pub fn of_system(&self) -> impl Iterator<Item = (&'static CounterValue, u64)> {
        let declared = self.cells.iter().filter_map(|(metric, cell)| match metric {
            Metric::System(Word::Ours(counter)) => Some((counter.declaration().values, *cell)),
            _ => None,
        });
        declared.flat_map(|(values, cell)| values.iter().map(move |value| (value, value.measure.of(cell))))
    }

    /// Returns the sums over the I/O.
    pub fn io(&self) -> IoSums {
        let mut sums = IoSums::default();
        self.io_calls().for_each(|calls| sums.add(calls.op, calls.cell));
        sums
    }

    /// Returns the I/O by operation, over layers and file systems.
    pub fn by_op(&self) -> BTreeMap<&Word<Op>, Cell> {
        let mut by_op: BTreeMap<&Word<Op>, Cell> = BTreeMap::new();
        self.io_calls().for_each(|calls| by_op.entry(calls.op).or_default().add(calls.cell));
        by_op
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
                && function.ours().is_none_or(|known| known.class() != MpiClass::MpiIo)
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
            let metric = Metric::Io { op: op.into(), layer: layer.into(), fs };
            counters.add(metric, Cell { calls: sum.calls, bytes: sum.bytes, ns: sum.ns });
        }
        for (function, sum) in page.mpi_entries() {
            let function = function.into();
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
