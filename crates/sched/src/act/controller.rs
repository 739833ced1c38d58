//! The machine that decides, remembers and judges.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::{Change, Decision, Effect, History, JobFacts, JobLoss, Rule, State, Verdict, id_of};

/// By what one can tell what came of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Time in I/O for each byte, of all jobs that share a storage.
    IoTime,
    /// The same says only whether a job suffers; whether it paid, whoever carried it out says when it is over ([`Controller::ended`]).
    Harm,
    /// The time from one I/O phase to the next: how fast a job goes on.
    Progress,
}

/// Something to be done about a decision.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Carry it out.
    Do(Decision),
    /// Take it back.
    Undo(Decision),
}

/// Something that could be decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// The rule that permits it.
    pub rule: usize,
    /// Change it makes.
    pub change: Change,
    /// Evidence it rests on, in words.
    pub evidence: Vec<String>,
    /// Expected effect; `None` if it cannot be estimated.
    pub expected: Option<Effect>,
    /// The shares of their time that jobs are expected to lose by it, by [`JobFacts::key`]; those that gain have negative ones.
    pub expected_losses: Vec<(String, f64)>,
    /// By what one can tell what came of it.
    pub measure: Measure,
    /// The jobs of which that is measured, by [`JobFacts::key`]; empty where whoever carries it out says it ([`Controller::ended`]).
    pub concerned: Vec<String>,
    /// How long it takes until one can tell.
    pub window_s: f64,
}

/// How a rule fares.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleState {
    /// Why it is used no more, if it is not.
    pub stopped: Option<String>,
    /// The changes that its decisions were expected to make, and made: as shares, the latest last.
    pub judged: VecDeque<(Option<f64>, f64)>,
    /// When its decisions of the last hour were taken.
    taken_s: VecDeque<f64>,
    /// Changes that are not proposed again before some time.
    put_off: Vec<PutOff>,
    /// Jobs of which something was taken back, and until when what they do is no baseline for anything else.
    settling: Vec<(String, f64)>,
    /// How long it takes until one can tell of its latest decision.
    window_s: f64,
    /// When harm was counted last.
    harmed_s: Option<f64>,
}

#[derive(Clone, Debug, PartialEq)]
struct PutOff {
    change: Change,
    until_s: f64,
    /// How often it did harm, within an hour each after it could have been tried again.
    n_harms: u32,
}

/// A measurement under way.
#[derive(Clone, Debug)]
struct Trial {
    /// Decisions that are measured: one, or several that followed each other before the effect of the first could be measured.
    ids: Vec<u64>,
    rule: usize,
    measure: Measure,
    concerned: Vec<String>,
    before_s: [f64; 2],
    /// When the first of them was taken.
    begun_s: f64,
    /// Since when all of them are in force.
    from_s: f64,
    until_s: f64,
}

impl Trial {
    /// Restarts the measurement because the decisions in force have changed: only later samples count.
    fn restart(&mut self, now_s: f64) {
        self.until_s += now_s - self.from_s;
        self.from_s = now_s;
    }

    /// Whether a change by a rule changes what it measures: on one storage every decision changes what all jobs get, others concern only their own.
    fn is_touched_by(&self, rule: usize, change: &Change) -> bool {
        let is_shared = self.measure == Measure::IoTime && matches!(change, Change::Periods(_));
        let is_about = |job: &&str| self.concerned.iter().any(|concerned| concerned == job);
        self.rule == rule && (is_shared || change.jobs().iter().any(is_about))
    }
}

/// Decides.
#[derive(Clone, Debug)]
pub struct Controller {
    rules: Vec<Rule>,
    states: Vec<RuleState>,
    is_dry_run: bool,
    decisions: BTreeMap<u64, Decision>,
    next_id: u64,
    history: History,
    trials: Vec<Trial>,
    /// Losses of jobs by decisions that were in force at the last look, where they were no reason to take these back, and when they were measured.
    costs: BTreeMap<u64, (f64, Vec<JobLoss>)>,
    /// Changes of size whose job is not seen, and since when.
    unseen_s: BTreeMap<u64, f64>,
}

impl Controller {
    /// Decisions that are remembered; those that stand are never forgotten.
    const MOST_DECISIONS: usize = 1000;
    /// Harm from which on a decision is taken back: the I/O of jobs is slower by more than this in the mean, or one of them loses more than
    /// this of its time.
    pub const MOST_HARM: f64 = 0.02;
    /// A job that was not seen for so long has ended.
    const ENDED_S: f64 = 60.0;
    /// After so many decisions a rule is judged by their mean.
    const N_JUDGED: usize = 3;
    /// Time for which a declined decision is not considered again.
    const PUT_OFF_S: f64 = 60.0;
    /// Number of windows for which a harmful decision is not tried again; twice as many the next time.
    const HARM_PUT_OFF: f64 = 10.0;
    /// A put-off doubles so often.
    const MOST_DOUBLINGS: u32 = 10;

    /// A controller that has decided nothing yet; its first decision has the number `first_id`.
    pub fn new(rules: Vec<Rule>, is_dry_run: bool, first_id: u64) -> Self {
        let states = vec![RuleState::default(); rules.len()];
        Self {
            rules,
            states,
            is_dry_run,
            decisions: BTreeMap::new(),
            next_id: first_id,
            history: History::default(),
            trials: Vec::new(),
            costs: BTreeMap::new(),
            unseen_s: BTreeMap::new(),
        }
    }

    /// The rules.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// How a rule fares.
    pub fn state(&self, rule: usize) -> &RuleState {
        &self.states[rule]
    }

    /// Whether nothing is really done.
    pub fn is_dry_run(&self) -> bool {
        self.is_dry_run
    }

    /// Returns the I/O of jobs in the last minutes.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// All decisions that are remembered, the earliest first.
    pub fn decisions(&self) -> impl DoubleEndedIterator<Item = &Decision> {
        self.decisions.values()
    }

    /// Returns the change that a decision makes.
    pub fn change(&self, id: u64) -> Option<&Change> {
        self.decisions.get(&id).map(|decision| &decision.change)
    }

    /// Those of a rule that are in force.
    pub fn standing(&self, rule: usize) -> impl Iterator<Item = &Decision> {
        self.decisions.values().filter(move |it| it.rule == rule && it.state == State::Standing)
    }

    /// The periods that a rule gives to jobs now: what was decided last holds.
    pub fn held_periods(&self, rule: usize) -> HashMap<String, f64> {
        let mut held = HashMap::new();
        for decision in self.standing(rule) {
            if let Change::Periods(periods) = &decision.change {
                held.extend(periods.iter().map(|new| (new.job.clone(), new.period_s)));
            }
        }
        held
    }

    /// Looks at the jobs that run now: what is over, what came of decisions, and what must be taken back for it.
    pub fn look(&mut self, now_s: f64, jobs: &[JobFacts]) -> Vec<Step> {
        self.history.note(now_s, jobs);
        let keys: HashMap<String, &JobFacts> = jobs.iter().map(|job| (job.key(), job)).collect();
        for decision in self.decisions.values_mut() {
            if decision.state != State::Standing
                || decision.change.jobs().iter().any(|job| keys.contains_key(*job))
            {
                self.unseen_s.remove(&decision.id);
                continue;
            }
            let is_over = match decision.change {
                // What was lent is forgotten by itself.
                Change::Periods(_) => true,
                // A job that is only not seen for a moment keeps the size that it must be given back.
                Change::Resize { .. } => {
                    now_s - *self.unseen_s.entry(decision.id).or_insert(now_s) >= Self::ENDED_S
                }
                // Whoever stages has work to do when the job has ended, and says when that is done.
                Change::Stage { .. } => false,
            };
            if is_over {
                decision.state = State::Over;
            }
        }
        self.unseen_s.retain(|id, _| self.decisions.contains_key(id));
        self.costs.retain(|id, _| self.decisions.get(id).is_some_and(|it| it.state == State::Standing));
        let mut steps = Vec::new();
        for mut trial in std::mem::take(&mut self.trials) {
            let Some(last) = trial.ids.last().copied() else { continue };
            let is_standing = |id: &u64| self.decisions.get(id).is_some_and(|it| it.state == State::Standing);
            trial.ids.retain(is_standing);
            let [from_s, to_s] = trial.before_s;
            let stranger = jobs.iter().filter(|_| trial.measure != Measure::Progress).find(|job| {
                let key = job.key();
                self.rules[trial.rule].scope.holds(job)
                    && !trial.concerned.contains(&key)
                    && self.history.has_moved(&key, to_s, now_s)
                    && !self.history.has_moved(&key, from_s, to_s)
            });
            let unclear = if trial.ids.is_empty() {
                trial.ids.push(last);
                Some("it was over before one could tell".to_owned())
            } else if let Some(gone) = trial.concerned.iter().find(|key| !keys.contains_key(*key)) {
                Some(format!("job {} ended meanwhile", id_of(gone)))
            } else {
                stranger.map(|job| format!("job {} came meanwhile", job.id))
            };
            if unclear.is_none() && now_s < trial.until_s {
                self.trials.push(trial);
                continue;
            }
            let (verdict, losses) = match unclear {
                Some(why) => (Verdict::Unclear(why), Vec::new()),
                None => self.measured(&trial, now_s),
            };
            let harmed = self.harmed(&losses, trial.begun_s);
            self.costs.extend(trial.ids.last().map(|id| (*id, (now_s, losses))));
            if trial.measure == Measure::Harm && harmed.is_empty() {
                // It does no harm, or nobody can tell; whether it pays is another question.
                continue;
            }
            let window_s = trial.until_s - trial.from_s;
            steps.extend(self.judge(now_s, &trial.ids, verdict, harmed, trial.from_s, window_s));
        }
        steps
    }

    /// Returns the effect that a trial measured, and the jobs that lost time by it.
    fn measured(&self, trial: &Trial, now_s: f64) -> (Verdict, Vec<JobLoss>) {
        let after_s = [trial.from_s, now_s];
        let Trial { measure, concerned, before_s, .. } = trial;
        let effect = match measure {
            Measure::IoTime | Measure::Harm => self.history.change(concerned, *before_s, after_s),
            Measure::Progress => self.history.progress(concerned, *before_s, after_s),
        };
        let losses = match measure {
            Measure::IoTime | Measure::Harm => self.history.losses(concerned, *before_s, after_s),
            // It is the time of one job that is measured there.
            Measure::Progress => Vec::new(),
        };
        let verdict = effect.map_or_else(
            || Verdict::Unclear("no job moved enough data both before and after".to_owned()),
            Verdict::Measured,
        );
        (verdict, losses)
    }

    /// Those who lose more of their time than any job may, by decisions since some time and by what was in force before them; who loses most comes first.
    fn harmed(&self, losses: &[JobLoss], begun_s: f64) -> Vec<JobLoss> {
        let is_harmed = |loss: &&JobLoss| self.cost_of(&loss.job, begun_s) + loss.time > Self::MOST_HARM;
        let mut harmed: Vec<JobLoss> = losses.iter().filter(is_harmed).cloned().collect();
        harmed.sort_by(|a, b| b.time.total_cmp(&a.time));
        harmed
    }

    /// The share of its time that decisions in force cost a job, as was measured up to some time: what is measured at the same time may be the same loss.
    /// Gains of the job from other decisions are not set against that.
    fn cost_of(&self, job: &str, until_s: f64) -> f64 {
        let costs = self.costs.values().filter(|(at_s, _)| *at_s <= until_s);
        costs.flat_map(|(_, losses)| losses).filter(|loss| loss.job == job).map(|loss| loss.time).sum()
    }

    /// Considers a proposal: returns what to do if it is taken.
    pub fn propose(&mut self, now_s: f64, proposal: Proposal) -> Option<Step> {
        let Proposal { rule, change, evidence, expected, expected_losses, measure, concerned, window_s } =
            proposal;
        let state = &mut self.states[rule];
        state.put_off.retain(|it| it.until_s > now_s || it.n_harms > 0 && now_s < it.until_s + 3600.0);
        state.settling.retain(|(_, until_s)| *until_s > now_s);
        let is_put_off = |it: &PutOff| it.until_s > now_s && it.change.is_like(&change);
        let is_settling = |(job, _): &(String, f64)| concerned.contains(job);
        if state.stopped.is_some()
            || state.put_off.iter().any(is_put_off)
            || state.settling.iter().any(is_settling)
        {
            return None;
        }
        // A decision that follows another is measured together with it; so that there is an end to it, only within the first window.
        let is_late = |trial: &Trial| {
            let first_s = window_s.min(trial.until_s - trial.from_s);
            trial.is_touched_by(rule, &change) && (trial.begun_s + first_s..trial.until_s).contains(&now_s)
        };
        if self.trials.iter().any(is_late) {
            return None;
        }
        let declined = self
            .reason_to_decline(now_s, rule, &change, expected)
            .or_else(|| self.foreseen_harm(now_s, &expected_losses));
        let is_taken = declined.is_none() && !self.is_dry_run;
        let state = match declined {
            Some(why) => State::Declined(why),
            None if self.is_dry_run => State::DryRun,
            None => State::Standing,
        };
        if !is_taken {
            self.put_off(rule, &change, now_s + Self::PUT_OFF_S);
            self.forget_like(rule, &change);
        }
        let decision = Decision {
            id: self.next_id,
            rule,
            at_s: now_s,
            change,
            evidence,
            expected,
            verdict: Verdict::Open,
            harmed: Vec::new(),
            state,
        };
        self.next_id += 1;
        self.decisions.insert(decision.id, decision.clone());
        self.forget_old();
        if !is_taken {
            return None;
        }
        self.states[rule].taken_s.push_back(now_s);
        self.states[rule].window_s = window_s;
        let begun_s = concerned.iter().filter_map(|key| self.history.since_s(key)).fold(f64::MAX, f64::min);
        self.begin_trial(
            &decision,
            Trial {
                ids: vec![decision.id],
                rule,
                measure,
                concerned,
                before_s: [begun_s.min(now_s).max(now_s - window_s), now_s],
                begun_s: now_s,
                from_s: now_s,
                until_s: now_s + window_s,
            },
        );
        Some(Step::Do(decision))
    }

    /// Measures a decision from now on, together with those of which one could not tell yet.
    fn begin_trial(&mut self, decision: &Decision, mut trial: Trial) {
        let is_touched = |former: &mut Trial| former.is_touched_by(decision.rule, &decision.change);
        let former: Vec<Trial> = self.trials.extract_if(.., is_touched).collect();
        let why = match trial.concerned.is_empty() {
            true => "another decision about the job followed".to_owned(),
            false => format!("it is measured together with decision {}", decision.id),
        };
        for id in former.iter().flat_map(|former| &former.ids) {
            if let Some(it) = self.decisions.get_mut(id).filter(|it| it.verdict == Verdict::Open) {
                it.verdict = Verdict::Unclear(why.clone());
            }
        }
        if trial.concerned.is_empty() {
            return;
        }
        // What it was before the first of them is what they all are compared with.
        for former in former {
            if former.begun_s < trial.begun_s {
                (trial.begun_s, trial.before_s) = (former.begun_s, former.before_s);
            }
            trial.ids.extend(former.ids);
        }
        trial.ids.sort_unstable();
        self.trials.push(trial);
    }

    /// Why a rule does not allow a change now, if it does not.
    fn reason_to_decline(
        &mut self,
        now_s: f64,
        rule: usize,
        change: &Change,
        expected: Option<Effect>,
    ) -> Option<String> {
        let limits = self.rules[rule].limits;
        let taken_s = &mut self.states[rule].taken_s;
        while taken_s.front().is_some_and(|taken_s| *taken_s < now_s - 3600.0) {
            taken_s.pop_front();
        }
        let n_taken = taken_s.len();
        let mut held: Vec<&str> = self.standing(rule).flat_map(|standing| standing.change.jobs()).collect();
        held.extend(change.jobs());
        held.sort_unstable();
        held.dedup();
        match expected.filter(Effect::is_sound) {
            None => Some("nobody can tell what would come of it".to_owned()),
            Some(effect) if effect.change() > -limits.least_gain => Some(format!(
                "it would change the {} by {:+.1} %; a decision must save {:.1} %",
                effect.quantity.words(),
                100.0 * effect.change(),
                100.0 * limits.least_gain
            )),
            Some(_) if n_taken >= limits.most_per_hour => {
                Some(format!("the rule has decided {n_taken} times within an hour, which is its limit"))
            }
            Some(_) if held.len() > limits.most_jobs => {
                Some(format!("the rule may hold {} jobs at once", limits.most_jobs))
            }
            Some(_) => None,
        }
    }

    /// Why a change is not made for the sake of a single job, if there is one that it would cost too much.
    fn foreseen_harm(&self, now_s: f64, losses: &[(String, f64)]) -> Option<String> {
        // What is in force is no reason against what costs a job nothing more.
        let harms = losses.iter().filter(|(_, lost)| *lost > 0.0);
        let harms = harms.map(|(job, lost)| (job, *lost, self.cost_of(job, now_s)));
        let (job, lost, already) = harms
            .filter(|(_, lost, already)| lost + already > Self::MOST_HARM)
            .max_by(|(_, a, _), (_, b, _)| a.total_cmp(b))?;
        let already = match already > 0.0 {
            true => format!(", and it loses {:.1} % by others already", 100.0 * already),
            false => String::new(),
        };
        Some(format!(
            "it would cost job {} {:.1} % of its time{already}; no job may lose more than {:.0} %",
            id_of(job),
            100.0 * lost,
            100.0 * Self::MOST_HARM
        ))
    }

    /// A decision could not be carried out.
    pub fn failed(&mut self, now_s: f64, id: u64, why: &str) {
        let standing = self.decisions.get_mut(&id).filter(|it| it.state == State::Standing);
        // What was taken back meanwhile needs no further word.
        let Some(decision) = standing else { return };
        decision.state = State::Failed(why.to_owned());
        decision.verdict = Verdict::Unclear("it was not carried out".to_owned());
        let (rule, change) = (decision.rule, decision.change.clone());
        self.leave_trial(now_s, id);
        self.put_off(rule, &change, now_s + Self::PUT_OFF_S);
    }

    /// A decision that takes time to carry out is in force from now on.
    pub fn begun(&mut self, now_s: f64, id: u64) {
        for trial in self.trials.iter_mut().filter(|trial| trial.ids.contains(&id)) {
            trial.restart(now_s);
        }
    }

    /// This came of a decision, as whoever carried it out has seen; `is_over` if there is nothing left to take back. What was taken back before counts
    /// no more.
    pub fn ended(&mut self, now_s: f64, id: u64, verdict: Verdict, is_over: bool) -> Vec<Step> {
        let Some(decision) = self.decisions.get_mut(&id) else { return Vec::new() };
        if !matches!(decision.state, State::Standing | State::Over) || decision.verdict != Verdict::Open {
            return Vec::new();
        }
        if is_over {
            decision.state = State::Over;
            self.leave_trial(now_s, id);
        }
        // What is measured so is a time that ends now.
        let took_s = match &verdict {
            Verdict::Measured(effect) if effect.with.is_finite() => effect.with.max(0.0),
            _ => 0.0,
        };
        self.judge(now_s, &[id], verdict, Vec::new(), now_s - took_s, Self::PUT_OFF_S)
    }

    /// Takes one decision back.
    pub fn undo(&mut self, now_s: f64, id: u64, why: &str) -> Option<Step> {
        let undone = self.take_back(now_s, id, why)?;
        let Step::Undo(decision) = &undone else { return None };
        let (rule, change) = (decision.rule, decision.change.clone());
        self.put_off(rule, &change, now_s + Self::PUT_OFF_S * Self::HARM_PUT_OFF);
        Some(undone)
    }

    /// Takes one decision back. For a while what its jobs do is no baseline: they have done it under the decision.
    fn take_back(&mut self, now_s: f64, id: u64, why: &str) -> Option<Step> {
        let decision = self.decisions.get_mut(&id).filter(|it| it.state == State::Standing)?;
        decision.state = State::Undone(why.to_owned());
        let undone = decision.clone();
        self.leave_trial(now_s, id);
        let state = &mut self.states[undone.rule];
        let until_s = now_s + state.window_s;
        state.settling.extend(undone.change.jobs().into_iter().map(|job| (job.to_owned(), until_s)));
        Some(Step::Undo(undone))
    }

    /// A decision is in force no more: what is measured beside it is measured from now on.
    fn leave_trial(&mut self, now_s: f64, id: u64) {
        let Some(decision) = self.decisions.get_mut(&id) else { return };
        let was_open = self.trials.iter().any(|trial| trial.ids.contains(&id));
        if was_open && decision.verdict == Verdict::Open && matches!(decision.state, State::Undone(_)) {
            decision.verdict = Verdict::Unclear("it was over before one could tell".to_owned());
        }
        let is_touched = |trial: &&mut Trial| trial.is_touched_by(decision.rule, &decision.change);
        for trial in self.trials.iter_mut().filter(is_touched) {
            trial.ids.retain(|other| *other != id);
            trial.restart(now_s);
        }
        self.trials.retain(|trial| !trial.ids.is_empty());
    }

    /// Uses a rule no more, and takes back what it has done.
    pub fn stop(&mut self, rule: usize, why: &str) -> Vec<Step> {
        self.states[rule].stopped = Some(why.to_owned());
        self.withdraw_if(why, |decision| decision.rule == rule)
    }

    /// Uses a rule again.
    pub fn resume(&mut self, rule: usize) {
        let state = &mut self.states[rule];
        *state = RuleState { taken_s: std::mem::take(&mut state.taken_s), ..RuleState::default() };
    }

    /// Takes everything back.
    pub fn withdraw(&mut self, why: &str) -> Vec<Step> {
        self.withdraw_if(why, |_| true)
    }

    fn withdraw_if(&mut self, why: &str, is_meant: impl Fn(&Decision) -> bool) -> Vec<Step> {
        let mut steps = Vec::new();
        // The latest first, as one goes back.
        for decision in self.decisions.values_mut().rev() {
            if decision.state == State::Standing && is_meant(decision) {
                decision.state = State::Undone(why.to_owned());
                steps.push(Step::Undo(decision.clone()));
            }
        }
        steps
    }

    /// Notes what came of decisions that were measured together since some time and whom they harmed, and draws the consequence.
    fn judge(
        &mut self,
        now_s: f64,
        ids: &[u64],
        verdict: Verdict,
        harmed: Vec<JobLoss>,
        from_s: f64,
        window_s: f64,
    ) -> Vec<Step> {
        let Some(decision) = ids.last().and_then(|id| self.decisions.get_mut(id)) else { return Vec::new() };
        decision.verdict = verdict.clone();
        decision.harmed.clone_from(&harmed);
        let Verdict::Measured(effect) = verdict else { return Vec::new() };
        if !effect.is_sound() {
            decision.verdict = Verdict::Unclear("what was measured makes no sense".to_owned());
            return Vec::new();
        }
        let rule = decision.rule;
        let expected = decision.expected.map(|expected| expected.change());
        let measured = effect.change();
        let is_harm = measured > Self::MOST_HARM || !harmed.is_empty();
        let state = &mut self.states[rule];
        // What hits all jobs at once, as a storage that stalls does, hits all that is measured meanwhile, and says it once.
        let is_told = is_harm && state.harmed_s.is_some_and(|harmed_s| from_s < harmed_s);
        if !is_told {
            state.judged.push_back((expected, measured));
            state.harmed_s = if is_harm { Some(now_s) } else { state.harmed_s };
        }
        while state.judged.len() > Self::N_JUDGED {
            state.judged.pop_front();
        }
        let mean = state.judged.iter().map(|(_, measured)| measured).sum::<f64>() / state.judged.len() as f64;
        // One that went wrong by far is no reason, whatever it does to the mean.
        let n_in_vain = state.judged.iter().filter(|(_, measured)| *measured >= 0.0).count();
        if state.judged.len() == Self::N_JUDGED && mean >= 0.0 && n_in_vain > 1 {
            let why = format!(
                "its last {} decisions changed the {} by {:+.1} % in the mean: they do not pay",
                Self::N_JUDGED,
                effect.quantity.words(),
                100.0 * mean
            );
            return self.stop(rule, &why);
        }
        if !is_harm {
            return Vec::new();
        }
        let why = reason_to_undo(&effect, &harmed);
        let mut steps = Vec::new();
        // The latest first, as one goes back.
        for id in ids.iter().rev() {
            let Some(step) = self.take_back(now_s, *id, &why) else { continue };
            if let Some(change) = self.change(*id).cloned() {
                self.put_off_harm(rule, &change, now_s, window_s);
            }
            steps.push(step);
        }
        steps
    }

    /// Does not try again for long what did harm.
    fn put_off_harm(&mut self, rule: usize, change: &Change, now_s: f64, window_s: f64) {
        // It has done harm before if that is remembered.
        self.put_off(rule, change, now_s);
        if let Some(it) = self.states[rule].put_off.last_mut() {
            it.n_harms += 1;
            let windows = Self::HARM_PUT_OFF * f64::from(1u32 << it.n_harms.min(Self::MOST_DOUBLINGS));
            it.until_s = it.until_s.max(now_s + windows * window_s);
        }
    }

    /// Does not propose a change again before some time.
    fn put_off(&mut self, rule: usize, change: &Change, until_s: f64) {
        let put_off = &mut self.states[rule].put_off;
        // Those that are like it stay: what is like them may not be like it.
        let n_harms = put_off.iter().filter(|it| it.change.is_like(change)).map(|it| it.n_harms).max();
        let mut now = PutOff { change: change.clone(), until_s, n_harms: n_harms.unwrap_or(0) };
        for former in put_off.extract_if(.., |it| it.change == *change) {
            now.until_s = now.until_s.max(former.until_s);
        }
        // As many as decisions are remembered; the oldest goes.
        if put_off.len() >= Self::MOST_DECISIONS {
            put_off.remove(0);
        }
        put_off.push(now);
    }

    /// Removes earlier declined decisions like this one: a change declined time and again is listed once.
    fn forget_like(&mut self, rule: usize, change: &Change) {
        self.decisions.retain(|_, it| {
            it.rule != rule
                || !matches!(it.state, State::Declined(_) | State::DryRun)
                || !it.change.is_like(change)
        });
    }

    fn forget_old(&mut self) {
        while self.decisions.len() > Self::MOST_DECISIONS {
            let Some(id) = self.decisions.values().find(|it| it.state != State::Standing).map(|it| it.id)
            else {
                return;
            };
            self.decisions.remove(&id);
        }
    }
}

/// Why what did harm is taken back.
fn reason_to_undo(effect: &Effect, harmed: &[JobLoss]) -> String {
    let mean = (effect.change() > Controller::MOST_HARM)
        .then(|| format!("it changed the {} by {:+.1} %", effect.quantity.words(), 100.0 * effect.change()));
    let single = harmed.first().map(|most| {
        let others = match harmed.len() - 1 {
            0 => String::new(),
            1 => ", and another one too much".to_owned(),
            n => format!(", and {n} others too much"),
        };
        format!("it cost job {} {:.1} % of its time{others}", id_of(&most.job), 100.0 * most.time)
    });
    [mean, single].into_iter().flatten().collect::<Vec<_>>().join("; ")
}
