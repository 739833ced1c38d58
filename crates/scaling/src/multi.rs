//! Several parameters from their one-parameter models, as Extra-P combines them.

use iotide_num::{least_squares, mean};

use crate::design::Design;
use crate::hypothesis::{Costs, Line, adjusted_r2, in_sample_costs, largest_share};
use crate::measurement::{Measure, Summary};
use crate::search::{Cost, ExtrapConfig, Search, search_basic, search_refining};
use crate::segmented::search_segmented;
use crate::term::{Factor, Function, Term};

/// The model of one parameter.
pub(crate) fn model_line(
    xs: &[f64],
    ys: &[f64],
    design: &crate::design::DesignLine,
    config: &ExtrapConfig,
) -> (Function, Costs) {
    if config.search == Search::Segmented
        && let Some(found) = search_segmented(xs, ys, config)
    {
        return found;
    }
    let line = Line::new(xs, ys);
    let best = match config.search {
        Search::Refining => search_refining(&line, config),
        Search::Basic => search_basic(&line, &design.basis, 0..xs.len(), config),
        Search::Segmented => {
            // The segmented search sorts first; sums over points in another order differ by rounding.
            search_basic(&line, &design.basis, 0..xs.len(), config)
        }
    };
    (best.function(), best.costs)
}

/// The model of all parameters: the shapes of the one-parameter models, combined as sums and products.
pub(crate) fn model_grid(
    design: &Design,
    summaries: &[Summary],
    measure: Measure,
    config: &ExtrapConfig,
) -> (Function, Costs) {
    let ys: Vec<f64> = summaries.iter().map(|summary| summary.by(measure)).collect();
    let n = ys.len();
    let average = ys.iter().sum::<f64>() / n as f64;
    let total: f64 = ys.iter().map(|y| (y - average).powi(2)).sum();

    let lines: Vec<Function> = design
        .lines
        .iter()
        .map(|line| {
            let ys: Vec<f64> = line.groups.iter().map(|group| reduce(group, summaries, measure)).collect();
            model_line(&line.xs, &ys, line, config).0
        })
        .collect();
    let growing: Vec<(usize, &Function, Factor)> = lines
        .iter()
        .enumerate()
        .filter_map(|(parameter, function)| {
            let factor = function.terms.first()?.factors.first()?;
            Some((parameter, function, renumbered(factor, parameter)))
        })
        .collect();

    match growing.as_slice() {
        [] => {
            let costs = in_sample_costs(ys.iter().map(|y| (average, *y)), n);
            (Function::constant(average), Costs { adjusted_r2: 1.0, ..costs })
        }
        [(_, line, factor)] => of_one_factor(line, factor, design, (&ys, total), config),
        _ => {
            let factors: Vec<Factor> = growing.iter().map(|(_, _, factor)| factor.clone()).collect();
            of_many_factors(&factors, design, (&ys, total), config).unwrap_or_else(|| {
                (Function::constant(average), in_sample_costs(ys.iter().map(|y| (average, *y)), n))
            })
        }
    }
}

/// Where one parameter alone changes anything: its own line, or the same shape fitted to all points.
///
/// Of the values comes the sum of squares around their average, too.
fn of_one_factor(
    line: &Function,
    factor: &Factor,
    design: &Design,
    (ys, total): (&[f64], f64),
    config: &ExtrapConfig,
) -> (Function, Costs) {
    let own = Function {
        constant: line.constant,
        terms: vec![Term { coefficient: line.terms[0].coefficient, factors: vec![factor.clone()] }],
    };
    let own_costs = costs_of(&own, design, ys, total);
    let factors = std::slice::from_ref(factor);
    let (refitted, refitted_costs) = Products::new(factors, design).fit(&[1], factors, ys, total);
    // By SMAPE whatever the setting, unless the RSS has already spoken for the refit: so the original does.
    let refit_wins = config.compare_combinations_by == Cost::Rss && refitted_costs.rss < own_costs.rss
        || refitted_costs.smape < own_costs.smape;
    if refit_wins { (refitted, refitted_costs) } else { (own, own_costs) }
}

/// The best of all combinations of these factors.
fn of_many_factors(
    factors: &[Factor],
    design: &Design,
    (ys, total): (&[f64], f64),
    config: &ExtrapConfig,
) -> Option<(Function, Costs)> {
    let cost = |costs: &Costs| match config.compare_combinations_by {
        Cost::Smape => costs.smape,
        Cost::Rss => costs.rss,
    };
    let mut best: Option<(Function, Costs)> = None;
    let mut products = Products::new(factors, design);
    for terms in combinations(factors.len(), config.sums_of_products) {
        let (function, costs) = products.fit(&terms, factors, ys, total);
        let Some((leader, current)) = &best else {
            best = Some((function, costs));
            continue;
        };
        let contributes = function.terms.iter().zip(&terms).all(|(term, set)| {
            let share = largest_share(term.coefficient, products.column(*set), ys);
            term.coefficient != 0.0 && (share >= 5e-4 || share.is_nan())
        });
        // On a cross of lines several combinations fit all points alike, and in the original rounding decides.
        // A tie here goes to the smaller constant, so that the answer does not hang on the last bit.
        let tie = (cost(&costs) - cost(current)).abs() <= 1e-9 * cost(current);
        let better =
            if tie { function.constant.abs() < leader.constant.abs() } else { cost(&costs) < cost(current) };
        if contributes && better {
            best = Some((function, costs));
        }
    }
    best
}

/// Which factors each term multiplies, as bit sets; the first of the list needs no minimum contribution.
fn combinations(n_factors: usize, sums_of_products: bool) -> Vec<Vec<usize>> {
    let product = vec![(1 << n_factors) - 1];
    let sum = (0..n_factors).map(|factor| 1 << factor).collect();
    let mut all = vec![product, sum];
    const X: usize = 1;
    const Y: usize = 2;
    const Z: usize = 4;
    const XYZ: usize = 7;
    match n_factors {
        2 if sums_of_products => all.extend([vec![X, X | Y], vec![Y, X | Y]]),
        3 if sums_of_products => all.extend([
            vec![XYZ, X],
            vec![XYZ, Y],
            vec![XYZ, Z],
            vec![XYZ, X | Y],
            vec![XYZ, Y | Z],
            vec![XYZ, X | Z],
            vec![XYZ, X | Y, Z],
            vec![XYZ, Y | Z, X],
            vec![XYZ, X | Z, Y],
            vec![XYZ, X, Y],
            vec![XYZ, X, Z],
            vec![XYZ, Y, Z],
            vec![X | Y, Z],
            vec![X | Y, Z, Y],
            vec![X | Y, Z, X],
            vec![X | Z, Y],
            vec![X | Z, Y, X],
            vec![X | Z, Y, Z],
            vec![Y | Z, X],
            vec![Y | Z, X, Y],
            vec![Y | Z, X, Z],
        ]),
        _ => {}
    }
    all
}

/// Products of factors at all points, each computed once.
struct Products {
    ones: Vec<f64>,
    /// By bit set of the factors; empty until asked for.
    columns: Vec<Vec<f64>>,
}

impl Products {
    fn new(factors: &[Factor], design: &Design) -> Self {
        let mut columns = vec![Vec::new(); 1 << factors.len().min(16)];
        for (f, factor) in factors.iter().enumerate().take(16) {
            columns[1 << f] = design.coordinates.iter().map(|point| factor.at(point)).collect();
        }
        Self { ones: vec![1.0; design.coordinates.len()], columns }
    }

    fn column(&self, set: usize) -> &[f64] {
        &self.columns[set]
    }

    fn prepare(&mut self, set: usize) {
        if self.columns[set].is_empty() {
            let mut product = self.ones.clone();
            for f in (0..usize::BITS).filter(|f| set & (1 << f) != 0) {
                product.iter_mut().zip(&self.columns[1 << f]).for_each(|(a, b)| *a *= b);
            }
            self.columns[set] = product;
        }
    }

    /// Least squares of a constant and the given products, with its costs at the points.
    fn fit(&mut self, sets: &[usize], factors: &[Factor], ys: &[f64], total: f64) -> (Function, Costs) {
        sets.iter().for_each(|set| self.prepare(*set));
        let columns: Vec<&[f64]> =
            std::iter::once(self.ones.as_slice()).chain(sets.iter().map(|set| self.column(*set))).collect();
        let cutoff = f64::EPSILON * ys.len().max(columns.len()) as f64;
        let fit = least_squares(&columns, ys, cutoff).and_then(|fit| {
            // Columns of very different size look dependent to a cautious cutoff: once more with the least one.
            if fit.rank < columns.len() { least_squares(&columns, ys, f64::EPSILON) } else { Some(fit) }
        });
        let coefficients = fit.map_or_else(|| vec![f64::NAN; columns.len()], |fit| fit.coefficients);
        let value =
            |i: usize| -> f64 { columns.iter().zip(&coefficients).map(|(column, c)| c * column[i]).sum() };
        let mut costs = in_sample_costs(ys.iter().enumerate().map(|(i, y)| (value(i), *y)), ys.len());
        let n_factors = sets.iter().map(|set| set.count_ones() as usize).sum();
        costs.adjusted_r2 = adjusted_r2(costs.rss, total, ys.len(), n_factors);
        let terms = sets.iter().zip(&coefficients[1..]).map(|(set, coefficient)| Term {
            coefficient: *coefficient,
            factors: (0..factors.len()).filter(|f| set & (1 << f) != 0).map(|f| factors[f].clone()).collect(),
        });
        (Function { constant: coefficients[0], terms: terms.collect() }, costs)
    }
}

fn costs_of(function: &Function, design: &Design, ys: &[f64], total: f64) -> Costs {
    let mut costs = in_sample_costs(
        design.coordinates.iter().zip(ys).map(|(point, y)| (function.at(point), *y)),
        ys.len(),
    );
    let n_factors = function.terms.iter().map(|term| term.factors.len()).sum();
    costs.adjusted_r2 = adjusted_r2(costs.rss, total, ys.len(), n_factors);
    costs
}

/// The value that stands for parallel points of several lines.
fn reduce(group: &[usize], summaries: &[Summary], measure: Measure) -> f64 {
    if let [only] = group {
        return summaries[*only].by(measure);
    }
    let of = |figure: &dyn Fn(&Summary) -> f64| -> Vec<f64> {
        group.iter().map(|index| figure(&summaries[*index])).collect()
    };
    let value = mean(&of(&|summary| summary.by(measure)));
    match measure {
        Measure::Mean | Measure::Median => value,
        // Extremes are carried along as shares of the mean.
        Measure::Minimum | Measure::Maximum if value == 0.0 => mean(&of(&|summary| summary.by(measure))),
        Measure::Minimum | Measure::Maximum => {
            let mut shares = of(&|summary| summary.by(measure) / summary.mean);
            shares.retain(|share| !share.is_nan());
            mean(&shares) * value
        }
    }
}

fn renumbered(factor: &Factor, parameter: usize) -> Factor {
    let function = |function: &Function| Function {
        constant: function.constant,
        terms: function
            .terms
            .iter()
            .map(|term| Term {
                coefficient: term.coefficient,
                factors: term.factors.iter().map(|factor| renumbered(factor, parameter)).collect(),
            })
            .collect(),
    };
    match factor {
        Factor::Smooth { shape, .. } => Factor::Smooth { parameter, shape: *shape },
        Factor::Piecewise(pieces) => Factor::Piecewise(Box::new(crate::term::Piecewise {
            parameter,
            lower: function(&pieces.lower),
            lower_end: pieces.lower_end,
            upper: function(&pieces.upper),
            upper_start: pieces.upper_start,
        })),
    }
}
