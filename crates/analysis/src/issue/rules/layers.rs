//! Checks that compare MPI-IO with the calls beneath it.

use iotide_trace::Layer;

use super::cause_of;
use super::requests::slowest_way_s;
use crate::issue::cost::Cost;
use crate::issue::run::{FileUse, Run, Way};
use crate::issue::{Calls, Cause, Draft, IssueId, Kind, Saved};

pub(super) fn check(run: &Run, found: &mut Vec<Draft>) {
    found.extend(amplification(run, Way::Read));
    found.extend(amplification(run, Way::Write));
    found.extend(overhead(run));
    found.extend(few_aggregators(run));
}

/// Bytes that were asked for on a file: by MPI-IO, else by a library; `None` if neither is known.
fn asked(file: &FileUse, way: Way) -> Option<f64> {
    let mpi = file.mpi.way(way);
    if !file.mpi.is_empty() && file.mpi.seconds() > 0.0 {
        return if mpi.calls == 0 { Some(0.0) } else { mpi.bytes };
    }
    let library = file.library.way(way);
    (library.bytes() > 0.0).then_some(library.bytes())
}

fn amplification(run: &Run, way: Way) -> Option<Draft> {
    const HEADER_BYTES: f64 = 1e6;
    let mut saved = Saved::default();
    let mut calls = Calls::default();
    let (mut all_asked, mut all_moved, mut read_s, mut n_calls) = (0.0, 0.0, 0.0, 0.0);
    let mut cause = Cause::default();
    for (at, file) in run.data_files() {
        let beneath = file.posix.way(way);
        let Some(asked) = asked(file, way).filter(|_| beneath.calls > 0 && file.is_seen_beneath()) else {
            continue;
        };
        let moved = beneath.bytes();
        // Reads at the end of a file that grows move nothing and take time all the same.
        let is_of_nothing =
            way == Way::Read && asked == 0.0 && beneath.calls >= 100 && moved < 100.0 * beneath.calls as f64;
        let is_more = moved > run.thresholds.amplification * asked && moved - asked >= HEADER_BYTES;
        if !(is_more || is_of_nothing) {
            continue;
        }
        let share = if moved > 0.0 { 1.0 - asked / moved } else { 1.0 };
        let k = file.n_aggregators(way, run.n_ranks);
        let mut slowest = share * slowest_way_s(&file.posix, way, run.n_ranks);
        let mut likely = (share * beneath.seconds / k).min(slowest);
        let mut mean = share * beneath.seconds / run.n_ranks;
        // Data sieving reads before it writes.
        let sieved = file.posix.way(Way::Read);
        if way == Way::Write && file.mpi.way(Way::Read).calls == 0 && sieved.seconds > 0.0 {
            let slowest_read = slowest_way_s(&file.posix, Way::Read, run.n_ranks);
            likely += (sieved.seconds / file.n_aggregators(Way::Read, run.n_ranks)).min(slowest_read);
            slowest += slowest_read;
            mean += sieved.seconds / run.n_ranks;
            read_s += sieved.seconds;
            calls.add(at, Way::Read, sieved.seconds);
        }
        saved.cautious += mean;
        saved.likely += likely;
        saved.optimistic += slowest.max(likely);
        calls.add(at, way, share * beneath.seconds);
        all_asked += asked;
        all_moved += moved;
        n_calls += beneath.calls as f64;
        cause = Cause { layer: Layer::Posix, ..cause_of(file, run) };
    }
    let id = if way == Way::Read { IssueId::ReadAmplification } else { IssueId::WriteAmplification };
    let evidence = [
        ("asked_bytes", all_asked),
        ("moved_bytes", all_moved),
        ("reads_before_writes_s", read_s),
        ("calls", n_calls),
    ];
    (!calls.0.is_empty()).then(|| Draft::new(id, saved, calls).with(&evidence).because(cause))
}

/// Exchange between ranks, waiting, locks and views: time in MPI-IO that is not spent beneath it.
fn overhead(run: &Run) -> Option<Draft> {
    let mut above_s = 0.0;
    let mut calls = Calls::default();
    let (mut mpi_s, mut posix_s) = (0.0, 0.0);
    let mut cause = Cause::default();
    for (at, file) in run.data_files().filter(|(_, file)| !file.mpi.is_empty() && file.is_seen_beneath()) {
        if file.mpi.bytes() <= 0.0 {
            continue;
        }
        let mean = file.mpi.seconds() / file.mpi.n_users(run.n_ranks).max(1.0);
        let slowest = file.posix.slowest_s(run.n_ranks);
        if mean <= slowest {
            continue;
        }
        above_s += mean - slowest;
        mpi_s += mean;
        posix_s += slowest;
        calls.add(at, Kind::Exchange, mean - slowest);
        cause = Cause { layer: Layer::MpiIo, ..cause_of(file, run) };
    }
    let saved = Saved { cautious: 0.25 * above_s, likely: 0.5 * above_s, optimistic: above_s };
    let evidence = [("mpi_io_s", mpi_s), ("posix_s", posix_s)];
    (above_s > 0.0).then(|| Draft::new(IssueId::MpiioOverhead, saved, calls).with(&evidence).because(cause))
}

/// Whether every rank hands in about as much.
fn hands_in_alike(file: &FileUse, way: Way, n_ranks: f64) -> bool {
    let mut cost = Cost::default();
    file.mpi.records.iter().for_each(|record| cost.add_bytes(record, way.of(record).bytes(), n_ranks));
    let mean = cost.mean(n_ranks);
    let least = file.mpi.records.iter().filter_map(|record| record.fastest).map(|fastest| fastest.bytes);
    let least = least.fold(f64::INFINITY, f64::min);
    mean > 0.0 && cost.busiest() <= 2.0 * mean && (least == f64::INFINITY || least > 0.0)
}

fn few_aggregators(run: &Run) -> Option<Draft> {
    let n = run.n_ranks;
    let few = (n / 512.0).max(2.0);
    let mut slowest_s = 0.0;
    let mut calls = Calls::default();
    let (mut most, mut cause) = (0.0, Cause::default());
    for (at, file) in run.data_files().filter(|(_, file)| n >= 4.0 && file.is_seen_beneath()) {
        for way in Way::BOTH.into_iter().filter(|way| file.is_collective(*way)) {
            let k = file.n_aggregators(way, n);
            // One for each node, or for each target, is what MPI-IO means to do.
            let is_spread = k >= 2.0
                && (run.n_nodes.is_some_and(|nodes| k >= nodes as f64)
                    || k >= file.targets.len().max(1) as f64);
            let is_alike = hands_in_alike(file, way, n);
            let seconds = slowest_way_s(&file.posix, way, n);
            if k > few || (is_spread && !file.targets.is_empty()) || !is_alike || seconds <= 0.0 {
                continue;
            }
            slowest_s += seconds;
            calls.add(at, way, seconds);
            most = f64::max(most, k);
            cause = Cause { layer: Layer::MpiIo, ..cause_of(file, run) };
        }
    }
    let saved = Saved { cautious: 0.25 * slowest_s, likely: 0.5 * slowest_s, optimistic: slowest_s };
    let wanted = run.n_nodes.map_or(n / 64.0, |nodes| nodes as f64).clamp(4.0_f64.min(n), 64.0);
    let evidence = [
        ("aggregators", most),
        ("ranks", n),
        ("slowest_aggregator_s", slowest_s),
        ("aggregators_wanted", wanted.round()),
    ];
    (slowest_s > 0.0)
        .then(|| Draft::new(IssueId::FewAggregators, saved, calls).with(&evidence).because(cause))
}
