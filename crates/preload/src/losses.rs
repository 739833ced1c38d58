//! Losses of records, counted by kind.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use iotide_wire::{EndReason, LossEntries, LossKind};

use crate::{sink, totals};

static COUNTS: [AtomicU64; LossKind::COUNT] = [const { AtomicU64::new(0) }; LossKind::COUNT];
/// The sum of all counts when they were last written.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// Counts losses of a kind.
#[cold]
pub fn count(kind: LossKind, n: u64) {
    COUNTS[kind as usize - 1].fetch_add(n, Relaxed);
}

/// Writes the counters and totals out if losses have changed, or with a reason to end.
pub fn write_out(reason: Option<EndReason>) {
    let sum = COUNTS.iter().map(|count| count.load(Relaxed)).sum();
    if WRITTEN.swap(sum, Relaxed) == sum && reason.is_none() {
        return;
    }
    let mut payload = [0; LossKind::COUNT * LossEntries::ENTRY_SIZE];
    for (entry, kind) in payload.chunks_exact_mut(LossEntries::ENTRY_SIZE).zip(LossKind::ALL) {
        entry.copy_from_slice(&LossEntries::encode(kind, COUNTS[kind as usize - 1].load(Relaxed)));
    }
    sink::write_last(&payload, &totals::now(), reason);
}

/// Starts from nothing, in a forked child.
pub fn forget() {
    COUNTS.iter().for_each(|count| count.store(0, Relaxed));
    WRITTEN.store(0, Relaxed);
}
