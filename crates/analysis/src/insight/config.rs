//! The thresholds behind the insights.

use super::Rule;
use crate::SettingError;
use crate::settings::settings;

/// Which rules apply, and from when on they say something.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InsightConfig {
    /// Every threshold.
    pub thresholds: InsightThresholds,
    /// Rules that are switched off.
    pub off: Vec<Rule>,
}

impl InsightConfig {
    /// Sets one threshold by its name, or switches a rule by its name: 0 is off, anything else on.
    pub fn set(&mut self, key: &str, value: f64) -> Result<(), SettingError> {
        match Rule::from_name(key) {
            Some(rule) => {
                self.off.retain(|known| *known != rule);
                if value == 0.0 {
                    self.off.push(rule);
                }
                Ok(())
            }
            None => self.thresholds.set(key, value),
        }
    }
}

settings! {
    /// Every number that decides on an insight. Shares are in [0, 1], times in seconds, sizes in bytes.
    pub struct InsightThresholds {
        /// Fewer calls than this are not reported.
        least_calls = 1000.0,
        /// Calls that move fewer bytes than this and take less than `least_s` are not reported.
        least_bytes = 100e6,
        /// Calls that take a rank less than this and move fewer bytes than `least_bytes` are not reported.
        least_s = 1.0,
        /// More calls than this share below a megabyte: `small_reads`, `small_writes`, `small_shared`.
        small_share = 0.1,
        /// More calls than this share that go back in their file: `random_reads`, `random_writes`.
        random_share = 0.2,
        /// More calls than this share at offsets that are not aligned: `misaligned`.
        misaligned_share = 0.1,
        /// More of the bytes than this share moved before: `redundant_reads`, `redundant_writes`.
        redundant_share = 0.2,
        /// The busiest rank moves more than the mean by this share of its own bytes: `rank_imbalance`.
        imbalance_share = 0.3,
        /// The slowest rank takes longer than the others by this share of its own time: `stragglers`.
        straggler_share = 0.15,
        /// The slowest rank takes at least so much longer: `stragglers`.
        straggler_s = 1.0,
        /// A storage target takes longer for a byte than the median target by this factor: `stragglers`.
        target_factor = 3.0,
        /// More MPI-IO calls than this share made by each rank alone: `missing_collectives`.
        independent_share = 0.5,
        /// More of the run than this share in MPI-IO calls that block, on average over the ranks: `blocking_io`.
        blocking_share = 0.1,
        /// More bytes than this share through C streams: `stdio_bulk`.
        stdio_share = 0.1,
        /// A rank spends more than this in metadata calls, on average: `metadata_time`.
        metadata_s_per_rank = 30.0,
        /// More than this share of the time in I/O calls is metadata: `metadata_time`.
        metadata_share = 0.5,
        /// A file is opened more often than this by each rank that uses it, on average: `open_close_churn`.
        opens_per_file = 10.0,
        /// What exceeds its threshold by this factor is `high`, if enough depends on it: see `high_stake_share`.
        high_factor = 3.0,
        /// A finding is `high` only if its calls have at least this share of the run's bytes, or of its time in I/O.
        high_stake_share = 0.1,
    }
}
