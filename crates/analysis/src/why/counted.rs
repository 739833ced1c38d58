//! Runs of which only counters are known: how many calls of each kind all processes made between two samples, and how long these took.

use iotide_trace::{Loss, Op};

use super::load::{LoadGrid, ServerLoad};
use super::phases::{Request, RunFacts, RunRequests};
use super::plan::LoadPlan;
use super::{Why, why};

/// The calls of one kind that ended between two samples, of all processes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CountedCalls {
    /// Kind of call.
    pub op: Op,
    /// The sample before, on the clock of the run.
    pub from_s: f64,
    /// The sample.
    pub until_s: f64,
    /// How many calls ended.
    pub calls: f64,
    /// Bytes they moved.
    pub bytes: f64,
    /// How long they took, added up over processes.
    pub seconds: f64,
}

/// A run as a daemon counted it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunCounts {
    /// When the clock of the run was zero, since 1970.
    pub zero_unix_s: Option<f64>,
    /// How long the run took.
    pub run_s: Option<f64>,
    /// How far apart samples are.
    pub period_s: f64,
    /// Whether the run goes on: its calls so far are not all of them.
    pub goes_on: bool,
    /// Calls that were counted, by time.
    pub calls: Vec<CountedCalls>,
}

impl RunCounts {
    /// The most calls that were under way at once, at least one: the sum of their time over the time in which they were made.
    ///
    /// A call counts when it ends; one that took longer than a sample was under way before it, too.
    pub fn concurrency(&self) -> f64 {
        let period_s = self.period_s.max(1e-9);
        let mut edges: Vec<(f64, f64)> = Vec::with_capacity(2 * self.calls.len());
        for counted in self.calls.iter().filter(|counted| counted.seconds > 0.0) {
            let each_s = counted.seconds / counted.calls.max(1.0);
            let from_s = (counted.until_s - each_s.max(period_s)).min(counted.from_s);
            let at_once = counted.seconds / (counted.until_s - from_s);
            edges.extend([(from_s, at_once), (counted.until_s, -at_once)]);
        }
        // What ends comes before what begins at the same time.
        edges.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let (mut now, mut most) = (0.0_f64, 1.0_f64);
        for (_, change) in edges {
            now += change;
            most = most.max(now);
        }
        most
    }

    /// How long the mean call that moves data took, in the sample in which it took longest.
    pub fn longest_call_s(&self) -> f64 {
        let data = self.calls.iter().filter(|counted| counted.op.moves_data() && counted.calls > 0.0);
        data.map(|counted| counted.seconds / counted.calls).fold(0.0, f64::max)
    }

    /// Returns requests that stand for what was counted: those of a sample one after the other, until it was taken.
    ///
    /// `concurrency` is how many are taken to be under way at once; runs that are compared need the same. Sums over processes do not say
    /// whether fewer of them did the work.
    pub fn requests(&self, concurrency: f64) -> RunRequests {
        let mut requests = Vec::with_capacity(self.calls.len());
        let mut rest = self.calls.as_slice();
        while let Some(first) = rest.first() {
            let n = rest.iter().take_while(|counted| counted.until_s == first.until_s).count();
            let (sample, later) = rest.split_at(n);
            rest = later;
            let mut end_s = first.until_s;
            for counted in sample.iter().rev().filter(|counted| counted.calls >= 1.0) {
                let start_s = end_s - counted.seconds / concurrency;
                requests.push(Request {
                    op: counted.op,
                    rank: 0,
                    start_s,
                    end_s,
                    bytes: counted.bytes,
                    calls: counted.calls,
                });
                end_s = start_s;
            }
        }
        // Pauses that samples cannot show part no phases.
        let (least_pause_s, goes_on) = (self.period_s, self.goes_on);
        RunRequests { zero_unix_s: self.zero_unix_s, run_s: self.run_s, least_pause_s, goes_on, requests }
    }

    /// How long a value of the load should hold beside the run, where one counter has both.
    ///
    /// A call counts when it ends. Over steps of a few calls that does not matter.
    pub fn load_step_s(&self) -> f64 {
        let longest_s = self.longest_call_s();
        if longest_s > 0.25 { (4.0 * longest_s).ceil().min(60.0) } else { 1.0 }
    }
}

/// A counted run is compared with so many earlier ones, the latest.
pub const MOST_EARLIER: usize = 30;

/// Chooses earlier runs that a counted run can be compared with: those of the same arguments, else of the same program, with as many processes.
/// Returns what the choice lacks, too.
pub fn comparable<R, E>(
    same_arguments: Vec<R>,
    same_program: impl FnOnce() -> Result<Vec<R>, E>,
    is_same_size: impl Fn(&R) -> bool,
) -> Result<(Vec<R>, Vec<Loss>), E> {
    let mut losses = vec![Loss::of_unknown_size(
        "counters are sums over processes: whether fewer of them did the work is not seen",
    )];
    let mut before = same_arguments;
    if before.is_empty() {
        before = same_program()?;
        if !before.is_empty() {
            losses.push(Loss::of_unknown_size(
                "no earlier run had the same arguments: runs of the same program with others are compared with",
            ));
        }
    }
    let (same, others): (Vec<R>, Vec<R>) = before.into_iter().partition(is_same_size);
    if !others.is_empty() {
        losses.push(Loss::of_unknown_size(format!(
            "{} earlier runs with other numbers of processes are not compared with",
            others.len()
        )));
    }
    Ok((same, losses))
}

/// A counted run and earlier ones, ready to be laid beside the load that the same counter saw.
#[derive(Clone, Debug)]
pub struct CountedComparison {
    /// The run in question, then earlier ones.
    runs: Vec<RunFacts>,
    step_s: f64,
}

impl CountedComparison {
    /// Reduces runs; `None` if the one in question has no I/O.
    pub fn of(run: &RunCounts, earlier: &[RunCounts]) -> Option<Self> {
        let all = || std::iter::once(run).chain(earlier);
        let concurrency = all().map(RunCounts::concurrency).fold(1.0, f64::max);
        let step_s = run.load_step_s();
        let grid = Some(LoadGrid::of_step(step_s));
        let runs: Vec<RunFacts> = all().map(|run| RunFacts::of(run.requests(concurrency), grid)).collect();
        (!runs[0].phases.is_empty()).then_some(Self { runs, step_s })
    }

    /// For which times the load is needed.
    pub fn plan(&self) -> Option<LoadPlan> {
        LoadPlan::around(self.runs.iter(), self.step_s)
    }

    /// Compares, beside a load that lies on the grid of the plan.
    pub fn judge(mut self, load: Option<&ServerLoad>) -> Why {
        if let Some(load) = load {
            let from = LoadGrid::of_step(self.step_s);
            self.runs.iter_mut().for_each(|run| run.rebase(from, load.grid.start_s));
        }
        why(&self.runs[0], &self.runs[1..], load)
    }
}

#[cfg(test)]
mod tests {
    use iotide_num::SplitMix64;
    use proptest::prelude::*;

    use super::super::{RunFacts, Verdict, why};
    use super::*;

    /// Counts the calls of requests as they end, once a second.
    fn count(run: &RunRequests) -> RunCounts {
        let mut calls: Vec<CountedCalls> = Vec::new();
        for request in &run.requests {
            let until_s = request.end_s.floor() + 1.0;
            let of = |counted: &&mut CountedCalls| counted.op == request.op && counted.until_s == until_s;
            let seconds = request.end_s - request.start_s;
            match calls.iter_mut().find(of) {
                Some(counted) => {
                    counted.calls += 1.0;
                    counted.bytes += request.bytes;
                    counted.seconds += seconds;
                }
                None => calls.push(CountedCalls {
                    op: request.op,
                    from_s: until_s - 1.0,
                    until_s,
                    calls: 1.0,
                    bytes: request.bytes,
                    seconds,
                }),
            }
        }
        calls.sort_by(|a, b| a.until_s.total_cmp(&b.until_s).then(a.op.cmp(&b.op)));
        RunCounts { zero_unix_s: run.zero_unix_s, run_s: run.run_s, period_s: 1.0, goes_on: false, calls }
    }

    /// Three ranks, six phases, each of an open and `n` writes of 0.1 s that take `slow` times as long.
    fn run(day: u64, n: usize, slow: f64) -> RunRequests {
        let mut random = SplitMix64::new(day);
        let mut requests = Vec::new();
        let mut at_s = 1.0;
        for _ in 0..6 {
            let mut end_s: f64 = at_s;
            for rank in 0..3 {
                let mut now_s = at_s;
                for i in 0..=n {
                    let (op, bytes, takes_s) =
                        if i == 0 { (Op::Open, 0.0, 0.004) } else { (Op::Write, 4e6, 0.1) };
                    let until_s = now_s + takes_s * slow * (0.05 * random.normal()).exp();
                    requests.push(Request { op, rank, start_s: now_s, end_s: until_s, bytes, calls: 1.0 });
                    now_s = until_s;
                }
                end_s = end_s.max(now_s);
            }
            at_s = end_s + 15.0;
        }
        let zero_unix_s = Some(1.7e9 + day as f64 * 86_400.0);
        RunRequests { zero_unix_s, run_s: Some(at_s), requests, ..RunRequests::default() }
    }

    fn asked(counts: &[RunCounts], concurrency: f64) -> super::super::Why {
        let facts: Vec<RunFacts> =
            counts.iter().map(|counts| RunFacts::of(counts.requests(concurrency), None)).collect();
        why(&facts[0], &facts[1..], None)
    }

    fn with_history(of: &RunRequests) -> Vec<RunCounts> {
        std::iter::once(count(of)).chain((0..8).map(|day| count(&run(day, 60, 1.0)))).collect()
    }

    #[test]
    fn counters_tell_what_the_trace_tells() {
        for (of, verdict, factor) in [
            (run(20, 60, 1.0), Verdict::Usual, 1.0),
            (run(20, 120, 1.0), Verdict::Own, 2.0),
            (run(20, 60, 2.5), Verdict::Unknown, 2.5),
        ] {
            let counts = with_history(&of);
            let concurrency = counts.iter().map(RunCounts::concurrency).fold(1.0, f64::max);
            assert!((2.7..3.5).contains(&concurrency), "three ranks: {concurrency}");
            let why = asked(&counts, concurrency);
            let found = why.slowdown.unwrap().factor;
            assert!(why.verdict == verdict && (found / factor).ln().abs() < 0.05, "{found} {why:?}");
            assert_eq!(why.phases.len(), 6);
        }
    }

    #[test]
    fn what_a_run_that_goes_on_has_not_done_yet_is_not_less() {
        let mut counts = with_history(&run(20, 60, 2.5));
        let judged =
            |counts: &[RunCounts]| CountedComparison::of(&counts[0], &counts[1..]).unwrap().judge(None);
        assert_eq!(
            judged(&counts),
            asked(&counts, counts.iter().map(RunCounts::concurrency).fold(1.0, f64::max))
        );
        let half = counts[0].calls.len() / 2;
        counts[0].calls.truncate(half);
        let factor = |counts: &[RunCounts]| judged(counts).slowdown.unwrap().factor;
        assert!((factor(&counts) / 1.25).ln().abs() < 0.1, "half of it is all: {}", factor(&counts));
        counts[0].goes_on = true;
        assert!((factor(&counts) / 2.5).ln().abs() < 0.05, "half of it so far: {}", factor(&counts));
        counts[0].calls.clear();
        assert!(CountedComparison::of(&counts[0], &counts[1..]).is_none(), "nothing was moved yet");
    }

    #[test]
    fn calls_longer_than_a_sample_are_under_way_before_it() {
        let long = |until_s: f64, seconds: f64| CountedCalls {
            op: Op::Write,
            from_s: until_s - 1.0,
            until_s,
            calls: 2.0,
            bytes: 8e6,
            seconds,
        };
        let counts =
            RunCounts { period_s: 1.0, calls: vec![long(5.0, 8.0), long(9.0, 8.0)], ..RunCounts::default() };
        assert_eq!(counts.concurrency(), 2.0);
        let facts = RunFacts::of(counts.requests(2.0), None);
        assert_eq!((facts.io_s(), facts.phases.len()), (8.0, 1));
    }

    proptest! {
        #[test]
        fn requests_have_the_bytes_calls_and_time_of_the_counters(
            samples in prop::collection::vec((1_u32..50, 1.0..1e9, 0.001..3.0, 1_u32..4), 1..40),
            concurrency in 1.0..64.0,
        ) {
            let mut at_s = 0.0;
            let calls: Vec<CountedCalls> = samples.into_iter().map(|(calls, bytes, seconds, pause)| {
                let from_s = at_s;
                at_s += f64::from(pause);
                let calls = f64::from(calls);
                CountedCalls { op: Op::Write, from_s, until_s: at_s, calls, bytes, seconds }
            }).collect();
            let counts = RunCounts { period_s: 1.0, calls, ..RunCounts::default() };
            let requests = counts.requests(concurrency).requests;
            let sum = |of: fn(&CountedCalls) -> f64| counts.calls.iter().map(of).sum::<f64>();
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-6 * b;
            prop_assert!(near(requests.iter().map(|one| one.bytes).sum(), sum(|one| one.bytes)));
            prop_assert!(near(requests.iter().map(|one| one.calls).sum(), sum(|one| one.calls)));
            let seconds: f64 = requests.iter().map(|one| one.end_s - one.start_s).sum();
            prop_assert!(near(seconds * concurrency, sum(|one| one.seconds)));
            prop_assert!(counts.concurrency() >= 1.0);
        }

        #[test]
        fn how_many_calls_are_taken_to_be_at_once_changes_no_factor(more in 1.0..16.0, slow in 1.0..3.0) {
            let counts = with_history(&run(20, 60, slow));
            let most = counts.iter().map(RunCounts::concurrency).fold(1.0, f64::max);
            let (one, other) = (asked(&counts, most), asked(&counts, most * more));
            prop_assert_eq!(one.verdict, other.verdict);
            let factor = |why: &super::super::Why| why.slowdown.map_or(0.0, |slowdown| slowdown.factor);
            prop_assert!((factor(&one) / factor(&other)).ln().abs() < 0.01, "{} and {}", factor(&one), factor(&other));
        }
    }
}
