//! The page of a search: jobs, applications and nodes that have a text.

use std::fmt::Write;

use iotide_look::{Untrusted, text};

use super::models::Application;
use super::{Frame, Page, called_link, jobs, path_part};
use iotide_report::{JobList, NodeEntry};

/// Content of the page.
#[derive(Debug)]
pub struct SearchPage<'a> {
    /// Text that was searched for; empty if there was none.
    pub text: &'a Untrusted,
    /// Jobs that have it in id, program or command.
    pub jobs: &'a JobList,
    /// Applications that have it in id, program or user.
    pub applications: &'a [Application],
    /// Nodes that have it in their name.
    pub nodes: &'a [NodeEntry],
}

/// The page.
pub fn search_page(frame: &Frame<'_>, of: &SearchPage<'_>) -> String {
    let mut page = Page::new("Search", "Search");
    page.push(&format!(
        "<section class=\"slide\"><form class=\"ask\" method=\"get\" action=\"/search\"><label>Text <input type=\"search\" name=\"q\" value=\"{}\" autofocus placeholder=\"job, program, command, user, node\"></label><button>Search</button></form></section>\n",
        of.text.shortened(200).for_html()
    ));
    if of.text.is_empty() {
        return page.finish(frame);
    }
    if !of.jobs.jobs.is_empty() {
        let found: Vec<_> = of.jobs.jobs.iter().collect();
        let mut body = jobs::table_of_jobs("jobs", &found, frame.now_unix_s);
        if of.jobs.next.is_some() {
            let _ = writeln!(
                body,
                "<p class=\"more\"><a href=\"/jobs?q={}\">There are more</a></p>",
                path_part(of.text.as_said())
            );
        }
        page.section("jobs", &format!("Jobs ({})", of.jobs.jobs.len()), &body);
    }
    if !of.applications.is_empty() {
        let items: String = of
            .applications
            .iter()
            .map(|app| {
                format!(
                    "<li>{} of {}, <a href=\"/jobs?app={}\">{}</a></li>",
                    called_link(&app.app, &app.name),
                    app.user.shortened(24).for_html(),
                    path_part(app.app.as_said()),
                    text::counted(app.n_runs as u64, "run")
                )
            })
            .collect();
        page.section("applications", "Applications", &format!("<ul>{items}</ul>\n"));
    }
    if !of.nodes.is_empty() {
        let items: String = of
            .nodes
            .iter()
            .map(|node| {
                format!(
                    "<li><a href=\"/traces?job=Node:+{}\">{}</a></li>",
                    path_part(node.node.as_said()),
                    node.node.shortened(60).for_html()
                )
            })
            .collect();
        page.section("nodes", "Nodes", &format!("<ul>{items}</ul>\n"));
    }
    if of.jobs.jobs.is_empty() && of.applications.is_empty() && of.nodes.is_empty() {
        page.section("nothing", "Nothing found", "<p class=\"note\">Neither a job, nor an application, nor a node that you may see has this text.</p>\n");
    }
    page.finish(frame)
}
