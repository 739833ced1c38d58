//! `iotide model`: how each metric scales.

use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use iotide_api::{
    Choice, Error, FigureGroups, FitMethod, FitOptions, InputFormat, Measure, MeasuredIn, Measurements,
    ModelQuestions, Models, Progress, Scaling, Search, Store, fit, measurements,
};
use iotide_report::WatchedRuns;

use super::advice::advised;
use super::asking::{ask, in_query, now_unix_s};
use super::document::DocumentArgs;
use crate::ExitStatus;
use crate::ui::{Hint, Ui};

/// Find how each metric scales with the parameters, and predict it elsewhere
///
/// Reads measurements at several sizes (Extra-P text, JSON, JSON Lines, Talpas, .extra-p, files of Extra-P 3, folders of
/// Score-P profiles, or CSV), finds for each call
/// path and metric a function like 1.5 + 0.2 * p^(1/2) * log2(p)^(1), with intervals of confidence. A value, a line or a point
/// that cannot be used costs that value, line or point, never the file.
///
/// With --from-traces it measures for itself: bytes, operations, time in I/O and computing, bandwidth, and the period of
/// the I/O phases, of one program's traces at several sizes. With --job or --app it asks the daemon (`iotide serve`) for what all runs of
/// an application have measured.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES, group(clap::ArgGroup::new("watched").args(["job", "app"])))]
pub(crate) struct ModelArgs {
    /// Measurements, or traces with --from-traces; `-` is stdin
    #[arg(value_name = "MEASUREMENTS", required_unless_present_any = ["store", "job", "app"])]
    inputs: Vec<PathBuf>,
    /// The inputs are traces of one program at several sizes; their parameter is the number of processes, p
    #[arg(long, conflicts_with = "input_format")]
    from_traces: bool,
    /// With --from-traces: a table `trace,p,size` that tells the parameters of each trace
    #[arg(long, value_name = "FILE", requires = "from_traces")]
    parameters: Option<PathBuf>,
    /// With --from-traces: how to separate the calls of a layer, posix->write or posix->pwrite64
    #[arg(long, value_enum, value_name = "GROUP", default_value_t = Groups::Operation, requires = "from_traces")]
    by: Groups,
    /// Form of the measurements, if the content does not tell
    #[arg(long, value_name = "NAME", value_parser = input_format)]
    input_format: Option<InputFormat>,

    /// With a folder of .cubex profiles: whether processes are repetitions (weak), those at work (weak-threaded), or parts
    /// of a sum (strong)
    #[arg(long, value_enum, default_value_t = ScalingName::Weak, value_name = "KIND")]
    scaling: ScalingName,

    /// Keep models and measurements in FILE: what is new is added, and only metrics that changed are fitted again
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,

    #[command(flatten)]
    watched: WatchedArgs,

    /// Predict at this point, e.g. p=4096,size=10; may be given several times
    #[arg(long, value_name = "POINT", help_heading = "Questions")]
    at: Vec<String>,
    /// How often the interval of a prediction holds the truth
    #[arg(long, value_name = "SHARE", default_value_t = 0.9, help_heading = "Questions")]
    confidence: f64,
    /// Order of the answers; growth and value are evaluated at the first --at, or at 16 times the largest sizes
    #[arg(long, value_enum, default_value_t = RankBy::Input, value_name = "ORDER", help_heading = "Questions")]
    rank_by: RankBy,
    /// Only call paths that contain TEXT
    #[arg(long, value_name = "TEXT", help_heading = "Questions")]
    callpath: Option<String>,
    /// Only metrics that contain TEXT
    #[arg(long, value_name = "TEXT", help_heading = "Questions")]
    metric: Option<String>,
    /// Say which point would be worth measuring next, and what it would cost
    #[arg(long, help_heading = "Questions")]
    advise: bool,

    /// Show mean and median of each point; with FILE.jsonl, write all measurements there as Extra-P reads them
    #[arg(long, value_name = "FILE.jsonl", num_args = 0..=1, help_heading = "Questions")]
    points: Option<Option<PathBuf>>,
    /// Print each model as FORMAT says: all, callpaths, metrics, parameters, functions, or a text with Extra-P's
    /// placeholders, e.g. '{callpath} {metric}: {model:python}'
    #[arg(long, value_name = "FORMAT", conflicts_with = "format", help_heading = "Questions")]
    print: Option<String>,

    /// How models are found: ours, or step by step what Extra-P 4.2 does
    #[arg(long, value_enum, default_value_t = MethodName::Auto, value_name = "NAME", help_heading = "Method")]
    method: MethodName,
    /// Which figure stands for repeated values
    #[arg(long, value_enum, default_value_t = MeasureName::Mean, value_name = "NAME", help_heading = "Method")]
    measure: MeasureName,
    /// With --method extrap: the search for models of one parameter
    #[arg(long, value_enum, default_value_t = SearchName::Basic, value_name = "NAME", help_heading = "Method")]
    modeler: SearchName,
    /// With --method extrap: an option under Extra-P's name, e.g. allow_negative_exponents=true; may be given several times
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Method")]
    option: Vec<String>,
    /// How many cores to use (all, if not given); the answer does not depend on it
    #[arg(long, value_name = "N", help_heading = "Method")]
    threads: Option<NonZeroUsize>,

    #[command(flatten)]
    output: DocumentArgs,
}

/// Runs that a daemon has seen.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Runs that `iotide serve` has seen")]
struct WatchedArgs {
    /// All runs of this job's application that have ended
    #[arg(long, value_name = "ID", conflicts_with_all = ["inputs", "from_traces", "input_format", "store"])]
    job: Option<String>,
    /// All runs of this application, by id or by program name
    #[arg(long, value_name = "APP", conflicts_with_all = ["inputs", "from_traces", "input_format", "store", "job"])]
    app: Option<String>,
    /// Only runs of the binary whose build id begins with these digits; `this` is that of the job, or of the latest run
    #[arg(long, value_name = "BUILD", requires = "watched")]
    build: Option<String>,
    /// Only the last N runs
    #[arg(long, value_name = "N", requires = "watched")]
    last: Option<NonZeroUsize>,
    /// Only runs started within this time before now, as in 30m, 12h, 7d
    #[arg(long, value_name = "TIME", requires = "watched", value_parser = iotide_report::quantity::parse_ago)]
    since: Option<f64>,
}

impl WatchedArgs {
    /// Returns the query to the daemon; `None` if neither a job nor an application is given.
    fn query(&self) -> Option<String> {
        let (name, value) = match (&self.job, &self.app) {
            (Some(job), _) => ("job", job),
            (None, Some(app)) => ("app", app),
            (None, None) => return None,
        };
        let mut query = format!("{name}={}", in_query(value));
        let mut also = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                query.push_str(&format!("&{name}={}", in_query(&value)));
            }
        };
        also("build", self.build.clone());
        also("last", self.last.map(|last| last.to_string()));
        also("since", self.since.map(|ago| format!("{:.3}", (now_unix_s() - ago).max(0.0))));
        Some(query)
    }
}

/// Asks the daemon for what runs have measured, and says what is not in it.
fn watched(ui: &mut Ui, query: &str) -> anyhow::Result<Measurements> {
    let about = ask(&format!("/api/1/models?models=0&{query}"))?;
    let about = WatchedRuns::from_json(&about).context("the daemon's answer cannot be read")?;
    let source = about.to_text();
    for note in &about.notes {
        ui.status(note.for_terminal());
    }
    if about.runs == 0 {
        return Err(anyhow::anyhow!("{source}: nothing has been measured")).hint(
            "a run counts once it has ended, and if all its counts are known; `iotide jobs` lists them",
        );
    }
    let lines = ask(&format!("/api/1/points?{query}"))?;
    Measurements::from_bytes(&source, &lines, Some(InputFormat::JsonLines)).map_err(advised)
}

const EXAMPLES: &str = "\
Examples:
  iotide model runs.jsonl --at p=4096                     every metric there, with its interval
  iotide model runs.jsonl --at p=4096 --rank-by growth    what will hurt there, the worst first
  iotide model runs.txt --metric time -o models.html      one page with pictures
  iotide model runs.csv --advise                          where to measure next
  iotide model --from-traces *.darshan --at p=4096        from logs of one program at several sizes
  iotide model --store app.models tonight.jsonl           add a night's runs, refit what changed
  iotide model scorep-runs/ --scaling strong              a folder of app.p4.r1/profile.cubex
  iotide model runs.csv -o runs.extra-p                   an experiment that Extra-P opens
  iotide model --job 4711 --at size=4096                  from runs that `iotide serve` saw
  iotide model --app lmp --build this --last 10           the ten last runs of the present binary
  iotide model runs.txt --method extrap                   as Extra-P does it";

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum RankBy {
    /// As in the input
    Input,
    /// Value there over the value at the largest sizes measured
    Growth,
    /// Value there
    Value,
}

impl From<RankBy> for iotide_api::RankBy {
    fn from(rank_by: RankBy) -> Self {
        match rank_by {
            RankBy::Input => Self::Input,
            RankBy::Growth => Self::Growth,
            RankBy::Value => Self::Value,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Groups {
    /// The operation, such as read or write
    Operation,
    /// The function, by its own name
    Function,
}

impl From<Groups> for FigureGroups {
    fn from(groups: Groups) -> Self {
        match groups {
            Groups::Operation => Self::Operation,
            Groups::Function => Self::Function,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ScalingName {
    /// The work grows with the processes: each is a repetition
    Weak,
    /// The same, and threads without a value have no say
    WeakThreaded,
    /// The work stays the same: the sum over processes counts
    Strong,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum MethodName {
    Auto,
    Extrap,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum MeasureName {
    Mean,
    Median,
    Minimum,
    Maximum,
}

impl From<MeasureName> for Measure {
    fn from(measure: MeasureName) -> Self {
        match measure {
            MeasureName::Mean => Self::Mean,
            MeasureName::Median => Self::Median,
            MeasureName::Minimum => Self::Minimum,
            MeasureName::Maximum => Self::Maximum,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum SearchName {
    Basic,
    Refining,
    Segmented,
}

pub(crate) fn run(ui: &mut Ui, args: &ModelArgs) -> anyhow::Result<ExitStatus> {
    if !(args.confidence > 0.0 && args.confidence < 1.0) {
        bail!("--confidence {} is no share between 0 and 1", args.confidence);
    }
    if args.advise && args.method == MethodName::Extrap {
        return Err(anyhow::anyhow!(
            "--advise asks which functions are still possible; --method extrap keeps one"
        ))
        .hint("leave --method out");
    }
    let questions = args.questions()?;
    let models = models(ui, args)?;
    let report = models.report(&questions).map_err(|error| match error {
        Error::Point { nth, fault } => anyhow::anyhow!("--at {}: {fault}", args.at[nth]),
        error => advised(error),
    })?;
    if models.n_chosen() == 0 {
        ui.status(format_args!(
            "{}: no call path and metric is as --callpath and --metric say",
            args.source()
        ));
    } else if args.advise && report.advice.is_empty() {
        ui.status("all functions that explain the points agree: no further point would tell them apart");
    }
    if let Some(Some(path)) = &args.points {
        write_points(ui, path, &models.to_json_lines())?;
    }
    if let Some(path) = args.output.file_ending_in(".extra-p") {
        keep(ui, path, &models.to_extra_p())?;
    } else if let Some(format) = &args.print {
        let text = report.print(format).with_context(|| format!("--print {format}"))?;
        args.output.deliver_text(ui, &text)?;
    } else {
        args.output.deliver(ui, &report)?;
    }
    Ok(if report.models.is_empty() { ExitStatus::NothingFound } else { ExitStatus::Done })
}

/// Fits what is new; with --store, joins it to what is known and keeps both.
fn models(ui: &mut Ui, args: &ModelArgs) -> anyhow::Result<Models> {
    let method = args.fit_method()?;
    let measured = match args.watched.query() {
        Some(query) => watched(ui, &query)?,
        None => {
            let measured = measurements(&args.inputs, &args.measured_in(), &mut |progress| match progress {
                Progress::LeftOut { name, why } => {
                    ui.error(&advised(why).context(format!("{name} is left out")))
                }
                progress => ui.progress_of(&progress),
            });
            Measurements { source: args.source(), ..measured.map_err(advised)? }
        }
    };
    let shown = args.store.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
    let store = match &args.store {
        None => Store::None,
        Some(path) => match std::fs::read(path) {
            Ok(bytes) => Store::Known { name: shown.clone(), bytes },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !args.inputs.is_empty() => {
                Store::New
            }
            Err(error) => return Err(error).with_context(|| format!("cannot read {shown}")),
        },
    };
    let n_given = measured.experiments.len();
    let options = FitOptions {
        measure: args.measure.into(),
        method,
        choice: Choice { callpath: args.callpath.clone(), metric: args.metric.clone() },
        store,
        threads: args.threads,
    };
    let models = fit(measured, &options).map_err(|error| match error {
        Error::ExtrapOption { .. } => anyhow::anyhow!("--option {error}"),
        Error::Parameters(_) if args.store.is_some() => {
            advised(error).context(format!("cannot add to {shown}"))
        }
        error => advised(error),
    })?;
    let Some(path) = &args.store else { return Ok(models) };
    if models.n_refitted > 0 {
        let n_refitted = models.n_refitted;
        ui.status(format_args!("{shown}: fitted another way before; {n_refitted} models were fitted again"));
    }
    if models.n_known > 0 {
        let n_known = models.n_known;
        ui.status(format_args!("{shown}: {n_known} of the {n_given} inputs are in it already"));
    }
    let bytes = models.to_store();
    if !matches!(&options.store, Store::Known { bytes: stored, .. } if *stored == bytes) {
        keep(ui, path, &bytes)?;
        let (n_changed, n_metrics) = (models.n_changed, models.n_metrics());
        ui.status(format_args!("{shown}: {n_changed} of {n_metrics} metrics fitted"));
    }
    Ok(models)
}

fn keep(ui: &mut Ui, path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = ui.out_stream(Some(path))?;
    out.write_all(bytes).map_err(|error| out.failed(error))?;
    out.finish()
}

/// Writes the pooled measurements. A file that is there already is no place for them: it may be an input that stands
/// behind `--points` by mistake.
fn write_points(ui: &mut Ui, path: &Path, lines: &str) -> anyhow::Result<()> {
    let shown = path.display();
    if path.exists() {
        return Err(anyhow::anyhow!("--points {shown}: the file exists already"))
            .hint("inputs stand before --points, or behind another option");
    }
    if path.extension().is_none_or(|end| end != "jsonl") {
        bail!("--points {shown}: JSON Lines are written, so the name should end in .jsonl");
    }
    ui.out_file(path, lines)
}

/// Conversions of the flags; nothing below this line depends on clap.
impl ModelArgs {
    /// Returns the name of the input.
    fn source(&self) -> String {
        match (self.inputs.as_slice(), &self.store) {
            ([], Some(store)) => store.display().to_string(),
            ([], None) => String::new(),
            ([one], _) => one.display().to_string(),
            ([first, rest @ ..], _) => format!("{} and {} more", first.display(), rest.len()),
        }
    }

    fn measured_in(&self) -> MeasuredIn {
        if self.from_traces {
            return MeasuredIn::Traces { parameters: self.parameters.clone(), by: self.by.into() };
        }
        let scaling = match self.scaling {
            ScalingName::Weak => Scaling::Weak,
            ScalingName::WeakThreaded => Scaling::WeakThreaded,
            ScalingName::Strong => Scaling::Strong,
        };
        MeasuredIn::Files { form: self.input_format, scaling }
    }

    fn fit_method(&self) -> anyhow::Result<FitMethod> {
        let search = match self.modeler {
            SearchName::Basic => Search::Basic,
            SearchName::Refining => Search::Refining,
            SearchName::Segmented => Search::Segmented,
        };
        match self.method {
            MethodName::Auto if !self.option.is_empty() || search != Search::Basic => {
                bail!("--modeler and --option belong to --method extrap")
            }
            MethodName::Auto => Ok(FitMethod::Auto),
            MethodName::Extrap => {
                let pair = |option: &String| {
                    let pair = option.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
                    pair.with_context(|| format!("--option {option}: not KEY=VALUE"))
                };
                let options = self.option.iter().map(pair).collect::<anyhow::Result<_>>()?;
                Ok(FitMethod::Extrap { search, options })
            }
        }
    }

    fn questions(&self) -> anyhow::Result<ModelQuestions> {
        Ok(ModelQuestions {
            at: self.at.iter().map(|text| point(text)).collect::<anyhow::Result<_>>()?,
            confidence: self.confidence,
            rank_by: self.rank_by.into(),
            advise: self.advise,
            draws: self.output.wants_pictures(),
            points: self.points.is_some() || self.print.is_some(),
        })
    }
}

/// A point as typed: p=4096,size=10.
pub(super) fn point(text: &str) -> anyhow::Result<Vec<(String, f64)>> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let pair = |part: &str| {
        let (name, value) =
            part.split_once('=').with_context(|| format!("--at {text}: {part:?} is not NAME=NUMBER"))?;
        let value: f64 =
            value.trim().parse().with_context(|| format!("--at {text}: {value:?} is no number"))?;
        Ok((name.trim().to_owned(), value))
    };
    parts.map(pair).collect()
}

fn input_format(name: &str) -> Result<InputFormat, String> {
    InputFormat::ALL.into_iter().find(|format| format.name() == name).ok_or_else(|| {
        let known: Vec<&str> = InputFormat::ALL.iter().map(|format| format.name()).collect();
        format!("only {} are known", known.join(", "))
    })
}
