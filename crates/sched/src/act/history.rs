//! What jobs have moved and how long it took them, over the last minutes: by it the effect of a decision is measured.

use std::collections::{HashMap, HashSet, VecDeque};

use super::{Effect, JobFacts, Quantity};

/// What a job had done at some time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// When.
    pub at_s: f64,
    /// Bytes it had read and written.
    pub bytes: u64,
    /// How long it had been in the calls.
    pub io_s: f64,
}

/// Samples of jobs.
#[derive(Clone, Debug, Default)]
pub struct History {
    jobs: HashMap<String, VecDeque<Sample>>,
}

impl History {
    /// Samples of a job; with one every two seconds, the last half hour.
    const MOST_SAMPLES: usize = 1024;
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
            let samples = self.jobs.entry(key).or_default();
            // Counters that go back are those of another job of the name.
            if samples.back().is_some_and(|last| last.bytes > job.bytes || last.at_s >= now_s) {
                samples.clear();
            }
            if samples.len() == Self::MOST_SAMPLES {
                samples.pop_front();
            }
            samples.push_back(Sample { at_s: now_s, bytes: job.bytes, io_s: job.io_s });
        }
    }

    /// Bytes per second of some jobs together, from one sample to the next, where that was highest.
    pub fn highest_bps(&self, jobs: &[&str]) -> Option<f64> {
        let mut rates: HashMap<u64, f64> = HashMap::new();
        for samples in jobs.iter().filter_map(|key| self.jobs.get(*key)) {
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
        let samples = self.jobs.get(key)?;
        // Every sample stands for what was before it.
        let from = samples.iter().rfind(|sample| sample.at_s <= from_s)?;
        let to = samples.iter().rfind(|sample| sample.at_s <= to_s)?;
        let bytes = to.bytes.checked_sub(from.bytes).filter(|bytes| *bytes > 0)?;
        Some((to.io_s - from.io_s).max(0.0) / bytes as f64).filter(|cost| *cost > 0.0)
    }

    /// Whether a job has read or written since some time.
    pub fn has_moved_since(&self, key: &str, from_s: f64) -> bool {
        let Some(samples) = self.jobs.get(key) else { return false };
        let before = samples.iter().rfind(|sample| sample.at_s <= from_s).map_or(0, |sample| sample.bytes);
        samples.back().is_some_and(|last| last.bytes > before)
    }

    /// Since when a job is seen.
    pub fn since_s(&self, key: &str) -> Option<f64> {
        self.jobs.get(key)?.front().map(|sample| sample.at_s)
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
}
