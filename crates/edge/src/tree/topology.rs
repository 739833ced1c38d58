//! Who is above a node, by Slurm's topology: the first nodes of its leaf switch, or of its block.
//!
//! All nodes of a site have the same line in their settings, `parent = ["slurm", "root:1338"]`. In place of `slurm`, each puts the nodes that gather for its
//! switch. These have those before them in the list above them and, as all have, what else the line names.

use std::io;
use std::process::Command;

use super::keys::output_of;

/// The parent that stands for those which Slurm's topology says; a port may follow.
pub(super) const SLURM: &str = "slurm";
/// The port of aggregators, unless the line says another.
pub(super) const PORT: u16 = 1338;
/// Nodes of a switch that gather for it: the second is for when the first is away.
const GATHERERS: usize = 2;
/// Bytes of a topology that are read.
const MOST_BYTES: usize = 16 << 20;
/// Nodes of one expression.
const MOST_NODES: usize = 1 << 16;
/// Pairs of brackets in a name of it.
const MOST_BRACKETS: usize = 8;
/// Digits of a number in it.
const MOST_DIGITS: usize = 18;

/// Why a topology says nothing of a node.
#[derive(Debug, thiserror::Error)]
pub(super) enum TopologyError {
    #[error("scontrol show topology: {0}")]
    Command(#[from] io::Error),
    #[error("Slurm has no topology of switches or blocks")]
    None,
    #[error("Slurm's topology does not name the node {0}")]
    NoNode(String),
    #[error("Slurm's topology has an expression of nodes that cannot be read: {0}")]
    Expression(String),
}

/// The port if a parent stands for those of Slurm's topology; `None` if it is an address.
pub(super) fn slurm_port(parent: &str) -> Option<u16> {
    match parent.strip_prefix(SLURM)? {
        "" => Some(PORT),
        rest => rest.strip_prefix(':')?.parse().ok(),
    }
}

/// Asks Slurm who gathers for a node's switch; addresses, the first preferred. None if the node is the first of them itself.
pub(super) async fn ask(node: &str, port: u16) -> Result<Vec<String>, TopologyError> {
    let mut command = Command::new("scontrol");
    command.args(["--oneliner", "show", "topology"]);
    let said = output_of(command, Vec::new()).await?;
    let said = String::from_utf8_lossy(&said[..said.len().min(MOST_BYTES)]);
    Ok(gatherers(&said, node)?.into_iter().map(|host| format!("{host}:{port}")).collect())
}

/// The nodes that gather for a node's leaf switch or block and are before it, as `scontrol show topology` tells.
pub(super) fn gatherers(topology: &str, node: &str) -> Result<Vec<String>, TopologyError> {
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    let mut has_any = false;
    for line in topology.lines() {
        let field = |name: &str| {
            let mut fields = line.split_whitespace();
            fields.find_map(|field| field.strip_prefix(name)?.strip_prefix('=')).filter(|it| *it != "(null)")
        };
        // A switch of switches has all nodes below it: who gathers is nearer.
        let is_leaf = match (field("SwitchName"), field("BlockName")) {
            (Some(_), _) => field("Switches").is_none() && field("Level").is_none_or(|level| level == "0"),
            (None, block) => block.is_some(),
        };
        let Some(expression) = field("Nodes").filter(|_| is_leaf) else { continue };
        has_any = true;
        let nodes = expand(expression).ok_or_else(|| TopologyError::Expression(cut(expression)))?;
        if let Some(at) = nodes.iter().position(|it| *it == node || short(it) == short(node)) {
            return Ok(nodes.into_iter().take(at.min(GATHERERS)).collect());
        }
    }
    Err(if has_any { TopologyError::NoNode(node.to_owned()) } else { TopologyError::None })
}

fn cut(text: &str) -> String {
    text.chars().take(80).collect()
}

/// The nodes of an expression as Slurm writes them, `n[001-004,7],login1`, in its order. `None` if it is none, or of too many.
fn expand(expression: &str) -> Option<Vec<String>> {
    let mut nodes = Vec::new();
    let mut rest = expression;
    while !rest.is_empty() {
        // Up to a comma that is in no brackets.
        let mut depth = 0u32;
        let end = rest.find(|letter| {
            match letter {
                '[' => depth += 1,
                ']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            letter == ',' && depth == 0
        });
        let (name, after) = match end {
            Some(end) => (&rest[..end], &rest[end + 1..]),
            None => (rest, ""),
        };
        let n_brackets = name.bytes().filter(|byte| *byte == b'[').count();
        if name.is_empty() || n_brackets > MOST_BRACKETS || end.is_some() && after.is_empty() {
            return None;
        }
        expand_name(String::new(), name, &mut nodes)?;
        rest = after;
    }
    Some(nodes).filter(|nodes| !nodes.is_empty())
}

/// One name, of which any number of parts may be in brackets. Whoever has several brackets has a name for each combination.
fn expand_name(before: String, name: &str, nodes: &mut Vec<String>) -> Option<()> {
    let Some((head, rest)) = name.split_once('[') else {
        if name.contains(']') || nodes.len() >= MOST_NODES || before.is_empty() && name.is_empty() {
            return None;
        }
        nodes.push(before + name);
        return Some(());
    };
    let (ranges, rest) = rest.split_once(']')?;
    if head.contains(']') || ranges.contains('[') {
        return None;
    }
    for range in ranges.split(',') {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        let is_number = |text: &str| {
            !text.is_empty() && text.len() <= MOST_DIGITS && text.bytes().all(|byte| byte.is_ascii_digit())
        };
        if !is_number(from) || !is_number(to) {
            return None;
        }
        let (first, last): (u64, u64) = (from.parse().ok()?, to.parse().ok()?);
        if first > last || last - first >= MOST_NODES as u64 {
            return None;
        }
        let width = from.len();
        for number in first..=last {
            expand_name(format!("{before}{head}{number:0width$}"), rest, nodes)?;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As Slurm 22.05 prints it.
    const TREE: &str = "SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[001-003] \n\
        SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n004,gpu[1-2] \n\
        SwitchName=s2 Level=1 LinkSpeed=1 Nodes=gpu[1-2],n[001-004] Switches=s[0-1] \n";

    #[test]
    fn the_first_two_nodes_of_a_switch_gather_for_it() {
        let of = |node: &str| gatherers(TREE, node).unwrap();
        assert_eq!(of("n001"), [""; 0], "it has nobody above but those that are named");
        assert_eq!(of("n002"), ["n001"]);
        assert_eq!(of("n003"), ["n001", "n002"]);
        assert_eq!(of("n003.cluster.example"), ["n001", "n002"]);
        assert_eq!((of("n004"), of("gpu2")), (vec![], vec!["n004".to_owned(), "gpu1".to_owned()]));
        let blocks = "BlockName=b1 BlockIndex=0 Nodes=n[1-4] BlockSize=4\nBlockName=b2 BlockIndex=1 Nodes=n[5-8] BlockSize=4\n";
        assert_eq!(gatherers(blocks, "n7").unwrap(), ["n5", "n6"]);
    }

    #[test]
    fn what_a_topology_does_not_say_is_named() {
        let of = |text: &str, node: &str| gatherers(text, node).unwrap_err().to_string();
        assert_eq!(of(TREE, "n9"), "Slurm's topology does not name the node n9");
        assert_eq!(
            of("No topology information available\n", "n1"),
            "Slurm has no topology of switches or blocks"
        );
        let damaged = of("SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[1-", "n1");
        assert_eq!(damaged, "Slurm's topology has an expression of nodes that cannot be read: n[1-");
    }

    #[test]
    fn expressions_are_those_of_slurm_and_bounded() {
        let of = |text: &str| expand(text).map(|nodes| nodes.join(" "));
        assert_eq!(of("n[001-003,7],login1").as_deref(), Some("n001 n002 n003 n7 login1"));
        assert_eq!(of("r[1-2]n[8-10]").as_deref(), Some("r1n8 r1n9 r1n10 r2n8 r2n9 r2n10"));
        assert_eq!(of("a").as_deref(), Some("a"));
        for wrong in
            ["", ",", "a,", ",a", "n[", "n]", "n[]", "n[1-]", "n[2-1]", "n[1,]", "n[[1]]", "n[x]", "n[-1]"]
        {
            assert_eq!(of(wrong), None, "{wrong}");
        }
        assert_eq!(of("n[1-99999999]"), None, "too many");
        assert_eq!(of(&format!("n{}", "[1]".repeat(100_000))), None, "too many brackets");
        assert_eq!(of("a[1-60000]b[1-60000]c[1-60000]"), None, "too many together");
        assert_eq!(
            (slurm_port("slurm"), slurm_port("slurm:9"), slurm_port("slurm1:9")),
            (Some(1338), Some(9), None)
        );
    }

    proptest! {
        #[test]
        fn any_expression_is_read_or_refused(text in "[a-c0-9\\[\\],-]{0,40}", node in "[a-c0-9]{1,4}") {
            if let Some(nodes) = expand(&text) {
                prop_assert!(!nodes.is_empty() && nodes.len() <= MOST_NODES);
                prop_assert!(nodes.iter().all(|it| !it.is_empty() && !it.contains(['[', ']', ','])));
            }
            let _ = gatherers(&format!("SwitchName=s Nodes={text}"), &node);
        }

        #[test]
        fn a_range_has_all_of_its_numbers(from in 0u64..2000, n in 0u64..300, width in 1usize..7) {
            let names = expand(&format!("n[{from:0width$}-{:0width$}]", from + n)).unwrap();
            let expected: Vec<String> = (from..=from + n).map(|number| format!("n{number:0width$}")).collect();
            prop_assert_eq!(names, expected);
        }
    }
}
