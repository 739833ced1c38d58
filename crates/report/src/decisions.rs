//! Decisions of a controller, as they are told: what was decided, why, what was expected of it, and what came of it.

use iotide_look::{Untrusted, text};
use iotide_sched::act::{
    Change, Controller, Decision, Effect, JobLoss, Quantity, Rule, RuleState, Verdict, id_of,
};
use serde::{Deserialize, Serialize};

use crate::jobs::table;

/// All that a controller has decided of late.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DecisionList {
    /// Whether a controller runs here.
    pub acting: bool,
    /// Whether it only says what it would do.
    pub dry_run: bool,
    /// Rules that permit its decisions.
    pub rules: Vec<RuleEntry>,
    /// Its decisions, the latest first.
    pub decisions: Vec<DecisionEntry>,
}

/// A rule.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RuleEntry {
    /// Its name.
    pub name: Untrusted,
    /// Who acts by it: `sets`, `stage` or `resize`.
    pub actor: String,
    /// On what, in words.
    pub place: Untrusted,
    /// The control socket of the mount or the arbiter that it speaks to, if it does.
    #[serde(default)]
    pub control: Option<Untrusted>,
    /// How many of its decisions are in force.
    pub standing: usize,
    /// Why it is used no more, if it is not.
    pub stopped: Option<Untrusted>,
    /// Why it can do nothing now, if it cannot.
    pub trouble: Option<Untrusted>,
    /// Expected and measured effects of its last decisions.
    pub judged: Vec<Judged>,
}

/// Where a rule acts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulePlace {
    /// In words.
    pub words: String,
    /// The control socket of a mount or an arbiter, if there is one.
    pub control: Option<String>,
}

/// Expected and measured effect of a decision, as shares: −0.4 for 40 % less.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// As it was expected.
    pub expected: Option<f64>,
    /// As it was measured.
    pub measured: f64,
}

/// A decision.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DecisionEntry {
    /// Its number; later ones have higher ones.
    pub id: u64,
    /// The rule that permits it.
    pub rule: Untrusted,
    /// Who acts.
    pub actor: String,
    /// When it was taken.
    pub at_unix_s: f64,
    /// The jobs that it changes.
    pub jobs: Vec<Untrusted>,
    /// The change, in words.
    pub change: Untrusted,
    /// Evidence for it.
    pub evidence: Vec<Untrusted>,
    /// Expected effect.
    pub expected: Option<EffectEntry>,
    /// Measured effect.
    pub measured: Option<EffectEntry>,
    /// Why nobody can tell what came of it, if nobody can.
    pub unclear: Option<Untrusted>,
    /// The jobs that it cost more of their time than any may lose, for which it is taken back; who lost most comes first.
    #[serde(default)]
    pub harmed: Vec<HarmedJob>,
    /// `standing`, `undone`, `over`, `declined`, `failed` or `dry run`.
    pub state: String,
    /// Why.
    pub reason: Option<Untrusted>,
}

/// Effect on a quantity.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EffectEntry {
    /// `io_time`, `until_safe`, `run_time`, `wait` or `turnaround`; less is better.
    pub quantity: String,
    /// Value without the decision.
    pub without: f64,
    /// Value with it.
    pub with: f64,
    /// The change as a share.
    pub change: f64,
}

/// Cost of a decision for a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HarmedJob {
    /// The job.
    pub job: Untrusted,
    /// The share of its time that it lost.
    pub time_lost: f64,
    /// The standard error of that.
    pub standard_error: f64,
    /// By which share its time in I/O per byte changed.
    pub io_time_change: f64,
}

impl HarmedJob {
    fn of(loss: &JobLoss) -> Self {
        let JobLoss { job, time, error, io_change } = loss;
        Self { job: id_of(job).into(), time_lost: *time, standard_error: *error, io_time_change: *io_change }
    }

    /// Returns its loss, in words.
    pub fn in_words(&self) -> String {
        format!(
            "lost {:.1} % of its time (standard error {:.1} %), {} {}",
            100.0 * self.time_lost,
            100.0 * self.standard_error,
            share(self.io_time_change),
            Quantity::IoTime.words()
        )
    }
}

impl EffectEntry {
    fn of(effect: &Effect) -> Self {
        let (without, with) = (effect.without, effect.with);
        Self { quantity: effect.quantity.name().to_owned(), without, with, change: effect.change() }
    }

    /// `-42 %` of what.
    pub fn in_words(&self) -> String {
        let words = Quantity::ALL
            .into_iter()
            .find(|quantity| quantity.name() == self.quantity)
            .map_or("", Quantity::words);
        format!("{} {words}", share(self.change))
    }
}

/// Jobs that are shown of those that a decision harmed.
pub const MOST_HARMED: usize = 8;

/// A change as people write it.
pub fn share(change: f64) -> String {
    format!("{:+.0} %", 100.0 * change).replace('-', "−")
}

impl DecisionEntry {
    /// Describes a decision of a rule, which was taken at some second of the controller's clock; `unix_s` is where that clock began.
    pub fn of(decision: &Decision, rule: &Rule, unix_s: f64) -> Self {
        let (measured, unclear) = match &decision.verdict {
            Verdict::Open => (None, None),
            Verdict::Measured(effect) => (Some(EffectEntry::of(effect)), None),
            Verdict::Unclear(why) => (None, Some(Untrusted::from(why.as_str()))),
        };
        Self {
            id: decision.id,
            rule: rule.name.as_str().into(),
            actor: rule.actor.name().to_owned(),
            at_unix_s: unix_s + decision.at_s,
            jobs: decision.change.jobs().into_iter().map(|job| id_of(job).into()).collect(),
            change: in_words(&decision.change).into(),
            evidence: decision.evidence.iter().map(|line| line.as_str().into()).collect(),
            expected: decision.expected.as_ref().map(EffectEntry::of),
            measured,
            unclear,
            harmed: decision.harmed.iter().map(HarmedJob::of).collect(),
            state: decision.state.name().to_owned(),
            reason: decision.state.reason().map(Untrusted::from),
        }
    }

    /// Marks a standing decision as over: its controller was killed, and its change ran out.
    pub fn end_with_its_controller(&mut self) {
        if self.state == "standing" {
            self.state = "over".to_owned();
            self.reason = Some("its controller ended without taking it back; it ran out by itself".into());
        }
    }

    /// As one line of a log.
    pub fn to_json_line(&self) -> String {
        text::json(self) + "\n"
    }

    /// Reads a line of a log.
    pub fn from_json_line(line: &str) -> Option<Self> {
        serde_json::from_str(line).ok()
    }

    /// Returns its evidence, the reason for its state, and why its effect is unclear.
    pub fn why(&self) -> impl Iterator<Item = &Untrusted> {
        self.evidence.iter().chain(&self.reason).chain(&self.unclear)
    }

    /// By how much it was expected to change what it is about.
    pub fn expectation(&self) -> String {
        self.expected.as_ref().map_or("–".to_owned(), |effect| share(effect.change))
    }

    /// Returns the measured change, or `unclear`, or a dash if nothing was measured.
    pub fn outcome(&self) -> String {
        match (&self.measured, &self.unclear) {
            (Some(measured), _) => share(measured.change),
            (None, Some(_)) => "unclear".to_owned(),
            (None, None) => "–".to_owned(),
        }
    }
}

/// Returns a change in words.
fn in_words(change: &Change) -> String {
    match change {
        Change::Periods(periods) => {
            let one = |new: &iotide_sched::act::NewPeriod| {
                let former = new.former_s.map_or("none".to_owned(), text::seconds);
                format!("{}: {former} → {}", id_of(&new.job), text::seconds(new.period_s))
            };
            let shown: Vec<String> = periods.iter().take(8).map(one).collect();
            let more = periods.len().saturating_sub(8);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("period of {}{more}", shown.join(", "))
        }
        Change::Stage { job, from, to } => format!("stage {from} of {} to {to}", id_of(job)),
        Change::Resize { job, from, to } => format!("resize {}: {from} → {to} nodes", id_of(job)),
    }
}

impl RuleEntry {
    /// Describes a rule and how it fares.
    pub fn of(
        rule: &Rule,
        state: &RuleState,
        standing: usize,
        place: Option<&RulePlace>,
        trouble: Option<&str>,
    ) -> Self {
        Self {
            name: rule.name.as_str().into(),
            actor: rule.actor.name().to_owned(),
            place: place.map_or("", |place| place.words.as_str()).into(),
            control: place.and_then(|place| place.control.as_deref()).map(Untrusted::from),
            standing,
            stopped: state.stopped.as_deref().map(Untrusted::from),
            trouble: trouble.map(Untrusted::from),
            judged: state.judged.iter().map(|&(expected, measured)| Judged { expected, measured }).collect(),
        }
    }

    /// Whether it is used, and if not, why.
    pub fn condition(&self) -> Untrusted {
        match (&self.stopped, &self.trouble) {
            (Some(why), _) => format!("stopped: {}", why.as_said()).into(),
            (None, Some(why)) => format!("waits: {}", why.as_said()).into(),
            (None, None) => "used".into(),
        }
    }

    /// Returns the measured and expected effects of its last decisions, in words.
    pub fn record(&self) -> String {
        let one = |judged: &Judged| {
            let expected = judged.expected.map_or("–".to_owned(), share);
            format!("{} (expected {expected})", share(judged.measured))
        };
        let all: Vec<String> = self.judged.iter().map(one).collect();
        if all.is_empty() { "–".to_owned() } else { all.join(", ") }
    }
}

impl DecisionList {
    /// Describes what a controller has decided: `places` and `troubles` say of each rule where it acts and what keeps it from acting; `before` is
    /// what was decided before it began, the latest first.
    pub fn of(
        controller: &Controller,
        places: &[RulePlace],
        troubles: &[Option<String>],
        unix_s: f64,
        before: &[DecisionEntry],
    ) -> Self {
        let rules = controller.rules();
        let entries = rules.iter().enumerate().map(|(n, rule)| {
            let trouble = troubles.get(n).and_then(Option::as_deref);
            RuleEntry::of(rule, controller.state(n), controller.standing(n).count(), places.get(n), trouble)
        });
        let decisions = controller.decisions().rev().map(|it| DecisionEntry::of(it, &rules[it.rule], unix_s));
        Self {
            acting: true,
            dry_run: controller.is_dry_run(),
            rules: entries.collect(),
            decisions: decisions.chain(before.iter().cloned()).collect(),
        }
    }

    /// Reads a list that a daemon answered.
    pub fn from_json(json: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(json).map_err(|error| error.to_string())
    }

    /// The list as a document.
    pub fn to_json(&self) -> String {
        text::json_document(self)
    }

    /// Rules, and the latest decisions with their reasons.
    pub fn to_text(&self, most: usize) -> String {
        if !self.acting {
            return "this daemon does not act: its settings have no [act]\n".to_owned();
        }
        let mut out = String::new();
        if self.dry_run {
            out.push_str("dry run: nothing is really done (dry_run = false in [act] changes that)\n\n");
        }
        let rows: Vec<[String; 6]> = self
            .rules
            .iter()
            .map(|rule| {
                [
                    rule.name.shortened(40).for_terminal(),
                    rule.actor.clone(),
                    rule.place.shortened(60).for_terminal(),
                    rule.standing.to_string(),
                    rule.record(),
                    rule.condition().shortened(100).for_terminal(),
                ]
            })
            .collect();
        out.push_str(&table(&["rule", "actor", "where", "in force", "came of it", "state"], &rows));
        if self.decisions.is_empty() {
            out.push_str("\nnothing has been decided yet\n");
            return out;
        }
        out.push('\n');
        let rows: Vec<[String; 7]> = self
            .decisions
            .iter()
            .take(most)
            .map(|decision| {
                [
                    decision.id.to_string(),
                    text::date(decision.at_unix_s),
                    decision.rule.shortened(40).for_terminal(),
                    decision.change.shortened(100).for_terminal(),
                    decision.expectation(),
                    decision.outcome(),
                    decision.state.clone(),
                ]
            })
            .collect();
        out.push_str(&table(&["id", "when", "rule", "what", "expected", "measured", "state"], &rows));
        for decision in self.decisions.iter().take(most) {
            let mut lines: Vec<String> = decision.evidence.iter().map(|line| line.for_terminal()).collect();
            lines.extend(decision.expected.iter().map(|effect| format!("expected: {}", effect.in_words())));
            lines.extend(decision.measured.iter().map(|effect| format!("measured: {}", effect.in_words())));
            lines.extend(decision.unclear.iter().map(|why| format!("unclear: {}", why.for_terminal())));
            let harmed = decision.harmed.iter().take(MOST_HARMED);
            lines.extend(harmed.map(|it| format!("harmed: {} {}", it.job.for_terminal(), it.in_words())));
            lines.extend(
                decision.reason.iter().map(|why| format!("{}: {}", decision.state, why.for_terminal())),
            );
            out.push_str(&format!("\n{}\n", decision.id));
            lines.iter().for_each(|line| out.push_str(&format!("  {line}\n")));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::undone;

    #[test]
    fn whom_a_decision_harmed_is_shown_with_what_it_cost() {
        let list = DecisionList { acting: true, decisions: vec![undone()], ..DecisionList::default() };
        let text = list.to_text(10);
        for line in [
            "measured: −40 % time in I/O per byte",
            "harmed: <long> lost 5.0 % of its time (standard error 0.2 %), +10 % time in I/O per byte",
            "undone: it cost job <long> 5.0 % of its time",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        let json: serde_json::Value = serde_json::from_str(&list.to_json()).unwrap();
        let harmed = &json["decisions"][0]["harmed"][0];
        assert_eq!((&harmed["job"], &harmed["time_lost"]), (&"<long>".into(), &0.05.into()), "{json}");
        assert_eq!((&harmed["standard_error"], &harmed["io_time_change"]), (&0.002.into(), &0.1.into()));
    }

    #[test]
    fn a_line_that_was_written_before_jobs_were_named_is_read() {
        let line = undone().to_json_line();
        let (before, after) = line.split_once(",\"harmed\":[").unwrap();
        let former = format!("{before}{}", after.split_once("]").unwrap().1);
        let read = DecisionEntry::from_json_line(&former).unwrap();
        assert_eq!((read.id, read.harmed.len()), (3, 0));
        assert_eq!(DecisionEntry::from_json_line(&line).unwrap().harmed.len(), 1);
    }
}
