//! Any bytes from a daemon below or above: refused, or rows whose sum is that of their job.
#![no_main]

use iotide_ledger::series::SeriesAnswer;
use iotide_ledger::tree::{
    Downlink, Frame, Hello, Hub, Inbox, MOST_ANSWER, MOST_OPEN, Opened, Place, Question, Uplink, VERSIONS,
    Wanted, Welcome, read_counters,
};
use iotide_ledger::{About, Cell, JobId, JobKey, Limits, Metric, Name};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = read_counters(bytes);
    let place = |instance| Place { node: Name::cut(b"n"), instance };
    let mut hub = Hub::new(place(1), true, Limits::default());
    let hello = Hello { versions: VERSIONS, place: place(2), proof: Vec::new() };
    let Ok((mut down, version)) = Downlink::begin(&hub, &hello) else { panic!("a plain hello is taken") };
    // Some questions are open: what comes may be their answers.
    let question = Question { wanted: Wanted::Names, from_s: 0, to_s: u64::MAX, points: 9 };
    for _ in 0..3 {
        assert!(down.ask(&Name::cut(b"n"), 0, &question).is_ok());
    }
    let mut inbox = Inbox::default();
    // In two pieces, as it may come.
    let (head, tail) = bytes.split_at(bytes.len() / 2);
    for (now, piece) in [(1, head), (2, tail)] {
        let _ = inbox.take(piece, |frame| down.heard(now, frame, &mut hub));
    }
    for (id, answer) in down.take_answered() {
        assert!((1..=3).contains(&id) && answer.map_or(0, |bytes| bytes.len()) <= MOST_ANSWER);
    }
    let _ = SeriesAnswer::decode(bytes);
    let mut out = Vec::new();
    down.fill(&hub, &mut out);
    for group in hub.changed(3) {
        let _ = hub.news(3, &group);
        let kept = hub.to_store(&group, true);
        kept.iter().for_each(|row| hub.stored(&row.key, row.seq, row.is_final));
        hub.closed(3, &group);
    }
    // What is said to have been missed is of a time before it came.
    assert!(hub.take_late(3).iter().all(|late| late.from_s < late.until_s));
    hub.tick(u64::MAX);

    // The same from above, to one that has something to send.
    let mut hub = Hub::new(place(3), false, Limits::default());
    let key = JobKey { cluster: Name::default(), uid: 1, id: JobId::made_of("4711"), start_ns: 1 };
    let about = About::default();
    let opened = Opened { node: Name::cut(b"n"), epoch: 0, key, about, is_local: false, rank: 0, n_ranks: 0 };
    let counters = [(Metric::Lost, Cell { calls: 1, bytes: 2, ns: 3 })].into_iter().collect();
    hub.put_own(4, &opened, &counters, 1, false, None);
    let counters = [(Metric::Lost, Cell { calls: 2, bytes: 2, ns: 3 })].into_iter().collect();
    hub.put_own(5, &opened, &counters, 1, true, None);
    let welcome = Welcome { version, path: vec![place(1)], proof: Vec::new() };
    let Ok(mut up) = Uplink::begin(&mut hub, &welcome) else { panic!("a plain welcome is taken") };
    let _ = up.fill(6, &hub, usize::MAX, &mut out);
    let mut inbox = Inbox::default();
    let _ = inbox.take(bytes, |frame| up.heard(7, frame, &mut hub));
    let asked = up.take_asked();
    assert!(asked.len() <= MOST_OPEN);
    for (n, ask) in asked.iter().enumerate() {
        let answer = bytes.iter().copied().cycle().take(n * bytes.len().min(5000)).collect();
        up.answer(ask.id, Ok(answer));
    }
    let _ = up.fill(8, &hub, usize::MAX, &mut out);
    // What is written can be read.
    let mut inbox = Inbox::default();
    let mut n = 0;
    let read = inbox.take(&out, |frame| {
        n += usize::from(matches!(frame, Frame::Row(_)));
        Ok(())
    });
    assert!(read.is_ok() && n > 0);
});
