//! Formulas on slices of `f64`; no word from the I/O world appears in here.
//!
//! # Conventions
//! - Slices in, `Vec` out. Nothing is normalised unless its name says so.
//! - Spectra are one-sided and untapered: bin `k` of `n` samples lies at `k / n` cycles a sample, `k = 0..=n/2`.
//! - Standard deviations are those of the population (divide by `n`).
//! - NaN in, NaN out: callers that may hold NaN filter first. Floats are sorted with `total_cmp`.
//! - Each formula names where it is from, and the fast ones are tested against their definition.

pub use crate::{
    autocorrelation::{autocorrelation, autocorrelation_by_definition},
    dft::{Spectrum, spectrum},
    distribution::{incomplete_beta, ln_gamma, student_t_cdf, student_t_quantile},
    least_squares::{LeastSquares, least_squares},
    stats::{coefficient_of_variation, mean, median, population_std, quantile},
};

mod autocorrelation;
mod dft;
mod distribution;
mod least_squares;
mod stats;
