//! The machines that a daemon hears of, as a tree.

use std::collections::{BTreeMap, BTreeSet};

use iotide_look::Untrusted;
use iotide_look::text;
use serde::{Deserialize, Serialize};

use crate::jobs::table;

/// The nodes of a tree of daemons.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct NodeList {
    /// All of them, in the order of their names.
    pub nodes: Vec<NodeEntry>,
}

/// A node.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct NodeEntry {
    /// Its name.
    pub node: Untrusted,
    /// The node that it sends to; `None` for the root, and for one that is alone.
    #[serde(default)]
    pub parent: Option<Untrusted>,
    /// Its version of iotide.
    #[serde(default)]
    pub version: Untrusted,
    /// Jobs that run there.
    pub jobs: u64,
    /// Their processes.
    pub processes: u64,
    /// Bytes read since its daemon was started, below it too.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// How far its clock is ahead of its parent's.
    #[serde(default)]
    pub skew_s: Option<f64>,
    /// How long a question to its parent and the answer take.
    #[serde(default)]
    pub round_trip_s: Option<f64>,
    /// How long ago it was last heard of.
    #[serde(default)]
    pub silent_s: f64,
    /// Number of losses on it: data that was refused, missed or not counted.
    #[serde(default)]
    pub losses: u64,
}

/// A clock that differs by more is worth a word.
const SKEW_S: f64 = 0.5;
/// A node that was not heard of for longer is worth a word.
const SILENT_S: f64 = 10.0;

impl NodeList {
    /// Reads a list that a daemon answered.
    pub fn from_json(json: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(json).map_err(|error| error.to_string())
    }

    /// The list as a document.
    pub fn to_json(&self) -> String {
        text::json_document(self)
    }

    /// Pairs of parent and child, as the metric proxy tells them.
    pub fn pairs(&self) -> Vec<[&Untrusted; 2]> {
        self.nodes.iter().filter_map(|node| Some([node.parent.as_ref()?, &node.node])).collect()
    }

    /// The nodes as a tree, the root first.
    pub fn to_text(&self) -> String {
        if self.nodes.is_empty() {
            return "no nodes\n".to_owned();
        }
        let head = ["node", "version", "jobs", "procs", "read", "written", "skew", "heard", "losses"];
        let rows: Vec<[String; 9]> =
            self.in_tree_order().into_iter().map(|(depth, node)| node.row(depth)).collect();
        table(&head, &rows)
    }

    /// Every node with how far it is below the root, each after the one that it sends to.
    pub fn in_tree_order(&self) -> Vec<(usize, &NodeEntry)> {
        let mut below: BTreeMap<&str, Vec<&NodeEntry>> = BTreeMap::new();
        let names: BTreeSet<&str> = self.nodes.iter().map(|node| node.node.as_said()).collect();
        for node in &self.nodes {
            let parent = node.parent.as_ref().map(Untrusted::as_said).filter(|parent| names.contains(parent));
            below.entry(parent.unwrap_or("")).or_default().push(node);
        }
        let mut rows = Vec::new();
        let mut shown = BTreeSet::new();
        let mut waiting: Vec<(usize, &NodeEntry)> =
            below.get("").into_iter().flatten().rev().map(|node| (0, *node)).collect();
        loop {
            while let Some((depth, node)) = waiting.pop() {
                if !shown.insert(node.node.as_said()) {
                    continue;
                }
                rows.push((depth, node));
                let children = below.get(node.node.as_said()).into_iter().flatten().rev();
                waiting.extend(children.map(|child| (depth + 1, *child)));
            }
            // While nodes move, some may name each other as parents for a moment: they are shown all the same.
            match self.nodes.iter().find(|node| !shown.contains(node.node.as_said())) {
                Some(node) => waiting.push((0, node)),
                None => return rows,
            }
        }
    }
}

impl NodeEntry {
    /// Returns its faults, in words.
    pub fn faults(&self) -> Vec<&'static str> {
        let mut faults = Vec::new();
        if self.silent_s > SILENT_S {
            faults.push("silent");
        }
        if self.skew_s.is_some_and(|skew_s| skew_s.abs() > SKEW_S) {
            faults.push("clock skew");
        }
        if self.losses > 0 {
            faults.push("losses");
        }
        faults
    }

    fn row(&self, depth: usize) -> [String; 9] {
        let skew = match self.skew_s {
            Some(skew_s) if skew_s.abs() > SKEW_S => format!("{} !", text::seconds(skew_s)),
            Some(skew_s) => text::seconds(skew_s),
            None => "–".to_owned(),
        };
        let heard = match self.silent_s {
            silent_s if silent_s > SILENT_S => format!("{} ago !", text::seconds(silent_s)),
            _ => "now".to_owned(),
        };
        [
            format!("{}{}", "  ".repeat(depth), self.node.shortened(32).for_terminal()),
            self.version.shortened(16).for_terminal(),
            self.jobs.to_string(),
            self.processes.to_string(),
            text::bytes(self.bytes_read as f64),
            text::bytes(self.bytes_written as f64),
            skew,
            heard,
            self.losses.to_string(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, parent: Option<&str>) -> NodeEntry {
        NodeEntry { node: name.into(), parent: parent.map(Untrusted::from), ..NodeEntry::default() }
    }

    #[test]
    fn nodes_are_shown_below_their_parents_and_none_is_left_out() {
        let late = NodeEntry { silent_s: 75.0, skew_s: Some(-2.0), ..node("n1", Some("a")) };
        let nodes = vec![
            node("a", Some("root")),
            late,
            node("root", None),
            node("x\u{1b}", Some("y")),
            node("y", Some("x\u{1b}")),
        ];
        let list = NodeList { nodes };
        let text = list.to_text();
        let lines: Vec<&str> = text.lines().skip(1).collect();
        let begins = ["  root ", "    a ", "      n1 ", "  x", "    y "];
        assert!(lines.iter().zip(begins).all(|(line, begin)| line.starts_with(begin)), "{text}");
        assert!(text.contains("75 s ago !") && text.contains("-2 s !"), "{text}");
        assert_eq!(text.lines().count(), 6, "{text}");
        assert!(!text.contains('\u{1b}'));
        assert_eq!(list.pairs().len(), 4);
        assert_eq!(NodeList::from_json(list.to_json().as_bytes()).unwrap().to_json(), list.to_json());
    }
}
