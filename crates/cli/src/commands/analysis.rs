//! How a run is looked at: the flags, and what they mean.

use iotide_analysis::{DftConfig, Harmonics, Method, OutlierDetector, PeriodConfig, RunConfig, StatedRun};
use iotide_trace::{Direction, SamplingKind};

use super::ioskel::parse_size;
use crate::ui::Hint;

/// How to look at a run.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Analysis")]
pub(crate) struct AnalysisArgs {
    /// `auto` weighs evidence from time and frequency; `dft` is the method of the FTIO paper
    #[arg(long, value_enum, default_value_t = MethodArg::Auto)]
    method: MethodArg,
    /// Which bytes count; `auto` looks where more are moved
    #[arg(long, value_enum, default_value_t = ModeArg::Auto)]
    mode: ModeArg,
    /// Look only at this part of the trace, in seconds of its own clock; either side may be left empty
    #[arg(long, value_name = "START:END", value_parser = window, allow_hyphen_values = true)]
    window: Option<Window>,
    /// Begin at the second phase
    #[arg(long)]
    skip_first_phase: bool,
    /// Samples per second; `auto` shows the finest steps, as far as memory goes [default: `auto`; with `dft` one
    /// sample a bin for heatmaps and the like, else FTIO's 10 Hz]
    #[arg(long, value_name = "HZ|auto", value_parser = rate)]
    freq: Option<Rate>,
    /// A sample is the mean over its bin, or the value at its instant [default: `hold` with `dft`, as the paper
    /// has it, else `mean`]
    #[arg(long, value_enum)]
    sampling: Option<SamplingArg>,
    /// Show the N strongest waves and how well they draw the signal [default: 3 with `dft`, else 0]
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// I/O above this bandwidth is substantial, for example 200MB (a second) [default: the mean bandwidth]
    #[arg(long, value_name = "BANDWIDTH", value_parser = bandwidth)]
    substantial: Option<f64>,
    /// `dft`: share of the best score at which a frequency becomes a candidate [default: 0.8]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    tolerance: Option<f64>,
    /// `dft`: what tells an outlying frequency from the rest; of several, separated by commas, all must agree
    /// [default: zscore]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "METHOD,…")]
    outliers: Vec<OutliersArg>,
    /// `dft`: which multiples of a candidate are dropped as its harmonics: `all`, or `two` for even ones only, as the
    /// paper has it [default: all]
    #[arg(long, value_enum)]
    harmonics: Option<HarmonicsArg>,
    /// `dft`: cut the window at the first and last change of bandwidth, and trust the samples whatever their error, as
    /// FTIO 0.0.9 does
    #[arg(long)]
    as_ftio: bool,
    /// `dft`: seed of `--outliers forest` [default: 0]
    #[arg(long)]
    seed: Option<u64>,
}

impl AnalysisArgs {
    /// Converts the flags to settings; nothing below this line depends on clap.
    pub(crate) fn config(&self) -> RunConfig {
        let method = match self.method {
            MethodArg::Auto => Method::Auto,
            MethodArg::Dft => Method::Dft,
        };
        let Window { from_s, until_s } = self.window.unwrap_or_default();
        RunConfig {
            period: PeriodConfig {
                method,
                dft: DftConfig {
                    tolerance: self.tolerance.unwrap_or(DftConfig::default().tolerance),
                    detectors: self.detectors(),
                    harmonics: match self.harmonics {
                        Some(HarmonicsArg::All) | None => Harmonics::All,
                        Some(HarmonicsArg::Two) => Harmonics::Two,
                    },
                    n_top: self.top.unwrap_or(if method == Method::Dft { 3 } else { 0 }),
                    substantial_bps: self.substantial,
                    automatic_rate: self.freq.is_some_and(|rate| rate.0.is_none()),
                    as_ftio: self.as_ftio,
                },
            },
            direction: match self.mode {
                ModeArg::Auto => None,
                ModeArg::Read => Some(Direction::Read),
                ModeArg::Write => Some(Direction::Write),
                ModeArg::Both => Some(Direction::Both),
            },
            rate_hz: self.freq.and_then(|rate| rate.0),
            sampling: match (self.sampling, method) {
                (Some(SamplingArg::Mean), _) | (None, Method::Auto) => SamplingKind::Mean,
                (Some(SamplingArg::Hold), _) | (None, Method::Dft) => SamplingKind::Hold,
            },
            from_s,
            until_s,
            skip_first_phase: self.skip_first_phase,
            stated: StatedRun::default(),
        }
    }

    fn detectors(&self) -> Vec<OutlierDetector> {
        if self.outliers.is_empty() {
            return DftConfig::default().detectors;
        }
        let detector = |outliers: &OutliersArg| match outliers {
            OutliersArg::Zscore => OutlierDetector::ZScore,
            OutliersArg::Dbscan => OutlierDetector::Dbscan,
            OutliersArg::Forest => OutlierDetector::IsolationForest { seed: self.seed.unwrap_or(0) },
            OutliersArg::Lof => OutlierDetector::LocalOutlierFactor,
            OutliersArg::Peaks => OutlierDetector::Peaks,
        };
        self.outliers.iter().map(detector).collect()
    }

    /// The options that only `--method dft` has, each with whether it was given.
    fn of_dft(&self) -> [(&'static str, bool); 5] {
        [
            ("--tolerance", self.tolerance.is_some()),
            ("--outliers", !self.outliers.is_empty()),
            ("--harmonics", self.harmonics.is_some()),
            ("--as-ftio", self.as_ftio),
            ("--seed", self.seed.is_some()),
        ]
    }

    /// The options that were given and that only `--method dft` has, if that is not the method.
    pub(crate) fn unused(&self) -> Option<String> {
        let given: Vec<&str> =
            self.of_dft().iter().filter(|(_, is_given)| *is_given).map(|(name, _)| *name).collect();
        let is_auto = matches!(self.method, MethodArg::Auto);
        (is_auto && !given.is_empty())
            .then(|| format!("{}: of `--method dft` only, not used here", given.join(", ")))
    }

    /// Refuses what a prediction while the job runs has no use for, rather than ignore it.
    pub(crate) fn check_online(&self) -> anyhow::Result<()> {
        let of_both = [("--skip-first-phase", self.skip_first_phase), ("--top", self.top.is_some())];
        let of_dft_online = [
            ("--window", self.window.is_some()),
            ("--freq", self.freq.is_some()),
            ("--sampling", self.sampling.is_some()),
            ("--substantial", self.substantial.is_some()),
        ];
        let name_of = |(name, is_given): &(&'static str, bool)| is_given.then_some(*name);
        if let Some(name) = of_both.iter().find_map(name_of) {
            anyhow::bail!("{name} has no meaning while a job runs");
        }
        match of_dft_online.iter().chain(&self.of_dft()).find_map(name_of) {
            Some(name) if matches!(self.method, MethodArg::Auto) => {
                Err(anyhow::anyhow!("--method auto takes no {name} while a job runs"))
                    .hint("`--method dft` does; `--adapt` says which part of the past counts")
            }
            _ => Ok(()),
        }
    }
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum MethodArg {
    Auto,
    Dft,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum ModeArg {
    Auto,
    Read,
    Write,
    Both,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum SamplingArg {
    Mean,
    Hold,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum OutliersArg {
    Zscore,
    Dbscan,
    Forest,
    Lof,
    Peaks,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum HarmonicsArg {
    All,
    Two,
}

/// A sampling rate; `None` chooses.
#[derive(Clone, Copy, Debug)]
struct Rate(Option<f64>);

fn rate(text: &str) -> Result<Rate, String> {
    if text == "auto" {
        return Ok(Rate(None));
    }
    match text.parse::<f64>() {
        Ok(hz) if hz.is_finite() && hz > 0.0 => Ok(Rate(Some(hz))),
        _ => Err("a rate is a positive number of samples per second, or `auto`".to_owned()),
    }
}

/// A part of a trace, open where nothing is said.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    from_s: Option<f64>,
    until_s: Option<f64>,
}

fn window(text: &str) -> Result<Window, String> {
    let moment = |side: &str| match side {
        "" => Ok(None),
        side => match side.parse::<f64>() {
            Ok(secs) if secs.is_finite() => Ok(Some(secs)),
            _ => Err(format!("`{side}` is not a number of seconds")),
        },
    };
    let (from, until) = text.split_once(':').ok_or("a window is START:END, for example 10:60 or 10:")?;
    let window = Window { from_s: moment(from)?, until_s: moment(until)? };
    match window {
        Window { from_s: Some(from_s), until_s: Some(until_s) } if from_s >= until_s => {
            Err("the window ends before it begins".to_owned())
        }
        window => Ok(window),
    }
}

fn bandwidth(text: &str) -> Result<f64, String> {
    let text = text.trim();
    parse_size(text.strip_suffix("/s").unwrap_or(text)).map(|bytes| bytes as f64)
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("a share is a number from 0 to 1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_side_of_a_window_may_be_open() {
        let sides = |text| window(text).map(|window| (window.from_s, window.until_s));
        assert_eq!(sides("10:60"), Ok((Some(10.0), Some(60.0))));
        assert_eq!(sides(":60"), Ok((None, Some(60.0))));
        assert_eq!(sides("-2.5:"), Ok((Some(-2.5), None)));
        assert_eq!(sides(":"), Ok((None, None)));
        for wrong in ["", "10", "a:b", "60:10", "5:5", "nan:", "1:2:3"] {
            assert!(sides(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_bandwidth_is_a_size_a_second() {
        assert_eq!(bandwidth("200MB"), Ok(2e8));
        assert_eq!(bandwidth("1 GiB/s"), Ok(1_073_741_824.0));
        assert!(bandwidth("fast").is_err() && bandwidth("0").is_err());
    }

    #[test]
    fn a_rate_is_positive_or_chosen() {
        assert_eq!(rate("auto").map(|rate| rate.0), Ok(None));
        assert_eq!(rate("0.5").map(|rate| rate.0), Ok(Some(0.5)));
        for wrong in ["0", "-1", "inf", "nan", "10Hz", ""] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }
}
