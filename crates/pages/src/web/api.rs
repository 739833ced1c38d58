//! Every question that a daemon answers, as a list for people, as a page with examples, and as OpenAPI.

use std::fmt::Write;

use iotide_look::html::escape;
use iotide_look::{Untrusted, text};
use serde_json::{Map, Value, json};

use super::{Frame, Page, link, path_part};

/// Who may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Everyone.
    Anyone,
    /// Users for their own jobs, operators for all.
    Jobs,
    /// The same, and controllers.
    Models,
    /// Operators.
    Operator,
    /// Who is at the unix socket.
    Socket,
}

impl Who {
    fn in_words(self) -> &'static str {
        match self {
            Self::Anyone => "everyone",
            Self::Jobs => "users (own jobs), operators",
            Self::Models => "users (own applications), operators, controllers",
            Self::Operator => "operators",
            Self::Socket => "whoever is at the unix socket",
        }
    }
}

/// What an endpoint is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Programs.
    Api,
    /// Programs that were written for the metric proxy.
    Alias,
    /// People.
    Page,
}

/// Something that can be asked.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint {
    /// `GET`, `POST` or `DELETE`.
    pub method: &'static str,
    /// The path; `{job}` stands for anything without a slash.
    pub path: &'static str,
    /// Who may ask.
    pub who: Who,
    /// What it is for.
    pub kind: Kind,
    /// What is answered, in a sentence.
    pub what: &'static str,
    /// What may stand in the query, and what it means; a name with `*` must.
    pub query: &'static [(&'static str, &'static str)],
    /// What can be asked, with `{job}`, `{app}` and `{node}` for what there is; empty if there is no example.
    pub example: &'static str,
    /// The type of the answer.
    pub content: &'static str,
}

impl Endpoint {
    /// Whether a path is this one's.
    pub fn is_at(&self, path: &str) -> bool {
        let (mut own, mut asked) = (self.path.split('/'), path.split('/'));
        loop {
            match (own.next(), asked.next()) {
                (None, None) => return true,
                (Some(own), Some(asked)) if own == asked => {}
                (Some(own), Some(asked)) if own.starts_with('{') && !asked.is_empty() => {}
                _ => return false,
            }
        }
    }

    /// What a path has where this one's has a name in braces; empty if there is none.
    pub fn named<'p>(&self, path: &'p str) -> &'p str {
        let parts = self.path.split('/').zip(path.split('/'));
        parts.filter(|(own, _)| own.starts_with('{')).map(|(_, part)| part).next().unwrap_or_default()
    }

    /// What stands in the path where there are names in braces.
    fn names(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    }
}

/// The endpoints as plain text, a line each.
pub fn endpoint_list(endpoints: &[Endpoint]) -> String {
    let mut out = format!("iotide {}\n", env!("CARGO_PKG_VERSION"));
    for endpoint in endpoints.iter().filter(|endpoint| endpoint.kind == Kind::Api) {
        let _ = writeln!(out, "{:6} {:32} {}", endpoint.method, endpoint.path, endpoint.what);
    }
    out + "A browser shows pages here; /api lists everything with examples, /api/1/openapi.json for programs.\n"
}

/// The endpoints as an OpenAPI 3.1 document.
pub fn openapi_json(endpoints: &[Endpoint]) -> String {
    let mut paths: Map<String, Value> = Map::new();
    for endpoint in endpoints {
        let in_path = endpoint
            .names()
            .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}));
        let in_query = endpoint.query.iter().map(|(name, what)| {
            let is_needed = name.ends_with('*');
            json!({"name": name.trim_end_matches('*'), "in": "query", "required": is_needed, "description": what,
                   "schema": {"type": "string"}})
        });
        let parameters: Vec<Value> = in_path.chain(in_query).collect();
        let mut responses = Map::new();
        responses.insert(
            "200".to_owned(),
            json!({"description": endpoint.what, "content": {endpoint.content: {}}}),
        );
        if endpoint.who != Who::Anyone {
            responses.insert("401".to_owned(), json!({"description": "nobody knows who asks"}));
            responses.insert("403".to_owned(), json!({"description": "this role may not ask"}));
        }
        let tag = match endpoint.kind {
            Kind::Api => "api",
            Kind::Alias => "metric proxy",
            Kind::Page => "pages",
        };
        let operation = json!({
            "summary": endpoint.what,
            "description": format!("For {}.", endpoint.who.in_words()),
            "tags": [tag],
            "parameters": parameters,
            "responses": responses,
            "security": if endpoint.who == Who::Anyone { json!([]) } else { json!([{"token": []}, {"session": []}]) },
        });
        let path = paths.entry(endpoint.path).or_insert_with(|| json!({}));
        path[endpoint.method.to_lowercase()] = operation;
    }
    text::json_document(&json!({
        "openapi": "3.1.0",
        "info": {
            "title": "iotide serve",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "What jobs read and write, what is expected of them, and models of their applications.",
        },
        "paths": paths,
        "components": {"securitySchemes": {
            "token": {"type": "http", "scheme": "bearer"},
            "session": {"type": "apiKey", "in": "cookie", "name": "iotide-PORT"},
        }},
    }))
}

/// An endpoint, what was asked as an example, and the answer.
#[derive(Debug)]
pub struct ApiExample {
    /// Which.
    pub endpoint: Endpoint,
    /// What was asked; empty if there is no example.
    pub asked: String,
    /// Status and the beginning of the answer.
    pub answered: Option<(u16, Untrusted)>,
}

/// The page of the API.
pub fn api_page(frame: &Frame<'_>, examples: &[ApiExample]) -> String {
    let mut page = Page::new("API", "API");
    page.lead(
        "Every question that this daemon answers, with an answer of now. Programs use the unix socket (the system says who asks), or a token: \
         <code>curl -H \"Authorization: Bearer $TOKEN\"</code>. <a href=\"/api/1/openapi.json\">openapi.json</a> has the same for programs.",
    );
    for (kind, id, title) in [
        (Kind::Api, "api", "Questions"),
        (Kind::Alias, "aliases", "As the metric proxy answers"),
        (Kind::Page, "pages", "Pages"),
    ] {
        let mut body = String::new();
        for example in examples.iter().filter(|example| example.endpoint.kind == kind) {
            write_endpoint(&mut body, example);
        }
        page.section(id, title, &body);
    }
    page.finish(frame)
}

fn write_endpoint(html: &mut String, example: &ApiExample) {
    let Endpoint { method, path, who, what, query, content, .. } = &example.endpoint;
    let _ = writeln!(
        html,
        "<details class=\"endpoint\"><summary><code><b>{method}</b> {}</code> <span>{}</span></summary>\n<dl class=\"facts\"><dt>For</dt><dd>{}</dd><dt>Answer</dt><dd><code>{content}</code></dd>",
        escape(path),
        escape(what),
        who.in_words(),
    );
    for (name, what) in *query {
        let needed = if name.ends_with('*') { " (needed)" } else { "" };
        let _ = writeln!(
            html,
            "<dt><code>{}</code>{needed}</dt><dd>{}</dd>",
            escape(name.trim_end_matches('*')),
            escape(what)
        );
    }
    *html += "</dl>\n";
    if !example.asked.is_empty() {
        let shown =
            if *method == "GET" { link(&example.asked, &example.asked) } else { escape(&example.asked) };
        let _ = writeln!(html, "<p class=\"note\">{shown}</p>");
    }
    if let Some((status, answer)) = &example.answered {
        let _ = writeln!(html, "<pre tabindex=\"0\">{status}\n{}</pre>", answer.lines_for_html());
    }
    *html += "</details>\n";
}

/// What is asked as an example, once names stand for what there is; `None` if that is not there.
pub fn example_of(endpoint: &Endpoint, job: Option<&str>, app: Option<&str>, node: &str) -> Option<String> {
    let mut asked = endpoint.example.to_owned();
    for (name, value) in [("{job}", job), ("{app}", app), ("{node}", Some(node))] {
        if asked.contains(name) {
            asked = asked.replace(name, &path_part(value?));
        }
    }
    (!asked.is_empty()).then_some(asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Endpoint = Endpoint {
        method: "GET",
        path: "/api/1/jobs/{job}/series",
        who: Who::Jobs,
        kind: Kind::Api,
        what: "one metric over time",
        query: &[("metric*", "its name")],
        example: "/api/1/jobs/{job}/series?metric=read_bytes",
        content: "application/json",
    };

    #[test]
    fn a_name_in_braces_is_one_part_of_a_path() {
        assert!(ONE.is_at("/api/1/jobs/4711/series"));
        for other in [
            "/api/1/jobs//series",
            "/api/1/jobs/4711",
            "/api/1/jobs/4711/series/",
            "/api/1/jobs/a/b/series",
            "",
        ] {
            assert!(!ONE.is_at(other), "{other}");
        }
        assert_eq!(
            example_of(&ONE, Some("a+b"), None, "n"),
            Some("/api/1/jobs/a%2Bb/series?metric=read_bytes".to_owned())
        );
        assert_eq!(example_of(&ONE, None, None, "n"), None);
    }

    #[test]
    fn openapi_says_what_is_needed() {
        let document: Value = serde_json::from_str(&openapi_json(&[ONE])).unwrap();
        let get = &document["paths"]["/api/1/jobs/{job}/series"]["get"];
        assert_eq!(
            (&get["parameters"][0]["in"], &get["parameters"][1]["required"]),
            (&json!("path"), &json!(true))
        );
        assert_eq!(get["parameters"][1]["name"], "metric");
        assert!(get["responses"]["401"].is_object());
    }
}
