use super::*;
use iotide_analysis::{Spread, UsedSample};

/// Two bursts of 10 s, one every 30 s, on a step of 1 s.
fn found() -> (Signature, Vec<Sample>) {
    let values: Vec<f64> = (0..60).map(|i| if i % 30 < 10 { 2e9 } else { 0.0 }).collect();
    let sample = |name: &str, foreign: f64| {
        Sample::whole(name, 1.0, values.iter().map(|value| value + foreign).collect())
    };
    let used = |index: usize, name: &str| UsedSample {
        index,
        name: name.into(),
        similarity: 0.97,
        delay_s: 1.5,
        times_s: (0..60).map(|i| f64::from(i) + 0.5).collect(),
    };
    let burst =
        |start_s: f64| Burst { start_s, end_s: start_s + 10.0, peak_bps: 2e9, bytes: 2e10, support: 1.0 };
    let signature = Signature {
        method: SignatureMethod::Consensus,
        offset_s: 0.0,
        interval_s: 1.0,
        spread: values
            .iter()
            .map(|value| Spread { low_bps: *value, median_bps: value + 1e8, high_bps: value + 2e8 })
            .collect(),
        bandwidth_bps: values.clone(),
        bursts: vec![burst(0.0), burst(30.0)],
        period: PeriodEstimate { period_s: Some(30.0), confidence: 0.9, ..PeriodEstimate::default() },
        confidence: 0.93,
        background_bps: 1e8,
        used: vec![used(0, "s0.csv"), used(2, "s2.csv")],
        rejected: vec![RejectedSample {
            index: 1,
            name: "s1.csv".into(),
            reason: SampleRejection::Outlier { factor: 2.0, duration_ratio: 2.1, volume_ratio: 3.0 },
        }],
    };
    (signature, vec![sample("s0.csv", 1e8), sample("s1.csv", 0.0), sample("s2.csv", 2e8)])
}

fn group(user: &str, runs: usize) -> GroupEntry {
    GroupEntry { user: user.into(), name: "climate".into(), nodes: Some(128), runs }
}

#[test]
fn a_signature_is_told_in_one_sentence_and_a_few_lines() {
    let (signature, samples) = found();
    let losses = [iotide_trace::Loss::of_records(1, "s0.csv: line 61: no end")];
    let report = SignatureReport::new(&signature, &samples, &losses);
    insta::assert_snapshot!(report.to_text(80, Ink::Plain), @r#"
    2 bursts, one every 30 s, of about 20 GB, confidence 93 %

      ██████████                    ██████████                    
      0 s                    up to 2 GB/s                     60 s

      evidence    2 samples, by method consensus
      left out    s1.csv: not like the others: 2.1 times as long, 3 times the volume
      volume      40 GB in 60 s
      period      30 s, confidence 90 %
      spread      the middle half of the samples lies within ±15 %
      background  100 MB/s by others, taken away
      burst       0 s to 10 s: 20 GB, up to 2 GB/s, in 100 % of the samples
      burst       30 s to 40 s: 20 GB, up to 2 GB/s, in 100 % of the samples
      losses      s0.csv: line 61: no end (1 record)
    "#);
}

#[test]
fn json_has_the_promised_names() {
    let (signature, samples) = found();
    let json: serde_json::Value =
        serde_json::from_str(&SignatureReport::new(&signature, &samples, &[]).to_json()).unwrap();
    assert_eq!(json["schema"], "iotide/1");
    assert_eq!(json["signature"]["interval_s"], 1.0);
    assert_eq!(json["signature"]["bandwidth_bps"][3], 2_000_000_000u64);
    assert_eq!(json["samples"]["used"], 2);
    assert_eq!(json["samples"]["rejected"], serde_json::json!(["s1.csv"]));
    for name in ["start_s", "end_s", "peak_bps", "bytes"] {
        assert!(json["bursts"][1][name].is_number(), "{name}");
    }
    assert_eq!(json["spread"]["high_bps"].as_array().unwrap().len(), 60);
    assert!(json.get("group").is_none() && json.get("fit").is_none());
}

#[test]
fn a_signature_that_was_written_can_be_read_again() {
    let (signature, samples) = found();
    let single = SignatureReport::new(&signature, &samples, &[]).to_json();
    let entry = SignatureEntry::new(Some(group("ana", 3)), &signature);
    let mut log = LogReport::new(LogSource::default(), &[]);
    log.add(&entry, None);
    let many = LogReport::json_head() + &entry.to_json_line() + &log.json_tail();
    let line = entry.to_json_line() + "\n";
    let listed = LogReport::json_head() + line.trim_end() + ",\n" + line.trim_end() + &log.json_tail();
    for several in [line.repeat(2), listed] {
        let fault = signature_of_json(&several).unwrap_err();
        assert_eq!(fault, "it holds several, and nothing says which of them is meant");
    }
    for json in [single, many, line.clone()] {
        let again = signature_of_json(&json).unwrap();
        assert_eq!((again.interval_s, &again.bandwidth_bps), (1.0, &signature.bandwidth_bps));
    }
    for (json, fault) in [
        ("", "it is empty"),
        ("{}", "it has no \"signature\""),
        (r#"{"signature":{"interval_s":0,"bandwidth_bps":[1]}}"#, "its interval_s is no time"),
        (
            r#"{"signature":{"interval_s":1,"bandwidth_bps":[null]}}"#,
            "a value of bandwidth_bps is no bandwidth",
        ),
        (r#"{"signature":{"interval_s":1,"bandwidth_bps":[]}}"#, "its bandwidth_bps is empty"),
    ] {
        assert_eq!(signature_of_json(json).unwrap_err(), fault);
    }
}

#[test]
fn a_picture_has_faint_samples_and_one_bold_signature() {
    let (signature, samples) = found();
    let report = SignatureReport::new(&signature, &samples, &[]);
    let svg = &report.pictures().remove(0).1;
    assert_eq!(svg.matches("<path class=\"sample\"").count(), 2);
    assert_eq!(svg.matches("<path class=\"signature\"").count(), 1);
    assert_eq!(svg.matches("<rect class=\"p0\"").count(), 2);
    assert!(svg.contains(".plot .p0{fill:"), "without a style a burst would be black");
    let page = report.to_page().unwrap();
    assert!(
        page.contains("<ul class=\"legend\">")
            && page.contains("<td data-v=\"3e1\">30 s</td><td data-v=\"4e1\">40 s</td>"),
        "{page}"
    );
    iotide_look::policy::assert_keeps_its_policy(&page);
    assert!(svg.contains("<style>") && !report.to_page().unwrap().contains("<style>.plot text{{"));
    assert!(report.to_page().unwrap().contains("class=\"signature\""));
}

#[test]
fn of_many_signatures_the_largest_are_drawn_and_all_are_counted() {
    let (signature, samples) = found();
    let mut report = LogReport::new(LogSource { n_runs: 300, n_broken: 7, ..LogSource::default() }, &[]);
    for i in 0..100 {
        let entry = SignatureEntry::new(Some(group(&format!("<user{i}>"), i)), &signature);
        report.add(&entry, Some(SignatureChart::of(&signature, &samples)));
    }
    report.fail(group("x", 3), "too few");
    let page = page::log_page(&report);
    iotide_look::policy::assert_keeps_its_policy(&page);
    assert_eq!(page.matches("<svg").count(), 48);
    assert!(page.contains("&lt;user99&gt;") && !page.contains("<user"));
    let text = report.to_text(100, Ink::Plain);
    assert!(text.starts_with("100 signatures, 100 of them with bursts of their own\n"), "{text}");
    assert!(
        text.contains("and 60 more")
            && text.contains("7 failed or cancelled")
            && text.contains("x · climate"),
        "{text}"
    );
}

#[test]
fn a_table_of_signatures_is_parquet() {
    let (signature, _) = found();
    let mut bytes = Vec::new();
    let mut table = SignatureTable::new(&mut bytes).unwrap();
    let mut quiet = signature.clone();
    quiet.bursts.clear();
    quiet.period.period_s = None;
    for signature in [&signature, &quiet, &signature] {
        table.push(&SignatureEntry::new(Some(group("ana", 3)), signature)).unwrap();
    }
    table.finish().unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
}

#[test]
fn two_kinds_of_bursts_are_told_apart() {
    assert_eq!(super::kinds_of(&[64e9, 16e9, 62e9, 17e9, 66e9]), [(3, 64e9), (2, 16.5e9)]);
    assert_eq!(super::kinds_of(&[10e9, 12e9, 11e9]), [(3, 11e9)]);
    assert_eq!(super::kinds_of(&[]), []);
}

#[test]
fn names_of_others_steer_neither_terminal_nor_page() {
    use crate::steering::{assert_plain, assert_plain_page, assert_steers_nothing, hostile};
    let (mut signature, mut samples) = found();
    signature.used.iter_mut().for_each(|sample| sample.name = hostile("sample"));
    signature.rejected[0].name = hostile("sample");
    samples.iter_mut().for_each(|sample| sample.name = hostile("sample"));
    let losses = [iotide_trace::Loss::of_records(1, hostile("loss"))];
    let mut report = SignatureReport::new(&signature, &samples, &losses);
    let partition = iotide_analysis::PartitionLoad {
        name: hostile("partition"),
        start_s: 0.0,
        interval_s: 1.0,
        bandwidth_bps: vec![1.0; 10],
        capacity_bps: None,
    };
    report.fit = Some(FitReport::new(&hostile("about"), &[partition], &[], 10.0, 3));
    assert_steers_nothing(&report);
    assert_steers_nothing(report.fit.as_ref().unwrap());
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    assert_eq!(json["samples"]["rejected"][0], hostile("sample"));

    let of = || GroupEntry { user: hostile("user").into(), name: hostile("name").into(), ..group("", 3) };
    let mut log = LogReport::new(LogSource::default(), &losses);
    let mut entry = SignatureEntry::new(Some(of()), &signature);
    entry.without_sample(hostile("job"), NoSample::TooShort);
    assert_plain(&entry.to_json_line(), "");
    log.add(&entry, Some(SignatureChart::of(&signature, &samples)));
    log.fail(of(), hostile("error"));
    assert_plain(&log.to_text(200, Ink::Plain), "\n");
    assert_plain(&log.json_tail(), "\n");
    iotide_look::policy::assert_keeps_its_policy(&page::log_page(&log));
    assert_plain_page(&page::log_page(&log));
}
