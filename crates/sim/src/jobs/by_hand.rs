//! Schedules that can be reckoned with a pencil: what each rule of a policy is for, and what goes wrong without it.

use iotide_sched::jobs::{JobPolicy, PolicyKnobs};

use super::{JobsWorkload, run_jobs};

/// Each job's start and end in seconds, and its sizes.
fn told_with(knobs: &PolicyKnobs, policy: &str, workload: &str) -> Vec<String> {
    let workload = JobsWorkload::from_json(workload).unwrap();
    let policy = JobPolicy::from_name(policy).unwrap();
    let (_, schedule) = run_jobs(&workload, policy, knobs, false);
    let seconds = |at_ms: Option<i64>| at_ms.map_or(f64::NAN, |at_ms| at_ms as f64 / 1e3);
    let told = workload.jobs.iter().zip(&schedule.jobs).map(|(job, fate)| {
        let mut sizes = fate.nodes.map_or(String::new(), |nodes| nodes.to_string());
        for resize in &fate.resizes {
            sizes += &format!(", {} from {}", resize.to, seconds(Some(resize.at_ms)));
        }
        format!("{}: {} to {}, on {sizes}", job.id, seconds(fate.start_ms), seconds(fate.end_ms))
    });
    told.collect()
}

fn told(policy: &str, workload: &str) -> Vec<String> {
    told_with(&PolicyKnobs::default(), policy, workload)
}

/// A malleable job on two of four nodes, and a rigid one on the others until `freed_s`; a change of size costs 10 s.
fn beside_a_rigid_job(freed_s: u32) -> String {
    format!(
        r#"{{"nodes": 4, "alpha_s": 10, "jobs": [
            {{"id": "rigid", "submit_s": 0, "nodes": 2, "runtime_s": {freed_s}}},
            {{"id": "m", "kind": "malleable", "submit_s": 0, "nodes": 2, "nodes_min": 2, "nodes_max": 4, "runtime_s": 100}}]}}"#
    )
}

#[test]
fn tide_grows_a_job_only_if_that_pays_for_the_way_there_and_back() {
    // 60 s are left: 30 s and two pauses are less.
    assert_eq!(told("tide", &beside_a_rigid_job(40))[1], "m: 0 to 80, on 2, 4 from 40");
    // 30 s are left: 15 s and two pauses are more, if one alone would be less.
    assert_eq!(told("tide", &beside_a_rigid_job(70))[1], "m: 0 to 100, on 2");
}

/// Six nodes: a rigid job has two for 50 s, `flat` one, and `steep` three, which would gain by more.
const FLAT_AND_STEEP: &str = r#"{"nodes": 6, "jobs": [
    {"id": "rigid", "submit_s": 0, "nodes": 2, "runtime_s": 50},
    {"id": "flat", "kind": "malleable", "submit_s": 0, "nodes": 1, "nodes_max": 6, "runtime_s": 100, "times_s": {"1": 100, "6": 100}},
    {"id": "steep", "kind": "malleable", "submit_s": 0, "nodes": 3, "nodes_min": 3, "nodes_max": 6, "runtime_s": 100}]}"#;

#[test]
fn tide_gives_nodes_to_who_gains_by_them_and_to_nobody_else() {
    // On one node `flat` stands lowest, but what it has no use for goes to the other: five nodes instead of three for the second half.
    let expected = ["rigid: 0 to 50, on 2", "flat: 0 to 100, on 1", "steep: 0 to 80, on 3, 5 from 50"];
    assert_eq!(told("tide", FLAT_AND_STEEP), expected);
    // Nor is it given more at its start.
    let alone = r#"{"nodes": 6, "jobs": [{"id": "flat", "kind": "malleable", "submit_s": 0, "nodes": 2, "nodes_min": 1,
        "nodes_max": 6, "runtime_s": 100, "times_s": {"1": 100, "6": 100}}]}"#;
    assert_eq!(told("tide", alone), ["flat: 0 to 100, on 1"]);
}

#[test]
fn tide_takes_no_more_than_who_starts_needs() {
    // Two of eight nodes are free, since neither job can use them; who comes needs three. What `flat` leaves at 100 s makes up for the one.
    let workload = r#"{"nodes": 8, "jobs": [
        {"id": "large", "kind": "malleable", "submit_s": 0, "nodes": 5, "nodes_min": 1, "nodes_max": 5, "runtime_s": 100},
        {"id": "flat", "kind": "malleable", "submit_s": 0, "nodes": 1, "nodes_max": 8, "runtime_s": 100, "times_s": {"1": 100, "8": 100}},
        {"id": "rigid", "submit_s": 20, "nodes": 3, "runtime_s": 500}]}"#;
    let expected =
        ["large: 0 to 116, on 5, 4 from 20, 5 from 100", "flat: 0 to 100, on 1", "rigid: 20 to 520, on 3"];
    assert_eq!(told("tide", workload), expected);
    // One of nine is free, and two more are needed. A third would not come back: a pause of 50 s is too dear.
    let workload = r#"{"nodes": 9, "alpha_s": 50, "jobs": [
        {"id": "large", "kind": "malleable", "submit_s": 0, "nodes": 6, "nodes_min": 1, "nodes_max": 6, "runtime_s": 100},
        {"id": "other", "submit_s": 0, "nodes": 2, "runtime_s": 25},
        {"id": "rigid", "submit_s": 10, "nodes": 3, "runtime_s": 500}]}"#;
    assert_eq!(told("tide", workload)[0], "large: 0 to 195, on 6, 4 from 10");
}

#[test]
fn tide_starts_jobs_small_only_if_they_can_grow_later() {
    let workload = |kind: &str| {
        format!(
            r#"{{"nodes": 4, "jobs": [
                {{"id": "rigid", "submit_s": 0, "nodes": 3, "runtime_s": 100}},
                {{"id": "next", "kind": "{kind}", "submit_s": 0, "nodes": 2, "nodes_min": 1, "nodes_max": 4, "runtime_s": 100}}]}}"#
        )
    };
    // Half its work is done on one node, the rest on four.
    assert_eq!(told("tide", &workload("malleable"))[1], "next: 0 to 125, on 1, 4 from 100");
    for kind in ["moldable", "evolving"] {
        assert_eq!(told("tide", &workload(kind))[1], "next: 100 to 200, on 2", "{kind}");
    }
}

#[test]
fn tide_counts_what_a_job_holds_that_cannot_be_resized_now() {
    // `io` is in its only phase and keeps its four nodes until 100 s. Then the head can start, unless `long` was let in before it.
    let workload = r#"{"nodes": 6, "storage": {"bandwidth_bps": 1e9}, "jobs": [
        {"id": "io", "kind": "malleable", "submit_s": 0, "nodes": 4, "nodes_min": 1, "nodes_max": 4, "runtime_s": 100,
         "io": {"bytes": 1e10, "phases": 1}},
        {"id": "head", "submit_s": 10, "nodes": 6, "runtime_s": 10},
        {"id": "long", "submit_s": 10, "nodes": 1, "runtime_s": 1000},
        {"id": "short", "submit_s": 10, "nodes": 1, "runtime_s": 90}]}"#;
    let expected =
        ["io: 0 to 100, on 4", "head: 100 to 110, on 6", "long: 110 to 1110, on 1", "short: 10 to 100, on 1"];
    assert_eq!(told("tide", workload), expected);
}

#[test]
fn tide_lends_to_backfilling_and_keeps_the_promise_to_the_head() {
    // The head needs all eight nodes. `m` has six of them and two are held until 100 s: then it starts. Lent nodes are for who is out of the way by then.
    let workload = r#"{"nodes": 8, "jobs": [
        {"id": "rigid", "submit_s": 0, "nodes": 2, "runtime_s": 100},
        {"id": "m", "kind": "malleable", "submit_s": 0, "nodes": 6, "nodes_min": 2, "nodes_max": 6, "runtime_s": 40, "serial_fraction": 0},
        {"id": "head", "submit_s": 10, "nodes": 8, "runtime_s": 10},
        {"id": "late", "submit_s": 10, "nodes": 1, "runtime_s": 101},
        {"id": "fits", "submit_s": 10, "nodes": 4, "runtime_s": 60}]}"#;
    // Thirty seconds on six nodes are ninety on two: the head is promised 100 s, and `fits` ends at 70 s, then `m` goes on on six.
    let told = told("tide", workload);
    assert_eq!(told[2], "head: 100 to 110, on 8", "{told:?}");
    assert_eq!(told[3], "late: 110 to 211, on 1");
    assert_eq!(told[4], "fits: 10 to 70, on 4");
    assert_eq!(told[1], "m: 0 to 80, on 6, 2 from 10, 6 from 70");
}

/// A malleable job on the whole machine, and one of a higher priority that comes at `at_s`.
fn a_higher_priority_comes(at_s: u32) -> String {
    format!(
        r#"{{"nodes": 4, "jobs": [
            {{"id": "m", "kind": "malleable", "submit_s": 0, "nodes": 4, "nodes_min": 1, "nodes_max": 4, "runtime_s": 100}},
            {{"id": "urgent", "submit_s": {at_s}, "nodes": 2, "runtime_s": 1000, "priority": 1}}]}}"#
    )
}

#[test]
fn mebf_shrinks_for_a_higher_priority_unless_the_end_is_near() {
    let urgent = |policy, at_s| told(policy, &a_higher_priority_comes(at_s))[1].clone();
    for policy in ["mebf-hand-off", "mebf-aggressive", "mebf-hand-off+", "mebf-aggressive+"] {
        assert_eq!(urgent(policy, 50), "urgent: 50 to 1050, on 2", "{policy}");
        assert_eq!(urgent(policy, 80), "urgent: 100 to 1100, on 2", "{policy}");
    }
    // Three tenths of four nodes are one, and it needs two.
    assert_eq!(urgent("mebf-keep-spare", 50), "urgent: 100 to 1100, on 2");
    let equals = a_higher_priority_comes(50).replace("\"priority\": 1", "\"priority\": 0");
    assert_eq!(told("mebf-aggressive", &equals)[1], "urgent: 100 to 1100, on 2");
}

#[test]
fn mebf_believes_the_paper_and_its_corrected_form_the_job() {
    // Half its nodes: 1.5 times as long by equation 4.2, twice as long in truth.
    let knobs = PolicyKnobs { gamma: 1.9, ..PolicyKnobs::default() };
    let urgent = |policy| told_with(&knobs, policy, &a_higher_priority_comes(50))[1].clone();
    assert_eq!(urgent("mebf-aggressive"), "urgent: 50 to 1050, on 2");
    assert_eq!(urgent("mebf-aggressive+"), "urgent: 100 to 1100, on 2");
    let knobs = PolicyKnobs { gamma: 1.4, ..PolicyKnobs::default() };
    let urgent = told_with(&knobs, "mebf-aggressive", &a_higher_priority_comes(50))[1].clone();
    assert_eq!(urgent, "urgent: 100 to 1100, on 2");
}

#[test]
fn what_has_grown_is_shrunk_in_the_second_way_alone() {
    // It grows from two to four nodes at once, and gives two of them back when somebody of a higher priority comes.
    let workload = r#"{"nodes": 4, "jobs": [
        {"id": "m", "kind": "malleable", "submit_s": 0, "nodes": 2, "nodes_min": 1, "nodes_max": 4, "runtime_s": 100},
        {"id": "urgent", "submit_s": 10, "nodes": 2, "runtime_s": 30, "priority": 1}]}"#;
    let literal = ["m: 0 to 50, on 2, 4 from 0", "urgent: 50 to 80, on 2"];
    assert_eq!(told("mebf-aggressive", workload), literal);
    let second = ["m: 0 to 65, on 2, 4 from 0, 2 from 10, 4 from 40", "urgent: 10 to 40, on 2"];
    assert_eq!(told("mebf-aggressive-shrinkable", workload), second);
}

#[test]
fn the_corrected_form_lends_nodes_that_the_head_of_the_queue_has_no_use_for() {
    // Two nodes are free until 100 s, when the head needs all. Twice as large `m` is done by then, but with a limit of 300 s nobody can count on it.
    let workload = |limit_s: u32| {
        format!(
            r#"{{"nodes": 6, "jobs": [
                {{"id": "rigid", "submit_s": 0, "nodes": 2, "runtime_s": 100}},
                {{"id": "m", "kind": "malleable", "submit_s": 0, "nodes": 2, "nodes_min": 2, "nodes_max": 4, "runtime_s": 95, "walltime_s": {limit_s}}},
                {{"id": "head", "submit_s": 0, "nodes": 4, "runtime_s": 10}}]}}"#
        )
    };
    assert_eq!(told("mebf-aggressive+", &workload(95))[1], "m: 0 to 47.5, on 2, 4 from 0");
    assert_eq!(told("mebf-aggressive+", &workload(300))[1], "m: 0 to 95, on 2");
    assert_eq!(told("mebf-aggressive", &workload(300))[1], "m: 0 to 47.5, on 2, 4 from 0");
}
