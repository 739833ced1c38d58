//! Formulas on slices of `f64`; no word from the I/O world appears in here.
//!
//! # Conventions
//! - Slices in, `Vec` out. Nothing is normalised unless its name says so.
//! - Spectra are one-sided and untapered: bin `k` of `n` samples lies at `k / n` cycles a sample, `k = 0..=n/2`.
//! - Standard deviations are those of the population (divide by `n`).
//! - NaN in, NaN out: callers that may hold NaN filter first. Floats are sorted with `total_cmp`.
//! - Each formula names where it is from, and the fast ones are tested against their definition.

pub use crate::{
    autocorrelation::{autocorrelation, autocorrelation_and_powers, autocorrelation_by_definition},
    changepoint::{Change, ChangeDetector, ChangeDetectorKind},
    cross_correlation::{cross_correlation, cross_correlation_by_definition, largest_cross_correlation},
    dbscan::{dbscan_by_definition, dbscan_line, dbscan_plane},
    dft::{Spectrum, spectrum},
    distribution::{incomplete_beta, ln_gamma, student_t_cdf, student_t_quantile},
    dtw::{dtw_barycentre, dtw_path},
    least_squares::{LeastSquares, least_squares},
    linkage::{Merge, average_linkage, clusters_below},
    outliers::{
        isolation_scores, local_outlier_factors, local_outlier_factors_on_line, modified_z_scores, z_scores,
    },
    peaks::{Peak, PeakConditions, find_peaks, peak_prominences},
    random::SplitMix64,
    rank_sum::rank_sum_p,
    resample::{mean_of_steps, rebin, resample_linear},
    stats::{
        coefficient_of_variation, mean, mean_half_width, median, median_absolute_deviation, population_std,
        quantile, quantile_of_sorted, quantiles_across, weighted_mean, weighted_std,
    },
    wavelet::{meyer_approximation, meyer_low_pass},
};

mod autocorrelation;
mod changepoint;
mod cross_correlation;
mod dbscan;
mod dft;
mod distribution;
mod dtw;
mod least_squares;
mod linkage;
mod outliers;
mod peaks;
mod random;
mod rank_sum;
mod resample;
mod stats;
mod wavelet;
