//! What is answered about alarms, and how rules come and go.

use std::collections::BTreeMap;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::Method;
use hyper::body::Incoming;
use iotide_ledger::alarm::RuleName;
use iotide_report::{
    AlarmDone, AlarmRule, AlarmState, NewAlarm, ProxyAlarm, ProxyDone, ProxyNewAlarm, answer_json,
};
use tokio::sync::oneshot;

use super::answer::{Answer, Answers, Asked, Result, Viewer};
use crate::alarms::{Refused, check_names};

/// Where alarms are.
const ALARMS: &str = "/api/1/alarms";
/// A rule has at most so many bytes.
const MOST_RULE: usize = 16 << 10;
/// It is there after this.
const WITHIN: std::time::Duration = std::time::Duration::from_secs(5);

/// Whether a question is one that changes rules.
pub(super) fn is_change(method: &Method, path: &str) -> bool {
    match *method {
        Method::POST => [ALARMS, "/alarms/add", "/alarms/del"].contains(&path),
        Method::DELETE => path.strip_prefix(ALARMS).is_some_and(|rest| rest.starts_with('/')),
        Method::GET => path == "/alarms/del",
        _ => false,
    }
}

/// Changes rules.
pub(super) async fn change(
    answers: &Answers,
    viewer: Viewer,
    (method, path, query): (&Method, &str, &str),
    body: Incoming,
) -> Answer {
    if viewer == Viewer::Sums {
        return Answer::refused(401, "over TCP, only who has the token changes alarms; use the unix socket");
    }
    let is_proxys = !path.starts_with(ALARMS);
    let done = if *method == Method::POST {
        whole(body).await.and_then(|body| answers.change_alarms(viewer, path, query, &body))
    } else {
        answers.change_alarms(viewer, path, query, b"")
    };
    match carried_out(done).await {
        Ok(said) if is_proxys => {
            Answer::json(answer_json(&ProxyDone { operation: said.into(), success: true }))
        }
        Ok(said) => Answer::json(answer_json(&AlarmDone { done: said.into() })),
        Err(refused) if is_proxys => {
            let why = iotide_report::Refused::from_json(&refused.body).map(|it| it.error).unwrap_or_default();
            let done = ProxyDone { operation: why, success: false };
            Answer { status: 400, ..Answer::json(answer_json(&done)) }
        }
        Err(refused) => refused,
    }
}

/// Changes rules as a form of the page says: `do=add` with the fields of a rule, or `do=delete` with a name and, of another's, the owner.
pub(super) async fn change_by_form(answers: &Answers, viewer: Viewer, body: Incoming) -> Result<String> {
    let done = whole(body).await.and_then(|body| {
        let form = std::str::from_utf8(&body).map_err(|_| Answer::refused(400, "the form is no text"))?;
        answers.change_by_form(viewer, &Asked::parse(form)?)
    });
    carried_out(done).await
}

async fn whole(body: Incoming) -> Result<Bytes> {
    let body = Limited::new(body, MOST_RULE).collect();
    match tokio::time::timeout(WITHIN, body).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(_)) => Err(Answer::refused(413, "a rule has at most 16 KiB")),
        Err(_) => Err(Answer::refused(408, "the rule takes too long to come")),
    }
}

/// Waits until a change is made, and returns what to say then.
async fn carried_out(asked: Result<(Waiting, String)>) -> Result<String> {
    let (waiting, said) = asked?;
    waiting.await.unwrap_or(Err(Refused::Busy)).map_err(refusal)?;
    Ok(said)
}

fn refusal(why: Refused) -> Answer {
    match why {
        Refused::Exists => Answer::refused(409, "there is an alarm of this name: delete it first"),
        Refused::Unknown => Answer::refused(404, "you have no alarm of this name"),
        Refused::TooMany => Answer::refused(429, "there are as many alarms as are allowed: delete some"),
        Refused::Store(why) => Answer::refused(503, why),
        Refused::Busy => Answer::refused(503, "the daemon is busy; try again"),
    }
}

type Waiting = oneshot::Receiver<std::result::Result<(), Refused>>;

impl Answers {
    fn change_by_form(&self, viewer: Viewer, form: &Asked) -> Result<(Waiting, String)> {
        let said = |name: &str| form.get(name).map(str::trim).filter(|text| !text.is_empty());
        let name = said("name").ok_or_else(|| Answer::refused(400, "a rule has a name"))?;
        let text = |name: &str| said(name).map(str::to_owned);
        match form.get("do") {
            Some("delete") => {
                let owner = said("owner").map_or_else(String::new, |owner| format!("owner={owner}"));
                self.change_alarms(viewer, &format!("{ALARMS}/{name}"), &owner, b"")
            }
            Some("add") => {
                let for_s = said("for").map(|text| text.parse::<f64>()).transpose();
                let new = NewAlarm {
                    name: name.to_owned(),
                    expr: text("expr").unwrap_or_default(),
                    for_s: for_s.map_err(|_| Answer::refused(400, "'for' is a number of seconds"))?,
                    clear: None,
                    on: text("on"),
                    user: text("user"),
                    app: text("app"),
                    job: text("job"),
                    severity: text("severity"),
                };
                self.change_alarms(viewer, ALARMS, "", new.to_json().as_bytes())
            }
            _ => Err(Answer::refused(400, "a form of alarms adds a rule or deletes one")),
        }
    }

    /// Asks for a change; returns what to wait for, and what to say then.
    fn change_alarms(
        &self,
        viewer: Viewer,
        path: &str,
        query: &str,
        body: &[u8],
    ) -> Result<(Waiting, String)> {
        let alarms = &self.shared.alarms;
        let asked = Asked::parse(query)?;
        let bad = |why: String| Answer::refused(400, why);
        if let Some(name) = path.strip_prefix("/api/1/alarms/") {
            let name = RuleName::new(name).map_err(|why| bad(why.to_string()))?;
            // Whoever sees all may delete what is another's.
            let asked = asked.get("owner").map(str::parse::<u32>).transpose();
            let asked = asked.map_err(|_| bad("'owner' is a user's number".to_owned()))?;
            let owner = match (viewer.only_uid(), asked) {
                (Some(own), Some(other)) if own != other => {
                    return Err(Answer::refused(403, "you delete your own rules only"));
                }
                (own, asked) => own.or(asked),
            };
            let said = format!("deleted {name}");
            return Ok((alarms.delete(owner, name), said));
        }
        if path == "/alarms/del" {
            let (name, target) = match asked.get("name") {
                Some(name) => (name.to_owned(), asked.get("targetjob").unwrap_or_default().to_owned()),
                None => {
                    let body = ProxyNewAlarm::from_json(body).map_err(bad)?;
                    (body.name, body.target)
                }
            };
            let said = format!("Deleted {name} from {target}");
            let name = RuleName::new(&name).map_err(|why| bad(why.to_string()))?;
            return Ok((alarms.delete(viewer.only_uid(), name), said));
        }
        let is_proxys = path == "/alarms/add";
        let new = if is_proxys {
            ProxyNewAlarm::from_json(body).and_then(ProxyNewAlarm::new_alarm).map_err(bad)?
        } else {
            NewAlarm::from_json(body).map_err(bad)?
        };
        let rule = new.rule(viewer.only_uid()).map_err(|why| bad(why.to_string()))?;
        check_names(&rule).map_err(bad)?;
        let said = if is_proxys {
            "alarm registered".to_owned()
        } else {
            format!("added {}", AlarmRule::of(&rule).to_text())
        };
        Ok((alarms.add(rule), said))
    }

    /// Answers a question about alarms; `None` if it is about something else.
    pub(super) fn alarms(&self, viewer: Viewer, path: &str) -> Option<Result<Answer>> {
        let list = || self.shared.alarms.list(viewer.only_uid());
        match path {
            ALARMS => Some(Ok(Answer::json(answer_json(&list())))),
            // As the metric proxy answers: rules by job, and those of them that fire.
            "/alarms/list" => {
                let list = list();
                let mut by_job: BTreeMap<String, Vec<ProxyAlarm>> = BTreeMap::new();
                for rule in &list.rules {
                    let firing = list.firing.iter().find(|it| is_of(it, rule));
                    let target = rule.job.as_ref().map_or("main", |job| job.as_said());
                    let alarm = ProxyAlarm::of(rule, firing.and_then(|it| it.value), firing.is_some());
                    by_job.entry(target.to_owned()).or_default().push(alarm);
                }
                Some(Ok(Answer::json(answer_json(&by_job))))
            }
            "/alarms" => {
                let list = list();
                let mut by_job: BTreeMap<String, Vec<ProxyAlarm>> = BTreeMap::new();
                for firing in &list.firing {
                    let Some(rule) = list.rules.iter().find(|rule| is_of(firing, rule)) else { continue };
                    let target = firing.job.as_ref().map_or("main", |job| job.as_said());
                    by_job.entry(target.to_owned()).or_default().push(ProxyAlarm::of(
                        rule,
                        firing.value,
                        true,
                    ));
                }
                Some(Ok(Answer::json(answer_json(&by_job))))
            }
            _ => None,
        }
    }
}

fn is_of(state: &AlarmState, rule: &AlarmRule) -> bool {
    state.name == rule.name && state.owner == rule.owner
}
