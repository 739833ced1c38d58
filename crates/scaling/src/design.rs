//! Where was measured: what follows from the coordinates alone, computed once for all metrics that share them.

use std::collections::HashMap;

use crate::search::{Basis, ExtrapConfig, Lines};

/// The points of a series and the lines along each parameter.
#[derive(Debug)]
pub(crate) struct Design {
    pub(crate) coordinates: Vec<Vec<f64>>,
    /// One per parameter.
    pub(crate) lines: Vec<DesignLine>,
}

/// The points that stand for one parameter alone.
#[derive(Debug)]
pub(crate) struct DesignLine {
    /// Values of the parameter, in the order first seen.
    pub(crate) xs: Vec<f64>,
    /// For each value, the points that are averaged there, as indices.
    pub(crate) groups: Vec<Vec<usize>>,
    /// Shapes at the values.
    pub(crate) basis: Basis,
}

impl Design {
    pub(crate) fn new(coordinates: Vec<Vec<f64>>, config: &ExtrapConfig) -> Self {
        let n_parameters = coordinates.first().map_or(0, Vec::len);
        let lines = (0..n_parameters)
            .map(|parameter| {
                let groups = match (n_parameters, config.lines) {
                    (1, _) => coordinates.iter().enumerate().map(|(i, point)| (point[0], vec![i])).collect(),
                    (_, Lines::Longest) => longest_lines(&coordinates, parameter),
                    (_, Lines::Lowest) => lowest_line(&coordinates, parameter),
                };
                let (xs, groups): (Vec<f64>, Vec<Vec<usize>>) = groups.into_iter().unzip();
                let basis = Basis::of(config, &xs);
                DesignLine { xs, groups, basis }
            })
            .collect();
        Self { coordinates, lines }
    }
}

/// All lines along a parameter with the most points, regrouped by its value; only where they run side by side.
fn longest_lines(coordinates: &[Vec<f64>], parameter: usize) -> Vec<(f64, Vec<usize>)> {
    let others = |point: &[f64]| -> Vec<u64> {
        point.iter().enumerate().filter(|(p, _)| *p != parameter).map(|(_, x)| (x + 0.0).to_bits()).collect()
    };
    let mut lines: Vec<Vec<usize>> = Vec::new();
    let mut index: HashMap<Vec<u64>, usize> = HashMap::new();
    for (i, point) in coordinates.iter().enumerate() {
        let line = *index.entry(others(point)).or_insert_with(|| {
            lines.push(Vec::new());
            lines.len() - 1
        });
        lines[line].push(i);
    }
    let longest = lines.iter().map(Vec::len).max().unwrap_or(0);
    let mut groups: Vec<(f64, Vec<usize>)> = Vec::new();
    let mut index: HashMap<u64, usize> = HashMap::new();
    for i in lines.iter().filter(|line| line.len() == longest).flatten() {
        let x = coordinates[*i][parameter];
        let group = *index.entry((x + 0.0).to_bits()).or_insert_with(|| {
            groups.push((x, Vec::new()));
            groups.len() - 1
        });
        groups[group].1.push(*i);
    }
    if let Some((_, first)) = groups.first() {
        let common: Vec<Vec<u64>> = first.iter().map(|i| others(&coordinates[*i])).collect();
        for (_, group) in &mut groups[1..] {
            group.retain(|i| common.contains(&others(&coordinates[*i])));
        }
    }
    groups.retain(|(_, group)| !group.is_empty());
    groups
}

/// The line along a parameter at the lowest values of the others.
fn lowest_line(coordinates: &[Vec<f64>], parameter: usize) -> Vec<(f64, Vec<usize>)> {
    let mut lowest = vec![f64::INFINITY; coordinates.first().map_or(0, Vec::len)];
    let mut line = Vec::new();
    for (i, point) in coordinates.iter().enumerate() {
        let others =
            || point.iter().zip(&lowest).enumerate().filter(|(p, _)| *p != parameter).map(|(_, pair)| pair);
        if others().all(|(x, low)| x == low) {
            line.push((point[parameter], vec![i]));
        } else if others().all(|(x, low)| x <= low) {
            line = vec![(point[parameter], vec![i])];
            lowest.clone_from(point);
        }
    }
    line
}
