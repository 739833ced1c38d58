//! Whether the values of one sample lie above those of another (Wilcoxon, 1945; Mann & Whitney, 1947).

/// Returns how probable it is that values as high as `high`'s, or higher, come to stand in `high` when the values of both samples
/// are dealt out by chance: the one-sided exact test of the rank sum, ties as midranks.
///
/// With more than [`MOST_EXACT`] values in all it is the normal approximation with the correction for ties. `None` if either
/// sample is empty or has a value that is not a number.
///
/// ```
/// // All of three lie above all of three others: one order of twenty.
/// assert_eq!(iotide_num::rank_sum_p(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]), Some(0.05));
/// ```
pub fn rank_sum_p(low: &[f64], high: &[f64]) -> Option<f64> {
    if low.is_empty() || high.is_empty() || low.iter().chain(high).any(|value| value.is_nan()) {
        return None;
    }
    let mut values: Vec<(f64, bool)> =
        low.iter().map(|&value| (value, false)).chain(high.iter().map(|&value| (value, true))).collect();
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Twice the midrank is a whole number.
    let mut twice_ranks = vec![0_usize; values.len()];
    let mut ties = 0.0;
    let mut first = 0;
    while first < values.len() {
        let n_equal = values[first..].iter().take_while(|(value, _)| *value == values[first].0).count();
        twice_ranks[first..first + n_equal].fill(2 * first + n_equal + 1);
        ties += (n_equal as f64).powi(3) - n_equal as f64;
        first += n_equal;
    }
    let sum: usize =
        values.iter().zip(&twice_ranks).filter(|((_, is_high), _)| *is_high).map(|(_, r)| r).sum();
    Some(match values.len() {
        ..=MOST_EXACT => exact(&twice_ranks, high.len(), sum),
        _ => by_normal(low.len(), high.len(), ties, sum as f64 / 2.0),
    })
}

/// The same by the normal distribution; `ties` adds up `t³ − t` over values that occur `t` times.
fn by_normal(n_low: usize, n_high: usize, ties: f64, sum: f64) -> f64 {
    let (n, m) = (n_high as f64, n_low as f64);
    let all = n + m;
    let mean = n * (all + 1.0) / 2.0;
    let variance = n * m / 12.0 * (all + 1.0 - ties / (all * (all - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    let z = (sum - mean - 0.5) / variance.sqrt();
    // Student's t with this many degrees of freedom is the normal distribution.
    1.0 - crate::student_t_cdf(z, 1e7)
}

/// The most values of both samples together for which the chance is counted out.
pub const MOST_EXACT: usize = 40;

/// The share of subsets of `n` ranks whose sum is at least `sum`.
fn exact(ranks: &[usize], n: usize, sum: usize) -> f64 {
    let most: usize = ranks.iter().sum();
    // `ways[k][s]`: subsets of k ranks that add up to s.
    let mut ways = vec![vec![0.0_f64; most + 1]; n + 1];
    ways[0][0] = 1.0;
    for (i, &rank) in ranks.iter().enumerate() {
        for k in (1..=n.min(i + 1)).rev() {
            let (fewer, these) = ways.split_at_mut(k);
            for s in rank..=most {
                these[0][s] += fewer[k - 1][s - rank];
            }
        }
    }
    let all: f64 = ways[n].iter().sum();
    ways[n][sum..].iter().sum::<f64>() / all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SplitMix64;

    /// By trying every way to deal the values out.
    fn by_definition(low: &[f64], high: &[f64]) -> f64 {
        let all: Vec<f64> = low.iter().chain(high).copied().collect();
        let above = |high: &[f64], low: &[f64]| -> f64 {
            let pairs = high.iter().flat_map(|h| low.iter().map(move |l| (h, l)));
            pairs
                .map(|(h, l)| {
                    if h > l {
                        1.0
                    } else if h == l {
                        0.5
                    } else {
                        0.0
                    }
                })
                .sum()
        };
        let seen = above(high, low);
        let (mut n_all, mut n_as_high) = (0.0, 0.0);
        for set in 0_u32..1 << all.len() {
            if set.count_ones() as usize == high.len() {
                let part = |wanted: u32| -> Vec<f64> {
                    (0..all.len()).filter(|i| set >> i & 1 == wanted).map(|i| all[i]).collect()
                };
                n_all += 1.0;
                n_as_high += f64::from(above(&part(1), &part(0)) >= seen);
            }
        }
        n_as_high / n_all
    }

    #[test]
    fn the_exact_chance_is_that_of_the_definition() {
        let mut random = SplitMix64::new(7);
        for round in 0..200 {
            // Few different values: many ties.
            let n_values = 2 + round % 12;
            let mut draw = |n: usize| -> Vec<f64> { (0..n).map(|_| random.below(n_values) as f64).collect() };
            let (low, high) = (draw(1 + round % 5), draw(1 + round % 4));
            let (fast, slow) = (rank_sum_p(&low, &high).unwrap(), by_definition(&low, &high));
            assert!((fast - slow).abs() < 1e-12, "{low:?} {high:?}: {fast}, not {slow}");
        }
    }

    #[test]
    fn the_approximation_is_close_to_the_exact_chance() {
        let ranks: Vec<usize> = (1..=MOST_EXACT).map(|rank| 2 * rank).collect();
        for sum in [410, 440, 480, 520, 560] {
            let (exact, approximate) = (exact(&ranks, 20, 2 * sum), by_normal(20, 20, 0.0, sum as f64));
            assert!((exact - approximate).abs() < 0.003, "{sum}: {approximate}, not {exact}");
        }
        assert_eq!(rank_sum_p(&[1.0; 30], &[1.0; 30]), Some(1.0));
    }

    #[test]
    fn nothing_to_compare_is_no_answer() {
        assert_eq!(rank_sum_p(&[], &[1.0]), None);
        assert_eq!(rank_sum_p(&[1.0], &[f64::NAN]), None);
        assert_eq!(rank_sum_p(&[1.0], &[1.0]), Some(1.0));
    }
}
