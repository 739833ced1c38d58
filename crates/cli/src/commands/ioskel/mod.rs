//! `iotide ioskel`: a workload with a known rhythm, for trying things out.
//!
//! After the I/O skeleton of ADMIRE deliverable 5.5, section 3.4.2. A bulk-synchronous program is a heartbeat: all
//! processes write (or read) a burst, compute, and come back a period later. Here nothing is computed; the bursts are
//! real.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::{Context, bail};

use iotide_report::quantity::{human_bytes, parse_probability};

use crate::ExitStatus;
use crate::ui::{Hint, Ui};

pub(crate) use iotide_report::quantity::{parse_seconds, parse_size};

pub(crate) use self::skeleton::{Performed, Skeleton, perform};

mod protocol;
mod skeleton;
mod worker;

/// Run a workload with a known rhythm
///
/// Starts processes that write a burst of data every period, all at the same time, each into a file of its own, and now
/// and then turn to reading back what they wrote. The period counts from start to start and does not drift. The files
/// are removed at the end.
///
/// Called through a symbolic link named ioskel.PERIOD.SIZE.ITER or ioskel.PERIOD.SIZE.ITER.PROBA (seconds, bytes, count,
/// percent), the name sets the options, so that tools which sort programs by name tell the configurations apart.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct IoskelArgs {
    /// Time from the start of one burst to the start of the next: 4, 0.5s, 250ms, 2min
    #[arg(long, short, value_name = "TIME", default_value = "1", value_parser = parse_seconds)]
    period: f64,
    /// Instead of a fixed period: time from the end of a burst, when the last process is done with it, to the start of the
    /// next, as if computing; also before the first
    #[arg(long, value_name = "TIME", conflicts_with = "period", value_parser = parse_seconds)]
    compute: Option<f64>,
    /// Begin no burst later than this after the start, however many are left
    #[arg(long, value_name = "TIME", value_parser = parse_seconds)]
    until: Option<f64>,
    /// How much each process moves in a burst: 64M and 64MiB are 2^26 bytes, 64MB are 64 million
    #[arg(long, short, value_name = "SIZE", default_value = "16M", value_parser = parse_size)]
    size: u64,
    /// How many bursts
    #[arg(long, short = 'n', value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    iterations: u32,
    /// Probability of turning from writing to reading, or back, after a burst: 0.5 or 50%; all processes turn together
    #[arg(long, value_name = "P", default_value = "0", value_parser = parse_probability)]
    turn_probability: f64,
    /// How many processes
    #[arg(long, short = 'j', value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    processes: u32,
    /// How much one read or write call moves
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = parse_size)]
    transfer_size: u64,
    /// Force each written burst to storage (fdatasync) before it counts as done
    #[arg(long)]
    sync: bool,
    /// Where to make the files; a folder of their own is made there
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Seed of the turns
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write every operation to FILE as an event table (CSV) that the other commands read
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Leave the files in place at the end
    #[arg(long)]
    keep: bool,
    /// Write each burst into a new file, and leave the files in place
    #[arg(long, conflicts_with = "log")]
    file_per_burst: bool,
    /// Be process N of a skeleton that is being started
    #[arg(long, value_name = "N", hide = true)]
    worker: Option<u32>,
}

const EXAMPLES: &str = "\
Examples:
  iotide ioskel --period 4 --size 512M --iterations 15 --dir /scratch
  iotide ioskel -p 1 -s 8M -n 20 -j 4 --turn-probability 50% --log run.csv && iotide detect run.csv
  ln -s $(command -v iotide) ioskel.4.536870912.15.100 && ./ioskel.4.536870912.15.100";

pub(crate) fn run(ui: &mut Ui, args: &IoskelArgs) -> anyhow::Result<ExitStatus> {
    let skeleton = args.skeleton()?;
    if let Some(rank) = args.worker {
        return worker::run(&skeleton, rank).map(|()| ExitStatus::Done);
    }
    // Opened before the run: that it cannot be written should be known before an hour has passed, not after.
    let log = args.log.as_deref().map(create_log).transpose()?;
    let performed = perform(&skeleton, &AtomicBool::new(false), &mut |done, total| {
        ui.progress(format_args!("burst {done} of {total}"))
    })?;
    if let (Some(mut log), Some(path)) = (log, &args.log) {
        write_events(&mut log, &performed)
            .and_then(|()| log.sync_all())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let Some(failure) = performed.failure {
        let n = performed.operations.len();
        return Err(anyhow::Error::msg(failure)).hint(match &args.log {
            Some(path) => format!("the {n} operations done until then are in {}", path.display()),
            None => "choose another folder with --dir, or less with --size".to_owned(),
        });
    }
    ui.out(&summary(&skeleton, &performed))?;
    if let Some(path) = &args.log {
        ui.status(format_args!("{} operations written to {}", performed.operations.len(), path.display()));
    }
    Ok(ExitStatus::Done)
}

impl IoskelArgs {
    fn skeleton(&self) -> anyhow::Result<Skeleton> {
        let transfer_bytes = self.transfer_size.min(self.size);
        if transfer_bytes > 1 << 30 {
            bail!(
                "a transfer of {} would be held in memory twice: at most 1 GiB",
                human_bytes(transfer_bytes)
            );
        }
        Ok(Skeleton {
            period_s: self.period,
            compute_s: self.compute,
            until_s: self.until,
            burst_bytes: self.size,
            n_bursts: self.iterations,
            turn_probability: self.turn_probability,
            n_processes: self.processes,
            transfer_bytes,
            sync: self.sync,
            seed: self.seed,
            dir: self.dir.clone(),
            keep: self.keep || self.file_per_burst,
            file_per_burst: self.file_per_burst,
            environment: Vec::new(),
        })
    }
}

/// Returns the command line with what the program's own name says put into words: `ioskel.4.64M.10 -j 2` becomes
/// `… ioskel --period 4 --size 64M --iterations 10 -j 2`. Any other name leaves it as it is.
pub(crate) fn expand_name(args: Vec<OsString>) -> anyhow::Result<Vec<OsString>> {
    let Some(name) = args.first().filter(|program| is_ioskel(program)) else { return Ok(args) };
    let name = Path::new(name).file_name().unwrap_or_default().to_string_lossy();
    let parts: Vec<&str> = name.split('.').skip(1).collect();
    let mut options = vec!["ioskel".to_owned()];
    match parts[..] {
        [] => {}
        [period, size, iterations] | [period, size, iterations, _] => {
            let pairs = [("--period", period), ("--size", size), ("--iterations", iterations)];
            options.extend(pairs.iter().flat_map(|(flag, value)| [(*flag).to_owned(), (*value).to_owned()]));
            if let Some(percent) = parts.get(3) {
                options.extend(["--turn-probability".to_owned(), format!("{percent}%")]);
            }
        }
        _ => bail!(
            "the name {name} says nothing: expected ioskel.PERIOD.SIZE.ITER or ioskel.PERIOD.SIZE.ITER.PROBA"
        ),
    }
    let mut args = args.into_iter();
    let program = args.next();
    Ok(program.into_iter().chain(options.into_iter().map(OsString::from)).chain(args).collect())
}

/// Whether the program was called by the skeleton's own name, with or without settings in it.
fn is_ioskel(program: &OsStr) -> bool {
    let name = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
    name == "ioskel" || name.starts_with("ioskel.")
}

fn create_log(path: &Path) -> anyhow::Result<File> {
    File::create(path).with_context(|| format!("cannot write {}", path.display()))
}

/// Writes the operations as an event table, in order of time.
pub(crate) fn write_events(file: &mut impl Write, performed: &Performed) -> std::io::Result<()> {
    let mut file = BufWriter::new(file);
    writeln!(file, "# runtime_s={:.9}", performed.runtime_s)?;
    writeln!(file, "# nprocs={}", performed.n_processes)?;
    writeln!(file, "# exe={}", performed.exe)?;
    writeln!(file, "# start_time={}", performed.start_time_s)?;
    writeln!(file, "rank,op,start,end,bytes,file")?;
    for operation in &performed.operations {
        writeln!(
            file,
            "{},{},{:.9},{:.9},{},rank-{}.dat",
            operation.rank,
            operation.op.name(),
            operation.start_ns as f64 * 1e-9,
            operation.end_ns as f64 * 1e-9,
            operation.bytes,
            operation.rank,
        )?;
    }
    file.flush()
}

fn summary(skeleton: &Skeleton, performed: &Performed) -> String {
    let mut text = format!(
        "{} bursts of {} by {} in {:.2} s\n",
        performed.bursts.len(),
        human_bytes(skeleton.burst_bytes),
        if skeleton.n_processes == 1 {
            "1 process".to_owned()
        } else {
            format!("{} processes", skeleton.n_processes)
        },
        performed.runtime_s,
    );
    text += &format!(
        "written {}, read back {}\n",
        human_bytes(performed.bytes_written()),
        human_bytes(performed.bytes_read())
    );
    if let Some(period_s) = performed.achieved_period_s() {
        text += &match skeleton.compute_s {
            None => format!("period {period_s:.4} s achieved, {:.4} s asked for\n", skeleton.period_s),
            Some(compute_s) => format!("period {period_s:.4} s, of which {compute_s:.4} s computing\n"),
        };
    }
    let n_late = if skeleton.compute_s.is_none() { performed.n_late(skeleton.period_s) } else { 0 };
    if n_late > 0 {
        text += &format!("{n_late} bursts began late: the one before took longer than the period\n");
    }
    if let Some(dir) = &performed.kept {
        text += &format!("files kept in {}\n", dir.display());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn expands(line: &str, expected: &str) {
        let args = line.split(' ').map(OsString::from).collect();
        let expanded = expand_name(args).unwrap();
        let words: Vec<String> = expanded.into_iter().map(|arg| arg.into_string().unwrap()).collect();
        assert_eq!(words.join(" "), expected);
    }

    #[test]
    fn the_name_of_the_program_sets_the_options() {
        expands("./ioskel.4.64M.10", "./ioskel.4.64M.10 ioskel --period 4 --size 64M --iterations 10");
        expands(
            "/x/ioskel.4.536870912.15.100 -j 2",
            "/x/ioskel.4.536870912.15.100 ioskel --period 4 --size 536870912 --iterations 15 --turn-probability 100% -j 2",
        );
        expands("ioskel --help", "ioskel ioskel --help");
    }

    #[test]
    fn other_names_mean_nothing() {
        expands("/usr/bin/iotide detect ioskel.1.2.3", "/usr/bin/iotide detect ioskel.1.2.3");
        expands("ioskeleton run", "ioskeleton run");
    }

    #[test]
    fn a_name_with_too_few_parts_is_an_error_that_shows_the_pattern() {
        let error = expand_name(vec!["ioskel.4.64M".into()]).unwrap_err().to_string();
        assert!(error.contains("ioskel.4.64M says nothing: expected ioskel.PERIOD.SIZE.ITER"), "{error}");
    }
}
