//! Bytes that jobs have moved, and the time it took, over the last minutes: by it the effect of a decision is measured.

use std::collections::{HashMap, HashSet, VecDeque};

use super::{Effect, JobFacts, Quantity};

/// Totals of a job at some time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// When.
    pub at_s: f64,
    /// Bytes it had read and written.
    pub bytes: u64,
    /// How long it had been in the calls.
    pub io_s: f64,
    /// The same by the clock on the wall, at most: what its processes do at once counts once.
    pub wall_io_s: f64,
}

/// Samples of jobs.
#[derive(Clone, Debug, Default)]
pub struct History {
    jobs: HashMap<String, Past>,
}

/// Recent totals of one job.
#[derive(Clone, Debug, Default)]
struct Past {
    samples: VecDeque<Sample>,
    n_processes: u32,
    n_calls: u64,
    /// When a call was last seen to have ended.
    called_s: f64,
}

impl Past {
    /// How long a job was in I/O by the clock on the wall since its last sample, at most. Calls count when they end: those that ended now may have begun
    /// before that sample, but not before the last ones ended, and not before they could have.
    fn wall_io_s(&self, last: &Sample, now_s: f64, job: &JobFacts) -> f64 {
        let io_s = (job.io_s - last.io_s).max(0.0);
        let n_calls = job.n_calls.saturating_sub(self.n_calls).max(1);
        let began_before_s = (last.at_s - self.called_s).min(io_s / n_calls as f64);
        io_s.min(now_s - last.at_s + began_before_s)
    }
}

/// Loss of a job by a decision.
#[derive(Clone, Debug, PartialEq)]
pub struct JobLoss {
    /// The job, by [`JobFacts::key`].
    pub job: String,
    /// The share of its time.
    pub time: f64,
    /// The standard error of that.
    pub error: f64,
    /// By which share its time in I/O for each byte has changed.
    pub io_change: f64,
}

impl History {
    /// Samples of a job.
    const MOST_SAMPLES: usize = 1024;
    /// Where there are too many, the earlier ones become as far apart as this, so that …
    const COARSE_S: f64 = 8.0;
    /// … they still go back as far as this: half an hour before a decision, and half an hour after it.
    const LONGEST_S: f64 = 4000.0;
    /// Into so many parts a span is cut to see how much a figure varies.
    const N_PARTS: usize = 4;
    /// Jobs. Those beyond are not measured.
    const MOST_JOBS: usize = 4096;

    /// Notes what jobs have done; those that are not among them have ended, and are forgotten.
    pub fn note(&mut self, now_s: f64, jobs: &[JobFacts]) {
        let keys: HashSet<String> = jobs.iter().map(JobFacts::key).collect();
        self.jobs.retain(|key, _| keys.contains(key));
        for job in jobs {
            let key = job.key();
            if !self.jobs.contains_key(&key) && self.jobs.len() >= Self::MOST_JOBS {
                continue;
            }
            let past = self.jobs.entry(key).or_default();
            // Counters that go back are those of another job of the name.
            if past.samples.back().is_some_and(|last| last.bytes > job.bytes || last.at_s >= now_s) {
                *past = Past::default();
            }
            let last = past.samples.back().copied();
            let wall_io_s = last.map_or(0.0, |last| last.wall_io_s + past.wall_io_s(&last, now_s, job));
            if last.is_none_or(|last| job.io_s > last.io_s) {
                past.called_s = now_s;
            }
            (past.n_processes, past.n_calls) = (job.n_processes, job.n_calls);
            let samples = &mut past.samples;
            if samples.len() == Self::MOST_SAMPLES {
                let is_old = samples.front().is_some_and(|first| first.at_s < now_s - Self::LONGEST_S);
                let mut pairs = samples.iter().zip(samples.iter().skip(1));
                let close = pairs.position(|(a, b)| b.at_s - a.at_s < Self::COARSE_S);
                // All that is remembered is a sum up to its time, so one in between can go.
                samples.remove(close.filter(|_| !is_old).map_or(0, |first| first + 1));
            }
            samples.push_back(Sample { at_s: now_s, bytes: job.bytes, io_s: job.io_s, wall_io_s });
        }
    }

    /// Bytes per second of some jobs together, from one sample to the next, where that was highest.
    pub fn highest_bps(&self, jobs: &[&str]) -> Option<f64> {
        let mut rates: HashMap<u64, f64> = HashMap::new();
        for samples in jobs.iter().filter_map(|key| self.samples(key)) {
            for (from, to) in samples.iter().zip(samples.iter().skip(1)) {
                // Samples of one look have one time, to the bit.
                let rate = (to.bytes - from.bytes) as f64 / (to.at_s - from.at_s);
                *rates.entry(to.at_s.to_bits()).or_default() += rate;
            }
        }
        rates.into_values().filter(|rate| *rate > 0.0).reduce(f64::max)
    }

    /// Seconds in I/O for each byte of a job between two times; `None` if it was not there all the time, or moved nothing.
    pub fn seconds_a_byte(&self, key: &str, from_s: f64, to_s: f64) -> Option<f64> {
        let (from, to) = (self.sample_at(key, from_s)?, self.sample_at(key, to_s)?);
        let bytes = to.bytes.checked_sub(from.bytes).filter(|bytes| *bytes > 0)?;
        Some((to.io_s - from.io_s).max(0.0) / bytes as f64).filter(|cost| *cost > 0.0)
    }

    /// Whether a job has read or written between two times.
    pub fn has_moved(&self, key: &str, from_s: f64, to_s: f64) -> bool {
        self.bytes_at(key, to_s).unwrap_or(0) > self.bytes_at(key, from_s).unwrap_or(0)
    }

    /// Since when a job is seen.
    pub fn since_s(&self, key: &str) -> Option<f64> {
        self.samples(key)?.front().map(|sample| sample.at_s)
    }

    /// How the time in I/O for each byte has changed: the geometric mean over those jobs of which both spans tell. `None` if none does.
    pub fn change(&self, jobs: &[String], before_s: [f64; 2], after_s: [f64; 2]) -> Option<Effect> {
        let of_job = |key: &String| {
            let before = self.seconds_a_byte(key, before_s[0], before_s[1])?;
            Some((self.seconds_a_byte(key, after_s[0], after_s[1])? / before).ln())
        };
        let logs: Vec<f64> = jobs.iter().filter_map(of_job).collect();
        if logs.is_empty() {
            return None;
        }
        let ratio = (logs.iter().sum::<f64>() / logs.len() as f64).exp();
        Some(Effect { quantity: Quantity::IoTime, without: 1.0, with: ratio })
    }

    /// The jobs that lose time by I/O that has become slower, and how much: those whose loss is beyond what the spread of their own figures explains.
    pub fn losses(&self, jobs: &[String], before_s: [f64; 2], after_s: [f64; 2]) -> Vec<JobLoss> {
        let all: Vec<JobLoss> =
            jobs.iter().filter_map(|key| self.loss(key.clone(), before_s, after_s)).collect();
        // Of many jobs, one is slow by chance. A spread of four figures has three degrees of freedom, by which chances fall with the cube of the distance:
        // so far out, it happens to any of them no more often than to one alone beyond two standard errors.
        let n_errors = 2.0 * (all.len() as f64).cbrt();
        all.into_iter().filter(|loss| loss.time > n_errors * loss.error).collect()
    }

    /// The share of its time that a job spends in I/O beyond what the same bytes took before. `None` if that or its spread is not known.
    fn loss(&self, job: String, before_s: [f64; 2], after_s: [f64; 2]) -> Option<JobLoss> {
        let before = self.seconds_a_byte(&job, before_s[0], before_s[1])?;
        let after = self.seconds_a_byte(&job, after_s[0], after_s[1])?;
        let bytes = self.bytes_at(&job, after_s[1])? - self.bytes_at(&job, after_s[0])?;
        // What its processes spend side by side passes at once.
        let at_once = self.at_once(&job, [before_s[0], after_s[1]])?;
        let share = bytes as f64 / (at_once * (after_s[1] - after_s[0]).max(1e-9));
        let error = (before * self.relative_error(&job, before_s)?)
            .hypot(after * self.relative_error(&job, after_s)?);
        let (time, io_change) = ((after - before) * share, after / before - 1.0);
        Some(JobLoss { job, time, error: error * share, io_change })
    }

    /// How many processes of a job are in I/O at once while it is, at least.
    fn at_once(&self, key: &str, [from_s, to_s]: [f64; 2]) -> Option<f64> {
        let (from, to) = (self.sample_at(key, from_s)?, self.sample_at(key, to_s)?);
        let n_processes = f64::from(self.jobs.get(key)?.n_processes.max(1));
        let wall_io_s = to.wall_io_s - from.wall_io_s;
        Some(if wall_io_s > 0.0 { ((to.io_s - from.io_s) / wall_io_s).clamp(1.0, n_processes) } else { 1.0 })
    }

    fn samples(&self, key: &str) -> Option<&VecDeque<Sample>> {
        self.jobs.get(key).map(|past| &past.samples)
    }

    /// The last sample up to a time: each stands for what was before it.
    fn sample_at(&self, key: &str, at_s: f64) -> Option<&Sample> {
        self.samples(key)?.iter().rfind(|sample| sample.at_s <= at_s)
    }

    fn bytes_at(&self, key: &str, at_s: f64) -> Option<u64> {
        self.sample_at(key, at_s).map(|sample| sample.bytes)
    }

    /// How sure the time in I/O for each byte is over a span: the relative standard error over its parts.
    fn relative_error(&self, key: &str, [from_s, to_s]: [f64; 2]) -> Option<f64> {
        let part_s = (to_s - from_s) / Self::N_PARTS as f64;
        let of_part = |n: usize| {
            let part_from_s = from_s + part_s * n as f64;
            self.seconds_a_byte(key, part_from_s, part_from_s + part_s)
        };
        let costs: Vec<f64> = (0..Self::N_PARTS).filter_map(of_part).collect();
        if costs.len() < 3 {
            return None;
        }
        let n = costs.len() as f64;
        let mean = costs.iter().sum::<f64>() / n;
        let variance = costs.iter().map(|cost| (cost / mean - 1.0).powi(2)).sum::<f64>() / (n - 1.0);
        Some((variance / n).sqrt())
    }

    /// How the time from one I/O phase to the next has changed: the geometric mean over jobs. What is within the distance of two samples is none.
    pub fn progress(&self, jobs: &[String], before_s: [f64; 2], after_s: [f64; 2]) -> Option<Effect> {
        let (mut without, mut with, mut n) = (0.0, 0.0, 0.0);
        for key in jobs {
            let [before, after] = [before_s, after_s].map(|span_s| self.beat(key, span_s));
            let (Some((before_s, before_error)), Some((after_s, after_error))) = (before, after) else {
                continue;
            };
            let is_noise = (after_s / before_s - 1.0).abs() <= before_error + after_error;
            without += before_s.ln();
            with += if is_noise { before_s.ln() } else { after_s.ln() };
            n += 1.0;
        }
        let mean = |logs: f64| (logs / n).exp();
        (n > 0.0).then(|| Effect { quantity: Quantity::RunTime, without: mean(without), with: mean(with) })
    }

    /// The mean time from one beginning of I/O to the next within a span, and how far it may be off as a share. `None` if there were not three.
    fn beat(&self, key: &str, [from_s, to_s]: [f64; 2]) -> Option<(f64, f64)> {
        let samples = self.samples(key)?;
        let within = samples.iter().filter(|sample| (from_s..=to_s).contains(&sample.at_s));
        let (mut was_moving, mut last) = (true, None::<&Sample>);
        let (mut begins_s, mut longest_s) = (Vec::new(), 0.0_f64);
        for sample in within {
            if let Some(last) = last {
                let is_moving = sample.bytes > last.bytes;
                if is_moving && !was_moving {
                    begins_s.push(sample.at_s);
                }
                was_moving = is_moving;
                longest_s = longest_s.max(sample.at_s - last.at_s);
            }
            last = Some(sample);
        }
        let (first_s, last_s) = (*begins_s.first()?, *begins_s.last()?);
        let n_beats = begins_s.len() - 1;
        (n_beats >= 2).then(|| ((last_s - first_s) / n_beats as f64, longest_s / (last_s - first_s)))
    }
}
