//! Differences of the program's I/O from earlier runs, the costliest first.

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
    let names = (Change::Opens, now.names_s - before.names_s, over(now.names, before.names));
    let syncs = (Change::Sync, now.sync_s - before.sync_s, over(now.syncs, before.syncs));
    if before.longest_bytes <= 0.0 || now.longest_bytes <= 0.0 {
        return vec![
            (Change::Bytes, now.data_s - before.data_s, over(now.bytes, before.bytes)),
            names,
            syncs,
        ];
    }
    // First more bytes, spread over ranks and requests as before; then on other ranks; then in requests of another size.
    let more = now.bytes / before.bytes;
    let on_one = (now.longest_bytes / now.bytes) / (before.longest_bytes / before.bytes);
    let size = (now.bytes / now.data_calls) / (before.bytes / before.data_calls);
    vec![
        (Change::Bytes, before.data_s * (more - 1.0), more),
        (Change::Ranks, before.data_s * more * (on_one - 1.0), 1.0 / on_one),
        (Change::RequestSize, now.data_s - before.data_s * more * on_one, size),
        names,
        syncs,
    ]
}
