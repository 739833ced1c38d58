use super::*;
use crate::samples::{group, signature as found};

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
