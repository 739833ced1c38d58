//! Where and when a job would be disturbed least: its signature laid over the load of a storage partition (section 6.4 of
//! the paper, "resource allocation and scheduling").

use iotide_num::mean_of_steps;

use super::Signature;

/// The load of a storage partition over time.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionLoad {
    /// Its name.
    pub name: String,
    /// When the first value begins, on the clock that starts are given on.
    pub start_s: f64,
    /// How long each value lasts.
    pub interval_s: f64,
    /// Bytes per second; NaN where the log has a hole.
    pub bandwidth_bps: Vec<f64>,
    /// Bandwidth that the partition can carry; `None`: the highest one observed, or the signature's peak if that is more.
    pub capacity_bps: Option<f64>,
}

/// Interference that a job would meet on a partition if the load were as logged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interference {
    /// When the job would start.
    pub start_s: f64,
    /// The load it meets: the mean over its own bytes, so that what others do while it computes does not count.
    pub met_bps: f64,
    /// The share of the partition's traffic that is not its own while it does I/O: the mean over its own bytes, in [0, 1].
    pub contention: f64,
    /// How much longer its I/O takes: if together they ask for more than the capacity, each gets its share of that. What falls into a
    /// hole is taken to meet what the rest meets.
    pub delay_s: f64,
    /// The correlation coefficient of its signature and the load, as the paper has it; `None` if either is constant.
    pub correlation: Option<f64>,
    /// The share of its bytes that falls into times of which the load is known.
    pub coverage: f64,
}

/// Returns what a job with this signature would meet on a partition, or `None` if nothing is known of the load during
/// any of its I/O, or there is none.
pub fn expected_interference(
    signature: &Signature,
    partition: &PartitionLoad,
    start_s: f64,
) -> Option<Interference> {
    let peak_bps = signature.bandwidth_bps.iter().copied().fold(0.0, f64::max);
    let carried_bps = || partition.bandwidth_bps.iter().copied().fold(peak_bps, f64::max);
    meet(signature, partition, partition.capacity_bps.unwrap_or_else(carried_bps), start_s)
}

/// Returns every start on every partition, the one that is disturbed least first: by delay, then by contention. Starts that are known for less
/// than half of their bytes come last: of a hole in the log anything could be said.
///
/// Starts are tried from the beginning of each log, `step_s` apart, as long as the log covers all of the job's I/O that a
/// hole does not hide. Each is given with its place in `partitions`.
pub fn rank_starts(
    signature: &Signature,
    partitions: &[PartitionLoad],
    step_s: f64,
) -> Vec<(usize, Interference)> {
    let duration_s = signature.bandwidth_bps.len() as f64 * signature.interval_s;
    let peak_bps = signature.bandwidth_bps.iter().copied().fold(0.0, f64::max);
    let mut ranking = Vec::new();
    for (index, partition) in partitions.iter().enumerate() {
        let carried_bps = || partition.bandwidth_bps.iter().copied().fold(peak_bps, f64::max);
        let capacity_bps = partition.capacity_bps.unwrap_or_else(carried_bps);
        let logged_s = partition.bandwidth_bps.len() as f64 * partition.interval_s;
        let n_starts =
            if step_s > 0.0 { ((logged_s - duration_s) / step_s).floor().max(-1.0) as i64 + 1 } else { 0 };
        for i in 0..n_starts {
            let start_s = partition.start_s + i as f64 * step_s;
            ranking.extend(meet(signature, partition, capacity_bps, start_s).map(|met| (index, met)));
        }
    }
    ranking.sort_by(|(_, a), (_, b)| {
        let is_guess = |met: &Interference| met.coverage < 0.5;
        (is_guess(a).cmp(&is_guess(b)))
            .then(a.delay_s.total_cmp(&b.delay_s))
            .then(a.contention.total_cmp(&b.contention))
            .then(a.start_s.total_cmp(&b.start_s))
    });
    ranking
}

fn meet(
    signature: &Signature,
    partition: &PartitionLoad,
    capacity_bps: f64,
    start_s: f64,
) -> Option<Interference> {
    let step_s = signature.interval_s;
    let all: f64 = signature.bandwidth_bps.iter().sum();
    let (mut known, mut met, mut shared, mut delay_s) = (0.0, 0.0, 0.0, 0.0);
    let mut moments = Moments::default();
    for (i, &own) in signature.bandwidth_bps.iter().enumerate() {
        let from_s = start_s + i as f64 * step_s - partition.start_s;
        let load = partition.mean_between(from_s, from_s + step_s);
        if load.is_nan() {
            continue;
        }
        moments.add(own, load);
        if own > 0.0 {
            known += own;
            met += own * load;
            shared += own * load / (own + load);
            delay_s += step_s * ((own + load) / capacity_bps - 1.0).max(0.0);
        }
    }
    (known > 0.0).then(|| Interference {
        start_s,
        met_bps: met / known,
        contention: shared / known,
        delay_s: delay_s * all / known,
        correlation: moments.correlation(),
        coverage: known / all,
    })
}

impl PartitionLoad {
    /// The mean load, in seconds from the first value; NaN where it is not known.
    fn mean_between(&self, from_s: f64, to_s: f64) -> f64 {
        let (from, to) = (from_s / self.interval_s, to_s / self.interval_s);
        if from < -1e-9 || to > self.bandwidth_bps.len() as f64 + 1e-9 {
            return f64::NAN;
        }
        mean_of_steps(&self.bandwidth_bps, from, to)
    }
}

/// Sums for a correlation coefficient.
#[derive(Default)]
struct Moments {
    n: f64,
    x: f64,
    y: f64,
    xx: f64,
    yy: f64,
    xy: f64,
}

impl Moments {
    fn add(&mut self, x: f64, y: f64) {
        self.n += 1.0;
        self.x += x;
        self.y += y;
        self.xx += x * x;
        self.yy += y * y;
        self.xy += x * y;
    }

    fn correlation(&self) -> Option<f64> {
        let (x, y) = (self.xx - self.x * self.x / self.n, self.yy - self.y * self.y / self.n);
        // What rounding leaves of a constant is no variance.
        (x > 1e-12 * self.xx && y > 1e-12 * self.yy)
            .then(|| ((self.xy - self.x * self.y / self.n) / (x * y).sqrt()).clamp(-1.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signature::SignatureMethod;

    /// Bursts of 10 B/s in the seconds marked `#`.
    fn signature(marks: &str) -> Signature {
        Signature {
            method: SignatureMethod::Consensus,
            offset_s: 0.0,
            interval_s: 1.0,
            bandwidth_bps: marks.chars().map(|mark| if mark == '#' { 10.0 } else { 0.0 }).collect(),
            spread: Vec::new(),
            bursts: Vec::new(),
            period: Default::default(),
            confidence: 1.0,
            background_bps: 0.0,
            used: Vec::new(),
            rejected: Vec::new(),
        }
    }

    /// Digits are tens of B/s, `?` is a hole.
    fn partition(marks: &str) -> PartitionLoad {
        PartitionLoad {
            name: "p".to_owned(),
            start_s: 100.0,
            interval_s: 1.0,
            bandwidth_bps: marks
                .chars()
                .map(|mark| mark.to_digit(10).map_or(f64::NAN, |tens| 10.0 * f64::from(tens)))
                .collect(),
            capacity_bps: Some(20.0),
        }
    }

    #[test]
    fn only_what_others_do_during_its_own_bursts_disturbs_a_job() {
        let beside = expected_interference(&signature("#..#"), &partition("0990"), 100.0).unwrap();
        assert_eq!((beside.met_bps, beside.contention, beside.delay_s), (0.0, 0.0, 0.0));
        assert_eq!(beside.correlation, Some(-1.0));
        let onto = expected_interference(&signature("#..#"), &partition("3003"), 100.0).unwrap();
        // 10 and 30 on a storage of 20: each of the two seconds takes two.
        assert_eq!((onto.met_bps, onto.contention, onto.delay_s), (30.0, 0.75, 2.0));
        assert_eq!(onto.correlation, Some(1.0));
    }

    #[test]
    fn without_a_capacity_the_most_that_was_seen_is_what_a_partition_can_carry() {
        let mut log = partition("2040");
        log.capacity_bps = None;
        let met = expected_interference(&signature("#.#"), &log, 100.0).unwrap();
        assert!((met.delay_s - 0.25).abs() < 1e-12); // 10 + 40 on 40
    }

    #[test]
    fn a_hole_in_the_log_lowers_the_coverage() {
        let met = expected_interference(&signature("##.#"), &partition("1?91"), 100.0).unwrap();
        assert_eq!((met.met_bps, met.coverage), (10.0, 2.0 / 3.0));
        assert_eq!(expected_interference(&signature("##"), &partition("??"), 100.0), None);
        assert_eq!(expected_interference(&signature("##"), &partition("11"), 500.0), None);
        assert_eq!(expected_interference(&signature(".."), &partition("11"), 100.0), None);
    }

    #[test]
    fn the_quietest_start_on_the_quietest_partition_comes_first() {
        let partitions = [partition("33333333"), partition("33300333")];
        let ranking = rank_starts(&signature("##"), &partitions, 1.0);
        assert_eq!(ranking.len(), 14);
        assert_eq!((ranking[0].0, ranking[0].1.start_s, ranking[0].1.delay_s), (1, 103.0, 0.0));
        assert!(ranking.windows(2).all(|pair| pair[0].1.delay_s <= pair[1].1.delay_s));
        assert!(rank_starts(&signature("#########"), &partitions, 1.0).is_empty());
        assert!(rank_starts(&signature("##"), &partitions, 0.0).is_empty());
    }

    #[test]
    fn a_hole_makes_no_start_look_better_than_it_is() {
        // 10 and 30 on a storage of 20 for two seconds, seen or not.
        let seen = expected_interference(&signature("##"), &partition("33"), 100.0).unwrap();
        let half_seen = expected_interference(&signature("##"), &partition("3?"), 100.0).unwrap();
        assert_eq!((seen.delay_s, half_seen.delay_s), (2.0, 2.0));
        let ranking = rank_starts(&signature("####"), &[partition("0???2222")], 4.0);
        assert_eq!(ranking.iter().map(|(_, met)| met.start_s).collect::<Vec<_>>(), [104.0, 100.0]);
    }

    #[test]
    fn a_coarser_log_is_averaged_over_the_points_of_the_signature() {
        let mut log = partition("13");
        log.interval_s = 2.0;
        let met = expected_interference(&signature("####"), &log, 100.0).unwrap();
        assert_eq!(met.met_bps, 20.0);
    }
}
