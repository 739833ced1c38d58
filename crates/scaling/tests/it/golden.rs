//! Reads recorded Extra-P 4.2.5 models where they are at hand and compares ours with them, whole functions.

use std::path::{Path, PathBuf};

use iotide_scaling::{
    Cost, Exponent, ExtrapConfig, Factor, FitConfig, Function, Lines, Measure, Method, Search, fit, read,
};
use serde_json::Value;

/// The folder of shared test data, if this machine has it.
fn shared_data() -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().map(|folder| folder.join("shared/data")).find(|folder| folder.is_dir())
}

#[test]
fn every_recorded_model_is_reproduced() {
    let Some(folder) = shared_data().map(|data| data.join("extrap")).filter(|folder| folder.is_dir()) else {
        eprintln!("SKIPPED: no shared/data/extrap above {}", env!("CARGO_MANIFEST_DIR"));
        return;
    };
    let golden: Value = serde_json::from_slice(&std::fs::read(folder.join("golden.json")).unwrap()).unwrap();
    let (mut n_compared, mut n_fragile, mut faults) = (0, 0, Vec::new());
    for case in golden["cases"].as_array().unwrap() {
        // Where Extra-P refuses an input or a setting there is nothing to compare.
        let Some(models) = case["models"].as_array() else { continue };
        let file = case["file"].as_str().unwrap();
        let bytes = std::fs::read(folder.join("inputs").join(file)).unwrap();
        let (_, experiment) = read(&bytes, None).unwrap_or_else(|error| panic!("{file}: {error}"));
        let config = config_of(case, experiment.parameters.len());
        assert_eq!(models.len(), experiment.series.len(), "{file}");
        for model in models {
            let (callpath, metric) = (model["callpath"].as_str().unwrap(), model["metric"].as_str().unwrap());
            let series = experiment.series.iter().find(|s| s.callpath == callpath && s.metric == metric);
            let series = series.unwrap_or_else(|| panic!("{file}: no {metric} in {callpath}"));
            let ours = fit(&series.measurements, &config).unwrap();
            // The winner was decided by rounding: any winner will do.
            if model["searches"]
                .as_array()
                .is_some_and(|all| all.iter().any(|search| search["fragile"] == true))
            {
                n_fragile += 1;
                continue;
            }
            n_compared += 1;
            let size: f64 = series.measurements.iter().map(|m| m.values.summary().mean.powi(2)).sum();
            let mut gaps = Vec::new();
            compare_function(&ours.function, &model["function"], size.sqrt(), &mut gaps);
            compare("RSS", ours.costs.rss, &model["RSS"], 1e-20 * size, &mut gaps);
            compare("SMAPE", ours.costs.smape, &model["SMAPE"], 1e-10, &mut gaps);
            compare("AR2", ours.costs.adjusted_r2, &model["AR2"], 0.0, &mut gaps);
            if !gaps.is_empty() {
                let ours = ours.function.to_text(&experiment.parameters);
                let setting = format!("{} {} {}", case["modeler"], case["options"], case["measure"]);
                faults.push(format!(
                    "{file} {setting} {callpath} {metric}:\n  ours   {ours}\n  theirs {}\n  {}",
                    model["model"],
                    gaps.join("; ")
                ));
            }
        }
    }
    assert!(faults.is_empty(), "{} of {n_compared} differ:\n{}", faults.len(), faults.join("\n"));
    assert!(n_compared >= 400, "{n_compared} compared, {n_fragile} decided by rounding");
}

fn config_of(case: &Value, n_parameters: usize) -> FitConfig {
    let single = if n_parameters == 1 { &case["options"] } else { &case["single_parameter_options"] };
    let option = |name: &str| single[name].as_bool();
    let exponents = |name: &str| -> Vec<Exponent> {
        single[name].as_str().unwrap_or("").split(',').filter_map(Exponent::parse).collect()
    };
    let by = |options: &Value| if options["compare_with_RSS"] == true { Cost::Rss } else { Cost::Smape };
    let search = match (case["modeler"].as_str(), case["single_parameter_modeler"].as_str()) {
        (Some("refining"), _) | (_, Some("Refining")) => Search::Refining,
        (Some("segmented"), _) | (_, Some("Segmented")) => Search::Segmented,
        _ => Search::Basic,
    };
    let defaults = ExtrapConfig::default();
    let extrap = ExtrapConfig {
        search,
        logarithms: option("allow_log_terms").unwrap_or(defaults.logarithms),
        negative_exponents: option("allow_negative_exponents").unwrap_or(defaults.negative_exponents),
        poly_exponents: exponents("poly_exponents"),
        log_exponents: exponents("log_exponents"),
        cross_validation: option("use_crossvalidation").unwrap_or(defaults.cross_validation),
        compare_by: by(single),
        compare_combinations_by: by(&case["options"]),
        lines: match case["options"]["single_parameter_point_selection"].as_str() {
            Some("smallest") => Lines::Lowest,
            _ => Lines::Longest,
        },
        sums_of_products: case["options"]["allow_combinations_of_sums_and_products"] != false,
        ..defaults
    };
    // Its command line ignores the measure if there is one parameter.
    let measure = match case["measure"].as_str() {
        _ if n_parameters == 1 && case["via"] == "cli" => Measure::Mean,
        Some("median") => Measure::Median,
        Some("minimum") => Measure::Minimum,
        Some("maximum") => Measure::Maximum,
        _ => Measure::Mean,
    };
    FitConfig { measure, method: Method::Extrap(extrap) }
}

fn compare(name: &str, ours: f64, theirs: &Value, rounding: f64, gaps: &mut Vec<String>) {
    let theirs = theirs.as_f64().or_else(|| theirs.as_str()?.parse().ok()).unwrap_or(f64::NAN);
    let same = ours == theirs
        || ours.is_nan() && theirs.is_nan()
        || (ours - theirs).abs() <= 1e-6 * theirs.abs() + rounding;
    if !same {
        gaps.push(format!("{name} {ours} for {theirs}"));
    }
}

fn compare_function(ours: &Function, theirs: &Value, size: f64, gaps: &mut Vec<String>) {
    if let Some(segments) = theirs["segments"].as_array() {
        let [term] = ours.terms.as_slice() else { return gaps.push("not segmented".into()) };
        return compare_pieces(&term.factors[0], segments, &theirs["intervals"], size, gaps);
    }
    compare("constant", ours.constant, &theirs["constant"], 1e-9 * size, gaps);
    let terms = theirs["terms"].as_array().unwrap();
    if ours.terms.len() != terms.len() {
        return gaps.push(format!("{} terms for {}", ours.terms.len(), terms.len()));
    }
    for (term, theirs) in ours.terms.iter().zip(terms) {
        compare("coefficient", term.coefficient, &theirs["coefficient"], 0.0, gaps);
        let factors = theirs["factors"].as_array().unwrap();
        if term.factors.len() != factors.len() {
            return gaps.push(format!("{} factors for {}", term.factors.len(), factors.len()));
        }
        for (factor, theirs) in term.factors.iter().zip(factors) {
            assert_eq!(factor.parameter() as u64, theirs["param"].as_u64().unwrap());
            if let Some(segments) = theirs["segmented"].as_array() {
                compare_pieces(factor, segments, &theirs["intervals"], size, gaps);
                continue;
            }
            let Factor::Smooth { shape, .. } = factor else { return gaps.push("segmented".into()) };
            let same = theirs["poly"] == shape.power.to_string().as_str()
                && theirs["log"] == shape.log.to_string().as_str();
            if !same {
                gaps.push(format!(
                    "exponents {} {} for {} {}",
                    shape.power, shape.log, theirs["poly"], theirs["log"]
                ));
            }
        }
    }
}

fn compare_pieces(ours: &Factor, segments: &[Value], intervals: &Value, size: f64, gaps: &mut Vec<String>) {
    let Factor::Piecewise(pieces) = ours else { return gaps.push("not segmented".into()) };
    compare_function(&pieces.lower, &segments[0], size, gaps);
    compare_function(&pieces.upper, &segments[1], size, gaps);
    compare("lower end", pieces.lower_end, &intervals[0][1], 0.0, gaps);
    compare("upper start", pieces.upper_start, &intervals[1][0], 0.0, gaps);
}
