use super::super::asking::AskError;
use super::*;
use crate::parameters::Parameters;
use proptest::prelude::*;

fn name() -> impl Strategy<Value = Name> {
    any::<String>().prop_map(|text| Name::cut(text.as_bytes()))
}

fn metric() -> impl Strategy<Value = Metric> {
    prop_oneof![
        (name(), name(), name()).prop_map(|(op, layer, fs)| Metric::Io {
            op: op.into(),
            layer: layer.into(),
            fs
        }),
        name().prop_map(|function| Metric::Mpi { function: function.into() }),
        (name(), name()).prop_map(|(name, unit)| Metric::Own { name, unit }),
        Just(Metric::Threads),
        Just(Metric::OtherThreads),
        Just(Metric::Lost),
        any::<bool>().prop_map(|is_rank| Metric::Killed { is_rank }),
        name().prop_map(|counter| Metric::System(counter.into())),
    ]
}

fn place() -> impl Strategy<Value = Place> {
    (name(), any::<u64>()).prop_map(|(node, instance)| Place { node, instance })
}

fn opened() -> impl Strategy<Value = Opened> {
    let about = (name(), name(), any::<String>(), any::<u32>(), any::<bool>()).prop_map(
        |(user, app, command, size, is_cgroup)| About {
            user,
            app: app.clone(),
            account: app.clone(),
            alias: app.clone(),
            name: app,
            run_dir: command.clone(),
            command,
            size,
            trust: if is_cgroup { Trust::Cgroup } else { Trust::Claimed },
            parameters: Parameters::read(b"nx=512,steps=10"),
            ..About::default()
        },
    );
    (name(), any::<(u64, u32, u64, bool, u32, u32)>(), about).prop_map(|(node, numbers, about)| {
        let (epoch, uid, start_ns, is_local, rank, n_ranks) = numbers;
        let key = JobKey { cluster: node.clone(), uid, id: JobId::made_of("4711.0"), start_ns };
        Opened { node, epoch, key, about, is_local, rank, n_ranks }
    })
}

fn node() -> impl Strategy<Value = NodeNews> {
    (name(), name(), any::<(i64, u64, u64, u64, u64, u64)>()).prop_map(|(node, parent, numbers)| {
        let (skew_ns, round_trip_ns, jobs, bytes_read, losses, silent_ns) = numbers;
        let version = parent.clone();
        let (processes, bytes_written) = (jobs, bytes_read);
        NodeNews {
            node,
            parent,
            version,
            skew_ns,
            round_trip_ns,
            jobs,
            processes,
            bytes_read,
            bytes_written,
            losses,
            silent_ns,
        }
    })
}

fn ask() -> impl Strategy<Value = Ask> {
    let wanted = prop_oneof![Just(Wanted::Names), Just(Wanted::All), name().prop_map(Wanted::Metric)];
    let question = (wanted, any::<(u64, u64, u32)>()).prop_map(|(wanted, (from_s, to_s, points))| Question {
        wanted,
        from_s,
        to_s,
        points,
    });
    (any::<u64>(), name(), any::<u8>(), prop::option::of(question))
        .prop_map(|(id, node, n_passed, question)| Ask { id, node, n_passed, question })
}

fn part_kind() -> impl Strategy<Value = PartKind> {
    let refused = prop::sample::select(AskError::ALL.to_vec()).prop_map(PartKind::Refused);
    prop_oneof![Just(PartKind::More), Just(PartKind::Last), refused]
}

fn frame() -> impl Strategy<Value = Frame<'static>> {
    let path = || prop::collection::vec(place(), 0..MOST_LEVELS);
    let proof = || prop::collection::vec(any::<u8>(), 0..80);
    prop_oneof![
        (any::<(u32, u32)>(), place(), proof()).prop_map(|(versions, place, proof)| Frame::Hello(Hello {
            versions,
            place,
            proof
        })),
        (any::<u32>(), path(), proof()).prop_map(|(version, path, proof)| Frame::Welcome(Welcome {
            version,
            path,
            proof
        })),
        path().prop_map(Frame::Path),
        node().prop_map(Frame::Node),
        (any::<u32>(), metric()).prop_map(|(number, metric)| Frame::Metric { number, metric }),
        (any::<u32>(), opened()).prop_map(|(number, row)| Frame::Open { number, row: Arc::new(row) }),
        any::<(u32, u64)>().prop_map(|(number, seq)| Frame::Ack { number, seq }),
        any::<(u32, u64)>().prop_map(|(number, seq)| Frame::Behind { number, seq }),
        any::<u32>().prop_map(|number| Frame::Close { number }),
        any::<u64>().prop_map(|at_ns| Frame::Ping { at_ns }),
        any::<(u64, u64)>().prop_map(|(at_ns, now_ns)| Frame::Pong { at_ns, now_ns }),
        name().prop_map(Frame::Bye),
        ask().prop_map(Frame::Ask),
    ]
}

proptest! {
    #[test]
    fn frames_are_read_as_they_were_written_and_wait_until_they_are_whole(frame in frame(), cut in any::<prop::sample::Index>()) {
        let mut bytes = Vec::new();
        frame.write(&mut bytes);
        prop_assert_eq!(split(&bytes[..cut.index(bytes.len())]), Ok(None));
        let Whole { kind, body, n_bytes } = split(&bytes).unwrap().unwrap();
        prop_assert_eq!(n_bytes, bytes.len());
        prop_assert_eq!(Frame::read(kind, body), Ok(Some(frame)));
    }

    #[test]
    fn rows_are_read_as_they_were_written(
        head in any::<(u32, u64, u64, bool, u32)>(),
        changes in prop::collection::vec(any::<(u32, Option<u32>, u64, u64, u64)>(), 0..1024),
    ) {
        let (number, seq, at_ns, is_final, n_running) = head;
        let changes: Vec<Change> = changes
            .into_iter()
            .map(|(slot, metric, calls, bytes, ns)| {
                Change { slot: slot >> 1, metric, added: Cell { calls, bytes, ns } }
            })
            .collect();
        let head = RowFrame { number, seq, at_ns, is_final, n_running, changes: Changes(&[]) };
        let mut bytes = Vec::new();
        write_row(&mut bytes, &head, changes.iter().copied());
        let Whole { kind, body, .. } = split(&bytes).unwrap().unwrap();
        let Ok(Some(Frame::Row(read))) = Frame::read(kind, body) else { panic!("no row") };
        prop_assert_eq!(read.changes.collect::<Result<Vec<_>, _>>(), Ok(changes));
        prop_assert_eq!(RowFrame { changes: Changes(&[]), ..read }, head);
    }

    #[test]
    fn missed_versions_are_read_as_they_were_written(
        (number, seq, after, at_ns) in any::<(u32, u64, u64, u64)>(),
        cells in prop::collection::vec(any::<(u32, u64, u64, u64)>(), 0..1024),
    ) {
        let cells: Vec<(u32, Cell)> = cells
            .into_iter()
            .map(|(cell, calls, bytes, ns)| (cell >> 1, Cell { calls, bytes, ns }))
            .collect();
        let values = Values::of(cells.iter().copied());
        let after = after.min(seq);
        let frame = Frame::Missed(MissedFrame { number, seq, after, at_ns, values: values.changes() });
        let mut bytes = Vec::new();
        frame.write(&mut bytes);
        let Whole { kind, body, .. } = split(&bytes).unwrap().unwrap();
        prop_assert_eq!(Frame::read(kind, body), Ok(Some(frame)));
        let read: Result<Vec<_>, _> =
            values.changes().map(|change| change.map(|it| (it.slot, it.added))).collect();
        prop_assert_eq!(read, Ok(cells));
    }

    #[test]
    fn outlooks_are_read_as_they_were_written(number in any::<u32>(), of in any::<(u64, u64, u64, u32, u64, u64, u64, u64)>()) {
        let (at_ns, moved_bytes, period_ns, confidence_ppm, next_ns, early_ns, phase_ns, phase_bytes) = of;
        let (idle_ppm, late_ns) = (confidence_ppm / 2, early_ns / 2);
        let outlook = Outlook {
            at_ns, moved_bytes, period_ns, confidence_ppm, idle_ppm, next_ns, early_ns, late_ns, phase_ns, phase_bytes,
        };
        let frame = Frame::Outlook { number, outlook };
        let mut bytes = Vec::new();
        frame.write(&mut bytes);
        let Whole { kind, body, .. } = split(&bytes).unwrap().unwrap();
        prop_assert_eq!(Frame::read(kind, body), Ok(Some(frame)));
    }

    #[test]
    fn parts_of_answers_are_read_as_they_were_written(
        head in any::<(u64, u32)>(),
        kind in part_kind(),
        bytes in prop::collection::vec(any::<u8>(), 0..MOST_TEXT),
        damaged in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let (id, number) = head;
        let frame = Frame::Answer(AnswerPart { id, number, kind, bytes: &bytes });
        let mut written = Vec::new();
        frame.write(&mut written);
        let Whole { kind, body, .. } = split(&written).unwrap().unwrap();
        prop_assert_eq!(Frame::read(kind, body), Ok(Some(frame)));
        for (at, byte) in damaged {
            let at = at.index(written.len());
            written[at] = byte;
        }
        if let Ok(Some(Whole { kind, body, .. })) = split(&written) {
            let _ = Frame::read(kind, body);
        }
    }

    #[test]
    fn counters_are_read_as_they_were_kept(cells in prop::collection::vec((metric(), any::<(u64, u64, u64)>()), 0..20)) {
        let mut counters = Counters::default();
        for (metric, (calls, bytes, ns)) in cells {
            counters.add(metric, Cell { calls, bytes, ns });
        }
        let bytes = write_counters(&counters);
        prop_assert_eq!(read_counters(&bytes), Some(counters));
    }

    #[test]
    fn any_bytes_are_a_frame_or_none(bytes in prop::collection::vec(any::<u8>(), 0..300), kind in 0u8..20) {
        let _ = (split(&bytes), read_counters(&bytes));
        match Frame::read(kind, &bytes) {
            Ok(Some(Frame::Row(row))) => row.changes.for_each(drop),
            Ok(Some(Frame::Missed(missed))) => missed.values.for_each(drop),
            _ => {}
        }
    }
}

#[test]
fn a_huge_length_is_refused_before_anything_is_kept() {
    assert_eq!(split(&[0xff, 0xff, 0xff, 0x7f]), Err(FrameError::TooLong(0x7fff_ffff)));
    assert_eq!(split(&[0, 0, 0, 0]), Err(FrameError::TooLong(0)));
    // A kind of the future is nothing, not damage.
    assert_eq!(Frame::read(200, b"whatever"), Ok(None));
}
