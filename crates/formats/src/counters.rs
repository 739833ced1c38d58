//! Bytes and requests that storage servers count since they were started, target by target: between two samples of a target lies one bin.

use std::collections::HashMap;
use std::ops::ControlFlow;

use iotide_trace::{Event, EventSink, FileId, Grain, Layer, Op, Rank, Timestamp};

use crate::{Place, budget::NameBudget, files::Files, losses::Losses, number::parse_nanos};

/// Lustre numbers its targets with 16 bits; nobody has more.
const MOST_TARGETS: usize = 1 << 16;

/// Total that a target has counted so far, of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Total {
    pub(crate) bytes: u64,
    /// Where requests are counted, too.
    pub(crate) calls: Option<u64>,
}

/// A sample of one counter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample<'a> {
    /// Identity of the target.
    pub(crate) target: &'a [u8],
    pub(crate) time: Timestamp,
    pub(crate) op: Op,
    pub(crate) total: Total,
    pub(crate) redundancy: Redundancy,
    pub(crate) place: Place,
}

/// How much more servers count than clients do, because they keep copies or parity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Redundancy {
    /// Bytes of servers for one byte of a client.
    pub(crate) bytes: f64,
    /// Requests to servers for one request of a client.
    pub(crate) calls: f64,
}

impl Redundancy {
    pub(crate) const NONE: Self = Self { bytes: 1.0, calls: 1.0 };
}

/// Reads a line `# SECONDS` or `# SECONDS TARGET`, which says when (and where) what follows was counted: what `date +'# %s.%N'` or
/// `stat -c '# %.Y'` writes.
pub(crate) fn mark(line: &[u8]) -> Option<(Timestamp, &[u8])> {
    let rest = line.strip_prefix(b"#")?.trim_ascii();
    let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
    let (seconds, target) = rest.split_at(end);
    let time = Timestamp::from_nanos_since_start(parse_nanos(seconds)?);
    (time.as_nanos() > 0).then_some((time, target.trim_ascii()))
}

/// The last samples of all targets.
#[derive(Default)]
pub(crate) struct Counters {
    targets: HashMap<Vec<u8>, Target>,
    budget: NameBudget,
    pub(crate) files: Files,
}

/// Last totals of a target, read and written, and their times.
struct Target {
    file: FileId,
    last: [Option<(Timestamp, Total)>; 2],
}

impl Counters {
    /// Takes a sample, and hands over what was moved since the one before. `label` is what the target is called in the trace.
    pub(crate) fn sample(
        &mut self,
        sample: Sample,
        label: impl FnOnce() -> String,
        losses: &mut Losses,
        sink: &mut dyn EventSink,
    ) -> ControlFlow<()> {
        let Sample { target: name, time, op, total: now, redundancy, place } = sample;
        if !self.targets.contains_key(name) {
            if self.targets.len() >= MOST_TARGETS || !self.budget.takes(name) {
                losses.note("many", place, || format!("more than {MOST_TARGETS} targets"));
                return ControlFlow::Continue(());
            }
            let file = if name.is_empty() { FileId::NONE } else { self.files.id(&label()) };
            self.targets.insert(name.to_vec(), Target { file, last: [None; 2] });
        }
        let Some(target) = self.targets.get_mut(name) else { return ControlFlow::Continue(()) };
        let last = &mut target.last[usize::from(op == Op::Write)];
        if let Some((since, then)) = *last
            && time <= since
        {
            // Whoever looks more often than the server counts sees the same again.
            if (time, now) != (since, then) {
                losses.note("order", place, || {
                    format!("time {} is not after {}, on the same target", time.as_secs(), since.as_secs())
                });
            }
            return ControlFlow::Continue(());
        }
        let Some((since, then)) = last.replace((time, now)) else { return ControlFlow::Continue(()) };
        // Less than before: the server was started again, or another took over. What it counts now need not have been
        // moved since the last sample, and a wrong terabyte is worse than a hole.
        let Some(moved) = now.bytes.checked_sub(then.bytes) else {
            losses.note("fewer", place, || {
                let (then, now) = (then.bytes, now.bytes);
                format!("the counter went from {then} to {now}; nobody knows what was moved in between")
            });
            return ControlFlow::Continue(());
        };
        let calls = now.calls.zip(then.calls).map_or(0, |(now, then)| now.saturating_sub(then));
        sink.event(Event {
            op,
            layer: Layer::Server,
            grain: Grain::Bin,
            rank: Rank::ALL,
            file: target.file,
            start: since,
            end: time,
            bytes: moved as f64 / redundancy.bytes,
            calls: (calls as f64 / redundancy.calls).round() as u32,
        })
    }
}
