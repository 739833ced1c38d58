//! Which point to measure next.

use crate::model::Model;

/// A point worth measuring.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// Where.
    pub at: Vec<f64>,
    /// How far the functions still possible disagree there, as a share of the value: what a measurement would settle.
    pub disagreement: f64,
    /// Cost of the measurement, in the units of the caller.
    pub cost: f64,
}

/// Returns points worth measuring, the best buy first: most disagreement settled for the cost.
///
/// Candidates are one step beyond the range of each parameter (up and down), the gap in the middle of it, and the corner
/// where all parameters are largest, which tells sums from products. `models` are the metrics of one experiment;
/// a point is worth what it settles for the one that needs it most. `measured` holds the points there are.
pub fn advise(models: &[&Model], measured: &[Vec<f64>], cost: impl Fn(&[f64]) -> f64) -> Vec<Advice> {
    let mut advice: Vec<Advice> = candidates(models, measured)
        .into_iter()
        .map(|at| {
            let disagreement = models.iter().map(|model| disagreement(model, &at)).fold(0.0, f64::max);
            let cost = cost(&at);
            Advice { at, disagreement, cost }
        })
        .filter(|advice| advice.disagreement.is_finite() && advice.disagreement > 1e-6)
        .collect();
    // Disagreement beyond a factor of two is settled by any measurement; more of it is not worth more.
    let worth = |advice: &Advice| advice.disagreement.min(1.0) / advice.cost.max(f64::MIN_POSITIVE);
    advice.sort_by(|a, b| worth(b).total_cmp(&worth(a)));
    advice
}

fn candidates(models: &[&Model], measured: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let Some(ranges) = models.first().map(|model| &model.ranges) else { return Vec::new() };
    let lowest: Vec<f64> = ranges.iter().map(|range| range.minimum).collect();
    let highest: Vec<f64> = ranges.iter().map(|range| range.maximum).collect();
    let mut candidates = vec![highest.clone()];
    for (parameter, range) in ranges.iter().enumerate() {
        let step = if range.n_values > 1 && range.minimum > 0.0 {
            (range.maximum / range.minimum).powf(1.0 / (range.n_values - 1) as f64)
        } else {
            2.0
        };
        let middle = (range.minimum * range.maximum).max(0.0).sqrt().round();
        for value in [range.maximum * step, (range.minimum / step).round(), middle] {
            if value <= 0.0 {
                continue;
            }
            // Along the cheapest line: the other parameters at their lowest.
            let mut at = lowest.clone();
            at[parameter] = if value > 8.0 { value.round() } else { value };
            candidates.push(at);
        }
    }
    candidates.retain(|at| !measured.contains(at));
    let mut unique: Vec<Vec<f64>> = Vec::new();
    for at in candidates {
        if !unique.contains(&at) {
            unique.push(at);
        }
    }
    unique
}

/// Spread of what the functions still possible say at a point, as a share of the value there.
fn disagreement(model: &Model, at: &[f64]) -> f64 {
    let said: Vec<(f64, f64)> = model
        .alternatives
        .iter()
        .map(|alternative| (alternative.probability, alternative.function.at(at)))
        .filter(|(_, value)| value.is_finite())
        .collect();
    let total: f64 = said.iter().map(|(probability, _)| probability).sum();
    let mean = said.iter().map(|(probability, value)| probability * value).sum::<f64>() / total;
    let variance =
        said.iter().map(|(probability, value)| probability * (value - mean).powi(2)).sum::<f64>() / total;
    variance.sqrt() / mean.abs().max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FitConfig, Measurement, fit};

    #[test]
    fn a_cross_is_told_to_measure_its_corner() {
        let noise = [0.99, 1.01, 1.0];
        let points =
            (0..5).map(|i| (f64::from(1 << (i + 2)), 10.0)).chain((2..6).map(|j| (4.0, 10.0 * f64::from(j))));
        let measurements: Vec<Measurement> = points
            .map(|(x, y)| {
                Measurement::new([x, y], noise.map(|factor| factor * (5.0 + 0.3 * x + 0.2 * y)).to_vec())
            })
            .collect();
        let model = fit(&measurements, &FitConfig::default()).unwrap();
        let measured: Vec<Vec<f64>> = measurements.iter().map(|m| m.coordinate.clone()).collect();
        let advice = advise(&[&model], &measured, |_| 1.0);
        assert_eq!(advice[0].at, [64.0, 50.0], "{advice:?} {:?}", model.notes);
        assert!(model.notes.contains(&crate::Note::SumOrProduct));
    }

    #[test]
    fn what_is_measured_already_is_not_advised() {
        let measurements: Vec<Measurement> = [1.0, 2.0, 4.0].map(|p| Measurement::new([p], [p])).to_vec();
        let model = fit(&measurements, &FitConfig::default()).unwrap();
        let measured: Vec<Vec<f64>> = measurements.iter().map(|m| m.coordinate.clone()).collect();
        assert!(advise(&[&model], &measured, |_| 1.0).iter().all(|advice| !measured.contains(&advice.at)));
    }
}
