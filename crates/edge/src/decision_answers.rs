//! How an operator asks something of the controller.

use std::collections::BTreeMap;

use iotide_report::answer_json;

use crate::answer::{Answer, Answers, Asked, Result};
use crate::refusal::Refusal;
use crate::steering::OperatorRequest;

impl Answers {
    /// Passes on what is asked of the controller.
    pub(crate) fn request(&self, what: &str, asked: &Asked) -> Result<Answer> {
        let list = self.shared.steering.decisions();
        if !list.acting {
            return Err(Refusal::new(409, "this daemon does not act: its settings have no [act]"));
        }
        let rule = || {
            let name = asked.get("rule").unwrap_or_default();
            let is_known = list.rules.iter().any(|rule| rule.name.as_said() == name);
            if is_known {
                Ok(name.to_owned())
            } else {
                Err(Refusal::new(404, "there is no rule of this name"))
            }
        };
        let (request, said) = match what {
            "undo" => {
                let id = asked.get("id").and_then(|id| id.parse().ok());
                let id: u64 = id.ok_or_else(|| Refusal::new(400, "'id' is the number of a decision"))?;
                let stands = list.decisions.iter().any(|it| it.id == id && it.state == "standing");
                if !stands {
                    return Err(Refusal::new(404, "no decision of this number is in force"));
                }
                (OperatorRequest::Undo(id), format!("taking back {id}"))
            }
            "stop" => rule().map(|rule| (OperatorRequest::Stop(rule.clone()), format!("stopping {rule}")))?,
            "resume" => {
                rule().map(|rule| (OperatorRequest::Resume(rule.clone()), format!("using {rule} again")))?
            }
            _ => return Err(Refusal::new(404, "'undo', 'stop' or 'resume' is asked of a controller")),
        };
        if !self.shared.steering.request(request) {
            return Err(Refusal::new(503, "the controller is busy; try again"));
        }
        Ok(Answer::json(answer_json(&BTreeMap::from([("done", said)]))))
    }
}
