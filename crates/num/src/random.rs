//! Seeded pseudo-random numbers: the same seed, the same numbers, on every machine.

use std::sync::LazyLock;

/// SplitMix64 (Steele, Lea & Flood, 2014): one addition and a mix of the state per number.
///
/// Good for shuffles and cuts, not for secrets.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// Returns a generator that begins at a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "an iterator would say that it may end")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number in [0, 1), all 53 bits of it random.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a number in `0..n`; the bias of the multiplication (at most `n / 2⁶⁴`) is left in.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }

    /// Returns a number from the standard normal distribution (Box & Muller, 1958; the second of the pair is not kept).
    pub fn normal(&mut self) -> f64 {
        // 1 − u lies in (0, 1]: its logarithm exists.
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Returns a number from the exponential distribution with mean 1 (by layers, as Marsaglia & Tsang, 2000: 99 of 100
    /// times a product and a comparison instead of a logarithm).
    #[inline]
    pub fn exponential(&mut self) -> f64 {
        let Layers { widths, heights } = &*LAYERS;
        loop {
            // The layer is of the lowest 8 bits, the place in it of the highest 53.
            let bits = self.next();
            let layer = (bits & 0xff) as usize;
            let x = (bits >> 11) as f64 / (1u64 << 53) as f64 * widths[layer];
            if x < widths[layer + 1] {
                return x;
            }
            if layer == 0 {
                // Beyond the last layer the distribution is itself again. 1 − u lies in (0, 1]: its logarithm exists.
                return LAST_WIDTH - (1.0 - self.unit()).ln();
            }
            let y = heights[layer] + (heights[layer + 1] - heights[layer]) * self.unit();
            if y < (-x).exp() {
                return x;
            }
        }
    }

    /// Returns a number from the gamma distribution of a shape of at least 1 and scale 1, whose mean is its shape
    /// (Marsaglia & Tsang, 2000).
    pub fn gamma(&mut self, shape: f64) -> f64 {
        debug_assert!(shape >= 1.0, "smaller shapes need another method");
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let x = self.normal();
            let v = (1.0 + c * x).powi(3);
            if v > 0.0 && (1.0 - self.unit()).ln() < 0.5 * x * x + d - d * v + d * v.ln() {
                return d * v;
            }
        }
    }
}

/// Where the lowest of 256 layers of equal area under e⁻ˣ ends, and that area.
const LAST_WIDTH: f64 = 7.697_117_470_131_487;
const LAYER_AREA: f64 = 0.003_949_659_822_581_557;

/// The area under e⁻ˣ, cut into layers of equal area, the lowest first; what lies beyond the lowest is taken for a part of it.
struct Layers {
    widths: [f64; 257],
    /// e⁻ˣ at those widths.
    heights: [f64; 257],
}

static LAYERS: LazyLock<Layers> = LazyLock::new(|| {
    let mut widths = [0.0f64; 257];
    widths[0] = LAYER_AREA / (-LAST_WIDTH).exp();
    widths[1] = LAST_WIDTH;
    for layer in 2..256 {
        let below = widths[layer - 1];
        widths[layer] = -(LAYER_AREA / below + (-below).exp()).ln();
    }
    Layers { widths, heights: widths.map(|width| (-width).exp()) }
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_published_generator() {
        // The reference values for the seed 1234567 that implementations of SplitMix64 are compared by.
        let mut random = SplitMix64::new(1_234_567);
        let found: Vec<u64> = (0..3).map(|_| random.next()).collect();
        assert_eq!(found, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn numbers_below_a_bound_reach_all_of_them_and_no_more() {
        let mut random = SplitMix64::new(7);
        let mut seen = [0; 5];
        for _ in 0..5000 {
            seen[random.below(5)] += 1;
        }
        assert!(seen.iter().all(|&n| (800..1200).contains(&n)), "{seen:?}");
    }

    #[test]
    fn normal_numbers_have_mean_0_and_deviation_1() {
        let mut random = SplitMix64::new(3);
        let numbers: Vec<f64> = (0..20_000).map(|_| random.normal()).collect();
        let (mean, deviation) = (crate::mean(&numbers), crate::population_std(&numbers));
        assert!(mean.abs() < 0.03 && (deviation - 1.0).abs() < 0.03, "{mean} ± {deviation}");
        let beyond = numbers.iter().filter(|number| number.abs() > 1.959_964).count();
        assert!((800..1200).contains(&beyond), "{beyond} of 20000 beyond 95 %");
    }

    /// The largest distance between the share of numbers up to x and 1 − e⁻ˣ (Kolmogorov–Smirnov; 1.95/√n is passed by
    /// chance once in a thousand seeds).
    fn exponential_distance(random: &mut SplitMix64, n: usize) -> f64 {
        let mut numbers: Vec<f64> = (0..n).map(|_| random.exponential()).collect();
        numbers.sort_unstable_by(f64::total_cmp);
        let distance = |(i, x): (usize, &f64)| ((i as f64 + 0.5) / n as f64 - (1.0 - (-x).exp())).abs();
        numbers.iter().enumerate().map(distance).fold(0.0, f64::max)
    }

    #[test]
    fn the_layers_have_one_area_and_end_at_the_top() {
        let Layers { widths, heights } = &*LAYERS;
        for layer in 1..256 {
            let area = widths[layer] * (heights[layer + 1] - heights[layer]);
            assert!((area / LAYER_AREA - 1.0).abs() < 1e-9, "layer {layer}: {area}");
        }
    }

    #[test]
    fn exponential_and_gamma_numbers_have_their_means_and_deviations() {
        let mut random = SplitMix64::new(5);
        let moments = |numbers: &[f64]| (crate::mean(numbers), crate::population_std(numbers));
        let exponential: Vec<f64> = (0..40_000).map(|_| random.exponential()).collect();
        let (mean, deviation) = moments(&exponential);
        assert!((mean - 1.0).abs() < 0.02 && (deviation - 1.0).abs() < 0.03, "{mean} ± {deviation}");
        assert!(exponential_distance(&mut random, 200_000) < 1.95 / 200_000f64.sqrt());
        for shape in [1.0, 2.5, 100.0, 10_000.0] {
            let numbers: Vec<f64> = (0..20_000).map(|_| random.gamma(shape)).collect();
            let (mean, deviation) = moments(&numbers);
            assert!((mean / shape - 1.0).abs() < 0.03, "shape {shape}: {mean}");
            assert!((deviation / shape.sqrt() - 1.0).abs() < 0.03, "shape {shape}: {deviation}");
        }
    }
}
