//! Counters of a job over time: under which names they are sampled, and counters made of such samples again.

use std::borrow::Cow;

use iotide_wire::Op;

use super::Sample;
use crate::counters::{Cell, Counters};
use crate::identity::Name;
use crate::metric::{Measure, Metric, SystemCounter, Word, Words};

/// How names of a program's own counters begin.
const OWN: &str = "own.";
/// Names of what ranks did in MPI, and of the time of all threads, without their ends.
const MPI: &str = "mpi";
const THREADS: &str = "threads";

/// Returns the samples of a job that has `n_running` processes.
pub fn samples_of_job(counters: &Counters, n_running: u32) -> Vec<(Cow<'static, str>, Sample)> {
    let mut samples: Vec<(Cow<'static, str>, Sample)> = Vec::new();
    for (metric, cell) in counters.iter() {
        if let Metric::Own { name, .. } = metric {
            samples.push((format!("{OWN}{name}").into(), Sample::Counter(cell.calls)));
        }
    }
    samples.extend(counters.of_system().map(|(value, n)| (value.series.into(), Sample::Counter(n))));
    let mut by_op = counters.by_op();
    // Both are drawn of every job.
    let drawn = [Op::Read, Op::Write].map(Word::from);
    for op in &drawn {
        by_op.entry(op).or_default();
    }
    let mut put = |names: [Cow<'static, str>; 3], cell: Cell, moves: bool| {
        let [calls, bytes, ns] = names;
        samples.push((calls, Sample::Counter(cell.calls)));
        if moves {
            samples.push((bytes, Sample::Counter(cell.bytes)));
        }
        samples.push((ns, Sample::Counter(cell.ns)));
    };
    for (op, sum) in by_op {
        let names = match op.ours() {
            Some(Op::Read) => ["read_calls", "read_bytes", "read_ns"].map(Cow::Borrowed),
            Some(Op::Write) => ["write_calls", "write_bytes", "write_ns"].map(Cow::Borrowed),
            Some(Op::Open) => ["open_calls", "", "open_ns"].map(Cow::Borrowed),
            Some(Op::Close) => ["close_calls", "", "close_ns"].map(Cow::Borrowed),
            _ => ["calls", "bytes", "ns"].map(|what| format!("{op}_{what}").into()),
        };
        put(names, sum, drawn.contains(op));
    }
    let mpi = counters.mpi();
    if !mpi.is_zero() {
        put(["mpi_calls", "mpi_bytes", "mpi_ns"].map(Cow::Borrowed), mpi, true);
    }
    samples.push(("threads_ns".into(), Sample::Counter(counters.threads().ns)));
    samples.push(("processes".into(), Sample::Gauge(n_running.into())));
    samples
}

/// Returns the names that samples of a job can have; `own.COUNTER` stands for those of programs.
pub fn names_of_job() -> Vec<String> {
    let mut counters = Counters::default();
    let mut count = |metric: Metric| counters.add(metric, Cell { calls: 1, bytes: 1, ns: 1 });
    for op in Op::all() {
        count(Metric::Io { op: op.into(), layer: "posix".into(), fs: Name::ours("/") });
    }
    count(Metric::Mpi { function: "MPI_Barrier".into() });
    count(Metric::Own { name: Name::ours("COUNTER"), unit: Name::default() });
    SystemCounter::all().for_each(|counter| count(Metric::System(counter.into())));
    samples_of_job(&counters, 1).into_iter().map(|(name, _)| name.into_owned()).collect()
}

/// Returns counters from the last values of samples, by their names. Layers, file systems and functions were added up in them.
pub fn counters_of_samples<'a>(samples: impl Iterator<Item = (&'a str, u64)>) -> Counters {
    const ALL: &str = "all";
    let mut counters = Counters::default();
    for (name, value) in samples {
        if let Some(own) = name.strip_prefix(OWN) {
            let metric = Metric::Own { name: Name::cut(own.as_bytes()), unit: Name::default() };
            counters.add(metric, Measure::Count.cell(value));
        } else if let Some((counter, of)) = SystemCounter::values().find(|(_, of)| of.series == name) {
            counters.add(Metric::System(counter.into()), of.measure.cell(value));
        } else if let Some((what, measure)) = measured(name) {
            let metric = match what {
                MPI => Metric::Mpi { function: ALL.into() },
                THREADS => Metric::Threads,
                op => Metric::Io { op: op.into(), layer: ALL.into(), fs: Name::ours(ALL) },
            };
            counters.add(metric, measure.cell(value));
        }
    }
    counters
}

/// Returns the operation and the number that a name means.
fn measured(name: &str) -> Option<(&str, Measure)> {
    let (what, unit) = name.rsplit_once('_')?;
    let measure = match unit {
        "calls" => Measure::Count,
        "bytes" => Measure::Bytes,
        "ns" => Measure::Time,
        _ => return None,
    };
    Some((what, measure))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_made_of_samples_have_the_sums_of_those_that_were_sampled() {
        let cell = |n: u64| Cell { calls: n, bytes: 10 * n, ns: 100 * n };
        let io =
            |op: &str, layer: &str| Metric::Io { op: op.into(), layer: layer.into(), fs: Name::ours("/") };
        let system = |counter: SystemCounter| {
            let values = counter.declaration().values;
            let known = values.iter().fold(Cell::default(), |mut sum, value| {
                sum.add(value.measure.cell(value.measure.of(cell(7))));
                sum
            });
            (Metric::System(counter.into()), known)
        };
        let counted: Counters = [
            (io("read", "posix"), cell(1)),
            (io("write", "posix"), cell(2)),
            (io("write", "stdio"), cell(3)),
            (io("write", "beneath"), cell(1000)),
            (io("sync", "posix"), Cell { bytes: 0, ..cell(4) }),
            (Metric::Mpi { function: "MPI_Send".into() }, cell(5)),
            (Metric::Threads, Cell { ns: 9, ..Cell::default() }),
            (Metric::Own { name: Name::ours("steps"), unit: Name::default() }, Measure::Count.cell(6)),
        ]
        .into_iter()
        .chain(SystemCounter::all().map(system))
        .collect();
        let samples = samples_of_job(&counted, 3);
        let counters = samples.iter().filter_map(|(name, sample)| match sample {
            Sample::Counter(value) => Some((name.as_ref(), *value)),
            Sample::Gauge(_) => None,
        });
        let made = counters_of_samples(counters);
        assert_eq!(made.io(), counted.io());
        assert_eq!((made.mpi(), made.threads()), (counted.mpi(), counted.threads()));
        let own = Metric::Own { name: Name::ours("steps"), unit: Name::default() };
        assert_eq!(made.get(&own).calls, 6);
        for counter in SystemCounter::all() {
            let metric = Metric::System(counter.into());
            assert!(!made.get(&metric).is_zero());
            assert_eq!(made.get(&metric), counted.get(&metric), "{counter:?}");
        }
    }

    #[test]
    fn every_name_is_known_once() {
        let names = names_of_job();
        for name in
            ["read_bytes", "sync_ns", "mpi_calls", "threads_ns", "own.COUNTER", "device_read_requests"]
        {
            assert_eq!(names.iter().filter(|known| *known == name).count(), 1, "{name}");
        }
        assert!(!names.iter().any(String::is_empty));
    }
}
