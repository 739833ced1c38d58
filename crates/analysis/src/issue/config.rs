//! The settings behind the issues.

use super::IssueId;
use crate::SettingError;
use crate::settings::settings;

/// Which checks apply, and the numbers they use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IssueConfig {
    /// Every number.
    pub thresholds: IssueThresholds,
    /// Checks that are switched off.
    pub off: Vec<IssueId>,
}

impl IssueConfig {
    /// Sets one number by its name, or switches a check by its id: 0 is off, anything else on.
    pub fn set(&mut self, key: &str, value: f64) -> Result<(), SettingError> {
        match IssueId::from_name(key) {
            Some(id) => {
                self.off.retain(|known| *known != id);
                if value == 0.0 {
                    self.off.push(id);
                }
                Ok(())
            }
            None => self.thresholds.set(key, value),
        }
    }
}

settings! {
    /// Every number that decides on an issue. Shares are in [0, 1], times in seconds, sizes in bytes.
    pub struct IssueThresholds {
        /// From this share of the run on, an issue is `high`.
        high_gain = 0.10,
        /// From this share of the run on, an issue is `medium`; below, `low`.
        medium_gain = 0.03,
        /// An issue whose gain is below this share of the busiest rank's I/O time is not listed.
        least_share_of_io = 0.01,
        /// Less I/O time than this on the busiest rank is too little to judge.
        least_s = 1.0,
        /// A run with a lower share of I/O has no issue.
        least_io_share = 0.01,
        /// Fewer small calls than this are not reported.
        least_calls = 100.0,
        /// Least share of calls below 1 MiB: `small_reads`, `small_writes`.
        small_share = 0.1,
        /// Least share of calls that go back in their file: `random_reads`, `random_writes`.
        random_share = 0.2,
        /// Bytes moved for each byte asked for: `read_amplification`, `write_amplification`.
        amplification = 1.2,
        /// Bytes moved for each byte of the file: `redundant_reads`, `redundant_writes`.
        redundancy = 1.2,
        /// The busiest rank has more bytes than the mean by this factor: `rank_imbalance`.
        imbalance = 1.5,
        /// The slowest rank takes longer than the median by this factor: `stragglers`.
        straggler = 1.5,
        /// The slowest rank takes longer by at least this: `stragglers`.
        straggler_s = 1.0,
        /// A storage target takes longer for a byte than the median target by this factor: `slow_target`.
        target_factor = 3.0,
        /// A phase takes longer than the median phase by this factor: `slow_phase`.
        phase_factor = 2.0,
        /// Opens of a file by one rank: `open_close_churn`.
        opens_per_file = 10.0,
        /// Requests for attributes of a file by one rank: `stat_storm`.
        stats_per_file = 10.0,
        /// Files of a rank: `many_small_files`.
        files_per_rank = 100.0,
        /// Processes from which on a file each is too many: `file_per_process`.
        file_per_process_ranks = 512.0,
        /// Least share of syncs among writes: `excessive_sync`.
        sync_share = 0.1,
        /// Least share of bytes through C streams: `stdio_bulk`.
        stdio_share = 0.1,
        /// Bytes per second of one rank after a fix, unless the log shows more.
        rank_bps = 2e9,
        /// Bytes per second of one storage target after a fix, unless the log shows more.
        target_bps = 1e9,
    }
    removed {
        least_bytes = "no issue depends on an amount of bytes",
        misaligned_share = "`misaligned` follows from the cost",
        redundant_share = "see `redundancy`",
        imbalance_share = "see `imbalance`",
        straggler_share = "see `straggler`",
        independent_share = "`missing_collectives` follows from bytes and time",
        blocking_share = "`blocking_io` follows from the phases",
        metadata_s_per_rank = "`metadata_time` follows from the cost",
        metadata_share = "`metadata_time` follows from the cost",
        high_factor = "severity follows from the gain: see `high_gain`",
        high_stake_share = "severity follows from the gain: see `high_gain`",
        small_shared = "such calls are `small_reads` and `small_writes`",
    }
}
