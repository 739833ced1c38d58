//! What stands out in what a job has counted: rules with their evidence and what to do.

use iotide_page::text;

use super::job::NodeShare;
use crate::jobs::JobDocument;

/// Something that stands out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterFinding {
    /// `high` or `warning`.
    pub severity: &'static str,
    /// What.
    pub what: String,
    /// The numbers behind it.
    pub evidence: String,
    /// What to do.
    pub advice: &'static str,
}

/// Requests below this are small.
const SMALL_BYTES: f64 = 64.0 * 1024.0;
/// So many small requests are worth a word.
const MANY_CALLS: u64 = 1000;
/// Above this share of the time, I/O is what a job does.
const MUCH_IO: f64 = 0.3;
/// A node that moves so many times as much as the others' middle carries their load.
const UNEVEN: f64 = 2.0;

/// Returns what stands out in a job, the gravest first.
pub fn findings(job: &JobDocument, nodes: &[NodeShare]) -> Vec<CounterFinding> {
    let mut found = Vec::new();
    let io = &job.io;
    for (way, bytes, calls) in
        [("reads", io.bytes_read, io.calls_read), ("writes", io.bytes_written, io.calls_written)]
    {
        let mean = bytes as f64 / calls.max(1) as f64;
        if calls >= MANY_CALLS && mean < SMALL_BYTES {
            found.push(CounterFinding {
                severity: if mean < SMALL_BYTES / 16.0 { "high" } else { "warning" },
                what: format!("Small {way}: {} on average", text::bytes(mean)),
                evidence: format!("{} moved {}", text::counted(calls, "call"), text::bytes(bytes as f64)),
                advice: "collect data in memory and move it in requests of a mebibyte or more, or use collective buffering",
            });
        }
    }
    let all_s = job.time.threads_s;
    if all_s > 0.0 && job.time.io_s > MUCH_IO * all_s {
        found.push(CounterFinding {
            severity: "warning",
            what: format!("{} of the time of all threads is I/O", text::percent(job.time.io_s / all_s)),
            evidence: format!("{} of {}", text::seconds(job.time.io_s), text::seconds(all_s)),
            advice: "write less often, or let computation go on while data are written (asynchronous I/O)",
        });
    }
    if io.seconds_other > (io.seconds_read + io.seconds_written) && io.seconds_other > 1.0 {
        found.push(CounterFinding {
            severity: "warning",
            what: "More time in metadata calls than in reads and writes".to_owned(),
            evidence: format!(
                "{} in open, stat, seek and the like, {} in reads and writes",
                text::seconds(io.seconds_other),
                text::seconds(io.seconds_read + io.seconds_written)
            ),
            advice: "open each file once and keep it open; put many small files into few large ones",
        });
    }
    found.extend(uneven(nodes));
    if job.n_killed > 0 {
        found.push(CounterFinding {
            severity: "high",
            what: format!(
                "{} killed or aborted",
                text::counted(job.n_killed, "process").replace("processs", "processes")
            ),
            evidence: "as the daemon saw them end".to_owned(),
            advice: "look for the reason in the job's own output; this run is no measurement for models",
        });
    }
    found.sort_by_key(|finding| finding.severity != "high");
    found
}

/// Nodes that move much more than the others.
fn uneven(nodes: &[NodeShare]) -> Option<CounterFinding> {
    let moved = |node: &NodeShare| node.bytes_read + node.bytes_written;
    let mut all: Vec<u64> = nodes.iter().map(moved).collect();
    all.sort_unstable();
    let middle = *all.get(all.len().saturating_sub(1) / 2)? as f64;
    let busiest = nodes.iter().max_by_key(|node| moved(node))?;
    let most = moved(busiest) as f64;
    if nodes.len() < 2 || most < UNEVEN * middle.max(1.0) || most < 1e6 {
        return None;
    }
    Some(CounterFinding {
        severity: "warning",
        what: format!("{} moves more than the other nodes", busiest.node.shortened(40).for_terminal()),
        evidence: format!("{}; the node in the middle moves {}", text::bytes(most), text::bytes(middle)),
        advice: "let more processes take part in I/O, or spread those that do over the nodes",
    })
}
