//! Student's t and what it is made of.

/// Returns `P(T ≤ t)` for Student's t with `dof` degrees of freedom (Abramowitz & Stegun, 26.7.1).
pub fn student_t_cdf(t: f64, dof: f64) -> f64 {
    if t.is_nan() || dof <= 0.0 {
        return f64::NAN;
    }
    let tail = 0.5 * incomplete_beta(dof / (dof + t * t), dof / 2.0, 0.5);
    if t > 0.0 { 1.0 - tail } else { tail }
}

/// Returns the `t` below which a share `p` of Student's t with `dof` degrees of freedom lies.
pub fn student_t_quantile(p: f64, dof: f64) -> f64 {
    if p == 0.5 {
        return 0.0;
    }
    if p > 0.5 {
        return -student_t_quantile(1.0 - p, dof);
    }
    // The lower tail, where p keeps its digits. Bracket by doubling, then Newton's steps, halving where one leaves the bracket.
    let mut low = -1.0;
    while student_t_cdf(low, dof) > p && low > -1e300 {
        low *= 2.0;
    }
    let (mut high, mut t) = (0.0, if low == -1.0 { -0.5 } else { 0.75 * low });
    let log_scale =
        ln_gamma((dof + 1.0) / 2.0) - ln_gamma(dof / 2.0) - 0.5 * (dof * std::f64::consts::PI).ln();
    for _ in 0..200 {
        let share = student_t_cdf(t, dof);
        if share > p {
            high = t
        } else {
            low = t
        }
        let density = (log_scale - (dof + 1.0) / 2.0 * (t * t / dof).ln_1p()).exp();
        let step = if p > 0.2 {
            t - (share - p) / density
        } else {
            // Towards the tail the share is a power of t, a straight line on logarithmic scales.
            t * (-(share / p).ln() * share / (density * t)).exp()
        };
        let next = if low < step && step < high { step } else { 0.5 * (low + high) };
        if next == t || (next - t).abs() <= 1e-15 * t.abs() || next == low || next == high {
            return next;
        }
        t = next;
    }
    t
}

/// Returns the regularised incomplete beta function `I_x(a, b)` by its continued fraction (A & S, 26.5.8).
pub fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    // The fraction converges fast below the mean; above it, the other tail does.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p()).exp() / a;
    let keep_off_zero = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let (mut c, mut d) = (1.0, 1.0 / keep_off_zero(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    for m in 1..500 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / keep_off_zero(1.0 + even * d);
        c = keep_off_zero(1.0 + even / c);
        fraction *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / keep_off_zero(1.0 + odd * d);
        c = keep_off_zero(1.0 + odd / c);
        fraction *= d * c;
        if (d * c - 1.0).abs() < 1e-15 {
            break;
        }
    }
    front * fraction
}

/// Returns `ln Γ(x)` for `x > 0`: Stirling's series (A & S, 6.1.41), after raising `x` to where it is exact.
pub fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut raised) = (x, 1.0);
    while x < 15.0 {
        raised *= x;
        x += 1.0;
    }
    let y = 1.0 / (x * x);
    let series = (1.0 / 12.0 - y * (1.0 / 360.0 - y * (1.0 / 1260.0 - y * (1.0 / 1680.0 - y / 1188.0)))) / x;
    (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series - f64::ln(raised)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (p, dof, t) in
            [(0.95, 1.0, 6.313752), (0.95, 3.0, 2.353363), (0.975, 10.0, 2.228139), (0.999, 23.0, 3.484964)]
        {
            assert!((student_t_quantile(p, dof) - t).abs() < 1e-5, "{p} {dof}");
            assert!((student_t_quantile(1.0 - p, dof) + t).abs() < 1e-5);
        }
    }

    #[test]
    fn quantile_and_share_undo_each_other() {
        for dof in [0.7, 2.0, 5.0, 40.0, 1e4] {
            for p in [1e-30, 1e-9, 0.01, 0.19, 0.21, 0.3, 0.5, 0.8, 0.9999] {
                assert!((student_t_cdf(student_t_quantile(p, dof), dof) - p).abs() < 1e-12, "{p} {dof}");
            }
        }
    }

    #[test]
    fn the_gamma_function_continues_the_factorial() {
        assert!((ln_gamma(6.0) - 120f64.ln()).abs() < 1e-14);
        assert!((ln_gamma(0.5) - std::f64::consts::PI.sqrt().ln()).abs() < 1e-14);
    }
}
