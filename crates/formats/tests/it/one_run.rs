use iotide_formats::darshan::{Compression, Endian};
use iotide_formats::open_many;
use iotide_testkit::FreshDir;
use iotide_trace::{Rank, Trace};

use crate::darshan::writer::{LogWriter, START_S};

fn log(start_s: i64, job_id: i64) -> Vec<u8> {
    let rich = LogWriter::rich(41, Endian::Little, Compression::Zlib);
    LogWriter { start_s, end_s: start_s + 9, job_id, ..rich }.write()
}

fn read(logs: &[Vec<u8>]) -> Trace {
    let dir = FreshDir::new("one-run");
    let paths: Vec<_> =
        (logs.iter().enumerate()).map(|(i, log)| dir.write(format!("{i}.darshan"), log)).collect();
    let mut trace = Trace::default();
    trace.info = open_many(&paths).unwrap().read(&mut trace).unwrap();
    for loss in &mut trace.losses {
        loss.what = loss.what.replace(&format!("{}/", dir.path().display()), "");
    }
    trace
}

#[test]
fn logs_of_one_job_are_put_on_one_clock_with_ranks_of_their_own() {
    let alone = read(&[log(START_S, 77)]);
    let trace = read(&[log(START_S, 77), log(START_S + 20, 77), log(START_S - 3, 77)]);
    assert_eq!(trace.losses, []);
    let n = alone.events.len();
    assert_eq!(trace.events.len(), 3 * n);
    for (log, (shift_s, rank_base)) in [(0, 0), (20, 4), (-3, 8)].into_iter().enumerate() {
        for (merged, event) in trace.events[log * n..][..n].iter().zip(&alone.events) {
            assert_eq!(merged.start, event.start.plus_nanos(shift_s * 1_000_000_000));
            assert_eq!(merged.end, event.end.plus_nanos(shift_s * 1_000_000_000));
            let rank = if event.rank == Rank::ALL { Rank::ALL } else { Rank(event.rank.0 + rank_base) };
            assert_eq!((merged.rank, merged.bytes, merged.op), (rank, event.bytes, event.op));
        }
    }
    let job = trace.info.job;
    assert_eq!(job.job_id.as_deref(), Some("77"));
    assert_eq!(job.n_procs, Some(12));
    assert_eq!(job.start_time_unix_s, Some(START_S as f64 + 0.25), "the first log's, from which times count");
    // From 3 s before the first log to 29.25 s after it: each ran for 9.25 s.
    assert_eq!(job.run_time_s, Some(32.25));
}

#[test]
fn logs_of_different_jobs_are_read_and_the_difference_is_a_loss() {
    let trace = read(&[log(START_S, 77), log(START_S, 78), log(START_S, 79)]);
    let what: Vec<_> = trace.losses.iter().map(|loss| loss.what.as_str()).collect();
    assert_eq!(
        what,
        ["the files are of different jobs, 77 and 78, and 1 more files not of 77: they may not be one run"]
    );
    assert!(!trace.events.is_empty());
}

#[test]
fn one_killed_process_leaves_the_run_time_open() {
    let killed = LogWriter { end_s: 0, ..LogWriter::rich(21, Endian::Big, Compression::Bzip2) }.write();
    let trace = read(&[log(START_S, 77), killed]);
    assert_eq!(trace.info.job.run_time_s, None);
}

#[test]
fn what_one_process_left_beside_a_whole_log_counts_as_one() {
    let rich = LogWriter::rich(41, Endian::Little, Compression::None);
    let left = LogWriter { start_s: START_S, end_s: 0, job_id: 77, ..rich }.write();
    let job = read(&[log(START_S, 77), left]).info.job;
    assert_eq!((job.n_procs, job.n_compared()), (Some(8), Some(5)));
    let job = read(&[log(START_S, 77), log(START_S, 77)]).info.job;
    assert_eq!((job.n_procs, job.n_told), (Some(8), None));
}
