//! What is answered about a controller's decisions, and how one wishes something of it.

use std::collections::BTreeMap;

use iotide_report::answer_json;

use super::answer::{Answer, Answers, Asked, Result};
use crate::steering::OperatorRequest;

/// Where decisions are.
pub(super) const DECISIONS: &str = "/api/1/decisions";

impl Answers {
    /// What was decided.
    pub(super) fn decisions(&self) -> Answer {
        Answer::json(answer_json(self.shared.steering.decisions().as_ref()))
    }

    /// Passes on what is wished of the controller.
    pub(super) fn wish(&self, path: &str, query: &str) -> Answer {
        match self.wished(path, query) {
            Ok(said) => Answer::json(answer_json(&BTreeMap::from([("done", said)]))),
            Err(refused) => refused,
        }
    }

    fn wished(&self, path: &str, query: &str) -> Result<String> {
        let list = self.shared.steering.decisions();
        if !list.acting {
            return Err(Answer::refused(409, "this daemon does not act: its settings have no [act]"));
        }
        let asked = Asked::parse(query)?;
        let rule = || {
            let name = asked.get("rule").unwrap_or_default();
            let is_known = list.rules.iter().any(|rule| rule.name.as_said() == name);
            if is_known {
                Ok(name.to_owned())
            } else {
                Err(Answer::refused(404, "there is no rule of this name"))
            }
        };
        let (wish, said) = match path.strip_prefix(DECISIONS) {
            Some("/undo") => {
                let id = asked.get("id").and_then(|id| id.parse().ok());
                let id: u64 = id.ok_or_else(|| Answer::refused(400, "'id' is the number of a decision"))?;
                let stands = list.decisions.iter().any(|it| it.id == id && it.state == "standing");
                if !stands {
                    return Err(Answer::refused(404, "no decision of this number is in force"));
                }
                (OperatorRequest::Undo(id), format!("taking back {id}"))
            }
            Some("/stop") => {
                rule().map(|rule| (OperatorRequest::Stop(rule.clone()), format!("stopping {rule}")))?
            }
            Some("/resume") => {
                rule().map(|rule| (OperatorRequest::Resume(rule.clone()), format!("using {rule} again")))?
            }
            _ => return Err(Answer::refused(404, "'undo', 'stop' or 'resume' is asked of a controller")),
        };
        if !self.shared.steering.wish(wish) {
            return Err(Answer::refused(503, "the controller is busy; try again"));
        }
        Ok(said)
    }
}
