//! A real machine as a batch system lists it, and what a policy would resize on it now.

use super::cluster::{Cluster, Decision};
use super::job::{BatchJob, EstimateErrors, JobKind, ResizeCost, Speedup};
use super::policy::{JobPolicy, PolicyKnobs, schedule};

/// User's mark of a job that may be resized: `iotide:min=2,max=16` in its comment, optionally `serial=0.1`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MalleableMark {
    /// The least size.
    pub min: u32,
    /// The largest size.
    pub max: u32,
    /// Share of its work that gains nothing from more nodes, if it says so.
    pub serial_fraction: Option<f64>,
}

impl MalleableMark {
    /// Reads the mark from a comment; `None` if there is none, an error if it cannot be.
    pub fn parse(comment: &str) -> Option<Result<Self, String>> {
        let words = comment.split_whitespace().find_map(|word| word.strip_prefix("iotide:"))?;
        Some(Self::of(words))
    }

    fn of(words: &str) -> Result<Self, String> {
        let (mut min, mut max, mut serial_fraction) = (None, None, None);
        for word in words.split(',') {
            let wrong = || format!("{word:?} is not understood in {words:?}");
            let (name, value) = word.split_once('=').ok_or_else(wrong)?;
            match name {
                "min" => min = Some(value.parse::<u32>().ok().filter(|&n| n > 0).ok_or_else(wrong)?),
                "max" => max = Some(value.parse::<u32>().ok().filter(|&n| n > 0).ok_or_else(wrong)?),
                "serial" => {
                    let share = value.parse().ok().filter(|share| (0.0..=1.0).contains(share));
                    serial_fraction = Some(share.ok_or_else(wrong)?);
                }
                _ => return Err(wrong()),
            }
        }
        match (min, max) {
            (Some(min), Some(max)) if min <= max => Ok(Self { min, max, serial_fraction }),
            _ => Err(format!("{words:?} does not say min and max, with min ≤ max")),
        }
    }
}

/// A job as a batch system lists it.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedJob {
    /// The batch system's name for it.
    pub id: String,
    /// Nodes that it holds, or asks for.
    pub nodes: u32,
    /// How long it has run; `None` while it waits.
    pub elapsed_s: Option<f64>,
    /// Its limit.
    pub limit_s: f64,
    /// When it was submitted, on any clock.
    pub submit_s: f64,
    /// Higher goes first.
    pub priority: i64,
    /// Mark of its user.
    pub mark: Option<MalleableMark>,
    /// Whether its size must stay for now: it is being resized.
    pub is_busy: bool,
    /// Times it takes at some numbers of nodes by models of its application, in ascending order; empty if there are none. Only ratios count.
    pub times: Vec<(u32, f64)>,
}

/// Amdahl's share of a job of which nothing else is known.
const USUAL_SERIAL: f64 = 0.05;

impl ListedJob {
    /// How many times as long it takes at another size as at one; `None` if it is not malleable.
    pub fn time_ratio(&self, from: u32, to: u32) -> Option<f64> {
        let speedup = self.speedup(self.mark?);
        Some(speedup.relative_time(to) / speedup.relative_time(from)).filter(|ratio| ratio.is_finite())
    }

    /// How its time changes with its size: as its user says, as it was measured, or as is usual.
    fn speedup(&self, mark: MalleableMark) -> Speedup {
        let is_measured = !self.times.is_empty()
            && self.times.iter().all(|(_, time)| time.is_finite() && *time > 0.0)
            && self.times.windows(2).all(|pair| pair[0].0 < pair[1].0);
        match mark.serial_fraction {
            Some(serial) => Speedup::SerialFraction(serial),
            None if is_measured => Speedup::Times(self.times.clone()),
            None => Speedup::SerialFraction(USUAL_SERIAL),
        }
    }
}

/// A change of size that a policy asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedResize {
    /// Which job.
    pub id: String,
    /// The size it has.
    pub from: u32,
    /// The size it is to have.
    pub to: u32,
    /// Jobs that wait and are to start on what is given.
    pub starts: Vec<String>,
}

/// Returns what a policy would resize now, gives first. Starts are left to the batch system.
pub fn wanted_resizes(
    listed: &[ListedJob],
    free: u32,
    policy: JobPolicy,
    knobs: &PolicyKnobs,
    cost: ResizeCost,
) -> Vec<WantedResize> {
    let held: u32 = listed.iter().filter(|job| job.elapsed_s.is_some()).map(|job| job.nodes).sum();
    let n_nodes = free.saturating_add(held);
    let jobs: Vec<BatchJob> = listed.iter().map(|job| batch_job(job, n_nodes)).collect();
    let mut cluster = Cluster::new(&jobs, n_nodes, cost);
    cluster.prepare(policy);
    for (i, job) in listed.iter().enumerate() {
        match job.elapsed_s {
            Some(elapsed_s) => {
                let done = if job.limit_s > 0.0 { (elapsed_s / job.limit_s).min(1.0) } else { 1.0 };
                cluster.adopt(i, -((elapsed_s * 1e3) as i64), job.nodes, done, 0);
                if job.is_busy {
                    cluster.set_progress(i, done, false);
                }
            }
            None if job.nodes <= n_nodes => cluster.submit(i),
            None => {}
        }
    }
    let decisions = schedule(&mut cluster, policy, knobs, 0);
    let starts: Vec<String> = decisions
        .iter()
        .filter_map(|decision| match decision {
            Decision::Start { job, .. } => Some(listed[*job].id.clone()),
            Decision::Resize { .. } | Decision::Storage { .. } => None,
        })
        .collect();
    let mut wanted: Vec<WantedResize> = Vec::new();
    for decision in decisions {
        let Decision::Resize { job, from, to } = decision else { continue };
        let starts = if to < from { starts.clone() } else { Vec::new() };
        wanted.push(WantedResize { id: listed[job].id.clone(), from, to, starts });
    }
    // A job is resized once, from what it has to what it is to have.
    wanted.sort_by_key(|resize| resize.to > resize.from);
    wanted
}

/// Converts a listed job. The batch system starts waiting jobs, at the size they ask for: only running jobs are malleable.
fn batch_job(job: &ListedJob, n_nodes: u32) -> BatchJob {
    let is_malleable = job.mark.is_some() && job.elapsed_s.is_some();
    let (min, max, speedup) = match job.mark.filter(|_| is_malleable) {
        Some(mark) => (mark.min.min(job.nodes), mark.max.max(job.nodes).min(n_nodes), job.speedup(mark)),
        None => (job.nodes, job.nodes, Speedup::SerialFraction(0.0)),
    };
    let limit_ms = job.limit_s * 1e3;
    BatchJob {
        kind: if is_malleable { JobKind::Malleable } else { JobKind::Rigid },
        submit_ms: (job.submit_s * 1e3) as i64,
        nodes: job.nodes,
        nodes_min: min,
        nodes_max: max,
        reference_nodes: job.nodes,
        runtime_ms: limit_ms,
        walltime_ms: limit_ms,
        recorded_ms: limit_ms,
        priority: job.priority,
        speedup,
        io_bytes: None,
        errors: EstimateErrors::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(id: &str, nodes: u32, elapsed_s: Option<f64>, mark: Option<&str>) -> ListedJob {
        ListedJob {
            id: id.into(),
            nodes,
            elapsed_s,
            limit_s: 3600.0,
            submit_s: 0.0,
            priority: 0,
            mark: mark.map(|mark| MalleableMark::parse(mark).unwrap().unwrap()),
            is_busy: false,
            times: Vec::new(),
        }
    }

    fn wanted(jobs: &[ListedJob], free: u32) -> Vec<(String, u32, u32)> {
        wanted_resizes(jobs, free, JobPolicy::Tide, &PolicyKnobs::default(), ResizeCost::default())
            .into_iter()
            .map(|resize| (resize.id, resize.from, resize.to))
            .collect()
    }

    #[test]
    fn a_marked_job_gives_to_who_waits_and_gets_what_nobody_wants() {
        let marked = listed("a", 4, Some(60.0), Some("iotide:min=1,max=4"));
        assert_eq!(wanted(&[marked.clone(), listed("b", 2, None, None)], 0), [("a".to_owned(), 4, 2)]);
        let small = ListedJob { nodes: 2, ..marked.clone() };
        assert_eq!(wanted(&[small], 2), [("a".to_owned(), 2, 4)]);
        assert_eq!(wanted(&[marked.clone(), listed("b", 4, None, None)], 0), [], "it keeps its least size");
        let busy = ListedJob { is_busy: true, ..marked };
        assert_eq!(wanted(&[busy, listed("b", 2, None, None)], 0), []);
    }

    #[test]
    fn a_job_that_was_measured_not_to_gain_is_not_grown_unless_its_user_says_so() {
        let small = |mark, times: &[(u32, f64)]| ListedJob {
            times: times.to_vec(),
            ..listed("a", 2, Some(60.0), Some(mark))
        };
        let grown = [("a".to_owned(), 2, 4)];
        assert_eq!(wanted(&[small("iotide:min=1,max=4", &[(1, 10.0), (2, 5.0), (4, 2.5)])], 2), grown);
        let flat = [(1, 10.0), (2, 10.0), (4, 10.0)];
        assert_eq!(wanted(&[small("iotide:min=1,max=4", &flat)], 2), []);
        assert_eq!(wanted(&[small("iotide:min=1,max=4,serial=0.05", &flat)], 2), grown);
        // What is no measurement counts for nothing.
        for wrong in
            [[(1, 10.0), (2, 10.0), (4, f64::NAN)], [(1, 10.0), (4, 10.0), (2, 10.0)], [(1, -1.0); 3]]
        {
            assert_eq!(wanted(&[small("iotide:min=1,max=4", &wrong)], 2), grown, "{wrong:?}");
        }
    }

    #[test]
    fn what_is_not_marked_is_left_alone() {
        assert_eq!(wanted(&[listed("a", 4, Some(60.0), None), listed("b", 2, None, None)], 0), []);
        assert_eq!(wanted(&[listed("a", 2, Some(60.0), None)], 2), []);
    }

    #[test]
    fn a_mark_says_both_ends() {
        let parse = |comment: &str| MalleableMark::parse(comment);
        assert_eq!(parse("see wiki"), None);
        let mark = MalleableMark { min: 2, max: 16, serial_fraction: Some(0.1) };
        assert_eq!(parse("x iotide:min=2,max=16,serial=0.1 y"), Some(Ok(mark)));
        for wrong in
            ["iotide:", "iotide:min=2", "iotide:min=0,max=4", "iotide:min=4,max=2", "iotide:min=1,max=2,x=3"]
        {
            assert!(parse(wrong).unwrap().is_err(), "{wrong}");
        }
    }
}
