//! Checks on phases of I/O.

use iotide_trace::Layer;

use crate::issue::phases::Phase;
use crate::issue::run::{Run, Way};
use crate::issue::{Calls, Cause, Draft, IssueId, Saved};

pub(super) fn check(run: &Run, found: &mut Vec<Draft>) {
    found.extend(slow_phase(run));
    let blocking = blocking_io(run, found);
    found.extend(blocking);
}

fn written(phase: &Phase) -> bool {
    phase.written > phase.read
}

fn slow_phase(run: &Run) -> Option<Draft> {
    const LEAST_PHASES: usize = 4;
    // The first one creates files and warms caches.
    let phases = run.phases.get(1..)?;
    let mut bytes: Vec<f64> = phases.iter().map(|phase| phase.read + phase.written).collect();
    bytes.sort_by(f64::total_cmp);
    let median_bytes = *bytes.get(bytes.len() / 2)?;
    let alike: Vec<&Phase> = (phases.iter())
        .filter(|phase| {
            let bytes = phase.read + phase.written;
            2.0 * bytes >= median_bytes && bytes <= 2.0 * median_bytes
        })
        .collect();
    let mut seconds: Vec<f64> = alike.iter().map(|phase| phase.seconds).collect();
    seconds.sort_by(f64::total_cmp);
    if alike.len() + 1 < LEAST_PHASES || 2 * alike.len() < phases.len() {
        return None;
    }
    let median_s = seconds[seconds.len() / 2];
    // A phase may be longer than it was by the bin that it ends in.
    let least_s = run.thresholds.phase_factor * median_s + run.bin_s;
    let slow = alike.iter().filter(|phase| phase.seconds >= least_s);
    let worst = slow.clone().max_by(|a, b| a.seconds.total_cmp(&b.seconds))?;
    let more_s: f64 = slow.clone().map(|phase| phase.seconds - run.bin_s - median_s).sum();
    let saved = Saved { cautious: 0.5 * more_s, likely: more_s, optimistic: more_s };
    let mut calls = Calls::default();
    let way = if written(worst) { Way::Write } else { Way::Read };
    let at = run.data_files().max_by(|a, b| a.1.posix.seconds().total_cmp(&b.1.posix.seconds()))?.0;
    calls.add(at, way, more_s);
    let evidence = [
        ("phases", alike.len() as f64),
        ("slow_phases", slow.count() as f64),
        ("slowest_s", worst.seconds),
        ("slowest_at_s", worst.start_s),
        ("median_s", median_s),
    ];
    Some(Draft::new(IssueId::SlowPhase, saved, calls).with(&evidence))
}

/// Writes in separate phases that computation could overlap.
fn blocking_io(run: &Run, found: &[Draft]) -> Option<Draft> {
    const LEAST_PHASES: usize = 3;
    let run_s = run.run_s?;
    let n_phases = run.phases.iter().filter(|phase| written(phase)).count();
    let is_nonblocking = run.files.iter().any(|file| {
        Way::BOTH.into_iter().any(|way| file.mpi.way(way).nonblocking.is_some_and(|calls| calls > 0))
    });
    if n_phases < LEAST_PHASES || is_nonblocking || run.io_s() > 0.9 * run_s {
        return None;
    }
    let mut cost = crate::issue::cost::Cost::default();
    let mut calls = Calls::default();
    for (at, file) in run.data_files() {
        for record in file.top() {
            let seconds = record.writes.seconds + record.sync_s.unwrap_or(0.0);
            cost.add(record, seconds, run.n_ranks);
            calls.add(at, Way::Write, seconds);
        }
    }
    // Time that another issue explains goes away by another fix.
    let explained = found.iter().map(|draft| draft.saved.likely).fold(0.0, f64::max);
    let write_s = (cost.busiest().min(run_s) - explained).max(0.0);
    let hidden = write_s.min(run_s - write_s);
    let saved = Saved { cautious: 0.0, likely: 0.25 * hidden, optimistic: hidden };
    let evidence = [("write_phases", n_phases as f64), ("busiest_rank_s", write_s)];
    let is_mpi = run.files.iter().any(|file| file.mpi.seconds() > 0.0);
    let cause = Cause { layer: if is_mpi { Layer::MpiIo } else { Layer::Posix }, ..Cause::default() };
    (write_s > 0.0).then(|| Draft::new(IssueId::BlockingIo, saved, calls).with(&evidence).because(cause))
}
