//! Several parameters: which of them matter, by which shapes, and whether their effects add up or multiply.

use std::collections::{BTreeMap, HashMap};

use super::evidence::{Fit, MAX_COLUMNS};
use super::noise::Sample;
use super::{AutoDesign, Candidate, Form, Limit, Ranking, constant, f_tail, false_growth};

/// How many shapes of each parameter go into the joint search.
const SHORTLIST: usize = 8;

/// Ranks functions of several parameters.
///
/// Along a line on which one parameter alone changes, every sum and product of shapes is `a + b · shape`; so each
/// parameter's likely shapes are found from its lines first, with `a` and `b` free on each line, and only those are
/// combined.
pub(super) fn rank_many(design: &AutoDesign, sample: &Sample) -> Option<Ranking> {
    let constant = constant(design, sample)?;
    let shortlists: Vec<Vec<usize>> =
        (0..design.parameters.len()).map(|parameter| shortlist(design, sample, parameter)).collect();
    let active: Vec<usize> = (0..shortlists.len()).filter(|p| !shortlists[*p].is_empty()).collect();
    let candidates = match active.as_slice() {
        [] => Vec::new(),
        [a] => singles(design, sample, *a, &shortlists[*a]),
        [a, b] => pairs(design, sample, (*a, &shortlists[*a]), (*b, &shortlists[*b])),
        _ => stepwise(design, sample, &active, &shortlists, &constant),
    };
    choose(candidates, constant, active.len(), sample)
}

/// Judges the best functions of an earlier ranking by a sample with other weights.
pub(super) fn rank_again(design: &AutoDesign, sample: &Sample, known: &Ranking) -> Option<Ranking> {
    let constant = constant(design, sample)?;
    let forms =
        known.candidates.iter().map(|candidate| &candidate.form).filter(|form| !form.terms.is_empty());
    let candidates = forms.take(64).filter_map(|form| candidate(form.clone(), design, sample)).collect();
    let n_active = design.parameters.iter().filter(|parameter| !parameter.shapes.is_empty()).count();
    choose(candidates, constant, n_active, sample)
}

/// The best candidate, unless constant data would look as good to it.
fn choose(
    mut candidates: Vec<Candidate>,
    constant: Candidate,
    n_active: usize,
    sample: &Sample,
) -> Option<Ranking> {
    candidates.sort_by(|a, b| b.log_weight.total_cmp(&a.log_weight));
    let mut chosen = 0;
    if let Some(best) = candidates.first() {
        let n_terms = best.form.terms.len() as f64;
        let gain = (constant.fit.ss - best.fit.ss) / n_terms / best.fit.phi();
        // Shapes of one parameter amount to about three directions that can be told apart.
        let n_tried = 3f64.powi(n_active as i32) * n_terms;
        if f_tail(gain.max(0.0), n_terms, best.fit.dof) * n_tried < false_growth(sample) {
            chosen = 1;
        }
    }
    candidates.insert(0, constant);
    Some(Ranking { candidates, chosen })
}

/// Shapes of one parameter that its lines bear out, the best first.
fn shortlist(design: &AutoDesign, sample: &Sample, parameter: usize) -> Vec<usize> {
    let columns = &design.parameters[parameter];
    let whole: Vec<usize> = (0..sample.y.len()).collect();
    let lines: Vec<&[usize]> = if columns.lines.is_empty() {
        vec![&whole]
    } else {
        columns.lines.iter().map(Vec::as_slice).collect()
    };
    // Powers between the usual ones would only crowd the list with neighbours.
    let mut scored: Vec<(f64, usize)> = (0..columns.n_usual)
        .filter_map(|shape| {
            let column = &columns.columns[shape];
            let (mut ss, mut slope) = (0.0, 0.0);
            for line in &lines {
                let (line_ss, line_slope) = straight_line(line, column, sample)?;
                ss += line_ss;
                slope += line_slope;
            }
            (slope > 0.0 || !sample.non_negative).then_some((ss, shape))
        })
        .collect();
    scored.sort_by(|a, b| a.0.total_cmp(&b.0));
    scored.truncate(SHORTLIST);
    scored.into_iter().map(|(_, shape)| shape).collect()
}

/// Returns the sum of squares that `a + b t` leaves on some points, and by how much of its size the line rises along `t`, in standard errors.
fn straight_line(line: &[usize], column: &[f64], sample: &Sample) -> Option<(f64, f64)> {
    let (mut w, mut wt, mut wy) = (0.0, 0.0, 0.0);
    for i in line {
        let weight = sample.weight[*i];
        w += weight;
        wt += weight * column[*i];
        wy += weight * sample.y[*i];
    }
    let (t_mean, y_mean) = (wt / w, wy / w);
    let (mut tt, mut ty, mut yy) = (0.0, 0.0, 0.0);
    for i in line {
        let weight = sample.weight[*i];
        let (t, y) = (column[*i] - t_mean, sample.y[*i] - y_mean);
        tt += weight * t * t;
        ty += weight * t * y;
        yy += weight * y * y;
    }
    (tt > 0.0).then(|| (yy - ty * ty / tt, ty / tt.sqrt()))
}

fn candidate(form: Form, design: &AutoDesign, sample: &Sample) -> Option<Candidate> {
    let fit = form.fit(design, sample, f64::INFINITY)?;
    (fit.adds_up() || !sample.non_negative).then_some(Candidate { log_weight: fit.log_evidence, form, fit })
}

/// The limit for functions of several parameters; the fewest degrees of freedom a search leaves make it the widest.
fn limit(sample: &Sample) -> Limit {
    Limit::new(sample.n() - MAX_COLUMNS as f64)
}

fn singles(design: &AutoDesign, sample: &Sample, parameter: usize, shapes: &[usize]) -> Vec<Candidate> {
    shapes.iter().filter_map(|shape| candidate(Form::one(parameter, *shape), design, sample)).collect()
}

/// All structures of two parameters over their shortlists.
fn pairs(design: &AutoDesign, sample: &Sample, a: (usize, &[usize]), b: (usize, &[usize])) -> Vec<Candidate> {
    let mut candidates = singles(design, sample, a.0, a.1);
    candidates.extend(singles(design, sample, b.0, b.1));
    let mut limit = limit(sample);
    for single in &candidates {
        limit.admits(single.fit.ss, single.log_weight);
    }
    for shape_a in a.1 {
        for shape_b in b.1 {
            let (x, y) = ((a.0, *shape_a), (b.0, *shape_b));
            let product = design.product(x.0, x.1, &[y]);
            let column = |of: Part| -> &[f64] {
                match of {
                    Part::First => &design.parameters[x.0].columns[x.1],
                    Part::Second => &design.parameters[y.0].columns[y.1],
                    Part::Both => &product,
                }
            };
            for parts in STRUCTURES_OF_TWO {
                let mut columns: [&[f64]; MAX_COLUMNS] = [&design.ones; MAX_COLUMNS];
                columns[1..].iter_mut().zip(*parts).for_each(|(to, part)| *to = column(*part));
                let used = &columns[..=parts.len()];
                let Some(fit) = Fit::within(used, sample, limit.most_ss()) else { continue };
                let mut log_weight = fit.log_evidence;
                if sample.non_negative && !fit.adds_up() {
                    if !starts_late(&fit, used, parts) {
                        continue;
                    }
                    log_weight += LATE_START.ln();
                }
                if limit.admits(fit.ss, log_weight) {
                    candidates.push(Candidate { form: form_of_two(parts, x, y), fit, log_weight });
                }
            }
        }
    }
    candidates
}

/// How readily a product is believed that sets in late, `y · (log x − 3)`, of a quantity that is never negative.
const LATE_START: f64 = 0.05;

/// Whether only a part of the product is taken away again and something is left at every point: then the value keeps
/// growing with both parameters, as the product does.
fn starts_late(fit: &Fit, columns: &[&[f64]], parts: &[Part]) -> bool {
    let beta = &fit.beta[..columns.len()];
    let [.., product] = beta else { return false };
    let is_product = matches!(parts, [_, Part::Both]);
    let value = |i: usize| beta.iter().zip(columns).map(|(beta, column)| beta * column[i]).sum::<f64>();
    is_product && *product > 0.0 && (0..columns[0].len()).all(|i| value(i) > 0.0)
}

/// Factor of a term of two parameters.
#[derive(Clone, Copy)]
enum Part {
    First,
    Second,
    Both,
}

/// Product, sum, and sums that hold the product.
const STRUCTURES_OF_TWO: &[&[Part]] = &[
    &[Part::Both],
    &[Part::First, Part::Second],
    &[Part::First, Part::Both],
    &[Part::Second, Part::Both],
    &[Part::First, Part::Second, Part::Both],
];

fn form_of_two(parts: &[Part], x: (usize, usize), y: (usize, usize)) -> Form {
    let term = |part: &Part| match part {
        Part::First => vec![x],
        Part::Second => vec![y],
        Part::Both => vec![x, y],
    };
    Form { terms: parts.iter().map(term).collect() }
}

/// Three parameters and more: terms join and leave one at a time, then shapes are reconsidered, as long as it helps.
fn stepwise(
    design: &AutoDesign,
    sample: &Sample,
    active: &[usize],
    shortlists: &[Vec<usize>],
    constant: &Candidate,
) -> Vec<Candidate> {
    let mut shapes: Vec<usize> = shortlists.iter().map(|list| list.first().copied().unwrap_or(0)).collect();
    let subsets: Vec<usize> = (1..1usize << active.len().min(16))
        .filter(|set| active.len() <= 4 || set.count_ones() <= 2 || set.count_ones() as usize == active.len())
        .collect();
    let form = |sets: &[usize], shapes: &[usize]| Form {
        terms: sets
            .iter()
            .map(|set| {
                let members = active.iter().enumerate().filter(|(bit, _)| set & (1 << bit) != 0);
                members.map(|(_, parameter)| (*parameter, shapes[*parameter])).collect()
            })
            .collect(),
    };
    let mut seen: Vec<Candidate> = Vec::new();
    let mut sets: Vec<usize> = Vec::new();
    let mut best = constant.fit.log_evidence;
    let mut limit = limit(sample);
    for _ in 0..8 {
        let before = best;
        // Each set's product with the shapes as they stand, at all points.
        let products: HashMap<usize, Vec<f64>> = subsets
            .iter()
            .filter_map(|set| {
                let form = form(&[*set], &shapes);
                let [(parameter, shape), others @ ..] = form.terms.first()?.as_slice() else { return None };
                Some((*set, design.product(*parameter, *shape, others)))
            })
            .collect();
        while let Some((fit, step)) =
            best_step(design, sample, one_step_away(&sets, &subsets), &products, &mut limit)
            && fit.log_evidence > best + 1e-9
        {
            best = fit.log_evidence;
            seen.push(Candidate { form: form(&step, &shapes), log_weight: best, fit });
            sets = step;
        }
        for parameter in active {
            for shape in &shortlists[*parameter] {
                if sets.is_empty() {
                    continue;
                }
                let mut tried = shapes.clone();
                tried[*parameter] = *shape;
                let tried_form = form(&sets, &tried);
                let found = tried_form.fit(design, sample, limit.most_ss());
                let found = found.filter(|fit| fit.adds_up() || !sample.non_negative);
                if let Some(fit) = found.filter(|fit| limit.admits(fit.ss, fit.log_evidence)) {
                    let log_weight = fit.log_evidence;
                    if log_weight > best + 1e-9 {
                        best = log_weight;
                        shapes = tried;
                    }
                    seen.push(Candidate { form: tried_form, fit, log_weight });
                }
            }
        }
        if best <= before + 1e-9 {
            break;
        }
    }
    seen.sort_by(|a, b| b.log_weight.total_cmp(&a.log_weight));
    seen.dedup_by(|a, b| a.form == b.form);
    seen
}

/// The one of these sets of terms that explains the sample best. `products` has the column of each term.
fn best_step(
    design: &AutoDesign,
    sample: &Sample,
    steps: Vec<Vec<usize>>,
    products: &HashMap<usize, Vec<f64>>,
    limit: &mut Limit,
) -> Option<(Fit, Vec<usize>)> {
    let fitted = steps.into_iter().filter_map(|step| {
        let mut columns: [&[f64]; MAX_COLUMNS] = [&design.ones; MAX_COLUMNS];
        columns[1..].iter_mut().zip(&step).for_each(|(to, set)| *to = &products[set]);
        let fit = Fit::within(&columns[..=step.len()], sample, limit.most_ss())?;
        let may_be = fit.adds_up() || !sample.non_negative;
        (may_be && limit.admits(fit.ss, fit.log_evidence)).then_some((fit, step))
    });
    fitted.max_by(|a, b| a.0.log_evidence.total_cmp(&b.0.log_evidence))
}

/// Every set of terms one step away from these: one more, one less, or one exchanged.
fn one_step_away(sets: &[usize], subsets: &[usize]) -> Vec<Vec<usize>> {
    let mut steps: Vec<Vec<usize>> = Vec::new();
    for set in subsets.iter().filter(|set| !sets.contains(set)) {
        if sets.len() + 1 < MAX_COLUMNS {
            steps.push([sets, &[*set]].concat());
        }
        for leaving in 0..sets.len() {
            let mut exchanged = sets.to_vec();
            exchanged[leaving] = *set;
            steps.push(exchanged);
        }
    }
    for leaving in 0..sets.len() {
        let mut fewer = sets.to_vec();
        fewer.remove(leaving);
        if !fewer.is_empty() {
            steps.push(fewer);
        }
    }
    steps
}

/// Whether another structure of the same shapes fits these points as well but says something else where both
/// parameters are large.
pub(super) fn sum_or_product(design: &AutoDesign, chosen: &Candidate, sample: &Sample) -> bool {
    let mut factors: Vec<(usize, usize)> = chosen.form.terms.concat();
    factors.sort_unstable();
    factors.dedup();
    let [x, y] = factors.as_slice() else { return false };
    let corner: Vec<f64> = (0..design.parameters.len())
        .map(|p| design.coordinates.iter().map(|point| point[p]).fold(f64::NEG_INFINITY, f64::max))
        .collect();
    let at_corner = |form: &Form, fit: &Fit| form.function(design, fit).at(&corner);
    let own = at_corner(&chosen.form, &chosen.fit);
    STRUCTURES_OF_TWO.iter().take(4).map(|parts| form_of_two(parts, *x, *y)).any(|form| {
        let Some(fit) = form.fit(design, sample, f64::INFINITY).filter(Fit::adds_up) else { return false };
        let other = at_corner(&form, &fit);
        fit.n_columns <= chosen.fit.n_columns.max(3)
            && fit.ss <= chosen.fit.ss + chosen.fit.phi()
            && (other - own).abs() > 0.2 * own.abs().max(other.abs())
    })
}

/// Gives every structure that the points do not refute the same share of the belief.
///
/// Where points cannot tell a sum from a product, the one with fewer terms is favoured for its brevity alone. That may decide
/// which function is shown, but not how sure one can be of it.
pub(super) fn share_evenly(candidates: &[Candidate], weights: &mut [f64]) {
    let structure = |candidate: &Candidate| -> Vec<Vec<usize>> {
        let of_term = |term: &Vec<(usize, usize)>| term.iter().map(|(parameter, _)| *parameter).collect();
        let mut terms: Vec<Vec<usize>> = candidate.form.terms.iter().map(of_term).collect();
        terms.sort();
        terms
    };
    let Some(best) = candidates.iter().map(|candidate| &candidate.fit).min_by(|a, b| a.ss.total_cmp(&b.ss))
    else {
        return;
    };
    // What a coefficient more or less explains by chance.
    let refuted_ss = best.ss + 4.0 * best.phi();
    let mut shares: BTreeMap<Vec<Vec<usize>>, (f64, f64)> = BTreeMap::new();
    for (candidate, weight) in candidates.iter().zip(&*weights) {
        let (share, least_ss) = shares.entry(structure(candidate)).or_insert((0.0, f64::INFINITY));
        *share += weight;
        *least_ss = least_ss.min(candidate.fit.ss);
    }
    shares.retain(|_, (share, least_ss)| *share > 0.0 && *least_ss <= refuted_ss);
    let largest = shares.values().map(|(share, _)| *share).fold(0.0, f64::max);
    for (candidate, weight) in candidates.iter().zip(weights) {
        if let Some((share, _)) = shares.get(&structure(candidate)) {
            *weight *= largest / share;
        }
    }
}
