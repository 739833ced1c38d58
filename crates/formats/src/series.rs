//! Tables of bandwidth over time, as CSV or JSON Lines: `time,bandwidth` or `time,read,write`.
//!
//! Each value holds until the next row, so the last row only says when the signal ends.
//!
//! This is the smallest format, and the one to copy for a new one.

use iotide_trace::{Event, EventSink, FileId, Grain, Layer, Op, Rank, Timestamp, TraceInfo};

use crate::{
    Place,
    error::Fault,
    input::Input,
    losses::{Losses, Nonsense, amount, moment},
    rows::{Rows, Syntax},
};

const COLUMNS: &[&str] = &["time", "bandwidth", "read", "write"];
const TIME: usize = 0;
/// Columns of bandwidth, and which way the bytes went; a plain `bandwidth` counts as written.
const RATES: [(usize, Op); 3] = [(1, Op::Write), (2, Op::Read), (3, Op::Write)];

/// Reads the table. Sections every reader has: what it needs, records one by one, losses at the end.
pub(crate) fn read(input: Input, syntax: Syntax, sink: &mut dyn EventSink) -> Result<TraceInfo, Fault> {
    let mut losses = Losses::default();
    let mut rows = Rows::open(input, syntax, COLUMNS, &[TIME], &mut losses)?;
    rows.require([TIME])?;
    if !RATES.iter().any(|&(column, _)| rows.has(column)) {
        rows.require([RATES[0].0])?;
    }

    let mut steps = RATES.map(|(_, op)| Steps::new(op));
    'rows: while rows.advance(&mut losses)? {
        // A record that makes no sense is left out and counted; reading goes on.
        let time = match rows.number(TIME).and_then(|time| moment("time", time)) {
            Ok(time) => time,
            Err(nonsense) => {
                losses.record(rows.place(), nonsense);
                continue;
            }
        };
        if !RATES.iter().any(|&(column, _)| rows.value(column).is_some()) {
            losses
                .record(rows.place(), Nonsense::new("no bandwidth", "no value for bandwidth, read or write"));
        }
        for (steps, (column, _)) in steps.iter_mut().zip(RATES) {
            let rate = match rows.value(column) {
                None => continue,
                Some(_) => rows.number(column).and_then(|rate| amount(COLUMNS[column], rate)),
            };
            match steps.push(time, rate, rows.place(), &mut losses) {
                // A sink that breaks wants nothing more.
                Some(event) if sink.event(event).is_break() => break 'rows,
                _ => {}
            }
        }
    }
    for steps in steps {
        steps.finish(&mut losses);
    }
    rows.report(losses, sink);
    Ok(TraceInfo { job: rows.job, files: Vec::new() })
}

/// Bandwidth that comes as values at times, each of which holds until the next.
pub(crate) struct Steps {
    op: Op,
    /// When the last value began, and what it was: `None` if it made no sense, and the time until the next is unknown.
    last: Option<(Timestamp, Option<f64>, Place)>,
}

impl Steps {
    pub(crate) fn new(op: Op) -> Self {
        Self { op, last: None }
    }

    /// Takes the value from `time` on; returns what the value before it moved until then.
    pub(crate) fn push(
        &mut self,
        time: Timestamp,
        rate_bps: Result<f64, Nonsense>,
        place: Place,
        losses: &mut Losses,
    ) -> Option<Event> {
        if let Some((last, ..)) = self.last
            && time <= last
        {
            let fault = format!("time {} is not after {}", time.as_secs(), last.as_secs());
            losses.record(place, Nonsense::new("time goes back", fault));
            return None;
        }
        let rate_bps = rate_bps.map_err(|nonsense| losses.record(place, nonsense)).ok();
        let (start, rate_bps, _) = self.last.replace((time, rate_bps, place))?;
        Some(bin(self.op, start, time, rate_bps?))
    }

    /// Notes a last value that is lost because nothing says how long it held.
    pub(crate) fn finish(self, losses: &mut Losses) {
        if let Some((_, Some(rate_bps), place)) = self.last
            && rate_bps > 0.0
        {
            let fault = format!("the last value, {rate_bps} bytes per second, has no end and is left out");
            losses.record(place, Nonsense::new("no end", fault));
        }
    }
}

/// Returns the event that stands for a bandwidth while it holds. The number of its calls is unknown: 0.
pub(crate) fn bin(op: Op, start: Timestamp, end: Timestamp, rate_bps: f64) -> Event {
    Event {
        op,
        layer: Layer::Unknown,
        grain: Grain::Bin,
        rank: Rank::ALL,
        file: FileId::NONE,
        start,
        end,
        bytes: rate_bps * end.secs_since(start),
        calls: 0,
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::check;

    #[test]
    fn each_value_holds_until_the_next_row() {
        check(
            "time,bandwidth\n0,100\n2,50\n3,0\n",
            "r-1 write 0..2 200B bin
             r-1 write 2..3 50B bin",
        );
    }

    #[test]
    fn semicolons_and_units_are_those_of_the_header() {
        check(
            "time_ms;bandwidth\n0;100\n2000;50,5\n3000;0\n",
            "r-1 write 0..2 200B bin
             r-1 write 2..3 50.5B bin",
        );
    }

    #[test]
    fn reads_and_writes_have_columns_of_their_own() {
        check(
            "# nprocs=2\ntime,read,write\n0,100,1\n2,50,\n3,0,0\n",
            "r-1 read 0..2 200B bin
             r-1 read 2..3 50B bin
             r-1 write 0..3 3B bin
             procs: 2",
        );
    }

    #[test]
    fn a_last_value_without_an_end_is_a_loss() {
        check(
            "time,bandwidth\n0,100\n2,50\n",
            "r-1 write 0..2 200B bin
             loss of 1: line 3: the last value, 50 bytes per second, has no end and is left out",
        );
    }

    #[test]
    fn the_time_of_a_value_that_makes_no_sense_stays_unknown() {
        check(
            "time,bandwidth\n0,100\n1,-3\n2,7\n1.5,9\n3,NaN\n4,1\n5,0\n",
            "r-1 write 0..1 100B bin
             r-1 write 2..3 7B bin
             r-1 write 4..5 1B bin
             loss of 2: line 3: bandwidth -3 is not an amount, and 1 more like it
             loss of 1: line 5: time 1.5 is not after 2",
        );
    }

    #[test]
    fn json_lines_have_the_same_names() {
        check(
            "{\"time\": 0, \"bandwidth\": 100}\n{\"time\": 2, \"bandwidth\": 0}\n",
            "r-1 write 0..2 200B bin",
        );
    }

    #[test]
    fn a_row_without_any_bandwidth_is_a_loss() {
        check(
            "{\"time\": 0, \"bandwidth\": 100}\n{\"time\": 1, \"speed\": 7}\n{\"time\": 2, \"bandwidth\": 0}\n",
            "r-1 write 0..2 200B bin
             loss of 1: line 2: no value for bandwidth, read or write",
        );
    }

    #[test]
    fn a_table_of_time_alone_lacks_a_column() {
        check("time,speed\n0,1\n", "error: input, line 1: the header has no column bandwidth");
    }
}
