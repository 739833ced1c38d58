//! FTIO's own steps while two of its example traces grew, against ours: same windows, same answers.

use iotide_analysis::{DftConfig, Method, PeriodConfig, detect_period};
use iotide_formats::OpenOptions;
use iotide_trace::{ReadWrite, Sampling, SamplingKind, Span, StepSignal, Timestamp, sample};
use serde_json::Value;

use crate::golden::{read, reference_data};

#[test]
fn the_windows_of_ftio_give_the_answers_of_ftio() {
    let Some(folder) = reference_data() else { return };
    let steps = read(&folder.join("golden_online.json"));
    let (mut n_compared, mut differing) = (0, Vec::new());
    for (name, file) in [("8.jsonl", "tmio/JSONL/8.jsonl"), ("384.msgpack", "tmio/ior/parallel/384.msgpack")]
    {
        let mut sink = ReadWrite::default();
        OpenOptions::default().open(&folder.join(file)).unwrap().read(&mut sink).unwrap();
        let writes = sink.write.finish();
        for (case, steps) in steps.as_object().unwrap() {
            if !case.starts_with(name) {
                continue;
            }
            for step in steps.as_array().unwrap() {
                n_compared += 1;
                let (found, expected) = (answer(&writes, step), dominant(step));
                let same = match (found, expected) {
                    (Some(found), Some(expected)) => (found / expected - 1.0).abs() < 1e-6,
                    (found, expected) => found.is_none() && expected.is_none(),
                };
                if !same {
                    differing.push(format!("{case} step {}: {found:?} not {expected:?}", step["step"]));
                }
            }
        }
    }
    assert_eq!(n_compared, 150);
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

fn answer(writes: &StepSignal, step: &Value) -> Option<f64> {
    let time = |key: &str| Timestamp::from_secs_since_start(step[key].as_f64().unwrap()).unwrap();
    let window = Span { start: time("t_start"), end: time("t_end") };
    let signal = sample(writes, window, Sampling { rate_hz: 10.0, kind: SamplingKind::Hold }).ok()?;
    let config = PeriodConfig { method: Method::Dft, dft: DftConfig::default() };
    detect_period(&signal, &config).unwrap().period_s.map(|period_s| 1.0 / period_s)
}

/// The frequency of the highest confidence, as FTIO takes it.
fn dominant(step: &Value) -> Option<f64> {
    let numbers = |key: &str| step[key].as_array().unwrap().iter().map(|x| x.as_f64().unwrap());
    numbers("freqs").zip(numbers("conf")).max_by(|a, b| a.1.total_cmp(&b.1)).map(|(frequency, _)| frequency)
}
