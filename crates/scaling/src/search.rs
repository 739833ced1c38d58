//! The best model of one parameter by leave-one-out cross-validation over a stated search space, as Extra-P 4.2 finds it.
//!
//! *Basic* tries every shape of a fixed list. *Refining* narrows exponents down by mediants. Ties keep the earlier one.

use crate::hypothesis::{Hypothesis, Line};
use crate::term::{Exponent, Shape};

/// Settings of the search, named after what Extra-P calls them.
#[derive(Clone, Debug, PartialEq)]
pub struct ExtrapConfig {
    /// How one-parameter models are found.
    pub search: Search,
    /// Whether logarithms may occur.
    pub logarithms: bool,
    /// Whether the basic search also tries falling shapes.
    pub negative_exponents: bool,
    /// Exponents to try instead of the usual ones (basic search).
    pub poly_exponents: Vec<Exponent>,
    /// Exponents of the logarithm to try instead of the usual ones (basic search).
    pub log_exponents: Vec<Exponent>,
    /// Try the usual ones as well as those given.
    pub retain_default_exponents: bool,
    /// Try given exponents only in pairs, never alone.
    pub force_combination_exponents: bool,
    /// Judge a shape by points left out of its fit rather than by the points themselves.
    pub cross_validation: bool,
    /// Measure by which one-parameter models are compared.
    pub compare_by: Cost,
    /// A term that makes up less than this share of every value is dropped.
    pub minimum_contribution: f64,
    /// Which lines of a many-parameter design the one-parameter models are made from.
    pub lines: Lines,
    /// Measure by which combinations of one-parameter models are compared.
    pub compare_combinations_by: Cost,
    /// Whether sums that hold products may occur.
    pub sums_of_products: bool,
}

impl Default for ExtrapConfig {
    fn default() -> Self {
        Self {
            search: Search::Basic,
            logarithms: true,
            negative_exponents: false,
            poly_exponents: Vec::new(),
            log_exponents: Vec::new(),
            retain_default_exponents: false,
            force_combination_exponents: false,
            cross_validation: true,
            compare_by: Cost::Smape,
            minimum_contribution: 5e-4,
            lines: Lines::Longest,
            compare_combinations_by: Cost::Smape,
            sums_of_products: true,
        }
    }
}

/// A way through the shapes of one parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Search {
    /// Every shape of a list.
    #[default]
    Basic,
    /// Whole exponents first, then fractions between the best and its neighbours.
    Refining,
    /// Basic, on each side of a change in behaviour if there is one.
    Segmented,
}

/// Measure by which models are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cost {
    /// Symmetric mean absolute percentage error.
    #[default]
    Smape,
    /// Residual sum of squares.
    Rss,
}

/// Which points of a many-parameter design stand for one parameter alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lines {
    /// All longest lines along the parameter, averaged.
    #[default]
    Longest,
    /// The one line at the lowest values of the other parameters.
    Lowest,
}

/// The shapes to try and their values at the points of one line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Basis {
    pub(crate) shapes: Vec<Shape>,
    columns: Vec<f64>,
    n: usize,
}

impl Basis {
    pub(crate) fn new(shapes: Vec<Shape>, xs: &[f64]) -> Self {
        let columns = shapes.iter().flat_map(|shape| xs.iter().map(|x| shape.at(*x))).collect();
        Self { shapes, columns, n: xs.len() }
    }

    /// The shapes a configuration asks for.
    pub(crate) fn of(config: &ExtrapConfig, xs: &[f64]) -> Self {
        Self::new(search_space(config), xs)
    }

    pub(crate) fn column(&self, shape: usize) -> &[f64] {
        &self.columns[shape * self.n..(shape + 1) * self.n]
    }
}

/// Whether logarithms are defined, and not to be divided by, at all these points.
pub(crate) fn allow_logarithms(xs: &[f64], negative_exponents: bool) -> bool {
    xs.iter().all(|x| if negative_exponents { *x > 1.0 } else { *x >= 1.0 })
}

/// The best of all shapes of the list; `range` picks consecutive points of the basis.
pub(crate) fn search_basic(
    line: &Line,
    basis: &Basis,
    range: std::ops::Range<usize>,
    config: &ExtrapConfig,
) -> Hypothesis {
    let constant = line.constant();
    if constant.costs.rss == 0.0 {
        return constant;
    }
    let logarithms = allow_logarithms(line.xs, config.negative_exponents);
    let constant_rss = constant.costs.rss;
    let candidates = basis
        .shapes
        .iter()
        .enumerate()
        .filter(|(_, shape)| logarithms || shape.log.is_zero())
        .map(|(index, shape)| (*shape, &basis.column(index)[range.clone()]));
    best_of(line, candidates, constant_rss, Some(constant.clone()), config).map_or(constant, |(_, best)| best)
}

/// The best of some candidates and its index among them, starting from `best` (index 0) if there is one.
fn best_of<'a>(
    line: &Line,
    candidates: impl Iterator<Item = (Shape, &'a [f64])>,
    constant_rss: f64,
    best: Option<Hypothesis>,
    config: &ExtrapConfig,
) -> Option<(usize, Hypothesis)> {
    let mut best = best.map(|hypothesis| (0, hypothesis));
    for (index, (shape, column)) in candidates.enumerate() {
        let hypothesis = if config.cross_validation {
            line.cross_validated(shape, column, constant_rss)
        } else {
            line.in_sample(shape, column, constant_rss)
        };
        if !hypothesis.costs.rss.is_finite() {
            continue;
        }
        let Some((_, current)) = &best else {
            best = Some((index, hypothesis));
            continue;
        };
        let coefficient = hypothesis.term.map_or(0.0, |(coefficient, _)| coefficient);
        let share = line.contribution(coefficient, column);
        let contributes = coefficient != 0.0 && (share >= config.minimum_contribution || share.is_nan());
        if contributes && cost(&hypothesis, config) < cost(current, config) {
            best = Some((index, hypothesis));
        }
    }
    best
}

fn cost(hypothesis: &Hypothesis, config: &ExtrapConfig) -> f64 {
    match config.compare_by {
        Cost::Smape => hypothesis.costs.smape,
        Cost::Rss => hypothesis.costs.rss,
    }
}

/// One direction in which exponents are refined.
struct Slice {
    /// Refine the exponent of the logarithm of a term without a power; otherwise the power, beside a fixed logarithm.
    refine_log: bool,
    fixed: Exponent,
    left: Exponent,
    centre: Exponent,
    right: Exponent,
}

impl Slice {
    fn shape(&self, exponent: Exponent) -> Shape {
        if self.refine_log {
            Shape { power: self.fixed, log: exponent }
        } else {
            Shape { power: exponent, log: self.fixed }
        }
    }

    /// The best of some exponents along this slice, and which of them it was.
    fn best(
        &self,
        exponents: &[Exponent],
        line: &Line,
        constant_rss: f64,
        config: &ExtrapConfig,
    ) -> Option<(usize, Hypothesis)> {
        // (0, 0) is the constant; it is passed over, and the others keep their places.
        let shapes: Vec<(usize, Shape)> = exponents
            .iter()
            .map(|exponent| self.shape(*exponent))
            .enumerate()
            .filter(|(_, shape)| !shape.is_constant())
            .collect();
        let columns: Vec<Vec<f64>> =
            shapes.iter().map(|(_, shape)| line.xs.iter().map(|x| shape.at(*x)).collect()).collect();
        let candidates = shapes.iter().zip(&columns).map(|((_, shape), column)| (*shape, column.as_slice()));
        best_of(line, candidates, constant_rss, None, config).map(|(index, best)| (shapes[index].0, best))
    }
}

/// The best model by refining exponents.
pub(crate) fn search_refining(line: &Line, config: &ExtrapConfig) -> Hypothesis {
    const ACCEPTANCE: f64 = 1.5;
    let constant = line.constant();
    let constant_rss = constant.costs.rss;
    if constant_rss == 0.0 {
        return constant;
    }
    let whole =
        |last: i64| -> Vec<Exponent> { (0..=last).map(|exponent| Exponent::new(exponent, 1)).collect() };
    let logarithms = config.logarithms && allow_logarithms(line.xs, false);
    let starts: Vec<(bool, Exponent, Vec<Exponent>)> = if logarithms {
        let powers = (0..=2).map(|log| (false, Exponent::new(log, 1), whole(5)));
        powers.chain([(true, Exponent::ZERO, whole(2))]).collect()
    } else {
        vec![(false, Exponent::ZERO, whole(5))]
    };

    let (mut slices, mut step) = (Vec::new(), Vec::new());
    for (refine_log, fixed, exponents) in starts {
        let zero = Exponent::ZERO;
        let mut slice = Slice { refine_log, fixed, left: zero, centre: zero, right: zero };
        let Some((index, best)) = slice.best(&exponents, line, constant_rss, config) else { return constant };
        slice.left = exponents[index.saturating_sub(1)];
        slice.centre = exponents[index];
        slice.right = exponents[(index + 1).min(exponents.len() - 1)];
        if slice.left == slice.right {
            // Otherwise there would be nothing between them.
            slice.right = Exponent::nearest(slice.right.value() + 1.0);
        }
        slices.push(slice);
        step.push(best);
    }

    let mut accepted = step.clone();
    let mut previous = step.clone();
    let mut threshold = ACCEPTANCE;
    for _ in 0..10 {
        for (slice, best) in slices.iter_mut().zip(&mut step) {
            let (left, right) = (slice.left.mediant(slice.centre), slice.centre.mediant(slice.right));
            let tried = slice.best(&[left, slice.centre, right], line, constant_rss, config);
            let Some((index, found)) = tried else { return constant };
            *best = found;
            (slice.left, slice.centre, slice.right) = match index {
                0 => (slice.left, left, slice.centre),
                1 => (left, slice.centre, right),
                _ => (slice.centre, right, slice.right),
            };
        }
        let (best_of_step, best_of_all) = (least(&step, config), least(&accepted, config));
        if best_of_all.costs.smape / best_of_step.costs.smape >= threshold {
            accepted.push(best_of_step.clone());
            threshold = ACCEPTANCE;
        } else {
            threshold *= ACCEPTANCE;
        }
        let improvement = previous
            .iter()
            .zip(&step)
            .map(|(before, after)| before.costs.smape / after.costs.smape)
            .fold(f64::NEG_INFINITY, |most, ratio| if ratio > most { ratio } else { most });
        if improvement >= 2.0 {
            std::mem::swap(&mut previous, &mut step);
        } else {
            break;
        }
    }

    let best = least(&accepted, config);
    let (coefficient, shape) = best.term.unwrap_or((0.0, Shape::new(0, 1, 0)));
    let column: Vec<f64> = line.xs.iter().map(|x| shape.at(*x)).collect();
    let negligible = line.contribution(coefficient, &column) < 5e-4;
    if constant.costs.smape / best.costs.smape < 1.3 || negligible { constant } else { best.clone() }
}

fn least<'a>(hypotheses: &'a [Hypothesis], config: &ExtrapConfig) -> &'a Hypothesis {
    let mut best = &hypotheses[0];
    for hypothesis in &hypotheses[1..] {
        if cost(hypothesis, config) < cost(best, config) {
            best = hypothesis;
        }
    }
    best
}

/// The shapes of the basic search, in the order that decides ties.
fn search_space(config: &ExtrapConfig) -> Vec<Shape> {
    let usual = || {
        let falling_logs = FALLING_WITH_LOG.iter().filter(|_| config.negative_exponents && config.logarithms);
        let falling = GROWING.iter().filter(|(_, _, log)| config.negative_exponents && *log == 0);
        let growing = GROWING.iter().filter(|(_, _, log)| config.logarithms || *log == 0);
        growing
            .chain(falling_logs)
            .map(|(numerator, denominator, log)| Shape::new(*numerator, *denominator, *log))
            .chain(falling.map(|(numerator, denominator, _)| Shape::new(-numerator, *denominator, 0)))
            .collect::<Vec<_>>()
    };
    if config.poly_exponents.is_empty() && config.log_exponents.is_empty() {
        return usual();
    }
    let pairs = config
        .poly_exponents
        .iter()
        .flat_map(|power| config.log_exponents.iter().map(|log| Shape { power: *power, log: *log }));
    let alone = config.poly_exponents.iter().map(|power| Shape { power: *power, log: Exponent::ZERO });
    let logs_alone = config.log_exponents.iter().map(|log| Shape { power: Exponent::ZERO, log: *log });
    let mut shapes: Vec<Shape> = if config.force_combination_exponents {
        pairs.collect()
    } else {
        alone.chain(logs_alone).chain(pairs).collect()
    };
    shapes.retain(|shape| !shape.is_constant());
    if config.retain_default_exponents {
        shapes.extend(usual());
    }
    shapes
}

/// Numerator and denominator of the power, and the logarithm's exponent.
pub(crate) const GROWING: [(i64, i64, i64); 42] = [
    (0, 1, 1),
    (0, 1, 2),
    (1, 4, 0),
    (1, 3, 0),
    (1, 4, 1),
    (1, 3, 1),
    (1, 4, 2),
    (1, 3, 2),
    (1, 2, 0),
    (1, 2, 1),
    (1, 2, 2),
    (2, 3, 0),
    (3, 4, 0),
    (2, 3, 1),
    (3, 4, 1),
    (4, 5, 0),
    (2, 3, 2),
    (3, 4, 2),
    (1, 1, 0),
    (1, 1, 1),
    (1, 1, 2),
    (5, 4, 0),
    (5, 4, 1),
    (4, 3, 0),
    (4, 3, 1),
    (3, 2, 0),
    (3, 2, 1),
    (3, 2, 2),
    (5, 3, 0),
    (7, 4, 0),
    (2, 1, 0),
    (2, 1, 1),
    (2, 1, 2),
    (9, 4, 0),
    (7, 3, 0),
    (5, 2, 0),
    (5, 2, 1),
    (5, 2, 2),
    (8, 3, 0),
    (11, 4, 0),
    (3, 1, 0),
    (3, 1, 1),
];

const FALLING_WITH_LOG: [(i64, i64, i64); 23] = [
    (0, 1, -1),
    (0, 1, -2),
    (-1, 4, -1),
    (-1, 3, -1),
    (-1, 4, -2),
    (-1, 3, -2),
    (-1, 2, -1),
    (-1, 2, -2),
    (-2, 3, -1),
    (-3, 4, -1),
    (-2, 3, -2),
    (-3, 4, -2),
    (-1, 1, -1),
    (-1, 1, -2),
    (-5, 4, -1),
    (-4, 3, -1),
    (-3, 2, -1),
    (-3, 2, -2),
    (-2, 1, -1),
    (-2, 1, -2),
    (-5, 2, -1),
    (-5, 2, -2),
    (-3, 1, -1),
];
