//! Cost of telling why a run was slow: `iotide why` on a million requests, with 30 earlier runs and a week of the servers' log.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use super::period::best;
use super::{Bed, Goal, Line};

const N_EARLIER: usize = 30;
const N_REQUESTS: usize = 1_000_000;
const N_RANKS: usize = 16;
const N_PHASES: usize = 20;
const REQUEST_BYTES: f64 = 1_048_576.0;
/// How long a request takes while nobody else moves anything.
const REQUEST_S: f64 = 0.01;
const PAUSE_S: f64 = 10.0;
const START_UNIX_S: usize = 1_700_000_000;
const WEEK_S: usize = 604_800;
/// Runs begin so far apart.
const APART_S: usize = WEEK_S / (N_EARLIER + 1);
/// Others leave half of the speed to the last run.
const SLOW: f64 = 2.0;
const CAPACITY_BPS: f64 = 1.05 * N_RANKS as f64 * REQUEST_BYTES / REQUEST_S;

/// The wall time of the answer with earlier runs of a thirtieth of the requests, a million in all, and of a million each.
pub(super) fn a_million_requests(bed: &Bed) -> Result<Vec<Line>, String> {
    let mut lines = Vec::new();
    for (n_earlier, what, goal) in [
        (N_REQUESTS / N_EARLIER, "30 earlier runs, 1e6 requests in all", Goal::AtMost(1.0)),
        (N_REQUESTS, "30 earlier runs of 1e6 requests each", Goal::None),
    ] {
        let failed = |error| format!("cannot write the runs: {error}");
        let earlier = bed.folder.join("earlier");
        fs::create_dir_all(&earlier).map_err(failed)?;
        for k in 0..N_EARLIER {
            let run = Run { n_requests: n_earlier, start_s: k * APART_S, slow: 1.0 };
            run.write(bed, &earlier.join(format!("{k}.iotide")))?;
        }
        let last = Run { n_requests: N_REQUESTS, start_s: N_EARLIER * APART_S, slow: SLOW };
        last.write(bed, &bed.folder.join("last.iotide"))?;
        write_log(&bed.folder.join("servers.csv"), n_earlier).map_err(failed)?;
        let args = ["why", "last.iotide", "--history", "earlier", "--storage", "servers.csv"];
        let answer = bed.answer(args.iter().copied().chain(["--format", "json"]))?;
        check(&answer, n_earlier)?;
        let cost = best(3, || {
            let mut command = Command::new(&bed.iotide);
            command.args(args).current_dir(&bed.folder);
            bed.measure(command)
        })?;
        let line = |of: &str, unit, iotide, goal| Line {
            what: format!("1e6 requests, {what}, a week of 1 s samples: {of}"),
            unit,
            iotide,
            peer: None,
            goal,
        };
        lines.push(line("wall time", "s", cost.wall_s, goal));
        lines.push(line("CPU time", "s", cost.cpu_s, Goal::None));
        lines.push(line("peak memory", "MB", cost.peak_bytes / 1e6, Goal::None));
        fs::remove_dir_all(&earlier).map_err(failed)?;
    }
    Ok(lines)
}

/// A fast answer that leaves runs out, or does not see the others, is worth nothing.
fn check(answer: &str, n_earlier: usize) -> Result<(), String> {
    let document: serde_json::Value = serde_json::from_str(answer).map_err(|error| error.to_string())?;
    let why = &document["runs"][0]["why"];
    let wanted: &[&str] = if n_earlier == N_REQUESTS { &["others"] } else { &["own", "mixed"] };
    let is_wanted = why["verdict"].as_str().is_some_and(|verdict| wanted.contains(&verdict));
    if why["n_history"] == N_EARLIER && is_wanted {
        return Ok(());
    }
    Err(format!("verdict {} with {} earlier runs; {wanted:?} was wanted", why["verdict"], why["n_history"]))
}

/// A run of the program: all ranks write one request after the other in each phase.
struct Run {
    n_requests: usize,
    /// When it began, in the week.
    start_s: usize,
    slow: f64,
}

impl Run {
    fn per_rank_and_phase(&self) -> usize {
        self.n_requests / (N_RANKS * N_PHASES)
    }

    fn phase_s(&self) -> f64 {
        self.per_rank_and_phase() as f64 * REQUEST_S * self.slow
    }

    /// Bytes per second at a second of the week.
    fn rate(&self, second: usize) -> f64 {
        let at_s = second as f64 - self.start_s as f64;
        let round_s = self.phase_s() + PAUSE_S;
        let is_inside = at_s >= 0.0 && at_s < round_s * N_PHASES as f64 && at_s % round_s < self.phase_s();
        if is_inside { N_RANKS as f64 * REQUEST_BYTES / REQUEST_S / self.slow } else { 0.0 }
    }

    /// Writes the run as a native trace, as the tracer does.
    fn write(&self, bed: &Bed, path: &Path) -> Result<(), String> {
        let table = bed.folder.join("run.csv");
        self.write_table(&table).map_err(|error| format!("cannot write {}: {error}", table.display()))?;
        let mut command = Command::new(&bed.iotide);
        command.arg("convert").arg(&table).args(["--to", "native", "-o"]).arg(path).stderr(Stdio::null());
        let status = command.status().map_err(|error| error.to_string())?;
        if status.success() { Ok(()) } else { Err(format!("{command:?} failed")) }
    }

    fn write_table(&self, path: &Path) -> io::Result<()> {
        let mut out = BufWriter::new(File::create(path)?);
        writeln!(out, "# start_time={}\n# exe=./app", START_UNIX_S + self.start_s)?;
        writeln!(out, "rank,op,start,end,bytes")?;
        let mut chance = self.start_s as u64 + 1;
        for phase in 0..N_PHASES {
            let phase_s = phase as f64 * (self.phase_s() + PAUSE_S);
            for rank in 0..N_RANKS {
                for i in 0..self.per_rank_and_phase() {
                    chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    // Up to a tenth of the time is noise.
                    let noise = 0.9 + 0.1 * (chance >> 40) as f64 / (1u64 << 24) as f64;
                    let start_s = phase_s + i as f64 * REQUEST_S * self.slow;
                    let end_s = start_s + REQUEST_S * self.slow * noise;
                    writeln!(out, "{rank},write,{start_s:.6},{end_s:.6},{REQUEST_BYTES:.0}")?;
                }
            }
        }
        out.flush()
    }
}

/// Writes a week of the servers' log: the runs, others that fill the storage in each sixth hour, and beside the last run.
fn write_log(path: &Path, n_earlier: usize) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    writeln!(out, "time,read,write")?;
    let run = |k: usize| Run {
        n_requests: if k < N_EARLIER { n_earlier } else { N_REQUESTS },
        start_s: k * APART_S,
        slow: if k < N_EARLIER { 1.0 } else { SLOW },
    };
    for second in 0..WEEK_S {
        let k = (second / APART_S).min(N_EARLIER);
        let own = run(k).rate(second);
        let is_full =
            k == N_EARLIER && second < k * APART_S + 3 * 3600 || second % 21_600 > 20_000 && own == 0.0;
        let others = if is_full { CAPACITY_BPS - own } else { 0.02 * CAPACITY_BPS };
        writeln!(out, "{},0,{:.0}", START_UNIX_S + second, own + others)?;
    }
    out.flush()
}
