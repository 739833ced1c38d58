//! One layer for each file: the same bytes pass through HDF5, MPI-IO and POSIX, and must be counted once.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Seek};
use std::ops::ControlFlow;
use std::path::Path;

use iotide_private::nameless;
use iotide_trace::{AccessFacts, Event, EventSink, FileId, Layer, Loss, Op, TimeSpent, Timestamp, TraceInfo};

use crate::{NativeWriter, ReadError, input::Input, native};

/// Which layers' events are wanted of a source that sees several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LayerChoice {
    /// For each file and direction the lowest layer that saw all the bytes the layers above it saw.
    ///
    /// POSIX calls and C streams count as one layer: what a tracer sees of one it does not see of the other. Of names
    /// and attributes, the lowest layer that touched the file.
    #[default]
    LowestComplete,
    /// Every layer: for looking at each of them, not for adding up.
    All,
    /// One layer, complete or not.
    Only(Layer),
}

/// Passes on the events of the chosen layers.
///
/// To know whether a layer is complete takes all of its events: they wait here, up to [`LayerFilter::MOST_WAITING`] in memory
/// and the others in a temporary native trace, about ten bytes each. So the order and the number of events mean nothing.
pub(crate) struct LayerFilter<'s> {
    sink: &'s mut dyn EventSink,
    choice: LayerChoice,
    waiting: Vec<Waiting>,
    most_waiting: usize,
    spool: Option<NativeWriter<BufWriter<File>>>,
    seen: Seen,
    /// Set where there was no room for a temporary trace: then those seen so far had to decide.
    decided: Option<Decisions>,
}

/// Bytes and lowest level per file, as each layer reports them.
#[derive(Default)]
struct Seen {
    bytes: HashMap<(FileId, Op), [f64; 3]>,
    lowest: HashMap<FileId, Level>,
}

impl Seen {
    fn add(&mut self, event: &Event) {
        let level = level(event.layer);
        if event.op.moves_data() {
            self.bytes.entry((event.file, event.op)).or_default()[level as usize] += event.bytes;
        }
        self.lowest.entry(event.file).and_modify(|lowest| *lowest = level.min(*lowest)).or_insert(level);
    }

    fn n_files(&self) -> usize {
        let ids = self.lowest.keys().filter(|file| **file != FileId::NONE);
        ids.map(|file| file.0 as usize + 1).max().unwrap_or(0)
    }
}

/// An event, and when the program began to wait for it if it was asynchronous.
type Waiting = (Event, Option<Timestamp>);

/// Lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Low,
    MpiIo,
    Library,
}

fn level(layer: Layer) -> Level {
    match layer {
        Layer::MpiIo => Level::MpiIo,
        Layer::Library => Level::Library,
        Layer::Unknown | Layer::Posix | Layer::Stdio | Layer::Server => Level::Low,
    }
}

#[derive(Default)]
struct Decisions {
    /// The group of files under one name, by id.
    groups: Vec<u32>,
    data: HashMap<(u32, Op), Level>,
    names: HashMap<u32, Level>,
}

impl Decisions {
    fn group(&self, file: FileId) -> u32 {
        self.groups.get(file.0 as usize).copied().unwrap_or(file.0)
    }

    fn keeps(&self, event: &Event) -> bool {
        let group = self.group(event.file);
        let wanted = match event.op.moves_data() {
            true => self.data.get(&(group, event.op)),
            // Calls that name no file are not the same call seen twice.
            false if event.file == FileId::NONE => None,
            false => self.names.get(&group),
        };
        wanted.is_none_or(|&wanted| wanted == level(event.layer))
    }
}

impl<'s> LayerFilter<'s> {
    /// 88 bytes each.
    const MOST_WAITING: usize = 1 << 20;

    /// A filter for sources of which one or more see `several` layers.
    pub(crate) fn new(sink: &'s mut dyn EventSink, choice: LayerChoice, several: bool) -> Self {
        let choice = match choice {
            LayerChoice::LowestComplete if !several => LayerChoice::All,
            choice => choice,
        };
        Self {
            sink,
            choice,
            waiting: Vec::new(),
            most_waiting: Self::MOST_WAITING,
            spool: None,
            seen: Seen::default(),
            decided: None,
        }
    }

    /// Where events go: past the filter if all of them are wanted.
    pub(crate) fn entrance(&mut self) -> &mut dyn EventSink {
        if self.choice == LayerChoice::All { self.sink } else { self }
    }

    /// Sends off what still waits; `paths` tells which files of different sources are the same.
    pub(crate) fn finish(mut self, paths: &[String]) {
        let _ = self.flush(paths);
    }

    fn flush(&mut self, paths: &[String]) -> ControlFlow<()> {
        let decisions = self.decided.take().unwrap_or_else(|| decide(&self.seen, paths));
        if let Some(spool) = self.spool.take() {
            let mut chosen =
                Chosen { sink: self.sink, decisions: &decisions, flow: ControlFlow::Continue(()) };
            if let Err(error) = replay(spool, self.seen.n_files(), &mut chosen) {
                let what = format!("events of a temporary trace could not be read again: {error}");
                chosen.sink.loss(Loss::of_unknown_size(what));
            }
            chosen.flow?;
        }
        for (event, waited) in std::mem::take(&mut self.waiting) {
            if decisions.keeps(&event) {
                pass(self.sink, event, waited)?;
            }
        }
        self.decided = Some(decisions);
        ControlFlow::Continue(())
    }

    /// Makes room in memory.
    fn spill(&mut self) -> ControlFlow<()> {
        let spilled = self.spool.take().map_or_else(new_spool, Ok).and_then(|mut spool| {
            for &(event, waited) in &self.waiting {
                let flow = pass(&mut spool, event, waited);
                if flow.is_break() {
                    // What failed is said at the end of it.
                    return spool.finish(&TraceInfo::default()).and(Err(io::ErrorKind::Other.into()));
                }
            }
            Ok(spool)
        });
        match spilled {
            Ok(spool) => {
                self.spool = Some(spool);
                self.waiting.clear();
                ControlFlow::Continue(())
            }
            Err(error) => {
                let n = self.waiting.len();
                self.sink.loss(Loss::of_unknown_size(format!(
                    "no room for a temporary trace ({error}): the first {n} events decided which layer of a file counts"
                )));
                self.flush(&[])
            }
        }
    }

    fn take(&mut self, event: Event, waited: Option<Timestamp>) -> ControlFlow<()> {
        match (self.choice, &self.decided) {
            (LayerChoice::All, _) => pass(self.sink, event, waited),
            (LayerChoice::Only(layer), _) if event.layer == layer => pass(self.sink, event, waited),
            (LayerChoice::Only(_), _) => ControlFlow::Continue(()),
            (LayerChoice::LowestComplete, Some(decisions)) if decisions.keeps(&event) => {
                pass(self.sink, event, waited)
            }
            (LayerChoice::LowestComplete, Some(_)) => ControlFlow::Continue(()),
            (LayerChoice::LowestComplete, None) => {
                self.seen.add(&event);
                self.waiting.push((event, waited));
                if self.waiting.len() >= self.most_waiting { self.spill() } else { ControlFlow::Continue(()) }
            }
        }
    }
}

fn pass(sink: &mut dyn EventSink, event: Event, waited: Option<Timestamp>) -> ControlFlow<()> {
    match waited {
        Some(waited) => sink.async_event(event, waited),
        None => sink.event(event),
    }
}

impl EventSink for LayerFilter<'_> {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        self.take(event, None)
    }

    fn async_event(&mut self, event: Event, waited: Timestamp) -> ControlFlow<()> {
        self.take(event, Some(waited))
    }

    fn loss(&mut self, loss: Loss) {
        self.sink.loss(loss);
    }

    /// Kept apart by layer wherever it goes, so no time comes twice.
    fn time_spent(&mut self, spent: TimeSpent) {
        match self.choice {
            LayerChoice::Only(layer) if spent.layer != layer => {}
            _ => self.sink.time_spent(spent),
        }
    }

    /// Forwards the facts of every layer: they are kept apart by layer, and an insight may need several.
    fn access_facts(&mut self, facts: &AccessFacts) {
        self.sink.access_facts(facts);
    }
}

fn new_spool() -> io::Result<NativeWriter<BufWriter<File>>> {
    NativeWriter::new(BufWriter::with_capacity(256 << 10, nameless()?))
}

fn replay(
    spool: NativeWriter<BufWriter<File>>,
    n_files: usize,
    chosen: &mut Chosen<'_>,
) -> Result<(), String> {
    let failed = |error: io::Error| error.to_string();
    // Names are not needed in it, but a trace has one for each file.
    let info = TraceInfo { files: vec![String::new(); n_files], ..TraceInfo::default() };
    let spool = spool.finish(&info).map_err(failed)?;
    let mut file = spool.into_inner().map_err(|error| error.to_string())?;
    file.rewind().map_err(failed)?;
    let name = Path::new("temporary trace");
    let input = Input::from_read(name, Box::new(BufReader::new(file))).map_err(|error| error.to_string())?;
    native::read(input, &mut None, chosen)
        .map(drop)
        .map_err(|fault| ReadError::from_fault(name, fault).to_string())
}

/// Passes on the events that were decided for.
struct Chosen<'a> {
    sink: &'a mut dyn EventSink,
    decisions: &'a Decisions,
    flow: ControlFlow<()>,
}

impl Chosen<'_> {
    fn take(&mut self, event: Event, waited: Option<Timestamp>) -> ControlFlow<()> {
        if self.decisions.keeps(&event) {
            self.flow = pass(self.sink, event, waited);
        }
        self.flow
    }
}

impl EventSink for Chosen<'_> {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        self.take(event, None)
    }
    fn async_event(&mut self, event: Event, waited: Timestamp) -> ControlFlow<()> {
        self.take(event, Some(waited))
    }
    /// Only events wait; the others went past.
    fn time_spent(&mut self, _: TimeSpent) {}
    fn access_facts(&mut self, _: &AccessFacts) {}
    fn loss(&mut self, loss: Loss) {
        self.sink.loss(loss);
    }
}

fn decide(seen: &Seen, paths: &[String]) -> Decisions {
    let mut first_of_path: HashMap<&str, u32> = HashMap::new();
    let groups = paths.iter().zip(0..).map(|(path, id)| *first_of_path.entry(path).or_insert(id)).collect();
    let mut decisions = Decisions { groups, ..Decisions::default() };
    let mut bytes: HashMap<(u32, Op), [f64; 3]> = HashMap::new();
    for (&(file, op), seen) in &seen.bytes {
        let sums = bytes.entry((decisions.group(file), op)).or_default();
        sums.iter_mut().zip(seen).for_each(|(sum, bytes)| *sum += bytes);
    }
    for (&file, &level) in &seen.lowest {
        let group = decisions.group(file);
        decisions.names.entry(group).and_modify(|lowest| *lowest = level.min(*lowest)).or_insert(level);
    }
    for (key, [low, mpi, library]) in bytes {
        let lowest_complete = match () {
            () if low >= mpi && low >= library => Level::Low,
            () if mpi >= library => Level::MpiIo,
            () => Level::Library,
        };
        decisions.data.insert(key, lowest_complete);
    }
    decisions
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_trace::{Grain, Rank, Timestamp, Trace};

    fn event(op: Op, layer: Layer, file: u32, bytes: f64) -> Event {
        let at = Timestamp::from_nanos_since_start(0);
        Event {
            op,
            layer,
            grain: Grain::Call,
            rank: Rank(0),
            file: FileId(file),
            start: at,
            end: at,
            bytes,
            calls: 1,
        }
    }

    fn kept(choice: LayerChoice, events: &[Event], paths: &[&str]) -> Vec<Event> {
        let mut trace = Trace::default();
        let mut filter = LayerFilter::new(&mut trace, choice, true);
        for event in events {
            assert!(filter.event(*event).is_continue());
        }
        filter.finish(&paths.iter().map(|path| path.to_string()).collect::<Vec<_>>());
        trace.events
    }

    #[test]
    fn the_layer_below_is_taken_if_it_saw_as_much() {
        let posix = [event(Op::Open, Layer::Posix, 0, 0.0), event(Op::Write, Layer::Posix, 0, 100.0)];
        let mpi = [event(Op::Open, Layer::MpiIo, 0, 0.0), event(Op::Write, Layer::MpiIo, 0, 100.0)];
        let both = [posix, mpi].concat();
        assert_eq!(kept(LayerChoice::LowestComplete, &both, &["/a"]), posix);
        assert_eq!(kept(LayerChoice::Only(Layer::MpiIo), &both, &["/a"]), mpi);
        assert_eq!(kept(LayerChoice::All, &both, &["/a"]), both);
    }

    #[test]
    fn the_layer_above_is_taken_where_the_one_below_was_not_traced() {
        let events = [
            event(Op::Open, Layer::Posix, 0, 0.0),
            event(Op::Write, Layer::Posix, 0, 40.0),
            event(Op::Write, Layer::MpiIo, 0, 4096.0),
            event(Op::Read, Layer::MpiIo, 0, 7.0),
            event(Op::Read, Layer::Posix, 0, 8.0),
            event(Op::Write, Layer::Stdio, 1, 5.0),
        ];
        assert_eq!(
            kept(LayerChoice::LowestComplete, &events, &["/a", "/log"]),
            [events[0], events[2], events[4], events[5]]
        );
    }

    #[test]
    fn files_first_seen_late_are_counted_once_too() {
        let mut trace = Trace::default();
        let mut filter = LayerFilter {
            most_waiting: 10,
            ..LayerFilter::new(&mut trace, LayerChoice::LowestComplete, true)
        };
        let at = Timestamp::from_nanos_since_start;
        for file in 0..50 {
            let write = |layer| event(Op::Write, layer, file, 100.0);
            let _ = filter.async_event(Event { end: at(9), ..write(Layer::MpiIo) }, at(5));
            assert!(filter.event(write(Layer::Posix)).is_continue());
        }
        // Of the last file the layer above saw more: it alone counts, whenever that is known.
        let last = Event { end: at(9), ..event(Op::Write, Layer::MpiIo, 0, 1.0) };
        let _ = filter.async_event(last, at(7));
        filter.finish(&(0..50).map(|i| format!("/{i}")).collect::<Vec<_>>());
        assert_eq!(trace.losses, []);
        assert_eq!(trace.events.iter().map(|event| event.bytes).sum::<f64>(), 49.0 * 100.0 + 101.0);
        assert!(trace.events.iter().all(|event| (event.layer == Layer::MpiIo) == (event.file == FileId(0))));
    }

    #[test]
    fn one_file_in_two_sources_is_one_file() {
        // Rank 0 aggregates: it alone reaches POSIX, with the bytes of both.
        let events = [
            event(Op::Write, Layer::MpiIo, 0, 10.0),
            event(Op::Write, Layer::Posix, 0, 20.0),
            event(Op::Write, Layer::MpiIo, 1, 10.0),
        ];
        assert_eq!(kept(LayerChoice::LowestComplete, &events, &["/a", "/a"]), [events[1]]);
        assert_eq!(kept(LayerChoice::LowestComplete, &events, &["/a", "/b"]), [events[1], events[2]]);
    }
}
