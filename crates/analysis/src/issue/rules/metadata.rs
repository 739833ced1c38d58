//! Checks on opens, attributes and numbers of files.

use std::collections::HashMap;

use iotide_trace::{FileRecord, Rank};

use super::cause_of;
use crate::issue::cost::Cost;
use crate::issue::run::{FileUse, Run};
use crate::issue::{Calls, Cause, Draft, IssueId, Kind, Saved};

pub(super) fn check(run: &Run, found: &mut Vec<Draft>) {
    let causes = [churn(run), many_small_files(run), file_per_process(run), stat_storm(run)];
    let all = metadata_time(run);
    let explained = causes.iter().flatten().map(|draft| draft.saved.likely).fold(0.0, f64::max);
    found.extend(causes.into_iter().flatten());
    // Where the cause is known, that is the issue.
    found.extend(all.filter(|draft| explained < 0.5 * draft.saved.likely));
}

/// Metadata time of some files, each with the share of it that is meant.
#[derive(Default)]
struct Metadata {
    cost: Cost,
    calls: Calls,
    n_files: f64,
    cause: Cause,
}

impl Metadata {
    fn add(&mut self, run: &Run, at: usize, file: &FileUse, share: f64) {
        for record in file.top() {
            self.cost.add(record, share * record.metadata_s, run.n_ranks);
            self.calls.add(at, Kind::Metadata, share * record.metadata_s);
        }
        self.n_files += 1.0;
        self.cause = Cause {
            layer: file.top().first().map_or_else(Default::default, |record| record.layer),
            ..cause_of(file, run)
        };
    }

    fn draft(self, run: &Run, id: IssueId, factor: f64, evidence: &[(&'static str, f64)]) -> Option<Draft> {
        (self.n_files > 0.0).then(|| {
            let saved = Saved::of_cost(factor, &self.cost, run.n_ranks);
            let time = [("files", self.n_files), ("busiest_rank_s", self.cost.busiest())];
            Draft::new(id, saved, self.calls)
                .with(evidence)
                .with(&time)
                .of_rank(self.cost.busiest_rank())
                .because(self.cause)
        })
    }
}

fn metadata_time(run: &Run) -> Option<Draft> {
    let mut metadata = Metadata::default();
    let mut opens = 0.0;
    for (at, file) in run.files.iter().enumerate() {
        metadata.add(run, at, file, 1.0);
        opens += file.top().iter().map(|record| record.opens as f64).sum::<f64>();
    }
    metadata.draft(run, IssueId::MetadataTime, 0.6, &[("opens", opens)])
}

/// A counter of a file by each rank that uses it.
fn by_user(run: &Run, file: &FileUse, count: fn(&FileRecord) -> u64) -> f64 {
    let top = file.top();
    // Where files are not told apart, no count is that of one file.
    if top.iter().any(|record| record.n_files == 0) {
        return 0.0;
    }
    let users: f64 = [&file.mpi, &file.posix, &file.stdio]
        .iter()
        .map(|layer| layer.n_users(run.n_ranks))
        .fold(1.0, f64::max);
    let n_files = top.iter().map(|record| f64::from(record.n_files)).fold(1.0, f64::max);
    top.iter().map(|record| count(record) as f64).sum::<f64>() / users / n_files
}

fn churn(run: &Run) -> Option<Draft> {
    let mut metadata = Metadata::default();
    let mut with_first_calls = Cost::default();
    let mut opens = 0.0;
    for (at, file) in run.data_files() {
        let per_rank = by_user(run, file, |record| record.opens);
        if per_rank > run.thresholds.opens_per_file {
            metadata.add(run, at, file, 1.0);
            opens = f64::max(opens, per_rank);
            for record in file.top() {
                let seconds = record.metadata_s + DUE_TO_OPENS * first_calls_s(record);
                with_first_calls.add(record, seconds, run.n_ranks);
            }
        }
    }
    let mut draft = metadata.draft(run, IssueId::OpenCloseChurn, 0.9, &[("opens_per_rank", opens)])?;
    draft.saved.optimistic = draft.saved.optimistic.max(with_first_calls.busiest());
    Some(draft)
}

/// The first call after an open pays for part of it: attributes, locks and tokens are asked for then. Half of its time at most goes away with the open.
const DUE_TO_OPENS: f64 = 0.5;

/// Returns the time of the first request after each open, if all requests take the same.
fn first_calls_s(record: &FileRecord) -> f64 {
    let calls = (record.reads.calls + record.writes.calls) as f64;
    let seconds = record.reads.seconds + record.writes.seconds;
    if calls > 0.0 { seconds * (record.opens as f64 / calls).min(1.0) } else { 0.0 }
}

fn stat_storm(run: &Run) -> Option<Draft> {
    let mut metadata = Metadata::default();
    let mut stats = 0.0;
    for (at, file) in run.data_files() {
        let per_rank = by_user(run, file, |record| record.stats);
        if per_rank >= run.thresholds.stats_per_file {
            let opens = by_user(run, file, |record| record.opens);
            metadata.add(run, at, file, per_rank / (per_rank + opens));
            stats = f64::max(stats, per_rank);
        }
    }
    metadata.draft(run, IssueId::StatStorm, 0.9, &[("stats_per_rank", stats)])
}

/// How far into a file any call went.
fn extent(file: &FileUse) -> f64 {
    let of = |record: &FileRecord| {
        [&record.reads, &record.writes]
            .map(|way| way.up_to.unwrap_or(way.bytes()))
            .into_iter()
            .fold(0.0, f64::max)
    };
    file.top().iter().map(|record| of(record)).fold(0.0, f64::max)
}

fn many_small_files(run: &Run) -> Option<Draft> {
    const SMALL: f64 = 1_048_576.0;
    let mut by_rank: HashMap<Rank, f64> = HashMap::new();
    let (mut n_files, mut small) = (0.0, Vec::new());
    for (at, file) in run.data_files() {
        let top = file.top();
        let n: f64 = top.iter().map(|record| f64::from(record.n_files)).fold(1.0, f64::max);
        let mut ranks: Vec<Rank> = top.iter().map(|record| record.rank).collect();
        ranks.dedup();
        ranks.into_iter().for_each(|rank| *by_rank.entry(rank).or_default() += n);
        n_files += n;
        if extent(file) < SMALL * n {
            small.push((at, n));
        }
    }
    let n_small: f64 = small.iter().map(|(_, n)| n).sum();
    let of_all = by_rank.remove(&Rank::ALL).unwrap_or(0.0);
    let per_rank = of_all + by_rank.values().copied().fold(0.0, f64::max);
    if per_rank < run.thresholds.files_per_rank || n_small < 0.9 * n_files {
        return None;
    }
    let mut metadata = Metadata::default();
    small.iter().for_each(|(at, _)| metadata.add(run, *at, &run.files[*at], 1.0));
    metadata.draft(run, IssueId::ManySmallFiles, 0.6, &[("files_per_rank", per_rank)])
}

/// A name without its numbers.
fn name_pattern(name: &str) -> String {
    let mut pattern = String::with_capacity(name.len());
    for letter in name.chars() {
        match letter.is_ascii_digit() {
            true if pattern.ends_with('#') => {}
            true => pattern.push('#'),
            false => pattern.push(letter),
        }
    }
    pattern
}

fn file_per_process(run: &Run) -> Option<Draft> {
    if run.n_ranks < run.thresholds.file_per_process_ranks {
        return None;
    }
    let mut patterns: HashMap<String, Vec<usize>> = HashMap::new();
    for (at, file) in run.data_files() {
        let is_own = file.top().iter().all(|record| record.rank != Rank::ALL);
        if let Some(name) = file.name.filter(|_| is_own) {
            patterns.entry(name_pattern(name)).or_default().push(at);
        }
    }
    let files =
        patterns.into_values().filter(|files| files.len() as f64 >= run.n_ranks).max_by_key(Vec::len)?;
    let mut metadata = Metadata::default();
    files.iter().for_each(|at| metadata.add(run, *at, &run.files[*at], 1.0));
    metadata.draft(run, IssueId::FilePerProcess, 0.6, &[("ranks", run.n_ranks)])
}
