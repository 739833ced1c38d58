//! The table of every question that is answered over HTTP. What is not in it is not answered. The list at `/`, the page of the API and
//! `/api/1/openapi.json` are made of it.

use iotide_pages::web::{Endpoint, Kind, Who, endpoint_list, openapi_json};
use iotide_report::answer_json;

use crate::alarm_answers::RuleChange;
use crate::answer::{Answer, Answers};
use crate::model_answers;
use crate::routes::{Handler, Question, Route, Speaks, endpoints};
use crate::series::NODE;
use crate::web;

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
pub(crate) static ROUTES: &[Route] = &[
    Route {
        handler: Handler::Answer(|it, asked| {
            Ok(Answer::json(answer_json(&it.job_list(asked.viewer(), &asked.query)?)))
        }),
        endpoint: Endpoint {
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
    },
    Route {
        handler: Handler::Answer(|it, asked| {
            let mut document = it.job_document(asked.viewer(), &asked.named)?;
            if asked.query.get("why") == Some("1") {
                document.why = it.short_why(asked.viewer(), &asked.named);
            }
            Ok(Answer::json(answer_json(&document)))
        }),
        endpoint: Endpoint {
            query: &[("why", "1: also whether it was slow, and why, in short")],
            ..get(
                "/api/1/jobs/{job}",
                Who::Jobs,
                Kind::Api,
                "all that is known of a job",
                "/api/1/jobs/{job}",
            )
        },
    },
    Route {
        handler: Handler::Answer(|it, asked| it.why_answer(asked.viewer(), &asked.named)),
        endpoint: get(
            "/api/1/jobs/{job}/why",
            Who::Jobs,
            Kind::Api,
            "whether a job was slow, and why: beside earlier runs and the load of all jobs",
            "/api/1/jobs/{job}/why",
        ),
    },
    Route {
        handler: Handler::Reply(|it, asked| it.metrics_of(asked.viewer(), &asked.named)),
        endpoint: get(
            "/api/1/jobs/{job}/metrics",
            Who::Jobs,
            Kind::Api,
            "metrics of a job that were sampled",
            "/api/1/jobs/{job}/metrics",
        ),
    },
    Route {
        handler: Handler::Reply(|it, asked| it.series_of(asked.viewer(), &asked.named, &asked.query)),
        endpoint: Endpoint {
            query: SERIES,
            ..get(
                "/api/1/jobs/{job}/series",
                Who::Jobs,
                Kind::Api,
                "one metric of a job over time",
                "/api/1/jobs/{job}/series?metric=write_bytes&points=10",
            )
        },
    },
    Route {
        handler: Handler::Answer(|it, _| Ok(Answer::json(answer_json(&it.nodes())))),
        endpoint: get(
            "/api/1/nodes",
            Who::Jobs,
            Kind::Api,
            "nodes of the tree, and how they are",
            "/api/1/nodes",
        ),
    },
    Route {
        handler: Handler::Reply(|it, asked| it.metrics_of(asked.viewer(), &named_node(&asked))),
        endpoint: get(
            "/api/1/nodes/{node}/metrics",
            Who::Jobs,
            Kind::Api,
            "metrics of this machine, or of one below it, that were sampled",
            "/api/1/nodes/{node}/metrics",
        ),
    },
    Route {
        handler: Handler::Reply(|it, asked| it.series_of(asked.viewer(), &named_node(&asked), &asked.query)),
        endpoint: Endpoint {
            query: SERIES,
            ..get(
                "/api/1/nodes/{node}/series",
                Who::Jobs,
                Kind::Api,
                "one metric of this machine, or of one below it, over time",
                "",
            )
        },
    },
    Route {
        handler: Handler::Answer(|it, _| it.losses()),
        endpoint: get(
            "/api/1/losses",
            Who::Operator,
            Kind::Api,
            "what could not be counted or kept",
            "/api/1/losses",
        ),
    },
    Route {
        handler: Handler::Models(model_answers::models),
        endpoint: Endpoint {
            query: OF_MODELS,
            ..get(
                "/api/1/models",
                Who::Models,
                Kind::Api,
                "models of an application",
                "/api/1/models?app={app}&last=100",
            )
        },
    },
    Route {
        handler: Handler::Models(model_answers::evaluate),
        endpoint: Endpoint {
            query: EVALUATED,
            ..get(
                "/api/1/evaluate",
                Who::Models,
                Kind::Api,
                "what a model says of one point",
                "/api/1/evaluate?app={app}&metric=time&callpath=run&size=4096",
            )
        },
    },
    Route {
        handler: Handler::Models(model_answers::points),
        endpoint: Endpoint {
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
    },
    Route {
        handler: Handler::Reply(|it, asked| Ok(it.forecast_reply(asked.viewer()))),
        endpoint: get(
            "/api/1/forecast",
            Who::Models,
            Kind::Api,
            "bandwidth and queue of the storage in the next ten minutes, simulated, with bands",
            "/api/1/forecast",
        ),
    },
    Route {
        handler: Handler::Connection(Speaks::Events),
        endpoint: Endpoint {
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
    },
    Route {
        handler: Handler::Connection(Speaks::Push),
        endpoint: Endpoint {
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
    },
    Route {
        handler: Handler::Answer(|it, asked| it.link(asked.viewer())),
        endpoint: Endpoint {
            method: "POST",
            ..get("/api/1/login", Who::Socket, Kind::Api, "a link that logs in once, within a minute", "")
        },
    },
    Route {
        handler: Handler::Answer(|it, asked| {
            Ok(Answer::json(answer_json(&it.shared.alarms.list(asked.viewer().only_uid()))))
        }),
        endpoint: get(
            "/api/1/alarms",
            Who::Jobs,
            Kind::Api,
            "rules of alarms, what fires and what has been",
            "/api/1/alarms",
        ),
    },
    Route {
        handler: Handler::Connection(Speaks::Rules(RuleChange::Add)),
        endpoint: Endpoint {
            method: "POST",
            ..get(
                "/api/1/alarms",
                Who::Jobs,
                Kind::Api,
                "adds a rule: {\"name\", \"expr\", \"for_s\", \"clear\", \"on\", \"user\", \"app\", \"job\", \"severity\"}",
                "",
            )
        },
    },
    Route {
        handler: Handler::Connection(Speaks::Rules(RuleChange::Delete)),
        endpoint: Endpoint {
            method: "DELETE",
            query: &[("owner", "whose rule, as a number; for operators")],
            ..get("/api/1/alarms/{name}", Who::Jobs, Kind::Api, "deletes a rule", "")
        },
    },
    Route {
        handler: Handler::Answer(|it, _| {
            Ok(Answer::json(answer_json(it.shared.steering.decisions().as_ref())))
        }),
        endpoint: get(
            "/api/1/decisions",
            Who::Operator,
            Kind::Api,
            "what the controller ([act] of the settings) may do, what it did, and what came of it",
            "/api/1/decisions",
        ),
    },
    Route {
        handler: Handler::Answer(|it, asked| it.request(&asked.named, &asked.query)),
        endpoint: Endpoint {
            method: "POST",
            query: &[("id", "undo: which decision"), ("rule", "stop and resume: which rule")],
            ..get(
                "/api/1/decisions/{request}",
                Who::Operator,
                Kind::Api,
                "asks the controller to undo a decision, to stop using a rule, or to resume it",
                "",
            )
        },
    },
    Route {
        handler: Handler::Answer(|_, _| Ok(Answer::json(openapi_json(&endpoints())))),
        endpoint: get(
            "/api/1/openapi.json",
            Who::Anyone,
            Kind::Api,
            "this list, for programs",
            "/api/1/openapi.json",
        ),
    },
    Route {
        handler: Handler::Answer(|it, asked| it.metrics(asked.viewer(), &asked.query, asked.format)),
        endpoint: Endpoint {
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
    },
    Route {
        handler: Handler::Answer(|it, asked| it.proxy_job(asked.viewer(), &asked.query)),
        endpoint: Endpoint {
            query: &[("job*", "which")],
            ..get("/job", Who::Jobs, Kind::Alias, "all that is known of a job", "/job?job={job}")
        },
    },
    Route {
        handler: Handler::Answer(|it, asked| it.proxy_jobs(asked.viewer(), &asked.query)),
        endpoint: Endpoint {
            query: &[("past", "1: also jobs that have ended")],
            ..get(
                "/job/list",
                Who::Jobs,
                Kind::Alias,
                "running jobs, the node's sum, the sum of all",
                "/job/list",
            )
        },
    },
    Route {
        handler: Handler::Answer(|it, _| Ok(Answer::json(answer_json(&it.nodes().pairs())))),
        endpoint: get("/topo", Who::Jobs, Kind::Alias, "pairs of parent and child", "/topo"),
    },
    Route {
        handler: Handler::Answer(|it, asked| Ok(it.proxy_rules(asked.viewer()))),
        endpoint: get("/alarms/list", Who::Jobs, Kind::Alias, "rules of alarms, by job", "/alarms/list"),
    },
    Route {
        handler: Handler::Connection(Speaks::Rules(RuleChange::ProxyAdd)),
        endpoint: Endpoint {
            method: "POST",
            ..get("/alarms/add", Who::Jobs, Kind::Alias, "adds a rule", "")
        },
    },
    Route {
        handler: Handler::Connection(Speaks::Rules(RuleChange::ProxyDelete)),
        endpoint: Endpoint {
            method: "POST",
            ..get("/alarms/del", Who::Jobs, Kind::Alias, "deletes a rule", "")
        },
    },
    Route {
        handler: Handler::Connection(Speaks::Rules(RuleChange::ProxyDelete)),
        endpoint: Endpoint {
            query: &[("name*", "which"), ("targetjob", "of which job")],
            ..get("/alarms/del", Who::Jobs, Kind::Alias, "deletes a rule", "")
        },
    },
    Route {
        handler: Handler::Answer(|it, asked| it.proxy_traces(asked.viewer())),
        endpoint: get("/trace/list", Who::Jobs, Kind::Alias, "jobs that have traces", "/trace/list"),
    },
    Route {
        handler: Handler::Reply(|it, asked| it.proxy_metrics(asked.viewer(), &asked.query)),
        endpoint: Endpoint {
            query: &[("job*", "which; `main` for all machines, `Node: NAME` for one")],
            ..get(
                "/trace/metrics",
                Who::Jobs,
                Kind::Alias,
                "names of metrics and of their derivatives",
                "/trace/metrics?job={job}",
            )
        },
    },
    Route {
        handler: Handler::Reply(|it, asked| it.proxy_plot(asked.viewer(), &asked.query)),
        endpoint: Endpoint {
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
    },
    Route {
        handler: Handler::Reply(|it, asked| it.proxy_read(asked.viewer(), &asked.query)),
        endpoint: Endpoint {
            query: &[("job*", "which; `main` for all machines, `Node: NAME` for one")],
            ..get("/trace/read", Who::Jobs, Kind::Alias, "all metrics over time", "")
        },
    },
    Route {
        handler: Handler::Models(model_answers::proxy_models),
        endpoint: Endpoint {
            query: OF_MODELS,
            ..get("/model/get", Who::Models, Kind::Alias, "[[name, equation, rss]]", "/model/get?app={app}")
        },
    },
    Route {
        handler: Handler::Models(model_answers::proxy_evaluate),
        endpoint: Endpoint {
            query: EVALUATED,
            ..get(
                "/model/evaluate",
                Who::Models,
                Kind::Alias,
                "a number",
                "/model/evaluate?app={app}&metric=run+time&size=4096",
            )
        },
    },
    Route {
        handler: Handler::Models(model_answers::proxy_plot),
        endpoint: Endpoint {
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
    },
    Route {
        handler: Handler::Models(model_answers::points_for_extra_p),
        endpoint: Endpoint {
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
    },
    Route {
        handler: Handler::Answer(|it, asked| it.profiles_by_command(asked.viewer())),
        endpoint: get(
            "/profiles/percmd",
            Who::Jobs,
            Kind::Alias,
            "jobs that have ended, by command",
            "/profiles/percmd",
        ),
    },
    Route {
        handler: Handler::Answer(|it, asked| it.profile_of(asked.viewer(), &asked.query)),
        endpoint: Endpoint {
            query: &[("jobid*", "which")],
            ..get(
                "/profiles/get",
                Who::Jobs,
                Kind::Alias,
                "what one job counted, name by name",
                "/profiles/get?jobid={job}",
            )
        },
    },
    Route {
        handler: Handler::Models(model_answers::points_for_extra_p),
        endpoint: Endpoint {
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
    },
    Route {
        handler: Handler::Models(model_answers::proxy_points),
        endpoint: Endpoint {
            query: OF_MODELS,
            ..get(
                "/profiles/points",
                Who::Models,
                Kind::Alias,
                "where what was measured",
                "/profiles/points?app={app}",
            )
        },
    },
    Route {
        handler: Handler::Answer(|it, asked| it.profiles(asked.viewer())),
        endpoint: get("/profiles/", Who::Jobs, Kind::Alias, "jobs that have ended", "/profiles/"),
    },
    Route {
        handler: Handler::Either(Answers::first_page, |_, _| Ok(Answer::text(endpoint_list(&endpoints())))),
        endpoint: page("/", Who::Anyone, "the jobs; to programs, a list of questions", &[]),
    },
    Route {
        handler: Handler::Page(Answers::jobs_page),
        endpoint: page(
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
    },
    Route {
        handler: Handler::Page(Answers::job_page),
        endpoint: page("/jobs/{job}", Who::Jobs, "one job", &[]),
    },
    Route {
        handler: Handler::Page(Answers::load_page),
        endpoint: page("/load", Who::Jobs, "which job loads the storage now and in the next minutes", &[]),
    },
    Route {
        handler: Handler::Page(Answers::nodes_page),
        endpoint: page("/nodes", Who::Jobs, "the tree of daemons and their health", &[]),
    },
    Route {
        handler: Handler::Page(Answers::models_or_one),
        endpoint: page(
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
    },
    Route {
        handler: Handler::Page(Answers::traces_page),
        endpoint: page(
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
    },
    Route {
        handler: Handler::Either(Answers::profiles_page, |it, asked| it.profiles(asked.viewer())),
        endpoint: page(
            "/profiles",
            Who::Jobs,
            "past runs by application, and two side by side; to programs, jobs that have ended",
            &[("a", "a job, or `app:` and an application"), ("b", "the other")],
        ),
    },
    Route {
        handler: Handler::Either(Answers::alarms_page, |it, asked| Ok(it.proxy_firing(asked.viewer()))),
        endpoint: page(
            "/alarms",
            Who::Jobs,
            "rules of alarms, what fires and what has been; to programs, what fires by job",
            &[],
        ),
    },
    Route {
        handler: Handler::Connection(Speaks::RuleForm),
        endpoint: Endpoint {
            method: "POST",
            ..page("/alarms", Who::Jobs, "adds or deletes a rule, as the page's forms say", &[])
        },
    },
    Route {
        handler: Handler::Page(Answers::decisions_page),
        endpoint: page(
            "/decisions",
            Who::Operator,
            "what the controller may do, what it did, and what came of it",
            &[],
        ),
    },
    Route {
        handler: Handler::Page(Answers::search_page),
        endpoint: page(
            "/search",
            Who::Jobs,
            "jobs, applications and nodes that have a text",
            &[("q", "the text")],
        ),
    },
    Route {
        handler: Handler::Page(Answers::api_page),
        endpoint: page("/api", Who::Models, "this list, with examples", &[]),
    },
    Route {
        handler: Handler::Connection(Speaks::LogIn),
        endpoint: page("/login", Who::Anyone, "logs in", &[("once", "what `iotide web` printed")]),
    },
    Route {
        handler: Handler::Connection(Speaks::LogOut),
        endpoint: Endpoint { method: "POST", ..page("/logout", Who::Anyone, "logs out", &[]) },
    },
    Route {
        handler: Handler::Answer(|_, asked| web::asset(&asked.named)),
        endpoint: page("/page/{name}", Who::Anyone, "the script and the style of pages", &[]),
    },
    Route {
        handler: Handler::Answer(|_, _| Ok(web::icon())),
        endpoint: page("/icon.svg", Who::Anyone, "the sign of pages", &[]),
    },
];

/// The machine that a path names, as whoever asks for its metrics calls it.
fn named_node(asked: &Question) -> String {
    format!("{NODE}{}", asked.named)
}

const fn page(
    path: &'static str,
    who: Who,
    what: &'static str,
    query: &'static [(&'static str, &'static str)],
) -> Endpoint {
    Endpoint { method: "GET", path, who, kind: Kind::Page, what, query, example: "", content: HTML }
}
