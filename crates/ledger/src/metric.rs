//! Quantities that are counted, each declared once: its names, its units, its help.
//!
//! **To add a counter of the system:** a variant of [`SystemCounter`] with its [`declaration`](SystemCounter::declaration), and a line where it is read
//! (`daemon/src/collect/cgroups.rs`). The store, daemons above, `/metrics`, metrics over time, models, rules of alarms, the job's document and its page follow
//! from the declaration.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use iotide_wire::Op;
use iotide_wire::page::{MpiFunction, PageLayer};

use crate::counters::Cell;
use crate::identity::Name;

/// Quantity that a cell counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// Calls that do I/O.
    Io {
        /// The operation.
        op: Word<Op>,
        /// The layer of the call.
        layer: Word<PageLayer>,
        /// The file system: where it is mounted, or its type.
        fs: Name,
    },
    /// Calls of an MPI function.
    Mpi {
        /// `MPI_Gather`.
        function: Word<MpiFunction>,
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
    System(Word<SystemCounter>),
    /// Calls that could not be counted.
    Lost,
    /// Processes that were killed or aborted, of ranks or of others: what they would have counted is not known.
    Killed {
        /// Whether they were ranks.
        is_rank: bool,
    },
}

impl Metric {
    /// Whether it is a counter of the program's own.
    pub(crate) fn is_own(&self) -> bool {
        matches!(self, Self::Own { .. })
    }

    /// Whether it is I/O on behalf of a call of a layer above: the same bytes again, which are in no sum.
    pub fn is_beneath(&self) -> bool {
        matches!(self, Self::Io { layer: Word::Ours(PageLayer::Beneath), .. })
    }

    /// Returns its columns in a database: kind, name, layer or unit, file system.
    pub fn columns(&self) -> [&str; 4] {
        match self {
            Self::Io { op, layer, fs } => ["io", op.as_str(), layer.as_str(), fs.as_str()],
            Self::Mpi { function } => ["mpi", function.as_str(), "", ""],
            Self::Own { name, unit } => ["own", name.as_str(), unit.as_str(), ""],
            Self::System(counter) => ["cgroup", counter.as_str(), "", ""],
            Self::Threads => ["threads", "", "", ""],
            Self::OtherThreads => ["threads", "other", "", ""],
            Self::Lost => ["lost", "", "", ""],
            Self::Killed { is_rank: true } => ["killed", "", "", ""],
            Self::Killed { is_rank: false } => ["killed", "other", "", ""],
        }
    }

    /// The reverse of [`Self::columns`]; `None` if the kind is unknown.
    pub fn of_columns([kind, name, layer, fs]: [&str; 4]) -> Option<Self> {
        let cut = |text: &str| Name::cut(text.as_bytes());
        Some(match kind {
            "io" => Self::Io { op: name.into(), layer: layer.into(), fs: cut(fs) },
            "mpi" => Self::Mpi { function: name.into() },
            "own" => Self::Own { name: cut(name), unit: cut(layer) },
            "cgroup" => Self::System(name.into()),
            "threads" if name.is_empty() => Self::Threads,
            "threads" => Self::OtherThreads,
            "lost" => Self::Lost,
            "killed" => Self::Killed { is_rank: name.is_empty() },
            _ => return None,
        })
    }
}

/// A set of words of ours.
pub trait Words: Copy + PartialEq + 'static {
    /// Returns all of them.
    fn all() -> impl Iterator<Item = Self>;
    /// Returns how it is written.
    fn word(self) -> &'static str;
}

/// A word of ours, or one of another daemon that has more of them. Words are equal, and in order, as they are written.
#[derive(Clone)]
pub enum Word<T> {
    /// A word of ours.
    Ours(T),
    /// Any other.
    Other(Name),
}

impl<T: Words> Word<T> {
    /// Returns the word as it is written.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Ours(ours) => ours.word(),
            Self::Other(name) => name.as_str(),
        }
    }

    /// Returns the word if it is one of ours.
    pub fn ours(&self) -> Option<T> {
        match self {
            Self::Ours(ours) => Some(*ours),
            Self::Other(_) => None,
        }
    }
}

impl<T: Words> From<T> for Word<T> {
    fn from(ours: T) -> Self {
        Self::Ours(ours)
    }
}

impl<T: Words> From<Name> for Word<T> {
    fn from(name: Name) -> Self {
        T::all().find(|ours| ours.word() == name.as_str()).map_or(Self::Other(name), Self::Ours)
    }
}

impl<T: Words> From<&str> for Word<T> {
    fn from(text: &str) -> Self {
        let ours = T::all().find(|ours| ours.word() == text);
        ours.map_or_else(|| Self::Other(Name::cut(text.as_bytes())), Self::Ours)
    }
}

impl<T: Words> PartialEq for Word<T> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Ours(one), Self::Ours(other)) => one == other,
            _ => self.as_str() == other.as_str(),
        }
    }
}

impl<T: Words> PartialEq<T> for Word<T> {
    fn eq(&self, other: &T) -> bool {
        self.ours() == Some(*other)
    }
}

impl<T: Words> Eq for Word<T> {}

impl<T: Words> PartialOrd for Word<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Words> Ord for Word<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl<T: Words> Hash for Word<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl<T: Words> fmt::Debug for Word<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Word").field(&self.as_str()).finish()
    }
}

impl<T: Words> fmt::Display for Word<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Words for Op {
    fn all() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter()
    }

    fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Open => "open",
            Self::Close => "close",
            Self::Seek => "seek",
            Self::Stat => "stat",
            Self::Sync => "sync",
            Self::Rename => "rename",
            Self::Unlink => "unlink",
            Self::Map => "map",
            Self::Resize => "resize",
            Self::Directory => "directory",
            Self::Flush => "flush",
            Self::View => "view",
            Self::Place => "place",
        }
    }
}

impl Words for PageLayer {
    fn all() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter()
    }

    fn word(self) -> &'static str {
        self.name()
    }
}

impl Words for MpiFunction {
    fn all() -> impl Iterator<Item = Self> {
        MpiFunction::all()
    }

    fn word(self) -> &'static str {
        self.name()
    }
}

/// A number of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// How many.
    Count,
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Time,
}

impl Measure {
    /// Returns the number in a cell.
    pub fn of(self, cell: Cell) -> u64 {
        match self {
            Self::Count => cell.calls,
            Self::Bytes => cell.bytes,
            Self::Time => cell.ns,
        }
    }

    /// Returns a cell that has this number and no other.
    pub fn cell(self, value: u64) -> Cell {
        match self {
            Self::Count => Cell { calls: value, ..Cell::default() },
            Self::Bytes => Cell { bytes: value, ..Cell::default() },
            Self::Time => Cell { ns: value, ..Cell::default() },
        }
    }
}

/// A counter of the system for all processes of a job. What it counts only grows, and adds up over nodes and over steps of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemCounter {
    /// Processor time of programs.
    CpuUser,
    /// Processor time of the system.
    CpuSystem,
    /// Requests that read from devices.
    DeviceRead,
    /// Requests that wrote to devices.
    DeviceWrite,
}

/// The declaration of a counter.
#[derive(Clone, Copy, Debug)]
pub struct Declaration {
    /// Its name in the store, between daemons and among what is modelled.
    pub name: &'static str,
    /// Its numbers.
    pub values: &'static [CounterValue],
}

/// One number of a counter, under its names.
#[derive(Clone, Copy, Debug)]
pub struct CounterValue {
    /// The number of the cell.
    pub measure: Measure,
    /// Help for people.
    pub help: &'static str,
    /// Its name over time, and in rules of alarms.
    pub series: &'static str,
    /// Its field in the job's document.
    pub field: &'static str,
    /// Its samples in `/metrics`.
    pub family: &'static SampleFamily,
    /// The label that tells its samples from others of the family, and its value.
    pub label: (&'static str, &'static str),
}

/// Samples of one name in `/metrics`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleFamily {
    /// The name.
    pub name: &'static str,
    /// Help for people.
    pub help: &'static str,
}

const CPU: SampleFamily = SampleFamily {
    name: "iotide_job_cpu_seconds_total",
    help: "Processor time of all processes of a job, as its cgroup says.",
};
const DEVICE_BYTES: SampleFamily = SampleFamily {
    name: "iotide_job_device_bytes_total",
    help: "Bytes that all processes of a job moved from and to devices, as its cgroup says.",
};
const DEVICE_REQUESTS: SampleFamily = SampleFamily {
    name: "iotide_job_device_requests_total",
    help: "Requests of all processes of a job to devices, as its cgroup says.",
};

impl SystemCounter {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::CpuUser, Self::CpuSystem, Self::DeviceRead, Self::DeviceWrite];

    /// Those that add up to the processor time of a job.
    pub const CPU: [Self; 2] = [Self::CpuUser, Self::CpuSystem];

    /// Returns the declaration.
    pub const fn declaration(self) -> Declaration {
        match self {
            Self::CpuUser => Declaration {
                name: "cpu_user",
                values: &[CounterValue {
                    measure: Measure::Time,
                    help: "processor time of the programs",
                    series: "cpu_user_ns",
                    field: "cpu_user_s",
                    family: &CPU,
                    label: ("mode", "user"),
                }],
            },
            Self::CpuSystem => Declaration {
                name: "cpu_system",
                values: &[CounterValue {
                    measure: Measure::Time,
                    help: "processor time of the system on their behalf",
                    series: "cpu_system_ns",
                    field: "cpu_system_s",
                    family: &CPU,
                    label: ("mode", "system"),
                }],
            },
            Self::DeviceRead => Declaration {
                name: "device_read",
                values: &[
                    CounterValue {
                        measure: Measure::Bytes,
                        help: "bytes read from devices, without those from caches",
                        series: "device_read_bytes",
                        field: "device_bytes_read",
                        family: &DEVICE_BYTES,
                        label: ("op", "read"),
                    },
                    CounterValue {
                        measure: Measure::Count,
                        help: "requests that read from devices",
                        series: "device_read_requests",
                        field: "device_reads",
                        family: &DEVICE_REQUESTS,
                        label: ("op", "read"),
                    },
                ],
            },
            Self::DeviceWrite => Declaration {
                name: "device_write",
                values: &[
                    CounterValue {
                        measure: Measure::Bytes,
                        help: "bytes written to devices",
                        series: "device_write_bytes",
                        field: "device_bytes_written",
                        family: &DEVICE_BYTES,
                        label: ("op", "write"),
                    },
                    CounterValue {
                        measure: Measure::Count,
                        help: "requests that wrote to devices",
                        series: "device_write_requests",
                        field: "device_writes",
                        family: &DEVICE_REQUESTS,
                        label: ("op", "write"),
                    },
                ],
            },
        }
    }

    /// Returns all numbers of all counters.
    pub fn values() -> impl Iterator<Item = (Self, &'static CounterValue)> {
        Self::ALL
            .into_iter()
            .flat_map(|counter| counter.declaration().values.iter().map(move |value| (counter, value)))
    }

    /// Returns the samples of all counters in `/metrics`, each name once.
    pub fn families() -> Vec<&'static SampleFamily> {
        let mut families: Vec<&SampleFamily> = Vec::new();
        for (_, value) in Self::values() {
            if !families.contains(&value.family) {
                families.push(value.family);
            }
        }
        families
    }
}

impl Words for SystemCounter {
    fn all() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter()
    }

    fn word(self) -> &'static str {
        self.declaration().name
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use proptest::prelude::*;

    fn name() -> impl Strategy<Value = Name> {
        prop_oneof![
            "[a-z_/]{0,12}",
            Just("read".to_owned()),
            Just("beneath".to_owned()),
            Just("cpu_user".to_owned())
        ]
        .prop_map(|text| Name::cut(text.as_bytes()))
    }

    /// Any metric, with words of ours and others.
    fn any_metric() -> impl Strategy<Value = Metric> {
        prop_oneof![
            (name(), name(), name()).prop_map(|(op, layer, fs)| Metric::Io {
                op: op.into(),
                layer: layer.into(),
                fs
            }),
            name().prop_map(|function| Metric::Mpi { function: function.into() }),
            (name(), name()).prop_map(|(name, unit)| Metric::Own { name, unit }),
            Just(Metric::Threads),
            Just(Metric::OtherThreads),
            name().prop_map(|counter| Metric::System(counter.into())),
            Just(Metric::Lost),
            any::<bool>().prop_map(|is_rank| Metric::Killed { is_rank }),
        ]
    }

    proptest! {
        #[test]
        fn a_metric_is_the_same_after_the_database(metric in any_metric()) {
            prop_assert_eq!(Metric::of_columns(metric.columns()), Some(metric));
        }

        #[test]
        fn words_are_equal_and_in_order_as_they_are_written(one in name(), other in name()) {
            let words: [Word<Op>; 2] = [one.clone().into(), other.clone().into()];
            prop_assert_eq!(words[0].cmp(&words[1]), one.cmp(&other));
            prop_assert_eq!(words[0] == words[1], one == other);
            prop_assert_eq!(words[0].as_str(), one.as_str());
        }
    }

    #[test]
    fn a_word_of_ours_is_known_by_its_text() {
        assert_eq!(Word::<Op>::from("write"), Op::Write);
        assert_eq!(Word::<Op>::from("write").ours(), Some(Op::Write));
        assert_eq!(Word::<Op>::from("all").ours(), None);
        let beneath = |layer: &str| {
            Metric::Io { op: "read".into(), layer: layer.into(), fs: Name::default() }.is_beneath()
        };
        assert!(beneath("beneath") && !beneath("posix") && !beneath("all"));
    }

    #[test]
    fn no_two_numbers_of_counters_have_one_name() {
        let all = || SystemCounter::values().map(|(_, value)| value);
        let n_different = |names: &mut dyn Iterator<Item = String>| names.collect::<BTreeSet<_>>().len();
        assert_eq!(n_different(&mut all().map(|value| value.series.to_owned())), all().count());
        assert_eq!(n_different(&mut all().map(|value| value.field.to_owned())), all().count());
        let sample = |value: &CounterValue| format!("{}{:?}", value.family.name, value.label);
        assert_eq!(n_different(&mut all().map(sample)), all().count());
        let families = SystemCounter::families();
        let n_names = n_different(&mut families.iter().map(|family| family.name.to_owned()));
        assert_eq!(n_names, families.len());
        for (_, value) in SystemCounter::values() {
            assert!(value.family.name.ends_with("_total"), "{value:?}");
            assert_eq!(value.measure == Measure::Time, value.series.ends_with("_ns"), "{value:?}");
        }
    }
}
