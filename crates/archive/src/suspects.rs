//! Logs that may have ended the process that read them, as by filling the memory.
//!
//! The journal says which logs are being read. Those of which nothing more is said when it is opened again were in work when the last
//! process terminated abnormally. They are read again, each alone, so that one that is to blame is known: it is rejected the
//! next time, and the archive gets done.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};

use iotide_report::LineHead;

/// Prefixes of the lines of a journal that are about the work and not about a log. No result begins so.
const READING: &str = "#reading ";
const STARTED: &str = "#started";
const ENDED: &str = "#ended";

/// How often a process must have ended over a log before it is rejected.
const MOST_DEATHS: u32 = 2;

/// Logs that were being read when a process ended, and how often.
#[derive(Clone, Debug, Default)]
pub(crate) struct Suspects(HashMap<String, u32>);

impl Suspects {
    /// Reads the journal of a process that has ended.
    pub(crate) fn of(journal: &mut File) -> io::Result<Self> {
        journal.seek(SeekFrom::Start(0))?;
        let (mut deaths, mut in_work) = (HashMap::new(), HashSet::new());
        let mut lines = BufReader::with_capacity(64 << 10, &*journal);
        let mut line = Vec::new();
        loop {
            line.clear();
            if lines.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            let text = line.trim_ascii_end();
            match std::str::from_utf8(text) {
                Ok(text) if text.starts_with(READING) => {
                    in_work.insert(text[READING.len()..].to_owned());
                }
                Ok(STARTED) => count(&mut deaths, &mut in_work),
                Ok(ENDED) => in_work.clear(),
                _ => {
                    if let Ok(head) = LineHead::parse(text) {
                        in_work.remove(&written(&head.source.path));
                    }
                }
            }
        }
        count(&mut deaths, &mut in_work);
        journal.seek(SeekFrom::End(0))?;
        Ok(Self(deaths))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn contains(&self, path: &str) -> bool {
        self.0.contains_key(&written(path))
    }

    /// Whether a log has ended its reader often enough.
    pub(crate) fn is_guilty(&self, path: &str) -> bool {
        self.0.get(&written(path)).is_some_and(|&n| n >= MOST_DEATHS)
    }
}

fn count(deaths: &mut HashMap<String, u32>, in_work: &mut HashSet<String>) {
    for path in in_work.drain() {
        *deaths.entry(path).or_default() += 1;
    }
}

/// A path on one line, whatever it holds.
fn written(path: &str) -> String {
    format!("{path:?}")
}

/// The line for the beginning of a process.
pub(crate) fn started() -> String {
    format!("{STARTED}\n")
}

/// The line for the end of a process, in good order.
pub(crate) fn ended() -> String {
    format!("{ENDED}\n")
}

/// The line for a log that is being read.
pub(crate) fn reading(path: &str) -> String {
    format!("{READING}{}\n", written(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Folder, Job, Labelling, Limits, Logs, Outputs, Shard};
    use iotide_testkit::FreshDir;
    use std::fs;
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    const LOG: &str = "# runtime_s=100\nrank,op,start,end,bytes\n0,write,90,99,200000000\n";

    fn run(dir: &FreshDir) -> (String, String) {
        let job = Job {
            logs: Logs::Below(vec![dir.join("logs")]),
            shard: Shard::WHOLE,
            options: Default::default(),
            labelling: Labelling::default(),
            limits: Limits::default(),
            n_workers: 2,
            count_ahead: false,
        };
        let mut folder = Folder::open(&dir.join("out"), &job.made_with("a = 1\n")).unwrap();
        crate::run(&job, &mut folder, &Arc::new(AtomicBool::new(false)), |_| ()).unwrap();
        folder.finish(Outputs::LinesOnly).unwrap();
        let read = |name: &str| fs::read_to_string(dir.join("out").join(name)).unwrap();
        (read("runs.jsonl"), read("rejected.jsonl"))
    }

    /// A journal as a process leaves it that was killed: once for each list of logs it was reading.
    fn killed_over(dir: &FreshDir, in_work: &[&[&PathBuf]]) {
        fs::create_dir(dir.join("out")).unwrap();
        let mut journal = String::new();
        for logs in in_work {
            journal += &started();
            logs.iter().for_each(|log| journal += &reading(log.to_str().unwrap()));
        }
        dir.write("out/journal.jsonl", journal);
        dir.write("out/made-with.toml", "a = 1\n");
    }

    #[test]
    fn a_log_that_ends_its_reader_again_and_again_is_rejected_and_no_other() {
        let dir = FreshDir::new("suspects");
        fs::create_dir(dir.join("logs")).unwrap();
        let [killer, innocent, late] =
            ["killer", "innocent", "late"].map(|name| dir.write(format!("logs/{name}.csv"), LOG));
        killed_over(&dir, &[&[&killer, &innocent], &[&killer]]);
        let (runs, rejected) = run(&dir);
        assert!(rejected.contains("killer.csv") && rejected.contains("terminated abnormally"), "{rejected}");
        assert_eq!(rejected.lines().count(), 1);
        assert_eq!(runs.lines().count(), 2, "{runs}");
        let _ = late;
        // It stays so until the log changes.
        assert_eq!(run(&dir).1, rejected);
        fs::write(&killer, format!("{LOG}0,write,99,100,1\n")).unwrap();
        assert_eq!(run(&dir).0.lines().count(), 3);
    }

    #[test]
    fn what_was_in_work_when_a_process_ended_in_good_order_or_was_done_since_is_no_suspect() {
        let dir = FreshDir::new("no-suspects");
        let journal = format!("{}{}{}{}", started(), reading("a"), ended(), started());
        let mut file = File::open(dir.write("journal", journal)).unwrap();
        assert!(Suspects::of(&mut file).unwrap().is_empty());
        let journal = format!("{}{}{}", started(), reading("a \n\"b"), reading("c"));
        let suspects = Suspects::of(&mut File::open(dir.write("journal", journal)).unwrap()).unwrap();
        assert!(suspects.contains("a \n\"b") && suspects.contains("c") && !suspects.is_guilty("c"));
    }
}
