//! What the program did differently, the costliest first.

use super::model::{RequestModel, Sums};
use super::{Change, Clue, Timed};

/// A change that costs less than this share of all changes is not worth telling.
const WORTH_TELLING: f64 = 0.1;

/// Compares what a run did with what the nearest earlier run did: the expected seconds of its longest rank, part by part.
pub(super) fn changes(this: &Timed<'_>, earlier: &[Timed<'_>]) -> Vec<Clue> {
    let seconds = this.expected.seconds;
    let distance = |run: &Timed<'_>| (run.expected.seconds / seconds).ln().abs();
    let Some(nearest) = earlier.iter().min_by(|a, b| distance(a).total_cmp(&distance(b))) else {
        return Vec::new();
    };
    let model = RequestModel::of(&earlier.iter().map(|run| run.facts).collect::<Vec<_>>());
    let (now, before) = (model.sums(this.facts), model.sums(nearest.facts));
    if before.longest_s <= 0.0 || before.all_s() <= 0.0 {
        return Vec::new();
    }
    let mut found = parts(&now, &before);
    found.retain(|(_, seconds, _)| *seconds > 0.0);
    found.sort_by(|a, b| b.1.total_cmp(&a.1));
    let sum: f64 = found.iter().map(|(_, seconds, _)| seconds).sum();
    let worth = found.into_iter().filter(|(_, seconds, _)| *seconds >= WORTH_TELLING * sum);
    worth.map(|(what, seconds, ratio)| Clue::Changed { what, seconds, ratio }).collect()
}

/// Each change, the seconds that it adds, and the new value over the old.
fn parts(now: &Sums, before: &Sums) -> Vec<(Change, f64, f64)> {
    let over = |a: f64, b: f64| if b > 0.0 { a / b } else { f64::INFINITY };
    // As if the work lay on as many ranks as before.
    let spread = before.all_s() / before.longest_s;
    let spread_now = now.all_s() / now.longest_s;
    let more_bytes =
        if before.bytes > 0.0 { before.data_s * (now.bytes / before.bytes - 1.0) } else { now.data_s };
    let by_size = now.data_s - before.data_s - more_bytes;
    let (size, size_before) = (over(now.bytes, now.data_calls), over(before.bytes, before.data_calls));
    vec![
        (Change::Bytes, more_bytes / spread, over(now.bytes, before.bytes)),
        (Change::RequestSize, by_size / spread, over(size, size_before)),
        (Change::Opens, (now.names_s - before.names_s) / spread, over(now.names, before.names)),
        (Change::Sync, (now.sync_s - before.sync_s) / spread, over(now.syncs, before.syncs)),
        (Change::Ranks, now.all_s() * (1.0 / spread_now - 1.0 / spread), over(spread_now, spread)),
    ]
}
