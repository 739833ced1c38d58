//! The page of the machines: a tree, and how each of them is.

use std::fmt::Write;

use iotide_look::html::tiles;
use iotide_look::text;

use super::{Frame, Page, cell, path_part, sortable};
use iotide_report::{NodeEntry, NodeList};

/// The page.
pub fn nodes_page(frame: &Frame<'_>, list: &NodeList) -> String {
    let mut page = Page::new("Nodes", "Nodes");
    let sick = list.nodes.iter().filter(|node| !node.faults().is_empty()).count();
    let processes: u64 = list.nodes.iter().map(|node| node.processes).sum();
    let most_skew = list.nodes.iter().filter_map(|node| node.skew_s).map(f64::abs).fold(0.0, f64::max);
    let mut body = tiles([
        ("nodes", text::count(list.nodes.len() as u64)),
        ("need attention", text::count(sick as u64)),
        ("processes counted", text::count(processes)),
        ("largest clock skew", text::seconds(most_skew)),
    ]);
    let rows: Vec<String> = list.in_tree_order().into_iter().map(|(depth, node)| row(node, depth)).collect();
    let heads = [
        "node",
        "health",
        "jobs",
        "procs",
        "read",
        "written",
        "skew",
        "round trip",
        "heard",
        "losses",
        "version",
    ];
    body += &sortable("nodes", &heads, &rows);
    body += "<p class=\"note\">A node stands below the one that it sends to. Bytes are those counted since its daemon was started, with the nodes below it. \
             Skew is how far its clock is ahead of its parent's.</p>\n";
    page.live("tree", "Tree", &body);
    page.finish(frame)
}

fn row(node: &NodeEntry, depth: usize) -> String {
    let faults = node.faults();
    let health = match faults.is_empty() {
        true => "<span class=\"badge good\">well</span>".to_owned(),
        false => format!("<span class=\"badge high\">{}</span>", faults.join(", ")),
    };
    let mut indent = String::new();
    for _ in 0..depth.min(8) {
        indent += "<span class=\"twig\" aria-hidden=\"true\"></span>";
    }
    let heard = if node.silent_s > 10.0 {
        format!("{} ago", text::seconds(node.silent_s.round()))
    } else {
        "now".to_owned()
    };
    let mut html = format!(
        "<td>{indent}<a href=\"/traces?job=Node:+{}\">{}</a></td><td class=\"word\">{health}</td>",
        path_part(node.node.as_said()),
        node.node.shortened(40).for_html()
    );
    let optional =
        |value: Option<f64>| cell(value.unwrap_or(0.0), &value.map_or("–".to_owned(), text::seconds));
    let _ = write!(
        html,
        "{}{}{}{}{}{}{}{}<td class=\"word\">{}</td>",
        cell(node.jobs as f64, &text::count(node.jobs)),
        cell(node.processes as f64, &text::count(node.processes)),
        cell(node.bytes_read as f64, &text::bytes(node.bytes_read as f64)),
        cell(node.bytes_written as f64, &text::bytes(node.bytes_written as f64)),
        optional(node.skew_s),
        optional(node.round_trip_s),
        cell(node.silent_s, &heard),
        cell(node.losses as f64, &text::count(node.losses)),
        node.version.shortened(16).for_html(),
    );
    html
}
