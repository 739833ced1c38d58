//! `iotide signature`: one application's load, out of the noisy logs of storage servers.

use std::fs::File;
use std::io::Read;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use iotide_api::{
    CutConfig, Direction, Format, GroupConfig, Input, JobLogOptions, Loss, OpenOptions, Signature,
    SignatureConfig, SignatureMethod, SignatureOptions, ThroughputLog, Url, set_signature, signature,
    signature_toml, throughput_log,
};
use iotide_formats::{date_unix_s, zone_offset_s};
use iotide_pages::{Page, signature_svg};
use iotide_report::{Document, signature_of_json};

use self::output::{Kind, Target};
use super::Form;
use super::advice::advised;
use super::input::format_of_name;
use crate::ExitStatus;
use crate::ui::{Hint, Ui};

mod applications;
mod fit;
mod output;

/// Find an application's I/O signature in the noisy logs of storage servers
///
/// A server's throughput log knows nothing of jobs: it shows what the application did, what others did meanwhile, and the
/// delays that caused. Several runs of one application have only the application in common, and that is its signature: the
/// load it puts on the storage, as a series and as bursts.
///
/// Without `--jobs` each input is the log of one run. With `--jobs` the inputs are the files of one long log (or a
/// Prometheus server has it), the job log says who ran what and when, and each application that ran often enough gets a
/// signature. `--fit` tells on which partition, and when, an application would be disturbed least.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SignatureArgs {
    /// Tables `time,bandwidth`, or traces: one per run, or with `--jobs` the files of one throughput log
    #[arg(value_name = "SAMPLE|LOG")]
    inputs: Vec<PathBuf>,
    /// Read the inputs as this format instead of detecting it
    #[arg(long, help_heading = "Input", value_name = "FORMAT", value_parser = format_of_name)]
    input_format: Option<Format>,
    /// Which way the bytes that count went
    #[arg(long, help_heading = "Input", value_enum, default_value_t = ModeArg::Both)]
    mode: ModeArg,
    /// Seconds that a value of the throughput log holds [default: as it was logged]
    #[arg(long, help_heading = "Input", value_name = "SECONDS", value_parser = positive)]
    interval: Option<f64>,

    /// Who ran what, and when: text of `sacct -P`, or a table `user,name,nodes,start,end`; `-` is standard input
    #[arg(long, help_heading = "Throughput log and jobs", value_name = "FILE")]
    jobs: Option<PathBuf>,
    /// How far dates in the job log are ahead of UTC, e.g. +01:00; seconds since 1970 are not concerned
    #[arg(long, help_heading = "Throughput log and jobs", value_name = "OFFSET", value_parser = offset, default_value = "Z", allow_hyphen_values = true)]
    utc_offset: f64,
    /// Ask this Prometheus server for the throughput log
    #[arg(
        long,
        help_heading = "Throughput log and jobs",
        value_name = "URL",
        requires = "query",
        requires = "jobs",
        conflicts_with = "inputs"
    )]
    prometheus: Option<Url>,
    /// PromQL that gives bytes per second, e.g. sum(rate(lustre_write_bytes_total[1m]))
    #[arg(long, help_heading = "Throughput log and jobs", value_name = "PROMQL", requires = "prometheus")]
    query: Option<String>,
    /// Ask from this time on: seconds since 1970, or a date [default: when the first job began]
    #[arg(long, help_heading = "Throughput log and jobs", value_name = "TIME", value_parser = time, requires = "prometheus")]
    from: Option<f64>,
    /// Ask until this time [default: when the last job ended]
    #[arg(long, help_heading = "Throughput log and jobs", value_name = "TIME", value_parser = time, requires = "prometheus")]
    until: Option<f64>,
    /// Interval between samples, in seconds
    #[arg(long, help_heading = "Throughput log and jobs", value_name = "SECONDS", value_parser = positive, default_value_t = 15.0, requires = "prometheus")]
    step: f64,

    /// An application that ran less often gets no signature
    #[arg(long, help_heading = "Applications", value_name = "N", default_value_t = GroupConfig::default().min_runs)]
    min_runs: usize,
    /// Use at most N runs of an application, spread evenly over time
    #[arg(long, help_heading = "Applications", value_name = "N", default_value_t = CutConfig::default().max_samples)]
    max_samples: usize,
    /// Take runs on different numbers of nodes for one application, normalised to the fewest
    #[arg(long, help_heading = "Applications")]
    weak_scaling: bool,
    /// Use runs, too, that failed or were cancelled
    #[arg(long, help_heading = "Applications")]
    all_states: bool,

    /// How the signature is found: ours, the IOSI paper's, or by warping time
    #[arg(long, help_heading = "Method", value_enum, default_value_t = MethodArg::Consensus)]
    method: MethodArg,
    /// Take settings of the methods from FILE
    #[arg(long, help_heading = "Method", value_name = "FILE")]
    settings: Option<PathBuf>,
    /// Print all settings with their values, and exit
    #[arg(long, help_heading = "Method")]
    print_settings: bool,
    /// With --method iosi or dtw: use samples as they are, as in the paper's comparison; none is left out or shortened,
    /// and no background is taken away
    #[arg(long, help_heading = "Method")]
    no_preprocess: bool,
    /// How many cores to use (all, if not given); the answer does not depend on it
    #[arg(long, help_heading = "Method", value_name = "N")]
    threads: Option<NonZeroUsize>,

    /// Rank these logs of partitions, and starts on them, by the interference expected
    #[arg(long, help_heading = "Where to run", value_name = "LOG", num_args = 1.., conflicts_with = "jobs")]
    fit: Vec<PathBuf>,
    /// Take the signature from an answer of this command (JSON) rather than from samples
    #[arg(
        long,
        help_heading = "Where to run",
        value_name = "FILE",
        requires = "fit",
        conflicts_with = "inputs"
    )]
    signature: Option<PathBuf>,
    /// Interval between candidate starts, in seconds
    #[arg(long, help_heading = "Where to run", value_name = "SECONDS", value_parser = positive, default_value_t = 60.0, requires = "fit")]
    fit_step: f64,
    /// Capacity of a partition, in bytes per second [default: the highest bandwidth seen on it]
    #[arg(long, help_heading = "Where to run", value_name = "BPS", value_parser = positive, requires = "fit")]
    capacity: Option<f64>,
    /// Number of starts to list
    #[arg(long, help_heading = "Where to run", value_name = "N", default_value_t = 10)]
    top: usize,

    /// Form of the answer: for people or for scripts
    #[arg(long, help_heading = "Output", value_enum, default_value_t = Form::Text, value_name = "FORM")]
    format: Form,
    /// Write the answer to FILE rather than to stdout; a name that ends in .html, .svg, .jsonl or .parquet says what it
    /// gets. May be given several times
    #[arg(short, long, help_heading = "Output", value_name = "FILE")]
    output: Vec<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  iotide signature run1.csv run2.csv run3.csv -o signature.html    what these runs have in common
  SLURM_TIME_FORMAT=%s sacct -P -o JobID,User,JobName,NNodes,Start,End,State > jobs.txt
  iotide signature ost-*.csv --jobs jobs.txt -o all.parquet        every application of a long log
  iotide signature --jobs jobs.txt --prometheus http://localhost:9090 --query 'sum(rate(…[1m]))'
  iotide signature run*.csv --fit widow0.csv widow1.csv            where, and when, to run it";

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum ModeArg {
    Read,
    Write,
    Both,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum MethodArg {
    /// Background load only adds, contention only delays
    Consensus,
    /// As the IOSI paper has it
    Iosi,
    /// Barycentre under dynamic time warping
    Dtw,
    /// One sample after the other under dynamic time warping
    DtwPairwise,
}

pub(crate) fn run(ui: &mut Ui, args: &SignatureArgs) -> anyhow::Result<ExitStatus> {
    if args.print_settings {
        ui.out(&signature_toml(&args.config()?))?;
        return Ok(ExitStatus::Done);
    }
    let targets = output::targets(&args.output, args.format);
    match (&args.jobs, &args.signature) {
        (Some(jobs), _) => applications::run(ui, args, jobs, targets),
        (None, Some(file)) => fit_of_file(ui, args, file, &targets),
        (None, None) => of_samples(ui, args, &targets),
    }
}

/// The signature of samples that were given one by one.
fn of_samples(ui: &mut Ui, args: &SignatureArgs, targets: &[Target]) -> anyhow::Result<ExitStatus> {
    if args.inputs.is_empty() {
        return Err(anyhow::anyhow!("no samples were given"))
            .hint("`iotide signature run1.csv run2.csv run3.csv`; see `iotide signature --help`");
    }
    let inputs: Vec<Input> = args.inputs.iter().map(Input::file).collect();
    let found =
        signature(&inputs, &args.options()?, &mut |progress| ui.progress_of(&progress)).map_err(advised)?;
    let (signature, mut report) = (found.signature, found.report);
    if !args.fit.is_empty() {
        report.fit = Some(fit::rank(ui, args, &signature, "")?);
    }
    for target in targets {
        match target.kind {
            Kind::Page => target.write(ui, &report.to_page().context("this answer has no page")?)?,
            Kind::Picture => target.write(ui, &signature_svg(&report.chart))?,
            Kind::Lines => target.write(ui, &(report.entry.to_json_line() + "\n"))?,
            Kind::Table => target.write_table(ui, [&report.entry])?,
            Kind::Plain(Form::Json) => target.write(ui, &report.to_json())?,
            Kind::Plain(Form::Text) => target.write(ui, &report.to_text(ui.width(), target.ink(ui)))?,
        }
    }
    Ok(status(&signature))
}

/// The interference that a signature found before would meet.
fn fit_of_file(
    ui: &mut Ui,
    args: &SignatureArgs,
    file: &Path,
    targets: &[Target],
) -> anyhow::Result<ExitStatus> {
    let name = file.display();
    let text = read_limited(file).with_context(|| format!("cannot read {name}"))?;
    let signature = signature_of_json(&text)
        .map_err(|fault| anyhow::anyhow!("{name} holds no signature: {fault}"))
        .hint("`iotide signature … --format json -o FILE` writes one")?;
    let report = fit::rank(
        ui,
        args,
        &signature,
        &format!("{name}, on {}", iotide_report::text::counted(args.fit.len() as u64, "log")),
    )?;
    for target in targets {
        match target.kind {
            Kind::Plain(Form::Text) => target.write(ui, &report.to_text(ui.width(), target.ink(ui)))?,
            Kind::Plain(Form::Json) => target.write(ui, &report.to_json())?,
            _ => bail!("a ranking is text or JSON, not {}", target.shown()),
        }
    }
    Ok(if report.starts.is_empty() { ExitStatus::NothingFound } else { ExitStatus::Done })
}

/// A document of one signature is no longer than this: some 10 million points.
const LONGEST_DOCUMENT: u64 = 256 << 20;

fn read_limited(file: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let n = File::open(file)?.take(LONGEST_DOCUMENT + 1).read_to_string(&mut text)?;
    if n as u64 > LONGEST_DOCUMENT {
        let fault = format!("it is longer than {} MiB", LONGEST_DOCUMENT >> 20);
        return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, fault));
    }
    Ok(text)
}

fn status(signature: &Signature) -> ExitStatus {
    if signature.bursts.is_empty() { ExitStatus::NothingFound } else { ExitStatus::Done }
}

/// Reads a throughput log, of one file or of several that are added up.
fn log_of(
    ui: &mut Ui,
    paths: &[PathBuf],
    args: &SignatureArgs,
) -> anyhow::Result<(ThroughputLog, Vec<Loss>)> {
    let input = Input::files(paths);
    ui.progress(format_args!("reading {}", input.name()));
    throughput_log(&input, &args.options()?).map_err(advised)
}

impl SignatureArgs {
    /// Converts the flags to settings; nothing below this line depends on clap.
    fn config(&self) -> anyhow::Result<SignatureConfig> {
        let method = match self.method {
            MethodArg::Consensus => SignatureMethod::Consensus,
            MethodArg::Iosi => SignatureMethod::Iosi,
            MethodArg::Dtw => SignatureMethod::DtwBarycentre,
            MethodArg::DtwPairwise => SignatureMethod::DtwPairwise,
        };
        let mut config = SignatureConfig { method, ..SignatureConfig::default() };
        if let Some(path) = &self.settings {
            let name = path.display().to_string();
            let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
            set_signature(&mut config, &name, &text).map_err(advised)?;
        }
        if self.no_preprocess {
            if method == SignatureMethod::Consensus {
                bail!("--no-preprocess belongs to --method iosi, dtw and dtw-pairwise");
            }
            config.preprocess = false;
            config.outliers.enabled = false;
        }
        Ok(config)
    }

    fn options(&self) -> anyhow::Result<SignatureOptions> {
        Ok(SignatureOptions {
            open: OpenOptions {
                input_format: self.input_format,
                watch: crate::asked::watch(),
                ..OpenOptions::default()
            },
            direction: match self.mode {
                ModeArg::Read => Direction::Read,
                ModeArg::Write => Direction::Write,
                ModeArg::Both => Direction::Both,
            },
            interval_s: self.interval,
            config: self.config()?,
            groups: GroupConfig {
                min_runs: self.min_runs.max(1),
                weak_scaling: self.weak_scaling,
                broken: self.all_states,
            },
            cut: CutConfig { max_samples: self.max_samples.max(1), ..CutConfig::default() },
            threads: self.threads,
        })
    }

    fn job_options(&self) -> JobLogOptions {
        JobLogOptions { utc_offset_s: self.utc_offset }
    }
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        _ => Err("a positive number is wanted".to_owned()),
    }
}

fn time(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| seconds.is_finite());
    seconds
        .or_else(|| date_unix_s(text.as_bytes(), 0.0))
        .ok_or_else(|| "a time is seconds since 1970, or a date as 2024-03-01T12:00:00Z".to_owned())
}

fn offset(text: &str) -> Result<f64, String> {
    zone_offset_s(text.as_bytes()).ok_or_else(|| "an offset is +01:00, -0500 or Z".to_owned())
}
