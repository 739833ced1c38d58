//! How well scaling models are found: functions known beforehand, measured with noise, modelled by both methods.
//!
//! *exact*: all exponents right. *lead*: the exponent that decides at scale is within 1/4. *e4*: median relative error four
//! doublings beyond the last point. *hit*: how often the 90 % interval one doubling out holds what is measured there, as
//! often and as noisily as everywhere else. The column
//! "extrap" is `--method extrap`, which reproduces Extra-P 4.2.5 model by model (see `scaling/tests/it/golden.rs`).

use std::num::NonZeroUsize;
use std::path::PathBuf;

use iotide_num::SplitMix64;
use iotide_scaling::{
    ExtrapConfig, Factor, FitConfig, Function, Measure, Measurement, Method, Model, Series, Shape, Term,
    fit_all,
};

/// Usage of `run`.
pub const HELP: &str = "accuracy scaling [CASES [SEED [SET]]]
    how often scaling models are right on known functions, beside Extra-P's method; 1000 cases a row; only sets that hold SET
accuracy scaling --real PLACE… [-v]
    the same on measured programs, the largest point left out: files and folders of measurements, such as tests/data of Extra-P";

use super::measured;

/// Prints the table.
pub fn run(args: &[String]) -> Result<(), String> {
    if let [first, rest @ ..] = args
        && first == "--real"
    {
        let places: Vec<PathBuf> = rest.iter().filter(|arg| *arg != "-v").map(PathBuf::from).collect();
        return measured::run(&places, rest.iter().any(|arg| arg == "-v"));
    }
    let number = |index: usize, default: u64| match args.get(index) {
        Some(text) => text.parse().map_err(|_| format!("{text:?} is no number")),
        None => Ok(default),
    };
    let (n, seed) = (usize::try_from(number(0, 1000)?.max(1)).unwrap_or(1000), number(1, 1)?);
    println!("{:<34} {:>5}   {:^29}   {:^22}", "", "noise", "auto", "extrap");
    println!(
        "{:<34} {:>5}   {:>6} {:>6} {:>8} {:>6}   {:>6} {:>6} {:>8}",
        "set", "%", "exact", "lead", "e4 %", "hit", "exact", "lead", "e4 %"
    );
    let only = args.get(2).map_or("", String::as_str);
    for set in SETS.iter().filter(|set| set.name.contains(only)) {
        for noise in set.noises {
            let (auto, extrap) = judge(set, *noise, n, seed);
            println!(
                "{:<34} {:>5.0}   {:>6.1} {:>6.1} {:>8.2} {:>6.1}   {:>6.1} {:>6.1} {:>8.2}",
                set.name,
                noise * 100.0,
                auto.exact,
                auto.lead,
                auto.error_at_16,
                auto.hit,
                extrap.exact,
                extrap.lead,
                extrap.error_at_16
            );
        }
    }
    Ok(())
}

/// One row of the table for one method, in per cent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Verdict {
    /// All exponents right.
    pub exact: f64,
    /// The leading exponent of every parameter within 1/4.
    pub lead: f64,
    /// Median relative error four doublings out.
    pub error_at_16: f64,
    /// How often the 90 % interval holds what is measured one doubling out.
    pub hit: f64,
}

/// A family of known functions and the points they are measured at.
pub struct Set {
    name: &'static str,
    noises: &'static [f64],
    make: fn(&mut Rng) -> Truth,
}

const NOISES: &[f64] = &[0.02, 0.05, 0.1, 0.2];

/// The sets, in the order of the table.
pub const SETS: &[Set] = &[
    Set { name: "1 parameter", noises: NOISES, make: |rng| (one(rng, Strength::Any), line(rng)) },
    Set {
        name: "1 parameter, weak growth",
        noises: NOISES,
        make: |rng| (one(rng, Strength::Weak), line(rng)),
    },
    Set {
        name: "1 parameter, exponent off the grid",
        noises: NOISES,
        make: |rng| (off_grid(rng), line(rng)),
    },
    Set { name: "1 parameter, falling", noises: NOISES, make: |rng| (falling(rng), line(rng)) },
    Set {
        name: "1 parameter, two terms, 8 points",
        noises: NOISES,
        make: |rng| (two_terms(rng), long_line()),
    },
    Set { name: "2 parameters, 5x5 grid", noises: NOISES, make: |rng| (two(rng), grid(rng)) },
    Set { name: "2 parameters, cross of 9", noises: NOISES, make: |rng| (two(rng), cross(rng)) },
    Set {
        name: "constant (exact: not invented)",
        noises: NOISES,
        make: |rng| (Function::constant(rng.between(1.0, 100.0)), line(rng)),
    },
    Set {
        name: "constant, 5x5 grid",
        noises: NOISES,
        make: |rng| (Function::constant(rng.between(1.0, 100.0)), grid(rng)),
    },
];

/// A known function and the points it is measured at.
type Truth = (Function, Vec<Vec<f64>>);

/// Judges both methods on one set.
pub fn judge(set: &Set, noise: f64, n: usize, seed: u64) -> (Verdict, Verdict) {
    let mut rng = Rng(SplitMix64::new(seed ^ (noise * 1e6) as u64));
    let out = |points: &[Vec<f64>], times: f64| -> Vec<f64> {
        let n_parameters = points[0].len();
        (0..n_parameters).map(|p| times * points.iter().map(|x| x[p]).fold(0.0, f64::max)).collect()
    };
    let (truths, series): (Vec<Truth>, Vec<Series>) = (0..n)
        .map(|_| {
            let (function, points) = (set.make)(&mut rng);
            let measurements = points
                .iter()
                .map(|point| {
                    let truth = function.at(point);
                    let values: Vec<f64> =
                        (0..5).map(|_| truth * (1.0 + rng.between(-noise, noise))).collect();
                    Measurement::new(point.clone(), values)
                })
                .collect();
            ((function, points), Series { measurements, ..Series::default() })
        })
        .unzip();
    // What is measured one doubling out, as often and as noisily as the rest.
    let near: Vec<f64> = truths
        .iter()
        .map(|(truth, points)| {
            let scatter: f64 = (0..5).map(|_| 1.0 + rng.between(-noise, noise)).sum();
            truth.at(&out(points, 2.0)) * scatter / 5.0
        })
        .collect();
    let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let verdict = |method: Method| {
        let config = FitConfig { measure: Measure::Mean, method };
        let models = fit_all(&series, &config, threads);
        let (mut exact, mut lead, mut hit, mut errors) = (0, 0, 0, Vec::new());
        for (((truth, points), near), model) in truths.iter().zip(&near).zip(models) {
            let model = model.expect("five points have a model");
            exact += usize::from(exponents(&model.function) == exponents(truth));
            lead += usize::from(leads_agree(&model, truth));
            let far = truth.at(&out(points, 16.0));
            errors.push((model.function.at(&out(points, 16.0)) - far).abs() / far);
            hit += usize::from(
                model
                    .predict(&out(points, 2.0), 0.9)
                    .interval
                    .is_some_and(|(low, high)| (low..=high).contains(near)),
            );
        }
        errors.sort_by(f64::total_cmp);
        let share = |count: usize| 100.0 * count as f64 / n as f64;
        Verdict {
            exact: share(exact),
            lead: share(lead),
            error_at_16: 100.0 * errors[n / 2],
            hit: share(hit),
        }
    };
    (verdict(Method::Auto), verdict(Method::Extrap(ExtrapConfig::default())))
}

/// The exponents of a function, whatever the order of its terms.
fn exponents(function: &Function) -> Vec<Vec<(usize, String, String)>> {
    let mut terms: Vec<Vec<(usize, String, String)>> = function
        .terms
        .iter()
        .map(|term| {
            let mut factors: Vec<_> = term
                .factors
                .iter()
                .filter_map(|factor| match factor {
                    Factor::Smooth { parameter, shape } => {
                        Some((*parameter, shape.power.to_string(), shape.log.to_string()))
                    }
                    Factor::Piecewise(_) => None,
                })
                .collect();
            factors.sort();
            factors
        })
        .collect();
    terms.sort();
    terms
}

/// Whether the steepest power of every parameter is within 1/4 of the true one.
fn leads_agree(model: &Model, truth: &Function) -> bool {
    let lead = |function: &Function, parameter: usize| {
        let powers = function.terms.iter().flat_map(|term| &term.factors).filter_map(|factor| match factor {
            Factor::Smooth { parameter: p, shape } if *p == parameter => Some(shape.power.value()),
            _ => None,
        });
        powers.fold(f64::NEG_INFINITY, f64::max)
    };
    (0..model.ranges.len()).all(|parameter| {
        let (ours, theirs) = (lead(&model.function, parameter), lead(truth, parameter));
        let absent_is_flat = |lead: f64| if lead.is_finite() { lead } else { 0.0 };
        (absent_is_flat(ours) - absent_is_flat(theirs)).abs() <= 0.25 + 1e-9
    })
}

enum Strength {
    Any,
    Weak,
}

fn one(rng: &mut Rng, strength: Strength) -> Function {
    let shape = *rng.pick(&shapes());
    match strength {
        Strength::Any => Function::of_one(rng.between(1.0, 100.0), rng.between(0.1, 10.0), shape),
        // The term makes up a tenth to nine tenths of the value at the last of the usual points.
        Strength::Weak => {
            let share = rng.between(0.1, 0.9);
            Function::of_one(100.0 * (1.0 - share), 100.0 * share / shape.at(64.0), shape)
        }
    }
}

fn off_grid(rng: &mut Rng) -> Function {
    let power = iotide_scaling::Exponent::nearest((rng.between(0.2, 2.8) * 100.0).round() / 100.0);
    Function::of_one(
        rng.between(1.0, 100.0),
        rng.between(0.1, 10.0),
        Shape { power, log: iotide_scaling::Exponent::ZERO },
    )
}

fn falling(rng: &mut Rng) -> Function {
    let shape =
        *rng.pick(&[Shape::new(-1, 1, 0), Shape::new(-1, 2, 0), Shape::new(-2, 3, 0), Shape::new(-3, 4, 0)]);
    Function::of_one(rng.between(0.0, 10.0), rng.between(100.0, 1000.0), shape)
}

fn two_terms(rng: &mut Rng) -> Function {
    let (a, b) = *rng.pick(&[
        (Shape::new(-1, 1, 0), Shape::new(0, 1, 1)),
        (Shape::new(-1, 1, 0), Shape::new(1, 2, 0)),
        (Shape::new(0, 1, 1), Shape::new(1, 1, 0)),
        (Shape::new(1, 1, 0), Shape::new(2, 1, 0)),
    ]);
    let (balance, size) = (rng.between(0.3, 0.7), rng.between(10.0, 100.0));
    let term = |share: f64, shape: Shape| Term {
        coefficient: size * share / shape.at(if shape.power.value() < 0.0 { 2.0 } else { 256.0 }),
        factors: vec![Factor::Smooth { parameter: 0, shape }],
    };
    Function { constant: rng.between(0.0, 5.0), terms: vec![term(balance, a), term(1.0 - balance, b)] }
}

fn two(rng: &mut Rng) -> Function {
    let factor = |parameter: usize, shape: Shape| Factor::Smooth { parameter, shape };
    let (a, b) = (*rng.pick(&shapes()), *rng.pick(&shapes()));
    let (x, y) = (factor(0, a), factor(1, b));
    let mut term = |factors: Vec<Factor>| Term { coefficient: rng.between(0.1, 10.0), factors };
    let product = vec![x.clone(), y.clone()];
    let terms = [
        vec![term(product.clone())],
        vec![term(vec![x.clone()]), term(vec![y.clone()])],
        vec![term(vec![x]), term(product.clone())],
        vec![term(vec![y]), term(product)],
    ];
    let terms = rng.pick(&terms).clone();
    Function { constant: rng.between(1.0, 100.0), terms }
}

fn line(rng: &mut Rng) -> Vec<Vec<f64>> {
    let start = *rng.pick(&[4.0, 8.0, 16.0]);
    (0..5).map(|i| vec![start * f64::from(1 << i)]).collect()
}

fn long_line() -> Vec<Vec<f64>> {
    (1..9).map(|i| vec![f64::from(1 << i)]).collect()
}

fn grid(_: &mut Rng) -> Vec<Vec<f64>> {
    (0..5).flat_map(|i| (0..5).map(move |j| vec![4.0 * f64::from(1 << i), 10.0 * f64::from(j + 1)])).collect()
}

fn cross(rng: &mut Rng) -> Vec<Vec<f64>> {
    grid(rng).into_iter().filter(|point| point[0] == 4.0 || point[1] == 10.0).collect()
}

/// All shapes of the usual search space.
fn shapes() -> Vec<Shape> {
    let powers = [
        (0, 1),
        (1, 4),
        (1, 3),
        (1, 2),
        (2, 3),
        (3, 4),
        (1, 1),
        (5, 4),
        (4, 3),
        (3, 2),
        (5, 2),
        (2, 1),
        (3, 1),
    ];
    let with_logs = powers.into_iter().flat_map(|(n, d)| (0..=2).map(move |log| Shape::new(n, d, log)));
    let absent = [Shape::new(5, 4, 2), Shape::new(4, 3, 2), Shape::new(3, 1, 2)];
    let plain = [(4, 5), (5, 3), (7, 4), (9, 4), (7, 3), (8, 3), (11, 4)].map(|(n, d)| Shape::new(n, d, 0));
    with_logs.filter(|shape| !shape.is_constant() && !absent.contains(shape)).chain(plain).collect()
}

/// Draws for cases: small, seeded, the same everywhere.
pub struct Rng(pub SplitMix64);

impl Rng {
    /// Evenly from `[low, high)`.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.0.unit()
    }

    /// One of several.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.between(0.0, from.len() as f64) as usize]
    }
}
