//! Where a series has its peaks.

/// Conditions under which a local maximum is a peak; `None` sets no condition.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PeakConditions {
    /// The least value at the peak.
    pub height: Option<f64>,
    /// The least number of steps between two peaks; of two that are closer, the higher one stays.
    pub distance: Option<usize>,
    /// The least rise above the higher of the two valleys beside the peak.
    pub prominence: Option<f64>,
}

/// A local maximum that met the conditions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peak {
    /// Where it is.
    pub index: usize,
    /// The value there.
    pub height: f64,
}

/// Returns the peaks of `x` in order, as `scipy.signal.find_peaks` defines them, in `O(n log n)`.
///
/// A peak is higher than both neighbours; of a flat top the middle counts (the left one of two). The first and the
/// last value have one neighbour and are never peaks. The conditions are applied in the order height, distance,
/// prominence, all of them inclusive, and prominence is measured on the whole series.
pub fn find_peaks(x: &[f64], conditions: &PeakConditions) -> Vec<Peak> {
    let mut indices = local_maxima(x);
    if let Some(height) = conditions.height {
        indices.retain(|&i| x[i] >= height);
    }
    if let Some(distance) = conditions.distance {
        indices = keep_distance(x, &indices, distance);
    }
    if let Some(least) = conditions.prominence {
        let mut prominences = peak_prominences(x, &indices).into_iter();
        indices.retain(|_| prominences.next().is_some_and(|prominence| prominence >= least));
    }
    indices.into_iter().map(|index| Peak { index, height: x[index] }).collect()
}

/// Returns the prominence of the values at `indices`: how far one has to go down, at the least, before going up to
/// something higher (`scipy.signal.peak_prominences`), in `O(n)` for all of them together.
///
/// # Panics
/// If an index is not one of `x`.
pub fn peak_prominences(x: &[f64], indices: &[usize]) -> Vec<f64> {
    if indices.is_empty() {
        return Vec::new();
    }
    let valleys = higher_valleys(x);
    indices.iter().map(|&index| x[index] - valleys[index]).collect()
}

fn local_maxima(x: &[f64]) -> Vec<usize> {
    let mut maxima = Vec::new();
    let mut i = 1;
    while i + 1 < x.len() {
        if x[i - 1] < x[i] {
            let mut ahead = i + 1;
            while ahead + 1 < x.len() && x[ahead] == x[i] {
                ahead += 1;
            }
            if x[ahead] < x[i] {
                maxima.push(i.midpoint(ahead - 1));
                i = ahead;
            }
        }
        i += 1;
    }
    maxima
}

/// Keeps the highest peak, drops its close neighbours, and so on down.
fn keep_distance(x: &[f64], indices: &[usize], distance: usize) -> Vec<usize> {
    let mut by_height: Vec<usize> = (0..indices.len()).collect();
    by_height.sort_by(|&a, &b| x[indices[a]].total_cmp(&x[indices[b]]));
    let mut keep = vec![true; indices.len()];
    // From the highest down; of equal ones the later first.
    for &i in by_height.iter().rev() {
        if !keep[i] {
            continue;
        }
        for j in (0..i).rev().take_while(|&j| indices[i] - indices[j] < distance) {
            keep[j] = false;
        }
        for j in (i + 1..indices.len()).take_while(|&j| indices[j] - indices[i] < distance) {
            keep[j] = false;
        }
    }
    indices.iter().zip(keep).filter_map(|(&index, keep)| keep.then_some(index)).collect()
}

/// For each value: the higher of the lowest values on its left and on its right, before something higher or the edge.
///
/// A stack of ever higher walls, each with the lowest value before the next: every value is pushed and popped once,
/// where walking from each peak would be quadratic on a series of ever higher peaks.
fn higher_valleys(x: &[f64]) -> Vec<f64> {
    fn lowest_before_higher(x: impl Iterator<Item = f64>) -> Vec<f64> {
        let mut walls: Vec<(f64, f64)> = Vec::new();
        x.map(|value| {
            let mut lowest = value;
            while let Some(&(wall, lowest_there)) = walls.last()
                && wall <= value
            {
                lowest = lowest.min(lowest_there);
                walls.pop();
            }
            walls.push((value, lowest));
            lowest
        })
        .collect()
    }
    let left = lowest_before_higher(x.iter().copied());
    let right = lowest_before_higher(x.iter().rev().copied());
    left.iter().zip(right.iter().rev()).map(|(left, right)| left.max(*right)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(x: &[f64], conditions: PeakConditions, expected: &[usize]) {
        let found: Vec<usize> = find_peaks(x, &conditions).iter().map(|peak| peak.index).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn edges_are_no_peaks_and_a_flat_top_has_one_in_its_middle() {
        check(&[3.0, 1.0, 2.0, 2.0, 2.0, 0.0, 5.0], PeakConditions::default(), &[3]);
        check(&[0.0, 1.0, 1.0, 0.0], PeakConditions::default(), &[1]);
        check(&[0.0, 1.0, 1.0, 1.0], PeakConditions::default(), &[]);
        check(&[0.0, 1.0, 1.0, 2.0, 0.0], PeakConditions::default(), &[3]);
    }

    #[test]
    fn too_few_values_have_no_peaks() {
        for n in 0..3 {
            check(&vec![1.0; n], PeakConditions::default(), &[]);
        }
    }

    #[test]
    fn a_peak_exactly_as_high_as_asked_counts() {
        let x = [0.0, 1.0, 0.0, 2.0, 0.0];
        check(&x, PeakConditions { height: Some(2.0), ..Default::default() }, &[3]);
        check(&x, PeakConditions { prominence: Some(1.0), ..Default::default() }, &[1, 3]);
    }

    #[test]
    fn of_two_close_peaks_the_higher_stays() {
        let x = [0.0, 2.0, 0.0, 3.0, 0.0, 2.5, 0.0, 0.0, 1.0, 0.0];
        check(&x, PeakConditions { distance: Some(3), ..Default::default() }, &[3, 8]);
        check(&x, PeakConditions { distance: Some(2), ..Default::default() }, &[1, 3, 5, 8]);
    }

    #[test]
    fn a_shoulder_is_less_prominent_than_it_is_high() {
        let x = [0.0, 5.0, 3.0, 4.0, 1.0];
        assert_eq!(peak_prominences(&x, &[1, 3]), [4.0, 1.0]);
        check(&x, PeakConditions { prominence: Some(1.1), ..Default::default() }, &[1]);
    }

    /// The slow twin: walks from the peak in both directions.
    fn prominence_by_definition(x: &[f64], peak: usize) -> f64 {
        let lowest = |side: &mut dyn Iterator<Item = &f64>| {
            side.take_while(|&&value| value <= x[peak]).copied().fold(x[peak], f64::min)
        };
        x[peak] - lowest(&mut x[..peak].iter().rev()).max(lowest(&mut x[peak + 1..].iter()))
    }

    proptest! {
        #[test]
        fn prominence_equals_its_definition(x in prop::collection::vec((-6..6i32).prop_map(f64::from), 0..60)) {
            let all: Vec<usize> = (0..x.len()).collect();
            let by_definition: Vec<f64> = all.iter().map(|&i| prominence_by_definition(&x, i)).collect();
            prop_assert_eq!(peak_prominences(&x, &all), by_definition);
        }
    }
}
