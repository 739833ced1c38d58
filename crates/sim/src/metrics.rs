//! How jobs fared, as RR-9537 defines it (its section 4.3).

/// How the jobs of a workload fared.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The highest stretch of a job.
    pub max_stretch: Option<f64>,
    /// The geometric mean of the jobs' stretches.
    pub geomean_stretch: Option<f64>,
    /// The geometric mean of the jobs' I/O slowdowns.
    pub io_slowdown: Option<f64>,
    /// Share of the jobs' time that was spent computing.
    pub utilization: f64,
    /// How each job fared.
    pub jobs: Vec<JobOutcome>,
    /// Who moved how much when, if that was asked for.
    pub timeline: Option<Timeline>,
    /// How many I/O phases ended.
    pub n_phases: u64,
    /// How many requests were served; 0 in the fluid model.
    pub n_requests: u64,
    /// Jobs whose phase at the end of the frame did not end for so long that it was counted as having moved nothing.
    pub n_starved: u64,
}

/// How one job fared in the frame.
#[derive(Clone, Debug, PartialEq)]
pub struct JobOutcome {
    /// Its name.
    pub name: String,
    /// Its time over what it would have taken alone: `T / (e_cpu + e_io)`.
    pub stretch: Option<f64>,
    /// Its time outside computing over what its I/O would have taken alone: `(T − e_cpu) / e_io`.
    pub io_slowdown: Option<f64>,
    /// Time it spent computing: `e_cpu`.
    pub compute_s: f64,
    /// Time its I/O would have taken alone: `e_io`.
    pub alone_io_s: f64,
    /// The part of the frame in which it was there: `T`.
    pub time_s: f64,
    /// I/O phases that began.
    pub n_phases: u64,
    /// Mean time between the starts of its I/O phases, over the whole run.
    pub w_iter_s: Option<f64>,
}

/// Who moved how much when.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    /// How long a bin is; the first begins at 0.
    pub bin_s: f64,
    /// Bytes that each job moved in each bin.
    pub bytes: Vec<Vec<f64>>,
}

impl Timeline {
    pub(crate) fn new(n_jobs: usize, n_bins: usize, until_s: f64) -> Self {
        Self { bin_s: until_s / n_bins as f64, bytes: vec![vec![0.0; n_bins]; n_jobs] }
    }

    /// Adds what a job moved between two times, evenly; what lies beyond the last bin is not shown.
    pub(crate) fn add(&mut self, job: usize, from_s: f64, to_s: f64, bytes: f64) {
        let bins = &mut self.bytes[job];
        let (from, to) = (from_s / self.bin_s, to_s / self.bin_s);
        if to <= from {
            if let Some(bin) = bins.get_mut(from as usize) {
                *bin += bytes;
            }
            return;
        }
        for i in from as usize..(to.ceil() as usize).min(bins.len()) {
            let overlap = to.min((i + 1) as f64) - from.max(i as f64);
            bins[i] += bytes * overlap.max(0.0) / (to - from);
        }
    }
}

/// Sums over a job's work in the frame, collected while it runs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Effort {
    pub(crate) compute_s: f64,
    pub(crate) bytes: f64,
    pub(crate) n_phases: u64,
    first_phase_s: f64,
    last_phase_s: f64,
}

impl Effort {
    pub(crate) fn computes(&mut self, frame_s: [f64; 2], from_s: f64, to_s: f64) {
        self.compute_s += (to_s.min(frame_s[1]) - from_s.max(frame_s[0])).max(0.0);
    }

    pub(crate) fn begins_phase(&mut self, at_s: f64) {
        if self.n_phases == 0 {
            self.first_phase_s = at_s;
        }
        self.last_phase_s = at_s;
        self.n_phases += 1;
    }

    /// A phase that the frame cuts counts by the part of its time, as if its bandwidth had been constant.
    pub(crate) fn moves(&mut self, frame_s: [f64; 2], from_s: f64, to_s: f64, bytes: f64) {
        let within_s = (to_s.min(frame_s[1]) - from_s.max(frame_s[0])).max(0.0);
        if to_s > from_s {
            self.bytes += bytes * within_s / (to_s - from_s);
        } else if frame_s[0] <= from_s && from_s < frame_s[1] {
            self.bytes += bytes;
        }
    }

    pub(crate) fn w_iter_s(&self) -> Option<f64> {
        (self.n_phases > 1).then(|| (self.last_phase_s - self.first_phase_s) / (self.n_phases - 1) as f64)
    }

    /// Returns the outcome of a job that was there between two times.
    pub(crate) fn outcome(
        &self,
        name: String,
        frame_s: [f64; 2],
        there_s: [f64; 2],
        bandwidth_bps: f64,
    ) -> JobOutcome {
        let time_s = (there_s[1].min(frame_s[1]) - there_s[0].max(frame_s[0])).max(0.0);
        let alone_io_s = self.bytes / bandwidth_bps;
        let alone_s = self.compute_s + alone_io_s;
        JobOutcome {
            name,
            stretch: (alone_s > 0.0).then(|| time_s / alone_s),
            io_slowdown: (alone_io_s > 0.0).then(|| (time_s - self.compute_s) / alone_io_s),
            compute_s: self.compute_s,
            alone_io_s,
            time_s,
            n_phases: self.n_phases,
            w_iter_s: self.w_iter_s(),
        }
    }
}

impl Outcome {
    pub(crate) fn of(jobs: Vec<JobOutcome>, frame_s: [f64; 2]) -> Self {
        let stretches = || jobs.iter().filter_map(|job| job.stretch);
        let compute_s: f64 = jobs.iter().map(|job| job.compute_s).sum();
        Self {
            max_stretch: stretches().max_by(f64::total_cmp),
            geomean_stretch: geometric_mean(stretches()),
            io_slowdown: geometric_mean(jobs.iter().filter_map(|job| job.io_slowdown)),
            utilization: compute_s / (jobs.len() as f64 * (frame_s[1] - frame_s[0])),
            jobs,
            timeline: None,
            n_phases: 0,
            n_requests: 0,
            n_starved: 0,
        }
    }
}

fn geometric_mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (n, logs) = values.fold((0u64, 0.0), |(n, logs), value| (n + 1, logs + value.ln()));
    (n > 0).then(|| (logs / n as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME_S: [f64; 2] = [10.0, 110.0];

    #[test]
    fn phases_on_the_border_of_the_frame_count_by_their_part() {
        let mut effort = Effort::default();
        effort.computes(FRAME_S, 0.0, 30.0); // 20 s inside
        effort.moves(FRAME_S, 30.0, 50.0, 100.0);
        effort.computes(FRAME_S, 50.0, 100.0);
        effort.moves(FRAME_S, 100.0, 140.0, 400.0); // a quarter inside
        let job = effort.outcome("a".into(), FRAME_S, [0.0, 500.0], 10.0);
        assert_eq!((job.compute_s, job.alone_io_s, job.time_s), (70.0, 20.0, 100.0));
        assert_eq!(job.stretch, Some(100.0 / 90.0));
        assert_eq!(job.io_slowdown, Some(30.0 / 20.0));
    }

    #[test]
    fn the_means_are_geometric_and_utilisation_is_over_all_jobs() {
        let job = |stretch, io_slowdown, compute_s| JobOutcome {
            name: String::new(),
            stretch: Some(stretch),
            io_slowdown: Some(io_slowdown),
            compute_s,
            alone_io_s: 1.0,
            time_s: 100.0,
            n_phases: 1,
            w_iter_s: None,
        };
        let outcome = Outcome::of(vec![job(1.0, 2.0, 90.0), job(4.0, 8.0, 30.0)], FRAME_S);
        assert_eq!(outcome.max_stretch, Some(4.0));
        assert!((outcome.geomean_stretch.unwrap() - 2.0).abs() < 1e-12);
        assert!((outcome.io_slowdown.unwrap() - 4.0).abs() < 1e-12);
        assert_eq!(outcome.utilization, 0.6);
    }

    #[test]
    fn a_job_that_moved_nothing_has_no_slowdown() {
        let mut effort = Effort::default();
        effort.computes(FRAME_S, 0.0, 200.0);
        let job = effort.outcome("a".into(), FRAME_S, [0.0, 200.0], 10.0);
        assert_eq!((job.stretch, job.io_slowdown), (Some(1.0), None));
        assert_eq!(Outcome::of(vec![job], FRAME_S).io_slowdown, None);
        let absent = Effort::default().outcome("b".into(), FRAME_S, [0.0, 5.0], 10.0);
        assert_eq!((absent.stretch, absent.time_s), (None, 0.0));
    }

    #[test]
    fn a_timeline_keeps_the_bytes() {
        let mut timeline = Timeline::new(1, 10, 100.0);
        timeline.add(0, 5.0, 25.0, 20.0);
        timeline.add(0, 95.0, 105.0, 10.0); // half beyond the end
        timeline.add(0, 30.0, 30.0, 1.0);
        assert_eq!(timeline.bytes[0], [5.0, 10.0, 5.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 5.0]);
    }
}
