//! Extra-P's own options, under its names.

use anyhow::{Context, bail};
use iotide_scaling::{Cost, Exponent, ExtrapConfig, Lines, Search};

pub(super) fn config(
    search: Search,
    options: &[String],
    n_parameters: usize,
) -> anyhow::Result<ExtrapConfig> {
    let mut config = ExtrapConfig { search, ..ExtrapConfig::default() };
    for option in options {
        let (key, value) =
            option.split_once('=').with_context(|| format!("--option {option}: not KEY=VALUE"))?;
        let switch = || match value.to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" => Ok(true),
            "false" | "0" | "no" => Ok(false),
            _ => bail!("--option {option}: {value:?} is neither true nor false"),
        };
        let exponents = || -> anyhow::Result<Vec<Exponent>> {
            let parse = |part: &str| {
                Exponent::parse(part).with_context(|| format!("--option {option}: {part:?} is no exponent"))
            };
            value.split(',').map(parse).collect()
        };
        match key {
            "allow_log_terms" => config.logarithms = switch()?,
            "allow_negative_exponents" => config.negative_exponents = switch()?,
            "poly_exponents" => config.poly_exponents = exponents()?,
            "log_exponents" => config.log_exponents = exponents()?,
            "retain_default_exponents" => config.retain_default_exponents = switch()?,
            "force_combination_exponents" => config.force_combination_exponents = switch()?,
            "use_crossvalidation" => config.cross_validation = switch()?,
            // With one parameter it is about one-parameter models, with several about their combinations.
            "compare_with_RSS" => {
                let by = if switch()? { Cost::Rss } else { Cost::Smape };
                if n_parameters == 1 {
                    config.compare_by = by;
                } else {
                    config.compare_combinations_by = by;
                }
            }
            "minimum_term_contribution" => {
                config.minimum_contribution =
                    value.parse().with_context(|| format!("--option {option}: {value:?} is no number"))?;
            }
            "single_parameter_point_selection" => {
                config.lines = match value {
                    "auto" | "all" => Lines::Longest,
                    "smallest" => Lines::Lowest,
                    _ => bail!("--option {option}: only auto, all and smallest are known"),
                }
            }
            "allow_combinations_of_sums_and_products" => config.sums_of_products = switch()?,
            _ => bail!("--option {option}: there is no option {key}"),
        }
    }
    Ok(config)
}
