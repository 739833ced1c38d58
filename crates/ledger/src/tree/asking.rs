//! Questions that go down the tree, and answers that come up.
//!
//! A question has a number of the connection it goes by, which no other question on that connection ever gets: an answer that comes too late is nobody's.
//! An answer comes in parts. It is bounded ([`MOST_ANSWER`]), and so is what is open ([`MOST_OPEN`]) and what is held ([`MOST_HELD`]) on a connection;
//! whatever is beyond is refused, and the connection goes on. How long an answer is waited for is for whoever waits to say: there is no clock here.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::frame::{Frame, MOST_LEVELS, MOST_TEXT};
use super::hub::Hub;
use crate::Name;

/// The longest answer.
pub const MOST_ANSWER: usize = 1 << 20;
/// Questions that are open on a connection.
pub const MOST_OPEN: usize = 64;
/// Bytes of answers that are held for a connection: parts of which the rest is missing, or that wait to be sent.
const MOST_HELD: usize = 4 << 20;
/// The most bytes in a part.
const PART: usize = MOST_TEXT;

/// A question, with the number by which it is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The number, on this connection.
    pub id: u64,
    /// The node that is asked.
    pub node: Name,
    /// How many daemons have passed it on.
    pub n_passed: u8,
    /// The question; `None` if it is of a kind that is not known here.
    pub question: Option<Question>,
}

/// Question to a node about its metrics over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Which metrics.
    pub wanted: Wanted,
    /// From when on, in seconds since 1970.
    pub from_s: u64,
    /// Until when.
    pub to_s: u64,
    /// In at most so many points.
    pub points: u32,
}

/// Which metrics are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The names of all, without values.
    Names,
    /// All, with values.
    All,
    /// One.
    Metric(Name),
}

/// A part of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerPart<'a> {
    /// The number of the question.
    pub id: u64,
    /// Parts are numbered from 0 on.
    pub number: u32,
    /// Whether there are more.
    pub kind: PartKind,
    /// Some bytes of it.
    pub bytes: &'a [u8],
}

/// Continuation after a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartKind {
    /// Another one.
    More,
    /// None: the answer is whole.
    Last,
    /// None: there is no answer.
    Refused(AskError),
}

impl PartKind {
    pub(super) fn code(self) -> u8 {
        match self {
            Self::More => 0,
            Self::Last => 1,
            Self::Refused(why) => 2 + AskError::ALL.iter().position(|known| *known == why).unwrap_or(0) as u8,
        }
    }

    pub(super) fn of_code(code: u8) -> Self {
        match code {
            0 => Self::More,
            1 => Self::Last,
            // A reason of the future is a refusal all the same.
            other => Self::Refused(*AskError::ALL.get(usize::from(other) - 2).unwrap_or(&AskError::Silent)),
        }
    }
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The node, or one on the way, did not answer in time or is not connected.
    #[error("it did not answer")]
    Silent,
    /// There is no such node.
    #[error("there is no such node")]
    NoNode,
    /// Too much is asked at once.
    #[error("too many questions are open")]
    Busy,
    /// The answer is longer than any.
    #[error("the answer is too long")]
    TooLong,
    /// The node cannot read what was asked for.
    #[error("it cannot read its samples")]
    Unreadable,
    /// The node does not know this kind of question.
    #[error("it does not know this question")]
    NotKnown,
}

impl AskError {
    /// All, in the order of their codes.
    pub(super) const ALL: [Self; 6] =
        [Self::Silent, Self::NoNode, Self::Busy, Self::TooLong, Self::Unreadable, Self::NotKnown];
}

impl Hub {
    /// The child that leads to a node below, which may be that node itself; `None` if no such node is known.
    pub fn child_towards(&self, node: &Name) -> Option<Name> {
        let mut known = self.node(node.as_str())?;
        for _ in 0..MOST_LEVELS {
            if known.news.parent == self.own.node {
                return Some(known.news.node.clone());
            }
            known = self.node(known.news.parent.as_str())?;
        }
        None
    }
}

/// The parent's side of a connection: what was asked, and what has come of the answers.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    n_ever: u64,
    open: BTreeMap<u64, Coming>,
    n_held: usize,
    answered: Vec<(u64, Result<Vec<u8>, AskError>)>,
}

/// An answer of which the rest is missing.
#[derive(Clone, Debug, Default)]
struct Coming {
    n_parts: u32,
    bytes: Vec<u8>,
}

impl Asked {
    /// A number for another question.
    pub(super) fn open(&mut self) -> Result<u64, AskError> {
        if self.open.len() >= MOST_OPEN {
            return Err(AskError::Busy);
        }
        self.n_ever += 1;
        self.open.insert(self.n_ever, Coming::default());
        Ok(self.n_ever)
    }

    /// Nobody waits for this answer any more.
    pub(super) fn forget(&mut self, id: u64) {
        if let Some(coming) = self.open.remove(&id) {
            self.n_held -= coming.bytes.len();
        }
        self.answered.retain(|(known, _)| *known != id);
    }

    pub(super) fn take_answered(&mut self) -> Vec<(u64, Result<Vec<u8>, AskError>)> {
        std::mem::take(&mut self.answered)
    }

    /// Takes a part in. What nobody asked for, or no longer waits for, is ignored.
    pub(super) fn heard(&mut self, part: &AnswerPart<'_>) {
        let Some(coming) = self.open.get_mut(&part.id) else { return };
        let n_bytes = coming.bytes.len() + part.bytes.len();
        let ended = match part.kind {
            PartKind::Refused(why) => Some(Err(why)),
            // A part is missing: that will never be an answer.
            _ if part.number != coming.n_parts => Some(Err(AskError::Silent)),
            _ if n_bytes > MOST_ANSWER => Some(Err(AskError::TooLong)),
            _ if self.n_held + part.bytes.len() > MOST_HELD => Some(Err(AskError::Busy)),
            kind => {
                coming.n_parts += 1;
                coming.bytes.extend_from_slice(part.bytes);
                self.n_held += part.bytes.len();
                (kind == PartKind::Last).then_some(Ok(()))
            }
        };
        if let Some(ended) = ended
            && let Some(coming) = self.open.remove(&part.id)
        {
            self.n_held -= coming.bytes.len();
            self.answered.push((part.id, ended.map(|()| coming.bytes)));
        }
    }
}

/// The child's side of a connection: what it was asked, and answers that wait to be sent.
#[derive(Clone, Debug, Default)]
pub(super) struct Answering {
    /// Questions whose answers were not sent to their end.
    open: BTreeSet<u64>,
    /// Of these, those that nobody works on yet.
    asked: Vec<Ask>,
    leaving: VecDeque<Leaving>,
    n_held: usize,
    /// Questions beyond those that can be open.
    turned_away: Vec<u64>,
}

/// An answer of which the rest waits to be sent.
#[derive(Clone, Debug)]
struct Leaving {
    id: u64,
    n_parts: u32,
    n_sent: usize,
    answer: Result<Vec<u8>, AskError>,
}

impl Answering {
    pub(super) fn heard(&mut self, ask: &Ask) {
        if self.open.contains(&ask.id) {
            return;
        }
        if self.open.len() < MOST_OPEN {
            self.open.insert(ask.id);
            self.asked.push(ask.clone());
        } else if self.turned_away.len() < MOST_OPEN {
            self.turned_away.push(ask.id);
        }
    }

    pub(super) fn take_asked(&mut self) -> Vec<Ask> {
        std::mem::take(&mut self.asked)
    }

    pub(super) fn answer(&mut self, id: u64, answer: Result<Vec<u8>, AskError>) {
        if !self.open.contains(&id) || self.leaving.iter().any(|known| known.id == id) {
            return;
        }
        let answer = match answer {
            Ok(bytes) if bytes.len() > MOST_ANSWER => Err(AskError::TooLong),
            Ok(bytes) if self.n_held + bytes.len() > MOST_HELD => Err(AskError::Busy),
            answer => answer,
        };
        self.n_held += answer.as_ref().map_or(0, Vec::len);
        self.leaving.push_back(Leaving { id, n_parts: 0, n_sent: 0, answer });
    }

    /// Appends parts of answers, of each in turn, and stops soon after `most` bytes. Returns whether that was all.
    pub(super) fn fill(&mut self, most: usize, out: &mut Vec<u8>) -> bool {
        for id in self.turned_away.drain(..) {
            let kind = PartKind::Refused(AskError::Busy);
            Frame::Answer(AnswerPart { id, number: 0, kind, bytes: &[] }).write(out);
        }
        while let Some(mut leaving) = self.leaving.pop_front() {
            if out.len() >= most {
                self.leaving.push_front(leaving);
                return false;
            }
            let (kind, part) = match &leaving.answer {
                Err(why) => (PartKind::Refused(*why), &[][..]),
                Ok(bytes) => {
                    let rest = &bytes[leaving.n_sent..];
                    let kind = if rest.len() > PART { PartKind::More } else { PartKind::Last };
                    (kind, &rest[..rest.len().min(PART)])
                }
            };
            Frame::Answer(AnswerPart { id: leaving.id, number: leaving.n_parts, kind, bytes: part })
                .write(out);
            if kind == PartKind::More {
                (leaving.n_parts, leaving.n_sent) = (leaving.n_parts + 1, leaving.n_sent + part.len());
                // A long answer keeps no short one waiting.
                self.leaving.push_back(leaving);
            } else {
                self.n_held -= leaving.answer.as_ref().map_or(0, Vec::len);
                self.open.remove(&leaving.id);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use super::*;
    use crate::{About, Cell, JobId, JobKey, Limits, Metric};

    fn place(node: &str) -> Place {
        let instance = node.bytes().fold(7, |sum, byte| sum * 31 + u64::from(byte));
        Place { node: Name::cut(node.as_bytes()), instance }
    }

    fn hub(node: &str, is_root: bool) -> Hub {
        Hub::new(place(node), is_root, Limits::default())
    }

    fn question() -> Question {
        Question { wanted: Wanted::Metric(Name::ours("load1")), from_s: 5, to_s: u64::MAX, points: 100 }
    }

    /// A connection whose bytes arrive at once.
    struct Connection {
        up: Uplink,
        down: Downlink,
        inboxes: [Inbox; 2],
    }

    impl Connection {
        fn new(parent: &Hub, child: &mut Hub) -> Self {
            let hello = Hello { versions: VERSIONS, place: child.own.clone(), proof: Vec::new() };
            let (down, version) = Downlink::begin(parent, &hello).unwrap();
            let welcome = Welcome { version, path: Downlink::path(parent), proof: Vec::new() };
            let up = Uplink::begin(child, &welcome).unwrap();
            Self { up, down, inboxes: Default::default() }
        }

        /// Brings what the parent says to the child; returns what that is asked.
        fn downwards(&mut self, parent: &Hub, child: &mut Hub) -> Vec<Ask> {
            let mut bytes = Vec::new();
            self.down.fill(parent, &mut bytes);
            self.inboxes[0].take(&bytes, |frame| self.up.heard(1, frame, child)).unwrap();
            self.up.take_asked()
        }

        /// Brings what the child says to the parent; returns what that is answered.
        fn upwards(&mut self, parent: &mut Hub, child: &Hub) -> Vec<(u64, Result<Vec<u8>, AskError>)> {
            let mut bytes = Vec::new();
            while !self.up.fill(1, child, 40_000, &mut bytes).unwrap() {
                assert!(bytes.len() <= 40_000 + MOST_FRAME);
                self.inboxes[1].take(&bytes, |frame| self.down.heard(1, frame, parent)).unwrap();
                bytes.clear();
            }
            self.inboxes[1].take(&bytes, |frame| self.down.heard(1, frame, parent)).unwrap();
            self.down.take_answered()
        }

        /// Lets the parent hear a part that somebody made.
        fn part(&mut self, parent: &mut Hub, id: u64, number: u32, kind: PartKind, bytes: &[u8]) {
            let frame = Frame::Answer(AnswerPart { id, number, kind, bytes });
            self.down.heard(1, &frame, parent).unwrap();
        }
    }

    fn bytes(n: usize) -> Vec<u8> {
        (0..n).map(|index| (index * 7 + index / 251) as u8).collect()
    }

    #[test]
    fn answers_arrive_whole_by_the_numbers_of_their_questions() {
        let (mut root, mut leaf) = (hub("root", true), hub("leaf", false));
        let mut link = Connection::new(&root, &mut leaf);
        let ids = [0, 1, 2, 3].map(|_| link.down.ask(&leaf.own.node, 0, &question()).unwrap());
        let asked = link.downwards(&root, &mut leaf);
        assert_eq!(asked.iter().map(|ask| ask.id).collect::<Vec<_>>(), ids);
        assert!(asked.iter().all(|ask| ask.node == leaf.own.node && ask.question == Some(question())));
        // Of no length, of exactly one part, of all there can be; and in another order.
        let answers = [Ok(bytes(MOST_ANSWER)), Ok(bytes(PART)), Ok(Vec::new()), Err(AskError::Unreadable)];
        for (id, answer) in ids.into_iter().zip(&answers).rev() {
            link.up.answer(id, answer.clone());
        }
        let mut answered = link.upwards(&mut root, &leaf);
        // The short ones did not wait for the long one.
        assert_eq!(answered.last().unwrap().0, ids[0]);
        answered.sort_by_key(|(id, _)| *id);
        assert!(answered == ids.into_iter().zip(answers).collect::<Vec<_>>());
        assert_eq!((link.down.asked.n_held, link.up.answering.n_held), (0, 0));
        // No number is given again.
        assert!(!ids.contains(&link.down.ask(&leaf.own.node, 0, &question()).unwrap()));
    }

    #[test]
    fn what_nobody_asked_or_waits_for_is_ignored() {
        let (mut root, mut leaf) = (hub("root", true), hub("leaf", false));
        let mut link = Connection::new(&root, &mut leaf);
        link.part(&mut root, 77, 0, PartKind::Last, b"uninvited");
        let [late, early] = [0, 1].map(|_| link.down.ask(&leaf.own.node, 0, &question()).unwrap());
        link.part(&mut root, late, 0, PartKind::More, b"be");
        link.down.forget(late);
        link.part(&mut root, late, 1, PartKind::Last, b"gun");
        link.part(&mut root, early, 0, PartKind::Last, b"whole");
        link.part(&mut root, early, 0, PartKind::Last, b"again");
        assert_eq!(link.down.take_answered(), [(early, Ok(b"whole".to_vec()))]);
        assert_eq!((link.down.asked.n_held, link.down.asked.open.len()), (0, 0));
        // One that was answered, and is forgotten before anybody looked.
        let id = link.down.ask(&leaf.own.node, 0, &question()).unwrap();
        link.part(&mut root, id, 0, PartKind::Last, b"whole");
        link.down.forget(id);
        assert_eq!(link.down.take_answered(), []);
        // An answer to something that was never asked, and a second one, are not sent either.
        let asked = link.downwards(&root, &mut leaf);
        link.up.answer(4711, Ok(bytes(9)));
        link.up.answer(asked[0].id, Ok(bytes(8)));
        link.up.answer(asked[0].id, Ok(bytes(7)));
        assert_eq!(link.up.answering.leaving.len(), 1);
        assert_eq!(link.upwards(&mut root, &leaf), [], "nobody waits for it");
    }

    #[test]
    fn a_part_that_is_missing_ends_its_answer_and_nothing_else() {
        let (mut root, mut leaf) = (hub("root", true), hub("leaf", false));
        let mut link = Connection::new(&root, &mut leaf);
        let [one, two] = [0, 1].map(|_| link.down.ask(&leaf.own.node, 0, &question()).unwrap());
        link.part(&mut root, one, 0, PartKind::More, b"a");
        link.part(&mut root, two, 0, PartKind::More, b"b");
        link.part(&mut root, one, 2, PartKind::Last, b"c");
        link.part(&mut root, two, 1, PartKind::Last, b"d");
        assert_eq!(link.down.take_answered(), [(one, Err(AskError::Silent)), (two, Ok(b"bd".to_vec()))]);
    }

    #[test]
    fn what_is_too_long_or_too_much_is_refused_on_either_side() {
        let (mut root, mut leaf) = (hub("root", true), hub("leaf", false));
        let mut link = Connection::new(&root, &mut leaf);
        let id = link.down.ask(&leaf.own.node, 0, &question()).unwrap();
        link.downwards(&root, &mut leaf);
        link.up.answer(id, Ok(bytes(MOST_ANSWER + 1)));
        assert_eq!(link.upwards(&mut root, &leaf), [(id, Err(AskError::TooLong))]);
        // A child that does not keep to it.
        let id = link.down.ask(&leaf.own.node, 0, &question()).unwrap();
        for number in 0..=(MOST_ANSWER / PART) as u32 {
            link.part(&mut root, id, number, PartKind::More, &bytes(PART));
        }
        assert_eq!(link.down.take_answered(), [(id, Err(AskError::TooLong))]);
        assert_eq!(link.down.asked.n_held, 0);
        // All that are open, and no more; together they are bounded, too.
        let ids: Vec<u64> =
            (0..MOST_OPEN).map(|_| link.down.ask(&leaf.own.node, 0, &question()).unwrap()).collect();
        assert_eq!(link.down.ask(&leaf.own.node, 0, &question()), Err(AskError::Busy));
        assert_eq!(link.downwards(&root, &mut leaf).len(), MOST_OPEN, "one more is open there");
        for id in &ids {
            for number in 0..(MOST_ANSWER / PART) as u32 {
                link.part(&mut root, *id, number, PartKind::More, &bytes(PART));
            }
        }
        assert!(link.down.asked.n_held <= MOST_HELD);
        let refused = link.down.take_answered();
        assert_eq!(refused.len(), MOST_OPEN - MOST_HELD / MOST_ANSWER);
        assert!(refused.iter().all(|(_, answer)| *answer == Err(AskError::Busy)));
        ids.iter().for_each(|id| link.down.forget(*id));
        assert_eq!((link.down.asked.n_held, link.down.asked.open.len()), (0, 0));
        assert!(link.down.ask(&leaf.own.node, 0, &question()).is_ok());
        // The same at the child: what waits to be sent is bounded.
        ids.iter().for_each(|id| link.up.answer(*id, Ok(bytes(MOST_ANSWER))));
        assert!(link.up.answering.n_held <= MOST_HELD);
    }

    #[test]
    fn a_parent_that_asks_without_end_is_turned_away() {
        let mut answering = Answering::default();
        let ask = |id| Ask { id, node: Name::ours("n"), n_passed: 0, question: None };
        (0..1000).for_each(|id| answering.heard(&ask(id)));
        // The same again is one question.
        answering.heard(&ask(3));
        assert_eq!((answering.take_asked().len(), answering.turned_away.len()), (MOST_OPEN, MOST_OPEN));
        let mut out = Vec::new();
        assert!(answering.fill(usize::MAX, &mut out));
        let mut refused = Vec::new();
        Inbox::default()
            .take(&out, |frame| {
                if let Frame::Answer(AnswerPart { id, kind: PartKind::Refused(AskError::Busy), .. }) = frame {
                    refused.push(*id);
                }
                Ok(())
            })
            .unwrap();
        assert_eq!(refused, (64..128).collect::<Vec<u64>>());
    }

    #[test]
    fn rows_go_first_and_answers_fill_what_is_left() {
        let (root, mut leaf) = (hub("root", true), hub("leaf", false));
        let mut link = Connection::new(&root, &mut leaf);
        let id = link.down.ask(&leaf.own.node, 0, &question()).unwrap();
        link.downwards(&root, &mut leaf);
        link.up.answer(id, Ok(bytes(100_000)));
        let put = |leaf: &mut Hub, calls: u64| {
            for job in 0..200 {
                let id = JobId::made_of(&format!("job-{job}"));
                let key = JobKey { cluster: Name::default(), uid: 1, id, start_ns: 1 };
                let (node, about) = (leaf.own.node.clone(), About::default());
                let opened = Opened { node, epoch: 0, key, about, is_local: false, rank: 0, n_ranks: 0 };
                let counters = [(Metric::Lost, Cell { calls, bytes: 2, ns: 3 })].into_iter().collect();
                leaf.put_own(5 + calls, &opened, &counters, 1, false, None);
            }
        };
        let kinds = |bytes: &[u8]| {
            let (mut rows, mut parts) = (0, 0);
            Inbox::default()
                .take(bytes, |frame| {
                    match frame {
                        Frame::Row(_) => {
                            assert_eq!(parts, 0, "a row behind an answer");
                            rows += 1;
                        }
                        Frame::Answer(_) => parts += 1,
                        _ => {}
                    }
                    Ok(())
                })
                .unwrap();
            (rows, parts)
        };
        put(&mut leaf, 1);
        let mut out = Vec::new();
        assert!(!link.up.fill(6, &leaf, 1000, &mut out).unwrap());
        let (n_first, n_parts) = kinds(&out);
        assert!(n_first > 0 && n_first < 200 && n_parts == 0, "{n_first} {n_parts}");
        out.clear();
        // One part fits; before the next one, rows that are new go first again.
        assert!(!link.up.fill(6, &leaf, 20_000, &mut out).unwrap());
        assert_eq!(kinds(&out), (200 - n_first, 1));
        put(&mut leaf, 2);
        out.clear();
        assert!(link.up.fill(7, &leaf, usize::MAX, &mut out).unwrap());
        assert_eq!(kinds(&out), (200, 100_000usize.div_ceil(PART) - 1));
    }

    #[test]
    fn a_daemon_in_between_passes_on_by_numbers_of_its_own() {
        let (mut root, mut middle, mut leaf) = (hub("root", true), hub("middle", false), hub("leaf", false));
        let mut upper = Connection::new(&root, &mut middle);
        let mut lower = Connection::new(&middle, &mut leaf);
        // It has asked something itself before.
        lower.down.ask(&leaf.own.node, 0, &question()).unwrap();
        let id = upper.down.ask(&leaf.own.node, 0, &question()).unwrap();
        let asked = upper.downwards(&root, &mut middle).remove(0);
        let passed = lower.down.ask(&asked.node, asked.n_passed + 1, &asked.question.unwrap()).unwrap();
        assert_ne!(passed, id);
        let asked = lower.downwards(&middle, &mut leaf);
        let asked = asked.iter().find(|ask| ask.id == passed).unwrap();
        assert_eq!((asked.n_passed, &asked.question), (1, &Some(question())));
        lower.up.answer(passed, Ok(bytes(50_000)));
        let (of, answer) = lower.upwards(&mut middle, &leaf).remove(0);
        assert_eq!(of, passed);
        upper.up.answer(id, answer);
        assert!(upper.upwards(&mut root, &middle) == [(id, Ok(bytes(50_000)))]);
    }

    #[test]
    fn each_side_says_what_is_its_own_to_say() {
        let (mut root, mut leaf) = (hub("root", true), hub("leaf", false));
        let mut link = Connection::new(&root, &mut leaf);
        let ask = Frame::Ask(Ask { id: 1, node: Name::ours("root"), n_passed: 0, question: None });
        let part = Frame::Answer(AnswerPart { id: 1, number: 0, kind: PartKind::Last, bytes: &[] });
        assert!(matches!(link.down.heard(1, &ask, &mut root), Err(LinkError::Protocol(_))));
        assert!(matches!(link.up.heard(1, &part, &mut leaf), Err(LinkError::Protocol(_))));
    }

    #[test]
    fn the_way_to_a_node_goes_by_its_parents() {
        let mut root = hub("root", true);
        let mut hear = |node: &str, parent: &str| {
            let (node, parent) = (Name::cut(node.as_bytes()), Name::cut(parent.as_bytes()));
            root.node_heard(5, NodeNews { node, parent, ..NodeNews::default() });
        };
        for (node, parent) in [
            ("middle", "root"),
            ("leaf", "middle"),
            ("one", "root"),
            ("lost", "nobody"),
            ("round", "about"),
            ("about", "round"),
        ] {
            hear(node, parent);
        }
        let towards = |node: &str| root.child_towards(&Name::cut(node.as_bytes())).map(|it| it.to_string());
        assert_eq!(
            ["leaf", "middle", "one", "lost", "round", "unknown", "root"].map(towards),
            [Some("middle"), Some("middle"), Some("one"), None, None, None, None]
                .map(|it| it.map(str::to_owned))
        );
    }
}
