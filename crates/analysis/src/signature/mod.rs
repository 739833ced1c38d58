//! One application's I/O signature out of several noisy server-side logs (after IOSI: Liu, Gunasekaran, Ma & Vazhkudai,
//! FAST 2014).
//!
//! A server's throughput log knows nothing of jobs: what it shows during a run is the application's own load, what others
//! added, and the delays their load caused. Several runs of the same application have the application in common and
//! nothing else. [`extract`] finds what is common.

use crate::period::PeriodEstimate;

pub use self::fit::{Interference, PartitionLoad, expected_interference, rank_starts};

mod consensus;
mod dtw;
mod finish;
mod fit;
mod iosi;
mod level;
mod prepare;
mod settings;

/// Returns what the runs have in common: the load that the application would have put on an otherwise idle storage.
///
/// The order of the samples does not matter.
pub fn extract(samples: &[Sample], config: &SignatureConfig) -> Result<Signature, SignatureError> {
    let prepared = prepare::prepare(samples, config)?;
    let drawn = match config.method {
        SignatureMethod::Consensus => consensus::draw(&prepared, config),
        SignatureMethod::Iosi => iosi::draw(&prepared, config),
        SignatureMethod::DtwPairwise => dtw::draw_pairwise(&prepared, config),
        SignatureMethod::DtwBarycentre => dtw::draw_barycentre(&prepared, config),
    };
    Ok(finish::finish(&prepared, drawn, config))
}

/// The throughput of a storage server during one run of the application.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Its name: a file, a job's number.
    pub name: String,
    /// How long each value lasts.
    pub interval_s: f64,
    /// Bytes per second; NaN where the log has a hole.
    pub bandwidth_bps: Vec<f64>,
    /// How much of the run it shows.
    pub extent: Extent,
    /// On how many nodes the application ran. If samples differ in it, they are normalised to the fewest (weak scaling:
    /// the volume grows with the nodes, the bandwidth does not); samples that do not say so are taken for the fewest.
    pub n_nodes: Option<u32>,
}

impl Sample {
    /// Returns the sample of a whole run.
    pub fn whole(name: impl Into<String>, interval_s: f64, bandwidth_bps: Vec<f64>) -> Self {
        Self { name: name.into(), interval_s, bandwidth_bps, extent: Extent::Whole, n_nodes: None }
    }

    /// How long it is.
    pub fn duration_s(&self) -> f64 {
        self.bandwidth_bps.len() as f64 * self.interval_s
    }

    /// Returns the bytes moved, by anyone; holes count nothing.
    pub fn volume_bytes(&self) -> f64 {
        self.bandwidth_bps.iter().filter(|value| !value.is_nan()).sum::<f64>() * self.interval_s
    }
}

/// How much of a run a sample shows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Extent {
    /// From its start to its end.
    #[default]
    Whole,
    /// A part that begins `offset_s` after the start of the run; nothing is known of what came before and after.
    Part {
        /// Seconds from the start of the run to the first value.
        offset_s: f64,
    },
}

/// How to look for a signature.
#[derive(Clone, Debug, PartialEq)]
pub struct SignatureConfig {
    /// Which method.
    pub method: SignatureMethod,
    /// The grid of the signature; `None`: half the finest interval of the samples, as the paper refines 2 s to 1 s.
    pub interval_s: Option<f64>,
    /// Which samples are not like the others.
    pub outliers: SampleOutlierConfig,
    /// For the methods of the paper: whether samples are brought to one duration and freed of the background first
    /// (section 5.1). Without it they are only refined, as in its section 6.
    pub preprocess: bool,
    /// A stretch of the signature is a burst if it reaches this share of the height of its bursts; as for any peak, half.
    pub burst_share: f64,
    /// Settings of [`SignatureMethod::Consensus`].
    pub consensus: ConsensusConfig,
    /// Settings of [`SignatureMethod::Iosi`].
    pub iosi: IosiConfig,
    /// Settings of [`SignatureMethod::DtwPairwise`] and [`SignatureMethod::DtwBarycentre`].
    pub dtw: DtwConfig,
}

impl Default for SignatureConfig {
    fn default() -> Self {
        Self {
            method: SignatureMethod::default(),
            interval_s: None,
            outliers: SampleOutlierConfig::default(),
            preprocess: true,
            burst_share: 0.5,
            consensus: ConsensusConfig::default(),
            iosi: IosiConfig::default(),
            dtw: DtwConfig::default(),
        }
    }
}

/// A way of finding what the samples have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SignatureMethod {
    /// Background load only adds and contention only delays: samples are aligned under these two laws, the bursts timed by
    /// the pauses between them; see `docs/signature.md`.
    #[default]
    Consensus,
    /// The paper's: wavelet, bursts as points of a grid, dense cells.
    Iosi,
    /// The paper's baseline: dynamic time warping, one sample after the other into a running average.
    DtwPairwise,
    /// The honest baseline: the barycentre of all samples under dynamic time warping (Petitjean et al., 2011).
    DtwBarycentre,
}

/// Which samples are not like the others, by duration and volume (section 5.1 of the paper).
#[derive(Clone, Debug, PartialEq)]
pub struct SampleOutlierConfig {
    /// Whether to look at all.
    pub enabled: bool,
    /// A sample is dropped if its local outlier factor exceeds this and the mean factor of all samples.
    pub factor: f64,
    /// At least so many samples stay.
    pub keep: usize,
}

impl Default for SampleOutlierConfig {
    fn default() -> Self {
        Self { enabled: true, factor: 1.5, keep: 3 }
    }
}

/// Settings of [`SignatureMethod::Consensus`].
///
/// Costs are per point of the samples' grid, in heights of a burst. The values were chosen on made logs; see
/// `docs/signature.md`.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsensusConfig {
    /// How far a sample may lag behind the template, beside what it lasts longer than that.
    pub slack_s: f64,
    /// Cost of a value below the template's; one above costs `above`. Background load only adds.
    pub below: f64,
    /// See `below`.
    pub above: f64,
    /// Largest distance above the template that adds to the cost, in heights.
    pub most_above: f64,
    /// Cost of changing the delay by one point within a burst, where contention delays.
    pub change_in_burst: f64,
    /// Cost of changing it between bursts, where nothing delays.
    pub change_in_pause: f64,
    /// Of the aligned samples, the template is this quantile.
    pub quantile: f64,
    /// How often template and alignment take turns, at most.
    pub rounds: usize,
    /// A stretch of the template is a burst if it stays above this share of the height …
    pub burst_base: f64,
    /// … and reaches this share somewhere.
    pub burst_peak: f64,
    /// Of the moments at which the first burst begins, the signature takes this quantile: starting a job may only take longer.
    pub launch_quantile: f64,
    /// Of the pauses between two bursts, the signature takes this quantile.
    pub pause_quantile: f64,
    /// Of the volumes and lengths of a burst, the signature takes this quantile.
    pub burst_quantile: f64,
    /// Of the values within a burst, the signature takes this quantile.
    pub level_quantile: f64,
    /// Heights and volumes of bursts that differ by no more than this share are taken as the same.
    pub alike: f64,
    /// Pauses that differ by no more than this are taken as the same.
    pub alike_pause_s: f64,
    /// How much the start of a burst follows the moments at which the samples show it, less the delay that what others
    /// usually do explains; the rest follows from the burst before it and the pause between.
    pub anchor: f64,
    /// How much more a sample's word on a burst counts if others are quieter around it: the weight is their bandwidth to the
    /// power of minus this.
    pub trust: f64,
}

impl Default for ConsensusConfig {
    fn default() -> Self {
        Self {
            slack_s: 40.0,
            below: 1.0,
            above: 0.5,
            most_above: 1.0,
            change_in_burst: 0.15,
            change_in_pause: 1.0,
            quantile: 0.25,
            rounds: 4,
            burst_base: 0.35,
            burst_peak: 0.55,
            launch_quantile: 0.3,
            pause_quantile: 0.6,
            burst_quantile: 0.5,
            level_quantile: 0.4,
            alike: 0.2,
            alike_pause_s: 4.0,
            anchor: 0.2,
            trust: 1.0,
        }
    }
}

/// Settings of [`SignatureMethod::Iosi`], with the paper's values.
#[derive(Clone, Debug, PartialEq)]
pub struct IosiConfig {
    /// How often the wavelet halves the band.
    pub wavelet_level: usize,
    /// A cell is dense if this share of the samples has a burst in it: the paper's γ.
    pub density: f64,
    /// A neighbourhood is dense if this share of the samples has a burst in it: the paper's κ.
    pub neighbourhood_density: f64,
    /// Heights of a cell that are tried: lowest and highest.
    pub heights: (f64, f64),
    /// How many widths and how many heights are tried.
    pub n_settings: usize,
    /// Whether a burst stands in the plane at its crest, as in the paper, rather than at its centre of mass, which what
    /// others do moves less.
    pub at_crest: bool,
}

impl Default for IosiConfig {
    fn default() -> Self {
        Self {
            wavelet_level: 2,
            density: 0.5,
            neighbourhood_density: 0.9,
            heights: (0.05, 0.25),
            n_settings: 5,
            at_crest: false,
        }
    }
}

/// Settings of the two methods that warp time.
#[derive(Clone, Debug, PartialEq)]
pub struct DtwConfig {
    /// How far two aligned points may lie apart; `None`: any distance, at a cost that grows with the square of the length.
    pub band_s: Option<f64>,
    /// How often the barycentre is taken anew, at most.
    pub rounds: usize,
}

impl Default for DtwConfig {
    fn default() -> Self {
        Self { band_s: Some(40.0), rounds: 10 }
    }
}

/// Load that several runs have in common.
#[derive(Clone, Debug, PartialEq)]
pub struct Signature {
    /// How it was found.
    pub method: SignatureMethod,
    /// Seconds from the start of the run to the first value: 0, unless all samples are parts of runs.
    pub offset_s: f64,
    /// How long each value lasts.
    pub interval_s: f64,
    /// The application's own load, in bytes per second.
    pub bandwidth_bps: Vec<f64>,
    /// Spread of the aligned samples at each point.
    pub spread: Vec<Spread>,
    /// Where the load is, in order.
    pub bursts: Vec<Burst>,
    /// The rhythm of the bursts, if they have one.
    pub period: PeriodEstimate,
    /// How well the samples support the signature, in [0, 1].
    pub confidence: f64,
    /// Background load of others on the storage, as far as it was found and removed.
    pub background_bps: f64,
    /// The samples it was made of, in the order they were given.
    pub used: Vec<UsedSample>,
    /// The samples that were left out, in the order they were given.
    pub rejected: Vec<RejectedSample>,
}

/// The middle half of the aligned samples at one point, what others added included.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// A quarter of the samples shows less.
    pub low_bps: f64,
    /// Half of the samples shows less.
    pub median_bps: f64,
    /// Three quarters of the samples show less.
    pub high_bps: f64,
}

/// A stretch of I/O in a signature.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "schema", derive(serde::Serialize))]
pub struct Burst {
    /// When it begins, in seconds from the start of the run.
    pub start_s: f64,
    /// When it ends.
    pub end_s: f64,
    /// Its highest bandwidth.
    pub peak_bps: f64,
    /// Bytes it moves.
    pub bytes: f64,
    /// The share of the used samples that show it.
    pub support: f64,
}

/// A sample that went into the signature.
#[derive(Clone, Debug, PartialEq)]
pub struct UsedSample {
    /// Its place in the samples given.
    pub index: usize,
    /// Its name.
    pub name: String,
    /// How much it resembles the signature once aligned: the cosine of the angle between the two series, in [0, 1].
    pub similarity: f64,
    /// How much later than in the signature its end came, in seconds.
    pub delay_s: f64,
    /// Where each point of the signature lies in it, in seconds from the start of its run.
    pub times_s: Vec<f64>,
}

/// A sample that was left out.
#[derive(Clone, Debug, PartialEq)]
pub struct RejectedSample {
    /// Its place in the samples given.
    pub index: usize,
    /// Its name.
    pub name: String,
    /// Why.
    pub reason: SampleRejection,
}

/// Why a sample was left out.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum SampleRejection {
    /// Its duration and volume are not those of the others.
    Outlier {
        /// Its local outlier factor.
        factor: f64,
        /// Its duration over the median duration.
        duration_ratio: f64,
        /// Its volume over the median volume.
        volume_ratio: f64,
    },
    /// Aligned as well as possible, it does not show what the others have in common.
    Unlike {
        /// How far it is off, in multiples of the median sample's misfit.
        misfit_ratio: f64,
    },
    /// It shows a part of the run, and the method takes every sample for a whole one.
    Part {
        /// Its duration over the median duration of whole runs.
        duration_ratio: f64,
    },
    /// It holds no value.
    Empty,
}

/// Why no signature exists.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SignatureError {
    /// One run alone cannot tell its own load from that of others.
    #[error("a signature needs at least {needed} samples with values, but there are {given}")]
    TooFewSamples {
        /// How many there are.
        given: usize,
        /// How many it takes.
        needed: usize,
    },
    /// A bandwidth is infinite or negative.
    #[error("sample {name} holds a bandwidth of {value}")]
    BadValue {
        /// The sample's name.
        name: String,
        /// The value.
        value: f64,
    },
    /// An offset is negative or infinite.
    #[error("sample {name} begins {offset_s} s after the start of its run")]
    BadOffset {
        /// The sample's name.
        name: String,
        /// The offset.
        offset_s: f64,
    },
    /// An interval is not a positive time.
    #[error("sample {name} has an interval of {interval_s} s")]
    BadInterval {
        /// The sample's name.
        name: String,
        /// The interval.
        interval_s: f64,
    },
    /// The grid would have too many points.
    #[error("the samples are {duration_s} s long: too many points at an interval of {interval_s} s")]
    TooLong {
        /// The longest sample.
        duration_s: f64,
        /// The interval of the grid.
        interval_s: f64,
    },
}

/// Result of a method, on the grid of the prepared samples.
struct Drawn {
    /// The application's own load.
    bandwidth_bps: Vec<f64>,
    /// Bandwidth taken for background.
    background_bps: f64,
    /// For each sample that was used, where each point of the signature lies in it.
    alignments: Vec<Alignment>,
    /// Prepared samples that were left out on the way.
    rejected: Vec<(usize, SampleRejection)>,
}

/// Where the points of a signature lie in a sample.
struct Alignment {
    /// Which of the prepared samples.
    sample: usize,
    /// For the middle of each point of the signature, its time in the sample, in seconds from where the signature begins.
    times_s: Vec<f64>,
}

#[cfg(test)]
mod tests;
