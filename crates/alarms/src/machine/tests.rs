use std::sync::Arc;

use iotide_analysis::{Parts, Slowdown, Why, WhyVerdict};
use iotide_ledger::alarm::{On, Scope};
use iotide_ledger::{About, Cell, Counters, JobId, Metric, Name};
use iotide_testkit::FreshDir;

use super::*;
use iotide_daemon::collect::NodeReading;
use iotide_daemon::leaf::View;
use iotide_daemon::predict::Expectations;
use iotide_daemon::series::Sampling;
use iotide_daemon::store::SeriesLimits;

const SECOND: u64 = 1_000_000_000;
/// Beyond the time after a start.
const LATER: u64 = 1000;

struct Trial {
    machine: Machine,
    series: Series,
    /// The answer about each job.
    why: Option<Why>,
    _sampling: Sampling,
    _dir: FreshDir,
}

fn name(text: &str) -> Name {
    Name::cut(text.as_bytes())
}

/// A job of a user that has written so much.
fn job(id: &str, uid: u32, written: u64) -> JobView {
    let mut counters = Counters::default();
    let metric = Metric::Io { op: "write".into(), layer: "posix".into(), fs: name("/scratch") };
    counters.add(metric, Cell { calls: 1, bytes: written, ns: 1 });
    JobView {
        key: JobKey { cluster: Name::default(), uid, id: JobId::new(id).unwrap(), start_ns: 5 },
        about: About { user: name(&format!("u{uid}")), name: name("lmp"), ..About::default() },
        counters: Arc::new(counters),
        n_running: 1,
        nodes: Arc::new([]),
        read_bps: 0.0,
        write_bps: 0.0,
    }
}

impl Trial {
    fn new(test: &str, rules: Vec<Rule>) -> Self {
        let dir = FreshDir::new(test);
        let (sampling, series) = Sampling::start(dir.path(), SeriesLimits::default()).unwrap();
        let mut machine = Machine::new(0);
        rules.into_iter().for_each(|rule| machine.add(rule));
        Self { machine, series, why: None, _sampling: sampling, _dir: dir }
    }

    /// Returns the changes in a second: `+rule job` begins, `-rule job why` is over.
    fn second(&mut self, second: u64, jobs: &[JobView]) -> Vec<String> {
        let at_ns = second * SECOND;
        let view = View { at_ns, jobs: jobs.to_vec(), ..View::default() };
        let seen = Seen {
            view: &view,
            node: &NodeReading::default(),
            groups: &[],
            expectations: &Expectations::default(),
            why: &|_| self.why.clone(),
        };
        let mut changes = self.machine.second(at_ns, &seen, &self.series);
        changes.sort_by_key(|change| change.state.name.as_said().to_owned());
        changes.iter().map(said).collect()
    }
}

fn said(change: &Firing) -> String {
    let state = &change.state;
    let job = state.job.as_ref().map_or("all", |job| job.as_said());
    match &state.why {
        None => format!("+{} {job}", state.name.as_said()),
        Some(why) => format!("-{} {job} {why}", state.name.as_said()),
    }
}

#[test]
fn each_job_has_alarms_of_its_own_and_they_end_with_it() {
    let rule = Rule::new("much", "write_bytes > 100").unwrap();
    let mut trial = Trial::new("machine-jobs", vec![rule]);
    assert!(trial.second(LATER, &[job("a", 1, 50), job("b", 2, 101)]) == ["+much b"]);
    assert_eq!(trial.second(LATER + 1, &[job("a", 1, 500), job("b", 2, 102)]), ["+much a"]);
    assert_eq!(trial.machine.firing().len(), 2);
    assert_eq!(trial.second(LATER + 2, &[job("a", 1, 500)]), ["-much b job ended"]);
    assert_eq!(trial.second(LATER + 3, &[job("a", 1, 100)]), ["-much a cleared"]);
    assert!(trial.machine.watches.iter().all(ByTarget::is_empty), "nothing is kept of what is quiet");
}

#[test]
fn a_user_has_a_bounded_number_of_alarms_and_others_begin_all_the_same() {
    let rule = |text: &str, owner: Option<u32>| {
        let mut rule = Rule::new(text, "write_bytes > 1").unwrap();
        rule.owner = owner;
        rule
    };
    let rules = [("a", Some(1)), ("b", Some(1)), ("operator", None), ("victim", Some(2))];
    let mut trial = Trial::new("machine-flood", rules.map(|(name, owner)| rule(name, owner)).into());
    let mut jobs: Vec<JobView> = (0..800).map(|n| job(&format!("j{n}"), 1, 5)).collect();
    jobs.push(job("v", 2, 5));
    let said = trial.second(LATER, &jobs);
    let n_of = |begin: &str| said.iter().filter(|change| change.starts_with(begin)).count();
    assert_eq!((n_of("+a") + n_of("+b"), n_of("+operator"), n_of("+victim")), (MOST_FIRING_OF_USER, 801, 1));
}

#[test]
fn a_users_rule_is_about_their_own_jobs_and_a_scope_about_those_it_names() {
    let rule = |text: &str, owner: Option<u32>, scope: Scope| {
        let mut rule = Rule::new(text, "write_bytes > 1").unwrap().with_scope(On::Job, scope).unwrap();
        rule.owner = owner;
        rule
    };
    let mut trial = Trial::new(
        "machine-scope",
        vec![
            rule("own", Some(2), Scope::default()),
            rule("user", None, Scope { user: Some(name("u1")), ..Scope::default() }),
            rule("app", None, Scope { app: Some(name("other")), ..Scope::default() }),
            rule("job", None, Scope { job: Some(name("b")), app: Some(name("lmp")), ..Scope::default() }),
            // Whatever a user asks for, it is about that user's jobs.
            rule("theirs", Some(2), Scope { user: Some(name("u1")), ..Scope::default() }),
        ],
    );
    let said = trial.second(LATER, &[job("a", 1, 50), job("b", 2, 50)]);
    assert_eq!(said, ["+job b", "+own b", "+user a"]);
}

#[test]
fn jobs_together_are_summed_and_rates_are_known_from_the_second_second_on() {
    let rule = |text: &str, expr: &str| {
        Rule::new(text, expr).unwrap().with_scope(On::Sum, Scope::default()).unwrap()
    };
    let rules = vec![rule("sum", "write_bytes > 100"), rule("rate", "rate(write_bytes) > 10")];
    let mut trial = Trial::new("machine-sum", rules);
    assert!(trial.second(LATER, &[job("a", 1, 60), job("b", 2, 30)]).is_empty());
    assert_eq!(trial.second(LATER + 1, &[job("a", 1, 66), job("b", 2, 36)]), ["+rate all", "+sum all"]);
    // Where nothing runs, nothing is moved.
    assert_eq!(trial.second(LATER + 2, &[]), ["-rate all cleared", "-sum all cleared"]);
    // A restart knows no rates at first, and that ends nothing.
    let mut trial = Trial::new("machine-sum-2", vec![rule("rate", "rate(write_bytes) > 10")]);
    assert!(trial.second(LATER, &[job("a", 1, 0)]).is_empty());
    assert_eq!(trial.second(LATER + 1, &[job("a", 1, 60)]).len(), 1);
    trial.machine.rates = Rates::default();
    assert!(trial.second(LATER + 2, &[job("a", 1, 90)]).is_empty());
    assert!(trial.second(LATER + 3, &[job("a", 1, 120)]).is_empty());
}

#[test]
fn after_a_restart_what_fired_goes_on_and_ends_no_sooner_than_jobs_are_known() {
    let rule = Rule::new("much", "write_bytes > 100").unwrap();
    let mut before = Trial::new("machine-restart", vec![rule.clone()]);
    let at_ns = LATER * SECOND;
    assert_eq!(before.second(LATER, &[job("a", 1, 500)]).len(), 1);
    let target = before.machine.watches[0].keys().next().unwrap().clone();
    let state = before.machine.firing().remove(0);
    let mut after = Trial::new("machine-restart-2", vec![rule]);
    after.machine.started_ns = at_ns;
    after.machine.restore(Firing { target, state: state.clone() });
    assert!(after.second(LATER + 1, &[]).is_empty(), "jobs may not be known yet");
    assert!(after.second(LATER + 2, &[job("a", 1, 500)]).is_empty(), "it is told once");
    assert_eq!(after.second(LATER + 20, &[job("a", 1, 50)]), ["-much a cleared"]);
    // A rule that is deleted ends what fires by it.
    after.machine.restore(Firing { target: "job a".to_owned(), state });
    let name = RuleName::new("much").unwrap();
    let said: Vec<String> = after.machine.delete(at_ns, None, &name).iter().map(said).collect();
    assert_eq!(said, ["-much a rule deleted"]);
    assert!(after.machine.rules().is_empty() && after.machine.delete(at_ns, None, &name).is_empty());
}

#[test]
fn one_rule_fires_on_a_thousand_jobs_and_no_more() {
    let rule = Rule::new("many", "write_bytes > 1").unwrap();
    let mut trial = Trial::new("machine-many", vec![rule]);
    let jobs: Vec<JobView> = (0..MOST_FIRING + 50).map(|n| job(&format!("j{n}"), 1, 50)).collect();
    assert_eq!(trial.second(LATER, &jobs).len(), MOST_FIRING);
    assert_eq!(trial.second(LATER + 1, &jobs).len(), 0);
}

fn slowed(verdict: WhyVerdict, factor: f64, [own, others, storage]: [Option<f64>; 3]) -> Option<Why> {
    Some(Why {
        verdict,
        slowdown: Some(Slowdown { factor, interval: [factor * 0.9, factor * 1.1] }),
        parts: Parts { own, others, storage },
        own_factor: None,
        phases: Vec::new(),
        clues: Vec::new(),
        n_history: 9,
        usual_until: Some(1.12),
        earlier: Vec::new(),
        others: None,
    })
}

#[test]
fn a_slowdown_by_others_fires_where_the_evidence_says_so_and_not_where_it_does_not_tell() {
    let rules = ["slowdown(others) > 2", "slowdown(own) > 2", "slowdown > 3"];
    let rules = rules.iter().enumerate().map(|(n, expr)| Rule::new(&format!("r{n}"), expr).unwrap());
    let mut trial = Trial::new("machine-slowdown", rules.collect());
    let of_others = slowed(WhyVerdict::Mixed, 4.0, [Some(0.2), Some(0.6), Some(0.2)]);
    trial.why = of_others.clone();
    let job = || [job("a", 1, 50)];
    assert!(trial.second(20, &job()).is_empty(), "too young");
    // 4 to the power of 0.6 is 2.3, to that of 0.2 is 1.3.
    assert_eq!(trial.second(60, &job()), ["+r0 a", "+r2 a"]);
    trial.why = slowed(WhyVerdict::Unknown, 2.5, [Some(0.0), None, None]);
    assert!(trial.second(90, &job()).is_empty(), "a job is compared once a minute");
    assert_eq!(trial.second(130, &job()), ["-r2 a cleared"], "what is not known ends no alarm");
    trial.why = slowed(WhyVerdict::Usual, 1.05, [None; 3]);
    assert_eq!(trial.second(200, &job()), ["-r0 a cleared"]);
    trial.why = None;
    assert!(trial.second(270, &job()).is_empty());
    trial.why = of_others;
    let on_all = Rule::new("all", "slowdown(others) > 2").unwrap().with_scope(On::Sum, Scope::default());
    assert!(on_all.unwrap_err().to_string().contains("that of a job"));
}
