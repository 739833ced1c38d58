//! Checks on the size and the place of single requests.

use iotide_trace::{FileRecord, Layer, Rank, WayRecord};

use super::cause_of;
use crate::issue::gain::{Part, Pattern};
use crate::issue::run::{FileUse, Layered, Run, Way};
use crate::issue::{Calls, Cause, Draft, IssueId, Saved};

const MEBIBYTE: f64 = 1_048_576.0;

pub(super) fn check(run: &Run, found: &mut Vec<Draft>) {
    for way in Way::BOTH {
        let (small, independent) = small_calls(run, way);
        found.extend(small.draft(run, way, small_id(way)));
        found.extend(independent.collectives(run, way));
        found.extend(random(run, way));
    }
    found.extend(misaligned(run));
    // Reads and writes that are not collective are one issue.
    let mut at: Vec<usize> =
        (0..found.len()).filter(|i| found[*i].id == IssueId::MissingCollectives).collect();
    if let (Some(second), Some(first)) = (at.pop(), at.pop()) {
        let other = found.remove(second);
        let known = &mut found[first];
        known.saved.cautious += other.saved.cautious;
        known.saved.likely += other.saved.likely;
        known.saved.optimistic += other.saved.optimistic;
        known.calls.0.extend(other.calls.0);
        for (known, other) in known.evidence.iter_mut().zip(&other.evidence) {
            known.value = match known.name {
                "request_bytes" => known.value.max(other.value),
                _ => known.value + other.value,
            };
        }
    }
}

fn small_id(way: Way) -> IssueId {
    match way {
        Way::Read => IssueId::SmallReads,
        Way::Write => IssueId::SmallWrites,
    }
}

/// Small calls of one direction.
#[derive(Default)]
struct Small {
    pattern: Pattern,
    calls: Calls,
    all_calls: f64,
    cause: Cause,
    worst_s: f64,
}

impl Small {
    /// Takes note of the file with most of the time.
    fn note_cause(&mut self, file: &FileUse, layer: Layer, part: &Part, run: &Run) {
        if part.likely >= self.worst_s {
            (self.worst_s, self.cause) = (part.likely, Cause { layer, ..cause_of(file, run) });
        }
    }

    fn draft(&self, run: &Run, way: Way, id: IssueId) -> Option<Draft> {
        let thresholds = run.thresholds;
        let share = self.pattern.calls / self.all_calls.max(1.0);
        if self.pattern.calls < thresholds.least_calls || share < thresholds.small_share {
            return None;
        }
        let draft = Draft::new(id, self.pattern.saved(run, way), Calls(self.calls.0.clone()));
        Some(
            draft
                .with(&self.evidence(share))
                .of_rank(self.pattern.busiest_rank())
                .because(self.cause.clone()),
        )
    }

    fn evidence(&self, share: f64) -> [(&'static str, f64); 5] {
        [
            ("calls", self.pattern.calls),
            ("share", share),
            ("request_bytes", self.pattern.request_bytes()),
            ("bytes", self.pattern.moved),
            ("busiest_rank_s", self.pattern.busiest_s()),
        ]
    }

    /// Independent small calls on shared files, which collective calls would gather.
    fn collectives(&self, run: &Run, way: Way) -> Option<Draft> {
        let saved = self.pattern.saved(run, way).scaled(0.9);
        (self.pattern.calls > 0.0).then(|| {
            let evidence = [
                ("independent_calls", self.pattern.calls),
                ("request_bytes", self.pattern.request_bytes()),
                ("bytes", self.pattern.moved),
                ("busiest_rank_s", self.pattern.busiest_s()),
            ];
            let draft = Draft::new(IssueId::MissingCollectives, saved, Calls(self.calls.0.clone()));
            draft.with(&evidence).because(self.cause.clone())
        })
    }
}

/// Returns the small calls of a direction, and of these the ones on shared files that should be collective.
fn small_calls(run: &Run, way: Way) -> (Small, Small) {
    let (mut small, mut independent) = (Small::default(), Small::default());
    for (at, file) in run.data_files() {
        let mpi = file.mpi.way(way);
        if mpi.calls == 0 && !file.mpi.is_empty() && file.mpi.seconds() > 0.0 {
            continue; // calls beneath that MPI-IO did not ask for
        }
        if file.is_collective(way) {
            small_beneath(run, way, at, file, &mut small);
            continue;
        }
        let (layered, layer) = match mpi.calls > 0 && mpi.small.is_some() {
            true => (&file.mpi, Layer::MpiIo),
            false => (&file.posix, Layer::Posix),
        };
        let all = layered.way(way);
        if is_whole_small_file(&all, layered) {
            continue;
        }
        small.all_calls += all.calls as f64;
        let is_independent =
            layer == Layer::MpiIo && file.mpi.n_users(run.n_ranks) > 1.0 && should_be_collective(&all);
        for target in std::iter::once(&mut small).chain(is_independent.then_some(&mut independent)) {
            add_small(run, way, at, (file, layered, layer), target);
        }
    }
    (small, independent)
}

fn add_small(run: &Run, way: Way, at: usize, of: (&FileUse, &Layered, Layer), small: &mut Small) {
    let (file, layered, layer) = of;
    let is_shared = layered.n_users(run.n_ranks) > 1.0;
    let mut bytes = 0.0;
    for record in &layered.records {
        let Some(part) = small_part(way.of(record)) else { continue };
        small.note_cause(file, layer, &part, run);
        small.pattern.add(record, &part, run.n_ranks);
        small.calls.add(at, way, part.likely);
        bytes += part.bytes;
        if !is_shared && !file.targets.is_empty() {
            let seconds = part.bytes / (file.targets.len() as f64 * run.target_bps(way));
            small.pattern.limit(Some(record), seconds, run.n_ranks);
        }
    }
    if is_shared && !file.targets.is_empty() {
        let seconds = bytes / (file.targets.len() as f64 * run.target_bps(way));
        small.pattern.limit(None, seconds, run.n_ranks);
    }
}

/// The small calls of a record; `None` if there are none.
fn small_part(way: &WayRecord) -> Option<Part> {
    let small = way.small.filter(|small| small.calls > 0)?;
    let all = (way.calls as f64, way.bytes());
    Some(Part::of((small.calls as f64, all.0), (small.bytes, all.1), way.seconds, small.seconds))
}

/// Small requests beneath collective calls: those of aggregators are as large as their buffers allow.
fn small_beneath(run: &Run, way: Way, at: usize, file: &FileUse, small: &mut Small) {
    const BUFFERED: f64 = 512.0 * 1024.0;
    let beneath = file.posix.way(way);
    if !file.is_seen_beneath() {
        return;
    }
    small.all_calls += beneath.calls as f64;
    let Some(part) = small_part(&beneath).filter(|part| part.bytes < BUFFERED * part.calls) else { return };
    let aggregators = file.n_aggregators(way, run.n_ranks);
    let slowest = slowest_way_s(&file.posix, way, run.n_ranks);
    small.note_cause(file, Layer::Posix, &part, run);
    small.pattern.add_beneath(&part, aggregators, slowest, run.n_ranks);
    small.calls.add(at, way, part.likely);
    if !file.targets.is_empty() {
        let seconds = part.bytes / (file.targets.len() as f64 * run.target_bps(way));
        small.pattern.limit(None, seconds, run.n_ranks);
    }
}

/// The longest that a rank spends in one direction.
pub(super) fn slowest_way_s(layered: &Layered, way: Way, n_ranks: f64) -> f64 {
    let mut cost = crate::issue::cost::Cost::default();
    layered.records.iter().for_each(|record| cost.add(record, way.of(record).seconds, n_ranks));
    cost.busiest()
}

/// Whether files below a mebibyte are moved as a whole, in at most three calls each time.
fn is_whole_small_file(all: &WayRecord, layered: &Layered) -> bool {
    let opens = layered.sum.as_ref().map_or(1, |sum| sum.opens).max(1) as f64;
    let extent = all.up_to.unwrap_or(all.bytes());
    extent < MEBIBYTE && all.calls as f64 <= 3.0 * opens
}

/// Whether most bytes, or most time, of MPI-IO calls on a shared file are those of small independent calls.
fn should_be_collective(all: &WayRecord) -> bool {
    let Some((small, collective)) = all.small.zip(all.collective) else { return false };
    let calls = all.calls as f64;
    let independent = calls - collective as f64;
    if independent <= 0.0 || all.bytes() <= 0.0 {
        return false;
    }
    // Collective requests are the larger ones.
    let (n_small, n_large) = (small.calls as f64, calls - small.calls as f64);
    let bytes = match independent <= n_small {
        true => small.bytes * independent / n_small,
        false => small.bytes + (all.bytes() - small.bytes) * (independent - n_small) / n_large.max(1.0),
    };
    let by_bytes = bytes / all.bytes();
    let by_time = (by_bytes * independent / calls).sqrt();
    let is_most = by_bytes > 0.5 || by_time > 0.5;
    is_most && by_bytes > 0.1 && bytes / independent < MEBIBYTE
}

fn random(run: &Run, way: Way) -> Option<Draft> {
    let thresholds = run.thresholds;
    let mut pattern = Pattern::default();
    let mut calls = Calls::default();
    let (mut n_random, mut n_calls, mut time_share) = (0.0, 0.0, 0.0);
    let all_bytes: f64 = run.data_files().map(|(_, file)| file.posix.way(way).bytes()).sum();
    let mut cause = Cause::default();
    for (at, file) in run.data_files() {
        let is_unasked = file.mpi.seconds() > 0.0 && file.mpi.way(way).calls == 0;
        if is_unasked || file.is_collective(way) {
            continue;
        }
        for record in &file.posix.records {
            let moved = way.of(record);
            let Some(back) = moved.random.map(|back| back as f64) else { continue };
            let share = back / (moved.calls as f64).max(1.0);
            let request = moved.bytes() / (moved.calls as f64).max(1.0);
            let is_fast = moved.seconds > 0.0 && moved.bytes() / moved.seconds >= 1e9;
            let is_little = share * moved.bytes() < 0.01 * all_bytes;
            if share < thresholds.random_share || request >= 4.0 * MEBIBYTE || is_fast || is_little {
                continue;
            }
            let all = moved.calls as f64;
            pattern.add(
                record,
                &Part::of((all, all), (moved.bytes(), moved.bytes()), moved.seconds, None),
                run.n_ranks,
            );
            calls.add(at, way, moved.seconds);
            n_random += back;
            n_calls += all;
            time_share += share * moved.seconds;
            cause = Cause { layer: Layer::Posix, ..cause_of(file, run) };
        }
    }
    if n_random < thresholds.least_calls {
        return None;
    }
    let id = if way == Way::Read { IssueId::RandomReads } else { IssueId::RandomWrites };
    let share = if pattern.total_s() > 0.0 { time_share / pattern.total_s() } else { n_random / n_calls };
    let saved = pattern.saved(run, way);
    let saved = Saved {
        cautious: 0.25 * share * saved.cautious,
        likely: 0.5 * share * saved.likely,
        optimistic: share * saved.optimistic,
    };
    let evidence = [
        ("calls", n_random),
        ("share", n_random / n_calls),
        ("request_bytes", pattern.request_bytes()),
        ("busiest_rank_s", pattern.busiest_s()),
    ];
    Some(Draft::new(id, saved, calls).with(&evidence).because(cause))
}

/// Writes of several ranks that touch blocks of each other.
fn misaligned(run: &Run) -> Option<Draft> {
    const MOST_ALIGNMENT: f64 = 4.0 * MEBIBYTE;
    let mut cost = crate::issue::cost::Cost::default();
    let mut calls = Calls::default();
    let (mut n_calls, mut worst) = (0.0, (0.0, 0.0, 0.0));
    let mut cause = Cause::default();
    for (at, file) in run.data_files() {
        let writers = file.posix.records.iter().filter(|record| record.writes.calls > 0);
        let n_writers: f64 = writers.clone().map(|record| writers_of(record, run.n_ranks)).sum();
        if n_writers < 2.0 {
            continue;
        }
        for record in writers {
            let request = record.writes.bytes() / record.writes.calls as f64;
            let Some((alignment, misaligned)) = record.alignment.zip(record.misaligned) else { continue };
            let alignment = alignment as f64;
            if request < alignment || alignment > MOST_ALIGNMENT || misaligned == 0 {
                continue;
            }
            let all = (record.writes.calls + record.reads.calls) as f64;
            let share = (misaligned as f64 / all).min(1.0) * alignment / (alignment + request);
            let seconds = share * record.writes.seconds;
            match file.is_collective(Way::Write) {
                true => {
                    cost.add_to_all(seconds / file.n_aggregators(Way::Write, run.n_ranks), run.n_ranks);
                }
                false => cost.add(record, seconds, run.n_ranks),
            }
            calls.add(at, Way::Write, record.writes.seconds);
            n_calls += misaligned as f64;
            if seconds >= worst.0 {
                worst = (seconds, alignment, request);
                cause = Cause { layer: Layer::Posix, ..cause_of(file, run) };
            }
        }
    }
    let (_, alignment, request) = worst;
    let saved = Saved {
        cautious: 0.5 * cost.mean(run.n_ranks),
        likely: cost.busiest(),
        optimistic: 2.0 * cost.busiest(),
    };
    let evidence = [("calls", n_calls), ("alignment_bytes", alignment), ("request_bytes", request)];
    (n_calls > 0.0).then(|| Draft::new(IssueId::Misaligned, saved, calls).with(&evidence).because(cause))
}

/// Ranks that write, as far as a record tells.
fn writers_of(record: &FileRecord, n_ranks: f64) -> f64 {
    match (record.rank, record.slowest) {
        (Rank::ALL, Some(slowest)) if slowest.bytes > 0.0 => {
            (record.bytes() / slowest.bytes).round().clamp(1.0, n_ranks)
        }
        (Rank::ALL, _) => n_ranks,
        _ => 1.0,
    }
}
