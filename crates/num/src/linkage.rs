//! Hierarchical clustering by average linkage.

/// Merges two clusters at a height.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Merge {
    /// An element of the one.
    pub a: usize,
    /// An element of the other.
    pub b: usize,
    /// The mean distance between elements of the two.
    pub height: f64,
}

/// Returns all merges of `n` elements, the lowest first, given the distance of each two of them.
///
/// By chains of nearest neighbours (Murtagh, 1983): the square of `n` in time and memory.
pub fn average_linkage(n: usize, distance: impl Fn(usize, usize) -> f64) -> Vec<Merge> {
    let mut distances = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..i {
            let apart = distance(i, j);
            distances[i * n + j] = apart;
            distances[j * n + i] = apart;
        }
    }
    let mut sizes = vec![1.0; n];
    let mut is_there = vec![true; n];
    let mut chain: Vec<usize> = Vec::new();
    let mut merges = Vec::with_capacity(n.saturating_sub(1));
    while merges.len() + 1 < n {
        if chain.is_empty() {
            chain.extend(is_there.iter().position(|there| *there));
        }
        let Some(&tip) = chain.last() else { break };
        let before = chain.len().checked_sub(2).map(|i| chain[i]);
        // Of equally near ones, the one that we came from; else a chain could run in a circle.
        let mut nearest = before;
        for other in (0..n).filter(|other| *other != tip && is_there[*other]) {
            if nearest.is_none_or(|known| distances[tip * n + other] < distances[tip * n + known]) {
                nearest = Some(other);
            }
        }
        let Some(nearest) = nearest else { break };
        if before != Some(nearest) {
            chain.push(nearest);
            continue;
        }
        chain.truncate(chain.len() - 2);
        merges.push(Merge { a: nearest, b: tip, height: distances[tip * n + nearest] });
        is_there[nearest] = false;
        for other in (0..n).filter(|other| *other != tip && is_there[*other]) {
            let sum =
                sizes[tip] * distances[tip * n + other] + sizes[nearest] * distances[nearest * n + other];
            let mean = sum / (sizes[tip] + sizes[nearest]);
            distances[tip * n + other] = mean;
            distances[other * n + tip] = mean;
        }
        sizes[tip] += sizes[nearest];
    }
    merges.sort_by(|a, b| a.height.total_cmp(&b.height));
    merges
}

/// Returns the cluster of each of `n` elements if only merges below a height are made; numbered as they come.
pub fn clusters_below(n: usize, merges: &[Merge], height: f64) -> Vec<usize> {
    let mut parent: Vec<usize> = (0..n).collect();
    fn root(parent: &mut [usize], mut of: usize) -> usize {
        while parent[of] != of {
            parent[of] = parent[parent[of]];
            of = parent[of];
        }
        of
    }
    for merge in merges.iter().filter(|merge| merge.height < height) {
        let (a, b) = (root(&mut parent, merge.a), root(&mut parent, merge.b));
        parent[a.max(b)] = a.min(b);
    }
    let mut seen: Vec<usize> = Vec::new();
    (0..n)
        .map(|element| {
            let root = root(&mut parent, element);
            seen.iter().position(|known| *known == root).unwrap_or_else(|| {
                seen.push(root);
                seen.len() - 1
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SplitMix64;

    /// Straight from the definition: the two clusters that are nearest on average, again and again.
    fn by_definition(points: &[f64]) -> Vec<f64> {
        let mut clusters: Vec<Vec<f64>> = points.iter().map(|point| vec![*point]).collect();
        let mut heights = Vec::new();
        while clusters.len() > 1 {
            let mut best = (f64::INFINITY, 0, 0);
            for i in 0..clusters.len() {
                for j in 0..i {
                    let sum: f64 =
                        clusters[i].iter().flat_map(|a| clusters[j].iter().map(move |b| (a - b).abs())).sum();
                    let mean = sum / (clusters[i].len() * clusters[j].len()) as f64;
                    if mean < best.0 {
                        best = (mean, i, j);
                    }
                }
            }
            let merged = clusters.swap_remove(best.1);
            clusters[best.2].extend(merged);
            heights.push(best.0);
        }
        heights
    }

    #[test]
    fn merges_are_those_of_the_definition() {
        for seed in 0..20 {
            let mut random = SplitMix64::new(seed);
            let points: Vec<f64> = (0..2 + random.below(20)).map(|_| random.unit()).collect();
            let merges = average_linkage(points.len(), |i, j| (points[i] - points[j]).abs());
            let expected = by_definition(&points);
            assert_eq!(merges.len(), expected.len());
            for (merge, height) in merges.iter().zip(expected) {
                assert!((merge.height - height).abs() < 1e-12, "{merge:?} {height}");
            }
        }
    }

    #[test]
    fn what_lies_together_is_one_cluster() {
        let points = [5.0f64, 0.0, 0.1, 5.1, 9.0, 0.05];
        let merges = average_linkage(points.len(), |i, j| (points[i] - points[j]).abs());
        assert_eq!(clusters_below(points.len(), &merges, 1.0), [0, 1, 1, 0, 2, 1]);
        assert_eq!(clusters_below(points.len(), &merges, 100.0), [0; 6]);
        assert!(average_linkage(0, |_, _| 0.0).is_empty() && average_linkage(1, |_, _| 0.0).is_empty());
    }
}
