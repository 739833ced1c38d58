//! The baselines: samples laid along each other by dynamic time warping, after the paper's own preprocessing.

use iotide_num::{dtw_barycentre, dtw_path};

use super::level::Level;
use super::prepare::Prepared;
use super::{Drawn, DtwConfig, SignatureConfig};

/// As the paper does it (section 6.1): the first two samples are averaged along their path, the result with the third,
/// and so on. The path is longer than either, so the result is brought back to the duration of the samples.
pub(super) fn draw_pairwise(prepared: &Prepared, config: &SignatureConfig) -> Drawn {
    let level = Level::of(prepared, config.preprocess);
    let band = band(prepared, &config.dtw);
    // Least volume first, so that the order in which the samples were given does not matter.
    let mut order: Vec<&Vec<f64>> = level.samples.iter().collect();
    order.sort_by(|a, b| a.iter().sum::<f64>().total_cmp(&b.iter().sum::<f64>()));
    let Some((first, rest)) = order.split_first() else { return drawn(prepared, &level, Vec::new(), band) };
    let mut average = first.to_vec();
    for sample in rest {
        let Some((_, path)) = dtw_path(&average, sample, band) else { continue };
        let along: Vec<f64> = path.iter().map(|&(i, j)| (average[i] + sample[j]) / 2.0).collect();
        average = shorten(&along, first.len());
    }
    drawn(prepared, &level, average, band)
}

/// The barycentre, begun with the sample of median volume.
pub(super) fn draw_barycentre(prepared: &Prepared, config: &SignatureConfig) -> Drawn {
    let level = Level::of(prepared, config.preprocess);
    let band = band(prepared, &config.dtw);
    let mut order: Vec<&Vec<f64>> = level.samples.iter().collect();
    order.sort_by(|a, b| a.iter().sum::<f64>().total_cmp(&b.iter().sum::<f64>()));
    let series: Vec<&[f64]> = order.iter().map(|sample| sample.as_slice()).collect();
    let start = series.get((series.len().max(1) - 1) / 2).copied().unwrap_or(&[]);
    let average = dtw_barycentre(&series, start, band, config.dtw.rounds);
    drawn(prepared, &level, average, band)
}

fn band(prepared: &Prepared, config: &DtwConfig) -> Option<usize> {
    config.band_s.map(|band_s| (band_s / prepared.interval_s).ceil().max(0.0) as usize)
}

/// Keeps `n` points at regular intervals.
fn shorten(values: &[f64], n: usize) -> Vec<f64> {
    (0..n).map(|i| values[i * values.len() / n]).collect()
}

fn drawn(prepared: &Prepared, level: &Level, bandwidth_bps: Vec<f64>, band: Option<usize>) -> Drawn {
    let places: Vec<Vec<usize>> = level
        .samples
        .iter()
        .map(|sample| {
            let mut places = vec![0; bandwidth_bps.len()];
            for (i, j) in dtw_path(&bandwidth_bps, sample, band).map_or(Vec::new(), |(_, path)| path) {
                places[i] = j;
            }
            places
        })
        .collect();
    Drawn {
        alignments: level.alignments(prepared, &places),
        bandwidth_bps,
        background_bps: level.background_bps,
        rejected: Vec::new(),
    }
}
