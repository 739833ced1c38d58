//! How a metric scales, and what it will be elsewhere.
#![allow(clippy::print_stdout)]

use iotide_api::{FitOptions, Measurements, ModelQuestions, fit};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Time grows with the number of processes p, with some noise; bytes do not.
    let mut table = String::from("p,callpath,metric,value\n");
    for (p, noise) in [(4, 0.1), (8, -0.1), (16, 0.2), (32, -0.2), (64, 0.1), (128, 0.0)] {
        table += &format!(
            "{p},main->write,time,{}\n{p},main->write,bytes,1000000\n",
            2.0 * f64::from(p) + 2.0 + noise
        );
    }
    let measured = Measurements::from_bytes("runs.csv", table.as_bytes(), None)?;
    let models = fit(measured, &FitOptions::default())?;

    let at = vec![vec![("p".to_owned(), 4096.0)]];
    let report = models.report(&ModelQuestions { at, ..ModelQuestions::default() })?;
    for model in &report.models {
        let [metric, callpath] = [&model.metric, &model.callpath].map(|name| name.for_terminal());
        println!("{metric} of {callpath}: {}", model.function.for_terminal());
    }
    let time = report.models.iter().find(|model| model.metric == "time").unwrap();
    assert!(time.function.as_said().ends_with("* p^(1)"), "{:?}", time.function);
    let there = time.predictions[0].value.unwrap();
    assert!((there - 8194.0).abs() < 80.0, "{there}");
    let bytes = report.models.iter().find(|model| model.metric == "bytes").unwrap();
    assert!(bytes.terms.is_empty(), "it is constant");
    Ok(())
}
