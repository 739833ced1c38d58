//! What is counted.

use std::collections::BTreeMap;

use iotide_wire::{Layer, Op};

use crate::identity::Name;
use crate::ledger::Limits;

/// What a cell counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// Calls that do I/O.
    Io {
        /// `read`, `write`, `open` and so on: see [`op_name`].
        op: Name,
        /// `posix`, `stdio` or `mpi-io`: see [`layer_name`].
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
        /// What the program calls it.
        name: Name,
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

/// The name of a layer.
pub fn layer_name(layer: Layer) -> &'static str {
    match layer {
        Layer::Posix => "posix",
        Layer::Stdio => "stdio",
        Layer::MpiIo => "mpi-io",
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

/// What the I/O of a job adds up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoSums {
    /// All that read.
    pub read: Cell,
    /// All that wrote.
    pub write: Cell,
    /// All other calls.
    pub other: Cell,
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

    /// What the I/O adds up to.
    pub fn io(&self) -> IoSums {
        let mut sums = IoSums::default();
        for (metric, cell) in &self.cells {
            if let Metric::Io { op, .. } = metric {
                match op.as_str() {
                    "read" => sums.read.add(*cell),
                    "write" => sums.write.add(*cell),
                    _ => sums.other.add(*cell),
                }
            }
        }
        sums
    }

    /// What the calls of MPI add up to.
    pub fn mpi(&self) -> Cell {
        let mut sum = Cell::default();
        for (metric, cell) in &self.cells {
            if matches!(metric, Metric::Mpi { .. }) {
                sum.add(*cell);
            }
        }
        sum
    }
}

impl FromIterator<(Metric, Cell)> for Counters {
    fn from_iter<I: IntoIterator<Item = (Metric, Cell)>>(cells: I) -> Self {
        let mut counters = Self::default();
        cells.into_iter().for_each(|(metric, cell)| counters.add(metric, cell));
        counters
    }
}
