//! Extra-P's own options, under its names.

use iotide_scaling::{Cost, Exponent, ExtrapConfig, Lines, Search};

use crate::Error;

pub(super) fn config(
    search: Search,
    options: &[(String, String)],
    n_parameters: usize,
) -> Result<ExtrapConfig, Error> {
    let mut config = ExtrapConfig { search, ..ExtrapConfig::default() };
    for (key, value) in options {
        set(&mut config, key, value, n_parameters).map_err(|fault| Error::ExtrapOption {
            key: key.clone(),
            value: value.clone(),
            fault,
        })?;
    }
    Ok(config)
}

fn set(config: &mut ExtrapConfig, key: &str, value: &str, n_parameters: usize) -> Result<(), String> {
    let switch = || match value.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" => Ok(true),
        "false" | "0" | "no" => Ok(false),
        _ => Err(format!("{value:?} is neither true nor false")),
    };
    let exponents = || -> Result<Vec<Exponent>, String> {
        let parse = |part: &str| Exponent::parse(part).ok_or_else(|| format!("{part:?} is no exponent"));
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
            config.minimum_contribution = value.parse().map_err(|_| format!("{value:?} is no number"))?;
        }
        "single_parameter_point_selection" => {
            config.lines = match value {
                "auto" | "all" => Lines::Longest,
                "smallest" => Lines::Lowest,
                _ => return Err("only auto, all and smallest are known".to_owned()),
            }
        }
        "allow_combinations_of_sums_and_products" => config.sums_of_products = switch()?,
        _ => return Err(format!("there is no option {key}")),
    }
    Ok(())
}
