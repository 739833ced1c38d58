//! Alarms: what is watched, what fires, what has fired; as lists, as questions, and as messages to receivers.

use std::collections::BTreeMap;

use iotide_ledger::Name;
use iotide_ledger::alarm::{On, Rule, RuleError, Scope};
use iotide_look::{Untrusted, text};
use serde::{Deserialize, Serialize};

use crate::jobs::table;

/// All that is known of alarms to who asks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AlarmList {
    /// Rules, by owner and name.
    pub rules: Vec<AlarmRule>,
    /// Alarms that fire now, the latest first.
    pub firing: Vec<AlarmState>,
    /// Alarms that began or ended, the latest first.
    pub history: Vec<AlarmState>,
}

/// A rule.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AlarmRule {
    /// Its name; a user has one of a name.
    pub name: Untrusted,
    /// Whose it is, as a number; `None`: the operator's, about all jobs.
    pub owner: Option<u32>,
    /// The condition: `rate(write_bytes) > 2000000000`.
    pub expr: Untrusted,
    /// `metric`, `rate`, `predicted_load`, `label`, `issue` or `slowdown`.
    pub subject: String,
    /// Of which name.
    pub metric: Untrusted,
    /// `>`, `<` or `=`.
    pub op: char,
    /// The level.
    pub level: f64,
    /// The value that ends the alarm.
    pub clear: f64,
    /// For how long the condition holds before the alarm fires.
    pub for_s: f64,
    /// `job`: each job; `sum`: jobs together; `node`: the machine.
    pub on: String,
    /// Jobs of this user only.
    pub user: Option<Untrusted>,
    /// Runs of this application only.
    pub app: Option<Untrusted>,
    /// The job of this id only.
    pub job: Option<Untrusted>,
    /// How grave it is.
    pub severity: Untrusted,
}

impl AlarmRule {
    /// Describes a rule.
    pub fn of(rule: &Rule) -> Self {
        let text = |name: &Option<Name>| name.as_ref().map(|name| Untrusted::from(name.as_str()));
        Self {
            name: rule.name.as_str().into(),
            owner: rule.owner,
            expr: rule.expr().into(),
            subject: rule.subject.kind().to_owned(),
            metric: rule.subject.name().into(),
            op: rule.relation.sign(),
            level: rule.level,
            clear: rule.clear,
            for_s: rule.for_ns as f64 / 1e9,
            on: rule.on.as_str().to_owned(),
            user: text(&rule.scope.user),
            app: text(&rule.scope.app),
            job: text(&rule.scope.job),
            severity: rule.severity.as_str().into(),
        }
    }
}

/// An alarm that fires, or the begin or the end of one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AlarmState {
    /// The number of this begin or end: no other has it. An alarm that fires has that of its begin.
    pub id: u64,
    /// The rule.
    pub name: Untrusted,
    /// Whose rule it is.
    pub owner: Option<u32>,
    /// `firing` or `resolved`.
    pub state: String,
    /// The condition.
    pub expr: Untrusted,
    /// The value that was met; `None` where there is none any more.
    pub value: Option<f64>,
    /// Which job; `None`: jobs together, or the machine.
    pub job: Option<Untrusted>,
    /// Whose job it is.
    pub user: Option<Untrusted>,
    /// Its application.
    pub app: Option<Untrusted>,
    /// Name of its program.
    pub program: Option<Untrusted>,
    /// How grave it is.
    pub severity: Untrusted,
    /// When the alarm began.
    pub since_unix_s: f64,
    /// When it ended.
    pub end_unix_s: Option<f64>,
    /// Why it ended: `cleared`, `job ended`, `rule deleted`.
    pub why: Option<String>,
}

/// The answer to a change of the rules.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AlarmDone {
    /// Change that was made, in a sentence.
    pub done: Untrusted,
}

impl AlarmDone {
    /// Reads what a daemon answered.
    pub fn from_json(json: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(json).map_err(|error| error.to_string())
    }
}

/// A rule that someone asks for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewAlarm {
    /// Its name.
    pub name: String,
    /// The condition.
    pub expr: String,
    /// For how long it must hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_s: Option<f64>,
    /// The value that ends the alarm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clear: Option<f64>,
    /// `job`, `sum` or `node`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<String>,
    /// Jobs of this user only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Runs of this application only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// The job of this id only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// How grave it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<String>,
}

impl NewAlarm {
    /// Reads what someone sent.
    pub fn from_json(json: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(json).map_err(|error| error.to_string())
    }

    /// As it is sent.
    pub fn to_json(&self) -> String {
        text::json(self)
    }

    /// The rule that is meant, of an owner.
    pub fn rule(&self, owner: Option<u32>) -> Result<Rule, RuleError> {
        let name = |field: &'static str, text: &Option<String>| match text.as_deref() {
            None | Some("") => Ok(None),
            Some(text) => Name::new(text).map(Some).ok_or(RuleError::Long(field)),
        };
        let on = match self.on.as_deref() {
            None | Some("") => On::Job,
            Some(on) => On::of(on).ok_or(RuleError::Scope("'on' is 'job', 'sum' or 'node'"))?,
        };
        let scope = Scope {
            user: name("user", &self.user)?,
            app: name("app", &self.app)?,
            job: name("job", &self.job)?,
        };
        let mut rule = Rule::new(&self.name, &self.expr)?.with_scope(on, scope)?;
        if let Some(clear) = self.clear {
            rule = rule.with_clear(clear)?;
        }
        if let Some(seconds) = self.for_s {
            rule = rule.with_for(seconds)?;
        }
        if let Some(severity) = name("severity", &self.severity)? {
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
            if !severity.as_str().bytes().all(fits) {
                return Err(RuleError::Scope("'severity' consists of letters, digits, '_' and '-'"));
            }
            rule.severity = severity;
        }
        rule.owner = owner;
        Ok(rule)
    }

    /// Returns the request for a rule: the inverse of [`Self::rule`].
    pub fn of(rule: &Rule) -> Self {
        let text = |name: &Option<Name>| name.as_ref().map(|name| name.as_str().to_owned());
        Self {
            name: rule.name.as_str().to_owned(),
            expr: rule.expr(),
            for_s: Some(rule.for_ns as f64 / 1e9),
            // The usual one is not written: a number of JSON may be read back with another last digit, and would be beyond the level.
            clear: (rule.clear != rule.level).then_some(rule.clear),
            on: Some(rule.on.as_str().to_owned()),
            user: text(&rule.scope.user),
            app: text(&rule.scope.app),
            job: text(&rule.scope.job),
            severity: Some(rule.severity.as_str().to_owned()),
        }
    }
}

impl AlarmList {
    /// Reads a list that a daemon answered.
    pub fn from_json(json: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(json).map_err(|error| error.to_string())
    }

    /// The list as a document.
    pub fn to_json(&self) -> String {
        text::json_document(self)
    }

    /// Returns the alarms that fire, the rules, and the latest history.
    pub fn to_text(&self, now_unix_s: f64) -> String {
        const MOST_HISTORY: usize = 20;
        let mut out = String::new();
        if self.rules.is_empty() {
            out.push_str("no alarms are set up; `iotide alarms add NAME CONDITION` adds one\n");
        } else {
            let head = ["rule", "condition", "clear", "for", "about", "severity", "firing"];
            let row = |rule: &AlarmRule| {
                let is_it = |it: &&AlarmState| it.name == rule.name && it.owner == rule.owner;
                [
                    rule.name.shortened(40).for_terminal(),
                    rule.expr.shortened(60).for_terminal(),
                    value_text(&rule.expr, rule.clear),
                    text::seconds(rule.for_s),
                    rule.about(),
                    rule.severity.for_terminal(),
                    self.firing.iter().filter(is_it).count().to_string(),
                ]
            };
            out.push_str(&table(&head, &self.rules.iter().map(row).collect::<Vec<_>>()));
        }
        let mut states = |title: &str, states: &[AlarmState], now_unix_s: Option<f64>| {
            if !states.is_empty() {
                let head = ["rule", "job", "user", "state", "value", "since", "fired for"];
                let rows: Vec<_> = states.iter().map(|state| state.row(now_unix_s)).collect();
                out.push_str(&format!("\n{title}\n{}", table(&head, &rows)));
            }
        };
        states("firing now", &self.firing, Some(now_unix_s));
        let past: Vec<AlarmState> = self.past().take(MOST_HISTORY).cloned().collect();
        states("history", &past, None);
        out
    }

    /// Alarms of the past, each once, the latest first.
    ///
    /// The history has the begin and the end of an alarm. An end knows its begin; a begin is of interest only where its end was lost.
    pub fn past(&self) -> impl Iterator<Item = &AlarmState> {
        self.history.iter().filter(|state| {
            let is_same = |other: &AlarmState| {
                (&other.name, other.owner, &other.job) == (&state.name, state.owner, &state.job)
                    && (other.since_unix_s - state.since_unix_s).abs() < 1e-3
            };
            let has_ended = || self.history.iter().any(|other| other.end_unix_s.is_some() && is_same(other));
            state.end_unix_s.is_some() || !has_ended() && !self.firing.iter().any(is_same)
        })
    }
}

impl AlarmRule {
    /// The rule in a sentence: `busy: rate(write_bytes) > 2GB for 30 s, of each job; ends at 1 GB/s; severity warning`.
    pub fn to_text(&self) -> String {
        let for_s =
            if self.for_s > 0.0 { format!(" for {}", text::seconds(self.for_s)) } else { String::new() };
        format!(
            "{}: {}{for_s}, of {}; ends at {}; severity {}",
            self.name.for_terminal(),
            self.expr.for_terminal(),
            self.about(),
            value_text(&self.expr, self.clear),
            self.severity.for_terminal(),
        )
    }

    fn about(&self) -> String {
        let mut parts: Vec<String> = match self.on.as_str() {
            "node" => vec!["the machine".to_owned()],
            "sum" => vec!["jobs together".to_owned()],
            _ => vec!["each job".to_owned()],
        };
        for (what, name) in [("user", &self.user), ("app", &self.app), ("job", &self.job)] {
            parts.extend(name.iter().map(|name| format!("{what} {}", name.shortened(32).for_terminal())));
        }
        parts.extend(self.owner.map(|uid| format!("of uid {uid}")));
        parts.join(", ")
    }
}

impl AlarmState {
    /// Reads a state that was stored or received.
    pub fn from_json(json: &[u8]) -> Option<Self> {
        serde_json::from_slice(json).ok()
    }

    /// `now_unix_s`: until when an alarm that has not ended fires; `None`: its end is not known.
    fn row(&self, now_unix_s: Option<f64>) -> [String; 7] {
        let named = |text: &Option<Untrusted>| {
            text.as_ref().map_or_else(|| "–".to_owned(), |text| text.shortened(32).for_terminal())
        };
        [
            self.name.shortened(40).for_terminal(),
            named(&self.job),
            named(&self.user),
            match &self.why {
                Some(why) => format!("{}: {why}", self.state),
                None => self.state.clone(),
            },
            self.value.map_or("–".to_owned(), |value| value_text(&self.expr, value)),
            text::date(self.since_unix_s),
            self.end_unix_s.or(now_unix_s).map_or("–".to_owned(), |until| self.lasted(until)),
        ]
    }

    /// How long it had fired at a time.
    pub fn lasted(&self, until_unix_s: f64) -> String {
        text::seconds((until_unix_s - self.since_unix_s).max(0.0).round())
    }
}

/// A value of a condition: of bytes, as people say them.
pub fn value_text(expr: &Untrusted, value: f64) -> String {
    match (expr.mentions("bytes"), expr.mentions("rate("), expr.mentions("predicted_load")) {
        (_, _, true) | (true, true, _) => text::bandwidth(value),
        (true, false, _) => text::bytes(value),
        _ => text::digits(value, 4),
    }
}

/// Reads the level of an alarm: `1e9`, `2GB`, `512KiB`.
pub fn alarm_level(text: &str) -> Option<f64> {
    iotide_ledger::alarm::number(text)
}

/// An alarm as the Alertmanager takes it, by its API of version 2: a list of one.
pub fn alertmanager_json(state: &AlarmState, node: &str) -> String {
    #[derive(Serialize)]
    struct Alert<'a> {
        labels: BTreeMap<&'a str, Untrusted>,
        annotations: BTreeMap<&'a str, Untrusted>,
        #[serde(rename = "startsAt")]
        starts_at: String,
        #[serde(rename = "endsAt")]
        ends_at: String,
    }
    // One that does not say when it ends would be taken for over after five minutes.
    const LATER_S: f64 = 365.0 * 86_400.0;
    let mut labels = BTreeMap::from([
        ("alertname", state.name.clone()),
        ("severity", state.severity.clone()),
        ("node", node.into()),
    ]);
    for (label, of) in [("job_id", &state.job), ("user", &state.user), ("app", &state.app)] {
        labels.extend(of.clone().filter(|of| !of.is_empty()).map(|of| (label, of)));
    }
    labels.extend(state.owner.map(|uid| ("owner", Untrusted::from(uid.to_string()))));
    let mut annotations =
        BTreeMap::from([("expr", state.expr.clone()), ("summary", Untrusted::from(state.sentence()))]);
    annotations.extend(state.program.clone().map(|program| ("program", program)));
    annotations.extend(state.value.map(|value| ("value", Untrusted::from(value.to_string()))));
    let alert = Alert {
        labels,
        annotations,
        starts_at: rfc3339(state.since_unix_s),
        ends_at: rfc3339(state.end_unix_s.unwrap_or(state.since_unix_s + LATER_S)),
    };
    text::json(&[alert])
}

/// An alarm as a webhook takes it.
pub fn webhook_json(state: &AlarmState, node: &str) -> String {
    #[derive(Serialize)]
    struct Notification<'a> {
        schema: &'a str,
        event: &'a str,
        node: Untrusted,
        summary: String,
        alarm: &'a AlarmState,
    }
    let told = Notification {
        schema: "iotide/1",
        event: "alarm",
        node: node.into(),
        summary: state.sentence(),
        alarm: state,
    };
    text::json(&told)
}

impl AlarmState {
    /// Returns the event in a sentence.
    fn sentence(&self) -> String {
        let of = match &self.job {
            Some(job) => format!(" (job {})", job.for_terminal()),
            None => String::new(),
        };
        let name = self.name.for_terminal();
        match &self.why {
            None => format!("{name}{of}: {}", self.expr.for_terminal()),
            Some(why) => format!("{name}{of} is over: {why}"),
        }
    }
}

/// As RFC 3339 has it: `2020-09-13T12:26:40.000Z`.
fn rfc3339(unix_s: f64) -> String {
    let ms = (unix_s.rem_euclid(1.0) * 1e3) as u32;
    let date = text::date(unix_s);
    format!("{}.{ms:03}Z", date.trim_end_matches(" UTC").replace(' ', "T"))
}

/// A change of the rules as the metric proxy answers it.
#[derive(Clone, Debug, Serialize)]
pub struct ProxyDone {
    /// Change that was made, or why it was not.
    pub operation: Untrusted,
    /// Whether it was.
    pub success: bool,
}

/// A rule as the metric proxy lists it.
#[derive(Clone, Debug, Serialize)]
pub struct ProxyAlarm {
    name: Untrusted,
    metric: Untrusted,
    operator: BTreeMap<&'static str, f64>,
    current: Option<f64>,
    active: bool,
    pretty: Untrusted,
}

impl ProxyAlarm {
    /// Describes a rule, with the value that it met, if it fires.
    pub fn of(rule: &AlarmRule, current: Option<f64>, active: bool) -> Self {
        let operator = match rule.op {
            '>' => "More",
            '<' => "Less",
            _ => "Equal",
        };
        Self {
            name: rule.name.clone(),
            metric: rule.metric.clone(),
            operator: BTreeMap::from([(operator, rule.level)]),
            current,
            active,
            pretty: format!("{} : {}", rule.name.as_said(), rule.expr.as_said()).into(),
        }
    }
}

/// A rule as it is added by the metric proxy's name for it.
#[derive(Clone, Debug, Deserialize)]
pub struct ProxyNewAlarm {
    /// Its name.
    pub name: String,
    /// The job; `main` and `Node: NAME` are the machine.
    pub target: String,
    /// The metric.
    #[serde(default)]
    pub metric: String,
    /// `<`, `>` or `=`.
    #[serde(default)]
    pub operation: String,
    /// The level.
    #[serde(default)]
    pub value: f64,
}

impl ProxyNewAlarm {
    /// Reads what someone sent; to delete a rule, name and target are enough.
    pub fn from_json(json: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(json).map_err(|error| error.to_string())
    }

    /// The same in our words.
    pub fn new_alarm(self) -> Result<NewAlarm, String> {
        if !["<", ">", "="].contains(&self.operation.as_str()) {
            return Err(format!("No operator for {} only has = < and >", self.operation));
        }
        let is_node = self.target == "main" || self.target.starts_with("Node: ");
        Ok(NewAlarm {
            name: self.name,
            expr: format!("{} {} {}", self.metric, self.operation, self.value),
            on: is_node.then(|| "node".to_owned()),
            job: (!is_node).then_some(self.target),
            ..NewAlarm::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(end_unix_s: Option<f64>) -> AlarmState {
        AlarmState {
            id: 7,
            name: "busy".into(),
            owner: None,
            state: if end_unix_s.is_some() { "resolved" } else { "firing" }.to_owned(),
            expr: "rate(write_bytes) > 10".into(),
            value: Some(12.5),
            job: Some("4711".into()),
            user: Some("ada\u{1b}\"".into()),
            app: Some("".into()),
            program: Some("lmp".into()),
            severity: "warning".into(),
            since_unix_s: 1_600_000_000.25,
            end_unix_s,
            why: end_unix_s.map(|_| "cleared".to_owned()),
        }
    }

    #[test]
    fn an_alarm_is_told_as_the_alertmanager_reads_it() {
        let told: serde_json::Value = serde_json::from_str(&alertmanager_json(&state(None), "n1")).unwrap();
        assert_eq!(told[0]["labels"]["alertname"], "busy");
        assert_eq!(told[0]["labels"]["job_id"], "4711");
        assert_eq!(told[0]["labels"]["user"], "ada\u{1b}\"");
        assert_eq!(told[0]["labels"].get("app"), None, "an empty label is none");
        assert_eq!(told[0]["startsAt"], "2020-09-13T12:26:40.250Z");
        assert_eq!(told[0]["endsAt"], "2021-09-13T12:26:40.250Z");
        let over = state(Some(1_600_000_060.0));
        let told: serde_json::Value = serde_json::from_str(&alertmanager_json(&over, "n1")).unwrap();
        assert_eq!(told[0]["startsAt"], "2020-09-13T12:26:40.250Z", "the same alarm");
        assert_eq!(told[0]["endsAt"], "2020-09-13T12:27:40.000Z");
        let told: serde_json::Value = serde_json::from_str(&webhook_json(&over, "n1")).unwrap();
        assert_eq!(told["alarm"]["state"], "resolved");
        assert_eq!(told["summary"], "busy (job 4711) is over: cleared");
    }

    #[test]
    fn a_rule_is_stored_as_it_was_asked_for() {
        let json =
            r#"{"name":"a","expr":"rate(x) > 1GB","for_s":30,"clear":5e8,"user":"ada","severity":"page"}"#;
        let rule = NewAlarm::from_json(json.as_bytes()).unwrap().rule(Some(1000)).unwrap();
        assert_eq!(NewAlarm::of(&rule).rule(Some(1000)).unwrap(), rule);
        let long = Rule::new("a", "age > 0.015182761235162679").unwrap();
        let stored = NewAlarm::from_json(NewAlarm::of(&long).to_json().as_bytes()).unwrap();
        assert_eq!(stored.rule(None).unwrap(), long);
        assert_eq!((rule.level, rule.clear, rule.for_ns), (1e9, 5e8, 30_000_000_000));
        assert_eq!(
            AlarmRule::of(&rule).to_text(),
            "a: rate(x) > 1GB for 30 s, of each job, user ada, of uid 1000; ends at 500000000; severity page"
        );
        for (json, why) in [
            ("{", "EOF"),
            (r#"{"name":"a"}"#, "expr"),
            (r#"{"name":"a","expr":"x > 1","form":1}"#, "unknown field"),
        ] {
            let said = NewAlarm::from_json(json.as_bytes()).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
        let long = NewAlarm { user: Some("x".repeat(200)), ..NewAlarm::of(&rule) };
        assert_eq!(long.rule(None), Err(RuleError::Long("user")));
        let bad = NewAlarm { severity: Some("a b".to_owned()), ..NewAlarm::of(&rule) };
        assert!(bad.rule(None).is_err());
    }

    #[test]
    fn the_list_is_shown_and_nothing_in_it_steers_a_terminal() {
        let rule = Rule::new("busy", "rate(write_bytes) > 10 MB/s").unwrap();
        let later = AlarmState { id: 9, since_unix_s: 1_600_000_080.0, ..state(None) };
        let list = AlarmList {
            rules: vec![AlarmRule::of(&rule)],
            firing: vec![later.clone()],
            history: vec![later, state(Some(1_600_000_060.0)), state(None)],
        };
        let text = list.to_text(1_600_000_100.0);
        assert!(text.contains("busy  rate(write_bytes) > 10") && text.contains("each job"), "{text}");
        let (now, past) = text.split_once("history").unwrap();
        assert!(now.contains("firing now") && now.contains("20 s"), "{now}");
        assert_eq!(past.lines().count(), 3, "one alarm is over, and shown once: {past}");
        assert!(past.contains("resolved: cleared") && past.trim_end().ends_with("60 s"), "{past}");
        let later = list.to_text(1_700_000_000.0);
        assert_eq!(later.split_once("history").unwrap().1, past, "what is over lasts no longer");
        assert!(!text.contains('\u{1b}'));
        assert_eq!(AlarmList::from_json(list.to_json().as_bytes()).unwrap().to_json(), list.to_json());
        assert!(AlarmList::default().to_text(0.0).starts_with("no alarms are set up"));
    }

    #[test]
    fn the_metric_proxys_alarms_become_ours() {
        let json = r#"{"name":"a","target":"main","metric":"load1","operation":">","value":5}"#;
        let new = ProxyNewAlarm::from_json(json.as_bytes()).unwrap().new_alarm().unwrap();
        let rule = new.rule(None).unwrap();
        assert_eq!((rule.on, rule.expr().as_str()), (On::Node, "load1 > 5"));
        let listed = text::json(&ProxyAlarm::of(&AlarmRule::of(&rule), Some(6.0), true));
        assert_eq!(
            listed,
            r#"{"name":"a","metric":"load1","operator":{"More":5.0},"current":6.0,"active":true,"pretty":"a : load1 > 5"}"#
        );
        let bad =
            ProxyNewAlarm { operation: "!".to_owned(), ..ProxyNewAlarm::from_json(json.as_bytes()).unwrap() };
        assert!(bad.new_alarm().is_err());
    }
}
