//! `cargo xtask laws`: what must be true of the rhythm engine's answers, tried on synthetic traces and on real ones.

use crate::Outcome;

mod calibration;
mod consistency;
mod law;
mod real;
mod table;

/// Options of the command line.
struct Options {
    seed: u64,
    n_traces: usize,
    /// Only the laws of these numbers.
    only: Vec<String>,
    /// Only this case of them.
    case: Option<usize>,
    /// How many failing cases of each part to print.
    show: usize,
    calibration: bool,
    real: bool,
    /// Every real trace, also those of large sets of like ones.
    all_real: bool,
}

/// Runs the command; see `HELP`.
pub fn run(args: &[String]) -> Result<Outcome, String> {
    let mut options = Options {
        seed: 1,
        n_traces: 100,
        only: Vec::new(),
        case: None,
        show: 0,
        calibration: false,
        real: true,
        all_real: false,
    };
    let mut args = args.iter().peekable();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--seed" => options.seed = value()?.parse().map_err(|e| format!("--seed: {e}"))?,
            "--traces" => options.n_traces = value()?.parse().map_err(|e| format!("--traces: {e}"))?,
            "--only" => options.only = value()?.split(',').map(str::to_owned).collect(),
            "--case" => options.case = Some(value()?.parse().map_err(|e| format!("--case: {e}"))?),
            "--show" => {
                // `--show` alone is three of each.
                options.show = args
                    .next_if(|next| !next.starts_with('-'))
                    .map_or(Ok(3), |n| n.parse().map_err(|e| format!("--show: {e}")))?;
            }
            "--calibration" => options.calibration = true,
            "--all-real" => options.all_real = true,
            "--no-real" => options.real = false,
            "help" | "-h" | "--help" => {
                println!("{HELP}");
                return Ok(Outcome::Good);
            }
            other => return Err(format!("{other}?\n{HELP}")),
        }
    }
    if options.calibration {
        return Ok(calibration::run(options.show));
    }
    let known =
        |only: &String| law::LAWS.iter().any(|law| law.number == only) || only == "gamma" || only == "real";
    if let Some(unknown) = options.only.iter().find(|only| !known(only)) {
        return Err(format!("there is no law {unknown}\n{HELP}"));
    }
    Ok(table::run(&options))
}

/// Usage of `run`.
const HELP: &str = "laws [--seed N] [--traces N] [--only LAW,…] [--case N] [--show [N]] [--no-real|--all-real]
    tries each law of rhythm on N synthetic traces [default: 100] and on the traces of ../shared/data, and prints how many
    hold. --only: these laws (1, 1b, 2 … 12, gamma, engine, real); --show: the first N failing cases of each part
    [default: 3], with both answers; --case: this case alone; --all-real: every trace there is, where the default takes
    one in ten of the large sets. The exit status is 1 if a law falls below its requirement
laws --calibration [--show [N]]
    how often answers of each confidence are right, on families that are kept for this";
