//! Our own way: every function on one yardstick, and no claim that noise alone could have made.
//!
//! 1. Points are weighed by the spread of their repetitions ([`noise`]).
//! 2. Functions are compared by their [`evidence`]: one formula for constant and growing, for one term and several.
//! 3. Growth is claimed only if constant data of the same noise would look like it in fewer than [`FALSE_GROWTH`] of the
//!    cases, the choice among all shapes accounted for.
//! 4. What other functions would have said, weighed by their evidence, makes the prediction interval.
//!
//! Costs do not become negative: a term that falls has a negative exponent, never a negative coefficient.

use iotide_num::incomplete_beta;

use self::evidence::{Fit, MAX_COLUMNS};
use self::noise::Sample;
use crate::measurement::{Measure, Note, Summary};
use crate::search::GROWING;
use crate::term::{Factor, Function, Shape, Term};

mod evidence;
mod noise;
mod structure;

/// How often constant data may be taken for growing. Measured with it: 1.0 to 2.0 % of 1000 constant metrics with 2 to 20 % noise
/// ("constant" in docs/scaling.md).
const FALSE_GROWTH: f64 = 0.012;

/// By how much of its size a cost that does not change scatters from point to point, at most, as a rule (docs/scaling.md, "Few points").
const USUAL_SCATTER: f64 = 0.1;

/// Largest value of [`FALSE_GROWTH`] where points without repetitions lie far apart.
const MOST_FALSE_GROWTH: f64 = 0.25;

/// How sure one must be that repetitions do not explain the gaps before they are no longer believed to.
const LACK_OF_FIT: f64 = 0.002;

/// How rarely chance must bring points as close to a function before their repetitions are taken for parts of a whole.
const TOO_CLOSE: f64 = 1e-6;

/// See [`Scatter::drift`].
const DRIFT: f64 = 1.0;

/// The same where repetitions tell the noise: also then a function is known only where it was measured. Without it 90 % intervals one doubling
/// out hold in 88.5 % of the known functions, with it in 90.8 %.
const DRIFT_REPEATED: f64 = 0.25;

/// Alternatives below this share of the probability are forgotten.
const NEGLIGIBLE: f64 = 1e-3;

/// Falling shapes besides the growing powers turned upside down.
const FALLING_WITH_LOG: [(i64, i64, i64); 2] = [(-1, 2, 1), (-1, 1, 1)];

/// Shapes that two-term functions of one parameter are made of: those that algorithms have.
const PAIRED: [(i64, i64, i64); 14] = [
    (0, 1, 1),
    (0, 1, 2),
    (1, 3, 0),
    (1, 2, 0),
    (2, 3, 0),
    (1, 1, 0),
    (1, 1, 1),
    (3, 2, 0),
    (2, 1, 0),
    (2, 1, 1),
    (3, 1, 0),
    (-1, 2, 0),
    (-1, 1, 0),
    (-2, 1, 0),
];

/// Powers between those that algorithms have are tried in steps of one in this many.
const FINE_STEPS: i64 = 20;

/// Near the best power, in steps of one in this many.
const FINEST_STEPS: i64 = 100;

/// How much of the belief in growth goes to them when the function to show is chosen: one that has a theory is told
/// more easily. Sensitivity, as 90 % intervals that hold off the grid at 2, 5, 10 and 20 % noise: 83 82 86 86 % with 0.2, 86 85 88 87 % with
/// 0.35, both without a share of its own for the interval.
const FINE_SHARE: f64 = 0.25;

/// How much of it goes to them when the interval is made: measured quantities follow no theory to the letter. With it
/// the same intervals hold in 88 86 89 88 %.
const FINE_SHARE_OF_INTERVAL: f64 = 0.5;

/// How much of the belief in a term that grows goes to it alone, without a constant: much is in proportion to the processes, or to the
/// square of a size, and few other things are. Sensitivity, as the error four doublings out of functions with a constant and off the grid, 20 % noise:
/// 8.6 and 23 % without, 11.6 and 19 % with these, 13.9 and 18 % with a tenth for both.
const PROPORTIONAL: f64 = 0.05;

/// The same for terms that are no whole power.
const PROPORTIONAL_TO_ODD: f64 = 0.02;

/// How many times more readily a metric is believed to be constant than to change: most of a program's are.
const CONSTANT_ODDS: f64 = 2.0;

/// One function that explains the points, with what it leaves open.
#[derive(Clone, Debug, PartialEq)]
pub struct Alternative {
    /// Its share of the probability, in [0, 1].
    pub probability: f64,
    /// The function.
    pub function: Function,
    /// Covariance of the constant and the coefficients of the terms.
    pub covariance: Vec<Vec<f64>>,
    /// Degrees of freedom it was estimated from.
    pub dof: f64,
    /// How a point measured like the others scatters about it.
    pub scatter: Scatter,
}

/// By how much measured points scatter about a function: `√variance · size^θ`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Scatter {
    /// Variance of a point of size one.
    pub variance: f64,
    /// The exponent θ: 1 where the spread is a share of the value, 0 where it is the same everywhere.
    pub exponent: f64,
    /// By how much of itself the spread grows up to the first doubling beyond the points, most where gaps that no repetition explains
    /// are the function's own: nothing holds it there. Further out the functions still possible differ by more.
    pub drift: f64,
}

impl Scatter {
    /// Returns the variance of a point that measures `value`, so many doublings beyond the points known.
    pub fn variance_at(&self, value: f64, doublings: f64) -> f64 {
        let times = 1.0 + self.drift * doublings.min(1.0);
        if self.variance == 0.0 {
            0.0
        } else {
            self.variance * value.abs().powf(2.0 * self.exponent) * times * times
        }
    }
}

/// Result of the search.
pub(crate) struct Found {
    pub(crate) function: Function,
    pub(crate) alternatives: Vec<Alternative>,
    pub(crate) notes: Vec<Note>,
    /// Whether nothing but rounding is left between function and values.
    is_exact: bool,
}

/// The shapes tried and their values at all points, parameter by parameter.
#[derive(Debug)]
pub(crate) struct AutoDesign {
    coordinates: Vec<Vec<f64>>,
    parameters: Vec<ParameterColumns>,
    ones: Vec<f64>,
}

/// One parameter's share of the design.
#[derive(Debug)]
struct ParameterColumns {
    /// Shapes that are defined at all points.
    shapes: Vec<Shape>,
    columns: Vec<Vec<f64>>,
    /// Logarithm of the belief each shape starts with; they add up to one.
    log_priors: Vec<f64>,
    /// How many of the shapes, the first ones, are those that algorithms have.
    n_usual: usize,
    /// Where the finest steps of the exponent begin.
    first_finest: usize,
    /// Indices of growing and of falling shapes, each from gentle to steep.
    curves: [Vec<usize>; 2],
    /// Indices of the shapes that may occur in pairs.
    paired: Vec<usize>,
    /// How many different values the parameter took.
    n_values: usize,
    /// Points that differ in this parameter alone, three or more together.
    lines: Vec<Vec<usize>>,
    notes: Vec<Note>,
}

impl AutoDesign {
    pub(crate) fn new(coordinates: Vec<Vec<f64>>) -> Self {
        let n_parameters = coordinates.first().map_or(0, Vec::len);
        let mut parameters: Vec<ParameterColumns> =
            (0..n_parameters).map(|parameter| ParameterColumns::new(&coordinates, parameter)).collect();
        // A parameter that always moves with an earlier one says nothing of its own.
        for later in 1..n_parameters {
            let tied = (0..later).find(|earlier| {
                !parameters[*earlier].shapes.is_empty()
                    && !parameters[later].shapes.is_empty()
                    && moves_with(&coordinates, *earlier, later)
            });
            if let Some(kept) = tied {
                let parameter = &mut parameters[later];
                parameter.shapes.clear();
                parameter.columns.clear();
                (parameter.n_usual, parameter.first_finest) = (0, 0);
                parameter.curves = [Vec::new(), Vec::new()];
                parameter.notes.push(Note::TiedParameters { kept, dropped: later });
            }
        }
        let ones = vec![1.0; coordinates.len()];
        Self { coordinates, parameters, ones }
    }

    /// How many times as much a form has to say about the interval as about which function is shown.
    fn say_in_interval(&self, form: &Form) -> f64 {
        let ([parameter], [term]) = (self.parameters.as_slice(), form.terms.as_slice()) else {
            return if form.terms.is_empty() { CONSTANT_ODDS } else { 1.0 };
        };
        let has_fine = parameter.shapes.len() > parameter.n_usual;
        match term.as_slice() {
            [(_, shape)] if has_fine && *shape < parameter.n_usual => {
                (1.0 - FINE_SHARE_OF_INTERVAL) / (1.0 - FINE_SHARE)
            }
            [_] if has_fine => FINE_SHARE_OF_INTERVAL / FINE_SHARE,
            _ => 1.0,
        }
    }

    /// One parameter's shape times those of others, at all points.
    fn product(&self, parameter: usize, shape: usize, others: &[(usize, usize)]) -> Vec<f64> {
        let mut product = self.parameters[parameter].columns[shape].clone();
        for (parameter, shape) in others {
            let column = &self.parameters[*parameter].columns[*shape];
            product.iter_mut().zip(column).for_each(|(a, b)| *a *= b);
        }
        product
    }
}

/// Whether each value of one parameter goes with exactly one of the other.
fn moves_with(coordinates: &[Vec<f64>], a: usize, b: usize) -> bool {
    coordinates.iter().all(|p| coordinates.iter().all(|q| (p[a] == q[a]) == (p[b] == q[b])))
}

/// The shapes that are tried whatever is measured: Extra-P's, and those that fall.
fn usual_shapes() -> Vec<Shape> {
    let growing = GROWING.iter().map(|(n, d, log)| Shape::new(*n, *d, *log));
    let falling = GROWING.iter().filter(|(_, _, log)| *log == 0).map(|(n, d, _)| Shape::new(-n, *d, 0));
    let falling_with_log = FALLING_WITH_LOG.iter().map(|(n, d, log)| Shape::new(*n, *d, *log));
    growing.chain(falling).chain(falling_with_log).collect()
}

/// Powers between those.
fn fine_shapes(usual: &[Shape]) -> Vec<Shape> {
    let steps = (1..=3 * FINE_STEPS).flat_map(|step| [step, -step]);
    let fine = steps.map(|step| Shape::new(step, FINE_STEPS, 0));
    fine.filter(|shape| !usual.contains(shape)).collect()
}

/// The shapes that these values of a parameter (ascending) can tell apart, and what is to be said of them.
fn shapes_for(
    values: &[f64],
    parameter: usize,
    usual: &[Shape],
    fine: Vec<Shape>,
) -> (Vec<Shape>, Vec<Note>) {
    let mut notes = Vec::new();
    let mut shapes = usual.to_vec();
    if values.len() >= 5 {
        shapes.extend(fine);
        let finest = (1..=3 * FINEST_STEPS).flat_map(|step| [step, -step]);
        let finest = finest.filter(|step| step % (FINEST_STEPS / FINE_STEPS) != 0);
        shapes.extend(finest.map(|step| Shape::new(step, FINEST_STEPS, 0)));
    }
    match values.len() {
        0 | 1 => {
            shapes.clear();
            notes.push(Note::FixedParameter { parameter });
        }
        // Two values carry a direction but no shape.
        2 => shapes.retain(|shape| shape.power.value().abs() == 1.0 && shape.log.is_zero()),
        _ => {}
    }
    if (2..5).contains(&values.len()) {
        notes.push(Note::FewPoints { parameter, n_points: values.len() });
    }
    if values.first().is_some_and(|least| *least < 1.0) && !shapes.is_empty() {
        shapes.retain(|shape| shape.log.is_zero());
        notes.push(Note::NoLogarithms { parameter });
    }
    (shapes, notes)
}

impl ParameterColumns {
    fn new(coordinates: &[Vec<f64>], parameter: usize) -> Self {
        let xs: Vec<f64> = coordinates.iter().map(|point| point[parameter]).collect();
        let mut values = xs.clone();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let usual_shapes = usual_shapes();
        let fine = fine_shapes(&usual_shapes);
        let n_fine = fine.len();
        let (mut shapes, notes) = shapes_for(&values, parameter, &usual_shapes, fine);
        let mut columns: Vec<Vec<f64>> =
            shapes.iter().map(|shape| xs.iter().map(|x| shape.at(*x)).collect()).collect();
        let defined: Vec<bool> =
            columns.iter().map(|column| column.iter().all(|t| t.is_finite() && *t >= 0.0)).collect();
        let mut keep = defined.iter();
        shapes.retain(|_| *keep.next().unwrap_or(&false));
        let mut keep = defined.iter();
        columns.retain(|_| *keep.next().unwrap_or(&false));

        let n_usual = shapes.iter().filter(|shape| usual_shapes.contains(shape)).count();
        let is_finest = |shape: &Shape| shape.power.denominator() > FINE_STEPS;
        let first_finest =
            shapes[n_usual..].iter().position(is_finest).map_or(shapes.len(), |at| n_usual + at);
        // From gentle to steep: by how much of the whole change lies beyond the middle.
        let (least, middle, most) = match values.as_slice() {
            [] => (1.0, 1.0, 1.0),
            values => (values[0], values[values.len() / 2], values[values.len() - 1]),
        };
        let steepness =
            |shape: &Shape| (shape.at(most) - shape.at(middle)) / (shape.at(most) - shape.at(least));
        let curve = |grows: bool| -> Vec<usize> {
            let mut curve: Vec<usize> =
                (0..n_usual).filter(|s| (shapes[*s].power.value() >= 0.0) == grows).collect();
            curve.sort_by(|a, b| steepness(&shapes[*a]).total_cmp(&steepness(&shapes[*b])));
            curve
        };
        let curves = [curve(true), curve(false)];
        let log_priors = {
            let fine_share = if shapes.len() > n_usual { FINE_SHARE } else { 0.0 };
            let prior = |index: usize| {
                if index < n_usual { (1.0 - fine_share) / n_usual as f64 } else { fine_share / n_fine as f64 }
            };
            (0..shapes.len()).map(|index| prior(index).ln()).collect()
        };
        let paired = (0..shapes.len())
            .filter(|s| PAIRED.iter().any(|(n, d, log)| shapes[*s] == Shape::new(*n, *d, *log)))
            .collect();
        Self {
            curves,
            paired,
            n_values: values.len(),
            lines: lines_along(coordinates, parameter),
            shapes,
            columns,
            log_priors,
            n_usual,
            first_finest,
            notes,
        }
    }
}

/// Sets of three or more points that differ in one parameter alone.
fn lines_along(coordinates: &[Vec<f64>], parameter: usize) -> Vec<Vec<usize>> {
    let mut lines: std::collections::BTreeMap<Vec<u64>, Vec<usize>> = std::collections::BTreeMap::new();
    for (i, point) in coordinates.iter().enumerate() {
        let others =
            point.iter().enumerate().filter(|(p, _)| *p != parameter).map(|(_, x)| x.to_bits()).collect();
        lines.entry(others).or_default().push(i);
    }
    lines.into_values().filter(|line| line.len() >= 3).collect()
}

/// A function as shapes of parameters, not yet as text: for each term, which shape of which parameter it multiplies.
#[derive(Clone, Debug, PartialEq)]
struct Form {
    terms: Vec<Vec<(usize, usize)>>,
}

impl Form {
    const CONSTANT: Form = Form { terms: Vec::new() };

    fn one(parameter: usize, shape: usize) -> Self {
        Form { terms: vec![vec![(parameter, shape)]] }
    }

    fn fit(&self, design: &AutoDesign, sample: &Sample, most_ss: f64) -> Option<Fit> {
        let products: Vec<Option<Vec<f64>>> = self
            .terms
            .iter()
            .map(|term| {
                let [(p, s), rest @ ..] = term.as_slice() else { return None };
                (!rest.is_empty()).then(|| design.product(*p, *s, rest))
            })
            .collect();
        let mut columns: [&[f64]; MAX_COLUMNS] = [&design.ones; MAX_COLUMNS];
        let k = self.terms.len() + 1;
        if k > MAX_COLUMNS {
            return None;
        }
        for ((column, term), product) in columns[1..].iter_mut().zip(&self.terms).zip(&products) {
            let (p, s) = *term.first()?;
            *column = product.as_deref().unwrap_or(&design.parameters[p].columns[s]);
        }
        Fit::within(&columns[..k], sample, most_ss)
    }

    fn function(&self, design: &AutoDesign, fit: &Fit) -> Function {
        let terms = self.terms.iter().zip(&fit.beta[1..]).map(|(term, beta)| Term {
            coefficient: *beta,
            factors: term
                .iter()
                .map(|(p, s)| Factor::Smooth { parameter: *p, shape: design.parameters[*p].shapes[*s] })
                .collect(),
        });
        Function { constant: fit.beta[0], terms: terms.collect() }
    }
}

/// A form with its fit, on the scale of evidence.
#[derive(Clone, Debug)]
struct Candidate {
    form: Form,
    fit: Fit,
    /// Evidence and the share of belief the form starts with.
    log_weight: f64,
}

/// The candidates that explain a sample, best first, and which of them to show.
struct Ranking {
    candidates: Vec<Candidate>,
    chosen: usize,
}

/// Finds the function that explains the values; `None` if they are beyond what can be squared.
pub(crate) fn search(design: &AutoDesign, summaries: &[Summary], measure: Measure) -> Option<Found> {
    let largest = summaries.iter().map(|summary| summary.by(measure).abs()).fold(0.0, f64::max);
    if largest == 0.0 && summaries.iter().all(|summary| summary.std.abs() == 0.0 || summary.std.is_nan()) {
        return Some(nothing_there(design));
    }
    // In units of the largest value, rounded to a power of two so that no digit changes: squares then stay in range.
    let exponent = if largest > 0.0 { largest.log2().floor().clamp(-1000.0, 1000.0) } else { 0.0 };
    let unit = 2f64.powi(exponent as i32);
    let scaled: Vec<Summary> = summaries.iter().map(|summary| summary.in_units_of(unit)).collect();
    let mut found = search_scaled(design, &scaled, measure)?;
    found.function = found.function.times(unit);
    for alternative in &mut found.alternatives {
        alternative.function = std::mem::take(&mut alternative.function).times(unit);
        alternative.covariance.iter_mut().flatten().for_each(|c| *c *= unit * unit);
        alternative.scatter.variance *= unit.powf(2.0 - 2.0 * alternative.scatter.exponent);
    }
    if found.is_exact {
        // What the coefficients have beyond a dozen digits is rounding.
        let least =
            summaries.iter().fold(f64::INFINITY, |least, summary| least.min(summary.by(measure).abs()));
        let function = &mut found.function;
        function.constant =
            if function.constant.abs() < 1e-9 * least { 0.0 } else { to_twelve_digits(function.constant) };
        function.terms.iter_mut().for_each(|term| term.coefficient = to_twelve_digits(term.coefficient));
    }
    Some(found)
}

/// All values are zero: a call that was never made, at any scale.
fn nothing_there(design: &AutoDesign) -> Found {
    let zero = Alternative {
        probability: 1.0,
        function: Function::constant(0.0),
        covariance: vec![vec![0.0]],
        dof: design.coordinates.len().max(2) as f64 - 1.0,
        scatter: Scatter::default(),
    };
    // One zero is no more than one value is.
    let alternatives = if design.coordinates.len() > 1 { vec![zero] } else { Vec::new() };
    Found { function: Function::constant(0.0), alternatives, notes: notes_of(design), is_exact: false }
}

fn notes_of(design: &AutoDesign) -> Vec<Note> {
    design.parameters.iter().flat_map(|parameter| parameter.notes.clone()).collect()
}

fn search_scaled(design: &AutoDesign, summaries: &[Summary], measure: Measure) -> Option<Found> {
    let rank = |sample: &Sample, known: Option<&Ranking>| -> Option<Ranking> {
        match known {
            _ if design.parameters.len() == 1 => rank_one(design, sample, known.is_none()),
            None => structure::rank_many(design, sample),
            // Weights move a little, which functions are worth considering hardly at all.
            Some(known) => structure::rank_again(design, sample, known),
        }
    };
    let sizes: Vec<f64> = summaries.iter().map(|summary| summary.by(measure)).collect();
    let first = Sample::new(summaries, measure, &sizes);
    let ranking = rank(&first, None)?;
    // Once more, in full, with the fitted values for sizes: a point that came out low by chance must not weigh more for it.
    let chosen = &ranking.candidates[ranking.chosen];
    let fitted: Vec<f64> = {
        let function = chosen.form.function(design, &chosen.fit);
        design.coordinates.iter().map(|point| function.at(point)).collect()
    };
    let explained = lack_of_fit(&chosen.fit, &first) > LACK_OF_FIT;
    let (mut sample, mut ranking) = (first, ranking);
    if explained && fitted.iter().chain(&sizes).all(|size| *size > 0.0) {
        sample = Sample::new(summaries, measure, &fitted);
    }
    ranking = rank(&sample, Some(&ranking))?;
    let mut notes = notes_of(design);
    // Gaps that repetitions do not explain come from elsewhere (another placement, another day): then the gaps
    // themselves are the noise, and the repetitions say nothing about it. Likewise where the points keep to a function
    // far closer than their repetitions scatter: those are then parts of one run (threads with unlike shares), no noise.
    let chosen = &ranking.candidates[ranking.chosen];
    let too_close =
        || ranking.candidates.iter().any(|c| c.fit.n_columns == 2 && keeps_too_close(&c.fit, &sample));
    if sample.pure_dof > 0.0 && (lack_of_fit(&chosen.fit, &sample) < LACK_OF_FIT || too_close()) {
        let gap = chosen.fit.lack_ss / chosen.fit.ss.max(f64::MIN_POSITIVE);
        if let Some(again) =
            rank(&sample.clone().without_repetitions(), (design.parameters.len() == 1).then_some(&ranking))
            && gap > 0.0
        {
            sample = sample.without_repetitions();
            ranking = again;
            let function = {
                let chosen = &ranking.candidates[ranking.chosen];
                chosen.form.function(design, &chosen.fit)
            };
            let relative_gap = relative_gap(&function, design, &sample.y);
            if relative_gap > 0.05 {
                notes.push(Note::PoorFit { relative_gap });
            }
        }
    }
    if structure::sum_or_product(design, &ranking.candidates[ranking.chosen], &sample) {
        notes.push(Note::SumOrProduct);
    }
    // Of a quantity that does not change every point is as good as any other; weights by its size would favour
    // those that came out low.
    let mean = sizes.iter().sum::<f64>() / sizes.len() as f64;
    let mut level = Sample::new(summaries, measure, &vec![mean; sizes.len()]);
    if sample.pure_dof == 0.0 {
        level = level.without_repetitions();
    }
    if let (Some(fit), Some(flat)) = (
        constant(design, &level),
        ranking.candidates.iter_mut().find(|candidate| candidate.form == Form::CONSTANT),
    ) {
        flat.fit = fit.fit;
    }
    Some(finish(design, &sample, &level, ranking, notes))
}

/// Probability that chance alone makes gaps between points and function this large beside the repetitions' spread.
fn lack_of_fit(fit: &Fit, sample: &Sample) -> f64 {
    let dof = sample.y.len() as f64 - fit.n_free as f64;
    if dof < 1.0 || sample.pure_ss <= 0.0 {
        return 1.0;
    }
    let ratio = (fit.lack_ss / dof) / (sample.pure_ss / sample.pure_dof);
    f_tail(ratio, dof, sample.pure_dof)
}

/// Whether independent repetitions that scatter as these do would hardly ever have means this close to a function.
fn keeps_too_close(fit: &Fit, sample: &Sample) -> bool {
    let dof = sample.y.len() as f64 - fit.n_free as f64;
    if dof < 1.0 || sample.pure_ss <= 0.0 {
        return false;
    }
    let ratio = (fit.lack_ss / dof) / (sample.pure_ss / sample.pure_dof);
    1.0 - f_tail(ratio, dof, sample.pure_dof) < TOO_CLOSE
}

fn relative_gap(function: &Function, design: &AutoDesign, ys: &[f64]) -> f64 {
    let gaps: Vec<f64> = design
        .coordinates
        .iter()
        .zip(ys)
        .map(|(point, y)| (function.at(point) - y).abs() / y.abs().max(f64::MIN_POSITIVE))
        .collect();
    iotide_num::median(&gaps).unwrap_or(0.0)
}

/// All one-term functions of the one parameter, and two-term ones where the points can bear them; `rough`: the usual
/// one-term functions only.
fn rank_one(design: &AutoDesign, sample: &Sample, rough: bool) -> Option<Ranking> {
    let constant = constant(design, sample)?;
    let parameter = &design.parameters[0];
    let mut limit = Limit::new(sample.n() - 2.0);
    let mut candidate = |shape: usize, has_constant: bool| {
        let column = &parameter.columns[shape];
        let fit = if has_constant {
            Fit::within(&[&design.ones, column], sample, limit.most_ss())?
        } else {
            Fit::proportional(column, sample, limit.most_ss())?
        };
        if sample.non_negative && !fit.adds_up() {
            return None;
        }
        let alone = proportional(parameter.shapes[shape]);
        if !has_constant && alone == 0.0 {
            return None;
        }
        let share = if has_constant { 1.0 - alone } else { alone };
        let log_weight = fit.log_evidence + parameter.log_priors[shape] + share.ln();
        limit.admits(fit.ss, log_weight).then(|| Candidate { form: Form::one(0, shape), fit, log_weight })
    };
    let n_tried = if rough { parameter.n_usual } else { parameter.first_finest };
    let mut terms: Vec<Candidate> = (0..n_tried).filter_map(|shape| candidate(shape, true)).collect();
    if !rough {
        refine(&mut terms, parameter, |shape| candidate(shape, true));
    }
    let least_ss = terms.iter().map(|candidate| candidate.fit.ss).fold(f64::INFINITY, f64::min);
    terms.extend((0..n_tried).filter_map(|shape| candidate(shape, false)));
    terms.sort_by(|a, b| b.log_weight.total_cmp(&a.log_weight));
    let grows = is_growth(
        &constant.fit,
        least_ss,
        &parameter.curves,
        &parameter.columns,
        sample,
        false_growth(sample),
    );
    let mut pairs =
        if grows && !rough && parameter.n_values >= 6 { rank_pairs(design, sample) } else { Vec::new() };
    let mut candidates = vec![constant];
    let mut chosen = usize::from(grows);
    if let Some(pair) = pairs.first()
        && needs_two(pair, &terms, parameter.paired.len())
    {
        chosen = 1 + terms.len();
    }
    candidates.extend(terms);
    candidates.append(&mut pairs);
    Some(Ranking { candidates, chosen })
}

/// How much of the belief in a shape goes to functions without a constant. What falls ends at one: no cost goes on to nought.
fn proportional(shape: Shape) -> f64 {
    let power = shape.power.value();
    match power {
        _ if power < 0.0 => 0.0,
        _ if power > 0.0 && power.fract() == 0.0 && shape.log.is_zero() => PROPORTIONAL,
        _ => PROPORTIONAL_TO_ODD,
    }
}

/// Limit below which a function is too improbable beside the best seen so far to win or to be listed.
struct Limit {
    /// A sum of squares this many times the least is [`Limit::HOPELESS`] less probable.
    times_least: f64,
    least_ss: f64,
    best: f64,
}

impl Limit {
    /// In natural logarithms, with room for what tells functions apart besides the sum of squares.
    const HOPELESS: f64 = 20.0;
    const IMPROBABLE: f64 = 12.0;

    fn new(dof: f64) -> Self {
        let times_least = (2.0 * Self::HOPELESS / dof.max(0.1)).exp();
        Self { times_least, least_ss: f64::INFINITY, best: f64::NEG_INFINITY }
    }

    fn most_ss(&self) -> f64 {
        self.least_ss * self.times_least
    }

    /// Takes note of a function that may be had, and says whether it is worth keeping.
    fn admits(&mut self, ss: f64, log_weight: f64) -> bool {
        self.least_ss = self.least_ss.min(ss);
        self.best = self.best.max(log_weight);
        log_weight > self.best - Self::IMPROBABLE
    }
}

/// Adds the finest steps around the best power; coarser steps there hand on their share of the belief.
fn refine(
    terms: &mut Vec<Candidate>,
    parameter: &ParameterColumns,
    mut candidate: impl FnMut(usize) -> Option<Candidate>,
) {
    let shape_of = |candidate: &Candidate| parameter.shapes[candidate.form.terms[0][0].1];
    let powers = terms.iter().filter(|candidate| shape_of(candidate).log.is_zero());
    let Some(best) = powers.max_by(|a, b| a.fit.log_evidence.total_cmp(&b.fit.log_evidence)) else { return };
    let centre = shape_of(best).power.value();
    let near =
        |shape: Shape| shape.log.is_zero() && (shape.power.value() - centre).abs() < 1.2 / FINE_STEPS as f64;
    let handed_on = (FINEST_STEPS as f64 / FINE_STEPS as f64).ln();
    for term in terms.iter_mut() {
        let shape = term.form.terms[0][0].1;
        if shape >= parameter.n_usual && near(parameter.shapes[shape]) {
            term.log_weight -= handed_on;
        }
    }
    for shape in
        (parameter.first_finest..parameter.shapes.len()).filter(|shape| near(parameter.shapes[*shape]))
    {
        terms.extend(candidate(shape).map(|c| Candidate { log_weight: c.log_weight - handed_on, ..c }));
    }
}

fn constant(design: &AutoDesign, sample: &Sample) -> Option<Candidate> {
    let columns: [&[f64]; 1] = [&design.ones];
    // One observation: its value, with nothing to judge it by.
    let fit = Fit::new(&columns, sample).or_else(|| Fit::new(&columns, &sample.with_one_more()))?;
    Some(Candidate { log_weight: fit.log_evidence, form: Form::CONSTANT, fit })
}

/// How often data that are constant may be taken for growing, given how widely the points lie apart.
///
/// Where repetitions tell the noise, [`FALSE_GROWTH`]. Without them the noise could be anything, but measured costs of one
/// thing seldom scatter by more than [`USUAL_SCATTER`] of their size: to call points constant that lie many times that
/// apart would be to believe in a noise nobody has seen.
fn false_growth(sample: &Sample) -> f64 {
    (FALSE_GROWTH * unusual_scatter(sample)).min(MOST_FALSE_GROWTH)
}

/// How many times less readily a constant is believed because of the noise it would take: once where the repetitions tell
/// the noise or the points lie close together.
fn unusual_scatter(sample: &Sample) -> f64 {
    if sample.pure_dof > 0.0 {
        return 1.0;
    }
    let n = sample.y.len() as f64;
    let mean = sample.y.iter().sum::<f64>() / n;
    let square = sample.y.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    let scatter = square.sqrt() / mean.abs().max(f64::MIN_POSITIVE);
    1.0 + (scatter / USUAL_SCATTER).powi(2)
}

/// Whether the best of all shapes explains the data better than constant data would let it by chance.
///
/// Shapes from gentle to steep, centred and scaled to length one, trace a curve on a sphere on which the direction of
/// pure noise lies anywhere with equal chance. How often it comes this close to the curve is the volume of a tube
/// (Hotelling, 1939; Johansen & Johnstone, 1990): its length times its cross-section, and a cap at the ends.
fn is_growth(
    constant: &Fit,
    least_ss: f64,
    curves: &[Vec<usize>; 2],
    columns: &[Vec<f64>],
    sample: &Sample,
    may_be_false: f64,
) -> bool {
    let dimensions = sample.n() - 1.0;
    if least_ss >= constant.ss || dimensions < 2.0 {
        return false;
    }
    let unexplained = (least_ss / constant.ss).clamp(0.0, 1.0);
    let n_curves = curves.iter().filter(|curve| !curve.is_empty()).count() as f64;
    let caps = n_curves * 0.5 * incomplete_beta(unexplained, (dimensions - 1.0) / 2.0, 0.5);
    let cross_section = unexplained.powf((dimensions - 2.0) / 2.0) / std::f64::consts::TAU;
    // Neighbours are at most half a turn apart; mostly that settles it, and the length need not be known.
    let n_steps: usize = curves.iter().map(|curve| curve.len().saturating_sub(1)).sum();
    if caps >= may_be_false {
        return false;
    }
    if caps + cross_section * std::f64::consts::PI * n_steps as f64 <= may_be_false {
        return true;
    }
    let length: f64 = curves.iter().map(|curve| length_of(curve, columns, sample)).sum();
    caps + cross_section * length < may_be_false
}

/// Length of the curve that shapes trace on the sphere of directions.
fn length_of(curve: &[usize], columns: &[Vec<f64>], sample: &Sample) -> f64 {
    let total: f64 = sample.weight.iter().sum();
    let roots: Vec<f64> = sample.weight.iter().map(|weight| weight.sqrt()).collect();
    let mut length = 0.0;
    let mut before: Vec<f64> = Vec::new();
    let mut direction: Vec<f64> = Vec::new();
    for column in curve.iter().map(|shape| &columns[*shape]) {
        let centre = column.iter().zip(&sample.weight).map(|(t, w)| t * w).sum::<f64>() / total;
        direction.clear();
        direction.extend(column.iter().zip(&roots).map(|(t, root)| (t - centre) * root));
        let size = direction.iter().map(|a| a * a).sum::<f64>().sqrt();
        if size > 0.0 {
            direction.iter_mut().for_each(|a| *a /= size);
            if !before.is_empty() {
                let cosine = before.iter().zip(&direction).map(|(a, b)| a * b).sum::<f64>();
                length += cosine.clamp(-1.0, 1.0).acos();
            }
            std::mem::swap(&mut before, &mut direction);
        }
    }
    length
}

/// All functions of two terms, the best first.
fn rank_pairs(design: &AutoDesign, sample: &Sample) -> Vec<Candidate> {
    let paired = &design.parameters[0].paired;
    let n_pairs = paired.len() * paired.len().saturating_sub(1) / 2;
    let columns = &design.parameters[0].columns;
    let mut limit = Limit::new(sample.n() - 3.0);
    let pairs = paired.iter().enumerate().flat_map(|(i, a)| paired[i + 1..].iter().map(move |b| (*a, *b)));
    let mut candidates: Vec<Candidate> = pairs
        .filter_map(|(a, b)| {
            let columns: [&[f64]; 3] = [&design.ones, &columns[a], &columns[b]];
            let fit = Fit::within(&columns, sample, limit.most_ss()).filter(Fit::adds_up)?;
            let log_weight = fit.log_evidence - (n_pairs as f64).ln();
            let form = || Form { terms: vec![vec![(0, a)], vec![(0, b)]] };
            limit.admits(fit.ss, log_weight).then(|| Candidate { form: form(), fit, log_weight })
        })
        .collect();
    candidates.sort_by(|a, b| b.log_weight.total_cmp(&a.log_weight));
    candidates
}

/// Whether the best pair explains what no single term does.
fn needs_two(pair: &Candidate, singles: &[Candidate], n_paired: usize) -> bool {
    let single_ss = singles.iter().map(|candidate| candidate.fit.ss).fold(f64::INFINITY, f64::min);
    let gain = (single_ss - pair.fit.ss) / pair.fit.phi();
    // As many shapes again to choose from as for the first term; neighbours among them are much alike.
    let chance = f_tail(gain.max(0.0), 1.0, pair.fit.dof) * n_paired as f64;
    chance < 0.01 && singles.first().is_some_and(|single| pair.log_weight > single.log_weight)
}

/// `P(F > f)` with `a` and `b` degrees of freedom.
fn f_tail(f: f64, a: f64, b: f64) -> f64 {
    incomplete_beta(b / (b + a * f), b / 2.0, a / 2.0)
}

/// Turns candidates into a function and its alternatives.
fn finish(
    design: &AutoDesign,
    sample: &Sample,
    level: &Sample,
    ranking: Ranking,
    mut notes: Vec<Note>,
) -> Found {
    let Ranking { candidates, chosen } = ranking;
    let top = candidates.iter().map(|candidate| candidate.log_weight).fold(f64::NEG_INFINITY, f64::max);
    let mut weights: Vec<f64> = candidates
        .iter()
        .map(|candidate| {
            let odds = if candidate.form == Form::CONSTANT { 1.0 / unusual_scatter(sample) } else { 1.0 };
            (candidate.log_weight - top).exp() * design.say_in_interval(&candidate.form) * odds
        })
        .collect();
    if notes.contains(&Note::SumOrProduct) {
        structure::share_evenly(&candidates, &mut weights);
    }
    let total: f64 = weights.iter().sum();
    let mut alternatives: Vec<Alternative> = candidates
        .iter()
        .zip(&weights)
        .enumerate()
        .filter(|(index, (_, weight))| *index == chosen || **weight > NEGLIGIBLE * total)
        .map(|(_, (candidate, weight))| {
            let noise = if candidate.form == Form::CONSTANT { level } else { sample };
            Alternative {
                probability: weight / total,
                function: candidate.form.function(design, &candidate.fit),
                covariance: covariance(&candidate.fit),
                dof: candidate.fit.dof,
                scatter: Scatter {
                    variance: candidate.fit.phi() * noise.unit_variance,
                    exponent: noise.theta,
                    drift: if noise.pure_dof > 0.0 { DRIFT_REPEATED } else { DRIFT },
                },
            }
        })
        .collect();
    alternatives.sort_by(|a, b| b.probability.total_cmp(&a.probability));
    let best = &candidates[chosen];
    let probability = weights[chosen] / total;
    if probability < 0.5 {
        notes.push(Note::Ambiguous { probability });
    }
    let mut function = best.form.function(design, &best.fit);
    if sample.non_negative && !function.is_constant() && function.constant < 0.0 {
        // A constant part that noise made slightly negative is no part at all.
        let error = (best.fit.phi() * best.fit.inverse[0][0]).sqrt();
        if function.constant > -2.0 * error && function.terms.len() == 1 {
            let term = Term { coefficient: 1.0, factors: function.terms[0].factors.clone() };
            let column: Vec<f64> = design.coordinates.iter().map(|point| term.at(point)).collect();
            let weighted = |other: &[f64]| -> f64 {
                column.iter().zip(other).zip(&sample.variance).map(|((t, y), v)| t * y / v).sum()
            };
            function.constant = 0.0;
            function.terms[0].coefficient = weighted(&sample.y) / weighted(&column);
        }
    }
    let is_exact = best.fit.lack_ss <= sample.floor_ss && sample.pure_dof == 0.0;
    let most_values = design.parameters.iter().map(|parameter| parameter.n_values).max().unwrap_or(0);
    if sample.n() < 2.0 || most_values == 2 {
        // One observation tells no spread, and two sizes no shape: any function goes through both.
        alternatives.clear();
        notes.retain(|note| !matches!(note, Note::Ambiguous { .. }));
    }
    Found { function, alternatives, notes, is_exact }
}

fn to_twelve_digits(x: f64) -> f64 {
    format!("{x:.11e}").parse().unwrap_or(x)
}

fn covariance(fit: &Fit) -> Vec<Vec<f64>> {
    let phi = fit.phi();
    (0..fit.n_columns).map(|i| (0..fit.n_columns).map(|j| phi * fit.inverse[i][j]).collect()).collect()
}
