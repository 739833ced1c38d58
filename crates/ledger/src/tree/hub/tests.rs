use super::*;
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;

fn hub(limits: Limits) -> Hub {
    Hub::new(Place { node: Name::cut(b"root"), instance: 1 }, true, limits)
}

fn opened(node: &str, epoch: u64) -> Opened {
    Opened {
        node: Name::cut(node.as_bytes()),
        epoch,
        key: JobKey { cluster: Name::default(), uid: 1000, id: JobId::made_of("4711"), start_ns: 5 },
        about: About::default(),
        is_local: false,
        rank: 0,
        n_ranks: 0,
    }
}

fn group() -> Group {
    Group::of(&opened("any", 0), false)
}

fn counted(calls: u64) -> Counters {
    let metric = Metric::Mpi { function: "MPI_Send".into() };
    [(metric, Cell { calls, bytes: 10 * calls, ns: calls / 2 })].into_iter().collect()
}

/// A version of a row comes, at a time in seconds.
fn hear(hub: &mut Hub, at_s: u64, opened: &Opened, seq: u64, counters: &Counters, is_final: bool) {
    let row = hub.open(at_s * SECOND, opened, false).unwrap();
    hub.raise_all(row, counters);
    hub.heard(at_s * SECOND, row, seq, at_s * SECOND, is_final, 1);
}

/// Nodes that count, nodes that have fallen silent, and the calls of all.
fn state(hub: &mut Hub, at_s: u64) -> (usize, Vec<String>, u64) {
    let news = hub.news(at_s * SECOND, &group()).unwrap();
    (news.n_live, news.silent.iter().map(Name::to_string).collect(), news.sum.mpi().calls)
}

#[test]
fn a_job_ends_when_all_nodes_say_so_and_is_partial_when_one_falls_silent() {
    let mut hub = hub(Limits::default());
    hear(&mut hub, 10, &opened("one", 7), 1, &counted(5), false);
    hear(&mut hub, 10, &opened("two", 3), 1, &counted(5), false);
    hear(&mut hub, 11, &opened("one", 7), 2, &counted(6), true);
    assert_eq!(state(&mut hub, 20), (1, vec![], 11));
    assert_eq!(state(&mut hub, 80), (0, vec!["two".to_owned()], 11));
    hear(&mut hub, 80, &opened("two", 3), 2, &counted(9), true);
    assert_eq!(state(&mut hub, 80), (0, vec![], 15));
    // A node that was restarted does not wait for its former self.
    hear(&mut hub, 90, &opened("two", 4), 1, &counted(1), false);
    assert_eq!(state(&mut hub, 91), (1, vec![], 16));
}

#[test]
fn a_job_has_ended_when_the_last_process_of_all_nodes_had() {
    let mut hub = hub(Limits::default());
    let end_s = |hub: &mut Hub| hub.news(90 * SECOND, &group()).unwrap().end_ns.map(|ns| ns / SECOND);
    let (one, two) = (opened("one", 7), opened("two", 3));
    hub.put_own(20 * SECOND, &one, &counted(5), 0, true, Some(18 * SECOND));
    assert_eq!(hub.row(RowId(1)).unwrap().at_ns, 18 * SECOND, "as it goes up");
    hear(&mut hub, 30, &two, 1, &counted(5), false);
    assert_eq!(end_s(&mut hub), None);
    hear(&mut hub, 25, &two, 2, &counted(6), true);
    assert_eq!(end_s(&mut hub), Some(30), "it was seen after it is said to have ended");
}

#[test]
fn a_job_that_goes_on_after_its_end_runs_again() {
    let mut hub = hub(Limits::default());
    hear(&mut hub, 10, &opened("one", 7), 1, &counted(5), true);
    assert_eq!(state(&mut hub, 11), (0, vec![], 5));
    hear(&mut hub, 12, &opened("one", 7), 2, &counted(5), false);
    assert_eq!(state(&mut hub, 13), (1, vec![], 5));
}

#[test]
fn metrics_beyond_the_limit_are_refused_and_counted() {
    let metric = |i: u32| Metric::Own { name: Name::cut(i.to_string().as_bytes()), unit: Name::default() };
    let many: Counters = (0..10).map(|i| (metric(i), Cell { calls: 1, bytes: 0, ns: 0 })).collect();
    for (limits, n_kept) in
        [(Limits { metrics: 4, ..Limits::default() }, 4), (Limits { own_metrics: 3, ..Limits::default() }, 3)]
    {
        let mut hub = hub(limits);
        hear(&mut hub, 1, &opened("one", 0), 1, &many, false);
        let sum = hub.news(SECOND, &group()).unwrap().sum;
        assert_eq!((sum.len() as u64, hub.n_refused()), (n_kept, 10 - n_kept));
    }
}

#[test]
fn versions_that_nobody_above_has_outlive_their_daemon_and_damage_costs_what_is_behind_it() {
    let child = || Hub::new(Place { node: Name::cut(b"one"), instance: 1 }, false, Limits::default());
    let (own, other) = (opened("one", 0), opened("two", 3));
    let mut before = child();
    for at_s in 1..=20 {
        before.put_own(at_s * SECOND, &own, &counted(at_s), 1, false, None);
        hear(&mut before, at_s, &other, at_s, &counted(2 * at_s), false);
    }
    let bytes = before.kept_versions();
    let restored = |bytes: &[u8], rows: &[&Opened]| {
        let mut hub = child();
        for row in rows {
            hub.open(30 * SECOND, row, row.node.as_str() == "one").unwrap();
        }
        let is_whole = hub.restore_versions(30 * SECOND, bytes);
        (is_whole, hub.missed.versions().count(), hub.kept_versions())
    };
    assert_eq!(restored(&bytes, &[&own, &other]), (true, 40, bytes.clone()));
    // A row that nobody knows any more has nothing to say.
    assert_eq!(restored(&bytes, &[&own]).1, 20);
    let mut most = 0;
    for length in 0..bytes.len() {
        let (_, n, _) = restored(&bytes[..length], &[&own, &other]);
        assert!((most..40).contains(&n), "{n} of {length} bytes");
        most = n;
    }
    for at in 0..bytes.len() {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x55;
        assert!(restored(&bytes, &[&own, &other]).1 <= 40);
    }
}

proptest! {
    /// Each node counts upwards; its rows arrive in any order, several times, some never. The sum is that of the last rows that
    /// arrived, whatever came between, and never falls.
    #[test]
    fn no_order_and_no_repetition_changes_a_sum(
        steps in prop::collection::vec((0u8..4, 0u64..3, 0u64..1000), 1..60),
        order in prop::collection::vec((any::<prop::sample::Index>(), 1usize..3), 1..120),
    ) {
        let mut totals: BTreeMap<(u8, u64), (u64, u64)> = BTreeMap::new();
        let mut versions = Vec::new();
        for (node, epoch, calls) in steps {
            let (seq, total) = totals.entry((node, epoch)).or_default();
            (*seq, *total) = (*seq + 1, *total + calls);
            versions.push((node, epoch, *seq, *total));
        }
        let mut hub = hub(Limits::default());
        let mut arrived: BTreeMap<(u8, u64), u64> = BTreeMap::new();
        let mut before = 0;
        for (index, times) in order {
            let &(node, epoch, seq, total) = index.get(&versions);
            for _ in 0..times {
                hear(&mut hub, seq, &opened(&format!("n{node}"), epoch), seq, &counted(total), false);
            }
            let newest = arrived.entry((node, epoch)).or_default();
            *newest = total.max(*newest);
            let sum = hub.news(0, &group()).unwrap().sum.mpi();
            prop_assert!(sum.calls >= before);
            prop_assert_eq!(sum.calls, arrived.values().sum::<u64>());
            prop_assert_eq!(sum.bytes, 10 * sum.calls);
            before = sum.calls;
        }
    }
}

#[test]
fn what_was_shown_in_silences_takes_some_mebibytes_at_most_whoever_is_silent_however_often() {
    let mut hub = hub(Limits::default());
    let names: Vec<Metric> =
        (0..100).map(|n| Metric::Mpi { function: format!("f{n}").as_str().into() }).collect();
    let counted = |calls: u64| -> Counters {
        names.iter().map(|metric| (metric.clone(), Cell { calls, bytes: calls, ns: calls })).collect()
    };
    let nodes: Vec<Opened> = (0..300).map(|n| opened(&format!("n{n}"), 1)).collect();
    let mut most = 0;
    for round in 1..=20 {
        let at_s = 10 * round;
        for node in &nodes {
            let row = hub.open(at_s * SECOND, node, false).unwrap();
            hub.note_shown(at_s * SECOND, row);
            hub.raise_all(row, &counted(round));
            hub.heard(at_s * SECOND, row, round, at_s * SECOND, false, 1);
        }
        assert!(hub.news(at_s * SECOND, &group()).is_some());
        hub.take_late(at_s);
        hub.tick(at_s * SECOND);
        let bytes = hub.rows.values().flat_map(|row| &row.shown).map(Shown::n_bytes).sum::<usize>();
        assert_eq!(hub.shown_bytes, bytes);
        most = most.max(bytes);
    }
    // Without a limit they would take 16 silences of 300 rows: 15 MB and more.
    assert!((3 << 20..6 << 20).contains(&most), "{most}");
    assert_eq!(state(&mut hub, 201).2, 300 * 100 * 20, "no sum depends on it");
    hub.tick(600 * SECOND);
    assert_eq!(hub.shown_bytes, 0, "what nobody asks for any more is forgotten");
}

#[test]
fn what_comes_late_of_silences_for_which_there_was_no_room_is_counted_as_refused_once() {
    // A row is heard, silent for ten seconds, and heard again; then what was missed comes, twice, and a version that was in time.
    let n_refused = |has_room: bool| {
        let mut hub = hub(Limits::default());
        let node = opened("one", 1);
        let row = hub.open(SECOND, &node, false).unwrap();
        hear(&mut hub, 1, &node, 1, &counted(1), false);
        hub.shown_bytes = if has_room { 0 } else { 1 << 30 };
        hub.note_shown(11 * SECOND, row);
        hear(&mut hub, 11, &node, 11, &counted(11), false);
        assert!(hub.news(11 * SECOND, &group()).is_some());
        let missed = |hub: &mut Hub, seq: u64, at_s: u64| {
            let cell = Cell { calls: seq, bytes: 10 * seq, ns: seq / 2 };
            hub.missed(12 * SECOND, row, (seq, seq - 1), at_s * SECOND, &[(0, cell)]);
        };
        for seq in [2, 3, 4, 4, 2, 9, 1, 11] {
            missed(&mut hub, seq, seq);
        }
        // A silence later, of which nothing comes.
        hub.note_shown(20 * SECOND, row);
        hear(&mut hub, 20, &node, 20, &counted(20), false);
        missed(&mut hub, 11, 11);
        missed(&mut hub, 9, 9);
        assert_eq!(state(&mut hub, 20).2, 20, "no sum depends on it");
        hub.n_refused()
    };
    assert_eq!(n_refused(false), 4);
    assert_eq!(n_refused(true), 0);
}
