//! A target's figures from a ladder: how many requests of which size it did with how many of them in flight.
//!
//! With `n` requests going round, a target is two queues one after the other, which have a product form: it does `G(n−1)/G(n)` requests a second, `G`
//! being the sum over all ways to divide them. The figures are those under which the counts are likeliest (Poisson), their errors come from the
//! curvature there, widened by how far counts lie from the fit.

use serde_json::Value;

use super::description::{System, Target, TargetErrors};
use crate::fields::{Bound, Fields, WorkloadError, fault};

/// Servers that are tried.
const SERVERS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
/// More than this in flight is a mistake rather than a measurement.
const MOST_IN_FLIGHT: u64 = 65_536;
/// As above.
const MOST_CELLS: usize = 10_000;
/// Worse known than by this (of a logarithm), a figure is not known.
const UNKNOWN: f64 = 0.5;
/// Rounds of the fit.
const MOST_ROUNDS: usize = 200;

/// Counts with a given number of requests in flight.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "schema", derive(serde::Serialize))]
pub struct Cell {
    /// Requests in flight.
    pub n: u64,
    /// Size of each.
    pub request_bytes: f64,
    /// For how long.
    pub seconds: f64,
    /// How many were done.
    pub completions: f64,
}

/// A ladder.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Ladder {
    /// Its rungs.
    pub cells: Vec<Cell>,
}

/// Why nothing is fitted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CellError {
    /// Too little is known.
    #[error("{0} cells say too little: three of different n or size are the least")]
    TooFew(usize),
    /// Nothing was done.
    #[error("no request was done in any cell")]
    Nothing,
}

impl Ladder {
    /// Reads `{"cells": [{"n", "request_bytes", "seconds", "completions"}]}`.
    pub fn from_json(text: &str) -> Result<Self, WorkloadError> {
        let value: Value =
            serde_json::from_str(text).map_err(|error| fault("", format!("is not JSON: {error}")))?;
        let fields = Fields::of(
            "",
            &value,
            &["schema", "command", "directory", "file_system", "how", "cells", "losses", "storage"],
        )?;
        let mut cells = Vec::new();
        for (i, value) in fields.list("cells", MOST_CELLS)?.iter().enumerate() {
            let place = format!("cells[{i}]");
            let fields = Fields::of(&place, value, &["n", "request_bytes", "seconds", "completions"])?;
            let needed = |name: &str, bound| fields.number(name, bound)?.ok_or_else(|| fields.missing(name));
            let n = fields.count("n")?.ok_or_else(|| fields.missing("n"))?;
            if n > MOST_IN_FLIGHT {
                return Err(fault(&fields.at("n"), format!("is {n}, more than {MOST_IN_FLIGHT}")));
            }
            cells.push(Cell {
                n,
                request_bytes: needed("request_bytes", Bound::NotNegative)?,
                seconds: needed("seconds", Bound::Positive)?,
                completions: needed("completions", Bound::NotNegative)?,
            });
        }
        if cells.is_empty() {
            return Err(fault("cells", "is empty"));
        }
        Ok(Self { cells })
    }
}

/// A target as a ladder shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// Its figures, with errors. One that is not known is what it is at least.
    pub target: Target,
    /// Figures that are known only to be at least that: by name.
    pub at_least: Vec<&'static str>,
    /// How far counts lie from the fit, beyond chance: 1 is not at all.
    pub spread: f64,
}

/// Capabilities of a storage, as a file states them.
#[derive(Clone, Debug, PartialEq)]
pub struct Storage {
    /// Its targets.
    pub targets: Vec<Target>,
    /// Figures that are known only to be at least that: by name.
    pub at_least: Vec<String>,
}

/// Why nothing is known of a storage.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The file is wrong.
    #[error(transparent)]
    Description(#[from] WorkloadError),
    /// The ladder says too little.
    #[error(transparent)]
    Cells(#[from] CellError),
}

impl Storage {
    /// Reads a ladder, or the storage of a system that `iotide templates` wrote.
    pub fn from_json(text: &str) -> Result<Self, StorageError> {
        let value: Value =
            serde_json::from_str(text).map_err(|error| fault("", format!("is not JSON: {error}")))?;
        if value.get("templates").is_some() {
            let names = value["storage"]["at_least"].as_array().map_or(&[][..], Vec::as_slice);
            let at_least = names.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            return Ok(Self { targets: System::from_json(text)?.targets, at_least });
        }
        Ok(fit_storage(&Ladder::from_json(text)?)?.into())
    }
}

impl From<Fitted> for Storage {
    fn from(fitted: Fitted) -> Self {
        let at_least = fitted.at_least.into_iter().map(str::to_owned).collect();
        Self { targets: vec![fitted.target], at_least }
    }
}

/// ln of what a target does per second with `n` requests of a size going round: operations, then bytes.
fn ln_rate(n: u64, request_bytes: f64, servers: u32, figures: [f64; 3], scratch: &mut [Vec<f64>; 2]) -> f64 {
    let [ln_iops, ln_stream, ln_bandwidth] = figures;
    let ln_server = ln_iops - f64::from(servers).ln();
    let n = n as usize;
    for weights in scratch.iter_mut() {
        weights.clear();
        weights.push(0.0);
    }
    let [ops, moves] = scratch;
    for k in 1..=n {
        let ln_op = ln_server + (k.min(servers as usize) as f64).ln();
        ops.push(ops[k - 1] - ln_op);
        let ln_move = (ln_stream + (k as f64).ln()).min(ln_bandwidth) - request_bytes.ln();
        // What has no bytes moves none.
        moves.push(if request_bytes > 0.0 { moves[k - 1] - ln_move } else { f64::NEG_INFINITY });
    }
    let ln_sum = |n: usize| {
        let most = (0..=n).map(|k| ops[k] + moves[n - k]).fold(f64::NEG_INFINITY, f64::max);
        most + (0..=n).map(|k| (ops[k] + moves[n - k] - most).exp()).sum::<f64>().ln()
    };
    ln_sum(n - 1) - ln_sum(n)
}

/// Requests per second that a target does with `n` requests of a size going round.
pub fn requests_per_s(target: &Target, n: u64, request_bytes: f64) -> f64 {
    let ln = |value: Option<f64>| value.map_or(700.0, f64::ln);
    let figures = [ln(target.iops), ln(target.stream_bps), ln(target.bandwidth_bps)];
    ln_rate(n.max(1), request_bytes, target.servers, figures, &mut Default::default()).exp()
}

/// The figures under which a ladder is likeliest.
pub fn fit_storage(ladder: &Ladder) -> Result<Fitted, CellError> {
    let cells: Vec<Cell> = ladder.cells.iter().copied().filter(|cell| cell.seconds > 0.0).collect();
    if cells.len() < 3 {
        return Err(CellError::TooFew(cells.len()));
    }
    let per_s = |cell: &Cell| cell.completions / cell.seconds;
    let iops = cells.iter().map(per_s).fold(0.0, f64::max);
    if iops == 0.0 {
        return Err(CellError::Nothing);
    }
    let bandwidth_bps = cells.iter().map(|cell| per_s(cell) * cell.request_bytes).fold(0.0, f64::max);
    let stream_bps =
        cells.iter().map(|cell| per_s(cell) * cell.request_bytes / cell.n as f64).fold(0.0, f64::max);
    let has_bytes = bandwidth_bps > 0.0;
    let least = [iops, stream_bps, bandwidth_bps];
    let mut best: Option<(u32, Point)> = None;
    for servers in SERVERS {
        for faster in [1.1, 3.0] {
            let start = [
                (iops * 1.05).ln(),
                if has_bytes { (stream_bps * faster).ln() } else { 0.0 },
                if has_bytes { (bandwidth_bps * 1.05).ln() } else { 0.0 },
            ];
            let point = climb(&cells, servers, start, has_bytes);
            // A later one of as many servers or more has to be better, not as good.
            if best.as_ref().is_none_or(|(_, known)| point.ln_likelihood > known.ln_likelihood + 1e-6) {
                best = Some((servers, point));
            }
        }
    }
    let (servers, point) = best.unwrap_or((1, climb(&cells, 1, [iops.ln(), 0.0, 0.0], has_bytes)));
    Ok(described(servers, &point, least, has_bytes, &cells))
}

/// A place on the way up.
#[derive(Clone, Debug)]
struct Point {
    figures: [f64; 3],
    ln_likelihood: f64,
    /// Curvature of the likelihood.
    curvature: [[f64; 3]; 3],
    /// Sum of squared distances in units of what chance explains.
    pearson: f64,
}

fn look(cells: &[Cell], servers: u32, figures: [f64; 3], has_bytes: bool) -> (Point, [f64; 3]) {
    const STEP: f64 = 1e-4;
    let mut scratch = Default::default();
    let mut point = Point { figures, ln_likelihood: 0.0, curvature: [[0.0; 3]; 3], pearson: 0.0 };
    let mut slope = [0.0; 3];
    let n_figures = if has_bytes { 3 } else { 1 };
    for cell in cells {
        let mut ln_rate =
            |figures: [f64; 3]| ln_rate(cell.n, cell.request_bytes, servers, figures, &mut scratch);
        let ln_expected = ln_rate(figures) + cell.seconds.ln();
        let expected = ln_expected.exp();
        point.ln_likelihood += cell.completions * ln_expected - expected;
        point.pearson += (cell.completions - expected).powi(2) / expected.max(1e-9);
        let mut slopes = [0.0; 3];
        for (i, own) in slopes.iter_mut().enumerate().take(n_figures) {
            let (mut up, mut down) = (figures, figures);
            up[i] += STEP;
            down[i] -= STEP;
            *own = (ln_rate(up) - ln_rate(down)) / (2.0 * STEP);
        }
        for i in 0..3 {
            slope[i] += slopes[i] * (cell.completions - expected);
            for j in 0..3 {
                point.curvature[i][j] += slopes[i] * slopes[j] * expected;
            }
        }
    }
    (point, slope)
}

/// Goes uphill from a start (Levenberg & Marquardt).
fn climb(cells: &[Cell], servers: u32, start: [f64; 3], has_bytes: bool) -> Point {
    let (mut point, mut slope) = look(cells, servers, start, has_bytes);
    let mut damping = 1e-3;
    for _ in 0..MOST_ROUNDS {
        let mut matrix = point.curvature;
        for (i, row) in matrix.iter_mut().enumerate() {
            row[i] = row[i] * (1.0 + damping) + 1e-9;
        }
        let Some(inverse) = inverted(matrix) else { break };
        let mut next = point.figures;
        let mut longest = 0.0f64;
        for (i, figure) in next.iter_mut().enumerate() {
            let step: f64 = (0..3).map(|j| inverse[i][j] * slope[j]).sum();
            let step = step.clamp(-1.0, 1.0);
            longest = longest.max(step.abs());
            *figure = (*figure + step).clamp(-50.0, 100.0);
        }
        let (tried, tried_slope) = look(cells, servers, next, has_bytes);
        if tried.ln_likelihood >= point.ln_likelihood {
            (point, slope) = (tried, tried_slope);
            damping = (damping / 5.0).max(1e-9);
            if longest < 1e-9 {
                break;
            }
        } else {
            damping *= 4.0;
            if damping > 1e12 {
                break;
            }
        }
    }
    point
}

fn described(servers: u32, point: &Point, least: [f64; 3], has_bytes: bool, cells: &[Cell]) -> Fitted {
    let n_figures = if has_bytes { 3 } else { 1 };
    let freedom = (cells.len() as f64 - n_figures as f64 - 1.0).max(1.0);
    let spread = (point.pearson / freedom).max(1.0);
    let mut matrix = point.curvature;
    for (i, row) in matrix.iter_mut().enumerate() {
        // What nothing is known of is not known, and spoils nothing else.
        row[i] += 1e-6;
    }
    let inverse = inverted(matrix).unwrap_or([[f64::INFINITY; 3]; 3]);
    let mut at_least = Vec::new();
    let mut figure = |i: usize, name: &'static str| {
        let error = (inverse[i][i].max(0.0) * spread).sqrt();
        if error.is_finite() && error < UNKNOWN {
            (point.figures[i].exp(), error)
        } else {
            at_least.push(name);
            (least[i], 0.0)
        }
    };
    let (mut iops, iops_error) = figure(0, "iops");
    let ((stream_bps, stream_error), (bandwidth_bps, bandwidth_error)) = if has_bytes {
        (figure(1, "stream_bps"), figure(2, "bandwidth_bps"))
    } else {
        ((0.0, 0.0), (0.0, 0.0))
    };
    if at_least.contains(&"iops") {
        iops = iops.max(fewest_iops(cells, servers, point, iops, spread, has_bytes));
    }
    // With one request at a time, what one stream gets is seen and what all get is not; the fit cannot tell them apart.
    let (stream_bps, stream_error, bandwidth_bps, bandwidth_error) =
        if has_bytes && cells.iter().all(|cell| cell.n == 1) {
            at_least.retain(|name| *name == "iops");
            at_least.push("bandwidth_bps");
            (stream_bps.max(bandwidth_bps), stream_error.max(bandwidth_error), least[2], 0.0)
        } else {
            (stream_bps, stream_error, bandwidth_bps, bandwidth_error)
        };
    Fitted {
        target: Target {
            iops: Some(iops),
            servers,
            bandwidth_bps: has_bytes.then_some(bandwidth_bps),
            stream_bps: has_bytes.then_some(stream_bps),
            errors: TargetErrors {
                iops: iops_error,
                bandwidth_bps: bandwidth_error,
                stream_bps: stream_error,
            },
        },
        at_least,
        spread,
    }
}

/// So many operations per second at least leave requests as fast as they were measured, as far as chance tells; with as few as were seen, each would take its time twice,
/// once as an operation and once for its bytes.
fn fewest_iops(cells: &[Cell], servers: u32, point: &Point, seen: f64, spread: f64, has_bytes: bool) -> f64 {
    /// The likelihood falls so far at two standard deviations.
    const FALL: f64 = 2.0;
    let [likeliest, stream, bandwidth] = point.figures;
    let (mut too_few, mut enough) = (seen.ln(), likeliest);
    for _ in 0..60 {
        let tried = 0.5 * (too_few + enough);
        let (there, _) = look(cells, servers, [tried, stream, bandwidth], has_bytes);
        if there.ln_likelihood >= point.ln_likelihood - FALL * spread {
            enough = tried;
        } else {
            too_few = tried;
        }
    }
    enough.exp()
}

/// The inverse of a matrix, by cofactors.
fn inverted(m: [[f64; 3]; 3]) -> Option<[[f64; 3]; 3]> {
    let minor = |r: usize, c: usize| {
        let (r0, r1) = ((r + 1) % 3, (r + 2) % 3);
        let (c0, c1) = ((c + 1) % 3, (c + 2) % 3);
        m[r0][c0] * m[r1][c1] - m[r0][c1] * m[r1][c0]
    };
    let determinant: f64 = (0..3).map(|c| m[0][c] * minor(0, c)).sum();
    let is_regular = determinant.is_finite() && determinant != 0.0;
    let inverse = std::array::from_fn(|i| std::array::from_fn(|j| minor(j, i) / determinant));
    is_regular.then_some(inverse)
}
