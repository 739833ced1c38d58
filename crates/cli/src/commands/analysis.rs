//! How a run is looked at: the flags, and what they mean.

use iotide_analysis::{DftConfig, Method, OutlierDetector, PeriodConfig, RunConfig, RunError};
use iotide_trace::{Direction, SamplingKind};

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
    /// Samples per second
    #[arg(long, value_name = "HZ|auto", value_parser = rate, default_value = "auto")]
    freq: Rate,
    /// A sample is the mean over its bin, or the value held at its instant
    #[arg(long, value_enum, default_value_t = SamplingArg::Mean)]
    sampling: SamplingArg,
    /// Show the N strongest waves and how well they draw the signal [default: 3 with `dft`, else 0]
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// `dft`: share of the best score at which a frequency becomes a candidate
    #[arg(long, value_name = "SHARE", value_parser = share, default_value_t = DftConfig::default().tolerance)]
    tolerance: f64,
    /// `dft`: what tells an outlying frequency from the rest
    #[arg(long, value_enum, default_value_t = OutliersArg::Zscore)]
    outliers: OutliersArg,
    /// `dft`: seed of `--outliers forest`
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

impl AnalysisArgs {
    /// What the flags mean; nothing below this line knows clap.
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
                    tolerance: self.tolerance,
                    detector: match self.outliers {
                        OutliersArg::Zscore => OutlierDetector::ZScore,
                        OutliersArg::Dbscan => OutlierDetector::Dbscan,
                        OutliersArg::Forest => OutlierDetector::IsolationForest { seed: self.seed },
                        OutliersArg::Lof => OutlierDetector::LocalOutlierFactor,
                        OutliersArg::Peaks => OutlierDetector::Peaks,
                    },
                    n_top: self.top.unwrap_or(if method == Method::Dft { 3 } else { 0 }),
                },
            },
            direction: match self.mode {
                ModeArg::Auto => None,
                ModeArg::Read => Some(Direction::Read),
                ModeArg::Write => Some(Direction::Write),
                ModeArg::Both => Some(Direction::Both),
            },
            rate_hz: self.freq.0,
            sampling: match self.sampling {
                SamplingArg::Mean => SamplingKind::Mean,
                SamplingArg::Hold => SamplingKind::Hold,
            },
            from_s,
            until_s,
            skip_first_phase: self.skip_first_phase,
        }
    }
}

/// What could be done about an analysis that failed.
pub(crate) fn advice(error: &RunError) -> &'static str {
    match error {
        RunError::Sampling(_) => "`--freq auto` chooses a rate that fits; `--window` makes the run shorter",
        _ => "`iotide detect --help` lists what can be changed",
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
    fn a_rate_is_positive_or_chosen() {
        assert_eq!(rate("auto").map(|rate| rate.0), Ok(None));
        assert_eq!(rate("0.5").map(|rate| rate.0), Ok(Some(0.5)));
        for wrong in ["0", "-1", "inf", "nan", "10Hz", ""] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }
}
