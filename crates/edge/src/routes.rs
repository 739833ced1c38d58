//! How a question over HTTP finds its answer: what a row of the table says, who may ask, on which thread it is worked out.

use std::sync::atomic::Ordering;

use iotide_ledger::Format;
use iotide_pages::web::{Endpoint, Who};

use crate::alarm_answers::RuleChange;
use crate::answer::{Answer, Answers, Asked, Result, Viewer};
use crate::doors::Asker;
use crate::model_answers::{Reply, Tell};
use crate::refusal::Refusal;
use crate::route_table::ROUTES;
use crate::web::Seat;

/// Question, and who asks it.
pub(crate) struct Question {
    pub(crate) asker: Asker,
    /// Part of the path where the table has a name in braces.
    pub(crate) named: String,
    pub(crate) query: Asked,
    /// In which format a Prometheus wants its answer.
    pub(crate) format: Format,
}

impl Question {
    pub(crate) fn viewer(&self) -> Viewer {
        self.asker.viewer
    }
}

/// Kind of answer that is accepted where there are both.
#[derive(Clone, Copy)]
pub(crate) enum Takes {
    /// By a person.
    Pages,
    /// By a program; metrics in this format.
    Data(Format),
}

/// A page, or what must be waited for to make one.
pub(crate) type MakePage = fn(&Answers, Question, Seat) -> Result<Reply>;
type MakeAnswer = fn(&Answers, &Question) -> Result<Answer>;

/// Handler of a question. All but the last are worked out on another thread, when it is the asker's turn.
#[derive(Clone, Copy)]
pub(crate) enum Handler {
    /// An answer that is known now.
    Answer(MakeAnswer),
    /// An answer that may have to be waited for.
    Reply(fn(&Answers, Question) -> Result<Reply>),
    /// An answer from the models of an application.
    Models(Tell),
    /// A page.
    Page(MakePage),
    /// A page for people, and an answer for programs.
    Either(MakePage, MakeAnswer),
    /// A handler that needs the connection itself.
    Connection(Speaks),
}

/// Handlers that need a connection: for the body of the question, a cookie, or an answer without an end.
#[derive(Clone, Copy)]
pub(crate) enum Speaks {
    Events,
    Push,
    Rules(RuleChange),
    RuleForm,
    LogIn,
    LogOut,
}

/// Something that can be asked, and what answers it.
pub(crate) struct Route {
    pub(crate) endpoint: Endpoint,
    pub(crate) handler: Handler,
}

/// Returns the endpoints in the table, for those who show it.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    ROUTES.iter().map(|route| route.endpoint).collect()
}

/// Finds what is asked; refuses what is not in the table, or by another method.
pub(crate) fn find(method: &str, path: &str) -> Result<&'static Route> {
    let at = || ROUTES.iter().filter(|route| route.endpoint.is_at(path));
    let method = if method == "HEAD" { "GET" } else { method };
    at().find(|route| route.endpoint.method == method).ok_or_else(|| match at().next() {
        Some(_) => Refusal::new(405, "it is not answered by this method"),
        None => Refusal::new(404, "there is nothing of this name; / lists what there is"),
    })
}

impl Route {
    /// Refuses whoever may not ask that.
    pub(crate) fn check(&self, viewer: Viewer, is_socket: bool) -> Result<()> {
        let unknown = || {
            Refusal::new(
                401,
                "over TCP, jobs are shown to who has a token (the file 'token' in the store directory) or has logged in (`iotide web`) only; ask at the unix socket",
            )
        };
        match (self.endpoint.who, viewer) {
            (Who::Anyone, _) => Ok(()),
            (Who::Socket, _) if is_socket => Ok(()),
            (Who::Socket, _) => Err(Refusal::new(403, "this is answered at the unix socket only")),
            (_, Viewer::Sums) => Err(unknown()),
            (Who::Models, _) | (Who::Jobs, Viewer::All | Viewer::User(_)) | (Who::Operator, Viewer::All) => {
                Ok(())
            }
            (Who::Jobs | Who::Operator, _) => Err(Refusal::new(403, "this role may not ask that")),
        }
    }

    /// Whether something is changed: another site must not have a browser do it.
    pub(crate) fn changes(&self) -> bool {
        self.endpoint.method != "GET" || matches!(self.handler, Handler::Connection(Speaks::Rules(_)))
    }
}

impl Answers {
    /// Answers a question of a program, or says how it will be.
    pub(crate) fn reply(&self, viewer: Viewer, path: &str, query: &str) -> Reply {
        let asker = Asker { viewer, ..Asker::nobody() };
        match find("GET", path) {
            Ok(route) => self.reply_by(route, asker, path, query, Takes::Data(Format::Text)),
            Err(refusal) => Reply::Now(refusal.into()),
        }
    }

    /// Answers by what is in the table.
    pub(crate) fn reply_by(
        &self,
        route: &Route,
        asker: Asker,
        path: &str,
        query: &str,
        takes: Takes,
    ) -> Reply {
        self.shared.has_answered.store(true, Ordering::Relaxed);
        let format = if let Takes::Data(format) = takes { format } else { Format::Text };
        let question = Asked::in_path(route.endpoint.named(path))
            .and_then(|named| Ok(Question { asker, named, query: Asked::parse(query)?, format }));
        let replied = match (route.handler, takes) {
            (Handler::Answer(answer), _) | (Handler::Either(_, answer), Takes::Data(_)) => {
                question.and_then(|asked| answer(self, &asked)).map(Reply::Now)
            }
            (Handler::Reply(reply), _) => question.and_then(|asked| reply(self, asked)),
            (Handler::Models(tell), _) => question.and_then(|asked| {
                self.reply_with(asked.viewer(), asked.query, move |application, asked, fitted| {
                    tell(application, asked, fitted).unwrap_or_else(Answer::from)
                })
            }),
            (Handler::Page(make) | Handler::Either(make, _), _) => {
                return self.page(make, route.endpoint.path, asker, question);
            }
            (Handler::Connection(_), _) => Err(Refusal::new(400, "this is answered on a connection only")),
        };
        replied.unwrap_or_else(|refusal| Reply::Now(refusal.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(viewer: Viewer, method: &str, path: &str) -> u16 {
        let found = find(method, path).and_then(|route| route.check(viewer, false));
        found.map_or_else(|refusal| refusal.status, |()| 200)
    }

    #[test]
    fn roles_see_what_is_theirs() {
        use Viewer::{All, Controller, Sums, User};
        for (path, expected) in [
            ("/api/1/jobs", [200, 200, 403, 401]),
            ("/jobs/4711", [200, 200, 403, 401]),
            ("/api/1/jobs/4711/why", [200, 200, 403, 401]),
            ("/api/1/nodes/below/series", [200, 200, 403, 401]),
            ("/trace/read", [200, 200, 403, 401]),
            ("/traces", [200, 200, 403, 401]),
            ("/api/1/models", [200, 200, 200, 401]),
            ("/models", [200, 200, 200, 401]),
            ("/api/1/losses", [200, 403, 403, 401]),
            ("/api/1/forecast", [200, 200, 200, 401]),
            ("/metrics", [200; 4]),
            ("/", [200; 4]),
            ("/nothing", [404; 4]),
            ("/api/1/jobs/a/b", [404; 4]),
        ] {
            assert_eq!(
                [All, User(1000), Controller, Sums].map(|viewer| status(viewer, "GET", path)),
                expected,
                "{path}"
            );
        }
        assert_eq!(
            [status(All, "POST", "/api/1/jobs"), status(All, "PUT", "/"), status(All, "HEAD", "/")],
            [405, 405, 200]
        );
        assert_eq!(status(All, "POST", "/api/1/login"), 403);
        assert!(find("POST", "/api/1/login").is_ok_and(|route| route.check(User(1000), true).is_ok()));
    }

    #[test]
    fn no_question_is_in_the_table_twice() {
        let endpoints = endpoints();
        for (i, endpoint) in endpoints.iter().enumerate() {
            let same = |other: &&Endpoint| other.method == endpoint.method && other.path == endpoint.path;
            assert_eq!(endpoints.iter().position(|other| same(&other)), Some(i), "{}", endpoint.path);
            assert!(endpoint.example.is_empty() || endpoint.method == "GET", "{}", endpoint.path);
        }
    }
}
