use super::*;
use crate::leaf::JobView;
use iotide_ledger::series::points;
use iotide_ledger::{About, Cell, JobId, Metric, Name};
use iotide_testkit::FreshDir;
use std::fs;

fn key(id: &str) -> JobKey {
    JobKey { cluster: Name::default(), uid: 1000, id: JobId::new(id).unwrap(), start_ns: 5 }
}

fn view(bytes: Option<u64>) -> Arc<View> {
    let name = |text: &str| Name::cut(text.as_bytes());
    let job = |bytes| {
        let metric = Metric::Io { op: "write".into(), layer: "posix".into(), fs: name("/") };
        let counters: Counters =
            [(metric, Cell { calls: bytes / 100, bytes, ns: bytes * 3 })].into_iter().collect();
        let about =
            About { user: name("ada"), app: name("app"), name: name("app"), size: 1, ..About::default() };
        JobView {
            key: key("a"),
            about,
            counters: Arc::new(counters),
            nodes: Vec::new().into(),
            n_running: 2,
            read_bps: 0.0,
            write_bps: 0.0,
        }
    };
    Arc::new(View { node: name("n1"), jobs: bytes.map(job).into_iter().collect(), ..View::default() })
}

fn keeper(dir: &FreshDir, limits: SeriesLimits) -> Keeper {
    let folder = series::open_directory(dir.path()).unwrap();
    Keeper::new(Series(Arc::new(Shared { folder, held: Mutex::default() })), limits)
}

fn tell(keeper: &mut Keeper, second: u64, bytes: Option<u64>) {
    let node = NodeReading { load: Some([second as f64 / 100.0, 0.5, 0.25]), ..NodeReading::default() };
    keeper.hear(&Tick {
        now_ns: second * SECOND_NS + 7,
        view: view(bytes),
        node: Arc::new(node),
        groups: Arc::default(),
        last: Vec::new(),
        late: Vec::new(),
    });
}

/// Period, number of points, and the last value of a metric of the job.
fn shown(series: &Series, metric: &str) -> (u64, usize, Sample) {
    let found = series.find(&Owner::Job(key("a")), |name| name == metric).unwrap();
    assert!(found.losses.is_empty(), "{:?}", found.losses);
    let (id, _) = found.columns.find(metric).unwrap();
    let points = points(found.pieces.iter(), id, (0, u64::MAX), usize::MAX).unwrap();
    (points.period_s(), points.values.iter().flatten().count(), points.values.last().unwrap().unwrap().0)
}

#[test]
fn every_second_of_a_job_is_there_while_it_runs_when_it_has_ended_and_after_a_restart() {
    let dir = FreshDir::new("sampled");
    let mut one = keeper(&dir, SeriesLimits::default());
    for second in 0..200 {
        tell(&mut one, 1000 + second, Some(second * 50));
        if second % 10 == 0 {
            assert_eq!(
                shown(&one.series, "write_bytes"),
                (1, second as usize + 1, Sample::Counter(second * 50))
            );
        }
    }
    let series = one.series.clone();
    // It ends: the rest is written, and nothing is held any more.
    tell(&mut one, 1200, None);
    assert_eq!(series.held().open.len(), 1, "the machine's");
    assert_eq!(shown(&series, "write_ns"), (1, 200, Sample::Counter(199 * 150)));
    assert_eq!(shown(&series, "processes").2, Sample::Gauge(2.0));
    // It goes on with a daemon that was started again.
    let mut two = keeper(&dir, SeriesLimits::default());
    tell(&mut two, 1300, Some(20_000));
    assert_eq!(shown(&two.series, "write_bytes"), (1, 201, Sample::Counter(20_000)));
    assert_eq!(two.series.take_losses(), []);
    let days = one
        .series
        .find_days(|day| Owner::Node { node: "n1".to_owned(), day }, (1000, 1300), |name| name == "load1")
        .unwrap();
    assert_eq!((days.len(), days[0].columns.find("load1").is_some()), (1, true));
}

#[test]
fn a_job_that_is_over_its_budget_is_folded_again_and_again_and_keeps_its_totals() {
    let dir = FreshDir::new("sampled-budget");
    let limits = SeriesLimits { file_bytes: 8192, ..SeriesLimits::default() };
    let mut keeper = keeper(&dir, limits);
    let mut bytes = 0;
    for second in 0..20_000u64 {
        // Hardly any order in it, so that it takes room.
        bytes += second.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44;
        tell(&mut keeper, 1_000_000 + second, Some(bytes));
    }
    let (period, n, last) = shown(&keeper.series, "write_bytes");
    assert!(period >= 4 && period.is_power_of_two(), "{period}");
    assert!((20_000 / period as usize..=20_000 / period as usize + 2).contains(&n), "{n}");
    assert_eq!(last, Sample::Counter(bytes));
    tell(&mut keeper, 1_020_000, None);
    let job = names_of(&key("a")).0;
    let length = fs::metadata(dir.join("series").join(job)).unwrap().len();
    assert!(length < 2 * 8192, "{length}");
    assert_eq!(keeper.series.take_losses(), []);
}

#[test]
fn what_cannot_be_written_is_held_in_bounds_tried_again_and_named() {
    let dir = FreshDir::new("sampled-refused");
    let mut keeper = keeper(&dir, SeriesLimits::default());
    // A directory in the place of the file cannot be written to, whoever we are.
    let in_the_way = dir.join("series").join(names_of(&key("a")).0);
    tell(&mut keeper, 1000, Some(1));
    fs::create_dir(&in_the_way).unwrap();
    for second in 1..2000 {
        tell(&mut keeper, 1000 + second, Some(second));
    }
    let fault = keeper.series.fault().unwrap();
    assert!(fault.starts_with("series: metrics over time are not stored"), "{fault}");
    let n_held = keeper.series.held().open[&Owner::Job(key("a"))].rows.ticks().len();
    assert!((MAX_TICKS / 2..=MAX_TICKS).contains(&n_held), "{n_held}");
    fs::remove_dir(&in_the_way).unwrap();
    for second in 2000..2010 {
        tell(&mut keeper, 1000 + second, Some(second));
    }
    assert_eq!(keeper.series.fault(), None);
    let losses = keeper.series.take_losses();
    assert!(
        matches!(&losses[..], [(Some(job), what)] if *job == key("a") && what.contains("seconds were not stored")),
        "{losses:?}"
    );
    assert_eq!(shown(&keeper.series, "write_bytes").2, Sample::Counter(2009));
}

#[test]
fn jobs_that_end_between_two_samples_have_all_they_counted_however_many_end_at_once() {
    let dir = FreshDir::new("ended");
    let mut keeper = keeper(&dir, SeriesLimits::default());
    let last = (0..MOST_WAITING as u64 + 50).map(|n| {
        let counters = view(Some(n * 100)).jobs[0].counters.as_ref().clone();
        Last { now_ns: 1000 * SECOND_NS + n, key: key(&format!("short-{n}")), counters }
    });
    let last: Vec<Last> = last.collect();
    let tick = Tick {
        now_ns: 1001 * SECOND_NS,
        view: view(None),
        node: Arc::default(),
        groups: Arc::default(),
        last: last.clone(),
        late: Vec::new(),
    };
    keeper.hear(&tick);
    assert_eq!(keeper.series.held().open.len(), 1, "the machine's");
    assert!(keeper.files.len() <= 1 && keeper.series.take_losses().is_empty());
    for (n, Last { key, .. }) in last.into_iter().enumerate() {
        let found = keeper.series.find(&Owner::Job(key), |name| name == "write_bytes").unwrap();
        let (id, _) = found.columns.find("write_bytes").unwrap();
        let values: Vec<_> = found.pieces.iter().flat_map(|rows| rows.column(id)).collect();
        assert_eq!(values, [(1000, Sample::Counter(n as u64 * 100), 1)]);
    }
}

#[test]
fn what_machines_below_count_is_in_the_sum_of_all_and_not_in_that_of_this_one() {
    let dir = FreshDir::new("sampled-tree");
    let mut one = keeper(&dir, SeriesLimits::default());
    let sum_of = |bytes: u64| {
        let View { jobs, .. } = Arc::unwrap_or_clone(view(Some(bytes)));
        Counters::clone(&jobs[0].counters)
    };
    for second in 0..3 {
        let view = View {
            total: sum_of(100 * second),
            elsewhere: if second == 0 { Counters::default() } else { sum_of(1000 * second) },
            ..Arc::unwrap_or_clone(view(None))
        };
        one.hear(&Tick {
            now_ns: (1000 + second) * SECOND_NS,
            view: Arc::new(view),
            node: Arc::default(),
            groups: Arc::default(),
            last: Vec::new(),
            late: Vec::new(),
        });
    }
    let values = |on: &dyn Fn(u64) -> Owner| {
        let found = one.series.find_days(on, (1000, 1002), |name| name == "write_bytes").unwrap();
        let (id, _) = found[0].columns.find("write_bytes").unwrap();
        let points = points(found[0].pieces.iter(), id, (0, u64::MAX), usize::MAX).unwrap();
        points.values.iter().flatten().map(|(sample, ..)| *sample).collect::<Vec<_>>()
    };
    let own = values(&|day| Owner::Node { node: "n1".to_owned(), day });
    assert_eq!(own, [0, 100, 200].map(Sample::Counter));
    assert_eq!(
        values(&|day| Owner::Tree { day }),
        [1100, 2200].map(Sample::Counter),
        "once there is one below"
    );
}

#[test]
fn files_of_jobs_are_told_from_those_of_machines_whatever_the_jobs_are_called() {
    use crate::store::series::is_of_job;
    for id in ["a", "node", "tree", "node.7"] {
        assert!(is_of_job(&names_of(&key(id)).0), "{id}");
    }
    assert!(!is_of_job(&names_of_node("n1.example.org", 20_000).0));
    assert!(!is_of_job(&names_of_tree(20_000).0));
}

/// Seconds and what the job had written by then.
fn seconds(series: &Series) -> Vec<(u64, u64)> {
    let found = series.find(&Owner::Job(key("a")), |name| name == "write_bytes").unwrap();
    let (id, _) = found.columns.find("write_bytes").unwrap();
    let values = found.pieces.iter().flat_map(|rows| rows.column(id).collect::<Vec<_>>());
    values
        .map(|(tick, sample, _)| match sample {
            Sample::Counter(bytes) => (tick, bytes),
            Sample::Gauge(_) => panic!("no counter"),
        })
        .collect()
}

#[test]
fn what_comes_late_is_in_its_seconds_in_memory_on_disk_and_after_the_end() {
    // How long ago the silence is when what was missed comes, and whether the job has ended by then.
    for (silence, after, has_ended) in [(20, 1, false), (20, 150, false), (100, 30, false), (50, 20, true)] {
        let dir = FreshDir::new(&format!("sampled-late-{silence}-{after}-{has_ended}"));
        let mut keeper = keeper(&dir, SeriesLimits::default());
        let (from, until) = (1030, 1030 + silence);
        let end = until + after;
        for second in 1000..end {
            // For one second within, the daemon itself was away.
            if second != from + 5 {
                let known = if (from..until).contains(&second) { from - 1 } else { second };
                tell(&mut keeper, second, Some((known - 1000) * 100));
            }
        }
        if has_ended {
            tell(&mut keeper, end, None);
        }
        let Some(JobView { counters, .. }) = view(Some(100)).jobs.first().cloned() else { panic!() };
        for from_s in from..until {
            let late = LateJob { key: key("a"), from_s, until_s: until, added: Counters::clone(&counters) };
            keeper.late.take(end, &late);
        }
        for second in end + 1..end + 5 {
            tell(&mut keeper, second, (!has_ended).then_some((second - 1000) * 100));
        }
        let last = if has_ended { end } else { end + 5 };
        let truth =
            (1000..last).filter(|second| *second != end).map(|second| (second, (second - 1000) * 100));
        assert_eq!(seconds(&keeper.series), truth.collect::<Vec<_>>(), "{silence} {after} {has_ended}");
        assert_eq!(keeper.series.take_losses(), []);
    }
}

#[test]
fn of_hundreds_of_jobs_that_have_ended_no_room_is_kept() {
    let dir = FreshDir::new("series-room");
    let mut keeper = keeper(&dir, SeriesLimits::default());
    let job = view(Some(100)).jobs[0].clone();
    let with_id = |n: u32| JobView { key: key(&n.to_string()), ..job.clone() };
    let many = View { jobs: (0..300).map(with_id).collect(), ..View::clone(&view(None)) };
    let tick = |second: u64, view: Arc<View>| Tick {
        now_ns: second * SECOND_NS,
        view,
        node: Arc::default(),
        groups: Arc::default(),
        last: Vec::new(),
        late: Vec::new(),
    };
    keeper.hear(&tick(100, Arc::new(many)));
    assert!(keeper.files.capacity() >= 300 && keeper.series.held().open.capacity() >= 300);
    keeper.hear(&tick(101, view(None)));
    let open = &keeper.series.held().open;
    // The machine's own are still there.
    assert_eq!((keeper.files.len(), open.len()), (1, 1));
    assert!(keeper.files.capacity() < 130, "{}", keeper.files.capacity());
    assert!(open.capacity() < 130, "{}", open.capacity());
}
