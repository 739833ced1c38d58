//! Checks on where files lie and how fast they are.

use std::collections::HashMap;

use iotide_trace::{FileRecord, Layer};

use super::cause_of;
use crate::issue::cost::Cost;
use crate::issue::run::{FileUse, Run, Way};
use crate::issue::{Calls, Cause, Draft, IssueId, Saved};

const MEBIBYTE: f64 = 1_048_576.0;

pub(super) fn check(run: &Run, found: &mut Vec<Draft>) {
    found.extend(few_targets(run));
    found.extend(shared_contention(run));
}

/// Data time of a file by rank: all wait in collective calls.
fn data_cost(run: &Run, file: &FileUse, ways: &[Way]) -> Cost {
    let mut cost = Cost::default();
    for way in ways {
        let is_collective = file.is_collective(*way);
        for record in file.top() {
            let seconds = way.of(record).seconds;
            match is_collective && record.layer == Layer::MpiIo {
                true => cost.add_to_all(seconds / run.n_ranks, run.n_ranks),
                false => cost.add(record, seconds, run.n_ranks),
            }
        }
    }
    cost
}

fn few_targets(run: &Run) -> Option<Draft> {
    const MANY_CLIENTS: f64 = 8.0;
    const BUSY_TARGET_BPS: f64 = 200e6;
    const GIBIBYTE: f64 = 1_073_741_824.0;
    let known = f64::from(run.n_targets?);
    let mut saved = Saved::default();
    let mut calls = Calls::default();
    let mut worst = (0.0, 0.0, 0.0);
    let mut cause = Cause::default();
    for (at, file) in run.data_files().filter(|(_, file)| !file.targets.is_empty()) {
        let used = file.targets.len() as f64;
        let clients = file.mpi.n_users(run.n_ranks).max(file.posix.n_users(run.n_ranks));
        let cost = data_cost(run, file, &Way::BOTH);
        let bytes = file.posix.bytes().max(file.mpi.bytes());
        let bps = bytes / cost.busiest().max(1e-9) / used;
        if used >= known || clients <= MANY_CLIENTS || !(bps >= BUSY_TARGET_BPS || used == 1.0) {
            continue;
        }
        let most = 1.0 - used / known;
        saved.cautious += 0.25_f64.min(most) * cost.mean(run.n_ranks);
        saved.likely += 0.5_f64.min(most) * cost.busiest();
        saved.optimistic += most * cost.busiest();
        for way in Way::BOTH {
            calls.add(at, way, data_cost(run, file, &[way]).busiest());
        }
        if cost.busiest() >= worst.0 {
            let extent = Way::BOTH.map(|way| file.posix.way(way).up_to.unwrap_or(0.0));
            let extent = extent.into_iter().fold(bytes.min(extent[0].max(extent[1]).max(1.0)), f64::max);
            let wanted = known.min(clients).min((extent / GIBIBYTE).ceil().max(2.0));
            worst = (cost.busiest(), used, wanted);
            cause = Cause { layer: Layer::Posix, targets: file.targets.to_vec(), ..cause_of(file, run) };
        }
    }
    let (busiest_s, used, wanted) = worst;
    let evidence = [
        ("targets", used),
        ("targets_known", known),
        ("targets_wanted", wanted.max(used + 1.0).min(known)),
        ("busiest_rank_s", busiest_s),
    ];
    (!calls.0.is_empty())
        .then(|| Draft::new(IssueId::FewTargets, saved, calls).with(&evidence).because(cause))
}

/// Bytes per second that one rank writes on files of its own, in requests of a mebibyte or more.
fn own_rate_bps(run: &Run) -> Option<f64> {
    let own =
        run.data_files().filter(|(_, file)| file.posix.n_users(run.n_ranks) == 1.0 && file.mpi.is_empty());
    let (mut bytes, mut seconds) = (0.0, 0.0);
    for (_, file) in own {
        let writes = file.posix.way(Way::Write);
        if writes.calls > 0 && writes.bytes() >= MEBIBYTE * writes.calls as f64 {
            bytes += writes.bytes();
            seconds += writes.seconds;
        }
    }
    (seconds > 0.0).then(|| bytes / seconds)
}

fn shared_contention(run: &Run) -> Option<Draft> {
    let own_bps = own_rate_bps(run)?;
    let mut saved = Saved::default();
    let mut calls = Calls::default();
    let (mut shared_bps, mut cause) = (0.0, Cause::default());
    for (at, file) in run.data_files() {
        let layered = if file.mpi.seconds() > 0.0 { &file.mpi } else { &file.posix };
        let writes = layered.way(Way::Write);
        let n_writers = layered.n_users(run.n_ranks);
        let is_large = writes.calls > 0 && writes.bytes() >= MEBIBYTE * writes.calls as f64;
        if n_writers < 2.0 || file.is_collective(Way::Write) || !is_large || writes.seconds <= 0.0 {
            continue;
        }
        let bps = writes.bytes() / writes.seconds;
        if bps >= 0.25 * own_bps {
            continue;
        }
        let cost = data_cost(run, file, &[Way::Write]);
        let share = 1.0 - bps / own_bps;
        saved.cautious += 0.5 * share * cost.mean(run.n_ranks);
        saved.likely += share * cost.busiest();
        saved.optimistic += cost.busiest();
        calls.add(at, Way::Write, cost.busiest());
        shared_bps = bps;
        cause = Cause { layer: Layer::Posix, ..cause_of(file, run) };
    }
    let evidence = [("shared_bps", shared_bps), ("own_bps", own_bps)];
    (!calls.0.is_empty())
        .then(|| Draft::new(IssueId::SharedContention, saved, calls).with(&evidence).because(cause))
}

/// Files that are much slower than the best of their kind, size, request and folder, where no other issue says why.
pub(super) fn low_bandwidth(run: &Run, found: &mut Vec<Draft>) {
    let mut cost = Cost::default();
    let mut calls = Calls::default();
    let mut worst = (0.0, 0.0, 0.0);
    let mut cause = Cause::default();
    for way in Way::BOTH {
        // Beside the largest of the folder, so that a run of twice the length has the same groups.
        let mut largest: HashMap<_, (f64, f64)> = HashMap::new();
        let sized = |file: &FileUse<'_>| {
            let moved = file.posix.way(way);
            (moved.bytes() > 0.0 && moved.seconds > 0.0)
                .then(|| (moved.bytes(), moved.bytes() / moved.calls.max(1) as f64, moved.seconds))
        };
        for (_, file) in run.data_files() {
            if let Some((bytes, request, _)) = sized(file) {
                let (most, largest) = largest.entry(file.directory()).or_default();
                (*most, *largest) = (most.max(bytes), largest.max(request));
            }
        }
        let mut groups: HashMap<_, Vec<(usize, f64)>> = HashMap::new();
        for (at, file) in run.data_files() {
            if let Some((bytes, request, seconds)) = sized(file) {
                let (most, largest) = largest[&file.directory()];
                // Sizes and requests that differ by less than four times.
                let class = |share: f64| (share.log2() / 2.0).floor() as i32;
                let key = (file.directory(), class(most / bytes), class(largest / request));
                groups.entry(key).or_default().push((at, bytes / seconds));
            }
        }
        let groups = groups.values().filter(|files| files.len() > 1);
        for (at, bps, best) in groups.flat_map(|files| {
            let best = files.iter().map(|(_, bps)| *bps).fold(0.0, f64::max);
            files.iter().filter(move |(_, bps)| 4.0 * bps < best).map(move |(at, bps)| (*at, *bps, best))
        }) {
            let is_explained = found.iter().any(|draft| draft.calls.0.contains_key(&(at, way.into())));
            if is_explained {
                continue;
            }
            let file = &run.files[at];
            let share = 1.0 - bps / best;
            for record in &file.posix.records {
                let seconds = share * way.of(record).seconds;
                cost.add(record, seconds, run.n_ranks);
            }
            let seconds = file.posix.way(way).seconds;
            calls.add(at, way, seconds);
            if seconds > worst.0 {
                worst = (seconds, bps, best);
                cause = Cause { layer: Layer::Posix, ..cause_of(file, run) };
            }
        }
    }
    if calls.0.is_empty() {
        return;
    }
    let saved = Saved::of_cost(0.5, &cost, run.n_ranks);
    let evidence = [("bps", worst.1), ("best_bps", worst.2)];
    found.push(Draft::new(IssueId::LowBandwidth, saved, calls).with(&evidence).because(cause));
}

/// Storage targets that take much longer for a byte than the median one, slowest first.
pub(super) fn slow_targets(run: &Run) -> Vec<(u32, f64)> {
    let mut sums: HashMap<u32, (f64, f64)> = HashMap::new();
    for (_, file) in run.data_files().filter(|(_, file)| !file.targets.is_empty()) {
        let data_s = |record: &FileRecord| record.reads.seconds + record.writes.seconds;
        let (bytes, seconds) = (file.posix.bytes(), file.posix.sum.as_ref().map_or(0.0, data_s));
        for target in file.targets {
            let sum = sums.entry(*target).or_default();
            *sum = (sum.0 + bytes, sum.1 + seconds);
        }
    }
    let mut slowness: Vec<(u32, f64)> = (sums.into_iter())
        .filter(|(_, (bytes, seconds))| *bytes > 0.0 && *seconds > 0.0)
        .map(|(target, (bytes, seconds))| (target, seconds / bytes))
        .collect();
    slowness.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let Some(median) = slowness.get(slowness.len() / 2).map(|(_, slowness)| *slowness) else {
        return Vec::new();
    };
    slowness.retain(|(_, slowness)| *slowness >= run.thresholds.target_factor * median);
    slowness.into_iter().map(|(target, slowness)| (target, slowness / median)).collect()
}
