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
    if list.nodes.len() > 1 {
        body += &topology(list);
    }
    body += &sortable("nodes", &heads, &rows);
    body += "<p class=\"note\">A node stands in and below the one that it sends to; the darker, the more it moved. Bytes are those counted since its daemon was started, with the nodes below it. \
             Skew is how far its clock is ahead of its parent's.</p>\n";
    page.live("tree", "Tree", &body);
    page.finish(frame)
}

/// Returns the tree as boxes in boxes: each node lies within the one that it sends to, the darker the more it moved.
fn topology(list: &NodeList) -> String {
    let order = list.in_tree_order();
    let depth_at = |i: usize| order.get(i).map_or(0, |(depth, _)| *depth);
    let is_hub = |i: usize| depth_at(i + 1) > depth_at(i);
    let moved = |node: &NodeEntry| node.bytes_read as f64 + node.bytes_written as f64;
    let leaves = order.iter().enumerate().filter(|(i, _)| !is_hub(*i));
    let most = leaves.map(|(_, (_, node))| moved(node)).fold(0.0, f64::max);
    let mut html =
        String::from("<ul class=\"topology\" aria-label=\"nodes, each within the one that it sends to\">");
    for (i, &(depth, node)) in order.iter().enumerate() {
        let share = if most > 0.0 { moved(node) / most } else { 0.0 };
        let kind = if is_hub(i) { "hub".to_owned() } else { format!("l{}", (share * 4.0).ceil().min(4.0)) };
        let faults = node.faults().join(", ");
        let (class, said) =
            if faults.is_empty() { ("", String::new()) } else { (" faulty", format!(" <b>{faults}</b>")) };
        let _ = write!(
            html,
            "<li class=\"{kind}{class}\"><a href=\"/traces?job=Node:+{}\" title=\"{} jobs, {} read, {} written\">{}</a>{said}",
            path_part(node.node.as_said()),
            text::count(node.jobs),
            text::bytes(node.bytes_read as f64),
            text::bytes(node.bytes_written as f64),
            node.node.shortened(24).for_html()
        );
        // The list of a hub stays open for the nodes below it; the last of them closes the lists above.
        if is_hub(i) {
            html += "<ul>";
        } else {
            html += &format!("</li>{}", "</ul></li>".repeat(depth.saturating_sub(depth_at(i + 1))));
        }
    }
    html + "</ul>\n"
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

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_look::Untrusted;

    #[test]
    fn a_node_lies_within_the_one_it_sends_to_and_a_silent_one_says_so() {
        let node = |name: &str, parent: Option<&str>, bytes_written: u64, silent_s: f64| NodeEntry {
            node: Untrusted::from(name.to_owned()),
            parent: parent.map(|parent| Untrusted::from(parent.to_owned())),
            bytes_written,
            silent_s,
            ..NodeEntry::default()
        };
        let nodes = vec![
            node("root", None, 400, 0.0),
            node("rack", Some("root"), 400, 0.0),
            node("n1", Some("rack"), 300, 0.0),
            node("n2", Some("rack"), 100, 900.0),
            node("n3", Some("root"), 0, 0.0),
        ];
        let html = topology(&NodeList { nodes });
        let depth = |name: &str| {
            let before = &html[..html.find(&format!(">{name}</a>")).unwrap()];
            before.matches("<ul").count() - before.matches("</ul>").count()
        };
        assert_eq!(["root", "rack", "n1", "n2", "n3"].map(depth), [1, 2, 3, 3, 2], "{html}");
        assert_eq!(html.matches("<ul").count(), html.matches("</ul>").count(), "{html}");
        assert_eq!(html.matches("<li").count(), html.matches("</li>").count(), "{html}");
        let classes: Vec<&str> =
            html.split("<li class=\"").skip(1).filter_map(|item| item.split('"').next()).collect();
        assert_eq!(classes, ["hub", "hub", "l4", "l2 faulty", "l0"]);
        assert!(html.contains("n2</a> <b>silent</b>"), "{html}");
    }
}
