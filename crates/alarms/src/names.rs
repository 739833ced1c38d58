//! Names that rules may use: one that does not exist would never fire.

use std::cmp::Reverse;

use iotide_analysis::{Category, IssueId};
use iotide_ledger::alarm::{On, Rule, Subject};
use iotide_ledger::series::names_of_job;

use iotide_daemon::collect::NodeReading;
use iotide_daemon::series::samples_of_node;

/// Names that are shown instead of one that does not exist.
const MOST_NEAREST: usize = 3;

/// Refuses a rule whose metric, label or issue does not exist.
pub fn check(rule: &Rule) -> Result<(), String> {
    let names = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
    let (what, all): (_, Vec<String>) = match (&rule.subject, rule.on) {
        (Subject::PredictedLoad | Subject::Slowdown(_), _) => return Ok(()),
        (Subject::Label(_), _) => ("label", names(Category::all().map(Category::name).collect())),
        (Subject::Issue(_), _) => ("issue", names(IssueId::ALL.iter().map(|id| id.name()).collect())),
        (Subject::Metric(_) | Subject::Rate(_), On::Node) => ("metric of the machine", of_machine()),
        (Subject::Metric(_) | Subject::Rate(_), On::Job | On::Sum) => ("metric of a job", of_jobs()),
    };
    let name = rule.subject.name();
    if all.iter().any(|known| is_called(known, name)) {
        return Ok(());
    }
    let hint = if rule.on != On::Node && of_machine().iter().any(|known| is_called(known, name)) {
        "it is one of the machine ('on' is 'node')".to_owned()
    } else {
        format!("the nearest are {}", nearest(name, all).join(", "))
    };
    Err(format!("'expr': there is no {what} called '{name}'; {hint}"))
}

/// Whether a name is the one that is known, or of the same metric with another device, mount or counter behind the point.
fn is_called(known: &str, name: &str) -> bool {
    match (known.split_once('.'), name.split_once('.')) {
        (Some((known, _)), Some((metric, of))) => known == metric && !of.is_empty(),
        _ => known == name,
    }
}

/// Metrics that a job can have.
fn of_jobs() -> Vec<String> {
    names_of_job().into_iter().chain(["memory_bytes".to_owned()]).collect()
}

/// Metrics of the machine: its own, and those of all jobs together.
fn of_machine() -> Vec<String> {
    let own = samples_of_node(&NodeReading::of_everything()).into_iter().map(|(name, _)| name.into_owned());
    own.chain(of_jobs().into_iter().filter(|name| name != "memory_bytes")).collect()
}

/// The names that are most alike, the most alike first: those with the same words, in any order, and of these the ones with the same letters.
fn nearest(name: &str, mut all: Vec<String>) -> Vec<String> {
    fn sorted(name: &str) -> Vec<&str> {
        let mut words: Vec<&str> = name.split(['_', '.']).collect();
        words.sort_unstable();
        words
    }
    let words = sorted(name);
    all.sort_by_cached_key(|known| {
        let known_words = sorted(known);
        let n_shared = words.iter().filter(|word| known_words.contains(word)).count();
        let in_order = distance(&words.join("_"), &known_words.join("_"));
        (Reverse(n_shared), in_order.min(distance(name, known)))
    });
    all.truncate(MOST_NEAREST);
    all
}

/// How many letters must be put in, left out or replaced to make one text of the other (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, other) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_ledger::alarm::Scope;

    fn checked(expr: &str, on: On) -> Result<(), String> {
        check(&Rule::new("r", expr).unwrap().with_scope(on, Scope::default()).unwrap())
    }

    #[test]
    fn names_that_exist_are_taken() {
        for expr in [
            "rate(write_bytes) > 10 MB/s",
            "rate(sync_calls) > 1",
            "rate(mpi_ns) > 1",
            "processes > 3",
            "memory_bytes > 1GB",
            "device_read_requests > 3",
            "own.steps > 5",
            "predicted_load > 1GB",
            "slowdown(others) > 2",
            "label(write_periodic)",
            "issue(small_writes)",
        ] {
            assert_eq!(checked(expr, On::Job), Ok(()), "{expr}");
        }
        for expr in ["load1 > 3", "free_bytes./scratch < 1TB", "write_bytes > 1", "cpu_iowait_ns > 1"] {
            assert_eq!(checked(expr, On::Node), Ok(()), "{expr}");
        }
    }

    #[test]
    fn a_name_that_does_not_exist_is_refused_with_the_nearest() {
        for (expr, on, says) in [
            ("foo > 3", On::Job, "no metric of a job called 'foo'; the nearest are "),
            ("rate(writebytes) > 3", On::Sum, "the nearest are write_bytes, "),
            ("bytes_written > 3", On::Job, "the nearest are write_bytes, "),
            ("load1 > 3", On::Job, "it is one of the machine"),
            ("memory_bytes > 3", On::Node, "memory_available_bytes"),
            ("free_bytes > 3", On::Node, "the nearest are free_bytes.MOUNT, "),
            ("free_bytes. > 3", On::Node, "free_bytes.MOUNT"),
            ("label(write_periodical)", On::Job, "the nearest are write_periodic, "),
            ("issue(small_write)", On::Job, "the nearest are small_writes, "),
        ] {
            let said = checked(expr, on).unwrap_err();
            assert!(said.contains(says), "{expr}: {said}");
        }
    }
}
