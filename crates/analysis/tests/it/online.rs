//! FTIO's own steps while two of its example traces grew, against ours: same windows, same answers.

use iotide_analysis::online::{Adaptation, PaperPredictor};
use iotide_analysis::{DftConfig, Method, PeriodConfig, RunConfig, detect_period};
use iotide_formats::OpenOptions;
use iotide_trace::{
    Direction, Event, Op, ReadWrite, Sampling, SamplingKind, Span, StepSignal, Timestamp, Trace, sample,
};
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

#[test]
fn the_paper_s_windows_give_the_steps_of_ftio_as_the_trace_grows() {
    let Some(folder) = reference_data() else { return };
    let golden = read(&folder.join("golden_online.json"));
    let (jsonl, msgpack) = ("tmio/JSONL/8.jsonl", "tmio/ior/parallel/384.msgpack");
    for (case, file, adaptation) in [
        ("8.jsonl|frequency_hits", jsonl, Adaptation::Hits { hits: 3 }),
        ("384.msgpack|frequency_hits", msgpack, Adaptation::Hits { hits: 3 }),
        // From the second step on FTIO begins these windows at the first request, rounded: that cuts it off of 384.msgpack.
        ("8.jsonl|none", jsonl, Adaptation::Everything),
        ("8.jsonl|data", jsonl, Adaptation::Data { evaluations: 1 }),
    ] {
        let mut trace = Trace::default();
        OpenOptions::default().open(&folder.join(file)).unwrap().read(&mut trace).unwrap();
        let mut writes: Vec<Event> = trace.events.into_iter().filter(|event| event.op == Op::Write).collect();
        writes.sort_by_key(|event| event.end);
        let mut writes = writes.into_iter().peekable();
        let config = RunConfig {
            period: PeriodConfig { method: Method::Dft, ..PeriodConfig::default() },
            direction: Some(Direction::Write),
            sampling: SamplingKind::Hold,
            ..RunConfig::default()
        };
        let mut predictor = PaperPredictor::new(config, adaptation);
        for step in golden[case].as_array().unwrap() {
            let number = |key: &str| step[key].as_f64().unwrap();
            while let Some(write) = writes.next_if(|write| write.end.as_secs() <= number("t_end") + 1e-8) {
                predictor.push_event(&write);
            }
            let told = predictor.evaluate().unwrap();
            let what = format!("{case} {step}: {told:?}");
            assert!((told.window_s.0 - number("t_start")).abs() < 1e-6, "{what}");
            assert!((told.window_s.1 - number("t_end")).abs() < 1e-6, "{what}");
            // Of two candidates the paper takes the one with more power; FTIO the one of the higher confidence, which is the same.
            match (told.period_s, dominant(step)) {
                (Some(found_s), Some(expected)) => {
                    assert!((found_s * expected - 1.0).abs() < 1e-6, "{what}");
                    let confidences = step["conf"].as_array().unwrap().iter().map(|c| c.as_f64().unwrap());
                    assert!((told.confidence - confidences.fold(0.0, f64::max)).abs() < 1e-6, "{what}");
                }
                (found, expected) => assert!(found.is_none() && expected.is_none(), "{what}"),
            }
        }
    }
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
