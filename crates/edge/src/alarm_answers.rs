//! What is answered about alarms, and how rules come and go.

use std::collections::BTreeMap;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use iotide_ledger::alarm::RuleName;
use iotide_report::{
    AlarmDone, AlarmRule, AlarmState, NewAlarm, ProxyAlarm, ProxyDone, ProxyNewAlarm, Untrusted, answer_json,
};
use tokio::sync::oneshot;

use crate::answer::{Answer, Answers, Asked, Result, Viewer};
use crate::refusal::Refusal;
use crate::series::MAIN;
use iotide_alarms::{Refused, check_names};

/// A rule has at most so many bytes.
const MOST_RULE: usize = 16 << 10;
/// It is there after this.
const WITHIN: std::time::Duration = std::time::Duration::from_secs(5);

/// How rules are changed: as this daemon has it, or as the metric proxy has.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum RuleChange {
    Add,
    Delete,
    ProxyAdd,
    ProxyDelete,
}

/// Changes rules.
pub(crate) async fn change(
    answers: &Answers,
    change: RuleChange,
    (viewer, named, query): (Viewer, &str, &str),
    body: Option<Incoming>,
) -> Answer {
    let is_proxys = matches!(change, RuleChange::ProxyAdd | RuleChange::ProxyDelete);
    let body = match body {
        Some(body) => whole(body).await,
        None => Ok(Bytes::new()),
    };
    let asked = body.and_then(|body| {
        let query = Asked::parse(query)?;
        match change {
            RuleChange::Add => answers.add_rule(viewer, &NewAlarm::from_json(&body).map_err(bad)?),
            RuleChange::Delete => answers.delete_rule(viewer, &Asked::in_path(named)?, query.get("owner")),
            RuleChange::ProxyAdd => {
                let new = ProxyNewAlarm::from_json(&body).and_then(ProxyNewAlarm::new_alarm);
                let (waiting, _) = answers.add_rule(viewer, &new.map_err(bad)?)?;
                Ok((waiting, "alarm registered".to_owned()))
            }
            RuleChange::ProxyDelete => {
                let (name, target) = match query.get("name") {
                    Some(name) => (name.to_owned(), query.get("targetjob").unwrap_or_default().to_owned()),
                    None => {
                        let body = ProxyNewAlarm::from_json(&body).map_err(bad)?;
                        (body.name, body.target)
                    }
                };
                let (waiting, _) = answers.delete_rule(viewer, &name, None)?;
                Ok((waiting, format!("Deleted {name} from {target}")))
            }
        }
    });
    match carried_out(asked).await {
        Ok(said) if is_proxys => {
            Answer::json(answer_json(&ProxyDone { operation: said.into(), success: true }))
        }
        Ok(said) => Answer::json(answer_json(&AlarmDone { done: said.into() })),
        Err(refusal) if is_proxys => {
            let done = ProxyDone { operation: refusal.why.into(), success: false };
            Answer { status: 400, ..Answer::json(answer_json(&done)) }
        }
        Err(refusal) => refusal.into(),
    }
}

/// Changes rules as a form of the page says: `do=add` with the fields of a rule, or `do=delete` with a name and, of another's, the owner.
pub(crate) async fn change_by_form(answers: &Answers, viewer: Viewer, body: Incoming) -> Result<String> {
    let done = whole(body).await.and_then(|body| {
        let form = std::str::from_utf8(&body).map_err(|_| Refusal::new(400, "the form is no text"))?;
        answers.change_by_form(viewer, &Asked::parse(form)?)
    });
    carried_out(done).await
}

async fn whole(body: Incoming) -> Result<Bytes> {
    let body = Limited::new(body, MOST_RULE).collect();
    match tokio::time::timeout(WITHIN, body).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(_)) => Err(Refusal::new(413, "a rule has at most 16 KiB")),
        Err(_) => Err(Refusal::new(408, "the rule takes too long to come")),
    }
}

/// Waits until a change is made, and returns what to say then.
async fn carried_out(asked: Result<(Waiting, String)>) -> Result<String> {
    let (waiting, said) = asked?;
    waiting.await.unwrap_or(Err(Refused::Busy)).map_err(refusal)?;
    Ok(said)
}

fn bad(why: impl ToString) -> Refusal {
    Refusal::new(400, why.to_string())
}

fn refusal(why: Refused) -> Refusal {
    match why {
        Refused::Exists => Refusal::new(409, "there is an alarm of this name: delete it first"),
        Refused::Unknown => Refusal::new(404, "you have no alarm of this name"),
        Refused::TooMany => Refusal::new(429, "there are as many alarms as are allowed: delete some"),
        Refused::Store(why) => Refusal::new(503, why),
        Refused::Busy => Refusal::new(503, "the daemon is busy; try again"),
    }
}

type Waiting = oneshot::Receiver<std::result::Result<(), Refused>>;

impl Answers {
    fn change_by_form(&self, viewer: Viewer, form: &Asked) -> Result<(Waiting, String)> {
        let said = |name: &str| form.get(name).map(str::trim).filter(|text| !text.is_empty());
        let name = said("name").ok_or_else(|| Refusal::new(400, "a rule has a name"))?;
        let text = |name: &str| said(name).map(str::to_owned);
        match form.get("do") {
            Some("delete") => self.delete_rule(viewer, name, said("owner")),
            Some("add") => {
                let for_s = said("for").map(|text| text.parse::<f64>()).transpose();
                let new = NewAlarm {
                    name: name.to_owned(),
                    expr: text("expr").unwrap_or_default(),
                    for_s: for_s.map_err(|_| Refusal::new(400, "'for' is a number of seconds"))?,
                    clear: None,
                    on: text("on"),
                    user: text("user"),
                    app: text("app"),
                    job: text("job"),
                    severity: text("severity"),
                };
                self.add_rule(viewer, &new)
            }
            _ => Err(Refusal::new(400, "a form of alarms adds a rule or deletes one")),
        }
    }

    /// Asks for a rule to be added; returns what to wait for, and what to say then.
    fn add_rule(&self, viewer: Viewer, new: &NewAlarm) -> Result<(Waiting, String)> {
        let rule = new.rule(viewer.only_uid()).map_err(bad)?;
        check_names(&rule).map_err(bad)?;
        let said = format!("added {}", AlarmRule::of(&rule).to_text());
        Ok((self.shared.alarms.add(rule), said))
    }

    /// The same of one that is to be deleted. Whoever sees all may delete what is another's.
    fn delete_rule(&self, viewer: Viewer, name: &str, owner: Option<&str>) -> Result<(Waiting, String)> {
        let name = RuleName::new(name).map_err(bad)?;
        let asked = owner.map(str::parse::<u32>).transpose();
        let asked = asked.map_err(|_| bad("'owner' is a user's number"))?;
        let owner = match (viewer.only_uid(), asked) {
            (Some(own), Some(other)) if own != other => {
                return Err(Refusal::new(403, "you delete your own rules only"));
            }
            (own, asked) => own.or(asked),
        };
        let said = format!("deleted {name}");
        Ok((self.shared.alarms.delete(owner, name), said))
    }

    /// As the metric proxy lists rules: by job.
    pub(crate) fn proxy_rules(&self, viewer: Viewer) -> Answer {
        let list = self.shared.alarms.list(viewer.only_uid());
        let alarm = |rule: &AlarmRule| {
            let firing = list.firing.iter().find(|it| is_of(it, rule));
            (rule.job.clone(), ProxyAlarm::of(rule, firing.and_then(|it| it.value), firing.is_some()))
        };
        by_job(list.rules.iter().map(alarm))
    }

    /// The same of those that fire.
    pub(crate) fn proxy_firing(&self, viewer: Viewer) -> Answer {
        let list = self.shared.alarms.list(viewer.only_uid());
        let alarm = |firing: &AlarmState| {
            let rule = list.rules.iter().find(|rule| is_of(firing, rule))?;
            Some((firing.job.clone(), ProxyAlarm::of(rule, firing.value, true)))
        };
        by_job(list.firing.iter().filter_map(alarm))
    }
}

/// What is about no job is about `main`.
fn by_job(alarms: impl Iterator<Item = (Option<Untrusted>, ProxyAlarm)>) -> Answer {
    let mut by_job: BTreeMap<String, Vec<ProxyAlarm>> = BTreeMap::new();
    for (job, alarm) in alarms {
        let job = job.map_or_else(|| MAIN.to_owned(), |job| job.as_said().to_owned());
        by_job.entry(job).or_default().push(alarm);
    }
    Answer::json(answer_json(&by_job))
}

fn is_of(state: &AlarmState, rule: &AlarmRule) -> bool {
    state.name == rule.name && state.owner == rule.owner
}
