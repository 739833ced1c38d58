//! GlusterFS: what its bricks count, as they dump it every few seconds or as `gluster volume profile` tells it.
//!
//! ```text
//! # 1700000001.250000000
//! "gluster.brick._data_b1.aggr.fop.write.count": 256,
//! "gluster.brick._data_b1.aggr.bytes_written": 33554432
//! ```
//!
//! or, of `gluster volume profile VOLUME info cumulative --xml`,
//!
//! ```text
//! # 1700000001.250000000
//! <brickName>server1:/data/b1</brickName>
//! <cumulativeStats> … <totalRead>0</totalRead> <totalWrite>33554432</totalWrite> </cumulativeStats>
//! ```
//!
//! A line with a time stands before what was counted then. The counters are bytes since the brick was started. `gluster volume info --xml`,
//! anywhere before them, tells how many copies of a byte bricks have; without it bytes count as often as they were written.

use std::collections::HashMap;
use std::ops::ControlFlow;

use iotide_trace::{EventSink, Op, Timestamp, TraceInfo};
use memchr::memmem;

use crate::{
    Place,
    budget::NameBudget,
    counters::{Counters, Redundancy, Sample, Total, mark},
    error::Fault,
    input::Input,
    lenient::parse_u64,
    losses::Losses,
    scanner::Scanner,
};

const LONGEST_LINE: usize = 64 << 10;
/// Bricks of which a volume tells.
const MOST_BRICKS: usize = 1 << 16;

/// Whether a file begins like one of these.
pub(crate) fn recognises(head: &[u8]) -> bool {
    let has = |text: &str| memmem::find(head, text.as_bytes()).is_some();
    has("\"gluster.") && has(".aggr.") || has("<volProfile>") || has("<volInfo>")
}

/// Reads one file.
pub(crate) fn read(input: Input, sink: &mut dyn EventSink) -> Result<TraceInfo, Fault> {
    let mut scanner = Scanner::new(input.into_read());
    let mut decoder = Decoder::default();
    let (flow, number) = scanner
        .lines(LONGEST_LINE, |line, number| decoder.line(line.trim_ascii(), Place::Line(number), sink))?;
    if flow.is_continue() {
        let _ = decoder.end_of_brick(Place::Line(number), sink);
    }
    if decoder.n_undated > 0 && !decoder.is_dated {
        let fault = "no line '# SECONDS' says when this was counted: let `stat -c '# %.Y' FILE` or `date +'# %s.%N'` write one before each";
        return Err(Fault::at(Place::Whole, fault));
    }
    let Decoder { counters, mut losses, .. } = decoder;
    let files = counters.files.into_paths(&mut losses);
    losses.report(sink);
    Ok(TraceInfo { files, ..TraceInfo::default() })
}

#[derive(Default)]
struct Decoder {
    /// When what follows was counted.
    time: Option<Timestamp>,
    /// Whether any sample had a time, and how many had none.
    is_dated: bool,
    n_undated: u64,
    brick: Option<Brick>,
    /// Whether counters are of bricks; those of clients are the same bytes again.
    of_bricks: Option<bool>,
    volume: Volume,
    bricks: HashMap<Vec<u8>, Known>,
    budget: NameBudget,
    /// The operation whose number of calls comes next.
    operation: Option<Op>,
    is_cumulative: bool,
    counters: Counters,
    losses: Losses,
}

/// Totals of a brick that is being read: read and written.
#[derive(Debug, Default)]
struct Brick {
    name: Vec<u8>,
    bytes: [Option<u64>; 2],
    calls: [u64; 2],
}

/// Facts about a brick from the description of a volume.
struct Known {
    label: String,
    writes: Redundancy,
    reads: Redundancy,
}

/// Numbers of bricks in a group that has all of a file, of a volume that is being described.
#[derive(Clone, Copy, Debug, Default)]
struct Volume {
    replicas: u64,
    arbiters: u64,
    dispersed: u64,
    parity: u64,
}

impl Volume {
    /// How often writes and reads are counted.
    fn redundancy(self) -> (Redundancy, Redundancy) {
        let Self { replicas, arbiters, dispersed, parity } = self;
        if dispersed > parity {
            let data = (dispersed - parity) as f64;
            let dispersed = dispersed as f64;
            // A read takes pieces from as many bricks as have data.
            let writes = Redundancy { bytes: dispersed / data, calls: dispersed };
            return (writes, Redundancy { bytes: 1.0, calls: data });
        }
        // Arbiters keep names and no data, but take part in each write.
        let bytes = replicas.saturating_sub(arbiters).max(1) as f64;
        (Redundancy { bytes, calls: replicas.max(1) as f64 }, Redundancy::NONE)
    }
}

impl Decoder {
    fn line(&mut self, line: &[u8], place: Place, sink: &mut dyn EventSink) -> ControlFlow<()> {
        match line {
            [b'#', ..] => {
                self.end_of_brick(place, sink)?;
                self.time = mark(line).map(|(time, _)| time);
                if self.time.is_none() {
                    self.losses.note("mark", place, || "not a time in seconds behind #".into());
                }
            }
            [b'"', ..] => self.dumped(line, place, sink)?,
            [b'<', ..] => self.profiled(line, place, sink)?,
            _ => {}
        }
        ControlFlow::Continue(())
    }

    /// A line of a dump: `"gluster.brick._data_b1.aggr.bytes_written": 33554432,`. That of a client has the volume in place of a brick.
    fn dumped(&mut self, line: &[u8], place: Place, sink: &mut dyn EventSink) -> ControlFlow<()> {
        let Some((name, counter, value)) = counter_of(line) else { return ControlFlow::Continue(()) };
        let Some(counter) = Counter::of_dump(counter) else { return ControlFlow::Continue(()) };
        let (is_brick, name) = name.strip_prefix(b"brick.").map_or((false, name), |name| (true, name));
        if *self.of_bricks.get_or_insert(is_brick) != is_brick {
            self.losses.note("client", place, || {
                "counters of bricks and of clients are the same bytes: those that came first are taken".into()
            });
            return ControlFlow::Continue(());
        }
        if self.brick.as_ref().is_none_or(|brick| brick.name != name) {
            self.end_of_brick(place, sink)?;
            self.brick = Some(Brick { name: name.to_vec(), ..Brick::default() });
        }
        self.counted(counter, value, place);
        match counter {
            // The last of a dump: whoever follows the log need not wait for the next one.
            Counter::Bytes(Op::Write) => self.end_of_brick(place, sink),
            _ => ControlFlow::Continue(()),
        }
    }

    /// A line of XML: tools write each of these elements on a line of its own.
    fn profiled(&mut self, line: &[u8], place: Place, sink: &mut dyn EventSink) -> ControlFlow<()> {
        let Some((tag, value)) = element(line) else { return ControlFlow::Continue(()) };
        let number = || parse_u64(value).unwrap_or(0);
        match tag {
            b"replicaCount" => self.volume.replicas = number(),
            b"arbiterCount" => self.volume.arbiters = number(),
            b"disperseCount" => self.volume.dispersed = number(),
            b"redundancyCount" => self.volume.parity = number(),
            b"brick" => self.described(value),
            b"/volume" => self.volume = Volume::default(),
            b"brickName" => {
                self.end_of_brick(place, sink)?;
                self.of_bricks = Some(true);
                self.brick = Some(Brick { name: value.to_vec(), ..Brick::default() });
            }
            b"cumulativeStats" => self.is_cumulative = true,
            b"/cumulativeStats" => {
                self.is_cumulative = false;
                self.end_of_brick(place, sink)?;
            }
            b"name" => self.operation = operation(value),
            b"hits" if self.is_cumulative => {
                if let Some(op) = self.operation.take() {
                    self.counted(Counter::Calls(op), value, place);
                }
            }
            b"totalRead" if self.is_cumulative => self.counted(Counter::Bytes(Op::Read), value, place),
            b"totalWrite" if self.is_cumulative => self.counted(Counter::Bytes(Op::Write), value, place),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    /// Notes a brick of the volume that is described. A profile calls it `host:/path`, a dump `_path`.
    fn described(&mut self, name: &[u8]) {
        let path = memchr::memchr(b':', name).map_or(name, |colon| &name[colon + 1..]);
        let of_dump: Vec<u8> = path.iter().map(|&byte| if byte == b'/' { b'_' } else { byte }).collect();
        let (writes, reads) = self.volume.redundancy();
        for key in [name.to_vec(), of_dump] {
            if !key.is_empty() && self.bricks.len() < MOST_BRICKS && self.budget.takes(&key) {
                let label = String::from_utf8_lossy(name).into_owned();
                self.bricks.insert(key, Known { label, writes, reads });
            }
        }
    }

    fn counted(&mut self, counter: Counter, value: &[u8], place: Place) {
        let Some(brick) = &mut self.brick else { return };
        let Some(value) = parse_u64(value) else {
            return self.losses.note("counter", place, || "a counter that is not a whole number".into());
        };
        match counter {
            Counter::Bytes(op) => brick.bytes[usize::from(op == Op::Write)] = Some(value),
            Counter::Calls(op) => brick.calls[usize::from(op == Op::Write)] = value,
        }
    }

    /// Takes the counters of a brick, if there are any.
    fn end_of_brick(&mut self, place: Place, sink: &mut dyn EventSink) -> ControlFlow<()> {
        let Some(brick) = self.brick.take().filter(|brick| brick.bytes != [None; 2]) else {
            return ControlFlow::Continue(());
        };
        let Some(time) = self.time else {
            self.n_undated += 1;
            self.losses.note("time", place, || "counted behind no line with a time".into());
            return ControlFlow::Continue(());
        };
        self.is_dated = true;
        let known = self.bricks.get(&brick.name);
        for (at, op) in [Op::Read, Op::Write].into_iter().enumerate() {
            let Some(bytes) = brick.bytes[at] else { continue };
            let total = Total { bytes, calls: Some(brick.calls[at]) };
            let redundancy = match (known, op) {
                (None, _) => Redundancy::NONE,
                (Some(known), Op::Read) => known.reads,
                (Some(known), _) => known.writes,
            };
            let sample = Sample { target: &brick.name, time, op, total, redundancy, place };
            let label = || match known {
                Some(known) => known.label.clone(),
                None => String::from_utf8_lossy(&brick.name).into_owned(),
            };
            self.counters.sample(sample, label, &mut self.losses, sink)?;
        }
        ControlFlow::Continue(())
    }
}

/// Quantity that a number counts.
#[derive(Clone, Copy, Debug)]
enum Counter {
    Bytes(Op),
    Calls(Op),
}

impl Counter {
    fn of_dump(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"bytes_read" => Self::Bytes(Op::Read),
            b"bytes_written" => Self::Bytes(Op::Write),
            b"fop.read.count" => Self::Calls(Op::Read),
            b"fop.write.count" => Self::Calls(Op::Write),
            _ => return None,
        })
    }
}

fn operation(name: &[u8]) -> Option<Op> {
    match name {
        b"READ" => Some(Op::Read),
        b"WRITE" => Some(Op::Write),
        _ => None,
    }
}

/// The name of who counts, of what, and the number.
fn counter_of(line: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let line = line.strip_prefix(b"\"gluster.")?;
    let (key, value) = line.split_at(memchr::memchr(b'"', line)?);
    // A path may hold this, too; what is counted does not.
    let at = memmem::rfind(key, b".aggr.")?;
    let value = value[1..].trim_ascii().strip_prefix(b":")?;
    Some((&key[..at], &key[at + 6..], value.strip_suffix(b",").unwrap_or(value).trim_ascii()))
}

/// The name of the element that a line begins with, without its attributes, and the text up to the next one.
fn element(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = line.strip_prefix(b"<")?;
    let (tag, rest) = line.split_at(memchr::memchr(b'>', line)?);
    let tag = tag.split(|byte| *byte == b' ').next().unwrap_or(tag);
    let rest = &rest[1..];
    Some((tag, &rest[..memchr::memchr(b'<', rest).unwrap_or(rest.len())]))
}

#[cfg(test)]
mod tests {
    use crate::testing::check;

    const VOLUME: &str = "<?xml version=\"1.0\"?>\n<cliOutput>\n<volInfo>\n<volumes>\n<volume>\n<name>rep</name>\n\
        <replicaCount>3</replicaCount>\n<arbiterCount>0</arbiterCount>\n<disperseCount>0</disperseCount>\n\
        <redundancyCount>0</redundancyCount>\n<bricks>\n\
        <brick uuid=\"1\">n1:/data/b1<name>n1:/data/b1</name></brick>\n\
        <brick uuid=\"1\">n2:/data/b2<name>n2:/data/b2</name></brick>\n</bricks>\n</volume>\n</volumes>\n</volInfo>\n</cliOutput>\n";

    #[test]
    fn between_two_dumps_of_a_brick_lies_one_bin() {
        check(
            "# 100.5\n{\n\"gluster.brick._d_1.aggr.fop.write.count\": 2,\n\"gluster.brick._d_1.aggr.bytes_read\": 0,\n\
             \"gluster.brick._d_1.aggr.bytes_written\": 10\n}\n{\n\"gluster.brick._d_1.inter.bytes_written_per_sec\": 9.00\n}\n\
             # 101.5\n\"gluster.brick._d_1.aggr.fop.write.count\": 5,\n\"gluster.brick._d_1.aggr.bytes_read\": 0,\n\
             \"gluster.brick._d_1.aggr.bytes_written\": 70\n",
            "r-1 read 100.5..101.5 0B \"_d_1\" bin
             r-1 write 100.5..101.5 60B \"_d_1\" bin",
        );
    }

    #[test]
    fn copies_count_once_where_the_volume_is_described() {
        let dump = |at: f64, n: u64| {
            format!(
                "# {at}\n\"gluster.brick._data_b1.aggr.bytes_read\": {n},\n\"gluster.brick._data_b1.aggr.bytes_written\": {n}\n"
            )
        };
        check(
            format!("{VOLUME}{}{}", dump(1.0, 0), dump(2.0, 300)),
            "r-1 read 1..2 300B \"n1:/data/b1\" bin
             r-1 write 1..2 100B \"n1:/data/b1\" bin",
        );
    }

    #[test]
    fn a_profile_is_read_brick_by_brick_and_only_what_is_cumulative() {
        let profile = |at: f64, n: u64| {
            let brick = |name: &str, written: u64| {
                format!(
                    "<brick>\n<brickName>{name}</brickName>\n<cumulativeStats>\n<fopStats>\n<fop>\n<name>WRITE</name>\n\
                     <hits>{written}</hits>\n</fop>\n</fopStats>\n<duration>9</duration>\n<totalRead>0</totalRead>\n\
                     <totalWrite>{written}</totalWrite>\n</cumulativeStats>\n<intervalStats>\n<totalRead>7</totalRead>\n\
                     <totalWrite>7</totalWrite>\n</intervalStats>\n</brick>\n"
                )
            };
            format!("# {at}\n<volProfile>\n{}{}</volProfile>\n", brick("n1:/a", n), brick("n2:/a", 2 * n))
        };
        check(
            format!("{}{}", profile(1.0, 5), profile(3.0, 8)),
            "r-1 read 1..3 0B \"n1:/a\" bin
             r-1 write 1..3 3B \"n1:/a\" bin
             r-1 read 1..3 0B \"n2:/a\" bin
             r-1 write 1..3 6B \"n2:/a\" bin",
        );
    }

    #[test]
    fn a_dispersed_volume_writes_more_than_it_is_given() {
        let volume = VOLUME
            .replace("<replicaCount>3", "<replicaCount>1")
            .replace("<disperseCount>0", "<disperseCount>3")
            .replace("<redundancyCount>0", "<redundancyCount>1");
        let dump = |at, n| format!("# {at}\n\"gluster.brick._data_b2.aggr.bytes_written\": {n}\n");
        check(format!("{volume}{}{}", dump(1, 0), dump(2, 300)), "r-1 write 1..2 200B \"n2:/data/b2\" bin");
    }

    #[test]
    fn the_same_dump_twice_is_one_and_what_makes_no_sense_is_a_loss() {
        let dump = |at: &str, n: &str| format!("# {at}\n\"gluster.brick._d.aggr.bytes_written\": {n}\n");
        check(
            [
                &*dump("1", "5"),
                &dump("1", "5"),
                &dump("2", "9"),
                &dump("1", "9"),
                &dump("noon", "9"),
                "\"gluster.vol.aggr.bytes_written\": 9\n",
                &dump("3", "x"),
                &dump("4", "2"),
                &dump("5", "6"),
            ]
            .concat(),
            "r-1 write 1..2 4B \"_d\" bin
             r-1 write 4..5 4B \"_d\" bin
             loss of 1: line 8: time 1 is not after 2, on the same target
             loss of 1: line 9: not a time in seconds behind #
             loss of 1: line 10: counted behind no line with a time
             loss of 1: line 11: counters of bricks and of clients are the same bytes: those that came first are taken
             loss of 1: line 13: a counter that is not a whole number
             loss of 1: line 15: the counter went from 9 to 2; nobody knows what was moved in between",
        );
    }

    #[test]
    fn dumps_without_a_time_say_how_to_get_one() {
        check(
            "{\n\"gluster.brick._d.aggr.bytes_written\": 5\n}\n",
            "error: input, as a whole: no line '# SECONDS' says when this was counted: let `stat -c '# %.Y' FILE` or `date +'# %s.%N'` write one before each",
        );
    }
}
