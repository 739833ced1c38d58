//! Every question that is answered over HTTP, as data. What is not in the table is not answered: the router asks it first. The list at `/`, the page of
//! the API and `/api/1/openapi.json` are made of it.

use iotide_pages::web::{Endpoint, Kind, Who};

use super::answer::{Answer, Viewer};

const JSON: &str = "application/json";
const JSON_LINES: &str = "application/jsonl";
const HTML: &str = "text/html";
const TEXT: &str = "text/plain";
const EVENTS: &str = "text/event-stream";

/// Which job or application a question about models is about.
const OF_MODELS: &[(&str, &str)] = &[
    ("job", "a job, whose application is meant"),
    ("app", "an application, by id or program name"),
    ("user", "whose runs, if several users have such an application"),
    ("build", "runs of the binary whose build id begins so, or `this`"),
    ("last", "the last so many runs"),
    ("since", "runs begun at or after this time, in seconds since 1970"),
];
const EVALUATED: &[(&str, &str)] = &[
    ("job", "a job, whose application is meant"),
    ("app", "an application, by id or program name"),
    ("metric*", "what was measured"),
    ("callpath", "of what, if several have this metric"),
    ("at", "the point, as in `size=4096`; or each parameter by its name"),
    ("confidence", "that of the interval, 0.9 unless said"),
];
const SERIES: &[(&str, &str)] = &[
    ("metric*", "its name, as `metrics` beside it lists them"),
    ("from", "in seconds since 1970"),
    ("to", "in seconds since 1970"),
    ("points", "at most so many, up to 10000"),
];

const fn get(
    path: &'static str,
    who: Who,
    kind: Kind,
    what: &'static str,
    example: &'static str,
) -> Endpoint {
    Endpoint { method: "GET", path, who, kind, what, query: &[], example, content: JSON }
}

/// The table.
pub(crate) const ENDPOINTS: &[Endpoint] = &[
    Endpoint {
        query: &[
            ("state", "running, ended or partial"),
            ("user", "jobs of this user"),
            ("app", "runs of this application, by id or program name"),
            ("since", "begun at or after this time, in seconds since 1970"),
            ("q", "with this text in id, program name or command"),
            ("limit", "at most so many, up to 1000"),
            ("cursor", "what `next` of the last answer was"),
        ],
        ..get("/api/1/jobs", Who::Jobs, Kind::Api, "jobs, the latest first", "/api/1/jobs?limit=1")
    },
    get("/api/1/jobs/{job}", Who::Jobs, Kind::Api, "all that is known of a job", "/api/1/jobs/{job}"),
    get(
        "/api/1/jobs/{job}/metrics",
        Who::Jobs,
        Kind::Api,
        "metrics of a job that were sampled",
        "/api/1/jobs/{job}/metrics",
    ),
    Endpoint {
        query: SERIES,
        ..get(
            "/api/1/jobs/{job}/series",
            Who::Jobs,
            Kind::Api,
            "one metric of a job over time",
            "/api/1/jobs/{job}/series?metric=write_bytes&points=10",
        )
    },
    get("/api/1/nodes", Who::Jobs, Kind::Api, "nodes of the tree, and how they are", "/api/1/nodes"),
    get(
        "/api/1/nodes/{node}/metrics",
        Who::Jobs,
        Kind::Api,
        "metrics of this machine, or of one below it, that were sampled",
        "/api/1/nodes/{node}/metrics",
    ),
    Endpoint {
        query: SERIES,
        ..get(
            "/api/1/nodes/{node}/series",
            Who::Jobs,
            Kind::Api,
            "one metric of this machine, or of one below it, over time",
            "",
        )
    },
    get("/api/1/losses", Who::Operator, Kind::Api, "what could not be counted or kept", "/api/1/losses"),
    Endpoint {
        query: OF_MODELS,
        ..get(
            "/api/1/models",
            Who::Models,
            Kind::Api,
            "models of an application",
            "/api/1/models?app={app}&last=100",
        )
    },
    Endpoint {
        query: EVALUATED,
        ..get(
            "/api/1/evaluate",
            Who::Models,
            Kind::Api,
            "what a model says of one point",
            "/api/1/evaluate?app={app}&metric=time&callpath=run&size=4096",
        )
    },
    Endpoint {
        query: OF_MODELS,
        content: JSON_LINES,
        ..get(
            "/api/1/points",
            Who::Models,
            Kind::Api,
            "measurements that models rest on, one a line",
            "/api/1/points?app={app}",
        )
    },
    get(
        "/api/1/forecast",
        Who::Models,
        Kind::Api,
        "bandwidth and queue of the storage in the next ten minutes, simulated, with bands",
        "/api/1/forecast",
    ),
    Endpoint {
        query: &[("rates", "1: also what each job moves, every second")],
        content: EVENTS,
        ..get(
            "/api/1/events",
            Who::Models,
            Kind::Api,
            "what happens, as it happens: jobs, predictions, models, alarms",
            "",
        )
    },
    Endpoint {
        method: "POST",
        query: &[("source", "what the metrics are of")],
        content: TEXT,
        ..get(
            "/api/1/push",
            Who::Jobs,
            Kind::Api,
            "takes metrics of a program, in the text form of Prometheus",
            "",
        )
    },
    Endpoint {
        method: "POST",
        ..get("/api/1/login", Who::Socket, Kind::Api, "a link that logs in once, within a minute", "")
    },
    get(
        "/api/1/alarms",
        Who::Jobs,
        Kind::Api,
        "rules of alarms, what fires and what has been",
        "/api/1/alarms",
    ),
    Endpoint {
        method: "POST",
        ..get(
            "/api/1/alarms",
            Who::Jobs,
            Kind::Api,
            "adds a rule: {\"name\", \"expr\", \"for_s\", \"clear\", \"on\", \"user\", \"app\", \"job\", \"severity\"}",
            "",
        )
    },
    Endpoint {
        method: "DELETE",
        query: &[("owner", "whose rule, as a number; for operators")],
        ..get("/api/1/alarms/{name}", Who::Jobs, Kind::Api, "deletes a rule", "")
    },
    get(
        "/api/1/decisions",
        Who::Operator,
        Kind::Api,
        "what the controller ([act] of the settings) may do, what it did, and what came of it",
        "/api/1/decisions",
    ),
    Endpoint {
        method: "POST",
        query: &[("id", "undo: which decision"), ("rule", "stop and resume: which rule")],
        ..get(
            "/api/1/decisions/{wish}",
            Who::Operator,
            Kind::Api,
            "asks the controller to undo a decision, to stop using a rule, or to resume it",
            "",
        )
    },
    get("/api/1/openapi.json", Who::Anyone, Kind::Api, "this list, for programs", "/api/1/openapi.json"),
    Endpoint {
        query: &[("job", "of this job only"), ("node", "of this machine only")],
        content: TEXT,
        ..get(
            "/metrics",
            Who::Anyone,
            Kind::Api,
            "what Prometheus scrapes; series of jobs for whom may see them",
            "/metrics?node={node}",
        )
    },
    Endpoint {
        query: &[("job*", "which")],
        ..get("/job", Who::Jobs, Kind::Alias, "all that is known of a job", "/job?job={job}")
    },
    Endpoint {
        query: &[("past", "1: also jobs that have ended")],
        ..get(
            "/job/list",
            Who::Jobs,
            Kind::Alias,
            "running jobs, the node's sum, the sum of all",
            "/job/list",
        )
    },
    get("/topo", Who::Jobs, Kind::Alias, "pairs of parent and child", "/topo"),
    get("/alarms/list", Who::Jobs, Kind::Alias, "rules of alarms, by job", "/alarms/list"),
    Endpoint { method: "POST", ..get("/alarms/add", Who::Jobs, Kind::Alias, "adds a rule", "") },
    Endpoint { method: "POST", ..get("/alarms/del", Who::Jobs, Kind::Alias, "deletes a rule", "") },
    Endpoint {
        query: &[("name*", "which"), ("targetjob", "of which job")],
        ..get("/alarms/del", Who::Jobs, Kind::Alias, "deletes a rule", "")
    },
    get("/trace/list", Who::Jobs, Kind::Alias, "jobs that have traces", "/trace/list"),
    Endpoint {
        query: &[("job*", "which; `main` for all machines, `Node: NAME` for one")],
        ..get(
            "/trace/metrics",
            Who::Jobs,
            Kind::Alias,
            "names of metrics and of their derivatives",
            "/trace/metrics?job={job}",
        )
    },
    Endpoint {
        query: &[
            ("job*", "which; `main` for all machines, `Node: NAME` for one"),
            ("filter*", "a metric, or `deriv__` and its name"),
        ],
        ..get(
            "/trace/plot",
            Who::Jobs,
            Kind::Alias,
            "pairs of time and value",
            "/trace/plot?job={job}&filter=deriv__write_bytes",
        )
    },
    Endpoint {
        query: &[("job*", "which; `main` for all machines, `Node: NAME` for one")],
        ..get("/trace/read", Who::Jobs, Kind::Alias, "all metrics over time", "")
    },
    Endpoint {
        query: OF_MODELS,
        ..get("/model/get", Who::Models, Kind::Alias, "[[name, equation, rss]]", "/model/get?app={app}")
    },
    Endpoint {
        query: EVALUATED,
        ..get(
            "/model/evaluate",
            Who::Models,
            Kind::Alias,
            "a number",
            "/model/evaluate?app={app}&metric=run+time&size=4096",
        )
    },
    Endpoint {
        query: &[
            ("app", "an application, by id or program name"),
            ("metric*", "what was measured"),
            ("start*", "the first point"),
            ("end*", "the last"),
            ("step", "from one to the next"),
            ("x", "along this parameter, `size` unless said"),
        ],
        ..get(
            "/model/plot",
            Who::Models,
            Kind::Alias,
            "[[x, y]]",
            "/model/plot?app={app}&metric=run+time&start=1&end=4",
        )
    },
    Endpoint {
        query: OF_MODELS,
        content: JSON_LINES,
        ..get(
            "/model/download",
            Who::Models,
            Kind::Alias,
            "measurements, for Extra-P",
            "/model/download?app={app}",
        )
    },
    get("/profiles/percmd", Who::Jobs, Kind::Alias, "jobs that have ended, by command", "/profiles/percmd"),
    Endpoint {
        query: &[("jobid*", "which")],
        ..get(
            "/profiles/get",
            Who::Jobs,
            Kind::Alias,
            "what one job counted, name by name",
            "/profiles/get?jobid={job}",
        )
    },
    Endpoint {
        query: OF_MODELS,
        content: JSON_LINES,
        ..get(
            "/profiles/extrap",
            Who::Models,
            Kind::Alias,
            "measurements, for Extra-P",
            "/profiles/extrap?app={app}",
        )
    },
    Endpoint {
        query: OF_MODELS,
        ..get(
            "/profiles/points",
            Who::Models,
            Kind::Alias,
            "where what was measured",
            "/profiles/points?app={app}",
        )
    },
    get("/profiles/", Who::Jobs, Kind::Alias, "jobs that have ended", "/profiles/"),
    page("/", Who::Anyone, "the jobs; to programs, a list of questions", &[]),
    page(
        "/jobs",
        Who::Jobs,
        "jobs: what runs, and what ran",
        &[
            ("q", "with this text"),
            ("user", "of this user"),
            ("state", "running, ended or partial"),
            ("cursor", "where the list goes on"),
        ],
    ),
    page("/jobs/{job}", Who::Jobs, "one job", &[]),
    page("/load", Who::Jobs, "which job loads the storage now and in the next minutes", &[]),
    page("/nodes", Who::Jobs, "the tree of daemons and their health", &[]),
    page(
        "/models",
        Who::Models,
        "applications, and how what they measure grows",
        &[
            ("app", "which"),
            ("callpath", "of what"),
            ("metric", "what"),
            ("at", "the size"),
            ("step", "the place of the slider"),
        ],
    ),
    page(
        "/traces",
        Who::Jobs,
        "any metric of a job or a machine over time",
        &[
            ("job", "which; `main` for all machines, `Node: NAME` for one"),
            ("metric", "which"),
            ("as", "rate or total"),
            ("last", "seconds"),
            ("ago", "seconds"),
        ],
    ),
    page(
        "/profiles",
        Who::Jobs,
        "past runs by application, and two side by side; to programs, jobs that have ended",
        &[("a", "a job, or `app:` and an application"), ("b", "the other")],
    ),
    page(
        "/alarms",
        Who::Jobs,
        "rules of alarms, what fires and what has been; to programs, what fires by job",
        &[],
    ),
    Endpoint {
        method: "POST",
        ..page("/alarms", Who::Jobs, "adds or deletes a rule, as the page's forms say", &[])
    },
    page("/decisions", Who::Operator, "what the controller may do, what it did, and what came of it", &[]),
    page("/search", Who::Jobs, "jobs, applications and nodes that have a text", &[("q", "the text")]),
    page("/api", Who::Models, "this list, with examples", &[]),
    page("/login", Who::Anyone, "logs in", &[("once", "what `iotide web` printed")]),
    Endpoint { method: "POST", ..page("/logout", Who::Anyone, "logs out", &[]) },
    page("/page/{name}", Who::Anyone, "the script and the style of pages", &[]),
    page("/icon.svg", Who::Anyone, "the sign of pages", &[]),
];

const fn page(
    path: &'static str,
    who: Who,
    what: &'static str,
    query: &'static [(&'static str, &'static str)],
) -> Endpoint {
    Endpoint { method: "GET", path, who, kind: Kind::Page, what, query, example: "", content: HTML }
}

/// Finds what is asked; refuses what is not in the table, by another method, or not for whoever asks.
pub(crate) fn find(
    viewer: Viewer,
    is_socket: bool,
    method: &str,
    path: &str,
) -> Result<&'static Endpoint, Answer> {
    let at = || ENDPOINTS.iter().filter(|endpoint| endpoint.is_at(path));
    let method = if method == "HEAD" { "GET" } else { method };
    let Some(endpoint) = at().find(|endpoint| endpoint.method == method) else {
        return Err(match at().next() {
            Some(_) => Answer::refused(405, "it is not answered by this method"),
            None => Answer::refused(404, "there is nothing of this name; / lists what there is"),
        });
    };
    let unknown = || {
        Answer::refused(
            401,
            "over TCP, jobs are shown to who has a token (the file 'token' in the store directory) or has logged in (`iotide web`) only; ask at the unix socket",
        )
    };
    match (endpoint.who, viewer) {
        (Who::Anyone, _) => {}
        (Who::Socket, _) if is_socket => {}
        (Who::Socket, _) => return Err(Answer::refused(403, "this is answered at the unix socket only")),
        (_, Viewer::Sums) => return Err(unknown()),
        (Who::Models, _) | (Who::Jobs, Viewer::All | Viewer::User(_)) | (Who::Operator, Viewer::All) => {}
        (Who::Jobs | Who::Operator, _) => return Err(Answer::refused(403, "this role may not ask that")),
    }
    Ok(endpoint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(viewer: Viewer, method: &str, path: &str) -> u16 {
        find(viewer, false, method, path).map_or_else(|refused| refused.status, |_| 200)
    }

    #[test]
    fn roles_see_what_is_theirs() {
        use Viewer::{All, Controller, Sums, User};
        for (path, expected) in [
            ("/api/1/jobs", [200, 200, 403, 401]),
            ("/jobs/4711", [200, 200, 403, 401]),
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
        assert!(find(User(1000), true, "POST", "/api/1/login").is_ok());
    }

    #[test]
    fn no_question_is_in_the_table_twice() {
        for (i, endpoint) in ENDPOINTS.iter().enumerate() {
            let same = |other: &&Endpoint| other.method == endpoint.method && other.path == endpoint.path;
            assert_eq!(ENDPOINTS.iter().position(|other| same(&other)), Some(i), "{}", endpoint.path);
            assert!(endpoint.example.is_empty() || endpoint.method == "GET", "{}", endpoint.path);
        }
    }
}
