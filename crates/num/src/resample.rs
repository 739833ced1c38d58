//! The same series on another grid.

/// Returns the series on bins `ratio` times as long as its own: each value the mean of what the bin covers.
///
/// The series is taken as steps: value `i` holds from `i` to `i + 1`. So sums times bin lengths are kept, but for the
/// last bin, which is the mean of what there is if it reaches beyond the end. NaN spreads to the bins that touch it.
///
/// # Panics
/// If `ratio` is not positive.
pub fn rebin(x: &[f64], ratio: f64) -> Vec<f64> {
    assert!(ratio > 0.0, "bins have a length");
    if ratio == 1.0 {
        return x.to_vec();
    }
    let end = x.len() as f64;
    // Two bins of 0.1 cover a fifth, whatever the last digit of the quotient says.
    let n = (end / ratio - 1e-9).ceil().max(0.0) as usize;
    (0..n)
        .map(|bin| {
            let (from, to) = (bin as f64 * ratio, ((bin + 1) as f64 * ratio).min(end));
            mean_of_steps(x, from, to)
        })
        .collect()
}

/// Returns the mean of the steps `x` between two places: value `i` holds from `i` to `i + 1`, and the first and the last
/// go on beyond the ends. Of a stretch without length, the value there; of no values, NaN.
pub fn mean_of_steps(x: &[f64], from: f64, to: f64) -> f64 {
    let Some(last) = x.len().checked_sub(1) else { return f64::NAN };
    let at = |place: f64| (place.max(0.0) as usize).min(last);
    let length = to - from;
    if length <= 0.0 {
        return x[at(from)];
    }
    let (first_bin, last_bin) = (at(from), at(to));
    if first_bin == last_bin {
        return x[first_bin];
    }
    let whole: f64 = x[first_bin + 1..last_bin].iter().sum();
    let head = x[first_bin] * ((first_bin + 1) as f64 - from);
    let tail_length = to - last_bin as f64;
    // Nothing of the last value counts where the stretch ends just before it, not even NaN.
    let tail = if tail_length > 0.0 { x[last_bin] * tail_length } else { 0.0 };
    (head + whole + tail) / length
}

/// Returns `n` values at even distances from the first value to the last, interpolated linearly.
///
/// One value is repeated; none gives none.
pub fn resample_linear(x: &[f64], n: usize) -> Vec<f64> {
    let Some(last) = x.len().checked_sub(1) else { return Vec::new() };
    let step = last as f64 / n.saturating_sub(1).max(1) as f64;
    (0..n)
        .map(|i| {
            let place = (i as f64 * step).min(last as f64);
            let below = (place as usize).min(last);
            let fraction = place - below as f64;
            // Without a fraction the upper neighbour does not count, not even if it is NaN.
            if fraction == 0.0 { x[below] } else { x[below] + (x[below + 1] - x[below]) * fraction }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_bin_is_the_mean_of_what_it_covers() {
        assert_eq!(rebin(&[1.0, 3.0, 5.0], 2.0), [2.0, 5.0]);
        assert_eq!(rebin(&[1.0, 3.0], 0.5), [1.0, 1.0, 3.0, 3.0]);
        assert_eq!(rebin(&[3.0, 6.0, 9.0], 1.5), [4.0, 8.0]);
        assert!(rebin(&[], 2.0).is_empty());
    }

    #[test]
    fn a_hole_spreads_to_the_bins_that_touch_it_and_no_further() {
        let bins = rebin(&[1.0, f64::NAN, 3.0, 5.0], 2.0);
        assert!(bins[0].is_nan());
        assert_eq!(bins[1], 4.0);
    }

    #[test]
    fn linear_values_lie_on_the_line() {
        assert_eq!(resample_linear(&[0.0, 2.0, 4.0], 5), [0.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!(resample_linear(&[0.0, 1.0, 2.0, 3.0], 2), [0.0, 3.0]);
        assert_eq!(resample_linear(&[7.0], 3), [7.0; 3]);
        assert!(resample_linear(&[], 3).is_empty());
        assert!(resample_linear(&[1.0, 2.0], 0).is_empty());
    }

    proptest! {
        #[test]
        fn finer_bins_keep_the_sum(x in prop::collection::vec(0.0..1e3f64, 1..60), parts in 1usize..7) {
            let fine = rebin(&x, 1.0 / parts as f64);
            let (sum, fine_sum): (f64, f64) = (x.iter().sum(), fine.iter().sum::<f64>() / parts as f64);
            prop_assert!((sum - fine_sum).abs() < 1e-6);
        }

        #[test]
        fn the_mean_of_steps_equals_its_definition(
            x in prop::collection::vec(-1e3..1e3f64, 1..40),
            a in 0.0..1.0f64,
            b in 0.0..1.0f64,
        ) {
            let n = x.len() as f64;
            let (from, to) = (a.min(b) * n, a.max(b) * n);
            prop_assume!(to - from > 1e-6);
            let by_definition: f64 = x
                .iter()
                .enumerate()
                .map(|(i, value)| value * (to.min(i as f64 + 1.0) - from.max(i as f64)).max(0.0))
                .sum::<f64>()
                / (to - from);
            prop_assert!((mean_of_steps(&x, from, to) - by_definition).abs() < 1e-6);
        }
    }
}
