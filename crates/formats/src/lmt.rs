//! LMT, the Lustre Monitoring Tool: what its database knows of the storage targets, as the `mysql` client prints it.
//!
//! ```text
//! TIMESTAMP            OST_ID  READ_BYTES     WRITE_BYTES
//! 2013-05-01 12:00:00  1       982344015872   7712344015872
//! 2013-05-01 12:00:05  1       982344015872   7722344015872
//! ```
//!
//! Columns are separated by tabs or commas and come in any order; others are not looked at. The database counts bytes since
//! the server was started, so between two rows of one target lies one bin.

use std::ops::ControlFlow;

use iotide_trace::{EventSink, Op, Timestamp, TraceInfo};

use crate::{
    counters::{Counters, Redundancy, Sample, Total},
    detect::{has, header},
    error::Fault,
    input::Input,
    jobs::date_unix_s,
    lenient::parse_u64,
    losses::{Losses, Nonsense, moment},
    number::parse_f64,
    rows::{Rows, Syntax, quoted},
};

const COLUMNS: &[&str] = &["timestamp", "ts_id", "ost_id", "ost_name", "read_bytes", "write_bytes"];
const TIME: usize = 0;
/// The number of a row of `TIMESTAMP_INFO`, which holds the time.
const TIME_ID: usize = 1;
const TARGET: [usize; 2] = [2, 3];
const COUNTERS: [(usize, Op); 2] = [(4, Op::Read), (5, Op::Write)];

/// Whether a file begins like one of these.
pub(crate) fn recognises(head: &[u8]) -> bool {
    header(head, b"\t,").is_some_and(|names| {
        let has = |column: usize| has(&names, COLUMNS[column]);
        names.len() > 1 && COUNTERS.iter().any(|&(column, _)| has(column)) && (has(TIME) || has(TIME_ID))
    })
}

/// Reads one file.
pub(crate) fn read(input: Input, sink: &mut dyn EventSink) -> Result<TraceInfo, Fault> {
    let mut decoder = Decoder::default();
    let mut rows = Rows::open(input, Syntax::Printed, COLUMNS, &[], &mut decoder.losses)?;
    require_times_and_counters(&rows)?;
    // The number and the name of a target say the same.
    let target = TARGET.into_iter().find(|&column| rows.has(column)).unwrap_or(TARGET[0]);
    while rows.advance(&mut decoder.losses)? {
        if decoder.row(&rows, target, sink).is_break() {
            break;
        }
    }
    let Decoder { counters, mut losses } = decoder;
    let files = counters.files.into_paths(&mut losses);
    rows.report(losses, sink);
    Ok(TraceInfo { files, job: rows.job })
}

fn require_times_and_counters(rows: &Rows) -> Result<(), Fault> {
    let fault = if !rows.has(TIME) && rows.has(TIME_ID) {
        "TS_ID is not a time: join OST_DATA with TIMESTAMP_INFO using (TS_ID), and select TIMESTAMP"
    } else if !rows.has(TIME) {
        "the header has no column TIMESTAMP"
    } else if !COUNTERS.iter().any(|&(column, _)| rows.has(column)) {
        "the header has neither READ_BYTES nor WRITE_BYTES"
    } else {
        return Ok(());
    };
    Err(Fault::at(rows.header_place(), fault))
}

/// A value of a row; `None` where it has none.
fn value(rows: &Rows, column: usize) -> Option<&[u8]> {
    rows.value(column).filter(|value| !is_null(value))
}

/// How the client writes that there is no value, and how an outfile has it.
fn is_null(value: &[u8]) -> bool {
    value.eq_ignore_ascii_case(b"NULL") || value == b"\\N"
}

#[derive(Default)]
struct Decoder {
    counters: Counters,
    losses: Losses,
}

impl Decoder {
    fn row(&mut self, rows: &Rows, target: usize, sink: &mut dyn EventSink) -> ControlFlow<()> {
        let place = rows.place();
        let time = match time_of(value(rows, TIME)) {
            Ok(time) => time,
            Err(nonsense) => {
                self.losses.record(place, nonsense);
                return ControlFlow::Continue(());
            }
        };
        let target = value(rows, target).unwrap_or_default();
        let label = || format!("OST {}", String::from_utf8_lossy(target));
        for (column, op) in COUNTERS {
            let Some(text) = value(rows, column) else { continue };
            let Some(bytes) = parse_u64(text) else {
                self.losses.note("counter", place, || format!("{} is not a counter", quoted(text)));
                continue;
            };
            let total = Total { bytes, calls: None };
            let sample = Sample { target, time, op, total, redundancy: Redundancy::NONE, place };
            self.counters.sample(sample, label, &mut self.losses, sink)?;
        }
        ControlFlow::Continue(())
    }
}

/// Seconds since 1970, or a date; one without a zone is taken for UTC.
fn time_of(text: Option<&[u8]>) -> Result<Timestamp, Nonsense> {
    let text = text.ok_or_else(|| Nonsense::new("no value", "no value for TIMESTAMP"))?;
    let seconds = parse_f64(text).or_else(|| date_unix_s(text, 0.0)).ok_or_else(|| {
        let fault = format!("TIMESTAMP is {}, neither a number of seconds nor a date", quoted(text));
        Nonsense::new("not a time", fault)
    })?;
    moment("TIMESTAMP", seconds)
}

#[cfg(test)]
mod tests {
    use crate::testing::check;

    #[test]
    fn between_two_rows_of_a_target_lies_one_bin() {
        check(
            "TIMESTAMP\tOST_ID\tREAD_BYTES\tWRITE_BYTES\n\
             100\t1\t50\t7000\n100\t2\t0\t10\n105\t1\t50\t8000\n105\t2\t30\t10\n",
            "r-1 read 100..105 0B \"OST 1\" bin
             r-1 write 100..105 1000B \"OST 1\" bin
             r-1 read 100..105 30B \"OST 2\" bin
             r-1 write 100..105 0B \"OST 2\" bin",
        );
    }

    #[test]
    fn an_outfile_with_commas_quotes_and_other_columns_is_the_same() {
        check(
            "\"WRITE_BYTES\",\"PCT_CPU\",\"TIMESTAMP\"\n\"5\",\"1.5\",\"1970-01-01 00:00:10\"\n\"9\",\\N,\"1970-01-01 00:00:12\"\n",
            "r-1 write 10..12 4B bin",
        );
    }

    #[test]
    fn a_counter_that_began_anew_leaves_a_hole() {
        check(
            "TIMESTAMP,WRITE_BYTES\n0,1000\n5,1010\n10,4\n15,9\n",
            "r-1 write 0..5 10B bin
             r-1 write 10..15 5B bin
             loss of 1: line 4: the counter went from 1010 to 4; nobody knows what was moved in between",
        );
    }

    #[test]
    fn a_value_that_is_missing_is_made_up_for_by_the_next() {
        check(
            "TIMESTAMP,READ_BYTES,WRITE_BYTES\n0,1,1\n5,NULL,2\n10,9,3\n",
            "r-1 write 0..5 1B bin
             r-1 read 0..10 8B bin
             r-1 write 5..10 1B bin",
        );
    }

    #[test]
    fn rows_that_make_no_sense_are_losses() {
        check(
            "TIMESTAMP,OST_ID,WRITE_BYTES\n0,1,1\n5,1,2\n4,1,3\nnoon,1,4\n6,1,-4\n7,1\n8,1,6\n",
            "r-1 write 0..5 1B \"OST 1\" bin
             r-1 write 5..8 4B \"OST 1\" bin
             loss of 1: line 4: time 4 is not after 5, on the same target
             loss of 1: line 5: TIMESTAMP is \"noon\", neither a number of seconds nor a date
             loss of 1: line 6: \"-4\" is not a counter
             loss of 1: line 7: 2 fields where the header has 3",
        );
    }

    #[test]
    fn a_table_without_times_says_how_to_get_them() {
        check(
            "TS_ID\tOST_ID\tWRITE_BYTES\n1\t1\t5\n",
            "error: input, line 1: TS_ID is not a time: join OST_DATA with TIMESTAMP_INFO using (TS_ID), and select TIMESTAMP",
        );
    }
}
