//! `iotide model`: how each metric scales.

use std::io::{Read, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use iotide_report::{ModelFailure, ScalingReport};
use iotide_scaling::{
    Experiment, FitConfig, FitError, InputFormat, Measure, Method, Model, ModelSet, Prediction, Search,
    Series, advise, read,
};

use super::document::DocumentArgs;
use crate::ExitStatus;
use crate::ui::{Hint, Ui};

mod cube;
mod extrap;
mod from_traces;

/// Find how each metric scales with the parameters, and predict it elsewhere
///
/// Reads measurements at several sizes (Extra-P text, JSON, JSON Lines, Talpas, .extra-p, files of Extra-P 3, folders of
/// Score-P profiles, or CSV), finds for each call
/// path and metric a function like 1.5 + 0.2 * p^(1/2) * log2(p)^(1), with intervals of confidence. A value, a line or a point
/// that cannot be used costs that value, line or point, never the file.
///
/// With --from-traces it measures for itself: bytes, operations, time in I/O and computing, bandwidth, and the period of
/// the I/O phases, of one program's traces at several sizes.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ModelArgs {
    /// Measurements, or traces with --from-traces; `-` is stdin
    #[arg(value_name = "MEASUREMENTS", required_unless_present = "store")]
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Groups {
    /// What calls do
    Operation,
    /// The function, by its own name
    Function,
}

impl From<Groups> for iotide_analysis::FigureGroups {
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
    let threads =
        args.threads.or_else(|| std::thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
    let (format, experiments) = measurements(ui, args)?;
    let notes: Vec<String> =
        experiments.iter().flat_map(|experiment| &experiment.notes).map(ToString::to_string).collect();
    let set = models(ui, args, experiments, threads)?;
    let points = points_asked(args, set.parameters())?;
    let mut report = ScalingReport::new(&source(args), format, method_name(args.method), set.parameters());
    report.draws = args.output.wants_pictures();
    report.keeps_points = args.points.is_some() || args.print.is_some();
    report.notes = notes;

    let chosen: Vec<(&Series, &Result<Model, FitError>)> =
        set.iter().filter(|(series, _)| is_chosen(args, series)).collect();
    if chosen.is_empty() {
        ui.status(format_args!(
            "{}: no call path and metric is as --callpath and --metric say",
            source(args)
        ));
    }
    for (series, model) in &chosen {
        match model {
            Ok(model) => {
                let far = model.ranges.iter().map(|range| 16.0 * range.maximum).collect();
                let default = (args.rank_by != RankBy::Input && points.is_empty()).then_some(far);
                let asked = points.iter().chain(&default);
                let predictions: Vec<Prediction> =
                    asked.map(|at| model.predict(at, args.confidence)).collect();
                report.add(series, model, &predictions, args.confidence);
            }
            Err(error) => report.failures.push(ModelFailure {
                callpath: series.callpath.clone(),
                metric: series.metric.clone(),
                error: error.to_string(),
            }),
        }
    }
    match args.rank_by {
        RankBy::Input => {}
        RankBy::Growth => report.rank_by_growth(),
        RankBy::Value => report.rank_by_value(),
    }
    if args.advise {
        add_advice(&mut report, &chosen);
        if report.advice.is_empty() && !chosen.is_empty() {
            ui.status("all functions that explain the points agree: no further point would tell them apart");
        }
    }
    let measured = || chosen.iter().map(|(series, _)| *series);
    if let Some(Some(path)) = &args.points {
        write_points(ui, path, &iotide_scaling::to_json_lines(set.parameters(), measured()))?;
    }
    if let Some(path) = args.output.file_ending_in(".extra-p") {
        let experiment = iotide_scaling::to_extra_p(set.parameters(), measured());
        let mut out = ui.out_stream(Some(path))?;
        out.write_all(&experiment).map_err(|error| out.failed(error))?;
        out.finish()?;
    } else if let Some(format) = &args.print {
        let text = report.print(format).with_context(|| format!("--print {format}"))?;
        args.output.deliver_text(ui, &text)?;
    } else {
        args.output.deliver(ui, &report)?;
    }
    Ok(if report.models.is_empty() { ExitStatus::NothingFound } else { ExitStatus::Done })
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

fn is_chosen(args: &ModelArgs, series: &Series) -> bool {
    let contains =
        |name: &str, part: &Option<String>| part.as_ref().is_none_or(|part| name.contains(part.as_str()));
    contains(&series.callpath, &args.callpath) && contains(&series.metric, &args.metric)
}

/// What to call the input.
fn source(args: &ModelArgs) -> String {
    match (args.inputs.as_slice(), &args.store) {
        ([], Some(store)) => store.display().to_string(),
        ([], None) => String::new(),
        ([one], _) => one.display().to_string(),
        ([first, rest @ ..], _) => format!("{} and {} more", first.display(), rest.len()),
    }
}

/// The measurements, input by input, and the name of their form.
fn measurements(ui: &mut Ui, args: &ModelArgs) -> anyhow::Result<(&'static str, Vec<Experiment>)> {
    if args.inputs.is_empty() {
        return Ok(("models", Vec::new()));
    }
    if args.from_traces {
        let experiment = from_traces::measure(ui, &args.inputs, args.parameters.as_deref(), args.by.into())?;
        return Ok(("traces", vec![experiment]));
    }
    let mut name = None;
    let mut experiments = Vec::with_capacity(args.inputs.len());
    let (profiles, files): (Vec<&PathBuf>, Vec<&PathBuf>) =
        args.inputs.iter().partition(|input| cube::is_profile(input));
    if !profiles.is_empty() {
        experiments.push(cube::read(&profiles, args.scaling)?);
        name = Some("cubex");
    }
    for input in files {
        let (format, experiment) = read_measurements(input, args.input_format)?;
        name.get_or_insert(format.name());
        experiments.push(experiment);
    }
    Ok((name.unwrap_or_default(), experiments))
}

fn read_measurements(input: &Path, format: Option<InputFormat>) -> anyhow::Result<(InputFormat, Experiment)> {
    let name = input.display();
    let mut bytes = Vec::new();
    if input == Path::new("-") {
        std::io::stdin().lock().read_to_end(&mut bytes).context("cannot read stdin")?;
    } else {
        bytes = std::fs::read(input).with_context(|| format!("cannot read {name}"))?;
    }
    read(&bytes, format).with_context(|| format!("cannot read {name}")).hint(
        "measurements may be Extra-P text, JSON, JSON Lines, Talpas, .extra-p, .cubex or CSV; see docs/scaling.md. Traces are \
         measured with --from-traces",
    )
}

/// Fits what is new; with --store, joins it to what is known and keeps both.
fn models(
    ui: &mut Ui,
    args: &ModelArgs,
    mut experiments: Vec<Experiment>,
    threads: NonZeroUsize,
) -> anyhow::Result<ModelSet> {
    let Some(path) = &args.store else {
        // Nothing is kept, so nothing need be fitted that is not asked for.
        experiments
            .iter_mut()
            .for_each(|experiment| experiment.series.retain(|series| is_chosen(args, series)));
        let parameters = experiments.first().map_or_else(Vec::new, |first| first.parameters.clone());
        let config = config(args, parameters.len())?;
        let mut set = ModelSet::for_one_question(parameters, config);
        set.absorb(experiments, threads)?;
        return Ok(set);
    };
    let shown = path.display();
    let stored = match std::fs::read(path) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !experiments.is_empty() => None,
        Err(error) => return Err(error).with_context(|| format!("cannot read {shown}")),
    };
    let mut set = match &stored {
        Some(bytes) => {
            let n_parameters =
                ModelSet::parameters_in(bytes).with_context(|| format!("cannot read {shown}"))?;
            let (set, n_refitted) = ModelSet::from_bytes(bytes, config(args, n_parameters)?, threads)
                .with_context(|| format!("cannot read {shown}"))?;
            if n_refitted > 0 {
                ui.status(format_args!(
                    "{shown}: fitted another way before; {n_refitted} models were fitted again"
                ));
            }
            set
        }
        None => {
            let parameters = experiments.first().map_or_else(Vec::new, |first| first.parameters.clone());
            let config = config(args, parameters.len())?;
            ModelSet::new(parameters, config)
        }
    };
    let n_given = experiments.len();
    experiments.retain(|experiment| !set.has_absorbed(experiment));
    if experiments.len() < n_given {
        let n_known = n_given - experiments.len();
        ui.status(format_args!("{shown}: {n_known} of the {n_given} inputs are in it already"));
    }
    let n_changed = set.absorb(experiments, threads).with_context(|| format!("cannot add to {shown}"))?.len();
    let bytes = set.to_bytes();
    if stored.as_ref() != Some(&bytes) {
        let mut out = ui.out_stream(Some(path))?;
        out.write_all(&bytes).map_err(|error| out.failed(error))?;
        out.finish()?;
        ui.status(format_args!("{shown}: {n_changed} of {} metrics fitted", set.iter().count()));
    }
    Ok(set)
}

fn points_asked(args: &ModelArgs, parameters: &[String]) -> anyhow::Result<Vec<Vec<f64>>> {
    let known = parameters.join(", ");
    args.at
        .iter()
        .map(|text| {
            let mut at = vec![f64::NAN; parameters.len()];
            for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
                let (name, value) = part
                    .split_once('=')
                    .with_context(|| format!("--at {text}: {part:?} is not NAME=NUMBER"))?;
                let parameter = parameters.iter().position(|parameter| parameter == name.trim());
                let parameter = parameter
                    .with_context(|| format!("--at {text}: there is no parameter {name:?}, only {known}"))?;
                let value: f64 =
                    value.trim().parse().with_context(|| format!("--at {text}: {value:?} is no number"))?;
                if !value.is_finite() {
                    bail!("--at {text}: {value} is no number");
                }
                if !at[parameter].is_nan() {
                    bail!("--at {text}: {} is there twice", parameters[parameter]);
                }
                at[parameter] = value;
            }
            match at.iter().position(|x| x.is_nan()) {
                Some(missing) => {
                    bail!("--at {text}: the parameter {} is missing", parameters[missing])
                }
                None => Ok(at),
            }
        })
        .collect()
}

fn config(args: &ModelArgs, n_parameters: usize) -> anyhow::Result<FitConfig> {
    let measure = match args.measure {
        MeasureName::Mean => Measure::Mean,
        MeasureName::Median => Measure::Median,
        MeasureName::Minimum => Measure::Minimum,
        MeasureName::Maximum => Measure::Maximum,
    };
    let method = match args.method {
        MethodName::Auto if !args.option.is_empty() || args.modeler != SearchName::Basic => {
            bail!("--modeler and --option belong to --method extrap")
        }
        MethodName::Auto => Method::Auto,
        MethodName::Extrap => {
            let search = match args.modeler {
                SearchName::Basic => Search::Basic,
                SearchName::Refining => Search::Refining,
                SearchName::Segmented => Search::Segmented,
            };
            Method::Extrap(extrap::config(search, &args.option, n_parameters)?)
        }
    };
    Ok(FitConfig { measure, method })
}

/// What a run costs is its time on all its processes, where both are known; otherwise its size.
fn add_advice(report: &mut ScalingReport, chosen: &[(&Series, &Result<Model, FitError>)]) {
    let fitted: Vec<&Model> = chosen.iter().filter_map(|(_, model)| model.as_ref().ok()).collect();
    let mut measured: Vec<Vec<f64>> = Vec::new();
    for measurement in chosen.iter().flat_map(|(series, _)| &series.measurements) {
        if !measured.contains(&measurement.coordinate) {
            measured.push(measurement.coordinate.clone());
        }
    }
    let timed = chosen
        .iter()
        .filter(|(series, _)| series.metric.to_lowercase().contains("time"))
        .filter_map(|(_, model)| model.as_ref().ok())
        .max_by(|a, b| a.function.at(&top(a)).total_cmp(&b.function.at(&top(b))));
    let advice = match timed {
        Some(time) => {
            advise(&fitted, &measured, |at| at.first().copied().unwrap_or(1.0) * time.function.at(at))
        }
        None => advise(&fitted, &measured, |at| at.iter().product()),
    };
    let first = report.parameters.first().cloned().unwrap_or_default();
    let unit = if timed.is_some() {
        format!("time × {first}")
    } else {
        format!("= {}", report.parameters.join(" × "))
    };
    advice.iter().take(5).for_each(|advice| report.advise(advice, &unit));
}

fn top(model: &Model) -> Vec<f64> {
    model.ranges.iter().map(|range| range.maximum).collect()
}

fn input_format(name: &str) -> Result<InputFormat, String> {
    InputFormat::ALL.into_iter().find(|format| format.name() == name).ok_or_else(|| {
        let known: Vec<&str> = InputFormat::ALL.iter().map(|format| format.name()).collect();
        format!("only {} are known", known.join(", "))
    })
}

fn method_name(method: MethodName) -> &'static str {
    match method {
        MethodName::Auto => "auto",
        MethodName::Extrap => "extrap",
    }
}
