//! TMIO's JSON and JSON Lines, and FTIO's custom JSON.
//!
//! A text is one or more objects of modes (`write_sync`, `read_async_t`…), one object for the whole run or one a
//! flush. A mode has the arrays of its requests under `bandwidth`: bandwidths, starts and ends, or (FTIO only)
//! bandwidths and the times from which they hold.

use std::fs::File;
use std::sync::Arc;

use iotide_trace::{Event, EventSink, Layer, Op, Rank, TraceInfo};

use crate::{
    Place,
    column::Column,
    error::Fault,
    input::Input,
    json::{Json, Next},
    losses::{Losses, Nonsense, amount, interval, moment},
    scanner::Scanner,
    series::Steps,
    tmio::{Mode, mode},
};

/// Whether the text is one document, or objects on lines that stand for themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Document,
    Lines,
}

pub(crate) fn read(input: Input, shape: Shape, sink: &mut dyn EventSink) -> Result<TraceInfo, Fault> {
    let file = input.file().cloned();
    let mut reader = TmioJson {
        json: Json::new(Scanner::new(input.into_read())),
        file,
        info: TraceInfo::default(),
        losses: Losses::default(),
        n_modes: 0,
        stopped: false,
    };
    let json = &mut reader.json;
    json.scanner.skip_byte_order_mark()?;
    while !reader.stopped && reader.json.peek_byte()?.is_some() {
        match reader.modes(sink) {
            Ok(()) => {}
            Err(Fault::At(place, fault)) => {
                reader.losses.note_of_the_rest("damaged", place, || format!("{fault}; what follows is lost"));
                match shape {
                    Shape::Document => break,
                    // The next flush begins on a new line.
                    Shape::Lines => reader.skip_line()?,
                }
            }
            Err(fault) => return Err(fault),
        }
    }
    if reader.n_modes == 0 {
        reader
            .losses
            .unknown_size(Place::Byte(0), Nonsense::new("no mode", "no mode such as write_sync in it"));
    }
    reader.losses.report(sink);
    Ok(reader.info)
}

struct TmioJson {
    json: Json,
    file: Option<Arc<File>>,
    info: TraceInfo,
    losses: Losses,
    n_modes: u64,
    stopped: bool,
}

impl TmioJson {
    /// Reads an object whose members are modes.
    fn modes(&mut self, sink: &mut dyn EventSink) -> Result<(), Fault> {
        self.json.enter_object()?;
        let (mut first, mut key) = (true, String::new());
        while self.json.key(&mut first, &mut key)? {
            match mode(&key) {
                Some(known) => {
                    self.n_modes += 1;
                    match known {
                        Mode::Moved(op) if self.json.next()? == Next::Object => self.mode(op, &key, sink)?,
                        _ => self.json.skip()?,
                    }
                }
                None => self.json.skip()?,
            }
            if self.stopped {
                return Ok(());
            }
        }
        Ok(())
    }

    fn mode(&mut self, op: Op, name: &str, sink: &mut dyn EventSink) -> Result<(), Fault> {
        self.json.enter_object()?;
        let (mut first, mut key) = (true, String::new());
        while self.json.key(&mut first, &mut key)? {
            match key.as_str() {
                "number_of_ranks" if self.json.next()? == Next::Number => {
                    let n_ranks = self.json.number()?;
                    // A mode nobody used has 0.
                    if (1.0..1e9).contains(&n_ranks) {
                        let known = self.info.job.n_procs.unwrap_or(0);
                        self.info.job.n_procs = Some(known.max(n_ranks as u64));
                    }
                }
                "bandwidth" if self.json.next()? == Next::Object => {
                    let place = self.json.place();
                    let mut requests = Requests::default();
                    let taken = requests.take(&mut self.json, self.file.as_ref());
                    // Of arrays cut short, what they have in common is used before the fault is told.
                    self.emit(op, name, place, requests, sink)?;
                    taken?;
                }
                _ => self.json.skip()?,
            }
            if self.stopped {
                return Ok(());
            }
        }
        Ok(())
    }

    fn emit(
        &mut self,
        op: Op,
        name: &str,
        place: Place,
        requests: Requests,
        sink: &mut dyn EventSink,
    ) -> Result<(), Fault> {
        let Requests { overlap, t_overlap, rank_avr, rank_sum, t_rank_s, t_rank_e, ind, t_ind_s, t_ind_e } =
            requests;
        if !overlap.is_empty() {
            return self.emit_steps(op, name, place, [overlap, t_overlap], sink);
        }
        let rank = if rank_avr.is_empty() { rank_sum } else { rank_avr };
        if !rank.is_empty() || !t_rank_s.is_empty() {
            return self.emit_requests(op, name, place, [rank, t_rank_s, t_rank_e], sink);
        }
        self.emit_requests(op, name, place, [ind, t_ind_s, t_ind_e], sink)
    }

    fn emit_requests(
        &mut self,
        op: Op,
        name: &str,
        place: Place,
        columns: [Column; 3],
        sink: &mut dyn EventSink,
    ) -> Result<(), Fault> {
        let [mut rates, mut starts, mut ends] = columns.map(Column::into_values);
        let mut n_ragged = 0;
        loop {
            let (rate_bps, start_s, end_s) = match (rates.next()?, starts.next()?, ends.next()?) {
                (Some(rate_bps), Some(start_s), Some(end_s)) => (rate_bps, start_s, end_s),
                (None, None, None) => break,
                _ => {
                    n_ragged += 1;
                    continue;
                }
            };
            match request(op, rate_bps, start_s, end_s) {
                Ok(event) => {
                    if sink.event(event).is_break() {
                        self.stopped = true;
                        return Ok(());
                    }
                }
                Err(nonsense) => self.losses.record(place, nonsense),
            }
        }
        self.note_ragged(name, place, n_ragged);
        Ok(())
    }

    fn emit_steps(
        &mut self,
        op: Op,
        name: &str,
        place: Place,
        columns: [Column; 2],
        sink: &mut dyn EventSink,
    ) -> Result<(), Fault> {
        let [mut rates, mut times] = columns.map(Column::into_values);
        let mut steps = Steps::new(op);
        let mut n_ragged = 0;
        loop {
            let (rate_bps, time_s) = match (rates.next()?, times.next()?) {
                (Some(rate_bps), Some(time_s)) => (rate_bps, time_s),
                (None, None) => break,
                _ => {
                    n_ragged += 1;
                    continue;
                }
            };
            let time = match moment("t_overlap", time_s) {
                Ok(time) => time,
                Err(nonsense) => {
                    self.losses.record(place, nonsense);
                    continue;
                }
            };
            if let Some(event) = steps.push(time, amount("b_overlap", rate_bps), place, &mut self.losses)
                && sink.event(event).is_break()
            {
                self.stopped = true;
                return Ok(());
            }
        }
        steps.finish(&mut self.losses);
        self.note_ragged(name, place, n_ragged);
        Ok(())
    }

    fn note_ragged(&mut self, name: &str, place: Place, n_ragged: u64) {
        if n_ragged > 0 {
            let fault = format!("the arrays of {name} differ in length, {n_ragged} values have no partners");
            self.losses.records(n_ragged, place, Nonsense::new("arrays differ in length", fault));
        }
    }

    fn skip_line(&mut self) -> Result<(), Fault> {
        loop {
            let text = self.json.scanner.want(1)?;
            let newline = memchr::memchr(b'\n', text);
            let (len, ended) = (newline.unwrap_or(text.len()), newline.is_some() || text.is_empty());
            self.json.scanner.advance(len);
            if ended {
                return Ok(());
            }
        }
    }
}

/// A request of TMIO's: a rank's phase, with the bandwidth it had.
pub(crate) fn request(op: Op, rate_bps: f64, start_s: f64, end_s: f64) -> Result<Event, Nonsense> {
    let (start, end) = interval(start_s, end_s)?;
    let bytes = amount("bandwidth", rate_bps)? * end.secs_since(start);
    // The arrays do not say whose request it was.
    Ok(Event { layer: Layer::MpiIo, ..Event::data(op, Rank::ALL, start, end, bytes) })
}

/// The arrays under `bandwidth` that say what was moved when, at three levels; the first level that is there counts.
#[derive(Default)]
struct Requests {
    /// The application's bandwidth, and from when each value holds.
    overlap: Column,
    t_overlap: Column,
    /// The bandwidth of a rank's phase, as the mean of its calls or their sum: FTIO takes the mean, so do we.
    rank_avr: Column,
    rank_sum: Column,
    t_rank_s: Column,
    t_rank_e: Column,
    /// The bandwidth of single calls.
    ind: Column,
    t_ind_s: Column,
    t_ind_e: Column,
}

impl Requests {
    fn take(&mut self, json: &mut Json, file: Option<&Arc<File>>) -> Result<(), Fault> {
        json.enter_object()?;
        let (mut first, mut key) = (true, String::new());
        while json.key(&mut first, &mut key)? {
            let have_ranks = !self.t_rank_s.is_empty();
            let column = match key.as_str() {
                "b_overlap_avr" => Some(&mut self.overlap),
                "b_overlap_sum" if self.overlap.is_empty() => Some(&mut self.overlap),
                "t_overlap" => Some(&mut self.t_overlap),
                "b_rank_avr" => Some(&mut self.rank_avr),
                "b_rank_sum" if self.rank_avr.is_empty() => Some(&mut self.rank_sum),
                "t_rank_s" => Some(&mut self.t_rank_s),
                "t_rank_e" => Some(&mut self.t_rank_e),
                "b_ind" if !have_ranks => Some(&mut self.ind),
                "t_ind_s" if !have_ranks => Some(&mut self.t_ind_s),
                "t_ind_e" if !have_ranks => Some(&mut self.t_ind_e),
                _ => None,
            };
            match column {
                Some(column) if json.next()? == Next::Array => column.take(json, file)?,
                _ => json.skip()?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::check;

    #[test]
    fn a_document_of_modes_is_its_requests() {
        check(
            r#"{
                "read_sync": {"number_of_ranks": 2, "bandwidth": {"max": 1.0, "b_rank_avr": [ 10.0, 20 ],
                    "b_rank_sum": [99, 99], "t_rank_s": [0, 1], "t_rank_e": [2, 1.5], "b_ind": [1, 2, 3]}},
                "write_async_t": {"number_of_ranks": 4, "bandwidth": {"b_rank_avr": [5], "t_rank_s": [0], "t_rank_e": [1]}},
                "write_async_b": {"number_of_ranks": 4, "bandwidth": {"b_rank_avr": [7], "t_rank_s": [0], "t_rank_e": [1]}},
                "io_time": {"delta_t_agg": 3.0},
                "remark": ["nothing", null, true]
            }"#,
            "r-1 read 0..2 20B
             r-1 read 1..1.5 10B
             r-1 write 0..1 5B
             procs: 4",
        );
    }

    #[test]
    fn flushes_follow_each_other_line_by_line() {
        let line = |start: u32| {
            format!(
                "\t{{\"write_sync\":{{\"number_of_ranks\": 1,\"bandwidth\": {{\"b_rank_avr\": [ 8.0],\
                 \"t_rank_s\": [ {start}.5],\"t_rank_e\": [ {}.5]}}}}}}\n",
                start + 1
            )
        };
        check(
            (0..3).map(line).collect::<String>(),
            "r-1 write 0.5..1.5 8B
             r-1 write 1.5..2.5 8B
             r-1 write 2.5..3.5 8B
             procs: 1",
        );
        check(
            [line(0), "\t{\"write_sync\":{\"bandwidth\": oops\n".to_owned(), line(2)].concat(),
            "r-1 write 0.5..1.5 8B
             r-1 write 2.5..3.5 8B
             procs: 1
             loss: byte 142: a value cannot begin with \"o\"; what follows is lost",
        );
    }

    #[test]
    fn numbers_that_are_none_are_losses() {
        check(
            r#"{"write_sync": {"bandwidth": {"b_rank_avr": [NaN, inf, -nan, 1, Infinity], "t_rank_s": [0, 0, 0, 0, 0], "t_rank_e": [1, 1, 1, 1, 1]}}}"#,
            "r-1 write 0..1 1B
             loss of 4: byte 29: bandwidth NaN is not an amount, and 3 more like it",
        );
    }

    #[test]
    fn arrays_of_different_lengths_are_used_as_far_as_they_go() {
        check(
            r#"{"write_sync": {"bandwidth": {"b_rank_avr": [1, 2, 3], "t_rank_s": [0, 1], "t_rank_e": [1]}}}"#,
            "r-1 write 0..1 1B
             loss of 2: byte 29: the arrays of write_sync differ in length, 2 values have no partners",
        );
    }

    #[test]
    fn of_a_text_that_was_cut_the_whole_requests_are_kept() {
        check(
            r#"{"write_sync": {"bandwidth": {"b_rank_avr": [1, 2, 3], "t_rank_s": [0, 1, 2], "t_rank_e": [1, 2,"#,
            "r-1 write 0..1 1B
             r-1 write 1..2 2B
             loss of 1: byte 29: the arrays of write_sync differ in length, 1 values have no partners
             loss: byte 96: the text ends where a number should be; what follows is lost",
        );
    }

    #[test]
    fn where_ranks_are_missing_single_calls_count() {
        check(
            r#"{"write_sync": {"bandwidth": {"b_rank_avr": [], "t_rank_s": [], "t_rank_e": [], "b_ind": [4], "t_ind_s": [1], "t_ind_e": [2]}}}"#,
            "r-1 write 1..2 4B",
        );
        check(
            r#"{"write_sync": {"bandwidth": {"b_rank_sum": [4], "t_rank_s": [1], "t_rank_e": [2]}}}"#,
            "r-1 write 1..2 4B",
        );
    }

    #[test]
    fn bandwidth_of_the_application_may_be_given_with_whole_numbers() {
        check(
            r#"{"write_sync": {"number_of_ranks": 4, "bandwidth": {"b_overlap_avr": [1000, 2000, 0], "t_overlap": [1, 2, 4]}}}"#,
            "r-1 write 1..2 1000B bin
             r-1 write 2..4 4000B bin
             procs: 4",
        );
    }

    #[test]
    fn a_document_that_is_damaged_from_the_start_is_an_error() {
        check(
            "{\"write_sync\": }",
            "error: input holds no record that can be used: byte 15: a value cannot begin with \"}\"; what follows is lost",
        );
    }
}
