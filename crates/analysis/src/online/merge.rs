//! Joint result of many predictions.

use iotide_num::dbscan_line;

use super::prediction::FrequencyInterval;

/// How many predictions are kept; the paper keeps all.
const MOST_KEPT: usize = 64;

/// The frequencies found so far, each with the length of its window.
#[derive(Clone, Debug, Default)]
pub(super) struct Merged {
    found: Vec<(f64, f64)>,
}

impl Merged {
    /// Takes note of a frequency found in a window of `window_s`.
    pub(super) fn note(&mut self, frequency_hz: f64, window_s: f64) {
        if self.found.len() == MOST_KEPT {
            self.found.remove(0);
        }
        self.found.push((frequency_hz, window_s));
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.found.capacity() * size_of::<(f64, f64)>()
    }

    /// The clusters of frequencies, the most probable first.
    ///
    /// Frequencies lie on a grid whose step is the inverse of the window, and windows differ: two frequencies are neighbours if
    /// they differ by no more than twice the largest difference between the grids of consecutive predictions (the paper
    /// takes the difference; FTIO 0.0.9 doubles it). A single prediction that has no neighbour is in no cluster, but it counts.
    pub(super) fn intervals(&self) -> Vec<FrequencyInterval> {
        let frequencies: Vec<f64> = self.found.iter().map(|&(frequency, _)| frequency).collect();
        if let [only] = frequencies[..] {
            return vec![FrequencyInterval { low_hz: only, high_hz: only, probability: 1.0 }];
        }
        let step =
            self.found.windows(2).map(|pair| (1.0 / pair[1].1 - 1.0 / pair[0].1).abs()).fold(0.0, f64::max);
        // Windows of the same length: what differs in the last digits only is the same.
        let eps = (2.0 * step).max(1e-8);
        let labels = dbscan_line(&frequencies, eps, 2);
        let n_clusters = labels.iter().flatten().max().map_or(0, |most| most + 1);
        let mut intervals: Vec<FrequencyInterval> = (0..n_clusters)
            .map(|cluster| {
                let members =
                    || frequencies.iter().zip(&labels).filter(|l| *l.1 == Some(cluster)).map(|l| *l.0);
                FrequencyInterval {
                    low_hz: members().fold(f64::INFINITY, f64::min),
                    high_hz: members().fold(0.0, f64::max),
                    probability: members().count() as f64 / frequencies.len() as f64,
                }
            })
            .collect();
        intervals.sort_by(|a, b| b.probability.total_cmp(&a.probability));
        intervals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_within_the_difference_of_the_grids_are_one_interval() {
        let mut merged = Merged::default();
        for (frequency, window) in
            [(1.475, 6.13), (1.519, 7.97), (0.519, 15.48), (0.517, 17.41), (0.521, 19.22)]
        {
            merged.note(frequency, window);
        }
        let found = merged.intervals();
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].low_hz, found[0].high_hz, found[0].probability), (0.517, 0.521, 0.6));
        assert_eq!((found[1].low_hz, found[1].high_hz, found[1].probability), (1.475, 1.519, 0.4));
    }

    #[test]
    fn the_steps_of_ftio_merge_to_its_own_intervals() {
        let Some(path) = iotide_testkit::shared_data("ftio/golden_online.json") else { return };
        let golden: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let mut merged = Merged::default();
        for step in golden["8.jsonl|none"].as_array().unwrap() {
            let number = |value: &serde_json::Value| value.as_f64().unwrap();
            let numbers = |key: &str| step[key].as_array().unwrap().iter().map(number);
            let best = numbers("freqs").zip(numbers("conf")).max_by(|a, b| a.1.total_cmp(&b.1));
            if let Some((frequency, _)) = best {
                merged.note(frequency, number(&step["t_end"]) - number(&step["t_start"]));
            }
            let mut expected: Vec<Vec<f64>> = step["prob"]
                .as_array()
                .unwrap()
                .iter()
                .map(|row| {
                    row.as_array().unwrap().iter().map(|x| x.as_str().unwrap().parse().unwrap()).collect()
                })
                .collect();
            expected.sort_by(|a, b| b[2].total_cmp(&a[2]));
            let found = merged.intervals();
            assert_eq!(found.len(), expected.len(), "{step}");
            for (found, expected) in found.iter().zip(&expected) {
                assert!((100.0 * found.probability - expected[2]).abs() < 0.01, "{step}: {found:?}");
            }
        }
    }

    #[test]
    fn one_prediction_is_certain_and_none_is_nothing() {
        let mut merged = Merged::default();
        assert!(merged.intervals().is_empty());
        merged.note(0.5, 10.0);
        assert_eq!(merged.intervals(), [FrequencyInterval { low_hz: 0.5, high_hz: 0.5, probability: 1.0 }]);
    }
}
