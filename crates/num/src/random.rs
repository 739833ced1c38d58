//! Seeded pseudo-random numbers: the same seed, the same numbers, on every machine.

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
    #[expect(clippy::should_implement_trait, reason = "an iterator would say that it may end")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number in [0, 1), all 53 bits of it random.
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

    /// Returns a number from the exponential distribution with mean 1.
    #[inline]
    pub fn exponential(&mut self) -> f64 {
        // 1 − u lies in (0, 1]: its logarithm exists.
        -(1.0 - self.unit()).ln()
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

    #[test]
    fn exponential_and_gamma_numbers_have_their_means_and_deviations() {
        let mut random = SplitMix64::new(5);
        let moments = |numbers: &[f64]| (crate::mean(numbers), crate::population_std(numbers));
        let exponential: Vec<f64> = (0..40_000).map(|_| random.exponential()).collect();
        let (mean, deviation) = moments(&exponential);
        assert!((mean - 1.0).abs() < 0.02 && (deviation - 1.0).abs() < 0.03, "{mean} ± {deviation}");
        for shape in [1.0, 2.5, 100.0, 10_000.0] {
            let numbers: Vec<f64> = (0..20_000).map(|_| random.gamma(shape)).collect();
            let (mean, deviation) = moments(&numbers);
            assert!((mean / shape - 1.0).abs() < 0.03, "shape {shape}: {mean}");
            assert!((deviation / shape.sqrt() - 1.0).abs() < 0.03, "shape {shape}: {deviation}");
        }
    }
}
