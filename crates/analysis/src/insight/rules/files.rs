//! Rules about layers, metadata and opens.

use iotide_trace::{Layer, Op};

use super::{Run, found, found_in, percent};
use crate::insight::stake::{AtStake, is_standard_stream};
use crate::insight::{Rule, Severity, Verdict};

impl Run<'_> {
    pub(super) fn stdio(&self) -> Verdict {
        let known = self.seen.ops.iter().any(|op| op.op.moves_data() && op.layer != Layer::Unknown);
        if !known && self.bytes > 0.0 {
            return Verdict::NotKnown("which layer moved the bytes");
        }
        // What goes to a terminal is no bulk data.
        let streams = self.seen.files.iter().filter(|file| is_standard_stream(&file.path));
        let to_terminals: f64 = streams.map(|file| file.sums.bytes()).sum();
        let bytes = self.bytes_of(Layer::Stdio, Op::Read) + self.bytes_of(Layer::Stdio, Op::Write);
        let bytes = (bytes - to_terminals).max(0.0);
        let share = if self.bytes > 0.0 { bytes / self.bytes } else { 0.0 };
        match self.weigh(share, self.thresholds.stdio_share) {
            Some(severity) if bytes >= self.thresholds.least_bytes => found(
                Rule::StdioBulk,
                severity,
                format!("{} of the bytes go through C streams", percent(share)),
                "move bulk data with POSIX or MPI-IO calls, or a library above them; C streams are made for text",
                &[("stdio_bytes", bytes), ("bytes", self.bytes), ("share", share)],
            ),
            _ => Verdict::Clear,
        }
    }

    pub(super) fn metadata(&self) -> Verdict {
        let times = &self.seen.times;
        if !times.iter().any(|time| time.metadata_s.is_some()) {
            return if self.seen.ops.is_empty() {
                Verdict::Clear
            } else {
                Verdict::NotKnown("time in metadata calls")
            };
        }
        // Layers contain each other; the one that spends most is the outermost that was seen.
        let metadata_s = times.iter().filter_map(|time| time.metadata_s).fold(0.0, f64::max);
        let data_s = times
            .iter()
            .map(|time| time.read_s.unwrap_or(0.0) + time.write_s.unwrap_or(0.0))
            .fold(0.0, f64::max);
        let per_rank_s = metadata_s / self.n_ranks;
        let share = if metadata_s > 0.0 { metadata_s / (metadata_s + data_s) } else { 0.0 };
        let long = self.weigh(per_rank_s, self.thresholds.metadata_s_per_rank);
        // A large share of next to nothing is nothing.
        let much = self.weigh(share, self.thresholds.metadata_share).filter(|_| per_rank_s >= 1.0);
        let Some(severity) = [long, much].into_iter().flatten().min() else { return Verdict::Clear };
        found(
            Rule::MetadataTime,
            severity,
            format!(
                "a rank spends {per_rank_s:.1} s in metadata calls, {} of its time in I/O",
                percent(share)
            ),
            "open files once and keep them open, use fewer and larger files, avoid stat in loops",
            &[("metadata_s_per_rank", per_rank_s), ("metadata_s", metadata_s), ("share", share)],
        )
    }

    pub(super) fn churn(&self) -> Verdict {
        let files = &self.seen.files;
        let opens: f64 = files.iter().map(|file| file.sums.opens as f64).sum();
        if opens == 0.0 {
            let counted = self.seen.ops.iter().any(|op| op.op == Op::Open);
            return match (counted, self.seen.ops.is_empty()) {
                (true, _) => Verdict::NotKnown("which file was opened"),
                (false, true) => Verdict::Clear,
                (false, false) => Verdict::NotKnown("opens"),
            };
        }
        let often = |file: &iotide_trace::FileActivity| {
            let users = if file.sums.all_ranks { self.n_ranks } else { f64::from(file.sums.n_ranks.max(1)) };
            file.sums.opens as f64 / users
        };
        let mut churned: Vec<_> = files
            .iter()
            .filter(|file| often(file) > self.thresholds.opens_per_file && !is_standard_stream(&file.path))
            .collect();
        churned.sort_by(|a, b| often(b).total_cmp(&often(a)).then_with(|| a.path.cmp(&b.path)));
        let Some(worst) = churned.first() else { return Verdict::Clear };
        let reopens: f64 = churned.iter().map(|file| file.sums.opens as f64).sum();
        // Where the time is known, opens that take none are no matter.
        let metadata_s = self.seen.times.iter().filter_map(|time| time.metadata_s).reduce(f64::max);
        let opens_s = metadata_s.map(|metadata_s| metadata_s * reopens / opens);
        let is_quick = opens_s.is_some_and(|opens_s| opens_s / self.n_ranks < self.thresholds.least_s);
        let is_part = opens_s.is_none_or(|opens_s| opens_s >= self.thresholds.high_stake_share * self.io_s);
        match self.weigh(often(worst), self.thresholds.opens_per_file) {
            Some(severity) if reopens >= self.thresholds.least_calls && !is_quick => found_in(
                Rule::OpenCloseChurn,
                if is_part { severity } else { Severity::Warning },
                format!("{} is opened {:.0} times by each rank that uses it", worst.path, often(worst)),
                "open the file once and keep it open until the last use",
                &[
                    ("opens_per_rank", often(worst)),
                    ("opens_of_file", worst.sums.opens as f64),
                    ("files", churned.len() as f64),
                    ("opens", opens),
                ],
                AtStake {
                    files: churned.iter().take(3).map(|file| file.path.clone()).collect(),
                    ..AtStake::default()
                },
            ),
            _ => Verdict::Clear,
        }
    }
}
