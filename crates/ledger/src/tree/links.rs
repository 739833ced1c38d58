//! The two ends of a connection: what is said, and what was said on it.
//!
//! Neither knows of sockets. An end is told what came ([`Uplink::heard`], [`Downlink::heard`]) and asked what is to be sent ([`Uplink::fill`],
//! [`Downlink::fill`]); a new connection has new ends. What waits to be sent is not kept here but in the [`Hub`], where the later version of a row
//! replaces the earlier one: whoever is slow misses versions, and costs no memory.

use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use super::asking::{Answering, Ask, AskError, Asked, Question};
use super::frame::{
    Change, Frame, FrameError, Hello, MOST_LEVELS, MOST_METRICS, MOST_ROWS, MissedFrame, NodeNews, Opened,
    Place, RowFrame, TAKES_MISSED, VERSIONS, Welcome, Whole, split, write_row,
};
use crate::{Cell, Metric, Name};

use super::hub::{Hub, HubFull, HubRow, RowId};
use super::missed::Version;
use super::outlook::Outlook;

/// How often a child asks what time it is. The answer also says that the parent is there, and takes acknowledgements along.
const PING_NS: u64 = 2_000_000_000;
/// How often a node is told of though nothing is new.
const NODE_NS: u64 = 5_000_000_000;
/// How soon a final row is sent again if nobody acknowledges it.
const RESEND_NS: u64 = 10_000_000_000;
/// Bytes of answers that wait for a child to listen.
const MOST_ANSWERS: usize = 64 << 10;
/// A skew is that of the quickest answer of so many.
const PINGS: usize = 8;

/// Why a connection cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The bytes are not a frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A frame that cannot come here.
    #[error("the peer does not follow the protocol: {0}")]
    Protocol(&'static str),
    /// There is no room.
    #[error(transparent)]
    Full(#[from] HubFull),
    /// The tree would have a loop.
    #[error("the parent is below this daemon: the tree would be a loop")]
    Loop,
    /// There are too many daemons above.
    #[error("there are more than {most} daemons one above the other", most = MOST_LEVELS)]
    Depth,
    /// The peers have no version in common.
    #[error("no version of the protocol is spoken by both")]
    Versions,
    /// The peer has ended the connection.
    #[error("the peer ended the connection: {0}")]
    Bye(Name),
    /// Too much was told on one connection: another one begins anew.
    #[error("too much was told on one connection")]
    Worn,
}

/// Whole frames out of bytes that come piece by piece.
#[derive(Clone, Debug, Default)]
pub struct Inbox(Vec<u8>);

impl Inbox {
    /// Takes bytes in, and hands each whole frame on. What is not whole is kept: less than one frame.
    pub fn take(
        &mut self,
        bytes: &[u8],
        mut heard: impl FnMut(&Frame<'_>) -> Result<(), LinkError>,
    ) -> Result<(), LinkError> {
        let kept = std::mem::take(&mut self.0);
        let joined = if kept.is_empty() { Cow::Borrowed(bytes) } else { Cow::Owned([&kept, bytes].concat()) };
        let mut at = 0;
        while let Some(Whole { kind, body, n_bytes }) = split(&joined[at..])? {
            if let Some(frame) = Frame::read(kind, body)? {
                heard(&frame)?;
            }
            at += n_bytes;
        }
        // Mostly nothing: then nothing is allocated for as long as nothing comes.
        self.0 = joined[at..].to_vec();
        Ok(())
    }
}

/// The child's end.
#[derive(Clone, Debug)]
pub struct Uplink {
    rows: HashMap<RowId, Sent>,
    numbers: Vec<Option<RowId>>,
    free: Vec<u32>,
    metrics: HashMap<Metric, u32>,
    nodes: BTreeMap<Name, (u64, u64)>,
    pinged_ns: u64,
    /// Round trips and skews, the latest last.
    pings: Vec<(u64, i64)>,
    pub(super) answering: Answering,
    missed: Missing,
}

/// Versions among those kept that the parent has from this connection.
#[derive(Clone, Debug)]
struct Missing {
    /// Whether the parent takes what it has missed.
    is_taken: bool,
    /// All before this position was sent, or need not be.
    next: u64,
    /// Of those behind it, which were sent as rows when they were the last ones.
    sent: VecDeque<bool>,
    /// When the parent was asked for the time, and all before which position was sent by then: when it answers, it has these.
    pinged: VecDeque<(u64, u64)>,
}

impl Missing {
    /// A version was sent as a row.
    fn sent_as_row(&mut self, position: u64) {
        let Some(behind) = position.checked_sub(self.next).and_then(|it| usize::try_from(it).ok()) else {
            return;
        };
        if behind >= self.sent.len() {
            self.sent.resize(behind + 1, false);
        }
        self.sent[behind] = true;
    }

    fn advance(&mut self, to: u64) {
        while self.next < to {
            self.next += 1;
            self.sent.pop_front();
        }
    }
}

#[derive(Clone, Debug)]
struct Sent {
    number: u32,
    version: u64,
    opened_version: u64,
    sent_ns: u64,
    /// The values that the parent knows from this connection.
    cells: Vec<Cell>,
    /// The outlook that it knows.
    outlook: Option<Outlook>,
}

impl Uplink {
    /// Returns the child's first frame.
    pub fn hello(hub: &Hub, proof: Vec<u8>) -> Frame<'static> {
        Frame::Hello(Hello { versions: VERSIONS, place: hub.own.clone(), proof })
    }

    /// Begins with the parent's answer.
    pub fn begin(hub: &mut Hub, welcome: &Welcome) -> Result<Self, LinkError> {
        if !(VERSIONS.0..=VERSIONS.1).contains(&welcome.version) {
            return Err(LinkError::Versions);
        }
        take_path(hub, &welcome.path)?;
        Ok(Self {
            rows: HashMap::new(),
            numbers: Vec::new(),
            free: Vec::new(),
            metrics: HashMap::new(),
            nodes: BTreeMap::new(),
            pinged_ns: 0,
            pings: Vec::new(),
            answering: Answering::default(),
            missed: Missing {
                is_taken: welcome.version >= TAKES_MISSED,
                next: hub.missed.first(),
                sent: VecDeque::new(),
                pinged: VecDeque::new(),
            },
        })
    }

    /// Takes what the parent says.
    pub fn heard(&mut self, now_ns: u64, frame: &Frame<'_>, hub: &mut Hub) -> Result<(), LinkError> {
        let row_of = |number: u32| self.numbers.get(number as usize).copied().flatten();
        match frame {
            Frame::Path(path) => take_path(hub, path)?,
            Frame::Ack { number, seq } => {
                if let Some(id) = row_of(*number) {
                    hub.acked(now_ns, id, *seq);
                }
            }
            Frame::Behind { number, seq } => {
                if let Some(id) = row_of(*number) {
                    hub.behind(id, *seq);
                }
            }
            Frame::Pong { at_ns, now_ns: theirs_ns } => {
                let Some(round_trip_ns) = now_ns.checked_sub(*at_ns) else { return Ok(()) };
                let middle_ns = at_ns + round_trip_ns / 2;
                if self.pings.len() == PINGS {
                    self.pings.remove(0);
                }
                self.pings.push((round_trip_ns, middle_ns.wrapping_sub(*theirs_ns) as i64));
                while let Some((pinged_ns, position)) = self.missed.pinged.front().copied()
                    && pinged_ns <= *at_ns
                {
                    self.missed.pinged.pop_front();
                    hub.missed.acked(position);
                }
            }
            Frame::Bye(why) => return Err(LinkError::Bye(why.clone())),
            Frame::Ask(ask) => self.answering.heard(ask),
            _ => return Err(LinkError::Protocol("a parent does not say that")),
        }
        Ok(())
    }

    /// How long a question and its answer take, and how far our clock is ahead of the parent's.
    pub fn skew(&self) -> Option<(u64, i64)> {
        self.pings.iter().min().copied()
    }

    /// Appends what is to be sent now, and stops soon after `most` bytes. Returns whether that was all.
    pub fn fill(
        &mut self,
        now_ns: u64,
        hub: &Hub,
        most: usize,
        out: &mut Vec<u8>,
    ) -> Result<bool, LinkError> {
        if now_ns.saturating_sub(self.pinged_ns) >= PING_NS {
            self.pinged_ns = now_ns;
            Frame::Ping { at_ns: now_ns }.write(out);
            if self.missed.pinged.len() < PINGS {
                self.missed.pinged.push_back((now_ns, self.missed.next));
            }
        }
        self.close_forgotten(hub, out);
        for (id, row) in hub.rows() {
            let sent = self.rows.get(&id);
            // A final row that nobody acknowledges is sent again: the parent may have forgotten it before it could say so.
            let is_unheard = |sent: &Sent| {
                row.is_final
                    && !row.is_acked()
                    && row.behind().is_none()
                    && now_ns.saturating_sub(sent.sent_ns) >= RESEND_NS
            };
            if sent.is_some_and(|sent| sent.version >= row.version && !is_unheard(sent)) {
                continue;
            }
            if out.len() >= most {
                return Ok(false);
            }
            self.send_row(now_ns, hub, id, row, out)?;
        }
        self.tell_nodes(now_ns, hub, out);
        // Behind all rows: who asks waits, who counts does not.
        Ok(self.fill_answers(most, out) && self.fill_missed(hub, most, out))
    }

    /// Appends versions of rows that the parent has missed, the oldest first. Returns whether that was all.
    fn fill_missed(&mut self, hub: &Hub, most: usize, out: &mut Vec<u8>) -> bool {
        // The first answer says that the parent listens; and by then it knows of our clock.
        if self.pings.is_empty() {
            return true;
        }
        // What was lost meanwhile.
        self.missed.advance(hub.missed.first());
        while let Some(version) = hub.missed.get(self.missed.next) {
            let was_sent = self.missed.sent.front().copied().unwrap_or(false);
            if !was_sent && let (Some(sent), Some(row)) = (self.rows.get(&version.row), hub.row(version.row))
            {
                if row.kept_at == Some(self.missed.next) && sent.version < row.version {
                    // It is the last one, and goes as a row.
                    break;
                }
                if out.len() >= most {
                    return false;
                }
                if self.missed.is_taken {
                    let (number, values) = (sent.number, version.values.changes());
                    let &Version { seq, after, at_ns, .. } = version;
                    Frame::Missed(MissedFrame { number, seq, after, at_ns, values }).write(out);
                }
            }
            self.missed.advance(self.missed.next + 1);
        }
        true
    }

    /// Appends answers alone, for when it is not yet time to send rows. Returns whether that was all.
    pub fn fill_answers(&mut self, most: usize, out: &mut Vec<u8>) -> bool {
        self.answering.fill(most, out)
    }

    /// Takes the questions of the parent since the last call.
    pub fn take_asked(&mut self) -> Vec<Ask> {
        self.answering.take_asked()
    }

    /// Answers what the parent has asked by this number.
    pub fn answer(&mut self, id: u64, answer: Result<Vec<u8>, AskError>) {
        self.answering.answer(id, answer);
    }

    /// Appends what has changed of a row since it was last sent.
    fn send_row(
        &mut self,
        now_ns: u64,
        hub: &Hub,
        id: RowId,
        row: &HubRow,
        out: &mut Vec<u8>,
    ) -> Result<(), LinkError> {
        let sent = self.rows.get(&id);
        let is_open = sent.is_some_and(|sent| sent.opened_version >= row.opened_version);
        let number = match sent {
            Some(sent) => sent.number,
            None => self.number(id)?,
        };
        if !is_open {
            Frame::Open { number, row: Arc::clone(&row.opened) }.write(out);
        }
        let sent = self.rows.entry(id).or_insert_with(|| Sent {
            number,
            version: 0,
            opened_version: 0,
            sent_ns: 0,
            cells: Vec::new(),
            outlook: None,
        });
        sent.sent_ns = now_ns;
        let news = row.outlook.filter(|outlook| sent.outlook != Some(*outlook));
        sent.outlook = row.outlook;
        if let Some(position) = row.kept_at
            && hub.missed.get(position).is_some_and(|version| version.seq == row.seq)
        {
            self.missed.sent_as_row(position);
        }
        (sent.version, sent.opened_version) = (row.version, row.opened_version);
        for (at, _) in &row.cells()[sent.cells.len()..] {
            let Some(metric) = hub.metric(row, *at) else { continue };
            if !self.metrics.contains_key(metric) {
                let number = self.metrics.len() as u32;
                if number >= MOST_METRICS {
                    return Err(LinkError::Worn);
                }
                self.metrics.insert(metric.clone(), number);
                Frame::Metric { number, metric: metric.clone() }.write(out);
            }
        }
        let n_known = sent.cells.len();
        sent.cells.resize(row.cells().len(), Cell::default());
        let metrics = &self.metrics;
        let changes =
            row.cells().iter().zip(&mut sent.cells).enumerate().filter_map(|(slot, ((at, cell), last))| {
                let is_new = slot >= n_known;
                if *cell == *last && !is_new {
                    return None;
                }
                let added = Cell {
                    calls: cell.calls.wrapping_sub(last.calls),
                    bytes: cell.bytes.wrapping_sub(last.bytes),
                    ns: cell.ns.wrapping_sub(last.ns),
                };
                *last = *cell;
                let metric = is_new.then(|| hub.metric(row, *at).and_then(|metric| metrics.get(metric)));
                Some(Change { slot: slot as u32, metric: metric.flatten().copied(), added })
            });
        let head = RowFrame {
            number,
            seq: row.seq,
            at_ns: row.at_ns,
            is_final: row.is_final,
            n_running: row.n_running,
            changes: Default::default(),
        };
        write_row(out, &head, changes);
        if let Some(outlook) = news {
            Frame::Outlook { number, outlook }.write(out);
        }
        Ok(())
    }

    fn tell_nodes(&mut self, now_ns: u64, hub: &Hub, out: &mut Vec<u8>) {
        for known in hub.nodes() {
            let told = self.nodes.get(&known.news.node);
            let is_due = told.is_none_or(|(version, told_ns)| {
                *version < known.version && now_ns.saturating_sub(*told_ns) >= PING_NS
                    || now_ns.saturating_sub(*told_ns) >= NODE_NS
            });
            if !is_due {
                continue;
            }
            self.nodes.insert(known.news.node.clone(), (known.version, now_ns));
            let news = NodeNews { silent_ns: known.silent_ns(now_ns), ..known.news.clone() };
            Frame::Node(news).write(out);
        }
        if self.nodes.len() > 2 * hub.nodes().count() + 16 {
            let known: std::collections::HashSet<&Name> = hub.nodes().map(|known| &known.news.node).collect();
            self.nodes.retain(|node, _| known.contains(node));
        }
    }

    fn close_forgotten(&mut self, hub: &Hub, out: &mut Vec<u8>) {
        if self.rows.len() <= hub.n_rows() && self.rows.keys().all(|id| hub.row(*id).is_some()) {
            return;
        }
        let gone: Vec<RowId> = self.rows.keys().filter(|id| hub.row(**id).is_none()).copied().collect();
        for id in gone {
            if let Some(sent) = self.rows.remove(&id) {
                self.numbers[sent.number as usize] = None;
                self.free.push(sent.number);
                Frame::Close { number: sent.number }.write(out);
            }
        }
    }

    fn number(&mut self, id: RowId) -> Result<u32, LinkError> {
        if let Some(number) = self.free.pop() {
            self.numbers[number as usize] = Some(id);
            return Ok(number);
        }
        let number = self.numbers.len() as u32;
        if number >= MOST_ROWS {
            return Err(LinkError::Worn);
        }
        self.numbers.push(Some(id));
        Ok(number)
    }
}

/// Takes note of who is above; refuses to be above itself.
fn take_path(hub: &mut Hub, path: &[Place]) -> Result<(), LinkError> {
    if path.iter().any(|place| place.instance == hub.own.instance) {
        return Err(LinkError::Loop);
    }
    if path.len() >= MOST_LEVELS {
        return Err(LinkError::Depth);
    }
    hub.set_path(path.to_vec());
    Ok(())
}

/// The parent's end.
#[derive(Clone, Debug)]
pub struct Downlink {
    child: Place,
    rows: HashMap<u32, Came>,
    metrics: Vec<Arc<Metric>>,
    path_version: u64,
    /// Frames that wait to be sent.
    answers: Vec<u8>,
    pub(super) asked: Asked,
}

#[derive(Clone, Debug)]
struct Came {
    id: RowId,
    opened: Arc<Opened>,
    slots: Vec<Slot>,
    /// The version that the child knows to be safe.
    acked: Option<u64>,
    /// The later version that the child knows of.
    behind: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The number of the metric on this connection.
    metric: u32,
    /// The cell of the row, if there was room.
    cell: Option<u32>,
    /// The values last told.
    last: Cell,
}

impl Downlink {
    /// Begins with what the child says first. Returns the version that is spoken.
    pub fn begin(hub: &Hub, hello: &Hello) -> Result<(Self, u32), LinkError> {
        let version = hello.versions.1.min(VERSIONS.1);
        if version < hello.versions.0.max(VERSIONS.0) {
            return Err(LinkError::Versions);
        }
        let is_above = hub.path().iter().any(|place| place.instance == hello.place.instance);
        if is_above || hello.place.instance == hub.own.instance {
            return Err(LinkError::Loop);
        }
        if hub.path().len() + 1 >= MOST_LEVELS {
            return Err(LinkError::Depth);
        }
        let path_version = hub.path_version();
        let (rows, metrics, answers) = (HashMap::new(), Vec::new(), Vec::new());
        let (child, asked) = (hello.place.clone(), Asked::default());
        Ok((Self { child, rows, metrics, path_version, answers, asked }, version))
    }

    /// Who is at the other end.
    pub fn child(&self) -> &Place {
        &self.child
    }

    /// The path that children of this daemon are told.
    pub fn path(hub: &Hub) -> Vec<Place> {
        [&hub.own].into_iter().chain(hub.path()).cloned().collect()
    }

    /// Takes what the child says.
    pub fn heard(&mut self, now_ns: u64, frame: &Frame<'_>, hub: &mut Hub) -> Result<(), LinkError> {
        match frame {
            Frame::Metric { number, metric } => {
                if *number as usize != self.metrics.len() || *number >= MOST_METRICS {
                    return Err(LinkError::Protocol("metrics are numbered in order"));
                }
                self.metrics.push(hub.shared(metric));
            }
            Frame::Open { number, row } => {
                if *number >= MOST_ROWS {
                    return Err(LinkError::Protocol("a row's number is too large"));
                }
                let id = hub.open(now_ns, row, false)?;
                let opened = hub.row(id).map_or_else(|| Arc::clone(row), |row| Arc::clone(&row.opened));
                match self.rows.entry(*number) {
                    Entry::Vacant(free) => {
                        free.insert(Came { id, opened, slots: Vec::new(), acked: None, behind: None });
                    }
                    Entry::Occupied(mut came) => {
                        let (old, new) = (&came.get().opened, row);
                        if (&old.node, old.epoch, &old.key) != (&new.node, new.epoch, &new.key) {
                            return Err(LinkError::Protocol("a row's number is another row's"));
                        }
                        came.get_mut().opened = opened;
                    }
                }
            }
            Frame::Row(row) => self.row(now_ns, row, hub)?,
            Frame::Missed(missed) => self.missed(now_ns, missed, hub)?,
            Frame::Outlook { number, outlook } => {
                let came = self.rows.get(number).ok_or(LinkError::Protocol("an outlook without a row"))?;
                hub.set_outlook(came.id, *outlook);
            }
            Frame::Close { number } => drop(self.rows.remove(number)),
            Frame::Ping { at_ns } => self.answer(&Frame::Pong { at_ns: *at_ns, now_ns })?,
            Frame::Node(news) => {
                let parent = if news.node == self.child.node { &hub.own.node } else { &news.parent };
                hub.node_heard(now_ns, NodeNews { parent: parent.clone(), ..news.clone() });
            }
            Frame::Bye(why) => return Err(LinkError::Bye(why.clone())),
            Frame::Answer(part) => self.asked.heard(part),
            _ => return Err(LinkError::Protocol("a child does not say that")),
        }
        Ok(())
    }

    fn row(&mut self, now_ns: u64, row: &RowFrame<'_>, hub: &mut Hub) -> Result<(), LinkError> {
        let came = self.rows.get_mut(&row.number).ok_or(LinkError::Protocol("a row without a number"))?;
        let mut raised = Vec::new();
        if hub.row(came.id).is_none() {
            // It was done and forgotten here, and goes on.
            came.id = hub.open(now_ns, &came.opened, false)?;
            for slot in &mut came.slots {
                slot.cell = hub.cell_of(came.id, &self.metrics[slot.metric as usize]);
                raised.extend(slot.cell.map(|cell| (cell, slot.last)));
            }
        }
        hub.note_shown(now_ns, came.id);
        let n_slots = came.slots.len();
        for change in row.changes {
            let Change { slot, metric, added } = change?;
            let slot = slot as usize;
            if slot == came.slots.len() {
                let known = metric.and_then(|number| Some((number, self.metrics.get(number as usize)?)));
                let (number, metric) = known.ok_or(LinkError::Protocol("a cell without a metric"))?;
                let cell = hub.cell_of(came.id, metric);
                came.slots.push(Slot { metric: number, cell, last: Cell::default() });
            }
            let Some(Slot { cell, last, .. }) = came.slots.get_mut(slot) else {
                return Err(LinkError::Protocol("cells are numbered in order"));
            };
            last.calls = last.calls.wrapping_add(added.calls);
            last.bytes = last.bytes.wrapping_add(added.bytes);
            last.ns = last.ns.wrapping_add(added.ns);
            raised.extend(cell.map(|cell| (cell, *last)));
        }
        if came.slots.len() > n_slots {
            // Cells come all at once, and then no more: room for others would never be used.
            came.slots.shrink_to_fit();
            self.metrics.shrink_to_fit();
            hub.shrink(came.id);
        }
        hub.raise(came.id, raised);
        let RowFrame { number, seq, at_ns, is_final, n_running, .. } = *row;
        if let Some(seq) = hub.heard(now_ns, came.id, seq, at_ns, is_final, n_running) {
            self.answer(&Frame::Behind { number, seq })?;
        }
        Ok(())
    }

    fn missed(&mut self, now_ns: u64, missed: &MissedFrame<'_>, hub: &mut Hub) -> Result<(), LinkError> {
        let came = self.rows.get(&missed.number).ok_or(LinkError::Protocol("a row without a number"))?;
        let mut grown = Vec::new();
        for value in missed.values {
            let Change { slot, added: value, .. } = value?;
            let slot = came.slots.get(slot as usize);
            let Slot { cell, last, .. } = slot.ok_or(LinkError::Protocol("a missed cell without a row"))?;
            // What had grown by then is in what the row has by now.
            let value = Cell {
                calls: value.calls.min(last.calls),
                bytes: value.bytes.min(last.bytes),
                ns: value.ns.min(last.ns),
            };
            grown.extend(cell.map(|cell| (cell, value)));
        }
        hub.missed(now_ns, came.id, (missed.seq, missed.after), missed.at_ns, &grown);
        Ok(())
    }

    fn answer(&mut self, frame: &Frame<'_>) -> Result<(), LinkError> {
        if self.answers.len() > MOST_ANSWERS {
            return Err(LinkError::Protocol("it asks, and does not listen"));
        }
        frame.write(&mut self.answers);
        Ok(())
    }

    /// Asks the child, or a node below it, by a number that is returned. `n_passed` daemons have passed the question on.
    pub fn ask(&mut self, node: &Name, n_passed: u8, question: &Question) -> Result<u64, AskError> {
        if self.answers.len() > MOST_ANSWERS {
            return Err(AskError::Busy);
        }
        let id = self.asked.open()?;
        let ask = Ask { id, node: node.clone(), n_passed, question: Some(question.clone()) };
        Frame::Ask(ask).write(&mut self.answers);
        Ok(id)
    }

    /// Nobody waits for this answer any more.
    pub fn forget(&mut self, id: u64) {
        self.asked.forget(id);
    }

    /// Answers that are whole, and refusals, since this was last called.
    pub fn take_answered(&mut self) -> Vec<(u64, Result<Vec<u8>, AskError>)> {
        self.asked.take_answered()
    }

    /// Appends what is to be sent now.
    pub fn fill(&mut self, hub: &Hub, out: &mut Vec<u8>) {
        out.append(&mut self.answers);
        if self.path_version != hub.path_version() {
            self.path_version = hub.path_version();
            Frame::Path(Self::path(hub)).write(out);
        }
        for (&number, came) in &mut self.rows {
            let Some(row) = hub.row(came.id) else { continue };
            if row.is_acked() && came.acked != Some(row.seq) {
                came.acked = Some(row.seq);
                Frame::Ack { number, seq: row.seq }.write(out);
            }
            if let Some(seq) = row.behind()
                && came.behind != Some(seq)
            {
                came.behind = Some(seq);
                Frame::Behind { number, seq }.write(out);
            }
        }
    }

    /// Whether something waits to be sent.
    pub fn has_answers(&self) -> bool {
        !self.answers.is_empty()
    }
}
