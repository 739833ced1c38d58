//! How many jobs shared storage carries: the most that run at once before they slow each other down.
//!
//! Jobs are counted up beside those that are there, each somewhere else in its round, and each template is compared with a job that is alone. [`MostJobs`] says what
//! is run with so many jobs, [`largest_within`] which numbers are tried, and [`MostJobs::in_closed_form`] how the number moves with figures of the storage.

use iotide_num::SplitMix64;

use super::description::{Jobs, System};
use super::mva::{MOST_WORK, alone, closed, round_alone_s};
use super::{Means, SystemError};

/// Work of the closed form where it is asked for many figures: beyond, it is an approximation.
const WORK_OF_MANY: f64 = 1e5;
/// Rounds that are looked at: enough for so many rounds of all jobs together, and no fewer or more for each than these.
const ROUNDS_OF_ALL: f64 = 400.0;
const LEAST_ROUNDS: f64 = 4.0;
const MOST_ROUNDS: f64 = 60.0;
/// Rounds in which queues fill before.
const WARM_UP_ROUNDS: f64 = 3.0;
/// A round of a job without bursts is a request of each process: so many are looked at in the place of one.
const REQUESTS_A_ROUND: f64 = 100.0;
/// Of one run, about.
const TOKENS: f64 = 60_000.0;

/// How much longer than alone something may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// A burst; of jobs without bursts, a request.
    Slowdown(f64),
    /// A whole round: computing, and the burst.
    Stretch(f64),
}

impl Limit {
    /// The largest factor.
    pub fn factor(self) -> f64 {
        match self {
            Self::Slowdown(factor) | Self::Stretch(factor) => factor,
        }
    }
}

/// The question how many more jobs a system carries.
#[derive(Clone, Debug)]
pub struct MostJobs {
    /// The system, whose jobs stay.
    system: System,
    /// Share of each template in the jobs that are counted.
    shares: Vec<f64>,
    /// Jobs beside them, by template.
    beside: Vec<u64>,
    limit: Limit,
}

impl MostJobs {
    /// Jobs of one template, beside those that are there; or of all, mixed as those that are there, or evenly if nobody is.
    pub fn new(system: &System, template: Option<usize>, limit: Limit) -> Result<Self, SystemError> {
        if !system.arrivals.is_empty() || !system.changes.is_empty() {
            return Err(SystemError::Method(
                "how many jobs it carries is a question about jobs that stay: take out arrivals and events",
            ));
        }
        let n = system.templates.len();
        let mut there = vec![0; n];
        for jobs in &system.jobs {
            there[jobs.template] += jobs.count;
        }
        let (shares, beside) = match template {
            Some(template) => ((0..n).map(|t| f64::from(t == template)).collect(), there),
            None if there.iter().all(|count| *count == 0) => (vec![1.0 / n as f64; n], there),
            None => {
                let sum = there.iter().sum::<u64>() as f64;
                (there.iter().map(|count| *count as f64 / sum).collect(), vec![0; n])
            }
        };
        let mut system = System { jobs: Vec::new(), ..system.clone() };
        for template in &mut system.templates {
            template.iterations = None;
        }
        Ok(Self { system, shares, beside, limit })
    }

    /// The system, without jobs.
    pub fn system(&self) -> &System {
        &self.system
    }

    /// The same question about other figures.
    pub fn about(&self, system: System) -> Self {
        Self { system, ..self.clone() }
    }

    /// How many jobs are there beside those that are counted.
    pub fn n_beside(&self) -> u64 {
        self.beside.iter().sum()
    }

    /// So many are carried in any case: nobody slows a job that is alone.
    pub fn least(&self) -> u64 {
        u64::from(self.n_beside() == 0)
    }

    /// All jobs with `n` that are counted, by template: each is as close to its share as whole jobs can be, and none becomes fewer with more jobs (Webster's method).
    pub fn counts(&self, n: u64) -> Vec<u64> {
        let n_kinds = self.shares.iter().filter(|share| **share > 0.0).count() as f64;
        let sure = (n as f64 - 0.5 * n_kinds).max(0.0);
        let mut counts: Vec<u64> =
            self.shares.iter().map(|share| (share * sure + 0.5).floor() as u64).collect();
        for _ in counts.iter().sum::<u64>()..n {
            let claim = |t: &usize| self.shares[*t] / (2.0 * counts[*t] as f64 + 1.0);
            let next = (0..counts.len()).max_by(|a, b| claim(a).total_cmp(&claim(b)).then(b.cmp(a)));
            next.into_iter().for_each(|t| counts[t] += 1);
        }
        counts.iter().zip(&self.beside).map(|(counted, beside)| counted + beside).collect()
    }

    /// Whether jobs that are counted share anything of the storage that takes time.
    pub fn shares_storage(&self) -> bool {
        let (targets, templates) = (&self.system.targets, &self.system.templates);
        let counted = templates.iter().zip(&self.shares).filter(|(_, share)| **share > 0.0);
        let moves_bytes = counted.into_iter().any(|(template, _)| template.request_bytes > 0.0);
        targets.iter().any(|target| target.iops.is_some() || (moves_bytes && target.bandwidth_bps.is_some()))
    }

    /// Seconds of a burst of each template when it is alone; of one without an end, of a request.
    pub fn alone_s(&self) -> Vec<f64> {
        (0..self.system.templates.len())
            .map(|t| {
                let template = &self.system.templates[t];
                let thought_s = if template.requests.is_some() { 0.0 } else { template.think_s };
                alone(&self.system, t).burst_s - thought_s
            })
            .collect()
    }

    /// The same beside others, as means have it; NaN where none ended.
    pub fn burst_s(&self, means: &Means, counts: &[u64]) -> Vec<f64> {
        let of = |(t, count): (usize, &u64)| {
            let template = &self.system.templates[t];
            match template.requests {
                Some(_) => means.burst_s[t],
                // Little's law: what is out is thinking or at the storage.
                None => (*count * template.in_flight()) as f64 / means.iops[t] - template.think_s,
            }
        };
        counts.iter().enumerate().map(of).collect()
    }

    /// By template: how many times as long as alone it takes what the limit is about; NaN where nobody is there, infinite where nothing ended.
    pub fn factors(&self, burst_s: &[f64], alone_s: &[f64], counts: &[u64], limit: Limit) -> Vec<f64> {
        let of = |t: usize| {
            let template = &self.system.templates[t];
            let between_s = match limit {
                Limit::Slowdown(_) => 0.0,
                Limit::Stretch(_) if template.requests.is_some() => template.between_s(),
                Limit::Stretch(_) => template.think_s,
            };
            match (counts[t], between_s + alone_s[t]) {
                (0, _) => f64::NAN,
                (_, 0.0) => 1.0,
                _ if burst_s[t].is_nan() => f64::INFINITY,
                (_, alone_s) => (between_s + burst_s[t]) / alone_s,
            }
        };
        (0..counts.len()).map(of).collect()
    }

    /// The largest factor, and of what.
    pub fn limit(&self) -> Limit {
        self.limit
    }

    /// Means of the long run with `n` jobs, in closed form.
    pub fn long_run(&self, n: u64) -> Means {
        self.computed(n, MOST_WORK)
    }

    fn computed(&self, n: u64, most_work: f64) -> Means {
        let n_jobs: Vec<f64> = self.counts(n).iter().map(|count| *count as f64).collect();
        closed(&self.system, &n_jobs, most_work).means
    }

    /// The number at which the closed form passes the limit, with its fraction; at most `most`.
    pub fn in_closed_form(&self, most: u64) -> f64 {
        let alone_s = self.alone_s();
        let factor = |n: u64| {
            let counts = self.counts(n);
            let burst_s = self.burst_s(&self.computed(n, WORK_OF_MANY), &counts);
            let factors = self.factors(&burst_s, &alone_s, &counts, self.limit);
            factors.into_iter().filter(|factor| !factor.is_nan()).fold(1.0, f64::max)
        };
        let limit = self.limit.factor();
        let within = |n: u64| Ok::<_, std::convert::Infallible>(n == self.least() || factor(n) <= limit);
        match largest_within(self.least(), most, self.least() + 1, within) {
            Ok(Some(n)) if n < most => n as f64 + passed(factor(n), factor(n + 1), limit),
            Ok(found) => found.unwrap_or(0) as f64,
        }
    }

    /// The system with `n` jobs, each somewhere in its round, and with the time that is looked at.
    pub fn crowd(&self, n: u64, random: &mut SplitMix64) -> System {
        let counts = self.counts(n);
        let mut system = System { frame_s: self.frame_s(&counts), ..self.system.clone() };
        for (template, count) in counts.into_iter().enumerate() {
            let round_s = round_alone_s(&self.system, template);
            system.jobs.extend((0..count).map(|_| Jobs {
                template,
                count: 1,
                start_s: 0.0,
                next_phase_s: Some(random.unit() * round_s),
            }));
        }
        system
    }

    /// A job of one template that is alone, for as long as one is looked at.
    pub fn one(&self, template: usize) -> System {
        let counts: Vec<u64> = (0..self.shares.len()).map(|t| u64::from(t == template)).collect();
        let jobs = vec![Jobs { template, count: 1, start_s: 0.0, next_phase_s: Some(0.0) }];
        System { frame_s: self.frame_s(&counts), jobs, ..self.system.clone() }
    }

    fn frame_s(&self, counts: &[u64]) -> [f64; 2] {
        let of = |(t, count): (usize, &u64)| match (count, &self.system.templates[t]) {
            (0, _) => 0.0,
            (_, template) if template.requests.is_some() => round_alone_s(&self.system, t),
            _ => REQUESTS_A_ROUND * round_alone_s(&self.system, t),
        };
        let round_s = counts.iter().enumerate().map(of).fold(0.0, f64::max);
        let n_jobs = counts.iter().sum::<u64>().max(1) as f64;
        let rounds = (ROUNDS_OF_ALL / n_jobs).clamp(LEAST_ROUNDS, MOST_ROUNDS);
        [WARM_UP_ROUNDS * round_s, (WARM_UP_ROUNDS + rounds) * round_s]
    }

    /// Grains with which a run of about `n` jobs takes a bounded time. All numbers have the same, so that they are compared with each other.
    pub fn grains(&self, n: u64) -> Vec<u64> {
        let counts = self.counts(n);
        let n_jobs = counts.iter().sum::<u64>().max(1) as f64;
        let system = System { frame_s: self.frame_s(&counts), ..self.system.clone() };
        system.grains_within(TOKENS * counts.len() as f64 / n_jobs)
    }
}

/// How far from one number to the next the limit is passed.
pub fn passed(below: f64, above: f64, limit: f64) -> f64 {
    let share = (limit - below) / (above - below);
    if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
}

/// The largest number from `least` to `most` that is within a limit, which larger numbers pass; `None` if `least` is not. The search begins at a guess.
pub fn largest_within<E>(
    least: u64,
    most: u64,
    first: u64,
    mut is_within: impl FnMut(u64) -> Result<bool, E>,
) -> Result<Option<u64>, E> {
    if !is_within(least)? {
        return Ok(None);
    }
    let (mut low, mut high) = (least, None);
    let mut tried = first.clamp(least, most);
    let mut step = (tried / 8).max(1);
    // Numbers grow or shrink from the guess in longer and longer steps, then the gap is halved.
    while high.is_none_or(|high| high - low > 1) && low < most {
        if tried == low || is_within(tried)? {
            low = tried;
        } else {
            high = Some(tried);
        }
        tried = match high {
            None => low.saturating_add(step).min(most),
            Some(high) if low == least && high - low > 2 * step => high - step,
            Some(high) => low + (high - low) / 2,
        };
        step = step.saturating_mul(2);
    }
    Ok(Some(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_finds_the_last_number_within_a_limit_from_any_guess() {
        for (least, most) in [(0, 1000), (1, 1000), (1, 2)] {
            for last in [0, 1, 2, 3, 17, 999, 1000, 5000] {
                for first in [0, 1, 2, 16, 18, 500, 1000, 9000] {
                    let mut n_tried = 0;
                    let found = largest_within(least, most, first, |n| {
                        n_tried += 1;
                        Ok::<_, SystemError>(n <= last)
                    });
                    let expected = (last >= least).then_some(last.min(most));
                    assert_eq!(found, Ok(expected), "{least} to {most}, {last} from {first}");
                    assert!(n_tried <= 22, "{n_tried}: {last} from {first}");
                }
            }
        }
    }

    fn question(template: &str, rest: &str, limit: Limit) -> MostJobs {
        let text = format!(
            r#"{{"storage": {{"targets": [{{"bandwidth_bps": 100}}]}}, "templates": [{template}]{rest}}}"#
        );
        MostJobs::new(&System::from_json(&text).unwrap(), None, limit).unwrap()
    }

    #[test]
    fn a_mix_grows_by_whole_jobs_and_nobody_leaves_it() {
        let kinds = ["a", "b", "c"]
            .map(|name| format!(r#"{{"name": "{name}", "requests": null, "request_bytes": 1}}"#));
        let jobs =
            r#", "jobs": [{"template": "a", "count": 6}, {"template": "b", "count": 3}, {"template": "c"}]"#;
        let mix = question(&kinds.join(","), jobs, Limit::Slowdown(1.1));
        let mut before = vec![0; 3];
        for n in 1..200 {
            let counts = mix.counts(n);
            assert_eq!(counts.iter().sum::<u64>(), n);
            assert!(
                counts.iter().zip(&before).all(|(now, before)| now >= before),
                "{n}: {counts:?} after {before:?}"
            );
            before = counts;
        }
        assert_eq!((mix.counts(10), mix.counts(1)), (vec![6, 3, 1], vec![1, 0, 0]));
    }

    /// The largest number of customers of one server, a burst of which takes `burst_s` alone, that are held up by no more than a factor: mean value analysis by hand.
    fn by_hand(compute_s: f64, burst_s: f64, factor: f64) -> u64 {
        let (mut n, mut queue) = (0, 0.0);
        loop {
            let response_s = burst_s * (1.0 + queue);
            if response_s > factor * burst_s {
                return n;
            }
            n += 1;
            queue = response_s * n as f64 / (compute_s + response_s);
        }
    }

    #[test]
    fn one_server_carries_as_many_jobs_as_mean_value_analysis_has_it() {
        for (compute_s, factor, expected) in
            [(9.0, 1.15, 2), (99.0, 1.105, 10), (99.0, 2.0, 52), (999.0, 1.5, 334)]
        {
            assert_eq!(by_hand(compute_s, 1.0, factor), expected);
            let template =
                format!(r#"{{"name": "a", "compute_s": {compute_s}, "requests": 100, "request_bytes": 1}}"#);
            let found = question(&template, "", Limit::Slowdown(factor)).in_closed_form(100_000);
            assert_eq!(found.floor() as u64, expected, "{found}");
        }
    }

    #[test]
    fn runs_take_as_long_as_the_closed_form_says_because_sharing_does_not_ask_for_distributions() {
        let template = r#"{"name": "a", "compute_s": 19, "requests": 100, "request_bytes": 1}"#;
        let question = question(template, "", Limit::Slowdown(1.2));
        let n = question.in_closed_form(1000).floor() as u64;
        assert_eq!(n, by_hand(19.0, 1.0, 1.2));
        let settings = super::super::Settings { grain: Some(1), interval_s: None, most_events: None };
        let mut random = SplitMix64::new(1);
        let runs = 40;
        let took_s: f64 = (0..runs)
            .map(|seed| {
                let run = super::super::simulate(&question.crowd(n, &mut random), &settings, seed).unwrap();
                run.frame.burst_s[0]
            })
            .sum();
        let expected_s = question.long_run(n).burst_s[0];
        assert!((took_s / runs as f64 / expected_s - 1.0).abs() < 0.02, "{took_s} {expected_s}");
    }

    #[test]
    fn faster_storage_and_smaller_bursts_never_carry_fewer() {
        let mut random = SplitMix64::new(3);
        for _ in 0..40 {
            let mut between = |from: f64, to: f64| from * (to / from).powf(random.unit());
            let kind = |name: &str, compute_s: f64, requests: f64, processes: f64| {
                format!(
                    r#"{{"name": "{name}", "compute_s": {compute_s}, "requests": {}, "processes": {}, "request_bytes": 1e6}}"#,
                    requests.round(),
                    processes.round()
                )
            };
            let kinds = [
                kind("a", between(5.0, 500.0), between(10.0, 1e4), between(1.0, 64.0)),
                kind("b", between(5.0, 500.0), between(10.0, 1e4), between(1.0, 64.0)),
            ];
            let (bandwidth_bps, stream_bps) = (between(1e8, 1e10), between(1e8, 1e9));
            let factor = between(1.05, 3.0);
            let carried = |scale: f64, bytes: f64, limit: Limit| {
                let text = format!(
                    r#"{{"storage": {{"targets": [{{"bandwidth_bps": {}, "stream_bps": {stream_bps}}}]}}, "templates": [{}]}}"#,
                    scale * bandwidth_bps,
                    kinds.join(",")
                );
                let mut system = System::from_json(&text).unwrap();
                system.templates.iter_mut().for_each(|template| template.request_bytes *= bytes);
                MostJobs::new(&system, None, limit).unwrap().in_closed_form(100_000)
            };
            for limit in [Limit::Slowdown(factor), Limit::Stretch(factor)] {
                let now = carried(1.0, 1.0, limit);
                let (faster, smaller) = (carried(2.0, 1.0, limit), carried(1.0, 0.5, limit));
                assert!(faster >= now && smaller >= now, "{limit:?}: {now}, {faster}, {smaller}: {kinds:?}");
            }
        }
    }

    #[test]
    fn what_shares_nothing_is_not_limited() {
        let shares = |target: &str, bytes: u32| {
            let text = format!(
                r#"{{"storage": {{"targets": [{target}]}}, "templates": [{{"name": "a", "compute_s": 5, "requests": 4, "think_s": 0.1, "request_bytes": {bytes}}}]}}"#
            );
            let system = System::from_json(&text).unwrap();
            MostJobs::new(&system, None, Limit::Slowdown(1.1)).unwrap().shares_storage()
        };
        assert!(shares(r#"{"bandwidth_bps": 100}"#, 1));
        assert!(!shares(r#"{"bandwidth_bps": 100}"#, 0), "a job without bytes");
        assert!(!shares(r#"{"stream_bps": 100}"#, 1), "each stream has its own");
        assert!(shares(r#"{"iops": 100}"#, 0), "operations without bytes");
    }
}
