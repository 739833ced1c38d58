use iotide_analysis::NoSample;
use iotide_report::{
    Document, FitReport, GroupEntry, Ink, LogReport, LogSource, SignatureChart, SignatureEntry,
    SignatureReport,
};

use super::*;
use crate::plain_pages::{assert_plain_page, assert_steers_nothing};
use crate::samples::{group, signature as found};
use crate::steering::{assert_plain, hostile};

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
    let page = log_page(&report);
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
fn names_of_others_steer_neither_terminal_nor_page() {
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
    iotide_look::policy::assert_keeps_its_policy(&log_page(&log));
    assert_plain_page(&log_page(&log));
}
