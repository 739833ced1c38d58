//! `cargo xtask accuracy signature`: the table of `docs/signature.md`.

use std::path::Path;

use iotide_analysis::{Sample, Signature, SignatureConfig, SignatureMethod, extract};
use iotide_num::{largest_cross_correlation, rebin};

use super::signature_paper;
use crate::readers::shared_data;
use crate::synthetic::server_log::{APPLICATIONS, Case, NOISES, Truth, make};

/// Options of the command line.
struct Options {
    seed: u64,
    repeat: usize,
    n_samples: usize,
    shared: bool,
    verbose: bool,
    paper: bool,
}

/// Usage of `run`.
pub const HELP: &str =
    "accuracy signature [--seed N] [--repeat N] [--samples N] [--shared] [--verbose] [--paper]
    how much the signatures resemble the truth on made server logs, all methods beside each other;
    with --shared also on the logs in shared/data/signature, if they lie beside the repository;
    with --paper the comparisons of the IOSI paper: preprocessing, wavelet levels, gamma and kappa, volumes";

/// Runs the command; see `HELP`.
pub fn run(args: &[String]) -> Result<(), String> {
    let mut options =
        Options { seed: 1, repeat: 30, n_samples: 8, shared: false, verbose: false, paper: false };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--seed" => options.seed = value()?.parse().map_err(|e| format!("--seed: {e}"))?,
            "--repeat" => options.repeat = value()?.parse().map_err(|e| format!("--repeat: {e}"))?,
            "--samples" => options.n_samples = value()?.parse().map_err(|e| format!("--samples: {e}"))?,
            "--shared" => options.shared = true,
            "--verbose" => options.verbose = true,
            "--paper" => options.paper = true,
            other => return Err(format!("{other}?\n{HELP}")),
        }
    }
    if options.paper {
        signature_paper::run(options.seed, options.repeat, options.n_samples);
        return Ok(());
    }
    let mut cases = Vec::new();
    for noise in &NOISES {
        for application in &APPLICATIONS {
            for i in 0..options.repeat {
                let seed = options.seed.wrapping_mul(1_000_003).wrapping_add(i as u64);
                cases.push(make(application, noise, options.n_samples, seed));
            }
        }
    }
    println!("made logs, {} seeds, {} samples each", options.repeat, options.n_samples);
    tabulate(&cases, options.verbose, true);
    if options.shared {
        let truth = shared_data("signature/truth.json");
        let folder = truth.as_deref().and_then(Path::parent);
        let folder = folder.ok_or("there is no shared/data/signature above the repository")?;
        let cases = read_cases(folder)?;
        println!("\n{} cases of {}", cases.len(), folder.display());
        tabulate(&cases, options.verbose, false);
    }
    Ok(())
}

const METHODS: [(&str, SignatureMethod); 4] = [
    ("consensus", SignatureMethod::Consensus),
    ("iosi", SignatureMethod::Iosi),
    ("dtw, pairwise", SignatureMethod::DtwPairwise),
    ("dtw, barycentre", SignatureMethod::DtwBarycentre),
];

/// Results of a prototype in Python on logs of the same kind: cross correlation, correlation, missed, false; no figure
/// where none was published.
const PROTOTYPE: [(&str, &str, [&str; 3]); 6] = [
    ("consensus", "moderate", [".98/.92/0/.1", ".95/.89/0/0", ".97/.88/0/0"]),
    ("iosi", "moderate", [".93/.90/.2/.7", ".89/.85/1.0/.3", ".89/.79/.9/.1"]),
    ("dtw, pairwise", "moderate", [".81/.68/.1/7.3", ".55/.32/2.4/7.0", ".54/.34/2.5/7.7"]),
    ("dtw, barycentre", "moderate", [".94/.89/0/5.1", ".89/.83/.1/4.6", ".90/.77/.2/3.4"]),
    ("consensus", "heavy", [".88/.70/.2/2.5", ".85/.63/.4/1.0", ".82/.55/.6/1.3"]),
    ("iosi", "heavy", [".81/.62", ".72/.45", ".69/.40"]),
];

fn tabulate(cases: &[Case], verbose: bool, with_prototype: bool) {
    println!(
        "\n{:9} {:16} {:6} {:>6} {:>6} {:>7} {:>7} {:>6} {:>6} {:>6} {:>6} {:>6}  prototype",
        "noise", "method", "", "cross", "corr", "volume", "missed", "false", "conf", "period", "late", "long"
    );
    for noise in &NOISES {
        for (name, method) in METHODS {
            let mut all = Vec::new();
            for (i, application) in APPLICATIONS.iter().enumerate() {
                let scores: Vec<Score> = cases
                    .iter()
                    .filter(|case| case.noise == noise.name && case.application == application.name)
                    .filter_map(|case| {
                        let score = judge(case, method)?;
                        if verbose && method == SignatureMethod::Consensus {
                            println!("{:28} {}", case.name, score.line());
                        }
                        Some(score)
                    })
                    .collect();
                let prototype = PROTOTYPE.iter().find(|(m, n, _)| *m == name && *n == noise.name);
                let beside = prototype.filter(|_| with_prototype).map_or("", |(_, _, figures)| figures[i]);
                println!(
                    "{:9} {name:16} {:6} {}  {beside}",
                    noise.name,
                    application.name,
                    Score::mean(&scores).line()
                );
                all.extend(scores);
            }
            println!("{:9} {name:16} {:6} {}", noise.name, "all", Score::mean(&all).line());
        }
    }
}

/// How much a signature resembles the truth.
#[derive(Clone, Copy, Debug, Default)]
pub struct Score {
    /// The largest over all lags of `Σ ab / √(Σ a² Σ b²)`.
    pub cross_correlation: f64,
    /// The correlation coefficient, with silence after the end of the shorter one.
    pub correlation: f64,
    /// The signature's volume over the truth's.
    pub volume: f64,
    /// Bursts of the truth that no burst of the signature touches.
    pub missed: f64,
    /// Bursts of the signature that touch none of the truth's.
    pub false_bursts: f64,
    pub confidence: f64,
    /// Whether a period was found.
    pub periodic: f64,
    /// How much too late its bursts begin on average, in seconds, if it has as many as the truth.
    pub late_s: f64,
    /// How much too long its bursts are on average, in seconds, if it has as many as the truth.
    pub long_s: f64,
}

impl Score {
    /// The mean of each figure.
    pub fn mean(scores: &[Self]) -> Self {
        let n = scores.len().max(1) as f64;
        let mean = |figure: fn(&Self) -> f64| scores.iter().map(figure).sum::<f64>() / n;
        Self {
            cross_correlation: mean(|score| score.cross_correlation),
            correlation: mean(|score| score.correlation),
            volume: mean(|score| score.volume),
            missed: mean(|score| score.missed),
            false_bursts: mean(|score| score.false_bursts),
            confidence: mean(|score| score.confidence),
            periodic: mean(|score| score.periodic),
            late_s: mean(|score| score.late_s),
            long_s: mean(|score| score.long_s),
        }
    }

    /// As a line of the table.
    pub fn line(&self) -> String {
        format!(
            "{:>6.3} {:>6.3} {:>7.3} {:>7.2} {:>6.2} {:>6.2} {:>6.2} {:>6.2} {:>6.2}",
            self.cross_correlation,
            self.correlation,
            self.volume,
            self.missed,
            self.false_bursts,
            self.confidence,
            self.periodic,
            self.late_s,
            self.long_s
        )
    }
}

fn judge(case: &Case, method: SignatureMethod) -> Option<Score> {
    let config = SignatureConfig { method, ..SignatureConfig::default() };
    let signature = extract(&case.samples, &config).ok()?;
    Some(score(&signature, &case.truth))
}

/// Compares a signature with the truth, on the truth's grid.
pub fn score(signature: &Signature, truth: &Truth) -> Score {
    let mut found = rebin(&signature.bandwidth_bps, truth.interval_s / signature.interval_s);
    let mut alone = truth.bandwidth_bps.clone();
    let n = found.len().max(alone.len());
    found.resize(n, 0.0);
    alone.resize(n, 0.0);
    let touches = |a: (f64, f64), b: (f64, f64)| a.0 < b.1 && b.0 < a.1;
    let bursts: Vec<(f64, f64)> = signature.bursts.iter().map(|burst| (burst.start_s, burst.end_s)).collect();
    let untouched = |of: &[(f64, f64)], by: &[(f64, f64)]| {
        of.iter().filter(|a| !by.iter().any(|b| touches(**a, *b))).count() as f64
    };
    let (late_s, long_s) = if bursts.len() == truth.bursts.len() && !bursts.is_empty() {
        let pairs = || bursts.iter().zip(&truth.bursts);
        let n = bursts.len() as f64;
        let late_s = pairs().map(|(a, b)| a.0 - b.0).sum::<f64>() / n;
        (late_s, pairs().map(|(a, b)| (a.1 - a.0) - (b.1 - b.0)).sum::<f64>() / n)
    } else {
        (0.0, 0.0)
    };
    Score {
        late_s,
        long_s,
        cross_correlation: largest_cross_correlation(&alone, &found).map_or(0.0, |(_, value)| value),
        correlation: correlation(&alone, &found),
        volume: found.iter().sum::<f64>() / alone.iter().sum::<f64>(),
        missed: untouched(&truth.bursts, &bursts),
        false_bursts: untouched(&bursts, &truth.bursts),
        confidence: signature.confidence,
        periodic: f64::from(signature.period.period_s.is_some()),
    }
}

fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let centred = |x: &[f64]| {
        let mean = x.iter().sum::<f64>() / x.len().max(1) as f64;
        x.iter().map(|value| value - mean).collect::<Vec<f64>>()
    };
    let (a, b) = (centred(a), centred(b));
    let product = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    let scale = (product(&a, &a) * product(&b, &b)).sqrt();
    if scale > 0.0 { product(&a, &b) / scale } else { 0.0 }
}

/// Reads a folder of cases: `truth.json`, and for each case a folder of tables `time,bandwidth`.
pub fn read_cases(folder: &Path) -> Result<Vec<Case>, String> {
    let read = |path: &Path| {
        std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
    };
    let text = read(&folder.join("truth.json"))?;
    let truths: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| format!("truth.json: {error}"))?;
    let truths = truths.as_object().ok_or("truth.json is not an object")?;
    let number = |value: &serde_json::Value| value.as_f64().unwrap_or(f64::NAN);
    let mut cases = Vec::new();
    for (name, truth) in truths {
        let (application, rest) = name.split_once('-').ok_or_else(|| format!("{name} names no noise"))?;
        let noise = rest.split('-').next().unwrap_or(rest);
        let numbers = |value: &serde_json::Value| {
            value.as_array().map_or(Vec::new(), |x| x.iter().map(number).collect())
        };
        let bursts = truth["bursts"].as_array().map_or(&[][..], Vec::as_slice);
        let mut samples = Vec::new();
        for i in 0.. {
            let path = folder.join(name).join(format!("s{i}.csv"));
            if !path.exists() {
                break;
            }
            let rows: Vec<(f64, f64)> = read(&path)?
                .lines()
                .skip(1)
                .filter_map(|line| line.split_once(','))
                .filter_map(|(time, value)| Some((time.parse().ok()?, value.parse().ok()?)))
                .collect();
            let interval_s = if rows.len() > 1 { rows[1].0 - rows[0].0 } else { 1.0 };
            samples.push(Sample::whole(format!("s{i}"), interval_s, rows.iter().map(|row| row.1).collect()));
        }
        cases.push(Case {
            name: name.clone(),
            application: application.to_owned(),
            noise: noise.to_owned(),
            samples,
            truth: Truth {
                interval_s: number(&truth["interval_s"]),
                bandwidth_bps: numbers(&truth["bandwidth_bps"]),
                bursts: bursts.iter().map(|b| (number(&b["start_s"]), number(&b["end_s"]))).collect(),
            },
        });
    }
    Ok(cases)
}
