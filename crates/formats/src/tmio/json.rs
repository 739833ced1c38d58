//! TMIO's JSON and JSON Lines, and FTIO's custom JSON.
//!
//! A text is one or more objects of modes (`write_sync`, `read_async_t`…), one object for the whole run or one a
//! flush. A mode has the arrays of its requests under `bandwidth`: bandwidths, starts and ends, or (FTIO only)
//! bandwidths and the times from which they hold.

use std::fs::File;
use std::sync::Arc;

use iotide_trace::{Event, EventSink, FileId, Grain, Layer, Op, Rank, TraceInfo};

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
    if json.scanner.want(3)?.starts_with(b"\xef\xbb\xbf") {
        json.scanner.advance(3);
    }
    while !reader.stopped && reader.json.peek_byte()?.is_some() {
        match reader.modes(sink) {
            Ok(()) => {}
            Err(Fault::At(place, fault)) => {
                reader
                    .losses
                    .unknown_size(place, Nonsense::new("damaged", format!("{fault}; what follows is lost")));
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
fn request(op: Op, rate_bps: f64, start_s: f64, end_s: f64) -> Result<Event, Nonsense> {
    let (start, end) = interval(start_s, end_s)?;
    Ok(Event {
        op,
        layer: Layer::MpiIo,
        grain: Grain::Call,
        // The arrays do not say whose request it was.
        rank: Rank::ALL,
        file: FileId::NONE,
        start,
        end,
        bytes: amount("bandwidth", rate_bps)? * end.secs_since(start),
        calls: 1,
    })
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
