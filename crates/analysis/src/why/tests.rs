use iotide_num::SplitMix64;
use iotide_trace::Op;
use proptest::prelude::*;

use super::*;

/// Two ranks, eight phases of an open, two small writes and four large ones; `slow` is how much longer phase `i` takes.
fn requests(zero_unix_s: f64, seed: u64, size: f64, slow: impl Fn(usize) -> f64) -> RunRequests {
    let mut random = SplitMix64::new(seed);
    let mut requests = Vec::new();
    let mut at_s = 1.0;
    for phase in 0..8 {
        let mut longest_s: f64 = 0.0;
        for rank in 0..2 {
            let mut now_s = at_s;
            let mut call = |op, bytes: f64, takes_s: f64| {
                let takes_s = takes_s * slow(phase) * (0.02 * random.normal()).exp();
                requests.push(Request {
                    op,
                    rank,
                    start_s: now_s,
                    end_s: now_s + takes_s,
                    bytes,
                    calls: 1.0,
                });
                now_s += takes_s;
            };
            call(Op::Open, 0.0, 0.01);
            for _ in 0..2 {
                call(Op::Write, 1e5, 0.011);
            }
            for _ in 0..4 {
                call(Op::Write, size * 1e8, 0.01 + 2.0 * size);
            }
            longest_s = longest_s.max(now_s - at_s);
        }
        at_s += longest_s + 20.0;
    }
    RunRequests { zero_unix_s: Some(zero_unix_s), run_s: Some(at_s), requests, ..RunRequests::default() }
}

const DAY_S: f64 = 86_400.0;
const START_S: f64 = 1.7e9;
/// Capacity of the storage of the made logs: the program asks for half of it.
const CAPACITY_BPS: f64 = 2e8;

fn quiet(day: u64) -> RunRequests {
    requests(START_S + DAY_S * day as f64, day, 1.0, |_| 1.0)
}

fn earlier(n: u64) -> Vec<RunRequests> {
    (0..n).map(quiet).collect()
}

/// The log of all runs: what each moved, and 150 MB/s of others in the phases that they slowed down, 20 MB/s elsewhere.
fn log(runs: &[&RunRequests], step_s: f64, others: impl Fn(usize, f64) -> f64) -> ServerLoad {
    let start_s = START_S - 100.0;
    let n = ((runs.len() as f64 + 1.0) * DAY_S / step_s) as usize;
    let mut load = ServerLoad {
        grid: LoadGrid { start_s, step_s },
        read_bps: vec![f64::NAN; n],
        written_bps: vec![f64::NAN; n],
        is_same_clock: false,
    };
    for (i, run) in runs.iter().enumerate() {
        let zero_s = run.zero_unix_s.unwrap_or(0.0);
        let first = ((zero_s - 50.0 - start_s) / step_s) as usize;
        let last = ((zero_s + run.run_s.unwrap_or(0.0) + 50.0 - start_s) / step_s) as usize;
        for cell in first..last {
            let from_s = start_s + cell as f64 * step_s - zero_s;
            let own: f64 = (run.requests.iter())
                .map(|request| {
                    let inside = (request.end_s.min(from_s + step_s) - request.start_s.max(from_s)).max(0.0);
                    request.bytes * inside / (request.end_s - request.start_s)
                })
                .sum();
            load.read_bps[cell] = 0.0;
            load.written_bps[cell] = own / step_s + others(i, from_s + 0.5 * step_s);
        }
    }
    load
}

fn facts(runs: &[RunRequests], load: Option<&ServerLoad>) -> Vec<RunFacts> {
    runs.iter().map(|run| RunFacts::of(run.clone(), load.map(|load| load.grid))).collect()
}

fn ask(run: &RunRequests, history: &[RunRequests], load: Option<&ServerLoad>) -> Why {
    why(&facts(std::slice::from_ref(run), load)[0], &facts(history, load), load)
}

/// A run of which phases 2 to 5 took 2.5 times as long, while others moved what the program did not get.
fn disturbed() -> (RunRequests, Vec<RunRequests>, ServerLoad) {
    let history = earlier(6);
    let run =
        requests(START_S + 6.0 * DAY_S, 99, 1.0, |phase| if (2..6).contains(&phase) { 2.5 } else { 1.0 });
    let phases = RunFacts::of(run.clone(), None).phases;
    let (from_s, until_s) = (phases[2].start_s - 5.0, phases[5].end_s + 5.0);
    let mut runs: Vec<&RunRequests> = history.iter().collect();
    runs.push(&run);
    let load = log(&runs, 2.0, |i, at_s| {
        let busy = phases.iter().any(|phase| (phase.start_s..phase.end_s).contains(&at_s));
        match i == 6 && (from_s..until_s).contains(&at_s) {
            true if busy => CAPACITY_BPS - 0.4 * 1e8,
            true => CAPACITY_BPS,
            false => 2e7,
        }
    });
    (run, history, load)
}

#[test]
fn a_run_like_earlier_ones_is_usual() {
    let history = earlier(6);
    let why = ask(&quiet(9), &history, None);
    assert_eq!(why.verdict, Verdict::Usual);
    assert_eq!((why.n_history, why.phases.len(), why.parts), (6, 8, Parts::default()));
    let Slowdown { factor, interval: [low, high] } = why.slowdown.unwrap();
    assert!((factor - 1.0).abs() < 0.03 && low < factor && factor < high, "{factor}");
}

#[test]
fn copies_of_a_run_on_other_days_make_it_usual() {
    let run = quiet(9);
    let copies: Vec<RunRequests> = (1..5)
        .map(|day| RunRequests { zero_unix_s: Some(START_S + (20 + day) as f64 * DAY_S), ..run.clone() })
        .collect();
    let why = ask(&run, &copies, None);
    assert_eq!(why.verdict, Verdict::Usual);
    assert!((why.slowdown.unwrap().factor - 1.0).abs() < 1e-9);
}

#[test]
fn without_a_log_the_programs_own_requests_can_be_told_and_nothing_else() {
    let history = earlier(6);
    let slow = requests(START_S + 9.0 * DAY_S, 9, 1.0, |_| 2.0);
    let why = ask(&slow, &history, None);
    assert_eq!(why.verdict, Verdict::Unknown);
    assert_eq!(why.parts, Parts { own: Some(0.0), others: None, storage: None });
    assert!(why.clues.contains(&Clue::NoLog), "{:?}", why.clues);

    let mut twice = quiet(9);
    let more: Vec<Request> = twice
        .requests
        .iter()
        .map(|request| Request { start_s: request.start_s + 300.0, end_s: request.end_s + 300.0, ..*request })
        .collect();
    twice.requests.extend(more);
    let why = ask(&twice, &history, None);
    assert_eq!(why.verdict, Verdict::Own);
    assert!(matches!(why.clues[0], Clue::Changed { what: Change::Bytes, .. }), "{:?}", why.clues);
}

#[test]
fn calls_of_a_new_kind_are_the_programs_own() {
    let mut run = quiet(9);
    let ends: Vec<f64> = RunFacts::of(run.clone(), None).phases.iter().map(|phase| phase.end_s).collect();
    run.requests.extend(ends.iter().map(|&end_s| Request {
        op: Op::Sync,
        rank: 0,
        start_s: end_s - 0.2,
        end_s: end_s + 12.0,
        bytes: 0.0,
        calls: 1.0,
    }));
    let why = ask(&run, &earlier(6), None);
    assert_eq!(why.verdict, Verdict::Own);
    assert!(matches!(why.clues[0], Clue::Changed { what: Change::Sync, .. }), "{:?}", why.clues);
}

#[test]
fn others_are_blamed_where_they_filled_the_storage() {
    let (run, history, load) = disturbed();
    let why = ask(&run, &history, Some(&load));
    assert_eq!(why.verdict, Verdict::Others, "{why:?}");
    assert!(why.parts.others.unwrap() > 0.8, "{:?}", why.parts);
    let verdicts: Vec<Verdict> = why.phases.iter().map(|phase| phase.verdict).collect();
    let (usual, others) = (Verdict::Usual, Verdict::Others);
    assert_eq!(verdicts, [usual, usual, others, others, others, others, usual, usual]);
}

#[test]
fn a_slow_run_beside_a_small_load_blames_the_storage() {
    let history = earlier(6);
    let run = requests(START_S + 6.0 * DAY_S, 99, 1.0, |_| 2.0);
    let mut runs: Vec<&RunRequests> = history.iter().collect();
    runs.push(&run);
    let load = log(&runs, 2.0, |_, _| 2e7);
    let why = ask(&run, &history, Some(&load));
    assert_eq!(why.verdict, Verdict::Storage, "{why:?}");
}

#[test]
fn a_log_of_another_storage_tells_nothing() {
    let (run, history, mut load) = disturbed();
    load.written_bps.iter_mut().for_each(|bps| *bps *= 0.1);
    let why = ask(&run, &history, Some(&load));
    assert_eq!(why.verdict, Verdict::Unknown);
    assert!(why.clues.iter().any(|clue| matches!(clue, Clue::LogForeign(_))), "{:?}", why.clues);
}

#[test]
fn a_clock_that_is_ahead_is_told_and_taken_off() {
    let (run, history, mut load) = disturbed();
    load.grid.start_s += 6.0;
    let why = ask(&run, &history, Some(&load));
    assert_eq!(why.verdict, Verdict::Others);
    let offset = why.clues.iter().find_map(|clue| if let Clue::Offset(s) = clue { Some(*s) } else { None });
    assert!((offset.unwrap() - 6.0).abs() <= 2.0, "{offset:?}");
}

#[test]
fn requests_of_one_size_do_not_tell_what_others_cost() {
    let one_size = |day: u64, bytes: f64, seconds: f64| RunRequests {
        zero_unix_s: Some(START_S + day as f64 * DAY_S),
        requests: (0..20)
            .map(|i| {
                let start_s = 20.0 * f64::from(i);
                Request { op: Op::Write, rank: 0, start_s, end_s: start_s + seconds, bytes, calls: 1.0 }
            })
            .collect(),
        ..RunRequests::default()
    };
    let history: Vec<RunRequests> = (0..5).map(|day| one_size(day, 1e8, 2.0 + 0.01 * day as f64)).collect();
    let why = ask(&one_size(9, 4e8, 5.0), &history, None);
    assert_eq!(why.verdict, Verdict::Unknown);
    assert!(matches!(why.clues[0], Clue::OneSize(_)), "{:?}", why.clues);
}

fn same(a: &Why, b: &Why) -> bool {
    let factor = |why: &Why| why.slowdown.map_or(1.0, |slowdown| slowdown.factor);
    a.verdict == b.verdict && (factor(a) / factor(b) - 1.0).abs() < 0.01
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn neither_order_nor_names_nor_repetition_change_the_answer(seed in 0_u64..1000, with_log in any::<bool>()) {
        let (run, history, load) = disturbed();
        let load = with_log.then_some(&load);
        let before = ask(&run, &history, load);
        let mut random = SplitMix64::new(seed);
        let mut shuffled = run.clone();
        for i in (1..shuffled.requests.len()).rev() {
            shuffled.requests.swap(i, random.below(i + 1));
        }
        shuffled.requests.iter_mut().for_each(|request| request.rank = 7 - 3 * request.rank);
        let mut again = history.clone();
        again.push(history[random.below(history.len())].clone());
        again.push(run.clone());
        let by = random.below(again.len());
        again.rotate_left(by);
        let after = ask(&shuffled, &again, load);
        prop_assert_eq!(before.verdict, after.verdict);
        prop_assert_eq!(before.n_history, after.n_history);
        let (a, b) = (before.slowdown.unwrap().factor, after.slowdown.unwrap().factor);
        prop_assert!((a - b).abs() < 1e-6 * a, "{} {}", a, b);
    }

    #[test]
    fn moved_clocks_and_scaled_bytes_change_nothing(moved_s in -1e6..1e6_f64, scale in 0.01..100.0_f64) {
        let (run, history, load) = disturbed();
        let before = ask(&run, &history, Some(&load));
        let change = |run: &RunRequests| {
            let mut run = run.clone();
            run.zero_unix_s = run.zero_unix_s.map(|zero| zero + moved_s);
            run.requests.iter_mut().for_each(|request| request.bytes *= scale);
            run
        };
        let mut moved = load.clone();
        moved.grid.start_s += moved_s;
        moved.written_bps.iter_mut().for_each(|bps| *bps *= scale);
        let history: Vec<RunRequests> = history.iter().map(change).collect();
        let after = ask(&change(&run), &history, Some(&moved));
        prop_assert!(same(&before, &after), "{:?} {:?}", before.slowdown, after.slowdown);
    }

    #[test]
    fn scaled_times_change_nothing_without_a_log(scale in 0.1..10.0_f64) {
        let (run, history, _) = disturbed();
        let change = |run: &RunRequests| {
            let mut run = run.clone();
            run.run_s = run.run_s.map(|run_s| run_s * scale);
            for request in &mut run.requests {
                (request.start_s, request.end_s) = (request.start_s * scale, request.end_s * scale);
            }
            run
        };
        let before = ask(&run, &history, None);
        let after = ask(&change(&run), &history.iter().map(change).collect::<Vec<_>>(), None);
        prop_assert!(same(&before, &after), "{:?} {:?}", before.slowdown, after.slowdown);
    }

    #[test]
    fn the_zero_of_the_trace_means_nothing(moved_s in -1000.0..1000.0_f64) {
        let (run, history, load) = disturbed();
        let mut moved = run.clone();
        moved.zero_unix_s = moved.zero_unix_s.map(|zero| zero + moved_s);
        for request in &mut moved.requests {
            (request.start_s, request.end_s) = (request.start_s - moved_s, request.end_s - moved_s);
        }
        let (before, after) = (ask(&run, &history, Some(&load)), ask(&moved, &history, Some(&load)));
        prop_assert!(same(&before, &after));
        prop_assert!((before.phases[0].start_s - moved_s - after.phases[0].start_s).abs() < 1e-6);
    }

    #[test]
    fn less_evidence_gives_the_same_verdict_or_none(keep in 1_usize..6, drop_log in any::<bool>()) {
        let (run, history, load) = disturbed();
        let load = (!drop_log).then_some(&load);
        let less = ask(&run, &history[..keep], load);
        prop_assert!(matches!(less.verdict, Verdict::Others | Verdict::Unknown), "{:?}", less.verdict);
        let parts = [less.parts.own, less.parts.others, less.parts.storage];
        if let [Some(own), Some(others), Some(storage)] = parts {
            prop_assert!((own + others + storage - 1.0).abs() < 1e-9);
        }
        let slowdown = less.slowdown.unwrap();
        prop_assert!(slowdown.interval[0] <= slowdown.factor && slowdown.factor <= slowdown.interval[1]);
    }
}

#[test]
fn runs_of_an_archive_lose_time_to_those_that_moved_bytes_meanwhile() {
    let (run, history, load) = disturbed();
    let mut runs: Vec<ArchivedRun> = (history.iter().chain([&run]))
        .map(|run| ArchivedRun { application: 0, facts: RunFacts::of(run.clone(), Some(load.grid)) })
        .collect();
    // Who moved 120 MB/s all the time that the run took.
    let request = |i: u32| Request {
        op: Op::Write,
        rank: 0,
        start_s: 2.0 * f64::from(i),
        end_s: 2.0 * f64::from(i) + 2.0,
        bytes: 2.4e8,
        calls: 1.0,
    };
    let loader = RunRequests {
        zero_unix_s: run.zero_unix_s,
        requests: (0..200).map(request).collect(),
        ..RunRequests::default()
    };
    runs.push(ArchivedRun { application: 1, facts: RunFacts::of(loader, Some(load.grid)) });
    let judged = judge(&runs, Some(&load));
    let verdicts: Vec<Verdict> = judged.iter().map(|judged| judged.why.verdict).collect();
    assert_eq!(verdicts[6], Verdict::Others);
    assert!(verdicts[..6].iter().all(|verdict| *verdict == Verdict::Usual), "{verdicts:?}");
    let lost = judged[6].lost_s;
    let usual_s = runs[0].facts.io_s();
    assert!((lost - (runs[6].facts.io_s() - usual_s)).abs() < 0.05 * usual_s, "{lost}");
    let by: f64 = judged[6].lost_to().iter().sum();
    assert!((by - lost).abs() < 1e-6 * lost);
    let caused = caused(&runs, &judged);
    assert!(caused.by_application[1] > 0.5 * caused.others_bytes, "{caused:?}");
    assert_eq!(caused.by_application[0], 0.0);

    // The order of runs and the numbers of applications change nothing.
    let turned: Vec<ArchivedRun> = runs
        .iter()
        .rev()
        .map(|run| ArchivedRun { application: 1 - run.application, ..run.clone() })
        .collect();
    let again = judge(&turned, Some(&load));
    let caused_again = super::caused(&turned, &again);
    assert!((caused_again.others_bytes / caused.others_bytes - 1.0).abs() < 1e-6);
    for (one, other) in judged.iter().zip(again.iter().rev()) {
        assert_eq!(one.why.verdict, other.why.verdict);
        assert!((one.lost_s - other.lost_s).abs() < 1e-6 * one.lost_s.max(1.0));
    }
}
