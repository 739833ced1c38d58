//! Checks on bytes that are moved again, on syncs and on C streams.

use iotide_trace::{FileRecord, Layer, Rank};

use super::cause_of;
use crate::issue::cost::Cost;
use crate::issue::run::{FileUse, Layered, Run, Way};
use crate::issue::{Calls, Cause, Draft, IssueId, Saved};

pub(super) fn check(run: &Run, found: &mut Vec<Draft>) {
    found.extend(redundant(run, Way::Read));
    found.extend(redundant(run, Way::Write));
    found.extend(excessive_sync(run));
    found.extend(stdio_bulk(run));
}

/// Bytes that were asked for, and the layer that asked.
fn asked<'a, 'f>(file: &'f FileUse<'a>, way: Way) -> &'f Layered<'a> {
    let mpi = file.mpi.way(way);
    let is_asked_above = file.mpi.seconds() > 0.0 && (mpi.bytes() > 0.0 || mpi.calls == 0);
    if is_asked_above { &file.mpi } else { &file.posix }
}

/// The most that one rank moved of a file.
fn most_of_a_rank(layered: &Layered, way: Way, n_ranks: f64) -> f64 {
    let mut cost = Cost::default();
    layered.records.iter().for_each(|record| cost.add_bytes(record, way.of(record).bytes(), n_ranks));
    cost.busiest()
}

fn redundant(run: &Run, way: Way) -> Option<Draft> {
    let mut saved = Saved::default();
    let mut calls = Calls::default();
    let (mut all_moved, mut all_extent, mut all_s, mut worst_s) = (0.0, 0.0, 0.0, 0.0);
    let mut cause = Cause::default();
    for (at, file) in run.data_files() {
        let layered = asked(file, way);
        let total = layered.way(way).bytes();
        let is_seen =
            layered.sum.as_ref().is_none_or(|sum| sum.layer != Layer::MpiIo) || file.is_seen_beneath();
        let extent = file.posix.way(way).up_to.filter(|extent| *extent > 0.0 && is_seen);
        let Some(extent) = extent else { continue };
        let users = layered.n_users(run.n_ranks).max(1.0);
        // Each rank may read a file that all share; it is written by all together.
        let bytes = if way == Way::Read { most_of_a_rank(layered, way, run.n_ranks) } else { total };
        let opens = layered.sum.as_ref().map_or(0, |sum| sum.opens) as f64;
        // An open that is followed by reads writes nothing again.
        let of_reads = f64::from(way == Way::Write && layered.way(Way::Read).calls > 0);
        let rounds = ((opens / users).floor() - of_reads).max(1.0);
        let is_by_opens = rounds >= 2.0 && bytes <= 1.01 * rounds * extent;
        if bytes <= run.thresholds.redundancy * extent || (way == Way::Write && is_by_opens) {
            continue;
        }
        let cost = way_cost(run, file, layered, way);
        let factor = (1.0 - extent / bytes) * if is_by_opens { 0.5 } else { 1.0 };
        saved.cautious += 0.5 * factor * cost.mean(run.n_ranks);
        saved.likely += factor * cost.busiest();
        saved.optimistic += (1.0 - extent / bytes) * cost.busiest();
        calls.add(at, way, cost.busiest());
        all_moved += bytes;
        all_extent += extent;
        all_s += cost.busiest();
        if cost.busiest() >= worst_s {
            worst_s = cost.busiest();
            let library = file.library.way(Way::Write).bytes();
            let is_fill = way == Way::Write && library > 0.0 && (1.5..2.5).contains(&(total / library));
            cause = Cause { layer: Layer::Posix, is_fill, is_epochs: is_by_opens, ..cause_of(file, run) };
        }
    }
    let id = if way == Way::Read { IssueId::RedundantReads } else { IssueId::RedundantWrites };
    let evidence = [("bytes", all_moved), ("extent_bytes", all_extent), ("busiest_rank_s", all_s)];
    (!calls.0.is_empty()).then(|| Draft::new(id, saved, calls).with(&evidence).because(cause))
}

/// Time of one direction by rank; in collective calls all wait.
fn way_cost(run: &Run, file: &FileUse, layered: &Layered, way: Way) -> Cost {
    let mut cost = Cost::default();
    for record in &layered.records {
        let seconds = way.of(record).seconds;
        match file.is_collective(way) && record.layer == Layer::MpiIo {
            true => cost.add_to_all(seconds / run.n_ranks, run.n_ranks),
            false => cost.add(record, seconds, run.n_ranks),
        }
    }
    cost
}

/// The time that syncs take: as counted, else what is left of the writes' time, else all of that.
fn sync_seconds(record: &FileRecord) -> f64 {
    match (record.sync_s, record.writes.calls_s) {
        (Some(sync_s), _) => sync_s,
        (None, Some(calls_s)) => (record.writes.seconds - calls_s).max(0.0),
        (None, None) => record.writes.seconds,
    }
}

fn excessive_sync(run: &Run) -> Option<Draft> {
    let mut cost = Cost::default();
    let mut calls = Calls::default();
    let (mut n_syncs, mut n_writes) = (0.0, 0.0);
    let mut cause = Cause::default();
    for (at, file) in run.data_files() {
        let mut layers = vec![&file.posix, &file.stdio];
        if file.posix.is_empty() {
            layers.push(&file.mpi);
        }
        for layered in layers {
            let Some(sum) = layered.sum.as_ref() else { continue };
            let (syncs, writes, opens) = (sum.syncs as f64, sum.writes.calls as f64, sum.opens as f64);
            if writes == 0.0 || syncs < run.thresholds.sync_share * writes || syncs <= 2.0 * opens {
                continue;
            }
            let k = file.n_aggregators(Way::Write, run.n_ranks);
            for record in &layered.records {
                let seconds = sync_seconds(record);
                match file.is_collective(Way::Write) {
                    true => cost.add_to_all(seconds / k, run.n_ranks),
                    false => cost.add(record, seconds, run.n_ranks),
                }
                calls.add(at, Way::Write, seconds);
            }
            n_syncs += syncs;
            n_writes += writes;
            cause = Cause { layer: sum.layer, ..cause_of(file, run) };
        }
    }
    let saved = Saved::of_cost(0.95, &cost, run.n_ranks);
    let evidence = [("syncs", n_syncs), ("writes", n_writes), ("busiest_rank_s", cost.busiest())];
    (n_syncs > 0.0).then(|| Draft::new(IssueId::ExcessiveSync, saved, calls).with(&evidence).because(cause))
}

fn stdio_bulk(run: &Run) -> Option<Draft> {
    const MEBIBYTE: f64 = 1_048_576.0;
    let all: f64 = run.data_files().flat_map(|(_, file)| file.top()).map(FileRecord::bytes).sum();
    let mut cost = Cost::default();
    let mut calls = Calls::default();
    let (mut n_calls, mut bytes) = (0.0, 0.0);
    for (at, file) in run.data_files().filter(|(_, file)| file.mpi.seconds() == 0.0) {
        for way in Way::BOTH {
            let moved = file.stdio.way(way);
            if moved.calls == 0 || moved.bytes() >= MEBIBYTE * moved.calls as f64 {
                continue;
            }
            n_calls += moved.calls as f64;
            bytes += moved.bytes();
            for record in &file.stdio.records {
                cost.add(record, way.of(record).seconds, run.n_ranks);
            }
            calls.add(at, way, moved.seconds);
        }
    }
    if bytes <= 0.0 || bytes < run.thresholds.stdio_share * all {
        return None;
    }
    let saved = Saved::of_cost(0.5, &cost, run.n_ranks);
    let evidence = [
        ("calls", n_calls),
        ("bytes", bytes),
        ("request_bytes", bytes / n_calls),
        ("busiest_rank_s", cost.busiest()),
    ];
    let rank = cost.busiest_rank().filter(|rank| *rank != Rank::ALL);
    let cause = Cause { layer: Layer::Stdio, ..Cause::default() };
    Some(Draft::new(IssueId::StdioBulk, saved, calls).with(&evidence).of_rank(rank).because(cause))
}
