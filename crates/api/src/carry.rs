//! How many jobs shared storage carries before they slow each other down.

use std::collections::BTreeMap;

use iotide_num::{SplitMix64, mean};
use iotide_report::{CarryReport, CarryRuns, CarryStep};
use iotide_sim::system::{
    Limit, Means, MostJobs, Settings, System, SystemError, largest_within, passed, saturation,
    simulate_in_grains,
};

use crate::system::{checked, in_parallel, random_of};
use crate::{Error, NamedSystem, SystemMethod, SystemOptions};

/// More jobs are not tried: event by event, and in closed form.
const MOST_SIMULATED: u64 = 2_000;
const MOST_COMPUTED: u64 = 1_000_000;
/// The closed form of other figures says how the number moves with them. It is asked so often.
const DRAWS: usize = 400;

/// Settings of the question how many jobs a system carries.
#[derive(Clone, Debug)]
pub struct CarryOptions {
    /// The template whose jobs are counted; `None`: all, mixed as they are.
    pub template: Option<String>,
    /// How much longer than alone something may take.
    pub limit: Limit,
    /// How it is found.
    pub run: SystemOptions,
}

/// Says how many jobs a system carries before they slow each other down by more than a factor.
pub fn carry(named: &NamedSystem, options: &CarryOptions) -> Result<CarryReport, Error> {
    checked(&options.run)?;
    let factor = options.limit.factor();
    if !(factor > 1.0 && factor.is_finite()) {
        let name = if matches!(options.limit, Limit::Slowdown(_)) { "slowdown" } else { "stretch" };
        let fault = format!("{name} {factor} is not above 1: with others, nothing is faster than alone");
        return Err(Error::Setting { fault });
    }
    let failed = |why: SystemError| Error::System { name: named.name.clone(), why };
    let template = match &options.template {
        None => None,
        Some(name) => {
            Some(named.template(name).map_err(|fault| Error::Setting { fault: format!("carry={fault}") })?)
        }
    };
    let question = MostJobs::new(&named.system, template, options.limit).map_err(failed)?;
    let least = question.least();
    let parts = |found: Option<u64>, most, crossings, steps| CarryRuns {
        source: &named.name,
        question: &question,
        template,
        method: if options.run.method == SystemMethod::Mva { "mva" } else { "ssa" },
        repetitions: options.run.repetitions,
        seed: options.run.seed,
        confidence: options.run.confidence,
        found,
        most,
        crossings,
        steps,
        knee_jobs: knee_jobs(&question, found.unwrap_or(least)),
        at_least: &named.at_least,
        losses: &named.losses,
    };
    let runner = Runner::new(&question, &options.run).map_err(failed)?;
    if !question.shares_storage() {
        return Ok(CarryReport::new(parts(None, runner.most, Vec::new(), Vec::new())));
    }
    let mut steps: BTreeMap<u64, CarryStep> = BTreeMap::new();
    let mut look = |n: u64| {
        if let Some(step) = steps.get(&n) {
            return Ok(step.worst());
        }
        let step = runner.step(n)?;
        let worst = step.worst();
        steps.insert(n, step);
        Ok::<f64, SystemError>(worst)
    };
    // A job that is alone is not slower than alone, whatever chance says.
    let is_within = |n: u64| Ok((n == least && question.n_beside() == 0) || look(n)? <= factor);
    let found = largest_within(least, runner.most, runner.guess as u64, is_within).map_err(failed)?;
    // Half as many jobs, this number, one more and twice as many are shown.
    let n = found.unwrap_or(least);
    look(n).map_err(failed)?;
    if n < runner.most {
        look((n / 2).max(least)).map_err(failed)?;
        look(n + 1).map_err(failed)?;
        look(2 * n.max(1)).map_err(failed)?;
    }
    let crossings = match found {
        Some(n) if n < runner.most => {
            let (below, above) = (&steps[&n], &steps[&(n + 1)]);
            let crossing = n as f64 + passed(below.worst(), above.worst(), factor);
            runner.crossings(crossing, above.error_of_worst())
        }
        _ => Vec::new(),
    };
    Ok(CarryReport::new(parts(found, runner.most, crossings, steps.into_values().collect())))
}

/// Returns the number of jobs, mixed as `n` of them are, that keeps the storage fully busy.
fn knee_jobs(question: &MostJobs, n: u64) -> Option<f64> {
    let crowd = question.crowd(n.max(1), &mut SplitMix64::new(0));
    saturation(&crowd).map(|clogs| clogs.knee_jobs).filter(|jobs| jobs.is_finite())
}

/// Runs with any number of jobs, all with the same chances and figures.
struct Runner<'a> {
    question: &'a MostJobs,
    options: &'a SystemOptions,
    grains: Vec<u64>,
    /// By repetition: the question with its figures, and by template how long a burst takes alone.
    drawn: Vec<(MostJobs, Vec<f64>)>,
    most: u64,
    /// The number in closed form.
    guess: f64,
}

impl<'a> Runner<'a> {
    fn new(question: &'a MostJobs, options: &'a SystemOptions) -> Result<Self, SystemError> {
        let most = match options.method {
            SystemMethod::Ssa => MOST_SIMULATED,
            SystemMethod::Mva => MOST_COMPUTED,
            SystemMethod::MeanField => {
                return Err(SystemError::Method(
                    "mean-field knows no queues that chance alone fills, so it does not know how many jobs there may be; ssa and mva do",
                ));
            }
        };
        let guess = question.in_closed_form(most);
        let grains = match options.grain {
            Some(0) => return Err(SystemError::Grain),
            Some(grain) => vec![grain; question.system().templates.len()],
            None => question.grains((2.0 * guess).min(most as f64) as u64),
        };
        let mut runner = Self { question, options, grains, drawn: Vec::new(), most, guess };
        let corrections = match options.method {
            SystemMethod::Ssa => runner.corrections()?,
            _ => vec![1.0; question.system().templates.len()],
        };
        let repetitions = if options.method == SystemMethod::Ssa { options.repetitions } else { 1 };
        runner.drawn = (0..repetitions)
            .map(|repetition| {
                let system = match options.method {
                    SystemMethod::Ssa => runner.drawn_system(repetition),
                    _ => question.system().clone(),
                };
                let about = question.about(system);
                let alone_s = about.alone_s().iter().zip(&corrections).map(|(a, b)| a * b).collect();
                (about, alone_s)
            })
            .collect();
        Ok(runner)
    }

    fn drawn_system(&self, repetition: usize) -> System {
        let system = self.question.system();
        if system.is_uncertain() {
            system.drawn(&mut random_of(self.options.seed, repetition))
        } else {
            system.clone()
        }
    }

    /// By template: how much longer a burst takes alone in runs than in closed form, which takes all that a burst does for one piece of work.
    fn corrections(&self) -> Result<Vec<f64>, SystemError> {
        let alone_s = self.question.alone_s();
        (alone_s.iter().enumerate())
            .map(|(template, alone_s)| {
                let system = self.question.one(template);
                let counts: Vec<u64> = (0..self.grains.len()).map(|t| u64::from(t == template)).collect();
                let took_s = self.each(|_, random| {
                    let means = self.run(&system, random.next())?;
                    Ok(self.question.burst_s(&means, &counts)[template])
                })?;
                Ok(if *alone_s > 0.0 { mean(&took_s) / alone_s } else { 1.0 })
            })
            .collect()
    }

    fn each<T: Clone + Send>(
        &self,
        run: impl Fn(usize, &mut SplitMix64) -> Result<T, SystemError> + Sync,
    ) -> Result<Vec<T>, SystemError> {
        in_parallel(self.options, |repetition| {
            // Other chances than those of the figures.
            let mut random = random_of(!self.options.seed, repetition);
            run(repetition, &mut random)
        })
    }

    fn run(&self, system: &System, seed: u64) -> Result<Means, SystemError> {
        let settings = Settings { grain: None, interval_s: None, most_events: None };
        Ok(simulate_in_grains(system, &settings, &self.grains, seed)?.frame)
    }

    /// With `n` jobs that are counted.
    fn step(&self, n: u64) -> Result<CarryStep, SystemError> {
        let counts = self.question.counts(n);
        let of = |(question, alone_s): &(MostJobs, Vec<f64>), means: &Means| {
            let burst_s = question.burst_s(means, &counts);
            let factors = |limit| question.factors(&burst_s, alone_s, &counts, limit);
            (factors(Limit::Slowdown(1.0)), factors(Limit::Stretch(1.0)))
        };
        let means = match self.options.method {
            SystemMethod::Ssa => self.each(|repetition, random| {
                let system = self.drawn[repetition].0.crowd(n, random);
                self.run(&system, random.next())
            })?,
            _ => vec![self.question.long_run(n)],
        };
        let found = self.drawn.iter().zip(&means).map(|(drawn, means)| of(drawn, means));
        let (slowdowns, stretches) = found.unzip();
        Ok(CarryStep { n, slowdowns, stretches, means, limit: self.question.limit() })
    }

    /// The number as it may be: figures that are not exactly known move it as the closed form says, and the mean of the runs has an error.
    fn crossings(&self, crossing: f64, error: f64) -> Vec<f64> {
        let question = self.question;
        let (least, beside) = (question.least() as f64, question.n_beside() as f64);
        let (is_drawn, limit) = (question.system().is_uncertain(), question.limit().factor());
        // A further job slows the others down by at least as much as each of the first ones.
        let jobs_of_error = error / (limit - 1.0) * (crossing + beside - 1.0).max(0.0);
        if !is_drawn && jobs_of_error == 0.0 {
            return Vec::new();
        }
        // Less than a job is too little to divide by.
        let scale = if self.guess > least + 1.0 { (crossing - least) / (self.guess - least) } else { 1.0 };
        let draw = |draw: usize| {
            let mut random = random_of(self.options.seed, draw);
            let moved = if is_drawn {
                let drawn = question.about(question.system().drawn(&mut random));
                scale * (drawn.in_closed_form(self.most) - self.guess)
            } else {
                0.0
            };
            (crossing + moved + jobs_of_error * random.normal()).clamp(least, self.most as f64)
        };
        (0..DRAWS).map(draw).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One server whose jobs compute so long and then do a burst of a second.
    fn named(compute_s: f64, speed: f64, rest: &str) -> NamedSystem {
        let text = format!(
            r#"{{"storage": {{"targets": [{{"bandwidth_bps": {} {rest}}}]}},
                "templates": [{{"name": "a", "compute_s": {compute_s}, "processes": 4, "requests": 400, "request_bytes": 1}}]}}"#,
            400.0 * speed
        );
        NamedSystem::from_json("made", &text).unwrap_or_else(|why| panic!("{why}"))
    }

    fn asked(named: &NamedSystem, limit: Limit, method: SystemMethod, seed: u64) -> CarryReport {
        let run = SystemOptions { method, seed, repetitions: 20, ..SystemOptions::default() };
        carry(named, &CarryOptions { template: None, limit, run }).unwrap_or_else(|why| panic!("{why}"))
    }

    /// How many customers of one server are held up by no more than a factor: mean value analysis by hand, which is exact where a server is shared evenly.
    fn truth(compute_s: f64, factor: f64) -> u64 {
        let (mut n, mut queue) = (0, 0.0);
        while 1.0 + queue <= factor {
            n += 1;
            queue = (1.0 + queue) * n as f64 / (compute_s + 1.0 + queue);
        }
        n
    }

    #[test]
    fn runs_find_the_number_of_one_server_that_is_known() {
        let mut n_held = 0;
        let cases = [(49.0, 1.15), (99.0, 1.105), (20.0, 2.0), (30.0, 1.2)];
        for (seed, (compute_s, factor)) in cases.into_iter().enumerate() {
            let named = named(compute_s, 1.0, "");
            let known = truth(compute_s, factor);
            let found = asked(&named, Limit::Slowdown(factor), SystemMethod::Ssa, seed as u64).carry;
            let jobs = found.jobs.unwrap_or(0);
            assert!(
                jobs.abs_diff(known) <= 1 + known / 20,
                "{jobs}, but {known} is known: {compute_s} s, {factor}"
            );
            assert_eq!(
                (found.limited_by, found.bottleneck.as_deref()),
                ("storage", Some("targets[0] bandwidth"))
            );
            let [from, to] = found.interval.unwrap_or([jobs, jobs]);
            n_held += usize::from((from..=to).contains(&known));
            let computed = asked(&named, Limit::Slowdown(factor), SystemMethod::Mva, 0).carry;
            assert_eq!(computed.jobs, Some(known), "in closed form");
            let with = |n: u64| found.steps.iter().find(|step| step.jobs == n).and_then(|step| step.slowdown);
            let mean = |n: u64| with(n).map_or(f64::NAN, |slowdown| slowdown.mean);
            assert!(mean(jobs) <= factor && mean(jobs + 1) > factor && mean(2 * jobs) > mean(jobs + 1));
        }
        assert!(n_held >= 3, "{n_held} of 4 intervals of 90 % hold what is known");
    }

    #[test]
    fn a_full_server_stretches_rounds_by_what_jobs_want_of_it() {
        // 30 jobs fill it; twice as many take twice as long, whatever the order.
        let found = asked(&named(29.0, 1.0, ""), Limit::Stretch(2.0), SystemMethod::Ssa, 1).carry;
        let jobs = found.jobs.unwrap_or(0);
        assert!((58..=61).contains(&jobs), "{jobs}");
        assert!(found.utilization.is_some_and(|busy| busy > 0.98), "{:?}", found.utilization);
        assert!(found.knee_jobs.is_some_and(|knee| (knee - 30.0).abs() < 1e-6), "{:?}", found.knee_jobs);
    }

    #[test]
    fn runs_with_faster_storage_carry_more() {
        for seed in 0..2 {
            let jobs = |speed| {
                asked(&named(40.0, speed, ""), Limit::Slowdown(1.2), SystemMethod::Ssa, seed).carry.jobs
            };
            assert!(jobs(2.0) > jobs(1.0), "{:?} {:?}", jobs(2.0), jobs(1.0));
        }
    }

    #[test]
    fn what_is_not_exactly_known_widens_the_interval() {
        let width = |rest: &str| {
            let found = asked(&named(99.0, 1.0, rest), Limit::Slowdown(1.3), SystemMethod::Mva, 2).carry;
            found.interval.map_or(0, |[from, to]| to - from)
        };
        assert_eq!(width(""), 0, "nothing is drawn, and nothing left to chance");
        let (little, much) =
            (width(r#", "errors": {"bandwidth_bps": 0.05}"#), width(r#", "errors": {"bandwidth_bps": 0.2}"#));
        // The number grows as the bandwidth does: 24 jobs, and 1.645 standard deviations to each side.
        assert!((3..=6).contains(&little), "{little}");
        assert!((13..=20).contains(&much), "{much}");
    }

    #[test]
    fn who_shares_nothing_is_not_limited_and_the_end_of_the_search_is_said() {
        let text = |target: &str| {
            format!(
                r#"{{"storage": {{"targets": [{target}]}}, "templates": [{{"name": "a", "compute_s": 1e9, "requests": 4, "request_bytes": 1}}]}}"#
            )
        };
        let of = |target: &str, method| {
            let named = NamedSystem::from_json("made", &text(target)).unwrap_or_else(|why| panic!("{why}"));
            asked(&named, Limit::Slowdown(1.1), method, 0)
        };
        let free = of(r#"{"stream_bps": 100}"#, SystemMethod::Ssa);
        assert_eq!((free.carry.jobs, free.carry.limited_by), (None, "nothing"));
        assert!(free.verdict().starts_with("the storage does not limit"), "{}", free.verdict());
        let many = of(r#"{"bandwidth_bps": 100}"#, SystemMethod::Mva);
        assert_eq!((many.carry.jobs, many.carry.limited_by), (Some(1_000_000), "search"));
        assert!(many.verdict().contains("jobs or more at once"), "{}", many.verdict());
    }
}
