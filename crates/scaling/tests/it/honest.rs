//! Claims that a model makes, and claims that it must not make.

use iotide_scaling::{FitConfig, Measurement, Model, fit};

fn model(points: &[(f64, &[f64])]) -> Model {
    let measurements: Vec<Measurement> =
        points.iter().map(|(p, values)| Measurement::new([*p], values.to_vec())).collect();
    fit(&measurements, &FitConfig::default()).unwrap()
}

#[test]
fn clearly_rising_data_are_no_constant() {
    let rising = model(&[(1.0, &[3.0]), (2.0, &[7.0]), (4.0, &[14.0]), (8.0, &[30.0])]);
    assert!(!rising.function.is_constant(), "{:?}", rising.function);
    let there = rising.predict(&[64.0], 0.9);
    let (low, high) = there.interval.unwrap();
    assert!(low > 30.0 && high > there.value && (100.0..500.0).contains(&there.value), "{there:?}");
}

/// The function and its interval far out, whatever the values are counted in.
#[test]
fn rounded_values_on_a_straight_line_are_a_straight_line() {
    for unit in [1.0, 1e-6, 1e9] {
        let values = [1.0, 2.0, 4.0, 8.1, 16.2].map(|y| [y * unit]);
        let sizes = [4.0, 8.0, 16.0, 32.0, 64.0];
        let points: Vec<(f64, &[f64])> = sizes.into_iter().zip(values.iter().map(|y| y.as_slice())).collect();
        let line = model(&points);
        let [term] = line.function.terms.as_slice() else { panic!("{:?}", line.function) };
        assert_eq!(line.function.constant, 0.0);
        assert!((term.coefficient / unit - 0.2525).abs() < 0.002, "{:?}", line.function);
        let there = line.predict(&[4096.0], 0.9);
        let (low, high) = there.interval.unwrap();
        let place = (there.value - low) / (high - low);
        assert!((0.25..0.75).contains(&place), "{there:?}");
        assert!(low > 0.9 * there.value && high < 1.1 * there.value, "{there:?}");
    }
}

#[test]
fn two_points_cannot_tell() {
    for points in [
        &[(4.0, [10.0].as_slice()), (8.0, &[20.0])][..],
        &[(4.0, [10.0, 10.1, 9.9].as_slice()), (8.0, &[20.0, 20.2, 19.8])],
    ] {
        let model = model(points);
        assert!(model.alternatives.is_empty(), "a probability is claimed");
        assert_eq!(model.predict(&[64.0], 0.9).interval, None);
        let notes: Vec<String> = model.notes.iter().map(|note| note.with_names(&["p"])).collect();
        assert!(notes.iter().any(|note| note.starts_with("cannot tell how it changes with p")), "{notes:?}");
    }
}

#[test]
fn a_constant_is_the_mean_of_the_points() {
    let flat = model(&[(1.0, &[8.0]), (2.0, &[12.0]), (4.0, &[9.0]), (8.0, &[11.0]), (16.0, &[10.0])]);
    assert!(flat.function.is_constant());
    assert!((flat.function.constant - 10.0).abs() < 1e-9, "{:?}", flat.function);
}

#[test]
fn counts_that_reach_zero_do_not_pull_a_constant_down() {
    let values = [1.0, 2.0, 0.0, 2.0, 1.0, 0.0, 2.0, 1.0];
    let points: Vec<(f64, [f64; 1])> = (0..8).map(|i| (f64::from(1 << i), [values[i]])).collect();
    let points: Vec<(f64, &[f64])> = points.iter().map(|(p, value)| (*p, value.as_slice())).collect();
    let counts = model(&points);
    assert!((counts.function.at(&[100.0]) - 1.125).abs() < 0.5, "{:?}", counts.function);
}

#[test]
fn threads_with_unlike_shares_are_no_noise() {
    // Two threads work, two have nothing to do; the whole grows exactly with f.
    let share = |f: f64| [1.3 * f, 0.0, 1.5 * f, 0.0];
    let shares: Vec<(f64, [f64; 4])> = (1..6).map(|f| (f64::from(f), share(f64::from(f)))).collect();
    let points: Vec<(f64, &[f64])> = shares.iter().map(|(f, values)| (*f, values.as_slice())).collect();
    let threads = model(&points);
    assert_eq!(threads.function.to_text(&["f"]), "0.7 * f^(1)");
}

#[test]
fn an_interval_is_wide_enough_for_a_further_measurement() {
    // Points that scatter by 3 % about a constant: what is measured next scatters as they do.
    let scatter = [1.02, 0.97, 1.03, 0.98, 1.01, 0.99, 1.03, 0.97];
    let points: Vec<(f64, [f64; 1])> = (0..8).map(|i| (f64::from(1 << i), [100.0 * scatter[i]])).collect();
    let points: Vec<(f64, &[f64])> = points.iter().map(|(p, value)| (*p, value.as_slice())).collect();
    let (low, high) = model(&points).predict(&[256.0], 0.9).interval.unwrap();
    assert!(low < 97.0 && high > 103.0, "{low} {high}");
}
