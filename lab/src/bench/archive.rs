//! Cost of labelling an archive: `iotide categorize` on thousands of logs, and against PyDarshan reading them.
//!
//! Half of the archive are copies of the real Darshan logs of up to 100 KiB, where they are at hand; the rest is written with
//! the writer that the reader is tested with: 64 files, a checkpoint a minute. The larger real logs, eleven of 67, are
//! test cases of DXT for the most part; beside PyDarshan they are measured, too.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use iotide_formats::darshan::{Compression, Endian};

use super::darshan::pydarshan;
use super::period::best;
use super::{Bed, Goal, Line};
use crate::repository;

#[allow(dead_code)]
#[path = "../../../crates/formats/tests/it/darshan/writer.rs"]
mod darshan_log;

const LARGEST: u64 = 100 << 10;

/// CPU a log of an archive of 20,000, and memory beside that for 2,000.
pub(super) fn cost_of_an_archive(bed: &Bed) -> Result<Vec<Line>, String> {
    let real = real_logs(LARGEST)?;
    if real.is_empty() {
        eprintln!("no shared data with real logs: all are made");
    }
    let archive = bed.folder.join("archive");
    let mut costs = Vec::new();
    for n_logs in [2_000, 20_000] {
        make_archive(&archive, n_logs, &real).map_err(|error| format!("{}: {error}", archive.display()))?;
        let cost = best(2, || {
            let results = bed.folder.join("results");
            let _ = fs::remove_dir_all(&results);
            let mut command = Command::new(&bed.iotide);
            command.args(["categorize", "archive", "--out", "results"]).current_dir(&bed.folder);
            let cost = bed.measure(command)?;
            let lines =
                |name: &str| fs::read_to_string(results.join(name)).map_or(0, |text| text.lines().count());
            let n_read = lines("runs.jsonl") + lines("rejected.jsonl");
            if n_read != n_logs || lines("runs.jsonl") * 2 < n_logs {
                return Err(format!("{n_logs} logs, but {n_read} have a line"));
            }
            Ok(cost)
        })?;
        costs.push((n_logs as f64, cost));
    }
    let [(_, small), (n_logs, large)] = &costs[..] else {
        return Err("two archives were measured".to_owned());
    };
    let megabytes = |bytes: f64| bytes / 1e6;
    Ok(vec![
        Line {
            what: format!(
                "archive of {n_logs} logs: CPU a log ({:.0} logs a core-second)",
                n_logs / large.cpu_s
            ),
            unit: "ms",
            iotide: large.cpu_s * 1e3 / n_logs,
            peer: None,
            goal: Goal::AtMost(2.0),
        },
        Line {
            what: "… peak memory".to_owned(),
            unit: "MB",
            iotide: megabytes(large.peak_bytes),
            peer: None,
            goal: Goal::AtMost((1.2 * megabytes(small.peak_bytes)).round()),
        },
        Line {
            what: "… and of 2000 logs".to_owned(),
            unit: "MB",
            iotide: megabytes(small.peak_bytes),
            peer: None,
            goal: Goal::None,
        },
    ])
}

/// CPU of labelling the real logs, and of PyDarshan reading them.
///
/// Ours is `iotide categorize --files LIST`, from start to end: every log read, labelled, and the statistics told. PyDarshan's
/// is one process that makes a `DarshanReport(path, read_all=True)` of each, which holds the counters of all modules,
/// heatmaps and DXT segments in memory and says nothing of them. Both get the logs that PyDarshan can read.
pub(super) fn cpu_beside_pydarshan(bed: &Bed) -> Result<Vec<Line>, String> {
    let logs = real_logs(u64::MAX)?;
    if logs.is_empty() {
        eprintln!("no shared data with real logs: not measured");
        return Ok(Vec::new());
    }
    let python = pydarshan();
    if python.is_none() {
        eprintln!("no PyDarshan (`pip install darshan`): measuring iotide alone");
    }
    let list = bed.folder.join("list");
    let write = |logs: &[PathBuf]| {
        let names: Vec<String> = logs.iter().map(|log| log.display().to_string()).collect();
        fs::write(&list, names.join("\n")).map_err(|error| format!("{}: {error}", list.display()))
    };
    write(&logs)?;
    let logs = match &python {
        Some(python) => readable_by(python, &list)?,
        None => logs,
    };
    let is_small = |log: &PathBuf| log.metadata().is_ok_and(|metadata| metadata.len() <= LARGEST);
    let small: Vec<PathBuf> = logs.iter().filter(|log| is_small(log)).cloned().collect();
    let mut lines = Vec::new();
    for (logs, which) in [(&logs, "real Darshan logs"), (&small, "of them, of up to 100 KiB")] {
        write(logs)?;
        let ours = best(5, || {
            let mut command = Command::new(&bed.iotide);
            command.arg("categorize").arg("--files").arg(&list).stdout(Stdio::null());
            bed.measure(command)
        })?;
        let peer = python.as_ref().and_then(|python| {
            best(2, || {
                let mut command = Command::new(python);
                command.args(["-c", READ_ALL]).arg(&list).stdout(Stdio::null());
                bed.measure(command)
            })
            .ok()
        });
        lines.push(Line {
            what: format!("labels of {} {which}: CPU, beside PyDarshan reading them", logs.len()),
            unit: "s",
            iotide: ours.cpu_s,
            peer: peer.map(|cost| cost.cpu_s),
            goal: Goal::TimesLess(20.0),
        });
    }
    Ok(lines)
}

/// Of the logs in a list, those that PyDarshan makes a report of. (Its wheel is built without bzip2.)
fn readable_by(python: &Path, list: &Path) -> Result<Vec<PathBuf>, String> {
    let output = Command::new(python)
        .args(["-c", READ_ALL])
        .arg(list)
        .output()
        .map_err(|error| format!("{}: {error}", python.display()))?;
    let said = String::from_utf8_lossy(&output.stdout);
    Ok(said.lines().filter_map(|line| line.strip_prefix("read ")).map(PathBuf::from).collect())
}

const READ_ALL: &str = "
import sys, warnings, darshan
warnings.simplefilter('ignore')
for path in open(sys.argv[1]).read().split('\\n'):
    try:
        darshan.DarshanReport(path, read_all=True)
        print('read', path)
    except Exception:
        pass
";

/// The real logs of up to `largest` bytes.
fn real_logs(largest: u64) -> Result<Vec<PathBuf>, String> {
    let Some(root) =
        repository().ancestors().map(|dir| dir.join("shared/data/traces/darshan")).find(|dir| dir.exists())
    else {
        return Ok(Vec::new());
    };
    let mut logs = Vec::new();
    let mut folders = vec![root];
    while let Some(folder) = folders.pop() {
        let failed = |error| format!("{}: {error}", folder.display());
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let metadata = path.metadata().map_err(failed)?;
            if metadata.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "darshan")
                && metadata.len() <= largest
            {
                logs.push(path);
            }
        }
    }
    logs.sort();
    Ok(logs)
}

/// Fills `archive` up to `n_logs`, in folders of days.
fn make_archive(archive: &Path, n_logs: usize, real: &[PathBuf]) -> std::io::Result<()> {
    let real: Vec<Vec<u8>> = real.iter().map(fs::read).collect::<Result<_, _>>()?;
    for i in 0..n_logs {
        let folder = archive.join(format!("2019/{}/{}", i % 12 + 1, i / 12 % 28 + 1));
        let path = folder.join(format!("user{}_app_id{i}.darshan", i % 50));
        if path.exists() {
            continue;
        }
        fs::create_dir_all(&folder)?;
        match real.get(i / 2 % real.len().max(1)) {
            Some(log) if i % 2 == 0 => fs::write(&path, log)?,
            _ => fs::write(&path, made_log(i))?,
        }
    }
    Ok(())
}

/// A log of 64 files, written one after the other by four ranks.
fn made_log(i: usize) -> Vec<u8> {
    const N_FILES: usize = 64;
    let mut log = darshan_log::LogWriter::new(41, Endian::Little, Compression::Zlib);
    log.job_id = i as i64;
    log.n_procs = 4;
    log.end_s = log.start_s + 60 * N_FILES as i64;
    log.names = (0..N_FILES as u64).map(|id| (id + 1, "/scratch/project/run/output/checkpoint.h5")).collect();
    let mut records = Vec::new();
    for file in 0..N_FILES {
        let mut ints = [0_i64; 69];
        // OPENS, READS, WRITES, SEEKS; BYTES_READ, BYTES_WRITTEN.
        (ints[0], ints[3], ints[4], ints[5], ints[14], ints[15]) =
            (1, 2, 300, 4, 1 << 20, (100 << 20) + (i % 97) as i64);
        let from = 60.0 * file as f64 + (i % 13) as f64 * 0.1;
        let mut floats = [0.0; 17];
        // First and last open, read, write, close.
        (floats[0], floats[1], floats[2], floats[3]) = (from, from + 0.5, from + 1.0, from + 6.0);
        (floats[4], floats[5], floats[6], floats[7]) = (from + 0.1, from + 0.7, from + 5.5, from + 6.5);
        let mut record = log.words(&[file as i64 + 1, (file % 4) as i64]);
        record.extend(log.words(&ints));
        record.extend(log.floats(&floats));
        records.push(record);
    }
    log.push("POSIX", 4, false, vec![records.concat()]);
    log.write()
}
