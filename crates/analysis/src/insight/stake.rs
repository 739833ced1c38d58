//! What depends on the calls a rule is about: bytes, time, files and ranks.

use iotide_trace::{AccessFacts, ActivitySums, FileStake, Layer, Op, Rank, StakeKind};

/// What depends on the calls of a finding.
#[derive(Clone, Debug, Default)]
pub(super) struct AtStake {
    pub(super) calls: f64,
    pub(super) bytes: f64,
    /// Summed over the ranks; 0 if it is not known.
    pub(super) seconds: f64,
    /// The longest that a single rank spends on one file.
    pub(super) longest_s: f64,
    /// The files with most of it.
    pub(super) files: Vec<String>,
    /// The ranks that have files of their own among these.
    pub(super) ranks: Vec<i32>,
}

impl AtStake {
    /// What the source counted of calls of that kind; `None` if it does not tell calls apart by file.
    pub(super) fn counted(
        seen: &ActivitySums,
        facts: &AccessFacts,
        kind: StakeKind,
        n_ranks: f64,
    ) -> Option<Self> {
        if facts.stakes.is_empty() {
            return None;
        }
        let Some(stake) = facts.stake(kind) else { return Some(Self::default()) };
        let of_one = |part: &FileStake| part.seconds / if part.rank == Rank::ALL { n_ranks } else { 1.0 };
        let mut files: Vec<String> = Vec::new();
        let mut ranks: Vec<i32> = Vec::new();
        for part in &stake.worst {
            if let Some(path) = seen.named_files.get(&part.file).filter(|path| !is_standard_stream(path))
                && !files.contains(path)
            {
                files.push(path.clone());
            }
            if part.rank != Rank::ALL && !ranks.contains(&part.rank.0) {
                ranks.push(part.rank.0);
            }
        }
        Some(Self {
            calls: stake.calls as f64,
            bytes: stake.bytes,
            seconds: stake.seconds,
            longest_s: stake.worst.iter().map(of_one).fold(0.0, f64::max),
            files,
            ranks,
        })
    }

    /// An even share of what a layer moved and took.
    pub(super) fn share_of(seen: &ActivitySums, layer: Layer, ops: &[Op], share: f64, calls: f64) -> Self {
        let mut bytes = 0.0;
        let mut seconds = 0.0;
        for op in ops {
            let of = |known: &&iotide_trace::OpActivity| known.layer == layer && known.op == *op;
            bytes += seen.ops.iter().filter(of).map(|known| known.sums.bytes).sum::<f64>();
            if let Some(times) = seen.times.iter().find(|times| times.layer == layer) {
                seconds += if *op == Op::Read { times.read_s } else { times.write_s }.unwrap_or(0.0);
            }
        }
        Self { calls, bytes: share * bytes, seconds: share * seconds, ..Self::default() }
    }
}

/// Whether a name stands for a terminal or a pipe rather than for a file.
pub(super) fn is_standard_stream(path: &str) -> bool {
    matches!(path, "<STDIN>" | "<STDOUT>" | "<STDERR>")
        || matches!(path, "/dev/stdin" | "/dev/stdout" | "/dev/stderr" | "/dev/null" | "/dev/tty")
}
