//! Checks that compare ranks with each other.

use std::collections::HashMap;

use iotide_trace::{FileRecord, Layer, Rank};

use super::storage::slow_targets;
use crate::issue::cost::Cost;
use crate::issue::run::{FileUse, Run, Way};
use crate::issue::{Calls, Cause, Draft, IssueId, Saved};

pub(super) fn check(run: &Run, found: &mut Vec<Draft>) {
    if run.is_one_of_several {
        return;
    }
    let has_one_rank = found.iter().any(|draft| draft.id == IssueId::FewAggregators);
    found.extend(imbalance(run).filter(|_| !has_one_rank));
    found.extend(stragglers(run));
}

/// Data that ranks move for themselves, at the highest layer.
fn own_data<'a>(run: &'a Run<'a>) -> impl Iterator<Item = (usize, &'a FileUse<'a>)> {
    run.data_files().filter(|(_, file)| !Way::BOTH.into_iter().any(|way| file.is_collective(way)))
}

fn imbalance(run: &Run) -> Option<Draft> {
    let n = run.n_ranks;
    if n < 4.0 {
        return None;
    }
    let (mut bytes, mut time) = (Cost::default(), Cost::default());
    let mut calls = Calls::default();
    for (at, file) in own_data(run) {
        for record in file.top() {
            bytes.add_bytes(record, record.bytes(), n);
            let seconds = record.reads.seconds + record.writes.seconds;
            time.add(record, seconds, n);
            calls.add(at, Way::Read, record.reads.seconds);
            calls.add(at, Way::Write, record.writes.seconds);
        }
    }
    let busiest = bytes.busiest_rank()?;
    let most = bytes.of(busiest);
    let its_time = time.of(busiest);
    // Ranks that move next to nothing are not compared with it.
    let movers: Vec<Rank> =
        bytes.ranks().filter(|(_, bytes)| 100.0 * bytes >= most).map(|(rank, _)| rank).collect();
    let others_move = 100.0 * bytes.every() >= most;
    let n_movers = if others_move { n } else { movers.len() as f64 };
    let sum_of = |cost: &Cost| match others_move {
        true => cost.total(),
        false => movers.iter().map(|rank| cost.of(*rank)).sum(),
    };
    let (mean_bytes, mean_s) = (sum_of(&bytes) / n_movers.max(1.0), sum_of(&time) / n_movers.max(1.0));
    let evidence = [("most_bytes", most), ("mean_bytes", mean_bytes), ("rank_s", its_time), ("ranks", n)];
    let cause = Cause { layer: Layer::Posix, ..Cause::default() };
    if most >= 0.9 * bytes.total() {
        let saved = Saved { cautious: 0.25 * its_time, likely: 0.5 * its_time, optimistic: its_time };
        let draft = Draft::new(IssueId::SingleRankIo, saved, calls).with(&evidence);
        return Some(draft.of_rank(Some(busiest)).because(cause));
    }
    if most <= run.thresholds.imbalance * mean_bytes {
        return None;
    }
    let more = (its_time - mean_s).max(0.0);
    let saved = Saved { cautious: 0.5 * more, likely: more, optimistic: its_time };
    let draft = Draft::new(IssueId::RankImbalance, saved, calls).with(&evidence);
    Some(draft.of_rank(Some(busiest)).because(cause))
}

/// The records by which ranks are compared: beneath collective calls, in which all wait for each other.
fn compared<'a>(file: &FileUse<'a>) -> Vec<&'a FileRecord> {
    match Way::BOTH.into_iter().any(|way| file.is_collective(way)) {
        true if file.is_seen_beneath() => file.posix.records.clone(),
        true => Vec::new(),
        false => file.top(),
    }
}

/// The slowest rank of some that move about as much.
struct Slowest {
    rank: Rank,
    slowest_s: f64,
    median_s: f64,
    file: Option<usize>,
}

impl Slowest {
    fn more_s(&self) -> f64 {
        self.slowest_s - self.median_s
    }

    fn stands_out(&self, run: &Run) -> bool {
        self.slowest_s >= run.thresholds.straggler * self.median_s
            && self.more_s() >= run.thresholds.straggler_s
    }
}

fn stragglers(run: &Run) -> Option<Draft> {
    if run.n_ranks < 2.0 {
        return None;
    }
    let (own, slow_files) = slowest_of_own(run);
    let shared = run.data_files().filter_map(|(at, file)| slowest_of_shared(run, at, file));
    let worst = own.into_iter().chain(shared).filter(|slowest| slowest.stands_out(run));
    let worst = worst.max_by(|a, b| a.more_s().total_cmp(&b.more_s()))?;
    let mut calls = Calls::default();
    match worst.file {
        Some(at) => add_data(run, at, &mut calls),
        None => slow_files.iter().for_each(|at| add_data(run, *at, &mut calls)),
    }
    // Slow files that lie on slow targets tell why.
    let slow = slow_targets(run);
    let files: Vec<usize> = worst.file.map_or(slow_files, |at| vec![at]);
    let is_on_slow =
        |at: &usize| run.files[*at].targets.iter().any(|target| slow.iter().any(|known| known.0 == *target));
    let is_target = !slow.is_empty()
        && !files.is_empty()
        && 2 * files.iter().filter(|at| is_on_slow(at)).count() >= files.len();
    let more = worst.more_s();
    let saved = Saved { cautious: 0.5 * more, likely: more, optimistic: worst.slowest_s };
    let evidence = [("slowest_s", worst.slowest_s), ("median_s", worst.median_s)];
    let id = if is_target { IssueId::SlowTarget } else { IssueId::Stragglers };
    let mut draft = Draft::new(id, saved, calls).with(&evidence).of_rank(Some(worst.rank));
    if is_target {
        draft = draft.with(&[("target_factor", slow[0].1), ("slow_targets", slow.len() as f64)]);
        draft.cause.targets = slow.iter().map(|(target, _)| *target).collect();
    }
    Some(draft)
}

fn add_data(run: &Run, at: usize, calls: &mut Calls) {
    for record in compared(&run.files[at]) {
        calls.add(at, Way::Read, record.reads.seconds);
        calls.add(at, Way::Write, record.writes.seconds);
    }
}

/// The slowest rank over the records of single ranks, and the files of the slow ranks.
fn slowest_of_own(run: &Run) -> (Option<Slowest>, Vec<usize>) {
    let mut ranks: HashMap<Rank, (f64, f64)> = HashMap::new();
    for (_, file) in run.data_files() {
        for record in compared(file).into_iter().filter(|record| record.rank != Rank::ALL) {
            let sums = ranks.entry(record.rank).or_default();
            *sums = (sums.0 + record.bytes(), sums.1 + record.seconds());
        }
    }
    let slowest = ranks.iter().max_by(|a, b| a.1.1.total_cmp(&b.1.1).then(b.0.cmp(a.0)));
    let Some((&rank, &(most_bytes, slowest_s))) = slowest else { return (None, Vec::new()) };
    // One that has more to do takes longer, and one that has less is no measure.
    let mut peers: Vec<f64> = (ranks.iter())
        .filter(|(other, (bytes, _))| **other != rank && 2.0 * bytes >= most_bytes && *bytes > 0.0)
        .map(|(_, (_, seconds))| *seconds)
        .collect();
    peers.sort_by(f64::total_cmp);
    if peers.is_empty() || 2 * peers.len() < ranks.len() - 1 {
        return (None, Vec::new());
    }
    let quantile = |q: f64| peers[((peers.len() - 1) as f64 * q).round() as usize];
    let (low, median_s, high) = (quantile(0.25), quantile(0.5), quantile(0.75));
    // Times that are spread evenly have no outlier.
    if slowest_s < high + 1.5 * (high - low) {
        return (None, Vec::new());
    }
    let is_slow = |rank: Rank| {
        ranks.get(&rank).is_some_and(|(_, seconds)| *seconds >= run.thresholds.straggler * median_s)
    };
    let files = (run.data_files())
        .filter(|(_, file)| {
            compared(file).iter().any(|record| record.rank != Rank::ALL && is_slow(record.rank))
        })
        .map(|(at, _)| at)
        .collect();
    (Some(Slowest { rank, slowest_s, median_s, file: None }), files)
}

/// The slowest rank of a file of which only the sum over ranks is known.
fn slowest_of_shared(run: &Run, at: usize, file: &FileUse) -> Option<Slowest> {
    let records = compared(file);
    let record = records
        .iter()
        .filter(|record| record.rank == Rank::ALL)
        .max_by(|a, b| a.seconds().total_cmp(&b.seconds()))?;
    let (slowest, fastest) = (record.slowest?, record.fastest);
    if slowest.bytes <= 0.0
        || fastest.is_some_and(|fastest| 2.0 * fastest.bytes < slowest.bytes && fastest.bytes > 0.0)
    {
        return None;
    }
    let k = (record.bytes() / slowest.bytes).round().clamp(1.0, run.n_ranks);
    if k < 2.0 {
        return None;
    }
    let median_s = record.seconds() / k;
    Some(Slowest { rank: slowest.rank, slowest_s: slowest.seconds, median_s, file: Some(at) })
}
