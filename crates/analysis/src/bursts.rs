//! A run as compute, burst, compute, burst: how long, how much, how regular.

use iotide_num::{coefficient_of_variation, mean, median};

use crate::Phase;

/// A bin that holds less than this share of what a typical busy bin holds is no part of a burst by itself.
const SUBSTANTIAL: f64 = 0.1;
/// A hole in a burst is shorter than this share of the usual time between bursts.
const HOLE: f64 = 0.1;
/// Fewer whole bursts than this say little.
const LEAST_BURSTS: usize = 3;
/// A run that is busy for this share of its time has no bursts.
const STEADY: f64 = 0.9;

/// A figure and how well it is known: the standard deviation of its logarithm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Known {
    /// The figure.
    pub value: f64,
    /// How well it is known.
    pub error: f64,
}

/// Properties that the bursts of a run share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bursts {
    /// Time between bursts.
    pub compute_s: Known,
    /// Its relative deviation.
    pub compute_cv: f64,
    /// Bytes of a burst.
    pub burst_bytes: Known,
    /// Requests of a burst.
    pub requests: f64,
    /// Bytes of a request.
    pub request_bytes: f64,
    /// How long a burst takes.
    pub burst_s: Known,
    /// How many whole bursts there are.
    pub n_bursts: usize,
}

/// Description of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Described {
    /// It has bursts.
    Bursts(Bursts),
    /// It is busy all the time: requests a second, and bytes of a request.
    Steady {
        /// Requests a second.
        requests_per_s: f64,
        /// Bytes of a request.
        request_bytes: f64,
    },
    /// Too few bursts, and not busy all the time.
    TooFew(usize),
}

/// A burst, in bins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    first: usize,
    /// One past the last.
    end: usize,
}

/// Describes a run by what it moved in bins of equal width: bytes and requests.
pub fn describe_bursts(dt_s: f64, requests: &[f64], bytes: &[f64]) -> Described {
    let stretches = stretches(bytes);
    let n_bins = bytes.len();
    let sum = |values: &[f64], stretch: &Stretch| values[stretch.first..stretch.end].iter().sum::<f64>();
    let is_whole = |stretch: &&Stretch| stretch.first > 0 && stretch.end < n_bins;
    let whole: Vec<Stretch> = stretches.iter().filter(is_whole).copied().collect();
    if whole.len() < LEAST_BURSTS {
        let busy: usize = stretches.iter().map(|stretch| stretch.end - stretch.first).sum();
        let (all_bytes, all_requests) = (bytes.iter().sum::<f64>(), requests.iter().sum::<f64>());
        if busy as f64 >= STEADY * n_bins as f64 && all_requests > 0.0 {
            return Described::Steady {
                requests_per_s: all_requests / (n_bins as f64 * dt_s),
                request_bytes: all_bytes / all_requests,
            };
        }
        return Described::TooFew(whole.len());
    }
    // The full rate, by those bursts that have bins which lie within them.
    let within: Vec<f64> = stretches.iter().filter_map(|stretch| full_rate(bytes, stretch)).collect();
    let usual_rate = median(&within).unwrap_or_else(|| bytes.iter().copied().fold(0.0, f64::max));
    let edges: Vec<(f64, f64)> = stretches.iter().map(|stretch| edges(bytes, stretch, usual_rate)).collect();
    let gaps: Vec<f64> = edges.windows(2).map(|pair| ((pair[1].0 - pair[0].1) * dt_s).max(0.0)).collect();
    let burst_bytes: Vec<f64> = whole.iter().map(|stretch| sum(bytes, stretch)).collect();
    let burst_requests: Vec<f64> = whole.iter().map(|stretch| sum(requests, stretch)).collect();
    let lengths: Vec<f64> = (stretches.iter().zip(&edges))
        .filter(|(stretch, _)| is_whole(stretch))
        .map(|(_, (from, to))| (to - from) * dt_s)
        .collect();
    let known = |value: f64, values: &[f64]| Known {
        value,
        error: coefficient_of_variation(values).unwrap_or(0.0) / (values.len() as f64).sqrt(),
    };
    Described::Bursts(Bursts {
        compute_s: known(mean(&gaps), &gaps),
        compute_cv: coefficient_of_variation(&gaps).unwrap_or(0.0),
        burst_bytes: known(mean(&burst_bytes), &burst_bytes),
        requests: mean(&burst_requests),
        request_bytes: burst_bytes.iter().sum::<f64>() / burst_requests.iter().sum::<f64>().max(1e-300),
        // Others on the storage make some bursts longer, and none shorter.
        burst_s: known(median(&lengths).unwrap_or(0.0), &lengths),
        n_bursts: whole.len(),
    })
}

/// Returns the phases in rates that were sampled every `step_s`, in seconds after the first: bursts without what trickles around them. Who is busy
/// almost all the time has none.
pub fn busy_phases(rates_bps: &[f64], step_s: f64) -> Vec<Phase> {
    let least = SUBSTANTIAL * typical(rates_bps);
    let busy: Vec<f64> = rates_bps.iter().map(|bps| if *bps >= least { *bps } else { 0.0 }).collect();
    let found = stretches(&busy);
    let n_busy: usize = found.iter().map(|stretch| stretch.end - stretch.first).sum();
    if n_busy as f64 >= STEADY * rates_bps.len() as f64 {
        return Vec::new();
    }
    let phase = |stretch: &Stretch| Phase {
        start_s: stretch.first as f64 * step_s,
        end_s: stretch.end as f64 * step_s,
        bytes: rates_bps[stretch.first..stretch.end].iter().sum::<f64>() * step_s,
    };
    found.iter().map(phase).collect()
}

/// Returns how long a phase usually is.
pub fn usual_length_s(phases: &[Phase]) -> Option<f64> {
    median(&phases.iter().map(|phase| phase.end_s - phase.start_s).collect::<Vec<_>>())
}

/// Returns the mean content of a byte's bin, in bytes: the mean over bins, weighted by their bytes.
fn typical(bytes: &[f64]) -> f64 {
    let sum: f64 = bytes.iter().sum();
    if sum > 0.0 { bytes.iter().map(|bytes| bytes * bytes).sum::<f64>() / sum } else { 0.0 }
}

/// Where bytes are, in bins: bins that hold something substantial, with their neighbours that hold anything.
fn stretches(bytes: &[f64]) -> Vec<Stretch> {
    let least = SUBSTANTIAL * typical(bytes);
    let mut found: Vec<Stretch> = Vec::new();
    let mut bin = 0;
    while bin < bytes.len() {
        if bytes[bin] <= 0.0 {
            bin += 1;
            continue;
        }
        let first = bin;
        while bin < bytes.len() && bytes[bin] > 0.0 {
            bin += 1;
        }
        if bytes[first..bin].iter().any(|bytes| *bytes >= least) {
            found.push(Stretch { first, end: bin });
        }
    }
    let gaps: Vec<f64> = found.windows(2).map(|pair| (pair[1].first - pair[0].end) as f64).collect();
    if gaps.is_empty() {
        return found;
    }
    let mut long: Vec<f64> = gaps.clone();
    long.sort_by(f64::total_cmp);
    // Holes are many and short: the usual time between bursts is told from the longer half.
    let usual = median(&long[long.len() / 2..]).unwrap_or(0.0);
    let mut joined: Vec<Stretch> = Vec::new();
    for stretch in found {
        match joined.last_mut() {
            Some(last) if ((stretch.first - last.end) as f64) < HOLE * usual => last.end = stretch.end,
            _ => joined.push(stretch),
        }
    }
    joined
}

/// Returns the median of the inner bins of a burst, in bytes; `None` if there are none or it is 0.
fn full_rate(bytes: &[f64], stretch: &Stretch) -> Option<f64> {
    let inner =
        bytes.get(stretch.first + 1..stretch.end.saturating_sub(1)).filter(|inner| !inner.is_empty())?;
    median(inner).filter(|rate| *rate > 0.0)
}

/// Where a burst begins and ends, in bins: within its first and last, as far as these are filled.
fn edges(bytes: &[f64], stretch: &Stretch, usual_rate: f64) -> (f64, f64) {
    let rate = full_rate(bytes, stretch).unwrap_or(usual_rate).max(1e-300);
    let fill = |bin: usize| (bytes[bin] / rate).min(1.0);
    if stretch.end - stretch.first == 1 {
        // Where in its bin it lies nobody knows: in the middle.
        let half = 0.5 * fill(stretch.first);
        let middle = stretch.first as f64 + 0.5;
        return (middle - half, middle + half);
    }
    let last = stretch.end - 1;
    ((stretch.first + 1) as f64 - fill(stretch.first), last as f64 + fill(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bursts of 100 bytes a second for `burst_s` every `period_s`, in bins of 1 s.
    fn made(period_s: f64, burst_s: f64, n: usize) -> Vec<f64> {
        let end_s = (n as f64 + 0.5) * period_s;
        let mut bins = vec![0.0; end_s as usize];
        for burst in 0..n {
            let (from_s, to_s) = (burst as f64 * period_s + 3.3, burst as f64 * period_s + 3.3 + burst_s);
            for (bin, bytes) in bins.iter_mut().enumerate() {
                let within = (to_s.min(bin as f64 + 1.0) - from_s.max(bin as f64)).max(0.0);
                *bytes += 100.0 * within;
            }
        }
        bins
    }

    #[test]
    fn bursts_are_measured_finer_than_bins() {
        let bytes = made(20.0, 4.6, 9);
        let requests: Vec<f64> = bytes.iter().map(|bytes| bytes / 10.0).collect();
        let Described::Bursts(found) = describe_bursts(1.0, &requests, &bytes) else {
            panic!("it has bursts")
        };
        assert_eq!(found.n_bursts, 9);
        assert!(
            (found.burst_s.value - 4.6).abs() < 1e-9 && (found.compute_s.value - 15.4).abs() < 1e-9,
            "{found:?}"
        );
        assert!((found.burst_bytes.value - 460.0).abs() < 1e-9 && (found.request_bytes - 10.0).abs() < 1e-9);
        assert!(found.compute_cv < 1e-9 && found.compute_s.error < 1e-9);
    }

    #[test]
    fn cut_bursts_do_not_count_and_a_hole_is_no_gap() {
        let mut bytes = made(40.0, 8.6, 8);
        // The run is seen from the middle of a burst to the middle of another, with a trickle and a stall between.
        bytes.drain(..7);
        bytes.truncate(bytes.len() - 53);
        bytes[60] = 1.0;
        bytes[121] = 0.0;
        let Described::Bursts(found) = describe_bursts(1.0, &bytes, &bytes) else { panic!("it has bursts") };
        assert_eq!(found.n_bursts, 6, "{found:?}");
        assert!(
            (found.burst_s.value - 8.6).abs() < 0.1 && (found.compute_s.value - 31.4).abs() < 0.1,
            "{found:?}"
        );
    }

    #[test]
    fn phases_are_bursts_without_what_trickles_around_them() {
        let rates = [1.0, 100.0, 50.0, 1.0, 1.0, 80.0, 0.0, 0.0];
        let phases = busy_phases(&rates, 2.0);
        let phase = |start_s, end_s, bytes| Phase { start_s, end_s, bytes };
        assert_eq!(phases, [phase(2.0, 6.0, 300.0), phase(10.0, 12.0, 160.0)]);
        assert_eq!((usual_length_s(&phases), usual_length_s(&[])), (Some(3.0), None));
        // Neither silence nor work without a pause has phases.
        assert!([&[0.0; 5][..], &[], &[1.0; 20]].iter().all(|rates| busy_phases(rates, 1.0).is_empty()));
        // The unit of bytes does not matter.
        let scaled: Vec<f64> = rates.iter().map(|bps| 1e9 * bps).collect();
        let places = |phases: &[Phase]| phases.iter().map(|it| (it.start_s, it.end_s)).collect::<Vec<_>>();
        assert_eq!(places(&busy_phases(&scaled, 2.0)), places(&phases));
    }

    #[test]
    fn a_run_without_bursts_is_steady_or_says_too_little() {
        let steady = vec![50.0; 100];
        let requests = vec![5.0; 100];
        assert_eq!(
            describe_bursts(2.0, &requests, &steady),
            Described::Steady { requests_per_s: 2.5, request_bytes: 10.0 }
        );
        assert_eq!(describe_bursts(1.0, &[0.0; 50], &[0.0; 50]), Described::TooFew(0));
        assert_eq!(describe_bursts(1.0, &made(30.0, 5.0, 2), &made(30.0, 5.0, 2)), Described::TooFew(2));
        assert_eq!(describe_bursts(1.0, &[], &[]), Described::TooFew(0));
    }
}
