//! The thresholds behind the labels.

use crate::settings::settings;

/// How labels are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CategoryMethod {
    /// Our own: distances of byte curves, and the periods of [`crate::Method::Auto`].
    #[default]
    Auto,
    /// The rules of the MOSAIC paper (Jolivel et al., PDSW 2024), taken literally.
    Mosaic,
}

impl CategoryMethod {
    /// The name used on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Mosaic => "mosaic",
        }
    }
}

/// How to label a run: the method and every threshold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CategoryConfig {
    /// Which method.
    pub method: CategoryMethod,
    /// Every threshold.
    pub thresholds: CategoryThresholds,
}

settings! {
    /// Every number that decides on a label. Shares are in [0, 1], times in seconds, sizes in bytes.
    pub struct CategoryThresholds {
        /// Reads, or writes, of fewer bytes than this are insignificant.
        insignificant_bytes = 100e6,
        /// Operations nearer to each other than this share of the run are one.
        merge_gap_of_run = 0.001,
        /// Operations nearer to each other than this share of the one before are one.
        merge_gap_of_neighbour = 0.01,
        /// The longest period called `periodic_second`.
        longest_second_s = 30.0,
        /// The longest period called `periodic_minute`.
        longest_minute_s = 1800.0,
        /// The longest period called `periodic_hour`; longer ones are `periodic_day_or_more`.
        longest_hour_s = 43200.0,
        /// Busy for at most this share of a period: `periodic_low_busy_time`.
        low_busy_share = 0.25,
        /// Busy for at least this share of a period: `periodic_high_busy_time`.
        high_busy_share = 0.75,
        /// More metadata requests than this in one second: `metadata_high_spike`.
        high_spike_requests = 250.0,
        /// As many metadata requests as this in one second make a spike.
        spike_requests = 50.0,
        /// As many spikes as this: `metadata_multiple_spikes`.
        multiple_spikes = 5.0,
        /// Beside the spikes, as many requests as this per second of the run: `metadata_high_density`.
        dense_requests_per_s = 50.0,
        /// Events may lie this long outside the run before the run is rejected.
        outside_run_s = 1.0,
        /// A run is rejected if more than one record, and more than this share, is invalid.
        senseless_share = 0.05,
        /// MOSAIC: a quarter with more than this many times the bytes of the rest is where they are moved.
        mosaic_dominant = 2.0,
        /// MOSAIC: a quarter with fewer bytes than the rest divided by this is avoided.
        mosaic_avoided = 5.0,
        /// MOSAIC: the middle half, or the two ends, with more than this many times the bytes of the rest dominate.
        mosaic_middle = 4.0,
        /// MOSAIC: bytes whose coefficient of variation is below this are even.
        mosaic_even = 0.25,
        /// MOSAIC: segments whose durations and volumes differ by less than this ratio are of one group.
        mosaic_bandwidth = 1.25,
    }
    removed {
        chain_prior = "the periods are those of `iotide detect`, which weighs rhythms itself",
        class_ratio = "the periods are those of `iotide detect`, which finds classes of volumes itself",
        most_samples = "the periods are found without samples",
    }
}
