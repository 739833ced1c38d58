use super::*;
use crate::forecast::to_html;
use iotide_analysis::{Clue, Parts, PhaseCause, Slowdown, Why, WhyVerdict};
use iotide_report::{
    DecisionList, Estimate, Forecast, ForecastJob, ForecastState, ForecastStorage, JobDocument, JobIo,
    JobList, JobMpi, JobRates, JobState, JobTime, NodeEntry, NodeList, Source, Trust, WatchedJob as JobEntry,
    WhyEntry, WhyRun,
};
use iotide_trace::Loss;

/// A name that would be markup, end an attribute, begin a line and turn the direction of writing; and far too long.
fn hostile() -> Untrusted {
    format!("<script>alert(1)</script>\"'><img src=x>\n\u{202e}{}", "y".repeat(100_000)).into()
}

fn entry(state: JobState) -> JobEntry {
    let name = hostile();
    JobEntry {
        job: name.clone(),
        user: name.clone(),
        app: name.clone(),
        name: name.clone(),
        program: name.clone(),
        partition: name.clone(),
        size: 4,
        nodes: vec![name.clone()],
        state,
        trust: Trust::Claimed,
        start_unix_s: 1.7e9,
        end_unix_s: (state != JobState::Running).then_some(1.7e9 + 60.0),
        read_bps: Some(1e6),
        write_bps: Some(2e6),
        cpu_s: Some(120.0),
        memory_bytes: Some(3 << 30),
        period_s: Some(10.0),
        bytes_per_phase: None,
        confidence: None,
        next_phase_unix_s: Some(1.7e9 + 100.0),
        losses: vec![name],
        staging: Vec::new(),
    }
}

fn document() -> JobDocument {
    let name = hostile();
    JobDocument {
        entry: entry(JobState::Running),
        uid: 1000,
        command: name.clone(),
        run_dir: name.clone(),
        account: name.clone(),
        alias: name.clone(),
        cluster: name.clone(),
        n_running: 4,
        n_killed: 0,
        io: JobIo::default(),
        mpi: JobMpi::default(),
        time: JobTime::default(),
        own: Vec::new(),
        build: name.clone(),
        parameters: name,
        cgroup: None,
        earlier: Vec::new(),
        rates: None,
        run_time_s: None,
        why: None,
        issues: None,
    }
}

/// A verdict on a job of which a name was lost.
fn why() -> WhyRun {
    let cause = |verdict| PhaseCause {
        start_s: 1.0,
        end_s: 9.0,
        bytes: 5e9,
        factor: Some(3.0),
        others_bps: Some(1e9),
        verdict,
    };
    let why = Why {
        verdict: WhyVerdict::Others,
        slowdown: Some(Slowdown { factor: 2.5, interval: [2.25, 2.75] }),
        parts: Parts { own: Some(0.0), others: Some(1.0), storage: Some(0.0) },
        own_factor: Some(1.0),
        phases: vec![cause(WhyVerdict::Others), cause(WhyVerdict::Usual)],
        clues: vec![Clue::NotFollowed(0.5)],
        n_history: 3,
        usual_until: Some(1.2),
        earlier: Vec::new(),
        others: None,
    };
    let losses = [Loss::of_unknown_size(hostile().as_said())];
    WhyRun::new(Source::default(), &losses, WhyEntry::new(&why), &why)
}

#[test]
fn the_page_of_a_job_says_whether_it_was_slow_and_colours_its_phases() {
    let name = hostile();
    let (job, run) = (document(), why());
    let of = |why| JobPage { job: &job, why, ..bare(&job) };
    let page = job_page(&frame(&name), &of(Some(&run)));
    assert!(page.contains("Others: the I/O took 2.5 times as long as in 3 earlier runs"), "{page}");
    assert!(page.contains("between 2.25 and 2.75 with"), "{page}");
    for key in ["phase: others", "phase: usual", "phase p3", "phase p1"] {
        assert!(page.contains(key), "{key}");
    }
    assert!(!job_page(&frame(&name), &of(None)).contains("Was it slow"), "nothing was sampled");
}

#[test]
fn the_page_of_a_job_leads_to_its_metrics_in_prometheus_if_one_is_named() {
    let name = hostile();
    let mut job = document();
    (job.entry.job, job.entry.start_unix_s, job.entry.end_unix_s) =
        ("a\"}b".into(), 1.7e9, Some(1.7e9 + 3600.0));
    let page = |prometheus| job_page(&frame(&name), &JobPage { prometheus, ..bare(&job) });
    let expression = "sum%20by%20%28op%29%20%28rate%28iotide_job_io_bytes_total%7Bjob%3D%22a%5C%22%7Db%22%7D%5B1m%5D%29%29";
    let link = format!(
        "<a href=\"https://p.example.org/x/graph?g0.expr={expression}&amp;g0.tab=0&amp;g0.range_input=3600s&amp;g0.end_input=2023-11-14%2023%3A13%3A20\">"
    );
    let with_link = page(Some("https://p.example.org/x"));
    assert!(with_link.contains(&link), "{with_link}");
    assert!(!page(None).contains("Prometheus"));
}

/// The page of a job of which nothing but its document is known.
fn bare(job: &JobDocument) -> JobPage<'_> {
    JobPage {
        job,
        why: None,
        rates: None,
        confidence: None,
        bytes_per_phase: None,
        nodes: &[],
        prometheus: None,
    }
}

fn frame<'a>(name: &'a Untrusted) -> Frame<'a> {
    Frame {
        role: Role::User,
        who: name,
        node: name,
        at: "/jobs",
        has_session: true,
        now_unix_s: 1.7e9 + 90.0,
    }
}

fn forecast() -> Forecast {
    let job = |continues: &'static str, slowdown: Option<f64>| ForecastJob {
        job: hostile(),
        uid: 1000,
        continues,
        bandwidth_bps: Some(1e6),
        burst_s: slowdown,
        burst_alone_s: slowdown.map(|_| 1.0),
        slowdown,
    };
    let banded = |mean: f64| Estimate { mean, interval: Some([0.5 * mean, 2.0 * mean]) };
    let step = |i: u32| ForecastState {
        time_s: 10.0 * f64::from(i),
        bandwidth_bps: banded(1e6),
        requests: banded(3.0),
        waiting: banded(1.0),
        utilization: 0.3,
    };
    Forecast {
        reason: None,
        repetitions: 40,
        n_jobs: 3,
        n_foretold: 2,
        state: (1..=60).map(step).collect(),
        jobs: vec![job("phases", Some(3.0)), job("unknown", None)],
        ..Forecast::none(1.7e9 + 87.0, 600.0, 0.9, "")
    }
}

/// Every page, of hostile names.
fn pages() -> Vec<(&'static str, String)> {
    let name = hostile();
    let frame = frame(&name);
    let list = JobList {
        jobs: vec![entry(JobState::Running), entry(JobState::Ended)],
        next: Some("<b>".to_owned()),
    };
    let nodes = [
        NodeShare { node: name.clone(), ..NodeShare::default() },
        NodeShare { bytes_read: 1 << 30, node: name.clone(), ..NodeShare::default() },
    ];
    let load = JobLoad {
        job: name.clone(),
        name: name.clone(),
        app: name.clone(),
        user: name.clone(),
        past_bps: vec![1.0; 300],
        ..JobLoad::default()
    };
    let application = Application {
        app: name.clone(),
        name: name.clone(),
        user: name.clone(),
        n_runs: 2,
        sizes: (1, 4),
        last_unix_s: 1.7e9,
    };
    let node = NodeEntry { node: name.clone(), version: name.clone(), ..NodeEntry::default() };
    let said = name.as_said();
    let profile: Profile = [((said.to_owned(), said.to_owned()), 3.0)].into();
    let run = || ComparedRun {
        key: name.clone(),
        n_runs: 2,
        name: name.clone(),
        size: 4.0,
        profile: profile.clone(),
    };
    let compared = [run(), run()];
    let rates = JobRates {
        period_s: 1.0,
        t0_unix_s: 1.7e9,
        read_bps: vec![0.0, 5.0, 0.0],
        write_bps: vec![1.0, 2.0, 3.0],
    };
    vec![
        (
            "jobs",
            jobs_page(
                &frame,
                &JobsPage {
                    list: &list,
                    rates: &[Some(rates.clone()), None],
                    text: &name,
                    state: "",
                    user: &name,
                },
            ),
        ),
        (
            "job",
            job_page(
                &frame,
                &JobPage {
                    job: &document(),
                    why: Some(&why()),
                    rates: Some(&rates),
                    confidence: Some(0.9),
                    bytes_per_phase: Some(1e6),
                    nodes: &nodes,
                    prometheus: Some("https://prometheus.example.org"),
                },
            ),
        ),
        (
            "load",
            load_page(
                &frame,
                LoadPage { step_s: 2.0, n_past: 300, jobs: vec![load; 2], forecast: Some(forecast()) },
            ),
        ),
        ("nodes", nodes_page(&frame, &NodeList { nodes: vec![node.clone()] })),
        ("models", models_page(&frame, &ModelsPage { applications: std::slice::from_ref(&application) })),
        (
            "traces",
            traces_page(
                &frame,
                &TracePage {
                    of: &name,
                    others: &[(name.clone(), name.clone())],
                    metrics: &[(name.clone(), true)],
                    metric: &name,
                    is_counter: true,
                    as_rate: true,
                    last_s: 600,
                    ago_s: 60,
                    t0_unix_s: 1.7e9,
                    period_s: 1.0,
                    values: &[Some(1.0), None, Some(3.0)],
                    fault: None,
                },
            ),
        ),
        (
            "profiles",
            profiles_page(
                &frame,
                &ProfilesPage {
                    runs: &list.jobs[1..],
                    chosen: [&name, &name],
                    compared: Some(&compared),
                    fault: Some(&name),
                },
            ),
        ),
        (
            "search",
            search_page(
                &frame,
                &SearchPage { text: &name, jobs: &list, applications: &[application], nodes: &[node] },
            ),
        ),
        ("plain", plain_page(&frame, "Not found", &name, "")),
        ("login", login_page(&Frame { role: Role::Nobody, ..frame.clone() }, 3, 1.0, 2.0)),
    ]
}

#[test]
fn names_are_text_on_every_page_whatever_is_in_them() {
    for (page, html) in pages() {
        assert!(!html.contains("<img src=x") && !html.contains("<script>"), "{page}: {html}");
        // The data of charts are read as JSON; nothing in them ends their element.
        for data in html.split("<script type=\"application/json\">").skip(1) {
            let data = data.split("</script>").next().unwrap();
            assert!(serde_json::from_str::<serde_json::Value>(data).is_ok(), "{page}: {data}");
        }
        assert!(!html.contains('\u{202e}'), "{page}");
        // Nothing comes from elsewhere, and nothing is styled or run in the page itself.
        assert!(
            !html.contains("http://")
                || page == "load"
                || html.matches("http://").count() == html.matches("http://www.w3.org/2000/svg").count(),
            "{page}"
        );
        assert!(!html.contains(" style=") && !html.contains(" onclick="), "{page}");
    }
}

#[test]
fn the_script_is_small_and_makes_no_markup_of_text() {
    let [script, style] = assets();
    assert!(script.text.len() <= 30_000, "{}", script.text.len());
    for word in [
        "innerHTML",
        "outerHTML =",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "http://",
        "https://",
    ] {
        let found = script.text.matches(word).count();
        assert!(
            found == 0
                || word == "http://" && found == script.text.matches("http://www.w3.org/2000/svg").count(),
            "{word}"
        );
    }
    assert!(script.path.ends_with(".js") && style.path.ends_with(".css") && script.path != style.path);
    assert!(!style.text.contains("url(") && !style.text.contains("@import"));
}

#[test]
fn a_controller_is_led_to_models_only() {
    let name = Untrusted::from("c");
    let page = plain_page(&Frame { role: Role::Controller, ..frame(&name) }, "Models", &name, "");
    assert!(page.contains("href=\"/models\"") && !page.contains("href=\"/jobs\""), "{page}");
}

#[test]
fn a_gauge_is_shown_as_its_value_and_the_form_says_so() {
    let name = Untrusted::from("main");
    let (bytes, load) = (Untrusted::from("write_bytes"), Untrusted::from("load_1min"));
    let metrics = [(bytes.clone(), true), (load.clone(), false)];
    let page = |metric: &Untrusted, is_counter, as_rate| {
        let shown = TracePage {
            of: &name,
            others: &[],
            metrics: &metrics,
            metric,
            is_counter,
            as_rate,
            last_s: 600,
            ago_s: 0,
            t0_unix_s: 1.7e9,
            period_s: 1.0,
            values: &[Some(1.0)],
            fault: None,
        };
        let html = traces_page(&frame(&name), &shown);
        html.split("name=\"as\">").nth(1).unwrap().split("</select>").next().unwrap().to_owned()
    };
    assert_eq!(page(&load, false, true), "<option value=\"rate\" selected>value</option>");
    assert_eq!(page(&load, false, false), "<option value=\"total\" selected>value</option>");
    assert_eq!(
        page(&bytes, true, true),
        "<option value=\"rate\" selected>rate (per second)</option><option value=\"total\">total</option>"
    );
}

#[test]
fn a_moment_is_marked_for_the_script() {
    assert_eq!(time(1.7e9), "<time datetime=\"2023-11-14T22:13:20Z\">2023-11-14 22:13:20 UTC</time>");
    assert_eq!(
        (until(10.0, Some(12.2)), until(10.0, Some(3.0)), until(10.0, None)),
        ("in 2 s".to_owned(), "now".to_owned(), "–".to_owned())
    );
}

#[test]
fn a_forecast_says_what_it_is_based_on_or_why_there_is_none() {
    let says = |forecast: &Forecast| to_html(forecast, 1.7e9 + 90.0);
    let shown = says(&forecast());
    assert_eq!(shown.matches("<figure").count(), 2, "{shown}");
    for part in [
        "The storage is not expected to be full.",
        "take 3 times as long as alone",
        "2 of 3 jobs that run, simulated 40 times with different chances, 3 s ago",
        "the band holds 90 % of them",
        "Not in it, for they have no period and move nothing now:",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let target = |bps| iotide_sim::system::Target { bandwidth_bps: Some(bps), ..Default::default() };
    let with = |source, n: usize| Forecast {
        storage: Some(ForecastStorage::new(source, &vec![target(1e9); n], &["bandwidth_bps".to_owned()])),
        saturated_s: Some(30.0),
        ..forecast()
    };
    let observed = says(&with("observed", 1));
    assert!(
        observed.contains("Assumed: storage as fast as the jobs") && observed.contains("at least 1 GB/s"),
        "{observed}"
    );
    assert!(observed.contains("full for the first time in 30 s"), "{observed}");
    let measured = says(&with("file", 2));
    assert!(
        measured.contains("2 targets, each at least 1 GB/s") && !measured.contains("Assumed"),
        "{measured}"
    );
    let none = says(&Forecast::none(1.7e9, 600.0, 0.9, "no job <runs>"));
    assert_eq!(none, "<p class=\"note\">Nothing can be foretold: no job &lt;runs&gt;.</p>\n");
    // Who sees no job sees sums.
    let seen = forecast().seen_by(|uid| uid != 1000);
    assert!(seen.jobs.is_empty() && seen.state.len() == 60);
}

#[test]
fn whom_a_decision_harmed_is_shown_with_what_it_cost() {
    let list =
        DecisionList { acting: true, decisions: vec![crate::samples::undone()], ..DecisionList::default() };
    let name = Untrusted::from("n1");
    let page = decisions_page(&frame(&name), &list);
    assert!(page.contains("&lt;long&gt;</a> lost 5.0 % of its time"), "{page}");
}
