//! A peer that has proved who it is, and then lies: others are counted to the byte meanwhile.

use std::sync::Arc;

use super::*;
use crate::{About, Cell, JobId, JobKey, Limits, Metric, Name};

const SECOND: u64 = 1_000_000_000;

fn place(node: &str, instance: u64) -> Place {
    Place { node: Name::cut(node.as_bytes()), instance }
}

fn opened(node: &str, job: &str) -> Opened {
    Opened {
        node: Name::cut(node.as_bytes()),
        epoch: 1,
        key: JobKey { cluster: Name::default(), uid: 1000, id: JobId::made_of(job), start_ns: 5 },
        about: About::default(),
        is_local: false,
        rank: 0,
        n_ranks: 0,
    }
}

fn group_of(job: &str) -> Group {
    Group { cluster: Name::default(), uid: 1000, id: JobId::made_of(job), is_own: false }
}

/// A connection of a child to the root, on which the child says what it likes.
struct Child {
    down: Downlink,
    inbox: Inbox,
}

impl Child {
    fn new(root: &Hub, node: &str, instance: u64) -> Self {
        let hello = Hello { versions: VERSIONS, place: place(node, instance), proof: Vec::new() };
        Self { down: Downlink::begin(root, &hello).unwrap().0, inbox: Inbox::default() }
    }

    fn says(&mut self, now_ns: u64, root: &mut Hub, bytes: &[u8]) -> Result<(), LinkError> {
        let down = &mut self.down;
        self.inbox.take(bytes, |frame| down.heard(now_ns, frame, root))
    }
}

/// A row whose one cell has grown by so much.
fn row_of(number: u32, seq: u64, is_first: bool, added: Cell) -> Vec<u8> {
    let mut bytes = Vec::new();
    let head =
        RowFrame { number, seq, at_ns: seq, is_final: false, n_running: 1, changes: Default::default() };
    write_row(&mut bytes, &head, [Change { slot: 0, metric: is_first.then_some(0), added }].into_iter());
    bytes
}

fn open_of(number: u32, row: Opened) -> Vec<u8> {
    let mut bytes = Vec::new();
    Frame::Open { number, row: Arc::new(row) }.write(&mut bytes);
    bytes
}

fn metric() -> Vec<u8> {
    let mut bytes = Vec::new();
    Frame::Metric { number: 0, metric: Metric::Mpi { function: "MPI_Send".into() } }.write(&mut bytes);
    bytes
}

fn cell(n: u64) -> Cell {
    Cell { calls: n, bytes: n, ns: n }
}

fn calls(root: &mut Hub, job: &str) -> u64 {
    root.news(SECOND, &group_of(job)).map_or(0, |news| news.sum.mpi().calls)
}

#[test]
fn a_peer_that_lies_about_itself_changes_no_sum_of_another_and_takes_no_room_of_others() {
    let mut root = Hub::new(place("root", 1), true, Limits::default());
    let mut honest = Child::new(&root, "honest", 2);
    let mut liar = Child::new(&root, "liar", 3);
    let first = [metric(), open_of(0, opened("honest", "job")), row_of(0, 1, true, cell(100))].concat();
    honest.says(1, &mut root, &first).unwrap();
    // Counts beyond all numbers, in the same job: they stay in its own row, and the sum stays at the end of numbers.
    let huge = [metric(), open_of(0, opened("liar", "own")), row_of(0, 1, true, cell(u64::MAX))].concat();
    liar.says(2, &mut root, &huge).unwrap();
    assert_eq!(calls(&mut root, "own"), u64::MAX);
    // What wraps around does not fall; what is said again, or in another order, changes nothing.
    for seq in [2, 1, 1, 3] {
        liar.says(3, &mut root, &row_of(0, seq, false, cell(7))).unwrap();
    }
    assert_eq!(calls(&mut root, "own"), u64::MAX);
    let mut again = Child::new(&root, "honest", 2);
    again.says(4, &mut root, &first).unwrap();
    assert_eq!(calls(&mut root, "job"), 100);
    // Rows without end: the liar is cut off long before others have no room.
    let flood = |liar: &mut Child, root: &mut Hub| {
        (1..1 << 20).find_map(|n| {
            liar.says(5, root, &open_of(n, opened("liar", &format!("flood{n}")))).err().map(|why| (n, why))
        })
    };
    for _ in 0..3 {
        let (_, why) = flood(&mut liar, &mut root).unwrap();
        assert_eq!(why, LinkError::Full(HubFull::RowsOfNode));
        liar = Child::new(&root, "liar", 3);
    }
    assert!(root.n_rows() < 20_000, "{}", root.n_rows());
    assert_eq!(root.n_refused(), 3);
    // The honest one goes on, with what it has and with what is new.
    honest.says(6, &mut root, &row_of(0, 2, false, cell(23))).unwrap();
    let more = [open_of(1, opened("honest", "more")), row_of(1, 1, true, cell(5))].concat();
    honest.says(6, &mut root, &more).unwrap();
    assert_eq!((calls(&mut root, "job"), calls(&mut root, "more")), (123, 5));
}

#[test]
fn what_cannot_be_said_ends_the_connection_and_nothing_else() {
    let mut root = Hub::new(place("root", 1), true, Limits::default());
    let lies: [Vec<u8>; 5] = [
        // A row that was not opened, a cell without a metric, a cell out of order, a metric out of order.
        row_of(3, 1, true, cell(1)),
        [open_of(0, opened("liar", "a")), row_of(0, 1, true, cell(1))].concat(),
        [metric(), open_of(0, opened("liar", "a")), row_of(0, 1, false, cell(1))].concat(),
        [metric(), metric()].concat(),
        // A number that is another row's already.
        [open_of(0, opened("liar", "a")), open_of(0, opened("liar", "b"))].concat(),
    ];
    for lie in lies {
        let mut liar = Child::new(&root, "liar", 3);
        let why = liar.says(1, &mut root, &lie).unwrap_err();
        assert!(matches!(why, LinkError::Protocol(_)), "{why}");
    }
    // Whoever asks without listening is cut off, too.
    let mut liar = Child::new(&root, "liar", 3);
    let mut ping = Vec::new();
    Frame::Ping { at_ns: 1 }.write(&mut ping);
    let n = (0..1_000_000).find(|_| liar.says(1, &mut root, &ping).is_err()).unwrap();
    assert!(n < 100_000, "{n}");
}
