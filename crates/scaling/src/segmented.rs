//! One parameter with a change in behaviour: two models, one on each side, as Extra-P's segmented search finds them.

use crate::hypothesis::{Costs, Line, adjusted_r2, in_sample_costs};
use crate::search::{Basis, ExtrapConfig, search_basic};
use crate::term::{Factor, Function, Piecewise, Term};

/// How many consecutive points are modelled together to look for the change.
const WINDOW: usize = 5;

/// The model of a line that may change its behaviour once; `None` if it does not, or is too short to tell.
pub(crate) fn search_segmented(xs: &[f64], ys: &[f64], config: &ExtrapConfig) -> Option<(Function, Costs)> {
    if xs.len() < WINDOW {
        return None;
    }
    let mut order: Vec<usize> = (0..xs.len()).collect();
    order.sort_by(|a, b| xs[*a].total_cmp(&xs[*b]));
    let (xs, ys): (Vec<f64>, Vec<f64>) = order.iter().map(|index| (xs[*index], ys[*index])).unzip();
    let basis = Basis::of(config, &xs);
    let model = |range: std::ops::Range<usize>| {
        let line = Line::new(&xs[range.clone()], &ys[range.clone()]);
        search_basic(&line, &basis, range, config)
    };

    let n_windows = xs.len() - WINDOW + 1;
    let misfits: Vec<f64> =
        (0..n_windows).map(|start| model(start..start + WINDOW).costs.normalised_rss.abs()).collect();
    // How much worse a window is than the one before it.
    let jumps: Vec<f64> = std::iter::once(f64::NEG_INFINITY)
        .chain(misfits.windows(2).map(|pair| pair[1] / (pair[0] + 1e-16)))
        .collect();
    let changes = misfits.iter().all(|misfit| !misfit.is_nan()) && misfits.iter().any(|misfit| *misfit > 0.5)
        || jumps.iter().any(|jump| *jump > 4.0);
    if !changes {
        return None;
    }
    let marked: Vec<usize> =
        (0..n_windows).filter(|window| misfits[*window] >= 0.1 || jumps[*window] > 4.0).collect();
    let middle = marked[marked.len() / 2];
    let (last_of_lower, first_of_upper) = if marked.len() == WINDOW - 2 {
        // Just the windows around one point see both behaviours: it belongs to both.
        (middle + WINDOW / 2, middle + WINDOW / 2)
    } else {
        // The window before the first one counts as the last one, as in the original.
        let before = (middle + n_windows - 1) % n_windows;
        (before + WINDOW / 2, before + WINDOW / 2 + 1)
    };

    let pieces = Piecewise {
        parameter: 0,
        lower: model(0..last_of_lower + 1).function(),
        lower_end: xs[last_of_lower],
        upper: model(first_of_upper..xs.len()).function(),
        upper_start: xs[first_of_upper],
    };
    let term = Term { coefficient: 1.0, factors: vec![Factor::Piecewise(Box::new(pieces))] };
    let function = Function { constant: 0.0, terms: vec![term] };
    let mut costs = in_sample_costs(xs.iter().zip(&ys).map(|(x, y)| (function.at(&[*x]), *y)), xs.len());
    let constant_rss = Line::new(&xs, &ys).constant().costs.rss;
    costs.adjusted_r2 = adjusted_r2(costs.rss, constant_rss, xs.len(), 1);
    Some((function, costs))
}
