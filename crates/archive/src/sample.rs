//! A few runs of an archive, drawn by chance.

use std::path::Path;

use iotide_num::SplitMix64;
use iotide_pages::{SampledRun, sample_page};

use crate::{ArchiveError, for_each_run};

/// Returns the page on which a person reviews the labels of `n` runs of a folder of results, drawn by chance: the same results and the same
/// seed give the same runs.
pub fn sample(folder: &Path, n: usize, seed: u64) -> Result<String, ArchiveError> {
    let (lines, of) = drawn(folder, n, seed)?;
    let parse = |line: &String| {
        SampledRun::parse(line).map_err(|fault| ArchiveError::BadLine {
            path: folder.join("runs.jsonl").display().to_string(),
            fault,
        })
    };
    let runs = lines.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    Ok(sample_page(&runs, of, seed))
}

/// Every run is in the sample with the same chance (Vitter's algorithm R, 1985), in an order of chance; and how many there are.
fn drawn(folder: &Path, n: usize, seed: u64) -> Result<(Vec<String>, u64), ArchiveError> {
    let mut random = SplitMix64::new(seed);
    let (mut lines, mut of) = (Vec::new(), 0_u64);
    for_each_run(folder, |line| -> Result<(), ArchiveError> {
        of += 1;
        if lines.len() < n {
            lines.push(line.to_owned());
        } else {
            let place = random.below(of as usize);
            if place < n {
                lines[place] = line.to_owned();
            }
        }
        Ok(())
    })?;
    // The first ones would stand at their places: who reviews only the beginning must not judge only those.
    for i in (1..lines.len()).rev() {
        lines.swap(i, random.below(i + 1));
    }
    Ok((lines, of))
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_testkit::FreshDir;

    #[test]
    fn each_run_is_drawn_equally_often_and_a_seed_draws_the_same() {
        let dir = FreshDir::new("sample");
        let lines: String = (0..20).map(|i| format!("{{\"source\":{{\"path\":\"{i}\"}}}}\n")).collect();
        std::fs::write(dir.path().join("runs.jsonl"), lines).unwrap();
        let mut times = [0; 20];
        for seed in 0..2000 {
            let (lines, of) = drawn(dir.path(), 5, seed).unwrap();
            assert_eq!((lines.len(), of), (5, 20));
            for line in &lines {
                let path = line.split('"').nth(5).unwrap();
                times[path.parse::<usize>().unwrap()] += 1;
            }
        }
        // 500 each; four standard deviations are 78.
        assert!(times.iter().all(|n| (420..580).contains(n)), "{times:?}");
        assert_eq!(drawn(dir.path(), 5, 7).unwrap(), drawn(dir.path(), 5, 7).unwrap());
        assert_ne!(drawn(dir.path(), 5, 7).unwrap(), drawn(dir.path(), 5, 8).unwrap());
        assert_eq!(drawn(dir.path(), 50, 7).unwrap().0.len(), 20);
    }
}
